#include "host_threads.hpp"

#include <stdexcept>
#include <string>
#include <system_error>

void on_threads(size_t count, const Function<void(size_t)>& work) {
  HostThreads threads;
  threads.start(count, work);
  threads.wait();
}

void HostThreads::start(size_t count, const Function<void(size_t)>& work) {
  work_ = work;
  thrown_.resize(count);
  threads_.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    const auto call = [this, i] {
      try {
        work_(i);
      } catch (...) {
        thrown_[i] = std::current_exception();
      }
    };
    try {
      threads_.emplace_back(call);
    } catch (const std::system_error& refused) {
      throw std::runtime_error("cannot start thread " + std::to_string(i + 1) + " of " +
                               std::to_string(count) + " on the host: " + refused.code().message());
    }
  }
}

void HostThreads::wait() {
  threads_.clear();
  for (const std::exception_ptr& thrown : thrown_)
    if (thrown) std::rethrow_exception(thrown);
}
