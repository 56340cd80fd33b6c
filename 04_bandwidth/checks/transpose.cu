// Self-checks of transpose.cu, compiled in its place where BUILD_TESTING is on.
#include "../transpose.cu"

#include <doctest/doctest.h>

#include "../../common/checks/counts.hpp"
#include "../../common/checks/made_up_devices.hpp"
#include "../../common/checks/plausible.hpp"

namespace {

const Shape awkward[] = {{1, 1},   {1009, 1}, {1, 1009},  {33, 31},   {64, 64},  {128, 64},
                         {63, 65}, {97, 193}, {131, 257}, {260, 516}, {4, 1020}, {769, 1021}};

/// Calls `see(blockIdx, threadIdx)` for every thread of a launch.
template <class See>
void for_each_thread(dim3 grid, dim3 block, const See& see) {
  for (unsigned by = 0; by < grid.y; ++by)
    for (unsigned bx = 0; bx < grid.x; ++bx)
      for (unsigned ty = 0; ty < block.y; ++ty)
        for (unsigned tx = 0; tx < block.x; ++tx) see(dim3(bx, by), dim3(tx, ty));
}

void check_all(Shape m, dim3 block) {
  Matrices x(m);
  for (const Kernel& k : kernels) {
    CAPTURE(std::string(k.name));
    CAPTURE(sides(m));
    const Task task = task_of(k, x, block);
    CHECK(wrong_after(task) == 0);
    CHECK(x.canaries_stand());
  }
}

std::vector<CountedLaunch> counted_launches() {
  std::vector<CountedLaunch> all;
  for (const Kernel& k : kernels) {
    const Traffic loads = predict(k, true, counted_shape, default_block);
    const Traffic stores = predict(k, false, counted_shape, default_block);
    all.push_back(
        {k.symbol,
         counted_parameter,
         {expected_requests(true, loads.requests), expected_sectors(true, loads.sectors),
          expected_requests(false, stores.requests), expected_sectors(false, stores.sectors)},
         [&k] {
           Matrices x(counted_shape);
           return wrong_after(task_of(k, x, default_block)) == 0;
         }});
  }
  return all;
}

}  // namespace

TEST_CASE("transpose: host loops and expected elements agree") {
  for (Shape m : awkward) {
    HostMatrices x(m);
    for (const bool by_rows : {true, false}) CHECK(wrong_after(x.task(by_rows)) == 0);
    x.out.assign(m.elements(), 0);
    CHECK(x.wrong() == m.elements());
  }
}

TEST_CASE("transpose: every kernel loads and stores every element once") {
  for (const Shape m : awkward) {
    if (m.elements() > 150000) continue;  // the host walks through every access of every thread
    for (const dim3 block : {dim3(32, 8), dim3(1, 32), dim3(7, 5)})
      for (const Kernel& kernel : kernels)
        for (const bool loads : {true, false}) {
          const Kernel& k = launched(kernel, m);
          const dim3 threads = threads_of(k, block);
          const size_t words = k.tile == wide ? 4 : 1;
          std::vector<int> touched(m.elements());
          size_t unaligned = 0;
          for_each_thread(grid_of(k, m, block), threads, [&](dim3 at, dim3 tid) {
            for (unsigned step = 0; step < 4; ++step) {
              const size_t first = word_of(k, {at, tid, threads, step}, loads, m);
              if (first == nowhere) continue;
              unaligned += first % words != 0;
              for (size_t w = 0; w < words; ++w) ++touched.at(first + w);
            }
          });
          CAPTURE(std::string(k.name));
          CHECK(unaligned == 0);
          CHECK(std::count(touched.begin(), touched.end(), 1) == long(touched.size()));
        }
  }
}

