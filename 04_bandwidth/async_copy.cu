// async_copy: data in flight needs somewhere to land. For an ordinary load that is a register.
// cp.async (compute capability 8.0 and later) and bulk copies (TMA, 9.0 and later) copy into shared
// memory, where a ring of stages stays in flight while the threads work on what has arrived. No
// text asks for them. Each kernel sums an array and stores next to nothing, so only its loads
// count. Two things to look at:
//   - One block of 128 threads per multiprocessor, as in a kernel with large tiles: how much must
//   be
//     in flight, and does it matter who requests it?
//   - As many bytes in flight by each of the three, with all threads that a multiprocessor holds.
//
//   cmake -S 04_bandwidth -B build/async_copy -DEXPERIMENTS=async_copy
//   cmake --build build/async_copy && build/async_copy/04_bandwidth
//
//   1  plain       loads into registers: 2 to 16 loads of 16 bytes in flight per thread
//   2  async_ring  cp.async: each thread copies 16 bytes at a time into the ring
//   3  bulk_ring   bulk copies: one thread requests a whole stage
//   4  chase, bulk_chase  one thread, one load or one bulk copy after the other: the latency
#include <cuda_pipeline_primitives.h>

#include <algorithm>
#include <cmath>

#include "../framework/common/checked.cuh"
#include "../framework/common/experiment.hpp"

// libcu++ has bulk copies from CUDA 12.4 on, and in device code for 9.0 and later only
#if CUDART_VERSION >= 12040 && (!defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900)
#define BULK_COPIES
#include <cuda/barrier>
#include <cuda/ptx>
// a shared barrier's constructor does nothing
#pragma nv_diag_suppress static_var_with_dynamic_init
#endif

using namespace samples;

