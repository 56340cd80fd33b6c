// in_flight: the wiki asks for "sufficient concurrent memory operations to hide memory latency"
// [LC 3.5]. Little's law says how many suffice: bytes under way = bandwidth x latency. A chase of
// one load after another measures the latency; kernels whose threads are all resident, and wait for
// their words before they ask for the next, measure the bandwidth that so many bytes under way
// give. Look at how one load a thread lies on one curve, whether of 4, 8 or 16 bytes, and at its
// bend, where the memory takes over from the latency. Then at kernels 4 and 5: do several loads a
// thread, waited for together, lie on the same curve?
//   cmake -S 04_bandwidth -B build/in_flight -DEXPERIMENTS=in_flight
//   cmake --build build/in_flight && build/in_flight/04_bandwidth
//
//   1  read4     one word of 4 bytes a thread under way
//   2  read8     one of 8 bytes
//   3  read16    one of 16 bytes
//   4  read4x4   four of 4 bytes
//   5  read16x2  two of 16 bytes
//   6  chase     one thread, one load after another
#include <algorithm>
#include <cmath>

#include "../common/report.hpp"

namespace {

// ---- kernels: thread t adds up the words t, t + threads, t + 2 threads ... of n, into out[t] ----

// [read4]
// A thread has one word under way: it comes before the thread asks for its next. A warp asks for 32
// neighbours, 4 sectors of 32 bytes.
__global__ void read4(unsigned* out, const unsigned* in, size_t n) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  unsigned sum = 0;
#pragma unroll 1  // else the compiler would put several turns' words under way
  for (size_t i = tid; i < n; i += threads) sum += in[i];
  out[tid] = sum;
}
// [/read4]

// The same in words of 8 bytes: 8 sectors a warp.
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

// The same in words of 16 bytes: 16 sectors a warp.
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
  for (; i < n; i += threads) sum += in[i];  // what is left, one at a time
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
  if (i < n) {  // what is left
    const uint4 a = in[i];
    sum += a.x + a.y + a.z + a.w;
  }
  out[tid] = sum;
}

// [chase]
// One thread. Each word that comes says where the next one is, so that no two loads overlap.
__global__ void chase(unsigned* at, const unsigned* ring, unsigned loads) {
  unsigned word = *at;
  for (unsigned k = 0; k < loads; ++k) word = ring[word];
  *at = word;
}
// [/chase]

// ---- what is right ----

/// Word i: without pattern, so that no two words stand in for two others.
__host__ __device__ unsigned word_at(size_t i) {
  unsigned x = unsigned(i) ^ unsigned(i >> 32) * 0x9e3779b1u;
  x = (x ^ x >> 16) * 0x85ebca6bu;
  x = (x ^ x >> 13) * 0xc2b2ae35u;
  return x ^ x >> 16;
}

__global__ void fill(unsigned* words, size_t n) {
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += threads)
    words[i] = word_at(i);
}

/// Takes each of n 4-byte words away from the sum of the thread that must have read it: with `wide`
/// of them in a load, loads go round the `takers` threads in turn. Nothing is left of right sums.
__global__ void take_away(unsigned* sums, unsigned takers, unsigned wide, size_t n) {
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += threads)
    atomicSub(&sums[i / wide % takers], word_at(i));
}

__global__ void count_wrong(const unsigned* sums, unsigned n, unsigned* wrong) {
  for (unsigned t = blockIdx.x * blockDim.x + threadIdx.x; t < n; t += gridDim.x * blockDim.x)
    if (sums[t] != 0) atomicAdd(wrong, 1u);
}

// ---- the story in order ----

struct Grid {
  unsigned blocks, threads;
  unsigned total() const { return blocks * threads; }
};

/// What a thread has under way at once.
struct Load {
  const char* name;
  unsigned word_bytes, at_once;
  void (*launch)(Grid grid, unsigned* out, const unsigned* in, size_t bytes);
};

const uint2* pairs(const unsigned* in) { return reinterpret_cast<const uint2*>(in); }
const uint4* quads(const unsigned* in) { return reinterpret_cast<const uint4*>(in); }

