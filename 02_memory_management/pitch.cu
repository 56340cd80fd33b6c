// pitch: where should the rows of an array begin? Packed rows follow each other without a gap.
// cudaMallocPitch leaves gaps, so that each row begins on a segment. The guide advises this for
// arrays of several dimensions: rows of a multiple of 256 bytes, since accesses that are not
// aligned are split [KP].
//
// A request that begins off a sector of 32 bytes touches one sector more. Predict from the sectors
// how much faster pitched rows are. Then compare long rows with short ones: which of them share the
// sectors at their ends with their neighbours, and what does a row cost that does not?
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o pitch pitch.cu ../common/*.cpp
//
//   1  add_one       out = in + 1, a warp per row, in words of 1 or 4 bytes
//   2  nothing       an empty kernel: what starting as many blocks takes
//   3  cudaMemcpy2D  packed rows of the host to rows on the device
#include <algorithm>
#include <numeric>

#include "../common/arrays.cuh"
#include "../common/sample.hpp"
#include "../common/sectors.hpp"
#include "host.hpp"

namespace {

/// Rows of elements; all counts are in elements.
struct Rows {
  size_t pitch;  ///< from the start of one row to the next; `width` where they are packed
  unsigned width, height;
};

constexpr unsigned block_threads = 256;
constexpr unsigned block_rows = block_threads / 32;

// A warp takes a row and walks along it, 32 neighbouring elements in a step: aligned in a pitched
// row, anywhere in a packed one. What lies between rows it leaves alone. So many steps are in flight
// that a thread has 16 bytes on their way: 16 words of 1 byte, 4 of 4. (Of a short row, which has no
// 16 words for a thread, 4 words of 1 byte.)
template <unsigned steps, class Word>
__global__ void add_one(Word* __restrict__ out, const Word* __restrict__ in, Rows rows) {
  const unsigned row = blockIdx.x * block_rows + threadIdx.x / 32;
  if (row >= rows.height) return;
  for (unsigned x = threadIdx.x % 32; x < rows.width; x += steps * 32) {
    Word word[steps];
    for (unsigned k = 0; k < steps; ++k)  // load
      if (x + k * 32 < rows.width) word[k] = in[row * rows.pitch + x + k * 32];
    for (unsigned k = 0; k < steps; ++k)  // add and store
      if (x + k * 32 < rows.width) out[row * rows.pitch + x + k * 32] = Word(word[k] + 1);
  }
}

__global__ void nothing() {}

using Byte = unsigned char;
constexpr size_t guard = 64;  // elements behind the last row

/// The pitch that cudaMallocPitch gives rows of `width` bytes, and where its first row begins.
struct Pitched {
  void* data = nullptr;
  size_t pitch = 0;
  explicit Pitched(size_t width) { CUDA_CHECK(cudaMallocPitch(&data, &pitch, width, 2)); }
  Pitched(const Pitched&) = delete;
  ~Pitched() { cudaFree(data); }
  size_t alignment() const { return std::gcd(reinterpret_cast<size_t>(data), pitch); }
};

// ---- the kernel's work ----

unsigned word_of(size_t width) { return width % 4 ? 1 : 4; }  // bytes
Rows rows_of(size_t width, size_t pitch, size_t height) {
  const unsigned word = word_of(width);
  return {pitch / word, unsigned(width / word), unsigned(height)};
}

/// A byte of the input is at most 250: one more is never 0xff, the poison.
DeviceBuffer<Byte> input(size_t bytes) {
  return filled<Byte>(bytes, [] __device__(size_t i) { return Byte(hash(i) % 251); });
}

/// Elements of rows are one more than those of `in`. Between rows, and behind them, is poison.
template <class Word>
std::string row_error(const Word* out, const Word* in, const Rows& rows) {
  const size_t n = rows.height * rows.pitch + guard;
  return find_mismatch(out, n, [in, rows] __device__(size_t i) {
    const bool of_row = i % rows.pitch < rows.width && i / rows.pitch < rows.height;
    return of_row ? Word(in[i] + 1) : Word(-1);
  });
}

unsigned blocks_of(size_t height) { return unsigned(ceil_div(height, block_rows)); }

template <unsigned steps, class Word>
Benchmark adding(const std::string& name, Byte* to, const Byte* from, const Rows& rows) {
  auto* const out = reinterpret_cast<Word*>(to);
  const auto* const in = reinterpret_cast<const Word*>(from);
  const auto work = [=] {
    add_one<steps><<<blocks_of(rows.height), block_threads>>>(out, in, rows);
  };
  const auto poison = [=] {
    CUDA_CHECK(cudaMemset(out, 0xff, (rows.height * rows.pitch + guard) * sizeof(Word)));
  };
  return {name, work, {poison, [=] { return row_error(out, in, rows); }}};
}

/// `width` and `pitch` are in bytes. Both arrays take height * pitch and 256 bytes more. `few`: of
/// words of 1 byte a thread has only 4 in flight, however long the row is.
Benchmark adding(const std::string& name, Byte* out, const Byte* in, size_t width, size_t pitch,
                 size_t height, bool few = false) {
  const Rows rows = rows_of(width, pitch, height);
  if (word_of(width) == 4) return adding<4, unsigned>(name, out, in, rows);
  return few || width <= 256 ? adding<4, Byte>(name, out, in, rows)
                             : adding<16, Byte>(name, out, in, rows);
}

// ---- prediction ----

/// Sectors of a request, on average over 32 rows: then the starts repeat.
double sectors_per_request(const Rows& rows, unsigned word) {
  size_t sum = 0, requests = 0;
  for (size_t row = 0; row < 32; ++row)
    for (unsigned x = 0; x < rows.width; x += 32, ++requests) {
      const size_t last = std::min(31u, rows.width - x - 1);  // the last lane that is in the row
      sum +=
          sectors(word, [&](size_t lane) { return row * rows.pitch + x + std::min(lane, last); });
    }
  return double(sum) / double(requests);
}

// ---- the experiment ----

/// Small steps, one after the other: the checks between them keep the GPU warm.
Timer timer_of(const Run& run) {
  Timer timer = run.timer;
  timer.rounds = 12;
  timer.warm_up_ms = 5;
  return timer;
}

void compare_rows(Run& run) {
  std::vector<size_t> widths = {9,   31,  33,   100,  127,  128,  129,  132,  255,  257,
                                511, 513, 1000, 1025, 1028, 2049, 4092, 4095, 4096, 4097};
  if (run.quick) widths = {100, 129, 1025, 4092, 4096, 4097};
  double most = 1;  // bytes of a pitched row over those of a packed one
  for (const size_t width : widths)
    most = std::max(most, double(Pitched(width).pitch) / double(width));
  const size_t bytes = run.fitting(128 * MiB, 2.1 * most);  // of packed rows
  const size_t most_bytes = size_t(most * double(bytes)) + 1024;
  const DeviceBuffer<Byte> in = input(most_bytes), out(most_bytes);

  Table table("bytes per row", {"word", "pitch", "sectors packed", "pitched", "GB/s packed",
                                "GB/s pitched", "packed / pitched"});
  Table counted("add_one", {"load", "store"});  // for tools/profile.py
  Table starting("short rows, bytes", {"blocks", "ms: empty kernel", "packed", "pitched"});
  Table with_few("4 bytes in flight, bytes per row",
                 {"GB/s packed", "GB/s pitched", "packed / pitched"});
  std::vector<Interval> long_rows, short_rows;  // what they gain, if they begin off a sector
  for (const size_t width : widths) {
    const size_t height = bytes / width, pitch = Pitched(width).pitch;
    const std::string packed = "packed, " + std::to_string(width);
    const std::string pitched = "pitched, " + std::to_string(width);
    const unsigned word = word_of(width), blocks = blocks_of(height);
    const bool is_short = width < 4 * sector_bytes, try_few = word == 1 && width > KiB;
    std::vector<Benchmark> all = {adding(packed, out, in, width, width, height),
                                  adding(pitched, out, in, width, pitch, height)};
    if (is_short)
      all.push_back({.name = "empty", .work = [=] { nothing<<<blocks, block_threads>>>(); }});
    if (try_few) {
      all.push_back(adding("few, packed", out, in, width, width, height, true));
      all.push_back(adding("few, pitched", out, in, width, pitch, height, true));
    }
    const Timings timed = timer_of(run).interleaved(all);
    const double sectors_packed = sectors_per_request(rows_of(width, width, height), word);
    const double sectors_pitched = sectors_per_request(rows_of(width, pitch, height), word);
    const double moved = 2.0 * double(width * height);  // read and written
    const Interval gain = ratio(timed[packed], timed[pitched]);
    table.row(std::to_string(width), {word, pitch, sectors_packed, sectors_pitched,
                                      timed[packed].gbs(moved), timed[pitched].gbs(moved), gain});
    counted.row(packed, {sectors_packed, sectors_packed});
    counted.row(pitched, {sectors_pitched, sectors_pitched});
    if (is_short)
      starting.row(std::to_string(width),
                   {blocks, timed["empty"].ms_interval(), timed[packed].ms_interval(),
                    timed[pitched].ms_interval()});
    if (try_few)
      with_few.row(std::to_string(width),
                   {timed["few, packed"].gbs(moved), timed["few, pitched"].gbs(moved),
                    ratio(timed["few, packed"], timed["few, pitched"])});
    if (width % sector_bytes) (width >= 2 * KiB ? long_rows : short_rows).push_back(gain);
  }
  run.print(table);
  run.save(counted);
  run.note("sectors: of 32 bytes, per request of a warp, predicted. GB/s: of the rows' own bytes");
  run.note("packed / pitched: the ratio of their times; above 1 the pitch gains");
  run.note("a thread has 16 words of 1 byte in flight, or 4 of 4; of rows up to 256 bytes 4");
  run.print(starting);
  run.print(with_few);
  const auto judge = [&](const Claim& claim, const std::vector<Interval>& gains) {
    if (run.beyond_l2(2.0 * double(bytes)))
      run.claim_each(claim, gains, "packed / pitched, width % 32 != 0", faster());
    else
      run.claim_skipped(claim, "the rows are less than four times the L2");
  };
  const std::string advice = "[KP] \"you are advised to use cudaMallocPitch()\"";
  judge({"02.7a", "cudaMallocPitch speeds up misaligned rows of 2 KiB and more", advice},
        long_rows);
  judge({"02.7b", "cudaMallocPitch speeds up misaligned rows of less than 2 KiB", advice},
        short_rows);
}

// ---- cudaMemcpy2D ----

/// From packed rows of pinned memory to rows on the device, all of bytes.
Benchmark copying(const std::string& name, const Rows& rows) {
  const size_t host_bytes = size_t(rows.width) * rows.height;
  const size_t device_bytes = rows.pitch * rows.height + guard;
  const PinnedBuffer<Byte> from(host_bytes);
  const DeviceBuffer<Byte> to(device_bytes);
  CUDA_CHECK(cudaMemcpy(from, input(host_bytes), host_bytes, cudaMemcpyDeviceToHost));
  const auto copy = [=] {
    CUDA_CHECK(cudaMemcpy2DAsync(to, rows.pitch, from, rows.width, rows.width, rows.height,
                                 cudaMemcpyHostToDevice));
  };
  const auto poison = [=] { CUDA_CHECK(cudaMemset(to, 0xff, device_bytes)); };
  const auto find_error = [=] {
    return find_mismatch(to.data(), device_bytes, [rows] __device__(size_t i) {
      const size_t row = i / rows.pitch, x = i % rows.pitch;
      const bool of_row = row < rows.height && x < rows.width;
      return of_row ? Byte(hash(row * rows.width + x) % 251) : Byte(0xff);
    });
  };
  return {name, copy, {poison, find_error}};
}

void compare_copies(Run& run) {
  const size_t bytes = run.fitting_on_host((run.quick ? 1 : 4) * MiB, 2);
  if (const auto why = refusal([=] { PinnedBuffer<Byte>{bytes}; }); !why.empty())
    return run.note("cudaMemcpy2D from pinned memory: " + why);
  Table table("cudaMemcpy2D, GB/s, bytes per row", {"packed", "pitched"});
  for (const size_t width : {33, 129, 513, 1025, 4096}) {
    const unsigned height = unsigned(bytes / width);
    const Timings timed = timer_of(run).interleaved(
        {copying("packed", {width, unsigned(width), height}),
         copying("pitched", {Pitched(width).pitch, unsigned(width), height})});
    const double moved = double(width) * height;
    table.row(std::to_string(width),
              {timed["packed"].gbs_interval(moved), timed["pitched"].gbs_interval(moved)});
  }
  run.print(table);
  run.note("from packed rows of " + bytes_text(double(bytes)) +
           " in pinned memory to rows on the device, packed or pitched");
}

void judge_pitch(Run& run) {
  size_t step = 0, alignment = 0;
  for (size_t width = 1; width <= 4097; width += 32) {
    const Pitched rows(width);
    step = std::gcd(step, rows.pitch);
    alignment = std::gcd(alignment, rows.alignment());
  }
  run.observed({"02.12", "cudaMallocPitch pads each row to a multiple of 256 bytes",
                "[KP] \"a multiple of 256\""},
               step % 256 == 0,
               "pitches are multiples of " + std::to_string(step) +
                   " bytes; rows begin on multiples of " + std::to_string(alignment) +
                   "; a texture's rows need " + std::to_string(run.gpu.texturePitchAlignment));
}

}  // namespace

void pitch(Run& run) {
  run.title("out = in + 1 by rows, packed and pitched");
  compare_rows(run);
  compare_copies(run);
  judge_pitch(run);
}
SAMPLE(7, pitch, "rows that begin on 512 bytes, and rows that do not");

TEST_CASE("pitch: sectors of aligned and unaligned rows, by hand") {
  CHECK(sectors_per_request({512, 32, 100}, 4) == 4);
  CHECK(sectors_per_request({512, 32, 100}, 1) == 1);
  // 33 words a row, two requests, of 32 lanes and of one; a start in eight is aligned
  CHECK(sectors_per_request({33, 33, 100}, 4) == (5 * 7 + 4 + 8) / 16.0);
  // 31 whole requests and one of 31 lanes
  CHECK(sectors_per_request({1023, 1023, 100}, 4) == (31 * (5 * 7 + 4) + 5 * 6 + 4 * 2) / 256.0);
}

TEST_CASE("pitch: every row is one more, and what lies between and behind them is left alone") {
  if (skip_without_gpu()) return;
  for (const size_t height : {1, 7, 9, 1000})
    for (const size_t width : {1, 3, 31, 129, 1025, 4097, 4, 100, 132, 4096})
      for (const size_t pitch : {width, Pitched(width).pitch}) {
        CAPTURE(height);
        CAPTURE(width);
        CAPTURE(pitch);
        const size_t bytes = height * pitch + 256;
        const DeviceBuffer<Byte> in = input(bytes), out(bytes);
        CUDA_CHECK(cudaMemset(out, 0, bytes));
        Benchmark add;
        for (const bool few : {true, false}) {
          add = adding("add_one", out, in, width, pitch, height, few);
          add.check.poison();
          CHECK(add.check.find_error() != "");  // nothing is added yet
          CHECK_NOTHROW(require_right(add));
        }
        std::vector<Byte> before = in.to_host(), after = out.to_host();
        size_t wrong = 0;
        for (size_t row = 0; row < height; ++row)
          for (size_t x = 0; x < width; x += word_of(width))  // a word's low byte stands first
            wrong += after[row * pitch + x] != before[row * pitch + x] + 1;
        CHECK(wrong == 0);
        CUDA_CHECK(cudaMemset(out + height * pitch, 0, 1));
        CHECK(add.check.find_error() != "");
      }
}

TEST_CASE("pitch: cudaMemcpy2D copies each row, and rows begin on sectors") {
  if (skip_without_gpu()) return;
  for (const size_t width : {1, 3, 31, 129, 1025, 4097}) {
    const Pitched rows(width);
    CHECK(rows.alignment() % sector_bytes == 0);  // predictions rest on it
    for (const size_t pitch : {width, rows.pitch}) {
      const Benchmark copy = copying("cudaMemcpy2D", {pitch, unsigned(width), 7});
      copy.check.poison();
      CHECK(copy.check.find_error() != "");
      CHECK_NOTHROW(require_right(copy));
    }
  }
}
