// pitch: rows of any width, packed one behind the other, and pitched so that each begins at an aligned address. The
// guide has the compiler split what is not aligned, and pitches rows to 256 bytes. It does not split: a request that
// begins off a sector takes one sector more, and a word that is not aligned to its own size is an error. Look at how
// much of that sector shows in the time, and at which widths.
#include <doctest/doctest.h>

#include <algorithm>
#include <deque>
#include <numeric>
#include <set>

#include "../common/first_edition.hpp"
#include "host_memory.hpp"

namespace {

/// Rows of elements; all counts are in elements.
struct Rows {
  size_t pitch;  ///< from the start of one row to the next; `width` where they are packed
  unsigned width, height;
};

constexpr unsigned threads = 256, step = 32;  // elements that a warp takes at a time
// A warp takes a row and walks along it, 32 neighbouring elements in a step.
__host__ __device__ unsigned row_of(unsigned block, unsigned tid) { return block * (threads / 32) + tid / 32; }
__host__ __device__ unsigned first_column(unsigned tid) { return tid % 32; }
__host__ __device__ size_t element(const Rows& rows, unsigned row, unsigned x) { return row * rows.pitch + x; }

/// The input; one more is never the poison.
__host__ __device__ unsigned value(unsigned row, unsigned x) { return (row * 40503u + x) * 2654435761u % 251; }
constexpr int poison = 0xff;  // each byte

// Each warp writes 32 neighbouring elements in a step, and leaves what lies between rows.
template <class Word>
__global__ void fill(Word* in, Rows rows) {
  const unsigned row = row_of(blockIdx.x, threadIdx.x);
  if (row >= rows.height) return;
  for (unsigned x = first_column(threadIdx.x); x < rows.width; x += step)
    in[element(rows, row, x)] = Word(value(row, x));
}

// Each warp reads and writes 32 neighbouring elements in a step: aligned in a pitched row, anywhere in a packed one.
template <class Word>
__global__ void add_one(Word* __restrict__ out, const Word* __restrict__ in, Rows rows) {
  const unsigned row = row_of(blockIdx.x, threadIdx.x);
  if (row >= rows.height) return;
  for (unsigned x = first_column(threadIdx.x); x < rows.width; x += 4 * step) {
    Word word[4];  // so that four loads are under way
    for (unsigned k = 0; k < 4; ++k)
      if (x + k * step < rows.width) word[k] = in[element(rows, row, x + k * step)];
    for (unsigned k = 0; k < 4; ++k)
      if (x + k * step < rows.width) out[element(rows, row, x + k * step)] = Word(word[k] + 1);
  }
}

// Each warp reads a row with all of its padding, the last warp a row behind the last, and counts what is not right.
template <class Word>
__global__ void count_wrong(const Word* out, Rows rows, unsigned* wrong) {
  const unsigned row = row_of(blockIdx.x, threadIdx.x);
  if (row > rows.height) return;
  for (unsigned x = first_column(threadIdx.x); x < rows.pitch; x += step) {
    const bool inside = row < rows.height && x < rows.width;
    if (out[element(rows, row, x)] != (inside ? Word(value(row, x) + 1) : Word(-1))) atomicAdd(wrong, 1u);
  }
}

unsigned blocks_for(unsigned rows) { return (rows + threads / 32 - 1) / (threads / 32); }
/// An input and an output for any rows that take at most `bytes` with one more behind the last, which guards it.
struct Arrays {
  DeviceBuffer<unsigned char> in, out;
  explicit Arrays(size_t bytes) : in(bytes), out(bytes) {}

