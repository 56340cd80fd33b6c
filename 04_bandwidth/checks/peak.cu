// Self-checks of peak.cu, compiled in its place where BUILD_TESTING is on.
#include "../peak.cu"

#include <doctest/doctest.h>

#include "../../common/checks/made_up_devices.hpp"
#include "../../common/checks/plausible.hpp"

namespace {

/// What a thread takes in load k, said again from the kernels' comment.
size_t vector_of(size_t block, unsigned threads, unsigned thread, int loads, int k) {
  return (block * loads + k) * threads + thread;
}

}  // namespace

TEST_CASE("peak: the blocks of every launch take every vector once, and its reader is known") {
  for (const Launch how : candidates)
    for (const size_t n : {1, 127, 1009, 8192, 100003}) {
      std::vector<int> taken(n + how.loads * how.threads, 0);
      for (unsigned block = 0; block < how.blocks(n); ++block)
        for (unsigned thread = 0; thread < how.threads; ++thread)
          for (int k = 0; k < how.loads; ++k) {
            const size_t i = vector_of(block, how.threads, thread, how.loads, k);
            ++taken.at(i);
            CHECK(reader_of(i, how.loads, how.threads) == size_t(block) * how.threads + thread);
          }
      CHECK(std::count(taken.begin(), taken.begin() + long(n), 1) == long(n));
    }
}

TEST_CASE("peak: vectors and numbers beyond 2^32 keep their places") {
  for (const size_t vector : {(1ull << 30) + 3, (1ull << 32) + 3}) {  // numbers 2^32 + 12, ...
    const float4 v = written_vector(vector);
    const float numbers[] = {v.x, v.y, v.z, v.w};
    for (unsigned k = 0; k < 4; ++k) {
      CHECK(numbers[k] == written_at(4ull * vector + k));
      CHECK(numbers[k] != written_at(12 + k));  // which it would be if its number lost 32 bits
    }
  }
  for (const Launch how : candidates) {
    const size_t n = vectors_of(300000);  // arrays of 335 GiB
    CHECK(double(how.blocks(n)) * how.loads * how.threads >= double(n));
    CHECK((double(how.blocks(n)) - 1) * how.loads * how.threads < double(n));
    const size_t last = vector_of(how.blocks(n) - 1, how.threads, 0, how.loads, 0);
    CHECK(last < n);
    CHECK(last + size_t(how.loads) * how.threads >= n);
    CHECK(reader_of(last, how.loads, how.threads) == size_t(how.blocks(n) - 1) * how.threads);
  }
  CHECK(vectors_of(66000) == 1089000000);
  CHECK(vectors_of(3) == 3);
}

TEST_CASE("peak: bytes that count, and predictions, by hand") {
  const double arrays[] = {2, 1, 2, 2, 3, 3, 1, 1};
  const double ms[] = {20, 9, 20, 20, 29, 29, 9, 9};  // a pair takes 20, an array alone 9
  for (size_t o = 0; o < operation_count; ++o) {
    CHECK(bytes_moved(operations[o], 10) == 160 * arrays[o]);
    CHECK(predicted_ms(operations[o], {20, 9}) == ms[o]);
  }
}

TEST_CASE("peak: arrays fit made-up GPUs, beyond the L2") {
  check_on_made_up_devices([](const Run& run) {
    const std::vector<size_t> sides = sides_of(run, 0);
    return Needs{Arrays::bytes(vectors_of(sides.back())), 16.0 * double(vectors_of(sides[0]))};
  });
}

TEST_CASE("peak: sizes of made-up devices") {
  std::string printed;
  Report report("peak", &printed);
  Device device;
  device.number = -1;
  device.prop.l2CacheSize = 60 << 20;
  device.prop.totalGlobalMem = size_t(80) << 30;
  Run run{report, &device, {}};
  CHECK(sides_of(run, 0) == std::vector<size_t>{16384, 32768});
  CHECK(sides_of(run, 1000) == std::vector<size_t>{1000});
  run.quick = true;
  CHECK(sides_of(run, 0) == std::vector<size_t>{8192});
  device.prop.l2CacheSize = 126 << 20;
  CHECK(sides_of(run, 0) == std::vector<size_t>{16384});
  run.quick = false;
  device.prop.totalGlobalMem = size_t(8) << 30;
  CHECK(sides_of(run, 0) == std::vector<size_t>{16384});
  device.prop.totalGlobalMem = size_t(2) << 30;
  CHECK(sides_of(run, 0) == std::vector<size_t>{8192});
  CHECK_THROWS_AS(sides_of(run, 66000), UsageError);
}

