// batching: the same bytes to the GPU in one copy or in many. The guide says: combine several
// transfers into one [KP]. That costs the host a pass over the bytes, to pack them; the newer
// runtime takes a list of copies in one call instead. Look at what a further copy costs that
// carries next to nothing, and at how small the pieces must be before packing them pays.
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

#include "host_memory.hpp"
#include "options.hpp"
#include "pattern.cuh"

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

/// Why there is no batched copy here; empty if there is one.
std::string why_no_batch() {
  if (CUDART_VERSION < 12080) return "toolkit before 12.8";
  int driver = 0;
  CUDA_CHECK(cudaDriverGetVersion(&driver));
  return driver < 12080 ? "driver for CUDA before 12.8" : "";
}

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

/// Room for `total` bytes, scattered and packed on the host, and on the device.
struct Memory {
  static constexpr unsigned round = 1;
  size_t total;
  PinnedBuffer<Byte> scattered, packed;
  DeviceBuffer<Byte> device;
  DeviceBuffer<unsigned long long> wrong_count{1};
  Stream stream;

  explicit Memory(size_t total)
      : total(total),
        scattered(Split(total, most_pieces).host_bytes()),
        packed(total),
        device(total + guard) {}

  Pieces lay_out(size_t count) const {
    const Pieces pieces = scatter({total, count}, device.data(), scattered.data());
    fill_pieces(pieces, round);
    return pieces;
  }
  void copy_packed() const {
    CUDA_CHECK(
        cudaMemcpyAsync(device.data(), packed.data(), total, cudaMemcpyHostToDevice, stream));
  }
  Check check() {
    Check check;
    check.poison = [this] {
      CUDA_CHECK(cudaMemset(packed.data(), 0xff, total));  // by the device: faster than one thread
      put_pattern(device.data(), total, round + 1);
      CUDA_CHECK(cudaMemset(device.data() + total, 0x5a, guard));
      CUDA_CHECK(cudaDeviceSynchronize());
    };
    check.wrong = [this] {
      size_t wrong = wrong_bytes(device.data(), total, round, 0, wrong_count);
      std::vector<Byte> behind(guard);
      device_memory::to_host(behind.data(), device.data() + total, guard);
      return wrong + guard - size_t(std::count(behind.begin(), behind.end(), 0x5a));
    };
    return check;
  }
  /// All of it is waited for.
  Task task(const std::string& name, const Function<void()>& way) {
    const auto go = [this, way] {
      way();
      stream.wait();
    };
    return {name, go, check(), true};
  }
  Task one_by_one(const Pieces& p) {
    return task("one by one", [this, &p] { copy_each(p, stream); });
  }
  Task packed_first(const Pieces& p) {
    return task("packed", [this, &p] {
      pack(p, packed.data());
      copy_packed();
    });
  }
  Task batched(Pieces& p, bool overlap) {
    return task("batched", [this, &p, overlap] { copy_batch(p, overlap, stream); });
  }
  /// One copy of bytes that are together already.
  Task one_copy(const Pieces& p) {
    Task one = task("one copy", [this] { copy_packed(); });
    const Check poisoned = one.check;
    one.check.poison = [this, poisoned, &p] {
      poisoned.poison();
      pack(p, packed.data());
    };
    return one;
  }
  Task packing(const Pieces& p) {
    Check check;
    check.poison = [this] { std::fill_n(packed.data(), total, Byte(0xff)); };
    check.wrong = [this] {
      size_t wrong = 0;
      for (size_t i = 0; i < total; ++i) wrong += packed[i] != byte_at(i, round);
      return wrong;
    };
    return {"packing alone", [this, &p] { pack(p, packed.data()); }, std::move(check), true};
  }
};

// ---- what to expect ----

/// Milliseconds, measured in the same run.
struct Calibrated {
  double one_copy = NAN;  ///< of all bytes
  double queued = NAN;    ///< a copy of next to nothing, behind others
  double packing = NAN;   ///< of all bytes, in one piece
};

double one_by_one_ms(const Calibrated& c, size_t pieces) {
  return c.one_copy + double(pieces - 1) * c.queued;
}
double packed_ms(const Calibrated& c) { return c.packing + c.one_copy; }

/// From how many pieces on packing should pay.
double packing_pays(const Calibrated& c) { return std::ceil(1 + c.packing / c.queued); }

// ---- the experiment ----

/// Times of one number of pieces.
struct Times {
  size_t pieces;
  Readings one, each, packed, batched, overlapping;
};

