// Answers to diverge that are wrong, and what the check has to say of them.
#include "diverge.hpp"

namespace {

// answer diverge_any_branch: not yet: threadIdx.x / 32 % 2 == 0: not 8; is there a warp whose lanes
// disagree[?]
namespace any_branch {

constexpr Diverge answer = {8, 1, 8, 8, 8};

YOUR_TURN_TEST(diverge, any_branch, Diverge, (answer));

}  // namespace any_branch

// answer diverge_taken: not yet: threadIdx.x < 100: not 4; in which warp is thread 99, and in which
// is thread 100[?]
namespace taken {

constexpr Diverge answer = {8, 4, 4, 4, 4};

YOUR_TURN_TEST(diverge, taken, Diverge, (answer));

}  // namespace taken

// answer diverge_both_halves: not yet: threadIdx.x % 64 < 16: not 8; look at warps 0 and 1: which
// lanes take the branch[?]
namespace both_halves {

constexpr Diverge answer = {8, 1, 0, 8, 0};

YOUR_TURN_TEST(diverge, both_halves, Diverge, (answer));

}  // namespace both_halves

}  // namespace
