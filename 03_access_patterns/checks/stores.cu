// Self-checks of stores.cu, compiled in its place where BUILD_TESTING is on.
#include "../stores.cu"

#include "../../framework/common/checks/standard.hpp"

namespace {

const std::string holds_text = verdict_text(Verdict::holds);
const std::string no_longer_text = verdict_text(Verdict::no_longer);

}  // namespace

TEST_CASE("stores: sectors and predictions, by hand") {
  const Calibrated c{.read = 8, .write = 4};
  const double reads[] = {8, 8, 8, 8, 8, 4};
  const double writes[] = {4, 12, 12, 12, 10, 9};
  for (size_t i = 0; i < std::size(strides); ++i) {
    CHECK(sectors(warp_at(strides[i])) == int(std::min(4 * strides[i], 32u)));
    CHECK(predicted_ms({false, strides[i]}, c) == reads[i]);
    CHECK(predicted_ms({true, strides[i]}, c) == writes[i]);
  }
  CHECK(Access{true, 8}.words(1025) == 129);
  CHECK(Access{true, 1}.blocks(2049) == 2);
}

TEST_CASE("stores: what decides each part of the strided rows") {
  const auto verdict = [](const char* part, double lone_ms, double dense_ms) {
    return verdict_if(stores_experiment, part,
                      {{{"write_strided", 8}, lone_ms}, {{"write_strided", 1}, dense_ms}});
  };
  // an eighth of the words: a word takes as long if all of them take an eighth of the time
  CHECK(verdict("03.10a", 2, 8) == holds_text);
  CHECK(verdict("03.10a", 0.5, 8) == verdict_text(Verdict::does_not_hold));
  CHECK(verdict("03.10a", 1, 8) == verdict_text(Verdict::does_not_hold));  // as long
  CHECK(verdict("03.10b", 1, 20) == holds_text);                           // 2^28 words: 54 GB/s
  CHECK(verdict("03.10b", 1, 200) == no_longer_text);
}

TEST_CASE("stores: what decides 03.18: a load after a store, beside one after a load") {
  const auto verdict = [](double nothing, double load, double store) {
    return verdict_if(stores_experiment, "03.18",
                      {{"after_nothing", nothing, "latency"},
                       {"after_load", load, "latency"},
                       {"after_store", store, "latency"},
                       {"after_both", load, "latency"}});
  };
  CHECK(verdict(300, 50, 300) == holds_text);  // from L2, as on Fermi
  CHECK(verdict(300, 50, 50) == no_longer_text);
  CHECK(verdict(300, 300, 300) == verdict_text(Verdict::not_judged));  // loads are not kept
}

TEST_CASE("stores: what decides 03.14") {
  const std::string requests = expected_requests(false, 0).metric;
  const std::string sectors = expected_sectors(false, 0).metric;
  const auto verdict = [&](const char* part, std::vector<double> counted, double of_requests) {
    std::vector<Given> given;
    size_t i = 0;
    for (const char* key : {"store_one", "store_two", "store_four", "store_three_apart"}) {
      given.push_back({key, of_requests, requests});
      given.push_back({key, counted[i++], sectors});
    }
    return verdict_if(stores_experiment, part, given);
  };
  const std::string does_not = verdict_text(Verdict::does_not_hold);
  for (const char* part : {"03.14a", "03.14b"}) {
    CHECK(verdict(part, {1000, 2000, 4000, 3000}, 1000) == holds_text);
    CHECK(verdict(part, {1000, 2000, 4000, 3000}, 2000) == does_not);
  }
  CHECK(verdict("03.14a", {2000, 2000, 4000, 3000}, 1000) == does_not);
  CHECK(verdict("03.14a", {1000, 4000, 4000, 3000}, 1000) == does_not);
  CHECK(verdict("03.14a", {1000, 2000, 8000, 3000}, 1000) == does_not);
  CHECK(verdict("03.14b", {1000, 2000, 4000, 6000}, 1000) == does_not);
}

// From the text: every stride-th word, 8 x 256 of them for each block, threads take turns.
TEST_CASE("stores: each thread has the sum of its words, and writes them") {
  if (skip_without_gpu()) return;
  for (const size_t n : {1, 31, 1025, 100003})
    for (const unsigned stride : {1u, 2u, 7u, 8u, 32u, 33u}) {
      CAPTURE(n);
      CAPTURE(stride);
      const Shared array(Array{n});
      CHECK(wrong_after(task_of(array, {false, stride})) == 0);
      std::vector<unsigned> sums(array->readers({false, stride}), 0);
      for (size_t i = 0, word = 0; i < n; i += stride, ++word)
        sums[word / 2048 * 256 + word % 256] += stored_word(i);
      std::vector<unsigned> found = array->sums.to_host();
      found.resize(sums.size());
      CHECK(found == sums);

      CHECK(wrong_after(task_of(array, {true, stride})) == 0);
      std::vector<unsigned> written(n, ~0u);
      for (size_t i = 0; i < n; i += stride) written[i] = stored_word(i);
      CHECK(array->array.to_host() == written);
    }
}

EXPERIMENT_CHECKS(stores)
