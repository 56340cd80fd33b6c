// coalescing: one instruction of a warp, 32 addresses, and what memory moves for them. The texts
// give the rules of several generations: half-warps in order on the G80 (compute capability 1.0),
// in any order on the GT200 (1.2) [DD], lines of 128 bytes on Fermi and Kepler, segments of 32
// bytes past their L1 [LC 3.1-3.4]. Today a warp moves sectors of 32 bytes. Two things to look at:
//   - The drawings, which need no GPU: which words each generation moves in vain. Through L1 a GPU
//     of 2.x moved more of them than one of 1.2.
//   - The times: a permutation costs nothing, and idle lanes save nothing.
//
//   cmake -S 03_access_patterns -B build/coalescing -DEXPERIMENTS=coalescing
//   cmake --build build/coalescing && build/coalescing/03_access_patterns
//
//   1  read_in_order      a warp reads the 32 words of a line
//   2  read_permuted      the same words, lanes exchanged
//   3  read_next_word     a word further: five sectors
//   4  read_next_sector   a sector further: four sectors in two lines
//   5  read_same          all lanes the same word
//   6  read_every_second  lanes with odd numbers are idle
//   7  read_scattered     each lane a word of another line
#include "../framework/common/experiment.hpp"
#include "drawing.hpp"
#include "reads.cuh"

using namespace samples;

namespace {

constexpr unsigned line_words = 32;
constexpr unsigned scattered_words = 32 * line_words;  // 32 lines

// ---- the patterns ----

// [patterns]
// Which word a lane takes, counted from the first word of its warp's line. At the right: how many
// sectors the 32 lanes touch.
__host__ __device__ unsigned in_order(unsigned lane) { return lane; }            // 4 sectors
__host__ __device__ unsigned permuted(unsigned lane) { return lane * 11 % 32; }  // the same 4
__host__ __device__ unsigned next_word(unsigned lane) { return lane + 1; }       // 5
__host__ __device__ unsigned next_sector(unsigned lane) { return lane + 8; }     // 4, in two lines
__host__ __device__ unsigned same_word(unsigned) { return 0; }                   // 1
__host__ __device__ unsigned scattered(unsigned lane) {  // 32: each lane in a line of its own
  return lane * 11 % 32 * line_words + lane;
}
// [/patterns]
__host__ __device__ bool all_lanes(unsigned) { return true; }
__host__ __device__ bool even_lanes(unsigned lane) { return lane % 2 == 0; }
using WordOf = unsigned (*)(unsigned lane);
using ActiveLanes = bool (*)(unsigned lane);

// ---- kernels: warp w of all `warps` reads one region in each step: regions w, w + warps, w + 2
// warps ... of `region_words` words. Each thread adds up what it read, into out. ----

template <WordOf word_of, unsigned region_words = line_words, ActiveLanes active = all_lanes>
__device__ void add_up(unsigned* out, const unsigned* in, size_t regions) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const size_t warps = size_t(gridDim.x) * blockDim.x / 32;
  const unsigned lane = threadIdx.x % 32;
  unsigned sum = 0;
  if (active(lane)) {
    size_t region = tid / 32;
    for (; region + 7 * warps < regions; region += 8 * warps) {  // eight loads in flight
#pragma unroll
      for (unsigned k = 0; k < 8; ++k)
        sum += in[(region + k * warps) * region_words + word_of(lane)];
    }
    for (; region < regions; region += warps)  // the remaining regions
      sum += in[region * region_words + word_of(lane)];
  }
  out[tid] = sum;
}

