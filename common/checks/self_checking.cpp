#include "self_checking.hpp"

#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <algorithm>
#include <climits>
#include <iostream>
#include <optional>
#include <sstream>

#include "../command_line.hpp"

namespace {

/// Counts what doctest does not tell: cases that the filters chose, those of them that ran, and
/// those of these that lacked something and were skipped.
struct CaseCounter : doctest::IReporter {
  static inline unsigned chosen = 0, run = 0, skipped = 0;

  explicit CaseCounter(const doctest::ContextOptions&) {}
  void report_query(const doctest::QueryData& query) override {
    if (query.run_stats) chosen = query.run_stats->numTestCasesPassingFilters;
  }
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats& stats) override {
    // Listeners come before reporters: the closing line counts as passed what ran and was not
    // skipped, where doctest would count all that the filters chose. The object is not const.
    const_cast<doctest::TestRunStats&>(stats).numTestCasesPassingFilters = run - skipped;
  }
  void test_case_start(const doctest::TestCaseData&) override {
    self_check_skipped = false;
    ++run;
  }
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats& stats) override {
    skipped += self_check_skipped && stats.failure_flags == 0;
  }
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}
};
REGISTER_LISTENER("case_counter", 1, CaseCounter);

// ---- doctest's options ----

/// One option of doctest (2.4.9 to 2.5.2). doctest itself ignores what it does not know, so this
/// table decides.
struct DoctestOption {
  enum Kind { query, flag, number, words, reporters, order } kind;
  const char *name, *shorthand;
};
using D = DoctestOption;
constexpr DoctestOption options[] = {
    {D::query, "--count", "-c"},
    {D::query, "--list-test-cases", "-ltc"},
    {D::query, "--list-test-suites", "-lts"},
    {D::words, "--test-case", "-tc"},
    {D::words, "--test-case-exclude", "-tce"},
    {D::words, "--source-file", "-sf"},
    {D::words, "--source-file-exclude", "-sfe"},
    {D::words, "--test-suite", "-ts"},
    {D::words, "--test-suite-exclude", "-tse"},
    {D::words, "--subcase", "-sc"},
    {D::words, "--subcase-exclude", "-sce"},
    {D::words, "--out", "-o"},
    {D::reporters, "--reporters", "-r"},
    {D::order, "--order-by", "-ob"},
    {D::number, "--rand-seed", "-rs"},
    {D::number, "--first", "-f"},
    {D::number, "--last", "-l"},
    {D::number, "--abort-after", "-aa"},
    {D::number, "--subcase-filter-levels", "-scfl"},
    {D::flag, "--success", "-s"},
    {D::flag, "--case-sensitive", "-cs"},
    {D::flag, "--duration", "-d"},
    {D::flag, "--minimal", "-m"},
    {D::flag, "--quiet", "-q"},
    {D::flag, "--no-throw", "-nt"},
    {D::flag, "--no-intro", "-ni"},
    {D::flag, "--no-version", "-nv"},
    {D::flag, "--no-colors", "-nc"},
    {D::flag, "--force-colors", "-fc"},
    {D::flag, "--no-breaks", "-nb"},
    {D::flag, "--no-skip", "-ns"},
    {D::flag, "--gnu-file-line", "-gfl"},
    {D::flag, "--no-path-filenames", "-npf"},
    {D::flag, "--no-line-numbers", "-nln"},
    {D::flag, "--no-debug-output", "-ndo"},
    {D::flag, "--no-skipped-summary", "-nss"},
    {D::flag, "--no-time-in-output", "-ntio"},
};

const DoctestOption* find_option(const std::string& word) {
  const std::string name = word.substr(0, word.find('='));
  for (const DoctestOption& option : options)
    if (name == option.name || name == option.shorthand) return &option;
  return nullptr;
}

/// What stands behind the '=', if there is one.
std::optional<std::string> value_of(const std::string& word) {
  const size_t equals = word.find('=');
  if (equals == std::string::npos) return std::nullopt;
  return word.substr(equals + 1);
}

void require_one_of(const std::string& option, const std::string& value,
                    const std::vector<std::string>& known) {
  if (std::find(known.begin(), known.end(), value) != known.end()) return;
  std::string names = known.front();
  for (size_t i = 1; i < known.size(); ++i) names += ", " + known[i];
  throw UsageError(option + ": '" + value + "' is none of " + names);
}

