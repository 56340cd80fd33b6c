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

std::string no_gpu_reason() {
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code == cudaSuccess && count > 0) return "";
  cudaGetLastError();
  int driver = 0;  // the CUDA version that it knows; 0: there is none
  if (cudaDriverGetVersion(&driver) == cudaSuccess && driver == 0)
    return "no NVIDIA driver is here";
  return code == cudaSuccess ? "no GPU is visible" : cudaGetErrorString(code);
}
