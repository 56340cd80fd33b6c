// What must be right once, because every topic builds on it.
#include <filesystem>
#include <random>
#include <set>

#include "arrays.cuh"
#include "harness/output_file.hpp"
#include "sample.hpp"
#include "sectors.hpp"

// ---- intervals, ratios ----

TEST_CASE("interval: the order statistics that hold 95%, and the floor") {
  // of 6 values the least and the largest; of 9 the second and the eighth; of 18 the fifth (binomial)
  const Interval six = interval_of_median({6, 1, 5, 2, 4, 3}, 0);
  CHECK(six.value == 3.5);
  CHECK(six.low == 1);
  CHECK(six.high == 6);
  const Interval nine = interval_of_median({1, 2, 3, 4, 5, 6, 7, 8, 9}, 0);
  CHECK(nine.value == 5);
  CHECK(nine.low == 2);
  CHECK(nine.high == 8);
  std::vector<double> eighteen(18);
  for (size_t i = 0; i < 18; ++i) eighteen[i] = double(i + 1);
  CHECK(interval_of_median(eighteen, 0).low == 5);
  const Interval floor = interval_of_median({100, 100, 100, 100, 100, 100}, 0.1);
  CHECK(floor.low == 90);
  CHECK(floor.high == doctest::Approx(110));
  CHECK_THROWS_AS(interval_of_median({1, 2, 3, 4, 5}, 0), std::logic_error);
  CHECK_THROWS_AS(interval_of_median({1, 2, 3, 4, 5, NAN}, 0), std::logic_error);
}

/// How often the interval of `n` values of a skewed distribution holds its median.
double coverage(size_t n) {
  std::mt19937 random(1);
  std::exponential_distribution<double> noise(1);
  int covered = 0, trials = 4000;
  for (int t = 0; t < trials; ++t) {
    std::vector<double> values(n);
    for (double& value : values) value = 1 + noise(random);
    const Interval i = interval_of_median(values, 0);
    covered += i.low <= 1 + std::log(2.0) && 1 + std::log(2.0) <= i.high;
  }
  return double(covered) / trials;
}

TEST_CASE("interval: nine blocks of two rounds hold the true median as often as is said") {
  CHECK(coverage(9) > 0.945);
  CHECK(coverage(9) < 0.99);
}

TEST_CASE("interval: six groups hold the true median as often as is said") {
  CHECK(coverage(6) > 0.945);
  CHECK(coverage(6) < 0.99);
}

TEST_CASE("ratio: a drift, and what the second place costs, cancel in A B B A") {
  Times a, b;
  double clock = 1;  // what work takes now: it grows by 5% from one run to the next
  for (int round = 0; round < 18; ++round)
    for (int place = 0; place < 2; ++place, clock *= 1.05) {
      const double taken = clock * (place == 1 ? 1.1 : 1);
      (round % 2 == place ? a : b).ms.push_back(taken * (round % 2 == place ? 1 : 2));
    }
  CHECK(ratio(b, a).value == doctest::Approx(2));
  b.batch = 1;
  CHECK_THROWS_AS(ratio(b, a), std::logic_error);
}

TEST_CASE("timer: work is proved right, timed in the order A B B A, and proved right again") {
  if (skip_without_gpu()) return;
  std::string order;
  const auto benchmark = [&](const char* name) {
    Check check;
    check.find_error = [&order] {
      order += '?';
      return std::string();
    };
    return Benchmark{.name = name,
                     .work = [&order, name] { order += name; },
                     .check = check,
                     .on_host = true,
                     .before = [&order] { order += '.'; }};
  };
  const Timings timings = Timer{.rounds = 6}.interleaved({benchmark("A"), benchmark("B")});
  CHECK(order ==
        ".A?.B?"
        ".A.B.B.A"
        ".A.B.B.A"
        ".A.B.B.A"
        ".A?.B?");
  CHECK(timings["A"].ms.size() == 6);
  CHECK_THROWS_AS(timings["C"], std::logic_error);
  CHECK_THROWS_AS(Timer{.rounds = 6}.interleaved({benchmark("A"), benchmark("A")}),
                  std::logic_error);
}

