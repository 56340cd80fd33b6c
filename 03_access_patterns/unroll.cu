// unroll: two vectors added with 1, 2, 4 or 8 words a thread, in words of 4, 8 and 16 bytes. The
// replies that the wiki quotes say that unrolling does not help a kernel that the memory limits
// [LC 3]. Look first at whether the memory does limit it: one word of 4 bytes a thread puts too few
// bytes under way to keep the memory of a large GPU busy, and then unrolling, or a wider word,
// helps. What else the replies expect of more work a thread is in unroll_replies.cu.
//   cmake -S 03_access_patterns -B build/unroll -DEXPERIMENTS=unroll
//   cmake --build build/unroll && build/unroll/03_access_patterns
//
//   1  add_float    a thread adds `words` words of 4 bytes
//   2  add_float2   of 8 bytes
//   3  add_float4   of 16 bytes
#include <algorithm>
#include <memory>

#include "../common/report.hpp"

void unroll_replies(const Run& run);  // the experiment's other file

namespace {

// ---- kernels: c = a + b, n words; a block takes words * blockDim.x neighbours ----

// [add_float]
// A warp asks for 32 neighbours of a and of b, 4 sectors each, `words` times before it waits.
template <unsigned words>
__global__ void add_float(float* c, const float* a, const float* b, size_t n) {
  const size_t first = blockIdx.x * size_t(words * blockDim.x) + threadIdx.x;
  if (first + (words - 1) * blockDim.x < n) {
    float x[words], y[words];
#pragma unroll
    for (unsigned k = 0; k < words; ++k) {  // ask for all of them
      x[k] = a[first + k * blockDim.x];
      y[k] = b[first + k * blockDim.x];
    }
#pragma unroll
    for (unsigned k = 0; k < words; ++k) c[first + k * blockDim.x] = x[k] + y[k];
  } else {  // the last block: not all of its words are there
    for (size_t i = first; i < n; i += blockDim.x) c[i] = a[i] + b[i];
  }
}
// [/add_float]

// The same in words of 8 bytes: 8 sectors a request.
template <unsigned words>
__global__ void add_float2(float2* c, const float2* a, const float2* b, size_t n) {
  const size_t first = blockIdx.x * size_t(words * blockDim.x) + threadIdx.x;
  if (first + (words - 1) * blockDim.x < n) {
    float2 x[words], y[words];
#pragma unroll
    for (unsigned k = 0; k < words; ++k) {
      x[k] = a[first + k * blockDim.x];
      y[k] = b[first + k * blockDim.x];
    }
#pragma unroll
    for (unsigned k = 0; k < words; ++k)
      c[first + k * blockDim.x] = {x[k].x + y[k].x, x[k].y + y[k].y};
  } else {
    for (size_t i = first; i < n; i += blockDim.x) c[i] = {a[i].x + b[i].x, a[i].y + b[i].y};
  }
}

// The same in words of 16 bytes: 16 sectors a request.
template <unsigned words>
__global__ void add_float4(float4* c, const float4* a, const float4* b, size_t n) {
  const size_t first = blockIdx.x * size_t(words * blockDim.x) + threadIdx.x;
  if (first + (words - 1) * blockDim.x < n) {
    float4 x[words], y[words];
#pragma unroll
    for (unsigned k = 0; k < words; ++k) {
      x[k] = a[first + k * blockDim.x];
      y[k] = b[first + k * blockDim.x];
    }
#pragma unroll
    for (unsigned k = 0; k < words; ++k)
      c[first + k * blockDim.x] = {x[k].x + y[k].x, x[k].y + y[k].y, x[k].z + y[k].z,
                                   x[k].w + y[k].w};
  } else {
    for (size_t i = first; i < n; i += blockDim.x) {
      const float4 x = a[i], y = b[i];
      c[i] = {x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w};
    }
  }
}

// ---- what is right ----

/// Float i of a vector: 16 bits without pattern, other ones in each vector, so that sums are exact.
__host__ __device__ float value(size_t i, unsigned vector) {
  unsigned x = unsigned(2 * i + vector) * 0x9e3779b1u;
  x = (x ^ x >> 16) * 0x85ebca6bu;
  x = (x ^ x >> 13) * 0xc2b2ae35u;
  return float((x ^ x >> 16) >> 16);
}

__global__ void fill(float* out, size_t n, unsigned vector) {
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += threads)
    out[i] = value(i, vector);
}

