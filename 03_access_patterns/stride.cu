// stride: reads one word out of every `stride` words of an array. In the wiki's worst case [LC 3.4]
// the 32 lanes of a warp read words in 32 different segments. Two things to look at:
//   - Where the steep fall of the rate ends. Up to stride 8, a request touches more and more
//     sectors. But the measured rate falls steeply up to stride 16, because the L2 cache of an H200
//     fetches 64 bytes at a time.
//   - What happens beyond 16. More and more of these 64-byte pieces are skipped, but the rate of
//     useful words still falls, slowly.
//
//   cmake -S 03_access_patterns -B build/stride -DEXPERIMENTS=stride && cmake --build build/stride
//   build/stride/03_access_patterns stride
//
//   1  read_stride  lane i of a warp reads word i * stride
// stride_locality.cu: how much faster a kernel is if it reads a word's neighbours, or reads the
// same words again.
#include "../framework/common/experiment.hpp"
#include "reads.cuh"
#include "transactions.hpp"

using namespace samples;

void stride_locality(const Run& run);  // stride_locality.cu

namespace {

// ---- kernel ----
// Thread t adds up words t, t + threads, t + 2 threads ... of the n words to read, into out[t].

// [read_stride]
// The 32 words of a warp's load lie `stride` words apart, in up to 32 sectors of 32 bytes. If there
// are 32 sectors, 4 bytes of each are used.
__global__ void read_stride(unsigned* out, const unsigned* in, size_t n, size_t stride) {
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
// [/read_stride]

/// Words of an array that are read: the first of each `stride`.
size_t words_read(size_t words, size_t stride) { return (words + stride - 1) / stride; }

Ref row_of(size_t stride) { return {"read_stride", double(stride)}; }

/// The work of that row. The kernel finds a thread's words. Its check (reads.cuh) finds the thread
/// that reads a word.
Task read_task(const Shared<Words>& memory, size_t stride) {
  const size_t n = words_read(memory->in.size(), stride);
  const auto launch = [memory, n, stride] {
    read_stride<<<memory->grid.blocks, block_threads>>>(memory->sums.data(), memory->in.data(), n,
                                                        stride);
  };
  return memory->task(text(row_of(stride)), launch, Slots{0, stride, n});
}

// ---- prediction ----

Warp warp_at(size_t stride) {
  return warp_of(4, [=](unsigned lane) { return lane * stride; });
}

/// Share of the array that moves if it is fetched in aligned pieces of so many bytes.
double share_moved(size_t stride, unsigned bytes) {
  const double spanned = 128.0 * double(stride);  // bytes of the array that a load of a warp spans
  return bytes * pieces(warp_at(stride), bytes) / spanned;
}

constexpr size_t densest = 1, widest = 64;

/// Moving bytes takes time. Stepping through the array takes time, too, even if few of its bytes
/// move. The two times overlap partly. The root of the sum of their squares was chosen because it
/// fits the rows of an H200. It lies between the longer of the two times (if they overlap fully)
/// and their sum (if they do not overlap).
struct StrideModel {
  double moving_ms = NAN;   ///< to move all bytes of the array
  double passing_ms = NAN;  ///< to step through it

  static StrideModel from(double densest_ms, double widest_ms) {
    const double least = share_moved(widest, memory_piece);
    const double both = densest_ms * densest_ms;
    const double square = (both - widest_ms * widest_ms) / (1 - least * least);
    const double moving = std::min(std::max(square, 0.0), both);
    return {std::sqrt(moving), std::sqrt(both - moving)};
  }
  double ms(size_t stride) const {
    return std::hypot(moving_ms * share_moved(stride, memory_piece), passing_ms);
  }
};

// ---- the experiment ----

size_t stride_of(const Row& row) { return size_t(row.ref.at); }
double sectors_of(const Row& row) { return sectors(warp_at(stride_of(row))); }
double pieces_of(const Row& row) { return pieces(warp_at(stride_of(row)), memory_piece); }

/// The rate at which whole sectors arrive: 4 sectors hold 32 words.
double sectors_gbs(const Row& row, double ms) {
  return sectors_of(row) / 4 * row.bytes * 1e-6 / ms;
}

std::vector<size_t> strides(bool full) {
  if (!full) return {1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 32, 48, 64};
  std::vector<size_t> all;
  for (size_t stride = densest; stride <= widest; ++stride) all.push_back(stride);
  return all;
}

/// At the widest stride an eighth of the array moves. The array is so large that this eighth does
/// not fit into the L2.
size_t array_bytes(const Run& run) {
  return bytes_to_read(run, size_t(run.quick ? 1 : 2) << 30, 1.0 / 8);
}

/// How many bytes the L2 fetches at a time, as set in the runtime, where it is a hint.
void note_fetch_granularity(const Run& run) {
  const Statistics bytes = ask(run, "device", "L2 fetch granularity", "B", [] {
    size_t limit = 0;
    if (cudaDeviceGetLimit(&limit, cudaLimitMaxL2FetchGranularity) == cudaSuccess)
      return single(double(limit));
    (void)cudaGetLastError();  // older GPUs do not know the limit
    return Statistics{};
  });
  if (bytes.repeats > 0)
    run.report.note("cudaLimitMaxL2FetchGranularity is set to " + bytes_text(bytes.median) +
                    " (a hint)");
}

void run_stride(const Run& run) {
  const size_t bytes = array_bytes(run), words = bytes / 4;
  run.report.begin("stride", bytes_text(double(bytes)) + " in " + std::to_string(words) +
                                 " words of 4 bytes, one out of every `stride` is read");
  SharedByTasks memory([&run, words] { return Words(words, resident_grid(*run.device)); });

  Sheet sheet(
      run, "stride, words",
      {number(predicted("sectors/request", "load sectors a request", "", 0), sectors_of),
       number(predicted("64-byte pieces", "pieces of 64 bytes a request", "", 0), pieces_of),
       gigabytes_per_second(), spread(),
       number(saved_only(predicted("by sectors", "bandwidth by sectors", "GB/s", 0)),
              [&](const Row& row) {
                const double dense = 4e-6 * double(words) / sheet.ms(row_of(densest));
                return dense / (sectors_of(row) / 4);
              }),
       in_unit(measured("sectors' GB/s", "bandwidth of sectors", "GB/s", 0), sectors_gbs),
       bar_against(run, row_of(densest))});
  for (const size_t stride : strides(run.full))
    sheet.add({.ref = row_of(stride),
               .bytes = 4.0 * double(words_read(words, stride)),
               .calibrates = stride == densest || stride == widest,
               // up to 8 the documented sectors decide; beyond, pieces, which were found on 9.0
               .model = stride <= 8 ? Model::traffic : model_of_pieces(run.device)});
  sheet.measure(Timing::alone, [&](const Row& row) { return read_task(memory(), stride_of(row)); });
  const auto model = StrideModel::from(sheet.ms(row_of(densest)), sheet.ms(row_of(widest)));
  sheet.predict([&](const Row& row) { return model.ms(stride_of(row)); }, Basis::fitted);
  sheet.print({"GB/s counts the words that are read. The model: the L2 fetches 64 bytes at a time,",
               "and stepping through the array takes time as well"});
  note_fetch_granularity(run);
  if (run.device && !beyond_l2(*run.device, double(bytes) / 8))
    run.report.note("at wide strides less than four times the L2's size moves: rates of the cache");
  stride_locality(run);
}

// ---- what it declares ----

Needs needs(const Run& run) {
  const double bytes = double(array_bytes(run));
  return {bytes + 8.0 * resident_grid(*run.device).threads(), bytes / 8};
}

std::vector<Checked> tasks(size_t n) {
  std::vector<Checked> all;
  for (const size_t stride : {1, 2, 7, 33, 64}) {
    // ends with the last word that is read
    const Shared memory(Words((words_read(n, stride) - 1) * stride + 1, Grid{3}));
    all.push_back({.task = read_task(memory, stride),
                   .elements = memory->grid.threads(),
                   .change_one = [memory] { memory->change_one(); }});
  }
  return all;
}

std::vector<CountedLaunch> counted() {
  constexpr size_t loads = (size_t(1) << 15) / 32;  // of a warp
  std::vector<CountedLaunch> all;
  for (const size_t stride : {1, 2, 3, 4, 5, 7, 8, 9, 16, 31, 32, 64})
    all.push_back(counted_launch("read_stride", "stride " + std::to_string(stride),
                                 {double(loads), double(loads) * sectors(warp_at(stride))}, {},
                                 [stride] {
                                   const Grid grid = resident_grid(Device::current());
                                   return read_task(Shared(Words(stride << 15, grid)), stride);
                                 }));
  return all;
}

}  // namespace

extern const Experiment stride_experiment{
    .name = "stride",
    .about = "reading every word, every second, up to every 64th",
    .run = run_stride,
    .needs = needs,
    .tasks = tasks,
    .counted = counted};
