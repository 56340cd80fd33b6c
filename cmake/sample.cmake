# Declares a topic: its executable, its self-checks in ctest, and the contract tests. Included after project() by every
# numbered folder, which also configures by itself.
#
#   add_sample(01_memory_model EXPERIMENTS device symbols ...)

include_guard(DIRECTORY)

# as a part of another project only if that has tests
option(BUILD_TESTING "Register self-checks, contract tests and the like with ctest" ${PROJECT_IS_TOP_LEVEL})
set(EXPERIMENTS "" CACHE STRING "The only experiments to build, as in transpose;sum; empty: all of them")
set(EXERCISE "" CACHE STRING "The only exercise of your_turn/ to build, and no sample; empty: all of them")
# The host's rows are measured, and self-checks compute on the host: never without optimization by accident.
if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug, Release, RelWithDebInfo or MinSizeRel" FORCE)
endif()
if(BUILD_TESTING)
  enable_testing()
endif()
if(EXERCISE)
  set(BUILD_TESTING OFF)  # of the samples
endif()

set(SAMPLES_CMAKE ${CMAKE_CURRENT_LIST_DIR})
get_filename_component(SAMPLES_ROOT ${CMAKE_CURRENT_LIST_DIR} DIRECTORY)
set(SAMPLES_TOOLS ${SAMPLES_ROOT}/tools)
if("${SAMPLES_ROOT}${CMAKE_BINARY_DIR}" MATCHES "[$`\"\\]")
  message(FATAL_ERROR "nvcc hands its files' names to a shell and loses a $, `, \" or \\ in them: \
move '${SAMPLES_ROOT}' and the build folder '${CMAKE_BINARY_DIR}' to paths without them")
endif()

# glob_in(<variable> <folder> <pattern>...): the files below the folder that match, by their names in it. The folder's
# own path is no pattern: it may have a [ or a *.
function(glob_in variable folder)
  string(REGEX REPLACE "([][*?])" "[\\1]" escaped ${folder})
  list(TRANSFORM ARGN PREPEND ${escaped}/ OUTPUT_VARIABLE patterns)
  file(GLOB files RELATIVE ${folder} CONFIGURE_DEPENDS ${patterns})
  set(${variable} ${files} PARENT_SCOPE)
endfunction()

# ---- what every sample needs, found or fetched once ----
macro(find_sample_packages)
  find_package(CUDAToolkit 12.0 REQUIRED)
  if(BUILD_TESTING)
    find_package(doctest 2.4.9 QUIET)
  endif()
  find_package(cxxopts 3.1.1 QUIET)
  set(missing)
  if(BUILD_TESTING AND NOT TARGET doctest::doctest)
    string(APPEND missing " doctest-dev")
  endif()
  if(NOT TARGET cxxopts::cxxopts)
    string(APPEND missing " libcxxopts-dev")
  endif()
  if(missing)
    message(STATUS "Fetching what is not installed; `apt-get install${missing}` would save that "
                   "(Debian 12, Ubuntu 24.04)")
    include(FetchContent)
    # SOURCE_SUBDIR names a folder that does not exist: the headers are all that is wanted, not the projects' own builds
    FetchContent_Declare(doctest GIT_REPOSITORY https://github.com/doctest/doctest.git
                         GIT_TAG 6804767ee637789db8a5cb281381cae98dc36906 SOURCE_SUBDIR headers-only)  # v2.5.2
    FetchContent_Declare(cxxopts GIT_REPOSITORY https://github.com/jarro2783/cxxopts.git
                         GIT_TAG 44380e5a44706ab7347f400698c703eb2a196202 SOURCE_SUBDIR headers-only)  # v3.3.1
  endif()
  if(BUILD_TESTING AND NOT TARGET doctest::doctest)
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
  if(BUILD_TESTING AND NOT COMMAND doctest_discover_tests)
    include(doctest)  # an installed doctest puts it beside its package file
  endif()
  find_package(Python3 COMPONENTS Interpreter QUIET)
  find_program(COMPUTE_SANITIZER compute-sanitizer HINTS ${CUDAToolkit_BIN_DIR})
  find_program(NCU ncu HINTS ${CUDAToolkit_BIN_DIR})
  find_program(CUOBJDUMP cuobjdump HINTS ${CUDAToolkit_BIN_DIR})
