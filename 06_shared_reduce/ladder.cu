// ladder: the sum of n words, from the text's three reductions to one launch as fast as memory. The text says that a
// strided index without divergence beats the divergent version, and that descending strides without bank conflicts beat
// both. Look at the second row: the same divergent threads as in the first, without the division that % costs. Then
// at how much is left after the text's last version, and at what the order of the additions does to a float sum.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <climits>
#include <memory>

#include "../common/first_edition.hpp"
#include "ladder_rungs.cuh"

// in ladder_cub.cu
void cub_sum(void* scratch, size_t& scratch_bytes, const float* in, float* out, int n, cudaStream_t stream);
void cub_sum(void* scratch, size_t& scratch_bytes, const int* in, int* out, int n, cudaStream_t stream);

namespace {

/// Result and scratch memory for up to `n` words on the current device, or as if it had `sms` multiprocessors.
template <class T>
struct Work {
  cudaDeviceProp prop{};
  unsigned sms;
  DeviceBuffer<T> out{1}, partial;
  DeviceBuffer<Slot> slots;
  DeviceBuffer<char> for_library;

  explicit Work(size_t n, unsigned as_if = 0) : partial(n / 255 + 8) {  // a 256th, and a 256th of that
    int device = 0;
    CUDA_CHECK(cudaGetDevice(&device));
    CUDA_CHECK(cudaGetDeviceProperties(&prop, device));
    sms = as_if ? as_if : unsigned(prop.multiProcessorCount);
    slots = DeviceBuffer<Slot>(tile_blocks(n, sms));
    CUDA_CHECK(cudaMemset(slots.data(), 0, slots.bytes()));
    size_t bytes = 0;
    cub_sum(nullptr, bytes, out.data(), out.data(), int(std::min<size_t>(n, INT_MAX)), nullptr);
    for_library = DeviceBuffer<char>(bytes);
  }
};

/// Queues the whole sum: when it has run, `work.out` holds the result.
template <class T>
void sum(const Rung<T>& rung, const T* in, size_t n, const Work<T>& work, cudaStream_t stream = nullptr) {
  T *out = work.out.data(), *partial = work.partial.data();
  if (!rung.words) {
    size_t bytes = work.for_library.bytes();
    return cub_sum(work.for_library.data(), bytes, in, out, int(n), stream);
  }
  for (size_t blocks : launches(rung, n, work.sms))
    if (rung.kernel) {
      T* to = blocks == 1 ? out : partial;
      rung.kernel<<<unsigned(blocks), block_threads, 0, stream>>>(in, n, to);
      in = to, n = blocks, partial += blocks;
    } else {
      const auto kernel = n * sizeof(T) > size_t(work.prop.l2CacheSize) ? sum_once<T, true> : sum_once<T, false>;
      kernel<<<unsigned(blocks), tile_threads, 0, stream>>>(in, n, out, work.slots.data());
    }
  CUDA_CHECK_LAUNCH();
}

// ---- data and what is right -----------------------------------------------------------------------------------------

/// `whole`: odd numbers on both sides of zero, so small that a float holds every partial sum exactly and each order
/// gives the same. `fractions`: multiples of 2^-24 from 0 to 1, whose float sums round. Ints are whole in both.
enum class Data { whole, fractions };

template <class T>
__host__ __device__ T element(Data data, size_t i) {
  unsigned h = unsigned(i) + unsigned(i >> 32) * 0x9e3779b9u;
  h = (h ^ (h >> 16)) * 0x7feb352du;
  h = (h ^ (h >> 15)) * 0x846ca68bu;
  h ^= h >> 16;
  if (std::is_same_v<T, int>) return T(int(h % 4096) * 2 - 4095);
  return T(data == Data::whole ? float(int(h % 16) * 2 - 15) : float(h >> 8) * 0x1p-24f);
}
/// Sums are exact in units of the last digit that elements have.
template <class T>
constexpr float units = std::is_same_v<T, int> ? 1 : 0x1p24f;

template <class T>
__global__ void fill(T* out, size_t n, Data data) {
  for (size_t i = global_index(); i < n; i += gridDim.x * size_t(blockDim.x)) out[i] = element<T>(data, i);
}
template <class T>
long long host_units(Data data, size_t n, size_t from) {
  long long sum = 0;
  for (size_t i = from; i < from + n; ++i) sum += (long long)(element<T>(data, i) * units<T>);
  return sum;
}
// The reference for sizes that would take the host seconds: one 64-bit atomic a thread. Proved against the host's.
template <class T>
__global__ void add_units(const T* in, size_t n, unsigned long long* sum) {
  long long mine = 0;
  for (size_t i = global_index(); i < n; i += gridDim.x * size_t(blockDim.x)) mine += (long long)(in[i] * units<T>);
  atomicAdd(sum, (unsigned long long)(mine));
}
template <class T>
long long device_units(const T* in, size_t n) {
  DeviceBuffer<unsigned long long> sum(1);
  CUDA_CHECK(cudaMemset(sum.data(), 0, sum.bytes()));
  add_units<<<1024, 256>>>(in, n, sum.data());
  CUDA_CHECK_LAUNCH();
  return (long long)(sum.to_host()[0]);
}

/// The result of one run over poisoned memory.
template <class T>
T result(const Rung<T>& rung, const T* in, size_t n, Work<T>& work) {
  work.out.poison();
  work.partial.poison();
  sum(rung, in, n, work);
  return work.out.to_host()[0];
}
/// Bound of a float sum's error as a share of the sum of magnitudes: an element is rounded once in each of k additions,
/// by at most u = 2^-24 of what it is part of, and (1 + u)^k - 1 <= ku / (1 - ku).
double error_bound(double k) { return k * 0x1p-24 / (1 - k * 0x1p-24); }
/// Exact sums must be met, sums of fractions within the rung's bound. The library's order is unknown: n roundings.
template <class T>
bool is_right(const Rung<T>& rung, T got, size_t n, long long exact, Data data, unsigned sms) {
  const double expected = double(exact) / units<T>;
  if (std::is_same_v<T, int> || data == Data::whole) return got == T(expected);
  const double bound = rung.words ? error_bound(additions(rung, n, sms)) : double(n) * 0x1p-24;
  return std::abs(double(got) - expected) <= bound * expected;
}
/// Throws unless every sum of each size, from each offset in words on, is right, and the same bits when run again.
/// Leaves `words` filled with fractions.
template <class T>
void require_sums(const std::vector<Rung<T>>& which, const DeviceBuffer<T>& words, const std::vector<size_t>& sizes,
                  const std::vector<size_t>& offsets, Work<T>& work) {
  for (Data data : {Data::whole, Data::fractions}) {
    fill<<<1024, 256>>>(words.data(), words.size(), data);
    CUDA_CHECK_LAUNCH();
    for (size_t n : sizes)
      for (size_t offset : offsets) {
        const T* in = words.data() + offset;
        const long long exact = device_units(in, n);
        if (n < size_t(1) << 24) require_right(exact == host_units<T>(data, n, offset), "the reference");
        for (const Rung<T>& rung : which) {
          const T got = result(rung, in, n, work), again = result(rung, in, n, work);
          const std::string what =
              std::string(rung.name) + ", " + std::to_string(n) + " words from " + std::to_string(offset);
          require_right(is_right(rung, got, n, exact, data, work.sms), what);
          require_right(std::bit_cast<unsigned>(again) == std::bit_cast<unsigned>(got), what + ", run again");
        }
      }
  }
}
/// All rungs, but CUB only for as many words as an int counts.
template <class T>
std::vector<Rung<T>> rungs_for(size_t n) {
  return {rungs<T>, rungs<T> + (n <= INT_MAX ? 10 : 9)};
}

// ---- the experiment -------------------------------------------------------------------------------------------------

/// Milliseconds of one sum between two events, its launches queued by the host like a caller's.
template <class T>
Statistics time_sum(const Run& run, const Rung<T>& rung, const T* in, size_t n, const Work<T>& work) {
  return time_device(run.measuring, [&] { sum(rung, in, n, work); });
}
/// The same of many sums recorded in a graph, which the device starts one after the other without the host.
template <class T>
Statistics time_replayed(const Run& run, const Rung<T>& rung, const T* in, size_t n, const Work<T>& work, double once) {
  const int copies = int(std::clamp((run.quick ? 0.5 : 2) / once, 1.0, 200.0));  // 2 ms: its start hardly counts
  Stream stream;
  cudaGraph_t graph;
  cudaGraphExec_t runnable;
  CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  for (int i = 0; i < copies; ++i) sum(rung, in, n, work, stream);
  CUDA_CHECK(cudaStreamEndCapture(stream, &graph));
  const std::unique_ptr<CUgraph_st, decltype(&cudaGraphDestroy)> owner(graph, cudaGraphDestroy);
  CUDA_CHECK(cudaGraphInstantiate(&runnable, graph, 0));
  const std::unique_ptr<CUgraphExec_st, decltype(&cudaGraphExecDestroy)> executable(runnable, cudaGraphExecDestroy);
  return scaled(time_device(run.measuring, [&] { CUDA_CHECK(cudaGraphLaunch(runnable, nullptr)); }), 1.0 / copies);
}

size_t typed_size = 0;
const Claim beats_divergent{"06.1", "strided indices without divergence beat the divergent version", "vendor's guide",
                            "no figure"};
const Claim beats_both{"06.2", "descending strides without bank conflicts beat both", "vendor's guide", "no figure"};

/// One row a rung: what it needs, and how far its sum is off at most, and here (NaN where not measured).
void order_row(Table& table, const Rung<float>& rung, size_t n, unsigned sms, double error) {
  table.row(Key{rung.name}, {double(launches(rung, n, sms).size()), scratch_bytes(rung, n, sms),
                             additions(rung, n, sms), 1e9 * error_bound(additions(rung, n, sms)), 1e9 * error});
}

template <class T>
std::vector<Statistics> time_rungs(const Run& run, size_t n, Table& orders, Table& table) {
  const char* type = std::is_same_v<T, int> ? "int" : "float";
  Work<T> work(n);
  const DeviceBuffer<T> words(n);
  const std::vector<Rung<T>> all = rungs_for<T>(n);
  require_sums(all, words, {n}, {0}, work);
  const double right = double(device_units(words.data(), n)) / units<T>;
  std::vector<Statistics> ms;
  for (const Rung<T>& rung : all) {
    const double error = std::abs(double(result(rung, words.data(), n, work)) - right) / right;
    if constexpr (std::is_same_v<T, float>)
      if (rung.words) order_row(orders, rung, n, work.sms, error);
    ms.push_back(time_sum(run, rung, words.data(), n, work));
  }
  for (size_t r = 0; r < all.size(); ++r) {
    const Statistics gbs = gigabytes_per_second(double(n) * sizeof(T), ms[r]);
    const double share = run.device->theoretical_gbs > 0 ? gbs.median / run.device->theoretical_gbs : NAN;
    const std::string of_library = n <= INT_MAX ? times(ms[9].median / ms[r].median) : "-";
    table.row(Key{all[r].name, "type", type},
              {scaled(ms[r], 1e3), spread_text(ms[r]), gbs, percent(share), of_library, bar(share)});
  }
  return ms;
}

template <class T>
void time_sizes(const Run& run, const std::vector<size_t>& sizes, Table& table) {
  const char* type = std::is_same_v<T, int> ? "int" : "float";
  Work<T> work(sizes.back());
  const DeviceBuffer<T> words(sizes.back());
  require_sums<T>({rungs<T>[best], rungs<T>[library]}, words, sizes, {0}, work);
  for (size_t n : sizes) {
    const double bytes = double(n) * sizeof(T), l2 = double(run.device->l2_bytes());
    const Statistics ours = time_sum(run, rungs<T>[best], words.data(), n, work);
    const Statistics theirs = time_sum(run, rungs<T>[library], words.data(), n, work);
    const Statistics replayed = time_replayed(run, rungs<T>[best], words.data(), n, work, ours.median);
    const Statistics their_replayed = time_replayed(run, rungs<T>[library], words.data(), n, work, theirs.median);
    const Statistics gbs = gigabytes_per_second(bytes, ours);
    const std::string where = bytes <= l2 ? "L2" : bytes <= 4 * l2 ? "partly L2" : "memory";
    const double share = run.device->theoretical_gbs > 0 ? gbs.median / run.device->theoretical_gbs : NAN;
    table.row(Key{type, "n", std::to_string(n)},
              {scaled(ours, 1e3), spread_text(ours), gbs, fixed(100 * share, 1) + "%", scaled(theirs, 1e3),
               spread_text(theirs), times(theirs.median / ours.median), scaled(replayed, 1e3),
               scaled(their_replayed, 1e3), times(their_replayed.median / replayed.median), where,
               scratch_bytes(rungs<T>[best], n, work.sms), double(work.for_library.bytes())});
  }
}

}  // namespace

