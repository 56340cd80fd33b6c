// caching: the same loads through L1 and past it. On older GPUs a load through L1 moves lines of
// 128 bytes and one past it segments of 32, says the wiki, so that scattered loads had better go
// past; from Pascal on the unit is 32 bytes either way [LC 3]. Two things to look at:
//   - How little the way matters to the rates.
//   - One thread that walks. A load through L1 brings its own sector of 32 bytes: the next word of
//     that sector is a hit. The next sector of the same line still has to come from L2.
//
//   cmake -S 03_access_patterns -B build/caching -DEXPERIMENTS=caching
//   cmake --build build/caching && build/caching/03_access_patterns
//
//   1  read_ca      adds up words, by loads through L1 (.ca)
//   2  read_cg      by loads past L1 (.cg)
//   3  read_plain   by loads that leave it to the compiler
//   4  chase_ca     one thread: each word says where the next one stands
//   5  chase_cg
//   6  chase_plain
// caching_flag.cu: 3 and 6, compiled with the wiki's flag, -Xptxas -dlcm=cg.
#include "caching.cuh"

#include "../framework/common/experiment.hpp"
#include "reads.cuh"

using namespace samples;

// ---- kernels: one loop each (caching.cuh), and the load that differs ----

// [loads]
__device__ unsigned load_ca(const unsigned* p) { return __ldca(p); }  // through L1
__device__ unsigned load_cg(const unsigned* p) { return __ldcg(p); }  // past L1

__global__ void read_ca(unsigned* sums, const unsigned* in, size_t n, size_t first, size_t stride) {
  add_up<load_ca>(sums, in, n, first, stride);
}
__global__ void read_cg(unsigned* sums, const unsigned* in, size_t n, size_t first, size_t stride) {
  add_up<load_cg>(sums, in, n, first, stride);
}
__global__ void read_plain(unsigned* sums, const unsigned* in, size_t n, size_t first,
                           size_t stride) {
  add_up<load_plain>(sums, in, n, first, stride);
}
__global__ void chase_ca(Walked* walked, unsigned* end, const unsigned* next, unsigned steps) {
  walk<load_ca>(walked, end, next, steps);
}
__global__ void chase_cg(Walked* walked, unsigned* end, const unsigned* next, unsigned steps) {
  walk<load_cg>(walked, end, next, steps);
}
__global__ void chase_plain(Walked* walked, unsigned* end, const unsigned* next, unsigned steps) {
  walk<load_plain>(walked, end, next, steps);
}
// [/loads]

namespace {

// ---- kinds of loads, and what they read ----

struct Load {
  const char *key, *words;  ///< of rows: behind read_ and chase_
  LoadKernels kernels;
  Rule old_rule;  ///< of compute capabilities 2.x and 3.x
  bool in_l1;     ///< whether L1 keeps what came, by what is documented from 7.0 on

  std::string symbol() const { return std::string("read_") + key; }
};

/// By the flag only where the build could set it.
std::vector<Load> all_loads() {
  std::vector<Load> loads{{"ca", ".ca", {read_ca, chase_ca}, Rule::through_l1, true},
                          {"cg", ".cg", {read_cg, chase_cg}, Rule::past_l1, false},
                          {"plain", "plain", {read_plain, chase_plain}, Rule::through_l1, true}};
  const LoadKernels by_flag = kernels_by_flag();
  if (by_flag.read) loads.push_back({"by_flag", "-dlcm=cg", by_flag, Rule::past_l1, false});
  return loads;
}

/// Which words are read.
struct Place {
  const char *key, *words;
  unsigned first, stride;

  size_t count(size_t words_of_array) const { return (words_of_array + stride - 1) / stride; }
};
constexpr Place places[] = {{"aligned", "aligned", 0, 1},
                            {"misaligned", "misaligned by a word", 1, 1},
                            {"scattered", "a word in 128 bytes", 0, 32}};

struct Reading {
  const Load& load;
  const Place& place;

