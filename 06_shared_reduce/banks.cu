// banks: what does it cost if lanes of a warp want different words of one bank? The guide walks
// through its strided sum [KP]: 2-way conflicts in the first step, 4-way in the second, then 8-way
// and 16-way. Strides that descend have none.
//
// Look at the steps first (they need no GPU): where does the guide's block of 256 threads stop?
// Then at the reads: which strides are free? The wiki's transpose reads a tile by columns [LC 4]:
// the worst stride of all, until a word of padding makes it odd.
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o banks banks.cu ../common/*.cpp
//
//   1  read_words   a warp reads words of 4, 8 or 16 bytes that lie a stride apart
//   2  read_column  a warp reads a column of a tile: plain, padded, swizzled
#include <numeric>

#include "../common/arrays.cuh"
#include "../common/sample.hpp"
#include "banks.hpp"

namespace {

// ---- kernels: one block, alone on its multiprocessor. Each thread adds up what it reads, and
// thread 0 says how many cycles all warps took ----

constexpr unsigned loads_per_turn = 8;    // so that the loop around them hardly counts
constexpr unsigned max_stride = 33;       // words
constexpr unsigned word_count = 33 * 32;  // the last lane's last word is number 31 * 33 + 7

__device__ unsigned total(unsigned word) { return word; }
__device__ unsigned total(uint2 word) { return word.x + word.y; }
__device__ unsigned total(uint4 word) { return word.x + word.y + word.z + word.w; }

// The block fills shared memory, side by side. Then, over and over, lane i of each warp loads word
// i * stride and the seven behind it: all lanes move on together, so all loads conflict alike.
template <class Word>
__global__ void read_words(unsigned* out, long long* cycles, const Word* in, unsigned stride,
                           unsigned turns) {
  __shared__ Word word[word_count];
  for (unsigned i = threadIdx.x; i < word_count; i += blockDim.x) word[i] = in[i];  // fill
  __syncthreads();

  const unsigned first = threadIdx.x % 32 * stride;
  unsigned sum = 0;
  const long long start = clock64();
#pragma unroll 1
  for (unsigned turn = 0; turn < turns; ++turn) {
    __syncwarp();  // another lane could have stored: the same words have to be loaded again
#pragma unroll
    for (unsigned load = 0; load < loads_per_turn; ++load) sum += total(word[first + load]);
  }
  out[threadIdx.x] = sum;  // waits for the last load,
  __syncthreads();         // and for the last warp
  if (threadIdx.x == 0) *cycles = clock64() - start;
}

// Each of 32 warps stores a row of the tile, side by side, then loads a column of it over and over.
//   plain     rows of 32 words: the words of a column are 32 apart, all of them in one bank
//   padded    rows of 33: the next row's word of the column is one bank further on
//   swizzled  rows of 32; the word of a column lies at column ^ row: another bank in each row
template <unsigned row_words, bool swizzled>
__global__ void read_column(unsigned* out, long long* cycles, const unsigned* in, unsigned turns) {
  __shared__ volatile unsigned tile[32][row_words];  // volatile: each turn loads again
  const unsigned tx = threadIdx.x, ty = threadIdx.y;
  tile[ty][swizzled ? tx ^ ty : tx] = in[ty * 32 + tx];  // store a row
  __syncthreads();
  const long long start = clock64();
  unsigned sum = 0;
#pragma unroll 8
  for (unsigned turn = 0; turn < turns; ++turn)
    sum += tile[tx][swizzled ? ty ^ tx : ty];  // load a column
  out[ty * 32 + tx] = sum;
  __syncthreads();
  if (tx == 0 && ty == 0) *cycles = clock64() - start;
}

// ---- what must come out ----

/// What a block of so many threads reads and writes.
struct Memory {
  DeviceBuffer<unsigned> in;
  GuardedBuffer<unsigned> out;
  DeviceBuffer<long long> cycles;
};
Memory memory(size_t threads) {
  const auto word = [] __device__(size_t i) { return hash(i); };
  return {filled<unsigned>(word_count * sizeof(uint4) / sizeof(unsigned), word),
          GuardedBuffer<unsigned>(threads), DeviceBuffer<long long>(1)};
}

/// What a lane adds up in a turn: eight words of `parts` times 4 bytes, from its first one on.
__host__ __device__ unsigned sum_of_turn(unsigned lane, unsigned stride, unsigned parts) {
  unsigned sum = 0;
  for (unsigned part = 0; part < loads_per_turn * parts; ++part)
    sum += hash(lane * stride * parts + part);
  return sum;
}

// ---- the prediction: a wavefront takes a cycle, in which each bank gives a word of 4 bytes ----

int wavefronts_at(unsigned bytes, unsigned stride) {
  return wavefronts(bytes, [=](unsigned lane) { return lane * stride; });
}

struct Tile {
  const char* name;
  void (*kernel)(unsigned* out, long long* cycles, const unsigned* in, unsigned turns);
  unsigned row_words;
  bool swizzled;
};
template <unsigned row_words, bool swizzled>
Tile tile(const char* name) {
  return {name, read_column<row_words, swizzled>, row_words, swizzled};
}
unsigned place_of(const Tile& tile, unsigned row, unsigned column) {
  return row * tile.row_words + (tile.swizzled ? column ^ row : column);
}
int column_wavefronts(const Tile& tile, unsigned column) {
  return wavefronts(4, [=](unsigned lane) { return place_of(tile, lane, column); });
}

Step step(Order order, unsigned k, unsigned threads) {
  return step_wavefronts(order, stride_of(order, k, threads), threads);
}
/// Of all steps: their wavefronts, and the worst conflict.
Step all_steps(Order order, unsigned threads) {
  Step all;
  for (unsigned k = 0; 1u << k < threads; ++k) {
    all.wavefronts += step(order, k, threads).wavefronts;
    all.degree = std::max(all.degree, step(order, k, threads).degree);
  }
  return all;
}

// ---- the launches: add yours here ----

const Tile tiles[] = {tile<32, false>("plain"), tile<33, false>("padded"),
                      tile<32, true>("swizzled")};

constexpr unsigned warps = 32;  // of a timed block: there is always one whose load is due

struct Kernel {
  Benchmark benchmark;  ///< name, launch, what must come out
  unsigned loads;       ///< of each warp, while the clock runs
  int wavefronts;       ///< predicted, of such a load
  int stores;           ///< wavefronts of the stores that fill shared memory
};

template <class Word>
Kernel kernel(const Memory& m, unsigned stride, unsigned turns) {
  constexpr unsigned bytes = sizeof(Word);
  const auto in = m.in.as<Word>();
  const auto work = [=] {
    read_words<Word><<<1, unsigned(m.out.size())>>>(m.out, m.cycles, in, stride, turns);
  };
  const auto sum = [stride, turns] __device__(size_t thread) {
    return turns * sum_of_turn(unsigned(thread % 32), stride, bytes / sizeof(unsigned));
  };
  const std::string name = std::to_string(stride) + ", " + std::to_string(bytes) + " bytes";
  return {.benchmark = {name, work, equals(m.out, sum)},
          .loads = turns * loads_per_turn,
          .wavefronts = wavefronts_at(bytes, stride),
          .stores = int(word_count / 32) * wavefronts_at(bytes, 1)};
}

Kernel kernel(const Memory& m, const Tile& tile, unsigned turns) {
  const auto work = [=] { tile.kernel<<<1, dim3(32, 32)>>>(m.out, m.cycles, m.in, turns); };
  const auto sum = [turns] __device__(size_t thread) {  // warp w adds up column w
    return turns * hash(thread % 32 * 32 + thread / 32);
  };
  return {.benchmark = {tile.name, work, equals(m.out, sum)},
          .loads = turns,
          .wavefronts = column_wavefronts(tile, 0),
          .stores = warps};
}

}  // namespace

void banks_steps(Run& run) {
  run.title("the steps of the guide's three sums (computed)");
  Table table("n-way conflict in step",
              {"1", "2", "3", "4", "5", "6", "7", "8", "9", "wavefronts"});
  table.row("strided, in the text", {"2", "4", "8", "16", "", "", "", "", "", ""});
  const auto row = [&](const char* name, Order order, unsigned threads) {
    const auto ways = [&](unsigned k) {
      return 1u << k < threads ? Cell(step(order, k, threads).degree) : Cell("");
    };
    table.row(name, {ways(0), ways(1), ways(2), ways(3), ways(4), ways(5), ways(6), ways(7),
                     ways(8), all_steps(order, threads).wavefronts});
  };
  row("strided, 256 threads", Order::strided, 256);
  row("strided, 512 threads", Order::strided, 512);
  row("modulo, 256 threads", Order::modulo, 256);
  row("descending, 256 threads", Order::descending, 256);
  run.print(table);
  run.note("256 words are 8 rows of the 32 banks: no bank has more than 8 of them");
  run.note("modulo has no conflict, but all warps add: as many wavefronts as strided");
}

void banks(Run& run) {
  const Memory m = memory(32 * warps);
  run.title("32 warps of a block read shared memory");
  Table counts("of a block, loads and stores", {"wavefronts"});  // for tools/profile.py
  // Cycles of a warp's load, by the multiprocessor's own clock. It does not matter how fast that
  // runs, so six launches are enough.
  const auto measured = [&](const Kernel& kernel) {
    counts.row(kernel.benchmark.name, {warps * kernel.loads * kernel.wavefronts + kernel.stores});
    require_right(kernel.benchmark);
    std::vector<double> of_launches;
    for (int launch = 0; launch < 6; ++launch) {
      kernel.benchmark.work();
      CUDA_CHECK_LAUNCH();
      of_launches.push_back(double(m.cycles.to_host()[0]) / (warps * kernel.loads));
    }
    return interval_of_median(of_launches, run_to_run_device);
  };
  constexpr unsigned loads = 512;  // of each warp, beside which start and end hardly count

  Table strides("stride, words", {"predicted for 4", "4 bytes", "predicted for 8", "8 bytes",
                                  "predicted for 16", "16 bytes"});
  for (const unsigned stride : {1, 2, 4, 8, 16, 31, 32, 33}) {
    constexpr unsigned turns = loads / loads_per_turn;
    const Kernel of_4 = kernel<unsigned>(m, stride, turns), of_8 = kernel<uint2>(m, stride, turns),
                 of_16 = kernel<uint4>(m, stride, turns);
    strides.row(std::to_string(stride), {of_4.wavefronts, measured(of_4), of_8.wavefronts,
                                         measured(of_8), of_16.wavefronts, measured(of_16)});
  }
  run.print(strides);
  run.note("cycles of a warp's load, while 32 warps load; predicted: its wavefronts");
  run.note(
      "words of 8 and 16 bytes: at stride 1 each wavefront gives 128 bytes, so none conflicts");

  Table columns("a tile of 32 x 32 words", {"bytes", "predicted", "cycles per load of a column"});
  for (const Tile& tile : tiles) {
    const Kernel column = kernel(m, tile, loads);
    columns.row(tile.name,
                {32 * tile.row_words * sizeof(unsigned), column.wavefronts, measured(column)});
  }
  run.print(columns);
  run.save(counts);

  const auto name = [](unsigned stride) { return "all reads at stride " + std::to_string(stride); };
  std::vector<Benchmark> benchmarks;
  for (const unsigned stride : {1, 2, 4, 8, 16}) {
    // 1024 turns take 0.13 ms at stride 1: a launch and the stores hardly count
    benchmarks.push_back(kernel<unsigned>(m, stride, 1024).benchmark);
    benchmarks.back().name = name(stride);
  }
  const Timings timed = run.timer.interleaved(benchmarks);
  std::vector<Interval> shares;
  for (const unsigned stride : {2, 4, 8, 16})
    shares.push_back(ratio(timed[name(stride)], timed[name(1)]) / stride);
  run.claim_each({"06.3a", "strides of 2, 4, 8, 16 words make 2-, 4-, 8-, 16-way conflicts",
                  "[KP] two-way, four-way, \"8-way and 16-way bank conflicts\""},
                 shares, "time at stride k / k times stride 1", about(1));

  const int of_256 = all_steps(Order::strided, 256).degree;
  run.computed({"06.3b", "as reduce1 goes on, 16-way conflicts occur with 256 threads",
                "[KP] \"8-way and 16-way bank conflicts will occur\""},
               of_256 >= 16,
               std::to_string(of_256) + "-way at most, 256 words in 32 banks; with 512 threads: " +
                   std::to_string(all_steps(Order::strided, 512).degree) + "-way");
}
SAMPLE(6, banks, "bank conflicts: of a sum's steps, of strides, of a tile", banks_steps);

TEST_CASE("banks: wavefronts by hand") {
  for (unsigned stride = 1; stride <= max_stride; ++stride)
    CHECK(wavefronts_at(4, stride) == int(std::gcd(stride, 32u)));
  const int of_8[] = {2, 4, 2, 8, 2, 4, 2, 16};  // strides 1 to 8
  for (unsigned i = 0; i < 8; ++i) CHECK(wavefronts_at(8, i + 1) == of_8[i]);
  CHECK(wavefronts_at(16, 1) == 4);
  CHECK(wavefronts_at(16, 2) == 8);
  CHECK(wavefronts_at(16, 8) == 32);
  using Lane = unsigned;
  CHECK(wavefronts(4, [](Lane) { return 7; }) == 1);  // all lanes want one word
  CHECK(wavefronts(4, [](Lane i) { return i / 2 * 32; }) == 16);
  CHECK(wavefronts(4, [](Lane i) { return i ? idle : 7; }) == 1);
  CHECK(wavefronts(4, [](Lane) { return idle; }) == 0);
  CHECK(wavefronts(8, [](Lane i) { return i < 16 ? long(i) : idle; }) == 1);
}

TEST_CASE("banks: a strided sum peaks at 8-way with 256 threads, at 16-way with 512") {
  const int of_256[] = {2, 4, 8, 8, 8, 4, 2, 1}, of_512[] = {2, 4, 8, 16, 16, 8, 4, 2, 1};
  for (unsigned k = 0; k < 8; ++k) CHECK(step(Order::strided, k, 256).degree == of_256[k]);
  for (unsigned k = 0; k < 9; ++k) CHECK(step(Order::strided, k, 512).degree == of_512[k]);
  CHECK(all_steps(Order::strided, 1024).degree == 32);
  for (unsigned n = 32; n <= 1024; n *= 2)
    for (const Order other : {Order::modulo, Order::descending})
      CHECK(all_steps(other, n).degree == 1);
}

TEST_CASE("banks: wavefronts of the steps of 256 threads, by hand") {
  const int of_modulo[] = {8, 8, 8, 8, 8, 4, 2, 1};  // warps that add, a wavefront each
  const int of_strided[] = {4 * 2, 2 * 4, 8, 8, 8, 4, 2, 1};
  const int of_descending[] = {4, 2, 1, 1, 1, 1, 1, 1};
  for (unsigned k = 0; k < 8; ++k) {  // two loads and a store
    CHECK(step(Order::modulo, k, 256).wavefronts == 3 * of_modulo[k]);
    CHECK(step(Order::strided, k, 256).wavefronts == 3 * of_strided[k]);
    CHECK(step(Order::descending, k, 256).wavefronts == 3 * of_descending[k]);
  }
  CHECK(all_steps(Order::strided, 256).wavefronts == 3 * 47);
}

TEST_CASE("banks: a step uses a word once, and all steps add up every word") {
  CHECK(addition(Order::strided, 2, 16, 256).left == 64);
  CHECK(addition(Order::strided, 2, 16, 256).right == 66);  // the guide says 68,
  CHECK(addition(Order::strided, 2, 24, 256).left == 96);
  CHECK(addition(Order::strided, 2, 24, 256).right == 98);  // and 100
  for (const Order order : {Order::modulo, Order::strided, Order::descending})
    for (unsigned n = 2; n <= 1024; n *= 2) {
      std::vector<unsigned> word(n);
      unsigned sum = 0;
      for (unsigned i = 0; i < n; ++i) sum += word[i] = hash(i);
      for (unsigned k = 0; 1u << k < n; ++k) {
        std::set<unsigned> used;
        for (unsigned tid = 0; tid < n; ++tid) {
          const Addition a = addition(order, stride_of(order, k, n), tid, n);
          if (!a.active) continue;
          REQUIRE(std::max(a.left, a.right) < n);
          REQUIRE(used.insert(a.left).second);
          REQUIRE(used.insert(a.right).second);
          word[a.left] += word[a.right];
        }
      }
      CHECK(word[0] == sum);
    }
}

TEST_CASE("banks: each tile holds every word once, and two of them cure the columns") {
  for (const Tile& tile : tiles) {
    CAPTURE(tile.name);
    std::set<unsigned> places;
    for (unsigned i = 0; i < 32 * 32; ++i) places.insert(place_of(tile, i / 32, i % 32));
    CHECK(places.size() == 32 * 32);
    CHECK(*places.rbegin() < 32 * tile.row_words);
    for (unsigned row = 0; row < 32; ++row)
      CHECK(wavefronts(4, [&](unsigned lane) { return place_of(tile, row, lane); }) == 1);
  }
  for (unsigned column = 0; column < 32; ++column) {
    CHECK(column_wavefronts(tile<32, false>("plain"), column) == 32);
    CHECK(column_wavefronts(tile<33, false>("padded"), column) == 1);
    CHECK(column_wavefronts(tile<32, true>("swizzled"), column) == 1);
  }
}

TEST_CASE("banks: each thread has the sum of its words, by blocks of any size") {
  unsigned by_hand = 0;
  for (unsigned i = 12; i < 28; ++i) by_hand += hash(i);  // words 6 to 13, of 8 bytes each
  CHECK(sum_of_turn(2, 3, 2) == by_hand);
  if (skip_without_gpu()) return;
  const auto check = [](const Kernel& read, const Kernel& other) {
    CAPTURE(read.benchmark.name);
    CHECK_NOTHROW(require_right(read.benchmark));
    CHECK(other.benchmark.check.find_error() != "");
  };
  for (const size_t threads : {1, 33, 97, 1024}) {
    CAPTURE(threads);
    const Memory m = memory(threads);
    for (const unsigned turns : {1, 7, 130})
      for (const unsigned stride : {1u, 2u, 7u, 16u, max_stride}) {
        const Kernel of_4 = kernel<unsigned>(m, stride, turns);
        check(of_4, kernel<unsigned>(m, stride, turns + 1));
        check(kernel<uint2>(m, stride, turns), of_4);
        check(kernel<uint4>(m, stride, turns), of_4);
      }
  }
  const Memory m = memory(32 * 32);
  for (const Tile& tile : tiles)
    for (const unsigned turns : {1, 7, 130})
      check(kernel(m, tile, turns), kernel(m, tile, turns + 1));
}
