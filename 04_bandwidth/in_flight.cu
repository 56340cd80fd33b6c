// in_flight: the wiki asks for enough concurrent memory operations to hide the latency. Little's
// law says how many: what is under way at any time = bandwidth x latency. Here a chase of one load
// after another measures the latency, and a kernel whose resident threads and words a thread are
// known measures the bandwidth that so many bytes in flight give. Look at how all word sizes lie on
// one curve, which leaves the law's line where the memory, not the latency, becomes the limit.
#include <doctest/doctest.h>

#include <algorithm>

#include "../common/first_edition.hpp"

namespace {

// ---- what is read, and by whom
// --------------------------------------------------------------------------------------

/// Word `i`: neither zero nor constant; the first n add up to sum_of(n), modulo 2^32.
__host__ __device__ unsigned word_at(size_t i) { return 0x9e3779b1u * unsigned(i + 1); }
unsigned sum_of(size_t n) {
  return 0x9e3779b1u * unsigned(n % 2 ? (n + 1) / 2 * n : n / 2 * (n + 1));
}

__device__ unsigned total(unsigned v) { return v; }
__device__ unsigned total(uint2 v) { return v.x + v.y; }
__device__ unsigned total(uint4 v) { return v.x + v.y + v.z + v.w; }

/// Element that a thread of a grid of `grid_threads` reads first, as its `k`-th at once, in its
/// `turn`-th turn.
__host__ __device__ size_t element(size_t thread, size_t grid_threads, int at_once, size_t turn,
                                   int k) {
  return (turn * at_once + k) * grid_threads + thread;
}

// Each thread has AtOnce words under way, waits for all of them, and goes on to its next AtOnce.
// The grid is resident as a whole, so grid x AtOnce x sizeof(Word) bytes are in flight. A warp's
// words are neighbours.
template <class Word, int AtOnce>
__global__ void read(const Word* in, size_t n, unsigned* sum) {
  const size_t thread = blockIdx.x * size_t(blockDim.x) + threadIdx.x,
               grid_threads = size_t(gridDim.x) * blockDim.x;
  unsigned mine = 0;
#pragma unroll 1  // the compiler would put several turns' loads in flight at once
  for (size_t turn = 0; element(thread, grid_threads, AtOnce, turn, 0) < n; ++turn) {
    Word v[AtOnce] = {};
    for (int k = 0; k < AtOnce; ++k) {
      const size_t i = element(thread, grid_threads, AtOnce, turn, k);
      if (i < n) v[k] = in[i];
    }
    for (int k = 0; k < AtOnce; ++k) mine += total(v[k]);
  }
  for (int lanes = 16; lanes > 0; lanes /= 2) mine += __shfl_down_sync(0xffffffffu, mine, lanes);
  if (threadIdx.x % 32 == 0) atomicAdd(sum, mine);
}

__global__ void fill(unsigned* words, size_t n) {
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n;
       i += size_t(gridDim.x) * blockDim.x)
    words[i] = word_at(i);
}

// ---- latency: one load after another
// --------------------------------------------------------------------------------

constexpr unsigned slot_words =
    64;  // a slot in 256 bytes: no load finds what came with the one before
constexpr unsigned steps = 2048;  // loads of one launch; about 1 ms

/// The slot after `slot` in a ring of 2^k slots: a full period generator (factor 4 m + 1, odd
/// addend), all over the memory.
__host__ __device__ unsigned next_slot(unsigned slot, unsigned slots) {
  return (slot * 1664525u + 1013904223u) & (slots - 1);
}

__global__ void fill_ring(unsigned* ring, unsigned slots) {
  for (unsigned s = blockIdx.x * blockDim.x + threadIdx.x; s < slots; s += gridDim.x * blockDim.x)
    ring[size_t(s) * slot_words] = next_slot(s, slots);
}

// One thread; each load's address is the answer of the load before. It begins where the launch
// before ended: those slots are in no cache yet.
__global__ void chase(const unsigned* ring, unsigned* slot, unsigned loads) {
  unsigned s = *slot;
  for (unsigned i = 0; i < loads; ++i) s = __ldcg(&ring[size_t(s) * slot_words]);
  *slot = s;
}

