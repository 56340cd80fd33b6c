// Answers to between that are wrong, and what the check has to say of them.
#include "between.hpp"

namespace {

// answer between_by_corners: not yet: x = 1: not 8; between which two centres is that[?]
namespace by_corners {

constexpr Between answer = {8, 5, 3.5, 6, 2};

YOUR_TURN_TEST(between, by_corners, Between, (answer));

}  // namespace by_corners

// answer between_other_side: not yet: x = 1[.]75: not 5; how far is it from the centre at 1[.]5[?]
namespace other_side {

constexpr Between answer = {5, 5, 2, 6, 4};

YOUR_TURN_TEST(between, other_side, Between, (answer));

}  // namespace other_side

// answer between_clamp_at_last: not yet: x = 1 of wrap: not 6; what lies to the right of the last
// texel[?]
namespace clamp_at_last {

constexpr Between answer = {5, 7, 2, 6, 6};

YOUR_TURN_TEST(between, clamp_at_last, Between, (answer));

}  // namespace clamp_at_last

}  // namespace
