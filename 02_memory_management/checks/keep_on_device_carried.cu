// Self-checks of keep_on_device_carried.cu, compiled in its place where BUILD_TESTING is on.
#include "../keep_on_device_carried.cu"

#include <doctest/doctest.h>

TEST_CASE("keep_on_device: the numbers' sum, by a loop") {
  unsigned sum = 0;
  for (size_t n = 1; n < 1000; ++n) {
    sum += number_at(n - 1);
    CHECK(sum_of_numbers(n) == sum);
  }
}

TEST_CASE("keep_on_device: the host adds and sums every word once") {
  for (const size_t n : {1, 15, 17, 65537}) {
    const SharedHost host(host_of(n, false));
    CHECK((*host)->wrong() == n);
    for (const auto& task : {add_on_all_cores("", host), add_on_one_core("", host)}) {
      CHECK(wrong_after(task) == 0);
      (*host)->out[n - 1] = 0;
      CHECK((*host)->wrong() == 1);
    }
    const Task sum = sum_on_all_cores("", host);
    CHECK(wrong_after(sum) == 0);
    ++(*host)->sum;
    CHECK(sum.check.wrong() == 1);
  }
}

TEST_CASE("keep_on_device: what is carried, by hand") { CHECK(carried_ms(4, 1, 3) == 8); }

TEST_CASE("keep_on_device: a task that does nothing is found") {
  if (skip_without_gpu()) return;
  std::vector<Checked> all;
  add_carried_tasks(all, 1009);
  for (Checked& each : all) {
    CAPTURE(each.task.name);
    each.task.launch = [] {};
    CHECK(wrong_after(each.task) == each.elements);
  }
}
