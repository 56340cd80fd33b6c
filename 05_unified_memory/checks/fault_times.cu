// Self-checks of fault_times.cu, compiled in its place where BUILD_TESTING is on.
#include "../fault_times.cu"

#include "../../framework/common/checks/standard.hpp"

TEST_CASE("fault_times: events in the order of time, with what has moved so far") {
  Migrations m;
  m.events = {{Happened::to_device, 130, 149, 4096},
              {Happened::cpu_fault, 5, 5, 0},
              {Happened::gpu_fault, 100, 160, 0},
              {Happened::to_host, 180, 200, 4096}};
  since_the_first(m.events);
  CHECK(m.events[0].what == Happened::cpu_fault);
  CHECK(m.events[0].from_us == -95);
  const std::vector<Moment> events = events_of(m);
  REQUIRE(events.size() == 3);
  CHECK(events[0].us == 0);  // a fault's beginning
  CHECK(events[0].so_far == 1);
  CHECK(events[1].us == 49);  // a transfer's end
  CHECK(events[1].so_far == 4096.0 / (1 << 20));
  CHECK(time_line(events, 10, 10) == "fff>>ff.<<");
  CHECK(time_line({}, 10, 3) == "...");
}

TEST_CASE("fault_times: events are those of the counts") {
  if (skip_without_gpu()) return;
  const std::string why = migrations_uncounted_because();
  if (!why.empty()) return skip_self_check(why);
  for (const Version& version : versions) {
    CAPTURE(std::string(version.words));
    const std::vector<Moment> events = record(version);
    REQUIRE(!events.empty());
    double to_device = 0, to_host = 0, faults = 0;
    for (const Moment& each : events) {
      CHECK(each.lasts >= 0);
      if (each.kind->what == Happened::to_device) to_device = each.so_far;
      if (each.kind->what == Happened::to_host) to_host = each.so_far;
      if (each.kind->what == Happened::gpu_fault) faults = each.so_far;
    }
    CHECK(to_device == 4);  // MiB: the input
    CHECK(to_host == 8);    // both arrays
    CHECK((faults == 0) == version.prefetched);
  }
}

EXPERIMENT_CHECKS_OF_FACTS(fault_times)
