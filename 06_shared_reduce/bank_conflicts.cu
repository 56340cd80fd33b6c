// bank_conflicts: shared memory has 32 banks, each one word of 4 bytes wide; lanes of a warp that want different words
// of one bank wait for each other. The guide finds 2-, 4-, 8- and 16-way conflicts in the steps of its strided
// reduction and none when the stride descends. Look at where 256 threads stop short of 16, at cycles that follow the
// prediction, at wider words, which are served to a part of the warp at a time, and at the two cures.
#include <doctest/doctest.h>

#include <numeric>
#include <tuple>

#include "../common/first_edition.hpp"
#include "banks.hpp"

namespace {

// ---- the index functions: kernels, prediction and self-checks share them --------------------------------------------

constexpr unsigned max_stride = 33;
constexpr unsigned loads_a_turn = 8;  // so that the loop around them hardly counts
/// The word that a lane reads in one of the loads of a turn: all lanes move on by a word from load to load.
__host__ __device__ unsigned word_of(unsigned lane, unsigned stride, unsigned load) { return lane * stride + load; }
constexpr unsigned read_words = 33 * 32;  // whole warps fill it
static_assert(31 * max_stride + loads_a_turn - 1 < read_words);

enum class Layout { plain, padded, swizzled };
constexpr Layout layouts[] = {Layout::plain, Layout::padded, Layout::swizzled};
const std::string layout_names[] = {"plain", "padded", "swizzled"};
constexpr unsigned tile_words[] = {32 * 32, 32 * 33, 32 * 32};

/// Where a 32 x 32 tile keeps the word of a row and a column: row after row; rows one word longer, so that a column
/// moves on by a bank in each row; or row after row with the words of each row permuted among its banks.
__host__ __device__ unsigned tile_index(Layout layout, unsigned row, unsigned column) {
  if (layout == Layout::padded) return row * 33 + column;
  return row * 32 + (layout == Layout::swizzled ? column ^ row : column);
}

/// What memory holds at the 4-byte word i.
__host__ __device__ unsigned pattern(unsigned i) { return 0x9e3779b1u * (i + 1); }

// ---- kernels --------------------------------------------------------------------------------------------------------

constexpr unsigned max_threads = 1024;
// Each warp stores its 32 words side by side; in each step those threads that add load two words and store one, where
// the step says; at the end each warp loads its words side by side.
__device__ void run_steps(unsigned* out, const unsigned* in, Reduction which, unsigned first, unsigned end) {
  __shared__ unsigned word[max_threads];
  const unsigned tid = threadIdx.x;
  word[tid] = in[tid];
  __syncthreads();
  for (unsigned k = first; k < end; ++k) {
    const Step step = step_of(which, k, tid, blockDim.x);
    if (step.active) word[step.left] += word[step.right];
    __syncthreads();
  }
  out[tid] = word[tid];
}
// The counters see a kernel, so each step has a launch of its own, and so have all steps together.
__global__ void one_step(unsigned* out, const unsigned* in, Reduction which, unsigned k) {
  run_steps(out, in, which, k, k + 1);
}
__global__ void whole_reduction(unsigned* out, const unsigned* in, Reduction which) {
  run_steps(out, in, which, 0, step_count(blockDim.x));
}

/// A word of 4, 8 or 16 bytes, aligned so that one load takes it.
template <unsigned parts>
struct alignas(4 * parts) Word {
  unsigned part[parts];
};

// Each warp fills words side by side, then loads words that lie `stride` words apart from lane to lane.
template <unsigned parts>
__global__ void read_strided(unsigned* sums, long long* cycles, unsigned stride, unsigned turns) {
  __shared__ Word<parts> words[read_words];
  for (unsigned i = threadIdx.x; i < read_words; i += blockDim.x)
    for (unsigned p = 0; p < parts; ++p) words[i].part[p] = pattern(i * parts + p);
  __syncthreads();
  const long long start = clock64();
  unsigned sum = 0;
#pragma unroll 1
  for (unsigned turn = 0; turn < turns; ++turn) {
    __syncwarp();  // another lane could have stored here: the compiler has to load the same words again
#pragma unroll
    for (unsigned load = 0; load < loads_a_turn; ++load) {
      const Word<parts> word = words[word_of(threadIdx.x % 32, stride, load)];
      for (unsigned p = 0; p < parts; ++p) sum += word.part[p];
    }
  }
  sums[threadIdx.x] = sum;  // waits for the last load
  __syncthreads();
  if (threadIdx.x == 0) *cycles = clock64() - start;
}

// 32 warps: each stores a row of the tile side by side, then loads a column of it, over and over.
__global__ void transpose_tile(unsigned* out, long long* cycles, Layout layout, unsigned times) {
  __shared__ unsigned tile[32 * 33];
  const unsigned lane = threadIdx.x, warp = threadIdx.y;
  tile[tile_index(layout, warp, lane)] = pattern(warp * 32 + lane);
  const volatile unsigned& word = tile[tile_index(layout, lane, warp)];  // volatile: loaded each time
  __syncthreads();
  const long long start = clock64();
  unsigned sum = 0;
#pragma unroll 8
  for (unsigned time = 0; time < times; ++time) sum += word;
  out[warp * 32 + lane] = sum;  // waits for the last load
  __syncthreads();
  if (lane == 0 && warp == 0) *cycles = clock64() - start;
}

// ---- prediction -----------------------------------------------------------------------------------------------------

int strided_wavefronts(unsigned bytes, unsigned stride, unsigned load = 0) {
  return wavefronts_of(bytes, [=](unsigned lane) { return word_of(lane, stride, load); });
}
int row_wavefronts(Layout layout, unsigned row) {
  return wavefronts_of(4, [=](unsigned lane) { return tile_index(layout, row, lane); });
}
int column_wavefronts(Layout layout, unsigned column) {
  return wavefronts_of(4, [=](unsigned lane) { return tile_index(layout, lane, column); });
}
/// What run_steps does to shared memory in a block of n threads.
Traffic traffic_of(Reduction which, unsigned first, unsigned end, unsigned n) {
  Traffic all;
  for (unsigned warp = 0; warp < n / 32; ++warp) all.store(1), all.load(1);
  for (unsigned k = first; k < end; ++k)
    all.add(step_traffic(n, [=](unsigned tid) { return step_of(which, k, tid, n); }));
  return all;
}
int degree(Reduction which, unsigned k, unsigned n) { return traffic_of(which, k, k + 1, n).degree; }
int peak_degree(Reduction which, unsigned n) { return traffic_of(which, 0, step_count(n), n).degree; }

// ---- the experiment: each run_... throws WrongResult unless all that its kernel wrote is right ----------------------

/// Steps `first` to before `end`: all of them, or one.
void run_reduction(Reduction which, unsigned first, unsigned end, unsigned n) {
  std::vector<unsigned> words(n);
  for (unsigned i = 0; i < n; ++i) words[i] = pattern(i);
  const DeviceBuffer<unsigned> in(words);
  DeviceBuffer<unsigned> out(n);
  out.poison();
  if (end == first + 1)
    one_step<<<1, n>>>(out.data(), in.data(), which, first);
  else
    whole_reduction<<<1, n>>>(out.data(), in.data(), which);
  CUDA_CHECK_LAUNCH();
  for (unsigned k = first; k < end; ++k)
    for (unsigned tid = 0; tid < n; ++tid)  // in a step no thread reads what another writes: any order will do
      if (const Step step = step_of(which, k, tid, n); step.active) words[step.left] += words[step.right];
  require_right(out.to_host() == words, "reduction, " + reduction_names[int(which)]);
}

/// Cycles a load of all `loads` of the block, in each launch but the first of several, which fetches the code.
template <class Launch>
Statistics cycles_a_load(int launches, unsigned loads, const Launch& launch) {
  DeviceBuffer<long long> cycles(launches);
  cycles.poison();
  for (int i = 0; i < launches; ++i) launch(cycles.data() + i);
  CUDA_CHECK_LAUNCH();
  std::vector<double> each;
  for (long long c : cycles.to_host()) require_right(c > 0, "no cycles"), each.push_back(double(c) / loads);
  if (launches > 1) each.erase(each.begin());
  return summarize(each);
}

Statistics run_strided(unsigned bytes, unsigned stride, unsigned threads, unsigned turns, int launches) {
  const auto kernel = bytes == 4 ? read_strided<1> : bytes == 8 ? read_strided<2> : read_strided<4>;
  DeviceBuffer<unsigned> sums(threads);
  sums.poison();
  const Statistics s = cycles_a_load(launches, threads / 32 * turns * loads_a_turn, [&](long long* cycles) {
    kernel<<<1, threads>>>(sums.data(), cycles, stride, turns);
  });
  const std::vector<unsigned> got = sums.to_host();
  for (unsigned tid = 0; tid < threads; ++tid) {
    const unsigned parts = bytes / 4, first = parts * word_of(tid % 32, stride, 0);
    unsigned sum = 0;  // of the eight neighbours that one turn loads
    for (unsigned i = 0; i < parts * loads_a_turn; ++i) sum += pattern(first + i);
    require_right(got[tid] == turns * sum, "read_strided, stride " + std::to_string(stride));
  }
  return s;
}

Statistics run_tile(Layout layout, unsigned times, int launches) {
  DeviceBuffer<unsigned> out(32 * 32);
  out.poison();
  const Statistics s = cycles_a_load(launches, 32 * times, [&](long long* cycles) {
    transpose_tile<<<1, dim3(32, 32)>>>(out.data(), cycles, layout, times);
  });
  const std::vector<unsigned> got = out.to_host();
  for (unsigned i = 0; i < 32 * 32; ++i)
    require_right(got[i] == times * pattern(i % 32 * 32 + i / 32), "transpose_tile, " + layout_names[int(layout)]);
  return s;
}

/// Each launch whose wavefronts the hardware is to count.
std::vector<CountedLaunch> counted_launches() {
  std::vector<CountedLaunch> all;
  const auto visit = [&](const char* kernel, const std::string& parameter, const Traffic& t, auto launch) {
    all.push_back({kernel, parameter, {expected_wavefronts(true, t.loads), expected_wavefronts(false, t.stores)}, [=] {
                     return launch(), true;
                   }});  // it throws if its result is wrong
  };
  for (unsigned bytes : {4u, 8u, 16u})
    for (unsigned stride = 1; stride <= max_stride; ++stride) {
      const int best = int(bytes / 4);
      Traffic t;
      for (unsigned i = 0; i < read_words; i += 32) t.store(best, best);
      for (unsigned load = 0; load < loads_a_turn; ++load) t.load(strided_wavefronts(bytes, stride, load), best);
      visit("read_strided", std::to_string(bytes) + " bytes stride " + std::to_string(stride), t,
            [=] { run_strided(bytes, stride, 32, 1, 1); });
    }
  for (bool whole : {false, true})
    for (unsigned n : {256u, 512u})
      for (Reduction which : reductions)
        for (unsigned k = 0; k < (whole ? 1 : step_count(n)); ++k) {
          const unsigned end = whole ? step_count(n) : k + 1;
          visit(whole ? "whole_reduction" : "one_step",
                std::to_string(n) + " threads " + reduction_names[int(which)] +
                    (whole ? "" : " step " + std::to_string(end)),
                traffic_of(which, k, end, n), [=] { run_reduction(which, k, end, n); });
        }
  for (Layout layout : layouts) {
    Traffic t;
    for (unsigned i = 0; i < 32; ++i) t.store(row_wavefronts(layout, i)), t.load(column_wavefronts(layout, i));
    visit("transpose_tile", layout_names[int(layout)], t, [=] { run_tile(layout, 1, 1); });
  }
  return all;
}

const Claim doubling{"06.3", "bank conflicts double in each step of the strided reduction: 2, 4, 8, 16-way",
                     "vendor's guide", "2, 4, 8, 16"};

/// A read at stride 2^k is 2^k-way. Doubling holds if each costs its factor over stride 1 within the share allowed for
/// stated factors; how far the 256 threads of the text get is the model's to say.
Judgement judge_doubling(const Statistics* at_stride) {
  const int peak = peak_degree(Reduction::strided, 256), of_512 = peak_degree(Reduction::strided, 512);
  Judgement all{peak < 16 ? Verdict::holds_by_less : Verdict::holds,
                "256 threads peak at " + std::to_string(peak) + "-way, 512 at " + std::to_string(of_512) +
                    "-way; cycles at strides 2, 4, 8, 16 to stride 1:",
                double(peak), "ways"};
  for (unsigned stride : {2u, 4u, 8u, 16u}) {
    const Judgement j = judge_ratio(at_stride[stride], at_stride[1], stride);
    if (j.verdict != Verdict::holds) all.verdict = Verdict::does_not_hold;
    all.here.append(" ").append(j.here);
  }
  return all;
}

}  // namespace

