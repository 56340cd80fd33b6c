// yours: which words do the lanes of your warp read? Type a pattern of 4-byte words: an expression
// of the lane i, or 32 words with commas between them; -1 is an idle lane.
//
//   build/release/03_access_patterns/03_access_patterns yours --pattern '8*i'
//   ... --pattern 'i/2'  '(i+5)%32'  '1000*i' (a column)  '3*i' (x of a struct of three floats)
//
// Without a GPU it draws what moves for one load, by five generations of GPUs. With one it times
// your pattern beside lanes in order. Look at the sectors first: how many for 4 in order?
//
//   1  read_words  each warp reads the pattern, again and again, in lines of its own
#include <doctest/doctest.h>

#include <cctype>

#include "../common/arrays.cuh"
#include "drawing.hpp"

namespace {

// ---- the pattern as typed ----

constexpr long most_words = 1 << 15;  // of a pattern: 128 KiB

/// The word of each lane; -1: it is idle.
struct Pattern {
  int word[32];

  Warp warp() const {
    return warp_of(4, [this](unsigned lane) { return word[lane]; });
  }
  /// The next warp begins in the line behind the last word.
  size_t words() const { return size_t(*std::max_element(word, word + 32) / 32 + 1) * 32; }
};

/// For titles and errors, which have one line.
std::string shown(const std::string& typed) {
  return typed.size() <= 30 ? typed : typed.substr(0, 27) + "...";
}

/// Reads a pattern from left to right. Each function reads what its comment shows.
class Parser {
 public:
  explicit Parser(const std::string& typed) : typed_(typed) {}

  /// sum, or sum,sum, ... 32 times
  Pattern pattern() {
    if (typed_.size() > 1000) fail("it is longer than 1000 characters");
    std::vector<std::array<long, 32>> words;  // of each expression in each lane
    do {
      words.push_back({});
      const size_t begin = at_;
      for (i_ = 0; i_ < 32; ++i_) {
        at_ = begin;
        words.back()[i_] = sum();
      }
    } while (take(','));
    if (at_ < typed_.size()) fail_here();
    if (words.size() != 1 && words.size() != 32)
      fail("it has " + std::to_string(words.size()) + " words");
    Pattern pattern;
    for (size_t lane = 0; lane < 32; ++lane) {
      const long word = words.size() == 1 ? words[0][lane] : words[lane][lane];
      if (word >= most_words) fail("a word is beyond " + std::to_string(most_words - 1));
      pattern.word[lane] = int(std::max(word, -1L));
    }
    if (*std::max_element(pattern.word, pattern.word + 32) < 0) fail("all lanes are idle");
    return pattern;
  }

 private:
  /// product + product - ...
  long sum() {
    long value = product();
    while (const char op = take_one_of("+-"))
      value = small(op == '+' ? value + product() : value - product());
    return value;
  }
  /// factor * factor / factor % ...
  long product() {
    long value = factor();
    while (const char op = take_one_of("*/%")) {
      const long by = factor();
      if (op != '*' && by == 0) fail("it divides by 0");
      value = op == '*' ? small(value * by) : op == '/' ? value / by : value % by;
    }
    return value;
  }
  /// i, 12, -factor or (sum)
  long factor() {
    if (take('i')) return long(i_);
    if (take('-')) return -factor();
    if (take('(')) {
      const long value = sum();
      if (!take(')')) fail("a ) is missing");
      return value;
    }
    if (!is_digit()) fail_here();
    long value = 0;
    for (; is_digit(); ++at_) value = small(10 * value + (typed_[at_] - '0'));
    return value;
  }

