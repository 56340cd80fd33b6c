// structs: pairs of floats as an array of structures (AoS), as a structure of arrays (SoA), and as an
// AoS that is aligned to 8 bytes. If a kernel uses both fields, the wiki's profiler shows 50, 100 and
// 100% efficiency. If it needs x alone, says the wiki, an AoS loses half of the bandwidth [LC 3].
//
// Look at the times beside the efficiency. The 50% cost almost nothing: both fields lie in the same
// sectors, the access to x brings them, and the access to y finds them in L1. With x alone half of
// each sector is brought for nothing. And a store of half a sector is slower than one of all of it.
//
//   build/release/03_access_patterns/03_access_patterns structs
//
//   1  incrementInnerStruct           AoS: two loads and two stores of 4 bytes
//   2  incrementInnerArray            SoA: the same, of neighbouring words
//   3  aligned::incrementInnerStruct  aligned AoS: a load and a store of 8 bytes
//   4  increment_x                    1 and 2 for x alone
//   5  read_x                         x is only read
#include "../common/arrays.cuh"
#include "../common/sample.hpp"
#include "../common/sectors.hpp"

namespace {

// ---- the wiki's types and kernels ----

constexpr size_t LEN = size_t(1) << 25;

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

// A load uses every second word of 8 sectors, and a store writes half of each of 8 sectors.
__global__ void increment_x(const innerStruct* input, innerStruct* output, size_t n) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < n) output[i].x = input[i].x + 10.f;
}
// Each load and store uses 4 sectors completely.
__global__ void increment_x(const innerArray* input, innerArray* output, size_t n) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < n) output->x[i] = input->x[i] + 10.f;
}

__device__ float x_of(const innerStruct* in, size_t i) { return in[i].x; }  // 8 sectors per load
__device__ float x_of(const innerArray* in, size_t i) { return in->x[i]; }  // 4 sectors

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

// ---- the rows of the table ----

enum Layout { aos, soa, aligned_aos };
enum Does { increments, increments_x, reads_x };

struct Row {
  const char* name;
  Layout layout;
  Does does;
};
constexpr Row rows[] = {
    {"AoS", aos, increments},
    {"SoA", soa, increments},
    {"aligned AoS", aligned_aos, increments},
    {"AoS, x alone", aos, increments_x},
    {"SoA, x alone", soa, increments_x},
    {"AoS, x only read", aos, reads_x},
    {"SoA, x only read", soa, reads_x},
};

/// Sectors of a warp's request for a field; for a whole pair if that is aligned.
size_t sectors_of(Layout layout) {
  if (layout == soa) return sectors(4, [](size_t lane) { return lane; });
  if (layout == aos) return sectors(4, [](size_t lane) { return 2 * lane; });
  return sectors(8, [](size_t lane) { return lane; });
}

/// The share of these sectors that the request uses: what the wiki's profiler calls efficiency.
double efficiency(Layout layout) {
  const double used = layout == aligned_aos ? 32 * 8 : 32 * 4;
  return used / double(sectors_of(layout) * sector_bytes);
}

/// Bytes that a row's result depends on, and bytes of it.
double useful_bytes(Does does, size_t n) {
  return double(n) * (does == increments ? 16 : does == increments_x ? 8 : 4);
}

// ---- launching, and what is right ----

/// Word i of the input: an integer of 16 bits, so that adding to it is exact.
__host__ __device__ float word_at(size_t i) { return float(hash(i) >> 16); }

/// Which pair and field word i of the memory is.
struct Place {
  size_t pair;
  bool is_y;
};
__host__ __device__ Place place_of(size_t word, Layout layout) {
  if (layout == soa) return {word % LEN, word >= LEN};
  return {word / 2, word % 2 == 1};
}

/// Memory for LEN pairs, in and out, and sums of threads.
struct Memory {
  DeviceBuffer<float> in;
  GuardedBuffer<float> out;
  GuardedBuffer<unsigned> sums;
};
Memory memory_for(unsigned threads) {
  return {filled<float>(2 * LEN, [] __device__(size_t i) { return word_at(i); }),
          GuardedBuffer<float>(2 * LEN), GuardedBuffer<unsigned>(threads)};
}

