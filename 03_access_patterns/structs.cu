// structs: pairs of floats as an array of structures (AoS), as a structure of arrays (SoA), and as
// an AoS of structures that are aligned to 8 bytes. If a kernel uses both fields, the wiki's
// profiler shows an efficiency of 50% for the AoS, and of 100% for the SoA and the aligned AoS. If
// an operation needs only x, the wiki says, it loses half of the bandwidth with an AoS [LC 3]. Two
// things to look at:
//   - The 50% have almost no effect on the time. Both fields lie in the same sectors. The access to
//     x fetches these sectors, and the access to y finds them in the cache.
//   - With only x, half of each sector is fetched and not used. If a kernel writes only a part of a
//     sector, this takes longer than to write the whole sector, because the GPU first reads it.
//
//   cmake -S 03_access_patterns -B build/structs -DEXPERIMENTS=structs
//   cmake --build build/structs && build/structs/03_access_patterns
//
//   1  increment_pairs      AoS: two loads and two stores of 4 bytes
//   2  increment_arrays     SoA: two loads and two stores of 4 bytes; lanes use neighbouring words
//   3  increment_aligned    aligned AoS: one load and one store of 8 bytes
//   4  increment_pairs_x    kernel 1 for only x
//   5  increment_arrays_x   kernel 2 for only x
//   6  increment_aligned_x  kernel 3 for only x
//   7  read_pairs_x         AoS: only reads x
//   8  read_arrays_x        SoA: only reads x
#include "../framework/common/checked.cuh"
#include "../framework/common/experiment.hpp"
#include "reads.cuh"

using namespace samples;

namespace {

struct Pair {
  float x, y;
};
struct __align__(8) AlignedPair {
  float x, y;
};
struct Arrays {
  float *x, *y;
};

// ---- kernels 1 to 6: one thread per pair ----

// [increment_pairs]
// A Pair is aligned to 4 bytes only, so a warp needs two loads and two stores. Each of them uses
// every second word: 128 bytes out of 8 sectors of 32 bytes.
__global__ void increment_pairs(const Pair* in, Pair* out, size_t n) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i >= n) return;
  Pair p = in[i];  // two loads
  p.x += 10.0f;
  p.y += 20.0f;
  out[i] = p;  // two stores
}
// [/increment_pairs]

// Each of the two loads and two stores of a warp uses 32 neighbouring words: 4 sectors.
__global__ void increment_arrays(Arrays in, Arrays out, size_t n) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i >= n) return;
  const float x = in.x[i];
  const float y = in.y[i];
  out.x[i] = x + 10.0f;
  out.y[i] = y + 20.0f;
}

// One load and one store of 8 bytes per lane: 8 sectors, all of them used.
__global__ void increment_aligned(const AlignedPair* in, AlignedPair* out, size_t n) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i >= n) return;
  AlignedPair p = in[i];
  p.x += 10.0f;
  p.y += 20.0f;
  out[i] = p;
}

// [one_field]
// A load uses every second word: 128 bytes out of 8 sectors. A store writes half of each of 8
// sectors.
__global__ void increment_pairs_x(const Pair* in, Pair* out, size_t n) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < n) out[i].x = in[i].x + 10.0f;
}

// Each load and store uses 32 neighbouring words: 4 sectors, completely used.
__global__ void increment_arrays_x(Arrays in, Arrays out, size_t n) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < n) out.x[i] = in.x[i] + 10.0f;
}
// [/one_field]

// The same accesses as kernel 4: alignment does not help if a kernel uses only one field.
__global__ void increment_aligned_x(const AlignedPair* in, AlignedPair* out, size_t n) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < n) out[i].x = in[i].x + 10.0f;
}

// ---- kernels 7 and 8: thread t adds up x of pairs t, t + threads ... of n, into sums[t] ----

