// Answers to scan that are wrong or dear, and what the check has to say of them.
#include "scan.hpp"

namespace {

// answer scan_as_handed_out: not yet: n = 64, step 0: thread 2 reads word 1 while thread 1 writes
// it
namespace as_handed_out {

Sum sum(unsigned step, unsigned tid, unsigned n) {
  const unsigned distance = 1u << step;
  return {tid >= distance, false, tid, tid - distance, tid};
}

unsigned result(unsigned n) { return 0; }

YOUR_TURN_TEST(scan, as_handed_out, Scan, {sum, result});

}  // namespace as_handed_out

// answer scan_forgets_to_copy: not yet: n = 64: [0-9]+ of 64 words are wrong, the first at 1:
// expected [0-9]+, found [0-9]+
namespace forgets_to_copy {

Sum sum(unsigned step, unsigned tid, unsigned n) {
  const unsigned distance = 1u << step;
  const unsigned from = step % 2 * n + tid, to = (step + 1) % 2 * n + tid;
  return {tid >= distance, false, to, from - distance, from};
}

unsigned result(unsigned n) { return 0; }

YOUR_TURN_TEST(scan, forgets_to_copy, Scan, {sum, result});

}  // namespace forgets_to_copy

// answer scan_one_half: not yet: n = 128: [0-9]+ of 128 words are wrong, the first at [0-9]+:
// expected [0-9]+, found [0-9]+
namespace one_half {

Sum sum(unsigned step, unsigned tid, unsigned n) {
  const unsigned distance = 1u << step;
  const unsigned from = step % 2 * n + tid, to = (step + 1) % 2 * n + tid;
  if (tid < distance) return {false, true, to, from, from};
  return {true, false, to, from - distance, from};
}

unsigned result(unsigned n) { return 0; }  // right after an even number of steps

YOUR_TURN_TEST(scan, one_half, Scan, {sum, result});

}  // namespace one_half

// answer scan_unguarded: not yet: n = 64, step 0: thread 0 is out of bounds, it takes word
// 4294967295 of 128
namespace unguarded {

Sum sum(unsigned step, unsigned tid, unsigned n) {
  const unsigned from = step % 2 * n, to = (step + 1) % 2 * n;
  return {true, false, to + tid, from + tid - (1u << step), from + tid};
}

unsigned result(unsigned n) { return 0; }

YOUR_TURN_TEST(scan, unguarded, Scan, {sum, result});

}  // namespace unguarded

// answer scan_conflicts: right, but [0-9]+ wavefronts for a request; 1 will do
namespace conflicts {

/// Where word i of a half lies: neighbours 32 apart.
unsigned place(unsigned i, unsigned n) { return i % (n / 32) * 32 + i / (n / 32); }

Sum sum(unsigned step, unsigned tid, unsigned n) {
  const unsigned distance = 1u << step;
  unsigned steps = 0;
  while (1u << steps < n) ++steps;
  const auto from = [&](unsigned i) { return step % 2 * n + (step == 0 ? i : place(i, n)); };
  const unsigned last = step + 1 == steps ? tid : place(tid, n);
  const unsigned to = (step + 1) % 2 * n + last;
  if (tid < distance) return {false, true, to, from(tid), from(tid)};
  return {true, false, to, from(tid - distance), from(tid)};
}

unsigned result(unsigned n) {
  unsigned steps = 0;
  while (1u << steps < n) ++steps;
  return steps % 2 * n;
}

YOUR_TURN_TEST(scan, conflicts, Scan, {sum, result});

}  // namespace conflicts

}  // namespace
