// Answers to points that are wrong or dear, and what the check has to say of them.
#include <unistd.h>

#include <cstdlib>

#include "points.hpp"

namespace {

// answer points_of_structs: right, but 12 sectors a request with n = 32; 4 will do
namespace of_structs {

size_t words_for(size_t n) { return 3 * n; }

size_t word_of(size_t i, Field field, size_t n) { return 3 * i + field; }

YOUR_TURN_TEST(points, of_structs, Points, {words_for, word_of});

}  // namespace of_structs

// answer points_unaligned: right, but 5 sectors a request with n = 33; 4 will do
namespace unaligned {

size_t words_for(size_t n) { return 3 * n; }

size_t word_of(size_t i, Field field, size_t n) { return field * n + i; }

YOUR_TURN_TEST(points, unaligned, Points, {words_for, word_of});

}  // namespace unaligned

// answer points_outside: not yet: n = 1: 2 of 3 places are wrong, the first that of y of point 0:
// word 32 is out of bounds, the array has 3
namespace outside {

size_t words_for(size_t n) { return 3 * n; }

size_t word_of(size_t i, Field field, size_t n) { return i / 32 * 96 + field * 32 + i % 32; }

YOUR_TURN_TEST(points, outside, Points, {words_for, word_of});

}  // namespace outside

// answer points_endless: not yet: n = 1: does not end within [0-9]+ s
namespace endless {

size_t words_for(size_t n) { return 3 * n; }

size_t word_of(size_t i, Field field, size_t n) {
  volatile size_t word = i;
  while (word != n) word = i;
  return word;
}

YOUR_TURN_TEST(points, endless, Points, {words_for, word_of});

}  // namespace endless

// answer points_crash: not yet: n = 1: crashes [(]Segmentation fault[)]
namespace crash {

size_t words_for(size_t n) {
  static volatile size_t* nowhere = nullptr;
  return *nowhere;
}

size_t word_of(size_t i, Field field, size_t n) { return 0; }

YOUR_TURN_TEST(points, crash, Points, {words_for, word_of});

}  // namespace crash

// answer points_leaves_processes: not yet: n = 1: crashes [(]Aborted[)]
namespace leaves_processes {

size_t words_for(size_t n) { return 3 * n; }

size_t word_of(size_t, Field, size_t) {
  if (fork() == 0) {  // it holds the output open for a minute, for whoever reads that
    setsid();
    sleep(60);
    _exit(0);
  }
  std::abort();
}

YOUR_TURN_TEST(points, leaves_processes, Points, {words_for, word_of});

}  // namespace leaves_processes

// answer points_forks: not yet: n = 1: 2 of 3 places are wrong, the first that of y of point 0:
// word 0 is that of x of point 0
namespace forks {

size_t words_for(size_t n) { return 3 * n; }

size_t word_of(size_t, Field, size_t) {
  if (fork() == 0) {
    sleep(60);
    _exit(0);
  }
  return 0;
}

YOUR_TURN_TEST(points, forks, Points, {words_for, word_of});

}  // namespace forks

// answer points_claims: not yet: n = 1: ends the program [(]exit code 0[)]
namespace claims {

size_t words_for(size_t n) { return 3 * n; }

/// Writes "done" to whatever is open beside the standard files, and ends as if all were.
size_t word_of(size_t, Field, size_t) {
  const std::string answer = "points_claims: done\n";
  for (int descriptor = 3; descriptor < 64; ++descriptor)
    if (write(descriptor, answer.data(), answer.size()) < 0) continue;
  std::exit(0);
}

YOUR_TURN_TEST(points, claims, Points, {words_for, word_of});

}  // namespace claims

// answer points_closes_files: right, but 12 sectors a request with n = 32; 4 will do
namespace closes_files {

size_t words_for(size_t n) { return 3 * n; }

size_t word_of(size_t i, Field field, size_t) {
  for (int descriptor = 0; descriptor < 64; ++descriptor) close(descriptor);
  return 3 * i + field;
}

YOUR_TURN_TEST(points, closes_files, Points, {words_for, word_of});

}  // namespace closes_files

// answer points_room: not yet: n = 1: the array has 128 words; it may have 3 to 99
namespace room {

size_t words_for(size_t n) { return (n + 31) / 32 * 128; }  // 32 words of each 128 are left empty

size_t word_of(size_t i, Field field, size_t n) { return i / 32 * 128 + field * 32 + i % 32; }

YOUR_TURN_TEST(points, room, Points, {words_for, word_of});

}  // namespace room

}  // namespace
