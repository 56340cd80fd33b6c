// one_cache: do loads and texture fetches share a cache? "Same cache used for read only or texture
// reads", "unified with L1" since Maxwell, say the lectures [PR 1, PR 3]. On Kepler the read-only
// cache was "dedicated" [LC 1].
//
// First: does a read find what another kind of read has brought? One thread goes round a ring by one
// kind, and then by another, which is timed. Then: does it take the other's room? The ring is read,
// then words elsewhere by another kind, then the ring again: few words, which must leave it in L1
// unless the change of kind empties L1, and more than L1 holds. Look along a row of each table.
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o one_cache one_cache.cu ../common/*.cpp
//
//   1  read_twice  goes round a ring by one kind of read, and times it by another
//   2  read_again  times a ring again, after another kind of read elsewhere
#include <functional>
#include <map>

#include "../common/arrays.cuh"
#include "../common/sample.hpp"
#include "texture.cuh"

namespace {

// ---- two rings of words, each of which is the index of the next one ----

constexpr unsigned slots = 128;      // of a ring: 16 KiB, which any L1 holds
constexpr unsigned slot_words = 32;  // of a slot: 128 bytes, so no read brings the next slot's word
constexpr unsigned ring_words = slots * slot_words;
// Behind the two rings a chain of 1 MiB, four times what any L1 has had so far. As many slots of it
// as a ring has find room beside the ring.
constexpr unsigned few = slots, many = 8192, chain = 2 * ring_words;
constexpr unsigned all_words = chain + many * slot_words;

/// Through all slots of a ring (a full-period generator: factor 4 m + 1, odd addend); along the chain,
/// and from its end back to where it begins.
unsigned next_of(unsigned word) {
  if (word >= chain) return word + slot_words < all_words ? word + slot_words : chain;
  const unsigned ring = word / ring_words, slot = word % ring_words / slot_words;
  return ring * ring_words + (5 * slot + 77) % slots * slot_words;
}

// ---- kinds of reads ----

struct Nothing {
  __device__ unsigned operator()(unsigned i) const { return i; }
};
struct Load {
  const unsigned* words;
  __device__ unsigned operator()(unsigned i) const { return words[i]; }
};
struct Ldg {
  const unsigned* words;
  __device__ unsigned operator()(unsigned i) const { return __ldg(&words[i]); }
};
// Of plain memory, so its texels are the loads' words.
struct Fetch {
  cudaTextureObject_t tex;
  __device__ unsigned operator()(unsigned i) const { return tex1Dfetch<unsigned>(tex, int(i)); }
};

// ---- the kernel ----

// The first kind visits every slot, and one of them again, so that a walk without them would end
// elsewhere. The steps that are timed visit no slot twice.
constexpr unsigned brought = slots + 1, timed_steps = slots - 8;

struct Answer {
  long long cycles;  ///< of the timed steps
  unsigned end;      ///< the word after the last one
};

// One thread, each read after the answer of the one before. It goes twice: in the first ring it
// fetches the code and the translation of addresses, and the second ring, still cold, counts. The
// loop's end hides behind 40 steps.
template <class First, class Second>
__global__ void read_twice(Answer* answer, First first, Second second) {
  Answer found{};
#pragma unroll 1
  for (unsigned ring = 0; ring < 2; ++ring) {
    unsigned word = ring * ring_words;
#pragma unroll 1
    for (unsigned step = 0; step < brought; ++step) word = first(word);
    if (word >= 2 * ring_words) return;  // never, but now the last answer is here
    const long long start = clock64();
#pragma unroll 40
    for (unsigned step = 0; step < timed_steps; ++step) word = second(word);
    if (word >= 2 * ring_words) return;
    found = {clock64() - start, word};
  }
  *answer = found;
}

// One thread. What stays of the ring's words in L1 when another kind of read has brought `elsewhere`
// slots of the chain? (If the two have one cache: after few of them all, after many nothing.)
template <class Own, class Other>
__global__ void read_again(Answer* answer, Own own, Other other, unsigned elsewhere) {
  Answer found{};
#pragma unroll 1
  for (unsigned ring = 0; ring < 2; ++ring) {  // the first for the code, the second counts
    unsigned word = ring * ring_words, filler = chain;
#pragma unroll 1
    for (unsigned step = 0; step < brought; ++step) word = own(word);
#pragma unroll 1
    for (unsigned step = 0; step < elsewhere; ++step) filler = other(filler);
    if (word >= 2 * ring_words || filler < chain) return;  // never, but now both answers are here
    const long long start = clock64();
#pragma unroll 40
    for (unsigned step = 0; step < timed_steps; ++step) word = own(word);
    if (word >= 2 * ring_words) return;
    found = {clock64() - start, word};
  }
  *answer = found;
}

// ---- the launches: add yours here ----

struct Memory {
  DeviceBuffer<unsigned> words = [] {
    std::vector<unsigned> words(all_words, 0);
    for (unsigned i = 0; i < words.size(); i += slot_words) words[i] = next_of(i);
    return DeviceBuffer<unsigned>(words);
  }();
  Texture texture{linear_resource(words, cudaCreateChannelDesc<unsigned>(), words.bytes())};
};

enum Test { after_the_same_words, after_few, after_many, tests };

/// One kind of read after another of the same words; or again, after another elsewhere.
struct Pair {
  std::string read, after;
  Test test;
  std::function<void(Answer*)> launch;
};

template <class First>
void add_pairs(std::vector<Pair>& all, const Memory& m, const char* after, First first) {
  const auto add = [&](const char* read, auto second) {
    const auto twice = [first, second](Answer* answer) {
      read_twice<<<1, 1>>>(answer, first, second);
    };
    const auto again = [first, second](unsigned elsewhere) {
      return [=](Answer* answer) { read_again<<<1, 1>>>(answer, second, first, elsewhere); };
    };
    all.push_back({read, after, after_the_same_words, twice});
    all.push_back({read, after, after_few, again(few)});
    all.push_back({read, after, after_many, again(many)});
  };
  add("loads", Load{m.words});
  add("__ldg", Ldg{m.words});
  add("fetches", Fetch{m.texture});
}

std::vector<Pair> all_pairs(const Memory& m) {
  std::vector<Pair> all;
  add_pairs(all, m, "nothing", Nothing{});
  add_pairs(all, m, "loads", Load{m.words});
  add_pairs(all, m, "__ldg", Ldg{m.words});
  add_pairs(all, m, "fetches", Fetch{m.texture});
  return all;
}

// ---- what must come out ----

/// The word after so many steps in the second ring.
unsigned word_after(unsigned steps) {
  unsigned word = ring_words;
  for (unsigned step = 0; step < steps; ++step) word = next_of(word);
  return word;
}

/// Cycles of a read. Throws WrongResult if the walk ends elsewhere.
double cycles_of(const Pair& pair, const DeviceBuffer<Answer>& answer) {
  CUDA_CHECK(cudaMemset(answer, 0xff, answer.bytes()));
  pair.launch(answer);
  CUDA_CHECK_LAUNCH();
  const Answer found = answer.to_host()[0];
  const bool is_cold = pair.test == after_the_same_words && pair.after == "nothing";
  const unsigned end = word_after((is_cold ? 0 : brought) + timed_steps);
  if (found.end != end || found.cycles <= 0)
    throw WrongResult(pair.read + " after " + pair.after + ": the walk ends elsewhere");
  return double(found.cycles) / timed_steps;
}

// ---- the experiment ----

using Cycles = std::map<std::string, std::map<std::string, Interval>>;  // [read][after]

/// Of each test. In turn, so that whatever disturbs one of them disturbs all.
std::vector<Cycles> all_cycles(int rounds) {
  const Memory m;
  const DeviceBuffer<Answer> answer(1);
  std::map<std::string, std::map<std::string, std::vector<double>>> each[tests];
  for (int round = 0; round <= rounds; ++round)
    for (const Pair& pair : all_pairs(m)) {
      const double cycles = cycles_of(pair, answer);
      if (round > 0) each[pair.test][pair.read][pair.after].push_back(cycles);  // one warms up
    }
  std::vector<Cycles> medians(tests);
  for (int test = 0; test < tests; ++test)
    for (const auto& [read, of_read] : each[test])
      for (const auto& [after, cycles] : of_read)
        medians[test][read][after] = interval_of_median(cycles, run_to_run_device);
  return medians;
}

/// The texture unit stands before the cache, and adds the same cycles whoever answers.
double predicted_fetch(double cold_load, double load, double fetch) {
  return cold_load + (fetch - load);
}

void judge(Run& run, Cycles& cycles, Cycles& again) {
  const Claim same{"07.8a", "read-only loads and texture fetches use the same cache",
                   "[PR 1] \"Same cache used for read only or texture reads\""};
  const Claim unified{"07.8b", "after Kepler, L1 is one with the read-only and texture cache",
                      "[PR 3] \"Separate in Kepler but unified with L1 thereafter\""};
  for (const char* kind : {"loads", "__ldg", "fetches"})
    if (cycles[kind]["nothing"].low < 1.5 * cycles[kind][kind].high) {
      const std::string why = std::string(kind) + " are as fast cold as repeated: no cache shows";
      run.claim_skipped(same, why);
      return run.claim_skipped(unified, why);
    }
  for (const char* kind : {"loads", "__ldg", "fetches"})
    if (again[kind][kind].low < 1.5 * again[kind]["nothing"].high) {
      const std::string why = std::string(kind) + " stay in the cache: it was not filled";
      run.claim_skipped(same, why);
      return run.claim_skipped(unified, why);
    }
  // of each two kinds: does one find what the other brought, and does it lose its words to it?
  std::vector<Interval> of_read_only, of_l1;
  const auto compare = [&](std::vector<Interval>& votes, const char* read, const char* other) {
    for (Cycles* of : {&cycles, &again}) votes.push_back((*of)[read][other] / (*of)[read][read]);
  };
  compare(of_read_only, "__ldg", "fetches");
  compare(of_read_only, "fetches", "__ldg");
  for (const char* other : {"__ldg", "fetches"}) {
    compare(of_l1, "loads", other);
    compare(of_l1, other, "loads");
  }
  const char* const what = "cycles by the other kind / by its own: found, and again";
  run.claim_each(same, of_read_only, what, as_much());
  run.claim_each(unified, of_l1, what, as_much());
}

}  // namespace

void one_cache(Run& run) {
  run.title("a ring of " + bytes_text(ring_words * 4.0) +
            " is read twice, and the second time is timed");
  std::vector<Cycles> measured = all_cycles(run.timer.rounds);
  Cycles& cycles = measured[after_the_same_words];
  Table table("cycles of",
              {"after nothing", "predicted", "after loads", "after __ldg", "after fetches"});
  for (const char* read : {"loads", "__ldg", "fetches"}) {
    auto& of = cycles[read];
    const double predicted = predicted_fetch(cycles["loads"]["nothing"].value,
                                             cycles["loads"]["loads"].value, of["fetches"].value);
    const bool is_fetch = std::string(read) == "fetches";
    table.row(read, {of["nothing"], is_fetch ? Cell(predicted) : Cell(""), of["loads"], of["__ldg"],
                     of["fetches"]});
  }
  run.print(table);
  run.note("by one thread, each read after the answer of the one before; after nothing, the L2");
  run.note("answers. Predicted: a fetch takes longer than a load by as much as where L1 answers");
  run.note("a load's address is a multiply-add after the index; `latency` of topic 01 has none");
  const auto print_again = [&](Test test, unsigned elsewhere) {
    const std::string size = bytes_text(4.0 * slot_words * elsewhere);
    Table table("after " + size, {"of nothing", "of loads", "of __ldg", "of fetches"});
    for (const char* read : {"loads", "__ldg", "fetches"}) {
      auto& of = measured[test][read];
      table.row(read, {of["nothing"], of["loads"], of["__ldg"], of["fetches"]});
    }
    run.print(table);
  };
  print_again(after_few, few);
  run.note("cycles of the kind in the row, which had read the ring before; in between the kind of");
  run.note("the column read elsewhere. If a change of kind emptied L1, the L2 would answer");
  print_again(after_many, many);
  run.note("likewise, after more than L1 holds");
  judge(run, cycles, measured[after_many]);
}
SAMPLE(1, one_cache, "do loads and texture fetches share a cache?");

TEST_CASE("one_cache: a ring visits every slot once, and stays in its own words") {
  for (const unsigned ring : {0u, 1u}) {
    std::vector<unsigned> visits(2 * ring_words, 0);
    unsigned word = ring * ring_words;
    for (unsigned step = 0; step < slots; ++step) ++visits[word = next_of(word)];
    CHECK(word == ring * ring_words);
    unsigned wrong = 0;
    for (unsigned i = 0; i < visits.size(); ++i)
      wrong += visits[i] != (i / ring_words == ring && i % slot_words == 0);
    CHECK(wrong == 0);
  }
  CHECK(next_of(0) == 77 * 32);
  CHECK(next_of(chain) == chain + 32);  // and the chain comes back to where it begins
  CHECK(next_of(all_words - 32) == chain);
  CHECK(next_of(ring_words + 77 * 32) == ring_words + (5 * 77 + 77) % 128 * 32);
}

TEST_CASE("one_cache: where a walk ends says which of its parts were left out") {
  const unsigned whole = word_after(brought + timed_steps);
  CHECK(word_after(0) == ring_words);
  CHECK(word_after(slots) == ring_words);
  CHECK(whole != word_after(brought));
  CHECK(whole != word_after(timed_steps));
  CHECK(predicted_fetch(260, 40, 88) == 308);
}

TEST_CASE("one_cache: every kind of read after every other ends where it should") {
  if (skip_without_gpu()) return;
  const Memory m;
  const DeviceBuffer<Answer> answer(1);
  for (Pair pair : all_pairs(m)) {
    CAPTURE(pair.read);
    CAPTURE(pair.after);
    CHECK_NOTHROW(cycles_of(pair, answer));
    if (pair.test != after_the_same_words) continue;
    pair.after = pair.after == "nothing" ? "loads" : "nothing";  // a walk of another length
    CHECK_THROWS_AS(cycles_of(pair, answer), WrongResult);
  }
}
