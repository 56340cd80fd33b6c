// answer: right, but in 8 chunks all is back after [0-9.]+ times one copy; 1.25 will do
#include <algorithm>
#include "chunks.hpp"

namespace {

Chunk chunk(unsigned k, unsigned chunks, size_t bytes) {
  const size_t first = k * bytes / chunks;
  return {first, (k + 1) * bytes / chunks - first, k % 2};
}

}  // namespace

YOUR_TURN(chunks, Chunks, {chunk});
