// pointers: a pointer in device code carries no memory space in its type; "be careful not to
// confuse the compiler", says the lecture [PR]. One `const int*` refers here to global, shared,
// local and constant storage in turn, and is read by one generic load that fits them all. Look at
// how the program can still tell the spaces apart, at how many words one address names, at what a
// generic load costs beside the one that a space has for itself, and at the memory that host and
// device both dereference [LC 4].
//   cmake -S 01_memory_model -B build/pointers -DEXPERIMENTS=pointers
//   cmake --build build/pointers && build/pointers/01_memory_model
//
//   1  look_everywhere  points one pointer to six places, and looks
//   2  find_windows     where the windows of the spaces begin
//   3  chase_shared     one thread, one load after another, each by the space's own instruction
//   4  chase_local
//   5  chase_global
//   6  list_in_shared   the same chases along a list: its pointers say nothing of a space
//   7  list_in_local
//   8  list_in_global
//   9  sum_shared       32 warps load, each by the space's own instruction
//  10  sum_global
//  11  sum_either       9 or 10 by one pointer, as in the lecture
//  12  change           changes memory that the host has written
#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "../common/report.hpp"

namespace {

// ---- one pointer, six places ----

enum Place { in_variable, in_allocation, in_pinned, in_shared, in_local, in_constant, places };

/// The word that a thread finds at a place: shared storage has one for each block, local storage
/// one for each thread. Far enough apart that no two places share a word.
constexpr __host__ __device__ int word(Place place, unsigned block, unsigned threads,
                                       unsigned thread) {
  const int first = 100000000 * (place + 1);
  if (place == in_shared) return first + int(block);
  if (place == in_local) return first + int(block * threads + thread);
  return first;
}

__device__ int global_word = word(in_variable, 0, 0, 0);
__constant__ int constant_word = word(in_constant, 0, 0, 0);

/// What a thread learns by a pointer: where it points, what is there, and which of the four tests
/// say yes (not 0).
struct Sight {
  unsigned long long address;
  int value;
  unsigned global, shared, local, constant;
};

// [look]
// Compiled once for every kind of storage: the read is a generic load (PTX `ld`, machine code
// `LD`), which compares the address with the windows before it goes to shared memory or to L1. Even
// a constant is read through L1 this way. Not inlined, since the compiler would see each pointer's
// origin and use the space's own load.
__device__ __noinline__ Sight look(const int* p) {
  return {(unsigned long long)p, *p, __isGlobal(p), __isShared(p), __isLocal(p), __isConstant(p)};
}
// [/look]

// Every thread points one pointer to each place in turn, and looks. sights[place][thread of the
// grid].
__global__ void look_everywhere(Sight* sights, const int* allocation, const int* pinned) {
  __shared__ int shared_word;
  int local_word = word(in_local, blockIdx.x, blockDim.x, threadIdx.x);
  if (threadIdx.x == 0) shared_word = word(in_shared, blockIdx.x, blockDim.x, threadIdx.x);
  __syncthreads();
  const size_t all = size_t(gridDim.x) * blockDim.x;
  Sight* mine = sights + blockIdx.x * size_t(blockDim.x) + threadIdx.x;

  const int* p = &global_word;
  mine[in_variable * all] = look(p);
  p = allocation;
  mine[in_allocation * all] = look(p);
  p = pinned;
  mine[in_pinned * all] = look(p);
  p = &shared_word;
  mine[in_shared * all] = look(p);
  p = &local_word;
  mine[in_local * all] = look(p);
  p = &constant_word;
  mine[in_constant * all] = look(p);
}

// The generic address at which each window begins: that of offset 0. Global memory is what lies in
// no window.
__global__ void find_windows(unsigned long long* begin) {
  begin[in_shared] = reinterpret_cast<unsigned long long>(__cvta_shared_to_generic(0));
  begin[in_local] = reinterpret_cast<unsigned long long>(__cvta_local_to_generic(0));
  begin[in_constant] = reinterpret_cast<unsigned long long>(__cvta_constant_to_generic(0));
}

// ---- chases: one thread goes round a ring of slots, twice, and times the second time, when its
// instructions have been fetched. threadIdx.x is 0, but not to the compiler: a chain that it knows
// to be the same in all lanes it may give to another path. ----

constexpr unsigned slots = 61;  // few enough for L1; prime, so that every step visits them all
constexpr unsigned stride =
    17;  // from slot to slot, so that no load brings what the next one wants

// [chase_shared]
// Each word is the shared address of the next one: all that the load of shared memory takes.
__global__ void chase_shared(long long* cycles, unsigned* end, unsigned steps) {
  __shared__ unsigned ring[slots];
  const unsigned first = unsigned(__cvta_generic_to_shared(ring));
  for (unsigned slot = 0; slot < slots; ++slot) ring[slot] = first + 4 * ((slot + stride) % slots);
  unsigned at = first + 4 * threadIdx.x;
  long long start = 0;
#pragma unroll 1
  for (int round = 0; round < 2; ++round) {
    start = clock64();
#pragma unroll 8
    for (unsigned step = 0; step < steps; ++step)
      asm volatile("ld.shared.u32 %0, [%0];" : "+r"(at)::"memory");
  }
  *static_cast<volatile unsigned*>(end) = (at - first) / 4;  // waits for the last load
  *cycles = clock64() - start;
}
// [/chase_shared]

// The same in local memory, out of L1.
__global__ void chase_local(long long* cycles, unsigned* end, unsigned steps) {
  unsigned ring[slots];
  const unsigned first = unsigned(__cvta_generic_to_local(ring));
  for (unsigned slot = 0; slot < slots; ++slot) ring[slot] = first + 4 * ((slot + stride) % slots);
  unsigned at = first + 4 * threadIdx.x;
  long long start = 0;
#pragma unroll 1
  for (int round = 0; round < 2; ++round) {
    start = clock64();
#pragma unroll 8
    for (unsigned step = 0; step < steps; ++step)
      asm volatile("ld.local.u32 %0, [%0];" : "+r"(at)::"memory");
  }
  *static_cast<volatile unsigned*>(end) = (at - first) / 4;
  *cycles = clock64() - start;
}

/// An element of a list. Its pointer is a generic one, as every pointer in memory is: what it
/// refers to is known only when it has been loaded.
struct Node {
  const Node* next;
};

// The same in global memory, out of L1.
__global__ void chase_global(long long* cycles, unsigned* end, const Node* ring, unsigned steps) {
  const unsigned long long first = reinterpret_cast<unsigned long long>(ring);
  unsigned long long at = first + sizeof(Node) * threadIdx.x;
  long long start = 0;
#pragma unroll 1
  for (int round = 0; round < 2; ++round) {
    start = clock64();
#pragma unroll 8
    for (unsigned step = 0; step < steps; ++step)
      asm volatile("ld.global.u64 %0, [%0];" : "+l"(at)::"memory");
  }
  *static_cast<volatile unsigned*>(end) = unsigned((at - first) / sizeof(Node));
  *cycles = clock64() - start;
}

// [list_in_shared]
// A list whose elements lie in shared memory. Nobody tells the compiler, and so it takes the load
// that fits all spaces.
__global__ void list_in_shared(long long* cycles, unsigned* end, unsigned steps) {
  __shared__ Node ring[slots];
  for (unsigned slot = 0; slot < slots; ++slot) ring[slot].next = &ring[(slot + stride) % slots];
  const Node* at = &ring[threadIdx.x];
  long long start = 0;
#pragma unroll 1
  for (int round = 0; round < 2; ++round) {
    start = clock64();
#pragma unroll 8
    for (unsigned step = 0; step < steps; ++step) at = at->next;
  }
  *static_cast<volatile unsigned*>(end) = unsigned(at - ring);
  *cycles = clock64() - start;
}
// [/list_in_shared]

// The same list in a thread's own memory.
__global__ void list_in_local(long long* cycles, unsigned* end, unsigned steps) {
  Node ring[slots];
  for (unsigned slot = 0; slot < slots; ++slot) ring[slot].next = &ring[(slot + stride) % slots];
  const Node* at = &ring[threadIdx.x];
  long long start = 0;
#pragma unroll 1
  for (int round = 0; round < 2; ++round) {
    start = clock64();
#pragma unroll 8
    for (unsigned step = 0; step < steps; ++step) at = at->next;
  }
  *static_cast<volatile unsigned*>(end) = unsigned(at - ring);
  *cycles = clock64() - start;
}

// And in global memory.
__global__ void list_in_global(long long* cycles, unsigned* end, const Node* ring, unsigned steps) {
  const Node* at = &ring[threadIdx.x];
  long long start = 0;
#pragma unroll 1
  for (int round = 0; round < 2; ++round) {
    start = clock64();
#pragma unroll 8
    for (unsigned step = 0; step < steps; ++step) at = at->next;
  }
  *static_cast<volatile unsigned*>(end) = unsigned(at - ring);
  *cycles = clock64() - start;
}

// ---- sums: one block, alone on its multiprocessor. At each load a warp reads 32 neighbours, one
// line of 128 bytes; eight loads a turn are under way at once ----

constexpr unsigned loads_a_turn = 8;
constexpr unsigned tile_words = 32 * loads_a_turn;
constexpr unsigned sum_threads = 1024;  // 32 warps: there is always one whose load is due

// The tile in shared memory. The compiler sees where p points, and takes the load of that space.
__global__ void sum_shared(unsigned* sums, long long* cycles, const unsigned* words,
                           unsigned turns) {
  __shared__ unsigned tile[tile_words];
  for (unsigned i = threadIdx.x; i < tile_words; i += blockDim.x) tile[i] = words[i];
  __syncthreads();
  const unsigned* p = tile;
  unsigned sum = 0;
  const long long start = clock64();
#pragma unroll 1
  for (unsigned turn = 0; turn < turns; ++turn) {
    __syncwarp();  // another lane could have stored: the same words have to be loaded again
#pragma unroll
    for (unsigned load = 0; load < loads_a_turn; ++load) sum += p[32 * load + threadIdx.x % 32];
  }
  sums[threadIdx.x] = sum;
  __syncthreads();  // waits for the last warp
  if (threadIdx.x == 0) *cycles = clock64() - start;
}

// The same words in global memory, out of L1.
__global__ void sum_global(unsigned* sums, long long* cycles, const unsigned* words,
                           unsigned turns) {
  const unsigned* p = words;
  unsigned sum = 0;
  const long long start = clock64();
#pragma unroll 1
  for (unsigned turn = 0; turn < turns; ++turn) {
    __syncwarp();
#pragma unroll
    for (unsigned load = 0; load < loads_a_turn; ++load) sum += p[32 * load + threadIdx.x % 32];
  }
  sums[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x == 0) *cycles = clock64() - start;
}

// [sum_either]
// As in the lecture: p is one or the other, and the compiler cannot know which.
__global__ void sum_either(unsigned* sums, long long* cycles, const unsigned* words, unsigned turns,
                           bool something) {
  __shared__ unsigned tile[tile_words];
  for (unsigned i = threadIdx.x; i < tile_words; i += blockDim.x) tile[i] = words[i];
  __syncthreads();
  const unsigned* p;
  if (something)
    p = tile;
  else
    p = words;
  unsigned sum = 0;
  const long long start = clock64();
#pragma unroll 1
  for (unsigned turn = 0; turn < turns; ++turn) {
    __syncwarp();
#pragma unroll
    for (unsigned load = 0; load < loads_a_turn; ++load) sum += p[32 * load + threadIdx.x % 32];
  }
  sums[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x == 0) *cycles = clock64() - start;
}
// [/sum_either]

// ---- memory of both sides ----

// Each warp reads and writes 32 neighbouring words, wherever they lie, and steps on by the whole
// grid.
__global__ void change(unsigned* p, size_t n) {
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += threads)
    p[i] = 3 * p[i] + unsigned(i);
}

