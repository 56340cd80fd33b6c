// matmul: A x B, and A x the transposed B, which the text calls 30% faster because each thread then walks through
// neighbouring words. Look at a warp instead of a thread. Its lanes make 32 neighbouring elements of a row, so at each
// step they want 32 neighbours of B, but 32 rows of the transposed B: 4 sectors against 32. What counts is which index
// the lanes differ in. Where they differ in k, as when a warp makes an element, or where there is but one lane, as on
// the host, the innermost step runs along k, and there the text is right: the last rows show it.
#include <doctest/doctest.h>

#include <algorithm>
#include <optional>

#include "../common/first_edition.hpp"
#include "transactions.hpp"

namespace {

/// Words of A(i, k), B(k, j), and of B(k, j) in the transposed B.
__host__ __device__ size_t in_a(int n, int i, int k) { return size_t(i) * n + k; }
__host__ __device__ size_t in_b(int n, int k, int j) { return size_t(k) * n + j; }
__host__ __device__ size_t in_transposed(int n, int k, int j) { return size_t(j) * n + k; }

// The text's: block i, thread j. Of A the lanes want one word together; of B 32 neighbours.
__global__ void multiply(int n, const float* a, const float* b, float* c) {
  const int i = blockIdx.x, j = threadIdx.x;
  float sum = 0;
  for (int k = 0; k < n; ++k) sum += a[in_a(n, i, k)] * b[in_b(n, k, j)];
  c[in_a(n, i, j)] = sum;
}

// The text's cure: the lanes are n words apart in B, each in a sector of its own.
__global__ void multiply_transposed(int n, const float* a, const float* bt, float* c) {
  const int i = blockIdx.x, j = threadIdx.x;
  float sum = 0;
  for (int k = 0; k < n; ++k) sum += a[in_a(n, i, k)] * bt[in_transposed(n, k, j)];
  c[in_a(n, i, j)] = sum;
}

// The text's: a warp reads down a column of B and writes along a row.
__global__ void transpose(int n, const float* b, float* bt) {
  const int j = blockIdx.x, k = threadIdx.x;
  bt[in_transposed(n, k, j)] = b[in_b(n, k, j)];
}

constexpr int warps = 8;  // of a block in which a warp makes an element

__device__ float sum_of_warp(float sum) {
  for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, distance);
  return sum;
}

// Block i; a warp makes every eighth element of the row. Its lanes differ in k: n words apart in B.
__global__ void multiply_by_warps(int n, const float* a, const float* b, float* c) {
  const int i = blockIdx.x, lane = threadIdx.x % 32;
  for (int j = threadIdx.x / 32; j < n; j += warps) {
    float sum = 0;
    for (int k = lane; k < n; k += 32) sum += a[in_a(n, i, k)] * b[in_b(n, k, j)];
    sum = sum_of_warp(sum);
    if (lane == 0) c[in_a(n, i, j)] = sum;
  }
}

// The same from the transposed B, where lanes that differ in k are neighbours.
__global__ void multiply_by_warps_transposed(int n, const float* a, const float* bt, float* c) {
  const int i = blockIdx.x, lane = threadIdx.x % 32;
  for (int j = threadIdx.x / 32; j < n; j += warps) {
    float sum = 0;
    for (int k = lane; k < n; k += 32) sum += a[in_a(n, i, k)] * bt[in_transposed(n, k, j)];
    sum = sum_of_warp(sum);
    if (lane == 0) c[in_a(n, i, j)] = sum;
  }
}

// ---- the host ------------------------------------------------------------------------------------------------------

/// Whole numbers from -8 to 7, other ones in each matrix. A sum of up to 1024 products, each at most 64, is exact in
/// float in any order, so results are compared for equality.
std::vector<float> numbers(int n, unsigned matrix) {
  std::vector<float> m(size_t(n) * n);
  unsigned x = 12345 + matrix;
  for (float& value : m) value = float((x = x * 1664525u + 1013904223u) >> 28) - 8;
  return m;
}

/// What is right: step by step along rows of B and C, so that a host walks through neighbours whatever n.
std::vector<float> reference(int n, const std::vector<float>& a, const std::vector<float>& b) {
  std::vector<float> c(a.size(), 0.0f);
  for (int i = 0; i < n; ++i)
    for (int k = 0; k < n; ++k)
      for (int j = 0; j < n; ++j) c[in_a(n, i, j)] += a[in_a(n, i, k)] * b[in_b(n, k, j)];
  return c;
}

/// The text's thread on one core: `rows` rows of C, the innermost loop along k. `in` is in_b, or in_transposed for a
/// transposed B.
template <size_t (*in)(int, int, int)>
void host_multiply(int n, int rows, const std::vector<float>& a, const std::vector<float>& b, std::vector<float>& c) {
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < n; ++j) {
      float sum = 0;
      for (int k = 0; k < n; ++k) sum += a[in_a(n, i, k)] * b[in(n, k, j)];
      c[in_a(n, i, j)] = sum;
    }
}

