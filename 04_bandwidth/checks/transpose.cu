// Self-checks of transpose.cu, compiled in its place where BUILD_TESTING is on.
#include "../transpose.cu"

#include "../../framework/common/checks/made_up_devices.hpp"
#include "../../framework/common/checks/standard.hpp"

namespace {

const Shape awkward[] = {{1, 1},   {1009, 1}, {1, 1009},  {33, 31},   {64, 64},  {128, 64},
                         {63, 65}, {97, 193}, {131, 257}, {260, 516}, {4, 1020}, {769, 1021}};

/// Every kernel of the text and of this file, and the canaries behind its output.
void check_all(Shape m, dim3 block) {
  const Shared x(Matrices{m});
  for (const Variant& v : variants) {
    if (!v.kernel) continue;
    CAPTURE(std::string(v.key));
    CAPTURE(sides(m));
    CHECK(wrong_after(task_of(x, v, block)) == 0);
  }
}

template <class See>
void for_each_thread(const Launch& launch, const See& see) {
  for (unsigned by = 0; by < launch.grid.y; ++by)
    for (unsigned bx = 0; bx < launch.grid.x; ++bx)
      for (unsigned ty = 0; ty < launch.block.y; ++ty)
        for (unsigned tx = 0; tx < launch.block.x; ++tx)
          for (unsigned step = 0; step < launch.steps; ++step)
            see(Thread{dim3(bx, by), dim3(tx, ty), launch.block, step});
}

}  // namespace

// The text's loops are the reference: what they leave is what the kernels are compared with.
TEST_CASE("transpose: the text's loops agree with what counts as right") {
  for (const Shape m : awkward)
    for (const char* key : {"host_rows", "host_columns"}) {
      const Shared x(HostMatrices{m});
      CHECK(wrong_after(host_task(x, key)) == 0);
      x->out.assign(m.elements(), 0);
      CHECK(x->wrong() == m.elements());
    }
}

TEST_CASE("transpose: no two rows do the same work") {
  for (const Variant& a : variants)
    for (const Variant& b : variants) {
      if (&a == &b) continue;
      CAPTURE(std::string(a.key));
      CHECK(a.key != b.key);
      CHECK((!a.kernel || a.kernel != b.kernel));
      CHECK((!a.task || a.task != b.task));
    }
}

TEST_CASE("transpose: every kernel loads and stores every element once") {
  for (const Shape m : awkward) {
    if (m.elements() > 150000) continue;  // the host walks through every access of every thread
    for (const dim3 block : {dim3(32, 8), dim3(1, 32), dim3(7, 5)})
      for (const Variant& wanted : variants)
        for (const bool loads : {true, false}) {
          if (!wanted.kernel) continue;
          const Variant& v = launched(wanted, m);
          const unsigned words = v.pattern->words;
          std::vector<int> touched(m.elements());
          size_t unaligned = 0;
          for_each_thread(launch_of(v, m, block), [&](const Thread& t) {
            const size_t first = word_of(v, t, loads, m);
            if (first == nowhere) return;
            unaligned += first % words != 0;
            for (size_t w = 0; w < words; ++w) ++touched.at(first + w);
          });
          CAPTURE(std::string(v.key));
          CHECK(unaligned == 0);
          CHECK(std::count(touched.begin(), touched.end(), 1) == long(touched.size()));
        }
  }
}

