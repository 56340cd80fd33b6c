# Counts with Nsight Compute, on this machine's GPU, what the launches of an executable's "profile launches" cases do to
# memory, and holds the counts against the models; prints both, fails where they differ.
#   cmake -DSAMPLE=<executable> -DNCU=<program> -DPYTHON=<program> -DSCRATCH=<folder> -P profile.cmake
cmake_minimum_required(VERSION 3.25)
include(${CMAKE_CURRENT_LIST_DIR}/gpu.cmake)
get_filename_component(topic ${SAMPLE} NAME)
execute_process(COMMAND ${SAMPLE} --list-test-cases OUTPUT_VARIABLE cases)
if(NOT cases MATCHES "profile launches")
  message("skipped: ${topic} predicts nothing that hardware counts by the launch")
  return()
endif()
if(NOT NCU OR NOT PYTHON)
  message("skipped: Nsight Compute (ncu) and Python are needed; one of them was not found")
  return()
endif()
find_gpu(gpu)
if(NOT gpu)
  message("skipped: no usable GPU")
  return()
endif()
file(MAKE_DIRECTORY ${SCRATCH})

# the announced kernels only: the others, which fill and poison, would be counted for nothing
execute_process(COMMAND ${SAMPLE} "--test-case=*profile launches" OUTPUT_VARIABLE announced COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "launch: [A-Za-z0-9_]+" names "${announced}")
list(REMOVE_DUPLICATES names)
list(TRANSFORM names REPLACE "launch: " "")
list(JOIN names "|" names)

set(metrics)
foreach(op IN ITEMS ld st)
  list(APPEND metrics l1tex__t_requests_pipe_lsu_mem_global_op_${op}.sum l1tex__t_sectors_pipe_lsu_mem_global_op_${op}.sum
       l1tex__data_pipe_lsu_wavefronts_mem_shared_op_${op}.sum)
endforeach()
list(APPEND metrics l1tex__t_requests_pipe_tex_mem_texture.sum l1tex__t_sectors_pipe_tex_mem_texture.sum
     l1tex__m_xbar2l1tex_read_bytes.sum)  # the last: what crosses from L2 to L1
list(JOIN metrics "," metrics)

execute_process(COMMAND ${NCU} --csv --page raw --clock-control none --print-kernel-base function --kernel-name "regex:^(${names})$"
                        --metrics ${metrics} ${SAMPLE} "--test-case=*profile launches"
                OUTPUT_FILE ${SCRATCH}/${topic}-ncu.txt ERROR_VARIABLE errors RESULT_VARIABLE code)
file(READ ${SCRATCH}/${topic}-ncu.txt output)
if(output MATCHES "ERR_NVGPUCTRPERM" OR errors MATCHES "ERR_NVGPUCTRPERM")
  message("skipped: no permission to read the GPU's performance counters (ERR_NVGPUCTRPERM); an administrator can give it")
  return()
endif()
if(NOT code EQUAL 0)
  message(FATAL_ERROR "ncu: exit code ${code}\n${errors}\n${output}")
endif()
execute_process(COMMAND ${PYTHON} ${CMAKE_CURRENT_LIST_DIR}/counters.py INPUT_FILE ${SCRATCH}/${topic}-ncu.txt
                OUTPUT_FILE ${SCRATCH}/${topic}-counters.csv COMMAND_ERROR_IS_FATAL ANY)

execute_process(COMMAND ${CMAKE_COMMAND} -E env SAMPLE_COUNTERS=${SCRATCH}/${topic}-counters.csv ${SAMPLE}
                        "--test-case=*: counted *" --no-intro --minimal OUTPUT_VARIABLE compared RESULT_VARIABLE code)
string(REGEX MATCHALL "(^|\n)  [^\n]+[0-9]" rows "${compared}")
list(LENGTH rows rows)
message("${topic}: ${rows} counts of the hardware beside the models' (counted in ${SCRATCH}/${topic}-counters.csv)
  kernel                   parameter                                what                      predicted      counted
${compared}")
if(NOT code EQUAL 0 OR rows EQUAL 0)
  message(FATAL_ERROR "predicted and counted differ")
endif()
