// Self-checks of compare.cu, compiled in its place where BUILD_TESTING is on.
#include "../compare.cu"

#include "../../framework/common/checks/standard.hpp"

namespace {

const Kernel& kernel(const char* key) { return *with_key(kernels, key); }

/// From the text of the numbers: y with its first `rotated` bits moved to its end.
unsigned run_in_text(unsigned x, unsigned y, unsigned rotated) {
  const auto bits = [](unsigned number) {
    std::string all;
    for (unsigned bit = 32; bit-- > 0;) all += number >> bit & 1 ? '1' : '0';
    return all;
  };
  std::string of_y = bits(y), same;
  of_y = of_y.substr(rotated) + of_y.substr(0, rotated);
  for (unsigned bit = 0; bit < 32; ++bit) same += bits(x)[bit] == of_y[bit] ? '1' : '0';
  unsigned longest = 0;
  while (longest < 32 && same.find(std::string(longest + 1, '1')) != std::string::npos) ++longest;
  return longest;
}

}  // namespace

TEST_CASE("compare: the longest run of equal bits, by hand and in the numbers' text") {
  CHECK(right_run(0, ~0u) == 0);
  CHECK(right_run(7, 7) == 32);
  CHECK(right_run(0x0f07fffeu, ~0u) == 18);
  CHECK(right_run(0x80000001u, ~0u) == 1);
  CHECK(right_run(0x80000001u, 0x60000000u, 2) == 32);
  size_t many = 0, longer = 0;
  for (size_t ix = 0; ix < 40; ++ix)
    for (size_t iy = 0; iy < 40; ++iy) {
      const unsigned x = X{}(ix), y = Y{}(iy);
      const unsigned run = right_result(Answer::run, ix, iy);
      unsigned of_four = 0;
      for (const unsigned rotated : {0, 8, 16, 24})
        of_four = std::max(of_four, run_in_text(x, y, rotated));
      CHECK(run == run_in_text(x, y, 0));
      CHECK(right_result(Answer::run_of_four, ix, iy) == of_four);
      CHECK(right_result(Answer::exclusive_or, ix, iy) == (x ^ y));
      many += run >= alike;
      longer += of_four > run;
    }
  CHECK(many > 240);  // both answers are frequent
  CHECK(many < 400);
  CHECK(longer > 800);
}

TEST_CASE("compare: every format holds the results, each where it belongs") {
  constexpr size_t nx = 1024, ny = 70;
  for (const auto& [ix, iy] : std::initializer_list<std::pair<size_t, size_t>>{
           {0, 0}, {1, 0}, {1023, 0}, {0, 69}, {517, 33}, {1023, 69}}) {
    const unsigned run = right_run(X{}(ix), Y{}(iy));
    const auto word = [](const char* key, size_t i) { return kernel(key).right(nx, ny).word(i); };
    CHECK(word("store_words", iy * nx + ix) == run);
    CHECK(word("store_scattered", ix * ny + iy) == run);
    CHECK(word("scatter_only", ix * ny + iy) == (X{}(ix) ^ Y{}(iy)));
    CHECK((word("store_bytes", (iy * nx + ix) / 4) >> 8 * (ix % 4) & 255) == run);
    CHECK((word("store_bits", (iy * nx + ix) / 32) >> ix % 32 & 1) == (run >= alike));
  }
  const Right sums = kernel("count_only").right(nx, ny);
  unsigned sum = 0;
  for (size_t iy = 64; iy < 70; ++iy) sum += right_result(Answer::run, 5, iy);
  CHECK(sums.word(nx + 5) == sum);
  CHECK(sums.words() == 2 * nx);
  CHECK(kernel("store_words").right(nx, ny).words() == nx * ny);
  CHECK(kernel("store_bytes").right(nx, ny).words() == nx * ny / 4);
  CHECK(kernel("store_bits").right(nx, ny).words() == nx * ny / 32);
}

TEST_CASE("compare: kernels of one comparison stand beside each other, stored and not stored") {
  for (size_t i = 0; i < std::size(by_cost); i += 2) {
    const Kernel &counts = by_cost[i], &stores = by_cost[i + 1];
    CHECK(counts.format == Format::sums);
    CHECK(stores.format == Format::scattered);
    CHECK(counts.answer == stores.answer);
    for (const Kernel& other : kernels)  // no key has two meanings
      for (const Kernel* k : {&counts, &stores})
        if (other.key == k->key) {
          CHECK(other.format == k->format);
          CHECK(other.answer == k->answer);
        }
  }
}

