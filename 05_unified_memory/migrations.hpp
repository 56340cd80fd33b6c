// What the driver does behind managed memory: the records that nvprof printed of a program, counted
// inside the program, of each run of a piece of work.
//
// The records come from CUPTI, as nvprof's did. CUPTI hands them over in buffers, some time later:
// so each run notes when it began and ended, and in the end the records between are added up. CMake
// finds CUPTI; for a line of nvcc: -DHAVE_CUPTI -lcupti, and the folder of cupti.h.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#ifdef HAVE_CUPTI
#include <cupti.h>

#include <chrono>
#include <cstdlib>
#include <mutex>
#include <thread>
#endif

#include "../common/arrays.cuh"
#include "../common/sample.hpp"

enum What { to_device, to_host, fault_groups, cpu_faults };

/// A line of nvprof's table.
struct Line {
  double count = 0, bytes = 0, least = 0, most = 0, ms = 0;
};

/// A line of nvprof's trace. The host's faults have no end.
struct Record {
  What what;
  double value;         ///< bytes; of a page's fault on the GPU, how many groups it was part of
  uint64_t begin, end;  ///< nanoseconds
};

/// One run's table and trace.
struct Migrations {
  std::array<Line, 4> lines = {};
  std::vector<Record> records = {};
  const Line& operator[](What what) const { return lines[what]; }
};

/// All runs, by the names of the work; or what is missing, and no run.
struct Counted {
  std::string missing;
  std::map<std::string, std::vector<Migrations>> runs = {};
};

inline double bytes_moved(const Migrations& run) {
  return run[to_device].bytes + run[to_host].bytes;
}
/// CUPTI loses records: of several runs the one with most bytes, and of those with most records.
inline const Migrations& fullest(const std::vector<Migrations>& runs) {
  return *std::max_element(runs.begin(), runs.end(), [](const auto& a, const auto& b) {
    return std::pair(bytes_moved(a), a.records.size()) <
           std::pair(bytes_moved(b), b.records.size());
  });
}
/// In how many of several equal runs CUPTI has fewer bytes than in another: it has lost records.
inline size_t runs_with_fewer_bytes(const std::vector<Migrations>& runs) {
  if (runs.empty()) return 0;
  const double most = bytes_moved(fullest(runs));
  return size_t(std::count_if(runs.begin(), runs.end(),
                              [&](const Migrations& run) { return bytes_moved(run) < most; }));
}

/// Counts from the beginning of benchmark.before to the end of benchmark.work, in turn. Throws
/// WrongResult.
inline Counted count_migrations(const std::vector<Benchmark>& benchmarks, int rounds);

// ---- how ----

/// Of the records that began from `begin` on and before `end`.
inline Migrations added_up(const std::vector<Record>& records, uint64_t begin, uint64_t end) {
  Migrations sum;
  for (const Record& record : records) {
    if (record.begin < begin || record.begin >= end) continue;
    sum.records.push_back(record);
    Line& line = sum.lines[record.what];
    if (record.what == to_device || record.what == to_host) {
      line.least = line.count > 0 ? std::min(line.least, record.value) : record.value;
      line.most = std::max(line.most, record.value);
      line.bytes += record.value;
    }
    line.count += record.what == fault_groups ? record.value : 1;
    if (record.end > record.begin) line.ms += double(record.end - record.begin) * 1e-6;
  }
  return sum;
}

#ifdef HAVE_CUPTI
namespace cupti_records {

constexpr CUpti_ActivityKind migration = CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER;
constexpr CUpti_ActivityUnifiedMemoryCounterKind kind_of[] = {
    CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_HTOD,   // to_device
    CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_DTOH,   // to_host
    CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_GPU_PAGE_FAULT,        // fault_groups
    CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_CPU_PAGE_FAULT_COUNT,  // cpu_faults
};
#if CUDART_VERSION >= 12080
using CuptiRecord = CUpti_ActivityUnifiedMemoryCounter3;
#else
using CuptiRecord = CUpti_ActivityUnifiedMemoryCounter2;
#endif

inline std::mutex guard;  // CUPTI may hand buffers over from a thread of its own
inline std::vector<Record> records;
inline size_t dropped = 0;

inline void CUPTIAPI give_buffer(uint8_t** buffer, size_t* size, size_t* most_records) {
  *size = size_t(1) << 20;
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(8, *size));
  *most_records = 0;  // as many as fit
}

inline void CUPTIAPI take_buffer(CUcontext context, uint32_t stream, uint8_t* buffer, size_t,
                                 size_t valid) {
  const std::lock_guard lock(guard);
  CUpti_Activity* activity = nullptr;
  while (cuptiActivityGetNextRecord(buffer, valid, &activity) == CUPTI_SUCCESS) {
    if (activity->kind != migration) continue;
    const auto& record = *reinterpret_cast<const CuptiRecord*>(activity);
    for (const What what : {to_device, to_host, fault_groups, cpu_faults})
      if (record.counterKind == kind_of[what])
        records.push_back(
            {what, double(record.value), record.start, what == cpu_faults ? 0 : record.end});
  }
  size_t lost = 0;
  if (cuptiActivityGetNumDroppedRecords(context, stream, &lost) == CUPTI_SUCCESS) dropped += lost;
  std::free(buffer);
}

