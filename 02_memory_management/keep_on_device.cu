// keep_on_device: what is not worth a journey. The guide leaves a step with little parallelism on
// the GPU rather than fetch its data to the host. Two things to look at:
//   - A step that one block can do, between two parallel kernels, over its bytes.
//   - The same where no parallelism is left at all: a single chain.
// The study's half, work of one operation per word, stands in keep_on_device_carried.cu.
//
//   cmake -S 02_memory_management -B build/keep_on_device -DEXPERIMENTS=keep_on_device
//   cmake --build build/keep_on_device && build/keep_on_device/02_memory_management
//
//   1  prepare         parallel, before the step
//   2  step_by_block   the step: 1024 chains, in each of which a word needs the one before
//   3  finish          parallel, behind the step
//   4  step_by_thread  a step of one chain only, by one thread
//   5  scan_by_block   the same, by a block that finds the parallelism in it after all
#include <algorithm>
#include <cstdint>
#include <numeric>

#include "host_memory.hpp"
#include "keep_on_device.hpp"

using namespace samples;

namespace {

// ---- kernels: arithmetic modulo 2^32, so that every way must give the same bits ----

constexpr unsigned chains = 1024;     // as many as a block has threads
constexpr unsigned factor = 1664525;  // of a step: x = factor * (x before) + b

// Each warp writes 32 neighbouring words.
__global__ void prepare(unsigned* x, size_t n) {
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += threads)
    x[i] = 0x9e3779b1u * unsigned(i + 1);
}

// Each warp reads and writes 32 neighbouring words.
__global__ void finish(unsigned* out, const unsigned* x, size_t n) {
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += threads)
    out[i] = x[i] ^ x[i] >> 15;
}

// [step_by_block]
// One block: thread t has the chain of the words t, t + 1024, t + 2048 ... A warp reads and writes
// 32 neighbours. Only the multiplication waits for the word before; eight loads are in flight.
__global__ void __launch_bounds__(chains) step_by_block(unsigned* x, size_t n) {
  unsigned last = 0;
  size_t i = threadIdx.x;
  for (; i + 7 * chains < n; i += 8 * chains) {
    unsigned b[8];
#pragma unroll
    for (int k = 0; k < 8; ++k) b[k] = x[i + k * chains];  // load eight
#pragma unroll
    for (int k = 0; k < 8; ++k) {  // step eight times
      last = factor * last + b[k];
      x[i + k * chains] = last;
    }
  }
  for (; i < n; i += chains) {  // what is left, one at a time
    last = factor * last + x[i];
    x[i] = last;
  }
}
// [/step_by_block]

// One chain, one thread: 31 lanes of its warp idle, and it waits for memory every few steps.
__global__ void step_by_thread(unsigned* x, size_t n) {
  unsigned last = 0;
  for (size_t i = 0; i < n; ++i) {
    last = factor * last + x[i];
    x[i] = last;
  }
}

/// factor^k: by this k steps multiply what was there before them.
__host__ __device__ unsigned power(unsigned k) {
  unsigned result = 1;
  for (unsigned m = factor; k > 0; k /= 2, m *= m)
    if (k % 2) result *= m;
  return result;
}

/// Joins the results of 32 lanes, each of so many steps that `multiplier` is their power: a lane
/// gets what all up to it give. The multiplier becomes that of the whole warp.
__device__ unsigned join(unsigned result, unsigned lane, unsigned& multiplier) {
  for (unsigned lanes = 1; lanes < 32; lanes *= 2) {
    const unsigned before = __shfl_up_sync(0xffffffffu, result, lanes);
    if (lane >= lanes) result += multiplier * before;
    multiplier *= multiplier;
  }
  return result;
}

