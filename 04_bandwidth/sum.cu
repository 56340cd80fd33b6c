// sum: an array is added up, so that nearly all of the time is reading. The study of 2007 [BW]
// reads it by rows and by columns, in words of 4 and of 16 bytes. By rows it reaches most of the
// bandwidth, by columns next to nothing. Wide words help by columns, and lose by rows. Three things
// to look at:
//   - Rows in 4-byte words: the access is right, but too few bytes are in flight today.
//   - Columns: other blocks want the rest of each sector, and the L2 has it.
//   - Random order, of which the text speaks without running it.
//
//   cmake -S 04_bandwidth -B build/sum -DEXPERIMENTS=sum && cmake --build build/sum
//   build/sum/04_bandwidth sum
//
//   1  sum_rows        a block takes rows, its lanes read neighbouring words
//   2  sum_rows4       kernel 1 in words of 16 bytes
//   3  sum_columns     a block takes columns, its lanes read words that are a row apart
//   4  sum_columns4    kernel 3 in words of 16 bytes
//   5  sum_random      each lane reads any word, no word is read twice
//   6  sum_random4     kernel 5 in words of 16 bytes
//   7  sum_rows_eight  kernel 1 with eight loads of a thread in flight
//   8  no_reads        kernel 1 without memory: what the loop and the additions take
//   9  empty           what a launch and the way of the results take
#include <algorithm>
#include <climits>

#include "../framework/common/checked.cuh"
#include "../framework/common/experiment.hpp"
#include "options.hpp"
#include "sum_host.hpp"

using namespace samples;

// ---- kernels: `rows` rows of `columns` words; thread t writes its own sum to out[t]. As in
// threads.cu and blocks.cu the inner loops are not unrolled: else the compiler might put several
// loads of a thread in flight, where the model counts one ----

