// unroll: two vectors added, with 1, 2, 4 or 8 words per thread, in words of 4, 8 and 16 bytes. The
// replies that the wiki quotes call this unrolling, and one of them objects that only loops are
// unrolled [LC 3]: today more words per thread are called coarsening. It gains nothing, they say,
// where the memory's bandwidth limits the kernel. Two things to look at:
//   - Whether bandwidth does limit it. One word of 4 bytes per thread puts too few bytes in flight
//   to
//     keep the memory of a large GPU busy.
//   - What then gains: more bytes in flight, by more words per thread or by wider words.
//
//   cmake -S 03_access_patterns -B build/unroll -DEXPERIMENTS=unroll
//   cmake --build build/unroll && build/unroll/03_access_patterns
//
//   1  add_float    a thread adds `words` words of 4 bytes
//   2  add_float2   of 8 bytes
//   3  add_float4   of 16 bytes
// unroll_replies.cu: what else the replies expect of more words per thread.
#include "unroll.hpp"

#include "../framework/common/checked.cuh"
#include "sizes.hpp"

using namespace samples;

namespace {

// ---- kernels: c = a + b, n words; a block takes words * blockDim.x neighbours ----

__device__ float sum(float x, float y) { return x + y; }
__device__ float2 sum(const float2& x, const float2& y) { return {x.x + y.x, x.y + y.y}; }
__device__ float4 sum(float4 x, float4 y) { return {x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w}; }

// [add_float]
// A warp loads 32 neighbours of a and of b, `words` times before it waits.
template <unsigned words, class Word>
__device__ void add(Word* c, const Word* a, const Word* b, size_t n) {
  const size_t first = blockIdx.x * size_t(words * blockDim.x) + threadIdx.x;
  if (first + (words - 1) * blockDim.x < n) {
    Word x[words], y[words];
#pragma unroll
    for (unsigned k = 0; k < words; ++k) {  // all loads
      x[k] = a[first + k * blockDim.x];
      y[k] = b[first + k * blockDim.x];
    }
#pragma unroll
    for (unsigned k = 0; k < words; ++k) c[first + k * blockDim.x] = sum(x[k], y[k]);
  } else {  // the last block: not all of its words are there
    for (size_t i = first; i < n; i += blockDim.x) c[i] = sum(a[i], b[i]);
  }
}

// 4, 8 and 16 sectors per request.
template <unsigned words>
__global__ void add_float(float* c, const float* a, const float* b, size_t n) {
  add<words>(c, a, b, n);
}
template <unsigned words>
__global__ void add_float2(float2* c, const float2* a, const float2* b, size_t n) {
  add<words>(c, a, b, n);
}
template <unsigned words>
__global__ void add_float4(float4* c, const float4* a, const float4* b, size_t n) {
  add<words>(c, a, b, n);
}
// [/add_float]

// ---- the kernels in order ----

constexpr unsigned block_threads = 256;

struct Kernel {
  const char* key = "";
  unsigned bytes = 4;  ///< of a word
  unsigned words = 1;  ///< of a thread
  void (*launch)(unsigned blocks, float* c, const float* a, const float* b, size_t n) = nullptr;

  Ref ref() const { return {key, double(words)}; }
  unsigned blocks(size_t n) const {  ///< for n words
    const size_t each = size_t(words) * block_threads;
    return unsigned((n + each - 1) / each);
  }
};
template <class Word, void (*kernel)(Word*, const Word*, const Word*, size_t)>
void launch(unsigned blocks, float* c, const float* a, const float* b, size_t n) {
  kernel<<<blocks, block_threads>>>(reinterpret_cast<Word*>(c), reinterpret_cast<const Word*>(a),
                                    reinterpret_cast<const Word*>(b), n);
}
template <unsigned words>
constexpr Kernel of_4() {
  return {"add_float", 4, words, launch<float, add_float<words>>};
}
template <unsigned words>
constexpr Kernel of_8() {
  return {"add_float2", 8, words, launch<float2, add_float2<words>>};
}
template <unsigned words>
constexpr Kernel of_16() {
  return {"add_float4", 16, words, launch<float4, add_float4<words>>};
}

const Kernel kernels[] = {
    of_4<1>(),  of_4<2>(),  of_4<4>(),  of_4<8>(),  //
    of_8<1>(),  of_8<2>(),  of_8<4>(),  of_8<8>(),  //
    of_16<1>(), of_16<2>(), of_16<4>(), of_16<8>(),
};
const Kernel* kernel_of(const Row& row) {
  for (const Kernel& k : kernels)
    if (same(k.ref(), row.ref)) return &k;
  return nullptr;
}
const char* const copy_engine = "copy_engine";  // the key of the row that is no kernel's

// ---- what is right ----

/// 16 bits without pattern, other ones in each vector, so that sums are exact.
struct Input {
  unsigned vector;
  __host__ __device__ float operator()(size_t i) const { return float(scrambled(i, vector) >> 16); }
};
struct IsSum {
  __device__ bool operator()(size_t i, float found) const {
    return found == Input{0}(i) + Input{1}(i);
  }
};
struct IsCopy {
  __device__ bool operator()(size_t i, float found) const { return found == Input{0}(i); }
};

/// Two vectors of n floats, and their sum.
struct Vectors {
  static constexpr double bytes_each = 12;  ///< two floats are read, one is written

