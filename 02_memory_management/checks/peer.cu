// Self-checks of peer.cu, compiled in its place where BUILD_TESTING is on.
#include "../peer.cu"

#include <doctest/doctest.h>

#include "../../common/checks/plausible.hpp"

TEST_CASE("peer: the chain visits every link once") {
  const std::vector<unsigned> chain = whole_chain();
  std::vector<int> visits(links);
  unsigned at = 0;
  for (unsigned i = 0; i < links; ++i) {
    at = chain[at * line_words];
    ++visits[at];
  }
  CHECK(at == 0);
  CHECK(visits == std::vector<int>(links, 1));
}

TEST_CASE("peer: loads are the receiver's work, stores and copies the sender's") {
  CHECK(worker(loads, 3, 5) == 5);
  CHECK(worker(stores, 3, 5) == 3);
  CHECK(worker(engine, 3, 5) == 3);
}

TEST_CASE("peer: pairs go from the first GPU to all, or from each to each, and back") {
  CHECK(pairs_of(2, false).size() == 1 + 2);
  CHECK(pairs_of(8, false).size() == 1 + 14);
  CHECK(pairs_of(8, true).size() == 1 + 56);
  const std::vector<Pair> two = pairs_of(2, false);
  CHECK(pair_name(two[0]) == "GPU 0 to itself");
  CHECK(pair_name(two[1]) == "GPU 0 to 1");
  CHECK(pair_name(two[2]) == "GPU 1 to 0");
}

TEST_CASE("peer: the first pair of a rank predicts its kernels, and the pairs after it") {
  std::string printed;
  Report report("peer", &printed);
  const auto always = [](double ms) { return Readings{std::vector<double>(5, ms)}; };
  std::vector<Pair> pairs = pairs_of(2, false);
  for (Pair& pair : pairs) {
    const double ms = pair.rank < 0 ? 1 : pair.from == 0 ? 4 : 5;
    for (Readings& by : pair.by) by = always(ms);
    pair.by[loads] = always(2 * ms);
    pair.one_load = always(ms);
    pair.atomics = true;
  }
  show({report, nullptr, {}}, pairs, 400e6);
  // loads and stores of three rows, and the last pair's copy and load
  REQUIRE(report.predictions().size() == 8);
  for (const Prediction& p : report.predictions()) CHECK(p.model == Model::traffic);
  const auto ratio_of = [&](size_t i) {
    return report.predictions()[i].measured / report.predictions()[i].predicted;
  };
  CHECK(ratio_of(0) == doctest::Approx(0.5));  // loads of a GPU's own memory
  CHECK(ratio_of(1) == doctest::Approx(1));
  CHECK(ratio_of(2) == doctest::Approx(0.5));  // loads from GPU 0 to 1
  CHECK(ratio_of(4) == doctest::Approx(0.8));  // the copy from GPU 1 to 0
  CHECK(ratio_of(5) == doctest::Approx(0.4));
  CHECK(ratio_of(7) == doctest::Approx(1.25));  // one load
}

TEST_CASE("peer: kernels and checks are right on one GPU") {
  if (skip_without_gpu()) return;
  const int current = Device::current().number;
  for (const size_t n : {1, 31, 1009, 65537, (1 << 20) + 3}) {
    CAPTURE(n);
    std::vector<Gpu> gpus;
    gpus.push_back(make_gpu(current, n));
    Gpu& gpu = gpus[0];
    for (const Way way : {engine, loads, stores}) {
      const Task task = carrying(way, gpu, gpu);
      CHECK(wrong_after(task) == 0);
      Task idle = task;  // after a right transfer: what it left must be wrong now
      idle.launch = [] {};
      CHECK(wrong_after(idle) == n * sizeof(uint4));
    }
    CHECK(wrong_after(chasing(gpu, gpu)) == 0);
    Task idle = chasing(gpu, gpu);
    idle.launch = [] {};
    CHECK(wrong_after(idle) == 2);
    CHECK(one_address_space(gpus));
  }
}

TEST_CASE("peer: one wrong byte is found, and one behind the end") {
  if (skip_without_gpu()) return;
  constexpr size_t n = 1009;
  const Gpu gpu = make_gpu(Device::current().number, n);
  const Task task = carrying(stores, gpu, gpu);
  for (const size_t at : {size_t(0), n * sizeof(uint4) - 1, n * sizeof(uint4)}) {
    Task careless = task;
    careless.launch = [&] {
      task.launch();
      unsigned char byte = 0;
      device_memory::to_host(&byte, bytes_of(gpu.target) + at, 1);
      byte ^= 1;
      device_memory::to_device(bytes_of(gpu.target) + at, &byte, 1);
    };
    CHECK(wrong_after(careless) == 1);
  }
}

TEST_CASE("peer: copies and loads and stores are right at awkward sizes") {
  if (skip_without_gpu()) return;
  if (gpu_count() < 2) return skip_self_check("needs two GPUs");
  int before = -1;
  CUDA_CHECK(cudaGetDevice(&before));
  for (const size_t n : {1, 31, 1009, 65537, (1 << 20) + 3}) {
    CAPTURE(n);
    std::vector<Gpu> gpus;
    for (const int g : {0, 1}) gpus.push_back(make_gpu(g, n));
    for (const int sender : {0, 1}) {
      Gpu& from = gpus[sender];
      Gpu& to = gpus[1 - sender];
      const auto right = [&](Way way) {
        const On on(worker(way, from.number, to.number));
        return wrong_after(carrying(way, from, to)) == 0;
      };
      CHECK(right(engine));  // access off
      if (!accessible(0, 1) || !accessible(1, 0)) continue;
      const PeerAccess there(0, 1), back(1, 0);
      for (const Way way : {engine, loads, stores}) CHECK(right(way));
      const On on(to.number);
      CHECK(wrong_after(chasing(from, to)) == 0);
    }
    CHECK(one_address_space(gpus));
    int current = -1;
    CUDA_CHECK(cudaGetDevice(&current));
    CHECK(current == before);
  }
}

TEST_CASE("peer: measured rows lie where its models predict them" *
          doctest::test_suite("plausible") * doctest::skip()) {
  if (skip_without_gpu()) return;
  if (gpu_count() < 2) return skip_self_check("needs two GPUs");
  check_plausible([](const Run& run) { peer(run); });
}
