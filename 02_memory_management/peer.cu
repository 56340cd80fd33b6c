// peer: from GPU to GPU. With unified addresses all processors of a system share one address space
// [LC 2]. So a pointer tells whose memory it is, and where the hardware has a way a kernel follows
// it into another GPU's memory; the text says nothing of time, and nothing is judged. Look at
// copies with peer access off, when the driver may take the way through the host, and on; at loads
// and stores over the link; and at what one load costs there.
//   cmake -S 02_memory_management -B build/peer -DEXPERIMENTS=peer
//   cmake --build build/peer && build/peer/02_memory_management
//
//   1  copy   loads over the link where the receiver runs it, stores where the sender does
//   2  chase  one load over the link after the other
#include <algorithm>
#include <map>
#include <optional>

#include "../common/report.hpp"
#include "pattern.cuh"

namespace {

// ---- kernels ----

constexpr unsigned block_threads = 256;

// [copy]
// Each warp loads 512 bytes in a row and stores them. Either side may be another GPU's memory.
__global__ void copy(uint4* out, const uint4* in, size_t n) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < n) out[i] = in[i];
}
// [/copy]

constexpr unsigned links = 1024;
constexpr unsigned line_words =
    32;  // a link in every 128 bytes: no load finds what another brought

// [chase]
// One thread; each load's address is the answer of the load before.
__global__ void chase(unsigned* sum_and_end, const unsigned* chain) {
  unsigned at = 0;
  unsigned sum = 0;
  for (unsigned i = 0; i < links; ++i) {
    at = chain[at * line_words];
    sum += at;
  }
  sum_and_end[0] = sum;
  sum_and_end[1] = at;
}
// [/chase]

// ---- whose turn it is, and who may reach whom ----

/// Makes a GPU the current one, and at its end the one before again.
class On {
 public:
  explicit On(int gpu) {
    CUDA_CHECK(cudaGetDevice(&before_));
    CUDA_CHECK(cudaSetDevice(gpu));
  }
  On(const On&) = delete;
  ~On() { cudaSetDevice(before_); }

 private:
  int before_ = 0;
};

/// Lets kernels and copies of `reader` use the memory of `owner`, until its end.
class PeerAccess {
 public:
  PeerAccess(int reader, int owner) : reader_(reader), owner_(owner) {
    const On on(reader);
    CUDA_CHECK(cudaDeviceEnablePeerAccess(owner, 0));
  }
  PeerAccess(const PeerAccess&) = delete;
  ~PeerAccess() {
    int before = 0;
    if (cudaGetDevice(&before) != cudaSuccess || cudaSetDevice(reader_) != cudaSuccess) return;
    cudaDeviceDisablePeerAccess(owner_);
    cudaSetDevice(before);
  }

 private:
  const int reader_, owner_;
};

int gpu_count() {
  int count = 0;
  CUDA_CHECK(cudaGetDeviceCount(&count));
  return count;
}

bool accessible(int reader, int owner) {
  int can = 0;
  CUDA_CHECK(cudaDeviceCanAccessPeer(&can, reader, owner));
  return can != 0;
}

int attribute(cudaDeviceP2PAttr which, int from, int to) {
  int value = 0;
  CUDA_CHECK(cudaDeviceGetP2PAttribute(&value, which, from, to));
  return value;
}

// ---- what a GPU sends and receives, and what is right ----

constexpr size_t canaries = 4;  // behind what is written, in elements; they must stay as they were

/// The link after `i`; the chain visits all of them and ends where it began.
unsigned next_link(unsigned i) { return (i + 389) % links; }

std::vector<unsigned> whole_chain() {
  std::vector<unsigned> chain((links - 1) * line_words + 1);  // and not a word more
  for (unsigned i = 0; i < links; ++i) chain[i * line_words] = next_link(i);
  return chain;
}

/// A number that no check has had before.
unsigned next_round() {
  static unsigned round = 0;
  return ++round;
}

unsigned char* bytes_of(const DeviceBuffer<uint4>& elements) {
  return reinterpret_cast<unsigned char*>(elements.data());
}

