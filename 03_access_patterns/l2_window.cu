// l2_window: a "hot" array that is read again and again while a stream of data is read once. The
// stream's lines push the array's out of the L2. From compute capability 8.0 on a part of the L2
// can be set aside, and a launch can have a window: addresses whose lines are to stay there. None
// of the texts knows of it. Three things to look at:
//   - What setting a part of the L2 aside costs by itself.
//   - What becomes of a window that is larger than what was set aside.
//   - Kernel 2, which needs neither. It says that the lines of the stream are wanted only once, and
//     says nothing about the hot array.
//
//   cmake -S 03_access_patterns -B build/l2_window -DEXPERIMENTS=l2_window
//   cmake --build build/l2_window && build/l2_window/03_access_patterns
//
//   1  read_hot_and_stream       a word of the hot array and two of the stream in turn
//   2  read_hot_and_stream_once  the same, the stream by __ldcs
//   3  read_stream               the stream alone
#include <algorithm>
#include <cmath>

#include "../framework/common/checked.cuh"
#include "../framework/common/experiment.hpp"
#include "reads.cuh"

using namespace samples;

namespace {

// ---- kernels: thread t adds up what it reads in words of 16 bytes, into sums[t] ----

// [read_hot_and_stream]
// In each step a warp reads 512 bytes of the hot array (after its end, from the beginning again)
// and 512 bytes of each half of the stream (each byte once). n: words of 16 bytes in one half.
__global__ void read_hot_and_stream(unsigned* sums, const uint4* hot, unsigned hot_words,
                                    const uint4* stream, unsigned n) {
  const unsigned tid = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned threads = gridDim.x * blockDim.x;
  unsigned sum = 0;
  for (unsigned i = tid; i < n; i += threads) {
    const uint4 again = hot[i % hot_words];
    const uint4 once = stream[i];
    const uint4 other = stream[n + i];
    sum += again.x + again.y + again.z + again.w;
    sum += once.x + once.y + once.z + once.w;
    sum += other.x + other.y + other.z + other.w;
  }
  sums[tid] = sum;
}
// [/read_hot_and_stream]

// The same, but the stream's loads say that their lines are wanted once: the L2 evicts these lines
// first.
__global__ void read_hot_and_stream_once(unsigned* sums, const uint4* hot, unsigned hot_words,
                                         const uint4* stream, unsigned n) {
  const unsigned tid = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned threads = gridDim.x * blockDim.x;
  unsigned sum = 0;
  for (unsigned i = tid; i < n; i += threads) {
    const uint4 again = hot[i % hot_words];
    // [once]
    const uint4 once = __ldcs(stream + i);
    const uint4 other = __ldcs(stream + n + i);
    // [/once]
    sum += again.x + again.y + again.z + again.w;
    sum += once.x + once.y + once.z + once.w;
    sum += other.x + other.y + other.z + other.w;
  }
  sums[tid] = sum;
}

// The stream without the hot array: all of it comes from memory.
__global__ void read_stream(unsigned* sums, const uint4* stream, unsigned n) {
  const unsigned tid = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned threads = gridDim.x * blockDim.x;
  unsigned sum = 0;
  for (unsigned i = tid; i < n; i += threads) {
    const uint4 once = stream[i];
    const uint4 other = stream[n + i];
    sum += once.x + once.y + once.z + once.w;
    sum += other.x + other.y + other.z + other.w;
  }
  sums[tid] = sum;
}

// ---- what is right: from words to the threads that read them ----

struct Hot {  // other words than those of the stream
  __host__ __device__ unsigned operator()(size_t i) const { return word_at(i) ^ 0x5bd1e995u; }
};

/// Takes each word of the stream away from the sum of the thread that must have read it: from words
/// to threads, where the kernels go from threads to words.
__global__ void take_away_stream(unsigned* sums, unsigned threads, unsigned n) {
  const size_t step = size_t(gridDim.x) * blockDim.x;
  for (size_t w = blockIdx.x * size_t(blockDim.x) + threadIdx.x; w < 2 * size_t(n); w += step) {
    unsigned sum = 0;
    for (unsigned k = 0; k < 4; ++k) sum += word_at(4 * w + k);
    const size_t turn = w < n ? w : w - n;
    atomicSub(&sums[turn % threads], sum);
  }
}

/// The same of the hot array, whose words are read in every turn that they come round to.
__global__ void take_away_hot(unsigned* sums, unsigned threads, unsigned hot_words, unsigned n) {
  const size_t step = size_t(gridDim.x) * blockDim.x;
  for (size_t w = blockIdx.x * size_t(blockDim.x) + threadIdx.x; w < hot_words; w += step) {
    unsigned sum = 0;
    for (unsigned k = 0; k < 4; ++k) sum += Hot{}(4 * w + k);
    for (size_t turn = w; turn < n; turn += hot_words) atomicSub(&sums[turn % threads], sum);
  }
}

/// Both arrays. `n`: words of 16 bytes in half of the stream.
struct Arrays {
  unsigned n;
  Words stream;  ///< and the sums
  DeviceBuffer<unsigned> hot;