void set_ladder_size(size_t elements) { typed_size = elements; }

void ladder(const Run& run) {
  // beyond the L2 of any GPU so far
  size_t n = typed_size ? typed_size : run.quick ? size_t(1) << 26 : size_t(1) << 28;
  // the words, the text's partial sums (less than 1/254 of them), and what allocations round up to
  const auto bytes_needed = [](size_t n) { return 4.0 * double(n) * (1 + 1.0 / 254) + (16 << 20); };
  const double free = run.device ? double(Device::free_bytes()) : INFINITY;
  if (typed_size) require_fits("--size " + std::to_string(n), bytes_needed(n), free);
  while (bytes_needed(n) > free && n > 1) n /= 2;
  run.report.begin("ladder",
                   "sum of " + std::to_string(n) + " words, " + bytes_text(4.0 * double(n)) + ", to the one result");
  Table orders(run.report, "order of the float sum",
               {predicted("launches", "launches", "1", 0), predicted("scratch bytes", "scratch", "B", 0),
                predicted("additions in a row", "depth", "1", 0), predicted("bound 1e-9", "error bound", "1e-9", 1),
                measured("error 1e-9", "error", "1e-9", 1)});
  if (!run.device) {
    for (const Rung<float>& rung : rungs<float>)
      if (rung.words) order_row(orders, rung, n, 132, NAN);
    orders.print();
    run.report.note("predicted for 132 multiprocessors");
    return run.report.left_out("all sums and times, the library, and the sizes", {beats_divergent, beats_both});
  }
  Table table(run.report, "kernel",
              {measured("median us", "time", "us", 1), shown("spread"), measured("GB/s", "bandwidth", "GB/s", 0),
               shown("of theory"), shown("of CUB"), shown("")});
  const std::vector<Statistics> ms = time_rungs<float>(run, n, orders, table);
  time_rungs<int>(run, n, orders, table);
  orders.print();
  run.report.note("error: a share of the sum; each row's order is fixed, so every run gives the same bits");
  table.print();

  std::vector<size_t> sizes;
  for (int power = 20; power <= (run.quick ? 24 : 30); power += run.full ? 1 : 2)
    for (size_t size : {size_t(1) << power, (size_t(1) << power) + 1})
      if (!typed_size && bytes_needed(size) <= free) sizes.push_back(size);
  if (n > INT_MAX) run.report.note("without CUB: its count is an int here, as every version of it takes one");
  if (!sizes.empty()) {
    Table by_size(run.report, "one launch: words",
                  {measured("median us", "time", "us", 2), shown("spread"), measured("GB/s", "bandwidth", "GB/s", 0),
                   shown("of theory"), measured("CUB us", "CUB time", "us", 2), shown("spread"), shown("of CUB"),
                   measured("replayed us", "replayed time", "us", 2), measured("CUB us", "CUB replayed time", "us", 2),
                   shown("of CUB"), shown("data in"), predicted("scratch bytes", "scratch", "B", 0),
                   counted("CUB's", "CUB scratch", "B", 0)});
    time_sizes<float>(run, sizes, by_size);
    time_sizes<int>(run, sizes, by_size);
    by_size.print();
    run.report.note("median: one call between two events, with what the host takes to launch: once here, twice in CUB");
    run.report.note(
        "replayed: many calls in a graph, which starts kernels without the host, so that two cost little more");
  }

  const Statistics &modulo = ms[0], &mask = ms[1], &strided = ms[2], &descending = ms[3];
  const auto judge = [&](const Claim& claim, const Statistics& rival, const Statistics& changed,
                         const std::string& here) {
    Judgement j = judge_ratio(rival, changed);
    j.here = here;
    run.report.claim(claim, 4 * n > run.device->l2_bytes() ? j : not_judged("the words fit in the L2"));
  };
  const auto faster = [](const Statistics& a, const Statistics& b) { return a.median < b.median ? a : b; };
  const auto ratio = [](const Statistics& a, const Statistics& b) { return times(a.median / b.median); };
  // the divergent version is beaten if both of its forms are: otherwise the gain was the division's, not divergence's
  judge(beats_divergent, faster(modulo, mask), strided,
        ratio(modulo, strided) + " as fast as with %, " + ratio(mask, strided) + " as with a mask");
  judge(beats_both, faster(faster(modulo, mask), strided), descending,
        ratio(modulo, descending) + " as fast as with %, " + ratio(mask, descending) + " as with a mask, " +
            ratio(strided, descending) + " as the strided index");
}

