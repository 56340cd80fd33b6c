// Checks advise.cu by the times that the task gives.
#include <cmath>

#include "advise.hpp"

void check_advise(const Advise& yours, const Advise&) {
  your_turn::watch("five numbers");
  constexpr double bytes = 256.0 * 1024 * 1024, link = 50e6, device = 4000e6;  // bytes per ms
  constexpr double moving = 12, share = 0.25;
  constexpr double mapped_pass = bytes / link, moved_pass = bytes / device;
  constexpr double pages = bytes / 65536;
  your_turn::require_predicted({
      {"mapped", yours.mapped, mapped_pass, "268 MB cross a link of 50 GB/s", share},
      {"moved", yours.moved, moving + moved_pass, "moving, then one pass in the device's memory",
       share},
      {"passes", yours.passes, std::floor(moving / (mapped_pass - moved_pass)) + 1,
       "what do two passes take, and what three, in each way?"},
      {"sparse_mapped", yours.sparse_mapped, pages * 32 / 1024,
       "how many pages are there, and what moves for each word?", share},
      {"sparse_moved", yours.sparse_moved, pages * 64, "what moves for each word?", share},
  });
}