std::vector<float> transposed(int n, const std::vector<float>& b) {
  std::vector<float> bt(b.size());
  for (int k = 0; k < n; ++k)
    for (int j = 0; j < n; ++j) bt[in_transposed(n, k, j)] = b[in_b(n, k, j)];
  return bt;
}

// ---- launches and predictions ---------------------------------------------------------------------------------------

enum Way { direct, cured, cured_counted, by_warps, by_warps_cured };
constexpr Way ways[] = {direct, cured, cured_counted, by_warps, by_warps_cured};
constexpr const char* way_names[] = {"a thread an element: A x B", "a thread an element: A x B^T",
                                     "a thread an element: B transposed first", "a warp an element: A x B",
                                     "a warp an element: A x B^T"};

/// Words of B that the lanes of a warp want at once; n is at least 32.
Warp load_of_b(Way way, int n) {
  return warp_of(4, [&](int lane) {
    if (way == direct) return in_b(n, 0, lane);
    if (way == by_warps) return in_b(n, lane, 0);
    return way == by_warps_cured ? in_transposed(n, lane, 0) : in_transposed(n, 0, lane);
  });
}
Warp load_of_a(Way way, int n) {
  return warp_of(4, [&](unsigned lane) { return in_a(n, 0, way >= by_warps ? int(lane) : 0); });
}
/// The mean of both loads, which are equally many.
double sectors_a_load(Way way, int n) { return 0.5 * (sectors(load_of_a(way, n)) + sectors(load_of_b(way, n))); }

std::string lanes_text(const Warp& warp) {
  const auto word = [&](int lane) { return std::to_string(warp.address[lane] / 4); };
  return word(0) + ", " + word(1) + ", " + word(2) + " .. " + word(31);
}

/// The matrices on the host, with what is right.
struct Host {
  int n;
  std::vector<float> a, b, bt, c;
  explicit Host(int n) : n(n), a(numbers(n, 1)), b(numbers(n, 2)), bt(transposed(n, b)), c(reference(n, a, b)) {}
};

struct Matrices {
  const Host& host;
  const int n = host.n;
  DeviceBuffer<float> a{host.a}, b{host.b}, bt{host.bt}, c{host.c.size()};

  void launch(Way way) {
    if (way == direct) multiply<<<n, n>>>(n, a.data(), b.data(), c.data());
    if (way == by_warps) multiply_by_warps<<<n, 32 * warps>>>(n, a.data(), b.data(), c.data());
    if (way == cured_counted) transpose<<<n, n>>>(n, b.data(), bt.data());
    if (way == cured || way == cured_counted) multiply_transposed<<<n, n>>>(n, a.data(), bt.data(), c.data());
    if (way == by_warps_cured) multiply_by_warps_transposed<<<n, 32 * warps>>>(n, a.data(), bt.data(), c.data());
    CUDA_CHECK_LAUNCH();
  }
  bool transpose_is_right() {
    bt.poison();
    transpose<<<n, n>>>(n, b.data(), bt.data());
    CUDA_CHECK_LAUNCH();
    return bt.to_host() == host.bt;
  }
  bool right(Way way) {
    bt.copy_from(host.bt);
    if (way == cured_counted) bt.poison();  // transposed by the launch itself
    c.poison();
    launch(way);
    return c.to_host() == host.c;
  }
};

const Claim transposing_helps{"03.8", "multiplying by the transposed B is 30% faster", "guide", "30%"};

/// How many times as fast one core is with the transposed B; it makes the rows of 2^21 products, some milliseconds.
double on_the_host(const Run& run, const Host& host, Table& table) {
  const int n = host.n, rows = std::max(1, (1 << 21) / (n * n));
  Statistics ms[2];
  for (const bool cure : {false, true}) {
    std::vector<float> out(host.c.size(), NAN);
    const auto work = [&] {
      if (cure) host_multiply<in_transposed>(n, rows, host.a, host.bt, out);
      if (!cure) host_multiply<in_b>(n, rows, host.a, host.b, out);
    };
    work();
    require_right(std::equal(out.begin(), out.begin() + size_t(rows) * n, host.c.begin()),
                  "host, n " + std::to_string(n));
    ms[cure] = time_host(run.measuring, work);
    const Statistics products = rate(1e-6 * rows * n * n, ms[cure]);
    const std::string gain = times(ms[0].median / ms[cure].median);
    table.row({cure ? "host: A x B^T" : "host: A x B", "n", std::to_string(n)},
              {Cell(), ms[cure], spread_text(ms[cure]), products, gain});
  }
  return ms[0].median / ms[1].median;
}

}  // namespace

