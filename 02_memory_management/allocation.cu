// allocation: what it costs to take memory and to give it back, by kind and size. The wiki calls
// both expensive, and says: reuse [LC 2]. Each iteration here takes memory, sets some of it, waits,
// and gives it back. Look at the total beside that of one buffer that is kept, and at the pool,
// which today keeps memory for the program, if it is told to.
//   cmake -S 02_memory_management -B build/allocation -DEXPERIMENTS=allocation
//   cmake --build build/allocation && build/allocation/02_memory_management
//
//   1  one buffer, reused   nothing is taken
//   2  cudaMalloc           and cudaFree, in each iteration
//   3  cudaMallocHost       pinned memory of the host
//   4  pool, threshold 0    what is free goes back whenever a stream is waited for
//   5  pool that keeps all  what is free stays in the pool
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>

#include "host_memory.hpp"
#include "pattern.cuh"

namespace {

constexpr int mark = 0x5a;

// Each warp reads 32 neighbouring bytes, and counts those that are not as cudaMemset sets them.
__global__ void count_other(const unsigned char* bytes, size_t n, unsigned long long* wrong) {
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += threads)
    if (bytes[i] != mark) atomicAdd(wrong, 1ull);
}

// ---- taking and giving back ----

/// cudaMalloc; an error names the bytes that were asked for and those that were there.
void* allocate(size_t bytes) {
  void* data = nullptr;
  const cudaError_t code = cudaMalloc(&data, bytes);
  if (code == cudaSuccess) return data;
  cudaGetLastError();  // thrown here, and not to be found again by the next check
  const std::string sizes =
      bytes_text(double(bytes)) + " where " + bytes_text(double(Device::free_bytes()));
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

/// A pool of the device's memory with a release threshold.
class Pool {
 public:
  // [pool]
  explicit Pool(uint64_t threshold) {
    cudaMemPoolProps props{};
    props.allocType = cudaMemAllocationTypePinned;
    props.location.type = cudaMemLocationTypeDevice;
    CUDA_CHECK(cudaGetDevice(&props.location.id));
    CUDA_CHECK(cudaMemPoolCreate(&pool_, &props));
    CUDA_CHECK(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &threshold));
  }
  // [/pool]
  Pool(Pool&&) = delete;
  ~Pool() { cudaMemPoolDestroy(pool_); }
  operator cudaMemPool_t() const { return pool_; }

  /// Bytes of the device that it holds, handed out or not.
  uint64_t reserved() const {
    uint64_t bytes = 0;
    CUDA_CHECK(cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrReservedMemCurrent, &bytes));
    return bytes;
  }

 private:
  cudaMemPool_t pool_ = nullptr;
};

/// One way to have memory for a while.
struct Way {
  std::string name;
  size_t most;  ///< bytes: more is not asked for
  Function<void*(size_t)> take;
  Function<void(void*)> give_back;
  std::shared_ptr<Pool> pool = nullptr;  ///< waiting is then part of giving back
};

bool has_pools() {
  int device = 0, pools = 0;
  CUDA_CHECK(cudaGetDevice(&device));
  CUDA_CHECK(cudaDeviceGetAttribute(&pools, cudaDevAttrMemoryPoolsSupported, device));
  return pools;
}

Way pool_way(const char* name, uint64_t threshold, cudaStream_t stream) {
  const auto pool = std::make_shared<Pool>(threshold);
  const auto take = [pool, stream](size_t bytes) {
    void* data = nullptr;
    CUDA_CHECK(cudaMallocFromPoolAsync(&data, bytes, *pool, stream));
    return data;
  };
  return {name, SIZE_MAX, take, [stream](void* data) { CUDA_CHECK(cudaFreeAsync(data, stream)); },
          pool};
}

constexpr size_t reused = 0, malloced = 1, keeping = 4;  // places among the ways

