// Answers to faults that are wrong, and what the check has to say of them.
#include "faults.hpp"

namespace {

// answer faults_no_rule: not yet: in_order: not 32; after the fault at part 2, which parts are
// there[?]
namespace no_rule {

constexpr Faults answer = {32, 256, 16, 1024};

YOUR_TURN_TEST(faults, no_rule, Faults, (answer));

}  // namespace no_rule

// answer faults_whole_block: not yet: in_order: not 1; after the fault at part 2, which parts are
// there[?]
namespace whole_block {

constexpr Faults answer = {1, 2048, 1, 2048};

YOUR_TURN_TEST(faults, whole_block, Faults, (answer));

}  // namespace whole_block

// answer faults_half_is_enough: not yet: every_second: not 5; is there ever more than half[?]
namespace half_is_enough {

constexpr Faults answer = {6, 512, 5, 2048};

YOUR_TURN_TEST(faults, half_is_enough, Faults, (answer));

}  // namespace half_is_enough

}  // namespace
