// Self-checks of objects.cu, compiled in its place where BUILD_TESTING is on.
#include "../objects.cu"

#include <doctest/doctest.h>

#include "../../common/checks/made_up_devices.hpp"
#include "../../common/checks/plausible.hpp"

namespace {

/// What every thread must find, by turns of reads, on the host: from threads to words.
std::vector<unsigned> sums_by_host(size_t words, const Way& way, Grid grid) {
  std::vector<unsigned> sums;
  for (unsigned thread = 0; thread < grid.total(); ++thread) {
    unsigned sum = 0;
    for (size_t read = thread; read < words / way.wide; read += grid.total())
      for (unsigned k = 0; k < way.wide; ++k) sum += word_at((read & way.mask) * way.wide + k);
    sums.push_back(sum);
  }
  sums.resize(sums.size() + canaries, ~0u);
  return sums;
}

/// A GPU that there is not, for what is printed and judged.
Device made_up_device() {
  Device device;
  device.number = -1;
  return device;
}

Readings always(double ms) { return Readings{std::vector<double>(15, ms)}; }

Statistics exactly_cycles(double cycles) { return {cycles, cycles, cycles, 1}; }

}  // namespace

TEST_CASE("objects: words and copies fit made-up GPUs, beyond the L2") {
  check_on_made_up_devices([](const Run& run) {
    const size_t most = size_t(1) << 28;  // texels in a row of linear memory, by the guide
    const double n = double(words_that_fit(run, most)), side = double(side_that_fits(run));
    CHECK(n <= double(most));
    return Needs{std::max(4 * n, 4 * 4 * side * side), 4 * n};
  });
}

TEST_CASE("objects: a ring visits every slot once, and the walk through it by hand") {
  for (const RingShape& ring : {in_l1, in_l2, RingShape{8, 3, 0, 1}}) {
    unsigned word = next_of(ring, 0);
    unsigned count = 1;
    for (; word != 0 && count < ring.slots; word = next_of(ring, word)) ++count;
    CHECK(count == ring.slots);
    CHECK(word == 0);
    const std::vector<unsigned> words = words_of(ring);
    CHECK(words.size() == size_t(ring.slots) * ring.slot_words);
    CHECK(words[0] == 77 % ring.slots * ring.slot_words);
  }
  // slots 0, 5, 6, 3, 4 ...
  CHECK(answers_by_host({8, 10, 0, 4}) == std::vector<unsigned>{50, 60, 30, 40});
  CHECK(answers_by_host({8, 10, 2, 2}) == std::vector<unsigned>{30, 40});
}

TEST_CASE("objects: predictions by hand") {
  CHECK(predicted_fetch_from_l2(260, 40, 88) == 308);
  CHECK(predicted_ms(ways[loads4], 2, 3) == 2);
  CHECK(predicted_ms(ways[fetches4], 2, 3) == 3);
  CHECK(predicted_ms(ways[fetches4], 4, 3) == 4);
  CHECK(predicted_ms(ways[fetches16], 2, 3) == 2);
  CHECK(predicted_ms(ways[fetches16], 2, 12) == 3);
}

TEST_CASE("objects: what calibrates is neither predicted nor measured") {
  const Device device = made_up_device();
  std::string printed;
  Report report("objects", &printed);
  const Run run{report, &device, {}};
  show_reads(run, {always(4), always(2), always(2), always(5), always(2.5)}, 1e9);
  show_walks(run,
             {exactly_cycles(40), exactly_cycles(88), exactly_cycles(260), exactly_cycles(308)});
  const double expected[] = {2, 4, 2, 308};
  const double found[] = {2, 5, 2.5, 308};
  REQUIRE(report.predictions().size() == 4);
  for (int i = 0; i < 4; ++i) {
    CHECK(report.predictions()[i].predicted == doctest::Approx(expected[i]));
    CHECK(report.predictions()[i].measured == doctest::Approx(found[i]));
  }
}

TEST_CASE("objects: the claim compares launches, and nothing else") {
  const Device device = made_up_device();
  std::string printed;
  Report report("objects", &printed);
  const Run run{report, &device, {}};
  const auto verdict_is = [&](double pointer, double object, const char* line) {
    printed.clear();
    judge(run, {always(pointer), always(object)});
    return printed.find(line) != std::string::npos;
  };
  CHECK(verdict_is(1, 1, "07.5a  holds  "));
  CHECK(verdict_is(1, 1.2, "07.5a  holds  "));
  CHECK(verdict_is(1, 0.5, "07.5a  holds  "));
  CHECK(verdict_is(1, 1.25, "07.5a  too close"));
  CHECK(verdict_is(1, 1.5, "07.5a  does not hold"));
  CHECK(printed.find("1.50 (") != std::string::npos);
  CHECK(verdict_is(1, 1, "07.5b  not judged"));
}

TEST_CASE("objects: a launch with a pointer and one with an object read the same word") {
  if (skip_without_gpu()) return;
  OneRead one;
  for (const bool by_object : {false, true}) {
    const Task task = one.task(by_object);
    CHECK(wrong_after(task) == 0);
    task.check.poison();
    CHECK(task.check.wrong() == 1);
  }
}

