// Self-checks of dictionary.cu, compiled in its place where BUILD_TESTING is on.
#include "../dictionary.cu"

#include "../../framework/common/checks/standard.hpp"
#include "dictionary_texts.hpp"

namespace {

const Kernel& kernel(const char* key) { return *with_key(kernels, key); }

}  // namespace

TEST_CASE("dictionary: positions tried and time, by hand") {
  const Kernel &by_thread = kernel("thread_per_word"), &by_block = kernel("block_per_word"),
               &by_position = kernel("thread_per_position");
  const std::vector<unsigned> answer{0, 9, 5000, absent};
  CHECK(positions_tried(by_thread, 100, answer) == 1 + 10 + 100 + 100);
  CHECK(positions_tried(by_block, 10000, answer) == 4096 + 4096 + 8192 + 10000);
  CHECK(positions_tried(by_position, 100, answer) == 100);
  CHECK(effort(by_thread, 100, answer) == 100);
  CHECK(effort(by_thread, 10000, {0, 9}) == 10);
  CHECK(effort(by_block, 10000, answer) == 4096 + 4096 + 8192 + 10000);
  CHECK(scaled_ms(by_thread, 2, 100, 400, answer) == 8);
  CHECK(scaled_ms(by_position, 2, 100, 400, answer) == 8);
  CHECK(scaled_ms(by_thread, 2, 100, 400, {0, 9}) == 2);
  CHECK(scaled_ms(by_block, 1, 4096, 16384, answer) == 32768.0 / 16384);
}

TEST_CASE("dictionary: blocks, by hand") {
  CHECK(kernel("thread_per_word").blocks(16384, 7) == 64);
  CHECK(kernel("block_per_word").blocks(16384, 7) == 16384);
  CHECK(kernel("thread_per_position").blocks(7, 257) == 2);
}

TEST_CASE("dictionary: every kernel is right in awkward texts") {
  if (skip_without_gpu()) return;
  for (const Text& text : awkward_texts())
    for (const size_t count : {1, 33, 1009}) {
      const Question q = question_of(text, count);
      const Shared search{Search(q)};
      for (const Kernel& k : kernels)
        for (const size_t n : {q.bytes(), q.bytes() / 3}) {
          CAPTURE(n);
          CAPTURE(std::string(k.key));
          const std::vector<unsigned> right = answer_within(q.answer, n);
          CHECK(wrong_after(task_of(search, k, n)) == 0);
          CHECK(search->first.to_host() == right);
        }
    }
}

EXPERIMENT_CHECKS(dictionary)
