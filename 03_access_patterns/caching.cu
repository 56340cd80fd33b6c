// caching: is a load faster through L1, or past it? On Fermi and Kepler a load through L1 moved
// lines of 128 bytes, and one past it segments of 32: so scattered loads had better go past. From
// Pascal on, says the wiki, the unit is 32 bytes either way [LC 3]. A load chooses by __ldca or
// __ldcg; a whole file by the compiler's flag -Xptxas -dlcm=ca or -dlcm=cg.
//
// Look at one lane first: which neighbours does a load bring into L1, and does a store leave its
// word there? Then look at the rates: for which words does the way through L1 matter?
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o caching caching.cu ../common/*.cpp
//
//   1  read_words  all words, all words from word 1 on, or one in 128 bytes; by __ldca or __ldcg
//   2  time_loads  one lane: a load after another access (caching.cuh, and caching_flag.cu)
#include "caching.cuh"

#include <array>

#include "../common/arrays.cuh"
#include "../common/sample.hpp"
#include "../common/sectors.hpp"

namespace {

// ---- kernels ----

template <bool through_l1>
__device__ unsigned load(const unsigned* p) {
  return through_l1 ? __ldca(p) : __ldcg(p);
}

// A warp reads 32 neighbours (4 sectors), the same from the middle of a sector on (5), or words
// that have a line each (32). A thread has eight loads in flight.
template <bool through_l1>
__global__ void read_words(unsigned* out, const unsigned* in, size_t n, size_t first,
                           size_t stride) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  unsigned sum = 0;
  size_t i = tid;
  for (; i + 7 * threads < n; i += 8 * threads) {
    unsigned word[8];
#pragma unroll
    for (unsigned k = 0; k < 8; ++k)
      word[k] = load<through_l1>(in + first + (i + k * threads) * stride);
#pragma unroll
    for (unsigned k = 0; k < 8; ++k) sum += word[k];
  }
  for (; i < n; i += threads) sum += load<through_l1>(in + first + i * stride);
  out[tid] = sum;
}

__global__ void time_ca(unsigned* data, long long* cycles) { time_loads<load_ca>(data, cycles); }
__global__ void time_cg(unsigned* data, long long* cycles) { time_loads<load_cg>(data, cycles); }

struct Place {
  const char* name;
  size_t first, stride;
};

// ---- what must come out ----

/// The sum of each thread: of words first + i * stride, for i = thread, thread + threads ... < n.
Check adds_up(const GuardedBuffer<unsigned>& out, size_t n, const Place& place) {
  return equals(out, [n, first = place.first, stride = place.stride,
                      threads = out.size()] __device__(size_t thread) {
    unsigned sum = 0;
    for (size_t i = thread; i < n; i += threads) sum += hash(first + i * stride);
    return sum;
  });
}

// ---- the prediction ----

/// Bytes of a warp's request, if memory moves such pieces: 128 through the L1 of Fermi, else 32.
double bytes_moved(const Place& place, size_t piece) {
  const auto word_of = [&](size_t lane) { return place.first + lane * place.stride; };
  return double(piece * segments_touched(piece, sizeof(unsigned), word_of));
}

// ---- the launches: add yours here ----

constexpr Place reads[] = {{.name = "aligned", .first = 0, .stride = 1},
                           {.name = "from word 1 on", .first = 1, .stride = 1},
                           {.name = "one in 128 bytes", .first = 0, .stride = 32}};

/// Words that are read of an array of so many.
size_t count_of(const Place& place, size_t words) { return (words - place.first) / place.stride; }

std::string name_of(const Place& place, bool through_l1) {
  return std::string(place.name) + (through_l1 ? ", .ca" : ", .cg");
}

Benchmark benchmark_of(const Place& place, bool through_l1, const GuardedBuffer<unsigned>& out,
                       const DeviceBuffer<unsigned>& in, size_t n) {
  const auto work = [=] {
    const auto kernel = through_l1 ? read_words<true> : read_words<false>;
    kernel<<<unsigned(out.size() / 256), 256>>>(out, in, n, place.first, place.stride);
  };
  return {name_of(place, through_l1), work, adds_up(out, n, place)};
}

// ---- one lane ----

/// Cycles of a load after each kind of access: the medians of so many launches.
using Cycles = std::array<std::vector<double>, before_count>;

Cycles cycles_of(TimeLoads kernel, int launches) {
  const DeviceBuffer<unsigned> data(places * apart);
  const GuardedBuffer<long long> out(places);
  Cycles medians;
  for (int launch = -1; launch < launches; ++launch) {  // the first one loads the code
    CUDA_CHECK(cudaMemset(data, 0, data.bytes()));      // leaves all places in L2
    out.poison();
    kernel<<<1, 1>>>(data, out);
    CUDA_CHECK_LAUNCH();
    const std::vector<long long> cycles = out.to_host();
    Cycles of_launch;
    for (unsigned i = 0; i < places; ++i) {
      if (cycles[i] <= 0) throw WrongResult("caching: a load does not find what was stored");
      of_launch[i % before_count].push_back(double(cycles[i]));
    }
    for (unsigned before = 0; launch >= 0 && before < before_count; ++before)
      medians[before].push_back(interval_of_median(of_launch[before], 0).value);
  }
  return medians;
}

/// How many times as long does a load take after `a` as after `b`?
Interval times_as_long(const Cycles& cycles, Before a, Before b) {
  std::vector<double> ratios;
  for (size_t i = 0; i < cycles[a].size(); ++i) ratios.push_back(cycles[a][i] / cycles[b][i]);
  return interval_of_median(ratios, run_to_run_device);
}

/// Prints what one lane finds; the cycles of loads through L1.
Cycles measure_one_lane(Run& run) {
  const int launches = run.quick ? 8 : 20;
  const Cycles ca = cycles_of(time_ca, launches), cg = cycles_of(time_cg, launches);
  const TimeLoads by_flag = time_loads_by_flag;
  const Cycles flag = by_flag ? cycles_of(by_flag, launches) : Cycles{};
  Table table("one lane, a load after", {"cycles, .ca", ".cg", "-dlcm=cg"});
  const char* const names[] = {"nothing", "a load of the word", "a load of its sector",
                               "a load of the next sector", "a store of the word"};
  for (unsigned before = 0; before < before_count; ++before) {
    const auto cell = [before](const Cycles& cycles) {
      return Cell(interval_of_median(cycles[before], run_to_run_device));
    };
    table.row(names[before], {cell(ca), cell(cg), by_flag ? cell(flag) : Cell("-")});
  }
  run.print(table);
  if (by_flag)
    run.note("-dlcm=cg is lost where the driver compiles the kernels: then its column is as .ca's");
  else
    run.note("-dlcm=cg: CMake compiles caching_flag.cu with the flag; this build is without it");
  return ca;
}

}  // namespace

void caching(Run& run) {
  const size_t words = run.fitting(size_t(1) << 28, sizeof(unsigned));
  run.title("one lane; then all of the GPU, which reads of " + bytes_text(4.0 * double(words)));
  const Cycles ca = measure_one_lane(run);

  const auto in = filled<unsigned>(words, [] __device__(size_t i) { return hash(i); });
  const GuardedBuffer<unsigned> out(run.resident_blocks(256) * 256);
  std::vector<Benchmark> benchmarks;
  for (const Place& place : reads)
    for (const bool through_l1 : {true, false})
      benchmarks.push_back(benchmark_of(place, through_l1, out, in, count_of(place, words)));
  const Timings timed = run.timer.interleaved(benchmarks);
  Table table("words, load", {"bytes on Fermi", "sectors/request", "GB/s", "spread", ""});
  const double best = timed[name_of(reads[0], true)].gbs(4.0 * double(words));
  for (const Place& place : reads)
    for (const bool through_l1 : {true, false}) {
      const Times& times = timed[name_of(place, through_l1)];
      const double bytes = 4.0 * double(count_of(place, words));
      table.row(name_of(place, through_l1),
                {bytes_moved(place, through_l1 ? 128 : 32),
                 bytes_moved(place, sector_bytes) / sector_bytes, times.gbs_interval(bytes),
                 percent(times.spread()), bar(times.gbs(bytes) / best)});
    }
  run.print(table);
  run.note("bytes on Fermi: of a warp's request; today: its sectors of 32 bytes, both ways");

  const std::string ca_scattered = name_of(reads[2], true), cg_scattered = name_of(reads[2], false);
  const Claim unit{"03.11", "the access unit is 32 bytes, whether or not L1 caches loads",
                   "[LC 3] 32 bytes, on Pascal"};
  const Claim stores{"03.18", "the L1 cache is not used for stores",
                     "[LC 3] \"not used for store operations on either Fermi or Kepler GPUs\"",
                     Hardware::kepler};
  if (times_as_long(ca, same_sector, nothing).high < 0.75) {
    run.claim_each(
        unit,
        {times_as_long(ca, next_sector, nothing), ratio(timed[ca_scattered], timed[cg_scattered])},
        "next sector / nothing, .ca / .cg", as_much());
    run.claim(stores,
              {times_as_long(ca, store, same_word),
               "times as long for a load after a store as for one after a load"},
              more());
  } else {
    run.claim_skipped(unit, "L1 does not keep loads here");
    run.claim_skipped(stores, "L1 does not keep loads here");
  }
  const Measured past_l1 = timed.speedup({.of = cg_scattered, .over = ca_scattered});
  run.claim({"03.19", "from Pascal on, scattered loads do not gain if L1 is turned off",
             "[LC 3] \"no longer necessary to turn off L1 caching\", on Pascal"},
            past_l1, no_faster());
  run.claim({"03.20", "scattered loads use the bus better past L1 than through it",
             "[LC 3] \"more fine-grained loads\", of Fermi and Kepler", Hardware::kepler},
            past_l1, faster());
}
SAMPLE(6, caching, "the same loads through L1 and past it");

TEST_CASE("caching: what a warp's request moved on Fermi, and moves today") {
  CHECK(bytes_moved(reads[0], 128) == 128);
  CHECK(bytes_moved(reads[0], 32) == 128);
  CHECK(bytes_moved(reads[1], 128) == 256);  // two lines
  CHECK(bytes_moved(reads[1], 32) == 160);   // five sectors
  CHECK(bytes_moved(reads[2], 128) == 4096);
  CHECK(bytes_moved(reads[2], 32) == 1024);
}

TEST_CASE("caching: how many times as long, launch by launch") {
  Cycles cycles;
  for (const double hit : {40., 40., 50., 50., 50., 60., 60.}) {
    cycles[same_word].push_back(hit);
    cycles[store].push_back(3 * hit);
  }
  CHECK(times_as_long(cycles, store, same_word).value == doctest::Approx(3));
}

TEST_CASE("caching: each thread has the sum of its words, at awkward sizes") {
  if (skip_without_gpu()) return;
  const GuardedBuffer<unsigned> out(3 * 256);
  for (const size_t n : {size_t(1), size_t(1009), 8 * out.size(), size_t(65537)})
    for (const Place& place : reads)
      for (const bool through_l1 : {true, false}) {
        CAPTURE(n);
        CAPTURE(name_of(place, through_l1));
        const size_t end = place.first + (n - 1) * place.stride + 1;
        const auto in = filled<unsigned>(end, [] __device__(size_t i) { return hash(i); });
        const Benchmark read = benchmark_of(place, through_l1, out, in, n);
        read.check.poison();
        read.work();
        std::vector<unsigned> right(out.size(), 0);
        size_t word = place.first;
        for (size_t i = 0; i < n; ++i, word += place.stride) right[i % right.size()] += hash(word);
        CHECK(out.to_host() == right);
        CHECK(read.check.find_error() == "");
        CHECK(adds_up(out, n + 1, place).find_error() != "");
      }
}

TEST_CASE("caching: every load brings what was stored") {
  if (skip_without_gpu()) return;
  for (const TimeLoads kernel :
       std::initializer_list<TimeLoads>{time_ca, time_cg, time_loads_by_flag})
    if (kernel) CHECK_NOTHROW(cycles_of(kernel, 1));
}
