// structs: pairs of floats as an array of structures, as a structure of arrays, and as structures aligned to 8 bytes.
// The text counts 50% efficiency for the first, because each field is an access of its own that steps over the other,
// and 100% for the others. Look at the sectors a request, and at how little of it reaches the time while both fields
// are used: the second access finds in cache what the first has fetched. With one field used half of each sector is
// never wanted, and no cache helps; and what is worse, a sector written in half costs more than one written whole.
#include <doctest/doctest.h>

#include <optional>

#include "../common/first_edition.hpp"
#include "reading.cuh"
#include "transactions.hpp"

namespace {

struct Pair {
  float x, y;
};
struct __align__(8) AlignedPair {
  float x, y;
};
/// Two arrays, one behind the other in memory.
struct Arrays {
  float *x, *y;
};

/// Word of memory at which a field of pair i stands: field 0 is x, 1 is y.
__host__ __device__ size_t word_in_pairs(size_t i, unsigned field) { return 2 * i + field; }
__host__ __device__ size_t word_in_arrays(size_t i, unsigned field, size_t n) { return field * n + i; }

__device__ size_t element() { return blockIdx.x * size_t(blockDim.x) + threadIdx.x; }

// Aligned to 4 bytes: two loads and two stores of 4 bytes, in each of which a warp takes every second word.
__global__ void increment_pairs(const Pair* in, Pair* out, size_t n) {
  const size_t i = element();
  if (i >= n) return;
  Pair p = in[i];
  p.x += 10.0f;
  p.y += 20.0f;
  out[i] = p;
}

// Aligned to 8 bytes: one load and one store of 8 bytes, with no gaps.
__global__ void increment_aligned(const AlignedPair* in, AlignedPair* out, size_t n) {
  const size_t i = element();
  if (i >= n) return;
  AlignedPair p = in[i];
  p.x += 10.0f;
  p.y += 20.0f;
  out[i] = p;
}

// Two loads and two stores of 4 bytes, each of 32 neighbours.
__global__ void increment_arrays(Arrays in, Arrays out, size_t n) {
  const size_t i = element();
  if (i >= n) return;
  const float x = in.x[i], y = in.y[i];
  out.x[i] = x + 10.0f;
  out.y[i] = y + 20.0f;
}

// One field of the two: every second word, aligned or not.
__global__ void increment_pairs_x(const Pair* in, Pair* out, size_t n) {
  const size_t i = element();
  if (i < n) out[i].x = in[i].x + 10.0f;
}
__global__ void increment_aligned_x(const AlignedPair* in, AlignedPair* out, size_t n) {
  const size_t i = element();
  if (i < n) out[i].x = in[i].x + 10.0f;
}
__global__ void increment_arrays_x(Arrays in, Arrays out, size_t n) {
  const size_t i = element();
  if (i < n) out.x[i] = in.x[i] + 10.0f;
}

enum class Layout { pairs, arrays, aligned };
constexpr Layout layouts[] = {Layout::pairs, Layout::arrays, Layout::aligned};
const char* name_of(Layout l) {
  return l == Layout::pairs ? "AoS" : l == Layout::arrays ? "SoA" : "AoS, aligned to 8 bytes";
}

/// The field's value in pair i; 16 bits, so that adding to it is exact.
__host__ __device__ float value_of(size_t i, unsigned field) { return float(scrambled(word_in_pairs(i, field)) >> 16); }

/// What stands at each word before, and whether it is right afterwards. A y that is not used stays poisoned (NaN).
struct Contents {
  bool arrays, both;
  size_t n;
  __host__ __device__ size_t pair(size_t word) const { return arrays ? word % n : word / 2; }
  __host__ __device__ unsigned field(size_t word) const { return unsigned(arrays ? word / n : word % 2); }
  __host__ __device__ float operator()(size_t word) const { return value_of(pair(word), field(word)); }
  __host__ __device__ bool operator()(size_t word, float found) const {
    if (!both && field(word)) return found != found;
    return found == (*this)(word) + (field(word) ? 20.0f : 10.0f);
  }
};

/// n pairs in and out.
struct Work {
  size_t n;
  DeviceBuffer<float> in, out;
  explicit Work(size_t n) : n(n), in(2 * n), out(2 * n) {}

