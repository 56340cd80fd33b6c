// ladder: the sum of n words. The vendor's guide [KP] sums a block's words in shared memory three
// times: with divergent warps (its `reduce`), with whole warps but bank conflicts (`reduce1`), and
// with neither (`reduce2`). It says that the second beats the first and the third beats both, and
// that divergence is "the biggest problem" of the first, bank conflicts that of the second. Two
// things to look at:
//   - The mask. Its threads diverge as in the first kernel, but without the division of %. That
//     alone doubles the rate. Kernel 4 does the same for the conflicts: it has none, and is
//     otherwise the guide's second.
//   - What is left to gain after the guide's last version, and what each idea beyond it takes away.
//
//   cmake -S 06_shared_reduce -B build/ladder -DEXPERIMENTS=ladder
//   cmake --build build/ladder && build/ladder/06_shared_reduce ladder
//
//   1  reduce_modulo          the text's `reduce`: every 2s-th thread adds its neighbour at
//   distance s 2  reduce_mask            the same threads, found without a division 3
//   reduce_strided         the text's `reduce1`: the first threads add, words 2s apart 4
//   reduce_strided_padded  kernel 3, its words spread over all banks 5  reduce_descending      the
//   text's `reduce2`: the first threads add, words side by side 6  reduce_add_on_load     5, two
//   words per thread, added while they are loaded 7  reduce_shuffle         6, the last 32 words by
//   exchanges of registers 8  reduce_redux           6, the last 32 words by one instruction 9
//   reduce_several         as many blocks as fit at once, each for many words
//  10  reduce_vector          9 in 16-byte words
//  11  sum_once               eight 16-byte words per thread in flight, one launch for all
//  12  sum_streaming          11, told that no word is used twice
#include <climits>
#include <cstring>

#include "../framework/common/checked.cuh"
#include "../framework/common/experiment.hpp"
#include "ladder.hpp"
#include "options.hpp"

using namespace samples;

// ---- the text's reductions: one word per thread, one sum per block, launched again over the sums
// ----

// [reduce_modulo]
// In the first step every other thread of a warp adds, in the fifth one of 32, and all warps take
// part. A warp reads its own words, each bank once. The compiler does not know s, so that % is a
// division.
template <class T>
__global__ void reduce_modulo(const T* in, size_t n, T* out) {
  __shared__ T word[block_threads];
  const unsigned tid = threadIdx.x;
  const size_t i = blockIdx.x * size_t(blockDim.x) + tid;
  word[tid] = i < n ? in[i] : T(0);  // load
  __syncthreads();
  for (unsigned s = 1; s < blockDim.x; s *= 2) {  // a step: add, with stride 1, 2, 4 ...
    if (tid % (2 * s) == 0) word[tid] += word[tid + s];
    __syncthreads();
  }
  if (tid == 0) out[blockIdx.x] = word[0];
}
// [/reduce_modulo]

// The same threads add the same words. 2 s is a power of two, so a mask takes the place of %: the
// same divergence, and no division.
template <class T>
__global__ void reduce_mask(const T* in, size_t n, T* out) {
  __shared__ T word[block_threads];
  const unsigned tid = threadIdx.x;
  const size_t i = blockIdx.x * size_t(blockDim.x) + tid;
  word[tid] = i < n ? in[i] : T(0);
  __syncthreads();
  for (unsigned s = 1; s < blockDim.x; s *= 2) {
    if ((tid & (2 * s - 1)) == 0) word[tid] += word[tid + s];
    __syncthreads();
  }
  if (tid == 0) out[blockIdx.x] = word[0];
}

// [reduce_strided]
// The first threads add, so that whole warps have nothing to do. But the words of a warp lie 2 s
// apart: 2, 4 or 8 of them are in one bank of shared memory, which serves them one after the other.
template <class T>
__global__ void reduce_strided(const T* in, size_t n, T* out) {
  __shared__ T word[block_threads];
  const unsigned tid = threadIdx.x;
  const size_t i = blockIdx.x * size_t(blockDim.x) + tid;
  word[tid] = i < n ? in[i] : T(0);
  __syncthreads();
  for (unsigned s = 1; s < blockDim.x; s *= 2) {
    const unsigned left = 2 * s * tid;
    if (left < blockDim.x) word[left] += word[left + s];
    __syncthreads();
  }
  if (tid == 0) out[blockIdx.x] = word[0];
}
// [/reduce_strided]

// Kernel 3 with an unused word behind each 32 words: word i lies at i + i / 32. Words that are 2,
// 4, 8 or 16 apart are then in 32 different banks. The conflicts are gone, the index costs more.
template <class T>
__global__ void reduce_strided_padded(const T* in, size_t n, T* out) {
  constexpr unsigned words = block_threads + block_threads / 32;
  __shared__ T word[words];
  const unsigned tid = threadIdx.x;
  const size_t i = blockIdx.x * size_t(blockDim.x) + tid;
  word[tid + tid / 32] = i < n ? in[i] : T(0);
  __syncthreads();
  for (unsigned s = 1; s < blockDim.x; s *= 2) {
    const unsigned left = 2 * s * tid, at = left + left / 32;
    if (at < words) word[at] += word[at + s + s / 32];  // s + s / 32: the word that is s behind
    __syncthreads();
  }
  if (tid == 0) out[blockIdx.x] = word[0];
}

