// offset: what does a warp lose if the 32 neighbouring words that it reads begin 1 to 64 words past
// an aligned address? For Fermi and Kepler the wiki counts two lines of 128 bytes through L1, of which
// 50% is used, and five segments of 32 bytes past L1, of which 80% is used. So such loads are faster
// past L1, it says [LC 3].
//
// Look at the column of L2 first. There the sectors decide, and every eighth offset costs nothing.
// From memory the full rate comes back only where a warp begins a line, at every 32nd offset. And
// today a misaligned warp loses nothing by going through L1, since L1 moves sectors, too. The fifth
// sector of a warp is the first one of the next warp, which finds it in L1.
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o offset offset.cu ../common/*.cpp
//
//   1  read_offset          lane i of a warp reads word i + offset, through L1
//   2  read_offset_past_l1  the same past L1, once from memory, or many times from L2
#include <algorithm>
#include <map>

#include "../common/arrays.cuh"
#include "../common/sample.hpp"
#include "../common/sectors.hpp"

namespace {

// A warp reads 32 neighbouring words: 4 sectors of 32 bytes if they begin where a sector does, else
// 5. They lie in one line of 128 bytes if they begin where a line does, else in two.
__global__ void read_offset(unsigned* out, const unsigned* in, size_t n, size_t offset) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  unsigned sum = 0;
  size_t i = tid;
  for (; i + 7 * threads < n; i += 8 * threads) {  // eight loads in flight
#pragma unroll
    for (unsigned k = 0; k < 8; ++k) sum += in[i + k * threads + offset];
  }
  for (; i < n; i += threads) sum += in[i + offset];  // the remaining words
  out[tid] = sum;
}

// The same, `passes` times. __ldcg (ld.global.cg) goes past L1. Otherwise most of an array that stays
// in L2 would stay in L1, too.
__global__ void read_offset_past_l1(unsigned* out, const unsigned* in, size_t n, size_t offset,
                                    unsigned passes) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  unsigned sum = 0;
  for (unsigned pass = 0; pass < passes; ++pass) {
    size_t i = tid;
    for (; i + 7 * threads < n; i += 8 * threads) {
#pragma unroll
      for (unsigned k = 0; k < 8; ++k) sum += __ldcg(in + i + k * threads + offset);
    }
    for (; i < n; i += threads) sum += __ldcg(in + i + offset);
  }
  out[tid] = sum;
}

// ---- what must come out ----

DeviceBuffer<unsigned> hashes(size_t n) {
  return filled<unsigned>(n, [] __device__(size_t i) { return hash(i); });
}

/// Words to read, and a sum for each thread.
struct Memory {
  DeviceBuffer<unsigned> in;
  GuardedBuffer<unsigned> sums;
  size_t n;        ///< words that are read from memory
  size_t n_in_l2;  ///< as many of them as stay in L2
};

/// What a kernel reads: n words from word `offset` on, `passes` times.
struct Reads {
  size_t n, offset;
  unsigned passes = 1;

  double bytes() const { return double(sizeof(unsigned)) * passes * double(n); }
};

/// Each thread has the sum of words offset + thread, offset + thread + threads, and so on.
Check added_up(const GuardedBuffer<unsigned>& sums, Reads reads) {
  return equals(sums, [reads, threads = sums.size()] __device__(size_t thread) {
    unsigned sum = 0;
    for (size_t i = thread; i < reads.n; i += threads) sum += hash(reads.offset + i);
    return reads.passes * sum;
  });
}

// ---- the prediction ----

constexpr size_t line_bytes = 128;

/// Segments of `segment` bytes in which a warp's 32 words lie.
size_t segments_at(size_t offset, size_t segment) {
  return segments_touched(segment, sizeof(unsigned), [=](size_t lane) { return lane + offset; });
}

/// The share of these segments that the warp wants.
double used_at(size_t offset, size_t segment) {
  return 32 * sizeof(unsigned) / double(segment * segments_at(offset, segment));
}

// ---- the launches: add yours here ----

constexpr size_t largest_offset = 64;  // words: two lines

/// A kernel at one offset. Those that read from L2 are timed apart from those that read from memory.
struct Kernel {
  std::string name;
  std::function<void()> work;
  Check check;
  Reads reads;
  bool from_l2 = false;

  Benchmark benchmark() const { return {name, work, check}; }
};

std::string name_of(size_t offset) { return "offset " + std::to_string(offset); }

std::vector<Kernel> kernels(const Memory& m, size_t offset) {
  const unsigned blocks = unsigned(m.sums.size() / 256);
  const Reads once{.n = m.n, .offset = offset};
  // Enough passes that the launch itself counts for little.
  const Reads again{.n = m.n_in_l2, .offset = offset, .passes = 32};
  return {
      {.name = name_of(offset),
       .work = [=] { read_offset<<<blocks, 256>>>(m.sums, m.in, once.n, offset); },
       .check = added_up(m.sums, once),
       .reads = once},
      {.name = name_of(offset) + " past L1",
       .work = [=] { read_offset_past_l1<<<blocks, 256>>>(m.sums, m.in, once.n, offset, 1); },
       .check = added_up(m.sums, once),
       .reads = once},
      {.name = name_of(offset) + " from L2",
       .work =
           [=] {
             read_offset_past_l1<<<blocks, 256>>>(m.sums, m.in, again.n, offset, again.passes);
           },
       .check = added_up(m.sums, again),
       .reads = again,
       .from_l2 = true},
  };
}

}  // namespace

void offset(Run& run) {
  const size_t words = run.fitting(size_t(1) << 28, sizeof(unsigned));
  const size_t threads = run.resident_blocks(256) * 256;
  // A quarter of the L2, in whole steps of all threads, each with eight loads in flight.
  const size_t step = 8 * threads, l2_words = run.gpu.l2CacheSize / sizeof(unsigned);
  const Memory m{.in = hashes(words),
                 .sums = GuardedBuffer<unsigned>(threads),
                 .n = words - largest_offset,
                 .n_in_l2 = std::max<size_t>(1, l2_words / 4 / step) * step};
  run.title(bytes_text(double(m.in.bytes())) + " of 4-byte words, and repeatedly the first " +
            bytes_text(sizeof(unsigned) * double(m.n_in_l2)) + ", which stay in L2");

  std::vector<size_t> offsets{0,  1,  4,  8,  12, 16, 20, 24, 28, 31, 32,
                              33, 36, 40, 44, 48, 52, 56, 60, 63, 64};
  if (run.quick) offsets = {0, 1, 8, 16, 31, 32, 64};
  std::vector<Kernel> all;
  std::vector<Benchmark> of_l2, of_memory;
  for (const size_t offset : offsets)
    for (const Kernel& kernel : kernels(m, offset)) {
      all.push_back(kernel);
      (kernel.from_l2 ? of_l2 : of_memory).push_back(kernel.benchmark());
    }
  const Timings l2 = run.timer.interleaved(of_l2);
  const Timings memory = run.timer.interleaved(of_memory);
  std::map<std::string, Interval> gbs;
  for (const Kernel& kernel : all)
    gbs[kernel.name] =
        (kernel.from_l2 ? l2 : memory)[kernel.name].gbs_interval(kernel.reads.bytes());

  Table table("offset", {"sectors/request", "lines", "L2: predicted", "GB/s", "memory: through L1",
                         "past L1", ""});
  const double l2_aligned = gbs.at(name_of(0) + " from L2").value;
  const double memory_aligned = gbs.at(name_of(0)).value;
  for (const size_t offset : offsets) {
    const std::string name = name_of(offset);
    const Interval through_l1 = gbs.at(name);
    const Cell predicted = offset ? Cell(l2_aligned * used_at(offset, sector_bytes)) : Cell("");
    table.row(std::to_string(offset),
              {segments_at(offset, sector_bytes), segments_at(offset, line_bytes), predicted,
               gbs.at(name + " from L2"), through_l1, gbs.at(name + " past L1"),
               bar(through_l1.value / memory_aligned)});
  }
  run.print(table);
  run.note("GB/s of words that are read; predicted from offset 0: 4 sectors over sectors");
  run.note(
      "no model for the memory: there a request that crosses into a second line is what costs");

  const double used = used_at(1, sector_bytes);
  const std::string today =
      percent(used).words + ", 5 sectors for 4; through L1 as well as past it";
  run.computed({"03.1a", "through L1, a misaligned coalesced load uses 50% of the bus",
                "[LC 3] 50%, of Fermi and Kepler, as the wiki says itself", Hardware::kepler},
               used == 0.5, today);
  run.computed({"03.1b", "past L1, a misaligned coalesced load uses 80% of the bus", "[LC 3] 80%"},
               used == 0.8, today);
  const auto claim = [&](const Claim& claim, const Timings::Pair& pair, const Rule& rule) {
    if (run.beyond_l2(sizeof(unsigned) * double(m.n)))
      run.claim(claim, memory.speedup(pair), rule);
    else
      run.claim_skipped(claim, "the array is less than four times the L2");
  };
  claim({"03.1c", "misaligned coalesced loads are faster past L1 than through it",
         "[LC 3] \"improved with uncached loads\", of Fermi and Kepler, as the wiki says itself",
         Hardware::kepler},
        {.of = name_of(1) + " past L1", .over = name_of(1)}, faster());
  claim({"03.26", "a warp's words aligned to 64 bytes are read at the full rate",
         "[BW] 16 * sizeof(type), quoting the guide of the G80", Hardware::g80},
        {.of = name_of(0), .over = name_of(16)}, no_faster());
}
SAMPLE(4, offset, "reading from 0 to 64 words past the alignment");

TEST_CASE("offset: every eighth word begins a sector, every 32nd a line") {
  for (size_t offset = 0; offset <= largest_offset; ++offset) {
    CAPTURE(offset);
    CHECK(segments_at(offset, sector_bytes) == (offset % 8 == 0 ? 4 : 5));
    CHECK(segments_at(offset, line_bytes) == (offset % 32 == 0 ? 1 : 2));
    CHECK(used_at(offset, line_bytes) == (offset % 32 == 0 ? 1.0 : 0.5));
    CHECK(used_at(offset, sector_bytes) == (offset % 8 == 0 ? 1.0 : 0.8));
  }
}

TEST_CASE("offset: the wiki's three transactions of 128 bytes, by hand") {
  // Its figure is missing. Such a warp reads the end of line 0, every second word of line 1, and
  // the beginning of line 2.
  const auto word_of = [](size_t lane) -> size_t {
    if (lane < 8) return 24 + lane;
    return lane < 24 ? 32 + 2 * (lane - 8) : 64 + (lane - 24);
  };
  CHECK(segments_touched(line_bytes, 4, word_of) == 3);
  CHECK(sectors(4, word_of) == 6);
}

TEST_CASE("offset: each thread has the sum of its words, at awkward sizes") {
  if (skip_without_gpu()) return;
  const GuardedBuffer<unsigned> sums(3 * 256);
  for (const size_t n : {size_t(1), size_t(1009), 8 * sums.size(), size_t(65537)})
    for (const size_t offset : {size_t(0), size_t(1), size_t(33), largest_offset}) {
      const Memory m{.in = hashes(n + offset), .sums = sums, .n = n, .n_in_l2 = n};
      for (const Kernel& kernel : kernels(m, offset)) {
        CAPTURE(kernel.name);
        CAPTURE(n);
        CHECK_NOTHROW(require_right(kernel.benchmark()));
        std::vector<unsigned> right(sums.size(), 0);
        for (size_t i = 0; i < n; ++i)
          right[i % right.size()] += kernel.reads.passes * hash(offset + i);
        CHECK(sums.to_host() == right);
        Reads next = kernel.reads;
        ++next.offset;
        CHECK(added_up(sums, next).find_error() != "");
      }
    }
}
