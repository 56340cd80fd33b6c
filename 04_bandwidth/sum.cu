// sum: an array is added up, so that nearly all of the time is reading. The study of 2007 reads it
// by rows and by columns, in words of 4 and of 16 bytes [BW]. By rows it reaches 82% of the data
// sheet's rate, by columns 1%. Wide words help by columns and hurt by rows. Two things to look at:
//   - By rows, how much the number of bytes in flight decides: one 4-byte load per thread, one
//     16-byte load, or eight 4-byte loads.
//   - By columns against random order, which the text expects to be the same: both touch 32 sectors
//     per request, but by columns the neighbouring blocks use the rest of each sector.
//
//   cmake -S 04_bandwidth -B build/sum -DEXPERIMENTS=sum && cmake --build build/sum
//   build/sum/04_bandwidth sum
//
//   1  sum_rows        a block reads rows, its lanes neighbouring words
//   2  sum_rows4       1 in 16-byte words
//   3  sum_columns     a block reads columns, its lanes words a row apart
//   4  sum_columns4    3 in 16-byte words
//   5  sum_random      each lane reads any word, no word twice
//   6  sum_random4     5 in 16-byte words
//   7  sum_rows_eight  1 with eight loads in flight per thread
//   8  no_reads        1 without loads: what the loop and the additions take
//   9  empty           what the launch and writing the results take
#include <algorithm>

#include "../common/checked.cuh"
#include "../common/experiment.hpp"
#include "options.hpp"
#include "sum_host.hpp"

using namespace samples;