// ---- self-checks ----------------------------------------------------------------------------------------------------

TEST_CASE("ladder: cutting for 16-byte loads loses no word") {
  for (size_t offset = 0; offset < 64; ++offset)
    for (size_t n : {0, 1, 2, 3, 4, 5, 31, 32, 33, 127, 1023, 1025}) {
      const Cut c = cut(4096 + 4 * offset, n);
      CHECK(c.head + 4 * c.fours + c.tail == n);
      CHECK(std::max(c.head, 8 * c.tail) < 32);
      if (c.fours > 0) CHECK((4 * offset + 4 * c.head) % 128 == 0);
    }
}

TEST_CASE("ladder: launches and scratch and additions of the rungs") {
  const size_t n = size_t(1) << 28;
  using Blocks = std::vector<size_t>;
  CHECK(launches(rungs<float>[0], n, 132) == Blocks{1 << 20, 1 << 12, 16, 1});
  CHECK(launches(rungs<float>[4], n + 1, 132) == Blocks{(1 << 19) + 1, 1025, 3, 1});
  CHECK(launches(rungs<float>[7], n, 132) == Blocks{1056, 1});
  CHECK(launches(rungs<float>[best], n, 132) == Blocks{n / 16384 / 4});
  CHECK(launches(rungs<float>[best], 16384 * 100 + 1, 132) == Blocks{101});
  CHECK(scratch_bytes(rungs<float>[0], n, 132) == 4 * ((1 << 20) + (1 << 12) + 16));
  CHECK(scratch_bytes(rungs<float>[best], n, 132) == 8 * double(n / 16384 / 4));
  CHECK(additions(rungs<float>[3], n, 132) == 4 * 8);
  CHECK(additions(rungs<float>[6], size_t(1000) * 1056 * 256, 132) == 1000 + 8 + 5 + 8);
  CHECK(additions(rungs<float>[best], n, 132) == 4 * 8 + 4 + 10 + 4096 / 512 + 10);
  for (const auto& rung : rungs<float>)
    for (size_t few : {0, 1, 2, 255, 256}) CHECK(launches(rung, few, 132) == Blocks{1});
}

