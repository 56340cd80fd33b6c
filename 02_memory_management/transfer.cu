// transfer: copies between the GPU and each kind of host memory. A copy engine can follow only pages that stay where
// they are, so copies of ordinary (pageable) memory go through a pinned buffer of the driver. The texts say that pinned
// memory is much faster, that write-combined memory is faster still but slow for the host to read, and (in 2007) that a
// card is read back at about 1 GB/s. Look at the largest copies, the size at half of the peak, the cost of pinning.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <numeric>
#include <optional>

#include "../common/host_threads.hpp"
#include "host_memory.hpp"
#include "options.hpp"
#include "pcie_link.hpp"

namespace {

constexpr size_t kib = 1024, mib = kib * kib, period = 1048573;  // prime: a copy off by words or pages is seen

/// Byte `i` of what is copied in a round. From one round to the next two every byte changes: none can be left over.
__host__ __device__ unsigned char pattern(size_t i, unsigned round) {
  return static_cast<unsigned char>((unsigned(i % period) + 1 + round) * 2654435761u >> 24);
}

// Each warp writes 32 neighbouring bytes of the pattern, or reads them to find one that is wrong; then on by the grid.
__global__ void put_or_compare(unsigned char* data, size_t n, unsigned round, int* wrong) {
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x)
    if (!wrong)
      data[i] = pattern(i, round);
    else if (data[i] != pattern(i, round))
      *wrong = 1;
}

void launch(unsigned char* device, size_t n, unsigned round, int* wrong = nullptr) {
  put_or_compare<<<unsigned(std::min<size_t>(n / 256 + 1, 1024)), 256>>>(device, n, round, wrong);
  CUDA_CHECK_LAUNCH();
}
bool is_there(unsigned char* device, size_t n, unsigned round) {
  DeviceBuffer<int> wrong(std::vector<int>{0});
  launch(device, n, round, wrong.data());
  return wrong.to_host()[0] == 0;
}

constexpr unsigned from_malloc = ~0u;
enum { i_pageable, i_pinned, i_combined = 4, i_registered, kind_count };
const std::string kinds[] = {"pageable", "cudaMallocHost", "portable", "mapped", "write-combined", "registered"};
const unsigned flags_of[] = {from_malloc,         cudaHostAllocDefault,       cudaHostAllocPortable,
                             cudaHostAllocMapped, cudaHostAllocWriteCombined, from_malloc};

/// `n` bytes of kind `k`, every page touched; registered by the caller. A refusal names the bytes.
std::unique_ptr<unsigned char, void (*)(void*)> allocate(int k, size_t n) {
  const std::string what = "allocating " + bytes_text(double(n)) + " of host memory (" + kinds[k] + ")";
  const unsigned flags = flags_of[k];
  void* p = flags == from_malloc ? std::malloc(n) : nullptr;
  if (flags != from_malloc)
    check_cuda(k == i_pinned ? cudaMallocHost(&p, n) : cudaHostAlloc(&p, n, flags), what.c_str(), __FILE__, __LINE__);
  if (!p) throw std::runtime_error(what + " failed");
  std::unique_ptr<unsigned char, void (*)(void*)> memory(
      static_cast<unsigned char*>(p), flags == from_malloc ? std::free : [](void* q) { cudaFreeHost(q); });
  on_threads(8, [=](size_t part) {  // no host has pages of less than 4 KiB; one thread would take long
    for (size_t i = n / 8 * part; i < (part == 7 ? n : n / 8 * (part + 1)); i += 4096) static_cast<char*>(p)[i] = 1;
  });
  return memory;
}

enum Direction { to_device, to_host, both_ways };
const std::string direction_names[] = {"host to device", "device to host", "both ways"};

/// Bytes of `n` that go to the device: all, none, or the first half, while the others go to the host at the same time.
size_t bytes_up(Direction d, size_t n) { return d == to_device ? n : d == to_host ? 0 : n / 2; }

