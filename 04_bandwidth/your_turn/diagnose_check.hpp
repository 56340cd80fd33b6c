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

TEST_CASE("right: all five") {
  const auto check = [](char kernel, Cause yours, Cause right, bool loads_more_than_its_words) {
    const std::string name(1, kernel);
    if (yours != right) FAIL_CHECK(name << ": " << against(yours, loads_more_than_its_words));
  };
  check('a', a, Cause::scattered_stores, false);
  check('b', b, Cause::bank_conflicts, false);
  check('c', c, Cause::nothing, false);
  check('d', d, Cause::misaligned_loads, true);
  check('e', e, Cause::scattered_loads, true);
}
