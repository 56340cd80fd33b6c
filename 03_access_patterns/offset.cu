// offset: coalesced reads that begin 0 to 64 words past an aligned address. In the wiki a
// misaligned warp uses 50% of the bus through L1, in lines of 128 bytes, and 80% past it, in
// segments of 32 bytes; so such loads are faster past L1 [LC 3.4]. Two things to look at:
//   - From L2: a warp touches five sectors instead of four, unless the offset is a whole number of
//     sectors. The rate follows that closely.
//   - From memory: at offsets 8, 16 and 24 a warp touches four sectors, but in two lines, and that
//     alone costs as much as a fifth sector.
//
//   cmake -S 03_access_patterns -B build/offset -DEXPERIMENTS=offset && cmake --build build/offset
//   build/offset/03_access_patterns offset
//
//   1  read_offset          lane i of a warp reads word i + offset, through L1
//   2  read_offset_past_l1  the same past L1: again and again what stays in L2, or memory once
#include "../framework/common/experiment.hpp"
#include "reads.cuh"
#include "transactions.hpp"

using namespace samples;

namespace {

// ---- kernels: thread t adds up words t, t + threads, t + 2 threads ... of n, into out[t] ----

// [read_offset]
// A warp reads 32 neighbouring words: 4 sectors of 32 bytes if they begin where a sector does, else
// 5. They lie in one line of 128 bytes if they begin where a line does, else in two.
__global__ void read_offset(unsigned* out, const unsigned* in, size_t n, size_t offset) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  unsigned sum = 0;
  size_t i = tid;
  for (; i + 7 * threads < n; i += 8 * threads) {  // eight loads in flight
#pragma unroll
    for (unsigned k = 0; k < 8; ++k) sum += in[i + k * threads + offset];
  }
  for (; i < n; i += threads) sum += in[i + offset];  // the remaining words
  out[tid] = sum;
}
// [/read_offset]

// The same, `passes` times. The loads go past L1 (ld.global.cg): else most of an array that stays
// in L2 would stay in L1, too.
__global__ void read_offset_past_l1(unsigned* out, const unsigned* in, size_t n, size_t offset,
                                    unsigned passes) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  unsigned sum = 0;
  for (unsigned pass = 0; pass < passes; ++pass) {
    size_t i = tid;
    for (; i + 7 * threads < n; i += 8 * threads) {
#pragma unroll
      for (unsigned k = 0; k < 8; ++k) sum += __ldcg(in + i + k * threads + offset);
    }
    for (; i < n; i += threads) sum += __ldcg(in + i + offset);
  }
  out[tid] = sum;
}

// ---- launching them ----

constexpr size_t largest_offset = 64;  // words: two lines of 128 bytes

Ref from_memory(size_t offset) { return {name_of<read_offset>(), double(offset)}; }
Ref from_l2(size_t offset) { return {name_of<read_offset_past_l1>(), double(offset)}; }
/// From memory as in from_memory, but past L1: a single pass.
Ref past_l1_once(size_t offset) { return {"read_offset_past_l1_once", double(offset)}; }

bool is_from_l2(const Ref& ref) { return ref.key == from_l2(0).key; }
/// So many in a launch that the launch itself counts for little.
unsigned passes_of(const Ref& ref) { return is_from_l2(ref) ? 32 : 1; }
size_t offset_of(const Ref& ref) { return size_t(ref.at); }

/// The work of that row, with n words; the array has `offset` more.
Task read_task(const Shared<Words>& memory, const Ref& ref, size_t n) {
  const size_t offset = offset_of(ref);
  const unsigned passes = passes_of(ref);
  const bool through_l1 = ref.key == from_memory(0).key;
  const auto launch = [memory, n, offset, passes, through_l1] {
    const unsigned blocks = memory->grid.blocks;
    unsigned* const out = memory->sums.data();
    const unsigned* const in = memory->in.data();
    if (through_l1)
      read_offset<<<blocks, block_threads>>>(out, in, n, offset);
    else
      read_offset_past_l1<<<blocks, block_threads>>>(out, in, n, offset, passes);
  };
  // right is: all words from `offset` on, one for each thread in turn
  return memory->task(text(ref), launch, Slots{offset, 1, n, 1, passes});
}

