#include "../common/run.hpp"

void ladder(Run&);
void one_pass(Run&);
void divergence(Run&);
void branches(Run&);
void barriers(Run&);
void banks(Run&);
void banks_steps(Run&);
void shared_size(Run&);
void small_matrices(Run&);

int main(int argc, char** argv) {
  return run_topic(
      argc, argv,
      {"06_shared_reduce",
       "divergence, bank conflicts, and a sum as fast as memory",
       {
           {"ladder", ladder,
            "the guide's three sums, what each loses by, and what comes after them"},
           {"one_pass", one_pass, "a sum in one launch, as fast as memory, beside CUB"},
           {"divergence", divergence, "which lanes add in each step"},
           {"branches", branches, "1 to 32 long paths, in a warp and by warp"},
           {"barriers", barriers, "what __syncthreads() protects, and what it costs"},
           {"banks", banks, "bank conflicts: of a sum's steps, of strides, of a tile", banks_steps},
           {"shared_size", shared_size,
            "resident blocks over the shared memory that each asks for"},
           {"small_matrices", small_matrices,
            "many small matrices inverted in registers, beside the library"},
       }});
}
