// Self-checks of async_copy.cu, compiled in its place where BUILD_TESTING is on.
#include "../async_copy.cu"

#include "../../framework/common/checks/made_up_devices.hpp"
#include "../../framework/common/checks/standard.hpp"

namespace {

const Variant& named(const char* key) { return *with_key(variants, Ref(key)); }

}  // namespace

TEST_CASE("async_copy: the chases visit every slot once") {
  for (const unsigned slots : {1u, 2u, 8u, 4096u, 1u << 20}) {
    unsigned slot = next_slot(0, slots);
    unsigned count = 1;
    for (; slot != 0 && count < slots; slot = next_slot(slot, slots)) ++count;
    CHECK(count == slots);
    CHECK(slot == 0);
  }
}

// From the text of the kernels: tiles go round the blocks, the words of a tile round the threads.
TEST_CASE("async_copy: each thread must find the sum of its words, by tiles") {
  for (const unsigned blocks : {1u, 3u, 7u})
    for (const unsigned tile : {128u, 512u, 2048u})
      for (const size_t n : {size_t(1), size_t(127), size_t(1009), size_t(20011)}) {
        constexpr unsigned threads = 128;
        std::vector<unsigned> sums(size_t(blocks) * threads, 0);
        for (size_t i = 0; i < n; ++i) {
          unsigned& sum = sums[i / tile % blocks * threads + i % tile % threads];
          for (size_t part = 0; part < 4; ++part) sum += scrambled(4 * i + part);
        }
        const IsSum right{blocks, threads, tile, n};
        for (size_t t = 0; t < sums.size(); ++t) CHECK(right.of_thread(t) == sums[t]);
        CHECK(right.of_thread(sums.size()) == ~0u);
      }
}

TEST_CASE("async_copy: keys, threads and bytes in flight, by hand") {
  struct Expected {
    const char *key, *words;
    unsigned threads, tile;  ///< of a block; words of a stage
    size_t ring;
    double KiB;  ///< in flight on a multiprocessor: 128 threads, or 2048
  };
  const Expected all[] = {
      {"plain_4", "plain loads, 4 x 16 bytes", 128, 512, 0, 8},
      {"plain_16", "plain loads, 16 x 16 bytes", 128, 2048, 0, 32},
      {"async_ring_4x2k", "cp.async, 4 x 2 KiB", 128, 128, 8 << 10, 8},
      {"async_ring_2x8k", "cp.async, 2 x 8 KiB", 128, 512, 16 << 10, 16},
      {"bulk_ring_8x2k", "bulk copies, 8 x 2 KiB", 128, 128, 16 << 10, 16},
      {"bulk_ring_4x16k", "bulk copies, 4 x 16 KiB", 128, 1024, 64 << 10, 64},
      {"plain_2", "plain loads, 2 x 16 bytes", 256, 512, 0, 64},
      {"bulk_ring_2x4k", "bulk copies, 2 x 4 KiB", 256, 256, 8 << 10, 64},
  };
  for (const Expected& e : all) {
    CAPTURE(std::string(e.key));
    const Variant& v = named(e.key);
    CHECK(v.shown == e.words);
    CHECK(v.threads() == e.threads);
    CHECK(v.tile() == e.tile);
    CHECK(v.ring_bytes() == e.ring);
    CHECK(v.ref(nullptr).at == (e.threads == 128 ? 128 : 2048));
    CHECK(bytes_in_flight(v, v.ref(nullptr).at) == 1024 * e.KiB);
  }
}

TEST_CASE("async_copy: predictions, by hand") {
  const Variant &load = named("plain_4"), &async = named("async_ring_8x2k"),
                &two = named("bulk_ring_2x8k"), &eight = named("bulk_ring_8x2k");
  // ns of a load, of a bulk copy, of a stage; bytes in a nanosecond
  const Calibrated c{300, 400, 150, 1000};
  CHECK(predicted_gbs(load, 400e3, c) == doctest::Approx(800));  // 3, 4, 5
  CHECK(predicted_gbs(async, 400e3, c) == doctest::Approx(800));
  CHECK(predicted_gbs(two, 300e3, c) == doctest::Approx(600));         // 4, 3, 5; stages take 300
  CHECK(predicted_gbs(eight, 300e3, c) == doctest::Approx(250));       // eight take 1200 ns
  CHECK(predicted_gbs(eight, 1600e3, c) == doctest::Approx(970.143));  // 4, 16 and no stages
  CHECK(predicted_gbs(load, 3e3, c) == doctest::Approx(10).epsilon(0.001));     // the latency
  CHECK(predicted_gbs(eight, 4e8, c) == doctest::Approx(1000).epsilon(0.001));  // the memory
}

TEST_CASE("async_copy: launches of made-up GPUs fit, and are alone where they should be") {
  for (const Device& device : made_up_devices())
    for (const Variant& v : variants) {
      const cudaDeviceProp& gpu = device.prop;
      if (!lacking(v.kind, device).empty()) continue;
      CAPTURE(std::string(gpu.name));
      CAPTURE(v.key);
      constexpr size_t barriers = 8 * 8;  // of eight stages
      const size_t block = requested_shared(v, gpu) + barriers + gpu.reservedSharedMemPerBlock;
      const unsigned threads = unsigned(v.ref(&device).at);
      CHECK(requested_shared(v, gpu) >= v.ring_bytes());
      CHECK(block <= gpu.sharedMemPerBlockOptin + gpu.reservedSharedMemPerBlock);
      CHECK(threads % v.threads() == 0);
      CHECK(threads / v.threads() * block <= gpu.sharedMemPerMultiprocessor);
      if (v.alone)
        CHECK(2 * block > gpu.sharedMemPerMultiprocessor);
      else
        CHECK(int(threads) == gpu.maxThreadsPerMultiProcessor);
    }
}

