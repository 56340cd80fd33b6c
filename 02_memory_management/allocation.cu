// allocation: what it costs to take memory and to give it back, by kind and size. The wiki calls
// both expensive, and says: reuse [LC 2]. Each iteration here takes memory, sets some of it, waits,
// and gives it back. Two things to look at:
//   - The time of an iteration beside that of one buffer that is kept, and how it grows in steps:
//     memory is taken in pieces of 2 or 32 MiB.
//   - The pool, which today keeps memory for the program, if it is told to.
//
//   cmake -S 02_memory_management -B build/allocation -DEXPERIMENTS=allocation
//   cmake --build build/allocation && build/allocation/02_memory_management
//
//   1  reused            one buffer: nothing is taken
//   2  cuda_malloc       cudaMalloc and cudaFree, in each iteration
//   3  cuda_malloc_host  pinned memory of the host
//   4  pool_threshold_0  what is free goes back whenever a stream is waited for
//   5  pool_keeping      what is free stays in the pool
#include <algorithm>
#include <cstdint>

#include "../framework/common/checked.cuh"
#include "../framework/common/experiment.hpp"
#include "host_memory.hpp"

using namespace samples;

namespace {

using Byte = unsigned char;
constexpr size_t mib = 1 << 20;
constexpr int mark = 0x5a;
constexpr size_t used_bytes = 4096;  // that an iteration sets, or all if there are fewer

// ---- taking and giving back ----

/// cudaMalloc; an error names the bytes that were asked for and those that were there.
void* allocate(size_t bytes) {
  void* data = nullptr;
  const cudaError_t code = cudaMalloc(&data, bytes);
  if (code == cudaSuccess) return data;
  cudaGetLastError();  // thrown here, and not to be found again by the next check
  const std::string sizes =
      bytes_text(double(bytes)) + " where " + bytes_text(double(Device::free_bytes()));
  throw CudaError(code, "cudaMalloc of " + sizes + " are free", __FILE__, __LINE__);
}

/// A pool of the device's memory with a release threshold.
class Pool {
 public:
  // [pool]
  explicit Pool(uint64_t threshold) {
    cudaMemPoolProps props{};
    props.allocType = cudaMemAllocationTypePinned;
    props.location.type = cudaMemLocationTypeDevice;
    CUDA_CHECK(cudaGetDevice(&props.location.id));
    CUDA_CHECK(cudaMemPoolCreate(&pool_, &props));
    CUDA_CHECK(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &threshold));
  }
  // [/pool]
  Pool(Pool&& other) noexcept : pool_(std::exchange(other.pool_, nullptr)) {}
  ~Pool() {
    if (pool_) cudaMemPoolDestroy(pool_);
  }
  operator cudaMemPool_t() const { return pool_; }

  /// Bytes of the device that it holds, handed out or not.
  uint64_t reserved() const {
    uint64_t bytes = 0;
    CUDA_CHECK(cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrReservedMemCurrent, &bytes));
    return bytes;
  }

 private:
  cudaMemPool_t pool_ = nullptr;
};

/// Takes memory of one kind, and gives it back.
struct Allocator {
  Shared<Stream> stream;
  Function<void*(size_t bytes)> take;
  Function<void(void*)> give_back;
  Function<uint64_t()> reserved = {};  ///< of a pool: waiting is then part of giving back

  void wait() const { stream->wait(); }
};

Allocator reusing(size_t largest) {
  const Shared kept(DeviceBuffer<Byte>{largest});
  return {Shared(Stream()), [kept](size_t) { return (void*)kept->data(); }, [](void*) {}};
}
Allocator malloc_and_free(size_t) {
  return {Shared(Stream()), allocate, [](void* data) { CUDA_CHECK(cudaFree(data)); }};
}
Allocator pinning(size_t) {
  const auto pin = [](size_t bytes) {
    void* data = nullptr;
    CUDA_CHECK(cudaMallocHost(&data, bytes));
    return data;
  };
  return {Shared(Stream()), pin, [](void* data) { CUDA_CHECK(cudaFreeHost(data)); }};
}
template <uint64_t threshold>  // that of the device's own pool, left alone, is 0
Allocator from_pool(size_t) {
  const Shared pool{Pool(threshold)};
  const Shared stream{Stream()};
  const auto take = [pool, stream](size_t bytes) {
    void* data = nullptr;
    CUDA_CHECK(cudaMallocFromPoolAsync(&data, bytes, *pool, *stream));
    return data;
  };
  return {stream, take, [stream](void* data) { CUDA_CHECK(cudaFreeAsync(data, *stream)); },
          [pool] { return pool->reserved(); }};
}