/// Counts floats that are not the sum, and those from n to `size` that somebody wrote: they were
/// NaN, which does not equal itself.
__global__ void count_wrong(const float* c, size_t n, size_t size, unsigned long long* wrong) {
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < size; i += threads) {
    const bool right = i < n ? c[i] == value(i, 0) + value(i, 1) : c[i] != c[i];
    if (!right) atomicAdd(wrong, 1ull);
  }
}

// ---- the story in order ----

constexpr unsigned block_threads = 256;

template <unsigned words>
void launch_float(unsigned blocks, float* c, const float* a, const float* b, size_t n) {
  add_float<words><<<blocks, block_threads>>>(c, a, b, n);
}
template <unsigned words>
void launch_float2(unsigned blocks, float* c, const float* a, const float* b, size_t n) {
  add_float2<words><<<blocks, block_threads>>>(reinterpret_cast<float2*>(c),
                                               reinterpret_cast<const float2*>(a),
                                               reinterpret_cast<const float2*>(b), n);
}
template <unsigned words>
void launch_float4(unsigned blocks, float* c, const float* a, const float* b, size_t n) {
  add_float4<words><<<blocks, block_threads>>>(reinterpret_cast<float4*>(c),
                                               reinterpret_cast<const float4*>(a),
                                               reinterpret_cast<const float4*>(b), n);
}

struct Kernel {
  const char* symbol;
  unsigned bytes, words;  ///< of a word, and of a thread
  void (*launch)(unsigned blocks, float* c, const float* a, const float* b, size_t n);

  /// Blocks for n words.
  unsigned blocks(size_t n) const {
    const size_t each = size_t(words) * block_threads;
    return unsigned((n + each - 1) / each);
  }
};

const Kernel kernels[] = {
    {"add_float", 4, 1, &launch_float<1>},    {"add_float", 4, 2, &launch_float<2>},
    {"add_float", 4, 4, &launch_float<4>},    {"add_float", 4, 8, &launch_float<8>},
    {"add_float2", 8, 1, &launch_float2<1>},  {"add_float2", 8, 2, &launch_float2<2>},
    {"add_float2", 8, 4, &launch_float2<4>},  {"add_float2", 8, 8, &launch_float2<8>},
    {"add_float4", 16, 1, &launch_float4<1>}, {"add_float4", 16, 2, &launch_float4<2>},
    {"add_float4", 16, 4, &launch_float4<4>}, {"add_float4", 16, 8, &launch_float4<8>},
};
constexpr size_t kernel_count = std::size(kernels);

std::string name_of(const Kernel& k) { return std::to_string(k.bytes) + " bytes"; }

/// Two vectors of n floats, a multiple of 4, and their sum. Nothing lies behind a and b, so that
/// memcheck sees what is read there.
struct Vectors {
  static constexpr size_t canaries = 4096;  ///< behind the sum: more than a block's words

  size_t n;
  DeviceBuffer<float> a, b, c;
  DeviceBuffer<unsigned long long> wrong_floats{1};

  explicit Vectors(size_t n) : n(n), a(n), b(n), c(n + canaries) {
    fill<<<1024, 256>>>(a.data(), n, 0);
    fill<<<1024, 256>>>(b.data(), n, 1);
    CUDA_CHECK_LAUNCH();
  }
  size_t wrong(size_t added) {
    wrong_floats.copy_from({0});
    count_wrong<<<1024, 256>>>(c.data(), added, c.size(), wrong_floats.data());
    CUDA_CHECK_LAUNCH();
    return wrong_floats.to_host()[0];
  }
  Task task(const Kernel& k) {
    Check check;
    check.poison = [this] { c.poison(); };
    check.wrong = [this] { return wrong(n); };
    const size_t count = 4 * n / k.bytes;
    return {name_of(k) + ", " + std::to_string(k.words) + " a thread",
            [this, &k, count] { k.launch(k.blocks(count), c.data(), a.data(), b.data(), count); },
            std::move(check)};
  }
  /// Copies a to c, which is as good a limit as any.
  Task copy_engine() {
    return {"copy engine",
            [this] {
              CUDA_CHECK(cudaMemcpyAsync(c.data(), a.data(), a.bytes(), cudaMemcpyDeviceToDevice));
            },
            unchecked("the copy engine is taken at its word")};
  }
};

