// transpose: the wiki reads a matrix by rows and stores it by columns, and the other way round: one of the two accesses
// is always scattered, 32 sectors for a warp's 32 words. It finds column -> row the faster one, and the book lifts row
// -> column by taking the blocks along diagonals. Look at the sectors a request beside the rates: they order the first
// six kernels. Then shared memory makes both sides whole, 16-byte accesses put enough bytes in flight, and in the end
// the order of the blocks and a cache hint are worth the last percents.
#include <doctest/doctest.h>

#include <map>
#include <optional>

#include "../common/counters.hpp"
#include "options.hpp"
#include "transpose.cuh"

namespace {

// ---- kernels: the input has ny rows of nx words, the output nx rows of ny ------------------------------------------

/// This thread's column and row in a matrix that is covered by tiles of the block's size.
__device__ Place mine(Place (*order)(unsigned, Shape), Shape covered) {
  const Place tile = order(blockIdx.x, tiles(covered, blockDim.x, blockDim.y));
  return element(tile, blockDim.x, blockDim.y, {threadIdx.x, threadIdx.y});
}

// The bound of what reads and writes rows: a warp reads 32 neighbours and writes 32, four sectors each.
__global__ void copy_rows(float* out, const float* in, unsigned nx, unsigned ny) {
  const auto [ix, iy] = mine(by_rows, {nx, ny});
  if (ix < nx && iy < ny) out[at(iy, ix, nx)] = in[at(iy, ix, nx)];
}

// The bound of what reads and writes columns: each lane a row further, 32 sectors to read and 32 to write.
__global__ void copy_columns(float* out, const float* in, unsigned nx, unsigned ny) {
  const auto [iy, ix] = mine(by_rows, {ny, nx});
  if (ix < nx && iy < ny) out[at(iy, ix, nx)] = in[at(iy, ix, nx)];
}

// The text's first: a warp reads 32 neighbours and writes each into another row of the output.
__global__ void row_to_column(float* out, const float* in, unsigned nx, unsigned ny) {
  const auto [ix, iy] = mine(by_rows, {nx, ny});
  if (ix < nx && iy < ny) out[at(ix, iy, ny)] = in[at(iy, ix, nx)];
}

// The text's second: the tiles cover the output, so a warp reads each word from another row and writes 32 neighbours.
// What came with a sector waits in L1 for the block's other warps.
__global__ void column_to_row(float* out, const float* in, unsigned nx, unsigned ny) {
  const auto [iy, ix] = mine(by_rows, {ny, nx});
  if (ix < nx && iy < ny) out[at(ix, iy, ny)] = in[at(iy, ix, nx)];
}

// The first again; blocks that run at the same time lie on a diagonal.
__global__ void diagonal_row_to_column(float* out, const float* in, unsigned nx, unsigned ny) {
  const auto [ix, iy] = mine(by_diagonals, {nx, ny});
  if (ix < nx && iy < ny) out[at(ix, iy, ny)] = in[at(iy, ix, nx)];
}

// The second again; blocks that run at the same time lie on a diagonal.
__global__ void diagonal_column_to_row(float* out, const float* in, unsigned nx, unsigned ny) {
  const auto [iy, ix] = mine(by_diagonals, {ny, nx});
  if (ix < nx && iy < ny) out[at(ix, iy, ny)] = in[at(iy, ix, nx)];
}

template <unsigned pitch>
__device__ void through_tile(float* out, const float* in, unsigned nx, unsigned ny) {
  __shared__ float tile[side][pitch];
  const Place from = by_rows(blockIdx.x, tiles({nx, ny}, side, side)), to = turned(from);
  for (unsigned k = 0; k < side; k += rows_at_once) {
    const auto [ix, iy] = element(from, side, side, {threadIdx.x, k + threadIdx.y});
    if (ix < nx && iy < ny) tile[k + threadIdx.y][threadIdx.x] = in[at(iy, ix, nx)];
  }
  __syncthreads();
  for (unsigned k = 0; k < side; k += rows_at_once) {
    const auto [iy, ix] = element(to, side, side, {threadIdx.x, k + threadIdx.y});
    if (ix < nx && iy < ny) out[at(ix, iy, ny)] = tile[threadIdx.x][k + threadIdx.y];
  }
}

// Through shared memory: a warp reads 32 neighbours, waits for the others, and writes 32 neighbours of the output. What
// is scattered now is the read of the tile's column: 32 words of one bank.
__global__ void tile(float* out, const float* in, unsigned nx, unsigned ny) { through_tile<side>(out, in, nx, ny); }

// A word more a row: the words of a column lie in 32 different banks.
__global__ void padded_tile(float* out, const float* in, unsigned nx, unsigned ny) {
  through_tile<side + 1>(out, in, nx, ny);
}

// Puts the four quads that a thread loaded, rows of the input, into the turned tile as four quads of the output.
__device__ void put_turned(float4* tile, const float4 (&row)[4]) {
  const unsigned quad = threadIdx.x / quads, first = 4 * (threadIdx.x % quads);
  tile[slot(first + 0, quad)] = {row[0].x, row[1].x, row[2].x, row[3].x};
  tile[slot(first + 1, quad)] = {row[0].y, row[1].y, row[2].y, row[3].y};
  tile[slot(first + 2, quad)] = {row[0].z, row[1].z, row[2].z, row[3].z};
  tile[slot(first + 3, quad)] = {row[0].w, row[1].w, row[2].w, row[3].w};
}

template <bool once>
__device__ void through_quads(float* out, const float* in, unsigned nx, unsigned ny, Place from) {
  __shared__ float4 tile[wide * quads];
  float4 row[4] = {};
  for (unsigned k = 0; k < 4; ++k) {
    const auto [ix, iy] = element(from, wide, wide, quad_to_load(threadIdx.x, k));
    const float* first = in + at(iy, ix, nx);
    if (once)
      row[k] = load_once(first, ix < nx && iy < ny);
    else if (ix < nx && iy < ny)
      row[k] = *reinterpret_cast<const float4*>(first);
  }
  put_turned(tile, row);
  __syncthreads();
  for (unsigned k = 0; k < 4; ++k) {
    const auto [y, x] = quad_to_store(threadIdx.x, k);
    row[k] = tile[slot(x, y / 4)];
  }
  for (unsigned k = 0; k < 4; ++k) {
    const auto [iy, ix] = element(turned(from), wide, wide, quad_to_store(threadIdx.x, k));
    float* first = out + at(ix, iy, ny);
    if (once)
      store_once(first, row[k], ix < nx && iy < ny);
    else if (ix < nx && iy < ny)
      *reinterpret_cast<float4*>(first) = row[k];
  }
}

// 16 bytes an access: a quarter of the requests, and 16 KiB a block in flight at once instead of 4. Each thread turns 4
// x 4 words in its registers, so that shared memory too is written and read by quads.
__global__ void __launch_bounds__(wide_threads) quad_tile(float* out, const float* in, unsigned nx, unsigned ny) {
  through_quads<false>(out, in, nx, ny, by_rows(blockIdx.x, tiles({nx, ny}, wide, wide)));
}

// The same, told that nothing is used twice, and with the blocks going down the input: those that run at the same time
// write whole rows of the output, long pieces, which the memory likes better than long pieces to read. Launched with
// room for five blocks a multiprocessor: 80 KiB in flight are enough, and fewer blocks keep closer to that order.
__global__ void __launch_bounds__(wide_threads) best(float* out, const float* in, unsigned nx, unsigned ny) {
  through_quads<true>(out, in, nx, ny, by_columns(blockIdx.x, tiles({nx, ny}, wide, wide)));
}

// ---- the story in order, and what each kernel is predicted to ask for ----------------------------------------------

struct Kernel {
  const char *name, *symbol;  ///< as shown; as in the code and in the counters' file
  void (*kernel)(float*, const float*, unsigned, unsigned);
  unsigned tile = 0;         ///< its width and height; 0: the block's, an element a thread
  bool over_output = false;  ///< the tiles cover the output, not the input
  Place (*order)(unsigned, Shape) = by_rows;
  bool turns = true;      ///< false: it copies
  unsigned resident = 0;  ///< at most so many blocks a multiprocessor; 0: all that fit

