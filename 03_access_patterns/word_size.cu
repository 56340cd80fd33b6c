// word_size: words of 4, 8 and 16 bytes, coalesced and apart. An article of Dr. Dobb's quotes rough
// guidelines of 2008 [DD]: uncoalesced words of 32 bits take 10 times as long, of 64 bits 4 times,
// of 128 bits twice. Two things to look at:
//   - With one word every 32 bytes, as on the G80, the cost is near 8, 4 and 2: the bytes of a
//     sector divided by the bytes of the word.
//   - With one word every 128 bytes, the cost more than doubles: by default the L2 fetches 64 bytes
//     from memory for each sector (fetch.cu).
//
//   cmake -S 03_access_patterns -B build/words -DEXPERIMENTS=word_size && cmake --build build/words
//   build/words/03_access_patterns word_size
//
//   1  read4   words of 4 bytes, side by side or apart
//   2  read8   words of 8 bytes
//   3  read16  words of 16 bytes
#include "../framework/common/experiment.hpp"
#include "reads.cuh"
#include "transactions.hpp"

using namespace samples;

namespace {

// ---- kernels: thread t adds up words t, t + threads, t + 2 threads ... of n, into out[t] ----

// [read4]
// Lane i of a warp reads word i * apart. If apart is 1, the words lie side by side, in 4 sectors of
// 32 bytes. If it is 8, each lane reads a sector of its own. If it is 32, a line of its own.
__global__ void read4(unsigned* out, const unsigned* in, size_t n, size_t apart) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  unsigned sum = 0;
  size_t i = tid;
  for (; i + 3 * threads < n; i += 4 * threads) {  // four loads in flight
#pragma unroll
    for (unsigned k = 0; k < 4; ++k) sum += in[(i + k * threads) * apart];
  }
  for (; i < n; i += threads) sum += in[i * apart];  // the remaining words
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

// ---- the rows: each kernel with its words side by side, and apart ----

struct Kernel {
  std::string_view key = {};  ///< its name
  unsigned word = 4;          ///< bytes
  double then_cost = NAN;     ///< of an uncoalesced word, as the text states it
  const char* part = "";      ///< the claim that this is
  void (*read)(const Words&, size_t n, size_t apart) = nullptr;  ///< launches it
};
template <class Word>
void launch(void (*kernel)(unsigned*, const Word*, size_t, size_t), const Words& words, size_t n,
            size_t apart) {
  kernel<<<words.grid.blocks, block_threads>>>(
      words.sums.data(), reinterpret_cast<const Word*>(words.in.data()), n, apart);
}
template <auto kernel>
Kernel named(Kernel k) {
  k.key = name_of<kernel>();
  k.read = [](const Words& words, size_t n, size_t apart) { launch(kernel, words, n, apart); };
  return k;
}
const Kernel kernels[] = {
    named<read4>({.word = 4, .then_cost = 10, .part = "03.5a"}),
    named<read8>({.word = 8, .then_cost = 4, .part = "03.5b"}),
    named<read16>({.word = 16, .then_cost = 2, .part = "03.5c"}),
};

/// Bytes that a word has for itself.
enum class Room { side_by_side, sector, line };
constexpr Room rooms[] = {Room::side_by_side, Room::sector, Room::line};

unsigned room_bytes(const Kernel& k, Room room) {
  if (room == Room::side_by_side) return k.word;
  return room == Room::sector ? 32 : 128;
}
/// From one word to the next, in words.
unsigned apart(const Kernel& k, Room room) { return room_bytes(k, room) / k.word; }

std::string key_of(const Kernel& k, Room room) {
  const char* const variants[] = {"_coalesced", "_32_apart", "_128_apart"};
  return std::string(k.key) + variants[static_cast<int>(room)];
}
std::string words_of(const Kernel& k, Room room) {
  const char* const names[] = {"coalesced, ", "32 bytes each, ", "128 bytes each, "};
  return names[static_cast<int>(room)] + std::to_string(k.word) + " bytes";
}

struct Read {
  const Kernel* kernel;
  Room room;
};
Read read_of(const Ref& ref) {
  for (const Kernel& k : kernels)
    for (const Room room : rooms)
      if (ref.key == key_of(k, room)) return {&k, room};
  throw std::logic_error("no read is '" + ref.key + "'");
}

/// Right is: the first 4, 8 or 16 of so many bytes, one after the other to each thread in turn.
Task read_task(const Shared<Words>& memory, const Kernel& k, Room room) {
  const size_t bytes = room_bytes(k, room), n = memory->in.bytes() / bytes;
  return memory->task(
      key_of(k, room), [memory, &k, room, n] { k.read(*memory, n, apart(k, room)); },
      Slots{0, bytes / 4, n, k.word / 4});
}

// ---- prediction ----

Warp warp_for(const Kernel& k, Room room) {
  return warp_of(k.word, [&](unsigned lane) { return lane * apart(k, room); });
}

/// How many times the bytes move for an uncoalesced word that move for a coalesced one.
double cost_under(Rule rule, const Kernel& k, Room room) {
  return double(under(rule, warp_for(k, room)).bytes()) /
         under(rule, warp_for(k, Room::side_by_side)).bytes();
}

/// The same, if 64 bytes come from memory together.
double cost_of_pieces(const Kernel& k, Room room) {
  const double moved = double(memory_piece) * pieces(warp_for(k, room), memory_piece);
  return moved / (32.0 * k.word);
}

/// With a line for each word half of the pieces are skipped: what is left rests on their size.
Model model_of(Room room, const Device* device) {
  return room == Room::line ? model_of_pieces(device) : Model::traffic;
}

// ---- the experiment ----

/// With 128 bytes to each word a quarter of the array's sectors move: these are beyond the L2.
size_t array_bytes(const Run& run) {
  return bytes_to_read(run, size_t(run.quick ? 1 : 4) << 30, 1.0 / 4);
}

const char* const full_rate = "read16_coalesced";  // the widest words get the memory's rate

Shown of_read(Column column, double (*number_of)(const Kernel&, Room)) {
  return number(std::move(column), [number_of](const Row& row) {
    const Read read = read_of(row.ref);
    return number_of(*read.kernel, read.room);
  });
}
double sectors_of(const Kernel& k, Room room) { return sectors(warp_for(k, room)); }
double pieces_of(const Kernel& k, Room room) { return pieces(warp_for(k, room), memory_piece); }

Comparison cost_of(const Kernel& k, Room room) {
  return {.slow = key_of(k, room), .fast = key_of(k, Room::side_by_side), .per_byte = true};
}

/// What a word costs, in times of a coalesced one of its size.
void show_costs(const Run& run) {
  Table table(run.report, "cost of a word, in coalesced ones",
              {then("then", "cost", "x", 0), predicted("G80's rules", "cost on 1.0", "x", 1),
               predicted("by sectors", "cost by sectors", "x", 1), compared("x", "cost", "x", 2)});
  for (const Room room : {Room::sector, Room::line})
    for (const Kernel& k : kernels) {
      const Interval cost = ratio_of(run, cost_of(k, room));
      const Statistics found{cost.value, cost.low, cost.high, cost.pairs};
      const Cell then = room == Room::sector ? Cell(k.then_cost) : Cell();
      table.row({key_of(k, room), "", "", words_of(k, room)},
                {then, cost_under(Rule::in_order, k, room), cost_under(Rule::sectors, k, room),
                 Compared{cost_of_pieces(k, room), found, model_of(room, run.device)}});
    }
  table.print();
}

void run_word_size(const Run& run) {
  const size_t bytes = array_bytes(run);
  run.report.begin("word_size", bytes_text(double(bytes)) + ": " + std::to_string(bytes / 4) +
                                    " words of 4 bytes side by side, or " +
                                    std::to_string(bytes / 128) + " with 128 bytes each");
  SharedByTasks memory([&run, bytes] { return Words(bytes / 4, resident_grid(*run.device)); });
  Sheet sheet(
      run, "words",
      {of_read(predicted("sectors/request", "load sectors a request", "", 0), sectors_of),
       of_read(predicted("64-byte pieces", "pieces of 64 bytes a request", "", 0), pieces_of),
       gigabytes_per_second(), spread(), bar_against(run, full_rate)});
  for (const Kernel& k : kernels)
    for (const Room room : rooms)
      sheet.add({.ref = key_of(k, room),
                 .words = words_of(k, room),
                 .bytes = double(bytes / room_bytes(k, room)) * k.word,
                 .calibrates = key_of(k, room) == full_rate,
                 .model = model_of(room, run.device)});
  sheet.measure(Timing::in_turn, [&](const Row& row) {
    const Read read = read_of(row.ref);
    return read_task(memory(), *read.kernel, read.room);
  });
  // the array moves once in the calibrating row, whose words are all of its bytes
  sheet.predict([&](const Row& row) {
    const Read read = read_of(row.ref);
    const double moved = row.bytes * cost_of_pieces(*read.kernel, read.room);
    return sheet.ms(full_rate) * moved / double(bytes);
  });
  sheet.print({"GB/s are those of the words; predicted: all pieces of 64 bytes at the same rate"});
  show_costs(run);
}

// ---- claims ----

Claim cost_claim(const Kernel& k, bool in_cache) {
  const std::string factor = fixed(k.then_cost, 0) + "x";
  const std::string bits = std::to_string(8 * k.word);
  Part part{k.part, "uncoalesced words of " + bits + " bits cost " + factor,
            "roughly " + factor + " slower", "G80", g80};
  return {.part = std::move(part),
          .rule = beats(k.then_cost),
          .pairs = {cost_of(k, Room::sector)},
          .unless = in_cache ? "the array is less than four times the L2" : "",
          .found = {cost_of(k, Room::line)}};
}

std::vector<Claim> claims(const Run& run) {
  const bool in_cache = run.device && !beyond_l2(*run.device, double(array_bytes(run)) / 4);
  std::vector<Claim> all;
  for (const Kernel& k : kernels) all.push_back(cost_claim(k, in_cache));
  return all;
}

// ---- what it declares ----

Needs needs(const Run& run) {
  const double bytes = double(array_bytes(run));
  return {.allocated = bytes + 8.0 * resident_grid(*run.device).threads(), .touched = bytes / 4};
}

std::vector<Checked> tasks(size_t n) {
  std::vector<Checked> all;
  for (const Kernel& k : kernels)
    for (const Room room : rooms) {
      // n words; the array ends with their room
      const Shared memory(Words(n * room_bytes(k, room) / 4, Grid{3}));
      all.push_back({.task = read_task(memory, k, room),
                     .elements = memory->grid.threads(),
                     .change_one = [memory] { memory->change_one(); }});
    }
  return all;
}

std::vector<CountedLaunch> counted() {
  constexpr size_t bytes = size_t(16) << 20;
  const char* const how[] = {" bytes coalesced", " bytes 32 apart", " bytes apart"};
  std::vector<CountedLaunch> all;
  for (const Kernel& k : kernels)
    for (const Room room : rooms) {
      const double loads = double(bytes / room_bytes(k, room) / 32);
      all.push_back(counted_launch(
          std::string(k.key), std::to_string(k.word) + how[static_cast<int>(room)],
          {loads, loads * sectors_of(k, room)}, {}, [&k, room] {
            return read_task(Shared(Words(bytes / 4, resident_grid(Device::current()))), k, room);
          }));
    }
  return all;
}

}  // namespace

extern const Experiment word_size_experiment{
    .name = "word_size",
    .about = "words of 4, 8, 16 bytes, coalesced and each in 32 or 128 bytes of its own",
    .run = run_word_size,
    .claims = claims,
    .needs = needs,
    .tasks = tasks,
    .counted = counted};
