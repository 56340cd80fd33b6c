// in_flight: how many bytes must be in flight to use all of the memory's bandwidth? The wiki asks
// for "sufficient concurrent memory operations to hide memory latency", and gives no number [LC 3].
// Little's law gives one: bytes in flight = bandwidth x latency.
//
// Look at rows with equal bytes in flight. One word of 4, 8 or 16 bytes per thread gives the same
// rate. Several words per thread give less, until the memory is the limit: they do not arrive
// together, and the thread goes on after the last one. A ring, which waits for the oldest word
// alone, loses less (async_copy).
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o in_flight in_flight.cu ../common/*.cpp
//
//   1  read_one           one word of 4, 8 or 16 bytes per thread in flight
//   2  read4x4, read16x2  four words of 4 bytes, two words of 16 bytes
//   3  chase              one thread, one load after another
#include <algorithm>

#include "../common/arrays.cuh"
#include "../common/sample.hpp"

namespace {

// ---- kernels: thread t adds up the words t, t + threads, t + 2 threads ... of n, into out[t] ----

__device__ unsigned total(unsigned word) { return word; }
__device__ unsigned total(uint2 word) { return word.x + word.y; }
__device__ unsigned total(uint4 word) { return word.x + word.y + word.z + word.w; }

// A thread has one word in flight: it waits for the word before it asks for the next one. A warp
// asks for 32 neighbours: 4 sectors of 32 bytes if a word has 4 bytes, 8 or 16 if it has 8 or 16.
template <class Word>
__global__ void read_one(unsigned* out, const Word* in, size_t n) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  unsigned sum = 0;
#pragma unroll 1  // so that no compiler puts the words of several turns in flight
  for (size_t i = tid; i < n; i += threads) sum += total(in[i]);
  out[tid] = sum;
}

// A thread asks for four words, and waits for all of them before it asks for the next four.
__global__ void read4x4(unsigned* out, const unsigned* in, size_t n) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  unsigned sum = 0;
  size_t i = tid;
#pragma unroll 1
  for (; i + 3 * threads < n; i += 4 * threads) {
    const unsigned a = in[i];
    const unsigned b = in[i + threads];
    const unsigned c = in[i + 2 * threads];
    const unsigned d = in[i + 3 * threads];
    sum += a + b + c + d;
  }
#pragma unroll 1
  for (; i < n; i += threads) sum += in[i];  // the remaining words, one at a time
  out[tid] = sum;
}

// Two words of 16 bytes at a time.
__global__ void read16x2(unsigned* out, const uint4* in, size_t n) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  unsigned sum = 0;
  size_t i = tid;
#pragma unroll 1
  for (; i + threads < n; i += 2 * threads) {
    const uint4 a = in[i];
    const uint4 b = in[i + threads];
    sum += total(a) + total(b);
  }
  if (i < n) sum += total(in[i]);  // the remaining word
  out[tid] = sum;
}

// One thread. Each word says where the next one is, so no two loads overlap.
__global__ void chase(unsigned* at, const unsigned* ring, unsigned loads) {
  unsigned word = *at;
  for (unsigned k = 0; k < loads; ++k) word = ring[word];
  *at = word;
}

// ---- latency: a ring of slots all over a part of the memory ----

constexpr unsigned slot_words = 64;       // 256 bytes: no load finds what came with another
constexpr unsigned ring_slots = 1 << 19;  // 128 MiB; all launches together visit no slot twice
constexpr unsigned chased = 4096;         // loads per launch, about 1.4 ms

/// The slot after `slot` in a ring of 2^k slots: a generator of full period (factor 4 m + 1, odd
/// addend), which visits each slot once.
__host__ __device__ unsigned next_slot(unsigned slot, unsigned slots) {
  return (slot * 1664525u + 1013904223u) & (slots - 1);
}

DeviceBuffer<unsigned> ring_words() {
  return filled<unsigned>(size_t(ring_slots) * slot_words, [] __device__(size_t i) -> unsigned {
    return i % slot_words ? 0 : next_slot(unsigned(i / slot_words), ring_slots) * slot_words;
  });
}

/// Each launch of chase goes on where the one before ended.
struct Ring {
  DeviceBuffer<unsigned> words = ring_words();
  DeviceBuffer<unsigned> at{std::vector<unsigned>{0}};
  unsigned from = 0;  ///< where the launch that is checked began
};

/// The word at which a launch must end.
unsigned end_of_chase(unsigned from) {
  unsigned slot = from / slot_words;
  for (unsigned k = 0; k < chased; ++k) slot = next_slot(slot, ring_slots);
  return slot * slot_words;
}

Benchmark chase_benchmark(Ring& ring) {
  const auto work = [&ring] { chase<<<1, 1>>>(ring.at, ring.words, chased); };
  const auto poison = [&ring] { ring.from = ring.at.to_host()[0]; };  // to stay there is wrong
  const auto find_error = [&ring]() -> std::string {
    return ring.at.to_host()[0] == end_of_chase(ring.from) ? "" : "it ended at another word";
  };
  return {"chase", work, {poison, find_error}};
}

// ---- the rows of the table ----

struct Grid {
  unsigned blocks, threads;
  unsigned total() const { return blocks * threads; }
};

/// So many threads on every multiprocessor: as one block or, beyond 1024, as two.
Grid grid_of(unsigned resident, unsigned multiprocessors) {
  const unsigned blocks = resident > 1024 ? 2 : 1;
  return {blocks * multiprocessors, resident / blocks};
}

/// Threads per multiprocessor, up to the most that fit.
std::vector<unsigned> residents(unsigned most) {
  std::vector<unsigned> all;
  for (unsigned threads = 128; threads < most; threads *= 2) all.push_back(threads);
  all.push_back(most);
  return all;
}

template <auto kernel, class Word>
void launch(Grid grid, unsigned* out, const unsigned* in, size_t bytes) {
  const auto* words = reinterpret_cast<const Word*>(in);
  kernel<<<grid.blocks, grid.threads>>>(out, words, bytes / sizeof(Word));
}

/// What a thread has in flight.
struct Load {
  const char* name;
  unsigned at_once, word_bytes;
  void (*launch)(Grid grid, unsigned* out, const unsigned* in, size_t bytes);
  unsigned bytes() const { return at_once * word_bytes; }
};
const Load loads[] = {{"4 bytes", 1, 4, launch<read_one<unsigned>, unsigned>},
                      {"8 bytes", 1, 8, launch<read_one<uint2>, uint2>},
                      {"16 bytes", 1, 16, launch<read_one<uint4>, uint4>},
                      {"4 x 4 bytes", 4, 4, launch<read4x4, unsigned>},
                      {"2 x 16 bytes", 2, 16, launch<read16x2, uint4>}};

std::string name_of(const Load& load, unsigned resident) {
  return std::string(load.name) + ", " + std::to_string(resident);
}

/// The sum of the words that a thread must read.
__host__ __device__ unsigned right_sum(size_t thread, size_t threads, unsigned word_bytes,
                                       size_t bytes) {
  const unsigned wide = word_bytes / 4;
  unsigned sum = 0;
  for (size_t word = thread; word < bytes / word_bytes; word += threads)
    for (unsigned k = 0; k < wide; ++k) sum += hash(word * wide + k);
  return sum;
}

/// `out` has room for at least the grid's threads; what is behind them must stay poisoned.
Benchmark benchmark_of(const std::string& name, const Load& load, Grid grid, size_t bytes,
                       const DeviceBuffer<unsigned>& in, const GuardedBuffer<unsigned>& out) {
  const auto work = [&load, grid, bytes, &in, &out] { load.launch(grid, out, in, bytes); };
  const auto value = [threads = grid.total(), word_bytes = load.word_bytes,
                      bytes] __device__(size_t t) -> unsigned {
    return t < threads ? right_sum(t, threads, word_bytes, bytes) : ~0u;
  };
  return {name, work, equals(out, value)};
}

// ---- the model ----

/// Little's law: GB/s (bytes per nanosecond) if so many bytes are in flight, and each of them for
/// `ns`. But never more than the memory delivers.
double predicted_gbs(double in_flight, double ns, double most_gbs) {
  return std::min(in_flight / ns, most_gbs);
}

}  // namespace

void in_flight(Run& run) {
  const size_t bytes = 4 * run.fitting(size_t(1) << (run.quick ? 26 : 28), 5);  // and the ring's
  const unsigned sms = unsigned(run.gpu.multiProcessorCount);
  const unsigned most = unsigned(run.gpu.maxThreadsPerMultiProcessor);
  run.title(bytes_text(double(bytes)) + " are read by grids that are resident as a whole, " +
            std::to_string(sms) + " multiprocessors");

  Ring ring;
  // this drives the ring out of the L2, too
  const auto in = filled<unsigned>(bytes / 4, [] __device__(size_t i) { return hash(i); });
  const GuardedBuffer<unsigned> out(size_t(most) * sms);
  const double latency_ns = run.timer.alone(chase_benchmark(ring)).median() * 1e6 / chased;

  // all threads of a grid load equally often
  const auto bytes_of = [&](const Load& load, unsigned resident) {
    return bytes / (size_t(load.bytes()) * resident * sms) * load.bytes() * resident * sms;
  };
  std::vector<Benchmark> benchmarks;
  for (const Load& load : loads)
    for (const unsigned resident : residents(most))
      benchmarks.push_back(benchmark_of(name_of(load, resident), load, grid_of(resident, sms),
                                        bytes_of(load, resident), in, out));
  const Timings timed = run.timer.interleaved(benchmarks);
  const auto gbs = [&](const Load& load, unsigned resident) {
    return timed[name_of(load, resident)].gbs(double(bytes_of(load, resident)));
  };
  const Load& densest = std::end(loads)[-1];
  const double most_gbs = gbs(densest, most);

  Table table("per thread, threads per SM",
              {"KiB in flight", "predicted", "GB/s", "spread", "ns", "of most", ""});
  for (const Load& load : loads)
    for (const unsigned resident : residents(most)) {
      const bool calibrates = &load == &densest && resident == most;
      const double in_flight = double(load.bytes()) * resident * sms;
      const double rate = gbs(load, resident);
      const Cell predicted = predicted_gbs(in_flight, latency_ns, most_gbs);
      table.row(name_of(load, resident),
                {in_flight / sms / double(KiB), calibrates ? Cell("") : predicted,
                 timed[name_of(load, resident)].gbs_interval(double(bytes_of(load, resident))),
                 percent(timed[name_of(load, resident)].spread()), in_flight / rate,
                 percent(rate / most_gbs), bar(rate / most_gbs)});
    }
  run.print(table);
  if (!run.beyond_l2(double(bytes)))
    run.note("less than four times the L2: a part of this is the cache's rate");
  const double enough = most_gbs * latency_ns;
  run.note("a load that nothing else delays takes " + digits(latency_ns) + " ns (chase)");
  run.note("KiB in flight: on a multiprocessor; bytes in flight: on all of them");
  run.note("predicted GB/s: bytes in flight / these ns, and at most the last row's rate");
  run.note("ns: bytes in flight / GB/s, the time after which a word has come, under this load");
  run.note("by Little's law this memory needs " + digits(enough / sms / double(KiB)) +
           " KiB in flight on a multiprocessor");
}
SAMPLE(2, in_flight, "the rate over the bytes in flight, and Little's law");

TEST_CASE("in_flight: predictions, by hand") {
  CHECK(predicted_gbs(100e3, 400, 1000) == 250);
  CHECK(predicted_gbs(400e3, 400, 1000) == 1000);
  CHECK(predicted_gbs(800e3, 400, 1000) == 1000);
  const unsigned by_hand[] = {4, 8, 16, 16, 32};  // bytes per thread
  for (size_t k = 0; k < std::size(loads); ++k) CHECK(loads[k].bytes() == by_hand[k]);
}

TEST_CASE("in_flight: the chase visits every slot once") {
  for (const unsigned slots : {1u, 2u, 8u, 4096u, ring_slots}) {
    unsigned slot = next_slot(0, slots), count = 1;
    for (; slot != 0 && count < slots; slot = next_slot(slot, slots)) ++count;
    CHECK(count == slots);
    CHECK(slot == 0);
  }
}

TEST_CASE("in_flight: grids fill multiprocessors, by hand") {
  CHECK(residents(2048) == std::vector<unsigned>{128, 256, 512, 1024, 2048});
  CHECK(residents(1536) == std::vector<unsigned>{128, 256, 512, 1024, 1536});
  CHECK(residents(1024) == std::vector<unsigned>{128, 256, 512, 1024});
  CHECK(grid_of(1024, 40).blocks == 40);
  CHECK(grid_of(1024, 40).threads == 1024);
  CHECK(grid_of(1536, 40).blocks == 80);  // no block has more than 1024 threads
  CHECK(grid_of(1536, 40).threads == 768);
}

namespace {
/// The sums of all threads: hands each word to the thread that has to take it.
std::vector<unsigned> right_sums(const Load& load, unsigned threads, size_t bytes) {
  const size_t wide = load.word_bytes / 4;
  std::vector<unsigned> sums(threads, 0);
  for (size_t i = 0; i < bytes / load.word_bytes * wide; ++i) sums[i / wide % threads] += hash(i);
  return sums;
}
}  // namespace

TEST_CASE("in_flight: each word is in the sum of one thread") {
  for (const Load& load : loads)
    for (const size_t bytes : {4, 48, 16 * 1009}) {
      const std::vector<unsigned> right = right_sums(load, 99, bytes);
      for (size_t t = 0; t < 99; ++t) CHECK(right_sum(t, 99, load.word_bytes, bytes) == right[t]);
    }
}

TEST_CASE("in_flight: every load is right at awkward sizes and grids") {
  if (skip_without_gpu()) return;
  for (const size_t bytes : {4, 48, 16 * 1009, 16 * 65537 + 8})
    for (const Grid grid : std::initializer_list<Grid>{{1, 96}, {3, 33}, {200, 96}, {7, 1024}})
      for (const Load& load : loads) {
        CAPTURE(load.name);
        CAPTURE(bytes);
        CAPTURE(grid.blocks);
        const auto in = filled<unsigned>(bytes / 4, [] __device__(size_t i) { return hash(i); });
        const GuardedBuffer<unsigned> out(grid.total() + 100);  // of a larger grid, too
        CHECK_NOTHROW(require_right(benchmark_of("", load, grid, bytes, in, out)));
        std::vector<unsigned> right = right_sums(load, grid.total(), bytes);
        right.resize(out.size(), ~0u);
        CHECK(out.to_host() == right);
      }
}

TEST_CASE("in_flight: the chase goes on where it ended, and to stay there is wrong") {
  if (skip_without_gpu()) return;
  Ring ring;
  const Benchmark benchmark = chase_benchmark(ring);
  CHECK_NOTHROW(require_right(benchmark));
  CHECK_NOTHROW(require_right(benchmark));
  CHECK(ring.from == end_of_chase(0));
  benchmark.check.poison();
  CHECK(benchmark.check.find_error() != "");
}

#ifndef __CUDACC_DEBUG__  // code for the debugger takes more registers
TEST_CASE("in_flight: the grids are resident as a whole") {
  if (skip_without_gpu()) return;
  const cudaDeviceProp gpu = current_gpu();
  for (const unsigned resident : residents(unsigned(gpu.maxThreadsPerMultiProcessor))) {
    const Grid grid = grid_of(resident, 1);
    const auto fits = [grid](auto kernel) {
      int blocks = 0;
      const int threads = int(grid.threads);
      CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads, 0));
      return unsigned(blocks) >= grid.blocks;
    };
    CHECK(fits(read_one<unsigned>));
    CHECK(fits(read_one<uint2>));
    CHECK(fits(read_one<uint4>));
    CHECK(fits(read4x4));
    CHECK(fits(read16x2));
  }
}
#endif
