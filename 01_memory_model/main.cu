#include "../common/run.hpp"

void device(Run&);
void symbols(Run&);
void pointers(Run&);
void registers(Run&);
void local_arrays(Run&);
void constant(Run&);
void latency(Run&);
void bandwidths(Run&);
void dependent(Run&);
void carveout(Run&);
void timing(Run&);

int main(int argc, char** argv) {
  return run_topic(
      argc, argv,
      {"01_memory_model",
       "what each kind of memory on a GPU is, holds and costs",
       {
           {"device", device, "what this GPU has, beside the lectures' two GPUs"},
           {"symbols", symbols, "variables of the device, and how the host reaches them"},
           {"pointers", pointers, "one pointer to global, shared, local and pinned memory"},
           {"registers", registers, "a budget of registers, and what spills beyond it"},
           {"local_arrays", local_arrays, "where an array of a thread lives"},
           {"constant", constant, "constant memory: one word for a warp, or many"},
           {"latency", latency, "how long a load from each memory takes"},
           {"bandwidths", bandwidths, "what all multiprocessors read per second"},
           {"dependent", dependent, "how many warps hide a multiply-add's latency"},
           {"carveout", carveout, "one memory, split into L1 and shared memory"},
           {"timing", timing, "one kernel timed in five ways"},
       }});
}
