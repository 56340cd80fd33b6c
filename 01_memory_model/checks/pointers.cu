// Self-checks of pointers.cu, compiled in its place where BUILD_TESTING is on.
#include "../pointers.cu"

#include "../../framework/common/checks/standard.hpp"

TEST_CASE("pointers: the words of no two places are alike") {
  const unsigned blocks = 257, threads = 31;
  std::set<int> seen;
  size_t expected = 0;
  for (Place place : {in_variable, in_allocation, in_pinned, in_shared, in_local, in_constant}) {
    for (unsigned i = 0; i < blocks * threads; ++i)
      seen.insert(word(place, i / threads, threads, i % threads));
    CHECK(seen.size() == (expected += words_at(place, blocks, threads)));
  }
}

TEST_CASE("pointers: spaces as text") {
  CHECK(spaces_text({0, 0, 1, 0, 0, 0}) == "global");
  CHECK(spaces_text({0, 0, 0, 1, 1, 1}) == "shared, local, constant");
  CHECK(spaces_text({0, 0, 0, 0, 0, 0}) == "none");
}

TEST_CASE("pointers: every thread reads its own word and finds its space") {
  if (skip_without_gpu()) return;
  for (unsigned blocks : {1u, 3u, 1009u})
    for (unsigned threads : {1u, 31u, 64u, 257u}) {
      const auto sights =
          look_and_check(blocks, threads);  // throws where a word or a space is another
      for (int i = 0; i < places; ++i) {
        CAPTURE(storages[i].name);
        CHECK(different(sights[i], &Sight::value) == double(words_at(Place(i), blocks, threads)));
      }
    }
}

TEST_CASE("pointers: an address lies in the window of its space") {
  if (skip_without_gpu()) return;
  const std::vector<unsigned long long> begin = windows();
  const auto sights = look_and_check(2, 32);
  const auto address = [&](Place place) { return sights[place][0].address; };
  const cudaDeviceProp p = Device::current().prop;
  CHECK(address(in_shared) - begin[in_shared] <
        p.sharedMemPerBlockOptin + p.reservedSharedMemPerBlock);
  CHECK(address(in_constant) - begin[in_constant] < p.totalConstMem);
  CHECK(address(in_local) >= begin[in_local]);  // no call says where that window ends
  CHECK(begin[in_shared] != begin[in_local]);
  void* variable = nullptr;
  CUDA_CHECK(cudaGetSymbolAddress(&variable, global_word));
  CHECK(address(in_variable) == reinterpret_cast<unsigned long long>(variable));
}

TEST_CASE("pointers: change alters every word") {
  // 3 x + i = x has one solution i, which no array here reaches: a kernel that does nothing gets no
  // word right
  size_t unchanged = 0;
  for (size_t i = 0; i < 1000003; ++i) unchanged += changed(i) == written(i);
  CHECK(unchanged == 0);
}

TEST_CASE("pointers: host and device change one pinned array by one pointer") {
  if (skip_without_gpu()) return;
  for (size_t n : {1, 31, 257, 1009, 65537, 1000003}) {
    CAPTURE(n);
    const PinnedBuffer<unsigned> pinned(n);
    const DeviceBuffer<unsigned> on_device(n);
    CHECK(words_right(pinned.data(), n, true) == n);
    CHECK(words_right(on_device.data(), n, false) == n);
    CHECK(attributes_of(pinned.data()).devicePointer == pinned.data());
  }
}

TEST_CASE("pointers: the runtime tells the kinds of memory apart") {
  if (skip_without_gpu()) return;
  const DeviceBuffer<int> on_device(3);
  const PinnedBuffer<int> pinned(3);
  const std::vector<int> plain(3);
  CHECK(attributes_of(on_device.data() + 1).type == cudaMemoryTypeDevice);
  CHECK(attributes_of(on_device.data()).devicePointer == on_device.data());
  CHECK(attributes_of(pinned.data()).type == cudaMemoryTypeHost);
  CHECK(attributes_of(pinned.data()).hostPointer == pinned.data());
  CHECK(attributes_of(plain.data()).type == cudaMemoryTypeUnregistered);
}

EXPERIMENT_CHECKS(pointers)
