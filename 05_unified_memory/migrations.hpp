// Counting what the driver does behind managed memory: transfers and page faults, read from CUPTI's
// unified-memory records inside the program. CUPTI is part of the toolkit and optional: without
// HAVE_CUPTI, or where it refuses at run time, migrations_uncounted_because() says which of the two
// it is. Nothing of CUPTI is called before the first count.
#pragma once

#include <chrono>
#include <mutex>
#include <thread>

#include "managed_memory.hpp"

/// Transfers in one direction.
struct Transfers {
  unsigned count = 0;
  double bytes = 0, least = 0, most = 0, ms = 0;

  void add(double size, double time) {
    least = count ? std::min(least, size) : size;
    most = std::max(most, size);
    ++count;
    bytes += size;
    ms += time;
  }
  double average() const { return count ? bytes / count : NAN; }
};

/// Something that the driver did, and when.
struct Happened {
  enum What { to_device, to_host, gpu_fault, cpu_fault } what;
  double from_us, to_us;  ///< since the first that is no fault of the host
  double bytes;           ///< of a transfer
};

/// What the driver did while something ran.
struct Migrations {
  Transfers to_device, to_host;
  unsigned fault_records = 0;  ///< records of GPU faults: each of a page, with the next two
  double fault_groups = 0;     ///< how often the driver served that page, with others; their sum
  double fault_ms = 0;         ///< from serving a fault to replaying the access; their sum
  unsigned cpu_faults = 0;
  std::vector<Happened> events;  ///< by their time
  bool lost = false;             ///< CUPTI says that it dropped records meanwhile
};

/// The driver manages memory in blocks of 2 MiB, and prefetches whole ones.
inline constexpr size_t block_bytes = 2 << 20;

/// Sorts events by time, and counts it from the first that is no fault of the host: writing the
/// inputs makes faults, too, long before anything moves.
inline void since_the_first(std::vector<Happened>& events) {
  std::sort(events.begin(), events.end(),
            [](const Happened& a, const Happened& b) { return a.from_us < b.from_us; });
  double first = events.empty() ? 0 : events.front().from_us;
  for (const Happened& each : events)
    if (each.what != Happened::cpu_fault) {
      first = each.from_us;
      break;
    }
  for (Happened& each : events) {
    each.from_us -= first;
    each.to_us -= first;
  }
}

#ifdef HAVE_CUPTI
#include <cupti.h>

namespace cupti_records {

#if CUDART_VERSION >= 12080
using CuptiRecord = CUpti_ActivityUnifiedMemoryCounter3;
#else
using CuptiRecord = CUpti_ActivityUnifiedMemoryCounter2;
#endif

/// What is kept of one.
struct Record {
  CUpti_ActivityUnifiedMemoryCounterKind kind;
  uint64_t value, start, end;
};

inline std::mutex guard;  // CUPTI may hand buffers back from a thread of its own
inline std::vector<Record> seen;
inline size_t dropped = 0;  ///< records, since the program began

/// Adds up the records that began between two times.
inline Migrations sum_of(const std::vector<Record>& records, uint64_t begin, uint64_t end) {
  Migrations sum;
  for (const Record& record : records) {
    if (record.start <= begin || record.start >= end) continue;
    const double value = double(record.value);
    const bool lasts = record.end > record.start;
    const double ms = lasts ? double(record.end - record.start) * 1e-6 : 0;
    Happened event{Happened::cpu_fault, double(record.start - begin) * 1e-3, 0, 0};
    event.to_us = event.from_us + ms * 1e3;
    switch (record.kind) {
      case CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_HTOD:
        sum.to_device.add(value, ms);
        event.what = Happened::to_device;
        event.bytes = value;
        break;
      case CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_DTOH:
        sum.to_host.add(value, ms);
        event.what = Happened::to_host;
        event.bytes = value;
        break;
      case CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_GPU_PAGE_FAULT:
        ++sum.fault_records;
        sum.fault_groups += value;
        sum.fault_ms += ms;
        event.what = Happened::gpu_fault;
        break;
      case CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_CPU_PAGE_FAULT_COUNT:
        ++sum.cpu_faults;  // the value is the address of the instruction that faulted
        event.to_us = event.from_us;
        break;
      default:
        continue;
    }
    sum.events.push_back(event);
  }
  since_the_first(sum.events);
  return sum;
}

inline void CUPTIAPI give_buffer(uint8_t** buffer, size_t* size, size_t* most_records) {
  *size = size_t(1) << 20;
  *buffer = static_cast<uint8_t*>(
      std::aligned_alloc(8, *size));  // if there is none, CUPTI counts what it drops
  *most_records = 0;                  // as many as fit
}

inline void CUPTIAPI take_buffer(CUcontext context, uint32_t stream, uint8_t* buffer, size_t,
                                 size_t valid) {
  const std::lock_guard lock(guard);
  CUpti_Activity* record = nullptr;
  while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS)
    if (record->kind == CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER) {
      const auto& counter = *reinterpret_cast<const CuptiRecord*>(record);
      seen.push_back({counter.counterKind, counter.value, counter.start, counter.end});
    }
  size_t lost = 0;
  if (cuptiActivityGetNumDroppedRecords(context, stream, &lost) == CUPTI_SUCCESS) dropped += lost;
  std::free(buffer);
}

