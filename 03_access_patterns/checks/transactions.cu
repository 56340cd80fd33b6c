// transactions: the self-checks of the model, against every figure that the texts and the guides
// give. No experiment.
#include <doctest/doctest.h>

#include <algorithm>

#include "../../framework/common/your_turn.hpp"
#include "../transactions.hpp"

namespace {

const Warp in_order = warp_of(4, [](unsigned lane) { return lane; });
const Warp permuted = warp_of(4, [](unsigned lane) { return lane * 11 % 32; });
const Warp next_word = warp_of(4, [](unsigned lane) { return lane + 1; });
const Warp next_sector = warp_of(4, [](unsigned lane) { return lane + 8; });
const Warp same = warp_of(4, [](unsigned) { return 0; });
const Warp every_second = warp_of(4, [](unsigned lane) { return lane % 2 ? -1 : int(lane); });
const Warp scattered = warp_of(4, [](unsigned lane) { return lane * 11 % 32 * 32 + lane; });
const Warp bits16 = warp_of(2, [](unsigned lane) { return lane; });
const Warp bits64 = warp_of(8, [](unsigned lane) { return lane; });
const Warp bits128 = warp_of(16, [](unsigned lane) { return lane; });
const Warp patterns[] = {in_order,     permuted,  next_word, next_sector, same,
                         every_second, scattered, bits16,    bits64,      bits128};

double used_percent(Rule rule, const Warp& warp) { return 100 * under(rule, warp).utilisation(); }
int count(Rule rule, const Warp& warp) { return under(rule, warp).count(); }

}  // namespace

TEST_CASE("transactions: the wiki's figures for loads through L1 and past it") {
  for (const Warp& whole : {in_order, permuted}) {
    CHECK(count(Rule::through_l1, whole) == 1);
    CHECK(used_percent(Rule::through_l1, whole) == 100);
    CHECK(count(Rule::past_l1, whole) == 4);
    CHECK(used_percent(Rule::past_l1, whole) == 100);
  }
  CHECK(count(Rule::through_l1, next_word) == 2);  // two lines
  CHECK(used_percent(Rule::through_l1, next_word) == 50);
  CHECK(count(Rule::past_l1, next_word) == 5);  // five segments
  CHECK(used_percent(Rule::past_l1, next_word) == doctest::Approx(80));
  CHECK(used_percent(Rule::through_l1, same) == 3.125);
  CHECK(used_percent(Rule::past_l1, same) == 12.5);
  CHECK(count(Rule::through_l1, scattered) == 32);
  CHECK(used_percent(Rule::through_l1, scattered) == 3.125);
  CHECK(used_percent(Rule::past_l1, scattered) == 12.5);
  // misaligned and out of order: as many lines as the words lie in
  const Warp three = warp_of(4, [](unsigned lane) { return lane / 12 * 32 + lane * 7 % 12 + 5; });
  CHECK(count(Rule::through_l1, three) == 3);
}

TEST_CASE("transactions: today a sector is what a segment past L1 was") {
  for (const Warp& pattern : patterns) {
    CAPTURE(pattern.address[31]);
    if (pattern.word == 4) CHECK(count(Rule::sectors, pattern) == count(Rule::past_l1, pattern));
    CHECK(count(Rule::sectors, pattern) == sectors(pattern));
  }
  CHECK(sectors(bits64) == 8);
  CHECK(sectors(bits128) == 16);
  CHECK(lines(bits128) == 4);
}

TEST_CASE(
    "transactions: the G80 moves a half-warp in order together and else each lane for itself") {
  const auto bytes = [](const Warp& pattern) { return under(Rule::in_order, pattern).bytes(); };
  for (const Warp& together : {in_order, every_second}) {  // lanes may be inactive
    CHECK(count(Rule::in_order, together) == 2);  // a transaction of 64 bytes for each half
    CHECK(bytes(together) == 128);
  }
  CHECK(count(Rule::in_order, bits64) == 2);  // of 128 bytes
  CHECK(bytes(bits64) == 256);
  CHECK(count(Rule::in_order, bits128) == 4);  // two of 128 bytes for each half
  CHECK(bytes(bits128) == 512);
  for (const Warp& apart : {permuted, next_word, next_sector, same, scattered, bits16}) {
    CAPTURE(apart.address[31]);
    CHECK(count(Rule::in_order, apart) == 32);
    CHECK(bytes(apart) == 32 * 32);
  }
  const auto pieces = [](unsigned word, auto index) {
    return under(Rule::in_order, warp_of(word, index)).count();
  };
  CHECK(pieces(4, [](unsigned lane) { return lane + 16; }) == 2);   // the next segment
  CHECK(pieces(16, [](unsigned lane) { return lane + 8; }) == 4);   // a multiple of 128 bytes
  CHECK(pieces(16, [](unsigned lane) { return lane + 4; }) == 32);  // not one
  CHECK(pieces(4, [](unsigned lane) { return lane < 16 ? int(lane) : -1; }) == 1);
  CHECK(pieces(4, [](unsigned lane) { return lane == 3 ? 3 : -1; }) == 1);
  CHECK(pieces(4, [](unsigned lane) { return lane == 3 ? 4 : -1; }) == 1);  // out of order: alone
}

