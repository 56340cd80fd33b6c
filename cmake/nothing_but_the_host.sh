#!/bin/sh
# nothing_but_the_host.sh SAMPLE PATTERN: without a GPU the only lines of numbers that SAMPLE saves as measured match
# PATTERN (grep -E), there are some, and no claim is judged.
set -eu
sample=$1 pattern=$2
rm -f out.csv
CUDA_VISIBLE_DEVICES=-1 "$sample" --quick --csv out.csv >/dev/null

grep -q ',measured,' out.csv || {
  echo "nothing was measured"
  exit 1
}
if grep -E ',(measured|counted),' out.csv | grep -Ev "$pattern"; then
  echo "the lines above cannot have been measured without a GPU"
  exit 1
fi
if grep ',claim,' out.csv | grep -v ',claim,not judged,'; then
  echo "the claims above were judged without a GPU"
  exit 1
fi
