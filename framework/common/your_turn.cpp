#include "your_turn.hpp"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "check.hpp"

namespace your_turn {

namespace {

namespace code {
constexpr int done = 0, failure = 1, usage = 2, not_yet = 3, dear = 4, skipped = 77;
}

// ---- two processes: one runs what the reader wrote, and one watches it. They share this ----

struct Board {
  char name[64];          ///< of the exercise, or of a test's answer
  std::atomic<int> step;  ///< counts what runs; from 1 on main() has been reached
  int seconds;            ///< that this step may take
  char what[256];         ///< runs in this step
  std::atomic<bool> answered;
  int code;         ///< the exit code
  bool error;       ///< `text` is for standard error
  char text[8192];  ///< the answer
};
Board* board = nullptr;
const char* exercise_name = "";  ///< of this program

template <size_t size>
void copy(char (&to)[size], const std::string& from) {
  to[from.copy(to, size - 1)] = 0;
}

std::string colon(const std::string& what) { return what.empty() ? "" : what + ": "; }

// ---- registration ----

std::vector<const Entry*>& entries() {
  static std::vector<const Entry*> all;
  return all;
}

const Entry* find(const std::string& name, Author author) {
  for (const Entry* entry : entries())
    if (entry->name == name && entry->author == author) return entry;
  return nullptr;
}

std::string stem_of(const std::string& file) {
  const size_t slash = file.rfind('/');
  const std::string name = slash == std::string::npos ? file : file.substr(slash + 1);
  return name.substr(0, name.find('.'));
}

Author author_of(const std::string& file, const std::string& test) {
  if (!test.empty()) return Author::test;
  return file.find("/solutions/") == std::string::npos ? Author::reader : Author::solution;
}

// ---- the process that checks ----

struct Verdict {
  int code;
  std::string text;
  bool error = false;  ///< for standard error
};

Verdict verdict_of(const Entry& entry, const Entry& solution) {
  try {
    entry.check(solution);
    return {code::done, "done"};
  } catch (const NotYet& e) {
    return {code::not_yet, std::string("not yet: ") + e.what()};
  } catch (const Dear& e) {
    return {code::dear, std::string("right, but ") + e.what()};
  } catch (const Skipped& e) {
    return {code::skipped, std::string("skipped: ") + e.what()};
  } catch (const CudaError& e) {
    return {code::failure, std::string("could not be checked: ") + e.what()};
  } catch (const std::exception& e) {
    return {code::not_yet,
            "not yet: " + colon(board->what) + "throws an exception (" + e.what() + ")"};
  } catch (...) {
    return {code::not_yet, "not yet: throws something that is no std::exception"};
  }
}

// ---- the process that watches: it makes no CUDA call ----

using Clock = std::chrono::steady_clock;

/// Seconds that a step may take; tests want fewer.
int seconds_of_a_step() {
  const char* typed = std::getenv("YOUR_TURN_SECONDS");
  const int seconds = typed ? std::atoi(typed) : 0;
  return seconds > 0 ? seconds : 10;
}

/// After main() a GPU may have to start.
constexpr int seconds_to_start = 120;

/// Ends all that descends from this process, what has left the child's group, too. It does not wait
/// for ever: a driver may take long to clean up.
void end_all(pid_t child) {
  const std::string children =
      "/proc/self/task/" + std::to_string(getpid()) + "/children";  // and orphans, see below
  for (int tries = 0; tries < 3000; ++tries) {
    kill(-child, SIGKILL);
    if (FILE* file = std::fopen(children.c_str(), "r")) {
      for (long pid; std::fscanf(file, "%ld", &pid) == 1;) kill(pid_t(pid), SIGKILL);
      std::fclose(file);
    }
    pid_t ended;
    while ((ended = waitpid(-1, nullptr, WNOHANG)) > 0) continue;
    if (ended < 0) return;  // there is none
    usleep(10000);
  }
}

std::string how_it_ended(int status) {
  if (WIFSIGNALED(status)) return std::string("crashes (") + strsignal(WTERMSIG(status)) + ")";
  return "ends the program (exit code " + std::to_string(WEXITSTATUS(status)) + ")";
}

volatile std::sig_atomic_t interrupted = 0;
void interrupt(int signal) { interrupted = signal; }

/// Waits until the process has answered, has ended, or takes too long.
Verdict watched(pid_t child) {
  int step = -1, seconds = 0;
  Clock::time_point until;
  for (;; usleep(2000)) {
    int status = 0;
    const bool ended = waitpid(child, &status, WNOHANG) == child;
    if (board->answered) return {board->code, board->text, board->error};
    const std::string name = colon(board->name);
    const std::string what =
        board->step == 0 ? "a global variable's constructor, before main(): " : colon(board->what);
    if (ended) return {code::not_yet, name + "not yet: " + what + how_it_ended(status)};
    if (interrupted) return {code::failure, ""};
    if (step != board->step) {
      step = board->step;
      seconds = step == 0 ? seconds_of_a_step() : int(board->seconds);
      until = Clock::now() + std::chrono::seconds(seconds);
    } else if (Clock::now() >= until) {
      if (step == 1) return {code::failure, name + "could not be checked: the GPU does not start"};
      return {code::not_yet,
              name + "not yet: " + what + "does not end within " + std::to_string(seconds) + " s"};
    }
  }
}

[[noreturn]] void fail(const char* why) {
  std::fprintf(stderr, "%s: %s\n", exercise_name, why);
  _exit(code::failure);
}

// ---- the command line ----

constexpr const char* help = R"(Checks the exercise %s, and says in a line whether it is done.

