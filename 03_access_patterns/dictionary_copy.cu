// dictionary, 2 of 2: why the reader got no answer. He searches with one thread, <<<1, 1>>>: in the
// last or the first 10 MB it finds the word, in all 50 MB nothing; and a plain copy of 30 MB by one
// thread "works half of the time". He suspects the memory. Look at how long one thread takes: about
// as long as a GPU that also drives a display lets a kernel run, or longer.
//
//   1  copy_bytes   the reader's: one thread, a byte at a time
//   2  copy_words   the same in words of 4 bytes
//   3  copy_quads   in words of 16
#include <algorithm>

#include "../common/report.hpp"

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

__global__ void copy_words(const unsigned* from, unsigned* to, int n) {
  for (int i = 0; i < n; ++i) to[i] = from[i];
}

__global__ void copy_quads(const uint4* from, uint4* to, int n) {
  for (int i = 0; i < n; ++i) to[i] = from[i];
}

// ---- the story in order ----

struct Kernel {
  const char* name;
  int bytes;  ///< of a word
  void (*launch)(const char* from, char* to, int n);
};

const Kernel kernels[] = {
    {"one thread, 16 bytes at a time", 16,
     [](const char* from, char* to, int n) {
       copy_quads<<<1, 1>>>(reinterpret_cast<const uint4*>(from), reinterpret_cast<uint4*>(to), n);
     }},
    {"one thread, 4 bytes at a time", 4,
     [](const char* from, char* to, int n) {
       copy_words<<<1, 1>>>(reinterpret_cast<const unsigned*>(from),
                            reinterpret_cast<unsigned*>(to), n);
     }},
    {"one thread, byte by byte", 1,
     [](const char* from, char* to, int n) { copy_bytes<<<1, 1>>>(from, to, n); }},
};
enum { quads, words, bytes };

constexpr int readers_bytes = 30000000;
constexpr int part_bytes = readers_bytes / 100;  // measured, and scaled

/// What is right: bytes without pattern, none of which is the poison.
std::vector<char> some_bytes(size_t n) {
  std::vector<char> all(n);
  unsigned x = 1;
  for (char& byte : all) {
    x = x * 1664525u + 1013904223u;
    byte = char((x >> 16) % 255);
  }
  return all;
}

struct Copy {
  static constexpr size_t canaries = 64;  ///< behind the copy

  std::vector<char> host;
  DeviceBuffer<char> from{host}, to{host.size() + canaries};

  explicit Copy(size_t n) : host(some_bytes(n)) {}
  size_t wrong() const {
    const std::vector<char> found = to.to_host();
    size_t wrong = 0;
    for (size_t i = 0; i < found.size(); ++i)
      wrong += found[i] != (i < host.size() ? host[i] : char(0xff));
    return wrong;
  }
  Task task(const Kernel& k) {
    Check check;
    check.poison = [this] { to.poison(); };
    check.wrong = [this] { return wrong(); };
    return {k.name, [this, &k] { k.launch(from.data(), to.data(), int(host.size()) / k.bytes); },
            std::move(check)};
  }
};

// ---- what to expect ----

// On the 8800 GTX, which had no cache for this: a load took 200 to 300 cycles, as the study quotes,
// of a shader clock of 1.35 GHz. A launch could take around 5 s on a GPU with a display under
// Windows (NVIDIA's CUDA FAQ of those years; some systems waited longer, Vista only 2 s).
constexpr double then_ghz = 1.35;
constexpr double limit_s = 5;

double then_seconds(double loads, double cycles) { return loads * cycles / then_ghz * 1e-9; }

/// Today the first load of a sector of 32 bytes goes to L2, and the others find it in L1.
double loads_of_sector(const Kernel& k) { return 32.0 / k.bytes; }

/// The time of one byte a load, from those of 16 and of 4 bytes: of a sector's loads all but one
/// take the short way.
double predicted_ms(double quads_ms, double words_ms) {
  const double more = loads_of_sector(kernels[words]) - loads_of_sector(kernels[quads]);
  const double hits_ms = (words_ms - quads_ms) / more;
  return words_ms + hits_ms * (loads_of_sector(kernels[bytes]) - loads_of_sector(kernels[words]));
}

// ---- the experiment ----

/// What the reader ran, and what it took then. No GPU is needed.
void show_then(const Run& run) {
  struct Ran {
    const char* what;
    double loads;  ///< one after the other
    const char* seen;
  };
  const Ran all[] = {
      {"copy of 30 MB", 30e6, "\"works half of the time\""},
      {"search of 50 MB", 2 * 50e6, "nothing found"},
      {"search of the last 10 MB", 2 * 10e6, "found"},
  };
  Table table(run.report, "one thread on the 8800 GTX",
              {predicted("1e6 loads", "loads", "1e6", 0),
               predicted("s, at 200 cycles", "time at 200 cycles", "s", 1),
               predicted("at 300", "time at 300 cycles", "s", 1), shown("the reader saw")});
  for (const Ran& ran : all)
    table.row({ran.what}, {ran.loads * 1e-6, then_seconds(ran.loads, 200),
                           then_seconds(ran.loads, 300), ran.seen});
  table.print();
  run.report.note("a search loads a letter of the text and one of the word; Windows waited about " +
                  fixed(limit_s, 0) + " s for a GPU with a display");
}

void show_limit(const Run& run) {
  if (run.device) {
    int limited = 0;
    CUDA_CHECK(cudaDeviceGetAttribute(&limited, cudaDevAttrKernelExecTimeout, run.device->number));
    run.report.note(std::string("kernels on this GPU have ") + (limited ? "a" : "no") +
                    " time limit (cudaDevAttrKernelExecTimeout " + std::to_string(limited) + ")");
  }
  run.report.note("where one is stopped, the next call that waits returns " +
                  std::string(cudaGetErrorName(cudaErrorLaunchTimeout)) + ": " +
                  cudaGetErrorString(cudaErrorLaunchTimeout));
}

void measure(const Run& run) {
  Table table(
      run.report, "a copy of " + std::to_string(part_bytes) + " bytes here",
      {predicted("loads a sector", "loads a sector", "", 0), compared("ms", "time", "ms", 3),
       shown("spread"), predicted("30 MB: s", "time of 30 MB", "s", 3)});
  Copy copy(part_bytes);
  Statistics ms[std::size(kernels)];
  for (size_t i = 0; i < std::size(kernels); ++i) {
    const Kernel& k = kernels[i];
    ms[i] = run.time(copy.task(k)).statistics();
    Cell time = Calibration{ms[i]};
    if (i == bytes)
      time = Compared{predicted_ms(ms[quads].median, ms[words].median), ms[i], Model::latency};
    table.row({k.name}, {loads_of_sector(k), time, spread_text(ms[i]),
                         ms[i].median * 1e-3 * readers_bytes / part_bytes});
  }
  table.print();
  run.report.note("calibration: a load from L2, and one that finds its sector in L1");
}

}  // namespace

void dictionary_copy(const Run& run) {
  show_then(run);
  if (run.device)
    measure(run);
  else
    run.report.left_out("copies by one thread");
  show_limit(run);
}
