// Answers to chunks that are wrong or dear, and what the check has to say of them.
#include <algorithm>
#include "chunks.hpp"

namespace {

// answer chunks_one_stream: right, but in 8 chunks all is back after 3.00 times one copy; 1.25 will
// do
namespace one_stream {

Chunk chunk(unsigned k, unsigned chunks, size_t bytes) {
  const size_t first = k * bytes / chunks;
  return {first, (k + 1) * bytes / chunks - first, 0};
}

YOUR_TURN_TEST(chunks, one_stream, Chunks, {chunk});

}  // namespace one_stream

// answer chunks_two_streams: right, but in 8 chunks all is back after [0-9.]+ times one copy; 1.25
// will do
namespace two_streams {

Chunk chunk(unsigned k, unsigned chunks, size_t bytes) {
  const size_t first = k * bytes / chunks;
  return {first, (k + 1) * bytes / chunks - first, k % 2};
}

YOUR_TURN_TEST(chunks, two_streams, Chunks, {chunk});

}  // namespace two_streams

// answer chunks_rest: not yet: 1 byte in 3 chunks: 1 of 1 bytes is wrong, the first at 0: expected
// to be copied once, found 0 times
namespace rest {

Chunk chunk(unsigned k, unsigned chunks, size_t bytes) {
  const size_t each = bytes / chunks;
  return {k * each, each, k % 3};
}

YOUR_TURN_TEST(chunks, rest, Chunks, {chunk});

}  // namespace rest

// answer chunks_beyond: not yet: 1 byte in 3 chunks: chunk 1 is out of bounds, it has 1 bytes from
// 1 on
namespace beyond {

Chunk chunk(unsigned k, unsigned chunks, size_t bytes) {
  const size_t each = (bytes + chunks - 1) / chunks;
  return {k * each, each, k % 3};
}

YOUR_TURN_TEST(chunks, beyond, Chunks, {chunk});

}  // namespace beyond

}  // namespace
