// What caching.cu and caching_flag.cu share: one lane, and what a load takes after another access.
#pragma once

// Loads that the compiler neither leaves out nor moves past the clock: through L1 (.ca), past it
// (.cg), and one that says nothing, so that the compiler's flag decides.
__device__ inline unsigned load_ca(const unsigned* p) {
  unsigned value;
  asm volatile("ld.global.ca.u32 %0, [%1];" : "=r"(value) : "l"(p) : "memory");
  return value;
}
__device__ inline unsigned load_cg(const unsigned* p) {
  unsigned value;
  asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(value) : "l"(p) : "memory");
  return value;
}
__device__ inline unsigned load_plain(const unsigned* p) {
  unsigned value;
  asm volatile("ld.global.u32 %0, [%1];" : "=r"(value) : "l"(p) : "memory");
  return value;
}

/// What happens before the load that is timed.
enum Before { nothing, same_word, same_sector, next_sector, store, before_count };

constexpr unsigned places = 64 * before_count;
constexpr unsigned apart = 64;  // words between places: no two share a line

// One lane. Each place begins with 0, which lies in L2. A load must bring that, or after a store 7.
template <unsigned (*load)(const unsigned*)>
__device__ void time_loads(unsigned* data, long long* cycles) {
  unsigned other = 0;
  for (unsigned i = 0; i < places; ++i) {
    unsigned* p = data + i * apart;
    const unsigned before = i % before_count;
    if (before == same_word) other += load(p);
    if (before == same_sector) other += load(p + 1);
    if (before == next_sector) other += load(p + 8);
    if (before == store) asm volatile("st.global.u32 [%0], %1;" ::"l"(p), "r"(7) : "memory");
    for (const long long wait = clock64(); clock64() < wait + 4000;) continue;  // all has arrived
    const long long begin = clock64();
    const unsigned value = load(p);
    // the clock is read if the value is right, and so not before it is there
    cycles[i] = value == (before == store ? 7 : 0) && other == 0 ? clock64() - begin : -1;
  }
}

using TimeLoads = void (*)(unsigned* data, long long* cycles);

/// The kernel of caching_flag.cu; null unless that file is linked, and was compiled with the flag.
inline TimeLoads time_loads_by_flag = nullptr;
