# Counts the loads from global memory in the PTX of a source file's kernels, and writes a line for each kernel, as the
# source includes it: {"ldg", 16, 16, "ld.global.nc.f32"}, of which the second number is of loads on the read-only path.
# Called by what add_compiled_loads (sample.cmake) puts into the build.
#   cmake "-DCOMPILE=<nvcc and its options>" -DSOURCE=<file> "-DKERNELS=<kernel;...>" -DOUTPUT=<file> -P compiled_loads.cmake
cmake_minimum_required(VERSION 3.25)
include(${CMAKE_CURRENT_LIST_DIR}/kernel_body.cmake)

execute_process(COMMAND ${COMPILE} -ptx -o ${OUTPUT}.ptx ${SOURCE} COMMAND_ERROR_IS_FATAL ANY)
file(READ ${OUTPUT}.ptx ptx)
set(lines)
foreach(kernel IN LISTS KERNELS)
  kernel_body("${ptx}" ${kernel} ".entry " "\n}")
  string(REGEX MATCHALL "ld[.]global[.a-zA-Z0-9:_]*" loads "${body}")
  list(LENGTH loads count)
  set(read_only ${loads})
  list(FILTER read_only INCLUDE REGEX "[.]nc[.]")
  list(LENGTH read_only read_only_count)
  list(REMOVE_DUPLICATES loads)
  list(JOIN loads " " instructions)
  string(APPEND lines "{\"${kernel}\", ${count}, ${read_only_count}, \"${instructions}\"},\n")
endforeach()
file(WRITE ${OUTPUT} "${lines}")
