// Checks pipeline.cu: every word at awkward sizes, then the time beside the solution's.
#include "../../common/your_turn_gpu.hpp"
#include "pipeline.hpp"

namespace {

constexpr unsigned turns = 1000;  // so that the work takes about as long as a copy

__host__ __device__ unsigned changed(unsigned word) {
  for (unsigned turn = 0; turn < turns; ++turn) word = word * 1664525u + 1013904223u;
  return word;
}

__global__ void change(unsigned* data, size_t words) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < words) data[i] = changed(data[i]);
}

void work(unsigned* data, size_t words, cudaStream_t stream) {
  if (words > 0) change<<<unsigned((words + 255) / 256), 256, 0, stream>>>(data, words);
}

struct Streams {
  Stream stream[stream_count];
  cudaStream_t handle[stream_count];
  Streams() {
    for (unsigned i = 0; i < stream_count; ++i) handle[i] = stream[i];
  }
};

void fill(const PinnedBuffer<unsigned>& host) {
  for (size_t i = 0; i < host.size(); ++i) host[i] = your_turn::number_at(i);
}

void require_right(const Pipeline& yours, const Streams& streams, size_t words) {
  const std::string what = std::to_string(words) + (words == 1 ? " word" : " words");
  const PinnedBuffer<unsigned> host(words);
  fill(host);
  const your_turn::Guarded device(words);
  your_turn::run_kernel(
      what, [&] { yours.run(host.data(), device.data(), words, work, streams.handle); },
      "a call is refused");
  std::vector<unsigned> expected(words);
  for (size_t i = 0; i < words; ++i) expected[i] = changed(your_turn::number_at(i));
  your_turn::require_equal(what, std::vector<unsigned>(host.data(), host.data() + words), expected,
                           0x00c0ffee);
  device.require_untouched_around(what);
}

void require_cheap(const Pipeline& yours, const Pipeline& solution, const Streams& streams) {
  constexpr size_t words = size_t(1) << 24;
  const std::string what = std::to_string(words) + " words";
  your_turn::watch(what, 6);
  const PinnedBuffer<unsigned> host(words);
  const DeviceBuffer<unsigned> device(words);
  const auto run = [&](const Pipeline& p) {
    p.run(host.data(), device.data(), words, work, streams.handle);
    CUDA_CHECK(cudaDeviceSynchronize());
  };
  // each word was right before, at other sizes: here one in 4096 is looked at
  const auto wrong = [&] {
    size_t count = 0;
    for (size_t i = 0; i < words; i += 4096) count += host[i] != changed(your_turn::number_at(i));
    return count;
  };
  your_turn::require_near(
      what, [&] { run(yours); }, [&] { run(solution); }, {[&] { fill(host); }, wrong, {}}, true);
}

}  // namespace

void check_pipeline(const Pipeline& yours, const Pipeline& solution) {
  your_turn::require_gpu();
  const Streams streams;
  for (const size_t words : {1, 7, 1012, 100003}) require_right(yours, streams, words);
  require_cheap(yours, solution, streams);
}