TEST_CASE(
    "transpose: the text's diagonal is ours on square grids, and leaves blocks out elsewhere") {
  const auto ours = [](unsigned x, unsigned y, dim3 grid) {  // as kernels 5 and 6 have it
    const unsigned block = y * grid.x + x;
    const unsigned block_y = block % grid.y;
    return (block / grid.y + block_y) % grid.x + size_t(block_y) * grid.x;
  };
  const auto text = [](unsigned x, unsigned y, dim3 grid) {
    return (x + y) % grid.x + size_t(x) * grid.x;
  };
  for (const dim3 grid : {dim3(1, 1), dim3(7, 7), dim3(64, 64), dim3(37, 11), dim3(64, 256)}) {
    std::vector<int> taken(grid.x * grid.y), texts(std::max(grid.x, grid.y) * grid.x);
    for (unsigned y = 0; y < grid.y; ++y)
      for (unsigned x = 0; x < grid.x; ++x) {
        ++taken.at(ours(x, y, grid));
        ++texts.at(text(x, y, grid));
        if (grid.x == grid.y) CHECK(ours(x, y, grid) == text(x, y, grid));
      }
    CHECK(std::count(taken.begin(), taken.end(), 1) == long(taken.size()));
    if (grid.y == 256)
      CHECK(4 * std::count_if(texts.begin(), texts.end(), [](int n) { return n > 0; }) ==
            long(taken.size()));  // 2048 x 2048 in 32 x 8: a quarter
  }
}

TEST_CASE("transpose: the exchanged quads have no bank conflicts") {
  // a quad takes 4 of 32 banks: eight lanes, served together, need 8 slots that differ modulo 8
  for (unsigned first = 0; first < wide_threads; first += 8)
    for (unsigned k = 0; k < 4; ++k) {
      unsigned written = 0, read = 0;
      for (unsigned tid = first; tid < first + 8; ++tid) {
        const unsigned across = tid % quads, down = tid / quads, x = quads * k + down;
        written |= 1u << ((4 * across + k) * quads + (down ^ across % 8)) % 8;
        read |= 1u << (x * quads + (across ^ x / 4 % 8)) % 8;
      }
      CHECK(written == 0xff);
      CHECK(read == 0xff);
    }
}

TEST_CASE("transpose: predicted bytes, sectors and lines, by hand") {
  const double load[] = {4, 32, 4, 32, 4, 32, 4, 4, 16, 16};
  const double store[] = {4, 32, 32, 4, 32, 4, 4, 4, 16, 16};
  for (size_t i = 0; i < std::size(kernels); ++i) {
    CAPTURE(std::string(kernels[i].name));
    const Traffic loads = predict(kernels[i], true, square(2048), default_block);
    const Traffic stores = predict(kernels[i], false, square(2048), default_block);
    CHECK(loads.sectors_a_request() == load[i]);
    CHECK(stores.sectors_a_request() == store[i]);
    CHECK((stores.full_sectors == stores.sectors) == (store[i] != 32));
    CHECK(bytes_moved({3, 5}) == 120);
    CHECK(loads.lines / loads.requests == (load[i] == 32 ? 32 : load[i] / 4));
  }
}

TEST_CASE("transpose: the claim compares row -> column with column -> row, in this order") {
  std::string printed;
  Report report("transpose", &printed);
  const Run run{report, nullptr, {}};
  const Readings fast{std::vector<double>(15, 1.0)};
  const Readings slow{std::vector<double>(15, 3.0)};
  judge_order(run, {slow, fast}, false);
  CHECK(printed.find("04.8   holds ") != std::string::npos);
  CHECK(printed.find("here 3.00x faster") != std::string::npos);
  printed.clear();
  judge_order(run, {fast, slow}, false);
  CHECK(printed.find("04.8   does not hold") != std::string::npos);
}

TEST_CASE("transpose: the findings say of the right pair which is slower") {
  std::string printed;
  Report report("transpose", &printed);
  const Run run{report, nullptr, {}};
  const auto all = [](double ms) { return Readings{std::vector<double>(15, ms)}; };
  report_best(run, square(64), {all(1), all(0.9), all(2), all(0.5), all(1.5)});
  for (const char* said :
       {"64 x 64: best reaches 90% (89 to 91%) of the copy engine's rate, tiles copied 180%",
        "by tensor copies it is 2.00x slower than best (1.98 to 2.02)",
        "best is 2.00x slower than tiles copied along rows (1.98 to 2.02)",
        "copied down columns, tiles are 3.00x slower than those along rows (2.97 to 3.03)"}) {
    CAPTURE(printed);
    CHECK(printed.find(said) != std::string::npos);
  }
  printed.clear();
  report_best(run, square(64), {});  // not measured: nothing is said
  CHECK(printed.empty());
}

