// Checks faults.cu by the driver's rule, as 05_unified_memory/driver_tree.hpp has it.
#include <algorithm>
#include <numeric>

#include "faults.hpp"

namespace {

constexpr unsigned parts = 32;

struct Served {
  unsigned faults = 0;
  std::vector<bool> here = std::vector<bool>(parts);
  double kib() const { return 64.0 * double(std::count(here.begin(), here.end(), true)); }
};

Served touched(const std::vector<unsigned>& order) {
  Served all;
  for (const unsigned part : order) {
    if (all.here[part]) continue;
    ++all.faults;
    all.here[part] = true;
    const std::vector<bool> there = all.here;
    for (unsigned size = 2; size <= parts; size *= 2) {
      const unsigned begin = part / size * size;
      const auto first = there.begin() + begin;
      if (100 * std::count(first, first + size, true) > 51 * long(size))
        std::fill_n(all.here.begin() + begin, size, true);
    }
  }
  return all;
}

}  // namespace

void check_faults(const Faults& yours, const Faults&) {
  your_turn::watch("four numbers");
  std::vector<unsigned> in_order(parts), every_second(parts / 2);
  std::iota(in_order.begin(), in_order.end(), 0u);
  for (unsigned i = 0; i < parts / 2; ++i) every_second[i] = 2 * i;
  your_turn::require_predicted({
      {"in_order", yours.in_order, double(touched(in_order).faults),
       "after the fault at part 2, which parts are there?"},
      {"kib", yours.kib, touched({0, 1, 2, 4}).kib(),
       "how much of the 512 KiB from part 0 on is there with part 4?"},
      {"every_second", yours.every_second, double(touched(every_second).faults),
       "is there ever more than half?"},
      {"kib_of_every_second", yours.kib_of_every_second, touched(every_second).kib(),
       "what does each fault bring?"},
  });
}
