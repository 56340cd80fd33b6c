// stores: the wiki has stores served in segments of 32 bytes, one, two or four at a time, and passing L1 by. Are
// writes, as the study answers its reader, subject to the same rules as reads? Look at the segments of four patterns;
// then at writes beside reads over the stride, where the rules are the same and the price is not: a sector that was
// written in part has to be completed before it can go to memory. Last at whether a load finds in L1 what was stored.
#include <doctest/doctest.h>

#include <algorithm>
#include <optional>

#include "../common/first_edition.hpp"
#include "reading.cuh"
#include "transactions.hpp"

namespace {

constexpr unsigned threads = reading_threads;
/// `lanes` of a warp write, eight to a segment of 32 bytes, in every segment or (apart 2) in every second one.
struct Pattern {
  const char* name;
  int lanes, apart;
};
constexpr Pattern patterns[] = {{"32 lanes in 128 bytes", 32, 1},
                                {"16 lanes in 64 bytes", 16, 1},
                                {"8 lanes in 32 bytes", 8, 1},
                                {"24 lanes in 3 segments apart", 24, 2}};
constexpr unsigned slot = 64;  // words that belong to each warp, more than any pattern reaches

/// Word of its warp's slot that a lane writes; negative: none.
__host__ __device__ int word_of_lane(int lanes, int apart, int lane) {
  return lane < lanes ? lane / 8 * 8 * apart + lane % 8 : -1;
}

// Each warp writes once into 256 bytes of its own.
__global__ void store_pattern(unsigned* out, size_t warps, int lanes, int apart) {
  const size_t warp = (blockIdx.x * size_t(blockDim.x) + threadIdx.x) / 32;
  const int word = word_of_lane(lanes, apart, int(threadIdx.x % 32));
  if (warp < warps && word >= 0) out[warp * slot + word] = scrambled(warp * slot + word);
}

/// A word is written if a lane of the pattern names it, and else still poisoned.
struct PatternIsRight {
  int lanes, apart;
  __device__ bool operator()(size_t i, unsigned found) const {
    for (int lane = 0; lane < lanes; ++lane)
      if (word_of_lane(lanes, apart, lane) == int(i % slot)) return found == scrambled(i);
    return found == 0xffffffffu;
  }
};

void launch_pattern(const DeviceBuffer<unsigned>& out, const Pattern& p) {
  const size_t warps = out.size() / slot;
  store_pattern<<<unsigned((32 * warps + threads - 1) / threads), threads>>>(out.data(), warps, p.lanes, p.apart);
  CUDA_CHECK_LAUNCH();
}

bool pattern_is_right(const DeviceBuffer<unsigned>& out, const Pattern& p) {
  CUDA_CHECK(cudaMemset(out.data(), 0xff, out.bytes()));
  launch_pattern(out, p);
  return wrong_words(out, PatternIsRight{p.lanes, p.apart}) == 0;
}

Warp warp_of_pattern(const Pattern& p) {
  return warp_of(4, [&](unsigned lane) { return word_of_lane(p.lanes, p.apart, int(lane)); });
}

/// How many segments each of the pattern's transactions has on 2.x and 3.x: "1 + 1".
std::string segments_text(const Pattern& p) {
  std::string text;
  for (const Transaction& t : stored(warp_of_pattern(p)).list)
    text += (text.empty() ? "" : " + ") + std::to_string(t.bytes / 32);
  return text;
}

constexpr unsigned each = 4;  // words of a thread, so that one thread's words in flight do not limit the rate

/// Which of the words that are touched a thread of a block takes k-th.
__host__ __device__ size_t touched(size_t block, unsigned k, unsigned thread) {
  return (block * each + k) * threads + thread;
}

// A warp writes 32 words that stand `stride` words apart.
__global__ void write_strided(unsigned* out, size_t n, unsigned stride) {
#pragma unroll
  for (unsigned k = 0; k < each; ++k) {
    const size_t i = touched(blockIdx.x, k, threadIdx.x) * stride;
    if (i < n) out[i] = scrambled(i);
  }
}

// A warp reads 32 such words, and counts the ones that are not what write_strided writes.
__global__ void read_strided(const unsigned* in, size_t n, unsigned stride, unsigned long long* others) {
  unsigned count = 0;
#pragma unroll
  for (unsigned k = 0; k < each; ++k) {
    const size_t i = touched(blockIdx.x, k, threadIdx.x) * stride;
    if (i < n) count += in[i] != scrambled(i);
  }
  for (int distance = 16; distance > 0; distance /= 2) count += __shfl_xor_sync(0xffffffffu, count, distance);
  if (count && threadIdx.x % 32 == 0) atomicAdd(others, count);
}

struct WrittenIsRight {
  unsigned stride;
  __device__ bool operator()(size_t i, unsigned found) const { return found == (i % stride ? ~0u : scrambled(i)); }
};
struct Inverted {
  __device__ unsigned operator()(size_t i) const { return ~scrambled(i); }
};

/// An array every stride-th word of which is written or read.
struct Strided {
  DeviceBuffer<unsigned> array;
  DeviceBuffer<unsigned long long> others{1};
  explicit Strided(size_t n) : array(n) {}
  size_t words(unsigned stride) const { return (array.size() + stride - 1) / stride; }
  void launch(bool write, unsigned stride) {
    const unsigned blocks = unsigned((words(stride) + each * threads - 1) / (each * threads));
    if (write)
      write_strided<<<blocks, threads>>>(array.data(), array.size(), stride);
    else
      read_strided<<<blocks, threads>>>(array.data(), array.size(), stride, others.data());
    CUDA_CHECK_LAUNCH();
  }
  bool write_is_right(unsigned stride) {
    array.poison();
    launch(true, stride);
    return wrong_words(array, WrittenIsRight{stride}) == 0;
  }
  unsigned long long others_read(unsigned stride) {
    CUDA_CHECK(cudaMemset(others.data(), 0, others.bytes()));
    launch(false, stride);
    return others.to_host()[0];
  }
  bool all_are_others(unsigned stride) { return fill(array, Inverted{}), others_read(stride) == words(stride); }
  bool none_is_another(unsigned stride) { return fill(array, Scrambled{}), others_read(stride) == 0; }
  bool read_is_right(unsigned stride) { return all_are_others(stride) && none_is_another(stride); }
};

int strided_sectors(unsigned stride) {
  return sectors(warp_of(4, [&](unsigned lane) { return touched(0, 0, lane) * stride; }));
}

__device__ unsigned load(const unsigned* p) {  // through L1, and never left out or moved
  unsigned value;
  asm volatile("ld.global.ca.u32 %0, [%1];" : "=r"(value) : "l"(p) : "memory");
  return value;
}

constexpr const char* after[] = {"nothing, from L2", "a load", "a store", "a load and a store"};
constexpr unsigned places = 256, apart = 64;  // places where a load is tried, words between them
// One lane, at places 256 bytes apart, in turn: cycles of a load from a place that was not touched, was loaded, was
// stored to, or both. A load must bring 0, or after a store 7; else -1 cycles.
__global__ void load_after(unsigned* data, long long* cycles) {
  unsigned other = 0;
  for (unsigned i = 0; i < places; ++i) {
    unsigned* p = data + i * apart;
    if (i % 4 == 1 || i % 4 == 3) other += load(p);
    if (i % 4 >= 2) asm volatile("st.global.u32 [%0], %1;" ::"l"(p), "r"(7) : "memory");
    for (const long long wait = clock64(); clock64() < wait + 4000;) continue;  // until all that has long arrived
    const long long begin = clock64();
    const unsigned value = load(p);
    // the clock is read if the value is right, and so not before it is there
    cycles[i] = value == (i % 4 >= 2 ? 7 : 0) && other == 0 ? clock64() - begin : -1;
  }
}

/// Cycles of the load after each of the four; throws WrongResult unless every load was right.
std::array<Statistics, 4> cycles_after() {
  const DeviceBuffer<unsigned> data(places * apart);
  DeviceBuffer<long long> cycles(places);
  for (int turn = 0; turn < 2; ++turn) {  // the first loads the code
    CUDA_CHECK(cudaMemset(data.data(), 0, data.bytes()));
    cycles.poison();  // -1
    load_after<<<1, 1>>>(data.data(), cycles.data());
    CUDA_CHECK_LAUNCH();
  }
  std::vector<double> kind[4];
  for (unsigned i = 0; const long long counted : cycles.to_host()) {
    require_right(counted > 0, "what a load finds after a store");
    kind[i++ % 4].push_back(double(counted));
  }
  return {summarize(kind[0]), summarize(kind[1]), summarize(kind[2]), summarize(kind[3])};
}

constexpr unsigned strides[] = {1, 2, 4, 8, 16, 32};
const Claim same_rules{"03.10", "writes obey the same rules as reads", "8800 GTX", "tens of GB/s if coalesced"};

}  // namespace

