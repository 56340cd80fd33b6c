// async_copy: what do copies gain that need no registers? An ordinary load brings its data into
// registers of its thread. cp.async (compute capability 8.0) and bulk copies (TMA, 9.0) bring them
// into shared memory, and stay in flight while the threads work. No text asks for them.
//
// Look at the gain over plain loads with as many bytes in flight: there is next to none, and small
// bulk copies lose. So a ring saves registers, and does not make memory faster. Then look at a
// transpose whose tiles come and leave by tensor copies (TMA): it is as fast as `best`.
//
//   build/release/04_bandwidth/04_bandwidth async_copy
//
//   1  plain        loads into registers
//   2  async_ring   cp.async: each thread copies 16 bytes at a time into a ring of stages
//   3  bulk_ring    bulk copies: one thread asks for a whole stage
//   4  turn_tensor  tensor copies: one thread asks for a tile, and all transpose it
//   5  best         (transpose.cu) the fastest transpose by loads and stores
#include <cuda.h>
#include <cuda_pipeline_primitives.h>
#include <doctest/doctest.h>

#include <algorithm>

#include "../common/arrays.cuh"
#include "../common/run.hpp"

// libcu++ has bulk copies from CUDA 12.4 on, and in device code for 9.0 and later only
#if CUDART_VERSION >= 12040 && (!defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900)
#define BULK_COPIES
#include <cuda/barrier>
#include <cuda/ptx>
// a shared barrier's constructor does nothing
#pragma nv_diag_suppress static_var_with_dynamic_init
namespace copies = cuda::device::experimental;
#endif

__global__ void best(float* out, const float* in, unsigned nx, unsigned ny);

