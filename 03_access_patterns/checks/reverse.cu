// Self-checks of reverse.cu, compiled in its place where BUILD_TESTING is on.
#include "../reverse.cu"

#include "../../framework/common/checks/standard.hpp"

namespace {

const Kernel& kernel(const char* key) { return *with_key(kernels, key); }

}  // namespace

TEST_CASE("reverse: the order of lanes cost sixteenfold on a G80, and costs nothing now") {
  CHECK(transactions_on_g80(kernel("copy_global")) == 2);  // one for each half-warp
  CHECK(transactions_on_g80(kernel("reverse_shared")) == 2);
  CHECK(transactions_on_g80(kernel("reverse_global")) == 32);                   // each lane its own
  CHECK(under(Rule::any_order, store(kernel("reverse_global"))).count() == 2);  // from 1.2 on
  for (const Kernel& k : kernels) {
    CHECK(load_sectors(k) == 4);
    CHECK(store_sectors(k) == 4);
  }
}

TEST_CASE("reverse: what decides each part") {
  const auto verdict = [](const char* part, double global_ms, double shared_ms) {
    return verdict_if(reverse_experiment, part,
                      {{"reverse_global", global_ms}, {"reverse_shared", shared_ms}});
  };
  CHECK(verdict("03.6", 2, 1) == verdict_text(Verdict::holds));
  CHECK(verdict("03.6", 1, 2) == verdict_text(Verdict::no_longer));
  // the text says "in some cases": one case that does otherwise refutes nothing
  CHECK(verdict("03.15", 2, 1) == verdict_text(Verdict::holds));
  CHECK(verdict("03.15", 1, 2) == verdict_text(Verdict::not_judged));
  CHECK(kernel("reverse_shared").operations > kernel("reverse_global").operations);
}

TEST_CASE("reverse: the array is that of a reversal on the host") {
  if (skip_without_gpu()) return;
  for (const size_t n : {1, 2, 31, 255, 256, 257, 511, 1009}) {
    std::vector<unsigned> forth(n);
    for (size_t i = 0; i < n; ++i) forth[i] = scrambled(i);
    const std::vector<unsigned> back(forth.rbegin(), forth.rend());
    const Shared words(Words{n});
    for (const Kernel& k : kernels) {
      CAPTURE(n);
      CAPTURE(std::string(k.key));
      CHECK(wrong_after(task_of(words, k)) == 0);
      CHECK(words->out.to_host() == (k.key == "copy_global" ? forth : back));
    }
  }
}

TEST_CASE("reverse: more than 2^32 words" * doctest::test_suite("large")) {
  if (skip_without_gpu()) return;
  constexpr size_t n = (size_t(1) << 32) + 77;
  if (Words::bytes_each * double(n) > 0.9 * double(Device::free_bytes()))
    return skip_self_check("needs " + bytes_text(Words::bytes_each * double(n)) + " of memory");
  const Shared words(Words{n});
  for (const Kernel& k : kernels) {
    CAPTURE(std::string(k.key));
    CHECK(wrong_after(task_of(words, k)) == 0);
  }
}

EXPERIMENT_CHECKS(reverse)
