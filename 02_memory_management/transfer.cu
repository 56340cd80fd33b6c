// transfer: how fast do bytes cross the bus, and from which memory? A copy engine follows only
// pages that stay where they are (pinned). Ordinary (pageable) memory goes through a pinned buffer
// of the driver: a thread of the host copies it there. The wiki: pinned memory has a much higher
// bandwidth; write-combined memory is faster on some systems, but slow for the host to read [LC 2].
// The guide advises to use as much pinned memory as possible [KP]. A study of 2007 reads its card
// back at about 1 GB/s [BW].
//
// The time of a copy is that of its call, plus its bytes divided by a rate. Look at 1 KiB: small
// copies are all call, from any memory. Then look at the largest copies, pageable and pinned.
//
//   build/release/02_memory_management/02_memory_management transfer
#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>

#include "../common/arrays.cuh"
#include "../common/sample.hpp"
#include "host.hpp"

namespace {

using Byte = unsigned char;
constexpr size_t kib = 1024, mib = 1024 * kib;

// ---- the kinds of host memory ----

// Add yours here: a kind, its name, and its case in HostMemory.
enum Kind { pageable, pinned, portable, mapped, write_combined, registered };
constexpr Kind kinds[] = {pageable, pinned, portable, mapped, write_combined, registered};
constexpr const char* names[] = {"pageable", "pinned",         "portable",
                                 "mapped",   "write-combined", "registered"};

class HostMemory {
 public:
  HostMemory(Kind kind, size_t bytes) : kind_(kind) {
    switch (kind) {
      case pageable:
        ordinary_.resize(bytes);  // writes zeros: every page is there
        data_ = ordinary_.data();
        break;
      case pinned:
        CUDA_CHECK(cudaMallocHost(&data_, bytes));
        break;
      case portable:  // pinned for all GPUs
        CUDA_CHECK(cudaHostAlloc(&data_, bytes, cudaHostAllocPortable));
        break;
      case mapped:  // kernels can access it
        CUDA_CHECK(cudaHostAlloc(&data_, bytes, cudaHostAllocMapped));
        break;
      case write_combined:  // not in the host's caches
        CUDA_CHECK(cudaHostAlloc(&data_, bytes, cudaHostAllocWriteCombined));
        break;
      case registered:  // ordinary memory, pinned where it is
        ordinary_.resize(bytes);
        data_ = ordinary_.data();
        CUDA_CHECK(cudaHostRegister(data_, bytes, cudaHostRegisterDefault));
    }
  }
  HostMemory(const HostMemory&) = delete;
  ~HostMemory() {
    if (kind_ == registered) cudaHostUnregister(data_);
    if (kind_ != registered && kind_ != pageable) cudaFreeHost(data_);
  }
  operator Byte*() const { return data_; }

 private:
  Kind kind_;
  std::vector<Byte> ordinary_;
  Byte* data_ = nullptr;
};

/// Why this machine gives no such memory; empty if it does.
std::string refusal(Kind kind) {
  try {
    const HostMemory memory(kind, 4 * kib);
    return "";
  } catch (const CudaError& error) {
    if (error.code != cudaErrorNotSupported && error.code != cudaErrorNotPermitted) throw;
    return cudaGetErrorString(error.code);
  }
}

// ---- the copies ----

enum Way { up, down, both };  // to the device, to the host

/// What every source holds: never 0xff, of which a poisoned target consists.
struct Pattern {
  __host__ __device__ Byte operator()(size_t i) const { return Byte(hash(i) % 0xff); }
};

/// n bytes on the host and on the device, to copy from and to copy to.
struct Ends {
  size_t n;
  HostMemory host_from, host_to;
  DeviceBuffer<Byte> device_from;
  GuardedBuffer<Byte> device_to;
  Stream up_stream, down_stream;
  unsigned sum = 0;  // of what the host has read

  Ends(Kind kind, size_t bytes)
      : n(bytes),
        host_from(kind, n),
        host_to(kind, n),
        device_from(filled<Byte>(n, Pattern{})),
        device_to(n) {
    CUDA_CHECK(cudaMemcpy(host_from, device_from, n, cudaMemcpyDeviceToHost));
  }