void stores(const Run& run) {
  size_t n = size_t(1) << (run.quick ? 24 : 28);
  if (run.device) n = shrunk_to_fit(4 * n) / 4;
  run.report.begin("stores", "words of 4 bytes written to " + bytes_text(4.0 * double(n)));
  std::optional<Strided> work;
  if (run.device) work.emplace(n);

  Table segments(run.report, "one store of a warp",
                 {shown("segments on 2.x, 3.x"), predicted("sectors/request", "sectors a request", "", 0),
                  measured("median ms", "time", "ms", 4), shown("spread"), measured("GB/s", "bandwidth", "GB/s", 0)});
  for (const Pattern& p : patterns) {
    std::vector<Cell> cells{segments_text(p), double(sectors(warp_of_pattern(p))), {}, {}, {}};
    if (run.device) {
      require_right(pattern_is_right(work->array, p), p.name);
      const Statistics ms = time_device(run.measuring, [&] { launch_pattern(work->array, p); });
      cells[2] = ms, cells[3] = spread_text(ms), cells[4] = gigabytes_per_second(4.0 * p.lanes * double(n / slot), ms);
    }
    segments.row({p.name}, cells);
  }
  segments.print();

  Table table(run.report, "stride, words",
              {predicted("sectors/request", "sectors a request", "", 0), measured("median ms", "time", "ms", 4),
               shown("spread"), measured("GB/s", "bandwidth", "GB/s", 0), shown("to stride 1")});
  Statistics rate[2][33];  // GB/s of words; [write][stride]
  for (const bool write : {false, true})
    for (const unsigned stride : strides) {
      std::vector<Cell> cells{double(strided_sectors(stride)), {}, {}, {}, {}};
      const Key key{write ? "write" : "read", "stride, words", std::to_string(stride)};
      if (run.device) {
        require_right(write ? work->write_is_right(stride) : work->read_is_right(stride), key.name + " " + key.at);
        const Statistics ms = time_device(run.measuring, [&] { work->launch(write, stride); });
        Statistics& gbs = rate[write][stride] = gigabytes_per_second(4.0 * double(work->words(stride)), ms);
        cells = {cells[0], ms, spread_text(ms), gbs, times(gbs.median / rate[write][1].median)};
      }
      table.row(key, cells);
    }
  table.print();
  if (!run.device) return run.report.left_out("the times, and a load after a store", {same_rules});

  const auto cycles = cycles_after();
  Table latency(run.report, "a load after", {measured("cycles", "latency", "cycles", 0), shown("spread")});
  for (unsigned kind = 0; kind < 4; ++kind) latency.row({after[kind]}, {cycles[kind], spread_text(cycles[kind])});
  latency.print();

  // at 8 words the sectors of a request have reached 32: a lane has one for itself
  const double reads_lose = rate[0][1].median / rate[0][8].median;
  Judgement judged = judge_ratio(rate[1][1], rate[1][8], reads_lose);
  judged.here = "8 words apart writes lose " + times(judged.value) + ", reads " + times(reads_lose);
  if (n < run.device->l2_bytes()) judged = not_judged("the array is less than four times the L2");
  run.report.claim(same_rules, judged);
}

