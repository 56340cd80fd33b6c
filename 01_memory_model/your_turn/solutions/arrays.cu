// arrays: each thread has 32 samples of values from 0 to 15. It looks for the value that most of
// them have (of several values the smallest). Counting by the value is short:
//
//   unsigned count[16] = {};
//   for (unsigned i = 0; i < 32; ++i) ++count[samples[i]];
//
// But no register can be chosen by an index that is known only at run time. So the array goes to
// local memory: 64 bytes per thread, read and written for every sample. Write the function so that
// the compiled kernel needs no local memory.
//
// Right: on 1600 sets of samples, by the host. Cheap: 0 local bytes in the machine code, which
// cuobjdump shows.
//
// Difficulty 2 of 5, about 20 minutes. Needs no GPU.
//
//   cmake --build build/release --target your_arrays
//   build/release/01_memory_model/your_arrays

// [your turn]

// Every count is compared with every sample: 16 comparisons for one, but all indices are constants
// once the loops are unrolled, and so all counts are registers. (Bytes of two 64-bit numbers,
// shifted by 8 times the value, do it as well, with fewer instructions.)

/// The value that most of the 32 samples have.
__host__ __device__ unsigned most_frequent(const unsigned* samples) {
  unsigned count[16] = {};
  for (unsigned i = 0; i < 32; ++i) {
    const unsigned sample = samples[i];
    for (unsigned value = 0; value < 16; ++value) count[value] += sample == value;
  }
  unsigned best = 0, most = count[0];
  for (unsigned value = 1; value < 16; ++value) {
    if (count[value] > most) {
      most = count[value];
      best = value;
    }
  }
  return best;
}

// [/your turn]

#include "../arrays_check.hpp"

/// Counts by the sample as an index.
__host__ __device__ unsigned by_index(const unsigned* samples, bool last_of_several) {
  unsigned count[16] = {}, best = 0;
  for (unsigned i = 0; i < 32; ++i) ++count[samples[i] % 16];
  for (unsigned value = 1; value < 16; ++value)
    if (count[value] + last_of_several > count[best]) best = value;
  return best;
}

/// It is compiled, and never launched.
__global__ void counted_by_index(unsigned* out, const unsigned* in) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = by_index(in + size_t(32) * i, false);
}

WRONG_ANSWER("the last of several values") {
  check_values([](const unsigned* samples) { return by_index(samples, true); });
}
WRONG_ANSWER("counts in an array, by an index that is no constant") {
  if (machine_code("counted_by_index").empty()) FAIL("not seen: no machine code is shown here");
  check_no_local_memory("counted_by_index");
}
