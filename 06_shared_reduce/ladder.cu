// ladder: the sum of n words. The vendor's guide [KP] sums a block's words in shared memory three
// times: with divergent warps (its `reduce`), with whole warps but bank conflicts (`reduce1`), and
// with neither (`reduce2`). It says that the second beats the first and the third beats both. Look
// at the row of the mask: the same threads diverge as in the first, without the division that %
// costs. Then at how much is left after the text's last version, and at what each idea beyond it
// takes away.
//   cmake -S 06_shared_reduce -B build/ladder -DEXPERIMENTS=ladder
//   cmake --build build/ladder && build/ladder/06_shared_reduce
//
//   1  reduce_modulo       the text's `reduce`: every 2s-th thread adds its neighbour at distance s
//   2  reduce_mask         the same threads, found without a division
//   3  reduce_strided      the text's `reduce1`: the first threads add, words 2s apart
//   4  reduce_descending   the text's `reduce2`: the first threads add, words side by side
//   5  reduce_add_on_load  4, two words a thread, added while they are loaded
//   6  reduce_shuffle      5, the last 32 words by exchanges of registers
//   7  reduce_redux        5, the last 32 words by one instruction
//   8  reduce_several      as many blocks as fit at once, each for many words
//   9  reduce_vector       8 in 16-byte words
//  10  sum_once            eight 16-byte words a thread in flight, one launch for all
//  11  sum_streaming       10, told that no word is used twice
#include <algorithm>
#include <climits>
#include <cstring>

#include "ladder.hpp"
#include "options.hpp"

using namespace reduce;

// ---- the text's reductions: a word a thread, a sum a block, launched again over the sums ----

// [reduce_modulo]
// In the first step every other thread of a warp adds, in the fifth one of 32, and all warps come
// along. The compiler does not know where the loop ends, so it cannot unroll it and know each s: %
// is a division.
template <class T>
__global__ void reduce_modulo(const T* in, size_t n, T* out) {
  __shared__ T word[block_threads];
  const unsigned tid = threadIdx.x;
  const size_t i = blockIdx.x * size_t(blockDim.x) + tid;
  word[tid] = i < n ? in[i] : T(0);
  __syncthreads();
  for (unsigned s = 1; s < blockDim.x; s *= 2) {  // stride 1, 2, 4 ...
    if (tid % (2 * s) == 0) word[tid] += word[tid + s];
    __syncthreads();
  }
  if (tid == 0) out[blockIdx.x] = word[0];
}
// [/reduce_modulo]

// The same threads add the same words: 2 s is a power of two, and the mask knows it.
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
// The first threads add, so that whole warps drop out. But a warp's words lie 2 s apart, and 2, 4,
// 8 of them in one bank of shared memory, which gives them out one after the other.
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

// [reduce_descending]
// The first threads add, and a warp adds 32 neighbours: every bank once.
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

// Half of the threads would have nothing to do from the first step on: each adds two words while it
// loads them. Both loads are in flight together.
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
// and without a barrier. (The old way, shared words without a barrier "because a warp runs in
// step", is wrong since warps may diverge anywhere.)
template <class T>
__device__ T warp_sum(T value) {
  for (unsigned lane = 16; lane > 0; lane /= 2) value += __shfl_xor_sync(whole_warp, value, lane);
  return value;
}

// The steps in shared memory end at 32 words: seven of eight warps are done, and wait at no more
// barriers.
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

// Kernel 6 with one instruction for the five exchanges, which compute capability 8.0 and later have
// for whole numbers. Code for an older one is never launched.
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
#endif
  if (tid == 0) out[blockIdx.x] = word[0];
}

// A warp loads 32 neighbours, adds, and steps on by the whole grid. The block's steps are paid once
// for many words. One load of 4 bytes a thread is in flight.
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
// so that a warp's load covers whole lines; the words before it and behind the last quad are taken
// by the first threads of block 0.
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

// The sum of a block's values, in its thread 0: each warp's by exchanges, then one warp over the
// warps' sums. One barrier.
template <class T>
__device__ T block_sum(T value, T* of_warps) {
  value = warp_sum(value);
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = value;
  __syncthreads();
  if (threadIdx.x >= 32) return T(0);
  return warp_sum(threadIdx.x < blockDim.x / 32 ? of_warps[threadIdx.x] : T(0));
}

// Leaves a block's sum in its slot: 8 bytes, the sum's bits and above them a 1, written by one
// store and read by one load. Nobody sees one half without the other, and no fence or atomic has to
// order them.
template <class T>
__device__ void put(volatile Slot* slot, T sum) {
  Slot marked = Slot(1) << 32;
  memcpy(&marked, &sum, sizeof sum);  // the lower half
  *slot = marked;
}

