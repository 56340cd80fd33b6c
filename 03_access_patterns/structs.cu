// structs: pairs of floats as an array of structures (AoS), as a structure of arrays (SoA), and as
// an AoS that is aligned to 8 bytes. If a kernel uses both fields, the wiki's profiler shows 50,
// 100 and 100% efficiency. If it needs x alone, says the wiki, an AoS loses half of the bandwidth
// [LC 3]. The guide: what is not aligned is split by the compiler, and slower [KP].
//
// Look at the times beside the efficiency: where do the 50% cost anything?
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o structs structs.cu ../common/*.cpp
//
//   1  incrementInnerStruct           AoS: two loads and two stores of 4 bytes
//   2  incrementInnerArray            SoA: the same, of neighbouring words
//   3  aligned::incrementInnerStruct  aligned AoS: a load and a store of 8 bytes
//   4  increment_x, .._by_four        1 and 2 for x alone; with four loads of a thread in flight
//   5  read_x                         x is only read
#include <iostream>

#include "../common/arrays.cuh"
#include "../common/sample.hpp"
#include "../common/sectors.hpp"

namespace {

// ---- the wiki's types and kernels ----

constexpr size_t LEN = size_t(1) << 26;  // x alone is more than four times the L2 of an H200

typedef struct innerStruct {
  float x;
  float y;
} innerStruct;

typedef struct innerArray {
  float x[LEN];
  float y[LEN];
} innerArray;

// An innerStruct is aligned to 4 bytes only: so tmp takes two loads, and output[i] two stores. Each
// uses every second word of what it touches: 128 bytes of 8 sectors.
__global__ void incrementInnerStruct(const innerStruct* input, innerStruct* output,
                                     const size_t n) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < n) {
    innerStruct tmp = input[i];
    tmp.x += 10.f;
    tmp.y += 20.f;
    output[i] = tmp;
  }
}

// Each of the two loads and two stores of a warp uses 32 neighbouring words: 4 sectors.
__global__ void incrementInnerArray(const innerArray* input, innerArray* output, const size_t n) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < n) {
    const float tmpx = input->x[i];
    const float tmpy = input->y[i];
    output->x[i] = tmpx + 10.f;
    output->y[i] = tmpy + 20.f;
  }
}

namespace aligned {
typedef struct __align__(8) innerStruct {
  float x;
  float y;
}
innerStruct;

// One load and one store of 8 bytes per lane: 8 sectors, and all of them used.
__global__ void incrementInnerStruct(const innerStruct* input, innerStruct* output,
                                     const size_t n) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < n) {
    innerStruct tmp = input[i];
    tmp.x += 10.f;
    tmp.y += 20.f;
    output[i] = tmp;
  }
}
}  // namespace aligned

// ---- x alone ----

// A warp's request for x: of structs every second word of 8 sectors, of arrays 4 sectors, all used.
template <class Pairs>
__device__ auto& x_of(Pairs* pairs, size_t i) {
  if constexpr (std::is_same_v<std::remove_const_t<Pairs>, innerArray>)
    return pairs->x[i];
  else
    return pairs[i].x;
}

// A store to structs writes half of each sector that it touches.
template <class Pairs>
__global__ void increment_x(const Pairs* input, Pairs* output, size_t n) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < n) x_of(output, i) = x_of(input, i) + 10.f;
}

// The same with four loads of a thread in flight: one leaves too few bytes in flight.
template <class Pairs>
__global__ void increment_x_by_four(const Pairs* input, Pairs* output, size_t n) {
  const size_t first = blockIdx.x * size_t(4 * blockDim.x) + threadIdx.x;
  float x[4];
#pragma unroll
  for (unsigned k = 0; k < 4; ++k)
    if (const size_t i = first + k * blockDim.x; i < n) x[k] = x_of(input, i);
#pragma unroll
  for (unsigned k = 0; k < 4; ++k)
    if (const size_t i = first + k * blockDim.x; i < n) x_of(output, i) = x[k] + 10.f;
}

// Thread t adds up x of the pairs t, t + threads ...: as integers, since such a sum is exact. It has
// four loads in flight.
template <class In>
__global__ void read_x(const In* in, unsigned* sums, size_t n) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  unsigned sum = 0;
  size_t i = tid;
  for (; i + 3 * threads < n; i += 4 * threads) {
#pragma unroll
    for (unsigned k = 0; k < 4; ++k) sum += __float_as_uint(x_of(in, i + k * threads));
  }
  for (; i < n; i += threads) sum += __float_as_uint(x_of(in, i));  // the remaining pairs
  sums[tid] = sum;
}

// ---- what must come out ----

/// Word i of the input: an integer of 16 bits, so that adding to it is exact.
__host__ __device__ float word_at(size_t i) { return float(hash(i) >> 16); }

/// LEN pairs in and LEN pairs out, in whichever layout a kernel sees them; a sum for each thread.
struct Memory {
  DeviceBuffer<float> in;
  GuardedBuffer<float> out;
  GuardedBuffer<unsigned> sums;
};
Memory memory(size_t threads) {
  return {filled<float>(2 * LEN, [] __device__(size_t i) { return word_at(i); }),
          GuardedBuffer<float>(2 * LEN), GuardedBuffer<unsigned>(threads)};
}

enum Layout { in_structs, in_arrays };
enum Fields { x_alone, x_and_y };

/// The fields of the pairs below n are incremented; every other word is still poison.
Check incremented(const Memory& m, size_t n, Layout layout, Fields fields) {
  return equals_bits(m.out, [=] __device__(size_t i) {
    const bool is_y = layout == in_arrays ? i >= LEN : i % 2 == 1;
    const size_t of_pair = layout == in_arrays ? i % LEN : i / 2;
    if (of_pair >= n || (is_y && fields == x_alone)) return poisoned;
    return __float_as_uint(word_at(i) + (is_y ? 20.f : 10.f));
  });
}

/// The sum of each thread. From one x to the next it is `step` words.
Check x_added_up(const Memory& m, size_t n, size_t step) {
  return equals(m.sums, [n, step, threads = m.sums.size()] __device__(size_t thread) {
    unsigned sum = 0;
    for (size_t i = thread; i < n; i += threads) sum += __float_as_uint(word_at(i * step));
    return sum;
  });
}

// ---- the prediction ----

/// What a warp asks for at once: lane i wants word i * step, of `word` bytes.
struct Request {
  size_t word = 0, step = 0;  ///< none
};
constexpr size_t field = sizeof(innerStruct::x), pair = sizeof(innerStruct);
constexpr Request x_of_aos{.word = field, .step = pair / field};
constexpr Request x_of_soa{.word = field, .step = 1};
constexpr Request whole_pairs{.word = sizeof(aligned::innerStruct), .step = 1};

size_t sectors_of(Request r) {
  return sectors(r.word, [r](size_t lane) { return lane * r.step; });
}
/// The share of these sectors that the request uses: what the wiki's profiler calls efficiency.
double efficiency(Request r) { return double(32 * r.word) / double(sectors_of(r) * sector_bytes); }

// ---- the launches: add yours here ----

/// A kernel, and its row in the table.
struct Kernel {
  const char* name;
  std::function<void()> work;
  Check check = {};
  Request load = {}, store = {};  ///< predicted; none: of cudaMemcpy, or to the sums alone
  size_t useful;  ///< bytes: of a pair those that the result depends on, and those of the result

  Benchmark benchmark() const { return {name, work, check}; }
};

std::vector<Kernel> kernels(const Memory& m, size_t n) {
  const unsigned blocks = unsigned(ceil_div(n, 256)), quarter = unsigned(ceil_div(blocks, 4));
  const unsigned readers = unsigned(m.sums.size() / 256);
  const auto aos = m.in.as<innerStruct>(), aos_out = m.out.as<innerStruct>();
  const auto soa = m.in.as<innerArray>(), soa_out = m.out.as<innerArray>();
  const auto al8 = m.in.as<aligned::innerStruct>(), al8_out = m.out.as<aligned::innerStruct>();
  const auto sums = m.sums;
  const auto increments = [m, n](const char* name, Layout layout, Fields fields, Request request,
                                 std::function<void()> work) {
    const size_t used = fields == x_alone ? field : pair;
    return Kernel{name, work, incremented(m, n, layout, fields), request, request, 2 * used};
  };
  const auto reads = [m, n](const char* name, Request request, std::function<void()> work) {
    return Kernel{name, work, x_added_up(m, n, request.step), request, {}, field};
  };
  return {
      increments("AoS", in_structs, x_and_y, x_of_aos,
                 [=] { incrementInnerStruct<<<blocks, 256>>>(aos, aos_out, n); }),
      increments("SoA", in_arrays, x_and_y, x_of_soa,
                 [=] { incrementInnerArray<<<blocks, 256>>>(soa, soa_out, n); }),
      increments("aligned AoS", in_structs, x_and_y, whole_pairs,
                 [=] { aligned::incrementInnerStruct<<<blocks, 256>>>(al8, al8_out, n); }),
      increments("AoS, x += 10", in_structs, x_alone, x_of_aos,
                 [=] { increment_x<<<blocks, 256>>>(aos.data(), aos_out.data(), n); }),
      increments("SoA, x += 10", in_arrays, x_alone, x_of_soa,
                 [=] { increment_x<<<blocks, 256>>>(soa.data(), soa_out.data(), n); }),
      increments("AoS, x += 10, 4 at once", in_structs, x_alone, x_of_aos,
                 [=] { increment_x_by_four<<<quarter, 256>>>(aos.data(), aos_out.data(), n); }),
      increments("SoA, x += 10, 4 at once", in_arrays, x_alone, x_of_soa,
                 [=] { increment_x_by_four<<<quarter, 256>>>(soa.data(), soa_out.data(), n); }),
      reads("AoS, x only read", x_of_aos,
            [=] { read_x<<<readers, 256>>>(aos.data(), sums.data(), n); }),
      reads("SoA, x only read", x_of_soa,
            [=] { read_x<<<readers, 256>>>(soa.data(), sums.data(), n); }),
      {.name = "cudaMemcpy",
       .work =
           [=] { CUDA_CHECK(cudaMemcpyAsync(m.out, m.in, n * pair, cudaMemcpyDeviceToDevice)); },
       .useful = 2 * pair},
  };
}

/// Is a pair right 4 bytes past a multiple of 8? There an access of 8 bytes is an error.
bool is_right_off_alignment(const Memory& m) {
  m.out.poison();
  incrementInnerStruct<<<1, 1>>>((innerStruct*)(m.in + 1), (innerStruct*)(m.out + 1), 1);
  innerStruct found;
  CUDA_CHECK(cudaMemcpy(&found, m.out + 1, sizeof found, cudaMemcpyDeviceToHost));
  return found.x == word_at(1) + 10 && found.y == word_at(2) + 20;
}

}  // namespace

void structs(Run& run) {
  run.title(bytes_text(double(LEN * pair)) + " of pairs of floats, in three layouts");
  const Memory m = memory(run.resident_blocks(256) * 256);
  const std::vector<Kernel> all = kernels(m, LEN);
  std::vector<Benchmark> benchmarks;
  for (const Kernel& kernel : all) benchmarks.push_back(kernel.benchmark());
  const Timings timed = run.timer.interleaved(benchmarks);

  Table table("layout", {"load", "store", "of them used", "ms", "spread", "useful GB/s", ""});
  const double best = timed["cudaMemcpy"].gbs(double(LEN * 2 * pair));
  const auto sectors_in = [](Request r) { return r.word ? Cell(sectors_of(r)) : Cell(""); };
  for (const Kernel& row : all) {
    const Times& times = timed[row.name];
    const double gbs = times.gbs(double(LEN * row.useful));
    table.row(row.name, {sectors_in(row.load), sectors_in(row.store),
                         row.load.word ? percent(efficiency(row.load)) : Cell(""),
                         times.ms_interval(), percent(times.spread()), gbs, bar(gbs / best)});
  }
  run.print(table);
  run.note("load, store: sectors per request of a warp; used: the share of their bytes");
  run.note("4 at once: loads of a thread in flight; x only read has four, too, and the others one");
  if (!run.beyond_l2(double(LEN * field))) run.note("all x are less than four times the L2");

  const auto efficient = [&](const char* id, const std::string& what, const char* row,
                             Request request, double stated) {
    const std::string then = percent(stated).words, here = percent(efficiency(request)).words;
    run.computed({id, what + " are " + then + " efficient", "[LC 3] " + then + ", by a profiler"},
                 efficiency(request) == stated,
                 here + " of both, which take " + digits(timed[row].median()) + " ms");
  };
  efficient("03.4a", "loads and stores of an AoS, both fields used,", "AoS", x_of_aos, 0.5);
  efficient("03.4b", "loads and stores of an SoA, both fields used,", "SoA", x_of_soa, 1);
  efficient("03.4c", "with __align__(8) loads and stores of an AoS", "aligned AoS", whole_pairs, 1);
  const char* const preferred = "[LC 3] \"preferred ... for efficient coalesced access\"";
  run.claim({"03.21", "if both fields are used, an SoA is faster than an AoS", preferred},
            timed.speedup({.of = "SoA", .over = "AoS"}), faster());
  run.claim_each({"03.22", "if x alone is used, an SoA is faster than an AoS", preferred},
                 {ratio(timed["AoS, x only read"], timed["SoA, x only read"]),
                  ratio(timed["AoS, x += 10"], timed["SoA, x += 10"]),
                  ratio(timed["AoS, x += 10, 4 at once"], timed["SoA, x += 10, 4 at once"])},
                 "AoS / SoA: x only read, x += 10, 4 at once", faster());
  run.observed({"03.24", "accesses without alignment are split by the compiler",
                "[KP] \"split into multiple operations by the compiler\""},
               is_right_off_alignment(m),
               "4 bytes off 8 a pair comes out right; one access of 8 bytes would be an error");
  run.claim({"03.25", "accesses that are split for lack of alignment are slower",
             "[KP] \"reducing the memory access performance\""},
            timed.speedup({.of = "aligned AoS", .over = "AoS"}), faster());
  run.claim({"03.13", "if only x is needed, an AoS loses half of the bandwidth",
             "[LC 3] \"a 50 percent loss of bandwidth\""},
            timed.speedup({.of = "SoA, x only read", .over = "AoS, x only read"}), faster_by(2));
}
SAMPLE(3, structs, "an array of structures, and a structure of arrays");

TEST_CASE("structs: sectors and efficiency, by hand") {
  CHECK(sectors_of(x_of_aos) == 8);
  CHECK(efficiency(x_of_aos) == 0.5);
  CHECK(sectors_of(x_of_soa) == 4);
  CHECK(efficiency(x_of_soa) == 1);
  CHECK(sectors_of(whole_pairs) == 8);
  CHECK(efficiency(whole_pairs) == 1);
}

// For ctest: tools/machine_code.py counts the loads. 8 bytes are two loads of 4, or one of 8.
TEST_CASE("structs: what the wiki's kernels are compiled to, stated") {
  for (const char* kernel : {"incrementInnerStruct: 2 plain", "incrementInnerArray: 2 plain",
                             "aligned::incrementInnerStruct: 1 plain"})
    std::cout << "compiled: " << kernel << '\n';
}

TEST_CASE("structs: every kernel is right at awkward sizes, and writes nothing else") {
  if (skip_without_gpu()) return;
  const Memory m = memory(3 * 256);
  for (const size_t n : {1, 255, 1009, 65537})
    for (const Kernel& kernel : kernels(m, n)) {
      CAPTURE(kernel.name);
      CAPTURE(n);
      CHECK_NOTHROW(require_right(kernel.benchmark()));
    }
  CHECK(is_right_off_alignment(m));
}

TEST_CASE("structs: a field counts as used if the result depends on it") {
  if (skip_without_gpu()) return;
  const Memory m = memory(3 * 256);
  for (const Kernel& kernel : kernels(m, 1009)) {
    if (!kernel.check.find_error) continue;  // cudaMemcpy
    CAPTURE(kernel.name);
    const bool soa = kernel.load.word == field && kernel.load.step == 1;
    size_t used = 0;  // of both fields of pair 7
    for (const size_t word : {soa ? size_t(7) : 14, soa ? LEN + 7 : 15}) {
      const float right = word_at(word), wrong = right + 1;
      CUDA_CHECK(cudaMemcpy(m.in + word, &wrong, sizeof wrong, cudaMemcpyHostToDevice));
      kernel.check.poison();
      kernel.work();
      used += kernel.check.find_error() != "";
      CUDA_CHECK(cudaMemcpy(m.in + word, &right, sizeof right, cudaMemcpyHostToDevice));
    }
    const bool writes = kernel.store.word > 0;  // as many fields as it reads
    CHECK(kernel.useful == used * field * (writes ? 2 : 1));
  }
}
