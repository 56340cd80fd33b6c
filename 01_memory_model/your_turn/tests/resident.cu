// Answers to resident that are wrong, and what the check has to say of them.
#include "resident.hpp"

namespace {

// answer resident_threads_only: not yet: wide: not 8; a block needs 10,240 registers, and has all
// or none
namespace threads_only {

constexpr Resident answer = {8, 8, 2, 64, 16, 32};

YOUR_TURN_TEST(resident, threads_only, Resident, (answer));

}  // namespace threads_only

// answer resident_whole_shared: not yet: sharing: not 16; each block takes 49 KiB of the 228
namespace whole_shared {

constexpr Resident answer = {8, 6, 1, 32, 16, 40};

YOUR_TURN_TEST(resident, whole_shared, Resident, (answer));

}  // namespace whole_shared

// answer resident_all_registers: not yet: registers: not 256; six blocks share 65,536 of them
namespace all_registers {

constexpr Resident answer = {8, 6, 1, 32, 4, 256};

YOUR_TURN_TEST(resident, all_registers, Resident, (answer));

}  // namespace all_registers

// answer resident_fraction: not yet: wide: not 6.4; a block needs 10,240 registers, and has all or
// none
namespace fraction {

constexpr Resident answer = {8, 6.4, 1, 32, 4, 40};

YOUR_TURN_TEST(resident, fraction, Resident, (answer));

}  // namespace fraction

}  // namespace
