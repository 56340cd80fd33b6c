#!/usr/bin/env bash
# Runs every sample while another process holds all of a GPU's memory but some. Each has to end with 0: sizes shrink.
#
#   tools/little_memory.sh build/release                  with 4096 MiB left, and with 2048
#   tools/little_memory.sh build/release 1024             with 1024
#   tools/little_memory.sh build/release 2048 -- --quick  with the samples' options behind --
#
# A sample's own context takes some hundred MiB of what is left. Seven samples take two minutes at most for each amount on
# a data-centre GPU. Ends with 77 where there is no GPU, and with 1 where a sample fails.
set -euo pipefail

wrong() {
  echo "little_memory.sh: $*" >&2
  exit 2
}

[ $# -ge 1 ] || wrong "which build? little_memory.sh BUILD [MiB ...] [-- option ...]"
build=$1
shift
left=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
  [[ "$1" =~ ^[1-9][0-9]*$ ]] || wrong "'$1' is no number of MiB"
  left+=("$1")
  shift
done
[ $# -eq 0 ] || shift
[ ${#left[@]} -gt 0 ] || left=(4096 2048)

hold=$build/common/hold_memory
[ -x "$hold" ] || wrong "'$hold' is not there: build all topics, with their tests"
samples=()
for topic in "$build"/[0-9][0-9]_*/; do
  name=$(basename "$topic")
  [ ! -x "$topic$name" ] || samples+=("$topic$name")
done
[ ${#samples[@]} -gt 0 ] || wrong "there is no sample in '$build'"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkfifo "$scratch/end"

failed=0
for mib in "${left[@]}"; do
  rm -f "$scratch/held"  # of the amount before; the holder's own shell makes it anew, perhaps late
  "$hold" "$mib" <"$scratch/end" >"$scratch/held" 2>&1 &
  holder=$!
  exec 3>"$scratch/end"  # it holds until this is closed
  while [ ! -s "$scratch/held" ] && kill -0 $holder 2>/dev/null; do sleep 0.1; done
  said=$(cat "$scratch/held")
  echo "$mib MiB left: $said"
  if [[ $said != holding* ]]; then
    exec 3>&-
    wait $holder || true
    [[ $said == skipped* ]] && exit 77
    exit 1
  fi
  for sample in "${samples[@]}"; do
    began=$SECONDS
    code=0
    "$sample" --require-gpu "$@" >"$scratch/out" 2>"$scratch/err" 3>&- || code=$?
    echo "  $(basename "$sample"): exit code $code after $((SECONDS - began)) s"
    [ $code = 0 ] || failed=1
    cat "$scratch/err"
    grep -E "not judged|left out|less than four times" "$scratch/out" | sed 's/^/    /' || true
  done
  exec 3>&-
  wait $holder || failed=1
done
exit $failed