// One chain, one block: k steps multiply by a known number and add one, so that runs of steps can
// be joined over lanes, warps and tiles of 1024. A warp takes 32 neighbouring words.
__global__ void __launch_bounds__(chains) scan_by_block(unsigned* x, size_t n) {
  __shared__ unsigned warp_end[32];
  const unsigned lane = threadIdx.x % 32;
  const unsigned warp = threadIdx.x / 32;
  const unsigned to_lane = power(lane + 1);
  const unsigned to_thread = power(threadIdx.x + 1);
  const unsigned to_tile = power(chains);
  unsigned tile_start = 0;  // what the tile before ended with
  for (size_t first = 0; first < n; first += chains) {
    const size_t i = first + threadIdx.x;
    unsigned multiplier = factor;
    unsigned result = join(i < n ? x[i] : 0, lane, multiplier);  // runs of a warp
    if (lane == 31) warp_end[warp] = result;
    __syncthreads();
    if (warp == 0) warp_end[lane] = join(warp_end[lane], lane, multiplier);  // of all warps
    __syncthreads();
    if (warp > 0) result += to_lane * warp_end[warp - 1];
    if (i < n) x[i] = result + to_thread * tile_start;
    tile_start = to_tile * tile_start + warp_end[31];
    __syncthreads();  // the next tile writes warp_end again
  }
}

// ---- what is right, and the host's own way ----

/// Each chain by itself, from its first word to its last.
std::vector<unsigned> expected(size_t n, size_t chain_count) {
  std::vector<unsigned> x(n);
  for (size_t chain = 0; chain < std::min(n, chain_count); ++chain) {
    unsigned last = 0;
    for (size_t i = chain; i < n; i += chain_count) {
      last = last * factor + 0x9e3779b1u * unsigned(i + 1);
      x[i] = last ^ last >> 15;
    }
  }
  return x;
}

/// What the host does with what it has fetched: all chains side by side, in the order of the words.
void step_on_host(unsigned* x, size_t n, size_t chain_count) {
  for (size_t i = chain_count; i < n; ++i) x[i] += factor * x[i - chain_count];
}

// ---- the work ----

/// The words of the step, on the GPU and on the host.
struct Words {
  static constexpr size_t canaries = 64;

  size_t n;
  DeviceBuffer<unsigned> x, out;
  PinnedBuffer<unsigned> host;

  explicit Words(size_t n) : n(n), x(n + canaries), out(n + canaries), host(n) {}

  unsigned blocks() const { return unsigned(std::min<size_t>((n + 255) / 256, 1024)); }
  void poison() {
    x.poison();
    out.poison();
  }
  size_t wrong(size_t chain_count) const {
    const std::vector<unsigned> right = expected(n, chain_count), found = out.to_host();
    size_t wrong = 0;
    for (size_t i = 0; i < found.size(); ++i) wrong += found[i] != (i < n ? right[i] : ~0u);
    return wrong;
  }
};

// [round_trip]
void round_trip(const Words& w, size_t chain_count) {
  CUDA_CHECK(cudaMemcpy(w.host.data(), w.x.data(), 4 * w.n, cudaMemcpyDeviceToHost));
  step_on_host(w.host.data(), w.n, chain_count);
  CUDA_CHECK(cudaMemcpyAsync(w.x.data(), w.host.data(), 4 * w.n, cudaMemcpyHostToDevice));
}
// [/round_trip]

/// A way to do the step.
struct Way {
  std::string_view key;
  const char* words = "";
  size_t chain_count = chains;
  void (*step)(const Words&) = nullptr;
  size_t most_bytes = SIZE_MAX;
};
const Way ways[] = {
    {.key = name_of<step_by_block>(),
     .words = "one block",
     .step = [](const Words& w) { step_by_block<<<1, chains>>>(w.x.data(), w.n); }},
    {.key = "round_trip",
     .words = "round trip",
     .step = [](const Words& w) { round_trip(w, chains); }},
    {.key = name_of<step_by_thread>(),
     .words = "one chain: one thread",
     .chain_count = 1,
     .step = [](const Words& w) { step_by_thread<<<1, 1>>>(w.x.data(), w.n); },
     .most_bytes = 64 << 10},  // half a millisecond at its pace
    {.key = name_of<scan_by_block>(),
     .words = "one chain: scan by a block",
     .chain_count = 1,
     .step = [](const Words& w) { scan_by_block<<<1, chains>>>(w.x.data(), w.n); }},
    {.key = "chain_round_trip",
     .words = "one chain: round trip",
     .chain_count = 1,
     .step = [](const Words& w) { round_trip(w, 1); }},
};