// [reduce_descending]
// The first threads add, and a warp adds 32 neighbours: each bank is read once.
template <class T>
__global__ void reduce_descending(const T* in, size_t n, T* out) {
  __shared__ T word[block_threads];
  const unsigned tid = threadIdx.x;
  const size_t i = blockIdx.x * size_t(blockDim.x) + tid;
  word[tid] = i < n ? in[i] : T(0);
  __syncthreads();
  for (unsigned s = blockDim.x / 2; s > 0; s /= 2) {  // stride 128, 64 ... 1
    if (tid < s) word[tid] += word[tid + s];
    __syncthreads();
  }
  if (tid == 0) out[blockIdx.x] = word[0];
}
// [/reduce_descending]

// ---- beyond the text ----

// In the first step of kernel 5 half of the threads have nothing to do. Here each thread adds two
// words while it loads them, and both loads are in flight together: half as many blocks.
template <class T>
__global__ void reduce_add_on_load(const T* in, size_t n, T* out) {
  __shared__ T word[block_threads];
  const unsigned tid = threadIdx.x;
  const size_t i = blockIdx.x * size_t(2 * blockDim.x) + tid;
  const T first = i < n ? in[i] : T(0);
  const T second = i + blockDim.x < n ? in[i + blockDim.x] : T(0);
  word[tid] = first + second;
  __syncthreads();
  for (unsigned s = blockDim.x / 2; s > 0; s /= 2) {
    if (tid < s) word[tid] += word[tid + s];
    __syncthreads();
  }
  if (tid == 0) out[blockIdx.x] = word[0];
}

constexpr unsigned whole_warp = 0xffffffff;

// The sum of a warp's 32 values, in every lane: five exchanges of registers, without shared memory
// and without a barrier. (Older code adds words in shared memory without a barrier, "because a warp
// runs in step". Since compute capability 7.0 it need not, and that is wrong.)
template <class T>
__device__ T warp_sum(T value) {
  for (unsigned lane = 16; lane > 0; lane /= 2) value += __shfl_xor_sync(whole_warp, value, lane);
  return value;
}

// The steps in shared memory end at 32 words, which one warp then adds. Seven of eight warps have
// ended, and no barrier follows.
template <class T>
__global__ void reduce_shuffle(const T* in, size_t n, T* out) {
  __shared__ T word[block_threads];
  const unsigned tid = threadIdx.x;
  const size_t i = blockIdx.x * size_t(2 * blockDim.x) + tid;
  const T first = i < n ? in[i] : T(0);
  const T second = i + blockDim.x < n ? in[i + blockDim.x] : T(0);
  word[tid] = first + second;
  __syncthreads();
  for (unsigned s = blockDim.x / 2; s >= 32; s /= 2) {
    if (tid < s) word[tid] += word[tid + s];
    __syncthreads();
  }
  if (tid < 32) word[tid] = warp_sum(word[tid]);
  if (tid == 0) out[blockIdx.x] = word[0];
}

// Kernel 7 with one instruction in place of the five exchanges. Compute capability 8.0 and later
// have it, for whole numbers.
__global__ void reduce_redux(const unsigned* in, size_t n, unsigned* out) {
  __shared__ unsigned word[block_threads];
  const unsigned tid = threadIdx.x;
  const size_t i = blockIdx.x * size_t(2 * blockDim.x) + tid;
  const unsigned first = i < n ? in[i] : 0;
  const unsigned second = i + blockDim.x < n ? in[i + blockDim.x] : 0;
  word[tid] = first + second;
  __syncthreads();
  for (unsigned s = blockDim.x / 2; s >= 32; s /= 2) {
    if (tid < s) word[tid] += word[tid + s];
    __syncthreads();
  }
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  if (tid < 32) word[tid] = __reduce_add_sync(whole_warp, word[tid]);
#else
  if (tid < 32) word[tid] = warp_sum(word[tid]);
#endif
  if (tid == 0) out[blockIdx.x] = word[0];
}

// A warp loads 32 neighbours, adds them to what its threads have, and goes on by the whole grid.
// The steps of a block are paid once for many words. One load of 4 bytes per thread is in flight.
template <class T>
__global__ void reduce_several(const T* in, size_t n, T* out) {
  __shared__ T word[block_threads];
  const unsigned tid = threadIdx.x;
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  T sum = 0;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + tid; i < n; i += threads) sum += in[i];
  word[tid] = sum;
  __syncthreads();
  for (unsigned s = blockDim.x / 2; s >= 32; s /= 2) {
    if (tid < s) word[tid] += word[tid + s];
    __syncthreads();
  }
  if (tid < 32) word[tid] = warp_sum(word[tid]);
  if (tid == 0) out[blockIdx.x] = word[0];
}

/// Four words that are loaded at once.
template <class T>
using Quad = std::conditional_t<std::is_same_v<T, float>, float4, uint4>;

// A warp loads 512 bytes at a time instead of 128. Quads begin at the first multiple of 128 bytes,
// so that a warp's load covers whole lines. The first threads of block 0 take the words before the
// first quad and those behind the last one.
template <class T>
__global__ void reduce_vector(const T* in, size_t n, T* out) {
  __shared__ T word[block_threads];
  const unsigned tid = threadIdx.x;
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  const size_t to_line = (128 - reinterpret_cast<size_t>(in) % 128) % 128 / 4;
  const size_t head = to_line < n ? to_line : n;  // words before the first quad: up to 31
  const size_t count = (n - head) / 4;
  const size_t tail = (n - head) % 4;  // words behind the last quad
  const Quad<T>* quad = reinterpret_cast<const Quad<T>*>(in + head);

  T sum = 0;
  if (blockIdx.x == 0)
    sum = (tid < head ? in[tid] : T(0)) + (tid < tail ? in[n - tail + tid] : T(0));
  for (size_t i = blockIdx.x * size_t(blockDim.x) + tid; i < count; i += threads) {
    const Quad<T> v = quad[i];
    sum += (v.x + v.y) + (v.z + v.w);
  }
  word[tid] = sum;
  __syncthreads();
  for (unsigned s = blockDim.x / 2; s >= 32; s /= 2) {
    if (tid < s) word[tid] += word[tid + s];
    __syncthreads();
  }
  if (tid < 32) word[tid] = warp_sum(word[tid]);
  if (tid == 0) out[blockIdx.x] = word[0];
}

