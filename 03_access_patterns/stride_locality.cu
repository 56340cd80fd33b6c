// stride, locality: the wiki's first page [LC] builds all memory hierarchies on two habits of
// programs. Spatial locality: what lies beside a word is wanted, too. Temporal locality: the word
// itself is wanted again. Here is what each is worth alone, and both. Look at how far apart the
// four rows are, though each row is 4-byte words, read by the same number of threads.
//   cmake -S 03_access_patterns -B build/stride -DEXPERIMENTS=stride
//   cmake --build build/stride && build/stride/03_access_patterns
//
//   1  read_lines             a word of each line, once
//   2  read_neighbours        all words of each line, once
//   3  read_lines_again       a word of each of a few lines, again and again
//   4  read_neighbours_again  all words of the same few lines, again and again
#include "../common/report.hpp"
#include "reads.cuh"

void stride_locality(const Run& run);

namespace {

constexpr unsigned line_words = 32;  // 128 bytes
constexpr unsigned own_lines = 64;   // 8 KiB: the lines of all resident blocks fit into L1

// ---- kernels: thread t adds up what it reads, into out[t] ----

// Neither. A warp reads one word in each of 32 lines, and nobody comes back to any of them.
__global__ void read_lines(unsigned* out, const unsigned* in, size_t n) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  unsigned sum = 0;
  size_t i = tid;
  for (; i + 7 * threads < n; i += 8 * threads) {
#pragma unroll
    for (unsigned k = 0; k < 8; ++k) sum += in[(i + k * threads) * line_words];
  }
  for (; i < n; i += threads) sum += in[i * line_words];
  out[tid] = sum;
}

// Spatial locality. A warp reads the 32 words of a line, once.
__global__ void read_neighbours(unsigned* out, const unsigned* in, size_t n) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  unsigned sum = 0;
  size_t i = tid;
  for (; i + 7 * threads < n; i += 8 * threads) {
#pragma unroll
    for (unsigned k = 0; k < 8; ++k) sum += in[i + k * threads];
  }
  for (; i < n; i += threads) sum += in[i];
  out[tid] = sum;
}

