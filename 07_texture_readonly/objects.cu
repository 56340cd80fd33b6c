// objects: what a texture costs. The lecture binds a texture reference to memory before a launch,
// then shows objects: made once, "no need for binding", "better performance than binding", "small
// kernel overhead" [PR]. References are gone since CUDA 12 (a test of the build shows that they do
// not compile), so what binding cost cannot be measured any more. Look at what an object costs
// once, as an argument of each launch, and at each read: there the texture unit takes some 40
// cycles longer than a load, and answers only so many lanes a cycle.
//   cmake -S 07_texture_readonly -B build/objects -DEXPERIMENTS=objects
//   cmake --build build/objects && build/objects/07_texture_readonly
//
//   1  one_load      a launch whose argument is a pointer
//   2  one_fetch     a launch whose argument is an object
//   3  walk_loads    one thread: each word says where the next one stands
//   4  walk_fetches  the same through an object
//   5  add_loads     all words are added up, in words of 4 bytes
//   6  add_fetches   through an object
//   7  add_loads4    in words of 16 bytes
//   8  add_fetches4  through an object
//   9  gather        each lane reads through another object: no reference could do that
#include <algorithm>

#include "../common/report.hpp"
#include "texture.cuh"

namespace {

// ---- kernels: one read ----

// The least that a kernel can do with a pointer.
__global__ void one_load(unsigned* out, const unsigned* words, unsigned i) { *out = words[i]; }

// The same with an object: a number of 64 bits, handed over like any other argument.
__global__ void one_fetch(unsigned* out, cudaTextureObject_t words, unsigned i) {
  *out = tex1Dfetch<unsigned>(words, int(i));
}

// ---- kernels: one read after the other ----

// Each word says where the next one stands, so that no two loads overlap. Every answer is stored,
// for which nobody waits. The walk goes on from where the last one ended.
__global__ void walk_loads(unsigned* answers, unsigned* at, long long* cycles, const unsigned* ring,
                           unsigned untimed, unsigned timed) {
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

// [walk_fetches]
// The same through the texture unit: the address comes out of the object and the index.
__global__ void walk_fetches(unsigned* answers, unsigned* at, long long* cycles,
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
// [/walk_fetches]

// ---- kernels: n reads; thread t adds up what it reads into sums[t]. Read i takes word i & mask:
// all of the words in turn, or, with a small mask, the same few again and again ----

// A warp's load takes 32 neighbours; eight loads of each thread are under way at once.
__global__ void add_loads(unsigned* sums, const unsigned* words, unsigned n, unsigned mask) {
  const unsigned tid = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned threads = gridDim.x * blockDim.x;
  unsigned sum = 0;
  unsigned i = tid;
  for (; i + 7 * threads < n; i += 8 * threads) {
    unsigned word[8];
#pragma unroll
    for (unsigned k = 0; k < 8; ++k) word[k] = words[(i + k * threads) & mask];
#pragma unroll
    for (unsigned k = 0; k < 8; ++k) sum += word[k];
  }
  for (; i < n; i += threads) sum += words[i & mask];  // what is left, one at a time
  sums[tid] = sum;
}

// [add_fetches]
// A warp's fetch takes 32 neighbours; the texture units answer so many lanes a cycle.
__global__ void add_fetches(unsigned* sums, cudaTextureObject_t words, unsigned n, unsigned mask) {
  const unsigned tid = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned threads = gridDim.x * blockDim.x;
  unsigned sum = 0;
  unsigned i = tid;
  for (; i + 7 * threads < n; i += 8 * threads) {
    unsigned word[8];
#pragma unroll
    for (unsigned k = 0; k < 8; ++k)
      word[k] = tex1Dfetch<unsigned>(words, int((i + k * threads) & mask));
#pragma unroll
    for (unsigned k = 0; k < 8; ++k) sum += word[k];
  }
  for (; i < n; i += threads) sum += tex1Dfetch<unsigned>(words, int(i & mask));
  sums[tid] = sum;
}
// [/add_fetches]

// Kernel 5 in words of 16 bytes.
__global__ void add_loads4(unsigned* sums, const uint4* words, unsigned n, unsigned mask) {
  const unsigned tid = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned threads = gridDim.x * blockDim.x;
  unsigned sum = 0;
  unsigned i = tid;
  for (; i + 3 * threads < n; i += 4 * threads) {
    uint4 word[4];
#pragma unroll
    for (unsigned k = 0; k < 4; ++k) word[k] = words[(i + k * threads) & mask];
#pragma unroll
    for (unsigned k = 0; k < 4; ++k) sum += word[k].x + word[k].y + word[k].z + word[k].w;
  }
  for (; i < n; i += threads) {
    const uint4 word = words[i & mask];
    sum += word.x + word.y + word.z + word.w;
  }
  sums[tid] = sum;
}

// Kernel 6 with texels of 16 bytes: a fetch brings four times as much.
__global__ void add_fetches4(unsigned* sums, cudaTextureObject_t words, unsigned n, unsigned mask) {
  const unsigned tid = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned threads = gridDim.x * blockDim.x;
  unsigned sum = 0;
  unsigned i = tid;
  for (; i + 3 * threads < n; i += 4 * threads) {
    uint4 word[4];
#pragma unroll
    for (unsigned k = 0; k < 4; ++k)
      word[k] = tex1Dfetch<uint4>(words, int((i + k * threads) & mask));
#pragma unroll
    for (unsigned k = 0; k < 4; ++k) sum += word[k].x + word[k].y + word[k].z + word[k].w;
  }
  for (; i < n; i += threads) {
    const uint4 word = tex1Dfetch<uint4>(words, int(i & mask));
    sum += word.x + word.y + word.z + word.w;
  }
  sums[tid] = sum;
}

// ---- kernel: a table of objects in memory ----

// Neighbouring lanes read through different objects.
[[maybe_unused]] __global__ void gather(unsigned* out, const cudaTextureObject_t* table,
                                        unsigned count, unsigned n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = tex1Dfetch<unsigned>(table[i % count], int(i / count));
}

// ---- what lies in memory ----

constexpr size_t canaries = 32;  // behind what the threads of any kernel write

/// Word i: without pattern, so that no two words stand in for two others.
__host__ __device__ unsigned word_at(size_t i) {
  unsigned x = unsigned(i) ^ unsigned(i >> 32) * 0x9e3779b1u;
  x = (x ^ x >> 16) * 0x85ebca6bu;
  x = (x ^ x >> 13) * 0xc2b2ae35u;
  return x ^ x >> 16;
}

__global__ void fill(unsigned* words, size_t n) {
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += threads)
    words[i] = word_at(i);
}

/// Words that differ from those that fill() leaves.
__global__ void count_changed(const unsigned* words, size_t n, unsigned* wrong) {
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += threads)
    if (words[i] != word_at(i)) atomicAdd(wrong, 1u);
}

DeviceBuffer<unsigned> filled(size_t n) {
  DeviceBuffer<unsigned> words(n);
  fill<<<1024, 256>>>(words.data(), n);
  CUDA_CHECK_LAUNCH();
  return words;
}

/// A texture of plain memory, for tex1Dfetch<Word>.
template <class Word>
Texture texture_of(const DeviceBuffer<unsigned>& words) {
  return Texture(linear_resource(words.data(), cudaCreateChannelDesc<Word>(), words.bytes()));
}

size_t count_wrong(const std::vector<unsigned>& found, const std::vector<unsigned>& right) {
  size_t wrong = found.size() != right.size();
  for (size_t i = 0; i < std::min(found.size(), right.size()); ++i) wrong += found[i] != right[i];
  return wrong;
}

// ---- once: objects, and the memory that they read ----

/// Makes and frees so many objects in a row: a call is short beside what a clock shows.
constexpr int objects_at_once = 16;

Task task_of_making(const std::string& name, const cudaResourceDesc& resource) {
  Task task{name,
            [resource] {
              const cudaTextureDesc desc = texture_desc();
              cudaTextureObject_t made[objects_at_once] = {};
              for (cudaTextureObject_t& each : made)
                CUDA_CHECK(cudaCreateTextureObject(&each, &resource, &desc, nullptr));
              for (const cudaTextureObject_t each : made)
                CUDA_CHECK(cudaDestroyTextureObject(each));
            },
            unchecked("objects that are made and freed: the other tables read through some")};
  task.on_host = true;
  return task;
}

/// A square of words that is copied into plain memory, and into an array, which keeps its texels in
/// another order.
struct Copies {
  size_t side;
  DeviceBuffer<unsigned> source, plain;
  CudaArray array;
  DeviceBuffer<unsigned> wrong_words{1};

