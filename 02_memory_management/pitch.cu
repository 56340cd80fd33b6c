// pitch: rows of any width, packed one behind the other, or pitched so that each begins where the
// allocation is aligned. The guide pitches rows to 256 bytes, and has the compiler split what is
// not aligned [KP]. It does not: a request that begins off a sector of 32 bytes takes one more.
// Look at how much of that sector shows in the time, and at which widths the padding costs more.
//   cmake -S 02_memory_management -B build/pitch -DEXPERIMENTS=pitch
//   cmake --build build/pitch && build/pitch/02_memory_management
//
//   1  add_one  out = in + 1, a warp a row, in words of 1 or 4 bytes
#include <algorithm>
#include <deque>
#include <numeric>

#include "host_memory.hpp"

namespace {

// ---- kernel ----

/// Rows of elements; all counts are in elements.
struct Rows {
  size_t pitch;  ///< from the start of one row to the next; `width` where they are packed
  unsigned width, height;
};

constexpr unsigned block_threads = 256;
constexpr unsigned block_rows = block_threads / 32;

// [add_one]
// A warp takes a row and walks along it, 32 neighbouring elements in a step, four steps under way:
// aligned in a pitched row, anywhere in a packed one. What lies between rows it leaves alone.
template <class Word>
__global__ void add_one(Word* __restrict__ out, const Word* __restrict__ in, Rows rows) {
  const unsigned row = blockIdx.x * block_rows + threadIdx.x / 32;
  if (row >= rows.height) return;
  for (unsigned x = threadIdx.x % 32; x < rows.width; x += 4 * 32) {
    Word word[4];
    for (unsigned k = 0; k < 4; ++k)  // load
      if (x + k * 32 < rows.width) word[k] = in[row * rows.pitch + x + k * 32];
    for (unsigned k = 0; k < 4; ++k)  // add and store
      if (x + k * 32 < rows.width) out[row * rows.pitch + x + k * 32] = Word(word[k] + 1);
  }
}
// [/add_one]

// ---- what is right: rows of a pattern, and poison between them ----

/// One more is never the poison.
__host__ __device__ unsigned value_at(unsigned row, unsigned x) {
  return (row * 40503u + x) * 2654435761u % 251;
}
constexpr int poison = 0xff;  // each byte

template <class Word>
__global__ void fill_rows(Word* in, Rows rows) {
  const unsigned row = blockIdx.x * block_rows + threadIdx.x / 32;
  if (row >= rows.height) return;
  for (unsigned x = threadIdx.x % 32; x < rows.width; x += 32)
    in[row * rows.pitch + x] = Word(value_at(row, x));
}

// Each warp reads a row with all of its padding, the last warp a row behind the last.
template <class Word>
__global__ void count_wrong(const Word* out, Rows rows, unsigned* wrong) {
  const unsigned row = blockIdx.x * block_rows + threadIdx.x / 32;
  if (row > rows.height) return;
  for (unsigned x = threadIdx.x % 32; x < rows.pitch; x += 32) {
    const bool inside = row < rows.height && x < rows.width;
    const Word expected = inside ? Word(value_at(row, x) + 1) : Word(-1);
    if (out[row * rows.pitch + x] != expected) atomicAdd(wrong, 1u);
  }
}

unsigned blocks_for(unsigned rows) { return (rows + block_rows - 1) / block_rows; }

/// An input and an output for any rows that take at most `bytes` with one more behind the last.
struct Arrays {
  DeviceBuffer<unsigned char> in, out;
  explicit Arrays(size_t bytes) : in(bytes), out(bytes) {}

