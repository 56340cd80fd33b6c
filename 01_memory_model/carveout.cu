// carveout: since Volta one array of each multiprocessor is both shared memory and L1, and "the
// amount of shared memory is configurable at runtime" [PR]; the wiki still has "the same 64 KB"
// [LC]. Here one thread goes round rings in L1, after shared memory was given more and more of the
// array. Two things to look at:
//   - How the largest ring that L1 holds shrinks.
//   - Who has the last word: the hint, or the block that needs shared memory.
//
//   cmake -S 01_memory_model -B build/carveout -DEXPERIMENTS=carveout
//   cmake --build build/carveout && build/carveout/01_memory_model
//
//   1  chase_split  one thread goes round a ring in global memory, through L1
#include <algorithm>

#include "../framework/common/experiment.hpp"
#include "chase.cuh"

using namespace samples;

namespace {

using chase::Answer, chase::slot_at, chase::slot_bytes;

constexpr unsigned unroll = 16;  // loads in a turn of the loop, behind which its branch hides

// ---- kernel ----

// [chase_split]
// First the whole block reads the ring in the walk's order, and fills L1 with it. Then its first
// thread goes round: each slot holds the address of the next. Shared memory that the launch asks
// for is not used; it only has to be there.
__global__ void chase_split(Answer* answer, size_t ring, unsigned slots, unsigned untimed,
                            unsigned timed) {
  size_t seen = 0;
#pragma unroll 1
  for (int pass = 0; pass < 2; ++pass)
#pragma unroll 1
    for (unsigned k = threadIdx.x; k < slots; k += blockDim.x) {
      size_t address = ring + slot_bytes * size_t(slot_at(k, slots));
      asm volatile("ld.global.ca.u64 %0, [%0];" : "+l"(address)::"memory");
      seen ^= address;
    }
  if (__syncthreads_or(seen == 1)) return;  // never: addresses of slots are even
  if (threadIdx.x != 0) return;

  size_t address = ring + slot_bytes * size_t(slot_at(0, slots));
  unsigned steps = untimed;  // a round that finds what the block's reading has left
  long long start = 0;
#pragma unroll 1
  for (int pass = 0; pass < 2; ++pass) {
    start = clock64();
#pragma unroll 1
    for (unsigned i = 0; i < steps; i += unroll)
#pragma unroll
      for (unsigned u = 0; u < unroll; ++u)
        asm volatile("ld.global.ca.u64 %0, [%0];" : "+l"(address)::"memory");
    steps = timed;
  }
  *answer = {clock64() - start, address - ring};
}
// [/chase_split]

constexpr unsigned block_threads = 1024;

// ---- prediction ----

/// How an array is split: all of it, and the amounts that shared memory may have. By the tables
/// "technical specifications per compute capability" and "shared memory" of NVIDIA's programming
/// and tuning guides, as no call reports either.
struct Splits {
  int total_kib;
  std::vector<int> shared_kib;
};

/// Without amounts where L1 is an array of its own (before 7.0), or where we know no table.
Splits splits_of(int major, int minor) {
  if (major == 7 && minor < 5) return {128, {0, 8, 16, 32, 64, 96}};
  if (major == 7) return {96, {32, 64}};
  if (major == 8 && (minor == 0 || minor == 7)) return {192, {0, 8, 16, 32, 64, 100, 132, 164}};
  if (major == 8 || major == 12) return {128, {0, 8, 16, 32, 64, 100}};
  if (major == 9 || major == 10) return {256, {0, 8, 16, 32, 64, 100, 132, 164, 196, 228}};
  return {0, {}};
}

/// What a launch asks for: the hint in percent of the most that shared memory may have, and the
/// bytes of its block.
struct Wish {
  int hint_percent;
  int block_kib;
};

/// The smallest amount that fulfils both; each block needs `reserved_kib` beside its own.
int predicted_shared_kib(const Splits& splits, const Wish& wish, int reserved_kib) {
  const double hinted = wish.hint_percent / 100.0 * splits.shared_kib.back();
  const double needed = std::max<double>(hinted, wish.block_kib + reserved_kib);
  for (const int kib : splits.shared_kib)
    if (kib >= needed) return kib;
  return splits.shared_kib.back();
}

/// The hint that asks for just so much: whole percent, rounded down, are more than the amount
/// below.
int percent_of(int kib, const Splits& splits) { return 100 * kib / splits.shared_kib.back(); }

// ---- measuring ----

class L1 {
 public:
  explicit L1(int most_kib) : memory_(size_t(most_kib) << 10) {}