/// Begins to record: what CUPTI answers.
inline CUptiResult start() {
  static const CUptiResult registered = cuptiActivityRegisterCallbacks(give_buffer, take_buffer);
  if (registered != CUPTI_SUCCESS) return registered;
  int device = 0;
  CUDA_CHECK(cudaGetDevice(&device));
  CUDA_CHECK(cudaDeviceSynchronize());  // now there is a context, which CUPTI wants
  CUpti_ActivityUnifiedMemoryCounterConfig counters[4];
  for (int i = 0; i < 4; ++i)
    counters[i] = {CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_SCOPE_PROCESS_SINGLE_DEVICE, kind_of[i],
                   uint32_t(device), 1};
  const CUptiResult configured = cuptiActivityConfigureUnifiedMemoryCounter(counters, 4);
  return configured != CUPTI_SUCCESS ? configured : cuptiActivityEnable(migration);
}

inline void stop() {
  cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  cuptiActivityDisable(migration);
  cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
}

/// Now, by the records' clock, with a millisecond to either side: more than clocks differ by.
inline uint64_t now() {
  uint64_t time = 0;
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
  cuptiGetTimestamp(&time);
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return time;
}

}  // namespace cupti_records

inline Counted count_migrations(const std::vector<Benchmark>& benchmarks, int rounds) {
  using namespace cupti_records;
  records.clear();
  dropped = 0;
  if (const CUptiResult refused = start(); refused != CUPTI_SUCCESS) {
    const char* why = "";
    cuptiGetResultString(refused, &why);
    return {"CUPTI does not count: " + std::string(why)};
  }
  std::shared_ptr<void> recording(nullptr, [](void*) { stop(); });  // even if a run throws
  struct Span {
    std::string work;
    uint64_t begin, end;
  };
  std::vector<Span> spans;
  // Round -1 does not count: CUPTI misses a part of what happens just after it began.
  for (int round = -1; round < rounds; ++round)
    for (const Benchmark& benchmark : benchmarks) {
      const uint64_t begin = now();
      if (benchmark.before) benchmark.before();
      benchmark.work();
      CUDA_CHECK(cudaDeviceSynchronize());
      const uint64_t end = now();
      if (const std::string find_error = benchmark.check.find_error(); !find_error.empty())
        throw WrongResult(benchmark.name + ": " + find_error);
      if (round >= 0) spans.push_back({benchmark.name, begin, end});
    }
  recording.reset();
  const std::lock_guard lock(guard);
  if (dropped > 0) return {"CUPTI dropped records"};
  Counted counted;
  for (const auto& [work, begin, end] : spans)
    counted.runs[work].push_back(added_up(records, begin, end));
  return counted;
}

#else
inline Counted count_migrations(const std::vector<Benchmark>&, int) {
  return {"this program was built without CUPTI"};
}
#endif

TEST_CASE("migrations: records between two times are added up") {
  const Migrations sum = added_up({{to_device, 4096, 900, 950},  // before
                                   {to_device, 61440, 1000, 2'001'000},
                                   {to_device, 4096, 1500, 1'001'500},
                                   {fault_groups, 7, 2000, 502'000},  // a page in seven groups
                                   {fault_groups, 1, 3000, 503'000},
                                   {cpu_faults, 0xabc, 2500, 0},  // an address, and no end
                                   {to_host, 8192, 4000, 4100}},  // behind
                                  1000, 4000);
  const Line& moved = sum[to_device];
  CHECK(moved.count == 2);
  CHECK(moved.bytes == 65536);
  CHECK(moved.least == 4096);
  CHECK(moved.most == 61440);
  CHECK(moved.ms == doctest::Approx(3));
  CHECK(sum[fault_groups].count == 8);
  CHECK(sum[fault_groups].ms == doctest::Approx(1));
  CHECK(sum[cpu_faults].count == 1);
  CHECK(sum[cpu_faults].ms == 0);
  CHECK(sum[to_host].count == 0);
}

TEST_CASE("migrations: the fullest of several runs, and how many lost bytes") {
  const Record first{to_device, 4096, 10, 20}, second{to_host, 8192, 30, 40};
  const std::vector<Migrations> runs = {added_up({second}, 0, 100),
                                        added_up({first, second}, 0, 100),
                                        added_up({first, second}, 0, 100)};
  CHECK(fullest(runs).records.size() == 2);
  CHECK(runs_with_fewer_bytes(runs) == 1);
  CHECK(runs_with_fewer_bytes({runs[1], runs[2]}) == 0);
}
