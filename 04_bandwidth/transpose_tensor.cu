// transpose, 2 of 2: by tensor copies (TMA, compute capability 9.0 and later), which no text asks
// for. One thread requests a whole tile. The hardware works out the addresses, leaves out what lies
// beyond the matrix, and lays the tile into shared memory with its quads (16 bytes) swapped. Two
// questions:
//   - Does that beat 16-byte loads and stores?
//   - What do tiles cost that are copied and not transposed? Kernels b and c move the same bytes in
//     the same tiles. They differ in the order in which blocks take them.
// Built and run with transpose.cu.
//
//  a  turn_tensor        a tile arrives, the block's threads transpose it, and it leaves
//  b  copy_tiles         a tile arrives and leaves; blocks along the rows
//  c  copy_tiles_down    the same; blocks down the columns
#include <cuda.h>

#include "transpose.cuh"

// libcu++ has what is needed from CUDA 12.4 on, in device code for 9.0 and later only
#if CUDART_VERSION >= 12040 && (!defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900)
#define TENSOR_COPIES
#include <cuda/barrier>
#include <cuda/ptx>
#pragma nv_diag_suppress \
    static_var_with_dynamic_init  // a shared barrier's constructor does nothing
namespace copies = cuda::device::experimental;
#endif

using namespace samples;

namespace {

constexpr unsigned line = 32;        // words: 128 bytes, within which a copy swaps quads
constexpr unsigned side = 2 * line;  // of a tile
// 16-byte quads per row of the tile; GPUs before 9.0 have no tensor copies, and do not use it
[[maybe_unused]] constexpr unsigned quads = side / 4;
constexpr unsigned lines = side / line;  // per row of the tile
constexpr unsigned turning = 256;        // threads, each of which transposes 4 x 4 words

#ifdef TENSOR_COPIES

// ---- kernels: `in` and `out` describe the matrices, in lines (map_of below) ----

// The tile lies in shared memory as 128 lines of 128 bytes, two for each row. The copies swap the
// eight quads of line l by l % 8 (^). For rows 4 * down + k that is 2 * k and 2 * k + 1, the same
// for all lanes of a warp that are in the same half of a row. Shared memory serves eight lanes at a
// time: they take eight 4 x 4 squares of a diagonal (`down` below), so that they reach all 32 banks
// when they read rows, and again when they write what will be rows of the output.
// [turn_tensor]
__global__ void __launch_bounds__(turning)
    turn_tensor(const __grid_constant__ CUtensorMap in, const __grid_constant__ CUtensorMap out) {
  __shared__ alignas(1024) float4 tile[side][quads];  // the swizzle repeats every 1024 bytes
  __shared__ cuda::barrier<cuda::thread_scope_block> came;
  const unsigned ix = blockIdx.y * side;  // where the tile begins: column of the input
  const unsigned iy = blockIdx.x * side;  // and row; blocks go down the columns, as in `best`
  if (threadIdx.x == 0) {
    init(&came, 1);
    copies::fence_proxy_async_shared_cta();  // the unit reads memory by another way
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
  for (unsigned k = 0; k < 4; ++k) row[k] = tile[4 * down + k][across ^ (2 * k + across / 8)];
  __syncthreads();  // all have read: the tile can be overwritten
  tile[4 * across + 0][down ^ (0 + down / 8)] = {row[0].x, row[1].x, row[2].x, row[3].x};
  tile[4 * across + 1][down ^ (2 + down / 8)] = {row[0].y, row[1].y, row[2].y, row[3].y};
  tile[4 * across + 2][down ^ (4 + down / 8)] = {row[0].z, row[1].z, row[2].z, row[3].z};
  tile[4 * across + 3][down ^ (6 + down / 8)] = {row[0].w, row[1].w, row[2].w, row[3].w};
  copies::fence_proxy_async_shared_cta();  // the copy sees what this thread wrote
  __syncthreads();
  if (threadIdx.x == 0) {
    copies::cp_async_bulk_tensor_3d_shared_to_global(&out, 0, iy / line, ix, tile);
    copies::cp_async_bulk_commit_group();
    copies::cp_async_bulk_wait_group_read<0>();  // the tile stays until the copy has read it
  }
}
// [/turn_tensor]

// One thread copies a tile as it is. Neighbouring blocks take neighbours in a row of tiles.
__global__ void copy_tiles(const __grid_constant__ CUtensorMap in,
                           const __grid_constant__ CUtensorMap out) {
  __shared__ alignas(1024) float4 tile[side][quads];
  __shared__ cuda::barrier<cuda::thread_scope_block> came;
  const unsigned ix = blockIdx.x * side;
  const unsigned iy = blockIdx.y * side;
  init(&came, 1);
  copies::fence_proxy_async_shared_cta();
  copies::cp_async_bulk_tensor_3d_global_to_shared(tile, &in, 0, ix / line, iy, came);
  (void)cuda::device::barrier_arrive_tx(came, 1, sizeof(tile));
  while (!cuda::ptx::mbarrier_try_wait_parity(cuda::device::barrier_native_handle(came), 0))
    continue;
  copies::fence_proxy_async_shared_cta();
  copies::cp_async_bulk_tensor_3d_shared_to_global(&out, 0, ix / line, iy, tile);
  copies::cp_async_bulk_commit_group();
  copies::cp_async_bulk_wait_group_read<0>();
}

// The same; neighbouring blocks take neighbours in a column of tiles.
__global__ void copy_tiles_down(const __grid_constant__ CUtensorMap in,
                                const __grid_constant__ CUtensorMap out) {
  __shared__ alignas(1024) float4 tile[side][quads];
  __shared__ cuda::barrier<cuda::thread_scope_block> came;
  const unsigned ix = blockIdx.y * side;
  const unsigned iy = blockIdx.x * side;
  init(&came, 1);
  copies::fence_proxy_async_shared_cta();
  copies::cp_async_bulk_tensor_3d_global_to_shared(tile, &in, 0, ix / line, iy, came);
  (void)cuda::device::barrier_arrive_tx(came, 1, sizeof(tile));
  while (!cuda::ptx::mbarrier_try_wait_parity(cuda::device::barrier_native_handle(came), 0))
    continue;
  copies::fence_proxy_async_shared_cta();
  copies::cp_async_bulk_tensor_3d_shared_to_global(&out, 0, ix / line, iy, tile);
  copies::cp_async_bulk_commit_group();
  copies::cp_async_bulk_wait_group_read<0>();
}

#else  // never launched: no_tensor_copies() gives a reason

__global__ void turn_tensor(CUtensorMap, CUtensorMap) {}
__global__ void copy_tiles(CUtensorMap, CUtensorMap) {}
__global__ void copy_tiles_down(CUtensorMap, CUtensorMap) {}

#endif

// ---- how a matrix is described to the copies ----

using Encode = decltype(&cuTensorMapEncodeTiled);

/// The driver's function, by its address, so that nothing has to be linked; null if it has none.
Encode encode_of_driver() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  const char* const name = "cuTensorMapEncodeTiled";
#if CUDART_VERSION >= 12050
  CUDA_CHECK(cudaGetDriverEntryPointByVersion(name, &function, 12000, cudaEnableDefault, &found));
#else
  CUDA_CHECK(cudaGetDriverEntryPoint(name, &function, cudaEnableDefault, &found));
#endif
  return found == cudaDriverEntryPointSuccess ? reinterpret_cast<Encode>(function) : nullptr;
}

/// A matrix as words of a line, lines of a row, and rows. A box of 32 words, 2 lines and 64 rows is
/// a tile. Of a tile beyond the edge the copies move what lies within. (As words and rows alone a
/// box could be no wider than a line, within which quads are swapped: the 256 bytes of a row would
/// arrive in two parts, far apart in time.)
CUtensorMap map_of(float* words, Shape m) {
  const cuuint64_t sizes[] = {line, m.nx / line, m.ny};
  const cuuint64_t bytes_apart[] = {line * sizeof(float), m.nx * sizeof(float)};  // lines, rows
  const cuuint32_t box[] = {line, lines, side};
  const cuuint32_t every[] = {1, 1, 1};
  CUtensorMap map{};
  const Encode encode = encode_of_driver();
  if (!encode) return map;  // without a GPU a task is made, and never run
  const CUresult result =
      encode(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 3, words, sizes, bytes_apart, box, every,
             CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
             CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS)
    throw std::runtime_error("cuTensorMapEncodeTiled of " + sides(m) + ": error " +
                             std::to_string(int(result)));
  return map;
}

constexpr unsigned turning_resident = 5;  // blocks per multiprocessor, as for `best`

/// Tiles along a row and along a column.
dim3 tiles_of(Shape m) { return dim3((m.nx + side - 1) / side, (m.ny + side - 1) / side); }
dim3 tiles_down(Shape m) { return dim3(tiles_of(m).y, tiles_of(m).x); }

}  // namespace

