// Self-checks of timing.hpp and memory.hpp: statistics, how often and in which order work is
// measured, what is refused before, and owners.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "../report.hpp"

// ---- statistics ------------------------------------------------------------------------------

TEST_CASE("statistics: one value, even and odd counts, ties") {
  const Statistics one = summarize({7});
  CHECK(one.median == 7);
  CHECK(one.low == 7);
  CHECK(one.high == 7);
  CHECK(one.repeats == 1);
  CHECK(one.spread() == 0);

  CHECK(summarize({4, 1, 3, 2}).median == 2.5);
  CHECK(summarize({30, 10, 20}).median == 20);

  const Statistics eleven = summarize({10, 0, 9, 1, 8, 2, 7, 3, 6, 4, 5});
  CHECK(eleven.low == 1);  // percentiles fall on values
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

  const Statistics words = rate(8, {4, 2, 8, 3});
  CHECK(words.median == 2);
  CHECK(words.low == 1);
  CHECK(words.high == 4);

  const Statistics twice = scaled(Statistics{4, 2, 8, 3}, 2);
  CHECK(twice.median == 8);
  CHECK(twice.low == 4);
  CHECK(twice.high == 16);
  CHECK(twice.repeats == 3);
}

TEST_CASE("statistics: what was not measured is not a number") {
  CHECK(!std::isfinite(Statistics{}.median));
  CHECK(!std::isfinite(Readings{}.median()));
  CHECK(Readings{}.statistics().repeats == 0);
  CHECK(!std::isfinite(gigabytes_per_second(8e9, {}).median));
  CHECK(Readings{{3, 1, 2}}.median() == 2);
  CHECK(Readings{{3, 1, 2}}.statistics().repeats == 3);
}

// ---- how often -------------------------------------------------------------------------------

TEST_CASE("measuring: repeats follow the budget unless they were typed") {
  const Measuring usual{.repeats = 20, .budget_ms = 250};
  CHECK(usual.repeats_for(1) == 20);
  CHECK(usual.repeats_for(25) == 10);
  CHECK(usual.repeats_for(1000) == 5);
  CHECK(usual.repeats_for(0) == 20);
  CHECK(usual.repeats_for(NAN) == 20);
  CHECK(Measuring{.repeats = 3}.repeats_for(1000) == 3);
  CHECK(Measuring{.repeats = 50, .typed = true}.repeats_for(1000) == 50);
  CHECK(Measuring{.repeats = 1, .typed = true}.repeats_for(1000) == 1);
}

TEST_CASE("measuring: rounds make nine blocks, never fewer, unless repeats were typed") {
  const Measuring usual;
  CHECK(usual.rounds_in_turn() == 18);
  CHECK(Measuring::quick_rounds == 12);
  CHECK(Measuring{.repeats = 50, .typed = true}.rounds_in_turn() == 50);
  CHECK(Measuring{.repeats = 2, .typed = true}.rounds_in_turn() == 2);
}

// ---- work ------------------------------------------------------------------------------------

TEST_CASE("work: a function owns what it calls, and moves") {
  CHECK(!Function<void()>());
  int calls = 0;
  const std::vector<int> owned{1, 2, 3};
  Function<size_t(int)> count = [&calls, owned](int more) {
    ++calls;
    return owned.size() + size_t(more);
  };
  CHECK(bool(count));
  CHECK(count(4) == 7);
  const Function<size_t(int)> moved = std::move(count);
  CHECK(!count);
  CHECK(moved(0) == 3);
  CHECK(calls == 2);

  const auto freed = [](Function<void()>) {};  // at the end of its call
  struct Counted {
    int* alive;
    explicit Counted(int* alive) : alive(alive) { ++*alive; }
    Counted(const Counted& other) : Counted(other.alive) {}
    ~Counted() { --*alive; }
    void operator()() const {}
  };
  int alive = 0;
  freed(Counted(&alive));
  CHECK(alive == 0);
}