/// Throws UsageError unless doctest knows `word` and its value is of the right kind.
void require_known(const std::string& word) {
  const DoctestOption* option = find_option(word);
  if (!option) throw UsageError("'" + word + "' is no option of --self-check, nor of doctest");
  const std::string name = option->name;
  const std::optional<std::string> value = value_of(word);
  if (option->kind == D::query) {
    if (value) throw UsageError(name + " takes no value");
  } else if (option->kind == D::flag) {
    if (value && *value != "true" && *value != "false")
      throw UsageError(name + ": '" + *value + "' is neither true nor false");
  } else if (value.value_or("").empty()) {
    throw UsageError(name + ": its value is missing; it follows '='");
  } else if (option->kind == D::number) {
    parse_number(name, *value, 0, INT_MAX);
  } else if (option->kind == D::order) {
    require_one_of(name, *value, {"file", "suite", "name", "rand", "none"});
  } else if (option->kind == D::reporters) {
    std::istringstream each(*value + ",");
    for (std::string reporter; std::getline(each, reporter, ',');)
      require_one_of(name, reporter, {"console", "xml", "junit"});
  }
}

/// The value of the option `name` among `words`.
std::optional<std::string> value_of(const std::vector<std::string>& words,
                                    const std::string& name) {
  for (const std::string& word : words)
    if (find_option(word)->name == name) return value_of(word);
  return std::nullopt;
}

/// How many cases the filters choose, without running any.
unsigned count_chosen(std::vector<const char*> arguments) {
  arguments.push_back("--count");
  std::ostringstream nowhere;
  doctest::Context context;
  context.applyCommandLine(int(arguments.size()), arguments.data());
  context.setCout(&nowhere);
  context.run();
  return CaseCounter::chosen;
}

/// doctest numbers the chosen cases from 1 and runs those from --first to --last, if they are in
/// that order; without --last all that follow.
bool range_runs_one(const std::vector<std::string>& words, unsigned chosen) {
  const auto number = [&](const char* name, unsigned otherwise) {
    const std::optional<std::string> value = value_of(words, name);
    return value ? unsigned(parse_number(name, *value, 0, INT_MAX)) : otherwise;
  };
  const unsigned first = number("--first", 0), last = number("--last", UINT_MAX);
  if (first > last) return chosen >= first;  // then doctest heeds --first alone
  return last >= 1 && first <= chosen;
}

}  // namespace

bool is_doctest_command(const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    const DoctestOption* option = find_option(word);
    const std::string name = option ? option->name : "";
    if (name == "--test-case" || name == "--list-test-cases") return true;
  }
  return false;
}

void require_doctest_options(const std::vector<std::string>& words) {
  std::vector<const DoctestOption*> seen;
  for (const std::string& word : words) {
    require_known(word);
    seen.push_back(find_option(word));
    if (std::count(seen.begin(), seen.end(), seen.back()) > 1)
      throw UsageError(std::string(seen.back()->name) + " is given twice");
  }
}

std::optional<std::string> doctest_output(const std::vector<std::string>& words) {
  return value_of(words, "--out");
}

int run_self_checks(const std::string& topic, const std::vector<std::string>& words,
                    OutputFile* output) {
  std::vector<const char*> arguments{topic.c_str()};
  bool asks_only = false;  // for names or numbers; nothing is run
  for (const std::string& word : words) {
    asks_only = asks_only || find_option(word)->kind == D::query;
    if (find_option(word)->name != std::string("--out")) arguments.push_back(word.c_str());
  }
  const unsigned chosen = count_chosen(arguments);
  if (chosen == 0) throw UsageError("no self-check matches; --list-test-cases prints their names");
  if (!asks_only && !range_runs_one(words, chosen))
    throw UsageError("--first, --last: there is none of the " + std::to_string(chosen) +
                     " self-checks between them");

  std::ostringstream printed;
  doctest::Context context;
  context.applyCommandLine(int(arguments.size()), arguments.data());
  if (output) context.setCout(&printed);
  const int failed = context.run();
  if (output) {
    output->write(printed.str());
    output->finish();
  }
  if (failed) return exit_code::failure;
  if (asks_only || CaseCounter::skipped < CaseCounter::run) return exit_code::success;
  return exit_code::skipped;
}