Calibrated calibrate(const Run& run, Memory& memory) {
  Memory small(4 * most_pieces);  // 4 bytes each
  const Pieces tiny = small.lay_out(most_pieces);
  const Pieces whole = memory.lay_out(1);
  const Statistics queued =
      scaled(run.time(small.one_by_one(tiny)).statistics(), 1.0 / double(most_pieces));
  const Statistics one = run.time(memory.one_copy(whole)).statistics();
  const Statistics packing = run.time(memory.packing(whole)).statistics();
  Table table(run.report, "alone", {compared("us", "time alone", "us", 2), shown("spread")});
  const auto row = [&](const char* name, const Statistics& ms) {
    table.row({name}, {Calibration{scaled(ms, 1e3)}, spread_text(ms)});
  };
  row("one copy of all bytes", one);
  row("a 4-byte copy, queued after others", queued);
  row("packing all bytes, one piece", packing);
  table.print();
  return {one.median, queued.median, packing.median};
}

Times measure(const Run& run, Memory& memory, size_t count, bool has_batch) {
  Pieces pieces = memory.lay_out(count);
  std::vector<Task> tasks;
  tasks.push_back(memory.one_by_one(pieces));
  tasks.push_back(memory.one_copy(pieces));
  tasks.push_back(memory.packed_first(pieces));
  if (has_batch) tasks.push_back(memory.batched(pieces, false));
  if (has_batch) tasks.push_back(memory.batched(pieces, true));
  std::vector<Readings> times = run.time_in_turn(tasks);
  times.resize(5);
  return {count, times[1], times[0], times[2], times[3], times[4]};
}

/// Times of a list beside a kernel, by the preference for overlap.
struct Beside {
  Readings plain, preferring;
};

/// `alone_ms`: of the list without a kernel, which is to run four times as long.
Beside beside_a_kernel(const Run& run, Memory& memory, Pieces& pieces, double alone_ms) {
  constexpr unsigned threads = 256;  // they divide the resident threads of all GPUs
  const cudaDeviceProp& prop = run.device->prop;
  const int blocks = prop.multiProcessorCount * (prop.maxThreadsPerMultiProcessor / int(threads));
  const double khz = run.device->sm_clock_khz > 0 ? run.device->sm_clock_khz : 1.5e6;
  const long long cycles = static_cast<long long>(4 * alone_ms * khz);
  const Stream busy;
  const auto list_ms = [&](bool preferring) {
    Event first, last;
    keep_busy<<<blocks, threads, 0, busy>>>(cycles);
    CUDA_CHECK_LAUNCH();
    first.record(memory.stream);
    copy_batch(pieces, preferring, memory.stream);
    last.record(memory.stream);
    last.wait();
    busy.wait();
    return last.ms_since(first);
  };
  const Check check = memory.check();
  for (const bool preferring : {false, true}) {
    check.poison();
    list_ms(preferring);
    require_right(check.wrong() == 0, "a list beside a kernel");
  }
  Beside beside;
  const int rounds = run.measuring.rounds_in_turn();
  for (int r = 0; r < rounds; ++r)
    for (int i = 0; i < 2; ++i) {
      const bool preferring = (r + i) % 2 == 1;  // which of the two comes first changes
      Readings& times = preferring ? beside.preferring : beside.plain;
      times.ms.push_back(list_ms(preferring));
    }
  return beside;
}

/// Copies need no multiprocessors, so that a kernel beside them should change nothing.
void show_beside(const Run& run, const Beside& beside, const Times& alone) {
  Table table(run.report, "beside a kernel, pieces",
              {compared("ms", "time beside a kernel", "ms", 3), shown("spread")});
  const auto row = [&](const char* name, const Readings& ms, const Readings& without) {
    table.row(
        {name, "pieces", std::to_string(alone.pieces)},
        {Compared{without.median(), ms.statistics(), Model::host}, spread_text(ms.statistics())});
  };
  row("batched", beside.plain, alone.batched);
  row("batched, overlap preferred", beside.preferring, alone.overlapping);
  table.print();
}