  Arrays(unsigned most_hot_words, unsigned n, Grid grid)
      : n(n),
        stream(size_t(n) * 8, grid),
        hot(filled<unsigned>(size_t(most_hot_words) * 4, Hot{})) {}
  unsigned* sums() const { return stream.sums.data(); }
  const uint4* hot_data() const { return reinterpret_cast<const uint4*>(hot.data()); }
  const uint4* stream_data() const { return reinterpret_cast<const uint4*>(stream.in.data()); }
};

// ---- the window ----

using Kernel = void (*)(unsigned* sums, const uint4* hot, unsigned hot_words, const uint4* stream,
                        unsigned n);

// [window]
/// A launch with a window, which holds for this launch alone. The share `ratio` of the hot array's
/// lines shall stay in the part of the L2 that was set aside. The other lines are evicted first.
void launch_with_window(Kernel kernel, double ratio, const Arrays& x, unsigned hot_words) {
  cudaLaunchAttribute window{};
  window.id = cudaLaunchAttributeAccessPolicyWindow;
  window.val.accessPolicyWindow.base_ptr = const_cast<uint4*>(x.hot_data());
  window.val.accessPolicyWindow.num_bytes = hot_words * sizeof(uint4);
  window.val.accessPolicyWindow.hitRatio = float(ratio);
  window.val.accessPolicyWindow.hitProp = cudaAccessPropertyPersisting;
  window.val.accessPolicyWindow.missProp = cudaAccessPropertyStreaming;

  cudaLaunchConfig_t launch{};
  launch.gridDim = dim3(x.stream.grid.blocks);
  launch.blockDim = dim3(block_threads);
  launch.attrs = &window;
  launch.numAttrs = 1;
  CUDA_CHECK(
      cudaLaunchKernelEx(&launch, kernel, x.sums(), x.hot_data(), hot_words, x.stream_data(), x.n));
}
// [/window]

size_t set_aside_now() {
  size_t bytes = 0;
  CUDA_CHECK(cudaDeviceGetLimit(&bytes, cudaLimitPersistingL2CacheSize));
  return bytes;
}

// [set_aside]
/// Persisting lines stay after the kernel has ended, and would change all later timings. So all of
/// them become ordinary lines again, and the limit is set back.
void reset_l2(size_t set_aside_before) {
  (void)cudaDeviceSynchronize();  // wait: no kernel may still bring persisting lines
  (void)cudaCtxResetPersistingL2Cache();
  (void)cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, set_aside_before);
}

/// A task that runs while so many bytes of the L2 are set aside.
Task with_set_aside(Task task, size_t bytes) {
  task.enter = [bytes] { CUDA_CHECK(cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, bytes)); };
  task.leave = [before = set_aside_now()] { reset_l2(before); };
  return task;
}
// [/set_aside]

/// Bytes that are set aside when all that may be is asked for; 0 where the driver refuses, as where
/// processes share the GPU through MPS.
size_t granted(const Device& device) {
  const size_t before = set_aside_now();
  const size_t most = size_t(device.prop.persistingL2CacheMaxSize);
  if (cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, most) != cudaSuccess) {
    (void)cudaGetLastError();
    return 0;
  }
  const size_t bytes = set_aside_now();
  reset_l2(before);
  return bytes;
}