void launch(const Row& row, const Memory& memory, size_t n) {
  const unsigned blocks = unsigned((n + 255) / 256);
  const auto* in = reinterpret_cast<const innerStruct*>(memory.in.data());
  const auto* in_arrays = reinterpret_cast<const innerArray*>(memory.in.data());
  const auto* in_aligned = reinterpret_cast<const aligned::innerStruct*>(memory.in.data());
  auto* out = reinterpret_cast<innerStruct*>(memory.out.data());
  auto* out_arrays = reinterpret_cast<innerArray*>(memory.out.data());
  auto* out_aligned = reinterpret_cast<aligned::innerStruct*>(memory.out.data());
  const unsigned reading = unsigned(memory.sums.size() / 256);
  if (row.does == reads_x && row.layout == aos)
    read_x<<<reading, 256>>>(in, memory.sums.data(), n);
  else if (row.does == reads_x)
    read_x<<<reading, 256>>>(in_arrays, memory.sums.data(), n);
  else if (row.does == increments_x && row.layout == aos)
    increment_x<<<blocks, 256>>>(in, out, n);
  else if (row.does == increments_x)
    increment_x<<<blocks, 256>>>(in_arrays, out_arrays, n);
  else if (row.layout == aos)
    incrementInnerStruct<<<blocks, 256>>>(in, out, n);
  else if (row.layout == soa)
    incrementInnerArray<<<blocks, 256>>>(in_arrays, out_arrays, n);
  else
    aligned::incrementInnerStruct<<<blocks, 256>>>(in_aligned, out_aligned, n);
}

/// Words of pairs below n are incremented; a y that nobody uses, and what lies beyond, stays
/// poisoned.
std::string find_wrong_word(const Row& row, const Memory& memory, size_t n) {
  const auto* words = reinterpret_cast<const unsigned*>(memory.out.data());
  const auto value = [n, row] __device__(size_t i) {
    const Place place = place_of(i, row.layout);
    const bool untouched = place.pair >= n || (place.is_y && row.does == increments_x);
    return untouched ? ~0u : __float_as_uint(word_at(i) + (place.is_y ? 20.f : 10.f));
  };
  const std::string error = find_mismatch(words, memory.out.size(), value);
  return error.empty() ? guard_error(memory.out) : error;
}

std::string find_wrong_sum(const Row& row, const Memory& memory, size_t n) {
  const size_t step = row.layout == soa ? 1 : 2;  // words from one x to the next
  const size_t threads = memory.sums.size();
  const auto value = [n, step, threads] __device__(size_t thread) {
    unsigned sum = 0;
    for (size_t i = thread; i < n; i += threads) sum += __float_as_uint(word_at(i * step));
    return sum;
  };
  return find_mismatch(memory.sums, value);
}

/// `row` and `memory` must outlive it.
Benchmark benchmark_of(const Row& row, const Memory& memory, size_t n) {
  const auto work = [&row, &memory, n] { launch(row, memory, n); };
  const auto poison = [&memory] {
    memory.out.poison();
    memory.sums.poison();
  };
  const auto find_error = [&row, &memory, n] {
    return row.does == reads_x ? find_wrong_sum(row, memory, n) : find_wrong_word(row, memory, n);
  };
  return {row.name, work, {poison, find_error}};
}

}  // namespace