// ---- what is right, of the six places ----

struct Storage {
  const char *name, *space;
  const char* own_load;  ///< where the compiler can see the space: in PTX, and in machine code
};
constexpr Storage storages[places] = {
    {"__device__ variable", "global", "ld.global LDG"},
    {"cudaMalloc", "global", "ld.global LDG"},
    {"pinned host memory", "global", "ld.global LDG"},
    {"__shared__ variable", "shared", "ld.shared LDS"},
    {"a thread's variable", "local", "ld.local  LDL"},
    {"__constant__ variable", "constant", "ld.const  LDC"},
};

/// How many different words the one address names in a launch.
constexpr size_t words_at(Place place, unsigned blocks, unsigned threads) {
  if (place == in_shared) return blocks;
  return place == in_local ? size_t(blocks) * threads : 1;
}

std::vector<unsigned long long> windows() {
  DeviceBuffer<unsigned long long> begin(std::vector<unsigned long long>(places, 0));
  find_windows<<<1, 1>>>(begin.data());
  CUDA_CHECK_LAUNCH();
  return begin.to_host();
}

/// The spaces whose tests said yes, by name.
std::string spaces_text(const Sight& s) {
  std::string text;
  if (s.global) text += ", global";
  if (s.shared) text += ", shared";
  if (s.local) text += ", local";
  if (s.constant) text += ", constant";
  return text.empty() ? "none" : text.substr(2);
}