  dim3 threads(dim3 typed) const { return tile == wide ? dim3(wide_threads) : tile ? dim3(side, rows_at_once) : typed; }
  Shape grid(dim3 typed, Shape m) const {
    return tile ? tiles(m, tile, tile) : tiles(over_output ? turned(m) : m, typed.x, typed.y);
  }
};
const Kernel kernels[] = {
    {"copy by rows", "copy_rows", copy_rows, 0, false, by_rows, false},
    {"copy by columns", "copy_columns", copy_columns, 0, true, by_rows, false},
    {"row -> column", "row_to_column", row_to_column},
    {"column -> row", "column_to_row", column_to_row, 0, true},
    {"row -> column, diagonal", "diagonal_row_to_column", diagonal_row_to_column, 0, false, by_diagonals},
    {"column -> row, diagonal", "diagonal_column_to_row", diagonal_column_to_row, 0, true, by_diagonals},
    {"shared tile, 32 x 32", "tile", tile, side},
    {"padded tile, 32 x 33", "padded_tile", padded_tile, side},
    {"16-byte accesses, tile 64 x 64", "quad_tile", quad_tile, wide},
    {"best: blocks by columns, used once", "best", best, wide, false, by_columns, true, 5},
};
const Kernel &row_column = kernels[2], &column_row = kernels[3], &padded = kernels[7], &the_best = kernels[9];

bool quads_fit(Shape m) { return m.nx % 4 == 0 && m.ny % 4 == 0; }  // else rows begin anywhere, not on 16 bytes
/// What is launched for `k`: the padded tile stands in where quads do not fit.
const Kernel& taken(const Kernel& k, Shape m) { return k.tile == wide && !quads_fit(m) ? padded : k; }

std::function<void()> launcher(const Kernel& kernel, Matrices& x, dim3 typed) {
  const Kernel& k = taken(kernel, x.m);
  const unsigned blocks = unsigned(k.grid(typed, x.m).elements());
  const size_t spare = k.resident ? spare_shared_bytes((const void*)k.kernel, blocks, k.resident) : 0;
  return [&x, &k, threads = k.threads(typed), blocks, spare] {
    k.kernel<<<blocks, threads, spare>>>(x.out.data(), x.in.data(), x.m.nx, x.m.ny);
  };
}

/// Index of the word, or of the first of a quad, that thread `tid` loads or stores in a step; -1 where nothing.
long long first_word(const Kernel& k, bool loads, unsigned block, unsigned tid, unsigned step, dim3 typed, Shape m) {
  const Place from = k.order(block, k.grid(typed, m)), tile = loads ? from : turned(from);
  const Shape s = loads || !k.turns ? m : turned(m);
  Place p = element(from, typed.x, typed.y, {tid % typed.x, tid / typed.x});
  if (k.over_output == (loads || !k.turns)) p = turned(p);
  if (k.tile == side) p = element(tile, side, side, {tid % side, step * rows_at_once + tid / side});
  if (k.tile == wide) p = element(tile, wide, wide, loads ? quad_to_load(tid, step) : quad_to_store(tid, step));
  return p.x < s.nx && p.y < s.ny && (k.tile || step == 0) ? (long long)at(p.y, p.x, s.nx) : -1;
}
Requests predict(const Kernel& kernel, bool loads, Shape m, dim3 typed) {
  const Kernel& k = taken(kernel, m);
  return count_requests(
      k.grid(typed, m).elements(), k.threads(typed).x * k.threads(typed).y,
      [&](unsigned block, unsigned tid, unsigned step) { return first_word(k, loads, block, tid, step, typed, m); });
}

// ---- claims --------------------------------------------------------------------------------------------------------

constexpr Shape counted_shape{4096, 4096};  // what results/<gpu>-counters.csv holds: every kernel once
const std::string counted_parameter = "4096 x 4096 block 32 x 8";
const dim3 default_block(32, 8);

const Claim order_claim{"04.8", "column -> row transposes beat row -> column", "GTX 1080 Ti", "faster, no figure"};
const Claim sectors_claim{"04.10",
                          "row -> column loads 100%, stores 12.5%; column -> row loads 25% (cache), stores 100%",
                          "the wiki's count", "100, 12.5, 25, 100%"};

/// 04.10: three of the shares follow from sectors a request, of which 32 words fill four; the loads of column -> row,
/// helped by the cache, from the bytes that crossed from L2 to L1.
Judgement judge_sectors(const std::string& gpu) {
  const auto percents = [](const Kernel& k, bool loads) {
    return 400 / predict(k, loads, counted_shape, default_block).each();
  };
  const auto text = [](double share) { return fixed(share, share < 20 ? 1 : 0) + "%"; };
  const double asked = percents(column_row, true);
  const std::string here = "row -> column loads " + text(percents(row_column, true)) + ", stores " +
                           text(percents(row_column, false)) + "; column -> row loads " + text(asked) +
                           " of its sectors, stores " + text(percents(column_row, false));
  const auto counters = read_counters(gpu);
  const auto bytes = counters.find("column_to_row," + counted_parameter + ",l1tex__m_xbar2l1tex_read_bytes.sum");
  if (bytes == counters.end())
    return not_judged(here + "; results/ has no counts of what crosses from L2 to L1 on this GPU");
  const double crossed = 100 * sizeof(float) * double(counted_shape.elements()) / bytes->second;
  const Judgement help = judge_ratio({crossed, crossed, crossed}, {asked, asked, asked}, 25 / 12.5);
  return {help.verdict, here + ", and loads " + text(crossed) + " of the bytes from L2 to L1", crossed, "%"};
}

// ---- the experiment ------------------------------------------------------------------------------------------------

bool in_l2(const Run& run, Shape m) { return run.device && bytes_moved(m) <= 2.0 * double(run.device->l2_bytes()); }

void on_the_host(const Run& run, Shape m) {
  std::vector<float> in(m.elements()), right(m.elements());
  for (size_t i = 0; i < in.size(); ++i) in[i] = value_at(i), right[i] = expected(i, m.nx, m.ny, true);
  Measuring briefly = run.measuring;
  briefly.budget_ms = 100;
  Table table(run.report, "host, one core, " + sides(m),
              {measured("median ms", "time", "ms", 3), shown("spread"), measured("GB/s", "rate", "GB/s", 2)});
  for (bool rows : {true, false}) {
    std::vector<float> out(m.elements(), NAN);
    const auto work = [&] { (rows ? host_by_rows : host_by_columns)(out, in, m); };
    work();
    require_right(out == right, "the host's transpose");
    const Statistics ms = time_host(briefly, work);
    table.row({rows ? "host, reading by rows" : "host, reading by columns", "side", std::to_string(m.nx)},
              {ms, spread_text(ms), gigabytes_per_second(bytes_moved(m), ms)});
  }
  table.print();
}

/// The table of one size: all kernels, or the best beside its references. Each is checked, then timed.
std::map<std::string, Statistics> measure(const Run& run, Shape m, dim3 block, const Geam& geam, bool all) {
  Table table(run.report, all ? "kernel" : "another size, side",
              {measured("median ms", "time", "ms", 4), shown("spread"), measured("GB/s", "rate", "GB/s", 0),
               shown("of copy"), predicted("sectors/request: load", "load sectors a request", "sectors", 1),
               predicted("store", "store sectors a request", "sectors", 1), shown("")});
  std::optional<Matrices> x;
  if (run.device) x.emplace(m);
  const std::string at = all ? "" : std::to_string(m.nx);
  std::map<std::string, Statistics> ms;
  const auto row = [&](const std::string& name, bool turns, const std::function<void()>& launch, Cell load,
                       Cell store) {
    if (!x) return table.row({name}, {{}, {}, {}, {}, load, store, std::string()});
    require_right(x->wrong_after(turns, launch) == 0, name + ", " + sides(m));
    const Statistics t = time_device(run.measuring, launch, {.launches = in_l2(run, m) ? 20 : 1});
    ms[name] = t;
    const double share = ms["copy engine"].median / t.median;
    table.row({name, all ? "" : "side", at}, {t, spread_text(t), gigabytes_per_second(bytes_moved(m), t),
                                              fixed(100 * share, 1) + "%", load, store, bar(share)});
  };
  if (x)
    row("copy engine", false,
        [&] { CUDA_CHECK(cudaMemcpyAsync(x->out.data(), x->in.data(), x->in.bytes(), cudaMemcpyDeviceToDevice)); }, {},
        {});
  for (const Kernel& k : kernels)
    if (all || &k == &the_best)
      row(all ? k.name : k.symbol, k.turns, x ? launcher(k, *x, block) : nullptr, predict(k, true, m, block).each(),
          predict(k, false, m, block).each());
  if (x && geam) row("cublasSgeam", true, [&] { geam(*x); }, {}, {});
  table.print();
  return ms;
}

}  // namespace

