// managed: the same pointer on both sides, and pages that move to whoever touches them. The wiki
// adds two arrays in managed memory, warns that the host must wait before it looks [LC 2], and ends
// by saying that pages which move on demand never beat bulk copies or prefetches [LC A]. Two things
// to look at:
//   - The times from host to host.
//   - What the host reads when it does not wait.
//
//   cmake -S 05_unified_memory -B build/managed -DEXPERIMENTS=managed
//   cmake --build build/managed && build/managed/05_unified_memory
//
//   1  sum_arrays            c = a + b, whatever memory the three lie in
//   2  add_to_shared_number  a variable that both sides name
//   3  write_late            writes after 20 ms, while the host reads
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "managed_memory.hpp"
#include "options.hpp"

using namespace samples;

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

// ---- the rows ----

/// All the memory that the ways need.
struct Memory {
  size_t n;
  OnDevice device;
  std::vector<float> a, b, c;
  PinnedBuffer<float> pinned_a, pinned_b, pinned_c;
  Managed<float> managed_a, managed_b, managed_c;

  Memory(size_t n, bool managed)
      : n(n),
        device(n),
        a(n),
        b(n),
        c(n),
        pinned_a(n),
        pinned_b(n),
        pinned_c(n),
        managed_a(managed ? n : 0),
        managed_b(managed ? n : 0),
        managed_c(managed ? n : 0) {
    if (device_memory::Pretence::stands()) return;
    write_inputs(a.data(), b.data(), n);
    write_inputs(pinned_a.data(), pinned_b.data(), n);
    if (managed) write_inputs(managed_a.data(), managed_b.data(), n);
    device.b.copy_from(b);
  }
  /// Puts the pages back to the host; where they only move at launches, the host's touch does it.
  void managed_to_host() const {
    if (pages_on_demand())
      for (const Managed<float>* each : {&managed_a, &managed_b, &managed_c})
        each->prefetch(cudaCpuDeviceId);
    wait_for_device();
  }
};

/// What a way needs of the device.
enum class Wants { nothing, managed, on_demand, pageable };

struct Way {
  const char *key, *words;
  Wants wants;
  void (*work)(Memory&);
  float* (*result)(Memory&);           ///< where the sums are on the host; null: elsewhere, or none
  void (*prepare)(Memory&) = nullptr;  ///< puts the pages where the work finds them; not timed
  int arrays = 3;                      ///< that it moves at least
};

void to_host(Memory& m) { m.managed_to_host(); }
float* managed_sums(Memory& m) { return m.managed_c.data(); }
float* pinned_sums(Memory& m) { return m.pinned_c.data(); }
float* plain_sums(Memory& m) { return m.c.data(); }

const Way ways[] = {
    {"pageable_copies", "copies, pageable host memory", Wants::nothing,
     [](Memory& m) { add_by_copies(m.device, m.c.data(), m.a.data(), m.b.data(), m.n); },
     plain_sums},
    {"pinned_copies", "copies, pinned host memory", Wants::nothing,
     [](Memory& m) {
       add_by_copies(m.device, m.pinned_c.data(), m.pinned_a.data(), m.pinned_b.data(), m.n);
     },
     pinned_sums},
    {"zero_copy", "zero-copy", Wants::nothing,
     [](Memory& m) { add_in_place(m.pinned_c.data(), m.pinned_a.data(), m.pinned_b.data(), m.n); },
     pinned_sums},
    {"on_demand", "managed, on demand", Wants::managed,
     [](Memory& m) {
       add_in_place(m.managed_c.data(), m.managed_a.data(), m.managed_b.data(), m.n);
     },
     managed_sums, to_host},
    {"prefetched", "managed, prefetched", Wants::on_demand,
     [](Memory& m) { add_prefetched(m.managed_c, m.managed_a, m.managed_b); }, managed_sums,
     to_host},
    {"of_malloc", "memory of malloc", Wants::pageable,
     [](Memory& m) { add_in_place(m.c.data(), m.a.data(), m.b.data(), m.n); }, plain_sums},
    // the sums stay on the device: what it takes more than a launch is one array
    {"mixed", "managed a; b and c of cudaMalloc", Wants::managed,
     [](Memory& m) {
       launch(m.device.c.data(), m.managed_a.data(), m.device.b.data(), m.n);
       wait_for_device();
     },
     nullptr, to_host, 1},
    {"prefetch_there", "one prefetch to the device", Wants::on_demand,
     [](Memory& m) {
       m.managed_a.prefetch(this_device());
       wait_for_device();
     },
     nullptr, to_host, 1},
    {"prefetch_back", "one prefetch to the host", Wants::on_demand,
     [](Memory& m) {
       m.managed_c.prefetch(cudaCpuDeviceId);
       wait_for_device();
     },
     nullptr,
     [](Memory& m) {
       m.managed_c.prefetch(this_device());
       wait_for_device();
     },
     1},
};

