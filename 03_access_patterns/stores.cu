// stores: do the rules of reading hold for writing, too? The same problems, says the author of the
// 2007 study; coalesced writes reach tens of GB/s [BW]. The wiki's Fermi and Kepler store segments
// of 32 bytes: one, two or four in a transaction [LC 3].
//
// Look at stride 2, read and written: the sectors are the same, the time is not. A sector that is
// written in part keeps old bytes, which memory has to deliver before the sector goes back. And
// look at a store of one segment: it takes almost as long as a store of four.
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o stores stores.cu ../common/*.cpp
//
//   1  store_segments  a warp writes one, two or four segments, or three that lie apart
//   2  write_strided   a warp writes 32 words that stand `stride` words apart
//   3  read_strided    a warp reads 32 such words
#include "../common/arrays.cuh"
#include "../common/sample.hpp"
#include "../common/sectors.hpp"

namespace {

// ---- one store of a warp ----

// Each store goes to 256 bytes of its own, a slot. A warp has many slots, since starting a warp
// takes longer than one store.

constexpr unsigned slot_words = 64;
constexpr unsigned segment_words = 8;  // 32 bytes

// Eight lanes write each segment: four segments take all lanes of the warp. The segments lie side
// by side if `step` is 1. If it is 2, nobody writes the segments between them.
template <unsigned segments, unsigned step>
__global__ void store_segments(unsigned* out, size_t slots) {
  const size_t warps = gridDim.x * size_t(blockDim.x) / 32;
  const unsigned lane = threadIdx.x % 32;
  if (lane >= segments * segment_words) return;
  const unsigned word = lane / segment_words * segment_words * step + lane % segment_words;
  for (size_t s = (blockIdx.x * size_t(blockDim.x) + threadIdx.x) / 32; s < slots; s += warps) {
    const size_t i = s * slot_words + word;
    out[i] = hash(i);
  }
}

// ---- every stride-th word ----

constexpr unsigned words_per_thread = 8;  // or starting threads would limit the rate

// Of the n words of `out` every stride-th is written. From stride 2 on a warp leaves gaps in each
// sector. From stride 8 on each lane has a sector of its own.
__global__ void write_strided(unsigned* out, size_t n, unsigned stride) {
#pragma unroll
  for (unsigned k = 0; k < words_per_thread; ++k) {
    const size_t word = (blockIdx.x * size_t(words_per_thread) + k) * blockDim.x + threadIdx.x;
    const size_t i = word * stride;
    if (i < n) out[i] = hash(i);
  }
}

// `count` words are read, as in the experiment `stride`: eight loads of a thread are in flight.
__global__ void read_strided(unsigned* sums, const unsigned* in, size_t count, size_t stride) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  unsigned sum = 0;
  size_t i = tid;
  for (; i + 7 * threads < count; i += 8 * threads) {
#pragma unroll
    for (unsigned k = 0; k < 8; ++k) sum += in[(i + k * threads) * stride];
  }
  for (; i < count; i += threads) sum += in[i * stride];  // the remaining words
  sums[tid] = sum;
}

// ---- the four stores ----

struct Store {
  const char* name;
  const char* by_the_wiki;
  void (*kernel)(unsigned* out, size_t slots);
  unsigned segments, step;
};
const Store all_stores[] = {
    {"four segments", "1 of 4", store_segments<4, 1>, 4, 1},
    {"two segments", "1 of 2", store_segments<2, 1>, 2, 1},
    {"one segment", "1 of 1", store_segments<1, 1>, 1, 1},
    {"three segments apart", "3 of 1", store_segments<3, 2>, 3, 2},
};

/// Sectors of the store, by words. A lane that stores nothing counts as the last one that does.
size_t sectors_of(const Store& store) {
  return sectors(sizeof(unsigned), [&](size_t lane) {
    const size_t storing = std::min<size_t>(lane, 8 * store.segments - 1);
    return storing + storing / 8 * 8 * (store.step - 1);
  });
}

// What a store asks of the L2 only a counter can tell (lts__t_requests_srcunit_tex_op_write.sum over
// the stores of all warps): tools/profile.py --counts PROGRAM stores
const std::vector<Count> together = {  // of one, two and four segments alike
    {.gpu = "NVIDIA H100 80GB HBM3", .value = 1, .when = "ncu, CUDA 13.0, 2026-11-28"}};
const std::vector<Count> apart = {
    {.gpu = "NVIDIA H100 80GB HBM3", .value = 2, .when = "ncu, CUDA 13.0, 2026-11-28"}};

Benchmark store_benchmark(const Store& store, const GuardedBuffer<unsigned>& out, unsigned blocks) {
  const auto work = [=] { store.kernel<<<blocks, 256>>>(out, out.size() / slot_words); };
  const auto value = [n = store.segments, step = store.step] __device__(size_t i) {
    const size_t segment = i % slot_words / segment_words;
    return segment % step == 0 && segment / step < n ? hash(i) : ~0u;  // else still poisoned
  };
  return {store.name, work, equals(out, value)};
}

// ---- strides ----

constexpr unsigned strides[] = {1, 2, 4, 8, 16, 32};

std::string name_of(bool write, unsigned stride) {
  return (write ? "written, stride " : "read, stride ") + std::to_string(stride);
}

size_t words_at(size_t n, unsigned stride) { return (n + stride - 1) / stride; }

Benchmark write_benchmark(unsigned stride, const GuardedBuffer<unsigned>& out) {
  const auto work = [=] {
    constexpr size_t of_block = words_per_thread * 256;
    const size_t blocks = (words_at(out.size(), stride) + of_block - 1) / of_block;
    write_strided<<<unsigned(blocks), 256>>>(out, out.size(), stride);
  };
  // the words between stay poisoned
  const auto value = [stride] __device__(size_t i) { return i % stride == 0 ? hash(i) : ~0u; };
  return {name_of(true, stride), work, equals(out, value)};
}

Benchmark read_benchmark(unsigned stride, const DeviceBuffer<unsigned>& in,
                         const GuardedBuffer<unsigned>& sums) {
  const size_t count = words_at(in.size(), stride), threads = sums.size();
  const auto work = [=] {
    read_strided<<<unsigned(sums.size() / 256), 256>>>(sums, in, count, stride);
  };
  const auto value = [count, threads, stride] __device__(size_t thread) {
    unsigned sum = 0;
    for (size_t i = thread; i < count; i += threads) sum += hash(i * stride);
    return sum;
  };
  return {name_of(false, stride), work, equals(sums, value)};
}

size_t sectors_at(unsigned stride) {
  return sectors(sizeof(unsigned), [=](size_t lane) { return lane * stride; });
}

/// Of the array's bytes, those in aligned pieces of `piece` bytes in which a word is touched.
double touched(unsigned stride, double piece) { return std::min(1.0, piece / (4.0 * stride)); }

/// The L2 fetches 64 bytes at a time from memory, and writes back sectors of 32. A sector that is
/// written in part is read before. The arguments are the times at stride 1, when all of the array moves.
double predicted_ms(bool write, unsigned stride, double read_ms, double written_ms) {
  const double read = read_ms * touched(stride, 64);
  if (!write) return read;
  return written_ms * touched(stride, sector_bytes) + (stride > 1 ? read : 0);
}

/// How many times as long as at stride 1 does one word take at stride 8, alone in its sector?
Interval cost_of_scattered(bool write, const Timings& timed) {
  return 8 * ratio(timed[name_of(write, 8)], timed[name_of(write, 1)]);  // an eighth of the words
}

void print_segments(Run& run, const GuardedBuffer<unsigned>& out) {
  std::vector<Benchmark> benchmarks;
  for (const Store& store : all_stores)
    benchmarks.push_back(store_benchmark(store, out, run.resident_blocks(256)));
  const Timings timed = run.timer.interleaved(benchmarks);
  Table table("a store of a warp", {"by the wiki", "store", "ms", "spread", "GB/s"});
  for (const Store& store : all_stores) {
    const Times& times = timed[store.name];
    const double bytes = 32.0 * store.segments * double(out.size() / slot_words);
    table.row(store.name, {store.by_the_wiki, sectors_of(store), times.ms_interval(),
                           percent(times.spread()), times.gbs(bytes)});
  }
  run.print(table);
  run.note("by the wiki: transactions, and segments of each; store: sectors per request of a warp");
  run.note(
      "each store goes to 256 bytes of its own: an isolated piece costs time whatever its size");
  if (!run.beyond_l2(double(out.bytes()) / 8))
    run.note("one segment each: less than four times the L2");
}

}  // namespace

void stores(Run& run) {
  const size_t n = run.fitting(size_t(1) << 29, 2 * sizeof(unsigned));
  const auto in = filled<unsigned>(n, [] __device__(size_t i) { return hash(i); });
  const GuardedBuffer<unsigned> out(n), sums(run.resident_blocks(256) * 256);
  run.title("into and from " + bytes_text(4.0 * double(n)) + " of 4-byte words");
  print_segments(run, out);

  std::vector<Benchmark> benchmarks;
  for (const unsigned stride : strides) benchmarks.push_back(read_benchmark(stride, in, sums));
  for (const unsigned stride : strides) benchmarks.push_back(write_benchmark(stride, out));
  const Timings timed = run.timer.interleaved(benchmarks);

  Table table("words", {"load", "store", "predicted ms", "ms", "spread", "GB/s", ""});
  const double read_ms = timed[name_of(false, 1)].median();
  const double written_ms = timed[name_of(true, 1)].median();
  for (const bool write : {false, true})
    for (const unsigned stride : strides) {
      const Times& times = timed[name_of(write, stride)];
      const Cell moved(sectors_at(stride)), none("");
      const Cell predicted(predicted_ms(write, stride, read_ms, written_ms));
      const double gbs = times.gbs(4.0 * double(words_at(n, stride)));
      const double dense = timed[name_of(write, 1)].gbs(4.0 * double(n));
      table.row(name_of(write, stride),
                {write ? none : moved, write ? moved : none, stride == 1 ? none : predicted,
                 times.ms_interval(), percent(times.spread()), gbs, bar(gbs / dense)});
    }
  run.print(table);
  run.note("predicted from stride 1: reads move 64 bytes; a sector written in part is read before");
  run.note("not predicted: what isolated pieces cost beyond their bytes, at strides 16 and 32");
  run.note("read, a word takes " + factor_text(cost_of_scattered(false, timed)) +
           " as long at stride 8 as at stride 1");

  run.counted(
      {"03.14a", "a transaction of stores is one, two or four segments of 32 bytes",
       "[LC 3] \"one, two, or four segments at a time\", Fermi and Kepler", Hardware::kepler},
      together, "L2 requests of a store of one, two or four segments", about(1));
  run.counted({"03.14b", "three segments apart are stored as three transactions of one",
               "[LC 3] \"three one-segment transactions\", Fermi and Kepler", Hardware::kepler},
              apart, "L2 requests of a store of three segments", about(3));
  run.claim({"03.10a", "writing to global memory has the same problems as reading",
             "[BW, reply 2] \"the same problems as with reading\""},
            {cost_of_scattered(true, timed),
             "times as long for a word written at stride 8 as at stride 1"},
            more());
  run.claim({"03.10b", "coalesced writes reach tens of gigabytes per second",
             "[BW, reply 2] tens of GB/s, 8800 GTX", Hardware::g80},
            {timed[name_of(true, 1)].gbs_interval(4.0 * double(n)), "GB/s written at stride 1"},
            more_by(10, 100));
}
SAMPLE(7, stores, "writing one, two or four segments, and words a stride apart");

TEST_CASE("stores: sectors of a store, by hand") {
  const size_t right[] = {4, 2, 1, 3};
  for (size_t i = 0; i < std::size(right); ++i) CHECK(sectors_of(all_stores[i]) == right[i]);
}

TEST_CASE("stores: predictions of strides, by hand") {
  const double reads[] = {8, 8, 8, 8, 8, 4}, writes[] = {4, 12, 12, 12, 10, 5};
  for (size_t i = 0; i < std::size(strides); ++i) {
    CAPTURE(strides[i]);
    CHECK(sectors_at(strides[i]) == std::min(4 * strides[i], 32u));
    CHECK(predicted_ms(false, strides[i], 8, 4) == reads[i]);
    CHECK(predicted_ms(true, strides[i], 8, 4) == writes[i]);
  }
  CHECK(words_at(1025, 8) == 129);
}

TEST_CASE("stores: a store fills its segments and nothing else, at awkward sizes") {
  if (skip_without_gpu()) return;
  for (const size_t slots : {1, 7, 1009}) {
    const GuardedBuffer<unsigned> out(slots * slot_words);
    for (const Store& store : all_stores) {
      CAPTURE(store.name);
      CHECK_NOTHROW(require_right(store_benchmark(store, out, 3)));
    }
    // the last store wrote the segments 0, 2 and 4 of each slot
    const std::vector<unsigned> found = out.to_host();
    for (size_t i = 0; i < found.size(); ++i) {
      const bool written =
          i % 64 < 8 || (i % 64 >= 16 && i % 64 < 24) || (i % 64 >= 32 && i % 64 < 40);
      if (found[i] != (written ? hash(i) : ~0u)) FAIL("word " << i);
    }
  }
}

// From the text: every stride-th word is written; of those that are read threads take turns.
TEST_CASE("stores: every stride-th word is written, or read, at awkward sizes") {
  if (skip_without_gpu()) return;
  for (const size_t n : {1, 31, 1025, 100003})
    for (const unsigned stride : {1u, 2u, 7u, 8u, 32u, 33u}) {
      CAPTURE(n);
      CAPTURE(stride);
      const auto in = filled<unsigned>(n, [] __device__(size_t i) { return hash(i); });
      const GuardedBuffer<unsigned> out(n), sums(3 * 256);
      CHECK_NOTHROW(require_right(write_benchmark(stride, out)));
      CHECK_NOTHROW(require_right(read_benchmark(stride, in, sums)));
      std::vector<unsigned> written(n, ~0u), right(sums.size(), 0);
      for (size_t i = 0, turn = 0; i < n; i += stride, ++turn) {
        written[i] = hash(i);
        right[turn % right.size()] += hash(i);
      }
      CHECK(out.to_host() == written);
      CHECK(sums.to_host() == right);
    }
}
