// Self-checks of async_copy.cu, compiled in its place where BUILD_TESTING is on.
#include "../async_copy.cu"

#include <doctest/doctest.h>

#include "../../common/checks/made_up_devices.hpp"
#include "../../common/checks/plausible.hpp"

namespace {

const Way& way_of(Kind kind, unsigned stages, unsigned words) {
  for (const Way& way : ways)
    if (way.kind == kind && way.stages == stages && way.words == words) return way;
  throw std::logic_error("async_copy: there is no such way");
}

/// Whether `ratio` is 1 within a factor.
bool close(double ratio, double factor) { return ratio < factor && ratio > 1 / factor; }

/// What every thread must find, by blocks and their tiles, on the host.
std::vector<unsigned> sums_by_host(const Row& row, size_t n) {
  std::vector<unsigned> sums(row.total(), 0);
  for (size_t block = 0; block < row.grid(); ++block)
    for (size_t first = block * row.tile(); first < n; first += size_t(row.grid()) * row.tile())
      for (size_t i = 0; i < row.tile() && first + i < n; ++i) {
        unsigned& sum = sums[block * row.threads + i % row.threads];
        for (size_t part = 0; part < 4; ++part) sum += part_at(4 * (first + i) + part);
      }
  return sums;
}

/// Those ways that the current GPU, and this build, have, with room for their rings.
std::vector<const Way*> ways_of(const Device& device) {
  std::vector<const Way*> all;
  for (const Way& way : ways)
    if (lacking(way.kind, device).empty() && ring_bytes(way, few) <= most_ring(device.prop))
      all.push_back(&way);
  return all;
}

/// Each row's rate as the model says, and the calibrating ones' as the constants.
std::vector<Statistics> made_up_rates(const std::vector<Row>& rows, const Calibrated& c) {
  std::vector<Statistics> gbs;
  for (const Row& row : rows)
    gbs.push_back({predicted_gbs(*row.way, row.in_flight(), c), NAN, NAN, 1});
  gbs[size_t(memory_row(rows))].median = c.memory_gbs;
  return gbs;
}

Device made_up(const char* name) {
  for (const Device& device : made_up_devices())
    if (std::string(device.prop.name) == name) return device;
  return {};
}

// 1009 and 20011 are primes. One block takes the last at least 2.4 times round every ring.
constexpr size_t awkward_words[] = {1, 31, 32, 33, 127, 128, 129, 1009, 4096, 20011};
constexpr unsigned awkward_grids[] = {1, 3, 7};

}  // namespace

TEST_CASE("async_copy: the chases visit every slot once") {
  for (const unsigned slots : {1u, 2u, 8u, 4096u, 1u << 20}) {
    unsigned slot = next_slot(0, slots);
    unsigned count = 1;
    for (; slot != 0 && count < slots; slot = next_slot(slot, slots)) ++count;
    CHECK(count == slots);
    CHECK(slot == 0);
  }
  CHECK(ns_a_load(Readings{{2, 2.5, 3}}, 5000).median == doctest::Approx(500));
}

TEST_CASE("async_copy: bytes in flight and names, by hand") {
  // 128 threads x 4 words x 16 bytes are 8 KiB; four stages of them on each of 100 multiprocessors
  const Row ring{&way_of(Kind::async, 4, 4), few, 1, 100, 0};
  CHECK(ring.name() == "cp.async, 4 x 8 KiB");
  CHECK(ring.in_flight() == 32768.0 * 100);
  CHECK(ring_bytes(*ring.way, few) == 32768);
  const Row loads{&way_of(Kind::plain, 1, 16), few, 1, 100, 0};  // 128 threads x 16 words
  CHECK(loads.name() == "plain loads, 16 x 16 bytes");
  CHECK(loads.in_flight() == 32768.0 * 100);
  CHECK(ring_bytes(*loads.way, few) == 0);
  const Row all{&way_of(Kind::bulk, 2, 1), block_full, 8, 100,
                0};  // 8 blocks x 2 stages x 256 words
  CHECK(all.name() == "bulk copies, 2 x 4 KiB");
  CHECK(all.in_flight() == 65536.0 * 100);
  CHECK(all.total() == 204800);
}