  template <class Word>
  unsigned wrong(const Rows& rows) const {
    const DeviceBuffer<unsigned> count(std::vector<unsigned>{0});
    count_wrong<<<blocks_for(rows.height + 1), block_threads>>>((const Word*)out.data(), rows,
                                                                count.data());
    CUDA_CHECK_LAUNCH();
    return count.to_host()[0];
  }
  template <class Word>
  Task task(const std::string& name, const Rows& rows) const {
    Check check;
    check.poison = [this, rows] {
      CUDA_CHECK(cudaMemset(out.data(), poison, (rows.height + 1) * rows.pitch * sizeof(Word)));
      fill_rows<<<blocks_for(rows.height), block_threads>>>((Word*)in.data(), rows);
      CUDA_CHECK_LAUNCH();
    };
    check.wrong = [this, rows] { return size_t(wrong<Word>(rows)); };
    const auto launch = [this, rows] {
      add_one<<<blocks_for(rows.height), block_threads>>>((Word*)out.data(), (const Word*)in.data(),
                                                          rows);
    };
    return {name, launch, std::move(check)};
  }
  /// In words of 4 bytes where the width is a multiple of them.
  Task task(unsigned word, const std::string& name, const Rows& rows) const {
    return word == 4 ? task<unsigned>(name, rows) : task<unsigned char>(name, rows);
  }
};

unsigned word_of(unsigned width) { return width % 4 ? 1 : 4; }  // bytes
Rows rows_of(unsigned width, size_t pitch, size_t height) {
  return {pitch / word_of(width), width / word_of(width), unsigned(height)};
}

// ---- what to expect ----

/// Sectors of 32 bytes in all requests of a row, on average over 32 rows: then the starts repeat.
double sectors_of_row(const Rows& rows, unsigned word) {
  const unsigned counted = std::min(rows.height, 32u);
  double sectors = 0;
  for (size_t row = 0; row < counted; ++row)
    for (unsigned x = 0; x < rows.width; x += 32) {
      const size_t first = (row * rows.pitch + x) * word;
      const size_t last = (row * rows.pitch + std::min(x + 32, rows.width)) * word - 1;
      sectors += double(last / 32 - first / 32 + 1);
    }
  return sectors / counted;
}
unsigned requests_of_row(const Rows& rows) { return (rows.width + 31) / 32; }

/// Bytes that a row moves through memory: packed rows share the sectors at their ends.
double bytes_of_row(const Rows& rows, unsigned word) {
  if (rows.pitch == rows.width) return 2.0 * rows.width * word;
  return 2.0 * 32 * std::ceil(rows.width * word / 32.0);
}

/// Nanoseconds, from three calibration rows.
struct Calibrated {
  double row = NAN;      ///< a warp begins, waits for its loads and ends
  double request = NAN;  ///< of 32 elements, whatever their size
  double byte = NAN;     ///< of the memory
};

/// Nanoseconds of a row: it cannot take less than a warp's time, than its requests' or than its
/// bytes'. Warps overlap, but not wholly: the root of the squares, which fits an H200.
double ns_of_row(const Rows& rows, unsigned word, const Calibrated& c) {
  const double issued = std::max(c.row, requests_of_row(rows) * c.request);
  return std::hypot(issued, bytes_of_row(rows, word) * c.byte);
}

/// The part of `ns` that bytes do not explain.
double beside_bytes(double ns, double bytes_ns) {
  return std::sqrt(std::max(ns * ns - bytes_ns * bytes_ns, 0.01 * ns * ns));
}

// ---- allocations ----

/// Owns rows of `width` bytes (cudaMallocPitch).
struct Pitched {
  void* data = nullptr;
  size_t pitch = 0;
  explicit Pitched(unsigned width, unsigned rows = 2) {
    CUDA_CHECK(cudaMallocPitch(&data, &pitch, width, rows));
  }
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
              {counted("pitches", "granularity", "bytes", 0),
               counted("starts", "alignment of starts", "bytes", 0),
               counted("textures need", "texture pitch", "bytes", 0),
               then("guide", "granularity", "bytes", 0)});
  table.row({"cudaMallocPitch"},
            {double(granularity), double(starts & (~starts + 1)),  // the lowest bit of any start
             double(run.device->prop.texturePitchAlignment), 256.0});
  table.print();
}

// ---- the experiment ----

