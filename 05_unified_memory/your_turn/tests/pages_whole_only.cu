// answer: not yet: n = 1: 1 of 1 elements is wrong, the first at 0: expected to be taken once,
// found 0 times
#include "pages.hpp"

namespace {

long long element(size_t warp, unsigned step, unsigned lane, size_t n) {
  const size_t i = warp * 16384 + step * 32;
  return i + 32 <= n ? (long long)(i + lane) : -1;
}

}  // namespace

YOUR_TURN(pages, Pages, {element});
