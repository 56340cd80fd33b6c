// The second half of keep_on_device: a sum of numbers that are on the host. It does one addition for every four bytes,
// so the study of 2007 would leave it there: the way to the card takes longer than the card saves. Look at the host's
// own time, on all cores, beside the card's with the way and without it.
#pragma once

#include <doctest/doctest.h>

#include <memory>
#include <numeric>
#include <thread>

#include "../common/host_threads.hpp"
#include "host_memory.hpp"

namespace {

/// A whole number from 1 to 16: neither constant nor in a simple order, and 2^20 of them are added exactly in float.
float number(size_t i) { return float(1 + ((unsigned(i) + 1) * 0x9e3779b1u >> 28)); }

// Each warp reads 32 neighbouring words, steps on by the whole grid, and adds its sum to the total, which begins at 0.
__global__ void sum_numbers(unsigned long long* total, const float* in, size_t n) {
  float sum = 0;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x)
    sum += in[i];
  for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_down_sync(0xffffffffu, sum, lanes);
  if (threadIdx.x % 32 == 0) atomicAdd(total, (unsigned long long)sum);
}

/// Sums what is on the device: exact, as a warp of the 8192 adds up to 2^20 numbers even if there are 2^33.
void sum_on_device(const DeviceBuffer<unsigned long long>& total, const DeviceBuffer<float>& in) {
  CUDA_CHECK(cudaMemsetAsync(total.data(), 0, total.bytes()));
  sum_numbers<<<1024, 256>>>(total.data(), in.data(), in.size());
  CUDA_CHECK_LAUNCH();
}

double carry_and_sum(const DeviceBuffer<unsigned long long>& total, const DeviceBuffer<float>& in, const float* host) {
  CUDA_CHECK(cudaMemcpy(in.data(), host, in.bytes(), cudaMemcpyHostToDevice));
  sum_on_device(total, in);
  return double(total.to_host()[0]);
}

/// What `part(from, to)` gives in all, if each core takes a part of n by a thread of its own.
template <class Part>
double on_all_cores(size_t n, Part&& part) {
  const size_t cores = std::max(1u, std::thread::hardware_concurrency());
  std::vector<double> found(cores);
  on_threads(cores, [&](size_t c) { found[c] = part(n * c / cores, n * (c + 1) / cores); });
  return std::accumulate(found.begin(), found.end(), 0.0);
}

double sum_on_host(const float* in, size_t n) {
  return on_all_cores(n, [=](size_t i, size_t to) {
    double sums[16] = {};  // independent, so that adding keeps up with the memory
    for (; i + 16 <= to; i += 16)
      for (size_t j = 0; j < 16; ++j) sums[j] += in[i + j];
    for (; i < to; ++i) sums[0] += in[i];
    return std::accumulate(sums, sums + 16, 0.0);
  });
}

/// Writes the numbers, and returns what they add up to.
double fill(float* out, size_t n) {
  return on_all_cores(n, [=](size_t i, size_t to) {
    unsigned long long total = 0;
    for (; i < to; ++i) total += (unsigned long long)(out[i] = number(i));
    return double(total);
  });
}

const Claim sum_claim{"02.10", "work of low arithmetic intensity is not worth carrying to the card", "8800 GTX",
                      "no figure"};

void carried_sum(const Run& run, const Measuring& measuring, size_t n) {
  const auto array = std::make_unique_for_overwrite<float[]>(n);  // first touched by those who read it
  const double bytes = 4.0 * double(n), expected = fill(array.get(), n);
  Table table(run.report, "sum",
              {measured("median ms", "time", "ms", 3), shown("spread"), predicted("predicted ms", "time", "ms", 3),
               measured("GB/s", "rate", "GB/s", 1), shown("of the host's time")});
  double host_ms = 0;
  const auto row = [&](const std::string& name, const Statistics& ms, Cell predicted = {}) {
    if (host_ms == 0) host_ms = ms.median;
    table.row({name}, {ms, spread_text(ms), predicted, gigabytes_per_second(bytes, ms), times(ms.median / host_ms)});
    return ms;
  };
  require_right(sum_on_host(array.get(), n) == expected, "the host's sum");
  const Statistics host = row("host, all cores", time_host(measuring, [&] { sum_on_host(array.get(), n); }));
  if (!run.device) return table.print();

  DeviceBuffer<float> in(n);
  const DeviceBuffer<unsigned long long> total(1);
  const auto carried = [&] {
    in.poison();
    require_right(carry_and_sum(total, in, array.get()) == expected, "the sum on the GPU");
    return time_host(measuring, [&] { carry_and_sum(total, in, array.get()); });
  };
  row("carried from pageable memory", carried());
  const Statistics kernel = time_device(measuring, [&] { sum_on_device(total, in); });
  const Registration pinned(array.get(), n * sizeof(float));
  const Statistics sixteenth = time_host(
      measuring, [&] { CUDA_CHECK(cudaMemcpy(in.data(), array.get(), in.bytes() / 16, cudaMemcpyHostToDevice)); });
  const Statistics card = row("carried from pinned memory", carried(), 16 * sixteenth.median + kernel.median);
  row("already on the card", kernel);
  table.print();
  run.report.note("predicted: bytes at the rate of a sixteenth of them, and the kernel; host: " +
                  std::to_string(std::thread::hardware_concurrency()) + " threads, started in the time");
  const double cache = double(sysconf(_SC_LEVEL3_CACHE_SIZE));  // of one socket; 0 or less if it is not told
  if (cache > bytes / 2) run.report.note("the host's cache, " + bytes_text(cache) + ", may keep much of the array");
  Judgement judged = judge_ratio(card, host);
  judged.here = "carrying and summing takes " + times(judged.value) + " the host's time, summing alone " +
                times(kernel.median / host.median);
  run.report.claim(sum_claim, run.quick ? not_judged("the array is small in a quick run") : judged);
}

}  // namespace

// ---- self-checks ----------------------------------------------------------------------------------------------------

TEST_CASE("keep_on_device: the host's sum is exact at awkward sizes") {
  for (size_t n : {1, 15, 17, 65537, 1000003}) {
    std::vector<float> in(n);
    const double expected = fill(in.data(), n);
    CHECK(std::accumulate(in.begin(), in.end(), 0.0) == expected);
    CHECK(sum_on_host(in.data(), n) == expected);
  }
}

TEST_CASE("keep_on_device: the sum on the GPU is exact at awkward sizes") {
  if (skip_without_gpu()) return;
  const DeviceBuffer<unsigned long long> total(1);
  for (size_t n : {1, 31, 33, 65537, 1000003}) {
    std::vector<float> host(n);
    const double expected = fill(host.data(), n);
    DeviceBuffer<float> in(n);
    in.poison();
    CHECK(carry_and_sum(total, in, host.data()) == expected);
  }
}
