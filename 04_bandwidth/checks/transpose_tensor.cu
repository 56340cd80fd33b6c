// Self-checks of transpose_tensor.cu, compiled in its place where BUILD_TESTING is on.
#include "../transpose_tensor.cu"

#include <doctest/doctest.h>

#include "../../framework/common/checks/counts.hpp"
#include "../../framework/common/checks/made_up_devices.hpp"
#include "../../framework/common/counters.hpp"

namespace {

const Shape by_lines[] = {{32, 32},   {64, 64},    {96, 32},   {32, 160},  {224, 96},
                          {128, 352}, {992, 1056}, {4128, 32}, {32, 66016}};
constexpr Shape counted_shape{4096, 4096};
const std::string counted_parameter = "4096 x 4096";

void check_all(Shape m) {
  const Shared x(Matrices{m});
  for (const auto make :
       {transpose_by_tensor_copies, copy_tiles_along_rows, copy_tiles_down_columns}) {
    const Task task = make(x);
    CAPTURE(task.name);
    CHECK(wrong_after(task) == 0);
  }
}

/// No lane loads from global memory or stores to it: the copies do all of that.
std::vector<CountedLaunch> counted_launches() {
  return {{"turn_tensor",
           counted_parameter,
           {expected_requests(true, 0), expected_requests(false, 0)},
           [] {
             return wrong_after(transpose_by_tensor_copies(Shared(Matrices{counted_shape}))) == 0;
           }}};
}

/// Passes through shared memory, one way: 128 bytes each.
double shared_wavefronts(Shape m) { return double(m.elements()) * sizeof(float) / 128; }

/// Ends a case where there is no GPU, or none that can.
bool skip_without_tensor_copies(Shape m) {
  if (skip_without_gpu()) return true;
  const std::string why = no_tensor_copies(Device::current(), m);
  if (!why.empty()) skip_self_check(why);
  return !why.empty();
}

}  // namespace

TEST_CASE("transpose: tensor copies: the kernel finds each quad where the copy lays it") {
  // the hardware swaps bits 4 to 6 of a byte's place in shared memory by its bits 7 to 9
  const auto laid = [](unsigned row, unsigned quad) {
    const unsigned byte = (row * quads + quad) * 16;
    return (byte ^ (byte >> 7 & 7) << 4) / 16;
  };
  std::vector<unsigned> tile(side * quads, ~0u);   // which 4 words lie there: row, quad
  std::vector<unsigned> turned(side * quads * 4);  // which word
  for (unsigned row = 0; row < side; ++row)
    for (unsigned quad = 0; quad < quads; ++quad) tile[laid(row, quad)] = row * quads + quad;
  std::vector<int> read(side * quads), written(side * quads);
  for (unsigned tid = 0; tid < turning; ++tid) {  // as turn_tensor has it
    const unsigned across = tid % quads;
    const unsigned down = tid / quads ^ across % 8;
    for (unsigned k = 0; k < 4; ++k) {
      const unsigned from = (4 * down + k) * quads + (across ^ (2 * k + across / 8));
      CHECK(tile.at(from) == (4 * down + k) * quads + across);
      ++read.at(from);
      const unsigned to = (4 * across + k) * quads + (down ^ (2 * k + down / 8));
      ++written.at(to);
      for (unsigned w = 0; w < 4; ++w)
        turned.at(4 * to + w) = (4 * down + w) * side + 4 * across + k;
    }
  }
  CHECK(std::count(read.begin(), read.end(), 1) == long(read.size()));
  CHECK(std::count(written.begin(), written.end(), 1) == long(written.size()));
  for (unsigned row = 0; row < side; ++row)
    for (unsigned i = 0; i < side; ++i)  // what the copy takes for word i of a row of the output
      CHECK(turned.at(4 * laid(row, i / 4) + i % 4) == i * side + row);
}