  %s                  your answer
  %s --solution       the collection's
  %s --list           the exercise's name

exit code  0 done   3 not yet   4 right, but dear   77 it needs a GPU, and there is none)";

/// The answer that the words of the command line ask for.
Verdict answer_to(const std::vector<std::string>& line, const std::string& program) {
  Author author = Author::reader;
  std::string name = exercise_name;
  for (const std::string& word : line) {
    if (word == "--help" || word == "-h") {
      const char* p = program.c_str();
      char text[1024];
      std::snprintf(text, sizeof text, help, exercise_name, p, p, p);
      return {code::done, text};
    }
    if (word == "--list") return {code::done, exercise_name};
    if (word == "--solution")
      author = Author::solution;
    else if (word == "--test")  // what the tests of the collection hand in
      author = Author::test;
    else if (word.rfind("-", 0) == 0)
      throw UsageError("there is no option '" + word + "'; --help lists them");
    else
      name = word;
  }
  const Entry* entry = find(name, author);
  const Entry* solution = find(exercise_name, Author::solution);
  if (!entry && name == exercise_name && author == Author::reader)
    return {code::not_yet,
            name + ": not yet: its file hands nothing in; the last line has to be YOUR_TURN(...)"};
  if (!entry) throw UsageError("there is no exercise '" + name + "'; --list has the name");
  if (!solution) throw std::runtime_error("there is no solution");
  copy(board->name, name);
  Verdict verdict = verdict_of(*entry, *solution);
  std::replace(verdict.text.begin(), verdict.text.end(), '\n', ' ');
  return {verdict.code, name + ": " + verdict.text};
}

}  // namespace

