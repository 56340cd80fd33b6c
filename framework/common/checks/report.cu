// Self-checks of report.hpp: numbers as text, devices and sizes, tables, claims, the CSV.
#include <doctest/doctest.h>

#include <cstring>
#include <stdexcept>

#include "made_up_devices.hpp"
#include "plausible.hpp"

// ---- numbers as text -------------------------------------------------------------------------

TEST_CASE("text: numbers, factors, bytes") {
  CHECK(fixed(1.005e3, 1) == "1005.0");
  CHECK(fixed(-0.25, 2) == "-0.25");
  CHECK(fixed(NAN, 1) == "-");
  CHECK(fixed(INFINITY, 1) == "-");
  CHECK(times(3.456) == "3.5x");
  CHECK(times(1.004) == "1.00x");
  CHECK(times(123.4) == "123x");
  CHECK(bytes_text(0) == "0 B");
  CHECK(bytes_text(400) == "400 B");
  CHECK(bytes_text(65536) == "64 KiB");
  CHECK(bytes_text(1536) == "1.50 KiB");
  CHECK(bytes_text(1073741824) == "1.00 GiB");
  CHECK(bytes_text(0x1p47) == "128 TiB");
}

TEST_CASE("text: shares, spreads, bars") {
  CHECK(percent(0.125) == "12%");
  CHECK(percent(1.01) == "101%");  // what 1% of noise can do
  CHECK(percent(1.3) == "130% (cache)");
  CHECK(percent(NAN) == "-");
  CHECK(spread_text({4, 3.99, 4.01, 9}) == "0.5%");
  CHECK(spread_text({}) == "-");
  CHECK(bar(0) == "");
  CHECK(bar(NAN) == "");
  CHECK(bar(1) == "██████████");
  CHECK(bar(7) == bar(1));
  CHECK(bar(0.25) == "██▌");
  CHECK(bar(0.0125) == "▏");
  CHECK(display_width("a→b") == 3);
}

// ---- devices and sizes -----------------------------------------------------------------------

namespace {

constexpr double KiB = 1024, MiB = 1024 * KiB, GiB = 1024 * MiB;

/// A device that is nowhere in this machine.
Device made_up(const char* name, double memory, double l2) {
  Device device;
  device.number = -1;
  std::strcpy(device.prop.name, name);
  device.prop.totalGlobalMem = static_cast<size_t>(memory);
  device.prop.l2CacheSize = static_cast<int>(l2);
  device.prop.major = 9;
  device.prop.minor = 1;
  device.prop.multiProcessorCount = 7;
  device.driver = 12040;
  return device;
}

const Device t4 = made_up("T4", 16 * GiB, 4 * MiB);
const Device rtx_4060 = made_up("RTX 4060", 8 * GiB, 24 * MiB);
const Device b200 = made_up("B200", 180 * GiB, 126 * MiB);
const Device without_l2 = made_up("none", 2 * GiB, 0);

}  // namespace

TEST_CASE("sizes: data at least four times the L2 comes from memory") {
  CHECK(beyond_l2(t4, 16 * MiB));
  CHECK(!beyond_l2(t4, 16 * MiB - 1));
  CHECK(beyond_l2(rtx_4060, 96 * MiB));
  CHECK(!beyond_l2(rtx_4060, 96 * MiB - 1));
  CHECK(beyond_l2(b200, 504 * MiB));
  CHECK(!beyond_l2(b200, 504 * MiB - 1));
  // one that reports no L2 has more than any so far
  CHECK(without_l2.l2_bytes() >= b200.l2_bytes());
  CHECK(beyond_l2(without_l2, 512 * MiB));
  CHECK(!beyond_l2(without_l2, 512 * MiB - 1));
}

TEST_CASE("sizes: a made-up device has all of its memory") {
  CHECK(t4.memory_there() == 16 * GiB);
  CHECK(b200.memory_there() == 180 * GiB);
  std::string printed;
  Report report("topic", &printed);
  CHECK(Run{report, &rtx_4060, {}}.memory_there() == 8 * GiB);
  CHECK(Run{report, nullptr, {}}.memory_there() == INFINITY);
}

