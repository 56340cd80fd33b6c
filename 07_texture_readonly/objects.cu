// objects: the lectures bind a texture reference to memory, then show objects, which need no binding and cost the
// kernel little. References are gone since CUDA 12 (a test of the build shows that they do not compile), so what
// binding cost cannot be measured any more. Look at what an object costs once, and each time: as an argument, and by a
// fetch.
#include <doctest/doctest.h>

#include <algorithm>

#include "../common/first_edition.hpp"
#include "texture.cuh"

namespace {

/// Word `i`; the first n add up to sum_of(n), modulo 2^32.
__host__ __device__ unsigned word_at(size_t i) { return 0x9e3779b1u * unsigned(i + 1); }
unsigned sum_of(size_t n) { return 0x9e3779b1u * unsigned(n % 2 ? (n + 1) / 2 * n : n / 2 * (n + 1)); }

__device__ unsigned total(unsigned v) { return v; }
__device__ unsigned total(uint4 v) { return v.x + v.y + v.z + v.w; }

// ---- one read after another, and many at once -----------------------------------------------------------------------

constexpr unsigned ring_words = 256;  // 1 KiB: all of it stays in L1

/// Where the walk goes from `i`: through all words (a full-period generator: factor 4 m + 1, odd addend).
__host__ __device__ unsigned next_of(unsigned i) { return (5 * i + 77) % ring_words; }
struct Walk {
  long long cycles;
  unsigned end;
};
// One thread; each read's index is the answer of the read before. The second time round everything is in L1.
template <class Read>
__device__ void walk(Walk* result, unsigned steps, Read read) {
  for (int turn = 0; turn < 2; ++turn) {
    unsigned at = 0;
    const long long start = clock64();
    for (unsigned i = 0; i < steps; ++i) at = read(at);
    *result = {clock64() - start, at};
  }
}
__global__ void walk_loads(Walk* result, const unsigned* ring, unsigned steps) {
  walk(result, steps, [&](unsigned i) { return __ldg(&ring[i]); });
}
__global__ void walk_fetches(Walk* result, cudaTextureObject_t ring, unsigned steps) {
  walk(result, steps, [&](unsigned i) { return tex1Dfetch<unsigned>(ring, int(i)); });
}

constexpr unsigned threads = 256, at_once = 8;

// The whole grid steps on together; each thread has 8 reads under way. A warp reads 32 neighbours.
template <class Word, class Read>
__device__ void add_up(unsigned* sum, size_t n, Read read) {
  const size_t grid = size_t(gridDim.x) * threads;
  unsigned mine = 0;
  for (size_t first = blockIdx.x * size_t(threads) + threadIdx.x; first < n; first += at_once * grid) {
    Word v[at_once] = {};
    for (unsigned k = 0; k < at_once; ++k)
      if (first + k * grid < n) v[k] = read(first + k * grid);
    for (unsigned k = 0; k < at_once; ++k) mine += total(v[k]);
  }
  for (int lanes = 16; lanes > 0; lanes /= 2) mine += __shfl_down_sync(0xffffffffu, mine, lanes);
  if (threadIdx.x % 32 == 0) atomicAdd(sum, mine);
}
template <class Word>
__global__ void add_loads(unsigned* sum, const Word* __restrict__ in, size_t n) {
  add_up<Word>(sum, n, [&](size_t i) { return in[i]; });
}
template <class Word>
__global__ void add_fetches(unsigned* sum, cudaTextureObject_t in, size_t n) {
  add_up<Word>(sum, n, [&](size_t i) { return tex1Dfetch<Word>(in, int(i)); });
}
// What no reference could do: objects come out of memory, and each lane reads through another one.
__global__ void gather(unsigned* out, const cudaTextureObject_t* table, unsigned count, unsigned n) {
  const unsigned i = blockIdx.x * threads + threadIdx.x;
  if (i < n) out[i] = tex1Dfetch<unsigned>(table[i % count], int(i / count));
}

__global__ void fill(unsigned* in, size_t n) {
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x)
    in[i] = word_at(i);
}

