#include "../common/run.hpp"

void coalescing(Run&);
void coalescing_drawing(Run&);
void stride(Run&);
void structs(Run&);
void offset(Run&);
void word_size(Run&);
void caching(Run&);
void stores(Run&);
void reverse(Run&);
void work_split(Run&);
void matmul(Run&);
void unroll(Run&);
void compare(Run&);
void dictionary(Run&);
void check_dictionary(const Run&);
void yours(Run&);
void yours_drawing(Run&);
void check_yours(const Run&);

static void check_options(const Run& run) {
  check_yours(run);
  check_dictionary(run);
}

int main(int argc, char** argv) {
  return run_topic(
      argc, argv,
      {"03_access_patterns",
       "which bytes move for the bytes that a warp wants",
       {
           {"coalescing", coalescing,
            "what moves for 32 addresses, drawn by five generations, and its time",
            coalescing_drawing},
           {"stride", stride, "reading every word, every second, up to every 64th"},
           {"structs", structs, "an array of structures, and a structure of arrays"},
           {"offset", offset, "reading from 0 to 64 words past the alignment"},
           {"word_size", word_size, "words of 4 to 32 bytes, side by side and each in 32 bytes"},
           {"caching", caching, "the same loads through L1 and past it"},
           {"stores", stores, "writing one, two or four segments, and words a stride apart"},
           {"reverse", reverse, "an array reversed in global memory, and through shared memory"},
           {"work_split", work_split, "a chunk for each thread, or threads interleaved"},
           {"matmul", matmul, "A x B, and A x the transposed B"},
           {"unroll", unroll, "1, 2, 4 or 8 words per thread"},
           {"compare", compare, "every X with every Y, and what storing the results costs"},
           {"dictionary", dictionary, "where each of 16384 words first occurs in a text"},
           {"yours", yours, "your own pattern, drawn and timed", yours_drawing},
       },
       {{"pattern",
         "yours: words of the lanes, as 8*i or i/2 or 32 words: 0,1,2, ... (default 3*i)"},
        {"file", "dictionary: a text to search (default: a made-up one)"}},
       check_options});
}