TEST_CASE("async_copy: a kernel stands behind every way's name once") {
  for (const Way& a : ways)
    for (const Way& b : ways) {
      const bool same = a.kind == b.kind && a.stages == b.stages && a.words == b.words;
      CHECK((&a == &b) == same);
      CHECK((&a == &b) == (a.kernel == b.kernel));
    }
}

TEST_CASE("async_copy: predictions, by hand") {
  const Way &load = way_of(Kind::plain, 1, 1), &async = way_of(Kind::async, 8, 1),
            &two = way_of(Kind::bulk, 2, 1), &eight = way_of(Kind::bulk, 8, 1);
  REQUIRE(async.stages == 8);
  REQUIRE(two.kind == Kind::bulk);
  REQUIRE(two.stages == 2);
  REQUIRE(eight.kind == Kind::bulk);
  REQUIRE(eight.stages == 8);
  // ns of a load, of a bulk copy, of a stage; bytes in a nanosecond
  const Calibrated c{300, 400, 150, 1000};
  CHECK(predicted_gbs(load, 400e3, c) == doctest::Approx(800));  // 3, 4, 5
  CHECK(predicted_gbs(async, 400e3, c) == doctest::Approx(800));
  CHECK(predicted_gbs(two, 300e3, c) == doctest::Approx(600));    // 4, 3, 5; stages take 300 ns
  CHECK(predicted_gbs(eight, 300e3, c) == doctest::Approx(250));  // eight take 1200
  CHECK(predicted_gbs(eight, 1600e3, c) == doctest::Approx(970.143));        // 4, 16 and no stages
  CHECK(predicted_gbs(load, 3e3, c) == doctest::Approx(10).epsilon(0.001));  // the latency
  CHECK(predicted_gbs(two, 4e3, c) == doctest::Approx(10).epsilon(0.001));
  CHECK(predicted_gbs(eight, 4e8, c) == doctest::Approx(1000).epsilon(0.001));  // the memory
  CHECK(model_of(load, 299e3, c) == Model::latency);
  CHECK(model_of(load, 301e3, c) == Model::traffic);
  CHECK(model_of(two, 399e3, c) == Model::latency);
  CHECK(model_of(two, 401e3, c) == Model::traffic);
  CHECK(model_of(eight, 1199e3, c) == Model::latency);
  CHECK(model_of(eight, 1201e3, c) == Model::traffic);
}

TEST_CASE("async_copy: constants of made-up rows, by hand") {
  // on each of 100 multiprocessors 128 threads x 8 stages x 16 bytes come in 1600 ns
  const std::vector<Row> rows = {{&way_of(Kind::plain, 1, 2), block_full, 8, 100, 0},
                                 {&way_of(Kind::bulk, 8, 1), few, 1, 100, 0}};
  const std::vector<Statistics> gbs = {{4000, NAN, NAN, 1}, {1638400 / 1600.0, NAN, NAN, 1}};
  Calibrated c{300, 400, NAN, NAN};
  calibrate(rows, gbs, c);
  CHECK(c.memory_gbs == 4000);
  CHECK(c.stage_ns == doctest::Approx(200));
  c.stage_ns = NAN;
  calibrate({rows[0]}, {gbs[0]}, c);  // no bulk copies
  CHECK(std::isnan(c.stage_ns));
}

// in_flight's table: 128 and 2048 threads with 16 bytes each, and 2048 with 32, which calibrate.
TEST_CASE("async_copy: the model's plain rows are in_flight's of an H200") {
  const Calibrated c{338, NAN, NAN, 4422};
  CHECK(close(predicted_gbs(way_of(Kind::plain, 1, 1), 264 * 1024, c) / 786.2, 1.02));
  CHECK(close(predicted_gbs(way_of(Kind::plain, 1, 1), 4224 * 1024, c) / 4179, 1.02));
}

