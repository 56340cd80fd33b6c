# What a topic's CMakeLists.txt includes, whether it is configured by itself or with the others:
#
#   add_topic(<name> [SERIAL] [LIBRARIES ...] [DEFINITIONS ...])
#     the topic's program, of all .cu files in its folder; its doctest cases, its command line and
#     compute-sanitizer over its cases in ctest. SERIAL: its cases count, and run alone. Tests hold
#     the resource `gpu`: a GPU in exclusive mode takes one process, and some of the cases time.
#     And for each file with a SAMPLE a program of that file alone, under its name: not built by
#     default, of the same object file. (If two topics have a name, the second's target is
#     <topic>.<name>.)
#   sample_needs(<sample> <file> ...)
#     after add_topic: other files of the folder that the sample cannot do without
#   add_exercises(<topic>)
#     each your_turn/<exercise>.cu (.cpp if it has no device code) a program your_<exercise>, and its
#     solution solution_<exercise>
#
# An option for one file (before add_topic; the line of nvcc does without):
#   set_source_files_properties(caching_flag.cu PROPERTIES COMPILE_OPTIONS -Xptxas=-dlcm=cg)
include_guard(DIRECTORY)
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
enable_testing()
find_package(CUDAToolkit 12.0 REQUIRED)
get_property(told GLOBAL PROPERTY PARTS_TOLD)
if(NOT told)  # a toolkit in parts
  set_property(GLOBAL PROPERTY PARTS_TOLD TRUE)
  find_path(cub cub/device/device_reduce.cuh HINTS ${CUDAToolkit_INCLUDE_DIRS} PATH_SUFFIXES cccl NO_CACHE)
  if(NOT cub)
    message(FATAL_ERROR "CUB and libcu++ are not here, which are parts of the toolkit: install its package cccl (conda: cuda-cccl)")
  endif()
  find_path(nvtx nvtx3/nvToolsExt.h HINTS ${CUDAToolkit_INCLUDE_DIRS} NO_CACHE)
  if(NOT nvtx)
    message(STATUS "NVTX is not here: tools/profile.py and Nsight find no names of pieces of work")
  endif()
  if(NOT TARGET CUDA::cublas)
    message(STATUS "cuBLAS is not here: matmul and small_matrices are without its rows")
  endif()
  if(NOT TARGET CUDA::cupti)
    message(STATUS "CUPTI is not here: page_faults and fault_times count no migrations")
  endif()
endif()
find_program(COMPUTE_SANITIZER compute-sanitizer HINTS ${CUDAToolkit_BIN_DIR})
cmake_path(GET CMAKE_CURRENT_LIST_DIR PARENT_PATH samples_root)

# Found where installed, else fetched: doctest 2.5.2, cxxopts 3.3.1. Before 2.4.9 doctest_discover_tests loses the tests'
# properties, and before 3.1 cxxopts has other names of exceptions.
include(FetchContent)
set(DOCTEST_WITH_TESTS OFF)
set(CXXOPTS_BUILD_EXAMPLES OFF)
set(CXXOPTS_BUILD_TESTS OFF)
FetchContent_Declare(doctest GIT_REPOSITORY https://github.com/doctest/doctest.git
                     GIT_TAG 6804767ee637789db8a5cb281381cae98dc36906 FIND_PACKAGE_ARGS 2.4.9)
FetchContent_Declare(cxxopts GIT_REPOSITORY https://github.com/jarro2783/cxxopts.git
                     GIT_TAG 44380e5a44706ab7347f400698c703eb2a196202 FIND_PACKAGE_ARGS 3.1)
find_package(doctest 2.4.9 QUIET)
find_package(cxxopts 3.1 QUIET)
if(NOT doctest_FOUND OR NOT cxxopts_FOUND)
  message(STATUS "fetching doctest or cxxopts. Offline, install doctest-dev (2.4.9 or later) and libcxxopts-dev (3.1 or later), or "
                 "set FETCHCONTENT_SOURCE_DIR_DOCTEST and FETCHCONTENT_SOURCE_DIR_CXXOPTS to folders of their sources")
endif()
FetchContent_MakeAvailable(doctest cxxopts)
if(doctest_SOURCE_DIR)
  list(APPEND CMAKE_MODULE_PATH ${doctest_SOURCE_DIR}/scripts/cmake)
endif()
include(doctest)  # in each folder: doctest_discover_tests takes a variable of the folder that calls it

# How all of it is compiled. -std=c++20 as it is, because CMake 3.25 knows no C++20 of nvcc (no cuda_std_20). -lineinfo lets
# Nsight Compute show a kernel's source; it changes no instruction.
function(compiled_as_ours target)
  target_compile_options(${target} PRIVATE -std=c++20
    "$<$<COMPILE_LANGUAGE:CUDA>:--extended-lambda;-Wno-deprecated-gpu-targets;-Xcompiler=-Wall,-Wextra>"
    "$<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<CONFIG:Release>>:-lineinfo>"
    "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra>")
  target_link_libraries(${target} PRIVATE samples_common ${ARGN})
endfunction()

# A program of CUDA sources, or of C++.
function(add_program name)
  add_executable(${name} ${ARGN})
  compiled_as_ours(${name})
endfunction()