void transpose(const Run& run, const Options& options) {
  const dim3 block = options.block_x ? dim3(options.block_x, options.block_y) : default_block;
  size_t n = options.size ? options.size : run.quick ? 4096 : 16384;
  const double there = run.device ? double(Device::free_bytes()) : INFINITY;
  if (options.size) require_fits("transpose of " + sides(square(n)), bytes_moved(square(n)), there);
  while (!options.size && bytes_moved(square(n)) > 0.9 * there) n /= 2;
  const Shape m = square(n);
  const std::string block_text = std::to_string(block.x) + " x " + std::to_string(block.y);
  if (tiles(m, block.x, block.y).elements() > 0x7fffffff)
    throw UsageError("--block: " + block_text + " makes more blocks of " + sides(m) + " than the 2147483647 of a grid");
  run.report.begin("transpose", sides(m) + " float, " + bytes_text(bytes_moved(m) / 2) + ", block " + block_text +
                                    (in_l2(run, m) ? ", which fits in L2" : ""));
  on_the_host(run, square(std::min<size_t>(n, run.quick ? 1024 : 2048)));
  const Geam geam = run.device ? make_geam() : nullptr;
  auto ms = measure(run, m, block, geam, true);
  run.report.note("a warp's 32 words fill 4 sectors of 32 bytes, its 32 quads of 4 words 16");
  if (!quads_fit(m)) run.report.note("rows do not begin on 16 bytes here: the padded tile stands in for the last two");
#ifndef HAVE_CUBLAS
  run.report.left_out("cublasSgeam", "built without cuBLAS");
#endif
  if (!run.device) return run.report.left_out("the times of all kernels", {order_claim, sectors_claim});
  for (size_t other : {size_t(2048), 2 * n}) {
    if (options.size || run.quick) break;
    if (bytes_moved(square(other)) > 0.9 * double(Device::free_bytes()))
      run.report.left_out(sides(square(other)), "it does not fit");
    else
      measure(run, square(other), block, geam, false);
    if (in_l2(run, square(other))) run.report.note("this stays in L2: the cache's rates, 20 launches back to back");
  }
  run.report.claim(order_claim, in_l2(run, m) ? not_judged("the matrices fit in L2")
                                              : judge_ratio(ms[row_column.name], ms[column_row.name]));
  run.report.claim(sectors_claim, judge_sectors(run.device->prop.name));
}

