// chunks: an array is copied to the device, worked on, and copied back, in chunks. While one chunk
// is worked on, the next is on its way there, and the one before is on its way back.
//
//   for (unsigned k = 0; k < chunks; ++k) {
//     const Chunk c = chunk(k, chunks, bytes);
//     cudaMemcpyAsync(device + c.first, host + c.first, c.count, ..., stream[c.stream]);
//     launch(work, device + c.first, c.count, stream[c.stream]);
//     cudaMemcpyAsync(host + c.first, device + c.first, c.count, ..., stream[c.stream]);
//   }
//
// The device can copy one chunk there, work on one, and copy one back at the same time. What is in
// the same stream waits for what was given to the stream before. Write where each chunk lies and
// which stream takes it (from 0 on, as many as you like).
//
// Right: every byte is in one chunk, for any number of bytes. A chunk may be empty. Cheap: eight
// chunks take 1.25 times as long as one copy, not 3 times. A model of the three engines tells the
// time.
//
// Difficulty 2 of 5, about 15 minutes. Needs no GPU.
//
//   cmake --build build/release --target your_chunks
//   build/release/02_memory_management/your_chunks
#include <algorithm>
#include <cstddef>

struct Chunk {
  size_t first, count;  ///< the first byte, and the number of bytes
  unsigned stream;
};

// [your turn]

// Borders by rounding up: the last chunks are shorter, or empty, and none goes beyond the end. A
// chunk has three things done to it, so three streams keep three engines busy: with two, chunk 2
// would wait until chunk 0 is back. The first chunk and the last leave engines idle: 8 + 2
// eighths of a copy.

/// {the first byte, the number of bytes, the stream} of chunk k of `chunks`.
Chunk chunk(unsigned k, unsigned chunks, size_t bytes) {
  const size_t each = (bytes + chunks - 1) / chunks;
  const size_t first = std::min(k * each, bytes);
  return {first, std::min(each, bytes - first), k % 3};
}

// [/your turn]

#include "../chunks_check.hpp"

WRONG_ANSWER("rounded down, which forgets the rest") {
  check_bytes([](unsigned k, unsigned chunks, size_t bytes) -> Chunk {
    return {bytes / chunks * k, bytes / chunks, k % 3};
  });
}
WRONG_ANSWER("rounded up, without the end") {
  check_bytes([](unsigned k, unsigned chunks, size_t bytes) -> Chunk {
    const size_t each = (bytes + chunks - 1) / chunks;
    return {k * each, each, k % 3};
  });
}
WRONG_ANSWER("two streams") {
  check_time([](unsigned k, unsigned chunks, size_t bytes) -> Chunk {
    const Chunk right = chunk(k, chunks, bytes);
    return {right.first, right.count, k % 2};
  });
}
