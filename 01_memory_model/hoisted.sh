#!/bin/sh
# Does add_coefficients of `constant` read its words before its loop, from either memory? The loop is what its backward
# branch closes. Exit code 77: nothing can be looked into.
#   hoisted.sh OBJECT
PATH=$PATH:/usr/local/cuda/bin
command -v cuobjdump >/dev/null || { echo "cuobjdump is not here"; exit 77; }
cuobjdump -sass -arch sm_90 "$1" | awk '
  /Function :/ { kernel = /add_coefficients/; kernels += kernel; n = 0 }
  !kernel || !/\/\*[0-9a-f][0-9a-f][0-9a-f][0-9a-f]\*\// { next }
  { line[++n] = $0; place[n] = substr($1, 3, 4) }
  /LDG/ { global++ }
  /ULDC\.64 .*c\[0x3\]/ { constant++ }
  / BRA 0x/ {
    to = $0; sub(/.* BRA 0x/, "", to); sub(/[^0-9a-f].*/, "", to)
    to = substr("000" to, length(to))
    for (from = 1; from < n && place[from] != to; from++);
    if (from == n) next  # forward, or onto itself: behind the end
    loops++
    for (i = from; i <= n; i++) {
      added += line[i] ~ /FADD/
      if (line[i] ~ /LDG|LDC|c\[0x3\]/) { print "read in the loop: " line[i]; wrong = 1 }
    }
  }
  END {
    print kernels + 0 " kernels, " added + 0 " additions; read before the loop: " global + 0 " words of global memory, " 2 * constant " of constant"
    exit wrong || kernels != 2 || loops != 2 || added != 32 || global != 16 || constant != 8
  }'
