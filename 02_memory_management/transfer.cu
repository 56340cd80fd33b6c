// transfer: copies between the GPU and each kind of host memory. A copy engine follows only pages
// that stay where they are, so copies of ordinary (pageable) memory go through a pinned buffer of
// the driver. The wiki and the guide say that pinned memory is much faster, the wiki that
// write-combined memory is faster still on some systems, but slow for the host to read, and that
// too much pinned memory slows the host [LC 2]; a study of 2007 reads its card back at about 1 GB/s
// [BW]. Two things to look at:
//   - The largest copies, pageable and pinned.
//   - The size from which on the bytes count and not the call.
//
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

#include "../framework/common/experiment.hpp"
#include "../framework/common/host_threads.hpp"
#include "host_memory.hpp"
#include "options.hpp"
#include "pattern.cuh"

using namespace samples;

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

enum class Kind { pageable, pinned, portable, mapped, write_combined, registered };
struct Memory {
  const char* key = "";
  const char* words = "";
  Kind kind = Kind::pageable;
  unsigned flags = cudaHostAllocDefault;

  bool by_malloc() const { return kind == Kind::pageable || kind == Kind::registered; }
};
const Memory kinds[] = {
    {.key = "pageable", .words = "pageable"},
    {.key = "pinned", .words = "cudaMallocHost", .kind = Kind::pinned},
    {.key = "portable",
     .words = "portable",
     .kind = Kind::portable,
     .flags = cudaHostAllocPortable},
    {.key = "mapped", .words = "mapped", .kind = Kind::mapped, .flags = cudaHostAllocMapped},
    {.key = "write_combined",
     .words = "write-combined",
     .kind = Kind::write_combined,
     .flags = cudaHostAllocWriteCombined},
    {.key = "registered", .words = "registered", .kind = Kind::registered},
};
const Memory& memory_of(Kind kind) { return kinds[static_cast<size_t>(kind)]; }

/// Host memory of one kind, every page touched. Throws CudaError where it is refused.
class HostMemory {
 public:
  HostMemory(const Memory& kind, size_t bytes) : kind_(&kind), memory_(nullptr, release(kind)) {
    if (device_memory::Pretence::stands()) return;
    memory_.reset(allocate(kind, bytes));
    // no host has pages of less than 4 KiB, and one thread would take long
    const size_t part = (bytes + 7) / 8;
    on_threads(8, [this, part, bytes](size_t k) {
      for (size_t i = k * part; i < std::min(bytes, (k + 1) * part); i += 4 * kib) data()[i] = 1;
    });
    if (kind.kind == Kind::registered) registration_.emplace(data(), bytes);
  }
  Byte* data() const { return memory_.get(); }
  const Memory& kind() const { return *kind_; }

 private:
  using Release = void (*)(void*);
  static Byte* allocate(const Memory& kind, size_t bytes) {
    void* data = nullptr;
    if (kind.by_malloc()) {
      data = std::malloc(bytes);
      if (!data) throw std::runtime_error("out of host memory: " + bytes_text(double(bytes)));
    } else {
      const cudaError_t code = cudaHostAlloc(&data, bytes, kind.flags);
      if (code != cudaSuccess) cudaGetLastError();
      const std::string call = "cudaHostAlloc of " + bytes_text(double(bytes)) + ", " + kind.words;
      check_cuda(code, call.c_str(), __FILE__, __LINE__);
    }
    return static_cast<Byte*>(data);
  }
  static Release release(const Memory& kind) {
    if (kind.by_malloc()) return std::free;
    return [](void* data) { cudaFreeHost(data); };
  }

  const Memory* kind_;
  std::unique_ptr<Byte, Release> memory_;
  std::optional<Registration> registration_;  // last: it ends before the memory does
};

// ---- what is right ----

enum class Direction { to_device, to_host, both_ways };
struct Way {
  const char* key = "";
  const char* words = "";
  Direction direction = Direction::to_device;
};
const Way ways[] = {
    {.key = "to_device", .words = "to the device"},
    {.key = "to_host", .words = "to the host", .direction = Direction::to_host},
    {.key = "both_ways", .words = "both ways", .direction = Direction::both_ways},
};