void bank_conflicts(const Run& run) {
  run.report.begin("bank_conflicts", "a block's sum of 256 or 512 words, 1 or 2 KiB; reads at strides 1 to 33");
  std::vector<Column> columns;
  for (unsigned k = 1; k <= step_count(512); ++k)
    columns.push_back(predicted(std::to_string(k), "step " + std::to_string(k), "ways", 0));
  columns.push_back(predicted("wavefronts", "wavefronts", "wavefronts", 0));
  columns.push_back(predicted("over ideal", "wavefronts over ideal", "x", 2));
  Table steps(run.report, "reduction, threads: n-way conflict in step", columns);
  steps.row({"strided, in the text"}, {"2", "4", "8", "16", "", "", "", "", "", "", ""});
  for (unsigned n : {256u, 512u})
    for (Reduction which : reductions) {
      std::vector<Cell> cells(step_count(512), Cell{""});
      for (unsigned k = 0; k < step_count(n); ++k) cells[k] = double(degree(which, k, n));
      const Traffic all = traffic_of(which, 0, step_count(n), n);
      cells.insert(cells.end(), {double(all.taken()), double(all.taken()) / all.ideal});
      steps.row({reduction_names[int(which)], "threads", std::to_string(n)}, cells);
    }
  steps.print();

  const unsigned turns = run.quick ? 8 : 64;  // 2048 and 16384 loads, beside which start and end hardly count
  Table table(
      run.report, "cycles a warp's load, stride in words",
      {predicted("4 B predicted", "4-byte load", "cycles", 0), measured("measured", "4-byte load", "cycles", 2),
       predicted("8 B predicted", "8-byte load", "cycles", 0), measured("measured", "8-byte load", "cycles", 2),
       predicted("16 B predicted", "16-byte load", "cycles", 0), measured("measured", "16-byte load", "cycles", 2)});
  Statistics at_stride[max_stride + 1];
  for (unsigned stride = 1; stride <= max_stride; ++stride) {
    if (run.quick && stride > 4 && stride % 8 > 1) continue;
    std::vector<Cell> cells;
    for (unsigned bytes : {4u, 8u, 16u}) {
      cells.insert(cells.end(), {double(strided_wavefronts(bytes, stride)), {}});
      if (run.device) cells.back() = run_strided(bytes, stride, max_threads, turns, run.measuring.repeats + 1);
    }
    const Cell& words = cells[1];  // of 4 bytes
    if (run.device) at_stride[stride] = {words.value, words.low, words.high, words.repeats};
    table.row({"", "stride", std::to_string(stride)}, cells);
  }
  table.print();
  run.report.note("a wavefront: a pass through the banks, in a cycle; measured: a load's share while 32 warps load");

  Table cures(
      run.report, "32 x 32 tile read by columns",
      {predicted("tile bytes", "tile", "bytes", 0), predicted("cycles: predicted", "cycles a load", "cycles", 0),
       measured("measured", "cycles a load", "cycles", 2)});
  for (Layout layout : layouts)
    cures.row({layout_names[int(layout)]},
              {4.0 * tile_words[int(layout)], double(column_wavefronts(layout, 0)),
               run.device ? Cell{run_tile(layout, turns * loads_a_turn, run.measuring.repeats + 1)} : Cell{}});
  cures.print();
  if (!run.device) return run.report.left_out("the measured cycles", {doubling});
  run.report.claim(doubling, judge_doubling(at_stride));
}

