// Self-checks of dictionary_host.cu, compiled in its place where BUILD_TESTING is on.
#include "../dictionary_host.cu"

#include <doctest/doctest.h>

#include "dictionary_texts.hpp"

using namespace vocabulary;

TEST_CASE("dictionary: the index holds what stands in the text") {
  const Index index = index_of(text_of("ab abc b,ab"));
  CHECK(index.size() == 3);
  CHECK(index.at("ab").count == 2);
  CHECK(right_answer(index, {"ab", "abc", "b", "a"}) == std::vector<unsigned>{0, 3, 7, absent});
  CHECK(answer_within({0, 3, 7, absent}, 7) == std::vector<unsigned>{0, 3, absent, absent});
  CHECK(index_of(text_of(std::string(longest, 'x'))).size() == 1);
  CHECK(index_of(text_of(std::string(longest + 1, 'x'))).empty());
  CHECK(index_of(text_of("")).empty());
  const Index others = index_of(text_of("@[`{ Az zA\xc3\xa4 19"));  // beside the letters
  CHECK(others.size() == 2);
  CHECK(others.count("zA\xc3\xa4") == 1);
}

TEST_CASE("dictionary: a word's first place in the table is free for no other") {
  CHECK(hash_of("") == 0x811c9dc5u);  // as published with the hash
  CHECK(hash_of("foobar") == 0xbf9cf968u);
  CHECK(hash_of("costarring") == hash_of("liquid"));
  CHECK(hash_of("declinate") == hash_of("macallums"));
  for (const Text& text : awkward_texts()) {
    const std::vector<std::string> words = words_for(index_of(text), 64);
    const Dictionary d(words);
    CHECK(d.slots.size() == 256);
    for (unsigned w = 0; w < words.size(); ++w) {
      CHECK(std::string(&d.letters[d.begin[w]], d.begin[w + 1] - d.begin[w]) == words[w]);
      size_t slot = hash_of(words[w]) % d.slots.size();
      while (d.slots[slot].word != w && d.slots[slot].word != absent)
        slot = (slot + 1) % d.slots.size();
      CHECK(d.slots[slot].word == w);
      CHECK(d.slots[slot].hash == hash_of(words[w]));
    }
  }
}

TEST_CASE("dictionary: made texts have early and late words, and words that do not occur") {
  const Text text = made_text(100000, 1);
  CHECK(text.size() == 100001);
  const Index index = index_of(text);
  const std::vector<unsigned> answer = right_answer(index, words_for(index, 1024));
  CHECK(std::count(answer.begin(), answer.end(), absent) == 64);
  const auto found = [&](unsigned from, unsigned to) {
    return std::count_if(answer.begin(), answer.end(),
                         [&](unsigned first) { return first >= from && first < to; });
  };
  CHECK(found(0, 25000) > 100);
  CHECK(found(75000, 100000) > 100);
}
