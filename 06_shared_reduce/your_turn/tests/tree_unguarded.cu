// answer: not yet: n = 64, step 0: thread 32 is out of bounds, it adds word 64 to word 32 of 64
#include "tree.hpp"

namespace {

Addition addition(unsigned step, unsigned tid, unsigned n) {
  return {true, tid, tid + (n >> (step + 1))};
}

}  // namespace

YOUR_TURN(tree, Tree, {addition});
