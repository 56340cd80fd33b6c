// Self-checks of dictionary.cu, compiled in its place where BUILD_TESTING is on.
#include "../dictionary.cu"

#include <doctest/doctest.h>

#include "../../common/checks/plausible.hpp"

TEST_CASE("dictionary: positions tried and time, by hand") {
  const std::vector<unsigned> answer{0, 9, 5000, absent};
  CHECK(positions_tried(by_thread, 100, answer) == 1 + 10 + 100 + 100);
  CHECK(positions_tried(by_block, 10000, answer) == 4096 + 4096 + 8192 + 10000);
  CHECK(positions_tried(by_position, 100, answer) == 100);
  CHECK(effort(by_thread, 100, answer) == 100);
  CHECK(effort(by_thread, 10000, {0, 9}) == 10);
  CHECK(predicted_ms(by_thread, 400, 2, answer) == 8);
  CHECK(predicted_ms(by_position, 400, 2, answer) == 8);
  CHECK(predicted_ms(by_thread, 400, 2, {0, 9}) == 2);
  CHECK(predicted_ms(by_block, 16384, 1, answer) == 32768.0 / 16384);
}

TEST_CASE("dictionary: every layout is right") {
  if (skip_without_gpu()) return;
  for (const Text& text : awkward_texts())
    for (const size_t count : {1, 33, 1009}) {
      const Question q = question_of(text, count);
      Search search(text, Dictionary(q.words), q.answer);
      for (const int layout : {by_thread, by_block, by_position})
        for (const size_t n : {q.bytes(), q.bytes() / 3}) {
          CAPTURE(n);
          CAPTURE(std::string(layouts[layout].name));
          CHECK(wrong_after(task_of(layout, search, n)) == 0);
        }
      if (q.bytes() == 0) continue;
      ++search.answer.front();  // and the check itself can fail
      CHECK(wrong_after(task_of(by_thread, search, q.bytes())) == 1);
    }
}

TEST_CASE("dictionary: measured rows lie where its models predict them" *
          doctest::test_suite("plausible") * doctest::skip()) {
  const Options by_default;
  check_plausible([&](const Run& run) { dictionary(run, by_default); });
}
