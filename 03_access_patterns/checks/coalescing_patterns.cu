// coalescing, random patterns: does the model of sectors (transactions.hpp) hold for words that
// nobody chose? One warp loads or stores words of 1 to 16 bytes, anywhere, by as many lanes as
// chance says. There is nothing to time: the profile preset counts requests and sectors, and all
// have to be the model's.
//   cmake -S 03_access_patterns -B build/sectors -DEXPERIMENTS=coalescing
//   cmake --build build/sectors && ctest --test-dir build/sectors -L profile --verbose
//
//   1  read_pattern    each lane loads the word that its pattern says, or none
//   2  write_pattern   each lane stores that word, or none
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <random>
#include <set>

#include "../../common/checks/counts.hpp"
#include "../transactions.hpp"

namespace {

// ---- kernels -----------------------------------------------------------------------------------

// One warp. In one load each lane takes the word with index wanted[lane]; a lane whose index is
// negative is idle. It stores what it took, side by side.
template <class Word>
__global__ void read_pattern(Word* loaded, const Word* words, const int* wanted) {
  const unsigned lane = threadIdx.x;
  const int index = wanted[lane];
  if (index >= 0) loaded[lane] = words[index];
}

// The same with one store: each lane puts the word from `after`, loaded from the same place there,
// into `words`. Lanes that store to the same place store the same.
template <class Word>
__global__ void write_pattern(Word* words, const Word* after, const int* wanted) {
  const unsigned lane = threadIdx.x;
  const int index = wanted[lane];
  if (index >= 0) words[index] = after[index];
}

// ---- the patterns ------------------------------------------------------------------------------

constexpr unsigned word_count = 4096;

struct Pattern {
  bool loads;                  ///< or stores
  unsigned bytes;              ///< of a word: 1, 2, 4, 8 or 16
  std::array<int, 32> wanted;  ///< the index of the word that each lane wants; negative: it is idle
};

/// Each lane wants a word of its own choice from 1, 2, 4 ... 4096, beginning anywhere; and falls
/// idle as chance says. In a quarter of the patterns no lane does; at least one never does.
std::array<int, 32> random_words(std::mt19937& random) {
  const unsigned range = 1u << random() % 13;
  const unsigned begin = random() % (word_count - range + 1);
  const unsigned share = std::min<unsigned>(32, 1 + random() % 42);  // of 32, of active lanes
  const unsigned stays = random() % 32;
  std::array<int, 32> wanted;
  for (unsigned lane = 0; lane < 32; ++lane) {
    const unsigned word = begin + random() % range;
    const bool active = random() % 32 < share || lane == stays;
    wanted[lane] = active ? int(word) : -1;
  }
  return wanted;
}

/// The patterns that are counted: as many loads as stores, and as many of each size of word.
std::vector<Pattern> patterns(unsigned seed = 1) {
  const unsigned bytes[] = {1, 2, 4, 8, 16};
  std::mt19937 random(seed);
  std::vector<Pattern> all;
  for (unsigned i = 0; i < 500; ++i) {
    const bool loads = i % 2 == 0;
    all.push_back({loads, bytes[i / 2 % 5], random_words(random)});
  }
  return all;
}

/// As in "17 8 bytes: 3 3 - 12 ...": which pattern it is, and what each lane wants.
std::string parameter(size_t number, const Pattern& pattern) {
  std::string text = std::to_string(number);
  text.append(" ").append(std::to_string(pattern.bytes)).append(" bytes:");
  for (int index : pattern.wanted) {
    text.append(" ");
    text.append(index < 0 ? "-" : std::to_string(index));
  }
  return text;
}

// ---- what is right -----------------------------------------------------------------------------

/// Byte i of an array, before the store: 0 to 127; after it: 128 to 255.
unsigned char byte(size_t i, bool after) {
  const unsigned before = unsigned(i) * 0x9e3779b1u >> 25;
  return static_cast<unsigned char>(after ? before + 128 : before);
}

/// An array of words in device memory, as it is before or after the store.
template <class Word>
struct Words {
  DeviceBuffer<unsigned char> bytes;

