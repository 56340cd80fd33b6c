// Self-checks of sum.cu, compiled in its place where BUILD_TESTING is on.
#include "../sum.cu"

#include "../../framework/common/checks/standard.hpp"

namespace {

/// Element i of n as the text generates it, in groups of four: interleaved slopes.
double pattern(size_t i, size_t n) {
  const size_t first = i / 4 * 4;
  if (i % 4 == 0) return 1.0 + double(n - first - 1) / double(n);
  if (i % 4 == 2) return 1.0 + 3.0 * double(n - first - 1) / double(n);
  return 1.0 - 2.0 * double(first) / double(n);
}

/// What every thread of a launch must find, by the text's two loops, on the host.
std::vector<float> sums_by_host(const Walk& w, NumberAt number) {
  if (w.order == Order::empty) return std::vector<float>(w.launch.total(), 8);
  const bool by_columns = w.order == Order::columns;
  const size_t lines = by_columns ? w.columns : w.rows;
  const size_t along = by_columns ? w.rows : w.columns;
  std::vector<float> sums;
  for (unsigned block = 0; block < w.launch.blocks; ++block)
    for (unsigned thread = 0; thread < w.launch.threads; ++thread) {
      size_t sum = 0;
      for (size_t line = block; line < lines; line += w.launch.blocks)
        for (size_t i = thread; i < along; i += w.launch.threads) {
          size_t word = by_columns ? i * w.columns + line : line * w.columns + i;
          if (w.order == Order::random) word = shuffled(unsigned(word), w.rows * w.columns);
          for (size_t k = 0; k < w.words; ++k)
            sum += w.order == Order::none ? 1 : number.whole(word * w.words + k);
        }
      sums.push_back(float(sum));
    }
  return sums;
}

/// A run whose values are `answer(row, metric)`, on a GPU of 10 x 1000 resident threads and 1000
/// GB/s in theory.
struct MadeUp {
  std::string printed;
  Report report{"sum", &printed};

  MadeUp(double (*answer)(const Ref&, const std::string& metric), bool quick) {
    Device device;
    device.number = -1;
    device.theoretical_gbs = 1000;
    device.prop.multiProcessorCount = 10;
    device.prop.maxThreadsPerMultiProcessor = 1000;
    device.prop.l2CacheSize = 1 << 20;
    device.prop.totalGlobalMem = size_t(64) << 30;
    report.heading(&device, "");
    MadeUpMachine machine(&device, answer);
    carry_out(sum_experiment, Run{report, &device, {}, quick}, machine);
  }
  bool says(const std::string& text) const { return printed.find(text) != std::string::npos; }
  Record record(const std::string& name, const std::string& kind, const std::string& metric) const {
    for (const Record& r : report.records())
      if (r.name == name && r.kind == kind && (r.metric == metric || kind == "claim")) return r;
    return {};
  }
};

}  // namespace

TEST_CASE("sum: the text's pattern adds up to its count plus three, not to its count") {
  for (size_t n : {4, 400, 65536, 1000 * 1000, 4096 * 4096}) {
    double sum = 0;
    for (size_t i = 0; i < n; ++i) sum += pattern(i, n);
    CHECK(sum == doctest::Approx(double(n) + 3).epsilon(1e-12));
  }
}

TEST_CASE("sum: the random order takes every word once") {
  for (unsigned count : {1u, 2u, 3u, 31u, 64u, 101u, 10007u, 65536u, 90000u}) {
    std::vector<unsigned> taken(count, 0);
    for (unsigned x = 0; x < count; ++x) ++taken.at(shuffled(x, count));
    CHECK(taken == std::vector<unsigned>(count, 1));
  }
}

