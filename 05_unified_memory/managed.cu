// managed: the same pointer on both sides, and pages that move to whoever touches them. The text adds two arrays in
// managed memory, warns that the host must synchronise before it looks, and ends by saying that pages which move on
// demand never beat bulk copies or prefetches. Look at the times with all transfers counted in, and at what the host
// reads when it does not wait.
#include <doctest/doctest.h>

#include <functional>

#include "../common/first_edition.hpp"
#include "managed_memory.hpp"
#include "options.hpp"

namespace {

size_t elements_that_fit(size_t elements, size_t bytes_each, bool typed) {
  const size_t free = Device::free_bytes();
  if (typed) require_fits("--size", double(elements) * double(bytes_each), double(free));
  while (!typed && elements > 1 && elements > free / 2 / bytes_each) elements /= 2;
  return elements;
}

__host__ __device__ float sum_of(float a, float b) { return a + b; }

// Each warp reads 32 neighbouring words of two arrays and writes 32 of a third.
__global__ void sum_arrays(float* c, const float* a, const float* b, size_t n) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < n) c[i] = sum_of(a[i], b[i]);
}

__managed__ int shared_number;  // in global scope, as a __device__ variable; the host names it like one of its own

// One thread adds to the variable that the host set.
__global__ void add_to_shared_number(int x) { shared_number += x; }

// One thread waits `ns` nanoseconds by the device's timer, then writes: a kernel that takes its time.
__global__ void write_late(int* value, int written, unsigned long long ns) {
  unsigned long long start, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (now - start < ns);
  *value = written;
}

constexpr int threads = 256;
constexpr size_t page = 4096;  // of the host; every page is touched by one word of it

float input_a(size_t i) { return float(i % 8191) + 1; }
float input_b(size_t i) { return float(i % 127) - 63; }

/// Writes the inputs, and something into `c` that no sum is.
void write_inputs(float* a, float* b, float* c, size_t n) {
  for (size_t i = 0; i < n; ++i) a[i] = input_a(i), b[i] = input_b(i), c[i] = -1e30f;
}

bool right(const float* c, size_t n) {
  for (size_t i = 0; i < n; ++i)
    if (!(c[i] == sum_of(input_a(i), input_b(i)))) return false;
  return true;
}

/// The host reads a word of each page, and so has all of the array.
void touch(const float* c, size_t n) {
  for (size_t i = 0; i < n; i += page / sizeof(float)) *static_cast<const volatile float*>(c + i);
}

void launch(float* c, const float* a, const float* b, size_t n) {
  sum_arrays<<<unsigned((n + threads - 1) / threads), threads>>>(c, a, b, n);
  CUDA_CHECK_LAUNCH();
}

/// One way to have the arrays added: `prepare` puts the inputs on the host, `add` begins there and ends with the sums
/// on the host.
struct Way {
  std::string name;
  float *a, *b, *c;  ///< as the host sees them
  std::function<void()> prepare, add;
};

/// Explicit copies from and to host memory of any kind.
Way copies(const std::string& name, float* a, float* b, float* c, const DeviceBuffer<float> (&on_device)[3]) {
  const size_t n = on_device[0].size();
  return {name,
          a,
          b,
          c,
          [] {},
          [=, &on_device] {
            const size_t bytes = n * sizeof(float);
            CUDA_CHECK(cudaMemcpy(on_device[0].data(), a, bytes, cudaMemcpyHostToDevice));
            CUDA_CHECK(cudaMemcpy(on_device[1].data(), b, bytes, cudaMemcpyHostToDevice));
            launch(on_device[2].data(), on_device[0].data(), on_device[1].data(), n);
            CUDA_CHECK(cudaMemcpy(c, on_device[2].data(), bytes, cudaMemcpyDeviceToHost));
            touch(c, n);
          }};
}

/// Managed arrays, left to move on demand or prefetched both ways.
Way managed_arrays(bool prefetched, const Managed<float>& a, const Managed<float>& b, const Managed<float>& c) {
  const auto to_host = [&] {
    if (!pages_on_demand()) return write_inputs(a.data(), b.data(), c.data(), a.size());  // writing brings them back
    for (const Managed<float>* each : {&a, &b, &c}) each->prefetch(cudaCpuDeviceId);
    wait_for_device();
  };
  return {prefetched ? "managed, prefetched" : "managed, on demand",
          a.data(),
          b.data(),
          c.data(),
          to_host,
          [=, &a, &b, &c] {
            if (prefetched)
              for (const Managed<float>* each : {&a, &b, &c}) each->prefetch(this_device());
            launch(c.data(), a.data(), b.data(), a.size());
            if (prefetched) c.prefetch(cudaCpuDeviceId);
            wait_for_device();
            touch(c.data(), c.size());
          }};
}

