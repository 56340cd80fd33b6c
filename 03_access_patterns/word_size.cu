// word_size: words of 4, 8 and 16 bytes. Dr. Dobb's hands on the rough penalties of 2008 [DD]:
// where they are not coalesced, words of 32 bits cost 10 times as much, of 64 bits 4 times, of 128
// twice. Look at how near 8, 4 and 2 the cost is where each lane has 32 bytes, a sector, for
// itself, as on the G80; and at how it doubles where it has 128 bytes, since memory hands out 64 at
// a time.
//   cmake -S 03_access_patterns -B build/words -DEXPERIMENTS=word_size
//   cmake --build build/words && build/words/03_access_patterns
//
//   1  read4   words of 4 bytes, side by side or apart
//   2  read8   words of 8 bytes
//   3  read16  words of 16 bytes
#include <algorithm>

#include "reads.cuh"
#include "transactions.hpp"

namespace {

// ---- kernels: thread t adds up the words t, t + threads, t + 2 threads ... of n, into out[t] ----

// [read4]
// Lane i of a warp reads word i * apart: 1 is side by side, 4 sectors of 32 bytes; 8 is a sector a
// lane, 32 is a line of 128 bytes a lane.
__global__ void read4(unsigned* out, const unsigned* in, size_t n, size_t apart) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  unsigned sum = 0;
  size_t i = tid;
  for (; i + 3 * threads < n; i += 4 * threads) {  // four loads under way
#pragma unroll
    for (unsigned k = 0; k < 4; ++k) sum += in[(i + k * threads) * apart];
  }
  for (; i < n; i += threads) sum += in[i * apart];  // what is left
  out[tid] = sum;
}
// [/read4]

// The same in words of 8 bytes: 8 sectors side by side; 4 words are a sector.
__global__ void read8(unsigned* out, const uint2* in, size_t n, size_t apart) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  unsigned sum = 0;
  size_t i = tid;
  for (; i + 3 * threads < n; i += 4 * threads) {
    uint2 word[4];
#pragma unroll
    for (unsigned k = 0; k < 4; ++k) word[k] = in[(i + k * threads) * apart];
#pragma unroll
    for (unsigned k = 0; k < 4; ++k) sum += word[k].x + word[k].y;
  }
  for (; i < n; i += threads) {
    const uint2 word = in[i * apart];
    sum += word.x + word.y;
  }
  out[tid] = sum;
}

// The same in words of 16 bytes: 16 sectors side by side; 2 words are a sector.
__global__ void read16(unsigned* out, const uint4* in, size_t n, size_t apart) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  unsigned sum = 0;
  size_t i = tid;
  for (; i + 3 * threads < n; i += 4 * threads) {
    uint4 word[4];
#pragma unroll
    for (unsigned k = 0; k < 4; ++k) word[k] = in[(i + k * threads) * apart];
#pragma unroll
    for (unsigned k = 0; k < 4; ++k) sum += word[k].x + word[k].y + word[k].z + word[k].w;
  }
  for (; i < n; i += threads) {
    const uint4 word = in[i * apart];
    sum += word.x + word.y + word.z + word.w;
  }
  out[tid] = sum;
}

// ---- the story in order ----

constexpr unsigned word_sizes[] = {4, 8, 16};

/// Bytes that a word has for itself.
enum class Room { side_by_side, sector, line };
constexpr Room rooms[] = {Room::side_by_side, Room::sector, Room::line};

unsigned room_bytes(unsigned word, Room room) {
  if (room == Room::side_by_side) return word;
  return room == Room::sector ? 32 : 128;
}

std::string name_of(unsigned word, Room room) {
  constexpr const char* names[] = {"coalesced, ", "32 bytes each, ", "128 bytes each, "};
  return names[static_cast<int>(room)] + std::to_string(word) + " bytes";
}

/// Words that a read of the whole array takes.
size_t words_read(const Words& memory, unsigned word, Room room) {
  return memory.in.bytes() / room_bytes(word, room);
}