namespace {

// ---- kernels that sum n words of 16 bytes: block b takes the tiles b, b + blocks, b + 2 blocks
// ... Each thread sums `words` words of every tile, and stores its sum at the end ----

// A thread loads all its words of a tile before it adds the first: each holds four registers from
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

/// Adds this thread's words of a tile in shared memory: words `first` and on of the array's n.
template <unsigned words>
__device__ void add_words(unsigned& sum, const uint4* tile, size_t first, size_t n) {
#pragma unroll
  for (unsigned k = 0; k < words; ++k) {
    const unsigned i = k * blockDim.x + threadIdx.x;
    if (first + i < n) {
      const uint4 word = tile[i];
      sum += word.x + word.y + word.z + word.w;
    }
  }
}

// The same tiles, but `stages` of them are in flight to shared memory. A warp still issues one
// instruction for each 512 bytes, but no register waits. Each thread reads only the words that it
// asked for itself, so the block needs no barrier. `stages` is a constant because the instruction
// that waits contains it.
template <unsigned stages, unsigned words>
__global__ void async_ring(unsigned* out, const uint4* in, size_t n) {
  extern __shared__ __align__(128) uint4 ring[];
  const unsigned tile = words * blockDim.x;
  const size_t step = size_t(gridDim.x) * tile;
  size_t next = size_t(blockIdx.x) * tile;  // the next tile to ask for
  const auto ask_for_next = [&](unsigned stage) {
#pragma unroll
    for (unsigned k = 0; k < words; ++k) {
      const unsigned i = k * blockDim.x + threadIdx.x;
      if (next + i < n) __pipeline_memcpy_async(&ring[stage * tile + i], &in[next + i], 16);
    }
    __pipeline_commit();  // even if the array has ended: waiting counts commits
    next += step;
  };
#pragma unroll 1
  for (unsigned stage = 0; stage < stages; ++stage) ask_for_next(stage);
  unsigned sum = 0;
  unsigned stage = 0;
#pragma unroll 1
  for (size_t first = size_t(blockIdx.x) * tile; first < n; first += step) {
    __pipeline_wait_prior(stages - 1);  // until only so many are in flight: the oldest has arrived
    __syncwarp();                       // the compiler reads nothing before
    add_words<words>(sum, &ring[stage * tile], first, n);
    ask_for_next(stage);
    stage = (stage + 1) % stages;
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

// The same ring, but one thread asks for a whole stage with one instruction, and all threads wait
// at the barrier of the stage until all its bytes have arrived. The copy of the last tile is
// shorter if less remains. The block needs one more barrier: no thread may still read the stage
// when it is filled again.
template <unsigned stages, unsigned words>
__global__ void bulk_ring(unsigned* out, const uint4* in, size_t n) {
#ifdef BULK_COPIES
  extern __shared__ __align__(128) uint4 ring[];
  __shared__ cuda::barrier<cuda::thread_scope_block> arrived[stages];
  const unsigned tile = words * blockDim.x;
  const size_t step = size_t(gridDim.x) * tile;
  size_t next = size_t(blockIdx.x) * tile;
  const auto ask_for_next = [&](unsigned stage) {
    if (threadIdx.x == 0 && next < n) {
      const unsigned bytes = 16 * unsigned(min(size_t(tile), n - next));
      cuda::device::memcpy_async_tx(&ring[stage * tile], &in[next], cuda::aligned_size_t<16>(bytes),
                                    arrived[stage]);
      (void)cuda::device::barrier_arrive_tx(arrived[stage], 1, bytes);  // opens with the last byte
    }
    next += step;
  };
  if (threadIdx.x == 0) {
    for (unsigned stage = 0; stage < stages; ++stage) init(&arrived[stage], 1);  // one arrives
    copies::fence_proxy_async_shared_cta();  // the copies see the barriers
  }
  __syncthreads();
#pragma unroll 1
  for (unsigned stage = 0; stage < stages; ++stage) ask_for_next(stage);
  unsigned sum = 0;
  unsigned stage = 0;
  unsigned parity = 0;  // 0, 1, 0, 1 ...: changes with each round of the ring
#pragma unroll 1
  for (size_t first = size_t(blockIdx.x) * tile; first < n; first += step) {
    uint64_t* const barrier = cuda::device::barrier_native_handle(arrived[stage]);
    while (!cuda::ptx::mbarrier_try_wait_parity(barrier, parity)) continue;  // until it is full
    add_words<words>(sum, &ring[stage * tile], first, n);
    __syncthreads();  // all have read the stage: it can be filled again
    ask_for_next(stage);
    stage = (stage + 1) % stages;
    if (stage == 0) parity ^= 1;
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
#endif
}

// ---- the transpose by tensor copies ----

constexpr unsigned line = 32;              // words: 128 bytes, within which a copy swaps quads
constexpr unsigned side = 2 * line;        // of a tile
constexpr unsigned quads = side / 4;       // of 16 bytes, per row of the tile
constexpr unsigned turning_threads = 256;  // each transposes 4 x 4 words

/// Where a copy lays quad `quad` of a tile's row 4 m + k. The tile lies in shared memory as 128
/// lines of 128 bytes, two for each row. The eight quads of line l are swapped by l % 8 (^).
__host__ __device__ constexpr unsigned swapped(unsigned k, unsigned quad) {
  return quad ^ (2 * k + quad / 8);
}

// `in` and `out` describe the matrices (map_of below). One thread asks for a tile. The hardware
// works out the addresses, and leaves out what lies beyond the matrix. Shared memory serves eight
// lanes at a time: they take eight 4 x 4 squares of a diagonal (`down`), so that they reach all 32
// banks when they read rows, and again when they write what will be rows of the output.
__global__ void __launch_bounds__(turning_threads)
    turn_tensor(const __grid_constant__ CUtensorMap in, const __grid_constant__ CUtensorMap out) {
#ifdef BULK_COPIES
  __shared__ alignas(1024) float4 tile[side][quads];  // the order repeats every 1024 bytes
  __shared__ cuda::barrier<cuda::thread_scope_block> came;
  const unsigned ix = blockIdx.y * side;  // where the tile begins: column of the input
  const unsigned iy = blockIdx.x * side;  // and row; blocks go down the columns, as in `best`
  if (threadIdx.x == 0) {
    init(&came, 1);
    copies::fence_proxy_async_shared_cta();  // the copy sees the barrier
    copies::cp_async_bulk_tensor_3d_global_to_shared(tile, &in, 0, ix / line, iy, came);
    (void)cuda::device::barrier_arrive_tx(came, 1, sizeof(tile));
  }
  __syncthreads();  // all see the barrier
  while (!cuda::ptx::mbarrier_try_wait_parity(cuda::device::barrier_native_handle(came), 0))
    continue;  // until the whole tile has arrived

  const unsigned across = threadIdx.x % quads;
  const unsigned down = (threadIdx.x / quads) ^ (across % 8);  // along a diagonal
  float4 row[4];
#pragma unroll
  for (unsigned k = 0; k < 4; ++k) row[k] = tile[4 * down + k][swapped(k, across)];
  __syncthreads();  // all have read: the tile can be overwritten
  tile[4 * across + 0][swapped(0, down)] = {row[0].x, row[1].x, row[2].x, row[3].x};
  tile[4 * across + 1][swapped(1, down)] = {row[0].y, row[1].y, row[2].y, row[3].y};
  tile[4 * across + 2][swapped(2, down)] = {row[0].z, row[1].z, row[2].z, row[3].z};
  tile[4 * across + 3][swapped(3, down)] = {row[0].w, row[1].w, row[2].w, row[3].w};
  copies::fence_proxy_async_shared_cta();  // the copy sees what this thread wrote
  __syncthreads();
  if (threadIdx.x == 0) {
    copies::cp_async_bulk_tensor_3d_shared_to_global(&out, 0, iy / line, ix, tile);
    copies::cp_async_bulk_commit_group();
    copies::cp_async_bulk_wait_group_read<0>();  // the tile stays until the copy has read it
  }
#endif
}

/// A matrix, described to the copies as words of a line, lines of a row, and rows. A box of 32
/// words, 2 lines and 64 rows is a tile. (Of words and rows alone a box could be only one line
/// wide, and the 256 bytes of a tile's row would arrive in two parts.)
CUtensorMap map_of(float* words, unsigned nx, unsigned ny) {
  void* function = nullptr;  // the driver's, by its address, so that nothing has to be linked
  cudaDriverEntryPointQueryResult found{};
  const char* const name = "cuTensorMapEncodeTiled";
#if CUDART_VERSION >= 12050
  CUDA_CHECK(cudaGetDriverEntryPointByVersion(name, &function, 12000, cudaEnableDefault, &found));
#else
  CUDA_CHECK(cudaGetDriverEntryPoint(name, &function, cudaEnableDefault, &found));
#endif
  if (found != cudaDriverEntryPointSuccess)
    throw std::runtime_error("the driver has no tensor maps");
  const cuuint64_t sizes[] = {line, nx / line, ny};
  const cuuint64_t bytes_apart[] = {line * sizeof(float), nx * sizeof(float)};  // lines, rows
  const cuuint32_t box[] = {line, side / line, side};
  const cuuint32_t every[] = {1, 1, 1};
  CUtensorMap map{};
  const CUresult result = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(function)(
      &map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 3, words, sizes, bytes_apart, box, every,
      CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_NONE,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS)
    throw std::runtime_error("cuTensorMapEncodeTiled: error " + std::to_string(int(result)));
  return map;
}

// ---- the rows of the table of sums: one block of 128 threads on each multiprocessor ----

constexpr unsigned threads = 128;

struct Sum {
  const char* name;
  void (*kernel)(unsigned* out, const uint4* in, size_t n);
  int major;               ///< the compute capability that it needs
  unsigned stages, words;  ///< of each stage `words` words per thread are in flight
  size_t in_flight() const { return sizeof(uint4) * stages * words * threads; }
};
/// In groups with as many bytes in flight, plain loads first.
const Sum sums[] = {
    {"plain, 4 loads", plain<4>, 0, 1, 4},
    {"async_ring, 4 x 2 KiB", async_ring<4, 1>, 8, 4, 1},
    {"bulk_ring, 4 x 2 KiB", bulk_ring<4, 1>, 9, 4, 1},
    {"plain, 16 loads", plain<16>, 0, 1, 16},
    {"async_ring, 4 x 8 KiB", async_ring<4, 4>, 8, 4, 4},
    {"bulk_ring, 4 x 8 KiB", bulk_ring<4, 4>, 9, 4, 4},
    {"plain, 32 loads", plain<32>, 0, 1, 32},
    {"async_ring, 4 x 16 KiB", async_ring<4, 8>, 8, 4, 8},
    {"bulk_ring, 4 x 16 KiB", bulk_ring<4, 8>, 9, 4, 8},
};

/// Why this GPU, or this build, does not have what a kernel needs; or nothing.
template <class Kernel>
std::string lacking(int major, Kernel* kernel, const cudaDeviceProp& gpu) {
  const std::string needed = "compute capability " + std::to_string(major) + ".0";
  if (gpu.major < major) return "needs " + needed;
  if (major == 9 && CUDART_VERSION < 12040) return "needs CUDA 12.4";
  cudaFuncAttributes code{};
  CUDA_CHECK(cudaFuncGetAttributes(&code, kernel));
  return code.ptxVersion < 10 * major ? "this build has no code for " + needed : "";
}

// ---- the experiment: the sums ----

DeviceBuffer<unsigned> filled_words(size_t n) {
  return filled<unsigned>(n, [] __device__(size_t i) { return hash(i); });
}

/// What is summed, and the sums that so many blocks leave.
struct Words {
  size_t n;
  unsigned blocks;
  DeviceBuffer<unsigned> in = filled_words(4 * n);
  GuardedBuffer<unsigned> out{size_t(blocks) * threads};
  const uint4* words() const { return reinterpret_cast<const uint4*>(in.data()); }
};

unsigned total_of(const DeviceBuffer<unsigned>& x) {
  return unsigned(sum_of(x.size(), [x = x.data()] __device__(size_t i) { return size_t(x[i]); }));
}

/// `x` must outlive it. More than half of a multiprocessor's shared memory keeps others off it.
Benchmark benchmark_of(const Sum& sum, const Words& x, const cudaDeviceProp& gpu) {
  constexpr size_t barriers = 128;  // of a ring, rounded up
  const size_t shared = std::max(
      sum.major ? sum.in_flight() : 0,
      std::min(gpu.sharedMemPerMultiprocessor / 2 + 1024, gpu.sharedMemPerBlockOptin - barriers));
  CUDA_CHECK(  // more than 48 KiB have to be allowed
      cudaFuncSetAttribute(sum.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(shared)));
  const auto work = [shared, &x, kernel = sum.kernel] {
    kernel<<<x.blocks, threads, shared>>>(x.out, x.words(), x.n);
  };
  const auto find_error = [&x, total = total_of(x.in)] {
    return total_of(x.out) == total ? guard_error(x.out) : "the sum is wrong";
  };
  return {sum.name, work, {[&x] { x.out.poison(); }, find_error}};
}

void measure_sums(Run& run) {
  const size_t n = run.fitting(run.quick ? 1 << 24 : 1 << 26, sizeof(uint4));
  const Words x{n, unsigned(run.gpu.multiProcessorCount)};
  const double bytes = double(x.in.bytes());
  run.title(bytes_text(bytes) + " summed by one block of 128 threads on each multiprocessor");
  std::vector<Benchmark> benchmarks;
  for (const Sum& sum : sums)
    if (lacking(sum.major, sum.kernel, run.gpu).empty())
      benchmarks.push_back(benchmark_of(sum, x, run.gpu));
  const Timings timed = run.timer.interleaved(benchmarks);

  Table table("sum", {"KiB in flight", "ms", "spread", "GB/s", "gain over plain"});
  std::string loads;
  for (const Sum& sum : sums) {
    if (!sum.major) loads = sum.name;
    if (const std::string why = lacking(sum.major, sum.kernel, run.gpu); !why.empty()) {
      table.missing(sum.name, why);
      continue;
    }
    const Times& times = timed[sum.name];
    table.row(sum.name,
              {sum.in_flight() / 1024, times.median(), percent(times.spread()), times.gbs(bytes),
               sum.major ? Cell(ratio(timed[loads], times)) : Cell("")});
  }
  run.print(table);
  if (!run.beyond_l2(bytes)) run.note("less than four times the L2: its rates, not the memory's");
  run.note("gain: the time of plain loads with as many bytes in flight, over the row's");
  run.note("Bytes in flight decide, not who asks. But bulk copies of 2 KiB are too small:");
  run.note("the block waits, reads, meets at a barrier and asks for one stage after the other");
}

// ---- the experiment: the transpose ----

__host__ __device__ float word(size_t i) { return float(hash(i) >> 8); }
DeviceBuffer<float> filled_matrix(size_t words) {
  return filled<float>(words, [] __device__(size_t i) { return word(i); });
}

/// A matrix of ny rows of nx words, and room for its transpose.
struct Matrices {
  unsigned nx, ny;
  DeviceBuffer<float> in = filled_matrix(size_t(nx) * ny);
  GuardedBuffer<float> out{size_t(nx) * ny};
  dim3 grid() const { return dim3((ny + side - 1) / side, (nx + side - 1) / side); }

  /// Shared memory that nobody uses: it leaves room for five blocks on a multiprocessor, as
  /// transpose.cu does for `best`. A small grid is resident as a whole.
  size_t spare_shared() const {
    const cudaDeviceProp gpu = current_gpu();
    if (grid().x * grid().y <= 8 * unsigned(gpu.multiProcessorCount)) return 0;
    const size_t each = gpu.sharedMemPerMultiprocessor / 5 / 1024 * 1024;
    const size_t own = side * side * sizeof(float) + gpu.reservedSharedMemPerBlock;
    return each > own ? each - own : 0;
  }
};

Check transposed(const Matrices& m) {
  return equals(m.out,
                [nx = m.nx, ny = m.ny] __device__(size_t i) { return word(i % ny * nx + i / ny); });
}

/// `m` must outlive it.
Benchmark by_tensor_copies(const Matrices& m) {
  const CUtensorMap in = map_of(m.in, m.nx, m.ny), out = map_of(m.out, m.ny, m.nx);
  const auto work = [in, out, grid = m.grid(), spare = m.spare_shared()] {
    turn_tensor<<<grid, turning_threads, spare>>>(in, out);
  };
  return {"turn_tensor", work, transposed(m)};
}

void measure_transposes(Run& run) {
  unsigned n = run.quick ? 8192 : 16384;
  while (!run.fits(8.0 * n * n)) n /= 2;
  const Matrices m{n, n};
  const auto copy = [&m] {
    CUDA_CHECK(cudaMemcpyAsync(m.out, m.in, m.in.bytes(), cudaMemcpyDeviceToDevice));
  };
  const auto by_loads = [&m, n, grid = m.grid(), spare = m.spare_shared()] {
    best<<<grid, 256, spare>>>(m.out, m.in, n, n);
  };
  const Check copied = equals(m.out, [] __device__(size_t i) { return word(i); });
  std::vector<Benchmark> benchmarks{{"copy engine", copy, copied},
                                    {"best", by_loads, transposed(m)}};
  const std::string why = lacking(9, turn_tensor, run.gpu);
  if (why.empty()) benchmarks.push_back(by_tensor_copies(m));
  const Timings timed = run.timer.interleaved(benchmarks);

  Table table("transpose, " + std::to_string(n) + " x " + std::to_string(n),
              {"ms", "spread", "GB/s", "of copy engine", "gain over best"});
  for (const Benchmark& row : benchmarks) {
    const Times& times = timed[row.name];
    table.row(row.name, {times.median(), percent(times.spread()), times.gbs(8.0 * n * n),
                         percent(timed["copy engine"].median() / times.median()),
                         row.name == "turn_tensor" ? Cell(ratio(timed["best"], times)) : Cell("")});
  }
  if (!why.empty()) table.missing("turn_tensor", why);
  run.print(table);
}

}  // namespace

void async_copy(Run& run) {
  measure_sums(run);
  measure_transposes(run);
}

TEST_CASE("async_copy: bytes in flight, by hand") {
  const size_t KiB[] = {8, 8, 8, 32, 32, 32, 64, 64, 64};
  for (size_t i = 0; i < std::size(sums); ++i) CHECK(sums[i].in_flight() == 1024 * KiB[i]);
}

TEST_CASE("async_copy: turn_tensor finds each quad where the copy lays it, without conflicts") {
  for (unsigned row = 0; row < side; ++row)
    for (unsigned quad = 0; quad < quads; ++quad) {
      // the hardware swaps bits 4 to 6 of a byte's place in shared memory by its bits 7 to 9
      const unsigned byte = (row * quads + quad) * 16;
      CHECK((byte ^ (byte >> 7 & 7) << 4) == (row * quads + swapped(row % 4, quad)) * 16);
    }
  for (unsigned first = 0; first < turning_threads; first += 8)
    for (unsigned k = 0; k < 4; ++k) {
      unsigned read = 0, written = 0;  // groups of four banks
      for (unsigned tid = first; tid < first + 8; ++tid) {
        const unsigned across = tid % quads, down = tid / quads ^ across % 8;
        read |= 1u << swapped(k, across) % 8;
        written |= 1u << swapped(k, down) % 8;
      }
      CHECK((read & written) == 0xff);
    }
}

TEST_CASE("async_copy: each thread sums its words, and writes nothing behind") {
  if (skip_without_gpu()) return;
  for (const Sum& sum : sums)
    for (const size_t n : {1, 127, 128, 1009, 20011, 98304}) {
      if (!lacking(sum.major, sum.kernel, current_gpu()).empty()) continue;
      CAPTURE(std::string(sum.name));
      CAPTURE(n);
      const Words x{n, 3};
      const Benchmark benchmark = benchmark_of(sum, x, current_gpu());
      CHECK_NOTHROW(require_right(benchmark));
      const size_t tile = size_t(sum.words) * threads;
      std::vector<unsigned> right(x.out.size(), 0);
      for (size_t i = 0; i < n; ++i)  // tiles go round the blocks, their words round the threads
        for (size_t part = 0; part < 4; ++part)
          right[i / tile % x.blocks * threads + i % tile % threads] += hash(4 * i + part);
      CHECK(x.out.to_host() == right);
      const auto one_less = [&] { plain<4><<<3, threads>>>(x.out, x.words(), n - 1); };
      CHECK_THROWS_AS(require_right({"", one_less, benchmark.check}), WrongResult);
    }
}

TEST_CASE("async_copy: tensor copies transpose") {
  if (skip_without_gpu()) return;
  if (const std::string why = lacking(9, turn_tensor, current_gpu()); !why.empty())
    return skip(why);
  const std::pair<unsigned, unsigned> shapes[] = {{32, 32},  {64, 64},   {96, 32},    {32, 160},
                                                  {224, 96}, {128, 352}, {992, 1056}, {32, 66016}};
  for (const auto& [nx, ny] : shapes) {
    CAPTURE(nx);
    CAPTURE(ny);
    const Matrices m{nx, ny}, other{nx, ny};
    CHECK_NOTHROW(require_right(by_tensor_copies(m)));
    // as it was described to the copies, the other matrix is written
    CHECK_THROWS_AS(require_right({"", by_tensor_copies(other).work, transposed(m)}), WrongResult);
  }
}
