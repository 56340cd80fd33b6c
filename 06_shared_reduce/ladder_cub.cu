// The library beside which `ladder` measures: CUB's DeviceReduce. A file of its own, because CUB
// takes longer to compile than all the rest of the topic.
#include <cub/device/device_reduce.cuh>

#include "../framework/common/memory.hpp"

// Queues the sum of n words; with a null `scratch`, only sets `scratch_bytes` to what it needs. The
// count is an int, which every version of CUB takes.
void cub_sum(void* scratch, size_t& scratch_bytes, const float* in, float* out, int n,
             cudaStream_t stream) {
  CUDA_CHECK(cub::DeviceReduce::Sum(scratch, scratch_bytes, in, out, n, stream));
}

void cub_sum(void* scratch, size_t& scratch_bytes, const unsigned* in, unsigned* out, int n,
             cudaStream_t stream) {
  CUDA_CHECK(cub::DeviceReduce::Sum(scratch, scratch_bytes, in, out, n, stream));
}
