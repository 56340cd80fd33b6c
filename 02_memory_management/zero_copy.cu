// zero_copy: kernels that work on the host's pinned memory where it is, over the link. The wiki
// adds two such arrays, through a pointer that it fetches and through the host's own; it praises
// this where device memory is too small, and warns of frequent reads and writes [LC 2]. Look at how
// the time grows with the number of passes in place, and at how soon a copy pays.
//   cmake -S 02_memory_management -B build/zero_copy -DEXPERIMENTS=zero_copy
//   cmake --build build/zero_copy && build/zero_copy/02_memory_management
//
//   1  sum_arrays    the text's: c = a + b, all three the host's
//   2  read_passes   reads an array again and again
//   3  write_passes  writes an array again and again
//   4  write_late    writes a word when the host has long gone on
#include <algorithm>

#include "host_memory.hpp"

namespace {

// ---- kernels ----

/// Word i: neighbours differ, no two of 2^32 are alike, so that one left out and another taken
/// twice show in a sum.
__host__ __device__ unsigned word_at(size_t i) { return unsigned(i) * 2654435761u + 12345u; }

// [sum_arrays]
// Each warp reads 32 neighbouring words of two arrays and writes 32 of a third. Where they are the
// host's, 256 bytes come over the link and 128 go, at the same time.
__global__ void sum_arrays(unsigned* c, const unsigned* a, const unsigned* b, size_t n) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}
// [/sum_arrays]

// [read_passes]
// A warp reads 512 neighbouring bytes; the grid reads all of the array in each pass. The loads pass
// L1 by. Words count once in the first pass, twice in the second: none can stray.
__global__ void read_passes(unsigned* out, const unsigned* in, size_t n, unsigned passes) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  unsigned sum = 0;
  for (unsigned pass = 1; pass <= passes; ++pass) {
    for (size_t i = tid; i < n / 4; i += threads) {
      const uint4 four = __ldcg(reinterpret_cast<const uint4*>(in) + i);
      sum += pass * (four.x + four.y + four.z + four.w);
    }
    if (tid < n % 4) sum += pass * __ldcg(in + n / 4 * 4 + tid);  // what is left of a uint4
  }
  out[tid] = sum;
}
// [/read_passes]

// A warp writes 512 neighbouring bytes; the grid writes all of the array in each pass.
__global__ void write_passes(unsigned* out, size_t n, unsigned passes) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  for (unsigned pass = 1; pass <= passes; ++pass) {
    for (size_t i = tid; i < n / 4; i += threads) {
      const uint4 four = {word_at(4 * i) + pass, word_at(4 * i + 1) + pass,
                          word_at(4 * i + 2) + pass, word_at(4 * i + 3) + pass};
      __stcg(reinterpret_cast<uint4*>(out) + i, four);
    }
    const size_t last = n / 4 * 4 + tid;
    if (tid < n % 4) __stcg(out + last, word_at(last) + pass);
  }
}

constexpr int looks_in_a_ms = 1000;  // a look crosses the link, which takes about a microsecond

// One thread waits for the host's word, about a millisecond more, and writes. It gives up after a
// second and writes the negative: where launches wait for their kernels the host never comes to it.
__global__ void write_late(const volatile int* released, volatile int* value, int written) {
  for (int looks = 0; !*released && looks < 1000 * looks_in_a_ms;) ++looks;
  const bool given = *released;
  for (int looks = 0; *released && looks < looks_in_a_ms;) ++looks;
  *value = given ? written : -written;
}

// ---- what is right ----

/// What `passes` over the words from 0 to n - 1 add up to, by the text's own loop in closed form.
unsigned sum_of_passes(size_t n, unsigned passes) {
  const unsigned once = unsigned(n * (n - 1) / 2) * 2654435761u + unsigned(n) * 12345u;
  return once * (passes * (passes + 1) / 2);
}

void fill(unsigned* words, size_t n) {
  for (size_t i = 0; i < n; ++i) words[i] = word_at(i);
}

// Each warp looks at 32 neighbouring words and counts those that are not `added` more than they
// began with.
__global__ void count_wrong_words(const unsigned* words, size_t n, unsigned added,
                                  unsigned long long* wrong) {
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += threads)
    if (words[i] != word_at(i) + added) atomicAdd(wrong, 1ull);
}

