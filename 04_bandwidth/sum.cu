// sum: an array is added up, so that nearly all of the time is reading. The study of 2007 [BW]
// reads it by rows and by columns, in 4-byte and in 16-byte words: by rows it gets most of the
// bandwidth, by columns next to nothing; wide words help columns and hurt rows. Look at what became
// of each, and at the order that is really random, of which the text speaks without running it.
//   cmake -S 04_bandwidth -B build/sum -DEXPERIMENTS=sum
//   cmake --build build/sum && build/sum/04_bandwidth
//
//   1  sum_rows        a block takes rows, its lanes neighbouring words
//   2  sum_rows4       1 in 16-byte words
//   3  sum_columns     a block takes columns, its lanes words a row apart
//   4  sum_columns4    3 in 16-byte words
//   5  sum_random      each lane any word, no word twice
//   6  sum_random4     5 in 16-byte words
//   7  sum_rows_eight  1 with eight loads of a thread under way at once
//   8  no_reads        1 without memory: what the loop and the additions take
//   9  empty           what a launch and the results' way out take
#include <algorithm>

#include "../common/report.hpp"
#include "options.hpp"
#include "sum_host.hpp"

// ---- kernels: `rows` rows of `columns` words; thread t writes its own sum to out[t] ----

// [sum_rows]
// A block takes every gridDim.x-th row. A warp reads 32 neighbouring words: 4 sectors of 32 bytes.
__global__ void sum_rows(float* out, const float* in, unsigned rows, unsigned columns) {
  float sum = 0;
  for (unsigned row = blockIdx.x; row < rows; row += gridDim.x)
    for (unsigned col = threadIdx.x; col < columns; col += blockDim.x)
      sum += in[size_t(row) * columns + col];
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
// [/sum_rows]

// The same in words of 16 bytes: 16 sectors a warp.
__global__ void sum_rows4(float* out, const float4* in, unsigned rows, unsigned columns) {
  float sum = 0;
  for (unsigned row = blockIdx.x; row < rows; row += gridDim.x)
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
    for (unsigned row = threadIdx.x; row < rows; row += blockDim.x)
      sum += in[size_t(row) * columns + col];
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
// [/sum_columns]

// The same in words of 16 bytes: 32 sectors a warp, half of each used.
__global__ void sum_columns4(float* out, const float4* in, unsigned rows, unsigned columns) {
  float sum = 0;
  for (unsigned col = blockIdx.x; col < columns; col += gridDim.x)
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

// As by rows, but each lane reads the word that its own is shuffled to: 32 sectors a warp, whose
// rest nobody wants soon.
__global__ void sum_random(float* out, const float* in, unsigned rows, unsigned columns) {
  float sum = 0;
  for (unsigned row = blockIdx.x; row < rows; row += gridDim.x)
    for (unsigned col = threadIdx.x; col < columns; col += blockDim.x)
      sum += in[shuffled(row * columns + col, rows * columns)];
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

// The same in words of 16 bytes.
__global__ void sum_random4(float* out, const float4* in, unsigned rows, unsigned columns) {
  float sum = 0;
  for (unsigned row = blockIdx.x; row < rows; row += gridDim.x)
    for (unsigned col = threadIdx.x; col < columns; col += blockDim.x) {
      const float4 word = in[shuffled(row * columns + col, rows * columns)];
      sum += (word.x + word.y) + (word.z + word.w);
    }
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

// Kernel 1 with eight loads of each thread under way before the first addition: as many bytes in
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
    for (; col < columns; col += blockDim.x) sum += line[col];  // what is left, one at a time
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

// Kernel 1 with a constant in place of each word.
__global__ void no_reads(float* out, const float*, unsigned rows, unsigned columns) {
  float sum = 0;
  for (unsigned row = blockIdx.x; row < rows; row += gridDim.x)
    for (unsigned col = threadIdx.x; col < columns; col += blockDim.x) sum += 1.0f;
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

// A short loop and the results: the text subtracts its time from all others.
__global__ void empty(float* out, const float*, unsigned, unsigned) {
  float sum = 0;
  for (unsigned i = 0; i < 8; ++i) sum += 1.0f;
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

namespace {

// ---- what is right ----

/// Word i: a whole number from 1 to `largest`, 8191 at most, without pattern. A thread that left a
/// word out and took another twice would be found unless both are equal.
__host__ __device__ unsigned whole_number(size_t i, unsigned largest) {
  unsigned x = unsigned(i) ^ unsigned(i >> 32) * 0x9e3779b1u;
  x = (x ^ x >> 16) * 0x85ebca6bu;
  x = (x ^ x >> 13) * 0xc2b2ae35u;
  return 1 + (x >> 16) % largest;
}

__global__ void fill(float* in, size_t n, unsigned largest) {
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += threads)
    in[i] = float(whole_number(i, largest));
}

enum class Order { rows, columns, random, none, empty };

struct Launch {
  unsigned blocks, threads;
  unsigned total() const { return blocks * threads; }
};

/// One array and one way through it.
struct Walk {
  Order order;
  unsigned words;  ///< of 4 bytes in a load
  unsigned rows, columns;
  Launch launch;
};

/// Which thread takes the word at a place, from the text's description: a block takes every so
/// many-th row and its threads the words of it in turn, or columns likewise.
__host__ __device__ unsigned taker(const Walk& w, unsigned row, unsigned col) {
  const unsigned line = w.order == Order::columns ? col : row;
  const unsigned along = w.order == Order::columns ? row : col;
  return line % w.launch.blocks * w.launch.threads + along % w.launch.threads;
}

/// Hands every word to the thread that has to take it: from words to threads, where the kernels go
/// from threads to words.
__global__ void add_to_takers(unsigned* right, Walk w, unsigned largest) {
  const size_t count = size_t(w.rows) * w.columns;
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < count; i += threads) {
    const size_t word = w.order == Order::random ? shuffled(unsigned(i), unsigned(count)) : i;
    unsigned sum = 0;
    for (unsigned k = 0; k < w.words; ++k)
      sum += w.order == Order::none ? 1 : whole_number(word * w.words + k, largest);
    atomicAdd(&right[taker(w, unsigned(i / w.columns), unsigned(i % w.columns))], sum);
  }
}

__global__ void count_wrong(const float* out, const unsigned* right, unsigned n, unsigned* wrong) {
  for (unsigned t = blockIdx.x * blockDim.x + threadIdx.x; t < n; t += gridDim.x * blockDim.x)
    if (!(out[t] == float(right[t]))) atomicAdd(wrong, 1u);
}

// ---- the story in order ----

struct Kernel {
  const char* name;
  Order order;
  unsigned words;
  unsigned in_flight;  ///< loads of a thread that the source puts before the first addition
  double then;         ///< GB/s on the 8800 GTX, of the best launch
  void (*launch)(const Walk&, float* out, const float* in);
};

const float4* quads(const float* in) { return reinterpret_cast<const float4*>(in); }

const Kernel kernels[] = {
    {"by rows, float", Order::rows, 1, 1, 70.52,
     [](const Walk& w, float* out, const float* in) {
       sum_rows<<<w.launch.blocks, w.launch.threads>>>(out, in, w.rows, w.columns);
     }},
    {"by rows, float4", Order::rows, 4, 1, 38.83,
     [](const Walk& w, float* out, const float* in) {
       sum_rows4<<<w.launch.blocks, w.launch.threads>>>(out, quads(in), w.rows, w.columns);
     }},
    {"by columns, float", Order::columns, 1, 1, 0.92,
     [](const Walk& w, float* out, const float* in) {
       sum_columns<<<w.launch.blocks, w.launch.threads>>>(out, in, w.rows, w.columns);
     }},
    {"by columns, float4", Order::columns, 4, 1, 3.73,
     [](const Walk& w, float* out, const float* in) {
       sum_columns4<<<w.launch.blocks, w.launch.threads>>>(out, quads(in), w.rows, w.columns);
     }},
    {"random, float", Order::random, 1, 1, NAN,
     [](const Walk& w, float* out, const float* in) {
       sum_random<<<w.launch.blocks, w.launch.threads>>>(out, in, w.rows, w.columns);
     }},
    {"random, float4", Order::random, 4, 1, NAN,
     [](const Walk& w, float* out, const float* in) {
       sum_random4<<<w.launch.blocks, w.launch.threads>>>(out, quads(in), w.rows, w.columns);
     }},
    {"by rows, eight floats", Order::rows, 1, 8, NAN,
     [](const Walk& w, float* out, const float* in) {
       sum_rows_eight<<<w.launch.blocks, w.launch.threads>>>(out, in, w.rows, w.columns);
     }},
    {"by rows, no reads", Order::none, 1, 1, NAN,
     [](const Walk& w, float* out, const float* in) {
       no_reads<<<w.launch.blocks, w.launch.threads>>>(out, in, w.rows, w.columns);
     }},
    {"empty", Order::empty, 1, 1, NAN,
     [](const Walk& w, float* out, const float* in) {
       empty<<<w.launch.blocks, w.launch.threads>>>(out, in, w.rows, w.columns);
     }},
};
enum { rows1, rows4, columns1, columns4, random1, random4, rows8, no_memory, nothing };

/// Rows of 16-byte words have to begin on 16 bytes, and the shuffle has 32 bits.
bool fits(const Kernel& k, size_t side) {
  return side % k.words == 0 && (k.order != Order::random || side * (side / k.words) < 1ull << 32);
}

constexpr Launch text_launch{1024, 192};  // the text's best

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

/// The largest word with which the sum of any thread is exact in float, whatever the access: below
/// 2^24.
unsigned largest_word(unsigned side, const std::vector<Launch>& launches) {
  double most_words = 1;
  for (const Launch l : launches) {
    const double lines = std::ceil(side / 4.0 / l.blocks) * 4;  // of words, or of quads
    const double along = std::ceil(side / 4.0 / l.threads) * 4;
    most_words = std::max(most_words, lines * along);
  }
  return unsigned(std::clamp((double(1 << 24) - 1) / most_words, 1.0, 8191.0));
}

/// A square array on the device, what its threads find, and what they must find.
struct Square {
  static constexpr size_t canaries = 64;  ///< behind what the threads write

  unsigned side, largest;
  size_t most_threads = 0;
  DeviceBuffer<float> in{size_t(side) * side};
  DeviceBuffer<float> out;
  DeviceBuffer<unsigned> right;
  DeviceBuffer<unsigned> wrong_sums{1};

  Square(unsigned side, const std::vector<Launch>& launches)
      : side(side), largest(largest_word(side, launches)) {
    for (const Launch l : launches) most_threads = std::max<size_t>(most_threads, l.total());
    out = DeviceBuffer<float>(most_threads + canaries);
    right = DeviceBuffer<unsigned>(most_threads);
    fill<<<1024, 256>>>(in.data(), in.size(), largest);
    CUDA_CHECK_LAUNCH();
  }
  Walk walk(const Kernel& k, Launch l) const { return {k.order, k.words, side, side / k.words, l}; }
  /// Compares what every thread found.
  size_t wrong(const Walk& w) {
    if (w.order == Order::empty) {
      right.copy_from(std::vector<unsigned>(w.launch.total(), 8));
    } else {
      CUDA_CHECK(cudaMemset(right.data(), 0, right.bytes()));
      add_to_takers<<<1024, 256>>>(right.data(), w, largest);
      CUDA_CHECK_LAUNCH();
    }
    wrong_sums.copy_from({0});
    count_wrong<<<256, 256>>>(out.data(), right.data(), w.launch.total(), wrong_sums.data());
    CUDA_CHECK_LAUNCH();
    return wrong_sums.to_host()[0];
  }
  Task task(const Kernel& k, Launch l) {
    const Walk w = walk(k, l);
    Check check;
    check.poison = [this] { out.poison(); };
    check.wrong = [this, w] { return wrong(w); };
    return {std::string(k.name) + ", " + text_of(l),
            [this, &k, w] { k.launch(w, out.data(), in.data()); }, std::move(check)};
  }
  static std::string text_of(Launch l) {
    return std::to_string(l.blocks) + " x " + std::to_string(l.threads);
  }
};

// ---- what to expect ----

/// Sectors of 32 bytes that a warp's load touches: 32 words side by side, or one sector a lane.
double sectors_a_request(const Kernel& k) {
  if (k.order == Order::none || k.order == Order::empty) return NAN;
  return k.order == Order::rows ? 32.0 * k.words * sizeof(float) / 32 : 32;
}

/// Every word is read once.
double bytes_read(double side) { return 4 * side * side; }

/// Lookups in L2 by columns: one for every lane's load, and one for every sector that memory fills.
double lookups(const Kernel& k, unsigned side) {
  const double words = double(side) * side;
  return words / k.words + words / 8;
}

/// Measured in the same run, by the text's launch; milliseconds. Each access takes two of them.
struct Calibrated {
  double bandwidth = NAN;    ///< of the whole array, with enough bytes in flight
  double trip = NAN;         ///< of one load of a thread, while all others load too
  double lookup = NAN;       ///< of a sector in L2
  double lone_sector = NAN;  ///< of a sector from memory of which nobody else wants the rest
};

/// Milliseconds by the slowest of the things that apply to an access.
double predicted_ms(const Kernel& k, Launch l, unsigned side, const Calibrated& c,
                    const Device& device) {
  const double loads = double(side) * side / k.words;  // of single lanes
  const double resident = std::min<double>(
      l.total(), double(device.prop.multiProcessorCount) * device.prop.maxThreadsPerMultiProcessor);
  double ms = c.bandwidth;  // bytes over bandwidth
  if (k.order == Order::rows) ms = std::max(ms, loads / resident / k.in_flight * c.trip);
  if (k.order == Order::columns) ms = std::max(ms, lookups(k, side) * c.lookup);
  if (k.order == Order::random) ms = std::max(ms, loads * c.lone_sector);
  return ms;
}

/// Lookups in L2 and lone sectors were measured on compute capability 9.0 only; a test holds rows
/// to them there.
Model model_of(const Kernel& k, const Device& device) {
  return k.order == Order::rows || device.prop.major == 9 ? Model::traffic : Model::host;
}

// ---- the experiment ----

/// What is timed for the claims: each access by its best launch, and rows in turn with the host.
struct Best {
  std::vector<Readings> access = std::vector<Readings>(std::size(kernels));
  Readings rows_beside_host, host;
};

struct AccessTable {
  const Run& run;
  unsigned side;
  Table table;
  double empty_ms = NAN;

  AccessTable(const Run& run, unsigned side)
      : run(run),
        side(side),
        table(run.report, "access",
              {shown("launch"), compared("ms", "time", "ms", 4), shown("spread"),
               measured("GB/s", "bandwidth", "GB/s", 0),
               measured("less empty", "bandwidth less the empty kernel", "GB/s", 0),
               shown("of theory"), predicted("sectors", "sectors a request", "", 0),
               then("then", "bandwidth", "GB/s", 2), shown("")}) {}

  void add(const Kernel& k, Launch l, bool best, const Cell& time, const Readings& times) {
    const Statistics ms = times.statistics();
    const bool reads = k.order != Order::none && k.order != Order::empty;
    const Statistics gbs = reads ? gigabytes_per_second(bytes_read(side), ms) : Statistics{};
    const double theory = run.device ? run.device->theoretical_gbs : 0;
    const double share = theory > 0 ? gbs.median / theory : NAN;
    const double net = reads ? bytes_read(side) * 1e-6 / (ms.median - empty_ms) : NAN;
    table.row({std::string(k.name) + (best ? ", best launch" : "")},
              {Square::text_of(l), time, spread_text(ms), gbs, best ? net : NAN, percent(share),
               sectors_a_request(k), best || !run.device ? k.then : NAN, bar(share)});
  }
};

/// The launch of the sweep that takes least time; it is measured again afterwards.
Launch best_launch(const Run& run, Square& square, const Kernel& k) {
  Measuring briefly = run.measuring;
  briefly.typed = false;
  briefly.repeats = 3;
  Launch best = text_launch;
  double least = INFINITY;
  for (const Launch l : candidates(run.device->prop)) {
    if (run.quick && l.threads % 256 && l.blocks != text_launch.blocks) continue;
    const double ms = time_alone(briefly, square.task(k, l)).median();
    if (ms < least) {
      least = ms;
      best = l;
    }
  }
  return best;
}

/// An access and a launch of it.
struct Choice {
  int kernel;
  Launch launch;
};

/// Checks and times accesses in turn.
std::vector<Readings> in_turn(const Run& run, Square& square, const std::vector<Choice>& choices) {
  std::vector<Task> tasks;
  for (const Choice& c : choices) tasks.push_back(square.task(kernels[c.kernel], c.launch));
  return run.time_in_turn(tasks);
}

Best measure(const Run& run, Square& square, HostSquare& host, AccessTable& table) {
  const unsigned side = square.side;
  const auto fitting = [&](std::initializer_list<int> which, Launch launch) {
    std::vector<Choice> choices;
    for (const int i : which)
      if (fits(kernels[i], side)) choices.push_back({i, launch});
    return choices;
  };

  // the constants, all by the text's launch
  Calibrated c;
  std::vector<Choice> choices = fitting({rows1, rows8, columns1, random1}, text_launch);
  std::vector<Readings> times = in_turn(run, square, choices);
  const double words = double(side) * side;
  for (size_t i = 0; i < choices.size(); ++i) {
    const double ms = times[i].median();
    if (choices[i].kernel == rows1) c.trip = ms * text_launch.total() / words;
    if (choices[i].kernel == rows8) c.bandwidth = ms;
    if (choices[i].kernel == columns1) c.lookup = ms / lookups(kernels[columns1], side);
    if (choices[i].kernel == random1) c.lone_sector = ms / words;
    table.add(kernels[choices[i].kernel], text_launch, false, Calibration{times[i].statistics()},
              times[i]);
  }

  // the others by the text's launch
  const auto add_predicted = [&](const Choice& choice, bool best, const Readings& ms) {
    const Kernel& k = kernels[choice.kernel];
    const double expected = predicted_ms(k, choice.launch, side, c, *run.device);
    table.add(k, choice.launch, best, Compared{expected, ms.statistics(), model_of(k, *run.device)},
              ms);
  };
  choices = fitting({rows4, columns4, random4}, text_launch);
  times = in_turn(run, square, choices);
  for (size_t i = 0; i < choices.size(); ++i) add_predicted(choices[i], false, times[i]);
  for (const int i : {no_memory, nothing}) {
    const Readings without = run.time(square.task(kernels[i], text_launch));
    table.add(kernels[i], text_launch, false, Compared{NAN, without.statistics()}, without);
    if (i == nothing) table.empty_ms = without.median();
  }

  // each by the launch that is best for it; random order takes that of the columns
  Best best;
  choices = fitting({rows1, rows4, columns1, columns4, random1, random4, rows8}, text_launch);
  std::vector<Launch> chosen(std::size(kernels), text_launch);
  Progress progress("sum, launches", int(choices.size()));
  for (Choice& choice : choices) {
    if (choice.kernel == random1)
      choice.launch = chosen[columns1];
    else if (choice.kernel == random4)
      choice.launch = chosen[columns4];
    else
      choice.launch = best_launch(run, square, kernels[choice.kernel]);
    chosen[choice.kernel] = choice.launch;
    progress.step();
  }
  times = in_turn(run, square, choices);
  for (size_t i = 0; i < choices.size(); ++i) {
    add_predicted(choices[i], true, times[i]);
    best.access[choices[i].kernel] = times[i];
  }

  std::vector<Task> pair;
  pair.push_back(square.task(kernels[rows1], chosen[rows1]));
  pair.push_back(host.by_rows());
  times = run.time_in_turn(pair);
  best.rows_beside_host = times[0];
  best.host = times[1];
  return best;
}

/// `host_bytes`: of the host's array, which may be smaller than the device's.
void judge(const Run& run, const Best& best, unsigned side, double host_bytes) {
  const double bytes = bytes_read(side);
  const double theory = run.device ? run.device->theoretical_gbs : NAN;
  const bool in_cache = run.device && !beyond_l2(*run.device, bytes);
  const std::string unaligned = "rows of " + std::to_string(side) + " floats hold no 16-byte words";
  const auto unless = [&](const Interval& r, bool needs_quads) {
    if (in_cache) return not_measured("the array is less than four times the L2");
    return needs_quads && side % 4 ? not_measured(unaligned) : r;
  };
  const auto slowdown = [&](int a, int b) { return ratio(best.access[a], best.access[b]); };
  const auto share_of_theory = [&](int i) {
    if (run.device && !(theory > 0))
      return not_measured("the theoretical bandwidth is not reported");
    return unless(scaled(level(bytes, 1e9, best.access[i]), 1 / theory), false);
  };

  const Interval share = share_of_theory(rows1);
  run.report.judge({"04.1", "reading by rows in 4-byte words reaches 82% of theory",
                    "82%, 70.5 GB/s", "8800 GTX", g80},
                   about(0.82), share, share_text(share), "of theory");
  const Interval eight = share_of_theory(rows8);
  if (eight.measured())
    run.report.finding("04.1", "with eight loads of a thread under way " + share_text(eight));

  const Interval columns = unless(slowdown(columns1, rows1), false);
  run.report.judge(
      {"04.2a", "reading by columns is slower than by rows", "77x slower", "8800 GTX", g80},
      beats(77), columns, slower(columns));
  const Interval random = unless(slowdown(random1, columns1), false);
  run.report.judge(
      {"04.2b", "columns are as slow as random order", "expected, not measured", "8800 GTX", g80},
      gains_nothing(), random, "random order is " + slower(random, "columns"));
  const Interval wide = unless(slowdown(rows4, rows1), true);
  run.report.judge(
      {"04.3", "by rows float4 loses a factor of 1.5 to 2", "1.8x slower", "8800 GTX", g80},
      beats(1.5, 2), wide, slower(wide));
  const Interval wide_columns = unless(slowdown(columns1, columns4), true);
  run.report.judge(
      {"04.4", "by columns float4 quadruples the rate", "4.1x faster", "8800 GTX", g80}, beats(4),
      wide_columns, faster(wide_columns));
  const Interval host =
      unless(scaled(ratio(best.host, best.rows_beside_host), bytes / host_bytes), false);
  run.report.judge({"04.11", "the GPU reads ten times as fast as the CPUs of its day",
                    "12x faster (Woodcrest), 7x (Opteron)", "8800 GTX"},
                   beats(10), host, faster(host, "this host's " + HostSquare::threads_text()));
}

/// The sums of the launch with the most threads, and what they must be.
double bytes_of_sums(const std::vector<Launch>& launches) {
  double bytes = 0;
  for (const Launch l : launches) bytes = std::max(bytes, 8.0 * l.total());
  return bytes;
}

std::vector<Launch> launches_of(const Run& run) {
  return run.device ? candidates(run.device->prop) : std::vector<Launch>{text_launch};
}

std::string square_text(size_t side) {
  return std::to_string(side) + " x " + std::to_string(side) + " float, " +
         bytes_text(bytes_read(double(side)));
}

size_t side_of(const Run& run, size_t typed) {
  const double sums = bytes_of_sums(launches_of(run));
  return fitting_size("sum of " + square_text(typed), typed, 12288, run.memory_there(),
                      [&](size_t n) { return bytes_read(double(n)) + sums; });
}

}  // namespace

void sum_fits(const Run& run, const Options& options) { side_of(run, options.size); }

void sum(const Run& run, const Options& options) {
  const std::vector<Launch> launches = launches_of(run);
  const size_t side = side_of(run, options.size);
  // half as wide where little is compared with it: with the host alone, and in a quick run
  const bool all = options.size || (run.device && !run.quick);
  const size_t host_side = HostSquare::fitting_side(std::min<size_t>(side, all ? 12288 : 6144));
  run.report.begin("sum", square_text(side) +
                              (host_side == side ? "" : "; on the host " + square_text(host_side)));

  HostSquare host(host_side);
  Best best;
  AccessTable table(run, unsigned(side));
  if (run.device) {
    Square square(unsigned(side), launches);
    best = measure(run, square, host, table);
  } else {
    for (const Kernel& k : kernels) table.add(k, text_launch, false, {}, {});
  }
  table.table.print();
  if (run.device)
    run.report.note("calibration: a load's trip, the bandwidth, a lookup in L2, a lone sector");
  else
    run.report.left_out("the sums on the GPU");
  if (side % 4)
    run.report.note("rows of " + std::to_string(side) + " floats hold no 16-byte words");
  host.measure(run, best.host);
  judge(run, best, unsigned(side), host.bytes());
}
