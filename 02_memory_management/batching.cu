// batching: the same bytes to the GPU in one copy or in many. The guide says: combine several
// transfers into one [KP]. That costs the host a pass over the bytes, to pack them; the newer
// runtime takes a list of copies in one call instead. Two things to look at:
//   - What a further copy costs that carries next to nothing.
//   - How small the pieces must be before packing them pays.
//
//   cmake -S 02_memory_management -B build/batching -DEXPERIMENTS=batching
//   cmake --build build/batching && build/batching/02_memory_management
//
//   1  keep_busy   the only kernel: it has all multiprocessors, beside 4
//   2  copy_each   a call for each piece
//   3  pack        the host brings them together; then one copy
//   4  copy_batch  all pieces as one list, without and with a preference for overlap
#include <algorithm>
#include <cstring>
#include <numeric>

#include "../framework/common/experiment.hpp"
#include "host_memory.hpp"
#include "options.hpp"
#include "pattern.cuh"

using namespace samples;

namespace {

// ---- the kernel ----

// Has its multiprocessors for so many cycles, and leaves memory alone: what a copy waits for beside
// it are multiprocessors.
__global__ void keep_busy(long long cycles) {
  const long long start = clock64();
  while (clock64() - start < cycles) continue;
}

// ---- the pieces of a copy ----

using Byte = unsigned char;
constexpr size_t most_pieces = 4096;
constexpr size_t pieces_beside = 256;  // beside a kernel, at most
constexpr size_t gap = 256;   // bytes between two pieces on the host: no copy can take both
constexpr size_t guard = 64;  // bytes behind the last one on the device, which must stay as is

/// Where each piece goes, where it comes from, and its bytes.
struct Pieces {
  std::vector<void*> to, from;
  std::vector<size_t> bytes;
  size_t count() const { return to.size(); }
};

// ---- the ways ----

// [ways]
void copy_each(const Pieces& p, cudaStream_t stream) {
  for (size_t k = 0; k < p.count(); ++k)
    CUDA_CHECK(cudaMemcpyAsync(p.to[k], p.from[k], p.bytes[k], cudaMemcpyHostToDevice, stream));
}

void pack(const Pieces& p, Byte* packed) {
  for (size_t k = 0; k < p.count(); ++k) {
    std::memcpy(packed, p.from[k], p.bytes[k]);
    packed += p.bytes[k];
  }
}
// [/ways]

// Takes the copies as one list, in a stream other than the default one. `overlap`: the copies are
// to leave the multiprocessors alone, so that kernels run beside them.
#if CUDART_VERSION >= 12080
void copy_batch(Pieces& p, bool overlap, cudaStream_t stream) {
  cudaMemcpyAttributes attributes{};
  attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  attributes.flags = overlap ? cudaMemcpyFlagPreferOverlapWithCompute : cudaMemcpyFlagDefault;
  size_t first = 0;  // the attributes are those of all copies from this one on
#if CUDART_VERSION >= 13000
  CUDA_CHECK(cudaMemcpyBatchAsync(p.to.data(), p.from.data(), p.bytes.data(), p.count(),
                                  &attributes, &first, 1, stream));
#else
  size_t failed = 0;
  CUDA_CHECK(cudaMemcpyBatchAsync(p.to.data(), p.from.data(), p.bytes.data(), p.count(),
                                  &attributes, &first, 1, &failed, stream));
#endif
}
#else
void copy_batch(Pieces&, bool, cudaStream_t) {
  throw std::logic_error("no batched copy in this toolkit");
}
#endif

// ---- where pieces lie ----

/// `total` bytes in pieces of the same size, the last of which takes what is left over. No piece is
/// empty: there are never more than bytes.
struct Split {
  size_t total, pieces;
  Split(size_t total, size_t pieces) : total(total), pieces(std::min(pieces, total)) {}
  size_t begin(size_t k) const { return k * (total / pieces); }
  size_t bytes(size_t k) const { return k + 1 < pieces ? total / pieces : total - begin(k); }
  size_t host_bytes() const { return total + pieces * gap; }
};

/// On the device one piece follows the other. On the host they lie apart, and in another order:
/// neighbours are about 5/8 of them away from each other.
Pieces scatter(const Split& split, Byte* device, Byte* host) {
  const size_t n = split.pieces;
  Pieces pieces{std::vector<void*>(n), std::vector<void*>(n), std::vector<size_t>(n)};
  size_t step = n * 5 / 8 + 1;
  while (std::gcd(step, n) != 1) ++step;  // so that its multiples modulo n are all of 0 to n - 1
  for (size_t place = 0; place < n; ++place) {
    const size_t k = place * step % n;
    pieces.to[k] = device + split.begin(k);
    pieces.from[k] = host;
    pieces.bytes[k] = split.bytes(k);
    host += pieces.bytes[k] + gap;
  }
  return pieces;
}

/// Writes the pattern where the pieces lie.
void fill_pieces(const Pieces& pieces, unsigned round) {
  size_t first = 0;
  for (size_t k = 0; k < pieces.count(); ++k) {
    Byte* const to = static_cast<Byte*>(pieces.from[k]);
    for (size_t i = 0; i < pieces.bytes[k]; ++i) to[i] = byte_at(first + i, round);
    first += pieces.bytes[k];
  }
}

// ---- the work ----

/// `total` bytes in so many pieces, scattered and packed on the host, and on the device.
struct Work {
  static constexpr unsigned round = 1;
  size_t total;
  PinnedBuffer<Byte> scattered, packed;
  DeviceBuffer<Byte> device;
  DeviceBuffer<unsigned long long> wrong_count{1};
  Stream stream;
  Pieces pieces;

