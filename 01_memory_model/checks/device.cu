// Self-checks of device.cu, compiled in its place where BUILD_TESTING is on.
#include "../device.cu"

#include "../../framework/common/checks/standard.hpp"

namespace {

/// Byte i of shared memory, when it has been filled.
__host__ __device__ unsigned char pattern(unsigned i) { return (unsigned char)(i * 37 + 11); }

// Each warp writes 32 neighbouring bytes at a time, and then reads 32 neighbouring bytes that
// others have written, from the last one down.
__global__ void fill_shared(unsigned* wrong, unsigned bytes) {
  extern __shared__ unsigned char room[];
  for (unsigned i = threadIdx.x; i < bytes; i += blockDim.x) room[i] = pattern(i);
  __syncthreads();
  unsigned differing = 0;
  for (unsigned i = threadIdx.x; i < bytes; i += blockDim.x) {
    const unsigned other = bytes - 1 - i;
    differing += room[other] != pattern(other);
  }
  atomicAdd(wrong, differing);
}

const Figure& figure(const std::vector<Figure>& all, const std::string& key) {
  for (const Figure& f : all)
    if (f.key == key) return f;
  throw std::logic_error("no figure " + key);
}

}  // namespace

TEST_CASE("device: the guide has the two GPUs of the text as the text has them, but for a slip") {
  const Documented *pascal = documented(6, 0), *volta = documented(7, 0);
  REQUIRE(pascal);
  REQUIRE(volta);
  const std::vector<Figure> all = figures(nullptr);
  for (const Figure& f : all) CHECK(std::isnan(f.here));  // no figure of a GPU that is not there
  const Figure l1 = figure(all, "l1_per_multiprocessor");
  CHECK(l1.p100 == pascal->data_cache);
  CHECK(l1.v100 == volta->data_cache);
  const Figure shared = figure(all, "shared_per_multiprocessor");
  CHECK(shared.p100 == pascal->shared);
  CHECK(shared.v100 == volta->shared);
  const Figure constant = figure(all, "constant_cache_per_multiprocessor");
  CHECK(constant.v100 == volta->constant_cache);
  CHECK(constant.p100 == 2 * pascal->constant_cache);  // the text's slip: 8 KiB for the guide's 4
  CHECK_FALSE(pascal->holds_shared);
  CHECK(volta->holds_shared);
}

TEST_CASE("device: the guide is in order and each line is possible") {
  for (size_t i = 0; i < std::size(guide); ++i) {
    CAPTURE(guide[i].capability);
    if (i > 0) CHECK(guide[i - 1].capability < guide[i].capability);
    CHECK(documented(guide[i].capability / 10, guide[i].capability % 10) == &guide[i]);
    CHECK(guide[i].holds_shared == (guide[i].capability >= 70));
    if (guide[i].holds_shared) CHECK(guide[i].shared < guide[i].data_cache);  // some L1 is left
  }
  CHECK(documented(3, 5) == nullptr);
  CHECK(documented(99, 0) == nullptr);
}

TEST_CASE("device: the figures of a made-up GPU, and none where nothing is reported") {
  Device made_up;
  made_up.number = -1;
  made_up.prop.major = 8;
  made_up.prop.minor = 9;
  made_up.prop.regsPerMultiprocessor = 65536;
  made_up.prop.sharedMemPerMultiprocessor = 100 << 10;
  made_up.prop.totalGlobalMem = size_t(8) << 30;
  made_up.memory_clock_khz = 9001000;
  const std::vector<Figure> all = figures(&made_up);
  CHECK(figure(all, "compute_capability").here == doctest::Approx(8.9));
  CHECK(figure(all, "registers_per_multiprocessor").here == 256);
  CHECK(figure(all, "shared_per_multiprocessor").here == 100);
  CHECK(figure(all, "constant_cache_per_multiprocessor").here == 8);
  CHECK(figure(all, "l1_per_multiprocessor").here == 128);
  CHECK(figure(all, "device_memory").here == 8);
  CHECK(figure(all, "memory_clock").here == 9001);
  CHECK(std::isnan(figure(all, "l2").here));
  CHECK(std::isnan(figure(all, "multiprocessor_clock").here));
  CHECK(std::isnan(figure(all, "theoretical_bandwidth").here));
  CHECK(kind_of(figure(all, "constant_cache_per_multiprocessor")) == "predicted");
  CHECK(kind_of(figure(all, "constant_memory")) == "counted");
}

TEST_CASE("device: the loop leaves the chosen device, and knows it") {
  if (skip_without_gpu()) return;
  const Device chosen = Device::current();
  const std::vector<cudaDeviceProp> all = all_devices();
  int selected = -1;
  CUDA_CHECK(cudaGetDevice(&selected));
  CHECK(selected == chosen.number);
  REQUIRE(size_t(chosen.number) < all.size());
  CHECK(all[chosen.number].totalGlobalMem == chosen.prop.totalGlobalMem);
  for (size_t a = 0; a < all.size(); ++a)
    for (size_t b = 0; b < a; ++b)
      CHECK(std::string(all[a].uuid.bytes, 16) != std::string(all[b].uuid.bytes, 16));
}

TEST_CASE("device: the guide agrees with the device where both know") {
  if (skip_without_gpu()) return;
  const Device device = Device::current();
  const Documented* known = documented(device.prop.major, device.prop.minor);
  if (!known)
    return skip_self_check("the guide's table has no compute capability " + device.capability());
  CHECK(known->shared * KiB == double(device.prop.sharedMemPerMultiprocessor));
}

TEST_CASE("device: a block gets the shared memory that is reported and no more") {
  if (skip_without_gpu()) return;
  const cudaDeviceProp p = Device::current().prop;
  const unsigned plain = unsigned(p.sharedMemPerBlock);
  const unsigned most = unsigned(p.sharedMemPerBlockOptin);
  CHECK(most + p.reservedSharedMemPerBlock <= p.sharedMemPerMultiprocessor);
  DeviceBuffer<unsigned> wrong(1);
  const auto launch = [&](unsigned bytes) {
    CUDA_CHECK(cudaMemset(wrong.data(), 0, wrong.bytes()));
    fill_shared<<<1, 192, bytes>>>(wrong.data(), bytes);
    return cudaGetLastError();
  };
  for (const unsigned bytes : {1u, 31u, 1009u, plain - 1, plain}) {
    CAPTURE(bytes);
    CHECK(launch(bytes) == cudaSuccess);
    CHECK(wrong.to_host()[0] == 0);
  }
  CHECK(launch(plain + 1) == cudaErrorInvalidValue);  // wrong on purpose: it has not opted in
  CHECK(cudaFuncSetAttribute(fill_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, int(most)) ==
        cudaSuccess);
  CHECK(launch(most) == cudaSuccess);
  CHECK(wrong.to_host()[0] == 0);
  CHECK(launch(most + 1) == cudaErrorInvalidValue);  // wrong on purpose: more than there is
  CHECK(cudaGetLastError() == cudaSuccess);
}

EXPERIMENT_CHECKS(device)