// ---- self-checks ----------------------------------------------------------------------------------------------------

TEST_CASE("bank_conflicts: the model gives the published examples and serves a word wanted twice once") {
  const int examples[][3] = {{4, 1, 1}, {4, 2, 2},  {4, 3, 1},  {4, 8, 8},  {4, 32, 32}, {4, 33, 1},
                             {8, 1, 2}, {8, 8, 16}, {16, 1, 4}, {16, 2, 8}, {16, 8, 32}};
  for (const auto& [bytes, stride, expected] : examples) CHECK(strided_wavefronts(bytes, stride) == expected);
  for (unsigned stride = 1; stride <= max_stride; ++stride) {
    CHECK(strided_wavefronts(4, stride) == std::gcd(stride, 32));
    for (unsigned load = 1; load < loads_a_turn; ++load)  // all lanes have moved on by as much: the same conflicts
      for (unsigned bytes : {4u, 8u, 16u})
        CHECK(strided_wavefronts(bytes, stride, load) == strided_wavefronts(bytes, stride));
  }
  Lanes lanes;
  for (unsigned lane = 0; lane < 32; ++lane) lanes[lane] = lane / 2 * 32;  // 16 words of bank 0, each for two lanes
  CHECK(wavefronts(lanes) == 16);
  for (unsigned lane = 1; lane < 32; ++lane) lanes[lane] = idle;
  CHECK(wavefronts(lanes) == 1);
  lanes[0] = idle;
  CHECK(wavefronts(lanes) == 0);
}

