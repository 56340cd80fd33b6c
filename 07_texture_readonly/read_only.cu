// read_only: the wiki sends scattered reads through the read-only cache, whose loads then were 32 bytes fine while L1
// took lines of 128; the lectures say that `__ldg` surely goes there and that `const __restrict__` is a hint. Look at
// which load each way of writing it becomes in this very program, and at how little the path matters since it and L1
// are one cache of 32-byte sectors. What __restrict__ still gains is in the last two rows: loads that wait for no
// store.
#include <doctest/doctest.h>

#include <set>

#include "../common/first_edition.hpp"
#include "../common/host_threads.hpp"
#include "options.hpp"
#include "own_code.hpp"

namespace {

// ---- what is read, and in which order -------------------------------------------------------------------------------

constexpr unsigned threads = 128, turns = 16;      // a thread reads 16 words
constexpr unsigned block_words = threads * turns;  // 8 KiB: those of all resident blocks fit L1, or nearly so
enum Pattern { coalesced, broadcast, near, scattered };
const char* const names[] = {"coalesced", "broadcast", "scattered in 8 KiB", "scattered"};
const Pattern patterns[] = {coalesced, broadcast, near, scattered};

/// Mixes all bits of `x`: shifted xors and odd factors, each of which can be undone.
__host__ __device__ unsigned mixed(unsigned x) {
  x = (x ^ x >> 16) * 0x7feb352du;
  x = (x ^ x >> 15) * 0x846ca68bu;
  return x ^ x >> 16;
}
/// Word `i` of the input: a whole number from 1 to 4096, so that sums of a few are exact in float.
__host__ __device__ float value_at(size_t i) { return float(1 + (unsigned(i) * 0x9e3779b1u >> 20)); }

/// The read that a thread makes in its turn `k`; neighbouring lanes make neighbouring reads.
__host__ __device__ size_t read_of(size_t block, unsigned thread, unsigned k) {
  return block * block_words + k * threads + thread;
}
/// The word that read `i` of `n` asks for. n is at most 2^32.
__host__ __device__ size_t index(Pattern pattern, size_t i, size_t n) {
  const size_t start = i / block_words * block_words, width = n - start < block_words ? n - start : block_words;
  if (pattern == broadcast) return i / 32;
  if (pattern == near) return start + (mixed(unsigned(i)) * width >> 32);
  if (pattern == scattered) return mixed(unsigned(i)) * n >> 32;
  return i;
}

// ---- one kernel, written in many ways -------------------------------------------------------------------------------

// Each thread adds up its 16 words, all of them under way before the first is added. Beyond the end it loads word 0.
template <class Load>
__device__ void add_up(float* out, size_t n, Pattern pattern, Load load) {
  const auto read = [](unsigned k) { return read_of(blockIdx.x, threadIdx.x, k); };
  unsigned at[turns];
  float word[turns], sum = 0;
  for (unsigned k = 0; k < turns; ++k) at[k] = read(k) < n ? unsigned(index(pattern, read(k), n)) : 0;
  for (unsigned k = 0; k < turns; ++k) word[k] = load(at[k]);
  for (unsigned k = 0; k < turns; ++k) sum += read(k) < n ? word[k] : 0;
  out[blockIdx.x * size_t(threads) + threadIdx.x] = sum;
}

// Nothing says that `out` lies elsewhere.
__global__ void plain(float* out, const float* in, size_t n, Pattern pattern) {
  add_up(out, n, pattern, [&](size_t i) { return in[i]; });
}
// The kernel promises that no one writes what it reads through `in`.
__global__ void const_restrict(float* __restrict__ out, const float* __restrict__ in, size_t n, Pattern pattern) {
  add_up(out, n, pattern, [&](size_t i) { return in[i]; });
}
// The load itself is named; the pointers promise nothing.
__global__ void ldg(float* out, const float* in, size_t n, Pattern pattern) {
  add_up(out, n, pattern, [&](size_t i) { return __ldg(&in[i]); });
}
// The same promise by members of a parameter, not by a parameter: the compiler does not act on it.
struct Arrays {
  float* __restrict__ out;
  const float* __restrict__ in;
};
__global__ void in_struct(Arrays a, size_t n, Pattern pattern) {
  add_up(a.out, n, pattern, [&](size_t i) { return a.in[i]; });
}
// Today's hints: past L1; and read-only without leaving a line behind in L1.
__global__ void ldcg(float* out, const float* in, size_t n, Pattern pattern) {
  add_up(out, n, pattern, [&](size_t i) { return __ldcg(&in[i]); });
}
__global__ void no_allocate(float* out, const float* in, size_t n, Pattern pattern) {
  add_up(out, n, pattern, [&](size_t i) {
#if __CUDA_ARCH__ >= 700
    float word;
    asm("ld.global.nc.L1::no_allocate.f32 %0, [%1];" : "=f"(word) : "l"(__cvta_generic_to_global(&in[i])));
    return word;
#else
    return __ldg(&in[i]);
#endif
  });
}

// Each word is also stored before the next is loaded. For all the compiler knows the next load reads what that store
// wrote, and has to wait for it; under the promise it cannot, and only the last store matters.
__global__ void stored(float* out, const float* in, size_t n, Pattern pattern) {
  add_up(out, n, pattern, [&](size_t i) { return out[blockIdx.x * size_t(threads) + threadIdx.x] = in[i]; });
}
__global__ void stored_restrict(float* __restrict__ out, const float* __restrict__ in, size_t n, Pattern pattern) {
  add_up(out, n, pattern, [&](size_t i) { return out[blockIdx.x * size_t(threads) + threadIdx.x] = in[i]; });
}

struct Variant {
  const char *name, *kernel;
  void (*launch)(unsigned blocks, float* out, const float* in, size_t n, Pattern pattern);
};
#define LAUNCH(kernel, ...)                                                           \
  "" #kernel, [](unsigned blocks, float* out, const float* in, size_t n, Pattern p) { \
    kernel<<<blocks, threads>>>(__VA_ARGS__, n, p);                                   \
  }