TEST_CASE("objects: every answer of a walk is right, at awkward lengths") {
  if (skip_without_gpu()) return;
  for (const RingShape& shape : {in_l1, in_l2, RingShape{256, 1, 0, 1}, RingShape{256, 1, 3, 31},
                                 RingShape{64, 5, 100, 257}, RingShape{1024, 32, 1, 1009}}) {
    Ring ring(shape);
    for (const bool by_object : {false, true}) {
      CAPTURE(by_object);
      CAPTURE(shape.timed);
      const Task task = ring.task(by_object);
      CHECK(wrong_after(task) == 0);
      std::vector<unsigned> answers = ring.answers.to_host();
      answers[shape.timed / 2] ^= 4;
      ring.answers.copy_from(answers);
      CHECK(task.check.wrong() == 1);
      task.check.poison();
      CHECK(task.check.wrong() >= shape.timed);
    }
  }
}

TEST_CASE("objects: a walk goes on where the last one ended") {
  if (skip_without_gpu()) return;
  Ring ring({8, 10, 0, 2});
  const Task task = ring.task(true);
  CHECK(wrong_after(task) == 0);
  task.launch();  // 50 and 60 were first
  CUDA_CHECK_LAUNCH();
  std::vector<unsigned> answers = ring.answers.to_host();
  answers.resize(2);
  CHECK(answers == std::vector<unsigned>{30, 40});
}

TEST_CASE("objects: every thread's sum is right at awkward sizes and grids") {
  if (skip_without_gpu()) return;
  for (const size_t n : {4, 36, 4 * 257, 4 * 1009, 4 * 65537})
    for (const Grid grid : {Grid{1, 256}, Grid{7, 33}, Grid{300, 64}}) {
      Words words(n, grid);
      for (const Way& way : ways) {
        CAPTURE(std::string(way.name));
        CAPTURE(n);
        CAPTURE(grid.blocks);
        const Task task = words.task(way);
        task.check.poison();
        task.launch();
        CUDA_CHECK_LAUNCH();
        CHECK(words.sums.to_host() == sums_by_host(n, way, grid));
        CHECK(task.check.wrong() == 0);
        task.check.poison();
        CHECK(task.check.wrong() == grid.total());
      }
    }
}

TEST_CASE("objects: the check finds a word left out, one taken twice, and a store too far") {
  if (skip_without_gpu()) return;
  const Grid grid{3, 96};
  Words words(4 * 1009, grid);
  const Task task = words.task(ways[fetches4]);
  std::vector<unsigned> sums = sums_by_host(4 * 1009, ways[fetches4], grid);
  words.sums.copy_from(sums);
  CHECK(task.check.wrong() == 0);
  sums[5] += word_at(1) - word_at(2);
  words.sums.copy_from(sums);
  CHECK(task.check.wrong() == 1);
  sums[grid.total()] = 0;
  words.sums.copy_from(sums);
  CHECK(task.check.wrong() == 2);
}

TEST_CASE("objects: copies into plain memory and into an array are whole") {
  if (skip_without_gpu()) return;
  for (const size_t side : {1, 33, 100, 257}) {
    CAPTURE(side);
    Copies copies(side);
    for (const Task& task : {copies.plain_task(), copies.array_task()}) {
      CAPTURE(task.name);
      CHECK(wrong_after(task) == 0);
      task.check.poison();
      CHECK(task.check.wrong() == side * side);
    }
    copies.array_task().launch();
    const std::vector<unsigned> other{word_at(0) + 1};
    CUDA_CHECK(
        cudaMemcpy2DToArray(copies.array, 0, 0, other.data(), 4, 4, 1, cudaMemcpyHostToDevice));
    CHECK(copies.array_task().check.wrong() == 1);
  }
}

TEST_CASE("objects: each lane reads through another object") {
  if (skip_without_gpu()) return;
  constexpr unsigned count = 33, part = 128;  // words: 512 bytes, where a linear texture may begin
  const DeviceBuffer<unsigned> words = filled(count * part);
  std::vector<Texture> textures;
  std::vector<cudaTextureObject_t> table;
  for (unsigned t = 0; t < count; ++t) {
    textures.emplace_back(
        linear_resource(words.data() + t * part, cudaCreateChannelDesc<unsigned>(), part * 4));
    table.push_back(textures.back());
  }
  constexpr unsigned n = 1009;
  const DeviceBuffer<cudaTextureObject_t> on_device(table);
  DeviceBuffer<unsigned> out(n + canaries);
  out.poison();
  gather<<<4, 256>>>(out.data(), on_device.data(), count, n);
  CUDA_CHECK_LAUNCH();
  std::vector<unsigned> right;
  for (unsigned i = 0; i < n; ++i) right.push_back(word_at(i % count * part + i / count));
  right.resize(n + canaries, ~0u);
  CHECK(out.to_host() == right);
}

TEST_CASE("objects: measured rows lie where its models predict them" *
          doctest::test_suite("plausible") * doctest::skip()) {
  check_plausible([](const Run& run) { objects(run); });
}