/// The two ends of all copies, and a stream for each way, which waits for the default stream as that does for it.
struct Ends {
  unsigned char *host, *device;
  unsigned round = 0;  // of the pattern
  cudaStream_t up = nullptr, down = nullptr;
  Ends(unsigned char* host, unsigned char* device) : host(host), device(device) {
    for (cudaStream_t* way : {&up, &down}) CUDA_CHECK(cudaStreamCreate(way));
  }
  Ends(Ends&&) = delete;
  ~Ends() { cudaStreamDestroy(up), cudaStreamDestroy(down); }
};

void queue(const Ends& ends, Direction d, size_t n) {
  const size_t up = bytes_up(d, n);
  if (up) CUDA_CHECK(cudaMemcpyAsync(ends.device, ends.host, up, cudaMemcpyHostToDevice, ends.up));
  if (up < n) CUDA_CHECK(cudaMemcpyAsync(ends.host + up, ends.device + up, n - up, cudaMemcpyDeviceToHost, ends.down));
}

/// Copies and waits: cudaMemcpy from pageable memory returns when all is staged, which is before it has arrived.
void copy(const Ends& ends, Direction d, size_t n) {
  if (d == to_device) CUDA_CHECK(cudaMemcpy(ends.device, ends.host, n, cudaMemcpyHostToDevice));
  if (d == to_host) CUDA_CHECK(cudaMemcpy(ends.host, ends.device, n, cudaMemcpyDeviceToHost));
  if (d == both_ways) queue(ends, d, n);
  CUDA_CHECK(cudaDeviceSynchronize());
}

/// The milliseconds that `time(direction)` gives. What goes up came down before, new in each round, so that the device
/// finds what is wrong on either way: the host may be slow to read. Only what comes down in `both` is sent up for that.
template <class Time>
std::array<Statistics, 3> checked(Ends& ends, size_t n, bool both, Time&& time) {
  std::array<Statistics, 3> ms;
  const unsigned round = ends.round += 2;
  for (Direction d : {to_host, to_device, both_ways}) {
    if (d == both_ways && !both) break;
    const size_t up = bytes_up(d, n), down = n - up;
    launch(ends.device + up, down, round + (d == both_ways));
    CUDA_CHECK(cudaMemset(ends.device, 0xff, up));
    CUDA_CHECK(cudaDeviceSynchronize());
    ms[d] = time(d);
    bool right = is_there(ends.device, up, round);
    if (d == both_ways) {
      CUDA_CHECK(cudaMemset(ends.device + up, 0xff, down));
      CUDA_CHECK(cudaMemcpy(ends.device + up, ends.host + up, down, cudaMemcpyHostToDevice));
      right &= is_there(ends.device + up, down, round + 1);
    }
    require_right(right, direction_names[d] + ", " + std::to_string(n) + " bytes");
  }
  return ms;
}

/// Bytes at which half of the best rate is reached, if a copy's time grows linearly from one size to the next; the
/// smallest size if that is fast enough.
double half_of_peak(const std::vector<size_t>& sizes, const std::vector<Statistics>& gbs) {
  double half = 0;
  for (size_t i = 0; i < sizes.size(); ++i) half = std::max(half, gbs[i].median / 2);
  size_t i = 0;
  while (gbs[i].median < half) ++i;
  if (i == 0) return double(sizes[0]);
  const double before = double(sizes[i - 1]), after = double(sizes[i]), ns = before / gbs[i - 1].median;
  const double slope = (after / gbs[i].median - ns) / (after - before);
  return half * (ns - slope * before) / (1 - half * slope);
}

const Claim pinned_claim{"02.2", "pinned transfers are much faster than pageable ones", "wiki, guide", "no figure"};
const Claim combined_claim{"02.3", "write-combined memory transfers faster, is slow to read", "wiki", "no figure"};
const Claim read_back_claim{"02.9", "a card is read back at about 1 GB/s", "8800 GTX", "1 GB/s"};

}  // namespace

