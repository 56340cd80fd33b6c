// stride: what do skipped words cost? A kernel reads every word, every second, up to every 64th.
// The wiki calls 32 addresses in 32 segments the worst case, and gives no time [LC 3]. It says why
// caches help: programs read the neighbours of a word, or the same word again [LC 1].
//
// Predict the rate of useful words at strides 8, 16 and 64. The first table shows what sectors of 32
// bytes predict, and what pieces of 64. What isolated pieces cost is measured in `contiguous`
// (04_bandwidth).
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o stride stride.cu ../common/*.cpp
//
//   1  read_stride  one word out of every `stride`
//   2  read_again   the words of a few lines, repeatedly
#include "../common/arrays.cuh"
#include "../common/sample.hpp"
#include "../common/sectors.hpp"

// Lane i of a warp reads word i * stride. A thread has eight loads in flight.
__global__ void read_stride(unsigned* out, const unsigned* in, size_t n, size_t stride) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  unsigned sum = 0;
  size_t i = tid;
  for (; i + 7 * threads < n; i += 8 * threads) {
#pragma unroll
    for (unsigned k = 0; k < 8; ++k) sum += in[(i + k * threads) * stride];
  }
  for (; i < n; i += threads) sum += in[i * stride];  // the remaining words
  out[tid] = sum;
}

constexpr unsigned line_words = 32;  // 128 bytes
constexpr unsigned own_lines = 64;   // of a block, 8 KiB: those of all resident blocks fit into L1

// Each block reads its own 64 lines, in which thread t begins with word t * step. In each turn a warp
// reads a word of each of 32 lines (step 32), or all words of one line (step 1); then it goes on to
// the next line. After the first turns all of these lines are in L1.
__global__ void read_again(unsigned* out, const unsigned* in, unsigned step, unsigned turns) {
  const unsigned* own = in + size_t(blockIdx.x) * own_lines * line_words;
  unsigned sum = 0;
#pragma unroll 8
  for (unsigned turn = 0; turn < turns; ++turn)
    sum += own[(threadIdx.x * step + turn * line_words) % (own_lines * line_words)];
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

namespace {

constexpr size_t l2_fetch = 64;  // bytes

/// Pieces of memory that a warp's request touches.
size_t pieces_at(size_t stride, size_t piece) {
  return segments_touched(piece, sizeof(unsigned), [=](size_t lane) { return lane * stride; });
}

/// Useful GB/s if memory moves aligned pieces: the dense rate, times useful bytes (128 per request)
/// over bytes that move.
double predicted_gbs(double dense_gbs, size_t stride, size_t piece) {
  return dense_gbs * 128 / double(piece * pieces_at(stride, piece));
}

/// All threads' sums together are the sum of the words that were to be read.
Check adds_up(const GuardedBuffer<unsigned>& out, size_t n, size_t stride) {
  const auto find_error = [=]() -> std::string {
    const auto sum_at = [sums = out.data()] __device__(size_t i) { return sums[i]; };
    const auto word_at = [stride] __device__(size_t i) { return hash(i * stride); };
    const unsigned found = unsigned(sum_of(out.size(), sum_at));  // modulo 2^32, as threads add
    const unsigned right = unsigned(sum_of(n, word_at));
    if (found != right) return "the sum is " + std::to_string(found);
    return guard_error(out);
  };
  return {[out] { out.poison(); }, find_error};
}

/// The same of read_again.
__host__ __device__ unsigned sum_again(unsigned block, unsigned thread, unsigned step,
                                       unsigned turns) {
  constexpr unsigned words = own_lines * line_words;
  unsigned sum = 0;
  for (unsigned turn = 0; turn < turns; ++turn)
    sum += hash(size_t(block) * words + (thread * step + turn * line_words) % words);
  return sum;
}

/// Spatial and temporal locality: nanoseconds of the whole GPU for 1000 words.
void locality(Run& run, const DeviceBuffer<unsigned>& in, const GuardedBuffer<unsigned>& out) {
  constexpr unsigned turns = 4096;
  const unsigned blocks = unsigned(out.size() / 256);
  const auto once = [&](const char* name, size_t stride) {
    const size_t n = in.size() / stride;
    return Benchmark{name, [=] { read_stride<<<blocks, 256>>>(out, in, n, stride); },
                     adds_up(out, n, stride)};
  };
  const auto again = [&](const char* name, unsigned step) {
    const auto value = [step] __device__(size_t i) {
      return sum_again(unsigned(i / 256), unsigned(i % 256), step, turns);
    };
    return Benchmark{name, [=] { read_again<<<blocks, 256>>>(out, in, step, turns); },
                     equals(out, value)};
  };
  const std::vector<Benchmark> benchmarks{once("neither", line_words), once("spatial", 1),
                                          again("temporal", line_words), again("both", 1)};
  const Timings timed = run.timer.interleaved(benchmarks);
  Table table("locality", {"what a warp reads", "ns per 1000 words", "times as fast"});
  const auto row = [&](const char* name, const char* what, double words) {
    const double words_of_neither = double(in.size() / line_words);
    const double ns = 1e9 * timed[name].median() / words;
    const double ns_of_neither = 1e9 * timed["neither"].median() / words_of_neither;
    table.row(name, {what, ns, ns_of_neither / ns});
  };
  row("neither", "a word of each of 32 lines, once", double(in.size() / line_words));
  row("spatial", "its neighbours as well", double(in.size()));
  row("temporal", "a word of each of 32 lines, repeatedly", double(out.size()) * turns);
  row("both", "all words of a line, repeatedly", double(out.size()) * turns);
  run.print(table);
}

}  // namespace

void stride(Run& run) {
  const size_t words = run.fitting(size_t(1) << 29, sizeof(unsigned));
  const auto in = filled<unsigned>(words, [] __device__(size_t i) { return hash(i); });
  const unsigned blocks = run.resident_blocks(256);
  const GuardedBuffer<unsigned> out(blocks * 256);
  run.title("one out of every `stride` words of 4 bytes is read, of " +
            bytes_text(4.0 * double(words)));

  Table table("stride, words",
              {"sectors/request", "predicted by sectors", "by 64 bytes", "GB/s", "spread", ""});
  double dense_gbs = 0;
  for (const size_t stride : {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64}) {
    const size_t n = words / stride;
    const auto read = [=] { read_stride<<<blocks, 256>>>(out, in, n, stride); };
    const std::string name = "stride " + std::to_string(stride);
    const Times times =
        run.timer.alone({.name = name, .work = read, .check = adds_up(out, n, stride)});
    const double gbs = times.gbs(4.0 * double(n));
    if (stride == 1) dense_gbs = gbs;
    table.row(
        std::to_string(stride),
        {double(pieces_at(stride, sector_bytes)), predicted_gbs(dense_gbs, stride, sector_bytes),
         predicted_gbs(dense_gbs, stride, l2_fetch), times.gbs_interval(4.0 * double(n)),
         percent(times.spread()), bar(gbs / dense_gbs)});
  }
  run.print(table);
  run.note("GB/s of words that are read; predicted from stride 1 and the pieces that move");
  run.note(
      "not predicted: from stride 32 on the fetched pieces are isolated, and arrive more slowly");
  locality(run, in, out);
}
SAMPLE(2, stride, "reading every word, every second, up to every 64th");

TEST_CASE("stride: pieces of a request, by hand") {
  CHECK(pieces_at(1, sector_bytes) == 4);
  CHECK(pieces_at(2, sector_bytes) == 8);
  CHECK(pieces_at(3, sector_bytes) == 12);
  CHECK(pieces_at(8, sector_bytes) == 32);
  CHECK(pieces_at(64, sector_bytes) == 32);
  CHECK(pieces_at(8, l2_fetch) == 16);
  CHECK(pieces_at(16, l2_fetch) == 32);
  CHECK(predicted_gbs(4000, 8, sector_bytes) == doctest::Approx(500));
  CHECK(predicted_gbs(4000, 16, l2_fetch) == doctest::Approx(250));
}

TEST_CASE("stride: every thread's sum is right at awkward sizes") {
  if (skip_without_gpu()) return;
  for (const size_t words : {1, 1009, 65537})
    for (const size_t stride : {1, 2, 7, 33, 64}) {
      CAPTURE(words);
      CAPTURE(stride);
      const size_t n = ceil_div(words, stride);
      const auto in = filled<unsigned>(words, [] __device__(size_t i) { return hash(i); });
      const GuardedBuffer<unsigned> out(3 * 256);
      read_stride<<<3, 256>>>(out, in, n, stride);
      std::vector<unsigned> right(out.size(), 0);
      for (size_t i = 0; i < n; ++i) right[i % right.size()] += hash(i * stride);
      CHECK(out.to_host() == right);
    }
}

TEST_CASE("stride: words that are read again are summed as often as they are read") {
  // thread 1 of block 0, a line further in each turn: words 32, 64, 96; of the lines' last word on
  // to the first line
  CHECK(sum_again(0, 1, 32, 3) == hash(32) + hash(64) + hash(96));
  CHECK(sum_again(2, 63, 32, 2) == hash(2 * 2048 + 2016) + hash(2 * 2048));
  CHECK(sum_again(0, 5, 1, 2) == hash(5) + hash(37));
  if (skip_without_gpu()) return;
  const auto in = filled<unsigned>(3 * 2048, [] __device__(size_t i) { return hash(i); });
  for (const unsigned step : {1u, line_words})
    for (const unsigned turns : {1u, 7u, 130u}) {
      const GuardedBuffer<unsigned> out(3 * 256);
      read_again<<<3, 256>>>(out, in, step, turns);
      const auto value = [step, turns] __device__(size_t i) {
        return sum_again(unsigned(i / 256), unsigned(i % 256), step, turns);
      };
      CHECK(find_mismatch(out, value) == "");
    }
}