// ---- one launch ----

using Slot = unsigned long long;

// The sum of a block's values, in its thread 0: each warp adds its own by exchanges, then one warp
// adds the sums of the warps. One barrier.
template <class T>
__device__ T block_sum(T value, T* of_warps) {
  value = warp_sum(value);
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = value;
  __syncthreads();
  if (threadIdx.x >= 32) return T(0);
  return warp_sum(threadIdx.x < blockDim.x / 32 ? of_warps[threadIdx.x] : T(0));
}

// Leaves a block's sum in its slot: 8 bytes, the sum's bits and above them a 1, written by one
// store and read by one load. No thread sees one half without the other, so that no fence and no
// atomic is needed to order them.
template <class T>
__device__ void put(volatile Slot* slot, T sum) {
  Slot marked = Slot(1) << 32;
  memcpy(&marked, &sum, sizeof sum);  // the lower half
  *slot = marked;
}

// Waits for the sums in the slots of a thread and adds them, in a fixed order. All loads of a round
// are issued before the first wait. Each slot is left at 0, as it was before the launch.
template <class T>
__device__ T take(volatile Slot* slots, unsigned count) {
  T sum = 0;
  for (unsigned first = threadIdx.x; first < count; first += tile_quads) {
    Slot found[tile_loads];
#pragma unroll
    for (unsigned k = 0; k < tile_loads; ++k) {
      const unsigned i = first + k * tile_threads;
      found[k] = i < count ? slots[i] : 0;
    }
#pragma unroll
    for (unsigned k = 0; k < tile_loads; ++k) {
      const unsigned i = first + k * tile_threads;
      if (i >= count) break;
      while (found[k] >> 32 == 0) found[k] = slots[i];
      slots[i] = 0;
      T there;
      memcpy(&there, &found[k], sizeof there);
      sum += there;
    }
  }
  return sum;
}

// A block takes tiles of 64 KiB, one grid apart. Eight 16-byte loads of each thread are in flight
// before the first addition. The block leaves its sum in a slot. The last block waits for all slots
// and adds them. The others wait for nothing, so all of them end in whatever order blocks start.
template <class T>
__global__ void __launch_bounds__(tile_threads, tile_blocks_each)
    sum_once(const T* in, size_t n, T* out, Slot* slots) {
  __shared__ T of_block[tile_threads / 32], of_grid[tile_threads / 32];
  const unsigned tid = threadIdx.x;
  const size_t to_line = (128 - reinterpret_cast<size_t>(in) % 128) % 128 / 4;
  const size_t head = to_line < n ? to_line : n;
  const size_t count = (n - head) / 4;
  const size_t tail = (n - head) % 4;
  const Quad<T>* quad = reinterpret_cast<const Quad<T>*>(in + head);

  // [sum_once]
  T sum = 0;
  if (blockIdx.x == 0)
    sum = (tid < head ? in[tid] : T(0)) + (tid < tail ? in[n - tail + tid] : T(0));
#pragma unroll 1
  for (size_t tile = blockIdx.x; tile * tile_quads < count; tile += gridDim.x) {
    Quad<T> v[tile_loads];
#pragma unroll
    for (unsigned k = 0; k < tile_loads; ++k) {  // load
      const size_t i = tile * tile_quads + k * tile_threads + tid;
      v[k] = i < count ? quad[i] : Quad<T>{};
    }
#pragma unroll
    for (unsigned k = 0; k < tile_loads; ++k) sum += (v[k].x + v[k].y) + (v[k].z + v[k].w);
  }

  sum = block_sum(sum, of_block);
  if (tid == 0) put(slots + blockIdx.x, sum);
  if (blockIdx.x < gridDim.x - 1) return;
  sum = block_sum(take<T>(slots, gridDim.x), of_grid);
  if (tid == 0) *out = sum;
  // [/sum_once]
}

// Kernel 11 with loads that say that each word is used once (__ldcs): it is then among the first to
// leave the L2. Words that do not fit there are not found there next time either.
template <class T>
__global__ void __launch_bounds__(tile_threads, tile_blocks_each)
    sum_streaming(const T* in, size_t n, T* out, Slot* slots) {
  __shared__ T of_block[tile_threads / 32], of_grid[tile_threads / 32];
  const unsigned tid = threadIdx.x;
  const size_t to_line = (128 - reinterpret_cast<size_t>(in) % 128) % 128 / 4;
  const size_t head = to_line < n ? to_line : n;
  const size_t count = (n - head) / 4;
  const size_t tail = (n - head) % 4;
  const Quad<T>* quad = reinterpret_cast<const Quad<T>*>(in + head);

  T sum = 0;
  if (blockIdx.x == 0)
    sum = (tid < head ? in[tid] : T(0)) + (tid < tail ? in[n - tail + tid] : T(0));
#pragma unroll 1
  for (size_t tile = blockIdx.x; tile * tile_quads < count; tile += gridDim.x) {
    Quad<T> v[tile_loads];
#pragma unroll
    for (unsigned k = 0; k < tile_loads; ++k) {
      const size_t i = tile * tile_quads + k * tile_threads + tid;
      v[k] = i < count ? __ldcs(quad + i) : Quad<T>{};
    }
#pragma unroll
    for (unsigned k = 0; k < tile_loads; ++k) sum += (v[k].x + v[k].y) + (v[k].z + v[k].w);
  }

  sum = block_sum(sum, of_block);
  if (tid == 0) put(slots + blockIdx.x, sum);
  if (blockIdx.x < gridDim.x - 1) return;
  sum = block_sum(take<T>(slots, gridDim.x), of_grid);
  if (tid == 0) *out = sum;
}