/// Every thread's sights, a vector for each place. Throws unless each word and each space is the
/// one that has to be there.
std::vector<std::vector<Sight>> look_and_check(unsigned blocks, unsigned threads) {
  const size_t all = size_t(blocks) * threads;
  const DeviceBuffer<int> allocation(std::vector<int>{word(in_allocation, 0, 0, 0)});
  PinnedBuffer<int> pinned(1);
  pinned[0] = word(in_pinned, 0, 0, 0);
  DeviceBuffer<Sight> out(places * all);
  out.poison();
  look_everywhere<<<blocks, threads>>>(out.data(), allocation.data(), pinned.data());
  CUDA_CHECK_LAUNCH();
  const std::vector<Sight> sights = out.to_host();
  std::vector<std::vector<Sight>> of_place(places);
  for (size_t i = 0; i < sights.size(); ++i) {
    const Place place = Place(i / all);
    const unsigned t = unsigned(i % all);
    const bool right = sights[i].value == word(place, t / threads, threads, t % threads) &&
                       spaces_text(sights[i]) == storages[place].space;
    require_right(right, std::string(storages[place].name) +
                             ": the word there, or the space that the tests name");
    of_place[place].push_back(sights[i]);
  }
  return of_place;
}

/// How many different values a member has among the threads.
template <class T>
double different(const std::vector<Sight>& sights, T Sight::*member) {
  std::set<T> found;
  for (const Sight& s : sights) found.insert(s.*member);
  return double(found.size());
}

