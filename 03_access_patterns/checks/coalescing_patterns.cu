// coalescing, random patterns: does the model of sectors (transactions.hpp) hold for words that
// nobody chose? One warp loads or stores words of 1 to 16 bytes, anywhere, by as many lanes as
// chance says. There is nothing to time: the profile preset counts requests and sectors, and all
// have to be the model's.
//
//   cmake -S 03_access_patterns -B build/sectors -DEXPERIMENTS=coalescing
//   cmake --build build/sectors && ctest --test-dir build/sectors -L profile --verbose
#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <set>

#include "../../framework/common/checked.cuh"
#include "../../framework/common/checks/counts.hpp"
#include "../../framework/common/experiment.hpp"
#include "../transactions.hpp"

using namespace samples;

namespace {

/// The index of the word that each lane takes; negative: it is idle.
struct Wanted {
  int index[32];
};

// One warp, one load: lane i takes word index[i], and stores it as word i.
template <class Word>
__global__ void read_pattern(Word* loaded, const Word* words, const Wanted* wanted) {
  const unsigned lane = threadIdx.x;
  const int index = wanted->index[lane];
  if (index >= 0) loaded[lane] = words[index];
}

// One warp, one store: lane i puts word index[i] of `after` into its place in `words`.
template <class Word>
__global__ void write_pattern(Word* words, const Word* after, const Wanted* wanted) {
  const unsigned lane = threadIdx.x;
  const int index = wanted->index[lane];
  if (index >= 0) words[index] = after[index];
}

// ---- the patterns ----

constexpr unsigned word_count = 4096;

struct Random {
  bool loads;  ///< or stores
  unsigned bytes;
  Wanted wanted;
};

/// Each lane wants a word of its own choice from 1, 2, 4 ... 4096, beginning anywhere, and is idle
/// as chance says. In a quarter of the patterns no lane is; at least one never is.
Wanted random_words(std::mt19937& random) {
  const unsigned range = 1u << random() % 13;
  const unsigned begin = random() % (word_count - range + 1);
  const unsigned share = std::min<unsigned>(32, 1 + random() % 42);  // of 32, of active lanes
  const unsigned stays = random() % 32;
  Wanted wanted;
  for (unsigned lane = 0; lane < 32; ++lane) {
    const unsigned word = begin + random() % range;
    const bool active = random() % 32 < share || lane == stays;
    wanted.index[lane] = active ? int(word) : -1;
  }
  return wanted;
}

/// The patterns that are counted: as many loads as stores, and as many of each size of word.
std::vector<Random> patterns() {
  std::mt19937 random(1);
  std::vector<Random> all;
  for (unsigned i = 0; i < 500; ++i)
    all.push_back({i % 2 == 0, 1u << i / 2 % 5, random_words(random)});
  return all;
}

/// As in "17 8 bytes: 3 3 - 12 ...": which pattern it is, and what each lane wants.
std::string parameter(size_t number, const Random& pattern) {
  std::string text = std::to_string(number);
  text.append(" ").append(std::to_string(pattern.bytes)).append(" bytes:");
  for (const int index : pattern.wanted.index)
    text.append(" ").append(index < 0 ? std::string("-") : std::to_string(index));
  return text;
}

// ---- what is right: byte by byte, in outputs that are 0xff before ----

struct Byte {
  __device__ unsigned char operator()(size_t i) const {
    return static_cast<unsigned char>(scrambled(i) % 255);
  }
};
struct Loaded {
  Wanted wanted;
  unsigned bytes;
  __device__ bool operator()(size_t i, unsigned char found) const {
    const int index = wanted.index[i / bytes];
    return found == (index < 0 ? 0xff : Byte{}(size_t(index) * bytes + i % bytes));
  }
};
struct Stored {
  Wanted wanted;
  unsigned bytes;
  __device__ bool operator()(size_t i, unsigned char found) const {
    bool stored = false;
    for (const int index : wanted.index) stored = stored || index == int(i / bytes);
    return found == (stored ? Byte{}(i) : 0xff);
  }
};

/// Launches it: whether every byte is right.
template <class Word>
bool right(const Random& pattern) {
  constexpr unsigned bytes = sizeof(Word);
  const DeviceBuffer<Wanted> wanted(std::vector<Wanted>{pattern.wanted});
  const auto in = filled<unsigned char>(word_count * bytes, Byte{});
  const Word* const words = reinterpret_cast<const Word*>(in.data());
  Output<unsigned char> out((pattern.loads ? 32 : word_count) * bytes);
  out.poison();
  Word* const to = reinterpret_cast<Word*>(out.data());
  if (pattern.loads)
    read_pattern<Word><<<1, 32>>>(to, words, wanted.data());
  else
    write_pattern<Word><<<1, 32>>>(to, words, wanted.data());
  CUDA_CHECK_LAUNCH();
  return (pattern.loads ? out.wrong(Loaded{pattern.wanted, bytes})
                        : out.wrong(Stored{pattern.wanted, bytes})) == 0;
}
bool launched_right(const Random& pattern) {
  if (pattern.bytes == 1) return right<unsigned char>(pattern);
  if (pattern.bytes == 2) return right<unsigned short>(pattern);
  if (pattern.bytes == 4) return right<unsigned>(pattern);
  if (pattern.bytes == 8) return right<uint2>(pattern);
  return right<uint4>(pattern);
}

// ---- the model ----

/// Sectors of the pattern's own load or store.
int own_sectors(const Random& p) {
  return sectors(warp_of(p.bytes, [&](unsigned lane) { return p.wanted.index[lane]; }));
}
/// Sectors of what the active lanes of read_pattern store, side by side.
int side_by_side(const Random& p) {
  return sectors(
      warp_of(p.bytes, [&](unsigned lane) { return p.wanted.index[lane] < 0 ? -1 : int(lane); }));
}

/// A whole launch: all lanes load their index, 4 bytes each; then follow a load and a store.
std::vector<CountedLaunch> counted() {
  std::vector<CountedLaunch> all;
  for (const Random& p : patterns()) {
    const double loads = 4 + own_sectors(p), stores = p.loads ? side_by_side(p) : own_sectors(p);
    all.push_back({p.loads ? "read_pattern" : "write_pattern",
                   parameter(all.size(), p),
                   {expected_requests(true, 2), expected_sectors(true, loads),
                    expected_requests(false, 1), expected_sectors(false, stores)},
                   [p] { return launched_right(p); }});
  }
  return all;
}

}  // namespace

