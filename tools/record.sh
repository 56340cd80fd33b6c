#!/usr/bin/env bash
# record.sh BUILD [TOPIC ...]: runs topics and keeps what they print and save, as <topic>/results/<gpu>.txt and .csv.
#
#   tools/record.sh build/release                      all topics
#   tools/record.sh build/release 05_unified_memory    one
#
# First all run, then it is said how much agrees with what these files had. A topic that fails keeps what it had.
set -euo pipefail
if [ $# -lt 1 ] || [ ! -d "$1" ]; then
  echo "record.sh: name the folder of a build, for example build/release" >&2
  exit 2
fi
build=$(cd "$1" && pwd)
shift
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- 0?_*
for topic in "$@"; do
  [ -x "$build/$topic/$topic" ] || { echo "record.sh: $build/$topic/$topic is not built" >&2; exit 1; }
done
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
code=0
ran=()
for topic in "$@"; do
  if "$build/$topic/$topic" --csv "$scratch/$topic.csv" >"$scratch/$topic.txt"; then
    ran+=("$topic")
  else
    echo "record.sh: $topic failed: what was recorded of it stays" >&2
    code=1
  fi
done
[ ${#ran[@]} -gt 0 ] || exit 1
if command -v python3 >/dev/null; then
  files=()
  for topic in "${ran[@]}"; do files+=("$scratch/$topic.csv"); done
  tools/compare.py "${files[@]}" || true  # that is what a record is for
fi
for topic in "${ran[@]}"; do
  # "05_unified_memory on NVIDIA H200, compute capability 9.0, ...": nvidia-h200
  gpu=$(sed -n '1s/^[^ ]* on \([^,]*\),.*/\1/p' "$scratch/$topic.txt" | tr '[:upper:] ' '[:lower:]-')
  [ -n "$gpu" ] || { echo "record.sh: $topic does not name its GPU" >&2; exit 1; }
  mkdir -p "$topic/results"
  mv "$scratch/$topic.txt" "$topic/results/$gpu.txt"
  mv "$scratch/$topic.csv" "$topic/results/$gpu.csv"
  echo "$topic/results/$gpu.txt"
done
exit $code
