// Self-checks of blocks.cu, compiled in its place where BUILD_TESTING is on.
#include "../blocks.cu"

#include <doctest/doctest.h>

#include "../../common/checks/made_up_devices.hpp"
#include "../../common/checks/plausible.hpp"

TEST_CASE("blocks: rows in turn and their balance") {
  CHECK(balance(12288, 1024, 1320) == 1);  // twelve rows each
  CHECK(balance(12288, 1023, 1320) == doctest::Approx(12288.0 / (1023 * 13)));
  CHECK(balance(12288, 2048, 1320) == doctest::Approx(12288.0 / (1320 * 12)));  // 6 and 6
  for (unsigned b = 1; b <= most; ++b) {
    unsigned slowest = 0;  // by counting, as the kernel's loop deals the rows out
    for (unsigned row = 0; row < 12288; row += b) ++slowest;
    CHECK(ceil_div(12288, b) == slowest);
    CHECK(loads_in_turn(text_size, {b, threads_a_block}, most) == slowest * 64.0);
    CHECK(balance(12288, b, 100) <= 1);
  }
  CHECK(loads_in_turn(text_size, {1321, threads_a_block}, 1320) == 2 * 10 * 64);
}

TEST_CASE("blocks: few blocks read a part of the rows, each launch the next one") {
  CHECK(part_of(12288, 1) == 48);
  CHECK(part_of(12288, 255) == 255 * 48);
  CHECK(part_of(12288, 256) == 12288);
  CHECK(part_of(12288, 2048) == 12288);
  NextPart next;
  std::set<unsigned> firsts;
  for (int launch = 0; launch < 256; ++launch) {
    const unsigned first = next.take(48, 12288);
    CHECK(first + 48 <= 12288);
    firsts.insert(first);
  }
  CHECK(firsts.size() == 256);       // no rows twice before all were read
  CHECK(next.take(48, 12288) == 0);  // then from the start
  CHECK(next.take(12288, 12288) == 0);
  CHECK(next.take(12288, 12288) == 0);
}

TEST_CASE("blocks: rows and counts of made-up GPUs") {
  check_on_made_up_devices([](const Run& run) {
    const unsigned rows = rows_of(run);
    const unsigned multiprocessors = unsigned(run.device->prop.multiProcessorCount);
    const unsigned threads = unsigned(run.device->prop.maxThreadsPerMultiProcessor);
    const Places places{multiprocessors, multiprocessors * (threads / threads_a_block)};
    const std::set<unsigned> counts = swept(rows, places, run.quick, run.full);
    CHECK(counts.count(multiprocessors) == 1);  // the calibrating launch
    bool neighbours = false;
    for (const unsigned b : counts)
      neighbours = neighbours || (b < chart_end && counts.count(b + 1));
    CHECK(neighbours);
    return Needs{bytes_needed(rows), bytes_read({rows, text_size.columns})};
  });
}

TEST_CASE("blocks: the counts of a sweep on made-up devices, and what the claims need") {
  for (const unsigned multiprocessors : {1u, 16u, 24u, 132u, 300u}) {
    const Places places{multiprocessors, 10 * multiprocessors};
    CAPTURE(multiprocessors);
    for (const bool quick : {true, false}) {
      const std::set<unsigned> counts = swept(12288, places, quick, false);
      CHECK(counts.size() < 250);
      if (multiprocessors >= 16) CHECK(counts.size() < 60);
      CHECK(*counts.begin() == 1);
      CHECK(*counts.rbegin() == most);
      CHECK(counts.count(multiprocessors) == 1);
      CHECK(counts.count(2 * multiprocessors + 1) == 1);
      for (const unsigned b : named) CHECK(counts.count(b) == 1);
      for (const unsigned b : printed(12288, places)) CHECK(counts.count(b) == 1);
    }
    CHECK(swept(12288, places, false, true).size() == most);
    CHECK(printed(12288, places).size() <= 12);
  }
}

namespace {

Readings always(double ms) { return Readings{std::vector<double>(15, ms)}; }

/// Verdicts on made-up rates, in rows a millisecond.
std::string judged(const Function<double(Launch)>& rate) {
  LaunchTimes sweep;
  for (unsigned b = 1; b <= most; ++b) {
    const Launch l{b, threads_a_block};
    sweep[l] = always(part_of(text_size.rows, b) / rate(l));
  }
  Compare compare;
  choose(sweep, compare);
  compare.times = sweep;
  for (const Launch l : few) compare.times[l] = always(part_of(text_size.rows, l.blocks) / rate(l));
  for (const Launch l : compared_launches(compare)) REQUIRE(compare.times.count(l) == 1);
  std::string printed;
  Report report("blocks", &printed);
  judge_blocks({report, nullptr, {}}, compare);
  return printed;
}

}  // namespace

