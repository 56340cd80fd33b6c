# Declares a topic: its executable, its self-checks in ctest, and the contract tests. Included after project() by every
# numbered folder, which also configures by itself.
#
#   add_sample(01_memory_model EXPERIMENTS device symbols ...)

include_guard(DIRECTORY)
enable_testing()

# ---- what every sample needs, found or fetched once ----
macro(find_sample_packages)
  find_package(CUDAToolkit 12.0 REQUIRED)
  find_package(doctest 2.4.9 QUIET)
  find_package(cxxopts 3.1.1 QUIET)
  set(missing)
  if(NOT TARGET doctest::doctest)
    string(APPEND missing " doctest-dev")
  endif()
  if(NOT TARGET cxxopts::cxxopts)
    string(APPEND missing " libcxxopts-dev")
  endif()
  if(missing)
    message(STATUS "Fetching what is not installed; `apt-get install${missing}` would save that (Debian 12, Ubuntu 24.04)")
    include(FetchContent)
    # SOURCE_SUBDIR names a folder that does not exist: the headers are all that is wanted, not the projects' own builds
    FetchContent_Declare(doctest GIT_REPOSITORY https://github.com/doctest/doctest.git
                         GIT_TAG 6804767ee637789db8a5cb281381cae98dc36906 SOURCE_SUBDIR headers-only)  # v2.5.2
    FetchContent_Declare(cxxopts GIT_REPOSITORY https://github.com/jarro2783/cxxopts.git
                         GIT_TAG 44380e5a44706ab7347f400698c703eb2a196202 SOURCE_SUBDIR headers-only)  # v3.3.1
  endif()
  if(NOT TARGET doctest::doctest)
    FetchContent_MakeAvailable(doctest)
    add_library(doctest::doctest INTERFACE IMPORTED GLOBAL)
    target_include_directories(doctest::doctest SYSTEM INTERFACE ${doctest_SOURCE_DIR})
    include(${doctest_SOURCE_DIR}/scripts/cmake/doctest.cmake)
  endif()
  if(NOT TARGET cxxopts::cxxopts)
    FetchContent_MakeAvailable(cxxopts)
    add_library(cxxopts::cxxopts INTERFACE IMPORTED GLOBAL)
    target_include_directories(cxxopts::cxxopts SYSTEM INTERFACE ${cxxopts_SOURCE_DIR}/include)
  endif()
  if(NOT COMMAND doctest_discover_tests)
    include(doctest)  # an installed doctest puts it beside its package file
  endif()
  find_package(Python3 COMPONENTS Interpreter QUIET)
endmacro()
find_sample_packages()

set(SAMPLES_TOOLS ${CMAKE_CURRENT_LIST_DIR})

# Lets ctest list a program's doctest cases, each as "<prefix>: <case>", skipped ones shown as skipped.
function(add_self_checks target prefix)
  # the single quotes keep the space behind the colon: cmake -D drops it otherwise
  doctest_discover_tests(${target} TEST_PREFIX "'${prefix}: '" PROPERTIES LABELS ${prefix} SKIP_RETURN_CODE 77 TIMEOUT 300)
endfunction()

# compute-sanitizer's four tools over a program's self-checks, and Nsight Compute over its counted launches: they take
# minutes, and have workflow presets of their own.
function(add_gpu_tools target)
  find_program(COMPUTE_SANITIZER compute-sanitizer HINTS ${CUDAToolkit_BIN_DIR})
  find_program(NCU ncu HINTS ${CUDAToolkit_BIN_DIR})
  foreach(tool IN ITEMS memcheck racecheck initcheck synccheck)
    add_test(NAME "sanitize: ${target}: ${tool}"
             COMMAND ${CMAKE_COMMAND} -DSAMPLE=$<TARGET_FILE:${target}> -DTOOL=${tool} -DCOMPUTE_SANITIZER=$<$<BOOL:${COMPUTE_SANITIZER}>:${COMPUTE_SANITIZER}>
                     -P ${SAMPLES_TOOLS}/sanitize.cmake)
    set_tests_properties("sanitize: ${target}: ${tool}" PROPERTIES LABELS sanitize TIMEOUT 600 SKIP_REGULAR_EXPRESSION "^skipped: ")
  endforeach()
  add_test(NAME "profile: ${target}"
           COMMAND ${CMAKE_COMMAND} -DSAMPLE=$<TARGET_FILE:${target}> -DNCU=$<$<BOOL:${NCU}>:${NCU}> "-DPYTHON=${Python3_EXECUTABLE}"
                   -DSCRATCH=${CMAKE_CURRENT_BINARY_DIR}/profile -P ${SAMPLES_TOOLS}/profile.cmake)
  set_tests_properties("profile: ${target}" PROPERTIES LABELS profile TIMEOUT 600 RUN_SERIAL TRUE SKIP_REGULAR_EXPRESSION "^skipped: ")
endfunction()

# An executable of this collection: language, warnings, packages.
function(add_sample_executable target)
  add_executable(${target} ${ARGN})
  # as a plain option: CMake 3.25.1 (Debian 12) does not know that nvcc has C++20
  # nvcc 12.8 and 12.9 warn of every architecture that 13 drops
  target_compile_options(${target} PRIVATE -std=c++20 -Xcompiler=-Wall,-Wextra -Wno-deprecated-gpu-targets)
  target_link_libraries(${target} PRIVATE CUDA::cudart_static doctest::doctest cxxopts::cxxopts)
endfunction()

