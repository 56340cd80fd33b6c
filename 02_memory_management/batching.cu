// batching: the same bytes to the GPU in one copy or in many. The guide says: combine several transfers into one. That
// costs the host a pass over the bytes, to pack them; the newer runtime takes a list of copies in one call instead.
// Look at what a copy costs that carries next to nothing, and at how small the pieces must be before packing them pays.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "../common/first_edition.hpp"
#include "host_memory.hpp"
#include "options.hpp"

namespace {

using Byte = unsigned char;
constexpr size_t most_pieces = 4096;
constexpr size_t gap = 256;   // bytes between two pieces on the host: they cannot be copied as one
constexpr size_t guard = 64;  // bytes behind the last one on the device, which must stay as they are

// ---- the pieces -----------------------------------------------------------------------------------------------------

/// `total` bytes in pieces of the same size, the last of which takes what is left over.
struct Split {
  size_t total, pieces;
  /// No piece is empty: there are never more than bytes.
  Split(size_t total, size_t pieces) : total(total), pieces(std::min(pieces, total)) {}
  size_t begin(size_t k) const { return k * (total / pieces); }
  size_t bytes(size_t k) const { return k + 1 < pieces ? total / pieces : total - begin(k); }
  size_t host_bytes() const { return total + pieces * gap; }
};

/// Where each piece goes, where it comes from, and its bytes.
struct Pieces {
  std::vector<void*> to, from;
  std::vector<size_t> bytes;
};

/// On the device one piece follows the other. On the host they lie apart, and in another order: neighbours are about
/// 5/8 of them away from each other.
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

/// Byte i of what is copied: no period, so a piece in another's place shows.
__host__ __device__ Byte content(size_t i) { return Byte((i + 1) * 0x9e3779b97f4a7c15ull >> 56); }

// Each warp reads 32 neighbouring bytes, and looks for one that is wrong: `n` of content, poison in the guard behind.
__global__ void find_wrong(const Byte* data, size_t n, int* wrong) {
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n + guard; i += size_t(gridDim.x) * blockDim.x)
    if (data[i] != (i < n ? content(i) : 0xff)) *wrong = 1;
}

// ---- the ways -------------------------------------------------------------------------------------------------------

void copy_each(const Pieces& p, cudaStream_t stream) {
  for (size_t k = 0; k < p.to.size(); ++k)
    CUDA_CHECK(cudaMemcpyAsync(p.to[k], p.from[k], p.bytes[k], cudaMemcpyHostToDevice, stream));
}

void pack(const Pieces& p, Byte* packed) {
  for (size_t k = 0; k < p.to.size(); packed += p.bytes[k++]) std::memcpy(packed, p.from[k], p.bytes[k]);
}

// Takes the copies as one list, in a stream other than the default one.
#if CUDART_VERSION >= 12080
void copy_batch(Pieces& p, cudaStream_t stream) {
  cudaMemcpyAttributes attributes{};
  attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  size_t first = 0;  // the attributes are those of all copies from this one on
#if CUDART_VERSION >= 13000
  CUDA_CHECK(
      cudaMemcpyBatchAsync(p.to.data(), p.from.data(), p.bytes.data(), p.to.size(), &attributes, &first, 1, stream));
#else
  size_t failed = 0;
  CUDA_CHECK(cudaMemcpyBatchAsync(p.to.data(), p.from.data(), p.bytes.data(), p.to.size(), &attributes, &first, 1,
                                  &failed, stream));
#endif
}
#else
void copy_batch(Pieces&, cudaStream_t) { throw std::logic_error("no batched copy in this toolkit"); }
#endif

/// Why there is no batched copy here; empty if there is one.
std::string why_no_batch() {
  int driver = 0;
  CUDA_CHECK(cudaDriverGetVersion(&driver));
  return CUDART_VERSION < 12080 ? "toolkit before 12.8" : driver < 12080 ? "driver for CUDA before 12.8" : "";
}

// ---- right or wrong -------------------------------------------------------------------------------------------------