namespace {

/// On paper: sectors per store; milliseconds if comparing takes 5, scattering 15 and memset 4, and
/// if comparing takes next to nothing.
struct ByHand {
  const char* key;
  double sectors, ms, not_comparing_ms;
};
const ByHand by_hand[] = {
    {"store_scattered", 32, 15, 15},
    {"store_words", 4, 5, 4},
    {"store_bytes", 1, 5, 1},
    {"store_bits", 4, 5, 0.125},
};

}  // namespace

TEST_CASE("compare: predictions and counts, by hand") {
  for (const ByHand& each : by_hand) {
    CAPTURE(std::string(each.key));
    const Kernel& k = kernel(each.key);
    CHECK(sectors_per_store(k.format) == each.sectors);
    CHECK(predicted_ms(k, {5, 15, 4}) == each.ms);
    CHECK(predicted_ms(k, {0.1, 15, 4}) == each.not_comparing_ms);
  }
  const auto counts = [](const char* key) {  // 32 warps in two blocks of Y
    std::vector<double> values;
    for (const Expected& e : counted_launch_of(kernel(key), 1024, 65).expected)
      values.push_back(e.value);
    return values;
  };
  using Values = std::vector<double>;
  CHECK(counts("store_scattered") ==
        Values{32 * 2 + 32 * 65, 32 * 2 * 4 + 32 * 65, 32 * 65, 32 * 65 * 32});
  CHECK(counts("count_only") == Values{32 * 2 + 32 * 65, 32 * 2 * 4 + 32 * 65, 64, 64 * 4});
  CHECK(counts("store_bytes")[3] == 32 * 65);
  CHECK(counts("store_bits") == Values{5 * 32 + 65, 4 * 5 * 32 + 65, 65, 65 * 4});
}

TEST_CASE("compare: sizes follow the L2 and the memory") {
  Device device;
  device.number = -1;
  device.prop.l2CacheSize = 60 << 20;
  device.prop.totalGlobalMem = size_t(80) << 30;
  CHECK(fitted(sizes_over(12), nullptr).shrink == 12);
  CHECK(fitted(sizes_over(12), &device).nx == 124928);
  CHECK(fitted(sizes_over(12), &device).ny == 8333);
  CHECK(fitted(sizes_over(48), &device).shrink == 48);
  device.prop.l2CacheSize = 400 << 20;
  CHECK(fitted(sizes_over(48), &device).shrink < 48);
  CHECK(beyond_l2(device, 4 * fitted(sizes_over(48), &device).pairs()));
  device.prop.l2CacheSize = 4 << 20;
  device.prop.totalGlobalMem = size_t(2) << 30;
  CHECK(4 * fitted(sizes_over(12), &device).pairs() < double(size_t(2) << 30));
}

TEST_CASE("compare: what decides each part") {
  const auto stored = [](double scattered, double not_stored) {
    return verdict_if(compare_experiment, "03.12",
                      {{"store_scattered", scattered}, {"count_only", not_stored}});
  };
  CHECK(stored(20, 1) == verdict_text(Verdict::holds));
  CHECK(stored(1.2, 1) == verdict_text(Verdict::holds_weaker));
  CHECK(stored(1, 20) == verdict_text(Verdict::does_not_hold));
  const auto carried = [](double carrying, double writing) {
    return verdict_if(compare_experiment, "03.17",
                      {{{"carry_words", 48}, carrying}, {{"store_words", 48}, writing}});
  };
  CHECK(carried(2, 1) == verdict_text(Verdict::holds));
  CHECK(carried(1, 2) == verdict_text(Verdict::does_not_hold));
}

TEST_CASE("compare: the device's check is the host's, and sees what lies behind the results") {
  if (skip_without_gpu()) return;
  for (const size_t ny : {size_t(1), size_t(63), size_t(67), size_t(1009)}) {
    const Shared pairs(Pairs({0, 1024, ny}));
    for (const Kernel& k : kernels) {
      CAPTURE(std::string(k.key));
      const Task task = task_of(pairs, k);
      CHECK(wrong_after(task) == 0);
      const Right right = k.right(1024, ny);
      std::vector<unsigned> found = pairs->results.to_host();
      size_t wrong = 0;
      for (size_t i = 0; i < right.words(); ++i) wrong += found[i] != right.word(i);
      CHECK(wrong == 0);
      ++found[3];  // two results that cancel in a total
      --found[4];
      pairs->results.copy_from(found);
      CHECK(task.check.wrong() == 2);
    }
  }
}

EXPERIMENT_CHECKS(compare)
