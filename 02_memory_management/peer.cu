// peer: unified virtual addressing gives all processors of a system one address space. So any pointer tells which GPU
// it belongs to, and where the hardware allows it a kernel follows a pointer into another GPU's memory. Look at the
// copies with peer access off, when the driver may take the way through the host, and on; at one kernel that loads over
// the link when the receiver runs it, and stores over the link when the sender does; and at what one load costs there.
#include <doctest/doctest.h>

#include <optional>

#include "../common/first_edition.hpp"

namespace {

/// Element `i`: different for every i below 2^32, and never what poisoned memory holds.
__host__ __device__ uint4 element(size_t i) {
  const unsigned x = unsigned(i) * 2654435761u + 1;
  return {x, ~x, x ^ 0x9e3779b9u, x + 1};
}

__host__ __device__ bool equal(uint4 a, uint4 b) { return a.x == b.x && a.y == b.y && a.z == b.z && a.w == b.w; }

__global__ void fill(uint4* out, size_t n) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < n) out[i] = element(i);
}

// Each warp loads 512 bytes in a row and stores them; either side may be another GPU's memory, or pinned host memory.
__global__ void copy(uint4* out, const uint4* in, size_t n) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < n) out[i] = in[i];
}

__global__ void count_wrong(const uint4* data, size_t n, unsigned long long* wrong) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < n && !equal(data[i], element(i))) atomicAdd(wrong, 1ull);
}

constexpr unsigned links = 1024, line_words = 32;  // a link in every 128-byte line: no load finds what another brought

/// The link after `i`; the chain visits all of them and ends where it began.
__host__ __device__ unsigned next_link(unsigned i) { return (i + 389) % links; }

// One thread; each load's address is the answer of the load before.
__global__ void chase(const unsigned* chain, unsigned* sum_and_end) {
  unsigned at = 0, sum = 0;
  for (unsigned i = 0; i < links; ++i) sum += at = chain[at * line_words];
  sum_and_end[0] = sum, sum_and_end[1] = at;
}

/// Makes a GPU the current one, and at its end the one before again.
struct On {
  int before = 0;
  explicit On(int gpu) {
    CUDA_CHECK(cudaGetDevice(&before));
    CUDA_CHECK(cudaSetDevice(gpu));
  }
  On(const On&) = delete;
  ~On() { cudaSetDevice(before); }
};

/// Lets kernels and copies of `reader` use the memory of `owner`, until its end.
struct PeerAccess {
  const int reader, owner;
  PeerAccess(int reader, int owner) : reader(reader), owner(owner) {
    const On on(reader);
    CUDA_CHECK(cudaDeviceEnablePeerAccess(owner, 0));
  }
  PeerAccess(const PeerAccess&) = delete;
  ~PeerAccess() {
    int before = 0;
    if (cudaGetDevice(&before) || cudaSetDevice(reader)) return;
    cudaDeviceDisablePeerAccess(owner);
    cudaSetDevice(before);
  }
};

/// One GPU's memory: what it sends, what it receives into, and the chain. Must be made while that GPU is current.
struct Gpu {
  int number;
  size_t n;
  DeviceBuffer<uint4> source{n}, target{n};
  DeviceBuffer<unsigned> chain{links * line_words}, sum_and_end{2};
  DeviceBuffer<unsigned long long> wrong{1};
};

unsigned blocks(size_t n) { return unsigned((n + 255) / 256); }

Gpu make_gpu(int number, size_t n) {
  const On on(number);
  Gpu gpu{number, n};
  fill<<<blocks(n), 256>>>(gpu.source.data(), n);
  CUDA_CHECK_LAUNCH();
  std::vector<unsigned> chain(gpu.chain.size());
  for (unsigned i = 0; i < links; ++i) chain[i * line_words] = next_link(i);
  gpu.chain.copy_from(chain);
  CUDA_CHECK(cudaDeviceSynchronize());
  return gpu;
}

enum class Way { engine, loads, stores };

/// The GPU that does the work: loads are the receiver's.
int worker(Way way, const Gpu& from, const Gpu& to) { return way == Way::loads ? to.number : from.number; }

/// Queues the transfer of `from.source` to `to.target` in the worker's default stream; the worker must be current.
void carry(Way way, const Gpu& from, const Gpu& to) {
  if (way == Way::engine) {
    CUDA_CHECK(cudaMemcpyPeerAsync(to.target.data(), to.number, from.source.data(), from.number, from.source.bytes()));
    return;
  }
  copy<<<blocks(from.n), 256>>>(to.target.data(), from.source.data(), from.n);
  CUDA_CHECK_LAUNCH();
}