// ---- prediction ----

Warp warp_at(size_t offset) {
  return warp_of(4, [=](unsigned lane) { return lane + offset; });
}

double used(Rule rule, size_t offset) { return under(rule, warp_at(offset)).utilisation(); }

constexpr size_t mid_line = 16;  // four sectors, as at offset 0, but in two lines

/// Measured in the same run; milliseconds.
struct Calibrated {
  double aligned = NAN;  ///< at offset 0
  double two_lines = 0;  ///< at offset 16; 0 from L2, where a second line costs nothing
};

/// The slower of two: the sectors, or a second line.
double predicted_ms(size_t offset, const Calibrated& c) {
  const Warp warp = warp_at(offset);
  const double by_sectors = c.aligned * sectors(warp) / 4;
  return lines(warp) == 1 ? by_sectors : std::max(by_sectors, c.two_lines);
}

// ---- the experiment ----

constexpr size_t misaligned = 1;  // words, as the wiki draws it

std::vector<size_t> offsets(bool full) {
  if (!full)
    return {0, 1, 4, 8, 12, 16, 20, 24, 28, 31, 32, 33, 36, 40, 44, 48, 52, 56, 60, 63, 64};
  std::vector<size_t> all;
  for (size_t offset = 0; offset <= largest_offset; ++offset) all.push_back(offset);
  return all;
}

size_t array_bytes(const Run& run) { return bytes_to_read(run, size_t(1) << 30, 1); }
/// Words that are read: all but the last ones, which the largest offset needs.
size_t words_from_memory(const Run& run) { return array_bytes(run) / 4 - largest_offset; }
size_t words_from_l2(const Run& run) {
  return run.device ? words_within_l2(run.device->l2_bytes(), resident_grid(*run.device)) : 0;
}

Row row_of(const Ref& ref, size_t words) {
  return {.ref = ref,
          .words = "offset " + at_text(ref),
          .bytes = 4.0 * double(words) * passes_of(ref),
          .calibrates = same(ref, from_l2(0)) || same(ref, from_memory(0)) ||
                        same(ref, from_memory(mid_line))};
}

Sheet sheet_of(const Run& run, const char* from, const Ref& aligned) {
  const auto warp_of_row = [](const Row& row) { return warp_at(offset_of(row.ref)); };
  return Sheet(
      run, from,
      {number(predicted("sectors/request", "load sectors a request", "", 0),
              [=](const Row& row) { return sectors(warp_of_row(row)); }),
       number(predicted("lines", "lines a request", "", 0),
              [=](const Row& row) { return lines(warp_of_row(row)); }),
       number(predicted("used %", "used", "%", 0),
              [](const Row& row) { return 100 * used(Rule::sectors, offset_of(row.ref)); }),
       gigabytes_per_second(), spread(), share_against(run, aligned, "of offset 0"),
       bar_against(run, aligned)},
      "offset, words");
}

/// All offsets in turn: they are compared with each other.
void measure(const Run& run, Sheet& sheet, size_t n) {
  SharedByTasks memory([&run, n] { return Words(n + largest_offset, resident_grid(*run.device)); });
  sheet.measure(Timing::in_turn, [&](const Row& row) { return read_task(memory(), row.ref, n); });
}

void sweep_l2(const Run& run) {
  const size_t n = words_from_l2(run);
  Sheet sheet = sheet_of(run, "from L2, past L1", from_l2(0));
  for (const size_t offset : offsets(run.full)) sheet.add(row_of(from_l2(offset), n));
  measure(run, sheet, n);
  const Calibrated c{sheet.ms(from_l2(0))};
  sheet.predict([&](const Row& row) { return predicted_ms(offset_of(row.ref), c); });
  sheet.print({"the rate at offset 0 times the share of the sectors that is used"});
}

