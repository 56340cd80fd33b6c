// transfer: copies between the GPU and each kind of host memory. A copy engine follows only pages
// that stay where they are, so copies of ordinary (pageable) memory go through a pinned buffer of
// the driver. The wiki and the guide say that pinned memory is much faster, the wiki that
// write-combined memory is faster still on some systems, but slow for the host to read [LC 2]; a
// study of 2007 reads its card back at about 1 GB/s [BW]. Look at the largest copies, and at the
// size from which on the bytes count and not the call.
//   cmake -S 02_memory_management -B build/transfer -DEXPERIMENTS=transfer
//   cmake --build build/transfer && build/transfer/02_memory_management
//
//   1  copy_to_device  one copy, waited for
//   2  copy_to_host    the same back
//   3  copy_both_ways  half of the bytes each way, at the same time
//   4  copy_queued     eight copies, waited for once
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <optional>

#include "../common/host_threads.hpp"
#include "host_memory.hpp"
#include "options.hpp"
#include "pattern.cuh"

namespace {

using Byte = unsigned char;
constexpr size_t kib = 1024;
constexpr size_t mib = 1024 * kib;

// ---- the copies ----

// [copies]
// cudaMemcpy from pageable memory returns when all is staged, which is before it has arrived.
void copy_to_device(Byte* device, const Byte* host, size_t n) {
  CUDA_CHECK(cudaMemcpy(device, host, n, cudaMemcpyHostToDevice));
  CUDA_CHECK(cudaDeviceSynchronize());
}

void copy_to_host(Byte* host, const Byte* device, size_t n) {
  CUDA_CHECK(cudaMemcpy(host, device, n, cudaMemcpyDeviceToHost));
  CUDA_CHECK(cudaDeviceSynchronize());
}

// The first half goes up while the second comes down: a link carries both at once.
void copy_both_ways(Byte* device, Byte* host, size_t n, cudaStream_t up, cudaStream_t down) {
  const size_t half = n / 2;
  CUDA_CHECK(cudaMemcpyAsync(device, host, half, cudaMemcpyHostToDevice, up));
  CUDA_CHECK(cudaMemcpyAsync(host + half, device + half, n - half, cudaMemcpyDeviceToHost, down));
  CUDA_CHECK(cudaDeviceSynchronize());
}

// While one copy runs the host has called for the next: only the first call takes time.
constexpr int queued = 8;
void copy_queued(Byte* device, const Byte* host, size_t n, cudaStream_t up) {
  for (int k = 0; k < queued; ++k)
    CUDA_CHECK(cudaMemcpyAsync(device, host, n, cudaMemcpyHostToDevice, up));
  CUDA_CHECK(cudaDeviceSynchronize());
}
// [/copies]

// ---- the kinds of host memory ----

enum Kind { pageable, pinned, portable, mapped, combined, registered, kind_count };
const char* const kind_names[] = {"pageable", "cudaMallocHost", "portable",
                                  "mapped",   "write-combined", "registered"};
constexpr unsigned flags_of[] = {
    0, cudaHostAllocDefault, cudaHostAllocPortable, cudaHostAllocMapped, cudaHostAllocWriteCombined,
    0};

/// Host memory of one kind, every page touched. Throws CudaError where it is refused.
class HostMemory {
 public:
  HostMemory(Kind kind, size_t bytes) : kind_(kind), memory_(allocate(kind, bytes), release(kind)) {
    // no host has pages of less than 4 KiB, and one thread would take long
    const size_t part = (bytes + 7) / 8;
    on_threads(8, [this, part, bytes](size_t k) {
      for (size_t i = k * part; i < std::min(bytes, (k + 1) * part); i += 4 * kib) data()[i] = 1;
    });
    if (kind == registered) registration_.emplace(data(), bytes);
  }
  Byte* data() const { return memory_.get(); }
  Kind kind() const { return kind_; }