endmacro()
find_sample_packages()

# Lets ctest list a program's doctest cases, each as "<prefix>: <case>", skipped ones shown as skipped.
function(add_self_checks target prefix)
  # the single quotes keep the space behind the colon: cmake -D drops it otherwise
  doctest_discover_tests(${target} TEST_PREFIX "'${prefix}: '" PROPERTIES LABELS ${prefix} SKIP_RETURN_CODE 77
                                                                          TIMEOUT 300)
endfunction()

# run_alone(<topic> <case>...): cases that look at the whole GPU, as its free memory, and would see what others do. Their
# names are known only to ctest, once the program has listed its cases, and so their properties are set there.
function(run_alone topic)
  if(NOT BUILD_TESTING)
    return()
  endif()
  set(properties)
  foreach(case IN LISTS ARGN)
    string(APPEND properties "set_tests_properties([==[${topic}: ${case}]==] PROPERTIES RUN_SERIAL TRUE)\n")
  endforeach()
  file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/run_alone.cmake "${properties}")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${CMAKE_CURRENT_BINARY_DIR}/run_alone.cmake)
endfunction()

# The same for the cases of the suite "plausible", which doctest leaves out unless asked: they have a preset of their
# own. Not by doctest_discover_tests, which fails where there is none.
function(add_plausible_checks topic)
  set(tests ${CMAKE_CURRENT_BINARY_DIR}/${topic}_plausible.cmake)
  if(NOT EXISTS ${tests})
    file(WRITE ${tests} "")  # until the program is built
  endif()
  add_custom_command(TARGET ${topic} POST_BUILD VERBATIM
                     COMMAND ${CMAKE_COMMAND} -DSAMPLE=$<TARGET_FILE:${topic}> -DTESTS=${tests}
                             -P ${SAMPLES_CMAKE}/plausible.cmake)
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${tests})
endfunction()

# compute-sanitizer's four tools over a program's self-checks: they take minutes, and have a preset of their own.
function(add_sanitizers target)
  foreach(tool IN ITEMS memcheck racecheck initcheck synccheck)
    set(name "sanitize: ${target}: ${tool}")
    add_test(NAME ${name}
             COMMAND ${CMAKE_COMMAND} -DSAMPLE=$<TARGET_FILE:${target}> -DTOOL=${tool}
                     -DCOMPUTE_SANITIZER=$<$<BOOL:${COMPUTE_SANITIZER}>:${COMPUTE_SANITIZER}>
                     -P ${SAMPLES_CMAKE}/sanitize.cmake)
    set_tests_properties(${name} PROPERTIES LABELS sanitize TIMEOUT 600 SKIP_REGULAR_EXPRESSION "^skipped: ")
  endforeach()
endfunction()

# Nsight Compute over a topic's counted launches; likewise.
function(add_profile topic)
  set(name "profile: ${topic}")
  add_test(NAME ${name}
           COMMAND ${CMAKE_COMMAND} -DSAMPLE=$<TARGET_FILE:${topic}> -DNCU=$<$<BOOL:${NCU}>:${NCU}>
                   "-DPYTHON=${Python3_EXECUTABLE}" -P ${SAMPLES_CMAKE}/profile.cmake)
  set_tests_properties(${name} PROPERTIES LABELS profile TIMEOUT 600 RUN_SERIAL TRUE
                                          SKIP_REGULAR_EXPRESSION "^skipped: ")
endfunction()

