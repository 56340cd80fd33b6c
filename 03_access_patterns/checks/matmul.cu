// Self-checks of matmul.cu, compiled in its place where BUILD_TESTING is on.
#include "../matmul.cu"

#include <doctest/doctest.h>

#include "../../common/checks/counts.hpp"
#include "../../common/checks/made_up_devices.hpp"
#include "../../common/checks/plausible.hpp"
#include "../../common/counters.hpp"

namespace {

constexpr unsigned counted_n = 256;

std::vector<CountedLaunch> counted_launches() {
  const double warps = counted_n * counted_n / 32.0;  // of a thread an element
  std::vector<CountedLaunch> all;
  for (const Way& way : ways) {
    if (way.transposes_first) continue;
    const double loads = 2.0 * warps * counted_n;
    const double stores = way.by_warps ? counted_n * counted_n : warps;
    all.push_back({way.symbol,
                   "n " + std::to_string(counted_n),
                   {expected_requests(true, loads),
                    expected_sectors(true, loads * sectors_a_request(way, counted_n)),
                    expected_requests(false, stores),
                    expected_sectors(false, stores * (way.by_warps ? 1 : 4))},
                   [&way] {
                     const Host host(counted_n);
                     Matrices m(host);
                     return wrong_after(task_of(way, m)) == 0;
                   }});
  }
  all.push_back({"transpose",
                 "n " + std::to_string(counted_n),
                 {expected_requests(true, warps), expected_sectors(true, 32 * warps),
                  expected_requests(false, warps), expected_sectors(false, 4 * warps)},
                 [] {
                   const Host host(counted_n);
                   Matrices m(host);
                   m.bt.poison();
                   transpose<<<m.n, m.n>>>(m.n, m.b.data(), m.bt.data());
                   CUDA_CHECK_LAUNCH();
                   return m.wrong(m.bt, host.bt) == 0;
                 }});
  return all;
}

/// 132 multiprocessors at 1.98 GHz.
Device made_up_device() {
  Device device;
  device.number = -1;
  device.sm_clock_khz = 1980000;
  device.prop.major = 9;
  device.prop.multiProcessorCount = 132;
  device.prop.maxThreadsPerMultiProcessor = 2048;
  device.prop.maxBlocksPerMultiProcessor = 32;
  return device;
}

}  // namespace

TEST_CASE("matmul: blocks of made-up GPUs") {
  for (const Device& device : made_up_devices())
    for (const Way& way : ways)
      for (const unsigned n : {256u, 512u, 1024u}) {
        CAPTURE(std::string(device.prop.name));
        CAPTURE(n);
        const Blocks blocks = blocks_of(way, n, device.prop);
        CHECK(blocks.at_once >= 1);
        CHECK(blocks.all * device.prop.multiProcessorCount >= n);
        CHECK(blocks.at_once * (way.by_warps ? 32 * block_warps : n) <=
              device.prop.maxThreadsPerMultiProcessor);
        CHECK(std::isnan(cycles_a_ms(device)) == (device.sm_clock_khz == 0));
      }
}

TEST_CASE("matmul: the product and the transposed matrix, by hand") {
  const Matrix a{1, 2, 3, 4}, b{5, 6, 7, 8};
  CHECK(product(2, a, b) == Matrix{19, 22, 43, 50});
  CHECK(transposed(2, b) == Matrix{5, 7, 6, 8});
  CHECK(transposed(3, {1, 2, 3, 4, 5, 6, 7, 8, 9}) == Matrix{1, 4, 7, 2, 5, 8, 3, 6, 9});
  const Host host(33);
  CHECK(host.a != host.b);
  CHECK(host.b != host.bt);
  CHECK(product(33, host.b, host.a) != host.c);
}

