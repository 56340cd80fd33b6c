#include "../../common/run.hpp"

void page_faults(Run&);

int main(int argc, char** argv) {
  return run_topic(argc, argv,
                   {"05_unified_memory",
                    "one pointer for both sides, what moves behind it, and what that costs",
                    {
                        {"page_faults", page_faults, "four ways to touch pages, and what moves"},
                    }});
}
