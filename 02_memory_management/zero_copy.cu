// zero_copy: kernels that work on host memory where it is, over the link. The text maps pinned memory, adds two arrays
// through the device's pointer to it and, since addresses are unified, through the host's own. It warns that what is
// used often is far slower there, and praises it where device memory is too small. Look at how soon a copy pays.
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <memory>

#include "../common/first_edition.hpp"
#include "host_memory.hpp"

namespace {

// Each warp reads 32 neighbouring words of two arrays and writes 32 of a third: 128 bytes each, over the link where the
// array is the host's.
__global__ void sum_arrays(unsigned* c, const unsigned* a, const unsigned* b, size_t n) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}

__device__ unsigned total;  // of all words of all passes, each word times the number of the pass: none can stray

// The grid reads all of `in`, again and again, 16 bytes a thread so that device memory is kept busy; a warp reads 512
// neighbouring bytes. The loads pass L1 by, so that what is found again is found in the L2.
__global__ void read_passes(const unsigned* in, size_t n, unsigned passes) {
  const size_t first = blockIdx.x * size_t(blockDim.x) + threadIdx.x, stride = size_t(gridDim.x) * blockDim.x;
  unsigned own = 0;
  for (unsigned pass = 1; pass <= passes; ++pass) {
    for (size_t i = first; i < n / 4; i += stride) {
      const uint4 four = __ldcg(reinterpret_cast<const uint4*>(in) + i);
      own += pass * (four.x + four.y + four.z + four.w);
    }
    if (first < n % 4) own += pass * __ldcg(in + n / 4 * 4 + first);
  }
  for (int other = 16; other; other /= 2) own += __shfl_down_sync(~0u, own, other);
  if (threadIdx.x % 32 == 0) atomicAdd(&total, own);
}

// One thread writes once the host has let it. Each look crosses the link and takes about a microsecond; after a million
// it gives up and writes the negative: where launches wait for their kernels the host never comes to let it.
__global__ void write_late(const volatile int* released, volatile int* value, int written) {
  for (int looks = 0; !*released && looks < 1000000;) ++looks;
  *value = *released ? written : -written;
}

constexpr unsigned threads = 256, blocks = 1024;  // blocks that read: so many keep any GPU's memory busy
using Words = DeviceBuffer<unsigned>;
using HostWords = PinnedBuffer<unsigned>;

/// Words of steep slope, modulo 2^32: neighbours differ, and what all passes over the first `n` add up to is known.
unsigned word(size_t i) { return unsigned(i) * 2654435761u + 12345u; }
unsigned sum_of_passes(size_t n, unsigned passes) {
  return (unsigned(n * (n - 1) / 2) * 2654435761u + unsigned(n) * 12345u) * (passes * (passes + 1) / 2);
}
void fill(unsigned* words, size_t n, size_t first = 0) {
  for (size_t i = 0; i < n; ++i) words[i] = word(first + i);
}
/// `c` is right, where `a` begins with word 0 and `b` with word `second`.
bool right(const unsigned* c, size_t n, size_t second) {
  size_t wrong = 0;  // counted to the end, for that is vector code
  for (size_t i = 0; i < n; ++i) wrong += c[i] != word(i) + word(second + i);
  return wrong == 0;
}

// The model: bytes take their number divided by the rate, in GB/s, of what they move over.
struct Rates {
  double link, memory;
};
double move_ms(double bytes, double rate) { return bytes / rate * 1e-6; }
double copied_ms(double size, double uses, Rates r) { return move_ms(size, r.link) + move_ms(size * uses, r.memory); }
/// The number of reads from which copying first is faster; none where the link is no slower than the memory.
double reads_that_pay(Rates r) { return r.link < r.memory ? std::floor(1 / (1 - r.link / r.memory)) + 1 : INFINITY; }
std::string reads_on(double n) { return fixed(n, 0) + (n == 1 ? " read on" : " reads on"); }
void wait_for_device() { CUDA_CHECK(cudaDeviceSynchronize()); }