/// All five ways over their own memory; calls `use(way)` for each that the device has.
template <class Use>
void each_way(size_t n, Use&& use) {
  {
    const DeviceBuffer<float> on_device[3] = {DeviceBuffer<float>(n), DeviceBuffer<float>(n), DeviceBuffer<float>(n)};
    std::vector<float> a(n), b(n), c(n);
    use(copies("copies, pageable host memory", a.data(), b.data(), c.data(), on_device));
    PinnedBuffer<float> pinned_a(n), pinned_b(n), pinned_c(n);
    use(copies("copies, pinned host memory", pinned_a.data(), pinned_b.data(), pinned_c.data(), on_device));
    use(Way{"zero-copy", pinned_a.data(), pinned_b.data(), pinned_c.data(), [] {},
            [&] {
              launch(pinned_c.data(), pinned_a.data(), pinned_b.data(), n);  // the kernel's loads cross the bus
              wait_for_device();
              touch(pinned_c.data(), n);
            }});
  }
  if (!has_managed_memory()) return;
  const Managed<float> a(n), b(n), c(n);
  use(managed_arrays(false, a, b, c));
  if (pages_on_demand()) use(managed_arrays(true, a, b, c));
}

/// Runs a way once and checks all of its sums.
bool adds_right(const Way& way, size_t n) {
  write_inputs(way.a, way.b, way.c, n);
  way.prepare();
  way.add();
  return right(way.c, n);
}

/// What the host read of a managed word around a kernel that writes it late.
struct LateWrite {
  int at_once, after_waiting;
  bool too_early;  ///< the kernel had not ended when the host read; false where launches wait (as under a debugger)
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

const Claim bulk_claim{"05.4", "pages moving on demand never beat bulk copies or prefetches of large regions",
                       "wiki, lecture", "no figure"};
const Claim wait_claim{"05.5", "managed memory must be synchronised before the host touches it", "wiki", "no figure"};

}  // namespace

