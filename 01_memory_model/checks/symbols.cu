// Self-checks of symbols.cu, compiled in its place where BUILD_TESTING is on.
#include "../symbols.cu"

#include "../../framework/common/checks/standard.hpp"

namespace {

// The address that the variable has on the device.
__global__ void device_address(float** address) { *address = &device_value; }

}  // namespace

TEST_CASE("symbols: what the references say") {
  CHECK(after_adding(3.25f, 2.0f, 0) == 3.25f);
  CHECK(after_adding(3.25f, 2.0f, 1) == 5.25f);
  CHECK(after_adding(3.25f, 0.25f, 1009 * 257) == 64831.5f);  // the largest sum of these cases
  CHECK(after_adding(1.0f, 2.0f, 64) == 129.0f);
  const Launch launch{3, 64, 5};
  CHECK(launch.in_thread() == 5);
  CHECK(launch.in_block() == 320);
  CHECK(launch.in_grid(1) == 960);
  CHECK(launch.in_grid(3) == 2880);
  CHECK(all_begin_anew({{320, 5}, {320, 5}}, launch));
  CHECK_FALSE(all_begin_anew({{320, 5}, {640, 5}}, launch));
  CHECK_FALSE(all_begin_anew({{320, 10}, {320, 5}}, launch));
  CHECK_FALSE(all_begin_anew({}, launch));
}

TEST_CASE("symbols: an array that was not changed, or too far, is not right") {
  std::vector<unsigned> array = written_array();
  CHECK(words_right(array, 0) == array_words);
  CHECK(words_right(array, array_words) == 0);  // 3 x + i is x for none of these words
  CHECK(words_right(array, 1000) == 24);
  array[1000] = 0;
  CHECK(words_right(array, 1000) == 23);
}

TEST_CASE("symbols: the part holds where the copy did not reach the variable") {
  const auto verdict = [](double value) {
    return verdict_if(symbols_experiment, "01.8", {{"copy_to_name", value, "device value"}});
  };
  CHECK(verdict(second) == verdict_text(Verdict::holds));
  CHECK(verdict(wrong) == verdict_text(Verdict::does_not_hold));
}

TEST_CASE("symbols: the symbol and its address lead to one variable") {
  if (skip_without_gpu()) return;
  for (const float value : {3.25f, -0.5f, 1e30f}) {
    write_symbol(value);
    float found = NAN;
    CUDA_CHECK(cudaMemcpy(&found, symbol_address(), sizeof found, cudaMemcpyDeviceToHost));
    CHECK(found == value);
    const float other = value * 0.25f;
    CUDA_CHECK(cudaMemcpy(symbol_address(), &other, sizeof other, cudaMemcpyHostToDevice));
    CHECK(read_symbol() == other);
  }
  DeviceBuffer<float*> seen(1);
  seen.poison();
  device_address<<<1, 1>>>(seen.data());
  CUDA_CHECK_LAUNCH();
  CHECK(seen.to_host()[0] == symbol_address());
  CHECK(const_cast<float*>(host_variable()) != symbol_address());
}

TEST_CASE("symbols: one thread or atomics add without a race") {
  if (skip_without_gpu()) return;
  for (const unsigned blocks : {1u, 3u, 1009u})
    for (const unsigned threads : {1u, 31u, 64u, 257u}) {
      CAPTURE(blocks);
      CAPTURE(threads);
      write_symbol(3.25f);
      add_by_one_thread<<<blocks, threads>>>(2.0f);
      CUDA_CHECK_LAUNCH();
      CHECK(read_symbol() == after_adding(3.25f, 2.0f, 1));
      write_symbol(3.25f);
      add_by_atomics<<<blocks, threads>>>(0.25f);
      CUDA_CHECK_LAUNCH();
      CHECK(read_symbol() == after_adding(3.25f, 0.25f, blocks * threads));
    }
}

TEST_CASE("symbols: the wrong copy leaves the device value alone") {
  if (skip_without_gpu()) return;
  const Device device = Device::current();
  for (const float value : {2.75f, -17.0f}) {
    write_symbol(value);
    const float host_before = *host_variable();
    const WrongCopy copy = copy_to_address_of_name(value + 1.0f);
    CHECK(cudaPeekAtLastError() == cudaSuccess);  // it was cleared
    CHECK(copy.on_device == value);
    if (device.prop.pageableMemoryAccess && copy.code == cudaSuccess) {
      // where the device reaches all host memory the copy may work: on the wrong variable
      CHECK(copy.on_host == value + 1.0f);
    } else {
      CHECK(copy.code == cudaErrorInvalidValue);
      CHECK(copy.on_host == host_before);
    }
  }
}

TEST_CASE("symbols: only the grid counter outlives a kernel") {
  if (skip_without_gpu()) return;
  for (const Launch& launch :
       {Launch{1, 1, 1}, Launch{3, 31, 2}, Launch{1009, 257, 3}, Launch{7, 1024, 5}}) {
    CAPTURE(launch.blocks);
    const unsigned none = 0;
    CUDA_CHECK(cudaMemcpyToSymbol(grid_count, &none, sizeof none));
    DeviceBuffer<Counts> counts(size_t(launch.blocks) * launch.threads);
    for (unsigned i = 1; i <= 3; ++i) {
      counts.poison();
      count_steps<<<launch.blocks, launch.threads>>>(counts.data(), launch.steps);
      CUDA_CHECK_LAUNCH();
      unsigned total = 0;
      CUDA_CHECK(cudaMemcpyFromSymbol(&total, grid_count, sizeof total));
      CHECK(total == launch.in_grid(i));
      CHECK(all_begin_anew(counts.to_host(), launch));
    }
  }
}

TEST_CASE("symbols: a static and a dynamic array are changed alike, and no word too many") {
  if (skip_without_gpu()) return;
  size_t bytes = 0;
  CUDA_CHECK(cudaGetSymbolSize(&bytes, static_array));
  CHECK(bytes == sizeof(unsigned) * array_words);
  for (const unsigned n : {0u, 1u, 31u, 257u, 1009u, array_words}) {
    CAPTURE(n);
    CHECK(words_right(changed_static(n), n) == array_words);
    CHECK(words_right(changed_dynamic(n), n) == array_words);
  }
}

EXPERIMENT_CHECKS_OF_FACTS(symbols)
