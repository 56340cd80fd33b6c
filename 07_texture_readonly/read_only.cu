// read_only: does the read-only path gain anything? On Kepler it was a cache of its own, better for
// scattered reads: it moved 32 bytes where L1 moved 128 [LC 3]. __ldg surely takes this path, and
// const __restrict__ probably does; but since Maxwell it is one cache with L1 [PR].
//
// Look at the rows read_...: other loads, the same times. The rows store_... show what const
// __restrict__ gains: loads that need not wait for stores. It does not make all loads read-only:
// not in a struct, and not beside __ldg in the lectures' kernel.
//
//   build/release/07_texture_readonly/07_texture_readonly read_only
//
//   1  copyKernel             the wiki's three: plain, ldg, const_restrict
//   2  kernel                 the lectures' one: const __restrict__, and __ldg
//   3  read_plain, read_ldg, read_const_restrict, read_in_struct, read_texture
//   4  store_plain, store_const_restrict    each word is stored before the next is loaded
#include <cstdio>
#include <filesystem>
#include <map>
#include <regex>

#include "../common/arrays.cuh"
#include "../common/sample.hpp"
#include "../common/sectors.hpp"
#include "texture.cuh"

namespace {

// ---- the texts' kernels: a warp reads 32 neighbouring words, 4 sectors ----

namespace plain {
__global__ void copyKernel(int* out, int* in, size_t n) {
  const size_t idx = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (idx < n) out[idx] = in[idx];
}
}  // namespace plain

namespace ldg {
__global__ void copyKernel(int* out, int* in, size_t n) {
  const size_t idx = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (idx < n) out[idx] = __ldg(&in[idx]);
}
}  // namespace ldg

namespace const_restrict {
__global__ void copyKernel(int* __restrict__ out, const int* __restrict__ in, size_t n) {
  const size_t idx = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (idx < n) out[idx] = in[idx];
}
}  // namespace const_restrict

// The lectures write __ldg(buffer[i]), which does not compile: __ldg takes an address. And they do
// nothing with x1 and x2: no load would be left.
__global__ void kernel(float* out, float const* __restrict__ buffer, size_t n) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i >= n) return;
  const float x1 = buffer[i];
  const float x2 = __ldg(&buffer[i]);
  out[i] = x1 + x2;
}

// ---- in which order our kernels read: read i of n asks for word order(i, n). Neighbouring lanes
// make neighbouring reads. n is at most 2^32. ----

using Order = size_t (*)(size_t i, size_t n);

/// Neighbours side by side: 4 sectors of 32 bytes a warp.
__host__ __device__ size_t in_order(size_t i, size_t) { return i; }

/// Any word at all: 32 sectors. Shifted xors and odd factors mix all bits of i.
__host__ __device__ size_t scattered(size_t i, size_t n) {
  unsigned x = unsigned(i);
  x = (x ^ x >> 16) * 0x7feb352du;
  x = (x ^ x >> 15) * 0x846ca68bu;
  return (x ^ x >> 16) * n >> 32;
}

// ---- our kernels: a thread adds up its 16 words of n ----

constexpr unsigned threads = 128;      // of a block
constexpr unsigned thread_words = 16;  // words of a thread: all in flight at once
constexpr unsigned block_words = threads * thread_words;

// Beyond the end a thread loads word 0, and does not add it.
template <Order order, class Load>
__device__ float add_up(Load load, size_t n) {
  const size_t first = blockIdx.x * size_t(block_words) + threadIdx.x;
  float word[thread_words], sum = 0;
#pragma unroll
  for (unsigned k = 0; k < thread_words; ++k) {
    const size_t i = first + k * threads;
    word[k] = load(i < n ? order(i, n) : 0);
  }
#pragma unroll
  for (unsigned k = 0; k < thread_words; ++k) sum += first + k * threads < n ? word[k] : 0;
  return sum;
}

// Nothing says that `out` lies elsewhere.
template <Order order>
__global__ void read_plain(float* out, const float* in, size_t n) {
  const float sum = add_up<order>([=](size_t i) { return in[i]; }, n);
  out[blockIdx.x * size_t(threads) + threadIdx.x] = sum;
}