std::string hex(unsigned long long value) {
  char text[24];
  std::snprintf(text, sizeof text, "%#llx", value);
  return text;
}

// ---- the price of a generic load: what is launched, and what is right ----

/// Where the slots of the ring in global memory lie.
struct Ring {
  DeviceBuffer<Node> nodes{slots};

  Ring() {
    std::vector<Node> linked;
    for (unsigned slot = 0; slot < slots; ++slot)
      linked.push_back({nodes.data() + (slot + stride) % slots});
    nodes.copy_from(linked);
  }
};

enum Space { shared_space, local_space, global_space, spaces };

struct Chase {
  Space space;
  bool generic;
  const char* name;
  void (*launch)(long long* cycles, unsigned* end, const Ring& ring, unsigned steps);
};

const Chase chases[] = {
    {shared_space, false, "shared, its own load",
     [](long long* cycles, unsigned* end, const Ring&, unsigned steps) {
       chase_shared<<<1, 1>>>(cycles, end, steps);
     }},
    {shared_space, true, "shared, a generic load",
     [](long long* cycles, unsigned* end, const Ring&, unsigned steps) {
       list_in_shared<<<1, 1>>>(cycles, end, steps);
     }},
    {local_space, false, "local, its own load",
     [](long long* cycles, unsigned* end, const Ring&, unsigned steps) {
       chase_local<<<1, 1>>>(cycles, end, steps);
     }},
    {local_space, true, "local, a generic load",
     [](long long* cycles, unsigned* end, const Ring&, unsigned steps) {
       list_in_local<<<1, 1>>>(cycles, end, steps);
     }},
    {global_space, false, "global, its own load",
     [](long long* cycles, unsigned* end, const Ring& ring, unsigned steps) {
       chase_global<<<1, 1>>>(cycles, end, ring.nodes.data(), steps);
     }},
    {global_space, true, "global, a generic load",
     [](long long* cycles, unsigned* end, const Ring& ring, unsigned steps) {
       list_in_global<<<1, 1>>>(cycles, end, ring.nodes.data(), steps);
     }},
};

/// The slot at which a chase ends, from slot 0: it takes all its steps twice.
unsigned expected_end(unsigned steps) {
  unsigned slot = 0;
  for (unsigned step = 0; step < 2 * steps; ++step) {
    slot += stride;
    if (slot >= slots) slot -= slots;
  }
  return slot;
}