TEST_CASE("async_copy: made-up GPUs have the copies of their compute capability") {
  for (const Device& device : made_up_devices()) {
    const int major = device.prop.major;
    CAPTURE(major);
    CHECK(lacking(Kind::plain, device).empty());
    CHECK(lacking(Kind::async, device) == (major < 8 ? "needs compute capability 8.0" : ""));
    CHECK(lacking(Kind::bulk, device) == (major < 9 ? "needs compute capability 9.0" : ""));
  }
}

TEST_CASE("async_copy: rings are compared with loads that need as many threads") {
  std::string printed;
  Report report("async_copy", &printed);
  Device device;
  device.number = -1;
  device.prop.major = 9;
  device.prop.multiProcessorCount = 100;
  device.prop.maxThreadsPerMultiProcessor = 2048;
  device.prop.totalGlobalMem = size_t(64) << 30;
  device.prop.l2CacheSize = 60 << 20;
  report.heading(&device, "");
  MadeUpMachine machine(&device, [](const Ref&, const std::string&) { return 1.0; });
  carry_out(async_copy_experiment, Run{report, &device, {}}, machine);
  std::vector<std::string> compared;
  for (const Record& r : report.records())
    if (r.kind == "ratio") compared.push_back(r.name + " " + r.at + ": " + r.metric);
  CHECK(compared ==
        std::vector<std::string>{"plain_4 128: time over that of async_ring_4x16k at 128",
                                 "plain_16 128: time over that of async_ring_4x8k at 128",
                                 "plain_2 2048: time over that of async_ring_2x4k at 2048",
                                 "plain_4 128: time over that of bulk_ring_4x16k at 128",
                                 "plain_16 128: time over that of bulk_ring_4x8k at 128",
                                 "plain_2 2048: time over that of bulk_ring_2x4k at 2048"});
}

TEST_CASE("async_copy: on this GPU, too, and all words of a plain load are in flight at once") {
  if (skip_without_gpu()) return;
#ifdef __CUDACC_DEBUG__
  if (true)
    return skip_self_check("code for the debugger takes more registers, and fewer threads fit");
#endif
  const Device device = Device::current();
  for (const Variant& v : variants) {
    if (!lacking(v.kind, device).empty()) continue;
    CAPTURE(v.key);
    const size_t shared = requested_shared(v, device.prop);
    const Ref ref = v.ref(&device);
    const Task task = task_of(Shared(Memory{1009, size_t(ref.at)}), v, ref, 1, shared);
    int blocks = 0;
    CUDA_CHECK(
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, v.kernel, int(v.threads()), shared));
    CHECK(unsigned(blocks) * v.threads() >= unsigned(ref.at));
    if (v.alone && device.prop.major >= 7) CHECK(blocks == 1);
    cudaFuncAttributes compiled{};
    CUDA_CHECK(cudaFuncGetAttributes(&compiled, v.kernel));
    if (v.kind == Kind::plain) CHECK(unsigned(compiled.numRegs) >= 4 * v.words);
  }
}

TEST_CASE("async_copy: a second launch of the chases goes on where the first ended") {
  if (skip_without_gpu()) return;
  const bool has_bulk = lacking(Kind::bulk, Device::current()).empty();
  for (const Ref& ref : {Ref(name_of<chase>()), Ref(name_of<bulk_chase>())}) {
    if (ref.key == name_of<bulk_chase>() && !has_bulk) continue;
    const Shared slots(Slots(1 << 16));
    const Task task = chase_task(slots, ref);
    CHECK(wrong_after(task) == 0);
    const unsigned first = slots->now();
    CHECK(wrong_after(task) == 0);
    CHECK(slots->now() != first);
  }
}

namespace {

// What a forgotten wait does. A block asks for a tile, reads the place where it will be, and only
// then waits, so that no copy outlives the block. Where the words are not there yet stand zeros.
__global__ void async_read_early(unsigned* out, const uint4* in) {
  __shared__ uint4 stage[128];
  stage[threadIdx.x] = make_uint4(0, 0, 0, 0);
  __syncthreads();
  __pipeline_memcpy_async(&stage[threadIdx.x], &in[threadIdx.x], 16);
  __pipeline_commit();
  const volatile unsigned* early = &stage[threadIdx.x].x;
  out[threadIdx.x] = early[0] + early[1] + early[2] + early[3];
  __pipeline_wait_prior(0);
}

}  // namespace

TEST_CASE("async_copy: the check finds words that were read before they arrived" *
          doctest::test_suite("race")) {
  if (skip_without_gpu()) return;
  const Device device = Device::current();
  if (!lacking(Kind::async, device).empty()) return skip_self_check(lacking(Kind::async, device));
  Memory memory{128, 128};
  memory.sums.poison();
  async_read_early<<<1, 128>>>(memory.sums.data(), memory.in.data());
  CUDA_CHECK_LAUNCH();
  CHECK(memory.sums.wrong(IsSum{1, 128, 128, 128}) > 0);
}

EXPERIMENT_CHECKS(async_copy)
