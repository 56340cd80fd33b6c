#!/bin/sh
# Does add_coefficients of `constant` read its words before its loop, from either memory? Its loop is all from its first
# FADD to its last. Exit code 77: nothing can be looked into.
#   hoisted.sh OBJECT
PATH=$PATH:/usr/local/cuda/bin
command -v cuobjdump >/dev/null || { echo "cuobjdump is not here"; exit 77; }
cuobjdump -sass -arch sm_90 "$1" | awk '
  /Function :/ { kernel = /add_coefficients/; kernels += kernel; since = "" }
  kernel && /LDG/ { global++ }
  kernel && /ULDC\.64 .*c\[0x3\]/ { constant++ }
  kernel && (since != "" || /FADD/) { since = since $0 "\n" }
  kernel && /FADD/ {
    if (since ~ /LDG|LDC|c\[/) { print "read in the loop:\n" since; wrong = 1 }
    since = "\n"; added++
  }
  END {
    print kernels + 0 " kernels, " added + 0 " additions; read before the loop: " global + 0 " words of global memory, " 2 * constant " of constant"
    exit wrong || kernels != 2 || added != 32 || global != 16 || constant != 8
  }'