const Load loads[] = {
    {"4 bytes", 4, 1,
     [](Grid g, unsigned* out, const unsigned* in, size_t bytes) {
       read4<<<g.blocks, g.threads>>>(out, in, bytes / 4);
     }},
    {"8 bytes", 8, 1,
     [](Grid g, unsigned* out, const unsigned* in, size_t bytes) {
       read8<<<g.blocks, g.threads>>>(out, pairs(in), bytes / 8);
     }},
    {"16 bytes", 16, 1,
     [](Grid g, unsigned* out, const unsigned* in, size_t bytes) {
       read16<<<g.blocks, g.threads>>>(out, quads(in), bytes / 16);
     }},
    {"4 x 4 bytes", 4, 4,
     [](Grid g, unsigned* out, const unsigned* in, size_t bytes) {
       read4x4<<<g.blocks, g.threads>>>(out, in, bytes / 4);
     }},
    {"2 x 16 bytes", 16, 2,
     [](Grid g, unsigned* out, const unsigned* in, size_t bytes) {
       read16x2<<<g.blocks, g.threads>>>(out, quads(in), bytes / 16);
     }},
};

/// A row of the table: what is launched, and how much of the memory it reads.
struct Row {
  const Load* load;
  unsigned resident;  ///< threads of a multiprocessor
  Grid grid;
  size_t bytes;  ///< read once, all of them

  double in_flight() const { return double(load->word_bytes) * load->at_once * grid.total(); }
};

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

/// Whole turns of a grid that has `in_flight` bytes under way: at least `enough` bytes, if `there`
/// are so many.
size_t whole_turns(double in_flight, double enough, size_t there) {
  const double turns = std::min(std::ceil(enough / in_flight), std::floor(there / in_flight));
  return size_t(std::max(turns, 1.0) * in_flight);
}

/// What all rows read, and what their threads find.
struct Memory {
  static constexpr size_t canaries = 64;  ///< behind what the threads write

  DeviceBuffer<unsigned> in, out;
  DeviceBuffer<unsigned> wrong_sums{1};

  Memory(size_t bytes, unsigned most_threads) : in(bytes / 4), out(most_threads + canaries) {
    fill<<<1024, 256>>>(in.data(), in.size());
    CUDA_CHECK_LAUNCH();
  }
  /// Threads whose sum is not that of their words.
  size_t wrong(const Row& row) {
    const unsigned threads = row.grid.total();
    wrong_sums.copy_from({0});
    take_away<<<1024, 256>>>(out.data(), threads, row.load->word_bytes / 4, row.bytes / 4);
    count_wrong<<<256, 256>>>(out.data(), threads, wrong_sums.data());
    CUDA_CHECK_LAUNCH();
    return wrong_sums.to_host()[0];
  }
  Task task(const Row& row) {
    Check check;
    check.poison = [this] { out.poison(); };
    check.wrong = [this, row] { return wrong(row); };
    return {std::string(row.load->name) + ", " + std::to_string(row.resident) + " threads",
            [this, row] { row.load->launch(row.grid, out.data(), in.data(), row.bytes); },
            std::move(check)};
  }
};

// ---- latency: a ring of slots all over the memory ----

constexpr unsigned slot_words = 64;  // 256 bytes: no load finds what came with another

/// The slot after `slot` in a ring of 2^k slots: a generator of full period (factor 4 m + 1, odd
/// addend), which visits each once.
__host__ __device__ unsigned next_slot(unsigned slot, unsigned slots) {
  return (slot * 1664525u + 1013904223u) & (slots - 1);
}

__global__ void fill_ring(unsigned* ring, unsigned slots) {
  for (unsigned s = blockIdx.x * blockDim.x + threadIdx.x; s < slots; s += gridDim.x * blockDim.x)
    ring[size_t(s) * slot_words] = next_slot(s, slots) * slot_words;
}

/// The ring, and where the chase stands in it. A launch goes on where the one before ended: what
/// comes next is in no cache yet.
struct Ring {
  static constexpr unsigned loads = 4096;  ///< of a launch: about 1.3 ms

