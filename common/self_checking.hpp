// Running the self-checks with doctest's options. command_line.cpp alone includes it.
#pragma once

#include <string>
#include <vector>

/// Whether `words` ask for self-checks by one of doctest's options.
bool is_doctest_command(const std::vector<std::string>& words);

/// Runs the self-checks that doctest's options in `words` choose, or answers what they ask for.
/// Returns an exit code. Throws UsageError for what doctest would ignore: options that it does not
/// know, values of the wrong kind, a choice that runs nothing.
int run_self_checks(const std::string& topic, const std::vector<std::string>& words);
