// contiguous: how many contiguous bytes must be requested together? The wiki calls 32 addresses in
// 32 segments the worst case [LC 3], and says that caches rely on spatial locality [LC 1]. The
// study expects a sum in random order to be as slow as one by columns [BW]. None of them says how
// near is near enough.
//
// Each piece of 64 bytes of the memory is read exactly once, so that no cache helps; it is what the
// L2 of an H100 fetches, so that no byte too many moves. Only the order changes: chunks of
// contiguous pieces are shuffled within windows, window after window. Predict what counts: the size
// of the chunks, of the windows, or neither? Then compare with pieces of which half is written.
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o contiguous contiguous.cu ../common/*.cpp
//
//   1  read_pieces   a lane reads a word of a piece
//   2  write_pieces  two lanes write the first sector of a piece
#include <algorithm>
#include <bit>

#include "../common/arrays.cuh"
#include "../common/sample.hpp"
#include "../common/sectors.hpp"

namespace {

// ---- the order ----

constexpr size_t piece_bytes = 64;
constexpr size_t piece_words = piece_bytes / sizeof(unsigned);
constexpr size_t quads_written = sector_bytes / sizeof(uint4);

/// Permutes the numbers below 2^bits: each step can be undone. A product with an odd number and a
/// sum, both modulo 2^bits; then the upper half is added to the lower one, without carries.
__host__ __device__ unsigned shuffled(unsigned x, unsigned bits) {
  if (bits == 0) return 0;
  const unsigned mask = ~0u >> (32 - bits), half = (bits + 1) / 2;
  for (int round = 0; round < 3; ++round) {
    x = (x * 0x9e3779b1u + 0x85ebca6bu) & mask;
    x ^= x >> half;
  }
  return x;
}

/// Chunks of 2^chunk_bits contiguous pieces, shuffled among the 2^window_bits chunks of a window.
/// The number of pieces has to be a multiple of a window's.
struct Order {
  unsigned chunk_bits, window_bits;

  /// The piece that is visited as number i.
  __host__ __device__ size_t piece(size_t i) const {
    const size_t chunk = i >> chunk_bits, in_chunk = i - (chunk << chunk_bits);
    const size_t window = chunk >> window_bits;
    const unsigned in_window = unsigned(chunk - (window << window_bits));
    return (((window << window_bits) + shuffled(in_window, window_bits)) << chunk_bits) + in_chunk;
  }
};

/// Both are powers of two. A window of no more than one chunk is in order.
Order order_of(size_t chunk_bytes, size_t window_bytes) {
  const auto log2 = [](size_t n) { return unsigned(std::bit_width(n) - 1); };
  return {log2(chunk_bytes / piece_bytes), log2(std::max(window_bytes / chunk_bytes, size_t(1)))};
}

// ---- kernels ----

// A warp reads the first words of 32 pieces that follow each other in the order: 32 sectors, and
// those of a chunk are 64 bytes apart. A thread has one load in flight.
__global__ void read_pieces(unsigned* out, const unsigned* in, size_t n, Order order) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  unsigned sum = 0;
#pragma unroll 1
  for (size_t i = tid; i < n; i += size_t(gridDim.x) * blockDim.x)
    sum += in[order.piece(i) * piece_words];
  out[tid] = sum;
}

// Two lanes write 16 bytes each, the first sector of a piece: 16 whole sectors per request. Nothing
// has to be read before a whole sector is written.
__global__ void write_pieces(uint4* out, size_t n, Order order) {
  const size_t threads = size_t(gridDim.x) * blockDim.x;
#pragma unroll 1
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n * quads_written;
       i += threads) {
    const size_t piece = order.piece(i / quads_written);
    const unsigned word = hash(piece);
    out[piece * (piece_bytes / sizeof(uint4)) + i % quads_written] = {word, word, word, word};
  }
}

// ---- what must come out ----

/// n pieces in, and n pieces out; a sum for each thread.
struct Memory {
  size_t n;
  DeviceBuffer<unsigned> in;
  GuardedBuffer<unsigned> out, sums;
};
Memory memory(size_t n, size_t threads) {
  return {n, filled<unsigned>(n * piece_words, [] __device__(size_t i) { return hash(i); }),
          GuardedBuffer<unsigned>(n * piece_words), GuardedBuffer<unsigned>(threads)};
}

/// All threads' sums together are that of the first words of all pieces, in whichever order.
Check adds_up(const Memory& m) {
  const auto find_error = [m]() -> std::string {
    const auto sum_at = [sums = m.sums.data()] __device__(size_t i) { return sums[i]; };
    const auto word_of = [] __device__(size_t piece) { return hash(piece * piece_words); };
    const unsigned found = unsigned(sum_of(m.sums.size(), sum_at));  // modulo 2^32, as threads add
    if (found != unsigned(sum_of(m.n, word_of))) return "the sum is " + std::to_string(found);
    return guard_error(m.sums);
  };
  return {[m] { m.sums.poison(); }, find_error};
}

/// The first sector of each piece holds the piece's number, hashed. The rest is still poison.
Check sectors_written(const Memory& m) {
  return equals(m.out, [] __device__(size_t word) {
    constexpr size_t written = sector_bytes / sizeof(unsigned);
    return word % piece_words < written ? hash(word / piece_words) : poisoned;
  });
}

// ---- the prediction ----

/// Contiguous runs of memory that the first request of a warp touches. All orders move the same
/// bytes; if only bytes counted, all would take the time of the first row. If it counts what is
/// requested together, columns differ, and rows do not.
size_t runs_of(Order order) {
  std::set<size_t> touched;
  for (size_t lane = 0; lane < 32; ++lane) touched.insert(order.piece(lane));
  size_t runs = 0;
  for (const size_t piece : touched) runs += !touched.count(piece - 1);
  return runs;
}

// ---- the launches: add yours here ----

constexpr size_t chunks[] = {64, 128, 256, 1 * KiB, 4 * KiB};
constexpr size_t windows[] = {0, 64 * KiB, 1 * MiB, 16 * MiB, 256 * MiB};  // 0: in order

std::string name_of(const char* kernel, size_t chunk, size_t window) {
  return std::string(kernel) + " " + bytes_text(double(chunk)) + " of " +
         bytes_text(double(window));
}

std::vector<Benchmark> kernels(const Memory& m, size_t chunk, size_t window) {
  const Order order = order_of(chunk, window);
  const unsigned blocks = unsigned(m.sums.size() / 256);
  const auto quads = m.out.as<uint4>();
  return {{name_of("read", chunk, window),
           [=] { read_pieces<<<blocks, 256>>>(m.sums, m.in, m.n, order); }, adds_up(m)},
          {name_of("written", chunk, window),
           [=] { write_pieces<<<blocks, 256>>>(quads, m.n, order); }, sectors_written(m)}};
}

}  // namespace

void contiguous(Run& run) {
  const size_t n = run.fitting(size_t(1) << (run.quick ? 22 : 25), 2.0 * piece_bytes);
  const size_t bytes = n * piece_bytes;
  run.title(bytes_text(double(bytes)) + ", each piece of 64 bytes once, in shuffled chunks");
  const Memory m = memory(n, run.resident_blocks(256) * size_t(256));
  std::vector<size_t> all_windows;
  for (const size_t window : windows)
    if (window < bytes) all_windows.push_back(window);
  all_windows.push_back(bytes);
  std::vector<Benchmark> all;
  for (const size_t window : all_windows)
    for (const size_t chunk : chunks)
      for (const Benchmark& kernel : kernels(m, chunk, window)) all.push_back(kernel);
  const Timings timed = run.timer.interleaved(all);

  Table requests("chunk", {"runs per request of 32 pieces", "GB/s, whole", "of in order", ""});
  for (const size_t chunk : chunks) {
    const auto gbs = [&](size_t window) {
      return timed[name_of("read", chunk, window)].gbs_interval(double(bytes));
    };
    const Interval share = gbs(bytes) / gbs(0);
    requests.row(bytes_text(double(chunk)), {double(runs_of(order_of(chunk, bytes))), gbs(bytes),
                                             percent(share.value), bar(share.value)});
  }
  run.print(requests);

  const auto print = [&](const char* kernel, double bytes_of_piece) {
    Table table(std::string(kernel) + ", window", {"64 B", "128 B", "256 B", "1 KiB", "4 KiB"});
    for (const size_t window : all_windows) {
      const auto gbs = [&](size_t chunk) {
        return timed[name_of(kernel, chunk, window)].gbs_interval(double(n) * bytes_of_piece);
      };
      const std::string name = window ? bytes_text(double(window)) : "in order";
      table.row(name, {gbs(64), gbs(128), gbs(256), gbs(1 * KiB), gbs(4 * KiB)});
    }
    run.print(table);
  };
  print("read", piece_bytes);
  print("written", sector_bytes);
  run.note("GB/s by chunks; of pieces of 64 bytes read, or of 32 bytes of each piece written");
  run.note("all rows and columns move the same bytes, and by bytes alone all would be equal");
  if (!run.beyond_l2(double(bytes))) run.note("less than four times the L2");
}
SAMPLE(3, contiguous, "the rate over the contiguous bytes that are requested together");

TEST_CASE("contiguous: the shuffle is a permutation") {
  CHECK(shuffled(0, 0) == 0);
  for (unsigned bits = 0; bits <= 16; ++bits) {
    CAPTURE(bits);
    std::set<unsigned> seen;
    for (unsigned x = 0; x < 1u << bits; ++x) seen.insert(shuffled(x, bits));
    CHECK(seen.size() == size_t(1) << bits);
    CHECK(*seen.rbegin() == (1u << bits) - 1);
  }
}

TEST_CASE("contiguous: an order visits each piece once, chunk by chunk, window by window") {
  constexpr size_t bytes = 4 * MiB, n = bytes / piece_bytes;
  for (const size_t chunk : chunks)
    for (const size_t window : {size_t(0), size_t(64), 4 * KiB, 64 * KiB, bytes}) {
      CAPTURE(chunk);
      CAPTURE(window);
      const Order order = order_of(chunk, window);
      std::vector<int> visits(n, 0);
      size_t leaves_chunk = 0, leaves_window = 0;
      for (size_t i = 0; i < n; ++i) {
        const size_t piece = order.piece(i), of_chunk = chunk / piece_bytes;
        ++visits[piece];
        leaves_chunk += piece % of_chunk != i % of_chunk;
        if (window > chunk)
          leaves_window += piece * piece_bytes / window != i * piece_bytes / window;
        if (window <= chunk) leaves_window += piece != i;
      }
      CHECK(std::count(visits.begin(), visits.end(), 1) == std::ptrdiff_t(n));
      CHECK(leaves_chunk == 0);
      CHECK(leaves_window == 0);
    }
}

TEST_CASE("contiguous: orders and their runs, by hand") {
  CHECK(order_of(64, 0).window_bits == 0);
  CHECK(order_of(64, 64 * KiB).window_bits == 10);
  CHECK(order_of(256, 64 * KiB).chunk_bits == 2);
  CHECK(order_of(256, 64 * KiB).window_bits == 8);
  CHECK(runs_of(order_of(64, 0)) == 1);
  CHECK(runs_of(order_of(4 * KiB, 256 * MiB)) == 1);  // a chunk is two requests
  CHECK(runs_of(order_of(1 * KiB, 256 * MiB)) == 2);
  CHECK(runs_of(order_of(256, 256 * MiB)) == 8);
  CHECK(runs_of(order_of(64, 256 * MiB)) == 32);
}

TEST_CASE("contiguous: every kernel is right at awkward sizes, and writes nothing else") {
  if (skip_without_gpu()) return;
  for (const size_t n : {1, 3, 64, 192, 1009, 65536})
    for (const size_t chunk : chunks)
      for (const size_t window : {size_t(0), size_t(128), 4 * KiB, n * piece_bytes}) {
        const size_t unit = std::max(chunk, window);  // an order is of whole windows
        if (n * piece_bytes % unit != 0 || !std::has_single_bit(unit)) continue;
        for (const Benchmark& kernel : kernels(memory(n, 3 * 256), chunk, window)) {
          CAPTURE(kernel.name);
          CAPTURE(n);
          CHECK_NOTHROW(require_right(kernel));
          kernel.check.poison();
          CHECK(kernel.check.find_error() != "");
        }
      }
}