/// The kernel before, the step, the kernel behind, and the host's wait for the end.
Task task_of(const Ref& ref, const Shared<Words>& words, const Way& way) {
  const auto all_three = [words, &way] {
    const Words& w = *words;
    prepare<<<w.blocks(), 256>>>(w.x.data(), w.n);
    way.step(w);
    finish<<<w.blocks(), 256>>>(w.out.data(), w.x.data(), w.n);
    CUDA_CHECK_LAUNCH();
    CUDA_CHECK(cudaDeviceSynchronize());
  };
  return {
      text(ref),
      all_three,
      {[words] { words->poison(); }, [words, &way] { return words->wrong(way.chain_count); }, ""},
      true};
}

/// The host's part alone, over words of its own.
Task host_step(const Ref& ref, const Shared<Words>& words) {
  const auto wrong = [words] {
    size_t wrong = 0;  // the first of each chain stays, the second is stepped once
    for (size_t i = 0; i < std::min<size_t>(words->n, 2 * chains); ++i) {
      const unsigned b = unsigned(i) + 1;
      wrong += words->host[i] != (i < chains ? b : b + factor * (b - chains));
    }
    return wrong;
  };
  unsigned* const x = words->host.data();
  return {text(ref),
          [words, x] { step_on_host(x, words->n, chains); },
          {[words, x] { std::iota(x, x + words->n, 1u); }, wrong, ""},
          true};
}

// ---- prediction ----

/// A way takes its time for next to nothing, and a rate's time for its bytes. Two rows give both:
/// the smallest size and the largest.
struct Line {
  double at_nothing_ms, ms_per_byte;
  Line(double small_ms, double small_bytes, double large_ms, double large_bytes)
      : at_nothing_ms(small_ms), ms_per_byte((large_ms - small_ms) / (large_bytes - small_bytes)) {}
  double ms(double bytes) const { return at_nothing_ms + bytes * ms_per_byte; }
};

// ---- the experiment ----

/// Bytes: those of which two arrays fit on the GPU, and one in what the host may pin.
std::vector<size_t> sizes_of(const Run& run) {
  std::vector<size_t> sizes{4, 4 << 10, 64 << 10, 1 << 20};
  if (run.full) sizes = {4, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20};
  if (!run.quick) sizes.push_back(16 << 20);
  const double room = std::min(pinnable_bytes(run), run.memory_there() / 4);
  while (sizes.size() > 2 && double(sizes.back()) > room) sizes.pop_back();
  return sizes;
}

std::vector<Shown> columns() {
  const auto us = [](const Row&, double ms) { return 1e3 * ms; };
  return {in_unit(compared("us", "duration", "us", 1), us), spread()};
}

/// The host's step alone. Bytes alone do not explain its time on every host: on one, a byte of
/// 16 MiB took two thirds as long as one of 64 KiB. There is no model.
void measure_host_step(const Run& run, const std::vector<size_t>& sizes) {
  Sheet sheet(run, "the host's step alone, bytes", columns(), "bytes");
  for (const size_t bytes : sizes)
    if (bytes > 4 * chains)  // the first word of each chain stays
      sheet.add({.ref = {"host_step", double(bytes)}, .words = bytes_text(double(bytes))});
  sheet.measure(Timing::alone, [](const Row& row) {
    return host_step(row.ref, Shared(Words(size_t(row.ref.at) / 4)));
  });
  sheet.print();
}