namespace {

Measuring exactly_repeated(int repeats) { return {.repeats = repeats, .typed = true}; }

/// Host work that appends its name to `log` each time, and has nothing to check.
Task logged(const std::string& name, std::string& log) {
  Task task;
  task.name = name;
  task.launch = [&log, name] { log += name; };
  task.check = unchecked("it has no result");
  task.on_host = true;
  return task;
}

/// The same, whose output is poisoned ("p") and found to have so many wrong elements ("w").
Task checked(const std::string& name, std::string& log, size_t wrong) {
  Task task = logged(name, log);
  task.check.unchecked.clear();
  task.check.poison = [&log] { log += "p"; };
  task.check.wrong = [&log, wrong] {
    log += "w";
    return wrong;
  };
  return task;
}

std::vector<Task> both(Task a, Task b) {
  std::vector<Task> tasks;
  tasks.push_back(std::move(a));
  tasks.push_back(std::move(b));
  return tasks;
}

}  // namespace

TEST_CASE("measuring: by itself: once for the estimate, then so often as typed") {
  std::string log;
  const Readings times = time_alone(exactly_repeated(3), logged("A", log));
  const std::string estimate = "A";
  CHECK(log == estimate + "AAA");
  CHECK(times.ms.size() == 3);

  log.clear();
  time_alone(exactly_repeated(2), checked("A", log, 0));
  CHECK(log == "pAw" + estimate + "AA" + "pAw");
}

TEST_CASE("measuring: in turn: A B B A") {
  std::string log;
  const std::vector<Readings> times =
      time_in_turn(exactly_repeated(4), both(logged("A", log), logged("B", log)));
  const std::string estimates = "AB";
  CHECK(log == estimates + "ABBA" + "ABBA");
  REQUIRE(times.size() == 2);
  CHECK(times[0].ms.size() == 4);
  CHECK(times[1].ms.size() == 4);

  log.clear();
  std::vector<Task> three = both(logged("A", log), logged("B", log));
  three.push_back(logged("C", log));
  time_in_turn(exactly_repeated(3), three);
  CHECK(log == estimates + "C" + "ABC" + "CBA" + "ABC");

  log.clear();
  time_in_turn(exactly_repeated(2), both(checked("A", log, 0), checked("B", log, 0)));
  CHECK(log == "pAwpBw" + estimates + "ABBA" + "pAwpBw");

  CHECK(time_in_turn(exactly_repeated(2), {}).empty());
}

TEST_CASE("measuring: in turn: each reading is of its own work and round") {
  using Clock = std::chrono::steady_clock;
  int calls = 0;
  Task longer;
  longer.name = "longer from call to call";
  longer.launch = [&calls] {
    ++calls;
    const auto until = Clock::now() + std::chrono::milliseconds(calls);
    while (Clock::now() < until) {
    }
  };
  longer.check = unchecked("it has no result");
  longer.on_host = true;
  std::string log;
  const std::vector<Readings> times =
      time_in_turn(exactly_repeated(6), both(std::move(longer), logged("B", log)));
  REQUIRE(times[0].ms.size() == 6);
  for (int round = 0; round < 6; ++round) {
    CAPTURE(round);
    CHECK(times[0].ms[round] >= round + 2);  // the first call was the estimate
  }
}

TEST_CASE("measuring: a wrong result is refused before anything is timed") {
  std::string log;
  CHECK_THROWS_WITH_AS(time_alone(exactly_repeated(9), checked("A", log, 3)),
                       "wrong result: A, 3 elements", WrongResult);
  CHECK(log == "pAw");

  log.clear();
  CHECK_THROWS_WITH_AS(
      time_in_turn(exactly_repeated(9), both(checked("A", log, 0), checked("B", log, 1))),
      "wrong result: B, 1 elements", WrongResult);
  CHECK(log == "pAwpBw");
}