/// Room for `total` bytes, scattered and packed on the host, and on the device.
struct Memory {
  PinnedBuffer<Byte> scattered, packed;
  DeviceBuffer<Byte> device;
  Stream stream;
  explicit Memory(size_t total)
      : scattered(Split(total, most_pieces).host_bytes()), packed(total + guard), device(total + guard) {}
  Pieces lay_out(const Split& split) const {
    Pieces pieces = scatter(split, device.data(), scattered.data());
    for (size_t k = 0; k < split.pieces; ++k) {
      Byte* const to = static_cast<Byte*>(pieces.from[k]);
      for (size_t i = 0, first = split.begin(k), n = pieces.bytes[k]; i < n; ++i) to[i] = content(first + i);
    }
    return pieces;
  }
  void copy_packed(size_t total) const {
    CUDA_CHECK(cudaMemcpyAsync(device.data(), packed.data(), total, cudaMemcpyHostToDevice, stream));
  }
  /// Carries `total` bytes by `way`, and looks at them and at the guard.
  template <class Way>
  bool right(size_t total, Way&& way) const {
    CUDA_CHECK(cudaMemset(packed.data(), 0xff, packed.bytes()));  // by the device, faster than by one thread here
    CUDA_CHECK(cudaMemset(device.data(), 0xff, device.bytes()));
    CUDA_CHECK(cudaDeviceSynchronize());
    way();
    stream.wait();
    DeviceBuffer<int> wrong(std::vector<int>{0});
    find_wrong<<<unsigned(std::min<size_t>(total / 256 + 1, 1024)), 256>>>(device.data(), total, wrong.data());
    CUDA_CHECK_LAUNCH();
    return wrong.to_host()[0] == 0;
  }
};

/// The numbers of pieces in which `other` is faster than `base`, beyond the spread of both: "16 to 256, 4096 on".
std::string where_faster(const std::vector<size_t>& pieces, const std::vector<Statistics>& other,
                         const std::vector<Statistics>& base) {
  std::string text;
  for (size_t i = 0, end = 0; i < pieces.size(); i = std::max(i + 1, end)) {
    for (end = i; end < pieces.size() && other[end].high < base[end].low;) ++end;
    if (end == i) continue;
    text += (text.empty() ? "" : ", ") + std::to_string(pieces[i]);
    text += end == pieces.size() ? " on" : end > i + 1 ? " to " + std::to_string(pieces[end - 1]) : "";
  }
  return text.empty() ? "no number here" : text;
}

const Claim one_transfer_claim{"02.4", "one transfer beats many small ones", "guide", "no figure"};

}  // namespace