// [read_x]
__device__ float x_of(const Pair* in, size_t i) { return in[i].x; }  // every second word: 8 sectors
__device__ float x_of(const float* in, size_t i) { return in[i]; }   // 32 neighbours: 4 sectors

// Four loads are in flight per thread. The kernel adds the floats' bits as integers, because such a
// sum is exact.
template <class In>
__device__ void add_up_x(const In* in, unsigned* sums, size_t n) {
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

__global__ void read_pairs_x(const Pair* in, unsigned* sums, size_t n) { add_up_x(in, sums, n); }
__global__ void read_arrays_x(const float* in, unsigned* sums, size_t n) { add_up_x(in, sums, n); }
// [/read_x]

// ---- launching them ----

/// Two buffers of 2 n floats.
struct Buffers {
  float *in, *out;
  size_t n;
  unsigned blocks() const { return unsigned((n + block_threads - 1) / block_threads); }
};
template <class T>
void launch(void (*kernel)(const T*, T*, size_t), const Buffers& b) {
  kernel<<<b.blocks(), block_threads>>>(reinterpret_cast<const T*>(b.in),
                                        reinterpret_cast<T*>(b.out), b.n);
}
void launch(void (*kernel)(Arrays, Arrays, size_t), const Buffers& b) {
  kernel<<<b.blocks(), block_threads>>>({b.in, b.in + b.n}, {b.out, b.out + b.n}, b.n);
}
/// Of n pairs, which are 2 n words.
template <class T>
void launch(void (*kernel)(const T*, unsigned*, size_t), const Words& words) {
  kernel<<<words.grid.blocks, block_threads>>>(reinterpret_cast<const T*>(words.in.data()),
                                               words.sums.data(), words.in.size() / 2);
}

enum class Layout { pairs, arrays, aligned };

struct Kernel {
  std::string_view key = {};  ///< its name
  const char* words = "";
  Layout layout = Layout::pairs;
  unsigned fields = 2;                          ///< 1: only x
  double then_efficient = NAN;                  ///< share of the sectors' bytes, as profiled then
  void (*increment)(const Buffers&) = nullptr;  ///< launches it: one of these two
  void (*read)(const Words&) = nullptr;
};
template <auto kernel>
Kernel incrementing(Kernel k) {
  k.key = name_of<kernel>();
  k.increment = [](const Buffers& b) { launch(kernel, b); };
  return k;
}
template <auto kernel>
Kernel reading(Kernel k) {
  k.key = name_of<kernel>();
  k.read = [](const Words& w) { launch(kernel, w); };
  return k;
}

const Kernel kernels[] = {
    incrementing<increment_pairs>({.words = "AoS, both fields", .then_efficient = 0.5}),
    incrementing<increment_arrays>(
        {.words = "SoA, both fields", .layout = Layout::arrays, .then_efficient = 1}),
    incrementing<increment_aligned>(
        {.words = "aligned AoS, both fields", .layout = Layout::aligned, .then_efficient = 1}),
    incrementing<increment_pairs_x>({.words = "AoS, x alone", .fields = 1, .then_efficient = 0.5}),
    incrementing<increment_arrays_x>(
        {.words = "SoA, x alone", .layout = Layout::arrays, .fields = 1}),
    incrementing<increment_aligned_x>(
        {.words = "aligned AoS, x alone", .layout = Layout::aligned, .fields = 1}),
    reading<read_pairs_x>({.words = "AoS, x only read", .fields = 1}),
    reading<read_arrays_x>({.words = "SoA, x only read", .layout = Layout::arrays, .fields = 1}),
};

const char* const copy_engine = "copy_engine";  // the key of the row that is no kernel's

// ---- what is right: from words to fields, where the kernels go from fields to words ----

/// Numbers of 16 bits, so that adding to them is exact.
struct Input {
  __host__ __device__ float operator()(size_t word) const { return float(scrambled(word) >> 16); }
};
struct SameAsInput {
  __device__ bool operator()(size_t word, float found) const { return found == Input{}(word); }
};
/// A y that is not used stays poisoned.
struct Incremented {
  bool arrays;
  unsigned fields;
  size_t n;

  __host__ __device__ bool is_y(size_t word) const { return arrays ? word >= n : word % 2 == 1; }
  __device__ bool operator()(size_t word, float found) const {
    if (is_y(word) && fields == 1) return found != found;
    return found == Input{}(word) + (is_y(word) ? 20.0f : 10.0f);
  }
};

/// n pairs in and out.
struct Pairs {
  static constexpr double bytes_each = 16;  ///< read and written

  size_t n;
  DeviceBuffer<float> in = filled<float>(2 * n, Input{});
  Output<float> out{2 * n};

  Buffers buffers() { return {in.data(), out.data(), n}; }
  Incremented right(const Kernel& k) const { return {k.layout == Layout::arrays, k.fields, n}; }
};

Task increment_task(const Shared<Pairs>& pairs, const Kernel& k) {
  return {std::string(k.key), [pairs, &k] { k.increment(pairs->buffers()); },
          pairs->out.check(pairs->right(k))};
}
Task copy_task(const Shared<Pairs>& pairs) {
  const auto launch = [pairs] {
    CUDA_CHECK(cudaMemcpyAsync(pairs->out.data(), pairs->in.data(), pairs->in.bytes(),
                               cudaMemcpyDeviceToDevice));
  };
  return {copy_engine, launch, pairs->out.check(SameAsInput{})};
}
/// x is the first of each two words of an AoS, and the first half of the words of an SoA.
Task read_task(const Shared<Words>& words, const Kernel& k) {
  const Slots slots{0, k.layout == Layout::arrays ? 1u : 2u, words->in.size() / 2};
  return words->task(
      std::string(k.key), [words, &k] { k.read(*words); }, slots);
}

// ---- prediction ----

/// Bytes that a kernel has to move: each field that it uses is read once, and written once unless
/// the kernel only reads.
double bytes_used(const Kernel& k, size_t n) {
  return (k.read ? 1.0 : 2.0) * 4 * k.fields * double(n);
}

/// The accesses of a warp, loads and stores alike: one for each field, or one for both.
std::vector<Warp> accesses(const Kernel& k) {
  constexpr size_t n = 1024;  // of an SoA, where y lies behind all x
  if (k.layout == Layout::aligned && k.fields == 2)
    return {warp_of(8, [](unsigned lane) { return lane; })};
  std::vector<Warp> all;
  for (unsigned field = 0; field < k.fields; ++field)
    all.push_back(warp_of(4, [&](unsigned lane) {
      return k.layout == Layout::arrays ? field * n + lane : 2 * lane + field;
    }));
  return all;
}

double sectors_per_request(const Kernel& k) { return sectors(accesses(k)[0]); }

/// The text's efficiency: percentage of the sectors' bytes that a request uses.
double efficiency(const Kernel& k) {
  return 100 * under(Rule::sectors, accesses(k)[0]).utilisation();
}
double efficiency_then(const Kernel& k) { return 100 * k.then_efficient; }

/// Whether a warp writes only a part of the bytes of a sector.
bool writes_in_part(const Kernel& k) {
  return k.increment && k.layout != Layout::arrays && k.fields == 1;
}

/// Bytes that memory moves per pair. The accesses of a warp to one sector are combined in the
/// caches. So each sector of the input is read once, and each sector of the output is written once.
/// If only a part of an output's sector is written, it is also read first.
double bytes_moved_per_pair(const Kernel& k) {
  std::vector<long long> touched;
  for (const Warp& warp : accesses(k))
    for (const long long start : segments(warp, 32)) touched.push_back(start);
  std::sort(touched.begin(), touched.end());
  touched.erase(std::unique(touched.begin(), touched.end()), touched.end());

  constexpr double sector_bytes = 32, pairs_per_warp = 32;
  const double times = k.read ? 1 : writes_in_part(k) ? 3 : 2;
  return times * double(touched.size()) * sector_bytes / pairs_per_warp;
}

/// Measured in the same run; milliseconds.
struct Calibrated {
  double copy_engine = NAN;         ///< 16 bytes per pair, at the memory's rate
  double increment_arrays_x = NAN;  ///< a thread per pair, each with one word in flight
};

double predicted_ms(const Kernel& k, const Calibrated& c) {
  const double memory = c.copy_engine * bytes_moved_per_pair(k) / Pairs::bytes_each;
  return k.read ? memory : std::max(memory, c.increment_arrays_x);
}

/// We saw only on compute capability 9.0 that a sector is read before a part of it is written.
Model model_of(const Kernel& k, const Device* device) {
  return !writes_in_part(k) || (device && device->prop.major == 9) ? Model::traffic : Model::host;
}

// ---- the experiment ----

constexpr size_t counted_pairs = 65536;
const std::string counted_parameter = "65536 pairs";

/// Keeps the share of the counted sectors' bytes that a kernel uses.
void keep_efficiency(const Run& run, const Kernel& k) {
  const double used = bytes_used(k, counted_pairs) / 2, sector_bytes = 32;
  for (const bool loads : {true, false}) {
    const Statistics counted =
        ask_count(run, std::string(k.key), counted_parameter, expected_sectors(loads, 0).metric);
    keep(run, k.key, loads ? "efficiency of the loads" : "efficiency of the stores", "",
         rate(used / sector_bytes, counted));
  }
}

constexpr double bytes_per_pair = 16 + 8;  ///< for incrementing, and for reading

/// So many pairs that their x alone, 4 bytes each, does not fit into the L2.
size_t pairs_of(const Run& run) {
  return size_beyond_l2(run, "structs", size_t(1) << (run.quick ? 24 : 26), 4, bytes_per_pair);
}

/// A column of numbers of the rows' kernels; the copy engine has none.
Shown of_kernel(Column column, double (*number_of)(const Kernel&)) {
  return number(std::move(column), [number_of](const Row& row) {
    const Kernel* k = with_key(kernels, row.ref);
    return k ? number_of(*k) : double(NAN);
  });
}

void run_structs(const Run& run) {
  const size_t n = pairs_of(run);
  run.report.begin("structs", std::to_string(n) + " pairs of floats, " +
                                  bytes_text(Pairs::bytes_each / 2 * double(n)));
  SharedByTasks pairs([n] { return Pairs{n}; });
  SharedByTasks words([&run, n] { return Words(2 * n, resident_grid(*run.device)); });

  Sheet sheet(
      run, "kernel",
      {of_kernel(predicted("sectors/request", "sectors a request", "", 0), sectors_per_request),
       of_kernel(predicted("efficiency %", "efficiency", "%", 0), efficiency),
       of_kernel(then("then %", "efficiency", "%", 0), efficiency_then),
       of_kernel(predicted("bytes moved per pair", "bytes moved a pair", "B", 0),
                 bytes_moved_per_pair),
       milliseconds(4), spread(), in_unit(measured("GB/s used", "bandwidth", "GB/s", 0), gbs_of),
       bar_against(run, copy_engine)});
  sheet.add({.ref = copy_engine,
             .words = "copy engine",
             .bytes = Pairs::bytes_each * double(n),
             .calibrates = true});
  for (const Kernel& k : kernels)
    sheet.add({.ref = k.key,
               .words = k.words,
               .bytes = bytes_used(k, n),
               .calibrates = k.key == "increment_arrays_x",
               .model = model_of(k, run.device)});
  sheet.measure(Timing::in_turn, [&](const Row& row) {
    const Kernel* k = with_key(kernels, row.ref);
    if (!k) return copy_task(pairs());
    return k->read ? read_task(words(), *k) : increment_task(pairs(), *k);
  });
  const Calibrated c{sheet.ms(copy_engine), sheet.ms("increment_arrays_x")};
  sheet.predict([&](const Row& row) { return predicted_ms(*with_key(kernels, row.ref), c); });
  sheet.print({"if only a part of a sector is written, the GPU first reads the whole sector"});
  for (const Kernel& k : kernels)
    if (k.increment && k.fields == 2) keep_efficiency(run, k);
}

// ---- claims ----

/// The text's count: the same efficiency of loads and of stores.
Claim efficiency_claim(Part part, double share, const char* kernel) {
  return {.part = std::move(part),
          .rule = about(share),
          .levels = {{kernel, "efficiency of the loads"}, {kernel, "efficiency of the stores"}},
          .needs = "needs counts of this run: cmake --workflow --preset profile"};
}

std::vector<Claim> claims(const Run& run) {
  const char* const count = "the wiki's count";
  std::vector<Claim> all{
      efficiency_claim(
          {"03.4a", "two accesses to an AoS are 50% efficient, loads and stores", "50%", count},
          0.5, "increment_pairs"),
      efficiency_claim({"03.4b", "those to an SoA are 100% efficient", "100%", count}, 1,
                       "increment_arrays"),
      efficiency_claim(
          {"03.4c", "those to an AoS aligned to 8 bytes are 100% efficient", "100%", count}, 1,
          "increment_aligned")};
  all.back().found = {{.slow = "increment_pairs", .fast = "increment_arrays"},
                      {.slow = "increment_pairs", .fast = "increment_aligned"}};
  const bool in_cache = run.device && !beyond_l2(*run.device, 4 * double(pairs_of(run)));
  all.push_back(
      {.part = {"03.13", "reading x alone of an AoS of two fields loses 50% of the bandwidth",
                "50%, no measurement", "the wiki"},
       .rule = beats(2),
       .pairs = {{.slow = "read_pairs_x", .fast = "read_arrays_x"}},
       .unless = in_cache ? "x of all pairs is less than four times the L2" : "",
       .found = {{.slow = "increment_pairs_x", .fast = "increment_arrays_x"},
                 {.slow = "increment_aligned_x", .fast = "increment_arrays_x"}}});
  return all;
}

// ---- what it declares ----

Needs needs(const Run& run) {
  const double n = double(pairs_of(run));
  return {.allocated = bytes_per_pair * n, .touched = 4 * n};
}

std::vector<Checked> tasks(size_t n) {
  std::vector<Checked> all;
  for (const Kernel& k : kernels) {
    if (k.increment) {
      const Shared pairs(Pairs{n});
      all.push_back({.task = increment_task(pairs, k),
                     .elements = k.fields * n,  // a y that is not used stays poisoned, and is right
                     .change_one = [pairs] { pairs->out.change(0); }});
    } else {
      const Shared words(Words(2 * n, Grid{3}));
      all.push_back({.task = read_task(words, k),
                     .elements = words->grid.threads(),
                     .change_one = [words] { words->change_one(); }});
    }
  }
  return all;
}

std::vector<CountedLaunch> counted() {
  constexpr double warps = counted_pairs / 32;
  std::vector<CountedLaunch> all;
  for (const Kernel& k : kernels) {
    if (!k.increment) continue;
    Requested each;  // loads and stores alike
    for (const Warp& warp : accesses(k))
      each.requests += warps, each.sectors += warps * sectors(warp);
    all.push_back(counted_launch(std::string(k.key), counted_parameter, each, each,
                                 [&k] { return increment_task(Shared(Pairs{counted_pairs}), k); }));
  }
  return all;
}

}  // namespace

extern const Experiment structs_experiment{
    .name = "structs",
    .about = "arrays of structures, structures of arrays, and alignment",
    .run = run_structs,
    .claims = claims,
    .needs = needs,
    .tasks = tasks,
    .counted = counted};
