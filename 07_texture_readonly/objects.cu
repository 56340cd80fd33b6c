// objects: what a texture costs. The lecture binds a texture reference to memory before a launch,
// then shows objects: made once, "no need for binding", "better performance than binding", "small
// kernel overhead" [PR]. References are gone since CUDA 12 (a test of the build shows that they do
// not compile), so what binding cost cannot be measured any more. Look at what an object costs:
//   - once, when it is made, and when memory is copied into an array;
//   - as an argument of each launch;
//   - at each read: the texture unit takes some 40 cycles longer than a load, and answers only so
//     many lanes per cycle.
//
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

#include "../framework/common/checked.cuh"
#include "../framework/common/experiment.hpp"
#include "texture.cuh"

using namespace samples;

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

// A warp's load takes 32 neighbouring words; eight loads of each thread are in flight at once.
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
// A warp's fetch takes 32 neighbouring words; the texture units answer so many lanes per cycle.
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

struct WordAt {
  __device__ unsigned operator()(size_t i) const { return scrambled(i); }
};
struct IsWord {
  __device__ bool operator()(size_t i, unsigned word) const { return word == scrambled(i); }
};
struct Equals {
  const unsigned* right;
  __device__ bool operator()(size_t i, unsigned word) const { return word == right[i]; }
};

/// A texture of plain memory, for tex1Dfetch<Word>.
template <class Word>
Texture texture_of(const DeviceBuffer<unsigned>& words) {
  return Texture(linear_resource(words.data(), cudaCreateChannelDesc<Word>(), words.bytes()));
}

// ---- once: objects, and the memory that they read ----

/// Makes and frees so many objects in a row: one call is too short for a clock.
constexpr int objects_at_once = 16;

constexpr size_t object_side = 1024;  // of the memory that they read, in floats

