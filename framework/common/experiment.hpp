// What an experiment declares. main.cu lists it; the checks that every experiment gets are made
// from it (checks/standard.hpp).
#pragma once

#include "counters.hpp"
#include "sheet.hpp"

namespace samples {

// ---- claims as data ----

/// Two rows whose times a claim compares: `slow` over `fast`.
struct Comparison {
  Ref slow, fast;
  bool per_byte = false;  ///< compares what a byte of each row's work takes
  double works = 1;       ///< so many times as much work in the fast row: `per` piece of it
  const char* per = "load";
};

/// A number that a claim judges as it is: one that was kept under this metric or, if `of_ms` is
/// given, what follows from the row's time, in `unit`.
struct Level {
  Ref ref;
  std::string metric = {};
  Function<double(double ms)> of_ms = {};
  std::string unit = {};
};

enum class Fact { none, so, not_so };

/// A part of the texts' statements, and what decides it: pairs of rows, levels, or a fact. Several
/// pairs or levels are judged by the rule for several. Where the text says "always" or "never", the
/// pair is the worst case, measured again; where it says "some" or "can", the best case.
struct Claim {
  Part part = {};
  Criterion rule = {};
  std::vector<Comparison> pairs = {};
  std::vector<Level> levels = {};
  bool some = false;  ///< the text says "some" or "can"
  Fact fact = Fact::none;
  std::string here = {};               ///< of a fact: what was found; else added to what was found
  std::string unless = {};             ///< not empty: the part is not judged, and why
  std::string needs = {};              ///< what to do where a level is missing
  std::vector<Comparison> found = {};  ///< shown below the claim as findings, not judged
};

/// How many times as long `slow` takes as `fast`, for a table of its own; claims save their ratios.
Interval ratio_of(const Run& run, const Comparison& pair);

/// Compares two rows beside a claim, or where no text claims anything: a finding, not judged.
/// `where` stands before it.
void find(const Run& run, const std::string& id, const Comparison& pair,
          const std::string& where = "");

/// A count of this run (--counters), kept under the key of the kernel that was counted.
Statistics ask_count(const Run& run, const std::string& kernel, const std::string& parameter,
                     const std::string& metric);

// ---- what the standard checks use ----

/// What an experiment takes from a GPU.
struct Needs {
  double allocated = NAN;  ///< bytes of its memory
  double touched = NAN;    ///< bytes that are to come from memory, not from the L2; NaN: any
};

/// A task, which owns its memory.
struct Checked {
  Task task = {};
  size_t elements = 0;               ///< so many are wrong after poison()
  Function<void()> change_one = {};  ///< changes one element of a right result
};

/// Requests of all warps of a launch, and the sectors that they touch.
struct Requested {
  double requests = 0, sectors = 0;
};
/// A launch that is counted beside a model. Where there are no loads, or no stores, none are
/// expected and none are compared.
CountedLaunch counted_launch(std::string kernel, std::string parameter, Requested loads,
                             Requested stores, Function<Task()> make);

struct Experiment {
  const char* name = "";
  const char* about = "";
  void (*run)(const Run&) = nullptr;
  void (*check_typed)(const Run&) = nullptr;  ///< throws UsageError if a typed size does not fit
  std::vector<Claim> (*claims)(const Run&) = nullptr;
  Needs (*needs)(const Run&) = nullptr;
  std::vector<Checked> (*tasks)(size_t n) = nullptr;  ///< all kernels, at any size
  std::vector<CountedLaunch> (*counted)() = nullptr;
};

/// Runs it on this machine. Without a GPU it then shows what a GPU gave before: `recorded` is a
/// results file.
void carry_out(const Experiment& experiment, const Run& run, const std::string& recorded);

/// Runs it through this gate, and judges its claims.
void carry_out(const Experiment& experiment, Run run, Machine& machine);

}  // namespace samples