TEST_CASE("blocks: each claim compares the text's pair, the right way round") {
  const std::string then = judged([](Launch l) {  // as on the 8800 GTX: 16 multiprocessors
    return l.blocks < 1024 && l.blocks % 16 == 1 ? 57.0 : 70.0;
  });
  CAPTURE(then);
  for (const char* line : {"04.7a  holds  ", "04.7b  holds  ", "04.7c  holds  ", "04.12  holds  "})
    CHECK(then.find(line) != std::string::npos);
  CHECK(then.find("by 18.6% (17.8 to 19.4%)") != std::string::npos);
  CHECK(then.find("of 1023 counts and the next the rate falls most from ") != std::string::npos);
  const std::string now = judged([](Launch l) {  // bytes in flight; 1320 blocks fit
    return l.blocks <= 1320 ? double(l.total()) : l.blocks * 120.0;
  });
  CAPTURE(now);
  CHECK(now.find("04.7a  no longer") != std::string::npos);
  CHECK(now.find("04.7b  no longer") != std::string::npos);
  CHECK(now.find("04.7c  holds") != std::string::npos);
  CHECK(now.find("04.12  no longer") != std::string::npos);
  CHECK(now.find("1024 blocks are best: 4.00x the rate of 256, 2.00x the rate of 512") !=
        std::string::npos);
  CHECK(now.find("of the rate of 1320 x 192") != std::string::npos);
  const std::string harmed = judged([](Launch l) { return l.blocks > 1024 ? 50.0 : 70.0; });
  CHECK(harmed.find("04.7c  does not hold") != std::string::npos);
}

TEST_CASE("blocks: what is not judged on a GPU says why") {
  Device device;
  device.number = -1;
  device.prop.name[0] = 'X';  // a GPU that has a name
  std::string printed;
  Report report("blocks", &printed);
  report.heading(&device, "");
  Compare compare;
  compare.why_not = "too small";
  judge_blocks({report, &device, {}}, compare);
  for (const char* id : {"04.7a", "04.7b", "04.7c", "04.12"})
    CHECK(printed.find(std::string(id) + "  not judged") != std::string::npos);
  CHECK(printed.find("too small") != std::string::npos);
}

TEST_CASE("blocks: a row says what was read, over its time, beside its prediction") {
  Device device;
  device.number = -1;
  device.theoretical_gbs = 100;
  Report report("blocks");
  const Run run{report, &device, {}};
  BlocksTable table(run, text_size, {16, 64});
  table.trip = 1e-4;
  table.add(1, always(2.359296));       // 48 rows of 48 KiB
  table.add(1024, always(603.979776));  // all rows
  table.add(16, always(1));
  const std::string csv = report.csv("");
  for (const char* line :
       {",by rows,blocks,1,measured,bandwidth,GB/s,1,",
        ",by rows,blocks,1,predicted,time,ms,0.3072,", ",1024,measured,bandwidth,GB/s,1,",
        ",1024,predicted,time,ms,6.03979776,", ",1024,predicted,rounds,,16,",
        ",1024,predicted,rows a block,,12,", ",16,calibration,time,ms,1,"}) {
    CAPTURE(std::string(line));
    CHECK(csv.find(line) != std::string::npos);
  }
  CHECK(csv.find(",1024,predicted,time,ms,1.2288,") == std::string::npos);
}

TEST_CASE("blocks: the cliff behind the blocks that fit") {
  const LaunchTimes sweep{{{10, threads_a_block}, always(2)}, {{11, threads_a_block}, always(3)}};
  CHECK(cliff(sweep, 10) == "10 blocks fit at once; one more takes 1.50x as long");
  CHECK(cliff(sweep, 11).empty());
}

TEST_CASE("blocks: every thread's sum is right at awkward sizes and counts") {
  if (skip_without_gpu()) return;
  for (const Size size : {Size{1, 1}, Size{97, 31}, Size{1031, 257}, Size{2050, 193}})
    for (const unsigned b : {1u, 2u, 7u, 31u, 132u, 1009u, 2048u}) {
      CAPTURE(size.rows);
      CAPTURE(b);
      const Launch l{b, threads_a_block};
      const unsigned part = part_of(size.rows, b);
      RowArray array(sum_rows, size, l.total());
      const Task task = array.task(l, part);
      CHECK(wrong_after(task) == 0);
      CHECK(array.canaries_stand(l));
      std::vector<float> sums = array.out.to_host();
      sums.resize(l.total());
      CHECK(sums == sums_by_host({part, size.columns}, l));
      // the parts that follow: compute-sanitizer sees one that ends outside
      for (int i = 0; i < 12; ++i) task.launch();
      CUDA_CHECK_LAUNCH();
      CHECK(wrong_after(task) == 0);
    }
}

TEST_CASE("blocks: measured rows lie where its models predict them" *
          doctest::test_suite("plausible") * doctest::skip()) {
  check_plausible(&blocks);
}
