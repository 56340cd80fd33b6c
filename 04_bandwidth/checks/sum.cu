// Self-checks of sum.cu, compiled in its place where BUILD_TESTING is on.
#include "../sum.cu"

#include <doctest/doctest.h>

#include "../../common/checks/made_up_devices.hpp"
#include "../../common/checks/plausible.hpp"
#include "../../common/counters.hpp"

namespace {

/// Element i of n as the text generates it, in groups of four: interleaved slopes.
double pattern(size_t i, size_t n) {
  const size_t first = i / 4 * 4;
  if (i % 4 == 0) return 1.0 + double(n - first - 1) / double(n);
  if (i % 4 == 2) return 1.0 + 3.0 * double(n - first - 1) / double(n);
  return 1.0 - 2.0 * double(first) / double(n);
}

/// What every thread of a launch must find, by the text's two loops, on the host.
std::vector<float> sums_by_host(const Walk& w, unsigned largest) {
  if (w.order == Order::empty) return std::vector<float>(w.launch.total(), 8);
  const bool by_columns = w.order == Order::columns;
  const size_t lines = by_columns ? w.columns : w.rows;
  const size_t along = by_columns ? w.rows : w.columns;
  std::vector<float> sums;
  for (unsigned block = 0; block < w.launch.blocks; ++block)
    for (unsigned thread = 0; thread < w.launch.threads; ++thread) {
      size_t sum = 0;
      for (size_t line = block; line < lines; line += w.launch.blocks)
        for (size_t i = thread; i < along; i += w.launch.threads) {
          size_t word = by_columns ? i * w.columns + line : line * w.columns + i;
          if (w.order == Order::random) word = shuffled(unsigned(word), w.rows * w.columns);
          for (size_t k = 0; k < w.words; ++k)
            sum += w.order == Order::none ? 1 : whole_number(word * w.words + k, largest);
        }
      sums.push_back(float(sum));
    }
  return sums;
}

}  // namespace

TEST_CASE("sum: the text's pattern adds up to its count plus three, not to its count") {
  for (size_t n : {4, 400, 65536, 1000 * 1000, 4096 * 4096}) {
    double sum = 0;
    for (size_t i = 0; i < n; ++i) sum += pattern(i, n);
    CHECK(sum == doctest::Approx(double(n) + 3).epsilon(1e-12));
  }
}

TEST_CASE("sum: the random order takes every word once") {
  for (unsigned count : {1u, 2u, 3u, 31u, 64u, 101u, 10007u, 65536u, 90000u}) {
    std::vector<unsigned> taken(count, 0);
    for (unsigned x = 0; x < count; ++x) ++taken.at(shuffled(x, count));
    CHECK(taken == std::vector<unsigned>(count, 1));
  }
}

TEST_CASE("sum: predicted sectors a request, from the addresses of a warp") {
  constexpr unsigned side = 12288;
  for (int i : {rows1, rows4, columns1, columns4, random1, random4}) {
    const Kernel& k = kernels[i];
    const unsigned columns = side / k.words, count = side * columns;
    std::vector<size_t> sectors;
    for (unsigned lane = 0; lane < 32; ++lane) {
      size_t word = lane;
      if (k.order == Order::columns) word = size_t(lane) * columns;
      if (k.order == Order::random) word = shuffled(lane, count);
      sectors.push_back(word * k.words / 8);
    }
    std::sort(sectors.begin(), sectors.end());
    const auto end = std::unique(sectors.begin(), sectors.end());
    CHECK(sectors_a_request(k) == double(end - sectors.begin()));
  }
  CHECK_FALSE(fits(kernels[rows4], 1022));     // no rows of 16-byte words
  CHECK_FALSE(fits(kernels[random1], 65536));  // 2^32 words are too many for the shuffle
  CHECK(fits(kernels[random4], 65536));
}

TEST_CASE("sum: the text's square fits made-up GPUs, beyond the L2") {
  check_on_made_up_devices([](const Run& run) {
    const std::vector<Launch> launches = candidates(run.device->prop);
    for (const Launch l : launches) CHECK(l.threads <= 1024);
    const auto bytes = [&](size_t n) { return bytes_read(double(n)) + bytes_of_sums(launches); };
    const size_t side = fitting_size("sum", 0, 12288, run.memory_there(), bytes);
    return Needs{bytes(side), bytes_read(double(side))};
  });
}

