#!/usr/bin/env bash
# record.sh BUILD [TOPIC ...]: runs topics and keeps what they print and save, as <topic>/results/<gpu>.txt and .csv.
#
#   tools/record.sh build/release                      all topics
#   tools/record.sh build/release 05_unified_memory    one
set -euo pipefail
[ $# -ge 1 ] && [ -d "$1" ] || { echo "record.sh: name the folder of a build, for example build/release" >&2; exit 1; }
build=$(cd "$1" && pwd)
shift
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- 0?_*
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
for topic in "$@"; do
  program=$build/$topic/$topic
  [ -x "$program" ] || { echo "record.sh: $program is not built" >&2; exit 1; }
  "$program" --csv "$scratch/csv" >"$scratch/txt"
  # "05_unified_memory on NVIDIA H200, compute capability 9.0, ...": nvidia-h200
  gpu=$(sed -n '1s/^[^ ]* on \([^,]*\),.*/\1/p' "$scratch/txt" | tr '[:upper:] ' '[:lower:]-')
  [ -n "$gpu" ] || { echo "record.sh: $topic does not name its GPU" >&2; exit 1; }
  mkdir -p "$topic/results"
  mv "$scratch/txt" "$topic/results/$gpu.txt"
  mv "$scratch/csv" "$topic/results/$gpu.csv"
  echo "$topic/results/$gpu.txt"
done
