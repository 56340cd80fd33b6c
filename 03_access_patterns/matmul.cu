// matmul: A x B, and A x the transposed B. The guide [KP] gives each element of C a thread, which
// walks down a column of B, "non-contiguous"; so it transposes B first, and reports 30%. Look at
// what a warp wants at one step, not at what a thread wants from step to step: 32 neighbours of B,
// but 32 rows of the transposed B. Where the lanes differ in k, as when a warp makes an element, or
// where there is but one lane, as on the host, the guide is right: the last rows show it.
//   cmake -S 03_access_patterns -B build/matmul -DEXPERIMENTS=matmul
//   cmake --build build/matmul && build/matmul/03_access_patterns
//
//   1  multiply                      the text's: block i, thread j
//   2  multiply_transposed           the text's cure
//   3  transpose                     makes the transposed B
//   4  multiply_by_warps             a warp an element, its lanes differ in k
//   5  multiply_by_warps_transposed  4 from the transposed B
#include <algorithm>
#include <memory>

#include "../common/report.hpp"
#include "transactions.hpp"

namespace {

/// Steps whose words are under way at once. The compiler unrolls by four unasked; all kernels do.
constexpr int steps_at_once = 4;
constexpr unsigned block_warps = 8;  // of a block in which a warp makes an element
/// Words of a row that the lanes of such a warp load before they wait.
constexpr unsigned warp_turn = 32 * steps_at_once;

// ---- kernels: all matrices have n rows of n words ----

// [multiply]
// Block i, thread j. At each step the lanes want one word of A together (1 sector), and 32
// neighbours of a row of B (4 sectors).
__global__ void multiply(unsigned n, const float* a, const float* b, float* c) {
  const unsigned i = blockIdx.x;
  const unsigned j = threadIdx.x;
  float sum = 0;
#pragma unroll steps_at_once
  for (unsigned k = 0; k < n; ++k) sum += a[i * n + k] * b[k * n + j];
  c[i * n + j] = sum;
}
// [/multiply]

// [multiply_transposed]
// The same, but a thread's words of B lie side by side, and so those of its lanes lie a row apart:
// 32 sectors.
__global__ void multiply_transposed(unsigned n, const float* a, const float* bt, float* c) {
  const unsigned i = blockIdx.x;
  const unsigned j = threadIdx.x;
  float sum = 0;
#pragma unroll steps_at_once
  for (unsigned k = 0; k < n; ++k) sum += a[i * n + k] * bt[j * n + k];
  c[i * n + j] = sum;
}
// [/multiply_transposed]

// A warp reads down a column of B (32 sectors) and writes along a row (4).
__global__ void transpose(unsigned n, const float* b, float* bt) {
  const unsigned j = blockIdx.x;
  const unsigned k = threadIdx.x;
  bt[j * n + k] = b[k * n + j];
}

// Block i; a warp makes every eighth element of the row. Its lanes differ in k: neighbours in A (4
// sectors), but a row apart in B (32). The inner loop is what has four steps under way: where lanes
// may end one by one the compiler does not unroll so.
__global__ void multiply_by_warps(unsigned n, const float* a, const float* b, float* c) {
  const unsigned i = blockIdx.x;
  const unsigned lane = threadIdx.x % 32;
  for (unsigned j = threadIdx.x / 32; j < n; j += block_warps) {
    float sum = 0;
    unsigned k = lane;
#pragma unroll 1
    for (; k + warp_turn - 32 < n; k += warp_turn) {
#pragma unroll
      for (unsigned more = 0; more < warp_turn; more += 32)
        sum += a[i * n + k + more] * b[(k + more) * n + j];
    }
    for (; k < n; k += 32) sum += a[i * n + k] * b[k * n + j];
    for (int distance = 16; distance > 0; distance /= 2)  // the lanes' sums are added up
      sum += __shfl_xor_sync(0xffffffffu, sum, distance);
    if (lane == 0) c[i * n + j] = sum;
  }
}

// [multiply_by_warps_transposed]
// The same from the transposed B, where lanes that differ in k are neighbours, too: 4 sectors.
__global__ void multiply_by_warps_transposed(unsigned n, const float* a, const float* bt,
                                             float* c) {
  const unsigned i = blockIdx.x;
  const unsigned lane = threadIdx.x % 32;
  for (unsigned j = threadIdx.x / 32; j < n; j += block_warps) {
    float sum = 0;
    unsigned k = lane;
#pragma unroll 1
    for (; k + warp_turn - 32 < n; k += warp_turn) {
#pragma unroll
      for (unsigned more = 0; more < warp_turn; more += 32)
        sum += a[i * n + k + more] * bt[j * n + k + more];
    }
    for (; k < n; k += 32) sum += a[i * n + k] * bt[j * n + k];
    for (int distance = 16; distance > 0; distance /= 2)
      sum += __shfl_xor_sync(0xffffffffu, sum, distance);
    if (lane == 0) c[i * n + j] = sum;
  }
}
// [/multiply_by_warps_transposed]

// The text's thread on one core: `rows` rows of C, the innermost loop along k.
void host_multiply(unsigned n, unsigned rows, const float* a, const float* b, float* c) {
  for (unsigned i = 0; i < rows; ++i)
    for (unsigned j = 0; j < n; ++j) {
      float sum = 0;
      for (unsigned k = 0; k < n; ++k) sum += a[i * n + k] * b[k * n + j];
      c[i * n + j] = sum;
    }
}

void host_multiply_transposed(unsigned n, unsigned rows, const float* a, const float* bt,
                              float* c) {
  for (unsigned i = 0; i < rows; ++i)
    for (unsigned j = 0; j < n; ++j) {
      float sum = 0;
      for (unsigned k = 0; k < n; ++k) sum += a[i * n + k] * bt[j * n + k];
      c[i * n + j] = sum;
    }
}

// ---- what is right ----

using Matrix = std::vector<float>;

/// Whole numbers from -8 to 7, other ones in each matrix. A sum of up to 1024 products, each at
/// most 64, is exact in float in any order, so results are compared for equality.
Matrix numbers(unsigned n, unsigned matrix) {
  Matrix m(size_t(n) * n);
  unsigned x = 12345 + matrix;
  for (float& value : m) {
    x = x * 1664525u + 1013904223u;
    value = float(x >> 28) - 8;
  }
  return m;
}

/// A x B, step by step along rows of B and C, so that the host walks through neighbours.
Matrix product(unsigned n, const Matrix& a, const Matrix& b) {
  Matrix c(a.size(), 0.0f);
  for (unsigned row = 0; row < n; ++row)
    for (unsigned k = 0; k < n; ++k) {
      const float factor = a[size_t(row) * n + k];
      for (unsigned col = 0; col < n; ++col)
        c[size_t(row) * n + col] += factor * b[size_t(k) * n + col];
    }
  return c;
}

Matrix transposed(unsigned n, const Matrix& b) {
  Matrix bt(b.size());
  for (unsigned row = 0; row < n; ++row)
    for (unsigned col = 0; col < n; ++col) bt[size_t(col) * n + row] = b[size_t(row) * n + col];
  return bt;
}

/// The matrices on the host, with what is right.
struct Host {
  unsigned n;
  Matrix a, b, bt, c;

