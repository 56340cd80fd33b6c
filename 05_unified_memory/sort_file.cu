// sort_file: the lecture's example of how little a program changes for unified memory [PR]: malloc
// becomes cudaMallocManaged, qsort becomes a sort on the GPU, and the pointer stays. A file's
// bytes, and the same bytes as 4-byte keys, are sorted by the C library on the host, and by Thrust
// in managed memory. Look at what two lines of prefetching add.
//
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
#include <cstring>
#include <random>

#include "../framework/common/files.hpp"
#include "managed_memory.hpp"
#include "options.hpp"

using namespace samples;

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

// ---- the rows ----

/// Keys, the same in order, and the memory in which the GPU sorts them.
template <class Key>
struct Data {
  std::vector<Key> keys, right;
  Managed<Key> managed;
  DeviceBuffer<Key> there;

  Data(const std::vector<Key>& keys, bool has_managed)
      : keys(keys),
        right(device_memory::Pretence::stands() ? keys : in_order(keys)),
        managed(has_managed ? keys.size() : 0),
        there(keys.size()) {}
  /// The keys in their old order, in managed memory that lies on the host: what no sort leaves.
  void managed_to_host() {
    if (pages_on_demand()) managed.prefetch(cudaCpuDeviceId);
    wait_for_device();
    std::copy(keys.begin(), keys.end(), managed.data());
  }
};

/// To the device and back, with nothing done there.
template <class Key>
void prefetch_only(const Managed<Key>& data) {
  data.prefetch(this_device());
  data.prefetch(cudaCpuDeviceId);
  wait_for_device();
}

/// The three ways in managed memory.
template <class Key>
struct Way {
  const char* key;
  const char* words;
  void (*use)(const Managed<Key>&);
  bool sorts = true;
  bool prefetches = false;  ///< where pages move on demand
};
template <class Key>
const Way<Key> ways[] = {
    {"managed", "Thrust, managed memory", sort_managed<Key>},
    {"prefetches", "the prefetches alone", prefetch_only<Key>, false, true},
    {"prefetched", "Thrust, prefetched", sort_prefetched<Key>, true, true},
};

/// Bytes, or 4-byte keys.
template <class Key>
std::string key_of(const char* way) {
  return std::string(sizeof(Key) == 1 ? "bytes_" : "keys_") + way;
}

template <class Key>
Task device_task(const Shared<Data<Key>>& d) {
  const auto sort = [d] {
    thrust::sort(thrust::device, d->there.data(), d->there.data() + d->keys.size());
    wait_for_device();
  };
  Task task{key_of<Key>("device"),
            sort,
            {[] {}, [d] { return differing(d->there.to_host().data(), d->right); }, ""},
            true};
  task.enter = [d] { d->there.copy_from(d->keys); };
  return task;
}

/// From the keys on the host to a word of each page read there.
template <class Key>
Task managed_task(const Shared<Data<Key>>& d, const Way<Key>& way) {
  const auto there_and_back = [d, &way] {
    way.use(d->managed);
    read_every_page(d->managed.data(), d->managed.size());
  };
  const auto wrong = [d, &way] {
    return differing(d->managed.data(), way.sorts ? d->right : d->keys);
  };
  Task task{key_of<Key>(way.key), there_and_back, {[] {}, wrong, ""}, true};
  task.enter = [d] { d->managed_to_host(); };
  return task;
}

// ---- prediction ----

/// What a byte of managed memory adds that comes on demand is taken from the bytes' rows.
double on_demand_ms(double sort_ms, double bytes_managed_ms, double bytes_sort_ms) {
  return sort_ms + (bytes_managed_ms - bytes_sort_ms);
}

/// The sort in device memory, and both prefetches.
double prefetched_ms(double sort_ms, double prefetches_ms) { return sort_ms + prefetches_ms; }

// ---- the experiment ----

/// The host's sort takes seconds: once is enough to see that, unless repeats were typed.
template <class Key>
Readings time_host(const Run& run, const std::vector<Key>& keys, std::vector<Key>& sorted) {
  Readings times;
  for (int r = 0; r < (run.measuring.typed ? run.measuring.repeats : 1); ++r) {
    sorted = keys;
    const auto start = std::chrono::steady_clock::now();
    sort_on_host(sorted.data(), sorted.size());
    times.ms.push_back(ms_since(start));
  }
  require_right(differing(sorted.data(), in_order(keys)) == 0, "qsort");
  return times;
}

