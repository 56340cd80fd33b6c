#!/bin/sh
# sort_file_contract.sh SAMPLE: files that sort_file reads and writes: seven bytes, none at all, a pipe;
# 2 for what cannot be read and for one file with two purposes, 1 for what cannot be written, each in one line before
# anything is measured, and nothing else left behind.
set -eu
sample=$1
rm -rf in out empty link "hard link" pipe sparse

printf 'banana!' >in
"$sample" --quick sort_file --file in --output out >printed
grep 'last 3 of the bytes' printed
test "$(cat out)" = '!aaabnn'
cp out in
printf 'cab' | "$sample" --quick sort_file --file /dev/stdin --output out >/dev/null
test "$(cat out)" = 'abc'

: >empty
"$sample" --quick sort_file --file empty --output out >printed
grep 'nothing to sort' printed
rm printed
test ! -s out

# expect CODE PATTERN OPTION...: refused with that code and one line, nothing printed, the input as it was
expect() {
  expected=$1 pattern=$2 code=0
  shift 2
  refusal=$(timeout 10 "$sample" --quick "$@" sort_file 2>&1 >printed </dev/null) || code=$?
  if [ $code != $expected ] || [ -s printed ] || [ "$(cat in)" != '!aaabnn' ] ||
     [ "$(printf '%s\n' "$refusal" | wc -l)" != 1 ] ||
     ! expr "$refusal" : "05_unified_memory: .*$pattern" >/dev/null; then
    echo "expected $expected and '$pattern' for '$*', found $code and '$refusal'"
    exit 1
  fi
  rm printed
}
expect 2 'missing' --file missing
expect 1 'missing/out' --output missing/out

ln -s in link
for same in in link ./in; do
  expect 2 'name one file' --file in --csv $same
  expect 2 'name one file' --file $same --output out --csv in
done
ln in 'hard link'
expect 2 'name one file' --file in --csv 'hard link'
expect 2 'name one file' --file in --output 'hard link'
expect 2 'name one file' --file in --output in
rm link 'hard link' out
expect 2 'name one file' --output out --csv out
expect 2 'name one file' --output out --csv "$PWD/out"

# what goes wrong at the end leaves the old output as it was, too
printf 'old' >out
for full in "--csv /dev/full" ">/dev/full"; do
  code=0
  eval "\"$sample\" --quick --file in --output out sort_file $full" >printed 2>refusal || code=$?
  test $code = 1
  test "$(cat out)" = old
done
rm out printed refusal

code=0
"$sample" --quick --output /dev/stdout sort_file >printed 2>refusal || code=$?
test $code = 2
test ! -s printed
grep 'is where this run prints to' refusal
rm printed refusal

expect 2 'it is a device' --file /dev/zero
truncate -s 1T sparse
expect 2 'it has more than 512 MiB' --file sparse
truncate -s 500M sparse
code=0
refusal=$(ulimit -v 400000; "$sample" --file sparse sort_file 2>&1 >printed) || code=$?
test $code = 1
test ! -s printed
expr "$refusal" : "05_unified_memory: --file: out of host memory: 'sparse' has 500 MiB$"
rm sparse printed

# not run: neither read nor written, and said
"$sample" --quick --file missing --output missing/out managed >printed
grep 'without effect on what is run: --file, --output' printed
rm printed
test "$(echo *)" = 'empty in'
