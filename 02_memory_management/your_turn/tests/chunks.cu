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

// answer chunks_rest: not yet: 1 byte in 3 chunks: bytes 0 to 0: expected to be copied once, found
// 0 times
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

// answer chunks_wrapped: not yet: 1 byte in 3 chunks: chunk 2 is out of bounds, it has
// 18446744073709551615 bytes from 1 on
namespace wrapped {

Chunk chunk(unsigned k, unsigned chunks, size_t bytes) {
  const size_t each = (bytes + chunks - 1) / chunks;
  return {std::min(k * each, bytes), std::min((k + 1) * each, bytes) - k * each, k % 3};
}

YOUR_TURN_TEST(chunks, wrapped, Chunks, {chunk});

}  // namespace wrapped

// answer chunks_twice: not yet: 1 byte in 3 chunks: bytes 0 to 0: expected to be copied once, found
// 3 times
namespace twice {

Chunk chunk(unsigned k, unsigned chunks, size_t bytes) {
  const size_t first = k * bytes / chunks, end = ((k + 1) * bytes + chunks - 1) / chunks;
  return {first, end - first, k % 3};  // the end rounded up, the begin down
}

YOUR_TURN_TEST(chunks, twice, Chunks, {chunk});

}  // namespace twice

// answer chunks_of_32_bits: not yet: 5368709123 bytes in 1 chunk: bytes 1073741827 to 5368709122:
// expected to be copied once, found 0 times
namespace of_32_bits {

Chunk chunk(unsigned k, unsigned chunks, size_t bytes) {
  const unsigned all = unsigned(bytes), each = (all + chunks - 1) / chunks;
  const unsigned first = std::min(k * each, all);
  return {first, std::min(each, all - first), k % 3};
}

YOUR_TURN_TEST(chunks, of_32_bits, Chunks, {chunk});

}  // namespace of_32_bits

}  // namespace
