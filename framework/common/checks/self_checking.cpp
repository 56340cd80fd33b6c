#include "self_checking.hpp"

#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <optional>
#include <sstream>
#include <vector>

#include "../command_line.hpp"
#include "../files.hpp"

namespace {

/// Counts what doctest does not tell: cases that the filters chose, and of those that ran the ones
/// that failed, and the ones that lacked something and were skipped.
struct CaseCounter : doctest::IReporter {
  static inline unsigned chosen = 0, run = 0, failed = 0, skipped = 0;

  explicit CaseCounter(const doctest::ContextOptions&) {}
  void report_query(const doctest::QueryData& query) override {
    if (query.run_stats) chosen = query.run_stats->numTestCasesPassingFilters;
  }
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats&) override {}
  void test_case_start(const doctest::TestCaseData&) override {
    self_check_skipped = false;
    ++run;
  }
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats& stats) override {
    failed += stats.failure_flags != 0;
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

/// While one of these lives, what the cases print goes to standard error.
class StandardOutputMoved {
 public:
  StandardOutputMoved() : kept_(dup(STDOUT_FILENO)) { move(STDERR_FILENO); }
  StandardOutputMoved(const StandardOutputMoved&) = delete;
  ~StandardOutputMoved() {
    move(kept_);
    close(kept_);
  }

 private:
  static void move(int to) {
    std::cout.flush();
    std::fflush(stdout);
    dup2(to, STDOUT_FILENO);
  }
  int kept_;
};

/// Runs doctest; `mode` is its option for something else than running the cases. It prints to
/// `printed`, or to standard output if that is null.
int run_doctest(const SelfChecks& typed, const char* mode, std::ostream* printed) {
  std::vector<std::string> words{"", "--no-intro"};
  const auto add = [&](const char* option, const std::string& value) {
    if (!value.empty()) words.push_back(option + value);
  };
  add("--test-case=", typed.test_case);
  add("--test-suite=", typed.test_suite);
  add("--test-suite-exclude=", typed.test_suite_exclude);
  add("--reporters=", typed.reporter);
  if (!typed.test_suite.empty()) words.push_back("--no-skip");  // a suite that is named is run
  add("", mode);
  std::vector<const char*> arguments;
  for (const std::string& word : words) arguments.push_back(word.c_str());

  doctest::Context context;
  context.applyCommandLine(int(arguments.size()), arguments.data());
  if (printed) context.setCout(printed);
  return context.run();
}

}  // namespace

int run_self_checks(const SelfChecks& typed) {
  const std::string& reporter = typed.reporter;
  const bool to_console = reporter.empty() || reporter == "console";
  if (!to_console && reporter != "xml" && reporter != "junit")
    throw UsageError("--reporters: '" + reporter + "' is none of console, xml, junit");
  std::ostringstream printed;
  run_doctest(typed, "--count", &printed);
  if (CaseCounter::chosen == 0)
    throw UsageError("no self-check matches; --list-test-cases prints their names");

  printed.str("");
  const bool at_once = to_console && typed.out.empty();
  int failed = 0;
  {
    std::optional<StandardOutputMoved> moved;
    if (!to_console && typed.out.empty()) moved.emplace();
    failed =
        run_doctest(typed, typed.list ? "--list-test-cases" : "", at_once ? nullptr : &printed);
  }
  if (!typed.out.empty())
    write_whole(typed.out, printed.str());
  else
    std::cout << printed.str();
  if (typed.list) return exit_code::success;

  using C = CaseCounter;
  if (to_console)
    std::cout << "self-checks: " << C::run - C::failed - C::skipped << " passed, " << C::skipped
              << " skipped, " << C::failed << " failed\n";
  if (failed) return exit_code::failure;
  return C::skipped < C::run ? exit_code::success : exit_code::skipped;
}