/// One GPU's memory. Must be made while that GPU is current.
struct Gpu {
  int number;
  size_t n;  ///< elements of 16 bytes
  DeviceBuffer<uint4> source{n};
  DeviceBuffer<uint4> target{n + canaries};
  DeviceBuffer<unsigned> chain{whole_chain()};
  DeviceBuffer<unsigned> sum_and_end{2 + canaries};
  DeviceBuffer<unsigned long long> count{1};

  size_t bytes() const { return n * sizeof(uint4); }

  void send(unsigned round) const {
    const On on(number);
    put_pattern(bytes_of(source), bytes(), round);
  }
  /// What is received next must differ from this everywhere.
  void spoil(unsigned round) const {
    const On on(number);
    put_pattern(bytes_of(target), bytes(), round + 128);
    CUDA_CHECK(cudaMemset(target.data() + n, 0xff, canaries * sizeof(uint4)));
    CUDA_CHECK(cudaDeviceSynchronize());
  }
  size_t wrong(unsigned round) const {
    const On on(number);
    const size_t wrong = wrong_bytes(bytes_of(target), bytes(), round, 0, count);
    std::vector<unsigned char> behind(canaries * sizeof(uint4));
    device_memory::to_host(behind.data(), target.data() + n, behind.size());
    return wrong + behind.size() - size_t(std::count(behind.begin(), behind.end(), 0xff));
  }
};

Gpu make_gpu(int number, size_t n) {
  const On on(number);
  return Gpu{number, n};
}

// ---- the work: queued in the default stream of the GPU that does it, which must be current ----

enum Way { engine, loads, stores, way_count };
const char* const way_names[] = {"copy", "loads", "stores"};

/// The GPU that does the work: loads are the receiver's.
int worker(Way way, int from, int to) { return way == loads ? to : from; }

unsigned blocks_for(size_t n) { return unsigned((n + block_threads - 1) / block_threads); }

/// All of `from`'s source to `to`'s target. The check waits for the worker's default stream only.
Task carrying(Way way, const Gpu& from, const Gpu& to) {
  const unsigned round = next_round();
  Check check;
  check.poison = [&from, &to, round] {
    from.send(round);
    to.spoil(round);
  };
  check.wrong = [&to, round] {
    CUDA_CHECK(cudaStreamSynchronize(nullptr));
    return to.wrong(round);
  };
  const auto go = [&from, &to, way] {
    if (way == engine) {
      CUDA_CHECK(cudaMemcpyPeerAsync(to.target.data(), to.number, from.source.data(), from.number,
                                     from.bytes()));
      return;
    }
    copy<<<blocks_for(from.n), block_threads>>>(to.target.data(), from.source.data(), from.n);
    CUDA_CHECK_LAUNCH();
  };
  const std::string name = std::string(way_names[way]) + " from GPU " +
                           std::to_string(from.number) + " to " + std::to_string(to.number);
  return {name, go, std::move(check)};
}

/// One thread of `reader` goes through `owner`'s chain.
Task chasing(const Gpu& owner, Gpu& reader) {
  Check check;
  check.poison = [&reader] { reader.sum_and_end.poison(); };
  check.wrong = [&reader] {
    const std::vector<unsigned> found = reader.sum_and_end.to_host();
    std::vector<unsigned> right(found.size(), ~0u);
    right[0] = links * (links - 1) / 2;  // every link once
    right[1] = 0;
    size_t wrong = 0;
    for (size_t i = 0; i < found.size(); ++i) wrong += found[i] != right[i];
    return wrong;
  };
  const auto go = [&owner, &reader] {
    chase<<<1, 1>>>(reader.sum_and_end.data(), owner.chain.data());
    CUDA_CHECK_LAUNCH();
  };
  return {"chase by GPU " + std::to_string(reader.number), go, std::move(check)};
}

