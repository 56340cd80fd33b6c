// The host's half of sum; see sum_host.hpp.
#include "sum_host.hpp"

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include <unistd.h>

#include "../framework/common/host_threads.hpp"

namespace {

/// Word i: a whole number from 1 to 16, so that a line's sum is exact in float.
float word_at(size_t i) {
  unsigned x = unsigned(i) ^ unsigned(i >> 32) * 0x9e3779b1u;
  x = (x ^ x >> 16) * 0x85ebca6bu;
  return float(1 + (x >> 28));
}

}  // namespace

/// Threads that wait for work, one a core, and are all given the same function.
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

  /// Calls `work(i)` in thread i, for all of them, waits, and rethrows what one of them threw.
  void run(const std::function<void(size_t)>& work) {
    std::unique_lock lock(mutex_);
    work_ = &work;
    busy_ = size_;
    ++order_;
    begin_.notify_all();
    end_.wait(lock, [this] { return busy_ == 0; });
    if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
  }

 private:
  void end() {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
      ++order_;
    }
    begin_.notify_all();
  }
  void serve(size_t number) {
    std::unique_lock lock(mutex_);
    for (unsigned long long seen = 0;;) {
      begin_.wait(lock, [&] { return order_ != seen; });
      seen = order_;
      if (ending_) return;
      const std::function<void(size_t)>& work = *work_;
      std::exception_ptr thrown;
      lock.unlock();
      try {
        work(number);
      } catch (...) {
        thrown = std::current_exception();
      }
      lock.lock();
      if (thrown) thrown_ = thrown;
      if (--busy_ == 0) end_.notify_one();
    }
  }

  const size_t size_ = HostSquare::threads();
  std::mutex mutex_;
  std::condition_variable begin_, end_;
  const std::function<void(size_t)>* work_ = nullptr;
  size_t busy_ = 0;
  unsigned long long order_ = 0;
  bool ending_ = false;
  std::exception_ptr thrown_;
  HostThreads threads_;  // last, so that they end before what they use
};

namespace {

/// Adds up `side` words, `apart` words from each other.
double line_sum(const float* first, size_t side, size_t apart) {
  float sums[16] = {};  // independent, so that the adding keeps up with the memory
  size_t i = 0;
  for (; i + 16 <= side; i += 16)
    for (size_t j = 0; j < 16; ++j) sums[j] += first[(i + j) * apart];
  for (; i < side; ++i) sums[0] += first[i * apart];
  double total = 0;
  for (const float sum : sums) total += sum;
  return total;
}

}  // namespace

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
        row_sums[row] += word_at(i);
      }
    });
    share_out([this](size_t col) {
      for (size_t row = 0; row < side; ++row) column_sums[col] += word_at(row * side + col);
    });
  }
  /// Calls `work(line)` for all lines, neighbouring ones in one thread.
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

size_t HostSquare::fitting_side(size_t side) {
  const double memory = double(sysconf(_SC_PHYS_PAGES)) * double(sysconf(_SC_PAGESIZE));
  while (side > 1 && 4.0 * double(side) * double(side) > 0.5 * memory) side /= 2;
  return side;
}

unsigned HostSquare::threads() { return std::max(1u, std::thread::hardware_concurrency()); }

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
