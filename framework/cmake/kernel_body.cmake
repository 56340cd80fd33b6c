# Of compiled code: a kernel's part.

# Sets `body` to the part of `text` that begins with a line with `opening` and the kernel's name and ends before
# `closing`.
function(kernel_body text kernel opening closing)
  string(LENGTH "${kernel}" length)
  string(LENGTH "${opening}" skip)
  set(rest "${text}")
  while(TRUE)
    string(FIND "${rest}" "${opening}" begin)
    if(begin EQUAL -1)
      message(FATAL_ERROR "no kernel ${kernel} in the compiled code of ${SOURCE}")
    endif()
    math(EXPR begin "${begin} + ${skip}")
    string(SUBSTRING "${rest}" ${begin} -1 rest)
    string(FIND "${rest}" "\n" end)
    string(SUBSTRING "${rest}" 0 ${end} name)
    string(FIND "${name}" "${length}${kernel}" found)  # as the Itanium ABI writes a name: "5chase"
    if(NOT found EQUAL -1)
      string(FIND "${rest}" "${closing}" end)
      string(SUBSTRING "${rest}" 0 ${end} rest)
      set(body "${rest}" PARENT_SCOPE)
      return()
    endif()
  endwhile()
endfunction()