/// All ways that the device has. The device's own pool, left alone here, has a threshold of 0.
std::vector<Way> all_ways(size_t largest, cudaStream_t stream) {
  const auto kept = std::make_shared<DeviceBuffer<unsigned char>>(largest);
  const auto pin = [](size_t bytes) {
    void* data = nullptr;
    CUDA_CHECK(cudaMallocHost(&data, bytes));
    return data;
  };
  // pinning a GiB may take half a second
  const size_t most_pinned = std::min(pinned_budget(), size_t(64) << 20);
  std::vector<Way> ways;
  ways.push_back({"one buffer, reused", largest, [kept](size_t) { return (void*)kept->data(); },
                  [](void*) {}});
  ways.push_back(
      {"cudaMalloc", SIZE_MAX, allocate, [](void* data) { CUDA_CHECK(cudaFree(data)); }});
  ways.push_back(
      {"cudaMallocHost", most_pinned, pin, [](void* data) { CUDA_CHECK(cudaFreeHost(data)); }});
  if (!has_pools()) return ways;
  ways.push_back(pool_way("pool, threshold 0", 0, stream));
  ways.push_back(pool_way("pool that keeps all", UINT64_MAX, stream));
  return ways;
}

// ---- an iteration ----

constexpr size_t used_bytes = 4096;  // from the start, or all if that is less

void use(void* data, size_t bytes, const Stream& stream) {
  CUDA_CHECK(cudaMemsetAsync(data, mark, std::min(bytes, used_bytes), stream));
  stream.wait();
}

void give_back(const Way& way, void* data, const Stream& stream) {
  way.give_back(data);
  if (way.pool) stream.wait();
}

/// Bytes that are not as they were set, in memory that is poisoned before it is used.
size_t wrong_after_use(void* data, size_t bytes, const Stream& stream) {
  CUDA_CHECK(cudaMemsetAsync(data, 0xff, bytes, stream));
  use(data, bytes, stream);
  std::vector<unsigned char> seen(std::min(bytes, used_bytes));
  CUDA_CHECK(cudaMemcpy(seen.data(), data, seen.size(), cudaMemcpyDefault));
  return seen.size() - size_t(std::count(seen.begin(), seen.end(), mark));
}

// [iteration]
void iterate(const Way& way, size_t bytes, const Stream& stream) {
  void* const data = way.take(bytes);
  use(data, bytes, stream);
  give_back(way, data, stream);
}
// [/iteration]

Task iteration(const Way& way, size_t bytes, const Stream& stream) {
  Check check;
  check.poison = [] {};  // wrong_after_use poisons what it takes
  check.wrong = [&way, bytes, &stream] {
    void* const data = way.take(bytes);
    const size_t wrong = wrong_after_use(data, bytes, stream);
    give_back(way, data, stream);
    return wrong;
  };
  return {way.name + ", " + bytes_text(double(bytes)),
          [&way, bytes, &stream] { iterate(way, bytes, stream); }, std::move(check), true};
}

double us_now() {
  using namespace std::chrono;
  return duration<double, std::micro>(steady_clock::now().time_since_epoch()).count();
}

/// Host microseconds of the steps of an iteration, and of all three.
struct Cost {
  Statistics take, use, back, all;
};

Cost cost_of(const Measuring& measuring, const Way& way, size_t bytes, const Stream& stream) {
  require_right(iteration(way, bytes, stream));
  std::vector<double> take, used, back, all;
  int repeats = measuring.repeats;
  for (int r = 0; r < repeats; ++r) {
    const double start = us_now();
    void* const data = way.take(bytes);
    const double taken = us_now();
    use(data, bytes, stream);
    const double done = us_now();
    give_back(way, data, stream);
    const double end = us_now();
    take.push_back(taken - start);
    used.push_back(done - taken);
    back.push_back(end - done);
    all.push_back(end - start);
    // 10 ms a row, but three repeats: there are many rows, and pinning takes long
    if (r == 0 && !measuring.typed)
      repeats = std::clamp(int(10e3 / all[0]), 3, std::max(3, repeats));
  }
  return {summarize(take), summarize(used), summarize(back), summarize(all)};
}

// ---- what to expect ----

/// An iteration takes so many calls, whatever the size, and so long for each byte: pages are mapped
/// and unmapped. Both come from two calibration rows, the smallest size and the largest.
struct Line {
  double calls_us, us_a_byte;

  Line(double small_us, double small_bytes, double large_us, double large_bytes)
      : calls_us(small_us), us_a_byte((large_us - small_us) / (large_bytes - small_bytes)) {}
  double us(double bytes) const { return calls_us + bytes * us_a_byte; }
};

