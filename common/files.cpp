#include "files.hpp"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.hpp"
#include "report.hpp"

// ---- signals ----

namespace {

/// What ends a process that does nothing about it. Behind the first ten: faults of the program,
/// which keep their own way to end it, with the shell's message and a core file.
constexpr int ending_signals[] = {SIGINT,  SIGTERM, SIGHUP,    SIGQUIT, SIGXCPU,
                                  SIGXFSZ, SIGALRM, SIGVTALRM, SIGUSR1, SIGUSR2,
                                  SIGABRT, SIGSEGV, SIGBUS,    SIGFPE,  SIGILL};
constexpr int requests = 10;

/// Names of new files that have not taken their places yet; plain characters, for the handler.
constexpr int most_unfinished = 4;  // a sample writes two at most
char unfinished[most_unfinished][PATH_MAX] = {};

/// What the handler says of a file that became too large, the one signal that nobody sent.
char too_large_line[256] = {};

void on_ending_signal(int signal) {
  for (const char* path : unfinished)
    if (path[0]) unlink(path);
  if (signal == SIGXFSZ) {
    [[maybe_unused]] const ssize_t n =
        write(STDERR_FILENO, too_large_line, std::strlen(too_large_line));
  }
  const int* const faults = ending_signals + requests;
  if (std::find(ending_signals, faults, signal) != faults) _exit(128 + signal);
  std::signal(signal, SIG_DFL);
  raise(signal);  // comes when this handler has returned
}

/// Holds these signals back while a file exists whose name the handler does not know yet; from this
/// thread only, so that files are opened before the driver starts threads of its own.
class SignalsHeldBack {
 public:
  SignalsHeldBack() {
    sigset_t held;
    sigemptyset(&held);
    for (const int signal : ending_signals) sigaddset(&held, signal);
    pthread_sigmask(SIG_BLOCK, &held, &before_);
  }
  SignalsHeldBack(const SignalsHeldBack&) = delete;
  ~SignalsHeldBack() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

}  // namespace

void remove_unfinished_at_signals(const std::string& topic) {
  std::snprintf(too_large_line, sizeof too_large_line,
                "%s: cannot write: a file would be larger than the limit (ulimit -f)\n",
                topic.c_str());
  struct sigaction before {};
  for (const int signal : ending_signals)
    if (sigaction(signal, nullptr, &before) == 0 && before.sa_handler == SIG_DFL)
      std::signal(signal, on_ending_signal);
}

// ---- reading ----

std::vector<char> read_input(const std::string& option, const std::string& path, size_t most) {
  const auto refuse = [&](const std::string& why) {
    throw UsageError(option + ": cannot read '" + path + "': " + why);
  };
  const auto too_large = [&] { refuse("it has more than " + bytes_text(double(most))); };
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) refuse(std::strerror(errno));
  if (S_ISDIR(status.st_mode)) refuse("it is a directory");
  if (S_ISCHR(status.st_mode) || S_ISBLK(status.st_mode)) refuse("it is a device");
  if (S_ISREG(status.st_mode) && size_t(status.st_size) > most) too_large();

  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"),
                                                             std::fclose);
  if (!file) refuse(std::strerror(errno));
  std::vector<char> bytes;
  bytes.reserve(size_t(status.st_size) + 1);  // a pipe, and a file of /proc, has a size of 0
  char piece[1 << 16];
  while (const size_t n = std::fread(piece, 1, sizeof piece, file.get())) {
    if (n > most - bytes.size()) too_large();
    bytes.insert(bytes.end(), piece, piece + n);
  }
  if (std::ferror(file.get())) refuse(std::strerror(errno));
  return bytes;
}

// ---- writing ----

OutputFile::OutputFile(const std::string& path) : path_(path) {
  struct stat old {};
  if (stat(path.c_str(), &old) != 0) {
    if (errno != ENOENT) fail(std::strerror(errno));
    struct stat link {};
    if (lstat(path.c_str(), &link) == 0) fail("it is a link to nothing");
    if (path.empty() || path.back() == '/') fail(std::strerror(EISDIR));
    target_ = path;
    open_beside(nullptr);
    return;
  }
  if (S_ISDIR(old.st_mode)) fail("it is a directory");
  if (S_ISBLK(old.st_mode)) fail("it is a disk");
  if (access(path.c_str(), W_OK) != 0) fail(std::strerror(errno));
  if (!S_ISREG(old.st_mode)) {
    open_directly(old.st_mode);
    return;
  }
  require_replaceable(old);
  open_beside(&old);
}

void OutputFile::require_replaceable(const struct stat& old) {
  if (old.st_nlink == 0) fail("it was deleted");
  if (old.st_nlink > 1)
    fail("it has " + std::to_string(old.st_nlink) +
         " names (hard links), and would be replaced under one of them");
#ifdef STATX_ATTR_MOUNT_ROOT
  struct statx mount {};
  if (statx(AT_FDCWD, path_.c_str(), 0, 0, &mount) == 0 &&
      (mount.stx_attributes & STATX_ATTR_MOUNT_ROOT))
    fail("it is a mount point");
#endif
  std::error_code error;
  target_ = std::filesystem::canonical(path_, error).string();  // through links, which stay
  if (error) fail(error.message());
}

