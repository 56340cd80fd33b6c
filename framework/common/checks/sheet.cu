// Self-checks of machine.hpp, sheet.hpp and experiment.hpp.
#include "../experiment.hpp"

#include <doctest/doctest.h>

#include <cstdio>
#include <fstream>
#include <initializer_list>

using namespace samples;

namespace {

struct Fixture {
  std::string printed;
  Report report{"checks", &printed};
  Device device;
  Results results;
  MadeUpMachine machine{&device, [](const Ref& ref, const std::string&) { return ref.at; }};
  Run run{report, &device, {}, false, false, &machine, &results};
};

Task task(const Row& row) {
  return {text(row.ref), [] {}, unchecked("a check of the house")};
}

}  // namespace

TEST_CASE("sheet: a row has a key, no two have the same, and none is looked up in vain") {
  Fixture f;
  Sheet sheet(f.run, "length", {milliseconds(1)});
  CHECK_THROWS_AS(sheet.add({.ref = "Not a key"}), std::logic_error);
  sheet.add({.ref = {"copy", 1}});
  sheet.add({.ref = {"copy", 2}});
  sheet.measure(Timing::alone, task);
  CHECK(sheet.ms({"copy", 2}) == 2);
  CHECK_THROWS_AS(sheet.ms("copy"), std::logic_error);
  Sheet another(f.run, "length", {milliseconds(1)});
  another.add({.ref = {"copy", 2}});
  CHECK_THROWS_AS(another.measure(Timing::alone, task), std::logic_error);
}

TEST_CASE("sheet: a rate is saved with its time, low and high in order") {
  Fixture f;
  Sheet sheet(f.run, "length", {gigabytes_per_second()});
  sheet.add({.ref = {"copy", 4}, .bytes = 8e6});
  sheet.measure(Timing::alone, task);
  sheet.predict([](const Row&) { return 2.0; });
  sheet.print();
  double time = 0, rate = 0, predicted = 0;
  for (const Record& r : f.report.records()) {
    if (r.metric == "time" && r.kind == "measured") time = r.value;
    if (r.metric == "bandwidth" && r.kind == "measured") rate = r.value;
    if (r.metric == "bandwidth" && r.kind == "predicted") predicted = r.value;
    CHECK((std::isnan(r.low) || r.low <= r.high));
  }
  CHECK(time == 4);
  CHECK(rate == 2);
  CHECK(predicted == 4);
}

TEST_CASE("sheet: what is swept may have another name than the first column") {
  Fixture f;
  Sheet sheet(f.run, "kernel", {milliseconds(1), share_against(f.run, {"copy", 4}, "of copy")},
              "side");
  sheet.add({.ref = {"copy", 4}, .words = "the copy", .bytes = 8});
  sheet.add({.ref = {"kernel", 5}, .words = "a kernel", .bytes = 8});
  sheet.measure(Timing::in_turn, task);
  sheet.print();
  CHECK(f.printed.find("100.0%") != std::string::npos);
  CHECK(f.printed.find("80.0%") != std::string::npos);
  for (const Record& r : f.report.records())
    if (r.kind == "measured") CHECK(r.parameter == "side");

  // a finding names its rows, and saves their ratio
  find(f.run, "length", {.slow = {"kernel", 5}, .fast = {"copy", 4}}, "here, ");
  CHECK(f.printed.find("here, a kernel: 1.25x slower than the copy") != std::string::npos);
  const Record& last = f.report.records().back();
  const Record& ratio = last.kind == "ratio" ? last : *(&last - 1);
  CHECK(ratio.kind == "ratio");
  CHECK(ratio.name == "kernel");
  CHECK(ratio.metric == ratio_to({"copy", 4}));
  CHECK(ratio.value == doctest::Approx(1.25));
}

