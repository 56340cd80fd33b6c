// The host's half of sum: the same array, added up by all cores of this computer.
#pragma once

#include <cstddef>
#include <memory>

/// A square array in host memory, and the threads that add it up by rows, which exist before a
/// clock starts.
class HostSquare {
 public:
  explicit HostSquare(size_t side);
  HostSquare(HostSquare&&) noexcept;
  ~HostSquare();

  /// Processors that this program may use: so many threads add up.
  static unsigned threads();
  /// Bytes of the host's memory.
  static double memory_there();

  /// Each thread adds up a share of the rows.
  void add_up();
  void poison();
  /// Rows whose sum is wrong.
  size_t wrong() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};