TEST_CASE("sizes: the GPUs that self-checks make up") {
  const std::vector<Device> all = made_up_devices();
  CHECK(all.size() == 21);
  size_t with_all = 0, with_4_gib = 0, with_2_gib = 0, without_clocks = 0, in_order = 0;
  for (const Device& device : all) {
    CAPTURE(std::string(device.prop.name));
    with_all += all_is_free(device);
    with_4_gib += device.memory_there() == 4 * GiB;
    with_2_gib += device.memory_there() == 2 * GiB;
    without_clocks += device.sm_clock_khz == 0;
    in_order += device.prop.concurrentManagedAccess == 0;
    CHECK(device.number < 0);
    CHECK(device.prop.sharedMemPerBlockOptin + device.prop.reservedSharedMemPerBlock <=
          device.prop.sharedMemPerMultiprocessor);
    CHECK(device.prop.maxThreadsPerMultiProcessor % 512 == 0);
  }
  CHECK(with_all == 7);
  CHECK(with_4_gib == 7);
  CHECK(with_2_gib == 7);
  CHECK(without_clocks == 3);  // the Jetson
  CHECK(in_order == 6);        // the Jetson, and WSL2
}

TEST_CASE("sizes: 4 x the L2 fits a GPU whose memory is free, and shrinks elsewhere") {
  check_on_made_up_devices([](const Run& run) {
    size_t bytes = 1 << 20;
    while (!beyond_l2(*run.device, double(bytes))) bytes *= 2;
    bytes = fitting_size("x", 0, bytes, run.memory_there(), [](size_t n) { return double(n); });
    return Needs{double(bytes), double(bytes)};
  });
}

TEST_CASE("sizes: a typed size has to fit") {
  const auto bytes_of = [](size_t words) { return 8.0 * double(words); };
  const size_t by_default = 1 << 20;
  const auto typed = [&](const Device& device, size_t words) {
    return fitting_size("--words", words, by_default, device.memory_there(), bytes_of);
  };
  constexpr size_t G = 1 << 30;
  CHECK(typed(t4, 3) == 3);
  CHECK(typed(t4, 2 * G) == 2 * G);  // all there is, to the byte
  CHECK_THROWS_WITH_AS(typed(t4, 2 * G + 1), "--words needs 16.00 GiB, but 16.00 GiB are free",
                       UsageError);
  CHECK_THROWS_WITH_AS(typed(rtx_4060, 2 * G), "--words needs 16.00 GiB, but 8.00 GiB are free",
                       UsageError);
  CHECK(typed(b200, 22 * G) == 22 * G);
  CHECK_THROWS_AS(typed(b200, 23 * G), UsageError);
  CHECK_THROWS_AS(typed(without_l2, G), UsageError);
  CHECK(fitting_size("--words", 99 * G, by_default, INFINITY, bytes_of) == 99 * G);  // no GPU

  CHECK_NOTHROW(require_fits("x", 5, 5));
  CHECK_THROWS_WITH_AS(require_fits("--size 9", 2048, 1024),
                       "--size 9 needs 2 KiB, but 1 KiB are free", UsageError);
}

TEST_CASE("sizes: a default is halved until it needs nine tenths of what is there") {
  const auto bytes_of = [](size_t words) { return 8.0 * double(words); };
  const auto fitted = [&](size_t by_default, double there) {
    return fitting_size("--words", 0, by_default, there, bytes_of);
  };
  CHECK(fitted(1000, INFINITY) == 1000);
  CHECK(fitted(1000, 8000 / 0.89) == 1000);
  CHECK(fitted(1000, 8000 / 0.91) == 500);
  CHECK(fitted(1000, 8000) == 500);
  CHECK(fitted(1000, 1000) == 62);  // 500, 250, 125, 62
  CHECK(fitted(1, 1) == 1);

  constexpr size_t words = size_t(2) << 30;  // 16 GiB
  CHECK(fitted(words, b200.memory_there()) == words);
  CHECK(fitted(words, t4.memory_there()) == words / 2);
  CHECK(fitted(words, rtx_4060.memory_there()) == words / 4);
  CHECK(fitted(words, without_l2.memory_there()) == words / 16);
}

