// What stores.cu and the two sources beside it have in common.
#pragma once

#include "../framework/common/experiment.hpp"

/// Word i as it is stored: without pattern. The kernels compute it; no other word's is the same.
__host__ __device__ inline unsigned stored_word(size_t i) {
  unsigned x = unsigned(i) * 0x9e3779b1u + unsigned(i >> 32);
  x = (x ^ x >> 16) * 0x85ebca6bu;
  x = (x ^ x >> 13) * 0xc2b2ae35u;
  return x ^ x >> 16;
}

/// The models were found on compute capability 9.0: only there does a test hold rows to them.
inline Model model_found_on_9(const Run& run) {
  return run.device && run.device->prop.major == 9 ? Model::traffic : Model::host;
}

// in stores_segments.cu: a store of one, two and four segments, and of three apart (03.14)
void store_segments(const Run& run);
std::vector<samples::Claim> segment_claims(const Run& run);
samples::Needs segment_needs(const Run& run);
std::vector<samples::Checked> segment_tasks(size_t n);
std::vector<CountedLaunch> counted_segments();

// in stores_in_l1.cu: whether a load finds in L1 what was stored (03.18)
void loads_after_stores(const Run& run);
samples::Claim stores_in_l1_claim(const Run& run);
