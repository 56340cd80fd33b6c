#!/bin/sh
# constant_limit.sh SAMPLE NVCC: a file of 64 KiB of constants compiles; with one byte more nvcc refuses it, in the words
# that 01_memory_model's page quotes.
set -eu
nvcc=$2
compile() {
  cat >limit.cu <<SOURCE
__constant__ char table[$1];
__global__ void read(char* out, int i) { *out = table[i]; }
SOURCE
  "$nvcc" -cubin -o limit.cubin limit.cu >said 2>&1
}
compile 65536 || { cat said; echo "64 KiB are refused"; exit 1; }
if compile 65537; then
  echo "64 KiB and a byte are not refused"
  exit 1
fi
cat said
grep -q "File uses too much global constant data (0x10001 bytes, 0x10000 max)" said