/// Cycles of so many launches of a chase, each of whose ends is checked.
std::vector<double> chase_cycles(const Chase& chase, unsigned steps, unsigned launches) {
  const Ring ring;
  DeviceBuffer<long long> cycles(launches);
  DeviceBuffer<unsigned> ends(launches);
  cycles.poison();
  ends.poison();
  for (unsigned i = 0; i < launches; ++i)
    chase.launch(cycles.data() + i, ends.data() + i, ring, steps);
  CUDA_CHECK_LAUNCH();
  for (const unsigned end : ends.to_host())
    require_right(end == expected_end(steps), std::string(chase.name) + ": where the chase ended");
  std::vector<double> each;
  for (const long long c : cycles.to_host()) {
    require_right(c > 0, std::string(chase.name) + ": cycles");
    each.push_back(double(c));
  }
  return each;
}

/// A word without pattern.
unsigned tile_word(unsigned i) { return (i + 1) * 2654435769u; }

std::vector<unsigned> tile() {
  std::vector<unsigned> words;
  for (unsigned i = 0; i < tile_words; ++i) words.push_back(tile_word(i));
  return words;
}

/// What threads find. Every turn a lane reads its column of the tile.
std::vector<unsigned> expected_sums(unsigned threads, unsigned turns) {
  std::vector<unsigned> column(32, 0), sums;
  for (unsigned i = 0; i < tile_words; ++i) column[i % 32] += tile_word(i);
  for (unsigned thread = 0; thread < threads; ++thread) sums.push_back(turns * column[thread % 32]);
  return sums;
}

struct Sum {
  Space space;
  bool generic;
  void (*launch)(unsigned threads, unsigned* sums, long long* cycles, const unsigned* words,
                 unsigned turns);
};

const Sum sum_kernels[] = {
    {shared_space, false,
     [](unsigned threads, unsigned* sums, long long* cycles, const unsigned* words,
        unsigned turns) { sum_shared<<<1, threads>>>(sums, cycles, words, turns); }},
    {shared_space, true,
     [](unsigned threads, unsigned* sums, long long* cycles, const unsigned* words,
        unsigned turns) { sum_either<<<1, threads>>>(sums, cycles, words, turns, true); }},
    {global_space, false,
     [](unsigned threads, unsigned* sums, long long* cycles, const unsigned* words,
        unsigned turns) { sum_global<<<1, threads>>>(sums, cycles, words, turns); }},
    {global_space, true,
     [](unsigned threads, unsigned* sums, long long* cycles, const unsigned* words,
        unsigned turns) { sum_either<<<1, threads>>>(sums, cycles, words, turns, false); }},
};

/// The one of a row of chases; null: local memory, which other lanes' words would lie between.
const Sum* sum_of(const Chase& chase) {
  for (const Sum& sum : sum_kernels)
    if (sum.space == chase.space && sum.generic == chase.generic) return &sum;
  return nullptr;
}

/// Cycles of a launch, whose every sum is checked; canaries stand behind the sums.
double sum_cycles(const Sum& sum, unsigned threads, unsigned turns) {
  constexpr size_t canaries = 32;
  const DeviceBuffer<unsigned> words(tile());
  DeviceBuffer<unsigned> sums(threads + canaries);
  DeviceBuffer<long long> cycles(1);
  sums.poison();
  cycles.poison();
  sum.launch(threads, sums.data(), cycles.data(), words.data(), turns);
  CUDA_CHECK_LAUNCH();
  std::vector<unsigned> right = expected_sums(threads, turns);
  right.resize(sums.size(), ~0u);
  require_right(sums.to_host() == right, "sums by pointers");
  const double found = double(cycles.to_host()[0]);
  require_right(found > 0, "sums by pointers: cycles");
  return found;
}

// ---- what to expect ----

/// Cycles that a load waits for the one before, from those of the spaces' own loads: a generic one
/// takes L1's way, whatever it finds at its end, and is no faster than the space.
double predicted_latency(Space space, const double (&own)[spaces]) {
  return std::max(own[space], own[global_space]);
}

/// Cycles that a warp's load keeps its path busy: 32 neighbours are one wavefront, in shared memory
/// and in L1, and comparing the address with the windows takes none.
constexpr double predicted_cycles = 1;

// ---- memory of both sides: what is right ----

unsigned written(size_t i) { return unsigned(i) * 2654435761u + 97; }
unsigned changed(size_t i) { return written(i) + written(i) + written(i) + unsigned(i); }

