// Self-checks of ladder.cu, compiled in its place where BUILD_TESTING is on.
#include "../ladder.cu"

#include <fstream>
#include <set>

#include "../../framework/common/checks/made_up_devices.hpp"
#include "../../framework/common/checks/standard.hpp"

namespace {

constexpr Gpu hopper{132, 2048};
constexpr Gpu one_multiprocessor{1, 1024};  // few words are more than one grid

/// A clock of 1 GHz, a memory of 1000 GB/s.
Device made_up(int multiprocessors, int resident_threads) {
  Device device;
  device.number = -1;
  device.prop.major = 9;
  device.prop.multiProcessorCount = multiprocessors;
  device.prop.maxThreadsPerMultiProcessor = resident_threads;
  device.prop.l2CacheSize = 1 << 20;
  device.sm_clock_khz = 1000000;
  device.theoretical_gbs = 1000;
  return device;
}

using Blocks = std::vector<size_t>;
Blocks blocks_of(const char* key, size_t n, Gpu gpu) { return launches(rung_of(key), n, gpu); }

/// The sum by the host, from the description alone.
template <class T>
long long host_sum(unsigned digit, size_t n) {
  long long sum = 0;
  for (size_t i = 0; i < n; ++i) sum += units_of<T>(digit, i);
  return sum;
}

}  // namespace

TEST_CASE("ladder: every row has its own kernel") {
  std::set<Start<float>> of_floats;
  std::set<Start<unsigned>> of_unsigned;
  for (const Rung& rung : rungs) {
    CAPTURE(rung.key);
    of_floats.insert(kernel_of<float>(rung));
    of_unsigned.insert(kernel_of<unsigned>(rung));
    CHECK((kernel_of<unsigned>(rung) == nullptr) == (rung.grid == Grid::library));
    CHECK(&rung_of(rung.key) == &rung);
  }
  CHECK(of_floats.size() == std::size(rungs) - 1);  // the library and one instruction have none
  CHECK(of_unsigned.size() == std::size(rungs));
}

TEST_CASE("ladder: launches and scratch and additions, by hand") {
  const size_t n = size_t(1) << 28;
  CHECK(blocks_of("reduce_modulo", n, hopper) == Blocks{1 << 20, 1 << 12, 16, 1});
  CHECK(blocks_of("reduce_add_on_load", n + 1, hopper) == Blocks{(1 << 19) + 1, 1025, 3, 1});
  CHECK(blocks_of("reduce_vector", n, hopper) == Blocks{1056, 1});
  CHECK(blocks_of("sum_once", n, hopper) == Blocks{n / 16384 / 4});
  CHECK(blocks_of("sum_streaming", 16384 * 100 + 1, hopper) == Blocks{101});
  CHECK(scratch_bytes(rung_of("reduce_modulo"), n, hopper) == 4 * ((1 << 20) + (1 << 12) + 16));
  CHECK(scratch_bytes(rung_of("sum_once"), n, hopper) == 8 * double(n / 16384 / 4));
  CHECK(additions(rung_of("reduce_descending"), n, hopper) == 4 * 8);
  CHECK(additions(rung_of("reduce_several"), size_t(1000) * 1056 * 256, hopper) ==
        1000 + 8 + 5 + 8);
  CHECK(additions(rung_of("sum_once"), n, hopper) == 4 * 8 + 4 + 10 + 4096 / 512 + 10);
  for (const Rung& rung : rungs)
    for (const size_t few : {0, 1, 2, 255, 256})
      if (rung.grid != Grid::library) CHECK(launches(rung, few, hopper) == Blocks{1});
}

TEST_CASE("ladder: grids follow what made-up devices hold at once") {
  const size_t n = size_t(1) << 28;
  for (const Gpu gpu : {Gpu{40, 1024}, Gpu{24, 1536}, Gpu{148, 2048}}) {
    const size_t blocks = blocks_of("reduce_several", n, gpu)[0];
    CHECK(blocks * block_threads == size_t(gpu.multiprocessors) * gpu.resident_threads);
    CHECK(blocks_of("reduce_vector", n, gpu)[0] == blocks);
    CHECK(tile_blocks_each * tile_threads <= gpu.resident_threads);
    CHECK(blocks_of("sum_once", 16384, gpu)[0] == 1);
    CHECK(blocks_of("sum_once", 16384 * 2 * gpu.multiprocessors, gpu)[0] ==
          2 * gpu.multiprocessors);
  }
}

