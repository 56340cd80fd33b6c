#include "timing.hpp"

#include <algorithm>
#include <chrono>
#include <stdexcept>

namespace {

using Clock = std::chrono::steady_clock;

double ms_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double, std::milli>(to - from).count();
}

/// When the device was last seen at work. A GPU that idles lowers its clocks within milliseconds.
Clock::time_point device_worked_until = Clock::time_point::min();

bool device_is_warm() {
  constexpr double idle_ms = 2;
  return device_worked_until != Clock::time_point::min() &&
         ms_between(device_worked_until, Clock::now()) < idle_ms;
}

void wait(const Event& event) {
  event.wait();
  device_worked_until = Clock::now();
}

/// Lives while a task has what it needs set.
class Entered {
 public:
  explicit Entered(const Task& task) : task_(task) {
    if (task.enter) task.enter();
  }
  Entered(const Entered&) = delete;
  ~Entered() {
    if (task_.leave) task_.leave();
  }

 private:
  const Task& task_;
};

/// Milliseconds by events that `launches` launches take.
double timed(const Task& task, int launches) {
  Event first, last;
  first.record();
  for (int i = 0; i < launches; ++i) task.launch();
  last.record();
  wait(last);
  return last.ms_since(first);
}

/// Runs the work twice, or for as long as a cold GPU takes to warm up.
void warm_up(const Task& task, const Measuring& measuring) {
  const bool warm = device_is_warm();
  timed(task, 1);  // loads the code, fills translation buffers
  const double ms = timed(task, 1);
  if (warm) return;
  const int launches = std::max(1, static_cast<int>(5 / std::max(ms, 1e-3)));
  for (double done = 0; done < measuring.warm_up_ms;) done += timed(task, launches);
}

/// Launches between two events, so that they are far enough apart.
int launches_for(const Task& task) {
  const double ms = timed(task, 1);
  if (ms >= shortest_measurement_ms) return 1;
  const double each = timed(task, 20) / 20;
  return std::clamp(static_cast<int>(std::ceil(shortest_measurement_ms / std::max(each, 1e-4))), 1,
                    1000);
}

/// Milliseconds that the work takes by the host's steady clock.
double host_ms(const Function<void()>& work) {
  const auto start = Clock::now();
  work();
  return ms_between(start, Clock::now());
}

/// All rounds are queued before any is waited for: the device does not wait for the host.
std::vector<Readings> time_queued(int rounds, const std::vector<Task>& tasks,
                                  const std::vector<int>& launches) {
  const size_t n = tasks.size();
  std::vector<Event> start(rounds * n), stop(rounds * n);
  for (int r = 0; r < rounds; ++r) {
    for (size_t i = 0; i < n; ++i) {
      const size_t w = r % 2 ? n - 1 - i : i;
      tasks[w].launch();  // untimed: leaves the caches as the timed one will find them
      start[r * n + w].record();
      for (int k = 0; k < launches[w]; ++k) tasks[w].launch();
      stop[r * n + w].record();
    }
  }
  CUDA_CHECK_LAUNCH();
  const size_t last_work = rounds % 2 ? n - 1 : 0;
  wait(stop[(rounds - 1) * n + last_work]);
  std::vector<Readings> times(n);
  for (int r = 0; r < rounds; ++r)
    for (size_t w = 0; w < n; ++w)
      times[w].ms.push_back(stop[r * n + w].ms_since(start[r * n + w]) / launches[w]);
  return times;
}

/// Where a task is the host's, or needs something set, each is waited for. After a task of the host
/// the device is warmed up again.
std::vector<Readings> time_waiting(int rounds, const std::vector<Task>& tasks,
                                   const std::vector<int>& launches, const Measuring& measuring,
                                   bool host_works) {
  const size_t n = tasks.size();
  std::vector<Readings> times(n);
  for (int r = 0; r < rounds; ++r) {
    for (size_t i = 0; i < n; ++i) {
      const size_t w = r % 2 ? n - 1 - i : i;
      const Entered entered(tasks[w]);
      if (tasks[w].on_host) {
        times[w].ms.push_back(host_ms(tasks[w].launch));
      } else {
        if (host_works) warm_up(tasks[w], measuring);
        tasks[w].launch();  // untimed, so that the device is at work when the first event comes
        times[w].ms.push_back(timed(tasks[w], launches[w]) / launches[w]);
      }
    }
  }
  return times;
}