// ---- what to expect ----

/// Two words are read, one is written.
double bytes_moved(double floats) { return 3 * sizeof(float) * floats; }

/// Bytes of a and b that a thread asks for before it waits.
double asked_for(const Kernel& k) { return 2.0 * k.words * k.bytes; }

/// Sectors of a warp's request: 32 words side by side.
double sectors_a_request(const Kernel& k) { return 32.0 * k.bytes / 32; }

double resident_threads(const Device& device) {
  return double(device.prop.multiProcessorCount) * device.prop.maxThreadsPerMultiProcessor;
}

/// Bytes that all resident threads move in a turn.
double turn_bytes(const Kernel& k, const Device& device) {
  return 1.5 * asked_for(k) * resident_threads(device);
}

/// Measured in the same run.
struct Calibrated {
  double latency_ns = NAN;  ///< from 4 bytes, one word a thread
  double memory_gbs = NAN;  ///< the copy engine's
};

/// Nanoseconds of a turn: between the longer of latency and bytes over bandwidth, and their sum; as
/// of two sides of a right triangle (04_bandwidth in_flight).
double turn_ns(double bytes, const Calibrated& c) {
  return std::hypot(c.latency_ns, bytes / c.memory_gbs);
}

/// The latency with which a measured rate follows from it; 0 if the memory alone explains the rate.
double latency_ns(double bytes, double gbs, double memory_gbs) {
  const double turn = bytes / gbs;
  const double memory = bytes / memory_gbs;
  return turn > memory ? std::sqrt(turn * turn - memory * memory) : 0;
}

double predicted_ms(const Kernel& k, double floats, const Calibrated& c, const Device& device) {
  const double bytes = turn_bytes(k, device);
  return bytes_moved(floats) / bytes * turn_ns(bytes, c) * 1e-6;
}

Model model_of(const Kernel& k, const Calibrated& c, const Device& device) {
  const bool memory = turn_bytes(k, device) / c.memory_gbs > c.latency_ns;
  return memory ? Model::traffic : Model::latency;
}

// ---- the experiment ----

/// One word a thread saturates the memory if it reaches so much of the copy engine's rate, measured
/// in the same run. The best kernels reach 92% of theory where that engine reaches 88%
/// (04_bandwidth peak), so one at 95% of it has a tenth left at most.
constexpr double saturated = 0.95;

struct Times {
  Readings copy;
  std::vector<Readings> kernel = std::vector<Readings>(kernel_count);

  double copy_gbs(double floats) const {
    return gigabytes_per_second(8 * floats, copy.statistics()).median;
  }
  double gbs(size_t k, double floats) const {
    return gigabytes_per_second(bytes_moved(floats), kernel[k].statistics()).median;
  }
};

/// Kernel k's baseline: one word of the same size a thread.
size_t baseline(size_t k) { return k / 4 * 4; }

Times measure(const Run& run, size_t floats) {
  Vectors vectors(floats);
  std::vector<Task> tasks{vectors.copy_engine()};
  for (const Kernel& k : kernels) tasks.push_back(vectors.task(k));
  std::vector<Readings> readings = run.time_in_turn(tasks);
  Times times;
  times.copy = readings[0];
  times.kernel.assign(readings.begin() + 1, readings.end());
  return times;
}