TEST_CASE("sum: who has to take each word, by the text's loops") {
  const NumberAt number{8191};
  for (const Kernel& k : kernels)
    for (const Launch l : {Launch{1, 64}, Launch{7, 33}, Launch{300, 1}}) {
      if (k.order == Order::empty) continue;
      CAPTURE(k.key);
      CAPTURE(l.text());
      const Walk w{k.order, k.words, 101, 60 / k.words, l};
      std::vector<float> sums(l.total(), 0);
      for (unsigned row = 0; row < w.rows; ++row)
        for (unsigned col = 0; col < w.columns; ++col)
          sums.at(taker(w, row, col)) += float(sum_of_load(w, number, row * w.columns + col));
      CHECK(sums == sums_by_host(w, number));
    }
}

TEST_CASE("sum: words of a load, and predicted sectors per request, from the addresses of a warp") {
  constexpr unsigned side = 12288;
  for (const Kernel& k : kernels) {
    CAPTURE(k.key);
    CHECK(k.words == (k.key.back() == '4' ? 4 : 1));
    if (!k.reads()) continue;
    const unsigned columns = side / k.words, count = side * columns;
    std::vector<size_t> sectors;
    for (unsigned lane = 0; lane < 32; ++lane) {
      size_t word = lane;
      if (k.order == Order::columns) word = size_t(lane) * columns;
      if (k.order == Order::random) word = shuffled(lane, count);
      sectors.push_back(word * k.words / 8);
    }
    std::sort(sectors.begin(), sectors.end());
    const auto end = std::unique(sectors.begin(), sectors.end());
    CHECK(sectors_per_request(k) == double(end - sectors.begin()));
  }
  CHECK(missing(*kernel_of("sum_rows4"), 1022) != "");     // no rows of 16-byte words
  CHECK(missing(*kernel_of("sum_random"), 65536) != "");   // too many words for the shuffle
  CHECK(missing(*kernel_of("sum_random4"), 65536) == "");  // a quarter of them
}

TEST_CASE("sum: launches fill made-up devices once, twice and four times") {
  const auto device = [](int multiprocessors, int resident_threads) {
    cudaDeviceProp prop{};
    prop.multiProcessorCount = multiprocessors;
    prop.maxThreadsPerMultiProcessor = resident_threads;
    return prop;
  };
  for (const cudaDeviceProp& prop : {device(40, 1024), device(24, 1536), device(148, 2048)}) {
    const std::vector<Launch> launches = candidates(prop);
    CHECK(launches.size() == 13);
    for (const Launch l : launches) {
      const double full = double(prop.multiProcessorCount) * prop.maxThreadsPerMultiProcessor;
      CHECK(l.blocks > 0);
      CHECK(l.threads <= 1024);
      if (l.blocks != text_launch.blocks) CHECK(l.total() <= 4 * full);
      if (l.blocks != text_launch.blocks) CHECK(l.blocks % prop.multiProcessorCount == 0);
    }
  }
}

TEST_CASE("sum: predictions, by hand") {
  Device device;
  device.number = -1;
  device.prop.multiProcessorCount = 10;
  device.prop.maxThreadsPerMultiProcessor = 1000;
  const Calibrated c{1, 0.001, 1e-5, 1e-4};
  const auto ms = [&](const char* key, Launch l) {
    return predicted_ms(*kernel_of(key), l, 1000, c, device);
  };
  CHECK(ms("sum_rows", {5, 100}) == doctest::Approx(2));        // 2000 loads of a thread, 1 us each
  CHECK(ms("sum_rows", {10, 1000}) == doctest::Approx(1));      // 100 loads: the bandwidth
  CHECK(ms("sum_rows", {20, 1000}) == doctest::Approx(1));      // no more threads are resident
  CHECK(ms("sum_rows_eight", {5, 100}) == doctest::Approx(1));  // 250 latencies
  CHECK(ms("sum_rows4", {1, 100}) == doctest::Approx(2.5));     // 2500 latencies
  CHECK(ms("sum_random", {1, 100}) == doctest::Approx(100));    // a million lone sectors
  CHECK(ms("sum_random4", {1, 100}) == doctest::Approx(25));    // a quarter of them
  CHECK(ms("sum_columns", {1, 100}) == doctest::Approx(11.25));  // a million lookups, 125000 fills
  CHECK(ms("sum_columns4", {1, 100}) == doctest::Approx(3.75));  // a quarter, and as many fills
}

