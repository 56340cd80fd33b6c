// stores, 3 of 3: on Fermi and Kepler, says the wiki, L1 is not used for stores [LC 3]. Look at
// what a load takes after a store to the same word, at a place that was never loaded: as long as
// from L2, or as long as a hit in L1?
//
//   1  load_after  one lane loads from places that were not touched, loaded, stored to, or both
#include "stores.hpp"

using namespace samples;

namespace {

// ---- the kernel ----

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

// ---- its rows ----

struct Kind {
  const char *key, *words;
  unsigned number;  ///< of places i with i % 4 == number
};
const Kind kinds[] = {{"after_nothing", "nothing, from L2", 0},
                      {"after_load", "a load", 1},
                      {"after_store", "a store", 2},
                      {"after_both", "a load and a store", 3}};

/// Cycles of the loads at these places. Throws WrongResult unless every load was right.
Statistics cycles_after(const Kind& kind) {
  const DeviceBuffer<unsigned> data(places * apart);
  DeviceBuffer<long long> cycles(places);
  for (int launch = 0; launch < 2; ++launch) {  // the first loads the code
    CUDA_CHECK(cudaMemset(data.data(), 0, data.bytes()));
    cycles.poison();  // -1
    load_after<<<1, 1>>>(data.data(), cycles.data());
    CUDA_CHECK_LAUNCH();
  }
  const std::vector<long long> counted = cycles.to_host();
  std::vector<double> of_kind;
  for (unsigned i = 0; i < places; ++i) {
    require_right(counted[i] > 0, "what a load finds after a store");
    if (i % 4 == kind.number) of_kind.push_back(double(counted[i]));
  }
  return summarize(of_kind);
}

// ---- prediction ----

/// An L1 that keeps what is stored, besides handing it on, makes the load a hit.
double predicted_cycles(double hit) { return hit; }

const char* const latency = "latency";
Statistics latency_of(const Run& run, const char* key) {
  return run.results->value(key, latency).value;
}
/// How many times as long as the load `b` does the load `a` take, as far as both ranges allow.
Statistics times_as_long(const Statistics& a, const Statistics& b) {
  return {a.median / b.median, a.low / b.high, a.high / b.low, a.repeats};
}

}  // namespace

void loads_after_stores(const Run& run) {
  for (const Kind& kind : kinds)
    run.results->keep(Value{
        kind.key, latency, "cycles",
        run.machine->value(kind.key, latency, false, [&kind] { return cycles_after(kind); })});
  const double hit = latency_of(run, "after_load").median;
  Table table(run.report, "a load after",
              {compared("cycles", latency, "cycles", 0), shown("spread")});
  for (const Kind& kind : kinds) {
    const Statistics found = latency_of(run, kind.key);
    const bool calibrates = kind.number < 2;
    table.row({kind.key, "", "", kind.words},
              {calibrates ? Cell(Calibration{found})
                          : Cell(Compared{predicted_cycles(hit), found, model_found_on_9(run)}),
               spread_text(found)});
  }
  table.print();
  if (run.device)
    run.report.note("predicted: L1 keeps what is stored, besides handing it on");
  else
    run.report.left_out("what a load finds after a store");
  keep(run, "after_store", "the latency after a load", "times",
       times_as_long(latency_of(run, "after_store"), latency_of(run, "after_load")));
}

Claim stores_in_l1_claim(const Run& run) {
  const double hit = latency_of(run, "after_load").median;
  const double miss = latency_of(run, "after_nothing").median;
  return {.part = {"03.18", "L1 is not used for stores: a load does not find there what was stored",
                   "not used, no figure", "Fermi and Kepler", fermi_and_kepler},
          .rule = beats(),
          .levels = {{"after_store", "the latency after a load"}},
          .unless = hit > 0.75 * miss ? "L1 does not keep loads here" : ""};
}
