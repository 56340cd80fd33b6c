// The self-checks of every program: its doctest cases, by --self-check. A part of command_line.cpp.
#include <algorithm>
#include <cstdlib>
#include <iostream>

#include "../sample.hpp"

namespace {

enum Exit { success = 0, failure = 1, usage = 2, skipped = 77 };

unsigned cases_skipped = 0, cases_run = 0;
bool case_is_skipped = false;
bool case_should_fail = false, wrong_answer_threw = false;  // an exception is no failed check
const char* case_name = "";

struct CountCases : doctest::IReporter {
  explicit CountCases(const doctest::ContextOptions&) {}
  void test_run_end(const doctest::TestRunStats& stats) override {
    cases_run = stats.numTestCasesPassingFilters;
  }
  void test_case_start(const doctest::TestCaseData& data) override {
    case_is_skipped = false;
    case_should_fail = data.m_should_fail;
    case_name = data.m_name;
  }
  void test_case_end(const doctest::CurrentTestCaseStats&) override {
    cases_skipped += case_is_skipped;
  }
  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {
    wrong_answer_threw |= case_should_fail;
  }
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}
};
REGISTER_LISTENER("count", 1, CountCases);

/// `--self-check`, and the options that ctest uses. An option that is none of doctest's would be
/// taken in silence.
bool is_self_check(int argc, char** argv) {
  const auto of_doctest = [](const std::string& argument) {
    return argument == "--self-check" || argument == "--list-test-cases" ||
           argument.starts_with("--test-case=") || argument.starts_with("--test-case-exclude=");
  };
  if (std::none_of(argv + 1, argv + argc, of_doctest)) return false;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (!of_doctest(argument)) throw UsageError("'" + argument + "' is no option of --self-check");
    if (argument.starts_with("--test-case") &&
        argument.find_last_not_of(',') == argument.find('='))  // doctest would run all
      throw UsageError("'" + argument + "' names no case");
  }
  return true;
}

int self_check(int argc, char** argv) {
  doctest::Context context(argc, argv);
  context.setOption("no-intro", true);            // it offers options that are not there
  context.setOption("no-skipped-summary", true);  // doctest knows nothing of our skip()
  const int result = context.run(), code = wrong_answer_threw ? failure : result;
  if (context.shouldExit()) return code;  // the cases were listed
  if (cases_run == 0) throw UsageError("no self-check has such a name");
  if (cases_skipped)
    std::cout << "skipped, so not checked: " << cases_skipped << " of " << cases_run << '\n';
  return code == 0 && cases_skipped > 0 && cases_skipped == cases_run ? skipped : code;
}

}  // namespace

// ---- in doctest cases ----

void skip(const std::string& why) {
  case_is_skipped = true;
  std::cout << "skipped: " << case_name << ": " << why << '\n';
}

bool skip_without_gpu() {
  const std::string reason = no_gpu_reason();
  if (reason.empty()) return false;
  const char* required = std::getenv("SAMPLES_REQUIRE_GPU");
  if (required && std::string(required) == "1") FAIL("a GPU is required: " << reason);
  skip(reason);
  return true;
}

cudaDeviceProp current_gpu() {
  int device = 0;
  cudaDeviceProp properties{};
  CUDA_CHECK(cudaGetDevice(&device));
  CUDA_CHECK(cudaGetDeviceProperties(&properties, device));
  return properties;
}
