// Checks pages.cu: every element once, a page for each warp, and 4 sectors a request.
#include <algorithm>
#include <map>
#include <set>

#include "pages.hpp"

namespace {

using your_turn::NotYet;

constexpr size_t page_words = 65536 / 4;
constexpr unsigned steps = page_words / 32;

size_t warps_for(size_t n) { return (n + page_words - 1) / page_words; }

struct Cost {
  int sectors = 0;   ///< the most of a request
  size_t pages = 0;  ///< the most of a warp
};

Cost require_right(const Pages& yours, size_t n) {
  const std::string what = "n = " + std::to_string(n);
  your_turn::watch(what);
  std::vector<unsigned> taken(n);
  Cost cost;
  for (size_t warp = 0; warp < warps_for(n); ++warp) {
    std::vector<size_t> pages;
    for (unsigned step = 0; step < steps; ++step) {
      your_turn::WarpWords words;
      for (unsigned lane = 0; lane < 32; ++lane) {
        const long long i = yours.element(warp, step, lane, n);
        words[lane] = i < 0 ? your_turn::idle : i;
        if (i < 0) continue;
        if (size_t(i) >= n)
          throw NotYet(what + ": warp " + std::to_string(warp) + ", step " + std::to_string(step) +
                       ", lane " + std::to_string(lane) + " is out of bounds, it takes element " +
                       std::to_string(i));
        ++taken[size_t(i)];
        pages.push_back(size_t(i) / page_words);
      }
      cost.sectors = std::max(cost.sectors, your_turn::sectors(words));
    }
    std::sort(pages.begin(), pages.end());
    const auto end = std::unique(pages.begin(), pages.end());
    cost.pages = std::max(cost.pages, size_t(end - pages.begin()));
  }
  your_turn::Wrong wrong(what, "elements");
  for (size_t i = 0; i < n; ++i)
    wrong.add(taken[i] == 1, [&] {
      return "at " + std::to_string(i) + ": expected to be taken once, found " +
             std::to_string(taken[i]) + " times";
    });
  wrong.require_none();
  return cost;
}

/// An array of more pages than 16 bits count, and of more words than 32 bits do: of its warps those
/// are looked at where an index would begin again. Each has to take a page of its own.
void require_right_beyond_32_bits(const Pages& yours) {
  constexpr size_t n = (size_t(1) << 33) + 5, last = n / page_words;
  std::map<size_t, size_t> warp_of_page;
  for (const size_t warp : {size_t(0), size_t(65536), size_t(131072), size_t(262144), last}) {
    const std::string what = "n = " + std::to_string(n) + ": warp " + std::to_string(warp);
    your_turn::watch(what);
    std::set<long long> taken;
    for (unsigned step = 0; step < steps; ++step)
      for (unsigned lane = 0; lane < 32; ++lane)
        if (const long long i = yours.element(warp, step, lane, n); i >= 0) taken.insert(i);
    const size_t expected = warp == last ? n % page_words : page_words;
    if (taken.size() != expected || size_t(*taken.rbegin()) >= n)
      throw NotYet(what + ": expected " + std::to_string(expected) + " elements, found " +
                   std::to_string(taken.size()) +
                   (taken.empty() ? "" : ", the last " + std::to_string(*taken.rbegin())));
    const size_t page = size_t(*taken.begin()) / page_words;
    const auto [other, is_first] = warp_of_page.emplace(page, warp);
    if (!is_first)
      throw NotYet(what + " takes page " + std::to_string(page) + ", as warp " +
                   std::to_string(other->second) + " does");
  }
}

}  // namespace

void check_pages(const Pages& yours, const Pages&) {
  for (const size_t n : {size_t(1), size_t(33), page_words - 1, page_words, page_words + 1,
                         3 * page_words, size_t(100003)}) {
    const Cost cost = require_right(yours, n);
    const std::string with = " with n = " + std::to_string(n);
    if (cost.pages > 1)
      throw your_turn::Dear("a warp touches " + std::to_string(cost.pages) + " pages" + with +
                            "; 1 will do");
    if (cost.sectors > 4)
      throw your_turn::Dear(std::to_string(cost.sectors) + " sectors a request" + with +
                            "; 4 will do");
  }
  require_right_beyond_32_bits(yours);
}