TEST_CASE("device: its UUID is written as nvidia-smi does") {
  Device device;
  for (int i = 0; i < 16; ++i) device.prop.uuid.bytes[i] = static_cast<char>(0xf0 + i);
  CHECK(device.uuid() == "GPU-f0f1f2f3-f4f5-f6f7-f8f9-fafbfcfdfeff");
}

TEST_CASE("device: the chosen one stays chosen") {
  if (skip_without_gpu()) return;
  int chosen = 0, count = 0;
  CUDA_CHECK(cudaGetDevice(&chosen));
  CUDA_CHECK(cudaGetDeviceCount(&count));
  for (int number = 0; number < count; ++number) {
    CUDA_CHECK(cudaSetDevice(number));
    const Device device = Device::current();
    CHECK(device.number == number);
    int after = -1;
    CUDA_CHECK(cudaGetDevice(&after));
    CHECK(after == number);
    CHECK(device.memory_there() > 0);
    CHECK(device.memory_there() <= double(device.prop.totalGlobalMem));
    CHECK(device.uuid().size() == std::strlen("GPU-") + 32 + 4);
  }
  CUDA_CHECK(cudaSetDevice(chosen));
}

// ---- the report ------------------------------------------------------------------------------

namespace {

/// A report and what it has printed since it was last asked.
struct Printed {
  std::string text;
  Report report{"topic", &text};

  std::string take() { return std::exchange(text, ""); }
  /// The CSV without its header and without what is the same in every line.
  std::string saved(const std::string& device = ",,") const {
    const std::string csv = report.csv("2026-01-02");
    const std::string end =
        "," + device + "," + cuda_version_text(CUDART_VERSION) + ",2026-01-02,,,";
    std::string lines;
    size_t begin = csv.find('\n') + 1;
    while (begin < csv.size()) {
      const size_t line_end = csv.find('\n', begin);
      std::string line = csv.substr(begin, line_end - begin);
      CHECK(line.starts_with("topic,"));
      CHECK(line.ends_with(end));
      line = line.substr(6, line.size() - 6 - end.size());
      lines += line + "\n";
      begin = line_end + 1;
    }
    return lines;
  }
};

const Part by_columns{"04.2a", "columns are slower than rows", "77x", "8800 GTX"};
const Part no_figure{"04.8", "column -> row beats row -> column", "", ""};

}  // namespace

TEST_CASE("report: the heading") {
  const std::string toolkit = cuda_version_text(CUDART_VERSION);
  Printed none;
  none.report.heading(nullptr, "there is no driver");
  CHECK(none.take() ==
        "topic: no usable GPU (there is no driver)\n"
        "Models, predictions and host experiments run; what needs a GPU is left out, and said to "
        "be.\n");
  Printed some;
  Device device = rtx_4060;
  device.theoretical_gbs = 272.4;
  some.report.heading(&device, "");
  CHECK(some.take() ==
        "topic on RTX 4060 (compute capability 9.1, driver for CUDA 12.4, toolkit " + toolkit +
            ")\n"
            "7 multiprocessors, 8.00 GiB of memory, 272 GB/s in theory, L2 24 MiB\n");
  some.report.heading(&without_l2, "");
  CHECK(some.take() ==
        "topic on none (compute capability 9.1, driver for CUDA 12.4, toolkit " + toolkit +
            ")\n"
            "7 multiprocessors, 2.00 GiB of memory, theoretical bandwidth unknown, L2 not "
            "reported\n");
}

