// in_flight: the wiki asks for "sufficient concurrent memory operations to hide memory latency"
// [LC 3.5]. Little's law says how many are sufficient: bytes in flight = bandwidth x latency. A
// chase of one load after another measures the latency. In the other kernels all threads are
// resident, and each waits for its words before it asks for the next ones: so the bytes in flight
// are known, and the kernels measure the rate that so many bytes give.
// Two things to look at:
//   - The rates of one load per thread. With equal bytes in flight, words of 4, 8 and 16 bytes give
//     nearly the same rate. It grows with the bytes in flight, until the memory is the limit.
//   - read4x4 and read16x2. A thread waits for several loads together. Does the same number of
//   bytes
//     give the same rate?
//
//   cmake -S 04_bandwidth -B build/in_flight -DEXPERIMENTS=in_flight
//   cmake --build build/in_flight && build/in_flight/04_bandwidth
//
//   1  read4     one word of 4 bytes per thread in flight
//   2  read8     one word of 8 bytes
//   3  read16    one word of 16 bytes
//   4  read4x4   four words of 4 bytes
//   5  read16x2  two words of 16 bytes
//   6  chase     one thread, one load after another
#include "../framework/common/checked.cuh"
#include "../framework/common/experiment.hpp"

using namespace samples;

namespace {

// ---- kernels: thread t adds up the words t, t + threads, t + 2 threads ... of n, into out[t] ----

// [read4]
// A thread has one word in flight: it waits for the word before it asks for the next one. A warp
// asks for 32 neighbours, 4 sectors of 32 bytes.
__global__ void read4(unsigned* out, const unsigned* in, size_t n) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  unsigned sum = 0;
#pragma unroll 1  // else the compiler would put the words of several turns in flight
  for (size_t i = tid; i < n; i += threads) sum += in[i];
  out[tid] = sum;
}
// [/read4]

// The same in words of 8 bytes: 8 sectors per request of a warp.
__global__ void read8(unsigned* out, const uint2* in, size_t n) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  unsigned sum = 0;
#pragma unroll 1
  for (size_t i = tid; i < n; i += threads) {
    const uint2 word = in[i];
    sum += word.x + word.y;
  }
  out[tid] = sum;
}

// The same in words of 16 bytes: 16 sectors per request.
__global__ void read16(unsigned* out, const uint4* in, size_t n) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  unsigned sum = 0;
#pragma unroll 1
  for (size_t i = tid; i < n; i += threads) {
    const uint4 word = in[i];
    sum += word.x + word.y + word.z + word.w;
  }
  out[tid] = sum;
}

// [read4x4]
// A thread asks for four words, and waits for all of them before it asks for the next four.
__global__ void read4x4(unsigned* out, const unsigned* in, size_t n) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  unsigned sum = 0;
  size_t i = tid;
#pragma unroll 1
  for (; i + 3 * threads < n; i += 4 * threads) {
    const unsigned a = in[i];
    const unsigned b = in[i + threads];
    const unsigned c = in[i + 2 * threads];
    const unsigned d = in[i + 3 * threads];
    sum += a + b + c + d;
  }
#pragma unroll 1
  for (; i < n; i += threads) sum += in[i];  // the remaining words, one at a time
  out[tid] = sum;
}
// [/read4x4]

// Two words of 16 bytes at a time.
__global__ void read16x2(unsigned* out, const uint4* in, size_t n) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  unsigned sum = 0;
  size_t i = tid;
#pragma unroll 1
  for (; i + threads < n; i += 2 * threads) {
    const uint4 a = in[i];
    const uint4 b = in[i + threads];
    sum += (a.x + a.y + a.z + a.w) + (b.x + b.y + b.z + b.w);
  }
  if (i < n) {  // the remaining word
    const uint4 a = in[i];
    sum += a.x + a.y + a.z + a.w;
  }
  out[tid] = sum;
}

// [chase]
// One thread. Each word says where the next one is, so no two loads overlap.
__global__ void chase(unsigned* at, const unsigned* ring, unsigned loads) {
  unsigned word = *at;
  for (unsigned k = 0; k < loads; ++k) word = ring[word];
  *at = word;
}
// [/chase]

// ---- what is right ----

struct WordAt {
  __host__ __device__ unsigned operator()(size_t i) const { return scrambled(i); }
};
/// What remains of correct sums; behind those of the launch's threads the poison must still stand.
struct Remains {
  unsigned threads;
  __device__ bool operator()(size_t thread, unsigned left) const {
    return left == (thread < threads ? 0 : ~0u);
  }
};