TEST_CASE("bank_conflicts: the strided reduction peaks at 8 with 256 threads and at 16 with 512") {
  const int of_256[] = {2, 4, 8, 8, 8, 4, 2, 1}, of_512[] = {2, 4, 8, 16, 16, 8, 4, 2, 1};
  for (unsigned k = 0; k < 8; ++k) CHECK(degree(Reduction::strided, k, 256) == of_256[k]);
  for (unsigned k = 0; k < 9; ++k) CHECK(degree(Reduction::strided, k, 512) == of_512[k]);
  CHECK(peak_degree(Reduction::strided, 1024) == 32);
  for (unsigned n = 32; n <= max_threads; n *= 2)
    for (Reduction other : {Reduction::modulo, Reduction::descending}) CHECK(peak_degree(other, n) == 1);
  // all steps of 256 threads by hand: strided and descending have 4, 2, 1, 1, 1, 1, 1, 1 warps that add
  const int strided = 4 * 2 + 2 * 4 + 8 + 8 + 8 + 4 + 2 + 1, descending = 4 + 2 + 6, modulo = 5 * 8 + 4 + 2 + 1;
  const int adds[] = {modulo, strided, descending}, ideal[] = {modulo, descending, descending};
  for (Reduction which : reductions) {
    const Traffic t = traffic_of(which, 0, 8, 256);
    CHECK(t.loads == 2 * adds[int(which)] + 8);
    CHECK(t.stores == adds[int(which)] + 8);
    CHECK(t.ideal == 3 * ideal[int(which)] + 16);
  }
}