# A program of CUDA sources, with the warnings and packages of all of them.
function(add_cuda_executable target)
  add_executable(${target} ${ARGN})
  if(EXERCISE)
    set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL TRUE)
  endif()
  # as a plain option: CMake 3.25.1 (Debian 12) does not know that nvcc has C++20
  # nvcc 12.8 and 12.9 warn of every architecture that 13 drops
  target_compile_options(${target} PRIVATE -std=c++20
    "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra;-Wno-deprecated-gpu-targets>"
    "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra>")
  # a file without device code needs one front end instead of three: the host compiler reads it
  foreach(source IN LISTS ARGN)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source})
    set(looked_at ${source})
    get_filename_component(name ${source} NAME)
    if(source MATCHES "checks/" AND EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${name})
      list(APPEND looked_at ${CMAKE_CURRENT_SOURCE_DIR}/${name})  # which it includes
    endif()
    set(device_code)
    foreach(file IN LISTS looked_at)
      file(STRINGS ${file} found REGEX "__(global|device|managed)__|^[^/]*<<<|<(cub|thrust)/|\\.cuh\"" LIMIT_COUNT 1)
      string(APPEND device_code "${found}")
    endforeach()
    if(NOT device_code)
      set(options -xc++)
      list(LENGTH looked_at files)
      if(source MATCHES "main\\.cu$" OR (source MATCHES "checks/" AND files EQUAL 1))
        # nothing in it is measured: optimised less, it compiles faster
        list(APPEND options -O1)
      endif()
      set_source_files_properties(${source} PROPERTIES LANGUAGE CXX COMPILE_OPTIONS "${options}")
    endif()
  endforeach()
  target_link_libraries(${target} PRIVATE samples_common)
endfunction()

# Declares a topic, an executable, by its experiments in the text's order:
#
#   add_sample(<topic> EXPERIMENTS <name>... [MEASURES_ON_HOST])
#
# An experiment is <name>.cu, and <name>_*.cu where it has more files. checks/<file>.cu includes <file>.cu and holds its
# self-checks: where BUILD_TESTING is on it is compiled in its place. checks/ has more files of an experiment, named in
# the same way, where checks have no sample's file to include.
#   MEASURES_ON_HOST  some experiments measure the host, so there are measured numbers without a GPU
# Sets SAMPLE_EXPERIMENTS to those that are built: -DEXPERIMENTS=... names them, and all others are left out.
function(add_sample topic)
  cmake_parse_arguments(PARSE_ARGV 1 arg "MEASURES_ON_HOST" "" "EXPERIMENTS")
  choose_experiments(built ${topic} ${arg_EXPERIMENTS})
  set(SAMPLE_EXPERIMENTS ${built} PARENT_SCOPE)

  set(names main.cu)
  foreach(experiment IN LISTS built)
    experiment_files(files . ${experiment} cu ${arg_EXPERIMENTS})
    list(APPEND names ${files})
    if(BUILD_TESTING)
      experiment_files(files checks ${experiment} cu ${arg_EXPERIMENTS})
      list(APPEND names ${files})
    endif()
  endforeach()
  list(REMOVE_DUPLICATES names)
  set(sources)
  foreach(name IN LISTS names)
    if(BUILD_TESTING AND EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/checks/${name})
      set(name checks/${name})
    endif()
    list(APPEND sources ${name})
  endforeach()
  add_cuda_executable(${topic} ${sources})
  # where self-checks find counts that were profiled once; a build by one line of nvcc does without
  target_compile_definitions(${topic} PRIVATE SAMPLE_RESULTS_DIR="${CMAKE_CURRENT_SOURCE_DIR}/results")
  set_property(GLOBAL APPEND PROPERTY SAMPLES ${topic})
  add_install(${topic} "${built}")

  if(BUILD_TESTING)
    target_link_libraries(${topic} PRIVATE samples_checks)
    add_self_checks(${topic} ${topic})
    add_plausible_checks(${topic})
    add_sanitizers(${topic})
    add_profile(${topic})
    add_contract(${topic} "${built}" "${arg_MEASURES_ON_HOST}")
    if(Python3_FOUND AND NOT EXPERIMENTS)
      add_page_checks(${topic})
    endif()
  endif()
  add_exercises(${topic})
endfunction()