TEST_CASE(
    "transpose: the text's diagonal is ours on square grids, and leaves blocks out elsewhere") {
  const auto ours = [](unsigned x, unsigned y, dim3 grid) {  // as the two diagonal kernels have it
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

TEST_CASE("transpose: each word is read from the tile where it was written") {
  for (const Variant& v : variants) {
    if (!v.slot || v.pattern->words != 1) continue;  // quads are transposed in registers before
    const Pattern& p = *v.pattern;
    std::vector<int> held(2 * tile_side * tile_side, -1);  // by a slot: which word of the input
    for (const bool writes : {true, false})
      for (unsigned step = 0; step < p.steps; ++step)
        for (unsigned tid = 0; tid < p.threads.x * p.threads.y; ++tid) {
          const Thread t{{}, dim3(tid % p.threads.x, tid / p.threads.x), p.threads, step};
          const Place place = p.place(t, writes, v.order);
          const int word = int(place.iy * tile_side + place.ix);
          int& slot = held.at(v.slot(t, writes));
          CAPTURE(std::string(v.key));
          CHECK(slot == (writes ? -1 : word));
          slot = word;
        }
  }
}

namespace {

/// A kernel on paper: sectors per request, memory operations per 32 words, passes through shared
/// memory to write and to read 32 words (to a quad's 128: 4 times as many), and milliseconds if the
/// copy engine takes 1 ms, copy_rows 2 and copy_columns 8, and cycles are free.
struct ByHand {
  const char* key;
  double load, store, operations, written, read, ms;
};
const ByHand by_hand[] = {
    {"copy_rows", 4, 4, 2, 0, 0, 2},
    {"copy_columns", 32, 32, 2, 0, 0, 8},
    {"row_to_column", 4, 32, 2, 0, 0, 8},
    {"column_to_row", 32, 4, 2, 0, 0, 2},
    {"diagonal_row_to_column", 4, 32, 2, 0, 0, 8},
    {"diagonal_column_to_row", 32, 4, 2, 0, 0, 2},
    {"shared_tile", 4, 4, 4, 1, 32, 1},
    {"padded_tile", 4, 4, 4, 1, 1, 1},
    {"quad_tile", 16, 16, 1, 4, 4, 1},
    {"best", 16, 16, 1, 4, 4, 1},
};

}  // namespace

TEST_CASE("transpose: sectors, memory operations and predictions by hand") {
  Device gpu;
  gpu.prop.multiProcessorCount = 100;
  const Shape m = counted_shape;
  const double warps = double(m.elements()) / 32;
  for (const ByHand& each : by_hand) {
    CAPTURE(std::string(each.key));
    const Variant& v = variant(each.key);
    const Traffic loads = traffic(v, true, m, default_block);
    const Traffic stores = traffic(v, false, m, default_block);
    CHECK(loads.sectors_per_request() == each.load);
    CHECK(stores.sectors_per_request() == each.store);
    CHECK((stores.full_sectors == stores.sectors) == (each.store != 32));
    CHECK(loads.lines / loads.requests == (each.load == 32 ? 32 : each.load / 4));
    CHECK(memory_operations(v) == each.operations * warps);
    CHECK(passes(v, true) == each.written);
    CHECK(passes(v, false) == each.read);
    gpu.sm_clock_khz = 0;
    CHECK(predicted_ms(v, m, default_block, {1, 2, 8}, gpu) == each.ms);
  }
  CHECK(std::count_if(std::begin(variants), std::end(variants),
                      [](const Variant& v) { return v.kernel; }) == std::size(by_hand));
  CHECK(bytes_moved({3, 5}) == 120);
  // L1's data path, per warp: 32 lines and 4 sectors; 1 line, 4 sectors, 33 passes
  gpu.sm_clock_khz = 1000;
  const double warps_per_ms = 1000 * 100;
  CHECK(predicted_ms(variant("column_to_row"), m, default_block, {}, gpu) != 0);
  CHECK(predicted_ms(variant("column_to_row"), m, default_block, {0, 0, 0}, gpu) ==
        doctest::Approx(36 * warps / warps_per_ms));
  CHECK(predicted_ms(variant("shared_tile"), m, default_block, {0, 0, 0}, gpu) ==
        doctest::Approx(38 * warps / warps_per_ms));
}

TEST_CASE("transpose: what decides each part") {
  const auto verdict = [&](const char* part, const char* slow, const char* fast, double ratio) {
    return verdict_if(transpose_experiment, part, {{slow, 3 * ratio}, {fast, 3}});
  };
  CHECK(verdict("04.8", "row_to_column", "column_to_row", 2) == "holds");
  CHECK(verdict("04.8", "row_to_column", "column_to_row", 0.5) == "does not hold");
  CHECK(verdict("04.15", "row_to_column", "padded_tile", 2) == "holds");
  CHECK(verdict("04.15", "row_to_column", "padded_tile", 0.5) == "not judged");  // not seen here

  const auto counted_as = [](double sectors, double bytes) {
    return verdict_if(transpose_experiment, "04.10c",
                      {{"column_to_row", sectors, expected_sectors(true, 0).metric},
                       {"column_to_row", bytes, "l1tex__m_xbar2l1tex_read_bytes.sum"}});
  };
  CHECK(counted_as(100, 1600) == "holds");           // each sector serves two requests: 25%
  CHECK(counted_as(100, 400) == "holds, stronger");  // eight: 100%
  CHECK(counted_as(100, 3200) == "does not hold");
}

TEST_CASE("transpose: blocks per multiprocessor on made-up GPUs") {
  constexpr size_t tile_bytes = sizeof(float4) * wide * quads;
  const unsigned resident = variant("best").resident;
  for (const Device& device : made_up_devices()) {
    CAPTURE(std::string(device.prop.name));
    const size_t spare = spare_shared_bytes(device.prop, tile_bytes, resident);
    CHECK(tile_bytes + spare <= device.prop.sharedMemPerBlock);
    const size_t each = tile_bytes + spare + device.prop.reservedSharedMemPerBlock;
    // a T4 has room for three, whatever is requested
    if (device.prop.major >= 8) CHECK(device.prop.sharedMemPerMultiprocessor / each >= resident);
  }
}

TEST_CASE("transpose: a launch that its grid cannot hold is refused") {
  CHECK_NOTHROW(require_grid(square(65536), default_block));
  CHECK_NOTHROW(require_grid(square(65535), dim3(32, 1)));
  CHECK_THROWS_WITH_AS(require_grid(square(65536), dim3(32, 1)),
                       "transpose of 65536 x 65536 in blocks of 32 x 1 needs 65536 rows of blocks; "
                       "a grid holds at most 65535",
                       UsageError);
}

TEST_CASE("transpose: what was typed is of this machine, not of a recorded or made-up GPU") {
  const Options typed = typed_options();
  typed_options() = {.size = 77, .block_x = 8, .block_y = 32};
  std::string printed;
  Report report("typed", &printed);
  Device recorded;
  recorded.number = -1;
  recorded.prop.totalGlobalMem = size_t(64) << 30;
  CHECK(shape_of(Run{report, nullptr, {}}).nx == 77);
  CHECK(block_of(Run{report, nullptr, {}}).y == 32);
  CHECK(shape_of(Run{report, &recorded, {}}).nx == 16384);
  CHECK(block_of(Run{report, &recorded, {}}).y == default_block.y);
  typed_options() = typed;
}

TEST_CASE("transpose: counted passes through shared memory are near the model's") {
  if (!counted_in_this_run()) return skip_self_check("needs counts of this run");
  for (const Variant& v : variants) {
    if (!v.kernel) continue;
    const double requests = traffic(v, true, counted_shape, default_block).requests;
    double counted = 0;
    for (const bool loads : {true, false})
      counted += count_of_this_run(std::string(v.key), counted_parameter,
                                   expected_wavefronts(loads, 0).metric);
    CAPTURE(std::string(v.key));
    CAPTURE(counted);
    CHECK(std::abs(counted - (passes(v, true) + passes(v, false)) * requests) <= 0.15 * counted);
  }
}

TEST_CASE("transpose: every kernel is right at awkward shapes and blocks") {
  if (skip_without_gpu()) return;
  for (const Shape m : awkward)
    for (const dim3 block : {dim3(32, 8), dim3(8, 32), dim3(1, 32), dim3(33, 3)})
      check_all(m, block);
  check_all({300001, 4}, default_block);  // long and narrow, both ways
  check_all({4, 300000}, default_block);
}

TEST_CASE("transpose: a copy is no transpose") {
  if (skip_without_gpu()) return;
  const Shared x(Matrices{{128, 68}});
  Task wrong = task_of(x, variant("best"), default_block);
  wrong.launch = task_of(x, variant("copy_rows"), default_block).launch;
  CHECK(wrong_after(wrong) > x->m.elements() / 2);
}

TEST_CASE("transpose: more than 2^32 elements" * doctest::test_suite("large")) {
  if (skip_without_gpu()) return;
  const Shape m{65540, 65544};  // multiples of 4, for the quads, and of no tile
  if (bytes_moved(m) > 0.9 * double(Device::free_bytes()))
    return skip_self_check("needs " + bytes_text(bytes_moved(m)) + " of device memory");
  check_all(m, default_block);
}

EXPERIMENT_CHECKS(transpose)
