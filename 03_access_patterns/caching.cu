// caching: the same loads through L1 (.ca), past it (.cg), and past it by the compiler's flag. The wiki has lines of
// 128 bytes through L1 and segments of 32 past it, so that a scattered load had better go past; and says that from
// Pascal on the unit is 32 bytes either way. Look at the second table: a load through L1 brings its own sector of 32
// bytes, and the next word costs a hit; but the neighbouring sectors of the same line are still far away.
#include <doctest/doctest.h>

#include <optional>

#include "../common/first_edition.hpp"
#include "caching.cuh"
#include "reading.cuh"
#include "transactions.hpp"

namespace {

struct ThroughL1 {
  __device__ static unsigned from(const unsigned* address) { return __ldca(address); }
};
struct PastL1 {
  __device__ static unsigned from(const unsigned* address) { return __ldcg(address); }
};

struct Plain {
  __device__ static unsigned from(const unsigned* address) { return *address; }
};

struct Way {
  std::string name;
  LoadKernels kernels;
  Rule old_rule;  ///< of compute capabilities 2.x and 3.x
};

std::vector<Way> all_ways() {
  std::vector<Way> ways{{".ca", kernels_by<ThroughL1>(), Rule::through_l1},
                        {".cg", kernels_by<PastL1>(), Rule::past_l1},
                        {"plain", kernels_by<Plain>(), Rule::through_l1}};
  if (kernels_by_flag().read) ways.push_back({"-dlcm=cg", kernels_by_flag(), Rule::past_l1});
  return ways;
}

struct Pattern {
  std::string name;
  size_t offset, stride;
};
const Pattern patterns[] = {{"aligned", 0, 1}, {"misaligned by a word", 1, 1}, {"a word in 128 bytes", 0, 32}};

// ---- prediction -----------------------------------------------------------------------------------------------------

Warp warp_for(const Pattern& p) {
  return warp_of(4, [&](unsigned lane) { return taken(lane, p.offset, p.stride); });
}

// ---- reading --------------------------------------------------------------------------------------------------------

/// The sum that each thread must have.
struct RightSums {
  size_t n, step, offset, stride;
  __host__ __device__ unsigned expected(size_t thread) const {
    unsigned sum = 0;
    for (size_t i = thread; i < n; i += step) sum += scrambled(taken(i, offset, stride));
    return sum;
  }
  __device__ bool operator()(size_t thread, unsigned sum) const { return sum == expected(thread); }
};

struct Work {
  size_t words;
  unsigned blocks = reading_blocks();
  DeviceBuffer<unsigned> in, out{size_t(blocks) * reading_threads};

  explicit Work(size_t words) : words(words), in(words_to_read(words + 1)) {}  // one more for the misaligned
  size_t n(const Pattern& p) const { return (words + p.stride - 1) / p.stride; }
  void launch(const Way& way, const Pattern& p) {
    way.kernels.read<<<blocks, reading_threads>>>(out.data(), in.data(), n(p), p.offset, p.stride);
    CUDA_CHECK_LAUNCH();
  }
  bool right(const Way& way, const Pattern& p) {
    out.poison();
    launch(way, p);
    return wrong_words(out, RightSums{n(p), out.size(), p.offset, p.stride}) == 0;
  }
};

// ---- one load after the other ---------------------------------------------------------------------------------------

constexpr unsigned chased_lines = 256;  // 32 KiB: each line is new to L1, all are in L2 after the first chase

/// From the first word of each line of 128 bytes to its word `second` (0: not), and then to the next line.
std::vector<unsigned> chain(unsigned second) {
  std::vector<unsigned> next(chased_lines * 32, ~0u);
  for (unsigned line = 0; line < chased_lines; ++line) {
    const unsigned first = line * 32, after = (line + 1) % chased_lines * 32;
    next[first] = second ? first + second : after;
    if (second) next[first + second] = after;
  }
  return next;
}

/// Cycles of one round of the chain, for each line.
Statistics cycles_a_line(const Way& way, unsigned second, int repeats) {
  const DeviceBuffer<unsigned> next(chain(second));
  DeviceBuffer<long long> cycles(1);
  DeviceBuffer<unsigned> end(1);
  std::vector<double> values;
  for (int r = -1; r < repeats; ++r) {  // the first round brings the chain into L2; L1 is empty again at each launch
    end.poison();
    way.kernels.chase<<<1, 1>>>(cycles.data(), end.data(), next.data(), chased_lines * (second ? 2 : 1));
    CUDA_CHECK_LAUNCH();
    require_right(end.to_host()[0] == 0, "the end of the chain");
    if (r >= 0) values.push_back(double(cycles.to_host()[0]) / chased_lines);
  }
  return summarize(values);
}

const Claim unit{"03.11", "from Pascal on the unit of access is 32 bytes whether or not L1 caches the load", "wiki",
                 "32 B"};

}  // namespace

