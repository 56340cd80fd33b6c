// matmul: A x B, and A x the transposed B. The guide [KP] gives each element of C a thread, which
// goes down a column of B, "non-contiguous". So the guide transposes B first, and reports a gain of
// 30%. Two things to look at:
//   - What the 32 lanes of a warp read together. In the guide's first version that is 32 neighbours
//     in a row of B. From the transposed B it is a word of each of 32 rows.
//   - Where the guide is right. If a warp computes an element, its lanes differ in k, and one core
//     of the host has one lane only. Both read along k.
//
//   cmake -S 03_access_patterns -B build/matmul -DEXPERIMENTS=matmul
//   cmake --build build/matmul && build/matmul/03_access_patterns
//
//   1  multiply                      the guide's: block i, thread j
//   2  multiply_transposed           the guide's cure
//   3  transpose                     makes the transposed B
//   4  multiply_by_warps             a warp per element: its lanes differ in k
//   5  multiply_by_warps_transposed  kernel 4 from the transposed B
//   6  host_multiply, host_multiply_transposed: the guide's thread on one core
#include "../framework/common/checked.cuh"
#include "../framework/common/experiment.hpp"
#include "transactions.hpp"

using namespace samples;

namespace {

/// Steps whose words are in flight together. The compiler unrolls by four unasked; all kernels do.
constexpr int steps_at_once = 4;
constexpr unsigned block_warps = 8;  // of a block whose warps compute an element each
/// Words of a row that the lanes of such a warp load before they wait.
constexpr unsigned warp_words = 32 * steps_at_once;

// ---- kernels: all matrices have n rows of n words ----

// [multiply]
// Block i, thread j. At each step the lanes of a warp read one word of A together (1 sector), and
// 32 neighbours in a row of B (4 sectors).
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
// A thread reads neighbouring words of the transposed B, step after step. So at each step the lanes
// of a warp read words that lie a row apart: 32 sectors.
__global__ void multiply_transposed(unsigned n, const float* a, const float* bt, float* c) {
  const unsigned i = blockIdx.x;
  const unsigned j = threadIdx.x;
  float sum = 0;
#pragma unroll steps_at_once
  for (unsigned k = 0; k < n; ++k) sum += a[i * n + k] * bt[j * n + k];
  c[i * n + j] = sum;
}
// [/multiply_transposed]

// [transpose]
// The guide's: a warp reads down a column of B (32 sectors) and writes along a row of B^T (4).
__global__ void transpose(unsigned n, const float* b, float* bt) {
  const unsigned j = blockIdx.x;
  const unsigned k = threadIdx.x;
  bt[j * n + k] = b[k * n + j];
}
// [/transpose]

// Block i; a warp computes every eighth element of the row. Its lanes differ in k: they read
// neighbours in A (4 sectors), but words of B that lie a row apart (32). The inner loop keeps four
// steps in flight: the compiler does not unroll a loop that lanes may leave one by one.
__global__ void multiply_by_warps(unsigned n, const float* a, const float* b, float* c) {
  const unsigned i = blockIdx.x;
  const unsigned lane = threadIdx.x % 32;
  for (unsigned j = threadIdx.x / 32; j < n; j += block_warps) {
    float sum = 0;
    unsigned k = lane;
#pragma unroll 1
    for (; k + warp_words - 32 < n; k += warp_words) {
#pragma unroll
      for (unsigned more = 0; more < warp_words; more += 32)
        sum += a[i * n + k + more] * b[(k + more) * n + j];
    }
    for (; k < n; k += 32) sum += a[i * n + k] * b[k * n + j];
    for (int distance = 16; distance > 0; distance /= 2)  // add up the sums of the lanes
      sum += __shfl_xor_sync(0xffffffffu, sum, distance);
    if (lane == 0) c[i * n + j] = sum;
  }
}

// [multiply_by_warps_transposed]
// Block i; a warp computes every eighth element of the row. Its lanes differ in k: from the
// transposed B they read neighbours, too (4 sectors). warp_words is 128: four steps of 32 lanes.
__global__ void multiply_by_warps_transposed(unsigned n, const float* a, const float* bt,
                                             float* c) {
  const unsigned i = blockIdx.x;
  const unsigned lane = threadIdx.x % 32;
  for (unsigned j = threadIdx.x / 32; j < n; j += block_warps) {
    float sum = 0;
    unsigned k = lane;
#pragma unroll 1
    for (; k + warp_words - 32 < n; k += warp_words) {
#pragma unroll
      for (unsigned more = 0; more < warp_words; more += 32)
        sum += a[i * n + k + more] * bt[j * n + k + more];
    }
    for (; k < n; k += 32) sum += a[i * n + k] * bt[j * n + k];
    for (int distance = 16; distance > 0; distance /= 2)
      sum += __shfl_xor_sync(0xffffffffu, sum, distance);
    if (lane == 0) c[i * n + j] = sum;
  }
}
// [/multiply_by_warps_transposed]

// The guide's thread on one core: `rows` rows of C, the innermost loop along k.
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

/// Whole numbers from -8 to 7. A sum of up to 1024 products, each at most 64, is exact in float in
/// any order, so results are compared for equality.
__host__ __device__ int number_at(size_t i) { return int(scrambled(i) >> 28) - 8; }
struct A {
  __host__ __device__ float operator()(size_t i) const { return float(number_at(i)); }
};
struct B {  // other numbers than those of A
  static constexpr size_t first = size_t(1) << 31;
  __host__ __device__ float operator()(size_t i) const { return float(number_at(first + i)); }
};
struct TransposedB {
  unsigned n;
  __host__ __device__ float operator()(size_t i) const { return B{}(i % n * n + i / n); }
  __device__ bool operator()(size_t i, float found) const { return found == (*this)(i); }
};
/// Element i of C is the sum over k, in whole numbers.
struct Product {
  unsigned n;
  __host__ __device__ bool operator()(size_t i, float found) const {
    int sum = 0;
    for (size_t k = 0; k < n; ++k)
      sum += number_at(i / n * n + k) * number_at(B::first + k * n + i % n);
    return found == float(sum);
  }
};

struct Matrices {
  unsigned n;
  size_t elements = size_t(n) * n;
  DeviceBuffer<float> a = filled<float>(elements, A{});
  DeviceBuffer<float> b = filled<float>(elements, B{});
  DeviceBuffer<float> bt = filled<float>(elements, TransposedB{n});
  Output<float> c{elements};
  Output<float> made_bt{elements};  ///< by the row that transposes first
};

// ---- the rows ----

struct Variant {
  std::string_view key = {};  ///< the kernel's name, or what the row is
  const char* words = "";
  bool by_warps = false;    ///< a warp computes an element, not a thread
  bool transposed = false;  ///< reads the transposed B
  bool transposes_first = false;
  void (*kernel)(unsigned, const float*, const float*, float*) = nullptr;