TEST_CASE("matmul: the host's loops agree with sums in whole numbers") {
  for (const unsigned n : {1u, 2u, 31u, 100u}) {
    CAPTURE(n);
    const Host host(n);
    Matrix out;
    for (const bool cure : {false, true}) CHECK(wrong_after(host_task(cure, n, host, out)) == 0);
    long long wrong = 0;
    for (unsigned i = 0; i < n; ++i)
      for (unsigned j = 0; j < n; ++j) {
        long long sum = 0;
        for (unsigned k = 0; k < n; ++k)
          sum += (long long)host.a[i * n + k] * (long long)host.b[k * n + j];
        wrong += sum != (long long)host.c[i * n + j];
      }
    CHECK(wrong == 0);
  }
}

TEST_CASE("matmul: each of the host's ways reads its own B") {
  Host host(33);
  const Matrix b = host.b, bt = host.bt;
  Matrix out;
  const auto is_right = [&](bool cure) { return wrong_after(host_task(cure, 33, host, out)) == 0; };
  host.b = numbers(33, 3);  // another matrix: only A x B may suffer
  CHECK(is_right(true));
  CHECK_FALSE(is_right(false));
  host.b = b;
  host.bt = transposed(33, numbers(33, 3));
  CHECK(is_right(false));
  CHECK_FALSE(is_right(true));
}

TEST_CASE("matmul: what a warp wants of A and B") {
  const int of_a[] = {1, 1, 1, 4, 4}, of_b[] = {4, 32, 32, 32, 4};  // sectors
  const int in_lines[] = {2, 33, 33, 33, 2};
  for (const unsigned n : {256u, 512u, 1024u})
    for (size_t w = 0; w < std::size(ways); ++w) {
      CHECK(sectors(load_of_a(ways[w])) == of_a[w]);
      CHECK(sectors(load_of_b(ways[w], n)) == of_b[w]);
      CHECK(lookups(ways[w], n) == in_lines[w]);
    }
  CHECK(under(Rule::in_order, load_of_b(ways[direct], 1024)).count() == 2);
  CHECK(under(Rule::in_order, load_of_b(ways[cured], 1024)).count() == 32);
}

TEST_CASE("matmul: predictions, by hand") {
  Device device = made_up_device();
  device.sm_clock_khz = 1000;  // a cycle is a microsecond
  device.prop.multiProcessorCount = 4;
  device.prop.maxThreadsPerMultiProcessor = 512;
  // n 64: 16 blocks of 2 warps on each, 8 at once: two rounds of 16 turns of 16 x 4 x 2 + 72 cycles
  CHECK(predicted_ms(ways[direct], 64, 72, device) == doctest::Approx(2 * 16 * 0.200));
  CHECK(latency_of(6.4, 64, device) == doctest::Approx(72));
  // 16 x 4 x 33 + 72 cycles; the transposition's 16 x 2 warps take 36 lookups each, and one latency
  CHECK(predicted_ms(ways[cured], 64, 72, device) == doctest::Approx(2 * 16 * 2.184));
  CHECK(predicted_ms(ways[cured_transposing], 64, 72, device) ==
        doctest::Approx(2 * 16 * 2.184 + 32 * 0.036 + 0.072));
  // two blocks of 8 warps at once, 8 rounds of 8 elements: a turn, and 5 shuffles of 16 warps
  CHECK(predicted_ms(ways[by_warps_cured], 64, 72, device) ==
        doctest::Approx(8 * 8 * (0.200 + 5 * (0.025 + 0.016))));
  // n 72: 18 blocks of 3 warps on each, 5 at once: three rounds and one of 3
  const double round = 18 * (15 * 4 * 2 + 72), rest = 18 * (9 * 4 * 2 + 72);
  CHECK(predicted_ms(ways[direct], 72, 72, device) == doctest::Approx((3 * round + rest) / 1000));
  CHECK(model_of(ways[cured], 64, 72, device) == Model::traffic);
  CHECK(model_of(ways[direct], 64, 200, device) == Model::latency);
  device.prop.major = 8;
  CHECK(model_of(ways[cured], 64, 72, device) == Model::host);
  device.sm_clock_khz = 0;
  CHECK(std::isnan(predicted_ms(ways[direct], 64, 72, device)));
}

