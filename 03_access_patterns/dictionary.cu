// dictionary: where each of 16384 words first occurs in a text of 50 MB. A reader of the 2007 study
// [BW] gave each word a thread that goes through the whole text, and got no answer. Two things to
// look at:
//   - How much a block per word gains: it has more threads, and its warps read 32 neighbouring
//     letters at a time.
//   - How much more a thread per position gains: all threads together read the text once.
// Why the reader got no answer is in dictionary_copy.cu.
//
//   cmake -S 03_access_patterns -B build/dictionary -DEXPERIMENTS=dictionary
//   cmake --build build/dictionary && build/dictionary/03_access_patterns --text FILE
//
//   1  thread_per_word      the reader's
//   2  block_per_word       stops at the first hit
//   3  thread_per_position  looks up the word that begins there, in a hash table
#include <algorithm>

#include "../framework/common/checked.cuh"
#include "../framework/common/experiment.hpp"
#include "../framework/common/files.hpp"
#include "dictionary.hpp"
#include "options.hpp"

using namespace samples;
using namespace vocabulary;

void dictionary_copy(const Run& run);  // dictionary_copy.cu

namespace {

constexpr unsigned block_threads = 256;
constexpr unsigned steps = 16;  // positions per thread of kernel 2 before its block asks for a hit

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

// [thread_per_word]
// Each lane has a word of its own and goes through the text. While the lanes keep step, a warp
// reads one letter of the text at a time.
__global__ void thread_per_word(unsigned* first, const char* text, size_t n, Words words) {
  const unsigned w = blockIdx.x * blockDim.x + threadIdx.x;
  if (w >= words.count) return;
  for (size_t at = 0; at < n; ++at)
    if (stands_at(text, at, words, w)) {
      first[w] = unsigned(at);
      return;
    }
}
// [/thread_per_word]

// [block_per_word]
// Each block has a word; a warp reads 32 neighbouring letters. The block stops after the step of
// its first hit.
__global__ void block_per_word(unsigned* first, const char* text, size_t n, Words words) {
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
// [/block_per_word]

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

// [thread_per_position]
// A warp reads 32 neighbouring letters. The lanes at which a word begins hash it, and look it up.
__global__ void thread_per_position(unsigned* first, const char* text, size_t n, Words words) {
  const size_t at = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (at >= n || !word_begins(text, at)) return;
  unsigned hash = 2166136261u;  // FNV-1a
  unsigned length = 0;
  for (; length <= longest && is_letter(text[at + length]); ++length)
    hash = (hash ^ static_cast<unsigned char>(text[at + length])) * 16777619u;
  if (length > longest) return;
  for (unsigned slot = hash & words.mask;; slot = (slot + 1) & words.mask) {
    const unsigned w = words.slots[slot].word;
    if (w == absent) return;  // a free slot: the dictionary does not have the word
    if (words.slots[slot].hash != hash || !stands_at(text, at, words, w)) continue;
    // L1 may hold an old value, which is too large; the atomic then decides
    if (__ldca(&first[w]) > at) atomicMin(&first[w], unsigned(at));
    return;
  }
}
// [/thread_per_position]

// ---- what is searched, and what is right ----

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

/// Where word w stands if only the first n bytes are searched.
struct Right {
  const unsigned* answer;
  size_t n;
  __device__ bool operator()(size_t w, unsigned found) const {
    return found == (answer[w] < n ? answer[w] : absent);
  }
};

/// Text and dictionary on the device.
struct Search {
  static constexpr int unsearched = 0x5a;  ///< the bytes of an answer that nobody has given

  Dictionary dictionary;
  DeviceBuffer<char> text, letters{dictionary.letters};
  DeviceBuffer<unsigned> begin{dictionary.begin}, answer;
  DeviceBuffer<Slot> slots{dictionary.slots};
  Output<unsigned> first{answer.size()};

  explicit Search(const Question& q) : dictionary(q.words), text(q.text), answer(q.answer) {}
  Words words() const {
    return {letters.data(), begin.data(), slots.data(), unsigned(answer.size()),
            unsigned(slots.size() - 1)};
  }
  void set_first(int byte) const {
    CUDA_CHECK(cudaMemsetAsync(first.data(), byte, first.size() * sizeof(unsigned)));
  }
};

// ---- the rows ----

struct Kernel {
  std::string_view key = {};  ///< its name
  const char* words = "";
  bool in_part = false;     ///< only the beginning is searched: all would take seconds
  bool by_slowest = false;  ///< takes as long as its slowest thread
  size_t stops_after = 0;   ///< so many positions, if the word stands there; 0: never
  unsigned (*blocks)(size_t words, size_t n) = nullptr;
  void (*kernel)(unsigned*, const char*, size_t, Words) = nullptr;
};
template <auto kernel>
Kernel named(Kernel k) {
  k.key = name_of<kernel>();
  k.kernel = kernel;
  return k;
}

unsigned blocks_for(size_t threads) {
  return unsigned((threads + block_threads - 1) / block_threads);
}

const Kernel kernels[] = {
    named<thread_per_word>({.words = "a thread per word",
                            .in_part = true,
                            .by_slowest = true,
                            .stops_after = 1,
                            .blocks = [](size_t words, size_t) { return blocks_for(words); }}),
    named<block_per_word>({.words = "a block per word",
                           .in_part = true,
                           .stops_after = block_threads * steps,
                           .blocks = [](size_t words, size_t) { return unsigned(words); }}),
    named<thread_per_position>({.words = "a thread per position",
                                .blocks = [](size_t, size_t n) { return blocks_for(n); }}),
};

/// Searches the first n bytes. `first` begins as `absent`, which is a part of the search.
Task task_of(const Shared<Search>& s, const Kernel& k, size_t n) {
  const auto launch = [s, &k, n] {
    s->set_first(0xff);
    if (n == 0) return;
    k.kernel<<<k.blocks(s->first.size(), n), block_threads>>>(s->first.data(), s->text.data(), n,
                                                              s->words());
  };
  const auto poison = [s] {
    s->first.poison();  // the canaries, too
    s->set_first(Search::unsearched);
  };
  const auto wrong = [s, n] { return s->first.wrong(Right{s->answer.data(), n}); };
  return {text(Ref(k.key, double(n))), launch, {poison, wrong, ""}};
}

// ---- prediction ----

/// Positions of the first n bytes that a word is compared with: up to its first occurrence.
size_t positions_for(const Kernel& k, size_t n, unsigned first) {
  return std::min(n, (first / k.stops_after + 1) * k.stops_after);
}

/// Positions that all threads together try.
double positions_tried(const Kernel& k, size_t n, const std::vector<unsigned>& answer) {
  if (!k.stops_after) return double(n);
  double sum = 0;
  for (const unsigned first : answer) sum += double(positions_for(k, n, first));
  return sum;
}

/// What the time is in proportion to. Of threads that each have a word, the slowest find nothing,
/// and go through all of the text.
double effort(const Kernel& k, size_t n, const std::vector<unsigned>& answer) {
  if (!k.by_slowest) return positions_tried(k, n, answer);
  size_t most = 0;
  for (const unsigned first : answer) most = std::max(most, positions_for(k, n, first));
  return double(most);
}

/// From the time of `from` bytes.
double scaled_ms(const Kernel& k, double ms, size_t from, size_t to,
                 const std::vector<unsigned>& answer) {
  return ms * effort(k, to, answer) / effort(k, from, answer);
}

// ---- the experiment ----

constexpr size_t dictionary_words = 16384;
constexpr size_t whole_bytes = 50000000, quick_bytes = 5000000;

size_t bytes_of(const Run& run) {
  const Options& options = options_of(run);
  if (!options.text.empty()) return options.text_bytes.size();
  return run.quick ? quick_bytes : whole_bytes;
}

/// Text, words and answer are made once: a self-check asks for them again and again.
const Question& question(const Run& run) {
  if (const Options& options = options_of(run); !options.text.empty()) {
    static const Question typed = question_of(text_of_file(options.text_bytes), dictionary_words);
    return typed;
  }
  if (run.quick) {
    static const Question shorter = question_of(made_text(quick_bytes, 1), dictionary_words);
    return shorter;
  }
  static const Question whole = question_of(made_text(whole_bytes, 1), dictionary_words);
  return whole;
}

/// Bytes that a kernel searches.
size_t part_of(const Run& run, const Kernel& k) {
  const size_t most = run.full ? 1 << 20 : 1 << 16;
  return k.in_part ? std::min(bytes_of(run), most) : bytes_of(run);
}

/// A row of a kernel stands at the bytes that it searches.
size_t searched(const Row& row) { return size_t(row.ref.at); }

/// Milliseconds for all of the text, from the part that was searched; the other rows have none.
double ms_of_all(const Run& run, const Question& q, const Ref& ref) {
  const Kernel& k = *with_key(kernels, ref);
  const size_t part = part_of(run, k);
  if (size_t(ref.at) != part) return NAN;
  const double ms = (*run.results)(ref).time.ms.median;
  return part == q.bytes() ? ms : scaled_ms(k, ms, part, q.bytes(), q.answer);
}

void measure_searches(const Run& run, const Question& q) {
  SharedByTasks search([&q] { return Search(q); });
  const Ref slowest(kernels[0].key, double(part_of(run, kernels[0])));
  const auto faster = [&run, &q, slowest](const Row& row, const Statistics&) {
    const double times_as_fast = ms_of_all(run, q, slowest) / ms_of_all(run, q, row.ref);
    return times_as_fast > 1 ? times(times_as_fast) : std::string();
  };
  Sheet sheet(run, "search",
              {number(predicted("1e6 positions", "positions tried", "1e6", 1),
                      [&q](const Row& row) {
                        return 1e-6 * positions_tried(*with_key(kernels, row.ref), searched(row),
                                                      q.answer);
                      }),
               milliseconds(3),
               spread(),
               number(predicted("all: ms", "time of all", "ms", 2),
                      [&](const Row& row) { return ms_of_all(run, q, row.ref); }),
               {shown("faster"), {}, {}, faster}},
              "bytes");
  for (const Kernel& k : kernels) {
    const size_t part = part_of(run, k);
    for (const size_t of_part : {4, 2, 1}) {
      if (part < 4 && of_part > 1) continue;
      sheet.add({.ref = Ref(k.key, double(part / of_part)),
                 .words = std::string(k.words) + ", " + std::to_string(part / of_part) + " bytes",
                 .calibrates = of_part == 4,
                 .model = Model::latency});
    }
  }
  sheet.measure(Timing::alone, [&](const Row& row) {
    return task_of(search(), *with_key(kernels, row.ref), searched(row));
  });
  sheet.predict([&](const Row& row) {
    const Kernel& k = *with_key(kernels, row.ref);
    const size_t quarter = part_of(run, k) / 4;
    if (quarter == 0) return double(NAN);
    return scaled_ms(k, sheet.ms(Ref(k.key, double(quarter))), quarter, searched(row), q.answer);
  });
  sheet.print({"the model: a thread per word takes time by bytes, the others by positions",
               "all: where only the beginning was searched, scaled likewise"});
}

void run_dictionary(const Run& run) {
  const Options& options = options_of(run);
  const size_t n = bytes_of(run);
  const std::string name = options.text.empty() ? "made with seed 1" : printable(options.text);
  run.report.begin("dictionary", std::to_string(dictionary_words) + " words in " +
                                     std::to_string(n) + " bytes of text (" + name + ")");
  const Question& q = question(run);
  run.report.note("a word: a run of at most " + std::to_string(longest) +
                  " letters: A-Z, a-z, bytes from 128 on");
  run.report.note("searched for: " + std::to_string(dictionary_words - q.missing()) +
                  " of the text's " + std::to_string(q.different) +
                  " words, taken evenly by frequency, and " + std::to_string(q.missing()) +
                  " that do not occur");
  measure_searches(run, q);
  if (run.device && !beyond_l2(*run.device, double(n)))
    run.report.note("the text is less than four times the L2, and read from there");
  dictionary_copy(run);
}

// ---- what it declares ----

Needs needs(const Run& run) {
  constexpr double dictionary_bytes = 4 << 20;
  return {.allocated = double(bytes_of(run)) + dictionary_bytes};
}

void require_text_fits(const Run& run) {
  require_fits("--text: '" + options_of(run).text + "'", needs(run).allocated, run.memory_there());
}

std::vector<Checked> tasks(size_t n) {
  constexpr size_t largest = 100003;  // a thread per word walks through all of it
  const Question q = question_of(made_text(std::min(n, largest), 2), 1009);
  std::vector<Checked> all;
  for (const Kernel& k : kernels) {
    const Shared search{Search(q)};
    all.push_back({.task = task_of(search, k, q.bytes()),
                   .elements = q.words.size(),
                   .change_one = [search] { search->first.change(0); }});
  }
  return all;
}

}  // namespace

extern const Experiment dictionary_experiment{
    .name = "dictionary",
    .about = "where each of 16384 words first occurs in a text",
    .run = run_dictionary,
    .check_typed = require_text_fits,
    .needs = needs,
    .tasks = tasks};
