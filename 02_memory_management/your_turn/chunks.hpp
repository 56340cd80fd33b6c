// What chunks.cu hands in, and who checks it.
#pragma once

#include <cstddef>

#include "../../framework/common/your_turn.hpp"

/// A part of an array, and the stream by which it is copied there, worked on, and copied back.
struct Chunk {
  size_t first, count;  ///< in bytes
  unsigned stream;
};

struct Chunks {
  Chunk (*chunk)(unsigned k, unsigned chunks, size_t bytes);
};

void check_chunks(const Chunks& yours, const Chunks& solution);
