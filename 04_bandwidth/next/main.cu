#include "../../common/run.hpp"

void peak(Run&);
void transpose(Run&);
void threads(Run&);
void blocks(Run&);

int main(int argc, char** argv) {
  return run_topic(argc, argv,
                   {"04_bandwidth",
                    "how close a kernel comes to the memory's rate, and what stops it",
                    {
                        {"peak", peak, "theory, the copy engine, and the simplest kernels"},
                        {"transpose", transpose, "from one word per thread to a tile of quads"},
                        {"threads", threads, "a sum by rows with 16 to 1024 threads per block"},
                        {"blocks", blocks, "the same sum with 100 blocks and more"},
                    }});
}
