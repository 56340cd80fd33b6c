// bank_tile: the commonest bank conflict, and its cures. A block keeps a tile of 32 x 32 words in
// shared memory [LC 4, KP], stores it by rows and loads it by columns, as a transpose does. All
// words of a column lie in one bank. Two things to look at:
//   - What one extra word per row does.
//   - The same without that word.
//
//   cmake -S 06_shared_reduce -B build/tile -DEXPERIMENTS=bank_tile
//   cmake --build build/tile && build/tile/06_shared_reduce
//
//   1  plain_tile     rows of 32 words
//   2  padded_tile    rows of 33 words
//   3  swizzled_tile  rows of 32 words, each in an order of its own
#include "../framework/common/checked.cuh"
#include "../framework/common/experiment.hpp"
#include "banks.hpp"

using namespace samples;

namespace {

// ---- kernels: 32 warps; each stores a row of the tile, side by side, then loads a column of it
// over and over. Thread 0 leaves the cycles that all of them took ----

// [plain_tile]
// The words of a column are 32 apart: all in one bank, which gives them one after the other.
__global__ void plain_tile(unsigned* out, long long* cycles, const unsigned* in, unsigned turns) {
  __shared__ volatile unsigned tile[32][32];  // volatile: each turn loads again
  const unsigned tx = threadIdx.x, ty = threadIdx.y;
  tile[ty][tx] = in[ty * 32 + tx];  // store a row
  __syncthreads();
  const long long start = clock64();
  unsigned sum = 0;
#pragma unroll 8
  for (unsigned turn = 0; turn < turns; ++turn) sum += tile[tx][ty];  // load a column
  out[ty * 32 + tx] = sum;                                            // waits for the last load,
  __syncthreads();                                                    // and for the last warp
  if (tx == 0 && ty == 0) *cycles = clock64() - start;
}
// [/plain_tile]

// [padded_tile]
// One extra word per row: the next row's word of the column is one bank further on.
__global__ void padded_tile(unsigned* out, long long* cycles, const unsigned* in, unsigned turns) {
  __shared__ volatile unsigned tile[32][33];
  const unsigned tx = threadIdx.x, ty = threadIdx.y;
  tile[ty][tx] = in[ty * 32 + tx];  // store a row
  __syncthreads();
  const long long start = clock64();
  unsigned sum = 0;
#pragma unroll 8
  for (unsigned turn = 0; turn < turns; ++turn) sum += tile[tx][ty];  // load a column
  out[ty * 32 + tx] = sum;
  __syncthreads();
  if (tx == 0 && ty == 0) *cycles = clock64() - start;
}
// [/padded_tile]

// [swizzled_tile]
// No extra word: the word of a column is kept at column ^ row. In a row that is each place once,
// and so each bank; in a column too.
__global__ void swizzled_tile(unsigned* out, long long* cycles, const unsigned* in,
                              unsigned turns) {
  __shared__ volatile unsigned tile[32][32];
  const unsigned tx = threadIdx.x, ty = threadIdx.y;
  tile[ty][tx ^ ty] = in[ty * 32 + tx];  // store a row
  __syncthreads();
  const long long start = clock64();
  unsigned sum = 0;
#pragma unroll 8
  for (unsigned turn = 0; turn < turns; ++turn) sum += tile[tx][ty ^ tx];  // load a column
  out[ty * 32 + tx] = sum;
  __syncthreads();
  if (tx == 0 && ty == 0) *cycles = clock64() - start;
}
// [/swizzled_tile]

// ---- launching them ----

constexpr unsigned tile_words = 32 * 32;
const dim3 a_thread_per_word(32, 32);

struct Tile {
  std::string_view key = {};
  const char* words = "";
  void (*kernel)(unsigned* out, long long* cycles, const unsigned* in, unsigned turns) = nullptr;
  unsigned row_words = 32;  ///< from the beginning of a row to that of the next
  bool swizzled = false;
};
const Tile tiles[] = {
    {.key = name_of<plain_tile>(), .words = "plain", .kernel = plain_tile},
    {.key = name_of<padded_tile>(), .words = "padded", .kernel = padded_tile, .row_words = 33},
    {.key = name_of<swizzled_tile>(),
     .words = "swizzled",
     .kernel = swizzled_tile,
     .swizzled = true}};

/// The lanes of warp w must have the words of column w, so many times.
struct ColumnOfWarp {
  unsigned turns;
  __device__ bool operator()(size_t thread, unsigned found) const {
    const size_t column = thread / 32, row = thread % 32;
    return found == turns * scrambled(row * 32 + column);
  }
};

/// What launches read and write.
struct Block {
  DeviceBuffer<unsigned> in = filled<unsigned>(tile_words, WordAt{});
  Output<unsigned> out = Output<unsigned>(tile_words);
  DeviceBuffer<long long> cycles = DeviceBuffer<long long>(1);
};

Task column_task(const Shared<Block>& block, const Tile& tile, unsigned turns) {
  const auto launch = [block, kernel = tile.kernel, turns] {
    kernel<<<1, a_thread_per_word>>>(block->out.data(), block->cycles.data(), block->in.data(),
                                     turns);
  };
  return {text(tile.key), launch, block->out.check(ColumnOfWarp{turns})};
}

// ---- prediction ----

/// Where a tile keeps the word of a row and a column.
unsigned place_of(const Tile& tile, unsigned row, unsigned column) {
  return row * tile.row_words + (tile.swizzled ? column ^ row : column);
}
int row_wavefronts(const Tile& tile, unsigned row) {
  return wavefronts_of(4, [&](unsigned lane) { return place_of(tile, row, lane); });
}
int column_wavefronts(const Tile& tile, unsigned column) {
  return wavefronts_of(4, [&](unsigned lane) { return place_of(tile, lane, column); });
}

/// Of the load of a column: a wavefront takes a cycle (bank_strides), and all columns are alike.
double predicted_cycles(const Tile& tile) { return column_wavefronts(tile, 0); }

// ---- the experiment ----

void run_bank_tile(const Run& run) {
  run.report.begin("bank_tile", "32 x 32 words, 4 KiB, stored by rows and loaded by columns");
  constexpr unsigned turns = 512;  // 16384 loads, beside which start and end hardly count
  Table table(run.report, "tile",
              {predicted("bytes", "size", "bytes", 0), compared("cycles", "load", "cycles", 2)});
  for (const Tile& tile : tiles) {
    const Statistics cycles = ask_for_table(run, tile.key, "load", "cycles", [&] {
      const Shared block(Block{});
      return cycles_of(column_task(block, tile, turns), block->cycles, 32.0 * turns,
                       run.measuring.repeats);
    });
    table.row({std::string(tile.key), "", "", tile.words},
              {4.0 * 32 * tile.row_words,
               Compared{predicted_cycles(tile), cycles, wavefront_model(run.device)}});
  }
  table.print();
  run.report.note("cycles of a warp's load of a column while 32 warps load");
  if (!run.device) run.report.left_out("the measured cycles");
}

// ---- what it declares ----

/// The tile has one size: n sets how often a column is loaded.
std::vector<Checked> tasks(size_t n) {
  std::vector<Checked> all;
  for (const Tile& tile : tiles) {
    const Shared block(Block{});
    all.push_back({.task = column_task(block, tile, unsigned(n % 1024 + 1)),
                   .elements = tile_words,
                   .change_one = [block] { block->out.change(0); }});
  }
  return all;
}

/// Each row is stored once, each column loaded once.
std::vector<CountedLaunch> counted() {
  std::vector<CountedLaunch> all;
  for (const Tile& tile : tiles) {
    int loads = 0, stores = 0;
    for (unsigned i = 0; i < 32; ++i) {
      loads += column_wavefronts(tile, i);
      stores += row_wavefronts(tile, i);
    }
    all.push_back({std::string(tile.key),
                   tile.words,
                   {expected_wavefronts(true, loads), expected_wavefronts(false, stores)},
                   [&tile] { return wrong_after(column_task(Shared(Block{}), tile, 1)) == 0; }});
  }
  return all;
}

}  // namespace

extern const Experiment bank_tile_experiment{.name = "bank_tile",
                                             .about = "a tile read by columns, and two cures",
                                             .run = run_bank_tile,
                                             .tasks = tasks,
                                             .counted = counted};
