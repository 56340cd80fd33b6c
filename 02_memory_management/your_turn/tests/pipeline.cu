// Answers to pipeline that are wrong or dear, and what the check has to say of them.
#include "pipeline.hpp"

#include <algorithm>

namespace {

// answer pipeline_one_stream: right, but [0-9.]+x slower [(][0-9.]+ to [0-9.]+[)] than the solution
namespace one_stream {

void run(unsigned* host, unsigned* device, size_t words, Work work, const cudaStream_t* streams) {
  const size_t each = (words + 7) / 8;
  for (unsigned k = 0; k < 8; ++k) {
    const size_t first = std::min(k * each, words), count = std::min(each, words - first),
                 bytes = count * sizeof(unsigned);
    const cudaStream_t stream = streams[0];
    cudaMemcpyAsync(device + first, host + first, bytes, cudaMemcpyHostToDevice, stream);
    work(device + first, count, stream);
    cudaMemcpyAsync(host + first, device + first, bytes, cudaMemcpyDeviceToHost, stream);
  }
}

YOUR_TURN_TEST(pipeline, one_stream, Pipeline, {run});

}  // namespace one_stream

// answer pipeline_rest: not yet: 1 word: 1 of 1 words is wrong, the first at 0: expected [0-9]+,
// found [0-9]+
namespace rest {

void run(unsigned* host, unsigned* device, size_t words, Work work, const cudaStream_t* streams) {
  const size_t each = words / 8;
  for (unsigned k = 0; k < 8; ++k) {
    const size_t first = k * each, count = each, bytes = count * sizeof(unsigned);
    const cudaStream_t stream = streams[k % 4];
    cudaMemcpyAsync(device + first, host + first, bytes, cudaMemcpyHostToDevice, stream);
    work(device + first, count, stream);
    cudaMemcpyAsync(host + first, device + first, bytes, cudaMemcpyDeviceToHost, stream);
  }
}

YOUR_TURN_TEST(pipeline, rest, Pipeline, {run});

}  // namespace rest

}  // namespace
