// pitch: rows of any width, packed one behind the other, or pitched so that each begins where the
// allocation is aligned. The guide pitches rows to multiples of 256 bytes, since accesses that are
// not aligned are split [KP]: a request that begins off a sector of 32 bytes takes one more. Two
// things to look at:
//   - How much of that sector shows in the time, and at which widths the padding costs more.
//   - cudaMemcpy2D: it does not mind the pitch, but it does mind short rows.
//
//   cmake -S 02_memory_management -B build/pitch -DEXPERIMENTS=pitch
//   cmake --build build/pitch && build/pitch/02_memory_management
//
//   1  add_one       out = in + 1, a warp a row, in words of 1 or 4 bytes
//   2  cudaMemcpy2D  packed rows of the host, and rows on the device
#include <algorithm>
#include <numeric>

#include "../framework/common/checked.cuh"
#include "../framework/common/experiment.hpp"
#include "host_memory.hpp"

using namespace samples;

namespace {

using Byte = unsigned char;
constexpr size_t mib = 1 << 20;

// ---- kernel ----

/// Rows of elements; all counts are in elements.
struct Rows {
  size_t pitch;  ///< from the start of one row to the next; `width` where they are packed
  unsigned width, height;
};

constexpr unsigned block_threads = 256;
constexpr unsigned block_rows = block_threads / 32;

// [add_one]
// A warp takes a row and walks along it, 32 neighbouring elements in a step, four steps in flight:
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

// ---- rows in memory ----

/// Owns two rows of `width` bytes.
struct Pitched {
  void* data = nullptr;
  size_t pitch = 0;
  explicit Pitched(unsigned width) { CUDA_CHECK(cudaMallocPitch(&data, &pitch, width, 2)); }
  Pitched(Pitched&& other) noexcept
      : data(std::exchange(other.data, nullptr)), pitch(other.pitch) {}
  ~Pitched() { cudaFree(data); }
};

/// Where no GPU is asked; sectors and predictions are those of any multiple of 32.
size_t expected_pitch(double width) { return (size_t(width) + 511) / 512 * 512; }

/// Bytes from one row to the next: what cudaMallocPitch says, if the row's key says pitched.
bool is_pitched(const Ref& ref) { return ref.key.ends_with("_pitched"); }
size_t pitch_of(const Ref& ref) {
  if (!is_pitched(ref)) return size_t(ref.at);
  return device_memory::Pretence::stands() ? expected_pitch(ref.at)
                                           : Pitched(unsigned(ref.at)).pitch;
}

unsigned word_of(double width) { return unsigned(width) % 4 ? 1 : 4; }  // bytes
Rows rows_of(double width, size_t pitch, size_t height) {
  const unsigned word = word_of(width);
  return {pitch / word, unsigned(width) / word, unsigned(height)};
}

// ---- what is right: rows of a pattern, and poison between them ----

constexpr Byte poison = 0xff;

/// Byte i of rows in which each element is below 252, whatever its size; what lies between rows and
/// a row behind the last is poison. One more is never the poison.
struct Pattern {
  Rows rows;
  unsigned word;
  unsigned more = 0;  ///< 1: what add_one leaves

  __host__ __device__ unsigned value(size_t row, size_t x) const {
    return (unsigned(row) * 40503u + unsigned(x)) * 2654435761u % 251 + more;
  }
  __host__ __device__ Byte operator()(size_t i) const {
    const size_t row = i / word / rows.pitch, x = i / word % rows.pitch;
    if (row >= rows.height || x >= rows.width) return poison;
    return i % word == 0 ? Byte(value(row, x)) : 0;  // a word's low byte stands first
  }
  __device__ bool operator()(size_t i, Byte found) const { return found == (*this)(i); }
  size_t bytes() const { return (rows.height + size_t(1)) * rows.pitch * word; }