// The load itself is named; the pointers promise nothing.
template <Order order>
__global__ void read_ldg(float* out, const float* in, size_t n) {
  const float sum = add_up<order>([=](size_t i) { return __ldg(&in[i]); }, n);
  out[blockIdx.x * size_t(threads) + threadIdx.x] = sum;
}

// The kernel promises that no one writes what it reads through `in`.
template <Order order>
__global__ void read_const_restrict(float* __restrict__ out, const float* __restrict__ in,
                                    size_t n) {
  const float sum = add_up<order>([=](size_t i) { return in[i]; }, n);
  out[blockIdx.x * size_t(threads) + threadIdx.x] = sum;
}

// The same promise by a member of a parameter, not by a parameter: the compiler does not act on it.
struct Promise {
  const float* __restrict__ in;
};
template <Order order>
__global__ void read_in_struct(float* out, Promise p, size_t n) {
  const float sum = add_up<order>([=](size_t i) { return p.in[i]; }, n);
  out[blockIdx.x * size_t(threads) + threadIdx.x] = sum;
}

// A texture of plain memory: an index, and no pointer.
template <Order order>
__global__ void read_texture(float* out, cudaTextureObject_t tex, size_t n) {
  const float sum = add_up<order>([=](size_t i) { return tex1Dfetch<float>(tex, int(i)); }, n);
  out[blockIdx.x * size_t(threads) + threadIdx.x] = sum;
}

// For all the compiler knows the next load reads what this store wrote, and has to wait for it.
template <Order order>
__global__ void store_plain(float* out, const float* in, size_t n) {
  const size_t own = blockIdx.x * size_t(threads) + threadIdx.x;
  const auto load = [=](size_t i) { return out[own] = in[i]; };
  out[own] = add_up<order>(load, n);
}

// Under the promise it cannot: all loads start at once, and only the last store matters.
template <Order order>
__global__ void store_const_restrict(float* __restrict__ out, const float* __restrict__ in,
                                     size_t n) {
  const size_t own = blockIdx.x * size_t(threads) + threadIdx.x;
  const auto load = [=](size_t i) { return out[own] = in[i]; };
  out[own] = add_up<order>(load, n);
}

// ---- what the kernels compiled to: a case below looks into the machine code ----

const std::map<std::string, std::string> compiled_to = {
    {"plain::copyKernel", "1 plain"},
    {"ldg::copyKernel", "1 read-only"},
    {"const_restrict::copyKernel", "1 read-only"},
    {"kernel", "1 plain, 1 read-only"},  // x1 and x2: what __ldg does with its pointer is hidden
    {"read_plain", "16 plain"},
    {"read_ldg", "16 read-only"},
    {"read_const_restrict", "16 read-only"},
    {"read_in_struct", "16 plain"},
    {"read_texture", "16 fetches"},
    {"store_plain", "16 plain"},
    {"store_const_restrict", "16 read-only"},
};

// ---- launching, and what is right ----

/// Word i of the input: a whole number below 4096, so that sums of 16 are exact.
__host__ __device__ float word_at(size_t i) { return float(hash(i) >> 20); }

/// What thread i of the grid adds up.
template <Order order>
struct SumOf {
  size_t n;
  __device__ float operator()(size_t i) const {
    float sum = 0;
    for (unsigned k = 0; k < thread_words; ++k) {
      const size_t read = i / threads * block_words + k * threads + i % threads;
      if (read < n) sum += word_at(order(read, n));
    }
    return sum;
  }
};

struct Memory {
  DeviceBuffer<float> in;
  GuardedBuffer<float> copy, sums;
  Texture texture;  // of `in`
};

Memory memory_for(size_t n) {
  auto in = filled<float>(n, [] __device__(size_t i) { return word_at(i); });
  Texture texture(linear_resource(in.data(), cudaCreateChannelDesc<float>(), in.bytes()));
  const size_t blocks = (n + block_words - 1) / block_words;
  return {std::move(in), GuardedBuffer<float>(n), GuardedBuffer<float>(blocks * threads),
          std::move(texture)};
}

