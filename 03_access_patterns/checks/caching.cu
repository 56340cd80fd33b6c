// Self-checks of caching.cu, compiled in its place where BUILD_TESTING is on.
#include "../caching.cu"

#include "../../framework/common/checks/standard.hpp"

TEST_CASE("caching: the old rules moved lines through L1 and segments past it") {
  const unsigned through[] = {128, 256, 32 * 128}, past[] = {128, 160, 32 * 32};
  const int today[] = {4, 5, 32};
  const double arrive[] = {128, 160, 2048}, ms[] = {4, 5, 2};
  for (size_t i = 0; i < std::size(places); ++i) {
    const Warp warp = warp_at(places[i]);
    CHECK(under(Rule::through_l1, warp).bytes() == through[i]);
    CHECK(under(Rule::past_l1, warp).bytes() == past[i]);
    CHECK(sectors(warp) == today[i]);
    CHECK(bytes_per_request(places[i]) == arrive[i]);
    CHECK(predicted_ms(places[i], 4) == ms[i]);
  }
  CHECK(places[2].count(33) == 2);
}

TEST_CASE("caching: each kind of load has its rule of old, and L1 keeps what went through it") {
  const std::vector<Load> loads = all_loads();
  const LoadKernels kernels[] = {
      {read_ca, chase_ca}, {read_cg, chase_cg}, {read_plain, chase_plain}};
  const char* const keys[] = {"ca", "cg", "plain"};
  for (size_t i = 0; i < std::size(keys); ++i) {
    CHECK(std::string(loads[i].key) == keys[i]);
    CHECK((loads[i].kernels.read == kernels[i].read));
    CHECK((loads[i].kernels.chase == kernels[i].chase));
  }
  for (const Load& load : loads) {
    CAPTURE(std::string(load.key));
    const bool past = load.key == std::string("cg") || load.key == std::string("by_flag");
    CHECK(load.in_l1 == !past);
    CHECK(load.old_rule == (past ? Rule::past_l1 : Rule::through_l1));
    for (const Second& second : seconds)
      CHECK(hits(load, second) == (!past && second.key == std::string("same_sector")));
  }
}

TEST_CASE("caching: a chain visits each line and the second word once, and ends") {
  for (const Second& second : seconds) {
    CAPTURE(second.word);
    const std::vector<unsigned> next = chain(second.word);
    std::vector<int> visits(next.size(), 0);
    unsigned at = 0;
    for (unsigned step = 0; step < chased_lines * (second.word ? 2 : 1); ++step) {
      ++visits.at(at);
      at = next.at(at);
    }
    CHECK(at == chain_end);
    for (size_t word = 0; word < next.size(); ++word)
      CHECK(visits[word] == (word % 32 == 0 || (second.word && word % 32 == second.word) ? 1 : 0));
  }
  CHECK(chain_end >= chased_lines * 32);  // no word of the chain
  // sectors of 8 words: which of the line's four the second word is in
  const unsigned sector[] = {0, 0, 1, 3};
  for (size_t i = 0; i < std::size(seconds); ++i) CHECK(seconds[i].word / 8 == sector[i]);
  CHECK(without({{{300, 310}}}, {{{280, 285}}}).ms == std::vector<double>{20, 25});
}

TEST_CASE("caching: what decides 03.11") {
  const auto verdict = [](double miss, double same_sector, double next_over_same) {
    return verdict_if(caching_experiment, "03.11",
                      {{"chase_ca_new_line", miss, latency},
                       {"chase_ca_same_sector", same_sector, latency},
                       {"chase_ca_next_sector", next_over_same, of_same_sector}});
  };
  CHECK(verdict(289, 44, 6.4) == verdict_text(Verdict::holds));
  CHECK(verdict(289, 44, 1) == verdict_text(Verdict::does_not_hold));  // a unit of 64 bytes
  CHECK(verdict(289, 285, 1) == verdict_text(Verdict::not_judged));    // L1 does not keep them
}

// From the text: word after word, threads take turns.
TEST_CASE("caching: each thread has the sum of its words, by every load") {
  if (skip_without_gpu()) return;
  for (const size_t words : {size_t(1), size_t(1009), size_t(100003)})
    for (const Place& p : places) {
      const Shared memory(Words(words + 1, resident_grid(Device::current())));
      std::vector<unsigned> sums(memory->grid.threads(), 0);
      size_t word = p.first;
      for (size_t i = 0; i < p.count(words); ++i, word += p.stride)
        sums[i % sums.size()] += word_at(word);
      for (const Load& load : all_loads()) {
        CAPTURE(std::string(load.key));
        CAPTURE(std::string(p.key));
        CAPTURE(words);
        CHECK(wrong_after(read_task(memory, {load, p}, words)) == 0);
        std::vector<unsigned> found = memory->sums.to_host();
        found.resize(sums.size());
        CHECK(found == sums);
      }
    }
}

TEST_CASE("caching: every walk ends where its chain does") {
  if (skip_without_gpu()) return;
  ChainMemory memory;
  for (const Load& load : all_loads())
    for (const Second& second : seconds)  // throws unless it does
      CHECK(walk_lines(memory, load.kernels, second.word, 2).cycles.median() > 0);
}

EXPERIMENT_CHECKS(caching)
