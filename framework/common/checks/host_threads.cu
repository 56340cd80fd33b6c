// Self-checks of host_threads.hpp: results, what is thrown, and threads that the system refuses.
// cmake/few_threads.sh refuses some to a whole sample.
#include "../host_threads.hpp"

#include <doctest/doctest.h>
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>

TEST_CASE("host threads: every part of the work is done once, in a thread of its own") {
  for (const size_t count : {0, 1, 2, 7, 64}) {
    CAPTURE(count);
    std::vector<int> calls(count);
    std::vector<std::thread::id> ids(count);
    on_threads(count, [&](size_t i) {
      ++calls[i];
      ids[i] = std::this_thread::get_id();
    });
    CHECK(calls == std::vector<int>(count, 1));
    for (const std::thread::id id : ids) CHECK(id != std::this_thread::get_id());
  }
}

TEST_CASE("host threads: they run at the same time as each other and as the caller") {
  std::atomic<int> there = 0;
  const auto meet = [&] {
    ++there;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (there < 3 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  };
  HostThreads threads;
  threads.start(2, [&](size_t) { meet(); });
  meet();
  threads.wait();
  CHECK(there == 3);
}

TEST_CASE("host threads: what the work throws is rethrown after all have ended") {
  std::atomic<int> ended = 0;
  const auto work = [&](size_t i) {
    ++ended;
    if (i == 2 || i == 5) throw std::out_of_range("part " + std::to_string(i));
  };
  CHECK_THROWS_WITH_AS(on_threads(8, work), "part 2", std::out_of_range);
  CHECK(ended == 8);
  CHECK_THROWS_WITH_AS(on_threads(1, [](size_t) { throw std::runtime_error("alone"); }), "alone",
                       std::runtime_error);
}

TEST_CASE("host threads: leaving without waiting waits all the same, and throws nothing") {
  std::atomic<int> ended = 0;
  {
    HostThreads threads;
    threads.start(3, [&](size_t) {
      std::this_thread::yield();
      ++ended;
      throw std::runtime_error("seen by nobody");
    });
  }
  CHECK(ended == 3);
  { const HostThreads never_started; }
}

#ifdef __GLIBC__  // which refuses a thread whose stack does not fit into the address space
TEST_CASE("host threads: a refusal says which thread of how many, and why") {
  pthread_attr_t before, huge;
  REQUIRE(pthread_getattr_default_np(&before) == 0);
  REQUIRE(pthread_attr_init(&huge) == 0);
  REQUIRE(pthread_attr_setstacksize(&huge, size_t(1) << 60) == 0);
  REQUIRE(pthread_setattr_default_np(&huge) == 0);
  std::atomic<int> calls = 0;
  std::string message;
  try {
    on_threads(64, [&](size_t) { ++calls; });
  } catch (const std::runtime_error& error) {
    message = error.what();
  }
  CHECK(pthread_setattr_default_np(&before) == 0);
  CHECK(message == "cannot start thread 1 of 64 on the host: Resource temporarily unavailable");
  CHECK(calls == 0);
}
#endif
