// What a sample is: a function that runs an experiment, and below it
//
//   SAMPLE(3, structs, "an array of structures, and a structure of arrays");
//
// A program is all samples that are linked into it, and main.cpp: a file alone, or all of a topic.
#pragma once

#include <doctest/doctest.h>

#include "run.hpp"

struct Sample {
  int place;  ///< in its topic: the third of the text
  const char* name;
  void (*run)(Run&);
  const char* about;
  const char* file;
  void (*without_gpu)(Run&) = nullptr;  ///< printed first, on every machine: what needs no GPU
};
/// An option of a sample, --name VALUE.
struct SampleOption {
  const char *name, *about;
  void (*check)(const Run&);  ///< throws UsageError if what was typed cannot be used
};

bool register_sample(const Sample& sample);
bool register_option(const SampleOption& option);
bool register_exercise();  ///< in exercise.hpp

/// What nvcc compiles a file for: 900 for compute capability 9.0.
bool register_code(std::initializer_list<int> architectures);
#ifdef __CUDA_ARCH_LIST__
[[maybe_unused]] static const bool code_is_registered = register_code({__CUDA_ARCH_LIST__});
#endif

#define SAMPLE(place, function, about, ...)                   \
  [[maybe_unused]] static const bool function##_is_a_sample = \
      register_sample({place, #function, function, about, __FILE__ __VA_OPT__(, ) __VA_ARGS__})

#define SAMPLE_OPTION(name, about, check) \
  [[maybe_unused]] static const bool check##_is_an_option = register_option({name, about, check})

/// In a doctest case: `if (skip_without_gpu()) return;`. ctest shows such a case as skipped; with
/// SAMPLES_REQUIRE_GPU=1 it fails.
bool skip_without_gpu();
/// `if (!pools) return skip("no memory pools");`
void skip(const std::string& why);
/// The properties of the current GPU, for doctest cases.
cudaDeviceProp current_gpu();