/// Words of the device, counted there: that is faster than to fetch them.
size_t wrong_words(const unsigned* words, size_t n, unsigned added) {
  const DeviceBuffer<unsigned long long> wrong(std::vector<unsigned long long>{0});
  count_wrong_words<<<1024, 256>>>(words, n, added, wrong.data());
  CUDA_CHECK_LAUNCH();
  return wrong.to_host()[0];
}

/// Words of the host, as the host sees them.
size_t wrong_words_on_host(const unsigned* words, size_t n, unsigned added) {
  CUDA_CHECK(cudaDeviceSynchronize());
  size_t wrong = 0;
  for (size_t i = 0; i < n; ++i) wrong += words[i] != word_at(i) + added;
  return wrong;
}

// ---- the work ----

using Words = DeviceBuffer<unsigned>;
using HostWords = PinnedBuffer<unsigned>;

struct Grid {
  unsigned blocks = 1024;
  unsigned threads = 256;
  size_t total() const { return size_t(blocks) * threads; }
};

/// All the threads that are resident at once.
Grid filling(const cudaDeviceProp& prop) {
  Grid grid;
  const int resident = prop.multiProcessorCount * prop.maxThreadsPerMultiProcessor;
  grid.blocks = unsigned(resident) / grid.threads;
  return grid;
}

unsigned* device_pointer(unsigned* host) {
  unsigned* device = nullptr;
  CUDA_CHECK(cudaHostGetDevicePointer(&device, host, 0));
  return device;
}

/// Sums of all threads, one run of them for each launch that reads a piece.
struct Sums {
  static constexpr size_t canaries = 64;  ///< behind what the threads write
  Grid grid;
  size_t launches;
  Words out;

  Sums(Grid grid, size_t launches)
      : grid(grid), launches(launches), out(launches * grid.total() + canaries) {}
  unsigned* of(size_t launch) const { return out.data() + launch * grid.total(); }
  /// Whether those of the first `used` launches add up to it.
  Check check(unsigned expected, size_t used = 1) {
    Check check;
    check.poison = [this] { out.poison(); };
    check.wrong = [this, expected, used] {
      const std::vector<unsigned> found = out.to_host();
      unsigned sum = 0;
      for (size_t i = 0; i < used * grid.total(); ++i) sum += found[i];
      return size_t(sum != expected);
    };
    return check;
  }
};

Task reading(const char* name, Sums& sums, const unsigned* in, size_t n, unsigned passes) {
  const auto launch = [&sums, in, n, passes] {
    read_passes<<<sums.grid.blocks, sums.grid.threads>>>(sums.of(0), in, n, passes);
  };
  return {name, launch, sums.check(sum_of_passes(n, passes))};
}

/// The copy without a kernel.
Task copy_alone(Words& to, const unsigned* host, size_t n) {
  Check check;
  check.poison = [&to] { to.poison(); };
  check.wrong = [&to, n] { return wrong_words(to.data(), n, 0); };
  const auto launch = [&to, host, n] {
    CUDA_CHECK(cudaMemcpyAsync(to.data(), host, 4 * n, cudaMemcpyHostToDevice));
  };
  return {"the copy alone", launch, std::move(check)};
}

/// Copies to the device first, and reads there.
Task copying(Sums& sums, const Words& to, const unsigned* host, size_t n, unsigned passes) {
  const auto launch = [&sums, &to, host, n, passes] {
    CUDA_CHECK(cudaMemcpyAsync(to.data(), host, 4 * n, cudaMemcpyHostToDevice));
    read_passes<<<sums.grid.blocks, sums.grid.threads>>>(sums.of(0), to.data(), n, passes);
  };
  return {"explicit copy", launch, sums.check(sum_of_passes(n, passes))};
}

/// The same through a buffer that is too small: piece after piece.
Task copying_pieces(Sums& sums, const Words& buffer, const unsigned* host, size_t n) {
  const size_t pieces = (n + buffer.size() - 1) / buffer.size();
  const auto launch = [&sums, &buffer, host, n, pieces] {
    for (size_t k = 0; k < pieces; ++k) {
      const size_t first = k * buffer.size();
      const size_t words = std::min(buffer.size(), n - first);
      CUDA_CHECK(cudaMemcpyAsync(buffer.data(), host + first, 4 * words, cudaMemcpyHostToDevice));
      read_passes<<<sums.grid.blocks, sums.grid.threads>>>(sums.of(k), buffer.data(), words, 1);
    }
  };
  return {"copied in pieces", launch, sums.check(sum_of_passes(n, 1), pieces)};
}

