// allocation: what does it cost to take memory and to give it back? The wiki calls both expensive,
// and says: reuse [LC 2]. Each iteration takes memory, sets some of it, waits, and gives it back.
//
// cudaMalloc maps memory in pieces of 2 MiB. cudaMallocAsync takes it from a pool, which returns
// what is free whenever a stream is waited for, unless it is told to keep it. Look at the pool's
// last row beside cudaMalloc's.
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o allocation allocation.cu ../common/*.cpp
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <memory>

#include "../common/arrays.cuh"
#include "../common/sample.hpp"
#include "host.hpp"

namespace {

using Byte = unsigned char;
constexpr Byte mark = 0x5a;
constexpr cudaStream_t stream = nullptr;  // the default stream

// ---- an iteration ----

/// Sets up to 4 KiB, and waits.
void use(Byte* memory, size_t bytes) {
  CUDA_CHECK(cudaMemsetAsync(memory, mark, std::min(bytes, size_t(4096)), stream));
  CUDA_CHECK(cudaStreamSynchronize(stream));
}

void use_from_cuda_malloc(size_t bytes) {
  Byte* memory = nullptr;
  CUDA_CHECK(cudaMalloc(&memory, bytes));
  use(memory, bytes);
  CUDA_CHECK(cudaFree(memory));
}

void use_pinned(size_t bytes) {
  Byte* memory = nullptr;
  CUDA_CHECK(cudaMallocHost(&memory, bytes));
  use(memory, bytes);
  CUDA_CHECK(cudaFreeHost(memory));
}

void use_from_pool(size_t bytes) {
  Byte* memory = nullptr;
  CUDA_CHECK(cudaMallocAsync(&memory, bytes, stream));
  use(memory, bytes);
  CUDA_CHECK(cudaFreeAsync(memory, stream));
  CUDA_CHECK(cudaStreamSynchronize(stream));  // only now is the memory free
}

bool there_are_pools() {
  int device = 0, pools = 0;
  CUDA_CHECK(cudaGetDevice(&device));
  CUDA_CHECK(cudaDeviceGetAttribute(&pools, cudaDevAttrMemoryPoolsSupported, device));
  return pools != 0;
}

/// How many free bytes the device's pool keeps: 0 unless a program says more.
void let_pool_keep(uint64_t bytes) {
  int device = 0;
  cudaMemPool_t pool = nullptr;
  CUDA_CHECK(cudaGetDevice(&device));
  CUDA_CHECK(cudaDeviceGetDefaultMemPool(&pool, device));
  CUDA_CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &bytes));
}

// ---- the experiment ----

constexpr size_t most_pinned = 16 * MiB;  // pinning more takes long, and says nothing new

void compare_sizes(Run& run, const std::vector<size_t>& sizes) {
  Timer timer = run.timer;
  timer.rounds = 12;
  const auto iteration = [](const char* name, const std::function<void()>& work) {
    return Benchmark{.name = name, .work = work, .on_host = true};
  };
  Table table("us per iteration",
              {"reused", "cudaMalloc", "pool", "pool that keeps", "cudaMallocHost"});
  const std::string refused = refusal([] { use_pinned(4 * KiB); });
  for (const size_t n : sizes) {
    const bool pins = n <= most_pinned && refused.empty();
    // whole pieces: of half a one cudaMalloc would take the rest, and map nothing
    const DeviceBuffer<Byte> kept((n + 2 * MiB - 1) / (2 * MiB) * 2 * MiB);
    std::vector<Benchmark> benchmarks = {iteration("reused", [=] { use(kept, n); }),
                                         iteration("cudaMalloc", [=] { use_from_cuda_malloc(n); })};
    if (pins) benchmarks.push_back(iteration("cudaMallocHost", [=] { use_pinned(n); }));
    if (there_are_pools()) benchmarks.push_back(iteration("pool", [=] { use_from_pool(n); }));
    const Timings timed = timer.interleaved(benchmarks);
    const auto us = [&timed](const char* name) { return Cell(timed[name].us_interval()); };
    Cell keeping = "no pools";
    if (there_are_pools()) {
      let_pool_keep(UINT64_MAX);
      keeping = timer.alone(benchmarks.back()).us_interval();
      let_pool_keep(0);
    }
    table.row(bytes_text(double(n)),
              {us("reused"), us("cudaMalloc"), there_are_pools() ? us("pool") : Cell("no pools"),
               keeping, pins ? us("cudaMallocHost") : Cell("-")});
  }
  run.print(table);
  run.note("pool: it gives what is free back to the system at each wait, and must map it again");
  run.note("-: not measured, " + (refused.empty() ? "pinning takes too long" : refused));
}

// ---- what pinning costs ----

/// Pages that nobody has touched: the system finds and zeroes each when it is touched.
std::shared_ptr<Byte> untouched(size_t bytes) {
  void* const data =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) throw std::bad_alloc();
  return {static_cast<Byte*>(data), [bytes](Byte* p) { munmap(p, bytes); }};
}

void touch(Byte* memory, size_t bytes) {
  constexpr size_t page = 4 * KiB;
  for (size_t i = 0; i < bytes; i += page) static_cast<volatile Byte*>(memory)[i] = mark;
}

void pin_and_unpin(Byte* memory, size_t bytes) {
  CUDA_CHECK(cudaHostRegister(memory, bytes, cudaHostRegisterDefault));
  CUDA_CHECK(cudaHostUnregister(memory));
}

/// Are new pages what cudaMallocHost takes its time for? Then it costs what registering costs, and
/// what new pages cost.
void take_pinning_apart(Run& run) {
  constexpr size_t n = most_pinned;
  Table table("pinning " + bytes_text(double(n)), {"ms", "predicted", "spread"});
  const char *registering = "register pages that are there", *touching = "touch new pages",
             *both = "register new pages", *anew = "cudaMallocHost";
  const auto kept = untouched(n);
  touch(kept.get(), n);
  const auto by_cuda = [] {
    Byte* memory = nullptr;
    CUDA_CHECK(cudaMallocHost(&memory, n));
    CUDA_CHECK(cudaFreeHost(memory));
  };
  const auto refused = refusal([=] {
    pin_and_unpin(kept.get(), n);
    by_cuda();
  });
  if (!refused.empty()) {
    table.missing("pinning", refused);
    return run.print(table);
  }
  Timer timer = run.timer;
  timer.rounds = 12;
  const Timings timed = timer.interleaved(
      {{.name = registering, .work = [=] { pin_and_unpin(kept.get(), n); }, .on_host = true},
       {.name = touching, .work = [] { touch(untouched(n).get(), n); }, .on_host = true},
       {.name = both, .work = [] { pin_and_unpin(untouched(n).get(), n); }, .on_host = true},
       {.name = anew, .work = by_cuda, .on_host = true}});
  const double sum = timed[registering].median() + timed[touching].median();
  for (const char* name : {registering, touching, both, anew})
    table.row(name, {timed[name].ms_interval(), name == both || name == anew ? Cell(sum) : Cell(""),
                     percent(timed[name].spread())});
  run.print(table);
  run.note("each row takes what it needs, and gives it back; predicted: the sum of the first two");
}

// ---- giving back, setting, and the claim ----

/// Memory is given back while 100 uses of it are queued. cudaFree waits until they have ended.
/// cudaFreeAsync joins the queue behind them, and the host goes on.
void give_back_in_use(Run& run) {
  constexpr size_t n = 64 * MiB;
  Byte* memory = nullptr;
  Table table("given back in use", {"us", "spread"});
  const auto add_row = [&](const char* name, const auto& take, const auto& give_back) {
    const auto take_and_use = [&] {
      CUDA_CHECK(cudaDeviceSynchronize());  // cudaFreeAsync has left work in the queue
      take();
      for (int i = 0; i < 100; ++i) CUDA_CHECK(cudaMemsetAsync(memory, mark, n, stream));
    };
    const Times times =
        run.timer.alone({.name = name, .work = give_back, .on_host = true, .before = take_and_use});
    table.row(name, {1e3 * times.median(), percent(times.spread())});
  };
  add_row(
      "cudaFree", [&] { CUDA_CHECK(cudaMalloc(&memory, n)); },
      [&] { CUDA_CHECK(cudaFree(memory)); });
  if (there_are_pools())
    add_row(
        "cudaFreeAsync", [&] { CUDA_CHECK(cudaMallocAsync(&memory, n, stream)); },
        [&] { CUDA_CHECK(cudaFreeAsync(memory, stream)); });
  CUDA_CHECK(cudaMalloc(&memory, n));
  add_row(
      "only waiting", [] {}, [] { CUDA_CHECK(cudaStreamSynchronize(stream)); });
  CUDA_CHECK(cudaFree(memory));
  run.print(table);
}

void set_memory(Run& run, const std::vector<size_t>& sizes) {
  Table table("cudaMemset", {"us", "GB/s", "spread"});
  for (const size_t n : sizes) {
    const GuardedBuffer<Byte> out(n);
    const Times times = run.timer.alone(
        {.name = "cudaMemset",
         .work = [=] { CUDA_CHECK(cudaMemsetAsync(out, mark, out.size(), stream)); },
         .check = equals(out, [] __device__(size_t) { return mark; })});
    table.row(bytes_text(n), {1e3 * times.median(), times.gbs(double(n)), percent(times.spread())});
  }
  run.print(table);
}

void judge_reuse(Run& run) {
  const auto uses = [] {
    const DeviceBuffer<Byte> kept(2 * MiB);  // a whole piece
    return std::vector<Benchmark>{
        {.name = "cudaMalloc and cudaFree",
         .work = [] { use_from_cuda_malloc(MiB); },
         .on_host = true},
        {.name = "reuse", .work = [kept] { use(kept, MiB); }, .on_host = true}};
  };
  const Timings timed = run.timer.with_fresh_memory(uses);
  run.claim({"02.1", "allocating and freeing device memory is expensive: reuse it",
             "[LC 2] \"expensive operations\""},
            timed.speedup({.of = "reuse", .over = "cudaMalloc and cudaFree"}), faster());
}

}  // namespace

void allocation(Run& run) {
  const size_t largest = run.fitting((run.quick ? 256 : 1024) * MiB, 2);
  run.title("an iteration takes memory, sets up to 4 KiB of it, waits, and gives it back");
  const std::vector<size_t> sizes = {256, MiB, 16 * MiB, 64 * MiB, largest};
  compare_sizes(run, sizes);
  take_pinning_apart(run);
  give_back_in_use(run);
  set_memory(run, sizes);
  judge_reuse(run);
}
SAMPLE(2, allocation, "taking memory in the loop, reusing it, a pool");

TEST_CASE("allocation: one byte of each new page is touched") {
  const size_t pages = 3, n = pages * 4 * KiB;
  const auto memory = untouched(n);
  touch(memory.get(), n);
  CHECK(std::count(memory.get(), memory.get() + n, mark) == pages);
  CHECK(std::count(memory.get(), memory.get() + n, 0) == n - pages);
  CHECK(memory.get()[n - 4 * KiB] == mark);
}

TEST_CASE("allocation: an iteration sets what it should, and nothing behind it") {
  if (skip_without_gpu()) return;
  for (const size_t n : {1, 255, 4095, 4096, 5000}) {
    CAPTURE(n);
    const GuardedBuffer<Byte> memory(n);  // 0xff
    use(memory, n);
    const size_t set = std::min(n, size_t(4096));
    CHECK(find_mismatch(memory, [=] __device__(size_t i) { return i < set ? mark : Byte(0xff); }) ==
          "");
  }
}
