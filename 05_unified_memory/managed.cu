// managed: the same pointer on both sides, and pages that move to whoever touches them. The wiki
// adds two arrays in managed memory, warns that the host must wait before it looks [LC 2], and ends
// by saying that pages which move on demand never beat bulk copies or prefetches [LC A]. Look at
// the times from host to host, and at what the host reads when it does not wait.
//   cmake -S 05_unified_memory -B build/managed -DEXPERIMENTS=managed
//   cmake --build build/managed && build/managed/05_unified_memory
//
//   1  sum_arrays            c = a + b, whatever memory the three lie in
//   2  add_to_shared_number  a variable that both sides name
//   3  write_late            writes after 20 ms, while the host reads
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "migrations.hpp"
#include "options.hpp"

namespace {

// ---- kernels ----

// [sum_arrays]
// A warp reads 32 neighbours of two arrays and writes 32 of a third. Nothing in it says where they
// lie: in device memory, in the host's, or wherever they were touched last.
__global__ void sum_arrays(float* c, const float* a, const float* b, size_t n) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}
// [/sum_arrays]

__managed__ int shared_number;  // in global scope, as a __device__ variable; the host names it too

// One thread adds to the variable that the host set.
__global__ void add_to_shared_number(int x) { shared_number += x; }

// One thread waits `ns` nanoseconds by the device's timer, then writes.
__global__ void write_late(int* value, int written, unsigned long long ns) {
  unsigned long long start, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (now - start < ns);
  *value = written;
}

// One thread reads and writes a number of the host's own, on its stack or from malloc.
__global__ void add_to_number(int* number, int x) { *number += x; }

// ---- what is right: integers of 13 bits, whose sums are exact ----

float input_a(size_t i) { return float(i % 8191) + 1; }
float input_b(size_t i) { return float(i % 127) - 63; }

void write_inputs(float* a, float* b, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    a[i] = input_a(i);
    b[i] = input_b(i);
  }
}

size_t wrong_sums(const float* c, size_t n) {
  size_t wrong = 0;
  for (size_t i = 0; i < n; ++i) {
    const float right = float(int(i % 8191) + 1 + int(i % 127) - 63);
    wrong += !(c[i] == right);
  }
  return wrong;
}

void poison(float* c, size_t n) { std::memset(c, 0xff, n * sizeof(float)); }

// ---- the ways, each from inputs on the host to the sums there ----

void launch(float* c, const float* a, const float* b, size_t n) {
  constexpr int threads = 256;
  sum_arrays<<<unsigned((n + threads - 1) / threads), threads>>>(c, a, b, n);
  CUDA_CHECK_LAUNCH();
}

struct OnDevice {
  DeviceBuffer<float> a, b, c;
  explicit OnDevice(size_t n) : a(n), b(n), c(n) {}
};

// [ways]
/// Explicit copies, from and to host memory of any kind.
void add_by_copies(const OnDevice& d, float* c, const float* a, const float* b, size_t n) {
  CUDA_CHECK(cudaMemcpy(d.a.data(), a, n * sizeof(float), cudaMemcpyHostToDevice));
  CUDA_CHECK(cudaMemcpy(d.b.data(), b, n * sizeof(float), cudaMemcpyHostToDevice));
  launch(d.c.data(), d.a.data(), d.b.data(), n);
  CUDA_CHECK(cudaMemcpy(c, d.c.data(), n * sizeof(float), cudaMemcpyDeviceToHost));
}

/// The kernel takes the pointers as they are: in pinned memory its loads and stores cross the bus,
/// in managed memory the pages come.
void add_in_place(float* c, const float* a, const float* b, size_t n) {
  launch(c, a, b, n);
  wait_for_device();
  read_every_page(c, n);
}

void add_prefetched(const Managed<float>& c, const Managed<float>& a, const Managed<float>& b) {
  a.prefetch(this_device());
  b.prefetch(this_device());
  c.prefetch(this_device());
  launch(c.data(), a.data(), b.data(), c.size());
  c.prefetch(cudaCpuDeviceId);
  wait_for_device();
  read_every_page(c.data(), c.size());
}
// [/ways]

