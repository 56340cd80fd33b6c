// batching: the same bytes to the GPU, in one copy or in many. The guide says: combine several
// transfers into one [KP]. Where arrays lie apart on the host, somebody must bring them together: a
// thread of the host packs them. Since CUDA 12.8 the runtime also takes a list of copies in one
// call.
//
// The bytes take their time once, and each further copy adds its own cost, whatever it carries.
// Look at how small arrays must be before packing them pays.
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o batching batching.cu ../common/*.cpp
#include <algorithm>
#include <cstring>

#include "../common/arrays.cuh"
#include "../common/sample.hpp"
#include "host.hpp"

namespace {

using Byte = unsigned char;

// ---- where arrays lie ----

/// `total` bytes in arrays of `each`; the last one has what is left. On the device one follows the
/// other. On the host they lie in reverse order, with a gap between two: no copy can take both.
struct Layout {
  static constexpr size_t gap = 256;
  size_t total, each;

  __host__ __device__ size_t count() const { return (total + each - 1) / each; }
  size_t bytes(size_t array) const { return std::min(each, total - array * each); }
  /// Where on the host byte i of the device comes from.
  __host__ __device__ size_t source(size_t i) const {
    const size_t place = count() - 1 - i / each;
    return place * (each + gap) + i % each;
  }
  size_t host_bytes() const { return count() * (each + gap); }
};

/// Where each array goes, where it comes from, and its bytes.
struct Arrays {
  std::vector<void*> to, from;
  std::vector<size_t> bytes;

  Arrays(const Layout& layout, Byte* device, Byte* host) {
    for (size_t k = 0; k < layout.count(); ++k) {
      to.push_back(device + k * layout.each);
      from.push_back(host + layout.source(k * layout.each));
      bytes.push_back(layout.bytes(k));
    }
  }
  size_t count() const { return to.size(); }
};

// ---- three ways to copy them ----

void copy_each(const Arrays& arrays, cudaStream_t stream) {
  for (size_t k = 0; k < arrays.count(); ++k)
    CUDA_CHECK(cudaMemcpyAsync(arrays.to[k], arrays.from[k], arrays.bytes[k],
                               cudaMemcpyHostToDevice, stream));
}

/// The host brings all arrays together, then one copy takes them.
void copy_packed(const Arrays& arrays, Byte* packed, cudaStream_t stream) {
  size_t end = 0;
  for (size_t k = 0; k < arrays.count(); ++k) {
    std::memcpy(packed + end, arrays.from[k], arrays.bytes[k]);
    end += arrays.bytes[k];
  }
  CUDA_CHECK(cudaMemcpyAsync(arrays.to[0], packed, end, cudaMemcpyHostToDevice, stream));
}

/// All copies in one call. It takes any stream but the default one.
void copy_list([[maybe_unused]] Arrays& arrays, [[maybe_unused]] cudaStream_t stream) {
#if CUDART_VERSION >= 12080
  cudaMemcpyAttributes attributes{};
  attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  size_t first = 0;  // the attributes are those of all copies from this one on
#if CUDART_VERSION >= 13000
  CUDA_CHECK(cudaMemcpyBatchAsync(arrays.to.data(), arrays.from.data(), arrays.bytes.data(),
                                  arrays.count(), &attributes, &first, 1, stream));
#else
  size_t failed = 0;
  CUDA_CHECK(cudaMemcpyBatchAsync(arrays.to.data(), arrays.from.data(), arrays.bytes.data(),
                                  arrays.count(), &attributes, &first, 1, &failed, stream));
#endif
#endif
}

/// The call must be in the toolkit and in the driver.
bool there_are_lists() {
  int driver = 0;
  CUDA_CHECK(cudaDriverGetVersion(&driver));
  return std::min(driver, CUDART_VERSION) >= 12080;
}

// ---- memory, and what is timed ----

/// What every source holds: never 0xff, of which a poisoned target consists.
struct Pattern {
  __host__ __device__ Byte operator()(size_t i) const { return Byte(hash(i) % 0xff); }
};

struct Memory {
  PinnedBuffer<Byte> scattered, packed;
  GuardedBuffer<Byte> device;
  Stream stream;

  Memory(size_t total, size_t host_bytes) : scattered(host_bytes), packed(total), device(total) {
    const auto pattern = filled<Byte>(host_bytes, Pattern{});
    CUDA_CHECK(cudaMemcpy(scattered, pattern, host_bytes, cudaMemcpyDeviceToHost));
  }
};

enum Way { one_by_one, packed, as_a_list };

std::string name_of(size_t count, Way way) {
  if (way == one_by_one) return count == 1 ? "1 copy" : std::to_string(count) + " copies";
  return std::to_string(count) + (way == packed ? " packed" : " in a list");
}

/// All of `layout` goes to the device, and the host waits for it.
Benchmark copying(const Memory& memory, const Layout& layout, Way way) {
  Arrays arrays(layout, memory.device, memory.scattered);
  const auto work = [memory, way, arrays]() mutable {
    if (way == one_by_one) copy_each(arrays, memory.stream);
    if (way == packed) copy_packed(arrays, memory.packed, memory.stream);
    if (way == as_a_list) copy_list(arrays, memory.stream);
    CUDA_CHECK(cudaStreamSynchronize(memory.stream));
  };
  const auto poison = [memory] {
    memory.device.poison();
    CUDA_CHECK(
        cudaMemcpy(memory.packed, memory.device, memory.device.size(), cudaMemcpyDeviceToHost));
  };
  const auto value = [layout] __device__(size_t i) {
    return i < layout.total ? Pattern{}(layout.source(i)) : Byte(0xff);
  };
  return {.name = name_of(layout.count(), way),
          .work = work,
          .check = {poison, equals(memory.device, value).find_error},
          .on_host = true};
}

// ---- prediction ----

/// The bytes take their time once. Each further copy takes what a copy of next to nothing takes.
double predicted_ms(double one_copy_ms, double small_copy_ms, size_t copies) {
  return one_copy_ms + double(copies - 1) * small_copy_ms;
}

}  // namespace

void batching(Run& run) {
  const size_t total = std::max(MiB, run.fitting_on_host((run.quick ? 4 : 16) * MiB, 3));
  const std::vector<size_t> counts = {1, 16, 256, 1024};
  const size_t most = counts.back();
  const std::string small = "small copies";
  run.title(bytes_text(double(total)) + " of pinned memory to the device, in up to " +
            std::to_string(most) + " copies");

  const auto all_copies = [&] {
    const Memory memory(total, Layout{total, total / most}.host_bytes());
    std::vector<Benchmark> benchmarks{copying(memory, {4 * most, 4}, one_by_one)};
    benchmarks[0].name = small;
    for (const size_t n : counts)
      for (const Way way : {one_by_one, packed, as_a_list})
        if (way != as_a_list || there_are_lists())
          benchmarks.push_back(copying(memory, {total, total / n}, way));
    return benchmarks;
  };
  const Timings timed = run.timer.with_fresh_memory(all_copies, 2);

  const double one_ms = timed[name_of(1, one_by_one)].median();
  const double small_ms = timed[small].median() / double(most);
  Table table("arrays", {"ms: copies", "predicted", "packed", "a list", "GB/s: copies"});
  for (const size_t n : counts) {
    const auto ms = [&](Way way) { return timed[name_of(n, way)].ms_interval(); };
    table.row(std::to_string(n) + " of " + bytes_text(double(total / n)),
              {ms(one_by_one), n == 1 ? Cell("") : Cell(predicted_ms(one_ms, small_ms, n)),
               ms(packed), there_are_lists() ? Cell(ms(as_a_list)) : Cell("-"),
               timed[name_of(n, one_by_one)].gbs(double(total))});
  }
  run.print(table);
  run.note("predicted: one copy of all, and " + digits(1e3 * small_ms) +
           " us for each further one, as of a queued copy of 4 bytes");
  run.note("packed: a thread of the host brings the arrays together, then one copy takes them");
  if (!there_are_lists()) run.note("a list: needs CUDA 12.8, of the toolkit and of the driver");
  require_below_link("one copy", double(total) * 1e-6 / one_ms, run.gpu);
  run.claim({"02.4", "multiple transfers to the device are better combined into one",
             "[KP] \"Combine multiple transfers into one\""},
            timed.speedup({.of = name_of(1, one_by_one), .over = name_of(most, one_by_one)}),
            faster());
  std::vector<Interval> factors;
  for (const size_t n : counts)
    if (n > 1) factors.push_back(ratio(timed[name_of(n, one_by_one)], timed[name_of(n, packed)]));
  run.claim_each({"02.15", "arrays that lie apart are faster packed than copied one by one",
                  "[KP] \"Combine multiple transfers into one\""},
                 factors, "copies / packed: 16, 256, 1024 arrays", faster());
}
SAMPLE(3, batching, "many small copies, one large one, a batch");

TEST_CASE("batching: the time of many copies, by hand") {
  CHECK(predicted_ms(0.3, 0.002, 1) == doctest::Approx(0.3));
  CHECK(predicted_ms(0.3, 0.002, 4096) == doctest::Approx(8.49));
}

TEST_CASE("batching: three arrays lie apart and in reverse order") {
  const Layout layout{10, 4};  // 4, 4 and 2 bytes
  CHECK(layout.count() == 3);
  CHECK(layout.bytes(1) == 4);
  CHECK(layout.bytes(2) == 2);
  CHECK(layout.source(0) == 2 * 260);
  CHECK(layout.source(5) == 260 + 1);
  CHECK(layout.source(9) == 1);
  CHECK(layout.host_bytes() == 3 * 260);
}

TEST_CASE("batching: every way carries every byte, and nothing behind the end") {
  if (skip_without_gpu()) return;
  for (const size_t total : {1, 31, 4097, 1000003})
    for (const size_t each : {7, 1000, 65536}) {
      const Layout layout{total, each};
      const Memory memory(total, layout.host_bytes());
      for (const Way way : {one_by_one, packed, as_a_list}) {
        if (way == as_a_list && !there_are_lists()) continue;
        CAPTURE(total);
        CAPTURE(each);
        CAPTURE(way);
        const Benchmark copy = copying(memory, layout, way);
        copy.check.poison();
        CHECK(copy.check.find_error() != "");  // nothing is copied yet
        copy.work();
        CHECK(copy.check.find_error() == "");
      }
    }
}
