// fetch_size: who decides that memory is fetched in pieces of 64 bytes? The wiki knows transactions
// of 128 bytes through L1, and of 32 if L1 is bypassed [LC 3]. Today L1 requests sectors of 32
// bytes, and the L2 decides how much it fetches for them. Two things may tell it: a limit of the
// device, cudaLimitMaxL2FetchGranularity (32, 64 or 128 bytes), and a qualifier of the load itself,
// ld.global.L2::64B, ::128B or ::256B. CUDA calls both of them hints.
//
// Predict which patterns a limit of 32 makes faster, and which ones 128 makes slower. The
// prediction counts the bytes that are fetched and nothing else: where does it fail?
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o fetch_size fetch_size.cu ../common/*.cpp
//
//   1  read_pattern  a warp reads in order, one word of a line, a sector further on, or every
//                    8th to every 64th word
#include "../common/arrays.cuh"
#include "../common/sample.hpp"
#include "../common/sectors.hpp"

namespace {

// ---- kernels ----

/// In each step a warp reads a region of so many words: lane i its word first + i * stride.
struct Pattern {
  const char* name;
  unsigned region_words, first, stride;
};

#ifdef __CUDA_ARCH__
constexpr int compiled_for = __CUDA_ARCH__ / 10;
#else
constexpr int compiled_for = 0;
#endif

/// A word, by a load that asks the L2 to fetch `hint` bytes, if this capability has such a load.
template <int hint>
__device__ unsigned load(const unsigned* at) {
  unsigned word;
  if constexpr (hint == 64 && compiled_for >= 75)
    asm volatile("ld.global.L2::64B.u32 %0, [%1];" : "=r"(word) : "l"(at));
  else if constexpr (hint == 128 && compiled_for >= 75)
    asm volatile("ld.global.L2::128B.u32 %0, [%1];" : "=r"(word) : "l"(at));
  else if constexpr (hint == 256 && compiled_for >= 80)
    asm volatile("ld.global.L2::256B.u32 %0, [%1];" : "=r"(word) : "l"(at));
  else
    asm volatile("ld.global.u32 %0, [%1];" : "=r"(word) : "l"(at));
  return word;
}

// In each step a warp reads one region, by one request of 32 words. Consecutive warps take
// consecutive regions. Each thread keeps eight loads in flight.
template <int hint>
__global__ void read_pattern(unsigned* out, const unsigned* in, size_t regions, Pattern p) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const size_t warps = size_t(gridDim.x) * blockDim.x / 32;
  const unsigned* own = in + p.first + threadIdx.x % 32 * p.stride;
  unsigned sum = 0;
  size_t region = tid / 32;
  for (; region + 7 * warps < regions; region += 8 * warps) {
    unsigned words[8];
#pragma unroll
    for (unsigned k = 0; k < 8; ++k)
      words[k] = load<hint>(own + (region + k * warps) * p.region_words);
#pragma unroll
    for (unsigned k = 0; k < 8; ++k) sum += words[k];
  }
  for (; region < regions; region += warps)  // the remaining regions
    sum += load<hint>(own + region * p.region_words);
  out[tid] = sum;
}

// ---- what must come out ----

struct Memory {
  DeviceBuffer<unsigned> in;
  GuardedBuffer<unsigned> out;
};
Memory memory(size_t words, unsigned blocks) {
  return {filled<unsigned>(words, [] __device__(size_t i) { return hash(i); }),
          GuardedBuffer<unsigned>(blocks * size_t(256))};
}

/// The regions that lie in the memory as a whole.
size_t regions_of(size_t words, const Pattern& p) {
  return words < p.first ? 0 : (words - p.first) / p.region_words;
}

/// The sum of the words that each thread must read.
Check adds_up(const Memory& m, const Pattern& p) {
  const size_t threads = m.out.size(), regions = regions_of(m.in.size(), p);
  return equals(m.out, [p, threads, regions] __device__(size_t thread) {
    unsigned sum = 0;
    for (size_t region = thread / 32; region < regions; region += threads / 32)
      sum += hash(region * p.region_words + p.first + thread % 32 * p.stride);
    return sum;
  });
}

// ---- the prediction: fetched bytes take their time, whether or not they are used ----

/// Aligned pieces of so many bytes that a request touches.
size_t pieces_of(const Pattern& p, size_t piece) {
  return segments_touched(piece, sizeof(unsigned),
                          [p](size_t lane) { return p.first + lane * p.stride; });
}
/// Of a request: each word that the result depends on counts once.
size_t useful_bytes(const Pattern& p) { return (p.stride ? 32 : 1) * sizeof(unsigned); }

double predicted_gbs(double in_order_gbs, const Pattern& p, size_t piece) {
  return in_order_gbs * double(useful_bytes(p)) / double(piece * pieces_of(p, piece));
}

// ---- the limit ----

/// 0: the device has no such limit. The error is cleared, so that no launch is blamed for it.
size_t fetch_limit() {
  size_t bytes = 0;
  if (cudaDeviceGetLimit(&bytes, cudaLimitMaxL2FetchGranularity)) cudaGetLastError();
  return bytes;
}
void ask_for_limit(size_t bytes) {
  if (cudaDeviceSetLimit(cudaLimitMaxL2FetchGranularity, bytes)) cudaGetLastError();
}

/// The device is asked for this limit as long as this lives. Then the limit is what it was before.
class FetchLimit {
 public:
  explicit FetchLimit(size_t bytes) { ask_for_limit(bytes); }
  FetchLimit(const FetchLimit&) = delete;
  ~FetchLimit() { ask_for_limit(before_); }

 private:
  size_t before_ = fetch_limit();
};

// ---- the launches: add yours here ----

const Pattern patterns[] = {
    {.name = "in order", .region_words = 32, .first = 0, .stride = 1},
    {.name = "one word of a line", .region_words = 32, .first = 0, .stride = 0},
    {.name = "offset 8", .region_words = 32, .first = 8, .stride = 1},
    {.name = "stride 8", .region_words = 32 * 8, .first = 0, .stride = 8},
    {.name = "stride 16", .region_words = 32 * 16, .first = 0, .stride = 16},
    {.name = "stride 32", .region_words = 32 * 32, .first = 0, .stride = 32},
    {.name = "stride 64", .region_words = 32 * 64, .first = 0, .stride = 64}};
const Pattern& in_order = patterns[0];

constexpr size_t limits[] = {32, 64, 128};

struct Hint {
  const char* name;
  void (*kernel)(unsigned* out, const unsigned* in, size_t regions, Pattern p);
  int capability = 0;  ///< 75: compute capability 7.5
};
const Hint hints[] = {{.name = "no hint", .kernel = read_pattern<0>},
                      {.name = "L2::64B", .kernel = read_pattern<64>, .capability = 75},
                      {.name = "L2::128B", .kernel = read_pattern<128>, .capability = 75},
                      {.name = "L2::256B", .kernel = read_pattern<256>, .capability = 80}};
const Hint& no_hint = hints[0];

/// Why a hint cannot be shown; empty if it can.
std::string missing_because(const Hint& hint) {
  cudaFuncAttributes code{};
  CUDA_CHECK(cudaFuncGetAttributes(&code, hint.kernel));
  if (code.ptxVersion >= hint.capability) return "";  // never above that of the GPU
  return "needs code for compute capability " + digits(hint.capability / 10) + "." +
         digits(hint.capability % 10);
}

std::string limit_text(size_t bytes) { return "limit " + std::to_string(bytes); }

/// "stride 16, limit 32": under this name tools/profile.py --counts has the sectors from memory.
std::string name_of(const Pattern& p, const std::string& told) { return p.name + (", " + told); }

/// The loads of a hint; `told` is how the L2 is told what to fetch, for their names.
std::vector<Benchmark> kernels(const Memory& m, const Hint& hint, const std::string& told) {
  const unsigned blocks = unsigned(m.out.size() / 256);
  std::vector<Benchmark> all;
  for (const Pattern& p : patterns) {
    const size_t regions = regions_of(m.in.size(), p);
    all.push_back({name_of(p, told),
                   [=, read = hint.kernel] { read<<<blocks, 256>>>(m.out, m.in, regions, p); },
                   adds_up(m, p)});
  }
  return all;
}

}  // namespace

void fetch_size(Run& run) {
  const size_t words = run.fitting(size_t(1) << (run.quick ? 27 : 29), sizeof(unsigned));
  run.title(bytes_text(4.0 * double(words)) + " are read; the L2 is told how much to fetch");
  const Memory m = memory(words, run.resident_blocks(256));
  const auto gbs = [&](const Timings& timed, const Pattern& p, const std::string& told) {
    const size_t bytes = useful_bytes(p) * regions_of(words, p);
    return timed[name_of(p, told)].gbs_interval(double(bytes));
  };

  Table settings("setting", {"asked, bytes", "set, bytes"});
  settings.row("limit at the start", {"", double(fetch_limit())});
  std::map<size_t, Timings> at_limit;
  for (const size_t bytes : limits) {
    const FetchLimit limit(bytes);
    settings.row(limit_text(bytes), {double(bytes), double(fetch_limit())});
    at_limit[bytes] = run.timer.interleaved(kernels(m, no_hint, limit_text(bytes)));
  }
  std::vector<Benchmark> hinted;
  for (const Hint& hint : hints)
    if (const std::string why = missing_because(hint); !why.empty())
      settings.missing(hint.name, why);
    else
      for (const Benchmark& kernel : kernels(m, hint, hint.name)) hinted.push_back(kernel);
  const Timings at_start = run.timer.interleaved(hinted);
  run.print(settings);

  Table plain("plain loads", {"limit 32", "predicted 32", "limit 64", "predicted 64", "limit 128",
                              "predicted 128"});
  for (const Pattern& p : patterns) {
    const auto measured = [&](size_t limit) {
      return Cell(gbs(at_limit[limit], p, limit_text(limit)));
    };
    const auto predicted = [&](size_t limit) {
      const double dense = gbs(at_limit[limit], in_order, limit_text(limit)).value;
      return &p == &in_order ? Cell("") : Cell(predicted_gbs(dense, p, limit));
    };
    plain.row(p.name, {measured(32), predicted(32), measured(64), predicted(64), measured(128),
                       predicted(128)});
  }
  run.print(plain);
  Table by_load("limit as at the start", {"no hint", "L2::64B", "L2::128B", "L2::256B"});
  for (const Pattern& p : patterns) {
    const auto measured = [&](const Hint& hint) {
      return missing_because(hint).empty() ? Cell(gbs(at_start, p, hint.name)) : Cell("-");
    };
    by_load.row(p.name,
                {measured(hints[0]), measured(hints[1]), measured(hints[2]), measured(hints[3])});
  }
  run.print(by_load);
  run.note("GB/s of words that are read; set: what the driver answers, the L2 may not follow");
  run.note("predicted: the rate in order x useful bytes / bytes of the pieces of a request;");
  run.note("a piece that the next request touches as well counts for both (offset 8)");
  if (!run.beyond_l2(4.0 * double(words))) run.note("less than four times the L2");
}
SAMPLE(3, fetch_size, "what the L2 fetches from memory, and who tells it");

TEST_CASE("fetch_size: pieces and predictions, by hand") {
  const Pattern one_word = patterns[1], offset_8 = patterns[2];
  const Pattern stride_16{.name = "", .region_words = 512, .first = 0, .stride = 16};
  CHECK(pieces_of(in_order, 32) == 4);
  CHECK(pieces_of(in_order, 128) == 1);
  CHECK(pieces_of(offset_8, 32) == 4);  // bytes 32 to 159
  CHECK(pieces_of(offset_8, 64) == 3);
  CHECK(pieces_of(offset_8, 128) == 2);
  CHECK(pieces_of(stride_16, 64) == 32);
  CHECK(pieces_of(stride_16, 128) == 16);
  CHECK(predicted_gbs(3000, in_order, 128) == doctest::Approx(3000));
  CHECK(predicted_gbs(3200, one_word, 64) == doctest::Approx(200));
  CHECK(predicted_gbs(3000, offset_8, 64) == doctest::Approx(2000));
  CHECK(predicted_gbs(3200, stride_16, 32) == doctest::Approx(400));
  CHECK(predicted_gbs(3200, stride_16, 64) == doctest::Approx(200));
}

TEST_CASE("fetch_size: every load is right at awkward sizes") {
  if (skip_without_gpu()) return;
  for (const size_t words : {1, 1009, 65537, 4000037})
    for (const Hint& hint : hints)
      for (const Benchmark& kernel : kernels(memory(words, 3), hint, hint.name)) {
        CAPTURE(kernel.name);
        CAPTURE(words);
        CHECK_NOTHROW(require_right(kernel));
        kernel.check.poison();
        CHECK(kernel.check.find_error() != "");
      }
}

TEST_CASE("fetch_size: the limit is put back, whatever happens") {
  if (skip_without_gpu()) return;
  const size_t at_start = fetch_limit();
  for (const size_t bytes : limits) {
    CAPTURE(bytes);
    try {
      const FetchLimit limit(bytes);
      throw WrongResult("a kernel is wrong");
    } catch (const WrongResult&) {
    }
    CHECK(fetch_limit() == at_start);
  }
}
