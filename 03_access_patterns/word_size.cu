// word_size: words of 4, 8 and 16 bytes, read side by side and with 128 bytes to each word alone. Dr. Dobb's hands on
// the rough penalties of 2008: uncoalesced words cost 10 times as much in 32 bits, 4 times in 64, twice in 128. Look at
// the model of the G80 beside them: 32 bytes were the least that it moved for a lane, so the loss was 8, 4 and 2.
// Sectors say the same today; memory that hands out two of them at a time makes it twice that.
#include <doctest/doctest.h>

#include "../common/first_edition.hpp"
#include "reading.cuh"
#include "transactions.hpp"

namespace {

constexpr unsigned own_bytes = 128;  // what an uncoalesced word has for itself: a line, so that no cache helps

/// The place of element `i` of a read in an array of words of `word` bytes.
__host__ __device__ size_t place(size_t i, unsigned word, bool coalesced) {
  return coalesced ? i : i * (own_bytes / word);
}

__host__ __device__ unsigned sum_of(unsigned word) { return word; }
__host__ __device__ unsigned sum_of(uint2 word) { return word.x + word.y; }
__host__ __device__ unsigned sum_of(uint4 word) { return word.x + word.y + word.z + word.w; }

// At each step a warp reads 32 words, side by side or 128 bytes apart. Four loads of a thread are under way at once;
// all that it writes is the sum of what it read.
template <class Word>
__global__ void read_words(unsigned* out, const Word* in, size_t n, bool coalesced) {
  const size_t thread = blockIdx.x * size_t(blockDim.x) + threadIdx.x, step = size_t(gridDim.x) * blockDim.x;
  unsigned sum = 0;
  size_t i = thread;
  for (; i + 3 * step < n; i += 4 * step) {
    Word words[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) words[k] = in[place(i + k * step, sizeof(Word), coalesced)];
#pragma unroll
    for (int k = 0; k < 4; ++k) sum += sum_of(words[k]);
  }
  for (; i < n; i += step) sum += sum_of(in[place(i, sizeof(Word), coalesced)]);
  out[thread] = sum;
}

/// The sum that each thread must have.
struct RightSums {
  size_t n, step;
  unsigned word;
  bool coalesced;
  __host__ __device__ unsigned expected(size_t thread) const {
    unsigned sum = 0;
    for (size_t i = thread; i < n; i += step)
      for (unsigned k = 0; k < word / 4; ++k) sum += scrambled(place(i, word, coalesced) * (word / 4) + k);
    return sum;
  }
  __device__ bool operator()(size_t thread, unsigned sum) const { return sum == expected(thread); }
};

// ---- prediction -----------------------------------------------------------------------------------------------------

constexpr unsigned word_sizes[] = {4, 8, 16};

Warp word_warp(unsigned word, bool coalesced) {
  return warp_of(word, [=](unsigned lane) { return place(lane, word, coalesced); });
}

std::string row_name(const std::string& how, unsigned word) { return how + ", " + std::to_string(word) + " bytes"; }

/// How many times the bytes move for an uncoalesced word that move for a coalesced one.
double penalty(Rule rule, unsigned word) {
  return double(under(rule, word_warp(word, false)).bytes()) / under(rule, word_warp(word, true)).bytes();
}

// ---- the experiment -------------------------------------------------------------------------------------------------

struct Work {
  unsigned blocks = reading_blocks();
  DeviceBuffer<unsigned> in, out{size_t(blocks) * reading_threads};