/// A number that no check has had before.
unsigned next_round() {
  static unsigned round = 0;
  return ++round;
}

/// A host buffer, a device buffer, and the copies between them. Each check begins a round of its
/// own in the pattern, so that nothing that was there before is right.
struct Ends {
  HostMemory host;
  Shared<DeviceBuffer<Byte>> on_device;
  Byte* on_host;  ///< where the copies begin
  Byte* device;
  Stream up, down;
  DeviceBuffer<unsigned long long> wrong_count{1};
  unsigned round = 0;

  Ends(Kind kind, size_t bytes, const Shared<DeviceBuffer<Byte>>& on_device, size_t guard = 0)
      : host(memory_of(kind), bytes + 2 * guard),
        on_device(on_device),
        on_host(host.data() + guard),
        device(on_device->data() + guard) {}

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

  void copy(Direction direction, size_t n) const {
    if (direction == Direction::to_device) return copy_to_device(device, on_host, n);
    if (direction == Direction::to_host) return copy_to_host(on_host, device, n);
    copy_both_ways(device, on_host, n, up, down);
  }
  /// The first bytes go up, the others come down.
  static size_t bytes_up(Direction direction, size_t n) {
    return direction == Direction::to_device ? n : direction == Direction::to_host ? 0 : n / 2;
  }
  void begin_round(Direction direction, size_t n) {
    const size_t first = bytes_up(direction, n);
    round = next_round();
    put_on_host(first);
    put_pattern(device + first, n - first, round, first);
    spoil_device(0, first);
  }
  size_t wrong(Direction direction, size_t n) {
    const size_t first = bytes_up(direction, n);
    const size_t wrong = wrong_on_device(0, first);
    return wrong + (n > first ? wrong_on_host(first, n - first) : 0);
  }
};

/// A row's key begins with its kind of memory and ends with its way: "pinned_to_device".
const Memory& kind_of(const Ref& ref) {
  for (const Memory& kind : kinds)
    if (ref.key.starts_with(kind.key)) return kind;
  throw std::logic_error(ref.key + " names no memory");
}
Direction direction_of(const Ref& ref) {
  for (const Way& way : ways)
    if (ref.key.ends_with(way.key)) return way.direction;
  throw std::logic_error(ref.key + " names no direction");
}

Task copy_task(const Ref& ref, const Shared<Ends>& ends, size_t n) {
  if (&ends->host.kind() != &kind_of(ref)) throw std::logic_error(ref.key + " copies other memory");
  const Direction d = direction_of(ref);
  return {
      text(ref),
      [ends, d, n] { ends->copy(d, n); },
      {[ends, d, n] { ends->begin_round(d, n); }, [ends, d, n] { return ends->wrong(d, n); }, ""},
      true};
}
/// Eight times the same copy: the pattern must be there, and all eight must have ended.
Task queued_task(const Ref& ref, const Shared<Ends>& ends, size_t n) {
  Task task = copy_task(ref, ends, n);
  task.launch = [ends, n] { copy_queued(ends->device, ends->on_host, n, ends->up); };
  return task;
}

// ---- prediction ----

/// What a copy costs one way, from two calibration rows: the call, and the bytes.
struct Line {
  double setup_ms, gbs;

  /// From the times of a small copy, which is all call, and of a large one.
  Line(double small_ms, double large_bytes, double large_ms)
      : setup_ms(small_ms), gbs(large_bytes * 1e-6 / (large_ms - small_ms)) {}
  double ms(double bytes) const { return setup_ms + bytes * 1e-6 / gbs; }
  /// The size at which the call takes as long as the bytes, and half of the rate is reached.
  double half_bytes() const { return setup_ms * gbs * 1e6; }
};
struct Lines {
  Line up, down;
};

