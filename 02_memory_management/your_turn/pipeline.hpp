// What pipeline.cu hands in, and who checks it.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "../../framework/common/your_turn.hpp"

/// Queues a kernel that changes `words` words of the device, from `data` on, into a stream.
using Work = void (*)(unsigned* data, size_t words, cudaStream_t stream);

/// Streams that are there, and do not wait for each other.
constexpr unsigned stream_count = 4;

struct Pipeline {
  void (*run)(unsigned* host, unsigned* device, size_t words, Work work,
              const cudaStream_t* streams);
};

void check_pipeline(const Pipeline& yours, const Pipeline& solution);
