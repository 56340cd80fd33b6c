// The files of a run: inputs are read whole; outputs are kept in memory and written at the end,
// whole or not at all.
#pragma once

#include <string>
#include <string_view>
#include <vector>

/// A file that the command line names.
struct NamedFile {
  std::string option;  ///< as in "--csv"
  std::string path;
  bool written = false;
};

/// Before anything is measured: throws UsageError if an output is another output, an input, or the
/// regular file that standard output or error goes to; and std::runtime_error if an output cannot
/// be written, which is tried: a file is made in its folder and removed at once.
void require_usable(const std::vector<NamedFile>& files);

/// All bytes of the file that `option` names, up to its end; a pipe will do. Throws UsageError in
/// one line that names the option if it cannot be read, is a folder or a device, or has more than
/// `most` bytes.
std::vector<char> read_input(const std::string& option, const std::string& path, size_t most);

/// Writes `text` beside `path`, and renames it over what was there, whose mode it takes; a link
/// stays, and its target is replaced. A device or a pipe is written directly. Until the new file
/// has its name INT, TERM and HUP wait. Throws std::runtime_error in one line, and then what was
/// there is as before.
void write_whole(const std::string& path, std::string_view text);

/// The name of a file as it is printed: in one line, a control character as its number.
std::string printable(std::string_view name);