// Recorded rates of few threads. The cost of a stage was made part of the model on this GPU; of
// two stages it leaves out that each of them is away for a while.
TEST_CASE("async_copy: the model fits the H200 that it was made for") {
  struct Found {
    Kind kind;
    unsigned stages, words;
    double gbs, within;
  };
  const Calibrated c{339, 369, 189.5, 4397};
  const Found rates[] = {
      {Kind::plain, 1, 1, 684, 1.2},   {Kind::plain, 1, 4, 2032, 1.3},
      {Kind::plain, 1, 16, 4127, 1.1}, {Kind::async, 2, 4, 3052, 1.2},
      {Kind::async, 4, 1, 2175, 1.2},  {Kind::async, 8, 1, 3365, 1.1},
      {Kind::async, 4, 4, 4215, 1.1},  {Kind::bulk, 2, 4, 2963, 1.2},
      {Kind::bulk, 4, 1, 1414, 1.1},   {Kind::bulk, 8, 1, 1427, 1.01},
      {Kind::bulk, 4, 2, 2982, 1.1},   {Kind::bulk, 4, 4, 4142, 1.1},
      {Kind::bulk, 4, 8, 4475, 1.1},   {Kind::bulk, 8, 2, 3706, 1.35},
  };
  for (const Found& f : rates) {
    CAPTURE(f.gbs);
    const Way way{f.kind, f.stages, f.words, nullptr};
    const Row row{&way, few, 1, 132, 0};
    CHECK(close(f.gbs / predicted_gbs(way, row.in_flight(), c), f.within));
  }
}

TEST_CASE("async_copy: memory, rows and rings of made-up GPUs") {
  check_on_made_up_devices([](const Run& run) {
    const cudaDeviceProp& prop = run.device->prop;
    for (const Row& row : rows_of(run)) {
      CAPTURE(row.name());
      const size_t block = row.shared + barriers + prop.reservedSharedMemPerBlock;
      CHECK(row.shared + barriers <= prop.sharedMemPerBlockOptin);
      CHECK(row.shared >= ring_bytes(*row.way, row.threads));
      CHECK(row.blocks * block <= prop.sharedMemPerMultiprocessor);
      CHECK(row.blocks <= unsigned(prop.maxBlocksPerMultiProcessor));
      if (row.threads == few)
        CHECK(2 * block > prop.sharedMemPerMultiprocessor);  // alone
      else
        CHECK(row.blocks * row.threads == unsigned(prop.maxThreadsPerMultiProcessor));
    }
    const double bytes = bytes_read(run), slots = bytes_of_slots(run);
    double taken = 16.0 * slot_words;  // as Slots counts
    while (taken < slots) taken *= 2;
    return Needs{bytes + taken, std::min(bytes, taken)};
  });
}

TEST_CASE("async_copy: made-up GPUs have the copies of their compute capability") {
  CHECK(lacking(Kind::plain, made_up("T4")).empty());
  CHECK(lacking(Kind::async, made_up("T4")) == "needs compute capability 8.0");
  CHECK(lacking(Kind::bulk, made_up("T4")) == "needs compute capability 9.0");
  CHECK(lacking(Kind::async, made_up("RTX 4060 Laptop")).empty());
  CHECK(lacking(Kind::bulk, made_up("RTX 4060 Laptop")) == "needs compute capability 9.0");
  CHECK(lacking(Kind::bulk, made_up("B200")).empty() == (CUDART_VERSION >= 12040));
}

TEST_CASE("async_copy: how many rows a made-up GPU has") {
  struct Expected {
    const char* gpu;
    size_t rows, full;
  };
  // of few threads and by default: 3 of loads, and 6 of each ring; of all: 2, and 1 of each ring
  const size_t bulk = CUDART_VERSION >= 12040 ? 1 : 0;
  const Expected expected[] = {
      {"T4", 5, 7},
      {"RTX 4060 Laptop", 12, 7 + 11 + 1},  // a ring of 128 KiB does not fit
      {"RTX 5090", 12 + 7 * bulk, 19 + 12 * bulk},
      {"B200", 12 + 7 * bulk, 20 + 13 * bulk},
  };
  for (const Expected& e : expected) {
    CAPTURE(std::string(e.gpu));
    std::string printed;
    Report report("async_copy", &printed);
    const Device device = made_up(e.gpu);
    CHECK(rows_of(Run{report, &device, {}}).size() == e.rows);
    CHECK(rows_of(Run{report, &device, {}, false, true}).size() == e.full);
  }
}

