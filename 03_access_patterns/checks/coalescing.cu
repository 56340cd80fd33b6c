// Self-checks of coalescing.cu, compiled in its place where BUILD_TESTING is on.
#include "../coalescing.cu"

#include "../../framework/common/checks/standard.hpp"

namespace {

/// The lanes that take word `word` of their region, from the texts' descriptions: a bit for each.
unsigned takers(const std::string& key, unsigned word) {
  const unsigned line = word / 32, place = word % 32;
  if (key == "read_in_order") return line == 0 ? 1u << place : 0;
  // the next lane is 11 words on; so the next word is 3 lanes on: 3 x 11 = 33
  if (key == "read_permuted") return line == 0 ? 1u << 3 * place % 32 : 0;
  if (key == "read_next_word") return word >= 1 && word < 33 ? 1u << (word - 1) : 0;
  if (key == "read_next_sector") return word >= 8 && word < 40 ? 1u << (word - 8) : 0;
  if (key == "read_same") return word == 0 ? ~0u : 0;
  if (key == "read_every_second") return line == 0 && place % 2 == 0 ? 1u << place : 0;
  // the next line is 3 lanes on, too; a lane's place in it is its number
  if (key == "read_scattered") return line < 32 && place == 3 * line % 32 ? 1u << place : 0;
  FAIL("no such pattern");
  return 0;
}

}  // namespace

TEST_CASE("coalescing: each lane takes the word that the texts describe, and no lane takes two") {
  for (const Kernel& k : kernels) {
    CAPTURE(std::string(k.key));
    const Pattern p = k.pattern();
    unsigned lanes = 0;
    for (unsigned word = 0; word < k.region_words + 8; ++word) {
      CAPTURE(word);
      unsigned found = 0;
      for (unsigned lane = 0; lane < 32; ++lane)
        if (p.word[lane] == int(word)) found |= 1u << lane;
      CHECK(found == takers(std::string(k.key), word));
      lanes |= found;
    }
    CHECK(lanes == (k.key == "read_every_second" ? 0x55555555u : ~0u));
  }
}

TEST_CASE("coalescing: the drawing shows lanes and transactions") {
  const auto begins = [](const std::string& drawing, const std::string& text) {
    CHECK(drawing.substr(0, text.size()) == text);
  };
  const auto lanes = [](const char* key) { return draw_lanes(kernel_of(key).warp()); };
  begins(lanes("read_in_order"), "|01234567|89abcdef|ghijklmn|opqrstuv|");
  begins(lanes("read_permuted"), "|0369cfil|oru147ad|gjmpsv25|8behknqt|");
  begins(lanes("read_next_word"), "|.0123456|789abcde|");
  begins(lanes("read_next_sector"), "|........|01234567|");
  begins(lanes("read_same"), "|*.......|");
  begins(lanes("read_every_second"), "|0.2.4.6.|");
  begins(lanes("read_scattered"), "|0.......|........|........|........|...3....|");
  for (const Drawn& d : drawn())
    if (d.words == "64-bit words") begins(draw_lanes(d.warp), "|0=1=2=3=|");
  const auto moved = [](Rule rule, const char* key) {
    return draw_transactions(under(rule, kernel_of(key).warp()));
  };
  begins(moved(Rule::sectors, "read_next_word")[0], " <------> <------> ");
  begins(moved(Rule::in_order, "read_same")[0], " <-32x--> ");
  CHECK(moved(Rule::any_order, "read_next_word").size() == 2);
}