enum Way {
  pageable,
  pinned,
  zero_copy,
  on_demand,
  prefetched,
  mixed,
  of_malloc,
  prefetch_there,
  prefetch_back,
  host_copy,
  way_count
};
const char* const way_names[way_count] = {"copies, pageable host memory",
                                          "copies, pinned host memory",
                                          "zero-copy",
                                          "managed, on demand",
                                          "managed, prefetched",
                                          "managed a; b and c of cudaMalloc",
                                          "memory of malloc",
                                          "one prefetch to the device",
                                          "one prefetch to the host",
                                          "the host's own copy of one array"};

/// All the memory that the ways need, and the ways.
struct Memory {
  size_t n;
  OnDevice device;
  std::vector<float> a, b, c;
  PinnedBuffer<float> pinned_a, pinned_b, pinned_c;
  Managed<float> managed_a, managed_b, managed_c;

  explicit Memory(size_t n)
      : n(n),
        device(n),
        a(n),
        b(n),
        c(n),
        pinned_a(n),
        pinned_b(n),
        pinned_c(n),
        managed_a(has_managed_memory() ? n : 0),
        managed_b(has_managed_memory() ? n : 0),
        managed_c(has_managed_memory() ? n : 0) {
    write_inputs(a.data(), b.data(), n);
    write_inputs(pinned_a.data(), pinned_b.data(), n);
    if (managed_a.size()) write_inputs(managed_a.data(), managed_b.data(), n);
    device.b.copy_from(b);
  }

  bool has(int way) const {
    if (way == on_demand || way == mixed) return has_managed_memory();
    if (way == of_malloc) return reads_pageable_memory();
    if (way == prefetched || way == prefetch_there || way == prefetch_back)
      return has_managed_memory() && pages_on_demand();
    return true;
  }
  /// Puts the pages back to the host; where they only move at launches, the host's touch does it.
  void managed_to_host() const {
    if (pages_on_demand())
      for (const Managed<float>* each : {&managed_a, &managed_b, &managed_c})
        each->prefetch(cudaCpuDeviceId);
    wait_for_device();
  }
  Prepared prepared(int way);
  float* result(int way) {
    if (way == pageable || way == of_malloc) return c.data();
    if (way == pinned || way == zero_copy) return pinned_c.data();
    return managed_c.data();
  }
};

/// One way as it is measured. Those that add nothing are calibrations, and have no sum to check.
Prepared Memory::prepared(int way) {
  Prepared p{way_names[way], [] {}, [] {}, {}, [] { return size_t(0); }};
  switch (way) {
    case pageable:
      p.work = [this] { add_by_copies(device, c.data(), a.data(), b.data(), n); };
      break;
    case pinned:
      p.work = [this] {
        add_by_copies(device, pinned_c.data(), pinned_a.data(), pinned_b.data(), n);
      };
      break;
    case zero_copy:
      p.work = [this] { add_in_place(pinned_c.data(), pinned_a.data(), pinned_b.data(), n); };
      break;
    case on_demand:
      p.prepare = [this] { managed_to_host(); };
      p.work = [this] { add_in_place(managed_c.data(), managed_a.data(), managed_b.data(), n); };
      break;
    case prefetched:
      p.prepare = [this] { managed_to_host(); };
      p.work = [this] { add_prefetched(managed_c, managed_a, managed_b); };
      break;
    case mixed:  // the sums stay on the device: what it takes more than a launch is one array
      p.poison = [this] { device.c.poison(); };
      p.prepare = [this] { managed_to_host(); };
      p.work = [this] {
        launch(device.c.data(), managed_a.data(), device.b.data(), n);
        wait_for_device();
      };
      p.wrong = [this] { return wrong_sums(device.c.to_host().data(), n); };
      return p;
    case of_malloc:
      p.work = [this] { add_in_place(c.data(), a.data(), b.data(), n); };
      break;
    case prefetch_there:
      p.prepare = [this] { managed_to_host(); };
      p.work = [this] {
        managed_a.prefetch(this_device());
        wait_for_device();
      };
      return p;
    case prefetch_back:
      p.prepare = [this] {
        managed_c.prefetch(this_device());
        wait_for_device();
      };
      p.work = [this] {
        managed_c.prefetch(cudaCpuDeviceId);
        wait_for_device();
      };
      return p;
    default:
      p.work = [this] { std::memcpy(c.data(), a.data(), n * sizeof(float)); };
      return p;
  }
  p.poison = [this, way] { ::poison(result(way), n); };
  p.wrong = [this, way] { return wrong_sums(result(way), n); };
  return p;
}

