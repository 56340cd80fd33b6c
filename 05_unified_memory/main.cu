#include "../common/run.hpp"

void managed(Run&);
void page_faults(Run&);
void fault_times(Run&);
void prefetch_overlap(Run&);
void advise(Run&);
void sort_file(Run&);
void check_sort_file(const Run&);
void linked_list(Run&);
void system_memory(Run&);

int main(int argc, char** argv) {
  return run_topic(
      argc, argv,
      {"05_unified_memory",
       "one pointer for both sides, what moves behind it, and what that costs",
       {
           {"managed", managed, "one pointer for both sides: what it costs, and who has to wait"},
           {"page_faults", page_faults, "four ways to touch pages, and what moves"},
           {"fault_times", fault_times, "when the pages of page_faults move: a time line"},
           {"prefetch_overlap", prefetch_overlap,
            "on demand, by prefetch, by copy: do transfers overlap the kernel?"},
           {"advise", advise, "what each advice changes, where it helps and where it hurts"},
           {"sort_file", sort_file,
            "the lecture's program: a file sorted by qsort, and by the GPU"},
           {"linked_list", linked_list, "a structure of pointers, with and without a deep copy"},
           {"system_memory", system_memory, "memory of malloc and a mapped file, read by a kernel"},
       },
       {{"file", "sort_file sorts this file's bytes"}},
       check_sort_file});
}
