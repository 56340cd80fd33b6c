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
    HostWork host(n);
    CHECK(host.wrong() == n);
    const Task tasks[] = {host.on_all_cores(), host.on_one_core(), host.sum_on_all_cores()};
    for (const Task& task : tasks) {
      CAPTURE(task.name);
      CHECK(wrong_after(task) == 0);
    }
    host.out[n - 1] = 0;
    CHECK(host.wrong() == 1);
  }
}

TEST_CASE("keep_on_device: 02.10 goes by the way there and back") {
  CHECK(carried_ms(4, 1, 3) == 8);
  Device device;
  device.number = -1;
  std::string printed;
  Report report("keep_on_device", &printed);
  const Run run{report, &device, {}};
  const auto always = [](double ms) { return Readings{std::vector<double>(15, ms)}; };
  judge(run, {always(4), always(10), always(4), always(2), always(1)}, 1e15);
  CHECK(printed.find("02.10  holds  ") != std::string::npos);
  CHECK(printed.find("2.00x faster") != std::string::npos);  // the sum
  printed.clear();
  judge(run, {always(10), always(4), always(4), always(8), always(1)}, 1e15);
  CHECK(printed.find("02.10  does not hold") != std::string::npos);
}

TEST_CASE("keep_on_device: what is carried is right at awkward sizes") {
  if (skip_without_gpu()) return;
  for (const size_t n : {1, 31, 33, 65537, 1000003}) {
    CAPTURE(n);
    HostWork host(n);
    CardWork card(host);
    const Task tasks[] = {card.there_and_back("there and back"), card.carried_sum(),
                          card.add_there(), card.sum_there()};
    for (const Task& task : tasks) {
      CAPTURE(task.name);
      CHECK(wrong_after(task) == 0);
      Task idle = task;
      idle.launch = [] {};
      CHECK(wrong_after(idle) > 0);
    }
  }
}
