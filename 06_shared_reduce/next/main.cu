#include "../../common/run.hpp"

void barriers(Run&);

int main(int argc, char** argv) {
  return run_topic(argc, argv,
                   {"06_shared_reduce",
                    "divergence, bank conflicts, and a sum as fast as memory",
                    {
                        {"barriers", barriers, "what __syncthreads() protects, and what it costs"},
                    }});
}
