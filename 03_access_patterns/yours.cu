// yours: which words do the lanes of your warp read? Change word_of, compile this file alone (it
// takes seconds), and run it:
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o yours yours.cu ../common/*.cpp && ./yours
//
// It draws what moves for one load, by five generations of GPUs. With a GPU it also times your
// pattern beside lanes in order. Look at the sectors first: how many for 4 in order?
//
//   1  read_words  each warp reads the pattern repeatedly, in lines of its own

/// Change me: number of the 4-byte word that a lane reads; -1, and the lane is idle. Try 8 * lane,
/// lane / 2, (lane + 5) % 32, 1000 * lane (a column), lane % 2 ? lane : -1.
constexpr int word_of(int lane) { return 3 * lane; }  // x of a struct of three floats

#include "../common/arrays.cuh"
#include "../common/sample.hpp"
#include "drawing.hpp"

namespace {

/// The word of each lane; -1: it is idle.
struct Pattern {
  int word[32];

  constexpr explicit Pattern(int (*word_of)(int lane)) : word() {
    for (int lane = 0; lane < 32; ++lane) word[lane] = word_of(lane);
  }
  constexpr int least() const { return *std::min_element(word, word + 32); }
  constexpr int last() const { return *std::max_element(word, word + 32); }
  /// The next warp begins in the line behind the last word.
  constexpr size_t words() const { return size_t(last() / 32 + 1) * 32; }
  Warp warp() const {
    return warp_of(4, [this](unsigned lane) { return word[lane]; });
  }
};
constexpr Pattern in_order([](int lane) { return lane; }), yours_as_typed(word_of);
static_assert(yours_as_typed.least() >= -1, "a word lies before the array");
static_assert(yours_as_typed.last() >= 0, "all lanes are idle");
static_assert(yours_as_typed.last() < 1 << 15, "a word lies beyond 128 KiB");

/// "words 0, 3, 6 ... 93"
std::string text_of(const Pattern& p) {
  const auto word = [&](int lane) { return std::to_string(p.word[lane]); };
  return "words " + word(0) + ", " + word(1) + ", " + word(2) + " ... " + word(31);
}

// Load number k begins at word k * pattern_words. Load after load, the warps take turns.
__global__ void read_words(unsigned* out, const unsigned* in, size_t loads, size_t pattern_words,
                           Pattern pattern) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const size_t warps = size_t(gridDim.x) * blockDim.x / 32;
  const int word = pattern.word[threadIdx.x % 32];
  unsigned sum = 0;
  if (word >= 0) {
    size_t load = tid / 32;
    for (; load + 7 * warps < loads; load += 8 * warps) {  // eight loads in flight
#pragma unroll
      for (unsigned k = 0; k < 8; ++k) sum += in[(load + k * warps) * pattern_words + word];
    }
    for (; load < loads; load += warps) sum += in[load * pattern_words + word];  // the remaining
  }
  out[tid] = sum;
}

// ---- the launches ----

/// A load takes a place of p.words() words.
size_t loads_in(const DeviceBuffer<unsigned>& in, const Pattern& p) {
  return in.size() / p.words();
}

Benchmark reading(const char* name, const Pattern& p, const DeviceBuffer<unsigned>& in,
                  const GuardedBuffer<unsigned>& out) {
  const size_t loads = loads_in(in, p), words = p.words(), warps = out.size() / 32;
  const unsigned blocks = unsigned(out.size() / 256);
  return {name, [=] { read_words<<<blocks, 256>>>(out, in, loads, words, p); },
          equals(out, [=] __device__(size_t thread) {
            const int word = p.word[thread % 32];
            unsigned sum = 0;
            for (size_t load = thread / 32; word >= 0 && load < loads; load += warps)
              sum += hash(load * words + word);
            return sum;
          })};
}

void drawing(Run& run) {
  const Warp warp = yours_as_typed.warp();
  run.title("what moves for your pattern, " + text_of(yours_as_typed) + " (computed)");
  explain_drawing(run);
  draw(run, "yours", warp);
  run.note("a load touches " + std::to_string(segments(warp, 32).size()) +
           " sectors of 32 bytes; " + percent(used(today, warp)).words + " of them is used");
}

}  // namespace

void yours(Run& run) {
  const size_t words = run.fitting(size_t(1) << 28, sizeof(unsigned));
  const auto in = filled<unsigned>(words, [] __device__(size_t i) { return hash(i); });
  const GuardedBuffer<unsigned> out(run.resident_blocks(256) * 256);
  run.title("loads of your pattern, " + text_of(yours_as_typed) + ", side by side in " +
            bytes_text(4.0 * double(words)));
  const Timings timed = run.timer.interleaved(
      {reading("in order", in_order, in, out), reading("yours", yours_as_typed, in, out)});

  Table table("a load", {"sectors/request", "64-byte pieces", "ns per 1000 loads", "of in order"});
  const auto ns_of_1000 = [&](const char* name, const Pattern& p) {
    return 1e9 / double(loads_in(in, p)) * timed[name].ms_interval();
  };
  const double ns_in_order = ns_of_1000("in order", in_order).value;
  const auto row = [&](const char* name, const Pattern& p) {
    const Interval ns = ns_of_1000(name, p);
    table.row(name, {segments(p.warp(), 32).size(), segments(p.warp(), 64).size(), ns,
                     ns.value / ns_in_order});
  };
  row("in order", in_order);
  row("yours", yours_as_typed);
  run.print(table);
  run.note("L1 and L2 move sectors; the memory of an H100 or H200 gives 64 bytes at a time");
  const size_t pieces = segments(yours_as_typed.warp(), 64).size();
  if (!run.beyond_l2(64.0 * double(pieces * loads_in(in, yours_as_typed))))
    run.note("what moves is less than four times the L2, so a part of it stays there");
}
SAMPLE(14, yours, "your own pattern, drawn and timed", drawing);

TEST_CASE("yours: patterns by hand") {
  constexpr Pattern three([](int lane) { return 3 * lane; }), eight([](int i) { return 8 * i; });
  CHECK(three.words() == 96);
  CHECK(Pattern([](int lane) { return lane + 1; }).words() == 64);
  CHECK(segments(three.warp(), 32).size() == 12);
  CHECK(used(today, eight.warp()) == 0.125);
  CHECK(text_of(three) == "words 0, 3, 6 ... 93");
  CHECK(Pattern([](int lane) { return lane % 2 ? lane : -1; }).least() == -1);
}

TEST_CASE("yours: each thread has the sum of its words, at awkward sizes") {
  if (skip_without_gpu()) return;
  const GuardedBuffer<unsigned> out(3 * 256);
  for (const Pattern& p :
       {yours_as_typed, in_order, Pattern([](int i) { return 31 - i; }),
        Pattern([](int i) { return i * 37 % 32; }), Pattern([](int i) { return 1000 * i; }),
        Pattern([](int i) { return i % 2 * 33 - 1; }), Pattern([](int) { return 0; })})
    for (const size_t loads : {1, 24, 31, 193, 1009}) {
      CAPTURE(text_of(p));
      CAPTURE(loads);
      const auto in =
          filled<unsigned>(loads * p.words(), [] __device__(size_t i) { return hash(i); });
      std::vector<unsigned> right(out.size(), 0);
      for (size_t load = 0; load < loads; ++load)
        for (size_t lane = 0; lane < 32; ++lane)
          if (p.word[lane] >= 0)
            right[(32 * load + lane) % right.size()] += hash(load * p.words() + p.word[lane]);
      const Benchmark read = reading("pattern", p, in, out);
      read.check.poison();
      read.work();
      CHECK(out.to_host() == right);
      CHECK(read.check.find_error() == "");
      const DeviceBuffer<unsigned> longer((loads + 1) * p.words());
      CHECK(reading("pattern", p, longer, out).check.find_error() != "");
    }
}
