// keep_on_device's other half: work of one operation a word. A study of 2007 finds it of little use
// to carry such work to the card: what the fast memory gains goes to the way there and back [BW].
// Look at the host's own time, on all its cores, beside the card's with the way and without it.
//
//   1  add_to_each  out = in + 1: the result returns
//   2  sum_numbers  only a sum returns
#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>

#include "host_crew.hpp"
#include "host_memory.hpp"

void carried_work(const Run& run);

namespace {

// ---- kernels ----

// [add_to_each]
// Each warp reads 32 neighbouring words and writes 32: one operation for eight bytes.
__global__ void add_to_each(unsigned* out, const unsigned* in, size_t n) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < n) out[i] = in[i] + 1;
}
// [/add_to_each]

// Each warp reads 32 neighbouring words, steps on by the whole grid, and adds its sum to the total.
__global__ void sum_numbers(unsigned* total, const unsigned* in, size_t n) {
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  unsigned sum = 0;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += threads) sum += in[i];
  for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_down_sync(0xffffffffu, sum, lanes);
  if (threadIdx.x % 32 == 0) atomicAdd(total, sum);
}

// ---- what is right ----

/// No two of 2^32 numbers are alike: one left out and another taken twice show in the sum.
unsigned number_at(size_t i) { return unsigned(i) * 2654435761u + 12345u; }

/// What all of them add up to.
unsigned sum_of_numbers(size_t n) {
  return unsigned(n * (n - 1) / 2) * 2654435761u + unsigned(n) * 12345u;
}

// ---- the host ----

/// The same arrays on the host, pageable until they are pinned, and its threads.
struct HostWork {
  size_t n;
  std::unique_ptr<unsigned[]> in, out;
  Crew crew;
  std::vector<unsigned> sums;  ///< of each thread
  unsigned sum = 0;

  explicit HostWork(size_t n) : n(n), in(new unsigned[n]), out(new unsigned[n]), sums(crew.size()) {
    crew.share_out(n, [this](size_t from, size_t to) {  // first touched by those who use it
      for (size_t i = from; i < to; ++i) in[i] = number_at(i);
    });
    spoil();
  }
  void spoil() {
    crew.share_out(
        n, [this](size_t from, size_t to) { std::fill(out.get() + from, out.get() + to, 0u); });
  }
  size_t wrong() {
    std::fill(sums.begin(), sums.end(), 0u);
    crew.run([this](size_t c) {
      for (size_t i = n * c / crew.size(); i < n * (c + 1) / crew.size(); ++i)
        sums[c] += out[i] != number_at(i) + 1;
    });
    return std::accumulate(sums.begin(), sums.end(), size_t(0));
  }
  Check check() {
    Check check;
    check.poison = [this] { spoil(); };
    check.wrong = [this] { return wrong(); };
    return check;
  }
  Check check_sum() {
    Check check;
    check.poison = [this] { sum = ~sum_of_numbers(n); };
    check.wrong = [this] { return size_t(sum != sum_of_numbers(n)); };
    return check;
  }
  static void add_part(unsigned* to, const unsigned* from, size_t count) {
    for (size_t i = 0; i < count; ++i) to[i] = from[i] + 1;
  }
  Task on_all_cores() {
    const auto go = [this] {
      crew.share_out(n, [this](size_t from, size_t to) {
        add_part(out.get() + from, in.get() + from, to - from);
      });
    };
    return {"the host's addition, all cores", go, check(), true};
  }
  Task on_one_core() {
    return {"the host's addition, one core", [this] { add_part(out.get(), in.get(), n); }, check(),
            true};
  }
  Task sum_on_all_cores() {
    const auto go = [this] {
      crew.run([this](size_t c) {
        const unsigned* const first = in.get() + n * c / crew.size();
        const unsigned* const end = in.get() + n * (c + 1) / crew.size();
        sums[c] = std::accumulate(first, end, 0u);
      });
      sum = std::accumulate(sums.begin(), sums.end(), 0u);
    };
    return {"the host's sum, all cores", go, check_sum(), true};
  }
};

// ---- the card ----

struct CardWork {
  HostWork& host;
  size_t n;
  DeviceBuffer<unsigned> in, out, total;

  explicit CardWork(HostWork& host) : host(host), n(host.n), in(n), out(n), total(1) {}

