// `ladder`'s sizes; and the best rung beside the library, CUB's DeviceReduce, by size.
#include <algorithm>
#include <climits>
#include <memory>

#include "ladder.hpp"

namespace reduce {

namespace {

/// Sums recorded in a graph, which starts one after the other without the host.
struct Replay {
  static constexpr double ms = 2;  ///< of a graph: its own start then hardly counts

  int copies;
  std::shared_ptr<CUgraphExec_st> graph;

  template <class T>
  Replay(int rung, const T* in, size_t n, const Work<T>& work, double once_ms)
      : copies(int(std::clamp(ms / once_ms, 1.0, 200.0))) {
    const Stream stream;
    cudaGraph_t recorded = nullptr;
    CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < copies; ++i) work.sum(rung, in, n, stream);
    CUDA_CHECK(cudaStreamEndCapture(stream, &recorded));
    const std::unique_ptr<CUgraph_st, decltype(&cudaGraphDestroy)> owner(recorded,
                                                                         cudaGraphDestroy);
    cudaGraphExec_t runnable = nullptr;
    CUDA_CHECK(cudaGraphInstantiate(&runnable, recorded, 0));
    graph = std::shared_ptr<CUgraphExec_st>(runnable, cudaGraphExecDestroy);
  }
  void launch() const { CUDA_CHECK(cudaGraphLaunch(graph.get(), nullptr)); }
};

/// A sum's share of a graph's times.
Readings of_one(Readings times, int copies) {
  for (double& ms : times.ms) ms /= copies;
  return times;
}

/// The one launch that suits the data: what does not fit in the L2 is not found there again.
int best_for(size_t n, const Device& device) {
  return 4 * n > device.l2_bytes() ? streaming : once;
}

/// Ours and the library's.
struct Pair {
  Readings ours, theirs;
};

template <class T>
Task replaying(int rung, const Replay& replay, const T* in, size_t n, T right, Work<T>& work) {
  Task task = work.task(rung, in, n, right);
  task.name += ", replayed";
  task.launch = [replay] { replay.launch(); };
  return task;
}

template <class T>
Pair called(const Run& run, int best, size_t n, const Words<T>& words, Work<T>& work) {
  const T right = T(words.sum(n));
  std::vector<Task> tasks;
  for (const int rung : {best, int(library)}) tasks.push_back(work.task(rung, words.in, n, right));
  std::vector<Readings> times = run.time_in_turn(tasks);
  return {std::move(times[0]), std::move(times[1])};
}

template <class T>
Pair replayed(const Run& run, int best, size_t n, const Words<T>& words, Work<T>& work,
              const Pair& once) {
  const T right = T(words.sum(n));
  const Replay ours(best, words.in, n, work, once.ours.median());
  const Replay theirs(library, words.in, n, work, once.theirs.median());
  std::vector<Task> tasks;
  tasks.push_back(replaying(best, ours, words.in, n, right, work));
  tasks.push_back(replaying(library, theirs, words.in, n, right, work));
  const std::vector<Readings> times = run.time_in_turn(tasks);
  return {of_one(times[0], ours.copies), of_one(times[1], theirs.copies)};
}

/// Times of a sum of one word, which is what starting costs.
struct Starts {
  Readings called, replayed;
};

template <class T>
Starts start_costs(const Run& run, const Words<T>& words, Work<T>& work) {
  const Pair times = called(run, once, 1, words, work);
  return {times.ours, replayed(run, once, 1, words, work, times).ours};
}

Statistics saved(const Interval& r) { return {r.value, r.low, r.high, r.pairs}; }

void add_pair(const Run& run, const Key& key, size_t n, const Cell& us, const Pair& pair,
              Table& table) {
  const double bytes = 4.0 * double(n);
  const double l2 = double(run.device->l2_bytes());
  const Interval r = ratio(pair.theirs, pair.ours);
  const Statistics gbs = gigabytes_per_second(bytes, pair.ours.statistics());
  const double theory = run.device->theoretical_gbs;
  const std::string share = theory > 0 ? fixed(100 * gbs.median / theory, 1) + "%" : "-";
  table.row(key, {us, scaled(pair.theirs.statistics(), 1e3), saved(r), range_text(r, 3), gbs, share,
                  bytes <= l2                     ? "L2"
                  : beyond_l2(*run.device, bytes) ? "memory"
                                                  : "partly L2"});
}

}  // namespace

/// The words, the text's partial sums (less than a 254th of them), and what allocations round up.
double bytes_needed(size_t n) { return 4.0 * double(n) * (1 + 1.0 / 254) + (16 << 20); }

size_t default_size(const Run& run) {
  size_t n = size_t(1) << (run.quick ? 26 : 28);
  while (run.device && !beyond_l2(*run.device, 4.0 * double(n))) n *= 2;
  return n;
}

std::vector<size_t> sizes_beside_library(const Run& run, size_t typed) {
  if (typed) return typed <= INT_MAX ? std::vector<size_t>{typed} : std::vector<size_t>{};
  std::vector<size_t> sizes;
  for (const int power : {20, 22, 24, 26, 28, 30}) {
    if (power > (run.quick ? 24 : 30) || (power % 4 == 2 && power < 30 && !run.full)) continue;
    for (const size_t size : {size_t(1) << power, (size_t(1) << power) + 1})
      if ((size % 2 == 0 || run.full) && bytes_needed(size) <= 0.9 * run.memory_there())
        sizes.push_back(size);
  }
  return sizes;
}

Table sizes_table(const Run& run) {
  return Table(run.report, "one launch, words",
               {compared("us", "time", "us", 2), measured("CUB us", "CUB time", "us", 2),
                saved_only(measured("", "CUB over ours", "x", 3)), shown("CUB takes x (95%)"),
                measured("GB/s", "bandwidth", "GB/s", 0), shown("of theory"), shown("data in")});
}

template <class T>
void add_sizes(const Run& run, const std::vector<size_t>& sizes, double latency, Table& table) {
  const std::string type = std::is_same_v<T, float> ? "float" : "unsigned";
  const std::string names[] = {type + ", called", type + ", replayed"};
  const size_t most = *std::max_element(sizes.begin(), sizes.end());
  Words<T> words(most);
  Work<T> work(most, gpu_of(*run.device));
  const Starts start = start_costs(run, words, work);
  const Readings* const starts[] = {&start.called, &start.replayed};
  for (int how = 0; how < 2; ++how)
    table.row({names[how], "n", "1"},
              {Calibration{scaled(starts[how]->statistics(), 1e3)}, {}, {}, "", {}, "", ""});

  Progress progress("ladder beside CUB, " + type, int(sizes.size()));
  for (const size_t n : sizes) {
    const int best = best_for(n, *run.device);
    require_sums({best, library}, words, n, work);
    Pair pair = called(run, best, n, words, work);
    for (int how = 0; how < 2; ++how) {
      if (how == 1) pair = replayed(run, best, n, words, work, pair);
      const Calibrated c{starts[how]->median(), 0, latency};
      const double expected = 1e3 * predicted_ms(rungs[best], n, c, *run.device);
      const Compared us{expected, scaled(pair.ours.statistics(), 1e3),
                        model_of(rungs[best], n, c, *run.device)};
      add_pair(run, {names[how], "n", std::to_string(n)}, n, us, pair, table);
    }
    progress.step();
  }
}

template void add_sizes<float>(const Run&, const std::vector<size_t>&, double, Table&);
template void add_sizes<unsigned>(const Run&, const std::vector<size_t>&, double, Table&);

}  // namespace reduce
