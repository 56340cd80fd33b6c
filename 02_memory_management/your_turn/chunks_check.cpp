// Checks chunks.cu: every byte once, then the time by a model of three engines: one copies to the
// device, one computes, one copies back. Each takes a chunk at a time, in the order of issue, and a
// stream's work waits for what was issued to it before.
#include <algorithm>
#include <cstdio>
#include <iterator>
#include <map>

#include "chunks.hpp"

namespace {

using your_turn::NotYet;

constexpr size_t beyond_32_bits = (size_t(5) << 30) + 3;

std::vector<Chunk> require_right(const Chunks& yours, unsigned chunks, size_t bytes) {
  const std::string what = std::to_string(bytes) + (bytes == 1 ? " byte in " : " bytes in ") +
                           std::to_string(chunks) + (chunks == 1 ? " chunk" : " chunks");
  your_turn::watch(what);
  std::vector<Chunk> all;
  std::map<size_t, int> more;  // by so many more chunks the bytes from here on are taken
  more[0] = more[bytes] = 0;
  for (unsigned k = 0; k < chunks; ++k) {
    const Chunk c = yours.chunk(k, chunks, bytes);
    if (c.first > bytes || c.count > bytes - c.first)
      throw NotYet(what + ": chunk " + std::to_string(k) + " is out of bounds, it has " +
                   std::to_string(c.count) + " bytes from " + std::to_string(c.first) + " on");
    ++more[c.first];
    --more[c.first + c.count];
    all.push_back(c);
  }
  int taken = 0;
  for (auto part = more.begin(); part->first < bytes; ++part) {
    taken += part->second;
    if (taken == 1) continue;
    const size_t wrong = std::next(part)->first - part->first;
    if (wrong == 0) continue;
    throw NotYet(what + ": bytes " + std::to_string(part->first) + " to " +
                 std::to_string(part->first + wrong - 1) + ": expected to be copied once, found " +
                 std::to_string(taken) + " times");
  }
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
  for (const size_t bytes : {size_t(1), size_t(7), size_t(1000), size_t(1000003), beyond_32_bits})
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
