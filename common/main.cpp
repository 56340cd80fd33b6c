// main() of every program: of samples it is their command line, of an exercise it runs the doctest
// cases. The harness is compiled here, as one: nvcc sample.cu common/*.cpp
#define DOCTEST_CONFIG_IMPLEMENT
#include "sample.hpp"

// one after the other
#include "harness/command_line.cpp"  // with self_check.cpp
#include "harness/run.cpp"
#include "harness/verdict.cpp"

int main(int argc, char** argv) {
  return samples().empty() ? run_without_sample(argc, argv) : run_samples(argc, argv);
}
