// system_memory: can a kernel read memory of malloc, or a file that is mapped with mmap? Where
// cudaDevAttrPageableMemoryAccess is 1 (HMM of the driver, or ATS of a GH200) it can, without
// cudaMallocManaged; elsewhere one line says why not. Look at the first pass, whose pages fault,
// and at the second pass, whose pages have perhaps moved. No text makes a claim.
//
//   cmake -S 05_unified_memory -B build/system_memory -DEXPERIMENTS=system_memory
//   cmake --build build/system_memory && build/system_memory/05_unified_memory
//
//   1  sum_words   each thread adds up words of the array
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <optional>

#include "managed_memory.hpp"

using namespace samples;

namespace {

// ---- kernel ----

constexpr unsigned threads = 256, blocks = 256;

// [sum_words]
// A warp reads 32 neighbouring words, and moves on by all threads of the grid.
__global__ void sum_words(unsigned* sums, const unsigned* x, size_t n) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  unsigned sum = 0;
  for (size_t i = tid; i < n; i += gridDim.x * size_t(blockDim.x)) sum += x[i];
  sums[tid] = sum;
}
// [/sum_words]

/// Word i of an array that the host wrote: odd, so that no word is left out unseen.
unsigned word(size_t i) { return unsigned(i * 2654435761u >> 7) | 1; }

/// What each thread adds up, from words to threads.
std::vector<unsigned> right_sums(size_t n, bool written) {
  std::vector<unsigned> sums(threads * blocks, 0);
  for (size_t i = 0; written && i < n; ++i) sums[i % sums.size()] += word(i);
  return sums;
}

// ---- memory of the host ----

/// Words of malloc. Those that nobody wrote are zero, but nothing stands behind them yet: the
/// first touch, here the device's, gives them pages.
class OfMalloc {
 public:
  OfMalloc(size_t n, bool written)
      : words_(static_cast<unsigned*>(written ? std::malloc(n * 4) : std::calloc(n, 4))) {
    if (!words_) throw std::runtime_error("out of host memory");
    for (size_t i = 0; written && i < n; ++i) words_[i] = word(i);
  }
  OfMalloc(OfMalloc&& other) noexcept : words_(std::exchange(other.words_, nullptr)) {}
  OfMalloc& operator=(OfMalloc&&) = delete;
  ~OfMalloc() { std::free(words_); }
  const unsigned* data() const { return words_; }

 private:
  unsigned* words_;
};

/// A file of n words, mapped for reading. Its name is removed at once: the file goes with the
/// mapping, however the program ends.
class MappedFile {
 public:
  explicit MappedFile(size_t n) : bytes_(n * 4) {
    std::string name = (std::filesystem::temp_directory_path() / "words.XXXXXX").string();
    const int file = mkstemp(name.data());
    if (file < 0) throw std::runtime_error("no file can be made at " + name);
    unlink(name.c_str());
    std::vector<unsigned> words(n);
    for (size_t i = 0; i < n; ++i) words[i] = word(i);
    const char* next = reinterpret_cast<const char*>(words.data());
    size_t left = bytes_;
    while (left > 0) {
      const ssize_t written = write(file, next, left);
      if (written <= 0) break;
      next += written;
      left -= size_t(written);
    }
    if (left == 0) mapped_ = mmap(nullptr, bytes_, PROT_READ, MAP_PRIVATE, file, 0);
    close(file);
    if (mapped_ == MAP_FAILED) throw std::runtime_error("the file " + name + " cannot be mapped");
  }
  MappedFile(MappedFile&& other) noexcept
      : bytes_(other.bytes_), mapped_(std::exchange(other.mapped_, MAP_FAILED)) {}
  MappedFile& operator=(MappedFile&&) = delete;
  ~MappedFile() {
    if (mapped_ != MAP_FAILED) munmap(mapped_, bytes_);
  }
  const unsigned* data() const { return static_cast<const unsigned*>(mapped_); }

 private:
  size_t bytes_;
  void* mapped_ = MAP_FAILED;
};

// ---- rows ----

enum class Kind { malloc, file, managed };

struct Source {
  const char *key, *words;
  Kind kind;
  bool written = true;  ///< by the host, before
  bool again = false;   ///< the second pass is timed
};

// [sources]
const Source sources[] = {
    {"malloc_first", "malloc, first pass", Kind::malloc},
    {"malloc_again", "malloc, second pass", Kind::malloc, true, true},
    {"malloc_untouched", "malloc, never touched", Kind::malloc, false},
    {"file_first", "mmapped file, first pass", Kind::file},
    {"file_again", "mmapped file, second pass", Kind::file, true, true},
    {"managed_first", "managed, first pass", Kind::managed},
    {"managed_again", "managed, second pass", Kind::managed, true, true},
    {"managed_untouched", "managed, never touched", Kind::managed, false},
};
// [/sources]