// ---- what to expect ----

/// Milliseconds of the rows from which the others are predicted.
struct Costs {
  double pinned = NAN, host_copy = NAN, prefetch_there = NAN, prefetch_back = NAN;
  double one_on_demand = NAN;  ///< an array that comes on demand, with the kernel
};

double predicted_ms(int way, const Costs& c) {
  switch (way) {
    case pageable:  // the host puts all three arrays through pinned buffers
      return std::max(c.pinned, 3 * c.host_copy);
    case zero_copy:  // two arrays come in while the third goes out
      return c.pinned * 2 / 3;
    case on_demand:  // the driver cannot know that c's old values are not wanted; the sums return
      return 3 * c.one_on_demand + c.prefetch_back;
    case prefetched:
      return 3 * c.prefetch_there + c.prefetch_back;
    default:
      return NAN;
  }
}

bool calibrates(int way) {
  return way == pinned || way == mixed || way == prefetch_there || way == prefetch_back ||
         way == host_copy;
}

// ---- the experiment ----

using Times = std::vector<Readings>;

/// All ways that the device has, in turn; empty where it does not.
Times time_ways(const Run& run, size_t n) {
  Memory memory(n);
  std::vector<Prepared> all;
  std::vector<int> ways;
  for (int way = 0; way < way_count; ++way)
    if (memory.has(way)) {
      all.push_back(memory.prepared(way));
      ways.push_back(way);
    }
  const std::vector<Readings> took = prepared_in_turn(run.measuring, all);
  Times times(way_count);
  for (size_t i = 0; i < ways.size(); ++i) times[ways[i]] = took[i];
  return times;
}

/// Bytes of the arrays that a row moves at least.
double bytes_of(int way, double n) {
  const bool one =
      way == mixed || way == prefetch_there || way == prefetch_back || way == host_copy;
  return (one ? 1 : 3) * n * sizeof(float);
}

void show(const Run& run, const Times& times, size_t n) {
  const Costs costs{times[pinned].median(), times[host_copy].median(),
                    times[prefetch_there].median(), times[prefetch_back].median(),
                    times[mixed].median()};
  Table table(run.report, "way, from host to host",
              {compared("ms", "time", "ms", 3), shown("spread"),
               measured("GB/s", "rate", "GB/s", 1), shown("of pinned copies")});
  for (int way = 0; way < way_count; ++way) {
    if (times[way].ms.empty()) continue;
    const Statistics ms = times[way].statistics();
    const double model = predicted_ms(way, costs);
    const Model kind = way == zero_copy ? Model::traffic : Model::host;
    table.row(
        {way_names[way]},
        {calibrates(way) ? Cell(Calibration{ms}) : Cell(Compared{model, ms, kind}), spread_text(ms),
         gigabytes_per_second(bytes_of(way, double(n)), ms), ::times(ms.median / costs.pinned)});
  }
  table.print();
}

/// What the host read of a managed word around a kernel that writes it late.
struct LateWrite {
  int at_once, after_waiting;
  bool too_early;  ///< the kernel had not ended when the host read; false where launches wait
};

constexpr int old_value = 11, new_value = 22;

LateWrite read_without_waiting() {
  Managed<int> value(1);
  value[0] = old_value;
  write_late<<<1, 1>>>(value.data(), new_value, 20'000'000);  // 20 ms: the host needs microseconds
  CUDA_CHECK_LAUNCH();
  LateWrite read{};
  read.at_once = *static_cast<volatile int*>(value.data());
  const cudaError_t state = cudaStreamQuery(nullptr);
  if (state != cudaSuccess && state != cudaErrorNotReady) CUDA_CHECK(state);
  read.too_early = state == cudaErrorNotReady;
  wait_for_device();
  read.after_waiting = *static_cast<volatile int*>(value.data());
  return read;
}

int add_to_the_variable(int first) {
  shared_number = first;
  add_to_shared_number<<<1, 1>>>(2);
  CUDA_CHECK_LAUNCH();
  wait_for_device();
  return shared_number;
}