# What `cmake --install` puts elsewhere: the sample, as cuda_memory_<topic>, and the recorded results that it reads. Each
# topic is a component: cmake --install build --component 04_bandwidth. A part of another project installs nothing.
function(add_install topic experiments)
  include(GNUInstallDirs)
  set(share ${CMAKE_INSTALL_DATADIR}/cuda_memory_measured)
  file(RELATIVE_PATH results ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_DATADIR}/cuda_memory_measured/${topic}/results)
  target_compile_definitions(${topic} PRIVATE SAMPLE_INSTALLED_RESULTS="${results}")
  if(EXERCISE OR NOT PROJECT_IS_TOP_LEVEL)
    return()
  endif()

  # install(TARGETS) knows no other name. It would also take away the path to the toolkit's cuBLAS and CUPTI.
  install(PROGRAMS $<TARGET_FILE:${topic}> DESTINATION ${CMAKE_INSTALL_BINDIR} RENAME cuda_memory_${topic} COMPONENT ${topic})
  glob_in(files ${CMAKE_CURRENT_SOURCE_DIR} results/*.csv)
  install(FILES ${files} DESTINATION ${share}/${topic}/results COMPONENT ${topic})
  install(FILES ${SAMPLES_CMAKE}/INSTALLED.txt DESTINATION ${share} COMPONENT ${topic})

  if(BUILD_TESTING)
    add_test(NAME "${topic}: installed"
             COMMAND ${CMAKE_COMMAND} -DBUILD=${PROJECT_BINARY_DIR} -DCONFIG=$<CONFIG> -DTOPIC=${topic}
                     "-DEXPERIMENTS=${experiments}" -DBIN=${CMAKE_INSTALL_BINDIR} -DSHARE=${share}
                     -DSCRATCH=${CMAKE_CURRENT_BINARY_DIR}/installed -P ${SAMPLES_CMAKE}/installed.cmake)
    set_tests_properties("${topic}: installed" PROPERTIES LABELS ${topic} TIMEOUT 120)
  endif()
endfunction()

# The exercises of a topic, each in a program of its own, your_<name>, so that one that does not compile hides no other.
# An exercise is your_turn/<name>.cu, solutions/<name>.cu, and <name>_check.cpp or .cu; tests/<name>.cu has answers that are
# wrong or dear, each behind a comment "// answer <name>_<what>: <what the check says, a regex>". No sample needs them: they
# are built by the target exercises, and with -DEXERCISE=<name>.
function(add_exercises topic)
  set(exercises)
  glob_in(files ${CMAKE_CURRENT_SOURCE_DIR} your_turn/*.cu)
  foreach(file IN LISTS files)
    get_filename_component(exercise ${file} NAME_WE)
    if(NOT exercise MATCHES "_check$")
      list(APPEND exercises ${exercise})
    endif()
  endforeach()
  if(EXERCISE)
    if(NOT EXERCISE IN_LIST exercises)
      if(PROJECT_SOURCE_DIR STREQUAL CMAKE_CURRENT_SOURCE_DIR)
        list(JOIN exercises ", " all)
        message(FATAL_ERROR "EXERCISE: ${topic} has no exercise '${EXERCISE}'; it has ${all}")
      endif()
      return()
    endif()
    set(exercises ${EXERCISE})
  elseif(EXPERIMENTS)
    return()
  endif()
  foreach(exercise IN LISTS exercises)
    add_exercise(${topic} ${exercise})
    if(BUILD_TESTING AND NOT EXERCISE)
      add_exercise_checks(${topic} ${exercise})
    endif()
  endforeach()
endfunction()

# Part of add_exercises: the program of one exercise.
function(add_exercise topic exercise)
  set(folder ${CMAKE_CURRENT_SOURCE_DIR}/your_turn)
  set(program your_${exercise})
  glob_in(checks ${folder} ${exercise}_check.c*)
  list(TRANSFORM checks PREPEND ${folder}/)
  set(sources ${SAMPLES_CMAKE}/your_turn_main.cpp ${folder}/${exercise}.cu ${folder}/solutions/${exercise}.cu ${checks})
  if(NOT EXERCISE)
    list(APPEND sources ${folder}/tests/${exercise}.cu)
  endif()
  add_cuda_executable(${program} ${sources})
  target_include_directories(${program} PRIVATE ${folder})  # for solutions/ and tests/
  # what is still to be written uses no parameter
  target_compile_options(${program} PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wno-unused-parameter>"
                                            "$<$<COMPILE_LANGUAGE:CXX>:-Wno-unused-parameter>")
  # for an exercise that is compiled once more, to be looked at
  set(architecture 75)
  if(CMAKE_CUDA_ARCHITECTURES MATCHES "^[0-9]+")
    set(architecture ${CMAKE_MATCH_0})
  endif()
  target_compile_definitions(${program} PRIVATE YOUR_TURN_NAME="${exercise}"
                                                YOUR_TURN_NVCC="${CMAKE_CUDA_COMPILER}"
                                                YOUR_TURN_HOST_COMPILER="${CMAKE_CUDA_HOST_COMPILER}"
                                                YOUR_TURN_ARCHITECTURE="${architecture}")
  if(EXERCISE)
    set_target_properties(${program} PROPERTIES EXCLUDE_FROM_ALL FALSE)
    return()
  endif()
  set_target_properties(${program} PROPERTIES EXCLUDE_FROM_ALL TRUE)
  add_dependencies(exercises ${program})
  # $<TARGET_FILE:...> would have all of them built first, and one that does not compile would hide the others
  set_property(GLOBAL APPEND PROPERTY EXERCISES ${topic} ${program} ${CMAKE_CURRENT_BINARY_DIR}/${program})
endfunction()

# Part of add_exercises: the reader's answer, and that the exercise is as it should be.
function(add_exercise_checks topic exercise)
  set(folder ${CMAKE_CURRENT_SOURCE_DIR}/your_turn)
  # the reader's own: label your_turn, left out of the preset "test"
  add_test(NAME "your turn: ${exercise}" COMMAND your_${exercise})
  set_tests_properties("your turn: ${exercise}" PROPERTIES LABELS your_turn TIMEOUT 600 SKIP_RETURN_CODE 77)

  set(name "${topic}: exercise: ${exercise}")
  add_test(NAME "${name}: its solution differs in the reader's part only"
           COMMAND ${CMAKE_COMMAND} -DEXERCISE=${folder}/${exercise}.cu -DSOLUTION=${folder}/solutions/${exercise}.cu
                   -P ${SAMPLES_CMAKE}/your_turn.cmake)
  set_tests_properties("${name}: its solution differs in the reader's part only" PROPERTIES LABELS ${topic})
  add_answer_check("${name}: as handed out" ${exercise} "" ${folder}/${exercise}.cu "not yet: .+")
  add_answer_check("${name}: solution" ${exercise} --solution ${folder}/solutions/${exercise}.cu "done")
  file(STRINGS ${folder}/tests/${exercise}.cu answers REGEX "^// answer [a-z0-9_]+: ")
  foreach(answer IN LISTS answers)
    string(REGEX REPLACE "^// answer ([a-z0-9_]+): .*" "\\1" answer "${answer}")
    add_answer_check("${name}: ${answer}" ${answer} --test ${folder}/tests/${exercise}.cu "")
  endforeach()
endfunction()

# Part of add_exercise_checks: what the program says of one answer (cmake/your_turn.cmake).
function(add_answer_check name answer option file said)
  add_test(NAME ${name}
           COMMAND ${CMAKE_COMMAND} -DPROGRAM=$<TARGET_FILE:your_${exercise}> -DOPTION=${option} -DNAME=${answer}
                   -DFILE=${file} "-DANSWER=${said}" -P ${SAMPLES_CMAKE}/your_turn.cmake)
  set_tests_properties(${name} PROPERTIES LABELS ${topic} TIMEOUT 300 SKIP_REGULAR_EXPRESSION "(^|\n)skipped: ")
  if(answer MATCHES "_endless$")  # meanwhile the GPU is of little use to others
    set_tests_properties(${name} PROPERTIES RUN_SERIAL TRUE)
  endif()
endfunction()

# Tests of what watches over exercises: constructors that go wrong before main(), and files that do not compile.
function(add_hostile_exercises)
  add_cuda_executable(your_hostile ${SAMPLES_CMAKE}/your_turn_main.cpp ${SAMPLES_CMAKE}/your_turn_hostile.cpp)
  target_compile_definitions(your_hostile PRIVATE YOUR_TURN_NAME="hostile")
  set_target_properties(your_hostile PROPERTIES EXCLUDE_FROM_ALL TRUE)
  add_dependencies(exercises your_hostile)
  set(early "not yet: a global variable's constructor, before main[(][)]: ")
  foreach(case IN ITEMS "loops|${early}does not end within 5 s"
                        "exits|${early}ends the program [(]exit code 0[)]"
                        "crashes|${early}crashes [(]Segmentation fault[)]"
                        "nothing|not yet: its file hands nothing in; the last line has to be YOUR_TURN[(][.][.][.][)]")
    string(REGEX MATCH "^[a-z]+" how "${case}")
    string(REGEX REPLACE "^[a-z]+[|]" "" said "${case}")
    set(name "exercises: a file whose constructor ${how}")
    add_test(NAME ${name}
             COMMAND ${CMAKE_COMMAND} -E env HOSTILE=${how} ${CMAKE_COMMAND} -DPROGRAM=$<TARGET_FILE:your_hostile> -DOPTION=
                     -DNAME=hostile -DFILE=${SAMPLES_CMAKE}/your_turn_hostile.cpp "-DANSWER=${said}"
                     -P ${SAMPLES_CMAKE}/your_turn.cmake)
    set_tests_properties(${name} PROPERTIES LABELS common TIMEOUT 60 SKIP_REGULAR_EXPRESSION "(^|\n)skipped: ")
  endforeach()
  set(name "exercises: each has its line, whatever the others do")
  add_test(NAME ${name}
           COMMAND ${CMAKE_COMMAND} "-DGENERATOR=${CMAKE_GENERATOR}" -DMAKE=${CMAKE_MAKE_PROGRAM}
                   -DFOLDER=${CMAKE_CURRENT_BINARY_DIR}/your_turn_contract -P ${SAMPLES_CMAKE}/your_turn_contract.cmake)
  set_tests_properties(${name} PROPERTIES LABELS common TIMEOUT 120)
endfunction()

# Sets `variable` to those of a topic's experiments that -DEXPERIMENTS=... asks for.
function(choose_experiments variable topic)
  set(chosen ${ARGN})
  if(EXPERIMENTS)
    set(chosen)
    foreach(experiment IN LISTS ARGN)
      if(experiment IN_LIST EXPERIMENTS)
        list(APPEND chosen ${experiment})
      endif()
    endforeach()
    set(unknown ${EXPERIMENTS})
    list(REMOVE_ITEM unknown ${ARGN})
    # in a build of all topics the others belong to other topics: CMakeLists.txt has looked for them
    set(by_itself FALSE)
    if(PROJECT_SOURCE_DIR STREQUAL CMAKE_CURRENT_SOURCE_DIR)
      set(by_itself TRUE)
    endif()
    if(NOT chosen OR (unknown AND by_itself))
      list(JOIN unknown ", " unknown)
      list(JOIN ARGN ", " all)
      message(FATAL_ERROR "EXPERIMENTS: ${topic} has no experiment '${unknown}'; it has ${all}")
    endif()
  endif()
  set(${variable} ${chosen} PARENT_SCOPE)
endfunction()

# Sets `variable` to the names of an experiment's files in a folder of the topic that end in one of `endings`:
# <experiment>.<ending>, and <experiment>_*.<ending> but those of another experiment of the topic, whose names follow.
function(experiment_files variable folder experiment endings)
  set(patterns)
  foreach(ending IN LISTS endings)
    list(APPEND patterns ${experiment}.${ending} ${experiment}_*.${ending})
  endforeach()
  glob_in(files ${CMAKE_CURRENT_SOURCE_DIR}/${folder} ${patterns})
  foreach(other IN LISTS ARGN)
    if(other MATCHES "^${experiment}_")
      list(FILTER files EXCLUDE REGEX "^${other}(_[^/]*)?[.][a-z]+$")
    endif()
  endforeach()
  set(${variable} ${files} PARENT_SCOPE)
endfunction()

# The command-line contract, an entry for each rule, against the real executable.
function(add_contract topic experiments measures_on_host)
  file(STRINGS ${SAMPLES_CMAKE}/contract.cmake rules REGEX "^rule\\(")
  foreach(rule IN LISTS rules)
    string(REGEX REPLACE "^rule\\(([a-z_0-9]+).*" "\\1" rule ${rule})
    set(name "${topic}: contract: ${rule}")
    add_test(NAME ${name}
             COMMAND ${CMAKE_COMMAND} -DSAMPLE=$<TARGET_FILE:${topic}> "-DEXPERIMENTS=${experiments}" -DRULE=${rule}
                     -DMEASURES_ON_HOST=${measures_on_host} -DCXX=${CMAKE_CXX_COMPILER}
                     -DHOLD_MEMORY=$<$<TARGET_EXISTS:hold_memory>:$<TARGET_FILE:hold_memory>>
                     -DSCRATCH=${CMAKE_CURRENT_BINARY_DIR}/contract/${rule} -P ${SAMPLES_CMAKE}/contract.cmake)
    set_tests_properties(${name} PROPERTIES LABELS "${topic};contract" TIMEOUT 300
                                            SKIP_REGULAR_EXPRESSION "^skipped: |\nskipped: ")
  endforeach()
  set_tests_properties("${topic}: contract: memory_nearly_full" PROPERTIES RUN_SERIAL TRUE)
endfunction()

# A topic's pages: their tables and numbers are those of the result files, their commands run, their experiments are
# these. A topic has a README.md, and those of the others that exist.
function(add_page_checks topic)
  set(paths)
  set(names)
  set(check Python3::Interpreter ${SAMPLES_TOOLS}/pages.py)
  foreach(page IN ITEMS README LAYOUT LETTERS SHAPES BEYOND GLOSSARY)
    set(path ${CMAKE_CURRENT_SOURCE_DIR}/${page}.md)
    if(EXISTS ${path})
      set(name "${topic}: ${page} agrees with results")
      add_test(NAME ${name} COMMAND ${check} --check ${path})
      list(APPEND names ${name})
      list(APPEND paths ${path})
    endif()
  endforeach()
  add_test(NAME "${topic}: pages' commands" COMMAND ${check} --commands $<TARGET_FILE:${topic}> ${paths})
  add_test(NAME "${topic}: pages' experiments" COMMAND ${check} --experiments $<TARGET_FILE:${topic}> ${paths})
  list(APPEND names "${topic}: pages' commands" "${topic}: pages' experiments")
  set_tests_properties(${names} PROPERTIES LABELS ${topic} TIMEOUT 300)
endfunction()

# add_refused(<topic> <argument>... <experiment>): a wrong command line of this topic's own options: exit code 2, one
# line, nothing else.
function(add_refused topic)
  list(GET ARGN -1 experiment)
  if(NOT BUILD_TESTING OR NOT experiment IN_LIST SAMPLE_EXPERIMENTS)
    return()
  endif()
  list(JOIN ARGN " " line)
  string(SHA1 folder "${line}")
  string(SUBSTRING ${folder} 0 8 folder)
  set(name "${topic}: refused: ${line}")
  add_test(NAME ${name}
           COMMAND ${CMAKE_COMMAND} -DSAMPLE=$<TARGET_FILE:${topic}> -DEXPERIMENTS=none "-DREFUSED=${ARGN}"
                   -DSCRATCH=${CMAKE_CURRENT_BINARY_DIR}/contract/refused-${folder} -P ${SAMPLES_CMAKE}/contract.cmake)
  set_tests_properties(${name} PROPERTIES LABELS "${topic};contract" TIMEOUT 60)
endfunction()

# add_says(<topic> <regex> <argument>...): what standard output says of a command line.
function(add_says topic pattern)
  if(NOT BUILD_TESTING)
    return()
  endif()
  list(JOIN ARGN " " line)
  set(name "${topic}: says: ${line}")
  add_test(NAME ${name} COMMAND ${topic} ${ARGN})
  set_tests_properties(${name} PROPERTIES LABELS "${topic};contract" TIMEOUT 60 PASS_REGULAR_EXPRESSION "${pattern}")
endfunction()

# add_script_test(<topic> <name> <script> <argument>...): a shell script that is run in a folder of its own, with the
# sample as "$1" and the arguments behind it.
function(add_script_test topic name script)
  if(NOT BUILD_TESTING)
    return()
  endif()
  get_filename_component(folder ${script} NAME_WE)
  add_test(NAME "${topic}: ${name}"
           COMMAND sh ${script} $<TARGET_FILE:${topic}> ${ARGN}
           WORKING_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/${folder})
  file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/${folder})
  set_tests_properties("${topic}: ${name}" PROPERTIES LABELS ${topic} TIMEOUT 120)
endfunction()

# Sets a variable to the newest architecture that is built for: an older one may lack an instruction, or call it something
# else.
function(newest_architecture variable)
  set(${variable} 75 PARENT_SCOPE)
  if(CMAKE_CUDA_ARCHITECTURES MATCHES "^[0-9]")  # no "all", "native" and the like
    string(REGEX MATCHALL "[0-9]+" architectures "${CMAKE_CUDA_ARCHITECTURES}")
    list(SORT architectures COMPARE NATURAL ORDER DESCENDING)
    list(GET architectures 0 newest)
    set(${variable} ${newest} PARENT_SCOPE)
  endif()
endfunction()

# add_compiled_loads(<topic> <experiment> <kernel>...): the experiment's source finds the loads that these kernels became
# in the file COMPILED_LOADS (compiled_loads.cmake). Not in code for the debugger, whose loops are rolled up.
function(add_compiled_loads topic experiment)
  if(NOT experiment IN_LIST SAMPLE_EXPERIMENTS OR CMAKE_BUILD_TYPE STREQUAL "Debug")
    return()
  endif()
  newest_architecture(architecture)
  set(compile ${CMAKE_CUDA_COMPILER} -std=c++20 -O3 -Wno-deprecated-gpu-targets -arch=compute_${architecture})
  if(CMAKE_CUDA_HOST_COMPILER)
    list(APPEND compile -ccbin ${CMAKE_CUDA_HOST_COMPILER})
  endif()
  set(source ${CMAKE_CURRENT_SOURCE_DIR}/${experiment}.cu)
  set(output ${CMAKE_CURRENT_BINARY_DIR}/${experiment}_loads.inc)
  add_custom_command(OUTPUT ${output} VERBATIM
                     COMMAND ${CMAKE_COMMAND} "-DCOMPILE=${compile}" -DSOURCE=${source} "-DKERNELS=${ARGN}"
                             -DOUTPUT=${output} -P ${SAMPLES_CMAKE}/compiled_loads.cmake
                     DEPENDS ${source} ${SAMPLES_CMAKE}/compiled_loads.cmake
                     COMMENT "Looking at the loads that ${experiment}'s kernels became")
  set_property(SOURCE ${source} ${CMAKE_CURRENT_SOURCE_DIR}/checks/${experiment}.cu APPEND PROPERTY OBJECT_DEPENDS ${output})
  set_property(SOURCE ${source} ${CMAKE_CURRENT_SOURCE_DIR}/checks/${experiment}.cu
               APPEND PROPERTY COMPILE_DEFINITIONS COMPILED_LOADS="${output}")
endfunction()

# add_compiled_code_check(<topic> <experiment> "<kernel> | PTX or SASS | <regex> | <count>"...): the compiled kernel
# holds the pattern so often ("4+": at least). PTX comes from nvcc; SASS is checked where cuobjdump is there.
function(add_compiled_code_check topic experiment)
  if(NOT BUILD_TESTING OR NOT experiment IN_LIST SAMPLE_EXPERIMENTS)
    return()
  endif()
  newest_architecture(architecture)
  set(name "${topic}: ${experiment}: compiled code")
  add_test(NAME ${name}
           COMMAND ${CMAKE_COMMAND} -DNVCC=${CMAKE_CUDA_COMPILER} -DHOST_COMPILER=${CMAKE_CUDA_HOST_COMPILER}
                   -DCUOBJDUMP=$<$<BOOL:${CUOBJDUMP}>:${CUOBJDUMP}> -DARCHITECTURE=${architecture}
                   -DSOURCE=${CMAKE_CURRENT_SOURCE_DIR}/${experiment}.cu "-DCHECKS=${ARGN}"
                   -DSCRATCH=${CMAKE_CURRENT_BINARY_DIR}/compiled_code -P ${SAMPLES_CMAKE}/compiled_code.cmake)
  set_tests_properties(${name} PROPERTIES LABELS ${topic} TIMEOUT 300 SKIP_REGULAR_EXPRESSION "^skipped: ")
endfunction()

if(NOT TARGET exercises)
  add_custom_target(exercises)  # builds the exercises of all topics
endif()

# what every sample links, whether all topics are configured or one by itself
if(NOT TARGET samples_common)
  add_subdirectory(${SAMPLES_ROOT}/common ${PROJECT_BINARY_DIR}/common)
endif()