/// Counts the wrong words of an array where it lies.
using CountWrong = size_t (*)(const unsigned* words, size_t n, unsigned added);

/// Writes an array of the host's or of the device's, all of which is looked at.
Task writing(const char* name, Grid grid, unsigned* out, size_t n, unsigned passes,
             CountWrong count_wrong) {
  Check check;
  check.poison = [out, n] { CUDA_CHECK(cudaMemset(out, 0xff, 4 * n)); };
  check.wrong = [out, n, passes, count_wrong] { return count_wrong(out, n, passes); };
  const auto launch = [grid, out, n, passes] {
    write_passes<<<grid.blocks, grid.threads>>>(out, n, passes);
  };
  return {name, launch, std::move(check)};
}

// ---- the text's example: three arrays of the host's ----

void launch_sum(unsigned* c, const unsigned* a, const unsigned* b, size_t n) {
  sum_arrays<<<unsigned((n + 255) / 256), 256>>>(c, a, b, n);
  CUDA_CHECK_LAUNCH();
}

/// Three arrays in one block of the host's memory, and three of the device's.
struct Arrays {
  unsigned *a, *b, *c;  ///< the host's
  Words device;
  size_t most;  ///< words of the largest

  /// `host` holds words 0, 1, 2 ...; the third array is overwritten.
  Arrays(unsigned* host, size_t most)
      : a(host), b(host + most), c(host + 2 * most), device(3 * most), most(most) {}

  Check check(size_t n) const {
    Check check;
    check.poison = [this, n] { std::fill_n(c, n, ~0u); };
    check.wrong = [this, n] {
      size_t wrong = 0;
      for (size_t i = 0; i < n; ++i) wrong += c[i] != word_at(i) + word_at(most + i);
      return wrong;
    };
    return check;
  }
  // [three_ways]
  Task by_copies(size_t n) const {
    const auto go = [this, n] {
      unsigned *const da = device.data(), *const db = da + most, *const dc = db + most;
      CUDA_CHECK(cudaMemcpy(da, a, 4 * n, cudaMemcpyHostToDevice));
      CUDA_CHECK(cudaMemcpy(db, b, 4 * n, cudaMemcpyHostToDevice));
      launch_sum(dc, da, db, n);
      CUDA_CHECK(cudaMemcpy(c, dc, 4 * n, cudaMemcpyDeviceToHost));
    };
    return {"explicit copies", go, check(n), true};
  }
  Task by_device_pointer(size_t n) const {
    const auto go = [this, n] {
      launch_sum(device_pointer(c), device_pointer(a), device_pointer(b), n);
      CUDA_CHECK(cudaDeviceSynchronize());  // only then may the host look at c
    };
    return {"zero-copy, device pointer", go, check(n), true};
  }
  Task by_host_pointer(size_t n) const {
    const auto go = [this, n] {
      launch_sum(c, a, b, n);
      CUDA_CHECK(cudaDeviceSynchronize());
    };
    return {"zero-copy, host pointer", go, check(n), true};
  }
  // [/three_ways]
};

// ---- what to expect ----

/// Measured in the same run.
struct Rates {
  double copy_gbs = NAN;    ///< the copy engine over the link
  double read_gbs = NAN;    ///< a kernel over the link: smaller requests, more headers
  double write_gbs = NAN;   ///< the same, writing
  double memory_gbs = NAN;  ///< a kernel in device memory
  double memory_write_gbs = NAN;
};

double move_ms(double bytes, double gbs) { return bytes * 1e-6 / gbs; }

/// The first number of reads from which a copy should pay: one crossing by the copy engine and the
/// rest in memory, against a crossing for each. None if the link is as fast as the memory.
double reads_that_pay(const Rates& r) {
  const double crossing = 1 / r.read_gbs, local = 1 / r.memory_gbs;
  return crossing > local ? std::max(1.0, std::ceil(1 / r.copy_gbs / (crossing - local)))
                          : INFINITY;
}

