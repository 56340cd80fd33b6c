// What is checked of the five causes: a wrong one is told what speaks against it. Included behind
// the answer.
#pragma once

#include <string>

#include "../../common/exercise.hpp"

/// What speaks against a cause.
inline std::string against(Cause yours, bool loads_more_than_its_words) {
  switch (yours) {
    case Cause::unknown:
      break;
    case Cause::scattered_loads:
      return loads_more_than_its_words ? "32 lanes that read from a sector each take 32"
                                       : "its loads take as few sectors as they can";
    case Cause::misaligned_loads:
      return loads_more_than_its_words ? "misaligned neighbours take one sector more, not 28"
                                       : "its loads take as few sectors as they can";
    case Cause::scattered_stores:
      return "its stores take as few sectors as they can";
    case Cause::bank_conflicts:
      return "without shared memory, or with a wavefront for 32 words, there are none";
    case Cause::nothing:
      return "one of its figures is larger than its words need";
  }
  return "choose one of the list";
}

inline void check(const Cause (&yours)[5]) {
  const auto compare = [](char kernel, Cause yours, Cause right, bool loads_more_than_its_words) {
    const std::string name(1, kernel);
    if (yours != right) FAIL_CHECK(name << ": " << against(yours, loads_more_than_its_words));
  };
  compare('a', yours[0], Cause::scattered_stores, false);
  compare('b', yours[1], Cause::bank_conflicts, false);
  compare('c', yours[2], Cause::nothing, false);
  compare('d', yours[3], Cause::misaligned_loads, true);
  compare('e', yours[4], Cause::scattered_loads, true);
}

TEST_CASE("right: all five") { check({a, b, c, d, e}); }
