// Checks diagnose.cu's five answers in their order, and says what speaks against a wrong one.
#include "diagnose.hpp"

namespace {

struct Kernel {
  const char* name;
  Cause yours, right;
  bool loads_more;  ///< sectors than its words need
};

std::string against(const Kernel& kernel) {
  switch (kernel.yours) {
    case Cause::scattered_loads:
      return kernel.loads_more ? "32 lanes that read from a sector each take 32"
                               : "its loads take as few sectors as they can";
    case Cause::misaligned_loads:
      return kernel.loads_more ? "what is misaligned takes one sector more, not 28"
                               : "its loads take as few sectors as they can";
    case Cause::scattered_stores:
      return "its stores take as few sectors as they can";
    case Cause::bank_conflicts:
      return "without shared memory, or with a wavefront for 32 words, there are none";
    case Cause::nothing:
      return "one of the figures is larger than its words need";
    default:
      return "expected one of the list";
  }
}

}  // namespace

void check_diagnose(const Diagnose& yours, const Diagnose& solution) {
  your_turn::watch("five answers");
  for (const Kernel& kernel :
       {Kernel{"a", yours.a, solution.a, false}, Kernel{"b", yours.b, solution.b, false},
        Kernel{"c", yours.c, solution.c, false}, Kernel{"d", yours.d, solution.d, true},
        Kernel{"e", yours.e, solution.e, true}})
    if (kernel.yours != kernel.right)
      throw your_turn::NotYet(std::string(kernel.name) + ": " + against(kernel));
}
