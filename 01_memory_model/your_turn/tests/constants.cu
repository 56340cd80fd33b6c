// Answers to constants that are wrong, and what the check has to say of them.
#include "constants.hpp"

namespace {

// answer constants_by_lanes: not yet: table[[]threadIdx.x % 4[]]: not 32; lanes that want the same
// word need not be neighbours
namespace by_lanes {

constexpr Constants answer = {1, 32, 32, 32, 32};

YOUR_TURN_TEST(constants, by_lanes, Constants, (answer));

}  // namespace by_lanes

// answer constants_of_the_block: not yet: table[[]threadIdx.x / 32[]]: not 8; count for one warp,
// not for the block
namespace of_the_block {

constexpr Constants answer = {1, 32, 4, 4, 8};

YOUR_TURN_TEST(constants, of_the_block, Constants, (answer));

}  // namespace of_the_block

}  // namespace