  unsigned threads(unsigned n) const { return by_warps ? 32 * block_warps : n; }  ///< of a block
};
template <auto kernel>
Variant named(Variant v) {
  v.key = name_of<kernel>();
  v.kernel = kernel;
  return v;
}

const Variant variants[] = {
    named<multiply>({.words = "a thread per element: A x B"}),
    named<multiply_transposed>({.words = "a thread per element: A x B^T", .transposed = true}),
    {.key = "transpose_and_multiply",
     .words = "a thread per element: B transposed first",
     .transposed = true,
     .transposes_first = true,
     .kernel = multiply_transposed},
    named<multiply_by_warps>({.words = "a warp per element: A x B", .by_warps = true}),
    named<multiply_by_warps_transposed>(
        {.words = "a warp per element: A x B^T", .by_warps = true, .transposed = true}),
};

Task task_of(const Shared<Matrices>& m, const Variant& v) {
  const auto launch = [m, &v] {
    const unsigned n = m->n;
    const float* b = m->b.data();
    if (v.transposed) b = m->bt.data();
    if (v.transposes_first) {
      transpose<<<n, n>>>(n, m->b.data(), m->made_bt.data());
      b = m->made_bt.data();
    }
    v.kernel<<<n, v.threads(n)>>>(n, m->a.data(), b, m->c.data());
  };
  const auto poison = [m] { m->c.poison(), m->made_bt.poison(); };
  const auto wrong = [m, &v] {
    const size_t of_bt = v.transposes_first ? m->made_bt.wrong(TransposedB{m->n}) : 0;
    return m->c.wrong(Product{m->n}) + of_bt;
  };
  return {text(Ref(v.key, m->n)), launch, {poison, wrong, ""}};
}

/// On the host, of which a run has time for `rows` rows.
struct HostMatrices {
  unsigned n, rows;
  std::vector<float> a = values(A{}), b = values(B{}), bt = values(TransposedB{n}), c = a;

