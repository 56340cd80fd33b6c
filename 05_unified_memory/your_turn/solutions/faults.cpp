// faults: a prediction. A block of 2 MiB of managed memory is on the device: 32 parts of 64 KiB.
// The host touches one word in some of the parts, in the order that the comments below give. If the
// part is not on the host, that is a page fault, which brings the part. The driver then looks at
// each larger part of the block that contains it: 128 KiB, 256 KiB and so on up to 2 MiB, at
// multiples of their size. A larger part is brought completely if more than half of it is there,
// where what was there before the fault and the 64 KiB of the fault count. (The real threshold is
// 51%.)
//
// How many faults are there, and how many KiB does the host have afterwards? Right: all four.
//
// Difficulty 3 of 5, about 15 minutes. Needs no GPU.
//
//   cmake --build build/release --target your_faults
//   build/release/05_unified_memory/your_faults
// [your turn]

// In order each fault finds the half before it there, and what it lies in is completed: faults at
// parts 0, 1, 2, 4, 8 and 16, which bring 64, 64, 128, 256, 512 and 1024 KiB. With every second
// part just half of everything is there, and half is not enough: 16 faults, and nothing more than
// was touched.

constexpr double in_order = 6;       // faults, if the host touches parts 0, 1, 2 ... 31
constexpr double kib = 512;          // that the host has after it touched parts 0, 1, 2 and 4
constexpr double every_second = 16;  // faults, if it touches parts 0, 2, 4 ... 30
constexpr double kib_of_every_second = 1024;  // that it has then

// [/your turn]

#include "../faults_check.hpp"

WRONG_ANSWER("half of the parts is enough to bring the rest") {
  check_every_second(2, 2048);  // part 2 makes two of four
}
WRONG_ANSWER("a fault brings its own part alone") { check_in_order(32); }
WRONG_ANSWER("four faults bring four parts") { check_kib(4 * 64); }
