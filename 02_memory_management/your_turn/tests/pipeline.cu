// Answers to pipeline that are wrong or dear, and what the check has to say of them; the last is as
// dear as may be.
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

// answer pipeline_last_word: not yet: 8 words: 1 of 8 words is wrong, the first at 7: expected
// [0-9]+, found [0-9]+
namespace last_word {

void run(unsigned* host, unsigned* device, size_t words, Work work, const cudaStream_t* streams) {
  const size_t each = words / 8 + 1;  // one too many where eight come out even, so
  const size_t end = words % 8 == 0 ? words - 1 : words;  // the end is drawn in: by one too many
  for (unsigned k = 0; k < 8; ++k) {
    const size_t first = std::min(k * each, end), count = std::min(each, end - first),
                 bytes = count * sizeof(unsigned);
    const cudaStream_t stream = streams[k % 4];
    cudaMemcpyAsync(device + first, host + first, bytes, cudaMemcpyHostToDevice, stream);
    work(device + first, count, stream);
    cudaMemcpyAsync(host + first, device + first, bytes, cudaMemcpyDeviceToHost, stream);
  }
}

YOUR_TURN_TEST(pipeline, last_word, Pipeline, {run});

}  // namespace last_word

// answer pipeline_two_pieces: right, but [0-9.]+x slower [(][0-9.]+ to [0-9.]+[)] than the solution
namespace two_pieces {

void run(unsigned* host, unsigned* device, size_t words, Work work, const cudaStream_t* streams) {
  const size_t half = words / 2;
  for (unsigned k = 0; k < 2; ++k) {
    const size_t first = k * half, count = k == 0 ? half : words - half,
                 bytes = count * sizeof(unsigned);
    cudaMemcpyAsync(device + first, host + first, bytes, cudaMemcpyHostToDevice, streams[k]);
    work(device + first, count, streams[k]);
    cudaMemcpyAsync(host + first, device + first, bytes, cudaMemcpyDeviceToHost, streams[k]);
  }
}

YOUR_TURN_TEST(pipeline, two_pieces, Pipeline, {run});

}  // namespace two_pieces

// answer pipeline_four_pieces: done
namespace four_pieces {

void run(unsigned* host, unsigned* device, size_t words, Work work, const cudaStream_t* streams) {
  const size_t quarter = words / 4;
  for (unsigned k = 0; k < 4; ++k) {
    const size_t first = k * quarter, count = k < 3 ? quarter : words - 3 * quarter,
                 bytes = count * sizeof(unsigned);
    cudaMemcpyAsync(device + first, host + first, bytes, cudaMemcpyHostToDevice, streams[k]);
    work(device + first, count, streams[k]);
    cudaMemcpyAsync(host + first, device + first, bytes, cudaMemcpyDeviceToHost, streams[k]);
  }
}

YOUR_TURN_TEST(pipeline, four_pieces, Pipeline, {run});

}  // namespace four_pieces

}  // namespace
