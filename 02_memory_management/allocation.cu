// allocation: what it costs to take memory and to give it back, by kind and size. The wiki calls both expensive: reuse.
// Each iteration here takes memory, sets some of it, waits, and gives it back; look at the total beside that of one
// buffer that is kept, and at the pool, which today keeps memory for the program.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>

#include "../common/first_edition.hpp"
#include "host_memory.hpp"

namespace {

constexpr unsigned mark = 0x5a, mark_word = 0x5a5a5a5a;

// Each warp writes 32 neighbouring words, all different, and steps on by the whole grid.
__global__ void fill(unsigned* words, size_t n, unsigned step) {
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x)
    words[i] = mark_word + step * unsigned(i);
}

// Each warp reads 32 neighbouring words, and counts those that are not as `fill` writes them; without a step all are
// alike.
__global__ void count_wrong(const unsigned* words, size_t n, unsigned step, unsigned* wrong) {
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x)
    if (words[i] != mark_word + step * unsigned(i)) atomicAdd(wrong, 1u);
}

constexpr unsigned blocks = 1024, threads = 512, odd_step = 2654435761u;  // an odd step gives 2^32 different words

unsigned wrong_words(const unsigned* words, size_t n, unsigned step) {
  DeviceBuffer<unsigned> wrong(std::vector<unsigned>{0});
  count_wrong<<<blocks, threads>>>(words, n, step, wrong.data());
  CUDA_CHECK_LAUNCH();
  return wrong.to_host()[0];
}

/// cudaMalloc; an error names the bytes that were asked for and those that were there.
void* allocate(size_t bytes) {
  void* data = nullptr;
  const cudaError_t code = cudaMalloc(&data, bytes);
  if (code == cudaSuccess) return data;
  cudaGetLastError();  // thrown here, and not to be found again by the next check
  const std::string sizes = bytes_text(double(bytes)) + " where " + bytes_text(double(Device::free_bytes()));
  throw CudaError(code, "cudaMalloc of " + sizes + " are free", __FILE__, __LINE__);
}

/// The error when 1 TiB is asked for, which no device has; nothing if it was granted.
std::string too_large() {
  try {
    CUDA_CHECK(cudaFree(allocate(size_t(1) << 40)));
    return {};
  } catch (const CudaError& error) {
    return error.what();
  }
}

using Pool = std::shared_ptr<std::remove_pointer_t<cudaMemPool_t>>;
/// Bytes of the device that a pool holds, handed out or not.
uint64_t reserved(const Pool& pool) {
  uint64_t bytes = 0;
  CUDA_CHECK(cudaMemPoolGetAttribute(pool.get(), cudaMemPoolAttrReservedMemCurrent, &bytes));
  return bytes;
}

const char* const keeping = "pool that keeps all";
/// One way to have memory for a while.
struct Way {
  std::string name;
  size_t most;  ///< bytes: more is not asked for
  std::function<void*(size_t)> take;
  std::function<void(void*)> give_back;
  Pool pool = nullptr;  ///< waiting for the stream is part of giving back to it
};

