// overlap: the text warns that transfers can hold a whole program back, and leaves the remedy to the reader. It is
// this: in three streams one chunk is copied in, the one before is computed, and the one before that is copied out.
// Then one waits for the slowest stage only, but for the first chunk's way in and the last one's way out. Look at the
// timeline, at how near the limit more chunks come, and at pageable memory, where the same code overlaps nothing.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>

#include "../common/host_threads.hpp"
#include "../common/first_edition.hpp"
#include "host_memory.hpp"
#include "options.hpp"

namespace {

/// Rounds of a hash of x: work whose amount is chosen freely and whose result is exact.
__host__ __device__ unsigned hashed(unsigned x, int rounds) {
  for (int r = 0; r < rounds; ++r) {
    x = x * 1664525u + 1013904223u;
    x ^= x >> 16;
  }
  return x;
}

// Each warp reads 32 neighbouring words, computes for long, and writes 32 neighbouring words.
__global__ void hash(unsigned* out, const unsigned* in, size_t n, int rounds) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < n) out[i] = hashed(in[i], rounds);
}

/// The first element of chunk `i` of `chunks`; that of chunk `chunks` is n. The chunks differ by one element at most.
size_t chunk_begin(size_t n, int chunks, int i) { return n * size_t(i) / size_t(chunks); }

// ---- input and reference: both repeat after a prime, so that no chunk can stand in another's place ------------------

constexpr size_t period = 1021;

unsigned input(size_t i) { return unsigned(i % period) * 2654435761u + 1; }

/// Calls `work(first, end)` for eight parts of 0 to n, each a whole number of periods but the last, at the same time.
template <class Work>
bool in_parts(size_t n, const Work& work) {
  const size_t each = (n / 8 / period + 1) * period;
  std::atomic<bool> all = true;
  on_threads((n + each - 1) / each, [&](size_t part) {
    if (!work(part * each, std::min(n, (part + 1) * each))) all = false;
  });
  return all;
}

void fill(unsigned* in, size_t n) {
  in_parts(n, [=](size_t first, size_t end) {
    for (size_t i = first; i < end; ++i) in[i] = i < first + period ? input(i) : in[i - period];
    return true;
  });
}

bool right(const unsigned* out, size_t n, int rounds) {
  std::vector<unsigned> expected(period);
  for (size_t i = 0; i < period; ++i) expected[i] = hashed(input(i), rounds);
  return in_parts(n, [&, out](size_t first, size_t end) {
    for (size_t i = first; i < end; i += period)
      if (std::memcmp(out + i, expected.data(), std::min(period, end - i) * sizeof(unsigned))) return false;
    return true;
  });
}

// ---- the prediction -------------------------------------------------------------------------------------------------

enum Stage { copy_in, kernel, copy_out };
constexpr const char* stage_names[] = {"copy in", "kernel", "copy out"};

/// Milliseconds of each stage for the whole array, alone, and of both copies at once.
struct StageTimes {
  double alone[3], both_copies;
};

/// No pipeline can be faster than its slowest part, and copies are slower while they run both ways.
double limit_ms(const StageTimes& t) { return std::max(t.both_copies, t.alone[kernel]); }

/// The first chunk passes all three stages; each later one ends one chunk's share of the limit after the one before.
double predicted_ms(const StageTimes& t, int chunks) {
  return (t.alone[copy_in] + t.alone[kernel] + t.alone[copy_out] + (chunks - 1) * limit_ms(t)) / chunks;
}

// ---- the pipeline ---------------------------------------------------------------------------------------------------

constexpr int most_chunks = 128;
constexpr double kernel_share = 0.5;  // of a copy's time: comparable, and not the limit

/// When a stage worked on a chunk, in milliseconds since the pipeline began.
struct Span {
  int stage, chunk;
  double start, end;
};

/// n words that go from the host through the device back to the host: a stream for each stage, and events by which the
/// streams wait for one another. The caller keeps the host's arrays.
struct Pipeline {
  const unsigned* from;
  unsigned* to;
  size_t n;
  int rounds;
  DeviceBuffer<unsigned> in{n}, out{n};
  Stream streams[3] = {};
  Event begin;
  // what the streams wait for; an event that also takes the time holds up the copies around it for microseconds
  std::vector<Event> ended;
  std::vector<Event> start = std::vector<Event>(3 * most_chunks), stop = std::vector<Event>(3 * most_chunks);

