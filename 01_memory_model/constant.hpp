// The parts of the experiment `constant`, each in a file of its own.
#pragma once

#include "../framework/common/checked.cuh"
#include "../framework/common/experiment.hpp"

namespace constants {

using samples::Checked, samples::Claim;

// constant_miss.cu: 01.6b, 01.6c, 01.11d
void run_misses(const Run& run);
std::vector<Claim> claims_of_misses();
void add_tasks_of_misses(std::vector<Checked>& all);
// constant_literal.cu: 01.7
void run_literals(const Run& run);
Claim claim_of_literals();
void add_tasks_of_literals(std::vector<Checked>& all, size_t n);
// constant_coefficient.cu: 01.11a
void run_coefficients(const Run& run);
void add_tasks_of_coefficients(std::vector<Checked>& all, size_t n);

/// Whether thread i found what it must find.
template <class T>
struct IsRight {
  const T* right;
  __device__ bool operator()(size_t i, T found) const { return found == right[i]; }
};

/// What the threads of a launch leave, and what they must leave.
template <class T>
struct Found {
  samples::Output<T> out;
  DeviceBuffer<T> right;

  explicit Found(size_t n) : out(n), right(n) {}
  size_t wrong(const std::vector<T>& expected) {
    right.copy_from(expected);
    return out.wrong(IsRight<T>{right.data()});
  }
};

}  // namespace constants