  explicit Words(bool after) {
    std::vector<unsigned char> all(word_count * sizeof(Word));
    for (size_t i = 0; i < all.size(); ++i) all[i] = byte(i, after);
    bytes = DeviceBuffer<unsigned char>(all);
  }
  Word* data() const { return reinterpret_cast<Word*>(bytes.data()); }
};

/// Launches read_pattern: whether each lane got its word, and nothing was written for idle lanes.
template <class Word>
bool read_right(const std::array<int, 32>& wanted) {
  const Words<Word> words(false);
  const DeviceBuffer<int> indices(std::vector<int>(wanted.begin(), wanted.end()));
  DeviceBuffer<unsigned char> loaded(32 * sizeof(Word));
  loaded.poison();
  Word* const to = reinterpret_cast<Word*>(loaded.data());
  read_pattern<Word><<<1, 32>>>(to, words.data(), indices.data());
  CUDA_CHECK_LAUNCH();
  const std::vector<unsigned char> got = loaded.to_host();
  for (size_t i = 0; i < got.size(); ++i) {
    const int index = wanted[i / sizeof(Word)];
    const size_t from = size_t(index) * sizeof(Word) + i % sizeof(Word);
    if (got[i] != (index < 0 ? 0xff : byte(from, false))) return false;
  }
  return true;
}

/// Launches write_pattern: whether those words that a lane wanted are new, and all others old.
template <class Word>
bool write_right(const std::array<int, 32>& wanted) {
  const Words<Word> words(false), after(true);
  const DeviceBuffer<int> indices(std::vector<int>(wanted.begin(), wanted.end()));
  write_pattern<Word><<<1, 32>>>(words.data(), after.data(), indices.data());
  CUDA_CHECK_LAUNCH();
  const std::set<int> stored(wanted.begin(), wanted.end());
  const std::vector<unsigned char> got = words.bytes.to_host();
  for (size_t i = 0; i < got.size(); ++i) {
    const int word = int(i / sizeof(Word));
    if (got[i] != byte(i, stored.count(word) == 1)) return false;
  }
  return true;
}

template <class Word>
bool right(const Pattern& pattern) {
  return pattern.loads ? read_right<Word>(pattern.wanted) : write_right<Word>(pattern.wanted);
}
bool right(const Pattern& pattern) {
  if (pattern.bytes == 1) return right<unsigned char>(pattern);
  if (pattern.bytes == 2) return right<unsigned short>(pattern);
  if (pattern.bytes == 4) return right<unsigned>(pattern);
  if (pattern.bytes == 8) return right<uint2>(pattern);
  return right<uint4>(pattern);
}

// ---- what to expect ----------------------------------------------------------------------------

/// Sectors of the pattern's own load or store.
int own_sectors(const Pattern& pattern) {
  return sectors(warp_of(pattern.bytes, [&](unsigned lane) { return pattern.wanted[lane]; }));
}

/// Sectors of what the active lanes of read_pattern store, side by side.
int stored_sectors(const Pattern& pattern) {
  return sectors(warp_of(pattern.bytes, [&](unsigned lane) {
    const bool active = pattern.wanted[lane] >= 0;
    return active ? int(lane) : -1;
  }));
}

/// Requests and sectors of a whole launch: all lanes load what they want to know, 4 bytes each side
/// by side; then follow a load and a store.
std::vector<Expected> expected(const Pattern& pattern) {
  const int loads = 4 + own_sectors(pattern);
  const int stores = pattern.loads ? stored_sectors(pattern) : own_sectors(pattern);
  std::vector<Expected> all;
  all.push_back(expected_requests(true, 2));
  all.push_back(expected_sectors(true, loads));
  all.push_back(expected_requests(false, 1));
  all.push_back(expected_sectors(false, stores));
  return all;
}

std::vector<CountedLaunch> counted_launches() {
  std::vector<CountedLaunch> all;
  for (const Pattern& pattern : patterns()) {
    const std::string kernel = pattern.loads ? "read_pattern" : "write_pattern";
    const std::string which = parameter(all.size(), pattern);
    all.push_back({kernel, which, expected(pattern), [=] { return right(pattern); }});
  }
  return all;
}

}  // namespace

// ---- self-checks -------------------------------------------------------------------------------

TEST_CASE("coalescing: sectors of patterns with equal words and idle lanes, by hand") {
  Pattern pattern{true, 8, {}};
  const auto wants = [&](auto index_of) {
    for (int lane = 0; lane < 32; ++lane) pattern.wanted[lane] = index_of(lane);
    return own_sectors(pattern);
  };
  CHECK(wants([](int) { return 7; }) == 1);  // all the same word
  CHECK(wants([](int lane) { return lane; }) == 8);
  CHECK(wants([](int lane) { return lane / 2; }) == 4);
  CHECK(wants([](int lane) { return lane % 8 == 0 ? lane / 8 : -1; }) == 1);
  CHECK(stored_sectors(pattern) == 4);  // lanes 0, 8, 16 and 24, each in a sector of its own
  CHECK(wants([](int lane) { return 100 * lane; }) == 32);
  CHECK(stored_sectors(pattern) == 8);
  CHECK(expected(pattern)[1].value == 4 + 32);
  CHECK(expected(pattern)[3].value == 8);
  pattern.loads = false;
  CHECK(expected(pattern)[1].value == 4 + 32);
  CHECK(expected(pattern)[3].value == 32);
}

TEST_CASE("coalescing: random patterns are the same in each run and of every kind") {
  const std::vector<Pattern> all = patterns(), again = patterns(), others = patterns(2);
  CHECK(all.size() == 500);
  std::set<std::string> parameters;
  std::set<std::pair<bool, unsigned>> kinds;
  std::set<int> found;
  size_t with_idle_lanes = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    const auto& wanted = all[i].wanted;
    CHECK(wanted == again[i].wanted);
    CHECK(wanted != others[i].wanted);
    CHECK(*std::max_element(wanted.begin(), wanted.end()) >= 0);  // a lane is active
    CHECK(*std::max_element(wanted.begin(), wanted.end()) < int(word_count));
    with_idle_lanes += *std::min_element(wanted.begin(), wanted.end()) < 0;
    parameters.insert(parameter(i, all[i]));
    kinds.insert({all[i].loads, all[i].bytes});
    found.insert(own_sectors(all[i]));
  }
  CHECK(with_idle_lanes > 300);
  CHECK(with_idle_lanes < 450);
  CHECK(parameters.size() == all.size());
  CHECK(kinds.size() == 10);
  CHECK(*found.begin() == 1);
  CHECK(*found.rbegin() == 32);
  CHECK(found.size() == 32);  // any number of sectors occurs
}

TEST_CASE("coalescing: random patterns: profile launches") {
  if (skip_without_gpu()) return;
  launch_counted(counted_launches());
}

TEST_CASE("coalescing: counted sectors of random patterns equal the model") {
  compare_patterns_with_counts_of_this_run(counted_launches());
}