// ---- the host's side ------------------------------------------------------------------------------------------------

template <class Word>
Texture texture_of(const DeviceBuffer<unsigned>& data) {
  return Texture(linear_resource(data.data(), cudaCreateChannelDesc<Word>(), data.bytes()));
}

/// The most words that textures of words and of four words reach.
size_t most_words(int device) {
  size_t words = 0, fours = 0;
  const cudaChannelFormatDesc word = cudaCreateChannelDesc<unsigned>(), four = cudaCreateChannelDesc<uint4>();
  CUDA_CHECK(cudaDeviceGetTexture1DLinearMaxWidth(&words, &word, device));
  CUDA_CHECK(cudaDeviceGetTexture1DLinearMaxWidth(&fours, &four, device));
  return std::min(words, 4 * fours);
}
/// n words, a multiple of 4, and textures that read them.
struct Words {
  DeviceBuffer<unsigned> data, sum{1};
  Texture words, fours;
  explicit Words(size_t n) : data(n), words(texture_of<unsigned>(data)), fours(texture_of<uint4>(data)) {
    fill<<<1024, 256>>>(data.data(), n);
  }
};

void launch(int way, unsigned blocks, const Words& w) {
  const size_t n = w.data.size();
  if (way == 0) add_loads<<<blocks, threads>>>(w.sum.data(), w.data.data(), n);
  if (way == 1) add_fetches<unsigned><<<blocks, threads>>>(w.sum.data(), w.words, n);
  if (way == 2) add_loads<<<blocks, threads>>>(w.sum.data(), reinterpret_cast<const uint4*>(w.data.data()), n / 4);
  if (way == 3) add_fetches<uint4><<<blocks, threads>>>(w.sum.data(), w.fours, n / 4);
}
const char* const ways[] = {"4-byte loads", "4-byte fetches", "16-byte loads", "16-byte fetches"};

bool right(int way, unsigned blocks, Words& w) {
  w.sum.copy_from({0});
  launch(way, blocks, w);
  CUDA_CHECK_LAUNCH();
  return w.sum.to_host()[0] == sum_of(w.data.size());
}

/// The ring, and where a walk round it ended. A walk of one step is as good as an empty kernel.
struct Ring {
  DeviceBuffer<unsigned> words{ring_words};
  DeviceBuffer<Walk> answer{1};
  Texture texture = texture_of<unsigned>(words);
  Ring() {
    std::vector<unsigned> next(ring_words);
    for (unsigned i = 0; i < ring_words; ++i) next[i] = next_of(i);
    words.copy_from(next);
  }
  void launch(bool fetch, unsigned steps) const {
    if (fetch) return walk_fetches<<<1, 1>>>(answer.data(), texture, steps);
    walk_loads<<<1, 1>>>(answer.data(), words.data(), steps);
  }
  /// Cycles of a read, or 0 if the walk ended where it should not.
  double cycles(bool fetch, unsigned steps) {
    answer.poison();
    launch(fetch, steps);
    CUDA_CHECK_LAUNCH();
    const Walk walk = answer.to_host()[0];
    unsigned end = 0;
    for (unsigned i = 0; i < steps; ++i) end = next_of(end);
    return walk.end == end ? double(walk.cycles) / steps : 0;
  }
};

/// Milliseconds that one call of `make` and one of `free` take the host, each called for so many things in a row.
struct Cost {
  Statistics make, free;
};
template <class Thing, class Make, class Free>
Cost cost_of(const Run& run, Make make, Free free) {
  constexpr int things = 16;
  std::vector<double> made, freed;
  for (int r = 0; r < run.measuring.repeats; ++r) {
    Thing thing[things]{};
    if (r == 0) std::for_each(thing, thing + things, make), std::for_each(thing, thing + things, free);  // to warm up
    made.push_back(host_ms([&] { std::for_each(thing, thing + things, make); }) / things);
    freed.push_back(host_ms([&] { std::for_each(thing, thing + things, free); }) / things);
  }
  return {summarize(made), summarize(freed)};
}