TEST_CASE("coalescing: sectors of patterns with equal words and idle lanes, by hand") {
  Random pattern{true, 8, {}};
  const auto wants = [&](auto index_of) {
    for (int lane = 0; lane < 32; ++lane) pattern.wanted.index[lane] = index_of(lane);
    return own_sectors(pattern);
  };
  CHECK(wants([](int) { return 7; }) == 1);  // all the same word
  CHECK(wants([](int lane) { return lane; }) == 8);
  CHECK(wants([](int lane) { return lane / 2; }) == 4);
  CHECK(wants([](int lane) { return lane % 8 == 0 ? lane / 8 : -1; }) == 1);
  CHECK(side_by_side(pattern) == 4);  // lanes 0, 8, 16 and 24, each in a sector of its own
  CHECK(wants([](int lane) { return 100 * lane; }) == 32);
  CHECK(side_by_side(pattern) == 8);
}

TEST_CASE("coalescing: random patterns are of every kind") {
  std::set<std::pair<bool, unsigned>> kinds;
  std::set<int> of_sectors;
  size_t with_idle_lanes = 0;
  for (const Random& p : patterns()) {
    const auto [least, most] =
        std::minmax_element(std::begin(p.wanted.index), std::end(p.wanted.index));
    CHECK((*most >= 0 && *most < int(word_count)));  // a lane is active
    with_idle_lanes += *least < 0;
    kinds.insert({p.loads, p.bytes});
    of_sectors.insert(own_sectors(p));
  }
  CHECK(with_idle_lanes > 300);
  CHECK(with_idle_lanes < 450);
  CHECK(kinds.size() == 10);
  CHECK(of_sectors.size() == 32);  // any number of sectors from 1 to 32 occurs
}

TEST_CASE("coalescing: random patterns: profile launches") {
  if (skip_without_gpu()) return;
  launch_counted(counted());
}

TEST_CASE("coalescing: counted sectors of random patterns equal the model") {
  compare_patterns_with_counts_of_this_run(counted());
}