// in ladder_cub.cu
void cub_sum(void* scratch, size_t& scratch_bytes, const float* in, float* out, int n,
             cudaStream_t stream);
void cub_sum(void* scratch, size_t& scratch_bytes, const unsigned* in, unsigned* out, int n,
             cudaStream_t stream);

namespace {

// ---- the kernels by name ----

template <class T>
using Start = void (*)(unsigned blocks, cudaStream_t, const T* in, size_t n, T* out, Slot* slots);

template <class T>
void start(void (*kernel)(const T*, size_t, T*), unsigned blocks, cudaStream_t stream, const T* in,
           size_t n, T* out, Slot*) {
  kernel<<<blocks, block_threads, 0, stream>>>(in, n, out);
}
template <class T>
void start(void (*kernel)(const T*, size_t, T*, Slot*), unsigned blocks, cudaStream_t stream,
           const T* in, size_t n, T* out, Slot* slots) {
  kernel<<<blocks, tile_threads, 0, stream>>>(in, n, out, slots);
}

template <class T>
struct Kernel {
  std::string_view key;  ///< its name
  Start<T> start;
};
template <class T, auto kernel>
Kernel<T> named() {
  const std::string_view name = name_of<kernel>();  // "reduce_mask<float>"
  return {name.substr(0, name.find('<')),
          [](unsigned blocks, cudaStream_t stream, const T* in, size_t n, T* out, Slot* slots) {
            start(kernel, blocks, stream, in, n, out, slots);
          }};
}

/// Null for the library, and for an instruction that floats do not have.
template <class T>
Start<T> kernel_of(const Rung& rung) {
  static const Kernel<T> kernels[] = {
      named<T, reduce_modulo<T>>(),     named<T, reduce_mask<T>>(),
      named<T, reduce_strided<T>>(),    named<T, reduce_strided_padded<T>>(),
      named<T, reduce_descending<T>>(), named<T, reduce_add_on_load<T>>(),
      named<T, reduce_shuffle<T>>(),    named<T, reduce_several<T>>(),
      named<T, reduce_vector<T>>(),     named<T, sum_once<T>>(),
      named<T, sum_streaming<T>>(),
  };
  if constexpr (std::is_same_v<T, unsigned>)
    if (rung.key == "reduce_redux") return named<T, reduce_redux>().start;
  const Kernel<T>* kernel = with_key(kernels, Ref(rung.key));
  return kernel ? kernel->start : nullptr;
}

/// Why there is no such sum of `n` words of this type; empty: there is.
template <class T>
std::string missing(const Rung& rung, size_t n, const Device* device) {
  if (rung.grid == Grid::library) return n > INT_MAX ? "its count is an int here" : "";
  if (rung.key != "reduce_redux" || !device) return "";
  if (device->prop.major < 8) return "needs compute capability 8.0";
  if (device->number < 0) return "";  // made up or recorded: it has its rows whatever was built
  cudaFuncAttributes code{};
  CUDA_CHECK(cudaFuncGetAttributes(&code, reduce_redux));
  return code.ptxVersion < 80 ? "this build has no code for compute capability 8.0" : "";
}

// ---- what is right ----

/// What the words are. Of unsigned all are whole and different, and sums are modulo 2^32. Of float,
/// array d holds hexadecimal digit d of the same numbers, made odd and of either sign (-15 to 15):
/// sums stay small, and exact in any order. A word left out and another taken twice change the sum
/// of at least one of the eight. Measured is array 0; self-checks take all of them.
constexpr unsigned digits = 8;
constexpr unsigned fractions = digits;  ///< multiples of 2^-24 from 0 to 1, whose float sums round

/// Word i in units in which all words are whole.
template <class T>
__host__ __device__ long long units_of(unsigned digit, size_t i) {
  const unsigned x = scrambled(i);
  if (std::is_same_v<T, unsigned>) return x;
  if (digit == fractions) return x >> 8;
  return int(x >> 4 * digit & 15) * 2 - 15;
}

/// The word at a place of an array that begins with `offset` words which nobody is to read, and
/// ends with others.
template <class T>
struct WordAt {
  unsigned digit;
  size_t offset, n;
  __device__ T operator()(size_t at) const {
    if (at < offset || at >= offset + n) return T(1 << 20);
    const long long units = units_of<T>(digit, at - offset);
    return digit == fractions ? T(float(units) * 0x1p-24f) : T(units);
  }
};

// From the description alone, with a 64-bit atomic of each thread: nothing of it is in shared
// memory, and no order matters.
template <class T>
__global__ void add_units(unsigned long long* sum, unsigned digit, size_t n) {
  long long mine = 0;
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += threads)
    mine += units_of<T>(digit, i);
  atomicAdd(sum, (unsigned long long)(mine));
}

template <class T>
long long exact_sum(unsigned digit, size_t n) {
  const DeviceBuffer<unsigned long long> sum(std::vector<unsigned long long>{0});
  add_units<T><<<1024, 256>>>(sum.data(), digit, n);
  CUDA_CHECK_LAUNCH();
  return (long long)(sum.to_host()[0]);
}

template <class T>
struct IsSum {
  T right;
  __device__ bool operator()(size_t, T found) const { return found == right; }
};

