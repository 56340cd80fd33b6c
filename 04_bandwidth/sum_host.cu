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
  std::unique_ptr<float[]> array;
  std::vector<double> right, found;  ///< the sum of each row
  Crew crew;

  explicit Parts(size_t side)
      : side(side), array(new float[side * side]), right(side), found(side) {
    share_out([this](size_t row) {  // first touched by the thread that will read it
      for (size_t i = row * this->side; i < (row + 1) * this->side; ++i) {
        array[i] = word_at(i);
        right[row] += word_at(i);
      }
    });
  }
  /// Calls `work(row)` for all rows, neighbouring ones in one thread.
  void share_out(const std::function<void(size_t)>& work) {
    const size_t threads = crew.size();
    crew.run([&](size_t i) {
      for (size_t row = side * i / threads; row < side * (i + 1) / threads; ++row) work(row);
    });
  }
};

HostSquare::HostSquare(size_t side) : parts_(new Parts(side)) {}
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

void HostSquare::poison() { parts_->found.assign(parts_->side, NAN); }

size_t HostSquare::wrong() const {
  size_t wrong = 0;
  for (size_t row = 0; row < parts_->side; ++row)
    wrong += !(parts_->found[row] == parts_->right[row]);
  return wrong;
}
