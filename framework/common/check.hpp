// Error checks: checked calls, one exception type, and skips of self-checks.
#pragma once

#include <cuda_runtime.h>

#include <stdexcept>
#include <string>

/// A CUDA runtime call or a kernel launch that failed. `what()` is one line that names the call,
/// the place and the error.
class CudaError : public std::runtime_error {
 public:
  CudaError(cudaError_t code, const std::string& call, const char* file, int line);

  const cudaError_t code;
  const std::string call;
  const char* const file;
  const int line;
  /// As in "cudaErrorInvalidValue".
  std::string name() const;
};

/// A command line that cannot be carried out (exit code 2), such as a typed size that does not fit.
class UsageError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A kernel's output that differs from its reference (exit code 1). Thrown before anything of that
/// kernel is timed.
class WrongResult : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

void check_cuda(cudaError_t code, const char* call, const char* file, int line);

/// Makes a CUDA runtime call and throws CudaError if it fails.
#define CUDA_CHECK(call) check_cuda((call), #call, __FILE__, __LINE__)

/// Stands after `kernel<<<...>>>(...)`: throws CudaError if the launch was refused. What goes wrong
/// while the kernel runs shows at the next call that waits for it.
#define CUDA_CHECK_LAUNCH() check_cuda(cudaGetLastError(), "kernel launch", __FILE__, __LINE__)

/// Throws WrongResult with `message` unless `right`.
void require_right(bool right, const std::string& message);

/// Why no GPU can be used, or an empty string if one can. Any failure to count devices means
/// "none": without a driver the runtime answers cudaErrorInsufficientDriver, not cudaErrorNoDevice.
std::string no_gpu_reason();

/// "13.0" from 13000, as the runtime and the driver give their versions.
std::string cuda_version_text(int version);

/// The self-check that runs now was skipped; read and cleared by whoever runs the cases.
extern bool self_check_skipped;

/// Ends a self-check that lacks something: `if (!enough) return skip_self_check("needs 8 GiB");`.
/// Prints the reason. A case that skips asserts nothing, and a run in which every case skips exits
/// with 77.
void skip_self_check(const std::string& reason);

/// True if there is no GPU, in which case the self-check is skipped:
/// `if (skip_without_gpu()) return;`. Where SAMPLES_REQUIRE_GPU=1 is set a missing GPU throws
/// instead, and so fails the case.
bool skip_without_gpu();