constexpr unsigned row_width = 31;       // bytes: a row that is one request
constexpr unsigned request_width = 511;  // bytes: sixteen requests
constexpr unsigned byte_width = 4096;    // words: the memory's rate

std::vector<unsigned> widths_of(const Run& run) {
  std::vector<unsigned> widths{row_width, request_width, byte_width};
  if (run.quick) {
    widths.insert(widths.end(), {129, 4092});
    std::sort(widths.begin(), widths.end());
    return widths;
  }
  widths.insert(widths.end(), {1, 3, 33, 100, 127, 128, 129, 132, 255, 257, 513, 1000, 1025, 1028,
                               2049, 4092, 4095, 4097});
  for (unsigned width = 64; run.full && width < 4096; width += 64)
    widths.insert(widths.end(), {width - 1, width, width + 4});
  std::sort(widths.begin(), widths.end());
  widths.erase(std::unique(widths.begin(), widths.end()), widths.end());
  return widths;
}

/// What one width gave.
struct Found {
  unsigned width;
  bool beyond_cache;
  Interval gain;  ///< of pitched rows over packed ones
};

/// A width's two layouts and their times, packed first.
struct Pair {
  unsigned width;
  Rows rows[2];
  Readings times[2];

  double moved() const { return 2.0 * width * rows[0].height; }
};

Pair measure(const Run& run, const Arrays* arrays, unsigned width, size_t pitch, size_t height) {
  Pair pair{width, {rows_of(width, width, height), rows_of(width, pitch, height)}, {}};
  if (!arrays) return pair;
  const std::string name = std::to_string(width) + " bytes, ";
  std::vector<Task> tasks;
  tasks.push_back(arrays->task(word_of(width), name + "packed", pair.rows[0]));
  tasks.push_back(arrays->task(word_of(width), name + "pitched", pair.rows[1]));
  const std::vector<Readings> times = run.time_in_turn(tasks);
  pair.times[0] = times[0];
  pair.times[1] = times[1];
  return pair;
}

Calibrated calibrate(const std::vector<Pair>& all) {
  const auto ns = [&](unsigned width) {  // of a packed row
    for (const Pair& pair : all)
      if (pair.width == width) return pair.times[0].median() * 1e6 / pair.rows[0].height;
    return double(NAN);
  };
  Calibrated c;
  c.byte = ns(byte_width) / (2.0 * byte_width);
  c.row = ns(row_width);  // its bytes are few
  const unsigned requests = (request_width + 31) / 32;
  c.request = beside_bytes(ns(request_width), 2.0 * request_width * c.byte) / requests;
  return c;
}

Cell rate(const Run& run, const Pair& pair, int k, const Calibrated& c) {
  if (pair.times[k].ms.empty()) return {};
  const unsigned word = word_of(pair.width);
  const Statistics gbs = gigabytes_per_second(pair.moved(), pair.times[k].statistics());
  const bool calibrates =
      pair.width == byte_width || pair.width == row_width || pair.width == request_width;
  if (calibrates && k == 0) return Calibration{gbs};
  // that warps and requests limit short rows was found on compute capability 9.0
  const bool documented = word == 4 && pair.width >= 1000;
  const Model model = documented || run.device->prop.major == 9 ? Model::traffic : Model::host;
  return Compared{2.0 * pair.width / ns_of_row(pair.rows[k], word, c), gbs, model};
}

std::vector<Found> show(const Run& run, const std::vector<Pair>& all) {
  Table table(run.report, "rows, bytes a row",
              {compared("GB/s packed", "packed rate", "GB/s", 0),
               compared("pitched", "pitched rate", "GB/s", 0), shown("pitched gains"),
               predicted("sectors/request", "packed sectors/request", "", 2),
               predicted("pitched", "pitched sectors/request", "", 2), shown("")});
  const Calibrated constants = calibrate(all);
  std::vector<Found> found;
  for (const Pair& pair : all) {
    const unsigned word = word_of(pair.width);
    const bool beyond = run.device && beyond_l2(*run.device, pair.moved());
    const Interval gain = run.device ? ratio(pair.times[0], pair.times[1]) : Interval{};
    const double requests = requests_of_row(pair.rows[0]);
    table.row(
        {word == 4 ? "4-byte words" : "bytes", "row bytes", std::to_string(pair.width)},
        {rate(run, pair, 0, constants), rate(run, pair, 1, constants),
         gain.measured() ? times(gain.value) : "-", sectors_of_row(pair.rows[0], word) / requests,
         sectors_of_row(pair.rows[1], word) / requests,
         beyond || !run.device ? "" : "partly in the L2"});
    found.push_back({pair.width, beyond, gain});
  }
  table.print();
  return found;
}