/// The texts' kernels; `m` must outlive them.
std::vector<Benchmark> of_the_texts(const Memory& m) {
  const size_t n = m.in.size();
  const unsigned blocks = unsigned((n + 255) / 256);
  const auto in = reinterpret_cast<int*>(m.in.data());
  const auto out = reinterpret_cast<int*>(m.copy.data());
  const Check copied = equals(m.copy, [] __device__(size_t i) { return word_at(i); });
  const Check doubled = equals(m.copy, [] __device__(size_t i) { return 2 * word_at(i); });
  const auto by_plain = [=] { plain::copyKernel<<<blocks, 256>>>(out, in, n); };
  const auto by_ldg = [=] { ldg::copyKernel<<<blocks, 256>>>(out, in, n); };
  const auto by_promise = [=] { const_restrict::copyKernel<<<blocks, 256>>>(out, in, n); };
  const auto by_both = [=, &m] { kernel<<<blocks, 256>>>(m.copy, m.in, n); };
  return {{"plain::copyKernel", by_plain, copied},
          {"ldg::copyKernel", by_ldg, copied},
          {"const_restrict::copyKernel", by_promise, copied},
          {"kernel", by_both, doubled}};
}

/// Our kernels, in one order; `m` must outlive them.
template <Order order>
std::vector<Benchmark> of_ours(const Memory& m) {
  const auto benchmark = [&m](const char* name, auto kernel, auto in) {
    const unsigned blocks = unsigned(m.sums.size() / threads);
    const auto work = [=, &m] { kernel<<<blocks, threads>>>(m.sums, in, m.in.size()); };
    return Benchmark{name, work, equals(m.sums, SumOf<order>{m.in.size()})};
  };
  const float* in = m.in;
  return {benchmark("read_plain", read_plain<order>, in),
          benchmark("read_ldg", read_ldg<order>, in),
          benchmark("read_const_restrict", read_const_restrict<order>, in),
          benchmark("read_in_struct", read_in_struct<order>, Promise{in}),
          benchmark("read_texture", read_texture<order>, cudaTextureObject_t(m.texture)),
          benchmark("store_plain", store_plain<order>, in),
          benchmark("store_const_restrict", store_const_restrict<order>, in)};
}

}  // namespace

void read_only(Run& run) {
  const size_t n = run.fitting(size_t(1) << 26, 9);
  run.title(bytes_text(4.0 * double(n)) + " of words that are only read");
  const Memory m = memory_for(n);
  std::vector<Benchmark> texts = of_the_texts(m), ours = of_ours<in_order>(m);
  const Timings copies = run.timer.interleaved(texts), ordered = run.timer.interleaved(ours),
                far = run.timer.interleaved(of_ours<scattered>(m));

  Table table("kernel", {"compiled to", "in order, ms", "scattered, ms"});
  for (const Benchmark& b : texts)
    table.row(b.name, {compiled_to.at(b.name), copies[b.name].ms_interval(), ""});
  for (const Benchmark& b : ours)
    table.row(b.name,
              {compiled_to.at(b.name), ordered[b.name].ms_interval(), far[b.name].ms_interval()});
  run.print(table);
  run.note("the first four write as many words as they read, the others a sixteenth");
  run.note("a warp's request touches 4 sectors in order and 32 scattered");
  run.note("`kernel`, the lectures', reads buffer[i], and then the same word by __ldg. Its first");
  run.note("read is a plain load in spite of const __restrict__");

  const Claim better{"07.1", "scattered reads do better through the read-only path",
                     "no figure, the wiki", Era::kepler};
  if (run.beyond_l2(4.0 * double(n)))
    run.claim(better, far.speedup({.of = "read_ldg", .over = "read_plain"}), faster());
  else
    run.claim_skipped(better, "the words are less than four times the L2");
  run.computed({"07.2a", "__ldg surely uses the read-only path", "no figure, the lectures"},
               compiled_to.at("read_ldg") == "16 read-only",
               "compiled to " + compiled_to.at("read_ldg"));
  run.computed({"07.2b", "const __restrict__ probably uses it", "no figure, the lectures"},
               compiled_to.at("read_const_restrict") == "16 read-only",
               "compiled to " + compiled_to.at("read_const_restrict") + "; in a struct to " +
                   compiled_to.at("read_in_struct"));
}
SAMPLE(1, read_only, "three ways to say that memory is only read");

// ---- self-checks ----

