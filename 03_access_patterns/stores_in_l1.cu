// stores, 3 of 3: the wiki has Fermi and Kepler send their stores past L1 [LC 3]. Does a load find
// in L1 what was just stored, at a place that was never loaded?
//
//   1  load_after  one lane loads from places that were not touched, loaded, stored to, or both
#include <array>

#include "stores.hpp"

namespace {

constexpr unsigned places = 256;  // 64 of each kind
constexpr unsigned apart = 64;    // words between them: no two share a line

/// A load through L1 that is neither left out nor moved.
__device__ unsigned load(const unsigned* p) {
  unsigned value;
  asm volatile("ld.global.ca.u32 %0, [%1];" : "=r"(value) : "l"(p) : "memory");
  return value;
}

// [load_after]
// One lane. Each place begins with 0 in L2; a load must bring that, or after a store 7.
__global__ void load_after(unsigned* data, long long* cycles) {
  unsigned other = 0;
  for (unsigned i = 0; i < places; ++i) {
    unsigned* p = data + i * apart;
    const bool stores = i % 4 >= 2;
    if (i % 2 == 1) other += load(p);
    if (stores) asm volatile("st.global.u32 [%0], %1;" ::"l"(p), "r"(7) : "memory");
    for (const long long wait = clock64(); clock64() < wait + 4000;) continue;  // all has arrived
    const long long begin = clock64();
    const unsigned value = load(p);
    // the clock is read if the value is right, and so not before it is there
    cycles[i] = value == (stores ? 7 : 0) && other == 0 ? clock64() - begin : -1;
  }
}
// [/load_after]

constexpr const char* kinds[] = {"nothing, from L2", "a load", "a store", "a load and a store"};
enum { nothing, a_load, a_store, both };

/// Cycles of the load after each of the four. Throws WrongResult unless every load was right.
std::array<Statistics, 4> cycles_after() {
  const DeviceBuffer<unsigned> data(places * apart);
  DeviceBuffer<long long> cycles(places);
  for (int turn = 0; turn < 2; ++turn) {  // the first loads the code
    CUDA_CHECK(cudaMemset(data.data(), 0, data.bytes()));
    cycles.poison();  // -1
    load_after<<<1, 1>>>(data.data(), cycles.data());
    CUDA_CHECK_LAUNCH();
  }
  const std::vector<long long> counted = cycles.to_host();
  std::vector<double> of_kind[4];
  for (unsigned i = 0; i < places; ++i) {
    require_right(counted[i] > 0, "what a load finds after a store");
    of_kind[i % 4].push_back(double(counted[i]));
  }
  return {summarize(of_kind[0]), summarize(of_kind[1]), summarize(of_kind[2]),
          summarize(of_kind[3])};
}

/// An L1 that keeps what is stored, besides handing it on, makes the load a hit. Found on compute
/// capability 9.0, and a test holds rows to it there.
double predicted_cycles(double hit) { return hit; }
Model model_of(const Device& device) {
  return device.prop.major == 9 ? Model::traffic : Model::host;
}

}  // namespace

void loads_after_stores(const Run& run) {
  if (!run.device) return run.report.left_out("what a load finds after a store");
  const std::array<Statistics, 4> cycles = cycles_after();
  Table table(run.report, "a load after",
              {compared("cycles", "latency", "cycles", 0), shown("spread")});
  for (int kind : {nothing, a_load, a_store, both}) {
    const Compared compared{predicted_cycles(cycles[a_load].median), cycles[kind],
                            model_of(*run.device)};
    const bool known = kind == nothing || kind == a_load;
    table.row({kinds[kind]},
              {known ? Cell(Calibration{cycles[kind]}) : compared, spread_text(cycles[kind])});
  }
  table.print();
  run.report.note("predicted: L1 keeps what is stored, besides handing it on");
}
