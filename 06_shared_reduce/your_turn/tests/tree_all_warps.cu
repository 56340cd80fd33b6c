// answer: right, but [0-9]+ wavefronts for 256 words, 1 for the worst request; 36 will do
#include "tree.hpp"

namespace {

Addition addition(unsigned step, unsigned tid, unsigned n) {
  const unsigned s = 1u << step;
  return {tid % (2 * s) == 0, tid, tid + s};
}

}  // namespace

YOUR_TURN(tree, Tree, {addition});
