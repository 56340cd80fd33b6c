// peer: can one GPU use another's memory? With unified virtual addresses (UVA) all processors of a
// system share one address space, says the wiki: the same pointer for the same memory [LC 2]. So a
// pointer tells whose memory it is; and where the hardware has a way, a kernel follows it into
// another GPU's memory. The wiki says nothing of time: no claim to judge.
//
// Look at the copy before and after peer access is enabled: before, the driver may carry the bytes
// through the host. Then compare the kernel's loads from the other GPU with its stores to it. One
// GPU alone has no peer: a line says so.
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o peer peer.cu ../common/*.cpp
//
//   1  copy  either side may be another GPU's memory
#include "../common/arrays.cuh"
#include "../common/sample.hpp"

namespace {

// Each warp loads 512 bytes in a row and stores them.
__global__ void copy(uint4* out, const uint4* in, size_t n) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < n) out[i] = in[i];
}

// ---- which GPU ----

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

int current() {
  int gpu = 0;
  CUDA_CHECK(cudaGetDevice(&gpu));
  return gpu;
}

/// Whether kernels on `reader` can follow a pointer into `owner`'s memory.
bool can_access(int reader, int owner) {
  int can = 0;
  CUDA_CHECK(cudaDeviceCanAccessPeer(&can, reader, owner));
  return can != 0;
}

/// Another GPU than the current one, if possible one with access both ways; -1 if there is none.
int find_peer() {
  int count = 0, found = -1;
  CUDA_CHECK(cudaGetDeviceCount(&count));
  const int here = current();
  for (int gpu = count - 1; gpu >= 0; --gpu)
    if (gpu != here && (found < 0 || (can_access(here, gpu) && can_access(gpu, here)))) found = gpu;
  return found;
}

/// Lets kernels and copies on `reader` use the memory of `owner`, until its end.
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
  int reader_, owner_;
};

// ---- the memory, and the work ----

/// Each GPU's source holds other words.
struct Pattern {
  int gpu;
  __host__ __device__ unsigned operator()(size_t i) const { return hash(i) + unsigned(gpu); }
};

/// n elements of 16 bytes to copy from, and to copy to. Made while its GPU is the current one.
struct Memory {
  size_t n;
  int gpu = current();
  DeviceBuffer<unsigned> source = filled<unsigned>(4 * n, Pattern{gpu});
  GuardedBuffer<unsigned> target{4 * n};

  explicit Memory(size_t n) : n(n) { CUDA_CHECK(cudaDeviceSynchronize()); }
};

Memory memory_on(int gpu, size_t n) {
  const On on(gpu);
  return Memory(n);
}

Benchmark carrying(const std::string& name, const Memory& from, const Memory& to,
                   std::function<void()> work) {
  const auto poison = [=] {
    const On on(to.gpu);
    to.target.poison();
  };
  const auto find_error = [=] {
    const On on(to.gpu);
    return find_mismatch(to.target, Pattern{from.gpu});
  };
  return {.name = name, .work = std::move(work), .check = {poison, find_error}};
}

/// A copy engine's work, queued in the current GPU's default stream.
Benchmark by_engine(const std::string& name, const Memory& from, const Memory& to) {
  return carrying(name, from, to, [=] {
    CUDA_CHECK(cudaMemcpyPeerAsync(to.target, to.gpu, from.source, from.gpu, from.source.bytes()));
  });
}

/// The current GPU loads from `from` and stores to `to`.
Benchmark by_kernel(const std::string& name, const Memory& from, const Memory& to) {
  return carrying(name, from, to, [=] {
    const auto* in = reinterpret_cast<const uint4*>(from.source.data());
    auto* out = reinterpret_cast<uint4*>(to.target.data());
    copy<<<unsigned(ceil_div(from.n, 256)), 256>>>(out, in, from.n);
    CUDA_CHECK_LAUNCH();
  });
}

// ---- the experiment ----

/// What a pointer tells: "device memory of GPU 1".
std::string owner_of(const void* pointer) {
  cudaPointerAttributes told{};
  CUDA_CHECK(cudaPointerGetAttributes(&told, pointer));
  if (told.type == cudaMemoryTypeDevice)
    return "device memory of GPU " + std::to_string(told.device);
  if (told.type != cudaMemoryTypeHost) return "unknown to CUDA";
  return told.devicePointer == pointer ? "host memory, on the device the same pointer"
                                       : "host memory, on the device another pointer";
}

void show_owners(Run& run, const Memory& here, const Memory& there) {
  unsigned* pinned = nullptr;
  CUDA_CHECK(cudaMallocHost(&pinned, 64));
  const std::vector<unsigned> pageable(16);
  Table table("a pointer from", {"cudaPointerGetAttributes"});
  table.row("cudaMalloc on GPU " + std::to_string(here.gpu), {owner_of(here.source)});
  table.row("cudaMalloc on GPU " + std::to_string(there.gpu), {owner_of(there.source)});
  table.row("cudaMallocHost", {owner_of(pinned)});
  table.row("new", {owner_of(pageable.data())});
  CUDA_CHECK(cudaFreeHost(pinned));
  run.print(table);
}

}  // namespace

void peer(Run& run) {
  const int there_gpu = find_peer();
  if (there_gpu < 0) {
    run.title("one GPU is visible: it has no peer");
    return;
  }
  const size_t n = run.fitting((run.quick ? 32 : 128) << 20 >> 4, 32);
  const Memory here(n), there = memory_on(there_gpu, n);
  const double bytes = double(here.source.bytes());
  const std::string name = "GPU " + std::to_string(there_gpu);
  run.title(bytes_text(bytes) + " from GPU " + std::to_string(here.gpu) + " to " + name);
  show_owners(run, here, there);

  Timer timer = run.timer;
  timer.rounds = 12;
  Table table("GB/s", {"measured", "spread"});
  const auto add = [&](const char* row, const Times& times) {
    table.row(row, {times.gbs_interval(bytes), percent(times.spread())});
  };
  add("copy, peer access off", timer.alone(by_engine("copy, peer access off", here, there)));
  if (can_access(here.gpu, there.gpu) && can_access(there.gpu, here.gpu)) {
    const PeerAccess to_there(here.gpu, there.gpu), to_here(there.gpu, here.gpu);
    const Benchmark rows[] = {by_engine("copy, peer access on", here, there),
                              by_kernel("kernel, stores to the peer", here, there),
                              by_kernel("kernel, loads from the peer", there, here),
                              by_kernel("kernel, in its own memory", here, here)};
    const Timings timed = timer.interleaved({std::begin(rows), std::end(rows)});
    for (const Benchmark& row : rows) add(row.name.c_str(), timed[row.name]);
  } else {
    table.missing("peer access on", "cudaDeviceCanAccessPeer: no");
  }
  run.print(table);
  run.note("bytes are counted once: in its own memory a kernel reads and writes as many");
}
SAMPLE(9, peer, "from one card to another");

TEST_CASE("peer: the kernel and the engine are right on one GPU, at awkward sizes") {
  if (skip_without_gpu()) return;
  for (const size_t n : {1, 31, 1009, 65537}) {
    CAPTURE(n);
    const Memory here(n);
    CHECK(owner_of(here.source) == "device memory of GPU " + std::to_string(current()));
    CHECK_NOTHROW(require_right(by_engine("engine", here, here)));
    CHECK_NOTHROW(require_right(by_kernel("kernel", here, here)));
  }
}

TEST_CASE("peer: copies, loads and stores between two GPUs are right at awkward sizes") {
  if (skip_without_gpu()) return;
  const int peer = find_peer();
  if (peer < 0) return skip("there is one GPU");
  const int before = current();
  for (const size_t n : {1, 31, 1009, 65537}) {
    CAPTURE(n);
    const Memory here(n), there = memory_on(peer, n);
    CHECK(owner_of(there.source) == "device memory of GPU " + std::to_string(peer));
    CHECK_NOTHROW(require_right(by_engine("access off", here, there)));
    if (!can_access(before, peer) || !can_access(peer, before)) continue;
    const PeerAccess to_there(before, peer), to_here(peer, before);
    CHECK_NOTHROW(require_right(by_engine("to the peer", here, there)));
    CHECK_NOTHROW(require_right(by_engine("from the peer", there, here)));
    CHECK_NOTHROW(require_right(by_kernel("stores", here, there)));
    CHECK_NOTHROW(require_right(by_kernel("loads", there, here)));
    CHECK(current() == before);
  }
}