/// Takes each of n words of 4 bytes away from the sum of the thread that must have read it. A load
/// has `wide` of them, and loads go round the threads. Correct sums end at zero.
__global__ void take_away(unsigned* sums, unsigned threads, unsigned wide, size_t n) {
  const size_t step = size_t(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += step)
    atomicSub(&sums[i / wide % threads], WordAt{}(i));
}

// ---- the rows ----

struct Grid {
  unsigned blocks, threads;
  unsigned total() const { return blocks * threads; }
};

/// What a thread has in flight.
struct Load {
  std::string_view key = {};
  const char* words = "";
  unsigned at_once = 1;     ///< words
  unsigned word_bytes = 4;  ///< of each
  void (*launch)(Grid, unsigned* out, const unsigned* in, size_t bytes) = nullptr;

  unsigned bytes() const { return at_once * word_bytes; }
};
template <auto kernel, class Word>
Load named(Load load) {
  load.key = name_of<kernel>();
  load.word_bytes = sizeof(Word);
  load.launch = [](Grid grid, unsigned* out, const unsigned* in, size_t bytes) {
    kernel<<<grid.blocks, grid.threads>>>(out, reinterpret_cast<const Word*>(in),
                                          bytes / sizeof(Word));
  };
  return load;
}
const Load loads[] = {named<read4, unsigned>({.words = "4 bytes"}),
                      named<read8, uint2>({.words = "8 bytes"}),
                      named<read16, uint4>({.words = "16 bytes"}),
                      named<read4x4, unsigned>({.words = "4 x 4 bytes", .at_once = 4}),
                      named<read16x2, uint4>({.words = "2 x 16 bytes", .at_once = 2})};

/// Numbers of threads on a multiprocessor, up to all that fit.
std::vector<unsigned> residents(unsigned most, bool full) {
  std::vector<unsigned> all;
  for (unsigned threads = full ? 32 : 128; threads < most; threads *= 2) {
    all.push_back(threads);
    const unsigned between = threads / 2 * 3;
    if (full && threads >= 128 && between < most) all.push_back(between);
  }
  all.push_back(most);
  return all;
}

/// So many threads on every multiprocessor, as one block or, beyond 1024, as two.
Grid grid_of(unsigned resident, unsigned multiprocessors) {
  const unsigned blocks = resident > 1024 ? 2 : 1;
  return {blocks * multiprocessors, resident / blocks};
}

/// What all rows read, and the sums of their threads.
struct Memory {
  DeviceBuffer<unsigned> in;
  Output<unsigned> sums, left;

  Memory(size_t bytes, unsigned threads)
      : in(filled<unsigned>(bytes / 4, WordAt{})), sums(threads), left(threads) {}

  /// Threads whose sum is not that of their words, and whatever was written behind the sums.
  size_t wrong(const Load& load, unsigned threads, size_t bytes) {
    const size_t with_canaries = sums.size() + Output<unsigned>::canaries;
    CUDA_CHECK(cudaMemcpyAsync(left.data(), sums.data(), with_canaries * sizeof(unsigned),
                               cudaMemcpyDeviceToDevice));
    const size_t words = bytes / load.word_bytes * load.word_bytes / 4;
    take_away<<<1024, 256>>>(left.data(), threads, load.word_bytes / 4, words);
    CUDA_CHECK_LAUNCH();
    return left.wrong(Remains{threads});
  }
};

/// Reads `bytes` of the memory. The sums are those of the grid's threads.
Task task_of(const Shared<Memory>& memory, const Ref& ref, Grid grid, size_t bytes) {
  const Load& load = *with_key(loads, ref);
  const auto launch = [=, &load] {
    load.launch(grid, memory->sums.data(), memory->in.data(), bytes);
  };
  const auto poison = [memory] { memory->sums.poison(); };
  const auto wrong = [=, &load] { return memory->wrong(load, grid.total(), bytes); };
  return {text(ref), launch, {poison, wrong, ""}};
}

// ---- latency: a ring of slots all over the memory ----

constexpr unsigned slot_words = 64;  // 256 bytes: no load finds what came with another
constexpr unsigned chased = 4096;    // loads of a launch, which take about 1.4 ms

/// The slot after `slot` in a ring of 2^k slots: a generator of full period (factor 4 m + 1, odd
/// addend), which visits each slot once.
__host__ __device__ unsigned next_slot(unsigned slot, unsigned slots) {
  return (slot * 1664525u + 1013904223u) & (slots - 1);
}

__global__ void fill_ring(unsigned* ring, unsigned slots) {
  for (unsigned s = blockIdx.x * blockDim.x + threadIdx.x; s < slots; s += gridDim.x * blockDim.x)
    ring[size_t(s) * slot_words] = next_slot(s, slots) * slot_words;
}

