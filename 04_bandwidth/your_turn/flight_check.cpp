// Checks flight.cu by Little's law.
#include "flight.hpp"

void check_flight(const Flight& yours, const Flight&) {
  your_turn::watch("four numbers");
  constexpr double bytes_per_ns = 4000, ns = 600, multiprocessors = 132;
  constexpr double bytes = bytes_per_ns * ns;
  constexpr double share = 0.25;
  your_turn::require_predicted({
      {"bytes", yours.bytes, bytes,
       "1 GB/s is one byte per ns; how many ns long are they in flight?", share},
      {"warps", yours.warps, bytes / multiprocessors / (32 * 4),
       "a warp has 32 words of 4 bytes in flight, a multiprocessor a 132nd of all", share},
      {"rate", yours.rate, multiprocessors * 64 * (32 * 4) / ns,
       "what is in flight now comes within 600 ns, and is asked for once more", share},
      {"warps_of_quads", yours.warps_of_quads, bytes / multiprocessors / (32 * 16),
       "a load brings four times as much", share},
  });
}