/// The ring, and where the chase stands in it.
struct Ring {
  unsigned slots;
  DeviceBuffer<unsigned> words, at{1};

  /// At least `bytes`.
  explicit Ring(size_t bytes) : slots(1) {
    while (size_t(slots) * slot_words * sizeof(unsigned) < bytes) slots *= 2;
    words = DeviceBuffer<unsigned>(size_t(slots) * slot_words);
    fill_ring<<<1024, 256>>>(words.data(), slots);
    CUDA_CHECK_LAUNCH();
    at.copy_from({0});
  }
  void go(unsigned loads) {
    chase<<<1, 1>>>(words.data(), at.data(), loads);
    CUDA_CHECK_LAUNCH();
  }
};

/// Nanoseconds a load when nothing else runs: a long chase less a short one, so that launching
/// drops out.
Statistics unloaded_ns(const Run& run) {
  Ring ring(std::max(4 * run.device->l2_bytes(), size_t(128) << 20));
  unsigned expected = 0;
  ring.go(steps);
  for (unsigned i = 0; i < steps; ++i) expected = next_slot(expected, ring.slots);
  require_right(ring.at.to_host()[0] == expected, "the chase through memory");
  Measuring measuring = run.measuring;
  measuring.repeats = std::min(measuring.repeats,
                               50);  // with 2 to warm up 3 x 52 x 2048 loads: no slot is met twice
  const Statistics longer = time_device(measuring, [&] { ring.go(2 * steps); });
  const Statistics shorter = time_device(measuring, [&] { ring.go(steps); });
  const double ns = 1e6 * (longer.median - shorter.median) / steps;
  return {ns, ns * longer.low / longer.median, ns * longer.high / longer.median, longer.repeats};
}

// ---- Little's law ----

/// GB/s that `bytes` under way give if each comes back after `ns`; and bytes / GB/s are ns again.
double little_gbs(double bytes, double ns) { return bytes / ns; }

struct Load {
  const char* name;
  unsigned word_bytes, at_once;
  void (*launch)(unsigned blocks, unsigned threads, const unsigned* in, size_t bytes,
                 unsigned* sum);
  unsigned bytes() const { return word_bytes * at_once; }
};
template <class Word, int AtOnce>
void launch(unsigned blocks, unsigned threads, const unsigned* in, size_t bytes, unsigned* sum) {
  read<Word, AtOnce>
      <<<blocks, threads>>>(reinterpret_cast<const Word*>(in), bytes / sizeof(Word), sum);
}
const Load loads[] = {
    {"4 bytes", 4, 1, launch<unsigned, 1>},    {"8 bytes", 8, 1, launch<uint2, 1>},
    {"16 bytes", 16, 1, launch<uint4, 1>},     {"4 x 4 bytes", 4, 4, launch<unsigned, 4>},
    {"2 x 16 bytes", 16, 2, launch<uint4, 2>},
};

unsigned blocks_of(unsigned resident) {
  return resident > 1024 ? 2 : 1;
}  // a multiprocessor, as 1024 threads are most

/// Sums once and compares with the closed form.
bool right(const Load& load, unsigned blocks, unsigned threads, const DeviceBuffer<unsigned>& in,
           size_t bytes) {
  DeviceBuffer<unsigned> sum(std::vector<unsigned>{0});
  load.launch(blocks, threads, in.data(), bytes, sum.data());
  CUDA_CHECK_LAUNCH();
  return sum.to_host()[0] == sum_of(bytes / 4);
}

}  // namespace