// ---- what is right ----

/// The first 4, 8 or 16 of so many bytes, over and over, as seen from the memory.
Slots slots_of(const Words& memory, unsigned word, Room room) {
  const size_t bytes = room_bytes(word, room);
  return {0, bytes / 4, memory.in.bytes() / bytes, word / 4};
}

Task task_of(Words& memory, unsigned word, Room room) {
  const size_t n = words_read(memory, word, room);
  const size_t apart = room_bytes(word, room) / word;
  const auto launch = [&memory, word, n, apart] {
    const unsigned blocks = memory.grid.blocks;
    unsigned* const out = memory.sums.data();
    const unsigned* const in = memory.in.data();
    const auto* const pairs = reinterpret_cast<const uint2*>(in);
    const auto* const quads = reinterpret_cast<const uint4*>(in);
    if (word == 4) read4<<<blocks, block_threads>>>(out, in, n, apart);
    if (word == 8) read8<<<blocks, block_threads>>>(out, pairs, n, apart);
    if (word == 16) read16<<<blocks, block_threads>>>(out, quads, n, apart);
  };
  return memory.task(name_of(word, room), launch, slots_of(memory, word, room));
}

// ---- what to expect ----

/// Where a warp's words lie, in bytes of room: what the kernels' `i * apart` comes to.
Warp word_warp(unsigned word, Room room) {
  const unsigned apart = room_bytes(word, room) / word;
  return warp_of(word, [=](unsigned lane) { return lane * apart; });
}

/// How many times the bytes move for an uncoalesced word that move for a coalesced one.
double penalty(Rule rule, unsigned word, Room room) {
  return double(under(rule, word_warp(word, room)).bytes()) /
         under(rule, word_warp(word, Room::side_by_side)).bytes();
}

/// The same, if memory moves pieces of 64 bytes.
double cost_of_pieces(unsigned word, Room room) {
  const double moved = double(memory_piece) * pieces(word_warp(word, room), memory_piece);
  return moved / (32.0 * word);
}

constexpr unsigned calibrates = 16;  // coalesced words of 16 bytes get the memory's rate

/// GB/s of the words.
double predicted_gbs(unsigned word, Room room, double memory_gbs) {
  return memory_gbs / cost_of_pieces(word, room);
}

/// With a line for each word half of the pieces are skipped: what is left rests on their size.
Model model_of(Room room, const Device* device) {
  return room == Room::line ? model_of_pieces(device) : Model::traffic;
}

// ---- the experiment ----

constexpr size_t sizes = std::size(word_sizes);

/// What one run measured; empty without a GPU.
struct Measured {
  size_t bytes = 0;                         ///< of the array
  Readings times[sizes][std::size(rooms)];  ///< by word and room, in turn

  const Readings& of(size_t size, Room room) const { return times[size][static_cast<int>(room)]; }
  /// Time of a word in times of a coalesced one of its size.
  Interval cost(size_t size, Room room) const {
    const double fewer = double(room_bytes(word_sizes[size], room)) / word_sizes[size];
    return scaled(ratio(of(size, room), of(size, Room::side_by_side)), fewer);
  }
};

Measured measure(const Run& run, size_t bytes) {
  Measured measured{bytes, {}};
  if (!run.device) return measured;
  Words memory(bytes / 4, resident_grid(*run.device));
  std::vector<Task> tasks;
  for (const unsigned word : word_sizes)
    for (const Room room : rooms) tasks.push_back(task_of(memory, word, room));
  const std::vector<Readings> times = run.time_in_turn(tasks);
  for (size_t i = 0; i < times.size(); ++i)
    measured.times[i / std::size(rooms)][i % std::size(rooms)] = times[i];
  return measured;
}

Statistics gbs_of(const Measured& m, size_t size, Room room) {
  const unsigned word = word_sizes[size];
  return gigabytes_per_second(double(m.bytes / room_bytes(word, room)) * word,
                              m.of(size, room).statistics());
}