TEST_CASE("measuring: what the timed rounds spoil is found after the last of them") {
  for (const bool in_turn : {false, true}) {
    std::string log;
    Task spoils = checked("A", log, 0);
    spoils.check.wrong = [&log] { return size_t(std::count(log.begin(), log.end(), 'A') > 3); };
    if (in_turn)
      CHECK_THROWS_AS(time_in_turn(exactly_repeated(4), both(spoils, logged("B", log))),
                      WrongResult);
    else
      CHECK_THROWS_AS(time_alone(exactly_repeated(4), spoils), WrongResult);
  }
}

TEST_CASE("measuring: what a task needs set is set for it alone, and no longer, whatever ends it") {
  std::string log;
  const auto set = [&log](Task task) {
    task.enter = [&log] { log += "("; };
    task.leave = [&log] { log += ")"; };
    return task;
  };
  time_alone(exactly_repeated(2), set(checked("A", log, 0)));
  CHECK(log == "(pAw)(AAA)(pAw)");

  log.clear();
  time_in_turn(exactly_repeated(2), both(set(checked("A", log, 0)), checked("B", log, 0)));
  CHECK(log == "(pAw)pBw" + std::string("(A)B") + "(A)BB(A)" + "(pAw)pBw");

  log.clear();
  CHECK_THROWS_AS(time_alone(exactly_repeated(2), set(checked("A", log, 1))), WrongResult);
  CHECK(log == "(pAw)");
  log.clear();
  Task fails = set(logged("A", log));
  fails.launch = [] { throw std::runtime_error("fails"); };
  CHECK_THROWS_AS(time_alone(exactly_repeated(2), fails), std::runtime_error);
  CHECK(log == "()");
}

TEST_CASE("measuring: work has a check or a reason why there is none") {
  std::string log;
  Task none = logged("A", log);
  none.check.unchecked.clear();
  CHECK_THROWS_WITH_AS(time_alone(exactly_repeated(1), none),
                       "A: neither a check nor a reason why there is none", std::logic_error);
  Task half = checked("A", log, 0);
  half.check.poison = {};
  CHECK_THROWS_AS(time_alone(exactly_repeated(1), half), std::logic_error);
  half = checked("A", log, 0);
  half.check.wrong = {};
  CHECK_THROWS_AS(time_in_turn(exactly_repeated(1), both(std::move(half), logged("B", log))),
                  std::logic_error);
  CHECK(log.empty());
}

TEST_CASE("measuring: a run says once why a result is not checked") {
  std::string printed, log;
  Report report("topic", &printed);
  const Run run{report, nullptr, exactly_repeated(2)};
  CHECK(run.time(logged("A", log)).ms.size() == 2);
  CHECK(run.time(logged("A", log)).ms.size() == 2);
  CHECK(printed == "  A is not checked: it has no result\n");
  CHECK(run.time_in_turn(both(logged("A", log), logged("B", log))).size() == 2);
  CHECK(printed ==
        "  A is not checked: it has no result\n"
        "  B is not checked: it has no result\n");
  printed.clear();
  run.time(checked("C", log, 0));
  CHECK(printed.empty());
}

TEST_CASE("measuring: without a GPU device work is not measured, nor what is in turn with it") {
  std::string printed, log;
  Report report("topic", &printed);
  const Run run{report, nullptr, exactly_repeated(2)};
  Task on_device = logged("A", log);
  on_device.on_host = false;
  CHECK(run.time(on_device).ms.empty());
  const std::vector<Readings> times =
      run.time_in_turn(both(std::move(on_device), logged("B", log)));
  REQUIRE(times.size() == 2);
  CHECK(times[0].ms.empty());
  CHECK(times[1].ms.empty());
  CHECK(log.empty());
  CHECK(printed.empty());
  CHECK(!ratio(times[0], times[1]).measured());
  CHECK(!std::isfinite(run.memory_there()));
}

// ---- on the device ---------------------------------------------------------------------------