TEST_CASE(
    "timings: what an experiment timed and asked for nowhere is an error, and so is the reverse") {
  never_asked_for();  // of the cases before
  Run run;
  run.begin_experiment("copies");
  const Timings small({{"up", {}}, {"down", {}}}), large({{"up", {}}, {"both", {}}});
  small["up"];
  large["both"];
  CHECK_THROWS_WITH_AS(run.end_experiment(), "copies times 'down' and shows it nowhere",
                       std::logic_error);
  CHECK_NOTHROW(run.end_experiment());  // it was said
  CHECK_THROWS_WITH_AS(small["both"], "nothing was timed as 'both'", std::logic_error);
}

TEST_CASE("timer: a wrong result is an error, with the name of the work") {
  if (skip_without_gpu()) return;
  Check check;
  check.find_error = [] { return std::string("7 of 9 are wrong"); };
  CHECK_THROWS_WITH_AS(require_right({.name = "copy", .work = [] {}, .check = check}),
                       "copy: 7 of 9 are wrong", WrongResult);
}

__global__ static void spin(long long cycles) {
  for (const long long start = clock64(); clock64() - start < cycles;) {
  }
}

TEST_CASE("timer: three times the cycles take three times as long") {
  if (skip_without_gpu()) return;
  const auto spin_for = [](long long cycles) { return [=] { spin<<<1, 1>>>(cycles); }; };
  const Timings timings = Timer{}.interleaved(
      {{.name = "one", .work = spin_for(500'000)}, {.name = "three", .work = spin_for(1'500'000)}});
  CHECK(ratio(timings["three"], timings["one"]).value == doctest::Approx(3).epsilon(0.05));
  Run run;
  run.claim({"0", "three takes longer than one", "a test"},
            timings.speedup({.of = "one", .over = "three"}), faster_by(3));
  CHECK(run.totals() == "holds 1");
}

TEST_CASE("timer: in fresh memory, six blocks whose memory is freed before the next is taken") {
  if (skip_without_gpu()) return;
  int taken = 0, most = 0;
  const auto allocated = [&] {
    const std::shared_ptr<int> memory(&taken, [](int* taken) { --*taken; });
    most = std::max(most, ++taken);
    return std::vector<Benchmark>{{.name = "A", .work = [memory] {}, .on_host = true},
                                  {.name = "B", .work = [memory] {}, .on_host = true}};
  };
  const Timings timings = Timer{}.with_fresh_memory(allocated, 2);
  CHECK(timings["A"].ms.size() == 12);
  CHECK(most == 1);
  CHECK(taken == 0);
  CHECK(timings.speedup({.of = "B", .over = "A"}).what == "as fast: 'B' over 'A'");
}

TEST_CASE("interval: arithmetic keeps the order of its ends") {
  const Interval a{6, 4, 8}, b{2, 1, 4};
  CHECK((2 * a).high == 16);
  CHECK((a / 2).low == 2);
  CHECK((a / b).value == 3);
  CHECK((a / b).low == 1);
  CHECK((a / b).high == 8);
}

TEST_CASE("buffer: a copy is the same memory, and the last one frees it") {
  if (skip_without_gpu()) return;
  auto first = std::make_unique<DeviceBuffer<int>>(std::vector<int>{7, 8});
  const DeviceBuffer<int> second = *first;
  CHECK(second.data() == first->data());
  first.reset();
  CHECK(second.to_host() == std::vector<int>{7, 8});
}

// ---- verdicts ----

/// The verdict on a number that is known exactly, and on one between two ends.
Verdict of(const Rule& rule, double number) { return judge(rule, {number, number, number}); }
Verdict of(const Rule& rule, double low, double high) {
  return judge(rule, {(low + high) / 2, low, high});
}

TEST_CASE("verdicts: a direction needs 2%, and the whole interval on one side") {
  CHECK(of(more(), 1.021) == Verdict::holds);
  CHECK(of(more(), 1.019) == Verdict::does_not_hold);
  CHECK(of(more(), 1.01, 1.10) == Verdict::too_close);
  CHECK(of(more(), 0.90, 1.01) == Verdict::does_not_hold);
  CHECK(of(can_be_more(), 1.021, 1.2) == Verdict::holds);
  CHECK(of(can_be_more(), 1.019, 1.2) == Verdict::not_seen);
  CHECK(of(can_be_more(), 0.8, 0.9) == Verdict::not_seen);
  CHECK(judge(more(), {NAN, NAN, NAN}) == Verdict::not_judged);
}

TEST_CASE("verdicts: a stated factor, by its excess over 1") {
  // of 5 the excess is 4: a quarter less is 1 + 3, a quarter more 1 + 5, and half of it 1 + 2
  CHECK(of(more_by(5), 4.01) == Verdict::holds);
  CHECK(of(more_by(5), 3.99) == Verdict::weaker);
  CHECK(of(more_by(5), 5.99) == Verdict::holds);
  CHECK(of(more_by(5), 6.01) == Verdict::stronger);
  CHECK(of(more_by(5), 3.01) == Verdict::weaker);
  CHECK(of(more_by(5), 2.99) == Verdict::direction_only);
  CHECK(of(more_by(5), 1.01) == Verdict::does_not_hold);
  CHECK(of(more_by(77), 3) == Verdict::direction_only);
  CHECK(of(more_by(100, 150), 11) == Verdict::direction_only);
  // of 1.5 to 2: from 1 + 0.375 to 1 + 1.25; half of 1.5 is 1.25
  CHECK(of(more_by(1.5, 2), 1.37) == Verdict::weaker);
  CHECK(of(more_by(1.5, 2), 1.38) == Verdict::holds);
  CHECK(of(more_by(1.5, 2), 2.24) == Verdict::holds);
  CHECK(of(more_by(1.5, 2), 2.26) == Verdict::stronger);
  CHECK(of(more_by(1.5, 2), 1.24) == Verdict::direction_only);
  // across a bound the better grade, and both are named
  CHECK(of(more_by(5), 3.9, 4.1) == Verdict::holds);
  CHECK(of(more_by(5), 2.9, 3.1) == Verdict::weaker);
  CHECK(of(more_by(5), 5.9, 6.1) == Verdict::holds);
  CHECK(judge_ends(more_by(5), {4, 3.9, 4.1}) == std::pair(Verdict::weaker, Verdict::holds));
  CHECK(judge_ends(more_by(5), {5, 4.9, 5.1}) == std::pair(Verdict::holds, Verdict::holds));
  CHECK(judge_ends(more_by(5), {1, 0.9, 1.1}) == std::pair(Verdict::too_close, Verdict::too_close));
}

TEST_CASE("verdicts: much is 1.5, and its direction needs 5%") {
  CHECK(of(much_more(), 1.51) == Verdict::holds);
  CHECK(of(much_more(), 1.49) == Verdict::weaker);
  CHECK(of(much_more(), 1.26) == Verdict::weaker);
  CHECK(of(much_more(), 1.24) == Verdict::direction_only);
  CHECK(of(much_more(), 1.06) == Verdict::direction_only);
  CHECK(of(much_more(), 1.04) == Verdict::does_not_hold);
  CHECK(of(much_more(), 1.4, 1.6) == Verdict::holds);
  CHECK(of(much_more_by(15), 15) == Verdict::holds);
  CHECK(of(much_more_by(15), 7.9) == Verdict::direction_only);
}

TEST_CASE("verdicts: levels, shares, and what is the same or no more") {
  CHECK(of(about(100), 75.1) == Verdict::holds);
  CHECK(of(about(100), 74.9) == Verdict::does_not_hold);
  CHECK(of(about(100), 124.9) == Verdict::holds);
  CHECK(of(about(100), 125.1) == Verdict::does_not_hold);
  CHECK(of(about(100), 70, 80) == Verdict::too_close);
  CHECK(of(between(200, 800), 151) == Verdict::holds);
  CHECK(of(between(200, 800), 999) == Verdict::holds);
  CHECK(of(between(200, 800), 1001) == Verdict::does_not_hold);
  CHECK(of(share_of(0.82), 0.739) == Verdict::holds);
  CHECK(of(share_of(0.82), 0.737) == Verdict::does_not_hold);
  CHECK(of(share_of(0.82), 0.901) == Verdict::holds);
  CHECK(of(share_of(0.82), 0.903) == Verdict::does_not_hold);
  CHECK(of(share_of(0.82), 0.73, 0.75) == Verdict::too_close);
  CHECK(of(no_more(), 0.5) == Verdict::holds);
  CHECK(of(no_more(), 1.019) == Verdict::holds);
  CHECK(of(no_more(), 1.021) == Verdict::does_not_hold);
  CHECK(of(no_more(), 1.01, 1.03) == Verdict::too_close);
  CHECK(of(as_much(), 0.951) == Verdict::holds);
  CHECK(of(as_much(), 0.949) == Verdict::does_not_hold);
  CHECK(of(as_much(), 1.051) == Verdict::does_not_hold);
  CHECK(of(at_most(2), 2) == Verdict::holds);
  CHECK(of(at_most(2), 2.01) == Verdict::does_not_hold);
  CHECK(of(at_most(2), 1, 2.1) == Verdict::too_close);
}

/// So many intervals above 1, below it, and across.
std::vector<Interval> sizes(size_t faster, size_t slower, size_t open = 0) {
  std::vector<Interval> all(faster, {1.2, 1.1, 1.3});
  all.insert(all.end(), slower, {0.8, 0.7, 0.9});
  all.insert(all.end(), open, {1, 0.9, 1.1});
  return all;
}

TEST_CASE("verdicts: of several sizes, each of which has a vote") {
  const auto verdict = [](const std::vector<Interval>& votes) {
    return judge_each(more(), votes).verdict;
  };
  CHECK(verdict(sizes(3, 1)) == Verdict::holds);  // three quarters
  CHECK(verdict(sizes(11, 4)) == Verdict::depends);
  CHECK(verdict(sizes(1, 3)) == Verdict::depends);  // a quarter
  CHECK(verdict(sizes(3, 10)) == Verdict::does_not_hold);
  CHECK(verdict(sizes(0, 2)) == Verdict::does_not_hold);
  CHECK(verdict(sizes(3, 0, 1)) == Verdict::holds);  // three quarters of all
  CHECK(verdict(sizes(6, 2, 1)) == Verdict::depends);
  CHECK(verdict(sizes(0, 1, 1)) == Verdict::depends);
  CHECK(verdict(sizes(0, 3, 1)) == Verdict::depends);
  CHECK(verdict(sizes(0, 4, 1)) == Verdict::does_not_hold);
  CHECK(verdict(sizes(2, 0, 2)) == Verdict::depends);  // half of them are decided
  CHECK(verdict(sizes(2, 0, 3)) == Verdict::too_close);
  CHECK(verdict(sizes(0, 0, 2)) == Verdict::too_close);
  CHECK(verdict({}) == Verdict::not_judged);
  const Ballot votes = judge_each(more(), sizes(4, 12, 2));
  CHECK(votes.in_favour == 4);
  CHECK(votes.against == 12);
  CHECK(votes.all == 18);
  CHECK(judge_each(can_be_more(), sizes(1, 7)).verdict == Verdict::holds);
  CHECK(judge_each(can_be_more(), sizes(0, 7, 1)).verdict == Verdict::not_seen);
  // the grade is one that three quarters reach: of a stated factor of 2 here 1.9, 1.6 and 1.1
  const Interval met{1.9, 1.9, 1.9}, half{1.6, 1.6, 1.6}, little{1.1, 1.1, 1.1};
  CHECK(judge_each(more_by(2), {met, met, met, little}).verdict == Verdict::holds);
  CHECK(judge_each(more_by(2), {met, met, half, little}).verdict == Verdict::weaker);
  CHECK(judge_each(more_by(2), {met, met, little, little}).verdict == Verdict::direction_only);
}

/// A run whose GPU is so called.
Run run_on(const char* name) {
  Run run;
  std::snprintf(run.gpu.name, sizeof run.gpu.name, "%s", name);
  return run;
}

TEST_CASE("verdicts: what was computed or counted before is not counted as measured") {
  Run run = run_on("NVIDIA X");
  run.computed({"0.1", "a", "b"}, true, "c");
  run.observed({"0.2", "a", "b"}, true, "c");
  run.computed({"0.3", "a", "b"}, false, "c");
  const std::vector<Count> counts{{"NVIDIA X", 4, "ncu"}, {"NVIDIA Y", 8, "ncu"}};
  run.counted({"0.4", "a", "b"}, counts, "sectors", about(4));
  run.counted({"0.5", "a", "b"}, {counts[1]}, "sectors", about(8));  // not on this GPU
  CHECK(run.totals() ==
        "holds 1, not judged 1; computed: holds 1, does not hold 1; counted: holds 1");
  CHECK(run.csv_lines()[0].find("\"computed, holds\"") != std::string::npos);
}

TEST_CASE("verdicts: an id is used once, votes and the text's own figure are saved") {
  Run run;
  run.begin_experiment("x");
  run.claim_each({"0.1", "a", "b"}, sizes(4, 12, 2), "c", more_by(2, 3));
  CHECK(run.csv_lines() ==
        std::vector<std::string>{"x,votes,0.1,in favour,4,4,4", "x,votes,0.1,against,12,12,12",
                                 "x,compared,0.1,c,,,", "x,stated,0.1,times,3,2,3",
                                 "x,claim,0.1: a,depends,1.2,1.1,1.3"});
  CHECK_THROWS_WITH_AS(run.observed({"0.1", "d", "e"}, true, "f"), "two claims are called 0.1",
                       std::logic_error);
}

// ---- what is printed and saved ----

std::string code_of_another(const std::set<int>& compiled_for, int gpu);  // of the command line

TEST_CASE("a heading names the code that ran, if it is not this GPU's own") {
  CHECK(code_of_another({900}, 900) == "");
  CHECK(code_of_another({750, 900}, 900) == "");
  CHECK(code_of_another({750}, 900) == ", code for 7.5");
  CHECK(code_of_another({750, 860, 1200}, 890) == ", code for 8.6");
  CHECK(code_of_another({900}, 610) == "");  // it can run none: that is an error
  CHECK(code_of_another({}, 900) == "");     // not known
}

TEST_CASE("cuda_version: as the macro and the driver tell it") {
  CHECK(cuda_version(12040) == "12.4");
  CHECK(cuda_version(13000) == "13.0");
}

TEST_CASE("in_lines: lines of at most 100 columns, broken between words") {
  const std::string ten = "nine signs ";  // eleven, with its space
  std::string text;
  for (int i = 0; i < 10; ++i) text += ten;
  CHECK(in_lines("short", 4) == "short\n");
  CHECK(in_lines(text.substr(0, 109), 4) ==
        text.substr(0, 98) + "\n    " + text.substr(99, 10) + "\n");
  CHECK(in_lines(std::string(120, 'x'), 4) == std::string(120, 'x') + "\n");
}

TEST_CASE("digits: three or four, and no exponent") {
  CHECK(digits(4499.2) == "4499");
  CHECK(digits(562.44) == "562.4");
  CHECK(digits(36) == "36");
  CHECK(digits(1.5004) == "1.500");
  CHECK(digits(0.23962) == "0.240");
  CHECK(digits(0.0086) == "0.00860");
  CHECK(digits(NAN) == "-");
  CHECK(bytes_text(65536) == "64 KiB");
  CHECK(bytes_text(1.5 * 1024 * 1024 * 1024) == "1.50 GiB");
  CHECK(factor_text({3.434, 3.4, 3.47}) == "3.43x [3.40, 3.47]");
  CHECK(factor_text({26.12, 26, 26.2}) == "26.1x [26.0, 26.2]");
  CHECK(percent(0.125).words == "12.5%");
  CHECK(bar(0.5).words == "█████");
}

TEST_CASE("table: numbers are saved with their interval, words are not, one cell per column") {
  Run run;
  run.begin_experiment("stride");
  Table table("stride, words", {"GB/s", "says"});
  table.row("1", {Interval{4499, 4490, 4510}, "the \"dense\" one"});
  table.missing("2", "no memory");
  CHECK_THROWS_AS(table.row("3", {1}), std::logic_error);
  run.save(table);
  REQUIRE(run.csv_lines().size() == 1);
  CHECK(run.csv_lines()[0] == "stride,\"stride, words\",1,GB/s,4499,4490,4510");
}

TEST_CASE("output file: written whole, or not at all") {
  namespace fs = std::filesystem;
  const fs::path folder =
      fs::temp_directory_path() / ("samples_" + std::to_string(std::random_device{}()));
  fs::create_directory(folder);
  const fs::path path = folder / "x.csv";
  const auto text_of = [&] {
    std::ifstream file(path);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  OutputFile file(path.string());
  CHECK(fs::is_empty(folder));  // nothing is there before all of it is
  file.write({"a", "b"});
  CHECK(text_of() == "a\nb\n");
  OutputFile(path.string()).write({"c"});
  CHECK(text_of() == "c\n");
  CHECK_THROWS_AS(OutputFile((folder / "missing" / "x.csv").string()), std::runtime_error);
  CHECK_THROWS_AS(OutputFile(""), std::runtime_error);
  CHECK_THROWS_AS(OutputFile(folder.string()), std::runtime_error);
  std::ofstream(folder / "x.csv.part") << "mine\n";  // somebody else's
  file.write({"d"});
  CHECK(text_of() == "d\n");
  CHECK(fs::file_size(folder / "x.csv.part") == 5);
  fs::create_symlink("y.csv", folder / "link");  // which leads nowhere yet
  OutputFile((folder / "link").string()).write({"e"});
  CHECK(fs::is_symlink(folder / "link"));
  CHECK(fs::is_regular_file(folder / "y.csv"));
  fs::remove_all(folder);
}

TEST_CASE("ceil_div: blocks for so many, and not one more") {
  CHECK(ceil_div(0, 256) == 0);
  CHECK(ceil_div(1, 256) == 1);
  CHECK(ceil_div(256, 256) == 1);
  CHECK(ceil_div(257, 256) == 2);
}

TEST_CASE("sizes: halved until they fit") {
  if (skip_without_gpu()) return;
  const Run run;
  CHECK(run.fitting(1024, 4) == 1024);
  const size_t fewer = run.fitting(size_t(1) << 40, 1024);
  CHECK(fewer < size_t(1) << 40);
  CHECK(run.fits(1024.0 * double(fewer)));
  CHECK(!run.fits(2048.0 * double(fewer)));
  const size_t on_host = run.fitting_on_host(size_t(1) << 40, 1024);
  CHECK(
      (run.fits_on_host(1024.0 * double(on_host)) && !run.fits_on_host(2048.0 * double(on_host))));
}

// ---- arrays, sectors ----

TEST_CASE("find_mismatch: one changed element, and one byte behind the end, are seen") {
  if (skip_without_gpu()) return;
  constexpr size_t n = 1009;
  const GuardedBuffer<unsigned> out(n);
  const auto value = [] __device__(size_t i) { return hash(i); };
  CHECK(find_mismatch(out, value) == "1009 of 1009 are wrong, the first at 0");
  for_each_index<<<4, 256>>>(n, [p = out.data()] __device__(size_t i) { p[i] = hash(i); });
  CHECK(find_mismatch(out, value) == "");
  const unsigned wrong = 7;
  CUDA_CHECK(cudaMemcpy(out + 1008, &wrong, sizeof wrong, cudaMemcpyHostToDevice));
  CHECK(find_mismatch(out, value) == "1 of 1009 are wrong, the first at 1008");
  CHECK(find_mismatch(out.data(), 1008, value) == "");
  for_each_index<<<4, 256>>>(n, [p = out.data()] __device__(size_t i) { p[i] = hash(i); });
  CHECK(find_mismatch(out, value) == "");
  CUDA_CHECK(cudaMemset(out.guard_behind() + 255, 0xff, 1));  // as poison is
  CHECK(find_mismatch(out, value) == "something was written behind the end");
  const Check check = equals(out, value);
  CHECK(check.find_error() == "something was written behind the end");
  CUDA_CHECK(cudaMemset(out.guard_before() + 255, 0, 1));
  CHECK(guard_error(out) == "something was written before the beginning");
  check.poison();
  CHECK(check.find_error() == "1009 of 1009 are wrong, the first at 0");
}

TEST_CASE("checks: all of the output is poisoned, of elements of any size") {
  if (skip_without_gpu()) return;
  const auto is_hash = [] __device__(size_t i) { return hash(i); };
  const auto write = [=](const GuardedBuffer<unsigned>& out) {
    for_each_index<<<4, 256>>>(out.size(),
                               [p = out.data()] __device__(size_t i) { p[i] = hash(i); });
  };
  const GuardedBuffer<unsigned> out(1009);
  for (const Check& check : {equals(out, is_hash), equals_bits(out, is_hash)}) {
    write(out);
    CHECK(check.find_error() == "");
    check.poison();
    CHECK(check.find_error() == "1009 of 1009 are wrong, the first at 0");
  }
  const GuardedBuffer<double> wide(7);
  CUDA_CHECK(cudaMemset(wide, 0, wide.bytes()));
  wide.poison();
  CHECK(find_mismatch(wide, [] __device__(size_t) { return 0.0; }) ==
        "7 of 7 are wrong, the first at 0");
}

TEST_CASE("find_mismatch: of an array that the host reads, NaN equals nothing") {
  const float array[] = {0, 1, 7, 3, NAN};
  const auto value = [](size_t i) { return float(i); };
  CHECK(find_mismatch_on_host(array, 2, value) == "");
  CHECK(find_mismatch_on_host(array, 5, value) == "2 of 5 are wrong, the first at 2");
}

TEST_CASE("sum_of: every index once") {
  if (skip_without_gpu()) return;
  for (const size_t n : {size_t(1), size_t(1009), size_t(1) << 20})
    CHECK(sum_of(n, [] __device__(size_t i) { return i; }) == n * (n - 1) / 2);
}

TEST_CASE("errors of CUDA name the call, the error and the place, and are reported once") {
  if (skip_without_gpu()) return;
  std::string what;
  try {
    CUDA_CHECK(cudaMemcpy(nullptr, &what, 4, cudaMemcpyHostToDevice));
  } catch (const CudaError& error) {
    what = error.what();
  }
  CHECK(what.find("cudaMemcpy(nullptr") == 0);
  CHECK(what.find("cudaErrorInvalidValue") != std::string::npos);
  CHECK(what.find("test_common.cu:") != std::string::npos);
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("sectors: of a warp's request, by hand") {
  CHECK(sectors(4, [](size_t lane) { return lane; }) == 4);
  CHECK(sectors(4, [](size_t lane) { return lane + 1; }) == 5);
  CHECK(sectors(4, [](size_t lane) { return 8 * lane; }) == 32);
  CHECK(sectors(4, [](size_t) { return size_t(5); }) == 1);
  CHECK(sectors(16, [](size_t lane) { return lane; }) == 16);
  CHECK(segments_touched(128, 4, [](size_t lane) { return lane + 1; }) == 2);
}