void transfer(const Run& run, const Options& options) {
  const size_t room = run.device ? std::min(Device::free_bytes(), pinned_budget()) : ~size_t(0);
  size_t largest = options.size ? options.size : run.quick ? 16 * mib : 1024 * mib;
  if (options.size) require_fits("--size, pinned and on the GPU,", double(largest), double(room));
  while (!options.size && largest > room / 2) largest /= 2;
  const std::string size = bytes_text(double(largest)) + " (" + std::to_string(largest) + " bytes)";
  run.report.begin("transfer", "copies of up to " + size + "; both ways: half of the bytes each, at the same time");
  Table links(run.report, "16 lanes", {predicted("GB/s each way", "limit", "GB/s", 1), shown("read back then")});
  for (int g = 1; g <= 6; ++g)
    links.row({"PCIe " + std::to_string(g)}, {link_gbs(g < 3 ? 2.5 * g : 1 << g, 16), g == 1 ? "about 1 (2007)" : ""});
  links.print();
  if (!run.device) return run.report.left_out("all copies", {pinned_claim, combined_claim, read_back_claim});

  std::vector<size_t> sizes{largest};
  for (size_t n = kib; n < largest; n *= 4) sizes.insert(sizes.end() - 1, n);
  const size_t piece = std::min(largest, 64 * mib);  // a larger copy gains little, and pinning more takes long
  const Measuring few{run.measuring.typed ? run.measuring.repeats : 2, run.measuring.typed};
  const Measuring single{run.measuring.repeats, run.measuring.typed, 6};
  const DeviceBuffer<unsigned char> device(largest);
  // of single copies of each size, and of queued ones of `piece`
  std::array<std::vector<Statistics>, 3> gbs[kind_count];
  Statistics host_reads[kind_count], pinning;
  Table host(run.report, "by the host",
             {measured("written GB/s", "host writes", "GB/s", 2), measured("read", "host reads", "GB/s", 2),
              measured("to register and undo, ms/GiB", "registering", "ms/GiB", 1)});
  for (int k = 0; k < kind_count; ++k) {
    const size_t most = k <= i_pinned || run.full || options.size ? largest : piece;
    const auto memory = allocate(k, most);
    std::optional<Registration> registration;  // ends before the memory does
    if (k == i_registered) pinning = time_host(few, [&] { Registration(memory.get(), piece); });
    if (k == i_registered) registration.emplace(memory.get(), most);
    Ends ends(memory.get(), device.data());
    for (size_t i = 0; i <= sizes.size(); ++i) {  // above 256 MiB nothing pageable both ways: it would take too long
      const bool queued = i == sizes.size();
      const size_t n = queued ? piece : sizes[i];
      std::array<Statistics, 3> ms;
      if (queued ? k != i_pageable : n <= most)  // what is pageable the host stages within the call
        ms = checked(ends, n, k != i_pageable || n <= 256 * mib, [&](Direction d) {
          if (queued) return time_device(few, [&] { queue(ends, d, n); }, {.launches = 8});
          const auto once = [&] { copy(ends, d, n); };
          // a larger one takes long, varies little, and is warmed up by the smaller
          return n > piece && !few.typed ? summarize({host_ms(once)}) : time_host(single, once);
        });
      for (Direction d : {to_device, to_host, both_ways}) {
        gbs[k][d].push_back(ms[d].repeats ? gigabytes_per_second(double(n), ms[d]) : ms[d]);
        const Statistics& rate = gbs[k][d].back();
        const std::string metric = (queued ? "queued " : "") + direction_names[d];
        if (rate.repeats)
          run.report.save({"", kinds[k], "bytes", std::to_string(n), "measured", metric, "GB/s", rate.median, rate.low,
                           rate.high, rate.repeats});
      }
    }
    if ((k != i_pinned && k != i_combined) || piece < 128) continue;
    const size_t n = piece / 128;  // words in a sixteenth, 4 MiB: where writes are combined reading is slow
    size_t* const words = reinterpret_cast<size_t*>(ends.host);
    const auto read = [=] { require_right(std::accumulate(words, words + n, 0ul) == n * (3 * n - 1) / 2, "a sum"); };
    const Statistics written = time_host(run.measuring, [=] { std::iota(words, words + n, n); });
    host_reads[k] = gigabytes_per_second(8.0 * double(n), time_host(run.measuring, read));
    host.row({kinds[k]}, {gigabytes_per_second(8.0 * double(n), written), host_reads[k], {}});
  }
  const double link = link_gbs(run.device->prop);  // it has been at work until now
  for (Direction d : {to_device, to_host, both_ways}) {
    std::vector<Column> columns;
    for (const std::string& kind : kinds) columns.push_back(shown(kind));
    Table table(run.report, direction_names[d] + ", GB/s", columns);
    for (size_t i = 0; i <= sizes.size(); ++i) {
      std::vector<Cell> cells;
      for (const auto& of : gbs) cells.push_back(of[d][i].repeats ? fixed(of[d][i].median, 2) : "-");
      table.row({i < sizes.size() ? bytes_text(double(sizes[i])) : "8 queued, " + bytes_text(double(piece))}, cells);
    }
    std::vector<Cell> half;
    for (int k = 0; k < kind_count; ++k) {
      const double at = half_of_peak(sizes, gbs[k][d]) / kib;
      half.push_back(fixed(at, 0) + " KiB");
      run.report.save({"", kinds[k], "", "", "measured", "half of the best, " + direction_names[d], "KiB", at});
    }
    table.row({"half of the best at"}, half);
    table.print();
  }
  const size_t last = sizes.size() - 1;
  const auto gain = [&](Direction d, size_t i) { return gbs[1][d][i].median / gbs[0][d][i].median; };
  host.row({"registered"}, {{}, {}, scaled(pinning, 1024.0 * mib / double(piece))});
  host.print();
  if (host_reads[i_combined].median > 0.9 * host_reads[i_pinned].median)  // uncached it would be less than half
    run.report.note("this machine does not combine writes here: its host reads such memory as fast as any");
  const double up = gbs[i_pinned][to_device].back().median, down = gbs[i_pinned][to_host].back().median;
  const std::string share = fixed(link, 1) + " GB/s each way at most, queued copies reach " + percent(up / link);
  run.report.note("this card's link: " + (link > 0 ? share : "not told"));
  const auto judge = [&](const Claim& claim, const Judgement& judgement) {
    run.report.claim(claim, largest < 64 * mib || run.quick ? not_judged("few bytes stay in the caches") : judgement);
  };
  const auto gains = [&](Direction d) { return times(gain(d, 0)) + " (1 KiB) to " + times(gain(d, last)); };
  judge(pinned_claim, judge_fact(std::min(gain(to_device, last), gain(to_host, last)) >= 1.5,  // less is not much
                                 "to the device " + gains(to_device) + " (the largest), back " + gains(to_host),
                                 gain(to_device, last), "x"));
  Judgement combined = judge_ratio(gbs[i_combined][to_device].back(), gbs[i_pinned][to_device].back());
  const Judgement read = judge_ratio(host_reads[i_pinned], host_reads[i_combined]);
  // 1%: two buffers of one kind may differ by as much
  if (combined.value < 1.01 || read.verdict != Verdict::holds) combined.verdict = Verdict::does_not_hold;
  combined.here += " as fast to the device as cudaMallocHost, reading it takes " + read.here + " the time";
  judge(combined_claim, combined);
  // the study names no memory: what a program has anyway is pageable, so that is judged
  const double back = gbs[i_pageable][to_host][last].median;
  const std::string both = fixed(back, 1) + " GB/s; to pinned memory " + fixed(down, 1);
  judge(read_back_claim, judge_fact(std::abs(back - 1) <= stated_factor_tolerance, both, back, "GB/s"));
}