bool there(Wants wants, const Abilities& can) {
  if (wants == Wants::pageable) return can.pageable;
  if (wants == Wants::on_demand) return can.managed && can.on_demand;
  return wants == Wants::nothing || can.managed;
}

Check check_of(const Shared<Memory>& m, const Way& way) {
  if (way.result)
    return {[m, &way] { poison(way.result(*m), m->n); },
            [m, &way] { return wrong_sums(way.result(*m), m->n); }, ""};
  if (way.key == std::string("mixed"))
    return {[m] { m->device.c.poison(); },
            [m] { return wrong_sums(m->device.c.to_host().data(), m->n); }, ""};
  return unchecked("it moves pages, and adds nothing");
}

/// From inputs on the host to the sums there.
Task task_of(const Ref& ref, const Shared<Memory>& m, const Way& way) {
  Task task{text(ref), [m, &way] { way.work(*m); }, check_of(m, way), true};
  if (way.prepare) task.enter = [m, &way] { way.prepare(*m); };
  return task;
}

// ---- prediction ----

/// Milliseconds of the rows from which the others are predicted.
struct Costs {
  double pinned, there, back;
  double one_on_demand;  ///< an array that comes on demand, with the kernel
};

double predicted_ms(std::string_view way, const Costs& c) {
  if (way == "zero_copy") return c.pinned * 2 / 3;  // two arrays come in while the third goes out
  // the driver cannot know that c's old values are not wanted; the sums return
  if (way == "on_demand") return 3 * c.one_on_demand + c.back;
  return way == "prefetched" ? 3 * c.there + c.back : double(NAN);
}

// ---- the experiment ----

size_t elements_of(const Run& run) {
  const size_t by_default = size_t(1) << (run.quick ? 20 : run.full ? 25 : 23);
  return fitting_elements(run, options_of(run).size, by_default, 12, 24);  // three arrays, twice
}

