// Self-checks of batching.cu, compiled in its place where BUILD_TESTING is on.
#include "../batching.cu"

#include <doctest/doctest.h>

#include "../../common/checks/plausible.hpp"

TEST_CASE("batching: a split takes every byte once") {
  for (const size_t total : {1, 2, 31, 4095, 4096, 65537, 1000003})
    for (const size_t n : {1, 2, 3, 64, 4096, 5000}) {
      const Split split(total, n);
      CHECK(split.pieces == std::min(n, total));
      size_t next = 0, empty = 0;
      for (size_t k = 0; k < split.pieces && split.begin(k) == next; ++k) {
        next += split.bytes(k);
        empty += split.bytes(k) == 0;
      }
      CHECK(next == total);
      CHECK(empty == 0);
    }
}

TEST_CASE("batching: pieces are brought together from all over the host") {
  for (const size_t total : {1, 31, 1009, 65537})
    for (const size_t n : {1, 2, 3, 16, 255, 4096}) {
      const Split split(total, n);
      std::vector<Byte> host(split.host_bytes(), 0xff), device(total), packed(total + guard, 0xff);
      const Pieces pieces = scatter(split, device.data(), host.data());
      fill_pieces(pieces, 5);
      pack(pieces, packed.data());
      size_t right = 0;  // fewer if a piece was written over another
      while (right < total && packed[right] == byte_at(right, 5)) ++right;
      CHECK(right == total);
      CHECK(std::count(packed.begin() + long(total), packed.end(), 0xff) == long(guard));
      for (size_t k = 1; k < split.pieces; ++k)  // never side by side
        REQUIRE(static_cast<Byte*>(pieces.from[k - 1]) + pieces.bytes[k - 1] != pieces.from[k]);
    }
}

TEST_CASE("batching: predictions, by hand") {
  const Calibrated c{0.3, 0.002, 1.2};
  CHECK(one_by_one_ms(c, 1) == doctest::Approx(0.3));
  CHECK(one_by_one_ms(c, 4096) == doctest::Approx(8.49));
  CHECK(packed_ms(c) == doctest::Approx(1.5));
  CHECK(packing_pays({0.3, 0.0021, 1.2}) == 573);
}

TEST_CASE("batching: 02.4 compares one copy with the most pieces") {
  Device device;
  device.number = -1;
  std::string printed;
  Report report("batching", &printed);
  const Run run{report, &device, {}};
  const auto always = [](double ms) { return Readings{std::vector<double>(15, ms)}; };
  const Times few{64, always(1), always(1), always(2), always(1), always(1)};
  judge(run, {few, {4096, always(1), always(30), always(2), always(4), always(4)}}, {});
  CHECK(printed.find("02.4   holds  ") != std::string::npos);
  CHECK(printed.find("packing first is faster than one by one at 4096 pieces") !=
        std::string::npos);
  printed.clear();
  judge(run, {few, {4096, always(1), always(1), always(2), always(4), always(4)}}, {});
  CHECK(printed.find("02.4   does not hold") != std::string::npos);
}

TEST_CASE("batching: every way carries every byte at awkward sizes") {
  if (skip_without_gpu()) return;
  const bool has_batch = why_no_batch().empty();
  for (const size_t total : {1, 31, 257, 65537, 1000003}) {
    Memory memory(total);
    for (const size_t n : {1, 2, 3, 31, 1000, 4096}) {
      CAPTURE(total);
      CAPTURE(n);
      Pieces pieces = memory.lay_out(n);
      CHECK(wrong_after(memory.one_by_one(pieces)) == 0);
      CHECK(wrong_after(memory.packed_first(pieces)) == 0);
      CHECK(wrong_after(memory.one_copy(pieces)) == 0);
      CHECK(wrong_after(memory.packing(pieces)) == 0);
      if (has_batch) CHECK(wrong_after(memory.batched(pieces, false)) == 0);
      if (has_batch) CHECK(wrong_after(memory.batched(pieces, true)) == 0);
      pieces.bytes.back() -= 1;  // the last byte stays behind, and the check must see it
      CHECK(wrong_after(memory.one_by_one(pieces)) == 1);
    }
  }
}

TEST_CASE("batching: a list beside a kernel is predicted by the same list alone") {
  Device device;
  device.number = -1;
  std::string printed;
  Report report("batching", &printed);
  const auto always = [](double ms) { return Readings{std::vector<double>(15, ms)}; };
  const Times alone{256, always(1), always(2), always(3), always(4), always(5)};
  show_beside({report, &device, {}}, {always(6), always(7)}, alone);
  REQUIRE(report.predictions().size() == 2);
  CHECK(report.predictions()[0].predicted == 4);
  CHECK(report.predictions()[0].measured == 6);
  CHECK(report.predictions()[1].predicted == 5);
  CHECK(report.predictions()[1].measured == 7);
}

TEST_CASE("batching: a list carries every byte beside a kernel") {
  if (skip_without_gpu()) return;
  const std::string why = why_no_batch();
  if (!why.empty()) return skip_self_check(why);
  const Device device = Device::current();
  std::string printed;
  Report report("batching", &printed);
  const Run run{report, &device, {}};
  Memory memory(65537);
  Pieces pieces = memory.lay_out(31);
  const Beside beside = beside_a_kernel(run, memory, pieces, 0.05);  // throws unless it does
  CHECK(beside.plain.ms.size() == 18);
  CHECK(beside.preferring.ms.size() == 18);
  pieces.bytes.back() -= 1;
  CHECK_THROWS_AS(beside_a_kernel(run, memory, pieces, 0.05), WrongResult);
}

TEST_CASE("batching: measured rows lie where its models predict them" *
          doctest::test_suite("plausible") * doctest::skip()) {
  const Options by_default;
  check_plausible([&](const Run& run) { batching(run, by_default); });
}