TEST_CASE("async_copy: every row of a made-up GPU but those that calibrate is predicted") {
  for (const Device& device : made_up_devices()) {
    std::string printed;
    Report report("async_copy", &printed);
    const Run run{report, &device, {}};
    Calibrated c{300, 500, 400, 4500};
    const std::vector<Row> rows = rows_of(run);
    const std::vector<Statistics> gbs = made_up_rates(rows, c);
    calibrate(rows, gbs, c);
    CHECK(c.stage_ns == doctest::Approx(400));  // eight stages take longer than the latency
    show(run, rows, gbs, c);
    REQUIRE(report.predictions().size() == rows.size() - (stage_row(rows) < 0 ? 1 : 2));
    for (const Prediction& p : report.predictions()) CHECK(close(p.measured / p.predicted, 1.001));
    CHECK(printed.find("calibration") != std::string::npos);
  }
}

TEST_CASE("async_copy: findings say who is faster, and only of what was measured") {
  for (const char* gpu : {"T4", "B200"}) {
    std::string printed;
    Report report("async_copy", &printed);
    const Device device = made_up(gpu);
    const Run run{report, &device, {}};
    const std::vector<Row> rows = rows_of(run);
    std::vector<Readings> times;
    for (const Row& row : rows)  // few threads: loads 4 ms, rings 1; all threads: everything 1 ms
      times.push_back(
          {std::vector<double>(15, row.threads == few && row.way->kind == Kind::plain ? 4 : 1)});
    find_gains(run, rows, times);
    const bool has_rings = std::string(gpu) == "B200";
    CHECK(printed.empty() != has_rings);
    CHECK((printed.find("cp.async, 4 x 16 KiB, 4.00x faster") != std::string::npos) == has_rings);
    CHECK((printed.find("cp.async, 2 x 4 KiB a block, equal") != std::string::npos) == has_rings);
  }
}

namespace {

/// Launches a row once: every thread's sum is the host's, and nothing is written behind them.
void check_row(Memory& memory, const Row& row) {
  CAPTURE(row.name());
  CAPTURE(row.blocks);
  CAPTURE(memory.in.size());
  const Task task = memory.task(row);
  task.check.poison();
  task.launch();
  CUDA_CHECK_LAUNCH();
  std::vector<unsigned> found = memory.out.to_host();
  const auto canaries = found.begin() + row.total();
  CHECK(std::count(canaries, found.end(), ~0u) == long(found.end() - canaries));
  found.resize(row.total());
  CHECK(found == sums_by_host(row, memory.in.size()));
  CHECK(task.check.wrong() == 0);
}

}  // namespace

TEST_CASE("async_copy: every kernel is right at awkward sizes and grids") {
  if (skip_without_gpu()) return;
  const Device device = Device::current();
  for (const size_t words : awkward_words)
    for (const unsigned blocks : awkward_grids) {
      Memory memory(words, blocks * few);
      for (const Way* way : ways_of(device))
        check_row(memory, {way, few, blocks, 1, ring_bytes(*way, few)});
    }
}

TEST_CASE("async_copy: the kernels of all threads are right in their own blocks") {
  if (skip_without_gpu()) return;
  const Device device = Device::current();
  Memory memory(20011, 5 * block_full);
  for (const Way* way : ways_of(device))
    if (for_all_threads(*way))
      check_row(memory, {way, block_full, 5, 1, ring_bytes(*way, block_full)});
}

TEST_CASE("async_copy: the check finds a word left out and another taken twice") {
  if (skip_without_gpu()) return;
  const Row row{&way_of(Kind::plain, 1, 1), few, 1, 3, 0};
  Memory memory(1009, row.total());
  const Task task = memory.task(row);
  task.check.poison();
  CHECK(task.check.wrong() == row.total());
  std::vector<unsigned> sums = sums_by_host(row, 1009);
  memory.out.copy_from(sums);
  CHECK(memory.wrong(row) == 0);
  sums[5] += sum_at(1) - sum_at(2);
  memory.out.copy_from(sums);
  CHECK(memory.wrong(row) == 1);
  memory.out.copy_from(sums_by_host(row, 1008));  // a word that nobody read
  CHECK(memory.wrong(row) == 1);
}

