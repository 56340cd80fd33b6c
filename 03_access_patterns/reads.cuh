// What the experiments that only read have in common: their words, their grid, and how the sums of
// all threads are proved right. Nothing here knows a kernel's index.
#pragma once

#include <algorithm>

#include "../common/report.hpp"
#include "sizes.hpp"
#include "transactions.hpp"

/// Eight warps: they divide the resident threads of all GPUs.
constexpr unsigned block_threads = 256;

/// As many blocks as are resident at once. Each thread steps on by the whole grid.
struct Grid {
  unsigned blocks;
  unsigned threads() const { return blocks * block_threads; }
};
inline Grid resident_grid(const Device& device) {
  return {resident_blocks(device.prop, block_threads)};
}

/// Bytes of an array that is read: `by_default`, doubled until the `share` of it that moves is
/// beyond the L2, and halved until it fits.
inline size_t bytes_to_read(const Run& run, size_t by_default, double share) {
  size_t bytes = by_default;
  while (run.device && !beyond_l2(*run.device, share * double(bytes))) bytes *= 2;
  return fitting_size("the array", 0, bytes, run.memory_there(),
                      [](size_t n) { return 1.1 * double(n); });
}

/// 4-byte words that a device reads in 32 passes without leaving the L2: a quarter of it, in whole
/// steps of a grid whose threads have eight loads under way; or one, where the L2 is small for the
/// grid, as a T4's is.
inline size_t words_within_l2(size_t l2_bytes, Grid grid) {
  const size_t words = l2_bytes / 4 / 4;
  for (const size_t loads : {8, 1})
    if (const size_t step = loads * grid.threads(); words > step) return words - words % step;
  return words;
}

// ---- what is right ----

/// Word i: without pattern, so that no two words stand in for two others.
__host__ __device__ inline unsigned word_at(size_t i) {
  unsigned x = unsigned(i) ^ unsigned(i >> 32) * 0x9e3779b1u;
  x = (x ^ x >> 16) * 0x85ebca6bu;
  x = (x ^ x >> 13) * 0xc2b2ae35u;
  return x ^ x >> 16;
}

static __global__ void fill_words(unsigned* words, size_t n) {
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += threads)
    words[i] = word_at(i);
}

static __global__ void count_what_is_left(const unsigned* sums, unsigned n, unsigned* wrong) {
  for (unsigned t = blockIdx.x * blockDim.x + threadIdx.x; t < n; t += gridDim.x * blockDim.x)
    if (sums[t] != 0) atomicAdd(wrong, 1u);
}

/// Which words a launch has to read, as seen from the memory: from word `first` on it is cut into
/// slots, the first `wide` words of which belong to one thread. Slots go round the threads.
struct Slots {
  size_t first, words, count;  ///< of the array; of a slot; slots
  unsigned wide = 1;
  unsigned passes = 1;  ///< how often the launch reads them all
};

/// Takes each word away from the sum of the thread that must have read it, from words to threads
/// (the kernels go from threads to words). Correct sums end at zero.
static __global__ void take_away_slots(unsigned* sums, unsigned threads, Slots slots) {
  const size_t all = slots.count * slots.words;
  const size_t step = size_t(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < all; i += step)
    if (i % slots.words < slots.wide)
      atomicSub(&sums[i / slots.words % threads], slots.passes * word_at(slots.first + i));
}

/// The words that are read, and the sum that each thread writes. The words end where their
/// allocation does, so that a read beyond is seen by memcheck; behind the sums stand canaries.
struct Words {
  static constexpr size_t canaries = 64;

  Grid grid;
  DeviceBuffer<unsigned> in, sums, sums_left, wrong_sums{1};

  Words(size_t n, Grid grid)
      : grid(grid), in(n), sums(grid.threads() + canaries), sums_left(grid.threads()) {
    fill_words<<<1024, 256>>>(in.data(), n);
    CUDA_CHECK_LAUNCH();
  }

  /// Sums that are not what `take_away(sums)` takes from them. The sums themselves stay.
  size_t wrong(const Function<void(unsigned*)>& take_away) {
    CUDA_CHECK(cudaMemcpyAsync(sums_left.data(), sums.data(), sums_left.bytes(),
                               cudaMemcpyDeviceToDevice));
    take_away(sums_left.data());
    wrong_sums.copy_from({0});
    count_what_is_left<<<256, 256>>>(sums_left.data(), grid.threads(), wrong_sums.data());
    CUDA_CHECK_LAUNCH();
    return wrong_sums.to_host()[0] + !canaries_stand();
  }
  size_t wrong(const Slots& slots) {
    return wrong([&](unsigned* left) {
      take_away_slots<<<4096, 256>>>(left, grid.threads(), slots);
      CUDA_CHECK_LAUNCH();
    });
  }
  Task task(std::string name, Function<void()> read, Function<void(unsigned*)> take_away) {
    Check check;
    check.poison = [this] { sums.poison(); };
    check.wrong = [this, take_away] { return wrong(take_away); };
    return {std::move(name), std::move(read), std::move(check)};
  }
  Task task(std::string name, Function<void()> read, const Slots& slots) {
    Check check;
    check.poison = [this] { sums.poison(); };
    check.wrong = [this, slots] { return wrong(slots); };
    return {std::move(name), std::move(read), std::move(check)};
  }
  /// Makes one sum wrong, for self-checks.
  void change_one() {
    std::vector<unsigned> all = sums.to_host();
    all[5] += 1;
    sums.copy_from(all);
  }
  /// Whether nothing was written behind the sums.
  bool canaries_stand() const {
    const std::vector<unsigned> all = sums.to_host();
    return std::count(all.end() - canaries, all.end(), ~0u) == long(canaries);
  }
};

// ---- what to expect ----

/// A test holds rows that rest on memory_piece to their predictions only where it was found.
inline Model model_of_pieces(const Device* device) {
  return device && device->prop.major == 9 ? Model::traffic : Model::host;
}
