// Walks through an image or a volume, and the images: what `locality` and `texture_unit` share. A
// thread reads at eight places. A walk says which places these are; a kernel says how it reads.
#pragma once

#include <algorithm>

#include "../common/arrays.cuh"
#include "texture.cuh"

constexpr unsigned threads = 256;  // of a block: eight warps
constexpr unsigned steps = 8;      // reads of a thread, all in flight at once
constexpr unsigned block_reads = threads * steps;

struct Texel {
  unsigned x, y, z;
};

/// How many parts of `size` cover n.
__host__ __device__ constexpr unsigned parts(unsigned n, unsigned size) {
  return n / size + (n % size != 0);
}

// ---- walks: which texel does a thread read, and when? ----

struct Walk {
  const char* name;
  Texel warp;            ///< the shape of what a warp reads together, lane by lane along x
  Texel warps;           ///< a block's eight warps: side by side, below, behind
  Texel step;            ///< from a thread's read to its next
  unsigned overlap = 1;  ///< 2: a patch begins half a patch after the last, to the right and down

  /// Texels by which one block's begin after another's.
  __host__ __device__ constexpr Texel tile() const {
    return {step.x ? steps * step.x : warps.x * warp.x / overlap,
            step.y ? steps * step.y : warps.y * warp.y / overlap,
            step.z ? steps * step.z : warps.z * warp.z};
  }
  __host__ __device__ Texel first(unsigned x, unsigned y, unsigned z) const {
    return {x * tile().x, y * tile().y, z * tile().z};
  }
  /// Read k of thread `tid`, in a block whose first texel is `first`.
  __host__ __device__ Texel place(Texel first, unsigned tid, unsigned k) const {
    const unsigned lane = tid % 32, w = tid / 32;
    return {
        first.x + k * step.x + w % warps.x * (warp.x / overlap) + lane % warp.x,
        first.y + k * step.y + w / warps.x % warps.y * (warp.y / overlap) + lane / warp.x % warp.y,
        first.z + k * step.z + w / warps.x / warps.y * warp.z + lane / warp.x / warp.y};
  }
  bool in_volume() const { return warp.z > 1; }
  dim3 blocks(unsigned n) const {
    return {parts(n, tile().x), parts(n, tile().y), in_volume() ? parts(n, tile().z) : 1};
  }
  size_t all_threads(unsigned n) const {
    return size_t(blocks(n).x) * blocks(n).y * blocks(n).z * threads;
  }
  /// Of the texels that are read, each counted once.
  double bytes_read(unsigned n) const {
    return 4.0 * double(all_threads(n) / threads * tile().x * tile().y * tile().z);
  }
};

enum { row, column, columns, p8x4, p4x8, o8x4, o4x8, box, depth };
constexpr Walk walks[] = {
    {"row", {32, 1, 1}, {8, 1, 1}, {256, 0, 0}},
    {"column", {1, 32, 1}, {1, 8, 1}, {0, 256, 0}},
    // the next read wants the texel beside it: the same sectors of the rows
    {"columns side by side", {1, 32, 1}, {1, 8, 1}, {1, 0, 0}},
    {"8 x 4", {8, 4, 1}, {4, 2, 1}, {0, 8, 0}},
    {"4 x 8", {4, 8, 1}, {8, 1, 1}, {0, 8, 0}},
    // each texel is read four times, at the image's left and upper edge less often
    {"overlapping 8 x 4", {8, 4, 1}, {8, 1, 1}, {0, 2, 0}, 2},
    {"overlapping 4 x 8", {4, 8, 1}, {8, 1, 1}, {0, 4, 0}, 2},
    {"4 x 4 x 2", {4, 4, 2}, {2, 2, 2}, {0, 0, 4}},
    {"by depth", {1, 1, 32}, {8, 1, 1}, {0, 1, 0}},
};

/// Room for the sums of all threads, by any walk.
inline size_t most_threads(unsigned n, unsigned n_of_volume) {
  size_t most = 0;
  for (const Walk& walk : walks)
    most = std::max(most, walk.all_threads(walk.in_volume() ? n_of_volume : n));
  return most;
}

/// From rows `stride` texels apart. A volume's planes are n rows apart.
template <class T, bool read_only>
struct Load {
  const T* texels;
  size_t stride;
  unsigned n;
  __device__ T operator()(Texel p) const {
    const T* const texel = &texels[(size_t(p.z) * n + p.y) * stride + p.x];
    return read_only ? __ldg(texel) : *texel;
  }
};

