// Self-checks of registers.cu, compiled in its place where BUILD_TESTING is on.
#include "../registers.cu"

#include <doctest/doctest.h>

#include "../../common/checks/made_up_devices.hpp"
#include "../../common/checks/plausible.hpp"

TEST_CASE("registers: made-up GPUs hold the windows, and the blocks that launch bounds ask for") {
  check_on_made_up_devices([](const Run& run) {
    const Multiprocessor has = multiprocessor_of(run.device->prop);
    CHECK(resident_blocks(has, 64) >= 8);
    CHECK(resident_blocks(has, 255) >= 1);
    return Needs{8.0 * double(windows_of(run))};
  });
}

TEST_CASE("registers: rolling from window to window gives the hash of each window") {
  for (const int length : {1, 2, 31}) {
    CAPTURE(length);
    const size_t n = 101;
    std::vector<unsigned> words(n + length - 1);
    for (size_t i = 0; i < words.size(); ++i) words[i] = unsigned(i * i * 2654435769u + 17);
    const std::vector<unsigned> rolled = expected(words, n, length);
    for (size_t i = 0; i < n; ++i) {
      unsigned all = 0;
      for (int k = 0; k < hashes; ++k) {
        unsigned hash = 0;
        for (int step = 0; step < length; ++step) hash = hash * multiplier(k) + words[i + step];
        all ^= hash;
      }
      CHECK(rolled[i] == all);
    }
  }
}

TEST_CASE("registers: predicted blocks are those of the occupancy tables") {
  CHECK(resident_blocks(text_gpus, 16) == 16);         // 2048 threads
  CHECK(resident_blocks(text_gpus, 32) == 16);         // x 32 registers are all 65536
  CHECK(resident_blocks(text_gpus, 33) == 12);         // a warp takes 40 x 32 registers
  CHECK(resident_blocks(text_gpus, 64) == 8);          // 1024 threads
  CHECK(resident_blocks(text_gpus, 96) == 5);          // 640 threads, 4096 registers idle
  CHECK(resident_blocks(text_gpus, 128) == 4);         // 512 threads
  CHECK(resident_blocks(text_gpus, 255) == 2);         // the most registers that a thread can have
  CHECK(resident_blocks({65536, 1024, 16}, 32) == 8);  // compute capability 7.5: half the threads
  CHECK(resident_blocks({65536, 2048, 8}, 32) == 8);
}

TEST_CASE("registers: predicted times, by hand") {
  const Calibrated c{2, 0.05};
  CHECK(predicted_ms(0, c) == 2);
  CHECK(predicted_ms(16, c) == 2);  // spilling hides behind the arithmetic
  CHECK(predicted_ms(100, c) == doctest::Approx(5));
  CHECK(predicted_ms(352, c) == doctest::Approx(16));  // there are no more than 80 hashes to move
  CHECK(predicted_ms(0, {2, NAN}) == 2);
  CHECK(
      std::isnan(predicted_ms(16, {2, INFINITY})));  // nothing was spilled in the row of constants
}

TEST_CASE("registers: the budgets, and which kernel is the tightest") {
  const std::vector<Budget> budgets = all_budgets();
  CHECK((budgets[in_registers].kernel == hash_bounded));
  CHECK(budgets[spilling].registers == 65536 / (8 * threads));
  CHECK((budgets.back().kernel == hash_unsaid));
  CHECK(tightest({{90, 0, 5}, {64, 160, 8}, {128, 0, 4}}) == 1);
  CHECK(tightest({{90, 0, 5}}) == 0);
}

TEST_CASE("registers: each claim takes the right pair, the right way round") {
  Device device;
  device.number = -1;
  std::string printed;
  Report report("registers", &printed);
  const Run run{report, &device, {}};
  const auto says = [&](const Compiled& wide, const Compiled& tight, double slowdown) {
    printed.clear();
    judge(run, wide, tight, interval_of_median(std::vector<double>(15, slowdown)));
    return printed;
  };
  CHECK(says({91, 0, 5}, {32, 352, 16}, 13).find("01.3   holds") != std::string::npos);
  CHECK(printed.find("13.0x slower") != std::string::npos);
  CHECK(printed.find("01.4   holds") != std::string::npos);
  CHECK(says({91, 0, 5}, {32, 352, 16}, 0.9).find("01.3   does not hold") != std::string::npos);
  CHECK(says({91, 0, 5}, {32, 0, 5}, 13).find("nothing is spilled") != std::string::npos);
  CHECK(printed.find("01.4   does not hold") != std::string::npos);
  CHECK(says({91, 8, 5}, {32, 352, 16}, 13).find("does not optimise") != std::string::npos);
}

TEST_CASE("registers: every budget gives the same hashes, and no thread too many writes") {
  if (skip_without_gpu()) return;
  for (const size_t n : {1, 31, 127, 129, 1009, 40007}) {
    CAPTURE(n);
    Windows windows(n, 37);
    for (const Budget& budget : all_budgets()) {
      CAPTURE(budget.name);
      CAPTURE(budget.at);
      CHECK(wrong_after(windows.task(budget)) == 0);
    }
  }
}

TEST_CASE("registers: the check finds a wrong hash and a result too many") {
  if (skip_without_gpu()) return;
  Windows windows(129, 5);
  const Task task = windows.task(all_budgets()[0]);
  task.check.poison();
  CHECK(task.check.wrong() == 129);
  REQUIRE(wrong_after(task) == 0);
  std::vector<unsigned> out = windows.out.to_host();
  out[128] ^= 1;
  out[129] = 0;
  windows.out.copy_from(out);
  CHECK(task.check.wrong() == 2);
}

TEST_CASE("registers: no kernel exceeds its budget and as many blocks fit as predicted") {
  if (skip_without_gpu()) return;
  const Multiprocessor has = multiprocessor_of(Device::current().prop);
  for (const Budget& budget : all_budgets()) {
    CAPTURE(budget.name);
    CAPTURE(budget.at);
    const Compiled compiled = compiled_of(budget.kernel);
    CHECK(compiled.blocks == resident_blocks(has, compiled.registers));
    if (budget.name == flag_name) continue;  // lost where the driver compiles for this GPU itself
    if (budget.registers) CHECK(compiled.registers <= budget.registers);
    // 80 hashes and nowhere else to be
    if (budget.registers && budget.registers < hashes) CHECK(compiled.local_bytes > 0);
  }
}

TEST_CASE("registers: measured rows lie where its models predict them" *
          doctest::test_suite("plausible") * doctest::skip()) {
  check_plausible([](const Run& run) { registers(run); });
}
