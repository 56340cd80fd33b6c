// What is checked of the most frequent value. Included behind the answer.
#pragma once

#include <algorithm>

#include "../../common/arrays.cuh"
#include "../../common/exercise.hpp"
#include "machine_code.hpp"

/// Thread i has samples 32 * i to 32 * i + 31. It is compiled, and never launched.
__global__ void most_frequent_of_each(unsigned* out, const unsigned* in) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = most_frequent(in + size_t(32) * i);
}

inline void check_values(unsigned (*most_frequent)(const unsigned*)) {
  for (unsigned kinds = 1; kinds <= 16; ++kinds)  // few, so that each is there often, or many
    for (unsigned set = 0; set < 100; ++set) {
      unsigned samples[32], count[16] = {};
      std::string text;
      for (unsigned i = 0; i < 32; ++i) {
        samples[i] = (hash(3200 * kinds + 32 * set + i) % kinds + set) % 16;
        ++count[samples[i]];
        text += std::to_string(samples[i]) + ' ';
      }
      const auto right = std::max_element(count, count + 16) - count;  // the first of several
      const unsigned found = most_frequent(samples);
      if (found != right)
        FAIL("it returns " << found << " of " << text << "and " << right << " is right");
    }
}

TEST_CASE("right: the most frequent value, and the smallest of several") {
  check_values(most_frequent);
}

/// Of a kernel of this program.
inline void check_no_local_memory(const std::string& kernel) {
  const std::string code = machine_code(kernel);
  if (code.empty()) return skip("python3 or cuobjdump is not here, or shows no machine code");
  if (code.find("local") != std::string::npos) FAIL("it loads from local memory: " << code);
}

TEST_CASE("cheap: no local memory") { check_no_local_memory("most_frequent_of_each"); }