__global__ void read_in_order(unsigned* out, const unsigned* in, size_t regions) {
  add_up<in_order>(out, in, regions);
}
__global__ void read_permuted(unsigned* out, const unsigned* in, size_t regions) {
  add_up<permuted>(out, in, regions);
}
__global__ void read_next_word(unsigned* out, const unsigned* in, size_t regions) {
  add_up<next_word>(out, in, regions);
}
__global__ void read_next_sector(unsigned* out, const unsigned* in, size_t regions) {
  add_up<next_sector>(out, in, regions);
}
__global__ void read_same(unsigned* out, const unsigned* in, size_t regions) {
  add_up<same_word>(out, in, regions);
}
__global__ void read_every_second(unsigned* out, const unsigned* in, size_t regions) {
  add_up<in_order, line_words, even_lanes>(out, in, regions);
}
__global__ void read_scattered(unsigned* out, const unsigned* in, size_t regions) {
  add_up<scattered, scattered_words>(out, in, regions);
}

// ---- the rows ----

struct Kernel {
  std::string_view key = {};  ///< its name
  const char* words = "";
  WordOf word_of = in_order;
  ActiveLanes active = all_lanes;
  unsigned region_words = line_words;
  void (*kernel)(unsigned*, const unsigned*, size_t) = nullptr;

  Pattern pattern() const {
    return Pattern::of(region_words,
                       [this](unsigned lane) { return active(lane) ? int(word_of(lane)) : -1; });
  }
  Warp warp() const { return pattern().warp(); }
};
template <auto kernel>
Kernel named(Kernel k) {
  k.key = name_of<kernel>();
  k.kernel = kernel;
  return k;
}
const Kernel kernels[] = {
    named<read_in_order>({.words = "aligned, in order"}),
    named<read_permuted>({.words = "permuted in the line", .word_of = permuted}),
    named<read_next_word>({.words = "misaligned by a word", .word_of = next_word}),
    named<read_next_sector>({.words = "misaligned by a sector", .word_of = next_sector}),
    named<read_same>({.words = "one address for all", .word_of = same_word}),
    named<read_every_second>({.words = "every second lane inactive", .active = even_lanes}),
    named<read_scattered>(
        {.words = "scattered", .word_of = scattered, .region_words = scattered_words}),
};

const Kernel& kernel_of(const Ref& ref) { return *with_key(kernels, ref); }

/// What is drawn: the kernels' patterns, and words of other sizes in order, which word_size reads.
struct Drawn {
  std::string key, words;
  Warp warp;
};
std::vector<Drawn> drawn() {
  std::vector<Drawn> all;
  for (const Kernel& k : kernels) all.push_back({std::string(k.key), k.words, k.warp()});
  for (const unsigned bytes : {2, 8, 16})
    all.push_back({"words_of_" + std::to_string(bytes) + "_bytes",
                   std::to_string(8 * bytes) + "-bit words",
                   warp_of(bytes, [](unsigned lane) { return lane; })});
  return all;
}

Task read_task(const Shared<Words>& memory, const Kernel& k, size_t regions) {
  const auto launch = [memory, &k, regions] {
    k.kernel<<<memory->grid.blocks, block_threads>>>(memory->sums.data(), memory->in.data(),
                                                     regions);
  };
  return memory->task(std::string(k.key), launch, k.pattern(), regions);
}

// ---- prediction ----

/// How many times as long as in order a load of a warp takes, from memory: the larger of two
/// shares. L1 and L2 pass on sectors; from memory these come in pairs of 64 bytes, though not again
/// for the warp that reads the rest of a line at about the same time. That a second line costs time
/// as well is left out: offset measures it.
double predicted_times(const Kernel& k) {
  const bool neighbours_share = k.word_of == next_word || k.word_of == next_sector;
  const double by_pieces = neighbours_share ? 1 : pieces(k.warp(), memory_piece) / 2.0;
  return std::max(sectors(k.warp()) / 4.0, by_pieces);
}

/// Where all pieces of the array move, the documented sectors decide.
Model model_of(const Kernel& k, const Device* device) {
  const bool leaves_out = k.word_of == same_word || k.word_of == scattered;
  return leaves_out ? model_of_pieces(device) : Model::traffic;
}

// ---- the experiment ----

