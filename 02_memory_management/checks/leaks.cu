// No experiment of the text, but a check of all of them: what an experiment takes, on the device
// and on the host, it gives back. It compares the GPU's free memory, and so runs alone.
#include <doctest/doctest.h>
#include <malloc.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "../../framework/common/experiment.hpp"

extern const samples::Experiment allocation_experiment;
extern const samples::Experiment transfer_experiment;
extern const samples::Experiment batching_experiment;
extern const samples::Experiment keep_on_device_experiment;
extern const samples::Experiment zero_copy_experiment;
extern const samples::Experiment pitch_experiment;
extern const samples::Experiment overlap_experiment;
extern const samples::Experiment peer_experiment;

namespace {

/// What is taken at a moment, in bytes.
struct Taken {
  size_t device_free;    ///< device memory that anyone could still take
  size_t heap;           ///< what malloc and new have handed out and not got back
  size_t address_space;  ///< everything mapped: pinned memory too, which is not on the heap

  static Taken now() {
    CUDA_CHECK(cudaDeviceSynchronize());
    const struct mallinfo2 heap = mallinfo2();
    size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;  // the first number: size of the address space
    return {Device::free_bytes(), heap.uordblks + heap.hblkhd,
            pages * size_t(sysconf(_SC_PAGESIZE))};
  }
};

}  // namespace

TEST_CASE("leaks: every experiment gives back what it took" * doctest::test_suite("large")) {
  if (skip_without_gpu()) return;
  const Device device = Device::current();
  mallopt(M_ARENA_MAX,
          1);  // or new threads would map 64 MiB each for what they allocate, and keep it
  const samples::Experiment* const experiments[] = {
      &allocation_experiment,     &transfer_experiment,  &batching_experiment,
      &keep_on_device_experiment, &zero_copy_experiment, &pitch_experiment,
      &overlap_experiment,        &peer_experiment,
  };
  for (const samples::Experiment* const experiment : experiments) {
    CAPTURE(std::string(experiment->name));
    const auto run_once = [&] {
      std::string nowhere;
      Report report("leaks", &nowhere);
      const Run run{
          .report = report, .device = &device, .measuring = {.repeats = 3}, .quick = true};
      samples::carry_out(*experiment, run, "");
    };
    run_once();  // loads the kernels, and grows what the driver and the C++ library keep for good
    run_once();
    malloc_trim(0);
    const Taken before = Taken::now();
    run_once();
    malloc_trim(0);
    const Taken after = Taken::now();
    CHECK(after.device_free >= before.device_free);
    // the smallest array of any experiment that is worth the name is larger than this
    constexpr size_t small_change = 64 << 10;
    CHECK(after.heap <= before.heap + small_change);
    // pinned memory is mapped in pieces of 2 MiB; one of them may be the driver's own
    CHECK(after.address_space <= before.address_space + (size_t(4) << 20));
  }
}
