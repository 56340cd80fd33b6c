// A file that is written whole, or not at all.
#pragma once

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

/// Whether it can be written is found out at once, before anything is measured. What is no regular
/// file (a pipe, /dev/stdout) is written directly. Both functions throw std::runtime_error.
class OutputFile {
 public:
  explicit OutputFile(const std::string& path) : path_(path) {
    namespace fs = std::filesystem;
    std::error_code error;
    for (int links = 0; links < 40 && fs::is_symlink(path_, error); ++links)
      path_ = (fs::path(path_).parent_path() / fs::read_symlink(path_, error)).string();
    is_replaced_ = !fs::exists(path_, error) || fs::is_regular_file(path_, error);
    const bool may_be = !fs::exists(path_, error) || std::ofstream(path_, std::ios::app);
    if (path_.empty() || !may_be) throw cannot_write();
    if (!is_replaced_) return;
    std::ofstream(new_part()).close();  // can the folder take it?
    const bool is_there = fs::exists(part_, error);
    fs::remove(part_, error);
    if (!is_there) throw cannot_write();
  }

  void write(const std::vector<std::string>& lines) {
    const std::string written = is_replaced_ ? new_part() : path_;
    std::ofstream file(written);
    for (const std::string& line : lines) file << line << '\n';
    file.close();
    std::error_code error;
    if (file && is_replaced_) std::filesystem::rename(part_, path_, error);
    if (file && !error) return;
    if (is_replaced_) std::filesystem::remove(part_, error);
    throw cannot_write();
  }

 private:
  /// The name of what is written first, and then renamed: one that nobody has taken.
  const std::string& new_part() {
    std::error_code error;
    part_ = path_ + ".part";
    for (int n = 2; std::filesystem::exists(part_, error); ++n)
      part_ = path_ + ".part" + std::to_string(n);
    return part_;
  }
  std::runtime_error cannot_write() const {
    return std::runtime_error("cannot write '" + path_ + "'");
  }

  std::string path_, part_;
  bool is_replaced_ = true;  ///< a regular file, or none so far
};