const Claim cost_claim{"07.5", "objects need no binding and cost a small overhead in the kernel", "lecture",
                       "no figure"};
constexpr double small_overhead = 1.10;  // "small": less than a tenth, of a launch and of a kernel that only reads

}  // namespace

void objects(const Run& run) {
  size_t n = size_t(1) << (run.quick ? 22 : 28);  // 1 GiB: a launch's own time is small beside that of reading it
  while (run.device && (n > most_words(run.device->number) || 5 * n > Device::free_bytes())) n /= 2;
  run.report.begin("objects", bytes_text(4.0 * double(n)) + " read by loads and through texture objects");
  run.report.note("then: a texture reference, a variable of the file, which the host bound to memory before a launch;");
  run.report.note("it was no argument, and there was no array of them. CUDA 12 has neither the type nor the calls.");
  if (!run.device) return run.report.left_out("what objects cost", {cost_claim});

  // once: the object, and the memory that it reads
  constexpr size_t side = 1024, width = side * sizeof(float), bytes = side * width;
  const cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
  const cudaTextureDesc desc = texture_desc();
  DeviceBuffer<float> plain(side * side), source(side * side);
  source.poison();
  PitchedBuffer<float> pitched(side - 3, side);
  CudaArray array(format, {side, side, 0});
  Table once(run.report, "once",
             {measured("make us", "make", "us", 2), measured("free us", "free", "us", 2),
              measured("fill us (from device memory)", "fill", "us", 2)});
  const auto row = [&](const char* name, const Cost& c, const Cell& fill) {
    once.row({name}, {scaled(c.make, 1e3), scaled(c.free, 1e3), fill});
  };
  const auto object_cost = [&](const cudaResourceDesc& resource) {
    return cost_of<cudaTextureObject_t>(
        run, [&](auto& t) { CUDA_CHECK(cudaCreateTextureObject(&t, &resource, &desc, nullptr)); },
        [](auto t) { CUDA_CHECK(cudaDestroyTextureObject(t)); });
  };
  const Cost linear = object_cost(linear_resource(plain.data(), format, bytes));
  row("object of linear memory", linear, {});
  row("object of pitched memory", object_cost(pitched_resource(pitched)), {});
  row("object of an array", object_cost(array_resource(array)), {});
  const auto fill_plain = [&] {
    CUDA_CHECK(cudaMemcpyAsync(plain.data(), source.data(), bytes, cudaMemcpyDeviceToDevice));
  };
  const auto fill_array = [&] {
    CUDA_CHECK(cudaMemcpy2DToArrayAsync(array, 0, 0, source.data(), width, width, side, cudaMemcpyDeviceToDevice));
  };
  const Cost plain_cost = cost_of<void*>(
      run, [&](auto& p) { CUDA_CHECK(cudaMalloc(&p, bytes)); }, [](auto p) { CUDA_CHECK(cudaFree(p)); });
  const Cost array_cost = cost_of<cudaArray_t>(
      run, [&](auto& a) { CUDA_CHECK(cudaMallocArray(&a, &format, side, side)); },
      [](auto a) { CUDA_CHECK(cudaFreeArray(a)); });
  row("4 MiB of plain memory", plain_cost, scaled(time_device(run.measuring, fill_plain), 1e3));
  row("4 MiB as an array", array_cost, scaled(time_device(run.measuring, fill_array), 1e3));
  once.print();

  Ring ring;
  constexpr int launches = 100;
  Statistics launching[2];
  Table each(run.report, "each time",
             {measured("launch us, host", "launch on the host", "us", 2),
              measured("launch us, device", "launch on the device", "us", 2), shown("spread"),
              measured("cycles a read from L1", "cycles a read", "cycles", 1)});
  for (bool fetch : {false, true}) {
    const auto some = [&] {
      for (int i = 0; i < launches; ++i) ring.launch(fetch, 1);
    };
    std::vector<double> us, cycles;
    for (int r = 0; r < run.measuring.repeats; ++r) {
      cycles.push_back(ring.cycles(fetch, 4096));  // waits for all launches before
      require_right(cycles.back() > 0, "a walk by single reads");
      us.push_back(1e3 / launches * host_ms(some));
    }
    const Statistics& ms = launching[fetch] =
        time_device(run.measuring, [&] { ring.launch(fetch, 1); }, {.launches = launches});
    each.row({fetch ? "object, fetch" : "pointer, load"},
             {summarize(us), scaled(ms, 1e3), spread_text(ms), summarize(cycles)});
  }
  each.print();

  Words words(n);
  Statistics ms[4];
  Table reads(run.report, "all of it read",
              {measured("median ms", "time", "ms", 4), shown("spread"), measured("GB/s", "rate", "GB/s", 0),
               shown("time, to the load's")});
  const unsigned blocks = unsigned(8 * run.device->prop.multiProcessorCount);
  for (int way = 0; way < 4; ++way) {
    require_right(right(way, blocks, words), ways[way]);
    ms[way] = time_device(run.measuring, [&] { launch(way, blocks, words); });
    reads.row({ways[way]}, {ms[way], spread_text(ms[way]), gigabytes_per_second(4.0 * double(n), ms[way]),
                            times(ms[way].median / ms[way / 2 * 2].median)});
  }
  CUDA_CHECK_LAUNCH();
  reads.print();

  run.report.claim(cost_claim, [&] {
    if (4.0 * double(n) < 2.0 * double(run.device->l2_bytes())) return not_judged("the data fits in L2");
    const double launch_ratio = launching[1].median / launching[0].median, read_ratio = ms[1].median / ms[0].median;
    return judge_fact(std::max(launch_ratio, read_ratio) < small_overhead,
                      "a launch takes " + times(launch_ratio) + ", a kernel that only reads words " +
                          times(read_ratio) + "; making one, " + fixed(1e3 * linear.make.median, 1) + " us, once",
                      read_ratio, "x");
  }());
}

