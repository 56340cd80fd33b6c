// l2_window: an array that is read again and again while a stream passes by. The stream's lines
// push the array's out of the L2, though nobody wants them again. From compute capability 8.0 on a
// part of the L2 can be set aside, and a window says which lines are to stay there. Is that faster?
// Look at what setting aside costs by itself, at what becomes of a window that is larger than what
// was set aside, and at kernel 2, which needs neither: it tells of the stream's loads, not of the
// array, that they are wanted once.
//   cmake -S 03_access_patterns -B build/l2_window -DEXPERIMENTS=l2_window
//   cmake --build build/l2_window && build/l2_window/03_access_patterns
//
//   1  read_hot_and_stream       a word of the hot array and two of the stream in turn
//   2  read_hot_and_stream_once  the same, the stream by __ldcs: its lines leave the L2 first
//   3  read_stream               the stream alone
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "reads.cuh"

void l2_window(const Run& run);

namespace {

// ---- kernels: thread t adds up what it reads in words of 16 bytes, into sums[t] ----

// [read_hot_and_stream]
// At each step a warp reads 512 bytes of the hot array, which begins again at its end, and 512 of
// each half of the stream, which nobody reads twice. n: words of a half.
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

// The same, but the stream's loads say that their lines are wanted once: the L2 gives these up
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

// ---- the window ----

using Kernel = void (*)(unsigned* sums, const uint4* hot, unsigned hot_words, const uint4* stream,
                        unsigned n);

/// Sets bytes of the L2 aside while it lives. What is to stay there stays after the kernel has
/// ended, and would change all later timings: so at the end, be it by an exception, all lines
/// become ordinary again, and the limit is what it was.
class SetAside {
 public:
  explicit SetAside(size_t bytes) {
    CUDA_CHECK(cudaDeviceGetLimit(&before_, cudaLimitPersistingL2CacheSize));
    CUDA_CHECK(cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, bytes));
  }
  SetAside(const SetAside&) = delete;
  SetAside& operator=(const SetAside&) = delete;
  ~SetAside() {
    (void)cudaDeviceSynchronize();  // no kernel is under way that would bring lines to stay
    (void)cudaCtxResetPersistingL2Cache();
    (void)cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, before_);
  }

  static size_t limit() {
    size_t bytes = 0;
    CUDA_CHECK(cudaDeviceGetLimit(&bytes, cudaLimitPersistingL2CacheSize));
    return bytes;
  }

 private:
  size_t before_ = 0;
};

// [window]
/// A launch with a window of its own, which no other launch has: `ratio` of the hot array's lines
/// are to stay in what was set aside; the others go first when room is needed.
void launch_with_window(Kernel kernel, float ratio, unsigned blocks, unsigned* sums,
                        const uint4* hot, unsigned hot_words, const uint4* stream, unsigned n,
                        cudaStream_t in) {
  cudaLaunchAttribute window{};
  window.id = cudaLaunchAttributeAccessPolicyWindow;
  window.val.accessPolicyWindow.base_ptr = const_cast<uint4*>(hot);
  window.val.accessPolicyWindow.num_bytes = hot_words * sizeof(uint4);
  window.val.accessPolicyWindow.hitRatio = ratio;
  window.val.accessPolicyWindow.hitProp = cudaAccessPropertyPersisting;
  window.val.accessPolicyWindow.missProp = cudaAccessPropertyStreaming;

  cudaLaunchConfig_t launch{};
  launch.gridDim = dim3(blocks);
  launch.blockDim = dim3(block_threads);
  launch.stream = in;
  launch.attrs = &window;
  launch.numAttrs = 1;
  CUDA_CHECK(cudaLaunchKernelEx(&launch, kernel, sums, hot, hot_words, stream, n));
}
// [/window]

/// Why no window can be had here; empty if one can.
std::string no_window(const Device& device) {
  if (device.prop.major < 8) return "windows need compute capability 8.0";
  if (device.prop.persistingL2CacheMaxSize <= 0)
    return "no part of the L2 can be set aside here (persistingL2CacheMaxSize is 0)";
  return "";
}

// ---- what is right ----

/// 4-byte word i of the hot array; the stream's are word_at(i).
__host__ __device__ unsigned hot_word_at(size_t i) { return word_at(i) ^ 0x5bd1e995u; }

__global__ void fill_hot_words(unsigned* words, size_t n) {
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += threads)
    words[i] = hot_word_at(i);
}

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
    for (unsigned k = 0; k < 4; ++k) sum += hot_word_at(4 * w + k);
    for (size_t turn = w; turn < n; turn += hot_words) atomicSub(&sums[turn % threads], sum);
  }
}