void in_flight(const Run& run) {
  size_t bytes = run.quick ? size_t(256) << 20 : size_t(1) << 30;
  while (run.device && double(bytes) > 0.4 * double(Device::free_bytes())) bytes /= 2;
  run.report.begin("in_flight",
                   bytes_text(double(bytes)) + " read by grids that are resident as a whole");
  if (!run.device) {
    run.report.note(
        "Little's law: GB/s = bytes in flight / latency in ns; 1 MiB in flight and 600 ns give " +
        fixed(little_gbs(1 << 20, 600), 0) + " GB/s");
    return run.report.left_out("the latency, and the bandwidth over bytes in flight");
  }
  const cudaDeviceProp& prop = run.device->prop;
  const Statistics latency = unloaded_ns(run);

  DeviceBuffer<unsigned> in(bytes / 4), sum(1);
  sum.poison();  // of what is timed; what is checked has its own
  fill<<<1024, 512>>>(in.data(), in.size());
  CUDA_CHECK_LAUNCH();

  const unsigned most = unsigned(prop.maxThreadsPerMultiProcessor),
                 sms = unsigned(prop.multiProcessorCount);
  std::vector<unsigned> residents{most};  // 1536 on some
  for (unsigned r = run.full ? 32 : 128; r < most; r *= 2) {
    residents.push_back(r);
    if (run.full && r >= 128) residents.push_back(r * 3 / 2);
  }
  std::sort(residents.begin(), residents.end());
  residents.erase(std::unique(residents.begin(), residents.end()), residents.end());

  struct Point {
    const Load* load;
    unsigned resident;
    double in_flight;
    Statistics rate;
  };
  std::vector<Point> points;
  Progress progress("in_flight", int(std::size(loads) * residents.size()));
  for (const Load& load : loads)
    for (unsigned resident : residents) {
      progress.step();
      const unsigned blocks = blocks_of(resident) * sms, threads = resident / blocks_of(resident);
      const double in_flight = double(load.bytes()) * resident * sms;
      // a part is enough where little is in flight: about 1 ms, but several times the L2
      const double part = std::max(1e6 * little_gbs(in_flight, latency.median),
                                   4.0 * double(run.device->l2_bytes()));
      const size_t now = std::min(bytes, size_t(part) / 65536 * 65536);
      require_right(right(load, blocks, threads, in, now), std::string("reading ") + load.name);
      const Statistics ms = time_device(
          run.measuring, [&] { load.launch(blocks, threads, in.data(), now, sum.data()); });
      points.push_back({&load, resident, in_flight, gigabytes_per_second(double(now), ms)});
    }
  CUDA_CHECK_LAUNCH();

  Statistics peak{};
  const Point *fullest = &points[0], *words = &points[0];
  for (const Point& p : points) {
    if (p.rate.median > peak.median) peak = p.rate;
    if (p.in_flight > fullest->in_flight) fullest = &p;
    if (p.load == &loads[0] && p.resident == most) words = &p;
  }
  Table table(
      run.report, "loads a thread, threads resident",
      {predicted("KiB in flight", "bytes in flight", "KiB", 0), measured("GB/s", "rate", "GB/s", 0),
       shown("spread"), predicted("by Little's law", "rate by latency", "GB/s", 0),
       shown("of the best"), shown("")});
  for (const Point& p : points) {
    const double law = std::min(little_gbs(p.in_flight, latency.median), peak.median);
    table.row({p.load->name, "threads", std::to_string(p.resident)},
              {p.in_flight / 1024, p.rate, spread_text(p.rate), law,
               percent(p.rate.median / peak.median), bar(p.rate.median / peak.median)});
  }
  table.print();

  const double own = little_gbs(words->in_flight, words->rate.median);
  Table latencies(run.report, "latency", {measured("ns", "latency", "ns", 0), shown("from")});
  latencies.row({"unloaded"}, {latency, "a chase, one load after another, nothing else running"});
  latencies.row({"4-byte words, full occupancy"}, {own, "bytes in flight / rate"});
  latencies.row({"saturated"}, {little_gbs(fullest->in_flight, fullest->rate.median),
                                "the same, at the most bytes in flight"});
  latencies.print();
  run.report.note("the best rate needs " +
                  bytes_text(std::round(peak.median * latency.median / 1024) * 1024) +
                  " in flight at the unloaded latency; what is more only waits in queues");
  run.report.note("4-byte words stop at " + percent(words->rate.median / peak.median) +
                  " of the best: " + std::to_string(words->resident) + " threads x " +
                  std::to_string(sms) + " multiprocessors x 4 bytes are " +
                  fixed(words->in_flight / 1e6, 2) + " MB, which turn over once in " +
                  fixed(own, 0) + " ns; only more bytes a thread help");
}

