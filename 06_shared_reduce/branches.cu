// branches: "If branches such as if-else exist, threads execute all branches", says the guide of a
// warp [KP]. Its own reductions hardly show that: an `if` around one addition compiles to
// instructions that some lanes sit out, not to a branch. Here each path is a loop of its own, and
// an array tells each thread its path. Two things to look at:
//   - The time when the lanes of a warp take 2, 4 ... 32 paths.
//   - The time when whole warps are assigned to the same paths, as many threads to each.
//
//   cmake -S 06_shared_reduce -B build/branches -DEXPERIMENTS=branches
//   cmake --build build/branches && build/branches/06_shared_reduce branches
//
//   1  take_paths  thread i takes path_of[i], one of 32
#include "../framework/common/checked.cuh"
#include "../framework/common/experiment.hpp"

using namespace samples;

namespace {

constexpr unsigned most_paths = 32;      // one for each lane
constexpr unsigned block_threads = 256;  // divides what any multiprocessor has room for

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

// ---- the rows: how paths are assigned ----

/// To neighbouring threads in turn, or to neighbouring warps. Either way each path has as many
/// threads.
enum class Assigned { to_threads, to_warps };

/// The path of thread i.
struct PathAt {
  Assigned assigned;
  unsigned paths;

  __host__ __device__ unsigned operator()(size_t i) const {
    return unsigned(assigned == Assigned::to_threads ? i : i / 32) % paths;
  }
};

struct Kind {
  const char *key, *words;
  Assigned assigned;
  bool longer = false;  ///< path p has p + 1 quarters of a path's turns, instead of all of them
};
constexpr Kind kinds[] = {
    {"one_path", "path", Assigned::to_threads},
    {"in_a_warp", "in a warp", Assigned::to_threads},
    {"aligned_to_warps", "aligned to warps", Assigned::to_warps},
    {"longer_in_a_warp", "in a warp, ever longer", Assigned::to_threads, true}};
const Ref one_path{"one_path", 1};
constexpr unsigned widths[] = {2, 4, 8, 16, 32};  // paths

std::vector<Ref> all_rows() {
  std::vector<Ref> all{one_path};
  for (const Kind& kind : kinds)
    for (const unsigned paths : widths)
      if (kind.key != one_path.key && !(kind.longer && paths > 8))
        all.push_back({kind.key, double(paths)});
  return all;
}

PathAt path_at(const Ref& row) { return {with_key(kinds, row)->assigned, unsigned(row.at)}; }

/// Turns of each path of a row, where a whole path has so many.
std::vector<unsigned> turns_of(const Ref& row, unsigned whole) {
  std::vector<unsigned> turns(most_paths);
  for (unsigned p = 0; p < most_paths; ++p)
    turns[p] = with_key(kinds, row)->longer ? whole / 4 * (p + 1) : whole;
  return turns;
}

// ---- what is right ----

/// x -> factor * x + addend, modulo 2^32.
struct Step {
  unsigned factor, addend;

  __host__ __device__ unsigned of(unsigned x) const { return factor * x + addend; }
  /// This step, then the other.
  Step then(Step next) const { return {next.factor * factor, next.of(addend)}; }
};

/// Many turns of a path are one step, found by doubling: not by making them.
Step steps_of(unsigned number, unsigned turns) {
  Step all{1, 0};
  for (Step some{8 * number + 5, 2 * number + 1}; turns; turns /= 2, some = some.then(some))
    if (turns % 2) all = all.then(some);
  return all;
}

struct WordAt {
  __host__ __device__ unsigned operator()(size_t i) const { return scrambled(i); }
};

/// What thread i must find at the end of its path.
struct IsEndOfPath {
  PathAt path;
  Step whole_path[most_paths];

  __device__ bool operator()(size_t i, unsigned found) const {
    return found == whole_path[path(i)].of(WordAt{}(i));
  }
};

/// Threads, their words and their paths.
struct Work {
  DeviceBuffer<unsigned> in, path_of, turns;
  Output<unsigned> out;
  IsEndOfPath right;