  Pipeline(const unsigned* from, unsigned* to, size_t n, int rounds) : from(from), to(to), n(n), rounds(rounds) {
    for (int e = 0; e < 3 * most_chunks; ++e) ended.emplace_back(cudaEventDisableTiming);
  }

  /// One stage's work on `count` words from `first`.
  void work(int stage, size_t first, size_t count, cudaStream_t stream) const {
    const size_t bytes = count * sizeof(unsigned);
    unsigned *d_in = in.data() + first, *d_out = out.data() + first;
    if (stage == copy_in) CUDA_CHECK(cudaMemcpyAsync(d_in, from + first, bytes, cudaMemcpyHostToDevice, stream));
    if (stage == copy_out) CUDA_CHECK(cudaMemcpyAsync(to + first, d_out, bytes, cudaMemcpyDeviceToHost, stream));
    if (stage != kernel) return;
    hash<<<unsigned((count + 255) / 256), 256, 0, stream>>>(d_out, d_in, count, rounds);
    CUDA_CHECK_LAUNCH();
  }
  /// All streams wait for what the default stream has been given so far.
  void fork() const {
    begin.record();
    for (const Stream& stream : streams) CUDA_CHECK(cudaStreamWaitEvent(stream, begin, 0));
  }
  /// Queues it all; the default stream goes on when the last chunk is out. `noted`: takes the times, for spans().
  void run(int chunks, bool noted = false) const {
    fork();
    for (int i = 0; i < chunks; ++i) {
      const size_t first = chunk_begin(n, chunks, i), count = chunk_begin(n, chunks, i + 1) - first;
      if (!count) continue;  // more chunks than words; the last chunk always has one
      for (int s = 0; s < 3; ++s) {
        if (s > 0) CUDA_CHECK(cudaStreamWaitEvent(streams[s], ended[3 * i + s - 1], 0));
        if (noted) start[3 * i + s].record(streams[s]);
        work(s, first, count, streams[s]);
        if (noted) stop[3 * i + s].record(streams[s]);
        ended[3 * i + s].record(streams[s]);
      }
    }
    CUDA_CHECK(cudaStreamWaitEvent(nullptr, ended[3 * (chunks - 1) + copy_out], 0));
  }
  /// Copies all in and all out at once, each way in so many chunks that wait for nothing.
  void both_copies(int chunks) const {
    fork();
    for (int i = 0; i < chunks; ++i) {
      const size_t first = chunk_begin(n, chunks, i), count = chunk_begin(n, chunks, i + 1) - first;
      for (int s : {copy_in, copy_out})
        if (count) work(s, first, count, streams[s]);
    }
    for (int s : {copy_in, copy_out}) {
      ended[s].record(streams[s]);
      CUDA_CHECK(cudaStreamWaitEvent(nullptr, ended[s], 0));
    }
  }
  /// True if the whole result arrives on the host. All three arrays that are written are poisoned before.
  bool carries(int chunks) {
    in.poison(), out.poison();
    work(copy_out, 0, n, nullptr);
    CUDA_CHECK(cudaDeviceSynchronize());
    run(chunks);
    CUDA_CHECK(cudaDeviceSynchronize());
    return right(to, n, rounds);
  }
  /// Runs once; no chunk may be empty.
  std::vector<Span> spans(int chunks) const {
    run(chunks, true);
    CUDA_CHECK(cudaDeviceSynchronize());
    std::vector<Span> all;
    for (int e = 0; e < 3 * chunks; ++e)
      all.push_back({e % 3, e / 3, start[e].ms_since(begin), stop[e].ms_since(begin)});
    return all;
  }
};

/// A stage's line of the timeline: `columns` for `total` ms, each chunk drawn as the last digit of its number.
std::string lane(const std::vector<Span>& spans, int stage, double total, int columns) {
  std::string line(size_t(columns), ' ');
  for (const Span& span : spans) {
    const int first = std::clamp(int(std::lround(span.start / total * columns)), 0, columns - 1);
    const int end = std::clamp(int(std::lround(span.end / total * columns)), first + 1, columns);
    if (span.stage == stage) std::fill(line.begin() + first, line.begin() + end, char('0' + span.chunk % 10));
  }
  return line;
}