TEST_CASE("machine: each group has memory of its own, which its tasks share") {
  Fixture f;
  Run run = f.run;
  run.device = nullptr;  // then work of the host alone is measured
  ThisMachine machine(run);
  int made = 0, tasks = 0;
  SharedByTasks memory([&made] { return ++made; });
  std::vector<Job> jobs;
  for (const char* key : {"a", "b", "c"})
    jobs.push_back({key,
                    [&, key] {
                      ++tasks;
                      return Task{key, [there = memory()] {}, unchecked("nothing is done"), true};
                    },
                    true});
  jobs.push_back({"on_the_gpu", {}, false});
  const std::vector<Timed> times = machine.times(jobs, true, 6);
  CHECK(made == 6);
  CHECK(tasks == 18);
  CHECK(times[0].groups.size() == 6);
  CHECK(times[0].ms.repeats > 0);
  CHECK(times[3].groups.empty());
}

TEST_CASE("machine: a task that has another row's name is refused") {
  Fixture f;
  f.run.device = nullptr;
  ThisMachine machine(f.run);
  const auto other = [] { return Task{"copy at 2", [] {}, unchecked("nothing is done"), true}; };
  CHECK_THROWS_AS(machine.times({{{"copy", 1}, other, true}}, false, 1), std::logic_error);
}

TEST_CASE("machine: tasks that allocate more than a made-up GPU has are refused") {
  if (no_gpu_reason().empty()) return skip_self_check("makes tasks only where there is no GPU");
  Fixture f;
  f.device.number = -1;
  f.device.prop.totalGlobalMem = 3000;
  const auto job = [](const char* key) {
    return Job{key, [key] {
                 const Shared memory(DeviceBuffer<char>(1000));
                 return Task{key, [memory] {}, unchecked("is not run")};
               }};
  };
  CHECK_NOTHROW(f.machine.times({job("a"), job("b"), job("c")}, true, 1));
  CHECK_THROWS_AS(f.machine.times({job("a"), job("b"), job("c"), job("d")}, true, 1),
                  std::logic_error);
}

TEST_CASE("machine: a recording is read as it was saved") {
  const std::string path = "recording_check.csv";
  {
    std::ofstream file(path);
    file << "topic,experiment,case,at,kind,metric,unit,value,low,high,repeats,gpu,cc,date\n"
            "t,,device,,machine,L2,B,1000,,,,A GPU,9.0,2026-01-01\n"
            "t,x,copy,2,measured,time,ms,1.5,1,2,20,A GPU,9.0,2026-01-01\n"
            "t,x,copy,2,predicted,time,ms,7,,,,A GPU,9.0,2026-01-01\n"
            "t,x,copy,2,ratio,time over that of best,x,3,2,4,9,A GPU,9.0,2026-01-01\n"
            "t,x,05.1,\"it, \"\"here\"\"\",claim,holds,x,3,,,,A GPU,9.0,2026-01-01\n"
            "t,y,copy,2,measured,time,ms,99,,,,Another,9.0,2026-01-01\n";
  }
  const Recording recording = read_recording(path, "x");
  std::remove(path.c_str());
  CHECK(recording.gpu == "A GPU");
  CHECK(recording.device.prop.major == 9);
  CHECK(recording.device.prop.l2CacheSize == 1000);
  CHECK(recording.records.size() == 4);
  CHECK(recording.records[3].at == "it, \"here\"");
  RecordedMachine machine(recording);
  const std::vector<Timed> times = machine.times({{{"copy", 2}}, {"missing"}}, true, 1);
  CHECK(times[0].ms.median == 1.5);
  CHECK(times[0].ms.high == 2);
  CHECK(times[1].ms.repeats == 0);
  CHECK(machine.ratio({.ref = {"copy", 2}}, {.ref = "best"}).value == 3);
  CHECK_FALSE(machine.ratio({.ref = "best"}, {.ref = {"copy", 2}}).measured());
  CHECK(machine.value({"copy", 2}, "time", false, {}).median == 1.5);
  CHECK(machine.value({"copy", 2}, "time over that of best", false, {}).repeats == 0);
}

