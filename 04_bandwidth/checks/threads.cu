// Self-checks of threads.cu, compiled in its place where BUILD_TESTING is on.
#include "../threads.cu"

#include <doctest/doctest.h>

#include "../../common/checks/made_up_devices.hpp"
#include "../../common/checks/plausible.hpp"

TEST_CASE("threads: requests and sectors of a row, by hand and by going through the words") {
  const auto row = [](unsigned threads) { return traffic_of_a_row(text_size.columns, threads); };
  CHECK(row(32).requests == 384);  // 12288 words by 32
  CHECK(row(32).sectors == 1536);  // 12288 words by 8, none twice
  CHECK(row(16).requests == 768);  // half warps
  CHECK(row(48).requests == 512);  // a whole warp and a half one, 256 times
  CHECK(row(8).sectors == 1536);   // multiples of 8 share no sector
  for (const unsigned columns : {1u, 31u, 1009u, 12288u})
    for (const unsigned threads : {1u, 7u, 16u, 33u, 192u, 193u, 1024u}) {
      std::set<std::pair<unsigned, unsigned>> requests;                      // step, warp
      std::set<std::pair<std::pair<unsigned, unsigned>, unsigned>> sectors;  // and sector
      for (unsigned col = 0; col < columns; ++col) {
        const std::pair<unsigned, unsigned> request{col / threads, col % threads / 32};
        requests.insert(request);
        sectors.insert({request, col / 8});
      }
      CHECK(traffic_of_a_row(columns, threads).requests == requests.size());
      CHECK(traffic_of_a_row(columns, threads).sectors == sectors.size());
    }
}

TEST_CASE("threads: rounds, loads in turn and their time, by hand") {
  CHECK(rounds(1024, 1056) == 1);
  CHECK(rounds(1024, 1024) == 1);
  CHECK(rounds(1024, 1023) == 2);
  CHECK(loads_in_turn(text_size, {1024, 256}, 1056) == 12 * 48);     // 12 rows of 48 steps
  CHECK(loads_in_turn(text_size, {1024, 272}, 924) == 2 * 12 * 46);  // the last 100 blocks wait
  CHECK(loads_in_turn(text_size, {1024, 1024}, 264) == 4 * 12 * 12);
  CHECK(loads_in_turn({7, 100}, {3, 33}, 2) == 2 * 3 * 4);
  CHECK(bytes_in_flight({1024, 256}, 924) == 924 * 1024);
  CHECK(bytes_in_flight({10, 256}, 924) == 10 * 1024);
  const Size size{1000, 1000};  // 4 MB
  CHECK(bytes_read(size) == 4e6);
  CHECK(predicted_ms(size, {10, 100}, 10, 0.001, 0) == doctest::Approx(1));    // 100 rows, 10 steps
  CHECK(predicted_ms(size, {10, 100}, 10, 0.001, 100) == doctest::Approx(1));  // bytes: 0.04 ms
  CHECK(predicted_ms(size, {10, 100}, 10, 0.001, 1) == doctest::Approx(4));
  CHECK(predicted_ms(size, {10, 100}, 5, 0.001, 100) == doctest::Approx(2));
}

TEST_CASE("threads: bytes, by hand") {
  CHECK(bytes_read({7, 31}) == 868);
  CHECK(bytes_read(text_size) == 603979776);
  CHECK(bytes_read({66000, 66000}) == 17424000000.0);
}

TEST_CASE("threads: the bytes counted are the words that the kernel takes") {
  if (skip_without_gpu()) return;
  for (const Size size : {Size{1, 1}, Size{7, 31}, Size{101, 257}}) {
    const Launch l{5, 33};
    RowArray array(sum_rows, size, l.total());
    array.in.copy_from(std::vector<float>(size.words(), 1.0f));  // a sum counts words
    array.out.poison();
    array.task(l).launch();
    const std::vector<float> sums = array.out.to_host();
    double taken = 0;
    for (unsigned t = 0; t < l.total(); ++t) taken += sums[t];
    CHECK(bytes_read(size) == 4.0 * taken);
  }
}

TEST_CASE("threads: handing words to their takers gives the sums of the text's loops") {
  for (const Size size : {Size{1, 1}, Size{7, 31}, Size{31, 7}, Size{101, 257}})
    for (const Launch l : {Launch{1, 33}, Launch{5, 16}, Launch{200, 3}}) {
      std::vector<unsigned> sums(l.total(), 0);
      for (unsigned row = 0; row < size.rows; ++row)
        for (unsigned col = 0; col < size.columns; ++col)
          sums.at(taker(l, row, col)) += whole_number(size_t(row) * size.columns + col);
      CHECK(std::vector<float>(sums.begin(), sums.end()) == sums_by_host(size, l));
    }
}

