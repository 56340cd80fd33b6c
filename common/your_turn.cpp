#include "your_turn.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
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

// ---- the process that checks: it tells the one that watches what runs, and at last the answer.
// A message is a line: 'w', how much longer than usual it may take, and what
// runs; or 'a', the exit code and the answer ----

int messages = -1;    // the end of the pipe to write to
std::string running;  // the last that was watched

void tell(char kind, std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  text = kind + text + '\n';
  for (size_t sent = 0; sent < text.size();) {
    const ssize_t length = write(messages, text.data() + sent, text.size() - sent);
    if (length < 0 && errno != EINTR) return;
    if (length > 0) sent += size_t(length);
  }
}

struct Verdict {
  int code;
  std::string text;
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
    const std::string what = running.empty() ? "" : running + ": ";
    return {code::not_yet, "not yet: " + what + "throws an exception (" + e.what() + ")"};
  } catch (...) {
    return {code::not_yet, "not yet: throws something that is no std::exception"};
  }
}

[[noreturn]] void check_in_this_process(const Entry& entry, const Entry& solution, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // it ends with the program, however that ends
  if (getppid() != parent) _exit(code::failure);
  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);
  const Verdict verdict = verdict_of(entry, solution);
  std::fflush(nullptr);  // what the reader printed
  tell('a', std::to_string(verdict.code) + ' ' + verdict.text);
  _exit(0);  // a GPU that was broken is given back by the system
}

// ---- the process that watches: it makes no CUDA call ----

using Clock = std::chrono::steady_clock;

/// Seconds that a step may take; tests want fewer.
int seconds_of_a_step() {
  const char* typed = std::getenv("YOUR_TURN_SECONDS");
  const int seconds = typed ? std::atoi(typed) : 0;
  return seconds > 0 ? seconds : 10;
}

/// Before the first step a GPU may have to start.
constexpr int seconds_to_start = 120;

/// Ends the process and waits, but not for ever: a driver may take long to clean up. What it
/// ended with, or -1.
int end(pid_t child) {
  kill(child, SIGKILL);
  int status = 0;
  for (int tries = 0; tries < 3000; ++tries) {
    const pid_t ended = waitpid(child, &status, WNOHANG);
    if (ended == child) return status;
    if (ended < 0 && errno != EINTR) return -1;
    usleep(10000);
  }
  return -1;
}

/// Waits until the process has ended by itself: true, and how it ended.
bool wait_for(pid_t child, int seconds, int& status) {
  const auto until = Clock::now() + std::chrono::seconds(seconds);
  while (Clock::now() < until) {
    const pid_t ended = waitpid(child, &status, WNOHANG);
    if (ended == child) return true;
    if (ended < 0 && errno != EINTR) return false;
    usleep(1000);
  }
  return false;
}

std::string colon(const std::string& what) { return what.empty() ? "" : what + ": "; }

Verdict crashed(const std::string& what, int status) {
  std::string how = "ends the program";
  if (WIFSIGNALED(status))
    how = std::string("crashes (") + strsignal(WTERMSIG(status)) + ")";
  else if (WIFEXITED(status))
    how += " (exit code " + std::to_string(WEXITSTATUS(status)) + ")";
  return {code::not_yet, "not yet: " + colon(what) + how};
}

/// Reads what the process says until it has answered, has ended, or takes too long.
Verdict watched(pid_t child, int input) {
  int seconds = seconds_to_start;
  std::string what, pending;
  Clock::time_point until = Clock::now() + std::chrono::seconds(seconds);
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now());
    if (left.count() <= 0) {
      end(child);
      if (what.empty()) return {code::failure, "could not be checked: the GPU does not start"};
      return {code::not_yet,
              "not yet: " + what + ": does not end within " + std::to_string(seconds) + " s"};
    }
    pollfd readable{input, POLLIN, 0};
    if (poll(&readable, 1, int(std::min<long long>(left.count(), 60000)) + 1) <= 0)
      continue;  // the time is up, or a signal
    char piece[4096];
    const ssize_t length = read(input, piece, sizeof piece);
    if (length < 0 && errno == EINTR) continue;
    if (length <= 0) {  // the process has ended without an answer
      int status = 0;
      if (!wait_for(child, 10, status)) status = end(child);
      return crashed(what, status);
    }
    pending.append(piece, size_t(length));
    for (size_t line; (line = pending.find('\n')) != std::string::npos;) {
      const std::string message = pending.substr(0, line);
      pending.erase(0, line + 1);
      const int number = std::atoi(message.c_str() + 1);
      const std::string text = message.substr(message.find(' ') + 1);
      if (message[0] == 'w') {
        what = text;
        seconds = number * seconds_of_a_step();
        until = Clock::now() + std::chrono::seconds(seconds);
        continue;
      }
      int status = 0;
      if (!wait_for(child, 10, status)) end(child);
      return {number, text};
    }
  }
}

