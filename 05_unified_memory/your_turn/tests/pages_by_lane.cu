// answer: right, but 32 sectors a request with n = 16383; 4 will do
#include "pages.hpp"

namespace {

long long element(size_t warp, unsigned step, unsigned lane, size_t n) {
  const size_t i = warp * 16384 + lane * 512 + step;
  return i < n ? (long long)(i) : -1;
}

}  // namespace

YOUR_TURN(pages, Pages, {element});
