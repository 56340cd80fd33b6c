// dictionary: where each of 16384 words first occurs in a text of 50 MB. A reader of the 2007 study
// [BW] gave each word a thread that goes through the whole text, and got no answer. Look at how
// much a block for each word gains, whose warps read 32 neighbouring letters at a time, and how
// much more a thread for each position gains, since together they read the text once. Why he got no
// answer is in dictionary_copy.cu.
//   cmake -S 03_access_patterns -B build/dictionary -DEXPERIMENTS=dictionary
//   cmake --build build/dictionary && build/dictionary/03_access_patterns --text FILE
//
//   1  thread_a_word       the reader's
//   2  block_a_word        stops at the first hit
//   3  thread_a_position   asks a hash table for the word that begins there
#include <algorithm>
#include <memory>

#include "../common/files.hpp"
#include "../common/report.hpp"
#include "dictionary.hpp"
#include "options.hpp"

using namespace vocabulary;

void dictionary_copy(const Run& run);  // the experiment's other file

namespace {

constexpr unsigned block_threads = 256;
constexpr unsigned steps = 16;  // positions a thread of 2 tries before its block asks for a hit

/// The dictionary as a kernel sees it.
struct Words {
  const char* letters;
  const unsigned* begin;
  const Slot* slots;
  unsigned count, mask;  ///< words; slots less one
};

// ---- kernels: first[w] becomes the least position at which word w stands ----

// Whether word w stands at this position of the text: see below.
__device__ bool stands_at(const char* text, size_t at, const Words& words, unsigned w);

// [thread_a_word]
// Each lane has its own word and goes through the text; while they keep step, a warp reads one
// letter of the text at a time.
__global__ void thread_a_word(unsigned* first, const char* text, size_t n, Words words) {
  const unsigned w = blockIdx.x * blockDim.x + threadIdx.x;
  if (w >= words.count) return;
  for (size_t at = 0; at < n; ++at)
    if (stands_at(text, at, words, w)) {
      first[w] = unsigned(at);
      return;
    }
}
// [/thread_a_word]

// [block_a_word]
// The block has one word; a warp reads 32 neighbouring letters. The block stops behind the first
// hit.
__global__ void block_a_word(unsigned* first, const char* text, size_t n, Words words) {
  const unsigned w = blockIdx.x;
  for (size_t from = 0; from < n; from += blockDim.x * steps) {
    unsigned hit = absent;
    for (unsigned k = 0; k < steps && hit == absent; ++k) {
      const size_t at = from + k * blockDim.x + threadIdx.x;
      if (at < n && stands_at(text, at, words, w)) hit = unsigned(at);
    }
    if (hit != absent) atomicMin(&first[w], hit);
    if (__syncthreads_or(hit != absent)) return;
  }
}
// [/block_a_word]

__device__ bool is_letter(char c) {
  return unsigned((c | 32) - 'a') < 26 || static_cast<unsigned char>(c) >= 128;
}

__device__ bool word_begins(const char* text, size_t at) {
  return is_letter(text[at]) && (at == 0 || !is_letter(text[at - 1]));
}

// Whether word w stands at a position, letter by letter. The byte behind the text is no letter, so
// nothing is read behind it.
__device__ bool stands_at(const char* text, size_t at, const Words& words, unsigned w) {
  const char* word = words.letters + words.begin[w];
  const unsigned length = words.begin[w + 1] - words.begin[w];
  for (unsigned k = 0; k < length; ++k)
    if (text[at + k] != word[k]) return false;
  return !is_letter(text[at + length]) && word_begins(text, at);
}

// [thread_a_position]
// A warp reads 32 neighbouring letters. The lanes at which a word begins hash it, and look it up.
__global__ void thread_a_position(unsigned* first, const char* text, size_t n, Words words) {
  const size_t at = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (at >= n || !word_begins(text, at)) return;
  unsigned hash = 2166136261u;  // FNV-1a
  unsigned length = 0;
  for (; length <= longest && is_letter(text[at + length]); ++length)
    hash = (hash ^ static_cast<unsigned char>(text[at + length])) * 16777619u;
  if (length > longest) return;
  for (unsigned slot = hash & words.mask;; slot = (slot + 1) & words.mask) {
    const unsigned w = words.slots[slot].word;
    if (w == absent) return;  // a free place: the dictionary does not have the word
    if (words.slots[slot].hash != hash || !stands_at(text, at, words, w)) continue;
    // this may come out of an L1 that is behind: it is then too large, and the atomic sorts it out
    if (__ldca(&first[w]) > at) atomicMin(&first[w], unsigned(at));
    return;
  }
}
// [/thread_a_position]

// ---- the story in order ----

struct Search;

struct Layout {
  const char* name;
  bool scaled;  ///< only the beginning is searched: the whole text would take seconds
  void (*launch)(const Search& s, size_t n);
};

/// Text and dictionary on the device, and what is right.
struct Search {
  static constexpr size_t canaries = 64;  ///< behind the answer