std::string no_tensor_copies(const Device& device, Shape m) {
  if (m.nx % line != 0 || m.ny % line != 0) return "a row is no multiple of 128 bytes";
  if (device.prop.major < 9) return "needs compute capability 9.0";
  if (device.number < 0) return "";  // made up or recorded: it has its rows whatever was built
#ifdef TENSOR_COPIES
  cudaFuncAttributes code{};
  CUDA_CHECK(cudaFuncGetAttributes(&code, turn_tensor));
  if (code.ptxVersion < 90) return "this build has no code for compute capability 9.0";
  return encode_of_driver() ? "" : "the driver has no cuTensorMapEncodeTiled";
#else
  return "needs CUDA 12.4";
#endif
}

Task transpose_by_tensor_copies(const Shared<Matrices>& x) {
  const dim3 grid = tiles_down(x->m);
  const size_t spare = spare_shared_bytes((const void*)turn_tensor, grid, turning_resident);
  const CUtensorMap in = map_of(x->in.data(), x->m);
  const CUtensorMap out = map_of(x->out.data(), {x->m.ny, x->m.nx});
  const auto launch = [x, grid, spare, in, out] { turn_tensor<<<grid, turning, spare>>>(in, out); };
  return x->task(name_of<turn_tensor>(), launch, true);
}

Task copy_tiles_along_rows(const Shared<Matrices>& x) {
  const dim3 grid = tiles_of(x->m);
  const CUtensorMap in = map_of(x->in.data(), x->m), out = map_of(x->out.data(), x->m);
  const auto launch = [x, grid, in, out] { copy_tiles<<<grid, 1>>>(in, out); };
  return x->task(name_of<copy_tiles>(), launch, false);
}

Task copy_tiles_down_columns(const Shared<Matrices>& x) {
  const dim3 grid = tiles_down(x->m);
  const CUtensorMap in = map_of(x->in.data(), x->m), out = map_of(x->out.data(), x->m);
  const auto launch = [x, grid, in, out] { copy_tiles_down<<<grid, 1>>>(in, out); };
  return x->task(name_of<copy_tiles_down>(), launch, false);
}