if(NOT TARGET samples_common)
  file(GLOB sources CONFIGURE_DEPENDS ${samples_root}/common/*.cpp)
  add_library(samples_common STATIC ${sources})
  target_compile_options(samples_common PRIVATE -std=c++20 -Wall -Wextra)
  target_link_libraries(samples_common PUBLIC CUDA::cudart_static doctest::doctest cxxopts::cxxopts ${CMAKE_DL_LIBS})
  add_custom_target(your_turn)  # builds all exercises: one that does not compile must not stop the samples
  add_program(test_common ${samples_root}/common/test_common.cu)
  doctest_discover_tests(test_common TEST_PREFIX "'common: '" PROPERTIES SKIP_RETURN_CODE 77 RESOURCE_LOCK gpu)
  add_test(NAME "common: a program without a sample says so" COMMAND test_common)
  set_tests_properties("common: a program without a sample says so" PROPERTIES PASS_REGULAR_EXPRESSION "no file of it has a SAMPLE")
  add_test(NAME "common: a full disk is an error" COMMAND sh -c
           "said=$(\"$1\" '--test-case=cuda_version*' 2>&1 >/dev/full); [ $? = 1 ] && echo \"$said\" | grep 'cannot write standard output'"
           sh $<TARGET_FILE:test_common>)
endif()

function(add_topic name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "SERIAL" "" "LIBRARIES;DEFINITIONS")
  file(GLOB files CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cu)
  set(objects)
  foreach(file IN LISTS files)  # compiled once, for both programs
    cmake_path(GET file STEM sample)
    set(object ${name}.${sample}.o)
    add_library(${object} OBJECT ${file})
    compiled_as_ours(${object} ${arg_LIBRARIES})
    target_compile_definitions(${object} PRIVATE ${arg_DEFINITIONS})
    list(APPEND objects $<TARGET_OBJECTS:${object}>)
    file(STRINGS ${file} registered REGEX "^[ \t]*SAMPLE\\(")
    if(registered)
      set(target ${sample})
      if(TARGET ${sample})
        set(target ${name}.${sample})
      endif()
      add_program(${target} $<TARGET_OBJECTS:${object}>)
      set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL TRUE LINKER_LANGUAGE CUDA OUTPUT_NAME ${sample})
      target_link_libraries(${target} PRIVATE ${arg_LIBRARIES})
    endif()
  endforeach()
  add_program(${name} ${objects})
  set_target_properties(${name} PROPERTIES LINKER_LANGUAGE CUDA)
  target_link_libraries(${name} PRIVATE ${arg_LIBRARIES})
  # the single quotes keep the space behind the colon
  doctest_discover_tests(${name} TEST_PREFIX "'${name}: '"
                         PROPERTIES LABELS ${name} SKIP_RETURN_CODE 77 RUN_SERIAL ${arg_SERIAL} RESOURCE_LOCK gpu)
  add_test(NAME "${name}: command line" COMMAND ${samples_root}/tools/contract.sh $<TARGET_FILE:${name}>)
  set_tests_properties("${name}: command line" PROPERTIES LABELS ${name} RESOURCE_LOCK gpu)
  if(COMPUTE_SANITIZER)
    foreach(tool IN ITEMS memcheck racecheck initcheck synccheck)
      set(leaks)
      if(tool STREQUAL "memcheck" AND NOT name STREQUAL "05_unified_memory")  # whose __managed__ variable would be called a leak
        set(leaks --leak-check full)
      endif()
      add_test(NAME "${name}: ${tool}"
               COMMAND ${COMPUTE_SANITIZER} --tool ${tool} ${leaks} --error-exitcode 1 $<TARGET_FILE:${name}> --self-check)
      set_tests_properties("${name}: ${tool}" PROPERTIES LABELS sanitize SKIP_RETURN_CODE 77 RUN_SERIAL ${arg_SERIAL} RESOURCE_LOCK gpu)
    endforeach()
  endif()
  set_property(GLOBAL APPEND PROPERTY SAMPLES ${name})
endfunction()

function(sample_needs sample)
  cmake_path(GET CMAKE_CURRENT_SOURCE_DIR FILENAME topic)
  foreach(file IN LISTS ARGN)
    cmake_path(GET file STEM other)
    target_sources(${sample} PRIVATE $<TARGET_OBJECTS:${topic}.${other}.o>)
  endforeach()
endfunction()

# As handed out an exercise fails, and its solution passes: the tests with the label your_turn, for which the target
# your_turn must be built.
function(add_exercises topic)
  set(folder ${CMAKE_CURRENT_SOURCE_DIR}/your_turn)
  file(GLOB exercises CONFIGURE_DEPENDS ${folder}/*.cu ${folder}/*.cpp)
  foreach(file IN LISTS exercises)
    cmake_path(GET file STEM exercise)
    cmake_path(GET file FILENAME file_name)
    add_program(your_${exercise} ${file})
    add_program(solution_${exercise} ${folder}/solutions/${file_name})
    foreach(answer IN ITEMS your solution)
      set_target_properties(${answer}_${exercise} PROPERTIES EXCLUDE_FROM_ALL TRUE)
      target_compile_options(${answer}_${exercise} PRIVATE  # a gap uses no parameter
        "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wno-unused-parameter>" "$<$<COMPILE_LANGUAGE:CXX>:-Wno-unused-parameter>")
      add_dependencies(your_turn ${answer}_${exercise})
      add_test(NAME "${topic}: ${exercise}: ${answer}" COMMAND ${answer}_${exercise})
      set_tests_properties("${topic}: ${exercise}: ${answer}" PROPERTIES LABELS your_turn SKIP_RETURN_CODE 77 RESOURCE_LOCK gpu)
    endforeach()
    set_tests_properties("${topic}: ${exercise}: your" PROPERTIES WILL_FAIL TRUE)
  endforeach()
endfunction()
