// overlap: can the copies and the kernel work at the same time? Transfers can throttle a program if
// they are not managed properly, says the wiki, and does not say how [LC 2]: no claim to judge. The
// answer is a pipeline. The array goes in chunks, and each chunk goes up, through the kernel, and
// down in a stream of its own. While one chunk is copied, the kernel works on another.
//
// Look at one stream, at two, and at pageable memory: where do chunks gain nothing? And why?
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o overlap overlap.cu ../common/*.cpp
//
//   1  mix        the work between the copies
//   2  Trip::run  chunk after chunk through the streams
#include <algorithm>

#include "../common/arrays.cuh"
#include "../common/sample.hpp"
#include "host.hpp"

namespace {

// ---- the kernel ----

constexpr unsigned block_threads = 256;
constexpr int mix_rounds = 240;  // on an H100 the kernel takes less than half as long as a copy

// Each warp reads 32 neighbouring words, computes for long, and writes 32 neighbouring words.
__global__ void mix(unsigned* out, const unsigned* in, size_t n, int rounds) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i >= n) return;
  unsigned x = in[i];
  for (int r = 0; r < rounds; ++r) {
    x = x * 1664525u + 1013904223u;
    x ^= x >> 16;
  }
  out[i] = x;
}

/// An independent implementation, for the check: a step of a generator modulo 2^32, then the upper
/// half onto the lower.
__host__ __device__ unsigned mixed(unsigned word, int rounds) {
  for (int r = 0; r < rounds; ++r) {
    const unsigned long long step = (1664525ull * word + 1013904223ull) % (1ull << 32);
    word = unsigned(step ^ step / 65536);
  }
  return word;
}

struct Input {
  __host__ __device__ unsigned operator()(size_t i) const { return hash(i); }
};
struct Result {
  __host__ __device__ unsigned operator()(size_t i) const { return mixed(hash(i), mix_rounds); }
};

// ---- the pipeline ----

enum Stage { up, kernel, down };
constexpr const char* stage_names[] = {"up", "kernel", "down"};
constexpr int most_streams = 4;

/// The first word of chunk i; that of chunk `chunks` is n. Chunks differ by one word at most.
size_t chunk_begin(size_t n, int chunks, int i) { return n * size_t(i) / size_t(chunks); }

/// A stream that waits for the default stream, and for which the default stream waits.
std::shared_ptr<CUstream_st> waiting_stream() {
  cudaStream_t stream = nullptr;
  CUDA_CHECK(cudaStreamCreate(&stream));
  return {stream, [](cudaStream_t s) { cudaStreamDestroy(s); }};
}

/// n words that go from the host through the device back to the host. The host's arrays are the
/// caller's. A copy of a trip has the same memory and streams.
struct Trip {
  size_t n;
  const unsigned* from;
  unsigned* to;
  GuardedBuffer<unsigned> in, out;
  GuardedBuffer<unsigned> seen;  // what the host has got, for the device to look at
  std::shared_ptr<CUstream_st> streams[most_streams];
  Event begin;

  Trip(size_t n, unsigned* from, unsigned* to) : n(n), from(from), to(to), in(n), out(n), seen(n) {
    const DeviceBuffer<unsigned> input = filled<unsigned>(n, Input{});
    CUDA_CHECK(cudaMemcpy(from, input, input.bytes(), cudaMemcpyDeviceToHost));
    for (auto& stream : streams) stream = waiting_stream();
  }

  /// One stage's work on `count` words from `first`.
  void work(Stage stage, size_t first, size_t count, cudaStream_t stream) const {
    const size_t bytes = count * sizeof(unsigned);
    if (stage == up)
      CUDA_CHECK(cudaMemcpyAsync(in + first, from + first, bytes, cudaMemcpyHostToDevice, stream));
    if (stage == kernel) {
      const unsigned blocks = unsigned(ceil_div(count, block_threads));
      mix<<<blocks, block_threads, 0, stream>>>(out + first, in + first, count, mix_rounds);
      CUDA_CHECK_LAUNCH();
    }
    if (stage == down)
      CUDA_CHECK(cudaMemcpyAsync(to + first, out + first, bytes, cudaMemcpyDeviceToHost, stream));
  }

  /// Queues all chunks, and waits for none. `marks`: four events per chunk, around its stages.
  void run(int chunks, int stream_count, const std::vector<Event>* marks = nullptr) const {
    CUDA_CHECK(cudaEventRecord(begin));  // in the default stream: what was queued before ends first
    for (int i = 0; i < chunks; ++i) {
      const cudaStream_t stream = streams[i % stream_count].get();
      const size_t first = chunk_begin(n, chunks, i);
      const size_t count = chunk_begin(n, chunks, i + 1) - first;
      if (count == 0) continue;  // more chunks than words
      if (marks) CUDA_CHECK(cudaEventRecord((*marks)[4 * i], stream));
      for (const Stage stage : {up, kernel, down}) {  // in their order: they are in one stream
        work(stage, first, count, stream);
        if (marks) CUDA_CHECK(cudaEventRecord((*marks)[4 * i + stage + 1], stream));
      }
    }
  }

  void poison(Stage stage) const {
    if (stage == up) in.poison();
    if (stage == kernel) out.poison();
    if (stage != down) return;
    seen.poison();
    CUDA_CHECK(cudaMemcpy(to, seen, seen.bytes(), cudaMemcpyDeviceToHost));
  }
  std::string find_error(Stage stage) const {
    if (stage == up) return find_mismatch(in, Input{});
    if (stage == kernel) return find_mismatch(out, Result{});
    CUDA_CHECK(cudaMemcpy(seen, to, seen.bytes(), cudaMemcpyHostToDevice));
    return find_mismatch(seen, Result{});
  }
};

/// Of work that does these stages. It finds what the stages before have left.
Check check(const Trip& trip, const std::vector<Stage>& does) {
  const auto poison = [=] {
    for (const Stage stage : does) trip.poison(stage);
  };
  const auto find_first_error = [=] {
    std::string error;
    for (const Stage stage : does)
      if (error.empty()) error = trip.find_error(stage);
    return error;
  };
  return {poison, find_first_error};
}

std::string name_of(int chunks, int streams) {
  return "chunks: " + std::to_string(chunks) + ", streams: " + std::to_string(streams);
}

Benchmark pipeline(const Trip& trip, int chunks, int streams) {
  return {.name = name_of(chunks, streams),
          .work = [=] { trip.run(chunks, streams); },
          .check = check(trip, {up, kernel, down})};
}

// ---- prediction ----

/// What the whole array takes, in milliseconds.
struct Cost {
  double up, kernel, down;
  double both;    ///< both copies at once: they slow each other down
  double change;  ///< from one engine to another: what an operation costs besides its work

  double sum() const { return up + kernel + down; }
  /// No pipeline is faster than its slowest part.
  double limit() const { return std::max(both, kernel); }
  /// Each operation waits for the one before, which is another engine's.
  double in_one_stream(int chunks) const { return sum() + 3 * chunks * change; }
  /// The first chunk passes its stages alone. Then a chunk is down each time that the slowest part
  /// has done one: if the streams hold enough chunks for all parts.
  double overlapped(int chunks) const {
    return (sum() + (chunks - 1) * limit()) / chunks + (chunks + 2) * change;
  }
};

// ---- the time line ----

/// When each stage of each chunk began, and how long it took: in the CSV, for the figure.
void save_time_line(Run& run, const Trip& trip, int chunks) {
  const std::vector<Event> marks(size_t(4 * chunks));
  trip.run(chunks, most_streams);  // warms up
  trip.run(chunks, most_streams, &marks);
  CUDA_CHECK(cudaDeviceSynchronize());
  const auto us_at = [&](int mark) {
    float ms = 0;
    CUDA_CHECK(cudaEventElapsedTime(&ms, trip.begin, marks[size_t(mark)]));
    return 1e3 * ms;
  };
  std::vector<Table> streams;
  for (int s = 0; s < most_streams; ++s)
    streams.push_back({"stream " + std::to_string(s),
                       {"since the first, us", "lasts, us", "up", "kernel", "down"}});
  double engine_free[3] = {};
  for (int i = 0; i < chunks; ++i)
    for (const Stage stage : {up, kernel, down}) {
      // The mark before a stage says when its stream was free. Its engine may have been busy.
      const double begin = std::max(us_at(4 * i + stage), engine_free[stage]);
      engine_free[stage] = us_at(4 * i + stage + 1);
      const auto one_of = [stage](Stage which) { return stage == which ? Cell(1) : Cell(""); };
      streams[size_t(i % most_streams)].row(
          "chunk " + std::to_string(i) + ", " + stage_names[stage],
          {begin, engine_free[stage] - begin, one_of(up), one_of(kernel), one_of(down)});
    }
  for (const Table& stream : streams) run.save(stream);
}

// ---- the experiment ----

constexpr int chunk_counts[] = {1, 2, 4, 8, 16};
constexpr int stream_counts[] = {1, 2, 4};

constexpr int small_chunks = 48;  // none of the counts above, since it names its pipeline
constexpr size_t small_words = 64 * KiB / sizeof(unsigned);  // of a small chunk

/// Each stage alone, the copies both ways, small chunks, and all pipelines, in turn.
Timings time_pinned(const Timer& timer, const Trip& trip, const Trip& small) {
  const auto alone = [=](const char* name, Stage stage) {
    return Benchmark{.name = name,
                     .work = [=] { trip.work(stage, 0, trip.n, nullptr); },
                     .check = check(trip, {stage})};
  };
  const auto both = [=] {
    trip.work(up, 0, trip.n, trip.streams[0].get());
    trip.work(down, 0, trip.n, trip.streams[1].get());
  };
  std::vector<Benchmark> all = {
      alone("up", up),
      alone("kernel", kernel),
      alone("down", down),
      {.name = "up and down at once", .work = both, .check = check(trip, {up, down})},
      pipeline(small, small_chunks, 1)};
  for (const int chunks : chunk_counts)
    for (const int streams : stream_counts) all.push_back(pipeline(trip, chunks, streams));
  return timer.interleaved(all);
}

/// A pipeline from and to memory that no copy engine can follow.
Timings time_pageable(const Timer& timer, size_t n, int chunks) {
  std::vector<unsigned> from(n), to(n);
  const Trip trip(n, from.data(), to.data());
  return timer.interleaved({pipeline(trip, chunks, 1), pipeline(trip, chunks, 4)});
}

}  // namespace

void overlap(Run& run) {
  const size_t by_default = (run.quick ? 8 : 32) * MiB / sizeof(unsigned);
  const size_t n = run.fitting_on_host(run.fitting(by_default, 32), 16);
  const double bytes = double(n * sizeof(unsigned));
  run.title(bytes_text(bytes) + " copied up, mixed, and copied down");
  Timer timer = run.timer;
  timer.rounds = 12;
  const size_t n_small = small_chunks * small_words;
  const PinnedBuffer<unsigned> from(std::max(n, n_small)), to(std::max(n, n_small));
  const Trip trip(n, from, to), small(n_small, from, to);
  const Timings timed = time_pinned(timer, trip, small);

  Table alone("a stage of the whole array", {"ms", "GB/s each way"});
  for (const char* name : {"up", "kernel", "down", "up and down at once"})
    alone.row(name, {timed[name].ms_interval(), timed[name].gbs_interval(bytes)});
  run.print(alone);

  const auto ms = [&timed](const char* name) { return timed[name].median(); };
  Cost cost = {ms("up"), ms("kernel"), ms("down"), ms("up and down at once"), 0};
  const double small_ms = timed[name_of(small_chunks, 1)].median();
  const double small_work_ms = cost.sum() * double(n_small) / double(n);
  cost.change = std::max(0.0, small_ms - small_work_ms) / (3 * small_chunks);
  int best = 1;  // chunks in 4 streams
  Table table("ms: chunks",
              {"1 stream", "predicted 1", "2 streams", "4 streams", "predicted 4", "gain"});
  for (const int chunks : chunk_counts) {
    const Times& in_four = timed[name_of(chunks, 4)];
    table.row(std::to_string(chunks),
              {timed[name_of(chunks, 1)].ms_interval(), cost.in_one_stream(chunks),
               timed[name_of(chunks, 2)].ms_interval(), in_four.ms_interval(),
               cost.overlapped(chunks), ratio(timed[name_of(1, 1)], in_four)});
    if (in_four.median() < timed[name_of(best, 4)].median()) best = chunks;
  }
  const Timings pageable = time_pageable(timer, n, best);
  table.row(std::to_string(best) + ", pageable",
            {pageable[name_of(best, 1)].ms_interval(), "", "-",
             pageable[name_of(best, 4)].ms_interval(), "", ""});
  run.print(table);
  run.note("gain: of 4 streams over one chunk in one stream");
  run.note("predicted: from the stages alone, and " + digits(1e3 * cost.change) +
           " us for each change of engine");
  run.note("a change: in one stream " + std::to_string(small_chunks) + " chunks of 64 KiB take " +
           digits(small_ms) + " ms");
  run.note("pageable: the host carries the bytes to and from a pinned buffer of the driver");
  save_time_line(run, trip, best);
  require_below_link("up and down at once", 2 * bytes * 1e-6 / cost.both, run.gpu, 2);
  const double best_ms = timed[name_of(best, 4)].median();
  require_below_link("a pipeline", bytes * 1e-6 / best_ms, run.gpu);
  if (best_ms < 0.9 * cost.limit())
    throw WrongResult("the pipeline is faster than its slowest part");
  if (best_ms > 1.1 * cost.in_one_stream(1))
    throw WrongResult("the pipeline is slower than its parts one after the other");
}
SAMPLE(8, overlap, "copies and kernels at the same time, in streams");

TEST_CASE("overlap: chunks cover every word once") {
  for (const size_t n : {1, 2, 31, 1009, 1000003})
    for (const int chunks : {1, 2, 3, 16, 64}) {
      CHECK(chunk_begin(n, chunks, 0) == 0);
      CHECK(chunk_begin(n, chunks, chunks) == n);
      for (int i = 0; i < chunks; ++i) {  // n / chunks, rounded down or up
        const size_t count = chunk_begin(n, chunks, i + 1) - chunk_begin(n, chunks, i);
        CHECK(count - n / size_t(chunks) <= (n % size_t(chunks) > 0));
      }
    }
}

TEST_CASE("overlap: from the sum of the stages to the slowest, by hand") {
  const Cost copies = {1, 0.5, 1, 1.2, 0}, slow_kernel = {1, 5, 1, 1.2, 0};
  CHECK(copies.overlapped(1) == doctest::Approx(2.5));
  CHECK(copies.overlapped(4) == doctest::Approx(2.5 / 4 + 3 * 0.3));
  CHECK(copies.overlapped(10000) == doctest::Approx(1.2).epsilon(0.001));
  CHECK(slow_kernel.overlapped(10) == doctest::Approx(0.1 + 5 + 0.1));  // a copy at either end
  const Cost changing = {1, 0.5, 1, 1.2, 0.01};  // three changes a chunk; overlapped, one each
  CHECK(changing.in_one_stream(4) == doctest::Approx(2.5 + 0.12));
  CHECK(changing.overlapped(4) == doctest::Approx(2.5 / 4 + 3 * 0.3 + 0.06));
}

TEST_CASE("overlap: the reference, by hand") {
  CHECK(mixed(7, 0) == 7);
  CHECK(mixed(0, 1) == 0x3c6ecf31u);  // 1013904223 is 0x3c6ef35f
}

TEST_CASE("overlap: a pipeline is right at awkward sizes and writes nothing behind the end") {
  if (skip_without_gpu()) return;
  constexpr unsigned canary = 0x5a5a5a5a;
  for (const size_t n : {1, 31, 1009, 1000003}) {
    const PinnedBuffer<unsigned> from(n), to(n + 1);
    std::vector<unsigned> ordinary_from(n), ordinary_to(n + 1);
    to[n] = ordinary_to[n] = canary;
    const Trip pinned(n, from, to), pageable(n, ordinary_from.data(), ordinary_to.data());
    for (const Trip* trip : {&pinned, &pageable})
      for (const int chunks : {1, 2, 7, 16})
        for (const int streams : {1, 2, 3, 4}) {
          const Benchmark whole = pipeline(*trip, chunks, streams);
          CAPTURE(n);
          CAPTURE(whole.name);
          whole.check.poison();
          CHECK(whole.check.find_error() != "");  // nothing is done yet
          trip->run(chunks, streams);
          CUDA_CHECK(cudaDeviceSynchronize());
          CHECK(whole.check.find_error() == "");
          CHECK(trip->to[n] == canary);
        }
  }
}
