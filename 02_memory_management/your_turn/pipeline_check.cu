// Checks pipeline.cu: every word at awkward sizes, then the time beside the solution's, of work
// that takes as long as a copy.
#include <algorithm>

#include "../../framework/common/your_turn_gpu.hpp"
#include "pipeline.hpp"

namespace {

unsigned turns = 1000;  // of each word

__host__ __device__ unsigned turned(unsigned word) { return word * 1664525u + 1013904223u; }

__global__ void change(unsigned* data, size_t words, unsigned turns) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i >= words) return;
  unsigned word = data[i];
  for (unsigned turn = 0; turn < turns; ++turn) word = turned(word);
  data[i] = word;
}

void work(unsigned* data, size_t words, cudaStream_t stream) {
  if (words > 0) change<<<unsigned((words + 255) / 256), 256, 0, stream>>>(data, words, turns);
}

/// What the work makes of word i: all turns of a word are one product and one sum.
class Changed {
 public:
  Changed() {
    for (unsigned turn = 0; turn < turns; ++turn) {
      factor_ *= 1664525u;
      added_ = turned(added_);
    }
  }
  unsigned at(size_t i) const { return your_turn::number_at(i) * factor_ + added_; }

 private:
  unsigned factor_ = 1, added_ = 0;
};

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
  const Changed changed;
  for (size_t i = 0; i < words; ++i) expected[i] = changed.at(i);
  your_turn::require_equal(what, std::vector<unsigned>(host.data(), host.data() + words), expected,
                           0x00c0ffee);
  device.require_untouched_around(what);
}

/// So many turns that the work takes as long as a copy there: of three equals, two pieces hide the
/// least.
void balance(const PinnedBuffer<unsigned>& host, const DeviceBuffer<unsigned>& device) {
  Event first, copied, worked;
  for (int round = 0; round < 2; ++round) {  // the first loads the code
    first.record();
    CUDA_CHECK(cudaMemcpyAsync(device.data(), host.data(), device.bytes(), cudaMemcpyHostToDevice));
    copied.record();
    work(device.data(), device.size(), nullptr);
    worked.record();
    worked.wait();
  }
  const double ratio = copied.ms_since(first) / worked.ms_since(copied);
  turns = unsigned(std::clamp(ratio * turns, 10.0, 100000.0));
}

void require_cheap(const Pipeline& yours, const Pipeline& solution, const Streams& streams) {
  constexpr size_t words = size_t(1) << 24;
  const std::string what = std::to_string(words) + " words";
  your_turn::watch(what, 6);
  const PinnedBuffer<unsigned> host(words);
  const DeviceBuffer<unsigned> device(words);
  balance(host, device);
  const auto run = [&](const Pipeline& p) {
    p.run(host.data(), device.data(), words, work, streams.handle);
    CUDA_CHECK(cudaDeviceSynchronize());
  };
  const Changed changed;
  const auto wrong = [&] {
    size_t count = 0;
    for (size_t i = 0; i < words; ++i) count += host[i] != changed.at(i);
    return count;
  };
  your_turn::require_near(
      what, [&] { run(yours); }, [&] { run(solution); }, {[&] { fill(host); }, wrong, {}}, true);
}

}  // namespace

void check_pipeline(const Pipeline& yours, const Pipeline& solution) {
  your_turn::require_gpu();
  const Streams streams;
  for (const size_t words : {1, 7, 8, 1012, 100003, 720720})  // the last: even for up to 16 chunks
    require_right(yours, streams, words);
  require_cheap(yours, solution, streams);
}
