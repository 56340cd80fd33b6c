// branches: what do the branches of a warp cost? "If branches such as if-else exist, threads execute
// all branches", says the guide of a warp; "if all threads can go to the same branch, the efficiency
// should be improved" [KP]. Its own reductions hardly show that: an `if` around one addition becomes
// no branch, but instructions that some lanes sit out. Here each path is a long loop of its own, and
// an array tells each thread its path.
//
// Look at 2, 4 ... 32 paths in a warp, and at the same paths given to whole warps: each path has as
// many threads as before. In the last row paths are not equally long: their sum decides, too.
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o branches branches.cu ../common/*.cpp
//
//   1  take_paths  thread i takes path path_of[i], one of 32
#include <list>
#include <set>

#include "../common/arrays.cuh"
#include "../common/sample.hpp"

namespace {

constexpr unsigned most_paths = 32;  // one for each lane
constexpr unsigned block_threads = 256;

// A path is a loop with numbers of its own, so that no two paths share an instruction.
template <unsigned number>
__device__ unsigned path(unsigned x, unsigned turns) {
#pragma unroll 1
  for (unsigned turn = 0; turn < turns; ++turn) x = x * (8 * number + 5) + (2 * number + 1);
  return x;
}

// A warp whose lanes agree jumps over all paths but theirs. One whose lanes do not takes every path
// that any of them takes, one after the other; the other lanes sit it out.
__global__ void take_paths(unsigned* out, const unsigned* in, const unsigned* path_of,
                           const unsigned* turns_of, unsigned n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned x = in[i];
  const unsigned number = path_of[i];
  const unsigned turns = turns_of[number];
  if (number == 0) x = path<0>(x, turns);
  if (number == 1) x = path<1>(x, turns);
  if (number == 2) x = path<2>(x, turns);
  if (number == 3) x = path<3>(x, turns);
  if (number == 4) x = path<4>(x, turns);
  if (number == 5) x = path<5>(x, turns);
  if (number == 6) x = path<6>(x, turns);
  if (number == 7) x = path<7>(x, turns);
  if (number == 8) x = path<8>(x, turns);
  if (number == 9) x = path<9>(x, turns);
  if (number == 10) x = path<10>(x, turns);
  if (number == 11) x = path<11>(x, turns);
  if (number == 12) x = path<12>(x, turns);
  if (number == 13) x = path<13>(x, turns);
  if (number == 14) x = path<14>(x, turns);
  if (number == 15) x = path<15>(x, turns);
  if (number == 16) x = path<16>(x, turns);
  if (number == 17) x = path<17>(x, turns);
  if (number == 18) x = path<18>(x, turns);
  if (number == 19) x = path<19>(x, turns);
  if (number == 20) x = path<20>(x, turns);
  if (number == 21) x = path<21>(x, turns);
  if (number == 22) x = path<22>(x, turns);
  if (number == 23) x = path<23>(x, turns);
  if (number == 24) x = path<24>(x, turns);
  if (number == 25) x = path<25>(x, turns);
  if (number == 26) x = path<26>(x, turns);
  if (number == 27) x = path<27>(x, turns);
  if (number == 28) x = path<28>(x, turns);
  if (number == 29) x = path<29>(x, turns);
  if (number == 30) x = path<30>(x, turns);
  if (number == 31) x = path<31>(x, turns);
  out[i] = x;  // here the lanes are together again
}

/// How paths are given to threads: to neighbouring threads in turn, or to neighbouring warps. Either
/// way each path has as many threads.
struct Row {
  unsigned paths;
  bool by_warp = false;
  bool longer = false;  ///< path p has p + 1 quarters of a path's turns, instead of all of them

  std::string name() const {
    if (paths == 1) return "one path";
    return std::to_string(paths) + (by_warp ? " by warp" : " in a warp") +
           (longer ? ", ever longer" : "");
  }
  __host__ __device__ unsigned path_of(size_t thread) const {
    return unsigned(by_warp ? thread / 32 : thread) % paths;
  }
  unsigned turns_of(unsigned path, unsigned whole) const {
    return longer ? whole / 4 * (path + 1) : whole;
  }
};
constexpr Row one_path{1};
constexpr Row rows[] = {one_path,  {2},       {4},       {8},        {16},       {32},
                        {2, true}, {4, true}, {8, true}, {16, true}, {32, true}, {8, false, true}};

/// The prediction: a warp makes the turns of each path that any of its lanes takes, one path after
/// the other. (All warps of a row make as many.)
unsigned turns_of_warp(const Row& row, unsigned whole) {
  std::set<unsigned> taken;
  for (unsigned lane = 0; lane < 32; ++lane) taken.insert(row.path_of(lane));
  unsigned turns = 0;
  for (const unsigned p : taken) turns += row.turns_of(p, whole);
  return turns;
}

/// What a thread finds at the end of its path.
__host__ __device__ unsigned end_of_path(unsigned x, unsigned number, unsigned turns) {
  for (unsigned turn = 0; turn < turns; ++turn) x = x * (8 * number + 5) + (2 * number + 1);
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
  const auto work = [&w] {
    const unsigned n = unsigned(w.out.size());
    take_paths<<<(n + block_threads - 1) / block_threads, block_threads>>>(w.out, w.in, w.path_of,
                                                                           w.turns_of, n);
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
  const unsigned turns = run.quick ? 1024 : 4096;
  run.title(std::to_string(threads) + " threads, all resident, each on a path of " +
            std::to_string(turns) + " turns");
  std::list<Work> works;
  std::vector<Benchmark> benchmarks;
  for (const Row& row : rows) {
    works.push_back(work_of(row, threads, turns));
    benchmarks.push_back(benchmark_of(works.back()));
  }
  const Timings timed = run.timer.interleaved(benchmarks);

  const Times& one = timed[one_path.name()];
  Table table("paths", {"predicted ms", "ms", "spread", "times one path"});
  for (const Row& row : rows) {
    const Times& times = timed[row.name()];
    const double predicted = one.median() * turns_of_warp(row, turns) / turns;
    table.row(row.name(), {row.paths == 1 ? Cell("") : Cell(predicted), times.ms_interval(),
                           percent(times.spread()), times.median() / one.median()});
  }
  run.print(table);
  run.note(
      "predicted: the sum of the paths that a warp takes; ever longer: 1/4, 2/4 ... 8/4 of a path");
  run.note("not explained: paths by warp take a little longer than one path, with as many turns");

  std::vector<Interval> of_one, of_aligned;
  for (const unsigned paths : {2, 4, 8, 16, 32}) {
    const Times& in_a_warp = timed[Row{paths}.name()];
    const Interval all = ratio(in_a_warp, one);
    of_one.push_back(all / paths);
    of_aligned.push_back(ratio(in_a_warp, timed[Row{paths, true}.name()]));
  }
  run.claim_each({.id = "06.4a",
                  .statement = "if branches exist, the threads of a warp execute all of them",
                  .source = "[KP] \"threads execute all branches\""},
                 of_one, "time of k paths / k times one path", about(1));
  run.claim_each({.id = "06.4b",
                  .statement = "it is faster if all threads of a warp can go to the same branch",
                  .source = "[KP] \"the efficiency should be improved\""},
                 of_aligned, "time of k paths in a warp / by warp", faster());
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
}

TEST_CASE("branches: turns of a warp, by hand") {
  CHECK(turns_of_warp({1}, 1024) == 1024);
  CHECK(turns_of_warp({2}, 1024) == 2048);
  CHECK(turns_of_warp({32}, 1024) == 32768);
  CHECK(turns_of_warp({32, true}, 1024) == 1024);
  CHECK(turns_of_warp({8, false, true}, 1024) == 9 * 1024);  // (1 + 2 + ... + 8) / 4
  CHECK(end_of_path(7, 1, 2) == 13 * (13 * 7 + 3) + 3);
  CHECK(end_of_path(7, 31, 0) == 7);
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