// ---- self-checks ----

TEST_CASE("in_flight: the closed form is the sum of the words") {
  unsigned sum = 0;
  for (size_t n = 0; n < 1000; sum += word_at(n++)) CHECK(sum_of(n) == sum);
  // beyond 2^32 the product must not overflow before it is halved
  CHECK(sum_of((size_t(1) << 33) + 1) ==
        unsigned(sum_of(size_t(1) << 33) + word_at(size_t(1) << 33)));
}

TEST_CASE("in_flight: the chase visits every slot once") {
  for (unsigned slots : {1u, 2u, 8u, 4096u, 1u << 20}) {
    unsigned s = next_slot(0, slots),
             count = 1;  // from a permutation's one slot back to it: a cycle
    for (; s != 0 && count < slots; s = next_slot(s, slots)) ++count;
    CHECK(count == slots);
    CHECK(s == 0);
  }
}

TEST_CASE("in_flight: a grid reads every element once") {
  for (size_t n : {1, 31, 1009, 65537})
    for (int at_once : {1, 2, 4}) {
      std::vector<int> taken(n);
      const size_t grid_threads = 384;
      for (size_t thread = 0; thread < grid_threads; ++thread)
        for (size_t turn = 0; element(thread, grid_threads, at_once, turn, 0) < n; ++turn)
          for (int k = 0; k < at_once; ++k) {
            const size_t i = element(thread, grid_threads, at_once, turn, k);
            if (i < n) ++taken[i];
          }
      CHECK(std::count(taken.begin(), taken.end(), 1) == long(n));
    }
}

TEST_CASE("in_flight: every load is right at awkward sizes") {
  if (skip_without_gpu()) return;
  for (size_t bytes : {16, 48, 16 * 1009, 16 * 65537}) {
    DeviceBuffer<unsigned> in(bytes / 4 + 16);
    in.poison();
    fill<<<7, 96>>>(in.data(), bytes / 4);
    CUDA_CHECK_LAUNCH();
    for (const Load& load : loads)
      for (unsigned blocks : {1u, 3u, 200u}) {
        CAPTURE(load.name);
        CAPTURE(bytes);
        CAPTURE(blocks);
        CHECK(right(load, blocks, 96, in, bytes));
        CHECK(
            !right(load, blocks, 96, in, bytes + 16));  // the poison beyond is not part of the sum
      }
  }
}

TEST_CASE("in_flight: the grids are resident as a whole") {
  if (skip_without_gpu()) return;
#ifdef __CUDACC_DEBUG__
  if (true)
    return skip_self_check("code for the debugger takes more registers, and fewer threads fit");
#endif
  int device = 0, most = 0;
  CUDA_CHECK(cudaGetDevice(&device));
  CUDA_CHECK(cudaDeviceGetAttribute(&most, cudaDevAttrMaxThreadsPerMultiProcessor, device));
  const auto fits = [&](auto kernel) {
    const int blocks = int(blocks_of(unsigned(most)));
    int fitting = 0;
    CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&fitting, kernel, most / blocks, 0));
    return fitting >= blocks;
  };
  CHECK((fits(read<unsigned, 1>) && fits(read<uint2, 1>) && fits(read<uint4, 1>)));
  CHECK((fits(read<unsigned, 4>) && fits(read<uint4, 2>) && fits(read<uint4, 4>)));
}

TEST_CASE("in_flight: the chase on the device is the one on the host") {
  if (skip_without_gpu()) return;
  Ring ring(1 << 20);
  ring.go(777);
  ring.go(5);
  unsigned expected = 0;
  for (int i = 0; i < 782; ++i) expected = next_slot(expected, ring.slots);
  CHECK(ring.at.to_host()[0] == expected);
}