/// Why no window can be had here; empty if one can.
std::string no_window(const Device& device) {
  if (device.prop.major < 8) return "windows need compute capability 8.0";
  if (device.prop.persistingL2CacheMaxSize <= 0)
    return "no part of the L2 can be set aside here (persistingL2CacheMaxSize is 0)";
  return "";
}

// ---- the rows ----

enum class Window { none, whole, fitting };  ///< fitting: hitRatio is set-aside over hot array

/// How the hot array is read beside the stream.
struct Variant {
  std::string_view key = {};
  const char* words = "";
  Kernel kernel = read_hot_and_stream;
  bool sets_aside = true;
  Window window = Window::none;

  bool stream_goes_first() const { return kernel == read_hot_and_stream_once; }
  /// `share`: the hot array's size over that of the set-aside. The least hitRatio is 0: no window.
  double ratio(double share) const {
    return window == Window::none ? 0 : window == Window::whole ? 1 : 1 / share;
  }
};
const Variant variants[] = {
    {.key = "no_window", .words = "no window", .sets_aside = false},
    {.key = "aside_no_window", .words = "set aside, no window"},
    {.key = "window", .words = "window, hitRatio 1", .window = Window::whole},
    {.key = "window_fitting", .words = "window, hitRatio to fit", .window = Window::fitting},
    {.key = "once_no_window",
     .words = "no window, stream once",
     .kernel = read_hot_and_stream_once,
     .sets_aside = false},
    {.key = "once_window",
     .words = "window, stream once",
     .kernel = read_hot_and_stream_once,
     .window = Window::whole},
};
const char* const stream_alone = "stream_alone";
const char* const stream_alone_aside = "stream_alone_aside";

Task task_of(const Shared<Arrays>& x, const Ref& ref, unsigned hot_words, size_t set_aside) {
  const Variant& v = *with_key(variants, ref);
  const double ratio = v.ratio(ref.at);
  const auto launch = [x, &v, ratio, hot_words] {
    if (ratio > 0) return launch_with_window(v.kernel, ratio, *x, hot_words);
    v.kernel<<<x->stream.grid.blocks, block_threads>>>(x->sums(), x->hot_data(), hot_words,
                                                       x->stream_data(), x->n);
  };
  const auto take_away = [x, hot_words](unsigned* sums) {
    take_away_stream<<<4096, 256>>>(sums, x->stream.grid.threads(), x->n);
    take_away_hot<<<4096, 256>>>(sums, x->stream.grid.threads(), hot_words, x->n);
    CUDA_CHECK_LAUNCH();
  };
  const Task task = x->stream.task(text(Ref(v.key, ref.at)), launch, take_away);
  return v.sets_aside ? with_set_aside(task, set_aside) : task;
}

Task stream_task(const Shared<Arrays>& x, const Ref& ref, size_t set_aside) {
  const auto launch = [x] {
    read_stream<<<x->stream.grid.blocks, block_threads>>>(x->sums(), x->stream_data(), x->n);
  };
  const auto take_away = [x](unsigned* sums) {
    take_away_stream<<<4096, 256>>>(sums, x->stream.grid.threads(), x->n);
    CUDA_CHECK_LAUNCH();
  };
  if (ref.key == stream_alone) return x->stream.task(stream_alone, launch, take_away);
  return with_set_aside(x->stream.task(stream_alone_aside, launch, take_away), set_aside);
}

// ---- prediction ----

constexpr double streamed = 2;  // bytes of the stream that are read for each byte of the hot array

/// Share of its lines that an array of `again` bytes, read over and over, finds in a cache of
/// `capacity` bytes that evicts at random, while `once` other bytes come in each time: of x bytes
/// that come, a line is spared with a probability of exp(-x / capacity). The least share that fits:
/// what comes depends on it.
double kept(double again, double once, double capacity) {
  if (!(capacity > 0)) return 0;
  if (once == 0 && again <= capacity) return 1;
  double share = 0;
  for (int round = 0; round < 1000; ++round)
    share = std::exp(-((1 - share) * again + once) / capacity);
  return share;
}

