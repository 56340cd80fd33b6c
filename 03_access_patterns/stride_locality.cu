// stride, locality: caches help because of two habits of programs, says the wiki's first page [LC].
// Spatial locality: after a word, the program reads its neighbours. Temporal locality: the program
// reads the same word again. This table measures how much each of the two helps, and both together.
// In all four rows the same number of threads reads words of 4 bytes. Look at how different the
// times are.
//
//   1  read_lines             one word of each line of 128 bytes, once
//   2  read_neighbours        all words of each line, once
//   3  read_lines_again       one word of each of a few lines, again and again
//   4  read_neighbours_again  all words of the same few lines, again and again
#include "../framework/common/sheet.hpp"
#include "reads.cuh"

using namespace samples;

void stride_locality(const Run& run);

namespace {

constexpr unsigned line_words = 32;  // 128 bytes
constexpr unsigned own_lines = 64;   // 8 KiB: the lines of all resident blocks fit into L1

// ---- kernels: thread t adds up what it reads, into out[t] ----

// Neither. A warp reads one word in each of 32 lines. No line is read a second time.
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
// Temporal locality. Each block reads its own 64 lines. In each iteration a warp reads one word in
// each of 32 lines, and each lane then goes on to the next line. The block's 8 warps together read
// from all 64 lines in the first iteration, so from the second iteration on these are in L1.
__global__ void read_lines_again(unsigned* out, const unsigned* in, unsigned turns) {
  const unsigned* own = in + size_t(blockIdx.x) * own_lines * line_words;
  unsigned sum = 0;
#pragma unroll 8
  for (unsigned turn = 0; turn < turns; ++turn)
    sum += own[(threadIdx.x + turn) % own_lines * line_words];
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
// [/read_lines_again]

// Both. In each iteration a warp reads the 32 words of one of the block's lines, and in the next
// iteration the words of the next line.
__global__ void read_neighbours_again(unsigned* out, const unsigned* in, unsigned turns) {
  const unsigned* own = in + size_t(blockIdx.x) * own_lines * line_words;
  unsigned sum = 0;
#pragma unroll 8
  for (unsigned turn = 0; turn < turns; ++turn)
    sum += own[(threadIdx.x + turn * line_words) % (own_lines * line_words)];
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

// ---- what is right ----

/// Subtracts each word of a block's lines from the sums of its threads, as often as they read it.
/// Thread t begins t steps of `step` words into the lines, moves on by a line in each iteration,
/// and goes back to the first line after the last.
__global__ void take_away_own(unsigned* sums, bool neighbours, unsigned turns) {
  const unsigned step = neighbours ? 1 : line_words;  // words from one thread to the next
  const size_t first = size_t(blockIdx.x) * own_lines * line_words;
  for (unsigned thread = threadIdx.x; thread < block_threads; thread += blockDim.x) {
    unsigned at = thread * step;
    for (unsigned turn = 0; turn < turns; ++turn, at += line_words) {
      while (at >= own_lines * line_words) at -= own_lines * line_words;
      sums[blockIdx.x * block_threads + thread] -= word_at(first + at);
    }
  }
}

// ---- the four, in order ----

struct Kernel {
  std::string_view key = {};  ///< its name
  const char* words = "";
  bool neighbours = false;                                     ///< a warp reads all words of a line
  void (*once)(unsigned*, const unsigned*, size_t) = nullptr;  ///< one of these two:
  void (*again)(unsigned*, const unsigned*, unsigned) = nullptr;  ///< the same lines, `turns` times
};
template <auto kernel>
Kernel named(Kernel k) {
  k.key = name_of<kernel>();
  if constexpr (std::is_same_v<decltype(kernel), decltype(k.once)>)
    k.once = kernel;
  else
    k.again = kernel;
  return k;
}
const Kernel kernels[] = {
    named<read_lines>({.words = "neither"}),
    named<read_neighbours>({.words = "spatial: its neighbours, too", .neighbours = true}),
    named<read_lines_again>({.words = "temporal: again and again"}),
    named<read_neighbours_again>({.words = "both", .neighbours = true}),
};
Task task_of(const Shared<Words>& memory, const Kernel& k, unsigned turns) {
  const unsigned blocks = memory->grid.blocks;
  if (k.again) {
    const auto launch = [memory, &k, turns, blocks] {
      k.again<<<blocks, block_threads>>>(memory->sums.data(), memory->in.data(), turns);
    };
    return memory->task(std::string(k.key), launch, [blocks, &k, turns](unsigned* left) {
      take_away_own<<<blocks, block_threads>>>(left, k.neighbours, turns);
      CUDA_CHECK_LAUNCH();
    });
  }
  const size_t step = k.neighbours ? 1 : line_words, n = memory->in.size() / step;
  const auto launch = [memory, &k, n, blocks] {
    k.once<<<blocks, block_threads>>>(memory->sums.data(), memory->in.data(), n);
  };
  return memory->task(std::string(k.key), launch, Slots{0, step, n});
}

/// Words that a launch reads; a word that is read again counts again.
double words_read(const Kernel& k, size_t words, Grid grid, unsigned turns) {
  if (k.again) return double(grid.threads()) * turns;
  return double(k.neighbours ? words : words / line_words);
}

// ---- prediction ----

/// Nanoseconds per 1000 words. From memory, a word without neighbours takes the time of the 64
/// bytes that the L2 fetches for it. From L1, a line takes one cycle, for one of its words or for
/// all of them.
double predicted_ns(const Kernel& k, double spatial_ns, const Device& device) {
  const double lines_a_ns = device.prop.multiProcessorCount * device.sm_clock_khz * 1e-6;
  const double line_ns = lines_a_ns > 0 ? 1000 / lines_a_ns : NAN;
  if (k.again) return k.neighbours ? line_ns / line_words : line_ns;
  return k.neighbours ? spatial_ns : spatial_ns * memory_piece / 4;
}

// ---- the table ----

double ns_of_thousand(const Row& row, double ms) { return ms * 1e6 / (row.bytes / 4 / 1000); }

}  // namespace

void stride_locality(const Run& run) {
  constexpr unsigned turns = 2048;  // iterations: 0.2 ms and more on an H200
  const size_t words = bytes_to_read(run, size_t(1) << 30, 1.0 / 4) / 4;
  const Grid grid = run.device ? resident_grid(*run.device) : Grid{};
  SharedByTasks memory([=] { return Words(words, grid); });

  Sheet sheet(
      run, "locality, 4-byte words",
      {in_unit(compared("ns/1000 words", "time of a thousand words", "ns", 3), ns_of_thousand),
       spread(), bar_against(run, "read_neighbours")});
  for (const Kernel& k : kernels)
    sheet.add({.ref = k.key,
               .words = k.words,
               .bytes = 4 * words_read(k, words, grid, turns),
               .calibrates = k.neighbours && !k.again,
               // the loop's instructions limit the last row; the model leaves them out
               .model = k.neighbours && k.again ? Model::host : model_of_pieces(run.device)});
  sheet.measure(Timing::alone, [&](const Row& row) {
    return task_of(memory(), *with_key(kernels, row.ref), turns);
  });
  sheet.predict([&](const Row& row) {
    if (!run.device) return double(NAN);
    const double spatial_ms = sheet.ms("read_neighbours");
    const double ns = spatial_ms * 1e6 / (double(words) / 1000);
    return predicted_ns(*with_key(kernels, row.ref), ns, *run.device) * (row.bytes / 4 / 1000) *
           1e-6;
  });
  sheet.print();
}
