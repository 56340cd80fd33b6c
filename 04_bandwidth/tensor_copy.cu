// tensor_copy: does a transpose gain by tensor copies (TMA, compute capability 9.0)? In quad_tile
// 256 threads work out addresses, and a tile passes through their registers on its way to shared
// memory. With tensor copies one thread asks for a whole tile, and later for its way back. No text
// asks for them.
//
// Look at the gain over quad_tile: a few percent at most. The memory does not mind who asks.
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o tensor_copy tensor_copy.cu transpose.cu ../common/*.cpp
//
//   1  quad_tile    (transpose.cu) the fastest transpose by loads and stores
//   2  turn_tensor  tensor copies bring a tile, all threads transpose it, a copy takes it away
#include <cuda.h>
#include "../common/arrays.cuh"
#include "../common/sample.hpp"

// libcu++ has bulk copies from CUDA 12.4 on, and in device code for 9.0 and later only
#if CUDART_VERSION >= 12040 && (!defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900)
#define BULK_COPIES
#include <cuda/barrier>
#include <cuda/ptx>
// a shared barrier's constructor does nothing
#pragma nv_diag_suppress static_var_with_dynamic_init
namespace copies = cuda::device::experimental;
#endif

__global__ void quad_tile(float* out, const float* in, unsigned nx, unsigned ny);

namespace {

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
  const unsigned iy = blockIdx.x * side;  // and row; blocks go down the columns
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

// ---- the experiment ----

/// Why this GPU, or this build, has no tensor copies; or nothing.
std::string lacking(const cudaDeviceProp& gpu) {
  if (gpu.major < 9) return "needs compute capability 9.0";
  if (CUDART_VERSION < 12040) return "needs CUDA 12.4";
  cudaFuncAttributes code{};
  CUDA_CHECK(cudaFuncGetAttributes(&code, turn_tensor));
  return code.ptxVersion < 90 ? "this build has no code for compute capability 9.0" : "";
}

__host__ __device__ float word(size_t i) { return float(hash(i) >> 8); }
DeviceBuffer<float> filled_matrix(size_t words) {
  return filled<float>(words, [] __device__(size_t i) { return word(i); });
}

/// A matrix of ny rows of nx words, and room for its transpose.
struct Matrices {
  unsigned nx, ny;
  DeviceBuffer<float> in = filled_matrix(size_t(nx) * ny);
  GuardedBuffer<float> out{size_t(nx) * ny};
};

Check transposed(const Matrices& m) {
  return equals(m.out,
                [nx = m.nx, ny = m.ny] __device__(size_t i) { return word(i % ny * nx + i / ny); });
}

Benchmark by_tensor_copies(const Matrices& m) {
  const CUtensorMap in = map_of(m.in, m.nx, m.ny), out = map_of(m.out, m.ny, m.nx);
  const dim3 grid((m.ny + side - 1) / side, (m.nx + side - 1) / side);
  const auto work = [=, keep = m] { turn_tensor<<<grid, turning_threads>>>(in, out); };
  return {"turn_tensor", work, transposed(m)};
}

}  // namespace

void tensor_copy(Run& run) {
  unsigned n = run.quick ? 8192 : 16384;
  while (!run.fits(8.0 * n * n)) n /= 2;
  run.title("a matrix of floats is transposed by copies that one thread asks for");
  const Matrices m{n, n};
  const auto copy = [&m] {
    CUDA_CHECK(cudaMemcpyAsync(m.out, m.in, m.in.bytes(), cudaMemcpyDeviceToDevice));
  };
  const auto by_loads = [&m, n] {
    quad_tile<<<dim3(n / side, n / side), turning_threads>>>(m.out, m.in, n, n);
  };
  const Check copied = equals(m.out, [] __device__(size_t i) { return word(i); });
  std::vector<Benchmark> benchmarks{{"cudaMemcpy", copy, copied},
                                    {"quad_tile", by_loads, transposed(m)}};
  const std::string why = lacking(run.gpu);
  if (why.empty()) benchmarks.push_back(by_tensor_copies(m));
  const Timings timed = run.timer.interleaved(benchmarks);

  Table table("transpose, " + std::to_string(n) + " x " + std::to_string(n),
              {"ms", "spread", "GB/s", "of cudaMemcpy", "gain over quad_tile"});
  for (const Benchmark& row : benchmarks) {
    const Times& times = timed[row.name];
    table.row(row.name,
              {times.median(), percent(times.spread()), times.gbs(8.0 * n * n),
               percent(timed["cudaMemcpy"].median() / times.median()),
               row.name == "turn_tensor" ? Cell(ratio(timed["quad_tile"], times)) : Cell("")});
  }
  if (!why.empty()) table.missing("turn_tensor", why);
  run.print(table);
  if (!run.beyond_l2(8.0 * n * n))
    run.note("less than four times the L2: its rates, not the memory's");
}
SAMPLE(9, tensor_copy, "a transpose whose tiles come and leave by tensor copies");

TEST_CASE("tensor_copy: each quad is found where the copy lays it, without conflicts") {
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

TEST_CASE("tensor_copy: tensor copies transpose") {
  if (skip_without_gpu()) return;
  if (const std::string why = lacking(current_gpu()); !why.empty()) return skip(why);
  const std::pair<unsigned, unsigned> shapes[] = {
      {32, 32}, {64, 64}, {96, 32}, {32, 160}, {224, 96}, {128, 352}, {992, 1056}, {32, 64 * 4096}};
  for (const auto& [nx, ny] : shapes) {
    CAPTURE(nx);
    CAPTURE(ny);
    const Matrices m{nx, ny};
    CHECK_NOTHROW(require_right(by_tensor_copies(m)));
  }
}