/// Of partial sums: `used` of them may be anything, behind them the poison must still stand.
template <class T>
struct Untouched {
  size_t used;
  __device__ bool operator()(size_t i, T found) const {
    unsigned bits;
    memcpy(&bits, &found, sizeof bits);
    return i < used || bits == ~0u;
  }
};

size_t most_partial_sums(size_t n, Gpu gpu) {
  size_t most = 0;
  for (const Rung& rung : rungs) most = std::max(most, partial_sums(rung, n, gpu));
  return most;
}

/// `n` words, and memory for sums of up to so many of them.
template <class T>
struct Words {
  static constexpr size_t behind = 64;  ///< words, if there are any before the first

  size_t n;
  Gpu gpu;
  unsigned digit;
  DeviceBuffer<T> all;
  const T* in;
  Output<T> out, partial;
  DeviceBuffer<Slot> slots;
  DeviceBuffer<char> for_library;

  Words(size_t n, Gpu gpu, unsigned digit = 0, size_t offset = 0)
      : n(n),
        gpu(gpu),
        digit(digit),
        all(filled<T>(offset + n + (offset ? behind : 0), WordAt<T>{digit, offset, n})),
        in(all.data() + offset),
        out(1),
        partial(most_partial_sums(n, gpu)),
        slots(tile_blocks(n, gpu)) {
    CUDA_CHECK(cudaMemset(slots.data(), 0, slots.bytes()));
    size_t bytes = 0;
    cub_sum(nullptr, bytes, out.data(), out.data(), int(std::min<size_t>(n, INT_MAX)), nullptr);
    for_library = DeviceBuffer<char>(bytes);
  }

  /// Queues the whole sum of the first `count` words: when it has run, `out` holds the result.
  void sum(const Rung& rung, Start<T> kernel, size_t count, cudaStream_t stream = nullptr) const {
    if (rung.grid == Grid::library) {
      size_t bytes = for_library.bytes();
      return cub_sum(for_library.data(), bytes, in, out.data(), int(count), stream);
    }
    const T* from = in;
    T* next = partial.data();
    for (const size_t blocks : launches(rung, count, gpu)) {
      T* const to = blocks == 1 || rung.grid == Grid::tiles ? out.data() : next;
      kernel(unsigned(blocks), stream, from, count, to, slots.data());
      from = to;  // the next launch sums what is left
      count = blocks;
      next += blocks;
    }
    CUDA_CHECK_LAUNCH();
  }
  void poison() {
    out.poison();
    partial.poison();
  }
  /// Wrong results, and words that somebody wrote behind the partial sums.
  size_t wrong(const Rung& rung, size_t count, T right) const {
    return out.wrong(IsSum<T>{right}) + partial.wrong(Untouched<T>{partial_sums(rung, count, gpu)});
  }
  T result() const { return out.to_host()[0]; }
};

template <class T>
Task task_of(const Shared<Words<T>>& words, const Ref& ref, const Rung& rung, size_t n) {
  const T right = T(exact_sum<T>(words->digit, n));
  const Start<T> kernel = kernel_of<T>(rung);  // not looked up while the clock runs
  return {text(ref),
          [words, &rung, kernel, n] { words->sum(rung, kernel, n); },
          {[words] { words->poison(); },
           [words, &rung, n, right] { return words->wrong(rung, n, right); }, ""}};
}

// ---- sums that a graph starts one after the other, without the host ----

/// So many that the graph's own start hardly counts.
int sums_of_a_graph(size_t n) {
  return int(std::clamp<size_t>((size_t(1) << 31) / std::max<size_t>(n, 1), 1, 200));
}

struct Graph {
  cudaGraphExec_t runnable = nullptr;

  template <class T>
  Graph(const Words<T>& words, const Rung& rung, size_t n) {
    const Stream stream;
    cudaGraph_t recorded = nullptr;
    CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < sums_of_a_graph(n); ++i) words.sum(rung, kernel_of<T>(rung), n, stream);
    CUDA_CHECK(cudaStreamEndCapture(stream, &recorded));
    CUDA_CHECK(cudaGraphInstantiate(&runnable, recorded, 0));
    CUDA_CHECK(cudaGraphDestroy(recorded));
  }
  Graph(Graph&& other) noexcept : runnable(std::exchange(other.runnable, nullptr)) {}
  ~Graph() {
    if (runnable) cudaGraphExecDestroy(runnable);
  }
};

template <class T>
Task replayed(const Shared<Words<T>>& words, const Ref& ref, const Rung& rung, size_t n) {
  Task task = task_of(words, ref, rung, n);
  const Shared graph(Graph(*words, rung, n));
  task.launch = [graph] { CUDA_CHECK(cudaGraphLaunch(graph->runnable, nullptr)); };
  return task;
}

// ---- the experiment ----

/// The words, the text's partial sums (less than a 254th of them), and what allocations round up.
double bytes_needed(size_t n) { return 4.0 * double(n) * (1 + 1.0 / 254) + (16 << 20); }

size_t words_of(const Run& run) {
  const size_t typed = options_of(run).size;
  size_t by_default = size_t(1) << (run.quick ? 26 : 28);
  while (run.device && !beyond_l2(*run.device, 4.0 * double(by_default))) by_default *= 2;
  return fitting_size("ladder of " + std::to_string(typed) + " words", typed, by_default,
                      run.memory_there(), bytes_needed);
}
void require_fit(const Run& run) { words_of(run); }

