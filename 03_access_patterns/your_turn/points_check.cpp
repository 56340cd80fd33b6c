// Checks points.cu: every field of every point has a word of its own, and 32 neighbours' words of a
// field lie in 4 sectors.
#include <algorithm>

#include "points.hpp"
#include "transactions.hpp"

namespace {

std::string named(size_t i, unsigned field) {
  return std::string(1, "xyz"[field]) + " of point " + std::to_string(i);
}

void require_right(const Points& yours, size_t n) {
  const std::string what = "n = " + std::to_string(n);
  your_turn::watch(what);
  const size_t words = yours.words_for(n);
  if (words < field_count * n || words > field_count * n + 96)
    throw your_turn::NotYet(what + ": the array has " + std::to_string(words) +
                            " words; it may have " + std::to_string(field_count * n) + " to " +
                            std::to_string(field_count * n + 96));
  constexpr size_t no_one = ~size_t(0);
  std::vector<size_t> owner(words, no_one);
  your_turn::Wrong wrong(what, "places");
  for (size_t i = 0; i < n; ++i)
    for (unsigned field = 0; field < field_count; ++field) {
      const size_t word = yours.word_of(i, Field(field), n);
      const bool there = word < words;
      const bool right = there && owner[word] == no_one;
      wrong.add(right, [&] {
        const std::string place = "that of " + named(i, field) + ": word " + std::to_string(word);
        if (!there) return place + " is out of bounds, the array has " + std::to_string(words);
        return place + " is that of " + named(owner[word] / 3, owner[word] % 3);
      });
      if (right) owner[word] = field_count * i + field;
    }
  wrong.require_none();
}

/// The most sectors that a warp moves for one field of its 32 points.
int most_sectors(const Points& yours, size_t n) {
  int most = 0;
  for (size_t first = 0; first + 32 <= n; first += 32)
    for (unsigned field = 0; field < field_count; ++field)
      most = std::max(most, sectors(warp_of(4, [&](unsigned lane) {
                        return (long long)yours.word_of(first + lane, Field(field), n);
                      })));
  return most;
}

}  // namespace

void check_points(const Points& yours, const Points&) {
  const std::initializer_list<size_t> sizes{1, 2, 31, 32, 33, 1000, 1009, 4099};
  for (const size_t n : sizes) require_right(yours, n);
  for (const size_t n : sizes)
    if (const int most = most_sectors(yours, n); most > 4)
      throw your_turn::Dear(std::to_string(most) +
                            " sectors a request with n = " + std::to_string(n) + "; 4 will do");
}
