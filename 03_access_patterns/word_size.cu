// word_size: what does a word cost that has a 32-byte segment to itself? Dr. Dobb's quotes rough
// guidelines for the G80: words of 32 bits that are not coalesced take 10 times as long, words of
// 64 bits 4 times, words of 128 bits twice [DD].
//
// Look at the cost beside the sectors: is it the text's figure, or 32 bytes over the size of the
// word? GPUs of compute capability 10.0 and later also load words of 32 bytes at once.
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o word_size word_size.cu ../common/*.cpp
//
//   1  read_words  words of 4, 8, 16 and 32 bytes, side by side or one in every 32 bytes
#include "../common/arrays.cuh"
#include "../common/sample.hpp"
#include "../common/sectors.hpp"

namespace {

// ---- the kernel ----

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

// ---- what must come out ----

/// Thread t adds up what words t, t + threads ... of n hold: the first bytes of their room.
Check adds_up(size_t bytes, size_t room, const GuardedBuffer<unsigned>& out, size_t n) {
  return equals(out, [bytes, room, n, threads = out.size()] __device__(size_t thread) {
    unsigned sum = 0;
    for (size_t i = thread; i < n; i += threads)
      for (size_t byte = 0; byte < bytes; byte += 4) sum += hash((i * room + byte) / 4);
    return sum;
  });
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

// ---- the launches: add yours here ----

template <class Word>
void launch(unsigned blocks, unsigned* out, const unsigned* in, size_t n, size_t apart) {
  read_words<<<blocks, 256>>>(out, (const Word*)in, n, apart);
}

/// Words of one size, which are read side by side, and one in every 32 bytes.
struct Size {
  size_t bytes;
  void (*launch)(unsigned blocks, unsigned* out, const unsigned* in, size_t n, size_t apart);
  const char* claim = nullptr;  ///< none: the text names no cost
  double then_cost = 0;
};
constexpr Size sizes[] = {
    {.bytes = 4, .launch = launch<unsigned>, .claim = "03.5a", .then_cost = 10},
    {.bytes = 8, .launch = launch<uint2>, .claim = "03.5b", .then_cost = 4},
    {.bytes = 16, .launch = launch<uint4>, .claim = "03.5c", .then_cost = 2},
    {.bytes = 32, .launch = launch<Word32>},
};

std::string name_of(size_t bytes, size_t room) {
  return std::to_string(bytes) + " bytes" + (room > bytes ? " in 32" : "");
}

Benchmark benchmark_of(const Size& size, size_t room, const GuardedBuffer<unsigned>& out,
                       const DeviceBuffer<unsigned>& in, size_t n) {
  const unsigned blocks = unsigned(out.size() / 256);
  const auto work = [=] { size.launch(blocks, out, in, n, room / size.bytes); };
  return {name_of(size.bytes, room), work, adds_up(size.bytes, room, out, n)};
}

}  // namespace

void word_size(Run& run) {
  const size_t n = run.fitting(size_t(1) << (run.quick ? 26 : 27), sector_bytes);
  const auto in = filled<unsigned>(n * 8, [] __device__(size_t i) { return hash(i); });
  const GuardedBuffer<unsigned> out(run.resident_blocks(256) * 256);
  run.title(std::to_string(n) + " words: side by side, or each at the start of 32 bytes, " +
            bytes_text(double(n * sector_bytes)) + " in all");

  std::vector<Size> here;
  for (const Size& size : sizes)
    if (size.bytes <= 16 || run.gpu.major >= 10) here.push_back(size);
  std::vector<Benchmark> benchmarks;
  for (const Size& size : here)
    for (const size_t room : std::set{size.bytes, sector_bytes})
      benchmarks.push_back(benchmark_of(size, room, out, in, n));
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
  for (const Size& size : here) row(size.bytes, size.bytes, "", "", "");
  for (const Size& size : here)
    if (size.bytes < sector_bytes)
      row(size.bytes, sector_bytes, size.claim ? Cell(size.then_cost) : Cell(""),
          predicted_cost(size.bytes),
          ratio(timed[name_of(size.bytes, sector_bytes)], timed[name_of(size.bytes, size.bytes)]));
  if (here.size() < std::size(sizes))
    table.missing(name_of(32, 32), "needs compute capability 10.0");
  run.print(table);
  run.note("in 32: a word in every 32 bytes; cost: in words of its size that lie side by side");
  run.note("GB/s of words that are read");

  for (const Size& size : sizes) {
    if (!size.claim) continue;
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
    for (const Size& size : sizes)
      for (const size_t room : {size.bytes, sector_bytes}) {
        CAPTURE(n);
        CAPTURE(name_of(size.bytes, room));
        const size_t end = ((n - 1) * room + size.bytes) / 4;  // behind the last word
        const auto in = filled<unsigned>(end, [] __device__(size_t i) { return hash(i); });
        const Benchmark read = benchmark_of(size, room, out, in, n);
        read.check.poison();
        read.work();
        std::vector<unsigned> right(out.size(), 0);
        for (size_t part = 0; part < end; ++part)  // from the memory to the threads
          if (part * 4 % room < size.bytes) right[part * 4 / room % right.size()] += hash(part);
        CHECK(out.to_host() == right);
        CHECK(read.check.find_error() == "");
        CHECK(adds_up(size.bytes, room, out, n + 1).find_error() != "");
      }
}
