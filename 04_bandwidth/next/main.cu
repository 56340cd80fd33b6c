#include "../../common/run.hpp"

void peak(Run&);
void transpose(Run&);

int main(int argc, char** argv) {
  return run_topic(argc, argv,
                   {"04_bandwidth",
                    "how close a kernel comes to the memory's rate, and what stops it",
                    {
                        {"peak", peak, "theory, the copy engine, and the simplest kernels"},
                        {"transpose", transpose, "from one word per thread to a tile of quads"},
                    }});
}