/// cudaMemcpy2D between packed rows of pinned memory and rows on the device.
struct Copies {
  const Arrays& arrays;
  unsigned width;
  size_t pitch, height;
  PinnedBuffer<unsigned char>&from, &to;

  size_t bytes() const { return width * height; }
  Task up() const {
    Check check;
    check.poison = [this] { CUDA_CHECK(cudaMemset(arrays.out.data(), poison, pitch * height)); };
    check.wrong = [this] { return wrong_below(); };
    return {"cudaMemcpy2D to the device",
            [this] {
              CUDA_CHECK(cudaMemcpy2DAsync(arrays.out.data(), pitch, from.data(), width, width,
                                           height, cudaMemcpyHostToDevice));
            },
            std::move(check)};
  }
  Task down() const {
    Check check;
    check.poison = [this] { std::fill_n(to.data(), bytes(), (unsigned char)poison); };
    check.wrong = [this] {
      CUDA_CHECK(cudaDeviceSynchronize());
      size_t wrong = 0;
      for (size_t i = 0; i < bytes(); ++i) wrong += to[i] != from[i];
      return wrong;
    };
    return {"cudaMemcpy2D to the host",
            [this] {
              CUDA_CHECK(cudaMemcpy2DAsync(to.data(), width, arrays.out.data(), pitch, width,
                                           height, cudaMemcpyDeviceToHost));
            },
            std::move(check)};
  }

 private:
  /// On the device, padding and all.
  size_t wrong_below() const {
    std::vector<unsigned char> found(pitch * height);
    CUDA_CHECK(cudaMemcpy(found.data(), arrays.out.data(), found.size(), cudaMemcpyDeviceToHost));
    size_t wrong = 0;
    for (size_t i = 0; i < found.size(); ++i) {
      const size_t x = i % pitch;
      wrong += found[i] != (x < width ? from[i / pitch * width + x] : poison);
    }
    return wrong;
  }
};

void fill_host(PinnedBuffer<unsigned char>& from) {
  for (size_t i = 0; i < from.size(); ++i) from[i] = (unsigned char)(i % 251 + i / 4093);
}

/// Milliseconds of a cudaMemcpy2D: its rows, and its bytes over the link.
struct CopyModel {
  double row_ms = NAN, gbs = NAN;
  double ms(size_t rows, double bytes) const { return double(rows) * row_ms + bytes * 1e-6 / gbs; }
};

void copy_rows(const Run& run, const Arrays& arrays) {
  const size_t bytes = std::min(size_t(run.quick ? 4 : 8) << 20, pinned_budget() / 2);
  PinnedBuffer<unsigned char> from(bytes), to(bytes);
  fill_host(from);
  Table table(run.report, "cudaMemcpy2D, bytes a row",
              {compared("GB/s to device", "to device", "GB/s", 1),
               compared("to host", "to host", "GB/s", 1)});
  CopyModel models[2];  // up, down
  for (const unsigned width : {4096u, 31u, 129u, 513u, 1025u, 4097u})
    for (const bool pitched : {false, true}) {
      const size_t pitch = pitched ? Pitched(width).pitch : width;
      const size_t height = std::min(bytes / width, size_t(1) << 15);
      const Copies copies{arrays, width, pitch, height, from, to};
      Cell cells[2];
      for (int way = 0; way < 2; ++way) {
        const Readings times = run.time(way ? copies.down() : copies.up());
        const double moved = double(copies.bytes());
        const Statistics gbs = gigabytes_per_second(moved, times.statistics());
        CopyModel& model = models[way];
        const bool link = !pitched && width == 4096;
        const bool row = !pitched && width == 31;
        if (link) model.gbs = gbs.median;
        if (row) model.row_ms = (times.median() - moved * 1e-6 / model.gbs) / double(height);
        const double ms = model.ms(height, moved);
        const double expected = width == 4096 ? model.gbs : moved * 1e-6 / ms;
        cells[way] =
            link || row ? Cell(Calibration{gbs}) : Cell(Compared{expected, gbs, Model::host});
      }
      table.row({pitched ? "pitched" : "packed", "row bytes", std::to_string(width)},
                {cells[0], cells[1]});
    }
  table.print();
}

