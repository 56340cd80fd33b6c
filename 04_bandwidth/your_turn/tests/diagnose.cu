// Answers to diagnose that are wrong, and what the check has to say of them.
#include "diagnose.hpp"

namespace {

// answer diagnose_by_sectors: not yet: c: its loads take as few sectors as they can
namespace by_sectors {

constexpr Diagnose answer = {Cause::scattered_stores, Cause::bank_conflicts, Cause::scattered_loads,
                             Cause::misaligned_loads, Cause::scattered_loads};

YOUR_TURN_TEST(diagnose, by_sectors, Diagnose, (answer));

}  // namespace by_sectors

// answer diagnose_coalesced_is_all: not yet: b: one of the figures is larger than its words need
namespace coalesced_is_all {

constexpr Diagnose answer = {Cause::scattered_stores, Cause::nothing, Cause::nothing,
                             Cause::misaligned_loads, Cause::scattered_loads};

YOUR_TURN_TEST(diagnose, coalesced_is_all, Diagnose, (answer));

}  // namespace coalesced_is_all

// answer diagnose_misaligned: not yet: e: what is misaligned takes one sector more, not 28
namespace misaligned {

constexpr Diagnose answer = {Cause::scattered_stores, Cause::bank_conflicts, Cause::nothing,
                             Cause::misaligned_loads, Cause::misaligned_loads};

YOUR_TURN_TEST(diagnose, misaligned, Diagnose, (answer));

}  // namespace misaligned

// answer diagnose_sides: not yet: a: its loads take as few sectors as they can
namespace sides {

constexpr Diagnose answer = {Cause::scattered_loads, Cause::bank_conflicts, Cause::nothing,
                             Cause::misaligned_loads, Cause::scattered_stores};

YOUR_TURN_TEST(diagnose, sides, Diagnose, (answer));

}  // namespace sides

}  // namespace