/// The sizes at which one launch is measured beside the library: the typed one, if there is one;
/// else powers of two, and in a full run the number behind each.
std::vector<size_t> sizes_beside_library(const Run& run) {
  const size_t typed = options_of(run).size;
  if (typed == 1 || typed > INT_MAX) return {};  // what starting costs; more than CUB counts
  if (typed) return {typed};
  std::vector<size_t> sizes;
  for (const int power : {20, 22, 24, 26, 28, 30}) {
    if (power > (run.quick ? 24 : 30) || (power % 4 == 2 && power < 30 && !run.full)) continue;
    for (const size_t size : {size_t(1) << power, (size_t(1) << power) + 1})
      if ((size % 2 == 0 || run.full) && bytes_needed(size) <= 0.9 * run.memory_there())
        sizes.push_back(size);
  }
  return sizes;
}

double theory_share(const Run& run, double gbs) {
  const bool known = run.device && run.device->theoretical_gbs > 0;
  return known ? gbs / run.device->theoretical_gbs : NAN;
}

/// Times, of which each row's task takes `sums` sums.
std::vector<Shown> columns_of_times(const Run& run, int decimals,
                                    const Function<int(const Row&)>& sums) {
  return {in_unit(compared("us", "time of a sum", "us", decimals),
                  [=](const Row& row, double ms) { return 1e3 * ms / sums(row); }),
          spread(),
          in_unit(measured("GB/s", "bandwidth", "GB/s", 0), gbs_of),
          {shown("of theory"), {}, {}, [&run](const Row& row, const Statistics& ms) {
             return percent(theory_share(run, gbs_of(row, ms.median)));
           }}};
}
int one_sum(const Row&) { return 1; }

/// A row of float words has the kernel's name, one of unsigned words that with an ending.
template <class T>
Ref ref_of(const Rung& rung) {
  return std::string(rung.key) + (std::is_same_v<T, float> ? "" : "_unsigned");
}
template <class T>
const Rung& rung_of_row(const Ref& ref) {
  for (const Rung& rung : rungs)
    if (same(ref, ref_of<T>(rung))) return rung;
  throw std::logic_error("'" + ref.key + "' is no row of a rung");
}

/// The time of one word in one launch: the model's first constant.
double measure_launch(const Run& run) {
  const std::vector<Shown> columns = columns_of_times(run, 1, one_sum);
  Sheet sheet(run, "a launch", {columns[0], columns[1]});
  sheet.add({.ref = "one_word", .words = "descending, one word", .calibrates = true});
  SharedByTasks words([&run] { return Words<float>(1, gpu_of(*run.device)); });
  sheet.measure(Timing::alone, [&](const Row& row) {
    return task_of(words(), row.ref, rung_of("reduce_descending"), 1);
  });
  sheet.print();
  return sheet.ms("one_word");
}

/// All rows over words of one type, in turn. Floats give the model its other constants.
template <class T>
void measure_rungs(const Run& run, size_t n, double launch_ms, Calibrated& c) {
  constexpr bool floats = std::is_same_v<T, float>;
  std::vector<Shown> columns = columns_of_times(run, 1, one_sum);
  const auto of_block = [](double (*value)(const Rung&)) {
    return [value](const Row& row) {
      const Rung& rung = rung_of_row<T>(row.ref);
      return rung.by_instructions() ? value(rung) : double(NAN);
    };
  };
  columns.push_back(number(predicted("a block's instructions", "instructions of a block", "1", 0),
                           of_block(instructions_of_block)));
  columns.push_back(
      number(predicted("wavefronts", "wavefronts of a block", "1", 0),
             of_block([](const Rung& rung) { return double(traffic_of_block(rung).taken()); })));
  Sheet sheet(run, floats ? "kernel, float" : "kernel, unsigned", std::move(columns));
  for (const Rung& rung : rungs) {
    if (floats && rung.key == "reduce_redux") continue;
    sheet.add(
        {.ref = ref_of<T>(rung),
         .words = rung.text,
         .bytes = 4.0 * double(n),
         .calibrates = floats && (rung.key == "reduce_descending" || rung.key == "reduce_several"),
         .model = model_of(rung, n, run.device),
         .missing = missing<T>(rung, n, run.device)});
  }
  SharedByTasks words([&run, n] { return Words<T>(n, gpu_of(*run.device)); });
  sheet.measure(Timing::in_turn, [&](const Row& row) {
    return task_of(words(), row.ref, rung_of_row<T>(row.ref), n);
  });
  if (floats && run.device)
    c = calibrate(launch_ms, sheet.ms("reduce_descending"), sheet.ms("reduce_several"), n,
                  *run.device);
  sheet.predict(
      [&](const Row& row) {
        return run.device ? predicted_ms(rung_of_row<T>(row.ref), n, c, *run.device) : NAN;
      },
      Basis::fitted);
  sheet.print({"instructions of a block's warps, as compiled for compute capability 9.0"});
}

/// What each row's order of additions does to a float sum.
void show_orders(const Run& run, size_t n) {
  Table table(
      run.report, "order of the float sum",
      {predicted("launches", "launches", "1", 0), predicted("scratch bytes", "scratch", "B", 0),
       predicted("additions in a row", "depth", "1", 0),
       predicted("bound 1e-9", "error bound", "1e-9", 1), shown("error 1e-9")});
  const Gpu gpu = run.device ? gpu_of(*run.device) : Gpu{};
  for (const Rung& rung : rungs) {
    if (rung.key == "reduce_redux" || rung.grid == Grid::library) continue;
    if (!run.device && rung.grid != Grid::one_pass) continue;  // as the GPU has room for
    const Statistics error = ask(run, Ref(rung.key), "error", "1e-9", [&] {
      Words<float> words(n, gpu, fractions);
      words.poison();
      words.sum(rung, kernel_of<float>(rung), n);
      const double exact = double(exact_sum<float>(fractions, n)) * 0x1p-24;
      return single(1e9 * std::abs(double(words.result()) - exact) / exact);
    });
    const double depth = additions(rung, n, gpu);
    table.row({std::string(rung.key), "", "", rung.text},
              {double(launches(rung, n, gpu).size()), scratch_bytes(rung, n, gpu), depth,
               1e9 * error_bound(depth), fixed(error.median, 1)});
  }
  table.print();
  run.report.note("error: of the sum; each row's order is fixed, so every run gives the same bits");
}