  bool is_digit() const { return at_ < typed_.size() && std::isdigit((unsigned char)typed_[at_]); }
  /// The next character, if it is one of these; else 0.
  char take_one_of(const std::string& characters) {
    while (at_ < typed_.size() && typed_[at_] == ' ') ++at_;
    const bool is_there = at_ < typed_.size() && characters.find(typed_[at_]) != std::string::npos;
    return is_there ? typed_[at_++] : 0;
  }
  bool take(char c) { return take_one_of({c}); }
  long small(long value) const {  // so that no product overflows
    if (std::abs(value) > 1000000000) fail("a number is beyond 1000000000");
    return value;
  }
  [[noreturn]] void fail_here() const {
    fail(at_ < typed_.size() ? "'" + typed_.substr(at_, 1) + "' is not understood"
                             : "something is missing at its end");
  }
  [[noreturn]] void fail(const std::string& why) const {
    throw UsageError("--pattern '" + shown(typed_) + "': " + why +
                     "; right is an expression of the lane i, as 8*i or (i+5)%32, or 32 words, " +
                     "as 0,1,2, ...");
  }

  std::string typed_;
  size_t at_ = 0;  ///< the next character
  size_t i_ = 0;   ///< the lane
};

std::string typed_pattern(const Run& run) { return run.option("pattern", "3*i"); }
Pattern pattern_of(const Run& run) { return Parser(typed_pattern(run)).pattern(); }

// ---- the kernel ----

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

/// `out` and `in` must outlive it.
Benchmark benchmark_of(const std::string& name, const Pattern& pattern,
                       const GuardedBuffer<unsigned>& out, const unsigned* in, size_t loads) {
  const size_t pattern_words = pattern.words(), warps = out.size() / 32;
  const auto work = [=, &out] {
    read_words<<<unsigned(out.size() / 256), 256>>>(out, in, loads, pattern_words, pattern);
  };
  return {name, work, equals(out, [=] __device__(size_t thread) {
            const int word = pattern.word[thread % 32];
            unsigned sum = 0;
            for (size_t load = thread / 32; word >= 0 && load < loads; load += warps)
              sum += hash(load * pattern_words + word);
            return sum;
          })};
}

}  // namespace

/// Throws UsageError if the pattern is none.
void check_yours(const Run& run) { pattern_of(run); }

void yours_drawing(Run& run) {
  const Warp warp = pattern_of(run).warp();
  run.title("what moves for your pattern, " + shown(typed_pattern(run)) + " (computed)");
  explain_drawing(run);
  draw(run, "yours", warp);
  run.note("a load touches " + std::to_string(segments(warp, 32).size()) +
           " sectors of 32 bytes; " + percent(used(today, warp)).words + " of them is used");
}

void yours(Run& run) {
  const Pattern pattern = pattern_of(run);
  const Pattern in_order = Parser("i").pattern();
  const size_t words = run.fitting(size_t(1) << 28, sizeof(unsigned));
  const auto in = filled<unsigned>(words, [] __device__(size_t i) { return hash(i); });
  const GuardedBuffer<unsigned> out(run.resident_blocks(256) * 256);
  run.title("loads of your pattern, " + shown(typed_pattern(run)) + ", side by side in " +
            bytes_text(4.0 * double(words)));
  const auto loads = [&](const Pattern& p) { return words / p.words(); };
  const Timings timed =
      run.timer.interleaved({benchmark_of("in order", in_order, out, in, loads(in_order)),
                             benchmark_of("yours", pattern, out, in, loads(pattern))});

  Table table("a load", {"sectors/request", "64-byte pieces", "ns per 1000 loads", "of in order"});
  double ns_in_order = 0;
  const auto row = [&](const char* name, const Pattern& p) {
    const double each = 1e9 / double(loads(p));  // ns of 1000 loads, where all take 1 ms
    const Interval ms = timed[name].ms_interval();
    const Interval ns{each * ms.value, each * ms.low, each * ms.high};
    if (ns_in_order == 0) ns_in_order = ns.value;
    table.row(name, {segments(p.warp(), 32).size(), segments(p.warp(), 64).size(), ns,
                     ns.value / ns_in_order});
  };
  row("in order", in_order);
  row("yours", pattern);
  run.print(table);
  run.note("L1 and L2 move sectors; the memory of an H100 or H200 gives 64 bytes at a time");
  if (!run.beyond_l2(64.0 * double(segments(pattern.warp(), 64).size() * loads(pattern))))
    run.note("what moves is less than four times the L2, so a part of it stays there");
}
SAMPLE(14, yours, "your own pattern, drawn and timed", yours_drawing);

