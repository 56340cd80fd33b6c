// objects: what does a texture object cost? Before, a texture reference, which was a variable of
// the file, was bound to memory before a launch. An object is made once, says the lecture: "no need
// for binding", "better performance than binding", "small kernel overhead" [PR]. References are
// gone since CUDA 12, so nobody can measure binding any more. Look at what an object costs:
//   - once, when it is made;
//   - at each read: the texture unit takes some 40 cycles longer than a load, wherever the word is;
//   - as an argument of each launch.
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o objects objects.cu ../common/*.cpp
//
//   1  one_load      a launch whose argument is a pointer
//   2  one_fetch     a launch whose argument is an object
//   3  walk_loads    one thread: each word says where the next one stands
//   4  walk_fetches  the same through an object
#include <functional>
#include <string>

#include "../common/arrays.cuh"
#include "../common/sample.hpp"
#include "texture.cuh"

// ---- the lectures' program, whole ----

static __global__ void kernel(float* out, cudaTextureObject_t tex) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = tex1Dfetch<float>(tex, i);
}

/// What the kernel reads of `words`: a multiple of 256 of them.
static std::vector<float> texture_program(const std::vector<float>& words) {
  const DeviceBuffer<float> buffer(words), out(words.size());
  cudaResourceDesc resDesc{};  // what is read: plain memory of floats
  resDesc.resType = cudaResourceTypeLinear;
  resDesc.res.linear.devPtr = buffer.data();
  resDesc.res.linear.desc = cudaCreateChannelDesc<float>();
  resDesc.res.linear.sizeInBytes = buffer.bytes();
  cudaTextureDesc texDesc{};  // how: as it is stored
  texDesc.readMode = cudaReadModeElementType;

  cudaTextureObject_t tex = 0;
  CUDA_CHECK(cudaCreateTextureObject(&tex, &resDesc, &texDesc, nullptr));
  kernel<<<unsigned(words.size() / 256), 256>>>(out, tex);
  CUDA_CHECK_LAUNCH();
  CUDA_CHECK(cudaDestroyTextureObject(tex));
  return out.to_host();
}

// ---- kernels: one read ----

// The least that a kernel can do with a pointer.
static __global__ void one_load(unsigned* out, const unsigned* words, unsigned i) {
  *out = words[i];
}

// The same with an object: a number of 64 bits, handed over like any other argument.
static __global__ void one_fetch(unsigned* out, cudaTextureObject_t words, unsigned i) {
  *out = tex1Dfetch<unsigned>(words, int(i));
}

// ---- kernels: one read after the other ----

// Each word says where the next one stands, so that no two loads overlap. Every answer is stored,
// for which nobody waits. The walk goes on from where the last one ended.
static __global__ void walk_loads(unsigned* answers, unsigned* at, long long* cycles,
                                  const unsigned* ring, unsigned untimed, unsigned timed) {
  unsigned word = *at;
#pragma unroll 1
  for (unsigned step = 0; step < untimed; ++step) word = __ldg(&ring[word]);
  const long long start = clock64();
#pragma unroll 8
  for (unsigned step = 0; step < timed; ++step) {
    word = __ldg(&ring[word]);
    answers[step] = word;
  }
  *cycles = clock64() - start;
  *at = word;
}

// The same through the texture unit: the address comes out of the object and the index.
static __global__ void walk_fetches(unsigned* answers, unsigned* at, long long* cycles,
                                    cudaTextureObject_t ring, unsigned untimed, unsigned timed) {
  unsigned word = *at;
#pragma unroll 1
  for (unsigned step = 0; step < untimed; ++step) word = tex1Dfetch<unsigned>(ring, int(word));
  const long long start = clock64();
#pragma unroll 8
  for (unsigned step = 0; step < timed; ++step) {
    word = tex1Dfetch<unsigned>(ring, int(word));
    answers[step] = word;
  }
  *cycles = clock64() - start;
  *at = word;
}

namespace {

/// A texture of plain memory, for tex1Dfetch<unsigned>.
Texture texture_of(const DeviceBuffer<unsigned>& words) {
  return Texture(linear_resource(words, cudaCreateChannelDesc<unsigned>(), words.bytes()));
}

// ---- once ----

// The text's two calls.
Benchmark making(const char* name, const cudaResourceDesc& resDesc) {
  const auto work = [resDesc] {
    const cudaTextureDesc texDesc = texture_desc();
    cudaTextureObject_t tex;
    CUDA_CHECK(cudaCreateTextureObject(&tex, &resDesc, &texDesc, NULL));
    CUDA_CHECK(cudaDestroyTextureObject(tex));
  };
  return {.name = name, .work = work, .on_host = true};
}

void print_making(Run& run) {
  constexpr size_t side = 1024;
  const DeviceBuffer<float> plain(side * side);
  const PitchedBuffer<float> pitched(side - 3, side);
  const CudaArray array = CudaArray::of<float>(make_cudaExtent(side, side, 0));
  const std::vector<Benchmark> all{
      making("plain memory", linear_resource(plain, cudaCreateChannelDesc<float>(), plain.bytes())),
      making("pitched memory", pitched_resource(pitched)),
      making("an array", array_resource(array))};
  const Timings timed = run.timer.interleaved(all);
  Table table("an object of", {"us, made and freed", "spread"});
  for (const Benchmark& each : all) {
    const Times& times = timed[each.name];
    table.row(each.name, {times.us_interval(), percent(times.spread())});
  }
  run.print(table);
}

// ---- each launch ----

constexpr unsigned launches_at_once = 100;  // then the host waits

DeviceBuffer<unsigned> hashes(size_t n) {
  return filled<unsigned>(n, [] __device__(size_t i) { return hash(i); });
}

/// The word that is read, where it lies, and where it goes.
struct OneRead {
  static constexpr unsigned at = 77;
  DeviceBuffer<unsigned> words = hashes(128);
  Texture texture = texture_of(words);
  GuardedBuffer<unsigned> out{1};
};

Benchmark launching(const char* name, const OneRead& one, const std::function<void()>& launch) {
  const auto work = [launch] {
    for (unsigned i = 0; i < launches_at_once; ++i) launch();
    CUDA_CHECK(cudaDeviceSynchronize());
  };
  const auto value = [] __device__(size_t) { return hash(OneRead::at); };
  return {.name = name, .work = work, .check = equals(one.out, value), .on_host = true};
}

std::vector<Benchmark> launches(const OneRead& one) {
  const auto with_pointer = [one] { one_load<<<1, 1>>>(one.out, one.words, OneRead::at); };
  const auto with_object = [one] { one_fetch<<<1, 1>>>(one.out, one.texture, OneRead::at); };
  return {launching("with a pointer", one, with_pointer),
          launching("with an object", one, with_object)};
}

void judge_launches(Run& run) {
  const Timings timed = run.timer.with_fresh_memory([] { return launches(OneRead{}); });
  Table table("a launch", {"us", "spread"});
  for (const char* name : {"with a pointer", "with an object"}) {
    table.row(name, {timed[name].us_interval() / launches_at_once, percent(timed[name].spread())});
  }
  run.print(table);
  run.claim({"07.5a", "texture objects cost a kernel only a small overhead",
             "[PR 3] \"Small kernel overhead\""},
            timed.speedup({.of = "with a pointer", .over = "with an object"}), no_faster(0.15));
  run.claim_skipped({"07.5b", "texture objects perform better than binding",
                     "[PR 3] \"Better performance than binding\""},
                    "what would be bound, texture references, is gone since CUDA 12");
}

// ---- each read ----

/// A ring of slots, of which each says where the next one stands.
struct RingShape {
  unsigned slots, slot_words;  ///< a power of two; from slot to slot
  unsigned untimed, timed;     ///< steps of a launch
};

/// 1 KiB, and once round it first: all timed reads find it in L1.
constexpr RingShape in_l1{256, 1, 256, 4096};
/// 1 MiB of lines of 128 bytes, of which a launch visits half: L1 never has the next one any more.
constexpr RingShape in_l2{8192, 32, 0, 4096};

/// Through all slots (a full-period generator: factor 4 m + 1, odd addend), as words.
unsigned next_of(const RingShape& ring, unsigned word) {
  const unsigned slot = word / ring.slot_words;
  return (5 * slot + 77) % ring.slots * ring.slot_words;
}

std::vector<unsigned> words_of(const RingShape& ring) {
  std::vector<unsigned> words(size_t(ring.slots) * ring.slot_words, ~0u);
  for (unsigned word = 0; word < words.size(); word += ring.slot_words)
    words[word] = next_of(ring, word);
  return words;
}

/// What a walk from slot 0 is answered, step by step.
std::vector<unsigned> answers_by_host(const RingShape& ring) {
  unsigned word = 0;
  for (unsigned step = 0; step < ring.untimed; ++step) word = next_of(ring, word);
  std::vector<unsigned> answers;
  for (unsigned step = 0; step < ring.timed; ++step) answers.push_back(word = next_of(ring, word));
  return answers;
}

struct Ring {
  RingShape shape;
  DeviceBuffer<unsigned> words{words_of(shape)};
  Texture texture = texture_of(words);
  GuardedBuffer<unsigned> answers{shape.timed};
  DeviceBuffer<unsigned> at{1};
  DeviceBuffer<long long> cycles{1};

  explicit Ring(const RingShape& shape) : shape(shape) {}
};

Benchmark walking(const Ring& r, bool by_object) {
  const auto work = [&r, by_object] {
    const auto [slots, slot_words, untimed, timed] = r.shape;
    if (by_object)
      walk_fetches<<<1, 1>>>(r.answers, r.at, r.cycles, r.texture, untimed, timed);
    else
      walk_loads<<<1, 1>>>(r.answers, r.at, r.cycles, r.words, untimed, timed);
  };
  const auto poison = [&r] {
    r.answers.poison();
    CUDA_CHECK(cudaMemset(r.at, 0, r.at.bytes()));
  };
  const auto find_error = [&r]() -> std::string {
    const std::vector<unsigned> right = answers_by_host(r.shape), found = r.answers.to_host();
    if (r.at.to_host()[0] != right.back()) return "the walk ends elsewhere";
    const auto value = [&right](size_t i) { return right[i]; };
    const std::string error = find_mismatch_on_host(found.data(), found.size(), value);
    return error.empty() ? guard_error(r.answers) : error;
  };
  return {by_object ? "walk_fetches" : "walk_loads", work, {poison, find_error}};
}

/// Cycles of a read, by the multiprocessor's own clock.
Interval cycles_of(const RingShape& shape, bool by_object) {
  const Ring ring(shape);
  const Benchmark walk = walking(ring, by_object);
  require_right(walk);
  walk.work();  // now all slots have been visited, and are in L2
  std::vector<double> each;
  for (int launch = 0; launch < 18; ++launch) {
    walk.work();
    CUDA_CHECK_LAUNCH();
    each.push_back(double(ring.cycles.to_host()[0]) / shape.timed);
  }
  return interval_of_median(each, run_to_run_device);
}

/// Cycles of a fetch that L2 answers: the texture unit adds as many cycles to a load as where L1
/// answers.
double predicted_fetch_from_l2(double load_from_l2, double load, double fetch) {
  return load_from_l2 + (fetch - load);
}

void print_reads(Run& run) {
  const Interval load = cycles_of(in_l1, false), fetch = cycles_of(in_l1, true);
  const Interval load_l2 = cycles_of(in_l2, false), fetch_l2 = cycles_of(in_l2, true);
  Table table("a read, cycles", {"load", "fetch", "predicted"});
  table.row("from L1", {load, fetch, ""});
  table.row("from L2",
            {load_l2, fetch_l2, predicted_fetch_from_l2(load_l2.value, load.value, fetch.value)});
  run.print(table);
  run.note("by one thread, each read after the answer of the one before. Predicted: the texture");
  run.note("unit adds as many cycles as where L1 answers; a bound reference paid them, too");
  run.note("each word is an index, which costs a multiply-add per step. `latency` of topic 01");
  run.note("walks by address, and its loads from L1 take fewer cycles");
}

}  // namespace

void objects(Run& run) {
  run.title("texture objects: made, handed over, and read through");
  print_making(run);
  print_reads(run);
  judge_launches(run);
}
SAMPLE(6, objects, "what a texture object costs to make, to pass and to read");

TEST_CASE("objects: the lectures' program reads every word") {
  if (skip_without_gpu()) return;
  std::vector<float> words(1024);
  for (size_t i = 0; i < words.size(); ++i) words[i] = float(hash(i) >> 8);
  CHECK(texture_program(words) == words);
}

TEST_CASE("objects: a ring visits every slot once, and the walk through it by hand") {
  for (const RingShape& ring : {in_l1, in_l2, RingShape{8, 3, 0, 1}}) {
    unsigned word = next_of(ring, 0), count = 1;
    for (; word != 0 && count < ring.slots; word = next_of(ring, word)) ++count;
    CHECK(count == ring.slots);
    CHECK(word == 0);
    CHECK(words_of(ring)[0] == 77 % ring.slots * ring.slot_words);
  }
  // slots 0, 5, 6, 3, 4 ...
  CHECK(answers_by_host({8, 10, 0, 4}) == std::vector<unsigned>{50, 60, 30, 40});
  CHECK(answers_by_host({8, 10, 2, 2}) == std::vector<unsigned>{30, 40});
  CHECK(predicted_fetch_from_l2(260, 40, 88) == 308);
}

TEST_CASE("objects: every answer of a walk is right, at awkward lengths") {
  if (skip_without_gpu()) return;
  for (const RingShape& shape : {in_l1, in_l2, RingShape{256, 1, 0, 1}, RingShape{256, 1, 3, 31},
                                 RingShape{64, 5, 100, 257}, RingShape{1024, 32, 1, 1009}}) {
    const Ring ring(shape);
    for (const bool by_object : {false, true}) {
      CAPTURE(by_object);
      CAPTURE(shape.timed);
      const Benchmark walk = walking(ring, by_object);
      walk.check.poison();
      CHECK(walk.check.find_error() != "");
      CHECK_NOTHROW(require_right(walk));
      walk.work();  // goes on where the last one ended
      std::vector<unsigned> on = answers_by_host(
          {shape.slots, shape.slot_words, 2 * shape.untimed + shape.timed, shape.timed});
      CHECK(ring.answers.to_host() == on);
    }
  }
}

TEST_CASE("objects: both launches read the word") {
  if (skip_without_gpu()) return;
  const OneRead one{};
  for (const Benchmark& launch : launches(one)) {
    launch.check.poison();
    CHECK(launch.check.find_error() != "");
    CHECK_NOTHROW(require_right(launch));
  }
}