TEST_CASE("sum: launches fill made-up devices once, twice and four times") {
  const auto device = [](int multiprocessors, int resident_threads) {
    cudaDeviceProp prop{};
    prop.multiProcessorCount = multiprocessors;
    prop.maxThreadsPerMultiProcessor = resident_threads;
    return prop;
  };
  for (const cudaDeviceProp& prop : {device(40, 1024), device(24, 1536), device(148, 2048)}) {
    const std::vector<Launch> launches = candidates(prop);
    CHECK(launches.size() == 13);
    for (const Launch l : launches) {
      const double full = double(prop.multiProcessorCount) * prop.maxThreadsPerMultiProcessor;
      CHECK(l.blocks > 0);
      if (l.blocks != text_launch.blocks) CHECK(l.total() <= 4 * full);
      if (l.blocks != text_launch.blocks) CHECK(l.blocks % prop.multiProcessorCount == 0);
    }
  }
}

TEST_CASE("sum: predictions, by hand") {
  Device device;
  device.number = -1;
  device.prop.multiProcessorCount = 10;
  device.prop.maxThreadsPerMultiProcessor = 1000;
  const Calibrated c{1, 0.001, 1e-5, 1e-4};
  const auto ms = [&](int i, Launch l) { return predicted_ms(kernels[i], l, 1000, c, device); };
  CHECK(ms(rows1, {5, 100}) == doctest::Approx(2));         // 2000 trips of a thread, 1 us each
  CHECK(ms(rows1, {10, 1000}) == doctest::Approx(1));       // 100 trips: the bandwidth
  CHECK(ms(rows1, {20, 1000}) == doctest::Approx(1));       // no more threads are resident
  CHECK(ms(rows8, {5, 100}) == doctest::Approx(1));         // 250 trips
  CHECK(ms(rows4, {1, 100}) == doctest::Approx(2.5));       // 2500 trips
  CHECK(ms(random1, {1, 100}) == doctest::Approx(100));     // a million lone sectors
  CHECK(ms(random4, {1, 100}) == doctest::Approx(25));      // a quarter of them
  CHECK(ms(columns1, {1, 100}) == doctest::Approx(11.25));  // a million lookups, 125000 fills
  CHECK(ms(columns4, {1, 100}) == doctest::Approx(3.75));   // a quarter, and as many fills
}

TEST_CASE("sum: each claim compares the text's pair, the right way round") {
  Device device;  // of 2007: all effects as the text has them
  device.number = -1;
  device.theoretical_gbs = 86.4;
  device.prop.l2CacheSize = 1 << 20;
  std::string printed;
  Report report("sum", &printed);
  const Run run{report, &device, {}};
  const auto always = [](double ms) { return Readings{std::vector<double>(15, ms)}; };
  Best best;
  const double rows_ms = bytes_read(12288) / 70.5e6;
  const double of_rows[] = {1, 1.82, 77, 19, 77, 19, 1, 1, 1};
  for (size_t i = 0; i < best.access.size(); ++i) best.access[i] = always(of_rows[i] * rows_ms);
  best.rows_beside_host = always(1);
  best.host = always(10);
  judge(run, best, 12288, bytes_read(12288));
  for (const char* line : {"04.1   holds  ", "04.2a  holds  ", "04.2b  holds  ", "04.3   holds  ",
                           "04.4   holds  ", "04.11  holds  "}) {
    CAPTURE(std::string(line));
    CHECK(printed.find(line) != std::string::npos);
  }
  CHECK(printed.find("82% (81 to 82%)") != std::string::npos);
  printed.clear();
  judge(run, best, 12288, bytes_read(12288) * 20);  // the host's array was twenty times as large
  CHECK(printed.find("04.11  does not hold") != std::string::npos);
  CHECK(bytes_read(3) == 36);
}