// ---- self-checks ----------------------------------------------------------------------------------------------------

TEST_CASE("transfer: every kind and direction arrives and leaves its neighbours alone") {
  if (skip_without_gpu()) return;
  constexpr size_t guard = 64;
  for (int k = 0; k < kind_count; ++k)
    for (size_t n : {size_t(1), size_t(3), size_t(4095), mib + 1}) {
      INFO(kinds[k] << ", bytes: " << n);
      const auto memory = allocate(k, n + 2 * guard);
      std::optional<Registration> registration;
      if (k == i_registered) registration.emplace(memory.get(), n + 2 * guard);
      const auto intact = [&](const unsigned char* all) {
        return std::count(all, all + guard, 0x5a) + std::count(all + guard + n, all + n + 2 * guard, 0x5a) == 2 * guard;
      };
      DeviceBuffer<unsigned char> device(std::vector<unsigned char>(n + 2 * guard, 0x5a));
      std::memset(memory.get(), 0x5a, n + 2 * guard);
      Ends ends(memory.get() + guard, device.data() + guard);
      for (auto way : {copy, queue}) {
        CHECK_NOTHROW(checked(ends, n, true, [&](Direction d) { return way(ends, d, n), Statistics{1}; }));
        size_t wrong = 0;  // on the host, where the first half went up, and the second came down in the round after
        for (size_t i = 0; i < n; ++i)
          wrong += ends.host[i] != (i < n / 2 ? pattern(i, ends.round) : pattern(i - n / 2, ends.round + 1));
        CHECK(wrong == 0);
      }
      for (Direction left_out : {to_device, to_host, both_ways}) {
        const auto others = [&](Direction d) { return d == left_out ? void() : copy(ends, d, n), Statistics{1}; };
        CHECK_THROWS_AS(checked(ends, n, true, others), WrongResult);
      }
      CHECK((intact(memory.get()) && intact(device.to_host().data())));
    }
}

