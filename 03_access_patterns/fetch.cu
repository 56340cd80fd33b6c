// fetch: how many bytes does the L2 fetch for one sector of 32? No text of the chapter asks for it,
// but the models of this topic rest on it: they say 64 bytes, and a reader should see why. The
// runtime has a setting for it, cudaLimitMaxL2FetchGranularity, of 32, 64 or 128 bytes. Here the
// same kernel runs under each of the three. Two things to look at:
//   - The bytes that memory delivers per word (counted): as many as the setting says, as long as
//     the words lie at least so far apart.
//   - The time at 64 bytes apart. With the default of 64, half of the bytes are for nothing. With
//     32 they stay where they are.
//
//   cmake -S 03_access_patterns -B build/fetch -DEXPERIMENTS=fetch && cmake --build build/fetch
//   build/fetch/03_access_patterns fetch
//
//   1  read_apart  lane i of a warp reads word i * stride
#include "../framework/common/experiment.hpp"
#include "reads.cuh"
#include "transactions.hpp"

using namespace samples;

namespace {

// ---- kernel ----

// [read_apart]
// Each lane reads one word of another sector. `stride`: words from lane to lane; 8 are 32 bytes.
__global__ void read_apart(unsigned* out, const unsigned* in, size_t n, size_t stride) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  unsigned sum = 0;
  size_t i = tid;
  for (; i + 7 * threads < n; i += 8 * threads) {  // eight loads in flight
#pragma unroll
    for (unsigned k = 0; k < 8; ++k) sum += in[(i + k * threads) * stride];
  }
  for (; i < n; i += threads) sum += in[i * stride];  // the remaining words
  out[tid] = sum;
}
// [/read_apart]

// ---- the setting ----

// [with_fetch]
/// A task that runs while the L2 fetches `bytes` at a time. Then the former value is set again.
Task with_fetch(Task task, size_t bytes) {
  size_t before = 0;
  CUDA_CHECK(cudaDeviceGetLimit(&before, cudaLimitMaxL2FetchGranularity));
  task.enter = [bytes] { CUDA_CHECK(cudaDeviceSetLimit(cudaLimitMaxL2FetchGranularity, bytes)); };
  task.leave = [before] {
    if (cudaDeviceSetLimit(cudaLimitMaxL2FetchGranularity, before) != cudaSuccess)
      (void)cudaGetLastError();  // the kernel has failed, and its error is reported
  };
  return task;
}
// [/with_fetch]

/// The runtime calls it a hint. What the device says after it was asked for so many bytes; 0 if it
/// refuses. What was set before is set again.
size_t granted(size_t bytes) {
  size_t before = 0, now = 0;
  const bool set = cudaDeviceGetLimit(&before, cudaLimitMaxL2FetchGranularity) == cudaSuccess &&
                   cudaDeviceSetLimit(cudaLimitMaxL2FetchGranularity, bytes) == cudaSuccess &&
                   cudaDeviceGetLimit(&now, cudaLimitMaxL2FetchGranularity) == cudaSuccess &&
                   cudaDeviceSetLimit(cudaLimitMaxL2FetchGranularity, before) == cudaSuccess;
  if (!set) (void)cudaGetLastError();
  return set ? now : 0;
}

// ---- the rows ----

constexpr size_t fetches[] = {32, 64, 128};
constexpr size_t distances[] = {32, 64, 128, 256};  // bytes from word to word

Ref row_of(size_t fetch, size_t apart) { return {"fetch_" + std::to_string(fetch), double(apart)}; }

size_t words_read(size_t words, size_t apart) { return (words + apart / 4 - 1) / (apart / 4); }

Task read_task(const Shared<Words>& memory, size_t fetch, size_t apart) {
  const size_t stride = apart / 4, n = words_read(memory->in.size(), apart);
  const auto launch = [memory, n, stride] {
    read_apart<<<memory->grid.blocks, block_threads>>>(memory->sums.data(), memory->in.data(), n,
                                                       stride);
  };
  return with_fetch(memory->task(text(row_of(fetch, apart)), launch, Slots{0, stride, n}), fetch);
}

// ---- prediction ----

/// Bytes that memory delivers per word that is read: what is fetched for it, or, where the next
/// word lies nearer than that, the bytes up to that word.
double bytes_per_word(size_t fetch, size_t apart) { return double(std::min(fetch, apart)); }

/// As in `stride`: all bytes of the array take `moving_ms`, stepping through it `passing_ms`, and
/// the root of the sum of squares stands for times that overlap partly.
struct FetchModel {
  double moving_ms = NAN, passing_ms = NAN;

  /// From rows of the default: one in which the whole array moves, and one in which a quarter does.
  static FetchModel from(double all_ms, double quarter_ms) {
    const double both = all_ms * all_ms;
    const double square = (both - quarter_ms * quarter_ms) / (1 - 1.0 / 16);
    const double moving = std::min(std::max(square, 0.0), both);
    return {std::sqrt(moving), std::sqrt(both - moving)};
  }
  double ms(size_t fetch, size_t apart) const {
    return std::hypot(moving_ms * bytes_per_word(fetch, apart) / double(apart), passing_ms);
  }
};

// ---- the experiment ----

constexpr size_t counted_words = size_t(1) << 25;  // 128 MiB
const char* const from_memory = "dram__bytes_read.sum";

