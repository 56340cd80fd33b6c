// peer: from GPU to GPU. With unified addresses all processors of a system share one address space
// [LC 2]. So a pointer tells whose memory it is, and where the hardware has a way a kernel follows
// it into another GPU's memory; the text says nothing of time, and nothing is judged. Two things to
// look at:
//   - Copies with peer access off, when the driver may take the way through the host, and on; loads
//     and stores over the link.
//   - What one load costs there.
//
//   cmake -S 02_memory_management -B build/peer -DEXPERIMENTS=peer
//   cmake --build build/peer && build/peer/02_memory_management
//
//   1  copy   loads over the link where the receiver runs it, stores where the sender does
//   2  chase  one load over the link after the other
#include <algorithm>
#include <memory>

#include "../framework/common/experiment.hpp"
#include "pattern.cuh"

using namespace samples;

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

bool accessible(int a, int b) {  // both ways
  int there = 0, back = 0;
  CUDA_CHECK(cudaDeviceCanAccessPeer(&there, a, b));
  CUDA_CHECK(cudaDeviceCanAccessPeer(&back, b, a));
  return there && back;
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

// ---- the work: queued in the default stream of the GPU that does it ----

enum Way { engine, loads, stores };
struct Named {
  const char* key = "";
  const char* words = "";
  Way way = engine;
  bool access = true;
};
const Named ways[] = {{"copy_off", "copy, access off", engine, false},
                      {"copy", "copy"},
                      {"loads", "loads", loads},
                      {"stores", "stores", stores}};

/// From one GPU to another, or to itself.
struct Pair {
  int from = 0, to = 0;

  bool itself() const { return from == to; }
  Ref ref(const char* what) const {
    std::string key = what;
    key += '_' + std::to_string(from) + "_to_" + std::to_string(to);
    return key;
  }
  std::string words() const {
    return "GPU " + std::to_string(from) + " to " + (itself() ? "itself" : std::to_string(to));
  }
  /// The GPU that does the work: loads are the receiver's.
  int worker(Way way) const { return way == loads ? to : from; }
};

/// While the work is measured its GPU is the current one (events belong to a GPU, too), and each of
/// the two may use the other's memory.
void set_turn(Task& task, int worker, const Pair& pair, bool access) {
  struct Turn {
    std::unique_ptr<PeerAccess> there, back;
    std::unique_ptr<On> on;
  };
  const Shared turn(Turn{});
  task.enter = [=] {
    if (access && !pair.itself()) {
      turn->there = std::make_unique<PeerAccess>(pair.from, pair.to);
      turn->back = std::make_unique<PeerAccess>(pair.to, pair.from);
    }
    turn->on = std::make_unique<On>(worker);
  };
  task.leave = [turn] {
    turn->on.reset();
    turn->there.reset(), turn->back.reset();
  };
}

unsigned blocks_for(size_t n) { return unsigned((n + block_threads - 1) / block_threads); }

/// All of one GPU's source to the other's target. The check waits for the worker's default stream
/// only.
Task carry_task(const Named& named, const Pair& pair, const Shared<std::vector<Gpu>>& gpus) {
  const Gpu &from = (*gpus)[size_t(pair.from)], &to = (*gpus)[size_t(pair.to)];
  const auto go = [gpus, &from, &to, way = named.way] {
    if (way == engine) {
      CUDA_CHECK(cudaMemcpyPeerAsync(to.target.data(), to.number, from.source.data(), from.number,
                                     from.bytes()));
      return;
    }
    copy<<<blocks_for(from.n), block_threads>>>(to.target.data(), from.source.data(), from.n);
    CUDA_CHECK_LAUNCH();
  };
  const unsigned round = next_round();
  const auto poison = [&from, &to, round] {
    from.send(round);
    to.spoil(round);
  };
  const auto wrong = [&to, round] {
    CUDA_CHECK(cudaStreamSynchronize(nullptr));
    return to.wrong(round);
  };
  Task task{text(pair.ref(named.key)), go, {poison, wrong, ""}};
  set_turn(task, pair.worker(named.way), pair, named.access);
  return task;
}

/// One thread of the receiver goes through the other's chain.
Task chase_task(const Pair& pair, const Shared<std::vector<Gpu>>& gpus) {
  const Gpu &owner = (*gpus)[size_t(pair.from)], &reader = (*gpus)[size_t(pair.to)];
  const auto go = [gpus, &owner, &reader] {
    chase<<<1, 1>>>(reader.sum_and_end.data(), owner.chain.data());
    CUDA_CHECK_LAUNCH();
  };
  const auto poison = [&reader] {
    CUDA_CHECK(cudaMemset(reader.sum_and_end.data(), 0xff, reader.sum_and_end.bytes()));
  };
  const auto wrong = [&reader] {
    const std::vector<unsigned> found = reader.sum_and_end.to_host();
    std::vector<unsigned> right(found.size(), ~0u);
    right[0] = links * (links - 1) / 2;  // every link once
    right[1] = 0;
    size_t wrong = 0;
    for (size_t i = 0; i < found.size(); ++i) wrong += found[i] != right[i];
    return wrong;
  };
  Task task{text(pair.ref("chase")), go, {poison, wrong, ""}};
  set_turn(task, pair.to, pair, true);
  return task;
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

// ---- the experiment: pairs of the same rank have the same link, either way, and a kernel gets out
// of it what the copy engine gets ----

/// A GPU and itself, then the ways from the first GPU to the others and back; `all`: every pair.
std::vector<Pair> pairs_of(int gpus, bool all) {
  std::vector<Pair> pairs{{}};
  for (int a = 0; a < gpus; ++a)
    for (int b = a + 1; b < gpus; ++b) {
      if (a > 0 && !all) continue;
      pairs.push_back({a, b});
      pairs.push_back({b, a});
    }
  return pairs;
}

/// What the driver says of a pair; not a number where there is no such pair.
double ask_pair(const Run& run, const Pair& pair, const char* metric, cudaDeviceP2PAttr which) {
  const auto told = [&] { return single(attribute(which, pair.from, pair.to)); };
  return ask_for_table(run, pair.ref("chase"), metric, "", told).median;
}

/// A pair of GPUs, and what the driver says of it.
struct Joined {
  Pair pair;
  double rank = NAN;  ///< not a number: a GPU and itself
  double atomics = NAN;
  bool reachable = true;

  /// Behind a link without atomics (PCIe) others may wait, too: no row there is held to anything.
  Model model() const { return pair.itself() || atomics > 0 ? Model::traffic : Model::host; }
  bool same_link(const Joined& other) const {
    return rank == other.rank || (pair.itself() && other.pair.itself());
  }
};

/// GPUs that may be there: a made-up machine has two, a recorded one had one or two.
int most_gpus(const Run& run) { return run.device && run.device->number >= 0 ? gpu_count() : 2; }

/// The first GPU and itself, and the pairs that are there.
std::vector<Joined> ask_pairs(const Run& run) {
  std::vector<Joined> all{{}};
  for (const Pair& pair : pairs_of(most_gpus(run), run.full)) {
    if (pair.itself()) continue;
    Joined joined{pair};
    joined.rank = ask_pair(run, pair, "performance rank", cudaDevP2PAttrPerformanceRank);
    joined.atomics = ask_pair(run, pair, "native atomics", cudaDevP2PAttrNativeAtomicSupported);
    const auto reachable = [&pair] { return single(accessible(pair.from, pair.to)); };
    joined.reachable = ask(run, pair.ref("chase"), "accessible", "", reachable).median != 0;
    if (std::isfinite(joined.rank)) all.push_back(joined);
  }
  return all;
}

/// Of one array, the same for all GPUs: what the fullest one has room for. Both arrays of a GPU
/// together are beyond its L2, for the row of a GPU and itself.
size_t elements_of(const Run& run) {
  double room = run.memory_there();
  for (int g = 0; run.device && run.device->number >= 0 && g < gpu_count(); ++g) {
    const On on(g);
    room = std::min(room, double(Device::free_bytes()));
  }
  size_t wanted = size_t(run.quick ? 64 : 256) << 20;
  if (run.device) wanted = std::max(wanted, 2 * run.device->l2_bytes());
  const size_t bytes =
      fitting_size("peer", 0, wanted, room, [](size_t size) { return 2.0 * double(size); });
  return std::max<size_t>(1, bytes / sizeof(uint4));
}

/// The first pair with the same link that can be reached gives the link's constants.
const Joined& first_of(const std::vector<Joined>& all, const Joined& joined) {
  for (const Joined& other : all)
    if (other.reachable && other.same_link(joined)) return other;
  return joined;
}
const char* const no_access = "no peer access";

void measure_pairs(const Run& run, const std::vector<Joined>& all, size_t n, int gpus) {
  const auto memory_of = [n, gpus] {
    std::vector<Gpu> made;
    for (int g = 0; g < gpus; ++g) made.push_back(make_gpu(g, n));
    return made;
  };
  SharedByTasks memory(memory_of);
  struct Work {
    const Joined* joined;
    const Named* named;  ///< null: the chase
  };
  std::vector<Work> works;
  const auto work_of = [&works](const Row& row) {
    for (const Work& work : works)
      if (same(work.joined->pair.ref(work.named ? work.named->key : "chase"), row.ref)) return work;
    throw std::logic_error(text(row.ref) + " names no pair");
  };
  Sheet rates(run, "from, to", {gigabytes_per_second(1), spread()});
  const auto nanoseconds = [](const Row&, double ms) { return ms * 1e6 / links; };
  const auto ranks = [&](const Row& row) { return work_of(row).joined->rank; };
  const auto atomics = [&](const Row& row) { return work_of(row).joined->atomics; };
  Sheet latencies(run, "one load, from, to",
                  {in_unit(compared("ns", "latency", "ns", 0), nanoseconds), spread(),
                   number(counted("rank", "performance rank", "", 0), ranks),
                   number(counted("atomics", "native atomics", "", 0), atomics)});
  for (const Joined& joined : all) {
    const Pair& pair = joined.pair;
    const bool first = &first_of(all, joined) == &joined;
    for (const Named& named : ways) {
      if (pair.itself() && !named.access) continue;
      works.push_back({&joined, &named});
      rates.add({.ref = pair.ref(named.key),
                 .words = pair.words() + ", " + named.words,
                 // over a link once; in a GPU's own memory they are read and written
                 .bytes = double(n * sizeof(uint4)) * (pair.itself() ? 2 : 1),
                 .calibrates = first && named.way == engine && named.access,
                 .model = joined.model(),
                 .missing = named.access && !joined.reachable ? no_access : ""});
    }
    works.push_back({&joined, nullptr});
    latencies.add({.ref = pair.ref("chase"),
                   .words = pair.words(),
                   .calibrates = first,
                   .model = joined.model(),
                   .missing = joined.reachable ? "" : no_access});
  }
  const auto make = [&](const Row& row) {
    const Work work = work_of(row);
    return work.named ? carry_task(*work.named, work.joined->pair, memory())
                      : chase_task(work.joined->pair, memory());
  };
  rates.measure(Timing::alone, make);
  latencies.measure(Timing::alone, make);
  rates.predict([&](const Row& row) {
    const Work work = work_of(row);
    const Pair& first = first_of(all, *work.joined).pair;
    return work.named->access ? rates.ms(first.ref("copy")) : double(NAN);
  });
  latencies.predict([&](const Row& row) {
    return latencies.ms(first_of(all, *work_of(row).joined).pair.ref("chase"));
  });
  rates.print({"a transfer's bytes count once; in a GPU's own memory as read and written"});
  latencies.print({"one load waits for the one before, and finds its word in the owner's L2"});
}

void run_peer(const Run& run) {
  const size_t n = elements_of(run);
  run.report.begin("peer", bytes_text(double(n * sizeof(uint4))) + " from GPU to GPU");
  const std::vector<Joined> pairs = ask_pairs(run);
  const int gpus = most_gpus(run);
  if (pairs.size() == 1)
    return run.report.left_out("copies and loads between GPUs",
                               run.device ? "one GPU is visible" : "no GPU");
  measure_pairs(run, pairs, n, gpus);
  if (gpus > 2 && !run.full) run.report.left_out("pairs without GPU 0", "see --full");
  const auto one_space = [gpus] {
    std::vector<Gpu> few;
    for (int g = 0; g < gpus; ++g) few.push_back(make_gpu(g, 1));
    require_right(one_address_space(few), "one address space");
    return single(1);
  };
  if (ask(run, "one_address_space", "right", "", one_space).median == 1)
    run.report.note(
        "one address space: each pointer tells its GPU, and every GPU read the same pinned memory");
}

// ---- what it declares ----

Needs needs(const Run& run) {
  return {.allocated = 2.0 * double(elements_of(run) * sizeof(uint4))};
}

/// On one GPU, which is its own peer.
std::vector<Checked> tasks(size_t n) {
  const auto one_gpu = [n] {
    std::vector<Gpu> made;
    made.push_back(make_gpu(0, n));
    return made;
  };
  std::vector<Checked> all;
  for (const Named& named : ways) {
    const Shared gpus(one_gpu());
    all.push_back({.task = carry_task(named, {}, gpus),
                   .elements = n * sizeof(uint4),
                   .change_one = [gpus, n] {
                     unsigned char* const last = bytes_of((*gpus)[0].target) + 16 * n - 1;
                     unsigned char byte = 0;
                     device_memory::to_host(&byte, last, 1);
                     ++byte;
                     device_memory::to_device(last, &byte, 1);
                   }});
  }
  const Shared gpus(one_gpu());
  all.push_back({.task = chase_task({}, gpus), .elements = 2, .change_one = [gpus] {
                   const unsigned other = 1;
                   device_memory::to_device((*gpus)[0].sum_and_end.data() + 1, &other, 4);
                 }});
  return all;
}

}  // namespace

extern const Experiment peer_experiment{
    .name = "peer",
    .about = "copies, loads and stores between two GPUs",
    .run = run_peer,
    .needs = needs,
    .tasks = tasks,
};