void sweep_memory(const Run& run) {
  const size_t n = words_from_memory(run);
  Sheet sheet = sheet_of(run, "from memory", from_memory(0));
  for (const size_t offset : offsets(run.full)) {
    sheet.add(row_of(from_memory(offset), n));
    if (offset == misaligned) {
      Row past_l1 = row_of(past_l1_once(offset), n);
      past_l1.words += ", past L1";
      sheet.add(past_l1);
    }
  }
  measure(run, sheet, n);
  const Calibrated c{sheet.ms(from_memory(0)), sheet.ms(from_memory(mid_line))};
  sheet.predict([&](const Row& row) { return predicted_ms(offset_of(row.ref), c); });
  sheet.print({"the same, but at most the rate at offset 16, where only a second line is touched"});
}

void run_offset(const Run& run) {
  run.report.begin("offset", std::to_string(words_from_memory(run)) + " words of 4 bytes, " +
                                 bytes_text(double(array_bytes(run))) +
                                 ", and a quarter of the L2");
  sweep_l2(run);
  sweep_memory(run);
}

// ---- claims ----

/// What the text counts, computed by today's rule.
Claim share_claim(Part part, double share) {
  const double found = used(Rule::sectors, misaligned);
  return {.part = std::move(part),
          .fact = found == share ? Fact::so : Fact::not_so,
          .here = share_text(exactly(found)) + ", " + std::to_string(sectors(warp_at(misaligned))) +
                  " sectors for 4, computed; through L1 as well"};
}

std::vector<Claim> claims(const Run& run) {
  const char* const count = "the wiki's count";
  const bool in_cache = run.device && !beyond_l2(*run.device, double(array_bytes(run)));
  return {
      share_claim({"03.1a", "a misaligned load through L1 uses 50% of the bus", "50%", count,
                   fermi_and_kepler, true},
                  0.5),
      share_claim({"03.1b", "misaligned loads past L1 use 80% of the bus", "80%", count, {}, true},
                  0.8),
      {.part = {"03.1c", "misaligned coalesced loads are faster past L1 than through it",
                "no figure", "the wiki", fermi_and_kepler},
       .rule = beats(),
       .pairs = {{.slow = from_memory(misaligned), .fast = past_l1_once(misaligned)}},
       .unless = in_cache ? "the array is less than four times the L2" : "",
       .found = {{.slow = from_memory(misaligned), .fast = from_memory(0)},
                 {.slow = from_memory(mid_line), .fast = from_memory(0)}}}};
}

// ---- what it declares ----

Needs needs(const Run& run) {
  const double bytes = double(array_bytes(run));
  return {.allocated = bytes + 8.0 * resident_grid(*run.device).threads(), .touched = bytes};
}

std::vector<Checked> tasks(size_t n) {
  std::vector<Checked> all;
  for (const size_t offset : {size_t(0), size_t(1), size_t(33), largest_offset})
    for (const Ref& ref : {from_memory(offset), from_l2(offset), past_l1_once(offset)}) {
      const Shared memory(Words(n + offset, Grid{3}));  // ends with the last word that is read
      all.push_back({.task = read_task(memory, ref, n),
                     .elements = memory->grid.threads(),
                     .change_one = [memory] { memory->change_one(); }});
    }
  return all;
}

std::vector<CountedLaunch> counted() {
  constexpr size_t words = size_t(1) << 22;
  std::vector<CountedLaunch> all;
  for (const auto ref_of : {from_memory, from_l2})
    for (const size_t offset : {0, 1, 7, 8, 16, 31, 32, 33, 64}) {
      const Ref ref = ref_of(offset);
      const double loads = double(words / 32) * passes_of(ref);
      all.push_back(counted_launch(ref.key, "offset " + std::to_string(offset),
                                   {loads, loads * sectors(warp_at(offset))}, {}, [ref] {
                                     const Grid grid = resident_grid(Device::current());
                                     const size_t more = offset_of(ref);
                                     return read_task(Shared(Words(words + more, grid)), ref,
                                                      words);
                                   }));
    }
  return all;
}

}  // namespace

extern const Experiment offset_experiment{.name = "offset",
                                          .about = "reading from 0 to 64 words past the alignment",
                                          .run = run_offset,
                                          .claims = claims,
                                          .needs = needs,
                                          .tasks = tasks,
                                          .counted = counted};