/// Four chunks: drawn, and saved.
void draw_timeline(Report& report, const Pipeline& pipeline) {
  const int chunks = int(std::min<size_t>(4, pipeline.n));
  const std::vector<Span> spans = pipeline.spans(chunks);
  const double total = spans.back().end;  // the last chunk's copy out
  report.note("timeline of " + std::to_string(chunks) + " chunks, 0 to " + fixed(total, 3) + " ms:");
  for (int s = 0; s < 3; ++s)
    report.note(stage_names[s] + std::string(10 - std::strlen(stage_names[s]), ' ') + lane(spans, s, total, 60));
  for (const auto& [stage, chunk, start, end] : spans) {
    report.save({"", stage_names[stage], "chunk", std::to_string(chunk), "measured", "start", "ms", start});
    report.save({"", stage_names[stage], "chunk", std::to_string(chunk), "measured", "end", "ms", end});
  }
}

}  // namespace

void overlap(const Run& run, const Options& options) {
  const size_t wanted = options.size ? options.size : size_t(run.quick ? 32 : run.full ? 1024 : 512) << 20;
  size_t n = std::max<size_t>(1, wanted / sizeof(unsigned));
  if (run.device) {
    // twice each; the device keeps a tenth for others
    const double there = std::min(double(pinned_budget()), 0.9 * double(Device::free_bytes())) / 2;
    if (options.size) require_fits("overlap: each of two pinned arrays and two on the device", double(wanted), there);
    while (n > 1 && double(n) * sizeof(unsigned) > there) n /= 2;
  }
  const double bytes = double(n) * sizeof(unsigned);
  run.report.begin("overlap", bytes_text(bytes) + " copied in, hashed, and copied out, in chunks" +
                                  (2 * bytes <= double(wanted) ? " (shrunk to fit the device and the host)" : ""));
  std::vector<int> chunk_counts{1, 2, 4, 8, 16, 32, 64};
  if (run.full) chunk_counts.push_back(most_chunks);
  if (!run.device) {
    constexpr StageTimes toy{{1, kernel_share, 1}, 1};
    Table model(run.report, "chunks", {predicted("time (a copy: 1, the kernel: 0.5)", "time in copies", "", 3)});
    for (int k : chunk_counts) model.row({"", "chunks", std::to_string(k)}, {predicted_ms(toy, k)});
    model.print();
    return run.report.left_out("the pipeline and its timeline");
  }

  const PinnedBuffer<unsigned> from(n), to(n);
  fill(from.data(), n);
  Pipeline pipeline{from.data(), to.data(), n, 64};  // rounds on trial: their number gives the kernel's time
  const auto time_alone = [&](const Measuring& measuring, int stage) {
    return time_device(measuring, [&] { pipeline.work(stage, 0, n, nullptr); });
  };
  const double copy_ms = time_alone({.repeats = 3}, copy_in).median,
               trial_ms = time_alone({.repeats = 3}, kernel).median;
  pipeline.rounds = int(std::clamp(std::round(pipeline.rounds * kernel_share * copy_ms / trial_ms), 1.0, 1e6));
  for (int k : chunk_counts) require_right(pipeline.carries(k), "overlap, " + std::to_string(k) + " chunks");

  Measuring measuring = run.measuring;
  measuring.budget_ms = run.full ? 250 : 60;  // by default the whole experiment is to take two seconds
  Table table(run.report, "stage alone, or chunks",
              {measured("median ms", "time", "ms", 3), shown("spread"), measured("GB/s each way", "rate", "GB/s", 1),
               predicted("predicted ms", "time", "ms", 3), shown("gain"), shown("of limit"), shown("")});
  StageTimes stages{};
  for (int s = 0; s < 3; ++s) {
    const Statistics ms = time_alone(measuring, s);
    table.row({stage_names[s]}, {ms, spread_text(ms), gigabytes_per_second(bytes, ms), {}, {}, {}, ""});
    stages.alone[s] = ms.median;
  }
  stages.both_copies = INFINITY;  // the limit is the faster of two ways: a single large copy is not always the fastest
  for (int k : {1, 32}) {
    const Statistics both = time_device(measuring, [&] { pipeline.both_copies(k); });
    table.row({"both copies at once, " + std::to_string(k)},
              {both, spread_text(both), gigabytes_per_second(bytes, both), {}, {}, {}, ""});
    stages.both_copies = std::min(stages.both_copies, both.median);
  }

  Statistics serial;
  double best = 0;  // share of the limit
  const auto row = [&](const std::string& memory, const Pipeline& pipe, int k, double prediction, double limit) {
    const Statistics ms = time_device(measuring, [&] { pipe.run(k); });
    if (k == 1) serial = ms;
    best = std::max(best, limit / ms.median);
    table.row({memory, "chunks", std::to_string(k)},
              {ms, spread_text(ms), gigabytes_per_second(double(pipe.in.bytes()), ms), prediction,
               times(serial.median / ms.median), std::isfinite(limit) ? fixed(100 * limit / ms.median, 1) + "%" : "-",
               bar(limit / ms.median)});
  };
  for (int k : chunk_counts) row("pinned", pipeline, k, predicted_ms(stages, k), limit_ms(stages));
  const size_t fewer = std::max<size_t>(1, n / 16);  // pageable memory is slow, and as slow with fewer words
  std::vector<unsigned> pageable_from(from.data(), from.data() + fewer), pageable_to(fewer);
  Pipeline pageable{pageable_from.data(), pageable_to.data(), fewer, pipeline.rounds};
  for (int k : {1, 16}) {
    require_right(pageable.carries(k), "overlap, pageable, " + std::to_string(k) + " chunks");
    row("pageable, a sixteenth", pageable, k, NAN, NAN);
  }
  table.print();
  run.report.note("limit: " + fixed(limit_ms(stages), 3) + " ms, the slower of kernel (" +
                  std::to_string(pipeline.rounds) + " rounds) and both copies at once; reached: " +
                  fixed(100 * best, 1) + "%; copy engines: " + std::to_string(run.device->prop.asyncEngineCount));
  draw_timeline(run.report, pipeline);
}

