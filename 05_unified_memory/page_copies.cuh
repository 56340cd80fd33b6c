// What page_faults and fault_times have in common: the wiki's two kernels [LC A], the four ways to
// use them, and counting what the driver does in one run of each.
#pragma once

#include "migrations.hpp"
#include "options.hpp"

namespace {

// ---- kernels ----

// [copy_by_thread]
// A warp reads and writes 32 neighbours. Many warps touch the same page, and those that run at the
// same time touch few pages.
__global__ void copy_by_thread(float* out, const float* in, size_t n) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < n) out[i] = in[i];
}
// [/copy_by_thread]

constexpr size_t page_words = 65536 / sizeof(float);  // the text's page: 64 KiB

// [copy_by_page]
// A warp walks through a page of its own, 32 neighbours per step: as many pages fault at the same
// time as warps run.
__global__ void copy_by_page(float* out, const float* in, size_t n) {
  const size_t warp = (blockIdx.x * size_t(blockDim.x) + threadIdx.x) / 32;
  const size_t lane = threadIdx.x % 32;
  for (size_t step = 0; step < page_words / 32; ++step) {
    const size_t i = warp * page_words + step * 32 + lane;
    if (i < n) out[i] = in[i];
  }
}
// [/copy_by_page]

// ---- four versions ----

constexpr int threads = 256;
constexpr size_t text_size = size_t(1) << 20;

struct Arrays {
  Managed<float> in, out;
  explicit Arrays(size_t n) : in(n), out(n) {}
};

void launch_by_thread(float* out, const float* in, size_t n) {
  copy_by_thread<<<unsigned((n + threads - 1) / threads), threads>>>(out, in, n);
  CUDA_CHECK_LAUNCH();
}

void launch_by_page(float* out, const float* in, size_t n) {
  const size_t warps = (n + page_words - 1) / page_words;
  copy_by_page<<<unsigned((warps * 32 + threads - 1) / threads), threads>>>(out, in, n);
  CUDA_CHECK_LAUNCH();
}

struct Version {
  const char *key, *words;
  void (*kernel)(float* out, const float* in, size_t n);
  bool prefetched = false;       ///< both arrays to the device, before the kernel
  bool prefetched_back = false;  ///< and both to the host, before the host reads
};

// [versions]
const Version versions[] = {
    {"by_thread", "by thread", launch_by_thread},
    {"by_page", "by page", launch_by_page},
    {"prefetched", "prefetched", launch_by_thread, true},
    {"prefetched_both_ways", "prefetched both ways", launch_by_thread, true, true},
};
// [/versions]

double bytes_of(size_t n) { return double(n * sizeof(float)); }

/// The input differs from zero, from its neighbours, and from the input of the run before.
float input(size_t i, unsigned run) { return float(run % 1000 + 1) + float(i % 8191); }

size_t wrong_elements(const float* found, size_t n, unsigned run) {
  size_t wrong = 0;
  for (size_t i = 0; i < n; ++i) wrong += !(found[i] == input(i, run));
  return wrong;
}

/// One run of a version, in managed memory of its own. Nobody has touched `out` before the kernel.
struct CopyRun {
  const Version& version;
  Arrays arrays;
  unsigned run;

  CopyRun(const Version& version, size_t n) : version(version), arrays(n) {
    static unsigned runs = 0;
    run = ++runs;
    if (version.prefetched_back) arrays.in.prefetch(cudaCpuDeviceId);
    wait_for_device();
    for (size_t i = 0; i < n; ++i) arrays.in[i] = input(i, run);
  }
  void prefetch() const {
    if (!version.prefetched) return;
    arrays.in.prefetch(this_device());
    arrays.out.prefetch(this_device());
  }
  void launch() const { version.kernel(arrays.out.data(), arrays.in.data(), arrays.in.size()); }
  void read_back() const {
    if (version.prefetched_back) {
      arrays.in.prefetch(cudaCpuDeviceId);
      arrays.out.prefetch(cudaCpuDeviceId);
    }
    wait_for_device();
    read_every_page(arrays.in.data(), arrays.in.size());
    read_every_page(arrays.out.data(), arrays.out.size());
  }
  size_t wrong() const {
    return wrong_elements(arrays.in.data(), arrays.in.size(), run) +
           wrong_elements(arrays.out.data(), arrays.out.size(), run);
  }
};

/// The host writes `in`, the kernel copies, the host reads both.
void copy_once(const Version& version, size_t n) {
  const CopyRun all(version, n);
  all.prefetch();
  all.launch();
  wait_for_device();
  all.read_back();
  const size_t wrong = all.wrong();
  require_right(wrong == 0,
                std::string(version.words) + ", " + std::to_string(wrong) + " elements");
}

// ---- counting ----

/// Whether nothing was lost: the input went to the device, and both arrays came back. Whatever
/// moved more than once is still counted.
bool complete(const Migrations& m, size_t n) {
  return !m.lost && m.to_device.bytes >= bytes_of(n) && m.to_host.bytes >= 2 * bytes_of(n);
}

/// What was counted of each version, in the order of the table; empty where nothing is.
struct Counted {
  std::vector<Migrations> of[std::size(versions)];
};

/// All versions in turn, A B C D D C B A, with memory allocated anew for each run.
Counted count_in_turn(size_t n, int rounds) {
  MigrationRecording recording;
  std::vector<size_t> order;
  for (int r = 0; r < rounds; ++r)
    for (size_t i = 0; i < std::size(versions); ++i) {
      const size_t v = r % 2 ? std::size(versions) - 1 - i : i;
      recording.count([&] { copy_once(versions[v], n); });
      order.push_back(v);
    }
  const std::vector<Migrations> all = recording.end();
  Counted counted;
  for (size_t i = 0; i < all.size(); ++i) counted.of[order[i]].push_back(all[i]);
  return counted;
}

}  // namespace