TEST_CASE("ladder: sizes fit made-up GPUs, and so does what the sums leave") {
  check_on_made_up_devices([](const Run& run) {
    const size_t n = words_of(run);
    for (const Rung& rung : rungs) {
      for (const size_t blocks : launches(rung, n, gpu_of(*run.device))) {
        CHECK(blocks >= 1);
        CHECK(blocks < size_t(1) << 31);
      }
      CHECK(scratch_bytes(rung, n, gpu_of(*run.device)) < bytes_needed(n) - 4.0 * double(n));
    }
    for (const size_t size : sizes_beside_library(run))
      CHECK(bytes_needed(size) <= 0.9 * run.memory_there());
    return needs(run);
  });
}

TEST_CASE("ladder: instructions and wavefronts of a block, by hand") {
  CHECK(instructions_of_block(rung_of("reduce_modulo")) == 8 * (26 + 8 * 28) + 11);
  CHECK(instructions_of_block(rung_of("reduce_descending")) == 8 * (26 + 8 * 10) + 11);
  CHECK(instructions_of_block(rung_of("reduce_shuffle")) == 8 * (40 + 3 * 11) + 25);
  // Beside the steps each of 8 warps stores its words, and one loads the result. In the steps 47
  // warps load twice and store once in modulo and mask; in strided 12 do, but in 2 + 2 + 2 + 2, 4 +
  // 4, 8, 8, 8, 4, 2, 1 wavefronts, padded in one each; in descending 12, or 7 until 32 words are
  // left.
  const int loads[] = {95, 95, 95, 25, 25, 25, 16, 16, 16, 16, 1, 1};
  const int stores[] = {55, 55, 55, 20, 20, 20, 16, 16, 16, 16, 16, 16};
  for (size_t i = 0; i < std::size(loads); ++i) {
    CAPTURE(rungs[i].key);
    CHECK(traffic_of_block(rungs[i]).loads == loads[i]);
    CHECK(traffic_of_block(rungs[i]).stores == stores[i]);
    CHECK(traffic_of_block(rungs[i]).degree == (rungs[i].key == "reduce_strided" ? 8 : 1));
  }
}

TEST_CASE("ladder: the steps that wavefronts are counted from add every word of a block once") {
  for (const Rung& rung : rungs) {
    if (rung.steps < 8) continue;
    CAPTURE(rung.key);
    std::vector<long long> word(block_threads);
    for (unsigned i = 0; i < block_threads; ++i) word[i] = (i + 1) * (i + 1);
    for (unsigned k = 0; k < rung.steps; ++k) {
      const unsigned s = stride_of(rung.rule, k, block_threads);
      std::vector<int> uses(block_threads, 0);
      for (unsigned tid = 0; tid < block_threads; ++tid) {
        const Addition step = addition(rung.rule, s, tid, block_threads);
        if (!step.active) continue;
        CHECK(++uses.at(step.left) + ++uses.at(step.right) == 2);  // no other thread's in this step
        word.at(step.left) += word.at(step.right);
      }
    }
    CHECK(word[0] ==
          (long long)(block_threads) * (block_threads + 1) * (2 * block_threads + 1) / 6);
  }
}

TEST_CASE("ladder: the padded kernel's index is that of the strided one's words") {
  const unsigned words = block_threads + block_threads / 32;
  for (unsigned s = 1; s < block_threads; s *= 2)
    for (unsigned tid = 0; tid < block_threads; ++tid) {
      const unsigned left = 2 * s * tid, right = left + s, at = left + left / 32;
      CHECK((at < words) == (left < block_threads));
      if (left < block_threads) CHECK(at + s + s / 32 == right + right / 32);
    }
}

TEST_CASE("ladder: instructions equal those that were counted on an NVIDIA H200") {
  std::ifstream file(results_file("nvidia-h200-counters.csv"));
  if (!file) return skip_self_check("built without results/");
  const counters::Counts counts = counters::read_counts(file);
  int compared = 0;
  for (const Rung& rung : rungs) {
    const double counted =
        counts.find(std::string(rung.key), "65536 words", "smsp__inst_executed.sum");
    if (!rung.by_instructions() || std::isnan(counted)) continue;
    CAPTURE(rung.key);
    CHECK(counted == counted_blocks(rung) * instructions_of_block(rung));
    ++compared;
  }
  CHECK(compared >= 7);
}

