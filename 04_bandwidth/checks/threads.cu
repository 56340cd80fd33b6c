// Self-checks of threads.cu, compiled in its place where BUILD_TESTING is on.
#include "../threads.cu"

#include "../../framework/common/checks/standard.hpp"

TEST_CASE("threads: requests and sectors of a row, by hand and by going through the words") {
  const auto row = [](unsigned threads) { return traffic_of_a_row(text_size.columns, threads); };
  CHECK(row(32).requests == 384);  // 12288 words by 32
  CHECK(row(32).sectors == 1536);  // 12288 words by 8, none twice
  CHECK(row(16).requests == 768);  // half warps
  CHECK(row(48).requests == 512);  // a whole warp and a half one, 256 times
  CHECK(row(8).sectors == 1536);   // multiples of 8 share no sector
  for (const unsigned columns : {1u, 31u, 1009u, 12288u})
    for (const unsigned threads : {1u, 7u, 16u, 33u, 192u, 193u, 1024u}) {
      std::set<std::pair<unsigned, unsigned>> requests;                      // step, warp
      std::set<std::pair<std::pair<unsigned, unsigned>, unsigned>> sectors;  // and sector
      for (unsigned col = 0; col < columns; ++col) {
        const std::pair<unsigned, unsigned> request{col / threads, col % threads / 32};
        requests.insert(request);
        sectors.insert({request, col / 8});
      }
      CHECK(traffic_of_a_row(columns, threads).requests == requests.size());
      CHECK(traffic_of_a_row(columns, threads).sectors == sectors.size());
    }
}

TEST_CASE("threads: rounds, loads in turn and their time, by hand") {
  CHECK(rounds(1024, 1056) == 1);
  CHECK(rounds(1024, 1024) == 1);
  CHECK(rounds(1024, 1023) == 2);
  CHECK(loads_in_turn(text_size, {1024, 256}, 1056) == 12 * 48);     // 12 rows of 48 steps
  CHECK(loads_in_turn(text_size, {1024, 272}, 924) == 2 * 12 * 46);  // the last 100 blocks wait
  CHECK(loads_in_turn(text_size, {1024, 1024}, 264) == 4 * 12 * 12);
  CHECK(loads_in_turn({7, 100}, {3, 33}, 2) == 2 * 3 * 4);
  CHECK(bytes_in_flight({1024, 256}, 924) == 924 * 1024);
  CHECK(bytes_in_flight({10, 256}, 924) == 10 * 1024);
  const Size size{1000, 1000};  // 4 MB
  CHECK(bytes_read(size) == 4e6);
  CHECK(predicted_ms(size, {10, 100}, 10, 0.001, 0) == doctest::Approx(1));    // 100 rows, 10 steps
  CHECK(predicted_ms(size, {10, 100}, 10, 0.001, 100) == doctest::Approx(1));  // bytes: 0.04 ms
  CHECK(predicted_ms(size, {10, 100}, 10, 0.001, 1) == doctest::Approx(4));
  CHECK(predicted_ms(size, {10, 100}, 5, 0.001, 100) == doctest::Approx(2));
}

TEST_CASE("threads: handing words to their takers gives the sums of the text's loops") {
  for (const Size size : {Size{1, 1}, Size{7, 31}, Size{31, 7}, Size{101, 257}})
    for (const Launch l : {Launch{1, 33}, Launch{5, 16}, Launch{200, 3}}) {
      std::vector<unsigned> sums(l.total(), 0);
      for (unsigned row = 0; row < size.rows; ++row)
        for (unsigned col = 0; col < size.columns; ++col)
          sums.at(taker(l, row, col)) += NumberAt::whole(size_t(row) * size.columns + col);
      CHECK(std::vector<float>(sums.begin(), sums.end()) == sums_by_host(size, l));
    }
}

TEST_CASE("threads: words are whole numbers from 1 to 256, and every thread's sum is exact") {
  unsigned most_found = 0;
  size_t alike = 0;
  for (size_t i = 0; i < 100000; ++i) {
    const unsigned word = NumberAt::whole(i);
    CHECK((word >= 1 && word <= 256));
    most_found = std::max(most_found, word);
    alike += word == NumberAt::whole(i + (1ull << 32));
  }
  CHECK(most_found == 256);
  CHECK(alike < 1000);  // the upper half of the index counts, too
  for (const unsigned t : swept(true))
    CHECK(256.0 * ceil_div(text_size.rows, blocks) * ceil_div(text_size.columns, t) < 1 << 24);
}

