// Self-checks of allocation.cu, compiled in its place where BUILD_TESTING is on.
#include "../allocation.cu"

#include <doctest/doctest.h>

#include "../../common/checks/made_up_devices.hpp"
#include "../../common/checks/plausible.hpp"

TEST_CASE("allocation: predictions, by hand") {
  const Line line(60, 0, 400, 1000);
  CHECK(line.us(0) == 60);
  CHECK(line.us(500) == doctest::Approx(230));
}

TEST_CASE("allocation: sizes fit made-up GPUs") {
  check_on_made_up_devices([](const Run& run) {
    const std::vector<size_t> sizes = sizes_of(run);
    CHECK(std::is_sorted(sizes.begin(), sizes.end()));
    if (!run.quick) CHECK(sizes.back() >= size_t(256) << 20);
    return Needs{bytes_held(sizes.back())};
  });
}

TEST_CASE("allocation: 02.1 compares taking with keeping, the right way round") {
  Device device;
  device.number = -1;
  std::string printed;
  Report report("allocation", &printed);
  const Run run{report, &device, {}};
  const auto always = [](double ms) { return Readings{std::vector<double>(15, ms)}; };
  judge(run, always(0.06), always(0.006), always(0.009));
  CHECK(printed.find("02.1   holds  ") != std::string::npos);
  CHECK(printed.find("1.50x slower") != std::string::npos);
  printed.clear();
  judge(run, always(0.006), always(0.006), {});
  CHECK(printed.find("02.1   does not hold") != std::string::npos);
}

TEST_CASE("allocation: memory of every kind can be used and pools hold what they may") {
  if (skip_without_gpu()) return;
  const Stream stream;
  for (const Way& way : all_ways((5 << 20) + 1, stream))
    for (const size_t bytes : {1, 31, 257, 4099, (5 << 20) + 1}) {
      CAPTURE(way.name + " " + std::to_string(bytes));
      uint64_t held = 0;
      const bool keeps = way.name == "pool that keeps all";
      for (int round = 0; round < 3; ++round) {
        CHECK(wrong_after(iteration(way, bytes, stream)) == 0);
        stream.wait();
        if (!way.pool) continue;
        if (round == 0) held = keeps ? way.pool->reserved() : 0;
        CHECK(way.pool->reserved() == held);  // handed out again, and no more taken
        if (keeps) CHECK(held >= bytes);
      }
    }
}

TEST_CASE("allocation: one that fails names the sizes") {
  if (skip_without_gpu()) return;
  const std::string error = too_large();
  CHECK(error.find("cudaMalloc of 1.00 TiB where ") == 0);
  CHECK(error.find(" are free failed: cudaErrorMemoryAllocation") != std::string::npos);
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("allocation: cudaMemset sets every byte and no neighbour") {
  if (skip_without_gpu()) return;
  for (const size_t bytes : {1, 3, 31, 257, 4097, 65537})
    for (const size_t offset : {0, 1, 2, 7, 513}) {
      DeviceBuffer<unsigned char> buffer(offset + bytes + 64);
      buffer.poison();
      CUDA_CHECK(cudaMemset(buffer.data() + offset, mark, bytes));
      std::vector<unsigned char> expected(buffer.size(), 0xff);
      std::fill_n(expected.begin() + long(offset), bytes, mark);
      CHECK((buffer.to_host() == expected));
    }
}

TEST_CASE("allocation: a wrong byte of the pattern is found") {
  if (skip_without_gpu()) return;
  for (const size_t n : {1, 31, 1009, 600011}) {  // the last: more than one grid
    const DeviceBuffer<unsigned char> bytes(n);
    put_pattern(bytes.data(), n, 3);
    CHECK(wrong_bytes(bytes.data(), n, 3) == 0);
    CHECK(wrong_bytes(bytes.data(), n, 4) == n);
    const unsigned char other = byte_at(n - 1, 3) + 1;
    CUDA_CHECK(cudaMemset(bytes.data() + n - 1, other, 1));
    CHECK(wrong_bytes(bytes.data(), n, 3) == 1);
  }
}

TEST_CASE("allocation: measured rows lie where its models predict them" *
          doctest::test_suite("plausible") * doctest::skip()) {
  check_plausible([](const Run& run) { allocation(run); });
}