  template <class Word>
  void launch(const Rows& rows) const {
    add_one<<<blocks_for(rows.height), threads>>>((Word*)out.data(), (const Word*)in.data(), rows);
    CUDA_CHECK_LAUNCH();
  }
  template <class Word>
  unsigned wrong(const Rows& rows) const {
    DeviceBuffer<unsigned> count(std::vector<unsigned>{0});
    count_wrong<<<blocks_for(rows.height + 1), threads>>>((const Word*)out.data(), rows, count.data());
    CUDA_CHECK_LAUNCH();
    return count.to_host()[0];
  }
  /// Fills, launches and checks.
  template <class Word>
  bool right(const Rows& rows) const {
    CUDA_CHECK(cudaMemset(out.data(), poison, (rows.height + 1) * rows.pitch * sizeof(Word)));
    fill<<<blocks_for(rows.height), threads>>>((Word*)in.data(), rows);
    launch<Word>(rows);
    return wrong<Word>(rows) == 0;
  }
};

/// Sectors of 32 bytes in a request, one step of a row, on average over 32 rows: then the starts repeat.
double sectors_a_request(const Rows& rows, unsigned word) {
  double sectors = 0, requests = 0;
  for (unsigned row = 0; row < std::min(rows.height, 32u); ++row)
    for (unsigned x = first_column(0); x < rows.width; x += step, ++requests) {
      const size_t first = element(rows, row, x);
      const size_t last = element(rows, row, std::min(x + first_column(31), rows.width - 1));
      sectors += double(((last + 1) * word - 1) / 32 - first * word / 32 + 1);
    }
  return sectors / requests;
}

/// Owns two rows of `width` bytes (cudaMallocPitch).
struct Pitched {
  void* data = nullptr;
  size_t pitch = 0;
  explicit Pitched(unsigned width) { CUDA_CHECK(cudaMallocPitch(&data, &pitch, width, 2)); }
  Pitched(Pitched&&) = delete;
  ~Pitched() { cudaFree(data); }
};

/// Tries cudaMallocPitch at widths from 1 to 4097 bytes.
void try_pitches(const Run& run) {
  std::deque<Pitched> tried;  // all stay allocated, so that the starts differ
  size_t granularity = 0, starts = 0;
  for (unsigned width = 1; width <= 4097; width += run.quick ? 32 : 1) {
    tried.emplace_back(width);
    granularity = std::gcd(granularity, tried.back().pitch);
    starts |= reinterpret_cast<size_t>(tried.back().data);
  }
  Table table(run.report, "multiples of bytes",
              {counted("pitches", "granularity", "bytes", 0), counted("starts", "alignment of starts", "bytes", 0),
               counted("textures need", "texture pitch", "bytes", 0), then("guide", "granularity", "bytes", 0)});
  table.row({"cudaMallocPitch"}, {double(granularity), double(starts & (~starts + 1)),  // the lowest bit of any start
                                  double(run.device->prop.texturePitchAlignment), 256.0});
  table.print();
}

unsigned word_of(unsigned width) { return width % 4 ? 1 : 4; }  // bytes
Rows rows_of(unsigned width, size_t pitch, size_t height) {
  return {pitch / word_of(width), width / word_of(width), unsigned(height)};
}

/// Sectors of packed rows over those of pitched ones.
double loss(unsigned width) {
  return sectors_a_request(rows_of(width, width, 32), word_of(width)) /
         sectors_a_request(rows_of(width, 8192, 32), word_of(width));
}

// in words, as most data is; nearly all requests are whole ones, which lose 5 sectors against 4; hardly any padding
constexpr unsigned judged_width = 4092;

/// Any pitch does that is a multiple of a sector. No requests: a load of which no lane is left in the row may be one.
std::vector<CountedLaunch> counted_launches() {
  std::vector<CountedLaunch> all;
  for (unsigned width : {1u, 31u, 33u, 257u, 4097u, 100u, 132u, 1028u, judged_width})
    for (size_t pitch : {width, (width + 511) / 512 * 512}) {
      const Rows rows = rows_of(width, pitch, 1024);
      const double sum = 1024.0 * ((rows.width + 31) / 32) * sectors_a_request(rows, word_of(width));
      const auto right = [=] {
        const Arrays arrays(1025 * pitch);
        return word_of(width) == 4 ? arrays.right<unsigned>(rows) : arrays.right<unsigned char>(rows);
      };
      const std::vector<Expected> sectors{expected_sectors(true, sum), expected_sectors(false, sum)};
      all.push_back(
          {"add_one", "row bytes " + std::to_string(width) + " pitch " + std::to_string(pitch), sectors, right});
    }
  return all;
}

template <class Word>
Statistics time_rows(const Run& run, const Arrays& arrays, const Rows& rows) {
  require_right(arrays.right<Word>(rows), "rows of " + std::to_string(rows.width * sizeof(Word)) + " bytes");
  Measuring measuring = run.measuring;
  measuring.budget_ms = run.quick ? 1 : 5;  // there are forty of them
  return time_device(measuring, [&] { arrays.launch<Word>(rows); });
}

/// cudaMemcpy2D between packed rows of pinned memory and rows on the device, and between those.
void copy_rows(const Run& run, const Arrays& arrays) {
  const size_t bytes = std::min(size_t(run.quick ? 4 : 8) << 20, pinned_budget() / 2);
  Measuring measuring = run.measuring;
  measuring.budget_ms = run.quick ? 0.5 : 2;
  PinnedBuffer<unsigned char> from(bytes), to(bytes);
  for (size_t i = 0; i < bytes; ++i) from[i] = static_cast<unsigned char>(i % 251 + i / 4093);
  Table table(run.report, "cudaMemcpy2D, bytes a row",
              {shown("pitch"), measured("GB/s to device", "to device", "GB/s", 1),
               measured("to host", "to host", "GB/s", 1), measured("on device, in the L2", "on device", "GB/s", 1)});
  for (unsigned width : {31u, 129u, 513u, 1025u, 4092u, 4096u, 4097u})
    for (bool pitched : {false, true}) {
      const size_t pitch = pitched ? Pitched(width).pitch : width;
      const size_t height = std::min(bytes / width, size_t(1) << 15);
      const auto copy = [&](unsigned char* out, size_t out_pitch, const unsigned char* in, size_t in_pitch) {
        CUDA_CHECK(cudaMemcpy2DAsync(out, out_pitch, in, in_pitch, width, height, cudaMemcpyDefault));
      };
      const auto up = [&] { copy(arrays.in.data(), pitch, from.data(), width); };
      const auto across = [&] { copy(arrays.out.data(), pitch, arrays.in.data(), pitch); };
      const auto down = [&] { copy(to.data(), width, arrays.out.data(), pitch); };
      CUDA_CHECK(cudaMemset(arrays.out.data(), poison, pitch * height));
      CUDA_CHECK(cudaMemset(to.data(), poison, bytes));
      up(), across(), down();
      CUDA_CHECK(cudaDeviceSynchronize());
      require_right(std::memcmp(from.data(), to.data(), width * height) == 0, "cudaMemcpy2D there and back");
      const auto rate = [&](double moved, const auto& call) {
        return gigabytes_per_second(moved * width * double(height), time_device(measuring, call));
      };
      table.row({pitched ? "pitched" : "packed", "row bytes", std::to_string(width)},
                {std::to_string(pitch), rate(1, up), rate(1, down), rate(2, across)});
    }
  table.print();
}

const Claim pitch_claim{"02.7", "pitched rows beat rows whose start is not aligned", "vendor guide", "256 bytes"};
}  // namespace

