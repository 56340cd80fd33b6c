// stores, 2 of 3: one store of a warp. The wiki has stores served in segments of 32 bytes, one, two
// or four in a transaction, and in three transactions where three segments lie apart [LC 3]. Look
// at the sectors per store, and at whether the time follows them.
//
//   1  store_four         32 lanes, 128 bytes
//   2  store_two          16 lanes, 64 bytes
//   3  store_one          8 lanes, 32 bytes
//   4  store_three_apart  24 lanes, 32 bytes in every second segment
#include "../framework/common/checked.cuh"
#include "sizes.hpp"
#include "stores.hpp"
#include "transactions.hpp"

using namespace samples;

namespace {

// ---- kernels: each slot of 256 bytes belongs to one store of one warp. A warp has many slots,
// since starting a warp takes longer than one store ----

constexpr unsigned block_threads = 256;
constexpr unsigned slot_words = 64;

// [side_by_side]
// Each of `lanes` lanes stores one word, side by side.
template <unsigned lanes>
__device__ void store_side_by_side(unsigned* out, size_t slots) {
  const size_t warps = gridDim.x * size_t(blockDim.x) / 32;
  const unsigned lane = threadIdx.x % 32;
  if (lane >= lanes) return;
  for (size_t s = (blockIdx.x * size_t(blockDim.x) + threadIdx.x) / 32; s < slots; s += warps) {
    const size_t i = s * slot_words + lane;
    out[i] = stored_word(i);
  }
}

// Four segments of 32 bytes; two; one.
__global__ void store_four(unsigned* out, size_t slots) { store_side_by_side<32>(out, slots); }
__global__ void store_two(unsigned* out, size_t slots) { store_side_by_side<16>(out, slots); }
__global__ void store_one(unsigned* out, size_t slots) { store_side_by_side<8>(out, slots); }
// [/side_by_side]

// [store_three_apart]
// Three segments, in 192 bytes: eight lanes in each. Nobody writes the segments between them.
__global__ void store_three_apart(unsigned* out, size_t slots) {
  const size_t warps = gridDim.x * size_t(blockDim.x) / 32;
  const unsigned lane = threadIdx.x % 32;
  if (lane >= 24) return;
  for (size_t s = (blockIdx.x * size_t(blockDim.x) + threadIdx.x) / 32; s < slots; s += warps) {
    const size_t i = s * slot_words + lane / 8 * 16 + lane % 8;
    out[i] = stored_word(i);
  }
}
// [/store_three_apart]

// ---- the kernels in order ----

struct Kernel {
  std::string_view key = {};  ///< its name
  const char* words = "";
  void (*launch)(unsigned*, size_t) = nullptr;
  unsigned lanes = 32;    ///< that store
  unsigned segments = 0;  ///< of the slot's eight, a bit for each, as the text draws them
};
template <auto kernel>
Kernel named(Kernel k) {
  k.key = name_of<kernel>();
  k.launch = kernel;
  return k;
}

const Kernel kernels[] = {
    named<store_four>({.words = "32 lanes in 128 bytes", .segments = 0b00001111}),
    named<store_two>({.words = "16 lanes in 64 bytes", .lanes = 16, .segments = 0b00000011}),
    named<store_one>({.words = "8 lanes in 32 bytes", .lanes = 8, .segments = 0b00000001}),
    named<store_three_apart>(
        {.words = "24 lanes in 3 segments apart", .lanes = 24, .segments = 0b00010101}),
};
const Kernel& kernel(const char* key) { return *with_key(kernels, key); }

// ---- what is right ----

/// A word is written if its segment is, and else still poisoned.
struct IsRight {
  unsigned segments;
  __device__ bool operator()(size_t i, unsigned found) const {
    return found == (segments >> i % slot_words / 8 & 1 ? stored_word(i) : ~0u);
  }
};

struct StoredSlots {
  static constexpr double bytes_each = 4.0 * slot_words;

  size_t slots;
  unsigned blocks;
  Output<unsigned> out{slots * slot_words};
};

Task task_of(const Shared<StoredSlots>& stored, const Kernel& k) {
  const auto launch = [stored, &k] {
    k.launch<<<stored->blocks, block_threads>>>(stored->out.data(), stored->slots);
  };
  return {std::string(k.key), launch, stored->out.check(IsRight{k.segments})};
}

// ---- prediction ----

/// The words of a warp's store: side by side, or eight in every second segment.
Warp store(const Kernel& k) {
  const bool apart = k.key == "store_three_apart";
  return warp_of(4, [&](unsigned lane) {
    if (lane >= k.lanes) return -1;
    return int(apart ? lane + lane / 8 * 8 : lane);
  });
}
double sectors_of(const Kernel& k) { return sectors(store(k)); }

/// How many segments each transaction of the store had on 2.x and 3.x: "1 + 1".
std::string segments_text(const Kernel& k) {
  std::string text;
  for (const Transaction& t : stored(store(k)).list)
    text += (text.empty() ? "" : " + ") + std::to_string(t.bytes / 32);
  return text;
}

/// A slot takes a time of its own, however little is written there. Each piece of 64 bytes beyond
/// the first takes a time, too, even if half of it stays as it is. Two rows give both: stores of
/// one segment and of four.
double predicted_ms(const Kernel& k, double one_ms, double four_ms) {
  const auto pieces_of = [](const Kernel& of) { return pieces(store(of), memory_piece); };
  const double each = (four_ms - one_ms) / (pieces_of(kernel("store_four")) - 1);
  return one_ms + (pieces_of(k) - 1) * each;
}

// ---- the table ----

constexpr size_t counted_slots = 1000;

/// In the least of a slot a sector is written; all of these lie beyond the L2.
size_t slots_of(const Run& run) {
  return size_beyond_l2(run, "stores", size_t(1) << 22, 32, StoredSlots::bytes_each);
}

/// What was counted of `counted_slots` stores; NaN without counts of this run.
struct Counts {
  double requests = NAN, sectors = NAN;
};
const std::string requests_counted = expected_requests(false, 0).metric;
const std::string sectors_counted = expected_sectors(false, 0).metric;

Counts counts_of(const Run& run, const char* key) {
  return {run.results->value(key, requests_counted).value.median,
          run.results->value(key, sectors_counted).value.median};
}
/// Whether each store was one request, of so many sectors.
bool are(const Counts& counts, int sectors) {
  return counts.requests == counted_slots && counts.sectors == counted_slots * double(sectors);
}
std::string per_store(const Counts& counts) { return fixed(counts.sectors / counted_slots, 2); }

}  // namespace

