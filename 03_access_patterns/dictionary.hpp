// The host's half of dictionary: texts, words, the hash table, and what is right. Shares no code
// with the kernels.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

namespace vocabulary {

/// A word: as many neighbouring letters as there are, 1 to 64. Letters are A-Z, a-z and all bytes
/// from 128 on, so that words in UTF-8 stay whole. Longer runs of letters are no words.
inline constexpr unsigned longest = 64;
inline constexpr unsigned absent = ~0u;  // -1 as an int, and larger than any index

/// What is searched, and behind it a byte that is no letter.
using Text = std::vector<char>;
Text text_of_file(const std::vector<char>& bytes);
/// `n` bytes of words out of 65536, of which the k-th is drawn with a probability of about
/// 1 / (11 k).
Text made_text(size_t n, unsigned seed);

struct Occurrences {
  unsigned first = absent, count = 0;
};
using Index = std::unordered_map<std::string, Occurrences>;

/// Every word of the text: what is right, and what dictionaries are made of.
Index index_of(const Text& text);

/// `count` words in random order: the text's, at most 15 of 16, taken evenly in the order of their
/// frequency, so that some occur early and some late; the others do not occur.
std::vector<std::string> words_for(const Index& index, size_t count);

/// Where each word first occurs, or `absent`.
std::vector<unsigned> right_answer(const Index& index, const std::vector<std::string>& words);

/// A place in the hash table: free if the word is `absent`.
struct Slot {
  unsigned hash, word;
};

/// 32-bit FNV-1a.
unsigned hash_of(const std::string& word);

/// The words' letters one behind the other, and a hash table of the words: a word stands at its
/// hash modulo the table's size, or at the next free place.
struct Dictionary {
  std::vector<char> letters;
  std::vector<unsigned> begin{0};  ///< of each word in `letters`, and the end of the last
  std::vector<Slot> slots;         ///< a power of two, at most a quarter of it taken

  explicit Dictionary(const std::vector<std::string>& words);
};

}  // namespace vocabulary