  explicit Copies(size_t side)
      : side(side),
        source(filled(side * side)),
        plain(side * side),
        array(CudaArray::of<unsigned>(make_cudaExtent(side, side, 0))) {}

  size_t row_bytes() const { return side * sizeof(unsigned); }
  void fill_plain(const DeviceBuffer<unsigned>& from) {
    CUDA_CHECK(cudaMemcpyAsync(plain.data(), from.data(), from.bytes(), cudaMemcpyDeviceToDevice));
  }
  void fill_array(const DeviceBuffer<unsigned>& from) {
    CUDA_CHECK(cudaMemcpy2DToArrayAsync(array, 0, 0, from.data(), row_bytes(), row_bytes(), side,
                                        cudaMemcpyDeviceToDevice));
  }
  void read_array() {
    CUDA_CHECK(cudaMemcpy2DFromArrayAsync(plain.data(), row_bytes(), array, 0, 0, row_bytes(), side,
                                          cudaMemcpyDeviceToDevice));
  }
  size_t wrong() {
    wrong_words.copy_from({0});
    count_changed<<<1024, 256>>>(plain.data(), plain.size(), wrong_words.data());
    CUDA_CHECK_LAUNCH();
    return wrong_words.to_host()[0];
  }
  Task plain_task() {
    Check check;
    check.poison = [this] { plain.poison(); };
    check.wrong = [this] { return wrong(); };
    return {"a copy into plain memory", [this] { fill_plain(source); }, std::move(check)};
  }
  Task array_task() {
    Check check;
    check.poison = [this] {
      plain.poison();
      fill_array(plain);
    };
    check.wrong = [this] {
      plain.poison();
      read_array();
      return wrong();
    };
    return {"a copy into an array", [this] { fill_array(source); }, std::move(check)};
  }
};

// ---- each launch ----

struct OneRead {
  static constexpr unsigned at = 77;  ///< the word that is read