  size_t n;
  DeviceBuffer<float> a = filled<float>(n, Input{0}), b = filled<float>(n, Input{1});
  Output<float> c{n};
};

/// n has to be a multiple of the kernel's word.
Task add_task(const Shared<Vectors>& v, const Kernel& k) {
  const size_t words = 4 * v->n / k.bytes;
  const auto launch = [v, &k, words] {
    k.launch(k.blocks(words), v->c.data(), v->a.data(), v->b.data(), words);
  };
  return {text(k.ref()), launch, v->c.check(IsSum{})};
}
Task copy_task(const Shared<Vectors>& v) {
  const auto launch = [v] {
    CUDA_CHECK(cudaMemcpyAsync(v->c.data(), v->a.data(), v->a.bytes(), cudaMemcpyDeviceToDevice));
  };
  return {copy_engine, launch, v->c.check(IsCopy{})};
}

// ---- prediction ----

/// Bytes of a and b that a thread loads before it waits.
double loaded_at_once(const Kernel& k) { return 2.0 * k.words * k.bytes; }

/// A warp's request: 32 words side by side.
double sectors_of(const Kernel& k) { return 32.0 * k.bytes / 32; }

/// Bytes that all resident threads load and store while each of them waits once.
double bytes_in_flight(const Kernel& k, const Device& device) {
  const double threads =
      double(device.prop.multiProcessorCount) * device.prop.maxThreadsPerMultiProcessor;
  return 1.5 * loaded_at_once(k) * threads;
}

/// Measured in the same run.
struct Calibrated {
  double latency_ns = NAN;  ///< from add_float, one word per thread
  double memory_gbs = NAN;  ///< of the copy engine