/// True if every pointer tells whose it is, and every GPU reads pinned memory by the pointer that
/// the host has.
bool one_address_space(const std::vector<Gpu>& gpus) {
  constexpr size_t n = 1009;
  constexpr unsigned round = 77;
  // portable: for every GPU, not only the current one
  const PinnedBuffer<uint4> pinned(n, cudaHostAllocPortable);
  unsigned char* const on_host = reinterpret_cast<unsigned char*>(pinned.data());
  for (size_t i = 0; i < pinned.bytes(); ++i) on_host[i] = byte_at(i, round);
  cudaPointerAttributes attributes{};
  CUDA_CHECK(cudaPointerGetAttributes(&attributes, pinned.data()));
  bool right = attributes.type == cudaMemoryTypeHost && attributes.devicePointer == pinned.data();
  for (const Gpu& gpu : gpus) {
    CUDA_CHECK(cudaPointerGetAttributes(&attributes, gpu.target.data()));
    right = right && attributes.type == cudaMemoryTypeDevice && attributes.device == gpu.number;
    const On on(gpu.number);
    DeviceBuffer<uint4> read(n);
    read.poison();
    copy<<<blocks_for(n), block_threads>>>(read.data(), pinned.data(), n);
    CUDA_CHECK_LAUNCH();
    right = right && wrong_bytes(bytes_of(read), read.bytes(), round) == 0;
  }
  return right;
}

// ---- what to expect: pairs of the same rank have the same link, either way, and a kernel gets out
// of it what the copy engine gets ----

/// What a pair is measured at. Empty: not measured.
struct Pair {
  int from = 0, to = 0;
  int rank = -1;  ///< as the driver has it; -1: a GPU and itself
  bool atomics = false;
  Readings access_off, by[way_count], one_load;
};

/// The first pair of a rank that has been measured gives the rank's constants.
struct Link {
  double gbs = NAN;      ///< of the copy engine
  double load_ns = NAN;  ///< from one load to the next
};

/// Behind a link without atomics (PCIe) others may wait, too: no row there is held to anything.
Model model_of(const Pair& pair) {
  return pair.atomics || pair.rank < 0 ? Model::traffic : Model::host;
}

Statistics gbs_of(const Readings& readings, double bytes) {
  return readings.ms.empty() ? Statistics{} : gigabytes_per_second(bytes, readings.statistics());
}

Statistics nanoseconds_a_load(const Readings& readings) {
  return scaled(readings.statistics(), 1e6 / links);
}

// ---- the experiment ----

std::string pair_name(const Pair& pair) {
  return "GPU " + std::to_string(pair.from) + " to " +
         (pair.rank < 0 ? "itself" : std::to_string(pair.to));
}

/// A GPU and itself, then the ways from the first GPU to the others and back; `all`: every pair.
std::vector<Pair> pairs_of(int gpus, bool all) {
  std::vector<Pair> pairs{{}};
  for (int a = 0; a < gpus; ++a)
    for (int b = a + 1; b < gpus; ++b) {
      if (a > 0 && !all) continue;
      for (const bool back : {false, true}) {
        Pair pair;
        pair.from = back ? b : a;
        pair.to = back ? a : b;
        pair.rank = 0;
        pairs.push_back(pair);
      }
    }
  return pairs;
}

/// Times work of a GPU, which is current meanwhile: events belong to a GPU, too.
Readings time_on(int gpu, const Run& run, const Task& task) {
  const On on(gpu);
  return run.time(task);
}

void measure(const Run& run, Pair& pair, Gpu& from, Gpu& to) {
  const bool itself = pair.rank < 0;
  if (!itself) {
    pair.rank = attribute(cudaDevP2PAttrPerformanceRank, pair.from, pair.to);
    pair.atomics = attribute(cudaDevP2PAttrNativeAtomicSupported, pair.from, pair.to) != 0;
    pair.access_off = time_on(pair.from, run, carrying(engine, from, to));
    if (!accessible(pair.from, pair.to) || !accessible(pair.to, pair.from)) return;
  }
  std::optional<PeerAccess> there, back;
  if (!itself) there.emplace(pair.from, pair.to);
  if (!itself) back.emplace(pair.to, pair.from);
  for (const Way way : {engine, loads, stores})
    pair.by[way] = time_on(worker(way, pair.from, pair.to), run, carrying(way, from, to));
  pair.one_load = time_on(pair.to, run, chasing(from, to));
}