// [read_lines_again]
// Temporal locality. A block has 64 lines of its own. A warp reads one word in each of 32 of them,
// and a line further at each turn: from the second on they are in L1.
__global__ void read_lines_again(unsigned* out, const unsigned* in, unsigned turns) {
  const unsigned* own = in + size_t(blockIdx.x) * own_lines * line_words;
  unsigned sum = 0;
#pragma unroll 8
  for (unsigned turn = 0; turn < turns; ++turn)
    sum += own[(threadIdx.x + turn) % own_lines * line_words];
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
// [/read_lines_again]

// Both. A warp reads the 32 words of one of these lines, and of the next at each turn.
__global__ void read_neighbours_again(unsigned* out, const unsigned* in, unsigned turns) {
  const unsigned* own = in + size_t(blockIdx.x) * own_lines * line_words;
  unsigned sum = 0;
#pragma unroll 8
  for (unsigned turn = 0; turn < turns; ++turn)
    sum += own[(threadIdx.x + turn * line_words) % (own_lines * line_words)];
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

// ---- what is right ----

/// Takes each word of a block's lines away from the sums of its threads, as often as they read it.
/// Thread t begins t steps of `step` words into the lines, moves on by a line at each turn, and
/// from the last line goes back to the first.
__global__ void take_away_own(unsigned* sums, bool neighbours, unsigned turns) {
  const unsigned step = neighbours ? 1 : line_words;  // from a thread to the next
  const unsigned a_turn = line_words;                 // from a turn to the next
  const size_t first = size_t(blockIdx.x) * own_lines * line_words;
  for (unsigned thread = threadIdx.x; thread < block_threads; thread += blockDim.x) {
    unsigned at = thread * step;
    for (unsigned turn = 0; turn < turns; ++turn, at += a_turn) {
      while (at >= own_lines * line_words) at -= own_lines * line_words;
      sums[blockIdx.x * block_threads + thread] -= word_at(first + at);
    }
  }
}

// ---- the four, in order ----

enum class Locality { none, spatial, temporal, both };
constexpr Locality localities[] = {Locality::none, Locality::spatial, Locality::temporal,
                                   Locality::both};

const char* name_of(Locality which) {
  constexpr const char* names[] = {"neither", "spatial: its neighbours, too",
                                   "temporal: again and again", "both"};
  return names[static_cast<int>(which)];
}

/// Words that a launch reads, again counted as often as it is read.
double words_read(const Words& memory, Locality which, unsigned turns) {
  if (which == Locality::none) return double(memory.in.size() / line_words);
  if (which == Locality::spatial) return double(memory.in.size());
  return double(memory.grid.threads()) * turns;
}

Task task_of(Words& memory, Locality which, unsigned turns) {
  unsigned* const out = memory.sums.data();
  const unsigned* const in = memory.in.data();
  const unsigned blocks = memory.grid.blocks;
  const size_t words = memory.in.size();
  const auto take_away = [=](unsigned* left) {
    take_away_own<<<blocks, block_threads>>>(left, which == Locality::both, turns);
    CUDA_CHECK_LAUNCH();
  };
  switch (which) {
    case Locality::none:
      return memory.task(
          name_of(which),
          [=] { read_lines<<<blocks, block_threads>>>(out, in, words / line_words); },
          Slots{0, line_words, words / line_words});
    case Locality::spatial:
      return memory.task(
          name_of(which), [=] { read_neighbours<<<blocks, block_threads>>>(out, in, words); },
          Slots{0, 1, words});
    case Locality::temporal:
      return memory.task(
          name_of(which), [=] { read_lines_again<<<blocks, block_threads>>>(out, in, turns); },
          take_away);
    case Locality::both:
      return memory.task(
          name_of(which), [=] { read_neighbours_again<<<blocks, block_threads>>>(out, in, turns); },
          take_away);
  }
  return {};
}

// ---- what to expect ----

/// Nanoseconds of a thousand words. From memory a lone word brings its piece of 64 bytes; L1 gives
/// a line, or what a warp wants of it, in a cycle.
double predicted_ns(Locality which, double spatial_ns, const Device& device) {
  const double lines_a_ns = device.prop.multiProcessorCount * device.sm_clock_khz * 1e-6;
  const double line_ns = lines_a_ns > 0 ? 1000 / lines_a_ns : NAN;
  switch (which) {
    case Locality::none:
      return spatial_ns * memory_piece / 4;
    case Locality::spatial:
      return spatial_ns;
    case Locality::temporal:
      return line_ns;
    case Locality::both:
      return line_ns / line_words;
  }
  return NAN;
}

/// The last row is limited by the loop's instructions, which the model leaves out.
Model model_of(Locality which, const Device& device) {
  return which == Locality::both ? Model::host : model_of_pieces(&device);
}

}  // namespace

void stride_locality(const Run& run) {
  if (!run.device) return run.report.left_out("what spatial and temporal locality are worth");
  constexpr unsigned turns = 2048;  // 0.2 ms and more on an H200
  Words memory(bytes_to_read(run, size_t(1) << 30, 1.0 / 4) / 4, resident_grid(*run.device));
  Table table(run.report, "locality, 4-byte words",
              {compared("ns/1000 words", "time of a thousand words", "ns", 3), shown("spread"),
               shown("of neither")});
  std::vector<Statistics> ns;
  for (const Locality which : localities) {
    const double thousands = words_read(memory, which, turns) / 1000;
    const Statistics ms = run.time(task_of(memory, which, turns)).statistics();
    ns.push_back(scaled(ms, 1e6 / thousands));
  }
  for (size_t i = 0; i < ns.size(); ++i) {
    const double expected = predicted_ns(localities[i], ns[1].median, *run.device);
    Cell cell = Compared{expected, ns[i], model_of(localities[i], *run.device)};
    if (localities[i] == Locality::spatial) cell = Calibration{ns[i]};
    table.row({name_of(localities[i])},
              {cell, spread_text(ns[i]), times(ns[0].median / ns[i].median)});
  }
  table.print();
}
