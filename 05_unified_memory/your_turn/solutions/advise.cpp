// advise: a prediction. A managed array of 256 MiB is on the host, and a kernel reads it. There are
// two ways:
//
//   mapped   The array is advised to be accessed by the device: it stays on the host, and each pass
//            crosses the link, in sectors of 32 bytes. The link carries 50 GB/s (1 GB is 1e9
//            bytes).
//   moved    Without advice the first touch of a page of 64 KiB moves the page. Moving the whole
//            array takes 12 ms. Then it is read from the device's memory, at 3000 GB/s.
//
// The comments below say what to predict. The last two are about a kernel that reads one word of 4
// bytes in each page of 64 KiB, once.
//
// Right: the passes exactly, the others within 25%.
//
// Difficulty 2 of 5, about 10 minutes. Needs no GPU.
//
//   cmake --build build/release --target your_advise
//   build/release/05_unified_memory/your_advise
// [your turn]

// A pass over the link takes 268 MB / 50 GB/s = 5.4 ms. Moving takes 12 ms, and each pass then
// 0.07: two passes take 10.7 ms mapped and 12.1 ms moved, three 16.1 and 12.2. What is read once,
// or a little of it, is better mapped: 4096 sectors of 32 bytes are 128 KiB, where moving brings
// all of the 256 MiB.

constexpr double mapped = 5.4;           // ms: one pass over the array, mapped
constexpr double moved = 12.1;           // ms: one pass, moved
constexpr double passes = 3;             // from so many passes on moving takes less time
constexpr double sparse_mapped = 128;    // KiB over the link: one word of each 64 KiB, mapped
constexpr double sparse_moved = 262144;  // KiB over the link: the same, moved

// [/your turn]

#include "../advise_check.hpp"

WRONG_ANSWER("a pass reads at the link's rate after the move, too") {
  check_pass(mapped, moved + mapped);
}
WRONG_ANSWER("two passes over the link take less than a move and two passes") { check_passes(2); }
WRONG_ANSWER("a word is four bytes on the link, too") {
  check_sparse(4096 * 4 / 1024, sparse_moved);
}