TEST_CASE("sum: what decides each part") {
  const auto given = [](const char* part, std::vector<Given> rows) {
    return verdict_if(sum_experiment, part, std::move(rows));
  };
  const std::string holds = "holds";
  CHECK(given("04.2a", {{"sum_columns_best", 77}, {"sum_rows_best", 1}}) == holds);
  CHECK(given("04.2a", {{"sum_columns_best", 1}, {"sum_rows_best", 77}}) == "no longer");
  CHECK(given("04.2b", {{"sum_random_best", 1}, {"sum_columns_best", 1}}) == holds);
  CHECK(given("04.2b", {{"sum_random_best", 4}, {"sum_columns_best", 1}}) == "no longer");
  CHECK(given("04.3", {{"sum_rows4_best", 1.8}, {"sum_rows_best", 1}}) == holds);
  CHECK(given("04.3", {{"sum_rows4_best", 1}, {"sum_rows_best", 1.8}}) == "no longer");
  CHECK(given("04.4a", {{"sum_columns_best", 4}, {"sum_columns4_best", 1}}) == holds);
  CHECK(given("04.4a", {{"sum_columns_best", 1}, {"sum_columns4_best", 4}}) == "no longer");
  // as many loads per second: four times as many in words of 4 bytes
  CHECK(given("04.4b", {{"sum_random4_best", 1}, {"sum_random_best", 4}}) == holds);
  CHECK(given("04.4b", {{"sum_random4_best", 1}, {"sum_random_best", 1}}) == "does not hold");
}

TEST_CASE("sum: 04.1 is decided by the array's bytes and the data sheet's rate") {
  const auto claim = [](double (*ms)(const Ref&, const std::string&)) {
    return MadeUp(ms, false).record("04.1", "claim", "");
  };
  const Record near = claim([](const Ref& ref, const std::string&) {
    return ref.key == "sum_rows_best" ? 0.7366 : 9.0;  // 604 MB at 1000 GB/s take 0.604 ms
  });
  const Record far = claim(
      [](const Ref& ref, const std::string&) { return ref.key == "sum_rows_best" ? 1.4731 : 0.7; });
  CHECK(near.value == doctest::Approx(0.82).epsilon(1e-4));
  CHECK(near.metric == "holds");
  CHECK(far.value == doctest::Approx(0.41).epsilon(1e-4));
  CHECK(far.metric == "no longer");
}

TEST_CASE("sum: the host is compared with the GPU's best launch by rows, per byte") {
  const MadeUp run(
      [](const Ref& ref, const std::string&) {
        return ref.key == "host_rows" ? 10.0 : ref.key == "sum_rows_best" ? 1.0 : 3.0;
      },
      true);  // half as wide on the host
  CHECK(run.says("host, 10 threads: by rows, all cores: 40.0x slower than by rows, float, best"));
}

TEST_CASE("sum: the launch that takes least time, and that random order gets the columns'") {
  const std::vector<Launch> all{{1, 64}, {2, 64}, {3, 64}};
  CHECK(fastest(all, [](Launch l) { return l.blocks == 2 ? 0.9 : 1.0; }).blocks == 2);
  CHECK(fastest(all, [](Launch l) { return l.blocks; }).blocks == 1);
  const MadeUp run(
      [](const Ref& ref, const std::string& metric) {
        const double of = ref.key == "sum_columns_best"    ? 70
                          : ref.key == "sum_columns4_best" ? 80
                                                           : 90;
        return metric == "blocks" ? of : metric == "threads of a block" ? 33 : 1.0;
      },
      false);
  CHECK(run.says("by columns, float, best launch      70 x 33"));
  CHECK(run.says("random, float, best launch          70 x 33"));
  CHECK(run.says("by columns, float4, best launch     80 x 33"));
  CHECK(run.says("random, float4, best launch         80 x 33"));
  CHECK(run.says("by rows, float, best launch         90 x 33"));
}