  explicit Work(size_t bytes) : in(words_to_read(bytes / 4)) {}
  /// Words that a read of the whole array takes.
  size_t n(unsigned word, bool coalesced) const { return in.bytes() / (coalesced ? word : own_bytes); }
  void launch(unsigned word, bool coalesced) {
    const auto read = [&](auto kernel, auto* words) {
      kernel<<<blocks, reading_threads>>>(out.data(), words, n(word, coalesced), coalesced);
    };
    if (word == 4) read(read_words<unsigned>, in.data());
    if (word == 8) read(read_words<uint2>, reinterpret_cast<const uint2*>(in.data()));
    if (word == 16) read(read_words<uint4>, reinterpret_cast<const uint4*>(in.data()));
    CUDA_CHECK_LAUNCH();
  }
  bool right(unsigned word, bool coalesced) {
    out.poison();
    launch(word, coalesced);
    return wrong_words(out, RightSums{n(word, coalesced), out.size(), word, coalesced}) == 0;
  }
};

const Claim penalties{"03.5", "uncoalesced words cost 10x (32-bit), 4x (64-bit), 2x (128-bit)", "8800 GTX",
                      "10x, 4x, 2x"};
constexpr double stated[] = {10, 4, 2};

}  // namespace

void word_size(const Run& run) {
  const size_t wanted = run.quick ? size_t(512) << 20 : size_t(4) << 30;  // 4 GiB: a launch counts for nothing
  const size_t bytes = run.device ? shrunk_to_fit(wanted) : wanted;
  run.report.begin("word_size", "an array of " + bytes_text(double(bytes)) + ": " + std::to_string(bytes / 4) +
                                    " words of 4 bytes, or " + std::to_string(bytes / own_bytes) +
                                    " of which each has 128 bytes for itself");
  Statistics rate[3][2]{}, ns[3][2]{};  // by word size and coalesced
  double best = 0;                      // GB/s
  if (run.device) {
    Work work(bytes);
    for (int w = 0; w < 3; ++w)
      for (bool coalesced : {true, false}) {
        const unsigned word = word_sizes[w];
        require_right(work.right(word, coalesced), std::to_string(word) + "-byte words");
        const Statistics ms = time_device(run.measuring, [&] { work.launch(word, coalesced); });
        const double n = double(work.n(word, coalesced));
        rate[w][coalesced] = gigabytes_per_second(n * word, ms);
        ns[w][coalesced] = scaled(ms, 1e6 / n);
        best = std::max(best, rate[w][coalesced].median);
      }
  }

  const double theory = run.device ? run.device->theoretical_gbs : 0;
  Table table(run.report, "words",
              {predicted("sectors/request", "load sectors a request", "", 0), predicted("used %", "used", "%", 1),
               predicted("model GB/s", "bandwidth", "GB/s", 0), measured("GB/s", "bandwidth", "GB/s", 0),
               shown("spread"), shown("of theory"), shown("")});
  for (bool coalesced : {true, false})
    for (int w = 0; w < 3; ++w) {
      const Warp warp = word_warp(word_sizes[w], coalesced);
      const double used = under(Rule::sectors, warp).utilisation();
      std::vector<Cell> cells(7);
      cells[0] = double(sectors(warp)), cells[1] = 100 * used;
      if (run.device) {
        const Statistics& r = rate[w][coalesced];
        cells[2] = used * best, cells[3] = r, cells[4] = spread_text(r);
        if (theory > 0) cells[5] = percent(r.median / theory), cells[6] = bar(r.median / theory);
      }
      table.row({row_name(coalesced ? "coalesced" : "128 bytes each", word_sizes[w])}, cells);
    }
  table.print();
  if (run.device) run.report.note("the model: the used share of the sectors, of the best rate");

  Table costs(run.report, "cost of a word, in coalesced ones",
              {then("then", "cost", "x", 0), predicted("G80's model", "cost on 1.0", "x", 1),
               predicted("sectors", "cost", "x", 1), measured("measured", "cost", "x", 1), shown("spread")});
  Judgement judged{Verdict::holds, ""};
  double product = 1;  // of measured over stated
  for (int w = 0; w < 3; ++w) {
    const unsigned word = word_sizes[w];
    std::vector<Cell> cells{stated[w], penalty(Rule::in_order, word), penalty(Rule::sectors, word), {}, {}};
    if (run.device) {
      const Statistics &apart = ns[w][false], &together = ns[w][true];
      const Statistics cost{apart.median / together.median, apart.low / together.high, apart.high / together.low,
                            apart.repeats};
      cells[3] = cost, cells[4] = spread_text(cost);
      product *= cost.median / stated[w];
      if (!(apart.low > together.high)) judged.verdict = Verdict::does_not_hold;
      judged.here += (w ? ", " : "") + times(cost.median);
    }
    costs.row({row_name("uncoalesced", word)}, cells);
  }
  costs.print();
  if (!run.device) return run.report.left_out("the bandwidth of each kind of read", {penalties});

  if (theory > 0)
    run.report.note("coalesced words of 16 bytes reach " + fixed(100 * rate[2][true].median / theory, 1) +
                    "% of the theoretical bandwidth");
  if (double(bytes) < 2.0 * double(run.device->l2_bytes()))
    return run.report.claim(penalties, not_judged("the array fits in the L2"));
  judged.value = std::cbrt(product);  // the three factors as one: how far they lie from the text's on average
  if (judged.verdict == Verdict::holds && judged.value < 1 - stated_factor_tolerance)
    judged.verdict = Verdict::holds_by_less;
  if (judged.verdict == Verdict::holds && judged.value > 1 + stated_factor_tolerance)
    judged.verdict = Verdict::holds_by_more;
  run.report.claim(penalties, judged);
}

