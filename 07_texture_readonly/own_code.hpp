// The PTX that this program carries, as the toolkit's cuobjdump prints it. That is run without a
// shell, is heard for a few seconds only, and prints nothing but what is read here: a sample does
// without what it does not get.
#pragma once

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/// The time that cuobjdump gets, of which it takes a fraction of a second, and the bytes that it
/// may print; usually they are less than 1 MB.
constexpr std::chrono::seconds longest_reading{5};
constexpr size_t most_code = 64 << 20;

/// Where cuobjdump may be: the folders of PATH, then the toolkit's.
inline std::vector<std::string> places_of_cuobjdump() {
  const char *path = std::getenv("PATH"), *toolkit = std::getenv("CUDA_PATH");
  std::istringstream folders((path ? path : "") + std::string(":") +
                             (toolkit && *toolkit ? toolkit : "/usr/local/cuda") + "/bin");
  std::vector<std::string> places;
  for (std::string folder; std::getline(folders, folder, ':');)
    if (!folder.empty()) places.push_back(folder + "/cuobjdump");
  return places;
}

/// In the child of a fork: becomes the first cuobjdump of `places`, which writes to `output`, and
/// ends with the program `parent`, however that ends. Calls only what is safe in a copy of a
/// program that has threads.
[[noreturn]] inline void become_cuobjdump(const std::vector<std::string>& places, const char* file,
                                          int output, pid_t parent) {
  setpgid(0, 0);  // with all that it starts it can be ended as a group
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  const bool alone =
      getppid() != parent;  // the program had ended before it could take this one with it
  if (!alone && dup2(nothing, STDIN_FILENO) >= 0 && dup2(output, STDOUT_FILENO) >= 0 &&
      dup2(nothing, STDERR_FILENO) >= 0)
    for (const std::string& place : places)
      execl(place.c_str(), "cuobjdump", "-ptx", file, static_cast<char*>(nullptr));
  _exit(127);
}

/// Empty without that tool, without PTX, where it fails, or where it takes too long.
inline std::string own_ptx() {
  char file[PATH_MAX + 1] = {};  // of a program that was deleted a name that is not there
  if (readlink("/proc/self/exe", file, PATH_MAX) <= 0) return {};
  const std::vector<std::string> places = places_of_cuobjdump();
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return {};
  std::signal(SIGCHLD, SIG_DFL);  // where it is ignored there is nothing to wait for
  const pid_t parent = getpid(), child = fork();
  if (child == 0) become_cuobjdump(places, file, ends[1], parent);
  close(ends[1]);
  if (child < 0) {
    close(ends[0]);
    return {};
  }
  setpgid(child, child);  // here as well: whichever comes first

  using Clock = std::chrono::steady_clock;
  const Clock::time_point end = Clock::now() + longest_reading;
  const auto ms_left = [&] {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
    return int(std::max<long long>(left, 0));
  };
  std::string ptx;
  bool whole = false;
  for (pollfd output{ends[0], POLLIN, 0}; !whole && ptx.size() < most_code && ms_left() > 0;) {
    if (poll(&output, 1, ms_left()) <= 0) continue;  // a signal, or the time is up
    char piece[65536];
    const ssize_t length = read(ends[0], piece, sizeof piece);
    if (length > 0) ptx.append(piece, size_t(length));
    if (length < 0 && errno != EINTR) break;
    whole = length == 0;
  }
  close(ends[0]);

  siginfo_t ended{};  // having closed its output it may still run on
  while (whole && waitid(P_PID, child, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         ended.si_pid == 0 && ms_left() > 0)
    usleep(1000);
  kill(-child, SIGKILL);  // and what it may have started and left
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  const bool succeeded = ended.si_pid == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  return succeeded && ptx.find(".entry ") != std::string::npos ? ptx : std::string();
}
