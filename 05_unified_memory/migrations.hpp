// What the driver does behind managed memory: the records that nvprof printed of a program, counted
// inside the program, of each run of a piece of work.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "../common/timing.hpp"

enum What { to_device, to_host, fault_groups, cpu_faults };

/// A line of nvprof's table.
struct Line {
  double count = 0, bytes = 0, least = 0, most = 0, ms = 0;
};

/// A line of nvprof's trace. The host's faults have no end.
struct Record {
  What what;
  double value;         ///< bytes; of a page's fault on the GPU, how many groups it was part of
  uint64_t begin, end;  ///< nanoseconds
};

/// One run's table and trace.
struct Migrations {
  std::array<Line, 4> lines = {};
  std::vector<Record> records = {};
  const Line& operator[](What what) const { return lines[what]; }
};

/// All runs, by the names of the work; or what is missing, and no run.
struct Counted {
  std::string missing;
  std::map<std::string, std::vector<Migrations>> runs = {};
};

/// Counts from the beginning of benchmark.before to the end of benchmark.work, in turn. Throws
/// WrongResult.
Counted count_migrations(const std::vector<Benchmark>& benchmarks, int rounds);
