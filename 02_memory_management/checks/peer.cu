// Self-checks of peer.cu, compiled in its place where BUILD_TESTING is on.
#include "../peer.cu"

#include "../../framework/common/checks/standard.hpp"

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
  const Pair pair{3, 5};
  CHECK(pair.worker(loads) == 5);
  CHECK(pair.worker(stores) == 3);
  CHECK(pair.worker(engine) == 3);
  CHECK(pair.ref("loads").key == "loads_3_to_5");
  CHECK(pair.words() == "GPU 3 to 5");
  CHECK(Pair{}.words() == "GPU 0 to itself");
  for (const Named& named : ways) {
    CHECK((named.way == loads) == (Ref(named.key).key == "loads"));
    CHECK((named.way == stores) == (Ref(named.key).key == "stores"));
    CHECK(named.access == (Ref(named.key).key != "copy_off"));
  }
}

TEST_CASE("peer: pairs go from the first GPU to all, or from each to each, and back") {
  CHECK(pairs_of(1, false).size() == 1);
  CHECK(pairs_of(2, false).size() == 1 + 2);
  CHECK(pairs_of(8, false).size() == 1 + 14);
  CHECK(pairs_of(8, true).size() == 1 + 56);
  const std::vector<Pair> two = pairs_of(2, false);
  CHECK(two[1].ref("copy").key == "copy_0_to_1");
  CHECK(two[2].ref("copy").key == "copy_1_to_0");
}

TEST_CASE("peer: the first pair of a rank that can be reached gives the link's constants") {
  const std::vector<Joined> all{
      {}, {{0, 1}, 0, 1, false}, {{1, 0}, 0, 1, true}, {{0, 2}, 1, 0, true}, {{2, 0}, 0, 1, true}};
  const int first[] = {0, 2, 2, 3, 2};
  for (size_t i = 0; i < all.size(); ++i) CHECK(&first_of(all, all[i]) == &all[size_t(first[i])]);
  CHECK(all[0].model() == Model::traffic);
  CHECK(all[2].model() == Model::traffic);
  CHECK(all[3].model() == Model::host);  // a link without atomics
}

TEST_CASE("peer: replay of what two NVIDIA H200 gave") {
  check_replay(peer_experiment, results_file("nvidia-h200-x2.csv"));
}

TEST_CASE("peer: kernels and checks are right on one GPU, in one address space") {
  if (skip_without_gpu()) return;
  for (const size_t n : {1, 31, 1009}) {
    std::vector<Gpu> one;
    one.push_back(make_gpu(0, n));
    CHECK(one_address_space(one));
    const Shared gpus(std::move(one));
    for (const Named& named : ways) {
      const Task task = carry_task(named, {}, gpus);
      CHECK(wrong_after(task) == 0);
      const unsigned char behind = 0;  // the canaries
      device_memory::to_device(bytes_of((*gpus)[0].target) + 16 * n, &behind, 1);
      CHECK(task.check.wrong() == 1);
    }
  }
}

TEST_CASE("peer: copies and loads and stores are right at awkward sizes") {
  if (skip_without_gpu()) return;
  if (gpu_count() < 2) return skip_self_check("needs two GPUs");
  int before = -1;
  CUDA_CHECK(cudaGetDevice(&before));
  for (const size_t n : {1, 31, 1009, 65537, (1 << 20) + 3}) {
    CAPTURE(n);
    std::vector<Gpu> made;
    for (const int g : {0, 1}) made.push_back(make_gpu(g, n));
    CHECK(one_address_space(made));
    const Shared gpus(std::move(made));
    for (const Pair& pair : {Pair{0, 1}, Pair{1, 0}}) {
      for (const Named& named : ways)
        if (!named.access || accessible(0, 1))
          CHECK(wrong_after(carry_task(named, pair, gpus)) == 0);
      if (accessible(0, 1)) CHECK(wrong_after(chase_task(pair, gpus)) == 0);
    }
    int current = -1;
    CUDA_CHECK(cudaGetDevice(&current));
    CHECK(current == before);
  }
}

EXPERIMENT_CHECKS_OF_FACTS(peer)

TEST_CASE("peer: measured rows lie where its models predict them" *
          doctest::test_suite("plausible") * doctest::skip()) {
  if (skip_without_gpu()) return;
  int gpus = 0;
  CUDA_CHECK(cudaGetDeviceCount(&gpus));
  if (gpus < 2) return skip_self_check("needs two GPUs");  // one GPU's own copy has no model
  check_plausible(peer_experiment);
}
