// Checks schedule.cu: a chunk passes three engines, each of which takes one chunk at a time.
#include "schedule.hpp"

namespace {

/// Until the last chunk is back; a copy takes `start` ms more, whatever its size.
double ms(int chunks, double start = 0) {
  const double copy = 4.0 / chunks + start, kernel = 2.0 / chunks;
  return copy + kernel + copy + (chunks - 1) * copy;  // a copy is the slowest of the three
}

}  // namespace

void check_schedule(const Schedule& yours, const Schedule&) {
  your_turn::watch("five numbers");
  your_turn::require_predicted({
      {"whole", yours.whole, ms(1), "one after the other", 0.01},
      {"halves", yours.halves, ms(2),
       "draw three lines, one for each engine: when can the second chunk's copy begin?", 0.01},
      {"eighths", yours.eighths, ms(8),
       "the copies there are 4 ms; what is left after the last one?", 0.01},
      {"one_stream", yours.one_stream, ms(1), "what may overlap within a stream?", 0.01},
      {"crumbs", yours.crumbs, ms(1000, 0.005), "how long does one copy of a thousandth take?",
       0.25},
  });
}