namespace {

// ---- kernels: `rows` rows of `columns` words; thread t writes its own sum to out[t]. As in
// threads.cu and blocks.cu the inner loops are not unrolled: else the compiler might put several
// loads of a thread in flight, where the model counts one ----

// [sum_rows]
// A block reads every gridDim.x-th row. A warp reads 32 neighbouring words: 4 sectors of 32 bytes.
__global__ void sum_rows(float* out, const float* in, unsigned rows, unsigned columns) {
  float sum = 0;
  for (unsigned row = blockIdx.x; row < rows; row += gridDim.x)
#pragma unroll 1  // one load in flight per thread
    for (unsigned col = threadIdx.x; col < columns; col += blockDim.x)
      sum += in[size_t(row) * columns + col];
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
// [/sum_rows]

// The same in words of 16 bytes: 16 sectors per request.
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
// A block reads every gridDim.x-th column. The lanes of a warp are a row apart: 32 sectors, and
// each lane uses 4 bytes of its sector. The neighbouring blocks use the rest at about the same
// time.
__global__ void sum_columns(float* out, const float* in, unsigned rows, unsigned columns) {
  float sum = 0;
  for (unsigned col = blockIdx.x; col < columns; col += gridDim.x)
#pragma unroll 1
    for (unsigned row = threadIdx.x; row < rows; row += blockDim.x)
      sum += in[size_t(row) * columns + col];
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
// [/sum_columns]

// The same in words of 16 bytes: 32 sectors per request, half of each used.
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
/// maps 0 to `ones` one to one (x ^ x >> s and odd factors can be undone). A number beyond the
/// count is mapped again until it is inside.
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

// As by rows, but each lane reads the word to which its own is shuffled: 32 sectors per request,
// and nobody uses the rest of them soon.
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

// Kernel 1 with eight loads of each thread in flight before the first addition: as many bytes in
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
    for (; col < columns; col += blockDim.x) sum += line[col];  // the remaining words
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

// Kernel 1 with a constant in place of each word.
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

// ---- the rows ----

/// Rows of the array, and 4-byte words in a row.
struct Shape {
  unsigned rows, columns;
  size_t words() const { return size_t(rows) * columns; }
};

struct Launch {
  unsigned blocks, threads;  ///< threads: per block
  unsigned total() const { return blocks * threads; }
  std::string text() const { return std::to_string(blocks) + "x" + std::to_string(threads); }
};
constexpr Launch text_launch{1024, 192};  // the text's best

enum class Order { rows, columns, random, no_loads, empty };

/// A row: a kernel and a launch of it.
struct Access {
  std::string key = {};
  std::string words = {};
  Order order = Order::rows;
  unsigned in_flight = 1;      ///< loads of a thread before its first addition
  double then = NAN;           ///< GB/s on the 8800 GTX, of the best launch
  std::string launch_of = {};  ///< of random order: the kernel whose best launch it gets, too
  unsigned word = 1;           ///< 4-byte words per load
  void (*start)(float* out, const float* in, Shape, Launch) = nullptr;
  Launch launch = text_launch;
  bool best = false;  ///< the best of the launches that were tried

  bool loads() const { return order != Order::no_loads && order != Order::empty; }
};

template <class Word>
using Kernel = void (*)(float*, const Word*, unsigned, unsigned);

template <class Word>
constexpr unsigned word_of(Kernel<Word>) {
  return sizeof(Word) / sizeof(float);
}

template <class Word>
void start_kernel(Kernel<Word> kernel, float* out, const float* in, Shape m, Launch l) {
  const auto words = reinterpret_cast<const Word*>(in);
  kernel<<<l.blocks, l.threads>>>(out, words, m.rows, m.columns / word_of(kernel));
}

/// The row has the kernel's name as its key, and loads the kernel's words.
template <auto kernel>
Access named(Access a) {
  a.key = name_of<kernel>();
  a.word = word_of(kernel);
  a.start = [](float* out, const float* in, Shape m, Launch l) {
    start_kernel(kernel, out, in, m, l);
  };
  return a;
}

/// With the text's launch.
const Access accesses[] = {
    named<sum_rows>({.words = "by rows, float", .then = 70.52}),
    named<sum_rows_eight>({.words = "by rows, eight floats", .in_flight = 8}),
    named<sum_rows4>({.words = "by rows, float4", .then = 38.83}),
    named<sum_columns>({.words = "by columns, float", .order = Order::columns, .then = 0.92}),
    named<sum_columns4>({.words = "by columns, float4", .order = Order::columns, .then = 3.73}),
    named<sum_random>(
        {.words = "random, float", .order = Order::random, .launch_of = "sum_columns"}),
    named<sum_random4>(
        {.words = "random, float4", .order = Order::random, .launch_of = "sum_columns4"}),
    named<no_reads>({.words = "by rows, no reads", .order = Order::no_loads}),
    named<empty>({.words = "empty", .order = Order::empty}),
};

const Access& row_of(const std::vector<Access>& all, const Ref& ref) {
  return *std::ranges::find(all, ref.key, &Access::key);
}

/// Why an array cannot be read so; empty: it can.
std::string missing(const Access& a, Shape m) {
  if (m.columns % a.word)
    return "rows of " + std::to_string(m.columns) + " floats hold no 16-byte words";
  if (a.order == Order::random && m.words() / a.word >= size_t(1) << 32)
    return "the random order has at most 2^32 words";
  return "";
}

// ---- what is right ----

/// Word i of the array: a whole number from 1 to 64, so that a thread's sum of up to 2^18 words is
/// exact in float.
__host__ __device__ unsigned whole_number(size_t i) { return 1 + (scrambled(i) >> 26); }

struct Words {
  __device__ float operator()(size_t i) const { return float(whole_number(i)); }
};

/// What a launch reads: along lines, which are rows, or columns of the array.
struct Walk {
  Order order;
  unsigned word;           ///< 4-byte words per load
  unsigned rows, columns;  ///< columns: loads per row
  Launch launch;

  __host__ __device__ unsigned lines() const { return order == Order::columns ? columns : rows; }
  __host__ __device__ unsigned length() const { return order == Order::columns ? rows : columns; }
  /// What is loaded at place `along` of a line, counted in loads.
  __host__ __device__ size_t index(unsigned line, unsigned along) const {
    if (order == Order::columns) return size_t(along) * columns + line;
    if (order == Order::random) return shuffled(line * columns + along, rows * columns);
    return size_t(line) * columns + along;
  }
};

Walk walk_of(const Access& a, Shape m) {
  return {a.order, a.word, m.rows, m.columns / a.word, a.launch};
}

/// The sum that a thread of the launch must find, by the text's two loops.
__host__ __device__ unsigned right_sum(const Walk& w, unsigned thread) {
  if (w.order == Order::empty) return 8;
  unsigned sum = 0;
  for (unsigned line = thread / w.launch.threads; line < w.lines(); line += w.launch.blocks)
    for (unsigned i = thread % w.launch.threads; i < w.length(); i += w.launch.threads)
      for (unsigned k = 0; k < w.word; ++k)
        sum += w.order == Order::no_loads ? 1 : whole_number(w.index(line, i) * w.word + k);
  return sum;
}

/// Behind the sums of the launch's threads the poison stands.
struct IsRight {
  Walk walk;
  __device__ bool operator()(size_t t, float found) const {
    if (t >= size_t(walk.launch.blocks) * walk.launch.threads) return __float_as_uint(found) == ~0u;
    return found == float(right_sum(walk, unsigned(t)));
  }
};

/// The array on the device, and what threads find.
struct Array {
  Shape shape;
  Output<float> out;
  DeviceBuffer<float> in = filled<float>(shape.words(), Words{});

  Array(Shape shape, unsigned most_threads) : shape(shape), out(most_threads) {}
  static double bytes(Shape shape, unsigned most_threads) {
    return 4.0 * (double(shape.words()) + most_threads);
  }
};

Task task_of(const Shared<Array>& x, const Ref& ref, const Access& a) {
  const Check check = x->out.check(IsRight{walk_of(a, x->shape)});
  return {text(ref),
          [x, a] { a.start(x->out.data(), x->in.data(), x->shape, a.launch); },
          {[x, check] { check.poison(); }, [x, check] { return check.wrong(); }, ""}};
}

// ---- prediction ----

/// Of the first warp, in its first step. A sector has 8 words.
double sectors_per_request(const Access& a, Shape m) {
  if (!a.loads() || !missing(a, m).empty()) return NAN;
  const Walk walk = walk_of(a, m);
  std::vector<size_t> sectors;
  for (unsigned lane = 0; lane < std::min(32u, walk.length()); ++lane)
    sectors.push_back(walk.index(0, lane) * a.word / 8);
  std::ranges::sort(sectors);
  return double(std::ranges::unique(sectors).begin() - sectors.begin());
}

/// Lookups in L2 by columns: one for every lane's load, and one for every sector that memory fills.
double lookups(const Access& a, double words) { return words / a.word + words / 8; }

/// Measured in the same run, with the text's launch; milliseconds. Each access needs two of them.
struct Calibrated {
  double bandwidth = NAN;    ///< the whole array, with enough bytes in flight
  double latency = NAN;      ///< one load, while all other threads load, too
  double lookup = NAN;       ///< one sector in L2
  double lone_sector = NAN;  ///< one sector from memory, of which nobody else uses the rest
};

/// The slower of two times: the bytes at the memory's rate, and what limits this order. A thread's
/// loads wait for each other; `threads` are resident.
double predicted_ms(const Access& a, double threads, double words, const Calibrated& c) {
  const double loads = words / a.word;  // of single lanes
  double limit = NAN;
  if (a.order == Order::rows) limit = loads / threads / a.in_flight * c.latency;
  if (a.order == Order::columns) limit = lookups(a, words) * c.lookup;
  if (a.order == Order::random) limit = loads * c.lone_sector;
  return std::isfinite(limit) ? std::max(c.bandwidth, limit) : double(NAN);
}

/// Threads that are resident at once. The best launch is predicted as one that fills the GPU.
double resident_threads(const Access& a, const cudaDeviceProp& device) {
  const double most = double(device.multiProcessorCount) * device.maxThreadsPerMultiProcessor;
  return a.best ? most : std::min<double>(a.launch.total(), most);
}

/// Lookups in L2 and lone sectors were measured on compute capability 9.0 only: a test holds rows
/// to them there.
Model model_of(const Access& a, const Device* device) {
  const bool known = a.order == Order::rows || (device && device->prop.major == 9);
  return known ? Model::traffic : Model::host;
}

// ---- the experiment ----

/// The launches among which the best is searched: the text's, and one, two and four times as many
/// blocks as fit on the device at once.
std::vector<Launch> candidates(const Device* device) {
  std::vector<Launch> all{text_launch};
  for (const unsigned threads : {192u, 256u, 512u, 1024u}) {
    if (!device) break;
    const unsigned resident =
        device->prop.multiProcessorCount * (device->prop.maxThreadsPerMultiProcessor / threads);
    for (const unsigned times : {1u, 2u, 4u})
      if (resident > 0) all.push_back({resident * times, threads});
  }
  return all;
}

unsigned most_threads(const Run& run) {
  return std::ranges::max(candidates(run.device), {}, &Launch::total).total();
}

Shape square(size_t side) { return {unsigned(side), unsigned(side)}; }
double bytes_of(Shape m) { return 4.0 * double(m.words()); }
std::string square_text(size_t side) {
  return std::to_string(side) + " x " + std::to_string(side) + " float, " +
         bytes_text(bytes_of(square(side)));
}

Shape shape_of(const Run& run) {
  const size_t typed = options_of(run).size;
  const unsigned threads = most_threads(run);
  return square(fitting_size("sum of " + square_text(typed), typed, 12288, run.memory_there(),
                             [&](size_t side) { return Array::bytes(square(side), threads); }));
}
void require_fit(const Run& run) { shape_of(run); }

/// The kernel with the launch that takes least time. Nothing of the search is shown: what it chose
/// is measured again.
Access with_best_launch(const Run& run, Access a, Shape m) {
  std::vector<Access> all;
  for (const Launch l : candidates(run.device)) {
    a.launch = l;
    all.push_back(a);
    all.back().key += "_" + l.text();
  }
  SharedByTasks arrays([&] { return Array(m, most_threads(run)); });
  Sheet sheet(run, "launch", {});
  for (const Access& each : all) sheet.add({.ref = each.key, .missing = missing(a, m)});
  sheet.measure(Timing::in_turn,
                [&](const Row& row) { return task_of(arrays(), row.ref, row_of(all, row.ref)); });
  const auto ms = [&](const Access& each) { return sheet.ms(each.key); };
  const Access& best = *std::ranges::min_element(all, {}, ms);
  a.launch = best.launch;
  a.words += ", best launch";
  if (std::isfinite(ms(best))) a.words.append(" ").append(a.launch.text());
  return a;
}

/// Each kernel with the text's launch, and those that load also with their best launch.
std::vector<Access> rows_of(const Run& run, Shape m) {
  std::vector<Access> all(std::begin(accesses), std::end(accesses));
  for (Access a : accesses) {
    if (!a.loads()) continue;
    if (a.launch_of.empty()) {
      a = with_best_launch(run, a, m);
    } else {
      const Access& other = row_of(all, a.launch_of + "_best");
      a.launch = other.launch;
      a.words += other.words.substr(other.words.find(", best"));
    }
    a.key += "_best";
    a.best = true;
    all.push_back(a);
  }
  return all;
}

void measure_on_gpu(const Run& run, const std::vector<Access>& all, Shape m) {
  const double theory = run.device ? run.device->theoretical_gbs : 0;
  const auto of = [&all](const Row& row) { return row_of(all, row.ref); };
  const auto share = [theory](const Row& row, const Statistics& ms) {
    return theory > 0 ? gbs_of(row, ms.median) / theory : NAN;
  };
  const auto in_words = [share](const char* heading, std::string (*words)(double share)) {
    return Shown{shown(heading), {}, {}, [=](const Row& row, const Statistics& ms) {
                   return words(share(row, ms));
                 }};
  };
  Sheet sheet(run, "order and word",
              {milliseconds(4), spread(), in_unit(measured("GB/s", "bandwidth", "GB/s", 0), gbs_of),
               in_words("of theory", percent),
               number(predicted("sectors/request", "sectors a request", "", 0),
                      [=](const Row& row) { return sectors_per_request(of(row), m); }),
               number(then("2007: GB/s", "bandwidth", "GB/s", 2),
                      [=](const Row& row) { return of(row).best ? of(row).then : double(NAN); }),
               in_words("", bar)});
  for (const Access& a : all)
    sheet.add({.ref = a.key,
               .words = a.words,
               .bytes = a.loads() ? bytes_of(m) : double(NAN),
               .calibrates = a.key == "sum_rows" || a.key == "sum_rows_eight" ||
                             a.key == "sum_columns" || a.key == "sum_random",
               .model = model_of(a, run.device),
               .missing = missing(a, m)});
  SharedByTasks arrays([&] { return Array(m, most_threads(run)); });
  sheet.measure(Timing::in_turn,
                [&](const Row& row) { return task_of(arrays(), row.ref, of(row)); });

  const double words = double(m.words());
  const auto resident = [&run](const Access& a) {
    return run.device ? resident_threads(a, run.device->prop) : double(NAN);
  };
  const Calibrated c{.bandwidth = sheet.ms("sum_rows_eight"),
                     .latency = sheet.ms("sum_rows") * resident(row_of(all, "sum_rows")) / words,
                     .lookup = sheet.ms("sum_columns") / lookups(row_of(all, "sum_columns"), words),
                     .lone_sector = sheet.ms("sum_random") / words};
  sheet.predict([&](const Row& row) { return predicted_ms(of(row), resident(of(row)), words, c); });
  sheet.print({"rows without a launch have the text's: 1024x192, blocks x threads per block"});
}

/// The array's side on the host: half where little is compared with it, and less where memory is
/// short.
size_t side_on_host(const Run& run, size_t side) {
  const bool whole = options_of(run).size || (run.device && !run.quick);
  side = std::min<size_t>(side, whole ? 12288 : 6144);
  const auto memory = [] { return single(HostSquare::memory_there()); };
  const double there = ask_host(run, "host_rows", "memory of the host", "B", memory).median;
  while (side > 1 && bytes_of(square(side)) > 0.5 * there) side /= 2;
  return side;
}

Task host_task(const Shared<HostSquare>& x, const Ref& ref) {
  const Check check{[x] { x->poison(); }, [x] { return x->wrong(); }, ""};
  return {text(ref), [x] { x->add_up(); }, check, true};
}

/// In turn with the GPU's best launch by rows: a finding, as the text compares with two CPUs of
/// 2007.
void measure_on_host(const Run& run, const Access& on_gpu, Shape m) {
  const size_t side = side_on_host(run, m.rows);
  const auto count = [] { return single(HostSquare::threads()); };
  const double threads = ask_host(run, "host_rows", "threads of the host", "", count).median;
  const std::string cores = std::isfinite(threads) ? fixed(threads, 0) + " threads" : "all cores";
  const Ref rows("host_rows"), beside("sum_rows_beside_host");
  Sheet sheet(run, "beside the host, " + square_text(side),
              {in_unit(measured("ms", "time", "ms", 3), [](const Row&, double ms) { return ms; }),
               spread(), in_unit(measured("GB/s", "bandwidth", "GB/s", 2), gbs_of)});
  sheet.add({.ref = rows,
             .words = "host, by rows, " + cores,
             .bytes = bytes_of(square(side)),
             .on_host = true});
  sheet.add({.ref = beside, .words = on_gpu.words, .bytes = bytes_of(m)});
  SharedByTasks arrays([&] { return Array(m, most_threads(run)); });
  SharedByTasks squares([side] { return HostSquare(side); });
  sheet.measure(Timing::in_turn, [&](const Row& row) {
    return row.on_host ? host_task(squares(), row.ref) : task_of(arrays(), row.ref, on_gpu);
  });
  sheet.print({"one thread for each processor that this program may use"});
  find(run, "04.11", {.slow = rows, .fast = beside, .per_byte = true});
}

void run_sum(const Run& run) {
  const Shape m = shape_of(run);
  run.report.begin("sum", square_text(m.rows));
  const std::vector<Access> all = rows_of(run, m);
  measure_on_gpu(run, all, m);
  measure_on_host(run, row_of(all, "sum_rows_best"), m);
}

// ---- claims ----

std::vector<Claim> claims(const Run& run) {
  const double bytes = bytes_of(shape_of(run));
  const double theory = run.device ? run.device->theoretical_gbs : NAN;
  const bool cached = run.device && !beyond_l2(*run.device, bytes);
  const std::string in_cache = cached ? "the array is less than four times the L2" : "";
  const char* const gtx = "8800 GTX";
  const Access filling{.best = true};
  const double threads = run.device ? resident_threads(filling, run.device->prop) : NAN;
  return {
      {.part = {"04.1", "reading by rows in 4-byte words reaches 82% of theory", "82%, 70.5 GB/s",
                gtx, g80},
       .rule = about(0.82),
       .levels = {{.ref = "sum_rows_best",
                   .metric = "of theory",
                   .of_ms = [=](double ms) { return bytes * 1e-6 / ms / theory; }}},
       .here = bytes_text(4 * threads) + " in flight",
       .unless = theory == 0 ? "the theoretical bandwidth is not reported" : in_cache,
       .found = {{.slow = "sum_rows_best", .fast = "sum_rows_eight_best"}}},
      {.part = {"04.2a", "reading by columns is slower than by rows", "77x slower", gtx, g80},
       .rule = beats(77),
       .pairs = {{.slow = "sum_columns_best", .fast = "sum_rows_best"}},
       .unless = in_cache},
      {.part = {"04.2b", "columns are as slow as random order", "expected, not measured", gtx, g80},
       .rule = gains_nothing(),
       .pairs = {{.slow = "sum_random_best", .fast = "sum_columns_best"}},
       .unless = in_cache},
      {.part = {"04.3", "by rows float4 loses a factor of 1.5 to 2", "1.8x slower", gtx, g80},
       .rule = beats(1.5, 2),
       .pairs = {{.slow = "sum_rows4_best", .fast = "sum_rows_best"}},
       .unless = in_cache},
      {.part = {"04.4a", "by columns float4 quadruples the rate", "4.1x faster", gtx, g80},
       .rule = beats(4),
       .pairs = {{.slow = "sum_columns_best", .fast = "sum_columns4_best"}},
       .unless = in_cache},
      // in random order, where no load finds a sector that another load fetched
      {.part = {"04.4b", "loads of 4 and of 16 bytes take the same time", "the same, no figure",
                "the study of 2007"},
       .rule = costs_as_much(),
       .pairs = {{.slow = "sum_random_best", .fast = "sum_random4_best", .times = 4}},
       .unless = in_cache},
  };
}

// ---- what it declares ----

Needs needs(const Run& run) {
  const Shape m = shape_of(run);
  return {.allocated = Array::bytes(m, most_threads(run)), .touched = bytes_of(m)};
}

/// About n words, in an array that is not square; rows of 16-byte words have a multiple of 4.
std::vector<Checked> tasks(size_t n) {
  const auto side = unsigned(std::sqrt(double(n)));
  std::vector<Checked> all;
  for (const Launch l : {Launch{7, 33}, text_launch, Launch{2048, 1}})
    for (Access a : accesses) {
      a.launch = l;
      const Shared<Array> x(Array({side, a.word == 1 ? side + 2 : (side + 3) / 4 * 4}, l.total()));
      all.push_back({.task = task_of(x, a.key, a), .elements = l.total(), .change_one = [x] {
                       x->out.change(0);
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
