// dictionary: where each of 16384 words first occurs in a text of 50 MB. A reader of the 2007 study gave each word a
// thread that goes through the whole text, and got no answer. Look at how much a block for each word gains, whose warps
// read 32 neighbouring letters at a time, and how much more a thread for each position, which reads the text once.
#include <doctest/doctest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <unordered_map>

#include "../common/first_edition.hpp"
#include "options.hpp"
#include "transactions.hpp"

namespace {

// A word: as many neighbouring letters as there are, 1 to 64. Letters are A-Z, a-z and all bytes from 128 on, so that
// words in UTF-8 stay whole. Longer runs of letters are no words. Every text ends with a byte that is no letter.
constexpr unsigned longest = 64;
__host__ __device__ bool is_letter(char c) { return (unsigned(c | 32) - 'a') < 26 || (unsigned char)c >= 128; }
__host__ __device__ bool begins_run(const char* text, size_t at) {
  return is_letter(text[at]) && (at == 0 || !is_letter(text[at - 1]));
}

constexpr unsigned absent = ~0u;  // -1 as an int, and larger than any index

/// A place in the hash table: free if the word is `absent`.
struct Slot {
  unsigned hash, word;
};

/// The dictionary as a kernel sees it: the words' letters one behind the other, and a hash table of the words.
struct Words {
  const char* letters;
  const unsigned* begin;  ///< of each word in `letters`, and the end of the last
  const Slot* slots;
  unsigned count, mask;  ///< words; slots less one, a power of two less one
};

/// Whether word `w` stands at position `at`. Nothing is read behind the text's last byte: it differs from any letter.
__host__ __device__ bool word_at(const char* text, size_t at, const Words& words, unsigned w) {
  const char* word = words.letters + words.begin[w];
  const unsigned length = words.begin[w + 1] - words.begin[w];
  for (unsigned k = 0; k < length; ++k)
    if (text[at + k] != word[k]) return false;
  return !is_letter(text[at + length]) && begins_run(text, at);
}

constexpr unsigned hash_begin = 2166136261u;  // FNV-1a
__host__ __device__ unsigned hash_step(unsigned hash, char c) { return (hash ^ (unsigned char)c) * 16777619u; }

/// The number of the dictionary's word at `at`, where a run of letters begins; `absent` if it has none.
__host__ __device__ unsigned look_up(const char* text, size_t at, const Words& words) {
  unsigned hash = hash_begin, length = 0;
  for (; length <= longest && is_letter(text[at + length]); ++length) hash = hash_step(hash, text[at + length]);
  if (length > longest) return absent;
  for (unsigned slot = hash & words.mask; words.slots[slot].word != absent; slot = (slot + 1) & words.mask)
    if (words.slots[slot].hash == hash && word_at(text, at, words, words.slots[slot].word))
      return words.slots[slot].word;
  return absent;
}

constexpr unsigned threads = 256;
constexpr unsigned steps = 16;  // positions that a thread of block_a_word tries before its block asks whether one hit

/// The position that a thread tries where neighbouring threads have neighbouring ones.
__host__ __device__ size_t own_position(size_t from, unsigned thread) { return from + thread; }

// Each lane has its own word and goes through the text; while they keep step, a warp reads one letter of the text.
__global__ void thread_a_word(unsigned* first, const char* text, size_t n, Words words) {
  const unsigned w = blockIdx.x * blockDim.x + threadIdx.x;
  if (w >= words.count) return;
  for (size_t at = 0; at < n; ++at)
    if (word_at(text, at, words, w)) {
      first[w] = unsigned(at);
      return;
    }
}

// The block has one word; a warp reads 32 neighbouring letters. The block stops behind the first hit.
__global__ void block_a_word(unsigned* first, const char* text, size_t n, Words words) {
  const unsigned w = blockIdx.x;
  for (size_t from = 0; from < n; from += threads * steps) {
    unsigned hit = absent;
    for (unsigned k = 0; k < steps && hit == absent; ++k) {
      const size_t at = own_position(from + k * threads, threadIdx.x);
      if (at < n && word_at(text, at, words, w)) hit = unsigned(at);
    }
    if (hit != absent) atomicMin(first + w, hit);
    if (__syncthreads_or(hit != absent)) return;
  }
}

// A warp reads 32 neighbouring letters; the lanes at which a word begins hash it and ask the table. `first` may come
// out of an L1 that is behind: it is then too large, which costs an atomic and changes nothing.
__global__ void thread_a_position(unsigned* first, const char* text, size_t n, Words words) {
  const size_t at = own_position(size_t(blockIdx.x) * blockDim.x, threadIdx.x);
  if (at >= n || !begins_run(text, at)) return;
  const unsigned w = look_up(text, at, words);
  if (w != absent && __ldca(first + w) > at) atomicMin(first + w, unsigned(at));
}

// ---- the host's side ------------------------------------------------------------------------------------------------

using Text = std::vector<char>;  // what is searched, and the byte behind it
Text text_of(std::string letters) { return Text(letters.c_str(), letters.c_str() + letters.size() + 1); }

struct Occurrences {
  unsigned first = absent, count = 0;
};
using Index = std::unordered_map<std::string, Occurrences>;

/// Every word of the text: the reference, and what dictionaries are made of.
Index index_of(const Text& text) {
  Index index;
  std::string word;
  for (size_t at = 0, end; at + 1 < text.size(); at = end + 1) {
    for (end = at; is_letter(text[end]);) ++end;
    if (end == at || end - at > longest) continue;
    Occurrences& found = index[word.assign(&text[at], end - at)];
    if (found.count++ == 0) found.first = unsigned(at);
  }
  return index;
}

std::string some_word(std::mt19937& random) {
  std::string word;
  for (size_t left = 3 + random() % 10; left > 0; --left) word += char('a' + random() % 26);
  return word;
}

/// `n` bytes of words out of 65536, of which the k-th is drawn with a probability of about 1 / (11 k).
Text made_text(size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::string> vocabulary(65536);
  for (std::string& word : vocabulary) word = some_word(random);
  Text text;
  text.reserve(n + 16);
  while (text.size() < n) {
    const std::string& word = vocabulary[size_t(std::exp2(16 * (random() / 4294967296.0))) - 1];
    text.insert(text.end(), word.begin(), word.end());
    text.push_back(word.size() % 8 == 0 ? '\n' : ' ');
  }
  text.resize(n);
  text.push_back(0);
  return text;
}

/// The bytes of a file, and the byte behind them.
Text text_of_file(const std::vector<char>& bytes) {
  Text text = bytes;
  text.push_back(0);
  return text;
}

/// `count` words in random order: the text's, at most 15 of 16, taken evenly in the order of their frequency, so that
/// some occur early and some late; the others do not occur.
std::vector<std::string> words_for(const Index& index, size_t count) {
  std::vector<std::pair<std::string, Occurrences>> all(index.begin(), index.end());
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return a.second.count != b.second.count ? a.second.count > b.second.count : a.second.first < b.second.first;
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

/// What is right: the index of the first occurrence of each word.
std::vector<unsigned> right_answer(const Index& index, const std::vector<std::string>& words) {
  std::vector<unsigned> first;
  for (const std::string& word : words) first.push_back(index.count(word) ? index.at(word).first : absent);
  return first;
}

/// The answer where only the first `n` bytes are searched.
std::vector<unsigned> answer_within(std::vector<unsigned> answer, size_t n) {
  for (unsigned& first : answer)
    if (first >= n) first = absent;
  return answer;
}

unsigned hash_of(const std::string& word) {
  unsigned hash = hash_begin;
  for (const char c : word) hash = hash_step(hash, c);
  return hash;
}

/// The dictionary in the host's memory.
struct HostWords {
  std::vector<char> letters;
  std::vector<unsigned> begin{0};
  std::vector<Slot> slots;

  explicit HostWords(const std::vector<std::string>& words) {
    size_t size = 1;
    while (size < 4 * words.size()) size *= 2;  // at most a quarter is taken: few words share a place
    slots.assign(size, {0, absent});
    for (const std::string& word : words) {
      size_t slot = hash_of(word) % size;
      while (slots[slot].word != absent) slot = (slot + 1) % size;
      slots[slot] = {hash_of(word), unsigned(begin.size() - 1)};
      letters.insert(letters.end(), word.begin(), word.end());
      begin.push_back(unsigned(letters.size()));
    }
  }
};

/// A dictionary as kernels see it, in vectors or in buffers of the device.
template <class Letters, class Begin, class Slots>
Words view_of(const Letters& letters, const Begin& begin, const Slots& slots) {
  return {letters.data(), begin.data(), slots.data(), unsigned(begin.size() - 1), unsigned(slots.size() - 1)};
}

enum { by_thread, by_block, by_position };
constexpr const char* layouts[] = {"a thread a word", "a block a word", "a thread a position"};

/// Text and dictionary on the device, and what is right.
struct Work {
  Work(const Text& host_text, const HostWords& host, const std::vector<unsigned>& answer)
      : answer(answer), text(host_text), letters(host.letters), begin(host.begin), slots(host.slots) {}

  std::vector<unsigned> answer;
  DeviceBuffer<char> text, letters;
  DeviceBuffer<unsigned> begin, first{answer.size()};
  DeviceBuffer<Slot> slots;

  /// Searches the first `n` bytes. An index larger than any, `absent`, stands in `first` until a word is found.
  void launch(int layout, size_t n) const {
    const Words words = view_of(letters, begin, slots);
    const auto blocks = [](size_t wanted) { return unsigned((wanted + threads - 1) / threads); };
    CUDA_CHECK(cudaMemsetAsync(first.data(), 0xff, first.bytes()));
    if (n == 0) return;
    if (layout == by_thread) thread_a_word<<<blocks(words.count), threads>>>(first.data(), text.data(), n, words);
    if (layout == by_block) block_a_word<<<words.count, threads>>>(first.data(), text.data(), n, words);
    if (layout == by_position) thread_a_position<<<blocks(n), threads>>>(first.data(), text.data(), n, words);
    CUDA_CHECK_LAUNCH();
  }
  bool right(int layout, size_t n) const {
    launch(layout, n);
    return first.to_host() == answer_within(answer, n);
  }
};

/// Positions at which the layout compares in the first `n` bytes; the block goes on for less than a step more.
double positions_tried(int layout, size_t n, const std::vector<unsigned>& answer) {
  if (layout == by_position) return double(n);
  double sum = 0;
  for (const unsigned first : answer) sum += double(std::min(n, first + size_t(1)));
  return sum;
}

/// Sectors in which the letters lie that a warp reads first at its positions.
int text_sectors(int layout) {
  return sectors(warp_of(1, [&](unsigned lane) { return layout == by_thread ? 0 : own_position(0, lane); }));
}

}  // namespace

void dictionary(const Run& run, const Options& options) {
  constexpr size_t count = 16384;
  const bool typed = !options.text.empty();
  const size_t n = typed ? options.text_bytes.size() : run.quick ? 5000000 : 50000000;
  // 4 MiB for the dictionary
  if (typed && run.device)
    require_fits("--text: '" + options.text + "'", double(n) + (4 << 20), double(Device::free_bytes()));
  run.report.begin("dictionary", std::to_string(count) + " words in " + std::to_string(n) + " bytes of text (" +
                                     (typed ? options.text : "made with seed 1") + ")");
  const Text text = typed ? text_of_file(options.text_bytes) : made_text(n, 1);
  const Index index = index_of(text);
  const std::vector<std::string> words = words_for(index, count);
  const std::vector<unsigned> answer = right_answer(index, words);
  const size_t missing = size_t(std::count(answer.begin(), answer.end(), absent));

  run.report.note("a word: a run of at most " + std::to_string(longest) + " letters: A-Z, a-z, bytes from 128 on");
  run.report.note("searched for: " + std::to_string(count - missing) + " of the text's " +
                  std::to_string(index.size()) + " words, taken evenly by frequency, and " + std::to_string(missing) +
                  " that do not occur");
  std::optional<Work> work;
  if (run.device) work.emplace(text, HostWords(words), answer);
  Table table(run.report, "search",
              {predicted("1e9 positions", "positions tried", "1e9", 3),
               predicted("sectors/read", "sectors a request of text", "", 0), shown("searched"),
               measured("median ms", "time of the part searched", "ms", 3), shown("spread"),
               predicted("all ms", "time of all", "ms", 3), shown("faster")});
  double slowest = 0;
  for (const int layout : {by_thread, by_block, by_position}) {
    const double tried = positions_tried(layout, n, answer);
    std::vector<Cell> cells{tried * 1e-9, double(text_sectors(layout)), {}, {}, {}, {}, {}};
    if (work) {
      // the first two would take seconds
      const size_t part = layout == by_position ? n : std::min<size_t>(n, run.full ? 1 << 20 : 1 << 16);
      require_right(work->right(layout, part), layouts[layout]);
      const Statistics ms = time_device(run.measuring, [&] { work->launch(layout, part); });
      double scale = 1;  // of the first, whose slowest threads find nothing, by bytes; of the second by positions
      if (part < n) scale = layout == by_thread ? double(n) / part : tried / positions_tried(layout, part, answer);
      if (layout == by_thread) slowest = scale * ms.median;
      cells[2] = part == n ? "all" : bytes_text(double(part));
      cells[3] = ms, cells[4] = spread_text(ms), cells[5] = scaled(ms, scale);
      cells[6] = times(slowest / (scale * ms.median));
    }
    table.row({layouts[layout]}, cells);
  }
  table.print();
  if (!run.device) return run.report.left_out("the searches");
  run.report.note(
      "all ms: where only the beginning was searched, scaled: a thread a word by bytes, a block by positions");
  if (n < 2 * run.device->l2_bytes()) run.report.note("the text is less than twice the L2 and may be read from there");
}

// ---- self-checks ----------------------------------------------------------------------------------------------------

namespace {

/// Words at both ends, inside of others, too long, of bytes above 127, and two pairs that share a hash.
std::vector<Text> some_texts() {
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

}  // namespace

TEST_CASE("dictionary: the index holds what stands in the text") {
  const Index index = index_of(text_of("ab abc b,ab"));
  CHECK(index.size() == 3);
  CHECK(index.at("ab").count == 2);
  CHECK(right_answer(index, {"ab", "abc", "b", "a"}) == std::vector<unsigned>{0, 3, 7, absent});
  CHECK(index_of(text_of(std::string(longest, 'x'))).size() == 1);
  CHECK(index_of(text_of(std::string(longest + 1, 'x'))).empty());
  CHECK(index_of(text_of("")).empty());
}

TEST_CASE("dictionary: the table answers with the word that stands there") {
  CHECK(hash_of("costarring") == hash_of("liquid"));
  CHECK(hash_of("declinate") == hash_of("macallums"));
  for (const Text& text : some_texts()) {
    const Index index = index_of(text);
    const std::vector<std::string> some = words_for(index, 64);
    const HostWords host(some);
    const Words words = view_of(host.letters, host.begin, host.slots);
    std::vector<unsigned> first(words.count, absent);
    size_t wrong = 0;
    for (size_t at = text.size() - 1; at-- > 0;) {
      const unsigned found = begins_run(text.data(), at) ? look_up(text.data(), at, words) : absent;
      for (unsigned w = 0; w < words.count; ++w) wrong += word_at(text.data(), at, words, w) != (w == found);
      if (found != absent) first[found] = unsigned(at);
    }
    CHECK(wrong == 0);
    CHECK(first == right_answer(index, some));
  }
}

TEST_CASE("dictionary: every layout is right") {
  if (skip_without_gpu()) return;
  for (const Text& text : some_texts())
    for (const size_t count : {1, 33, 1009}) {
      const Index index = index_of(text);
      const std::vector<std::string> words = words_for(index, count);
      const Work work(text, HostWords(words), right_answer(index, words));
      for (const int layout : {by_thread, by_block, by_position})
        for (const size_t n : {text.size() - 1, text.size() / 3}) {
          CAPTURE(n);
          CAPTURE(layouts[layout]);
          CHECK(work.right(layout, n));
        }
    }
}
