// objects: what does a texture object cost? Before, a texture reference, which was a variable of
// the file, was bound to memory before a launch. An object is made once, says the lecture: "no need
// for binding", "better performance than binding", "small kernel overhead" [PR]. References are
// gone since CUDA 12, so nobody can measure binding any more. Look at what an object costs: once,
// when it is made, and as an argument of each launch. (`one_cache` has the cycles of each fetch,
// which a bound reference paid, too.)
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o objects objects.cu ../common/*.cpp
//
//   1  kernel     the lectures' one, in their whole program
//   2  one_load   a launch whose argument is a pointer
//   3  one_fetch  a launch whose argument is an object
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

}  // namespace

void objects(Run& run) {
  run.title("texture objects: made, and handed to a kernel");
  print_making(run);
  judge_launches(run);
}
SAMPLE(6, objects, "what a texture object costs to make and to pass");

TEST_CASE("objects: the lectures' program reads every word") {
  if (skip_without_gpu()) return;
  std::vector<float> words(1024);
  for (size_t i = 0; i < words.size(); ++i) words[i] = float(hash(i) >> 8);
  CHECK(texture_program(words) == words);
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
