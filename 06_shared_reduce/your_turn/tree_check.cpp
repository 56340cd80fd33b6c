// Checks tree.cu: the sum is right, no two threads of a step get in each other's way, and the steps
// take as few wavefronts as those of the guide's third version.
#include <algorithm>

#include "tree.hpp"

namespace {

using your_turn::NotYet;
using your_turn::number_at;
using your_turn::WarpWords;

std::string at(unsigned n, unsigned step) {
  return "n = " + std::to_string(n) + ", step " + std::to_string(step);
}

std::string thread(unsigned tid) { return "thread " + std::to_string(tid); }

/// One step of the n threads of a block; what they read is as it was before the step.
void add_up(const Tree& yours, std::vector<unsigned>& word, unsigned step) {
  const unsigned n = unsigned(word.size());
  constexpr unsigned no_one = ~0u;
  std::vector<unsigned> writer(n, no_one);
  std::vector<Addition> of_thread;
  for (unsigned tid = 0; tid < n; ++tid) {
    const Addition a = yours.addition(step, tid, n);
    of_thread.push_back(a);
    if (!a.adds) continue;
    if (a.left >= n || a.right >= n)
      throw NotYet(at(n, step) + ": " + thread(tid) + " is out of bounds, it adds word " +
                   std::to_string(a.right) + " to word " + std::to_string(a.left) + " of " +
                   std::to_string(n));
    if (writer[a.left] != no_one)
      throw NotYet(at(n, step) + ": " + thread(writer[a.left]) + " and " + thread(tid) +
                   " both write word " + std::to_string(a.left));
    writer[a.left] = tid;
  }
  for (unsigned tid = 0; tid < n; ++tid)
    for (const unsigned read : {of_thread[tid].left, of_thread[tid].right})
      if (of_thread[tid].adds && writer[read] != no_one && writer[read] != tid)
        throw NotYet(at(n, step) + ": " + thread(tid) + " reads word " + std::to_string(read) +
                     " while " + thread(writer[read]) + " writes it");
  const std::vector<unsigned> before = word;
  for (const Addition& a : of_thread)
    if (a.adds) word[a.left] = before[a.left] + before[a.right];
}

void require_right(const Tree& yours, unsigned n) {
  your_turn::watch("n = " + std::to_string(n));
  std::vector<unsigned> word(n);
  for (unsigned i = 0; i < n; ++i) word[i] = number_at(i);
  unsigned sum = 0;
  for (const unsigned each : word) sum += each;
  for (unsigned step = 0; 1u << step < n; ++step) add_up(yours, word, step);
  if (word[0] != sum)
    throw NotYet("n = " + std::to_string(n) + ": word 0 is wrong: expected the sum " +
                 std::to_string(sum) + ", found " + std::to_string(word[0]));
}

/// Of all steps together: each warp that adds loads twice and stores once.
struct Cost {
  int wavefronts = 0;
  int worst = 0;  ///< of one request
};

Cost cost_of(const Tree& yours, unsigned n) {
  Cost cost;
  for (unsigned step = 0; 1u << step < n; ++step)
    for (unsigned first = 0; first < n; first += 32) {
      WarpWords left, right;
      left.fill(your_turn::idle);
      right.fill(your_turn::idle);
      for (unsigned lane = 0; lane < 32; ++lane) {
        const Addition a = yours.addition(step, first + lane, n);
        if (!a.adds) continue;
        left[lane] = a.left;
        right[lane] = a.right;
      }
      const int of_left = your_turn::wavefronts(left), of_right = your_turn::wavefronts(right);
      cost.wavefronts += 2 * of_left + of_right;
      cost.worst = std::max({cost.worst, of_left, of_right});
    }
  return cost;
}

}  // namespace

void check_tree(const Tree& yours, const Tree& solution) {
  for (const unsigned n : {64u, 128u, 256u, 512u, 1024u}) require_right(yours, n);
  constexpr unsigned n = 256;
  const Cost cost = cost_of(yours, n), least = cost_of(solution, n);
  if (cost.wavefronts > least.wavefronts)
    throw your_turn::Dear(std::to_string(cost.wavefronts) + " wavefronts for " + std::to_string(n) +
                          " words, " + std::to_string(cost.worst) + " for the worst request; " +
                          std::to_string(least.wavefronts) + " will do");
}