/// How the hot array is read beside the stream.
struct Way {
  const char* name;
  Kernel kernel;
  bool sets_aside;
  double ratio;  ///< of the window's lines that are to stay; 0: no window
};
constexpr Way no_way{"no window", read_hot_and_stream, false, 0};
constexpr Way aside_way{"set aside, no window", read_hot_and_stream, true, 0};
constexpr Way whole_way{"window, hitRatio 1", read_hot_and_stream, true, 1};
constexpr Way once_way{"no window, stream once", read_hot_and_stream_once, false, 0};
constexpr Way once_window{"window, stream once", read_hot_and_stream_once, true, 1};
Way fitting_way(double share) {
  return {"window, hitRatio to fit", read_hot_and_stream, true, 1 / share};
}

/// Both arrays on the device, and the sum that each thread writes, behind which canaries stand.
struct Arrays {
  static constexpr size_t canaries = 64;

  unsigned n;  ///< words of 16 bytes in half of the stream
  unsigned blocks;
  DeviceBuffer<unsigned> hot, stream, sums, left;
  DeviceBuffer<unsigned long long> wrong_sums{1};

  /// `most_hot`: words of 16 bytes of the largest hot array.
  Arrays(unsigned most_hot, unsigned n, unsigned blocks)
      : n(n),
        blocks(blocks),
        hot(size_t(most_hot) * 4),
        stream(size_t(n) * 8),
        sums(threads() + canaries),
        left(threads()) {
    fill_hot_words<<<1024, 256>>>(hot.data(), hot.size());
    samples::fill_kernel<<<1024, 256>>>(stream.data(), stream.size(), WordAt{});
    CUDA_CHECK_LAUNCH();
  }
  unsigned threads() const { return blocks * block_threads; }
  const uint4* hot_data() const { return reinterpret_cast<const uint4*>(hot.data()); }
  const uint4* stream_data() const { return reinterpret_cast<const uint4*>(stream.data()); }

  /// Sums that are not those of the words that must have been read; 0 hot words: none.
  size_t wrong(unsigned hot_words, bool streams) {
    CUDA_CHECK(cudaMemcpyAsync(left.data(), sums.data(), left.bytes(), cudaMemcpyDeviceToDevice));
    if (streams) take_away_stream<<<4096, 256>>>(left.data(), threads(), n);
    if (hot_words) take_away_hot<<<4096, 256>>>(left.data(), threads(), hot_words, n);
    CUDA_CHECK_LAUNCH();
    wrong_sums.copy_from({0});
    samples::count_wrong_kernel<<<256, 256>>>(left.data(), threads(), IsZero{}, wrong_sums.data());
    CUDA_CHECK_LAUNCH();
    return wrong_sums.to_host()[0];
  }
  Task task(std::string name, Function<void()> launch, unsigned hot_words, bool streams) {
    Check check;
    check.poison = [this] { sums.poison(); };
    check.wrong = [this, hot_words, streams] { return wrong(hot_words, streams); };
    return {std::move(name), std::move(launch), std::move(check)};
  }
  Task both(const Way& way, unsigned hot_words) {
    const auto plain = [this, hot_words, kernel = way.kernel] {
      kernel<<<blocks, block_threads>>>(sums.data(), hot_data(), hot_words, stream_data(), n);
    };
    const auto in_window = [this, hot_words, way] {
      launch_with_window(way.kernel, float(way.ratio), blocks, sums.data(), hot_data(), hot_words,
                         stream_data(), n, nullptr);
    };
    if (way.ratio > 0) return task(way.name, in_window, hot_words, true);
    return task(way.name, plain, hot_words, true);
  }
  Task stream_alone() {
    const auto launch = [this] {
      read_stream<<<blocks, block_threads>>>(sums.data(), stream_data(), n);
    };
    return task("the stream alone", launch, 0, true);
  }
};

/// Blocks of the first kernel, which takes most registers, that are resident at once.
unsigned resident_blocks_of_both(const Device& device) {
  int each = 0;
  CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, read_hot_and_stream,
                                                           int(block_threads), 0));
  return unsigned(device.prop.multiProcessorCount) * unsigned(std::max(each, 1));
}

// ---- what to expect ----

constexpr double streamed = 2;  // words of the stream that pass by for each hot one

/// Share of its lines that an array of `again` bytes, read over and over, finds in a cache of
/// `capacity` bytes that evicts at random, while `once` other bytes come in each time round: of x
/// bytes that come, a line is spared with a probability of exp(-x / capacity). The least share that
/// fits: what comes depends on it.
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