/// The host writes, the device changes, the host reads, all by `p` where the host may dereference
/// it, else through copies. How many of the n words are right in the end.
size_t words_right(unsigned* p, size_t n, bool host_dereferences) {
  std::vector<unsigned> copy(host_dereferences ? 0 : n);
  unsigned* host = host_dereferences ? p : copy.data();
  for (size_t i = 0; i < n; ++i) host[i] = written(i);
  if (!host_dereferences) CUDA_CHECK(cudaMemcpy(p, host, n * sizeof *p, cudaMemcpyHostToDevice));
  change<<<unsigned(std::min<size_t>((n + 255) / 256, 128)), 256>>>(p, n);
  CUDA_CHECK_LAUNCH();
  CUDA_CHECK(cudaDeviceSynchronize());  // the launch returned long before: only now may it read
  if (!host_dereferences) CUDA_CHECK(cudaMemcpy(host, p, n * sizeof *p, cudaMemcpyDeviceToHost));
  size_t right = 0;
  for (size_t i = 0; i < n; ++i) right += host[i] == changed(i);
  return right;
}

cudaPointerAttributes attributes_of(const void* p) {
  cudaPointerAttributes attributes{};
  CUDA_CHECK(cudaPointerGetAttributes(&attributes, p));
  return attributes;
}
constexpr const char* type_names[] = {"unregistered", "host", "device",
                                      "managed"};  // as cudaMemoryType counts them

// ---- the experiment ----

void show_places(const Run& run) {
  constexpr unsigned blocks = 3, threads = 64;
  Table table(run.report, "the pointer refers to",
              {shown("space"), shown("tests say"), counted("words found", "distinct words", "", 0),
               predicted("expected", "distinct words", "", 0),
               counted("addresses", "distinct addresses", "", 0), shown("address"),
               shown("window begins at"), shown("load if space is known")});
  std::vector<std::vector<Sight>> sights(places);
  std::vector<unsigned long long> begin;
  if (run.device) {
    sights = look_and_check(blocks, threads);
    begin = windows();
  }
  for (int i = 0; i < places; ++i) {
    Cell tests, words, addresses, address, window;
    if (run.device) {
      const Sight& s = sights[i][0];
      tests = spaces_text(s);
      words = different(sights[i], &Sight::value);
      addresses = different(sights[i], &Sight::address);
      address = hex(s.address);
      window = begin[i] ? hex(begin[i]) : "none";
    }
    table.row({storages[i].name},
              {storages[i].space, tests, words, double(words_at(Place(i), blocks, threads)),
               addresses, address, window, storages[i].own_load});
  }
  table.print();
  run.report.note(
      "words found by all threads of 3 blocks of 64, and addresses that they have for "
      "them; none: outside all windows");
}

/// Cycles a step of a chase, and a load of a warp while all 32 warps load. Nothing without a GPU.
Statistics latency_of(const Run& run, const Chase& chase) {
  constexpr unsigned steps = 1024;  // beside which start and end hardly count
  if (!run.device) return {};
  const unsigned launches = unsigned(run.measuring.repeats);
  return scaled(summarize(chase_cycles(chase, steps, launches)), 1.0 / steps);
}

Statistics cycles_a_load(const Run& run, const Sum& sum) {
  constexpr unsigned turns = 256;  // beside which the first load of each word hardly counts
  if (!run.device) return {};
  const double loads = double(sum_threads / 32) * turns * loads_a_turn;
  std::vector<double> each;
  for (int i = 0; i < run.measuring.repeats; ++i)
    each.push_back(sum_cycles(sum, sum_threads, turns) / loads);
  return summarize(each);
}

/// A wavefront a cycle is documented of shared memory; the rest was found on 9.0.
Model model_of(const Run& run, const Sum& sum) {
  const bool documented = sum.space == shared_space && !sum.generic;
  return documented || (run.device && run.device->prop.major == 9) ? Model::traffic : Model::host;
}