/// c = a + b: the calls, and three arrays by copies, or two in place: c goes the other way
/// meanwhile.
double copies_ms(double setup_ms, double bytes, const Rates& r) {
  return setup_ms + move_ms(3 * bytes, r.copy_gbs);
}
double in_place_ms(double setup_ms, double bytes, const Rates& r) {
  return setup_ms + move_ms(2 * bytes, r.read_gbs);
}

// ---- the experiment ----

std::vector<Column> columns() {
  return {compared("ms", "time", "ms", 4), shown("spread"), measured("GB/s", "rate", "GB/s", 1)};
}

void add_row(Table& table, const Key& key, double bytes, const Readings& times, double predicted,
             Model model = Model::traffic) {
  const Statistics ms = times.statistics();
  const Cell cell =
      std::isnan(predicted) ? Cell(Calibration{ms}) : Cell(Compared{predicted, ms, model});
  table.row(key, {cell, spread_text(ms), gigabytes_per_second(bytes, ms)});
}

double gbs_of(double bytes, const Readings& times) { return bytes * 1e-6 / times.median(); }

/// Times of the most passes, for the claim.
struct Passes {
  Readings local, in_place;
  unsigned passes = 0;
};

/// Reads over and over: in device memory, in place, and copied first. Finds three of the rates.
Passes over_reads(const Run& run, const HostWords& host, size_t n, Sums& sums, Rates& rates,
                  double& pays) {
  Table table(run.report, "one array, reads", columns());
  Words device(n);
  const double bytes = 4.0 * double(n);
  const Readings copied = run.time(copy_alone(device, host.data(), n));
  rates.copy_gbs = gbs_of(bytes, copied);
  add_row(table, {"copy engine alone"}, bytes, copied, NAN);

  Passes last;
  std::vector<unsigned> counts{1, 2, 8};
  if (run.quick) counts = {1, 2};
  if (run.full) counts = {1, 2, 4, 8, 16, 32, 64};
  for (const unsigned passes : counts) {
    std::vector<Task> tasks;
    tasks.push_back(reading("device memory", sums, device.data(), n, passes));
    tasks.push_back(reading("zero-copy", sums, host.data(), n, passes));
    tasks.push_back(copying(sums, device, host.data(), n, passes));
    const std::vector<Readings> times = run.time_in_turn(tasks);
    const double all = bytes * passes;
    const bool first = passes == 1;
    if (first) {
      rates.memory_gbs = gbs_of(bytes, times[0]);
      rates.read_gbs = gbs_of(bytes, times[1]);
    }
    const auto key = [&](const char* name) { return Key{name, "reads", std::to_string(passes)}; };
    const double local_ms = move_ms(all, rates.memory_gbs);
    add_row(table, key("device memory"), all, times[0], first ? NAN : local_ms);
    add_row(table, key("zero-copy"), all, times[1], first ? NAN : move_ms(all, rates.read_gbs));
    add_row(table, key("explicit copy"), all, times[2], move_ms(bytes, rates.copy_gbs) + local_ms);
    if (std::isnan(pays) && ratio(times[1], times[2]).low > least_effect) pays = passes;
    last = {times[0], times[1], passes};
  }

  const size_t few = std::min(n, run.device->l2_bytes() / 64);  // words: a sixteenth of the L2
  const Readings cached = run.time(reading("zero-copy, within L2", sums, host.data(), few, 64));
  const double all = 64 * 4.0 * double(few);
  add_row(table, {"zero-copy, within L2", "reads", "64"}, all, cached, move_ms(all, rates.read_gbs),
          Model::host);
  table.print();
  const double again = move_ms(all, rates.read_gbs) / cached.median();
  run.report.note("what fits the L2 is read again at " + times(again) +
                  " the link's rate: " + (again > 1.5 ? "from the L2" : "the L2 does not keep it"));
  return last;
}