/// Checks one answer and prints the line.
int check(const Entry& entry) {
  const Entry* solution = find(entry.exercise, Author::solution);
  if (!solution) throw std::runtime_error("there is no solution of " + entry.exercise);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("the system refuses a pipe");
  std::signal(SIGCHLD, SIG_DFL);  // where it is ignored there is nothing to wait for
  std::fflush(nullptr);
  const pid_t parent = getpid(), child = fork();
  if (child == 0) {
    messages = ends[1];
    check_in_this_process(entry, *solution, parent);
  }
  close(ends[1]);
  if (child < 0) {
    close(ends[0]);
    throw std::runtime_error("the system refuses a process");
  }
  const Verdict verdict = watched(child, ends[0]);
  close(ends[0]);
  std::printf("%s: %s\n", entry.name.c_str(), verdict.text.c_str());
  return verdict.code;
}

/// Of several answers the one that says most about what is left to do.
int worst(const std::vector<int>& codes) {
  const auto has = [&](int c) { return std::count(codes.begin(), codes.end(), c) > 0; };
  for (const int c : {code::failure, code::not_yet, code::dear, code::done})
    if (has(c)) return c;
  return code::skipped;
}

constexpr const char* help = R"(Checks exercises, and says of each in a line whether it is done.

  %s                     all of this topic
  %s NAME ...            these only
  %s --solution NAME ... their solutions
  %s --list              the names, one line each

exit code  0 done   3 not yet   4 right, but dear   77 it needs a GPU, and there is none
)";

int run_line(const std::vector<std::string>& line, const std::string& program) {
  std::vector<std::string> names;
  Author author = Author::reader;
  bool list = false;
  for (const std::string& word : line) {
    if (word == "--help" || word == "-h") {
      const char* p = program.c_str();
      std::printf(help, p, p, p, p);
      return code::done;
    }
    if (word == "--list")
      list = true;
    else if (word == "--solution")
      author = Author::solution;
    else if (word == "--test")  // what the tests of the collection hand in
      author = Author::test;
    else if (word.rfind("-", 0) == 0)
      throw UsageError("there is no option '" + word + "'; --help lists them");
    else
      names.push_back(word);
  }
  std::vector<const Entry*> chosen;
  for (const std::string& name : names) {
    const Entry* entry = find(name, author);
    if (!entry) throw UsageError("there is no exercise '" + name + "'; --list has their names");
    chosen.push_back(entry);
  }
  if (names.empty())
    for (const Entry* entry : entries())
      if (entry->author == author) chosen.push_back(entry);
  if (list) {
    for (const Entry* entry : chosen) std::printf("%s\n", entry->name.c_str());
    return code::done;
  }
  std::vector<int> codes;
  for (const Entry* entry : chosen) codes.push_back(check(*entry));
  return worst(codes);
}

}  // namespace

Entry::Entry(const std::string& exercise, const std::string& file, const std::string& test)
    : exercise(exercise),
      name(test.empty() ? exercise : exercise + "_" + test),
      author(author_of(file, test)) {
  entries().push_back(this);
}

void watch(const std::string& what, int longer) {
  running = what;
  tell('w', std::to_string(longer) + ' ' + what);
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

int run(int argc, char** argv) {
  const std::string program = stem_of(argc > 0 ? argv[0] : "your_turn");
  std::sort(entries().begin(), entries().end(),
            [](const Entry* a, const Entry* b) { return a->name < b->name; });
  try {
    const int status =
        run_line(std::vector<std::string>(argv + std::min(argc, 1), argv + argc), program);
    if (std::fflush(stdout) != 0) throw std::runtime_error("standard output cannot be written");
    return status;
  } catch (const UsageError& e) {
    std::fprintf(stderr, "%s: %s\n", program.c_str(), e.what());
    return code::usage;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s: %s\n", program.c_str(), e.what());
    return code::failure;
  }
}

}  // namespace your_turn
