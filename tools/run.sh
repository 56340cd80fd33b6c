#!/usr/bin/env bash
# run.sh BUILD PROGRAM...: runs topics, saves their numbers in BUILD/results, and makes BUILD/report.html of them. Without a
# GPU the programs show what was recorded, and the page is made of that. Exit code 1 if something failed; the rest ran.
set -uo pipefail
[ $# -ge 2 ] || { echo "usage: run.sh BUILD PROGRAM..." >&2; exit 2; }
build=$1
shift
root=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$build/results" || exit 1
error=$(mktemp)
trap 'rm -f "$error"' EXIT
saved=()
measured=()
code=0
for program in "$@"; do
  csv=$build/results/$(basename "$program").csv
  "$program" --csv "$csv.new" 2>"$error"
  ended=$?
  if [ $ended != 0 ] && grep -q "nothing can be measured" "$error"; then
    "$program" || code=1
    recorded=$root/$(basename "$program")/results/nvidia-h100-80gb-hbm3.csv
    [ ! -e "$recorded" ] || saved+=("$recorded")
    continue
  fi
  cat "$error" >&2
  [ $ended = 0 ] || code=1
  if [ -e "$csv.new" ]; then  # else nothing was measured, and what an earlier run measured stays
    mv "$csv.new" "$csv"
    saved+=("$csv")
    measured+=("$csv")
  fi
done
if ! command -v python3 >/dev/null; then
  echo "no page is made of it: python3 is not here"
elif [ ${#saved[@]} -gt 0 ]; then
  if "$root/tools/report.py" --output "$build/report.html" "${saved[@]}"; then
    echo "is it normal, verdicts, figures, tables: $build/report.html"
  else
    code=1
  fi
  [ ${#measured[@]} = 0 ] || "$root/tools/compare.py" --brief "${measured[@]}" || true  # another GPU may differ
fi
exit $code
