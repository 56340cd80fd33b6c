// The library beside which `sum` measures: CUB's DeviceSegmentedReduce, a segment for each row. A
// file of its own, because CUB takes longer to compile than all the rest of the experiment.
#include <cub/device/device_segmented_reduce.cuh>

#include "../framework/common/memory.hpp"

// Queues the sum of each row: row r begins at word first[r], and ends before first[r + 1]. With a
// null `scratch`, only sets `scratch_bytes` to what it needs. The words are counted by int, which
// every version of CUB takes.
void cub_row_sums(void* scratch, size_t& scratch_bytes, const float* in, float* out, int rows,
                  const int* first) {
  CUDA_CHECK(
      cub::DeviceSegmentedReduce::Sum(scratch, scratch_bytes, in, out, rows, first, first + 1));
}