/// `memory` stays as long as the task.
template <class Memory>
Task making_task(const Row& row, Memory memory, cudaResourceDesc (*resource_of)(const Memory&)) {
  const Shared owned(std::move(memory));
  Task task{text(row.ref),
            [owned, resource = resource_of(*owned)] {
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

Task task_of_making(const Row& row) {
  if (row.ref.key == "object_of_linear_memory")
    return making_task(
        row, DeviceBuffer<float>(object_side * object_side), +[](const DeviceBuffer<float>& m) {
          return linear_resource(m.data(), cudaCreateChannelDesc<float>(), m.bytes());
        });
  if (row.ref.key == "object_of_pitched_memory")
    return making_task(
        row, PitchedBuffer<float>(object_side - 3, object_side),
        +[](const PitchedBuffer<float>& m) { return pitched_resource(m); });
  return making_task(
      row, CudaArray::of<float>(make_cudaExtent(object_side, object_side, 0)),
      +[](const CudaArray& m) { return array_resource(m); });
}

/// A square of words that is copied into plain memory, and into an array, which keeps its texels in
/// another order.
struct Copies {
  size_t side;
  DeviceBuffer<unsigned> source;
  Output<unsigned> plain;
  CudaArray array;

  explicit Copies(size_t side)
      : side(side),
        source(filled<unsigned>(side * side, WordAt{})),
        plain(side * side),
        array(CudaArray::of<unsigned>(make_cudaExtent(side, side, 0))) {}

  size_t row_bytes() const { return side * sizeof(unsigned); }
  void fill_plain() {
    CUDA_CHECK(
        cudaMemcpyAsync(plain.data(), source.data(), source.bytes(), cudaMemcpyDeviceToDevice));
  }
  void fill_array(const unsigned* from) {
    CUDA_CHECK(cudaMemcpy2DToArrayAsync(array, 0, 0, from, row_bytes(), row_bytes(), side,
                                        cudaMemcpyDeviceToDevice));
  }
  void change_array() {  // one texel of it
    const unsigned other = scrambled(0) + 1;
    CUDA_CHECK(cudaMemcpy2DToArray(array, 0, 0, &other, sizeof other, sizeof other, 1,
                                   cudaMemcpyHostToDevice));
  }
  void read_array() {
    CUDA_CHECK(cudaMemcpy2DFromArrayAsync(plain.data(), row_bytes(), array, 0, 0, row_bytes(), side,
                                          cudaMemcpyDeviceToDevice));
  }
};

Task copy_task(const Shared<Copies>& copies, const Ref& ref) {
  if (ref.key == "copy_to_memory")
    return {text(ref),
            [copies] { copies->fill_plain(); },
            {[copies] { copies->plain.poison(); },
             [copies] { return copies->plain.wrong(IsWord{}); }, ""}};
  Check check;
  check.poison = [copies] {
    copies->plain.poison();
    copies->fill_array(copies->plain.data());
  };
  check.wrong = [copies] {
    copies->plain.poison();
    copies->read_array();
    return copies->plain.wrong(IsWord{});
  };
  return {text(ref), [copies] { copies->fill_array(copies->source.data()); }, std::move(check)};
}

// ---- each launch ----

struct OneRead {
  static constexpr unsigned at = 77;  ///< the word that is read

  DeviceBuffer<unsigned> words = filled<unsigned>(128, WordAt{});
  Texture texture = texture_of<unsigned>(words);
  Output<unsigned> out{1};
};

struct IsTheOne {
  __device__ bool operator()(size_t, unsigned word) const { return word == scrambled(OneRead::at); }
};

Task launch_task(const Shared<OneRead>& one, const Ref& ref) {
  const bool by_object = ref.key == "one_fetch";
  return {text(ref),
          [one, by_object] {
            if (by_object)
              one_fetch<<<1, 1>>>(one->out.data(), one->texture, OneRead::at);
            else
              one_load<<<1, 1>>>(one->out.data(), one->words.data(), OneRead::at);
          },
          {[one] { one->out.poison(); }, [one] { return one->out.wrong(IsTheOne{}); }, ""}};
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
  DeviceBuffer<unsigned> right{answers_by_host(shape)};
  Output<unsigned> answers{shape.timed};
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
    const bool ends_elsewhere = at.to_host()[0] != answers_by_host(shape).back();
    return answers.wrong(Equals{right.data()}) + ends_elsewhere;
  }
  Task task(bool by_object) {
    Check check;
    check.poison = [this] {
      answers.poison();
      cycles.poison();
      at.copy_from({0});
    };
    check.wrong = [this] { return wrong(); };
    return {by_object ? "walk_fetches" : "walk_loads", [this, by_object] { launch(by_object); },
            std::move(check)};
  }
};

struct Walk {
  const char *key, *words;
  const RingShape& shape;
  bool by_object;
};
constexpr Walk walks[] = {{"walk_loads_l1", "load, from L1", in_l1, false},
                          {"walk_fetches_l1", "fetch, from L1", in_l1, true},
                          {"walk_loads_l2", "load, from L2", in_l2, false},
                          {"walk_fetches_l2", "fetch, from L2", in_l2, true}};
const char* const cycles_per_read = "cycles per read";

/// By the multiprocessor's own clock.
Statistics cycles_of_walk(const Walk& walk, int repeats) {
  Ring ring(walk.shape);
  require_right(ring.task(walk.by_object));
  ring.launch(walk.by_object);  // all slots have been visited, and are in L2
  std::vector<double> each;
  for (int r = 0; r < repeats; ++r) {
    ring.cycles.poison();
    ring.launch(walk.by_object);
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

struct Reading {
  const char *key, *words;
  unsigned wide;  ///< words of 4 bytes in a read
  bool by_object;
  unsigned mask;
};
constexpr Reading readings[] = {{"add_fetches_l1", "4-byte fetches, all in L1", 1, true, few_words},
                                {"add_loads4", "16-byte loads", 4, false, all_words},
                                {"add_loads", "4-byte loads", 1, false, all_words},
                                {"add_fetches", "4-byte fetches", 1, true, all_words},
                                {"add_fetches4", "16-byte fetches", 4, true, all_words}};

/// Adds each read to the sum of the thread that has to take it: reads go round the threads in turn.
__global__ void add_to_takers(unsigned* right, unsigned takers, unsigned reads, unsigned wide,
                              unsigned mask) {
  const unsigned threads = gridDim.x * blockDim.x;
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < reads; i += threads) {
    unsigned sum = 0;
    for (unsigned k = 0; k < wide; ++k) sum += scrambled(size_t(i & mask) * wide + k);
    atomicAdd(&right[i % takers], sum);
  }
}

/// n words, a multiple of 4, and what the threads of a grid find in them.
struct Words {
  Grid grid;
  DeviceBuffer<unsigned> words;
  Texture texture, texture4;
  Output<unsigned> sums;
  DeviceBuffer<unsigned> right;

  Words(size_t n, Grid grid)
      : grid(grid),
        words(filled<unsigned>(n, WordAt{})),
        texture(texture_of<unsigned>(words)),
        texture4(texture_of<uint4>(words)),
        sums(grid.total()),
        right(grid.total()) {}

  unsigned reads(const Reading& r) const { return unsigned(words.size() / r.wide); }

  void launch(const Reading& r) const {
    const auto [blocks, threads] = grid;
    const unsigned n = reads(r);
    if (r.wide == 1 && r.by_object)
      add_fetches<<<blocks, threads>>>(sums.data(), texture, n, r.mask);
    else if (r.wide == 1)
      add_loads<<<blocks, threads>>>(sums.data(), words.data(), n, r.mask);
    else if (r.by_object)
      add_fetches4<<<blocks, threads>>>(sums.data(), texture4, n, r.mask);
    else
      add_loads4<<<blocks, threads>>>(sums.data(), reinterpret_cast<const uint4*>(words.data()), n,
                                      r.mask);
  }
  size_t wrong(const Reading& r) {
    CUDA_CHECK(cudaMemset(right.data(), 0, right.bytes()));
    add_to_takers<<<1024, 256>>>(right.data(), grid.total(), reads(r), r.wide, r.mask);
    CUDA_CHECK_LAUNCH();
    return sums.wrong(Equals{right.data()});
  }
};

Task read_task(const Shared<Words>& words, const Reading& r) {
  return {text(r.key),
          [words, &r] { words->launch(r); },
          {[words] { words->sums.poison(); }, [words, &r] { return words->wrong(r); }, ""}};
}

// ---- what to expect ----

/// Cycles of a fetch that L2 answers: the texture unit adds as many cycles to a load as where L1
/// answers.
double predicted_fetch_from_l2(double load_from_l2, double load, double fetch) {
  return load_from_l2 + (fetch - load);
}

/// Time of reading all words: as long as the memory takes for the bytes, or the texture units for
/// the fetches, whichever is longer. Both constants are of this run: the time of 16-byte loads,
/// and that of as many 4-byte fetches as there are words, all answered by L1.
double predicted_ms(const Reading& r, double bytes_ms, double fetches_ms) {
  return r.by_object ? std::max(bytes_ms, fetches_ms / r.wide) : bytes_ms;
}

// ---- the experiment ----

/// The most words that textures of words and of four words reach: asked of the GPU that is there,
/// else as the programming guide has it.
size_t most_words(const Run& run) {
  if (!run.device || run.device->number < 0) return size_t(1) << 28;
  size_t words = 0, fours = 0;
  const cudaChannelFormatDesc word = cudaCreateChannelDesc<unsigned>();
  const cudaChannelFormatDesc four = cudaCreateChannelDesc<uint4>();
  CUDA_CHECK(cudaDeviceGetTexture1DLinearMaxWidth(&words, &word, run.device->number));
  CUDA_CHECK(cudaDeviceGetTexture1DLinearMaxWidth(&fours, &four, run.device->number));
  return std::min(words, 4 * fours);
}

/// Words that are read: more than the L2 can keep, where that fits memory and a texture.
size_t words_that_fit(const Run& run) {
  size_t n = size_t(1) << (run.quick ? 26 : 28);
  if (!run.device) return n;
  while (!beyond_l2(*run.device, 4.0 * double(n))) n *= 2;
  while (n > most_words(run) || 4.0 * double(n) > 0.4 * run.memory_there()) n /= 2;
  return n;
}

/// Side of the square that is copied: two buffers and an array.
size_t side_that_fits(const Run& run) {
  size_t side = 4096;
  while (3 * 4.0 * double(side * side) > 0.4 * run.memory_there()) side /= 2;
  return side;
}

Grid resident_grid(const Device& device) {
  constexpr unsigned threads = 256;
  const unsigned each = unsigned(device.prop.maxThreadsPerMultiProcessor) / threads;
  return {unsigned(device.prop.multiProcessorCount) * each, threads};
}

/// A sheet of costs in microseconds, whose first row predicts the others.
void predict_by_first(Sheet& sheet, const char* first) {
  const double ms = sheet.ms(first);
  sheet.predict([ms](const Row&) { return ms; });
  sheet.print();
}

void measure_making(const Run& run) {
  Sheet sheet(run, "made and freed",
              {in_unit(compared("us", "cost", "us", 2),
                       [](const Row&, double ms) { return 1e3 * ms / objects_at_once; }),
               spread()});
  sheet.add({.ref = "object_of_linear_memory",
             .words = "object of linear memory",
             .calibrates = true,
             .model = Model::host});
  sheet.add({.ref = "object_of_pitched_memory",
             .words = "object of pitched memory",
             .model = Model::host});
  sheet.add({.ref = "object_of_array", .words = "object of an array", .model = Model::host});
  sheet.measure(Timing::in_turn, task_of_making);
  predict_by_first(sheet, "object_of_linear_memory");
}

double microseconds(const Row&, double ms) { return 1e3 * ms; }

void measure_copies(const Run& run) {
  const size_t side = side_that_fits(run);
  Sheet sheet(run, "a copy of " + bytes_text(4.0 * double(side * side)),
              {in_unit(compared("us", "cost", "us", 1), microseconds), spread()});
  sheet.add({.ref = "copy_to_memory", .words = "into plain memory", .calibrates = true});
  // in which order an array keeps its texels is not documented
  sheet.add({.ref = "copy_to_array", .words = "into an array", .model = Model::host});
  SharedByTasks copies([side] { return Copies(side); });
  sheet.measure(Timing::in_turn, [&](const Row& row) { return copy_task(copies(), row.ref); });
  predict_by_first(sheet, "copy_to_memory");
}

void measure_launches(const Run& run) {
  Sheet sheet(run, "each launch",
              {in_unit(compared("us", "cost", "us", 2), microseconds), spread()});
  sheet.add({.ref = name_of<one_load>(), .words = "with a pointer", .calibrates = true});
  sheet.add({.ref = name_of<one_fetch>(), .words = "with an object", .model = Model::latency});
  sheet.measure(Timing::regrouped,
                [](const Row& row) { return launch_task(Shared{OneRead()}, row.ref); });
  predict_by_first(sheet, "one_load");
}

double cycles_of(const Run& run, int walk) {
  return run.results->value(walks[walk].key, cycles_per_read).value.median;
}

void measure_walks(const Run& run) {
  for (const Walk& walk : walks)
    ask_for_table(run, walk.key, cycles_per_read, "cycles",
                  [&] { return cycles_of_walk(walk, run.measuring.repeats); });
  const double expected =
      predicted_fetch_from_l2(cycles_of(run, 2), cycles_of(run, 0), cycles_of(run, 1));
  Table table(run.report, "each read, by one thread",
              {compared("cycles", cycles_per_read, "cycles", 1), shown("spread")});
  for (const Walk& walk : walks) {
    const Statistics& found = run.results->value(walk.key, cycles_per_read).value;
    const bool predicted = walk.by_object && &walk.shape == &in_l2;
    table.row({walk.key, "", "", walk.words},
              {predicted ? Cell(Compared{expected, found, Model::latency}) : Calibration{found},
               spread_text(found)});
  }
  table.print();
}

void measure_reads(const Run& run, size_t n) {
  Sheet sheet(run, "all of it read",
              {milliseconds(4), spread(), in_unit(measured("GB/s", "rate", "GB/s", 0), gbs_of)});
  const double bytes = 4.0 * double(n);
  for (const Reading& r : readings)
    sheet.add({.ref = r.key,
               .words = r.words,
               .bytes = bytes,
               .calibrates = &r == &readings[0] || &r == &readings[1]});
  SharedByTasks words([&run, n] { return Words(n, resident_grid(*run.device)); });
  const auto reading_of = [](const Row& row) -> const Reading& {
    return *with_key(readings, row.ref);
  };
  sheet.measure(Timing::in_turn,
                [&](const Row& row) { return read_task(words(), reading_of(row)); });
  const double fetches_ms = sheet.ms(readings[0].key), bytes_ms = sheet.ms(readings[1].key);
  sheet.predict(
      [&](const Row& row) { return predicted_ms(reading_of(row), bytes_ms, fetches_ms); });
  sheet.print();
  if (run.device && !beyond_l2(*run.device, bytes))
    run.report.note("that is less than four times the L2: the cache's rates");
}

void run_objects(const Run& run) {
  const size_t n = words_that_fit(run);
  run.report.begin("objects",
                   bytes_text(4.0 * double(n)) + " read by loads and through texture objects");
  run.report.note("then: a reference, a variable of the file, was bound to memory before a launch");
  measure_making(run);
  measure_copies(run);
  measure_launches(run);
  measure_walks(run);
  measure_reads(run, n);
}

// ---- claims ----

std::vector<Claim> claims(const Run& run) {
  return {{.part = {"07.5a", "objects cost a kernel a small overhead", "no figure", "lecture"},
           .rule = at_most(1),
           .pairs = {{"one_fetch", "one_load"}},
           // nobody says how much is small: what "kernel overhead" may also mean
           .here = "a fetch that L1 answers takes " + fixed(cycles_of(run, 1), 0) +
                   " cycles, a load " + fixed(cycles_of(run, 0), 0),
           .found = {{"add_fetches", "add_loads"}, {"add_fetches4", "add_loads4"}}},
          {.part = {"07.5b", "objects perform better than binding", "no figure", "lecture"},
           .unless = "what would be bound, texture references, is gone since CUDA 12"}};
}

// ---- what it declares ----

Needs needs(const Run& run) {
  const double n = double(words_that_fit(run)), side = double(side_that_fits(run));
  return {
      .allocated = std::max(4 * n + 8.0 * resident_grid(*run.device).total(), 3 * 4 * side * side),
      .touched = 4 * n};
}

std::vector<Checked> tasks(size_t n) {
  std::vector<Checked> all;
  const Shared words(Words(4 * n, {7, 33}));
  for (const Reading& r : readings)
    all.push_back({.task = read_task(words, r),
                   .elements = words->grid.total(),
                   .change_one = [words] { words->sums.change(5); }});
  const size_t side = std::min<size_t>(n, 257);
  const Shared copies{Copies(side)};
  all.push_back({.task = copy_task(copies, "copy_to_memory"),
                 .elements = side * side,
                 .change_one = [copies] { copies->plain.change(0); }});
  all.push_back({.task = copy_task(copies, "copy_to_array"),
                 .elements = side * side,
                 .change_one = [copies] { copies->change_array(); }});
  for (const char* key : {"one_load", "one_fetch"}) {
    const Shared one{OneRead()};
    all.push_back({.task = launch_task(one, key), .elements = 1, .change_one = [one] {
                     one->out.change(0);
                   }});
  }
  return all;
}

}  // namespace

extern const Experiment objects_experiment{
    .name = "objects",
    .about = "what texture references were, and what a texture object costs",
    .run = run_objects,
    .claims = claims,
    .needs = needs,
    .tasks = tasks};