/// The capacity with which kept() would be `share`.
double capacity_by(double share, double again, double once) {
  return ((1 - share) * again + once) / -std::log(share);
}

/// The L2, in bytes, as the device reports it.
struct Cache {
  double all, set_aside;
};
/// What a launch reads of each array, in bytes.
struct Traffic {
  double hot, stream;
};

/// The model's three constants.
struct Calibrated {
  double memory = NAN;  ///< bytes per millisecond, by the stream alone
  double aside = NAN;   ///< the same while a part of the L2 is set aside
  double held = NAN;    ///< share of the L2 that holds different lines; a half, if each lies twice

  double rate(const Variant& v) const { return v.sets_aside ? aside : memory; }
};

/// Share of the hot reads that the L2 serves. Without a window all of the L2 is for both arrays,
/// set aside or not: what nobody has claimed is open to all. With a window, the lines that are to
/// stay have what was set aside for themselves, and no other line stays. Where the stream's lines
/// are evicted first, all of the L2 is the hot array's.
double predicted_hits(const Variant& v, double share, const Cache& cache, double held) {
  const double hot_bytes = share * cache.set_aside, ratio = v.ratio(share);
  if (ratio > 0) return ratio * kept(ratio * hot_bytes, 0, held * cache.set_aside);
  return kept(hot_bytes, v.stream_goes_first() ? 0 : streamed * hot_bytes, held * cache.all);
}

/// The stream comes from memory, and so does each hot line that is missed.
double predicted_ms(const Traffic& t, double hits, double rate) {
  return (t.stream + (1 - hits) * t.hot) / rate;
}

/// The hits that a time leaves room for, if the memory decides; 0 where it leaves room for none.
double hits_by(const Traffic& t, double ms, double rate) {
  return std::max(0.0, 1 - (ms * rate - t.stream) / t.hot);
}

/// `held` from the time without a window.
double held_by(const Traffic& t, double share, double ms, double rate, const Cache& cache) {
  const double hits = std::clamp(hits_by(t, ms, rate), 0.02, 0.98);
  const double hot_bytes = share * cache.set_aside;
  return std::clamp(capacity_by(hits, hot_bytes, streamed * hot_bytes) / cache.all, 0.25, 1.0);
}

/// That the L2 evicts at random was found on compute capability 9.0 only.
Model model_of(const Device* device) {
  return device && device->prop.major == 9 ? Model::traffic : Model::host;
}

// ---- the experiment ----

constexpr double calibrating = 0.5;  // the share whose row without a window gives `held`
constexpr double MiB = 1 << 20;

/// What is read.
struct Sizes {
  size_t set_aside;            ///< bytes
  unsigned n;                  ///< words of 16 bytes in half of the stream
  std::vector<double> shares;  ///< of hot arrays: their size over that of the set-aside

  unsigned hot_words(double share) const {  // whole requests of a warp
    return unsigned(share * double(set_aside) / 16 / 32) * 32;
  }
  unsigned most_hot_words() const { return shares.empty() ? 0 : hot_words(shares.back()); }
  Traffic traffic() const { return {16.0 * n, 32.0 * n}; }
  bool has(double share) const { return std::ranges::count(shares, share) > 0; }
};

/// Every hot array fits into a window, and is read at least four times.
Sizes sizes_of(const Run& run, size_t set_aside) {
  constexpr double largest = 3;
  size_t bytes = size_t(run.quick ? 2 : 4) << 30;
  while (!beyond_l2(*run.device, double(bytes))) bytes *= 2;
  bytes = fitting_size("the stream", 0, bytes, run.memory_there(), [&](size_t stream) {
    return 1.05 * double(stream) + largest * double(set_aside);
  });
  Sizes sizes{set_aside, unsigned(bytes / 32), {}};
  const std::vector<double> all =
      run.quick  ? std::vector<double>{0.5, 1, 2}
      : run.full ? std::vector<double>{0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75, 2, 2.5, 3}
                 : std::vector<double>{0.25, 0.5, 1, 2, largest};
  for (const double share : all) {
    const unsigned words = sizes.hot_words(share);
    if (words > 0 && 16.0 * words <= run.device->prop.accessPolicyMaxWindowSize &&
        sizes.n / 4 >= words)
      sizes.shares.push_back(share);
  }
  return sizes;
}