// ---- the experiment ----

constexpr size_t judged_bytes =
    1 << 20;  // a working buffer; smaller ones come out of larger pieces

/// Bytes that are held at once where so many are the most: by the buffer that is kept, by the pool
/// that keeps all, and by two arrays for cudaMemset and the copy beside it.
double bytes_held(size_t largest) { return 4.0 * double(largest); }

std::vector<size_t> sizes_of(const Run& run) {
  std::vector<size_t> sizes{256, 4 << 10, 64 << 10, judged_bytes, 16 << 20};
  for (const size_t mib : {64, 256, 1024})
    if (!run.quick && bytes_held(mib << 20) <= 0.9 * run.memory_there()) sizes.push_back(mib << 20);
  return sizes;
}

void measure_ways(const Run& run, const std::vector<Way>& ways, const std::vector<size_t>& sizes,
                  const Stream& stream) {
  Table table(
      run.report, "way, bytes",
      {compared("us", "iteration", "us", 1), shown("spread"), measured("take", "take", "us", 1),
       measured("use", "use", "us", 1), measured("give back", "give back", "us", 1)});
  for (const Way& way : ways) {
    std::vector<Cost> costs;
    for (const size_t bytes : sizes)
      if (bytes <= way.most) costs.push_back(cost_of(run.measuring, way, bytes, stream));
    if (costs.empty()) continue;
    const size_t last = costs.size() - 1;
    const Line line(costs[0].all.median, double(sizes[0]), costs[last].all.median,
                    double(sizes[last]));
    for (size_t i = 0; i <= last; ++i) {
      const Cell all = i == 0 || i == last
                           ? Cell(Calibration{costs[i].all})
                           : Cell(Compared{line.us(double(sizes[i])), costs[i].all, Model::host});
      table.row({way.name, "footprint", std::to_string(sizes[i])},
                {all, spread_text(costs[i].all), costs[i].take, costs[i].use, costs[i].back});
    }
  }
  table.print();
  run.report.note("predicted: the calls, from the smallest size, and bytes at the largest's cost");
}

/// cudaMemset over size: a launch, and bytes over its own rate.
void memset_rates(const Run& run, const std::vector<size_t>& sizes) {
  const size_t most = sizes.back();
  const DeviceBuffer<unsigned char> to(most), from(most);
  const DeviceBuffer<unsigned long long> wrong(1);
  put_pattern(from.data(), most, 1);
  Check copied;
  copied.poison = [&] { put_pattern(to.data(), most, 2); };
  copied.wrong = [&] { return wrong_bytes(to.data(), most, 1); };
  const auto copy = [&] {
    CUDA_CHECK(cudaMemcpyAsync(to.data(), from.data(), most, cudaMemcpyDeviceToDevice));
  };
  const auto set = [&](size_t bytes) {
    Check check;
    check.poison = [&to] { put_pattern(to.data(), to.size(), 2); };
    check.wrong = [&to, &wrong, bytes] {
      CUDA_CHECK(cudaMemset(wrong.data(), 0, sizeof(unsigned long long)));
      count_other<<<1024, 256>>>(to.data(), bytes, wrong.data());
      CUDA_CHECK_LAUNCH();
      return size_t(wrong.to_host()[0]);
    };
    const auto launch = [&to, bytes] { CUDA_CHECK(cudaMemsetAsync(to.data(), mark, bytes)); };
    return run.time({"cudaMemset of " + bytes_text(double(bytes)), launch, std::move(check)});
  };
  const Readings copy_ms = run.time({"cudaMemcpy", copy, std::move(copied)});
  std::vector<Readings> times;
  for (const size_t bytes : sizes) times.push_back(set(bytes));

  Table table(run.report, "call, bytes",
              {compared("us", "time", "us", 2), measured("GB/s", "rate", "GB/s", 1),
               shown("spread"), shown("")});
  const Statistics copy_us = scaled(copy_ms.statistics(), 1e3);
  table.row({"cudaMemcpy", "footprint", std::to_string(most)},
            {Calibration{copy_us}, rate(2e-3 * double(most), copy_us), spread_text(copy_us), ""});
  const Line line(1e3 * times[0].median(), double(sizes[0]), 1e3 * times.back().median(),
                  double(most));
  for (size_t i = 0; i < sizes.size(); ++i) {
    const Statistics us = scaled(times[i].statistics(), 1e3);
    const double bytes = double(sizes[i]);
    const bool calibrates = i == 0 || i + 1 == sizes.size();
    const Cell cell =
        calibrates ? Cell(Calibration{us}) : Cell(Compared{line.us(bytes), us, Model::latency});
    table.row({"cudaMemset", "footprint", std::to_string(sizes[i])},
              {cell, rate(1e-3 * bytes, us), spread_text(us),
               beyond_l2(*run.device, bytes) ? "" : "partly in the L2"});
  }
  table.print();
  run.report.note("cudaMemset only writes: its bytes count once; the copy's count twice");
}

