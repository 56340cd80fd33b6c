// Answers to halo that are wrong or dear, and what the check has to say of them.
#include "halo.hpp"

namespace {

// answer halo_three_each: right, but 112 sectors a block; 34 will do
namespace three_each {

long long load(unsigned tid, unsigned step, size_t first, size_t n) {
  const long long i = (long long)(first + tid + step) - 1;
  return i < (long long)(n) ? i : -1;
}

YOUR_TURN_TEST(halo, three_each, Halo, {load});

}  // namespace three_each

// answer halo_shifted: right, but 42 sectors a block; 34 will do
namespace shifted {

long long load(unsigned tid, unsigned step, size_t first, size_t n) {
  const unsigned word = step * 256 + tid;  // of the tile
  const long long i = (long long)(first + word) - 1;
  return word < 258 && i < (long long)(n) ? i : -1;
}

YOUR_TURN_TEST(halo, shifted, Halo, {load});

}  // namespace shifted

// answer halo_unguarded: not yet: n = 1, block 0, step 0: thread 1 is out of bounds, it loads word
// 1
namespace unguarded {

long long load(unsigned tid, unsigned step, size_t first, size_t n) {
  if (step == 0) return (long long)(first + tid);
  if (tid == 0) return step == 1 ? (long long)(first)-1 : (long long)(first + 256);
  return -1;
}

YOUR_TURN_TEST(halo, unguarded, Halo, {load});

}  // namespace unguarded

// answer halo_one_side: not yet: n = 257, block 0: 1 of 257 words is wrong, the first word 256,
// which no thread loads
namespace one_side {

long long load(unsigned tid, unsigned step, size_t first, size_t n) {
  const long long i = (long long)(first + tid) - step;
  return step < 2 && i < (long long)(n) && (step == 0 || tid == 0) ? i : -1;
}

YOUR_TURN_TEST(halo, one_side, Halo, {load});

}  // namespace one_side

}  // namespace
