# find_gpu(<variable>): whether SAMPLE finds a usable GPU. Where there is one, to ask for device 99 is a wrong command
# line.
function(find_gpu variable)
  execute_process(COMMAND ${SAMPLE} --list-test-cases --device 99 RESULT_VARIABLE code OUTPUT_QUIET ERROR_QUIET)
  set(found FALSE)
  if(code EQUAL 2)
    set(found TRUE)
  endif()
  set(${variable} ${found} PARENT_SCOPE)
endfunction()
