# Writes the ctest entries of a program's cases "plausible: <experiment>", of which there may be none. Run after each
# build of the program, by what add_plausible_checks (sample.cmake) declares.
#   cmake -DSAMPLE=<executable> -DTESTS=<file to write> -P plausible.cmake
cmake_minimum_required(VERSION 3.25)
get_filename_component(topic ${SAMPLE} NAME)

# --no-skip: these cases are decorated with doctest::skip(), so that a plain --self-check leaves them out
execute_process(COMMAND ${SAMPLE} --list-test-cases --no-skip OUTPUT_VARIABLE cases COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "(^|\n)plausible: [^\n]+" cases "${cases}")

set(script)
foreach(case IN LISTS cases)
  string(STRIP "${case}" case)
  string(REPLACE "," "\\," pattern "${case}")  # to doctest a comma parts two patterns
  string(APPEND script "add_test([==[${topic}: ${case}]==] [==[${SAMPLE}]==] [==[--test-case=${pattern}]==] --no-skip)
set_tests_properties([==[${topic}: ${case}]==] PROPERTIES LABELS plausible RUN_SERIAL TRUE TIMEOUT 300
                     SKIP_RETURN_CODE 77)\n")
endforeach()
file(WRITE ${TESTS} "${script}")