/// Milliseconds of a copy. Both ways at once the slower half counts; pageable copies are staged by
/// one thread, one after the other.
double predicted_ms(Kind kind, Direction direction, double n, const Lines& c) {
  if (direction == Direction::to_device) return c.up.ms(n);
  if (direction == Direction::to_host) return c.down.ms(n);
  const double up = c.up.ms(n / 2), down = c.down.ms(n / 2);
  return kind == Kind::pageable ? up + down : std::max(up, down);
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

/// Bytes of the largest copies: on the GPU, and of the host's memory that it may pin.
size_t largest_copy(const Run& run) {
  const size_t by_default = (run.quick ? 32 : run.full ? 1024 : 512) * mib;
  return fitting_size("--size, pinned and on the GPU,", options_of(run).size, by_default,
                      std::min(run.memory_there(), pinnable_bytes(run)),
                      [](size_t n) { return double(n); });
}
Sizes sizes_of(const Run& run) { return sizes_of(largest_copy(run), run.quick, run.full); }
/// Of the texts' pair: six groups of larger copies would take long, and show the same rates.
size_t judged_copy(const Run& run) { return std::min(largest_copy(run), 256 * mib); }
size_t piece_of(const Run& run) { return std::min(largest_copy(run), 64 * mib); }

std::string key_of(const Memory& kind, const Way& way) {
  return std::string(kind.key) + "_" + way.key;
}

/// Most that this card's link carries; not a number where it is not told.
double ask_link(const Run& run) {
  return ask(run, "link", "limit", "GB/s", [&run] { return single(link_gbs(run.device->prop)); })
      .median;
}
/// More than the link carries was not waited for. A made-up GPU has no link.
void require_within_link(const Run& run, const Ref& ref, double limit_gbs) {
  if (!run.device || run.device->number < 0) return;
  const Measured& row = (*run.results)(ref);
  require_possible(text(ref), row.bytes * 1e-6 / row.time.ms.median, limit_gbs);
}

/// Whether the system gives such memory at all; why not, else nothing.
std::string why_refused(const Run& run, const Memory& kind) {
  const Statistics granted = ask(run, kind.key, "granted", "", [&kind] {
    try {
      const HostMemory memory(kind, 4 * kib);
      return single(1);
    } catch (const CudaError& refused) {
      if (refused.code == cudaErrorNotSupported || refused.code == cudaErrorNotPermitted)
        return single(0);
      throw;
    }
  });
  return granted.median == 0 ? "the system refuses such memory" : "";
}

std::vector<Shown> columns() { return {gigabytes_per_second(2), spread()}; }

/// The constants come from the rows of `kind`.
Lines lines_of(const Run& run, const Memory& kind) {
  const Sizes sizes = sizes_of(run);
  const auto line = [&](const Way& way) {
    const auto ms = [&](size_t n) {
      return (*run.results)({key_of(kind, way), double(n)}).time.ms.median;
    };
    return Line(ms(sizes.small), double(sizes.calibrating), ms(sizes.calibrating));
  };
  return {line(ways[0]), line(ways[1])};
}

/// All sizes and directions of one kind.
void measure_kind(const Run& run, const Memory& kind, double link) {
  const Sizes sizes = sizes_of(run);
  const bool own_model = kind.kind == Kind::pageable || kind.kind == Kind::pinned;
  const std::vector<size_t>& all = own_model ? sizes.all : sizes.some;
  const std::string refused = why_refused(run, kind);
  const Ref queue("pinned_queued_to_device", double(piece_of(run)));
  Sheet sheet(run, std::string(kind.words) + ", bytes", columns(), "bytes");
  // half of the rate is reached at about 0.4 MiB: above 2 MiB pinned copies rest on the link's rate
  const auto model = [&](size_t n) {
    if (kind.kind == Kind::pageable) return Model::host;
    return n > 2 * mib ? Model::traffic : Model::latency;
  };
  for (const Way& way : ways)
    for (const size_t n : all) {
      const bool both = way.direction == Direction::both_ways;
      // pageable both ways is staged one after the other: beyond 256 MiB more bytes show no more
      if (both && kind.kind == Kind::pageable && n > 256 * mib) continue;
      const bool ends = n == sizes.small || n == sizes.calibrating;
      sheet.add({.ref = {key_of(kind, way), double(n)},
                 .words = std::string(way.words) + ", " + bytes_text(double(n)),
                 .bytes = double(n),
                 .calibrates = own_model && ends && !both,
                 .model = model(n),
                 .missing = refused});
    }
  if (kind.kind == Kind::pinned)
    sheet.add({.ref = queue,
               .words = "to the device, 8 queued, " + bytes_text(queue.at),
               .bytes = queued * queue.at});
  SharedByTasks device([&] { return DeviceBuffer<Byte>(all.back()); });
  SharedByTasks memory([&] { return Ends(kind.kind, all.back(), device()); });
  sheet.measure(Timing::alone, [&](const Row& row) {
    const size_t n = size_t(row.ref.at);
    return same(row.ref, queue) ? queued_task(row.ref, memory(), n)
                                : copy_task(row.ref, memory(), n);
  });
  const Lines lines = lines_of(run, own_model ? kind : memory_of(Kind::pinned));
  sheet.predict([&](const Row& row) {
    if (same(row.ref, queue)) return lines.up.setup_ms + row.bytes * 1e-6 / lines.up.gbs;
    // beyond 16 MiB it counts whether the host's caches hold the bytes: no model
    if (kind.kind == Kind::pageable && row.bytes > large_copy) return double(NAN);
    return predicted_ms(kind.kind, direction_of(row.ref), row.bytes, lines);
  });
  sheet.print();
  if (kind.kind == Kind::pinned)
    run.report.note("half of the rate at " +
                    bytes_text(std::round(lines.up.half_bytes() / kib) * kib));
  for (const size_t n : all) require_within_link(run, {key_of(kind, ways[0]), double(n)}, link);
}

/// The texts' pair, where bytes alone count: pageable and pinned memory, both ways, in six groups.
void measure_judged(const Run& run) {
  const size_t n = judged_copy(run);
  SharedByTasks device([n] { return DeviceBuffer<Byte>(n); });
  SharedByTasks pageable([&] { return Ends(Kind::pageable, n, device()); });
  SharedByTasks pinned([&] { return Ends(Kind::pinned, n, device()); });
  Sheet sheet(run, "copies of " + bytes_text(double(n)), columns());
  for (const Kind kind : {Kind::pageable, Kind::pinned})
    for (const Way& way : {ways[0], ways[1]})
      sheet.add({.ref = key_of(memory_of(kind), way),
                 .words = std::string(memory_of(kind).words) + ", " + way.words,
                 .bytes = double(n)});
  sheet.measure(Timing::regrouped, [&](const Row& row) {
    return copy_task(row.ref, kind_of(row.ref).kind == Kind::pinned ? pinned() : pageable(), n);
  });
  sheet.print();
}

// ---- write-combined memory: as fast to copy, and to read? ----

/// Reads a word of each line of memory, more of them than the host's caches hold, so that whatever
/// is read next comes from memory.
class Evictor {
 public:
  explicit Evictor(bool quick) : words_(quick ? 128 * mib : bytes()) {}
  void operator()() {
    if (memory_.empty()) memory_.resize(words_ / sizeof(size_t), 1);
    size_t sum = 0;
    for (size_t i = 0; i < memory_.size(); i += 8) sum += memory_[i];
    if (sum != (memory_.size() + 7) / 8) throw WrongResult("the host's caches");
  }
  static size_t bytes() {
    const long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);  // 0 or less if it is not told
    return std::clamp(cache > 0 ? 2 * size_t(cache) : 0, 128 * mib, 256 * mib);
  }

 private:
  size_t words_;
  std::vector<size_t> memory_;
};

