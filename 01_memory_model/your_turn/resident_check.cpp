// Checks resident.cu by the four limits of a multiprocessor.
#include <algorithm>

#include "resident.hpp"

namespace {

/// Of an H200; by the kernel's registers, as a warp gets multiples of 256 of them, too.
double blocks(int threads, int registers, int shared_kib = 0) {
  const int of_registers = 65536 / (threads * registers), of_threads = 2048 / threads;
  const int of_shared = 228 / (shared_kib + 1);
  return std::min({of_registers, of_threads, of_shared, 32});
}

}  // namespace

void check_resident(const Resident& yours, const Resident&) {
  your_turn::watch("six numbers");
  your_turn::require_predicted({
      {"narrow", yours.narrow, blocks(256, 32), "which of the four is used up first?"},
      {"wide", yours.wide, blocks(256, 40), "a block needs 10,240 registers, and has all or none"},
      {"large", yours.large, blocks(1024, 40), "how many registers do two blocks need?"},
      {"single", yours.single, blocks(32, 32), "neither threads nor registers are the limit"},
      {"sharing", yours.sharing, blocks(128, 32, 48), "each block takes 49 KiB of the 228"},
      {"registers", yours.registers, 65536 / (6 * 256) / 8 * 8, "six blocks share 65,536 of them",
       0.25},
  });
}