TEST_CASE(
    "machine: a ratio of groups reaches from the least to the largest, and 10% to either side") {
  Fixture f;
  const auto row = [](const char* key, std::initializer_list<double> of_groups) {
    Measured measured{.ref = key, .turn = 1, .regrouped = true};
    for (const double ms : of_groups) measured.time.groups.push_back({std::vector<double>(6, ms)});
    return measured;
  };
  const Measured one = row("one", {1, 1, 1, 1, 1, 1});
  const Interval wide = f.machine.ratio(row("a", {2, 2, 2, 2, 2, 4}), one);
  CHECK(wide.value == doctest::Approx(2));
  CHECK(wide.low == doctest::Approx(1.8));
  CHECK(wide.high == doctest::Approx(4));
  const Interval close = f.machine.ratio(row("b", {2, 2, 2, 2, 2, 2}), one);
  CHECK(close.high == doctest::Approx(2.2));
}

// ---- claims ----

namespace {

/// Rows a at 1, 2 and 3, each as many milliseconds long as `at` says, and a row that is missing.
void run_example(const Run& run, Timing timing) {
  run.report.begin("example", "of nothing");
  Sheet sheet(run, "length", {milliseconds(1)});
  for (const double at : {1, 2, 3}) sheet.add({.ref = {"a", at}});
  sheet.add({.ref = {"b", 1}, .words = "b", .missing = "needs 2 GPUs"});
  sheet.measure(timing, task);
  sheet.print();
  keep(run, "a", "share", "", single(0.5));
}
void run_alone(const Run& run) { run_example(run, Timing::alone); }
void run_in_turn(const Run& run) { run_example(run, Timing::in_turn); }
void run_regrouped(const Run& run) { run_example(run, Timing::regrouped); }

const Comparison two_over_one{.slow = {"a", 2}, .fast = {"a", 1}};

std::vector<Claim> pairs_of_rows(const Run&) {
  return {
      {.part = {"1a", "two over one", "", ""}, .rule = beats(2), .pairs = {two_over_one}},
      {.part = {"1b", "one over two", "", ""},
       .rule = beats(),
       .pairs = {{.slow = {"a", 1}, .fast = {"a", 2}}}},
      {.part = {"1c", "several, of which one does not", "", ""},
       .rule = beats(),
       .pairs = {two_over_one, {{"a", 3}, {"a", 1}}, {{"a", 3}, {"a", 2}}, {{"a", 1}, {"a", 2}}}},
      {.part = {"1d", "a row that is missing", "", ""},
       .rule = beats(),
       .pairs = {{.slow = {"a", 2}, .fast = {"b", 1}}}},
      {.part = {"1e", "many, of which two do not", "", ""},
       .rule = beats(),
       .pairs = {two_over_one,
                 {{"a", 3}, {"a", 1}},
                 {{"a", 3}, {"a", 2}},
                 {{"a", 1}, {"a", 2}},
                 {{"a", 1}, {"a", 3}}}},
  };
}
std::vector<Claim> one_pair(const Run&) {
  return {{.part = {"2", "two over one", "", ""}, .rule = beats(2), .pairs = {two_over_one}}};
}
std::vector<Claim> levels(const Run&) {
  const auto rate = [](double ms) { return 6 / ms; };
  return {{.part = {"3a", "kept", "", ""}, .rule = about(0.5), .levels = {{"a", "share"}}},
          {.part = {"3b", "from a time", "", ""},
           .rule = about(3),
           .levels = {{.ref = {"a", 2}, .metric = "rate", .of_ms = rate, .unit = "GB/s"}}},
          {.part = {"3c", "a fact", "", ""}, .fact = Fact::not_so, .here = "it is not"},
          {.part = {"3d", "not judged", "", ""}, .unless = "the reason"}};
}
std::vector<Claim> nothing_decides(const Run&) { return {{.part = {"4", "nothing", "", ""}}}; }

/// The verdict on a part, as saved.
std::string verdict_on(const Report& report, const std::string& part) {
  for (const Record& r : report.records())
    if (r.kind == "claim" && r.name == part) return r.metric;
  return "no such part";
}

}  // namespace