 private:
  using Release = void (*)(void*);
  static Byte* allocate(Kind kind, size_t bytes) {
    void* data = nullptr;
    if (kind == pageable || kind == registered) {
      data = std::malloc(bytes);
      if (!data) throw std::runtime_error("out of host memory: " + bytes_text(double(bytes)));
    } else {
      const cudaError_t code = cudaHostAlloc(&data, bytes, flags_of[kind]);
      if (code != cudaSuccess) cudaGetLastError();
      const std::string call =
          "cudaHostAlloc of " + bytes_text(double(bytes)) + ", " + kind_names[kind];
      check_cuda(code, call.c_str(), __FILE__, __LINE__);
    }
    return static_cast<Byte*>(data);
  }
  static Release release(Kind kind) {
    if (kind == pageable || kind == registered) return std::free;
    return [](void* data) { cudaFreeHost(data); };
  }

  Kind kind_;
  std::unique_ptr<Byte, Release> memory_;
  std::optional<Registration> registration_;  // last: it ends before the memory does
};

// ---- what is right ----

enum Direction { to_device, to_host, both_ways };
const char* const direction_names[] = {"host to device", "device to host", "both ways"};

/// A number that no check has had before.
unsigned next_round() {
  static unsigned round = 0;
  return ++round;
}

/// A host buffer, a device buffer, and the copies between them. Each check begins a round of its
/// own in the pattern, so that nothing that was there before is right.
struct Ends {
  HostMemory host;
  Byte* on_host;  ///< where the copies begin
  Byte* device;
  Stream up, down;
  DeviceBuffer<unsigned long long> wrong_count{1};
  unsigned round = 0;

  Ends(Kind kind, size_t bytes, Byte* device, size_t guard = 0)
      : host(kind, bytes + 2 * guard), on_host(host.data() + guard), device(device) {}

  /// Makes `n` bytes of the host right; of an earlier round they are all wrong.
  void put_on_host(size_t n) {
    put_pattern(device, n, round);
    CUDA_CHECK(cudaMemcpy(on_host, device, n, cudaMemcpyDeviceToHost));
  }
  void spoil_device(size_t first, size_t n) const {
    put_pattern(device + first, n, round + 128, first);  // wrong in the next rounds, too
  }
  size_t wrong_on_device(size_t first, size_t n) const {
    return wrong_bytes(device + first, n, round, first, wrong_count);
  }
  /// The host may be slow to read: the device looks at what it has.
  size_t wrong_on_host(size_t first, size_t n) {
    spoil_device(first, n);
    CUDA_CHECK(cudaMemcpy(device + first, on_host + first, n, cudaMemcpyHostToDevice));
    return wrong_on_device(first, n);
  }

  Task task(Direction direction, size_t n) {
    Task task;
    task.name = std::string(direction_names[direction]) + ", " + kind_names[host.kind()] + ", " +
                bytes_text(double(n));
    task.on_host = true;
    if (direction == to_device) {
      task.launch = [this, n] { copy_to_device(device, on_host, n); };
      task.check.poison = [this, n] {
        round = next_round();
        put_on_host(n);
        spoil_device(0, n);
      };
      task.check.wrong = [this, n] { return wrong_on_device(0, n); };
    } else if (direction == to_host) {
      task.launch = [this, n] { copy_to_host(on_host, device, n); };
      task.check.poison = [this, n] {
        round = next_round();
        put_pattern(device, n, round);
      };
      task.check.wrong = [this, n] { return wrong_on_host(0, n); };
    } else {
      const size_t half = n / 2;
      task.launch = [this, n] { copy_both_ways(device, on_host, n, up, down); };
      task.check.poison = [this, half, n] {
        round = next_round();
        put_on_host(half);
        put_pattern(device + half, n - half, round, half);
        spoil_device(0, half);
      };
      task.check.wrong = [this, half, n] {
        const size_t wrong = wrong_on_device(0, half);
        return wrong + wrong_on_host(half, n - half);
      };
    }
    return task;
  }
  /// Eight times the same copy: the pattern must be there, and all eight must have ended.
  Task queued_task(size_t n) {
    Task task = this->task(to_device, n);
    task.name += ", queued";
    task.launch = [this, n] { copy_queued(device, on_host, n, up); };
    return task;
  }
};

// ---- what to expect ----

/// What a copy costs one way, from two calibration rows: the call, and the bytes.
struct Way {
  double setup_ms = NAN;
  double gbs = NAN;

