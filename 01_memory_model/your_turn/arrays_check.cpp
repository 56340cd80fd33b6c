// Checks arrays.cu: runs the function on the host, then compiles the file once more and reads what
// ptxas says of the kernel's stack frame, which is its local memory.
#include <algorithm>
#include <cstdlib>

#include "arrays.hpp"
#include "compile.hpp"

namespace {

using your_turn::NotYet;

constexpr unsigned values = 16, samples = 32;

unsigned right_answer(const std::vector<unsigned>& given) {
  std::array<unsigned, values> count{};
  for (const unsigned sample : given) ++count[sample];
  return unsigned(std::max_element(count.begin(), count.end()) - count.begin());  // the first
}

/// Bytes of the stack frame of the file's only kernel.
int local_bytes(const std::string& file) {
  const std::string said = compiled(file, "-cubin -o /dev/null -Xptxas=-v");
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
