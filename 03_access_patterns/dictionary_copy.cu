// dictionary, 2 of 2: why the reader got no answer. The reader searches with one thread, <<<1,
// 1>>>: in the first or the last 10 MB it finds the word, in all 50 MB nothing. A plain copy of 30
// MB by one thread "works half of the time". The reader suspects the memory. Look at how long one
// thread takes: about as long as a GPU that also drives a display lets a kernel run, or longer.
//
//   1  copy_bytes   the reader's: one thread, a byte at a time
//   2  copy_shorts, copy_words, copy_pairs, copy_quads: 2, 4, 8 and 16 bytes at a time
#include "../framework/common/checked.cuh"
#include "../framework/common/experiment.hpp"

using namespace samples;

void dictionary_copy(const Run& run);

namespace {

// ---- kernels: n words; to be launched with one thread ----

// [copy_bytes]
// `to` and `from` may overlap, for all that the compiler knows: each byte is stored before the next
// is loaded. So a byte takes as long as a load does.
__global__ void copy_bytes(const char* from, char* to, int n) {
  for (int i = 0; i < n; ++i) to[i] = from[i];
}
// [/copy_bytes]

__global__ void copy_shorts(const short* from, short* to, int n) {
  for (int i = 0; i < n; ++i) to[i] = from[i];
}

__global__ void copy_words(const unsigned* from, unsigned* to, int n) {
  for (int i = 0; i < n; ++i) to[i] = from[i];
}

__global__ void copy_pairs(const uint2* from, uint2* to, int n) {
  for (int i = 0; i < n; ++i) to[i] = from[i];
}

__global__ void copy_quads(const uint4* from, uint4* to, int n) {
  for (int i = 0; i < n; ++i) to[i] = from[i];
}

// ---- the rows ----

struct Kernel {
  std::string_view key = {};  ///< its name
  const char* words = "";
  unsigned bytes = 0;  ///< of a word
  void (*launch)(const char* from, char* to, size_t bytes) = nullptr;

