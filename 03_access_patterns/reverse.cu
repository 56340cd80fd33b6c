// reverse: is a detour through shared memory worth it? Dr. Dobb's reverses an array in global
// memory (reverseArray_multiblock), and through shared memory (reverseArray_multiblock_fast). The
// second does more, and was faster: a puzzle [DD]. The answer is the G80's rule. Lane k of a
// half-warp had to store word k of a segment, or each lane got a transaction of its own.
//
// Look at the columns of the store: 16 times as many transactions on the G80, and the same 4
// sectors today. The order of the lanes no longer matters. So the detour has nothing to gain, and
// it costs a store and a load in shared memory and a barrier.
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o reverse reverse.cu ../common/*.cpp
//
//   1  copy_words                    copies, and reverses nothing
//   2  reverseArray_multiblock       stores each word at its place from the other end
//   3  reverseArray_multiblock_fast  the same, ordered in shared memory before the store
//   4  four::...                     the same three, with four words of a thread in flight
#include "../common/arrays.cuh"
#include "../common/sample.hpp"
#include "../common/sectors.hpp"

namespace {

constexpr unsigned block_threads = 256;

// What can be reached with one word per thread.
__global__ void copy_words(unsigned* out, const unsigned* in, size_t n) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < n) out[i] = in[i];
}

// The text names its two programs and prints neither: the names are the text's, the kernels ours.

// A warp loads 32 neighbours. It stores 32 neighbours, the last lane's word first.
__global__ void reverseArray_multiblock(unsigned* out, const unsigned* in, size_t n) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < n) out[n - 1 - i] = in[i];
}

// A warp loads 32 neighbours. It stores 32 neighbours, the first lane's word first. The last block
// may have fewer words than threads.
__global__ void reverseArray_multiblock_fast(unsigned* out, const unsigned* in, size_t n) {
  __shared__ unsigned reversed[block_threads];
  const unsigned tid = threadIdx.x;
  const size_t first = blockIdx.x * size_t(block_threads);  // word of the block
  const unsigned words = n - first < block_threads ? unsigned(n - first) : block_threads;
  if (tid < words) reversed[words - 1 - tid] = in[first + tid];
  __syncthreads();  // a thread stores what another has loaded
  if (tid < words) out[n - first - words + tid] = reversed[tid];
}

// ---- ours: the same with four words of a thread in flight ----

namespace four {

constexpr unsigned words = 4, block_words = words * block_threads;

// Thread t of a block takes words t, t + 256 ... of the block's 1024. It loads them all before it
// stores the first: with one word of a thread, too few bytes are in flight to reach the bandwidth.
template <class Store>
__device__ void load_and_store(const unsigned* in, size_t n, Store store) {
  const size_t first = blockIdx.x * size_t(block_words) + threadIdx.x;
  unsigned word[words];
#pragma unroll
  for (unsigned k = 0; k < words; ++k)
    if (const size_t i = first + k * block_threads; i < n) word[k] = in[i];
#pragma unroll
  for (unsigned k = 0; k < words; ++k)
    if (const size_t i = first + k * block_threads; i < n) store(i, word[k]);
}

__global__ void copy_words(unsigned* out, const unsigned* in, size_t n) {
  load_and_store(in, n, [=](size_t i, unsigned word) { out[i] = word; });
}

__global__ void reverseArray_multiblock(unsigned* out, const unsigned* in, size_t n) {
  load_and_store(in, n, [=](size_t i, unsigned word) { out[n - 1 - i] = word; });
}

__global__ void reverseArray_multiblock_fast(unsigned* out, const unsigned* in, size_t n) {
  __shared__ unsigned reversed[block_words];
  const size_t first = blockIdx.x * size_t(block_words);  // word of the block
  const unsigned of_block = n - first < block_words ? unsigned(n - first) : block_words;
  load_and_store(in, n,
                 [=](size_t i, unsigned word) { reversed[of_block - 1 - (i - first)] = word; });
  __syncthreads();  // a thread stores what another has loaded
#pragma unroll
  for (unsigned k = 0; k < words; ++k)
    if (const unsigned i = threadIdx.x + k * block_threads; i < of_block)
      out[n - first - of_block + i] = reversed[i];
}

}  // namespace four

// ---- the prediction ----

/// Which word lane i of a warp stores, counted from the warp's first.
size_t in_order(size_t lane) { return lane; }
size_t backwards(size_t lane) { return 31 - lane; }

/// Transactions of a warp on the G80: one for a half-warp whose lane k wants word k of an aligned
/// segment of 64 bytes, else one for each of its 16 lanes.
int transactions_on_g80(size_t (*word_of)(size_t lane)) {
  int transactions = 0;
  for (size_t first = 0; first < 32; first += 16) {
    bool coalesced = word_of(first) % 16 == 0;
    for (size_t k = 0; k < 16; ++k) coalesced &= word_of(first + k) == word_of(first) + k;
    transactions += coalesced ? 1 : 16;
  }
  return transactions;
}

// ---- the launches: add yours here ----

struct Row {
  const char* name;
  void (*kernel)(unsigned*, const unsigned*, size_t);
  unsigned words;    ///< of a thread
  const char* copy;  ///< the copy that predicts its time, if it reverses
  size_t (*stored_word)(size_t lane);
};
const Row rows[] = {
    {"copy_words", copy_words, 1, nullptr, in_order},
    {"reverseArray_multiblock", reverseArray_multiblock, 1, "copy_words", backwards},
    {"reverseArray_multiblock_fast", reverseArray_multiblock_fast, 1, "copy_words", in_order},
    {"four::copy_words", four::copy_words, four::words, nullptr, in_order},
    {"four::reverseArray_multiblock", four::reverseArray_multiblock, four::words,
     "four::copy_words", backwards},
    {"four::reverseArray_multiblock_fast", four::reverseArray_multiblock_fast, four::words,
     "four::copy_words", in_order},
};

Benchmark benchmark_of(const Row& row, const DeviceBuffer<unsigned>& in,
                       const GuardedBuffer<unsigned>& out) {
  const size_t n = out.size();
  const auto work = [=] {
    const unsigned blocks = unsigned(ceil_div(n, row.words * block_threads));
    row.kernel<<<blocks, block_threads>>>(out, in, n);
  };
  const auto value = [n, reverses = row.copy != nullptr] __device__(size_t i) {
    return hash(reverses ? n - 1 - i : i);
  };
  return {row.name, work, equals(out, value)};
}

}  // namespace

void reverse(Run& run) {
  const size_t n = run.fitting(size_t(1) << 27, 2 * sizeof(unsigned));
  const double bytes = 8.0 * double(n);
  const auto in = filled<unsigned>(n, [] __device__(size_t i) { return hash(i); });
  const GuardedBuffer<unsigned> out(n);
  run.title(bytes_text(4.0 * double(n)) +
            " of 4-byte words are reversed, by threads of one word, or four");

  std::vector<Benchmark> benchmarks;
  for (const Row& row : rows) benchmarks.push_back(benchmark_of(row, in, out));
  const Timings timed = run.timer.interleaved(benchmarks);

  Table table("kernel",
              {"store on a G80", "load", "store", "predicted ms", "ms", "spread", "GB/s"});
  for (const Row& row : rows) {
    const Times& times = timed[row.name];
    const Cell predicted = row.copy ? Cell(timed[row.copy].median()) : Cell("");
    table.row(row.name, {transactions_on_g80(row.stored_word), sectors(sizeof(unsigned), in_order),
                         sectors(sizeof(unsigned), row.stored_word), predicted, times.ms_interval(),
                         percent(times.spread()), times.gbs_interval(bytes)});
  }
  run.print(table);
  run.note("store on a G80: transactions of a warp; load, store: sectors per request of a warp");
  run.note("predicted: as many sectors as the copy, so its time; without the detour's own cost");
  run.note("four: ours, with four words of a thread in flight");

  const char* const global = "reverseArray_multiblock";
  const char* const shared = "reverseArray_multiblock_fast";
  const Claim g80{
      "03.6", "reversing through shared memory beats reversing in global memory",
      "[DD] \"the shared memory version is faster than the global memory version\", G80",
      Hardware::g80};
  if (run.beyond_l2(bytes))
    run.claim(g80, timed.speedup({.of = shared, .over = global}), faster());
  else
    run.claim_skipped(g80, "the arrays are less than four times the L2");
}
SAMPLE(8, reverse, "an array reversed in global memory, and through shared memory");

TEST_CASE("reverse: the order of lanes cost sixteenfold on a G80, and no sector today") {
  CHECK(transactions_on_g80(in_order) == 2);                               // one for each half-warp
  CHECK(transactions_on_g80(backwards) == 32);                             // one for each lane
  CHECK(transactions_on_g80([](size_t lane) { return lane + 1; }) == 32);  // misaligned
  // the second half-warp has a segment of its own, wherever that lies
  CHECK(transactions_on_g80([](size_t lane) { return lane < 16 ? lane : lane + 48; }) == 2);
  CHECK(transactions_on_g80([](size_t lane) { return lane < 16 ? 15 - lane : lane; }) == 17);
  CHECK(sectors(sizeof(unsigned), in_order) == 4);
  CHECK(sectors(sizeof(unsigned), backwards) == 4);
}

TEST_CASE("reverse: the array is that of a reversal on the host, at awkward sizes") {
  if (skip_without_gpu()) return;
  for (const size_t n : {1, 2, 31, 255, 256, 257, 511, 1009, 1024, 1025, 65537}) {
    std::vector<unsigned> forth(n);
    for (size_t i = 0; i < n; ++i) forth[i] = hash(i);
    const std::vector<unsigned> back(forth.rbegin(), forth.rend());
    const DeviceBuffer<unsigned> in(forth);
    const GuardedBuffer<unsigned> out(n);
    for (const Row& row : rows) {
      CAPTURE(n);
      CAPTURE(row.name);
      CHECK_NOTHROW(require_right(benchmark_of(row, in, out)));
      CHECK(out.to_host() == (row.copy ? back : forth));
    }
  }
}
