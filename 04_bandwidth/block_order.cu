// block_order: in which order do blocks start, and in which do they end? The wiki says that blocks
// are assigned to multiprocessors in the order of their ids, and complete in no fixed order [LC 4].
// Its diagonal transpose rests on the first: the ids decide which blocks work at the same time.
//
// Each block draws a ticket at its start, and one at its end. Look at how late a block starts at
// most, beside its work. Does each multiprocessor get as many blocks where the work is unequal?
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o block_order block_order.cu ../common/*.cpp
#include <algorithm>

#include "../common/arrays.cuh"
#include "../common/sample.hpp"

namespace {

// ---- the kernel ----

using Number = unsigned long long;

struct Note {
  Number start = 0, end = 0;          ///< tickets, from 0
  Number began_ns = 0, ended_ns = 0;  ///< by a clock that all multiprocessors share
  unsigned sm = 0, result = 0;        ///< the multiprocessor, and what it has worked
};

/// Each step needs the one before. Unequal work is from half of `steps` to one and a half.
__host__ __device__ unsigned work(unsigned block, unsigned steps, bool equal) {
  unsigned x = block;
  for (unsigned i = equal ? steps : steps / 2 + hash(block) % steps; i > 0; --i) x = hash(x);
  return x;
}

// A block is one thread, and works in registers: memory has no part in when it ends.
__global__ void draw_tickets(Note* notes, Number* tickets, unsigned steps, bool equal) {
  Note& note = notes[blockIdx.x];
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(note.began_ns)::"memory");
  note.start = atomicAdd(&tickets[0], 1);
  asm("mov.u32 %0, %%smid;" : "=r"(note.sm));
  note.result = work(blockIdx.x, steps, equal);
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(note.ended_ns)::"memory");
  note.end = atomicAdd(&tickets[1], 1);
}

/// Blocks that come after one with a larger id: how many, and by how much at most.
struct Late {
  double blocks = 0, most = 0;
};
Late late(const std::vector<Note>& notes, Number Note::*when) {
  Late late;
  Number earliest = ~Number(0);  // of the larger ids
  for (size_t id = notes.size(); id-- > 0;) {
    const Number own = notes[id].*when;
    if (own > earliest) late = {late.blocks + 1, std::max(late.most, double(own - earliest))};
    earliest = std::min(earliest, own);
  }
  return late;
}

// ---- the launches: add yours here ----

struct Launch {
  const char* name;
  bool alone;  ///< on its multiprocessor, whose shared memory it takes
  bool equal;  ///< work
};
const Launch launches[] = {{"one per SM, equal work", true, true},
                           {"one per SM, unequal work", true, false},
                           {"full, equal work", false, true},
                           {"full, unequal work", false, false}};

std::vector<Note> notes_of(const Launch& launch, unsigned blocks, unsigned steps) {
  const int most = int(current_gpu().sharedMemPerBlockOptin);
  CUDA_CHECK(cudaFuncSetAttribute(draw_tickets, cudaFuncAttributeMaxDynamicSharedMemorySize, most));
  const GuardedBuffer<Note> notes(blocks);
  const DeviceBuffer<Number> tickets(std::vector<Number>{0, 0});
  draw_tickets<<<blocks, 1, launch.alone ? most : 0>>>(notes, tickets, steps, launch.equal);
  CUDA_CHECK_LAUNCH();
  return notes.to_host();
}

}  // namespace

void block_order(Run& run) {
  const unsigned rounds = 6, steps = 20000, times = run.quick ? 5 : 20;
  run.title("the order in which " + std::to_string(rounds) + " rounds of blocks start and end");
  Table table("blocks of one thread",
              {"blocks", "start late", "by", "us", "end late", "end by", "moved", "per SM"});
  double latest_ns = 0, shortest_ns = INFINITY, fewest_moved = INFINITY;
  for (const Launch& launch : launches) {
    const unsigned at_once = launch.alone ? run.gpu.multiProcessorCount : run.resident_blocks(1);
    double ns = 0, moved = INFINITY;
    std::vector<Note> notes = notes_of(launch, rounds * at_once, steps);
    for (unsigned time = 0; time < times; ++time) {
      const auto before = std::exchange(notes, notes_of(launch, rounds * at_once, steps));
      ns = std::max(ns, late(notes, &Note::began_ns).most);
      double other_ends = 0;
      for (size_t id = 0; id < notes.size(); ++id) {
        other_ends += notes[id].end != before[id].end;
        shortest_ns = std::min(shortest_ns, double(notes[id].ended_ns - notes[id].began_ns));
      }
      moved = std::min(moved, other_ends);
    }
    std::map<unsigned, unsigned> on_sm;
    for (const Note& note : notes) ++on_sm[note.sm];
    std::set<unsigned> counts;  // of blocks
    for (const auto& [sm, count] : on_sm) counts.insert(count);
    const Late start = late(notes, &Note::start), end = late(notes, &Note::end);
    table.row(launch.name,
              {notes.size(), start.blocks, start.most, ns / 1e3, end.blocks, end.most, moved,
               std::to_string(*counts.begin()) + " to " + std::to_string(*counts.rbegin())});
    latest_ns = std::max(latest_ns, ns);
    fewest_moved = std::min(fewest_moved, moved);
  }
  run.print(table);
  run.note("late: after a block with a larger id; by: tickets at most, last launch; us: of all");
  run.note("moved: blocks, at least, that end at another place than in the launch before");

  run.observed({"04.21", "blocks are assigned to multiprocessors in the order of their ids",
                "[LC 4] \"determined by the block ID\""},
               latest_ns < shortest_ns / 10,  // starts at the same time may race
               "late by " + digits(latest_ns / 1e3) + " us at most; each works " +
                   digits(shortest_ns / 1e3) + " us or more");
  run.observed({"04.22", "blocks complete in no fixed order", "[LC 4] \"is not deterministic\""},
               fewest_moved > 0, digits(fewest_moved) + " blocks or more end at another place");
}
SAMPLE(5, block_order, "the order in which blocks start, and in which they end");

TEST_CASE("block_order: what is late, by hand") {
  std::vector<Note> notes(4);
  for (size_t id = 0; id < 4; ++id) notes[id].start = (id + 3) % 4;  // the first comes last
  CHECK(late(notes, &Note::start).blocks == 1);
  CHECK(late(notes, &Note::start).most == 3);
}

TEST_CASE("block_order: every ticket is drawn once, and every block works") {
  if (skip_without_gpu()) return;
  for (const Launch& launch : launches)
    for (const unsigned blocks : {1, 7, 1009}) {
      std::set<Number> starts, ends;
      const std::vector<Note> notes = notes_of(launch, blocks, 16);
      for (unsigned id = 0; id < blocks; ++id) {
        if (notes[id].start < blocks) starts.insert(notes[id].start);
        if (notes[id].end < blocks) ends.insert(notes[id].end);
        CHECK(notes[id].result == work(id, 16, launch.equal));
      }
      CHECK(starts.size() == blocks);
      CHECK(ends.size() == blocks);
    }
}