TEST_CASE("threads: words are whole numbers from 1 to 256, and every thread's sum is exact") {
  unsigned most_found = 0;
  size_t alike = 0;
  for (size_t i = 0; i < 100000; ++i) {
    const unsigned word = whole_number(i);
    CHECK((word >= 1 && word <= 256));
    most_found = std::max(most_found, word);
    alike += word == whole_number(i + (1ull << 32));
  }
  CHECK(most_found == 256);
  CHECK(alike < 1000);  // the upper half of the index counts too
  for (const unsigned t : swept(false, true))
    CHECK(256.0 * ceil_div(text_size.rows, blocks) * ceil_div(text_size.columns, t) < 1 << 24);
}

TEST_CASE("threads: the counts of a sweep, and what the claims need") {
  CHECK(swept(true, false).size() < 20);
  CHECK(swept(false, false).size() < 50);
  CHECK(swept(false, true).size() == 1009);
  for (const bool quick : {true, false}) {
    const std::set<unsigned> counts = swept(quick, false);
    CHECK(counts.count(calibrating) == 1);
    for (const unsigned t : printed) CHECK(counts.count(t) == 1);
    for (const unsigned t : named) CHECK(counts.count(t) == 1);
    for (const Beside pair : beside_multiples(quick, false)) {
      CHECK(pair.multiple % 16 == 0);
      CHECK(pair.count % 16 != 0);
      CHECK((pair.count + 1 == pair.multiple || pair.count - 1 == pair.multiple));
    }
  }
  CHECK(beside_multiples(false, false).size() == 14);
  CHECK(beside_multiples(false, true).size() == 50);
}

namespace {

Readings always(double ms) { return Readings{std::vector<double>(15, ms)}; }

/// Times of every count by a law of the threads.
LaunchTimes made_up(const Function<double(unsigned)>& ms) {
  LaunchTimes times;
  for (unsigned t = least; t <= most; ++t) times[{blocks, t}] = always(ms(t));
  return times;
}

std::string judged(const LaunchTimes& times) {
  std::string printed;
  Report report("threads", &printed);
  Compare compare;
  compare.times = times;
  find_best(times, compare);
  judge_threads({report, nullptr, {}}, compare, beside_multiples(false, false));
  return printed;
}

}  // namespace

TEST_CASE("threads: rows fit made-up GPUs, beyond the L2") {
  check_on_made_up_devices([](const Run& run) {
    const unsigned rows = rows_of(run);
    return Needs{bytes_needed(rows), bytes_read({rows, text_size.columns})};
  });
}

TEST_CASE("threads: each claim compares the text's pair, the right way round") {
  const std::string then = judged(made_up([](unsigned t) {  // as on the 8800 GTX
    if (t % 16 != 0) return 6.8;
    if (t < 32) return 3.5;
    if (t < 192) return 1.75;
    return t > 384 ? 1.5 : 1.0;
  }));
  for (const char* line :
       {"04.5a  holds  ", "04.5b  holds  ", "04.6a  holds  ", "04.6b  holds  "}) {
    CAPTURE(then);
    CHECK(then.find(line) != std::string::npos);
  }
  const std::string now = judged(made_up([](unsigned t) {  // bytes in flight, and two rounds
    const double rate = t <= 256 ? t : t <= 512 ? t / 2.0 : 400;
    return 1000 / (t == 512 ? 300 : rate);
  }));
  CAPTURE(now);
  CHECK(now.find("04.5a  no longer") != std::string::npos);
  CHECK(now.find("04.5b  holds  ") != std::string::npos);
  CHECK(now.find("04.6a  no longer") != std::string::npos);
  CHECK(now.find("04.6b  no longer") != std::string::npos);
  const std::string weak = judged(made_up([](unsigned t) { return t % 16 ? 2.0 : 1.0; }));
  CAPTURE(weak);
  CHECK(weak.find("04.5a  holds, weaker") != std::string::npos);
  CHECK(weak.find("04.5b  no longer") != std::string::npos);
  const std::string little = judged(made_up([](unsigned t) { return t % 16 ? 1.005 : 1.0; }));
  CHECK(little.find("04.5a  no longer") != std::string::npos);
}

TEST_CASE("threads: the worst pair is sought where the rounds are equal") {
  Compare compare;
  compare.times = made_up([](unsigned t) { return t == 257 ? 2.0 : t == 319 ? 1.1 : 1.0; });
  for (unsigned t = least; t <= most; ++t) compare.rounds[t] = t <= 256 ? 1 : 2;
  find_best(compare.times, compare);
  std::string printed;
  Report report("threads", &printed);
  judge_threads({report, nullptr, {}}, compare, beside_multiples(false, false));
  CAPTURE(printed);
  CHECK(printed.find("where the rounds are equal at most 1.10x (319 against 320)") !=
        std::string::npos);
}