TEST_CASE("transpose: matrices and launches of made-up GPUs") {
  check_on_made_up_devices([](const Run& run) {
    const double bytes = bytes_moved(square(side_of(run, 0)));
    const cudaDeviceProp& gpu = run.device->prop;
    constexpr size_t tile = sizeof(float4) * wide * quads;
    const size_t spare = spare_shared_bytes(gpu, tile, the_best.resident);
    CHECK(tile + spare <= gpu.sharedMemPerBlock);
    const size_t fit =
        gpu.sharedMemPerMultiprocessor / (tile + spare + gpu.reservedSharedMemPerBlock);
    if (gpu.major >= 8)
      CHECK(fit >= the_best.resident);  // a T4 has room for three, whatever is asked
    return Needs{bytes, bytes};
  });
}

TEST_CASE("transpose: a launch that its grid cannot hold is refused") {
  CHECK_NOTHROW(require_grid(square(65536), default_block));
  CHECK_NOTHROW(require_grid(square(65535), dim3(32, 1)));
  CHECK_THROWS_WITH_AS(require_grid(square(65536), dim3(32, 1)),
                       "transpose of 65536 x 65536 in blocks of 32 x 1 needs 65536 rows of blocks; "
                       "a grid holds at most 65535",
                       UsageError);
}

TEST_CASE("transpose: the model equals what was counted on an NVIDIA H200") {
  compare_with_recorded_counts(counted_launches(), results_file("nvidia-h200-counters.csv"));
}

TEST_CASE("transpose: counted requests and sectors of this GPU equal the model") {
  compare_with_counts_of_this_run(counted_launches());
}

TEST_CASE("transpose: counted passes through shared memory are near the model's") {
  if (!counted_in_this_run()) return skip_self_check("needs counts of this run");
  for (const Kernel& k : kernels) {
    const double requests = predict(k, true, counted_shape, default_block).requests;
    const double counted =
        count_of_this_run(k.symbol, counted_parameter, expected_wavefronts(true, 0).metric) +
        count_of_this_run(k.symbol, counted_parameter, expected_wavefronts(false, 0).metric);
    CAPTURE(std::string(k.name));
    CAPTURE(counted);
    CHECK(std::abs(counted - shared_wavefronts(k) * requests) <= 0.15 * counted);
  }
}

TEST_CASE("transpose: every kernel is right at awkward sizes and blocks") {
  if (skip_without_gpu()) return;
  for (Shape m : awkward) {
    for (dim3 block : {dim3(32, 8), dim3(8, 32), dim3(1, 32), dim3(33, 3)}) check_all(m, block);
    Matrices x(m);
    std::vector<Task> tasks;
    if (x.geam(tasks)) CHECK(wrong_after(tasks.back()) == 0);
    CHECK(wrong_after(x.copy_engine()) == 0);
  }
  check_all({300001, 4}, default_block);  // long and narrow, both ways
  check_all({4, 300000}, default_block);
}

TEST_CASE("transpose: the check finds what is wrong") {
  if (skip_without_gpu()) return;
  Matrices x({128, 68});
  const Task good = task_of(the_best, x, default_block);
  const auto wrong = [&](auto launch) { return wrong_after(Task{"", launch, x.check(true)}); };
  CHECK(wrong([] {}) == x.m.elements());  // poisoned, nothing written
  CHECK(wrong([&] { task_of(by_rows, x, default_block).launch(); }) > x.m.elements() / 2);
  CHECK(wrong([&] {
          good.launch();
          CUDA_CHECK(cudaMemsetAsync(x.out.data() + 77, 0, sizeof(float)));
        }) == 1);
  CHECK(x.canaries_stand());
  CUDA_CHECK(cudaMemset(x.out.data() + x.m.elements(), 0, sizeof(float)));  // one word too far
  CHECK_FALSE(x.canaries_stand());
}

TEST_CASE("transpose: profile launches" * doctest::test_suite("large")) {
  if (skip_without_gpu()) return;
  launch_counted(counted_launches());
}

TEST_CASE("transpose: more than 2^32 elements" * doctest::test_suite("large")) {
  if (skip_without_gpu()) return;
  const Shape m{65540, 65544};  // multiples of 4, for the quads, and of no tile
  if (bytes_moved(m) > 0.9 * double(Device::free_bytes()))
    return skip_self_check("needs " + bytes_text(bytes_moved(m)) + " of device memory");
  check_all(m, default_block);
}

TEST_CASE("transpose: measured rows lie where its models predict them" *
          doctest::test_suite("plausible") * doctest::skip()) {
  const Options by_default;
  check_plausible([&](const Run& run) { transpose(run, by_default); });
}