// Waits for the sums in a thread's slots and adds them, in a fixed order. All loads of a round are
// issued before the first wait. Each slot is left at 0, as it was before the launch.
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

// A block takes tiles of 64 KiB, one grid apart: eight 16-byte loads of each thread are in flight
// before the first addition. It leaves its sum in a slot. The last block waits for all slots and
// adds them up; the others wait for nothing, and so find room whatever the order in which blocks
// start.
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

// Kernel 10; its loads say that what they read is the first to leave the L2 again (__ldcs). Words
// that do not fit in there are not found there next time.
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

// ---- how each is launched ----

namespace reduce {

namespace {

template <class T>
using Kernel = void (*)(const T*, size_t, T*);

/// Of the rungs that are launched again until one word is left; null for the others.
template <class T>
Kernel<T> kernel_of(int rung) {
  switch (rung) {
    case modulo:
      return reduce_modulo<T>;
    case mask:
      return reduce_mask<T>;
    case strided:
      return reduce_strided<T>;
    case descending:
      return reduce_descending<T>;
    case add_on_load:
      return reduce_add_on_load<T>;
    case shuffle:
      return reduce_shuffle<T>;
    case several:
      return reduce_several<T>;
    case quads:
      return reduce_vector<T>;
  }
  if constexpr (std::is_same_v<T, unsigned>)
    if (rung == redux) return reduce_redux;
  return nullptr;
}

/// Whether the code that runs here has kernel 7's instruction: a build for an older GPU runs on
/// this one, without it.
bool has_redux() {
  cudaFuncAttributes code{};
  CUDA_CHECK(cudaFuncGetAttributes(&code, reinterpret_cast<const void*>(reduce_redux)));
  return code.ptxVersion >= 80;
}

/// Partial sums of the rung that leaves most.
size_t most_partial_sums(size_t n, Gpu gpu) {
  double most = 0;
  for (const Rung& rung : rungs)
    if (rung.grid == Grid::one_pass || rung.grid == Grid::resident)
      most = std::max(most, scratch_bytes(rung, n, gpu) / 4);
  return size_t(most);
}

size_t most_slots(size_t n, Gpu gpu) { return launches(rungs[once], n, gpu)[0]; }

}  // namespace

template <class T>
Work<T>::Work(size_t n, Gpu gpu)
    : gpu(gpu),
      out(1 + canaries),
      partial(most_partial_sums(n, gpu) + canaries),
      slots(most_slots(n, gpu)) {
  CUDA_CHECK(cudaMemset(slots.data(), 0, slots.bytes()));
  size_t bytes = 0;
  cub_sum(nullptr, bytes, out.data(), out.data(), int(std::min<size_t>(n, INT_MAX)), nullptr);
  for_library = DeviceBuffer<char>(bytes);
}

template <class T>
void Work<T>::sum(int rung, const T* in, size_t n, cudaStream_t stream) const {
  if (rung == library) {
    size_t bytes = for_library.bytes();
    return cub_sum(for_library.data(), bytes, in, out.data(), int(n), stream);
  }
  T* next = partial.data();
  for (const size_t count : launches(rungs[rung], n, gpu)) {
    const unsigned blocks = unsigned(count);
    if (rung == once) {
      sum_once<T><<<blocks, tile_threads, 0, stream>>>(in, n, out.data(), slots.data());
    } else if (rung == streaming) {
      sum_streaming<T><<<blocks, tile_threads, 0, stream>>>(in, n, out.data(), slots.data());
    } else {
      T* const to = blocks == 1 ? out.data() : next;
      kernel_of<T>(rung)<<<blocks, block_threads, 0, stream>>>(in, n, to);
      in = to;  // what is left is summed by the next launch
      n = blocks;
      next += blocks;
    }
  }
  CUDA_CHECK_LAUNCH();
}

template <class T>
void Work<T>::poison() {
  out.poison();
  partial.poison();
}

template <class T>
T Work<T>::result() const {
  T word;
  device_memory::to_host(&word, out.data(), sizeof word);
  return word;
}

template <class T>
bool Work<T>::canaries_stand(int rung, size_t n) const {
  const bool leaves_sums = kernel_of<T>(rung) != nullptr;
  const size_t used = leaves_sums ? size_t(scratch_bytes(rungs[rung], n, gpu)) / sizeof(T) : 0;
  std::vector<unsigned> behind(2 * canaries);
  device_memory::to_host(behind.data(), out.data() + 1, canaries * sizeof(T));
  device_memory::to_host(behind.data() + canaries, partial.data() + used, canaries * sizeof(T));
  return std::count(behind.begin(), behind.end(), ~0u) == long(behind.size());
}

template <class T>
Task Work<T>::task(int rung, const T* in, size_t n, T right) {
  Check check;
  check.poison = [this] { poison(); };
  check.wrong = [this, right] { return size_t(!(result() == right)); };
  return {std::string(rungs[rung].name) + ", " + std::to_string(n) + " words",
          [this, rung, in, n] { sum(rung, in, n); }, std::move(check)};
}

template <class T>
std::vector<int> rungs_for(size_t n) {
  std::vector<int> all;
  for (int rung = 0; rung < rung_count; ++rung) {
    if (rung == redux && (std::is_same_v<T, float> || !has_redux())) continue;
    if (rung == library && n > INT_MAX) continue;  // its count is an int here
    all.push_back(rung);
  }
  return all;
}

// ---- what is right ----

namespace {

/// One sum over poison, and whether it is right. The order of the library is not known, and so not
/// the bound of what it makes of fractions.
template <class T>
bool is_right(int rung, const Words<T>& words, size_t n, long long exact, Work<T>& work) {
  work.poison();
  work.sum(rung, words.in, n);
  const T got = work.result();
  if (words.digit < fractions) return got == T(exact);
  if (rung == library) return true;
  const double expected = double(exact) * 0x1p-24;
  const double bound = error_bound(additions(rungs[rung], n, work.gpu));
  return std::abs(double(got) - expected) <= bound * expected;
}

template <class T>
bool same_bits_again(int rung, const Words<T>& words, size_t n, Work<T>& work) {
  const T before = work.result();
  work.poison();
  work.sum(rung, words.in, n);
  const T again = work.result();
  return std::memcmp(&before, &again, sizeof again) == 0;
}

/// The block that has to take word i in a first launch of so many blocks, where quads are whole:
/// neighbouring words in turn, or rounds of the whole grid.
size_t block_of(const Rung& rung, size_t i, size_t blocks) {
  if (rung.grid == Grid::one_pass) return i / (rung.words * block_threads);
  return i / rung.words / block_threads % blocks;
}

/// Compares what each block of a first launch leaves.
template <class T>
size_t wrong_blocks(int rung, const Words<T>& words, size_t blocks) {
  DeviceBuffer<T> out(blocks + Work<T>::canaries);
  out.poison();
  kernel_of<T>(rung)<<<unsigned(blocks), block_threads>>>(words.in, words.n, out.data());
  CUDA_CHECK_LAUNCH();
  std::vector<T> right(blocks, T(0));
  const std::vector<T> in = words.all.to_host();
  for (size_t i = 0; i < words.n; ++i) right[block_of(rungs[rung], i, blocks)] += in[i];
  const std::vector<T> found = out.to_host();
  size_t wrong = 0;
  for (size_t b = 0; b < blocks; ++b) wrong += !(found[b] == right[b]);
  for (size_t b = blocks; b < found.size(); ++b) {
    const unsigned untouched = ~0u;
    wrong += std::memcmp(&found[b], &untouched, sizeof untouched) != 0;
  }
  return wrong;
}

/// Up to here the host adds up the words too, and so proves the device's reference.
constexpr size_t most_by_host = size_t(1) << 21;

}  // namespace

template <class T>
void require_sums(const std::vector<int>& which, Words<T>& words, size_t n, Work<T>& work) {
  const unsigned last = std::is_same_v<T, float> ? fractions : 0;
  for (unsigned pass = last + 1; pass-- > 0;) {
    words.fill(pass);
    const long long exact = words.sum(n);
    if (n <= most_by_host)
      require_right(exact == Words<T>::sum_by_host(pass, n), "the reference of ladder's sums");
    for (const int rung : which) {
      const std::string what = std::string(rungs[rung].name) + ", " + std::to_string(n) +
                               " words, pass " + std::to_string(pass);
      require_right(is_right(rung, words, n, exact, work), what);
      require_right(work.canaries_stand(rung, n), what + ", wrote behind its results");
      if (pass == last) require_right(same_bits_again(rung, words, n, work), what + ", run again");
    }
  }
}

template <class T>
size_t wrong_after_first_launch(int rung, const Words<T>& words, Gpu gpu) {
  const size_t blocks = launches(rungs[rung], words.n, gpu)[0];
  if (rungs[rung].grid != Grid::tiles) return wrong_blocks(rung, words, blocks);
  Work<T> work(words.n, gpu);  // the first launch is the only one
  return wrong_after(work.task(rung, words.in, words.n, T(words.sum(words.n))));
}

template struct Work<float>;
template struct Work<unsigned>;
template std::vector<int> rungs_for<float>(size_t);
template std::vector<int> rungs_for<unsigned>(size_t);
template void require_sums(const std::vector<int>&, Words<float>&, size_t, Work<float>&);
template void require_sums(const std::vector<int>&, Words<unsigned>&, size_t, Work<unsigned>&);
template size_t wrong_after_first_launch(int, const Words<float>&, Gpu);
template size_t wrong_after_first_launch(int, const Words<unsigned>&, Gpu);

}  // namespace reduce

