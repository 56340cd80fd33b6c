// The host's half of dictionary: texts, words, the hash table, and what is right.
#include <algorithm>
#include <cmath>
#include <random>

#include "dictionary.hpp"

namespace vocabulary {

namespace {

bool letter(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return (byte >= 'A' && byte <= 'Z') || (byte >= 'a' && byte <= 'z') || byte >= 128;
}

std::string some_word(std::mt19937& random) {
  std::string word;
  for (size_t left = 3 + random() % 10; left > 0; --left) word += char('a' + random() % 26);
  return word;
}

}  // namespace

Text text_of_file(const std::vector<char>& bytes) {
  Text text = bytes;
  text.push_back(0);
  return text;
}

Text made_text(size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::string> vocabulary(65536);
  for (std::string& word : vocabulary) word = some_word(random);
  Text text;
  text.reserve(n + 16);
  while (text.size() < n) {
    const double exponent = 16 * (random() / 4294967296.0);
    const std::string& word = vocabulary[size_t(std::exp2(exponent)) - 1];
    text.insert(text.end(), word.begin(), word.end());
    text.push_back(word.size() % 8 == 0 ? '\n' : ' ');
  }
  text.resize(n);
  text.push_back(0);
  return text;
}

Index index_of(const Text& text) {
  Index index;
  std::string word;
  for (size_t at = 0, end; at + 1 < text.size(); at = end + 1) {
    for (end = at; letter(text[end]);) ++end;
    if (end == at || end - at > longest) continue;
    Occurrences& found = index[word.assign(&text[at], end - at)];
    if (found.count++ == 0) found.first = unsigned(at);
  }
  return index;
}

std::vector<std::string> words_for(const Index& index, size_t count) {
  std::vector<std::pair<std::string, Occurrences>> all(index.begin(), index.end());
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    if (a.second.count != b.second.count) return a.second.count > b.second.count;
    return a.second.first < b.second.first;
  });
  const size_t taken = std::min(all.size(), count - count / 16);
  std::vector<std::string> words;
  for (size_t k = 0; k < taken; ++k) words.emplace_back(all[k * all.size() / taken].first);
  std::mt19937 random(7);
  while (words.size() < count) {
    words.push_back(some_word(random));
    if (index.count(words.back())) words.pop_back();
  }
  std::shuffle(words.begin(), words.end(), random);
  return words;
}

std::vector<unsigned> right_answer(const Index& index, const std::vector<std::string>& words) {
  std::vector<unsigned> first;
  for (const std::string& word : words) {
    const auto found = index.find(word);
    first.push_back(found == index.end() ? absent : found->second.first);
  }
  return first;
}

unsigned hash_of(const std::string& word) {
  unsigned hash = 2166136261u;
  for (const char c : word) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return hash;
}

Dictionary::Dictionary(const std::vector<std::string>& words) {
  size_t size = 1;
  while (size < 4 * words.size()) size *= 2;
  slots.assign(size, {0, absent});
  for (const std::string& word : words) {
    size_t slot = hash_of(word) % size;
    while (slots[slot].word != absent) slot = (slot + 1) % size;
    slots[slot] = {hash_of(word), unsigned(begin.size() - 1)};
    letters.insert(letters.end(), word.begin(), word.end());
    begin.push_back(unsigned(letters.size()));
  }
}

}  // namespace vocabulary