  template <class Value>
  std::vector<float> values(Value value) const {
    std::vector<float> all(size_t(n) * n);
    for (size_t i = 0; i < all.size(); ++i) all[i] = value(i);
    return all;
  }
  size_t wrong() const {
    size_t wrong = 0;
    for (size_t i = 0; i < size_t(rows) * n; ++i) wrong += !Product{n}(i, c[i]);
    return wrong;
  }
};
const char* const on_host[] = {"host_multiply", "host_multiply_transposed"};

Task host_task(const Shared<HostMatrices>& m, const Ref& ref) {
  const auto loops = [m, transposed = ref.key == on_host[1]] {
    if (transposed)
      host_multiply_transposed(m->n, m->rows, m->a.data(), m->bt.data(), m->c.data());
    else
      host_multiply(m->n, m->rows, m->a.data(), m->b.data(), m->c.data());
  };
  const auto poison = [m] { std::fill(m->c.begin(), m->c.end(), NAN); };
  return {text(ref), loops, {poison, [m] { return m->wrong(); }, ""}, true};
}

// ---- prediction ----

/// The words of A, and of B or the transposed B, that the lanes of a warp read at their first step.
Warp load_of_a(const Variant& v) {
  return warp_of(4, [&](unsigned lane) { return v.by_warps ? lane : 0; });
}
Warp load_of_b(const Variant& v, unsigned n) {
  const bool neighbours = v.by_warps == v.transposed;
  return warp_of(4, [&](unsigned lane) { return neighbours ? lane : lane * n; });
}

/// The mean of both loads, of which there are equally many.
double sectors_per_request(const Variant& v, unsigned n) {
  return 0.5 * (sectors(load_of_a(v)) + sectors(load_of_b(v, n)));
}

/// Lines of 128 bytes in which the words of a step's two loads lie. In this model L1 takes a cycle
/// for each of them.
double lookups(const Variant& v, unsigned n) {
  return lines(load_of_a(v)) + lines(load_of_b(v, n));
}

/// A multiprocessor looks up the words of four steps of all its warps, one line after the other.
/// Then the warps wait until the last word has come.
double cycles_of_four_steps(double lookups, double warps, double latency) {
  return warps * steps_at_once * lookups + latency;
}

double warps_of(const Variant& v, unsigned n) { return std::ceil(v.threads(n) / 32.0); }

/// Cycles in which a multiprocessor computes so many blocks that it has at the same time.
double cycles_of_blocks(const Variant& v, unsigned n, double blocks, double latency) {
  const double warps = blocks * warps_of(v, n);
  const double steps = std::ceil((v.by_warps ? n / 32.0 : n) / steps_at_once);  // four at a time
  const double sum = steps * cycles_of_four_steps(lookups(v, n), warps, latency);
  if (!v.by_warps) return sum;
  // A sum of 32 lanes takes five shuffles. Each waits as long as a load from shared memory
  // (01_memory_model latency), and takes L1's data path for a cycle.
  constexpr double shuffles = 5, shuffle_latency = 25;
  return std::ceil(double(n) / block_warps) * (sum + shuffles * (shuffle_latency + warps));
}

/// Blocks that the busiest multiprocessor gets, and how many of them it has at the same time.
struct Blocks {
  double all, resident;
};
Blocks blocks_of(const Variant& v, unsigned n, const cudaDeviceProp& gpu) {
  const double fit = std::floor(gpu.maxThreadsPerMultiProcessor / (32 * warps_of(v, n)));
  return {std::ceil(double(n) / gpu.multiProcessorCount),
          std::clamp<double>(fit, 1, std::max(1, gpu.maxBlocksPerMultiProcessor))};
}

double cycles_per_ms(const Device& gpu) { return gpu.sm_clock_khz > 0 ? gpu.sm_clock_khz : NAN; }

/// The busiest multiprocessor computes its blocks in rounds, the last of which may be smaller.
double predicted_ms(const Variant& v, unsigned n, double latency, const Device& gpu) {
  const Blocks blocks = blocks_of(v, n, gpu.prop);
  const double rounds = std::floor(blocks.all / blocks.resident);
  const double rest = blocks.all - rounds * blocks.resident;
  double cycles = rounds * cycles_of_blocks(v, n, blocks.resident, latency);
  if (rest > 0) cycles += cycles_of_blocks(v, n, rest, latency);
  if (v.transposes_first)  // looks up a column's 32 lines, stores a row's 4 sectors
    cycles += blocks.all * std::ceil(n / 32.0) * (32 + 4) + latency;
  return cycles / cycles_per_ms(gpu);
}

/// The model's constant: cycles until a word has come, from L1 or the L2, launch included. It is
/// what `multiply` takes beyond its lookups, over the steps for which it waits.
double latency_of(double ms, unsigned n, const Device& gpu) {
  const Variant& v = variants[0];
  const Blocks blocks = blocks_of(v, n, gpu.prop);
  const double steps = std::ceil(double(n) / steps_at_once);
  const double waits = steps * std::ceil(blocks.all / blocks.resident);
  const double looking_up = cycles_of_blocks(v, n, blocks.all, 0);
  return std::max(0.0, (ms * cycles_per_ms(gpu) - looking_up) / waits);
}

/// A line per cycle was found on compute capability 9.0: a test holds rows to the model there only.
Model model_of(const Variant& v, unsigned n, const Device* gpu) {
  if (!gpu || gpu->prop.major != 9) return Model::host;
  return lookups(v, n) > 2 ? Model::traffic : Model::latency;
}

// ---- the experiment ----

constexpr unsigned smallest = 256;
unsigned largest(const Run& run) { return run.quick ? 512 : 1024; }  // a block has up to n threads

unsigned n_of(const Row& row) { return unsigned(row.ref.at); }
unsigned host_rows(unsigned n) { return std::max(1u, (1u << 21) / (n * n)); }  // some milliseconds

/// What a warp reads of B. No GPU is needed.
void show_loads(const Run& run, unsigned n) {
  Table table(run.report, "what a warp reads of B, n " + std::to_string(n),
              {shown("words of lanes 0, 1, 2 .. 31"), shown("next step"),
               predicted("sectors", "sectors a request of B", "", 0),
               predicted("transactions on 1.0", "transactions a request of B on 1.0", "", 0)});
  for (const Variant& v : variants) {
    if (v.transposes_first) continue;
    const Warp warp = load_of_b(v, n);
    const auto word = [&](unsigned lane) { return std::to_string(warp.address[lane] / 4); };
    const unsigned step = (v.by_warps ? 32 : 1) * (v.transposed ? 1 : n);
    table.row(
        {std::string(v.key), "", "", v.words},
        {word(0) + ", " + word(1) + ", " + word(2) + " .. " + word(31), "+ " + std::to_string(step),
         double(sectors(warp)), double(under(Rule::in_order, warp).count())});
  }
  table.print();
}

Shown products_per_ns() {
  return in_unit(measured("products/ns", "products", "a nanosecond", 1),
                 [](const Row& row, double ms) {
                   const double n = n_of(row);
                   return n * n * (row.on_host ? host_rows(n_of(row)) : n) * 1e-6 / ms;
                 });
}

void measure(const Run& run, unsigned n) {
  SharedByTasks matrices([n] { return Matrices{n}; });
  Sheet sheet(run, "multiplication, n " + std::to_string(n),
              {number(predicted("sectors/request", "sectors a load request", "", 1),
                      [n](const Row& row) {
                        const Variant& v = *with_key(variants, row.ref);
                        return v.transposes_first ? NAN : sectors_per_request(v, n);
                      }),
               milliseconds(4), spread(), products_per_ns()},
              "n");
  for (const Variant& v : variants)
    sheet.add({.ref = Ref(v.key, n),
               .words = v.words,
               .calibrates = v.key == "multiply" && n == smallest,
               .model = model_of(v, n, run.device)});
  sheet.measure(Timing::in_turn,
                [&](const Row& row) { return task_of(matrices(), *with_key(variants, row.ref)); });
  const double ms = sheet.ms({"multiply", smallest});
  sheet.predict([&](const Row& row) {
    if (!run.device) return double(NAN);
    return predicted_ms(*with_key(variants, row.ref), n, latency_of(ms, smallest, *run.device),
                        *run.device);
  });
  sheet.print();
}

void measure_on_host(const Run& run, unsigned n) {
  SharedByTasks matrices([n] { return HostMatrices{n, host_rows(n)}; });
  Sheet sheet(
      run,
      "host, one core, n " + std::to_string(n) + ", " + std::to_string(host_rows(n)) + " rows of C",
      {in_unit(measured("ms", "time", "ms", 4), [](const Row&, double ms) { return ms; }), spread(),
       products_per_ns()},
      "n");
  sheet.add({.ref = {on_host[0], double(n)}, .words = "host: A x B", .on_host = true});
  sheet.add({.ref = {on_host[1], double(n)}, .words = "host: A x B^T", .on_host = true});
  sheet.measure(Timing::in_turn, [&](const Row& row) { return host_task(matrices(), row.ref); });
  sheet.print({"no model covers the host"});
}

void run_matmul(const Run& run) {
  const unsigned most = largest(run);
  run.report.begin("matmul", "float matrices n x n, at most " + bytes_text(4.0 * most * most) +
                                 " each, in the L2: n blocks of n threads");
  show_loads(run, most);
  for (unsigned n = smallest; n <= most; n *= 2) measure(run, n);
  run.report.note(
      "the model: L1 looks up a line per cycle, and a thread has four steps in flight;");
  run.report.note("its constant, the latency, comes from A x B at n " + std::to_string(smallest));
  measure_on_host(run, most);
}

// ---- claims ----

std::vector<Claim> claims(const Run& run) {
  const auto at = [n = largest(run)](const char* key) { return Ref(key, n); };
  return {{.part = {"03.8", "multiplying by the transposed B is 30% faster", "1.3x faster",
                    "the guide"},
           .rule = beats(1.3),
           .pairs = {{.slow = at("multiply"), .fast = at("multiply_transposed")}},
           .here = "against the text's own rule: it is A x B whose warps read B in order",
           .found = {{.slow = at("multiply"), .fast = at("transpose_and_multiply")},
                     {.slow = at("multiply_by_warps"), .fast = at("multiply_by_warps_transposed")},
                     {.slow = at(on_host[0]), .fast = at(on_host[1])}}}};
}

// ---- what it declares ----

Needs needs(const Run& run) { return {.allocated = 5 * 4.0 * largest(run) * largest(run) + 1024}; }

std::vector<Checked> tasks(size_t n) {
  const unsigned side = std::min(1024u, unsigned(std::ceil(std::sqrt(double(n)))));
  std::vector<Checked> all;
  for (const Variant& v : variants) {
    const Shared m(Matrices{side});
    all.push_back({.task = task_of(m, v),
                   .elements = (v.transposes_first ? 2 : 1) * m->elements,
                   .change_one = [m] { m->c.change(0); }});
  }
  return all;
}

constexpr unsigned counted_n = 256;
constexpr double counted_warps = counted_n * counted_n / 32.0;  // of a thread per element

CountedLaunch counted_product(const Variant& v) {
  const double loads = 2 * counted_warps * counted_n;
  const double stores = v.by_warps ? 32 * counted_warps : counted_warps;
  return counted_launch(std::string(v.key), "n " + std::to_string(counted_n),
                        {loads, loads * sectors_per_request(v, counted_n)},
                        {stores, stores * (v.by_warps ? 1 : 4)},
                        [&v] { return task_of(Shared(Matrices{counted_n}), v); });
}

CountedLaunch counted_transposition() {
  return counted_launch("transpose", "n " + std::to_string(counted_n),
                        {counted_warps, 32 * counted_warps}, {counted_warps, 4 * counted_warps},
                        [] {
                          const Shared m(Matrices{counted_n});
                          const auto launch = [m] {
                            transpose<<<m->n, m->n>>>(m->n, m->b.data(), m->made_bt.data());
                          };
                          return Task{"transpose", launch, m->made_bt.check(TransposedB{m->n})};
                        });
}

std::vector<CountedLaunch> counted() {
  std::vector<CountedLaunch> all{counted_transposition()};
  for (const Variant& v : variants)
    if (!v.transposes_first) all.push_back(counted_product(v));
  return all;
}

}  // namespace

extern const Experiment matmul_experiment{.name = "matmul",
                                          .about = "A x B, and A x the transposed B",
                                          .run = run_matmul,
                                          .claims = claims,
                                          .needs = needs,
                                          .tasks = tasks,
                                          .counted = counted};
