// read_only: the wiki sends scattered reads through the read-only cache, whose loads were 32 bytes
// fine while L1 took lines of 128 [LC]. The lectures add that __ldg surely goes there, and const
// __restrict__ probably [PR]. One kernel is written in eight versions. Three things to look at:
//   - Which load each version became in this very program: CMake's build looks into the compiled
//   code.
//   - How little the load matters: the read-only cache and L1 have been one since Maxwell.
//   - What __restrict__ still gains, in the last two.
//
//   cmake -S 07_texture_readonly -B build/read_only -DEXPERIMENTS=read_only
//   cmake --build build/read_only && build/read_only/07_texture_readonly
//
//   1  plain            plain pointers
//   2  const_restrict   const __restrict__
//   3  ldg              __ldg
//   4  in_struct        2 in a struct
//   5  ldcg             past L1
//   6  no_allocate      read-only, without leaving a line in L1
//   7  stored           1, and each word stored before the next is loaded
//   8  stored_restrict  2, likewise
#include <initializer_list>
#include <set>

#include "../framework/common/checked.cuh"
#include "../framework/common/experiment.hpp"
#include "options.hpp"

using namespace samples;

namespace {

constexpr unsigned threads = 128;      // of a block
constexpr unsigned thread_words = 16;  // words of a thread: all in flight at once
constexpr unsigned block_words =
    threads * thread_words;  // 8 KiB: L1 holds those of all resident blocks

/// The word that read i of n asks for.
using Order = size_t (*)(size_t i, size_t n);
using Load = float (*)(const float* word);

// ---- kernels: a thread adds up its 16 words of n. Neighbouring lanes make neighbouring reads;
// which words those are is the order's. ----

// [add_up]
// Beyond the end a thread loads word 0, and does not add it.
template <Order order, Load load>
__device__ float add_up(const float* in, size_t n) {
  const size_t first = blockIdx.x * size_t(block_words) + threadIdx.x;
  float word[thread_words], sum = 0;
#pragma unroll
  for (unsigned k = 0; k < thread_words; ++k) {
    const size_t i = first + k * threads;
    word[k] = load(&in[i < n ? order(i, n) : 0]);
  }
#pragma unroll
  for (unsigned k = 0; k < thread_words; ++k) sum += first + k * threads < n ? word[k] : 0;
  return sum;
}

__device__ float load_plain(const float* word) { return *word; }

// Nothing says that `out` lies elsewhere.
template <Order order>
__global__ void plain(float* out, const float* in, size_t n) {
  const float sum = add_up<order, load_plain>(in, n);
  out[blockIdx.x * size_t(threads) + threadIdx.x] = sum;
}

// The kernel promises that no one writes what it reads through `in`.
template <Order order>
__global__ void const_restrict(float* __restrict__ out, const float* __restrict__ in, size_t n) {
  const float sum = add_up<order, load_plain>(in, n);
  out[blockIdx.x * size_t(threads) + threadIdx.x] = sum;
}
// [/add_up]

// The load itself is named; the pointers promise nothing.
__device__ float load_ldg(const float* word) { return __ldg(word); }
template <Order order>
__global__ void ldg(float* out, const float* in, size_t n) {
  const float sum = add_up<order, load_ldg>(in, n);
  out[blockIdx.x * size_t(threads) + threadIdx.x] = sum;
}

// The promise of 2 by members of a parameter, not by a parameter: the compiler does not act on it.
struct Arrays {
  float* __restrict__ out;
  const float* __restrict__ in;
};
template <Order order>
__global__ void in_struct(Arrays a, size_t n) {
  const float sum = add_up<order, load_plain>(a.in, n);
  a.out[blockIdx.x * size_t(threads) + threadIdx.x] = sum;
}

// Today's hints. Past L1: a sector comes from L2 again each time.
__device__ float load_ldcg(const float* word) { return __ldcg(word); }
template <Order order>
__global__ void ldcg(float* out, const float* in, size_t n) {
  const float sum = add_up<order, load_ldcg>(in, n);
  out[blockIdx.x * size_t(threads) + threadIdx.x] = sum;
}

/// A load on the read-only path that leaves no line behind in L1, where the GPU knows it.
__device__ float load_once(const float* word) {
#if __CUDA_ARCH__ >= 700
  float value;
  asm("ld.global.nc.L1::no_allocate.f32 %0, [%1];"
      : "=f"(value)
      : "l"(__cvta_generic_to_global(word)));
  return value;
#else
  return __ldg(word);
#endif
}
// The same sectors as of 3, from L2 each time.
template <Order order>
__global__ void no_allocate(float* out, const float* in, size_t n) {
  const float sum = add_up<order, load_once>(in, n);
  out[blockIdx.x * size_t(threads) + threadIdx.x] = sum;
}

// [stored]
// For all the compiler knows the next load reads what this store wrote, and has to wait for it.
template <Order order>
__global__ void stored(float* out, const float* in, size_t n) {
  const size_t first = blockIdx.x * size_t(block_words) + threadIdx.x;
  const size_t own = blockIdx.x * size_t(threads) + threadIdx.x;
  float word[thread_words], sum = 0;
#pragma unroll
  for (unsigned k = 0; k < thread_words; ++k) {
    const size_t i = first + k * threads;
    word[k] = in[i < n ? order(i, n) : 0];
    out[own] = word[k];
  }
#pragma unroll
  for (unsigned k = 0; k < thread_words; ++k) sum += first + k * threads < n ? word[k] : 0;
  out[own] = sum;
}
// [/stored]

// Under the promise it cannot: all loads start at once, and only the last store matters.
template <Order order>
__global__ void stored_restrict(float* __restrict__ out, const float* __restrict__ in, size_t n) {
  const size_t first = blockIdx.x * size_t(block_words) + threadIdx.x;
  const size_t own = blockIdx.x * size_t(threads) + threadIdx.x;
  float word[thread_words], sum = 0;
#pragma unroll
  for (unsigned k = 0; k < thread_words; ++k) {
    const size_t i = first + k * threads;
    word[k] = in[i < n ? order(i, n) : 0];
    out[own] = word[k];
  }
#pragma unroll
  for (unsigned k = 0; k < thread_words; ++k) sum += first + k * threads < n ? word[k] : 0;
  out[own] = sum;
}

// ---- the orders; n is at most 2^32 ----

/// Mixes all bits of `x`: shifted xors and odd factors, each of which can be undone.
__host__ __device__ unsigned mixed(unsigned x) {
  x = (x ^ x >> 16) * 0x7feb352du;
  x = (x ^ x >> 15) * 0x846ca68bu;
  return x ^ x >> 16;
}

/// Neighbours side by side: 4 sectors of 32 bytes a warp.
__host__ __device__ size_t coalesced(size_t i, size_t) { return i; }

/// All lanes of a warp the same word: 1 sector.
__host__ __device__ size_t broadcast(size_t i, size_t) { return i / 32; }

/// Any word of the block's own 8 KiB: nearly 32 sectors, each wanted again and again.
__host__ __device__ size_t nearby(size_t i, size_t n) {
  const size_t start = i / block_words * block_words;
  const size_t width = n - start < block_words ? n - start : block_words;
  return start + (mixed(unsigned(i)) * width >> 32);
}

/// Any word at all: 32 sectors.
__host__ __device__ size_t scattered(size_t i, size_t n) { return mixed(unsigned(i)) * n >> 32; }

struct NamedOrder {
  const char *key, *words;
  Order place;
};
enum OrderNumber { by_neighbours, by_warps, within_8_kib, anywhere, order_count };
constexpr NamedOrder orders[] = {{"coalesced", "coalesced", coalesced},
                                 {"broadcast", "broadcast", broadcast},
                                 {"nearby", "scattered in 8 KiB", nearby},
                                 {"scattered", "scattered", scattered}};

// ---- the eight versions ----

struct Version {
  const char *key, *words;
  void (*kernel[order_count])(float* out, const float* in, size_t n);
  void (*of_struct[order_count])(Arrays arrays, size_t n) = {};  ///< or with a struct
  bool line_stays = true;                                        ///< in L1
  bool waits = false;                                            ///< for its stores
};

constexpr Version versions[] = {
    {"plain",
     "plain pointers",
     {plain<coalesced>, plain<broadcast>, plain<nearby>, plain<scattered>}},
    {"const_restrict",
     "const __restrict__",
     {const_restrict<coalesced>, const_restrict<broadcast>, const_restrict<nearby>,
      const_restrict<scattered>}},
    {"ldg", "__ldg", {ldg<coalesced>, ldg<broadcast>, ldg<nearby>, ldg<scattered>}},
    {"in_struct",
     "const __restrict__ in a struct",
     {},
     {in_struct<coalesced>, in_struct<broadcast>, in_struct<nearby>, in_struct<scattered>}},
    {.key = "ldcg",
     .words = "__ldcg: past L1",
     .kernel = {ldcg<coalesced>, ldcg<broadcast>, ldcg<nearby>, ldcg<scattered>},
     .line_stays = false},
    {.key = "no_allocate",
     .words = "read-only without a line in L1",
     .kernel = {no_allocate<coalesced>, no_allocate<broadcast>, no_allocate<nearby>,
                no_allocate<scattered>},
     .line_stays = false},
    {.key = "stored",
     .words = "each word stored: plain",
     .kernel = {stored<coalesced>, stored<broadcast>, stored<nearby>, stored<scattered>},
     .waits = true},
    {"stored_restrict",
     "each word stored: const __restrict__",
     {stored_restrict<coalesced>, stored_restrict<broadcast>, stored_restrict<nearby>,
      stored_restrict<scattered>}},
};

/// One row: a version of the kernel, and the order of the words.
struct Reading {
  const Version& version;
  int order;

