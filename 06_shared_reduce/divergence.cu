// divergence: which lanes add, in each step of the guide's three reductions? A warp is active in a
// step if one of its lanes adds. It is divergent if some of them add and others do not. The guide
// walks through a block of 256 threads, warp by warp [KP]: all warps of its `reduce` are divergent,
// and its `reduce1` "eliminates warp divergence in the first three iterations". Here warps vote.
//
// Look at the lanes of warp 0, and at the step in which the second and the third reduction become
// divergent: as soon as fewer threads add than a warp has. What divergence costs is another
// question. `ladder` answers it for these sums, and `branches` for longer paths.
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o divergence divergence.cu ../common/*.cpp
//
//   1  vote_modulo      the text's `reduce`, with a vote: every 2s-th thread adds
//   2  vote_strided     its `reduce1`: the first threads add words that lie 2s apart
//   3  vote_descending  its `reduce2`: the first threads add words side by side
#include <bit>

#include "../common/arrays.cuh"
#include "../common/sample.hpp"
#include "banks.hpp"

namespace {

constexpr unsigned max_threads = 1024;

// ---- kernels: one block of 32, 64 ... 1024 threads sums its words, one per thread. In each step
// all lanes of a warp call __ballot_sync; bit k of what they get says whether lane k adds. Lane 0
// writes it down ----

// Every other lane of every warp adds, then every fourth; from the sixth step on one lane of every
// other warp, and so on.
__global__ void vote_modulo(unsigned* out, unsigned* votes, const unsigned* in) {
  __shared__ unsigned sdata[max_threads];
  const unsigned tid = threadIdx.x;
  sdata[tid] = in[tid];
  __syncthreads();
  for (unsigned s = 1; s < blockDim.x; s *= 2) {
    const bool adds = tid % (2 * s) == 0;
    const unsigned vote = __ballot_sync(0xffffffff, adds);
    if (tid % 32 == 0) votes[tid / 32] = vote;
    votes += blockDim.x / 32;  // of the next step
    if (adds) sdata[tid] += sdata[tid + s];
    __syncthreads();
  }
  if (tid == 0) *out = sdata[0];
}

// The first half of the threads adds, then the first quarter: whole warps, while they fill one.
__global__ void vote_strided(unsigned* out, unsigned* votes, const unsigned* in) {
  __shared__ unsigned sdata[max_threads];
  const unsigned tid = threadIdx.x;
  sdata[tid] = in[tid];
  __syncthreads();
  for (unsigned s = 1; s < blockDim.x; s *= 2) {
    const unsigned index = 2 * s * tid;
    const bool adds = index < blockDim.x;
    const unsigned vote = __ballot_sync(0xffffffff, adds);
    if (tid % 32 == 0) votes[tid / 32] = vote;
    votes += blockDim.x / 32;
    if (adds) sdata[index] += sdata[index + s];
    __syncthreads();
  }
  if (tid == 0) *out = sdata[0];
}

// The same threads add, but other words.
__global__ void vote_descending(unsigned* out, unsigned* votes, const unsigned* in) {
  __shared__ unsigned sdata[max_threads];
  const unsigned tid = threadIdx.x;
  sdata[tid] = in[tid];
  __syncthreads();
  for (unsigned s = blockDim.x / 2; s > 0; s /= 2) {
    const bool adds = tid < s;
    const unsigned vote = __ballot_sync(0xffffffff, adds);
    if (tid % 32 == 0) votes[tid / 32] = vote;
    votes += blockDim.x / 32;
    if (adds) sdata[tid] += sdata[tid + s];
    __syncthreads();
  }
  if (tid == 0) *out = sdata[0];
}

struct Version {
  const char* name;
  Order order;
  void (*kernel)(unsigned* out, unsigned* votes, const unsigned* in);
};
constexpr Version versions[] = {{"modulo", Order::modulo, vote_modulo},
                                {"strided", Order::strided, vote_strided},
                                {"descending", Order::descending, vote_descending}};

/// Of a step: for each warp, which lanes add.
using Votes = std::vector<unsigned>;

/// Steps until one word is left of n.
unsigned step_count(unsigned n) { return unsigned(std::countr_zero(n)); }

/// The votes of each step, as the warps of a block of n threads cast them.
std::vector<Votes> votes_of(const Version& version, unsigned n) {
  const unsigned warps = n / 32;
  const auto in = filled<unsigned>(n, [] __device__(size_t i) { return hash(i); });
  const GuardedBuffer<unsigned> out(1), votes(step_count(n) * warps);
  unsigned sum = 0;
  for (unsigned i = 0; i < n; ++i) sum += hash(i);
  const auto work = [&] { version.kernel<<<1, n>>>(out, votes, in); };
  require_right({version.name, work, equals(out, [sum] __device__(size_t) { return sum; })});
  if (const std::string error = guard_error(votes); !error.empty()) throw WrongResult(error);
  const std::vector<unsigned> all = votes.to_host();
  std::vector<Votes> steps;
  for (auto step = all.begin(); step != all.end(); step += warps)
    steps.emplace_back(step, step + warps);
  return steps;
}

/// The prediction of step k, from 0: who adds is a matter of the thread's number alone.
Votes predicted_votes(Order order, unsigned k, unsigned n) {
  Votes votes(n / 32, 0);
  for (unsigned tid = 0; tid < n; ++tid)
    if (addition(order, stride_of(order, k, n), tid, n).active) votes[tid / 32] |= 1u << tid % 32;
  return votes;
}

struct Warps {
  unsigned active = 0, divergent = 0;
};
Warps warps_of(const Votes& votes) {
  Warps warps;
  for (const unsigned vote : votes) {
    warps.active += vote != 0;
    warps.divergent += vote != 0 && vote != 0xffffffff;
  }
  return warps;
}

/// "#.#.": lane 0 and lane 2 add.
std::string drawing(unsigned vote) {
  std::string text;
  for (unsigned lane = 0; lane < 32; ++lane) text += vote >> lane & 1 ? '#' : '.';
  return text;
}

}  // namespace

void divergence(Run& run) {
  constexpr unsigned n = 256;
  run.title("a block of 256 threads sums 256 words in 8 steps; which lanes add (#)?");
  std::vector<Votes> voted[std::size(versions)];
  for (size_t v = 0; v < std::size(versions); ++v) {
    voted[v] = votes_of(versions[v], n);
    Table table(versions[v].name, {"lanes of warp 0", "active", "divergent", "predicted"});
    for (unsigned k = 0; k < step_count(n); ++k) {
      const Warps warps = warps_of(voted[v][k]);
      const Warps predicted = warps_of(predicted_votes(versions[v].order, k, n));
      table.row("step " + std::to_string(k + 1),
                {drawing(voted[v][k][0]), warps.active, warps.divergent,
                 digits(predicted.active) + ", " + digits(predicted.divergent)});
    }
    run.print(table);
  }
  run.note("of the block's 8 warps; predicted: active, divergent, from the threads' numbers");

  unsigned without = 0;  // the first steps: divergent warps in `reduce`, none in `reduce1`
  while (without < step_count(n) && warps_of(voted[0][without]).divergent > 0 &&
         warps_of(voted[1][without]).divergent == 0)
    ++without;
  run.observed({.id = "06.7",
                .statement = "reduce1 eliminates warp divergence in the first three iterations",
                .source = "[KP] \"in the first three iterations\""},
               without >= 3,
               "steps 1 to " + std::to_string(without) +
                   ": warps of reduce diverge, none of reduce1, as they voted");
}
SAMPLE(3, divergence, "which lanes add in each step");

TEST_CASE("divergence: the strided reduction goes as the text walks through it") {
  constexpr unsigned all = 0xffffffff;
  CHECK(predicted_votes(Order::strided, 0, 256) == Votes{all, all, all, all, 0, 0, 0, 0});
  CHECK(predicted_votes(Order::strided, 1, 256) == Votes{all, all, 0, 0, 0, 0, 0, 0});
  CHECK(predicted_votes(Order::strided, 2, 256) == Votes{all, 0, 0, 0, 0, 0, 0, 0});
  CHECK(predicted_votes(Order::strided, 3, 256) == Votes{0x0000ffff, 0, 0, 0, 0, 0, 0, 0});
}

TEST_CASE("divergence: votes and divergent warps of the three reductions, by hand") {
  CHECK(predicted_votes(Order::modulo, 0, 256) == Votes(8, 0x55555555));
  CHECK(predicted_votes(Order::modulo, 4, 256) == Votes(8, 1));
  CHECK(predicted_votes(Order::modulo, 5, 256) == Votes{1, 0, 1, 0, 1, 0, 1, 0});
  CHECK(drawing(0x80000005) == "#.#............................#");
  CHECK(warps_of({0, 1, 0x7fffffff, 0xffffffff}).active == 3);
  CHECK(warps_of({0, 1, 0x7fffffff, 0xffffffff}).divergent == 2);
  const auto divergent = [](Order order) {
    std::vector<unsigned> steps;
    for (unsigned k = 0; k < step_count(256); ++k)
      steps.push_back(warps_of(predicted_votes(order, k, 256)).divergent);
    return steps;
  };
  CHECK(divergent(Order::modulo) == std::vector<unsigned>{8, 8, 8, 8, 8, 4, 2, 1});
  CHECK(divergent(Order::strided) == std::vector<unsigned>{0, 0, 0, 1, 1, 1, 1, 1});
  CHECK(divergent(Order::descending) == std::vector<unsigned>{0, 0, 0, 1, 1, 1, 1, 1});
}

TEST_CASE("divergence: sums are right, and warps vote as predicted, in blocks of all sizes") {
  if (skip_without_gpu()) return;
  for (unsigned n = 32; n <= max_threads; n *= 2)
    for (const Version& version : versions) {
      CAPTURE(n);
      CAPTURE(version.name);
      const std::vector<Votes> voted = votes_of(version, n);
      REQUIRE(voted.size() == step_count(n));
      for (unsigned k = 0; k < step_count(n); ++k)
        CHECK(voted[k] == predicted_votes(version.order, k, n));
    }
}
