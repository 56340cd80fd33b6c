// What is checked of the chunks. Included behind the answer.
#pragma once

#include <algorithm>
#include <map>
#include <vector>

#include "../../common/exercise.hpp"

using Answer = Chunk (*)(unsigned k, unsigned chunks, size_t bytes);

inline void check_bytes(Answer chunk) {
  constexpr size_t beyond_32_bits = (size_t(5) << 30) + 3;
  for (const size_t bytes : {size_t(1), size_t(7), size_t(1000), size_t(1000003), beyond_32_bits})
    for (const unsigned chunks : {1u, 3u, 8u, 16u}) {
      CAPTURE(bytes);
      CAPTURE(chunks);
      std::vector<std::pair<size_t, size_t>> parts = {{bytes, 0}};  // first byte, number of bytes
      for (unsigned k = 0; k < chunks; ++k) {
        const Chunk c = chunk(k, chunks, bytes);
        if (c.first > bytes || c.count > bytes - c.first)
          FAIL("chunk " << k << " ends behind the array: it has " << c.count << " bytes from byte "
                        << c.first << " on");
        if (c.count > 0) parts.push_back({c.first, c.count});
      }
      std::sort(parts.begin(), parts.end());
      size_t next = 0;  // the first byte that no chunk has yet
      for (const auto& [first, count] : parts) {
        if (first > next) FAIL("byte " << next << " is in no chunk");
        if (first < next) FAIL("byte " << first << " is in two chunks");
        next = first + count;
      }
    }
}

inline void check_time(Answer chunk) {
  constexpr unsigned chunks = 8;
  constexpr size_t bytes = size_t(1) << 20;
  // When each engine and each stream has done what it was given. One engine copies there, one works
  // and one copies back; each of them takes the time 1 for all bytes.
  double engines[3] = {};
  std::map<unsigned, double> streams;
  for (unsigned k = 0; k < chunks; ++k) {
    const Chunk c = chunk(k, chunks, bytes);
    double& stream = streams[c.stream];
    for (double& engine : engines)
      engine = stream = std::max(engine, stream) + double(c.count) / double(bytes);
  }
  if (engines[2] > 1.26)
    FAIL("they take " << digits(engines[2]) << " times as long as one copy; 1.25 will do");
}

TEST_CASE("right: every byte is in one chunk") { check_bytes(chunk); }
TEST_CASE("cheap: eight chunks take 1.25 times as long as one copy") { check_time(chunk); }