TEST_CASE("sum: the latency is that of the threads which are resident") {
  const MadeUp run(
      [](const Ref&, const std::string& metric) {
        return metric == "blocks" ? 50.0 : metric == "threads of a block" ? 1000.0 : 1.0;
      },
      false);
  // of both launches more threads than fit: as many loads in flight, as long
  CHECK(run.record("sum_rows_best", "predicted", "time").value == doctest::Approx(1));
}

TEST_CASE("sum: the sum of every thread, and of a row, stays exact, however large the array") {
  for (const double side : {4.0, 12288.0, 32768.0, 65540.0, 1000000.0}) {
    const double largest = largest_word(unsigned(side), {text_launch});
    const double rows = std::ceil(side / 1024);
    const double columns = std::ceil(side / 192);
    CHECK(rows * columns * largest < 1 << 24);                            // by rows, float
    CHECK(rows * std::ceil(side / 4 / 192) * 4 * largest < 1 << 24);      // by rows, float4
    CHECK(std::ceil(side / 4 / 1024) * 4 * columns * largest < 1 << 24);  // by columns, float4
    CHECK(side * largest < 1 << 24);                                      // of a row
    CHECK(largest >= 1);
    if (side == 12288) CHECK(largest == 1365);
  }
}

TEST_CASE("sum: the check is that of the text's loops") {
  if (skip_without_gpu()) return;
  for (const unsigned side : {1u, 4u, 31u, 100u, 257u})
    for (const Launch l : {Launch{1, 1024}, Launch{7, 33}, Launch{300, 192}}) {
      const Shared square(Square(side, {l}));
      for (const Kernel& k : kernels) {
        if (!missing(k, side).empty()) continue;
        CAPTURE(k.key);
        CAPTURE(side);
        CHECK(wrong_after(task_of(square, k.key, l)) == 0);
        std::vector<float> found = square->out.to_host();
        found.resize(l.total());  // behind them there is room for a sum per row
        CHECK(found == sums_by_host(square->walk(k, l), square->number));
      }
    }
}

TEST_CASE("sum: the check finds a word left out and another taken twice") {
  if (skip_without_gpu()) return;
  const Launch l{70, 33};
  const Shared square(Square(257, {l}));
  const Task task = task_of(square, "sum_rows", l);
  REQUIRE(wrong_after(task) == 0);
  std::vector<float> sums = square->out.to_host();
  sums[5] += float(square->number.whole(1)) - float(square->number.whole(2));
  square->out.copy_from(sums);
  CHECK(task.check.wrong() == 1);
}

TEST_CASE("sum: the text's array at its launch" * doctest::test_suite("large")) {
  if (skip_without_gpu()) return;
  if (Device::free_bytes() < 800ull << 20) return skip_self_check("needs 800 MiB of memory");
  const Shared square(Square(12288, {text_launch}));
  for (const Kernel& k : kernels) CHECK(wrong_after(task_of(square, k.key, text_launch)) == 0);
}

TEST_CASE("sum: more than 2^32 words" * doctest::test_suite("large")) {
  if (skip_without_gpu()) return;
  constexpr unsigned side = 65540;
  if (bytes_read(side) > 0.9 * double(Device::free_bytes()))
    return skip_self_check("needs " + bytes_text(bytes_read(side)) + " of device memory");
  const Shared square(Square(side, {text_launch}));
  for (const Kernel& k : kernels) {
    CAPTURE(k.key);
    if (missing(k, side).empty()) CHECK(wrong_after(task_of(square, k.key, text_launch)) == 0);
  }
}

EXPERIMENT_CHECKS(sum)