/// The host adds up what is in its memory of one kind.
struct HostReads {
  static constexpr size_t bytes = 4 * mib;  // enough, as where writes are combined reading is slow

  HostMemory memory;
  size_t count = bytes / sizeof(size_t);
  size_t sum = 0;

  explicit HostReads(Kind kind) : memory(memory_of(kind), bytes) {
    for (size_t i = 0; i < count && words(); ++i) words()[i] = i * i + 1;
  }
  size_t* words() const { return reinterpret_cast<size_t*>(memory.data()); }
  size_t right() const {  // of squares, and of ones
    const size_t n = count;
    return (n - 1) * n * (2 * n - 1) / 6 + n;
  }
};
Task read_task(const Ref& ref, const Shared<HostReads>& reads) {
  const auto add_up = [reads] {
    reads->sum = std::accumulate(reads->words(), reads->words() + reads->count, size_t(0));
  };
  return {
      text(ref),
      add_up,
      {[reads] { reads->sum = 0; }, [reads] { return size_t(reads->sum != reads->right()); }, ""},
      true};
}

/// Pinned and write-combined memory: copied, and read by the host with its caches emptied.
void measure_combined(const Run& run) {
  const size_t n = piece_of(run);
  const std::string refused =
      (*run.results)({"write_combined_to_device", double(sizes_of(run).some.back())}).missing;
  SharedByTasks device([n] { return DeviceBuffer<Byte>(n); });
  const auto add_rows = [&](Sheet& sheet, const char* what, double bytes) {
    for (const Kind kind : {Kind::pinned, Kind::write_combined})
      sheet.add({.ref = std::string(memory_of(kind).key) + what,
                 .words = memory_of(kind).words,
                 .bytes = bytes,
                 .missing = refused});
  };
  Sheet copies(run, bytes_text(double(n)) + " to the device", columns());
  add_rows(copies, "_piece_to_device", double(n));
  copies.measure(Timing::in_turn, [&](const Row& row) {
    return copy_task(row.ref, Shared(Ends(kind_of(row.ref).kind, n, device())), n);
  });
  copies.print();

  const Shared evict(Evictor(run.quick));
  Sheet reads(run, "the host reads " + bytes_text(double(HostReads::bytes)), columns());
  add_rows(reads, "_read", double(HostReads::bytes));
  reads.measure(Timing::in_turn, [&](const Row& row) {
    Task task = read_task(row.ref, Shared(HostReads(kind_of(row.ref).kind)));
    task.enter = [evict] { (*evict)(); };
    return task;
  });
  reads.print();
}

