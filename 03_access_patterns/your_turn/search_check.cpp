// Checks search.cu's three answers in their order, and says what speaks against a wrong one.
#include <cstdio>

#include "search.hpp"

namespace {

using your_turn::NotYet;

void require_time(double found, double expected) {
  if (found > 0.75 * expected && found < 1.25 * expected) return;
  char text[160];
  std::snprintf(text, sizeof text,
                "seconds: found %g; loads times cycles over cycles a second are %s", found,
                found > expected ? "fewer" : "more");
  throw NotYet(text);
}

std::string against(Limit limit) {
  switch (limit) {
    case Limit::device_memory:
      return "a word in the last 10 MB is found: all of the text is there";
    case Limit::memory_bounds:
      return "position by position the thread ends with the text, wherever it begins";
    case Limit::grid_size:
      return "a block of one thread is within every limit of a launch";
    case Limit::registers:
      return "one thread has more than enough of them";
    default:
      return "expected one of them";
  }
}

std::string against(Line line) {
  switch (line) {
    case Line::malloc_text:
    case Line::copy_text:
    case Line::malloc_found:
      return "nothing had gone wrong by then";
    case Line::launch:
      return "it only starts the kernel, and that went well; it returns long before the kernel "
             "ends";
    default:
      return "expected one of them";
  }
}

}  // namespace

void check_search(const Search& yours, const Search& solution) {
  your_turn::watch("three answers");
  require_time(yours.seconds, solution.seconds);
  if (yours.limit != solution.limit) throw NotYet("limit: " + against(yours.limit));
  if (yours.line != solution.line) throw NotYet("line: " + against(yours.line));
}