  Work(size_t total, size_t count)
      : total(total),
        scattered(Split(total, count).host_bytes()),
        packed(total),
        device(total + guard),
        pieces(scatter({total, count}, device.data(), scattered.data())) {
    if (!device_memory::Pretence::stands()) fill_pieces(pieces, round);
  }
  void copy_packed() const {
    CUDA_CHECK(
        cudaMemcpyAsync(device.data(), packed.data(), total, cudaMemcpyHostToDevice, stream));
  }
  void poison() const {
    put_pattern(packed.data(), total, round + 1);  // by the device: faster than one thread
    put_pattern(device.data(), total, round + 1);
    CUDA_CHECK(cudaMemset(device.data() + total, 0x5a, guard));
    CUDA_CHECK(cudaDeviceSynchronize());
  }
  size_t wrong() const {
    const size_t wrong = wrong_bytes(device.data(), total, round, 0, wrong_count);
    std::vector<Byte> behind(guard);
    device_memory::to_host(behind.data(), device.data() + total, guard);
    return wrong + guard - size_t(std::count(behind.begin(), behind.end(), 0x5a));
  }
  size_t wrong_in_packed() const {
    size_t wrong = 0;
    for (size_t i = 0; i < total; ++i) wrong += packed[i] != byte_at(i, round);
    return wrong;
  }
};

/// A way for all pieces to the device.
struct Way {
  const char* key = "";
  const char* words = "";
  void (*go)(Work&) = nullptr;
  bool is_batch = false;
};
const Way ways[] = {
    {.key = "copy_each",
     .words = "one by one",
     .go = [](Work& w) { copy_each(w.pieces, w.stream); }},
    {.key = "one_copy", .words = "one copy", .go = [](Work& w) { w.copy_packed(); }},
    {.key = "packed_copy",
     .words = "packed",
     .go =
         [](Work& w) {
           pack(w.pieces, w.packed.data());
           w.copy_packed();
         }},
    {.key = "copy_batch",
     .words = "batched",
     .go = [](Work& w) { copy_batch(w.pieces, false, w.stream); },
     .is_batch = true},
    {.key = "copy_batch_overlapping",
     .words = "batched, overlap preferred",
     .go = [](Work& w) { copy_batch(w.pieces, true, w.stream); },
     .is_batch = true},
};

/// All of it is waited for.
Task task_of(const Ref& ref, const Shared<Work>& work, const Way& way) {
  const bool is_packed = way.key == std::string("one_copy");  // of bytes that are together already
  return {text(ref),
          [work, &way] {
            way.go(*work);
            work->stream.wait();
          },
          {[work, is_packed] {
             work->poison();
             if (is_packed) pack(work->pieces, work->packed.data());
           },
           [work] { return work->wrong(); }, ""},
          true};
}
Task packing_task(const Ref& ref, const Shared<Work>& work) {
  return {text(ref),
          [work] { pack(work->pieces, work->packed.data()); },
          {[work] { work->poison(); }, [work] { return work->wrong_in_packed(); }, ""},
          true};
}

/// The same while a kernel has all multiprocessors for so many cycles.
Task task_beside(const Ref& ref, const Shared<Work>& work, const Way& way, int blocks,
                 long long cycles) {
  constexpr unsigned threads = 256;  // they divide the resident threads of all GPUs
  Task task = task_of(ref, work, way);
  const Shared busy{Stream()};
  task.enter = [busy, blocks, cycles] {
    keep_busy<<<blocks, threads, 0, *busy>>>(cycles);
    CUDA_CHECK_LAUNCH();
  };
  task.leave = [busy] { cudaStreamSynchronize(*busy); };
  return task;
}

// ---- prediction ----

/// Each further copy in a stream takes as long as one of next to nothing.
double one_by_one_ms(double one_copy_ms, double queued_ms, double pieces) {
  return one_copy_ms + (pieces - 1) * queued_ms;
}

// ---- the experiment ----

/// Bytes of all pieces: on the GPU, and of the host's memory that it may pin.
size_t total_bytes(const Run& run) {
  const size_t typed = options_of(run).size;
  const auto pinned = [](size_t t) { return double(2 * t + most_pieces * gap + guard); };
  if (typed) require_fits("batching on the GPU", pinned(typed), run.memory_there());
  return fitting_size("batching in pinned memory (a quarter of the host's)", typed,
                      size_t(run.quick ? 4 : 16) << 20,
                      std::min(pinnable_bytes(run), run.memory_there()), pinned);
}

/// Numbers of pieces.
std::vector<size_t> counts_of(const Run& run) {
  std::vector<size_t> counts;
  for (size_t n = 1; n <= std::min(most_pieces, total_bytes(run)); n *= run.full    ? 2
                                                                        : run.quick ? 16
                                                                                    : 4)
    counts.push_back(n);
  return counts;
}

/// Why there is no batched copy here; empty if there is one.
std::string why_no_batch(const Run& run) {
  if (CUDART_VERSION < 12080) return "toolkit before 12.8";
  const Statistics driver = ask(run, "copy_batch", "driver's CUDA version", "", [] {
    int version = 0;
    CUDA_CHECK(cudaDriverGetVersion(&version));
    return single(version);
  });
  // where it was not recorded there was one
  return driver.median > 1000 && driver.median < 12080 ? "driver for CUDA before 12.8" : "";
}

/// The model's constants, and the host's pass over the bytes.
void measure_alone(const Run& run, size_t total) {
  const auto per_copy = [](const Row& row, double ms) {
    return 1e3 * ms / (row.ref.key == "copies_of_4_bytes" ? most_pieces : 1);
  };
  Sheet sheet(run, "alone", {in_unit(compared("us", "time alone", "us", 2), per_copy), spread()});
  const auto add = [&](const char* key, const char* words) {
    sheet.add({.ref = key, .words = words, .calibrates = true});
  };
  add("one_copy", "one copy of all bytes");
  add("copies_of_4_bytes", "a 4-byte copy, queued after others");
  sheet.add({.ref = "packing", .words = "packing all bytes, one piece", .model = Model::host});
  sheet.measure(Timing::alone, [total](const Row& row) {
    if (row.ref.key == "copies_of_4_bytes")
      return task_of(row.ref, Shared(Work(4 * most_pieces, most_pieces)),
                     *with_key(ways, "copy_each"));
    const Shared whole(Work(total, 1));
    return row.ref.key == "packing" ? packing_task(row.ref, whole)
                                    : task_of(row.ref, whole, *with_key(ways, "one_copy"));
  });
  sheet.print();
}

/// All ways for one number of pieces, in turn.
void measure_pieces(const Run& run, size_t total, size_t count, const std::string& no_batch) {
  const std::string pieces = count == 1 ? " piece of " : " pieces of ";
  Sheet sheet(run, std::to_string(count) + pieces + bytes_text(double(total / count)),
              {milliseconds(3), spread(), in_unit(measured("GB/s", "rate", "GB/s", 1), gbs_of)},
              "pieces");
  for (const Way& way : ways)
    sheet.add({.ref = {way.key, double(count)},
               .words = way.words,
               .bytes = double(total),
               .model = Model::host,
               .missing = way.is_batch ? no_batch : ""});
  SharedByTasks work([=] { return Work(total, count); });
  sheet.measure(Timing::in_turn,
                [&](const Row& row) { return task_of(row.ref, work(), *with_key(ways, row.ref)); });
  const double queued = sheet.ms("copies_of_4_bytes") / most_pieces;
  sheet.predict([&](const Row& row) {  // what packing small pieces costs, and a list, no model says
    return row.ref.key == "copy_each" ? one_by_one_ms(sheet.ms("one_copy"), queued, row.ref.at)
                                      : double(NAN);
  });
  sheet.print();
}

/// A list beside a kernel that runs four times as long as the list. Copies need no multiprocessors,
/// so that the kernel should change nothing.
void measure_beside(const Run& run, size_t total, size_t count, const std::string& no_batch) {
  const auto without = [count](const Ref& ref) {
    return Ref(ref.key.substr(0, ref.key.rfind("_beside")), double(count));
  };
  Sheet sheet(run, "beside a kernel, pieces", {milliseconds(3), spread()}, "pieces");
  for (const Way& way : ways)
    if (way.is_batch)
      sheet.add({.ref = {std::string(way.key) + "_beside", double(count)},
                 .words = way.words,
                 .bytes = double(total),
                 .model = Model::host,
                 .missing = no_batch});
  SharedByTasks work([=] { return Work(total, count); });
  sheet.measure(Timing::in_turn, [&](const Row& row) {
    const Ref list = without(row.ref);
    const cudaDeviceProp& prop = run.device->prop;
    const int blocks = prop.multiProcessorCount * (prop.maxThreadsPerMultiProcessor / 256);
    const double khz = run.device->sm_clock_khz > 0 ? run.device->sm_clock_khz : 1.5e6;
    return task_beside(row.ref, work(), *with_key(ways, list), blocks,
                       static_cast<long long>(4 * sheet.ms(list) * khz));
  });
  sheet.predict([&](const Row& row) { return sheet.ms(without(row.ref)); });
  sheet.print();
}

void run_batching(const Run& run) {
  const size_t total = total_bytes(run);
  const std::vector<size_t> counts = counts_of(run);
  run.report.begin("batching", bytes_text(double(total)) + " to the GPU in 1 to " +
                                   std::to_string(counts.back()) + " pieces");
  const std::string no_batch = why_no_batch(run);
  measure_alone(run, total);
  for (const size_t n : counts) measure_pieces(run, total, n, no_batch);
  run.report.note("n pieces one by one: one copy + (n - 1) x that of a queued 4-byte copy");
  const double one_ms = (*run.results)("one_copy").time.ms.median;
  if (run.device && run.device->number >= 0)
    require_possible("one copy", double(total) * 1e-6 / one_ms, link_gbs(run.device->prop));
  size_t some = counts[0];
  for (const size_t n : counts)
    if (n <= pieces_beside) some = n;
  measure_beside(run, total, some, no_batch);
}

// ---- claims ----

std::vector<Claim> claims(const Run& run) {
  const double most = double(counts_of(run).back());
  const auto at = [most](const char* key) { return Ref(key, most); };
  return {
      {.part = {"02.4", "one transfer beats many small ones", "combine, no figure", "the guide"},
       .rule = beats(),
       .pairs = {{.slow = at("copy_each"), .fast = at("one_copy")}},
       .here = fixed(most, 0) + " pieces",
       .unless = most < most_pieces ? "too few bytes" : "",
       .found = {{.slow = at("copy_each"), .fast = at("packed_copy")},
                 {.slow = at("copy_each"), .fast = at("copy_batch")},
                 {.slow = at("copy_batch"), .fast = at("packed_copy")}}}};
}

// ---- what it declares ----

Needs needs(const Run& run) { return {.allocated = double(total_bytes(run) + guard)}; }

std::vector<Checked> tasks(size_t n) {
  std::vector<Checked> all;
  int driver = 0;
  CUDA_CHECK(cudaDriverGetVersion(&driver));
  for (const Way& way : ways) {
    if (way.is_batch && std::min(driver, CUDART_VERSION) < 12080) continue;
    const Shared work(Work(n, 37));
    all.push_back({.task = task_of(way.key, work, way), .elements = n, .change_one = [work] {
                     Byte byte;
                     device_memory::to_host(&byte, work->device.data(), 1);
                     ++byte;
                     device_memory::to_device(work->device.data(), &byte, 1);
                   }});
  }
  const Shared work(Work(n, 37));
  all.push_back({.task = packing_task("packing", work), .elements = n, .change_one = [work] {
                   ++work->packed[0];
                 }});
  return all;
}

}  // namespace

extern const Experiment batching_experiment{
    .name = "batching",
    .about = "many small copies, one large one, and the runtime's batched copy",
    .run = run_batching,
    .check_typed = [](const Run& run) { total_bytes(run); },
    .claims = claims,
    .needs = needs,
    .tasks = tasks,
};