TEST_CASE("transfer: a registration ends and a refused allocation leaves nothing behind") {
  if (skip_without_gpu()) return;
  const auto memory = allocate(i_pageable, mib);
  const auto twice = [&] { const Registration first(memory.get(), mib), second(memory.get(), mib); };
  CHECK_THROWS_AS(twice(), CudaError);
  CHECK(cudaHostUnregister(memory.get()) == cudaErrorHostMemoryNotRegistered);
  cudaGetLastError();
  const size_t free = Device::free_bytes();
  for (int k = i_pinned; k <= i_combined; ++k) {
    CHECK_THROWS_AS(allocate(k, size_t(1) << 60), CudaError);  // more than there are addresses
    CHECK(cudaGetLastError() == cudaSuccess);
  }
  CHECK(Device::free_bytes() >= free);
}

TEST_CASE("transfer: links and rounds and the size at which half of the peak is reached") {
  size_t same = 0;
  for (size_t i = 0; i < period; ++i) same += pattern(i, 1) == pattern(i, 2) || pattern(i, 1) == pattern(i, 3);
  CHECK(same == 0);
  CHECK(link_gbs(2.5, 16) == doctest::Approx(4));  // the figures by which the generations are known
  CHECK(link_gbs(32, 16) == doctest::Approx(63.015).epsilon(1e-4));
  const auto model = [](double n) { return Statistics{n / (8000 + n / 50)}; };  // 8 us and 50 GB/s
  const double half = model(1e9).median / 2, expected = half * 8000 / (1 - half / 50);
  CHECK(half_of_peak({1000, 1000000, 1000000000}, {model(1e3), model(1e6), model(1e9)}) == doctest::Approx(expected));
  CHECK(half_of_peak({1024, 4096}, {Statistics{3}, Statistics{4}}) == 1024);
}