// [sum_rows]
// A block takes every gridDim.x-th row. A warp reads 32 neighbouring words: 4 sectors of 32 bytes.
__global__ void sum_rows(float* out, const float* in, unsigned rows, unsigned columns) {
  float sum = 0;
  for (unsigned row = blockIdx.x; row < rows; row += gridDim.x)
#pragma unroll 1  // one load in flight per thread
    for (unsigned col = threadIdx.x; col < columns; col += blockDim.x)
      sum += in[size_t(row) * columns + col];
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
// [/sum_rows]

// The same in words of 16 bytes: 16 sectors per warp.
__global__ void sum_rows4(float* out, const float4* in, unsigned rows, unsigned columns) {
  float sum = 0;
  for (unsigned row = blockIdx.x; row < rows; row += gridDim.x)
#pragma unroll 1
    for (unsigned col = threadIdx.x; col < columns; col += blockDim.x) {
      const float4 word = in[size_t(row) * columns + col];
      sum += (word.x + word.y) + (word.z + word.w);
    }
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

// [sum_columns]
// A block takes every gridDim.x-th column. The lanes of a warp are a row apart: 32 sectors, of
// which each lane uses 4 bytes. The blocks beside it want the rest at about the same time.
__global__ void sum_columns(float* out, const float* in, unsigned rows, unsigned columns) {
  float sum = 0;
  for (unsigned col = blockIdx.x; col < columns; col += gridDim.x)
#pragma unroll 1
    for (unsigned row = threadIdx.x; row < rows; row += blockDim.x)
      sum += in[size_t(row) * columns + col];
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
// [/sum_columns]

// The same in words of 16 bytes: 32 sectors per warp, half of each used.
__global__ void sum_columns4(float* out, const float4* in, unsigned rows, unsigned columns) {
  float sum = 0;
  for (unsigned col = blockIdx.x; col < columns; col += gridDim.x)
#pragma unroll 1
    for (unsigned row = threadIdx.x; row < rows; row += blockDim.x) {
      const float4 word = in[size_t(row) * columns + col];
      sum += (word.x + word.y) + (word.z + word.w);
    }
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

/// Puts the numbers below `count` into an order without pattern, each once. Every line of the loop
/// maps 0 to `ones` one to one (x ^ x >> s and odd factors can be undone), and a number beyond the
/// count goes round again until it is inside.
__host__ __device__ unsigned shuffled(unsigned x, unsigned count) {
  unsigned ones = count - 1;  // made the least 2^k - 1 that is not below it
  for (unsigned s = 1; s < 32; s *= 2) ones |= ones >> s;
  do {
    x = (x ^ x >> 14) * 0x85ebca6bu & ones;
    x = (x ^ x >> 14) * 0xc2b2ae35u & ones;
    x ^= x >> 14;
  } while (x >= count);
  return x;
}

// As by rows, but each lane reads the word that its own is shuffled to: 32 sectors per warp,
// and nobody wants their other bytes soon.
__global__ void sum_random(float* out, const float* in, unsigned rows, unsigned columns) {
  float sum = 0;
  for (unsigned row = blockIdx.x; row < rows; row += gridDim.x)
#pragma unroll 1
    for (unsigned col = threadIdx.x; col < columns; col += blockDim.x)
      sum += in[shuffled(row * columns + col, rows * columns)];
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

// The same in words of 16 bytes.
__global__ void sum_random4(float* out, const float4* in, unsigned rows, unsigned columns) {
  float sum = 0;
  for (unsigned row = blockIdx.x; row < rows; row += gridDim.x)
#pragma unroll 1
    for (unsigned col = threadIdx.x; col < columns; col += blockDim.x) {
      const float4 word = in[shuffled(row * columns + col, rows * columns)];
      sum += (word.x + word.y) + (word.z + word.w);
    }
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

// sum_rows with eight loads of each thread in flight before the first addition: as many bytes in
// flight as two 16-byte loads, in words of 4.
__global__ void sum_rows_eight(float* out, const float* in, unsigned rows, unsigned columns) {
  float sum = 0;
  for (unsigned row = blockIdx.x; row < rows; row += gridDim.x) {
    const float* line = in + size_t(row) * columns;
    unsigned col = threadIdx.x;
    for (; col + 7 * blockDim.x < columns; col += 8 * blockDim.x) {
      float word[8];
#pragma unroll
      for (unsigned k = 0; k < 8; ++k) word[k] = line[col + k * blockDim.x];
#pragma unroll
      for (unsigned k = 0; k < 8; ++k) sum += word[k];
    }
    for (; col < columns; col += blockDim.x)
      sum += line[col];  // the remaining words, one at a time
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

// sum_rows with a constant in place of each word.
__global__ void no_reads(float* out, const float*, unsigned rows, unsigned columns) {
  float sum = 0;
  for (unsigned row = blockIdx.x; row < rows; row += gridDim.x)
#pragma unroll 1
    for (unsigned col = threadIdx.x; col < columns; col += blockDim.x) sum += 1.0f;
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

// A short loop and the results: the text subtracts its time from all others.
__global__ void empty(float* out, const float*, unsigned, unsigned) {
  float sum = 0;
  for (unsigned i = 0; i < 8; ++i) sum += 1.0f;
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

// in sum_cub.cu
void cub_row_sums(void* scratch, size_t& scratch_bytes, const float* in, float* out, int rows,
                  const int* first);

namespace {

// ---- the kernels in order ----

enum class Order { rows, columns, random, none, empty };

struct Launch {
  unsigned blocks, threads;
  unsigned total() const { return blocks * threads; }
  std::string text() const { return std::to_string(blocks) + " x " + std::to_string(threads); }
};
constexpr Launch text_launch{1024, 192};  // the text's best

/// One array, and one way through it.
struct Walk {
  Order order;
  unsigned words;  ///< of 4 bytes in a load
  unsigned rows, columns;
  Launch launch;
};

struct Kernel {
  std::string_view key = {};  ///< its name
  const char* text = "";
  Order order = Order::rows;
  unsigned words = 1;      ///< of 4 bytes in a load
  unsigned in_flight = 1;  ///< loads of a thread that the source puts before the first addition
  double then = NAN;       ///< GB/s on the 8800 GTX, with the best launch
  bool calibrates = false;
  void (*launch)(const Walk&, float* out, const float* in) = nullptr;

  bool reads() const { return order != Order::none && order != Order::empty; }
};

template <class Word>
constexpr unsigned words_of(void (*)(float*, const Word*, unsigned, unsigned)) {
  return sizeof(Word) / sizeof(float);
}
template <class Word>
void start(void (*kernel)(float*, const Word*, unsigned, unsigned), const Walk& w, float* out,
           const float* in) {
  kernel<<<w.launch.blocks, w.launch.threads>>>(out, reinterpret_cast<const Word*>(in), w.rows,
                                                w.columns);
}
template <auto kernel>
Kernel named(Kernel k) {
  k.key = name_of<kernel>();
  k.words = words_of(kernel);
  k.launch = [](const Walk& w, float* out, const float* in) { start(kernel, w, out, in); };
  return k;
}

const Kernel kernels[] = {
    named<sum_rows>({.text = "by rows, float", .then = 70.52, .calibrates = true}),
    named<sum_rows4>({.text = "by rows, float4", .then = 38.83}),
    named<sum_columns>(
        {.text = "by columns, float", .order = Order::columns, .then = 0.92, .calibrates = true}),
    named<sum_columns4>({.text = "by columns, float4", .order = Order::columns, .then = 3.73}),
    named<sum_random>({.text = "random, float", .order = Order::random, .calibrates = true}),
    named<sum_random4>({.text = "random, float4", .order = Order::random}),
    named<sum_rows_eight>({.text = "by rows, eight floats", .in_flight = 8, .calibrates = true}),
    named<no_reads>({.text = "by rows, no reads", .order = Order::none}),
    named<empty>({.text = "empty", .order = Order::empty}),
};

/// Why the kernel cannot read a square with this side; empty: it can.
std::string missing(const Kernel& k, size_t side) {
  if (side % k.words) return "rows of " + std::to_string(side) + " floats hold no 16-byte words";
  if (k.order == Order::random && side * (side / k.words) >= 1ull << 32)
    return "the shuffle has 32 bits";
  return "";
}

/// The row of a kernel with the launch that is best for it.
Ref best_of(std::string_view key) { return std::string(key) + "_best"; }
const Kernel* kernel_of(const Ref& ref) {
  for (const Kernel& k : kernels)
    if (ref.key == k.key || same(ref, best_of(k.key))) return &k;
  return nullptr;  // the host's, or the library's
}

// ---- what is right ----

/// Word i: a whole number from 1 to `largest`, 8191 at most, without pattern. A thread that left a
/// word out and took another twice would be found unless both are equal.
struct NumberAt {
  unsigned largest;
  __host__ __device__ unsigned whole(size_t i) const { return 1 + (scrambled(i) >> 16) % largest; }
  __device__ float operator()(size_t i) const { return float(whole(i)); }
};

/// Which thread takes the word at a place, from the text's description: a block takes every so
/// many-th row, and its threads the words of it in turn, or columns likewise.
__host__ __device__ unsigned taker(const Walk& w, unsigned row, unsigned col) {
  const unsigned line = w.order == Order::columns ? col : row;
  const unsigned along = w.order == Order::columns ? row : col;
  return line % w.launch.blocks * w.launch.threads + along % w.launch.threads;
}

/// What load i of the array adds to a sum, in the order's own numbering.
__host__ __device__ unsigned sum_of_load(const Walk& w, NumberAt number, size_t i) {
  const size_t word =
      w.order == Order::random ? shuffled(unsigned(i), unsigned(w.rows * w.columns)) : i;
  unsigned sum = 0;
  for (unsigned k = 0; k < w.words; ++k)
    sum += w.order == Order::none ? 1 : number.whole(word * w.words + k);
  return sum;
}

/// Hands every word to the thread that has to take it: from words to threads, where the kernels go
/// from threads to words.
__global__ void add_to_takers(unsigned* right, Walk w, NumberAt number) {
  const size_t count = size_t(w.rows) * w.columns;
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < count; i += threads) {
    const unsigned row = unsigned(i / w.columns), col = unsigned(i % w.columns);
    atomicAdd(&right[taker(w, row, col)], sum_of_load(w, number, i));
  }
}

/// What a thread must have found; behind the threads of the launch the poison must still stand.
struct IsSum {
  const unsigned* right;
  unsigned threads;
  bool empty;
  __device__ bool operator()(size_t t, float found) const {
    if (t >= threads) return found != found;
    return found == (empty ? 8 : float(right[t]));
  }
};

/// The largest word with which the sum of any thread, and of a row, is exact in float, whatever the
/// order: below 2^24.
unsigned largest_word(unsigned side, const std::vector<Launch>& launches) {
  double most_words = side;
  for (const Launch l : launches) {
    const double lines = std::ceil(side / 4.0 / l.blocks) * 4;  // of words, or of quads
    const double along = std::ceil(side / 4.0 / l.threads) * 4;
    most_words = std::max(most_words, lines * along);
  }
  return unsigned(std::clamp((double(1 << 24) - 1) / most_words, 1.0, 8191.0));
}

unsigned most_threads(const std::vector<Launch>& launches) {
  unsigned most = 0;
  for (const Launch l : launches) most = std::max(most, l.total());
  return most;
}

/// A square array on the device, what its threads find, and what they must find.
struct Square {
  unsigned side;
  NumberAt number;
  DeviceBuffer<float> in;
  Output<float> out;
  DeviceBuffer<unsigned> right;

  Square(unsigned side, const std::vector<Launch>& launches)
      : side(side),
        number{largest_word(side, launches)},
        in(filled<float>(size_t(side) * side, number)),
        out(std::max(side, most_threads(launches))),
        right(out.size()) {}
  Walk walk(const Kernel& k, Launch l) const { return {k.order, k.words, side, side / k.words, l}; }
  /// Compares what every thread found.
  size_t wrong(const Walk& w) {
    if (w.order != Order::empty) {
      CUDA_CHECK(cudaMemset(right.data(), 0, right.bytes()));
      add_to_takers<<<1024, 256>>>(right.data(), w, number);
      CUDA_CHECK_LAUNCH();
    }
    return out.wrong(IsSum{right.data(), w.launch.total(), w.order == Order::empty});
  }
};

Task task_of(const Shared<Square>& square, const Ref& ref, Launch l) {
  const Kernel& k = *kernel_of(ref);
  const Walk w = square->walk(k, l);
  return {text(ref),
          [square, &k, w] { k.launch(w, square->out.data(), square->in.data()); },
          {[square] { square->out.poison(); }, [square, w] { return square->wrong(w); }, ""}};
}

// ---- the library's ----

const char* const cub_rows = "cub_row_sums";

std::string missing_of_cub(size_t side) {
  return side * side > INT_MAX ? "every version of CUB counts up to 2^31 - 1 words" : "";
}

/// Where each row begins, and what the library needs besides.
struct Rows {
  DeviceBuffer<int> first;
  DeviceBuffer<char> scratch;

  explicit Rows(const Square& square) : first(begins(square.side)) {
    size_t bytes = 0;
    cub_row_sums(nullptr, bytes, square.in.data(), square.out.data(), int(square.side),
                 first.data());
    scratch = DeviceBuffer<char>(bytes);
  }
  static DeviceBuffer<int> begins(unsigned side) {
    std::vector<int> all;
    for (unsigned row = 0; row <= side; ++row) all.push_back(int(row * side));
    return DeviceBuffer<int>(all);
  }
};

/// One sum per row, as if a block of one thread took each row.
Task cub_task(const Shared<Square>& square) {
  const Shared rows{Rows(*square)};
  const unsigned side = square->side;
  const Walk w{Order::rows, 1, side, side, {side, 1}};
  return {cub_rows,
          [square, rows, side] {
            size_t bytes = rows->scratch.bytes();
            cub_row_sums(rows->scratch.data(), bytes, square->in.data(), square->out.data(),
                         int(side), rows->first.data());
          },
          {[square] { square->out.poison(); }, [square, w] { return square->wrong(w); }, ""}};
}

// ---- launches ----

/// The launches among which the best is looked for: the text's, and one, two and four times what
/// fits on the device at once.
std::vector<Launch> candidates(const cudaDeviceProp& device) {
  std::vector<Launch> all{text_launch};
  for (const unsigned threads : {192u, 256u, 512u, 1024u}) {
    const unsigned resident =
        device.multiProcessorCount * (device.maxThreadsPerMultiProcessor / threads);
    for (const unsigned times : {1u, 2u, 4u})
      if (resident > 0) all.push_back({resident * times, threads});
  }
  return all;
}
std::vector<Launch> launches_of(const Run& run) {
  return run.device ? candidates(run.device->prop) : std::vector<Launch>{text_launch};
}

Launch fastest(const std::vector<Launch>& launches, const Function<double(Launch)>& ms_of) {
  return *std::ranges::min_element(launches, {}, [&](Launch l) { return ms_of(l); });
}

Launch search(const Run& run, const Shared<Square>& square, const Kernel& k) {
  Measuring briefly = run.measuring;
  briefly.typed = false;
  briefly.repeats = 3;
  return fastest(launches_of(run), [&](Launch l) {
    return time_alone(briefly, task_of(square, best_of(k.key), l)).median();
  });
}

/// The launch that takes least time. It is measured again afterwards. Random order takes that of
/// the columns. Where none was recorded: one that fills the device.
template <class Memory>
Launch best_launch(const Run& run, Memory& square, const Kernel& k) {
  Launch best = launches_of(run).back();
  const Statistics blocks = ask(run, best_of(k.key), "blocks", "", [&] {
    best = search(run, square(), k);
    return single(best.blocks);
  });
  const Statistics threads =
      ask(run, best_of(k.key), "threads of a block", "", [&] { return single(best.threads); });
  if (!(blocks.median >= 1 && threads.median >= 1)) return best;
  return {unsigned(blocks.median), unsigned(threads.median)};
}

// ---- prediction ----

/// Sectors of 32 bytes that a warp's load touches: 32 words side by side, or one sector per lane.
double sectors_per_request(const Kernel& k) {
  if (!k.reads()) return NAN;
  return k.order == Order::rows ? 32.0 * k.words * sizeof(float) / 32 : 32;
}

/// Every word is read once.
double bytes_read(double side) { return 4 * side * side; }

/// Lookups in L2 by columns: one for every lane's load, and one for every sector that memory fills.
double lookups(const Kernel& k, double side) { return side * side / k.words + side * side / 8; }

/// Measured in the same run, with the text's launch; milliseconds. Each order takes two of them.
struct Calibrated {
  double bandwidth = NAN;    ///< of the whole array, with enough bytes in flight
  double latency = NAN;      ///< of one load of a thread, while all others load, too
  double lookup = NAN;       ///< of a sector in L2
  double lone_sector = NAN;  ///< of a sector from memory of which nobody wants the rest
};

/// Threads of a launch that are resident at once.
double resident(Launch l, const Device& device) {
  const double most =
      double(device.prop.multiProcessorCount) * device.prop.maxThreadsPerMultiProcessor;
  return std::min<double>(l.total(), most);
}

/// Milliseconds by the slowest of the things that apply.
double predicted_ms(const Kernel& k, Launch l, double side, const Calibrated& c,
                    const Device& device) {
  const double loads = side * side / k.words;  // of single lanes
  double ms = c.bandwidth;                     // bytes over bandwidth
  if (k.order == Order::rows)
    ms = std::max(ms, loads / resident(l, device) / k.in_flight * c.latency);
  if (k.order == Order::columns) ms = std::max(ms, lookups(k, side) * c.lookup);
  if (k.order == Order::random) ms = std::max(ms, loads * c.lone_sector);
  return ms;
}

/// Lookups in L2 and lone sectors were measured on compute capability 9.0 only; a test holds rows
/// to them there.
Model model_of(const Kernel& k, const Device* device) {
  return k.order == Order::rows || (device && device->prop.major == 9) ? Model::traffic
                                                                       : Model::host;
}

// ---- the experiment ----

double bytes_of_sums(const Run& run) { return 8.0 * most_threads(launches_of(run)); }

std::string square_text(size_t side) {
  return std::to_string(side) + " x " + std::to_string(side) + " float, " +
         bytes_text(bytes_read(double(side)));
}

size_t side_of(const Run& run) {
  const size_t typed = options_of(run).size;
  return fitting_size("sum of " + square_text(typed), typed, 12288, run.memory_there(),
                      [&](size_t n) { return bytes_read(double(n)) + bytes_of_sums(run); });
}
void require_fit(const Run& run) { side_of(run); }

/// On the host the array is half as wide in a quick run, and where no GPU is compared with it.
size_t host_side_of(const Run& run) {
  const bool all = options_of(run).size || (run.device && !run.quick);
  return HostSquare::fitting_side(std::min<size_t>(side_of(run), all ? 12288 : 6144));
}

/// "16 threads": of the host that measured, which is another one where recorded rows are shown.
std::string host_cores(const Run& run) {
  const auto count = [] { return single(HostSquare::threads()); };
  const double threads = ask_host(run, "host_rows", "threads", "", count).median;
  return std::isfinite(threads) ? fixed(threads, 0) + " threads" : "all cores";
}

Sheet sheet_of(const Run& run, const char* heading, const Function<std::string(const Ref&)>& launch,
               bool with_then) {
  const auto theory = [&run](double gbs) {
    const bool known = run.device && run.device->theoretical_gbs > 0;
    return known ? gbs / run.device->theoretical_gbs : NAN;
  };
  const auto of_kernel = [](double (*value)(const Kernel&)) {
    return [value](const Row& row) {
      const Kernel* k = kernel_of(row.ref);
      return k ? value(*k) : double(NAN);
    };
  };
  const auto gbs = [](const Row& row, double ms) {
    const Kernel* k = kernel_of(row.ref);
    return !k || k->reads() ? gbs_of(row, ms) : double(NAN);
  };
  std::vector<Shown> columns{
      {shown("launch"), {}, {}, [=](const Row& row, const Statistics&) { return launch(row.ref); }},
      milliseconds(4),
      spread(),
      in_unit(measured("GB/s", "bandwidth", "GB/s", 0), gbs),
      {shown("of theory"),
       {},
       {},
       [=](const Row& row, const Statistics& ms) { return percent(theory(gbs(row, ms.median))); }},
      number(predicted("sectors", "sectors a request", "", 0), of_kernel(sectors_per_request))};
  if (with_then)
    columns.push_back(number(then("then", "bandwidth", "GB/s", 2),
                             of_kernel([](const Kernel& k) { return k.then; })));
  return Sheet(run, heading, std::move(columns));
}

/// All kernels with the text's launch. Gives the model its constants.
template <class Memory>
Calibrated measure_text_launch(const Run& run, Memory& square, size_t side) {
  Sheet sheet = sheet_of(
      run, "order, text's launch", [](const Ref&) { return text_launch.text(); }, false);
  for (const Kernel& k : kernels)
    sheet.add({.ref = k.key,
               .words = k.text,
               .bytes = bytes_read(double(side)),
               .calibrates = k.calibrates,
               .model = model_of(k, run.device),
               .missing = missing(k, side)});
  sheet.measure(Timing::in_turn,
                [&](const Row& row) { return task_of(square(), row.ref, text_launch); });
  const double words = double(side) * double(side);
  const double threads = run.device ? resident(text_launch, *run.device) : NAN;
  const Calibrated c{
      .bandwidth = sheet.ms("sum_rows_eight"),
      .latency = sheet.ms("sum_rows") * threads / words,
      .lookup = sheet.ms("sum_columns") / lookups(*kernel_of("sum_columns"), double(side)),
      .lone_sector = sheet.ms("sum_random") / words};
  sheet.predict([&](const Row& row) {
    const Kernel& k = *kernel_of(row.ref);
    if (!k.reads() || !run.device) return double(NAN);
    return predicted_ms(k, text_launch, double(side), c, *run.device);
  });
  sheet.print(
      {"the model's constants: the bandwidth, the latency under load, a lookup in L2, a "
       "lone sector"});
  return c;
}

/// Each kernel with its best launch, the library's sums of rows, and the host's sum, in turn.
template <class Memory, class HostMemory>
void measure_best_launches(const Run& run, Memory& square, HostMemory& host, size_t side,
                           const Calibrated& c, const std::string& cores) {
  std::vector<Launch> best(std::size(kernels), text_launch);
  const auto launch_of = [&](const Ref& ref) { return best[kernel_of(ref) - kernels]; };
  for (const Kernel& k : kernels) {
    const bool as_columns = k.order == Order::random;
    if (!k.reads() || !missing(k, side).empty()) continue;
    best[&k - kernels] = as_columns ? launch_of(k.words == 1 ? "sum_columns" : "sum_columns4")
                                    : best_launch(run, square, k);
  }
  Sheet sheet = sheet_of(
      run, "order, best launch",
      [&](const Ref& ref) { return kernel_of(ref) ? launch_of(ref).text() : ""; }, true);
  for (const Kernel& k : kernels)
    if (k.reads())
      sheet.add({.ref = best_of(k.key),
                 .words = std::string(k.text) + ", best launch",
                 .bytes = bytes_read(double(side)),
                 .model = model_of(k, run.device),
                 .missing = missing(k, side)});
  sheet.add({.ref = cub_rows,
             .words = "by rows, CUB DeviceSegmentedReduce",
             .bytes = bytes_read(double(side)),
             .missing = missing_of_cub(side)});
  const double host_bytes = bytes_read(double(host_side_of(run)));
  sheet.add({.ref = "host_rows",
             .words = "by rows, all cores",
             .bytes = host_bytes,
             .calibrates = true,
             .on_host = true});
  sheet.measure(Timing::in_turn, [&](const Row& row) {
    if (row.on_host) return host()->by_rows();
    if (row.ref.key == cub_rows) return cub_task(square());
    return task_of(square(), row.ref, launch_of(row.ref));
  });
  sheet.predict([&](const Row& row) {
    if (row.on_host || !run.device) return double(NAN);
    if (row.ref.key == cub_rows) return c.bandwidth;
    return predicted_ms(*kernel_of(row.ref), launch_of(row.ref), double(side), c, *run.device);
  });
  sheet.print();

  Sheet columns(
      run, "host, " + cores,
      {milliseconds(2), spread(), in_unit(measured("GB/s", "bandwidth", "GB/s", 2), gbs_of)});
  columns.add({.ref = "host_columns",
               .words = "by columns, all cores",
               .bytes = host_bytes,
               .on_host = true,
               .model = Model::host});
  columns.measure(Timing::alone, [&](const Row&) { return host()->by_columns(); });
  constexpr double words_of_a_line = 16;  // 64 bytes come in for each word
  columns.predict([&](const Row&) { return words_of_a_line * sheet.ms("host_rows"); });
  columns.print();
}

void run_sum(const Run& run) {
  const size_t side = side_of(run), host_side = host_side_of(run);
  run.report.begin("sum", square_text(side) +
                              (host_side == side ? "" : "; on the host " + square_text(host_side)));
  SharedByTasks square([&run, side] { return Square(unsigned(side), launches_of(run)); });
  SharedByTasks host([host_side] { return HostSquare(host_side); });
  const Calibrated c = measure_text_launch(run, square, side);
  const std::string cores = host_cores(run);
  measure_best_launches(run, square, host, side, c, cores);
  // the text compares two CPUs of 2007: a finding about this host, no claim
  if (run.device)
    find(run, "sum", {.slow = "host_rows", .fast = best_of("sum_rows"), .per_byte = true},
         "host, " + cores + ": ");
}

// ---- claims ----

std::vector<Claim> claims(const Run& run) {
  const size_t side = side_of(run);
  const double bytes = bytes_read(double(side));
  const double theory = run.device ? run.device->theoretical_gbs : 0;
  const std::string in_cache = run.device && !beyond_l2(*run.device, bytes)
                                   ? "the array is less than four times the L2"
                                   : "";
  const auto share_of = [=](const char* key) {
    return Level{.ref = best_of(key),
                 .metric = "of theory",
                 .of_ms = [=](double ms) { return bytes * 1e-6 / ms / theory; },
                 .unit = ""};
  };
  std::vector<Claim> all;
  const auto add = [&](Part part, Criterion rule, const char* slow, const char* fast,
                       const std::string& unless) {
    all.push_back({.part = std::move(part),
                   .rule = rule,
                   .pairs = {{.slow = best_of(slow), .fast = best_of(fast)}},
                   .unless = unless});
  };
  all.push_back({.part = {"04.1", "reading by rows in 4-byte words reaches 82% of theory",
                          "82%, 70.5 GB/s", "8800 GTX", g80},
                 .rule = about(0.82),
                 .levels = {share_of("sum_rows")},
                 .unless = run.device && !(theory > 0) ? "the theoretical bandwidth is not reported"
                                                       : in_cache});
  add({"04.2a", "reading by columns is slower than by rows", "77x slower", "8800 GTX", g80},
      beats(77), "sum_columns", "sum_rows", in_cache);
  add({"04.2b", "columns are as slow as random order", "expected, not measured", "8800 GTX", g80},
      gains_nothing(), "sum_random", "sum_columns", in_cache);
  add({"04.3", "by rows float4 loses a factor of 1.5 to 2", "1.8x slower", "8800 GTX", g80},
      beats(1.5, 2), "sum_rows4", "sum_rows", in_cache);
  add({"04.4a", "by columns float4 quadruples the rate", "4.1x faster", "8800 GTX", g80}, beats(4),
      "sum_columns", "sum_columns4", in_cache);
  add({"04.4b", "a load of 128 bits takes as long as one of 32 bits", "the same time, no figure",
       "the study of 2007"},
      costs_as_much(), "sum_random4", "sum_random", in_cache);
  all.back().pairs[0].works = 4;  // so many times as many loads in the fast row
  return all;
}

// ---- what it declares ----

Needs needs(const Run& run) {
  const double bytes = bytes_read(double(side_of(run)));
  return {.allocated = bytes + bytes_of_sums(run), .touched = bytes};
}

std::vector<Checked> tasks(size_t n) {
  const auto side = unsigned(std::sqrt(double(std::min<size_t>(n, 1 << 17)))) + 1;
  std::vector<Checked> all;
  for (const Launch l : {Launch{2, 1024}, Launch{70, 33}})
    for (const unsigned wide : {side, (side + 3) / 4 * 4}) {
      for (const Kernel& k : kernels) {
        if (!missing(k, wide).empty()) continue;
        const Shared square{Square(wide, {l})};
        all.push_back({.task = task_of(square, k.key, l),
                       .elements = l.total(),
                       .change_one = [square] { square->out.change(0); }});
      }
      const Shared square{Square(wide, {l})};
      all.push_back({.task = cub_task(square), .elements = wide, .change_one = [square] {
                       square->out.change(0);
                     }});
    }
  return all;
}

}  // namespace

extern const Experiment sum_experiment{
    .name = "sum",
    .about = "a matrix summed by rows, by columns and in random order",
    .run = run_sum,
    .check_typed = require_fit,
    .claims = claims,
    .needs = needs,
    .tasks = tasks};