/// Elements of what a GPU received that are wrong.
unsigned long long wrong_elements(Gpu& gpu) {
  const On on(gpu.number);
  CUDA_CHECK(cudaMemset(gpu.wrong.data(), 0, sizeof(unsigned long long)));
  count_wrong<<<blocks(gpu.n), 256>>>(gpu.target.data(), gpu.n, gpu.wrong.data());
  CUDA_CHECK_LAUNCH();
  return gpu.wrong.to_host()[0];
}

/// True if everything arrives in poisoned memory. The GPUs wait for each other: their default streams do not.
bool arrives(Way way, Gpu& from, Gpu& to) {
  const On on_receiver(to.number);
  to.target.poison();
  CUDA_CHECK(cudaDeviceSynchronize());
  const On on_worker(worker(way, from, to));
  carry(way, from, to);
  CUDA_CHECK(cudaDeviceSynchronize());
  return wrong_elements(to) == 0;
}

/// GB/s of a way that was found right.
Statistics bandwidth(const Measuring& measuring, Way way, Gpu& from, Gpu& to) {
  require_right(arrives(way, from, to), "GPU " + std::to_string(from.number) + " to " + std::to_string(to.number));
  const On on(worker(way, from, to));
  return gigabytes_per_second(double(from.source.bytes()), time_device(measuring, [&] { carry(way, from, to); }));
}

/// Queues a chase by `reader`, the current GPU.
void chase_chain(const Gpu& owner, const Gpu& reader) {
  chase<<<1, 1>>>(owner.chain.data(), reader.sum_and_end.data());
  CUDA_CHECK_LAUNCH();
}

bool chases_right(const Gpu& owner, Gpu& reader) {
  const On on(reader.number);
  reader.sum_and_end.poison();
  chase_chain(owner, reader);
  return reader.sum_and_end.to_host() == std::vector<unsigned>{links * (links - 1) / 2, 0};
}

/// Nanoseconds of one load after another.
Statistics latency(const Measuring& measuring, const Gpu& owner, Gpu& reader) {
  require_right(chases_right(owner, reader), "chase");
  const On on(reader.number);
  return scaled(time_device(measuring, [&] { chase_chain(owner, reader); }), 1e6 / links);
}

int gpu_count() {
  int count = 0;
  CUDA_CHECK(cudaGetDeviceCount(&count));
  return count;
}

bool accessible(int reader, int owner) {
  int can = 0;
  CUDA_CHECK(cudaDeviceCanAccessPeer(&can, reader, owner));
  return can;
}

double attribute(cudaDeviceP2PAttr which, int from, int to) {
  int value = 0;
  CUDA_CHECK(cudaDeviceGetP2PAttribute(&value, which, from, to));
  return value;
}

/// True if every pointer tells whose it is, and every GPU reads pinned memory by the pointer that the host has.
bool one_address_space(std::vector<Gpu>& gpus) {
  const PinnedBuffer<uint4> pinned(1009, cudaHostAllocPortable);  // portable: for every GPU, not only the current one
  for (size_t i = 0; i < pinned.size(); ++i) pinned[i] = element(i);
  cudaPointerAttributes attributes{};
  CUDA_CHECK(cudaPointerGetAttributes(&attributes, pinned.data()));
  bool right = attributes.type == cudaMemoryTypeHost && attributes.devicePointer == pinned.data();
  for (const Gpu& gpu : gpus) {
    CUDA_CHECK(cudaPointerGetAttributes(&attributes, gpu.target.data()));
    right = right && attributes.type == cudaMemoryTypeDevice && attributes.device == gpu.number;
    const On on(gpu.number);
    DeviceBuffer<uint4> read(pinned.size());
    read.poison();
    copy<<<blocks(read.size()), 256>>>(read.data(), pinned.data(), read.size());
    CUDA_CHECK_LAUNCH();
    const std::vector<uint4> host = read.to_host();
    for (size_t i = 0; i < host.size(); ++i) right = right && equal(host[i], element(i));
  }
  return right;
}

}  // namespace