  Way() = default;
  /// From the times of a small copy, which is all call, and of a large one.
  Way(double small_ms, double large_bytes, double large_ms)
      : setup_ms(small_ms), gbs(large_bytes * 1e-6 / (large_ms - small_ms)) {}
  double ms(double bytes) const { return setup_ms + bytes * 1e-6 / gbs; }
  /// The size at which the call takes as long as the bytes, and half of the rate is reached.
  double half_bytes() const { return setup_ms * gbs * 1e6; }
};

struct Calibrated {
  Way up, down;
};

/// Milliseconds of a copy. Both ways at once the slower half counts; pageable copies are staged by
/// one thread, one after the other.
double predicted_ms(Kind kind, Direction direction, double n, const Calibrated& c) {
  if (direction == to_device) return c.up.ms(n);
  if (direction == to_host) return c.down.ms(n);
  const double up = c.up.ms(n / 2), down = c.down.ms(n / 2);
  return kind == pageable ? up + down : std::max(up, down);
}

/// Pinned copies rest on the link's rate, or on the call; pageable ones on the host.
Model model_of(Kind kind, double n, const Calibrated& c) {
  if (kind == pageable) return Model::host;
  return n > 4 * c.up.half_bytes() ? Model::traffic : Model::latency;
}

// ---- the experiment ----

constexpr size_t small_copy = kib;
constexpr size_t large_copy = 16 * mib;  // beyond it rates hardly grow

struct Sizes {
  size_t largest;             ///< of pageable and of pinned memory
  std::vector<size_t> all;    ///< of these two
  std::vector<size_t> some;   ///< of the other kinds
  size_t small, calibrating;  ///< the two that the constants come from
};

Sizes sizes_of(size_t largest, bool quick, bool full) {
  Sizes sizes{largest, {}, {}, std::min(small_copy, largest), std::min(large_copy, largest)};
  const size_t step = quick ? 64 : 4;
  for (size_t n = small_copy; n < largest; n *= step) sizes.all.push_back(n);
  if (largest > large_copy) sizes.all.push_back(large_copy);
  sizes.all.push_back(largest);
  std::sort(sizes.all.begin(), sizes.all.end());
  sizes.all.erase(std::unique(sizes.all.begin(), sizes.all.end()), sizes.all.end());
  for (const size_t n : sizes.all)
    if (full || n == sizes.calibrating || n == 64 * kib || n == mib) sizes.some.push_back(n);
  return sizes;
}

/// Times of the largest copies, in turn.
struct Largest {
  Readings up[2], down[2];  ///< of pageable and of pinned memory
};

Measuring briefly(const Run& run, double budget_ms) {
  Measuring measuring = run.measuring;
  if (!measuring.typed) measuring.budget_ms = run.quick ? budget_ms / 2 : budget_ms;
  return measuring;
}

class CopyTable {
 public:
  explicit CopyTable(const Run& run)
      : run_(run),
        limit_(run.device ? link_gbs(run.device->prop) : NAN),
        table_(run.report, "memory, bytes of a copy",
               {compared("GB/s to device", "host to device", "GB/s", 2),
                compared("to host", "device to host", "GB/s", 2),
                compared("both ways", "both ways", "GB/s", 2)}) {}

