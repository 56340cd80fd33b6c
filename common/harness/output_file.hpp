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
    std::error_code error;
    const bool there = std::filesystem::exists(path, error);
    if (there && std::filesystem::is_regular_file(path, error))
      path_ = std::filesystem::canonical(path, error).string();  // behind a link
    else if (there)
      part_ = path_;
    if (part_.empty()) part_ = path_ + ".part";
    if (!std::ofstream(part_)) throw std::runtime_error("cannot write '" + path_ + "'");
    remove_part();
  }

  void write(const std::vector<std::string>& lines) const {
    std::ofstream file(part_);
    for (const std::string& line : lines) file << line << '\n';
    file.close();
    std::error_code error;
    if (file && part_ != path_) std::filesystem::rename(part_, path_, error);
    if (file && !error) return;
    remove_part();
    throw std::runtime_error("cannot write '" + path_ + "'");
  }

 private:
  void remove_part() const {
    std::error_code error;
    if (part_ != path_) std::filesystem::remove(part_, error);
  }

  std::string path_;
  std::string part_;  ///< what is written first, and then renamed
};
