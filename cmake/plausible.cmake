# Writes the ctest entries of a program's cases of the suite "plausible", of which there may be none. Run after each
# build of the program, by what add_plausible_checks (sample.cmake) declares.
#   cmake -DSAMPLE=<executable> -DTESTS=<file to write> -P plausible.cmake
cmake_minimum_required(VERSION 3.25)
get_filename_component(topic ${SAMPLE} NAME)

execute_process(COMMAND ${SAMPLE} --list-test-cases --test-suite=plausible OUTPUT_VARIABLE cases ERROR_VARIABLE errors
                RESULT_VARIABLE code)
if(NOT code EQUAL 0 AND NOT errors MATCHES "no self-check matches")
  message(FATAL_ERROR "${SAMPLE}: exit code ${code}: ${errors}")
endif()
string(REGEX MATCHALL "(^|\n)[^[=\n][^\n]+" cases "${cases}")

set(script)
foreach(case IN LISTS cases)
  string(STRIP "${case}" case)
  string(REPLACE "," "\\," pattern "${case}")  # to doctest a comma parts two patterns
  string(APPEND script "add_test([==[${topic}: ${case}]==] [==[${SAMPLE}]==] [==[--test-case=${pattern}]==]
                                 --test-suite=plausible)
set_tests_properties([==[${topic}: ${case}]==] PROPERTIES LABELS plausible RUN_SERIAL TRUE TIMEOUT 300
                     SKIP_RETURN_CODE 77)\n")
endforeach()
file(WRITE ${TESTS} "${script}")