Passes over_writes(const Run& run, const HostWords& host, size_t n, Grid grid, Rates& rates) {
  Table table(run.report, "one array, writes", columns());
  const Words device(n);
  const double bytes = 4.0 * double(n);
  Passes last;
  for (const unsigned passes : {1u, run.quick ? 2u : 8u}) {
    std::vector<Task> tasks;
    tasks.push_back(writing("device memory, written", grid, device.data(), n, passes, wrong_words));
    tasks.push_back(
        writing("zero-copy, written", grid, host.data(), n, passes, wrong_words_on_host));
    const std::vector<Readings> times = run.time_in_turn(tasks);
    const double all = bytes * passes;
    const bool first = passes == 1;
    if (first) {
      rates.memory_write_gbs = gbs_of(bytes, times[0]);
      rates.write_gbs = gbs_of(bytes, times[1]);
    }
    const std::string at = std::to_string(passes);
    add_row(table, {"device memory", "writes", at}, all, times[0],
            first ? NAN : move_ms(all, rates.memory_write_gbs));
    add_row(table, {"zero-copy", "writes", at}, all, times[1],
            first ? NAN : move_ms(all, rates.write_gbs));
    last = {times[0], times[1], passes};
  }
  table.print();
  fill(host.data(), n);  // they are read again
  return last;
}

/// The text's sum over the size of its arrays, three of which the host's block holds.
void over_size(const Run& run, const HostWords& host, size_t most, const Rates& rates) {
  Table table(run.report, "c = a + b, bytes an array", columns());
  const Arrays arrays(host.data(), most);
  double copies_setup = NAN, in_place_setup = NAN;
  for (size_t n = 1024, last = 0; n != last;
       last = n, n = std::min(n * (run.full ? 4 : 16), most)) {
    const double bytes = 4.0 * double(n);
    std::vector<Task> tasks;
    tasks.push_back(arrays.by_copies(n));
    tasks.push_back(arrays.by_device_pointer(n));
    tasks.push_back(arrays.by_host_pointer(n));
    const std::vector<Readings> times = run.time_in_turn(tasks);
    const bool first = std::isnan(copies_setup);
    if (first) {
      copies_setup = times[0].median();
      in_place_setup = times[1].median();
    }
    const auto add = [&](size_t k, double predicted) {
      const Model model = bytes > 1e7 ? Model::traffic : Model::latency;
      add_row(table, {tasks[k].name, "array bytes", std::to_string(4 * n)}, 3 * bytes, times[k],
              predicted, model);
    };
    add(0, first ? NAN : copies_ms(copies_setup, bytes, rates));
    add(1, first ? NAN : in_place_ms(in_place_setup, bytes, rates));
    add(2, in_place_ms(in_place_setup, first ? 0 : bytes, rates));
  }
  table.print();
}

/// More than the device may hold of it: in one launch in place, or piece after piece.
void over_budget(const Run& run, const HostWords& host, size_t n, Sums& sums, const Rates& rates) {
  const Words buffer((n + 3) / 4);
  const double bytes = 4.0 * double(n);
  std::vector<Task> tasks;
  tasks.push_back(reading("zero-copy in one launch", sums, host.data(), n, 1));
  tasks.push_back(copying_pieces(sums, buffer, host.data(), n));
  const std::vector<Readings> times = run.time_in_turn(tasks);
  Table table(run.report,
              "sum of " + bytes_text(bytes) + ", device budget " + bytes_text(bytes / 4),
              columns());
  add_row(table, {"budget, zero-copy in one launch"}, bytes, times[0],
          move_ms(bytes, rates.read_gbs));
  add_row(table, {"budget, copied in pieces"}, bytes, times[1],
          move_ms(bytes, rates.copy_gbs) + move_ms(bytes, rates.memory_gbs));
  table.print();
}

/// What the host reads of a late write: at once, and after synchronising.
std::pair<int, int> late_write(int before, int written) {
  const PinnedBuffer<int> x(2, cudaHostAllocMapped);
  volatile int* const released = x.data();
  volatile int* const value = released + 1;
  *released = 0;
  *value = before;
  write_late<<<1, 1>>>(released, value, written);
  CUDA_CHECK_LAUNCH();
  const int at_once = *value;
  *released = 1;
  CUDA_CHECK(cudaDeviceSynchronize());
  return {at_once, *value};
}

/// Whether the device's pointer is the host's. The sum by it must be right.
bool one_pointer(unsigned flags, size_t n) {
  const HostWords host(n, flags);
  fill(host.data(), n);
  unsigned* const device = device_pointer(host.data());
  Sums sums(Grid(), 1);
  require_right(reading("pinned memory by its pointer", sums, device, n, 1));
  return device == host.data();
}