void watch_from_the_start(const char* exercise) {
  exercise_name = exercise;
  board = static_cast<Board*>(
      mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  if (board == MAP_FAILED) fail("the system refuses memory");
  copy(board->name, exercise_name);
  std::signal(SIGCHLD, SIG_DFL);     // where it is ignored there is nothing to wait for
  prctl(PR_SET_CHILD_SUBREAPER, 1);  // what the child leaves behind becomes a child of this
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) fail("the system refuses a process");
  if (child == 0) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // it ends with the program, however that ends
    if (getppid() != parent) _exit(code::failure);
    const rlimit none{0, 0};
    setrlimit(RLIMIT_CORE, &none);
    dup2(STDERR_FILENO, STDOUT_FILENO);  // what the reader prints is no answer
    return;
  }
  setpgid(child, child);  // whichever of the two comes first
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, interrupt);
  const Verdict verdict = watched(child);
  end_all(child);
  if (interrupted) {
    std::signal(interrupted, SIG_DFL);
    std::raise(interrupted);
  }
  FILE* const out = verdict.error ? stderr : stdout;
  if (std::fprintf(out, "%s\n", verdict.text.c_str()) < 0 || std::fflush(out) != 0)
    fail("standard output cannot be written");
  _exit(verdict.code);
}

Entry::Entry(const std::string& exercise, const std::string& file, const std::string& test)
    : exercise(exercise),
      name(test.empty() ? exercise : exercise + "_" + test),
      author(author_of(file, test)) {
  entries().push_back(this);
}

void watch(const std::string& what, int longer) {
  copy(board->what, what);
  board->seconds = longer * seconds_of_a_step();
  ++board->step;
}

void Wrong::require_none() const {
  if (wrong_ == 0) return;
  throw NotYet(colon(what_) + std::to_string(wrong_) + " of " + std::to_string(all_) + " " +
               things_ + (wrong_ == 1 ? " is" : " are") + " wrong, the first " + first_);
}

void require_equal(const std::string& what, const std::vector<unsigned>& found,
                   const std::vector<unsigned>& expected, unsigned poison) {
  Wrong wrong(what);
  for (size_t i = 0; i < expected.size(); ++i)
    wrong.add(found[i] == expected[i], [&] {
      const std::string have = found[i] == poison ? "nothing" : std::to_string(found[i]);
      return "at " + std::to_string(i) + ": expected " + std::to_string(expected[i]) + ", found " +
             have;
    });
  wrong.require_none();
}

void require_predicted(const std::vector<Predicted>& all) {
  for (const Predicted& p : all) {
    if (std::fabs(p.yours - p.right) <= p.share * std::fabs(p.right)) continue;
    char yours[32];
    std::snprintf(yours, sizeof yours, "%.10g", p.yours);
    throw NotYet(p.of + ": not " + yours + "; " + p.consider);
  }
}

std::string sides(size_t nx, size_t ny) { return std::to_string(nx) + " x " + std::to_string(ny); }

int sectors(const WarpWords& words) {
  std::vector<long long> found;
  for (const long long word : words)
    if (word != idle) found.push_back(word / 8);
  std::sort(found.begin(), found.end());
  return int(std::unique(found.begin(), found.end()) - found.begin());
}

int wavefronts(const WarpWords& words) {
  WarpWords sorted = words;  // a word that several lanes want is given to all of them at once
  std::sort(sorted.begin(), sorted.end());
  const auto last = std::unique(sorted.begin(), sorted.end());
  std::array<int, 32> of_bank{};
  for (auto word = sorted.begin(); word != last; ++word)
    if (*word != idle) ++of_bank[size_t(*word % 32)];
  return *std::max_element(of_bank.begin(), of_bank.end());
}

void run(int argc, char** argv) {
  board->seconds = seconds_to_start;
  board->step = 1;
  const std::string program = stem_of(argc > 0 ? argv[0] : exercise_name);
  Verdict verdict;
  try {
    verdict = answer_to(std::vector<std::string>(argv + std::min(argc, 1), argv + argc), program);
  } catch (const UsageError& e) {
    verdict = {code::usage, program + ": " + e.what(), true};
  } catch (const std::exception& e) {
    verdict = {code::failure, program + ": " + e.what(), true};
  }
  std::fflush(nullptr);  // what the reader printed
  copy(board->text, verdict.text);
  board->code = verdict.code;
  board->error = verdict.error;
  board->answered = true;
  _exit(0);  // a GPU that was broken is given back by the system
}

}  // namespace your_turn