const Variant variants[] = {
    {"plain pointers", LAUNCH(plain, out, in)},
    {"const __restrict__", LAUNCH(const_restrict, out, in)},
    {"__ldg", LAUNCH(ldg, out, in)},
    {"const __restrict__ in a struct", LAUNCH(in_struct, Arrays{out, in})},
    {"__ldcg: past L1", LAUNCH(ldcg, out, in)},
    {"read-only without a line in L1", LAUNCH(no_allocate, out, in)},
    {"each word stored, plain", LAUNCH(stored, out, in)},
    {"each word stored, const __restrict__", LAUNCH(stored_restrict, out, in)},
};

// ---- which loads they became ----------------------------------------------------------------------------------------

/// Loads from global memory in a kernel's code, those of them on the read-only path, and which instructions they are.
struct Compiled {
  unsigned loads = 0, read_only = 0;
  std::string instructions;
};
Compiled compiled(const std::string& ptx, const std::string& kernel) {
  const std::string mangled = std::to_string(kernel.size()) + kernel;  // as the Itanium ABI writes it: "3ldg"
  Compiled c;
  for (size_t at = 0; !c.loads && (at = ptx.find(".entry ", at)) != std::string::npos; ++at) {
    const std::string name = ptx.substr(at, ptx.find('\n', at) - at);
    if (name.find("read_only_cu") == std::string::npos || name.find(mangled) == std::string::npos) continue;
    for (size_t load = at; (load = ptx.find("ld.global", load)) < ptx.find("\n}", at); ++load, ++c.loads) {
      const std::string instruction = ptx.substr(load, ptx.find_first_of(" \t", load) - load);
      c.read_only += instruction.find(".nc.") != std::string::npos;
      if (c.instructions.find(instruction) == std::string::npos) c.instructions += (c.loads ? " " : "") + instruction;
    }
  }
  return c;
}

// ---- host reference and prediction ----------------------------------------------------------------------------------

size_t blocks_for(size_t n) { return (n + block_words - 1) / block_words; }

std::vector<float> expected_sums(Pattern pattern, size_t n) {
  std::vector<float> sums(blocks_for(n) * threads);
  for (size_t i = 0; i < n; ++i) sums[i / block_words * threads + i % threads] += value_at(index(pattern, i, n));
  return sums;
}