  std::vector<unsigned> answer;
  DeviceBuffer<char> text, letters;
  DeviceBuffer<unsigned> begin, first;
  DeviceBuffer<Slot> slots;

  Search(const Text& host_text, const Dictionary& d, const std::vector<unsigned>& answer)
      : answer(answer),
        text(host_text),
        letters(d.letters),
        begin(d.begin),
        first(answer.size() + canaries),
        slots(d.slots) {}
  Words words() const {
    return {letters.data(), begin.data(), slots.data(), unsigned(answer.size()),
            unsigned(slots.size() - 1)};
  }
  /// `absent` stands everywhere until a word is found.
  void forget() const {
    CUDA_CHECK(cudaMemsetAsync(first.data(), 0xff, answer.size() * sizeof(unsigned)));
  }
  /// Of the first `n` bytes.
  size_t wrong(size_t n) const {
    std::vector<unsigned> right = answer_within(answer, n);
    right.resize(first.size(), absent);
    const std::vector<unsigned> found = first.to_host();
    size_t wrong = 0;
    for (size_t i = 0; i < right.size(); ++i) wrong += found[i] != right[i];
    return wrong;
  }
};

unsigned blocks_for(size_t threads) {
  return unsigned((threads + block_threads - 1) / block_threads);
}

const Layout layouts[] = {
    {"a thread a word", true,
     [](const Search& s, size_t n) {
       thread_a_word<<<blocks_for(s.answer.size()), block_threads>>>(s.first.data(), s.text.data(),
                                                                     n, s.words());
     }},
    {"a block a word", true,
     [](const Search& s, size_t n) {
       block_a_word<<<unsigned(s.answer.size()), block_threads>>>(s.first.data(), s.text.data(), n,
                                                                  s.words());
     }},
    {"a thread a position", false,
     [](const Search& s, size_t n) {
       thread_a_position<<<blocks_for(n), block_threads>>>(s.first.data(), s.text.data(), n,
                                                           s.words());
     }},
};
enum { by_thread, by_block, by_position };

/// Searches the first n bytes. `first` begins as `absent`, which is a part of the search.
Task task_of(int layout, Search& s, size_t n) {
  Check check;
  // zeros in the answer, which forget() has to remove; canaries behind it
  check.poison = [&s] {
    s.first.poison();
    CUDA_CHECK(cudaMemset(s.first.data(), 0, s.answer.size() * sizeof(unsigned)));
  };
  check.wrong = [&s, n] { return s.wrong(n); };
  return {layouts[layout].name,
          [&s, layout, n] {
            s.forget();
            if (n > 0) layouts[layout].launch(s, n);
          },
          std::move(check)};
}

// ---- what to expect ----

/// Positions of the first `n` bytes at which a layout compares: up to a word's first occurrence;
/// a block ends at the end of a step.
double positions_tried(int layout, size_t n, const std::vector<unsigned>& answer) {
  if (layout == by_position) return double(n);
  const size_t at_once = layout == by_block ? block_threads * steps : 1;
  double sum = 0;
  for (const unsigned first : answer) sum += double(std::min(n, (first / at_once + 1) * at_once));
  return sum;
}

/// What the time is proportional to. The slowest threads of a thread a word find nothing, and go
/// through all of the text.
double effort(int layout, size_t n, const std::vector<unsigned>& answer) {
  if (layout != by_thread) return positions_tried(layout, n, answer);
  size_t longest_way = 0;
  for (const unsigned first : answer)
    longest_way = std::max(longest_way, std::min(n, first + size_t(1)));
  return double(longest_way);
}

/// The time of a quarter of the part, scaled to the part.
double predicted_ms(int layout, size_t part, double quarter_ms,
                    const std::vector<unsigned>& answer) {
  return quarter_ms * effort(layout, part, answer) / effort(layout, part / 4, answer);
}

// ---- the experiment ----

/// What is searched, and for which words.
struct Question {
  Text text;
  std::vector<std::string> words;
  std::vector<unsigned> answer;
  size_t different;  ///< words of the text