/// Times of a task that is right.
Readings alone_and_entered(const Measuring& measuring, const Task& task) {
  const Entered entered(task);
  Readings times;
  if (task.on_host) {
    const int repeats = measuring.repeats_for(host_ms(task.launch));
    for (int r = 0; r < repeats; ++r) times.ms.push_back(host_ms(task.launch));
    return times;
  }
  warm_up(task, measuring);
  const int launches = launches_for(task);
  const int repeats = measuring.repeats_for(timed(task, launches));
  std::vector<Event> start(repeats), stop(repeats);
  for (int r = 0; r < repeats; ++r) {
    start[r].record();
    for (int k = 0; k < launches; ++k) task.launch();
    stop[r].record();
  }
  CUDA_CHECK_LAUNCH();
  wait(stop.back());
  for (int r = 0; r < repeats; ++r) times.ms.push_back(stop[r].ms_since(start[r]) / launches);
  return times;
}

}  // namespace

Statistics summarize(std::vector<double> values) {
  if (values.empty()) throw std::invalid_argument("summarize: no values");
  std::sort(values.begin(), values.end());
  const auto percentile = [&](double p) {
    const double position = p * static_cast<double>(values.size() - 1);
    const size_t below = static_cast<size_t>(position);
    const size_t above = std::min(below + 1, values.size() - 1);
    return values[below] +
           (position - static_cast<double>(below)) * (values[above] - values[below]);
  };
  return {percentile(0.5), percentile(0.1), percentile(0.9), static_cast<int>(values.size())};
}

Statistics rate(double amount, const Statistics& time) {
  return {amount / time.median, amount / time.high, amount / time.low, time.repeats};
}

Statistics gigabytes_per_second(double bytes, const Statistics& ms) {
  return rate(bytes * 1e-6, ms);
}

Statistics scaled(const Statistics& s, double factor) {
  return {s.median * factor, s.low * factor, s.high * factor, s.repeats};
}

Check unchecked(std::string why) {
  Check check;
  check.unchecked = std::move(why);
  return check;
}

int Measuring::repeats_for(double ms) const {
  if (typed || !(ms > 0)) return repeats;
  const int fitting = static_cast<int>(std::min(budget_ms / ms, 1e6));
  return std::clamp(fitting, std::min(fewest_repeats, repeats), repeats);
}

size_t wrong_after(const Task& task) {
  const Entered entered(task);
  task.check.poison();
  task.launch();
  if (!task.on_host) CUDA_CHECK_LAUNCH();
  return task.check.wrong();
}

void require_right(const Task& task) {
  if (!task.check.unchecked.empty()) return;
  if (!task.check.poison || !task.check.wrong)
    throw std::logic_error(task.name + ": neither a check nor a reason why there is none");
  const size_t wrong = wrong_after(task);
  require_right(wrong == 0, task.name + ", " + std::to_string(wrong) + " elements");
}

Readings time_alone(const Measuring& measuring, const Task& task) {
  require_right(task);
  Readings times = alone_and_entered(measuring, task);
  require_right(task);
  return times;
}

std::vector<Readings> time_in_turn(const Measuring& measuring, const std::vector<Task>& tasks) {
  if (tasks.empty()) return {};
  bool host_works = false, enters = false;
  for (const Task& task : tasks) {
    require_right(task);
    host_works = host_works || task.on_host;
    enters = enters || task.enter;
  }
  std::vector<int> launches;
  for (const Task& task : tasks) {
    const Entered entered(task);
    if (task.on_host) {
      task.launch();  // once untimed: pages and caches of the host are touched
      launches.push_back(1);
    } else {
      warm_up(task, measuring);
      launches.push_back(launches_for(task));
    }
  }
  const int rounds = measuring.rounds_in_turn();
  const std::vector<Readings> times =
      host_works || enters ? time_waiting(rounds, tasks, launches, measuring, host_works)
                           : time_queued(rounds, tasks, launches);
  for (const Task& task : tasks) require_right(task);
  return times;
}
