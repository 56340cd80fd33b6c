// answer: right, but in 8 chunks all is back after 3.00 times one copy; 1.25 will do
#include <algorithm>
#include "chunks.hpp"

namespace {

Chunk chunk(unsigned k, unsigned chunks, size_t bytes) {
  const size_t first = k * bytes / chunks;
  return {first, (k + 1) * bytes / chunks - first, 0};
}

}  // namespace

YOUR_TURN(chunks, Chunks, {chunk});
