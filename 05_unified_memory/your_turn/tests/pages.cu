// Answers to pages that are wrong or dear, and what the check has to say of them.
#include "pages.hpp"

namespace {

// answer pages_by_lane: right, but 32 sectors a request with n = 16383; 4 will do
namespace by_lane {

long long element(size_t warp, unsigned step, unsigned lane, size_t n) {
  const size_t i = warp * 16384 + lane * 512 + step;
  return i < n ? (long long)(i) : -1;
}

YOUR_TURN_TEST(pages, by_lane, Pages, {element});

}  // namespace by_lane

// answer pages_in_turn: right, but a warp touches 2 pages with n = 16385; 1 will do
namespace in_turn {

long long element(size_t warp, unsigned step, unsigned lane, size_t n) {
  const size_t warps = (n + 16383) / 16384;
  const size_t i = (step * warps + warp) * 32 + lane;
  return i < n ? (long long)(i) : -1;
}

YOUR_TURN_TEST(pages, in_turn, Pages, {element});

}  // namespace in_turn

// answer pages_unguarded: not yet: n = 1: warp 0, step 0, lane 1 is out of bounds, it takes element
// 1
namespace unguarded {

long long element(size_t warp, unsigned step, unsigned lane, size_t n) {
  return (long long)(warp * 16384 + step * 32 + lane);
}

YOUR_TURN_TEST(pages, unguarded, Pages, {element});

}  // namespace unguarded

// answer pages_whole_only: not yet: n = 1: 1 of 1 elements is wrong, the first at 0: expected to be
// taken once, found 0 times
namespace whole_only {

long long element(size_t warp, unsigned step, unsigned lane, size_t n) {
  const size_t i = warp * 16384 + step * 32;
  return i + 32 <= n ? (long long)(i + lane) : -1;
}

YOUR_TURN_TEST(pages, whole_only, Pages, {element});

}  // namespace whole_only

// answer pages_of_32_bits: not yet: n = 8589934597: warp 262144 takes page 0, as warp 0 does
namespace of_32_bits {

long long element(size_t warp, unsigned step, unsigned lane, size_t n) {
  const unsigned i = unsigned(warp) * 16384 + step * 32 + lane;
  return i < n ? (long long)(i) : -1;
}

YOUR_TURN_TEST(pages, of_32_bits, Pages, {element});

}  // namespace of_32_bits

// answer pages_of_31_bits: not yet: n = 8589934597: warp 131072: expected 16384 elements, found 0
namespace of_31_bits {

long long element(size_t warp, unsigned step, unsigned lane, size_t n) {
  const int i = int(unsigned(warp) * 16384 + step * 32 + lane);
  return (long long)(i) < (long long)(n) ? i : -1;
}

YOUR_TURN_TEST(pages, of_31_bits, Pages, {element});

}  // namespace of_31_bits

}  // namespace
