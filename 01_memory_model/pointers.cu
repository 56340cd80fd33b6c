// pointers: to what can a pointer point? To anything, say the lectures, but its type does not say in
// which memory that is: "be careful not to confuse the compiler" [PR: CUDA qualifiers summary]. Here
// one `const int*` points to six places in turn. The wiki knows one memory that host and device both
// dereference: pinned memory [LC 1].
//
// Look at the addresses: shared and local memory have windows of their own among all addresses. What
// lies in neither is global memory, and so is a constant: only its name is read through the constant
// caches. Then at how many words one address names.
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o pointers pointers.cu ../common/*.cpp
//
//   1  my_kernel  the lectures' name: points ptr1 to each place, and looks
//   2  change     changes memory that the host has written
#include <cstdio>
#include <set>

#include "../common/arrays.cuh"
#include "../common/sample.hpp"

namespace {

enum Place { in_variable, in_allocation, in_pinned, in_shared, in_local, in_constant, places };

/// The word that a thread must find: one for all threads, one per block, or one per thread.
__host__ __device__ constexpr int word(Place place, unsigned block, unsigned threads,
                                       unsigned thread) {
  if (place == in_shared) return 1000 + int(block);
  if (place == in_local) return 1000000 + int(block * threads + thread);
  return 100 + place;
}

__device__ int my_global = word(in_variable, 0, 0, 0);
__constant__ int my_constant = word(in_constant, 0, 0, 0);

/// What a thread learns by a pointer: where it points, what is there, and which of the four tests
/// say yes (not 0).
struct Sight {
  unsigned long long address;
  int value;
  unsigned global, shared, local, constant;
};

// Compiled once for all places: *p is a generic load, which compares the address with both windows
// before it goes to shared memory or to L1. (Inlined, the compiler would see where each pointer comes
// from, and use the space's own load.) Constants have no window: __isConstant compares the address
// with where they lie in global memory, and *p reads them as it reads global memory.
__device__ __noinline__ Sight look(const int* p) {
  return {(unsigned long long)p, *p, __isGlobal(p), __isShared(p), __isLocal(p), __isConstant(p)};
}

// Every thread points ptr1 to each place, and looks. sights[place][thread of the grid].
__global__ void my_kernel(Sight* sights, const int* allocation, const int* pinned) {
  __shared__ int my_shared;
  int my_local = word(in_local, blockIdx.x, blockDim.x, threadIdx.x);
  if (threadIdx.x == 0) my_shared = word(in_shared, blockIdx.x, blockDim.x, 0);
  __syncthreads();
  const size_t all = size_t(gridDim.x) * blockDim.x;
  Sight* mine = sights + blockIdx.x * size_t(blockDim.x) + threadIdx.x;

  const int* ptr1 = &my_global;
  mine[in_variable * all] = look(ptr1);
  ptr1 = allocation;
  mine[in_allocation * all] = look(ptr1);
  ptr1 = pinned;
  mine[in_pinned * all] = look(ptr1);
  ptr1 = &my_shared;
  mine[in_shared * all] = look(ptr1);
  ptr1 = &my_local;
  mine[in_local * all] = look(ptr1);
  ptr1 = &my_constant;
  mine[in_constant * all] = look(ptr1);
}

// Each warp reads and writes 32 neighbouring words, wherever they lie.
__global__ void change(unsigned* p, size_t n) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < n) p[i] = 3 * p[i] + unsigned(i);
}

// ---- six places ----

struct Storage {
  const char *name, *space;
  const char* own_load;  ///< where the compiler can see the space, in PTX
};
constexpr Storage storages[places] = {
    {"a __device__ variable", "global", "ld.global"},
    {"memory of cudaMalloc", "global", "ld.global"},
    {"memory of cudaMallocHost", "global", "ld.global"},
    {"a __shared__ variable", "shared", "ld.shared"},
    {"a thread's variable", "local", "ld.local"},
    {"a __constant__ variable", "constant", "ld.const"},
};

std::string spaces_text(const Sight& s) {
  std::string text;
  if (s.global) text += ", global";
  if (s.shared) text += ", shared";
  if (s.local) text += ", local";
  if (s.constant) text += ", constant";
  return text.empty() ? "none" : text.substr(2);
}

/// Every thread's sights, of each place. Throws WrongResult unless each word and each space is the
/// one that has to be there.
std::vector<std::vector<Sight>> sights_of(unsigned blocks, unsigned threads) {
  const size_t all = size_t(blocks) * threads;
  const DeviceBuffer<int> allocation(std::vector<int>{word(in_allocation, 0, 0, 0)});
  const PinnedBuffer<int> pinned(1);
  *pinned.data() = word(in_pinned, 0, 0, 0);
  const GuardedBuffer<Sight> out(places * all);
  my_kernel<<<blocks, threads>>>(out, allocation, pinned);
  CUDA_CHECK_LAUNCH();
  const std::vector<Sight> sights = out.to_host();
  std::vector<std::vector<Sight>> of_place(places);
  for (size_t i = 0; i < sights.size(); ++i) {
    const Place place = Place(i / all);
    const unsigned thread = unsigned(i % all);
    if (sights[i].value != word(place, thread / threads, threads, thread % threads) ||
        spaces_text(sights[i]) != storages[place].space)
      throw WrongResult(std::string(storages[place].name) + ": another word, or another space");
    of_place[place].push_back(sights[i]);
  }
  if (const std::string error = guard_error(out); !error.empty()) throw WrongResult(error);
  return of_place;
}

template <class T>
size_t different(const std::vector<Sight>& sights, T Sight::*member) {
  std::set<T> found;
  for (const Sight& s : sights) found.insert(s.*member);
  return found.size();
}

std::string hex(unsigned long long value) {
  char text[24];
  std::snprintf(text, sizeof text, "%#llx", value);
  return text;
}

// ---- memory of both sides ----

/// The host writes, the device changes, the host reads, all by the same pointer.
std::string change_by_both(unsigned* p, size_t n) {
  for (size_t i = 0; i < n; ++i) p[i] = hash(i);
  change<<<unsigned(ceil_div(n, 256)), 256>>>(p, n);
  CUDA_CHECK_LAUNCH();
  CUDA_CHECK(cudaDeviceSynchronize());  // the launch returned long before: only now may it read
  return find_mismatch_on_host(p, n, [](size_t i) { return 3 * hash(i) + unsigned(i); });
}

std::shared_ptr<unsigned> managed_memory(size_t n) {
  unsigned* p = nullptr;
  CUDA_CHECK(cudaMallocManaged(&p, n * sizeof *p));
  return {p, [](unsigned* memory) { cudaFree(memory); }};
}

const char* type_of(const void* p) {
  cudaPointerAttributes attributes{};
  CUDA_CHECK(cudaPointerGetAttributes(&attributes, p));
  const char* const names[] = {"unregistered", "host", "device", "managed"};
  return names[attributes.type];  // as cudaMemoryType counts them
}

}  // namespace

void pointers(Run& run) {
  run.title("one pointer to six places, read by one load; 3 blocks of 64 threads");
  const auto sights = sights_of(3, 64);
  Table table("ptr1 points to", {"tests say", "addresses", "words", "address", "own load"});
  for (int i = 0; i < places; ++i) {
    const std::vector<Sight>& seen = sights[size_t(i)];
    table.row(storages[i].name,
              {spaces_text(seen[0]), different(seen, &Sight::address),
               different(seen, &Sight::value), hex(seen[0].address), storages[i].own_load});
  }
  run.print(table);
  run.note("addresses, words: how many different ones all threads have seen; address: one of them");
  run.note("own load: in PTX, where the compiler sees the space; here one generic load reads all");
  run.note("a constant lies in global memory: through ptr1 it is read as such");
  run.note(
      "one address names a word per block in shared memory, a word per thread in local memory");

  constexpr size_t n = 100003;
  const DeviceBuffer<unsigned> on_device(n);
  const PinnedBuffer<unsigned> pinned(n);
  std::vector<unsigned> plain(n);
  Table sides("a pointer from", {"its type", "host dereferences", "device dereferences"});
  const auto tried = [&](const char* name, unsigned* p) {
    if (const std::string error = change_by_both(p, n); !error.empty())
      throw WrongResult(name + (": " + error));
    sides.row(name, {type_of(p), "yes, tried", "yes, tried"});
  };
  sides.row("cudaMalloc", {type_of(on_device), "no", "yes"});
  tried("cudaMallocHost (pinned)", pinned);
  if (run.gpu.managedMemory)
    tried("cudaMallocManaged", managed_memory(n).get());
  else
    sides.missing("cudaMallocManaged", "no managed memory");
  if (run.gpu.pageableMemoryAccess)
    tried("new, malloc", plain.data());
  else
    sides.row("new, malloc", {type_of(plain.data()), "yes", "no"});
  run.print(sides);
  run.observed({"01.16", "pinned memory is the only memory that host and device dereference",
                "[LC 1] \"There is a single exception\""},
               !run.gpu.managedMemory && !run.gpu.pageableMemoryAccess,
               run.gpu.managedMemory          ? "managed memory is another, tried"
               : run.gpu.pageableMemoryAccess ? "memory of malloc is another, tried"
                                              : "this GPU has neither managed nor pageable access");
}
SAMPLE(3, pointers, "one pointer to global, shared, local and pinned memory");

TEST_CASE("pointers: spaces as text") {
  CHECK(spaces_text({0, 0, 1, 0, 0, 0}) == "global");
  CHECK(spaces_text({0, 0, 0, 1, 1, 1}) == "shared, local, constant");
  CHECK(spaces_text({0, 0, 0, 0, 0, 0}) == "none");
}

TEST_CASE("pointers: every thread reads its own word and finds its space") {
  if (skip_without_gpu()) return;
  for (const unsigned blocks : {1u, 3u, 1009u})
    for (const unsigned threads : {1u, 31u, 257u}) {
      const auto sights = sights_of(blocks, threads);  // throws where one is another
      const auto words = [&](Place place) { return different(sights[place], &Sight::value); };
      CHECK(words(in_variable) == 1);
      CHECK(words(in_shared) == blocks);
      CHECK(words(in_local) == size_t(blocks) * threads);
    }
}

TEST_CASE("pointers: host and device change one array by one pointer") {
  if (skip_without_gpu()) return;
  const bool managed = current_gpu().managedMemory;
  for (const size_t n : {1, 31, 1009, 100003}) {
    CHECK(change_by_both(PinnedBuffer<unsigned>(n), n) == "");
    if (managed) CHECK(change_by_both(managed_memory(n).get(), n) == "");
  }
}