TEST_CASE("report: an experiment, notes, what is left out") {
  Printed printed;
  printed.report.begin("experiment", "3 bytes");
  printed.report.note("why");
  printed.report.note("why");
  printed.report.note_once("but");
  printed.report.note_once("but");
  printed.report.left_out("the copy");
  printed.report.left_out("the peer", "one GPU");
  CHECK(printed.take() ==
        "\nexperiment: 3 bytes\n"
        "  why\n"
        "  why\n"
        "  but\n"
        "  left out (no GPU): the copy\n"
        "  left out (one GPU): the peer\n");
  printed.report.begin("another", "4 bytes");
  printed.report.note_once("but");
  CHECK(printed.take() == "\nanother: 4 bytes\n  but\n");
  CHECK(printed.saved() ==
        "experiment,the copy,,no GPU,left out,left out,,,,,\n"
        "experiment,the peer,,one GPU,left out,left out,,,,,\n");
}

// ---- claims ----------------------------------------------------------------------------------

TEST_CASE("claims: printed in two lines, saved with their range") {
  Printed printed;
  printed.report.begin("experiment", "3 bytes");
  printed.take();
  const Interval r{3.06, 3.03, 3.09, 15, ""};
  printed.report.judge(by_columns, beats(77), r, slower(r));
  CHECK(printed.take() ==
        "  04.2a  holds, weaker      columns are slower than rows\n"
        "         here 3.06x slower (3.03 to 3.09); then 77x (8800 GTX)\n");
  printed.report.judge(no_figure, gains_nothing(), r, faster(r));
  CHECK(printed.take() ==
        "  04.8   does not hold      column -> row beats row -> column\n"
        "         here 3.06x faster (3.03 to 3.09)\n");
  printed.report.judge({"04.1", "about 82%", "82%", ""}, about(0.82), {0.9, 0.8, 1.1, 7, ""},
                       "90% (80 to 110%)", "share");
  CHECK(printed.take() ==
        "  04.1   too close to call  about 82%\n"
        "         here 90% (80 to 110%); then 82%\n");
  CHECK(printed.saved() ==
        "experiment,04.2a,columns are slower than rows,3.06x slower (3.03 to 3.09),"
        "claim,\"holds, weaker\",x,3.06,3.03,3.09,15\n"
        "experiment,04.2a,8800 GTX,77x,then,reported,,,,,\n"
        "experiment,04.8,column -> row beats row -> column,3.06x faster (3.03 to 3.09),"
        "claim,does not hold,x,3.06,3.03,3.09,15\n"
        "experiment,04.8,,,then,reported,,,,,\n"
        "experiment,04.1,about 82%,90% (80 to 110%),claim,too close to call,share,0.9,0.8,1.1,7\n"
        "experiment,04.1,,82%,then,reported,,,,,\n");
}

TEST_CASE("claims: facts, and verdicts over many shapes") {
  Printed printed;
  printed.report.judge_fact(no_figure, true, "no error");
  printed.report.judge_fact(no_figure, false, "an error");
  printed.report.judged(no_figure, judge_many({Verdict::holds, Verdict::holds}), {},
                        "in 2 of 2 shapes");
  CHECK(printed.take() ==
        "  04.8   holds              column -> row beats row -> column\n"
        "         here no error\n"
        "  04.8   does not hold      column -> row beats row -> column\n"
        "         here an error\n"
        "  04.8   holds              column -> row beats row -> column\n"
        "         here in 2 of 2 shapes\n");
  CHECK(printed.saved() ==
        ",04.8,column -> row beats row -> column,no error,claim,holds,,1,1,1,\n"
        ",04.8,,,then,reported,,,,,\n"
        ",04.8,column -> row beats row -> column,an error,claim,does not hold,,0,0,0,\n"
        ",04.8,,,then,reported,,,,,\n"
        ",04.8,column -> row beats row -> column,in 2 of 2 shapes,claim,holds,,,,,\n"
        ",04.8,,,then,reported,,,,,\n");
}