/// A kind of memory.
struct Kind {
  std::string_view key = {};
  const char* words = "";
  bool is_pool = false;
  double piece = INFINITY;  ///< bytes that are taken from the system at once
  Allocator (*make)(size_t largest) = nullptr;
};
const Kind kinds[] = {
    {.key = "reused", .words = "one buffer, reused", .make = reusing},
    {.key = "cuda_malloc", .words = "cudaMalloc", .piece = 2 * mib, .make = malloc_and_free},
    {.key = "cuda_malloc_host", .words = "cudaMallocHost", .piece = 2 * mib, .make = pinning},
    {.key = "pool_threshold_0",
     .words = "pool, threshold 0",
     .is_pool = true,
     .piece = 32 * mib,
     .make = from_pool<0>},
    {.key = "pool_keeping",
     .words = "pool that keeps all",
     .is_pool = true,
     .make = from_pool<UINT64_MAX>},
};

// ---- an iteration ----

void use(void* data, size_t bytes, cudaStream_t stream) {
  CUDA_CHECK(cudaMemsetAsync(data, mark, std::min(bytes, used_bytes), stream));
}

void give_back(const Allocator& a, void* data) {
  a.give_back(data);
  if (a.reserved) a.wait();
}

// [iteration]
void iterate(const Allocator& a, size_t bytes) {
  void* const data = a.take(bytes);
  use(data, bytes, *a.stream);
  a.wait();
  give_back(a, data);
}
// [/iteration]

/// Bytes that are not as they were set, in memory that is poisoned before it is used.
size_t wrong_in_iteration(const Allocator& a, size_t bytes) {
  void* const data = a.take(bytes);
  CUDA_CHECK(cudaMemsetAsync(data, 0xff, bytes, *a.stream));
  use(data, bytes, *a.stream);
  a.wait();
  std::vector<Byte> seen(std::min(bytes, used_bytes));
  CUDA_CHECK(cudaMemcpy(seen.data(), data, seen.size(), cudaMemcpyDefault));
  give_back(a, data);
  return seen.size() - size_t(std::count(seen.begin(), seen.end(), mark));
}

Task iteration(const Ref& ref, const Allocator& a, size_t bytes) {
  return {text(ref),
          [a, bytes] { iterate(a, bytes); },
          {[] {}, [a, bytes] { return wrong_in_iteration(a, bytes); }, ""},  // it poisons itself
          true};
}

/// Uses of the memory are queued; what is timed is giving it back, or only waiting for the work.
Task behind_work(const Ref& ref, const Allocator& a, bool only_waits = false) {
  constexpr size_t bytes = 64 * mib;
  constexpr int uses = 100;  // some 2 ms of work
  const Shared taken(static_cast<void*>(nullptr));
  const auto timed = [a, taken, only_waits] { only_waits ? a.wait() : a.give_back(*taken); };
  Task task{text(ref), timed, unchecked("nothing is computed"), true};
  task.enter = [a, taken] {
    *taken = a.take(bytes);
    for (int i = 0; i < uses; ++i) CUDA_CHECK(cudaMemsetAsync(*taken, mark, bytes, *a.stream));
  };
  task.leave = [a, taken, only_waits] {
    cudaStreamSynchronize(*a.stream);
    if (only_waits) a.give_back(*taken);
  };
  return task;
}

// ---- prediction ----

/// Memory is taken in pieces. An iteration takes so long with one piece, and so much longer for
/// each further one, which is mapped and unmapped. The sizes of the pieces were found here: with
/// them the steps of an H200's and an H100's rows are those of the model.
double iteration_ms(const Kind& kind, double bytes, double first_ms, double large,
                    double large_ms) {
  const auto further = [&kind](double n) { return std::max(1.0, std::ceil(n / kind.piece)) - 1; };
  if (further(large) == 0) return first_ms;
  return first_ms + (large_ms - first_ms) * further(bytes) / further(large);
}

// ---- the experiment ----

constexpr size_t judged_bytes = mib;  // a working buffer; smaller ones come out of larger pieces

/// Bytes that are held at once where so many are the most: by the buffer that is kept, by the pool
/// that keeps all, and by two arrays for cudaMemset and the copy beside it.
double bytes_held(size_t largest) { return 4.0 * double(largest); }

std::vector<size_t> sizes_of(const Run& run) {
  std::vector<size_t> sizes{256, 4 << 10, 64 << 10, judged_bytes, 16 * mib};
  for (const size_t n : {64 * mib, 256 * mib, 1024 * mib})
    if (!run.quick && bytes_held(n) <= 0.9 * run.memory_there()) sizes.push_back(n);
  return sizes;
}

