// Self-checks of registers.cu, compiled in its place where BUILD_TESTING is on.
#include "../registers.cu"

#include "../../framework/common/checks/made_up_devices.hpp"
#include "../../framework/common/checks/standard.hpp"

TEST_CASE("registers: made-up GPUs hold the blocks that launch bounds ask for") {
  for (const Device& device : made_up_devices()) {
    const Multiprocessor has = multiprocessor_of(device.prop);
    CHECK(resident_blocks(has, 64) >= 8);
    CHECK(resident_blocks(has, 255) >= 1);
  }
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
  CHECK(resident_blocks({65536, 2048, 32, 100 << 10}, 32, 9216) == 10);  // 10 KiB of each block
  CHECK(resident_blocks({65536, 2048, 32, 228 << 10}, 64, 9216) == 8);
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

TEST_CASE("registers: every budget is its kernel's") {
  const std::vector<Budget> budgets = all_budgets();
  const auto kernel_of = [&](const Ref& ref) {
    for (const Budget& budget : budgets)
      if (same(budget.ref, ref)) return budget.kernel;
    return Kernel(nullptr);
  };
  CHECK((kernel_of(in_registers) == hash_bounded));
  CHECK((kernel_of(spilling) == hash_resident<8>));
  CHECK((kernel_of("hash_unsaid") == hash_unsaid));
  for (const Budget& budget : budgets) {
    if (budget.ref.key == "hash_resident" || budget.ref.key == "hash_to_shared")
      CHECK(budget.registers == std::min(255, 65536 / int(budget.ref.at) / threads));
    if (budget.ref.key == "hash_within") CHECK(budget.registers == int(budget.ref.at));
  }
}

TEST_CASE("registers: what decides each part") {
  const auto verdict = [](const char* part, std::vector<Given> given) {
    given.push_back({in_registers, 91, registers_used});  // of the others each takes one register
    given.push_back({in_registers, 0, local_memory});
    return verdict_if(registers_experiment, part, given);
  };
  const char *const holds = verdict_text(Verdict::holds), *const does_not =
                                                              verdict_text(Verdict::does_not_hold);
  const Ref tight("hash_resident", 2);  // the first that has fewer registers
  CHECK(verdict("01.3", {{tight, 13}}) == holds);
  CHECK(verdict("01.3", {{in_registers, 13}}) == does_not);
  CHECK(verdict("01.3", {{spilling, 13}}) == does_not);
  CHECK(verdict("01.3", {{tight, 13}, {tight, 0, local_memory}}) == does_not);
  CHECK(verdict("01.4", {{tight, 16, resident}, {in_registers, 5, resident}}) == holds);
  CHECK(verdict("01.4", {{tight, 5, resident}, {in_registers, 5, resident}}) == does_not);
  CHECK(verdict("01.4", {{spilling, 16, resident}, {in_registers, 5, resident}}) == does_not);
  // the widest budget spills, too
  CHECK(verdict_if(registers_experiment, "01.3", {{tight, 13}}) ==
        verdict_text(Verdict::not_judged));
}

TEST_CASE("registers: no kernel exceeds its budget and as many blocks fit as predicted") {
  if (skip_without_gpu()) return;
  const Multiprocessor has = multiprocessor_of(Device::current().prop);
  for (const Budget& budget : all_budgets()) {
    CAPTURE(text(budget.ref));
    const Compiled compiled = compiled_of(budget.kernel);
    CHECK(compiled.blocks == resident_blocks(has, compiled.registers, compiled.shared_bytes));
    if (budget.ref.key == "hash_unsaid")
      continue;  // lost where the driver compiles for this GPU itself
    if (budget.registers) CHECK(compiled.registers <= budget.registers);
    // 80 hashes and nowhere else to be
    if (budget.registers && budget.registers < hashes) CHECK(compiled.local_bytes > 0);
    if (budget.ref.key == "hash_resident") CHECK(compiled.shared_bytes == 0);
  }
}

EXPERIMENT_CHECKS(registers)