void OutputFile::open_directly(unsigned mode) {
  // Without O_NONBLOCK this would wait, without a word, until somebody opens the pipe for reading.
  // A reader that was started together with this program gets a second to do so.
  const auto try_open = [&] {
    return open(path_.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  };
  const auto has_no_reader = [&] { return file_ < 0 && errno == ENXIO && S_ISFIFO(mode); };
  file_ = try_open();
  for (int tries = 0; has_no_reader() && tries < 100; ++tries) {
    usleep(10000);
    file_ = try_open();
  }
  if (has_no_reader()) fail("nobody reads this pipe");
  if (file_ < 0 || fcntl(file_, F_SETFL, O_WRONLY) != 0) fail(std::strerror(errno));
}

void OutputFile::open_beside(const struct stat* old) {
  const size_t name = target_.rfind('/') + 1;  // npos + 1 is 0
  // no longer than any name: what is written may have the longest one that there is
  std::string beside = target_.substr(0, name) + ".new.XXXXXX";
  if (beside.size() >= PATH_MAX) fail(std::strerror(ENAMETOOLONG));
  int free = 0;
  while (free < most_unfinished && unfinished[free][0]) ++free;
  if (free == most_unfinished) fail("too many files are being written");
  {
    const SignalsHeldBack held;
    file_ = mkostemp(beside.data(), O_CLOEXEC);
    if (file_ >= 0) std::strcpy(unfinished[free], beside.c_str());
  }
  if (file_ < 0)
    fail(std::string(old ? "it would be replaced, but its folder takes no new file: " : "") +
         std::strerror(errno));
  unfinished_ = free;

  mode_t mode = old ? old->st_mode & 07777 : 0;
  if (!old) {
    const mode_t mask = umask(0);
    umask(mask);
    mode = 0666 & ~mask;
  }
  struct stat beside_it {};
  if (fstat(file_, &beside_it) != 0) fail(std::strerror(errno));
  if (old && (old->st_uid != beside_it.st_uid || old->st_gid != beside_it.st_gid) &&
      fchown(file_, old->st_uid, old->st_gid) != 0)
    fail("its owner would change");
  if (fchmod(file_, mode) != 0) fail(std::strerror(errno));
}

OutputFile::~OutputFile() {
  if (file_ >= 0) close(file_);
  remove_unfinished();
}

void OutputFile::write(std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(file_, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(std::strerror(errno));
    text.remove_prefix(size_t(n));
  }
  if (unfinished_ >= 0 && fsync(file_) != 0) fail(std::strerror(errno));
}

void OutputFile::finish() {
  if (close(std::exchange(file_, -1)) != 0) fail(std::strerror(errno));
  if (unfinished_ < 0) return;
  if (std::rename(unfinished[unfinished_], target_.c_str()) != 0) fail(std::strerror(errno));
  unfinished[unfinished_][0] = 0;
}

void OutputFile::remove_unfinished() {
  if (unfinished_ < 0 || !unfinished[unfinished_][0]) return;
  unlink(unfinished[unfinished_]);
  unfinished[unfinished_][0] = 0;
}

void OutputFile::fail(const std::string& why) {
  if (file_ >= 0) close(std::exchange(file_, -1));
  remove_unfinished();  // the destructor does not run for an object that was never made
  throw std::runtime_error("cannot write '" + path_ + "': " + why);
}

// ---- which files are one ----

namespace {

/// Two files are one if these are equal: device and inode of what is there, with no name; or of the
/// folder in which it would be made, with its name.
using Identity = std::tuple<dev_t, ino_t, std::string>;

Identity identity(const struct stat& status, const std::string& name = "") {
  return {status.st_dev, status.st_ino, name};
}

/// Nothing where neither the file nor its folder is there.
std::optional<Identity> identity_of(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) == 0) return identity(status);
  const size_t name = path.rfind('/') + 1;
  const std::string folder = name ? path.substr(0, name) : ".";
  if (stat(folder.c_str(), &status) != 0) return std::nullopt;
  return identity(status, path.substr(name));
}

/// Whether what is written to `path` is kept or passed on, not just shown or dropped as by a
/// terminal or /dev/null, which may be named twice.
bool keeps_what_is_written(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) != 0 || !S_ISCHR(status.st_mode);
}

}  // namespace

void require_different(const std::vector<NamedFile>& files) {
  for (size_t i = 0; i < files.size(); ++i) {
    const NamedFile& file = files[i];
    const std::optional<Identity> here = identity_of(file.path);
    if (!here || !keeps_what_is_written(file.path)) continue;
    for (const auto& [stream, name] : {std::pair(STDOUT_FILENO, "standard output"),
                                       std::pair(STDERR_FILENO, "standard error")}) {
      struct stat status {};
      if (fstat(stream, &status) == 0 && identity(status) == *here)
        throw UsageError(file.option + ": '" + file.path + "' is " + name + " as well");
    }
    for (size_t k = 0; k < i; ++k) {
      const NamedFile& other = files[k];
      const bool in_place = file.replaces == other.option || other.replaces == file.option;
      if ((file.written || other.written) && !in_place && identity_of(other.path) == here)
        throw UsageError(other.option + " and " + file.option + " name one file, '" + file.path +
                         "'");
    }
  }
}