// ---- what pinning costs ----

/// Pins memory that exists, and unpins it: of the order of one copy that it saves.
void measure_registering(const Run& run) {
  const size_t n = piece_of(run);
  const auto per_gib = [n](const Row&, double ms) { return ms * 1024.0 * mib / double(n); };
  Sheet sheet(run, "pinning what exists",
              {in_unit(measured("ms/GiB", "registering", "ms/GiB", 1), per_gib), spread()});
  sheet.add(
      {.ref = "registering",
       .words = "registered and undone",
       .missing =
           (*run.results)({"registered_to_device", double(sizes_of(run).some.back())}).missing});
  sheet.measure(Timing::alone, [n](const Row& row) {
    const Shared memory(HostMemory(memory_of(Kind::pageable), n));
    const auto both = [memory, n] { const Registration brief(memory->data(), n); };
    return Task{text(row.ref), both, unchecked("nothing is computed"), true};
  });
  sheet.print();
}

/// The host's own work, while so many GiB are pinned: it takes 256 MiB, uses all of it and gives it
/// back.
Task host_work(const Ref& ref) {
  const auto work = [] {
    const std::unique_ptr<Byte[]> memory(new Byte[256 * mib]);
    for (size_t i = 0; i < 256 * mib; i += 4 * kib) memory[i] = Byte(i >> 12);
    if (memory[8 * kib] != 2) throw WrongResult("the host's own work");
  };
  Task task{text(ref), work, unchecked("it looks at its own memory"), true};
  const Shared taken(std::optional<PinnedBuffer<Byte>>{});
  task.enter = [taken, bytes = size_t(ref.at) * 1024 * mib] {
    if (bytes) taken->emplace(bytes);
  };
  task.leave = [taken] { taken->reset(); };
  return task;
}

void measure_excess(const Run& run) {
  Sheet sheet(run, "the host's own work, GiB pinned", {milliseconds(1), spread()}, "GiB pinned");
  for (const double gib : {0, 1, 2, 4}) {
    if (!run.full && gib != 0 && gib != 4) continue;
    const bool fits = gib * 1024 * mib <= pinnable_bytes(run);
    sheet.add(
        {.ref = {"host_work", gib}, .missing = fits ? "" : "a quarter of the host's free memory"});
  }
  sheet.measure(Timing::alone, [](const Row& row) { return host_work(row.ref); });
  sheet.print();
}

