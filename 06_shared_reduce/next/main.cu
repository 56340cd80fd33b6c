#include "../../common/run.hpp"

int main(int argc, char** argv) {
  return run_topic(argc, argv,
                   {"06_shared_reduce",
                    "divergence, bank conflicts, and a sum as fast as memory",
                    {
                    }});
}