namespace {

/// Sets all of `memory` to 1 so many times. Every byte is compared.
Task sets(const DeviceBuffer<unsigned char>& memory, int times = 1) {
  Task task;
  task.name = "set";
  task.launch = [&memory, times] {
    for (int i = 0; i < times; ++i) CUDA_CHECK(cudaMemsetAsync(memory.data(), 1, memory.bytes()));
  };
  task.check.poison = [&memory] {
    CUDA_CHECK(cudaMemsetAsync(memory.data(), 0xff, memory.bytes()));
  };
  task.check.wrong = [&memory] {
    const std::vector<unsigned char> host = memory.to_host();
    return host.size() - size_t(std::count(host.begin(), host.end(), 1));
  };
  return task;
}

/// The same without a check, which appends `name` to `log` each time.
Task logged_set(const DeviceBuffer<unsigned char>& memory, const std::string& name,
                std::string& log) {
  Task task;
  task.name = name;
  task.launch = [&memory, &log, name] {
    log += name;
    CUDA_CHECK(cudaMemsetAsync(memory.data(), 1, memory.bytes()));
  };
  task.check = unchecked("only its time matters");
  return task;
}

}  // namespace

TEST_CASE("measuring: on the device: short work is repeated between its events") {
  if (skip_without_gpu()) return;
  const DeviceBuffer<unsigned char> memory(4096);
  std::string log;
  std::vector<Readings> times = time_in_turn(
      exactly_repeated(6), both(logged_set(memory, "A", log), logged_set(memory, "B", log)));
  // A comes last in an even round, after B
  const double launches = double(log.size() - 1 - log.find_last_not_of('A'));
  CHECK(launches * times[0].ms.back() > 0.5 * shortest_measurement_ms);

  constexpr int times_as_long = 50;
  times = time_in_turn(exactly_repeated(15), both(sets(memory), sets(memory, times_as_long)));
  const double per_set = times[1].median() / times_as_long;
  CHECK(times[0].median() < 1.5 * per_set);
  CHECK(times[0].median() > per_set / 1.5);
}

TEST_CASE("measuring: on the device: a wrong result is refused before anything is timed") {
  if (skip_without_gpu()) return;
  const DeviceBuffer<unsigned char> memory(1000);
  CHECK(time_alone(exactly_repeated(3), sets(memory)).ms.size() == 3);
  int launches = 0;
  Task nothing = sets(memory);
  nothing.launch = [&launches] { ++launches; };
  CHECK_THROWS_WITH_AS(time_alone(exactly_repeated(3), nothing), "wrong result: set, 1000 elements",
                       WrongResult);
  CHECK(launches == 1);
}

TEST_CASE("measuring: on the device: A B B A, and twice the work takes twice as long" *
          doctest::test_suite("large")) {
  if (skip_without_gpu()) return;
  const DeviceBuffer<unsigned char> memory(size_t(1) << 30);  // one launch is long enough
  const DeviceBuffer<unsigned char> twice(size_t(2) << 30);
  std::string log;
  const std::vector<Readings> times = time_in_turn(
      exactly_repeated(12), both(logged_set(memory, "A", log), logged_set(twice, "B", log)));
  REQUIRE(log.size() > 16);
  // each twice: untimed, so that it finds its own lines in the caches, and timed
  CHECK(log.substr(log.size() - 16) == "AABBBBAAAABBBBAA");
  REQUIRE(times[0].ms.size() == 12);
  REQUIRE(times[1].ms.size() == 12);
  const double factor = ratio(times[1], times[0]).value;
  CHECK(factor > 1.8);
  CHECK(factor < 2.2);
}

