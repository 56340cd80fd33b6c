// Files that are read whole, and written whole or not at all: what sort_file sorts and where it puts it. main.cu tries
// both before anything is measured.
#pragma once

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <memory>

#include <fcntl.h>
#include <sys/stat.h>

#include "../common/first_edition.hpp"

using Bytes = std::vector<unsigned char>;

/// All of a file, up to its end, so that a pipe will do; UsageError if it cannot be read or has more than `most` bytes.
inline Bytes read_whole(const std::string& path, size_t most) {
  const auto fail = [&](const std::string& why) { throw UsageError("cannot read '" + path + "': " + why); };
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), std::fclose);
  if (!file) fail(std::strerror(errno));
  Bytes bytes, piece(std::min<size_t>(most + 1, 1 << 20));
  while (const size_t n = std::fread(piece.data(), 1, piece.size(), file.get())) {
    if (n > most - bytes.size()) fail("it has more than " + bytes_text(double(most)));
    bytes.insert(bytes.end(), piece.begin(), piece.begin() + long(n));
  }
  if (std::ferror(file.get())) fail(std::strerror(errno));
  return bytes;
}

/// Throws UsageError unless there is a file at `path` that can be read.
inline void require_readable(const std::string& path) {
  struct stat status {};
  const bool there = stat(path.c_str(), &status) == 0;
  if (there && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)) return;  // a pipe's bytes can be read only once
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), std::fclose);
  if (file && (std::fgetc(file.get()) != EOF || !std::ferror(file.get()))) return;
  throw UsageError("cannot read '" + path + "': " + std::strerror(errno));
}

/// Writes `bytes` to a file at `path`: first to a new one beside it, which takes its place when all is on the disk. A
/// device or a pipe is written directly. Without bytes it only tries whether it could, and leaves nothing. Throws
/// std::runtime_error if it cannot be written.
inline void write_whole(const std::string& path, const Bytes* bytes) {
  const auto check = [&](bool done) {
    if (!done) throw std::runtime_error("cannot write '" + path + "': " + std::strerror(errno));
  };
  struct stat status {};
  const bool there = stat(path.c_str(), &status) == 0, direct = there && !S_ISREG(status.st_mode);
  if (there) check(access(path.c_str(), W_OK) == 0);
  if (direct && S_ISDIR(status.st_mode)) errno = EISDIR, check(false);
  if (direct && !bytes) return;

  struct File {
    int number = -1;
    std::string unfinished;
    ~File() {
      if (number >= 0) close(number);
      if (!unfinished.empty()) unlink(unfinished.c_str());
    }
  };
  const struct Uninterrupted {  // so that Ctrl-C leaves no half of a file beside
    void (*before)(int) = std::signal(SIGINT, SIG_IGN);
    ~Uninterrupted() { std::signal(SIGINT, before); }
  } uninterrupted;
  const std::string target = there ? std::filesystem::canonical(path).string() : path;  // through a symbolic link
  std::string beside = target + ".tmp.XXXXXX";
  File file;
  file.number = direct ? open(path.c_str(), O_WRONLY | O_CLOEXEC) : mkostemp(beside.data(), O_CLOEXEC);
  check(file.number >= 0);
  if (!direct) file.unfinished = beside;
  if (!bytes) return;
  for (size_t done = 0; done < bytes->size();) {
    const ssize_t n = write(file.number, bytes->data() + done, bytes->size() - done);
    check(n >= 0 || errno == EINTR);
    done += size_t(std::max<ssize_t>(n, 0));
  }
  if (!direct) {
    const mode_t mask = umask(0);
    umask(mask);
    check(fchmod(file.number, there ? status.st_mode & 07777 : 0666 & ~mask) == 0 && fsync(file.number) == 0);
  }
  check(close(std::exchange(file.number, -1)) == 0);
  if (direct) return;
  check(std::rename(beside.c_str(), target.c_str()) == 0);
  file.unfinished.clear();
}