TEST_CASE("bank_conflicts: each layout of the tile holds every word once and two of them cure the columns") {
  for (Layout layout : layouts) {
    std::set<unsigned> places;
    for (unsigned i = 0; i < 32 * 32; ++i) places.insert(tile_index(layout, i / 32, i % 32));
    CHECK(places.size() == 32 * 32);
    CHECK(*places.rbegin() < tile_words[int(layout)]);
    for (unsigned i = 0; i < 32; ++i) {
      CHECK(row_wavefronts(layout, i) == 1);
      CHECK(column_wavefronts(layout, i) == (layout == Layout::plain ? 32 : 1));
    }
  }
}

TEST_CASE("bank_conflicts: counted wavefronts equal the model") { compare_with_counters(counted_launches()); }

TEST_CASE("bank_conflicts: profile launches") {
  if (skip_without_gpu()) return;
  launch_counted(counted_launches());
}

TEST_CASE("bank_conflicts: every kernel is right in blocks of every size") {
  if (skip_without_gpu()) return;
  for (unsigned n = 1; n <= max_threads; n *= 2)
    for (Reduction which : reductions) {
      CHECK_NOTHROW(run_reduction(which, 0, step_count(n), n));
      for (unsigned k = 0; k < step_count(n); ++k) CHECK_NOTHROW(run_reduction(which, k, k + 1, n));
    }
  for (unsigned times : {1u, 3u, 17u}) {
    for (unsigned stride : {1u, 2u, 7u, 32u, 33u})
      for (unsigned bytes : {4u, 8u, 16u})
        for (unsigned threads : {32u, 96u, 1024u}) CHECK_NOTHROW(run_strided(bytes, stride, threads, times, 2));
    for (Layout layout : layouts) CHECK_NOTHROW(run_tile(layout, times, 2));
  }
}