TEST_CASE("ladder: the worst chain of additions meets the error bound and hardly") {
  volatile float chain = 1;
  for (int i = 0; i < 1000; ++i) chain = chain + 0x1p-24f;  // half of the last digit of 1: rounded away each time
  const double exact = 1 + 1000 * 0x1p-24, error = exact - chain;
  CHECK(error <= error_bound(1000) * exact);
  CHECK_FALSE(error <= error_bound(990) * exact);
}

template <class T>
static void check_rungs(const std::vector<size_t>& sizes, const std::vector<size_t>& offsets, unsigned sms = 0) {
  Work<T> work(sizes.back(), sms);
  const DeviceBuffer<T> words(sizes.back() + 4);
  CHECK_NOTHROW(require_sums(rungs_for<T>(sizes.back()), words, sizes, offsets, work));
}

TEST_CASE("ladder: every rung is right at awkward sizes and alignments") {
  if (skip_without_gpu()) return;
  // as if on one multiprocessor, so that few words are more than one grid: a sanitizer is to watch all this
  const std::vector<size_t> sizes{0, 1, 2, 31, 32, 33, 1009, 1023, 1025, 32768 + 35};
  check_rungs<float>(sizes, {0, 1}, 1);
  check_rungs<int>(sizes, {0, 3}, 1);
  check_rungs<float>({1025}, {2, 3}, 1);
  check_rungs<int>({1025}, {1, 2}, 1);
}

TEST_CASE("ladder: large: every rung is right beyond one grid") {
  if (skip_without_gpu()) return;
  const std::vector<size_t> sizes{3, 127, 257, 16385, 65537, 1000003, 5000011};
  check_rungs<float>(sizes, {0, 1, 2, 3});
  check_rungs<int>(sizes, {0, 1, 2, 3});
}

TEST_CASE("ladder: large: every rung is right beyond the L2 and up to 2^31 + 7 words") {
  if (skip_without_gpu()) return;
  const size_t beyond_l2 = (size_t(1) << 26) + 12345, beyond_int = (size_t(1) << 31) + 7;
  if (double(Device::free_bytes()) < 4.1 * double(beyond_int)) return skip_self_check("needs 8.2 GiB of device memory");
  check_rungs<float>({beyond_l2}, {0, 1});
  check_rungs<int>({beyond_l2}, {0, 3});
  check_rungs<float>({beyond_int}, {0, 1});
  check_rungs<int>({beyond_int}, {0, 3});
}
