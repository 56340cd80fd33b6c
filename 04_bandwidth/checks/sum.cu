// Self-checks of sum.cu, compiled in its place where BUILD_TESTING is on.
#include "../sum.cu"

#include "../../common/checks/made_up_devices.hpp"
#include "../../common/checks/standard.hpp"

namespace {

/// Element i of n as the text generates it, in groups of four: interleaved slopes.
double pattern(size_t i, size_t n) {
  const size_t first = i / 4 * 4;
  if (i % 4 == 0) return 1.0 + double(n - first - 1) / double(n);
  if (i % 4 == 2) return 1.0 + 3.0 * double(n - first - 1) / double(n);
  return 1.0 - 2.0 * double(first) / double(n);
}

const Access& access(const char* key) {
  const Access* found = with_key(accesses, key);
  REQUIRE(found != nullptr);
  return *found;
}

/// With another launch, in another array.
Walk walk(const Access& a, Launch l, unsigned rows, unsigned columns) {
  Access launched = a;
  launched.launch = l;
  return walk_of(launched, {rows, columns});
}

/// What every thread of a launch must find, from words to threads, where kernels and right_sum go
/// from threads to words: a block reads every so many-th row, and its threads the words of the row
/// in turn; or columns likewise.
std::vector<unsigned> sums_by_words(const Access& a, const Walk& w) {
  std::vector<unsigned> sums(w.launch.total(), a.order == Order::empty ? 8 : 0);
  if (a.order == Order::empty) return sums;
  for (unsigned row = 0; row < w.rows; ++row)
    for (unsigned col = 0; col < w.columns; ++col) {
      const unsigned line = a.order == Order::columns ? col : row;
      const unsigned along = a.order == Order::columns ? row : col;
      size_t load = size_t(row) * w.columns + col;
      if (a.order == Order::random) load = shuffled(unsigned(load), w.rows * w.columns);
      unsigned& sum = sums[line % w.launch.blocks * w.launch.threads + along % w.launch.threads];
      for (size_t k = 0; k < a.word; ++k)
        sum += a.order == Order::no_loads ? 1 : whole_number(load * a.word + k);
    }
  return sums;
}

/// A run whose rows take these times, on a GPU of 1000 GB/s.
struct MadeUp {
  std::string printed;
  Report report{"sum", &printed};
  Device device = made_up_devices()[0];