void structs(Run& run) {
  const size_t n = LEN;
  run.title(bytes_text(8.0 * double(n)) + " of pairs of floats, in three layouts");
  const Memory memory = memory_for(run.resident_blocks(256) * 256);
  std::vector<Benchmark> benchmarks;
  for (const Row& row : rows) benchmarks.push_back(benchmark_of(row, memory, n));
  const auto copy = [&] {
    CUDA_CHECK(cudaMemcpyAsync(memory.out, memory.in, memory.in.bytes(), cudaMemcpyDeviceToDevice));
  };
  benchmarks.push_back({"copy engine", copy});
  const Timings timed = run.timer.interleaved(benchmarks);

  Table table("layout", {"load", "store", "of them used", "ms", "spread", "useful GB/s", ""});
  const double best = timed["copy engine"].gbs(16.0 * double(n));
  for (const Row& row : rows) {
    const double asked = double(sectors_of(row.layout));
    const double gbs = timed[row.name].gbs(useful_bytes(row.does, n));
    table.row(row.name, {asked, row.does == reads_x ? Cell("") : Cell(asked),
                         percent(efficiency(row.layout)), timed[row.name].ms_interval(),
                         percent(timed[row.name].spread()), gbs, bar(gbs / best)});
  }
  table.row("copy engine", {"", "", "", timed["copy engine"].ms_interval(),
                            percent(timed["copy engine"].spread()), best, bar(1)});
  run.print(table);
  run.note("load, store: sectors per request of a warp; used: the share of their bytes");
  if (!run.beyond_l2(8.0 * double(n))) run.note("less than four times the L2");

  const auto shares = [](Layout layout) {
    const std::string share = percent(efficiency(layout)).words;
    return share + " of loads and " + share + " of stores, computed";
  };
  run.computed({"03.4a", "loads and stores of an AoS, both fields used, are 50% efficient",
                "50%, the wiki's profiler"},
               efficiency(aos) == 0.5, shares(aos));
  run.computed({"03.4b", "those of an SoA are 100% efficient", "100%, the wiki's profiler"},
               efficiency(soa) == 1, shares(soa));
  run.computed({"03.4c", "those of an AoS aligned to 8 bytes are 100% efficient",
                "100%, the wiki's profiler"},
               efficiency(aligned_aos) == 1, shares(aligned_aos));
  run.claim({"03.13", "if only x is needed, an AoS loses half of the bandwidth", "50%, the wiki"},
            timed.speedup({.of = "SoA, x only read", .over = "AoS, x only read"}), faster_by(2));
}
SAMPLE(3, structs, "an array of structures, and a structure of arrays");

TEST_CASE("structs: sectors and efficiency, by hand") {
  CHECK((sectors_of(aos) == 8 && efficiency(aos) == 0.5));
  CHECK((sectors_of(soa) == 4 && efficiency(soa) == 1));
  CHECK((sectors_of(aligned_aos) == 8 && efficiency(aligned_aos) == 1));
  CHECK((sizeof(innerStruct) == 8 && alignof(innerStruct) == 4));
  CHECK((sizeof(aligned::innerStruct) == 8 && alignof(aligned::innerStruct) == 8));
  CHECK((place_of(5, aos).pair == 2 && place_of(5, aos).is_y));
  CHECK((place_of(LEN + 5, soa).pair == 5 && place_of(LEN + 5, soa).is_y));
}

TEST_CASE("structs: every kernel is right at awkward sizes, and writes nothing else") {
  if (skip_without_gpu()) return;
  const Memory memory = memory_for(3 * 256);
  for (const size_t n : {size_t(1), size_t(255), size_t(1009), size_t(65537), LEN})
    for (const Row& row : rows) {
      CAPTURE(row.name);
      CAPTURE(n);
      CHECK_NOTHROW(require_right(benchmark_of(row, memory, n)));
    }
}

TEST_CASE("structs: a field counts as used if the result depends on it") {
  if (skip_without_gpu()) return;
  constexpr size_t n = 1009;
  const Memory memory = memory_for(3 * 256);
  for (const Row& row : rows) {
    CAPTURE(row.name);
    int used = 0;
    for (const bool y : {false, true}) {
      const size_t word = row.layout == soa ? 7 + (y ? LEN : 0) : 14 + y;  // of pair 7
      const float right = word_at(word), wrong = right + 1;
      CUDA_CHECK(cudaMemcpy(memory.in + word, &wrong, sizeof wrong, cudaMemcpyHostToDevice));
      const Benchmark benchmark = benchmark_of(row, memory, n);
      benchmark.check.poison();
      benchmark.work();
      used += benchmark.check.find_error() != "";
      CUDA_CHECK(cudaMemcpy(memory.in + word, &right, sizeof right, cudaMemcpyHostToDevice));
    }
    CHECK(used == (row.does == increments ? 2 : 1));
  }
}