  unsigned loads_per_sector() const { return 32 / bytes; }
};
template <class Word>
void launch(void (*kernel)(const Word*, Word*, int), const char* from, char* to, size_t bytes) {
  kernel<<<1, 1>>>(reinterpret_cast<const Word*>(from), reinterpret_cast<Word*>(to),
                   int(bytes / sizeof(Word)));
}
template <auto kernel>
Kernel named(Kernel k) {
  k.key = name_of<kernel>();
  k.launch = [](const char* from, char* to, size_t bytes) { launch(kernel, from, to, bytes); };
  return k;
}

const Kernel kernels[] = {
    named<copy_quads>({.words = "one thread, 16 bytes at a time", .bytes = 16}),
    named<copy_pairs>({.words = "one thread, 8 bytes at a time", .bytes = 8}),
    named<copy_words>({.words = "one thread, 4 bytes at a time", .bytes = 4}),
    named<copy_shorts>({.words = "one thread, 2 bytes at a time", .bytes = 2}),
    named<copy_bytes>({.words = "one thread, byte by byte", .bytes = 1}),
};

constexpr int readers_bytes = 30000000;
constexpr int part_bytes = readers_bytes / 100;  // measured, and scaled

/// No byte is the poison.
struct Bytes {
  __host__ __device__ char operator()(size_t i) const { return char(scrambled(i) % 255); }
  __device__ bool operator()(size_t i, char found) const { return found == (*this)(i); }
};
struct Copy {
  size_t n;
  DeviceBuffer<char> from = filled<char>(n, Bytes{});
  Output<char> to{n};
};

Task task_of(const Shared<Copy>& copy, const Kernel& k) {
  const auto launch = [copy, &k] { k.launch(copy->from.data(), copy->to.data(), copy->n); };
  return {std::string(k.key), launch, copy->to.check(Bytes{})};
}

// ---- prediction ----

// On the 8800 GTX, which had no cache for this: a load took 200 to 300 cycles, as the study quotes,
// of a shader clock of 1.35 GHz. A launch could take around 5 s on a GPU with a display under
// Windows (NVIDIA's CUDA FAQ of those years; some systems waited longer, Vista only 2 s).
constexpr double then_ghz = 1.35;
constexpr double limit_s = 5;

double then_seconds(double loads, double cycles) { return loads * cycles / then_ghz * 1e-9; }

/// Today the first load of a sector of 32 bytes goes to the L2, and the others find the sector in
/// L1. So the time rises by the same amount with each further load per sector.
double predicted_ms(const Kernel& k, double quads_ms, double words_ms) {
  constexpr double of_quads = 2, of_words = 8;  // loads per sector
  const double hit_ms = (words_ms - quads_ms) / (of_words - of_quads);
  return words_ms + hit_ms * (k.loads_per_sector() - of_words);
}

// ---- the tables ----

/// What the reader ran, and what it took then. No GPU is needed.
struct Ran {
  const char *key, *words;
  double loads;  ///< one after the other
  const char* seen;
};
const Ran all_ran[] = {
    {"copy_then", "copy of 30 MB", 30e6, "\"works half of the time\""},
    {"search_then", "search of 50 MB", 2 * 50e6, "nothing found"},
    {"search_of_end_then", "search of the last 10 MB", 2 * 10e6, "found"},
};

void show_then(const Run& run) {
  Table table(run.report, "one thread on the 8800 GTX",
              {predicted("1e6 loads", "loads", "1e6", 0),
               predicted("s, at 200 cycles", "time at 200 cycles", "s", 1),
               predicted("at 300", "time at 300 cycles", "s", 1), shown("the reader saw")});
  for (const Ran& ran : all_ran)
    table.row({ran.key, "", "", ran.words}, {ran.loads * 1e-6, then_seconds(ran.loads, 200),
                                             then_seconds(ran.loads, 300), ran.seen});
  table.print();
  run.report.note("a search loads a letter of the text and one of the word; Windows waited about " +
                  fixed(limit_s, 0) + " s for a GPU with a display");
}

void measure_copies(const Run& run) {
  SharedByTasks copy([] { return Copy{part_bytes}; });
  Sheet sheet(run, "a copy of " + std::to_string(part_bytes) + " bytes here",
              {number(predicted("loads/sector", "loads a sector", "", 0),
                      [](const Row& row) {
                        return double(with_key(kernels, row.ref)->loads_per_sector());
                      }),
               milliseconds(3), spread(),
               number(predicted("30 MB: s", "time of 30 MB", "s", 3), [&run](const Row& row) {
                 const double ms = (*run.results)(row.ref).time.ms.median;
                 return ms * 1e-3 * readers_bytes / part_bytes;
               })});
  for (const Kernel& k : kernels)
    sheet.add({.ref = k.key,
               .words = k.words,
               .calibrates = k.key == "copy_quads" || k.key == "copy_words",
               .model = Model::latency});
  sheet.measure(Timing::alone,
                [&](const Row& row) { return task_of(copy(), *with_key(kernels, row.ref)); });
  sheet.predict([&](const Row& row) {
    return predicted_ms(*with_key(kernels, row.ref), sheet.ms("copy_quads"),
                        sheet.ms("copy_words"));
  });
  sheet.print({"the model: a load from the L2 per sector, the others find the sector in L1"});
}

void show_limit(const Run& run) {
  const Statistics limited = ask(run, "device", "kernel time limit", "", [&run] {
    int attribute = 0;
    CUDA_CHECK(
        cudaDeviceGetAttribute(&attribute, cudaDevAttrKernelExecTimeout, run.device->number));
    return single(attribute);
  });
  if (limited.repeats > 0)
    run.report.note(std::string("kernels on this GPU have ") + (limited.median ? "a" : "no") +
                    " time limit (cudaDevAttrKernelExecTimeout)");
  run.report.note("where one is stopped, the next call that waits returns " +
                  std::string(cudaGetErrorName(cudaErrorLaunchTimeout)) + ": " +
                  cudaGetErrorString(cudaErrorLaunchTimeout));
}

}  // namespace

void dictionary_copy(const Run& run) {
  show_then(run);
  measure_copies(run);
  show_limit(run);
}