/// All ways that the device has: reuse first, cudaMalloc second, pools last. What is free in a pool beyond its
/// threshold goes back when a stream is waited for; the device's own pool, left alone here, has a threshold of 0.
std::vector<Way> all_ways(size_t largest, cudaStream_t stream) {
  const auto kept = std::make_shared<DeviceBuffer<unsigned char>>(largest);
  const auto pin = [](size_t bytes) {
    void* data = nullptr;
    CUDA_CHECK(cudaMallocHost(&data, bytes));
    return data;
  };
  const size_t most_pinned = std::min(pinned_budget(), size_t(64) << 20);  // pinning a GiB may take half a second
  std::vector<Way> ways{{"one buffer, reused", largest, [=](size_t) { return kept->data(); }, [](void*) {}},
                        {"cudaMalloc", SIZE_MAX, allocate, [](void* data) { CUDA_CHECK(cudaFree(data)); }},
                        {"cudaMallocHost", most_pinned, pin, [](void* data) { CUDA_CHECK(cudaFreeHost(data)); }}};
  cudaMemPoolProps props{};
  props.allocType = cudaMemAllocationTypePinned;
  props.location.type = cudaMemLocationTypeDevice;
  CUDA_CHECK(cudaGetDevice(&props.location.id));
  int pools = 0;
  CUDA_CHECK(cudaDeviceGetAttribute(&pools, cudaDevAttrMemoryPoolsSupported, props.location.id));
  for (uint64_t threshold : pools ? std::vector<uint64_t>{0, UINT64_MAX} : std::vector<uint64_t>{}) {
    cudaMemPool_t pool = nullptr;
    CUDA_CHECK(cudaMemPoolCreate(&pool, &props));
    const Pool owned(pool, cudaMemPoolDestroy);
    CUDA_CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
    const auto from_pool = [=](size_t bytes) {
      void* data = nullptr;
      CUDA_CHECK(cudaMallocFromPoolAsync(&data, bytes, pool, stream));
      return data;
    };
    ways.push_back({threshold ? keeping : "pool, threshold 0", SIZE_MAX, from_pool,
                    [=](void* data) { CUDA_CHECK(cudaFreeAsync(data, stream)); }, owned});
  }
  return ways;
}

constexpr size_t used_bytes = 4096;  // from the start, or all if that is less
void use(void* data, size_t bytes, const Stream& stream) {
  CUDA_CHECK(cudaMemsetAsync(data, mark, std::min(bytes, used_bytes), stream));
  stream.wait();
}

/// Poisons the memory, uses it, and looks at what was written.
bool use_is_right(void* data, size_t bytes, const Stream& stream) {
  CUDA_CHECK(cudaMemsetAsync(data, 0xff, bytes, stream));
  use(data, bytes, stream);
  std::vector<unsigned char> seen(std::min(bytes, used_bytes));
  CUDA_CHECK(cudaMemcpy(seen.data(), data, seen.size(), cudaMemcpyDefault));
  return std::count(seen.begin(), seen.end(), mark) == long(seen.size());
}

using Cost = std::array<Statistics, 4>;
/// Host microseconds of an iteration: taking, using, giving back, and all three.
Cost cost_of(const Measuring& measuring, const Way& way, size_t bytes, const Stream& stream) {
  std::vector<double> us[4];
  int repeats = 1;
  for (int r = 0; r <= repeats; ++r) {
    void* data = nullptr;
    const double take = 1e3 * host_ms([&] { data = way.take(bytes); });
    if (r == 0) require_right(use_is_right(data, bytes, stream), way.name + ", " + std::to_string(bytes) + " bytes");
    const double used = 1e3 * host_ms([&] { use(data, bytes, stream); });
    const double back = 1e3 * host_ms([&] {
                          way.give_back(data);
                          if (way.pool) stream.wait();
                        });
    const double all = take + used + back;
    if (r == 0)  // to warm up. 10 ms a row, but three repeats: there are many rows, and pinning takes long
      repeats = measuring.typed ? measuring.repeats : std::clamp(int(10e3 / all), 3, std::max(3, measuring.repeats));
    else
      us[0].push_back(take), us[1].push_back(used), us[2].push_back(back), us[3].push_back(all);
  }
  return {summarize(us[0]), summarize(us[1]), summarize(us[2]), summarize(us[3])};
}

/// Microseconds until giving back returns while uses of the memory, about 2 ms of work, are still queued.
double us_behind_work(const Way& way, const Stream& stream) {
  constexpr size_t bytes = 64 << 20;
  std::vector<double> ms(5);
  for (double& each : ms) {
    void* data = way.take(bytes);
    for (int i = 0; i < 100; ++i) CUDA_CHECK(cudaMemsetAsync(data, mark, bytes, stream));
    each = host_ms([&] { way.give_back(data); });
    stream.wait();
  }
  return 1e3 * summarize(ms).median;
}