/// All ways, in turn at each size.
void measure_ways(const Run& run, const std::vector<size_t>& sizes) {
  const auto last_of = [&](const Way& way) {
    return *std::find_if(sizes.rbegin(), sizes.rend(),
                         [&](size_t bytes) { return bytes <= way.most_bytes; });
  };
  std::vector<Sheet> sheets;
  for (const size_t bytes : sizes) {
    Sheet& sheet = sheets.emplace_back(run, bytes_text(double(bytes)), columns(), "bytes");
    for (const Way& way : ways)
      if (bytes <= way.most_bytes)
        sheet.add({.ref = {way.key, double(bytes)},
                   .words = way.words,
                   .calibrates = bytes == sizes.front() || bytes == last_of(way),
                   .model = Model::latency});
    SharedByTasks words([bytes] { return Words(bytes / 4); });
    sheet.measure(Timing::regrouped, [&](const Row& row) {
      return task_of(row.ref, words(), *with_key(ways, row.ref));
    });
  }
  for (Sheet& sheet : sheets) {
    sheet.predict([&](const Row& row) {
      const double small = double(sizes.front());
      const double large = double(last_of(*with_key(ways, row.ref)));
      const Line line(sheet.ms({row.ref.key, small}), small, sheet.ms({row.ref.key, large}), large);
      return line.ms(row.ref.at);
    });
    sheet.print();
  }
  run.report.note(
      "each: kernel, step, kernel, wait; the model: the time of 4 B, and the largest "
      "size's time per byte");
}

void run_keep_on_device(const Run& run) {
  const std::vector<size_t> sizes = sizes_of(run);
  run.report.begin("keep_on_device", "a step over 4 B to " + bytes_text(double(sizes.back())) +
                                         " between two kernels; then one operation per word");
  measure_ways(run, sizes);
  measure_host_step(run, sizes);
  run_carried(run);
}

// ---- claims ----

std::vector<Claim> claims(const Run& run) {
  const std::vector<size_t> sizes = sizes_of(run);
  Claim step{
      .part = {"02.8", "a step with little parallelism is better left on the GPU than fetched",
               "better, no figure", "the guide"},
      .rule = beats(),
      .here = "4 B to " + bytes_text(double(sizes.back()))};
  for (const size_t bytes : sizes)
    step.pairs.push_back(
        {.slow = {"round_trip", double(bytes)}, .fast = {name_of<step_by_block>(), double(bytes)}});
  const auto chain = [&](std::string_view way, size_t bytes) {
    return Comparison{.slow = {"chain_round_trip", double(bytes)}, .fast = {way, double(bytes)}};
  };
  step.found = {chain(name_of<step_by_thread>(), sizes.front()),
                chain(name_of<step_by_thread>(), 64 << 10),
                chain(name_of<scan_by_block>(), sizes.front()),
                chain(name_of<scan_by_block>(), sizes.back())};
  return {step, carried_claim(run)};
}

// ---- what it declares ----

Needs needs(const Run& run) {
  const double words = double(sizes_of(run).back()) / 4 + Words::canaries;
  return {.allocated = std::max(4 * 2 * words, carried_bytes(run))};
}

std::vector<Checked> tasks(size_t n) {
  std::vector<Checked> all;
  for (const Way& way : ways) {
    const Shared words(Words{n});
    all.push_back({.task = task_of(way.key, words, way), .elements = n, .change_one = [words, n] {
                     unsigned word;
                     device_memory::to_host(&word, words->out.data() + n - 1, 4);
                     ++word;
                     device_memory::to_device(words->out.data() + n - 1, &word, 4);
                   }});
  }
  add_carried_tasks(all, n);
  return all;
}

}  // namespace

extern const Experiment keep_on_device_experiment{
    .name = "keep_on_device",
    .about = "a step of 1024 chains, and an addition: on the GPU, or fetched to the host",
    .run = run_keep_on_device,
    .claims = claims,
    .needs = needs,
    .tasks = tasks,
};
