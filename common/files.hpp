// The files of a run: read whole, written whole or not at all, never one for two purposes, and
// nothing left behind, however the run ends.
#pragma once

#include <string>
#include <string_view>
#include <vector>

/// All bytes of the file that `option` names, up to its end; a pipe will do. Throws UsageError in
/// one line that names the option if it cannot be read, is a folder or a device, or has more than
/// `most` bytes.
std::vector<char> read_input(const std::string& option, const std::string& path, size_t most);

/// A file that is replaced whole or not at all. Opening it finds out whether that can be done: the
/// new text goes to a new file in the same folder, which takes the old one's name, mode and owner
/// at the end of the run. A symbolic link stays, and its target is replaced. A character device, or
/// a pipe that somebody reads, is written directly. Members throw std::runtime_error in one line.
class OutputFile {
 public:
  /// Throws if `path` cannot be written, or cannot be replaced whole: it has other names, would
  /// change its owner, or is a mount point.
  explicit OutputFile(const std::string& path);
  OutputFile(const OutputFile&) = delete;
  ~OutputFile();

  /// Writes `text` behind what was written before.
  void write(std::string_view text);
  /// Puts the file in its place, once all of it is on the disk. Without it the old one stays.
  void finish();

 private:
  [[noreturn]] void fail(const std::string& why);
  void require_replaceable(const struct stat& old);
  void open_directly(unsigned mode);
  void open_beside(const struct stat* old);
  void remove_unfinished();

  std::string path_, target_;
  int file_ = -1;
  int unfinished_ = -1;  ///< its place in the list of new files, which a signal's handler removes
};

/// A file that the command line names.
struct NamedFile {
  std::string option;  ///< as in "--csv"
  std::string path;
  bool written = false;
  std::string replaces = {};  ///< the option whose file this one may be, to change it in place
};

/// Throws UsageError if two of the files, or one of them and standard output or standard error, are
/// one and the same by whatever links, and one of the two is written.
void require_different(const std::vector<NamedFile>& files);

/// From now on a signal that ends the process (all but SIGKILL can be caught) first removes files
/// that are not finished; the exit code is 128 + the signal's number. A signal that was ignored, as
/// under nohup, or handled stays so. `topic`: for the line that SIGXFSZ prints.
void remove_unfinished_at_signals(const std::string& topic);
