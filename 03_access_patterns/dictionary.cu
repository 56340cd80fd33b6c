// dictionary: where does each of 16384 words first occur in a text of 50 MB? A reader of the 2007
// study gives each word a thread, which goes through the text. He gets no answer, not even for one
// word and one thread. If that thread begins 10 MB before the end, it finds the word. Copying 30 MB
// by one thread "works half of the time" [BW]. He suspects the memory, and the study has no reply.
//
// Look at the time that one thread took then: Windows stopped a kernel after about 5 s if its GPU
// also drew the display. Then look at a thread per position: all threads read the text together,
// once, and lists by the words' first four letters say which words can begin there.
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o dictionary dictionary.cu ../common/*.cpp
//
//   1  BF, BFWrap           the reader's: each thread searches all of the text for its word
//   2  Copy                 the reader's, by one thread
//   3  thread_per_position  ours
#include <algorithm>
#include <memory>
#include <random>
#include <unordered_set>
#include <utility>

#include "../common/arrays.cuh"
#include "../common/sample.hpp"

namespace {

// ---- the reader's kernels ----

constexpr int NUM_THREADS = 256;

// The first position of word x in text y, or -1. The lanes of a warp read the same letter of the
// text while they keep step, and each waits for it before it goes on.
__device__ void BF(char* x, int m, char* y, int n, int* r) {
  int i, j;
  *r = -1;

  for (j = 0; j <= (n - m); j++) {
    for (i = 0; ((i < m) && (*(x + i) == *(y + j + i))); i++)
      ;
    if (i >= m) {
      *r = j;
      break;
    }
  }
}

// Each lane searches for a word of its own. Behind a word stand two characters, the end of its line;
// an offset of 0 says that there is no word.
__global__ void BFWrap(char* dict, int* offsets, char* y, int n, int* r) {
  const int tid = threadIdx.x;
  const int bid = blockIdx.x;
  const int sid = bid * NUM_THREADS + tid;

  if (offsets[sid + 1] > 0) {
    BF(dict + offsets[sid], offsets[sid + 1] - offsets[sid] - 2, y, n, r + sid);
  }
}

// For all the compiler knows, `to` and `from` overlap. So each byte is stored before the next one is
// loaded, and a byte takes as long as a load.
__global__ void Copy(char* from, char* to, int n) {
  for (int i = 0; i < n; i++) to[i] = from[i];
  to[0] = '1';
  to[n - 1] = '2';
}

// ---- ours ----

constexpr int shortest = 4, longest = 64;  // letters of a word

// Which of 65536 lists has the words that begin with these four letters.
constexpr int lists = 1 << 16;
__host__ __device__ unsigned list_of(const char* letters) {
  unsigned four = 0;
  for (int k = 0; k < 4; ++k) four = four << 8 | (unsigned char)letters[k];
  return four * 2654435761u >> 16;
}

// A warp reads 32 neighbouring letters. Each lane goes through the list of its own four, from word
// heads[list] to word next[w] and on, until -1. `first` begins as -1, the largest unsigned number.
__global__ void thread_per_position(const char* dict, const int* offsets, const int* heads,
                                    const int* next, const char* text, unsigned n,
                                    unsigned* first) {
  const unsigned at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at + shortest > n) return;
  for (int w = heads[list_of(text + at)]; w >= 0; w = next[w]) {
    if (first[w] < at) continue;  // an old value in L1 is too large, which does no harm
    const char* word = dict + offsets[w];
    const unsigned length = offsets[w + 1] - offsets[w] - 2;
    if (at + length > n) continue;
    unsigned same = 0;
    while (same < length && text[at + same] == word[same]) ++same;
    if (same == length) atomicMin(&first[w], at);
  }
}

// ---- the text and its words ----

/// n bytes of words out of 65536. Half of them are drawn from the first 256: as in a language, some
/// words are frequent and most are rare.
std::string made_text(size_t n) {
  std::mt19937 random(1);
  std::vector<std::string> vocabulary(65536);
  for (std::string& word : vocabulary) {
    for (size_t left = shortest + random() % 9; left > 0; --left) word += char('a' + random() % 26);
    word += ' ';
  }
  std::string text;
  while (text.size() < n) {
    const unsigned drawn = random();
    text += vocabulary[(drawn & 65535) >> (drawn >> 16) % 16];
  }
  text.resize(n);
  return text;
}

bool is_letter(char c) {
  return unsigned((c | 32) - 'a') < 26 || (unsigned char)c >= 128;  // UTF-8's, too
}

/// At most `most` different words: the text is cut into so many parts, and each gives its first new
/// word. Every 16th, and the very first, gets a character that the text does not have.
std::vector<std::string> words_of(const std::string& text, size_t most) {
  std::vector<std::string> words;
  std::unordered_set<std::string> taken;
  const size_t n = text.size();
  for (size_t k = 0; k < most; ++k)
    for (size_t at = k * n / most, end; at < (k + 1) * n / most; at = end + 1) {
      for (end = at; end < n && is_letter(text[end]);) ++end;
      if (at > 0 && is_letter(text[at - 1])) continue;  // not where a word begins
      if (end - at < shortest || end - at >= longest) continue;
      const std::string word = text.substr(at, end - at);
      if (!taken.insert(word).second) continue;
      words.push_back(words.size() % 16 ? word : word + '\1');
      break;
    }
  return words;
}

// ---- what must come out ----

/// A text and the words to search for: as BFWrap wants them, and in our lists.
struct Search {
  std::string text;
  std::vector<std::string> words;
  std::vector<char> letters;
  std::vector<int> offsets{0}, heads = std::vector<int>(lists, -1), next;

  Search(const std::string& in, const std::vector<std::string>& of) : text(in), words(of) {
    for (const std::string& word : words) {
      for (const char c : word + "\r\n") letters.push_back(c);
      offsets.push_back(int(letters.size()));
      next.push_back(std::exchange(heads[list_of(word.data())], int(next.size())));
    }
    while (offsets.size() % NUM_THREADS != 1) offsets.push_back(0);
  }
};

/// Where each word first occurs in the first n bytes, or -1.
std::vector<int> right_answer(const Search& s, size_t n) {
  std::vector<int> first(s.words.size(), -1);
  for (size_t at = 0; at + shortest <= n; ++at)
    for (int w = s.heads[list_of(&s.text[at])]; w >= 0; w = s.next[w]) {
      const std::string& word = s.words[w];
      if (first[w] < 0 && at + word.size() <= n && s.text.compare(at, word.size(), word) == 0)
        first[w] = int(at);
    }
  return first;
}

struct Memory {
  std::shared_ptr<const Search> host;
  size_t copied;  ///< bytes of the text
  DeviceBuffer<char> text{std::vector<char>(host->text.begin(), host->text.end())};
  DeviceBuffer<char> dict{host->letters};
  DeviceBuffer<int> offsets{host->offsets}, heads{host->heads}, next{host->next};
  GuardedBuffer<int> first{host->words.size()};
  GuardedBuffer<char> copy{copied};
};

/// The first `words` words are searched for in the first n bytes; the others have no answer.
Check found(const Memory& m, size_t n, size_t words) {
  constexpr int unanswered = 0x5a5a5a5a;  // not -1, which is an answer
  std::vector<int> right = right_answer(*m.host, n);
  std::fill(right.begin() + std::min(words, right.size()), right.end(), unanswered);
  const auto poison = [first = m.first] {
    first.poison();  // and the guards
    CUDA_CHECK(cudaMemset(first, 0x5a, first.bytes()));
  };
  const auto find_error = [first = m.first, answer = DeviceBuffer(right)] {
    return find_mismatch(first, [right = answer.data()] __device__(size_t w) { return right[w]; });
  };
  return {poison, find_error};
}

// ---- the prediction ----

/// Loads one after the other on the 8800 GTX: 200 to 300 cycles each [BW], of 1.35 GHz.
double then_seconds(double loads, double cycles) { return loads * cycles / 1.35e9; }

// ---- the launches: add yours here ----

/// A kernel, and its row in the table.
struct Kernel {
  const char* name;
  std::function<void()> work;
  Check check;
  struct {
    int done, all;  ///< what it goes through, and what its time is scaled to
  } bytes;
  double loads = 0;  ///< that an 8800 GTX waited for at each byte; 0: no prediction

  Benchmark benchmark() const { return {name, work, check}; }
};

/// The reader's kernels search the first `part` bytes of the text, ours the first n.
std::vector<Kernel> kernels(const Memory& m, int part, int n) {
  const size_t words = m.host->words.size();
  const unsigned blocks = unsigned(m.offsets.size() / NUM_THREADS);
  const auto copy_of_text = [in = m.text.data(), end = m.copied - 1] __device__(size_t i) {
    return i == end ? '2' : i == 0 ? '1' : in[i];
  };
  return {
      {.name = "BFWrap, one thread",
       .work = [=] { BFWrap<<<1, 1>>>(m.dict, m.offsets, m.text, part, m.first); },
       .check = found(m, part, 1),
       .bytes = {.done = part, .all = n},
       .loads = 2},  // a letter of the text and one of the word
      {.name = "BFWrap, a thread per word",
       .work = [=] { BFWrap<<<blocks, NUM_THREADS>>>(m.dict, m.offsets, m.text, part, m.first); },
       .check = found(m, part, words),
       .bytes = {.done = part, .all = n},
       .loads = 2},
      {.name = "thread_per_position",
       .work =
           [=] {
             CUDA_CHECK(cudaMemsetAsync(m.first, 0xff, m.first.bytes()));
             thread_per_position<<<n / 256 + 1, 256>>>(m.dict, m.offsets, m.heads, m.next, m.text,
                                                       n, m.first.as<unsigned>());
           },
       .check = found(m, n, words),
       .bytes = {.done = n, .all = n}},
      {.name = "Copy, one thread",
       .work = [=] { Copy<<<1, 1>>>(m.text, m.copy, int(m.copied)); },
       .check = equals(m.copy, copy_of_text),
       .bytes = {.done = int(m.copied), .all = 30'000'000},
       .loads = 1},
  };
}

}  // namespace

void dictionary(Run& run) {
  const std::string text = made_text(run.quick ? 5'000'000 : 50'000'000);
  const int n = int(text.size()), part = run.quick ? 1 << 13 : 1 << 15;
  const Memory m{std::make_shared<Search>(text, words_of(text, 16384)),
                 run.quick ? size_t(25'000) : 100'000};
  run.title(std::to_string(m.host->words.size()) + " words in " + std::to_string(n) +
            " bytes of text, made up");
  const std::vector<Kernel> launched = kernels(m, part, n);
  std::vector<Benchmark> benchmarks;
  for (const Kernel& kernel : launched) benchmarks.push_back(kernel.benchmark());
  const Timings timed = run.timer.interleaved(benchmarks);

  Table table("who searches, or copies",
              {"bytes", "ms", "spread", "all bytes", "all: ms", "then: s", "to"});
  for (const Kernel& row : launched) {
    const Times& times = timed[row.name];
    const auto [done, all] = row.bytes;
    const auto then = [&row](double cycles) {
      return row.loads > 0 ? Cell(then_seconds(row.loads * row.bytes.all, cycles)) : Cell("");
    };
    table.row(row.name, {done, times.ms_interval(), percent(times.spread()), all,
                         times.ms_interval() * (double(all) / double(done)), then(200), then(300)});
  }
  run.print(table);
  run.note(
      "all: scaled from the bytes that were searched. One word in 16 does not occur: its thread");
  run.note("goes through all of them. Then: an 8800 GTX, where a thread waited for each load");
  int limited = 0, device = 0;
  CUDA_CHECK(cudaGetDevice(&device));
  CUDA_CHECK(cudaDeviceGetAttribute(&limited, cudaDevAttrKernelExecTimeout, device));
  run.note(std::string("kernels have ") + (limited ? "a" : "no") +
           " time limit here; where one is stopped,");
  run.note(std::string("the next call that waits returns ") +
           cudaGetErrorName(cudaErrorLaunchTimeout));
}
SAMPLE(13, dictionary, "where each of 16384 words first occurs in a text");

/// Words at both ends, inside of others, with one beginning, of bytes above 127.
const std::string awkward[] = {"word",
                               "word sword words wordsword",
                               "abcd abcde abcdefgh xabcdefghi",
                               "\xc3\xa4\xc3\xa4\xc3\xa4 b\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xb6",
                               "aaaa aaaaa " + std::string(63, 'a'),
                               made_text(1009),
                               made_text(65537)};

TEST_CASE("dictionary: words, and where they are") {
  using Words = std::vector<std::string>;
  CHECK(words_of("it is a word", 1) == Words{"word\1"});
  CHECK(words_of("the word sword word", 100) == Words{"word\1", "sword"});
  CHECK(words_of(std::string(64, 'x'), 1).empty());
  CHECK(words_of("", 1).empty());
  for (const std::string& text : awkward)
    for (const size_t most : {1, 16, 1009}) {
      Words words = words_of(text, most);
      CHECK(!words.empty());
      words.push_back(text.substr(text.size() - shortest));
      const Search s{text, words};
      for (const std::string& part : {text, text.substr(0, text.size() / 2)}) {
        std::vector<int> right;  // from the definition, word by word; npos becomes -1
        for (const std::string& word : words) right.push_back(int(part.find(word)));
        CHECK(right_answer(s, part.size()) == right);
      }
    }
}

TEST_CASE("dictionary: what the reader saw follows from a limit of about five seconds") {
  CHECK(then_seconds(1.35e9, 1) == doctest::Approx(1));
  CHECK(then_seconds(30e6, 200) < 5);  // a copy of 30 MB "works half of the time"
  CHECK(then_seconds(30e6, 300) > 5);
  CHECK(then_seconds(2 * 50e6, 200) > 5);  // of 50 MB nothing is found
  CHECK(then_seconds(2 * 10e6, 300) < 5);  // of the last 10 MB it is
}

TEST_CASE("dictionary: every kernel is right in awkward texts") {
  if (skip_without_gpu()) return;
  for (const std::string& text : awkward)
    for (const size_t most : {1, 257, 1009}) {
      const Memory m{std::make_shared<Search>(text, words_of(text, most)), text.size()};
      const int size = int(text.size());
      for (const int n : {size, size / 2, shortest - 1})
        for (const Kernel& kernel : kernels(m, n, n)) {
          CAPTURE(kernel.name);
          CAPTURE(n);
          CHECK_NOTHROW(require_right(kernel.benchmark()));
          kernel.check.poison();
          CHECK(kernel.check.find_error() != "");
        }
    }
}
