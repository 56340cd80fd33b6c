// Self-checks of what every sample includes: statistics, verdicts, tables, the CSV, the owners.
#include "command_line.hpp"

#include <fstream>
#include <sstream>

int main(int argc, char** argv) {
  return run_sample({.topic = "common", .about = "Self-checks of common/", .experiments = {}}, argc, argv);
}

TEST_CASE("statistics: one value, even and odd counts, ties") {
  const Statistics one = summarize({7});
  CHECK(one.median == 7);
  CHECK(one.low == 7);
  CHECK(one.high == 7);
  CHECK(one.repeats == 1);
  CHECK(one.spread() == 0);

  CHECK(summarize({4, 1, 3, 2}).median == 2.5);
  CHECK(summarize({30, 10, 20}).median == 20);

  const Statistics eleven = summarize({10, 0, 9, 1, 8, 2, 7, 3, 6, 4, 5});  // percentiles fall on values
  CHECK(eleven.low == 1);
  CHECK(eleven.median == 5);
  CHECK(eleven.high == 9);
  CHECK(eleven.spread() == 8.0 / 5);

  const Statistics two = summarize({0, 10});  // and between them
  CHECK(two.low == doctest::Approx(1).epsilon(1e-12));
  CHECK(two.high == doctest::Approx(9).epsilon(1e-12));

  const Statistics tied = summarize({5, 5, 5, 5});
  CHECK(tied.low == 5);
  CHECK(tied.high == 5);
  CHECK_THROWS_AS(summarize({}), std::invalid_argument);
}

TEST_CASE("statistics: a rate turns low and high round") {
  const Statistics gbs = gigabytes_per_second(8e9, {4, 2, 8, 3});
  CHECK(gbs.median == 2000);
  CHECK(gbs.low == 1000);
  CHECK(gbs.high == 4000);
  CHECK(gbs.repeats == 3);
}

TEST_CASE("measuring: repeats follow the budget unless they were typed") {
  const Measuring usual{.repeats = 20, .typed = false, .budget_ms = 250};
  CHECK(usual.repeats_for(1) == 20);
  CHECK(usual.repeats_for(25) == 10);
  CHECK(usual.repeats_for(1000) == 5);
  CHECK(Measuring{.repeats = 3}.repeats_for(1000) == 3);
  CHECK(Measuring{.repeats = 50, .typed = true}.repeats_for(1000) == 50);
}

TEST_CASE("verdicts: the direction must exceed the spread of both sides") {
  const auto around = [](double median, double low, double high) { return Statistics{median, low, high, 9}; };
  CHECK(judge_ratio(around(2, 1.5, 2.5), around(1, 0.9, 1.49)).verdict == Verdict::holds);
  CHECK(judge_ratio(around(2, 1.5, 2.5), around(1, 0.9, 1.5)).verdict ==
        Verdict::no_longer_holds);  // touching is not beyond
  CHECK(judge_ratio(around(2, 1.5, 2.5), around(1, 0.9, 1.51)).verdict == Verdict::no_longer_holds);
  CHECK(judge_ratio(around(1, 1, 1), around(2, 2, 2)).verdict == Verdict::no_longer_holds);
  CHECK(judge_ratio(around(1, 1, 1), around(1, 1, 1)).verdict == Verdict::no_longer_holds);
  CHECK(judge_ratio(around(NAN, NAN, NAN), around(1, 1, 1)).verdict == Verdict::no_longer_holds);
}

TEST_CASE("verdicts: a stated factor is met within a quarter") {
  const Statistics one{1, 1, 1, 1};
  const auto verdict = [&](double ratio) { return judge_ratio({ratio, ratio, ratio, 1}, one, 8).verdict; };
  CHECK(verdict(8) == Verdict::holds);
  CHECK(verdict(6) == Verdict::holds);
  CHECK(verdict(5.99) == Verdict::holds_by_less);
  CHECK(verdict(10) == Verdict::holds);
  CHECK(verdict(10.01) == Verdict::holds_by_more);
  CHECK(verdict(0.9) == Verdict::no_longer_holds);
  CHECK(judge_ratio({3, 3, 3, 1}, one, 8).value == 3);
}

