// Self-checks of pitch.cu, compiled in its place where BUILD_TESTING is on.
#include "../pitch.cu"

#include "../../framework/common/checks/standard.hpp"

TEST_CASE("pitch: sectors of aligned and unaligned rows") {
  CHECK(sectors_of_row({512, 32, 100}, 4) == 4);
  CHECK(sectors_of_row({512, 32, 100}, 1) == 1);
  CHECK(sectors_of_row({33, 33, 100}, 4) ==
        (5 * 7 + 4 + 8) / 8.0);                  // one start in eight is aligned
  CHECK(sectors_of_row({1023, 1023, 100}, 4) ==  // 31 whole requests and one of 31 lanes
        (31 * (5 * 7 + 4) + 5 * 6 + 4 * 2) / 8.0);
}

TEST_CASE("pitch: predictions, by hand") {
  const Calibrated c{3, 1, 0.01};
  CHECK(ns_of_row({1, 1, 9}, 1, c) == doctest::Approx(3).epsilon(1e-4));          // a warp's time
  CHECK(ns_of_row({100, 100, 9}, 4, c) == doctest::Approx(std::hypot(4, 8)));     // 4 requests
  CHECK(ns_of_row({128, 100, 9}, 4, c) == doctest::Approx(std::hypot(4, 8.32)));  // 13 sectors
  CHECK(beside_bytes(5, 4) == doctest::Approx(3));
}

TEST_CASE("pitch: a pattern has its elements, and poison between rows and behind them") {
  const Pattern bytes{{4, 3, 2}, 1}, words{{3, 2, 2}, 4, 1};
  CHECK(bytes.bytes() == 12);
  CHECK(words.bytes() == 36);
  for (const size_t i : {3, 7, 8, 11}) CHECK(bytes(i) == poison);
  CHECK(bytes(5) == bytes.value(1, 1));
  CHECK(bytes(0) != bytes(1));
  CHECK(bytes(4) != bytes(0));  // the next row differs
  CHECK(words(16) == words.value(1, 1));
  CHECK(words(17) == 0);  // the rest of the word
  for (const size_t i : {8, 11, 20, 24, 35}) CHECK(words(i) == poison);
  size_t most = 0;
  for (size_t row = 0; row < 100; ++row)
    for (size_t x = 0; x < 300; ++x) most = std::max<size_t>(most, words.value(row, x));
  CHECK(most == 251);  // one more than the pattern's largest, and not the poison
}

TEST_CASE("pitch: narrow rows are fewer, and have the bytes that they move") {
  std::string printed;
  Report report("pitch", &printed);
  const Run run{report, nullptr, {}};
  const double all = 128.0 * mib;
  CHECK(expected_pitch(512) == 512);
  CHECK(expected_pitch(513) == 1024);
  CHECK(height_of(run, packed(1)) == size_t(17 * all / 512));
  CHECK(height_of(run, pitched(1)) == height_of(run, packed(1)));
  CHECK(height_of(run, packed(31)) == size_t(all / 31));
  CHECK(bytes_of(run, packed(100)) == 200.0 * std::floor(all / 100));
  CHECK(rows_of(run, pitched(100)).pitch == 128);  // words
  CHECK(rows_of(run, packed(31)).pitch == 31);
  CHECK(pitch_of(packed(31)) == 31);
}

TEST_CASE("pitch: what decides each part") {
  const auto verdict = [](const char* part, const std::vector<Given>& given) {
    return verdict_if(pitch_experiment, part, given);
  };
  const char* const holds = verdict_text(Verdict::holds);
  const char* const does_not_hold = verdict_text(Verdict::does_not_hold);
  const unsigned unaligned[] = {31,  33,   100,  127,  129,  132,  255,  257, 511,
                                513, 1000, 1025, 1028, 2049, 4092, 4095, 4097};
  std::vector<Given> given, most, few;
  for (const unsigned width : unaligned) {
    given.push_back({packed(width), 2});
    (given.size() % 4 ? most : few).push_back({packed(width), 2});
  }
  // narrower rows are too few to leave the L2 on other GPUs, and count where they do
  for (const unsigned width : {1, 3}) given.push_back({packed(width), 2});
  CHECK(verdict("02.7", given) == holds);
  CHECK(verdict("02.7", {}) == does_not_hold);
  CHECK(verdict("02.7", few) == does_not_hold);
  for (Given& each : given) each.ref.key = "add_one_pitched";
  CHECK(verdict("02.7", given) == does_not_hold);
  given.clear();
  for (const unsigned width : {128, 4096}) given.push_back({packed(width), 2});
  CHECK(verdict("02.7", given) == does_not_hold);  // these begin on sectors

  const auto multiple_of = [&](double bytes) {
    return verdict("02.12", {{"cuda_malloc_pitch", bytes, "granularity"}});
  };
  CHECK(multiple_of(256) == holds);
  CHECK(multiple_of(512) == holds);
  CHECK(multiple_of(128) == does_not_hold);
}

TEST_CASE("pitch: what lies between rows and behind them is left alone") {
  if (skip_without_gpu()) return;
  for (const unsigned height : {1, 7, 9, 1000})
    for (const unsigned width : {1, 3, 31, 129, 1025, 4097, 4, 100, 132, 4096})
      for (const size_t pitch : {size_t(width), Pitched(width).pitch}) {
        const Shared arrays(Arrays((height + 1) * pitch));
        const Task task = add_task(packed(width), arrays, pitch, height);
        CAPTURE(text(packed(width)));
        CAPTURE(pitch);
        CHECK(wrong_after(task) == 0);
        CUDA_CHECK(cudaMemset(arrays->out.data() + (height + 1) * pitch - 1, 0, 1));
        CHECK(task.check.wrong() == 1);
        const std::vector<Byte> in = arrays->in.to_host(), out = arrays->out.to_host();
        size_t wrong = 0;
        for (size_t row = 0; row < height; ++row)
          for (size_t x = 0; x < width; x += word_of(width))
            wrong += out[row * pitch + x] != in[row * pitch + x] + 1;
        CHECK(wrong == 0);
      }
}

TEST_CASE("pitch: cudaMemcpy2D there and back, and sectors begin with the rows") {
  if (skip_without_gpu()) return;
  constexpr size_t height = 7;
  for (const unsigned width : {1, 3, 31, 129, 1025, 4097}) {
    const Pitched rows(width);
    CHECK((reinterpret_cast<size_t>(rows.data) | rows.pitch) % 32 == 0);  // predictions rest on it
    for (const size_t pitch : {size_t(width), rows.pitch})
      for (const char* key : {"memcpy2d_to_device_pitched", "memcpy2d_to_host_pitched"}) {
        const Shared ends(
            Ends{PinnedBuffer<Byte>(width * height), DeviceBuffer<Byte>((height + 1) * pitch)});
        Task task = copy_task({key, double(width)}, ends, pitch, height);
        CHECK(wrong_after(task) == 0);
        task.launch = [] {};
        CHECK(wrong_after(task) == width * height);
      }
  }
}

EXPERIMENT_CHECKS(pitch)
