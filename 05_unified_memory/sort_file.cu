// sort_file: how little must a program change for unified memory? The lecture prints a function
// that sorts a file's bytes, and prints it again: malloc becomes cudaMallocManaged, qsort becomes
// gpu_qsort, and one line waits [PR]. The pointer stays, and nothing is copied. Look at what two
// more lines add, which move the pages before they are touched.
//
// The text's gpu_qsort takes qsort's four arguments. CUDA has no such function: ours calls Thrust,
// which knows the type of the data and its order. The text makes no claim.
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o sort_file sort_file.cu ../common/*.cpp
//   ./sort_file --file FILE
//
//   1  host::sortfile        the text's C code
//   2  managed::sortfile     the text's CUDA code
//   3  prefetched::sortfile  the same with two lines more
#include <thrust/execution_policy.h>
#include <thrust/sort.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "../common/arrays.cuh"
#include "../common/sample.hpp"
#include "managed_memory.hpp"
#include "migrations.hpp"

namespace {

// ---- what the text calls and does not print ----

int compare(const void* a, const void* b) {
  const char x = *static_cast<const char*>(a), y = *static_cast<const char*>(b);
  return (x > y) - (x < y);
}

/// Sorts on the GPU what `data` points to.
void gpu_qsort(char* data, size_t N) { thrust::sort(thrust::device, data, data + N); }

std::vector<char> used;  ///< what use_data() was given last

/// The host reads the result, all of it.
void use_data(const char* data, size_t N) { used.assign(data, data + N); }

void require_read(size_t bytes, size_t N) {
  if (bytes != N) throw std::runtime_error("the file is shorter than it was");
}

// ---- the three versions ----

namespace host {
void sortfile(FILE* fp, size_t N) {
  char* data;
  data = (char*)malloc(N);

  require_read(fread(data, 1, N, fp), N);

  qsort(data, N, 1, compare);

  use_data(data, N);

  free(data);
}
}  // namespace host

namespace managed {
void sortfile(FILE* fp, size_t N) {
  char* data;
  CUDA_CHECK(cudaMallocManaged(&data, N));

  require_read(fread(data, 1, N, fp), N);

  gpu_qsort(data, N);
  CUDA_CHECK(cudaDeviceSynchronize());

  use_data(data, N);

  CUDA_CHECK(cudaFree(data));
}
}  // namespace managed

namespace prefetched {
void sortfile(FILE* fp, size_t N) {
  char* data;
  CUDA_CHECK(cudaMallocManaged(&data, N));

  require_read(fread(data, 1, N, fp), N);

  CUDA_CHECK(cudaMemPrefetchAsync(data, N, gpu_memory(), 0, nullptr));
  gpu_qsort(data, N);
  CUDA_CHECK(cudaMemPrefetchAsync(data, N, host_memory, 0, nullptr));
  CUDA_CHECK(cudaDeviceSynchronize());

  use_data(data, N);

  CUDA_CHECK(cudaFree(data));
}
}  // namespace prefetched

// ---- the file, and what is right ----

constexpr size_t most_on_host = 2 * MiB;    // qsort takes 0.6 s for them
constexpr size_t largest_file = 256 * MiB;  // managed, and Thrust takes about as much again

using File = std::unique_ptr<FILE, int (*)(FILE*)>;

/// The bytes of a file that was named on the command line.
std::vector<char> bytes_of(const std::string& path, size_t most = largest_file) {
  const File file(std::fopen(path.c_str(), "rb"), std::fclose);
  if (!file) throw UsageError("--file: '" + path + "' cannot be read");
  std::vector<char> bytes, part(MiB);
  while (const size_t n = std::fread(part.data(), 1, part.size(), file.get())) {
    bytes.insert(bytes.end(), part.begin(), part.begin() + long(n));
    if (bytes.size() > most)
      throw UsageError("--file: '" + path + "' is too large, at most " + bytes_text(double(most)));
  }
  if (std::ferror(file.get())) throw UsageError("--file: '" + path + "' cannot be read");
  if (bytes.empty()) throw UsageError("--file: '" + path + "' is empty");
  return bytes;
}

std::vector<char> generated(size_t n) {
  std::vector<char> bytes(n);
  for (size_t i = 0; i < n; ++i) bytes[i] = char(hash(i));
  return bytes;
}

/// A temporary file of these bytes. It goes when it is closed, however the program ends.
File file_of(const std::vector<char>& bytes) {
  File file(std::tmpfile(), std::fclose);
  if (!file || std::fwrite(bytes.data(), 1, bytes.size(), file.get()) != bytes.size() ||
      std::fflush(file.get()) != 0)
    throw std::runtime_error("a temporary file cannot be written");
  return file;
}

/// The first n bytes in order: each value as often as it occurs.
std::vector<char> in_order(const std::vector<char>& bytes, size_t n) {
  size_t count[UCHAR_MAX + 1] = {};
  for (size_t i = 0; i < n; ++i) ++count[bytes[i] - CHAR_MIN];
  std::vector<char> sorted;
  for (int value = CHAR_MIN; value <= CHAR_MAX; ++value)
    sorted.insert(sorted.end(), count[value - CHAR_MIN], char(value));
  return sorted;
}

std::string find_error(const std::vector<char>& right) {
  if (used.size() != right.size()) return "not as many bytes as were read";
  return find_mismatch_on_host(used.data(), used.size(), [&](size_t i) { return right[i]; });
}

/// `file` and `right` must outlive it.
Benchmark sorting(const std::string& name, void (*sortfile)(FILE*, size_t), const File& file,
                  const std::vector<char>& right) {
  return {.name = name,
          .work = [sortfile, &file, &right] { sortfile(file.get(), right.size()); },
          .check = {[] { used.clear(); }, [&right] { return find_error(right); }},
          .on_host = true,
          .before = [&file] { std::rewind(file.get()); }};
}

// ---- the experiment ----

/// qsort takes so long that it is timed once.
double qsort_ms(const File& file, const std::vector<char>& right) {
  std::rewind(file.get());
  const auto start = std::chrono::steady_clock::now();
  host::sortfile(file.get(), right.size());
  const std::chrono::duration<double, std::milli> ms = std::chrono::steady_clock::now() - start;
  if (const std::string error = find_error(right); !error.empty())
    throw WrongResult("qsort: " + error);
  return ms.count();
}

}  // namespace

void check_sort_file(const Run& run) {
  if (run.options.count("file")) bytes_of(run.option("file", ""));
}

void sort_file(Run& run) {
  const bool typed = run.options.count("file") > 0;
  const std::string path = run.option("file", "");
  const std::vector<char> bytes =
      typed ? bytes_of(path) : generated(run.quick ? most_on_host / 4 : most_on_host);
  const size_t n = bytes.size(), host_n = std::min(n, most_on_host);
  const File file = file_of(bytes);
  run.title("the bytes of " + (typed ? "'" + path + "'" : std::string("a generated file")) +
            " are sorted: " + bytes_text(double(n)));
  Table table("sortfile()", {"ms", "spread", "million keys/s"});
  const auto million_per_s = [](size_t keys, double ms) { return double(keys) * 1e-3 / ms; };

  const double host_ms = qsort_ms(file, in_order(bytes, host_n));
  table.row(host_n < n ? "qsort, the first " + bytes_text(double(host_n)) : "qsort",
            {host_ms, "once", million_per_s(host_n, host_ms)});

  const std::vector<char> right = in_order(bytes, n);
  std::vector<Benchmark> benchmarks{sorting("managed", managed::sortfile, file, right)};
  if (run.gpu.concurrentManagedAccess)
    benchmarks.push_back(sorting("prefetched", prefetched::sortfile, file, right));
  const Timings timed = run.timer.with_fresh_memory([&] { return benchmarks; }, run.quick ? 2 : 4);
  for (const Benchmark& benchmark : benchmarks) {
    const Times& times = timed[benchmark.name];
    table.row(benchmark.name,
              {times.ms_interval(), percent(times.spread()), million_per_s(n, times.median())});
  }
  if (!run.gpu.concurrentManagedAccess) table.missing("prefetched", nothing_moves_because(run.gpu));
  run.print(table);
  run.note("the whole function: memory, fread, the sort, use_data, and memory is given back");
  run.note(
      "qsort calls compare() for pairs of bytes; the radix sort of Thrust counts bytes instead");
}
SAMPLE(7, sort_file, "the lecture's program: a file sorted by qsort, and by the GPU");
SAMPLE_OPTION("file", "sort_file sorts this file's bytes", check_sort_file);

TEST_CASE("sort_file: the order of bytes, by hand") {
  const std::vector<char> bytes{'b', 'a', CHAR_MAX, 'b', CHAR_MIN, 'x'};
  CHECK(in_order(bytes, 5) == std::vector<char>{CHAR_MIN, 'a', 'b', 'b', CHAR_MAX});
}

TEST_CASE("sort_file: qsort sorts what it reads, and a wrong or lost byte is noticed") {
  const std::vector<char> bytes = generated(65537);
  const File file = file_of(bytes);
  for (const size_t n : {1, 2, 3, 1009, 65537}) {
    CAPTURE(n);
    const std::vector<char> right = in_order(bytes, n);
    std::rewind(file.get());
    host::sortfile(file.get(), n);
    CHECK(find_error(right) == "");
    ++used[n / 2];
    CHECK(find_error(right) != "");
    use_data(right.data(), n - 1);
    CHECK(find_error(right) != "");
  }
}

TEST_CASE("sort_file: a file that cannot be sorted is refused") {
  const File file = file_of({'c', 'a', 'b'});
  const std::string path = "/proc/self/fd/" + std::to_string(fileno(file.get()));
  CHECK(bytes_of(path, 3) == std::vector<char>{'c', 'a', 'b'});
  CHECK_THROWS_AS(bytes_of(path, 2), UsageError);
  for (const char* wrong : {"", "no such file", "/", "/dev/null"})
    CHECK_THROWS_AS(bytes_of(wrong), UsageError);
}

TEST_CASE("sort_file: the GPU sorts as the host does, at awkward sizes") {
  if (skip_without_gpu()) return;
  const std::vector<char> bytes = generated(1000003);
  const File file = file_of(bytes);
  for (const size_t n : {1, 2, 31, 4097, 65537, 1000003}) {
    CAPTURE(n);
    const std::vector<char> right = in_order(bytes, n);
    require_right(sorting("managed", managed::sortfile, file, right));
    if (current_gpu().concurrentManagedAccess)
      require_right(sorting("prefetched", prefetched::sortfile, file, right));
  }
}

TEST_CASE("sort_file: bytes that were prefetched do not fault on the GPU") {
  if (skip_without_gpu()) return;
  if (const std::string why = nothing_moves_because(current_gpu()); !why.empty()) return skip(why);
  const std::vector<char> bytes = generated(4 * MiB), right = in_order(bytes, bytes.size());
  const File file = file_of(bytes);
  const Counted counted =
      count_migrations({sorting("managed", managed::sortfile, file, right),
                        sorting("prefetched", prefetched::sortfile, file, right)},
                       1);
  if (!counted.missing.empty()) return skip(counted.missing);
  CHECK(counted.runs.at("managed").front()[fault_groups].count > 0);
  CHECK(counted.runs.at("prefetched").front()[fault_groups].count == 0);
}
