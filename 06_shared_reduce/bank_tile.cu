// bank_tile: the commonest bank conflict, and its cures. A block keeps a tile of 32 x 32 words in
// shared memory [LC 4, KP], stores it by rows and loads it by columns, as a transpose does. All
// words of a column lie in one bank. Look at what one extra word per row does, and at the same
// without that word.
//   cmake -S 06_shared_reduce -B build/tile -DEXPERIMENTS=bank_tile
//   cmake --build build/tile && build/tile/06_shared_reduce
//
//   1  plain_tile     rows of 32 words
//   2  padded_tile    rows of 33 words
//   3  swizzled_tile  rows of 32 words, each in an order of its own
#include <algorithm>

#include "../common/report.hpp"
#include "banks.hpp"

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

// ---- the story in order ----

struct Tile {
  const char *name, *symbol;  ///< as shown; as in the code and in the counters' file
  void (*kernel)(unsigned* out, long long* cycles, const unsigned* in, unsigned turns);
  unsigned row_words;  ///< from the beginning of a row to that of the next
  bool swizzled;
};

const Tile tiles[] = {
    {"plain", "plain_tile", plain_tile, 32, false},
    {"padded", "padded_tile", padded_tile, 33, false},
    {"swizzled", "swizzled_tile", swizzled_tile, 32, true},
};

const dim3 a_thread_a_word(32, 32);

// ---- what is right ----

constexpr unsigned tile_words = 32 * 32;

/// The word of a row and a column.
unsigned value_of(unsigned row, unsigned column) { return value_at(row * 32 + column); }

std::vector<unsigned> values() {
  std::vector<unsigned> all;
  for (unsigned row = 0; row < 32; ++row)
    for (unsigned column = 0; column < 32; ++column) all.push_back(value_of(row, column));
  return all;
}

/// What launches read and write.
struct Block {
  static constexpr size_t canaries = 32;  ///< behind the sums of all threads

  DeviceBuffer<unsigned> in{values()};
  DeviceBuffer<unsigned> out{tile_words + canaries};
  DeviceBuffer<long long> cycles{1};

  /// The lanes of warp w must have the words of column w, so many times.
  size_t wrong(unsigned turns) const {
    const std::vector<unsigned> found = out.to_host();
    size_t wrong = cycles.to_host()[0] > 0 ? 0 : 1;
    for (unsigned warp = 0; warp < 32; ++warp)
      for (unsigned lane = 0; lane < 32; ++lane)
        wrong += found[warp * 32 + lane] != turns * value_of(lane, warp);
    for (size_t i = tile_words; i < found.size(); ++i) wrong += found[i] != ~0u;
    return wrong;
  }
  Task task(const Tile& tile, unsigned turns) {
    Check check;
    check.poison = [this] {
      out.poison();
      cycles.poison();
    };
    check.wrong = [this, turns] { return wrong(turns); };
    return {tile.symbol,
            [this, &tile, turns] {
              tile.kernel<<<1, a_thread_a_word>>>(out.data(), cycles.data(), in.data(), turns);
            },
            std::move(check)};
  }
};

// ---- what to expect ----

/// Where a tile keeps the word of a row and a column.
unsigned place_of(const Tile& tile, unsigned row, unsigned column) {
  return row * tile.row_words + (tile.swizzled ? column ^ row : column);
}
int column_wavefronts(const Tile& tile, unsigned column) {
  return wavefronts_of(4, [&](unsigned lane) { return place_of(tile, lane, column); });
}

/// Of the load of a column: a wavefront takes a cycle (bank_strides), and all columns are alike.
double predicted_cycles(const Tile& tile) { return column_wavefronts(tile, 0); }

// ---- the experiment ----

/// Cycles a load of a warp while all warps load: its share of what all took.
Statistics cycles_a_load(const Run& run, Block& block, const Tile& tile, unsigned turns) {
  require_right(block.task(tile, turns));
  const int launches = run.measuring.repeats;
  DeviceBuffer<long long> cycles(launches);
  cycles.poison();
  for (int i = 0; i < launches; ++i)
    tile.kernel<<<1, a_thread_a_word>>>(block.out.data(), cycles.data() + i, block.in.data(),
                                        turns);
  CUDA_CHECK_LAUNCH();
  std::vector<double> each;
  for (const long long c : cycles.to_host()) {
    require_right(c > 0, std::string(tile.symbol) + ", cycles");
    each.push_back(double(c) / (32.0 * turns));
  }
  return summarize(each);
}

}  // namespace

void bank_tile(const Run& run) {
  run.report.begin("bank_tile", "32 x 32 words, 4 KiB, stored by rows and loaded by columns");
  constexpr unsigned turns = 512;  // 16384 loads, beside which start and end hardly count
  Table table(run.report, "tile",
              {predicted("bytes", "size", "bytes", 0), compared("cycles", "load", "cycles", 2)});
  std::vector<Block> block(run.device ? 1 : 0);
  for (const Tile& tile : tiles) {
    const double bytes = 4.0 * 32 * tile.row_words;
    const Statistics cycles = run.device ? cycles_a_load(run, block[0], tile, turns) : Statistics{};
    table.row({tile.name},
              {bytes, Compared{predicted_cycles(tile), cycles, wavefront_model(run.device)}});
  }
  table.print();
  run.report.note("cycles of a warp's load of a column while 32 warps load");
  if (!run.device) run.report.left_out("the measured cycles");
}
