// Holds all of a GPU's memory but some, for the contract test in which another process has taken
// it.
//
//   hold_memory 1024    leaves 1024 MiB, prints "holding", and ends with its standard input
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "../common/memory.hpp"

int main(int argc, char** argv) {
  if (const std::string reason = no_gpu_reason(); !reason.empty()) {
    std::printf("skipped: no usable GPU (%s)\n", reason.c_str());
    return 77;
  }
  try {
    const size_t left = std::strtoull(argc > 1 ? argv[1] : "1024", nullptr, 10) << 20;
    std::vector<DeviceBuffer<unsigned char>> held;
    size_t free = 0, total = 0;
    for (size_t piece = size_t(16) << 30;
         piece >= 1 << 21;) {  // large pieces first: free memory may be fragmented
      CUDA_CHECK(cudaMemGetInfo(&free, &total));
      if (free < left + piece) {
        piece /= 2;
        continue;
      }
      held.emplace_back(piece);
    }
    std::printf("holding %zu MiB of %zu\n", (total - free) >> 20, total >> 20);
    std::fflush(stdout);
    while (std::getchar() != EOF) {
    }
  } catch (const CudaError& error) {
    std::printf("%s\n", error.what());
    return 1;
  }
}