/// Blocks that are resident at the same time; the first kernel takes most registers.
Grid resident_grid_of_both(const Device& device) {
  int each = 0;
  CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, read_hot_and_stream,
                                                           int(block_threads), 0));
  return {unsigned(device.prop.multiProcessorCount) * unsigned(std::max(each, 1))};
}

/// Calibrates the memory's rate, with and without a part of the L2 set aside.
template <class MakeArrays>
Calibrated measure_stream(const Run& run, const Sizes& sizes, MakeArrays& arrays) {
  Sheet sheet(
      run, "stream",
      {milliseconds(3), spread(), in_unit(measured("GB/s", "bandwidth", "GB/s", 0), gbs_of)});
  const double bytes = sizes.traffic().stream;
  sheet.add({.ref = stream_alone, .words = "the stream alone", .bytes = bytes, .calibrates = true});
  sheet.add({.ref = stream_alone_aside,
             .words = "the stream alone, set aside",
             .bytes = bytes,
             .calibrates = true});
  sheet.measure(Timing::alone,
                [&](const Row& row) { return stream_task(arrays(), row.ref, sizes.set_aside); });
  sheet.print();
  return {bytes / sheet.ms(stream_alone), bytes / sheet.ms(stream_alone_aside)};
}

/// A column of numbers that are not saved.
Column shown_with(std::string heading, int decimals) {
  Column column = shown(std::move(heading));
  column.decimals = decimals;
  return column;
}

/// One hot array, read in all ways. Gives `c.held` if its row calibrates.
template <class MakeArrays>
void measure_share(const Run& run, const Sizes& sizes, double share, const Cache& cache,
                   Calibrated& c, MakeArrays& arrays) {
  const Traffic traffic = sizes.traffic();
  const auto rate = [&](const Row& row) { return c.rate(*with_key(variants, row.ref)); };
  const auto hits = [&](const Row& row) {
    return predicted_hits(*with_key(variants, row.ref), share, cache, c.held);
  };
  const auto hits_by_time = [&](const Row& row, double ms) {
    return hits_by(traffic, ms, rate(row));
  };
  // hits by the time are a difference of times: they are shown, and not saved
  Sheet sheet(run,
              "hot array of " + bytes_text(16.0 * sizes.hot_words(share)) + ", " + fixed(share, 2) +
                  " of the set-aside",
              {milliseconds(3), spread(), number(shown_with("hits predicted", 2), hits),
               in_unit(shown_with("by the time", 2), hits_by_time),
               in_unit(measured("GB/s", "bandwidth", "GB/s", 0), gbs_of)},
              "hot array to set-aside");
  for (const Variant& v : variants) {
    if (v.window == Window::fitting && share <= 1) continue;  // the hitRatio that fits is 1
    sheet.add({.ref = Ref(v.key, share),
               .words = v.words,
               .bytes = traffic.hot + traffic.stream,
               .calibrates = share == calibrating && v.key == "no_window",
               .model = model_of(run.device)});
  }
  sheet.measure(Timing::in_turn, [&](const Row& row) {
    return task_of(arrays(), row.ref, sizes.hot_words(share), sizes.set_aside);
  });
  if (share == calibrating)
    c.held = held_by(traffic, share, sheet.ms(Ref("no_window", share)), c.memory, cache);
  sheet.predict([&](const Row& row) { return predicted_ms(traffic, hits(row), rate(row)); });
  sheet.print();
}

