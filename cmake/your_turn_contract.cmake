# Tries your_turn_all.cmake on a project of four made-up exercises: done, without an end of its line, not to be compiled, and
# with somebody else's answer.
#   cmake -DGENERATOR=<generator> -DMAKE=<its program> -DFOLDER=<folder> -P your_turn_contract.cmake
cmake_minimum_required(VERSION 3.25)

file(REMOVE_RECURSE ${FOLDER})
set(exercises)
set(project "cmake_minimum_required(VERSION 3.25)\nproject(contract LANGUAGES CXX)\nadd_custom_target(exercises)\n")
foreach(exercise IN ITEMS first second third fourth)
  string(APPEND project "add_executable(your_${exercise} ${exercise}.cpp)\nadd_dependencies(exercises your_${exercise})\n")
  list(APPEND exercises topic your_${exercise} ${FOLDER}/build/your_${exercise})
endforeach()
file(WRITE ${FOLDER}/CMakeLists.txt "${project}")
file(WRITE ${FOLDER}/first.cpp "#include <cstdio>\nint main() { std::puts(\"first: done\"); }\n")
file(WRITE ${FOLDER}/second.cpp "#include <cstdio>\nint main() { std::printf(\"debug 5 second: not yet\"); return 3; }\n")
file(WRITE ${FOLDER}/third.cpp "int main() { return oops; }\n")
file(WRITE ${FOLDER}/fourth.cpp "#include <cstdio>\nint main() { std::puts(\"x: done\\nfourth: done\"); return 4; }\n")

execute_process(COMMAND ${CMAKE_COMMAND} -S ${FOLDER} -B ${FOLDER}/build -G ${GENERATOR} -DCMAKE_MAKE_PROGRAM=${MAKE}
                OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_COMMAND} -DBUILD=${FOLDER}/build -DGENERATOR=${GENERATOR} "-DEXERCISES=${exercises}"
                        -P ${CMAKE_CURRENT_LIST_DIR}/your_turn_all.cmake
                OUTPUT_VARIABLE said ERROR_VARIABLE said COMMAND_ERROR_IS_FATAL ANY)
message("${said}")
foreach(line IN ITEMS "first: done\n" "debug 5 second: not yet\n" "third: not yet: does not compile: third.cpp:1:[^\n]*oops"
                      "fourth: done\n" "1 of 4 exercises are done\n")
  if(NOT said MATCHES "${line}")
    message(FATAL_ERROR "this line is missing: ${line}")
  endif()
endforeach()