  /// One size of one kind; `up` and `down` where they were measured before.
  void add(Ends& ends, size_t n, bool calibrates, const Readings& up, const Readings& down) {
    const Kind kind = ends.host.kind();
    std::vector<Cell> cells;
    for (const Direction d : {to_device, to_host, both_ways}) {
      Readings times = d == to_device ? up : d == to_host ? down : Readings{};
      // pageable both ways is staged one after the other: beyond 256 MiB it only takes long
      const bool too_long = d == both_ways && kind == pageable && n > 256 * mib;
      if (times.ms.empty() && !too_long) times = measure(ends.task(d, n));
      cells.push_back(cell(kind, d, n, times, calibrates && d != both_ways));
    }
    table_.row({kind_names[kind], "bytes", std::to_string(n)}, cells);
  }
  void add_queued(Ends& ends, size_t n) {
    const Readings times = measure(ends.queued_task(n));
    const double ms = constants.up.setup_ms + queued * double(n) * 1e-6 / constants.up.gbs;
    const double bytes = queued * double(n);
    table_.row(
        {std::string(kind_names[ends.host.kind()]) + ", 8 queued", "bytes", std::to_string(n)},
        {Compared{bytes * 1e-6 / ms, rate(bytes, times, false), Model::traffic}, {}, {}});
  }
  /// Readings of the two sizes that give the constants of either way.
  struct Calibrating {
    Readings up[2], down[2];
  };
  Calibrating calibrate(Ends& ends, size_t small, size_t larger) {
    Calibrating found;
    const size_t sizes[] = {small, larger};
    for (const int i : {0, 1}) {
      found.up[i] = measure(ends.task(to_device, sizes[i]));
      found.down[i] = measure(ends.task(to_host, sizes[i]));
    }
    constants.up = Way(found.up[0].median(), double(larger), found.up[1].median());
    constants.down = Way(found.down[0].median(), double(larger), found.down[1].median());
    return found;
  }
  void print() const { table_.print(); }

  Calibrated constants;

 private:
  Readings measure(const Task& task) const { return time_alone(briefly(run_, 8), task); }
  /// More than the link carries was not waited for. Both ways it carries twice.
  Statistics rate(double bytes, const Readings& times, bool twice) const {
    const Statistics gbs = gigabytes_per_second(bytes, times.statistics());
    require_possible("copies of " + bytes_text(bytes), gbs.median, limit_ * (twice ? 2 : 1));
    return gbs;
  }
  Cell cell(Kind kind, Direction d, size_t n, const Readings& times, bool calibrates) const {
    if (times.ms.empty()) return {};
    const Statistics gbs = rate(double(n), times, d == both_ways);
    if (calibrates) return Calibration{gbs};
    const double ms = predicted_ms(kind, d, double(n), constants);
    return Compared{double(n) * 1e-6 / ms, gbs, model_of(kind, double(n), constants)};
  }

  const Run& run_;
  double limit_;
  Table table_;
};

/// The texts' pair, at the largest size: pageable and pinned memory, both ways, in turn.
Largest measure_largest(const Run& run, Ends& ordinary, Ends& locked, size_t n) {
  // fifteen rounds whatever they take: with 512 MiB, pageable, about two seconds
  Measuring measuring = run.measuring;
  if (!measuring.typed && !run.quick) measuring.budget_ms = 1e4;
  std::vector<Task> tasks;
  for (Ends* ends : {&ordinary, &locked})
    for (const Direction d : {to_device, to_host}) tasks.push_back(ends->task(d, n));
  const std::vector<Readings> times = time_in_turn(measuring, tasks);
  return {{times[0], times[2]}, {times[1], times[3]}};
}

// ---- write-combined memory: as fast to copy, and to read? ----

/// Reads a word of each line of the host's memory, more of them than its caches hold, so that
/// whatever is read next comes from memory.
class Evictor {
 public:
  explicit Evictor(bool quick) : words_((quick ? 128 * mib : bytes()) / sizeof(size_t), 1) {}
  Task task() const {
    return {"emptying the host's caches",
            [this] {
              size_t sum = 0;
              for (size_t i = 0; i < words_.size(); i += 8) sum += words_[i];
              if (sum != (words_.size() + 7) / 8) throw WrongResult("the host's caches");
            },
            unchecked("it only reads"), true};
  }
  static size_t bytes() {
    const long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);  // 0 or less if it is not told
    return std::clamp(cache > 0 ? 2 * size_t(cache) : 0, 128 * mib, 256 * mib);
  }