void batching(const Run& run, const Options& options) {
  const size_t wanted = options.size ? options.size : size_t(run.quick ? 4 : 16) << 20;
  size_t total = wanted;
  if (run.device) {
    const auto pinned = [](size_t t) { return double(2 * t + most_pieces * gap + guard); };
    const double host = double(pinned_budget()), device = double(Device::free_bytes());
    if (options.size) require_fits("batching in pinned memory (a quarter of the host's)", pinned(total), host);
    if (options.size) require_fits("batching on the GPU", double(total + guard), device);
    while (!options.size && total > most_pieces && (pinned(total) > host || double(total + guard) > device)) total /= 2;
  }
  std::vector<size_t> counts;
  for (size_t n = 1; n <= std::min(most_pieces, total); n *= run.full ? 2 : run.quick ? 16 : 4) counts.push_back(n);
  run.report.begin("batching", bytes_text(double(total)) + " to the GPU in 1 to " + std::to_string(counts.back()) +
                                   " pieces" + (total < wanted ? ": no room for more" : ""));
  run.report.note("prediction: n pieces one by one take the time of one copy + (n - 1) x that of a queued 4-byte copy");
  run.report.note("so packing pays where n - 1 queued copies take longer than bringing the bytes together");
  if (!run.device) return run.report.left_out("all copies", {one_transfer_claim});

  Measuring measuring = run.measuring;
  if (!measuring.typed) measuring.budget_ms = std::min(measuring.budget_ms, 5.0);
  const Memory memory(total);
  const Split smallest(4 * most_pieces, most_pieces);  // 4 bytes each
  const Memory small_memory(smallest.total);
  const Pieces small = small_memory.lay_out(smallest);
  require_right(small_memory.right(smallest.total, [&] { copy_each(small, small_memory.stream); }), "4-byte copies");
  const auto all_small = [&] { copy_each(small, small_memory.stream), small_memory.stream.wait(); };
  const Statistics queued = scaled(time_host(measuring, all_small), 1.0 / double(most_pieces));
  const auto one = [&] {
    CUDA_CHECK(cudaMemcpy(memory.device.data(), memory.packed.data(), total, cudaMemcpyDefault));
  };
  const Pieces whole = memory.lay_out({total, 1});
  require_right(memory.right(total, [&] { pack(whole, memory.packed.data()), one(); }), "one copy");
  const Statistics one_copy = time_host(measuring, one);
  Table alone(run.report, "alone", {measured("us", "time alone", "us", 2), shown("spread")});
  alone.row({"one cudaMemcpy of all bytes"}, {scaled(one_copy, 1e3), spread_text(one_copy)});
  alone.row({"a 4-byte copy, queued after others"}, {scaled(queued, 1e3), spread_text(queued)});
  alone.print();

  const std::string no_batch = why_no_batch();
  std::vector<Statistics> each, packing, packed, batch;
  Progress progress("batching", int(counts.size()));
  for (size_t n : counts) {
    progress.step();
    Pieces pieces = memory.lay_out({total, n});
    const auto measure = [&](const std::string& name, auto way) {
      require_right(memory.right(total, way), name + ", " + std::to_string(n) + " pieces");
      return time_host(measuring, [&] { way(), memory.stream.wait(); });
    };
    each.push_back(measure("one by one", [&] { copy_each(pieces, memory.stream); }));
    std::vector<double> ms;  // of packing in each run of what follows, two of which warm up
    const auto timed_pack = [&] { ms.push_back(host_ms([&] { pack(pieces, memory.packed.data()); })); };
    packed.push_back(measure("packed", [&] { timed_pack(), memory.copy_packed(total); }));
    packing.push_back(summarize({ms.begin() + 2, ms.end()}));
    if (no_batch.empty()) batch.push_back(measure("batched", [&] { copy_batch(pieces, memory.stream); }));
  }

  Table table(run.report, "pieces",
              {shown("of"), measured("one by one ms", "time one by one", "ms", 3),
               predicted("predicted ms", "time one by one", "ms", 3), shown("of one copy"),
               measured("packed ms", "time packed", "ms", 3), measured("of it packing", "time of packing", "ms", 3),
               measured("batched ms", "time batched", "ms", 3)});
  const auto piece = [&](size_t i) { return bytes_text(double(total / counts[i])); };
  for (size_t i = 0; i < counts.size(); ++i)
    table.row(
        {"", "pieces", std::to_string(counts[i])},
        {piece(i), each[i], each[0].median + double(counts[i] - 1) * queued.median,
         times(each[i].median / one_copy.median), packed[i], packing[i], batch.empty() ? Cell() : Cell(batch[i])});
  table.print();

  run.report.note("pieces in which packing first is faster than one by one: " + where_faster(counts, packed, each) +
                  "; predicted: " + fixed(std::ceil(1 + packing[0].median / queued.median), 0) +
                  " on (one thread packs " + fixed(gigabytes_per_second(double(total), packing[0]).median, 1) +
                  " GB/s)");
  if (no_batch.empty())
    run.report.note("pieces in which the batched copy is faster than one by one: " + where_faster(counts, batch, each) +
                    "; than packing: " + where_faster(counts, batch, packed) + "; all beyond both spreads");
  else
    run.report.left_out("the batched copy", no_batch);

  Judgement judged = judge_ratio(each.back(), one_copy);
  judged.here += " the time in " + std::to_string(counts.back()) + " pieces of " + piece(counts.size() - 1) + "; " +
                 times(each.back().median / packed.back().median) + " with the packing counted";
  if (run.quick || counts.back() < most_pieces) judged = not_judged("too few bytes in this run");
  run.report.claim(one_transfer_claim, judged);
}

