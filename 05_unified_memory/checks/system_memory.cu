// Self-checks of system_memory.cu, compiled in its place where BUILD_TESTING is on.
#include "../system_memory.cu"

#include <fstream>

#include "../../framework/common/checks/standard.hpp"

TEST_CASE("system_memory: each thread's sum, by hand") {
  constexpr size_t all = threads * blocks;
  const std::vector<unsigned> sums = right_sums(all + 2, true);
  CHECK(sums[0] == word(0) + word(all));
  CHECK(sums[1] == word(1) + word(all + 1));
  CHECK(sums[2] == word(2));
  CHECK(right_sums(1000, false) == std::vector<unsigned>(all, 0));
}

TEST_CASE("system_memory: a mapped file holds its words, and leaves no mapping") {
  const auto mappings = [] {
    std::ifstream maps("/proc/self/maps");
    size_t count = 0;
    for (std::string line; std::getline(maps, line);) count += line.find("words.") != line.npos;
    return count;
  };
  REQUIRE(mappings() == 0);
  {
    const MappedFile file(100003);
    CHECK(mappings() == 1);
    size_t wrong = 0;
    for (size_t i = 0; i < 100003; ++i) wrong += file.data()[i] != word(i);
    CHECK(wrong == 0);
    MappedFile first(10);
    const MappedFile second(std::move(first));
    CHECK(second.data()[9] == word(9));
    CHECK(mappings() == 2);
  }
  CHECK(mappings() == 0);
}

TEST_CASE("system_memory: memory of malloc is written, or zero") {
  const OfMalloc written(1009, true), untouched(1009, false);
  CHECK(written.data()[1008] == word(1008));
  CHECK(untouched.data()[1008] == 0);
}

TEST_CASE("system_memory: rows are what their names say, and absent where they cannot be") {
  const Abilities none{false, false, false, ""}, managed{true, true, false, ""},
      all{true, true, true, ""};
  for (const Source& source : sources) {
    const std::string key = source.key;
    CHECK((source.kind == Kind::malloc) == key.starts_with("malloc"));
    CHECK((source.kind == Kind::file) == key.starts_with("file"));
    CHECK(source.again == key.ends_with("again"));
    CHECK(source.written != key.ends_with("untouched"));
    CHECK_FALSE(missing(source, none).empty());
    CHECK(missing(source, managed).empty() == (source.kind == Kind::managed));
    CHECK(missing(source, all).empty());
  }
}

TEST_CASE("system_memory: a kernel reads memory of the host where the driver allows it") {
  if (skip_without_gpu()) return;
  if (!reads_pageable_memory())
    return skip_self_check("cudaDevAttrPageableMemoryAccess is 0: " + managed_memory_text());
  for (const Source& source : sources)
    for (const size_t n : {size_t(1), size_t(1009), size_t(1000003)}) {
      CAPTURE(std::string(source.words));
      CAPTURE(n);
      const Task task = task_of(source, n);
      task.enter();
      task.launch();
      if (task.check.wrong) CHECK(task.check.wrong() == 0);
      task.leave();
    }
}

EXPERIMENT_CHECKS_OF_FACTS(system_memory)
