// What flight.cu hands in, and who checks it.
#pragma once

#include "../../framework/common/your_turn.hpp"

struct Flight {
  double bytes;  ///< that have to be in flight, on the whole GPU
  double warps;  ///< for each multiprocessor, if each thread has one word of 4 bytes in flight
  double rate;   ///< in GB/s with 64 such warps in each multiprocessor
  double warps_of_quads;  ///< for each multiprocessor, if each thread has one load of 16 bytes in
                          ///< flight
};

void check_flight(const Flight& yours, const Flight& solution);