TEST_CASE("ladder: counted instructions of this GPU are within 5% of the model's") {
  if (!counted_in_this_run()) return skip_self_check("needs counts of this run");
  if (Device::current().prop.major != 9)
    return skip_self_check("the model's instructions are those of compute capability 9.0");
  for (const Rung& rung : rungs) {
    if (!rung.by_instructions()) continue;
    CAPTURE(rung.key);
    // another version of the compiler may need a few more or fewer
    CHECK(count_of_this_run(std::string(rung.key), "65536 words", "smsp__inst_executed.sum") ==
          doctest::Approx(counted_blocks(rung) * instructions_of_block(rung)).epsilon(0.05));
  }
}

TEST_CASE("ladder: predictions, by hand") {
  const Device device = made_up(10, 1024);
  const Calibrated c{0.01, 2e-6, 3e-4};
  const size_t n = size_t(1) << 24;  // 65536 + 256 + 1 blocks, three launches
  const auto us = [&](const char* key) { return 1e3 * predicted_ms(rung_of(key), n, c, device); };
  const double cycle_us = 1e-3 / 10;
  CHECK(us("reduce_modulo") == doctest::Approx(30 + 65793 * (2011 / 4.0 * cycle_us + 2e-3)));
  CHECK(us("reduce_strided") == doctest::Approx(30 + 65793 * (1115 / 4.0 * cycle_us + 2e-3)));
  CHECK(us("reduce_shuffle") ==
        doctest::Approx(30 + (32768 + 64 + 1) * (609 / 4.0 * cycle_us + 2e-3)));
  // 40960 bytes in flight take 300 ns by latency, 41 ns by the memory
  CHECK(us("reduce_several") == doctest::Approx(20 + 1638.4 * std::hypot(0.3, 0.04096)));
  CHECK(us("reduce_vector") == doctest::Approx(20 + 409.6 * std::hypot(0.3, 0.16384)));
  CHECK(us("sum_once") == doctest::Approx(10 + 51.2 * std::hypot(0.3, 1.31072)));
  CHECK(us("cub_sum") == doctest::Approx(20 + 67.108864).epsilon(0.001));
  // no more in flight than there is to read
  CHECK(1e3 * predicted_ms(rung_of("sum_once"), 1000, c, device) ==
        doctest::Approx(10 + std::hypot(0.3, 0.004)));
  // nothing is faster than the memory
  CHECK(1e3 * predicted_ms(rung_of("reduce_shuffle"), n, {0.01, 0, 3e-4}, made_up(100000, 1024)) ==
        doctest::Approx(30 + 67.108864));
  Device silent = device;
  silent.theoretical_gbs = 0;  // not reported
  CHECK(std::isnan(predicted_ms(rung_of("sum_once"), n, c, silent)));
  CHECK(1e3 * predicted_ms(rung_of("reduce_modulo"), n, c, silent) ==
        doctest::Approx(us("reduce_modulo")));
  CHECK(std::isnan(calibrate(0.01, 1, 1, n, silent).latency));
  silent.sm_clock_khz = 0;
  CHECK(std::isnan(predicted_ms(rung_of("reduce_modulo"), n, c, silent)));
  CHECK(std::isnan(calibrate(0.01, 1, 1, n, silent).wait));
}

TEST_CASE("ladder: calibrating finds the constants that a prediction was made with") {
  const Device device = made_up(10, 1024);
  const Calibrated c{0.01, 2e-6, 3e-4};
  const size_t n = 123456789;
  const Calibrated found =
      calibrate(c.launch, predicted_ms(rung_of("reduce_descending"), n, c, device),
                predicted_ms(rung_of("reduce_several"), n, c, device), n, device);
  CHECK(found.launch == c.launch);
  CHECK(found.wait == doctest::Approx(c.wait));
  CHECK(found.latency == doctest::Approx(c.latency));
  CHECK(calibrate(0.01, 0.001, 0.001, n, device).wait == 0);  // never less than nothing
}

