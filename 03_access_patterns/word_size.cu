// word_size: what does a word cost that has a 32-byte segment to itself? Dr. Dobb's quotes rough
// guidelines for the G80: words of 32 bits that are not coalesced take 10 times as long, words of
// 64 bits 4 times, words of 128 bits twice [DD].
//
// Look at the cost beside the sectors. Memory brings 32 bytes for each lane, however small its word
// is: so the cost is 32 bytes over the size of the word, 8 and 4 and 2. A word of 32 bytes costs
// nothing more. GPUs of compute capability 10.0 and later load such words at once.
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o word_size word_size.cu ../common/*.cpp
//
//   1  read_words  words of 4, 8, 16 and 32 bytes, side by side or one in every 32 bytes
#include "../common/arrays.cuh"
#include "../common/sample.hpp"
#include "../common/sectors.hpp"

namespace {

// One load where the GPU has it (ld.global.v8), else two of 16 bytes.
struct alignas(32) Word32 {
  unsigned v[8];
};

__device__ unsigned parts(unsigned w) { return w; }
__device__ unsigned parts(const uint2& w) { return w.x + w.y; }
__device__ unsigned parts(const uint4& w) { return w.x + w.y + w.z + w.w; }
__device__ unsigned parts(const Word32& w) {
  return w.v[0] + w.v[1] + w.v[2] + w.v[3] + w.v[4] + w.v[5] + w.v[6] + w.v[7];
}

// Lane i of a warp reads word i * apart. If apart is 1, the words lie side by side: 4 sectors of 32
// bytes for words of 4 bytes, 16 for words of 16 bytes. If apart * sizeof(Word) is 32, each lane
// reads a sector of its own: 32 sectors. A thread has four loads in flight.
template <class Word>
__global__ void read_words(unsigned* out, const Word* in, size_t n, size_t apart) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  unsigned sum = 0;
  size_t i = tid;
  for (; i + 3 * threads < n; i += 4 * threads) {
    Word word[4];
#pragma unroll
    for (unsigned k = 0; k < 4; ++k) word[k] = in[(i + k * threads) * apart];
#pragma unroll
    for (unsigned k = 0; k < 4; ++k) sum += parts(word[k]);
  }
  for (; i < n; i += threads) sum += parts(in[i * apart]);  // the remaining words
  out[tid] = sum;
}

// ---- the prediction ----

/// Sectors of a warp's request for words of so many bytes, one in every `room` bytes.
double sectors_of(size_t bytes, size_t room) {
  return double(sectors(bytes, [=](size_t lane) { return lane * (room / bytes); }));
}

/// What a word in 32 bytes of its own costs, in words side by side.
double predicted_cost(size_t bytes) {
  return sectors_of(bytes, sector_bytes) / sectors_of(bytes, bytes);
}

// ---- launching, and what is right ----

void launch(size_t bytes, size_t room, const GuardedBuffer<unsigned>& out, const unsigned* in,
            size_t n) {
  const unsigned blocks = unsigned(out.size() / 256);
  const size_t apart = room / bytes;
  if (bytes == 4) read_words<<<blocks, 256>>>(out, in, n, apart);
  if (bytes == 8) read_words<<<blocks, 256>>>(out, (const uint2*)in, n, apart);
  if (bytes == 16) read_words<<<blocks, 256>>>(out, (const uint4*)in, n, apart);
  if (bytes == 32) read_words<<<blocks, 256>>>(out, (const Word32*)in, n, apart);
}

/// Thread t adds up what words t, t + threads ... of n hold: the first bytes of their room.
std::string find_wrong_sum(size_t bytes, size_t room, const GuardedBuffer<unsigned>& out,
                           size_t n) {
  const auto sum_of_thread = [bytes, room, n, threads = out.size()] __device__(size_t thread) {
    unsigned sum = 0;
    for (size_t i = thread; i < n; i += threads)
      for (size_t byte = 0; byte < bytes; byte += 4) sum += hash((i * room + byte) / 4);
    return sum;
  };
  return find_mismatch(out, sum_of_thread);
}

std::string name_of(size_t bytes, size_t room) {
  return std::to_string(bytes) + " bytes" + (room > bytes ? " in 32" : "");
}

Benchmark benchmark_of(size_t bytes, size_t room, const GuardedBuffer<unsigned>& out,
                       const DeviceBuffer<unsigned>& in, size_t n) {
  const auto work = [=] { launch(bytes, room, out, in, n); };
  const auto find_error = [=] { return find_wrong_sum(bytes, room, out, n); };
  return {name_of(bytes, room), work, {[out] { out.poison(); }, find_error}};
}

/// Words for which the text has a factor.
struct Size {
  size_t bytes;
  double then_cost;
  const char* claim;
};
constexpr Size sizes[] = {{4, 10, "03.5a"}, {8, 4, "03.5b"}, {16, 2, "03.5c"}};

}  // namespace

void word_size(Run& run) {
  const size_t n = run.fitting(size_t(1) << (run.quick ? 26 : 27), sector_bytes);
  const auto in = filled<unsigned>(n * 8, [] __device__(size_t i) { return hash(i); });
  const GuardedBuffer<unsigned> out(run.resident_blocks(256) * 256);
  run.title(std::to_string(n) + " words: side by side, or each at the start of 32 bytes, " +
            bytes_text(double(n * sector_bytes)) + " in all");

  const bool loads_32 = run.gpu.major >= 10;
  std::vector<Benchmark> benchmarks;
  for (const Size& size : sizes)
    for (const size_t room : {size.bytes, sector_bytes})
      benchmarks.push_back(benchmark_of(size.bytes, room, out, in, n));
  if (loads_32) benchmarks.push_back(benchmark_of(32, 32, out, in, n));
  const Timings timed = run.timer.interleaved(benchmarks);

  Table table("words",
              {"sectors/request", "cost on a G80", "by sectors", "cost", "GB/s", "spread", ""});
  const double best = timed[name_of(16, 16)].gbs(16.0 * double(n));
  const auto row = [&](size_t bytes, size_t room, Cell then, Cell by_sectors, Cell cost) {
    const Times& times = timed[name_of(bytes, room)];
    const double gbs = times.gbs(double(n * bytes));
    table.row(name_of(bytes, room),
              {sectors_of(bytes, room), then, by_sectors, cost,
               times.gbs_interval(double(n * bytes)), percent(times.spread()), bar(gbs / best)});
  };
  for (const Size& size : sizes) row(size.bytes, size.bytes, "", "", "");
  for (const Size& size : sizes) {
    const Interval cost =
        ratio(timed[name_of(size.bytes, sector_bytes)], timed[name_of(size.bytes, size.bytes)]);
    row(size.bytes, sector_bytes, size.then_cost, predicted_cost(size.bytes), cost);
  }
  if (loads_32)
    row(32, 32, "", "", "");
  else
    table.missing(name_of(32, 32), "needs compute capability 10.0");
  run.print(table);
  run.note("in 32: a word in every 32 bytes; cost: in words of its size that lie side by side");
  run.note("GB/s of words that are read");

  for (const Size& size : sizes) {
    const std::string factor = digits(size.then_cost);
    const Claim claim{size.claim,
                      "words of " + std::to_string(8 * size.bytes) +
                          " bits in segments of their own cost " + factor + " times as much",
                      "[DD] \"roughly " + factor + "x slower\", G80", Hardware::g80};
    if (run.beyond_l2(double(n * size.bytes)))
      run.claim(claim,
                timed.speedup({.of = name_of(size.bytes, size.bytes),
                               .over = name_of(size.bytes, sector_bytes)}),
                faster_by(size.then_cost));
    else
      run.claim_skipped(claim, "the words are less than four times the L2");
  }
}
SAMPLE(5, word_size, "words of 4 to 32 bytes, side by side and each in 32 bytes");

TEST_CASE("word_size: sectors and costs, by hand") {
  CHECK(sectors_of(4, 4) == 4);  // 32 words of 4 bytes are 128 bytes
  CHECK(sectors_of(8, 8) == 8);
  CHECK(sectors_of(16, 16) == 16);
  CHECK(sectors_of(32, 32) == 32);
  for (const size_t bytes : {4, 8, 16, 32}) CHECK(sectors_of(bytes, 32) == 32);
  CHECK(predicted_cost(4) == 8);
  CHECK(predicted_cost(8) == 4);
  CHECK(predicted_cost(16) == 2);
  CHECK(predicted_cost(32) == 1);
  CHECK(sizeof(Word32) == 32);
  CHECK(alignof(Word32) == 32);
}

TEST_CASE("word_size: each thread has the sum of its words, at awkward sizes") {
  if (skip_without_gpu()) return;
  const GuardedBuffer<unsigned> out(3 * 256);
  for (const size_t n : {size_t(1), size_t(1009), 4 * out.size(), size_t(65537)})
    for (const size_t bytes : {size_t(4), size_t(8), size_t(16), size_t(32)})
      for (const size_t room : {bytes, size_t(32)}) {
        CAPTURE(n);
        CAPTURE(name_of(bytes, room));
        const size_t end = ((n - 1) * room + bytes) / 4;  // behind the last word
        const auto in = filled<unsigned>(end, [] __device__(size_t i) { return hash(i); });
        out.poison();
        launch(bytes, room, out, in, n);
        std::vector<unsigned> right(out.size(), 0);
        for (size_t part = 0; part < end; ++part)  // from the memory to the threads
          if (part * 4 % room < bytes) right[part * 4 / room % right.size()] += hash(part);
        CHECK(out.to_host() == right);
        CHECK(find_wrong_sum(bytes, room, out, n) == "");
        CHECK(find_wrong_sum(bytes, room, out, n + 1) != "");
      }
}
