// Checks chunks.cu: every byte once, then the time by a model of three engines: one copies to the
// device, one computes, one copies back. Each takes a chunk at a time, in the order of issue, and a
// stream's work waits for what was issued to it before.
#include <algorithm>
#include <cstdio>

#include "chunks.hpp"

namespace {

using your_turn::NotYet;

std::vector<Chunk> require_right(const Chunks& yours, unsigned chunks, size_t bytes) {
  const std::string what = std::to_string(bytes) + (bytes == 1 ? " byte in " : " bytes in ") +
                           std::to_string(chunks) + (chunks == 1 ? " chunk" : " chunks");
  your_turn::watch(what);
  std::vector<Chunk> all;
  std::vector<unsigned> taken(bytes);
  for (unsigned k = 0; k < chunks; ++k) {
    const Chunk c = yours.chunk(k, chunks, bytes);
    if (c.first > bytes || c.count > bytes - c.first)
      throw NotYet(what + ": chunk " + std::to_string(k) + " is out of bounds, it has " +
                   std::to_string(c.count) + " bytes from " + std::to_string(c.first) + " on");
    for (size_t i = c.first; i < c.first + c.count; ++i) ++taken[i];
    all.push_back(c);
  }
  your_turn::Wrong wrong(what, "bytes");
  for (size_t i = 0; i < bytes; ++i)
    wrong.add(taken[i] == 1, [&] {
      return "at " + std::to_string(i) + ": expected to be copied once, found " +
             std::to_string(taken[i]) + " times";
    });
  wrong.require_none();
  return all;
}

/// Until all is back, where 1 is what one engine takes for all bytes.
double time_of(const std::vector<Chunk>& all, size_t bytes) {
  double engine[3] = {};  // when it has done what it was given
  std::vector<double> stream;
  for (const Chunk& c : all) {
    const size_t s = std::min<size_t>(c.stream, 1023);
    if (stream.size() <= s) stream.resize(s + 1);
    for (double& free : engine) {
      free = std::max(free, stream[s]) + double(c.count) / double(bytes);
      stream[s] = free;
    }
  }
  return engine[2];
}

}  // namespace

void check_chunks(const Chunks& yours, const Chunks& solution) {
  for (const size_t bytes : {size_t(1), size_t(7), size_t(1000), size_t(1000003)})
    for (const unsigned chunks : {1u, 3u, 8u, 16u}) require_right(yours, chunks, bytes);
  constexpr unsigned chunks = 8;
  constexpr size_t bytes = size_t(1) << 20;
  const double time = time_of(require_right(yours, chunks, bytes), bytes);
  const double least = time_of(require_right(solution, chunks, bytes), bytes);
  if (time > 1.01 * least) {
    char text[160];
    std::snprintf(text, sizeof text,
                  "in %u chunks all is back after %.2f times one copy; %.2f will do", chunks, time,
                  least);
    throw your_turn::Dear(text);
  }
}