  Ref ref() const { return load.symbol() + "_" + place.key; }
};

/// The array has a word more than `words`, for the misaligned.
Task read_task(const Shared<Words>& memory, const Reading& r, size_t words) {
  const auto kernel = r.load.kernels.read;
  const Place place = r.place;
  const size_t n = place.count(words);
  const auto launch = [memory, kernel, place, n] {
    kernel<<<memory->grid.blocks, block_threads>>>(memory->sums.data(), memory->in.data(), n,
                                                   place.first, place.stride);
  };
  return memory->task(text(r.ref()), launch, Slots{place.first, place.stride, n});
}

// ---- prediction: reading ----

Warp warp_at(const Place& p) {
  return warp_of(4, [&](unsigned lane) { return p.first + lane * p.stride; });
}

/// Bytes that arrive for a request of a warp, where most do: sectors of 32 bytes from L2 to L1, or
/// from memory 64 bytes at a time, which neighbouring warps share.
double bytes_per_request(const Place& p) {
  const double to_l1 = 32.0 * sectors(warp_at(p));
  const double from_memory = 32.0 * std::min(4 * p.stride, memory_piece);
  return std::max(to_l1, from_memory);
}

/// `aligned_ms`: of the whole array, of which every byte that arrives is used.
double predicted_ms(const Place& p, double aligned_ms) {
  return aligned_ms * bytes_per_request(p) / bytes_per_request(places[0]) / p.stride;
}

// ---- one load after the other ----

constexpr unsigned chased_lines = 256;  // 32 KiB: new to L1 in each launch, in L2 after the first
constexpr unsigned chained_words = chased_lines * 32;
constexpr unsigned chain_end = 0x5eed;  // what the last word of a chain says

/// Second word of each line that is loaded: 0 is none.
struct Second {
  const char *key, *words;
  unsigned word;
};
constexpr Second seconds[] = {{"new_line", "a new line", 0},
                              {"same_sector", "then the same sector", 1},
                              {"next_sector", "the next sector", 8},
                              {"last_sector", "the last sector", 24}};

Ref chase_ref(const Load& load, const char* second) {
  return std::string("chase_") + load.key + "_" + second;
}

/// From the first word of each line to its word `second` (0: not), and then to the next line.
std::vector<unsigned> chain(unsigned second) {
  std::vector<unsigned> next(chained_words, ~0u);
  for (unsigned line = 0; line < chased_lines; ++line) {
    const unsigned first = line * 32;
    const unsigned after = line + 1 < chased_lines ? first + 32 : chain_end;
    next[first] = second ? first + second : after;
    if (second) next[first + second] = after;
  }
  return next;
}

/// What a line of the chain takes, one value per launch.
struct Latencies {
  Readings cycles, ns;
};

/// Where all chains lie in turn: how far away a line's part of the L2 is depends on its address,
/// and the difference of two chains must not hold the difference of two addresses.
struct ChainMemory {
  DeviceBuffer<unsigned> next = DeviceBuffer<unsigned>(chained_words);
  DeviceBuffer<Walked> walked = DeviceBuffer<Walked>(1);
  DeviceBuffer<unsigned> end = DeviceBuffer<unsigned>(1);
};

/// Walks the chain. The first launch brings it into L2 and is not counted. L1 is empty again in
/// each.
Latencies walk_lines(ChainMemory& memory, const LoadKernels& kernels, unsigned second,
                     int launches) {
  auto& [next, walked, end] = memory;
  next.copy_from(chain(second));
  Latencies found;
  for (int launch = -1; launch < launches; ++launch) {
    end.poison();
    kernels.chase<<<1, 1>>>(walked.data(), end.data(), next.data(),
                            chased_lines * (second ? 2 : 1));
    CUDA_CHECK_LAUNCH();
    require_right(end.to_host()[0] == chain_end, "the end of the chain");
    if (launch < 0) continue;
    const Walked took = walked.to_host()[0];
    found.cycles.ms.push_back(double(took.cycles) / chased_lines);
    found.ns.ms.push_back(exact_ns(took.ns) / chased_lines);
  }
  return found;
}

/// What the second load of a line takes: both less the first.
Readings without(Readings both, const Readings& first) {
  for (size_t i = 0; i < both.ms.size(); ++i) both.ms[i] -= first.ms[i];
  return both;
}

Latencies latencies_of(const LoadKernels& kernels, unsigned second, int launches) {
  ChainMemory memory;
  const Latencies first = walk_lines(memory, kernels, 0, launches);
  if (second == 0) return first;
  const Latencies both = walk_lines(memory, kernels, second, launches);
  return {without(both.cycles, first.cycles), without(both.ns, first.ns)};
}

/// By sectors of 32 bytes: only what lies in the sector that came is a hit, and only where L1 keeps
/// it.
bool hits(const Load& load, const Second& second) { return load.in_l1 && second.word == 1; }

/// L1 keeps plain loads from compute capability 7.0 on; the flag can be lost.
Model model_of_chase(const Load& load, const Device* device) {
  const std::string key = load.key;
  const bool known =
      key == "ca" || key == "cg" || (key == "plain" && device && device->prop.major >= 7);
  return known ? Model::traffic : Model::host;
}

// ---- the experiment ----

/// Of 32 words the scattered loads touch one sector.
size_t words_of(const Run& run) {
  return size_beyond_l2(run, "caching", size_t(1) << (run.quick ? 26 : 28), 1, sizeof(unsigned));
}

void measure_reading(const Run& run, const std::vector<Load>& loads, size_t words) {
  SharedByTasks memory([&run, words] { return Words(words + 1, resident_grid(*run.device)); });
  std::vector<Reading> readings;
  for (const Place& p : places)
    for (const Load& load : loads) readings.push_back({load, p});
  const auto reading_of = [&](const Row& row) -> const Reading& {
    return *std::find_if(readings.begin(), readings.end(),
                         [&](const Reading& r) { return same(r.ref(), row.ref); });
  };
  Sheet sheet(run, "words, load",
              {number(predicted("bytes/request on 2.x", "bytes a request on 2.x", "B", 0),
                      [&](const Row& row) {
                        const Reading& r = reading_of(row);
                        return under(r.load.old_rule, warp_at(r.place)).bytes();
                      }),
               number(predicted("sectors/request", "load sectors a request", "", 0),
                      [&](const Row& row) { return sectors(warp_at(reading_of(row).place)); }),
               number(predicted("bytes that arrive", "bytes that arrive", "B", 0),
                      [&](const Row& row) { return bytes_per_request(reading_of(row).place); }),
               milliseconds(4),
               spread(),
               in_unit(measured("GB/s", "bandwidth", "GB/s", 0), gbs_of),
               {shown("of .ca"), {}, {}, [&](const Row& row, const Statistics& ms) {
                  const Reading by_ca{loads[0], reading_of(row).place};
                  return fixed((*run.results)(by_ca.ref()).time.ms.median / ms.median, 2);
                }}});
  for (const Reading& r : readings)
    sheet.add({.ref = r.ref(),
               .words = std::string(r.place.words) + ", " + r.load.words,
               .bytes = 4.0 * double(r.place.count(words)),
               .calibrates = &r == &readings[0],
               // sectors are documented; what memory fetches at a time was found on 9.0 only
               .model = r.place.stride == 1 ? Model::traffic : model_of_pieces(run.device)});
  sheet.measure(Timing::in_turn,
                [&](const Row& row) { return read_task(memory(), reading_of(row), words); });
  const double aligned_ms = sheet.ms("read_ca_aligned");
  sheet.predict([&](const Row& row) { return predicted_ms(reading_of(row).place, aligned_ms); });
  sheet.print();
}

const char* const latency = "trip";
const char* const of_same_sector = "the latency in the same sector";

/// How many times as long a load of the next sector takes as one of the same sector.
Statistics next_over_same(const LoadKernels& through_l1, int launches) {
  const Interval r = ratio(latencies_of(through_l1, seconds[2].word, launches).cycles,
                           latencies_of(through_l1, seconds[1].word, launches).cycles);
  return {r.value, r.low, r.high, r.pairs};
}

double cycles_of(const Run& run, const char* second) {
  return run.results->value(chase_ref(all_loads()[0], second), latency).value.median;
}

void measure_chases(const Run& run, const std::vector<Load>& loads) {
  const int launches = run.measuring.repeats;
  for (const Load& load : loads)
    for (const Second& second : seconds)
      ask_for_table(run, chase_ref(load, second.key), latency, "cycles", [&] {
        return latencies_of(load.kernels, second.word, launches).cycles.statistics();
      });
  const double hit = cycles_of(run, "same_sector"), miss = cycles_of(run, "new_line");

  Table table(run.report, "one thread, load",
              {compared("cycles", latency, "cycles", 0), shown("spread"),
               measured("ns", "time of a load", "ns", 1)});
  for (const Load& load : loads)
    for (const Second& second : seconds) {
      const Ref row = chase_ref(load, second.key);
      const Statistics found = run.results->value(row, latency).value;
      const bool calibrates = load.in_l1 && std::string(load.key) == "ca" && second.word <= 1;
      const double expected = hits(load, second) ? hit : miss;
      Cell ns;  // of a load that leaves L1
      if (!hits(load, second))
        ns = ask_for_table(run, row, "time of a load", "ns", [&] {
          return statistics_in_ns(latencies_of(load.kernels, second.word, launches).ns);
        });
      table.row({row.key, "", "", std::string(load.words) + ", " + second.words},
                {calibrates ? Cell(Calibration{found})
                            : Cell(Compared{expected, found, model_of_chase(load, run.device)}),
                 spread_text(found), ns});
    }
  table.print();
  keep(run, chase_ref(loads[0], "next_sector"), of_same_sector, "times",
       run.machine->value(chase_ref(loads[0], "next_sector"), of_same_sector, false,
                          [&] { return next_over_same(loads[0].kernels, launches); }));
}

constexpr size_t counted_words = size_t(1) << 22;
std::string counted_parameter(const Load& load, const Place& p) {
  return std::string(p.words) + " " + load.words;
}
const char* const from_l2 = "l1tex__m_xbar2l1tex_read_bytes.sum";

void run_caching(const Run& run) {
  const size_t words = words_of(run);
  const std::vector<Load> loads = all_loads();
  run.report.begin("caching", std::to_string(words) + " words of 4 bytes, " +
                                  bytes_text(4.0 * double(words)) + "; then " +
                                  std::to_string(chased_lines) + " lines of 128 bytes, " +
                                  bytes_text(128.0 * chased_lines));
  measure_reading(run, loads, words);
  if (run.device && !beyond_l2(*run.device, double(words)))
    run.report.note("the scattered words' sectors are less than four times the L2");
  if (loads.size() < 4)
    run.report.left_out("the rows of -dlcm=cg", "the flag is for a whole file; CMake sets it");
  measure_chases(run, loads);
  if (!run.device) run.report.left_out("the latencies of one thread");
  if (run.device && loads.size() == 4)
    run.report.note(
        "-dlcm=cg is lost where the driver compiles the kernels: its rows are as .ca's");
  ask_count(run, "read_ca", counted_parameter(loads[0], places[2]), from_l2);
}

// ---- claims ----

std::vector<Claim> claims(const Run& run) {
  const double hit = cycles_of(run, "same_sector"), next = cycles_of(run, "next_sector"),
               miss = cycles_of(run, "new_line");
  const double crossed = run.results->value("read_ca", from_l2).value.median;
  std::string here = "through L1 a word of the same sector takes " + fixed(hit, 0) +
                     " cycles, one of the next sector " + fixed(next, 0) + ", a new line " +
                     fixed(miss, 0);
  if (std::isfinite(crossed))
    here += "; counted: " + fixed(crossed / double(places[2].count(counted_words)), 1) +
            " bytes from L2 to L1 per scattered word through L1";
  return {{.part = {"03.11", "the unit of access is 32 bytes whether or not L1 caches the load",
                    "32 bytes from Pascal on", "the wiki"},
           .rule = beats(),
           .levels = {{chase_ref(all_loads()[0], "next_sector"), of_same_sector}},
           .here = here,
           // a second word of a sector that L1 has must be clearly nearer than a new line
           .unless = hit > 0.75 * miss ? "L1 does not keep these loads here" : ""}};
}

// ---- what it declares ----

Needs needs(const Run& run) {
  const double words = double(words_of(run));
  return {.allocated = 4 * words + 8.0 * resident_grid(*run.device).threads(), .touched = words};
}

std::vector<Checked> tasks(size_t n) {
  static const std::vector<Load> loads = all_loads();
  std::vector<Checked> all;
  for (const Place& p : places) {
    // ends with the last word that is read
    const Shared memory(Words(p.first + (p.count(n) - 1) * p.stride + 1, Grid{3}));
    for (const Load& load : loads)
      all.push_back({.task = read_task(memory, {load, p}, n),
                     .elements = memory->grid.threads(),
                     .change_one = [memory] { memory->change_one(); }});
  }
  return all;
}

std::vector<CountedLaunch> counted() {
  static const std::vector<Load> loads = all_loads();
  std::vector<CountedLaunch> all;
  for (const Load& load : loads)
    for (const Place& p : places) {
      const double requests = double(p.count(counted_words)) / 32;
      all.push_back(counted_launch(
          load.symbol(), counted_parameter(load, p), {requests, requests * sectors(warp_at(p))}, {},
          [&load, &p] {
            const Grid grid = resident_grid(Device::current());
            return read_task(Shared(Words(counted_words + 1, grid)), {load, p}, counted_words);
          }));
    }
  return all;
}

}  // namespace

extern const Experiment caching_experiment{.name = "caching",
                                           .about = "the same loads through L1 and past it",
                                           .run = run_caching,
                                           .claims = claims,
                                           .needs = needs,
                                           .tasks = tasks,
                                           .counted = counted};
