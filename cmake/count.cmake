# count_launches(<file> <reason>): counts with Nsight Compute, on this machine's GPU, what the launches of SAMPLE's
# "profile launches" cases do to memory, into a file below SCRATCH that the sample takes by --counters. Sets <file> to
# its path; or to nothing, and <reason> to why: "failed: ..." where counting began. Both are empty where the sample has no
# such cases.
# Uses SAMPLE, NCU and PYTHON (programs, or empty where there is none) and SCRATCH.
include(${CMAKE_CURRENT_LIST_DIR}/gpu.cmake)
set(count_launches_to_csv ${CMAKE_CURRENT_LIST_DIR}/../tools/counters.py)

function(count_launches file reason)
  set(${file} "" PARENT_SCOPE)
  set(${reason} "" PARENT_SCOPE)
  get_filename_component(topic ${SAMPLE} NAME)
  execute_process(COMMAND ${SAMPLE} --list-test-cases OUTPUT_VARIABLE cases COMMAND_ERROR_IS_FATAL ANY)
  if(NOT cases MATCHES "profile launches")
    return()
  endif()
  if(NOT NCU OR NOT PYTHON)
    set(${reason} "Nsight Compute (ncu) and Python are needed, and one of them was not found" PARENT_SCOPE)
    return()
  endif()
  find_gpu(gpu)
  if(NOT gpu)
    set(${reason} "no usable GPU" PARENT_SCOPE)
    return()
  endif()

  # the announced kernels only: the others, which fill and poison, would be counted for nothing
  execute_process(COMMAND ${SAMPLE} "--test-case=*profile launches" OUTPUT_VARIABLE announced
                  COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "launch: [A-Za-z0-9_]+" names "${announced}")
  list(REMOVE_DUPLICATES names)
  list(TRANSFORM names REPLACE "launch: " "")
  list(JOIN names "|" names)

  set(metrics l1tex__t_requests_pipe_tex_mem_texture.sum l1tex__t_sectors_pipe_tex_mem_texture.sum
              l1tex__m_xbar2l1tex_read_bytes.sum  # what crosses from L2 to L1
              smsp__inst_executed.sum)  # instructions of warps
  foreach(op IN ITEMS ld st)
    list(APPEND metrics l1tex__t_requests_pipe_lsu_mem_global_op_${op}.sum
                        l1tex__t_sectors_pipe_lsu_mem_global_op_${op}.sum
                        l1tex__data_pipe_lsu_wavefronts_mem_shared_op_${op}.sum)
  endforeach()
  list(JOIN metrics "," metrics)

  set(printed ${SCRATCH}/${topic}-ncu.txt)
  set(counted ${SCRATCH}/${topic}-counters.csv)
  file(MAKE_DIRECTORY ${SCRATCH})
  file(REMOVE ${counted})  # of another program, or another GPU
  execute_process(COMMAND ${NCU} --csv --page raw --clock-control none --print-kernel-base function
                          --kernel-name "regex:^(${names})$" --metrics ${metrics}
                          ${SAMPLE} "--test-case=*profile launches"
                  OUTPUT_FILE ${printed} ERROR_VARIABLE errors RESULT_VARIABLE code)
  file(READ ${printed} output)
  if(output MATCHES "ERR_NVGPUCTRPERM" OR errors MATCHES "ERR_NVGPUCTRPERM")
    set(${reason} "no permission to read the GPU's performance counters (ERR_NVGPUCTRPERM), which \
an administrator can give" PARENT_SCOPE)
    return()
  endif()
  if(NOT code EQUAL 0)
    set(${reason} "failed: ncu: exit code ${code}\n${errors}${output}" PARENT_SCOPE)
    return()
  endif()
  execute_process(COMMAND ${PYTHON} ${count_launches_to_csv} INPUT_FILE ${printed} OUTPUT_FILE ${counted}
                  ERROR_VARIABLE errors RESULT_VARIABLE code)
  if(NOT code EQUAL 0)
    file(REMOVE ${counted})
    set(${reason} "failed: ${errors}" PARENT_SCOPE)
    return()
  endif()
  set(${file} ${counted} PARENT_SCOPE)
endfunction()
