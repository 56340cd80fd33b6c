// async_copy: bytes under way need a place to go. A load's place is registers; cp.async (compute
// capability 8.0 and later) and bulk copies (TMA, 9.0 and later) go to shared memory, where a ring
// of stages keeps them under way while the threads work on what has come. When does that pay? Each
// kernel adds up an array, and stores next to nothing, so that only its loads count. Look at one
// block of 128 threads an SM, as a kernel with large tiles has, and at as many bytes under way by
// each of the three; then at all threads that an SM holds.
//   cmake -S 04_bandwidth -B build/async_copy -DEXPERIMENTS=async_copy
//   cmake --build build/async_copy && build/async_copy/04_bandwidth
//
//   1  plain       loads into registers: 16 bytes each, 1 to 16 under way a thread
//   2  async_ring  cp.async: every thread copies 16 bytes at a time into the ring
//   3  bulk_ring   bulk copies: one thread asks for a whole stage
//   4  chase, bulk_chase  one thread, one load or one bulk copy after another
#include <cuda_pipeline_primitives.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "../common/report.hpp"

// libcu++ has bulk copies from CUDA 12.4 on, and in device code for 9.0 and later only
#if CUDART_VERSION >= 12040 && (!defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900)
#define BULK_COPIES
#include <cuda/barrier>
#include <cuda/ptx>
// and a shared barrier's constructor does nothing
#pragma nv_diag_suppress static_var_with_dynamic_init
#endif