void caching(const Run& run) {
  const size_t wanted = run.quick ? size_t(256) << 20 : size_t(1) << 30;  // beyond the L2 of any GPU so far
  const size_t words = (run.device ? shrunk_to_fit(wanted) : wanted) / 4;
  run.report.begin("caching", "an array of " + std::to_string(words) + " words of 4 bytes, " +
                                  bytes_text(4.0 * double(words)) + "; then " + std::to_string(chased_lines) +
                                  " lines of 128 bytes, one load after the other");
  const std::vector<Way> ways = all_ways();
  Table table(run.report, "loads",
              {predicted("bytes/request on 2.x", "bytes a request on 2.x", "B", 0),
               predicted("bytes/request", "bytes a request", "B", 0),
               predicted("sectors/request", "load sectors a request", "", 0), measured("GB/s", "bandwidth", "GB/s", 0),
               shown("spread"), shown("of .ca")});
  {
    std::optional<Work> work;
    if (run.device) work.emplace(words);
    for (const Pattern& p : patterns) {
      double through_l1 = 0;
      for (const Way& way : ways) {
        std::vector<Cell> cells(6);
        cells[0] = double(under(way.old_rule, warp_for(p)).bytes());
        cells[1] = double(under(Rule::sectors, warp_for(p)).bytes());
        cells[2] = double(sectors(warp_for(p)));
        if (work) {
          require_right(work->right(way, p), p.name + " " + way.name);
          const Statistics rate =
              gigabytes_per_second(4.0 * double(work->n(p)), time_device(run.measuring, [&] { work->launch(way, p); }));
          if (way.name == ".ca") through_l1 = rate.median;
          cells[3] = rate, cells[4] = spread_text(rate), cells[5] = times(rate.median / through_l1);
        }
        table.row({p.name + ", " + way.name}, cells);
      }
    }
    table.print();
  }
  const bool with_flag = kernels_by_flag().read != nullptr;
  if (!with_flag) run.report.left_out("the rows of -dlcm=cg", "the flag is for a whole file; CMake's build sets it");
  if (!run.device)
    return run.report.left_out("the bandwidth of each load, and what a second load in the line costs", {unit});

  Table second(
      run.report, "loads",
      {measured("a new line", "new line", "cycles", 0), measured("then: same sector", "same sector", "cycles", 0),
       measured("next sector", "next sector", "cycles", 0), measured("last sector", "last sector", "cycles", 0)});
  Statistics first{}, same{}, neighbour{};  // of .ca: a line with its first load alone, and with a second one
  for (const Way& way : ways) {
    const auto round = [&](unsigned word) { return cycles_a_line(way, word, run.measuring.repeats); };
    const Statistics line = round(0), one = round(1), eight = round(8), last = round(24);
    if (way.name == ".ca") first = line, same = one, neighbour = eight;
    const auto without_first = [&](const Statistics& both) { return both.median - line.median; };
    second.row({way.name}, {line, without_first(one), without_first(eight), without_first(last)});
  }
  second.print();
  if (with_flag)
    run.report.note(
        "where the driver compiles the kernels for this GPU itself the flag is lost, and its row is as .ca's");

  const double hit = same.median - first.median, next = neighbour.median - first.median;
  if (hit > 0.75 * first.median)  // a second word of a sector that is in L1 must be clearly nearer than a new line
    return run.report.claim(unit, not_judged("L1 does not keep these loads here"));
  Judgement judged = judge_ratio(neighbour, same);
  judged.here = "through L1 a word of the same sector then costs " + fixed(hit, 0) +
                " cycles, one of the next sector " + fixed(next, 0) + ", a new line " + fixed(first.median, 0);
  judged.value = next / hit;
  run.report.claim(unit, judged);
}