TEST_CASE("ladder: what a test may hold a row to") {
  const Device device = made_up(10, 1024);
  Device other = device;
  other.prop.major = 8;
  const size_t n = size_t(1) << 24;
  CHECK(model_of(rung_of("reduce_modulo"), n, &device) == Model::traffic);
  CHECK(model_of(rung_of("reduce_modulo"), n, &other) == Model::host);
  CHECK(model_of(rung_of("sum_once"), n, &other) == Model::traffic);
  CHECK(model_of(rung_of("reduce_several"), n, &other) == Model::latency);
  CHECK(model_of(rung_of("sum_once"), 1000, &other) == Model::host);  // in the L2
}

TEST_CASE("ladder: sizes go beyond a made-up L2, and beside the library up to what fits") {
  Device device = made_up(10, 1024);
  device.prop.l2CacheSize = 126 << 20;
  device.prop.totalGlobalMem = size_t(3) << 30;
  Report report("ladder");
  Run run{report, &device, {}, true};
  CHECK(words_of(run) == 1 << 27);
  CHECK(sizes_beside_library(run) == Blocks{1 << 20, 1 << 24});
  run.quick = false;
  CHECK(words_of(run) == 1 << 28);
  CHECK(sizes_beside_library(run) == Blocks{1 << 20, 1 << 24, 1 << 28});
  run.full = true;
  CHECK(sizes_beside_library(run).size() == 10);  // 20, 22 ... 28, and one more of each
  CHECK(best_for((126 << 20) / 4, device).key == "sum_once");
  CHECK(best_for((126 << 20) / 4 + 1, device).key == "sum_streaming");
  run.device = nullptr;  // options that are typed are not those of a made-up GPU
  const Options before = typed_options();
  for (const auto& [typed, sizes] :
       {std::pair<size_t, Blocks>{77, {77}}, {1, {}}, {size_t(1) << 31, {}}}) {
    typed_options().size = typed;
    CHECK(sizes_beside_library(run) == sizes);
    CHECK(words_of(run) == typed);
  }
  typed_options() = before;
  CHECK(sums_of_a_graph(1) == 200);
  CHECK(sums_of_a_graph(1 << 24) == 128);
  CHECK(sums_of_a_graph((1 << 30) + 1) == 1);
}

TEST_CASE("ladder: what decides each part") {
  const auto given = [](const char* part, double modulo, double mask, double strided, double padded,
                        double descending) {
    return verdict_if(ladder_experiment, part,
                      {{"reduce_modulo", modulo},
                       {"reduce_mask", mask},
                       {"reduce_strided", strided},
                       {"reduce_strided_padded", padded},
                       {"reduce_descending", descending}});
  };
  const std::string holds = "holds", not_so = "does not hold";
  CHECK(given("06.1a", 2.6, 1.3, 1.6, 1.5, 1.2) == holds);
  CHECK(given("06.1a", 1.5, 1.3, 1.6, 1.5, 1.2) == not_so);
  CHECK(given("06.2a", 2.6, 1.3, 1.6, 1.5, 1.2) == holds);
  CHECK(given("06.2a", 2.6, 1.3, 1.2, 1.5, 1.6) == "depends");  // beats the first only
  CHECK(given("06.2a", 1.2, 1.3, 1.6, 1.5, 1.4) == "depends");  // the second only
  CHECK(given("06.2a", 1.2, 1.3, 1.2, 1.5, 1.6) == not_so);
  // without the division 2 times as fast, without divergence 1.08 times; and the other way round
  CHECK(given("06.1b", 2.6, 1.3, 1.6, 1.5, 1.2) == not_so);
  CHECK(given("06.1b", 1.5, 1.3, 1.6, 1.5, 0.6) == holds);
  CHECK(given("06.1b", 4, 2, 1.6, 1.5, 1) == "too close to call");
  // without conflicts 1.1 times as fast, without the rest 1.25 times; and the other way round
  CHECK(given("06.2b", 2.6, 1.3, 1.65, 1.5, 1.2) == not_so);
  CHECK(given("06.2b", 2.6, 1.3, 1.6, 1.2, 1.1) == holds);
  CHECK(given("06.2b", 2.6, 1.3, 1.5, 1.6, 0.8) == not_so);  // the pad costs more than it saves
}

