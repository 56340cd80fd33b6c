// What the files of `ladder` share: the rungs in the order of the story, what they launch, and the
// words that they sum. The kernels are in ladder.cu.
#pragma once

#include <type_traits>
#include <vector>

#include "../common/report.hpp"

namespace reduce {

// ---- the rungs (ladder_host.cu) ----

constexpr unsigned block_threads = 256;  // the text's block
constexpr unsigned block_steps = 8;      // that halve its words until one is left
constexpr unsigned warps = block_threads / 32;

/// Blocks of the first launch. What is left after it is launched again, until one word is left.
enum class Grid {
  one_pass,  ///< as many as there are words for
  resident,  ///< as many as fit on the GPU at once
  tiles,     ///< two a multiprocessor or more, which need no second launch
  library,   ///< its own affair
};

/// Warp instructions of the kernel, as nvcc 13.0 compiles it for compute capability 9.0 (float).
/// All zero where bytes decide, not instructions. (ladder_counters.cu compares the sums with what
/// the hardware counts.)
struct Instructions {
  unsigned of_a_warp;   ///< before its steps and after them
  unsigned of_a_step;   ///< of each warp, whether its threads add or not
  unsigned first_warp;  ///< what it does beside, alone
};

struct Rung {
  const char* name;    ///< as shown
  const char* symbol;  ///< the kernel's name, as in the code and in the counters' file
  Grid grid;
  unsigned words;  ///< that a thread takes at a time
  unsigned steps;  ///< in shared memory, with a barrier behind each
  Instructions instructions;
};
enum {
  modulo,
  mask,
  strided,
  descending,
  add_on_load,
  shuffle,
  redux,
  several,
  quads,
  once,
  streaming,
  library,
  rung_count
};
extern const Rung rungs[rung_count];

constexpr unsigned tile_threads = 512;
constexpr unsigned tile_loads = 8;  // 16-byte loads of a thread that are in flight together
constexpr unsigned tile_quads = tile_threads * tile_loads;
// Two blocks on each multiprocessor: every GPU has room for 1024 threads, and the registers that
// this leaves a thread hold all loads of a tile.
constexpr unsigned tile_blocks_each = 2;

/// What grids follow from.
struct Gpu {
  unsigned multiprocessors = 0;
  unsigned resident_threads = 0;  ///< of one multiprocessor
};
Gpu gpu_of(const Device& device);

/// Blocks of each launch of a rung, the last of which leaves one word.
std::vector<size_t> launches(const Rung& rung, size_t n, Gpu gpu);
/// Bytes of memory beside input and result: partial sums, or slots.
double scratch_bytes(const Rung& rung, size_t n, Gpu gpu);
/// The most additions that an element goes through on its way into the result.
double additions(const Rung& rung, size_t n, Gpu gpu);

// ---- what to expect (ladder_host.cu) ----

/// Passes through shared memory's banks that loads and stores take.
struct Wavefronts {
  double loads, stores;
  double both() const { return loads + stores; }
};
/// Of the first launch's blocks, each.
Wavefronts wavefronts_of_block(const Rung& rung);
double instructions_of_block(const Rung& rung);

/// The model's three constants that are calibrated in the same run, in milliseconds. The others are
/// properties of the device, and the counts of instructions above.
struct Calibrated {
  double launch = NAN;   ///< a launch that has one word to sum
  double wait = NAN;     ///< what a block takes beside its instructions, over all multiprocessors
  double latency = NAN;  ///< of a load, while all others load too
};
/// From the times of one word in one launch, and of two rungs over n words.
Calibrated calibrate(double one_word, double of_descending, double of_several, size_t n,
                     const Device& device);
/// Milliseconds of a whole sum.
double predicted_ms(const Rung& rung, size_t n, const Calibrated& c, const Device& device);
/// How far a test may hold a row to that.
Model model_of(const Rung& rung, size_t n, const Calibrated& c, const Device& device);

// ---- the rungs' table (ladder_rows.cu) ----

/// Times of the rungs, in turn; empty for those that were not run.
using Times = std::vector<Readings>;

struct RungTable {
  const Run& run;
  size_t n;
  Table table;

  RungTable(const Run& run, size_t n);
  /// The calibration row: one word in one launch.
  void add_launch(const Statistics& us);
  /// Times, predicted and measured.
  template <class T>
  void add_rows(const std::vector<int>& which, const Times& times, const Calibrated& c);
  /// What is known without a GPU.
  void add_unmeasured();