TEST_CASE("async_copy: the rows are resident as a whole, and alone where they should be") {
  if (skip_without_gpu()) return;
#ifdef __CUDACC_DEBUG__
  if (true)
    return skip_self_check("code for the debugger takes more registers, and fewer threads fit");
#endif
  std::string printed;
  Report report("async_copy", &printed);
  const Device device = Device::current();
  for (const Row& row : rows_of(Run{report, &device, {}, false, true})) {
    CAPTURE(row.name());
    CAPTURE(row.threads);
    allow_shared(*row.way, row.shared);
    int blocks = 0;
    CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, row.way->kernel,
                                                             int(row.threads), row.shared));
    CHECK(unsigned(blocks) >= row.blocks);
    cudaFuncAttributes compiled{};
    CUDA_CHECK(cudaFuncGetAttributes(&compiled, row.way->kernel));
    if (row.way->kind == Kind::plain)  // all its words are under way at once
      CHECK(unsigned(compiled.numRegs) >= 4 * row.way->words);
    if (row.threads == few && device.prop.major >= 7) CHECK(blocks == 1);
  }
}

TEST_CASE("async_copy: the chases on the device are the one on the host") {
  if (skip_without_gpu()) return;
  Slots slots(1 << 24);
  REQUIRE(slots.count > Slots::loads);  // after a whole round a chase would stand where it began
  const bool has_bulk = lacking(Kind::bulk, Device::current()).empty();
  for (const auto kernel : {chase, bulk_chase}) {
    if (kernel == bulk_chase && !has_bulk) continue;
    const Task task = slots.task(kernel);
    CHECK(wrong_after(task) == 0);
    CHECK(wrong_after(task) == 0);  // from where it ended
    task.check.poison();
    CHECK(task.check.wrong() == 1);
  }
}

namespace {

// What a forgotten wait does. A block asks for a tile, reads the place where it will be, and only
// then waits, so that no copy outlives the block. Where the words are not there yet stand zeros.
__global__ void async_read_early(unsigned* out, const uint4* in) {
  __shared__ uint4 stage[few];
  stage[threadIdx.x] = make_uint4(0, 0, 0, 0);
  __syncthreads();
  __pipeline_memcpy_async(&stage[threadIdx.x], &in[threadIdx.x], 16);
  __pipeline_commit();
  const volatile unsigned* early = &stage[threadIdx.x].x;
  out[threadIdx.x] = early[0] + early[1] + early[2] + early[3];
  __pipeline_wait_prior(0);
}

__global__ void bulk_read_early(unsigned* out, const uint4* in) {
#ifdef BULK_COPIES
  __shared__ __align__(128) uint4 stage[few];
  __shared__ cuda::barrier<cuda::thread_scope_block> came;
  stage[threadIdx.x] = make_uint4(0, 0, 0, 0);
  if (threadIdx.x == 0) init(&came, 1);
  cuda::device::experimental::fence_proxy_async_shared_cta();  // the copy comes after the zeros
  __syncthreads();
  if (threadIdx.x == 0) {
    cuda::device::memcpy_async_tx(stage, in, cuda::aligned_size_t<16>(sizeof stage), came);
    (void)cuda::device::barrier_arrive_tx(came, 1, sizeof stage);
  }
  const volatile unsigned* early = &stage[threadIdx.x].x;
  out[threadIdx.x] = early[0] + early[1] + early[2] + early[3];
  while (!cuda::ptx::mbarrier_try_wait_parity(cuda::device::barrier_native_handle(came), 0u))
    continue;
#endif
}

}  // namespace

TEST_CASE("async_copy: the check finds words that were read before they came" *
          doctest::test_suite("race")) {
  if (skip_without_gpu()) return;
  const Device device = Device::current();
  if (!lacking(Kind::async, device).empty()) return skip_self_check(lacking(Kind::async, device));
  const Row async{&way_of(Kind::async, 2, 1), few, 1, 1, 0};
  REQUIRE(async.way->words == 1);
  Memory memory(few, few);
  memory.out.poison();
  async_read_early<<<1, few>>>(memory.out.data(), memory.in.data());
  CUDA_CHECK_LAUNCH();
  CHECK(memory.wrong(async) > 0);
  if (!lacking(Kind::bulk, device).empty()) return;
  memory.out.poison();
  bulk_read_early<<<1, few>>>(memory.out.data(), memory.in.data());
  CUDA_CHECK_LAUNCH();
  CHECK(memory.wrong(async) > 0);  // the words of both are the same
}

TEST_CASE("async_copy: measured rows lie where its models predict them" *
          doctest::test_suite("plausible") * doctest::skip()) {
  check_plausible([](const Run& run) { async_copy(run); });
}