// ---- the experiment ----

namespace {

/// The time of one word in one launch: the model's first constant.
double measure_launch(const Run& run, RungTable& table, Words<float>& words, Work<float>& work) {
  const float right = float(words.sum(1));
  const Readings times = run.time(work.task(descending, words.in, 1, right));
  const Statistics us = scaled(times.statistics(), 1e3);
  table.add_launch(us);
  return times.median();
}

template <class T>
Times measure_rungs(const Run& run, const std::vector<int>& which, Words<T>& words, Work<T>& work) {
  const T right = T(words.sum(words.n));
  std::vector<Task> tasks;
  for (const int rung : which) tasks.push_back(work.task(rung, words.in, words.n, right));
  const std::vector<Readings> readings = run.time_in_turn(tasks);
  Times times(rung_count);
  for (size_t i = 0; i < which.size(); ++i) times[which[i]] = readings[i];
  return times;
}

/// The rungs over float and unsigned words. Returns the floats' times, and the model's constants.
Times measure(const Run& run, size_t n, RungTable& table, Table& orders, Calibrated& c) {
  Times floats;
  {
    Words<float> words(n);
    Work<float> work(n, gpu_of(*run.device));
    const std::vector<int> which = rungs_for<float>(n);
    require_sums(which, words, n, work);
    const double launch = measure_launch(run, table, words, work);
    floats = measure_rungs(run, which, words, work);
    c = calibrate(launch, floats[descending].median(), floats[several].median(), n, *run.device);
    table.add_rows<float>(which, floats, c);
    add_orders(words, work, orders);
  }
  Words<unsigned> words(n);
  Work<unsigned> work(n, gpu_of(*run.device));
  const std::vector<int> which = rungs_for<unsigned>(n);
  require_sums(which, words, n, work);
  table.add_rows<unsigned>(which, measure_rungs(run, which, words, work), c);
  if (std::count(which.begin(), which.end(), int(redux)) == 0)
    run.report.left_out(rungs[redux].name, "the code that runs here is for GPUs older than 8.0");
  return floats;
}

size_t words_of(const Run& run, size_t typed) {
  return fitting_size("ladder of " + std::to_string(typed) + " words", typed, default_size(run),
                      run.memory_there(), bytes_needed);
}

}  // namespace