TEST_CASE("verdicts: no gain") {
  const Statistics base{10, 9.5, 10.5, 9};
  CHECK(judge_no_gain(base, {10, 9.5, 10.5, 9}, 0.02).verdict == Verdict::holds);
  CHECK(judge_no_gain(base, {12, 11.5, 12.5, 9}, 0.02).verdict == Verdict::holds);  // slower is no gain either
  CHECK(judge_no_gain(base, {9.4, 9.3, 9.6, 9}, 0.02).verdict == Verdict::holds);   // within the spread
  CHECK(judge_no_gain(base, {9, 8.9, 9.4, 9}, 0.02).verdict == Verdict::no_longer_holds);
  CHECK(judge_no_gain(base, {9, 8.9, 9.4, 9}, 0.20).verdict == Verdict::holds);
  CHECK(judge_fact(true, "").verdict == Verdict::holds);
  CHECK(judge_fact(false, "").verdict == Verdict::no_longer_holds);
  CHECK(not_judged("why").here == "why");
}

TEST_CASE("text: numbers, bytes, shares, bars") {
  CHECK(fixed(1.005e3, 1) == "1005.0");
  CHECK(fixed(NAN, 1) == "-");
  CHECK(times(3.456) == "3.5x");
  CHECK(times(1.004) == "1.00x");
  CHECK(times(123.4) == "123x");
  CHECK(bytes_text(400) == "400 B");
  CHECK(bytes_text(65536) == "64 KiB");
  CHECK(bytes_text(1536) == "1.50 KiB");
  CHECK(bytes_text(1073741824) == "1.00 GiB");
  CHECK(percent(0.125) == "12%");
  CHECK(percent(1.3) == "130% (cache)");
  CHECK(bar(0) == "");
  CHECK(bar(1) == "██████████");
  CHECK(bar(7) == bar(1));
  CHECK(bar(0.25) == "██▌");
  CHECK(bar(0.0125) == "▏");
  CHECK(display_width("a→b") == 3);
}

TEST_CASE("report: rows and claims are saved in the tidy form") {
  Report report("topic");
  std::ostringstream shown;
  std::streambuf* const out = std::cout.rdbuf(shown.rdbuf());
  report.begin("experiment", "3 bytes");
  Table table(
      report, "kernel",
      {measured("ms", "time", "ms", 2), predicted("sectors", "load sectors a request", "", 0), ::shown("note")});
  table.row({"a, \"b\"", "threads", "32"}, {Statistics{1.5, 1.25, 2, 9}, 4.0, std::string("words")});
  table.row({"c"}, {std::monostate{}, NAN, std::string()});
  table.print();
  report.claim({"99.1", "is faster", "GTX", "2x"}, judge_ratio({3, 3, 3, 1}, {1, 1, 1, 1}, 2));
  report.summary();
  std::cout.rdbuf(out);
  CHECK_THROWS_AS(table.row({"d"}, {1.0}), std::logic_error);

  CHECK(shown.str() ==
        "\nexperiment: 3 bytes\n"
        "  kernel        ms  sectors   note\n"
        "  a, \"b\", 32  1.50        4  words\n"
        "  c              -        -\n"
        "  99.1  holds, by more   is faster: here 3.0x; then (GTX): 2x\n"
        "\nclaims: holds, by more: 1\n");
  const std::string toolkit = cuda_version_text(CUDART_VERSION);
  CHECK(report.csv("2026-01-02") ==
        std::string(csv_header) +
            "\n"
            "topic,experiment,\"a, \"\"b\"\"\",threads,32,measured,time,ms,1.5,1.25,2,9,,,," +
            toolkit +
            ",2026-01-02\n"
            "topic,experiment,\"a, \"\"b\"\"\",threads,32,predicted,load sectors a request,,4,,,,,,," +
            toolkit +
            ",2026-01-02\n"
            "topic,experiment,99.1,is faster,3.0x,claim,\"holds, by more\",x,3,,,,,,," +
            toolkit +
            ",2026-01-02\n"
            "topic,experiment,99.1,GTX,2x,then,reported,,,,,,,,," +
            toolkit + ",2026-01-02\n");
}

TEST_CASE("command line: plain decimal numbers only") {
  CHECK(parse_number("x", "1", 1, 100) == 1);
  CHECK(parse_number("x", "100", 1, 100) == 100);
  CHECK(parse_number("x", "007", 1, 100) == 7);
  for (const char* wrong :
       {"", "0", "-1", "+1", "101", "abc", "1e3", "0x10", "3x", "1,2", " 1", "1 ", "1.0", "18446744073709551616"}) {
    CAPTURE(wrong);
    CHECK_THROWS_AS(parse_number("x", wrong, 1, 100), UsageError);
  }
}