/// Pinning a GiB may take half a second.
std::vector<size_t> sizes_of(const Run& run, const Kind& kind) {
  std::vector<size_t> sizes = sizes_of(run);
  const double most = kind.make == pinning ? std::min(pinnable_bytes(run), 64.0 * mib) : INFINITY;
  std::erase_if(sizes, [most](size_t bytes) { return double(bytes) > most; });
  return sizes;
}

/// Why there are no pools; empty if there are.
std::string why_no_pools(const Run& run) {
  const Statistics there = ask(run, "pool_keeping", "supported", "", [] {
    int device = 0, pools = 0;
    CUDA_CHECK(cudaGetDevice(&device));
    CUDA_CHECK(cudaDeviceGetAttribute(&pools, cudaDevAttrMemoryPoolsSupported, device));
    return single(pools);
  });
  return there.median == 0 ? "this device has no pools" : "";
}

Shown microseconds(Column column) {
  return in_unit(std::move(column), [](const Row&, double ms) { return 1e3 * ms; });
}

/// Iterations of all kinds and sizes.
void measure_sizes(const Run& run, const std::string& no_pools) {
  Sheet sheet(run, "memory, bytes", {microseconds(compared("us", "iteration", "us", 1)), spread()},
              "bytes");
  const double largest = double(sizes_of(run).back());
  for (const Kind& kind : kinds)
    for (const size_t bytes : sizes_of(run, kind)) {
      const bool last = bytes == sizes_of(run, kind).back() && std::isfinite(kind.piece);
      sheet.add({.ref = {kind.key, double(bytes)},
                 .words = std::string(kind.words) + ", " + bytes_text(double(bytes)),
                 .calibrates = bytes == judged_bytes || last,
                 .model = Model::host,
                 .missing = kind.is_pool ? no_pools : ""});
    }
  sheet.measure(Timing::alone, [&](const Row& row) {
    return iteration(row.ref, with_key(kinds, row.ref)->make(size_t(largest)), size_t(row.ref.at));
  });
  sheet.predict(
      [&](const Row& row) {
        const Kind& kind = *with_key(kinds, row.ref);
        const double last = double(sizes_of(run, kind).back());
        return iteration_ms(kind, row.ref.at, sheet.ms({kind.key, double(judged_bytes)}), last,
                            sheet.ms({kind.key, last}));
      },
      Basis::fitted);
  sheet.print({"the model: as with 1 MiB, and the largest size's cost for each further piece",
               "cudaMalloc and cudaMallocHost take pieces of 2 MiB, a pool of 32 MiB"});
}

/// Giving back behind queued work. cudaFree waits for it; a pool notes when the memory will be
/// free.
void measure_behind_work(const Run& run, const std::string& no_pools) {
  Sheet sheet(run, "given back behind queued work",
              {microseconds(compared("us", "give back", "us", 1)), spread()});
  sheet.add({.ref = "queued_work", .words = "waiting for the work", .calibrates = true});
  sheet.add(
      {.ref = "cuda_malloc_behind_work", .words = "cudaMalloc, behind work", .model = Model::host});
  sheet.add({.ref = "pool_keeping_behind_work",
             .words = "pool that keeps all, behind work",
             .missing = no_pools});
  sheet.measure(Timing::in_turn, [&](const Row& row) {
    const bool pool = row.ref.key == "pool_keeping_behind_work";
    return behind_work(row.ref, pool ? from_pool<UINT64_MAX>(0) : malloc_and_free(0),
                       row.ref.key == "queued_work");
  });
  sheet.predict([&](const Row& row) {
    return row.ref.key == "cuda_malloc_behind_work" ? sheet.ms("queued_work") : double(NAN);
  });
  sheet.print();
}

// ---- cudaMemset and cudaMemcpy ----

/// Byte i of what is copied; never 0xff, of which a poisoned array consists.
struct Original {
  __device__ Byte operator()(size_t i) const { return Byte(scrambled(i) % 0xff); }
  __device__ bool operator()(size_t i, Byte found) const { return found == (*this)(i); }
};
/// The first n bytes are set, and no others.
struct Marked {
  size_t n;
  __device__ bool operator()(size_t i, Byte found) const { return found == (i < n ? mark : 0xff); }
};

