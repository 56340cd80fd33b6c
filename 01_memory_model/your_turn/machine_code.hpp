// What a kernel of this very program was compiled to, as cuobjdump of the CUDA toolkit tells it.
#pragma once

#include <cstdio>
#include <filesystem>
#include <string>

/// What `cuobjdump <option>` prints of the kernel; nothing if cuobjdump is not here.
inline std::string cuobjdump(const std::string& option, const std::string& kernel) {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe");
  const std::string command =
      "PATH=$PATH:/usr/local/cuda/bin cuobjdump " + option + " '" + program + "' 2>/dev/null";
  std::string all;
  FILE* pipe = popen(command.c_str(), "r");
  for (int c; pipe && (c = fgetc(pipe)) != EOF;) all += char(c);
  if (pipe) pclose(pipe);
  const size_t at = all.find(std::to_string(kernel.size()) + kernel);  // as the compiler writes it
  return at == std::string::npos ? "" : all.substr(at, all.find("Function", at) - at);
}