// ---- self-checks ----------------------------------------------------------------------------------------------------

TEST_CASE("objects: the models of sum and ring") {
  unsigned sum = 0;
  for (size_t n = 0; n < 1000; sum += word_at(n++)) CHECK(sum_of(n) == sum);
  unsigned at = next_of(0), count = 1;
  for (; at != 0 && count < ring_words; at = next_of(at)) ++count;
  CHECK((count == ring_words && at == 0));
}

TEST_CASE("objects: loads and fetches are right at awkward sizes") {
  if (skip_without_gpu()) return;
  for (size_t n : {4, 36, 4 * 257, 4 * 1009, 4 * 65537}) {
    Words words(n);
    for (int way = 0; way < 4; ++way)
      for (unsigned blocks : {1u, 7u, 300u}) CHECK_MESSAGE(right(way, blocks, words), ways[way], ", ", n, ", ", blocks);
  }
}

TEST_CASE("objects: walks of awkward lengths end where they should") {
  if (skip_without_gpu()) return;
  Ring ring;
  for (unsigned steps : {1u, 2u, 31u, 257u, 4096u})
    for (bool fetch : {false, true}) CHECK(ring.cycles(fetch, steps) > 0);
}

TEST_CASE("objects: each lane reads through another object") {
  if (skip_without_gpu()) return;
  constexpr unsigned count = 33, part = 128;  // words apart: 512 bytes, at which a linear texture may begin
  const Words words(count * part);
  std::vector<Texture> textures;
  std::vector<cudaTextureObject_t> objects;
  for (unsigned t = 0; t < count; ++t) {
    textures.emplace_back(linear_resource(words.data.data() + t * part, cudaCreateChannelDesc<unsigned>(), part * 4));
    objects.push_back(textures.back());
  }
  const DeviceBuffer<cudaTextureObject_t> table(objects);
  DeviceBuffer<unsigned> out(1009);
  out.poison();
  gather<<<4, threads>>>(out.data(), table.data(), count, unsigned(out.size()));
  CUDA_CHECK_LAUNCH();
  const std::vector<unsigned> got = out.to_host();
  for (size_t i = 0; i < got.size(); ++i) CHECK(got[i] == word_at(i % count * part + i / count));
}