/// Copies words; their addresses tell which way.
void copy(unsigned* to, const unsigned* from, size_t n) { CUDA_CHECK(cudaMemcpy(to, from, 4 * n, cudaMemcpyDefault)); }
void add(unsigned* c, const unsigned* a, const unsigned* b, size_t n) {
  sum_arrays<<<unsigned((n + threads - 1) / threads), threads>>>(c, a, b, n);
  CUDA_CHECK_LAUNCH();
}
/// The sum of `n` words after `passes` over them. With a `buffer` they are copied into it first, piece after piece.
unsigned summed(const unsigned* in, size_t n, unsigned passes, const Words* buffer = nullptr) {
  unsigned sum = 0;
  CUDA_CHECK(cudaMemcpyToSymbol(total, &sum, sizeof sum));
  const size_t most = buffer ? buffer->size() : n;
  for (size_t first = 0; first < n; first += most) {
    const size_t words = std::min(most, n - first);
    if (buffer) copy(buffer->data(), in + first, words);
    read_passes<<<blocks, threads>>>(buffer ? buffer->data() : in, words, passes);
    CUDA_CHECK_LAUNCH();
  }
  CUDA_CHECK(cudaMemcpyFromSymbol(&sum, total, sizeof sum));
  return sum;
}
unsigned* device_pointer(unsigned* host) {
  unsigned* device = nullptr;
  CUDA_CHECK(cudaHostGetDevicePointer(&device, host, 0));
  return device;
}
/// Managed memory, written by the host.
using Managed = std::unique_ptr<unsigned, decltype(&cudaFree)>;
Managed managed(size_t n, size_t first = 0) {
  unsigned* data = nullptr;
  if (n) CUDA_CHECK(cudaMallocManaged(&data, n * sizeof(unsigned)));
  fill(data, n, first);
  return {data, cudaFree};
}
/// Brings it back: the host reads a word of each of its pages.
void touch(const Managed& words, size_t n) {
  for (size_t i = 0; i < n; i += 4096 / sizeof(unsigned)) *static_cast<volatile unsigned*>(words.get() + i);
}

/// What the host reads of a late write: at once, and after synchronising.
std::pair<int, int> late_write(int before, int written) {
  const PinnedBuffer<int> x(2, cudaHostAllocMapped);
  volatile int *const released = x.data(), *const value = released + 1;
  *released = 0;
  *value = before;
  write_late<<<1, 1>>>(released, value, written);
  CUDA_CHECK_LAUNCH();
  const int at_once = *value;
  *released = 1;
  wait_for_device();
  return {at_once, *value};
}

constexpr unsigned promised[] = {cudaHostAllocDefault, cudaHostAllocPortable, cudaHostAllocMapped};

/// The device's pointer is the host's. The sum by it must be right.
bool one_pointer(unsigned kind, size_t n) {
  const HostWords host(n, kind);
  unsigned* const device = device_pointer(host.data());
  fill(host.data(), n);
  require_right(summed(device, n, 1) == sum_of_passes(n, 1), "pinned host memory by its pointer");
  return device == host.data();
}

const Claim reads_claim{"02.5", "zero-copy is far slower than device memory for frequent use", "wiki", "no figure"};
const Claim pointer_claim{"02.6", "with unified addresses the device pointer need not be fetched", "wiki", "no figure"};

Table table_of(const Run& run, const std::string& rows) {
  const Column ms = measured("median ms", "time", "ms", 4), rate = measured("GB/s", "rate", "GB/s", 1);
  return {run.report, rows, {ms, shown("spread"), rate, predicted("by the rates", "time by rates", "ms", 4)}};
}
using Action = std::function<void()>;

/// Adds a row: host time of `go`, each time after `prepare`, once `is_right` has found it right.
Statistics row(const Run& run, Table& table, const Key& key, double bytes, Cell model, const Action& go,
               const std::function<bool()>& is_right, const Action& prepare) {
  prepare();
  const double once = host_ms(go);
  require_right(is_right(), key.name);
  // 10 ms a row, for there are fifty, but five repeats of what is small, and two of the rest. Above 15 ms the checked
  // run is one of the two, above 50 ms it is all: what came before has warmed up.
  const int most = run.measuring.repeats, least = std::min(bytes < 0x1p24 ? 5 : 2, most);
  const bool slow = once > 15 && !run.measuring.typed;
  std::vector<double> each(slow ? once < 50 : run.measuring.typed ? most : std::clamp(int(10 / once), least, most));
  for (double& ms : each) prepare(), ms = host_ms(go);
  if (slow) each.push_back(once);
  const Statistics ms = summarize(each);
  table.row(key, {ms, slow && once >= 50 ? "once" : spread_text(ms), gigabytes_per_second(bytes, ms), model});
  return ms;
}

/// The same for the sum of `reads` passes over `n` words, copied to `buffer` first if there is one.
Statistics sum_row(
    const Run& run, Table& table, const Key& key, Cell model, const unsigned* in, size_t n, unsigned reads,
    const Words* buffer = nullptr, const Action& prepare = [] {}) {
  unsigned sum = ~0u;
  const auto go = [&] { sum = summed(in, n, reads, buffer); };
  const auto is_right = [&] { return sum == sum_of_passes(n, reads); };
  return row(run, table, key, double(n) * sizeof(unsigned) * reads, model, go, is_right, prepare);
}

