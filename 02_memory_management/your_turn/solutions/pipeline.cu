// pipeline: words in pinned memory of the host are copied to the device, changed there by a kernel,
// and copied back to where they were. Done one after the other the three take the sum of their
// times. Cut the words into chunks, so that one chunk is copied there while another is worked on
// and a third is copied back:
//
//   cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, streams[s]);
//   work(device + first, words, streams[s]);
//   cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, streams[s]);
//
// There are four streams, streams[0] to streams[3]. You need not wait at the end. (Without a GPU,
// the exercise chunks asks for the borders alone.)
//
// Right: every word, for any number of words. Cheap: 64 MiB take at most 0.6 times as long as one
// after the other. The work takes as long as a copy.
//
// Difficulty 3 of 5, about 25 minutes. Needs a GPU.
//
//   cmake --build build/release --target your_pipeline
//   build/release/02_memory_management/your_pipeline
#include <algorithm>

/// Queues a kernel that changes `words` words of the device, from `data` on, into a stream.
void work(unsigned* data, size_t words, cudaStream_t stream);

// [your turn]

// Three engines can be at work at once, so at least three streams; eight chunks leave them idle for
// two eighths of a copy's time. More chunks would leave less, but each copy costs a few us to
// start. Copies and work of one chunk are in one stream, which keeps them in order.

/// Changes all words of `host`; `device` has room for as many.
void run(unsigned* host, unsigned* device, size_t words, const cudaStream_t* streams) {
  constexpr unsigned chunks = 8;
  const size_t each = (words + chunks - 1) / chunks;
  for (unsigned k = 0; k < chunks; ++k) {
    const size_t first = std::min(k * each, words), count = std::min(each, words - first);
    const size_t bytes = count * sizeof(unsigned);
    const cudaStream_t stream = streams[k % 4];
    cudaMemcpyAsync(device + first, host + first, bytes, cudaMemcpyHostToDevice, stream);
    work(device + first, count, stream);
    cudaMemcpyAsync(host + first, device + first, bytes, cudaMemcpyDeviceToHost, stream);
  }
}

// [/your turn]

#include "../pipeline_check.hpp"

/// The right chunks, in streams that are right or not.
template <int to, int working, int back>
void in_streams(unsigned* host, unsigned* device, size_t words, const cudaStream_t* streams) {
  constexpr unsigned chunks = 8;
  const size_t each = (words + chunks - 1) / chunks;
  for (unsigned k = 0; k < chunks; ++k) {
    const size_t first = std::min(k * each, words), bytes = 4 * std::min(each, words - first);
    unsigned* const at = device + first;
    cudaMemcpyAsync(at, host + first, bytes, cudaMemcpyHostToDevice, streams[to]);
    work(at, bytes / 4, streams[working]);
    cudaMemcpyAsync(host + first, at, bytes, cudaMemcpyDeviceToHost, streams[back]);
  }
}

WRONG_ANSWER("a stream per kind of work: nothing waits for what it needs") {
  if (skip_without_gpu()) FAIL("not run");
  check_words(in_streams<0, 1, 2>);
}
WRONG_ANSWER("all chunks in one stream") {
  if (skip_without_gpu()) FAIL("not run");
  if (current_gpu().asyncEngineCount < 2) FAIL("not seen: this GPU copies one way at a time");
  check_time(in_streams<0, 0, 0>);
}
