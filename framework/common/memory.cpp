#include "memory.hpp"

#include <stdexcept>

// ---- device memory ----

namespace device_memory {

namespace {
bool pretended = false;
double pretended_bytes = 0;
}  // namespace

Pretence::Pretence() { pretended = true, pretended_bytes = 0; }
Pretence::~Pretence() { pretended = false; }
bool Pretence::stands() { return pretended; }
double Pretence::bytes() { return pretended_bytes; }

void* allocate(size_t bytes) {
  void* data = nullptr;
  if (pretended) {
    pretended_bytes += double(bytes);
    return data;
  }
  if (bytes) CUDA_CHECK(cudaMalloc(&data, bytes));
  return data;
}

void release(void* data) noexcept { cudaFree(data); }

void to_device(void* to, const void* from, size_t bytes) {
  if (bytes) CUDA_CHECK(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice));
}

void to_host(void* to, const void* from, size_t bytes) {
  if (bytes) CUDA_CHECK(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost));
}

void set(void* data, unsigned char value, size_t bytes) {
  if (!bytes) return;
  CUDA_CHECK(cudaMemset(data, value, bytes));
  // which returns before the device is done; a Stream does not wait for the default one, and what
  // it does next could come first
  CUDA_CHECK(cudaStreamSynchronize(nullptr));
}

void* allocate_pinned(size_t bytes, unsigned flags) {
  void* data = nullptr;
  if (bytes) CUDA_CHECK(cudaHostAlloc(&data, bytes, flags));
  return data;
}

void release_pinned(void* data) noexcept { cudaFreeHost(data); }

void refuse_length() {
  throw std::length_error("DeviceBuffer::copy_from: more elements than the buffer has");
}

}  // namespace device_memory

Event::Event(unsigned flags) { CUDA_CHECK(cudaEventCreateWithFlags(&event_, flags)); }

Event::~Event() {
  if (event_) cudaEventDestroy(event_);
}

void Event::record(cudaStream_t stream) const { CUDA_CHECK(cudaEventRecord(event_, stream)); }

void Event::wait() const { CUDA_CHECK(cudaEventSynchronize(event_)); }

double Event::ms_since(const Event& start) const {
  float ms = 0;
  CUDA_CHECK(cudaEventElapsedTime(&ms, start, event_));
  return ms;
}

Stream::Stream() { CUDA_CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }

Stream::~Stream() {
  if (stream_) cudaStreamDestroy(stream_);
}

void Stream::wait() const { CUDA_CHECK(cudaStreamSynchronize(stream_)); }