TEST_CASE("claims: without a GPU what was not measured is not judged") {
  Printed printed;
  printed.report.heading(nullptr, "there is no driver");
  printed.report.begin("experiment", "3 bytes");
  printed.take();
  printed.report.judge(by_columns, beats(77), {}, slower({}));
  printed.report.judge(no_figure, beats(), not_measured("one GPU"), slower({}));
  CHECK(printed.take() ==
        "  04.2a  not judged         columns are slower than rows\n"
        "         no GPU; then 77x (8800 GTX)\n"
        "  04.8   not judged         column -> row beats row -> column\n"
        "         one GPU\n");
  CHECK(printed.saved() ==
        "experiment,04.2a,columns are slower than rows,no GPU,claim,not judged,,,,,\n"
        "experiment,04.2a,8800 GTX,77x,then,reported,,,,,\n"
        "experiment,04.8,column -> row beats row -> column,one GPU,claim,not judged,,,,,\n"
        "experiment,04.8,,,then,reported,,,,,\n");
}

TEST_CASE("claims: with a GPU what was not measured has a reason") {
  Printed printed;
  printed.report.heading(&t4, "");
  printed.report.begin("experiment", "3 bytes");
  printed.take();
  CHECK_THROWS_AS(printed.report.judge(no_figure, beats(), {}, "-"), std::logic_error);
  CHECK_THROWS_AS(printed.report.judged(no_figure, judge_many({}), {}, "-"), std::logic_error);
  CHECK(printed.take().empty());
  CHECK(printed.saved("T4,9.1,12.4").empty());

  printed.report.judge(no_figure, beats(), not_measured("a display is attached"), "-");
  printed.report.not_judged(by_columns, "needs counts of this run");
  printed.report.judge(no_figure, beats(), interval_of_median({1, 2, 3}), "-");
  CHECK(printed.take() ==
        "  04.8   not judged         column -> row beats row -> column\n"
        "         a display is attached\n"
        "  04.2a  not judged         columns are slower than rows\n"
        "         needs counts of this run; then 77x (8800 GTX)\n"
        "  04.8   not judged         column -> row beats row -> column\n"
        "         fewer than 6 blocks of two rounds leave no range\n");
}

TEST_CASE("claims: what a text reports of hardware that it names no longer holds elsewhere") {
  Printed printed;
  const Part of_that_card{"04.2a", "columns are slower than rows", "77x", "8800 GTX", g80};
  const Interval below{0.5, 0.4, 0.6, 9, ""}, above{9, 8, 10, 9, ""};
  printed.report.heading(&t4, "");
  printed.take();
  printed.report.judge(of_that_card, beats(), below, "x");
  CHECK(printed.take().starts_with("  04.2a  no longer          columns"));
  printed.report.judge(of_that_card, beats(), above, "x");
  CHECK(printed.take().starts_with("  04.2a  holds              columns"));
  printed.report.judge(by_columns, beats(), below, "x");  // of CUDA in general
  CHECK(printed.take().starts_with("  04.2a  does not hold      columns"));
  Device card = t4;
  card.prop.major = 1;
  card.prop.minor = 0;
  printed.report.heading(&card, "");
  printed.take();
  printed.report.judge(of_that_card, beats(), below, "x");
  CHECK(printed.take().starts_with("  04.2a  does not hold      columns"));
  CHECK(fermi_and_kepler.includes(Device{.prop =
                                             [] {
                                               cudaDeviceProp prop{};
                                               prop.major = 3;
                                               prop.minor = 5;
                                               return prop;
                                             }()}
                                      .prop));
  CHECK(!fermi_and_kepler.includes(t4.prop));
}

TEST_CASE("claims: one by construction has a dagger and is counted apart") {
  Printed printed;
  const Part computed{"03.1b", "misaligned loads use 80%", "80%", "", {}, true};
  printed.report.judge_fact(computed, true, "80%");
  CHECK(printed.take() ==
        "  03.1b  holds †            misaligned loads use 80%\n"
        "         here 80%; then 80%\n");
  CHECK(printed.report.records().front().words == "by construction");
  CHECK(printed.report.records().front().metric == "holds");
  printed.report.judge(no_figure, beats(), {9, 8, 10, 9, ""}, "");
  printed.take();
  printed.report.summary();
  CHECK(printed.take() == "\nclaims: holds: 1; by construction (†): 1\n");
}