TEST_CASE("yours: patterns as typed, by hand") {
  const auto words = [](const std::string& typed) {  // of lanes 0, 1, 2 and 31
    const Pattern p = Parser(typed).pattern();
    return std::vector<int>{p.word[0], p.word[1], p.word[2], p.word[31]};
  };
  using Words = std::vector<int>;
  CHECK(words("8*i") == Words{0, 8, 16, 248});
  CHECK(words("i/2") == Words{0, 0, 1, 15});
  CHECK(words(" ( i + 5 ) % 32 ") == Words{5, 6, 7, 4});
  CHECK(words("1+2*i-i*2") == Words{1, 1, 1, 1});
  CHECK(words("31-i") == Words{31, 30, 29, 0});
  CHECK(words("8-2-i") == Words{6, 5, 4, -1});  // from left to right
  CHECK(words("32/4/2*i") == Words{0, 4, 8, 124});
  CHECK(words("-(i%2)+i*0") == Words{0, -1, 0, -1});
  std::string list = "7,-1,i+40";
  for (int lane = 3; lane < 32; ++lane) list += ", 9";
  CHECK(words(list) == Words{7, -1, 42, 9});
  CHECK(Parser("3*i").pattern().words() == 96);
  CHECK(Parser("i+1").pattern().words() == 64);
  CHECK(segments(Parser("3*i").pattern().warp(), 32).size() == 12);
  CHECK(used(today, Parser("8*i").pattern().warp()) == 0.125);
}

TEST_CASE("yours: what is no pattern is refused") {
  for (const char* typed : {"",
                            " ",
                            "j",
                            "8*",
                            "8i",
                            "(i",
                            "i)",
                            "i,",
                            "0,1,2",
                            "i/0",
                            "i%(i-3)",
                            "-1",
                            "0-i-1",
                            "1.5",
                            "40000",
                            "2000*i",
                            "99999999999999999999",
                            "99999*99999*99999",
                            "i;",
                            "\xff"}) {
    CAPTURE(typed);
    CHECK_THROWS_AS(Parser(typed).pattern(), UsageError);
  }
  CHECK_THROWS_AS(Parser(std::string(100000, '(')).pattern(), UsageError);
  CHECK_THROWS_WITH_AS(
      Parser("8*j").pattern(),
      "--pattern '8*j': 'j' is not understood; right is an expression of the lane i, as 8*i "
      "or (i+5)%32, or 32 words, as 0,1,2, ...",
      UsageError);
  Run run;
  check_yours(run);  // the default is a pattern
  run.options["pattern"] = "j";
  CHECK_THROWS_AS(check_yours(run), UsageError);
}

TEST_CASE("yours: each thread has the sum of its words, at awkward sizes") {
  if (skip_without_gpu()) return;
  const GuardedBuffer<unsigned> out(3 * 256);
  for (const char* typed : {"i", "3*i", "31-i", "i*37%32", "1000*i", "i%2*33-1", "0"})
    for (const size_t loads : {1, 24, 31, 193, 1009}) {
      CAPTURE(typed);
      CAPTURE(loads);
      const Pattern p = Parser(typed).pattern();
      const auto in =
          filled<unsigned>(loads * p.words(), [] __device__(size_t i) { return hash(i); });
      std::vector<unsigned> right(out.size(), 0);
      for (size_t load = 0; load < loads; ++load)
        for (size_t lane = 0; lane < 32; ++lane)
          if (p.word[lane] >= 0)
            right[(32 * load + lane) % right.size()] += hash(load * p.words() + p.word[lane]);
      const Benchmark read = benchmark_of(typed, p, out, in, loads);
      read.check.poison();
      read.work();
      CHECK(out.to_host() == right);
      CHECK(read.check.find_error() == "");
      CHECK(benchmark_of(typed, p, out, in, loads + 1).check.find_error() != "");
    }
}