void pitch(const Run& run) {
  size_t bytes = size_t(run.quick ? 32 : run.full ? 512 : 128) << 20;
  if (run.device && !run.quick) bytes = std::max(bytes, 2 * run.device->l2_bytes());
  while (run.device && 10 * bytes > Device::free_bytes()) bytes /= 2;
  const size_t most_pitched = 4 * bytes;  // narrow rows take up to 512 times their bytes: fewer of them
  std::set<unsigned> widths{1,   3,   31,   33,   100,  127,  128,          129,  132,  255, 257,
                            511, 513, 1000, 1025, 1028, 2049, judged_width, 4095, 4096, 4097};
  for (unsigned width = 64; run.full && width < 4096; width += 64) widths.insert({width - 1, width, width + 4});
  run.report.begin("pitch", "out = in + 1 by rows of 1 to 4097 bytes, packed " + bytes_text(double(bytes)) +
                                " each, or what is pitched to " + bytes_text(double(most_pitched)));

  Arrays arrays(run.device ? most_pitched + (size_t(1) << 20) : 0);  // and the guard
  Table table(
      run.report, "words, bytes a row",
      {shown("pitch"), shown("packed"), predicted("sectors/request", "packed sectors/request", "", 2),
       predicted("pitched", "pitched sectors/request", "", 2), measured("GB/s packed", "packed rate", "GB/s", 1),
       measured("pitched", "pitched rate", "GB/s", 1), shown("spread"), shown("pitched gains"), shown("")});
  Statistics packed_ms{}, pitched_ms{};            // at the judged width
  std::vector<std::pair<double, unsigned>> gains;  // beyond the L2, and at which width
  for (unsigned width : widths) {
    const size_t pitch = run.device ? Pitched(width).pitch : (width + size_t(511)) / 512 * 512;
    const size_t height = std::min(bytes / width, most_pitched / pitch);
    const Rows packed = rows_of(width, width, height), pitched = rows_of(width, pitch, height);
    const unsigned word = word_of(width);
    std::vector<Cell> cells{std::to_string(pitch), bytes_text(double(width * height)), sectors_a_request(packed, word),
                            sectors_a_request(pitched, word)};
    cells.resize(9);
    const double moved = 2.0 * width * double(height);
    const bool cached = run.device && moved <= double(run.device->l2_bytes());
    cells[8] = std::string(cached ? "packed fits in the L2" : "");
    if (run.device) {
      const auto time = [&](const Rows& rows) {
        return word == 4 ? time_rows<unsigned>(run, arrays, rows) : time_rows<unsigned char>(run, arrays, rows);
      };
      const Statistics a = time(packed), b = time(pitched);
      cells[4] = gigabytes_per_second(moved, a), cells[5] = gigabytes_per_second(moved, b);
      cells[6] = spread_text(a.spread() > b.spread() ? a : b), cells[7] = times(a.median / b.median);
      if (!cached) gains.push_back({a.median / b.median, width});
      if (width == judged_width) packed_ms = a, pitched_ms = b;
    }
    table.row({word == 4 ? "4-byte words" : "bytes", "row bytes", std::to_string(width)}, cells);
  }
  table.print();
  if (!run.device) return run.report.left_out("rates; above a pitch is a multiple of 512", {pitch_claim});
  copy_rows(run, arrays);
  try_pitches(run);
  if (bytes < 2 * run.device->l2_bytes()) return run.report.claim(pitch_claim, not_judged("rows partly in the L2"));
  Judgement judged = judge_ratio(packed_ms, pitched_ms);
  const auto [least, most] = std::minmax_element(gains.begin(), gains.end());
  judged.here = times(judged.value) + " at " + std::to_string(judged_width) + " bytes in words (by sectors " +
                times(loss(judged_width)) + "); from " + times(least->first) + " at " + std::to_string(least->second) +
                " to " + times(most->first) + " at " + std::to_string(most->second);
  run.report.claim(pitch_claim, judged);
}

