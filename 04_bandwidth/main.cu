#include "../common/run.hpp"

void peak(Run&);
void in_flight(Run&);
void transpose(Run&);
void block_shape(Run&);
void sum(Run&);
void threads(Run&);
void blocks(Run&);
void async_copy(Run&);
void tensor_copy(Run&);

int main(int argc, char** argv) {
  return run_topic(
      argc, argv,
      {"04_bandwidth",
       "how close a kernel comes to the memory's rate, and what stops it",
       {
           {"peak", peak, "theory, the copy engine, and the simplest kernels"},
           {"in_flight", in_flight, "the rate over the bytes in flight, and Little's law"},
           {"transpose", transpose, "from one word per thread to a tile of quads"},
           {"block_shape", block_shape, "transposes over the shape of the block, and the diagonal"},
           {"sum", sum, "the study's sum by rows, by columns, in random order"},
           {"threads", threads, "a sum by rows with 16 to 1024 threads per block"},
           {"blocks", blocks, "the same sum with 100 blocks and more"},
           {"async_copy", async_copy, "copies without registers, which gain next to nothing"},
           {"tensor_copy", tensor_copy, "a transpose whose tiles come and leave by tensor copies"},
       }});
}