TEST_CASE("peak: every kernel is right at awkward sizes and touches nothing beyond") {
  if (skip_without_gpu()) return;
  for (const size_t n : {1, 31, 257, 1009, 65537}) {
    Arrays arrays(n);
    for (const Operation& o : operations)
      for (const Launch how : candidates) {
        CAPTURE(std::string(o.name));
        CAPTURE(how.text());
        CAPTURE(n);
        const Task task = arrays.task(o, how);
        task.check.poison();
        task.launch();
        CUDA_CHECK_LAUNCH();
        const std::vector<float> floats = arrays.out.to_host();
        CHECK(task.check.wrong() == 0);

        std::vector<unsigned> found(floats.size());
        memcpy(found.data(), floats.data(), floats.size() * sizeof(float));
        std::vector<unsigned> right(found.size(), ~0u);  // poisoned where nothing is written
        if (o.result == Result::summed) {                // thread by thread, from its vectors
          for (unsigned block = 0; block < how.blocks(n); ++block)
            for (unsigned thread = 0; thread < how.threads; ++thread) {
              unsigned sum = 0;
              for (int k = 0; k < how.loads; ++k) {
                const size_t i = vector_of(block, how.threads, thread, how.loads, k);
                for (size_t number = 4 * i; i < n && number < 4 * i + 4; ++number)
                  sum += right_bits(Result::copied, number);
              }
              const size_t t = size_t(block) * how.threads + thread;
              if (t < readers(n, how.loads, how.threads)) right.at(t) = sum;
            }
        } else {
          for (size_t i = 0; i < 4 * n; ++i) right[i] = right_bits(o.result, i);
        }
        CHECK(found == right);
      }
  }
}

TEST_CASE("peak: an array counts as read or written if the result hangs on it everywhere") {
  if (skip_without_gpu()) return;
  const size_t n = 1009;
  for (const Operation& o : operations) {
    CAPTURE(std::string(o.name));
    const Launch how{1, 128};
    Arrays arrays(n);
    const Task task = arrays.task(o, how);
    const size_t all = o.result == Result::summed ? n : 4 * n;
    REQUIRE(wrong_after(task) == 0);
    int reads = 0;
    for (DeviceBuffer<float>* input : {&arrays.a, &arrays.b}) {
      const std::vector<float> before = input->to_host();
      input->poison();
      const size_t wrong = wrong_after(task);
      CHECK((wrong == 0 || wrong == all));
      reads += wrong == all;
      input->copy_from(before);
    }
    CHECK(o.reads == reads);
    task.check.poison();
    CHECK(task.check.wrong() == all);  // what nobody wrote
    arrays.out.poison();
    task.launch();  // as it is timed
    const std::vector<float> out = arrays.out.to_host();
    const long written = std::count_if(out.begin(), out.end(), [](float x) { return x == x; });
    CHECK(written == (o.writes ? long(4 * n) : 0));
  }
}

TEST_CASE("peak: more than 2^32 floats an array" * doctest::test_suite("large")) {
  if (skip_without_gpu()) return;
  const size_t n = (size_t(1) << 30) + 77;
  if (Arrays::bytes(n) > 0.9 * double(Device::free_bytes()))
    return skip_self_check("needs " + bytes_text(Arrays::bytes(n)) + " of device memory");
  Arrays arrays(n);
  for (const Operation& o : operations)
    for (const Launch how : {Launch{1, 128}, Launch{8, 256}}) {
      CAPTURE(std::string(o.name));
      CAPTURE(how.text());
      CHECK(wrong_after(arrays.task(o, how)) == 0);
    }
}

TEST_CASE("peak: measured rows lie where its models predict them" *
          doctest::test_suite("plausible") * doctest::skip()) {
  const Options by_default;
  check_plausible([&](const Run& run) { peak(run, by_default); });
}