void show_rates(const Run& run, const Measured& m) {
  const double memory_gbs = gbs_of(m, sizes - 1, Room::side_by_side).median;
  Table table(run.report, "words",
              {predicted("sectors/request", "load sectors a request", "", 0),
               predicted("64-byte pieces", "pieces of 64 bytes a request", "", 0),
               compared("GB/s", "bandwidth", "GB/s", 0), shown("spread"), shown("")});
  for (const Room room : rooms)
    for (size_t s = 0; s < sizes; ++s) {
      const unsigned word = word_sizes[s];
      const Warp warp = word_warp(word, room);
      const Statistics gbs = gbs_of(m, s, room);
      Cell rate = Compared{predicted_gbs(word, room, memory_gbs), gbs, model_of(room, run.device)};
      if (!run.device) rate = Cell();
      if (run.device && word == calibrates && room == Room::side_by_side) rate = Calibration{gbs};
      table.row({name_of(word, room)}, {double(sectors(warp)), double(pieces(warp, memory_piece)),
                                        rate, spread_text(gbs), bar(gbs.median / memory_gbs)});
    }
  table.print();
  run.report.note("GB/s are those of the words; predicted: 64-byte pieces at the calibrated rate");
}

/// What the text states for words of 4, 8 and 16 bytes.
constexpr double stated[] = {10, 4, 2};

void show_costs(const Run& run, const Measured& m) {
  Table table(run.report, "cost of a word, in coalesced ones",
              {then("then", "cost", "x", 0), predicted("G80's rules", "cost on 1.0", "x", 1),
               predicted("by sectors", "cost by sectors", "x", 1), compared("x", "cost", "x", 2)});
  for (const Room room : {Room::sector, Room::line})
    for (size_t s = 0; s < sizes; ++s) {
      const unsigned word = word_sizes[s];
      const Interval cost = m.cost(s, room);
      const Statistics found{cost.value, cost.low, cost.high, cost.pairs};
      const Cell then = room == Room::sector ? Cell(stated[s]) : Cell();
      table.row({name_of(word, room)},
                {then, penalty(Rule::in_order, word, room), penalty(Rule::sectors, word, room),
                 Compared{cost_of_pieces(word, room), found, model_of(room, run.device)}});
    }
  table.print();
}

void judge_penalties(const Run& run, const Measured& m) {
  const bool in_cache = run.device && !beyond_l2(*run.device, double(m.bytes) / 4);
  constexpr const char* ids[] = {"03.5a", "03.5b", "03.5c"};
  for (size_t s = 0; s < sizes; ++s) {
    const std::string factor = fixed(stated[s], 0) + "x";
    const Part part{
        ids[s],
        "uncoalesced words of " + std::to_string(8 * word_sizes[s]) + " bits cost " + factor,
        "roughly " + factor + " slower", "G80", g80};
    if (in_cache) {
      run.report.not_judged(part, "the array is less than four times the L2");
      continue;
    }
    const Interval cost = m.cost(s, Room::sector);
    run.report.judge(part, beats(stated[s]), cost, slower(cost));
    const Interval alone = m.cost(s, Room::line);
    if (alone.measured())
      run.report.finding(part.id, slower(alone) + " with 128 bytes to each word alone");
  }
}

}  // namespace

void word_size(const Run& run) {
  // with 128 bytes to each word a quarter of the array's sectors move, and are beyond the L2
  const size_t bytes = bytes_to_read(run, size_t(run.quick ? 1 : 4) << 30, 1.0 / 4);
  run.report.begin("word_size", bytes_text(double(bytes)) + ": " + std::to_string(bytes / 4) +
                                    " words of 4 bytes side by side, or " +
                                    std::to_string(bytes / 128) + " with 128 bytes each");
  const Measured m = measure(run, bytes);
  show_rates(run, m);
  show_costs(run, m);
  if (!run.device) run.report.left_out("the bandwidth of each kind of read");
  judge_penalties(run, m);
}
