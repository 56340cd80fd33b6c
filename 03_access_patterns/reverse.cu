// reverse: an array turned end for end, once from global memory to global memory, once by way of shared memory. On the
// 8800 the second won though it does more: a half-warp had to write its words in the order of its lanes, or each lane
// paid for itself. Look at the store's transactions in 2007 and today: the order within a sector no longer matters, so
// the detour has nothing left to save.
#include <doctest/doctest.h>

#include <optional>

#include "../common/first_edition.hpp"
#include "reading.cuh"
#include "transactions.hpp"

namespace {

constexpr unsigned threads = 256;

/// Word that a thread reads; a block reads `threads` neighbours, the last one what is left.
__host__ __device__ size_t source(size_t block, unsigned tid) { return block * threads + tid; }

/// Words that a block has, more than none.
__host__ __device__ unsigned words_of(size_t block, size_t n) {
  return n - source(block, 0) < threads ? unsigned(n - source(block, 0)) : threads;
}

/// Where the word goes that a thread has read: its warp runs backwards.
__host__ __device__ size_t backwards(size_t block, unsigned tid, size_t n) { return n - 1 - source(block, tid); }

/// Where a thread writes after the block has turned its words round in shared memory: its warp runs forwards.
__host__ __device__ size_t forwards(size_t block, unsigned tid, size_t n) {
  return n - source(block, 0) - words_of(block, n) + tid;
}

// A warp reads 32 neighbours and writes 32 neighbours, the last lane first.
__global__ void reverse_global(unsigned* out, const unsigned* in, size_t n) {
  const size_t i = source(blockIdx.x, threadIdx.x);
  if (i < n) out[backwards(blockIdx.x, threadIdx.x, n)] = in[i];
}

// A warp reads 32 neighbours, turns them round in shared memory, and writes 32 neighbours, the first lane first.
__global__ void reverse_shared(unsigned* out, const unsigned* in, size_t n) {
  __shared__ unsigned turned[threads];
  const unsigned words = words_of(blockIdx.x, n);
  const bool mine = threadIdx.x < words;
  if (mine) turned[words - 1 - threadIdx.x] = in[source(blockIdx.x, threadIdx.x)];
  __syncthreads();
  if (mine) out[forwards(blockIdx.x, threadIdx.x, n)] = turned[threadIdx.x];
}

// The same without turning anything: what there is to reach.
__global__ void copy_global(unsigned* out, const unsigned* in, size_t n) {
  const size_t i = source(blockIdx.x, threadIdx.x);
  if (i < n) out[i] = in[i];
}

struct IsRight {
  size_t n;
  bool turned;
  __device__ bool operator()(size_t i, unsigned found) const { return found == scrambled(turned ? n - 1 - i : i); }
};

struct Way {
  const char *name, *kernel;
  void (*launch)(unsigned*, const unsigned*, size_t);
  bool turned;
  size_t (*store)(size_t block, unsigned tid, size_t n);  ///< word written by a thread
};
const Way ways[] = {
    {"copied, not reversed", "copy_global", copy_global, false,
     [](size_t b, unsigned t, size_t) { return source(b, t); }},
    {"global to global", "reverse_global", reverse_global, true, backwards},
    {"through shared", "reverse_shared", reverse_shared, true, forwards},
};

Warp load() {
  return warp_of(4, [](unsigned lane) { return source(0, lane); });
}
Warp store(const Way& way) {
  constexpr size_t n = 1 << 20;
  return warp_of(4, [&](unsigned lane) { return way.store(1, lane, n); });
}

struct Work {
  DeviceBuffer<unsigned> in, out;
  explicit Work(size_t n) : in(words_to_read(n)), out(n) {}
  void launch(const Way& way) {
    way.launch<<<unsigned((in.size() + threads - 1) / threads), threads>>>(out.data(), in.data(), in.size());
    CUDA_CHECK_LAUNCH();
  }
  bool right(const Way& way) {
    out.poison();
    launch(way);
    return wrong_words(out, IsRight{in.size(), way.turned}) == 0;
  }
};

const Claim shared_wins{"03.6", "reversing through shared memory beats reversing in global memory", "G80", "faster"};

}  // namespace

