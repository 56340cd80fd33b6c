// Self-checks of structs.cu, compiled in its place where BUILD_TESTING is on.
#include "../structs.cu"

#include "../../framework/common/checks/standard.hpp"

namespace {

const Kernel& kernel(const char* key) { return *with_key(kernels, key); }

/// What the text and a drawing say of a kernel: percent, and bytes per pair.
struct ByHand {
  const char* key;
  double efficient, moved, used;
  double ms;  ///< if the copy takes 16 ms and increment_arrays_x 10
};
const ByHand by_hand[] = {
    {"increment_pairs", 50, 16, 16, 16},    {"increment_arrays", 100, 16, 16, 16},
    {"increment_aligned", 100, 16, 16, 16}, {"increment_pairs_x", 50, 24, 8, 24},
    {"increment_arrays_x", 100, 8, 8, 10},  {"increment_aligned_x", 50, 24, 8, 24},
    {"read_pairs_x", 50, 8, 4, 8},          {"read_arrays_x", 100, 4, 4, 4},
};

}  // namespace

TEST_CASE("structs: efficiencies of the text, bytes and predictions by hand") {
  REQUIRE(std::size(by_hand) == std::size(kernels));
  for (const ByHand& each : by_hand) {
    CAPTURE(std::string(each.key));
    const Kernel& k = kernel(each.key);
    CHECK(efficiency(k) == each.efficient);
    CHECK(bytes_moved_per_pair(k) == each.moved);
    CHECK(bytes_used(k, 1000) == 1000 * each.used);
    CHECK(writes_in_part(k) == (each.moved == 24));
    CHECK(predicted_ms(k, {16, 10}) == each.ms);
    if (std::isfinite(k.then_efficient)) CHECK(efficiency(k) == efficiency_then(k));
  }
  // y lies in the sectors that the access to x has fetched
  const std::vector<Warp> both = accesses(kernel("increment_pairs"));
  CHECK(segments(both[0], 32) == segments(both[1], 32));
}

TEST_CASE("structs: what decides each part") {
  const auto x_alone = [](double pairs_ms, double arrays_ms) {
    return verdict_if(structs_experiment, "03.13",
                      {{"read_pairs_x", pairs_ms}, {"read_arrays_x", arrays_ms}});
  };
  CHECK(x_alone(2, 1) == verdict_text(Verdict::holds));
  CHECK(x_alone(1, 2) == verdict_text(Verdict::does_not_hold));

  const std::string loads = expected_sectors(true, 0).metric;
  const std::string stores = expected_sectors(false, 0).metric;
  const double least = counted_pairs * 8 / 32;  // sectors that hold all pairs
  const auto counted_as = [&](const char* part, const char* key, double load, double store) {
    return verdict_if(structs_experiment, part,
                      {{key, least * load, loads}, {key, least * store, stores}});
  };
  const std::string holds = verdict_text(Verdict::holds);
  const auto decided_by_both = [&](const char* part, const char* key, double right) {
    CAPTURE(std::string(part));
    CHECK(counted_as(part, key, right, right) == holds);
    CHECK(counted_as(part, key, 2 * right, right) != holds);
    CHECK(counted_as(part, key, right, 2 * right) != holds);
  };
  decided_by_both("03.4a", "increment_pairs", 2);
  decided_by_both("03.4b", "increment_arrays", 1);
  decided_by_both("03.4c", "increment_aligned", 1);
}

TEST_CASE("structs: a field counts as used if the result depends on it") {
  if (skip_without_gpu()) return;
  constexpr size_t n = 1009;
  const Shared pairs(Pairs{n});
  for (const Kernel& k : kernels) {
    if (!k.increment) continue;
    CAPTURE(std::string(k.key));
    const Incremented right = pairs->right(k);
    size_t words = 0;  // read and written
    for (const bool y : {false, true}) {
      std::vector<float> in(2 * n);
      for (size_t word = 0; word < in.size(); ++word)
        in[word] = right.is_y(word) == y ? NAN : Input{}(word);
      pairs->in.copy_from(in);
      pairs->out.poison();
      k.increment(pairs->buffers());
      const size_t wrong = pairs->out.wrong(right);
      CHECK((wrong == 0 || wrong == n));
      words += wrong;
    }
    pairs->in = filled<float>(2 * n, Input{});
    pairs->out.poison();
    k.increment(pairs->buffers());
    for (const float found : pairs->out.to_host()) words += found == found;
    CHECK(bytes_used(k, n) == 4.0 * double(words));
  }
}

// From the text: pair after pair, threads take turns; x comes first, or all x come first.
TEST_CASE("structs: each thread has the sum of its x") {
  if (skip_without_gpu()) return;
  for (const size_t n : {size_t(1), size_t(1009), size_t(65537)})
    for (const char* key : {"read_pairs_x", "read_arrays_x"}) {
      CAPTURE(n);
      CAPTURE(std::string(key));
      const Shared words(Words(2 * n, Grid{3}));
      CHECK(wrong_after(read_task(words, kernel(key))) == 0);
      std::vector<unsigned> found = words->sums.to_host(), sums(words->grid.threads(), 0);
      found.resize(sums.size());
      for (size_t pair = 0; pair < n; ++pair)
        sums[pair % sums.size()] += word_at(key == std::string("read_pairs_x") ? 2 * pair : pair);
      CHECK(found == sums);
    }
}

TEST_CASE("structs: more than 2^32 words" * doctest::test_suite("large")) {
  if (skip_without_gpu()) return;
  constexpr size_t n = (size_t(1) << 31) + 77;
  if (Pairs::bytes_each * double(n) > 0.9 * double(Device::free_bytes()))
    return skip_self_check("needs " + bytes_text(Pairs::bytes_each * double(n)) + " of memory");
  SharedByTasks pairs([n] { return Pairs{n}; });
  SharedByTasks words([n] { return Words(2 * n, resident_grid(Device::current())); });
  for (const Kernel& k : kernels) {
    CAPTURE(std::string(k.key));
    CHECK(wrong_after(k.increment ? increment_task(pairs(), k) : read_task(words(), k)) == 0);
  }
}

EXPERIMENT_CHECKS(structs)