TEST_CASE("coalescing: sectors and predictions, by hand") {
  struct ByHand {
    const char* key;
    int sectors;
    double as_long;
  };
  const ByHand by_hand[] = {{"read_in_order", 4, 1},     {"read_permuted", 4, 1},
                            {"read_next_word", 5, 1.25}, {"read_next_sector", 4, 1},
                            {"read_same", 1, 0.5},       {"read_every_second", 4, 1},
                            {"read_scattered", 32, 16}};
  REQUIRE(std::size(by_hand) == std::size(kernels));
  for (const ByHand& each : by_hand) {
    CAPTURE(std::string(each.key));
    CHECK(sectors(kernel_of(each.key).warp()) == each.sectors);
    CHECK(predicted_times(kernel_of(each.key)) == each.as_long);
  }
  CHECK(regions_in(1024 + 8, kernel_of("read_scattered")) == 1);
  CHECK(regions_in(1024 + 8, kernel_of("read_in_order")) == 32);
  CHECK(regions_in(1024 + 7, kernel_of("read_in_order")) == 31);
}

TEST_CASE("coalescing: what coalesces on 1.0 moves no more on 1.2, at any alignment") {
  size_t coalesce = 0;
  for (const unsigned bytes : {4, 8, 16})
    for (int begin = 0; begin <= 64; ++begin)
      for (const unsigned idle : {0u, 1u, 0xffffu, 0x5555aaaau, 0xfffffffeu}) {
        const Warp warp = warp_of(
            bytes, [&](unsigned lane) { return idle >> lane & 1 ? -1 : begin + int(lane); });
        if (!coalesces_on_g80(warp)) continue;
        CAPTURE(bytes);
        CAPTURE(begin);
        CAPTURE(idle);
        CHECK(no_more_on_gt200(warp));
        ++coalesce;
      }
  CHECK(coalesce > 50);
  CHECK_FALSE(coalesces_on_g80(kernel_of("read_permuted").warp()));
}

TEST_CASE("coalescing: what decides each part") {
  const auto permuted_takes = [](double ms) {
    return verdict_if(coalescing_experiment, "03.3", {{"read_permuted", ms}});
  };
  CHECK(permuted_takes(1) == verdict_text(Verdict::holds));
  CHECK(permuted_takes(0.5) == verdict_text(Verdict::holds));
  CHECK(permuted_takes(1.1) == verdict_text(Verdict::does_not_hold));
  // computed, whatever is measured
  CHECK(verdict_if(coalescing_experiment, "03.2a", {}) == verdict_text(Verdict::no_longer));
  CHECK(verdict_if(coalescing_experiment, "03.2b", {}) == verdict_text(Verdict::holds));
  CHECK(verdict_if(coalescing_experiment, "03.16", {}) == verdict_text(Verdict::holds));
}

// From the texts: region after region, warps take turns.
TEST_CASE("coalescing: each thread has the sum of its words") {
  if (skip_without_gpu()) return;
  for (const Grid grid : {Grid{3}, resident_grid(Device::current())})
    for (const size_t regions : {size_t(31), grid.threads() / 32 + size_t(1)})
      for (const Kernel& k : kernels) {
        CAPTURE(regions);
        CAPTURE(std::string(k.key));
        const Shared memory(Words(k.pattern().words(regions), grid));
        CHECK(wrong_after(read_task(memory, k, regions)) == 0);
        std::vector<unsigned> sums(grid.threads(), 0);
        for (unsigned word = 0; word < k.region_words + 8; ++word)
          for (unsigned lane = 0; lane < 32; ++lane)
            if (takers(std::string(k.key), word) >> lane & 1)
              for (size_t region = 0; region < regions; ++region)
                sums[(32 * region + lane) % sums.size()] += word_at(region * k.region_words + word);
        CHECK(memory->sums.to_host() == sums);
      }
}

TEST_CASE("coalescing: the check finds another pattern") {
  if (skip_without_gpu()) return;
  constexpr size_t regions = 1009;
  const Shared memory(Words(kernel_of("read_scattered").pattern().words(regions), Grid{3}));
  for (const Kernel& k : kernels) {
    CAPTURE(std::string(k.key));
    CHECK(wrong_after(read_task(memory, k, regions)) == 0);
    for (const Kernel& other : kernels)  // a permutation that is none would be seen
      if (other.key != k.key)
        CHECK(read_task(memory, other, regions).check.wrong() >= memory->grid.threads() / 2);
  }
}

EXPERIMENT_CHECKS(coalescing)
