// stores, 2 of 3: one store of a warp. The wiki has stores served in segments of 32 bytes, one, two
// or four to a transaction, and three transactions where three segments lie apart [LC 3]. Look at
// the sectors a store, and at whether the time follows them.
//
//   1  store_four         32 lanes, 128 bytes
//   2  store_two          16 lanes, 64 bytes
//   3  store_one          8 lanes, 32 bytes
//   4  store_three_apart  24 lanes, 32 bytes in every second segment
#include <iterator>

#include "../common/counters.hpp"
#include "sizes.hpp"
#include "stores.hpp"
#include "transactions.hpp"
#include "verify.cuh"

namespace {

// ---- kernels: every slot of 256 bytes belongs to one store of one warp; a warp has many slots,
// since to start it takes longer than to store once ----

constexpr unsigned threads = 256;
constexpr unsigned slot_words = 64;

// [store_four]
// Four segments of 32 bytes, side by side.
__global__ void store_four(unsigned* out, size_t slots) {
  const size_t warps = gridDim.x * size_t(blockDim.x) / 32;
  const unsigned lane = threadIdx.x % 32;
  for (size_t s = (blockIdx.x * size_t(blockDim.x) + threadIdx.x) / 32; s < slots; s += warps) {
    const size_t i = s * slot_words + lane;
    out[i] = scrambled(i);
  }
}
// [/store_four]

// Two segments.
__global__ void store_two(unsigned* out, size_t slots) {
  const size_t warps = gridDim.x * size_t(blockDim.x) / 32;
  const unsigned lane = threadIdx.x % 32;
  if (lane >= 16) return;
  for (size_t s = (blockIdx.x * size_t(blockDim.x) + threadIdx.x) / 32; s < slots; s += warps) {
    const size_t i = s * slot_words + lane;
    out[i] = scrambled(i);
  }
}

// One segment.
__global__ void store_one(unsigned* out, size_t slots) {
  const size_t warps = gridDim.x * size_t(blockDim.x) / 32;
  const unsigned lane = threadIdx.x % 32;
  if (lane >= 8) return;
  for (size_t s = (blockIdx.x * size_t(blockDim.x) + threadIdx.x) / 32; s < slots; s += warps) {
    const size_t i = s * slot_words + lane;
    out[i] = scrambled(i);
  }
}

// [store_three_apart]
// Three segments, in 192 bytes: eight lanes in each, and a segment between them that nobody writes.
__global__ void store_three_apart(unsigned* out, size_t slots) {
  const size_t warps = gridDim.x * size_t(blockDim.x) / 32;
  const unsigned lane = threadIdx.x % 32;
  if (lane >= 24) return;
  for (size_t s = (blockIdx.x * size_t(blockDim.x) + threadIdx.x) / 32; s < slots; s += warps) {
    const size_t i = s * slot_words + lane / 8 * 16 + lane % 8;
    out[i] = scrambled(i);
  }
}
// [/store_three_apart]

// ---- the story in order ----

struct Kernel {
  const char *name, *symbol;  ///< as shown; as in the code and in the counters' file
  void (*kernel)(unsigned*, size_t);
  unsigned long long segments;  ///< of the slot's eight, a bit for each, as the text draws them
};

constexpr Kernel kernels[] = {
    {"32 lanes in 128 bytes", "store_four", store_four, 0b00001111},
    {"16 lanes in 64 bytes", "store_two", store_two, 0b00000011},
    {"8 lanes in 32 bytes", "store_one", store_one, 0b00000001},
    {"24 lanes in 3 segments apart", "store_three_apart", store_three_apart, 0b00010101},
};
enum { four, two, one, three_apart };

// ---- what is right ----

/// A word is written if its segment is, and else still poisoned.
struct IsRight {
  size_t slots;
  unsigned long long segments;
  __device__ bool operator()(size_t i, unsigned found) const {
    const bool written = i < slots * slot_words && (segments >> i % slot_words / 8 & 1);
    return found == (written ? scrambled(i) : ~0u);
  }
};

struct Slots {
  static constexpr size_t canaries = 32;
  static constexpr double bytes_each = 256;

  size_t slots;
  unsigned blocks;
  DeviceBuffer<unsigned> out;