/// cudaMemset over size, beside the copy engine.
void memset_rates(const Run& run, const std::vector<size_t>& sizes) {
  const size_t most = sizes.back() / 4;
  DeviceBuffer<unsigned> to(most), from(most);
  fill<<<blocks, threads>>>(from.data(), most, odd_step);
  CUDA_CHECK_LAUNCH();
  to.poison();
  const auto copy = [&] { CUDA_CHECK(cudaMemcpyAsync(to.data(), from.data(), 4 * most, cudaMemcpyDeviceToDevice)); };
  copy();
  require_right(wrong_words(to.data(), most, odd_step) == 0, "cudaMemcpy");
  const Statistics limit = gigabytes_per_second(8.0 * double(most), time_device(run.measuring, copy));
  Table table(run.report, "call, bytes",
              {shown("size"), measured("GB/s", "rate", "GB/s", 1), shown("spread"), shown("of copy"), shown("")});
  const auto row = [&](const char* name, size_t bytes, const Statistics& rate) {
    table.row({name, "footprint", std::to_string(bytes)},
              {bytes_text(double(bytes)), rate, spread_text(rate), times(rate.median / limit.median),
               bytes > run.device->l2_bytes() ? "" : "fits in the L2"});
  };
  row("cudaMemcpy", 4 * most, limit);
  for (const size_t bytes : sizes) {
    const auto set = [&] { CUDA_CHECK(cudaMemsetAsync(to.data(), mark, bytes)); };
    to.poison();
    set();
    require_right(wrong_words(to.data(), bytes / 4, 0) == 0, "cudaMemset");
    row("cudaMemset", bytes, gigabytes_per_second(double(bytes), time_device(run.measuring, set)));
  }
  table.print();
  run.report.note("cudaMemset only writes: its bytes count once; the copy, device to device, reads and writes: twice");
}

const Claim reuse_claim{"02.1", "allocation is expensive: reuse", "wiki", "no figure"};

}  // namespace

void allocation(const Run& run) {
  constexpr size_t judged_bytes = 1 << 20, at = 3;  // a working buffer; those below come out of larger pieces
  std::vector<size_t> sizes{256, 4 << 10, 64 << 10, judged_bytes};
  for (size_t mib : {16, 64, 256, 1024})  // room for four: one kept, one in a pool, one taken, one to spare
    if ((mib == 16 || !run.quick) && (!run.device || mib << 22 <= Device::free_bytes())) sizes.push_back(mib << 20);
  run.report.begin("allocation", "take, use, wait, give back: 256 B to " + bytes_text(double(sizes.back())));
  if (!run.device) return run.report.left_out("the times of all allocations, and cudaMemset", {reuse_claim});

  std::vector<std::vector<Cost>> costs;  // by way and size
  {
    const Stream stream;
    const std::vector<Way> ways = all_ways(sizes.back(), stream);
    Table table(run.report, "way, bytes",
                {shown("size"), measured("take us", "take", "us", 1), measured("use us", "use", "us", 1),
                 measured("give back us", "give back", "us", 1), measured("all us", "iteration", "us", 1),
                 shown("spread"), shown("of reuse")});
    for (const Way& way : ways) {
      costs.emplace_back();
      for (size_t i = 0; i < sizes.size() && sizes[i] <= way.most; ++i) {
        const Cost cost = cost_of(run.measuring, way, sizes[i], stream);
        costs.back().push_back(cost);
        table.row({way.name, "footprint", std::to_string(sizes[i])},
                  {bytes_text(double(sizes[i])), cost[0], cost[1], cost[2], cost[3], spread_text(cost[3]),
                   times(cost[3].median / costs[0][i][3].median)});
      }
    }
    table.print();
    run.report.note("cudaMallocHost: up to " + bytes_text(double(ways[2].most)) + "; more only takes longer");
    const bool pools = ways.size() > 3;
    if (!pools) run.report.left_out("stream-ordered allocation", "this device has no pools");
    if (pools)
      run.report.note("when all is given back, the pool of threshold 0 holds " +
                      bytes_text(double(reserved(ways[3].pool))) + ", the other " +
                      bytes_text(double(reserved(ways[4].pool))));
    run.report.note("given back behind 100 queued cudaMemset of 64 MiB, in us: " + ways[1].name + " " +
                    fixed(us_behind_work(ways[1], stream), 1) +
                    (pools ? ", pool " + fixed(us_behind_work(ways[4], stream), 1) : ""));
  }
  memset_rates(run, sizes);
  const std::string before = bytes_text(double(Device::free_bytes())), error = too_large();
  run.report.note("too much on purpose: " + (error.empty() ? "1 TiB was granted" : error) + "; free before it " +
                  before + ", after it " + bytes_text(double(Device::free_bytes())));

  // judged in a quick run too: calls are timed, and no cache changes them
  const Statistics reuse = costs[0][at][3], allocated = costs[1][at][3];
  Judgement judged = judge_ratio(allocated, reuse);
  judged.here = times(judged.value) + " the time at " + bytes_text(judged_bytes) + ", " + fixed(allocated.median, 1) +
                " us against " + fixed(reuse.median, 1);
  if (costs.size() == 5) judged.here += "; a pool that keeps all: " + times(costs[4][at][3].median / reuse.median);
  run.report.claim(reuse_claim, judged);
}

