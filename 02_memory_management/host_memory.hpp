// The host's memory: how much of it is free, how much of that a sample may pin, and an owner of a registration.
#pragma once

#include <fstream>
#include <string>
#include <utility>

#include <unistd.h>

#include "../common/first_edition.hpp"

/// Host memory that can be allocated now without swapping, in bytes: Linux's MemAvailable, or the free pages where
/// there is no such line.
inline size_t available_host_bytes() {
  std::ifstream meminfo("/proc/meminfo");
  for (std::string line; std::getline(meminfo, line);)
    if (line.rfind("MemAvailable:", 0) == 0) return std::stoull(line.substr(13)) * 1024;
  return size_t(sysconf(_SC_AVPHYS_PAGES)) * size_t(sysconf(_SC_PAGESIZE));
}

/// Bytes that a sample pins at most: what is pinned is taken from everything else on the host, so a quarter of what is
/// free.
inline size_t pinned_budget() { return available_host_bytes() / 4; }

/// Page-locks existing host memory (cudaHostRegister) and unlocks it again. The memory must outlive the registration.
class Registration {
 public:
  Registration(void* data, size_t bytes, unsigned flags = cudaHostRegisterDefault) : data_(data) {
    CUDA_CHECK(cudaHostRegister(data, bytes, flags));
  }
  Registration(Registration&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  Registration& operator=(Registration&&) = delete;
  ~Registration() {
    if (data_) cudaHostUnregister(data_);
  }

 private:
  void* data_;
};
