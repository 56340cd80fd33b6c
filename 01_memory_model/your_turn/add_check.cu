// Checks add.cu: both kernels, many times over, as what races may be right by chance; then with one
// warp held up, so that no chance is left; and what the second one was compiled to.
#include <cstdint>

#include "../../framework/common/your_turn_gpu.hpp"
#include "add.hpp"
#include "compile.hpp"

namespace {

using your_turn::NotYet;

constexpr unsigned threads = 64, rounds = 50;

using Kernel = void (*)(unsigned*, const unsigned*);

std::vector<unsigned> amounts_of(unsigned round) {
  std::vector<unsigned> amounts(threads);
  for (unsigned i = 0; i < threads; ++i)
    amounts[i] = round == 0 ? 2 : your_turn::number_at(threads * round + i);
  return amounts;
}

/// `amount` has the same on the device.
void require_sum(const std::string& what, Kernel kernel, unsigned round,
                 const std::vector<unsigned>& amounts, const unsigned* amount) {
  unsigned expected = your_turn::number_at(1000 + round);
  const your_turn::Guarded value(std::vector<unsigned>{expected});
  for (const unsigned each : amounts) expected += each;
  your_turn::run_kernel(what, [&] { kernel<<<1, threads>>>(value.data(), amount); });
  const unsigned found = value.to_host()[0];
  if (found != expected)
    throw NotYet(what + ": expected " + std::to_string(expected) + ", found " +
                 std::to_string(found));
  value.require_untouched_around(what);
}

std::string named(const char* name, unsigned round) {
  return std::string(name) + ", launch " + std::to_string(round);
}

void require_right(const char* name, Kernel kernel) {
  for (unsigned round = 0; round < rounds; ++round) {
    const std::vector<unsigned> amounts = amounts_of(round);
    const your_turn::Guarded amount(amounts);
    require_sum(named(name, round), kernel, round, amounts, amount.data());
    amount.require_untouched_around(named(name, round));
  }
}

/// Brings the page to the device.
__global__ void touch(volatile unsigned* words) { words[threadIdx.x] = words[threadIdx.x]; }

/// 64 amounts in managed memory, on two sides of a border of 2 MiB, across which the driver moves
/// no page with another: one warp's are on the device, the other's on the host. The warp that loads
/// these waits for a page fault, some 20 us, in which the first one ends whatever needs no barrier.
class HeldUp {
 public:
  HeldUp(const std::vector<unsigned>& amounts, bool second_warp) {
    constexpr size_t border = size_t(2) << 20;
    CUDA_CHECK(cudaMallocManaged(&memory_, 2 * border));
    const auto begin = reinterpret_cast<std::uintptr_t>(memory_);
    const size_t to_border = (begin + border) / border * border - begin;
    data_ = memory_ + to_border / sizeof(unsigned) - threads / 2;
    for (unsigned i = 0; i < threads; ++i) data_[i] = amounts[i];
    touch<<<1, threads / 2>>>(data_ + (second_warp ? 0 : threads / 2));
    CUDA_CHECK_LAUNCH();
    CUDA_CHECK(cudaDeviceSynchronize());
  }
  HeldUp(const HeldUp&) = delete;
  HeldUp& operator=(const HeldUp&) = delete;
  ~HeldUp() { cudaFree(memory_); }
  const unsigned* data() const { return data_; }

 private:
  unsigned *memory_ = nullptr, *data_ = nullptr;
};

void require_no_race(const char* name, Kernel kernel) {
  int device = 0, on_demand = 0;
  CUDA_CHECK(cudaGetDevice(&device));
  CUDA_CHECK(cudaDeviceGetAttribute(&on_demand, cudaDevAttrConcurrentManagedAccess, device));
  if (!on_demand) return;  // pages do not move while a kernel runs: nothing holds a warp up
  for (unsigned round = rounds; round < rounds + 4; ++round) {
    const bool second = round % 2 == 0;
    const std::vector<unsigned> amounts = amounts_of(round);
    const HeldUp amount(amounts, second);
    require_sum(
        named(name, round) + ", in which the " + (second ? "second" : "first") + " warp is held up",
        kernel, round, amounts, amount.data());
  }
}

/// The first atomic instruction of the kernel's PTX; empty: it has none.
std::string atomic_of(const Add& yours) {
  const std::string ptx = compiled(yours.file, "-ptx -o \"$out\"");
  size_t begin = ptx.find(".entry ");
  while (begin != std::string::npos) {
    const size_t next = ptx.find(".entry ", begin + 1);
    const std::string kernel = ptx.substr(begin, next - begin);
    if (kernel.substr(0, kernel.find('(')).find(yours.name) != std::string::npos) {
      for (const char* instruction : {"\tatom.", "\tred."})
        if (const size_t at = kernel.find(instruction); at != std::string::npos)
          return kernel.substr(at + 1, kernel.find_first_of(" \t", at + 1) - at - 1);
      return "";
    }
    begin = next;
  }
  throw your_turn::Skipped("nvcc does not show what the kernel is compiled to");
}

}  // namespace

void check_add(const Add& yours, const Add&) {
  your_turn::require_gpu();
  require_right("with_an_atomic", yours.with_an_atomic);
  require_right("without_atomics", yours.without_atomics);
  require_no_race("with_an_atomic", yours.with_an_atomic);
  require_no_race("without_atomics", yours.without_atomics);
  your_turn::watch("compiling the kernels", 12);
  if (const std::string atomic = atomic_of(yours); !atomic.empty())
    throw NotYet("without_atomics: it has an atomic, " + atomic);
}