// ---- self-checks ----------------------------------------------------------------------------------------------------

TEST_CASE("overlap: chunks cover every element once") {
  for (size_t n : {1, 2, 31, 1009, 1000003})
    for (int chunks : {1, 2, 3, 32, 64, most_chunks}) {
      CHECK(chunk_begin(n, chunks, chunks - 1) < n);  // the last chunk, for which the pipeline waits, has an element
      CHECK((chunk_begin(n, chunks, 0) == 0 && chunk_begin(n, chunks, chunks) == n));
      for (int i = 0; i < chunks; ++i)  // the smallest and the largest: n / chunks, rounded down and up
        CHECK((chunk_begin(n, chunks, i + 1) - chunk_begin(n, chunks, i) - n / chunks <= (n % chunks > 0)));
    }
}

TEST_CASE("overlap: predicted time goes from the sum of the stages to the slowest") {
  for (int k : {1, 2, 3, 32, 1000}) {
    CHECK(predicted_ms({{1, 1, 1}, 1}, k) == doctest::Approx((k + 2.0) / k));
    CHECK(predicted_ms({{3, 1, 2}, 3}, k) == doctest::Approx(3 + 3.0 / k));
    CHECK(predicted_ms({{1, 5, 1}, 1.2}, k) == doctest::Approx(5 + 2.0 / k));
  }
  CHECK(predicted_ms({{1, 0.5, 1}, 1.2}, 4) == doctest::Approx((2.5 + 3 * 1.2) / 4));
}

TEST_CASE("overlap: a lane of the timeline") {
  const std::vector<Span> spans{
      {copy_in, 0, 0, 2.5}, {kernel, 0, 2.5, 2.6}, {copy_in, 11, 2.5, 5}, {kernel, 1, 9.99, 10}};
  CHECK(lane(spans, copy_in, 10, 8) == "0011    ");
  CHECK(lane(spans, kernel, 10, 8) == "  0    1");  // however short, a column
}

TEST_CASE("overlap: the reference finds one wrong word") {
  CHECK(hashed(0, 1) == 0x3c6ecf31u);  // 1013904223 is 0x3c6ef35f
  std::vector<unsigned> out(3 * period + 5);
  fill(out.data(), out.size());
  CHECK(right(out.data(), out.size(), 0));
  out.back() ^= 1;
  CHECK_FALSE(right(out.data(), out.size(), 0));
}

TEST_CASE("overlap: every number of chunks is right at awkward sizes") {
  if (skip_without_gpu()) return;
  for (size_t n : {1, 31, 1009, 1000003}) {
    const PinnedBuffer<unsigned> from(n), to(n);
    fill(from.data(), n);
    std::vector<unsigned> pageable_from(from.data(), from.data() + n), pageable_to(n);
    Pipeline pinned{from.data(), to.data(), n, 5}, pageable{pageable_from.data(), pageable_to.data(), n, 5};
    for (int chunks : {1, 2, 3, 4, 7, 8, 16, 31, 32, most_chunks}) {
      INFO(n, " words, ", chunks, " chunks");
      CHECK(pinned.carries(chunks));
      CHECK(pageable.carries(chunks));
      for (const Span& span : pinned.spans(int(std::min<size_t>(n, chunks))))
        CHECK((span.start >= 0 && span.end >= span.start));
    }
  }
}
