// Checks arrays.cu: runs the function on the host, then compiles the file once more and reads what
// ptxas says of the kernel's stack frame, which is its local memory.
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "arrays.hpp"

// by CMake the compiler that built the program, and the architecture
#ifndef YOUR_TURN_NVCC
#define YOUR_TURN_NVCC "nvcc"
#define YOUR_TURN_HOST_COMPILER ""
#define YOUR_TURN_ARCHITECTURE "75"
#endif

namespace {

using your_turn::NotYet;

constexpr unsigned values = 16, samples = 32;

unsigned right_answer(const std::vector<unsigned>& given) {
  std::array<unsigned, values> count{};
  for (const unsigned sample : given) ++count[sample];
  return unsigned(std::max_element(count.begin(), count.end()) - count.begin());  // the first
}

std::string quoted(const std::string& text) { return "'" + text + "'"; }

/// Bytes of the stack frame of the file's only kernel.
int local_bytes(const std::string& file) {
  const std::string folder = file.substr(0, file.rfind("/your_turn/") + 10);
  const std::string host = YOUR_TURN_HOST_COMPILER;
  const std::string line =
      quoted(YOUR_TURN_NVCC) + (host.empty() ? "" : " -ccbin " + quoted(host)) +
      " -std=c++20 -O3 -cubin -o /dev/null" + " -Xptxas=-v -Wno-deprecated-gpu-targets -arch=sm_" +
      YOUR_TURN_ARCHITECTURE + " -I" + quoted(folder) + " " + quoted(file) + " 2>&1";
  std::FILE* output = popen(line.c_str(), "r");
  if (!output) throw your_turn::Skipped("the system refuses to start nvcc");
  std::string said;
  char piece[4096];
  while (const size_t length = std::fread(piece, 1, sizeof piece, output))
    said.append(piece, length);
  pclose(output);
  const size_t end = said.find(" bytes stack frame");
  if (end == std::string::npos || end == 0)
    throw your_turn::Skipped("nvcc does not say what is local");
  const size_t begin = said.find_last_not_of("0123456789", end - 1);
  return std::atoi(said.c_str() + begin + 1);
}

}  // namespace

void check_arrays(const Arrays& yours, const Arrays&) {
  for (unsigned kinds = 1; kinds <= values; ++kinds)  // few, so that one is often there, or many
    for (unsigned round = 0; round < 100; ++round) {
      const std::string what =
          "samples " + std::to_string(round) + " of " + std::to_string(kinds) + " values";
      your_turn::watch(what);
      std::vector<unsigned> given(samples);
      for (unsigned i = 0; i < samples; ++i)
        given[i] = (your_turn::number_at(3200 * kinds + 32 * round + i) % kinds + round) % values;
      const unsigned found = yours.most_frequent(given.data()), expected = right_answer(given);
      if (found != expected)
        throw NotYet(what + ": expected " + std::to_string(expected) + ", found " +
                     std::to_string(found));
    }
  your_turn::watch("compiling the kernel", 12);
  if (const int bytes = local_bytes(yours.file); bytes > 0)
    throw your_turn::Dear(std::to_string(bytes) + " local bytes a thread; 0 will do");
}
