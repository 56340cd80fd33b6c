// Answers to banks that are wrong, and what the check has to say of them.
#include "banks.hpp"

namespace {

// answer banks_same_word: not yet: tile[[]i / 2[]]: not 2; two lanes want the same word
namespace same_word {

constexpr Banks answer = {2, 2, 1, 8, 32, 1, 2};

YOUR_TURN_TEST(banks, same_word, Banks, (answer));

}  // namespace same_word

// answer banks_odd_too: not yet: tile[[]3 [*] i[]]: not 3; lane 11 is in bank 1; is any other
// lane[?]
namespace odd_too {

constexpr Banks answer = {1, 2, 3, 8, 32, 33, 2};

YOUR_TURN_TEST(banks, odd_too, Banks, (answer));

}  // namespace odd_too

// answer banks_lanes_of_a_bank: not yet: tile[[]32 [*] [(]i % 2[)][]]: not 32; how many different
// words, and in which banks[?]
namespace lanes_of_a_bank {

constexpr Banks answer = {1, 2, 1, 8, 32, 1, 32};

YOUR_TURN_TEST(banks, lanes_of_a_bank, Banks, (answer));

}  // namespace lanes_of_a_bank

}  // namespace