TEST_CASE(
    "transactions: what coalesces on 1.0 does on 1.2 and there a half-warp takes the fewest "
    "pieces") {
  for (const Warp& pattern : patterns) {
    CAPTURE(pattern.address[31]);
    CHECK(under(Rule::any_order, pattern).bytes() <= under(Rule::in_order, pattern).bytes());
    CHECK(count(Rule::any_order, pattern) <= count(Rule::in_order, pattern));
  }
  // each half-warp wants both halves of the line
  CHECK(used_percent(Rule::any_order, permuted) == doctest::Approx(50));
  const auto bytes_of_half = [](auto index) {  // the first half-warp alone
    std::vector<unsigned> sizes;
    for (const Transaction& t :
         under(Rule::any_order,
               warp_of(4, [&](unsigned lane) { return lane < 16 ? int(index(lane)) : -1; }))
             .list)
      sizes.push_back(t.bytes);
    return sizes;
  };
  using Sizes = std::vector<unsigned>;
  CHECK(bytes_of_half([](unsigned lane) { return 15 - lane; }) == Sizes{64});  // reversed
  // misaligned within a line; split between two lines; the manual's 64 and 32
  CHECK(bytes_of_half([](unsigned lane) { return lane + 1; }) == Sizes{128});
  CHECK(bytes_of_half([](unsigned lane) { return lane + 24; }) == Sizes{32, 32});
  CHECK(bytes_of_half([](unsigned lane) { return lane + 23; }) == Sizes{64, 32});
  CHECK(bytes_of_half([](unsigned) { return 9; }) == Sizes{32});  // one address
  CHECK(under(Rule::any_order, bits16).list[0].bytes == 32);      // segments of 64 at most, halved
}

TEST_CASE("transactions: stores move one or two or four segments") {
  const auto sizes = [](auto index) {
    std::vector<unsigned> all;
    for (const Transaction& t : stored(warp_of(4, index)).list) all.push_back(t.bytes / 32);
    return all;
  };
  using Sizes = std::vector<unsigned>;
  CHECK(sizes([](unsigned lane) { return lane; }) == Sizes{4});
  CHECK(sizes([](unsigned lane) { return lane / 2; }) == Sizes{2});  // within 64 bytes
  // strewn over 192 bytes
  CHECK(sizes([](unsigned lane) { return lane / 8 * 16 % 48 + lane % 8; }) == Sizes{1, 1, 1});
  CHECK(sizes([](unsigned) { return 5; }) == Sizes{1});
  CHECK(sizes([](unsigned lane) { return lane + 8; }) == Sizes{1, 2, 1});  // a segment off
  CHECK(sizes([](unsigned lane) { return lane + 1; }) == Sizes{4, 1});
}

TEST_CASE("transactions: no lane is left out of what is moved and an inactive warp moves nothing") {
  const Warp none = warp_of(4, [](unsigned) { return -1; });
  for (Rule rule : rules) {
    CAPTURE(rule_name(rule));
    CHECK(under(rule, none).count() == 0);
    CHECK(under(rule, none).utilisation() == 0);
    for (const Warp& pattern : patterns) {
      CAPTURE(pattern.address[31]);
      const Transactions moved = under(rule, pattern);
      for (unsigned lane = 0; lane < 32; ++lane)
        CHECK((!pattern.active(lane) ||
               std::any_of(moved.list.begin(), moved.list.end(), [&](const Transaction& t) {
                 return t.start <= pattern.address[lane] &&
                        pattern.address[lane] + pattern.word <= t.start + t.bytes;
               })));
    }
  }
}

TEST_CASE("transactions: exercises count sectors by the same rule") {
  for (const size_t range : {size_t(8), size_t(100), size_t(10000)})
    for (size_t pattern = 0; pattern < 50; ++pattern) {
      your_turn::WarpWords words;
      for (unsigned lane = 0; lane < 32; ++lane) {
        const unsigned number = your_turn::number_at(32 * pattern + lane);
        words[lane] = number % 5 == 0 ? your_turn::idle : (long long)(number / 5 % range);
      }
      const Warp warp = warp_of(4, [&](unsigned lane) { return words[lane]; });
      CHECK(your_turn::sectors(words) == sectors(warp));
    }
}