// ---- self-checks ----------------------------------------------------------------------------------------------------

TEST_CASE("allocation: memory of every kind can be used and pools hold what they may") {
  if (skip_without_gpu()) return;
  const Stream stream;
  for (const Way& way : all_ways((5 << 20) + 1, stream))
    for (size_t bytes : {1, 31, 257, 4099, (5 << 20) + 1}) {
      CAPTURE(way.name + " " + std::to_string(bytes));
      uint64_t held = 0;
      for (int round = 0; round < 3; ++round) {
        void* data = way.take(bytes);
        CHECK(use_is_right(data, bytes, stream));
        way.give_back(data);
        stream.wait();
        if (!way.pool) continue;
        if (round == 0) held = way.name == keeping ? reserved(way.pool) : 0;
        CHECK(reserved(way.pool) == held);  // handed out again, and no more taken from the device
        if (way.name == keeping) CHECK(held >= bytes);
      }
    }
}

TEST_CASE("allocation: one that fails names the sizes and leaks nothing") {
  if (skip_without_gpu()) return;
  const size_t before = Device::free_bytes();
  const std::string error = too_large();
  CHECK(error.find("cudaMalloc of 1.00 TiB where ") == 0);
  CHECK(error.find(" are free failed: cudaErrorMemoryAllocation") != std::string::npos);
  CHECK(cudaGetLastError() == cudaSuccess);
  CHECK(Device::free_bytes() >= before);
}

TEST_CASE("allocation: cudaMemset sets every byte and no neighbour and a wrong word is found") {
  if (skip_without_gpu()) return;
  for (size_t bytes : {1, 3, 31, 257, 4097, 65537})
    for (size_t offset : {0, 1, 2, 7, 513}) {
      DeviceBuffer<unsigned char> buffer(offset + bytes + 64);
      buffer.poison();
      CUDA_CHECK(cudaMemset(buffer.data() + offset, mark, bytes));
      std::vector<unsigned char> expected(buffer.size(), 0xff);
      std::fill_n(expected.begin() + offset, bytes, mark);
      CHECK((buffer.to_host() == expected));
    }
  for (size_t n : {1, 31, 1009, 600011}) {  // the last: more than one grid
    DeviceBuffer<unsigned> words(n);
    fill<<<blocks, threads>>>(words.data(), n, odd_step);
    CUDA_CHECK_LAUNCH();
    CHECK(wrong_words(words.data(), n, odd_step) == 0);
    CUDA_CHECK(cudaMemset(words.data() + n - 1, 0xff, 4));
    CHECK(wrong_words(words.data(), n, odd_step) == 1);
  }
}