TEST_CASE("threads: what is not judged on a GPU says why") {
  Device device;
  device.number = -1;
  device.prop.name[0] = 'X';  // a GPU that has a name
  std::string printed;
  Report report("threads", &printed);
  report.heading(&device, "");
  Compare compare;
  compare.why_not = "too small";
  judge_threads({report, &device, {}}, compare, beside_multiples(false, false));
  for (const char* id : {"04.5a", "04.5b", "04.6a", "04.6b"})
    CHECK(printed.find(std::string(id) + "  not judged") != std::string::npos);
  CHECK(printed.find("too small") != std::string::npos);
}

TEST_CASE("threads: a row says what was read, over its time, beside its prediction") {
  Device device;
  device.number = -1;
  device.theoretical_gbs = 10000;
  Report report("threads");
  const Run run{report, &device, {}};
  ThreadsTable table(run, text_size);
  table.trip = 1e-4;
  table.add(256, 1056, always(603.979776));
  table.add(257, 924, always(1));
  table.add(calibrating, 2112, always(1));
  const std::string csv = report.csv("");
  for (const char* line :
       {",by rows,threads,256,measured,bandwidth,GB/s,1,", ",256,predicted,time,ms,0.0603979776,",
        ",256,predicted,loads in turn,,576,", ",257,predicted,rounds,,2,",
        ",257,predicted,time,ms,0.1152,", ",257,predicted,bytes in flight,bytes,949872,",
        ",64,calibration,time,ms,1,"}) {
    CAPTURE(std::string(line));
    CHECK(csv.find(line) != std::string::npos);
  }
}

TEST_CASE("threads: what the sweep shows beside the claims") {
  const LaunchTimes sweep = made_up([](unsigned t) {
    return t == 304 ? 2.0 : t > 400 ? 4.0 : 1.0;
  });
  CHECK(deepest_fall(sweep, [](unsigned t) { return 2000 - t; }) ==
        "the rate falls most from 400 to 401 threads, by 75%: 1599 blocks fit at once, not 1600");
  Compare compare;
  CHECK(odd_multiples(sweep, compare) ==
        "112 threads reach 100%, 304 threads reach 50% of the mean rate of the multiples of 32 "
        "beside them");
  compare.rounds = {{96, 1}, {112, 1}, {128, 1}, {288, 1}, {304, 2}, {320, 2}};
  CHECK(odd_multiples(sweep, compare) ==
        "112 threads reach 100% of the mean rate of the multiples of 32 beside them");
  CHECK(deepest_fall({}, [](unsigned t) { return t; }).empty());
  CHECK(odd_multiples({}, {}).empty());
  CHECK(middle({exactly(3), exactly(1), exactly(2)}).value == 2);
  CHECK(middle({exactly(3), exactly(1), exactly(2), exactly(6)}).value == 2.5);
  CHECK_FALSE(middle({exactly(3), Interval{}}).measured());
}

TEST_CASE("threads: every thread's sum is right at awkward sizes and counts") {
  if (skip_without_gpu()) return;
  for (const Size size :
       {Size{1, 1}, Size{7, 1009}, Size{101, 31}, Size{1031, 257}, Size{3, 12288}})
    for (const unsigned t : {1u, 16u, 17u, 31u, 32u, 33u, 192u, 193u, 1023u, 1024u}) {
      CAPTURE(size.rows);
      CAPTURE(size.columns);
      CAPTURE(t);
      const Launch l{blocks, t};
      RowArray array(sum_rows, size, l.total());
      const Task task = array.task(l);
      CHECK(wrong_after(task) == 0);
      CHECK(array.canaries_stand(l));
      std::vector<float> sums = array.out.to_host();
      sums.resize(l.total());
      CHECK(sums == sums_by_host(size, l));
      task.check.poison();
      CHECK(task.check.wrong() == l.total());
    }
}

TEST_CASE("threads: the check finds a word that another thread took") {
  if (skip_without_gpu()) return;
  const Launch l{7, 33};
  RowArray array(sum_rows, {101, 257}, l.total());
  const Task task = array.task(l);
  REQUIRE(wrong_after(task) == 0);
  std::vector<float> sums = array.out.to_host();
  sums[5] += 1;  // the total is what it was
  sums[6] -= 1;
  array.out.copy_from(sums);
  CHECK(task.check.wrong() == 2);
}

TEST_CASE("threads: more than 2^32 words" * doctest::test_suite("large")) {
  if (skip_without_gpu()) return;
  const Size size{349600, text_size.columns};
  if (bytes_read(size) > 0.9 * double(Device::free_bytes()))
    return skip_self_check("needs " + bytes_text(bytes_read(size)) + " of device memory");
  const Launch l{blocks, 1024};
  RowArray array(sum_rows, size, l.total());
  CHECK(wrong_after(array.task(l)) == 0);
}

TEST_CASE("threads: measured rows lie where its models predict them" *
          doctest::test_suite("plausible") * doctest::skip()) {
  check_plausible(&threads);
}
