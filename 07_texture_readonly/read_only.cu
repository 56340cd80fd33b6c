// read_only: the wiki sends scattered reads through the read-only cache, whose loads were 32 bytes
// fine while L1 took lines of 128 [LC]; the lectures add that __ldg surely goes there, and const
// __restrict__ probably [PR]. One kernel is written in eight ways. Look at which load each became
// in this very program, at how little the path matters since it and L1 are one cache, and at the
// last two: what __restrict__ still gains.
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

#include "../common/report.hpp"
#include "options.hpp"
#include "own_code.hpp"

namespace {

constexpr unsigned threads = 128;                  // of a block
constexpr unsigned turns = 16;                     // words of a thread: all under way at once
constexpr unsigned block_words = threads * turns;  // 8 KiB: L1 holds those of all resident blocks

/// The word that read i of n asks for.
using Order = size_t (*)(size_t i, size_t n);

// ---- kernels: a thread adds up its 16 words of n. Beyond the end it loads word 0, and does not
// add it. Neighbouring lanes make neighbouring reads; which words those are is the order's. ----

// [plain]
// Nothing says that `out` lies elsewhere.
template <Order order>
__global__ void plain(float* out, const float* in, size_t n) {
  const size_t first = blockIdx.x * size_t(block_words) + threadIdx.x;
  float word[turns], sum = 0;
#pragma unroll
  for (unsigned k = 0; k < turns; ++k) {
    const size_t i = first + k * threads;
    word[k] = in[i < n ? order(i, n) : 0];
  }
#pragma unroll
  for (unsigned k = 0; k < turns; ++k) sum += first + k * threads < n ? word[k] : 0;
  out[blockIdx.x * size_t(threads) + threadIdx.x] = sum;
}
// [/plain]

// The kernel promises that no one writes what it reads through `in`.
template <Order order>
__global__ void const_restrict(float* __restrict__ out, const float* __restrict__ in, size_t n) {
  const size_t first = blockIdx.x * size_t(block_words) + threadIdx.x;
  float word[turns], sum = 0;
#pragma unroll
  for (unsigned k = 0; k < turns; ++k) {
    const size_t i = first + k * threads;
    word[k] = in[i < n ? order(i, n) : 0];
  }
#pragma unroll
  for (unsigned k = 0; k < turns; ++k) sum += first + k * threads < n ? word[k] : 0;
  out[blockIdx.x * size_t(threads) + threadIdx.x] = sum;
}

// The load itself is named; the pointers promise nothing.
template <Order order>
__global__ void ldg(float* out, const float* in, size_t n) {
  const size_t first = blockIdx.x * size_t(block_words) + threadIdx.x;
  float word[turns], sum = 0;
#pragma unroll
  for (unsigned k = 0; k < turns; ++k) {
    const size_t i = first + k * threads;
    word[k] = __ldg(&in[i < n ? order(i, n) : 0]);
  }
#pragma unroll
  for (unsigned k = 0; k < turns; ++k) sum += first + k * threads < n ? word[k] : 0;
  out[blockIdx.x * size_t(threads) + threadIdx.x] = sum;
}

// The promise of 2 by members of a parameter, not by a parameter: the compiler does not act on it.
struct Arrays {
  float* __restrict__ out;
  const float* __restrict__ in;
};
template <Order order>
__global__ void in_struct(Arrays a, size_t n) {
  const size_t first = blockIdx.x * size_t(block_words) + threadIdx.x;
  float word[turns], sum = 0;
#pragma unroll
  for (unsigned k = 0; k < turns; ++k) {
    const size_t i = first + k * threads;
    word[k] = a.in[i < n ? order(i, n) : 0];
  }
#pragma unroll
  for (unsigned k = 0; k < turns; ++k) sum += first + k * threads < n ? word[k] : 0;
  a.out[blockIdx.x * size_t(threads) + threadIdx.x] = sum;
}

// Today's hints. Past L1: a sector comes from L2 again each time.
template <Order order>
__global__ void ldcg(float* out, const float* in, size_t n) {
  const size_t first = blockIdx.x * size_t(block_words) + threadIdx.x;
  float word[turns], sum = 0;
#pragma unroll
  for (unsigned k = 0; k < turns; ++k) {
    const size_t i = first + k * threads;
    word[k] = __ldcg(&in[i < n ? order(i, n) : 0]);
  }
#pragma unroll
  for (unsigned k = 0; k < turns; ++k) sum += first + k * threads < n ? word[k] : 0;
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
  const size_t first = blockIdx.x * size_t(block_words) + threadIdx.x;
  float word[turns], sum = 0;
#pragma unroll
  for (unsigned k = 0; k < turns; ++k) {
    const size_t i = first + k * threads;
    word[k] = load_once(&in[i < n ? order(i, n) : 0]);
  }
#pragma unroll
  for (unsigned k = 0; k < turns; ++k) sum += first + k * threads < n ? word[k] : 0;
  out[blockIdx.x * size_t(threads) + threadIdx.x] = sum;
}

// [stored]
// For all the compiler knows the next load reads what this store wrote, and has to wait for it.
template <Order order>
__global__ void stored(float* out, const float* in, size_t n) {
  const size_t first = blockIdx.x * size_t(block_words) + threadIdx.x;
  const size_t own = blockIdx.x * size_t(threads) + threadIdx.x;
  float word[turns], sum = 0;
#pragma unroll
  for (unsigned k = 0; k < turns; ++k) {
    const size_t i = first + k * threads;
    word[k] = in[i < n ? order(i, n) : 0];
    out[own] = word[k];
  }
#pragma unroll
  for (unsigned k = 0; k < turns; ++k) sum += first + k * threads < n ? word[k] : 0;
  out[own] = sum;
}
// [/stored]

// Under the promise it cannot: all loads start at once, and only the last store matters.
template <Order order>
__global__ void stored_restrict(float* __restrict__ out, const float* __restrict__ in, size_t n) {
  const size_t first = blockIdx.x * size_t(block_words) + threadIdx.x;
  const size_t own = blockIdx.x * size_t(threads) + threadIdx.x;
  float word[turns], sum = 0;
#pragma unroll
  for (unsigned k = 0; k < turns; ++k) {
    const size_t i = first + k * threads;
    word[k] = in[i < n ? order(i, n) : 0];
    out[own] = word[k];
  }
#pragma unroll
  for (unsigned k = 0; k < turns; ++k) sum += first + k * threads < n ? word[k] : 0;
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

enum OrderNumber { by_neighbours, by_warps, within_8_kib, anywhere, order_count };
constexpr Order orders[] = {coalesced, broadcast, nearby, scattered};
const char* const order_names[] = {"coalesced", "broadcast", "scattered in 8 KiB", "scattered"};

// ---- the story in order ----

struct Variant {
  const char *name, *kernel;
  void (*start[order_count])(float* out, const float* in, size_t n);
  void (*start_struct[order_count])(Arrays arrays, size_t n);  ///< or with a struct
};

const Variant variants[] = {
    {"plain pointers",
     "plain",
     {plain<coalesced>, plain<broadcast>, plain<nearby>, plain<scattered>},
     {}},
    {"const __restrict__",
     "const_restrict",
     {const_restrict<coalesced>, const_restrict<broadcast>, const_restrict<nearby>,
      const_restrict<scattered>},
     {}},
    {"__ldg", "ldg", {ldg<coalesced>, ldg<broadcast>, ldg<nearby>, ldg<scattered>}, {}},
    {"const __restrict__ in a struct",
     "in_struct",
     {},
     {in_struct<coalesced>, in_struct<broadcast>, in_struct<nearby>, in_struct<scattered>}},
    {"__ldcg: past L1",
     "ldcg",
     {ldcg<coalesced>, ldcg<broadcast>, ldcg<nearby>, ldcg<scattered>},
     {}},
    {"read-only without a line in L1",
     "no_allocate",
     {no_allocate<coalesced>, no_allocate<broadcast>, no_allocate<nearby>, no_allocate<scattered>},
     {}},
    {"each word stored: plain",
     "stored",
     {stored<coalesced>, stored<broadcast>, stored<nearby>, stored<scattered>},
     {}},
    {"each word stored: const __restrict__",
     "stored_restrict",
     {stored_restrict<coalesced>, stored_restrict<broadcast>, stored_restrict<nearby>,
      stored_restrict<scattered>},
     {}},
};
constexpr int variant_count = int(std::size(variants));
enum VariantNumber { plain_pointers, restricted, by_ldg, struct_member, past_l1, no_line, store };

// ---- what is right ----

/// Word i of the input: a whole number from 1 to 4096, so that sums of 16 are exact in float.
__host__ __device__ unsigned value_at(size_t i) { return 1 + (unsigned(i) * 0x9e3779b1u >> 20); }

__global__ void fill(float* in, size_t n) {
  const size_t at_once = size_t(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += at_once)
    in[i] = float(value_at(i));
}

/// Hands each read's word to the thread that has to make it: reads go round the threads of a block,
/// and every 2048 are a block's.
template <Order order>
__global__ void add_to_readers(unsigned* right, size_t n) {
  const size_t at_once = size_t(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += at_once)
    atomicAdd(&right[i / block_words * threads + i % threads], value_at(order(i, n)));
}
void (*const add_all[order_count])(unsigned* right, size_t n) = {
    add_to_readers<coalesced>, add_to_readers<broadcast>, add_to_readers<nearby>,
    add_to_readers<scattered>};

__global__ void count_wrong(const float* out, const unsigned* right, size_t n, unsigned* wrong) {
  const size_t at_once = size_t(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += at_once)
    if (!(out[i] == float(right[i]))) atomicAdd(wrong, 1u);
}

size_t blocks_for(size_t n) { return (n + block_words - 1) / block_words; }

/// The input, the sums, and what they must be.
struct Work {
  static constexpr size_t canaries = 64;  ///< behind the sums

  DeviceBuffer<float> in, out;
  DeviceBuffer<unsigned> right, wrong_sums{1};

  explicit Work(size_t n)
      : in(n), out(blocks_for(n) * threads + canaries), right(blocks_for(n) * threads) {
    fill<<<1024, 256>>>(in.data(), n);
    CUDA_CHECK_LAUNCH();
  }
  void launch(const Variant& v, int order) {
    const unsigned blocks = unsigned(blocks_for(in.size()));
    if (v.start[order])
      v.start[order]<<<blocks, threads>>>(out.data(), in.data(), in.size());
    else
      v.start_struct[order]<<<blocks, threads>>>({out.data(), in.data()}, in.size());
  }
  size_t wrong(int order) {
    CUDA_CHECK(cudaMemset(right.data(), 0, right.bytes()));
    add_all[order]<<<2048, 256>>>(right.data(), in.size());
    CUDA_CHECK_LAUNCH();
    wrong_sums.copy_from({0});
    count_wrong<<<1024, 256>>>(out.data(), right.data(), right.size(), wrong_sums.data());
    CUDA_CHECK_LAUNCH();
    return wrong_sums.to_host()[0];
  }
  Task task(const Variant& v, int order) {
    Check check;
    check.poison = [this] { out.poison(); };
    check.wrong = [this, order] { return wrong(order); };
    return {std::string(v.name) + ", " + order_names[order],
            [this, &v, order] { launch(v, order); }, std::move(check)};
  }
};

// ---- which loads they became ----

/// Loads from global memory in a kernel's code, those of them on the read-only path, and which
/// instructions they are.
struct Compiled {
  unsigned loads = 0, read_only = 0;
  std::string instructions;
};

Compiled compiled(const std::string& ptx, const std::string& kernel) {
  const std::string mangled = std::to_string(kernel.size()) + kernel;  // by the Itanium ABI: "3ldg"
  Compiled c;
  for (size_t at = 0; !c.loads && (at = ptx.find(".entry ", at)) != std::string::npos; ++at) {
    const std::string name = ptx.substr(at, ptx.find('\n', at) - at);
    if (name.find("read_only_cu") == std::string::npos) continue;
    if (name.find(mangled) == std::string::npos) continue;
    const size_t end = ptx.find("\n}", at);
    for (size_t load = at; (load = ptx.find("ld.global", load)) < end; ++load, ++c.loads) {
      const std::string instruction = ptx.substr(load, ptx.find_first_of(" \t", load) - load);
      c.read_only += instruction.find(".nc.") != std::string::npos;
      if (c.instructions.find(instruction) == std::string::npos)
        c.instructions += (c.loads ? " " : "") + instruction;
    }
  }
  return c;
}

// ---- what to expect ----

/// 32-byte sectors that the warps' loads ask for, of the first `warps` warps.
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
double sectors_a_request(Order order, size_t n) {
  const size_t warps = std::min<size_t>(1000, (n + 31) / 32);
  return sectors_of(order, n, warps) / double(warps);
}

/// Milliseconds, measured in the same run: one figure for each order, as the loads of all kernels
/// ask one cache for the same sectors; and one for what is wanted again where no line stays in L1.
struct Calibrated {
  double plain[order_count] = {NAN, NAN, NAN, NAN};
  double no_line_stays = NAN;
};

/// Loads that wait for stores are not predicted: their trips are slower than a lone one's, by how
/// much is not known before.
double predicted_ms(int variant, int order, const Calibrated& c) {
  if (variant == store) return NAN;
  const bool line_stays = variant != past_l1 && variant != no_line;
  return order == within_8_kib && !line_stays ? c.no_line_stays : c.plain[order];
}

bool calibrates(int variant, int order) {
  return variant == plain_pointers || (variant == past_l1 && order == within_8_kib);
}

// ---- the experiment ----

using Times = std::vector<Readings>;  // of all variants, order by order

const Readings& of(const Times& times, int variant, int order) {
  return times[size_t(order) * variant_count + variant];
}

Times measure(const Run& run, Work& work) {
  Times times;
  for (int order = 0; order < order_count; ++order) {
    std::vector<Task> tasks;
    for (const Variant& v : variants) tasks.push_back(work.task(v, order));
    for (Readings& each : run.time_in_turn(tasks)) times.push_back(std::move(each));
  }
  return times;
}

void show(const Run& run, const Times& times) {
  Calibrated c;
  for (int order = 0; order < order_count; ++order)
    c.plain[order] = of(times, plain_pointers, order).median();
  c.no_line_stays = of(times, past_l1, within_8_kib).median();
  Table table(run.report, "written as",
              {compared("ms", "time", "ms", 4), shown("spread"), shown("to plain")});
  for (int order = 0; order < order_count; ++order)
    for (int variant = 0; variant < variant_count; ++variant) {
      const Statistics ms = of(times, variant, order).statistics();
      Cell time = Compared{predicted_ms(variant, order, c), ms};
      if (calibrates(variant, order)) time = Calibration{ms};
      table.row({variants[variant].name, "order", order_names[order]},
                {time, spread_text(ms), ::times(ms.median / c.plain[order])});
    }
  table.print();
}

/// Without a GPU in words alone: nothing was counted of what it would run.
void show_code(const Run& run, const std::string& ptx) {
  Table table(run.report, "written as",
              {counted("loads", "loads", "", 0), counted("read-only", "read-only loads", "", 0),
               shown("compiled to")});
  for (const Variant& v : variants) {
    const Compiled c = compiled(ptx, v.kernel);
    std::vector<Cell> cells(2);
    if (run.device) cells = {double(c.loads), double(c.read_only)};
    cells.emplace_back(c.instructions);
    table.row({v.name}, cells);
  }
  table.print();
}

void judge_path(const Run& run, const std::string& ptx) {
  const Part named{"07.2a", "__ldg surely uses the read-only path", "no figure", "the lectures"};
  const Part promised{"07.2b", "const __restrict__ probably uses the read-only path", "no figure",
                      "the lectures"};
  if (!run.device) {
    run.report.judge(named, beats(), {}, "");
    return run.report.judge(promised, beats(), {}, "");
  }
  if (ptx.empty()) {
    const std::string why = "no cuobjdump on the path, or no PTX in the program";
    run.report.not_judged(named, why);
    return run.report.not_judged(promised, why);
  }
  const auto text = [](const Compiled& c) {
    return std::to_string(c.read_only) + " of " + std::to_string(c.loads) + " compiled loads";
  };
  const Compiled by_name = compiled(ptx, "ldg");
  const Compiled by_promise = compiled(ptx, "const_restrict");
  run.report.judge_fact(named, by_name.loads > 0 && by_name.read_only == by_name.loads,
                        text(by_name));
  run.report.judge_fact(promised, by_promise.loads > 0 && by_promise.read_only == by_promise.loads,
                        text(by_promise));
  run.report.finding("07.2b", "in a struct " + text(compiled(ptx, "in_struct")));
}

/// `times`: empty without a GPU.
void judge_scattered(const Run& run, const Times& times, bool beyond) {
  const Part part{"07.1", "scattered reads do better through the read-only path", "no figure",
                  "the wiki", kepler};
  if (times.empty()) return run.report.judge(part, beats(), {}, "");
  if (!beyond) return run.report.not_judged(part, "the data is less than four times the L2");
  const Interval gain = ratio(of(times, plain_pointers, anywhere), of(times, by_ldg, anywhere));
  run.report.judge(part, beats(), gain,
                   faster(gain) + " by __ldg; one cache since Maxwell, as the lectures say");
  const Interval close =
      ratio(of(times, plain_pointers, within_8_kib), of(times, by_ldg, within_8_kib));
  run.report.finding("07.1", "within 8 KiB, which L1 holds: " + faster(close) + " by __ldg");
}

double bytes_needed(double side) { return side * side * 4 * (1 + 2.0 / turns) + (1 << 20); }

/// By default a square beyond the L2.
size_t side_for(const Run& run, size_t typed) {
  size_t by_default = 8192;
  while (run.device && !beyond_l2(*run.device, 4.0 * double(by_default) * double(by_default)))
    by_default *= 2;
  return fitting_size("read_only of --size " + std::to_string(typed), typed, by_default,
                      run.memory_there(), [](size_t side) { return bytes_needed(double(side)); });
}

}  // namespace

void read_only_fits(const Run& run, const Options& options) { side_for(run, options.size); }

void read_only(const Run& run, const Options& options) {
  const size_t side = side_for(run, options.size);
  const size_t n = side * side;
  run.report.begin("read_only", std::to_string(n) + " floats, " + bytes_text(4.0 * double(n)) +
                                    ", read in four orders");
  Table wanted(run.report, "order", {predicted("sectors/request", "sectors a request", "", 1)});
  for (int order = 0; order < order_count; ++order)
    wanted.row({order_names[order]}, {sectors_a_request(orders[order], n)});
  wanted.print();
  const std::string ptx = own_ptx();
  if (!ptx.empty()) show_code(run, ptx);

  Times times;
  if (run.device) {
    Work work(n);
    times = measure(run, work);
    show(run, times);
    run.report.note(
        "calibration: plain pointers in each order, and past L1 where words come again");
  } else {
    run.report.left_out("the times");
  }
  judge_scattered(run, times, run.device && beyond_l2(*run.device, 4.0 * double(n)));
  judge_path(run, ptx);
}