  Slots(size_t slots, const Device& device)
      : slots(slots),
        blocks(resident_blocks(device.prop, threads)),
        out(slots * slot_words + canaries) {}
  Task task(const Kernel& k) {
    Check check;
    check.poison = [this] { out.poison(); };
    check.wrong = [this, &k] { return wrong_words(out, IsRight{slots, k.segments}); };
    return {k.name, [this, &k] { k.kernel<<<blocks, threads>>>(out.data(), slots); },
            std::move(check)};
  }
};

// ---- what to expect ----

/// The words of a warp's store.
Warp store(const Kernel& k) {
  return warp_of(4, [&](unsigned lane) {
    if (k.kernel == store_three_apart) return lane < 24 ? int(lane / 8 * 16 + lane % 8) : -1;
    const unsigned lanes = k.kernel == store_four ? 32 : k.kernel == store_two ? 16 : 8;
    return lane < lanes ? int(lane) : -1;
  });
}

/// How many segments each of the store's transactions had on 2.x and 3.x: "1 + 1".
std::string segments_text(const Kernel& k) {
  std::string text;
  for (const Transaction& t : stored(store(k)).list)
    text += (text.empty() ? "" : " + ") + std::to_string(t.bytes / 32);
  return text;
}

/// A slot takes a time of its own, however little is written there, and so does each piece of 64
/// bytes beyond the first, even if half of it stays as it is. Both are calibrated: by stores of one
/// segment and of four.
double predicted_ms(const Kernel& k, double one_segment_ms, double four_segments_ms) {
  const auto pieces_of = [](const Kernel& kernel) { return pieces(store(kernel), memory_piece); };
  const double each = (four_segments_ms - one_segment_ms) / (pieces_of(kernels[four]) - 1);
  return one_segment_ms + (pieces_of(k) - 1) * each;
}

/// A slot's least is a sector; all of them lie beyond the L2.
size_t slots_of(const Run& run) {
  return size_beyond_l2(run, "stores", size_t(1) << 22, 32, Slots::bytes_each);
}

/// Pieces of 64 bytes were found on 9.0 only.
Model model_of(const Device& device) {
  return device.prop.major == 9 ? Model::traffic : Model::host;
}

// ---- the experiment ----

constexpr size_t counted_slots = 1000;

/// Counts of a store: sectors, if each was one request; else, and without counts, not a number.
double counted_sectors(const Kernel& k) {
  const double requests = count_of_this_run(k.symbol, k.name, expected_requests(false, 0).metric);
  const double all = count_of_this_run(k.symbol, k.name, expected_sectors(false, 0).metric);
  return requests == counted_slots ? all / requests : NAN;
}

void judge_segments(const Run& run) {
  const Part together{"03.14a",
                      "stores are issued by 32 bytes: one, two or four segments in one transaction",
                      "1, 2, 4 segments", "the wiki"};
  const Part apart{"03.14b", "three segments that lie apart are stored as three of one each",
                   "1 + 1 + 1 segments", "the wiki"};
  if (!counted_in_this_run()) {
    const char* const why = "needs counts of this run: cmake --workflow --preset profile";
    run.report.not_judged(together, why);
    return run.report.not_judged(apart, why);
  }
  const double found[] = {counted_sectors(kernels[four]), counted_sectors(kernels[two]),
                          counted_sectors(kernels[one]), counted_sectors(kernels[three_apart])};
  run.report.judge_fact(together, found[four] == 4 && found[two] == 2 && found[one] == 1,
                        "one request each, of " + fixed(found[one], 2) + ", " +
                            fixed(found[two], 2) + " and " + fixed(found[four], 2) +
                            " sectors of 32 bytes");
  run.report.judge_fact(apart, found[three_apart] == 3,
                        fixed(found[three_apart], 2) + " sectors, and one request of the warp");
}

}  // namespace

void store_segments(const Run& run) {
  const size_t slots = slots_of(run);
  Table table(
      run.report, "one store of a warp",
      {shown("segments on 2.x, 3.x"), predicted("sectors/request", "sectors a request", "", 0),
       compared("ms", "time", "ms", 4), shown("spread"), measured("GB/s", "bandwidth", "GB/s", 0),
       shown("")});
  std::vector<Readings> times(std::size(kernels));
  if (run.device) {
    Slots out(slots, *run.device);
    std::vector<Task> tasks;
    for (const Kernel& k : kernels) tasks.push_back(out.task(k));
    times = run.time_in_turn(tasks);
  }
  double limit = NAN;
  for (size_t i = 0; i < std::size(kernels); ++i) {
    const Kernel& k = kernels[i];
    const Statistics ms = times[i].statistics();
    const Statistics gbs = gigabytes_per_second(32.0 * sectors(store(k)) * double(slots), ms);
    if (i == four) limit = gbs.median;
    Cell time;
    if (run.device && (i == one || i == four))
      time = Calibration{ms};
    else if (run.device)
      time = Compared{predicted_ms(k, times[one].median(), times[four].median()), ms,
                      model_of(*run.device)};
    table.row({k.name}, {segments_text(k), double(sectors(store(k))), time, spread_text(ms), gbs,
                         bar(gbs.median / limit)});
  }
  table.print();
  run.report.note("each in 256 bytes of its own, " + std::to_string(slots) + " times, in " +
                  bytes_text(Slots::bytes_each * double(slots)));
  if (run.device && !beyond_l2(*run.device, 32.0 * double(slots)))
    run.report.note("of one segment each, less than four times the L2: the cache's rates");
  if (!run.device) run.report.left_out("the times of the stores");
  judge_segments(run);
}