TEST_CASE("claims: what some cases can show and none did was not seen, which refutes nothing") {
  Printed printed;
  printed.report.heading(&t4, "");
  printed.take();
  const Interval best{0.9, 0.8, 1.0, 9, ""};
  printed.report.judged(no_figure, judge_some(beats(), best), best, "1.11x slower");
  CHECK(printed.take() ==
        "  04.8   not judged         column -> row beats row -> column\n"
        "         not seen here: 1.11x slower\n");
}

TEST_CASE("claims: findings stand below and are judged by nobody") {
  Printed printed;
  printed.report.begin("experiment", "3 bytes");
  printed.take();
  printed.report.finding("04.1", "with 4 loads a thread, 94%");
  printed.report.finding("04.1", "");  // not measured
  CHECK(printed.take() == "         found: with 4 loads a thread, 94%\n");
  CHECK(printed.saved() ==
        "experiment,04.1,,\"with 4 loads a thread, 94%\",finding,finding,,,,,\n");
  printed.report.summary();
  CHECK(printed.take().empty());
}

TEST_CASE("claims: the summary counts them by verdict") {
  Printed printed;
  const Interval far_above{9, 8, 10, 15, ""}, on_the_bound{1.02, 1, 1.04, 15, ""};
  printed.report.judge(no_figure, beats(), far_above, "");
  printed.report.judge(no_figure, beats(), on_the_bound, "");
  printed.report.judge(no_figure, beats(), far_above, "");
  printed.report.judge(no_figure, beats(2), far_above, "");
  printed.report.judge(no_figure, beats(99), far_above, "");
  printed.report.judge(no_figure, gains_nothing(), far_above, "");
  printed.report.not_judged(no_figure, "one GPU");
  printed.take();
  printed.report.summary();
  CHECK(printed.take() ==
        "\nclaims: holds: 2; holds, stronger: 1; holds, weaker: 1; too close to call: 1; "
        "does not hold: 1; not judged: 1\n");
}

// ---- tables ----------------------------------------------------------------------------------

TEST_CASE("tables: rows are aligned, and saved in the tidy form") {
  Printed printed;
  printed.report.begin("experiment", "3 bytes");
  printed.take();
  Table table(printed.report, "kernel",
              {measured("ms", "time", "ms", 2), counted("sectors", "load sectors", "", 0),
               then("then", "time", "ms", 1), shown("note"), shown("")});
  table.row({"a, \"b\"", "threads", "32"},
            {Statistics{1.5, 1.25, 2, 9}, 4.0, 77.0, "words", bar(0.25)});
  table.row({"c"}, {100.0, Cell(), NAN, "", bar(0.5)});
  table.row({"", "threads", "64"}, {"too long", 123456789012.0, 1.0, "-", ""});
  table.print();
  CHECK(printed.take() ==
        "  kernel            ms       sectors  then   note\n"
        "  a, \"b\", 32      1.50             4  77.0  words  ██▌\n"
        "  c             100.00             -     -         █████\n"
        "  64          too long  123456789012   1.0      -\n");
  CHECK(printed.saved() ==
        "experiment,\"a, \"\"b\"\"\",threads,32,measured,time,ms,1.5,1.25,2,9\n"
        "experiment,\"a, \"\"b\"\"\",threads,32,counted,load sectors,,4,,,\n"
        "experiment,\"a, \"\"b\"\"\",threads,32,then,time,ms,77,,,\n"
        "experiment,c,,,measured,time,ms,100,,,\n"
        "experiment,,threads,64,counted,load sectors,,123456789012,,,\n"
        "experiment,,threads,64,then,time,ms,1,,,\n");
}