  explicit Host(unsigned n)
      : n(n), a(numbers(n, 1)), b(numbers(n, 2)), bt(transposed(n, b)), c(product(n, a, b)) {}
};

size_t different(const Matrix& found, const Matrix& right, size_t count) {
  size_t wrong = 0;
  for (size_t i = 0; i < count; ++i) wrong += found[i] != right[i];
  return wrong;
}

/// The matrices on the device.
struct Matrices {
  static constexpr size_t canaries = 64;  ///< behind what is written

  const Host& host;
  unsigned n = host.n;
  DeviceBuffer<float> a{host.a}, b{host.b};
  DeviceBuffer<float> bt{host.c.size() + canaries}, c{host.c.size() + canaries};

  explicit Matrices(const Host& host) : host(host) {}
  /// Elements of `out` that are not `right`, and canaries that are no longer NaN.
  size_t wrong(const DeviceBuffer<float>& out, const Matrix& right) const {
    const Matrix found = out.to_host();
    size_t wrong = different(found, right, right.size());
    for (size_t i = right.size(); i < found.size(); ++i) wrong += found[i] == found[i];
    return wrong;
  }
};

// ---- the story in order ----

struct Way {
  const char *name, *symbol;
  bool by_warps;          ///< a warp makes an element, not a thread
  bool cured;             ///< from the transposed B
  bool transposes_first;  ///< the transposed B is made, and timed, too
  void (*launch)(const Matrices& m);
};

const Way ways[] = {
    {"a thread an element: A x B", "multiply", false, false, false,
     [](const Matrices& m) { multiply<<<m.n, m.n>>>(m.n, m.a.data(), m.b.data(), m.c.data()); }},
    {"a thread an element: A x B^T", "multiply_transposed", false, true, false,
     [](const Matrices& m) {
       multiply_transposed<<<m.n, m.n>>>(m.n, m.a.data(), m.bt.data(), m.c.data());
     }},
    {"a thread an element: B transposed first", "", false, true, true,
     [](const Matrices& m) {
       transpose<<<m.n, m.n>>>(m.n, m.b.data(), m.bt.data());
       multiply_transposed<<<m.n, m.n>>>(m.n, m.a.data(), m.bt.data(), m.c.data());
     }},
    {"a warp an element: A x B", "multiply_by_warps", true, false, false,
     [](const Matrices& m) {
       multiply_by_warps<<<m.n, 32 * block_warps>>>(m.n, m.a.data(), m.b.data(), m.c.data());
     }},
    {"a warp an element: A x B^T", "multiply_by_warps_transposed", true, true, false,
     [](const Matrices& m) {
       multiply_by_warps_transposed<<<m.n, 32 * block_warps>>>(m.n, m.a.data(), m.bt.data(),
                                                               m.c.data());
     }},
};
enum { direct, cured, cured_transposing, by_warps, by_warps_cured };

Task task_of(const Way& way, Matrices& m) {
  Check check;
  check.poison = [&] {
    m.c.poison();
    m.bt.poison();
    if (!way.transposes_first) m.bt.copy_from(m.host.bt);
  };
  check.wrong = [&] { return m.wrong(m.c, m.host.c) + m.wrong(m.bt, m.host.bt); };
  return {std::string(way.name) + ", n " + std::to_string(m.n), [&] { way.launch(m); },
          std::move(check)};
}

/// The first `rows` rows on one core.
Task host_task(bool cure, unsigned rows, const Host& host, Matrix& out) {
  Check check;
  check.poison = [&] { out.assign(host.c.size(), NAN); };
  check.wrong = [&host, &out, rows] { return different(out, host.c, size_t(rows) * host.n); };
  const auto work = [&host, &out, cure, rows] {
    if (cure)
      host_multiply_transposed(host.n, rows, host.a.data(), host.bt.data(), out.data());
    else
      host_multiply(host.n, rows, host.a.data(), host.b.data(), out.data());
  };
  return {cure ? "host: A x B^T" : "host: A x B", work, std::move(check), true};
}

// ---- what to expect ----

/// The words of A, and of B or the transposed B, that the lanes of a warp want at their first step.
Warp load_of_a(const Way& way) {
  return warp_of(4, [&](unsigned lane) { return way.by_warps ? lane : 0; });
}
Warp load_of_b(const Way& way, unsigned n) {
  const bool neighbours = way.by_warps == way.cured;
  return warp_of(4, [&](unsigned lane) { return neighbours ? lane : lane * n; });
}

/// Lines of 128 bytes that a step's two loads look up in L1, which takes a cycle for each.
double lookups(const Way& way, unsigned n) {
  return lines(load_of_a(way)) + lines(load_of_b(way, n));
}

/// Cycles of a multiprocessor in which `warps` of its warps take one turn of four steps: all words
/// are looked up, one after the other, and then come.
double turn_cycles(double lookups, double warps, double latency) {
  return warps * steps_at_once * lookups + latency;
}

/// Cycles until a word that was shuffled to another lane is there, as for one in shared memory
/// (01_memory_model latency); the shuffle itself takes L1's data path for one.
constexpr double shuffle_cycles = 25;
constexpr double shuffles = 5;  // of a sum of 32 lanes

/// Turns of a thread, one after the other.
double turns_of(unsigned n) { return std::ceil(double(n) / steps_at_once); }

/// Cycles of a multiprocessor that has so many of the blocks at once.
double blocks_cycles(const Way& way, unsigned n, double blocks, double latency) {
  if (!way.by_warps)
    return turns_of(n) * turn_cycles(lookups(way, n), blocks * std::ceil(n / 32.0), latency);
  const double warps = blocks * block_warps;
  const double turns = std::ceil(n / 32.0 / steps_at_once);
  const double sum = shuffles * (shuffle_cycles + warps);
  const double elements = std::ceil(double(n) / block_warps);
  return elements * (turns * turn_cycles(lookups(way, n), warps, latency) + sum);
}

/// Blocks that the busiest multiprocessor gets, and how many of them it has at once.
struct Blocks {
  double all, at_once;
};
Blocks blocks_of(const Way& way, unsigned n, const cudaDeviceProp& prop) {
  const unsigned threads = way.by_warps ? 32 * block_warps : n;
  const double warps = std::ceil(threads / 32.0);
  const double fit = std::floor(prop.maxThreadsPerMultiProcessor / (32 * warps));
  return {std::ceil(double(n) / prop.multiProcessorCount),
          std::clamp<double>(fit, 1, std::max(1, prop.maxBlocksPerMultiProcessor))};
}

double cycles_a_ms(const Device& device) {
  return device.sm_clock_khz > 0 ? device.sm_clock_khz : NAN;
}

/// The busiest multiprocessor's rounds of blocks.
double predicted_ms(const Way& way, unsigned n, double latency, const Device& device) {
  const Blocks blocks = blocks_of(way, n, device.prop);
  const double rounds = std::floor(blocks.all / blocks.at_once);
  const double rest = blocks.all - rounds * blocks.at_once;
  double cycles = rounds * blocks_cycles(way, n, blocks.at_once, latency);
  if (rest > 0) cycles += blocks_cycles(way, n, rest, latency);
  if (way.transposes_first)  // a column's 32 lines are looked up, a row's 4 sectors stored
    cycles += blocks.all * std::ceil(n / 32.0) * (32 + 4) + latency;
  return cycles / cycles_a_ms(device);
}

/// Cycles that a word takes, L1 or L2, launch included: what A x B took beyond its lookups.
double latency_of(double ms, unsigned n, const Device& device) {
  const Blocks blocks = blocks_of(ways[direct], n, device.prop);
  const double rounds = std::ceil(blocks.all / blocks.at_once);
  const double looking_up =
      turns_of(n) * turn_cycles(lookups(ways[direct], n), blocks.all * std::ceil(n / 32.0), 0);
  return std::max(0.0, (ms * cycles_a_ms(device) - looking_up) / (turns_of(n) * rounds));
}

/// Lookups a cycle were found on compute capability 9.0; a test holds rows to them there only.
Model model_of(const Way& way, unsigned n, double latency, const Device& device) {
  if (device.prop.major != 9) return Model::host;
  const Blocks blocks = blocks_of(way, n, device.prop);
  const double warps =
      (way.by_warps ? block_warps : std::ceil(n / 32.0)) * std::min(blocks.at_once, blocks.all);
  const bool looks_up_longest = turn_cycles(lookups(way, n), warps, 0) > latency;
  return looks_up_longest ? Model::traffic : Model::latency;
}

/// The mean of both loads, which are equally many.
double sectors_a_request(const Way& way, unsigned n) {
  return 0.5 * (sectors(load_of_a(way)) + sectors(load_of_b(way, n)));
}

std::string words_text(const Warp& warp) {
  const auto word = [&](unsigned lane) { return std::to_string(warp.address[lane] / 4); };
  return word(0) + ", " + word(1) + ", " + word(2) + " .. " + word(31);
}

// ---- the experiment ----

/// What a warp wants of B. No GPU is needed.
void draw_loads(const Run& run, unsigned n) {
  Table table(run.report, "what a warp wants of B, n " + std::to_string(n),
              {shown("words of lanes 0, 1, 2 .. 31"), shown("next step"),
               predicted("sectors", "sectors a request of B", "", 0),
               predicted("transactions on 1.0", "transactions a request of B on 1.0", "", 0)});
  for (const Way& way : ways) {
    if (way.transposes_first) continue;
    const Warp warp = load_of_b(way, n);
    const unsigned step = (way.by_warps ? 32 : 1) * (way.cured ? 1 : n);
    table.row({way.name}, {words_text(warp), "+ " + std::to_string(step), double(sectors(warp)),
                           double(under(Rule::in_order, warp).count())});
  }
  table.print();
}

/// What the claim compares, at the largest n.
struct Times {
  std::vector<Readings> gpu = std::vector<Readings>(std::size(ways));
  Readings host, host_cured;
};

struct ProductTable {
  const Run& run;
  Table table;

