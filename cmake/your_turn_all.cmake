# Builds and checks all exercises, a line each, and says how many are done. Fails only if one could not be checked.
#   cmake -DBUILD=<folder> -DGENERATOR=<of that folder> "-DEXERCISES=<topic;target;executable;...>" -P your_turn_all.cmake
cmake_minimum_required(VERSION 3.25)

function(say line)
  execute_process(COMMAND ${CMAKE_COMMAND} -E echo "${line}")
endfunction()

say("building the exercises")
# All at once, as far as they compile; the lines below say which do not.
set(go_on -k)
if(GENERATOR MATCHES "Ninja")
  set(go_on -k 0)
endif()
execute_process(COMMAND ${CMAKE_COMMAND} --build ${BUILD} --parallel --target exercises -- ${go_on}
                OUTPUT_VARIABLE said ERROR_VARIABLE said)

set(all 0)
set(done 0)
set(failed FALSE)
set(topic)
while(EXERCISES)
  list(POP_FRONT EXERCISES in_topic target program)
  if(NOT in_topic STREQUAL topic)
    set(topic ${in_topic})
    say("${topic}")
  endif()
  string(REGEX REPLACE "^your_" "" exercise ${target})
  math(EXPR all "${all} + 1")

  execute_process(COMMAND ${CMAKE_COMMAND} --build ${BUILD} --target ${target}
                  OUTPUT_VARIABLE said ERROR_VARIABLE said RESULT_VARIABLE code)
  if(NOT code STREQUAL "0")
    string(REGEX MATCH "[^\n/]*[(:][0-9]+[^\n]*[: ]error[: ][^\n]*|[^\n]*undefined reference[^\n]*" error "${said}")
    say("  ${exercise}: not yet: does not compile: ${error}")
    continue()
  endif()

  # the exit code alone decides; the line is for the reader
  execute_process(COMMAND ${program} OUTPUT_VARIABLE said RESULT_VARIABLE code)
  string(STRIP "${said}" said)
  say("  ${said}")
  if(code STREQUAL "0")
    math(EXPR done "${done} + 1")
  elseif(NOT code MATCHES "^(3|4|77)$")
    set(failed TRUE)
  endif()
endwhile()
say("${done} of ${all} exercises are done")
if(failed)
  message(FATAL_ERROR "an exercise could not be checked")
endif()
