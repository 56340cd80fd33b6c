// Self-checks of in_flight.cu, compiled in its place where BUILD_TESTING is on.
#include "../in_flight.cu"

#include <doctest/doctest.h>

#include "../../common/checks/made_up_devices.hpp"
#include "../../common/checks/plausible.hpp"

namespace {

/// Whether `ratio` is 1 within a factor.
bool close(double ratio, double factor) { return ratio < factor && ratio > 1 / factor; }

/// What every thread must find, by turns of loads, on the host: from threads to words.
std::vector<unsigned> sums_by_host(const Row& row) {
  const size_t wide = row.load->word_bytes / 4, threads = row.grid.total();
  std::vector<unsigned> sums(threads, 0);
  for (size_t thread = 0; thread < threads; ++thread)
    for (size_t load = thread; load < row.bytes / row.load->word_bytes; load += threads)
      for (size_t k = 0; k < wide; ++k) sums[thread] += word_at(load * wide + k);
  return sums;
}

/// Bytes in flight, and the rate that they gave.
struct Found {
  double kib, gbs;
};

constexpr Grid awkward_grids[] = {{1, 96}, {3, 33}, {200, 96}, {7, 1024}};
constexpr size_t awkward_bytes[] = {16, 48, 16 * 1009, 16 * 65537};

}  // namespace

TEST_CASE("in_flight: the chase visits every slot once") {
  for (const unsigned slots : {1u, 2u, 8u, 4096u, 1u << 20}) {
    unsigned slot = next_slot(0, slots);
    unsigned count = 1;
    for (; slot != 0 && count < slots; slot = next_slot(slot, slots)) ++count;
    CHECK(count == slots);
    CHECK(slot == 0);
  }
}

TEST_CASE("in_flight: a made-up chase's nanoseconds, and a made-up row's rate") {
  const Statistics ns = ns_a_load(Readings{{2, 2.5, 3}}, 5000);
  CHECK(ns.median == doctest::Approx(500));
  CHECK(ns.low == doctest::Approx(420));
  CHECK(ns.high == doctest::Approx(580));
  const Row row{&loads[4], 2048, {264, 1024}, size_t(1) << 30};
  CHECK(row.in_flight() == 2048 * 132 * 32);
  CHECK(gbs_of(row, Readings{{0.5}}).median == doctest::Approx(2147.483648));
}

TEST_CASE("in_flight: predictions, by hand") {
  const Calibrated c{300, 1000};  // 300 ns, and 1000 bytes in a nanosecond
  CHECK(little_gbs(300000, 300) == doctest::Approx(1000));
  CHECK(turn_ns(400e3, c) == doctest::Approx(500));  // 3, 4, 5
  CHECK(predicted_gbs(400e3, c) == doctest::Approx(800));
  CHECK(predicted_gbs(3e3, c) == doctest::Approx(10).epsilon(0.001));    // the latency alone
  CHECK(predicted_gbs(3e8, c) == doctest::Approx(1000).epsilon(0.001));  // the memory alone
  CHECK(model_of(299e3, c) == Model::latency);
  CHECK(model_of(301e3, c) == Model::traffic);
}

// Recorded rates. Both latencies are 5% short, since a part of that day's ring was still in the L2.
TEST_CASE("in_flight: the model, fitted to an H200, predicts what an H100 80GB did") {
  const Calibrated c{331, 3100};
  const Found one_load[] = {{66, 176.3}, {132, 355.6}, {264, 702},
                            {528, 1338}, {1056, 2301}, {2112, 2917}};
  for (const Found& row : one_load) CHECK(close(row.gbs / predicted_gbs(row.kib * 1024, c), 1.2));
  // 4 x 4 bytes: it leaves out that a thread waits for the last of its loads
  const Found four_loads[] = {{264, 547.4}, {528, 1059}, {1056, 1898}, {2112, 2686}, {4224, 2994}};
  for (const Found& row : four_loads) CHECK(close(row.gbs / predicted_gbs(row.kib * 1024, c), 1.6));
}

TEST_CASE("in_flight: the model still fits the H200 that it was fitted to") {
  const Calibrated c{315, 4424};
  const Found one_load[] = {{66, 183.7}, {132, 373.6}, {264, 738.4},
                            {528, 1422}, {1056, 2587}, {2112, 3956}};
  for (const Found& row : one_load) CHECK(close(row.gbs / predicted_gbs(row.kib * 1024, c), 1.2));
}