TEST_CASE("measuring: on the device: host work in turn with device work" *
          doctest::test_suite("large")) {
  if (skip_without_gpu()) return;
  const DeviceBuffer<unsigned char> memory(size_t(512) << 20);
  std::string log;
  const Readings alone = time_alone(exactly_repeated(8), logged_set(memory, "A", log));
  Task pause = logged("P", log);
  pause.launch = [] { std::this_thread::sleep_for(std::chrono::milliseconds(10)); };
  const std::vector<Readings> times =
      time_in_turn(exactly_repeated(6), both(logged_set(memory, "A", log), std::move(pause)));
  CHECK(times[1].median() >= 10);  // and the GPU that was idle so long is warm again
  CHECK(times[0].median() == doctest::Approx(alone.median()).epsilon(0.15));
}

TEST_CASE("measuring: on the device: the first row is as good as the last" *
          doctest::test_suite("large")) {
  if (skip_without_gpu()) return;
  const DeviceBuffer<unsigned char> memory(size_t(256) << 20);
  std::string log;
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const double first = time_alone({}, logged_set(memory, "A", log)).median();
  double last = 0;
  for (int row = 0; row < 3; ++row) last = time_alone({}, logged_set(memory, "A", log)).median();
  CHECK(first == doctest::Approx(last).epsilon(0.05));
}

// ---- owners ----------------------------------------------------------------------------------

namespace {

/// Whether an address is memory that CUDA has given out.
bool is_allocated(const void* address) {
  cudaPointerAttributes attributes{};
  const cudaError_t code = cudaPointerGetAttributes(&attributes, address);
  cudaGetLastError();
  return code == cudaSuccess && attributes.type != cudaMemoryTypeUnregistered;
}

}  // namespace

TEST_CASE("owners: buffers copy, poison and move") {
  if (skip_without_gpu()) return;
  DeviceBuffer<int> a(std::vector<int>{1, 2, 3});
  DeviceBuffer<int> b(std::move(a));
  CHECK(a.data() == nullptr);
  CHECK(a.size() == 0);
  CHECK(b.bytes() == 12);
  CHECK(b.to_host() == std::vector<int>{1, 2, 3});
  b.copy_from({4, 5});  // fewer elements than it has
  CHECK(b.to_host() == std::vector<int>{4, 5, 3});
  CHECK_THROWS_AS(b.copy_from(std::vector<int>(4)), std::length_error);
  b.poison();
  CHECK(b.to_host() == std::vector<int>{-1, -1, -1});
  CHECK(DeviceBuffer<int>(0).to_host().empty());
  CHECK(DeviceBuffer<int>().data() == nullptr);

  PinnedBuffer<float> pinned(5);
  pinned[4] = 2;
  CHECK(pinned.bytes() == 20);
  const PinnedBuffer<float> moved = std::move(pinned);
  CHECK(pinned.data() == nullptr);
  CHECK(moved[4] == 2);

  Event first, last;
  first.record();
  last.record();
  last.wait();
  CHECK(last.ms_since(first) >= 0);
  Stream stream;
  const Stream other = std::move(stream);
  other.wait();
}

TEST_CASE("owners: memory is freed" * doctest::test_suite("large")) {
  if (skip_without_gpu()) return;
  constexpr size_t size = size_t(256) << 20;
  const void* first = nullptr;
  const void* pinned = nullptr;
  {
    DeviceBuffer<char> buffer(size);
    first = buffer.data();
    CHECK(is_allocated(first));
    buffer = DeviceBuffer<char>(size);  // while the first is still there
    CHECK(!is_allocated(first));
    first = buffer.data();
    CHECK(is_allocated(first));
    const PinnedBuffer<char> host(size);
    pinned = host.data();
    CHECK(is_allocated(pinned));
  }
  CHECK(!is_allocated(first));
  CHECK(!is_allocated(pinned));
}

TEST_CASE("owners: more memory than there is is an error, which is cleared") {
  if (skip_without_gpu()) return;
  CHECK_THROWS_AS(DeviceBuffer<char>(~size_t(0) / 2), CudaError);
  CHECK(cudaGetLastError() == cudaSuccess);
}