void show(const Run& run, const Times& times, double floats) {
  Table table(run.report, "word, words a thread",
              {predicted("sectors", "sectors a request", "", 0),
               predicted("bytes asked for", "asked for at once by a thread", "bytes", 0),
               compared("ms", "time", "ms", 4), shown("spread"),
               measured("GB/s", "bandwidth", "GB/s", 0), shown("gain"), shown("")});
  const double limit = times.copy_gbs(floats);
  Calibrated c;
  if (run.device) {
    c.memory_gbs = limit;
    c.latency_ns = latency_ns(turn_bytes(kernels[0], *run.device), times.gbs(0, floats), limit);
    const Statistics ms = times.copy.statistics();
    table.row({"copy engine"}, {{},
                                {},
                                Calibration{ms},
                                spread_text(ms),
                                gigabytes_per_second(8 * floats, ms),
                                {},
                                bar(1)});
  }
  for (size_t i = 0; i < kernel_count; ++i) {
    const Kernel& k = kernels[i];
    const Statistics ms = times.kernel[i].statistics();
    Cell time;
    if (run.device && i == 0) time = Calibration{ms};
    if (run.device && i > 0)
      time = Compared{predicted_ms(k, floats, c, *run.device), ms, model_of(k, c, *run.device)};
    const double base = times.kernel[baseline(i)].median();
    table.row({name_of(k), "words a thread", std::to_string(k.words)},
              {sectors_a_request(k), asked_for(k), time, spread_text(ms),
               gigabytes_per_second(bytes_moved(floats), ms),
               run.device ? ::times(base / ms.median) : "", bar(times.gbs(i, floats) / limit)});
  }
  table.print();
}

void judge(const Run& run, const Times& times, double floats) {
  const Part part{"03.9", "unrolling gains nothing for a kernel that the memory limits",
                  "no figure", "replies in the wiki"};
  if (!run.device) return run.report.not_judged(part, "no GPU");
  if (!beyond_l2(*run.device, bytes_moved(floats)))
    return run.report.not_judged(part, "the vectors are less than four times the L2");
  const double limit = times.copy_gbs(floats);
  std::vector<Verdict> each;
  std::vector<std::string> findings;
  Interval most;
  std::string where;
  for (size_t base = 0; base < kernel_count; base += 4) {
    const double share = times.gbs(base, floats) / limit;
    Interval best;
    for (size_t i = base + 1; i < base + 4; ++i) {
      const Interval gain = ratio(times.kernel[base], times.kernel[i]);
      if (!(gain.value <= best.value)) best = gain;
      if (share < saturated) continue;
      each.push_back(::judge(gains_nothing(), gain));
      if (gain.value <= most.value) continue;
      most = gain;
      where = name_of(kernels[i]) + ", " + std::to_string(kernels[i].words) + " words a thread";
    }
    if (share < saturated)
      findings.push_back("one word of " + name_of(kernels[base]) + " a thread reaches " +
                         share_text(exactly(share)) +
                         " of the copy engine: latency limits it, and unrolled it is up to " +
                         faster(best));
  }
  if (each.empty())
    run.report.not_judged(part,
                          "one word a thread does not saturate the memory, whatever the word");
  else
    run.report.judged(part, judge_many(each), most,
                      "at most " + faster(most) + ", with " + where + "; " +
                          std::to_string(each.size()) +
                          " cases in which one word a thread saturates the memory");
  for (const std::string& found : findings) run.report.finding("03.9", found);
}

/// Floats of a vector: 256 MiB, and more where the L2 is so large that they would be less than four
/// times as much.
size_t default_size(bool quick, const Device* device) {
  size_t floats = size_t(1) << (quick ? 25 : 26);
  while (device && !beyond_l2(*device, bytes_moved(double(floats)))) floats *= 2;
  return floats;
}

/// The same, or as many as fit; whole quads.
size_t floats_of(const Run& run) {
  return fitting_size("unroll", 0, default_size(run.quick, run.device), run.memory_there(),
                      [](size_t n) { return bytes_moved(double(n)); }) /
         4 * 4;
}

}  // namespace

void unroll(const Run& run) {
  const size_t floats = floats_of(run);
  run.report.begin("unroll", "two vectors of " + std::to_string(floats) + " floats added, " +
                                 bytes_text(bytes_moved(double(floats))) +
                                 " read and written, blocks of 256 threads");
  Times times;
  if (run.device) times = measure(run, floats);
  show(run, times, double(floats));
  if (run.device)
    run.report.note("calibration: the memory's rate, and the latency from 4 bytes, one word");
  else
    run.report.left_out("the times");
  judge(run, times, double(floats));
  unroll_replies(run);
}
