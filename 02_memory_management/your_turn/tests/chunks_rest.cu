// answer: not yet: 1 byte in 3 chunks: 1 of 1 bytes is wrong, the first at 0: expected to be copied
// once, found 0 times
#include <algorithm>
#include "chunks.hpp"

namespace {

Chunk chunk(unsigned k, unsigned chunks, size_t bytes) {
  const size_t each = bytes / chunks;
  return {k * each, each, k % 3};
}

}  // namespace

YOUR_TURN(chunks, Chunks, {chunk});