void matmul(const Run& run) {
  const int largest = run.quick ? 512 : 1024;
  run.report.begin("matmul", "float matrices n x n, at most " + bytes_text(4.0 * largest * largest) +
                                 " each: n blocks of n threads; the host makes some rows");
  Table model(
      run.report, "what a warp wants of B, n 1024",
      {shown("words of lanes 0, 1, 2 .. 31"), shown("next step"),
       predicted("sectors/request", "sectors a request of B", "", 0), shown("transactions on 1.0"), shown("on 1.2")});
  for (const Way way : {direct, cured, by_warps, by_warps_cured}) {
    const Warp w = load_of_b(way, 1024);
    const auto count_text = [&](Rule rule) { return std::to_string(under(rule, w).count()); };
    const char* steps[] = {"+ 1024", "+ 1", "", "+ 32768", "+ 32"};
    model.row({way_names[way]},
              {lanes_text(w), steps[way], double(sectors(w)), count_text(Rule::in_order), count_text(Rule::any_order)});
  }
  model.print();

  Table table(
      run.report, "multiplication, n",
      {predicted("sectors/request (A and B)", "sectors a load request", "", 1), measured("median ms", "time", "ms", 4),
       shown("spread"), measured("products a ns", "products", "a nanosecond", 1), shown("to A x B")});
  Statistics ms[5];
  double host_gain = 0;
  for (int n = 256; n <= largest; n *= 2) {
    const Host host(n);
    std::optional<Matrices> m;
    if (run.device) m.emplace(Matrices{host});
    for (const Way way : ways) {
      const Key key{way_names[way], "n", std::to_string(n)};
      std::vector<Cell> cells(5);
      if (way != cured_counted) cells[0] = sectors_a_load(way, n);
      if (run.device) {
        require_right(m->right(way), key.name + ", n " + key.at);
        Measuring measuring = run.measuring;
        measuring.budget_ms = 50;  // the slow ones take 10 ms
        ms[way] = time_device(measuring, [&] { m->launch(way); });
        cells[1] = ms[way], cells[2] = spread_text(ms[way]), cells[3] = rate(1e-6 * n * n * n, ms[way]);
        cells[4] = times(ms[way >= by_warps ? by_warps : direct].median / ms[way].median);
      }
      table.row(key, cells);
    }
    host_gain = on_the_host(run, host, table);
  }
  table.print();
  if (!run.device) return run.report.left_out("the times on a GPU", {transposing_helps});

  const auto gain = [&](Way base, Way way) { return times(ms[base].median / ms[way].median); };
  Judgement judged = judge_ratio(ms[direct], ms[cured], 1.3);
  judged.here = gain(direct, cured) + " as fast at n " + std::to_string(largest) + ", " + gain(direct, cured_counted) +
                " with the transposition counted; but a warp an element " + gain(by_warps, by_warps_cured) +
                ", one core of the host " + times(host_gain);
  run.report.claim(transposing_helps, judged);
}

// ---- self-checks ----------------------------------------------------------------------------------------------------

namespace {

std::vector<CountedLaunch> counted_launches() {
  constexpr int n = 256;
  std::vector<CountedLaunch> all;
  const char* kernels[] = {"multiply", "multiply_transposed", "", "multiply_by_warps", "multiply_by_warps_transposed"};
  for (const Way way : {direct, cured, by_warps, by_warps_cured})
    all.push_back({kernels[way], "n 256", sectors_a_load(way, n), way >= by_warps ? 1.0 : 4.0,
                   [=] { return Matrices{Host(n)}.right(way); }});
  all.push_back({"transpose", "n 256", 32, 4, [=] { return Matrices{Host(n)}.transpose_is_right(); }});
  return all;
}

}  // namespace

TEST_CASE("matmul: what a warp wants of B") {
  const int of_a[] = {1, 1, 1, 4, 4}, of_b[] = {4, 32, 32, 32, 4};  // sectors, by Way
  for (const int n : {256, 512, 1024})
    for (const Way way : ways) {
      CHECK(sectors(load_of_a(way, n)) == of_a[way]);
      CHECK(sectors(load_of_b(way, n)) == of_b[way]);
    }
}

TEST_CASE("matmul: the host's loops agree with sums in whole numbers") {
  for (const int n : {1, 2, 31, 100}) {
    CAPTURE(n);
    const Host host(n);
    std::vector<float> c(host.c.size(), NAN), ct = c;
    host_multiply<in_b>(n, n, host.a, host.b, c);
    host_multiply<in_transposed>(n, n, host.a, host.bt, ct);
    CHECK(c == host.c);
    CHECK(ct == host.c);
    long long wrong = 0;
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < n; ++j) {
        long long sum = 0;
        for (int k = 0; k < n; ++k) sum += (long long)host.a[in_a(n, i, k)] * (long long)host.b[in_b(n, k, j)];
        wrong += sum != (long long)host.c[in_a(n, i, j)];
      }
    CHECK(wrong == 0);
  }
}

TEST_CASE("matmul: all kernels are right at awkward sizes") {
  if (skip_without_gpu()) return;
  for (const int n : {1, 31, 33, 97, 257, 1000}) {
    CAPTURE(n);
    Host host(n);
    Matrices m{host};
    for (const Way way : ways) {
      CAPTURE(way_names[way]);
      CHECK(m.right(way));
    }
    CHECK(m.transpose_is_right());
    host.c.back() += 1;  // and the check itself can fail
    CHECK_FALSE(m.right(direct));
  }
}

TEST_CASE("matmul: profile launches") {
  if (skip_without_gpu()) return;
  launch_counted(counted_launches());
}

TEST_CASE("matmul: counted sectors equal the model") { compare_with_counters(counted_launches()); }