void measure_ways(const Run& run, size_t n, const Abilities& can) {
  const auto of_pinned = [&run](const Row&, const Statistics& ms) {
    return factor_text(ms.median / (*run.results)("pinned_copies").time.ms.median);
  };
  Sheet sheet(run, "way, from host to host",
              {milliseconds(3),
               spread(),
               in_unit(measured("GB/s", "rate", "GB/s", 1), gbs_of),
               {shown("of pinned copies"), {}, {}, of_pinned}});
  for (const Way& way : ways) {
    const bool calibrates = way.arrays == 1 || way.key == std::string("pinned_copies");
    sheet.add({.ref = way.key,
               .words = way.words,
               .bytes = way.arrays * double(n) * sizeof(float),
               .calibrates = calibrates,
               .model = way.key == std::string("zero_copy") ? Model::traffic : Model::host,
               .missing = there(way.wants, can) ? std::string() : can.why()});
  }
  SharedByTasks memory([&] { return Memory(n, can.managed); });
  sheet.measure(Timing::regrouped, [&](const Row& row) {
    return task_of(row.ref, memory(), *with_key(ways, row.ref));
  });
  const Costs costs{sheet.ms("pinned_copies"), sheet.ms("prefetch_there"),
                    sheet.ms("prefetch_back"), sheet.ms("mixed")};
  sheet.predict([&](const Row& row) { return predicted_ms(row.ref.key, costs); });
  sheet.print();
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

/// What the host reads around a kernel that writes late, and what both sides add to a variable.
void look_at_words(const Run& run, const Abilities& can) {
  Once<LateWrite> late{read_without_waiting};
  const bool waits = run.device && can.managed && can.on_demand;
  const auto of_late = [&](const char* metric, double (*which)(const LateWrite&)) {
    ask(run, "write_late", metric, "",
        [&] { return waits ? single(which(late())) : Statistics{}; });
  };
  of_late("kernel still runs", [](const LateWrite& l) { return double(l.too_early); });
  of_late("host reads at once", [](const LateWrite& l) { return double(l.at_once); });
  of_late("host reads after waiting", [](const LateWrite& l) { return double(l.after_waiting); });
  if (!run.device || run.device->number < 0) return;
  if (waits) require_right(late().after_waiting == new_value, "write_late");
  if (!can.pageable)
    run.report.left_out("memory of malloc and the stack in a kernel",
                        "cudaDevAttrPageableMemoryAccess is 0 here");
  else
    run.report.note("a number on the host's stack: 40, and after a kernel " +
                    std::to_string(add_on_the_stack(40)));
  if (!can.managed) return;
  require_right(add_to_the_variable(40) == 42, "the __managed__ variable");
  run.report.note("__managed__ variable: the host wrote 40, a kernel added 2, the host read 42");
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

void run_managed(const Run& run) {
  const size_t n = elements_of(run);
  run.report.begin("managed", "c = a + b, three arrays of " + std::to_string(n) + " floats, " +
                                  bytes_text(double(n) * sizeof(float)) + " each");
  const Abilities can = ask_abilities(run);
  if (run.device && run.device->number >= 0) say_where_it_lies(run);
  measure_ways(run, n, can);
  look_at_words(run, can);
}

// ---- claims ----

std::vector<Claim> claims(const Run& run) {
  // 32 MiB: sixteen of the largest pieces that the driver moves at once
  const bool large = double(elements_of(run)) * sizeof(float) >= double(32 << 20);
  const char* const small = large ? "" : "the arrays are not large in this run";
  const auto late = [&run](const char* metric) {
    return run.results->value("write_late", metric).value.median;
  };
  Claim wait{.part = {"05.5", "the host must wait before it touches managed memory", "", "wiki"}};
  if (!run.device) {
    wait.unless = "no GPU";
  } else if (std::isnan(late("host reads at once"))) {
    wait.unless = "pages do not move on demand here";
  } else if (late("kernel still runs") == 0) {
    wait.unless = "the kernel had ended when the host looked";
  } else {
    wait.fact = late("host reads at once") == old_value ? Fact::so : Fact::not_so;
    wait.here = "the kernel writes " + std::to_string(new_value) + ", the host read " +
                fixed(late("host reads at once"), 0) + " at once, " +
                fixed(late("host reads after waiting"), 0) + " after waiting";
  }
  return {wait,
          {.part = {"05.4a", "pages that move on demand do not beat bulk copies", "", "wiki"},
           .rule = gains_nothing(),
           .pairs = {{.slow = "pinned_copies", .fast = "on_demand"}},
           .unless = small,
           .found = {{.slow = "pageable_copies", .fast = "on_demand"}}},
          {.part = {"05.4b", "pages that move on demand do not beat prefetches", "", "wiki"},
           .rule = gains_nothing(),
           .pairs = {{.slow = "prefetched", .fast = "on_demand"}},
           .unless = small}};
}

// ---- what it declares ----

Needs needs(const Run& run) { return {.allocated = 24.0 * double(elements_of(run))}; }

std::vector<Checked> tasks(size_t n) {
  const Abilities can{has_managed_memory(), pages_on_demand(), reads_pageable_memory(), ""};
  const Shared memory(Memory(n, can.managed));
  std::vector<Checked> all;
  for (const Way& way : ways)
    if (there(way.wants, can) && way.result)
      all.push_back({.task = task_of(way.key, memory, way),
                     .elements = n,
                     .change_one = [memory, &way, n] { way.result(*memory)[n - 1] += 1; }});
  return all;
}

}  // namespace

extern const Experiment managed_experiment{
    .name = "managed",
    .about = "managed memory, explicit copies and zero-copy side by side",
    .run = run_managed,
    .check_typed = [](const Run& run) { elements_of(run); },
    .claims = claims,
    .needs = needs,
    .tasks = tasks,
};
