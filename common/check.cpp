#include "check.hpp"

#include <filesystem>

CudaError::CudaError(cudaError_t code, const std::string& call, const char* file, int line)
    : std::runtime_error(call + ": " + cudaGetErrorName(code) + ", " + cudaGetErrorString(code) +
                         " (" + std::filesystem::path(file).filename().string() + ":" +
                         std::to_string(line) + ")"),
      code(code) {}

void check_cuda(cudaError_t code, const char* call, const char* file, int line) {
  if (code == cudaSuccess) return;
  cudaGetLastError();  // reported here, not once more by the next check
  throw CudaError(code, call, file, line);
}

int device_attribute(cudaDeviceAttr which) {
  int device = 0, value = 0;
  CUDA_CHECK(cudaGetDevice(&device));
  CUDA_CHECK(cudaDeviceGetAttribute(&value, which, device));
  return value;
}

std::string cuda_version(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string no_gpu_reason() {
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code == cudaSuccess && count > 0) return "";
  cudaGetLastError();
  if (code == cudaSuccess) return "no GPU is visible";
  int driver = 0;  // the CUDA version that it knows; 0: there is none
  const bool asked = cudaDriverGetVersion(&driver) == cudaSuccess;
  namespace fs = std::filesystem;
  if (asked && driver == 0) {
    std::error_code none;
    const bool in_a_container =
        fs::exists("/.dockerenv", none) || fs::exists("/run/.containerenv", none);
    return std::string("no NVIDIA driver is here") +
           (in_a_container ? "; a container gets it by docker run --gpus all" : "");
  }
  if (code == cudaErrorInsufficientDriver && asked && driver < CUDART_VERSION)
    return "the driver is too old: it knows CUDA " + cuda_version(driver) +
           ", and this program is of CUDA " + cuda_version(CUDART_VERSION);
  return std::string(cudaGetErrorName(code)) + ", " + cudaGetErrorString(code);
}