// ---- self-checks ----------------------------------------------------------------------------------------------------

namespace {

std::vector<CountedLaunch> counted_launches() {
  std::vector<CountedLaunch> all;
  for (const Way& way : all_ways())
    for (const Pattern& p : patterns)
      all.push_back({"read_by", p.name + " " + way.name, double(sectors(warp_for(p))), 4,
                     [=] { return Work(size_t(1) << 22).right(way, p); }});
  return all;
}

}  // namespace

TEST_CASE("caching: the old rules moved lines through L1 and segments past it") {
  const Warp misaligned = warp_for(patterns[1]), scattered = warp_for(patterns[2]);
  CHECK(under(Rule::through_l1, misaligned).bytes() == 256);
  CHECK(under(Rule::past_l1, misaligned).bytes() == 160);
  CHECK(under(Rule::through_l1, scattered).bytes() == 32 * 128);
  CHECK(under(Rule::past_l1, scattered).bytes() == 32 * 32);
  CHECK(sectors(misaligned) == 5);
  CHECK(sectors(scattered) == 32);
}

TEST_CASE("caching: a chain visits each line and the second word once and ends where it began") {
  for (unsigned second : {0u, 1u, 8u, 24u, 31u}) {
    CAPTURE(second);
    const std::vector<unsigned> next = chain(second);
    std::vector<int> visits(next.size(), 0);
    unsigned at = 0;
    for (unsigned step = 0; step < chased_lines * (second ? 2 : 1); ++step) ++visits.at(at), at = next.at(at);
    CHECK(at == 0);
    for (size_t word = 0; word < next.size(); ++word)
      CHECK(visits[word] == (word % 32 == 0 || (second && word % 32 == second) ? 1 : 0));
  }
}

TEST_CASE("caching: each thread has the sum of the host's reference and each chain ends") {
  if (skip_without_gpu()) return;
  const size_t grid = size_t(reading_blocks()) * reading_threads;
  for (const Way& way : all_ways()) {
    CAPTURE(way.name);
    for (size_t words : {size_t(1), size_t(31), size_t(1009), 9 * grid + 65537})
      for (const Pattern& p : patterns) {
        CAPTURE(words);
        CAPTURE(p.name);
        Work work(words);
        CHECK(work.right(way, p));
        RightSums reference{work.n(p), grid, p.offset, p.stride};
        const std::vector<unsigned> sums = work.out.to_host();
        for (size_t thread = 0; thread < grid; thread += 1 + thread / 64)
          CHECK(sums[thread] == reference.expected(thread));
        reference.n += 1;
        CHECK(wrong_words(work.out, reference) == 1);  // and the check can fail
      }
    for (unsigned second : {0u, 1u, 24u}) CHECK(cycles_a_line(way, second, 2).median > 0);  // throws if it does not end
  }
}

TEST_CASE("caching: profile launches") {
  if (skip_without_gpu()) return;
  launch_counted(counted_launches());
}

TEST_CASE("caching: counted sectors equal the model") { compare_with_counters(counted_launches()); }
