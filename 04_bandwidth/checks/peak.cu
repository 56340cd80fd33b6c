// Self-checks of peak.cu, compiled in its place where BUILD_TESTING is on.
#include "../peak.cu"

#include "../../framework/common/checks/standard.hpp"

namespace {

const Operation& operation(const char* key) { return *with_key(operations, key); }

/// The thread that has to read vector i: from vectors to threads, where the kernels go from threads
/// to vectors.
size_t reader_of(size_t i, Launch how) {
  return i / (size_t(how.loads) * how.threads) * how.threads + i % how.threads;
}

}  // namespace

TEST_CASE("peak: each thread must find the sum of its vectors, and each vector has a reader") {
  for (const Launch how : launches)
    for (const size_t n : {1, 127, 1009, 8192, 100003}) {
      const size_t threads = size_t(how.blocks(n)) * how.threads;
      std::vector<unsigned> sums(threads, 0);
      std::vector<bool> reads(threads, false);
      for (size_t i = 0; i < n; ++i) {
        const size_t reader = reader_of(i, how);
        REQUIRE(reader < threads);
        reads[reader] = true;
        for (unsigned w = 0; w < 4; ++w) sums[reader] += bits_of(a_at(4 * i + w));
      }
      for (size_t t = 0; t < threads; ++t)
        CHECK(right_sum(t, how, n) == (reads[t] ? sums[t] : untouched));
    }
}

TEST_CASE("peak: what each operation writes, by hand") {
  for (const size_t i : {size_t(0), size_t(1009), (size_t(1) << 32) + 12}) {
    const float a = a_at(i), b = b_at(i);
    CHECK(right_word(operation("copy_engine").result, i) == bits_of(a));
    CHECK(right_word(operation("memset").result, i) == 0x5a5a5a5a);
    CHECK(right_word(operation("copy").result, i) == bits_of(a));
    CHECK(right_word(operation("scale").result, i) == bits_of(3 * a));
    CHECK(right_word(operation("add").result, i) == bits_of(a + b));
    CHECK(right_word(operation("triad").result, i) == bits_of(std::fmaf(b, 3, a)));
    CHECK(right_word(operation("write").result, i) == bits_of(written_at(i)));
    const float numbers[] = {a, b, written_at(i), a_at(i % 4096)};  // the last: other words of a
    for (const float x : numbers) CHECK((x >= 1 && x < 2));
    if (i >= 4096) CHECK(a != numbers[3]);  // which it would be if its index lost 32 bits
  }
  const float4 v = written_vector((size_t(1) << 30) + 3);  // words 2^32 + 12 and on
  CHECK(v.x == written_at((size_t(1) << 32) + 12));
  CHECK(v.w == written_at((size_t(1) << 32) + 15));
}

TEST_CASE("peak: bytes, predictions and what the L2 may hold, by hand") {
  struct Row {
    const char* key;
    double arrays, ms, in_l2;  ///< of ten vectors; a pair takes 20 ms, an array alone 9
  };
  // an L2 of 40 bytes: a quarter of an array
  const Row rows[] = {{"copy_engine", 2, 20, 1 / 8.},
                      {"memset", 1, 9, 1 / 4.},
                      {"copy", 2, 20, 1 / 8.},
                      {"scale", 2, 20, 1 / 8.},
                      {"add", 3, 29, 1 / 12.},
                      {"triad", 3, 29, 1 / 12.},
                      {"read", 1, 9, 0},
                      {"write", 1, 9, 1 / 4.}};
  REQUIRE(std::size(rows) == std::size(operations));
  for (const Row& row : rows) {
    CAPTURE(std::string(row.key));
    const Operation& o = operation(row.key);
    CHECK(o.bytes(10) == 160 * row.arrays);
    CHECK(predicted_ms(o, {.pair = 20, .alone = 9}) == row.ms);
    CHECK(share_in_l2(o, 10, 40) == doctest::Approx(row.in_l2));
  }
  CHECK(share_in_l2(operation("write"), 10, 1000) == 1);  // all of it
  CHECK(share_in_l2(operation("copy"), 10, 1000) == 0.5);
}

TEST_CASE("peak: the launch that takes least time is the one that is measured again") {
  std::string printed;
  Report report("peak", &printed);
  Device device;
  device.number = -1;
  device.prop.totalGlobalMem = size_t(64) << 30;
  device.prop.l2CacheSize = 60 << 20;
  report.heading(&device, "");
  MadeUpMachine machine(&device, [](const Ref& ref, const std::string&) {
    return ref.key == "copy_8x128" ? 0.9 : ref.key == "write_1x1024" ? 0.8 : 1.0;
  });
  carry_out(peak_experiment, Run{report, &device, {}}, machine);
  CHECK(printed.find("copy, 8x128 ") != std::string::npos);
  CHECK(printed.find("write, 1x1024 ") != std::string::npos);
  for (const Record& r : report.records())
    if (r.kind == "ratio")
      CHECK(r.name + ": " + r.metric == "copy_engine: time over that of copy at " + r.at);
}

TEST_CASE("peak: an array counts as read or written if the result depends on it everywhere") {
  if (skip_without_gpu()) return;
  const size_t n = 1009;
  for (const Operation& o : operations) {
    CAPTURE(std::string(o.key));
    const Shared x(Arrays{n});
    const Task task = task_of(x, tried(o), o);
    const size_t all = o.result == Result::summed ? n : 4 * n;  // with one load per thread
    REQUIRE(wrong_after(task) == 0);
    int reads = 0;
    for (DeviceBuffer<float>* input : {&x->a, &x->b}) {
      const std::vector<float> before = input->to_host();
      input->poison();
      const size_t wrong = wrong_after(task);
      CHECK((wrong == 0 || wrong == all));
      reads += wrong == all;
      input->copy_from(before);
    }
    CHECK(o.reads == reads);
    x->out.poison();
    task.launch();  // as it is timed
    const std::vector<unsigned> out = x->out.to_host();
    const auto written = out.size() - size_t(std::count(out.begin(), out.end(), untouched));
    CHECK(written == (o.writes ? 4 * n : 0));
  }
}

TEST_CASE("peak: more than 2^32 floats per array" * doctest::test_suite("large")) {
  if (skip_without_gpu()) return;
  const size_t n = (size_t(1) << 30) + 77;
  if (Arrays::bytes(n) > 0.9 * double(Device::free_bytes()))
    return skip_self_check("needs " + bytes_text(Arrays::bytes(n)) + " of device memory");
  const Shared x(Arrays{n});
  for (Operation o : operations)
    for (const Launch how : {Launch{1, 128}, Launch{8, 256}}) {
      o.how = how;
      CAPTURE(std::string(o.key));
      CAPTURE(how.text());
      CHECK(wrong_after(task_of(x, tried(o), o)) == 0);
    }
}

EXPERIMENT_CHECKS(peak)
