// gather: what does it cost to fetch words through a list of indices? If the list is in order, a warp
// reads 32 neighbouring words. If it is shuffled, each lane's word lies in a sector of its own.
//
// This is the sample to copy. CONTRIBUTING.md leads through it.
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o gather gather.cu ../common/*.cpp
//
//   1  gather_words  out[i] = in[index[i]]
#include "../common/arrays.cuh"
#include "../common/sample.hpp"
#include "../common/sectors.hpp"

namespace {

// ---- the kernel ----

// A warp reads 32 neighbouring indices, which is 4 sectors, and the words that they name.
__global__ void gather_words(const unsigned* in, const unsigned* index, unsigned* out, size_t n) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < n) out[i] = in[index[i]];
}

// ---- the launches: add yours here ----

struct Kernel {
  Benchmark benchmark;
  size_t sectors;  ///< predicted, per load of a warp
};

/// Fetches word word_of(i) of n for each i.
template <class WordOf>
Kernel gathering(const char* name, size_t n, WordOf word_of) {
  const auto in = filled<unsigned>(n, [] __device__(size_t i) { return hash(i); });
  const auto index = filled<unsigned>(n, [=] __device__(size_t i) { return unsigned(word_of(i)); });
  const GuardedBuffer<unsigned> out(n);
  return {{.name = name,
           .work = [=] { gather_words<<<unsigned(ceil_div(n, 256)), 256>>>(in, index, out, n); },
           .check = equals(out, [=] __device__(size_t i) { return hash(word_of(i)); })},
          sectors(sizeof(unsigned), word_of)};
}

struct InOrder {
  __host__ __device__ size_t operator()(size_t i) const { return i; }
};
/// Neighbours are far apart. A prime factor above n maps 0 to n - 1 one to one.
struct Shuffled {
  size_t n;
  __host__ __device__ size_t operator()(size_t i) const { return i * 2654435761 % n; }
};

std::vector<Kernel> kernels(size_t n) {
  return {gathering("in order", n, InOrder{}), gathering("shuffled", n, Shuffled{n})};
}

}  // namespace

void gather(Run& run) {
  const size_t n = run.fitting((run.quick ? 16 : 128) * MiB, 5 * sizeof(unsigned));
  run.title(bytes_text(double(n * sizeof(unsigned))) + " of words, fetched through a list");
  const std::vector<Kernel> all = kernels(n);
  std::vector<Benchmark> benchmarks;
  for (const Kernel& kernel : all) benchmarks.push_back(kernel.benchmark);
  const Timings timed = run.timer.interleaved(benchmarks);

  Table table("list", {"sectors", "ms", "GB/s of words fetched"});
  for (const auto& [benchmark, sectors] : all) {
    const Times& times = timed[benchmark.name];
    table.row(benchmark.name,
              {sectors, times.ms_interval(), times.gbs_interval(double(n * sizeof(unsigned)))});
  }
  run.print(table);
  run.note("sectors: per load of a warp, predicted");
  run.claim({"00.1", "scattered words are fetched more slowly", "[LC 3] no figure"},
            timed.speedup({.of = "in order", .over = "shuffled"}), faster());
}
SAMPLE(1, gather, "words through a list of indices");

TEST_CASE("gather: sectors of a warp's load, by hand") {
  CHECK(sectors(4, InOrder{}) == 4);
  CHECK(sectors(4, Shuffled{65536}) == 32);
}

TEST_CASE("gather: right for short and long lists") {
  if (skip_without_gpu()) return;
  for (const size_t n : {1, 31, 1009, 65537})
    for (const Kernel& kernel : kernels(n)) {
      CAPTURE(kernel.benchmark.name);
      CAPTURE(n);
      CHECK_NOTHROW(require_right(kernel.benchmark));
    }
}