  size_t bytes() const { return text.size() - 1; }
  size_t missing() const { return size_t(std::count(answer.begin(), answer.end(), absent)); }
};

Question question_of(Text text, size_t count) {
  const Index index = index_of(text);
  Question q{std::move(text), words_for(index, count), {}, index.size()};
  q.answer = right_answer(index, q.words);
  return q;
}

struct SearchTable {
  Table table;
  double slowest_ms = NAN;  ///< of all, by a thread a word

  explicit SearchTable(const Run& run)
      : table(run.report, "search, bytes searched",
              {predicted("1e6 positions", "positions tried", "1e6", 1),
               compared("ms", "time", "ms", 3), shown("spread"),
               predicted("all ms", "time of all", "ms", 2), shown("faster")}) {}
};

void measure(const Run& run, int layout, const Question& q, Search* search, SearchTable& table) {
  const size_t n = q.bytes();
  const size_t most = run.full ? 1 << 20 : 1 << 16;  // of those that would take seconds
  const size_t part = layouts[layout].scaled ? std::min(n, most) : n;
  const auto row = [&](size_t bytes, const Cell& time, const Statistics& ms, double all_ms) {
    table.table.row({layouts[layout].name, "bytes", std::to_string(bytes)},
                    {positions_tried(layout, bytes, q.answer) * 1e-6, time, spread_text(ms), all_ms,
                     all_ms > 0 ? times(table.slowest_ms / all_ms) : ""});
  };
  if (!search) return row(n, {}, {}, NAN);
  double expected = NAN;
  if (part >= 4) {
    const Statistics quarter = run.time(task_of(layout, *search, part / 4)).statistics();
    row(part / 4, Calibration{quarter}, quarter, NAN);
    expected = predicted_ms(layout, part, quarter.median, q.answer);
  }
  const Statistics ms = run.time(task_of(layout, *search, part)).statistics();
  const double all_ms =
      n == part ? ms.median
                : ms.median * effort(layout, n, q.answer) / effort(layout, part, q.answer);
  if (layout == by_thread) table.slowest_ms = all_ms;
  row(part, Compared{expected, ms, Model::latency}, ms, all_ms);
}

}  // namespace

void dictionary_fits(const Run& run, const Options& options) {
  constexpr double dictionary_bytes = 4 << 20;
  require_fits("--text: '" + options.text + "'",
               double(options.text_bytes.size()) + dictionary_bytes, run.memory_there());
}

void dictionary(const Run& run, const Options& options) {
  constexpr size_t count = 16384;
  const bool typed = !options.text.empty();
  const size_t n = typed ? options.text_bytes.size() : run.quick ? 5000000 : 50000000;
  run.report.begin("dictionary", std::to_string(count) + " words in " + std::to_string(n) +
                                     " bytes of text (" +
                                     (typed ? printable(options.text) : "made with seed 1") + ")");
  const Question q = question_of(typed ? text_of_file(options.text_bytes) : made_text(n, 1), count);
  run.report.note("a word: a run of at most " + std::to_string(longest) +
                  " letters: A-Z, a-z, bytes from 128 on");
  run.report.note("searched for: " + std::to_string(count - q.missing()) + " of the text's " +
                  std::to_string(q.different) + " words, taken evenly by frequency, and " +
                  std::to_string(q.missing()) + " that do not occur");
  std::unique_ptr<Search> search;
  if (run.device) search = std::make_unique<Search>(q.text, Dictionary(q.words), q.answer);
  SearchTable table(run);
  for (const int layout : {by_thread, by_block, by_position})
    measure(run, layout, q, search.get(), table);
  table.table.print();
  if (run.device) {
    run.report.note(
        "calibration: a quarter of the part; a thread a word takes time by bytes, a "
        "block by positions");
    run.report.note("all: where only the beginning was searched, scaled likewise");
    if (!beyond_l2(*run.device, double(n)))
      run.report.note("the text is less than four times the L2, and read from there");
  } else {
    run.report.left_out("the searches");
  }
  dictionary_copy(run);
}
