# The collection as a part of another project: all of it by FetchContent, with its tests; one experiment of it, and one
# exercise, by add_subdirectory; and one topic.
#   cmake -DROOT=<the repository> -DSCRATCH=<folder> -DGENERATOR=<name> -DNVCC=<program> -DARCHITECTURES=<list>
#         -P as_part.cmake
cmake_minimum_required(VERSION 3.25)
file(REMOVE_RECURSE ${SCRATCH})

function(run)
  execute_process(COMMAND ${ARGV} OUTPUT_VARIABLE out ERROR_VARIABLE out RESULT_VARIABLE code)
  if(NOT code EQUAL 0)
    list(JOIN ARGV " " line)
    message(FATAL_ERROR "${line}\nexit code ${code}\n${out}")
  endif()
  set(OUT "${out}" PARENT_SCOPE)
endfunction()

# configure(<name> <lines of its CMakeLists.txt> <option>...): a project with a folder common of its own, which has no CUDA.
function(configure name lines)
  file(WRITE ${SCRATCH}/${name}/CMakeLists.txt "cmake_minimum_required(VERSION 3.25)
project(outer LANGUAGES CXX)
enable_testing()
add_subdirectory(common)
${lines}
")
  file(WRITE ${SCRATCH}/${name}/common/CMakeLists.txt "add_custom_target(common)\n")
  run(${CMAKE_COMMAND} -S ${SCRATCH}/${name} -B ${SCRATCH}/${name}/build -G ${GENERATOR}
      -DCMAKE_CUDA_COMPILER=${NVCC} "-DCMAKE_CUDA_ARCHITECTURES=${ARCHITECTURES}" ${ARGN})
endfunction()

function(expect_program path experiment)
  run(${path} --list)
  if(NOT OUT STREQUAL "${experiment}\n")
    message(FATAL_ERROR "${path} --list: expected ${experiment}, found ${OUT}")
  endif()
endfunction()

configure(fetched "include(FetchContent)
FetchContent_Declare(samples SOURCE_DIR \"${ROOT}\")
FetchContent_MakeAvailable(samples)" -DBUILD_TESTING=ON)
run(${CMAKE_CTEST_COMMAND} --test-dir ${SCRATCH}/fetched/build -R "agrees? with results" --output-on-failure)
string(REGEX MATCHALL "Passed" passed "${OUT}")
list(LENGTH passed passed)
if(passed LESS 9)  # the front page, the page of all GPUs, and seven topics
  message(FATAL_ERROR "expected the pages' tests to be there and to pass:\n${OUT}")
endif()

run(${CMAKE_COMMAND} --install ${SCRATCH}/fetched/build --prefix ${SCRATCH}/fetched/installed)
if(OUT MATCHES "cuda_memory_" OR EXISTS ${SCRATCH}/fetched/installed)
  message(FATAL_ERROR "expected that the outer project installs no sample:\n${OUT}")
endif()

set(collection "add_subdirectory(\"${ROOT}\" samples)")
configure(exercise "${collection}" -DEXERCISE=tree)
configure(experiment "${collection}" -DEXPERIMENTS=bank_tile)
run(${CMAKE_CTEST_COMMAND} --test-dir ${SCRATCH}/experiment/build -N)
if(NOT OUT MATCHES "Total Tests: 0")
  message(FATAL_ERROR "expected no tests where the other project did not ask for them:\n${OUT}")
endif()
run(${CMAKE_COMMAND} --build ${SCRATCH}/experiment/build --target 06_shared_reduce)
expect_program(${SCRATCH}/experiment/build/samples/06_shared_reduce/06_shared_reduce bank_tile)

configure(topic "add_subdirectory(\"${ROOT}/06_shared_reduce\" reduce)" -DEXPERIMENTS=bank_tile)
