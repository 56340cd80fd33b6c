#!/bin/sh
# draw_banks.sh SAMPLE PYTHON TOOL: tools/draw_banks.py draws what bank_steps saves, without a GPU.
set -eu
export CUDA_VISIBLE_DEVICES=-1
rm -f lanes.csv banks.svg
"$1" bank_steps --csv lanes.csv >/dev/null
"$2" "$3" lanes.csv -o banks.svg >drawn 2>&1 || {
  cat drawn
  exit 1
}
cat drawn
test "$(grep -c ' lanes, ' drawn)" = 8
grep -q 'strided, step 4, stride 8: 16 lanes, 8-way conflict' drawn
grep -q 'descending, step 4, stride 16: 16 lanes, no conflict' drawn
test -s banks.svg
