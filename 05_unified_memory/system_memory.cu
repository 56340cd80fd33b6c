// system_memory: does a kernel need managed memory at all? The lecture calls memory "only virtually
// unified" [PR]. On some systems all of the host's memory is unified: a kernel reads what malloc
// gave, or a file that mmap mapped, by the host's pointer. The CUDA Programming Guide has names for
// what a system can do; the first line says which one this is. The text makes no claim.
//
// Look at the first pass, whose pages lie where the host wrote them, and at the second. Is it as
// fast as device memory? Then the driver has moved the pages. Where the table has no such row, a
// kernel that reads memory of malloc ends with an illegal address: ask for the attribute before.
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o system_memory system_memory.cu ../common/*.cpp
//
//   1  sum_words  each thread adds up words of the array
#include <malloc.h>
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <memory>

#include "../common/arrays.cuh"
#include "../common/sample.hpp"

namespace {

constexpr unsigned threads = 256, blocks = 256;

// A warp reads 32 neighbouring words, and moves on by all threads of the grid.
__global__ void sum_words(unsigned* sums, const unsigned* x, size_t n) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  unsigned sum = 0;
  for (size_t i = tid; i < n; i += gridDim.x * size_t(blockDim.x)) sum += x[i];
  sums[tid] = sum;
}

/// The paradigm of unified memory, by the attributes of a device (the guide's section 2.4).
std::string paradigm(bool managed, bool concurrent, bool pageable, bool host_page_tables) {
  if (!managed) return "no unified memory";
  if (!concurrent) return "limited unified memory support (Windows, WSL, Tegra)";
  if (!pageable) return "full support for explicit managed memory allocations only";
  if (!host_page_tables) return "full support for all allocations, software coherence (HMM)";
  return "full support for all allocations, hardware coherence (ATS)";
}

// ---- four kinds of memory, which the host has written ----

using Words = std::shared_ptr<unsigned>;  ///< the last owner gives the memory back

void write(unsigned* words, size_t n) {
  for (size_t i = 0; i < n; ++i) words[i] = hash(i);
}

Words of_malloc(size_t n) {
  auto* words = static_cast<unsigned*>(std::malloc(n * sizeof(unsigned)));
  if (!words) throw std::runtime_error("out of host memory");
  write(words, n);
  const auto give_back = [](unsigned* p) {
    std::free(p);
    malloc_trim(0);  // else the next malloc may get the same pages, and they may have moved
  };
  return {words, give_back};
}

Words of_file(size_t n) {
  const size_t bytes = n * sizeof(unsigned);
  const Words words = of_malloc(n);
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::tmpfile(), std::fclose);
  if (!file || std::fwrite(words.get(), 1, bytes, file.get()) != bytes || std::fflush(file.get()))
    throw std::runtime_error("a temporary file cannot be written");
  void* mapped = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, fileno(file.get()), 0);
  if (mapped == MAP_FAILED) throw std::runtime_error("a temporary file cannot be mapped");
  return {static_cast<unsigned*>(mapped), [bytes](unsigned* p) { munmap(p, bytes); }};
}

Words of_managed(size_t n) {
  unsigned* words = nullptr;
  CUDA_CHECK(cudaMallocManaged(&words, n * sizeof(unsigned)));
  write(words, n);
  return {words, cudaFree};
}

Words of_device(size_t n) {
  const Words words = of_malloc(n);
  unsigned* copy = nullptr;
  CUDA_CHECK(cudaMalloc(&copy, n * sizeof(unsigned)));
  CUDA_CHECK(cudaMemcpy(copy, words.get(), n * sizeof(unsigned), cudaMemcpyHostToDevice));
  return {copy, cudaFree};
}

struct Kind {
  std::string name;
  Words (*allocate)(size_t n);
  bool pageable = false;
  bool readable(const cudaDeviceProp& gpu) const {
    if (pageable) return gpu.pageableMemoryAccess;
    return allocate != of_managed || gpu.managedMemory;
  }
};
const Kind kinds[] = {{"malloc", of_malloc, true},
                      {"mmapped file", of_file, true},
                      {"managed", of_managed},
                      {"cudaMalloc", of_device}};

// ---- the experiment ----

/// What each thread adds up, of n words.
std::vector<unsigned> sums_of_words(size_t n) {
  std::vector<unsigned> sums(blocks * threads, 0);
  for (size_t i = 0; i < n; ++i) sums[i % sums.size()] += hash(i);
  return sums;
}

/// A kernel's passes over n words.
struct Passes {
  size_t n;
  std::vector<unsigned> right = sums_of_words(n);
  GuardedBuffer<unsigned> sums{blocks * threads};
  DeviceBuffer<char> other{2 * size_t(current_gpu().l2CacheSize) + 1};  ///< fills the L2

  void pass(const Words& words) const {
    sum_words<<<blocks, threads>>>(sums, words.get(), n);
    CUDA_CHECK_LAUNCH();
    CUDA_CHECK(cudaDeviceSynchronize());
  }
  std::string find_error() const {
    const std::vector<unsigned> found = sums.to_host();
    const auto value = [this](size_t i) { return right[i]; };
    const std::string error = find_mismatch_on_host(found.data(), found.size(), value);
    return error.empty() ? guard_error(sums) : error;
  }
};

/// The first or the second pass over new memory. `passes` must outlive it.
Benchmark passing(const Kind& kind, bool second, const Passes& passes) {
  const auto words = std::make_shared<Words>();
  const auto before = [words, &kind, second, &passes] {
    words->reset();
    *words = kind.allocate(passes.n);
    if (second) passes.pass(*words);
    CUDA_CHECK(cudaMemset(passes.other, 0, passes.other.bytes()));
    CUDA_CHECK(cudaDeviceSynchronize());
  };
  return {.name = kind.name + (second ? ", second" : ", first"),
          .work = [words, &passes] { passes.pass(*words); },
          .check = {[&passes] { passes.sums.poison(); }, [&passes] { return passes.find_error(); }},
          .on_host = true,
          .before = before};
}

}  // namespace

void system_memory(Run& run) {
  const Passes passes{size_t(1) << (run.quick ? 19 : 21)};
  const double bytes = double(passes.n) * sizeof(unsigned);
  const cudaDeviceProp& gpu = run.gpu;
  run.title("a kernel adds up " + bytes_text(bytes) + " that the host wrote");
  run.note("this machine: " + paradigm(gpu.managedMemory, gpu.concurrentManagedAccess,
                                       gpu.pageableMemoryAccess,
                                       gpu.pageableMemoryAccessUsesHostPageTables));
  std::vector<Benchmark> benchmarks;
  for (const Kind& kind : kinds)
    for (const bool second : {false, true})
      if (kind.readable(gpu)) benchmarks.push_back(passing(kind, second, passes));
  const Timings timed = run.timer.with_fresh_memory([&] { return benchmarks; }, 2);

  Table table("memory", {"first pass, ms", "first, GB/s", "second pass, ms", "second, GB/s"});
  for (const Kind& kind : kinds) {
    if (!kind.readable(gpu)) {
      table.missing(kind.name, "a kernel cannot read it here");
      continue;
    }
    const Times& first = timed[kind.name + ", first"];
    const Times& second = timed[kind.name + ", second"];
    table.row(kind.name, {first.ms_interval(), first.gbs_interval(bytes), second.ms_interval(),
                          second.gbs_interval(bytes)});
  }
  run.print(table);
  if (!gpu.pageableMemoryAccess)
    run.note(
        "cudaDevAttrPageableMemoryAccess is 0: neither the driver (HMM) nor hardware (ATS) does "
        "it");
  run.note("before each pass other data fill the L2; a time includes the launch and the waiting");
}
SAMPLE(9, system_memory, "memory of malloc and a mapped file, read by a kernel");

TEST_CASE("system_memory: the paradigms, by hand") {
  CHECK(paradigm(true, true, true, true).ends_with("(ATS)"));               // a GH200
  CHECK(paradigm(true, true, true, false).ends_with("(HMM)"));              // open kernel modules
  CHECK(paradigm(true, true, false, false).ends_with("allocations only"));  // Linux without
  CHECK(paradigm(true, false, false, false).starts_with("limited"));        // Windows
  CHECK(paradigm(true, false, true, true).starts_with("limited"));          // a Tegra
  CHECK(paradigm(false, false, false, false) == "no unified memory");
}

TEST_CASE("system_memory: each thread's sum, by hand") {
  constexpr size_t all = blocks * threads;
  const std::vector<unsigned> sums = sums_of_words(all + 1);
  CHECK(sums[0] == hash(0) + hash(all));
  CHECK(sums[1] == hash(1));
  CHECK(sums_of_words(1)[1] == 0);
}

TEST_CASE("system_memory: memory of malloc and a mapped file hold the words") {
  for (const Kind& kind : kinds)
    for (const size_t n : {1, 1009, 100003})
      if (kind.pageable)
        CHECK(find_mismatch_on_host(kind.allocate(n).get(), n, [](size_t i) { return hash(i); }) ==
              "");
}

/// Both passes over this memory are right, and a missing one is noticed.
static void check_passes(const Kind& kind) {
  for (const size_t n : {1, 1009, 65537, 1000003}) {
    CAPTURE(kind.name);
    CAPTURE(n);
    const Passes passes{n};
    CHECK(passes.find_error() != "");
    for (const bool second : {false, true}) require_right(passing(kind, second, passes));
  }
}

TEST_CASE("system_memory: a kernel adds up managed memory and that of cudaMalloc") {
  if (skip_without_gpu()) return;
  for (const Kind& kind : kinds)
    if (!kind.pageable && kind.readable(current_gpu())) check_passes(kind);
}

TEST_CASE("system_memory: a kernel adds up memory of malloc and a mapped file") {
  if (skip_without_gpu()) return;
  if (!current_gpu().pageableMemoryAccess) return skip("a kernel cannot read pageable memory here");
  for (const Kind& kind : kinds)
    if (kind.pageable) check_passes(kind);
}
