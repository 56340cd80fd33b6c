#!/usr/bin/env bash
# Compiles every topic and its exercises with any nvcc, warnings as errors: without self-checks, and with them, of which
# it runs those that need no GPU. Leaves nothing behind. Needs cxxopts' headers, and doctest's for the self-checks.
#
#   tools/compile_with.sh /usr/local/cuda-12.4/bin/nvcc           for its oldest architecture and 9.0
#   tools/compile_with.sh /usr/local/cuda-12.4/bin/nvcc 50 90     for these
#   tools/compile_with.sh --no-checks nvcc 75                     without the self-checks
set -euo pipefail

wrong() {
  echo "compile_with.sh: $*" >&2
  exit 2
}

checks=true
if [ "${1-}" = --no-checks ]; then
  checks=false
  shift
fi
[ $# -ge 1 ] || wrong "which nvcc? compile_with.sh NVCC [architecture ...], as in compile_with.sh nvcc 50 90"
nvcc=$(command -v -- "$1") || wrong "there is no program '$1'"
nvcc=$(cd "$(dirname "$nvcc")" && pwd)/$(basename "$nvcc")
# another toolkit's headers and libraries are not to be mixed in
unset CUDA_HOME CUDA_PATH CPATH LIBRARY_PATH NVCC_PREPEND_FLAGS NVCC_APPEND_FLAGS
PATH=$(dirname "$nvcc"):$PATH
version=$("$nvcc" --version 2>/dev/null | sed -n 's/.*release \([0-9.]*\),.*/\1/p') || true
[ -n "$version" ] || wrong "'$1' is no nvcc"
shift

mapfile -t known < <("$nvcc" --list-gpu-code | sed -n 's/^sm_//p' | sort -n)
[ $# -gt 0 ] || set -- "${known[0]}" 90
code=()
for architecture; do
  [[ " ${known[*]} " = *" $architecture "* ]] ||
    wrong "nvcc $version has no architecture '$architecture'; it has ${known[*]}"
  code+=("-gencode=arch=compute_$architecture,code=sm_$architecture")
done

cd "$(dirname "$0")/.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

options=() # beside those of all sources

# one source to an object; what the compiler says is kept, and said with the file's name if there is anything
compile() {
  local source=$1 object=$scratch/${1//\//-}.o
  # nvcc 12.8 and 12.9 warn of every architecture that 13 drops
  if ! "$nvcc" -std=c++20 -O3 "${code[@]}" -Werror=all-warnings -Wno-deprecated-gpu-targets \
    -Xcompiler=-Wall,-Wextra,-Werror "${options[@]}" -c -o "$object" "$source" >"$object.txt" 2>&1 || [ -s "$object.txt" ]; then
    printf '%s: does not compile without a word\n' "$source"
    cat "$object.txt"
    rm -f "$object"
  fi
}

# as many at a time as there are processors
compile_all() {
  local source
  for source; do
    while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do wait -n || true; done
    compile "$source" &
  done
  wait
}

# links these sources, of which all have to be compiled, and runs the program with an option
link() {
  local program=$1 option=$2 source objects=()
  shift 2
  for source; do
    objects+=("$scratch/${source//\//-}.o")
    [ -e "${objects[-1]}" ] || return 1
  done
  "$nvcc" "${code[@]}" -Wno-deprecated-gpu-targets -o "$scratch/$program" "${objects[@]}" &&
    CUDA_VISIBLE_DEVICES= "$scratch/$program" "$option" >"$scratch/said" || {
    tail -n 20 "$scratch/said"
    return 1
  }
}

failed=0
topics=0
compile_all common/*.cpp
options=('-DYOUR_TURN_NAME="exercises"') # CMake makes a program of each; here one has those of a topic
compile_all cmake/your_turn_main.cpp
options=()
if $checks; then compile_all common/checks/*.cpp; fi
for topic in [0-9]*_*/; do
  topic=${topic%/}
  compile_all "$topic"/*.cu
  said=
  if ! link "$topic" --list common/*.cpp "$topic"/*.cu; then
    failed=1
    said="does not compile without self-checks"
  elif $checks; then
    sources=() # a file's self-checks include it, and are compiled in its place
    for source in "$topic"/*.cu; do
      [ -e "$topic/checks/${source##*/}" ] || sources+=("$source")
    done
    compile_all "$topic"/checks/*.cu
    # those cases that need no GPU
    if link "$topic" --self-check common/*.cpp common/checks/*.cpp "${sources[@]}" "$topic"/checks/*.cu; then
      said="$(sed -n 's/^self-checks: \([0-9]* passed\).*/\1/p' "$scratch/said") of its self-checks, the others need a GPU"
    else
      failed=1
      said="its self-checks do not compile, or fail"
    fi
  fi
  echo "$topic: ${said:-compiles}"
  topics=$((topics + 1))
  exercises=("$topic"/your_turn/*.c* "$topic"/your_turn/solutions/*.cu)
  [ -e "${exercises[0]}" ] || continue
  options=("-I$topic/your_turn" -Xcompiler=-Wno-unused-parameter) # what is to be written uses none
  compile_all "${exercises[@]}"
  options=()
  if ! link "$topic-your_turn" --list common/*.cpp cmake/your_turn_main.cpp "${exercises[@]}"; then
    echo "$topic: its exercises do not compile"
    failed=1
  fi
done

[ $failed = 0 ] || exit 1
echo "nvcc $version: $topics topics compile for $*"