  explicit MadeUp(double (*ms)(const Ref&)) {
    device.theoretical_gbs = 1000;
    report.heading(&device, "");
    MadeUpMachine machine(&device, [ms](const Ref& ref, const std::string& metric) {
      return metric == "time" ? ms(ref) : 1.0;
    });
    carry_out(sum_experiment, Run{report, &device, {}}, machine);
  }
  bool says(const std::string& text) const { return printed.find(text) != std::string::npos; }
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

TEST_CASE("sum: what each thread must find, word by word") {
  for (const Access& a : accesses)
    for (const Launch l : {Launch{1, 64}, Launch{7, 33}, Launch{300, 1}}) {
      CAPTURE(a.key);
      CAPTURE(l.text());
      const Walk w = walk(a, l, 101, 60);
      std::vector<unsigned> sums;
      for (unsigned t = 0; t < l.total(); ++t) sums.push_back(right_sum(w, t));
      CHECK(sums == sums_by_words(a, w));
    }
}

TEST_CASE("sum: every thread's sum is exact in float, on every GPU") {
  CHECK(whole_number(12345) != whole_number(12345 + (size_t(1) << 32)));
  for (const Device& device : made_up_devices()) {
    std::string printed;
    Report report("sum", &printed);
    const double side = shape_of(Run{report, &device, {}}).rows;
    for (const Launch l : candidates(&device)) {
      CHECK(l.threads <= 1024);
      const double lines = std::ceil(side / 4 / l.blocks) * 4;  // of words, or of quads
      CHECK(64 * lines * std::ceil(side / 4 / l.threads) * 4 < 1 << 24);
    }
  }
}

TEST_CASE("sum: bytes, sectors per request and predictions, by hand") {
  // a quarter of a millisecond for all bytes; a load takes 1 us, a lookup 10 ns, a lone sector
  // 100 ns; 1000 x 1000 words
  const Calibrated c{.bandwidth = 0.25, .latency = 1e-3, .lookup = 1e-5, .lone_sector = 1e-4};
  struct Row {
    const char* key;
    double sectors;
    double few_ms, many_ms;  ///< with 500 and with 10000 resident threads
  };
  const Row rows[] = {{"sum_rows", 4, 2, 0.25},  // 2000 loads of a thread
                      {"sum_rows_eight", 4, 0.25, 0.25}, {"sum_rows4", 16, 0.5, 0.25},
                      {"sum_columns", 32, 11.25, 11.25},  // a million lookups, 125,000 fills
                      {"sum_columns4", 32, 3.75, 3.75},   // a quarter, and as many fills
                      {"sum_random", 32, 100, 100},      {"sum_random4", 32, 25, 25},
                      {"no_reads", NAN, NAN, NAN},       {"empty", NAN, NAN, NAN}};
  REQUIRE(std::size(rows) == std::size(accesses));
  const auto equal = [](double a, double b) {
    return std::isnan(b) ? std::isnan(a) : a == doctest::Approx(b);
  };
  for (const Row& row : rows) {
    CAPTURE(std::string(row.key));
    const Access& a = access(row.key);
    CHECK(equal(sectors_per_request(a, square(12288)), row.sectors));
    CHECK(equal(predicted_ms(a, 500, 1e6, c), row.few_ms));
    CHECK(equal(predicted_ms(a, 10000, 1e6, c), row.many_ms));
  }
  CHECK(sectors_per_request(access("sum_columns"), square(5)) == 3);  // words 0, 5 ... 20
  CHECK(bytes_of(square(12288)) == 603979776);
  CHECK(missing(access("sum_rows4"), square(1022)) != "");     // no rows of 16-byte words
  CHECK(missing(access("sum_random"), square(65536)) != "");   // too many words for the shuffle
  CHECK(missing(access("sum_random4"), square(65536)) == "");  // a quarter of them
}

TEST_CASE("sum: resident threads, by hand") {
  cudaDeviceProp prop{};
  prop.multiProcessorCount = 10;
  prop.maxThreadsPerMultiProcessor = 1000;
  CHECK(resident_threads({.launch = {5, 100}}, prop) == 500);
  CHECK(resident_threads({.launch = {500, 100}}, prop) == 10000);
  CHECK(resident_threads({.launch = {5, 100}, .best = true}, prop) == 10000);
}

TEST_CASE("sum: the launch that takes least time is measured again, also in random order") {
  const MadeUp run([](const Ref& ref) {
    if (ref.key.ends_with("x256") && ref.key.starts_with("sum_columns_")) return 0.9;
    return ref.key.ends_with("x1024") && ref.key.starts_with("sum_rows4_") ? 0.8 : 1.0;
  });
  CHECK(run.says("by rows, float, best launch 1024x192 "));  // the first of equals
  const int resident = run.device.prop.maxThreadsPerMultiProcessor;
  const auto launch = [&](int threads) {
    return std::to_string(run.device.prop.multiProcessorCount * (resident / threads)) + "x" +
           std::to_string(threads) + " ";
  };
  CHECK(run.says("by rows, float4, best launch " + launch(1024)));
  CHECK(run.says("by columns, float, best launch " + launch(256)));
  CHECK(run.says("random, float, best launch " + launch(256)));
  CHECK(run.says("by columns, float4, best launch 1024x192 "));
}

TEST_CASE("sum: a launch of more threads than are resident is predicted by those that are") {
  const MadeUp run([](const Ref&) { return 1.0; });
  for (const Record& r : run.report.records())
    if (r.name == "sum_rows_best" && r.kind == "predicted" && r.metric == "time")
      CHECK(r.value == doctest::Approx(1));
}

TEST_CASE("sum: the host is compared per byte") {
  const MadeUp run([](const Ref& ref) { return ref.key == "host_rows" ? 10.0 : 1.0; });
  // the host's array has one word, as its made-up memory holds no more
  CHECK(run.says("host, by rows, 1 threads: 1509949440x slower than by rows, float, best launch"));
  CHECK(run.says("per byte"));
}

TEST_CASE("sum: what decides each part") {
  const auto part = [](const char* id, const std::vector<Given>& given) {
    return verdict_if(sum_experiment, id, given);
  };
  const auto text_of = verdict_text;
  CHECK(part("04.2a", {{"sum_columns_best", 77}}) == text_of(Verdict::holds));
  CHECK(part("04.2a", {{"sum_columns_best", 3}}) == text_of(Verdict::holds_weaker));
  CHECK(part("04.2a", {{"sum_rows_best", 3}}) == text_of(Verdict::no_longer));
  CHECK(part("04.2b", {{"sum_random_best", 4}}) == text_of(Verdict::no_longer));
  CHECK(part("04.2b", {{"sum_columns_best", 4}}) == text_of(Verdict::holds));
  CHECK(part("04.3", {{"sum_rows4_best", 1.8}}) == text_of(Verdict::holds));
  CHECK(part("04.3", {{"sum_rows_best", 1.8}}) == text_of(Verdict::no_longer));
  CHECK(part("04.4a", {{"sum_columns_best", 4.1}}) == text_of(Verdict::holds));
  CHECK(part("04.4a", {{"sum_columns4_best", 4.1}}) == text_of(Verdict::no_longer));
  CHECK(part("04.4b", {{"sum_random_best", 4.1}}) == text_of(Verdict::holds));
  CHECK(part("04.4b", {{"sum_random4_best", 4}}) == text_of(Verdict::does_not_hold));
  CHECK(part("04.4b", {}) == text_of(Verdict::does_not_hold));  // a quarter of the loads, as long
}

TEST_CASE("sum: 04.1 is decided by the array's bytes and the data sheet's rate") {
  const auto claim = [](double (*ms)(const Ref&)) {
    const MadeUp run(ms);
    return *std::ranges::find(run.report.records(), "04.1", &Record::name);
  };
  const auto fast = [](const Ref& ref) { return ref.key == "sum_rows_best" ? 0.7366 : 9.0; };
  const auto slow = [](const Ref& ref) { return ref.key == "sum_rows_best" ? 1.4731 : 0.7; };
  CHECK(claim(fast).value == doctest::Approx(0.82).epsilon(1e-4));  // 604 MB at 1000 GB/s: 0.604 ms
  CHECK(claim(fast).metric == verdict_text(Verdict::holds));
  CHECK(claim(slow).value == doctest::Approx(0.41).epsilon(1e-4));
  CHECK(claim(slow).metric == verdict_text(Verdict::no_longer));
}

TEST_CASE("sum: every thread has the sum of its words") {
  if (skip_without_gpu()) return;
  for (const unsigned side : {1u, 4u, 31u, 100u, 257u})
    for (const Launch l : {Launch{1, 1024}, Launch{7, 33}, Launch{300, 192}}) {
      const Shared<Array> x(Array(square(side), l.total()));
      for (Access a : accesses) {
        if (!missing(a, square(side)).empty()) continue;
        a.launch = l;
        CAPTURE(a.key);
        CAPTURE(side);
        CHECK(wrong_after(task_of(x, a.key, a)) == 0);
        const std::vector<float> found = x->out.to_host();
        const std::vector<unsigned> right = sums_by_words(a, walk_of(a, square(side)));
        CHECK(found == std::vector<float>(right.begin(), right.end()));
      }
    }
}

TEST_CASE("sum: the check finds a word left out and another taken twice, and a thread too many") {
  if (skip_without_gpu()) return;
  const Launch l{70, 33};
  const Shared<Array> x(Array(square(257), l.total() + 1));
  Access a = access("sum_rows");
  a.launch = l;
  const Task task = task_of(x, a.key, a);
  REQUIRE(wrong_after(task) == 0);
  std::vector<float> sums = x->out.to_host();
  sums[5] += float(whole_number(1)) - float(whole_number(2));
  sums[l.total()] = 0;  // was poison
  x->out.copy_from(sums);
  CHECK(task.check.wrong() == 2);
}

TEST_CASE("sum: the text's array at its launch" * doctest::test_suite("large")) {
  if (skip_without_gpu()) return;
  if (Device::free_bytes() < 800ull << 20) return skip_self_check("needs 800 MiB of memory");
  const Shared<Array> x(Array(square(12288), text_launch.total()));
  for (const Access& a : accesses) CHECK(wrong_after(task_of(x, a.key, a)) == 0);
}

TEST_CASE("sum: more than 2^32 words" * doctest::test_suite("large")) {
  if (skip_without_gpu()) return;
  const Shape m = square(65540);
  if (bytes_of(m) > 0.9 * double(Device::free_bytes()))
    return skip_self_check("needs " + bytes_text(bytes_of(m)) + " of device memory");
  const Shared<Array> x(Array(m, text_launch.total()));
  for (const Access& a : accesses) {
    CAPTURE(a.key);
    if (missing(a, m).empty()) CHECK(wrong_after(task_of(x, a.key, a)) == 0);
  }
}

EXPERIMENT_CHECKS(sum)