/// The kernel adds to a number on this function's stack. Only where reads_pageable_memory().
int add_on_the_stack(int first) {
  volatile int number = first;
  add_to_number<<<1, 1>>>(const_cast<int*>(&number), 2);
  CUDA_CHECK_LAUNCH();
  wait_for_device();
  return number;
}

// ---- the claims ----

const Part copies_part{"05.4a", "pages that move on demand do not beat bulk copies", "", "wiki"};
const Part prefetches_part{"05.4b", "pages that move on demand do not beat prefetches", "", "wiki"};
const Part wait_part{"05.5", "the host must wait before it touches managed memory", "", "wiki"};

/// `large`: the text speaks of large regions.
void judge_bulk(const Run& run, const Times& times, bool large) {
  const auto of = [&](int way) {
    return large ? ratio(times[way], times[on_demand])
                 : not_measured("the arrays are not large in this run");
  };
  const auto here = [](const Interval& r, const char* than) {
    return "pages on demand are " + faster(r, than);
  };
  const Interval copies = of(pinned);
  run.report.judge(copies_part, gains_nothing(), copies, here(copies, "pinned copies"));
  const Interval others = of(pageable);
  if (others.measured()) run.report.finding("05.4a", here(others, "copies of pageable memory"));
  const Interval prefetches = of(prefetched);
  run.report.judge(prefetches_part, gains_nothing(), prefetches, here(prefetches, "prefetches"));
}

void judge_wait(const Run& run) {
  const LateWrite read = read_without_waiting();
  require_right(read.after_waiting == new_value, "write_late");
  if (!read.too_early)
    return run.report.not_judged(wait_part, "the kernel had ended when the host looked");
  run.report.judge_fact(wait_part, read.at_once == old_value,
                        "the kernel writes " + std::to_string(new_value) + ", the host read " +
                            std::to_string(read.at_once) + " at once, " +
                            std::to_string(read.after_waiting) + " after waiting");
}

void judge_nothing(const Run& run, const std::string& why) {
  for (const Part& part : {wait_part, copies_part, prefetches_part})
    run.report.not_judged(part, why);
}

void say_where_it_lies(const Run& run) {
  run.report.note(managed_memory_text());
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  int devices = 0;
  CUDA_CHECK(cudaGetDeviceCount(&devices));
  run.report.note("CUDA_VISIBLE_DEVICES is " +
                  (visible ? std::string("'") + visible + "'" : std::string("not set")) +
                  ", GPUs visible: " + std::to_string(devices) +
                  (pages_on_demand()
                       ? "; pages move to whichever touches them, so hiding one changes no place"
                       : "; with several that are no peers, managed memory stays on the host"));
}

size_t elements_of(const Run& run, size_t typed) {
  const size_t by_default = size_t(1) << (run.quick ? 20 : run.full ? 25 : 23);
  return fitting_elements(run, typed, by_default, 12, 24);  // three arrays, twice
}

}  // namespace

void managed_fits(const Run& run, const Options& options) { elements_of(run, options.size); }

void managed(const Run& run, const Options& options) {
  const size_t n = elements_of(run, options.size);
  run.report.begin("managed", "c = a + b, three arrays of " + std::to_string(n) + " floats, " +
                                  bytes_text(double(n) * sizeof(float)) + " each");
  if (!run.device) {
    run.report.left_out("all ways of adding");
    return judge_nothing(run, "no GPU");
  }
  say_where_it_lies(run);
  const Times times = time_ways(run, n);
  show(run, times, n);
  if (!reads_pageable_memory())
    run.report.left_out("memory of malloc and the stack in a kernel",
                        "cudaDevAttrPageableMemoryAccess is 0 here");
  else
    run.report.note("a number on the host's stack: 40, and after a kernel " +
                    std::to_string(add_on_the_stack(40)));
  if (!has_managed_memory()) return judge_nothing(run, "no managed memory");
  require_right(add_to_the_variable(40) == 42, "the __managed__ variable");
  run.report.note("__managed__ variable: the host wrote 40, a kernel added 2, the host read 42");
  if (!pages_on_demand()) return judge_nothing(run, "pages do not move on demand here");
  judge_wait(run);
  // 32 MiB: sixteen of the largest pieces that the driver moves at once
  judge_bulk(run, times, double(n) * sizeof(float) >= double(32 << 20));
}
