// branches: "If branches such as if-else exist, threads execute all branches", says the guide of a
// warp [KP]. Its own reductions hardly show that: an `if` around one addition compiles to
// instructions that some lanes sit out, not to a branch. Here each path is a loop of its own, a few
// hundred thousand cycles long, and each thread is told its path by an array. Look at what becomes
// of the time when the lanes of a warp take 2, 4 ... 32 paths; and when the same paths, as many
// threads for each, are assigned by whole warps instead.
//   cmake -S 06_shared_reduce -B build/branches -DEXPERIMENTS=branches
//   cmake --build build/branches && build/branches/06_shared_reduce
//
//   1  take_paths    thread i takes path_of[i], one of 32
#include <algorithm>

#include "../common/report.hpp"

namespace {

constexpr unsigned most_paths = 32;  // one for each lane

// ---- kernel ----

// [path]
// A path is a loop with numbers of its own, so that no two paths share an instruction.
template <unsigned number>
__device__ unsigned path(unsigned x, unsigned turns) {
#pragma unroll 1
  for (unsigned turn = 0; turn < turns; ++turn) x = x * (8 * number + 5) + (2 * number + 1);
  return x;
}
// [/path]

// [take_paths]
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
// [/take_paths]

// ---- what is right ----

/// x -> factor * x + addend, modulo 2^32.
struct Step {
  unsigned factor, addend;

  unsigned of(unsigned x) const { return factor * x + addend; }
  /// This step, then the other.
  Step then(Step next) const { return {next.factor * factor, next.of(addend)}; }
};

/// Many steps of a path are one step, found by doubling: not by making them.
Step steps_of(unsigned number, unsigned turns) {
  Step all{1, 0};
  for (Step some{8 * number + 5, 2 * number + 1}; turns; turns /= 2, some = some.then(some))
    if (turns % 2) all = all.then(some);
  return all;
}

/// How the paths are assigned: to neighbouring threads in turn, or to neighbouring warps. Either
/// way each path has as many threads.
enum class Assigned { to_threads, to_warps };

unsigned path_at(Assigned assigned, unsigned i, unsigned paths) {
  return (assigned == Assigned::to_threads ? i : i / 32) % paths;
}

/// Word i of the input: no two alike.
unsigned word_at(unsigned i) { return 0x9e3779b1u * (i + 1); }

constexpr unsigned block_threads = 256;  // divides what any multiprocessor has room for

/// Threads, their words and their paths.
struct Work {
  static constexpr unsigned canaries = 64;  ///< words behind the output

  std::vector<unsigned> right;  ///< what every thread must find, and the poison behind it
  DeviceBuffer<unsigned> out, in, path_of, turns_of;

  /// Thread i takes path paths[i], of turns[paths[i]] turns.
  Work(const std::vector<unsigned>& paths, std::vector<unsigned> turns)
      : right(paths.size() + canaries, ~0u), out(right.size()), path_of(paths) {
    turns.resize(most_paths);
    turns_of = DeviceBuffer<unsigned>(turns);
    std::vector<Step> step;
    for (unsigned p = 0; p < most_paths; ++p) step.push_back(steps_of(p, turns[p]));
    std::vector<unsigned> words;
    for (unsigned i = 0; i < paths.size(); ++i) {
      words.push_back(word_at(i));
      right[i] = step[paths[i]].of(words[i]);
    }
    in = DeviceBuffer<unsigned>(words);
  }
  unsigned threads() const { return unsigned(in.size()); }
  void launch() {
    const unsigned blocks = (threads() + block_threads - 1) / block_threads;
    take_paths<<<blocks, block_threads>>>(out.data(), in.data(), path_of.data(), turns_of.data(),
                                          threads());
  }
  /// Threads whose word is wrong, and words behind theirs that somebody wrote.
  size_t wrong() const {
    const std::vector<unsigned> found = out.to_host();
    size_t wrong = 0;
    for (size_t i = 0; i < right.size(); ++i) wrong += found[i] != right[i];
    return wrong;
  }
  Task task(const std::string& name) {
    Check check;
    check.poison = [this] { out.poison(); };
    check.wrong = [this] { return wrong(); };
    return {name, [this] { launch(); }, std::move(check)};
  }
};

// ---- the story in order ----

struct Row {
  const char* name;
  Assigned assigned;
  unsigned paths;
  bool longer;  ///< path p has p + 1 quarters of a path, instead of a whole one

