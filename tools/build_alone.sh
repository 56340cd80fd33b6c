#!/usr/bin/env bash
# build_alone.sh [FILE ...]: builds samples by the line of nvcc in their first comment, each alone, from its folder, and runs
# their self-checks. Without FILE all. Prints the seconds of each. Exit code 1 if one does not build, or fails.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
command -v nvcc >/dev/null || export PATH="$PATH:/usr/local/cuda/bin"
[ $# -gt 0 ] || mapfile -t files < <(grep -lE '^\s*SAMPLE\(' 0?_*/*.cu)
[ $# = 0 ] || files=("$@")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
code=0
for file in "${files[@]}"; do
  name=$(basename "$file" .cu)
  line=$(sed -n 's|^// *\(nvcc .*\)|\1|p; /^#include/q' "$file" | head -n 1)
  if [ -z "$line" ]; then
    echo "$file: its first comment has no line of nvcc" >&2
    code=1
    continue
  fi
  line=${line%% && *}  # what follows runs it
  nvidia-smi >/dev/null 2>&1 || line=${line//-arch=native/-arch=sm_75}
  start=$(date +%s.%N)
  # the line writes to -o NAME; here that is in a folder of its own
  if (cd "$(dirname "$file")" && eval "${line/-o $name/-o $folder/$name}") 2>"$folder/errors" && [ -x "$folder/$name" ]; then
    seconds=$(awk -v a="$start" -v b="$(date +%s.%N)" 'BEGIN { printf "%.1f", b - a }')
    "$folder/$name" --self-check >"$folder/out" 2>&1
    ended=$?
    [ $ended = 0 ] || [ $ended = 77 ] || { cat "$folder/out" >&2; code=1; }
    printf '%-44s %5s s  %s\n' "$file" "$seconds" "$(grep -o 'test cases:.*' "$folder/out" | tr -s ' ')"
  else
    echo "$file does not build alone: $line" >&2
    head -n 5 "$folder/errors" >&2
    code=1
  fi
  rm -f "$folder/$name"
done
exit $code
