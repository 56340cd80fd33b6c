// reuse: the host's array is read, or written, again and again. In place, does each pass cross the
// bus? The wiki says that unified virtual addresses (UVA) do not migrate data. It warns that
// zero-copy is significantly slower for frequent reads and writes; and host memory helps where
// device memory is too small [LC 2].
//
// Look at the rate of reads in place: does it grow with the passes? A copy crosses the bus once.
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o reuse reuse.cu ../common/*.cpp
//
//   1  read_passes   reads an array again and again
//   2  write_passes  writes an array again and again
#include <algorithm>

#include "../common/arrays.cuh"
#include "../common/sample.hpp"
#include "host.hpp"

// A warp reads 512 neighbouring bytes; the grid reads all of the array in each pass. The loads
// bypass L1. A word counts once in the first pass, twice in the second: the sum shows a word that
// was read in a wrong pass.
static __global__ void read_passes(unsigned* out, const unsigned* in, size_t n, unsigned passes) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  unsigned sum = 0;
  for (unsigned pass = 1; pass <= passes; ++pass) {
    for (size_t i = tid; i < n / 4; i += threads) {
      const uint4 four = __ldcg(reinterpret_cast<const uint4*>(in) + i);
      sum += pass * (four.x + four.y + four.z + four.w);
    }
    if (tid < n % 4) sum += pass * __ldcg(in + n / 4 * 4 + tid);  // what is left of a uint4
  }
  out[tid] = sum;
}

/// Word i of the arrays that are read and written in passes: no two are alike.
__host__ __device__ inline unsigned word_at(size_t i) { return unsigned(i) * 2654435761u + 12345u; }

// A warp writes 512 neighbouring bytes; the grid writes all of the array in each pass.
static __global__ void write_passes(unsigned* out, size_t n, unsigned passes) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  for (unsigned pass = 1; pass <= passes; ++pass) {
    for (size_t i = tid; i < n / 4; i += threads) {
      const uint4 four = {word_at(4 * i) + pass, word_at(4 * i + 1) + pass,
                          word_at(4 * i + 2) + pass, word_at(4 * i + 3) + pass};
      __stcg(reinterpret_cast<uint4*>(out) + i, four);
    }
    const size_t last = n / 4 * 4 + tid;
    if (tid < n % 4) __stcg(out + last, word_at(last) + pass);
  }
}

namespace {

constexpr unsigned block = 256;

void fill(unsigned* words, size_t n) {
  for_each_index<<<1024, 256>>>(n, [words] __device__(size_t i) { words[i] = word_at(i); });
  CUDA_CHECK_LAUNCH();
  CUDA_CHECK(cudaDeviceSynchronize());
}

constexpr size_t guard = 64;  // words behind an array that is written
constexpr size_t parts = 4;   // of the host's array, where device memory is too small for it

/// Arrays that are read and written in passes. `sums` are those of the threads of `parts` launches.
struct Arrays {
  size_t n, n_device;  ///< words; the device's are beyond the L2, a copy of the host's need not be
  unsigned threads;
  PinnedBuffer<unsigned> host{n}, host_out{n + guard};
  DeviceBuffer<unsigned> device{n_device}, device_out{n_device + guard}, copy{n};
  GuardedBuffer<unsigned> sums{parts * threads};

  Arrays(size_t words, size_t device_words, unsigned blocks)
      : n(words), n_device(device_words), threads(blocks * block) {
    fill(host, n);
    fill(device, n_device);
  }
  void read(size_t part, const unsigned* in, size_t words, unsigned passes) const {
    read_passes<<<threads / block, block>>>(sums + part * threads, in, words, passes);
  }
  /// What the threads of all launches found, modulo 2^32.
  std::string find_error(size_t launches, size_t words, unsigned passes) const {
    const auto word = [] __device__(size_t i) { return word_at(i); };
    const auto own = [out = sums.data()] __device__(size_t i) { return out[i]; };
    const unsigned right = unsigned(sum_of(words, word)) * (passes * (passes + 1) / 2);
    const unsigned found = unsigned(sum_of(launches * threads, own));
    return found == right ? guard_error(sums) : "the sum is " + std::to_string(found);
  }
};

Benchmark reading(const std::string& name, const Arrays& a, const unsigned* in, size_t n,
                  unsigned passes) {
  const auto work = [=] { a.read(0, in, n, passes); };
  const auto find_error = [=] { return a.find_error(1, n, passes); };
  return {name, work, {[=] { a.sums.poison(); }, find_error}};
}

/// The host's array is copied, all of it or part after part, and each part is read.
Benchmark reading_copies(const std::string& name, const Arrays& a, size_t copies, unsigned passes) {
  const auto work = [=] {
    const size_t part = (a.n + copies - 1) / copies;
    for (size_t k = 0; k < copies; ++k) {
      const size_t first = std::min(k * part, a.n), words = std::min(part, a.n - first);
      CUDA_CHECK(cudaMemcpyAsync(a.copy, a.host + first, words * sizeof(unsigned),
                                 cudaMemcpyHostToDevice));
      a.read(k, a.copy, words, passes);
    }
  };
  const auto poison = [=] {
    CUDA_CHECK(cudaMemset(a.copy, 0xff, a.copy.bytes()));
    a.sums.poison();
  };
  const auto find_error = [=] { return a.find_error(copies, a.n, passes); };
  return {name, work, {poison, find_error}};
}

Benchmark writing(const std::string& name, const Arrays& a, unsigned* out, size_t n,
                  unsigned passes) {
  const auto work = [=] { write_passes<<<a.threads / block, block>>>(out, n, passes); };
  const auto poison = [=] {
    CUDA_CHECK(cudaMemset(out, 0xff, (n + guard) * sizeof(unsigned)));
    CUDA_CHECK(cudaDeviceSynchronize());
  };
  const auto find_error = [out, n, passes] {
    const auto right = [n, passes] __device__(size_t i) {
      return i < n ? word_at(i) + passes : ~0u;
    };
    return find_mismatch(out, n + guard, right);
  };
  return {name, work, {poison, find_error}};
}

/// GB/s that threads read of a copy: it crosses the bus once, and each pass reads device memory.
double predicted_copied(double bytes, unsigned passes, double copy_gbs, double device_gbs) {
  const double read = bytes * passes;
  return read / (bytes / copy_gbs + read / device_gbs);
}

std::string named(const char* what, unsigned passes) {
  return what + std::string(", ") + std::to_string(passes);
}

}  // namespace

void reuse(Run& run) {
  const size_t n = run.fitting_on_host(2 * MiB, 8);  // each half of an H100's L2 could keep it
  const size_t n_device = run.fitting(std::max(n, size_t(run.gpu.l2CacheSize)), 12);
  run.title("kernels pass over " + bytes_text(4.0 * double(n)) + " of pinned host memory");
  const Arrays a(n, n_device, run.resident_blocks(block));
  constexpr unsigned counts[] = {1, 2, 8};
  std::vector<Benchmark> all = {reading_copies("copy alone", a, 1, 0),
                                reading_copies("copied in parts", a, parts, 1)};
  for (const unsigned p : counts) {
    all.push_back(reading(named("read in place", p), a, a.host, a.n, p));
    all.push_back(reading_copies(named("read a copy", p), a, 1, p));
    all.push_back(reading(named("read on device", p), a, a.device, a.n_device, p));
    all.push_back(writing(named("write in place", p), a, a.host_out, a.n, p));
    all.push_back(writing(named("write on device", p), a, a.device_out, a.n_device, p));
  }
  Timer timer = run.timer;
  timer.rounds = 12;
  const Timings timed = timer.interleaved(all);

  const double bytes = 4.0 * double(a.n), device_bytes = 4.0 * double(a.n_device);
  const auto gbs = [&](const char* what, unsigned p, double of) {
    return timed[named(what, p)].gbs_interval(of * p);
  };
  const double copy_gbs = timed["copy alone"].gbs(bytes);
  require_below_link("copy alone", copy_gbs, run.gpu);
  require_below_link("read in place", gbs("read in place", 1, bytes).value, run.gpu);
  for (const unsigned p : counts)
    require_below_link("write in place", gbs("write in place", p, bytes).value, run.gpu);
  Table table("passes, GB/s", {"read in place", "of a copy", "predicted", "on device",
                               "written in place", "written on device"});
  for (const unsigned p : counts) {
    const Interval device = gbs("read on device", p, device_bytes);
    table.row(std::to_string(p),
              {gbs("read in place", p, bytes), gbs("read a copy", p, bytes),
               predicted_copied(bytes, p, copy_gbs, device.value), device,
               gbs("write in place", p, bytes), gbs("write on device", p, device_bytes)});
  }
  run.print(table);
  run.note("of a copy: the copy's own time included");
  run.note("predicted: one copy over the bus, then each read at the rate of device memory");
  run.note("read once, through a buffer of " + bytes_text(bytes / parts) +
           " where device memory is too small: " + digits(timed["copied in parts"].gbs(bytes)) +
           " GB/s");
  run.note("on device: an array of " + bytes_text(device_bytes) +
           (run.beyond_l2(device_bytes) ? ", four times the L2" : ", partly from the L2"));
  const auto judge = [&](const Claim& claim, const char* in_place, const char* on_device) {
    const Interval times = ratio(timed[named(in_place, 8)], timed[named(on_device, 8)]);
    const double more = device_bytes / bytes;
    run.claim(claim,
              {times * more, std::string("times as long per byte: ") + in_place + " / " +
                                 on_device + ", 8 passes"},
              much_more());
  };
  judge({"02.5a", "zero-copy memory is significantly slower for frequent reads",
         "[LC 2] \"will significantly slow performance\""},
        "read in place", "read on device");
  judge({"02.5b", "zero-copy memory is significantly slower for frequent writes",
         "[LC 2] \"will significantly slow performance\""},
        "write in place", "write on device");
  // What had moved to the device would be read there from the second pass on.
  const auto over_first = [&](const char* what) {
    return ratio(timed[named(what, 8)], timed[named(what, 1)]) / 8;
  };
  run.claim_each({"02.14", "UVA does not automatically migrate zero-copy data to the device",
                  "[LC 2] \"UVA does not automatically migrate data\""},
                 {over_first("read in place"), over_first("write in place")},
                 "a pass: of 8 / of 1; read, written", as_much());
}
SAMPLE(6, reuse, "the host's memory read and written again and again");

TEST_CASE("reuse: reads of a copy, by hand") {
  // 1000 bytes: 20 ns by the copy, 1 ns for each read
  CHECK(predicted_copied(1000, 1, 50, 1000) == doctest::Approx(1000 / 21.0));
  CHECK(predicted_copied(1000, 8, 50, 1000) == doctest::Approx(8000 / 28.0));
}

TEST_CASE("reuse: passes are right at awkward sizes, and write nothing behind the end") {
  if (skip_without_gpu()) return;
  for (const size_t n : {1, 3, 4, 1009, 65537})
    for (const unsigned passes : {1u, 5u}) {
      const Arrays a(n, n + 7, 3);
      for (const Benchmark& work :
           {reading("read in place", a, a.host, n, passes),
            reading("read on device", a, a.device, n + 7, passes),
            reading_copies("copied", a, 1, passes), reading_copies("parts", a, parts, passes),
            writing("write in place", a, a.host_out, n, passes),
            writing("write on device", a, a.device_out, n + 7, passes)}) {
        CAPTURE(n);
        CAPTURE(work.name);
        work.check.poison();
        CHECK(work.check.find_error() != "");
        CHECK_NOTHROW(require_right(work));
      }
      a.host[n - 1] += 1;
      CHECK_THROWS(require_right(reading("a wrong word", a, a.host, n, passes)));
    }
}