void judge(const Run& run, const Passes& reads, const Passes& writes, double bytes, double pays,
           const Rates& rates) {
  const auto unless_cached = [&](const Passes& p) {
    if (run.device && !beyond_l2(*run.device, bytes))
      return not_measured("the array is less than four times the L2");
    return ratio(p.in_place, p.local);
  };
  const auto here = [](const Interval& r, const Passes& p, const char* what) {
    return slower(r) + ", " + std::to_string(p.passes) + what;
  };
  const Interval read = unless_cached(reads);
  run.report.judge({"02.5a", "zero-copy is significantly slower for frequent reads",
                    "significantly slower", "the wiki"},
                   much_beats(), read, here(read, reads, " reads"));
  if (read.measured())
    run.report.finding("02.5a", "a copy pays from read " + fixed(pays, 0) +
                                    " on; predicted: from read " + fixed(reads_that_pay(rates), 0));
  const Interval write = unless_cached(writes);
  run.report.judge({"02.5b", "and for frequent writes", "significantly slower", "the wiki"},
                   much_beats(), write, here(write, writes, " writes"));
}

const Part one_address{"02.6", "with unified addresses the device pointer need not be fetched",
                       "the same code without it", "the wiki"};

void judge_pointers(const Run& run) {
  constexpr unsigned promised[] = {cudaHostAllocDefault, cudaHostAllocPortable,
                                   cudaHostAllocMapped};
  int same = 0;
  for (const unsigned flags : promised) same += one_pointer(flags, 100003);
  run.report.judge_fact(one_address, same == 3,
                        std::to_string(same) + " of 3 kinds of pinned memory, with right sums");
  const bool combined = one_pointer(cudaHostAllocWriteCombined, 100003);
  run.report.finding("02.6", std::string("not promised, write-combined: ") +
                                 (combined ? "the same pointer" : "another pointer"));
}

/// Words of the array: a read that comes again comes over the link again, as it is four times the
/// L2.
size_t wanted_words(const Run& run) {
  return run.device ? run.device->l2_bytes() : size_t(64) << 20;
}
/// The same, where so much may be pinned.
size_t words_of(const Run& run, double pinned) {
  const double room = run.device ? std::min(pinned, run.memory_there()) : INFINITY;
  size_t n = wanted_words(run);
  while (4.0 * double(n) > 0.4 * room && n > 4096) n /= 2;
  return n;
}

}  // namespace

void zero_copy(const Run& run) {
  const size_t wanted = wanted_words(run), n = words_of(run, double(pinned_budget()));
  const size_t most = std::min(n / 3, size_t(run.quick ? 1 : run.full ? 16 : 4) << 22);
  run.report.begin("zero_copy", bytes_text(4.0 * double(n)) + " of pinned host memory" +
                                    (n < wanted ? ", for no more is free" : ""));
  if (!run.device) {
    const Rates made_up{55, 50, 50, 4000, 4000};
    run.report.note("predicted for 50 GB/s in place, 4000 in memory: 8 reads of 256 MiB take " +
                    fixed(move_ms(0x1p31, 50), 0) + " ms, copied first " +
                    fixed(move_ms(0x1p28, 55) + move_ms(0x1p31, 4000), 1) +
                    "; a copy pays from read " + fixed(reads_that_pay(made_up), 0) + " on");
    run.report.left_out("sums in place and by copies");
    judge(run, {}, {}, INFINITY, NAN, {});
    return run.report.not_judged(one_address, "no GPU");
  }
  const HostWords host(n, cudaHostAllocMapped);
  fill(host.data(), n);
  Sums sums(filling(run.device->prop), 4);
  Rates rates;
  double pays = NAN;
  const Passes reads = over_reads(run, host, n, sums, rates, pays);
  const Passes writes = over_writes(run, host, n, sums.grid, rates);
  over_budget(run, host, n, sums, rates);
  over_size(run, host, most, rates);
  const double link = link_gbs(run.device->prop);
  for (const double gbs : {rates.copy_gbs, rates.read_gbs, rates.write_gbs})
    require_possible("the host's memory, in place or copied", gbs, link);
  const auto [at_once, after] = late_write(11, 22);
  run.report.note("a kernel writes 22 late: the host reads " + std::to_string(at_once) +
                  " at once, " + std::to_string(after) + " once synchronised");
  judge(run, reads, writes, 4.0 * double(n), pays, rates);
  judge_pointers(run);
}
