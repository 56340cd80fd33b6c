// keep_on_device: what is worth carrying? The guide leaves a step with little parallelism on the
// GPU, if its data would have to travel to the host and back [KP]. The study: with few operations
// per word, the transfers eat what the card's fast memory gains [BW].
//
// Compare the step's smallest size with a kernel, and one thread with a block: how little is "little
// parallelism"? Then compare the parts of the carried addition.
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o keep_on_device keep_on_device.cu ../common/*.cpp
//
//   1  step_by_block   1024 chains, in each of which a word needs the one before
//   2  step_by_thread  the same without any parallelism
//   3  add_to_each     one operation per word
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <memory>
#include <numeric>
#include <thread>

#include "../common/arrays.cuh"
#include "../common/sample.hpp"

namespace {

constexpr unsigned chains = 1024;     // as many as a block has threads
constexpr unsigned factor = 1664525;  // of a step: x = factor * (x before) + x, modulo 2^32

// ---- kernels ----

// One block: thread t has the chain of the words t, t + 1024, t + 2048 ... A warp reads and writes
// 32 neighbours. Only the multiplication waits for the word before; eight loads are in flight.
__global__ void __launch_bounds__(chains) step_by_block(unsigned* x, size_t n) {
  unsigned last = 0;
  size_t i = threadIdx.x;
  for (; i + 7 * chains < n; i += 8 * chains) {
    unsigned b[8];
#pragma unroll
    for (int k = 0; k < 8; ++k) b[k] = x[i + k * chains];  // load eight
#pragma unroll
    for (int k = 0; k < 8; ++k) {  // step eight times
      last = factor * last + b[k];
      x[i + k * chains] = last;
    }
  }
  for (; i < n; i += chains) {  // what is left, one at a time
    last = factor * last + x[i];
    x[i] = last;
  }
}

// One thread takes word after word of all chains: nothing is parallel.
__global__ void step_by_thread(unsigned* x, size_t n) {
  for (size_t i = 0; i < n; ++i) x[i] += factor * (i < chains ? 0 : x[i - chains]);
}

// Each warp reads 32 neighbouring words and writes 32: one operation for eight bytes.
__global__ void add_to_each(unsigned* out, const unsigned* in, size_t n) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < n) out[i] = in[i] + 1;
}

// ---- the host ----

/// All chains side by side, in the order of the words.
void step_on_host(unsigned* x, size_t n) {
  for (size_t i = chains; i < n; ++i) x[i] += factor * x[i - chains];
}

void add_on_host(unsigned* out, const unsigned* in, size_t begin, size_t end) {
  for (size_t i = begin; i < end; ++i) out[i] = in[i] + 1;
}

/// A thread for each core of the host. They exist before a clock starts, and wait for work.
class Crew {
 public:
  Crew() {
    for (size_t t = 0; t < size_; ++t)
      threads_.emplace_back([this, t] {
        for (;;) {
          begin_.arrive_and_wait();
          if (!work_) return;
          work_(n_ * t / size_, n_ * (t + 1) / size_);
          end_.arrive_and_wait();
        }
      });
  }
  ~Crew() {
    work_ = {};  // none: the threads return
    begin_.arrive_and_wait();
    for (std::thread& thread : threads_) thread.join();
  }
  size_t size() const { return size_; }

  /// Calls work(begin, end) for parts of n, one in each thread, and waits.
  void share_out(size_t n, const std::function<void(size_t begin, size_t end)>& work) {
    n_ = n;
    work_ = work;
    begin_.arrive_and_wait();
    end_.arrive_and_wait();
  }

 private:
  const size_t size_ = std::max(1u, std::thread::hardware_concurrency());
  size_t n_ = 0;
  std::function<void(size_t, size_t)> work_;
  std::barrier<> begin_{long(size_ + 1)}, end_{long(size_ + 1)};  // the threads, and who shares out
  std::vector<std::thread> threads_;
};

// ---- a step over words that are on the GPU and stay there ----

DeviceBuffer<unsigned> input(size_t n) {
  return filled<unsigned>(n, [] __device__(size_t i) { return hash(i); });
}

struct Words {
  size_t n;
  DeviceBuffer<unsigned> in = input(n);
  GuardedBuffer<unsigned> x{n};
  PinnedBuffer<unsigned> host{n};
};

void by_block(const Words& w) { step_by_block<<<1, chains>>>(w.x, w.n); }
void by_thread(const Words& w) { step_by_thread<<<1, 1>>>(w.x, w.n); }
void by_host(const Words& w) {
  CUDA_CHECK(cudaMemcpy(w.host, w.x, 4 * w.n, cudaMemcpyDeviceToHost));
  step_on_host(w.host, w.n);
  CUDA_CHECK(cudaMemcpyAsync(w.x, w.host, 4 * w.n, cudaMemcpyHostToDevice));
}

/// Each chain by itself, from its first word to its last.
std::vector<unsigned> expected(size_t n) {
  std::vector<unsigned> x(n);
  for (size_t chain = 0; chain < std::min<size_t>(n, chains); ++chain) {
    unsigned last = 0;
    for (size_t i = chain; i < n; i += chains) x[i] = last = last * factor + hash(i);
  }
  return x;
}

/// The step, and the host's wait for its end. Each run steps on from where the last one ended.
Benchmark stepping(const char* name, const Words& w, void (*step)(const Words&),
                   const DeviceBuffer<unsigned>& right) {
  const auto work = [=] {
    step(w);
    CUDA_CHECK(cudaDeviceSynchronize());
  };
  const auto poison = [=] {
    w.x.poison();
    CUDA_CHECK(cudaMemcpy(w.x, w.in, 4 * w.n, cudaMemcpyDeviceToDevice));
  };
  const auto value = [right = right.data()] __device__(size_t i) { return right[i]; };
  return {.name = name,
          .work = work,
          .check = {poison, equals(w.x, value).find_error},
          .on_host = true};
}

void judge_step(Run& run) {
  std::vector<size_t> sizes = {4, 4 * KiB, 64 * KiB, MiB};
  if (!run.quick) sizes.push_back(16 * MiB);
  std::vector<Interval> factors;
  Table table("us, a step over", {"one block", "one thread", "host and back", "host's step"});
  for (const size_t bytes : sizes) {
    const size_t n = bytes / 4;
    const bool serial = bytes <= 64 * KiB;  // a thread takes long
    const DeviceBuffer<unsigned> right(expected(n));
    const auto steps = [&] {
      const Words w{n};
      std::fill_n(w.host.data(), n, 1u);
      const auto host_step = [=] { step_on_host(w.host, w.n); };
      std::vector<Benchmark> all = {stepping("one block", w, by_block, right),
                                    stepping("host and back", w, by_host, right),
                                    {.name = "host's step", .work = host_step, .on_host = true}};
      if (serial) all.push_back(stepping("one thread", w, by_thread, right));
      return all;
    };
    const Timings timed = run.timer.with_fresh_memory(steps, 2);
    const auto us = [&](const char* name) { return Cell(timed[name].us_interval()); };
    table.row(bytes_text(double(bytes)),
              {us("one block"), serial ? us("one thread") : "-", us("host and back"),
               n > chains ? us("host's step") : "-"});
    factors.push_back(ratio(timed["host and back"], timed["one block"]));
  }
  run.print(table);
  run.note("host and back: the words are fetched, a core of the host steps, they are sent back");
  run.note("host's step: that core's part alone; -: the first word of each chain stays as it is");
  run.note("one thread: nothing is parallel; -: not measured, it would take long");
  run.claim_each({"02.8", "low-parallelism tasks that would need transfers belong on the GPU",
                  "[KP] \"Place low-parallelism tasks ... on the GPU\""},
                 factors, "time of host and back / one block", faster());
}

// ---- one operation per word, carried there and back ----

struct Arrays {
  size_t n;
  PinnedBuffer<unsigned> in{n}, out{n};
  GuardedBuffer<unsigned> device_in{n}, device_out{n};

  explicit Arrays(size_t words) : n(words) {
    CUDA_CHECK(cudaMemcpy(in, input(n), 4 * n, cudaMemcpyDeviceToHost));
  }
  void there() const { CUDA_CHECK(cudaMemcpy(device_in, in, 4 * n, cudaMemcpyHostToDevice)); }
  void add() const { add_to_each<<<unsigned(ceil_div(n, 256)), 256>>>(device_out, device_in, n); }
  void back() const { CUDA_CHECK(cudaMemcpy(out, device_out, 4 * n, cudaMemcpyDeviceToHost)); }

  void poison() const {
    device_in.poison();
    device_out.poison();
    back();
  }
  std::string find_error() const {  // the device looks at what the host has
    CUDA_CHECK(cudaMemcpy(device_out, out, 4 * n, cudaMemcpyHostToDevice));
    return find_mismatch(device_out, [] __device__(size_t i) { return hash(i) + 1; });
  }
};

/// Work that leaves the sums in the host's memory.
Benchmark adding(const char* name, const Arrays& a, const std::function<void()>& work,
                 const std::function<void()>& before = {}) {
  return {.name = name,
          .work = work,
          .check = {[a] { a.poison(); }, [a] { return a.find_error(); }},
          .on_host = true,
          .before = before};
}

void carry(const Arrays& a) {
  a.there();
  a.add();
  a.back();
}

void add_on_all_cores(const Arrays& a, Crew& crew) {
  crew.share_out(a.n, [&a](size_t begin, size_t end) { add_on_host(a.out, a.in, begin, end); });
}

void judge_carried(Run& run) {
  const size_t n = run.fitting_on_host(run.fitting((run.quick ? 4 : 16) * MiB, 8), 8);
  const double bytes = 4.0 * double(n);
  Crew crew;
  // Before the host adds, it reads as much as its caches hold: then the words come from memory.
  const size_t cache = size_t(std::max(0l, sysconf(_SC_LEVEL3_CACHE_SIZE)));
  const size_t other_words = std::clamp(cache, 128 * MiB, 512 * MiB) / 4;
  const std::unique_ptr<unsigned[]> other(new unsigned[other_words]);
  std::atomic<unsigned> sum = 0;
  crew.share_out(other_words,
                 [&](size_t begin, size_t end) { std::fill(&other[begin], &other[end], 1u); });
  const auto fill_caches = [&] {
    crew.share_out(other_words, [&](size_t begin, size_t end) {
      sum += std::accumulate(&other[begin], &other[end], 0u);
    });
  };
  const auto additions = [&] {
    const Arrays a(n);
    const auto add_and_wait = [a] {
      a.add();
      CUDA_CHECK(cudaDeviceSynchronize());
    };
    const auto one_core = [a] { add_on_host(a.out, a.in, 0, a.n); };
    const auto all_cores = [a, &crew] { add_on_all_cores(a, crew); };
    // The parts are not checked: the whole is.
    return std::vector<Benchmark>{
        {.name = "there", .work = [a] { a.there(); }, .on_host = true},
        {.name = "addition on the GPU", .work = add_and_wait, .on_host = true},
        {.name = "back", .work = [a] { a.back(); }, .on_host = true},
        adding("carried there and back", a, [a] { carry(a); }),
        adding("host, all cores", a, all_cores, fill_caches),
        adding("host, one core", a, one_core, fill_caches)};
  };
  const Timings timed = run.timer.with_fresh_memory(additions);

  Table table("one addition per word", {"ms", "predicted", "GB/s", "spread"});
  const auto ms = [&](const char* name) { return timed[name].median(); };
  const double parts_ms = ms("there") + ms("addition on the GPU") + ms("back");
  for (const char* part : {"there", "addition on the GPU", "back"})
    table.row(part, {timed[part].ms_interval(), "", "", percent(timed[part].spread())});
  for (const std::string whole : {"carried there and back", "host, all cores", "host, one core"})
    table.row(whole, {timed[whole].ms_interval(),
                      whole == "carried there and back" ? Cell(parts_ms) : Cell(""),
                      timed[whole].gbs(2 * bytes), percent(timed[whole].spread())});
  run.print(table);
  run.note(bytes_text(bytes) + " in, as many out, pinned; predicted: the sum of the three parts");
  run.note("GB/s of words read and written; the host has " + std::to_string(crew.size()) +
           " threads, which wait for work");
  // The transfers take longer than the kernel gains where the whole takes longer than the host.
  const Times& carried = timed["carried there and back"];
  run.claim_each(
      {"02.10", "with few operations per word the transfers eat the card's gain",
       "[BW, reply 2] \"the transfer of data there and back will eat all the gain\""},
      {ratio(carried, timed["host, all cores"]), ratio(carried, timed["host, one core"])},
      "carried / host: all cores, one core", more());
}

}  // namespace

void keep_on_device(Run& run) {
  run.title("a step that needs the word before; then one operation per word, carried");
  judge_step(run);
  judge_carried(run);
}
SAMPLE(4, keep_on_device, "little parallelism, or one operation per word");

TEST_CASE("keep_on_device: the host steps each chain as if it were alone") {
  for (const size_t n : {1, 2, 1023, 1024, 1025, 5000}) {
    std::vector<unsigned> x(n);
    for (size_t i = 0; i < n; ++i) x[i] = hash(i);
    step_on_host(x.data(), n);
    CHECK(x == expected(n));
  }
}

TEST_CASE("keep_on_device: the crew adds to every word once, again and again") {
  Crew crew;
  for (const size_t n : {1, 15, 17, 65537}) {
    std::vector<unsigned> x(n + 1, 7);
    const auto part = [&x](size_t begin, size_t end) { add_on_host(&x[0], &x[0], begin, end); };
    for (int k = 0; k < 3; ++k) crew.share_out(n, part);
    CHECK(std::count(x.begin(), x.end(), 10u) == long(n));
    CHECK(x[n] == 7);
  }
}

TEST_CASE("keep_on_device: every way is right at awkward sizes, and nothing is written behind") {
  if (skip_without_gpu()) return;
  Crew crew;
  for (const size_t n : {1, 31, 1026, 8195, 300007}) {
    const DeviceBuffer<unsigned> right(expected(n));
    const Words w{n};
    const Arrays a(n);
    const std::vector<Benchmark> benchmarks{
        stepping("one block", w, by_block, right), stepping("one thread", w, by_thread, right),
        stepping("host and back", w, by_host, right), adding("carried", a, [&a] { carry(a); }),
        adding("all cores", a, [&] { add_on_all_cores(a, crew); })};
    for (const Benchmark& benchmark : benchmarks) {
      CAPTURE(n);
      CAPTURE(benchmark.name);
      benchmark.check.poison();
      if (n > chains) CHECK(benchmark.check.find_error() != "");  // a chain's first word stays
      benchmark.check.poison();
      benchmark.work();
      CHECK(benchmark.check.find_error() == "");
    }
  }
}