/// The model's three constants.
struct Calibrated {
  double memory = NAN;  ///< bytes a millisecond, by the stream alone
  double aside = NAN;   ///< the same while a part of the L2 is set aside
  double held = NAN;    ///< share of a cache that holds different lines; a half, if each lies twice
};

/// Share of the hot reads that the L2 serves. Without a window all of it is for both arrays, set
/// aside or not, as what nobody has claimed is open to all. With a window, the lines that are to
/// stay have what was set aside for themselves, and no other stays. Where the stream's lines go
/// first, all of the L2 is the hot array's.
double predicted_hits(const Way& way, double hot_bytes, const Cache& cache, double held) {
  if (way.ratio > 0) return way.ratio * kept(way.ratio * hot_bytes, 0, held * cache.set_aside);
  const bool stream_goes_first = way.kernel == read_hot_and_stream_once;
  const double passes = stream_goes_first ? 0 : streamed * hot_bytes;
  return kept(hot_bytes, passes, held * cache.all);
}

/// What a launch reads of each array, in bytes.
struct Traffic {
  double hot, stream;
};

/// Bytes a millisecond that memory brings.
double rate_of(const Way& way, const Calibrated& c) { return way.sets_aside ? c.aside : c.memory; }

/// The stream comes from memory, and what is missed.
double predicted_ms(const Traffic& t, double hits, double rate) {
  return (t.stream + (1 - hits) * t.hot) / rate;
}

/// The hits that a time leaves room for, if it is memory that decides.
double hits_by(const Traffic& t, double ms, double rate) {
  return 1 - (ms * rate - t.stream) / t.hot;
}
Statistics hits_by(const Traffic& t, const Statistics& ms, double rate) {
  return {hits_by(t, ms.median, rate), hits_by(t, ms.high, rate), hits_by(t, ms.low, rate),
          ms.repeats};
}

/// `held` from the time without a window of a hot array of so many bytes.
double held_by(const Traffic& t, double hot_bytes, double ms, double rate, const Cache& cache) {
  const double hits = std::clamp(hits_by(t, ms, rate), 0.02, 0.98);
  const double capacity = capacity_by(hits, hot_bytes, streamed * hot_bytes);
  return std::clamp(capacity / cache.all, 0.25, 1.0);
}

/// That the L2 evicts at random was found on compute capability 9.0 only.
Model model_of(const Device& device) {
  return device.prop.major == 9 ? Model::traffic : Model::host;
}

// ---- the experiment ----

constexpr double calibrating = 0.5;  // the share without a window that gives `held`

/// What is read: the set-aside's bytes, and for each share of it a hot array.
struct Sizes {
  size_t set_aside;
  unsigned n;                  ///< words of 16 bytes in half of the stream
  std::vector<double> shares;  ///< hot array to set-aside

  /// Whole requests of a warp.
  unsigned hot_words(double share) const {
    return unsigned(share * double(set_aside) / 16 / 32) * 32;
  }
  double hot_bytes(double share) const { return 16.0 * hot_words(share); }
  unsigned most_hot() const { return shares.empty() ? 0 : hot_words(shares.back()); }
  Traffic traffic() const { return {16.0 * n, 32.0 * n}; }
};

/// `set_aside`: bytes. Every hot array fits into a window, and comes round at least four times.
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
  for (const double share : all)
    if (sizes.hot_bytes(share) <= double(run.device->prop.accessPolicyMaxWindowSize) &&
        sizes.n / 4 >= sizes.hot_words(share) && sizes.hot_words(share) > 0)
      sizes.shares.push_back(share);
  return sizes;
}

/// The hitRatio that fits is 1 up to the set-aside.
std::vector<Way> ways_of(double share) {
  std::vector<Way> ways{no_way, aside_way, whole_way};
  if (share > 1) ways.push_back(fitting_way(share));
  ways.push_back(once_way);
  ways.push_back(once_window);
  return ways;
}
size_t index_of(const std::vector<Way>& ways, const Way& wanted) {
  for (size_t w = 0; w < ways.size(); ++w)
    if (std::string(ways[w].name) == wanted.name) return w;
  throw std::logic_error(std::string("l2_window: there is no ") + wanted.name);
}

/// Milliseconds of a launch that finds the L2 as one like it has left it.
double timed_ms(const Task& task) {
  Event first, last;
  task.launch();
  first.record();
  task.launch();
  last.record();
  CUDA_CHECK_LAUNCH();
  last.wait();
  return last.ms_since(first);
}