  /// Turns of each path, where a whole one has `turns`.
  std::vector<unsigned> turns(unsigned turns) const {
    std::vector<unsigned> all;
    for (unsigned p = 0; p < paths; ++p) all.push_back(longer ? turns / 4 * (p + 1) : turns);
    return all;
  }
  std::vector<unsigned> path_of(unsigned threads) const {
    std::vector<unsigned> all;
    for (unsigned i = 0; i < threads; ++i) all.push_back(path_at(assigned, i, paths));
    return all;
  }
};

const Row rows[] = {
    {"one path", Assigned::to_threads, 1, false},
    {"in a warp", Assigned::to_threads, 2, false},
    {"in a warp", Assigned::to_threads, 4, false},
    {"in a warp", Assigned::to_threads, 8, false},
    {"in a warp", Assigned::to_threads, 16, false},
    {"in a warp", Assigned::to_threads, 32, false},
    {"aligned to warps", Assigned::to_warps, 2, false},
    {"aligned to warps", Assigned::to_warps, 4, false},
    {"aligned to warps", Assigned::to_warps, 8, false},
    {"aligned to warps", Assigned::to_warps, 16, false},
    {"aligned to warps", Assigned::to_warps, 32, false},
    {"in a warp, ever longer", Assigned::to_threads, 2, true},
    {"in a warp, ever longer", Assigned::to_threads, 4, true},
    {"in a warp, ever longer", Assigned::to_threads, 8, true},
};
constexpr size_t one_path = 0, in_a_warp = 1, aligned = 6, widths = 5;  // indices, and how many

// ---- what to expect ----

/// Turns that a warp makes: those of each path that any of its lanes takes, added up.
double turns_of_warp(const Row& row, const std::vector<unsigned>& turns, unsigned warp) {
  bool taken[most_paths] = {};
  for (unsigned lane = 0; lane < 32; ++lane)
    taken[path_at(row.assigned, 32 * warp + lane, row.paths)] = true;
  double sum = 0;
  for (unsigned p = 0; p < row.paths; ++p) sum += taken[p] ? turns[p] : 0;
  return sum;
}

/// Time in that of one path: the turns that warps make, on average, since all of them issue their
/// instructions to the same multiprocessors. Every 32 warps are like the 32 before them.
double predicted_paths(const Row& row, unsigned whole) {
  const std::vector<unsigned> turns = row.turns(whole);
  double sum = 0;
  for (unsigned warp = 0; warp < 32; ++warp) sum += turns_of_warp(row, turns, warp);
  return sum / 32 / whole;
}

// ---- the experiment ----

/// Checks and times all rows in turn.
std::vector<Readings> measure(const Run& run, unsigned threads, unsigned turns) {
  std::vector<Work> work;
  std::vector<Task> tasks;
  work.reserve(std::size(rows));  // tasks keep their addresses
  for (const Row& row : rows) {
    if (!run.device) break;
    work.emplace_back(row.path_of(threads), row.turns(turns));
    tasks.push_back(work.back().task(row.name + (", " + std::to_string(row.paths))));
  }
  if (!run.device) return std::vector<Readings>(std::size(rows));
  return run.time_in_turn(tasks);
}

void show(const Run& run, const std::vector<Readings>& readings, unsigned turns) {
  Table table(run.report, "paths",
              {predicted("sum of the paths", "paths a warp takes", "paths", 2),
               compared("ms", "time", "ms", 3), shown("spread"), shown("of one"), shown("")});
  const double one = readings[one_path].median();
  for (size_t i = 0; i < std::size(rows); ++i) {
    const Row& row = rows[i];
    const Statistics ms = readings[i].statistics();
    const double paths = predicted_paths(row, turns);
    const Cell time = i == one_path ? Cell(Calibration{ms}) : Cell(Compared{paths * one, ms});
    table.row({row.name, "paths", std::to_string(row.paths)},
              {paths, time, spread_text(ms), factor_text(ms.median / one),
               bar(ms.median / one / most_paths)});
  }
  table.print();
}

/// k paths in a warp take about k times as long as one; k paths that are aligned to warps about as
/// long as one. (The paths themselves seem to differ by up to 8%, though their loops have as many
/// instructions. Why was not found out.)
void judge_paths(const Run& run, const std::vector<Readings>& readings) {
  const auto judge_widths = [&](const Part& part, size_t first, bool their_sum) {
    std::vector<Verdict> each;
    std::string here;
    Interval last;
    for (size_t i = first; i < first + widths; ++i) {
      last = ratio(readings[i], readings[one_path]);
      each.push_back(judge(their_sum ? about(rows[i].paths) : costs_as_much(), last));
      here += (here.empty() ? "" : ", ") + factor_text(last.value);
    }
    run.report.judged(part, judge_many(each), last, here + " with 2, 4, 8, 16, 32 paths");
  };
  judge_widths({"06.4a", "the threads of a warp execute all branches: k paths take k times as long",
                "no figure", "vendor's guide"},
               in_a_warp, true);
  judge_widths(
      {"06.4b", "paths aligned to warps take as long as one", "no figure", "vendor's guide"},
      aligned, false);
}

}  // namespace

void branches(const Run& run) {
  // without a GPU, the paths that warps take are the same for any number of threads
  const unsigned threads = run.device ? unsigned(run.device->prop.multiProcessorCount) *
                                            unsigned(run.device->prop.maxThreadsPerMultiProcessor)
                                      : 2048;
  const unsigned turns = run.quick ? 1024 : 4096;
  run.report.begin("branches", std::to_string(threads) +
                                   " threads, all resident, each on a path of " +
                                   std::to_string(turns) + " turns");
  const std::vector<Readings> readings = measure(run, threads, turns);
  show(run, readings, turns);
  run.report.note("ever longer: path p has p + 1 quarters of a path");
  if (!run.device) run.report.left_out("the times of all rows");
  judge_paths(run, readings);
}
