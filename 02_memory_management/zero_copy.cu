// zero_copy: kernels that work on the host's pinned memory where it is, over the link. The wiki
// adds two such arrays, through a pointer that it fetches and through the host's own; it praises
// this where device memory is too small, and for its transfer rates, and warns of frequent reads
// and writes [LC 2]. Two things to look at:
//   - How the time grows with the number of passes in place, and how soon a copy pays.
//   - One crossing each way: in place, and by the copy engines.
//
//   cmake -S 02_memory_management -B build/zero_copy -DEXPERIMENTS=zero_copy
//   cmake --build build/zero_copy && build/zero_copy/02_memory_management
//
//   1  sum_arrays    the text's: c = a + b, all three the host's
//   2  read_passes   reads an array again and again
//   3  write_passes  writes an array again and again
//   4  carry         out = in: from the host, or from the host and back to it
//   5  write_late    writes a word when the host has long gone on
#include <algorithm>
#include <atomic>

#include "../framework/common/checked.cuh"
#include "../framework/common/experiment.hpp"
#include "../framework/common/host_threads.hpp"
#include "host_memory.hpp"

using namespace samples;

namespace {

// ---- kernels ----

/// Word i: neighbours differ, no two of 2^32 are alike, so that one left out and another taken
/// twice show in a sum.
__host__ __device__ unsigned word_at(size_t i) { return unsigned(i) * 2654435761u + 12345u; }

// [sum_arrays]
// Each warp reads 32 neighbouring words of two arrays and writes 32 of a third. Where they are the
// host's, 256 bytes come over the link and 128 go, at the same time.
__global__ void sum_arrays(unsigned* c, const unsigned* a, const unsigned* b, size_t n) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}
// [/sum_arrays]

