// Answers to tree that are wrong or dear, and what the check has to say of them.
#include "tree.hpp"

namespace {

// answer tree_strided: right, but [0-9]+ wavefronts for 256 words, 8 for the worst request; 36 will
// do
namespace strided {

Addition addition(unsigned step, unsigned tid, unsigned n) {
  const unsigned s = 1u << step;
  return {2 * s * tid < n, 2 * s * tid, 2 * s * tid + s};
}

YOUR_TURN_TEST(tree, strided, Tree, {addition});

}  // namespace strided

// answer tree_all_warps: right, but [0-9]+ wavefronts for 256 words, 1 for the worst request; 36
// will do
namespace all_warps {

Addition addition(unsigned step, unsigned tid, unsigned n) {
  const unsigned s = 1u << step;
  return {tid % (2 * s) == 0, tid, tid + s};
}

YOUR_TURN_TEST(tree, all_warps, Tree, {addition});

}  // namespace all_warps

// answer tree_unguarded: not yet: n = 64, step 0: thread 32 is out of bounds, it adds word 64 to
// word 32 of 64
namespace unguarded {

Addition addition(unsigned step, unsigned tid, unsigned n) {
  return {true, tid, tid + (n >> (step + 1))};
}

YOUR_TURN_TEST(tree, unguarded, Tree, {addition});

}  // namespace unguarded

// answer tree_race: not yet: n = 64, step 1: thread 0 reads word 16 while thread 16 writes it
namespace race {

Addition addition(unsigned step, unsigned tid, unsigned n) {
  const unsigned s = n >> (step + 1);
  return {tid < n / 2, tid, tid + s};
}

YOUR_TURN_TEST(tree, race, Tree, {addition});

}  // namespace race

// answer tree_one_size: not yet: n = 128: word 0 is wrong: expected the sum [0-9]+, found [0-9]+
namespace one_size {

Addition addition(unsigned step, unsigned tid, unsigned n) {
  const unsigned s = 32u >> step;  // right for 64 words only
  return {tid < s, tid, tid + s};
}

YOUR_TURN_TEST(tree, one_size, Tree, {addition});

}  // namespace one_size

// answer tree_powers_of_4: not yet: n = 128: word 0 is wrong: expected the sum [0-9]+, found [0-9]+
namespace powers_of_4 {

Addition addition(unsigned step, unsigned tid, unsigned n) {
  const unsigned log4 = n < 256 ? 3 : n < 1024 ? 4 : 5;  // of 64, 256 and 1024
  const unsigned s = (1u << 2 * log4) >> (step + 1);
  return {tid < s, tid, tid + s};
}

YOUR_TURN_TEST(tree, powers_of_4, Tree, {addition});

}  // namespace powers_of_4

// answer tree_512_endless: not yet: n = 512: does not end within [0-9]+ s
namespace of_512 {

Addition addition(unsigned step, unsigned tid, unsigned n) {
  volatile unsigned half = n;
  while (n == 512 && half > 0) half = n;  // looks for a size that it has no case for
  const unsigned s = n >> (step + 1);
  return {tid < s, tid, tid + s};
}

YOUR_TURN_TEST(tree, 512_endless, Tree, {addition});

}  // namespace of_512

}  // namespace
