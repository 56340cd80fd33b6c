#!/usr/bin/env bash
# run.sh BUILD PROGRAM...: runs topics, saves their numbers in BUILD/results, and makes BUILD/report.html of them. Without a
# GPU the programs show what was recorded, and the page is made of that.
set -euo pipefail
build=$1
shift
root=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$build/results"
saved=()
for program in "$@"; do
  csv=$build/results/$(basename "$program").csv
  rm -f "$csv"
  if "$program" --csv "$csv" 2>"$build/results/error"; then
    saved+=("$csv")
  elif grep -q "nothing can be measured" "$build/results/error"; then
    "$program"
    recorded=$root/$(basename "$program")/results/nvidia-h100-80gb-hbm3.csv
    [ ! -e "$recorded" ] || saved+=("$recorded")
  else
    cat "$build/results/error" >&2
    exit 1
  fi
done
rm -f "$build/results/error"
if [ ${#saved[@]} -gt 0 ] && command -v python3 >/dev/null; then
  "$root/tools/report.py" --output "$build/report.html" "${saved[@]}"
  echo "is it normal, verdicts, figures, tables: $build/report.html"
fi
