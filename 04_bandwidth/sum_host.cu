// The host's half of sum; see sum_host.hpp.
#include "sum_host.hpp"

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <vector>

#include <unistd.h>

#include "../common/host_threads.hpp"

namespace {

/// Word i: a whole number from 1 to 16, so that a row's sum is exact in float.
float word_at(size_t i) {
  unsigned x = unsigned(i) ^ unsigned(i >> 32) * 0x9e3779b1u;
  x = (x ^ x >> 16) * 0x85ebca6bu;
  return float(1 + (x >> 28));
}

/// Adds up `n` neighbouring words.
double row_sum(const float* first, size_t n) {
  float sums[16] = {};  // independent, so that the adding keeps up with the memory
  size_t i = 0;
  for (; i + 16 <= n; i += 16)
    for (size_t j = 0; j < 16; ++j) sums[j] += first[i + j];
  for (; i < n; ++i) sums[0] += first[i];
  double total = 0;
  for (const float sum : sums) total += sum;
  return total;
}

}  // namespace

/// Threads that wait for work, one per core, and are all given the same function, which throws
/// nothing.
class Crew {
 public:
  Crew() {
    try {
      threads_.start(size_, [this](size_t i) { serve(i); });
    } catch (...) {  // refused: those that were started must not wait for work
      end();
      throw;
    }
  }
  ~Crew() { end(); }
  size_t size() const { return size_; }

  /// Calls `work(i)` in thread i, for all of them, and waits.
  void run(const std::function<void(size_t)>& work) {
    std::unique_lock lock(mutex_);
    work_ = &work;
    busy_ = size_;
    ++order_;
    begin_.notify_all();
    end_.wait(lock, [this] { return busy_ == 0; });
  }

 private:
  void end() {
    {
      const std::lock_guard lock(mutex_);
      work_ = nullptr;
      ++order_;
    }
    begin_.notify_all();
  }
  void serve(size_t number) {
    std::unique_lock lock(mutex_);
    for (unsigned long long seen = 0;;) {
      begin_.wait(lock, [&] { return order_ != seen; });
      seen = order_;
      const std::function<void(size_t)>* const work = work_;
      if (!work) return;
      lock.unlock();
      (*work)(number);
      lock.lock();
      if (--busy_ == 0) end_.notify_one();
    }
  }

  const size_t size_ = HostSquare::threads();
  std::mutex mutex_;
  std::condition_variable begin_, end_;
  const std::function<void(size_t)>* work_ = nullptr;  ///< null: the end
  size_t busy_ = 0;
  unsigned long long order_ = 0;
  HostThreads threads_;  // last, so that they end before what they use
};

struct HostSquare::Parts {
  size_t side;
  std::unique_ptr<float[]> array = {};
  std::vector<double> row_sums = {}, column_sums = {}, found = {};  ///< of each line; two are right
  std::unique_ptr<Crew> crew = {};

  /// Before the first check.
  void begin() {
    if (crew) return;
    crew.reset(new Crew);
    array.reset(new float[side * side]);
    row_sums.assign(side, 0), column_sums.assign(side, 0), found.assign(side, NAN);
    share_out([this](size_t row) {  // first touched by the thread that will read it
      for (size_t col = 0; col < side; ++col) {
        const size_t i = row * side + col;
        array[i] = word_at(i);
        right[row] += word_at(i);
      }
    });
    share_out([this](size_t col) {
      for (size_t row = 0; row < side; ++row) column_sums[col] += word_at(row * side + col);
    });
  }
  /// Calls `work(row)` for all rows, neighbouring ones in one thread.
  void share_out(const std::function<void(size_t)>& work) {
    const size_t threads = crew->size();
    crew->run([&](size_t i) {
      for (size_t line = side * i / threads; line < side * (i + 1) / threads; ++line) work(line);
    });
  }
};

HostSquare::HostSquare(size_t side) : parts_(new Parts{side}) {}
HostSquare::HostSquare(HostSquare&&) noexcept = default;
HostSquare::~HostSquare() = default;

unsigned HostSquare::threads() { return std::max(1u, std::thread::hardware_concurrency()); }

double HostSquare::memory_there() {
  return double(sysconf(_SC_PHYS_PAGES)) * double(sysconf(_SC_PAGESIZE));
}

void HostSquare::add_up() {
  Parts& p = *parts_;
  p.share_out([&p](size_t row) { p.found[row] = row_sum(p.array.get() + row * p.side, p.side); });
}

/// `right`: the sums of all lines. Lines begin `line_apart` words apart, a line's words lie
/// `word_apart` from each other.
Task HostSquare::task(const char* name, const std::vector<double> Parts::*right, bool columns) {
  Check check;
  check.poison = [parts = parts_] {
    parts->begin();
    parts->found.assign(parts->side, NAN);
  };
  check.wrong = [parts = parts_, right] {
    size_t wrong = 0;
    for (size_t line = 0; line < parts->side; ++line)
      wrong += !(parts->found[line] == ((*parts).*right)[line]);
    return wrong;
  };
  const auto add_up = [parts = parts_, columns] {
    const size_t side = parts->side, line_apart = columns ? 1 : side,
                 word_apart = columns ? side : 1;
    parts->share_out([=, &parts](size_t line) {
      parts->found[line] = line_sum(parts->array.get() + line * line_apart, side, word_apart);
    });
  };
  return {name, add_up, std::move(check), true};
}

Task HostSquare::by_rows() { return task("host_rows", &Parts::row_sums, false); }
Task HostSquare::by_columns() { return task("host_columns", &Parts::column_sums, true); }