/// Checks all ways, and times them in turn. L2 is set aside only while a window is measured: lines
/// that one way has left to stay would be hits for the next.
std::vector<Readings> in_turn(const Run& run, Arrays& arrays, const std::vector<Way>& ways,
                              const Sizes& sizes, double share) {
  std::vector<Task> tasks;
  for (const Way& way : ways) tasks.push_back(arrays.both(way, sizes.hot_words(share)));
  const auto bytes_for = [&](size_t w) { return ways[w].sets_aside ? sizes.set_aside : 0; };
  for (size_t w = 0; w < ways.size(); ++w) {
    const SetAside set_aside(bytes_for(w));
    require_right(tasks[w]);
    timed_ms(tasks[w]);  // loads the kernel
  }
  std::vector<Readings> times(ways.size());
  const int rounds = run.measuring.rounds_in_turn();
  for (int r = 0; r < rounds; ++r)
    for (size_t i = 0; i < ways.size(); ++i) {
      const size_t w = r % 2 ? ways.size() - 1 - i : i;
      const SetAside set_aside(bytes_for(w));
      times[w].ms.push_back(timed_ms(tasks[w]));
    }
  return times;
}

struct Measured {
  Readings stream, stream_aside;            ///< alone; alone while a part of the L2 is set aside
  std::vector<std::vector<Readings>> both;  ///< for each share, for each of its ways
};

Measured measure(const Run& run, Arrays& arrays, const Sizes& sizes) {
  Measured taken;
  taken.stream = run.time(arrays.stream_alone());
  {
    const SetAside set_aside(sizes.set_aside);
    taken.stream_aside = run.time(arrays.stream_alone());
  }
  Progress progress("l2_window", int(sizes.shares.size()));
  for (const double share : sizes.shares) {
    taken.both.push_back(in_turn(run, arrays, ways_of(share), sizes, share));
    progress.step();
  }
  return taken;
}

/// Where a share stands among those measured; -1: it was not.
int place_of(const Sizes& sizes, double share) {
  const auto found = std::find(sizes.shares.begin(), sizes.shares.end(), share);
  return found == sizes.shares.end() ? -1 : int(found - sizes.shares.begin());
}

Calibrated calibrate(const Measured& taken, const Sizes& sizes, const Cache& cache) {
  const Traffic traffic = sizes.traffic();
  Calibrated c;
  c.memory = traffic.stream / taken.stream.median();
  c.aside = traffic.stream / taken.stream_aside.median();
  const int place = place_of(sizes, calibrating);
  const double ms = taken.both[size_t(place)][index_of(ways_of(calibrating), no_way)].median();
  c.held = held_by(traffic, sizes.hot_bytes(calibrating), ms, c.memory, cache);
  return c;
}

void show_l2(const Run& run, const Cache& cache, const Calibrated& c) {
  constexpr double MiB = 1 << 20;
  Table table(run.report, "L2",
              {counted("MiB", "size", "MiB", 1), measured("holds", "share that holds", "", 2)});
  table.row({"all of it"}, {cache.all / MiB, c.held});
  table.row({"set aside"}, {cache.set_aside / MiB, Cell()});
  table.row({"a window at most"}, {run.device->prop.accessPolicyMaxWindowSize / MiB, Cell()});
  table.print();
}

void show(const Run& run, const Measured& taken, const Sizes& sizes, const Cache& cache,
          const Calibrated& c) {
  const Traffic traffic = sizes.traffic();
  Table table(run.report, "window, hot array to set-aside",
              {shown("hot"), compared("ms", "time", "ms", 3), shown("spread"),
               compared("hits, by the time", "hit ratio", "", 2),
               measured("GB/s", "bandwidth", "GB/s", 0)});
  const auto alone = [&](const char* name, const Readings& times, double bytes) {
    const Statistics ms = times.statistics();
    table.row({name},
              {"", Calibration{ms}, spread_text(ms), Cell(), gigabytes_per_second(bytes, ms)});
  };
  alone("the stream alone", taken.stream, traffic.stream);
  alone("the stream alone, set aside", taken.stream_aside, traffic.stream);
  for (size_t s = 0; s < sizes.shares.size(); ++s) {
    const double share = sizes.shares[s], hot_bytes = sizes.hot_bytes(share);
    const std::vector<Way> ways = ways_of(share);
    for (size_t w = 0; w < ways.size(); ++w) {
      const Statistics ms = taken.both[s][w].statistics();
      const double rate = rate_of(ways[w], c);
      const Statistics found = hits_by(traffic, ms, rate);
      const double hits = predicted_hits(ways[w], hot_bytes, cache, c.held);
      Cell time = Compared{predicted_ms(traffic, hits, rate), ms, model_of(*run.device)};
      Cell hit_ratio = Compared{hits, found, Model::host};
      if (share == calibrating && w == index_of(ways, no_way)) {
        time = Calibration{ms};
        hit_ratio = Calibration{found};
      }
      table.row({ways[w].name, "hot array to set-aside", fixed(share, 2)},
                {bytes_text(hot_bytes), time, spread_text(ms), hit_ratio,
                 gigabytes_per_second(traffic.stream + traffic.hot, ms)});
    }
  }
  table.print();
  run.report.note("predicted: lines are evicted at random, in what was set aside only by lines");
  run.report.note("that are to stay; hits by the time: of the bytes that memory had time for");
}