void show_price(const Run& run) {
  Table table(run.report, "a load from",
              {compared("cycles, one by one", "latency", "cycles", 1),
               compared("cycles a warp, 32 warps", "cycles a load of a warp", "cycles", 2)});
  Statistics latency[std::size(chases)];
  double own[spaces] = {NAN, NAN, NAN};
  for (size_t i = 0; i < std::size(chases); ++i) {
    latency[i] = latency_of(run, chases[i]);
    if (!chases[i].generic) own[chases[i].space] = latency[i].median;
  }
  for (size_t i = 0; i < std::size(chases); ++i) {
    const Chase& chase = chases[i];
    Cell one_by_one = Calibration{latency[i]};
    if (chase.generic)
      one_by_one = Compared{predicted_latency(chase.space, own), latency[i], Model::latency};
    Cell all_warps;
    if (const Sum* sum = sum_of(chase))
      all_warps = Compared{predicted_cycles, cycles_a_load(run, *sum), model_of(run, *sum)};
    table.row({chase.name}, {one_by_one, all_warps});
  }
  table.print();
  run.report.note(
      "all out of L1 where it is not shared memory; calibration: the spaces' own loads");
}

void show_sides(const Run& run) {
  const size_t n = 100003;
  DeviceBuffer<unsigned> on_device(run.device ? n : 0);
  PinnedBuffer<unsigned> pinned(run.device ? n : 0);
  std::vector<unsigned> plain(n);
  Table table(
      run.report, "a pointer from",
      {shown("type reported"), shown("host dereferences"), shown("device dereferences"),
       counted("words right", "words right", "", 0), predicted("of", "words right", "", 0)});
  const auto row = [&](const std::string& name, unsigned* p, bool host, const std::string& device) {
    Cell type, right, all;
    if (device == "yes") all = double(n);
    if (run.device) type = type_names[attributes_of(p).type];
    if (run.device && device == "yes") {
      require_right(words_right(p, n, host) == n, "change, by a pointer from " + name);
      right = double(n);
    }
    table.row({name}, {type, host ? "yes" : "no", device, right, all});
  };
  row("cudaMalloc", on_device.data(), false, "yes");
  row("cudaHostAlloc (pinned)", pinned.data(), true, "yes");
  const bool pageable = run.device && run.device->prop.pageableMemoryAccess;
  row("new (plain)", plain.data(), true,
      !run.device ? "on some systems" : (pageable ? "yes" : "no"));
  table.print();
  run.report.note(
      "what the host cannot dereference was written and read by copies: to try it would "
      "end the program");
  run.report.note(
      "managed memory is the other kind that both sides dereference: 05_unified_memory");
}

}  // namespace

void pointers(const Run& run) {
  run.report.begin("pointers",
                   "one int by a pointer to six places in turn; rings of 61 slots and tiles of 256 "
                   "words, 1 KiB; 100003 words that both sides use, 391 KiB");
  show_places(run);
  show_price(run);
  show_sides(run);
  if (!run.device)
    run.report.left_out("addresses, the tests' answers, cycles, and what each side reads");
}

// ---- self-checks ----

TEST_CASE("pointers: the words of no two places are alike") {
  const unsigned blocks = 257, threads = 31;
  std::set<int> seen;
  size_t expected = 0;
  for (Place place : {in_variable, in_allocation, in_pinned, in_shared, in_local, in_constant}) {
    for (unsigned i = 0; i < blocks * threads; ++i)
      seen.insert(word(place, i / threads, threads, i % threads));
    CHECK(seen.size() == (expected += words_at(place, blocks, threads)));
  }
}

TEST_CASE("pointers: spaces as text") {
  CHECK(spaces_text({0, 0, 1, 0, 0, 0}) == "global");
  CHECK(spaces_text({0, 0, 0, 1, 1, 1}) == "shared, local, constant");
  CHECK(spaces_text({0, 0, 0, 0, 0, 0}) == "none");
}

TEST_CASE("pointers: every thread reads its own word and finds its space") {
  if (skip_without_gpu()) return;
  for (unsigned blocks : {1u, 3u, 1009u})
    for (unsigned threads : {1u, 31u, 64u, 257u}) {
      const auto sights =
          look_and_check(blocks, threads);  // throws where a word or a space is another
      for (int i = 0; i < places; ++i) {
        CAPTURE(storages[i].name);
        CHECK(different(sights[i], &Sight::value) == double(words_at(Place(i), blocks, threads)));
      }
    }
}