  DeviceBuffer<unsigned> words = filled(128);
  Texture texture = texture_of<unsigned>(words);
  DeviceBuffer<unsigned> out{1 + canaries};

  size_t wrong() const {
    std::vector<unsigned> right(out.size(), ~0u);  // as poisoned
    right[0] = word_at(at);
    return count_wrong(out.to_host(), right);
  }
  Task task(bool by_object) {
    Check check;
    check.poison = [this] { out.poison(); };
    check.wrong = [this] { return wrong(); };
    return {by_object ? "a launch with an object" : "a launch with a pointer",
            [this, by_object] {
              if (by_object)
                one_fetch<<<1, 1>>>(out.data(), texture, at);
              else
                one_load<<<1, 1>>>(out.data(), words.data(), at);
            },
            std::move(check)};
  }
};

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
  for (unsigned step = 0; step < ring.timed; ++step) {
    word = next_of(ring, word);
    answers.push_back(word);
  }
  return answers;
}

struct Ring {
  RingShape shape;
  DeviceBuffer<unsigned> words{words_of(shape)};
  Texture texture = texture_of<unsigned>(words);
  DeviceBuffer<unsigned> answers{shape.timed + canaries};
  DeviceBuffer<unsigned> at{1};
  DeviceBuffer<long long> cycles{1};

  explicit Ring(const RingShape& shape) : shape(shape) {}

  void launch(bool by_object) const {
    if (by_object)
      walk_fetches<<<1, 1>>>(answers.data(), at.data(), cycles.data(), texture, shape.untimed,
                             shape.timed);
    else
      walk_loads<<<1, 1>>>(answers.data(), at.data(), cycles.data(), words.data(), shape.untimed,
                           shape.timed);
  }
  size_t wrong() const {
    std::vector<unsigned> right = answers_by_host(shape);
    const bool ends_elsewhere = at.to_host()[0] != right.back();
    right.resize(answers.size(), ~0u);  // as poisoned
    return count_wrong(answers.to_host(), right) + ends_elsewhere;
  }
  Task task(bool by_object) {
    Check check;
    check.poison = [this] {
      answers.poison();
      cycles.poison();
      at.copy_from({0});
    };
    check.wrong = [this] { return wrong(); };
    return {by_object ? "a walk by fetches" : "a walk by loads",
            [this, by_object] { launch(by_object); }, std::move(check)};
  }
};