  void add() const { add_to_each<<<unsigned((n + 255) / 256), 256>>>(out.data(), in.data(), n); }
  void sum() const {
    CUDA_CHECK(cudaMemsetAsync(total.data(), 0, sizeof(unsigned)));
    sum_numbers<<<1024, 256>>>(total.data(), in.data(), n);
  }
  // [there_and_back]
  Task there_and_back(const char* name) {
    const auto go = [this] {
      CUDA_CHECK(cudaMemcpy(in.data(), host.in.get(), 4 * n, cudaMemcpyHostToDevice));
      add();
      CUDA_CHECK(cudaMemcpy(host.out.get(), out.data(), 4 * n, cudaMemcpyDeviceToHost));
    };
    return {name, go, poisoned(host.check()), true};
  }
  // [/there_and_back]
  Task carried_sum() {
    const auto go = [this] {
      CUDA_CHECK(cudaMemcpy(in.data(), host.in.get(), 4 * n, cudaMemcpyHostToDevice));
      sum();
      CUDA_CHECK(cudaMemcpy(&host.sum, total.data(), sizeof(unsigned), cudaMemcpyDeviceToHost));
    };
    return {"the sum, carried", go, poisoned(host.check_sum()), true};
  }
  /// Already on the card, where the results stay.
  Task add_there() {
    Check check;
    check.poison = [this] {
      CUDA_CHECK(cudaMemcpy(in.data(), host.in.get(), 4 * n, cudaMemcpyHostToDevice));
      out.poison();
    };
    check.wrong = [this] {
      host.spoil();
      CUDA_CHECK(cudaMemcpy(host.out.get(), out.data(), 4 * n, cudaMemcpyDeviceToHost));
      return host.wrong();
    };
    return {"the addition on the card", [this] { add(); }, std::move(check)};
  }
  Task sum_there() {
    Check check;
    check.poison = [this] {
      CUDA_CHECK(cudaMemcpy(in.data(), host.in.get(), 4 * n, cudaMemcpyHostToDevice));
      total.poison();
    };
    check.wrong = [this] { return size_t(total.to_host()[0] != sum_of_numbers(n)); };
    return {"the sum on the card", [this] { sum(); }, std::move(check)};
  }
  /// A sixteenth of the way, for the rate: `there` or back.
  Task part_of_the_way(bool there) {
    const auto go = [this, there] {
      const size_t bytes = 4 * n / 16;
      if (there) CUDA_CHECK(cudaMemcpy(in.data(), host.in.get(), bytes, cudaMemcpyHostToDevice));
      if (!there) CUDA_CHECK(cudaMemcpy(host.out.get(), out.data(), bytes, cudaMemcpyDeviceToHost));
    };
    return {"a sixteenth of the way", go, unchecked("the whole way is"), true};
  }

 private:
  /// Nothing that is on the card may be right before.
  Check poisoned(const Check& on_host) {
    Check check;
    check.poison = [this, on_host] {
      in.poison();
      out.poison();
      total.poison();
      on_host.poison();
    };
    check.wrong = on_host.wrong;
    return check;
  }
};

// ---- what to expect ----

/// The way there and back, and the work on the card.
double carried_ms(double there_ms, double work_ms, double back_ms) {
  return there_ms + work_ms + back_ms;
}

/// Additions read a word, fetch the line that is written, and take it back, where a sum only reads.
constexpr double addition_over_sum = 3;

// ---- the experiment ----

std::vector<Column> columns() {
  return {compared("ms", "time", "ms", 3), shown("spread"), measured("GB/s", "rate", "GB/s", 1)};
}

struct Found {
  Readings host, carried, host_sum, carried_sum, on_card;
};

void add_row(Table& table, const std::string& name, double bytes, const Readings& times,
             const Cell& cell) {
  const Statistics ms = times.statistics();
  table.row({name}, {cell, spread_text(ms), gigabytes_per_second(bytes, ms)});
}

Cell predicted(double ms, const Readings& times, Model model) {
  return Compared{ms, times.statistics(), model};
}

/// The way there and back, by the rate of a sixteenth of it; milliseconds.
struct Way {
  double there = NAN, back = NAN;
};
Way measure_way(const Run& run, CardWork& card, Table& table, const char* name) {
  Run alone = run;
  alone.measuring.repeats = run.measuring.typed ? run.measuring.repeats : 10;
  const Readings there = time_alone(alone.measuring, card.part_of_the_way(true));
  const Readings back = time_alone(alone.measuring, card.part_of_the_way(false));
  const double bytes = 4.0 * double(card.n / 16);
  add_row(table, std::string(name) + ", a sixteenth there", bytes, there,
          Calibration{there.statistics()});
  add_row(table, std::string(name) + ", a sixteenth back", bytes, back,
          Calibration{back.statistics()});
  return {16 * there.median(), 16 * back.median()};
}