# add_sample(<topic> [MEASURES_ON_HOST] EXPERIMENTS <name>...): the executable <topic> of main.cu and one <name>.cu for each
# experiment. MEASURES_ON_HOST: some of them measure the host, so there are measured numbers without a GPU.
function(add_sample topic)
  cmake_parse_arguments(PARSE_ARGV 1 arg "MEASURES_ON_HOST" "" "EXPERIMENTS")
  list(TRANSFORM arg_EXPERIMENTS APPEND .cu OUTPUT_VARIABLE sources)
  add_sample_executable(${topic} main.cu ${sources})
  # where self-checks find counts that were profiled once; a build by one line of nvcc does without
  target_compile_definitions(${topic} PRIVATE SAMPLE_RESULTS_DIR="${CMAKE_CURRENT_SOURCE_DIR}/results")
  add_self_checks(${topic} ${topic})
  add_gpu_tools(${topic})
  set_property(GLOBAL APPEND PROPERTY SAMPLES ${topic})

  # the command-line contract, one entry a rule, against the real executable
  file(STRINGS ${SAMPLES_TOOLS}/contract.cmake rules REGEX "^rule\\(")
  foreach(rule IN LISTS rules)
    string(REGEX REPLACE "^rule\\(([a-z_0-9]+).*" "\\1" rule ${rule})
    add_test(NAME "${topic}: contract: ${rule}"
             COMMAND ${CMAKE_COMMAND} -DSAMPLE=$<TARGET_FILE:${topic}> "-DEXPERIMENTS=${arg_EXPERIMENTS}" -DRULE=${rule}
                     -DMEASURES_ON_HOST=${arg_MEASURES_ON_HOST} -DCXX=${CMAKE_CXX_COMPILER}
                     -DHOLD_MEMORY=$<$<TARGET_EXISTS:hold_memory>:$<TARGET_FILE:hold_memory>> -DSCRATCH=${CMAKE_CURRENT_BINARY_DIR}/contract -P ${SAMPLES_TOOLS}/contract.cmake)
    set_tests_properties("${topic}: contract: ${rule}" PROPERTIES LABELS "${topic};contract" SKIP_REGULAR_EXPRESSION
                         "^skipped: |\nskipped: " TIMEOUT 120)
  endforeach()
  set_tests_properties("${topic}: contract: memory_nearly_full" PROPERTIES RUN_SERIAL TRUE)

  # the page's tables and numbers are those of the result files
  if(Python3_FOUND)
    add_test(NAME "${topic}: page agrees with results"
             COMMAND Python3::Interpreter ${SAMPLES_TOOLS}/pages.py --check ${CMAKE_CURRENT_SOURCE_DIR}/README.md)
    add_test(NAME "${topic}: page's commands"
             COMMAND Python3::Interpreter ${SAMPLES_TOOLS}/pages.py --commands $<TARGET_FILE:${topic}> ${CMAKE_CURRENT_SOURCE_DIR}/README.md)
    add_test(NAME "${topic}: page's experiments"
             COMMAND Python3::Interpreter ${SAMPLES_TOOLS}/pages.py --experiments $<TARGET_FILE:${topic}> ${CMAKE_CURRENT_SOURCE_DIR}/README.md)
    set_tests_properties("${topic}: page agrees with results" "${topic}: page's commands" "${topic}: page's experiments" PROPERTIES LABELS ${topic} TIMEOUT 300)
  endif()
endfunction()

# add_refused(<topic> <argument>...): a wrong command line of this topic's own options: exit code 2, one line, nothing else.
function(add_refused topic)
  list(JOIN ARGN " " line)
  add_test(NAME "${topic}: refused: ${line}"
           COMMAND ${CMAKE_COMMAND} -DSAMPLE=$<TARGET_FILE:${topic}> -DEXPERIMENTS=none -DRULE=refused "-DREFUSED=${ARGN}"
                   -DSCRATCH=${CMAKE_CURRENT_BINARY_DIR}/contract -P ${SAMPLES_TOOLS}/contract.cmake)
  set_tests_properties("${topic}: refused: ${line}" PROPERTIES LABELS "${topic};contract" TIMEOUT 60 RUN_SERIAL TRUE)
endfunction()

# add_compiled_code_check(<topic> <experiment> "<kernel> | PTX or SASS | <regex> | <count>"...): the compiled kernel holds the pattern
# so often ("4+": at least). PTX comes from nvcc; SASS is checked where cuobjdump is there.
function(add_compiled_code_check topic experiment)
  list(GET CMAKE_CUDA_ARCHITECTURES 0 architecture)
  string(REGEX MATCH "[0-9]+" architecture "${architecture}")
  set(name "${topic}: ${experiment}: compiled code")
  find_program(CUOBJDUMP cuobjdump HINTS ${CUDAToolkit_BIN_DIR})
  add_test(NAME ${name}
           COMMAND ${CMAKE_COMMAND} -DNVCC=${CMAKE_CUDA_COMPILER} -DHOST_COMPILER=${CMAKE_CUDA_HOST_COMPILER}
                   -DCUOBJDUMP=$<$<BOOL:${CUOBJDUMP}>:${CUOBJDUMP}> -DARCHITECTURE=${architecture}
                   -DINCLUDE=$<TARGET_PROPERTY:doctest::doctest,INTERFACE_INCLUDE_DIRECTORIES>
                   -DSOURCE=${CMAKE_CURRENT_SOURCE_DIR}/${experiment}.cu "-DCHECKS=${ARGN}"
                   -DSCRATCH=${CMAKE_CURRENT_BINARY_DIR}/compiled_code -P ${SAMPLES_TOOLS}/compiled_code.cmake)
  set_tests_properties(${name} PROPERTIES LABELS ${topic} TIMEOUT 300)
endfunction()