/// Cycles of a read, by the multiprocessor's own clock.
Statistics cycles_a_read(const Run& run, Ring& ring, bool by_object) {
  require_right(ring.task(by_object));
  ring.launch(by_object);  // all slots have been visited, and are in L2
  std::vector<double> each;
  for (int r = 0; r < run.measuring.repeats; ++r) {
    ring.cycles.poison();
    ring.launch(by_object);
    CUDA_CHECK_LAUNCH();
    const double cycles = double(ring.cycles.to_host()[0]);
    require_right(cycles > 0, "objects: the cycles of a walk");
    each.push_back(cycles / ring.shape.timed);
  }
  return summarize(each);
}

// ---- all of it read ----

struct Grid {
  unsigned blocks, threads;
  unsigned total() const { return blocks * threads; }
};

constexpr unsigned all_words = ~0u;   // as a mask
constexpr unsigned few_words = 2047;  // 8 KiB, which L1 keeps

/// A way to read.
struct Way {
  const char* name;
  unsigned wide;  ///< words of 4 bytes in a read
  bool by_object;
  unsigned mask;
};
constexpr Way ways[] = {{"4-byte fetches, all in L1", 1, true, few_words},
                        {"16-byte loads", 4, false, all_words},
                        {"4-byte loads", 1, false, all_words},
                        {"4-byte fetches", 1, true, all_words},
                        {"16-byte fetches", 4, true, all_words}};
enum { unit, loads16, loads4, fetches4, fetches16 };

/// Adds each read to the sum of the thread that has to take it: reads go round the threads in turn.
__global__ void add_to_takers(unsigned* right, unsigned takers, unsigned reads, unsigned wide,
                              unsigned mask) {
  const unsigned threads = gridDim.x * blockDim.x;
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < reads; i += threads) {
    unsigned sum = 0;
    for (unsigned k = 0; k < wide; ++k) sum += word_at(size_t(i & mask) * wide + k);
    atomicAdd(&right[i % takers], sum);
  }
}

__global__ void count_unequal(const unsigned* found, const unsigned* right, unsigned n,
                              unsigned* wrong) {
  for (unsigned t = blockIdx.x * blockDim.x + threadIdx.x; t < n; t += gridDim.x * blockDim.x)
    if (found[t] != right[t]) atomicAdd(wrong, 1u);
}

/// n words, a multiple of 4, and what the threads of a grid find in them.
struct Words {
  Grid grid;
  DeviceBuffer<unsigned> words;
  Texture texture, texture4;
  DeviceBuffer<unsigned> sums, right;
  DeviceBuffer<unsigned> wrong_sums{1};

  Words(size_t n, Grid grid)
      : grid(grid),
        words(filled(n)),
        texture(texture_of<unsigned>(words)),
        texture4(texture_of<uint4>(words)),
        sums(grid.total() + canaries),
        right(grid.total() + canaries) {}

  unsigned reads(const Way& way) const { return unsigned(words.size() / way.wide); }

  void launch(const Way& way) const {
    const auto [blocks, threads] = grid;
    const unsigned n = reads(way);
    if (way.wide == 1 && way.by_object)
      add_fetches<<<blocks, threads>>>(sums.data(), texture, n, way.mask);
    else if (way.wide == 1)
      add_loads<<<blocks, threads>>>(sums.data(), words.data(), n, way.mask);
    else if (way.by_object)
      add_fetches4<<<blocks, threads>>>(sums.data(), texture4, n, way.mask);
    else
      add_loads4<<<blocks, threads>>>(sums.data(), reinterpret_cast<const uint4*>(words.data()), n,
                                      way.mask);
  }
  /// Threads whose sum is not that of their words, and canaries that are gone.
  size_t wrong(const Way& way) {
    right.poison();
    CUDA_CHECK(cudaMemset(right.data(), 0, grid.total() * sizeof(unsigned)));
    add_to_takers<<<1024, 256>>>(right.data(), grid.total(), reads(way), way.wide, way.mask);
    wrong_sums.copy_from({0});
    count_unequal<<<256, 256>>>(sums.data(), right.data(), unsigned(sums.size()),
                                wrong_sums.data());
    CUDA_CHECK_LAUNCH();
    return wrong_sums.to_host()[0];
  }
  Task task(const Way& way) {
    Check check;
    check.poison = [this] { sums.poison(); };
    check.wrong = [this, &way] { return wrong(way); };
    return {way.name, [this, &way] { launch(way); }, std::move(check)};
  }
};

