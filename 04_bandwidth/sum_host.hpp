// The host's half of sum: the same array, added up by all cores of this computer.
#pragma once

#include <memory>

#include "../framework/common/timing.hpp"

/// A square array in host memory, and the threads that add it up. Both exist from the first check
/// of a task on, before a clock starts.
class HostSquare {
 public:
  explicit HostSquare(size_t side);
  HostSquare(HostSquare&&) noexcept;
  ~HostSquare();

  /// `side`, halved until the array takes at most half of the host's memory.
  static size_t fitting_side(size_t side);
  /// So many add up: one for each processor that this program may use.
  static unsigned threads();

  /// Adds up the whole array, a share of the rows (or of the columns) per thread. The tasks are
  /// called host_rows and host_columns.
  Task by_rows();
  Task by_columns();

 private:
  struct Parts;
  Task task(const char* name, const std::vector<double> Parts::*right, bool columns);
  std::shared_ptr<Parts> parts_;
};