Column million_keys() { return measured("million keys/s", "rate", "million keys/s", 1); }

/// A row of the host's table. Returns the keys in order.
template <class Key>
std::vector<Key> add_host_row(const Run& run, Table& table, const char* words,
                              const std::vector<Key>& keys) {
  std::vector<Key> sorted;
  const Statistics ms = run.machine->value(key_of<Key>("qsort"), "time", true, [&] {
    return time_host(run, keys, sorted).statistics();
  });
  table.row({key_of<Key>("qsort"), "", "", words}, {ms, ms.repeats > 1 ? spread_text(ms) : "once",
                                                    scaled(rate(double(keys.size()), ms), 1e-3)});
  return sorted;
}

template <class Key>
void measure_device(const Run& run, const char* words, const std::vector<Key>& keys,
                    const Abilities& can) {
  const double n = double(keys.size());
  const auto rate_of = [n](const Row&, double ms) { return n / ms * 1e-3; };
  Sheet sheet(run, words, {milliseconds(2), spread(), in_unit(million_keys(), rate_of)});
  const std::string device = key_of<Key>("device");
  sheet.add({.ref = device, .words = "Thrust, device memory", .calibrates = true});
  for (const Way<Key>& way : ways<Key>) {
    const bool there = can.managed && (!way.prefetches || can.on_demand);
    const bool of_bytes = sizeof(Key) == 1 && way.use == sort_managed<Key>;
    sheet.add({.ref = key_of<Key>(way.key),
               .words = way.words,
               .calibrates = of_bytes || !way.sorts,
               .model = Model::host,
               .missing = there ? std::string() : can.why()});
  }
  SharedByTasks data([&] { return Data<Key>(keys, can.managed); });
  sheet.measure(Timing::in_turn, [&](const Row& row) {
    if (row.ref.key == device) return device_task(data());
    const std::string key = row.ref.key.substr(row.ref.key.find('_') + 1);
    return managed_task(data(), *with_key(ways<Key>, Ref(key)));
  });
  sheet.predict([&](const Row& row) {
    if (row.ref.key == key_of<Key>("prefetched"))
      return prefetched_ms(sheet.ms(device), sheet.ms(key_of<Key>("prefetches")));
    return on_demand_ms(sheet.ms(device), sheet.ms("bytes_managed"), sheet.ms("bytes_device"));
  });
  sheet.print();
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
  const Abilities can = ask_abilities(run);
  Table host(run.report, "qsort on the host",
             {measured("ms", "time", "ms", 2), shown("spread"), million_keys()});
  const Bytes sorted = add_host_row(run, host, "bytes", bytes);
  const std::vector<unsigned> some(keys.begin(), keys.begin() + long(host_keys));
  if (!some.empty()) add_host_row(run, host, "4-byte keys", some);
  host.print();
  measure_device(run, "bytes", bytes, can);
  if (!keys.empty()) measure_device(run, "4-byte keys", keys, can);
  say_what_is_left_out(run, bytes.size(), host_keys, keys.size());
  return sorted;
}

/// The keys twice, as managed and as device memory, and once more for Thrust.
double bytes_needed(size_t keys) { return 3.5 * double(keys); }

size_t generated_size(const Run& run) {
  return fitting_size("sort_file", 0, run.quick ? generated_bytes / 16 : generated_bytes,
                      run.memory_there(), bytes_needed);
}

void check_typed(const Run& run) {
  require_fits("sort_file", bytes_needed(options_of(run).file_bytes.size()), run.memory_there());
}

void run_sort_file(const Run& run) {
  const Options& options = options_of(run);
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
  if (options.output.empty()) return;
  options.sorted.assign(sorted.begin(), sorted.end());
  run.report.note("the sorted bytes go to '" + printable(options.output) + "'");
}

// ---- what it declares ----

Needs needs(const Run& run) { return {.allocated = bytes_needed(generated_size(run))}; }

}  // namespace

extern const Experiment sort_file_experiment{
    .name = "sort_file",
    .about = "a file sorted on the host, and by the GPU in managed memory",
    .run = run_sort_file,
    .check_typed = check_typed,
    .needs = needs,
};