  void launch(Layout layout, bool both) {
    constexpr unsigned threads = 256;
    const unsigned blocks = unsigned((n + threads - 1) / threads);
    const auto of = [&](float* p) { return Arrays{p, p + word_in_arrays(0, 1, n)}; };
    if (layout == Layout::arrays)
      (both ? increment_arrays : increment_arrays_x)<<<blocks, threads>>>(of(in.data()), of(out.data()), n);
    else if (layout == Layout::pairs)
      (both ? increment_pairs : increment_pairs_x)<<<blocks, threads>>>(reinterpret_cast<const Pair*>(in.data()),
                                                                        reinterpret_cast<Pair*>(out.data()), n);
    else
      (both ? increment_aligned : increment_aligned_x)<<<blocks, threads>>>(
          reinterpret_cast<const AlignedPair*>(in.data()), reinterpret_cast<AlignedPair*>(out.data()), n);
    CUDA_CHECK_LAUNCH();
  }
  bool right(Layout layout, bool both) {
    const Contents contents{layout == Layout::arrays, both, n};
    fill(in, contents);
    out.poison();
    launch(layout, both);
    return wrong_words(out, contents) == 0;
  }
};

/// What a warp's access to x asks for, or to both fields where that is one access. Loads and stores are alike.
Warp access(Layout layout, bool both) {
  if (layout == Layout::aligned && both) return warp_of(8, [](unsigned lane) { return word_in_pairs(lane, 0) / 2; });
  return warp_of(4, [&](unsigned lane) {
    return layout == Layout::arrays ? word_in_arrays(lane, 0, 1024) : word_in_pairs(lane, 0);
  });
}
double efficiency(Layout layout, bool both) { return 100 * under(Rule::sectors, access(layout, both)).utilisation(); }

const Claim efficiency_claim{"03.4",
                             "two accesses to an AoS are 50% efficient, loads and stores; SoA and aligned AoS are 100%",
                             "wiki", "50 / 100 / 100%"};

}  // namespace

void structs(const Run& run) {
  size_t n = size_t(1) << (run.quick ? 22 : 26);
  if (run.device) n = shrunk_to_fit(16 * n) / 16;
  run.report.begin("structs", std::to_string(n) + " pairs of floats read and written, " + bytes_text(16.0 * double(n)));
  std::optional<Work> work;
  Statistics limit, both_ms[3];
  if (run.device) {
    work.emplace(n);
    fill(work->in, Contents{false, true, n});
    limit = gigabytes_per_second(
        16.0 * double(n), time_device(run.measuring, [&] {
          CUDA_CHECK(cudaMemcpyAsync(work->out.data(), work->in.data(), work->in.bytes(), cudaMemcpyDeviceToDevice));
        }));
  }
  for (const bool both : {true, false}) {
    Table table(
        run.report, both ? "both fields" : "one field",
        {predicted("sectors/request", "sectors a request", "", 0), predicted("efficiency %", "efficiency", "%", 0),
         then("then %", "efficiency", "%", 0), measured("median ms", "time", "ms", 4), shown("spread"),
         measured("GB/s used", "bandwidth", "GB/s", 0), shown("of copy engine"), shown("")});
    for (const Layout layout : layouts) {
      std::vector<Cell> cells(8);
      cells[0] = double(sectors(access(layout, both)));
      cells[1] = efficiency(layout, both);
      if (both)
        cells[2] = layout == Layout::pairs ? 50.0 : 100.0;
      else if (layout == Layout::pairs)
        cells[2] = 50.0;
      if (run.device) {
        require_right(work->right(layout, both), name_of(layout));
        const Statistics ms = time_device(run.measuring, [&] { work->launch(layout, both); });
        if (both) both_ms[int(layout)] = ms;
        const Statistics gbs = gigabytes_per_second((both ? 16.0 : 8.0) * double(n), ms);
        cells[3] = ms, cells[4] = spread_text(ms), cells[5] = gbs;
        cells[6] = times(gbs.median / limit.median), cells[7] = bar(gbs.median / limit.median);
      }
      table.row({std::string(name_of(layout)) + (both ? ", both fields" : ", x alone")}, cells);
    }
    table.print();
  }
  if (!run.device) return run.report.left_out("the times", {efficiency_claim});

  run.report.claim(efficiency_claim, [&] {
    const double aos = efficiency(Layout::pairs, true), soa = efficiency(Layout::arrays, true),
                 aligned = efficiency(Layout::aligned, true);
    Judgement j = judge_fact(aos == 50 && soa == 100 && aligned == 100, "", aos, "%");
    j.here = fixed(aos, 0) + " / " + fixed(soa, 0) + " / " + fixed(aligned, 0) + "%; in time SoA is " +
             times(both_ms[0].median / both_ms[1].median) + ", aligned AoS " +
             times(both_ms[0].median / both_ms[2].median) + " as fast as AoS";
    return j;
  }());
}