 private:
  std::vector<size_t> words_;
};

/// The host adds up what is in its memory of one kind.
struct HostReads {
  static constexpr size_t bytes = 4 * mib;  // enough, as where writes are combined reading is slow

  size_t* words;
  size_t count = bytes / sizeof(size_t);
  size_t sum = 0;

  explicit HostReads(const HostMemory& memory) : words(reinterpret_cast<size_t*>(memory.data())) {
    for (size_t i = 0; i < count; ++i) words[i] = i * i + 1;
  }
  Task task(const char* name) {
    Check check;
    check.poison = [this] { sum = 0; };
    check.wrong = [this] {
      const size_t n = count;
      return size_t(sum != (n - 1) * n * (2 * n - 1) / 6 + n);  // of squares, and of ones
    };
    return {name, [this] { sum = std::accumulate(words, words + count, size_t(0)); },
            std::move(check), true};
  }
};

const Part part_faster{"02.3a", "here write-combined memory transfers faster", "on some systems",
                       "the wiki"};
const Part part_slow{"02.3b", "here the host reads write-combined memory slowly", "by most hosts",
                     "the wiki"};

/// Both. A system that refuses either kind of memory ends the experiment.
void judge_combined(const Run& run, Ends& locked, Byte* device, size_t n) {
  Ends special(combined, std::max(n, HostReads::bytes), device);
  std::vector<Task> copies;
  copies.push_back(locked.task(to_device, n));
  copies.push_back(special.task(to_device, n));
  const std::vector<Readings> up = run.time_in_turn(copies);

  HostReads plain_reads(locked.host), combined_reads(special.host);
  const Evictor evictor(run.quick);
  Run aside = run;
  aside.measuring.rounds = Measuring::quick_rounds;  // emptying the caches takes long
  std::vector<Task> reads;  // the caches are emptied before each, in either order
  reads.push_back(evictor.task());
  reads.push_back(plain_reads.task("the host reads pinned memory"));
  reads.push_back(evictor.task());
  reads.push_back(combined_reads.task("the host reads write-combined memory"));
  reads.push_back(evictor.task());
  const std::vector<Readings> read = time_in_turn(aside.measuring, reads);

  Table table(run.report, "the host reads " + bytes_text(double(HostReads::bytes)),
              {measured("GB/s", "host reads", "GB/s", 2), shown("spread")});
  const Readings* const rows[] = {&read[1], &read[3]};
  for (int k = 0; k < 2; ++k) {
    const Statistics gbs = gigabytes_per_second(HostReads::bytes, rows[k]->statistics());
    table.row({kind_names[k ? combined : pinned]}, {gbs, spread_text(gbs)});
  }
  table.print();

  const std::string where = hypervisor_text();
  const Interval gain = ratio(up[0], up[1]);
  run.report.judge(part_faster, beats(), gain, faster(gain) + where);
  const Interval loss = ratio(read[3], read[1]);
  run.report.judge(part_slow, much_beats(), loss, slower(loss) + where);
}

// ---- what pinning takes from the host (--full) ----

/// The host's own work: it takes 256 MiB, uses all of it and gives it back.
Task host_work() {
  const auto work = [] {
    const std::unique_ptr<Byte[]> memory(new Byte[256 * mib]);
    for (size_t i = 0; i < 256 * mib; i += 4 * kib) memory[i] = Byte(i >> 12);
    if (memory[8 * kib] != 2) throw WrongResult("the host's own work");
  };
  return {"the host's own work", work, unchecked("it looks at its own memory"), true};
}