namespace {

// ---- kernels: a block adds up the tiles b, b + blocks, b + 2 blocks ... of n words of 16 bytes;
//      each thread adds up some words of a tile, and stores its sum at the end ----

// [plain]
// A thread asks for `words` words of 16 bytes, and adds up the first when it has asked for all:
// each holds four registers from then on. A warp asks for 32 neighbours, 512 bytes, with one
// instruction. The bounds say that one block will do: else the compiler keeps to 32 registers, so
// that many blocks fit, and at most six words are under way.
template <unsigned words>
__global__ void __launch_bounds__(256, 1) plain(unsigned* out, const uint4* in, size_t n) {
  const unsigned tile = words * blockDim.x;
  const size_t turn = size_t(gridDim.x) * tile;
  size_t first = size_t(blockIdx.x) * tile;
  unsigned sum = 0;
#pragma unroll 1  // else the compiler would put several turns' words under way
  for (; first + tile <= n; first += turn) {
    uint4 word[words];
#pragma unroll
    for (unsigned k = 0; k < words; ++k) word[k] = in[first + k * blockDim.x + threadIdx.x];
#pragma unroll
    for (unsigned k = 0; k < words; ++k) sum += word[k].x + word[k].y + word[k].z + word[k].w;
  }
#pragma unroll 1
  for (size_t i = first + threadIdx.x; i < n; i += blockDim.x)  // the last tile, if it is not whole
    sum += in[i].x + in[i].y + in[i].z + in[i].w;
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
// [/plain]

// [async_ring]
// The same tiles, `stages` of them under way to shared memory. A warp still asks with an
// instruction for each 512 bytes, but no register waits. A thread takes back what it asked for
// itself, and so needs no barrier of the block; where other threads' words are wanted, as of a
// matrix's tile, __syncthreads() stands where __syncwarp() does, and once more before the stage is
// filled again. `stages` is a constant because the instruction that waits holds it.
template <unsigned stages, unsigned words>
__global__ void async_ring(unsigned* out, const uint4* in, size_t n) {
  extern __shared__ __align__(128) uint4 ring[];
  const unsigned tile = words * blockDim.x;
  const size_t turn = size_t(gridDim.x) * tile;
  size_t asked = size_t(blockIdx.x) * tile;  // the tile that is asked for next
#pragma unroll 1
  for (unsigned stage = 0; stage < stages; ++stage, asked += turn) {  // fill the ring
#pragma unroll
    for (unsigned k = 0; k < words; ++k) {
      const unsigned i = k * blockDim.x + threadIdx.x;
      if (asked + i < n) __pipeline_memcpy_async(&ring[stage * tile + i], &in[asked + i], 16);
    }
    __pipeline_commit();  // even if the array has ended: waiting counts commits
  }
  unsigned sum = 0;
  unsigned stage = 0;
#pragma unroll 1
  for (size_t first = size_t(blockIdx.x) * tile; first < n; first += turn) {
    __pipeline_wait_prior(stages - 1);  // until only so many are under way: the oldest has come
    __syncwarp();                       // and the compiler reads nothing before
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
      if (asked + i < n) __pipeline_memcpy_async(&ring[stage * tile + i], &in[asked + i], 16);
    }
    __pipeline_commit();
    asked += turn;
    stage = (stage + 1) % stages;
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
// [/async_ring]

// The same ring, but one thread asks for a whole stage with one instruction, and the others wait at
// the stage's barrier until all its bytes have come. Addresses and sizes are multiples of 16 bytes;
// the last tile's copy is as short as what is left. One more barrier, of the block: nobody may
// still read the stage when it is filled again.
template <unsigned stages, unsigned words>
__global__ void bulk_ring(unsigned* out, const uint4* in, size_t n) {
#ifdef BULK_COPIES
  extern __shared__ __align__(128) uint4 ring[];
  __shared__ cuda::barrier<cuda::thread_scope_block> came[stages];
  const unsigned tile = words * blockDim.x;
  const size_t turn = size_t(gridDim.x) * tile;
  size_t asked = size_t(blockIdx.x) * tile;
  if (threadIdx.x == 0) {
    for (unsigned stage = 0; stage < stages; ++stage) init(&came[stage], 1);  // one thread arrives
    cuda::device::experimental::fence_proxy_async_shared_cta();  // and the copies see it
  }
  __syncthreads();
#pragma unroll 1
  for (unsigned stage = 0; stage < stages; ++stage, asked += turn)  // fill the ring
    if (threadIdx.x == 0 && asked < n) {
      const unsigned bytes = 16 * unsigned(min(size_t(tile), n - asked));
      cuda::device::memcpy_async_tx(&ring[stage * tile], &in[asked],
                                    cuda::aligned_size_t<16>(bytes), came[stage]);
      (void)cuda::device::barrier_arrive_tx(came[stage], 1, bytes);
    }
  // [bulk_ring]
  unsigned sum = 0;
  unsigned stage = 0;
  unsigned lap = 0;  // 0, 1, 0, 1 ...: which opening of its barrier a stage is at
#pragma unroll 1
  for (size_t first = size_t(blockIdx.x) * tile; first < n; first += turn) {
    uint64_t* const barrier = cuda::device::barrier_native_handle(came[stage]);
    while (!cuda::ptx::mbarrier_try_wait_parity(barrier, lap)) continue;  // sleeps for a while
#pragma unroll
    for (unsigned k = 0; k < words; ++k) {
      const unsigned i = k * blockDim.x + threadIdx.x;
      if (first + i < n) {
        const uint4 word = ring[stage * tile + i];
        sum += word.x + word.y + word.z + word.w;
      }
    }
    __syncthreads();  // all have read the stage: it can be filled again
    if (threadIdx.x == 0 && asked < n) {
      const unsigned bytes = 16 * unsigned(min(size_t(tile), n - asked));
      cuda::device::memcpy_async_tx(&ring[stage * tile], &in[asked],
                                    cuda::aligned_size_t<16>(bytes), came[stage]);
      (void)cuda::device::barrier_arrive_tx(came[stage], 1, bytes);  // opens when they have come
    }
    asked += turn;
    stage = (stage + 1) % stages;
    if (stage == 0) lap ^= 1;
  }
  // [/bulk_ring]
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
#endif
}

// One thread. Each word that comes says where the next one is, so that no two loads overlap.
__global__ void chase(unsigned* at, const uint4* ring, unsigned loads) {
  unsigned word = *at;
  for (unsigned k = 0; k < loads; ++k) word = ring[word].x;
  *at = word;
}

// The same by bulk copies of 16 bytes: each is asked for, waited for, and read.
__global__ void bulk_chase(unsigned* at, const uint4* ring, unsigned loads) {
#ifdef BULK_COPIES
  __shared__ __align__(128) uint4 place;
  __shared__ cuda::barrier<cuda::thread_scope_block> came;
  init(&came, 1);
  cuda::device::experimental::fence_proxy_async_shared_cta();
  uint64_t* const barrier = cuda::device::barrier_native_handle(came);
  unsigned word = *at;
  for (unsigned k = 0; k < loads; ++k) {
    cuda::device::memcpy_async_tx(&place, &ring[word], cuda::aligned_size_t<16>(16), came);
    (void)cuda::device::barrier_arrive_tx(came, 1, 16);
    while (!cuda::ptx::mbarrier_try_wait_parity(barrier, k % 2)) continue;
    word = place.x;
  }
  *at = word;
#endif
}

// ---- what is right ----

/// Word i: without pattern, so that no two words stand in for two others.
__host__ __device__ unsigned part_at(size_t i) {
  unsigned x = unsigned(i) ^ unsigned(i >> 32) * 0x9e3779b1u;
  x = (x ^ x >> 16) * 0x85ebca6bu;
  x = (x ^ x >> 13) * 0xc2b2ae35u;
  return x ^ x >> 16;
}

/// What the four parts of the 16 bytes at i add up to.
__host__ __device__ unsigned sum_at(size_t i) {
  return part_at(4 * i) + part_at(4 * i + 1) + part_at(4 * i + 2) + part_at(4 * i + 3);
}

__global__ void fill(uint4* words, size_t n) {
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += threads)
    words[i] =
        make_uint4(part_at(4 * i), part_at(4 * i + 1), part_at(4 * i + 2), part_at(4 * i + 3));
}

/// Takes each word away from the sum of the thread that must have read it: tiles go round the
/// blocks in turn, and a tile's words round the block's threads. Nothing is left of right sums.
__global__ void take_away(unsigned* sums, unsigned blocks, unsigned threads, unsigned tile,
                          size_t n) {
  const size_t step = size_t(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += step) {
    const unsigned block = unsigned(i / tile % blocks);
    const unsigned thread = unsigned(i % tile % threads);
    atomicSub(&sums[block * threads + thread], sum_at(i));
  }
}

__global__ void count_wrong(const unsigned* sums, unsigned n, unsigned* wrong) {
  for (unsigned t = blockIdx.x * blockDim.x + threadIdx.x; t < n; t += gridDim.x * blockDim.x)
    if (sums[t] != 0) atomicAdd(wrong, 1u);
}

// ---- the story in order ----

enum class Kind { plain, async, bulk };

/// A kernel, and what a block of it has under way: `stages` times `words` words a thread.
struct Way {
  Kind kind;
  unsigned stages, words;
  void (*kernel)(unsigned* out, const uint4* in, size_t n);
};

const Way ways[] = {
    {Kind::plain, 1, 1, plain<1>},         {Kind::plain, 1, 2, plain<2>},
    {Kind::plain, 1, 4, plain<4>},         {Kind::plain, 1, 8, plain<8>},
    {Kind::plain, 1, 16, plain<16>},       {Kind::async, 2, 1, async_ring<2, 1>},
    {Kind::async, 2, 2, async_ring<2, 2>}, {Kind::async, 2, 4, async_ring<2, 4>},
    {Kind::async, 2, 8, async_ring<2, 8>}, {Kind::async, 4, 1, async_ring<4, 1>},
    {Kind::async, 4, 2, async_ring<4, 2>}, {Kind::async, 4, 4, async_ring<4, 4>},
    {Kind::async, 4, 8, async_ring<4, 8>}, {Kind::async, 8, 1, async_ring<8, 1>},
    {Kind::async, 8, 2, async_ring<8, 2>}, {Kind::async, 8, 4, async_ring<8, 4>},
    {Kind::async, 8, 8, async_ring<8, 8>}, {Kind::bulk, 2, 1, bulk_ring<2, 1>},
    {Kind::bulk, 2, 2, bulk_ring<2, 2>},   {Kind::bulk, 2, 4, bulk_ring<2, 4>},
    {Kind::bulk, 2, 8, bulk_ring<2, 8>},   {Kind::bulk, 4, 1, bulk_ring<4, 1>},
    {Kind::bulk, 4, 2, bulk_ring<4, 2>},   {Kind::bulk, 4, 4, bulk_ring<4, 4>},
    {Kind::bulk, 4, 8, bulk_ring<4, 8>},   {Kind::bulk, 8, 1, bulk_ring<8, 1>},
    {Kind::bulk, 8, 2, bulk_ring<8, 2>},   {Kind::bulk, 8, 4, bulk_ring<8, 4>},
    {Kind::bulk, 8, 8, bulk_ring<8, 8>},
};

/// A row of the table: what is launched, as a whole resident.
struct Row {
  const Way* way;
  unsigned threads;  ///< of a block
  unsigned blocks;   ///< of a multiprocessor
  unsigned multiprocessors;
  size_t shared;  ///< bytes that a block asks for: its ring, or more, to be alone

  unsigned grid() const { return blocks * multiprocessors; }
  unsigned total() const { return grid() * threads; }
  unsigned tile() const { return way->words * threads; }  ///< words of a stage
  double stage_bytes() const { return 16.0 * tile(); }
  double in_flight() const { return way->stages * stage_bytes() * grid(); }
  std::string name() const;
};

std::string Row::name() const {
  if (way->kind == Kind::plain) return "plain loads, " + std::to_string(way->words) + " x 16 bytes";
  return (way->kind == Kind::async ? "cp.async, " : "bulk copies, ") + std::to_string(way->stages) +
         " x " + fixed(stage_bytes() / 1024, 0) + " KiB";
}

// ---- what a GPU has room for ----

constexpr unsigned few = 128;         // threads of the only block of a multiprocessor: 4 warps
constexpr unsigned block_full = 256;  // of a block where all threads are resident; divides them all
constexpr size_t barriers = 128;      // bytes of a ring's barriers, rounded up as shared memory is

size_t ring_bytes(const Way& way, unsigned threads) {
  return way.kind == Kind::plain ? 0 : size_t(16) * way.stages * way.words * threads;
}

/// Bytes of shared memory that a block's ring may take.
size_t most_ring(const cudaDeviceProp& prop) {
  return std::max(prop.sharedMemPerBlockOptin, prop.sharedMemPerBlock) - barriers;
}

/// Bytes of which no two blocks have room on a multiprocessor, as far as a block may ask for them.
/// (Before 7.0 it may not; a grid of a block each is spread over the multiprocessors anyway.) What
/// is left is L1, through which loads come.
size_t alone(const cudaDeviceProp& prop) {
  return std::min(prop.sharedMemPerMultiprocessor / 2 + 1024, most_ring(prop));
}

/// Why this GPU, or this build, has no such copies. Empty: it has.
std::string lacking(Kind kind, const Device& device) {
  if (kind == Kind::plain) return "";
  const int major = kind == Kind::async ? 8 : 9;
  const std::string needed = "compute capability " + std::to_string(major) + ".0";
  if (device.prop.major < major) return "needs " + needed;
  if (kind == Kind::bulk && CUDART_VERSION < 12040) return "needs CUDA 12.4";
  if (device.number < 0) return "";  // made up
  cudaFuncAttributes compiled{};
  CUDA_CHECK(
      cudaFuncGetAttributes(&compiled, kind == Kind::async ? async_ring<2, 1> : bulk_ring<2, 1>));
  return compiled.ptxVersion < 10 * major ? "this build has no code for " + needed : "";
}

/// One block of few threads on each multiprocessor.
Row alone_row(const Way& way, const cudaDeviceProp& prop) {
  const size_t shared = std::max(ring_bytes(way, few), alone(prop));
  return {&way, few, 1, unsigned(prop.multiProcessorCount), shared};
}

/// All threads that a multiprocessor holds.
Row full_row(const Way& way, const cudaDeviceProp& prop) {
  const unsigned blocks = unsigned(prop.maxThreadsPerMultiProcessor) / block_full;
  return {&way, block_full, blocks, unsigned(prop.multiProcessorCount),
          ring_bytes(way, block_full)};
}

/// Of few threads by default: one, four and sixteen loads a thread; rings of four stages, and those
/// that hold the same 16 KiB in two, four and eight.
bool by_default(const Way& way) {
  if (way.kind == Kind::plain) return way.words == 1 || way.words == 4 || way.words == 16;
  return way.stages == 4 || way.stages * way.words == 8;
}

/// Of all threads: 16 and 32 bytes a thread, the latter also by rings of two stages: 64 KiB where
/// 2048 threads are resident, and at most 54 where 1536 share 100 KiB.
bool for_all_threads(const Way& way) {
  return way.words * way.stages == 2 || (way.kind == Kind::plain && way.words == 1);
}

/// What this run shows of what this GPU has.
std::vector<Row> rows_of(const Run& run) {
  const cudaDeviceProp& prop = run.device->prop;
  std::vector<Row> rows;
  for (const Way& way : ways)
    if ((run.full || by_default(way)) && ring_bytes(way, few) <= most_ring(prop) &&
        lacking(way.kind, *run.device).empty())
      rows.push_back(alone_row(way, prop));
  for (const Way& way : ways)
    if (for_all_threads(way) && lacking(way.kind, *run.device).empty())
      rows.push_back(full_row(way, prop));
  return rows;
}

/// The row of so many stages and words a thread; -1 if there is none.
int find(const std::vector<Row>& rows, unsigned threads, Kind kind, unsigned stages,
         unsigned words) {
  for (size_t i = 0; i < rows.size(); ++i)
    if (rows[i].threads == threads && rows[i].way->kind == kind && rows[i].way->stages == stages &&
        rows[i].way->words == words)
      return int(i);
  return -1;
}

// ---- what all rows read, and what their threads find ----

struct Memory {
  static constexpr size_t canaries = 64;  ///< behind what the threads write

  DeviceBuffer<uint4> in;
  DeviceBuffer<unsigned> out, wrong_sums{1};

  Memory(size_t words, unsigned most_threads) : in(words), out(most_threads + canaries) {
    fill<<<1024, 256>>>(in.data(), in.size());
    CUDA_CHECK_LAUNCH();
  }
  /// Threads whose sum is not that of their words.
  size_t wrong(const Row& row) {
    wrong_sums.copy_from({0});
    take_away<<<1024, 256>>>(out.data(), row.grid(), row.threads, row.tile(), in.size());
    count_wrong<<<256, 256>>>(out.data(), row.total(), wrong_sums.data());
    CUDA_CHECK_LAUNCH();
    return wrong_sums.to_host()[0];
  }
  Task task(const Row& row);
};

/// Lets a kernel ask for more than the 48 KiB that need no asking.
void allow_shared(const Way& way, size_t bytes) {
  cudaFuncAttributes now{};
  CUDA_CHECK(cudaFuncGetAttributes(&now, way.kernel));
  if (size_t(now.maxDynamicSharedSizeBytes) < bytes)
    CUDA_CHECK(
        cudaFuncSetAttribute(way.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(bytes)));
}

Task Memory::task(const Row& row) {
  allow_shared(*row.way, row.shared);
  Check check;
  check.poison = [this] { out.poison(); };
  check.wrong = [this, row] { return wrong(row); };
  return {row.name() + ", " + std::to_string(row.threads * row.blocks) + " threads",
          [this, row] {
            row.way->kernel<<<row.grid(), row.threads, row.shared>>>(out.data(), in.data(),
                                                                     in.size());
          },
          std::move(check)};
}

// ---- latency: a ring of slots all over the memory, as in in_flight ----

constexpr unsigned slot_words = 16;  // 256 bytes: no load finds what came with another

/// The slot after `slot` in a ring of 2^k slots: a generator of full period (factor 4 m + 1, odd
/// addend), which visits each once.
__host__ __device__ unsigned next_slot(unsigned slot, unsigned slots) {
  return (slot * 1664525u + 1013904223u) & (slots - 1);
}

__global__ void fill_slots(uint4* ring, unsigned slots) {
  for (unsigned s = blockIdx.x * blockDim.x + threadIdx.x; s < slots; s += gridDim.x * blockDim.x)
    ring[size_t(s) * slot_words] = make_uint4(next_slot(s, slots) * slot_words, 0, 0, 0);
}

/// The slots, and where a chase stands. A launch goes on where the one before ended: what comes
/// next is in no cache yet.
struct Slots {
  static constexpr unsigned loads = 2048;  ///< of a launch: about 0.7 ms

  unsigned count = 1;
  DeviceBuffer<uint4> words;
  DeviceBuffer<unsigned> at{1};
  unsigned from = 0;  ///< where the launch that is checked began

  /// At least `bytes`.
  explicit Slots(double bytes) {
    while (16.0 * slot_words * count < bytes) count *= 2;
    words = DeviceBuffer<uint4>(size_t(count) * slot_words);
    fill_slots<<<1024, 256>>>(words.data(), count);
    CUDA_CHECK_LAUNCH();
    at.copy_from({0});
  }
  /// The word at which a chase from `from` must end.
  unsigned end() const {
    unsigned slot = from / slot_words;
    for (unsigned k = 0; k < loads; ++k) slot = next_slot(slot, count);
    return slot * slot_words;
  }
  Task task(void (*kernel)(unsigned*, const uint4*, unsigned)) {
    Check check;
    check.poison = [this] { from = at.to_host()[0]; };  // a chase that stays there is wrong
    check.wrong = [this] { return size_t(at.to_host()[0] != end()); };
    return {"the chase", [this, kernel] { kernel<<<1, 1>>>(at.data(), words.data(), loads); },
            std::move(check)};
  }
};

// ---- what to expect ----

/// Measured in the same run.
struct Calibrated {
  double load_ns = NAN;     ///< latency of a load when nothing else runs; cp.async takes its way
  double bulk_ns = NAN;     ///< of a bulk copy
  double stage_ns = NAN;    ///< that a block takes for a stage of bulk copies, by eight of 2 KiB
  double memory_gbs = NAN;  ///< by plain loads of all threads, 32 bytes each
};

/// Nanoseconds in which a block comes round its ring if the memory is never the limit. A bulk
/// copy's latency; or what a block does for every stage, one after another: it wakes up, reads,
/// meets at the barrier, and one thread asks again. Loads and cp.async leave that to each warp by
/// itself.
double round_ns(const Way& way, const Calibrated& c) {
  if (way.kind != Kind::bulk) return c.load_ns;
  return std::max(c.bulk_ns, way.stages * c.stage_ns);
}

/// Nanoseconds of a turn, in which `bytes` come and as many others set out. in_flight's model: the
/// root of the sum of squares of the latency and of what the memory needs to pass them on fits an
/// H200. What stages cost goes on beside the copies: the longer of the two counts. Left out: a
/// thread with several loads waits for the last of them, and a stage is not under way while it is
/// read.
double turn_ns(const Way& way, double bytes, const Calibrated& c) {
  const double latency = way.kind == Kind::bulk ? c.bulk_ns : c.load_ns;
  return std::max(std::hypot(latency, bytes / c.memory_gbs), round_ns(way, c));
}

/// Little's law.
double predicted_gbs(const Way& way, double bytes, const Calibrated& c) {
  return bytes / turn_ns(way, bytes, c);
}

/// Which limit is the larger one.
Model model_of(const Way& way, double bytes, const Calibrated& c) {
  return bytes / c.memory_gbs > round_ns(way, c) ? Model::traffic : Model::latency;
}

// ---- the experiment ----

/// Bytes of the slots, or of the array: more than the L2 can keep, where they fit.
double shrunk(double bytes, double there) {
  while (bytes > 0.4 * there) bytes /= 2;
  return bytes;
}

double bytes_read(const Run& run) {
  double bytes = run.quick ? 1 << 28 : 1 << 30;
  while (run.device && !beyond_l2(*run.device, bytes)) bytes *= 2;
  return shrunk(bytes, run.memory_there());
}

/// A power of two.
double bytes_of_slots(const Run& run) {
  double bytes = 1 << 27;
  while (!beyond_l2(*run.device, bytes)) bytes *= 2;
  return shrunk(bytes, run.memory_there());
}

/// Nanoseconds that each load of a chase took. A launch adds 2 us, which are left in.
Statistics ns_a_load(const Readings& ms, unsigned loads) {
  return scaled(ms.statistics(), 1e6 / loads);
}

/// The two latencies, and the rows that say so.
Calibrated show_latencies(const Run& run, Slots& slots) {
  const Statistics load = ns_a_load(run.time(slots.task(chase)), Slots::loads);
  Calibrated c;
  c.load_ns = load.median;
  Table table(run.report, "latency", {compared("ns", "latency", "ns", 0), shown("spread")});
  table.row({"a load"}, {Calibration{load}, spread_text(load)});
  if (lacking(Kind::bulk, *run.device).empty()) {
    const Statistics bulk = ns_a_load(run.time(slots.task(bulk_chase)), Slots::loads);
    c.bulk_ns = bulk.median;
    table.row({"a bulk copy"}, {Calibration{bulk}, spread_text(bulk)});
  }
  table.print();
  return c;
}

/// Statistics of the rates, all of which read `bytes`.
std::vector<Statistics> rates(double bytes, const std::vector<Readings>& times) {
  std::vector<Statistics> gbs;
  for (const Readings& ms : times) gbs.push_back(gigabytes_per_second(bytes, ms.statistics()));
  return gbs;
}

/// The row from which the memory's rate comes.
int memory_row(const std::vector<Row>& rows) { return find(rows, block_full, Kind::plain, 1, 2); }

/// The row from which the cost of a stage comes: the smallest stages, and most of them. -1 if there
/// are no bulk copies.
int stage_row(const std::vector<Row>& rows) { return find(rows, few, Kind::bulk, 8, 1); }

/// Takes the two constants that rows of the table give.
void calibrate(const std::vector<Row>& rows, const std::vector<Statistics>& gbs, Calibrated& c) {
  c.memory_gbs = gbs[size_t(memory_row(rows))].median;
  const int stage = stage_row(rows);
  if (stage < 0) return;
  const Row& row = rows[size_t(stage)];
  c.stage_ns = row.in_flight() / gbs[size_t(stage)].median / row.way->stages;
}

void show(const Run& run, const std::vector<Row>& rows, const std::vector<Statistics>& gbs,
          const Calibrated& c) {
  Table table(run.report, "way, threads of a multiprocessor",
              {predicted("KiB in flight", "bytes in flight", "KiB", 0),
               compared("GB/s", "rate", "GB/s", 0), shown("spread"),
               measured("ns", "latency", "ns", 0), shown("of the loads' most"), shown("")});
  for (size_t i = 0; i < rows.size(); ++i) {
    const Way& way = *rows[i].way;
    const double bytes = rows[i].in_flight();
    const double share = gbs[i].median / c.memory_gbs;
    const bool calibrates = int(i) == memory_row(rows) || int(i) == stage_row(rows);
    const Cell rate =
        calibrates ? Cell(Calibration{gbs[i]})
                   : Cell(Compared{predicted_gbs(way, bytes, c), gbs[i], model_of(way, bytes, c)});
    table.row({rows[i].name(), "threads", std::to_string(rows[i].threads * rows[i].blocks)},
              {bytes / 1024 / rows[i].multiprocessors, rate, spread_text(gbs[i]),
               bytes / gbs[i].median, fixed(100 * share, 0) + "%", bar(share)});
  }
  table.print();
  run.report.note("KiB in flight: of a multiprocessor. ns: bytes in flight / rate");
  run.report.note("predicted: a turn takes the root of latency^2 + (bytes / most GB/s)^2");
  if (stage_row(rows) >= 0)
    run.report.note("by bulk copies no less than stages x " + fixed(c.stage_ns, 0) +
                    " ns, as in the row of 8 x 2 KiB");
}

/// Says how many times as fast `row` is as `other`, if both were measured.
void find_gain(const Run& run, const std::vector<Readings>& times, int row, int other,
               const std::string& what, const std::string& than) {
  if (row < 0 || other < 0) return;
  const Interval gain = ratio(times[size_t(other)], times[size_t(row)]);
  if (!gain.measured()) return;
  run.report.finding("async_copy", what + " " + faster(gain, than));
}

/// What a ring gains over loads into registers, with few threads and with all.
void find_gains(const Run& run, const std::vector<Row>& rows, const std::vector<Readings>& times) {
  const int four = find(rows, few, Kind::plain, 1, 4);
  const int sixteen = find(rows, few, Kind::plain, 1, 16);
  const int two_of_all = find(rows, block_full, Kind::plain, 1, 2);
  for (const Kind kind : {Kind::async, Kind::bulk}) {
    const std::string name = kind == Kind::async ? "cp.async" : "bulk copies";
    find_gain(run, times, find(rows, few, kind, 4, 8), four,
              "128 threads: " + name + ", 4 x 16 KiB,", "4 loads a thread");
    find_gain(run, times, find(rows, few, kind, 4, 4), sixteen,
              "128 threads: " + name + ", 4 x 8 KiB,", "16 loads a thread, as many bytes");
    find_gain(run, times, find(rows, block_full, kind, 2, 1), two_of_all,
              "all threads: " + name + ", 2 x 4 KiB a block,", "2 loads a thread, as many bytes");
  }
}

void say_what_is_left_out(const Run& run) {
  for (const Kind kind : {Kind::async, Kind::bulk}) {
    const std::string why = lacking(kind, *run.device);
    if (!why.empty()) run.report.left_out(kind == Kind::async ? "cp.async" : "bulk copies", why);
  }
}

}  // namespace

void async_copy(const Run& run) {
  const double bytes = bytes_read(run);
  run.report.begin("async_copy", bytes_text(bytes) + " read, by one block of " +
                                     std::to_string(few) +
                                     " threads a multiprocessor and by all that it holds");
  if (!run.device) {
    run.report.note(
        "Little's law: GB/s = bytes in flight / latency in ns; 132 multiprocessors "
        "with 8 KiB each and 600 ns give " +
        fixed(132 * 8192 / 600.0, 0) + " GB/s");
    return run.report.left_out("the latencies and the rates");
  }
  if (!beyond_l2(*run.device, bytes))
    run.report.note("that is less than four times the L2: the cache's rates");
  say_what_is_left_out(run);

  const std::vector<Row> rows = rows_of(run);
  unsigned most_threads = 0;
  for (const Row& row : rows) most_threads = std::max(most_threads, row.total());
  Slots slots(bytes_of_slots(run));
  Memory memory(size_t(bytes / 16), most_threads);  // which drives the slots out of the L2

  Calibrated c = show_latencies(run, slots);
  std::vector<Task> tasks;
  for (const Row& row : rows) tasks.push_back(memory.task(row));
  const std::vector<Readings> times = run.time_in_turn(tasks);
  const std::vector<Statistics> gbs = rates(16.0 * double(memory.in.size()), times);
  calibrate(rows, gbs, c);
  show(run, rows, gbs, c);
  find_gains(run, rows, times);
}