TEST_CASE("transpose: tensor copies: the swapped quads have no bank conflicts") {
  for (unsigned first = 0; first < turning; first += 8)
    for (unsigned k = 0; k < 4; ++k) {
      unsigned read = 0, written = 0;
      for (unsigned tid = first; tid < first + 8; ++tid) {
        const unsigned across = tid % quads;
        const unsigned down = tid / quads ^ across % 8;
        read |= 1u << ((4 * down + k) * quads + (across ^ (2 * k + across / 8))) % 8;
        written |= 1u << ((4 * across + k) * quads + (down ^ (2 * k + down / 8))) % 8;
      }
      CHECK(read == 0xff);
      CHECK(written == 0xff);
    }
  unsigned straight = 0;  // without the diagonal: one place for eight lanes
  unsigned unexchanged = 0;
  for (unsigned across = 0; across < 8; ++across) {
    straight |= 1u << (4 * across * quads + 5) % 8;
    unexchanged |= 1u << (4 * across * quads + (5 ^ across)) % 8;
  }
  CHECK(straight == 1u << 5);
  CHECK(unexchanged == 0xff);
}

TEST_CASE("transpose: tensor copies: tiles, and passes through shared memory, by hand") {
  CHECK(tiles_of({64, 64}).x == 1);
  CHECK(tiles_of({96, 160}).x == 2);
  CHECK(tiles_of({96, 160}).y == 3);
  CHECK(shared_wavefronts({64, 64}) == 128);  // 8 warps, 4 loads each, 4 passes a load
}

TEST_CASE("transpose: tensor copies: which GPUs and which rows have them") {
  for (const Device& device : made_up_devices()) {
    const std::string why = no_tensor_copies(device, {64, 96});
    CAPTURE(std::string(device.prop.name));
    if (device.prop.major < 9) CHECK(why == "needs compute capability 9.0");
    CHECK(no_tensor_copies(device, {68, 96}) == "a row is no multiple of 128 bytes");
    CHECK(no_tensor_copies(device, {96, 100}) == "a row is no multiple of 128 bytes");
    if (device.prop.major < 9) continue;
    CHECK(why.empty());
    constexpr size_t own = sizeof(float4) * side * quads + 16;  // the tile and its barrier
    const size_t spare = spare_shared_bytes(device.prop, own, turning_resident);
    CHECK(own + spare <= device.prop.sharedMemPerBlock);
    const size_t each = own + spare + device.prop.reservedSharedMemPerBlock;
    CHECK(device.prop.sharedMemPerMultiprocessor / each >= turning_resident);
  }
}

TEST_CASE("transpose: tensor copies: every kernel is right at awkward sizes") {
  if (skip_without_tensor_copies(by_lines[0])) return;
  for (const Shape m : by_lines) {
    CAPTURE(sides(m));
    check_all(m);
  }
}

TEST_CASE("transpose: tensor copies: tiles that are copied are no transpose") {
  if (skip_without_tensor_copies(by_lines[0])) return;
  const Shared x(Matrices{{96, 160}});
  Task wrong = transpose_by_tensor_copies(x);
  wrong.launch = copy_tiles_along_rows(x).launch;
  CHECK(wrong_after(wrong) > x->m.elements() / 2);
}

TEST_CASE("transpose: tensor copies: counted requests of this GPU equal the model") {
  if (skip_without_tensor_copies(counted_shape)) return;
  compare_with_counts_of_this_run(counted_launches());
}

TEST_CASE("transpose: tensor copies: counted passes through shared memory are near the model's") {
  if (skip_without_tensor_copies(counted_shape)) return;
  if (!counted_in_this_run()) return skip_self_check("needs counts of this run");
  for (const bool loads : {true, false}) {
    const Expected expected = expected_wavefronts(loads, shared_wavefronts(counted_shape));
    const double counted = count_of_this_run("turn_tensor", counted_parameter, expected.metric);
    CAPTURE(counted);
    CHECK(std::abs(counted - expected.value) <= 0.25 * expected.value);
  }
}

TEST_CASE("transpose: tensor copies: profile launches" * doctest::test_suite("large")) {
  if (skip_without_tensor_copies(counted_shape)) return;
  launch_counted(counted_launches());
}

TEST_CASE("transpose: tensor copies: more than 2^32 elements" * doctest::test_suite("large")) {
  const Shape m{65568, 65600};  // multiples of a line, and of no tile
  if (skip_without_tensor_copies(m)) return;
  if (bytes_moved(m) > 0.9 * double(Device::free_bytes()))
    return skip_self_check("needs " + bytes_text(bytes_moved(m)) + " of device memory");
  check_all(m);
}
