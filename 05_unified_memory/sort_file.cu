// sort_file: the lecture's example of how little a program changes for unified memory [PR]: malloc
// becomes cudaMallocManaged, qsort becomes a sort on the GPU, and the pointer stays. A file's
// bytes, and the same bytes as 4-byte keys, are sorted by the C library on the host, and by Thrust
// in managed memory. Look at what two lines of prefetching add.
//   cmake -S 05_unified_memory -B build/sort_file -DEXPERIMENTS=sort_file
//   cmake --build build/sort_file && build/sort_file/05_unified_memory
//
//   1  sort_on_host      qsort, as in the text
//   2  sort_managed      Thrust on the same pointer
//   3  sort_prefetched   2 between two prefetches
#include <thrust/execution_policy.h>
#include <thrust/sort.h>

#include <algorithm>
#include <cstdlib>
#include <random>

#include "../common/files.hpp"
#include "migrations.hpp"
#include "options.hpp"

namespace {

// ---- the three sorts ----

template <class Key>
int compare(const void* a, const void* b) {
  const Key x = *static_cast<const Key*>(a);
  const Key y = *static_cast<const Key*>(b);
  return (x > y) - (x < y);
}

// [sorts]
template <class Key>
void sort_on_host(Key* data, size_t n) {
  std::qsort(data, n, sizeof(Key), compare<Key>);
}

template <class Key>
void sort_managed(const Managed<Key>& data) {
  thrust::sort(thrust::device, data.data(), data.data() + data.size());
  wait_for_device();  // the host may look now
}

template <class Key>
void sort_prefetched(const Managed<Key>& data) {
  data.prefetch(this_device());
  thrust::sort(thrust::device, data.data(), data.data() + data.size());
  data.prefetch(cudaCpuDeviceId);
  wait_for_device();
}
// [/sorts]

// ---- what is sorted, and what is right ----

using Bytes = std::vector<unsigned char>;

constexpr size_t generated_bytes = 16 << 20;  // qsort takes 2 to 4 s for them, byte by byte
constexpr size_t most_host_keys = 1 << 19;    // 0.1 s, after the bytes have shown how long it takes
static_assert(2 * Options::largest_file <= most_managed_bytes);

Bytes generate(size_t n) {
  std::mt19937 random(5);
  Bytes bytes(n);
  for (unsigned char& each : bytes) each = static_cast<unsigned char>(random() >> 13);
  return bytes;
}

/// The bytes as keys in the host's byte order; a tail shorter than a key is left out.
template <class Key>
std::vector<Key> keys_of(const Bytes& bytes) {
  std::vector<Key> keys(bytes.size() / sizeof(Key));
  if (!keys.empty()) std::memcpy(keys.data(), bytes.data(), keys.size() * sizeof(Key));
  return keys;
}

/// The keys in order, by a third sort.
template <class Key>
std::vector<Key> in_order(std::vector<Key> keys) {
  std::sort(keys.begin(), keys.end());
  return keys;
}

template <class Key>
size_t differing(const Key* found, const std::vector<Key>& right) {
  size_t wrong = 0;
  for (size_t i = 0; i < right.size(); ++i) wrong += found[i] != right[i];
  return wrong;
}

// ---- what to expect ----

/// Constants from the rows of the bytes.
struct Costs {
  double prefetches_ms = NAN;      ///< of as many bytes, there and back
  double comparison_ns = NAN;      ///< of qsort: n log2 n of them
  double on_demand_ms_byte = NAN;  ///< what a byte of managed memory adds that comes on demand
};

double comparisons(double n) { return n * std::log2(std::max(n, 2.0)); }

double qsort_ms(const Costs& c, double n) { return comparisons(n) * c.comparison_ns * 1e-6; }

/// The sort in device memory, and both prefetches.
double prefetched_ms(const Costs& c, double sort_ms) { return sort_ms + c.prefetches_ms; }

double on_demand_ms(const Costs& c, double sort_ms, double bytes) {
  return sort_ms + bytes * c.on_demand_ms_byte;
}

// ---- the experiment ----

/// Times of all sorts of one kind of key.
struct Sorted {
  size_t host_keys = 0, keys = 0;
  Readings host, on_device, managed, prefetched, prefetches;
};

/// The host's sort takes seconds: once is enough to see that, unless repeats were typed.
template <class Key>
std::vector<Key> time_host(const Run& run, const std::vector<Key>& keys, Sorted& times) {
  std::vector<Key> sorted;
  for (int r = 0; r < (run.measuring.typed ? run.measuring.repeats : 1); ++r) {
    sorted = keys;
    const auto start = std::chrono::steady_clock::now();
    sort_on_host(sorted.data(), sorted.size());
    times.host.ms.push_back(ms_since(start));
  }
  times.host_keys = keys.size();
  require_right(differing(sorted.data(), in_order(keys)) == 0, "qsort");
  return sorted;
}

/// A sort of managed memory: from the keys on the host to a word of each page read there. The keys
/// in their old order are what no sort leaves.
template <class Key>
Prepared managed_sort(const char* name, const Managed<Key>& data, const std::vector<Key>& keys,
                      const std::vector<Key>& right, void (*sort)(const Managed<Key>&)) {
  return {name, [] {},
          [&data, &keys] {
            if (pages_on_demand()) data.prefetch(cudaCpuDeviceId);
            wait_for_device();
            std::copy(keys.begin(), keys.end(), data.data());
          },
          [&data, sort] {
            sort(data);
            read_every_page(data.data(), data.size());
          },
          [&data, &right] { return differing(data.data(), right); }};
}

/// To the device and back, with nothing done there.
template <class Key>
void prefetch_only(const Managed<Key>& data) {
  data.prefetch(this_device());
  data.prefetch(cudaCpuDeviceId);
  wait_for_device();
}

/// Thrust in device memory, managed memory, and prefetched managed memory, in turn.
template <class Key>
void time_device(const Run& run, const std::vector<Key>& keys, Sorted& times) {
  const std::vector<Key> right = in_order(keys);
  const Managed<Key> data(keys.size());
  DeviceBuffer<Key> there(keys.size());
  std::vector<Prepared> all;
  all.push_back({"Thrust, device memory", [] {}, [&] { there.copy_from(keys); },
                 [&] {
                   thrust::sort(thrust::device, there.data(), there.data() + keys.size());
                   wait_for_device();
                 },
                 [&] { return differing(there.to_host().data(), right); }});
  all.push_back(managed_sort("Thrust, managed memory", data, keys, right, sort_managed<Key>));
  if (pages_on_demand()) {
    all.push_back(managed_sort("Thrust, prefetched", data, keys, right, sort_prefetched<Key>));
    all.push_back(managed_sort("prefetches alone", data, keys, keys, prefetch_only<Key>));
  }
  const std::vector<Readings> took = prepared_in_turn(run.measuring, all);
  times.keys = keys.size();
  times.on_device = took[0];
  times.managed = took[1];
  if (took.size() > 2) times.prefetched = took[2];
  if (took.size() > 3) times.prefetches = took[3];
}

/// The rows of one kind of key. Those of the bytes give the costs.
void add_rows(Table& table, const std::string& what, size_t key_bytes, const Sorted& s,
              const Costs& costs, bool calibrates) {
  const double host_rate = double(s.host_keys) / s.host.median();
  const auto row = [&](const std::string& how, const Readings& times, size_t keys, double model,
                       bool calibration) {
    if (times.ms.empty()) return;
    const Statistics ms = times.statistics();
    const Statistics rate_in_ms = rate(double(keys), ms);
    table.row({what + ", " + how, "key bytes", std::to_string(key_bytes)},
              {calibration ? Cell(Calibration{ms}) : Cell(Compared{model, ms, Model::host}),
               ms.repeats > 1 ? Cell(spread_text(ms)) : Cell("once"), scaled(rate_in_ms, 1e-3),
               ::times(rate_in_ms.median / host_rate)});
  };
  const double bytes = double(s.keys * key_bytes);
  const double sort_ms = s.on_device.median();
  row("qsort on the host", s.host, s.host_keys, qsort_ms(costs, double(s.host_keys)), calibrates);
  row("Thrust, device memory", s.on_device, s.keys, NAN, true);
  row("Thrust, managed memory", s.managed, s.keys, on_demand_ms(costs, sort_ms, bytes), calibrates);
  if (calibrates) row("the prefetches alone", s.prefetches, s.keys, NAN, true);
  row("Thrust, prefetched", s.prefetched, s.keys, prefetched_ms(costs, sort_ms), false);
}

Costs costs_from(const Sorted& bytes) {
  Costs c;
  c.prefetches_ms = bytes.prefetches.median();
  c.comparison_ns = bytes.host.median() * 1e6 / comparisons(double(bytes.host_keys));
  c.on_demand_ms_byte = (bytes.managed.median() - bytes.on_device.median()) / double(bytes.keys);
  return c;
}

void say_what_is_left_out(const Run& run, size_t bytes, size_t host_keys, size_t keys) {
  if (host_keys < keys)
    run.report.note("the host sorts all of the bytes, but of the " + std::to_string(keys) +
                    " 4-byte keys the first " + std::to_string(host_keys) +
                    ", as it takes so long");
  if (const size_t tail = bytes % sizeof(unsigned))
    run.report.note("4-byte keys: the last " + std::to_string(tail) +
                    " of the bytes make no whole key and are left out");
}

Bytes sort_all(const Run& run, const Bytes& bytes) {
  const std::vector<unsigned> keys = keys_of<unsigned>(bytes);
  const size_t host_keys = std::min(keys.size(), most_host_keys);
  const bool usable = run.device && has_managed_memory();
  Progress progress("sort_file", usable ? 4 : 2);
  Sorted of_bytes, of_keys;
  progress.step();
  Bytes sorted = time_host(run, bytes, of_bytes);
  progress.step();
  const std::vector<unsigned> some(keys.begin(), keys.begin() + long(host_keys));
  if (!some.empty()) time_host(run, some, of_keys);
  if (usable) {
    progress.step();
    time_device(run, bytes, of_bytes);
    progress.step();
    if (!keys.empty()) time_device(run, keys, of_keys);
  }
  const Costs costs = costs_from(of_bytes);
  Table table(
      run.report, "what and how, bytes of a key",
      {compared("ms", "time", "ms", 2), shown("spread"),
       measured("million keys/s", "rate", "million keys/s", 1), shown("times as fast as qsort")});
  add_rows(table, "bytes", 1, of_bytes, costs, true);
  add_rows(table, "4-byte keys", 4, of_keys, costs, false);
  table.print();
  say_what_is_left_out(run, bytes.size(), host_keys, keys.size());
  return sorted;
}

/// The keys twice, as managed and as device memory, and once more for Thrust.
double bytes_needed(size_t keys) { return 3.5 * double(keys); }

size_t generated_size(const Run& run) {
  return fitting_size("sort_file", 0, run.quick ? generated_bytes / 16 : generated_bytes,
                      run.memory_there(), bytes_needed);
}

}  // namespace

void sort_file_fits(const Run& run, const Options& options) {
  require_fits("sort_file", bytes_needed(options.file_bytes.size()), run.memory_there());
}

void sort_file(const Run& run, const Options& options) {
  const bool typed = !options.file.empty();
  const size_t size = typed ? options.file_bytes.size() : generated_size(run);
  run.report.begin("sort_file",
                   (typed ? "'" + printable(options.file) + "'" : std::string("random bytes")) +
                       ", " + std::to_string(size) + " bytes");
  const Bytes bytes =
      typed ? Bytes(options.file_bytes.begin(), options.file_bytes.end()) : generate(size);
  Bytes sorted;
  if (bytes.empty())
    run.report.note("there is nothing to sort: the file is empty");
  else
    sorted = sort_all(run, bytes);
  if (!run.device)
    run.report.left_out("the sorts in managed memory");
  else if (!has_managed_memory())
    run.report.left_out("the sorts in managed memory", managed_memory_text());
  else if (!pages_on_demand())
    run.report.left_out("the sorts with prefetches", managed_memory_text());
  if (options.output.empty()) return;
  options.sorted.assign(sorted.begin(), sorted.end());
  run.report.note("the sorted bytes go to '" + printable(options.output) + "'");
}