/// What the rows of one share say of each other.
void find_all(const Run& run, double share) {
  const auto pair = [&](const char* slow, const char* fast) {
    find(run, "l2_window", {.slow = Ref(slow, share), .fast = Ref(fast, share)},
         share == 2 ? "a hot array of twice the set-aside, " : "of half the set-aside, ");
  };
  pair("no_window", "window");
  if (share == 2) return pair("window", "window_fitting");
  pair("no_window", "once_no_window");
  pair("no_window", "once_window");
  pair("aside_no_window", "no_window");
}

void run_l2_window(const Run& run) {
  run.report.begin("l2_window",
                   "a hot array, read again and again, and twice as many bytes of a "
                   "stream");
  const char* const what = "hits and times over the size of a window";
  const std::string why = run.device ? no_window(*run.device) : "no GPU";
  if (!why.empty()) return run.report.left_out(what, why);
  const double aside = ask(run, "set_aside", "size", "MiB", [&run] {
                         return single(double(granted(*run.device)) / MiB);
                       }).median;
  if (!(aside > 0)) return run.report.left_out(what, "the driver sets no L2 aside");
  const Sizes sizes = sizes_of(run, size_t(aside * MiB));
  if (!sizes.has(calibrating)) return run.report.left_out(what, "too little memory is free");
  const Cache cache{double(run.device->l2_bytes()), double(sizes.set_aside)};
  const double largest_window = run.device->prop.accessPolicyMaxWindowSize;
  keep(run, "l2", "size", "MiB", single(cache.all / MiB));
  keep(run, "largest_window", "size", "MiB", single(largest_window / MiB));
  run.report.note("a stream of " + bytes_text(sizes.traffic().stream) + "; L2 " +
                  bytes_text(cache.all) + ", set aside " + bytes_text(cache.set_aside) +
                  "; a window has at most " + bytes_text(largest_window));

  SharedByTasks arrays(
      [&] { return Arrays(sizes.most_hot_words(), sizes.n, resident_grid_of_both(*run.device)); });
  Calibrated c = measure_stream(run, sizes, arrays);
  std::vector<double> shares{calibrating};  // first, as the others take a constant from it
  for (const double share : sizes.shares)
    if (share != calibrating) shares.push_back(share);
  for (const double share : shares) measure_share(run, sizes, share, cache, c, arrays);
  run.report.note(
      "the model: lines are evicted at random; in what was set aside only by lines that");
  run.report.note("are to stay. A share of " + fixed(c.held, 2) +
                  " of the L2 holds different lines");
  run.report.note("hits by the time: of the bytes that the memory had time for");
  for (const double share : {calibrating, 2.0})
    if (sizes.has(share)) find_all(run, share);
}

// ---- what it declares ----

Needs needs(const Run& run) {
  const Device& device = *run.device;
  if (!no_window(device).empty()) return {.allocated = 1};
  const Sizes sizes = sizes_of(run, size_t(device.prop.persistingL2CacheMaxSize));
  const double threads =
      double(device.prop.multiProcessorCount) * device.prop.maxThreadsPerMultiProcessor;
  const double stream = sizes.traffic().stream;
  return {.allocated = stream + 16.0 * sizes.most_hot_words() + 8 * threads, .touched = stream};
}

std::vector<Checked> tasks(size_t n) {
  const Device device = Device::current();
  const bool windows = no_window(device).empty() && granted(device) > 0;
  std::vector<Checked> all;
  const auto add = [&](const auto& make) {
    const Shared x(Arrays(1009, unsigned(n), Grid{3}));
    all.push_back({.task = make(x), .elements = x->stream.grid.threads(), .change_one = [x] {
                     x->stream.change_one();
                   }});
  };
  add([](const Shared<Arrays>& x) { return stream_task(x, stream_alone, 0); });
  for (const Variant& v : variants) {
    if (v.sets_aside && !windows) continue;
    add([&](const Shared<Arrays>& x) {
      return task_of(x, Ref(v.key, 2), 1009, size_t(device.prop.persistingL2CacheMaxSize));
    });
  }
  return all;
}

}  // namespace

extern const Experiment l2_window_experiment{
    .name = "l2_window",
    .about = "an array that is to stay in the L2 while a stream is read once",
    .run = run_l2_window,
    .needs = needs,
    .tasks = tasks};