std::string counted_parameter(size_t fetch, size_t apart) {
  return std::to_string(fetch) + " bytes fetched for words " + std::to_string(apart) +
         " bytes apart";
}

/// Bytes from memory per word, as counted in this run.
double counted_per_word(const Run& run, size_t fetch, size_t apart) {
  const Statistics bytes = ask(run, row_of(fetch, apart), from_memory, "B", [=] {
    return single(count_of_this_run("read_apart", counted_parameter(fetch, apart), from_memory));
  });
  return bytes.median / double(words_read(counted_words, apart));
}

/// At the widest distance an eighth of the array moves, or, with 128 bytes fetched, half of it.
size_t array_bytes(const Run& run) {
  return bytes_to_read(run, size_t(run.quick ? 1 : 2) << 30, 1.0 / 8);
}

void run_fetch(const Run& run) {
  const size_t bytes = array_bytes(run), words = bytes / 4;
  run.report.begin("fetch", bytes_text(double(bytes)) + ", of which one word of 4 bytes is read " +
                                "every 32, 64, 128 and 256 bytes");
  SharedByTasks memory([&run, words] { return Words(words, resident_grid(*run.device)); });

  const auto fetch_of = [](const Row& row) {
    return *std::find_if(std::begin(fetches), std::end(fetches), [&row](size_t fetch) {
      return same(row.ref, row_of(fetch, size_t(row.ref.at)));
    });
  };
  const auto apart_of = [](const Row& row) { return size_t(row.ref.at); };
  Sheet sheet(
      run, "bytes apart, and fetched",
      {number(predicted("bytes per word", "bytes from memory a word", "B", 0),
              [&](const Row& row) { return bytes_per_word(fetch_of(row), apart_of(row)); }),
       number(counted("counted", "counted bytes a word", "B", 1),
              [&](const Row& row) { return counted_per_word(run, fetch_of(row), apart_of(row)); }),
       milliseconds(3), spread()},
      "bytes apart");
  std::vector<std::string> refused;  // of each fetch size: why its rows are not measured
  for (const size_t fetch : fetches) {
    const Statistics now = ask(run, "fetch_" + std::to_string(fetch), "granted", "B",
                               [fetch] { return single(double(granted(fetch))); });
    refused.push_back(now.repeats > 0 && now.median != double(fetch)
                          ? "the device does not take this fetch size"
                          : "");
  }
  for (const size_t apart : distances)
    for (size_t f = 0; f < std::size(fetches); ++f)
      sheet.add(
          {.ref = row_of(fetches[f], apart),
           .words = std::to_string(apart) + " apart, " + std::to_string(fetches[f]) + " fetched",
           .bytes = 4.0 * double(words_read(words, apart)),
           .calibrates = fetches[f] == 64 && (apart == 32 || apart == 256),
           .model = model_of_pieces(run.device),
           .missing = refused[f]});
  sheet.measure(Timing::alone,
                [&](const Row& row) { return read_task(memory(), fetch_of(row), apart_of(row)); });
  const auto model = FetchModel::from(sheet.ms(row_of(64, 32)), sheet.ms(row_of(64, 256)));
  sheet.predict([&](const Row& row) { return model.ms(fetch_of(row), apart_of(row)); },
                Basis::fitted);
  sheet.print({"the model: memory delivers what is fetched; stepping through the array takes time,",
               "too, as in `stride`"});
  if (run.device && !beyond_l2(*run.device, double(bytes) / 8))
    run.report.note("at wide distances less than four times the L2's size moves");
}

// ---- what it declares ----

Needs needs(const Run& run) {
  const double bytes = double(array_bytes(run));
  return {bytes + 8.0 * resident_grid(*run.device).threads(), bytes / 8};
}

std::vector<Checked> tasks(size_t n) {
  std::vector<Checked> all;
  for (const size_t fetch : fetches)
    for (const size_t apart : distances) {
      if (granted(fetch) != fetch) continue;
      // ends with the last word that is read
      const Shared memory(Words((words_read(n, apart) - 1) * apart / 4 + 1, Grid{3}));
      all.push_back({.task = read_task(memory, fetch, apart),
                     .elements = memory->grid.threads(),
                     .change_one = [memory] { memory->change_one(); }});
    }
  return all;
}

std::vector<CountedLaunch> counted_launches() {
  std::vector<CountedLaunch> all;
  for (const size_t fetch : fetches)
    for (const size_t apart : distances) {
      const double loads = double(words_read(counted_words, apart)) / 32;  // of a warp
      const Warp warp = warp_of(4, [apart](unsigned lane) { return lane * apart / 4; });
      all.push_back(counted_launch("read_apart", counted_parameter(fetch, apart),
                                   {loads, loads * sectors(warp)}, {}, [fetch, apart] {
                                     const Grid grid = resident_grid(Device::current());
                                     return read_task(Shared(Words(counted_words, grid)), fetch,
                                                      apart);
                                   }));
    }
  return all;
}

}  // namespace

extern const Experiment fetch_experiment{
    .name = "fetch",
    .about = "how many bytes the L2 fetches for a sector, by a setting of the runtime",
    .run = run_fetch,
    .needs = needs,
    .tasks = tasks,
    .counted = counted_launches};