void excessive_pinning(const Run& run) {
  Table table(run.report, "the host's own work, GiB pinned",
              {compared("ms", "time", "ms", 1), shown("spread")});
  double alone_ms = NAN;
  for (const size_t gib : {0, 1, 2, 4}) {
    const size_t bytes = gib * 1024 * mib;
    if (bytes > pinned_budget()) {
      run.report.left_out(bytes_text(double(bytes)) + " pinned",
                          "a quarter of the host's free memory");
      continue;
    }
    std::optional<PinnedBuffer<Byte>> taken;  // given back at the end of the row
    if (bytes) taken.emplace(bytes);
    const Statistics ms = run.time(host_work()).statistics();
    if (gib == 0) alone_ms = ms.median;
    const Cell time = gib == 0 ? Cell(Calibration{ms}) : Cell(Compared{alone_ms, ms, Model::host});
    table.row({"host's own work", "GiB pinned", std::to_string(gib)}, {time, spread_text(ms)});
  }
  table.print();
}

// ---- the claims, and all in order ----

void judge_largest(const Run& run, const Largest& largest, size_t n) {
  const auto unless_small = [&](const Interval& interval) {
    return n < 64 * mib ? not_measured("of copies under 64 MiB the call is a part") : interval;
  };
  const std::string size = ", " + bytes_text(double(n));
  const Interval up = unless_small(ratio(largest.up[0], largest.up[1]));
  run.report.judge({"02.2a", "pinned memory is copied to the device much faster than pageable",
                    "much higher bandwidth", "the wiki"},
                   much_beats(), up, faster(up) + size);
  const Interval down = unless_small(ratio(largest.down[0], largest.down[1]));
  run.report.judge({"02.2b", "and back from the device", "much higher bandwidth", "the wiki"},
                   much_beats(), down, faster(down) + size);
  // the study names no memory: what a program has anyway is pageable
  const Interval back = unless_small(level(double(n), 1e9, largest.down[0]));
  run.report.judge({"02.9", "a card is read back at about 1 GB/s", "about 1 GB/s", "8800 GTX", g80},
                   about(1), back, range_text(back, 1) + " GB/s to pageable memory", "GB/s");
  if (back.measured())
    run.report.finding("02.9", "to pinned memory " +
                                   range_text(level(double(n), 1e9, largest.down[1]), 1) + " GB/s");
}

void show_links(const Run& run) {
  Table links(run.report, "16 lanes", {predicted("GB/s each way", "limit", "GB/s", 1)});
  for (int g = 1; g <= 6; ++g)
    links.row({"PCIe " + std::to_string(g)}, {link_gbs(g < 3 ? 2.5 * g : 1 << g, 16)});
  links.print();
}

/// What it takes to pin memory that exists, and to unpin it: of the order of one copy that it
/// saves.
void measure_registering(const Run& run, size_t bytes) {
  const HostMemory memory(pageable, bytes);
  const auto both = [&] { const Registration brief(memory.data(), bytes); };
  try {
    const Readings times =
        time_alone(briefly(run, 50), {"registering", both, unchecked("nothing is computed"), true});
    const Statistics ms = scaled(times.statistics(), 1024.0 * mib / double(bytes));
    Table table(run.report, "pinning what exists",
                {measured("ms/GiB", "registering", "ms/GiB", 1), shown("spread")});
    table.row({"registered and undone"}, {ms, spread_text(ms)});
    table.print();
  } catch (const CudaError& refused) {
    run.report.left_out("registering", refused.what());
  }
}

/// The system does not have such memory, or has no more of it.
bool by_system(const CudaError& refused) {
  return refused.code == cudaErrorNotSupported || refused.code == cudaErrorMemoryAllocation ||
         refused.code == cudaErrorNotPermitted;
}

