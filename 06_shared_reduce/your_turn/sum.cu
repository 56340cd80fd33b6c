// sum: adds up n words, for any n from 1 on (the last that is tried is 17,188,257,791), in one
// launch. There are 256 threads in a block and
// eight blocks for each multiprocessor, whatever n is: as many as run at once where it has room for
// 2048 threads. *out is 0 before the launch; sums are modulo 2^32, so that the order makes no
// difference. `in` lies on 16 bytes.
//
// Right: the sum to the last bit, for every n. No word behind the last is added; one may be read
// only by a 16-byte load that brings the last ones, too, as no GPU can tell: such a load stays
// within one sector. (compute-sanitizer does tell.) Cheap: no more than 1.25 times the solution's
// time, of 67,108,867 words, in turn. This needs a GPU.
//
// Difficulty 4 of 5, about 40 minutes.
//
//   cmake --build build/release --target your_sum
//   build/release/06_shared_reduce/your_sum
#include "sum.hpp"

namespace {

// [your turn]

/// Adds the sum of in[0] to in[n - 1] to *out.
__global__ void sum(unsigned* out, const unsigned* in, size_t n) {
  // write it
}

// [/your turn]

}  // namespace

YOUR_TURN(sum, Sum, {sum});