Task memset_task(const Shared<Output<Byte>>& to, const Ref& ref) {
  const size_t n = size_t(ref.at);
  return {text(ref), [to, n] { CUDA_CHECK(cudaMemsetAsync(to->data(), mark, n)); },
          to->check(Marked{n})};
}
Task memcpy_task(const Shared<Output<Byte>>& to, const Ref& ref) {
  const Shared from(filled<Byte>(to->size(), Original{}));
  const auto launch = [to, from] {
    CUDA_CHECK(cudaMemcpyAsync(to->data(), from->data(), to->size(), cudaMemcpyDeviceToDevice));
  };
  return {text(ref), launch, to->check(Original{})};
}

void measure_memset(const Run& run) {
  const std::vector<size_t> sizes = sizes_of(run);
  const size_t most = sizes.back();
  Sheet sheet(run, "call, bytes",
              {microseconds(compared("us", "duration", "us", 2)),
               in_unit(measured("GB/s", "rate", "GB/s", 1), gbs_of), spread()},
              "bytes");
  const Ref copy("cuda_memcpy", double(most));
  sheet.add({.ref = copy, .words = "cudaMemcpy, " + bytes_text(copy.at), .bytes = 2.0 * copy.at});
  for (const size_t n : sizes)
    sheet.add({.ref = {"cuda_memset", double(n)},
               .words = "cudaMemset, " + bytes_text(double(n)),
               .bytes = double(n),
               .calibrates = n == judged_bytes || n == most,
               .model = Model::latency});
  SharedByTasks to([most] { return Output<Byte>(most); });
  sheet.measure(Timing::alone, [&](const Row& row) {
    return same(row.ref, copy) ? memcpy_task(to(), row.ref) : memset_task(to(), row.ref);
  });
  const double launch = sheet.ms({"cuda_memset", double(judged_bytes)});
  const double all = sheet.ms({"cuda_memset", double(most)});
  sheet.predict([&](const Row& row) {
    // below 1 MiB the driver goes another way, of which nothing is known
    if (row.ref.key != "cuda_memset" || row.ref.at < judged_bytes) return double(NAN);
    return launch + (row.ref.at - judged_bytes) * (all - launch) / double(most - judged_bytes);
  });
  sheet.print({"cudaMemset only writes: its bytes count once; the copy's count twice"});
}

void run_allocation(const Run& run) {
  run.report.begin("allocation", "take, use, wait, give back: 256 B to " +
                                     bytes_text(double(sizes_of(run).back())));
  const std::string no_pools = why_no_pools(run);
  measure_sizes(run, no_pools);
  measure_behind_work(run, no_pools);
  measure_memset(run);

  Sheet sheet(run, "an iteration of " + bytes_text(judged_bytes),
              {microseconds(measured("us", "duration", "us", 1)), spread()});
  for (const Kind& kind : kinds)
    if (kind.make != pinning && kind.key != "pool_threshold_0")
      sheet.add({.ref = kind.key,
                 .words = kind.words,
                 .missing = kind.key == "pool_keeping" ? no_pools : ""});
  // The buffer that is kept fills its piece of 2 MiB. Where it left half of one, cudaMalloc would
  // take the other half, and map nothing: 1.3 times the buffer's time on an H200, not 11 times.
  sheet.measure(Timing::regrouped, [&](const Row& row) {
    return iteration(row.ref, with_key(kinds, row.ref)->make(2 * mib), judged_bytes);
  });
  sheet.print();
}

std::vector<Claim> claims(const Run&) {
  return {{.part = {"02.1", "allocation is expensive: reuse", "expensive, no figure", "the wiki"},
           .rule = beats(),
           .pairs = {{.slow = "cuda_malloc", .fast = "reused"}},
           .here = bytes_text(judged_bytes),
           .found = {{.slow = "pool_keeping", .fast = "reused"}}}};
}

Needs needs(const Run& run) { return {.allocated = bytes_held(sizes_of(run).back())}; }

std::vector<Checked> tasks(size_t n) {
  std::vector<Checked> all;
  for (const bool sets : {true, false}) {
    const Shared to(Output<Byte>{n});
    const Ref ref(sets ? "cuda_memset" : "cuda_memcpy", double(n));
    all.push_back({.task = sets ? memset_task(to, ref) : memcpy_task(to, ref),
                   .elements = n,
                   .change_one = [to, n] { to->change(n - 1); }});
  }
  return all;
}

}  // namespace

extern const Experiment allocation_experiment{
    .name = "allocation",
    .about = "allocating in the loop, reusing, and allocating from a pool",
    .run = run_allocation,
    .claims = claims,
    .needs = needs,
    .tasks = tasks,
};