// ---- self-checks ----------------------------------------------------------------------------------------------------

namespace {

std::vector<CountedLaunch> counted_launches() {
  std::vector<CountedLaunch> all;
  for (unsigned word : word_sizes)
    for (bool coalesced : {true, false})
      all.push_back({"read_words", std::to_string(word) + " bytes " + (coalesced ? "coalesced" : "apart"),
                     double(sectors(word_warp(word, coalesced))), 4,
                     [=] { return Work(size_t(16) << 20).right(word, coalesced); }});
  return all;
}

}  // namespace

TEST_CASE("word_size: an uncoalesced word takes a sector and the rest of it is lost") {
  const double cost[] = {8, 4, 2};
  for (int w = 0; w < 3; ++w) {
    CAPTURE(word_sizes[w]);
    CHECK(sectors(word_warp(word_sizes[w], true)) == int(word_sizes[w]));
    CHECK(sectors(word_warp(word_sizes[w], false)) == 32);
    CHECK(lines(word_warp(word_sizes[w], false)) == 32);
    CHECK(penalty(Rule::sectors, word_sizes[w]) == cost[w]);
    CHECK(penalty(Rule::in_order, word_sizes[w]) == cost[w]);
    CHECK(penalty(Rule::through_l1, word_sizes[w]) == 4 * cost[w]);
  }
}

TEST_CASE("word_size: each thread has the sum of the host's reference") {
  if (skip_without_gpu()) return;
  const size_t grid = size_t(reading_blocks()) * reading_threads;
  for (size_t bytes : {size_t(128), size_t(31 * 128), size_t(1009 * own_bytes), 5 * grid * 16 + 128 * 77})
    for (unsigned word : word_sizes)
      for (bool coalesced : {true, false}) {
        CAPTURE(bytes);
        CAPTURE(word);
        CAPTURE(coalesced);
        Work work(bytes);
        CHECK(work.right(word, coalesced));
        RightSums reference{work.n(word, coalesced), grid, word, coalesced};
        const std::vector<unsigned> sums = work.out.to_host();
        for (size_t thread = 0; thread < grid; thread += 1 + thread / 64)
          CHECK(sums[thread] == reference.expected(thread));
        reference.n += 1;
        CHECK(wrong_words(work.out, reference) == 1);  // and the check can fail
      }
}

TEST_CASE("word_size: profile launches") {
  if (skip_without_gpu()) return;
  launch_counted(counted_launches());
}

TEST_CASE("word_size: counted sectors equal the model") { compare_with_counters(counted_launches()); }