// ---- self-checks ---------------------------------------------------------------------------------------------------

namespace {

const Shape awkward[] = {{1, 1},   {1009, 1}, {1, 1009},  {33, 31},   {64, 64},  {128, 64},
                         {63, 65}, {97, 193}, {131, 257}, {260, 516}, {4, 1020}, {769, 1021}};

void check_all(Shape m, dim3 block) {
  Matrices x(m);
  for (const Kernel& k : kernels) {
    CAPTURE(k.name);
    CAPTURE(sides(m));
    CHECK(x.wrong_after(k.turns, launcher(k, x, block)) == 0);
  }
}

std::vector<CountedLaunch> counted_launches() {
  std::vector<CountedLaunch> all;
  for (const Kernel& k : kernels) {
    std::vector<Expected> expected;
    for (bool loads : {true, false}) {
      const Requests model = predict(k, loads, counted_shape, default_block);
      expected.push_back(expected_requests(loads, model.requests));
      expected.push_back(expected_sectors(loads, model.sectors));
    }
    all.push_back({k.symbol, counted_parameter, expected, [&k] {
                     Matrices x(counted_shape);
                     return x.wrong_after(k.turns, launcher(k, x, default_block)) == 0;
                   }});
  }
  return all;
}

}  // namespace

TEST_CASE("transpose: host references and expected elements agree") {
  for (Shape m : awkward) {
    std::vector<float> in(m.elements()), rows(in.size(), NAN), columns(in.size(), NAN), formula(in.size());
    for (size_t i = 0; i < in.size(); ++i) in[i] = value_at(i), formula[i] = expected(i, m.nx, m.ny, true);
    host_by_rows(rows, in, m);
    host_by_columns(columns, in, m);
    CHECK(rows == formula);
    CHECK(columns == formula);
  }
}