TEST_CASE("in_flight: grids fill made-up multiprocessors, and read whole turns") {
  CHECK(residents(2048, false) == std::vector<unsigned>{128, 256, 512, 1024, 2048});
  CHECK(residents(1536, false) == std::vector<unsigned>{128, 256, 512, 1024, 1536});
  CHECK(residents(1024, true) == std::vector<unsigned>{32, 64, 128, 192, 256, 384, 512, 768, 1024});
  for (const unsigned most : {1024u, 1536u, 2048u})
    for (const bool full : {false, true})
      for (const unsigned resident : residents(most, full)) {
        const Grid grid = grid_of(resident, 40);
        CHECK(grid.total() == resident * 40);
        CHECK(grid.threads <= 1024);
        CHECK(grid.threads % 32 == 0);
      }
  CHECK(whole_turns(1000, 2500, 10000) == 3000);
  CHECK(whole_turns(1000, 2500, 2999) == 2000);
  CHECK(whole_turns(1000, 2500, 10) == 1000);
}

TEST_CASE("in_flight: arrays, rings and rows of made-up GPUs") {
  check_on_made_up_devices([](const Run& run) {
    const cudaDeviceProp& prop = run.device->prop;
    const double bytes = bytes_read(run), ring = bytes_of_ring(run);
    for (const Row& row : rows_of(run, size_t(bytes), 600)) {
      CHECK(double(row.bytes) <= bytes);
      CHECK(row.grid.threads <= 1024);
      CHECK(row.grid.total() <=
            unsigned(prop.multiProcessorCount * prop.maxThreadsPerMultiProcessor));
    }
    double taken = 4.0 * slot_words;  // as Ring counts
    while (taken < ring) taken *= 2;
    return Needs{bytes + taken, std::min(bytes, taken)};
  });
}

TEST_CASE(
    "in_flight: the ring takes no more than it was given, on a made-up GPU with little memory") {
  Device device;
  device.number = -1;
  device.prop.l2CacheSize = 80 << 20;
  device.prop.totalGlobalMem = size_t(800) << 20;
  std::string printed;
  Report report("in_flight", &printed);
  const Run run{report, &device, {}};
  const double ring = bytes_of_ring(run);
  CHECK(ring == 256 << 20);  // not 320 MiB, for which 512 would be taken
  CHECK(bytes_read(run) + ring <= 0.9 * device.memory_there());
}

TEST_CASE("in_flight: every row of a made-up device but the fullest is predicted") {
  Device device;
  device.number = -1;
  device.prop.multiProcessorCount = 132;
  device.prop.maxThreadsPerMultiProcessor = 2048;
  device.prop.l2CacheSize = 60 << 20;
  std::string printed;
  Report report("in_flight", &printed);
  const Run run{report, &device, {}};
  const std::vector<Row> rows = rows_of(run, size_t(1) << 30, 300);
  REQUIRE(rows.size() == 25);
  std::vector<Statistics> gbs;
  double most = 0;
  for (const Row& row : rows) {
    CHECK(row.bytes % size_t(row.in_flight()) == 0);
    CHECK(row.bytes <= size_t(1) << 30);
    CHECK(beyond_l2(device, double(row.bytes)));
    most = std::max(most, row.in_flight());
    gbs.push_back({predicted_gbs(row.in_flight(), {300, 4500}), NAN, NAN, 1});
  }
  CHECK(rows.back().in_flight() == most);
  gbs.back().median = 4500;
  show(run, rows, gbs, {300, 4500});
  REQUIRE(report.predictions().size() == rows.size() - 1);
  for (const Prediction& p : report.predictions()) CHECK(close(p.measured / p.predicted, 1.001));
  CHECK(printed.find("calibration") != std::string::npos);
}