void managed(const Run& run, const Options& options) {
  size_t n = options.size ? options.size : size_t(1) << (run.quick ? 20 : run.full ? 25 : 23);
  if (run.device) n = elements_that_fit(n, 3 * sizeof(float) * 2, options.size != 0);
  run.report.begin("managed", "c = a + b, three arrays of " + std::to_string(n) + " floats, " +
                                  bytes_text(double(n) * sizeof(float)) + " each");
  if (!run.device) return run.report.left_out("all ways of adding", {wait_claim, bulk_claim});
  run.report.note(managed_memory_text());
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  int devices = 0;
  CUDA_CHECK(cudaGetDeviceCount(&devices));
  run.report.note("CUDA_VISIBLE_DEVICES is " + (visible ? std::string("'") + visible + "'" : std::string("not set")) +
                  ", GPUs visible: " + std::to_string(devices) +
                  (pages_on_demand() ? "; pages move to whichever touches them, so hiding one changes no placement"
                                     : "; with several that are no peers, managed memory would stay on the host"));

  Table table(run.report, "way, from host to host",
              {measured("median ms", "time", "ms", 3), shown("spread"), measured("GB/s", "rate", "GB/s", 1),
               shown("of pinned copies")});
  std::vector<Statistics> time;
  std::vector<std::string> names;
  each_way(n, [&](const Way& way) {
    require_right(adds_right(way, n), way.name);
    way.prepare();
    const int repeats = run.measuring.repeats_for(host_ms(way.add));
    std::vector<double> ms(run.measuring.typed ? repeats : std::min(repeats, 7));  // bringing pages back takes long too
    for (double& each : ms) way.prepare(), each = host_ms(way.add);
    time.push_back(summarize(ms)), names.push_back(way.name);
  });
  const Statistics& pinned = time[1];
  for (size_t i = 0; i < time.size(); ++i)
    table.row({names[i]},
              {time[i], spread_text(time[i]), gigabytes_per_second(3.0 * double(n) * sizeof(float), time[i]),
               times(time[i].median / pinned.median)});
  table.print();
  if (!has_managed_memory()) {
    run.report.claim(wait_claim, not_judged("no managed memory"));
    return run.report.claim(bulk_claim, not_judged("no managed memory"));
  }

  shared_number = 40;
  add_to_shared_number<<<1, 1>>>(2);
  CUDA_CHECK_LAUNCH();
  wait_for_device();
  require_right(shared_number == 42, "the __managed__ variable");
  run.report.note("__managed__ variable: the host wrote 40, a kernel added 2, the host read " +
                  std::to_string(shared_number));

  if (!pages_on_demand()) {
    run.report.claim(wait_claim, not_judged("here the host may not touch it at all while a kernel runs"));
    return run.report.claim(bulk_claim, not_judged("pages do not move on demand here"));
  }
  const LateWrite read = read_without_waiting();
  require_right(read.after_waiting == new_value, "write_late");
  if (read.too_early)
    run.report.claim(wait_claim, judge_fact(read.at_once == old_value,
                                            "the kernel writes " + std::to_string(new_value) + ", the host read " +
                                                std::to_string(read.at_once) + " at once, " +
                                                std::to_string(read.after_waiting) + " after synchronising"));
  else
    run.report.claim(wait_claim, not_judged("the kernel had ended when the host looked: launches wait here"));

  const Statistics &on_demand = time[3], &prefetched = time[4];
  const Statistics& slower_bulk = prefetched.median < pinned.median ? pinned : prefetched;  // it must lose to both
  Judgement judged = judge_ratio(on_demand, slower_bulk);
  judged.here = times(on_demand.median / prefetched.median) + " the time of prefetching, " +
                times(on_demand.median / pinned.median) + " of pinned copies, " +
                times(on_demand.median / time[0].median) + " of pageable copies";
  // 32 MiB: sixteen of the largest pieces that the driver moves at once
  const bool large = n * sizeof(float) >= size_t(32) << 20;
  run.report.claim(bulk_claim, large ? judged : not_judged("the arrays are not large in this run"));
}

// ---- self-checks ----------------------------------------------------------------------------------------------------

TEST_CASE("managed: every way adds right at awkward sizes") {
  if (skip_without_gpu()) return;
  for (size_t n : {1, 31, 257, 1023, 65537, 1000003}) {
    CAPTURE(n);
    each_way(n, [&](const Way& way) {
      CAPTURE(way.name);
      CHECK(adds_right(way, n));
      way.prepare();
      way.add();  // a second time over pages that have moved
      CHECK(right(way.c, n));
    });
  }
}

TEST_CASE("managed: a variable in global scope is written by both sides") {
  if (skip_without_gpu()) return;
  if (!has_managed_memory()) return skip_self_check("no managed memory");
  for (int first : {-7, 40}) {
    shared_number = first;
    add_to_shared_number<<<1, 1>>>(2);
    CUDA_CHECK_LAUNCH();
    wait_for_device();
    CHECK(shared_number == first + 2);
  }
}

TEST_CASE("managed: a host that does not wait reads the old value") {
  if (skip_without_gpu()) return;
  if (!pages_on_demand()) return skip_self_check("the host may not touch managed memory while a kernel runs here");
  const LateWrite read = read_without_waiting();
  CHECK(read.after_waiting == new_value);
  if (read.too_early) CHECK(read.at_once == old_value);
}

TEST_CASE("managed: more than the limit is refused") {
  if (skip_without_gpu()) return;
  if (!has_managed_memory()) return skip_self_check("no managed memory");
  CHECK_THROWS_AS(Managed<char>(most_managed_bytes + 1), std::runtime_error);
  const size_t before = managed_bytes;
  {
    const Managed<char> held(12345);
    CHECK(managed_bytes == before + 12345);
    CHECK_THROWS_AS(Managed<char>(most_managed_bytes - before - 12344), std::runtime_error);
  }
  CHECK(managed_bytes == before);
}

TEST_CASE("managed: elements that fit") {
  if (skip_without_gpu()) return;
  const size_t free = Device::free_bytes();
  CHECK(elements_that_fit(1, 1, false) == 1);
  CHECK(elements_that_fit(free, 1, false) <= free / 2);
  CHECK_THROWS_AS(elements_that_fit(free, 1000, true), UsageError);
}