// ---- self-checks ----------------------------------------------------------------------------------------------------

namespace {

std::vector<CountedLaunch> counted_launches() {
  std::vector<CountedLaunch> all;
  for (const Pattern& p : patterns)
    all.push_back({"store_pattern", p.name, 0, double(sectors(warp_of_pattern(p))),
                   [=] { return pattern_is_right(DeviceBuffer<unsigned>(1000 * slot), p); }});
  for (const unsigned stride : strides) {
    const double wanted = strided_sectors(stride);
    const std::string name = "stride " + std::to_string(stride);
    all.push_back({"write_strided", name, 0, wanted, [=] { return Strided(1 << 18).write_is_right(stride); }});
    all.push_back({"read_strided", name, wanted, 0, [=] { return Strided(1 << 18).all_are_others(stride); }});
  }
  return all;
}

}  // namespace

TEST_CASE("stores: the segments are those of the text and no two lanes write the same word") {
  const char* text[] = {"4", "2", "1", "1 + 1 + 1"};
  for (int p = 0; p < 4; ++p) CHECK(segments_text(patterns[p]) == text[p]);
  for (unsigned stride : strides) CHECK(strided_sectors(stride) == std::min(4 * stride, 32u));
  for (const Pattern& p : patterns) {
    std::vector<int> written(slot);
    for (int lane = 0; lane < p.lanes; ++lane) ++written.at(word_of_lane(p.lanes, p.apart, lane));
    CHECK(*std::max_element(written.begin(), written.end()) == 1);
  }
  std::vector<int> words(3 * each * threads);
  for (size_t i = 0; i < words.size(); ++i) ++words.at(touched(i / each / threads, i / threads % each, i % threads));
  CHECK(words == std::vector<int>(words.size(), 1));
}

TEST_CASE("stores: patterns and strides and loads after stores are right at awkward sizes") {
  if (skip_without_gpu()) return;
  for (const Pattern& p : patterns)
    for (size_t warps : {1, 7, 1009, 40009}) {
      const DeviceBuffer<unsigned> out(warps * slot);
      CHECK(pattern_is_right(out, p));
      CHECK(wrong_words(out, PatternIsRight{p.lanes - 1, p.apart}) == warps);  // the check can fail
    }
  for (unsigned stride : {1, 2, 7, 8, 32, 33})
    for (size_t n : {1, 31, 1025, 100003, 5000011}) {
      CAPTURE(std::to_string(n) + " words, stride " + std::to_string(stride));
      Strided work(n);
      CHECK(work.write_is_right(stride));
      CHECK(work.read_is_right(stride));
    }
  for (const Statistics& s : cycles_after()) CHECK(s.low > 0);  // throws WrongResult unless every value is right
}

TEST_CASE("stores: profile launches") {
  if (skip_without_gpu()) return;
  launch_counted(counted_launches());
}

TEST_CASE("stores: counted sectors equal the model") { compare_with_counters(counted_launches()); }