TEST_CASE("in_flight: every load is right at awkward sizes and grids") {
  if (skip_without_gpu()) return;
  for (const size_t bytes : awkward_bytes)
    for (const Grid grid : awkward_grids) {
      Memory memory(bytes, grid.total());
      for (const Load& load : loads) {
        CAPTURE(std::string(load.name));
        CAPTURE(bytes);
        CAPTURE(grid.blocks);
        const Row row{&load, grid.threads, grid, bytes};
        const Task task = memory.task(row);
        task.check.poison();
        task.launch();
        CUDA_CHECK_LAUNCH();
        std::vector<unsigned> found = memory.out.to_host();
        const auto canaries = found.begin() + grid.total();
        CHECK(std::count(canaries, found.end(), ~0u) == long(Memory::canaries));
        found.resize(grid.total());
        CHECK(found == sums_by_host(row));
        CHECK(task.check.wrong() == 0);
      }
    }
}

TEST_CASE("in_flight: the check finds a word left out and another taken twice") {
  if (skip_without_gpu()) return;
  const Row row{&loads[0], 96, {3, 96}, 16 * 1009};
  Memory memory(row.bytes, row.grid.total());
  const Task task = memory.task(row);
  task.check.poison();
  CHECK(task.check.wrong() == row.grid.total());
  task.launch();
  std::vector<unsigned> sums = sums_by_host(row);
  sums[5] += word_at(1) - word_at(2);
  memory.out.copy_from(sums);
  CHECK(task.check.wrong() == 1);
  const Row more{&loads[0], 96, {3, 96}, 16 * 1009 + 4};  // a word that nobody read
  memory.out.copy_from(sums_by_host(row));
  CHECK(memory.wrong(more) == 1);
}

TEST_CASE("in_flight: the grids are resident as a whole") {
  if (skip_without_gpu()) return;
#ifdef __CUDACC_DEBUG__
  if (true)
    return skip_self_check("code for the debugger takes more registers, and fewer threads fit");
#endif
  const Device device = Device::current();
  const unsigned multiprocessors = unsigned(device.prop.multiProcessorCount);
  const Grid grid = grid_of(unsigned(device.prop.maxThreadsPerMultiProcessor), multiprocessors);
  const auto resident = [&](auto kernel) {
    int blocks = 0;
    CUDA_CHECK(
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, int(grid.threads), 0));
    return unsigned(blocks) * multiprocessors >= grid.blocks;
  };
  CHECK(resident(read4));
  CHECK(resident(read8));
  CHECK(resident(read16));
  CHECK(resident(read4x4));
  CHECK(resident(read16x2));
}

TEST_CASE("in_flight: the chase on the device is the one on the host") {
  if (skip_without_gpu()) return;
  Ring ring(1 << 24);
  REQUIRE(ring.slots > Ring::loads);  // after a whole round a chase would stand where it began
  const Task task = ring.task();
  CHECK(wrong_after(task) == 0);
  CHECK(wrong_after(task) == 0);  // from where it ended
  task.check.poison();
  CHECK(task.check.wrong() == 1);
}

namespace {

__device__ unsigned long long timer_ns() {
  unsigned long long ns = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns)::"memory");
  return ns;
}

__global__ void timed_chase(unsigned* at, const unsigned* ring, unsigned loads,
                            unsigned long long* ns) {
  const unsigned long long start = timer_ns();
  unsigned word = *at;
  for (unsigned k = 0; k < loads; ++k) word = ring[word];
  *at = word;
  __threadfence();  // not before the last word has come
  *ns = timer_ns() - start;
}

}  // namespace

TEST_CASE("in_flight: the latency by the GPU's own timer" * doctest::test_suite("plausible") *
          doctest::skip()) {
  if (skip_without_gpu()) return;
  std::string printed;
  Report report("plausible", &printed);
  const Device device = Device::current();
  const Run run{report, &device, {}};
  Ring ring(std::max(4.0 * double(device.l2_bytes()), double(1 << 27)));
  Memory memory(size_t(4 * device.l2_bytes()), 32);
  const double by_events = ns_a_load(run.time(ring.task()), Ring::loads).median;
  DeviceBuffer<unsigned long long> ns(1);
  timed_chase<<<1, 1>>>(ring.at.data(), ring.words.data(), Ring::loads, ns.data());
  CUDA_CHECK_LAUNCH();
  const double by_timer = double(ns.to_host()[0]) / Ring::loads;
  CHECK(close(by_events / by_timer, 1.25));
}

TEST_CASE("in_flight: measured rows lie where its models predict them" *
          doctest::test_suite("plausible") * doctest::skip()) {
  check_plausible([](const Run& run) { in_flight(run); });
}
