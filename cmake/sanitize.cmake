# One tool of compute-sanitizer over all self-checks of an executable but the suites "large" (more than 64 MiB) and "race"
# (on purpose); fails on any report.
#   cmake -DSAMPLE=<executable> -DTOOL=<memcheck, racecheck, initcheck or synccheck> -DCOMPUTE_SANITIZER=<program>
#         -P sanitize.cmake
cmake_minimum_required(VERSION 3.25)
include(${CMAKE_CURRENT_LIST_DIR}/gpu.cmake)
if(NOT COMPUTE_SANITIZER)
  message("skipped: compute-sanitizer was not found; it is part of the CUDA toolkit")
  return()
endif()
find_gpu(gpu)
if(NOT gpu)
  message("skipped: no usable GPU")
  return()
endif()
set(left_out large,race)
set(kernels)
if(TOOL STREQUAL racecheck)
  string(APPEND left_out ",long")  # it takes minutes for each of these cases
  set(kernels --kernel-name-exclude kns=cublas)  # it warns of races in a kernel of cuBLAS, getrf_kernelWarp
endif()
# wrong calls that the samples make on purpose are no report
execute_process(COMMAND ${COMPUTE_SANITIZER} --tool ${TOOL} --report-api-errors no --error-exitcode 9 ${kernels}
                        ${SAMPLE} --self-check --test-suite-exclude=${left_out} RESULT_VARIABLE code)
if(NOT code EQUAL 0)
  message(FATAL_ERROR "compute-sanitizer --tool ${TOOL}: exit code ${code}")
endif()
