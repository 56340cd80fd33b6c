// Threads of the host that exist before a clock starts, one a core, and share work.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "../framework/common/host_threads.hpp"

/// Threads that wait for work and are all given the same function.
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

  /// Calls `work(i)` in thread i, for all of them, and waits. It must not throw.
  void run(const Function<void(size_t)>& work) {
    std::unique_lock lock(mutex_);
    work_ = &work;
    busy_ = size_;
    ++order_;
    begin_.notify_all();
    end_.wait(lock, [this] { return busy_ == 0; });
  }
  /// Calls `work(from, to)` for parts of n, a thread each.
  void share_out(size_t n, const Function<void(size_t, size_t)>& work) {
    run([&](size_t i) { work(n * i / size_, n * (i + 1) / size_); });
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
      const Function<void(size_t)>& work = *work_;
      lock.unlock();
      work(number);
      lock.lock();
      if (--busy_ == 0) end_.notify_one();
    }
  }

  const size_t size_ = std::max(1u, std::thread::hardware_concurrency());
  std::mutex mutex_;
  std::condition_variable begin_, end_;
  const Function<void(size_t)>* work_ = nullptr;
  size_t busy_ = 0;
  unsigned long long order_ = 0;
  bool ending_ = false;
  HostThreads threads_;  // last, so that they end before what they use
};