  unsigned slots = 1;
  DeviceBuffer<unsigned> words, at{1};
  unsigned from = 0;  ///< where the launch that is checked began

  /// At least `bytes`.
  explicit Ring(double bytes) {
    while (4.0 * slot_words * slots < bytes) slots *= 2;
    words = DeviceBuffer<unsigned>(size_t(slots) * slot_words);
    fill_ring<<<1024, 256>>>(words.data(), slots);
    CUDA_CHECK_LAUNCH();
    at.copy_from({0});
  }
  /// The word at which a chase from `from` must end.
  unsigned end() const {
    unsigned slot = from / slot_words;
    for (unsigned k = 0; k < loads; ++k) slot = next_slot(slot, slots);
    return slot * slot_words;
  }
  Task task() {
    Check check;
    check.poison = [this] { from = at.to_host()[0]; };  // a chase that stays there is wrong
    check.wrong = [this] { return size_t(at.to_host()[0] != end()); };
    return {"the chase", [this] { chase<<<1, 1>>>(at.data(), words.data(), loads); },
            std::move(check)};
  }
};

// ---- what to expect ----

/// Measured in the same run.
struct Calibrated {
  double latency_ns = NAN;  ///< of a load when nothing else runs
  double memory_gbs = NAN;  ///< with the most bytes under way
};

/// Nanoseconds that each load of a chase took. A launch adds 2 us to 1.3 ms, which is left in.
Statistics ns_a_load(const Readings& ms, unsigned loads) {
  return scaled(ms.statistics(), 1e6 / loads);
}

/// Nanoseconds of a turn, in which `bytes` come and as many others set out: no fewer than a load
/// takes, and no fewer than the memory needs to pass them on. It would be the longer of the two if
/// loads came evenly spread, and the sum if they came all at once. The root of the sum of squares
/// lies between. The squares were chosen because they fit an H200; both constants are each GPU's
/// own. Left out: a thread with several loads waits for the last of them.
double turn_ns(double bytes, const Calibrated& c) {
  return std::hypot(c.latency_ns, bytes / c.memory_gbs);
}

/// GB/s that `bytes` under way give if they come every `ns` nanoseconds: Little's law.
double little_gbs(double bytes, double ns) { return bytes / ns; }

double predicted_gbs(double bytes, const Calibrated& c) {
  return little_gbs(bytes, turn_ns(bytes, c));
}

/// Which of the two limits is the larger one.
Model model_of(double bytes, const Calibrated& c) {
  return bytes / c.memory_gbs > c.latency_ns ? Model::traffic : Model::latency;
}

// ---- the experiment ----

/// GB/s of a row, by the bytes that its launch was told to read and whose sums were checked.
Statistics gbs_of(const Row& row, const Readings& times) {
  return gigabytes_per_second(double(row.bytes), times.statistics());
}

/// A millisecond's worth at the rate that the latency allows, but more than the L2 can keep.
std::vector<Row> rows_of(const Run& run, size_t memory_bytes, double latency_ns) {
  const cudaDeviceProp& prop = run.device->prop;
  std::vector<Row> rows;
  for (const Load& load : loads)
    for (const unsigned resident :
         residents(unsigned(prop.maxThreadsPerMultiProcessor), run.full)) {
      Row row{&load, resident, grid_of(resident, unsigned(prop.multiProcessorCount)), 0};
      const double in_a_ms = 1e6 * little_gbs(row.in_flight(), latency_ns);
      const double enough = std::max(in_a_ms, 4.0 * double(run.device->l2_bytes()));
      row.bytes = whole_turns(row.in_flight(), enough, memory_bytes);
      rows.push_back(row);
    }
  return rows;
}

/// All rows, in turn.
std::vector<Statistics> measure(const Run& run, Memory& memory, const std::vector<Row>& rows) {
  std::vector<Task> tasks;
  for (const Row& row : rows) tasks.push_back(memory.task(row));
  const std::vector<Readings> times = run.time_in_turn(tasks);
  std::vector<Statistics> gbs;
  for (size_t i = 0; i < rows.size(); ++i) gbs.push_back(gbs_of(rows[i], times[i]));
  return gbs;
}

