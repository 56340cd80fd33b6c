// Self-checks of in_flight.cu, compiled in its place where BUILD_TESTING is on.
#include "../in_flight.cu"

#include "../../framework/common/checks/standard.hpp"
#include "../../framework/common/gpu_timer.cuh"

#include <initializer_list>

namespace {

/// What every thread must find, on the host: from threads to words.
std::vector<unsigned> sums_by_host(const Load& load, Grid grid, size_t bytes) {
  const size_t wide = load.word_bytes / 4;
  std::vector<unsigned> sums(grid.total(), 0);
  for (size_t thread = 0; thread < sums.size(); ++thread)
    for (size_t i = thread; i < bytes / load.word_bytes; i += sums.size())
      for (size_t k = 0; k < wide; ++k) sums[thread] += WordAt{}(i * wide + k);
  return sums;
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

TEST_CASE("in_flight: the chase visits every slot once") {
  for (const unsigned slots : {1u, 2u, 8u, 4096u, 1u << 20}) {
    unsigned slot = next_slot(0, slots);
    unsigned count = 1;
    for (; slot != 0 && count < slots; slot = next_slot(slot, slots)) ++count;
    CHECK(count == slots);
    CHECK(slot == 0);
  }
}

TEST_CASE("in_flight: what a thread has in flight, by hand") {
  struct ByHand {
    const char* key;
    double per_thread, kib_per_sm;  // with 2048 threads
  };
  // nvcc 12.4 does not deduce the list's type from its first element
  for (const ByHand& each : std::initializer_list<ByHand>{{"read4", 4, 8},
                                                          {"read8", 8, 16},
                                                          {"read16", 16, 32},
                                                          {"read4x4", 16, 32},
                                                          {"read16x2", 32, 64}}) {
    CAPTURE(std::string(each.key));
    const Load* load = with_key(loads, Ref(each.key));
    REQUIRE(load);
    CHECK(load->bytes() == each.per_thread);
    CHECK(bytes_per_sm({.ref = Ref(each.key, 2048)}) == each.kib_per_sm * 1024);
  }
}

TEST_CASE("in_flight: predictions, by hand") {
  const Calibrated c{300, 1000};  // 300 ns, and 1000 bytes per nanosecond
  CHECK(little_gbs(300000, 300) == doctest::Approx(1000));
  CHECK(predicted_gbs(400e3, c) == doctest::Approx(800));                // 300, 400, 500 ns
  CHECK(predicted_gbs(3e3, c) == doctest::Approx(10).epsilon(0.001));    // the latency alone
  CHECK(predicted_gbs(3e8, c) == doctest::Approx(1000).epsilon(0.001));  // the memory alone
}

TEST_CASE("in_flight: grids fill made-up multiprocessors") {
  CHECK(residents(2048, false) == std::vector<unsigned>{128, 256, 512, 1024, 2048});
  CHECK(residents(1536, false) == std::vector<unsigned>{128, 256, 512, 1024, 1536});
  CHECK(residents(1024, true) == std::vector<unsigned>{32, 64, 128, 192, 256, 384, 512, 768, 1024});
  for (const unsigned most : {1024u, 1536u, 2048u})
    for (const unsigned resident : residents(most, true)) {
      const Grid grid = grid_of(resident, 40);
      CHECK(grid.total() == resident * 40);
      CHECK(grid.threads <= 1024);
      CHECK(grid.threads % 32 == 0);
    }
}

TEST_CASE("in_flight: every load is right at awkward sizes and grids") {
  if (skip_without_gpu()) return;
  for (const size_t bytes : {size_t(4), size_t(48), size_t(16 * 1009), size_t(16 * 65537 + 8)})
    for (const Grid grid : {Grid{1, 96}, Grid{3, 33}, Grid{200, 96}, Grid{7, 1024}})
      for (const Load& load : loads) {
        CAPTURE(std::string(load.key));
        CAPTURE(bytes);
        CAPTURE(grid.blocks);
        const Shared memory(Memory(bytes, grid.total() + 100));  // of a larger grid, too
        CHECK(wrong_after(task_of(memory, Ref(load.key, grid.threads), grid, bytes)) == 0);
        std::vector<unsigned> found = memory->sums.to_host();
        CHECK(std::count(found.begin() + grid.total(), found.end(), ~0u) == 100);
        found.resize(grid.total());
        CHECK(found == sums_by_host(load, grid, bytes));
      }
}

TEST_CASE("in_flight: a word that is left out, and another that is taken twice, are found") {
  if (skip_without_gpu()) return;
  const Grid grid{3, 96};
  const size_t bytes = 16 * 1009;
  const Shared memory(Memory(bytes, grid.total()));
  std::vector<unsigned> sums = sums_by_host(loads[0], grid, bytes);
  sums.resize(sums.size() + Output<unsigned>::canaries, ~0u);
  memory->sums.copy_from(sums);
  CHECK(memory->wrong(loads[0], grid.total(), bytes) == 0);
  CHECK(memory->wrong(loads[0], grid.total(), bytes - 4) == 1);  // a word that nobody may read
  sums[5] += WordAt{}(1) - WordAt{}(2);
  memory->sums.copy_from(sums);
  CHECK(memory->wrong(loads[0], grid.total(), bytes) == 1);
}

TEST_CASE("in_flight: the grids are resident as a whole") {
  if (skip_without_gpu()) return;
#ifdef __CUDACC_DEBUG__
  if (true)
    return skip_self_check("code for the debugger takes more registers, and fewer threads fit");
#endif
  const Device device = Device::current();
  const unsigned sms = unsigned(device.prop.multiProcessorCount);
  const Grid grid = grid_of(unsigned(device.prop.maxThreadsPerMultiProcessor), sms);
  const auto resident = [&](auto kernel) {
    int blocks = 0;
    CUDA_CHECK(
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, int(grid.threads), 0));
    return unsigned(blocks) * sms >= grid.blocks;
  };
  CHECK(resident(read4));
  CHECK(resident(read8));
  CHECK(resident(read16));
  CHECK(resident(read4x4));
  CHECK(resident(read16x2));
}

TEST_CASE("in_flight: the chase goes on where it ended") {
  if (skip_without_gpu()) return;
  const Shared ring(Ring(size_t(1) << 24));
  REQUIRE(ring->slots > chased);  // after a whole round a chase would stand where it began
  const Task task = chase_task(ring);
  CHECK(wrong_after(task) == 0);
  CHECK(wrong_after(task) == 0);
  task.check.poison();
  CHECK(task.check.wrong() == 1);
}

TEST_CASE("in_flight: the latency by the GPU's own timer" * doctest::test_suite("plausible") *
          doctest::skip()) {
  if (skip_without_gpu()) return;
  std::string printed;
  Report report("plausible", &printed);
  const Device device = Device::current();
  const Run run{report, &device, {}};
  const Shared ring(Ring(ring_bytes(run)));
  const double by_events = run.time(chase_task(ring)).median() * 1e6 / chased;
  const DeviceBuffer<unsigned long long> ns(1);
  timed_chase<<<1, 1>>>(ring->at.data(), ring->words.data(), chased, ns.data());
  CUDA_CHECK_LAUNCH();
  const double by_timer = double(ns.to_host()[0]) / chased;
  CHECK(by_events / by_timer == doctest::Approx(1).epsilon(0.1));
}

EXPERIMENT_CHECKS(in_flight)