/// Over all widths whose packed rows do not begin on a sector, as far as they are beyond the L2.
void judge(const Run& run, const std::vector<Found>& all) {
  const Part part{"02.7", "pitched rows beat rows whose start is not aligned",
                  "rows of multiples of 256 bytes", "the guide"};
  std::vector<Verdict> each;
  std::vector<double> gains;
  std::string losing;
  for (const Found& found : all) {
    if (found.width % 32 == 0 || !found.beyond_cache || !found.gain.measured()) continue;
    each.push_back(::judge(beats(), found.gain));
    gains.push_back(found.gain.value);
    if (each.back() == Verdict::does_not_hold)
      losing += (losing.empty() ? "" : ", ") + std::to_string(found.width);
  }
  if (gains.empty() && run.device)
    return run.report.not_judged(part, "the rows are less than four times the L2");
  if (gains.empty()) return run.report.not_judged(part, "no GPU");
  std::sort(gains.begin(), gains.end());
  const long holding = std::count(each.begin(), each.end(), Verdict::holds);
  run.report.judged(part, judge_many(each), exactly(gains[gains.size() / 2]),
                    "faster at " + std::to_string(holding) + " of " + std::to_string(each.size()) +
                        " widths, " + factor_text(gains.front()) + " to " +
                        factor_text(gains.back()));
  if (!losing.empty())
    run.report.finding("02.7", "pitched rows gain nothing at " + losing + " bytes");
}

/// Narrow rows take up to 512 times their bytes: fewer of them, and all from 31 bytes on.
constexpr double padded = 17;
constexpr size_t guard_bytes = 1 << 20;  // behind either array

/// Bytes of packed rows: read and written, they are beyond the L2, or all that fits.
double packed_bytes(const Run& run) {
  double bytes = run.full ? 512 << 20 : 128 << 20;
  while (run.device && !beyond_l2(*run.device, 2 * bytes)) bytes *= 2;
  while (run.device && 2 * padded * bytes > 0.8 * run.memory_there()) bytes /= 2;
  return bytes;
}

}  // namespace

void pitch(const Run& run) {
  const double bytes = packed_bytes(run);
  const double most_pitched = padded * bytes;
  run.report.begin("pitch", "out = in + 1 by rows of 1 to 4097 bytes, packed " + bytes_text(bytes) +
                                " each, or what is pitched to " + bytes_text(most_pitched));

  std::vector<Pair> all;
  std::vector<Found> found;
  {
    const Arrays arrays(run.device ? size_t(most_pitched) + guard_bytes : 0);
    for (const unsigned width : widths_of(run)) {
      const size_t pitch = run.device ? Pitched(width).pitch : (width + size_t(511)) / 512 * 512;
      const size_t height = size_t(std::min(bytes / width, most_pitched / double(pitch)));
      all.push_back(measure(run, run.device ? &arrays : nullptr, width, pitch, height));
    }
    found = show(run, all);
    if (run.device) copy_rows(run, arrays);
  }
  if (run.device) try_pitches(run);
  if (!run.device) run.report.left_out("rates; above a pitch is a multiple of 512");
  judge(run, found);
}
