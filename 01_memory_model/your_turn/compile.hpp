// What the compiler that built an exercise says of its file when it compiles it once more.
#pragma once

#include <cstdio>
#include <string>

#include "../../framework/common/your_turn.hpp"

// by CMake the compiler, and the architecture
#ifndef YOUR_TURN_NVCC
#define YOUR_TURN_NVCC "nvcc"
#define YOUR_TURN_HOST_COMPILER ""
#define YOUR_TURN_ARCHITECTURE "75"
#endif

inline std::string quoted(const std::string& text) { return "'" + text + "'"; }

/// Standard output and error of nvcc with these options, then what it writes to "$out".
inline std::string compiled(const std::string& file, const std::string& options) {
  const std::string folder = file.substr(0, file.rfind("/your_turn/") + 10);
  const std::string host = YOUR_TURN_HOST_COMPILER;
  const std::string line = "out=$(mktemp); " + quoted(YOUR_TURN_NVCC) +
                           (host.empty() ? "" : " -ccbin " + quoted(host)) + " -std=c++20 -O3 " +
                           options + " -Wno-deprecated-gpu-targets -arch=sm_" +
                           YOUR_TURN_ARCHITECTURE + " -I" + quoted(folder) + " " + quoted(file) +
                           " 2>&1; cat \"$out\"; rm -f \"$out\"";
  std::FILE* output = popen(line.c_str(), "r");
  if (!output) throw your_turn::Skipped("the system refuses to start nvcc");
  std::string said;
  char piece[4096];
  while (const size_t length = std::fread(piece, 1, sizeof piece, output))
    said.append(piece, length);
  pclose(output);
  return said;
}
