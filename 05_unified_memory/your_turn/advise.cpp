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

constexpr double mapped = 0;         // ms: one pass over the array, mapped
constexpr double moved = 0;          // ms: one pass, moved
constexpr double passes = 0;         // from so many passes on moving takes less time
constexpr double sparse_mapped = 0;  // KiB over the link: one word of each 64 KiB, mapped
constexpr double sparse_moved = 0;   // KiB over the link: the same, moved

// [/your turn]

#include "advise_check.hpp"
