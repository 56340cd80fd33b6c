// shared_size: what does a block that asks for much shared memory take from its neighbours? "Each
// SM has a limited amount of shared memory that is partitioned among thread blocks. Over-utilizing
// shared memory will limit the number of active warps" [LC 1]. The blocks of this copy ask for
// shared memory and never touch it: all that changes is how many of them are resident.
//
// Look at how few blocks the bandwidth needs: with half of them most of it is left.
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o shared_size shared_size.cu ../common/*.cpp
//
//   1  copy             a thread copies one word of 16 bytes
//   2  count_residents  blocks sign in and out on their multiprocessor
#include <algorithm>

#include "../common/arrays.cuh"
#include "../common/sample.hpp"

namespace {

constexpr unsigned block_threads = 256;

// Each warp reads and writes 32 neighbouring words of 16 bytes, one per lane, which is all that a
// thread ever has in flight.
__global__ void copy(uint4* out, const uint4* in, size_t n) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < n) out[i] = in[i];
}

constexpr unsigned sm_slots = 1024;  // more than any GPU has multiprocessors

/// How many blocks are on each multiprocessor now and were at most, and how many have come in all.
struct Residents {
  unsigned now[sm_slots], peak[sm_slots], arrived;
};

// Each block's first thread signs in on its multiprocessor. It stays until all `expected` blocks
// have come (0.1 s at most, so that a wrong expectation ends too). Then it stays 20 us more, in
// which one block too many would show.
__global__ void count_residents(Residents* residents, unsigned expected) {
  if (threadIdx.x == 0) {
    unsigned sm;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    sm %= sm_slots;
    atomicMax(&residents->peak[sm], atomicAdd(&residents->now[sm], 1u) + 1);
    atomicAdd(&residents->arrived, 1u);
    long long start = clock64();
    while (atomicAdd(&residents->arrived, 0u) < expected && clock64() - start < 200'000'000)
      continue;
    start = clock64();
    while (clock64() - start < 40'000) continue;
    atomicSub(&residents->now[sm], 1u);
  }
  __syncthreads();  // the block's other warps stay as long
}

/// Without this a block may ask for 48 KiB at most. Of the memory that shared memory and L1 divide,
/// shared memory gets all it can have, so that L1 is as large for every size.
template <class Kernel>
void allow(Kernel* kernel, size_t bytes) {
  CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(bytes)));
  CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                                  int(cudaSharedmemCarveoutMaxShared)));
}

/// Blocks that fit on a multiprocessor, each with `bytes` of shared memory.
int predicted_blocks(unsigned threads, size_t bytes) {
  int blocks = 0;
  CUDA_CHECK(
      cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, count_residents, int(threads), bytes));
  return blocks;
}

/// The most that were seen on one at once, of twice as many launched as all should hold.
int counted_blocks(unsigned threads, size_t bytes, int expected) {
  const DeviceBuffer<Residents> residents(std::vector<Residents>(1));
  const unsigned all = unsigned(expected * current_gpu().multiProcessorCount);
  count_residents<<<2 * all, threads, bytes>>>(residents, all);
  CUDA_CHECK_LAUNCH();
  const Residents seen = residents.to_host()[0];
  if (seen.arrived != 2 * all) throw WrongResult("count_residents: blocks went missing");
  return int(*std::max_element(std::begin(seen.peak), std::end(seen.peak)));
}

/// A copy whose blocks ask for `shared` bytes each.
Benchmark copying(const GuardedBuffer<unsigned>& out, const DeviceBuffer<unsigned>& in,
                  size_t shared) {
  const auto work = [=, to = out.as<uint4>(), from = in.as<uint4>()] {
    const unsigned blocks = unsigned(ceil_div(to.size(), block_threads));
    copy<<<blocks, block_threads, shared>>>(to, from, to.size());
  };
  const auto value = [] __device__(size_t i) { return hash(i); };
  return {bytes_text(double(shared)), work, equals(out, value)};
}

}  // namespace

void shared_size(Run& run) {
  const size_t most = run.gpu.sharedMemPerBlockOptin;
  allow(copy, most);
  allow(count_residents, most);
  const size_t n = run.fitting(size_t(1) << 26, 2 * sizeof(unsigned));
  const double bytes = 4.0 * double(n);
  const auto in = filled<unsigned>(n, [] __device__(size_t i) { return hash(i); });
  const GuardedBuffer<unsigned> out(n);
  run.title("a copy of " + bytes_text(bytes) + " by blocks of 256 threads; an SM has " +
            bytes_text(double(run.gpu.sharedMemPerMultiprocessor)) + " of shared memory");

  std::vector<size_t> sizes;
  for (const size_t size : {0, 16, 32, 48, 64, 80, 112, 128})
    if (size * 1024 < most) sizes.push_back(size * 1024);
  sizes.push_back(most);
  std::vector<Benchmark> benchmarks;
  for (const size_t shared : sizes) benchmarks.push_back(copying(out, in, shared));
  const Timings timed = run.timer.interleaved(benchmarks);

  Table table("a block asks for",
              {"predicted blocks", "blocks", "warps", "KiB in flight", "GB/s", ""});
  const double ms_of_nothing = timed[benchmarks[0].name].median();
  std::vector<unsigned> warps;
  for (const Benchmark& benchmark : benchmarks) {
    const size_t shared = sizes[warps.size()];
    const int predicted = predicted_blocks(block_threads, shared);
    const unsigned blocks = counted_blocks(block_threads, shared, predicted);
    warps.push_back(blocks * block_threads / 32);
    const Times& times = timed[benchmark.name];
    table.row(benchmark.name, {predicted, blocks, warps.back(), blocks * block_threads * 16 / 1024,
                               times.gbs_interval(2 * bytes), bar(ms_of_nothing / times.median())});
  }
  run.print(table);
  run.note("of a multiprocessor; a block takes " +
           bytes_text(double(run.gpu.reservedSharedMemPerBlock)) + " more than it asks for");
  if (!run.beyond_l2(bytes)) run.note("less than four times the L2: part of this is its rate");
  const auto text = [](unsigned count) { return std::to_string(count) + " warps"; };
  run.observed({"06.6", "over-utilising shared memory limits the number of active warps",
                "[LC 1] \"will limit the number of active warps\""},
               warps.back() < warps.front(),
               text(warps.front()) + " if blocks ask for nothing, " + text(warps.back()) +
                   " if each asks for " + bytes_text(double(most)) + ", counted");
}
SAMPLE(7, shared_size, "resident blocks over the shared memory that each asks for");

TEST_CASE("shared_size: as many blocks are counted as are predicted") {
  if (skip_without_gpu()) return;
  const cudaDeviceProp gpu = current_gpu();
  const size_t most = gpu.sharedMemPerBlockOptin;
  allow(count_residents, most);
  for (const unsigned threads : {1, 33, 96, 256})
    for (const size_t bytes : {most / 3, most / 2 + 1, most}) {
      // a block takes what is reserved too, and multiples of 128 or 256 bytes
      const size_t unit = gpu.major >= 8 ? 128 : 256;
      const size_t taken = (bytes + gpu.reservedSharedMemPerBlock + unit - 1) / unit * unit;
      const int by_hand = int(gpu.sharedMemPerMultiprocessor / taken);
      CHECK(predicted_blocks(threads, bytes) == by_hand);
      CHECK(counted_blocks(threads, bytes, by_hand) == by_hand);
    }
}

TEST_CASE("shared_size: every word is copied, whatever a block asks for") {
  if (skip_without_gpu()) return;
  const size_t most = current_gpu().sharedMemPerBlockOptin;
  allow(copy, most);
  for (const size_t n : {1, 1009, 65537}) {
    const auto in = filled<unsigned>(4 * n, [] __device__(size_t i) { return hash(i); });
    const GuardedBuffer<unsigned> out(4 * n);
    for (const size_t shared : {size_t(0), size_t(1), most}) {
      const Benchmark copied = copying(out, in, shared);
      copied.check.poison();
      CHECK(copied.check.find_error() != "");
      copied.work();
      CUDA_CHECK_LAUNCH();
      CHECK(copied.check.find_error() == "");
    }
  }
}
