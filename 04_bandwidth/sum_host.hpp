// The host's half of sum: the same array, added up by all cores of this computer.
#pragma once

#include <memory>

#include "../common/report.hpp"

/// A square array in host memory and the threads that add it up, which exist before a clock starts.
class HostSquare {
 public:
  explicit HostSquare(size_t side);
  ~HostSquare();

  /// `side`, halved until the array takes at most half of the host's memory.
  static size_t fitting_side(size_t side);
  /// "16 threads".
  static std::string threads_text();

  double bytes() const;
  /// Adds up the whole array, a share of the rows (or of the columns) for each thread.
  Task by_rows();
  Task by_columns();
  /// Prints both. `rows`: times by rows that were measured already, in turn with the GPU; or none.
  void measure(const Run& run, const Readings& rows);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};
