// What a kernel of this very program was compiled to, as tools/machine_code.py tells it.
#pragma once

#include <cstdio>
#include <filesystem>
#include <string>

/// "2 local; 96 instructions": loads by kind, atomics. Nothing if python3 or cuobjdump is not here, or
/// the program was moved away from its sources.
inline std::string machine_code(const std::string& kernel) {
  namespace fs = std::filesystem;
  const std::string tool = fs::path(__FILE__).parent_path() / "../../tools/machine_code.py";
  const std::string program = fs::read_symlink("/proc/self/exe");
  const std::string command = "python3 '" + tool + "' '" + program + "' " + kernel + " 2>/dev/null";
  std::string said;
  FILE* pipe = popen(command.c_str(), "r");
  for (int c; pipe && (c = fgetc(pipe)) != EOF;) said += char(c);
  if (pipe) pclose(pipe);
  const std::string name = kernel + ": ";
  return said.starts_with(name) ? said.substr(name.size()) : "";
}
