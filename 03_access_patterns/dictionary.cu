// dictionary: where does each of 16384 words first occur in a text of 50 MB? A reader of the 2007
// study gives each word a thread, which goes through the text. He gets no answer, not even for one
// word and one thread. If that thread begins 10 MB before the end, it finds the word. Copying 30 MB
// by one thread "works half of the time" [BW]. He suspects the memory, and the study has no reply.
//
// Look at the time that one thread took then: Windows stopped a kernel after about 5 s if its GPU
// also drew the display. Then look at a thread per position: all threads read the text together,
// once, and a table of the words' first letters says which words can begin there.
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o dictionary dictionary.cu ../common/*.cpp
//   ./dictionary --file TEXT
//
//   1  BF, BFWrap           the reader's: each thread searches all of the text for its word
//   2  Copy                 the reader's, by one thread
//   3  thread_per_position  ours
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <unordered_set>

#include "../common/arrays.cuh"
#include "../common/sample.hpp"

void check_dictionary(const Run& run);

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

// Behind each word stand two characters, the end of its line. An offset of 0 means: no word.
__global__ void BFWrap(char* dict, int* offsets, char* y, int n, int* r) {
  const int tid = threadIdx.x;
  const int bid = blockIdx.x;
  const int sid = bid * NUM_THREADS + tid;

  if (offsets[sid + 1] > 0) {
    BF(dict + offsets[sid], offsets[sid + 1] - offsets[sid] - 2, y, n, r + sid);
  }
}

// For all that the compiler knows, `to` and `from` overlap: so each byte is stored before the next
// is loaded, and a byte takes as long as a load.
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

// A warp reads 32 neighbouring letters. Each lane goes through the list of its four letters, from
// word heads[list] to word next[w], until -1. `first` begins as -1, the largest unsigned number.
__global__ void thread_per_position(const char* dict, const int* offsets, const int* heads,
                                    const int* next, const char* text, unsigned n,
                                    unsigned* first) {
  const unsigned at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at + shortest > n) return;
  for (int w = heads[list_of(text + at)]; w >= 0; w = next[w]) {
    if (first[w] < at) continue;  // L1 may hold an old value, which is too large: no harm
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
  text.reserve(n + 16);
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

/// The words as BFWrap wants them, and the lists.
struct Dictionary {
  std::vector<char> letters;
  std::vector<int> offsets{0}, heads = std::vector<int>(lists, -1), next;

  explicit Dictionary(const std::vector<std::string>& words) {
    for (const std::string& word : words) {
      letters.insert(letters.end(), word.begin(), word.end());
      letters.insert(letters.end(), {'\r', '\n'});
      offsets.push_back(int(letters.size()));
      int& head = heads[list_of(word.data())];
      next.push_back(std::exchange(head, int(next.size())));
    }
    while (offsets.size() % NUM_THREADS != 1) offsets.push_back(0);
  }
};

/// Where each word first occurs in the first n bytes, or -1.
std::vector<int> right_answer(const std::string& text, size_t n,
                              const std::vector<std::string>& words, const Dictionary& d) {
  std::vector<int> first(words.size(), -1);
  for (size_t at = 0; at + shortest <= n; ++at)
    for (int w = d.heads[list_of(&text[at])]; w >= 0; w = d.next[w])
      if (first[w] < 0 && at + words[w].size() <= n &&
          text.compare(at, words[w].size(), words[w]) == 0)
        first[w] = int(at);
  return first;
}

std::string typed_text(const std::string& path) {
  constexpr size_t most = size_t(256) << 20;  // the host searches it, too: in some seconds
  const auto fail = [&](const char* why) {
    throw UsageError("--file '" + path + "': " + why + "; it takes a text of at most 256 MiB");
  };
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) fail("there is no such file");
  std::string text(std::min<size_t>(std::filesystem::file_size(path, error), most + 1), 0);
  if (text.size() > most) fail("it is too large");
  if (!std::ifstream(path, std::ios::binary).read(text.data(), std::streamsize(text.size())))
    fail("it cannot be read");
  if (words_of(text, 1).empty()) fail("it is empty, or has no word of 4 to 63 letters");
  return text;
}

// ---- the work ----

/// Text and dictionary on the device, and room for the answer.
struct Search {
  std::string host_text;
  std::vector<std::string> words;
  Dictionary on_host{words};
  DeviceBuffer<char> text{std::vector<char>(host_text.begin(), host_text.end())};
  DeviceBuffer<char> dict{on_host.letters};
  DeviceBuffer<int> offsets{on_host.offsets}, heads{on_host.heads}, next{on_host.next};
  GuardedBuffer<int> first{words.size()};
};
constexpr int unanswered = 0x5a5a5a5a;  // poison: -1 is an answer

/// Must not outlive the search. `threads`: whose words are searched for.
Benchmark searching(const char* name, const Search& s, size_t n, size_t threads,
                    std::function<void()> work) {
  std::vector<int> right = right_answer(s.host_text, n, s.words, s.on_host);
  std::fill(right.begin() + std::min(threads, right.size()), right.end(), unanswered);
  const auto answer = std::make_shared<DeviceBuffer<int>>(right);
  const auto poison = [&s] {
    s.first.poison();  // and the guard
    CUDA_CHECK(cudaMemset(s.first, 0x5a, s.first.bytes()));
  };
  const auto find_error = [&s, answer] {
    return find_mismatch(s.first,
                         [right = answer->data()] __device__(size_t w) { return right[w]; });
  };
  return {name, work, {poison, find_error}};
}

Benchmark by_word(const Search& s, int n, bool alone = false) {
  const unsigned blocks = alone ? 1 : unsigned(s.offsets.size() / NUM_THREADS);
  const int threads = alone ? 1 : NUM_THREADS;
  const auto work = [&s, n, blocks, threads] {
    BFWrap<<<blocks, threads>>>(s.dict, s.offsets, s.text, n, s.first);
  };
  return searching(alone ? "BFWrap, one thread" : "BFWrap, a thread per word", s, n,
                   alone ? 1 : s.words.size(), work);
}
Benchmark by_position(const Search& s, int n) {
  const auto work = [&s, n] {
    CUDA_CHECK(cudaMemsetAsync(s.first, 0xff, s.first.bytes()));
    thread_per_position<<<n / 256 + 1, 256>>>(s.dict, s.offsets, s.heads, s.next, s.text, n,
                                              reinterpret_cast<unsigned*>(s.first.data()));
  };
  return searching("thread_per_position", s, n, s.words.size(), work);
}
Benchmark copying(const DeviceBuffer<char>& from, const GuardedBuffer<char>& to) {
  const auto work = [&from, &to] { Copy<<<1, 1>>>(from, to, int(to.size())); };
  const auto value = [in = from.data(), n = to.size()] __device__(size_t i) {
    return i == n - 1 ? '2' : i == 0 ? '1' : in[i];
  };
  return {"Copy, one thread", work, equals(to, value)};
}

/// Loads one after the other on the 8800 GTX: 200 to 300 cycles each [BW], of 1.35 GHz.
double then_seconds(double loads, double cycles) { return loads * cycles / 1.35e9; }

}  // namespace

/// Throws UsageError if the typed file is none that can be searched.
void check_dictionary(const Run& run) {
  if (run.options.count("file")) typed_text(run.option("file", ""));
}

void dictionary(Run& run) {
  const bool typed = run.options.count("file") > 0;
  const std::string text =
      typed ? typed_text(run.option("file", "")) : made_text(run.quick ? 5000000 : 50000000);
  const Search s{text, words_of(text, 16384)};
  const int n = int(text.size()), part = std::min(n, run.quick ? 1 << 13 : 1 << 15);
  const GuardedBuffer<char> copy(size_t(std::min(n, run.quick ? 25000 : 100000)));
  run.title(std::to_string(s.words.size()) + " words in " + std::to_string(n) + " bytes of text, " +
            (typed ? "typed" : "made up"));
  const Timings timed = run.timer.interleaved(
      {by_word(s, part, true), by_word(s, part), by_position(s, n), copying(s.text, copy)});

  Table table("who searches, or copies",
              {"bytes", "ms", "spread", "all bytes", "all: ms", "then: s", "to"});
  const auto row = [&](const char* name, double done, double all, double loads) {
    const Times& times = timed[name];
    const auto then = [&](double cycles) {
      return loads > 0 ? Cell(then_seconds(loads * all, cycles)) : Cell("");
    };
    table.row(name, {done, times.median(), percent(times.spread()), all,
                     times.median() * all / done, then(200), then(300)});
  };
  row("BFWrap, one thread", part, n, 2);  // a letter of the text and one of the word
  row("BFWrap, a thread per word", part, n, 2);
  row("thread_per_position", n, n, 0);
  row("Copy, one thread", double(copy.size()), 30e6, 1);
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
SAMPLE_OPTION("file", "dictionary: a text to search (default: a made-up one)", check_dictionary);

namespace {

/// From the definition, word by word.
std::vector<int> found_by_string(const std::string& text, const std::vector<std::string>& words) {
  std::vector<int> first;
  for (const std::string& word : words) {
    const size_t at = text.find(word);
    first.push_back(at == std::string::npos ? -1 : int(at));
  }
  return first;
}

/// Words at both ends, inside of others, with one beginning, of bytes above 127.
const std::string awkward[] = {"word",
                               "word sword words wordsword",
                               "abcd abcde abcdefgh xabcdefghi",
                               "\xc3\xa4\xc3\xa4\xc3\xa4 b\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xb6",
                               "aaaa aaaaa " + std::string(63, 'a'),
                               made_text(1009),
                               made_text(65537)};

}  // namespace

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
      const Dictionary d(words);
      CHECK(right_answer(text, text.size(), words, d) == found_by_string(text, words));
      const std::string half = text.substr(0, text.size() / 2);
      CHECK(right_answer(text, half.size(), words, d) == found_by_string(half, words));
    }
}

TEST_CASE("dictionary: what the reader saw follows from a limit of about five seconds") {
  CHECK(then_seconds(1.35e9, 1) == doctest::Approx(1));
  CHECK(then_seconds(30e6, 200) < 5);  // a copy of 30 MB "works half of the time"
  CHECK(then_seconds(30e6, 300) > 5);
  CHECK(then_seconds(2 * 50e6, 200) > 5);  // of 50 MB nothing is found
  CHECK(then_seconds(2 * 10e6, 300) < 5);  // of the last 10 MB it is
}

TEST_CASE("dictionary: a file that cannot be searched is a wrong command line") {
  const std::string path =
      (std::filesystem::temp_directory_path() / "dictionary_check.txt").string();
  Run run;
  CHECK_NOTHROW(check_dictionary(run));
  for (const char* content : {"", "a b c"}) {
    std::ofstream(path) << content;
    run.options["file"] = path;
    CHECK_THROWS_AS(check_dictionary(run), UsageError);
  }
  std::ofstream(path) << "some words";
  CHECK_NOTHROW(check_dictionary(run));
  CHECK(typed_text(path) == "some words");
  std::filesystem::resize_file(path, (size_t(256) << 20) + 1);
  CHECK_THROWS_AS(check_dictionary(run), UsageError);
  std::filesystem::remove(path);
  for (const std::string& wrong : {path, std::string("/"), std::string("")}) {
    run.options["file"] = wrong;
    CHECK_THROWS_AS(check_dictionary(run), UsageError);
  }
}

TEST_CASE("dictionary: every kernel is right in awkward texts") {
  if (skip_without_gpu()) return;
  for (const std::string& text : awkward)
    for (const size_t most : {1, 257, 1009}) {
      const Search s{text, words_of(text, most)};
      const int n = int(text.size());
      const GuardedBuffer<char> copy(text.size());
      for (const Benchmark& benchmark : std::initializer_list<Benchmark>{
               by_word(s, n, true), by_word(s, n), by_word(s, n / 2), by_position(s, n),
               by_position(s, n / 2), by_position(s, 3), copying(s.text, copy)}) {
        CAPTURE(benchmark.name);
        CHECK_NOTHROW(require_right(benchmark));
        benchmark.check.poison();
        CHECK(benchmark.check.find_error() != "");
      }
    }
}