// ---- self-checks ----------------------------------------------------------------------------------------------------

TEST_CASE("batching: a split takes every byte once") {
  for (size_t total : {1, 2, 31, 4095, 4096, 65537, 1000003})
    for (size_t n : {1, 2, 3, 64, 4096, 5000}) {
      const Split split(total, n);
      CHECK(split.pieces == std::min(n, total));
      size_t next = 0, empty = 0;
      for (size_t k = 0; k < split.pieces && split.begin(k) == next; ++k) {
        next += split.bytes(k);
        empty += split.bytes(k) == 0;
      }
      CHECK(next == total);
      CHECK(empty == 0);
    }
}

TEST_CASE("batching: pieces are brought together from all over the host") {
  for (size_t total : {1, 31, 1009, 65537})
    for (size_t n : {1, 2, 3, 16, 255, 4096}) {
      const Split split(total, n);
      std::vector<Byte> host(split.host_bytes(), 0xff), device(total), packed(total + guard, 0xff);
      const Pieces pieces = scatter(split, device.data(), host.data());
      for (size_t k = 0; k < split.pieces; ++k)
        for (size_t i = 0; i < pieces.bytes[k]; ++i)
          static_cast<Byte*>(pieces.from[k])[i] = content(split.begin(k) + i);
      pack(pieces, packed.data());
      size_t right = 0;  // fewer if a piece was written over another
      while (right < total && packed[right] == content(right)) ++right;
      CHECK(right == total);
      CHECK(std::count(packed.begin() + long(total), packed.end(), 0xff) == long(guard));
      for (size_t k = 1; k < split.pieces; ++k)  // never side by side, where one copy could take both
        REQUIRE(static_cast<Byte*>(pieces.from[k - 1]) + pieces.bytes[k - 1] != pieces.from[k]);
    }
}

TEST_CASE("batching: faster is what is so beyond the spread") {
  const auto ms = [](double x) { return Statistics{x, x - 0.1, x + 0.1, 5}; };
  const std::vector<size_t> pieces{1, 4, 16, 64};
  const std::vector<Statistics> base{ms(1), ms(2), ms(3), ms(4)};
  CHECK(where_faster(pieces, {ms(2), ms(2), ms(2), ms(2)}, base) == "16 on");
  CHECK(where_faster(pieces, {ms(0.5), ms(2.5), ms(2), ms(2)}, base) == "1, 16 on");
  CHECK(where_faster(pieces, {ms(0.5), ms(1), ms(2), ms(3.9)}, base) == "1 to 16");  // the last within the spread
  CHECK(where_faster(pieces, base, base) == "no number here");
}

TEST_CASE("batching: every way carries every byte at awkward sizes") {
  if (skip_without_gpu()) return;
  const bool has_batch = why_no_batch().empty();
  for (size_t total : {1, 31, 257, 65537, 1000003}) {
    const Memory memory(total);
    for (size_t n : {1, 2, 3, 31, 1000, 4096}) {
      CAPTURE(total);
      CAPTURE(n);
      Pieces pieces = memory.lay_out({total, n});
      CHECK(memory.right(total, [&] { copy_each(pieces, memory.stream); }));
      CHECK(memory.right(total, [&] { pack(pieces, memory.packed.data()), memory.copy_packed(total); }));
      if (has_batch) CHECK(memory.right(total, [&] { copy_batch(pieces, memory.stream); }));
      pieces.bytes.back() -= 1;  // the last byte stays behind, and the check must see it
      CHECK(!memory.right(total, [&] { copy_each(pieces, memory.stream); }));
    }
  }
}