void peer(const Run& run) {
  const int count = run.device ? gpu_count() : 0;
  const size_t wanted = (size_t(run.quick ? 32 : count > 2 ? 64 : 256) << 20) / sizeof(uint4);  // 8 GPUs are 56 pairs
  size_t n = wanted;
  for (int g = 0; count > 1 && g < count; ++g) {
    const On on(g);
    while (n > 1 && 2 * n * sizeof(uint4) > Device::free_bytes() / 2) n /= 2;  // a source and a target
  }
  run.report.begin("peer", bytes_text(double(n) * sizeof(uint4)) + " from each GPU to each" +
                               (n < wanted ? " (shrunk to fit the fullest)" : ""));
  if (!run.device) return run.report.left_out("copies and loads between GPUs");
  if (count < 2) return run.report.left_out("copies and loads between GPUs", "one GPU is visible");

  std::vector<Gpu> gpus;
  for (int g = 0; g < count; ++g) gpus.push_back(make_gpu(g, n));
  Measuring measuring = run.measuring;
  measuring.budget_ms = run.full ? 250 : 20;  // as a rule five repeats: there are many pairs
  Table table(run.report, "from, to",
              {counted("rank", "performance rank", "", 0), counted("atomics", "native atomics", "", 0),
               measured("copy, access off GB/s", "rate, access off", "GB/s", 1),
               measured("copy, access on GB/s", "rate", "GB/s", 1), measured("loads GB/s", "rate of loads", "GB/s", 1),
               measured("stores GB/s", "rate of stores", "GB/s", 1), measured("one load ns", "latency", "ns", 0)});
  for (Gpu& from : gpus)
    for (Gpu& to : gpus) {
      const int a = from.number, b = to.number;
      if (a == b && a > 0) continue;  // one GPU's own memory, to compare with
      std::vector<Cell> cells(7);
      if (a != b) {
        cells[0] = attribute(cudaDevP2PAttrPerformanceRank, a, b);
        cells[1] = attribute(cudaDevP2PAttrNativeAtomicSupported, a, b);
        cells[2] = bandwidth(measuring, Way::engine, from, to);
      }
      if (a == b || (accessible(a, b) && accessible(b, a))) {
        std::optional<PeerAccess> there, back;
        if (a != b) there.emplace(a, b), back.emplace(b, a);
        for (Way way : {Way::engine, Way::loads, Way::stores})
          cells[3 + int(way)] = bandwidth(measuring, way, from, to);
        cells[6] = latency(measuring, from, to);
      }
      table.row({"GPU " + std::to_string(a) + " to " + (a == b ? "itself" : std::to_string(b))}, cells);
    }
  table.print();
  require_right(one_address_space(gpus), "one address space");
  run.report.note("one address space: each pointer tells its GPU, and every GPU read the same pinned memory");
  run.report.note("one load is dependent on the one before, and finds its word in the owner's L2");
}

// ---- self-checks ----------------------------------------------------------------------------------------------------

TEST_CASE("peer: the chain visits every link once") {
  std::vector<int> visits(links);
  unsigned at = 0;
  for (unsigned i = 0; i < links; ++i) ++visits[at = next_link(at)];
  CHECK(at == 0);
  CHECK(visits == std::vector<int>(links, 1));
}

TEST_CASE("peer: kernels and checks are right on one GPU") {
  if (skip_without_gpu()) return;
  for (size_t n : {1, 31, 1009, 65537, (1 << 20) + 3}) {
    CAPTURE(n);
    std::vector<Gpu> gpus;
    gpus.push_back(make_gpu(0, n));
    Gpu& gpu = gpus[0];
    gpu.target.poison();
    CHECK(wrong_elements(gpu) == n);
    for (Way way : {Way::engine, Way::loads, Way::stores}) CHECK(arrives(way, gpu, gpu));
    CUDA_CHECK(cudaMemset(gpu.target.data() + n - 1, 0, 1));  // one byte of the last element; it is not zero there
    CHECK(wrong_elements(gpu) == (element(n - 1).x % 256 != 0));
    CHECK(chases_right(gpu, gpu));
    CHECK(one_address_space(gpus));
  }
}

TEST_CASE("peer: copies and loads and stores are right at awkward sizes") {
  if (skip_without_gpu()) return;
  if (gpu_count() < 2) return skip_self_check("needs two GPUs");
  int before = -1;
  CUDA_CHECK(cudaGetDevice(&before));
  for (size_t n : {1, 31, 1009, 65537, (1 << 20) + 3}) {
    CAPTURE(n);
    std::vector<Gpu> gpus;
    for (int g : {0, 1}) gpus.push_back(make_gpu(g, n));
    for (int sender : {0, 1}) {
      Gpu &from = gpus[sender], &to = gpus[1 - sender];
      CHECK(arrives(Way::engine, from, to));
      if (!accessible(0, 1) || !accessible(1, 0)) continue;
      const PeerAccess there(0, 1), back(1, 0);
      for (Way way : {Way::engine, Way::loads, Way::stores}) CHECK(arrives(way, from, to));
      CHECK(chases_right(from, to));
    }
    CHECK(one_address_space(gpus));
    int current = -1;
    CUDA_CHECK(cudaGetDevice(&current));
    CHECK(current == before);
  }
}