// ---- images: rows in plain memory, and the same texels in a CUDA array ----

/// Texel p of every image: a whole number from 1 to 256 without pattern.
__host__ __device__ inline unsigned texel_at(Texel p) {
  return 1 + (hash(p.x + (size_t(p.y) << 20) + (size_t(p.z) << 40)) >> 24);
}
__device__ inline void set(float& texel, unsigned v) { texel = float(v); }
/// A colour's channels are 0 or 255, by the lowest four bits.
__device__ inline void set(uchar4& texel, unsigned v) {
  const auto channel = [v](unsigned bit) { return (unsigned char)(v >> bit & 1 ? 255 : 0); };
  texel = {channel(0), channel(1), channel(2), channel(3)};
}

template <class T>
DeviceBuffer<T> filled_rows(unsigned n, unsigned planes, size_t stride) {
  return filled<T>((size_t(n) * planes - 1) * stride + n, [n, stride] __device__(size_t i) {
    const size_t row = i / stride;
    T texel;
    set(texel, texel_at({unsigned(i % stride), unsigned(row % n), unsigned(row / n)}));
    return texel;
  });
}

/// Texels from row to row: whole pieces of 512 bytes, as cudaMallocPitch would have it.
template <class T>
constexpr size_t pitched_stride(unsigned n) {
  constexpr unsigned piece = 512 / sizeof(T);
  return parts(n, piece) * size_t(piece);
}

/// n x n texels, or n x n x n.
template <class T>
struct Image {
  unsigned n;
  size_t stride;
  DeviceBuffer<T> texels;
  CudaArray array;

  explicit Image(unsigned n, bool is_volume = false)
      : n(n),
        stride(is_volume ? n : pitched_stride<T>(n)),
        texels(filled_rows<T>(n, is_volume ? n : 1, stride)),
        array(CudaArray::of<T>({n, n, is_volume ? n : 0})) {
    cudaMemcpy3DParms copy{};
    copy.srcPtr = make_cudaPitchedPtr(texels.data(), stride * sizeof(T), n, n);
    copy.dstArray = array;
    copy.extent = {n, n, is_volume ? n : 1};
    copy.kind = cudaMemcpyDeviceToDevice;
    CUDA_CHECK(cudaMemcpy3D(&copy));
  }
  template <bool read_only>
  Load<T, read_only> load() const {
    return {texels, stride, n};
  }
  Texture array_texture(const cudaTextureDesc& desc) const {
    return Texture(array_resource(array), desc);
  }
  Texture pitched_texture(const cudaTextureDesc& desc) const {
    const auto format = cudaCreateChannelDesc<T>();
    return Texture(pitched_resource(texels, format, n, n, stride * sizeof(T)), desc);
  }
};

// ---- what is right ----

/// A read of a texel as it is, in sixteenths.
struct OfTexel {
  __host__ __device__ unsigned operator()(Texel p) const { return 16 * texel_at(p); }
};

/// Every thread's sum is right, and behind the last thread's the poison still stands. A read at p
/// has to give sixteenths(p) / 16: in whole numbers sums have no order.
template <int w, class Sixteenths>
Check adds_up(const GuardedBuffer<float>& out, unsigned n, Sixteenths sixteenths) {
  const unsigned across = walks[w].blocks(n).x, down = walks[w].blocks(n).y;
  const size_t all = walks[w].all_threads(n);
  const auto bits = [=] __device__(size_t i) {
    constexpr Walk walk = walks[w];
    if (i >= all) return ~0u;
    const unsigned block = unsigned(i / threads);
    const Texel first = walk.first(block % across, block / across % down, block / across / down);
    unsigned sum = 0;
    for (unsigned k = 0; k < steps; ++k) {
      const Texel p = walk.place(first, unsigned(i % threads), k);
      if (p.x < n && p.y < n && p.z < n) sum += sixteenths(p);
    }
    return __float_as_uint(float(sum) / 16);
  };
  const auto find_error = [&out, bits] {
    const auto* found = reinterpret_cast<const unsigned*>(out.data());
    const std::string error = find_mismatch(found, out.size(), bits);
    return error.empty() ? guard_error(out) : error;
  };
  return {[&out] { out.poison(); }, find_error};
}

/// An image's side of at least so many texels.
inline unsigned side(double texels, unsigned step) { return parts(unsigned(texels), step) * step; }
