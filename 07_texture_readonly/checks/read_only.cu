// Self-checks of read_only.cu, compiled in its place where BUILD_TESTING is on.
#include "../read_only.cu"

#include "../../framework/common/checks/standard.hpp"

TEST_CASE("read_only: every order stays in bounds") {
  for (const size_t n : {1, 31, 257, 2047, 2049, 65537, 1000003})
    for (size_t i = 0; i < n; ++i) {
      const size_t block = i / block_words;
      if (nearby(i, n) / block_words != block || nearby(i, n) >= n) FAIL(n, ": nearby ", i);
      if (scattered(i, n) >= n) FAIL(n, ": scattered ", i);
      if (broadcast(i, n) != i / 32 || coalesced(i, n) != i) FAIL(n, ": ", i);
    }
  CHECK(scattered(0xffffffffu, size_t(1) << 32) < size_t(1) << 32);
}

TEST_CASE("read_only: sectors per request, by hand") {
  const size_t n = 1 << 20;
  CHECK(sectors_per_request(coalesced, n) == 4);
  CHECK(sectors_per_request(broadcast, n) == 1);
  // 32 words, each in one of 256 sectors by chance, lie in 256 (1 - (255/256)^32) = 30.12 of them
  CHECK(std::abs(sectors_per_request(nearby, n) - 30.12) < 0.2);
  CHECK(sectors_per_request(scattered, n) > 31.9);
}

TEST_CASE("read_only: each version launches the kernels of its name") {
  CHECK((versions[0].kernel[by_neighbours] == plain<coalesced>));
  CHECK((versions[0].kernel[by_warps] == plain<broadcast>));
  CHECK((versions[0].kernel[within_8_kib] == plain<nearby>));
  CHECK((versions[0].kernel[anywhere] == plain<scattered>));
  CHECK((versions[1].kernel[anywhere] == const_restrict<scattered>));
  CHECK((versions[2].kernel[anywhere] == ldg<scattered>));
  CHECK((versions[3].of_struct[anywhere] == in_struct<scattered>));
  CHECK((versions[4].kernel[anywhere] == ldcg<scattered>));
  CHECK((versions[5].kernel[anywhere] == no_allocate<scattered>));
  CHECK((versions[6].kernel[anywhere] == stored<scattered>));
  CHECK((versions[7].kernel[anywhere] == stored_restrict<scattered>));
  const char* const keys[] = {"plain", "const_restrict", "ldg",    "in_struct",
                              "ldcg",  "no_allocate",    "stored", "stored_restrict"};
  for (size_t i = 0; i < std::size(keys); ++i) CHECK(std::string(versions[i].key) == keys[i]);
  CHECK(std::size(versions) == std::size(keys));
  CHECK(all_readings().size() == 32);
}

TEST_CASE("read_only: which row another is predicted from") {
  const auto from = [](const char* key) {
    for (const Reading& r : all_readings())
      if (r.ref().key == key) return like(r).ref().key;
    return std::string("none");
  };
  CHECK(from("plain_scattered") == "plain_scattered");
  CHECK(from("ldg_scattered") == "plain_scattered");
  CHECK(from("ldg_nearby") == "plain_nearby");
  CHECK(from("ldcg_nearby") == "ldcg_nearby");  // the words come from L2 again
  CHECK(from("no_allocate_nearby") == "ldcg_nearby");
  CHECK(from("no_allocate_coalesced") == "plain_coalesced");  // nothing is wanted again
  CHECK(from("stored_restrict_broadcast") == "plain_broadcast");
  for (const Version& version : versions) {
    const std::string key = version.key;
    CHECK(version.line_stays == (key != "ldcg" && key != "no_allocate"));
    CHECK(version.waits == (key == "stored"));
  }
}

TEST_CASE("read_only: what decides 07.1") {
  const auto verdict = [](double plain_ms, double ldg_ms) {
    return verdict_if(read_only_experiment, "07.1",
                      {{"plain_scattered", plain_ms}, {"ldg_scattered", ldg_ms}});
  };
  CHECK(verdict(1.5, 1) == verdict_text(Verdict::holds));
  CHECK(verdict(1, 1.5) == verdict_text(Verdict::no_longer));  // Kepler is named
}

TEST_CASE("read_only: the loads of this very program") {
  if (compiled_loads.size() == 0)
    return skip_self_check("code for the debugger has its loops rolled up");
  for (const Version& version : versions) {
    CAPTURE(std::string(version.key));
    CHECK(compiled(version.key).loads == thread_words);
    const std::string instruction = compiled(version.key).instruction;
    const bool read_only = instruction.find(".nc") != std::string::npos;
    CHECK(compiled(version.key).read_only == (read_only ? int(thread_words) : 0));
  }
  for (const char* key : {"ldg", "const_restrict", "no_allocate", "stored_restrict"})
    CHECK(compiled(key).read_only == thread_words);
  for (const char* key : {"plain", "in_struct", "ldcg", "stored"})
    CHECK(compiled(key).read_only == 0);
  CHECK_THROWS_AS(compiled("none"), std::logic_error);
}

// From the text: 2048 words for each block, thread t of it reads t, t + 128, ...
TEST_CASE("read_only: each thread has the sum of its words") {
  if (skip_without_gpu()) return;
  for (const size_t n : {size_t(1), size_t(2049), size_t(100003)}) {
    const Shared sums{Sums(n)};
    for (const Reading& r : all_readings()) {
      CAPTURE(r.ref().key);
      CAPTURE(n);
      std::vector<float> right(sums->out.size(), 0);
      for (size_t block = 0; block < blocks_for(n); ++block)
        for (size_t word = 0; word < block_words && block * block_words + word < n; ++word)
          right[block * threads + word % threads] +=
              float(value_at(orders[r.order].place(block * block_words + word, n)));
      CHECK(wrong_after(read_task(sums, r)) == 0);
      CHECK(sums->out.to_host() == right);
    }
  }
}

TEST_CASE("read_only: the check finds another order's sums") {
  if (skip_without_gpu()) return;
  const Shared sums{Sums(2049)};
  const Task task = read_task(sums, {versions[0], anywhere});
  CHECK(wrong_after(task) == 0);
  CHECK(sums->wrong(by_neighbours) > 100);
}

EXPERIMENT_CHECKS(read_only)