/// Two arrays added, from host arrays to a host array, over their size. The blocks hold three of the largest.
void over_size(const Run& run, const HostWords& host, const Words& device, Rates rates) {
  Table table = table_of(run, "c = a + b, bytes an array");
  const size_t most = host.size() / 3;
  unsigned *const a = host.data(), *const b = a + most, *const c = b + most, *const mapped = device_pointer(a);
  unsigned *const da = device.data(), *const db = da + most, *const dc = db + most;
  for (size_t n = 1024, last = 0; n != last; last = n, n = std::min(n * (run.full ? 4 : 16), most)) {
    const double bytes = double(n) * sizeof(unsigned), each_ms = move_ms(bytes, rates.link);
    const auto add_row = [&](const char* name, Cell model, unsigned* sums, const Action& go, const Action& prepare) {
      std::fill_n(sums, n, ~0u);
      const auto is_right = [&] { return right(sums, n, most); };
      row(run, table, {name, "array bytes", fixed(bytes, 0)}, 3 * bytes, model, go, is_right, prepare);
    };
    const auto copies = [&] { copy(da, a, n), copy(db, b, n), add(dc, da, db, n), copy(c, dc, n); };
    const auto by_device = [&] { add(mapped + 2 * most, mapped, mapped + most, n), wait_for_device(); };
    const auto by_host = [&] { add(c, a, b, n), wait_for_device(); };
    add_row("explicit copies", 3 * each_ms, c, copies, [] {});
    add_row("zero-copy, device pointer", 2 * each_ms, c, by_device, [] {});  // c goes the other way meanwhile
    add_row("zero-copy, host pointer", 2 * each_ms, c, by_host, [] {});
    if (!run.device->prop.managedMemory || bytes > 0x1p24 * (run.full ? 4 : 1)) continue;  // larger ones take too long
    const Managed ma = managed(n), mb = managed(n, most), mc = managed(n);
    const auto paged = [&] { add(mc.get(), ma.get(), mb.get(), n), wait_for_device(), touch(mc, n); };
    add_row("managed", {}, mc.get(), paged, [&] { touch(ma, n), touch(mb, n); });
  }
  table.print();
  fill(c, most, 2 * most);  // all of the block is input again
}

/// One array, larger than the L2, read 1 to 64 times, and what the claim says of it; a part of it that fits the L2.
void over_reads(const Run& run, const HostWords& host, Rates rates) {
  Table table = table_of(run, "one array, re-reads");
  const size_t l2 = std::max<size_t>(run.device->l2_bytes(), 1 << 20);
  const size_t bytes = std::min(host.bytes(), run.quick ? size_t(16) << 20 : 2 * l2), n = bytes / sizeof(unsigned);
  const size_t few = std::min(n, l2 / 64);  // words: a sixteenth of the L2
  const Words buffer(n);
  const Managed pages = managed(run.device->prop.managedMemory ? n : 0);
  Statistics local, copied, zero;
  double one_read = 0, pays = NAN;
  for (unsigned reads = 1; reads <= 64; reads *= run.full || reads == 1 ? 2 : reads == 2 ? 4 : 8) {
    const auto key = [&](const char* name) { return Key{name, "re-reads", std::to_string(reads)}; };
    const double once = double(bytes), all = once * reads;
    copied = sum_row(run, table, key("explicit copy"), copied_ms(once, reads, rates), host.data(), n, reads, &buffer);
    local = sum_row(run, table, key("device memory"), move_ms(all, rates.memory), buffer.data(), n, reads);
    zero = sum_row(run, table, key("zero-copy"), move_ms(all, rates.link), host.data(), n, reads);
    if (pages && (run.full || reads == 1 || reads == 64))  // its pages move once, so that the ends tell enough
      sum_row(run, table, key("managed"), {}, pages.get(), n, reads, nullptr, [&] { touch(pages, n); });
    if (reads == 1) one_read = zero.median / copied.median;
    if (std::isnan(pays) && copied.high < zero.low) pays = reads;
  }
  const double by_link = move_ms(64 * 4.0 * double(few), rates.link);
  const Statistics cached =
      sum_row(run, table, {"zero-copy, within L2", "re-reads", "64"}, by_link, host.data(), few, 64);
  table.print();
  run.report.note("what fits the L2 is read again over the link at " + times(by_link / cached.median) + " its rate" +
                  (by_link > 1.5 * cached.median ? ": from the L2" : ": the L2 does not keep it"));
  Judgement judged = judge_ratio(zero, local);
  judged.here = "64 reads take " + times(judged.value) + ", " + times(zero.median / copied.median) +
                " with the copy counted, one read " + times(one_read) + "; a copy pays from " + reads_on(pays) +
                " (predicted: from " + reads_on(reads_that_pay(rates)) + ")";
  run.report.claim(reads_claim, bytes > l2 * 3 / 2 ? judged : not_judged("the array fits in the L2 in this run"));
}

}  // namespace

