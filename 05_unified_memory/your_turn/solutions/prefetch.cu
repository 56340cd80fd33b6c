// prefetch: the host writes two managed arrays, a kernel reads `in` and writes `out`, and the host
// reads `out`. Left alone, each of them waits for page after page to come. Bring the pages before
// they are wanted, so that neither the kernel nor the host has a fault.
//
//   before_kernel(out, in, n);
//   add_one<<<...>>>(out, in, n);    // out[i] = in[i] + 1, timed
//   after_kernel(out, in, n);        // it is waited for
//   for (...) ... = out[...];        // the host reads all lines, timed
//
// prefetch_to_device(data, bytes) and prefetch_to_host(data, bytes) queue a prefetch. The arrays
// have n words of 4 bytes each. Right: every word. Cheap: the kernel takes at most 1.25 times as
// long as with all its pages there, the host's reading at most twice as long.
//
// Difficulty 2 of 5, about 15 minutes. Needs a GPU, and Linux.
//
//   cmake --build build/release --target your_prefetch
//   build/release/05_unified_memory/your_prefetch
#include "../prefetch_calls.hpp"

// [your turn]

// Both arrays before the kernel: a page that is only written faults as well. Behind it only what
// the host reads. A prefetch moves 2 MiB at a time over the whole width of the link; a fault moves
// a page or a few, and makes warps wait for the driver.

/// Called when the host has written both arrays.
void before_kernel(unsigned* out, const unsigned* in, size_t n) {
  prefetch_to_device(in, n * sizeof *in);
  prefetch_to_device(out, n * sizeof *out);
}

/// Called when the kernel has ended.
void after_kernel(unsigned* out, const unsigned* in, size_t n) {
  prefetch_to_host(out, n * sizeof *out);
}

// [/your turn]

#include "../prefetch_check.hpp"

WRONG_ANSWER("only what the kernel reads goes to the device") {
  if (!pages_move()) FAIL("not run");
  check_time(
      [](unsigned*, const unsigned* in, size_t n) { prefetch_to_device(in, n * sizeof *in); },
      after_kernel);
}
WRONG_ANSWER("words for bytes") {
  if (!pages_move()) FAIL("not run");
  check_time(before_kernel,
             [](unsigned* out, const unsigned*, size_t n) { prefetch_to_host(out, n); });
}
