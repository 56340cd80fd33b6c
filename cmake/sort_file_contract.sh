#!/bin/sh
# sort_file_contract.sh SAMPLE: files that sort_file reads and writes: seven bytes, none at all, a pipe, its own input;
# 2 for what cannot be read, 1 for what cannot be written, and nothing else left behind.
set -eu
sample=$1
rm -rf in out empty

printf 'banana!' >in
"$sample" --quick sort_file --file in --output out | grep 'last 3 of the bytes'
test "$(cat out)" = '!aaabnn'
"$sample" --quick sort_file --file in --output in >/dev/null
test "$(cat in)" = '!aaabnn'
printf 'cab' | "$sample" --quick sort_file --file /dev/stdin --output out >/dev/null
test "$(cat out)" = 'abc'

: >empty
"$sample" --quick sort_file --file empty --output out | grep 'nothing to sort'
test ! -s out

code=0
"$sample" --file missing sort_file 2>/dev/null || code=$?
test $code = 2
code=0
"$sample" --output missing/out sort_file 2>/dev/null || code=$?
test $code = 1
test "$(echo *)" = 'empty in out'
