# Installs a sample into a folder, moves that folder, and runs the sample from there: it lists its experiments, passes
# self-checks, reads the results that are installed with it, and needs nothing of the build folder.
#   cmake -DBUILD=<folder> -DCONFIG=<its configuration> -DTOPIC=<topic> "-DEXPERIMENTS=<experiment;...>"
#         -DBIN=<bin> -DSHARE=<share/...> -DSCRATCH=<folder> -P installed.cmake
cmake_minimum_required(VERSION 3.25)

file(REMOVE_RECURSE ${SCRATCH})
execute_process(COMMAND ${CMAKE_COMMAND} --install ${BUILD} --config "${CONFIG}" --prefix ${SCRATCH}/first --component ${TOPIC}
                OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
file(RENAME ${SCRATCH}/first "${SCRATCH}/moved to")
set(prefix "${SCRATCH}/moved to")
set(program "${prefix}/${BIN}/cuda_memory_${TOPIC}")

foreach(file IN ITEMS "${program}" "${prefix}/${SHARE}/INSTALLED.txt")
  if(NOT EXISTS "${file}")
    message(FATAL_ERROR "not installed: ${file}")
  endif()
endforeach()

# run(<exit code> <argument>...): sets OUT
function(run expected)
  execute_process(COMMAND ${CMAKE_COMMAND} -E env --unset=SAMPLES_REQUIRE_GPU CUDA_VISIBLE_DEVICES=-1 ${program} ${ARGN}
                  WORKING_DIRECTORY ${SCRATCH} RESULT_VARIABLE code OUTPUT_VARIABLE out ERROR_VARIABLE err)
  if(NOT code STREQUAL expected)
    message(FATAL_ERROR "${program} ${ARGN}\nexpected exit code ${expected}, found ${code}\n${out}${err}")
  endif()
  set(OUT "${out}" PARENT_SCOPE)
endfunction()

run(0 --list)
list(JOIN EXPERIMENTS "\n" listed)
if(NOT OUT STREQUAL "${listed}\n")
  message(FATAL_ERROR "--list: expected\n${listed}\nfound\n${OUT}")
endif()

# a replay reads the installed results: with them it passes, without them it is skipped
run(0 --list-test-cases)
string(REGEX MATCH "\n([a-z0-9_]+: replay of what an NVIDIA H200 gave)\n" found "${OUT}")
if(found)
  set(replay "${CMAKE_MATCH_1}")
  run(0 "--self-check" "--test-case=${replay}")
  file(REMOVE "${prefix}/${SHARE}/${TOPIC}/results/nvidia-h200.csv")
  run(77 "--self-check" "--test-case=${replay}")
else()
  message("no experiment of ${TOPIC} has a replay")
  list(GET EXPERIMENTS 0 first)
  run(0 "--self-check" "--test-case=${first}: *")
endif()

file(GET_RUNTIME_DEPENDENCIES EXECUTABLES "${program}" RESOLVED_DEPENDENCIES_VAR libraries
     UNRESOLVED_DEPENDENCIES_VAR missing)
foreach(library IN LISTS libraries)
  string(FIND "${library}" "${BUILD}/" begin)
  if(begin EQUAL 0)
    message(FATAL_ERROR "${program} needs ${library}, which is in the build folder")
  endif()
endforeach()
if(missing)
  message(FATAL_ERROR "libraries that are not found: ${missing}")
endif()
