// What stores.cu and the two sources beside it have in common.
#pragma once

#include "../common/report.hpp"

// in stores_segments.cu: a store of one, two and four segments, and of three apart (03.14)
void store_segments(const Run& run);
// in stores_in_l1.cu: whether a load finds in L1 what was stored
void loads_after_stores(const Run& run);
