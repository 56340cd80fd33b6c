// What this topic's models take from the run itself: the rate of the link between host and device.
#pragma once

#include <cstring>

#include "../framework/common/report.hpp"

/// GB/s of a copy from and to pinned host memory: what the link gives when nobody faults. NaN
/// without a GPU.
struct Link {
  Statistics to_device, to_host;

  double ms_to_device(double bytes) const { return bytes * 1e-6 / to_device.median; }
  double ms_to_host(double bytes) const { return bytes * 1e-6 / to_host.median; }
};

/// Measured by 16 MiB, which take 0.3 ms at 50 GB/s: setting a copy up is a few percent of that.
inline Link measure_link(const Run& run) {
  if (!run.device) return {};
  constexpr size_t n = size_t(4) << 20;
  const PinnedBuffer<unsigned> host(n);
  DeviceBuffer<unsigned> there(n);
  for (size_t i = 0; i < n; ++i) host[i] = unsigned(i) * 2654435761u + 1;
  const std::vector<unsigned> right(host.data(), host.data() + n);
  const auto differing = [&](const unsigned* found) {
    size_t wrong = 0;
    for (size_t i = 0; i < n; ++i) wrong += found[i] != right[i];
    return wrong;
  };

  Check arrives;
  arrives.poison = [&] { there.poison(); };
  arrives.wrong = [&] { return differing(there.to_host().data()); };
  const Readings in = run.time(
      {"copy to the device",
       [&] {
         CUDA_CHECK(cudaMemcpyAsync(there.data(), host.data(), n * 4, cudaMemcpyHostToDevice));
       },
       std::move(arrives)});
  there.copy_from(right);
  Check returns;
  returns.poison = [&] { std::memset(host.data(), 0xff, n * 4); };
  returns.wrong = [&] {
    CUDA_CHECK(cudaDeviceSynchronize());
    return differing(host.data());
  };
  const Readings out = run.time(
      {"copy to the host",
       [&] {
         CUDA_CHECK(cudaMemcpyAsync(host.data(), there.data(), n * 4, cudaMemcpyDeviceToHost));
       },
       std::move(returns)});
  return {gigabytes_per_second(n * 4.0, in.statistics()),
          gigabytes_per_second(n * 4.0, out.statistics())};
}