// ---- one launch beside the library ----

/// The one launch that suits the data: what does not fit in the L2 is not found there again.
const Rung& best_for(size_t n, const Device& device) {
  return rung_of(4 * n > device.l2_bytes() ? "sum_streaming" : "sum_once");
}

struct Way {
  const char* key;
  const char* text;
  bool by_library, by_graph;
};
const Way ways[] = {{"sum_called", "one launch, called", false, false},
                    {"cub_called", "CUB, called", true, false},
                    {"sum_replayed", "one launch, replayed", false, true},
                    {"cub_replayed", "CUB, replayed", true, true}};

/// Sums of a row's task.
int sums_of(const Row& row) {
  return with_key(ways, row.ref)->by_graph ? sums_of_a_graph(size_t(row.ref.at)) : 1;
}

void measure_beside_library(const Run& run, double latency) {
  const std::vector<size_t> sizes = sizes_beside_library(run);
  if (sizes.empty()) return;
  std::vector<Shown> columns = columns_of_times(run, 2, sums_of);
  columns.push_back(
      {shown("data in"), {}, {}, [&run](const Row& row, const Statistics&) -> std::string {
         const double bytes = 4 * row.ref.at;
         if (!run.device || bytes <= double(run.device->l2_bytes())) return run.device ? "L2" : "";
         return beyond_l2(*run.device, bytes) ? "memory" : "partly L2";
       }});
  Sheet sheet(run, "words", std::move(columns), "n");
  const auto add = [&](const Way& way, size_t n) {
    const Ref ref{way.key, double(n)};
    const bool starts = n == 1;
    sheet.add({.ref = ref,
               .words = std::to_string(n) + ", " + way.text,
               .bytes = starts ? NAN : 4.0 * double(n) * sums_of({.ref = ref}),
               .calibrates = starts,
               .model = model_of(rung_of("sum_once"), n, run.device)});
  };
  for (const Way& way : ways)
    if (!way.by_library) add(way, 1);
  for (const size_t n : sizes)
    for (const Way& way : ways) add(way, n);

  const size_t most = *std::max_element(sizes.begin(), sizes.end());
  SharedByTasks words([&run, most] { return Words<float>(most, gpu_of(*run.device)); });
  sheet.measure(Timing::in_turn, [&](const Row& row) {
    const Way& way = *with_key(ways, row.ref);
    const size_t n = size_t(row.ref.at);
    const Rung& rung = way.by_library ? rung_of("cub_sum") : best_for(n, *run.device);
    return way.by_graph ? replayed(words(), row.ref, rung, n) : task_of(words(), row.ref, rung, n);
  });
  sheet.predict(
      [&](const Row& row) {
        if (with_key(ways, row.ref)->by_library || !run.device) return double(NAN);
        const Row one_word{.ref = {row.ref.key, 1}};
        const Calibrated c{sheet.ms(one_word.ref) / sums_of(one_word), 0, latency};
        const size_t n = size_t(row.ref.at);
        return sums_of(row) * predicted_ms(best_for(n, *run.device), n, c, *run.device);
      },
      Basis::fitted);
  sheet.print({"called: one after the other by the host; replayed: by a graph, without it"});
  for (const size_t n : sizes)
    for (const auto& [slow, fast] :
         {std::pair{"cub_called", "sum_called"}, std::pair{"cub_replayed", "sum_replayed"}})
      find(run, "CUB", {.slow = {slow, double(n)}, .fast = {fast, double(n)}});
}

// ---- causes: the guide says of two kernels what "the biggest problem" of each is ----

struct Cause {
  const char* id;
  const char* statement;
  Comparison alone;  ///< the kernel with it, and without it and nothing else
  Comparison rest;   ///< what all the rest takes away
};
const Cause causes[] = {
    {"06.1b",
     "divergence is the biggest problem of the first version",
     {.slow = "reduce_mask", .fast = "reduce_descending"},
     {.slow = "reduce_modulo", .fast = "reduce_mask"}},
    {"06.2b",
     "bank conflicts are the biggest problem of the second version",
     {.slow = "reduce_strided", .fast = "reduce_strided_padded"},
     {.slow = "reduce_strided_padded", .fast = "reduce_descending"}},
};
const char* const of_rest = "what the rest gains";

/// What is gained without each cause, over what is gained without the rest.
void keep_causes(const Run& run) {
  for (const Cause& cause : causes) {
    const Interval alone = ratio_of(run, cause.alone), rest = ratio_of(run, cause.rest);
    keep(run, cause.alone.slow, of_rest, "times",
         {alone.value / rest.value, alone.low / rest.high, alone.high / rest.low, alone.pairs});
  }
}

void run_ladder(const Run& run) {
  const size_t n = words_of(run);
  run.report.begin("ladder", "sum of " + std::to_string(n) + " words, " +
                                 bytes_text(4.0 * double(n)) + ", to the one result");
  Calibrated c;
  const double launch_ms = measure_launch(run);
  measure_rungs<float>(run, n, launch_ms, c);
  measure_rungs<unsigned>(run, n, launch_ms, c);
  show_orders(run, n);
  measure_beside_library(run, c.latency);
  keep_causes(run);
}