/// Begins to record; why not, if CUPTI refuses, else an empty string.
inline std::string start() {
  const auto refusal = [](CUptiResult result, const char* call) -> std::string {
    if (result == CUPTI_SUCCESS) return {};
    const char* name = nullptr;
    cuptiGetResultString(result, &name);
    return std::string("CUPTI refused ") + call + ": " + (name ? name : "unknown error");
  };
  static const CUptiResult registered = cuptiActivityRegisterCallbacks(give_buffer, take_buffer);
  CUpti_ActivityUnifiedMemoryCounterConfig counters[4] = {};
  const CUpti_ActivityUnifiedMemoryCounterKind kinds[4] = {
      CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_HTOD,
      CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_DTOH,
      CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_GPU_PAGE_FAULT,
      CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_CPU_PAGE_FAULT_COUNT};
  for (int i = 0; i < 4; ++i)
    counters[i] = {CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_SCOPE_PROCESS_SINGLE_DEVICE, kinds[i],
                   uint32_t(this_device()), 1};
  std::string why = refusal(registered, "callbacks");
  if (why.empty())
    why =
        refusal(cuptiActivityConfigureUnifiedMemoryCounter(counters, 4), "to count unified memory");
  if (why.empty())
    why = refusal(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER),
                  "to record unified memory");
  return why;
}

/// Ends recording and answers with all that was recorded.
inline std::vector<Record> stop() {
  cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  cuptiActivityDisable(CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER);
  cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  const std::lock_guard lock(guard);
  return std::exchange(seen, {});
}

/// Records dropped since the program began; takes what was recorded so far.
inline size_t dropped_by_now() {
  cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  const std::lock_guard lock(guard);
  return dropped;
}

/// Now, by the clock of the records, at least a millisecond from anything recorded before and
/// after: far more than the clocks of host and device, which CUPTI brings together, may differ by.
inline uint64_t moment_apart() {
  uint64_t now = 0;
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
  cuptiGetTimestamp(&now);
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return now;
}

}  // namespace cupti_records

/// Records what the driver does, and tells pieces of work apart by the times between which they
/// ran: to begin and to end a recording takes longer than most of them. Only where
/// migrations_uncounted_because() is empty.
class MigrationRecording {
 public:
  MigrationRecording() = default;
  MigrationRecording(const MigrationRecording&) = delete;
  ~MigrationRecording() {
    if (!ended_) cupti_records::stop();
  }

  const std::string& refused() const { return refused_; }  ///< why, if CUPTI records nothing

  /// Runs `work()` and waits for it.
  template <class Work>
  void count(Work&& work) {
    Piece piece;
    piece.begin = cupti_records::moment_apart();
    work();
    wait_for_device();
    piece.end = cupti_records::moment_apart();
    piece.dropped = cupti_records::dropped_by_now();
    pieces_.push_back(piece);
  }
  /// Ends the recording: what the driver did during each piece of work, in their order. Records
  /// that were dropped cost the piece during which they were; those that nobody noticed before the
  /// end, the last one.
  std::vector<Migrations> end() {
    ended_ = true;
    const std::vector<cupti_records::Record> records = cupti_records::stop();
    if (!refused_.empty()) throw std::runtime_error(refused_);
    if (!pieces_.empty()) pieces_.back().dropped = cupti_records::dropped_by_now();
    size_t before = dropped_before_;
    std::vector<Migrations> sums;
    for (const Piece& piece : pieces_) {
      sums.push_back(cupti_records::sum_of(records, piece.begin, piece.end));
      sums.back().lost = piece.dropped > before;
      before = piece.dropped;
    }
    return sums;
  }

 private:
  struct Piece {
    uint64_t begin = 0, end = 0;
    size_t dropped = 0;  ///< records dropped until its end
  };
  const std::string refused_ = cupti_records::start();
  const size_t dropped_before_ = cupti_records::dropped;
  std::vector<Piece> pieces_;
  bool ended_ = false;
};

#else
/// Stands in where CUPTI was not there at build time: migrations_uncounted_because() says so, and
/// nobody records.
struct MigrationRecording {
  template <class Work>
  void count(Work&& work) {
    work();
  }
  std::vector<Migrations> end() { return {}; }
};
#endif

/// Why migrations cannot be counted here, in a line; empty if they can, which has then been tried.
inline const std::string& migrations_uncounted_because() {
  static const std::string why = []() -> std::string {
#ifdef HAVE_CUPTI
    if (!pages_on_demand()) return "no faults to count: " + managed_memory_text();
    if (device_attribute(cudaDevAttrPageableMemoryAccessUsesHostPageTables))
      return "no pages need to move: this device reads them through the host's page tables";
    // the first recording of a process misses what happens within milliseconds of its begin; the
    // next ones do not
    for (int attempt = 0; attempt < 3; ++attempt) {
      const Managed<int> touched(
          1 << 20);  // the device writes it first: then a host that reads it must fault
      CUDA_CHECK(cudaMemset(touched.data(), 1, touched.bytes()));
      wait_for_device();
      MigrationRecording recording;
      if (!recording.refused().empty()) return recording.refused();
      recording.count([&] { *static_cast<volatile int*>(touched.data()); });
      if (recording.end()[0].cpu_faults > 0) return "";
    }
    return "CUPTI agreed to count, but recorded nothing of a page fault made for it";
#else
    return "this build is without CUPTI, which CMake links where it is found and SAMPLES_CUPTI is "
           "not OFF";
#endif
  }();
  return why;
}