  void copy(Way way) {
    if (way == up) CUDA_CHECK(cudaMemcpy(device_to, host_from, n, cudaMemcpyHostToDevice));
    if (way == down) CUDA_CHECK(cudaMemcpy(host_to, device_from, n, cudaMemcpyDeviceToHost));
    if (way == both) {
      CUDA_CHECK(cudaMemcpyAsync(device_to, host_from, n, cudaMemcpyHostToDevice, up_stream));
      CUDA_CHECK(cudaMemcpyAsync(host_to, device_from, n, cudaMemcpyDeviceToHost, down_stream));
    }
    // cudaMemcpy from pageable memory returns when all is staged: before it has arrived.
    CUDA_CHECK(cudaDeviceSynchronize());
  }
  void poison() {
    device_to.poison();
    std::memset(host_to, 0xff, n);
  }
  std::string find_error(Way way) {
    const std::string on_device = way == down ? "" : find_mismatch(device_to, Pattern{});
    if (way == up || !on_device.empty()) return on_device;
    // The host may be slow to read: the device looks at what the host has.
    CUDA_CHECK(cudaMemcpy(device_to, host_to, n, cudaMemcpyHostToDevice));
    return find_mismatch(device_to, Pattern{});
  }
};

Benchmark copying(const std::string& name, Ends& ends, Way way) {
  return {.name = name,
          .work = [&ends, way] { ends.copy(way); },
          .check = {[&ends] { ends.poison(); }, [&ends, way] { return ends.find_error(way); }},
          .on_host = true};
}

/// The host adds up the bytes that a copy has brought: again and again, so that pinned memory may
/// come from its caches. Write-combined memory is in none.
Benchmark reading(const std::string& name, Ends& ends) {
  const Byte* first = ends.host_from;
  const auto read = [&ends, first] { ends.sum = std::accumulate(first, first + ends.n, 0u); };
  const auto find_error = [&ends] {
    return ends.sum == unsigned(sum_of(ends.n, Pattern{})) ? "" : "the sum is wrong";
  };
  return {.name = name,
          .work = read,
          .check = {[&ends] { ends.sum = 0; }, find_error},
          .on_host = true};
}

// ---- prediction ----

/// What a copy of pinned memory takes: the call, and the bytes.
struct Cost {
  double call_ms, gbs;
  double ms(double bytes) const { return call_ms + bytes * 1e-6 / gbs; }
};

/// From a small copy, which is all call, and a large one.
Cost calibrated(double small_ms, double large_ms, double large_bytes) {
  return {small_ms, large_bytes * 1e-6 / (large_ms - small_ms)};
}

// ---- the experiment ----

void compare_kinds(Run& run, size_t largest) {
  Timer timer = run.timer;
  timer.rounds = 12;
  const double link = link_gbs(run.gpu);
  Table table("GB/s: memory, bytes", {"up", "predicted up", "down", "both"});
  for (const Kind kind : kinds) {
    if (const std::string why = refusal(kind); !why.empty()) {
      table.missing(names[kind], why);
      continue;
    }
    std::vector<size_t> sizes = {kib, largest};
    if (kind == pageable || kind == pinned) sizes = {kib, 16 * kib, 256 * kib, 4 * mib, largest};
    std::map<size_t, Timings> timed;
    for (const size_t n : sizes) {
      Ends ends(kind, n);
      timed[n] = timer.interleaved(
          {copying("up", ends, up), copying("down", ends, down), copying("both", ends, both)});
    }
    const Cost cost = calibrated(timed[kib]["up"].median(), timed[largest]["up"].median(), largest);
    for (const auto& [n, t] : timed) {
      const double bytes = double(n);
      const bool calibrates = n == kib || n == largest;
      table.row(std::string(names[kind]) + ", " + bytes_text(bytes),
                {t["up"].gbs_interval(bytes),
                 kind != pinned || calibrates ? Cell("") : Cell(bytes * 1e-6 / cost.ms(bytes)),
                 t["down"].gbs_interval(bytes), t["both"].gbs_interval(2 * bytes)});
      if (std::max(t["up"].gbs(bytes), t["down"].gbs(bytes)) > 1.01 * link)
        throw WrongResult("a copy was not waited for: faster than the link");
    }
  }
  table.row("the link, at most", {link, "", link, 2 * link});
  run.print(table);
  run.note("up: to the device, down: to the host, both: so many bytes each way, at once");
  run.note("predicted: the time of 1 KiB, and the bytes at the rate of " +
           bytes_text(double(largest)));
  run.note("pageable memory has no prediction: the host's caches and its copying thread decide");
}

/// Pins memory that exists, and unpins it. A copy of it then takes saved_ms less.
void measure_registering(Run& run, size_t n, double saved_ms) {
  std::vector<Byte> memory(n);
  const auto pin_and_unpin = [&memory, n] {
    CUDA_CHECK(cudaHostRegister(memory.data(), n, cudaHostRegisterDefault));
    CUDA_CHECK(cudaHostUnregister(memory.data()));
  };
  Timer timer = run.timer;
  timer.rounds = 12;
  const double ms =
      timer.alone({.name = "registering", .work = pin_and_unpin, .on_host = true}).median();
  run.note("registering " + bytes_text(double(n)) + " and undoing it takes " + digits(ms) +
           " ms; a copy to the device then takes " + digits(saved_ms) + " ms less");
}

void judge_pinned(Run& run, size_t n) {
  const auto group = [n](const Timer::Measure& measure) {
    Ends ordinary(pageable, n), locked(pinned, n);
    measure({copying("pageable to device", ordinary, up), copying("pinned to device", locked, up),
             copying("device to pageable", ordinary, down),
             copying("device to pinned", locked, down)});
  };
  const Timings timed = run.timer.with_fresh_memory(group, 2);
  Table table(bytes_text(double(n)) + " in fresh memory", {"GB/s", "spread"});
  for (const char* name :
       {"pageable to device", "pinned to device", "device to pageable", "device to pinned"})
    table.row(name, {timed[name].gbs_interval(double(n)), percent(timed[name].spread())});
  run.print(table);
  if (refusal(registered).empty())
    measure_registering(run, n,
                        timed["pageable to device"].median() - timed["pinned to device"].median());
  run.claim({"02.2a", "pinned memory is copied to the device much faster than pageable",
             "much higher bandwidth, the wiki"},
            timed.speedup({.of = "pinned to device", .over = "pageable to device"}), much_faster());
  run.claim({"02.2b", "and back from the device", "much higher bandwidth, the wiki"},
            timed.speedup({.of = "device to pinned", .over = "device to pageable"}), much_faster());
  // The study names no memory: what a program has anyway is pageable.
  run.claim({"02.9", "a card is read back at about 1 GB/s", "about 1 GB/s, the 8800 GTX", Era::g80},
            {timed["device to pageable"].gbs_interval(double(n)), "GB/s, device to pageable"},
            about(1));
}

void judge_write_combined(Run& run, size_t n) {
  const Claim copied{"02.3a", "write-combined memory can be copied faster",
                     "on some systems, the wiki"};
  const Claim read{"02.3b", "the host reads write-combined memory slowly",
                   "on most hosts, the wiki"};
  if (const std::string why = refusal(write_combined); !why.empty()) {
    run.claim_skipped(copied, why);
    run.claim_skipped(read, why);
    return;
  }
  const auto group = [n](const Timer::Measure& measure) {
    Ends combined(write_combined, n), locked(pinned, n);
    measure({copying("write-combined to device", combined, up),
             copying("pinned to device", locked, up),
             reading("host reads write-combined", combined), reading("host reads pinned", locked)});
  };
  const Timings timed = run.timer.with_fresh_memory(group, 2);
  Table table("write-combined", {"GB/s", "spread"});
  for (const char* name : {"write-combined to device", "pinned to device",
                           "host reads write-combined", "host reads pinned"})
    table.row(name, {timed[name].gbs_interval(double(n)), percent(timed[name].spread())});
  run.print(table);
  run.claim(copied, timed.speedup({.of = "write-combined to device", .over = "pinned to device"}),
            can_be_faster());
  if (is_virtual_machine())
    run.claim_skipped(read, "a virtual machine: its hypervisor decides how memory is mapped");
  else
    run.claim(read, timed.speedup({.of = "host reads pinned", .over = "host reads write-combined"}),
              much_faster());
}

}  // namespace