/// The most words that textures of words and of four words reach.
size_t most_words(int device) {
  size_t words = 0, fours = 0;
  const cudaChannelFormatDesc word = cudaCreateChannelDesc<unsigned>();
  const cudaChannelFormatDesc four = cudaCreateChannelDesc<uint4>();
  CUDA_CHECK(cudaDeviceGetTexture1DLinearMaxWidth(&words, &word, device));
  CUDA_CHECK(cudaDeviceGetTexture1DLinearMaxWidth(&fours, &four, device));
  return std::min(words, 4 * fours);
}

// ---- what to expect ----

/// Cycles of a fetch that L2 answers: the unit's way is longer than a load's by as much as where L1
/// answers.
double predicted_fetch_from_l2(double load_from_l2, double load, double fetch) {
  return load_from_l2 + (fetch - load);
}

/// Time of reading all words: as long as the memory takes for the bytes, or the texture units for
/// the fetches, whichever is longer. Both constants are of this run: the time of 16-byte loads,
/// and that of as many 4-byte fetches as there are words, all answered by L1.
double predicted_ms(const Way& way, double bytes_ms, double fetches_ms) {
  return way.by_object ? std::max(bytes_ms, fetches_ms / way.wide) : bytes_ms;
}

// ---- the experiment ----

void show_making(const Run& run) {
  constexpr size_t side = 1024;
  const DeviceBuffer<float> plain(side * side);
  const PitchedBuffer<float> pitched(side - 3, side);
  const CudaArray array = CudaArray::of<float>(make_cudaExtent(side, side, 0));
  const cudaResourceDesc linear =
      linear_resource(plain.data(), cudaCreateChannelDesc<float>(), plain.bytes());
  const std::vector<Readings> times =
      run.time_in_turn({task_of_making("an object of linear memory", linear),
                        task_of_making("an object of pitched memory", pitched_resource(pitched)),
                        task_of_making("an object of an array", array_resource(array))});
  Table table(run.report, "made and freed", {compared("us", "cost", "us", 2), shown("spread")});
  const char* const names[] = {"object of linear memory", "object of pitched memory",
                               "object of an array"};
  const Statistics first = scaled(times[0].statistics(), 1e3 / objects_at_once);
  for (int i = 0; i < 3; ++i) {
    const Statistics us = scaled(times[i].statistics(), 1e3 / objects_at_once);
    table.row({names[i]}, {i ? Cell(Compared{first.median, us, Model::host}) : Calibration{us},
                           spread_text(us)});
  }
  table.print();
}

void show_copies(const Run& run, size_t side) {
  Copies copies(side);
  const std::vector<Readings> times = run.time_in_turn({copies.plain_task(), copies.array_task()});
  Table table(run.report, "a copy of " + bytes_text(double(side * copies.row_bytes())),
              {compared("us", "cost", "us", 1), shown("spread")});
  const Statistics plain = scaled(times[0].statistics(), 1e3);
  const Statistics array = scaled(times[1].statistics(), 1e3);
  table.row({"into plain memory"}, {Calibration{plain}, spread_text(plain)});
  // in which order an array keeps its texels is not documented
  table.row({"into an array"}, {Compared{plain.median, array, Model::host}, spread_text(array)});
  table.print();
}

/// What the claim compares.
struct Launches {
  Readings pointer, object;
};

Launches show_launches(const Run& run) {
  OneRead one;
  const std::vector<Readings> times = run.time_in_turn({one.task(false), one.task(true)});
  Table table(run.report, "each launch", {compared("us", "cost", "us", 2), shown("spread")});
  const Statistics pointer = scaled(times[0].statistics(), 1e3);
  const Statistics object = scaled(times[1].statistics(), 1e3);
  table.row({"with a pointer"}, {Calibration{pointer}, spread_text(pointer)});
  table.row({"with an object"},
            {Compared{pointer.median, object, Model::latency}, spread_text(object)});
  table.print();
  return {times[0], times[1]};
}

/// Cycles of a read.
struct Cycles {
  Statistics load, fetch, load_from_l2, fetch_from_l2;
};

void show_walks(const Run& run, const Cycles& c) {
  Table table(run.report, "each read, by one thread",
              {compared("cycles", "cycles a read", "cycles", 1), shown("spread")});
  table.row({"load, from L1"}, {Calibration{c.load}, spread_text(c.load)});
  table.row({"fetch, from L1"}, {Calibration{c.fetch}, spread_text(c.fetch)});
  table.row({"load, from L2"}, {Calibration{c.load_from_l2}, spread_text(c.load_from_l2)});
  const double expected =
      predicted_fetch_from_l2(c.load_from_l2.median, c.load.median, c.fetch.median);
  table.row({"fetch, from L2"},
            {Compared{expected, c.fetch_from_l2, Model::latency}, spread_text(c.fetch_from_l2)});
  table.print();
}