/// The ring, and where the chase stands in it. Each launch goes on where the launch before ended,
/// so that the next words are in no cache.
struct Ring {
  unsigned slots;
  DeviceBuffer<unsigned> words;
  DeviceBuffer<unsigned> at{1};
  unsigned from = 0;  ///< where the launch that is checked began

  /// `bytes`: a power of two.
  explicit Ring(size_t bytes) : slots(unsigned(bytes / 4 / slot_words)), words(bytes / 4) {
    fill_ring<<<1024, 256>>>(words.data(), slots);
    CUDA_CHECK_LAUNCH();
    at.copy_from({0});
    // as much again is written elsewhere, which drives the ring out of the L2
    (void)filled<unsigned>(bytes / 4, WordAt{});
  }
  /// The word at which a chase from `from` must end.
  unsigned end() const {
    unsigned slot = from / slot_words;
    for (unsigned k = 0; k < chased; ++k) slot = next_slot(slot, slots);
    return slot * slot_words;
  }
};

Task chase_task(const Shared<Ring>& ring) {
  const auto launch = [ring] { chase<<<1, 1>>>(ring->at.data(), ring->words.data(), chased); };
  const auto poison = [ring] { ring->from = ring->at.to_host()[0]; };  // to stay there is wrong
  const auto wrong = [ring] { return size_t(ring->at.to_host()[0] != ring->end()); };
  return {std::string(name_of<chase>()), launch, {poison, wrong, ""}};
}

// ---- prediction ----

/// Little's law: the rate in GB/s (bytes per nanosecond) if `bytes` are in flight, and come after
/// `ns`.
double little_gbs(double bytes, double ns) { return bytes / ns; }

/// Measured in the same run.
struct Calibrated {
  double latency_ns = NAN;  ///< of a load while nothing else runs
  double memory_gbs = NAN;  ///< with the most bytes in flight
};

/// The time after which `bytes` in flight have come. It is at least the latency of a load, and at
/// least the time that the memory needs to deliver the bytes. The root of the sum of their squares
/// was chosen because it fits the rows of an H200. It lies between the longer of the two times (if
/// the loads come evenly) and their sum (if all loads come at once). The model leaves out that a
/// thread with several loads waits for the last of them.
double predicted_gbs(double bytes, const Calibrated& c) {
  return little_gbs(bytes, std::hypot(c.latency_ns, bytes / c.memory_gbs));
}

/// Which of the two limits the model rests on, for the test that holds rows to it.
Model model_of(const Run& run, size_t in_flight, double latency_ns) {
  const double theoretical = run.device ? run.device->theoretical_gbs : 0;
  return double(in_flight) < latency_ns * theoretical ? Model::latency : Model::traffic;
}

// ---- the experiment ----

unsigned multiprocessors(const Run& run) {
  return run.device ? unsigned(run.device->prop.multiProcessorCount) : 0;
}
/// Without a GPU: as many as most GPUs have.
unsigned most_threads(const Run& run) {
  return run.device ? unsigned(run.device->prop.maxThreadsPerMultiProcessor) : 2048;
}

double bytes_per_sm(const Row& row) { return with_key(loads, row.ref)->bytes() * row.ref.at; }

/// Bytes beyond the L2, where so many `copies` of them fit.
size_t bytes_beyond_l2(const Run& run, size_t bytes, double copies) {
  while (run.device && !beyond_l2(*run.device, double(bytes))) bytes *= 2;
  return fitting_size("in_flight", 0, bytes, run.memory_there(),
                      [copies](size_t n) { return copies * double(n); });
}
size_t memory_bytes(const Run& run) {
  return bytes_beyond_l2(run, size_t(1) << (run.quick ? 28 : 30), 1.1);
}
/// A power of two.
size_t ring_bytes(const Run& run) { return bytes_beyond_l2(run, size_t(1) << 27, 2); }

/// Nanoseconds of a load that nothing else delays, measured.
double measure_latency(const Run& run) {
  const auto ns = [](const Row&, double ms) { return ms * 1e6 / chased; };
  const auto cycles = [&run, ns](const Row& row, double ms) {
    const double khz = run.device ? run.device->sm_clock_khz : 0;
    return khz > 0 ? ns(row, ms) * 1e-6 * khz : double(NAN);
  };
  Sheet sheet(run, "latency",
              {in_unit(compared("ns", "latency", "ns", 0), ns), spread(),
               in_unit(measured("cycles", "latency in SM cycles", "cycles", 0), cycles)});
  const Ref key(name_of<chase>());
  sheet.add(
      {.ref = key, .words = "one load after another", .calibrates = true, .model = Model::latency});
  sheet.measure(Timing::alone,
                [&](const Row&) { return chase_task(Shared(Ring(ring_bytes(run)))); });
  sheet.print({"cycles: ns x the SM clock that the driver reports"});
  return ns({}, sheet.ms(key));
}