TEST_CASE("output file: whole or not at all") {
  namespace fs = std::filesystem;
  std::string pattern =
      (fs::temp_directory_path() / "samples ü XXXXXX").string();  // a path with spaces and non-ASCII letters
  REQUIRE(mkdtemp(pattern.data()));
  const fs::path folder = pattern, file = folder / "out.csv";
  const auto text = [](const fs::path& path) {
    std::ifstream in(path);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  const auto entries = [&] { return std::distance(fs::directory_iterator(folder), {}); };

  OutputFile(file.string()).finish("first");
  CHECK(text(file) == "first");
  { OutputFile abandoned(file.string()); }
  CHECK(text(file) == "first");  // what stood there stays
  CHECK(entries() == 1);         // and nothing beside it
  fs::create_symlink(file, folder / "link");
  OutputFile((folder / "link").string()).finish("second");
  CHECK(fs::is_symlink(folder / "link"));
  CHECK(text(file) == "second");
  CHECK(entries() == 2);
  CHECK_THROWS_AS(OutputFile(folder.string()), std::runtime_error);
  CHECK_THROWS_AS(OutputFile((folder / "none" / "x").string()), std::runtime_error);
  CHECK_THROWS_AS(OutputFile("/dev/full").finish("x"), std::runtime_error);
  fs::remove_all(folder);
}

TEST_CASE("errors: a failed call names itself, its place and its reason") {
  try {
    CUDA_CHECK(cudaErrorInvalidValue);
    FAIL("no exception");
  } catch (const CudaError& error) {
    CHECK(error.code == cudaErrorInvalidValue);
    CHECK(error.call == "cudaErrorInvalidValue");
    CHECK(error.name() == "cudaErrorInvalidValue");
    CHECK(error.description() == "invalid argument");
    CHECK(std::string(error.what()).find("self_checks.cu:" + std::to_string(error.line)) != std::string::npos);
  }
  CHECK_THROWS_AS(require_right(false, "x"), WrongResult);
  CHECK_NOTHROW(require_right(true, "x"));
  CHECK_NOTHROW(require_fits("x", 5, 5));
  CHECK_THROWS_WITH_AS(require_fits("--size 9", 2048, 1024), "--size 9 needs 2 KiB, but 1 KiB are free", UsageError);
}

TEST_CASE("owners: large: memory comes back and moves") {
  if (skip_without_gpu()) return;
  size_t before = 0;
  for (int round = 0; round < 2; ++round) {  // in the first the driver takes some for itself
    CUDA_CHECK(cudaFree(nullptr));
    before = Device::free_bytes();
    DeviceBuffer<int> a(std::vector<int>{1, 2, 3});
    DeviceBuffer<int> b(std::move(a));
    CHECK(a.data() == nullptr);
    CHECK(b.to_host() == std::vector<int>{1, 2, 3});
    b.poison();
    CHECK(b.to_host() == std::vector<int>{-1, -1, -1});
    b = DeviceBuffer<int>(size_t(64) << 20);
    CHECK(Device::free_bytes() < before);
    CHECK_THROWS_AS(b.copy_from(std::vector<int>(b.size() + 1)), std::length_error);
    PinnedBuffer<float> pinned(5);
    pinned[4] = 2;
    CHECK(pinned.bytes() == 20);
    CHECK(DeviceBuffer<int>(0).to_host().empty());
    CHECK_THROWS_AS(DeviceBuffer<char>(~size_t(0) / 2), CudaError);
    CHECK(cudaGetLastError() == cudaSuccess);  // the failure was cleared
  }
  CHECK(Device::free_bytes() == before);
}

TEST_CASE("timing: large: an event never shows less than what the device did") {
  if (skip_without_gpu()) return;
  DeviceBuffer<char> memory(size_t(256) << 20);
  const auto set = [&] { CUDA_CHECK(cudaMemsetAsync(memory.data(), 1, memory.bytes())); };
  const Statistics once = time_device({.repeats = 7}, set);
  const Statistics ten = time_device({.repeats = 7}, [&] {
    for (int i = 0; i < 10; ++i) set();
  });
  CHECK(once.repeats == 7);
  CHECK(once.median > 0);
  CHECK(ten.median > 5 * once.median);
  CHECK(time_device({.repeats = 7}, set, {.launches = 10}).median < 2 * once.median);
  const ColdCache cold(1 << 20);
  CHECK(time_device({.repeats = 3}, set, {.cold = &cold}).median > 0);
}
