#include "check.hpp"

#include "memory.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

const char* base_name(const char* path) {
  const char* slash = std::strrchr(path, '/');
  return slash ? slash + 1 : path;
}

std::string failure_text(cudaError_t code, const std::string& call, const char* file, int line) {
  return call + " failed: " + cudaGetErrorName(code) + " (" + cudaGetErrorString(code) + ") at " +
         base_name(file) + ":" + std::to_string(line);
}

}  // namespace

CudaError::CudaError(cudaError_t code, const std::string& call, const char* file, int line)
    : std::runtime_error(failure_text(code, call, file, line)),
      code(code),
      call(call),
      file(file),
      line(line) {}

std::string CudaError::name() const { return cudaGetErrorName(code); }

void check_cuda(cudaError_t code, const char* call, const char* file, int line) {
  if (code == cudaSuccess) return;
  if (device_memory::Pretence::stands()) return;
  cudaGetLastError();  // a failure that is reported here must not be reported by the next check
  throw CudaError(code, call, file, line);
}

void require_right(bool right, const std::string& message) {
  if (!right) throw WrongResult("wrong result: " + message);
}

std::string cuda_version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string no_gpu_reason() {
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code == cudaSuccess && count > 0) return {};
  cudaGetLastError();
  if (code == cudaSuccess) return "no device is visible";
  int driver = 0;
  if (code == cudaErrorInsufficientDriver && cudaDriverGetVersion(&driver) == cudaSuccess) {
    if (driver == 0) return "there is no NVIDIA driver";
    return "the driver is for CUDA " + cuda_version_text(driver) + ", this program for " +
           cuda_version_text(CUDART_VERSION);
  }
  return std::string(cudaGetErrorName(code)) + ": " + cudaGetErrorString(code);
}

bool self_check_skipped = false;

void skip_self_check(const std::string& reason) {
  self_check_skipped = true;
  std::printf("skipped: %s\n", reason.c_str());
}

bool skip_without_gpu() {
  const std::string reason = no_gpu_reason();
  if (reason.empty()) return false;
  const char* required = std::getenv("SAMPLES_REQUIRE_GPU");
  if (required && std::string(required) == "1")
    throw std::runtime_error("a GPU is required: " + reason);
  skip_self_check("no usable GPU (" + reason + ")");
  return true;
}