void ladder_fits(const Run& run, const Options& options) { words_of(run, options.size); }

void ladder(const Run& run, const Options& options) {
  const size_t n = words_of(run, options.size);
  const bool in_cache = run.device && !beyond_l2(*run.device, 4.0 * double(n));
  run.report.begin("ladder", "sum of " + std::to_string(n) + " words, " +
                                 bytes_text(4.0 * double(n)) + ", to the one result" +
                                 (in_cache ? ", less than four times the L2" : ""));
  RungTable table(run, n);
  Table orders = order_table(run);
  if (!run.device) {
    table.add_unmeasured();
    table.table.print();
    run.report.note("instructions of a block's warps, as compiled for compute capability 9.0");
    add_orders_of_any_gpu(n, orders);
    orders.print();
    run.report.left_out("all sums and times, the library, and the sizes");
    return judge_ladder(run, Times(rung_count), n, {});
  }

  Calibrated c;
  const Times times = measure(run, n, table, orders, c);
  table.table.print();
  run.report.note("calibration: a launch, what a block waits beside its instructions, a load");
  if (n > INT_MAX) run.report.note("without CUB: its count is an int here");
  orders.print();
  run.report.note("error: of the sum; each row's order is fixed, so every run gives the same bits");

  const std::vector<size_t> sizes = sizes_beside_library(run, options.size);
  if (!sizes.empty()) {
    Table by_size = sizes_table(run);
    add_sizes<float>(run, sizes, c.latency, by_size);
    add_sizes<unsigned>(run, sizes, c.latency, by_size);
    by_size.print();
    run.report.note("called: one after the other by the host; replayed: by a graph, without it");
  }
  judge_ladder(run, times, n, c);
}