namespace {

// ---- kernels: block b sums the tiles b, b + blocks, b + 2 blocks ... of n words of 16 bytes. Each
// thread sums some words of every tile, and stores its sum at the end ----

// [plain]
// A thread loads `words` words of 16 bytes before it adds the first: each holds four registers from
// then on. A warp loads 32 neighbouring words, 512 bytes, with one instruction. The launch bounds
// say that one resident block is enough. Without them the compiler uses only 32 registers, so that
// many blocks fit, and at most six words are in flight.
template <unsigned words>
__global__ void __launch_bounds__(256, 1) plain(unsigned* out, const uint4* in, size_t n) {
  const unsigned tile = words * blockDim.x;
  const size_t step = size_t(gridDim.x) * tile;
  size_t first = size_t(blockIdx.x) * tile;
  unsigned sum = 0;
#pragma unroll 1  // else the compiler would put the words of several tiles in flight
  for (; first + tile <= n; first += step) {
    uint4 word[words];
#pragma unroll
    for (unsigned k = 0; k < words; ++k) word[k] = in[first + k * blockDim.x + threadIdx.x];
#pragma unroll
    for (unsigned k = 0; k < words; ++k) sum += word[k].x + word[k].y + word[k].z + word[k].w;
  }
#pragma unroll 1
  for (size_t i = first + threadIdx.x; i < n; i += blockDim.x)  // the last tile, if it is not full
    sum += in[i].x + in[i].y + in[i].z + in[i].w;
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
// [/plain]

// [async_ring]
// The same tiles, but `stages` of them are in flight to shared memory. A warp still issues one
// instruction for each 512 bytes, but no register waits. Each thread reads only the words that it
// requested itself, so the block needs no barrier. (Where threads need words of other threads, as
// in a tile of a matrix, __syncthreads() replaces __syncwarp(), and a second one stands before the
// stage is filled again.) `stages` is a constant because the instruction that waits contains it.
template <unsigned stages, unsigned words>
__global__ void async_ring(unsigned* out, const uint4* in, size_t n) {
  extern __shared__ __align__(128) uint4 ring[];
  const unsigned tile = words * blockDim.x;
  const size_t step = size_t(gridDim.x) * tile;
  size_t next = size_t(blockIdx.x) * tile;  // the next tile to request
#pragma unroll 1
  for (unsigned stage = 0; stage < stages; ++stage, next += step) {  // fill the ring
#pragma unroll
    for (unsigned k = 0; k < words; ++k) {
      const unsigned i = k * blockDim.x + threadIdx.x;
      if (next + i < n) __pipeline_memcpy_async(&ring[stage * tile + i], &in[next + i], 16);
    }
    __pipeline_commit();  // even if the array has ended: waiting counts commits
  }
  unsigned sum = 0;
  unsigned stage = 0;
#pragma unroll 1
  for (size_t first = size_t(blockIdx.x) * tile; first < n; first += step) {
    __pipeline_wait_prior(stages - 1);  // until only so many are in flight: the oldest has arrived
    __syncwarp();                       // the compiler reads nothing before
#pragma unroll
    for (unsigned k = 0; k < words; ++k) {
      const unsigned i = k * blockDim.x + threadIdx.x;
      if (first + i < n) {
        const uint4 word = ring[stage * tile + i];
        sum += word.x + word.y + word.z + word.w;
      }
    }
#pragma unroll
    for (unsigned k = 0; k < words; ++k) {  // fill the stage again
      const unsigned i = k * blockDim.x + threadIdx.x;
      if (next + i < n) __pipeline_memcpy_async(&ring[stage * tile + i], &in[next + i], 16);
    }
    __pipeline_commit();
    next += step;
    stage = (stage + 1) % stages;
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
// [/async_ring]

// The same ring, but one thread requests a whole stage with one instruction, and all threads wait
// at the barrier of the stage until all its bytes have arrived. Addresses and sizes are multiples
// of 16 bytes; the copy of the last tile is shorter if less remains. The block needs one more
// barrier: no thread may still read the stage when it is filled again.
template <unsigned stages, unsigned words>
__global__ void bulk_ring(unsigned* out, const uint4* in, size_t n) {
#ifdef BULK_COPIES
  extern __shared__ __align__(128) uint4 ring[];
  __shared__ cuda::barrier<cuda::thread_scope_block> arrived[stages];
  const unsigned tile = words * blockDim.x;
  const size_t step = size_t(gridDim.x) * tile;
  size_t next = size_t(blockIdx.x) * tile;
  if (threadIdx.x == 0) {
    for (unsigned stage = 0; stage < stages; ++stage)
      init(&arrived[stage], 1);                                  // one thread arrives
    cuda::device::experimental::fence_proxy_async_shared_cta();  // the copies see the barriers
  }
  __syncthreads();
#pragma unroll 1
  for (unsigned stage = 0; stage < stages; ++stage, next += step)  // fill the ring
    if (threadIdx.x == 0 && next < n) {
      const unsigned bytes = 16 * unsigned(min(size_t(tile), n - next));
      cuda::device::memcpy_async_tx(&ring[stage * tile], &in[next], cuda::aligned_size_t<16>(bytes),
                                    arrived[stage]);
      (void)cuda::device::barrier_arrive_tx(arrived[stage], 1, bytes);
    }
  // [bulk_ring]
  unsigned sum = 0;
  unsigned stage = 0;
  unsigned parity = 0;  // 0, 1, 0, 1 ...: changes with each round of the ring
#pragma unroll 1
  for (size_t first = size_t(blockIdx.x) * tile; first < n; first += step) {
    uint64_t* const barrier = cuda::device::barrier_native_handle(arrived[stage]);
    while (!cuda::ptx::mbarrier_try_wait_parity(barrier, parity)) continue;  // until it is full
#pragma unroll
    for (unsigned k = 0; k < words; ++k) {
      const unsigned i = k * blockDim.x + threadIdx.x;
      if (first + i < n) {
        const uint4 word = ring[stage * tile + i];
        sum += word.x + word.y + word.z + word.w;
      }
    }
    __syncthreads();  // all have read the stage: it can be filled again
    if (threadIdx.x == 0 && next < n) {
      const unsigned bytes = 16 * unsigned(min(size_t(tile), n - next));
      cuda::device::memcpy_async_tx(&ring[stage * tile], &in[next], cuda::aligned_size_t<16>(bytes),
                                    arrived[stage]);
      (void)cuda::device::barrier_arrive_tx(arrived[stage], 1, bytes);  // opens with the last byte
    }
    next += step;
    stage = (stage + 1) % stages;
    if (stage == 0) parity ^= 1;
  }
  // [/bulk_ring]
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
#endif
}

// One thread. Each word holds the index of the next one, so that no two loads overlap.
__global__ void chase(unsigned* at, const uint4* ring, unsigned loads) {
  unsigned word = *at;
  for (unsigned k = 0; k < loads; ++k) word = ring[word].x;
  *at = word;
}

// The same by bulk copies of 16 bytes: each is requested, waited for, and read.
__global__ void bulk_chase(unsigned* at, const uint4* ring, unsigned loads) {
#ifdef BULK_COPIES
  __shared__ __align__(128) uint4 place;
  __shared__ cuda::barrier<cuda::thread_scope_block> arrived;
  init(&arrived, 1);
  cuda::device::experimental::fence_proxy_async_shared_cta();
  uint64_t* const barrier = cuda::device::barrier_native_handle(arrived);
  unsigned word = *at;
  for (unsigned k = 0; k < loads; ++k) {
    cuda::device::memcpy_async_tx(&place, &ring[word], cuda::aligned_size_t<16>(16), arrived);
    (void)cuda::device::barrier_arrive_tx(arrived, 1, 16);
    while (!cuda::ptx::mbarrier_try_wait_parity(barrier, k % 2)) continue;
    word = place.x;
  }
  *at = word;
#endif
}

// ---- the rows ----

using Kernel = void (*)(unsigned* out, const uint4* in, size_t n);

enum class Kind { plain, async, bulk };

/// A kernel, and how it is launched.
struct Variant {
  std::string key = {}, shown = {};
  Kind kind = Kind::plain;
  Kernel kernel = nullptr;
  unsigned stages = 1, words = 1;  ///< of each stage `words` words per thread are in flight
  bool alone = true;  ///< one block of 128 threads per multiprocessor; else all that it holds

  unsigned threads() const { return alone ? 128 : 256; }               ///< of a block
  unsigned tile() const { return words * threads(); }                  ///< words of a stage
  size_t block_bytes() const { return size_t(16) * stages * tile(); }  ///< in flight
  size_t ring_bytes() const { return kind == Kind::plain ? 0 : block_bytes(); }
  Ref ref(const Device* device) const {
    const int all = device ? device->prop.maxThreadsPerMultiProcessor : 2048;
    return {key, alone ? double(threads()) : all};
  }
};

template <unsigned words>
Variant loads(bool alone = true) {
  const std::string each = std::to_string(words);
  return {"plain_" + each,
          "plain loads, " + each + " x 16 bytes",
          Kind::plain,
          plain<words>,
          1,
          words,
          alone};
}
/// Adds stages and their size to the key and the words of a ring.
Variant with_shape(Variant v) {
  const std::string stages = std::to_string(v.stages), KiB = std::to_string(v.tile() / 64);
  v.key += "_" + stages + "x" + KiB + "k";
  v.shown += ", " + stages + " x " + KiB + " KiB";
  return v;
}
template <unsigned stages, unsigned words>
Variant async(bool alone = true) {
  return with_shape(
      {"async_ring", "cp.async", Kind::async, async_ring<stages, words>, stages, words, alone});
}
template <unsigned stages, unsigned words>
Variant bulk(bool alone = true) {
  return with_shape(
      {"bulk_ring", "bulk copies", Kind::bulk, bulk_ring<stages, words>, stages, words, alone});
}

/// One block per multiprocessor with 8 to 64 KiB in flight; then as many threads as it holds.
const Variant variants[] = {
    loads<4>(),      loads<16>(),  //
    async<4, 1>(),   async<8, 1>(),      async<4, 2>(),
    async<2, 4>(),   async<4, 4>(),      async<4, 8>(),  //
    bulk<4, 1>(),    bulk<8, 1>(),       bulk<4, 2>(),
    bulk<2, 4>(),    bulk<4, 4>(),       bulk<4, 8>(),  //
    loads<2>(false), async<2, 1>(false), bulk<2, 1>(false),
};
const char* const memory_row = "plain_2";        // gives the memory's rate
const char* const stage_row = "bulk_ring_8x2k";  // gives what a stage costs: the smallest, and most

const Variant& variant(const Row& row) { return *with_key(variants, row.ref); }

// ---- what a GPU has room for ----

/// Bytes of shared memory that a block requests. One that is to be alone requests more than half of
/// a multiprocessor's, as far as it may. (Before compute capability 7.0 it may not. A grid of one
/// block per multiprocessor is spread over all of them anyway.) The rest is L1, which loads use.
size_t requested_shared(const Variant& v, const cudaDeviceProp& prop) {
  if (!v.alone) return v.ring_bytes();
  constexpr size_t barriers = 128;  // bytes of a ring's barriers, rounded up as shared memory is
  const size_t most = std::max(prop.sharedMemPerBlockOptin, prop.sharedMemPerBlock) - barriers;
  return std::max(v.ring_bytes(), std::min(prop.sharedMemPerMultiprocessor / 2 + 1024, most));
}

/// Why this GPU, or this build, has no such copies. Empty: it has.
std::string lacking(Kind kind, const Device& device) {
  if (kind == Kind::plain) return "";
  const int major = kind == Kind::async ? 8 : 9;
  const std::string needed = "compute capability " + std::to_string(major) + ".0";
  if (device.prop.major < major) return "needs " + needed;
  if (device.number < 0) return "";  // made up or recorded: it has its rows whatever was built
  if (kind == Kind::bulk && CUDART_VERSION < 12040) return "needs CUDA 12.4";
  cudaFuncAttributes compiled{};
  CUDA_CHECK(
      cudaFuncGetAttributes(&compiled, kind == Kind::async ? async_ring<2, 1> : bulk_ring<2, 1>));
  return compiled.ptxVersion < 10 * major ? "this build has no code for " + needed : "";
}

// ---- what all rows read, and what is right ----

struct Word {
  __host__ __device__ uint4 operator()(size_t i) const {
    return {scrambled(4 * i), scrambled(4 * i + 1), scrambled(4 * i + 2), scrambled(4 * i + 3)};
  }
};

/// The sums that the threads of a launch must leave; behind them nobody writes.
struct IsSum {
  unsigned blocks, threads, tile;
  size_t n;

  __host__ __device__ unsigned of_thread(size_t t) const {
    if (t >= size_t(blocks) * threads) return ~0u;  // as it was poisoned
    unsigned sum = 0;
    for (size_t i = t / threads * tile; i < n; i += size_t(blocks) * tile)
      for (size_t k = t % threads; k < tile && i + k < n; k += threads) {
        const uint4 word = Word{}(i + k);
        sum += word.x + word.y + word.z + word.w;
      }
    return sum;
  }
  __device__ bool operator()(size_t t, unsigned found) const { return found == of_thread(t); }
};

size_t most_threads(const Device& device) {
  return size_t(device.prop.multiProcessorCount) * device.prop.maxThreadsPerMultiProcessor;
}

struct Memory {
  size_t words, threads;
  DeviceBuffer<uint4> in = filled<uint4>(words, Word{});
  Output<unsigned> sums{threads};
};

/// The work of that row, by blocks on so many multiprocessors.
Task task_of(const Shared<Memory>& x, const Variant& v, const Ref& ref, unsigned multiprocessors,
             size_t shared) {
  const unsigned blocks = unsigned(ref.at) / v.threads() * multiprocessors;
  cudaFuncAttributes now{};
  CUDA_CHECK(cudaFuncGetAttributes(&now, v.kernel));
  if (size_t(now.maxDynamicSharedSizeBytes) < shared)  // more than 48 KiB have to be allowed
    CUDA_CHECK(
        cudaFuncSetAttribute(v.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(shared)));
  const auto launch = [x, &v, blocks, shared] {
    v.kernel<<<blocks, v.threads(), shared>>>(x->sums.data(), x->in.data(), x->in.size());
  };
  return {text(ref), launch, x->sums.check(IsSum{blocks, v.threads(), v.tile(), x->in.size()})};
}

// ---- latency: slots all over the memory, one after the other ----

constexpr unsigned slot_words = 16;     // 256 bytes: no load finds what arrived with another
constexpr unsigned chase_loads = 2048;  // of a launch: about 0.7 ms

/// The slot after `slot` in a ring of 2^k slots: a generator of full period (factor 4 m + 1, odd
/// addend), which visits each once.
__host__ __device__ unsigned next_slot(unsigned slot, unsigned slots) {
  return (slot * 1664525u + 1013904223u) & (slots - 1);
}

struct SlotWord {
  unsigned slots;
  __device__ uint4 operator()(size_t i) const {
    return {next_slot(unsigned(i / slot_words), slots) * slot_words, 0, 0, 0};
  }
};

/// The slots, and where a chase is. Each launch goes on where the one before ended: its slots are
/// in no cache yet.
struct Slots {
  unsigned count;
  DeviceBuffer<uint4> words = filled<uint4>(size_t(count) * slot_words, SlotWord{count});
  Output<unsigned> at{1};
  unsigned from = 0;  ///< where the launch that is checked began

  explicit Slots(unsigned count) : count(count) {
    filled<uint4>(words.size(), SlotWord{count});  // drives the slots out of the L2
    at.poison();                                   // its canaries, too, which come back with it
    at.copy_from({0});
  }
  unsigned now() const { return at.to_host()[0]; }
  /// The word at which a chase from `from` must end.
  unsigned end() const {
    unsigned slot = from / slot_words;
    for (unsigned k = 0; k < chase_loads; ++k) slot = next_slot(slot, count);
    return slot * slot_words;
  }
};

Task chase_task(const Shared<Slots>& x, const Ref& ref) {
  const bool by_bulk = ref.key == name_of<bulk_chase>();
  const auto launch = [x, kernel = by_bulk ? bulk_chase : chase] {
    kernel<<<1, 1>>>(x->at.data(), x->words.data(), chase_loads);
  };
  Check check;
  check.poison = [x] { x->from = x->now(); };  // a chase that stays there is wrong
  check.wrong = [x] { return size_t(x->now() != x->end()); };
  return {text(ref), launch, std::move(check)};
}

// ---- prediction ----

/// Measured in the same run.
struct Calibrated {
  double load_ns = NAN;     ///< latency of a load when nothing else runs; also taken for cp.async
  double bulk_ns = NAN;     ///< of a bulk copy
  double stage_ns = NAN;    ///< that a block takes for each stage of bulk copies
  double memory_gbs = NAN;  ///< by plain loads of all threads
};

/// Bytes in flight on a multiprocessor.
double bytes_in_flight(const Variant& v, double threads) {
  return double(v.block_bytes()) * threads / v.threads();
}

/// Nanoseconds in which a block goes round its ring if the memory is never the limit. For bulk
/// copies: the latency, or what the block does for every stage, one stage after the other. It wakes
/// up, reads, meets at the barrier, and one thread requests the next tile. Loads and cp.async leave
/// this to each warp.
double round_ns(const Variant& v, const Calibrated& c) {
  return v.kind == Kind::bulk ? std::max(c.bulk_ns, v.stages * c.stage_ns) : c.load_ns;
}

/// GB/s by Little's law, of `bytes` in flight. They arrive in the root of the sum of the squares of
/// the latency and of the time that the memory needs for them: a form fitted to in_flight's rows of
/// an H200. What stages cost goes on beside the copies: the longer of the two counts. Left out: a
/// thread with several loads waits for the last of them, and a stage is not in flight while it is
/// read.
double predicted_gbs(const Variant& v, double bytes, const Calibrated& c) {
  const double latency = v.kind == Kind::bulk ? c.bulk_ns : c.load_ns;
  return bytes / std::max(std::hypot(latency, bytes / c.memory_gbs), round_ns(v, c));
}

// ---- the experiment ----

/// Beyond the L2, where that fits.
double grown_and_shrunk(const Run& run, double bytes) {
  while (run.device && !beyond_l2(*run.device, bytes)) bytes *= 2;
  while (bytes > 0.4 * run.memory_there()) bytes /= 2;
  return bytes;
}
double bytes_read(const Run& run) { return grown_and_shrunk(run, run.quick ? 1 << 28 : 1 << 30); }
/// A power of two.
double bytes_of_slots(const Run& run) { return grown_and_shrunk(run, 1 << 27); }

/// The two latencies. A launch adds 2 us to 2048 loads, which are left in.
void measure_latencies(const Run& run, Calibrated& c) {
  const auto ns = [](const Row&, double ms) { return ms * 1e6 / chase_loads; };
  Sheet sheet(run, "latency", {in_unit(compared("ns", "latency", "ns", 0), ns), spread()});
  const Ref load = name_of<chase>(), copy = name_of<bulk_chase>();
  sheet.add({.ref = load, .words = "a load", .calibrates = true});
  sheet.add({.ref = copy,
             .words = "a bulk copy",
             .calibrates = true,
             .missing = run.device ? lacking(Kind::bulk, *run.device) : ""});
  SharedByTasks slots(
      [&run] { return Slots(unsigned(bytes_of_slots(run) / sizeof(uint4) / slot_words)); });
  sheet.measure(Timing::alone, [&](const Row& row) { return chase_task(slots(), row.ref); });
  sheet.print();
  c.load_ns = ns({}, sheet.ms(load));
  c.bulk_ns = ns({}, sheet.ms(copy));
}

void measure_rates(const Run& run, Calibrated& c) {
  const double bytes = bytes_read(run);
  const unsigned multiprocessors = run.device ? unsigned(run.device->prop.multiProcessorCount) : 0;
  const auto in_flight = [](const Row& row) { return bytes_in_flight(variant(row), row.ref.at); };
  const auto of_gpu = [=](const Row& row) { return multiprocessors * in_flight(row); };
  const auto ref = [&](const char* key) { return with_key(variants, key)->ref(run.device); };
  Sheet sheet(
      run, "copies, threads of a multiprocessor",
      {number(predicted("KiB in flight", "bytes in flight", "KiB", 0),
              [=](const Row& row) { return in_flight(row) / 1024; }),
       in_unit(compared("GB/s", "rate", "GB/s", 0), gbs_of), spread(),
       in_unit(measured("ns", "latency", "ns", 0),
               [=](const Row& row, double ms) { return of_gpu(row) / gbs_of(row, ms); }),
       share_against(run, ref(memory_row), "of loads' most"), bar_against(run, ref(memory_row))},
      "threads");
  for (const Variant& v : variants)
    sheet.add({.ref = v.ref(run.device),
               .words = v.shown + ", " + at_text(v.ref(run.device)),
               .bytes = bytes,
               .calibrates = v.key == memory_row || v.key == stage_row,
               .missing = run.device ? lacking(v.kind, *run.device) : ""});
  SharedByTasks memory([&] { return Memory{size_t(bytes / 16), most_threads(*run.device)}; });
  sheet.measure(Timing::in_turn, [&](const Row& row) {
    const size_t shared = requested_shared(variant(row), run.device->prop);
    return task_of(memory(), variant(row), row.ref, multiprocessors, shared);
  });

  const Variant& stages = *with_key(variants, stage_row);
  const double ring_bytes = double(multiprocessors * stages.block_bytes());
  c.memory_gbs = bytes * 1e-6 / sheet.ms(ref(memory_row));
  c.stage_ns = ring_bytes / (bytes * 1e-6 / sheet.ms(ref(stage_row))) / stages.stages;
  sheet.predict(
      [&](const Row& row) { return bytes * 1e-6 / predicted_gbs(variant(row), of_gpu(row), c); },
      Basis::fitted);
  sheet.print({"KiB in flight: of a multiprocessor. ns: bytes in flight over the rate"});
}

void run_async_copy(const Run& run) {
  const double bytes = bytes_read(run);
  run.report.begin("async_copy", bytes_text(bytes) +
                                     " read, by one block of 128 threads per "
                                     "multiprocessor and by all that it holds");
  if (run.device && !beyond_l2(*run.device, bytes))
    run.report.note("that is less than four times the L2: the cache's rates");
  Calibrated c;
  measure_latencies(run, c);
  measure_rates(run, c);
  for (const std::string ring : {"async_ring_", "bulk_ring_"}) {
    const std::string pairs[][2] = {{"plain_4", ring + "4x16k"},  // 8 KiB against 64
                                    {"plain_16", ring + "4x8k"},  // as many bytes
                                    {"plain_2", ring + "2x4k"}};  // the same, by all threads
    for (const auto& [loads, other] : pairs)
      find(run, "async_copy",
           {.slow = with_key(variants, loads)->ref(run.device),
            .fast = with_key(variants, other)->ref(run.device)});
  }
}

// ---- what it declares ----

Needs needs(const Run& run) {
  const double bytes = bytes_read(run), slots = bytes_of_slots(run);
  return {.allocated = std::max(bytes + 4.0 * double(most_threads(*run.device)), 2 * slots),
          .touched = std::min(bytes, slots)};
}

std::vector<Checked> tasks(size_t n) {
  constexpr unsigned multiprocessors = 3;
  const Device device = Device::current();
  std::vector<Checked> all;
  for (const Variant& v : variants) {
    if (!lacking(v.kind, device).empty()) continue;
    const Ref ref(v.key, v.alone ? v.threads() : 2 * v.threads());
    const size_t threads = multiprocessors * size_t(ref.at);
    const Shared x(Memory{n, threads});
    all.push_back({.task = task_of(x, v, ref, multiprocessors, v.ring_bytes()),
                   .elements = threads,
                   .change_one = [x] { x->sums.change(5); }});
  }
  for (const Ref& ref : {Ref(name_of<chase>()), Ref(name_of<bulk_chase>())}) {
    if (ref.key == name_of<bulk_chase>() && !lacking(Kind::bulk, device).empty()) continue;
    const Shared x(Slots(1 << 16));
    all.push_back(
        {.task = chase_task(x, ref), .elements = 1, .change_one = [x] { x->at.change(0); }});
  }
  return all;
}

}  // namespace

extern const Experiment async_copy_experiment{
    .name = "async_copy",
    .about = "loads, cp.async and bulk copies, at few threads and at all",
    .run = run_async_copy,
    .needs = needs,
    .tasks = tasks};