TEST_CASE("pointers: an address lies in the window of its space") {
  if (skip_without_gpu()) return;
  const std::vector<unsigned long long> begin = windows();
  const auto sights = look_and_check(2, 32);
  const auto address = [&](Place place) { return sights[place][0].address; };
  const cudaDeviceProp p = Device::current().prop;
  CHECK(address(in_shared) - begin[in_shared] <
        p.sharedMemPerBlockOptin + p.reservedSharedMemPerBlock);
  CHECK(address(in_constant) - begin[in_constant] < p.totalConstMem);
  CHECK(address(in_local) >= begin[in_local]);  // no call says where that window ends
  CHECK(begin[in_shared] != begin[in_local]);
  void* variable = nullptr;
  CUDA_CHECK(cudaGetSymbolAddress(&variable, global_word));
  CHECK(address(in_variable) == reinterpret_cast<unsigned long long>(variable));
}

TEST_CASE("pointers: change alters every word") {
  // 3 x + i = x has one solution i, which no array here reaches: a kernel that does nothing gets no
  // word right
  size_t unchanged = 0;
  for (size_t i = 0; i < 1000003; ++i) unchanged += changed(i) == written(i);
  CHECK(unchanged == 0);
}

TEST_CASE("pointers: a chase visits every slot, and a sum reads every word of its column") {
  CHECK(expected_end(0) == 0);
  CHECK(expected_end(1) == 34);
  CHECK(expected_end(2) == 7);
  CHECK(expected_end(61) == 0);
  std::set<unsigned> ends;
  for (unsigned steps = 0; steps < slots; ++steps) ends.insert(expected_end(steps));
  CHECK(ends.size() == slots);
  unsigned column = 0;
  for (unsigned i = 5; i < tile_words; i += 32) column += tile_word(i);
  CHECK(expected_sums(70, 3)[5] == 3 * column);
  CHECK(expected_sums(70, 3)[69] == 3 * column);
}

TEST_CASE("pointers: a generic load takes L1's way, or the space's own where that is longer") {
  const double own[spaces] = {23, 40, 32};
  CHECK(predicted_latency(shared_space, own) == 32);
  CHECK(predicted_latency(local_space, own) == 40);
  CHECK(predicted_latency(global_space, own) == 32);
  for (const Chase& chase : chases)
    CHECK((sum_of(chase) != nullptr) == (chase.space != local_space));
}

TEST_CASE("pointers: every chase ends where it must, and takes its time") {
  if (skip_without_gpu()) return;
  for (const Chase& chase : chases)
    for (const unsigned steps : {1u, 7u, 31u, 61u, 1009u}) {
      CAPTURE(chase.name);
      CAPTURE(steps);
      for (const double cycles : chase_cycles(chase, steps, 3))  // throws where an end is wrong
        CHECK(cycles > steps);
    }
}

TEST_CASE("pointers: every sum is right, in blocks of every size") {
  if (skip_without_gpu()) return;
  for (const Sum& sum : sum_kernels)
    for (const unsigned threads : {1u, 31u, 97u, sum_threads})
      for (const unsigned turns : {1u, 3u, 17u}) {
        CAPTURE(threads);
        CHECK(sum_cycles(sum, threads, turns) > 0);  // throws where a sum is wrong
      }
}

TEST_CASE("pointers: host and device change one pinned array by one pointer") {
  if (skip_without_gpu()) return;
  for (size_t n : {1, 31, 257, 1009, 65537, 1000003}) {
    CAPTURE(n);
    const PinnedBuffer<unsigned> pinned(n);
    const DeviceBuffer<unsigned> on_device(n);
    CHECK(words_right(pinned.data(), n, true) == n);
    CHECK(words_right(on_device.data(), n, false) == n);
    CHECK(attributes_of(pinned.data()).devicePointer == pinned.data());
  }
}

TEST_CASE("pointers: the runtime tells the kinds of memory apart") {
  if (skip_without_gpu()) return;
  const DeviceBuffer<int> on_device(3);
  const PinnedBuffer<int> pinned(3);
  const std::vector<int> plain(3);
  CHECK(attributes_of(on_device.data() + 1).type == cudaMemoryTypeDevice);
  CHECK(attributes_of(on_device.data()).devicePointer == on_device.data());
  CHECK(attributes_of(pinned.data()).type == cudaMemoryTypeHost);
  CHECK(attributes_of(pinned.data()).hostPointer == pinned.data());
  CHECK(attributes_of(plain.data()).type == cudaMemoryTypeUnregistered);
}

TEST_CASE("plausible: pointers" * doctest::skip()) {
  check_plausible([](const Run& run) { pointers(run); });
}
