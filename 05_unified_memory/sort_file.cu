// sort_file: the lecture's example of how little a program changes: malloc becomes cudaMallocManaged, qsort becomes a
// sort on the GPU, and the pointer stays. A file's bytes, and the same bytes as 4-byte keys, are sorted by the C
// library on the host and by Thrust in managed memory. Look at what two lines of prefetching add.
#include <doctest/doctest.h>
#include <thrust/execution_policy.h>
#include <thrust/sort.h>

#include <algorithm>
#include <random>

#include "../common/first_edition.hpp"
#include "managed_memory.hpp"
#include "options.hpp"

namespace {

using Bytes = std::vector<unsigned char>;

constexpr size_t generated_bytes = 16 << 20;  // qsort takes 2 to 4 s for them, byte by byte
constexpr size_t most_host_keys = 1 << 19;    // of 4 bytes each: 0.1 s, after the bytes have shown how long it takes
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

template <class Key>
int compare(const void* a, const void* b) {
  const Key x = *static_cast<const Key*>(a), y = *static_cast<const Key*>(b);
  return (x > y) - (x < y);
}

template <class Key>
void sort_on_host(std::vector<Key>& keys) {
  if (!keys.empty()) std::qsort(keys.data(), keys.size(), sizeof(Key), compare<Key>);
}

/// `sorted` is in order and holds the same keys: sums of a mixture of each key's bits tell sets of keys apart.
template <class Key>
bool is_sorted_copy(const std::vector<Key>& sorted, const std::vector<Key>& keys) {
  const auto sum = [](const std::vector<Key>& all) {
    unsigned long long mixed = 0;
    for (unsigned long long x : all) {
      x = (x + 1) * 0x9e3779b97f4a7c15ull;
      mixed += (x ^ x >> 29) * 0xbf58476d1ce4e5b9ull;
    }
    return mixed;
  };
  return sorted.size() == keys.size() && std::is_sorted(sorted.begin(), sorted.end()) && sum(sorted) == sum(keys);
}

/// Sorts `keys` in `data` on the device, from keys on the host to the first word of each page read there; milliseconds.
template <class Key>
double sort_managed(const Managed<Key>& data, const std::vector<Key>& keys, bool prefetched) {
  if (pages_on_demand()) data.prefetch(cudaCpuDeviceId), wait_for_device();
  std::copy(keys.begin(), keys.end(), data.data());
  return host_ms([&] {
    if (prefetched) data.prefetch(this_device());
    thrust::sort(thrust::device, data.data(), data.data() + data.size());
    if (prefetched) data.prefetch(cudaCpuDeviceId);
    wait_for_device();
    for (size_t i = 0; i < data.size(); i += 4096 / sizeof(Key)) *const_cast<volatile Key*>(&data[i]);
  });
}

/// Sorts in all ways, on the host only the first `host_keys` of them, and adds their rows; answers with what the host
/// sorted.
template <class Key>
std::vector<Key> show_sorts(const Run& run, Table& table, Progress& progress, const std::string& what,
                            const std::vector<Key>& keys, size_t host_keys) {
  const std::string bytes = std::to_string(sizeof(Key));
  const std::vector<Key> part(keys.begin(), keys.begin() + long(host_keys));
  std::vector<Key> sorted;
  std::vector<double> host;
  progress.step();
  for (int r = 0; r < (run.measuring.typed ? run.measuring.repeats : 1); ++r) {  // once: it takes seconds
    sorted = part;
    host.push_back(host_ms([&] { sort_on_host(sorted); }));
  }
  require_right(is_sorted_copy(sorted, part), "qsort of " + what);
  const Statistics by_host = rate(double(part.size()), summarize(host));
  const auto row = [&](const std::string& how, const Statistics& ms, size_t sorted_keys) {
    const Statistics keys_a_ms = rate(double(sorted_keys), ms);
    table.row({how, "key bytes", bytes}, {ms, ms.repeats > 1 ? spread_text(ms) : "once", scaled(keys_a_ms, 1e-3),
                                          times(keys_a_ms.median / by_host.median)});
  };
  row(what + ", qsort on the host", summarize(host), part.size());
  if (!run.device || !has_managed_memory()) return sorted;

  const Managed<Key> data(keys.size());
  for (const bool prefetched : {false, true}) {
    if (prefetched && !pages_on_demand()) continue;
    progress.step();
    sort_managed(data, keys, prefetched);
    require_right(is_sorted_copy({data.data(), data.data() + data.size()}, keys), "Thrust's sort of " + what);
    std::vector<double> ms(run.measuring.typed ? run.measuring.repeats : 5);  // putting the keys back takes its time
    for (double& each : ms) each = sort_managed(data, keys, prefetched);
    row(what + (prefetched ? ", Thrust, prefetched" : ", Thrust, managed memory"), summarize(ms), keys.size());
  }
  return sorted;
}

}  // namespace

