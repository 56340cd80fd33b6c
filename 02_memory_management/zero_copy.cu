// zero_copy: a kernel can work on pinned memory of the host where it is. Each access crosses the
// bus. When is that better than a copy? The wiki names three advantages: host memory helps where
// device memory is too small, nothing is copied explicitly, and the transfer rate improves. It
// warns: frequent reads and writes are significantly slower [LC 2]. With unified virtual addresses
// (UVA) the host's own pointer will do.
//
// Look at the first table: in place, the rate is the bus's, however often a word is read. Then look
// at the text's own sum, from pageable and from pinned memory.
//
//   build/release/02_memory_management/02_memory_management zero_copy
//
//   1  sumArraysZeroCopy  C = A + B; A and B are the host's
//   2  read_passes        reads an array again and again
//   3  write_passes       writes an array again and again
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "../common/arrays.cuh"
#include "../common/run.hpp"
#include "host.hpp"

// A warp reads 32 neighbouring words of A, and of B. Where these are the host's, 256 bytes cross
// the bus.
__global__ void sumArraysZeroCopy(float* A, float* B, float* C, size_t N) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < N) C[i] = A[i] + B[i];
}

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

constexpr size_t mib = 1 << 20;
constexpr unsigned block = 256;
unsigned blocks_for(size_t n) { return unsigned((n + block - 1) / block); }

struct FreeHost {
  void operator()(void* memory) const { cudaFreeHost(memory); }
};
template <class T>
using Pinned = std::unique_ptr<T[], FreeHost>;

template <class T>
Pinned<T> mapped(size_t n) {
  T* memory = nullptr;
  CUDA_CHECK(cudaHostAlloc((void**)&memory, n * sizeof(T), cudaHostAllocMapped));
  return Pinned<T>(memory);
}

// ---- the text's two listings ----

/// Integers of 24 bits: a float holds them exactly.
__host__ __device__ float a_at(size_t i) { return float(hash(i) >> 8); }
__host__ __device__ float b_at(size_t i) { return float(hash(3 * i + 1) >> 8); }

void initialData(float* data, size_t n, float (*value_at)(size_t)) {
  for (size_t i = 0; i < n; ++i) data[i] = value_at(i);
}

/// Adds by either listing, and throws WrongResult if a sum is wrong. Are both pointers the same?
bool add_by_both_listings(size_t nElem, unsigned flags) {
  const size_t nBytes = nElem * sizeof(float);
  const GuardedBuffer<float> d_C(nElem);
  const auto sum = [] __device__(size_t i) { return a_at(i) + b_at(i); };
  float *h_A = nullptr, *h_B = nullptr, *d_A = nullptr, *d_B = nullptr;
  CUDA_CHECK(cudaHostAlloc((void**)&h_A, nBytes, flags));
  const Pinned<float> owner_of_A(h_A);
  CUDA_CHECK(cudaHostAlloc((void**)&h_B, nBytes, flags));
  const Pinned<float> owner_of_B(h_B);
  initialData(h_A, nElem, a_at);
  initialData(h_B, nElem, b_at);

  // the first: the device's pointers to the same memory
  CUDA_CHECK(cudaHostGetDevicePointer((void**)&d_A, (void*)h_A, 0));
  CUDA_CHECK(cudaHostGetDevicePointer((void**)&d_B, (void*)h_B, 0));
  const auto first = [&] { sumArraysZeroCopy<<<blocks_for(nElem), block>>>(d_A, d_B, d_C, nElem); };
  require_right({"sum by device pointers", first, equals(d_C, sum)});
  if (d_A != h_A || d_B != h_B) return false;

  // the second: with UVA, the host's
  const auto second = [&] {
    sumArraysZeroCopy<<<blocks_for(nElem), block>>>(h_A, h_B, d_C, nElem);
  };
  require_right({"sum by host pointers", second, equals(d_C, sum)});
  return true;
}

/// The kinds of memory for which UVA promises one pointer.
constexpr unsigned promised[] = {cudaHostAllocDefault, cudaHostAllocPortable, cudaHostAllocMapped};

// ---- again and again ----

