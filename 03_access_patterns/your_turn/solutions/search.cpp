// search: find the bug. In 2007 a reader of a study of the 8800 GTX (1.35 GHz, in a PC with a
// display) wrote that he looks for a word in a text of 50 MB, by one thread. In the first 10 MB the
// word is found, and in the last 10 MB as well; in all 50 MB nothing is found, and nothing is said.
// He suspects the memory. What he ran was, most likely,
//
//   cudaMalloc(&text_d, size);                                          // Line::malloc_text
//   cudaMemcpy(text_d, text, size, cudaMemcpyHostToDevice);             // Line::copy_text
//   cudaMalloc(&found_d, sizeof(int));                                  // Line::malloc_found
//   search<<<1, 1>>>(text_d, size, word, found_d);                      // Line::launch
//   cudaMemcpy(&found, found_d, sizeof(int), cudaMemcpyDeviceToHost);   // Line::copy_found
//   printf("%d", found);
//
// For each of 50 million positions the thread loads a letter of the text and one of the word, one
// after the other, and waits about 300 cycles for each. How long does that take? Which limit ended
// it? And which line returned the error that no one read?
//
// Right: all three, the time within 25%.
//
// Difficulty 1 of 5, about 10 minutes. Needs no GPU.
//
//   cmake --build build/release --target your_search
//   build/release/03_access_patterns/your_search

enum class Limit {
  unknown,
  device_memory,  // the text does not fit
  memory_bounds,  // a thread reads beyond the text
  grid_size,      // more blocks or threads than a launch may have
  registers,      // more than a thread, or a multiprocessor, has
  run_time        // a kernel takes longer than the system lets it
};
enum class Line { unknown, malloc_text, copy_text, malloc_found, launch, copy_found };

// [your turn]

// 22 seconds. A system that also draws on the GPU lets a kernel run for a few seconds (Windows for
// about five; cudaDevAttrKernelExecTimeout tells whether there is such a limit), and 10 MB take
// less. The launch returns at once. What happens to the kernel later is returned by the next call
// that waits for it, here the copy of the result (cudaErrorLaunchTimeout). What it copied was never
// written.
constexpr double seconds = 2 * 50e6 * 300 / 1.35e9;  // that the kernel takes
constexpr Limit limit = Limit::run_time;             // that ended it
constexpr Line line = Line::copy_found;              // that returned the error

// [/your turn]

#include "../search_check.hpp"

WRONG_ANSWER("a load for each byte, one array") { check_seconds(50e6 * 300 / 1.35e9); }
WRONG_ANSWER("the text does not fit") { check_limit(Limit::device_memory); }
WRONG_ANSWER("the launch itself returned the error") { check_line(Line::launch); }
