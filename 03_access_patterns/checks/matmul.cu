// Self-checks of matmul.cu, compiled in its place where BUILD_TESTING is on.
#include "../matmul.cu"

#include "../../framework/common/checks/made_up_devices.hpp"
#include "../../framework/common/checks/standard.hpp"

namespace {

const Variant& variant(const char* key) { return *with_key(variants, key); }

/// 4 multiprocessors, each for 512 threads; a cycle is a microsecond.
Device small_device() {
  Device device;
  device.number = -1;
  device.sm_clock_khz = 1000;
  device.prop.major = 9;
  device.prop.multiProcessorCount = 4;
  device.prop.maxThreadsPerMultiProcessor = 512;
  device.prop.maxBlocksPerMultiProcessor = 32;
  return device;
}

}  // namespace

// The guide's loops, in float, are the reference: what they leave is what the kernels are compared
// with.
TEST_CASE("matmul: the guide's loops agree with what counts as right") {
  for (const unsigned n : {1u, 2u, 31u, 100u})
    for (const char* key : on_host) {
      CAPTURE(n);
      CAPTURE(std::string(key));
      const Shared m(HostMatrices{n, n});
      CHECK(wrong_after(host_task(m, Ref(key, n))) == 0);
      m->c.back() += 1;
      CHECK(m->wrong() == 1);
    }
}

TEST_CASE("matmul: a product by hand, and matrices that differ") {
  const float a[] = {1, 2, 3, 4}, b[] = {5, 6, 7, 8}, bt[] = {5, 7, 6, 8};
  float c[4];
  host_multiply(2, 2, a, b, c);
  CHECK(std::vector<float>(c, c + 4) == std::vector<float>{19, 22, 43, 50});
  host_multiply_transposed(2, 1, a, bt, c + 2);  // one row
  CHECK(std::vector<float>(c, c + 4) == std::vector<float>{19, 22, 19, 22});
  const HostMatrices m{33, 33};
  CHECK(m.a != m.b);
  CHECK(m.b != m.bt);
  for (unsigned row = 0; row < 33; ++row)
    for (unsigned col = 0; col < 33; ++col) CHECK(m.bt[col * 33 + row] == m.b[row * 33 + col]);
}

TEST_CASE("matmul: each of the host's loops reads its own B") {
  const auto is_right = [](const Shared<HostMatrices>& m, const char* key) {
    return wrong_after(host_task(m, Ref(key, 33))) == 0;
  };
  const Shared no_b(HostMatrices{33, 33}), no_bt(HostMatrices{33, 33});
  no_b->b = no_b->a;
  CHECK_FALSE(is_right(no_b, "host_multiply"));
  CHECK(is_right(no_b, "host_multiply_transposed"));
  no_bt->bt = no_bt->a;
  CHECK(is_right(no_bt, "host_multiply"));
  CHECK_FALSE(is_right(no_bt, "host_multiply_transposed"));
}

namespace {

/// What a drawing says of a step: sectors of A and of B, lines of both, transactions on 1.0.
struct ByHand {
  const char* key;
  int of_a, of_b, lines, then;
};
const ByHand by_hand[] = {
    {"multiply", 1, 4, 2, 2},
    {"multiply_transposed", 1, 32, 33, 32},
    {"transpose_and_multiply", 1, 32, 33, 32},
    {"multiply_by_warps", 4, 32, 33, 32},
    {"multiply_by_warps_transposed", 4, 4, 2, 2},
};

}  // namespace

TEST_CASE("matmul: what a warp reads of A and B") {
  REQUIRE(std::size(by_hand) == std::size(variants));
  for (const ByHand& each : by_hand)
    for (const unsigned n : {256u, 512u, 1024u}) {
      CAPTURE(std::string(each.key));
      const Variant& v = variant(each.key);
      CHECK(sectors(load_of_a(v)) == each.of_a);
      CHECK(sectors(load_of_b(v, n)) == each.of_b);
      CHECK(sectors_per_request(v, n) == (each.of_a + each.of_b) / 2.0);
      CHECK(lookups(v, n) == each.lines);
      CHECK(under(Rule::in_order, load_of_b(v, n)).count() == each.then);
    }
}