  explicit ProductTable(const Run& run)
      : run(run),
        table(run.report, "multiplication, n",
              {predicted("sectors", "sectors a load request", "", 1),
               compared("ms", "time", "ms", 4), shown("spread"),
               measured("products a ns", "products", "a nanosecond", 1), shown("to A x B")}) {}

  /// `products`: multiplications of the row.
  void add(const Key& key, double sectors, const Cell& time, const Readings& times, double products,
           const Readings& base) {
    const Statistics ms = times.statistics();
    table.row(key, {sectors, time, spread_text(ms), rate(1e-6 * products, ms),
                    times.ms.empty() ? "" : ::times(base.median() / ms.median)});
  }
};

/// All ways at one size, in turn. `latency`: from the first size; not a number: this is it.
std::vector<Readings> measure(const Run& run, const Host& host, double& latency,
                              ProductTable& table) {
  std::vector<Readings> times(std::size(ways));
  std::unique_ptr<Matrices> m;
  if (run.device) {
    m = std::make_unique<Matrices>(host);
    std::vector<Task> tasks;
    for (const Way& way : ways) tasks.push_back(task_of(way, *m));
    times = run.time_in_turn(tasks);
  }
  const bool calibrates = std::isnan(latency);
  if (run.device && calibrates) latency = latency_of(times[direct].median(), host.n, *run.device);
  for (size_t w = 0; w < std::size(ways); ++w) {
    const Way& way = ways[w];
    const Statistics ms = times[w].statistics();
    Cell time;
    if (run.device && calibrates && w == direct)
      time = Calibration{ms};
    else if (run.device)
      time = Compared{predicted_ms(way, host.n, latency, *run.device), ms,
                      model_of(way, host.n, latency, *run.device)};
    table.add({way.name, "n", std::to_string(host.n)},
              way.transposes_first ? NAN : sectors_a_request(way, host.n), time, times[w],
              double(host.n) * host.n * host.n, times[way.by_warps ? by_warps : direct]);
  }
  return times;
}

/// One core makes the rows of 2^21 products, some milliseconds. No model covers it.
void measure_host(const Run& run, const Host& host, ProductTable& table, Times& times) {
  const unsigned rows = std::max(1u, (1u << 21) / (host.n * host.n));
  Matrix out;
  const std::vector<Readings> both =
      run.time_in_turn({host_task(false, rows, host, out), host_task(true, rows, host, out)});
  times.host = both[0];
  times.host_cured = both[1];
  const double products = double(rows) * host.n * host.n;
  const std::string n = std::to_string(host.n);
  table.add({"host, one core: A x B", "n", n}, NAN, Compared{NAN, both[0].statistics()}, both[0],
            products, both[0]);
  table.add({"host, one core: A x B^T", "n", n}, NAN, Compared{NAN, both[1].statistics()}, both[1],
            products, both[0]);
}

void judge(const Run& run, const Times& times, unsigned n) {
  const Interval gain = ratio(times.gpu[direct], times.gpu[cured]);
  run.report.judge(
      {"03.8", "multiplying by the transposed B is 30% faster", "1.3x faster", "the guide"},
      beats(1.3), gain,
      faster(gain) + " at n " + std::to_string(n) +
          "; against the text's own rule: it is A x B whose warps read B in order");
  if (!gain.measured()) return;
  run.report.finding("03.8", "with the transposition counted the transposed B is " +
                                 faster(ratio(times.gpu[direct], times.gpu[cured_transposing])));
  run.report.finding("03.8", "where a warp makes an element it is " +
                                 faster(ratio(times.gpu[by_warps], times.gpu[by_warps_cured])) +
                                 ", and on one core of the host " +
                                 faster(ratio(times.host, times.host_cured)));
}

}  // namespace

void matmul(const Run& run) {
  const unsigned smallest = 256;
  const unsigned largest = run.quick ? 512 : 1024;  // no more: a block has a thread an element
  run.report.begin("matmul", "float matrices n x n, at most " +
                                 bytes_text(4.0 * largest * largest) +
                                 " each, in the L2: n blocks of n threads");
  draw_loads(run, largest);
  ProductTable table(run);
  Times times;
  double latency = NAN;
  for (unsigned n = smallest; n <= largest; n *= 2) {
    const Host host(n);
    times.gpu = measure(run, host, latency, table);
    if (n == largest) measure_host(run, host, table, times);
  }
  table.table.print();
  run.report.note("calibration: cycles until a word comes; all else is lookups in L1, one a cycle");
  run.report.note("the host's rows, a single thread's, have no model");
  if (!run.device) run.report.left_out("the times on a GPU");
  judge(run, times, largest);
}