TEST_CASE("threads: what is compared: multiples, and their neighbours") {
  CHECK(swept(false).size() < 80);
  CHECK(swept(true).size() == 1009);
  CHECK(swept(false).count(calibrating) == 1);
  const auto beside = [](const std::vector<Beside>& pairs, unsigned step, unsigned no_more) {
    for (const Beside& pair : pairs) {
      CHECK(pair.other % step == 0);
      CHECK(pair.other % no_more != 0);
      CHECK(pair.count % 4 != 0);
      CHECK((pair.count + 1 == pair.other || pair.count - 1 == pair.other));
    }
  };
  beside(of_16, 16, 1024);
  beside(of_8, 8, 16);
  beside(of_4, 4, 8);
  for (const Beside& pair : of_32) {
    CHECK(pair.count % 32 == 16);
    CHECK(pair.other % 32 == 0);
    CHECK((pair.count + 16 == pair.other || pair.count - 16 == pair.other));
  }
}

TEST_CASE("threads: what decides each part") {
  const auto given = [](const char* part, const Function<double(const Ref&)>& ms) {
    std::vector<Given> rows;
    for (const unsigned t : swept(false)) {
      rows.push_back({row_of(t), ms(row_of(t))});
      rows.push_back({again(t), ms(again(t))});
    }
    unsigned fastest = named[0];
    for (const unsigned t : swept(false))
      if (ms(row_of(t)) < ms(row_of(fastest))) fastest = t;
    rows.push_back({best, double(fastest), "threads per block"});
    rows.push_back({best, ms(again(fastest))});
    return verdict_if(threads_experiment, part, rows);
  };
  const auto by_count = [&](const char* part, double (*ms)(unsigned)) {
    return given(part, [ms](const Ref& ref) { return ms(threads_of(ref)); });
  };
  const auto then = [](unsigned t) {  // as on the 8800 GTX; 256 threads are best
    if (t % 4 != 0) return 6.8;
    if (t % 8 != 0) return 6.0;
    if (t % 16 != 0) return 3.0;
    if (t < 32) return 3.5;
    if (t < 64) return 1.75;
    if (t < 192) return t % 32 ? 1.4 : 1.2;
    return t > 384 ? 1.5 : t == 256 ? 0.99 : t % 32 ? 1.2 : 1.0;
  };
  const auto alike = [](unsigned t) { return t == 256 ? 0.999 : 1.0; };
  for (const char* part :
       {"04.5b", "04.5c", "04.5d", "04.5e", "04.5f", "04.6a", "04.6b", "04.13a"}) {
    CAPTURE(std::string(part));
    CHECK(by_count(part, then) == "holds");
    CHECK(by_count(part, alike).find("holds") ==
          (std::string(part) == "04.6a" ? 0u : std::string::npos));
  }
  CHECK(by_count("04.5a", [](unsigned t) {
          return t % 16 ? 6.8 : t == 256 ? 0.99 : 1.0;
        }) == "holds");
  CHECK(by_count("04.5a", alike) == "no longer");
  CHECK(by_count("04.6a", [](unsigned t) { return t == 512 ? 0.5 : 1.0; }) == "no longer");
  // the best is what was best in the sweep, and counts as it was measured again
  CHECK(given("04.5b", [](const Ref& ref) {
          const bool first = ref.key == "sum_rows";
          if (threads_of(ref) == 16) return first ? 1.0 : 3.5;
          return threads_of(ref) == 512 && first ? 0.5 : 1.0;
        }) == "holds");
}

TEST_CASE("threads: each thread's sum is that of the text's loops") {
  if (skip_without_gpu()) return;
  for (const Size size : {Size{1, 1}, Size{7, 1009}, Size{1031, 257}, Size{3, 12288}})
    for (const unsigned t : {1u, 16u, 33u, 193u, 1024u}) {
      CAPTURE(size.rows);
      CAPTURE(t);
      const Launch l{blocks, t};
      const Shared array(RowArray(size, l.total()));
      CHECK(wrong_after(row_task(array, row_of(t), sum_rows, l, size.rows)) == 0);
      CHECK(array->out.to_host() == sums_by_host(size, l));
    }
}

TEST_CASE("threads: the check finds a word that another thread took") {
  if (skip_without_gpu()) return;
  const Launch l{7, 33};
  const Size size{101, 257};
  const Shared array(RowArray(size, l.total()));
  const Task task = row_task(array, row_of(33), sum_rows, l, size.rows);
  REQUIRE(wrong_after(task) == 0);
  std::vector<float> sums = array->out.to_host();
  sums[5] += 1;  // the total is what it was
  sums[6] -= 1;
  array->out.copy_from(sums);
  CHECK(task.check.wrong() == 2);
}

TEST_CASE("threads: more than 2^32 words" * doctest::test_suite("large")) {
  if (skip_without_gpu()) return;
  const Size size{349600, text_size.columns};
  if (bytes_read(size) > 0.9 * double(Device::free_bytes()))
    return skip_self_check("needs " + bytes_text(bytes_read(size)) + " of device memory");
  const Launch l{blocks, 1024};
  const Shared array(RowArray(size, l.total()));
  CHECK(wrong_after(row_task(array, row_of(1024), sum_rows, l, size.rows)) == 0);
}

EXPERIMENT_CHECKS(threads)