Cycles measure_walks(const Run& run) {
  Ring near(in_l1), far(in_l2);
  Cycles c;
  c.load = cycles_a_read(run, near, false);
  c.fetch = cycles_a_read(run, near, true);
  c.load_from_l2 = cycles_a_read(run, far, false);
  c.fetch_from_l2 = cycles_a_read(run, far, true);
  show_walks(run, c);
  return c;
}

void show_reads(const Run& run, const std::vector<Readings>& times, double bytes) {
  Table table(
      run.report, "all of it read",
      {compared("ms", "time", "ms", 4), shown("spread"), measured("GB/s", "rate", "GB/s", 0)});
  for (size_t i = 0; i < times.size(); ++i) {
    const Statistics ms = times[i].statistics();
    Cell time = Calibration{ms};
    if (i > loads16)
      time = Compared{predicted_ms(ways[i], times[loads16].median(), times[unit].median()), ms};
    table.row({ways[i].name}, {time, spread_text(ms), gigabytes_per_second(bytes, ms)});
  }
  table.print();
}

void judge(const Run& run, const Launches& launches) {
  const Interval r = ratio(launches.object, launches.pointer);
  run.report.judge(
      {"07.5a", "objects cost a kernel a small overhead", "no figure", "lecture"}, at_most(1), r,
      "a launch with an object takes " + range_text(r, 2) + " times as long as one with a pointer");
  run.report.not_judged({"07.5b", "objects perform better than binding", "no figure", "lecture"},
                        "what would be bound, texture references, is gone since CUDA 12");
}

/// What a lecture's "kernel overhead" may also mean: nobody says how much is small.
void add_finding(const Run& run, const Cycles& c, const std::vector<Readings>& times) {
  run.report.finding("07.5a", "a fetch that L1 answers takes " + fixed(c.fetch.median, 0) +
                                  " cycles, a load " + fixed(c.load.median, 0) +
                                  "; read by 4-byte fetches all of it takes " +
                                  factor_text(ratio(times[fetches4], times[loads4]).value) +
                                  " the loads' time, by 16-byte fetches " +
                                  factor_text(ratio(times[fetches16], times[loads16]).value));
}

/// Words that are read: more than the L2 can keep, where that fits memory and a texture.
size_t words_that_fit(const Run& run, size_t most) {
  size_t n = size_t(1) << (run.quick ? 26 : 28);
  if (!run.device) return n;
  while (!beyond_l2(*run.device, 4.0 * double(n))) n *= 2;
  while (n > most || 4.0 * double(n) > 0.4 * run.memory_there()) n /= 2;
  return n;
}

/// Side of the square that is copied: three buffers and an array.
size_t side_that_fits(const Run& run) {
  size_t side = 4096;
  while (4 * 4.0 * double(side * side) > 0.4 * run.memory_there()) side /= 2;
  return side;
}

}  // namespace

void objects(const Run& run) {
  const size_t n = words_that_fit(run, run.device ? most_words(run.device->number) : ~size_t(0));
  const double bytes = 4.0 * double(n);
  run.report.begin("objects", bytes_text(bytes) + " read by loads and through texture objects");
  run.report.note("then: a reference, a variable of the file, was bound to memory before a launch");
  if (!run.device) {
    run.report.left_out("what objects cost");
    return judge(run, {});
  }
  show_making(run);
  show_copies(run, side_that_fits(run));
  const Launches launches = show_launches(run);
  const Cycles cycles = measure_walks(run);
  std::vector<Readings> times;
  {
    const cudaDeviceProp& prop = run.device->prop;
    constexpr unsigned threads = 256;
    const unsigned resident = unsigned(prop.maxThreadsPerMultiProcessor) / threads;
    Words words(n, {unsigned(prop.multiProcessorCount) * resident, threads});
    std::vector<Task> tasks;
    for (const Way& way : ways) tasks.push_back(words.task(way));
    times = run.time_in_turn(tasks);
  }
  show_reads(run, times, bytes);
  if (!beyond_l2(*run.device, bytes))
    run.report.note("that is less than four times the L2: the cache's rates");
  judge(run, launches);
  add_finding(run, cycles, times);
}