Found measure_carried(const Run& run, HostWork& host, Table& table) {
  const double bytes = 4.0 * double(host.n);
  CardWork card(host);
  const Readings add_there = run.time(card.add_there());
  const Readings sum_there = run.time(card.sum_there());
  add_row(table, "already on the card", 2 * bytes, add_there, Calibration{add_there.statistics()});
  add_row(table, "sum, already on the card", bytes, sum_there, Calibration{sum_there.statistics()});

  const Way slow = measure_way(run, card, table, "pageable");
  const Readings pageable = run.time(card.there_and_back("there and back, pageable"));
  add_row(table, "carried from pageable memory", 2 * bytes, pageable,
          predicted(carried_ms(slow.there, add_there.median(), slow.back), pageable, Model::host));

  std::optional<Registration> in, out;
  try {
    in.emplace(host.in.get(), 4 * host.n);
    out.emplace(host.out.get(), 4 * host.n);
  } catch (const CudaError& refused) {
    run.report.left_out("carrying from pinned memory", refused.what());
    Found found{
        run.time(host.on_all_cores()), {}, run.time(host.sum_on_all_cores()), {}, add_there};
    return found;
  }
  const Way way = measure_way(run, card, table, "pinned");
  Run all = run;  // fifteen rounds of some 20 ms each
  if (!run.measuring.typed && !run.quick) all.measuring.budget_ms = 500;
  std::vector<Task> tasks;
  tasks.push_back(host.on_all_cores());
  tasks.push_back(card.there_and_back("there and back, pinned"));
  tasks.push_back(host.sum_on_all_cores());
  tasks.push_back(card.carried_sum());
  const std::vector<Readings> times = all.time_in_turn(tasks);
  require_right(is_pinned(host.in.get()) && is_pinned(host.out.get()),
                "carried from pinned memory, which is pinned no more");
  add_row(table, "carried from pinned memory", 2 * bytes, times[1],
          predicted(carried_ms(way.there, add_there.median(), way.back), times[1], Model::traffic));
  add_row(table, "sum, carried from pinned memory", bytes, times[3],
          predicted(carried_ms(way.there, sum_there.median(), 0), times[3], Model::traffic));
  const double link = link_gbs(run.device->prop);
  require_possible("there and back", 2 * gigabytes_per_second(bytes, times[1].statistics()).median,
                   link);
  return {times[0], times[1], times[2], times[3], add_there};
}

/// Bytes of the host's last cache; 0 if it is not told.
double host_cache() { return std::max(0.0, double(sysconf(_SC_LEVEL3_CACHE_SIZE))); }

/// Words of each array: 256 MiB, or as much as the host's last cache has, so that neither stays.
size_t most_words(const Run& run) {
  if (run.quick) return size_t(1) << 22;
  size_t n = size_t(1) << 26;
  while (4.0 * double(n) < host_cache() && n < size_t(1) << 28) n *= 2;
  return n;
}

void judge(const Run& run, const Found& found, double bytes) {
  const Part part{"02.10", "work of one operation a word is not worth carrying to the card",
                  "not much sense, no figure", "8800 GTX"};
  if (run.device && bytes < host_cache())
    return run.report.not_judged(
        part, "the host's cache of " + bytes_text(host_cache()) + " may keep the arrays");
  if (run.device && found.carried.ms.empty())
    return run.report.not_judged(part, "the system refuses to pin the arrays");
  const Interval loss = run.device ? ratio(found.carried, found.host) : Interval{};
  run.report.judge(part, beats(), loss,
                   "carried there and back it is " + slower(loss, "on the host's cores"));
  if (!loss.measured()) return;
  const Interval sum = ratio(found.carried_sum, found.host_sum);
  run.report.finding("02.10", "a sum, of which nothing returns, is " + slower(sum) +
                                  "; on the card alone the addition takes " +
                                  times(found.on_card.median() / found.host.median()) +
                                  " the host's time");
}

}  // namespace

void carried_work(const Run& run) {
  const double there =
      run.device ? std::min(double(pinned_budget()), run.memory_there()) : pinned_budget();
  const size_t n = fitting_size("keep_on_device", 0, most_words(run), there,
                                [](size_t words) { return 8.0 * double(words); });
  const double bytes = 4.0 * double(n);
  HostWork host(n);
  Table table(run.report, "one operation a word, " + bytes_text(bytes), columns());
  Found found;
  if (run.device) found = measure_carried(run, host, table);
  if (!run.device) found.host_sum = run.time(host.sum_on_all_cores());
  if (!run.device) found.host = run.time(host.on_all_cores());
  add_row(table, "host's sum, all cores", bytes, found.host_sum,
          Calibration{found.host_sum.statistics()});
  add_row(table, "host, all cores", 2 * bytes, found.host,
          predicted(addition_over_sum * found.host_sum.median(), found.host, Model::host));
  const Readings one = run.time(host.on_one_core());
  add_row(table, "host, one core", 2 * bytes, one, predicted(NAN, one, Model::host));
  table.print();
  run.report.note("the host's " + std::to_string(host.crew.size()) +
                  " threads exist before the clock starts");
  judge(run, found, bytes);
}
