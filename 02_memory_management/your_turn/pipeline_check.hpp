// What is checked of the pipeline. Included behind the answer.
#pragma once

#include <algorithm>

#include "../../common/arrays.cuh"
#include "../../common/exercise.hpp"

unsigned turns = 1000;  // of each word: how long the work takes

__global__ void change(unsigned* data, size_t words, unsigned turns) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i >= words) return;
  unsigned word = data[i];
  for (unsigned turn = 0; turn < turns; ++turn) word = word * 1664525u + 1013904223u;
  data[i] = word;
}

void work(unsigned* data, size_t words, cudaStream_t stream) {
  if (words > 0) change<<<unsigned((words + 255) / 256), 256, 0, stream>>>(data, words, turns);
}

using Answer = void (*)(unsigned* host, unsigned* device, size_t words, const cudaStream_t*);

/// Words of the host in pinned memory, as many on the device, and streams.
struct Memory {
  unsigned* host = nullptr;
  GuardedBuffer<unsigned> device;
  Stream streams[4];

  explicit Memory(size_t words) : device(words) {
    CUDA_CHECK(cudaMallocHost(&host, device.bytes()));
  }
  Memory(const Memory&) = delete;
  ~Memory() { cudaFreeHost(host); }

  void run_answer(Answer run) const {
    const cudaStream_t handles[] = {streams[0], streams[1], streams[2], streams[3]};
    run(host, device, device.size(), handles);
    CUDA_CHECK(cudaGetLastError());  // of a call in run
    CUDA_CHECK(cudaDeviceSynchronize());
  }
  void one_after_the_other() const {
    CUDA_CHECK(cudaMemcpyAsync(device, host, device.bytes(), cudaMemcpyHostToDevice));
    work(device, device.size(), nullptr);
    CUDA_CHECK(cudaMemcpyAsync(host, device, device.bytes(), cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaDeviceSynchronize());
  }
};

inline void check_words(Answer run) {
  for (const size_t words : {1, 7, 8, 1012, 100003, 720720, 1 << 24}) {
    CAPTURE(words);
    const Memory memory(words);
    const auto fill = [&] {
      for (size_t i = 0; i < words; ++i) memory.host[i] = hash(i);
      memory.device.poison();
    };
    fill();
    memory.one_after_the_other();
    const std::vector<unsigned> right(memory.host, memory.host + words);
    fill();
    memory.run_answer(run);
    std::string error =
        find_mismatch_on_host(memory.host, words, [&](size_t i) { return right[i]; });
    if (error.empty()) error = guard_error(memory.device);
    if (!error.empty()) FAIL(error);
  }
}

TEST_CASE("right: every word, at awkward sizes, and nothing behind the end") {
  if (!skip_without_gpu()) check_words(run);
}

inline void check_time(Answer run) {
  if (current_gpu().asyncEngineCount < 2) return skip("this GPU copies one way at a time");
  const Memory memory(size_t(1) << 24);
  const auto& device = memory.device;
  const auto copy = [&] {
    CUDA_CHECK(cudaMemcpyAsync(device, memory.host, device.bytes(), cudaMemcpyHostToDevice));
  };
  const Timings parts = Timer{.rounds = 2}.interleaved(
      {{.name = "copy", .work = copy},
       {.name = "work", .work = [&] { work(device, device.size(), nullptr); }}});
  // so that the work takes as long as a copy
  turns = std::max(1u, unsigned(turns * parts["copy"].median() / parts["work"].median()));

  const auto plain = [&] { memory.one_after_the_other(); };
  const auto yours = [&] { memory.run_answer(run); };
  const Timings timings =
      Timer{.rounds = 12}.interleaved({{.name = "plain", .work = plain, .on_host = true},
                                       {.name = "yours", .work = yours, .on_host = true}});
  const double times = timings["yours"].median() / timings["plain"].median();
  // if a copy takes 1: one after the other 3; 2 chunks 2, 4 chunks 1.5, 8 chunks 1.25; and a tenth
  // more, since the two directions slow each other
  if (times > 0.6)
    FAIL("it takes " << digits(times) << " times as long as one after the other; 0.6 will do");
}

TEST_CASE("cheap: 64 MiB take at most 0.6 times as long as one after the other") {
  if (!skip_without_gpu()) check_time(run);
}