void draw_all(const Run& run) {
  explain_drawing(run.report);
  for (const Drawn& d : drawn()) draw_rules(run.report, d.key, d.words, d.warp);

  const char* const metrics[] = {"used on 1.0", "used on 1.2", "used on 2.x in L1",
                                 "used on 2.x past L1", "used today"};
  std::vector<Column> columns;
  for (const Rule rule : rules)
    columns.push_back(predicted(rule_name(rule), metrics[static_cast<int>(rule)], "%", 3));
  columns.push_back(predicted("sectors/request", "load sectors a request", "", 0));
  Table used(run.report, "% of the moved bytes used", columns);
  for (const Drawn& d : drawn()) {
    std::vector<Cell> cells;
    for (const Rule rule : rules) cells.push_back(100 * under(rule, d.warp).utilisation());
    cells.push_back(double(sectors(d.warp)));
    used.row({d.key, "", "", d.words}, cells);
  }
  used.print();
}

/// One sector of each line, a quarter of the array, is beyond the L2.
size_t array_bytes(const Run& run) { return bytes_to_read(run, size_t(1) << 30, 1.0 / 4); }

/// Regions of the array: the loads of all warps. The last region may reach into the next line.
size_t regions_in(size_t words, const Kernel& k) {
  constexpr unsigned overhang = 8;
  return (words - overhang) / k.region_words;
}

double loads_of(const Run& run, const Ref& ref) {
  return double(regions_in(array_bytes(run) / 4, kernel_of(ref)));
}
/// Nanoseconds that a thousand loads of a warp take, and those in order.
double ns_of(const Run& run, const Ref& ref, double ms) { return 1e9 * ms / loads_of(run, ref); }
double ns_in_order(const Run& run) {
  const Ref ref = name_of<read_in_order>();
  return ns_of(run, ref, (*run.results)(ref).time.ms.median);
}

void run_coalescing(const Run& run) {
  const size_t bytes = array_bytes(run);
  run.report.begin("coalescing", "one load of a warp; then as many as read " +
                                     bytes_text(double(bytes)) + " once");
  draw_all(run);

  SharedByTasks memory([&run, bytes] { return Words(bytes / 4, resident_grid(*run.device)); });
  const auto ns = [&run](const Row& row, double ms) { return ns_of(run, row.ref, ms); };
  Sheet sheet(
      run, "time, from memory",
      {number(predicted("sectors", "sectors a load", "", 0),
              [](const Row& row) { return sectors(kernel_of(row.ref).warp()); }),
       number(predicted("64-byte pieces", "pieces of 64 bytes a load", "", 0),
              [](const Row& row) { return pieces(kernel_of(row.ref).warp(), memory_piece); }),
       in_unit(compared("ns/1000 loads", "time of a thousand loads", "ns", 1), ns),
       spread(),
       {shown("of in order"),
        {},
        {},
        [&](const Row& row, const Statistics& ms) {
          const double factor = ns(row, ms.median) / ns_in_order(run);
          return std::isfinite(factor) ? times(factor) : std::string("-");
        }},
       {shown(""), {}, {}, [&](const Row& row, const Statistics& ms) {
          return bar(ns_in_order(run) / ns(row, ms.median));
        }}});
  for (const Kernel& k : kernels)
    sheet.add({.ref = k.key,
               .words = k.words,
               .calibrates = k.key == name_of<read_in_order>(),
               .model = model_of(k, run.device)});
  sheet.measure(Timing::in_turn, [&](const Row& row) {
    const Kernel& k = kernel_of(row.ref);
    return read_task(memory(), k, regions_in(bytes / 4, k));
  });
  sheet.predict([&](const Row& row) {
    const double ns_each = ns_in_order(run) * predicted_times(kernel_of(row.ref));
    return ns_each * loads_of(run, row.ref) * 1e-9;
  });
  sheet.print({"predicted: sectors over 4, or pieces of 64 bytes over 2, whichever is more;",
               "a piece that the next warp reads as well counts once"});
}

// ---- claims ----