TEST_CASE("claims: pairs in order, several of them, and rows that are missing") {
  Fixture f;
  carry_out({.run = run_in_turn, .claims = pairs_of_rows}, f.run, f.machine);
  CHECK(verdict_on(f.report, "1a") == verdict_text(Verdict::holds));
  CHECK(verdict_on(f.report, "1b") == verdict_text(Verdict::does_not_hold));
  CHECK(verdict_on(f.report, "1c") == verdict_text(Verdict::holds));
  CHECK(verdict_on(f.report, "1d") == verdict_text(Verdict::not_judged));
  CHECK(f.printed.find("needs 2 GPUs") != std::string::npos);
  CHECK(verdict_on(f.report, "1e") == verdict_text(Verdict::depends));
  CHECK(f.printed.find("3 of 5 hold, but not 1, 1; from 0.33x to 3.00x") != std::string::npos);
  size_t ratios = 0;
  for (const Record& r : f.report.records())
    if (r.kind == "ratio" && r.name == "a" && r.at == "2" &&
        r.metric == "time over that of a at 1") {
      CHECK(r.value == 2);
      ++ratios;
    }
  CHECK(ratios == 3);  // of 1a, 1c and 1e
}

TEST_CASE("claims: what a byte of each row takes") {
  Fixture f;
  Sheet sheet(f.run, "length", {milliseconds(1)});
  sheet.add({.ref = {"a", 6}, .bytes = 10});
  sheet.add({.ref = {"a", 2}, .bytes = 40});
  sheet.measure(Timing::in_turn, task);
  const Comparison times{.slow = {"a", 6}, .fast = {"a", 2}};
  const Comparison bytes{.slow = {"a", 6}, .fast = {"a", 2}, .per_byte = true};
  CHECK(ratio_of(f.run, times).value == doctest::Approx(3));
  CHECK(ratio_of(f.run, bytes).value == doctest::Approx(12));
  CHECK(ratio_of(f.run, bytes).low == doctest::Approx(12 * 0.99));
  find(f.run, "1", bytes);
  CHECK(f.printed.find("12.0x slower") != std::string::npos);
  CHECK(f.report.records().back().kind == "finding");
  CHECK(f.report.records()[f.report.records().size() - 2].value == doctest::Approx(3));
}

TEST_CASE("claims: rows that were not measured in turn are not compared") {
  Fixture f;
  CHECK_THROWS_AS(carry_out({.run = run_alone, .claims = one_pair}, f.run, f.machine),
                  std::logic_error);
}

TEST_CASE("claims: what the host decides needs six groups, which --quick does not measure") {
  for (const bool quick : {false, true}) {
    Fixture f;
    f.run.quick = quick;
    carry_out({.run = run_regrouped, .claims = one_pair}, f.run, f.machine);
    CHECK(verdict_on(f.report, "2") == verdict_text(quick ? Verdict::not_judged : Verdict::holds));
  }
}

TEST_CASE("claims: levels, facts, and parts that are not judged") {
  Fixture f;
  carry_out({.run = run_alone, .claims = levels}, f.run, f.machine);
  CHECK(verdict_on(f.report, "3a") == verdict_text(Verdict::holds));
  CHECK(verdict_on(f.report, "3b") == verdict_text(Verdict::holds));
  CHECK(verdict_on(f.report, "3c") == verdict_text(Verdict::does_not_hold));
  CHECK(verdict_on(f.report, "3d") == verdict_text(Verdict::not_judged));
  CHECK_THROWS_AS(carry_out({.run = run_alone, .claims = nothing_decides}, f.run, f.machine),
                  std::logic_error);
}

TEST_CASE("claims: without a GPU nothing is judged, and nothing is wrong") {
  Fixture f;
  f.run.device = nullptr;
  MadeUpMachine none(nullptr, {});
  carry_out({.run = run_in_turn, .claims = pairs_of_rows}, f.run, none);
  for (const char* part : {"1a", "1b", "1c", "1d"})
    CHECK(verdict_on(f.report, part) == verdict_text(Verdict::not_judged));
}
