// Self-checks of managed.cu, compiled in its place where BUILD_TESTING is on.
#include "../managed.cu"

#include "../../framework/common/checks/made_up_devices.hpp"
#include "../../framework/common/checks/standard.hpp"
#include "../migrations.hpp"

TEST_CASE("managed: predictions, by hand") {
  const Costs c{3, 2, 1.5, 5};
  CHECK(predicted_ms("zero_copy", c) == 2);
  CHECK(predicted_ms("on_demand", c) == 16.5);
  CHECK(predicted_ms("prefetched", c) == 7.5);
  CHECK(std::isnan(predicted_ms("pageable_copies", c)));
}

TEST_CASE("managed: what decides each part") {
  const auto verdict = [](const char* part, const std::vector<Given>& given) {
    return verdict_if(managed_experiment, part, given);
  };
  const char *const holds = verdict_text(Verdict::holds), *const does_not =
                                                              verdict_text(Verdict::does_not_hold);
  CHECK(verdict("05.4a", {{"on_demand", 2}}) == holds);
  CHECK(verdict("05.4a", {{"pinned_copies", 2}}) == does_not);
  CHECK(verdict("05.4b", {{"on_demand", 2}}) == holds);
  CHECK(verdict("05.4b", {{"prefetched", 2}}) == does_not);
  for (const char* part : {"05.4a", "05.4b"})
    CHECK(verdict(part, {{"pageable_copies", 2}}) == verdict_text(Verdict::too_close));
  const auto at_once = [](double value) {
    return Given{"write_late", value, "host reads at once"};
  };
  CHECK(verdict("05.5", {at_once(old_value)}) == holds);
  CHECK(verdict("05.5", {at_once(new_value)}) == does_not);
  CHECK(verdict("05.5", {at_once(old_value), {"write_late", 0, "kernel still runs"}}) ==
        verdict_text(Verdict::not_judged));
}

TEST_CASE("managed: every way is right a second time, over pages that have moved") {
  if (skip_without_gpu()) return;
  for (const size_t n : {1, 257, 65537})
    for (const Checked& each : tasks(n)) {
      CAPTURE(each.task.name);
      CHECK(wrong_after(each.task) == 0);
      each.task.check.poison();
      each.task.launch();
      CHECK(each.task.check.wrong() == 0);
    }
}

TEST_CASE("managed: prefetched arrays do not fault on the device") {
  if (skip_without_gpu()) return;
  if (!migrations_uncounted_because().empty())
    return skip_self_check(migrations_uncounted_because());
  const Shared memory(Memory(size_t(1) << 20, true));
  MigrationRecording recording;
  for (const char* key : {"on_demand", "prefetched"}) {
    const Task task = task_of(key, memory, *with_key(ways, Ref(key)));
    task.check.poison();
    task.enter();
    recording.count([&] { task.launch(); });
  }
  const std::vector<Migrations> made = recording.end();
  CHECK(made[0].fault_records > 0);
  CHECK(made[1].fault_records == 0);
  CHECK(made[1].cpu_faults == 0);
  CHECK(memory->managed_a.last_prefetched_to() == this_device());
  CHECK(memory->managed_c.last_prefetched_to() == cudaCpuDeviceId);
}

TEST_CASE("managed: a variable in global scope is written by both sides") {
  if (skip_without_gpu()) return;
  if (!has_managed_memory()) return skip_self_check("no managed memory");
  for (const int first : {-7, 40}) CHECK(add_to_the_variable(first) == first + 2);
}

TEST_CASE("managed: numbers on the stack and from malloc are the kernel's, too") {
  if (skip_without_gpu()) return;
  if (!reads_pageable_memory()) return skip_self_check("kernels read no memory of malloc here");
  for (const int first : {-7, 40}) CHECK(add_on_the_stack(first) == first + 2);
}

TEST_CASE("managed: a host that does not wait reads the old value") {
  if (skip_without_gpu()) return;
  if (!pages_on_demand())
    return skip_self_check("the host may not touch managed memory while a kernel runs here");
  const LateWrite read = read_without_waiting();
  CHECK(read.after_waiting == new_value);
  if (read.too_early) CHECK(read.at_once == old_value);
}

TEST_CASE("managed: more than the limit is refused") {
  if (skip_without_gpu()) return;
  if (!has_managed_memory()) return skip_self_check("no managed memory");
  CHECK_THROWS_AS(Managed<char>(most_managed_bytes + 1), std::runtime_error);
  const size_t before = managed_bytes;
  {
    const Managed<char> held(12345);
    CHECK(managed_bytes == before + 12345);
    CHECK_THROWS_AS(Managed<char>(most_managed_bytes - before - 12344), std::runtime_error);
  }
  CHECK(managed_bytes == before);
}

TEST_CASE("managed: arrays fit made-up GPUs and the topic's limit, and WSL2 and a Jetson wait") {
  for (const double each : {12.0, 8.0})  // managed's three arrays, page_faults' two; twice
    check_on_made_up_devices([each](const Run& run) {
      const size_t by_default = size_t(1) << (run.quick ? 20 : run.full ? 25 : 23);
      const double n = double(fitting_elements(run, 0, by_default, each, 2 * each));
      CHECK(each * n <= double(most_managed_bytes));
      return Needs{2 * each * n};
    });
  for (const Device& device : made_up_devices()) {
    const cudaDeviceProp& p = device.prop;
    const std::string text = managed_memory_text(p.managedMemory, p.concurrentManagedAccess,
                                                 p.integrated, p.pageableMemoryAccess, false);
    const std::string begin = p.concurrentManagedAccess ? "pages move on demand"
                              : p.integrated            ? "host and device have one memory"
                                                        : "all of it moves at each launch";
    CHECK(text.rfind(begin, 0) == 0);
    const bool waits = text.find("the host must wait") != std::string::npos;
    CHECK(waits != bool(p.concurrentManagedAccess));
  }
}

TEST_CASE("managed: sizes of made-up devices") {
  Device device;
  device.number = -1;
  device.prop.totalGlobalMem = size_t(256) << 20;
  std::string printed;
  Report report("managed", &printed);
  const Run run{report, &device, {}};
  CHECK(fitting_elements(run, 0, size_t(1) << 23, 12, 24) == size_t(1) << 23);  // 192 MiB
  CHECK(fitting_elements(run, 0, size_t(1) << 25, 12, 24) == size_t(1) << 23);
  CHECK(fitting_elements(run, 1000003, size_t(1) << 20, 12, 24) == 1000003);
  CHECK_THROWS_AS(fitting_elements(run, size_t(1) << 25, 1, 12, 24), UsageError);
  device.prop.totalGlobalMem = size_t(80) << 30;  // the topic's own limit of managed memory
  CHECK(fitting_elements(run, 0, size_t(1) << 28, 12, 24) * 12 < most_managed_bytes);
  CHECK(fitting_elements(run, Options::largest_size, 1, 12, 24) == Options::largest_size);
}

EXPERIMENT_CHECKS(managed)
