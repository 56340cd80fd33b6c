// What the checks of exercises need that run a reader's kernel: memory behind which nothing is, a
// launch whose failure is an answer, and the time beside the solution's.
#pragma once

#include <vector>

#include "timing.hpp"
#include "your_turn.hpp"

namespace your_turn {

/// Throws Skipped where there is no GPU.
void require_gpu();

/// Words on the device that end where mapped memory ends (but for up to 12 bytes, so that the first
/// one lies on 16 bytes): a kernel that goes beyond is stopped by the GPU. What lies before them,
/// and in those 12 bytes, is a pattern that has to stay. Where the driver cannot map memory so, it
/// is the pattern on both sides that tells.
class Guarded {
 public:
  explicit Guarded(size_t words);
  explicit Guarded(const std::vector<unsigned>& host);
  /// The words so many times, one behind the other, in memory for one of them: an array that may be
  /// longer than the GPU's memory. They have to fill whole MiB. Where the driver cannot map memory
  /// so, data() is null.
  Guarded(const std::vector<unsigned>& host, size_t times);
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  ~Guarded();

  unsigned* data() const { return data_; }
  size_t size() const { return size_; }
  /// Sets every word to this byte, four times.
  void fill(unsigned char byte) const;
  std::vector<unsigned> to_host() const;
  /// Throws NotYet if a word before or behind was written.
  void require_untouched_around(const std::string& what) const;

 private:
  unsigned* data_ = nullptr;
  size_t size_ = 0;
  unsigned char* begin_ = nullptr;                ///< of what is mapped, or allocated
  size_t bytes_ = 0;                              ///< of that
  size_t before_ = 0;                             ///< bytes of it that lie before the words
  unsigned long long reserved_ = 0, handle_ = 0;  ///< of mapped memory
  size_t reserved_bytes_ = 0;

  bool map(size_t bytes, size_t times);
};

/// Launches and waits. Throws NotYet if the kernel is not launched, or fails; of other calls than a
/// launch `refused` says what an error means.
void run_kernel(const std::string& what, const Function<void()>& launch,
                const char* refused = "the kernel is not launched");

/// Times the reader's work and the solution's in turn; throws Dear if it takes more than `enough`
/// times as long. `check` compares the results of both. Work `on_host` has ended when it returns.
void require_near(const std::string& what, const Function<void()>& yours,
                  const Function<void()>& solution, const Check& check, bool on_host = false,
                  double enough = 1.25);

/// The same of times that were measured in turn.
void require_near(const Readings& yours, const Readings& solution, double enough = 1.25);

}  // namespace your_turn