  void put_on(const DeviceBuffer<Byte>& device) const {
    fill_kernel<<<1024, 256>>>(device.data(), bytes(), *this);
    CUDA_CHECK_LAUNCH();
  }
  size_t wrong_on(const DeviceBuffer<Byte>& device) const {
    const DeviceBuffer<unsigned long long> count(std::vector<unsigned long long>{0});
    count_wrong_kernel<<<1024, 256>>>(device.data(), bytes(), *this, count.data());
    CUDA_CHECK_LAUNCH();
    return count.to_host()[0];
  }
  void require_room(const DeviceBuffer<Byte>& device) const {
    if (bytes() > device.size()) throw std::runtime_error("rows are pitched too far apart");
  }
};

/// An input and an output for any rows whose pattern takes at most `bytes`.
struct Arrays {
  DeviceBuffer<Byte> in, out;
  explicit Arrays(size_t bytes) : in(bytes), out(bytes) {}
};

template <class Word>
void launch_add_one(const Arrays& arrays, const Rows& rows) {
  const unsigned blocks = (rows.height + block_rows - 1) / block_rows;
  add_one<<<blocks, block_threads>>>((Word*)arrays.out.data(), (const Word*)arrays.in.data(), rows);
}

/// In words of 4 bytes where the width is a multiple of them.
Task add_task(const Ref& ref, const Shared<Arrays>& arrays, size_t pitch, size_t height) {
  const unsigned word = word_of(ref.at);
  const Rows rows = rows_of(ref.at, pitch, height);
  const Pattern before{rows, word}, after{rows, word, 1};
  before.require_room(arrays->in);
  const auto launch = [arrays, rows, word] {
    word == 4 ? launch_add_one<unsigned>(*arrays, rows) : launch_add_one<Byte>(*arrays, rows);
  };
  const auto begin = [arrays, before] {
    CUDA_CHECK(cudaMemset(arrays->out.data(), poison, before.bytes()));
    before.put_on(arrays->in);
  };
  return {text(ref), launch, {begin, [arrays, after] { return after.wrong_on(arrays->out); }, ""}};
}

// ---- cudaMemcpy2D ----

/// Packed rows of pinned memory, and the same rows on the device.
struct Ends {
  PinnedBuffer<Byte> host;
  DeviceBuffer<Byte> device;
};

bool goes_up(const Ref& ref) { return ref.key.starts_with("memcpy2d_to_device"); }

Task copy_task(const Ref& ref, const Shared<Ends>& ends, size_t pitch, size_t height) {
  const size_t width = size_t(ref.at);
  const Pattern pattern{{pitch, unsigned(width), unsigned(height)}, 1};
  pattern.require_room(ends->device);
  const auto up = [=] {
    CUDA_CHECK(cudaMemcpy2DAsync(ends->device.data(), pitch, ends->host.data(), width, width,
                                 height, cudaMemcpyHostToDevice));
  };
  const auto down = [=] {
    CUDA_CHECK(cudaMemcpy2DAsync(ends->host.data(), width, ends->device.data(), pitch, width,
                                 height, cudaMemcpyDeviceToHost));
  };
  // what(byte of the host, what it is to be)
  const auto each_on_host = [=](const auto& what) {
    CUDA_CHECK(cudaDeviceSynchronize());
    for (size_t row = 0; row < height; ++row)
      for (size_t x = 0; x < width; ++x)
        what(ends->host[row * width + x], Byte(pattern.value(row, x)));
  };
  if (goes_up(ref))
    return {text(ref),
            up,
            {[=] {
               CUDA_CHECK(cudaMemset(ends->device.data(), poison, pattern.bytes()));
               each_on_host([](Byte& at, Byte right) { at = right; });
             },
             [=] { return pattern.wrong_on(ends->device); }, ""}};
  return {text(ref),
          down,
          {[=] {
             pattern.put_on(ends->device);
             each_on_host([](Byte& at, Byte) { at = poison; });
           },
           [=] {
             size_t wrong = 0;
             each_on_host([&wrong](Byte found, Byte right) { wrong += found != right; });
             return wrong;
           },
           ""}};
}

// ---- prediction ----

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

/// Nanoseconds, from three rows of this run.
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

// ---- the experiment ----

constexpr double row_width = 31;       // bytes: a row that is one request
constexpr double request_width = 511;  // 16 requests, of bytes
constexpr double byte_width = 4096;    // words: the memory limits it

constexpr double padded = 17;  // narrow rows take up to 512 times their bytes: there are fewer
constexpr size_t guard_bytes = mib;  // behind either array

Ref packed(double width) { return {"add_one_packed", width}; }
Ref pitched(double width) { return {"add_one_pitched", width}; }

std::vector<double> widths_of(const Run& run) {
  std::vector<double> widths{row_width, 129, request_width, 4092, byte_width};
  if (!run.quick)
    widths.insert(widths.end(), {1, 3, 33, 100, 127, 128, 132, 255, 257, 513, 1000, 1025, 1028,
                                 2049, 4095, 4097});
  for (double width = 64; run.full && width < 4096; width += 64)
    widths.insert(widths.end(), {width - 1, width, width + 4});
  std::sort(widths.begin(), widths.end());
  widths.erase(std::unique(widths.begin(), widths.end()), widths.end());
  return widths;
}

/// Bytes of packed rows: read and written, they are beyond the L2, or all that fits.
double packed_bytes(const Run& run) {
  double bytes = double((run.full ? 512 : 128) * mib);
  while (run.device && !beyond_l2(*run.device, 2 * bytes)) bytes *= 2;
  while (run.device && 2 * padded * bytes > 0.8 * run.memory_there()) bytes /= 2;
  return bytes;
}
size_t height_of(const Run& run, const Ref& ref) {
  const double bytes = packed_bytes(run);
  return size_t(std::min(bytes / ref.at, padded * bytes / double(expected_pitch(ref.at))));
}
Rows rows_of(const Run& run, const Ref& ref) {
  const size_t pitch = is_pitched(ref) ? expected_pitch(ref.at) : size_t(ref.at);
  return rows_of(ref.at, pitch, height_of(run, ref));
}
/// Read and written.
double bytes_of(const Run& run, const Ref& ref) { return 2 * ref.at * double(height_of(run, ref)); }

Row row_of(const Run& run, const Ref& ref) {
  const double width = ref.at;
  const bool by_words = word_of(width) == 4;
  // that warps and requests limit short rows was found on compute capability 9.0
  const bool known = (by_words && width >= 1000) || (run.device && run.device->prop.major == 9);
  const bool calibrates = width == byte_width || width == row_width || width == request_width;
  return {
      .ref = ref,
      .words = at_text(ref) + (by_words ? ", words" : "") + (is_pitched(ref) ? ", pitched" : ""),
      .bytes = bytes_of(run, ref),
      .calibrates = calibrates && !is_pitched(ref),
      .model = known ? Model::traffic : Model::host};
}

/// All widths, packed and pitched, in turn.
void measure_rows(const Run& run) {
  const auto sectors_a_request = [&run](const Row& row) {
    const Rows rows = rows_of(run, row.ref);
    return sectors_of_row(rows, word_of(row.ref.at)) / requests_of_row(rows);
  };
  const auto gain = [&run](const Row& row, const Statistics& ms) {
    if (!is_pitched(row.ref) || ms.repeats == 0) return std::string();
    return times((*run.results)(packed(row.ref.at)).time.ms.median / ms.median);
  };
  Sheet sheet(run, "rows, bytes a row",
              {gigabytes_per_second(),
               spread(),
               {shown("pitched gains"), {}, {}, gain},
               number(predicted("sectors/request", "sectors/request", "", 2), sectors_a_request)},
              "row bytes");
  for (const double width : widths_of(run))
    for (const Ref& ref : {packed(width), pitched(width)}) sheet.add(row_of(run, ref));
  SharedByTasks arrays([&run] { return Arrays(size_t(padded * packed_bytes(run)) + guard_bytes); });
  sheet.measure(Timing::in_turn, [&](const Row& row) {
    return add_task(row.ref, arrays(), pitch_of(row.ref), height_of(run, row.ref));
  });
  const auto ns = [&](double width) {  // of a packed row
    return sheet.ms(packed(width)) * 1e6 / double(height_of(run, packed(width)));
  };
  Calibrated c;
  c.byte = ns(byte_width) / (2 * byte_width);
  c.row = ns(row_width);  // its bytes are few
  c.request = beside_bytes(ns(request_width), 2 * request_width * c.byte) /
              requests_of_row(rows_of(run, packed(request_width)));
  sheet.predict(
      [&](const Row& row) {
        const Rows rows = rows_of(run, row.ref);
        return ns_of_row(rows, word_of(row.ref.at), c) * rows.height * 1e-6;
      },
      Basis::fitted);
  sheet.print();
}

/// cudaMemcpy2D between packed rows of pinned memory and rows on the device: its rows, and its
/// bytes over the link.
void measure_copies(const Run& run) {
  const double most = std::min(double((run.quick ? 4 : 8) * mib), pinnable_bytes(run) / 2);
  const auto height = [most](double width) { return std::min(std::floor(most / width), 32768.0); };
  Sheet sheet(run, "cudaMemcpy2D, bytes a row", {gigabytes_per_second(1), spread()}, "row bytes");
  for (const std::string way : {"to_device", "to_host"})
    for (const double width : {byte_width, row_width, 129.0, 513.0, 1025.0, 4097.0}) {
      if (run.quick && width > 129 && width != byte_width) continue;
      for (const char* layout : {"packed", "pitched"}) {
        const Ref ref("memcpy2d_" + way + "_" + layout, width);
        sheet.add({.ref = ref,
                   .words = (goes_up(ref) ? "to the device, " : "to the host, ") + at_text(ref) +
                            ", " + layout,
                   .bytes = width * height(width),
                   .calibrates = !is_pitched(ref) && (width == byte_width || width == row_width),
                   .model = Model::host});
      }
    }
  SharedByTasks ends([most] {
    return Ends{PinnedBuffer<Byte>(size_t(most)), DeviceBuffer<Byte>(32 * mib)};
  });
  sheet.measure(Timing::alone, [&](const Row& row) {
    return copy_task(row.ref, ends(), pitch_of(row.ref), size_t(height(row.ref.at)));
  });
  sheet.predict([&](const Row& row) {
    const std::string key =
        goes_up(row.ref) ? "memcpy2d_to_device_packed" : "memcpy2d_to_host_packed";
    const Measured &wide = (*run.results)({key, byte_width}),
                   &narrow = (*run.results)({key, row_width});
    const double byte_ms = wide.time.ms.median / wide.bytes;
    const double row_ms = (narrow.time.ms.median - narrow.bytes * byte_ms) / height(row_width);
    return row.bytes * byte_ms + (row.ref.at == byte_width ? 0 : height(row.ref.at) * row_ms);
  });
  sheet.print({"the time of a row from rows of 31 bytes, that of a byte from rows of 4096"});
}

/// What cudaMallocPitch gives at widths from 1 to 4097 bytes: all pitches are multiples of the
/// first number, all starts of the second.
std::pair<size_t, size_t> try_pitches(unsigned step) {
  std::vector<Pitched> all;  // all stay allocated, so that the starts differ
  size_t granularity = 0, starts = 0;
  for (unsigned width = 1; width <= 4097; width += step) {
    all.emplace_back(width);
    granularity = std::gcd(granularity, all.back().pitch);
    starts |= reinterpret_cast<size_t>(all.back().data);
  }
  return {granularity, starts & (~starts + 1)};  // the lowest bit of any start
}

constexpr double guides_granularity = 256;

void show_pitches(const Run& run) {
  const Ref ref = "cuda_malloc_pitch";
  const unsigned step = run.quick ? 32 : 1;
  const auto asked = [&](const char* metric, const Function<double()>& how) {
    return ask_for_table(run, ref, metric, "bytes", [&how] { return single(how()); }).median;
  };
  Table table(run.report, "multiples of bytes",
              {counted("pitches", "granularity", "bytes", 0),
               counted("starts", "alignment of starts", "bytes", 0),
               counted("textures need", "texture pitch", "bytes", 0),
               then("guide", "granularity", "bytes", 0)});
  table.row(
      {ref.key, "", "", "cudaMallocPitch"},
      {asked("granularity", [step] { return double(try_pitches(step).first); }),
       asked("alignment of starts", [step] { return double(try_pitches(step).second); }),
       asked("texture pitch", [&run] { return double(run.device->prop.texturePitchAlignment); }),
       guides_granularity});
  table.print();
}

void run_pitch(const Run& run) {
  const double bytes = packed_bytes(run);
  run.report.begin("pitch", "out = in + 1 by rows of 1 to 4097 bytes, packed " + bytes_text(bytes) +
                                " each, or what is pitched to " + bytes_text(padded * bytes));
  measure_rows(run);
  measure_copies(run);
  show_pitches(run);
}

std::vector<Claim> claims(const Run& run) {
  std::vector<Comparison> unaligned;
  for (const double width : widths_of(run))
    if (int(width) % 32 != 0 &&
        (!run.device || beyond_l2(*run.device, bytes_of(run, packed(width)))))
      unaligned.push_back({.slow = packed(width), .fast = pitched(width)});
  const double granularity = run.results->value("cuda_malloc_pitch", "granularity").value.median;
  const bool multiple = std::fmod(granularity, guides_granularity) == 0;
  return {
      {.part = {"02.7", "pitched rows beat rows that begin off a sector",
                "rows of multiples of 256 bytes", "the guide"},
       .rule = beats(),
       .pairs = unaligned,
       .unless = unaligned.empty() ? "the rows are less than four times the L2" : ""},
      {.part = {"02.12", "a pitch is a multiple of 256 bytes", "256 bytes", "the guide"},
       .fact = multiple ? Fact::so : Fact::not_so,
       .here = "multiples of " + fixed(granularity, 0) + " bytes",
       .unless = std::isnan(granularity) ? "no GPU" : ""},
  };
}

// ---- what it declares ----

Needs needs(const Run& run) {
  const double bytes = packed_bytes(run);
  return {.allocated = 2 * (padded * bytes + guard_bytes), .touched = 2 * bytes};
}

std::vector<Checked> tasks(size_t n) {
  constexpr size_t height = block_rows + 1;
  std::vector<Checked> all;
  for (const size_t width : {n, 4 * n})  // in bytes and in words
    for (const Ref& ref : {packed(double(width)), pitched(double(width))}) {
      const size_t pitch = is_pitched(ref) ? expected_pitch(ref.at) : width;
      const Shared arrays(Arrays((height + 1) * pitch));
      all.push_back({.task = add_task(ref, arrays, pitch, height),
                     .elements = width * height,
                     .change_one = [arrays, last = (height - 1) * pitch + width - 1] {
                       std::vector<Byte> bytes = arrays->out.to_host();
                       bytes[last] = Byte(bytes[last] + 1);
                       arrays->out.copy_from(bytes);
                     }});
    }
  return all;
}

/// No requests: a load of which no lane is left in the row may be one.
std::vector<CountedLaunch> counted() {
  constexpr size_t height = 1024;
  std::vector<CountedLaunch> all;
  for (const double width : {1, 31, 33, 257, 4097, 100, 132, 1028, 4092})
    for (const Ref& ref : {packed(width), pitched(width)}) {
      const size_t pitch = is_pitched(ref) ? expected_pitch(width) : size_t(width);
      const double sectors = height * sectors_of_row(rows_of(width, pitch, height), word_of(width));
      all.push_back({"add_one",
                     "row bytes " + at_text(ref) + " pitch " + std::to_string(pitch),
                     {expected_sectors(true, sectors), expected_sectors(false, sectors)},
                     [=] {
                       const Shared arrays(Arrays((height + 1) * pitch));
                       return wrong_after(add_task(ref, arrays, pitch, height)) == 0;
                     }});
    }
  return all;
}

}  // namespace

extern const Experiment pitch_experiment{.name = "pitch",
                                         .about = "rows of odd widths, packed and pitched",
                                         .run = run_pitch,
                                         .claims = claims,
                                         .needs = needs,
                                         .tasks = tasks,
                                         .counted = counted};
