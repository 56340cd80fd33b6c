// Checks scan.cu: no two threads of a step get in each other's way, every prefix sum is right, and
// no request takes more than one wavefront.
#include <algorithm>

#include "scan.hpp"

namespace {

using your_turn::NotYet;
using your_turn::WarpWords;

std::string thread(unsigned tid) { return "thread " + std::to_string(tid); }

/// One step of n threads; what they read is as it was before the step. Returns the most wavefronts
/// of a request.
int add_up(const Scan& yours, std::vector<unsigned>& word, unsigned step, unsigned n) {
  const std::string what = "n = " + std::to_string(n) + ", step " + std::to_string(step) + ": ";
  constexpr unsigned no_one = ~0u;
  std::vector<unsigned> writer(word.size(), no_one);
  std::vector<Sum> of_thread;
  for (unsigned tid = 0; tid < n; ++tid) {
    const Sum s = yours.sum(step, tid, n);
    of_thread.push_back(s);
    if (!s.adds && !s.copies) continue;
    for (const unsigned i : {s.to, s.left, s.adds ? s.right : s.left})
      if (i >= word.size())
        throw NotYet(what + thread(tid) + " is out of bounds, it takes word " + std::to_string(i) +
                     " of " + std::to_string(word.size()));
    if (writer[s.to] != no_one)
      throw NotYet(what + thread(writer[s.to]) + " and " + thread(tid) + " both write word " +
                   std::to_string(s.to));
    writer[s.to] = tid;
  }
  int worst = 0;
  const std::vector<unsigned> before = word;
  for (unsigned first = 0; first < n; first += 32) {
    WarpWords to, left, right;
    for (WarpWords* words : {&to, &left, &right}) words->fill(your_turn::idle);
    for (unsigned lane = 0; lane < 32; ++lane) {
      const unsigned tid = first + lane;
      const Sum& s = of_thread[tid];
      if (!s.adds && !s.copies) continue;
      for (const unsigned i : {s.left, s.adds ? s.right : s.left})
        if (writer[i] != no_one && writer[i] != tid)
          throw NotYet(what + thread(tid) + " reads word " + std::to_string(i) + " while " +
                       thread(writer[i]) + " writes it");
      word[s.to] = before[s.left] + (s.adds ? before[s.right] : 0);
      to[lane] = s.to;
      left[lane] = s.left;
      if (s.adds) right[lane] = s.right;
    }
    for (const WarpWords& words : {to, left, right})
      worst = std::max(worst, your_turn::wavefronts(words));
  }
  return worst;
}

}  // namespace

void check_scan(const Scan& yours, const Scan&) {
  int worst = 0;
  for (const unsigned n : {64u, 128u, 256u, 512u, 1024u}) {
    const std::string what = "n = " + std::to_string(n);
    your_turn::watch(what);
    std::vector<unsigned> word(2 * n), expected(n);
    for (unsigned i = 0; i < n; ++i) {
      word[i] = your_turn::number_at(i);
      expected[i] = word[i] + (i > 0 ? expected[i - 1] : 0);
      word[n + i] = 0xffffffff;
    }
    for (unsigned step = 0; 1u << step < n; ++step)
      worst = std::max(worst, add_up(yours, word, step, n));
    const unsigned first = yours.result(n);
    if (first > n)
      throw NotYet(what + ": the result begins at word " + std::to_string(first) +
                   ", and is longer " + "than what is left of " + std::to_string(2 * n));
    const std::vector<unsigned> found(word.begin() + first, word.begin() + first + n);
    your_turn::require_equal(what, found, expected, 0xffffffff);
  }
  if (worst > 1)
    throw your_turn::Dear(std::to_string(worst) + " wavefronts for a request; 1 will do");
}