TEST_CASE("tables: predicted beside measured, and their ratio") {
  Printed printed;
  printed.report.begin("experiment", "3 bytes");
  printed.take();
  Table table(printed.report, "stride",
              {compared("GB/s", "bandwidth", "GB/s", 0), shown("spread")});
  table.row({"copy"}, {Calibration{{4000, 3900, 4100, 9}}, "5.0%"});
  table.row({"stride", "stride", "2"},
            {Compared{2000, {1900, 1800, 1950, 9}, Model::latency}, "7.9%"});
  table.row({"stride", "stride", "3"}, {Compared{1234.5678, {}}, "-"});  // not measured
  table.row({"stride", "stride", "4"}, {Compared{NAN, {500, 490, 510, 9}}, "4.0%"});
  table.row({"sort"}, {Statistics{90, 80, 95, 9}, "16.7%"});  // no model covers it
  table.print();
  CHECK(printed.take() ==
        "  stride     GB/s predicted  measured  ratio  spread\n"
        "  copy          calibration      4000      -    5.0%\n"
        "  stride, 2            2000      1900   0.95    7.9%\n"
        "  stride, 3            1235         -      -       -\n"
        "  stride, 4               -       500      -    4.0%\n"
        "  sort                    -        90      -   16.7%\n");
  CHECK(printed.saved() ==
        "experiment,copy,,,calibration,bandwidth,GB/s,4000,3900,4100,9\n"
        "experiment,stride,stride,2,predicted,bandwidth,GB/s,2000,,,\n"
        "experiment,stride,stride,2,measured,bandwidth,GB/s,1900,1800,1950,9\n"
        "experiment,stride,stride,3,predicted,bandwidth,GB/s,1234.5678,,,\n"
        "experiment,stride,stride,4,measured,bandwidth,GB/s,500,490,510,9\n"
        "experiment,sort,,,measured,bandwidth,GB/s,90,80,95,9\n");

  REQUIRE(printed.report.predictions().size() == 1);
  const Prediction& prediction = printed.report.predictions()[0];
  CHECK(prediction.row == "stride, 2");
  CHECK(prediction.predicted == 2000);
  CHECK(prediction.measured == 1900);
  CHECK(prediction.model == Model::latency);
}

TEST_CASE("tables: columns in which nothing stands are left out and named") {
  Printed printed;
  Table table(printed.report, "kernel",
              {measured("ms", "time", "ms", 2), compared("GB/s", "bandwidth", "GB/s", 0),
               predicted("sectors", "sectors", "", 0), shown("spread"), shown("")});
  table.row({"a"}, {Statistics{}, Compared{100, {}}, 4.0, spread_text({}), bar(NAN)});
  table.row({"b"}, {NAN, Compared{50, {}}, 32.0, "", ""});
  table.print();
  CHECK(printed.take() ==
        "  kernel  GB/s predicted  sectors\n"
        "  a                  100        4\n"
        "  b                   50       32\n"
        "  not measured here: ms, GB/s, spread\n");
  CHECK(printed.saved() ==
        ",a,,,predicted,bandwidth,GB/s,100,,,\n"
        ",a,,,predicted,sectors,,4,,,\n"
        ",b,,,predicted,bandwidth,GB/s,50,,,\n"
        ",b,,,predicted,sectors,,32,,,\n");
}

TEST_CASE("tables: one of bare names is not printed") {
  Printed printed;
  Table table(printed.report, "kernel",
              {measured("ms", "time", "ms", 2), compared("GB/s", "bandwidth", "GB/s", 0)});
  table.row({"a"}, {Statistics{}, Compared{NAN, {}}});
  table.row({"b"}, {NAN, Calibration{{}}});
  table.print();
  CHECK(printed.take() == "  not measured here (kernel): ms, GB/s predicted, GB/s\n");
  CHECK(printed.saved().empty());
}

TEST_CASE("tables: some columns are saved and not shown") {
  Printed printed;
  Table table(
      printed.report, "kernel",
      {measured("ms", "time", "ms", 2), saved_only(measured("", "power", "W", 0)),
       saved_only(compared("cycles", "cycles", "cycles", 0)), counted("n", "count", "", 0)});
  table.row({"a"}, {1.0, 300.0, Compared{10, {12, 11, 13, 9}}, 7.0});
  table.row({"b"}, {2.0, NAN, Compared{10, {}}, 8.0});
  table.print();
  CHECK(printed.take() ==
        "  kernel    ms  n\n"
        "  a       1.00  7\n"
        "  b       2.00  8\n");
  CHECK(printed.saved() ==
        ",a,,,measured,time,ms,1,,,\n"
        ",a,,,measured,power,W,300,,,\n"
        ",a,,,predicted,cycles,cycles,10,,,\n"
        ",a,,,measured,cycles,cycles,12,11,13,9\n"
        ",a,,,counted,count,,7,,,\n"
        ",b,,,measured,time,ms,2,,,\n"
        ",b,,,predicted,cycles,cycles,10,,,\n"
        ",b,,,counted,count,,8,,,\n");
  CHECK(printed.report.predictions().size() == 1);
}

