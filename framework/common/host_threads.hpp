// Threads of the host that do one piece of work side by side. One that the system refuses (ulimit
// -u, a limit of the container) is an error that says which of how many it was.
#pragma once

#include <cstddef>
#include <exception>
#include <thread>
#include <vector>

#include "timing.hpp"

/// Calls `work(0)` to `work(count - 1)`, each in a thread of its own, and waits for all of them,
/// whatever happens. Rethrows what `work` threw, the lowest number's if several did. Throws
/// std::runtime_error, "cannot start thread 3 of 64 on the host: Resource temporarily unavailable",
/// if the system refuses a thread; those before it have done their work then.
void on_threads(size_t count, const Function<void(size_t)>& work);

/// The same where the caller has something else to do meanwhile. The destructor waits for the
/// threads; what `work` refers to must live that long.
class HostThreads {
 public:
  HostThreads() = default;
  HostThreads(HostThreads&&) = delete;

  /// Starts threads that call `work(0)` to `work(count - 1)`; called once. Throws as on_threads if
  /// one is refused; those before it go on.
  void start(size_t count, const Function<void(size_t)>& work);

  /// Waits for all of them and rethrows what `work` threw.
  void wait();

 private:
  Function<void(size_t)> work_;
  std::vector<std::exception_ptr> thrown_;
  std::vector<std::jthread> threads_;  // last, so that they end before what they use
};