void transfer(Run& run) {
  const size_t by_default = (run.quick ? 8 : 32) * mib;
  const size_t n = std::max(8 * mib, run.fitting_on_host(run.fitting(by_default, 4), 4));
  run.title("copies of up to " + bytes_text(double(n)));
  compare_kinds(run, n);
  judge_pinned(run, n / 2);
  judge_write_combined(run, n / 2);
}
SAMPLE(1, transfer, "copies from and to each kind of host memory");

TEST_CASE("transfer: a copy takes its call and its bytes") {
  const Cost cost = calibrated(0.01, 1.01, 10e6);  // 10 us, and 10 MB in a further millisecond
  CHECK(cost.gbs == doctest::Approx(10));
  CHECK(cost.ms(20e6) == doctest::Approx(2.01));
}

TEST_CASE("transfer: what a link carries, by hand") {
  CHECK(link_gbs(2.5, 16) == doctest::Approx(4));
  CHECK(link_gbs(8, 16) == doctest::Approx(15.75).epsilon(0.001));
  CHECK(link_gbs(32, 16) == doctest::Approx(63.0).epsilon(0.001));
}

TEST_CASE("transfer: no byte of the pattern looks poisoned") {
  size_t poisoned = 0;
  for (size_t i = 0; i < 10000; ++i) poisoned += Pattern{}(i) == 0xff;
  CHECK(poisoned == 0);
}

TEST_CASE("transfer: copies are right at awkward sizes and write nothing behind the end") {
  if (skip_without_gpu()) return;
  for (const Kind kind : kinds) {
    if (!refusal(kind).empty()) continue;
    for (const Way way : {up, down, both})
      for (const size_t n : {size_t(1), size_t(4097), mib + 3}) {
        CAPTURE(names[kind]);
        CAPTURE(way);
        CAPTURE(n);
        Ends ends(kind, n);
        ends.poison();
        CHECK(ends.find_error(way) != "");  // nothing is copied yet
        ends.copy(way);
        CHECK(ends.find_error(way) == "");
      }
  }
}