TEST_CASE("tables: a row has one cell for each column") {
  Printed printed;
  Table table(printed.report, "kernel", {measured("ms", "time", "ms", 2), shown("")});
  CHECK_THROWS_AS(table.row({"a"}, {1.0}), std::logic_error);
  CHECK_THROWS_AS(table.row({"a"}, {1.0, "", ""}), std::logic_error);
  CHECK(printed.saved().empty());
}

// ---- the CSV ---------------------------------------------------------------------------------

TEST_CASE("CSV: the text as a whole") {
  Printed printed;
  printed.report.heading(&b200, "");
  printed.report.begin("experiment", "3 bytes");
  Table table(printed.report, "kernel", {measured("ms", "time", "ms", 2)});
  table.row({"line\nbreak", "block", "32 x 8"}, {Statistics{1.0 / 3, 0.25, 12345678, 9}});
  printed.report.judge(by_columns, beats(), {2, 1.9, 2.1, 15, ""}, "2x, about");
  printed.report.finding("04.2a", "\"quoted\"");
  Record another{"another", "name", "", "", "calibration", "rate", "GB/s", 1e-9};
  printed.report.save(another);
  const std::string end = "B200,9.1,12.4," + cuda_version_text(CUDART_VERSION) + ",2026-01-02,,,\n";
  CHECK(printed.report.csv("2026-01-02") ==
        "topic,experiment,case,parameter,at,kind,metric,unit,value,low,high,repeats,gpu,cc,driver,"
        "toolkit,date,words,runs,cards\n"
        "topic,experiment,\"line\nbreak\",block,32 x 8,measured,time,ms,"
        "0.333333,0.25,1.23457e+07,9," +
            end +
            "topic,experiment,04.2a,columns are slower than rows,\"2x, about\","
            "claim,holds,x,2,1.9,2.1,15," +
            end + "topic,experiment,04.2a,8800 GTX,77x,then,reported,,,,,," + end +
            "topic,experiment,04.2a,,\"\"\"quoted\"\"\",finding,finding,,,,,," + end +
            "topic,another,name,,,calibration,rate,GB/s,1e-09,,,," + end);
  CHECK(today().size() == 10);
  CHECK(Report("empty").csv("2026-01-02") == std::string(csv_header) + "\n");
}

// ---- plausible rows --------------------------------------------------------------------------

TEST_CASE("predictions: which rows are held to a factor, and to which") {
  if (skip_without_gpu()) return;
  check_plausible([](const Run& run) {
    CHECK(run.quick);
    CHECK(run.measuring.rounds == Measuring::quick_rounds);
    run.report.begin("experiment", "3 bytes");
    Table table(run.report, "row",
                {compared("ms", "time", "ms", 2), compared("us", "time", "us", 2)});
    const auto row = [&](Model model, double predicted, double measured) {
      table.row({"row"}, {Compared{predicted, {measured, measured, measured, 9}, model}, {}});
    };
    const auto row_in_us = [&](Model model, double predicted, double measured) {
      table.row({"row"}, {{}, Compared{predicted, {measured, measured, measured, 9}, model}});
    };
    row(Model::traffic, 1, 1.59);
    row(Model::traffic, 1, 0.63);
    row(Model::latency, 1, 2.49);
    row(Model::latency, 1, 0.41);
    row(Model::latency, 0.001, 0.019);  // a launch of under 20 us
    row_in_us(Model::latency, 1, 19);
    row_in_us(Model::latency, 10, 24.9);
    row(Model::host, 1, 99);
    table.print();
  });
}