  /// Nanoseconds in which so many bytes come. They lie between the longer of latency and bytes over
  /// bandwidth, and their sum. The root of the sum of squares was fitted to 04_bandwidth in_flight.
  double ns(double bytes) const { return std::hypot(latency_ns, bytes / memory_gbs); }
};

/// The latency that gives this rate; 0 if the memory's rate alone explains it.
double latency_ns(double bytes, double gbs, double memory_gbs) {
  const double all = bytes / gbs, memory = bytes / memory_gbs;
  return all > memory ? std::sqrt(all * all - memory * memory) : 0;
}

double predicted_ms(const Kernel& k, double floats, const Calibrated& c, const Device& device) {
  const double bytes = bytes_in_flight(k, device);
  return Vectors::bytes_each * floats / bytes * c.ns(bytes) * 1e-6;
}

/// Up to 16 bytes at once, the latency counts on some GPUs.
Model model_of(const Kernel& k) {
  return loaded_at_once(k) <= 16 ? Model::latency : Model::traffic;
}

// ---- the experiment ----

/// Floats of a vector, beyond the L2; whole words of 16 bytes.
size_t floats_of(const Run& run) {
  return size_beyond_l2(run, "unroll", size_t(1) << (run.quick ? 25 : 26), Vectors::bytes_each,
                        Vectors::bytes_each) /
         4 * 4;
}

/// A column of numbers of the rows' kernels; the copy engine has none.
Shown of_kernel(Column column, double (*number_of)(const Kernel&)) {
  return number(std::move(column), [number_of](const Row& row) {
    const Kernel* k = kernel_of(row);
    return k ? number_of(*k) : double(NAN);
  });
}

void run_unroll(const Run& run) {
  const size_t n = floats_of(run);
  run.report.begin("unroll", "two vectors of " + std::to_string(n) + " floats added, " +
                                 bytes_text(Vectors::bytes_each * double(n)) +
                                 " read and written, blocks of 256 threads");
  SharedByTasks vectors([n] { return Vectors{n}; });
  Sheet sheet(
      run, "word, words per thread",
      {of_kernel(predicted("sectors", "sectors a request", "", 0), sectors_of),
       of_kernel(predicted("bytes loaded at once", "asked for at once by a thread", "bytes", 0),
                 loaded_at_once),
       milliseconds(4),
       spread(),
       in_unit(measured("GB/s", "bandwidth", "GB/s", 0), gbs_of),
       {shown("of one word"),
        {},
        {},
        [&run](const Row& row, const Statistics& ms) {
          const bool is_copy = row.ref.key == copy_engine;
          return is_copy ? ""
                         : fixed((*run.results)({row.ref.key, 1}).time.ms.median / ms.median, 2);
        }},
       bar_against(run, copy_engine)},
      "words per thread");
  sheet.add(
      {.ref = copy_engine, .words = "copy engine", .bytes = 8 * double(n), .calibrates = true});
  for (const Kernel& k : kernels)
    sheet.add({.ref = k.ref(),
               .words = std::to_string(k.bytes) + " bytes, " + std::to_string(k.words),
               .bytes = Vectors::bytes_each * double(n),
               .calibrates = same(k.ref(), {"add_float", 1}),
               .model = model_of(k)});
  sheet.measure(Timing::in_turn, [&](const Row& row) {
    const Kernel* k = kernel_of(row);
    return k ? add_task(vectors(), *k) : copy_task(vectors());
  });
  if (run.device) {
    const double memory_gbs = 8e-6 * double(n) / sheet.ms(copy_engine);
    const double one_word_gbs = Vectors::bytes_each * 1e-6 * double(n) / sheet.ms({"add_float", 1});
    const Calibrated c{
        latency_ns(bytes_in_flight(kernels[0], *run.device), one_word_gbs, memory_gbs), memory_gbs};
    sheet.predict(
        [&](const Row& row) { return predicted_ms(*kernel_of(row), double(n), c, *run.device); },
        Basis::fitted);
  }
  sheet.print({"of one word: the rate as a multiple of one word per thread, of the same width"});
  unroll_replies(run);
}

// ---- claims ----

/// What a byte takes in the text's kernel, and in a copy.
Comparison over_copy() { return {.slow = {"add_float", 1}, .fast = copy_engine, .per_byte = true}; }

std::vector<Claim> claims(const Run& run) {
  const bool in_cache =
      run.device && !beyond_l2(*run.device, Vectors::bytes_each * double(floats_of(run)));
  const std::string unless = in_cache ? "the vectors are less than four times the L2" : "";
  const Interval r = ratio_of(run, over_copy());
  const bool limited = holds(judge(costs_as_much(), r));
  const auto gain = [](const char* key, double words) {
    return Comparison{.slow = {key, 1}, .fast = {key, words}};
  };
  Claim a{.part = {"03.9a", "bandwidth limits the kernel: a byte takes as long as in a copy",
                   "no figure", "replies in the wiki"},
          .rule = costs_as_much(),
          .pairs = {over_copy()},
          .unless = unless};
  Claim b{.part = {"03.9b", "then more words per thread gain nothing", "no figure",
                   "replies in the wiki"},
          .rule = gains_nothing(),
          .pairs = {gain("add_float", 2), gain("add_float", 4), gain("add_float", 8)},
          .unless = unless,
          .found = {gain("add_float", 4), gain("add_float2", 4), gain("add_float4", 4)}};
  if (unless.empty() && r.measured() && !limited)
    b.unless = "latency limits one word of 4 bytes per thread: it reaches " +
               share_text(exactly(1 / r.value)) + " of the copy engine's rate";
  for (const Comparison& pair : reply_pairs()) b.found.push_back(pair);
  return {a, b};
}

// ---- what it declares ----

Needs needs(const Run& run) {
  const double bytes = Vectors::bytes_each * double(floats_of(run));
  const Needs replies = reply_needs(run);
  return {.allocated = std::max(bytes, replies.allocated),
          .touched = std::min(bytes, replies.touched)};
}

std::vector<Checked> tasks(size_t n) {
  std::vector<Checked> all = reply_tasks(n);
  const Shared vectors(Vectors{(n + 3) / 4 * 4});
  for (const Kernel& k : kernels)
    all.push_back({.task = add_task(vectors, k), .elements = vectors->n, .change_one = [vectors] {
                     vectors->c.change(vectors->n / 2);
                   }});
  return all;
}

std::vector<CountedLaunch> counted() {
  constexpr size_t floats = 1 << 18;
  std::vector<CountedLaunch> all;
  for (const Kernel& k : kernels) {
    const double requests = 4.0 * floats / k.bytes / 32;  // of one vector
    const double sectors = requests * sectors_of(k);
    all.push_back(counted_launch(k.key, std::to_string(k.words) + " words a thread",
                                 {2 * requests, 2 * sectors}, {requests, sectors},
                                 [&k] { return add_task(Shared(Vectors{floats}), k); }));
  }
  return all;
}

}  // namespace

extern const Experiment unroll_experiment{
    .name = "unroll",
    .about = "1 to 8 elements per thread, words of 4 to 16 bytes",
    .run = run_unroll,
    .claims = claims,
    .needs = needs,
    .tasks = tasks,
    .counted = counted};