TEST_CASE("matmul: no two rows do the same work") {
  for (const Variant& a : variants)
    for (const Variant& b : variants) {
      if (&a == &b) continue;
      CHECK(a.key != b.key);
      CHECK((a.kernel != b.kernel || a.transposes_first != b.transposes_first));
    }
}

TEST_CASE("matmul: blocks of made-up GPUs") {
  for (const Device& device : made_up_devices())
    for (const Variant& v : variants)
      for (const unsigned n : {256u, 512u, 1024u}) {
        CAPTURE(std::string(device.prop.name));
        CAPTURE(n);
        const Blocks blocks = blocks_of(v, n, device.prop);
        CHECK(blocks.resident >= 1);
        CHECK(blocks.all * device.prop.multiProcessorCount >= n);
        CHECK(blocks.resident * v.threads(n) <= device.prop.maxThreadsPerMultiProcessor);
        CHECK(std::isnan(cycles_per_ms(device)) == (device.sm_clock_khz == 0));
      }
}

TEST_CASE("matmul: predictions, by hand") {
  Device gpu = small_device();
  const auto ms = [&](const char* key, unsigned n) {
    return predicted_ms(variant(key), n, 72, gpu);
  };
  // n 64: 16 blocks of 2 warps on each, 8 at once: two rounds of 16 times 16 x 4 x 2 + 72 cycles
  CHECK(ms("multiply", 64) == doctest::Approx(2 * 16 * 0.200));
  CHECK(latency_of(6.4, 64, gpu) == doctest::Approx(72));
  // 16 x 4 x 33 + 72 cycles; the transposition's 16 x 2 warps take 36 cycles each, and one latency
  CHECK(ms("multiply_transposed", 64) == doctest::Approx(2 * 16 * 2.184));
  CHECK(ms("transpose_and_multiply", 64) == doctest::Approx(2 * 16 * 2.184 + 32 * 0.036 + 0.072));
  // two blocks of 8 warps at once, 8 rounds of 8 elements: four steps, and 5 shuffles of 16 warps
  CHECK(ms("multiply_by_warps_transposed", 64) ==
        doctest::Approx(8 * 8 * (0.200 + 5 * (0.025 + 0.016))));
  // n 72: 18 blocks of 3 warps on each, 5 at once: three rounds and one of 3
  const double round = 18 * (15 * 4 * 2 + 72), rest = 18 * (9 * 4 * 2 + 72);
  CHECK(ms("multiply", 72) == doctest::Approx((3 * round + rest) / 1000));
  CHECK(model_of(variant("multiply"), 64, &gpu) == Model::latency);
  CHECK(model_of(variant("multiply_transposed"), 64, &gpu) == Model::traffic);
  gpu.prop.major = 8;
  CHECK(model_of(variant("multiply_transposed"), 64, &gpu) == Model::host);
  gpu.sm_clock_khz = 0;
  CHECK(std::isnan(ms("multiply", 64)));
}

TEST_CASE("matmul: what decides each part") {
  const auto verdict = [](double direct, double cured) {
    return verdict_if(matmul_experiment, "03.8",
                      {{{"multiply", 1024}, direct}, {{"multiply_transposed", 1024}, cured}});
  };
  CHECK(verdict(1.3, 1) == verdict_text(Verdict::holds));
  CHECK(verdict(1, 1.3) == verdict_text(Verdict::does_not_hold));
}

TEST_CASE("matmul: the check finds a wrong word of the transposed B") {
  if (skip_without_gpu()) return;
  const Shared m(Matrices{40});
  const Task task = task_of(m, variant("transpose_and_multiply"));
  REQUIRE(wrong_after(task) == 0);
  m->made_bt.change(7);
  CHECK(task.check.wrong() == 1);
}

EXPERIMENT_CHECKS(matmul)