void show(const Run& run, const std::vector<Row>& rows, const std::vector<Statistics>& gbs,
          const Calibrated& c) {
  Table table(
      run.report, "loads a thread, threads resident",
      {predicted("KiB in flight", "bytes in flight", "KiB", 0), compared("GB/s", "rate", "GB/s", 0),
       shown("spread"), saved_only(predicted("Little", "rate by latency", "GB/s", 0)),
       measured("ns", "latency", "ns", 0), shown("of the most"), shown("")});
  for (size_t i = 0; i < rows.size(); ++i) {
    const double bytes = rows[i].in_flight();
    const double share = gbs[i].median / c.memory_gbs;
    const double law = std::min(little_gbs(bytes, c.latency_ns), c.memory_gbs);
    const Cell rate = i + 1 == rows.size()
                          ? Cell(Calibration{gbs[i]})
                          : Cell(Compared{predicted_gbs(bytes, c), gbs[i], model_of(bytes, c)});
    table.row({rows[i].load->name, "threads", std::to_string(rows[i].resident)},
              {bytes / 1024, rate, spread_text(gbs[i]), law, bytes / gbs[i].median,
               fixed(100 * share, 0) + "%", bar(share)});
  }
  table.print();
  run.report.note("ns: bytes in flight / rate, after which a load's word has come");
}

/// Bytes of the ring, or of the memory that is read: more than the L2 can keep, where they fit.
double shrunk(double bytes, double there) {
  while (bytes > 0.4 * there) bytes /= 2;
  return bytes;
}

/// Bytes that are read, beyond the L2 where they fit.
double bytes_read(const Run& run) {
  double bytes = run.quick ? 1 << 28 : 1 << 30;
  while (run.device && !beyond_l2(*run.device, bytes)) bytes *= 2;
  return shrunk(bytes, run.memory_there());
}

/// Bytes of the ring, a power of two: at least four times the L2, where they fit.
double bytes_of_ring(const Run& run) {
  double bytes = 1 << 27;
  while (!beyond_l2(*run.device, bytes)) bytes *= 2;
  return shrunk(bytes, run.memory_there());
}

}  // namespace

void in_flight(const Run& run) {
  const double bytes = bytes_read(run);
  run.report.begin("in_flight", bytes_text(bytes) + " read by grids that are resident as a whole");
  if (!run.device) {
    run.report.note("Little's law: GB/s = bytes in flight / latency in ns; 1 MiB and 600 ns give " +
                    fixed(little_gbs(1 << 20, 600), 0) + " GB/s");
    return run.report.left_out("the latency, and the bandwidth over bytes in flight");
  }
  if (!beyond_l2(*run.device, bytes))
    run.report.note("that is less than four times the L2: the cache's rates");

  const unsigned multiprocessors = unsigned(run.device->prop.multiProcessorCount);
  const unsigned threads = unsigned(run.device->prop.maxThreadsPerMultiProcessor);
  Ring ring(bytes_of_ring(run));
  Memory memory(size_t(bytes), threads * multiprocessors);  // which drives the ring out of the L2

  const Statistics latency = ns_a_load(run.time(ring.task()), Ring::loads);
  Table latencies(run.report, "latency", {compared("ns", "latency", "ns", 0), shown("spread")});
  latencies.row({"unloaded"}, {Calibration{latency}, spread_text(latency)});
  latencies.print();

  const std::vector<Row> rows = rows_of(run, size_t(bytes), latency.median);
  const std::vector<Statistics> gbs = measure(run, memory, rows);
  const Calibrated c{latency.median, gbs.back().median};
  show(run, rows, gbs, c);
  run.report.note("predicted: a turn takes the root of latency^2 + (bytes / most GB/s)^2");
  run.report.note("the memory's rate times the unloaded latency: " +
                  bytes_text(std::round(c.memory_gbs * c.latency_ns / 1024) * 1024));
}