/// All sizes of one kind of which no claim speaks; nothing where the system refuses it.
void measure_kind(const Run& run, CopyTable& table, Kind kind, const Sizes& sizes, Byte* device) {
  try {
    Ends ends(kind, sizes.some.back(), device);
    for (const size_t n : sizes.some) table.add(ends, n, false, {}, {});
  } catch (const CudaError& refused) {
    if (!by_system(refused)) throw;
    run.report.left_out(std::string("memory of the kind ") + kind_names[kind], refused.what());
  }
}

void measure(const Run& run, const Sizes& sizes) {
  const DeviceBuffer<Byte> device(sizes.largest);
  CopyTable table(run);
  Largest largest;
  {
    Ends ordinary(pageable, sizes.largest, device.data());
    Ends locked(pinned, sizes.largest, device.data());
    largest = measure_largest(run, ordinary, locked, sizes.largest);
    for (Ends* ends : {&ordinary, &locked}) {
      const CopyTable::Calibrating found = table.calibrate(*ends, sizes.small, sizes.calibrating);
      const int k = ends == &locked;
      for (const size_t n : sizes.all) {
        const bool calibrates = n == sizes.small || n == sizes.calibrating;
        const int which = n == sizes.calibrating ? 1 : 0;  // of the two that calibrate
        if (calibrates)
          table.add(*ends, n, true, found.up[which], found.down[which]);
        else if (n == sizes.largest)
          table.add(*ends, n, false, largest.up[k], largest.down[k]);
        else
          table.add(*ends, n, false, {}, {});
      }
    }
    table.add_queued(locked, std::min(64 * mib, sizes.largest));
  }
  // all pinned kinds are predicted by cudaMallocHost's constants
  for (const Kind kind : {portable, mapped, combined, registered})
    measure_kind(run, table, kind, sizes, device.data());
  table.print();
  run.report.note("predicted: the call + bytes / rate, calibrated at " +
                  bytes_text(double(sizes.small)) + " and " +
                  bytes_text(double(sizes.calibrating)) + "; pinned: half of the rate at " +
                  bytes_text(std::round(table.constants.up.half_bytes() / kib) * kib));
  const double link = link_gbs(run.device->prop);
  run.report.note("this card's link: " +
                  (link > 0 ? fixed(link, 1) + " GB/s each way at most" : std::string("not told")));
  judge_largest(run, largest, sizes.largest);
  const size_t piece = std::min(sizes.largest, 64 * mib);
  Ends locked(pinned, std::max(piece, HostReads::bytes), device.data());
  try {
    judge_combined(run, locked, device.data(), piece);
  } catch (const CudaError& refused) {
    if (!by_system(refused)) throw;
    for (const Part& part : {part_faster, part_slow}) run.report.not_judged(part, refused.what());
  }
  measure_registering(run, piece);
  if (run.full) excessive_pinning(run);
}

/// Bytes of the largest copies: on the GPU, and of the host's memory that it may pin.
size_t largest_copy(const Run& run, size_t typed, double pinned) {
  const size_t by_default = (run.quick ? 64 : run.full ? 1024 : 512) * mib;
  const double room = run.device ? std::min(run.memory_there(), pinned) : INFINITY;
  return fitting_size("--size, pinned and on the GPU,", typed, by_default, room,
                      [](size_t n) { return double(n); });
}

}  // namespace

void transfer_fits(const Run& run, const Options& options) {
  largest_copy(run, options.size, double(pinned_budget()));
}

void transfer(const Run& run, const Options& options) {
  const size_t largest = largest_copy(run, options.size, double(pinned_budget()));
  run.report.begin("transfer", "copies of up to " + bytes_text(double(largest)) + " (" +
                                   std::to_string(largest) + " bytes); both ways: half each way");
  show_links(run);
  if (run.device) return measure(run, sizes_of(largest, run.quick, run.full));
  run.report.left_out("all copies");
  judge_largest(run, {}, largest);
  run.report.judge(part_faster, beats(), {}, "");
  run.report.judge(part_slow, much_beats(), {}, "");
}