TEST_CASE("matmul: the model, and what was measured on an H200") {
  const Device device = made_up_device();  // its figures are that GPU's
  const double latency = latency_of(0.012464, 256, device);
  const double found[][5] = {{0.012464, 0.07376, 0.076576, 0.077888, 0.02216},
                             {0.047056, 0.563984, 0.56944, 0.575712, 0.065952},
                             {0.333552, 4.51478, 4.52438, 4.92549, 0.446544}};
  int far = 0;
  for (int size = 0; size < 3; ++size)
    for (size_t w = 0; w < std::size(ways); ++w) {
      const double off = found[size][w] / predicted_ms(ways[w], 256u << size, latency, device);
      CAPTURE(off);
      CHECK(std::abs(std::log(off)) < std::log(1.5));
      far += std::abs(std::log(off)) > std::log(1.25);
    }
  CHECK(far <= 1);
}

TEST_CASE("matmul: the claim asks how much faster the transposed B is, not the other way round") {
  std::string printed;
  Report report("matmul", &printed);
  const Run run{report, nullptr, {}};
  const auto always = [](double ms) { return Readings{std::vector<double>(15, ms)}; };
  Times times;
  times.gpu = {always(1.3), always(1), always(1.04), always(11), always(1)};
  times.host = always(7);
  times.host_cured = always(1);
  judge(run, times, 1024);
  CHECK(printed.find("03.8   holds  ") != std::string::npos);
  CHECK(printed.find("here 1.30x faster") != std::string::npos);
  CHECK(printed.find("counted the transposed B is 1.25x faster") != std::string::npos);
  CHECK(printed.find("makes an element it is 11.0x faster") != std::string::npos);
  CHECK(printed.find("of the host 7.00x faster") != std::string::npos);
  printed.clear();
  std::swap(times.gpu[direct], times.gpu[cured]);
  judge(run, times, 1024);
  CHECK(printed.find("03.8   does not hold") != std::string::npos);
}

TEST_CASE("matmul: the model equals what was counted on an NVIDIA H200") {
  compare_with_recorded_counts(counted_launches(), results_file("nvidia-h200-counters.csv"));
}

TEST_CASE("matmul: counted requests and sectors of this GPU equal the model") {
  compare_with_counts_of_this_run(counted_launches());
}

TEST_CASE("matmul: all kernels are right at awkward sizes") {
  if (skip_without_gpu()) return;
  for (const unsigned n : {1u, 31u, 33u, 97u, 257u, 1000u}) {
    CAPTURE(n);
    Host host(n);
    Matrices m(host);
    for (const Way& way : ways) {
      CAPTURE(std::string(way.name));
      CHECK(wrong_after(task_of(way, m)) == 0);
    }
    host.c.back() += 1;  // and the check itself can fail
    CHECK(wrong_after(task_of(ways[direct], m)) == 1);
  }
}

TEST_CASE("matmul: the check finds a wrong word of B^T, an untouched output, a word too many") {
  if (skip_without_gpu()) return;
  const Host host(40);
  Matrices m(host);
  const Task good = task_of(ways[cured_transposing], m);
  CHECK(wrong_after(Task{"", [] {}, good.check}) == 2 * host.c.size());
  CHECK(wrong_after(Task{"",
                         [&] {
                           good.launch();
                           CUDA_CHECK(cudaMemsetAsync(m.bt.data() + 7, 0xff, sizeof(float)));
                           CUDA_CHECK(cudaMemsetAsync(m.c.data() + host.c.size(), 0, 4));
                         },
                         good.check}) == 2);
}

TEST_CASE("matmul: profile launches") {
  if (skip_without_gpu()) return;
  launch_counted(counted_launches());
}

TEST_CASE("matmul: measured rows lie where its models predict them" *
          doctest::test_suite("plausible") * doctest::skip()) {
  check_plausible([](const Run& run) { matmul(run); });
}
