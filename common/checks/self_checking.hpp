// Running the self-checks with doctest's options. command_line.cpp alone includes it. Weak: a
// program that was built without self-checks has none of these functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "../files.hpp"

/// Whether `words` ask for self-checks by one of doctest's options.
[[gnu::weak]] bool is_doctest_command(const std::vector<std::string>& words);

/// Throws UsageError for what doctest would ignore: options that it does not know, values of the
/// wrong kind, an option given twice.
[[gnu::weak]] void require_doctest_options(const std::vector<std::string>& words);

/// The value of --out, doctest's file for what it prints.
[[gnu::weak]] std::optional<std::string> doctest_output(const std::vector<std::string>& words);

/// Runs the self-checks that doctest's options in `words` choose, or answers what they ask for.
/// doctest prints to `output` if there is one, and would not say that it cannot. Returns an exit
/// code. Throws UsageError for a choice that runs nothing.
[[gnu::weak]] int run_self_checks(const std::string& topic, const std::vector<std::string>& words,
                                  OutputFile* output);