/// What was found; nothing where a share was not measured.
void find(const Run& run, const Measured& taken, const Sizes& sizes) {
  const auto say = [&](const std::string& text) { run.report.finding("l2_window", text); };
  const auto compare = [&](double share, const Way& slower, const Way& faster_one) {
    const std::vector<Way> ways = ways_of(share);
    const std::vector<Readings>& times = taken.both[size_t(place_of(sizes, share))];
    return faster(ratio(times[index_of(ways, slower)], times[index_of(ways, faster_one)]));
  };
  if (place_of(sizes, calibrating) >= 0) {
    const std::string half = "a hot array of half the set-aside: ";
    say(half + "with a window " + compare(calibrating, no_way, whole_way) + " than without");
    say(half + "with __ldcs for the stream, and no window, " +
        compare(calibrating, no_way, once_way) + "; with both " +
        compare(calibrating, no_way, once_window));
    say(half + "setting aside alone, for no window, makes it " +
        compare(calibrating, no_way, aside_way));
  }
  if (place_of(sizes, 2) >= 0)
    say("of twice the set-aside: hitRatio 0.5 " + compare(2, whole_way, fitting_way(2)) +
        " than hitRatio 1, which is " + compare(2, no_way, whole_way) + " than no window");
}

/// Bytes that are set aside when all that may be is asked for; 0 where the driver refuses, as where
/// processes share the GPU through MPS.
size_t granted(const Device& device) {
  try {
    const SetAside most(size_t(device.prop.persistingL2CacheMaxSize));
    return SetAside::limit();
  } catch (const CudaError&) {
    (void)cudaGetLastError();
    return 0;
  }
}

/// What the model says of an H200's L2, where nothing can be measured.
void say_model(Report& report) {
  constexpr double MiB = 1 << 20;
  const Cache cache{60 * MiB, 37.5 * MiB};
  const auto hits = [&](const Way& way, double hot_mib) {
    return fixed(100 * predicted_hits(way, hot_mib * MiB, cache, 1), 0) + "%";
  };
  report.note("predicted for an L2 of 60 MiB, 37.5 of them set aside: of the reads of a hot array");
  report.note("of 18.75 MiB " + hits(no_way, 18.75) + " hit without a window, " +
              hits(whole_way, 18.75) + " with one, " + hits(once_way, 18.75) +
              " with __ldcs for the stream; of 75 MiB");
  report.note(hits(no_way, 75) + ", " + hits(whole_way, 75) + " with hitRatio 1, " +
              hits(fitting_way(2), 75) + " with 0.5, " + hits(once_way, 75) + " with __ldcs");
}

}  // namespace

void l2_window(const Run& run) {
  const char* const what = "hits and times over the size of a window";
  const std::string why = run.device ? no_window(*run.device) : "no GPU";
  const size_t set_aside = why.empty() ? granted(*run.device) : 0;
  if (set_aside == 0) {
    run.report.begin("l2_window", "a hot array, read again and again while a stream passes by");
    if (!run.device) say_model(run.report);
    return run.report.left_out(what, why.empty() ? "the driver sets no L2 aside" : why);
  }
  const Sizes sizes = sizes_of(run, set_aside);
  run.report.begin("l2_window", "a stream of " + bytes_text(sizes.traffic().stream) +
                                    ", and half as many bytes of a hot array, again and again");
  if (place_of(sizes, calibrating) < 0)
    return run.report.left_out(what, "too little memory is free");
  const Cache cache{double(run.device->l2_bytes()), double(set_aside)};
  Arrays arrays(sizes.most_hot(), sizes.n, resident_blocks_of_both(*run.device));
  const Measured taken = measure(run, arrays, sizes);
  const Calibrated c = calibrate(taken, sizes, cache);
  show_l2(run, cache, c);
  show(run, taken, sizes, cache, c);
  find(run, taken, sizes);
}