/// What the text counts of one address for all lanes, computed by today's rule.
Claim share_claim(Part part, double share) {
  const double used = under(Rule::sectors, kernel_of("read_same").warp()).utilisation();
  return {.part = std::move(part),
          .fact = used == share ? Fact::so : Fact::not_so,
          .here = share_text(exactly(used)) + ", one sector, computed; through L1 as well"};
}

/// Whether compute capability 1.0 moves both half-warps together.
bool coalesces_on_g80(const Warp& warp) { return coalesced(warp, 0) && coalesced(warp, 16); }
/// Whether 1.2 moves no more for the warp than 1.0.
bool no_more_on_gt200(const Warp& warp) {
  const Transactions g80 = under(Rule::in_order, warp), gt200 = under(Rule::any_order, warp);
  return gt200.count() <= g80.count() && gt200.bytes() <= g80.bytes();
}

Claim gt200_claim() {
  int coalesce = 0, there_too = 0;
  for (const Drawn& d : drawn())
    if (coalesces_on_g80(d.warp)) ++coalesce, there_too += no_more_on_gt200(d.warp);
  return {.part = {"03.16",
                   "what coalesces on a G80 coalesces on a GT200",
                   "no figure",
                   "Dr. Dobb's",
                   {},
                   true},
          .fact = coalesce > 0 && there_too == coalesce ? Fact::so : Fact::not_so,
          .here = std::to_string(there_too) + " of the " + std::to_string(coalesce) +
                  " drawn patterns that coalesce on 1.0 move no more on 1.2, computed"};
}

std::vector<Claim> claims(const Run& run) {
  const char* const count = "the wiki's count";
  const bool in_cache = run.device && !beyond_l2(*run.device, double(array_bytes(run)) / 4);
  std::vector<Claim> all{
      share_claim({"03.2a", "through L1 one address for all lanes uses 3.125% of what moves",
                   "3.125%", count, fermi_and_kepler, true},
                  0.03125),
      share_claim({"03.2b",
                   "one address for all lanes uses 12.5% of what moves past L1",
                   "12.5%",
                   count,
                   {},
                   true},
                  0.125),
      {.part = {"03.3", "a permutation within the line costs nothing", "100%", count},
       .rule = gains_nothing(),
       .pairs = {{.slow = "read_permuted", .fast = "read_in_order"}},
       .here = "4 sectors, as in order",
       .unless = in_cache ? "the array is less than four times the L2" : ""},
      gt200_claim()};
  all[1].found = {{.slow = "read_same", .fast = "read_in_order"}};
  return all;
}

// ---- what it declares ----

Needs needs(const Run& run) {
  const double bytes = double(array_bytes(run));
  return {.allocated = bytes + 8.0 * resident_grid(*run.device).threads(), .touched = bytes / 4};
}

std::vector<Checked> tasks(size_t n) {
  std::vector<Checked> all;
  for (const Kernel& k : kernels) {
    const size_t regions = (n + k.region_words - 1) / k.region_words;
    const Shared memory(Words(k.pattern().words(regions), Grid{3}));
    all.push_back({.task = read_task(memory, k, regions),
                   .elements = memory->grid.threads(),
                   .change_one = [memory] { memory->change_one(); }});
  }
  return all;
}

std::vector<CountedLaunch> counted() {
  constexpr size_t regions = size_t(1) << 13;
  std::vector<CountedLaunch> all;
  for (const Kernel& k : kernels)
    all.push_back(counted_launch(std::string(k.key), "8192 loads",
                                 {double(regions), double(regions) * sectors(k.warp())}, {}, [&k] {
                                   const Grid grid = resident_grid(Device::current());
                                   const size_t words = k.pattern().words(regions);
                                   return read_task(Shared(Words(words, grid)), k, regions);
                                 }));
  return all;
}

}  // namespace

extern const Experiment coalescing_experiment{
    .name = "coalescing",
    .about = "a model of five generations, drawn: transactions of one warp's addresses",
    .run = run_coalescing,
    .claims = claims,
    .needs = needs,
    .tasks = tasks,
    .counted = counted};