void reverse(const Run& run) {
  size_t n = size_t(1) << (run.quick ? 22 : 27);
  if (run.device) n = shrunk_to_fit(8 * n) / 8;
  run.report.begin("reverse", std::to_string(n) + " words of 4 bytes, " + bytes_text(8.0 * double(n)) +
                                  " read and written, one word a thread, blocks of 256");
  std::optional<Work> work;
  if (run.device) work.emplace(n);
  Table table(run.report, "kernel",
              {predicted("store: transactions on 1.0", "transactions a store on 1.0", "", 0),
               predicted("sectors/load", "sectors a load request", "", 0),
               predicted("sectors/store", "sectors a store request", "", 0), measured("median ms", "time", "ms", 4),
               shown("spread"), measured("GB/s", "bandwidth", "GB/s", 0), shown("of the copy's rate"), shown("")});
  Statistics ms[3];
  for (int w = 0; w < 3; ++w) {
    const Way& way = ways[w];
    std::vector<Cell> cells{double(under(Rule::in_order, store(way)).count()),
                            double(sectors(load())),
                            double(sectors(store(way))),
                            {},
                            {},
                            {},
                            {},
                            {}};
    if (run.device) {
      require_right(work->right(way), way.name);
      ms[w] = time_device(run.measuring, [&] { work->launch(way); });
      cells[3] = ms[w], cells[4] = spread_text(ms[w]), cells[5] = gigabytes_per_second(8.0 * double(n), ms[w]);
      cells[6] = times(ms[0].median / ms[w].median), cells[7] = bar(ms[0].median / ms[w].median);
    }
    table.row({way.name}, cells);
  }
  table.print();
  if (!run.device) return run.report.left_out("the times", {shared_wins});

  run.report.claim(shared_wins, [&] {
    if (8 * n < 4 * run.device->l2_bytes()) return not_judged("the arrays are less than four times the L2");
    Judgement j = judge_ratio(ms[1], ms[2]);
    if (j.value < 1.05) j.verdict = Verdict::does_not_hold;  // 5%: less is nobody's reason for a detour
    j.here = times(j.value) + " as fast";
    return j;
  }());
}

// ---- self-checks ----------------------------------------------------------------------------------------------------

namespace {

std::vector<CountedLaunch> counted_launches() {
  std::vector<CountedLaunch> all;
  for (const Way& way : ways)
    all.push_back({way.kernel, "65536 words", double(sectors(load())), double(sectors(store(way))),
                   [=] { return Work(65536).right(way); }});
  return all;
}

}  // namespace

TEST_CASE("reverse: both ways move every word to the other end") {
  for (size_t n : {1, 2, 255, 256, 257, 511, 1009}) {
    CAPTURE(n);
    std::vector<int> back(n), forth(n);
    for (size_t block = 0; block * threads < n; ++block)
      for (unsigned tid = 0; tid < words_of(block, n); ++tid) {
        ++back.at(backwards(block, tid, n));
        ++forth.at(forwards(block, tid, n));
        // the word that the thread before has turned to place tid of shared memory
        const unsigned from = words_of(block, n) - 1 - tid;
        CHECK(forwards(block, tid, n) == n - 1 - source(block, from));
      }
    CHECK(back == std::vector<int>(n, 1));
    CHECK(forth == back);
  }
}

TEST_CASE("reverse: the order of lanes cost sixteenfold once and costs nothing now") {
  CHECK(under(Rule::in_order, store(ways[2])).count() == 2);   // a segment of 64 bytes for each half-warp
  CHECK(under(Rule::in_order, store(ways[1])).count() == 32);  // each lane for itself
  CHECK(under(Rule::any_order, store(ways[1])).count() == 2);  // from 1.2 on the order is free
  for (const Way& way : ways) CHECK(sectors(store(way)) == 4);
}

TEST_CASE("reverse: all kernels are right at awkward sizes") {
  if (skip_without_gpu()) return;
  for (size_t n : {1, 31, 255, 256, 257, 1009, 1000003}) {
    CAPTURE(n);
    Work work(n);
    for (const Way& way : ways) {
      CAPTURE(way.name);
      CHECK(work.right(way));
    }
    if (n > 1) CHECK(wrong_words(work.out, IsRight{n, false}) > 0);  // reversed is not copied: the check can fail
  }
}

TEST_CASE("reverse: profile launches") {
  if (skip_without_gpu()) return;
  launch_counted(counted_launches());
}

TEST_CASE("reverse: counted sectors equal the model") { compare_with_counters(counted_launches()); }