/// 32-byte sectors that a warp's load asks for, on average over the first `warps` warps.
double sectors_per_request(Pattern pattern, size_t n, size_t warps = 1000) {
  const size_t reads = std::min(n, 32 * warps);
  std::set<std::pair<size_t, size_t>> wanted;  // warp and sector
  for (size_t i = 0; i < reads; ++i) wanted.emplace(i / 32, index(pattern, i, n) / 8);
  return double(wanted.size()) / double((reads + 31) / 32);
}

__global__ void fill(float* in, size_t n) {
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x)
    in[i] = value_at(i);
}

/// The input and the sums.
struct Work {
  DeviceBuffer<float> in, out;
  explicit Work(size_t n) : in(n), out(blocks_for(n) * threads) { fill<<<1024, 256>>>(in.data(), n); }
  void launch(const Variant& v, Pattern p) {
    v.launch(unsigned(blocks_for(in.size())), out.data(), in.data(), in.size(), p);
  }
  bool right(const Variant& v, Pattern p, const std::vector<float>& expected) {
    out.poison();
    launch(v, p);
    CUDA_CHECK_LAUNCH();
    return out.to_host() == expected;
  }
};

/// Plain loads and __ldg in the four orders, over so few words that the model goes through all of them at once.
std::vector<CountedLaunch> counted_launches() {
  constexpr size_t n = 64 * block_words;
  std::vector<CountedLaunch> all;
  for (Pattern p : patterns)
    for (const Variant& v : {variants[0], variants[2]})
      all.push_back({v.kernel, names[p], sectors_per_request(p, n, n / 32), 4,
                     [=] { return Work(n).right(v, p, expected_sums(p, n)); }});
  return all;
}

const Claim scattered_claim{"07.1", "scattered reads do better through the read-only path", "wiki", "no figure"};
const Claim path_claim{"07.2", "__ldg surely uses the read-only path, const __restrict__ probably", "lecture",
                       "no figure"};
constexpr double least_gain = 1.02;  // one kernel's median moves by up to 1% from run to run, beyond either's spread

Judgement judge_path(const std::string& ptx) {
  if (ptx.empty()) return not_judged("no cuobjdump on the path, or no PTX in the program");
  const unsigned named = compiled(ptx, "ldg").read_only, parameter = compiled(ptx, "const_restrict").read_only,
                 member = compiled(ptx, "in_struct").read_only;
  return judge_fact(named == turns && parameter == turns && member < turns,
                    "of 16 loads " + std::to_string(named) + " by __ldg, " + std::to_string(parameter) +
                        " by const __restrict__, " + std::to_string(member) + " by the same in a struct");
}

}  // namespace

