# Holds an exercise of your_turn/ to what it promises. Called by what add_exercises (sample.cmake) puts into ctest:
#   cmake -DEXERCISE=<file> -DSOLUTION=<file> -P your_turn.cmake
#     the two differ in the reader's part only, which stands between "// [your turn]" and "// [/your turn]"
#   cmake -DPROGRAM=<executable> -DOPTION=<--solution, --test or nothing> -DNAME=<answer> -DFILE=<file>
#         "-DANSWER=<regex>" -P your_turn.cmake
#     what the program says of that answer. Without ANSWER a comment in its file has it: "// answer <name>: <regex>"
cmake_minimum_required(VERSION 3.25)

# Sets `before` and `after` to what stands around the reader's part.
function(around_the_readers_part file)
  file(READ ${file} text)
  string(FIND "${text}" "\n// [your turn]\n" begin)
  string(FIND "${text}" "\n// [/your turn]\n" end)
  if(begin EQUAL -1 OR end LESS begin)
    message(FATAL_ERROR "${file} has no part between '// [your turn]' and '// [/your turn]'")
  endif()
  string(SUBSTRING "${text}" 0 ${begin} before)
  string(SUBSTRING "${text}" ${end} -1 after)
  set(before "${before}" PARENT_SCOPE)
  set(after "${after}" PARENT_SCOPE)
endfunction()

if(SOLUTION)
  around_the_readers_part(${EXERCISE})
  set(before_there "${before}")
  set(after_there "${after}")
  around_the_readers_part(${SOLUTION})
  if(NOT before STREQUAL before_there OR NOT after STREQUAL after_there)
    message(FATAL_ERROR "${SOLUTION} differs from the exercise outside of the reader's part")
  endif()
  return()
endif()

if(NOT EXISTS ${PROGRAM})
  message("skipped: not built; cmake --build ... --target exercises")
  return()
endif()

if(NOT ANSWER)
  file(READ ${FILE} text)
  string(REGEX MATCH "\n// answer ${NAME}: [^\n]*(\n// [^\n]*)*" ANSWER "${text}")
  string(REGEX REPLACE "^\n// answer ${NAME}: " "" ANSWER "${ANSWER}")
  string(REPLACE "\n//" "" ANSWER "${ANSWER}")
endif()
set(code 0)
if(ANSWER MATCHES "^not yet")
  set(code 3)
elseif(ANSWER MATCHES "^right, but ")
  set(code 4)
elseif(NOT ANSWER STREQUAL "done")
  message(FATAL_ERROR "${FILE} does not say what is answered to ${NAME}: '${ANSWER}'")
endif()

set(ENV{YOUR_TURN_SECONDS} 5)  # long enough, and what never ends is told sooner
execute_process(COMMAND ${PROGRAM} ${OPTION} ${NAME} OUTPUT_VARIABLE said ERROR_VARIABLE noise RESULT_VARIABLE ended)
message("${said}${noise}")
if(ended STREQUAL "77" AND NOT "$ENV{SAMPLES_REQUIRE_GPU}" STREQUAL "1" AND said MATCHES "^${NAME}: (skipped: [^\n]+)\n$")
  message("${CMAKE_MATCH_1}")
  return()
endif()
if(ended STREQUAL "${code}" AND said MATCHES "^${NAME}: ${ANSWER}\n$" AND said MATCHES "^[^\n]+\n$" AND NOT noise)
  return()
endif()

# a reader who has written it is not told that it is wrong to have done so
if(NOT OPTION)
  get_filename_component(folder ${FILE} DIRECTORY)
  find_program(git git)
  if(git)
    execute_process(COMMAND ${git} diff --quiet HEAD -- ${FILE} WORKING_DIRECTORY ${folder} RESULT_VARIABLE changed
                    OUTPUT_QUIET ERROR_QUIET)
    if(changed EQUAL 1)
      message("skipped: ${NAME} is no longer as it was handed out")
      return()
    endif()
  endif()
endif()
message(FATAL_ERROR "expected exit code ${code} and one line: ${NAME}: ${ANSWER}\nexit code ${ended}")
