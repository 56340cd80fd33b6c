#include "../common/run.hpp"

void transfer(Run&);
void allocation(Run&);
void batching(Run&);
void keep_on_device(Run&);
void zero_copy(Run&);
void reuse(Run&);
void pitch(Run&);
void overlap(Run&);
void peer(Run&);

int main(int argc, char** argv) {
  return run_topic(
      argc, argv,
      {"02_memory_management",
       "taking memory, and carrying bytes to the card and back",
       {
           {"transfer", transfer, "copies from and to each kind of host memory"},
           {"allocation", allocation, "taking memory in the loop, reusing it, a pool"},
           {"batching", batching, "many small copies, one large one, a batch"},
           {"keep_on_device", keep_on_device, "little parallelism, or one operation per word"},
           {"zero_copy", zero_copy, "a sum of arrays in the host's memory"},
           {"reuse", reuse, "the host's memory read and written again and again"},
           {"pitch", pitch, "rows that begin on 512 bytes, and rows that do not"},
           {"overlap", overlap, "copies and kernels at the same time, in streams"},
           {"peer", peer, "from one card to another"},
       }});
}
