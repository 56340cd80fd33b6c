#include "files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <memory>
#include <new>
#include <utility>

#include "check.hpp"
#include "report.hpp"

namespace fs = std::filesystem;

std::string printable(std::string_view name) {
  std::string text;
  for (const char c : name) {
    char number[5];
    std::snprintf(number, sizeof number, "\\x%02x", static_cast<unsigned char>(c));
    text += std::iscntrl(static_cast<unsigned char>(c)) ? std::string(number) : std::string(1, c);
  }
  return text;
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
  try {
    bytes.reserve(size_t(status.st_size) + 1);  // a pipe, and a file of /proc, has a size of 0
    char piece[1 << 16];
    while (const size_t n = std::fread(piece, 1, sizeof piece, file.get())) {
      if (n > most - bytes.size()) too_large();
      bytes.insert(bytes.end(), piece, piece + n);
    }
  } catch (const std::bad_alloc&) {
    throw std::runtime_error(option + ": out of host memory: '" + path + "' has " +
                             bytes_text(double(status.st_size)));
  }
  if (std::ferror(file.get())) refuse(std::strerror(errno));
  return bytes;
}

// ---- writing ----

namespace {

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw std::runtime_error("cannot write '" + path + "': " + why);
}

volatile std::sig_atomic_t signal_that_came = 0;

/// While one of these lives INT, TERM and HUP wait: a file exists that does not have its name yet.
/// Handlers and not a mask, which would hold for this thread alone; the driver has threads, too.
class SignalsHeldBack {
 public:
  SignalsHeldBack() {
    signal_that_came = 0;
    for (size_t i = 0; i < std::size(signals); ++i) {
      sigaction(signals[i], nullptr, &before_[i]);
      if (before_[i].sa_handler == SIG_IGN) continue;  // as under nohup
      std::signal(signals[i], [](int signal) { signal_that_came = signal; });
    }
  }
  SignalsHeldBack(const SignalsHeldBack&) = delete;
  ~SignalsHeldBack() {
    for (size_t i = 0; i < std::size(signals); ++i) sigaction(signals[i], &before_[i], nullptr);
    if (signal_that_came) raise(signal_that_came);
  }

 private:
  static constexpr int signals[] = {SIGINT, SIGTERM, SIGHUP};
  struct sigaction before_[std::size(signals)];
};

/// Where a text goes: into a new file that takes the name `target` and this mode; or, if `target`
/// is empty, directly into the device or the pipe that is there.
struct Place {
  fs::path target;
  mode_t mode;
};

Place place_of(const std::string& path) {
  struct stat old {};
  if (path.empty() || path.back() == '/') refuse(path, "it names a folder, not a file");
  if (stat(path.c_str(), &old) != 0) {
    if (errno != ENOENT) refuse(path, std::strerror(errno));
    if (lstat(path.c_str(), &old) == 0) refuse(path, "it is a link to nothing");
    const mode_t mask = umask(0);
    umask(mask);
    return {path, 0666 & ~mask};
  }
  if (S_ISDIR(old.st_mode)) refuse(path, std::strerror(EISDIR));
  if (access(path.c_str(), W_OK) != 0) refuse(path, std::strerror(errno));
  if (!S_ISREG(old.st_mode)) return {};
  std::error_code error;
  const fs::path target = fs::canonical(path, error);  // behind links, which stay
  if (error || !fs::equivalent(target, path, error)) refuse(path, "it was deleted");
  return {target, old.st_mode & 07777};
}

/// Makes a file in the target's folder, open to be written; `beside` becomes its name.
int make_beside(const Place& place, const std::string& path, std::string& beside) {
  beside = (place.target.parent_path() / ".new.XXXXXX").string();
  const int file = mkostemp(beside.data(), O_CLOEXEC);
  if (file < 0) refuse(path, std::strerror(errno));
  fchmod(file, place.mode);  // refused by file systems that have no modes
  return file;
}

void write_and_close(int file, const std::string& path, std::string_view text) {
  int error = file < 0 ? errno : 0;
  while (!text.empty() && !error) {
    const ssize_t n = write(file, text.data(), text.size());
    if (n < 0) error = errno;
    if (n > 0) text.remove_prefix(size_t(n));
  }
  if (file >= 0 && close(file) != 0 && !error) error = errno;
  if (error) refuse(path, std::strerror(error));
}

/// Whether both name one file, which may not be there yet.
bool is_same(const std::string& a, const std::string& b) {
  std::error_code error;
  return fs::equivalent(a, b, error) || fs::weakly_canonical(fs::absolute(a), error) ==
                                            fs::weakly_canonical(fs::absolute(b), error);
}

}  // namespace

void require_usable(const std::vector<NamedFile>& files) {
  std::error_code error;
  for (const NamedFile& file : files) {
    if (!file.written) continue;
    const std::string named = "'" + file.path + "'";
    for (const std::string stream : {"/dev/fd/1", "/dev/fd/2"})
      if (fs::is_regular_file(stream, error) && is_same(file.path, stream))
        throw UsageError(file.option + ": " + named + " is where this run prints to");
    for (const NamedFile& other : files)
      if (&other != &file && is_same(file.path, other.path))
        throw UsageError(other.option + " and " + file.option + " name one file, " + named);
  }
  for (const NamedFile& file : files) {
    const Place place = file.written ? place_of(file.path) : Place{};
    if (place.target.empty()) continue;
    const SignalsHeldBack held;
    std::string beside;
    close(make_beside(place, file.path, beside));
    unlink(beside.c_str());
  }
}

void write_whole(const std::string& path, std::string_view text) {
  const Place place = place_of(path);
  if (place.target.empty())
    return write_and_close(open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY), path, text);
  const SignalsHeldBack held;
  std::string beside;
  const int file = make_beside(place, path, beside);
  try {
    write_and_close(file, path, text);
    if (std::rename(beside.c_str(), place.target.c_str()) != 0) refuse(path, std::strerror(errno));
  } catch (const std::exception&) {
    unlink(beside.c_str());
    throw;
  }
}