TEST_CASE("ladder: the worst chain of additions meets the error bound and hardly") {
  volatile float chain = 1;
  for (int i = 0; i < 1000; ++i) chain = chain + 0x1p-24f;  // half of the last digit: rounded away
  const double exact = 1 + 1000 * 0x1p-24;
  const double error = exact - chain;
  CHECK(error <= error_bound(1000) * exact);
  CHECK_FALSE(error <= error_bound(990) * exact);
}

// ---- the words ----

TEST_CASE("ladder: no two words are the same, and their digits tell all of them apart") {
  std::set<long long> seen, by_digits;
  constexpr size_t count = 100000;
  for (size_t k = 0; k < count; ++k) {
    const size_t i = k * 42949 + 5;  // all over 2^32
    seen.insert(units_of<unsigned>(0, i));
    long long together = 0;
    for (unsigned d = 0; d < digits; ++d) {
      const long long digit = units_of<float>(d, i);
      CHECK(std::abs(digit) <= 15);
      together = together * 31 + digit;
    }
    by_digits.insert(together);
  }
  CHECK(seen.size() == count);
  CHECK(by_digits.size() == count);
}

TEST_CASE("ladder: a float holds the sums of every digit exactly") {
  for (unsigned d = 0; d < digits; ++d) {
    long long sum = 0, furthest = 0;
    for (size_t i = 0; i < size_t(1) << 20; ++i) {
      sum += units_of<float>(d, i);
      furthest = std::max(furthest, std::abs(sum));
    }
    CHECK(furthest < 1 << 17);  // 128 times as far for 2^34 words, if as at random: below 2^24
  }
}

TEST_CASE("ladder: the device's reference is the host's") {
  if (skip_without_gpu()) return;
  for (const size_t n : {0, 1, 2, 31, 1009, 65537, 300007}) {
    for (unsigned digit = 0; digit <= fractions; ++digit)
      CHECK(exact_sum<float>(digit, n) == host_sum<float>(digit, n));
    CHECK(exact_sum<unsigned>(0, n) == host_sum<unsigned>(0, n));
  }
}

// ---- sums ----

namespace {

/// All sums of words that begin at an offset: to the last bit where they are exact, of fractions
/// within the bound of their order; and the same bits when run again.
template <class T>
void check_sums(size_t n, size_t offset, Gpu gpu) {
  CAPTURE(n);
  CAPTURE(offset);
  const unsigned last = std::is_same_v<T, float> ? fractions : 0;
  for (unsigned digit = 0; digit <= last; ++digit) {
    CAPTURE(digit);
    const Shared words(Words<T>(n, gpu, digit, offset));
    for (const Rung& rung : rungs) {
      const bool by_library = rung.grid == Grid::library;
      if (by_library ? n > INT_MAX : !kernel_of<T>(rung)) continue;
      CAPTURE(rung.key);
      if (digit < fractions) {
        CHECK(wrong_after(task_of(words, ref_of<T>(rung), rung, n)) == 0);
        continue;
      }
      words->poison();
      words->sum(rung, kernel_of<T>(rung), n);
      const T found = words->result();
      const double exact = double(exact_sum<T>(digit, n)) * 0x1p-24;
      if (!by_library)  // whose order is not known
        CHECK(std::abs(double(found) - exact) <= error_bound(additions(rung, n, gpu)) * exact);
      words->poison();
      words->sum(rung, kernel_of<T>(rung), n);
      CHECK(words->result() == found);
    }
  }
}

template <class T>
void check_sums(const std::vector<size_t>& sizes, const std::vector<size_t>& offsets, Gpu gpu) {
  for (const size_t n : sizes)
    for (const size_t offset : offsets) check_sums<T>(n, offset, gpu);
}

}  // namespace

TEST_CASE("ladder: every sum is right at awkward sizes and alignments") {
  if (skip_without_gpu()) return;
  // racecheck watches this case: few words, as if on one multiprocessor, are many blocks
  check_sums<float>({1, 33, 1025}, {0, 31}, one_multiprocessor);
  check_sums<unsigned>({1, 33, 1025}, {0, 3}, one_multiprocessor);
}

TEST_CASE("ladder: every sum is right at more sizes and alignments" * doctest::test_suite("long")) {
  if (skip_without_gpu()) return;
  const std::vector<size_t> sizes{0, 2, 31, 257, 1009};
  check_sums<float>(sizes, {0, 31}, one_multiprocessor);
  check_sums<unsigned>(sizes, {0, 1, 3, 30}, one_multiprocessor);
  check_sums<float>({32768 + 35}, {0, 2}, one_multiprocessor);
  check_sums<unsigned>({32768 + 35}, {0, 29}, one_multiprocessor);
}