// [read_passes]
// A warp reads 512 neighbouring bytes; the grid reads all of the array in each pass. The loads pass
// L1 by. Words count once in the first pass, twice in the second: none can stray.
__global__ void read_passes(unsigned* out, const unsigned* in, size_t n, unsigned passes) {
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
// [/read_passes]

// A warp writes 512 neighbouring bytes; the grid writes all of the array in each pass.
__global__ void write_passes(unsigned* out, size_t n, unsigned passes) {
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

// A warp carries 512 neighbouring bytes. Where both arrays are the host's, they cross the link
// twice.
__global__ void carry(uint4* out, const uint4* in, size_t n) {
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += threads)
    out[i] = in[i];
}

constexpr int looks_in_a_ms = 1000;  // a look crosses the link, which takes about a microsecond

// One thread waits for the host's word, about a millisecond more, and writes. It gives up after a
// second and writes the negative: where launches wait for their kernels the host never comes to it.
__global__ void write_late(const volatile int* released, volatile int* value, int written) {
  for (int looks = 0; !*released && looks < 1000 * looks_in_a_ms;) ++looks;
  const bool given = *released;
  for (int looks = 0; *released && looks < looks_in_a_ms;) ++looks;
  *value = given ? written : -written;
}

// ---- what is right ----

/// What `passes` over the words from 0 to n - 1 add up to, by the text's own loop in closed form.
unsigned sum_of_passes(size_t n, unsigned passes) {
  const unsigned once = unsigned(n * (n - 1) / 2) * 2654435761u + unsigned(n) * 12345u;
  return once * (passes * (passes + 1) / 2);
}

/// The words of an array, each so much more.
struct Content {
  unsigned added = 0;
  __host__ __device__ unsigned operator()(size_t i) const { return word_at(i) + added; }
  __device__ bool operator()(size_t i, unsigned found) const { return found == (*this)(i); }

  void put_on_device(unsigned* words, size_t n) const {
    fill_kernel<<<1024, 256>>>(words, n, *this);
    CUDA_CHECK_LAUNCH();
  }
  size_t wrong_on_device(const unsigned* words, size_t n) const {
    const DeviceBuffer<unsigned long long> wrong(std::vector<unsigned long long>{0});
    count_wrong_kernel<<<1024, 256>>>(words, n, *this, wrong.data());
    CUDA_CHECK_LAUNCH();
    return wrong.to_host()[0];
  }
  /// Words of the host, as the host sees them.
  size_t wrong_on_host(const unsigned* words, size_t n) const {
    CUDA_CHECK(cudaDeviceSynchronize());
    constexpr size_t parts = 8;  // one thread would take long
    std::atomic<size_t> wrong = 0;
    on_threads(parts, [&](size_t part) {
      size_t found = 0;
      for (size_t i = n * part / parts; i < n * (part + 1) / parts; ++i)
        found += words[i] != (*this)(i);
      wrong += found;
    });
    return wrong;
  }
};
/// Of sums, of which the check adds up all: only what lies behind them.
struct Anything {
  __device__ bool operator()(size_t, unsigned) const { return true; }
};

// ---- the work ----

/// n words of the host's and n of the device's, and a sum for each thread of up to four launches.
struct Memory {
  static constexpr unsigned block_threads = 256, launches = 4;

  size_t n;
  unsigned blocks;
  PinnedBuffer<unsigned> host;
  DeviceBuffer<unsigned> device;
  Output<unsigned> sums;

  Memory(size_t n, unsigned blocks)
      : n(n),
        blocks(blocks),
        host(n, cudaHostAllocMapped),
        device(n),
        sums(size_t(launches) * blocks * block_threads) {
    if (device_memory::Pretence::stands()) return;
    Content{}.put_on_device(device.data(), n);
    CUDA_CHECK(cudaMemcpy(host.data(), device.data(), 4 * n, cudaMemcpyDeviceToHost));
  }
  unsigned* sums_of(size_t launch) const { return sums.data() + launch * blocks * block_threads; }
  /// What the threads of the first `used` launches found.
  unsigned total(size_t used) const {
    const std::vector<unsigned> all = sums.to_host();
    unsigned sum = 0;
    for (size_t i = 0; i < used * blocks * block_threads; ++i) sum += all[i];
    return sum;
  }
  void read(size_t launch, const unsigned* in, size_t words, unsigned passes) const {
    read_passes<<<blocks, block_threads>>>(sums_of(launch), in, words, passes);
  }
  void copy_in(unsigned* to, size_t first, size_t words, cudaStream_t stream = nullptr) const {
    CUDA_CHECK(cudaMemcpyAsync(to, host.data() + first, 4 * words, cudaMemcpyHostToDevice, stream));
  }
};

bool is_in_place(const Ref& ref) { return ref.key.find("_in_place") != ref.key.npos; }

/// Reads the first n words: of the host, of the device, or of the device once they are copied; or
/// through a buffer that is too small, piece after piece.
Task read_task(const Ref& ref, const Shared<Memory>& m, size_t n) {
  const unsigned passes = std::isnan(ref.at) ? 1 : unsigned(ref.at);
  const bool in_pieces = ref.key == "budget_in_pieces";
  const bool copied = in_pieces || ref.key == "read_copied";
  const unsigned* const in = is_in_place(ref) ? m->host.data() : m->device.data();
  const size_t piece = in_pieces ? (n + Memory::launches - 1) / Memory::launches : n;
  const size_t pieces = (n + piece - 1) / piece;
  const auto launch = [=] {
    for (size_t k = 0; k < pieces; ++k) {
      const size_t first = k * piece, words = std::min(piece, n - first);
      if (copied) m->copy_in(m->device.data(), first, words);
      m->read(k, in, words, passes);
    }
  };
  const auto poison = [=] {
    m->sums.poison();
    if (copied) m->device.poison();
  };
  const auto wrong = [=] {
    return size_t(m->total(pieces) != sum_of_passes(n, passes)) + m->sums.wrong(Anything{});
  };
  return {text(ref), launch, {poison, wrong, ""}};
}

/// The copy without a kernel.
Task copy_task(const Ref& ref, const Shared<Memory>& m) {
  return {text(ref),
          [m] { m->copy_in(m->device.data(), 0, m->n); },
          {[m] { m->device.poison(); },
           [m] { return Content{}.wrong_on_device(m->device.data(), m->n); }, ""}};
}

/// Writes an array of the host's or of the device's, all of which is looked at.
Task write_task(const Ref& ref, const Shared<Memory>& m) {
  const unsigned passes = unsigned(ref.at);
  const bool in_place = is_in_place(ref);
  unsigned* const out = in_place ? m->host.data() : m->device.data();
  const auto launch = [m, out, passes] {
    write_passes<<<m->blocks, Memory::block_threads>>>(out, m->n, passes);
  };
  const auto wrong = [m, out, in_place, right = Content{passes}] {
    return in_place ? right.wrong_on_host(out, m->n) : right.wrong_on_device(out, m->n);
  };
  return {
      text(ref), launch, {[m, out] { CUDA_CHECK(cudaMemset(out, 0xff, 4 * m->n)); }, wrong, ""}};
}

// ---- one crossing: in place, or by the copy engines ----

/// The host's words go to the device; or a half of them, while as many come back into the other
/// half: what a kernel read, or what the device had.
Task carry_task(const Ref& ref, const Shared<Memory>& m) {
  const bool both = ref.key.starts_with("carry_both"), in_place = is_in_place(ref);
  const size_t n = m->n / 8 * (both ? 4 : 8);  // each way
  unsigned *const in = m->host.data(), *const device = m->device.data();
  unsigned* const back = in + n;  // if both
  const Shared up{Stream()}, down{Stream()};
  const auto launch = [=] {
    if (in_place) {
      auto* const out = reinterpret_cast<uint4*>(both ? back : device);
      carry<<<m->blocks, Memory::block_threads>>>(out, reinterpret_cast<const uint4*>(in), n / 4);
    } else {
      m->copy_in(device, 0, n, *up);
      if (both) CUDA_CHECK(cudaMemcpyAsync(back, device + n, 4 * n, cudaMemcpyDeviceToHost, *down));
    }
    CUDA_CHECK(cudaDeviceSynchronize());
  };
  const auto poison = [=] {
    m->device.poison();
    if (both) CUDA_CHECK(cudaMemset(back, 0xff, 4 * n));
    if (both && !in_place) Content{}.put_on_device(device + n, n);
    CUDA_CHECK(cudaDeviceSynchronize());  // the streams of the copies wait for nothing
  };
  const auto wrong = [=] {
    const size_t on_device = both && in_place ? 0 : Content{}.wrong_on_device(device, n);
    return on_device + (both ? Content{}.wrong_on_host(back, n) : 0);
  };
  return {text(ref), launch, {poison, wrong, ""}, true};
}

// ---- the text's example: three arrays of the host's ----

unsigned* device_pointer(unsigned* host) {
  unsigned* device = nullptr;
  CUDA_CHECK(cudaHostGetDevicePointer(&device, host, 0));
  return device;
}

void launch_sum(unsigned* c, const unsigned* a, const unsigned* b, size_t n) {
  sum_arrays<<<unsigned((n + 255) / 256), 256>>>(c, a, b, n);
  CUDA_CHECK_LAUNCH();
}

/// Arrays of n words, `apart` words from one to the next.
Task sum_task(const Ref& ref, const Shared<Memory>& m, size_t n, size_t apart) {
  unsigned *const a = m->host.data(), *const b = a + apart, *const c = b + apart;
  const auto by_copies = [=] {
    unsigned *const da = m->device.data(), *const db = da + apart, *const dc = db + apart;
    CUDA_CHECK(cudaMemcpy(da, a, 4 * n, cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy(db, b, 4 * n, cudaMemcpyHostToDevice));
    launch_sum(dc, da, db, n);
    CUDA_CHECK(cudaMemcpy(c, dc, 4 * n, cudaMemcpyDeviceToHost));
  };
  const auto by_device_pointer = [=] {
    launch_sum(device_pointer(c), device_pointer(a), device_pointer(b), n);
    CUDA_CHECK(cudaDeviceSynchronize());  // only then may the host look at c
  };
  const auto by_host_pointer = [=] {
    launch_sum(c, a, b, n);
    CUDA_CHECK(cudaDeviceSynchronize());
  };
  Task task{text(ref),
            by_copies,
            {[=] {
               m->device.poison();
               std::fill_n(c, n, ~0u);
             },
             [=] {
               size_t wrong = 0;
               for (size_t i = 0; i < n; ++i) wrong += c[i] != word_at(i) + word_at(apart + i);
               return wrong;
             },
             ""},
            true};
  if (ref.key == "sum_device_pointer") task.launch = by_device_pointer;
  if (ref.key == "sum_host_pointer") task.launch = by_host_pointer;
  return task;
}

// ---- one pointer, and a late write ----

/// Whether the device's pointer is the host's. The sum by it must be right.
bool one_pointer(unsigned flags, size_t n) {
  const PinnedBuffer<unsigned> host(n, flags);
  const Shared m(Memory(n, 3));
  std::copy_n(m->host.data(), n, host.data());
  unsigned* const device = device_pointer(host.data());
  m->sums.poison();
  m->read(0, device, n, 1);
  CUDA_CHECK_LAUNCH();
  if (m->total(1) != sum_of_passes(n, 1)) throw WrongResult("pinned memory by its pointer");
  return device == host.data();
}

/// What the host reads of a late write: at once, and after synchronising.
std::pair<int, int> late_write(int before, int written) {
  const PinnedBuffer<int> x(2, cudaHostAllocMapped);
  volatile int* const released = x.data();
  volatile int* const value = released + 1;
  *released = 0;
  *value = before;
  write_late<<<1, 1>>>(released, value, written);
  CUDA_CHECK_LAUNCH();
  const int at_once = *value;
  *released = 1;
  CUDA_CHECK(cudaDeviceSynchronize());
  return {at_once, *value};
}

// ---- prediction ----

/// Milliseconds of one crossing of the array, measured in the same run.
struct Crossing {
  double copied = NAN;    ///< by the copy engine
  double in_place = NAN;  ///< read by a kernel: smaller requests, more headers
  double local = NAN;     ///< a kernel's pass in device memory
};

/// The first number of reads from which a copy should pay: one crossing by the copy engine and the
/// rest in memory, against a crossing for each. None if the link is as fast as the memory.
double reads_that_pay(const Crossing& c) {
  return c.in_place > c.local ? std::max(1.0, std::ceil(c.copied / (c.in_place - c.local)))
                              : INFINITY;
}

double read_ms(const Ref& ref, const Crossing& c) {
  if (is_in_place(ref)) return ref.at * c.in_place;
  return (ref.key == "read_copied" ? c.copied : 0) + ref.at * c.local;
}

/// c = a + b: the calls, and three arrays by copies, or two in place: c goes the other way
/// meanwhile. `share`: of such an array in the one that crossed.
double sum_ms(const Ref& ref, double setup_ms, double share, const Crossing& c) {
  return setup_ms + share * (ref.key == "sum_copied" ? 3 * c.copied : 2 * c.in_place);
}

// ---- the experiment ----

/// Words of the array: a read that comes again comes over the link again, as it is four times the
/// L2.
size_t wanted_words(const Run& run) {
  return run.device ? run.device->l2_bytes() : size_t(64) << 20;
}
/// The same, where so much may be pinned.
size_t words_of(const Run& run, double pinnable) {
  const double room = std::min(pinnable, run.memory_there());
  size_t n = wanted_words(run);
  while (4.0 * double(n) > 0.4 * room && n > 4096) n /= 2;
  return n;
}
size_t words_of(const Run& run) { return words_of(run, pinnable_bytes(run)); }
double bytes_of(const Run& run) { return 4.0 * double(words_of(run)); }
/// Read again and again: a sixteenth of the L2.
size_t few_words(const Run& run) {
  return run.device ? std::min(words_of(run), run.device->l2_bytes() / 64) : words_of(run);
}

std::vector<double> read_counts(const Run& run) {
  if (run.quick) return {1, 2};
  if (run.full) return {1, 2, 4, 8, 16, 32, 64};
  return {1, 2, 8};
}
std::vector<double> write_counts(const Run& run) { return {1, run.quick ? 2.0 : 8.0}; }

/// Words of each of the text's arrays, which are three parts of the host's.
std::vector<size_t> sum_sizes(const Run& run) {
  const size_t most = std::min(words_of(run) / 3, size_t(run.quick ? 1 : run.full ? 16 : 4) << 22);
  std::vector<size_t> sizes;
  for (size_t n = 1024; n < most; n *= run.full ? 4 : 16) sizes.push_back(n);
  sizes.push_back(most);
  return sizes;
}

std::vector<Shown> columns() {
  return {milliseconds(4), spread(), in_unit(measured("GB/s", "rate", "GB/s", 1), gbs_of)};
}
Memory memory_of(const Run& run, size_t words) {
  const unsigned blocks = run.device ? unsigned(run.device->prop.multiProcessorCount *
                                                run.device->prop.maxThreadsPerMultiProcessor) /
                                           Memory::block_threads
                                     : 1;
  return {words, blocks};
}
Memory memory_of(const Run& run) { return memory_of(run, words_of(run)); }
std::string with_count(const char* words, const Ref& ref, const char* what) {
  return std::string(words) + ", " + at_text(ref) + " " + what + (ref.at == 1 ? "" : "s");
}

Crossing crossing_of(const Run& run) {
  const auto ms = [&run](const Ref& ref) { return (*run.results)(ref).time.ms.median; };
  return {ms("copy_alone"), ms({"read_in_place", 1}), ms({"read_device", 1})};
}

/// Reads over and over: in device memory, in place, and copied first.
void measure_reads(const Run& run) {
  SharedByTasks memory([&run] { return memory_of(run); });
  const double bytes = bytes_of(run);
  const size_t n = words_of(run), few = few_words(run);
  const Ref alone = "copy_alone", again("read_in_place_within_l2", 64);

  Sheet reads(run, "one array, reads", columns(), "reads");
  for (const double passes : read_counts(run)) {
    const auto add = [&](const char* key, const char* words, bool calibrates) {
      const Ref ref(key, passes);
      reads.add({.ref = ref,
                 .words = with_count(words, ref, "read"),
                 .bytes = passes * bytes,
                 .calibrates = calibrates && passes == 1});
    };
    add("read_device", "device memory", true);
    add("read_in_place", "in place", true);
    add("read_copied", "copied", false);
  }
  reads.measure(Timing::in_turn, [&](const Row& row) { return read_task(row.ref, memory(), n); });

  Sheet beside(run, "beside them", columns(), "reads");
  beside.add({.ref = alone, .words = "the copy engine alone", .bytes = bytes, .calibrates = true});
  beside.add({.ref = again,
              .words = "in place, a sixteenth of the L2, 64 reads",
              .bytes = again.at * 4 * double(few),
              .model = Model::host});
  beside.measure(Timing::alone, [&](const Row& row) {
    return same(row.ref, alone) ? copy_task(row.ref, memory()) : read_task(row.ref, memory(), few);
  });
  const Crossing c = crossing_of(run);
  reads.predict([&](const Row& row) { return read_ms(row.ref, c); });
  reads.print();
  beside.predict([&](const Row& row) { return row.bytes / bytes * c.in_place; });
  beside.print();
  const double kept = again.at * c.in_place * double(few) / double(n) / beside.ms(again);
  if (std::isfinite(kept))
    run.report.note("what fits the L2 is read again at " + times(kept) + " the link's rate: " +
                    (kept > 1.5 ? "from the L2" : "the L2 does not keep it"));
}

void measure_writes(const Run& run) {
  SharedByTasks memory([&run] { return memory_of(run); });
  Sheet sheet(run, "one array, writes", columns(), "writes");
  for (const double passes : write_counts(run))
    for (const char* key : {"write_device", "write_in_place"}) {
      const Ref ref(key, passes);
      sheet.add({.ref = ref,
                 .words = with_count(is_in_place(ref) ? "in place" : "device memory", ref, "write"),
                 .bytes = passes * bytes_of(run),
                 .calibrates = passes == 1});
    }
  sheet.measure(Timing::in_turn, [&](const Row& row) { return write_task(row.ref, memory()); });
  sheet.predict([&](const Row& row) { return row.ref.at * sheet.ms({row.ref.key, 1}); });
  sheet.print();
}

/// More than the device may hold of it: in one launch in place, or piece after piece.
void measure_budget(const Run& run) {
  SharedByTasks memory([&run] { return memory_of(run); });
  const double bytes = bytes_of(run);
  Sheet sheet(run, "sum of " + bytes_text(bytes) + ", device budget " + bytes_text(bytes / 4),
              columns());
  sheet.add({.ref = "budget_in_place", .words = "in place, in one launch", .bytes = bytes});
  sheet.add({.ref = "budget_in_pieces", .words = "copied in pieces", .bytes = bytes});
  sheet.measure(Timing::in_turn,
                [&](const Row& row) { return read_task(row.ref, memory(), words_of(run)); });
  const Crossing c = crossing_of(run);
  sheet.predict(
      [&](const Row& row) { return is_in_place(row.ref) ? c.in_place : c.copied + c.local; });
  sheet.print();
}

/// The text's sum over the size of its arrays.
void measure_sums(const Run& run) {
  const std::vector<size_t> sizes = sum_sizes(run);
  SharedByTasks memory([&] { return memory_of(run, 3 * sizes.back()); });
  const double first = 4.0 * double(sizes.front());
  Sheet sheet(run, "c = a + b, bytes an array", columns(), "array bytes");
  for (const size_t n : sizes) {
    const double bytes = 4.0 * double(n);
    const auto add = [&](const char* key, const char* words, bool calibrates) {
      sheet.add({.ref = {key, bytes},
                 .words = std::string(words) + ", " + bytes_text(bytes),
                 .bytes = 3 * bytes,
                 .calibrates = calibrates && bytes == first,
                 .model = bytes > 1e7 ? Model::traffic : Model::latency});
    };
    add("sum_copied", "copied", true);
    add("sum_device_pointer", "in place, device pointer", true);
    add("sum_host_pointer", "in place, host pointer", false);
  }
  sheet.measure(Timing::in_turn, [&](const Row& row) {
    return sum_task(row.ref, memory(), size_t(row.ref.at / 4), sizes.back());
  });
  const Crossing c = crossing_of(run);
  sheet.predict([&](const Row& row) {
    const char* const small = row.ref.key == "sum_copied" ? "sum_copied" : "sum_device_pointer";
    const double share = row.ref.at == first ? 0 : row.ref.at / bytes_of(run);
    return sum_ms(row.ref, sheet.ms({small, first}), share, c);
  });
  sheet.print();
}

/// All bytes one way, or half of them each way: by the copy engines, and in place. What comes back
/// lands on the host's second half, so that the two tables have memory of their own.
void measure_carrying(const Run& run, bool both) {
  SharedByTasks memory([&run] { return memory_of(run); });
  Sheet sheet(run, bytes_text(bytes_of(run)) + (both ? ", half of it each way" : ", one way"),
              columns());
  const auto add = [&](const char* key, const char* words) {
    sheet.add({.ref = key, .words = words, .bytes = bytes_of(run)});
  };
  add(both ? "carry_both_copied" : "carry_copied", "copied");
  add(both ? "carry_both_in_place" : "carry_in_place", "carried by a kernel");
  sheet.measure(Timing::regrouped, [&](const Row& row) { return carry_task(row.ref, memory()); });
  const Crossing c = crossing_of(run);
  sheet.predict([&](const Row& row) {  // of both ways at once there is no model
    if (both) return double(NAN);
    return is_in_place(row.ref) ? c.in_place : c.copied;
  });
  sheet.print();
}

/// More than the link carries was not waited for. A made-up GPU has no link.
void require_within_link(const Run& run) {
  if (!run.device || run.device->number < 0) return;
  for (const Ref& ref : {Ref("copy_alone"), Ref("read_in_place", 1), Ref("write_in_place", 1),
                         Ref("carry_copied"), Ref("carry_in_place")}) {
    const Measured& row = (*run.results)(ref);
    require_possible(text(ref), row.bytes * 1e-6 / row.time.ms.median, link_gbs(run.device->prop));
  }
}

struct Kind {
  const char* key = "";
  unsigned flags = 0;
};
const Kind promised[] = {{"pinned", cudaHostAllocDefault},
                         {"portable", cudaHostAllocPortable},
                         {"mapped", cudaHostAllocMapped}};

/// 1 where memory of this kind has one address, 0 where it has two.
double ask_one_pointer(const Run& run, const Kind& kind) {
  return ask(run, kind.key, "one address", "",
             [&kind] { return single(one_pointer(kind.flags, 100003)); })
      .median;
}

void show_late_write(const Run& run) {
  constexpr int before = 11, written = 22;
  const auto read = [&run](const char* when, bool at_once) {
    return ask(run, "write_late", when, "",
               [at_once] {
                 const auto [first, second] = late_write(before, written);
                 return single(at_once ? first : second);
               })
        .median;
  };
  const double at_once = read("read at once", true), after = read("read once synchronised", false);
  if (std::isfinite(after))
    run.report.note("a kernel writes " + std::to_string(written) + " late: the host reads " +
                    fixed(at_once, 0) + " at once, " + fixed(after, 0) + " once synchronised");
}

void run_zero_copy(const Run& run) {
  run.report.begin("zero_copy",
                   bytes_text(bytes_of(run)) + " of pinned host memory" +
                       (words_of(run) < wanted_words(run) ? ", for no more is free" : ""));
  measure_reads(run);
  measure_writes(run);
  if (!run.quick) measure_budget(run);
  measure_sums(run);
  for (const bool both : {false, true}) measure_carrying(run, both);
  require_within_link(run);
  show_late_write(run);
  for (const Kind& kind : promised) ask_one_pointer(run, kind);
  const double combined = ask_one_pointer(run, {"write_combined", cudaHostAllocWriteCombined});
  if (std::isfinite(combined))
    run.report.note(std::string("not promised, write-combined memory: ") +
                    (combined == 1 ? "the same pointer" : "another pointer"));
}

// ---- claims ----

/// "a copy pays from read 1 on; predicted: from read 1".
std::string where_it_pays(const Run& run) {
  for (const double passes : read_counts(run)) {
    const Interval r = ratio_of(run, {{"read_in_place", passes}, {"read_copied", passes}});
    if (r.measured() && r.low > least_effect)
      return "a copy pays from read " + fixed(passes, 0) + " on; predicted: from read " +
             fixed(reads_that_pay(crossing_of(run)), 0);
  }
  return "";
}

std::vector<Claim> claims(const Run& run) {
  const char* const in_cache = run.device && !beyond_l2(*run.device, bytes_of(run))
                                   ? "the array is less than four times the L2"
                                   : "";
  const double reads = read_counts(run).back(), writes = write_counts(run).back();
  const double bytes = 4.0 * double(sum_sizes(run).back());
  int same = 0;
  bool asked = true;
  for (const Kind& kind : promised) {
    const double one = run.results->value(kind.key, "one address").value.median;
    same += one == 1;
    asked = asked && std::isfinite(one);
  }
  const int kinds = int(std::size(promised));
  return {
      {.part = {"02.5a", "zero-copy is significantly slower for frequent reads",
                "significantly slower", "the wiki"},
       .rule = much_beats(),
       .pairs = {{.slow = {"read_in_place", reads}, .fast = {"read_device", reads}}},
       .here = where_it_pays(run),
       .unless = in_cache},
      {.part = {"02.5b", "and for frequent writes", "significantly slower", "the wiki"},
       .rule = much_beats(),
       .pairs = {{.slow = {"write_in_place", writes}, .fast = {"write_device", writes}}},
       .unless = in_cache},
      {.part = {"02.6", "with unified addresses the device pointer need not be fetched",
                "the same code without it", "the wiki"},
       .fact = same == kinds ? Fact::so : Fact::not_so,
       .here = std::to_string(same) + " of " + std::to_string(kinds) +
               " kinds of pinned memory, with right sums",
       .unless = asked ? "" : "no GPU"},
      {.part = {"02.13a", "zero-copy improves the transfer rate, one way",
                "improving PCIe transfer rates", "the wiki"},
       .rule = beats(),
       .pairs = {{.slow = "carry_copied", .fast = "carry_in_place"}},
       .here = bytes_text(bytes_of(run)),
       .found = {{.slow = {"sum_copied", bytes}, .fast = {"sum_device_pointer", bytes}}}},
      {.part = {"02.13b", "and both ways at once", "improving PCIe transfer rates", "the wiki"},
       .rule = beats(),
       .pairs = {{.slow = "carry_both_copied", .fast = "carry_both_in_place"}},
       .here = bytes_text(bytes_of(run) / 2) + " each way"},
  };
}

// ---- what it declares ----

Needs needs(const Run& run) {
  const double sums = run.device->prop.multiProcessorCount *
                      double(run.device->prop.maxThreadsPerMultiProcessor) * Memory::launches * 4;
  return {.allocated = bytes_of(run) + sums, .touched = bytes_of(run)};
}

std::vector<Checked> tasks(size_t n) {
  std::vector<Checked> all;
  enum Where { on_host, on_device, sums };
  // the last word of `words` there is changed, or the first of the sums
  const auto add = [&all](const auto& make, const Ref& ref, size_t words, size_t elements,
                          Where where) {
    const Shared m(Memory(words, 3));
    const auto change_one = [m, where] {
      if (where == sums) return m->sums.change(0);
      if (where == on_host) return void(++m->host[m->n - 1]);
      unsigned value = 0;
      device_memory::to_host(&value, m->device.data() + m->n - 1, sizeof value);
      ++value;
      device_memory::to_device(m->device.data() + m->n - 1, &value, sizeof value);
    };
    all.push_back({.task = make(ref, m), .elements = elements, .change_one = change_one});
  };
  const auto read = [n](const Ref& ref, const Shared<Memory>& m) { return read_task(ref, m, n); };
  for (const double passes : {1, 5})
    for (const char* key : {"read_device", "read_in_place", "read_copied"})
      add(read, {key, passes}, n, 1, sums);
  add(read, "budget_in_pieces", n, 1, sums);
  add(write_task, {"write_device", 5}, n, n, on_device);
  add(write_task, {"write_in_place", 5}, n, n, on_host);
  add(copy_task, "copy_alone", n, n, on_device);
  const auto sum = [n](const Ref& ref, const Shared<Memory>& m) { return sum_task(ref, m, n, n); };
  for (const char* key : {"sum_copied", "sum_device_pointer", "sum_host_pointer"})
    add(sum, {key, 4.0 * double(n)}, 3 * n, n, on_host);
  for (const char* key : {"carry_copied", "carry_in_place"})
    add(carry_task, key, 8 * n, 8 * n, on_device);
  add(carry_task, "carry_both_copied", 8 * n, 8 * n, on_host);
  add(carry_task, "carry_both_in_place", 8 * n, 4 * n, on_host);
  return all;
}

}  // namespace

extern const Experiment zero_copy_experiment{
    .name = "zero_copy",
    .about = "kernels that read host memory where it is, over size and re-reads",
    .run = run_zero_copy,
    .claims = claims,
    .needs = needs,
    .tasks = tasks,
};
