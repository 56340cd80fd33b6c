// pointers: a pointer in device code carries no memory space in its type; "be careful not to
// confuse the compiler", says the lecture [PR]. One `const int*` refers here to global, shared,
// local and constant storage in turn, and is read by one generic load. Four things to look at:
//   - How the program can still tell the spaces apart.
//   - How many words one address names.
//   - What a generic load costs (pointers_generic.cu).
//   - The memory that host and device both dereference [LC 4].
//
//   cmake -S 01_memory_model -B build/pointers -DEXPERIMENTS=pointers
//   cmake --build build/pointers && build/pointers/01_memory_model
//
//   1  look_everywhere  points one pointer to six places, and looks
//   2  find_windows     where the windows of the spaces begin
//   3  change           changes memory that the host has written
#include <algorithm>
#include <set>

#include "pointers.hpp"

using namespace samples;

namespace {

// ---- one pointer, six places (pointers.hpp says which word is where) ----

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
  const char *key, *name, *space;
  const char* own_load;  ///< where the compiler can see the space: in PTX, and in machine code
};
constexpr Storage storages[places] = {
    {"variable", "__device__ variable", "global", "ld.global LDG"},
    {"allocation", "cudaMalloc", "global", "ld.global LDG"},
    {"pinned", "pinned host memory", "global", "ld.global LDG"},
    {"shared_variable", "__shared__ variable", "shared", "ld.shared LDS"},
    {"thread_variable", "a thread's variable", "local", "ld.local  LDL"},
    {"constant_variable", "__constant__ variable", "constant", "ld.const  LDC"},
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

/// What a launch of 3 blocks of 64 threads saw, and the windows.
struct Seen {
  std::vector<std::vector<Sight>> sights;
  std::vector<unsigned long long> begin;
};

void show_places(const Run& run) {
  constexpr unsigned blocks = 3, threads = 64;
  Once<Seen> seen{[] { return Seen{look_and_check(blocks, threads), windows()}; }};
  Table table(run.report, "the pointer refers to",
              {shown("space"), shown("tests say"), counted("words found", "distinct words", "", 0),
               predicted("expected", "distinct words", "", 0),
               counted("addresses", "distinct addresses", "", 0), shown("address"),
               shown("window begins at"), shown("load if space is known")});
  const bool here = run.device && run.device->number >= 0;
  for (int i = 0; i < places; ++i) {
    const Storage& s = storages[i];
    const auto count_of = [&](const char* metric, auto member) {
      return ask_for_table(run, s.key, metric, "",
                           [&] { return single(different(seen().sights[i], member)); })
          .median;
    };
    const double words = count_of("distinct words", &Sight::value);
    const double addresses = count_of("distinct addresses", &Sight::address);
    Cell tests, address, window;
    if (here) {
      tests = spaces_text(seen().sights[i][0]);
      address = hex(seen().sights[i][0].address);
      window = seen().begin[i] ? hex(seen().begin[i]) : "none";
    }
    table.row({s.key, "", "", s.name},
              {s.space, tests, words, double(words_at(Place(i), blocks, threads)), addresses,
               address, window, s.own_load});
  }
  table.print();
  run.report.note(
      "words found by all threads of 3 blocks of 64, and addresses that they have for "
      "them; none: outside all windows");
}

/// Memory that a pointer comes from, and who may dereference it.
struct Side {
  const char *key, *words;
  bool host;
  const char* device;
  Function<unsigned*()> pointer;
};

void show_sides(const Run& run) {
  constexpr size_t n = 100003;
  const bool here = run.device && run.device->number >= 0;
  const DeviceBuffer<unsigned> on_device(here ? n : 0);
  const PinnedBuffer<unsigned> pinned(here ? n : 0);
  std::vector<unsigned> plain(n);
  const double everywhere = ask(run, "plain", "the device dereferences it", "", [&] {
                              return single(run.device->prop.pageableMemoryAccess);
                            }).median;
  const char* const of_plain = everywhere == 1 ? "yes" : everywhere == 0 ? "no" : "on some systems";
  const Side sides[] = {
      {"cuda_malloc", "cudaMalloc", false, "yes", [&] { return on_device.data(); }},
      {"cuda_host_alloc", "cudaHostAlloc (pinned)", true, "yes", [&] { return pinned.data(); }},
      {"plain", "new (plain)", true, of_plain, [&] { return plain.data(); }}};
  Table table(
      run.report, "a pointer from",
      {shown("type reported"), shown("host dereferences"), shown("device dereferences"),
       counted("words right", "words right", "", 0), predicted("of", "words right", "", 0)});
  for (const Side& side : sides) {
    Cell type, right, all;
    if (here) type = type_names[attributes_of(side.pointer()).type];
    if (side.device == std::string("yes")) {
      all = double(n);
      right = ask_for_table(run, side.key, "words right", "", [&] {
                const size_t words = words_right(side.pointer(), n, side.host);
                require_right(words == n, std::string("change, by a pointer from ") + side.words);
                return single(double(words));
              }).median;
    }
    table.row({side.key, "", "", side.words},
              {type, side.host ? "yes" : "no", side.device, right, all});
  }
  table.print();
  run.report.note(
      "what the host cannot dereference was written and read by copies: to try it would "
      "end the program");
  run.report.note(
      "managed memory is the other kind that both sides dereference: 05_unified_memory");
}

void run_pointers(const Run& run) {
  run.report.begin("pointers",
                   "one int by a pointer to six places in turn; rings of 61 slots and tiles of 256 "
                   "words, 1 KiB; 100003 words that both sides use, 391 KiB");
  show_places(run);
  run_generic(run);
  show_sides(run);
  if (!run.device)
    run.report.left_out("addresses, the tests' answers, cycles, and what each side reads");
}

Needs needs(const Run&) { return {.allocated = 1 << 20}; }

}  // namespace

extern const Experiment pointers_experiment{
    .name = "pointers",
    .about = "one pointer to every space, and memory that both sides dereference",
    .run = run_pointers,
    .needs = needs,
};