void run_in_flight(const Run& run) {
  const size_t bytes = memory_bytes(run);
  const unsigned sms = multiprocessors(run), most = most_threads(run);
  run.report.begin("in_flight",
                   bytes_text(double(bytes)) + " read by grids that are resident as a whole");
  Calibrated c{.latency_ns = measure_latency(run)};

  const Ref fullest(std::end(loads)[-1].key, most);
  const auto in_flight = [sms](const Row& row) { return sms ? bytes_per_sm(row) * sms : NAN; };
  Sheet sheet(run, "loads of a thread, threads per SM",
              {number(predicted("KiB/SM", "bytes in flight per SM", "KiB", 1),
                      [](const Row& row) { return bytes_per_sm(row) / 1024; }),
               number(saved_only(predicted("KiB in flight", "bytes in flight", "KiB", 0)),
                      [&](const Row& row) { return in_flight(row) / 1024; }),
               in_unit(compared("GB/s", "rate", "GB/s", 0), gbs_of), spread(),
               number(saved_only(predicted("Little", "rate by latency", "GB/s", 0)),
                      [&](const Row& row) {
                        return std::min(little_gbs(in_flight(row), c.latency_ns), c.memory_gbs);
                      }),
               in_unit(measured("ns", "latency", "ns", 0),
                       [&](const Row& row, double ms) { return in_flight(row) / gbs_of(row, ms); }),
               share_against(run, fullest, "of the most"), bar_against(run, fullest)},
              "threads");
  for (const Load& load : loads)
    for (const unsigned resident : residents(most, run.full)) {
      const Ref ref(load.key, resident);
      const size_t at_once = size_t(load.bytes()) * resident * std::max(sms, 1u);
      sheet.add({.ref = ref,
                 .words = std::string(load.words) + ", " + at_text(ref),
                 .bytes = double(bytes - bytes % at_once),  // all threads load equally often
                 .calibrates = same(ref, fullest),
                 .model = model_of(run, at_once, c.latency_ns)});
    }
  SharedByTasks memory([=] { return Memory(bytes, most * sms); });
  sheet.measure(Timing::in_turn, [&](const Row& row) {
    return task_of(memory(), row.ref, grid_of(unsigned(row.ref.at), sms), size_t(row.bytes));
  });
  const Measured& densest = (*run.results)(fullest);
  c.memory_gbs = densest.bytes * 1e-6 / densest.time.ms.median;
  sheet.predict([&](const Row& row) { return row.bytes * 1e-6 / predicted_gbs(in_flight(row), c); },
                Basis::fitted);
  sheet.print({"ns: bytes in flight / rate, the time after which a load's word has come.",
               "The model: the root of latency^2 + (bytes in flight / most GB/s)^2"});
  if (run.device && !beyond_l2(*run.device, double(bytes)))
    run.report.note("the memory that is read is less than four times the L2: rates of the cache");
  const double enough = c.memory_gbs * c.latency_ns;
  if (std::isfinite(enough))
    run.report.note("the most GB/s x the latency of the chase: " + fixed(enough / 1024, 0) +
                    " KiB in flight, " + fixed(enough / 1024 / sms, 1) + " KiB per SM");
}

// ---- what it declares ----

Needs needs(const Run& run) {
  const double read = double(memory_bytes(run)), ring = double(ring_bytes(run));
  const double sums = 8.0 * most_threads(run) * multiprocessors(run);
  return {.allocated = std::max(read + sums, 2 * ring), .touched = std::min(read, ring)};
}

/// n words, read by grids that they do not fill or fill many times.
std::vector<Checked> tasks(size_t n) {
  std::vector<Checked> all;
  for (const Load& load : loads)
    for (const Grid grid : {Grid{1, 96}, Grid{3, 33}, Grid{7, 1024}}) {
      const Shared memory(Memory(4 * n, grid.total()));
      all.push_back({.task = task_of(memory, Ref(load.key, grid.threads), grid, 4 * n),
                     .elements = grid.total(),
                     .change_one = [memory] { memory->sums.change(5); }});
    }
  const Shared ring(Ring(size_t(1) << 24));  // of more slots than the chase visits
  all.push_back({.task = chase_task(ring), .elements = 1, .change_one = [ring] {
                   ring->at.copy_from({ring->end() + 1});
                 }});
  return all;
}

}  // namespace

extern const Experiment in_flight_experiment{
    .name = "in_flight",
    .about = "bandwidth over the bytes that are in flight, and Little's law",
    .run = run_in_flight,
    .needs = needs,
    .tasks = tasks};