void show(const Run& run, const std::vector<Pair>& pairs, double bytes) {
  Table rates(run.report, "from, to",
              {measured("copy, access off: GB/s", "rate without access", "GB/s", 1),
               compared("copy", "rate", "GB/s", 1), compared("loads", "rate of loads", "GB/s", 1),
               compared("stores", "rate of stores", "GB/s", 1)});
  Table latencies(
      run.report, "from, to",
      {compared("one load ns", "latency", "ns", 0), counted("rank", "performance rank", "", 0),
       counted("atomics", "native atomics", "", 0)});
  std::map<int, Link> known;
  for (const Pair& pair : pairs) {
    const bool itself = pair.rank < 0;
    const Statistics copied = gbs_of(pair.by[engine], bytes);
    const Statistics load = nanoseconds_a_load(pair.one_load);
    const bool first = known.count(pair.rank) == 0;
    if (first && copied.repeats > 0) known[pair.rank] = {copied.median, load.median};
    const Link link = copied.repeats > 0 ? known[pair.rank] : Link{};
    const Model model = model_of(pair);
    const auto rate = [&](Way way) {
      return Compared{link.gbs, gbs_of(pair.by[way], bytes), model};
    };
    rates.row({pair_name(pair)},
              {gbs_of(pair.access_off, bytes), first ? Cell(Calibration{copied}) : rate(engine),
               rate(loads), rate(stores)});
    const Cell one = first ? Cell(Calibration{load}) : Cell(Compared{link.load_ns, load, model});
    latencies.row({pair_name(pair)}, {one, itself ? Cell() : Cell(double(pair.rank)),
                                      itself ? Cell() : Cell(double(pair.atomics))});
  }
  rates.print();
  latencies.print();
  run.report.note("calibration: the first pair of a rank; a transfer's bytes count once");
  run.report.note("one load waits for the one before, and finds its word in the owner's L2");
}

/// The same for all GPUs: what the fullest one has room for. Both arrays of a GPU together are
/// beyond its L2, for the row of a GPU and itself.
size_t elements_for(const Run& run, int gpus) {
  double room = INFINITY;
  for (int g = 0; g < gpus; ++g) {
    const On on(g);
    room = std::min(room, double(Device::free_bytes()));
  }
  size_t wanted = size_t(run.quick ? 64 : 256) << 20;
  if (run.device) wanted = std::max(wanted, 2 * run.device->l2_bytes());
  const size_t bytes =
      fitting_size("peer", 0, wanted, room, [](size_t size) { return 2.0 * double(size); });
  return std::max<size_t>(1, bytes / sizeof(uint4));
}

}  // namespace

void peer(const Run& run) {
  const int count = run.device ? gpu_count() : 0;
  const size_t n = elements_for(run, count);
  const double bytes = double(n * sizeof(uint4));
  run.report.begin("peer", bytes_text(bytes) + " from GPU to GPU");
  if (!run.device) return run.report.left_out("copies and loads between GPUs");
  if (count < 2) return run.report.left_out("copies and loads between GPUs", "one GPU is visible");

  std::vector<Gpu> gpus;
  for (int g = 0; g < count; ++g) gpus.push_back(make_gpu(g, n));
  Run brief = run;  // eight GPUs have many pairs
  if (!run.measuring.typed && !run.full) brief.measuring.budget_ms = 20;
  std::vector<Pair> pairs = pairs_of(count, run.full);
  Progress progress("peer", int(pairs.size()));
  for (Pair& pair : pairs) {
    measure(brief, pair, gpus[pair.from], gpus[pair.to]);
    progress.step();
  }
  show(run, pairs, bytes);
  if (count > 2 && !run.full) run.report.left_out("pairs without GPU 0", "see --full");
  require_right(one_address_space(gpus), "one address space");
  run.report.note(
      "one address space: each pointer tells its GPU, and every GPU read the same pinned memory");
}