TEST_CASE("sum: every thread's sum stays exact, however large the array") {
  for (const double side : {4.0, 12288.0, 32768.0, 65540.0, 1000000.0}) {
    const double largest = largest_word(unsigned(side), {text_launch});
    const double rows = std::ceil(side / 1024);
    const double columns = std::ceil(side / 192);
    CHECK(rows * columns * largest < 1 << 24);                            // by rows, float
    CHECK(rows * std::ceil(side / 4 / 192) * 4 * largest < 1 << 24);      // by rows, float4
    CHECK(std::ceil(side / 4 / 1024) * 4 * columns * largest < 1 << 24);  // by columns, float4
    CHECK(largest >= 1);
    if (side == 12288) CHECK(largest == 8191);
  }
}

TEST_CASE("sum: the check is that of the text's loops") {
  if (skip_without_gpu()) return;
  for (const unsigned side : {1u, 4u, 31u, 100u, 257u})
    for (const Launch l : {Launch{1, 1024}, Launch{7, 33}, Launch{300, 192}}) {
      Square square(side, {l});
      for (const Kernel& k : kernels) {
        if (!fits(k, side)) continue;
        CAPTURE(std::string(k.name));
        CAPTURE(side);
        const Task task = square.task(k, l);
        CHECK(wrong_after(task) == 0);
        std::vector<float> found = square.out.to_host();
        found.resize(l.total());
        CHECK(found == sums_by_host(square.walk(k, l), square.largest));
        task.check.poison();
        CHECK(task.check.wrong() == l.total());
      }
    }
}

TEST_CASE("sum: every access is right at awkward sides and launches") {
  if (skip_without_gpu()) return;
  for (const unsigned side : {1u, 4u, 31u, 100u, 257u, 1009u, 1200u})
    for (const Launch l : {Launch{2, 1024}, Launch{70, 33}, text_launch, Launch{2048, 1}}) {
      Square square(side, {l});
      for (const Kernel& k : kernels) {
        if (!fits(k, side)) continue;
        CAPTURE(std::string(k.name));
        CAPTURE(side);
        CAPTURE(l.blocks);
        CHECK(wrong_after(square.task(k, l)) == 0);
        std::vector<unsigned> canaries(Square::canaries);
        device_memory::to_host(canaries.data(), square.out.data() + l.total(),
                               canaries.size() * sizeof(unsigned));
        CHECK(std::count(canaries.begin(), canaries.end(), ~0u) == long(canaries.size()));
      }
    }
}

TEST_CASE("sum: the check finds a word left out and another taken twice") {
  if (skip_without_gpu()) return;
  const Launch l{70, 33};
  Square square(257, {l});
  const Task task = square.task(kernels[rows1], l);
  REQUIRE(wrong_after(task) == 0);
  std::vector<float> sums = square.out.to_host();
  sums[5] += float(whole_number(1, square.largest)) - float(whole_number(2, square.largest));
  square.out.copy_from(sums);
  CHECK(task.check.wrong() == 1);
}

TEST_CASE("sum: the text's array at its launch" * doctest::test_suite("large")) {
  if (skip_without_gpu()) return;
  if (Device::free_bytes() < 800ull << 20) return skip_self_check("needs 800 MiB of memory");
  Square square(12288, {text_launch});
  for (const Kernel& k : kernels) CHECK(wrong_after(square.task(k, text_launch)) == 0);
}

TEST_CASE("sum: more than 2^32 words" * doctest::test_suite("large")) {
  if (skip_without_gpu()) return;
  constexpr unsigned side = 65540;
  if (bytes_read(side) > 0.9 * double(Device::free_bytes()))
    return skip_self_check("needs " + bytes_text(bytes_read(side)) + " of device memory");
  Square square(side, {text_launch});
  for (const Kernel& k : kernels) {
    CAPTURE(std::string(k.name));
    if (fits(k, side)) CHECK(wrong_after(square.task(k, text_launch)) == 0);
  }
}

TEST_CASE("sum: measured rows lie where its models predict them" *
          doctest::test_suite("plausible") * doctest::skip()) {
  const Options by_default;
  check_plausible([&](const Run& run) { sum(run, by_default); });
}