// ---- what it declares ----

std::vector<Claim> claims(const Run& run) {
  const bool in_cache = run.device && !beyond_l2(*run.device, 4.0 * double(words_of(run)));
  const std::string unless = in_cache ? "the words are less than four times the L2" : "";
  const Comparison first{.slow = "reduce_modulo", .fast = "reduce_strided"};
  const Comparison both[] = {{.slow = "reduce_modulo", .fast = "reduce_descending"},
                             {.slow = "reduce_strided", .fast = "reduce_descending"}};
  const auto caused = [&](const Cause& cause) {
    Claim claim{.part = {cause.id, cause.statement, "no figure", "vendor's guide"},
                .rule = beats(),
                .levels = {{.ref = cause.alone.slow, .metric = of_rest}},
                .unless = unless,
                .needs = run.device ? "one of its kernels was not measured" : ""};
    if (!in_cache) claim.found = {cause.alone, cause.rest};
    return claim;
  };
  return {{.part = {"06.1a", "strided indices without divergence beat the divergent version",
                    "faster, no figure", "vendor's guide"},
           .rule = beats(),
           .pairs = {first},
           .unless = unless},
          caused(causes[0]),
          {.part = {"06.2a", "descending strides without bank conflicts beat both",
                    "faster, no figure", "vendor's guide"},
           .rule = beats(),
           .pairs = {both[0], both[1]},
           .unless = unless},
          caused(causes[1])};
}

Needs needs(const Run& run) {
  const size_t n = words_of(run);
  return {.allocated = bytes_needed(n), .touched = 4.0 * double(n)};
}

template <class T>
void add_tasks(size_t n, std::vector<Checked>& all) {
  const Shared words(Words<T>(n, {1, 1024}));  // few words are more than one grid
  for (const Rung& rung : rungs) {
    if (!kernel_of<T>(rung) && rung.grid != Grid::library) continue;
    all.push_back({.task = task_of(words, ref_of<T>(rung), rung, n),
                   .elements = 1,
                   .change_one = [words] { words->out.change(0); }});
  }
}

std::vector<Checked> tasks(size_t n) {
  n = std::min<size_t>(n, (1 << 15) + 3);  // several grids, and racecheck comes to its end
  std::vector<Checked> all;
  add_tasks<float>(n, all);
  add_tasks<unsigned>(n, all);
  const Shared words(Words<float>(n, {2, 1024}));
  for (const char* key : {"sum_once", "sum_streaming", "cub_sum"})
    all.push_back({.task = replayed(words, key, rung_of(key), n),
                   .elements = 1,
                   .change_one = [words] { words->out.change(0); }});
  return all;
}

// ---- counted: the first launch alone, which has nearly all of the work ----

/// The block that has to take word i in a first launch of so many blocks, where quads are whole:
/// neighbouring words in turn, or rounds of the whole grid.
size_t block_of(const Rung& rung, size_t i, size_t blocks) {
  if (rung.grid == Grid::one_pass) return i / (rung.words * block_threads);
  return i / rung.words / block_threads % blocks;
}

template <class T>
struct IsBlocksSum {
  const T* right;
  __device__ bool operator()(size_t block, T found) const { return found == right[block]; }
};

/// How many of the sums that the blocks leave are not of the words that they have to take. Quads
/// have to be whole. Where one launch does all, only the result is compared.
template <class T>
size_t wrong_after_first_launch(const Rung& rung, size_t n, Gpu gpu) {
  const Shared words(Words<T>(n, gpu));
  if (rung.grid == Grid::tiles) return wrong_after(task_of(words, rung.key, rung, n));
  const size_t blocks = launches(rung, n, gpu)[0];
  std::vector<T> right(blocks, T(0));
  for (size_t i = 0; i < n; ++i) right[block_of(rung, i, blocks)] += T(units_of<T>(0, i));
  const DeviceBuffer<T> sums(right);
  Output<T> out(blocks);
  out.poison();
  kernel_of<T>(rung)(unsigned(blocks), nullptr, words->in, n, out.data(), words->slots.data());
  CUDA_CHECK_LAUNCH();
  return out.wrong(IsBlocksSum<T>{sums.data()});
}

// Sets the grids in place of the GPU that is counted: so each GPU gets the same launches, and the
// counts have to be the same.
constexpr Gpu counted_gpu{64, 1024};
constexpr size_t counted_words = 1 << 16;

double counted_blocks(const Rung& rung) {
  return double(launches(rung, counted_words, counted_gpu)[0]);
}

std::vector<CountedLaunch> counted() {
  std::vector<CountedLaunch> all;
  for (const Rung& rung : rungs) {
    if (rung.grid == Grid::library) continue;
    const Traffic block = traffic_of_block(rung);
    const double blocks = counted_blocks(rung) + (rung.grid == Grid::tiles);  // the last adds twice
    all.push_back({std::string(rung.key),
                   std::to_string(counted_words) + " words",
                   {expected_wavefronts(true, blocks * block.loads),
                    expected_wavefronts(false, blocks * block.stores)},
                   [&rung] {
                     const auto wrong = kernel_of<float>(rung) ? wrong_after_first_launch<float>
                                                               : wrong_after_first_launch<unsigned>;
                     return wrong(rung, counted_words, counted_gpu) == 0;
                   }});
  }
  return all;
}

}  // namespace

extern const Experiment ladder_experiment{
    .name = "ladder",
    .about = "the text's three reductions, and on to one launch, beside the library",
    .run = run_ladder,
    .check_typed = require_fit,
    .claims = claims,
    .needs = needs,
    .tasks = tasks,
    .counted = counted};
