// branches: what do the branches of a warp cost, and those of a block? "All threads in a block execute
// the same instruction. If branches such as if-else exist, threads execute all branches"; "if all
// threads can go to the same branch, the efficiency should be improved" [KP]. Its own reductions
// hardly show that: an `if` around one addition becomes no branch, but instructions that some lanes
// sit out. Here each path is a long loop of its own, and an array tells each thread its path.
//
// Look at 2, 4 ... 32 paths in a warp, and at the same paths given to whole warps of one block: each
// path has as many threads as before. In the last row paths are not equally long: their sum decides.
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o branches branches.cu ../common/*.cpp
//
//   1  take_paths  thread i takes path path_of[i], one of 32
#include <algorithm>
#include <set>

#include "../common/arrays.cuh"
#include "../common/sample.hpp"

namespace {

constexpr unsigned most_paths = 32;       // one for each lane
constexpr unsigned block_threads = 1024;  // by warp, a block has all of them
constexpr unsigned multiplier = 1664525;  // any odd one would do

// A turn is seven steps. So each of the 32 loops, compiled, is ten instructions of one form that
// differ in a number; for compute capability 9.0 each touches two lines of 128 bytes of the
// instruction cache. The compiler does not know `factor`, and cannot make seven steps one.
constexpr unsigned steps = 7;

__host__ __device__ constexpr unsigned step_of(unsigned number, unsigned x, unsigned factor) {
  return x * factor + (2 * number + 1);
}

template <unsigned number>
__device__ unsigned path(unsigned x, unsigned turns, unsigned factor) {
#pragma unroll 1
  for (unsigned turn = 0; turn < turns; ++turn) {
#pragma unroll
    for (unsigned step = 0; step < steps; ++step) x = step_of(number, x, factor);
  }
  return x;
}

// if (taken == 0) path<0>, if (taken == 1) path<1> ... if (taken == 31) path<31>
template <unsigned number = 0>
__device__ unsigned path_number(unsigned taken, unsigned x, unsigned turns, unsigned factor) {
  if (taken == number) x = path<number>(x, turns, factor);
  if constexpr (number + 1 < most_paths) x = path_number<number + 1>(taken, x, turns, factor);
  return x;  // here the lanes are together again
}

// A warp whose lanes agree jumps over all paths but theirs. One whose lanes do not takes every path
// that any of them takes, one after the other; the other lanes sit it out.
__global__ void take_paths(unsigned* out, const unsigned* in, const unsigned* path_of,
                           const unsigned* turns_of, unsigned factor, unsigned n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const unsigned taken = path_of[i];
  out[i] = path_number(taken, in[i], turns_of[taken], factor);
}

/// How paths are given to threads: to neighbouring threads in turn, or to neighbouring warps. Either
/// way each path has as many threads.
struct Row {
  unsigned paths;
  bool by_warp = false;
  bool longer = false;  ///< path p has p + 1 quarters of a path's turns, instead of all of them
  unsigned first = 0;   ///< the number of the first path

  std::string name() const {
    if (paths == 1) return first ? "path " + std::to_string(first) : "one path";
    return std::to_string(paths) + (by_warp ? " by warp" : " in a warp") +
           (longer ? ", ever longer" : "");
  }
  __host__ __device__ unsigned path_of(size_t thread) const {
    return first + unsigned(by_warp ? thread / 32 : thread) % paths;
  }
  unsigned turns_of(unsigned path, unsigned whole) const {
    return longer ? whole / 4 * (path + 1) : whole;
  }
};

// ---- the launches: add yours here ----

constexpr Row one_path{1};
constexpr Row rows[] = {one_path,  {2},       {4},       {8},        {16},       {32},
                        {2, true}, {4, true}, {8, true}, {16, true}, {32, true}, {8, false, true}};
/// The control: all threads take this one of the 32 paths.
Row alone(unsigned number) { return {.paths = 1, .first = number}; }

// ---- the prediction ----

/// A warp makes the turns of each path that any of its lanes takes, one path after the other. (All
/// warps of a row make as many.)
unsigned turns_of_warp(const Row& row, unsigned whole) {
  std::set<unsigned> taken;
  for (unsigned lane = 0; lane < 32; ++lane) taken.insert(row.path_of(lane));
  unsigned turns = 0;
  for (const unsigned p : taken) turns += row.turns_of(p, whole);
  return turns;
}

// ---- what must come out ----

/// What a thread finds at the end of its path.
__host__ __device__ unsigned end_of_path(unsigned x, unsigned number, unsigned turns) {
  for (unsigned step = 0; step < turns * steps; ++step) x = step_of(number, x, multiplier);
  return x;
}

/// Threads with their words, their paths, and the turns of each path.
struct Work {
  Row row;
  DeviceBuffer<unsigned> in, path_of, turns_of;
  GuardedBuffer<unsigned> out;
};

Work work_of(const Row& row, size_t threads, unsigned whole) {
  std::vector<unsigned> turns;
  for (unsigned p = 0; p < most_paths; ++p) turns.push_back(row.turns_of(p, whole));
  const auto word = [] __device__(size_t i) { return hash(i); };
  const auto number = [row] __device__(size_t i) { return row.path_of(i); };
  return {row, filled<unsigned>(threads, word), filled<unsigned>(threads, number),
          DeviceBuffer<unsigned>(turns), GuardedBuffer<unsigned>(threads)};
}

Benchmark benchmark_of(const Work& w) {
  const unsigned n = unsigned(w.out.size()), blocks = unsigned(ceil_div(n, block_threads));
  const auto work = [=] {
    take_paths<<<blocks, block_threads>>>(w.out, w.in, w.path_of, w.turns_of, multiplier, n);
  };
  const auto right = [row = w.row, turns = w.turns_of.data()] __device__(size_t i) {
    const unsigned number = row.path_of(i);
    return end_of_path(hash(i), number, turns[number]);
  };
  return {w.row.name(), work, equals(w.out, right)};
}

}  // namespace

void branches(Run& run) {
  const size_t threads = size_t(run.resident_blocks(block_threads)) * block_threads;
  const unsigned turns = run.quick ? 144 : 584;  // quarters of it are whole
  run.title(std::to_string(threads) + " threads, all resident, each on a path of " +
            std::to_string(turns) + " turns of " + std::to_string(steps) + " steps");
  std::vector<Benchmark> benchmarks;
  for (const Row& row : rows) benchmarks.push_back(benchmark_of(work_of(row, threads, turns)));
  for (unsigned p = 1; p < most_paths; ++p)
    benchmarks.push_back(benchmark_of(work_of(alone(p), threads, turns)));
  const Timings timed = run.timer.interleaved(benchmarks);

  const Times& one = timed[one_path.name()];
  Table table("paths", {"predicted ms", "ms", "spread", "times one path"});
  for (const Row& row : rows) {
    const Times& times = timed[row.name()];
    const double predicted = one.median() * turns_of_warp(row, turns) / turns;
    table.row(row.name(), {row.paths == 1 ? Cell("") : Cell(predicted), times.ms_interval(),
                           percent(times.spread()), ratio(times, one)});
  }
  run.print(table);
  run.note(
      "predicted: the sum of the paths that a warp takes; ever longer: 1/4, 2/4 ... 8/4 of a path");

  Table control("path alone", {"ms", "times one path"});
  std::vector<double> of_first;
  for (unsigned p = 1; p < most_paths; ++p) {
    const Times& times = timed[alone(p).name()];
    of_first.push_back(times.median() / one.median());
    control.row(alone(p).name(), {times.ms_interval(), ratio(times, one)});
  }
  run.save(control);
  const auto [fastest, slowest] = std::minmax_element(of_first.begin(), of_first.end());
  run.note("each of the other 31 paths alone: " + digits(*fastest) + " to " + digits(*slowest) +
           " times one path. What paths by warp take");
  run.note("beyond that is no path's own: their warps need different instructions");

  std::vector<Interval> in_warps, in_blocks, of_aligned;
  for (const unsigned paths : {2, 4, 8, 16, 32}) {
    const Times &in_a_warp = timed[Row{paths}.name()], &by_warp = timed[Row{paths, true}.name()];
    in_warps.push_back(ratio(in_a_warp, one) / paths);
    in_blocks.push_back(ratio(by_warp, one) / paths);
    of_aligned.push_back(ratio(in_a_warp, by_warp));
  }
  run.claim_each({.id = "06.4a",
                  .statement = "if branches exist, the threads of a warp execute all of them",
                  .source = "[KP] \"threads execute all branches\""},
                 in_warps, "time of k paths / k times one path", about(1));
  run.claim_each({.id = "06.4b",
                  .statement = "it is faster if all threads of a warp can go to the same branch",
                  .source = "[KP] \"the efficiency should be improved\""},
                 of_aligned, "time of k paths in a warp / by warp", faster());
  run.claim_each({.id = "06.10",
                  .statement = "all threads in a block execute the same instruction",
                  .source = "[KP] \"All threads in a block\""},
                 in_blocks, "time of k paths by warp / k times one path", about(1));
}
SAMPLE(4, branches, "1 to 32 long paths, in a warp and by warp");

TEST_CASE("branches: each path has as many threads, in a warp and by warp") {
  for (const Row& row : rows) {
    CAPTURE(row.name());
    std::vector<unsigned> threads(row.paths, 0);
    for (unsigned i = 0; i < 32 * most_paths; ++i) ++threads.at(row.path_of(i));
    CHECK(threads == std::vector<unsigned>(row.paths, 32 * most_paths / row.paths));
  }
  CHECK(Row{4}.path_of(38) == 2);
  CHECK(Row{4, true}.path_of(38) == 1);  // of warp 1
  CHECK(alone(31).path_of(38) == 31);
}

TEST_CASE("branches: turns of a warp, by hand") {
  CHECK(turns_of_warp({1}, 1024) == 1024);
  CHECK(turns_of_warp({2}, 1024) == 2048);
  CHECK(turns_of_warp({32}, 1024) == 32768);
  CHECK(turns_of_warp({32, true}, 1024) == 1024);
  CHECK(turns_of_warp({8, false, true}, 1024) == 9 * 1024);  // (1 + 2 + ... + 8) / 4
  CHECK(step_of(31, 7, 10) == 133);
  CHECK(end_of_path(7, 31, 0) == 7);
  CHECK(end_of_path(end_of_path(7, 3, 1), 3, 1) == end_of_path(7, 3, 2));
}

TEST_CASE("branches: all paths are right at awkward sizes, and a thread on another's is noticed") {
  if (skip_without_gpu()) return;
  for (const unsigned threads : {1, 31, 33, 257, 1009, 65537})
    for (const Row& row : rows) {
      CAPTURE(threads);
      CAPTURE(row.name());
      const Work work = work_of(row, threads, 20);
      CHECK_NOTHROW(require_right(benchmark_of(work)));
      std::vector<unsigned> paths = work.path_of.to_host();
      unsigned& changed = paths[threads / 2];
      changed = (changed + 1) % most_paths;
      CUDA_CHECK(
          cudaMemcpy(work.path_of, paths.data(), work.path_of.bytes(), cudaMemcpyHostToDevice));
      CHECK_THROWS_AS(require_right(benchmark_of(work)), WrongResult);
    }
}