void zero_copy(const Run& run) {
  const size_t wanted = size_t(1) << (run.quick ? 22 : run.full ? 26 : 24);  // words of the largest array
  const size_t n = run.device ? std::min({wanted, pinned_budget() / 12, Device::free_bytes() / 32}) : wanted;
  run.report.begin("zero_copy", "sums over pinned host memory, up to three arrays of " + bytes_text(4.0 * double(n)) +
                                    (n < wanted ? ", for no more is free" : ""));
  if (!run.device) {
    run.report.note("predicted for 50 GB/s over the link, 4000 in memory: 64 reads of 128 MiB in place or copied " +
                    fixed(move_ms(0x1p33, 50), 0) + " or " + fixed(copied_ms(0x1p27, 64, {50, 4000}), 1) + " ms");
    return run.report.left_out("sums by zero-copy, by copies, in managed memory", {reads_claim, pointer_claim});
  }
  const HostWords host(3 * n, cudaHostAllocMapped);
  fill(host.data(), host.size());
  const Words device(3 * n);
  const size_t half = 3 * n / 2;
  const Statistics in = time_host({.repeats = 5}, [&] { copy(device.data(), host.data(), half); });
  const Statistics within = time_device({.repeats = 5}, [&] { copy(device.data() + half, device.data(), half); });
  const Rates rates{4e-6 * double(half) / in.median, 8e-6 * double(half) / within.median};
  run.report.note("copies to the device " + fixed(rates.link, 1) + " GB/s, within it " + fixed(rates.memory, 0));
  over_size(run, host, device, rates);
  over_reads(run, host, rates);
  const Words budget(host.size() / 4);  // all of the device's memory that the next sums may have
  const double bytes = double(host.bytes()), model = move_ms(bytes, rates.link);
  Table table = table_of(run, "sum of " + bytes_text(bytes) + ", device budget " + bytes_text(bytes / 4));
  sum_row(run, table, {"budget, zero-copy in one launch"}, model, host.data(), host.size(), 1);
  sum_row(run, table, {"budget, copied in pieces"}, model, host.data(), host.size(), 1, &budget);
  table.print();
  const auto [at_once, after] = late_write(11, 22);
  run.report.note("a kernel writes 22 late: the host reads " + std::to_string(at_once) + " at once, " +
                  std::to_string(after) + " once synchronised");
  const long same = std::count_if(promised, promised + 3, [](unsigned kind) { return one_pointer(kind, 100003); });
  const std::string found = std::to_string(same) + " of 3 kinds, with right sums; not promised, write-combined: ";
  const bool combined = one_pointer(cudaHostAllocWriteCombined, 100003);
  run.report.claim(pointer_claim, judge_fact(same == 3, found + (combined ? "yes" : "no")));
}

// ---- self-checks ----------------------------------------------------------------------------------------------------

TEST_CASE("zero_copy: model and reference") {
  unsigned sum = 0;
  for (size_t n = 0; n < 1000; sum += word(n++)) CHECK(sum_of_passes(n, 3) == sum * (1 + 2 + 3));
  CHECK(copied_ms(4e6, 2, {4, 40}) == doctest::Approx(1.2));  // 1 ms over the link, 2 x 0.1 in memory
  CHECK((reads_that_pay({50, 4000}) == 2 && reads_that_pay({300, 400}) == 5 && reads_that_pay({5, 9}) == 3));
}

TEST_CASE("zero_copy: sums are right by every pointer") {
  if (skip_without_gpu()) return;
  for (size_t n : {1, 31, 257, 65537, 1500007}) {  // the last is more than one grid
    CAPTURE(n);
    const HostWords host(3 * n, cudaHostAllocMapped);
    unsigned *const in = host.data(), *const mapped = device_pointer(in);
    fill(in, 2 * n);
    for (unsigned* base : {in, mapped}) {
      std::fill_n(in + 2 * n, n, ~0u);
      add(base + 2 * n, base, base + n, n), wait_for_device();
      CHECK(right(in + 2 * n, n, n));
    }
    const Words local(n), buffer(n / 3 + 1);
    copy(local.data(), in, n);
    for (const unsigned* words : {in, mapped, local.data()}) CHECK(summed(words, n, 5) == sum_of_passes(n, 5));
    CHECK(summed(in, n, 1, &buffer) == sum_of_passes(n, 1));  // each piece once
    for (unsigned kind : promised) CHECK(one_pointer(kind, n));
    CHECK_NOTHROW(one_pointer(cudaHostAllocWriteCombined, n));
  }
}

TEST_CASE("zero_copy: the host reads a late write once it has synchronised") {
  if (skip_without_gpu()) return;
  const auto [at_once, after] = late_write(-3, 7);
  if (after < 0) return skip_self_check("launches wait for their kernels");
  CHECK(at_once == -3);
  CHECK(after == 7);
}
