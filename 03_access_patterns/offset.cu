// offset: what does a warp lose that reads 32 neighbouring words, but begins 1 to 64 words behind
// an aligned address? The wiki counts for Fermi and Kepler [LC 3]: through L1, two lines of 128
// bytes, of which 50% is used; past L1, five segments of 32 bytes, of which 80% is used. So such
// loads are faster past L1, says the wiki.
//
// Look at the column of L2 first: the sectors decide, and every eighth offset costs nothing. From
// memory the full rate comes back only where a warp begins a line, at every 32nd offset. And today
// a misaligned warp loses nothing by going through L1: L1 moves sectors, too, and the fifth sector
// of a warp is the first one of the next warp, which finds it in L1.
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o offset offset.cu ../common/*.cpp
//
//   1  read_offset          lane i of a warp reads word i + offset, through L1
//   2  read_offset_past_l1  the same past L1: once from memory, or again and again what stays in L2
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

// The same, `passes` times. __ldcg loads past L1 (ld.global.cg): else most of an array that stays
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

// ---- the prediction ----

constexpr size_t line_bytes = 128;

/// Pieces of memory in which a warp's 32 words lie.
size_t pieces_at(size_t offset, size_t piece) {
  return segments_touched(piece, sizeof(unsigned), [=](size_t lane) { return lane + offset; });
}

/// The share of what moves, in such pieces, that the warp wants.
double used_at(size_t offset, size_t piece) {
  return 128 / double(piece * pieces_at(offset, piece));
}

// ---- launching, and what is right ----

constexpr size_t largest_offset = 64;  // words: two lines
constexpr unsigned passes_in_l2 = 32;  // so many that the launch itself counts for little

enum Way { through_l1, past_l1, from_l2 };

std::string name_of(size_t offset, Way way) {
  const char* const ways[] = {"", " past L1", " from L2"};
  return "offset " + std::to_string(offset) + ways[way];
}
unsigned passes_of(Way way) { return way == from_l2 ? passes_in_l2 : 1; }

void launch(Way way, const GuardedBuffer<unsigned>& out, const unsigned* in, size_t n,
            size_t offset) {
  const unsigned blocks = unsigned(out.size() / 256);
  if (way == through_l1)
    read_offset<<<blocks, 256>>>(out, in, n, offset);
  else
    read_offset_past_l1<<<blocks, 256>>>(out, in, n, offset, passes_of(way));
}

/// The sum of a thread: of words offset + thread, offset + thread + threads ... of n.
std::string find_wrong_sum(Way way, const GuardedBuffer<unsigned>& out, size_t n, size_t offset) {
  const auto sum_of_thread = [n, offset, threads = out.size(),
                              passes = passes_of(way)] __device__(size_t thread) {
    unsigned sum = 0;
    for (size_t i = thread; i < n; i += threads) sum += hash(offset + i);
    return passes * sum;
  };
  return find_mismatch(out, sum_of_thread);
}

Benchmark benchmark_of(size_t offset, Way way, const GuardedBuffer<unsigned>& out,
                       const DeviceBuffer<unsigned>& in, size_t n) {
  const auto work = [=] { launch(way, out, in, n, offset); };
  const auto find_error = [=] { return find_wrong_sum(way, out, n, offset); };
  return {name_of(offset, way), work, {[out] { out.poison(); }, find_error}};
}

}  // namespace

void offset(Run& run) {
  const size_t words = run.fitting(size_t(1) << 28, sizeof(unsigned));
  const size_t n = words - largest_offset;
  const auto in = filled<unsigned>(words, [] __device__(size_t i) { return hash(i); });
  const unsigned blocks = run.resident_blocks(256);
  const GuardedBuffer<unsigned> out(blocks * 256);
  // a quarter of the L2, in whole steps of threads that have eight loads in flight
  const size_t step = 8 * out.size();
  const size_t n_in_l2 =
      std::max<size_t>(1, run.gpu.l2CacheSize / 4 / sizeof(unsigned) / step) * step;
  const double bytes = 4.0 * double(n), bytes_in_l2 = 4.0 * passes_in_l2 * double(n_in_l2);
  run.title(bytes_text(4.0 * double(words)) + " of 4-byte words, and again and again the first " +
            bytes_text(4.0 * double(n_in_l2)) + ", which stay in L2");

  std::vector<size_t> offsets{0,  1,  4,  8,  12, 16, 20, 24, 28, 31, 32,
                              33, 36, 40, 44, 48, 52, 56, 60, 63, 64};
  if (run.quick) offsets = {0, 1, 8, 16, 31, 32, 64};
  std::vector<Benchmark> of_l2, of_memory;
  for (const size_t offset : offsets) {
    of_l2.push_back(benchmark_of(offset, from_l2, out, in, n_in_l2));
    of_memory.push_back(benchmark_of(offset, through_l1, out, in, n));
    of_memory.push_back(benchmark_of(offset, past_l1, out, in, n));
  }
  const Timings l2 = run.timer.interleaved(of_l2);
  const Timings memory = run.timer.interleaved(of_memory);

  Table table("offset", {"sectors/request", "lines", "L2: predicted", "GB/s", "memory: through L1",
                         "past L1", ""});
  const double l2_aligned = l2[name_of(0, from_l2)].gbs(bytes_in_l2);
  const double memory_aligned = memory[name_of(0, through_l1)].gbs(bytes);
  for (const size_t offset : offsets) {
    const Times& through = memory[name_of(offset, through_l1)];
    const Cell predicted = offset ? Cell(l2_aligned * used_at(offset, sector_bytes)) : Cell("");
    table.row(std::to_string(offset),
              {double(pieces_at(offset, sector_bytes)), double(pieces_at(offset, line_bytes)),
               predicted, l2[name_of(offset, from_l2)].gbs_interval(bytes_in_l2),
               through.gbs_interval(bytes), memory[name_of(offset, past_l1)].gbs_interval(bytes),
               bar(through.gbs(bytes) / memory_aligned)});
  }
  run.print(table);
  run.note("GB/s of words that are read; predicted from offset 0: 4 sectors over sectors");
  run.note("no model for the memory: on an H100 a second line costs as much as a fifth sector");

  const bool half = used_at(1, sector_bytes) == 0.5, four_fifths = used_at(1, sector_bytes) == 0.8;
  const std::string today =
      percent(used_at(1, sector_bytes)).words + ", 5 sectors for 4; through L1 as well as past it";
  run.computed({"03.1a", "a misaligned load through L1 uses 50% of the bus",
                "50%, the wiki's count", Hardware::kepler},
               half, today);
  run.computed({"03.1b", "a misaligned load past L1 uses 80% of the bus", "80%, the wiki's count"},
               four_fifths, today);
  const Claim past{"03.1c", "misaligned coalesced loads are faster past L1 than through it",
                   "the wiki, no figure", Hardware::kepler};
  if (run.beyond_l2(bytes))
    run.claim(past, memory.speedup({.of = name_of(1, past_l1), .over = name_of(1, through_l1)}),
              faster());
  else
    run.claim_skipped(past, "the array is less than four times the L2");
}
SAMPLE(4, offset, "reading from 0 to 64 words past the alignment");

TEST_CASE("offset: every eighth word begins a sector, every 32nd a line") {
  for (size_t offset = 0; offset <= largest_offset; ++offset) {
    CAPTURE(offset);
    CHECK(pieces_at(offset, sector_bytes) == (offset % 8 == 0 ? 4 : 5));
    CHECK(pieces_at(offset, line_bytes) == (offset % 32 == 0 ? 1 : 2));
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
  const GuardedBuffer<unsigned> out(3 * 256);
  for (const size_t n : {size_t(1), size_t(1009), 8 * out.size(), size_t(65537)})
    for (const size_t offset : {size_t(0), size_t(1), size_t(33), largest_offset}) {
      const auto in = filled<unsigned>(n + offset, [] __device__(size_t i) { return hash(i); });
      for (const Way way : std::initializer_list<Way>{through_l1, past_l1, from_l2}) {
        CAPTURE(n);
        CAPTURE(name_of(offset, way));
        out.poison();
        launch(way, out, in, n, offset);
        std::vector<unsigned> right(out.size(), 0);
        for (size_t i = 0; i < n; ++i) right[i % right.size()] += passes_of(way) * hash(offset + i);
        CHECK(out.to_host() == right);
        CHECK(find_wrong_sum(way, out, n, offset) == "");
        CHECK(find_wrong_sum(way, out, n, offset + 1) != "");
      }
    }
}