// ---- self-checks ----------------------------------------------------------------------------------------------------

TEST_CASE("pitch: the warps take every element once and nothing else") {
  for (unsigned width : {1, 31, 33, 129, 257})
    for (unsigned height : {1, 2, 7, 9, 31})
      for (size_t pitch : {size_t(width), size_t(512)}) {
        const Rows rows{pitch, width, height};
        std::vector<int> taken(pitch * height);
        for (unsigned block = 0; block < blocks_for(height); ++block)
          for (unsigned tid = 0; tid < threads && row_of(block, tid) < height; ++tid)
            for (unsigned x = first_column(tid); x < width; x += step) ++taken.at(element(rows, row_of(block, tid), x));
        size_t wrong = 0;
        for (size_t i = 0; i < taken.size(); ++i) wrong += taken[i] != (i % pitch < width);
        CHECK(wrong == 0);
      }
}

TEST_CASE("pitch: sectors of aligned and unaligned rows") {
  CHECK(sectors_a_request({512, 32, 100}, 4) == 4);
  CHECK(sectors_a_request({512, 32, 100}, 1) == 1);
  CHECK(sectors_a_request({33, 33, 100}, 4) == (5 * 7 + 4 + 8) / 16.0);  // of 32 lanes one start in eight is aligned
  CHECK(loss(judged_width) ==
        (31 * (5 * 7 + 4) + 5 * 6 + 4 * 2) / (8 * 128.0));  // 31 whole requests and one of 31 lanes
}

TEST_CASE("pitch: rows are right and what lies between them is left alone") {
  if (skip_without_gpu()) return;
  const Arrays arrays(1001 * 8192);
  const auto check = [&]<class Word>(Word, unsigned width, unsigned height) {
    for (size_t pitch : {size_t(width), Pitched(width).pitch}) {
      const Rows rows{pitch / sizeof(Word), width / unsigned(sizeof(Word)), height};
      CAPTURE(std::to_string(width) + " x " + std::to_string(height) + ", pitch " + std::to_string(pitch));
      CHECK(arrays.right<Word>(rows));
      CUDA_CHECK(cudaMemset(arrays.out.data() + (rows.height + 1) * pitch - 1, 0, 1));  // a guard touched is found
      CHECK(arrays.wrong<Word>(rows) == 1);
    }
  };
  for (unsigned height : {1, 2, 3, 7, 1000}) {
    for (unsigned width : {1, 3, 31, 33, 127, 129, 257, 1025, 4097}) check((unsigned char)0, width, height);
    for (unsigned width : {4, 100, 128, 132, 1028, 4092, 4096}) check(0u, width, height);
  }
}

TEST_CASE("pitch: cudaMemcpy2D there and back and sectors begin with the rows") {
  if (skip_without_gpu()) return;
  for (unsigned width : {1, 3, 31, 129, 1025, 4097}) {
    const Pitched rows(width);
    CHECK((reinterpret_cast<size_t>(rows.data) | rows.pitch) % 32 == 0);  // the prediction rests on it
    std::vector<unsigned char> from(2 * width), to(from.size(), poison);
    for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<unsigned char>(i % 251);
    CUDA_CHECK(cudaMemset(rows.data, poison, 2 * rows.pitch));
    CUDA_CHECK(cudaMemcpy2D(rows.data, rows.pitch, from.data(), width, width, 2, cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy2D(to.data(), width, rows.data, rows.pitch, width, 2, cudaMemcpyDeviceToHost));
    CHECK((to == from));
  }
}

TEST_CASE("pitch: profile launches") {
  if (skip_without_gpu()) return;
  launch_counted(counted_launches());
}

TEST_CASE("pitch: counted sectors equal the model") { compare_with_counters(counted_launches()); }
