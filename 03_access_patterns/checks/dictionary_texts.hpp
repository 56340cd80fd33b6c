// Texts for the self-checks of dictionary.
#pragma once

#include "../dictionary.hpp"

namespace vocabulary {

inline Text text_of(const std::string& letters) {
  return Text(letters.c_str(), letters.c_str() + letters.size() + 1);
}

/// The answer where only words that begin in the first `n` bytes are found.
inline std::vector<unsigned> answer_within(std::vector<unsigned> answer, size_t n) {
  for (unsigned& first : answer)
    if (first >= n) first = absent;
  return answer;
}

/// Words at both ends, inside of others, too long, of bytes above 127, and two pairs that share a
/// hash.
inline std::vector<Text> awkward_texts() {
  const std::string run(longest, 'x');
  return {text_of(""),
          text_of("a"),
          text_of("ab abc b.ab"),
          text_of(run + " x" + run),
          text_of("\xc3\xa4 b\xc3\xa4 b"),
          text_of("liquid costarring macallums declinate"),
          made_text(1009, 2),
          made_text(65537, 3)};
}

}  // namespace vocabulary