void sort_file(const Run& run, const Options& options) {
  const bool typed = !options.file.empty();
  const size_t size = typed ? options.file_bytes.size() : run.quick ? generated_bytes / 16 : generated_bytes;
  // the keys, and as much again for Thrust
  if (run.device) require_fits("sort_file", 2.5 * double(size), double(Device::free_bytes()));
  run.report.begin("sort_file", (typed ? "'" + options.file + "'" : std::string("random bytes")) + ", " +
                                    std::to_string(size) + " bytes");
  const Bytes bytes = typed ? Bytes(options.file_bytes.begin(), options.file_bytes.end()) : generate(size);
  const std::vector<unsigned> keys = keys_of<unsigned>(bytes);
  const size_t host_keys = std::min(keys.size(), most_host_keys);
  Bytes sorted;
  if (bytes.empty()) {
    run.report.note("there is nothing to sort: the file is empty");
  } else {
    Table table(run.report, "what and how, bytes of a key",
                {measured("median ms", "time", "ms", 2), shown("spread"),
                 measured("million keys/s", "rate", "million keys/s", 1), shown("times as fast as qsort")});
    {
      Progress progress("sort_file", run.device ? 6 : 2);
      sorted = show_sorts(run, table, progress, "bytes", bytes, bytes.size());
      if (!keys.empty()) show_sorts(run, table, progress, "4-byte keys", keys, host_keys);
    }
    table.print();
    if (host_keys < keys.size())
      run.report.note("the host sorts all of the bytes, but of the " + std::to_string(keys.size()) +
                      " 4-byte keys the first " + std::to_string(host_keys) + ", as it takes so long");
    if (const size_t tail = bytes.size() % sizeof(unsigned))
      run.report.note("4-byte keys: the last " + std::to_string(tail) +
                      " of the bytes make no whole key and are left out");
  }
  if (!run.device)
    run.report.left_out("the sorts in managed memory");
  else if (!has_managed_memory())
    run.report.left_out("the sorts in managed memory", managed_memory_text());
  else if (!pages_on_demand())
    run.report.left_out("the sorts with prefetches", managed_memory_text());
  if (!options.output_file) return;
  options.output_file->write({reinterpret_cast<const char*>(sorted.data()), sorted.size()});
  run.report.note("the sorted bytes go to '" + options.output + "'");
}

// ---- self-checks ----------------------------------------------------------------------------------------------------

TEST_CASE("sort_file: the host sorts, and a wrong order or set is seen") {
  for (size_t n : {0, 1, 2, 3, 5, 1009, 65537}) {
    CAPTURE(n);
    const Bytes bytes = generate(n);
    const std::vector<unsigned> keys = keys_of<unsigned>(bytes);
    CHECK(keys.size() == n / 4);
    std::vector<unsigned> sorted = keys;
    sort_on_host(sorted);
    CHECK(is_sorted_copy(sorted, keys));
    Bytes sorted_bytes = bytes;
    sort_on_host(sorted_bytes);
    CHECK(is_sorted_copy(sorted_bytes, bytes));
    if (n < 1009) continue;
    CHECK_FALSE(is_sorted_copy(bytes, bytes));
    ++sorted_bytes.back();
    CHECK_FALSE(is_sorted_copy(sorted_bytes, bytes));
  }
}

TEST_CASE("sort_file: Thrust sorts managed memory as the host does") {
  if (skip_without_gpu()) return;
  if (!has_managed_memory()) return skip_self_check("no managed memory");
  const auto check = [](auto keys) {
    auto sorted = keys;
    sort_on_host(sorted);
    const Managed<typename decltype(keys)::value_type> data(keys.size());
    for (const bool prefetched : {false, true}) {
      if (prefetched && !pages_on_demand()) continue;
      sort_managed(data, keys, prefetched);
      CHECK(std::equal(sorted.begin(), sorted.end(), data.data()));
    }
  };
  for (size_t n : {4, 7, 31, 1009, 65537, 1000003}) {
    CAPTURE(n);
    check(generate(n));
    check(keys_of<unsigned>(generate(n)));
  }
}