// ---- self-checks ----------------------------------------------------------------------------------------------------

namespace {

std::vector<CountedLaunch> counted_launches() {
  std::vector<CountedLaunch> all;
  for (const bool both : {true, false})
    for (const Layout layout : layouts) {
      const std::string kernel = layout == Layout::pairs    ? "increment_pairs"
                                 : layout == Layout::arrays ? "increment_arrays"
                                                            : "increment_aligned";
      const double each = sectors(access(layout, both));
      all.push_back(
          {kernel + (both ? "" : "_x"), "65536 pairs", each, each, [=] { return Work(65536).right(layout, both); }});
    }
  return all;
}

}  // namespace

TEST_CASE("structs: the model gives the efficiencies of the text") {
  CHECK(efficiency(Layout::pairs, true) == 50);
  CHECK(efficiency(Layout::arrays, true) == 100);
  CHECK(efficiency(Layout::aligned, true) == 100);
  CHECK(efficiency(Layout::pairs, false) == 50);
  CHECK(efficiency(Layout::aligned, false) == 50);
  CHECK(efficiency(Layout::arrays, false) == 100);
  // y lies in the sectors that x has fetched
  const Warp y = warp_of(4, [](unsigned lane) { return word_in_pairs(lane, 1); });
  CHECK(segments(y, 32) == segments(access(Layout::pairs, true), 32));
}

TEST_CASE("structs: each field of each pair has a word of its own") {
  for (size_t n : {1, 2, 31, 1009}) {
    std::vector<int> pairs(2 * n), arrays(2 * n);
    for (size_t i = 0; i < n; ++i)
      for (unsigned field : {0u, 1u}) {
        ++pairs.at(word_in_pairs(i, field));
        ++arrays.at(word_in_arrays(i, field, n));
        for (bool in_arrays : {false, true}) {
          const Contents c{in_arrays, true, n};
          const size_t word = in_arrays ? word_in_arrays(i, field, n) : word_in_pairs(i, field);
          CHECK(c.pair(word) == i);
          CHECK(c.field(word) == field);
        }
      }
    CHECK(pairs == std::vector<int>(2 * n, 1));
    CHECK(arrays == pairs);
  }
}

TEST_CASE("structs: all kernels are right at awkward sizes and leave an unused field alone") {
  if (skip_without_gpu()) return;
  for (size_t n : {1, 31, 257, 1009, 1000003})
    for (const bool both : {true, false})
      for (const Layout layout : layouts) {
        CAPTURE(n);
        CAPTURE(both);
        CAPTURE(name_of(layout));
        Work work(n);
        CHECK(work.right(layout, both));
        work.out.poison();  // and the check itself can fail
        CHECK(wrong_words(work.out, Contents{layout == Layout::arrays, both, n}) == (both ? 2 * n : n));
      }
}

TEST_CASE("structs: profile launches") {
  if (skip_without_gpu()) return;
  launch_counted(counted_launches());
}

TEST_CASE("structs: counted sectors equal the model") { compare_with_counters(counted_launches()); }
