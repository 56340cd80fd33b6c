// Answers to advise that are wrong, and what the check has to say of them.
#include "advise.hpp"

namespace {

// answer advise_always_move: not yet: passes: not 1; what do two passes take, and what three, in
// each way[?]
namespace always_move {

constexpr Advise answer = {5.4, 10.8, 1, 128, 262144};

YOUR_TURN_TEST(advise, always_move, Advise, (answer));

}  // namespace always_move

// answer advise_two_passes: not yet: passes: not 2; what do two passes take, and what three, in
// each way[?]
namespace two_passes {

constexpr Advise answer = {5.4, 10.8, 2, 128, 262144};

YOUR_TURN_TEST(advise, two_passes, Advise, (answer));

}  // namespace two_passes

// answer advise_words: not yet: sparse_mapped: not 16; how many pages are there, and what moves for
// each word[?]
namespace words {

constexpr Advise answer = {5.4, 10.8, 3, 16, 262144};

YOUR_TURN_TEST(advise, words, Advise, (answer));

}  // namespace words

// answer advise_units: not yet: mapped: not 5400; 268 MB cross a link of 50 GB/s
namespace units {

constexpr Advise answer = {5400, 10800, 3, 128, 262144};

YOUR_TURN_TEST(advise, units, Advise, (answer));

}  // namespace units

}  // namespace