  /// Cycles per load of a ring of so many KiB. Throws unless the chase ends where it should.
  double cycles(int kib, const Wish& wish) {
    const unsigned slots = (unsigned(kib) << 10) / slot_bytes;
    const unsigned untimed = (slots + unroll - 1) / unroll * unroll;
    const unsigned timed = std::max(2 * untimed, 2048u);
    const size_t ring = chase::linked(memory_, slots);
    answer_.poison();
    CUDA_CHECK(cudaFuncSetAttribute(chase_split, cudaFuncAttributePreferredSharedMemoryCarveout,
                                    wish.hint_percent));
    CUDA_CHECK(cudaFuncSetAttribute(chase_split, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    wish.block_kib << 10));
    chase_split<<<1, block_threads, wish.block_kib << 10>>>(answer_.data(), ring, slots, untimed,
                                                            timed);
    CUDA_CHECK_LAUNCH();
    const Answer found = answer_.to_host()[0];
    const unsigned long long end = (unsigned long long)slot_bytes * slot_at(untimed + timed, slots);
    require_right(found.end == end, "carveout: the chase ended elsewhere");
    require_right(found.cycles > 0, "carveout: the chase took no time");
    return double(found.cycles) / timed;
  }

 private:
  DeviceBuffer<char> memory_;
  DeviceBuffer<Answer> answer_{1};
};

constexpr int step_kib = 4;

/// The largest ring of which `fits(kib)` says so, in steps, up to `most_kib`: halves the range
/// again and again. 0: not even the smallest.
int largest_fitting(int most_kib, const Function<bool(int)>& fits) {
  int fitting = 0, too_large = most_kib / step_kib + 1;
  while (too_large - fitting > 1) {
    const int middle = (fitting + too_large) / 2;
    (fits(middle * step_kib) ? fitting : too_large) = middle;
  }
  return fitting * step_kib;
}

/// The largest ring that L1 holds, in KiB: its loads take as long as those of a tiny one. A tenth
/// more is allowed, which one miss in a hundred makes.
double largest_in_l1(const Splits& splits, double hit_cycles,
                     const Function<double(int kib)>& cycles) {
  return largest_fitting(splits.total_kib, [&](int kib) { return cycles(kib) < 1.1 * hit_cycles; });
}

// ---- the experiment ----

const char* const largest_ring = "largest ring in L1";

/// What is asked for, in words.
struct Asked {
  Ref ref;  ///< at: KiB
  Wish wish;
};

/// Every amount as a hint to a block that needs none; then blocks that need some, with the hint
/// that all shall be L1.
std::vector<Asked> all_asked(const Splits& splits, int most_block_kib, bool quick) {
  std::vector<Asked> all;
  for (size_t i = 0; i < splits.shared_kib.size(); ++i) {
    if (quick && i % 3 != 0) continue;
    const int kib = splits.shared_kib[i];
    all.push_back({{"hint", double(kib)}, {percent_of(kib, splits), 0}});
  }
  for (const int kib : {16, 48, 96, 160, 224})
    if (kib <= most_block_kib && !(quick && kib != 48))
      all.push_back({{"block_needs", double(kib)}, {0, kib}});
  return all;
}

void measure(const Run& run, const Splits& splits) {
  const cudaDeviceProp& prop = run.device->prop;
  const int reserved_kib = int((prop.reservedSharedMemPerBlock + 1023) >> 10);
  const int most_block_kib = int(prop.sharedMemPerBlockOptin >> 10);
  const int launches = run.quick ? 1 : 3;
  std::optional<L1> l1;
  const auto cycles = [&](int kib, const Wish& wish) {
    if (!l1) l1.emplace(splits.total_kib);
    return l1->cycles(kib, wish);
  };
  const double hit_cycles = ask(run, "hint", "cycles of a hit", "cycles", [&] {
                              return single(cycles(step_kib, {0, 0}));
                            }).median;
  Table table(run.report, "shared memory, KiB",
              {predicted("shared KiB", "shared memory's part", "KiB", 0),
               compared("L1 KiB", largest_ring, "KiB", 0), shown("of all"), shown("")});
  const std::vector<Asked> all = all_asked(splits, most_block_kib, run.quick);
  Progress progress("carveout, splits", int(all.size()));
  for (const Asked& asked : all) {
    const Statistics s = ask_for_table(run, asked.ref, largest_ring, "KiB", [&] {
      std::vector<double> seen;
      for (int k = 0; k < launches; ++k)
        seen.push_back(
            largest_in_l1(splits, hit_cycles, [&](int kib) { return cycles(kib, asked.wish); }));
      return summarize(seen);
    });
    const int shared = predicted_shared_kib(splits, asked.wish, reserved_kib);
    const double share = s.median / splits.total_kib;
    const std::string words = asked.ref.key == "hint" ? "hint" : "a block needs";
    // which amounts there are is documented; that L1 has the rest, and all of it, is not
    table.row({asked.ref.key, "KiB", at_text(asked.ref), words + ", " + at_text(asked.ref)},
              {double(shared), Compared{double(splits.total_kib - shared), s, Model::host},
               fixed(100 * share, 0) + "%", bar(share)});
    progress.step();
  }
  table.print();
  run.report.note("predicted: the smallest part that is enough; L1 has the rest of " +
                  std::to_string(splits.total_kib) + " KiB");
  const std::string hit =
      std::isnan(hit_cycles) ? "" : "a load that hits takes " + fixed(hit_cycles, 0) + " cycles; ";
  run.report.note(hit + "\"then\" 64 KiB for both (wiki), up to 96 of 128 KiB (V100, lectures)");
}

/// The documented splits of the text's V100, where nothing can be measured.
void show_v100(const Run& run) {
  const Splits v100 = splits_of(7, 0);
  Table table(run.report, "shared memory, KiB",
              {predicted("L1 KiB on a V100", "L1 of a V100", "KiB", 0)});
  for (const int kib : v100.shared_kib)
    table.row({"hint", "KiB", std::to_string(kib)}, {double(v100.total_kib - kib)});
  table.print();
}

void run_carveout(const Run& run) {
  run.report.begin("carveout", "rings in L1, which shares an array with shared memory");
  if (!run.device) {
    show_v100(run);
    return run.report.left_out("what L1 holds beside each amount of shared memory");
  }
  const cudaDeviceProp& prop = run.device->prop;
  const Splits splits = splits_of(prop.major, prop.minor);
  if (splits.shared_kib.empty())
    return run.report.left_out("all of it", prop.major < 7
                                                ? "before 7.0 L1 is an array of its own"
                                                : "the splits of this GPU are not known here");
  measure(run, splits);
}

Needs needs(const Run& run) {
  const cudaDeviceProp& prop = run.device->prop;
  return {.allocated = 1024.0 * splits_of(prop.major, prop.minor).total_kib};
}

}  // namespace

extern const Experiment carveout_experiment{
    .name = "carveout",
    .about = "how much of L1 shared memory takes",
    .run = run_carveout,
    .needs = needs,
};