TEST_CASE("transpose: every kernel loads and stores every element once") {
  for (Shape m : awkward)
    for (dim3 block : {dim3(32, 8), dim3(1, 32), dim3(7, 5)})
      for (int i = 0; i < 20 && m.elements() <= 150000; ++i) {  // the host walks through every access of every thread
        const Kernel& k = taken(kernels[i / 2], m);
        const unsigned words = k.tile == wide ? 4 : 1;
        std::vector<int> touched(m.elements());
        for (unsigned b = 0; b < k.grid(block, m).elements(); ++b)
          for (unsigned tid = 0; tid < k.threads(block).x * k.threads(block).y; ++tid)
            for (unsigned step = 0; step < steps; ++step) {
              const long long first = first_word(k, i % 2, b, tid, step, block, m);
              for (unsigned w = 0; first >= 0 && w < words; ++w) touched.at(first + w) += first % words == 0;
            }
        CAPTURE(k.name);
        CHECK(std::count(touched.begin(), touched.end(), 1) == long(touched.size()));
      }
}

TEST_CASE("transpose: the diagonal is that of the text on square grids where that one takes every tile") {
  const auto text = [](unsigned x, unsigned y, Shape all) { return Place{(x + y) % all.nx, x}; };  // as the wiki has it
  for (unsigned n : {1u, 7u, 64u})
    for (unsigned b = 0; b < n * n; ++b) {
      const Place ours = by_diagonals(b, {n, n}), theirs = text(b % n, b / n, {n, n});
      CHECK((ours.x == theirs.x && ours.y == theirs.y));
    }
  const Shape all = tiles({2048, 2048}, 32, 8);  // here it takes a quarter
  std::vector<int> taken(all.elements());
  for (unsigned b = 0; b < taken.size(); ++b) {
    const Place tile = text(b % all.nx, b / all.nx, all);
    taken.at(at(tile.y, tile.x, all.nx)) = 1;
  }
  CHECK(4 * std::count(taken.begin(), taken.end(), 1) == long(taken.size()));
}

