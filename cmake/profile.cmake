# Counts a sample's launches with Nsight Compute and holds the counts against the models; prints both, fails where they
# differ. The counts stay beside the sample, in <folder of the sample>/profile/<topic>-counters.csv, and are used again
# until the program or the GPU is another.
#   cmake -DSAMPLE=<executable> -DNCU=<program> -DPYTHON=<program> -P profile.cmake
cmake_minimum_required(VERSION 3.25)
include(${CMAKE_CURRENT_LIST_DIR}/count.cmake)

get_filename_component(topic ${SAMPLE} NAME)
get_filename_component(SCRATCH ${SAMPLE} DIRECTORY)
set(SCRATCH ${SCRATCH}/profile)
count_launches(file reason)
if(reason MATCHES "^failed: ")
  message(FATAL_ERROR "${reason}")
elseif(reason)
  message("skipped: ${reason}")
  return()
elseif(NOT file)
  message("skipped: ${topic} predicts nothing that hardware counts by the launch")
  return()
endif()

execute_process(COMMAND ${SAMPLE} --self-check --counters ${file} "--test-case=*: counted *,*: counts of this GPU equal the model"
                OUTPUT_VARIABLE compared RESULT_VARIABLE code)
string(REGEX MATCHALL "(^|\n)  [^\n]+[0-9]" rows "${compared}")
list(LENGTH rows rows)
message("${topic}: ${rows} counts of the hardware beside the models'
  kernel                   parameter                                what                      predicted      counted
${compared}
the parts that rest on counts are judged by: ${SAMPLE} --counters ${file}")
if(NOT code EQUAL 0 OR rows EQUAL 0)
  message(FATAL_ERROR "predicted and counted differ")
endif()
