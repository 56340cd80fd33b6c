// Self-checks of objects.cu, compiled in its place where BUILD_TESTING is on.
#include "../objects.cu"

#include "../../framework/common/checks/made_up_devices.hpp"
#include "../../framework/common/checks/standard.hpp"

namespace {

const Reading& reading_of(const char* key) { return *with_key(readings, key); }

/// What every thread must find, by turns of reads, on the host: from threads to words.
std::vector<unsigned> sums_by_host(size_t words, const Reading& r, Grid grid) {
  std::vector<unsigned> sums;
  for (unsigned thread = 0; thread < grid.total(); ++thread) {
    unsigned sum = 0;
    for (size_t read = thread; read < words / r.wide; read += grid.total())
      for (unsigned k = 0; k < r.wide; ++k) sum += scrambled((read & r.mask) * r.wide + k);
    sums.push_back(sum);
  }
  return sums;
}

}  // namespace

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
  CHECK(predicted_ms(reading_of("add_loads"), 2, 3) == 2);
  CHECK(predicted_ms(reading_of("add_fetches"), 2, 3) == 3);
  CHECK(predicted_ms(reading_of("add_fetches"), 4, 3) == 4);
  CHECK(predicted_ms(reading_of("add_fetches4"), 2, 3) == 2);
  CHECK(predicted_ms(reading_of("add_fetches4"), 2, 12) == 3);
}

TEST_CASE("objects: each row reads as its key says") {
  for (const Reading& r : readings) {
    const std::string key = r.key;
    CAPTURE(key);
    CHECK(r.by_object == (key.find("fetches") != std::string::npos));
    CHECK(r.wide == (key.find("4") != std::string::npos ? 4 : 1));
    CHECK(r.mask == (key.find("_l1") != std::string::npos ? few_words : all_words));
  }
  for (const Walk& walk : walks) {
    const std::string key = walk.key;
    CAPTURE(key);
    CHECK(walk.by_object == (key.find("fetches") != std::string::npos));
    CHECK(&walk.shape == (key.find("_l1") != std::string::npos ? &in_l1 : &in_l2));
  }
  CHECK((few_words + 1) * 4 <= 16 << 10);  // the least L1 that a GPU has
}

TEST_CASE("objects: what decides 07.5a") {
  const auto verdict = [](double pointer_ms, double object_ms) {
    return verdict_if(objects_experiment, "07.5a",
                      {{"one_load", pointer_ms}, {"one_fetch", object_ms}});
  };
  CHECK(verdict(1, 1) == verdict_text(Verdict::holds));
  CHECK(verdict(1, 0.5) == verdict_text(Verdict::holds));
  CHECK(verdict(1, 1.5) == verdict_text(Verdict::does_not_hold));
}

TEST_CASE("objects: a fetch from L2 is predicted from the three other walks") {
  const Device device = made_up_devices().front();
  std::string printed;
  Report report("objects", &printed);
  MadeUpMachine machine(&device, [](const Ref& ref, const std::string&) {
    const std::pair<const char*, double> cycles[] = {{"walk_loads_l1", 40},
                                                     {"walk_fetches_l1", 88},
                                                     {"walk_loads_l2", 260},
                                                     {"walk_fetches_l2", 300}};
    for (const auto& [key, value] : cycles)
      if (ref.key == key) return value;
    return 1.0;
  });
  carry_out(objects_experiment, Run{report, &device, {}}, machine);
  bool found = false;
  for (const auto& p : report.predictions())
    found = found || (p.predicted == doctest::Approx(308) && p.measured == doctest::Approx(300));
  CHECK(found);
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
      ring.answers.change(shape.timed / 2);
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
  CHECK(ring.answers.to_host() == std::vector<unsigned>{30, 40});
}

TEST_CASE("objects: every thread's sum is right at awkward sizes and grids") {
  if (skip_without_gpu()) return;
  for (const size_t n : {4, 36, 4 * 257, 4 * 1009, 4 * 65537})
    for (const Grid grid : {Grid{1, 256}, Grid{7, 33}, Grid{300, 64}}) {
      const Shared words(Words(n, grid));
      for (const Reading& r : readings) {
        CAPTURE(r.key);
        CAPTURE(n);
        CAPTURE(grid.blocks);
        CHECK(wrong_after(read_task(words, r)) == 0);
        CHECK(words->sums.to_host() == sums_by_host(n, r, grid));
      }
    }
}

TEST_CASE("objects: the check finds a word left out and one taken twice") {
  if (skip_without_gpu()) return;
  const Grid grid{3, 96};
  const Shared words(Words(4 * 1009, grid));
  const Task task = read_task(words, reading_of("add_fetches"));
  task.check.poison();
  std::vector<unsigned> sums = sums_by_host(4 * 1009, reading_of("add_fetches"), grid);
  CUDA_CHECK(cudaMemcpy(words->sums.data(), sums.data(), sums.size() * sizeof(unsigned),
                        cudaMemcpyHostToDevice));
  CHECK(task.check.wrong() == 0);
  sums[5] += scrambled(1) - scrambled(2);
  CUDA_CHECK(cudaMemcpy(words->sums.data(), sums.data(), sums.size() * sizeof(unsigned),
                        cudaMemcpyHostToDevice));
  CHECK(task.check.wrong() == 1);
}

TEST_CASE("objects: each lane reads through another object") {
  if (skip_without_gpu()) return;
  constexpr unsigned count = 33, part = 128;  // words: 512 bytes, where a linear texture may begin
  const DeviceBuffer<unsigned> words = filled<unsigned>(count * part, WordAt{});
  std::vector<Texture> textures;
  std::vector<cudaTextureObject_t> table;
  for (unsigned t = 0; t < count; ++t) {
    textures.emplace_back(
        linear_resource(words.data() + t * part, cudaCreateChannelDesc<unsigned>(), part * 4));
    table.push_back(textures.back());
  }
  constexpr unsigned n = 1009;
  const DeviceBuffer<cudaTextureObject_t> on_device(table);
  Output<unsigned> out(n);
  out.poison();
  gather<<<4, 256>>>(out.data(), on_device.data(), count, n);
  CUDA_CHECK_LAUNCH();
  std::vector<unsigned> right;
  for (unsigned i = 0; i < n; ++i) right.push_back(scrambled(i % count * part + i / count));
  CHECK(out.to_host() == right);
}

EXPERIMENT_CHECKS(objects)
