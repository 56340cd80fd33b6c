// reverse: an array is reversed in global memory, and by way of shared memory. On the G80 the way
// through shared memory won: a half-warp had to store its words in the order of its lanes, or each
// lane became a transaction of its own [DD]. In some cases, says a vendor's guide, data that are
// copied to shared memory and back take less time although there are more memory operations [KP].
// Two things to look at:
//   - The transactions of a store, then and now. The order of lanes no longer matters.
//   - What the way through shared memory costs: two more operations per word, and a barrier.
//
//   cmake -S 03_access_patterns -B build/reverse -DEXPERIMENTS=reverse
//   cmake --build build/reverse && build/reverse/03_access_patterns
//
//   1  copy_global     copies, and reverses nothing
//   2  reverse_global  stores each word at its place from the other end
//   3  reverse_shared  reverses the words of a block in shared memory, then stores them in order
#include "../framework/common/checked.cuh"
#include "../framework/common/experiment.hpp"
#include "sizes.hpp"
#include "transactions.hpp"

using namespace samples;

namespace {

// ---- kernels: one word per thread ----

constexpr unsigned block_threads = 256;

// Reverses nothing: what can be reached with one word per thread in flight.
__global__ void copy_global(unsigned* out, const unsigned* in, size_t n) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < n) out[i] = in[i];
}

// [reverse]
// A warp loads 32 neighbours. It stores 32 neighbours, the last lane's word first.
__global__ void reverse_global(unsigned* out, const unsigned* in, size_t n) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < n) out[n - 1 - i] = in[i];
}

// A warp loads 32 neighbours and stores 32 neighbours, the first lane's word first.
__global__ void reverse_shared(unsigned* out, const unsigned* in, size_t n) {
  __shared__ unsigned reversed[block_threads];
  const unsigned tid = threadIdx.x;
  const size_t first = blockIdx.x * size_t(block_threads);  // word of the block
  const unsigned words = n - first < block_threads ? unsigned(n - first) : block_threads;
  if (tid < words) reversed[words - 1 - tid] = in[first + tid];
  __syncthreads();  // a thread stores what another has loaded
  if (tid < words) out[n - first - words + tid] = reversed[tid];
}
// [/reverse]

// ---- the kernels in order ----

struct Kernel {
  std::string_view key = {};  ///< its name
  const char* words = "";
  void (*launch)(unsigned*, const unsigned*, size_t) = nullptr;
  bool reverses = true;
  bool lanes_in_order = true;  ///< of a store
  unsigned operations = 2;     ///< memory operations per word: loads and stores, global and shared
};
template <auto kernel>
Kernel named(Kernel k) {
  k.key = name_of<kernel>();
  k.launch = kernel;
  return k;
}

const Kernel kernels[] = {
    named<copy_global>({.words = "copied, not reversed", .reverses = false}),
    named<reverse_global>({.words = "in global memory", .lanes_in_order = false}),
    named<reverse_shared>({.words = "through shared memory", .operations = 4}),
};

// ---- what is right ----

struct Input {
  __device__ unsigned operator()(size_t i) const { return scrambled(i); }
};
struct IsRight {
  size_t n;
  bool reversed;
  __device__ bool operator()(size_t i, unsigned found) const {
    return found == scrambled(reversed ? n - 1 - i : i);
  }
};

struct Words {
  static constexpr double bytes_each = 8;  ///< of a word: read, and written

  size_t n;
  DeviceBuffer<unsigned> in = filled<unsigned>(n, Input{});
  Output<unsigned> out{n};
};

Task task_of(const Shared<Words>& words, const Kernel& k) {
  const unsigned blocks = unsigned((words->n + block_threads - 1) / block_threads);
  const auto launch = [words, &k, blocks] {
    k.launch<<<blocks, block_threads>>>(words->out.data(), words->in.data(), words->n);
  };
  return {std::string(k.key), launch, words->out.check(IsRight{words->n, k.reverses})};
}

// ---- prediction ----

Warp load() {
  return warp_of(4, [](unsigned lane) { return lane; });
}
Warp store(const Kernel& k) {
  return warp_of(4, [&](unsigned lane) { return k.lanes_in_order ? lane : 31 - lane; });
}

double transactions_on_g80(const Kernel& k) { return under(Rule::in_order, store(k)).count(); }
double load_sectors(const Kernel&) { return sectors(load()); }
double store_sectors(const Kernel& k) { return sectors(store(k)); }
double operations(const Kernel& k) { return k.operations; }

