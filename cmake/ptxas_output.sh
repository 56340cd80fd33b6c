#!/bin/sh
# ptxas_output.sh SAMPLE NVCC INCLUDE SOURCE ARCHITECTURE: what 01_memory_model's page walks through: -Xptxas -v says what
# each kernel of registers takes, and -keep leaves what the compiler made on the way.
set -eu
rm -rf kept
mkdir kept
"$2" -std=c++20 -O3 -Wno-deprecated-gpu-targets -I"$3" -arch="sm_$5" -Xptxas -v -keep -keep-dir kept \
  -cubin -o registers.cubin "$4" >said 2>&1 || {
  cat said
  exit 1
}
grep 'Function properties for .*hash_bounded' -A 2 said
# a line for each kernel, and nothing spilled where any number of registers will do
test "$(grep -c 'Used [0-9]* registers' said)" -ge 6
grep 'Function properties for .*hash_bounded' -A 2 said | grep -q ' 0 bytes spill stores'
grep 'Function properties for .*hash_residentILi8E' -A 2 said | grep -q ' [1-9][0-9]* bytes spill stores'
ls kept
grep -q '\.maxntid' kept/registers.ptx
test -s registers.cubin