TEST_CASE("ladder: every block's sum is that of its own words, and one launch's that of all") {
  if (skip_without_gpu()) return;
  for (const Rung& rung : rungs)
    for (const size_t n : {4, 1000, 1024, 7 * 256 + 4, 50000}) {
      if (rung.grid == Grid::library) continue;
      CAPTURE(rung.key);
      CAPTURE(n);
      CHECK(wrong_after_first_launch<unsigned>(rung, n, one_multiprocessor) == 0);
      if (kernel_of<float>(rung))
        CHECK(wrong_after_first_launch<float>(rung, n, one_multiprocessor) == 0);
    }
}

TEST_CASE("ladder: the check finds a word left out and another taken twice") {
  if (skip_without_gpu()) return;
  constexpr size_t n = 3000;
  const auto digits_that_notice = [](auto word, size_t a, size_t b) {
    using T = decltype(word);
    unsigned noticed = 0;
    for (unsigned digit = 0; digit < (std::is_same_v<T, float> ? digits : 1); ++digit) {
      const Shared words(Words<T>(n, one_multiprocessor, digit));
      T* const all = words->all.data();
      if (a != b) CUDA_CHECK(cudaMemcpy(all + a, all + b, sizeof(T), cudaMemcpyDeviceToDevice));
      const Rung& rung = rung_of("reduce_descending");
      noticed += wrong_after(task_of(words, rung.key, rung, n)) > 0;
    }
    return noticed;
  };
  for (const size_t a : {0, 1, 17, 255, 2999})
    for (const size_t b : {0, 2, 256, 1234}) {
      CAPTURE(a);
      CAPTURE(b);
      CHECK(digits_that_notice(0u, a, b) == (a == b ? 0 : 1));
      CHECK((digits_that_notice(0.0f, a, b) > 0) == (a != b));
    }
}

TEST_CASE("ladder: the check finds a word behind the partial sums that somebody wrote") {
  if (skip_without_gpu()) return;
  const size_t n = 100003;
  const Shared words(Words<float>(n, one_multiprocessor));
  const Rung& rung = rung_of("reduce_add_on_load");  // leaves fewer than others
  const Task task = task_of(words, rung.key, rung, n);
  REQUIRE(wrong_after(task) == 0);
  words->partial.change(partial_sums(rung, n, one_multiprocessor) - 1);
  CHECK(task.check.wrong() == 0);
  std::vector<float> partial = words->partial.to_host();
  partial[partial_sums(rung, n, one_multiprocessor)] = 1;
  words->partial.copy_from(partial);
  CHECK(task.check.wrong() == 1);
}

TEST_CASE("ladder: every sum is right beyond one grid" * doctest::test_suite("large")) {
  if (skip_without_gpu()) return;
  const Gpu gpu = gpu_of(Device::current());
  const std::vector<size_t> sizes{16385, 65537, 1000003, 5000011};
  check_sums<float>(sizes, {0, 1, 2, 3}, gpu);
  check_sums<unsigned>(sizes, {0, 1, 2, 3}, gpu);
}

// Without its barrier a step reads words of warps that may be behind. Here millions of blocks give
// them the chance to be; that each barrier stands where it must is seen in the compiled code.
TEST_CASE("ladder: every sum is right beyond the L2 and up to 2^31 + 7 words" *
          doctest::test_suite("large")) {
  if (skip_without_gpu()) return;
  const Gpu gpu = gpu_of(Device::current());
  const size_t beyond_l2 = (size_t(1) << 26) + 12345, beyond_int = (size_t(1) << 31) + 7;
  if (double(Device::free_bytes()) < 1.1 * bytes_needed(beyond_int))
    return skip_self_check("needs " + bytes_text(1.1 * bytes_needed(beyond_int)) +
                           " of device memory");
  check_sums<float>({beyond_l2}, {0, 1}, gpu);
  check_sums<unsigned>({beyond_l2}, {0, 3}, gpu);
  check_sums<float>({beyond_int}, {0, 1}, gpu);
  check_sums<unsigned>({beyond_int}, {0, 3}, gpu);
}

EXPERIMENT_CHECKS(ladder)
