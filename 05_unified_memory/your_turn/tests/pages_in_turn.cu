// answer: right, but a warp touches 2 pages with n = 16385; 1 will do
#include "pages.hpp"

namespace {

long long element(size_t warp, unsigned step, unsigned lane, size_t n) {
  const size_t warps = (n + 16383) / 16384;
  const size_t i = (step * warps + warp) * 32 + lane;
  return i < n ? (long long)(i) : -1;
}

}  // namespace

YOUR_TURN(pages, Pages, {element});
