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
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o transfer transfer.cu ../common/*.cpp
#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>

#include "../common/arrays.cuh"
#include "../common/sample.hpp"
#include "host.hpp"

namespace {

using Byte = unsigned char;

// ---- the kinds of host memory ----

using HostMemory = std::shared_ptr<Byte>;  // the last copy gives it back

// It writes zeros: every page is there.
HostMemory pageable(size_t n) { return {new Byte[n](), std::default_delete<Byte[]>()}; }

HostMemory freed_by_cudaFreeHost(Byte* data) {
  return {data, [](Byte* p) { cudaFreeHost(p); }};
}

// Pinned from the beginning.
HostMemory pinned(size_t n) {
  Byte* data = nullptr;
  CUDA_CHECK(cudaMallocHost(&data, n));
  return freed_by_cudaFreeHost(data);
}

// Pinned for all GPUs (portable), or so that kernels can access it (mapped); or not in the host's
// caches (write-combined): what the host writes is gathered, and sent on.
template <unsigned flags>
HostMemory pinned_as(size_t n) {
  Byte* data = nullptr;
  CUDA_CHECK(cudaHostAlloc(&data, n, flags));
  return freed_by_cudaFreeHost(data);
}

// Ordinary memory, pinned where it is. It is unpinned, and then freed by the copy in the lambda.
HostMemory registered(size_t n) {
  const HostMemory memory = pageable(n);
  CUDA_CHECK(cudaHostRegister(memory.get(), n, cudaHostRegisterDefault));
  return {memory.get(), [memory](Byte* p) { cudaHostUnregister(p); }};
}

struct Kind {
  const char* name;
  HostMemory (*take)(size_t n);
  bool all_sizes = false, predicted = true;
};
const Kind kinds[] = {
    {.name = "pageable", .take = pageable, .all_sizes = true, .predicted = false},
    {.name = "pinned", .take = pinned, .all_sizes = true},
    {.name = "portable", .take = pinned_as<cudaHostAllocPortable>},
    {.name = "mapped", .take = pinned_as<cudaHostAllocMapped>},
    {.name = "write-combined", .take = pinned_as<cudaHostAllocWriteCombined>},
    {.name = "registered", .take = registered},
    // Add yours here.
};

/// Why this machine gives no such memory; empty if it does.
std::string refusal_of(HostMemory (*take)(size_t)) {
  return refusal([take] { take(4 * KiB); });
}

// ---- the copies ----

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
};
Ends ends(HostMemory (*take)(size_t), size_t n) {
  const Ends e{n, take(n), take(n), filled<Byte>(n, Pattern{}), GuardedBuffer<Byte>(n)};
  CUDA_CHECK(cudaMemcpy(e.host_from.get(), e.device_from, n, cudaMemcpyDeviceToHost));
  return e;
}

enum Arrival { on_device, on_host };

Check arrived(const Ends& e, Arrival where) {
  const auto poison = [=] {
    e.device_to.poison();
    std::memset(e.host_to.get(), 0xff, e.n);
  };
  const auto find_error = [=] {
    if (where == on_host)  // it may be slow to read: the device looks at what the host has
      CUDA_CHECK(cudaMemcpy(e.device_to, e.host_to.get(), e.n, cudaMemcpyHostToDevice));
    return find_mismatch(e.device_to, Pattern{});
  };
  return {poison, find_error};
}

// Each waits for the device: cudaMemcpy from pageable memory returns as soon as all is staged.

Benchmark up(const std::string& name, const Ends& e) {
  const auto copy = [=] {
    CUDA_CHECK(cudaMemcpy(e.device_to, e.host_from.get(), e.n, cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaDeviceSynchronize());
  };
  return {.name = name, .work = copy, .check = arrived(e, on_device), .on_host = true};
}

Benchmark down(const std::string& name, const Ends& e) {
  const auto copy = [=] {
    CUDA_CHECK(cudaMemcpy(e.host_to.get(), e.device_from, e.n, cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaDeviceSynchronize());
  };
  return {.name = name, .work = copy, .check = arrived(e, on_host), .on_host = true};
}

/// The host adds up the bytes that a copy has brought: again and again, so that pinned memory may
/// come from its caches. Write-combined memory is in none.
Benchmark reading(const std::string& name, const Ends& e) {
  const auto sum = std::make_shared<unsigned>();
  const auto read = [=] { *sum = std::accumulate(e.host_from.get(), e.host_from.get() + e.n, 0u); };
  const auto find_error = [=] {
    return *sum == unsigned(sum_of(e.n, Pattern{})) ? "" : "the sum is wrong";
  };
  return {.name = name, .work = read, .check = {[=] { *sum = 0; }, find_error}, .on_host = true};
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
  const Link most = link_of(run.gpu, "max");
  Link now;
  Table table("GB/s: memory, bytes", {"up", "predicted up", "down"});
  for (const Kind& kind : kinds) {
    if (const std::string why = refusal_of(kind.take); !why.empty()) {
      table.missing(kind.name, why);
      continue;
    }
    std::vector<size_t> sizes = {KiB, largest};
    if (kind.all_sizes) sizes = {KiB, 16 * KiB, 256 * KiB, 4 * MiB, largest};
    std::map<size_t, Timings> timed;
    for (const size_t n : sizes) {
      const Ends e = ends(kind.take, n);
      timed[n] = timer.interleaved({up("up", e), down("down", e)});
      now = link_of(run.gpu, "current");  // right after copies: an idle link may be slower
    }
    const Cost cost = calibrated(timed[KiB]["up"].median(), timed[largest]["up"].median(), largest);
    for (const auto& [n, t] : timed) {
      const double bytes = double(n);
      const bool calibrates = n == KiB || n == largest;
      const Interval up = t["up"].gbs_interval(bytes), down = t["down"].gbs_interval(bytes);
      table.row(std::string(kind.name) + ", " + bytes_text(bytes),
                {up, !kind.predicted || calibrates ? Cell("") : Cell(bytes * 1e-6 / cost.ms(bytes)),
                 down});
      require_below_link("up", up.value, run.gpu);
      require_below_link("down", down.value, run.gpu);
    }
  }
  const double link = now.lanes ? now.gbs() : most.gbs();
  table.row("the link, at most", {link, "", link});
  run.print(table);
  run.note("the link, right after a copy: " + now.text() + "; the card's maximum: " + most.text());
  run.note("up: to the device, down: to the host");
  run.note("predicted: the time of 1 KiB, and the bytes at the rate of " +
           bytes_text(double(largest)));
  run.note("pageable memory has no prediction: the host's caches and its copying thread decide");
}

void judge_pinned(Run& run, size_t n) {
  const std::string refused = refusal_of(pinned);
  const auto copies = [n, refused] {
    const Ends ordinary = ends(pageable, n);
    std::vector<Benchmark> all = {up("pageable to device", ordinary),
                                  down("device to pageable", ordinary)};
    if (!refused.empty()) return all;
    const Ends locked = ends(pinned, n);
    all.push_back(up("pinned to device", locked));
    all.push_back(down("device to pinned", locked));
    return all;
  };
  const Timings timed = run.timer.with_fresh_memory(copies, 2);
  Table table(bytes_text(double(n)) + " in fresh memory", {"ms", "GB/s", "spread"});
  for (const std::string name :
       {"pageable to device", "pinned to device", "device to pageable", "device to pinned"}) {
    if (!refused.empty() && name.find("pinned") != name.npos)
      table.missing(name, refused);
    else
      table.row(name, {timed[name].ms_interval(), timed[name].gbs_interval(double(n)),
                       percent(timed[name].spread())});
  }
  run.print(table);
  const auto judge = [&](const Claim& claim, const char* of, const char* over) {
    if (refused.empty())
      run.claim(claim, timed.speedup({.of = of, .over = over}), much_faster());
    else
      run.claim_skipped(claim, refused);
  };
  judge({"02.2a", "pinned memory has much higher bandwidth than pageable: to the GPU",
         "[LC 2] \"much higher bandwidth\""},
        "pinned to device", "pageable to device");
  judge({"02.2b", "pinned memory has much higher bandwidth than pageable: to the host",
         "[LC 2] \"much higher bandwidth\""},
        "device to pinned", "device to pageable");
  // The study names no memory: what a program has anyway is pageable.
  run.claim({"02.9", "results are read back from the card at about one GB/s",
             "[BW, reply 2] \"about a gigabyte per second\", 8800 GTX", Hardware::g80},
            {timed["device to pageable"].gbs_interval(double(n)), "GB/s, 'device to pageable'"},
            about(1));
}

void judge_write_combined(Run& run, size_t n) {
  const Claim copied{"02.3a", "write-combined memory is transferred faster on some systems",
                     "[LC 2] \"more quickly on some system configurations\""};
  const Claim read{"02.3b", "most hosts cannot read write-combined memory efficiently",
                   "[LC 2] \"cannot be read efficiently by most hosts\""};
  if (const std::string why = refusal_of(pinned_as<cudaHostAllocWriteCombined>); !why.empty()) {
    run.claim_skipped(copied, why);
    run.claim_skipped(read, why);
    return;
  }
  const auto uses = [n] {
    const Ends combined = ends(pinned_as<cudaHostAllocWriteCombined>, n), locked = ends(pinned, n);
    return std::vector<Benchmark>{
        up("write-combined to device", combined), up("pinned to device", locked),
        reading("host reads write-combined", combined), reading("host reads pinned", locked)};
  };
  const Timings timed = run.timer.with_fresh_memory(uses, 2);
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
  const size_t by_default = (run.quick ? 8 : 32) * MiB;
  const size_t n = std::max(8 * MiB, run.fitting_on_host(run.fitting(by_default, 4), 4));
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

TEST_CASE("transfer: more than the link carries, by a tenth, is a wrong result") {
  if (skip_without_gpu()) return;
  const cudaDeviceProp gpu = current_gpu();
  const double link = link_of(gpu, "max").gbs();
  if (!(link > 0)) return skip("this host does not tell the link");
  CHECK_NOTHROW(require_below_link("up", 1.09 * link, gpu));
  CHECK_THROWS_AS(require_below_link("up", 1.11 * link, gpu), WrongResult);
  CHECK_NOTHROW(require_below_link("both", 2.18 * link, gpu, 2));
  CHECK_THROWS_AS(require_below_link("both", 2.22 * link, gpu, 2), WrongResult);
}

TEST_CASE("transfer: which errors of a pin are a refusal") {
  const auto fails = [](cudaError_t e) { return [e] { throw CudaError(e, "pin", "", 0); }; };
  CHECK(refusal([] {}) == "");
  CHECK(refusal(fails(cudaErrorNotPermitted)) != "");
  CHECK_THROWS_AS(refusal(fails(cudaErrorInvalidValue)), CudaError);
}

TEST_CASE("transfer: what a link carries, by hand") {
  CHECK(link_gbs(2.5, 16) == doctest::Approx(4));
  CHECK(link_gbs(8, 16) == doctest::Approx(15.75).epsilon(0.001));
  CHECK(link_gbs(32, 16) == doctest::Approx(63.0).epsilon(0.001));
  CHECK(Link{32, 8}.gbs() == doctest::Approx(31.5).epsilon(0.001));
  CHECK(Link{32, 8}.text() == "x8 at 32 GT/s");
  CHECK(std::isnan(Link{}.gbs()));
}

TEST_CASE("transfer: no byte of the pattern looks poisoned") {
  size_t poisoned = 0;
  for (size_t i = 0; i < 10000; ++i) poisoned += Pattern{}(i) == 0xff;
  CHECK(poisoned == 0);
}

TEST_CASE("transfer: copies are right at awkward sizes and write nothing behind the end") {
  if (skip_without_gpu()) return;
  for (const Kind& kind : kinds) {
    if (!refusal_of(kind.take).empty()) continue;
    for (const size_t n : {size_t(1), size_t(4097), MiB + 3}) {
      const Ends e = ends(kind.take, n);
      for (const Benchmark& copy : {up("up", e), down("down", e)}) {
        CAPTURE(kind.name);
        CAPTURE(copy.name);
        CAPTURE(n);
        copy.check.poison();
        CHECK(copy.check.find_error() != "");  // nothing is copied yet
        copy.work();
        CHECK(copy.check.find_error() == "");
      }
    }
  }
}