void show(const Run& run, const std::vector<Times>& all, size_t total, const Calibrated& c) {
  Table table(run.report, "way, pieces",
              {compared("ms", "time", "ms", 3), shown("spread"),
               measured("GB/s", "rate", "GB/s", 1), shown("of")});
  const auto row = [&](const char* name, const Times& t, const Readings& ms, const Cell& cell) {
    if (ms.ms.empty()) return;
    table.row(
        {name, "pieces", std::to_string(t.pieces)},
        {cell, spread_text(ms.statistics()), gigabytes_per_second(double(total), ms.statistics()),
         bytes_text(double(total / t.pieces))});
  };
  for (const Times& t : all)
    row("one by one", t, t.each,
        Compared{one_by_one_ms(c, t.pieces), t.each.statistics(), Model::host});
  for (const Times& t : all)
    row("packed", t, t.packed, Compared{packed_ms(c), t.packed.statistics(), Model::host});
  // a list: as one by one, at a cost of its own, from the longest one
  const auto lists = [&](const char* name, Readings Times::*way) {
    const Times& last = all.back();
    Calibrated own = c;
    own.queued = ((last.*way).median() - c.one_copy) / double(std::max<size_t>(last.pieces, 2) - 1);
    for (const Times& t : all) {
      const Statistics ms = (t.*way).statistics();
      const Cell cell = &t == &last ? Cell(Calibration{ms})
                                    : Cell(Compared{one_by_one_ms(own, t.pieces), ms, Model::host});
      row(name, t, t.*way, cell);
    }
  };
  lists("batched", &Times::batched);
  lists("batched, overlap preferred", &Times::overlapping);
  table.print();
}

/// The numbers of pieces in which `way` beats `other`: "16, 64".
std::string where_faster(const std::vector<Times>& all, Readings Times::*way,
                         Readings Times::*other) {
  std::string text;
  for (const Times& t : all)
    if (ratio(t.*other, t.*way).low > least_effect)
      text += (text.empty() ? "" : ", ") + std::to_string(t.pieces);
  return text.empty() ? "at no number of pieces" : "at " + text + " pieces";
}

void judge(const Run& run, const std::vector<Times>& all, const Calibrated& c) {
  const Part part{"02.4", "one transfer beats many small ones", "combine, no figure", "the guide"};
  if (!run.device) return run.report.not_judged(part, "no GPU");
  const Times& most = all.back();
  if (most.pieces < most_pieces) return run.report.not_judged(part, "too few bytes");
  const Interval gain = ratio(most.each, most.one);
  run.report.judge(part, beats(), gain, "one copy is " + faster(gain, std::to_string(most.pieces)));
  run.report.finding("02.4", "packing first is faster than one by one " +
                                 where_faster(all, &Times::packed, &Times::each) +
                                 "; predicted from " + fixed(packing_pays(c), 0) + " pieces on");
  if (!most.batched.ms.empty())
    run.report.finding("02.4", "a list is faster than one by one " +
                                   where_faster(all, &Times::batched, &Times::each) +
                                   ", than packing " +
                                   where_faster(all, &Times::batched, &Times::packed));
}

/// Bytes of all pieces: on the GPU, and of the host's memory that it may pin.
size_t total_bytes(const Run& run, size_t typed) {
  const auto pinned = [](size_t t) { return double(2 * t + most_pieces * gap + guard); };
  const double host = run.device ? double(pinned_budget()) : INFINITY;
  if (typed) require_fits("batching on the GPU", pinned(typed), run.memory_there());
  return fitting_size("batching in pinned memory (a quarter of the host's)", typed,
                      size_t(run.quick ? 4 : 16) << 20, std::min(host, run.memory_there()), pinned);
}

}  // namespace

void batching_fits(const Run& run, const Options& options) { total_bytes(run, options.size); }

void batching(const Run& run, const Options& options) {
  const size_t total = total_bytes(run, options.size);
  std::vector<size_t> counts;
  for (size_t n = 1; n <= std::min(most_pieces, total); n *= run.full ? 2 : run.quick ? 16 : 4)
    counts.push_back(n);
  run.report.begin("batching", bytes_text(double(total)) + " to the GPU in 1 to " +
                                   std::to_string(counts.back()) + " pieces");
  if (!run.device) {
    run.report.note("n pieces one by one: one copy + (n - 1) x that of a queued 4-byte copy");
    run.report.left_out("all copies");
    return judge(run, {}, {});
  }
  const std::string no_batch = why_no_batch();
  Memory memory(total);
  const Calibrated c = calibrate(run, memory);
  std::vector<Times> all;
  Progress progress("batching", int(counts.size()));
  for (const size_t n : counts) {
    all.push_back(measure(run, memory, n, no_batch.empty()));
    progress.step();
  }
  show(run, all, total, c);
  const double most = double(total) * 1e-6 / all[0].one.median();
  require_possible("one copy", most, link_gbs(run.device->prop));
  if (!no_batch.empty()) {
    run.report.left_out("the batched copy", no_batch);
  } else {
    size_t some = 0;
    while (some + 1 < all.size() && all[some + 1].pieces <= pieces_beside) ++some;
    Pieces pieces = memory.lay_out(all[some].pieces);
    const double alone_ms = all[some].batched.median();
    show_beside(run, beside_a_kernel(run, memory, pieces, alone_ms), all[some]);
  }
  judge(run, all, c);
}
