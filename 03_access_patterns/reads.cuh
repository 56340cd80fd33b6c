// What the experiments that only read have in common: their words, their grid, and how the sums of
// all threads are proved right. Nothing here knows a kernel's index.
#pragma once

#include "../framework/common/checked.cuh"
#include "../framework/common/report.hpp"
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
/// steps of a grid whose threads have eight loads in flight; or one, where the L2 is small for the
/// grid, as a T4's is.
inline size_t words_within_l2(size_t l2_bytes, Grid grid) {
  const size_t words = l2_bytes / 4 / 4;
  for (const size_t loads : {8, 1})
    if (const size_t step = loads * grid.threads(); words > step) return words - words % step;
  return words;
}

// ---- what is right ----

/// Word i of every array that is read: without pattern, so that no two words stand in for others.
__host__ __device__ inline unsigned word_at(size_t i) { return samples::scrambled(i); }
struct WordAt {
  __device__ unsigned operator()(size_t i) const { return word_at(i); }
};
struct IsZero {
  __device__ bool operator()(size_t, unsigned word) const { return word == 0; }
};

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

/// Which words the lanes of a warp read in each of `loads` loads, which go round the warps: counted
/// from where the load begins, `warp_words` after the load before it.
struct Pattern {
  size_t warp_words;
  int word[32];  ///< negative: the lane is idle

  template <class WordOf>
  static Pattern of(size_t warp_words, const WordOf& word_of) {
    Pattern pattern{warp_words, {}};
    for (unsigned lane = 0; lane < 32; ++lane) pattern.word[lane] = int(word_of(lane));
    return pattern;
  }
  Warp warp() const {
    return warp_of(4, [this](unsigned lane) { return word[lane]; });
  }
  size_t last() const { return size_t(*std::max_element(word, word + 32)); }
  /// Words of an array that ends with the last word that is read.
  size_t words(size_t loads) const { return (loads - 1) * warp_words + last() + 1; }
};

/// Takes each word away from the sum of the lane that must have read it.
static __global__ void take_away_pattern(unsigned* sums, size_t loads, size_t warps, Pattern p) {
  const size_t step = size_t(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < loads * 32; i += step) {
    const size_t load = i / 32, lane = i % 32;
    const int word = p.word[lane];
    if (word >= 0) atomicSub(&sums[load % warps * 32 + lane], word_at(load * p.warp_words + word));
  }
}

/// The words that are read, and the sum that each thread writes.
struct Words {
  using Sums = samples::Output<unsigned>;

  Grid grid;
  DeviceBuffer<unsigned> in;
  Sums sums, left;

  Words(size_t n, Grid grid)
      : grid(grid),
        in(samples::filled<unsigned>(n, WordAt{})),
        sums(grid.threads()),
        left(grid.threads()) {}

  /// Sums from which `take_away(sums)` leaves more than zero, and bytes written behind them. The
  /// sums themselves stay.
  size_t wrong(const Function<void(unsigned*)>& take_away) {
    const size_t with_canaries = sums.size() + Sums::canaries;
    CUDA_CHECK(cudaMemcpyAsync(left.data(), sums.data(), with_canaries * sizeof(unsigned),
                               cudaMemcpyDeviceToDevice));
    take_away(left.data());
    return left.wrong(IsZero{});
  }
  Task task(std::string name, Function<void()> read, Function<void(unsigned*)> take_away) {
    Check check;
    check.poison = [this] { sums.poison(); };
    check.wrong = [this, take_away] { return wrong(take_away); };
    return {std::move(name), std::move(read), std::move(check)};
  }
  Task task(std::string name, Function<void()> read, const Slots& slots) {
    return task(std::move(name), std::move(read), [this, slots](unsigned* left) {
      take_away_slots<<<4096, 256>>>(left, grid.threads(), slots);
      CUDA_CHECK_LAUNCH();
    });
  }
  Task task(std::string name, Function<void()> read, const Pattern& pattern, size_t loads) {
    return task(std::move(name), std::move(read), [this, pattern, loads](unsigned* left) {
      take_away_pattern<<<4096, 256>>>(left, loads, grid.threads() / 32, pattern);
      CUDA_CHECK_LAUNCH();
    });
  }
  /// Makes one sum wrong, for self-checks.
  void change_one() { sums.change(5); }
};

// ---- prediction ----

/// A test holds rows that rest on memory_piece to their predictions only where it was found.
inline Model model_of_pieces(const Device* device) {
  return device && device->prop.major == 9 ? Model::traffic : Model::host;
}