void store_segments(const Run& run) {
  const size_t slots = slots_of(run);
  SharedByTasks out([&run, slots] {
    return StoredSlots{slots, resident_blocks(run.device->prop, block_threads)};
  });
  Sheet sheet(run, "one store of a warp",
              {{shown("segments on 2.x, 3.x"),
                {},
                {},
                [](const Row& row, const Statistics&) {
                  return segments_text(*with_key(kernels, row.ref));
                }},
               number(predicted("sectors/request", "sectors a request", "", 0),
                      [](const Row& row) { return sectors_of(*with_key(kernels, row.ref)); }),
               milliseconds(4),
               spread(),
               in_unit(measured("GB/s", "bandwidth", "GB/s", 0), gbs_of),
               bar_against(run, "store_four")});
  for (const Kernel& k : kernels)
    sheet.add({.ref = k.key,
               .words = k.words,
               .bytes = 32 * sectors_of(k) * double(slots),
               .calibrates = k.key == "store_one" || k.key == "store_four",
               .model = model_found_on_9(run)});
  sheet.measure(Timing::in_turn,
                [&](const Row& row) { return task_of(out(), *with_key(kernels, row.ref)); });
  sheet.predict([&](const Row& row) {
    return predicted_ms(*with_key(kernels, row.ref), sheet.ms("store_one"), sheet.ms("store_four"));
  });
  sheet.print();
  run.report.note("each in 256 bytes of its own, " + std::to_string(slots) + " times, in " +
                  bytes_text(StoredSlots::bytes_each * double(slots)));
  if (run.device && !beyond_l2(*run.device, 32.0 * double(slots)))
    run.report.note("of one segment each, less than four times the L2: the cache's rates");
  for (const Kernel& k : kernels)
    for (const std::string& metric : {requests_counted, sectors_counted})
      ask_count(run, std::string(k.key), k.words, metric);
}

// ---- claims ----

std::vector<Claim> segment_claims(const Run& run) {
  const Counts four = counts_of(run, "store_four"), two = counts_of(run, "store_two"),
               one = counts_of(run, "store_one"), apart = counts_of(run, "store_three_apart");
  const auto fact = [](bool so) { return so ? Fact::so : Fact::not_so; };
  const std::string unless = std::isfinite(four.requests)
                                 ? ""
                                 : "needs counts of this run: cmake --workflow --preset profile";
  return {{.part = {"03.14a",
                    "stores are issued by 32 bytes: one, two or four segments in one transaction",
                    "1, 2, 4 segments", "the wiki"},
           .fact = fact(are(one, 1) && are(two, 2) && are(four, 4)),
           .here = "one request each, of " + per_store(one) + ", " + per_store(two) + " and " +
                   per_store(four) + " sectors of 32 bytes",
           .unless = unless},
          {.part = {"03.14b", "three segments that lie apart are stored as three of one each",
                    "1 + 1 + 1 segments", "the wiki"},
           .fact = fact(are(apart, 3)),
           .here = per_store(apart) + " sectors, and one request of the warp",
           .unless = unless}};
}

// ---- what stores.cu declares of these kernels ----

Needs segment_needs(const Run& run) {
  const double slots = double(slots_of(run));
  return {.allocated = StoredSlots::bytes_each * slots, .touched = 32 * slots};
}

std::vector<Checked> segment_tasks(size_t n) {
  const size_t slots = n / 16 + 1;  // up to 16 MB, several for each warp
  std::vector<Checked> all;
  for (const Kernel& k : kernels) {
    const Shared stored(StoredSlots{slots, 3});
    all.push_back({.task = task_of(stored, k),
                   .elements = slots * size_t(8 * sectors_of(k)),  // eight words in each sector
                   .change_one = [stored] { stored->out.change(0); }});
  }
  return all;
}

std::vector<CountedLaunch> counted_segments() {
  std::vector<CountedLaunch> all;
  for (const Kernel& k : kernels)
    all.push_back(counted_launch(
        std::string(k.key), k.words, {}, {counted_slots, counted_slots * sectors_of(k)}, [&k] {
          const unsigned blocks = resident_blocks(Device::current().prop, block_threads);
          return task_of(Shared(StoredSlots{counted_slots, blocks}), k);
        }));
  return all;
}
