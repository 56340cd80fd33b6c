// The host's side: how much of its memory is free and how much a sample may pin, an owner of a
// registration, what the card's link can carry, and whether a hypervisor stands in between.
#pragma once

#include <unistd.h>

#include <fstream>
#include <string>
#include <utility>

#include "../framework/common/machine_state.hpp"
#include "../framework/common/report.hpp"

/// Host memory that can be allocated now without swapping, in bytes: Linux's MemAvailable, or the
/// free pages where there is no such line.
inline size_t available_host_bytes() {
  std::ifstream meminfo("/proc/meminfo");
  for (std::string line; std::getline(meminfo, line);)
    if (line.rfind("MemAvailable:", 0) == 0) return std::stoull(line.substr(13)) * 1024;
  return size_t(sysconf(_SC_AVPHYS_PAGES)) * size_t(sysconf(_SC_PAGESIZE));
}

/// Bytes that a sample pins at most: what is pinned is taken from everything else on the host, so a
/// quarter of what is free.
inline size_t pinned_budget() { return available_host_bytes() / 4; }
/// The same in a run: unlimited where nothing is pinned, on no GPU and on recorded and made-up
/// ones.
inline double pinnable_bytes(const Run& run) {
  return run.device && run.device->number >= 0 ? double(pinned_budget()) : INFINITY;
}

/// Page-locks existing host memory (cudaHostRegister) and unlocks it again. The memory must outlive
/// the registration.
class Registration {
 public:
  Registration(void* data, size_t bytes, unsigned flags = cudaHostRegisterDefault) : data_(data) {
    const cudaError_t code = cudaHostRegister(data, bytes, flags);
    if (code != cudaSuccess) cudaGetLastError();  // thrown here, not to be found by the next check
    check_cuda(code, "cudaHostRegister", __FILE__, __LINE__);
  }
  Registration(Registration&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  Registration& operator=(Registration&&) = delete;
  ~Registration() {
    if (data_) cudaHostUnregister(data_);
  }

 private:
  void* data_;
};

/// Whether host memory is page-locked now.
inline bool is_pinned(const void* data) {
  cudaPointerAttributes attributes{};
  CUDA_CHECK(cudaPointerGetAttributes(&attributes, data));
  return attributes.type == cudaMemoryTypeHost;
}

// ---- the link ----

/// Most that a PCIe link of so many gigatransfers a second and lanes carries each way in GB/s,
/// packet headers included: of the bits 8 of 10 are data up to 5 GT/s, 128 of 130 from 8 GT/s on;
/// at 64 GT/s 242 of 256 bytes.
inline double link_gbs(double gigatransfers, int lanes) {
  const double data = gigatransfers < 8 ? 8.0 / 10 : gigatransfers < 64 ? 128.0 / 130 : 242.0 / 256;
  return gigatransfers * lanes / 8 * data;
}

/// The same of a card's own link at its best (an idle one may be slower now). Not a number where
/// Linux does not tell (in WSL2 it knows no such card), where another link than PCIe joins host and
/// card, as in a Grace Hopper, or where there is none, as in a Jetson: what stands in the card's
/// place on the bus is then something else.
inline double link_gbs(const cudaDeviceProp& card) {
  if (card.pageableMemoryAccessUsesHostPageTables || card.integrated) return NAN;
  char folder[64];
  std::snprintf(folder, sizeof folder, "/sys/bus/pci/devices/%04x:%02x:%02x.0/",
                unsigned(card.pciDomainID), unsigned(card.pciBusID), unsigned(card.pciDeviceID));
  double gigatransfers = 0;
  int lanes = 0;
  std::ifstream(std::string(folder) + "max_link_speed") >> gigatransfers;  // "32.0 GT/s PCIe"
  std::ifstream(std::string(folder) + "max_link_width") >> lanes;          // "16"; 255: unknown
  const bool told = gigatransfers > 0 && lanes > 0 && lanes <= 32;
  return told ? link_gbs(gigatransfers, lanes) : NAN;
}

/// Bytes cannot arrive faster than the link carries them: what seems to was not waited for. Throws
/// WrongResult. (A hundredth is the clock's.)
inline void require_possible(const std::string& what, double gbs, double limit_gbs) {
  if (gbs > 1.01 * limit_gbs)
    throw WrongResult(what + ": " + fixed(gbs, 1) + " GB/s over a link that carries " +
                      fixed(limit_gbs, 1));
}

/// " (a virtual machine)" where a hypervisor says that there is one; else nothing.
inline std::string hypervisor_text() { return hypervisor().empty() ? "" : " (a virtual machine)"; }