void run_transfer(const Run& run) {
  const size_t largest = largest_copy(run);
  run.report.begin("transfer", "copies of up to " + bytes_text(double(largest)) + " (" +
                                   std::to_string(largest) + " bytes); both ways: half each way");
  Table links(run.report, "16 lanes", {predicted("GB/s each way", "limit", "GB/s", 1)});
  for (int g = 1; g <= 6; ++g)
    links.row({"pcie_" + std::to_string(g), "", "", "PCIe " + std::to_string(g)},
              {link_gbs(g < 3 ? 2.5 * g : 1 << g, 16)});
  links.print();
  const double link = ask_link(run);
  if (run.device)
    run.report.note("this card's link: " + (link > 0 ? fixed(link, 1) + " GB/s each way at most"
                                                     : std::string("not told")));
  ask(run, "host", "virtual machine", "", [] { return single(!hypervisor().empty()); });
  for (const Memory& kind : kinds) measure_kind(run, kind, link);
  measure_judged(run);
  measure_combined(run);
  measure_registering(run);
  if (!run.quick) measure_excess(run);
}

// ---- claims ----

std::vector<Claim> claims(const Run& run) {
  const double n = double(judged_copy(run));
  const char* const small = n < 64 * mib ? "of copies under 64 MiB the call is a part" : "";
  const double virtual_machine = run.results->value("host", "virtual machine").value.median;
  const char* const its_mapping =
      !run.device            ? ""
      : virtual_machine == 0 ? ""
      : virtual_machine == 1
          ? "on a virtual machine its mapping decides"
          : "whether this is a virtual machine, whose mapping decides, is not known";
  return {
      {.part = {"02.2a", "pinned memory is copied to the device much faster than pageable",
                "much higher bandwidth", "the wiki"},
       .rule = much_beats(),
       .pairs = {{.slow = "pageable_to_device", .fast = "pinned_to_device"}},
       .here = bytes_text(n),
       .unless = small},
      {.part = {"02.2b", "and back from the device", "much higher bandwidth", "the wiki"},
       .rule = much_beats(),
       .pairs = {{.slow = "pageable_to_host", .fast = "pinned_to_host"}},
       .here = bytes_text(n),
       .unless = small},
      {.part = {"02.3a", "on some systems write-combined memory transfers faster",
                "on some systems", "the wiki"},
       .rule = beats(),
       .pairs = {{.slow = "pinned_piece_to_device", .fast = "write_combined_piece_to_device"}},
       .some = true,
       .unless = its_mapping},
      {.part = {"02.3b", "most hosts read write-combined memory slowly", "by most hosts",
                "the wiki"},
       .rule = much_beats(),
       .pairs = {{.slow = "write_combined_read", .fast = "pinned_read"}},
       .some = true,
       .unless = its_mapping},
      // the study names no memory: what a program has anyway is pageable
      {.part = {"02.9", "a card is read back at about 1 GB/s", "about 1 GB/s", "8800 GTX", g80},
       .rule = about(1),
       .levels = {{.ref = "pageable_to_host",
                   .metric = "to pageable memory",
                   .of_ms = [n](double ms) { return n * 1e-6 / ms; },
                   .unit = "GB/s"}},
       .unless = small},
  };
}

// ---- what it declares ----

Needs needs(const Run& run) { return {.allocated = double(largest_copy(run))}; }

std::vector<Checked> tasks(size_t n) {
  std::vector<Checked> all;
  for (const Memory& kind : kinds)
    for (const Way& way : ways) {
      const Shared ends(Ends(kind.kind, n, Shared(DeviceBuffer<Byte>(n))));
      const bool up = Ends::bytes_up(way.direction, n) > 0;
      all.push_back({.task = copy_task(key_of(kind, way), ends, n),
                     .elements = n,
                     .change_one = [ends, n, up] {
                       if (!up) return void(ends->on_host[n - 1] += 1);
                       Byte byte;
                       device_memory::to_host(&byte, ends->device, 1);
                       byte += 1;
                       device_memory::to_device(ends->device, &byte, 1);
                     }});
    }
  return all;
}

}  // namespace

extern const Experiment transfer_experiment{
    .name = "transfer",
    .about = "copies from and to each kind of host memory, over their size",
    .run = run_transfer,
    .check_typed = [](const Run& run) { largest_copy(run); },
    .claims = claims,
    .needs = needs,
    .tasks = tasks,
};