void read_only(const Run& run, const Options& options) {
  size_t side = options.size ? options.size : run.quick ? 2048 : 8192;
  const auto needed = [](size_t s) { return double(s * s) * 4 * (1 + 1.0 / turns) + (1 << 20); };
  const double there = run.device ? 0.95 * double(Device::free_bytes()) : INFINITY;
  if (options.size) require_fits("read_only of --size " + std::to_string(side), needed(side), there);
  while (needed(side) > there) side /= 2;
  const size_t n = side * side;
  run.report.begin("read_only",
                   std::to_string(n) + " floats, " + bytes_text(4.0 * double(n)) + ", read in four orders");

  Table orders(run.report, "order", {predicted("32-byte sectors a request", "sectors a request", "", 1)});
  for (Pattern p : patterns) orders.row({names[p]}, {sectors_per_request(p, n)});
  orders.print();
  const std::string ptx = own_ptx();
  if (!run.device) {
    Table table(run.report, "written as", {shown("compiled to")});
    for (const Variant& v : variants) table.row({v.name}, {compiled(ptx, v.kernel).instructions});
    if (!ptx.empty()) table.print();
    return run.report.left_out("times, and what they say", {scattered_claim, path_claim});
  }

  std::vector<float> expected[std::size(patterns)];
  HostThreads adding_up;  // the host adds up all four while the device starts
  adding_up.start(std::size(patterns), [&](size_t p) { expected[p] = expected_sums(patterns[p], n); });
  Statistics ms[std::size(variants)][std::size(patterns)];
  Work work(n);
  adding_up.wait();
  for (Pattern p : patterns) {
    for (const Variant& v : variants)
      require_right(work.right(v, p, expected[p]), std::string(v.name) + ", " + names[p]);
    for (size_t v = 0; v < std::size(variants); ++v)
      ms[v][p] = time_device(run.measuring, [&] { work.launch(variants[v], p); });
  }
  CUDA_CHECK_LAUNCH();

  Table table(run.report, "written as",
              {counted("loads", "loads", "", 0), counted("read-only", "read-only loads", "", 0), shown("compiled to"),
               measured("coalesced ms", "coalesced", "ms", 4), measured("broadcast", "broadcast", "ms", 4),
               measured("in 8 KiB", "scattered in 8 KiB", "ms", 4), measured("scattered", "scattered", "ms", 4),
               shown("spread"), shown("to plain")});
  for (size_t v = 0; v < std::size(variants); ++v) {
    const Compiled c = compiled(ptx, variants[v].kernel);
    const Statistics* t = ms[v];
    std::vector<Cell> cells(3);  // empty where the code could not be read
    if (c.loads) cells = {double(c.loads), double(c.read_only), c.instructions};
    cells.insert(cells.end(), {t[coalesced], t[broadcast], t[near], t[scattered], spread_text(t[scattered]),
                               times(t[scattered].median / ms[0][scattered].median)});
    table.row({variants[v].name}, cells);
  }
  table.print();

  run.report.claim(scattered_claim, [&] {
    if (4.0 * double(n) < 2.0 * double(run.device->l2_bytes())) return not_judged("the data fits in L2");
    Judgement j = judge_ratio(ms[0][scattered], ms[2][scattered]);  // plain pointers over __ldg
    if (j.value < least_gain) j.verdict = Verdict::does_not_hold;
    j.here += " by __ldg, and " + times(ms[0][near].median / ms[2][near].median) + " within L1";
    return j;
  }());
  run.report.claim(path_claim, judge_path(ptx));
}

// ---- self-checks ----------------------------------------------------------------------------------------------------

TEST_CASE("read_only: every order stays in bounds") {
  for (size_t n : {1, 31, 257, 2049, 65537, 1000003})
    for (Pattern p : patterns)
      for (size_t i = 0; i < n; ++i) {
        const size_t at = index(p, i, n);
        if (at >= n || (p == near && at / block_words != i / block_words)) FAIL(names[p], " ", n, ": ", i, " -> ", at);
      }
  CHECK(index(scattered, 0xffffffffu, size_t(1) << 32) < size_t(1) << 32);
  CHECK((sectors_per_request(coalesced, 1 << 20) == 4 && sectors_per_request(broadcast, 1 << 20) == 1));
  // 32 words, each in one of 256 sectors by chance, lie in 256 (1 - (255/256)^32) = 30.12 of them
  CHECK(std::abs(sectors_per_request(near, 1 << 20) - 30.12) < 0.2);
}

TEST_CASE("read_only: the loads of this very program") {
#ifdef __CUDACC_DEBUG__
  if (true) return skip_self_check("code for the debugger has its loops rolled up");
#endif
  const std::string ptx = own_ptx();
  if (ptx.empty()) return skip_self_check("no cuobjdump on the path, or no PTX in the program");
  for (const Variant& v : variants) CHECK_MESSAGE(compiled(ptx, v.kernel).loads == turns, v.name);
  CHECK(judge_path(ptx).verdict == Verdict::holds);
}

TEST_CASE("read_only: every way of reading is right at awkward sizes") {
  if (skip_without_gpu()) return;
  for (size_t n : {1, 31, 257, 2047, 2049, 65537, 1000003})
    for (Pattern p : patterns)
      for (const Variant& v : variants)
        CHECK_MESSAGE(Work(n).right(v, p, expected_sums(p, n)), v.name, ", ", names[p], ", ", n);
}

TEST_CASE("read_only: profile launches") {
  if (skip_without_gpu()) return;
  launch_counted(counted_launches());
}

TEST_CASE("read_only: counted sectors equal the model") { compare_with_counters(counted_launches()); }