void fill(unsigned* words, size_t n) {
  for_each_index<<<1024, 256>>>(n, [words] __device__(size_t i) { words[i] = word_at(i); });
  CUDA_CHECK_LAUNCH();
  CUDA_CHECK(cudaDeviceSynchronize());
}

constexpr size_t guard = 64;  // words behind an array that is written
constexpr size_t parts = 4;   // of the host's array, where device memory is too small for it

/// Arrays that are read and written in passes. `sums` are those of the threads of `parts` launches.
struct Arrays {
  size_t n, n_device;  ///< words; the device's are beyond the L2
  unsigned threads;
  Pinned<unsigned> host = mapped<unsigned>(n), host_out = mapped<unsigned>(n + guard);
  DeviceBuffer<unsigned> device{n_device}, device_out{n_device + guard}, copy{n};
  GuardedBuffer<unsigned> sums{parts * threads};

  Arrays(size_t words, size_t device_words, unsigned blocks)
      : n(words), n_device(device_words), threads(blocks * block) {
    fill(host.get(), n);
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
  const auto work = [&a, in, n, passes] { a.read(0, in, n, passes); };
  const auto find_error = [&a, n, passes] { return a.find_error(1, n, passes); };
  return {name, work, {[&a] { a.sums.poison(); }, find_error}};
}

/// The host's array is copied, all of it or part after part, and each part is read.
Benchmark reading_copies(const std::string& name, const Arrays& a, size_t copies, unsigned passes) {
  const auto work = [&a, copies, passes] {
    const size_t part = (a.n + copies - 1) / copies;
    for (size_t k = 0; k < copies; ++k) {
      const size_t first = std::min(k * part, a.n), words = std::min(part, a.n - first);
      CUDA_CHECK(cudaMemcpyAsync(a.copy, a.host.get() + first, words * sizeof(unsigned),
                                 cudaMemcpyHostToDevice));
      a.read(k, a.copy, words, passes);
    }
  };
  const auto poison = [&a] {
    CUDA_CHECK(cudaMemset(a.copy, 0xff, a.copy.bytes()));
    a.sums.poison();
  };
  const auto find_error = [&a, copies, passes] { return a.find_error(copies, a.n, passes); };
  return {name, work, {poison, find_error}};
}

Benchmark writing(const std::string& name, const Arrays& a, unsigned* out, size_t n,
                  unsigned passes) {
  const auto work = [&a, out, n, passes] {
    write_passes<<<a.threads / block, block>>>(out, n, passes);
  };
  const auto poison = [out, n] {
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

void judge_passes(Run& run, const Arrays& a) {
  constexpr unsigned counts[] = {1, 2, 8};
  std::vector<Benchmark> all = {reading_copies("copy alone", a, 1, 0),
                                reading_copies("copied in parts", a, parts, 1)};
  for (const unsigned p : counts) {
    all.push_back(reading(named("read in place", p), a, a.host.get(), a.n, p));
    all.push_back(reading_copies(named("read a copy", p), a, 1, p));
    all.push_back(reading(named("read on device", p), a, a.device, a.n_device, p));
    all.push_back(writing(named("write in place", p), a, a.host_out.get(), a.n, p));
    all.push_back(writing(named("write on device", p), a, a.device_out, a.n_device, p));
  }
  Timer timer = run.timer;
  timer.rounds = 12;
  const Timings timed = timer.interleaved(all);

  const double bytes = 4.0 * double(a.n), device_bytes = 4.0 * double(a.n_device);
  const auto gbs = [&](const char* what, unsigned p, double of) {
    return timed[named(what, p)].gbs_interval(of * p);
  };
  const double link = link_gbs(run.gpu), copy_gbs = timed["copy alone"].gbs(bytes);
  double fastest = std::max(copy_gbs, gbs("read in place", 1, bytes).value);
  for (const unsigned p : counts)
    fastest = std::max(fastest, gbs("write in place", p, bytes).value);
  if (fastest > 1.01 * link)
    throw WrongResult("faster than the link: something was not waited for, or left out");
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
    run.claim(claim, much_beats(), {times.value * more, times.low * more, times.high * more},
              "times as long as in device memory, for the same bytes, 8 passes");
  };
  judge({"02.5a", "zero-copy is significantly slower for frequent reads",
         "significantly, no figure, the wiki"},
        "read in place", "read on device");
  judge({"02.5b", "and for frequent writes", "significantly, no figure, the wiki"},
        "write in place", "write on device");
}

// ---- the text's program, with copies and without ----

/// The arrays of C = A + B: pageable, pinned, and on the device.
struct Sum {
  size_t n;
  std::vector<float> a = std::vector<float>(n), b = a, c = a;
  Pinned<float> pinned_a = mapped<float>(n), pinned_b = mapped<float>(n);
  Pinned<float> pinned_c = mapped<float>(n);
  DeviceBuffer<float> d_A{n}, d_B{n};
  GuardedBuffer<float> d_C{n};

  explicit Sum(size_t elements) : n(elements) {
    for (float* h_A : {a.data(), pinned_a.get()}) initialData(h_A, n, a_at);
    for (float* h_B : {b.data(), pinned_b.get()}) initialData(h_B, n, b_at);
  }
  size_t bytes() const { return n * sizeof(float); }
  void add(float* A, float* B, float* C) const {
    sumArraysZeroCopy<<<blocks_for(n), block>>>(A, B, C, n);
  }
  void add_copies(const float* h_A, const float* h_B) const {
    CUDA_CHECK(cudaMemcpy(d_A, h_A, bytes(), cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy(d_B, h_B, bytes(), cudaMemcpyHostToDevice));
    add(d_A, d_B, d_C);
  }
  void fetch(float* h_C) const {
    CUDA_CHECK(cudaMemcpy(h_C, d_C, bytes(), cudaMemcpyDeviceToHost));
  }
};

/// A program that leaves the sum in d_C or, if there is one, in the host's h_C.
Benchmark adding(const char* name, const Sum& s, float* h_C, const std::function<void()>& add) {
  const auto work = [add] {
    add();
    CUDA_CHECK(cudaDeviceSynchronize());  // only then may the host look at what a kernel wrote
  };
  const auto poison = [&s, h_C] {
    if (h_C) std::memset(h_C, 0xff, s.bytes());
    CUDA_CHECK(cudaMemset(s.d_A, 0xff, s.bytes()));
    CUDA_CHECK(cudaMemset(s.d_B, 0xff, s.bytes()));
    s.d_C.poison();
  };
  const auto find_error = [&s, h_C] {
    if (h_C) CUDA_CHECK(cudaMemcpy(s.d_C, h_C, s.bytes(), cudaMemcpyHostToDevice));
    return find_mismatch(s.d_C, [] __device__(size_t i) { return a_at(i) + b_at(i); });
  };
  return {name, work, {poison, find_error}, true};
}

/// The first three bring A and B and add them; the others leave C with the host, too.
std::vector<Benchmark> programs(Sum& s) {
  float *const h_A = s.pinned_a.get(), *const h_B = s.pinned_b.get(), *const h_C = s.pinned_c.get();
  const auto pageable = [&s] { s.add_copies(s.a.data(), s.b.data()); };
  const auto pinned = [=, &s] { s.add_copies(h_A, h_B); };
  const auto zero_copy = [=, &s] { s.add(h_A, h_B, s.d_C); };
  const auto all_zero_copy = [=, &s] { s.add(h_A, h_B, h_C); };
  const auto and_fetched = [&s](const std::function<void()>& add, float* to) {
    return [=, &s] { add(), s.fetch(to); };
  };
  float* const c = s.c.data();
  return {adding("one way, pageable copies", s, nullptr, pageable),
          adding("one way, pinned copies", s, nullptr, pinned),
          adding("one way, in place", s, nullptr, zero_copy),
          adding("pageable copies", s, c, and_fetched(pageable, c)),
          adding("pinned copies", s, h_C, and_fetched(pinned, h_C)),
          adding("A and B in place", s, c, and_fetched(zero_copy, c)),
          adding("all in place", s, h_C, all_zero_copy)};
}

void judge_programs(Run& run) {
  const size_t n = run.fitting_on_host(run.fitting((run.quick ? 1 : 2) * mib, 12), 24);
  const auto group = [n](const Timer::Measure& measure) {
    Sum s(n);
    measure(programs(s));
  };
  const Timings timed = run.timer.with_fresh_memory(group, 2);
  const double bytes = 4.0 * double(n);
  Table table("C = A + B, " + bytes_text(bytes) + " each", {"ms", "GB/s over the bus", "spread"});
  const auto add_rows = [&](double moved, std::initializer_list<const char*> names) {
    for (const char* name : names)
      table.row(name, {timed[name].ms_interval(), timed[name].gbs_interval(moved),
                       percent(timed[name].spread())});
  };
  add_rows(2 * bytes, {"one way, pageable copies", "one way, pinned copies", "one way, in place"});
  add_rows(3 * bytes, {"pageable copies", "pinned copies", "A and B in place", "all in place"});
  run.print(table);
  run.note("one way: C stays on the device. A and B in place: C is copied to pageable memory");
  run.note("time of pinned copies / in place: one way " +
           factor_text(ratio(timed["one way, pinned copies"], timed["one way, in place"])) +
           ", all " + factor_text(ratio(timed["pinned copies"], timed["all in place"])));
  run.claim({"02.13a", "zero-copy improves the transfer rate, one way",
             "improving PCIe transfer rates, the wiki"},
            beats(), timed, "one way, pageable copies", "one way, in place");
  run.claim({"02.13b", "and that of the text's program, copies and kernel",
             "improving PCIe transfer rates, the wiki"},
            beats(), timed, "pageable copies", "A and B in place");
}

}  // namespace

void zero_copy(Run& run) {
  const size_t n = run.fitting_on_host((run.quick ? 2 : 8) * mib, 8);
  const size_t n_device = run.fitting(std::max(n, size_t(run.gpu.l2CacheSize)), 12);
  run.title("kernels work on " + bytes_text(4.0 * double(n)) + " of pinned host memory");
  judge_passes(run, Arrays(n, n_device, run.resident_blocks(block)));
  int same = 0;
  for (const unsigned flags : promised) same += add_by_both_listings(100003, flags);
  run.claim_fact({"02.6", "with UVA the device pointer need not be fetched",
                  "the same code without it, the wiki"},
                 same == 3, std::to_string(same) + " of 3 kinds of memory have one pointer");
  judge_programs(run);
}

TEST_CASE("zero_copy: reads of a copy, by hand") {
  // 1000 bytes: 20 ns by the copy, 1 ns for each read
  CHECK(predicted_copied(1000, 1, 50, 1000) == doctest::Approx(1000 / 21.0));
  CHECK(predicted_copied(1000, 8, 50, 1000) == doctest::Approx(8000 / 28.0));
}

TEST_CASE("zero_copy: passes are right at awkward sizes, and write nothing behind the end") {
  if (skip_without_gpu()) return;
  for (const size_t n : {1, 3, 4, 1009, 65537})
    for (const unsigned passes : {1u, 5u}) {
      const Arrays a(n, n + 7, 3);
      for (const Benchmark& work :
           {reading("read in place", a, a.host.get(), n, passes),
            reading("read on device", a, a.device, n + 7, passes),
            reading_copies("copied", a, 1, passes), reading_copies("parts", a, parts, passes),
            writing("write in place", a, a.host_out.get(), n, passes),
            writing("write on device", a, a.device_out, n + 7, passes)}) {
        CAPTURE(n);
        CAPTURE(work.name);
        work.check.poison();
        CHECK(work.check.find_error() != "");
        CHECK_NOTHROW(require_right(work));
      }
      a.host[n - 1] += 1;
      CHECK_THROWS(require_right(reading("a wrong word", a, a.host.get(), n, passes)));
    }
}

TEST_CASE("zero_copy: both listings add right at awkward sizes") {
  if (skip_without_gpu()) return;
  for (const size_t n : {1, 255, 257, 100003})
    for (const unsigned flags : promised) CHECK_NOTHROW(add_by_both_listings(n, flags));
}

TEST_CASE("zero_copy: all programs add right at awkward sizes") {
  if (skip_without_gpu()) return;
  for (const size_t n : {1, 1009, 65537}) {
    Sum s(n);
    for (const Benchmark& program : programs(s)) {
      CAPTURE(n);
      CAPTURE(program.name);
      program.check.poison();
      CHECK(program.check.find_error() != "");
      CHECK_NOTHROW(require_right(program));
    }
  }
}