namespace {

/// What cuobjdump, where it is there, prints of this very program.
std::string machine_code() {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe");
  const std::string command =
      "PATH=$PATH:/usr/local/cuda/bin cuobjdump -sass '" + program + "' 2>/dev/null";
  std::string code;
  FILE* pipe = popen(command.c_str(), "r");
  for (int c; pipe && (c = fgetc(pipe)) != EOF;) code += char(c);
  if (pipe) pclose(pipe);
  return code;
}

/// "5plain10copyKernel" of "plain::copyKernel": as the compiler writes it.
std::string mangled(const std::string& name) {
  const size_t colons = name.find("::");
  if (colons == std::string::npos) return std::to_string(name.size()) + name;
  return mangled(name.substr(0, colons)) + mangled(name.substr(colons + 2));
}

/// "1 plain, 1 read-only" of a kernel's machine code. CI: before Volta.
std::string loads_in(const std::string& code) {
  const std::pair<const char*, const char*> instructions[] = {
      {"plain", R"( LDG\.E(\.SYS)? )"},
      {"read-only", R"( LDG\.E\.(CONSTANT|CI))"},
      {"fetches", " TLD"}};
  std::string text;
  for (const auto& [name, pattern] : instructions) {
    const std::regex instruction(pattern);
    const std::sregex_iterator first(code.begin(), code.end(), instruction), end;
    const auto count = std::distance(first, end);
    if (count) text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + name;
  }
  return text;
}

// From the text: 2048 words for each block, thread t of it reads t, t + 128, ...
template <Order order>
void check_sums(size_t n) {
  const Memory m = memory_for(n);
  std::vector<float> right(m.sums.size(), 0);
  for (size_t i = 0; i < n; ++i)
    right[i / block_words * threads + i % threads] += word_at(order(i, n));
  for (const Benchmark& b : of_ours<order>(m)) {
    CAPTURE(b.name);
    CAPTURE(n);
    CHECK_NOTHROW(require_right(b));
    CHECK(m.sums.to_host() == right);
  }
}

}  // namespace

TEST_CASE("read_only: a scattered word lies anywhere, and never beyond the end") {
  for (const size_t n : {1, 31, 2049, 65537})
    for (size_t i = 0; i < n; ++i) REQUIRE(scattered(i, n) < n);
  CHECK(scattered(0xffffffffu, size_t(1) << 32) < size_t(1) << 32);
  size_t all = 0;  // sectors of 1000 requests of 32 lanes
  for (size_t first = 0; first < 32000; first += 32)
    all += sectors(sizeof(float), [=](size_t lane) { return scattered(first + lane, 1 << 26); });
  CHECK(all > 31900);
}

TEST_CASE("read_only: each kernel compiled to the loads of the list") {
  const std::string code = machine_code(), begins = "Function : ";
  std::map<std::string, int> seen;
  for (size_t at = code.find(begins); at != std::string::npos;) {
    const size_t next = code.find(begins, at + 1), end_of_line = code.find('\n', at);
    const std::string name = code.substr(at, end_of_line - at);
    for (const auto& [kernel, loads] : compiled_to)
      if (name.find("read_only_cu") != std::string::npos &&
          name.find(mangled(kernel)) != std::string::npos) {
        CAPTURE(name);
        CHECK(loads_in(code.substr(at, next - at)) == loads);
        ++seen[kernel];
      }
    at = next;
  }
  if (seen.empty()) return skip("cuobjdump is not here, or shows no machine code");
  CHECK(seen.size() == compiled_to.size());
}

TEST_CASE("read_only: the texts' kernels are right at awkward sizes") {
  if (skip_without_gpu()) return;
  for (const size_t n : {1, 31, 1009, 65537}) {
    const Memory m = memory_for(n);
    for (const Benchmark& b : of_the_texts(m)) CHECK_NOTHROW(require_right(b));
  }
}

TEST_CASE("read_only: each thread has the sum of its words") {
  if (skip_without_gpu()) return;
  for (const size_t n : {1, 2049, 100003}) {
    check_sums<in_order>(n);
    check_sums<scattered>(n);
  }
  const Memory m = memory_for(2049);
  of_ours<scattered>(m)[0].work();
  CHECK(equals(m.sums, SumOf<in_order>{2049}).find_error() != "");  // of another order
}