  Ref ref() const { return std::string(version.key) + "_" + orders[order].key; }
};

std::vector<Reading> all_readings() {
  std::vector<Reading> all;
  for (int order = 0; order < order_count; ++order)
    for (const Version& version : versions) all.push_back({version, order});
  return all;
}

Reading reading_of(const Row& row) {
  for (const Reading& r : all_readings())
    if (same(r.ref(), row.ref)) return r;
  throw std::logic_error("no reading " + text(row.ref));
}

// ---- what is right ----

/// Word i of the input: a whole number from 1 to 4096, so that sums of 16 are exact in float.
__host__ __device__ unsigned value_at(size_t i) { return 1 + (unsigned(i) * 0x9e3779b1u >> 20); }
struct ValueAt {
  __device__ float operator()(size_t i) const { return float(value_at(i)); }
};

/// Hands each read's word to the thread that has to make it: reads go round the threads of a block,
/// and every 2048 are a block's.
template <Order order>
__global__ void add_to_readers(unsigned* right, size_t n) {
  const size_t at_once = size_t(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += at_once)
    atomicAdd(&right[i / block_words * threads + i % threads], value_at(order(i, n)));
}
constexpr void (*add_all[order_count])(unsigned* right, size_t n) = {
    add_to_readers<coalesced>, add_to_readers<broadcast>, add_to_readers<nearby>,
    add_to_readers<scattered>};

struct IsSum {
  const unsigned* right;
  __device__ bool operator()(size_t i, float sum) const { return sum == float(right[i]); }
};

size_t blocks_for(size_t n) { return (n + block_words - 1) / block_words; }

/// The input, the sums, and what they must be.
struct Sums {
  DeviceBuffer<float> in;
  Output<float> out;
  DeviceBuffer<unsigned> right;