/// How long giving back takes while uses of the memory are still queued.
void behind_work(const Run& run, const std::vector<Way>& ways, const Stream& stream) {
  constexpr size_t bytes = 64 << 20;
  constexpr int uses = 100;  // some 2 ms of work
  Table table(run.report, "given back behind queued work",
              {compared("us", "give back", "us", 1), shown("spread")});
  std::vector<size_t> chosen{malloced};
  if (ways.size() > keeping) chosen.push_back(keeping);
  for (const size_t w : chosen) {
    std::vector<double> back, work;
    for (int r = 0; r < 7; ++r) {
      void* data = ways[w].take(bytes);
      for (int i = 0; i < uses; ++i) CUDA_CHECK(cudaMemsetAsync(data, mark, bytes, stream));
      const double queued = us_now();
      stream.wait();
      work.push_back(us_now() - queued);  // what is left of it once all is queued
      for (int i = 0; i < uses; ++i) CUDA_CHECK(cudaMemsetAsync(data, mark, bytes, stream));
      const double before = us_now();
      ways[w].give_back(data);
      back.push_back(us_now() - before);
      stream.wait();
    }
    // cudaFree waits for the work; a pool only notes when it will be free
    const Statistics us = summarize(back);
    const double expected = w == malloced ? summarize(work).median : NAN;
    table.row({ways[w].name + ", behind work"},
              {Compared{expected, us, Model::host}, spread_text(us)});
  }
  table.print();
}

void judge(const Run& run, const Readings& allocated, const Readings& kept,
           const Readings& pooled) {
  const Part part{"02.1", "allocation is expensive: reuse", "expensive, no figure", "the wiki"};
  const Interval gain = run.device ? ratio(allocated, kept) : Interval{};
  run.report.judge(part, beats(), gain,
                   "reusing 1 MiB is " + faster(gain, "cudaMalloc and cudaFree"));
  if (!pooled.ms.empty())
    run.report.finding("02.1", "a pool that keeps all is " + slower(ratio(pooled, kept), "reuse"));
}

}  // namespace

void allocation(const Run& run) {
  const std::vector<size_t> sizes = sizes_of(run);
  run.report.begin("allocation",
                   "take, use, wait, give back: 256 B to " + bytes_text(double(sizes.back())));
  if (!run.device) {
    run.report.left_out("the times of all allocations, and cudaMemset");
    return judge(run, {}, {}, {});
  }
  const Stream stream;
  const std::vector<Way> ways = all_ways(sizes.back(), stream);
  measure_ways(run, ways, sizes, stream);
  if (ways.size() > keeping)
    run.report.note("all given back, the pool of threshold 0 holds " +
                    bytes_text(double(ways[keeping - 1].pool->reserved())) + ", the other " +
                    bytes_text(double(ways[keeping].pool->reserved())));
  else
    run.report.left_out("stream-ordered allocation", "this device has no pools");
  behind_work(run, ways, stream);
  memset_rates(run, sizes);
  const std::string error = too_large();
  run.report.note("too much on purpose: " + (error.empty() ? "1 TiB was granted" : error));

  std::vector<Task> tasks;
  for (const size_t w : {reused, malloced})
    tasks.push_back(iteration(ways[w], judged_bytes, stream));
  if (ways.size() > keeping) tasks.push_back(iteration(ways[keeping], judged_bytes, stream));
  const std::vector<Readings> times = run.time_in_turn(tasks);
  judge(run, times[1], times[0], times.size() > 2 ? times[2] : Readings{});
}