TEST_CASE("transpose: shared slots are a permutation without bank conflicts") {
  std::vector<int> used(wide * quads);
  for (unsigned i = 0; i < used.size(); ++i) ++used.at(slot(i / quads, i % quads));
  CHECK(std::count(used.begin(), used.end(), 1) == long(used.size()));
  // a quad takes 4 of 32 banks: the 8 lanes that are served together must have 8 different slots modulo 8
  for (unsigned first = 0; first < wide_threads; first += 8)
    for (unsigned k = 0; k < steps; ++k) {
      unsigned written = 0, read = 0;
      for (unsigned tid = first; tid < first + 8; ++tid) {
        written |= 1u << slot(4 * (tid % quads) + k, tid / quads) % 8;
        read |= 1u << slot(quad_to_store(tid, k).y, quad_to_store(tid, k).x / 4) % 8;
      }
      CHECK((written & read) == 0xff);
    }
}

TEST_CASE("transpose: predicted sectors are those of the text") {
  const double loads[] = {4, 32, 4, 32, 4, 32, 4, 4, 16, 16}, stores[] = {4, 32, 32, 4, 32, 4, 4, 4, 16, 16};
  for (int i = 0; i < 10; ++i) {
    CAPTURE(kernels[i].name);
    CHECK(predict(kernels[i], true, square(2048), default_block).each() == loads[i]);
    CHECK(predict(kernels[i], false, square(2048), default_block).each() == stores[i]);
  }
}

TEST_CASE("transpose: counted requests and sectors equal the model") { compare_with_counters(counted_launches()); }

TEST_CASE("transpose: every kernel is right at awkward sizes and blocks") {
  if (skip_without_gpu()) return;
  const Geam geam = make_geam();
  for (Shape m : awkward) {
    for (dim3 block : {dim3(32, 8), dim3(8, 32), dim3(1, 32), dim3(33, 3)}) check_all(m, block);
    Matrices x(m);
    if (geam) CHECK(x.wrong_after(true, [&] { geam(x); }) == 0);
  }
  for (Shape m : {Shape{3000001, 1}, Shape{1, 3000001}, Shape{4, 4200000}})  // more blocks than a grid has rows
    check_all(m, default_block);
}

TEST_CASE("transpose: the check at full size finds what is wrong") {
  if (skip_without_gpu()) return;
  Matrices x({128, 68});
  const auto launch = launcher(the_best, x, default_block);
  CHECK(x.wrong_after(true, [] {}) == x.m.elements());  // poisoned, nothing written
  CHECK(x.wrong_after(true, launcher(kernels[0], x, default_block)) > x.m.elements() / 2);
  CHECK(x.wrong_after(true, [&] { launch(), CUDA_CHECK(cudaMemsetAsync(x.out.data() + 77, 0, sizeof(float))); }) == 1);
}

TEST_CASE("transpose: large: profile launches") {
  if (skip_without_gpu()) return;
  launch_counted(counted_launches());
}

TEST_CASE("transpose: large: more than 2^31 elements") {
  if (skip_without_gpu()) return;
  const Shape m{46348, 46344};  // multiples of 4, for the quads, and of no tile
  if (bytes_moved(m) > 0.9 * double(Device::free_bytes()))
    return skip_self_check("needs " + bytes_text(bytes_moved(m)) + " of device memory");
  check_all(m, default_block);
}
