// A check of banks.hpp, which models the banks, by one warp's loads and stores of words that nobody
// chose: lanes want the same word, or none, as chance has it. Nothing is measured: the profile
// preset counts the wavefronts of each launch, and all have to be the model's. Compiled with
// bank_strides where BUILD_TESTING is on.
//   cmake -S 06_shared_reduce -B build/banks -DEXPERIMENTS=bank_strides
//   cmake --build build/banks && ctest --test-dir build/banks -L profile --verbose
//
//   1  read_pattern    each lane loads the word that its pattern says, or none
//   2  write_pattern   each lane stores that word, or none
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <set>

#include "../../framework/common/checks/counts.hpp"
#include "../../framework/common/your_turn.hpp"
#include "../banks.hpp"

namespace {

// ---- kernels -----------------------------------------------------------------------------------

constexpr unsigned word_count = 1024;  // in shared memory: 32 rows of all banks, or more

// One warp. It fills shared memory, side by side; then, in one load, each lane takes the word with
// index wanted[lane]. A lane whose index is negative is idle.
template <class Word>
__global__ void read_pattern(Word* loaded, const Word* before, const int* wanted) {
  __shared__ Word words[word_count];
  const unsigned lane = threadIdx.x;
#pragma unroll 1
  for (unsigned i = lane; i < word_count; i += 32) words[i] = before[i];  // fill
  __syncthreads();
  const int index = wanted[lane];
  if (index >= 0) loaded[lane] = words[index];  // the load
}

// The same with one store: the word that stands in `after` replaces the one from `before`.
// Lanes that store to the same place store the same. At the end the warp copies out what is
// there.
template <class Word>
__global__ void write_pattern(Word* out, const Word* before, const Word* after, const int* wanted) {
  __shared__ Word words[word_count];
  const unsigned lane = threadIdx.x;
#pragma unroll 1
  for (unsigned i = lane; i < word_count; i += 32) words[i] = before[i];  // fill
  __syncthreads();
  const int index = wanted[lane];
  if (index >= 0) words[index] = after[index];  // the store
  __syncthreads();
#pragma unroll 1
  for (unsigned i = lane; i < word_count; i += 32) out[i] = words[i];  // copy out
}

// ---- the patterns ------------------------------------------------------------------------------

/// The index of the word that each lane wants; negative: it is idle.
using Wanted = std::array<int, 32>;

/// What is alike in a pattern before lanes fall idle.
enum class Family {
  random,   ///< nothing, but for chance
  strided,  ///< nothing: words a stride apart
  groups,   ///< 2, 4 or 8 neighbours
  pairs,    ///< lanes 1, 2, 4, 8 or 16 apart, or mirrored in groups of four
  all,      ///< all lanes, or all of each half-warp
  one_off,  ///< pairs or all, but for one lane
  mixture,  ///< neighbours in one part of the warp, lanes two apart in another
};
constexpr unsigned family_count = 7;
const char* name_of(Family family) {
  const char* const names[] = {"random", "strided", "groups", "pairs", "all", "one off", "mixture"};
  return names[int(family)];
}

struct Pattern {
  bool loads;      ///< or stores
  unsigned bytes;  ///< of a word: 4, 8 or 16
  Family family;
  Wanted wanted;
};

/// Each lane a word of its own choice, from 1, 2, 4 ... 1024 words.
Wanted random_words(std::mt19937& random) {
  const unsigned range = 1u << random() % 11;
  Wanted wanted;
  for (int& word : wanted) word = int(random() % range);
  return wanted;
}

Wanted strided(std::mt19937& random) {
  const unsigned first = random() % word_count;
  const unsigned stride = random() % 34;
  Wanted wanted;
  for (unsigned lane = 0; lane < 32; ++lane) {
    const unsigned word = first + lane * stride;
    wanted[lane] = int(word % word_count);
  }
  return wanted;
}

/// Lanes in groups of `size`, a power of two, want the same word.
Wanted in_groups(Wanted wanted, unsigned size) {
  for (unsigned lane = 0; lane < 32; ++lane) wanted[lane] = wanted[lane / size * size];
  return wanted;
}

/// Two lanes want the same word: lane and lane ^ distance. 1: neighbours; 16: lanes 0 and 16, 1 and
/// 17 ...; 3: lanes 0 and 3, 1 and 2 ...
Wanted in_pairs(Wanted wanted, unsigned distance) {
  for (unsigned lane = 0; lane < 32; ++lane) {
    const unsigned other = lane ^ distance;
    wanted[lane] = wanted[std::min(lane, other)];
  }
  return wanted;
}

Wanted some_pairs(const Wanted& words, std::mt19937& random) {
  const unsigned distances[] = {1, 2, 3, 4, 8, 16};
  return in_pairs(words, distances[random() % 6]);
}

Wanted one_off(const Wanted& words, std::mt19937& random) {
  const unsigned kind = random() % 3;
  Wanted wanted = kind < 2 ? in_pairs(words, kind + 1) : in_groups(words, 32);
  wanted[random() % 32] = int(random() % word_count);
  return wanted;
}

/// Each part of 4, 8 or 16 lanes has pairs of its own kind.
Wanted mixture(const Wanted& words, std::mt19937& random) {
  const Wanted pairs[] = {in_pairs(words, 1), in_pairs(words, 2)};
  const unsigned part = 4u << random() % 3;
  Wanted wanted;
  for (unsigned first = 0; first < 32; first += part) {
    const Wanted& from = pairs[random() % 2];
    std::copy_n(&from[first], part, &wanted[first]);
  }
  return wanted;
}

Wanted words_of(Family family, std::mt19937& random) {
  const Wanted words = random_words(random);
  switch (family) {
    case Family::random:
      return words;
    case Family::strided:
      return strided(random);
    case Family::groups:
      return in_groups(words, 2u << random() % 3);
    case Family::pairs:
      return some_pairs(words, random);
    case Family::all:
      return in_groups(words, 16u << random() % 2);
    case Family::one_off:
      return one_off(words, random);
    case Family::mixture:
      return mixture(words, random);
  }
  return words;
}

/// In half of the patterns all lanes stay active; else those that chance says, or those whose
/// numbers have the same bits, as one lane of 2, 4 or 8. At least one does.
Wanted some_idle(Wanted wanted, std::mt19937& random) {
  const unsigned kind = random() % 4;
  const unsigned stays = random() % 32;      // this lane does
  const unsigned share = 1 + random() % 31;  // of 32, by chance
  const unsigned masks[] = {1, 3, 7, 2, 4, 8, 16};
  const unsigned mask = masks[random() % 7];  // bits of the number
  for (unsigned lane = 0; lane < 32; ++lane) {
    const bool by_chance = random() % 32 < share || lane == stays;
    const bool by_number = (lane & mask) == (stays & mask);
    if ((kind == 2 && !by_chance) || (kind == 3 && !by_number)) wanted[lane] = idle;
  }
  return wanted;
}

constexpr unsigned pattern_count = 500;

/// The patterns that are counted (not those of seed 1, by which the rule was found): a fifth of
/// them of 4-byte words, which the simpler rule is for, and as many of each family.
std::vector<Pattern> patterns(unsigned seed = 2) {
  const unsigned bytes[] = {4, 8, 16, 8, 16};
  std::mt19937 random(seed);
  std::vector<Pattern> all;
  for (unsigned i = 0; i < pattern_count; ++i) {
    Pattern pattern{i % 2 == 0, bytes[i / 2 % 5], Family(i / 10 % family_count), {}};
    pattern.wanted = some_idle(words_of(pattern.family, random), random);
    all.push_back(pattern);
  }
  return all;
}

/// As in "17 8 bytes mixture: 3 3 - 12 ...": which pattern it is, and what each lane wants.
std::string parameter(size_t number, const Pattern& pattern) {
  std::string text = std::to_string(number);
  text.append(" ").append(std::to_string(pattern.bytes)).append(" bytes ");
  text.append(name_of(pattern.family)).append(":");
  for (int index : pattern.wanted) {
    text.append(" ");
    text.append(index < 0 ? "-" : std::to_string(index));
  }
  return text;
}

// ---- what is right -----------------------------------------------------------------------------

/// A word of 4, 8 or 16 bytes, aligned so that one load takes it.
template <unsigned parts>
struct alignas(4 * parts) WordOf {
  unsigned part[parts];
};

/// Part p of word i, in 4 bytes, before the store and after it.
unsigned value(unsigned i, unsigned p, bool after) {
  const unsigned before = 0x9e3779b1u * (4 * i + p + 1);
  return after ? ~before : before;
}

template <unsigned parts>
std::vector<WordOf<parts>> all_words(bool after) {
  std::vector<WordOf<parts>> words(word_count);
  for (unsigned i = 0; i < word_count; ++i)
    for (unsigned p = 0; p < parts; ++p) words[i].part[p] = value(i, p, after);
  return words;
}

template <unsigned parts>
bool holds(const WordOf<parts>& word, unsigned i, bool after) {
  for (unsigned p = 0; p < parts; ++p)
    if (word.part[p] != value(i, p, after)) return false;
  return true;
}

/// Launches read_pattern: whether each lane got its word, and nothing was written for idle lanes.
template <unsigned parts>
bool read_right(const Wanted& wanted) {
  const DeviceBuffer<WordOf<parts>> before(all_words<parts>(false));
  const DeviceBuffer<int> index(std::vector<int>(wanted.begin(), wanted.end()));
  DeviceBuffer<WordOf<parts>> loaded(32);
  loaded.poison();
  read_pattern<<<1, 32>>>(loaded.data(), before.data(), index.data());
  CUDA_CHECK_LAUNCH();
  const std::vector<WordOf<parts>> got = loaded.to_host();
  for (unsigned lane = 0; lane < 32; ++lane) {
    if (wanted[lane] >= 0 && !holds(got[lane], wanted[lane], false)) return false;
    if (wanted[lane] < 0 && got[lane].part[0] != ~0u) return false;
  }
  return true;
}

/// Launches write_pattern: whether those words that a lane wanted are new, and all others old.
template <unsigned parts>
bool write_right(const Wanted& wanted) {
  const DeviceBuffer<WordOf<parts>> before(all_words<parts>(false)), after(all_words<parts>(true));
  const DeviceBuffer<int> index(std::vector<int>(wanted.begin(), wanted.end()));
  DeviceBuffer<WordOf<parts>> found(word_count);
  found.poison();
  write_pattern<<<1, 32>>>(found.data(), before.data(), after.data(), index.data());
  CUDA_CHECK_LAUNCH();
  const std::vector<WordOf<parts>> got = found.to_host();
  for (unsigned i = 0; i < word_count; ++i) {
    const bool stored = std::find(wanted.begin(), wanted.end(), int(i)) != wanted.end();
    if (!holds(got[i], i, stored)) return false;
  }
  return true;
}

template <unsigned parts>
bool right(const Pattern& pattern) {
  return pattern.loads ? read_right<parts>(pattern.wanted) : write_right<parts>(pattern.wanted);
}
bool right(const Pattern& pattern) {
  if (pattern.bytes == 4) return right<1>(pattern);
  if (pattern.bytes == 8) return right<2>(pattern);
  return right<4>(pattern);
}

// ---- what to expect ----------------------------------------------------------------------------

int pattern_wavefronts(bool loads, unsigned bytes, const Wanted& wanted) {
  LaneWords first_parts;
  for (unsigned lane = 0; lane < 32; ++lane) {
    const int index = wanted[lane];
    first_parts[lane] = index < 0 ? idle : long(index) * (bytes / 4);
  }
  return loads ? load_wavefronts(first_parts, bytes) : wavefronts(first_parts, bytes);
}

/// Wavefronts of a whole launch: the pattern's own, and those of the words side by side that are
/// filled in and, after stores, copied out.
std::vector<Expected> expected(const Pattern& pattern) {
  const int side_by_side = int(word_count / 32 * pattern.bytes / 4);
  const int own = pattern_wavefronts(pattern.loads, pattern.bytes, pattern.wanted);
  const int loads = pattern.loads ? own : side_by_side;
  const int stores = pattern.loads ? side_by_side : side_by_side + own;
  return {expected_wavefronts(true, loads), expected_wavefronts(false, stores)};
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

TEST_CASE("bank_strides: wide words are loaded by twice as many lanes where pairs agree") {
  const auto of = [](bool loads, unsigned bytes, auto index_of) {
    Wanted wanted;
    for (unsigned lane = 0; lane < 32; ++lane) wanted[lane] = int(index_of(int(lane)));
    return pattern_wavefronts(loads, bytes, wanted);
  };
  const auto load = [&](int of_8, int of_16, auto index_of) {
    CHECK(of(true, 8, index_of) == of_8);
    CHECK(of(true, 16, index_of) == of_16);
  };
  const auto store = [&](int of_8, int of_16, auto index_of) {
    CHECK(of(false, 8, index_of) == of_8);
    CHECK(of(false, 16, index_of) == of_16);
  };
  const auto alike = [](int) { return 7; };
  const auto neighbours = [](int lane) { return lane / 2; };                // 0 0 1 1 2 2 3 3
  const auto two_apart = [](int lane) { return lane / 4 * 2 + lane % 2; };  // 0 1 0 1 2 3 2 3

  // every lane wants a word of its own
  load(2, 4, [](int lane) { return lane; });
  load(4, 8, [](int lane) { return 2 * lane; });
  load(16, 32, [](int lane) { return 8 * lane; });
  load(2, 4, [](int lane) { return lane == 5 ? 1 : 0; });  // one lane off

  // pairs agree: in all of the warp the same way
  load(1, 2, alike);
  load(1, 2, neighbours);
  load(1, 2, two_apart);
  load(2, 4, [](int lane) { return lane / 8 * 4 + lane % 4; });  // 0 1 2 3 0 1 2 3: too far apart
  load(2, 4, [&](int lane) { return lane < 16 ? neighbours(lane) : two_apart(lane); });
  load(16, 16, [](int lane) { return lane / 2 * 16; });  // and all words are of the same bank

  // idle lanes agree with everybody
  const auto every_eighth = [](int lane) { return lane % 8 == 0 ? lane / 8 : idle; };
  load(0, 0, [](int) { return idle; });
  load(1, 1, [](int lane) { return lane == 31 ? 5 : idle; });
  load(1, 2, [](int lane) { return lane < 16 ? lane : idle; });
  load(1, 2, [](int lane) { return lane % 2 == 0 ? lane / 2 : idle; });
  load(1, 2, every_eighth);

  // stores are served group by group
  store(2, 4, [](int lane) { return lane; });
  store(2, 4, alike);
  store(2, 4, neighbours);
  store(2, 4, two_apart);
  store(2, 4, every_eighth);
  store(1, 2, [](int lane) { return lane < 16 ? lane : idle; });
}

TEST_CASE("bank_strides: random patterns are the same in each run and of every kind") {
  const std::vector<Pattern> all = patterns(), again = patterns(), others = patterns(3);
  CHECK(all.size() == pattern_count);
  std::set<std::string> parameters;
  std::set<std::array<unsigned, 3>> kinds;
  size_t with_idle_lanes = 0, alike_others = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    const Wanted& wanted = all[i].wanted;
    CHECK(wanted == again[i].wanted);
    alike_others += wanted == others[i].wanted;
    CHECK(*std::max_element(wanted.begin(), wanted.end()) >= 0);  // a lane is active
    CHECK(*std::max_element(wanted.begin(), wanted.end()) < int(word_count));
    with_idle_lanes += *std::min_element(wanted.begin(), wanted.end()) < 0;
    parameters.insert(parameter(i, all[i]));
    kinds.insert({all[i].loads, all[i].bytes, unsigned(all[i].family)});
  }
  CHECK(alike_others < 50);  // but for those in which all lanes want word 0
  CHECK(with_idle_lanes > 200);
  CHECK(with_idle_lanes < 300);
  CHECK(parameters.size() == all.size());
  CHECK(kinds.size() == 6 * family_count);
}

TEST_CASE("bank_strides: random patterns: profile launches") {
  if (skip_without_gpu()) return;
  launch_counted(counted_launches());
}

TEST_CASE("bank_strides: counted wavefronts of random patterns equal the model") {
  compare_patterns_with_counts_of_this_run(counted_launches());
}

TEST_CASE("bank_strides: exercises count wavefronts by the same rule") {
  for (const unsigned range : {32u, 100u, 1024u})
    for (size_t pattern = 0; pattern < 50; ++pattern) {
      your_turn::WarpWords words;
      LaneWords lanes;
      for (unsigned lane = 0; lane < 32; ++lane) {
        const unsigned number = your_turn::number_at(32 * pattern + lane);
        lanes[lane] = number % 5 == 0 ? idle : long(number / 5 % range);
        words[lane] = lanes[lane] == idle ? your_turn::idle : lanes[lane];
      }
      CHECK(your_turn::wavefronts(words) == wavefronts(lanes));
    }
}
