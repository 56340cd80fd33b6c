// The driver's rule for the host's faults, as a model: which faults and transfers a host makes that
// touches parts of a block of 2 MiB in some order.
#pragma once

#include <algorithm>
#include <numeric>
#include <vector>

/// The driver manages memory in blocks of 2 MiB; a fault brings at least 64 KiB of one.
inline constexpr unsigned parts_of_block = 32;

/// What a walk of the host through one block makes.
struct Served {
  unsigned faults = 0, transfers = 0;
};

// [served]
/// The host touches the beginning of parts of 64 KiB in this order. A fault brings its part. Each
/// aligned 128 KiB, 256 KiB and so on around it, up to the block, is completed if more than 51% of
/// it is there. The 4 KiB that the host waits for are a transfer of their own, and so is each run
/// of neighbours before and behind them.
inline Served served(const std::vector<unsigned>& order) {
  std::vector<bool> here(parts_of_block, false);
  Served all;
  for (const unsigned touched : order) {
    if (here.at(touched)) continue;
    const std::vector<bool> before = here;
    here[touched] = true;
    const std::vector<bool> with_its_own = here;
    for (unsigned size = 2; size <= parts_of_block; size *= 2) {
      const unsigned begin = touched / size * size;
      const auto first = with_its_own.begin() + begin;
      if (std::count(first, first + size, true) * 100 > size * 51)
        std::fill_n(here.begin() + begin, size, true);
    }
    const auto comes = [&](unsigned part) { return here[part] && !before[part]; };
    unsigned runs = 0;
    for (unsigned part = 0; part < parts_of_block; ++part)
      runs += comes(part) && (part == 0 || part == touched || !comes(part - 1));
    ++all.faults;
    all.transfers += 1 + runs;
  }
  return all;
}
// [/served]

/// The parts of a block from its start to its end.
inline std::vector<unsigned> in_order() {
  std::vector<unsigned> order(parts_of_block);
  std::iota(order.begin(), order.end(), 0u);
  return order;
}
