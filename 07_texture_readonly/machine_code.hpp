// What this very program was compiled to, as cuobjdump of the CUDA toolkit tells it.
#pragma once

#include <cstdio>
#include <filesystem>
#include <regex>
#include <string>
#include <vector>

/// A kernel as the compiler names it, and its machine code.
struct Compiled {
  std::string name, code;
};

/// The kernels of a file ("read_only_cu"), of anonymous namespaces; none if cuobjdump is not here.
inline std::vector<Compiled> machine_code(const std::string& file) {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe");
  const std::string command =
      "PATH=$PATH:/usr/local/cuda/bin cuobjdump -sass '" + program + "' 2>/dev/null";
  std::string code;
  FILE* pipe = popen(command.c_str(), "r");
  for (int c; pipe && (c = fgetc(pipe)) != EOF;) code += char(c);
  if (pipe) pclose(pipe);

  std::vector<Compiled> kernels;
  const std::string begins = "Function : ";
  for (size_t at = code.find(begins); at != std::string::npos;) {
    const size_t next = code.find(begins, at + 1);
    const std::string name = code.substr(at, code.find('\n', at) - at);
    if (name.find(file) != std::string::npos) kernels.push_back({name, code.substr(at, next - at)});
    at = next;
  }
  return kernels;
}

/// "5plain10copyKernel" of "plain::copyKernel": as the compiler writes it.
inline std::string mangled(const std::string& name) {
  const size_t colons = name.find("::");
  if (colons == std::string::npos) return std::to_string(name.size()) + name;
  return mangled(name.substr(0, colons)) + mangled(name.substr(colons + 2));
}

/// "1 plain, 1 read-only" of a kernel's machine code. CI: before Volta.
inline std::string loads_in(const std::string& code) {
  const std::pair<const char*, const char*> instructions[] = {
      {"plain", R"( LDG\.E(\.SYS)? )"},
      {"read-only", R"( LDG\.E\.(CONSTANT|CI))"},
      {"fetches", " TLD"}};
  std::string text;
  for (const auto& [name, pattern] : instructions) {
    const std::regex instruction(pattern);
    const std::sregex_iterator first(code.begin(), code.end(), instruction), end;
    const auto count = std::distance(first, end);
    if (count) text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + name;
  }
  return text;
}
