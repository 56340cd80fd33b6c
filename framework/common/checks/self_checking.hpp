// Running the self-checks with doctest. command_line.cpp alone includes it.
#pragma once

#include <string>

/// Which self-checks, and how; empty: not typed.
struct SelfChecks {
  std::string test_case;           ///< patterns of names, as doctest takes them
  std::string test_suite;          ///< patterns of suites: large, race, plausible
  std::string test_suite_exclude;  ///< the same of those to leave out
  std::string reporter;            ///< console, xml or junit
  std::string out;                 ///< the file for what the reporter prints
  bool list = false;               ///< prints the names of the cases and runs none
};

/// Runs them and returns an exit code. Throws UsageError for a choice that runs nothing. Weak: a
/// program that was built without self-checks has no such function.
[[gnu::weak]] int run_self_checks(const SelfChecks& typed);