 private:
  void add(const Key& key, const Rung& rung, const Cell& us, const Readings& times);
};

// ---- the claims (ladder_claims.cu) ----

/// Judges them, and saves what each of the guide's versions gains on the others, predicted too.
void judge_ladder(const Run& run, const Times& times, size_t n, const Calibrated& c);

// ---- words, and what their sum is (ladder_data.cu) ----

/// What the words are. Of unsigned all are whole and different, and sums are modulo 2^32; floats
/// take eight passes for that: pass d has hexadecimal digit d of the same numbers, made odd and of
/// either sign (-15 to 15), so that sums stay small and exact in any order. A word left out and
/// another taken twice change at least one pass's sum.
constexpr unsigned digits = 8;
constexpr unsigned fractions = digits;  ///< multiples of 2^-24 from 0 to 1, whose float sums round

/// Passes of exact sums.
template <class T>
constexpr unsigned passes = std::is_floating_point_v<T> ? digits : 1;

/// Words on the device, which are poison before and behind.
template <class T>
struct Words {
  DeviceBuffer<T> all;
  const T* in;  ///< the first word
  size_t n;
  unsigned digit = 0;

  /// `offset`: words before the first. Without one, the last word ends the allocation.
  explicit Words(size_t n, size_t offset = 0);
  /// Fills them with digit `digit`, or with fractions.
  void fill(unsigned digit);
  /// The sum of the first `count` of them, by the device. Fractions in units of 2^-24.
  long long sum(size_t count) const;
  /// The same by the host, from the description alone.
  static long long sum_by_host(unsigned digit, size_t count);
};

// ---- sums (ladder.cu) ----

using Slot = unsigned long long;

/// Result and scratch memory for sums of up to `n` words.
template <class T>
struct Work {
  static constexpr size_t canaries = 64;  ///< behind the result, and behind the partial sums

  Gpu gpu;
  DeviceBuffer<T> out, partial;
  DeviceBuffer<Slot> slots;
  DeviceBuffer<char> for_library;

  Work(size_t n, Gpu gpu);
  /// Queues the whole sum of the first `n` words: when it has run, `out` holds the result.
  void sum(int rung, const T* in, size_t n, cudaStream_t stream = nullptr) const;
  void poison();
  T result() const;
  /// Whether nothing stands behind the result and behind the partial sums of such a sum.
  bool canaries_stand(int rung, size_t n) const;
  /// One sum, whose result has to be `right` to the last bit.
  Task task(int rung, const T* in, size_t n, T right);
};

/// Rungs that this build can run on this device for so many words, in order.
template <class T>
std::vector<int> rungs_for(size_t n);

/// Throws unless the sums of the first n words by each of these rungs are right: in all passes to
/// the last bit, of fractions within the bound of their order, and the same bits when run again.
/// Leaves pass 0 in the words.
template <class T>
void require_sums(const std::vector<int>& which, Words<T>& words, size_t n, Work<T>& work);

/// The first launch of a rung alone: how many of the sums that its blocks leave are not of the
/// words that they have to take. One launch leaves the total only, which is then compared. Quads
/// have to be whole.
template <class T>
size_t wrong_after_first_launch(int rung, const Words<T>& words, Gpu gpu);

// ---- further tables ----

/// Bound of a float sum's error as a share of the sum of magnitudes (ladder_order.cu).
double error_bound(double additions);
/// What each rung's order of additions does to a float sum. Leaves fractions in the words.
Table order_table(const Run& run);
void add_orders(Words<float>& words, Work<float>& work, Table& table);
/// Of the rungs whose order is the same on all GPUs.
void add_orders_of_any_gpu(size_t n, Table& table);

/// Device memory that sums of n words take, the default n, and the sizes that CUB is measured
/// beside: the typed one, if there is one; else powers of two, and in a full run the number behind
/// each (ladder_sizes.cu).
double bytes_needed(size_t n);
size_t default_size(const Run& run);
std::vector<size_t> sizes_beside_library(const Run& run, size_t typed);

/// The best rung beside CUB, by size (ladder_sizes.cu). `latency` as of Calibrated.
Table sizes_table(const Run& run);
template <class T>
void add_sizes(const Run& run, const std::vector<size_t>& sizes, double latency, Table& table);

}  // namespace reduce

// in ladder_cub.cu
void cub_sum(void* scratch, size_t& scratch_bytes, const float* in, float* out, int n,
             cudaStream_t stream);
void cub_sum(void* scratch, size_t& scratch_bytes, const unsigned* in, unsigned* out, int n,
             cudaStream_t stream);
