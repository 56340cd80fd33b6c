// Self-checks of zero_copy.cu, compiled in its place where BUILD_TESTING is on.
#include "../zero_copy.cu"

#include "../../framework/common/checks/made_up_devices.hpp"
#include "../../framework/common/checks/standard.hpp"

TEST_CASE("zero_copy: the sum of all passes, by a loop") {
  unsigned sum = 0;
  for (size_t n = 0; n < 1000; sum += word_at(n++)) CHECK(sum_of_passes(n, 3) == sum * (1 + 2 + 3));
}

TEST_CASE("zero_copy: predictions, by hand") {
  const Crossing c{4.5, 4.9, 0.06};
  CHECK(read_ms({"read_device", 8}, c) == doctest::Approx(0.48));
  CHECK(read_ms({"read_in_place", 8}, c) == doctest::Approx(39.2));
  CHECK(read_ms({"read_copied", 8}, c) == doctest::Approx(4.98));
  CHECK(sum_ms({"sum_copied", 1024}, 0.03, 0.5, c) == doctest::Approx(6.78));
  CHECK(sum_ms({"sum_device_pointer", 1024}, 0.01, 0.5, c) == doctest::Approx(4.91));
  CHECK(reads_that_pay(c) == 1);  // the copy engine is the better reader
  CHECK(reads_that_pay({80, 80, 1}) == 2);
  CHECK(reads_that_pay({4, 4, 3}) == 4);
  CHECK(reads_that_pay({4, 4, 5}) == INFINITY);
}

TEST_CASE("zero_copy: arrays fit what may be pinned, and the text's three fit the array") {
  for (const double pinnable : {double(INFINITY), 1e9})
    check_on_made_up_devices([pinnable](const Run& run) {
      const double bytes = 4.0 * double(words_of(run, pinnable));
      CHECK(bytes <= 0.4 * pinnable);
      CHECK(3 * sum_sizes(run).back() <= words_of(run));
      CHECK(few_words(run) <= words_of(run));
      return Needs{bytes, pinnable == INFINITY ? bytes : NAN};
    });
}

TEST_CASE("zero_copy: what decides each part") {
  const auto verdict = [](const char* part, const std::vector<Given>& given) {
    return verdict_if(zero_copy_experiment, part, given);
  };
  const char* const holds = verdict_text(Verdict::holds);
  const char* const does_not_hold = verdict_text(Verdict::does_not_hold);
  CHECK(verdict("02.5a", {{{"read_in_place", 8}, 2}}) == holds);
  CHECK(verdict("02.5a", {{{"read_in_place", 8}, 1.2}}) == verdict_text(Verdict::holds_weaker));
  CHECK(verdict("02.5a", {{{"read_device", 8}, 2}}) == does_not_hold);
  CHECK(verdict("02.5a", {{{"read_in_place", 2}, 2}, {{"write_in_place", 8}, 2}}) == does_not_hold);
  CHECK(verdict("02.5b", {{{"write_in_place", 8}, 2}}) == holds);
  CHECK(verdict("02.5b", {{{"write_device", 8}, 2}}) == does_not_hold);
  CHECK(verdict("02.13a", {{"carry_copied", 2}}) == holds);
  CHECK(verdict("02.13a", {{"carry_in_place", 2}}) == does_not_hold);
  CHECK(verdict("02.13b", {{"carry_both_copied", 2}}) == holds);
  CHECK(verdict("02.13b", {{"carry_both_in_place", 2}}) == does_not_hold);
  CHECK(verdict("02.6", {}) == holds);
  for (const Kind& kind : promised)
    CHECK(verdict("02.6", {{kind.key, 0, "one address"}}) == does_not_hold);
  CHECK(verdict("02.6", {{"write_combined", 0, "one address"}}) == holds);  // not promised
}

TEST_CASE("zero_copy: every thread's sum is counted, and what lies behind them is left alone") {
  if (skip_without_gpu()) return;
  constexpr size_t n = 65537;
  const Shared m(Memory(n, 5));
  const Task task = read_task({"read_in_place", 3}, m, n);
  CHECK(wrong_after(task) == 0);
  m->host[n / 2] += 1;
  CHECK(wrong_after(task) == 1);
  m->host[n / 2] -= 1;
  const size_t all = m->sums.size();
  for (const size_t i : {size_t(0), all / Memory::launches - 1}) {
    CHECK(wrong_after(task) == 0);
    m->sums.change(i);
    CHECK(task.check.wrong() == 1);
  }
  CHECK(wrong_after(task) == 0);
  CUDA_CHECK(cudaMemset(m->sums.data() + all, 0, 4));
  CHECK(task.check.wrong() == 4);
}

TEST_CASE("zero_copy: what is carried is there, and both ways at once are two halves") {
  if (skip_without_gpu()) return;
  constexpr size_t n = 8 * 1009;
  for (const char* key : {"carry_both_copied", "carry_both_in_place"}) {
    const Shared m(Memory(n, 5));
    CHECK(wrong_after(carry_task(key, m)) == 0);
    for (size_t i = 0; i < n; ++i) REQUIRE(m->host[i] == word_at(i % (n / 2)));
  }
}

TEST_CASE("zero_copy: pinned memory has one address, and sums by it are right") {
  if (skip_without_gpu()) return;
  for (const Kind& kind : promised) CHECK(one_pointer(kind.flags, 1009));
  CHECK_NOTHROW(one_pointer(cudaHostAllocWriteCombined, 1009));
}

TEST_CASE("zero_copy: the host reads a late write once it has synchronised") {
  if (skip_without_gpu()) return;
  const auto [at_once, after] = late_write(-3, 7);
  if (after == -7) return skip_self_check("launches wait for their kernels");
  CHECK(at_once == -3);
  CHECK(after == 7);
}

EXPERIMENT_CHECKS(zero_copy)