  Work(const Ref& row, size_t threads, unsigned whole)
      : in(filled<unsigned>(threads, WordAt{})),
        path_of(filled<unsigned>(threads, path_at(row))),
        turns(turns_of(row, whole)),
        out(threads),
        right{path_at(row), {}} {
    for (unsigned p = 0; p < most_paths; ++p)
      right.whole_path[p] = steps_of(p, turns_of(row, whole)[p]);
  }
};

Task task_of(const Shared<Work>& work, const Ref& row) {
  const unsigned n = unsigned(work->out.size());
  const auto launch = [work, n] {
    take_paths<<<(n + block_threads - 1) / block_threads, block_threads>>>(
        work->out.data(), work->in.data(), work->path_of.data(), work->turns.data(), n);
  };
  return {text(row), launch, work->out.check(work->right)};
}

// ---- prediction ----

/// Turns that a warp makes: those of each path that any of its lanes takes, added up.
double turns_of_warp(const Ref& row, const std::vector<unsigned>& turns, unsigned warp) {
  bool taken[most_paths] = {};
  for (unsigned lane = 0; lane < 32; ++lane) taken[path_at(row)(32 * warp + lane)] = true;
  double sum = 0;
  for (unsigned p = 0; p < most_paths; ++p) sum += taken[p] ? turns[p] : 0;
  return sum;
}

/// Time over that of one path: the turns that warps make, on average, since all of them issue their
/// instructions to the same multiprocessors. Every 32 warps are like the 32 before them.
double predicted_paths(const Ref& row, unsigned whole) {
  double sum = 0;
  for (unsigned warp = 0; warp < 32; ++warp) sum += turns_of_warp(row, turns_of(row, whole), warp);
  return sum / 32 / whole;
}

// ---- the experiment ----

/// As many as are resident. Without a GPU: the paths that warps take are the same for any number.
size_t threads_of(const Run& run) {
  if (!run.device) return 2048;
  const cudaDeviceProp& prop = run.device->prop;
  return size_t(prop.multiProcessorCount) * size_t(prop.maxThreadsPerMultiProcessor);
}

void run_branches(const Run& run) {
  const size_t threads = threads_of(run);
  const unsigned turns = run.quick ? 1024 : 4096;
  run.report.begin("branches", std::to_string(threads) +
                                   " threads, all resident, each on a path of " +
                                   std::to_string(turns) + " turns");
  Sheet sheet(run, "paths",
              {number(predicted("sum of the paths", "paths a warp takes", "paths", 2),
                      [=](const Row& row) { return predicted_paths(row.ref, turns); }),
               milliseconds(3),
               spread(),
               {shown("of one"), {}, {}, [&run](const Row&, const Statistics& ms) {
                  return factor_text(ms.median / (*run.results)(one_path).time.ms.median);
                }}});
  for (const Ref& ref : all_rows())
    sheet.add({.ref = ref,
               .words = at_text(ref) + " " + with_key(kinds, ref)->words,
               .calibrates = same(ref, one_path)});
  sheet.measure(Timing::in_turn, [&](const Row& row) {
    return task_of(Shared{Work(row.ref, threads, turns)}, row.ref);
  });
  const double one_ms = sheet.ms(one_path);
  sheet.predict([&](const Row& row) { return predicted_paths(row.ref, turns) * one_ms; });
  sheet.print({"ever longer: path p has p + 1 quarters of a path"});
}

// ---- what it declares ----

/// (Aligned paths take up to 8% longer than one, though their loops have as many instructions. Why
/// was not found out.)
std::vector<Claim> claims(const Run& run) {
  Claim sum{.part = {"06.4a", "a warp executes all branches: k paths in it take as long as k",
                     "no figure", "vendor's guide"},
            .rule = about(1)};
  Claim aligned{.part = {"06.4b", "paths that are aligned to warps take as long as one",
                         "no figure", "vendor's guide"},
                .rule = costs_as_much()};
  for (const unsigned paths : widths) {
    sum.pairs.push_back({.slow = {"in_a_warp", double(paths)},
                         .fast = one_path,
                         .works = 1.0 / paths,
                         .per = "path"});
    aligned.pairs.push_back({.slow = {"aligned_to_warps", double(paths)}, .fast = one_path});
  }
  const Interval most = ratio_of(run, {.slow = {"in_a_warp", most_paths}, .fast = one_path});
  if (most.measured())
    sum.here = "per path; 32 take " + factor_text(most.value) + " the time of one";
  return {sum, aligned};
}

Needs needs(const Run& run) {
  return {.allocated = 3.0 * 4 * double(threads_of(run) * all_rows().size())};
}

std::vector<Checked> tasks(size_t n) {
  std::vector<Checked> all;
  for (const Ref& row : all_rows()) {
    const Shared work{Work(row, n, 20)};
    all.push_back(
        {.task = task_of(work, row), .elements = n, .change_one = [work] { work->out.change(0); }});
  }
  return all;
}

}  // namespace

extern const Experiment branches_experiment{
    .name = "branches",
    .about = "1 to 32 paths of real work, in a warp and aligned to warps",
    .run = run_branches,
    .claims = claims,
    .needs = needs,
    .tasks = tasks};