/// Fresh memory for one measurement.
struct Fresh {
  std::optional<OfMalloc> of_malloc;
  std::optional<MappedFile> file;
  std::optional<Managed<unsigned>> managed;
  std::optional<DeviceBuffer<unsigned>> sums;
  const unsigned* x = nullptr;

  void take(const Source& source, size_t n) {
    sums.emplace(threads * blocks);
    if (source.kind == Kind::malloc) x = of_malloc.emplace(n, source.written).data();
    if (source.kind == Kind::file) x = file.emplace(n).data();
    if (source.kind == Kind::managed) {
      x = managed.emplace(n).data();
      for (size_t i = 0; source.written && i < n; ++i) (*managed)[i] = word(i);
    }
    if (source.again) add_up(n);
  }
  void add_up(size_t n) {
    sum_words<<<blocks, threads>>>(sums->data(), x, n);
    CUDA_CHECK_LAUNCH();
    wait_for_device();
  }
  void give_back() {
    of_malloc.reset();
    file.reset();
    managed.reset();
    sums.reset();
  }
};

size_t differing(const std::vector<unsigned>& found, const std::vector<unsigned>& right) {
  size_t wrong = 0;
  for (size_t t = 0; t < right.size(); ++t) wrong += found[t] != right[t];
  return wrong;
}

Task task_of(const Source& source, size_t n) {
  const Shared memory(Fresh{});
  Task task{source.key,
            [memory, n] { memory->add_up(n); },
            {[memory] { memory->sums->poison(); },
             [memory, &source, n] {
               return differing(memory->sums->to_host(), right_sums(n, source.written));
             },
             ""},
            true};
  if (source.kind == Kind::managed && !source.written)
    task.check = unchecked("managed memory that nobody wrote may hold anything");
  task.enter = [memory, &source, n] {
    memory->give_back();
    memory->take(source, n);
  };
  task.leave = [memory] { memory->give_back(); };
  return task;
}

// ---- the experiment ----

size_t words_of(const Run& run) { return size_t(1) << (run.quick ? 18 : run.full ? 24 : 22); }

/// Why a row is not there; empty if it is.
std::string missing(const Source& source, const Abilities& can) {
  if (source.kind == Kind::managed)
    return can.managed && can.on_demand ? "" : "no managed memory whose pages move on demand";
  return can.pageable ? "" : "cudaDevAttrPageableMemoryAccess is 0: no HMM, no ATS";
}

void run_system_memory(const Run& run) {
  const size_t n = words_of(run);
  const double bytes = double(n) * sizeof(unsigned);
  run.report.begin("system_memory", "a kernel adds up " + std::to_string(n) + " words, " +
                                        bytes_text(bytes) + ", of the host's own memory");
  const Abilities can = ask_abilities(run);
  Sheet sheet(run, "memory", {milliseconds(3), spread(), gigabytes_per_second(1)});
  for (const Source& source : sources)
    sheet.add({.ref = source.key,
               .words = source.words,
               .bytes = bytes,
               .model = Model::host,
               .missing = missing(source, can)});
  sheet.measure(Timing::in_turn,
                [n](const Row& row) { return task_of(*with_key(sources, row.ref), n); });
  sheet.print({"no prediction: what the driver does at a fault is not documented"});
}

Needs needs(const Run& run) { return {.allocated = 4.0 * double(words_of(run)) + (1 << 20)}; }

/// The kernel in device memory.
std::vector<Checked> tasks(size_t n) {
  std::vector<unsigned> words(n);
  for (size_t i = 0; i < n; ++i) words[i] = word(i);
  const Shared x(DeviceBuffer<unsigned>{words});
  const Shared sums(DeviceBuffer<unsigned>(threads * blocks));
  Task task{"sum_words",
            [x, sums, n] { sum_words<<<blocks, threads>>>(sums->data(), x->data(), n); },
            {[sums] { sums->poison(); },
             [sums, n] { return differing(sums->to_host(), right_sums(n, true)); }, ""}};
  return {{task, threads * blocks, [sums] {
             std::vector<unsigned> changed = sums->to_host();
             ++changed[changed.size() / 3];
             sums->copy_from(changed);
           }}};
}

}  // namespace

extern const Experiment system_memory_experiment{
    .name = "system_memory",
    .about = "memory of malloc and a mapped file, read by a kernel where the driver allows it",
    .run = run_system_memory,
    .needs = needs,
    .tasks = tasks,
};
