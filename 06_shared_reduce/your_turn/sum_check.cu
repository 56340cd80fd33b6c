// Checks sum.cu: the sum to the last bit at awkward sizes, then the time beside the solution's,
// then an array whose words, and whose 16 bytes, no 32 bits count.
#include "../../framework/common/your_turn_gpu.hpp"
#include "sum.hpp"

namespace {

constexpr unsigned threads = 256, blocks_each = 8;

/// Launches with so many blocks that all of them are resident.
struct Launch {
  unsigned blocks;

  Launch() {
    int device = 0, multiprocessors = 0;
    CUDA_CHECK(cudaGetDevice(&device));
    CUDA_CHECK(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device));
    blocks = unsigned(multiprocessors) * blocks_each;
  }
  void operator()(const Sum& work, unsigned* out, const unsigned* in, size_t n) const {
    cudaMemsetAsync(out, 0, sizeof *out);
    work.kernel<<<blocks, threads>>>(out, in, n);
  }
};

std::vector<unsigned> numbers(size_t n) {
  std::vector<unsigned> all(n);
  for (size_t i = 0; i < n; ++i) all[i] = your_turn::number_at(i);
  return all;
}

unsigned sum_of(const std::vector<unsigned>& words) {
  unsigned sum = 0;  // modulo 2^32, in any order
  for (const unsigned word : words) sum += word;
  return sum;
}

void require_right(const Launch& launch, const Sum& yours, size_t n) {
  const std::string what = "n = " + std::to_string(n);
  const std::vector<unsigned> words = numbers(n);
  const your_turn::Guarded in(words), out(1);
  out.fill(0xff);
  your_turn::run_kernel(what, [&] { launch(yours, out.data(), in.data(), n); });
  const unsigned expected = sum_of(words), found = out.to_host()[0];
  if (found != expected)
    throw your_turn::NotYet(what + ": the sum is wrong: expected " + std::to_string(expected) +
                            ", found " + std::to_string(found));
  out.require_untouched_around(what);
  in.require_untouched_around(what);
}

void require_cheap(const Launch& launch, const Sum& yours, const Sum& solution) {
  size_t free = 0, total = 0;
  CUDA_CHECK(cudaMemGetInfo(&free, &total));
  const size_t n = (free > size_t(1) << 30 ? size_t(1) << 26 : size_t(1) << 24) + 3;
  const std::string what = "n = " + std::to_string(n);
  your_turn::watch(what, 6);
  const std::vector<unsigned> words = numbers(n);
  const unsigned expected = sum_of(words);
  const DeviceBuffer<unsigned> in(words);
  DeviceBuffer<unsigned> out(1);
  const Check check{
      [&] { out.poison(); }, [&] { return size_t(out.to_host()[0] != expected); }, {}};
  your_turn::require_near(
      what, [&] { launch(yours, out.data(), in.data(), n); },
      [&] { launch(solution, out.data(), in.data(), n); }, check);
}

/// The last check, as what is dear would take minutes for it. The array is one of 32 MiB over and
/// over: any GPU has memory for it.
void require_right_beyond_32_bits(const Launch& launch, const Sum& yours) {
  constexpr size_t part = size_t(1) << 23, times = 2049, n = part * times - 1;
  static_assert(n / 4 > 0xffffffffu);
  const std::string what = "n = " + std::to_string(n);
  your_turn::watch(what, 6);
  const std::vector<unsigned> words = numbers(part);
  const your_turn::Guarded in(words, times), out(1);
  if (!in.data()) return;
  out.fill(0xff);
  your_turn::run_kernel(what, [&] { launch(yours, out.data(), in.data(), n); });
  const unsigned expected = unsigned(times) * sum_of(words) - words.back();
  const unsigned found = out.to_host()[0];
  if (found != expected)
    throw your_turn::NotYet(what + ": the sum is wrong: expected " + std::to_string(expected) +
                            ", found " + std::to_string(found));
}

}  // namespace

void check_sum(const Sum& yours, const Sum& solution) {
  your_turn::require_gpu();
  const Launch launch;
  for (const size_t n : {1, 2, 31, 33, 256, 1009, 1012, 1000003}) require_right(launch, yours, n);
  require_cheap(launch, yours, solution);
  require_right_beyond_32_bits(launch, yours);
}