/// As many bytes, in as many sectors, by as many threads: each kernel takes as long as the copy.
/// The barrier, and the two accesses of shared memory, are left out: they should hide behind the
/// loads of other blocks.
double predicted_ms(double copy_ms) { return copy_ms; }

// ---- the experiment ----

size_t words_of(const Run& run) {
  return size_beyond_l2(run, "reverse", size_t(1) << (run.quick ? 25 : 27), Words::bytes_each,
                        Words::bytes_each);
}
bool in_cache(const Run& run) {
  return run.device && !beyond_l2(*run.device, Words::bytes_each * double(words_of(run)));
}

Shown of_kernel(Column column, double (*number_of)(const Kernel&)) {
  return number(std::move(column),
                [number_of](const Row& row) { return number_of(*with_key(kernels, row.ref)); });
}

void run_reverse(const Run& run) {
  const size_t n = words_of(run);
  const double bytes = Words::bytes_each * double(n);
  run.report.begin("reverse", std::to_string(n) + " words of 4 bytes, " + bytes_text(bytes) +
                                  " read and written, one word per thread" +
                                  (in_cache(run) ? ", less than four times the L2" : ""));
  SharedByTasks words([n] { return Words{n}; });

  Sheet sheet(
      run, "kernel",
      {of_kernel(predicted("operations/word", "memory operations per word", "", 0), operations),
       of_kernel(predicted("store: transactions on 1.0", "transactions a store on 1.0", "", 0),
                 transactions_on_g80),
       of_kernel(predicted("sectors/load", "sectors a load request", "", 0), load_sectors),
       of_kernel(predicted("sectors/store", "sectors a store request", "", 0), store_sectors),
       milliseconds(4), spread(), in_unit(measured("GB/s", "bandwidth", "GB/s", 0), gbs_of),
       share_against(run, "copy_global", "of the copy"), bar_against(run, "copy_global")});
  for (const Kernel& k : kernels)
    sheet.add({.ref = k.key, .words = k.words, .bytes = bytes, .calibrates = !k.reverses});
  sheet.measure(Timing::in_turn,
                [&](const Row& row) { return task_of(words(), *with_key(kernels, row.ref)); });
  sheet.predict([&](const Row&) { return predicted_ms(sheet.ms("copy_global")); });
  sheet.print();
}

// ---- claims ----

std::vector<Claim> claims(const Run& run) {
  const std::string unless = in_cache(run) ? "the arrays are less than four times the L2" : "";
  const Comparison gain{.slow = "reverse_global", .fast = "reverse_shared"};
  return {{.part = {"03.6", "reversing through shared memory beats reversing in global memory",
                    "faster, no figure", "G80", g80},
           .rule = beats(),
           .pairs = {gain},
           .unless = unless},
          {.part = {"03.15",
                    "in some cases more memory operations, through shared memory, take less time",
                    "less time, no figure", "a vendor's guide"},
           .rule = beats(),
           .pairs = {gain},
           .some = true,
           .unless = unless}};
}

// ---- what it declares ----

Needs needs(const Run& run) {
  const double bytes = Words::bytes_each * double(words_of(run));
  return {.allocated = bytes, .touched = bytes};
}

std::vector<Checked> tasks(size_t n) {
  std::vector<Checked> all;
  for (const Kernel& k : kernels) {
    const Shared words(Words{n});
    all.push_back({.task = task_of(words, k), .elements = n, .change_one = [words, n] {
                     words->out.change(n / 2);
                   }});
  }
  return all;
}

std::vector<CountedLaunch> counted() {
  constexpr size_t n = 65536;
  constexpr double warps = n / 32;
  std::vector<CountedLaunch> all;
  for (const Kernel& k : kernels)
    all.push_back(counted_launch(
        std::string(k.key), "65536 words", {warps, warps * load_sectors(k)},
        {warps, warps * store_sectors(k)}, [&k] { return task_of(Shared(Words{n}), k); }));
  return all;
}

}  // namespace

extern const Experiment reverse_experiment{
    .name = "reverse",
    .about = "an array reversed in global memory, and through shared memory",
    .run = run_reverse,
    .claims = claims,
    .needs = needs,
    .tasks = tasks,
    .counted = counted};