  explicit Sums(size_t n)
      : in(filled<float>(n, ValueAt{})),
        out(blocks_for(n) * threads),
        right(blocks_for(n) * threads) {}
  size_t wrong(int order) {
    CUDA_CHECK(cudaMemset(right.data(), 0, right.bytes()));
    add_all[order]<<<2048, 256>>>(right.data(), in.size());
    CUDA_CHECK_LAUNCH();
    return out.wrong(IsSum{right.data()});
  }
};

Task read_task(const Shared<Sums>& sums, const Reading& r) {
  const auto launch = [sums, r] {
    const unsigned blocks = unsigned(blocks_for(sums->in.size()));
    float *const out = sums->out.data(), *const in = sums->in.data();
    if (r.version.kernel[r.order])
      r.version.kernel[r.order]<<<blocks, threads>>>(out, in, sums->in.size());
    else
      r.version.of_struct[r.order]<<<blocks, threads>>>({out, in}, sums->in.size());
  };
  Check check;
  check.poison = [sums] { sums->out.poison(); };
  check.wrong = [sums, r] { return sums->wrong(r.order); };
  return {text(r.ref()), launch, std::move(check)};
}

// ---- which loads they became ----

/// Loads from global memory in a kernel's code, those of them on the read-only path, and the
/// instruction.
struct Compiled {
  const char* key;
  int loads, read_only;
  const char* instruction;
};
/// By cmake/compiled_loads.cmake; empty where another build made the program.
constexpr std::initializer_list<Compiled> compiled_loads = {
#ifdef COMPILED_LOADS
#include COMPILED_LOADS
#endif
};

const Compiled& compiled(std::string_view key) {
  for (const Compiled& c : compiled_loads)
    if (key == c.key) return c;
  throw std::logic_error("no compiled loads of " + std::string(key));
}

// ---- prediction ----

/// 32-byte sectors that the loads of the first `warps` warps ask for.
double sectors_of(Order order, size_t n, size_t warps) {
  const size_t reads = std::min(n, 32 * warps);
  size_t all = 0;
  for (size_t first = 0; first < reads; first += 32) {
    std::set<size_t> wanted;
    for (size_t i = first; i < std::min(first + 32, reads); ++i) wanted.insert(order(i, n) / 8);
    all += wanted.size();
  }
  return double(all);
}
double sectors_per_request(Order order, size_t n) {
  const size_t warps = std::min<size_t>(1000, (n + 31) / 32);
  return sectors_of(order, n, warps) / double(warps);
}

/// The row whose time another takes as well: all versions ask one cache for the same sectors. Words
/// that are wanted again come from L2 again where no line stays in L1. Loads that wait for stores
/// are not predicted: by how much they are slower is not known before.
Reading like(const Reading& r) {
  const Version &by_plain = versions[0], &past_l1 = versions[4];
  return {r.order == within_8_kib && !r.version.line_stays ? past_l1 : by_plain, r.order};
}

// ---- the experiment ----

double bytes_needed(double side) { return side * side * 4 * (1 + 2.0 / thread_words) + (1 << 20); }

/// By default a square beyond the L2.
size_t side_of(const Run& run) {
  size_t by_default = 8192;
  while (run.device && !beyond_l2(*run.device, 4.0 * double(by_default) * double(by_default)))
    by_default *= 2;
  const size_t typed = options_of(run).size;
  return fitting_size("read_only of --size " + std::to_string(typed), typed, by_default,
                      run.memory_there(), [](size_t side) { return bytes_needed(double(side)); });
}
size_t words_of(const Run& run) { return side_of(run) * side_of(run); }

void show_orders(const Run& run, size_t n) {
  Table table(run.report, "order", {predicted("sectors/request", "sectors a request", "", 1)});
  for (const NamedOrder& order : orders)
    table.row({order.key, "", "", order.words}, {sectors_per_request(order.place, n)});
  table.print();
}

void show_loads(const Run& run) {
  if (compiled_loads.size() == 0)
    return run.report.left_out("which loads the versions became",
                               "CMake did not build the program");
  Table table(run.report, "written as",
              {counted("loads", "loads", "", 0), counted("read-only", "read-only loads", "", 0),
               shown("compiled to")});
  for (const Version& version : versions) {
    const Compiled& c = compiled(version.key);
    std::vector<Cell> counts(2);  // without a GPU nothing is counted of what it would run
    if (run.device) counts = {double(c.loads), double(c.read_only)};
    table.row({version.key, "", "", version.words},
              {counts[0], counts[1], std::string(c.instruction)});
  }
  table.print();
}

void run_read_only(const Run& run) {
  const size_t n = words_of(run);
  run.report.begin("read_only", std::to_string(n) + " floats, " + bytes_text(4.0 * double(n)) +
                                    ", read in four orders");
  show_orders(run, n);
  show_loads(run);
  SharedByTasks memory([n] { return Sums(n); });
  for (int order = 0; order < order_count; ++order) {
    Sheet sheet(run, "order, written as",
                {milliseconds(4),
                 spread(),
                 {shown("to plain"), {}, {}, [&](const Row&, const Statistics& ms) {
                    const Ref plainly = Reading{versions[0], order}.ref();
                    return ms.repeats ? times(ms.median / sheet.ms(plainly)) : "";
                  }}});
    for (const Version& version : versions) {
      const Reading r{version, order};
      sheet.add({.ref = r.ref(),
                 .words = std::string(orders[order].words) + ", " + version.words,
                 .calibrates = same(like(r).ref(), r.ref())});
    }
    sheet.measure(Timing::in_turn,
                  [&](const Row& row) { return read_task(memory(), reading_of(row)); });
    sheet.predict([&](const Row& row) {
      const Reading r = reading_of(row);
      return r.version.waits ? NAN : sheet.ms(like(r).ref());
    });
    sheet.print();
  }
}

// ---- claims ----

std::vector<Claim> claims(const Run& run) {
  std::vector<Claim> all = {
      {.part = {"07.1", "scattered reads do better through the read-only path", "no figure",
                "the wiki", kepler},
       .rule = beats(),
       .pairs = {{"plain_scattered", "ldg_scattered"}},
       .here = "one cache since Maxwell, as the lectures say",
       .unless = run.device && !beyond_l2(*run.device, 4.0 * double(words_of(run)))
                     ? "the data is less than four times the L2"
                     : "",
       .found = {{"plain_nearby", "ldg_nearby"}}},
      {.part = {"07.2a", "__ldg surely uses the read-only path", "no figure", "the lectures"}},
      {.part = {"07.2b", "const __restrict__ probably uses the read-only path", "no figure",
                "the lectures"}}};
  const std::string unless = !run.device                  ? "no GPU"
                             : compiled_loads.size() == 0 ? "CMake did not build the program"
                                                          : "";
  if (!unless.empty()) {
    for (Claim* each : {&all[1], &all[2]}) each->unless = unless;
    return all;
  }
  const auto in_words = [](const Compiled& c) {
    return std::to_string(c.read_only) + " of " + std::to_string(c.loads) + " compiled loads";
  };
  const Compiled &by_name = compiled("ldg"), &by_promise = compiled("const_restrict");
  all[1].fact = by_name.loads > 0 && by_name.read_only == by_name.loads ? Fact::so : Fact::not_so;
  all[1].here = in_words(by_name);
  all[2].fact =
      by_promise.loads > 0 && by_promise.read_only == by_promise.loads ? Fact::so : Fact::not_so;
  all[2].here = in_words(by_promise) + "; in a struct " + in_words(compiled("in_struct"));
  return all;
}

// ---- what it declares ----

Needs needs(const Run& run) {
  const double side = double(side_of(run));
  return {.allocated = bytes_needed(side), .touched = 4 * side * side};
}

std::vector<Checked> tasks(size_t n) {
  const Shared sums{Sums(n)};
  std::vector<Checked> all;
  for (const Reading& r : all_readings())
    all.push_back({.task = read_task(sums, r), .elements = sums->out.size(), .change_one = [sums] {
                     sums->out.change(5);
                   }});
  return all;
}

/// Plain loads and __ldg in the four orders.
std::vector<CountedLaunch> counted() {
  constexpr size_t n = 64 * block_words;
  std::vector<CountedLaunch> all;
  for (int order = 0; order < order_count; ++order)
    for (const Version* version : {&versions[0], &versions[2]})
      all.push_back(counted_launch(version->key, orders[order].words,
                                   {double(n / 32), sectors_of(orders[order].place, n, n / 32)}, {},
                                   [version, order] {
                                     return read_task(Shared(Sums(n)), {*version, order});
                                   }));
  return all;
}

}  // namespace

extern const Experiment read_only_experiment{
    .name = "read_only",
    .about = "plain loads, const __restrict__, __ldg and cache hints",
    .run = run_read_only,
    .check_typed = [](const Run& run) { side_of(run); },
    .claims = claims,
    .needs = needs,
    .tasks = tasks,
    .counted = counted};
