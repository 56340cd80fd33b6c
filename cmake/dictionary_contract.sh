#!/bin/sh
# dictionary_contract.sh SAMPLE: texts whose size is not known before they are read, and ones that are too large, which
# are refused before anything is measured.
set -eu
sample=$1
rm -f text link sparse

printf 'the cat and the dog' | "$sample" --quick --text /dev/stdin dictionary >printed
grep 'words in 19 bytes of text' printed
"$sample" --quick --text /proc/self/status dictionary >printed
grep 'words in [1-9][0-9]* bytes of text' printed

truncate -s 3G sparse
code=0
refusal=$("$sample" --text sparse 2>&1 >printed) || code=$?
test $code = 2
test ! -s printed
expr "$refusal" : "03_access_patterns: --text: cannot read 'sparse': it has more than 2.00 GiB$"
truncate -s 1G sparse
code=0
refusal=$(ulimit -v 800000; "$sample" --text sparse dictionary 2>&1 >printed) || code=$?
test $code = 1
expr "$refusal" : "03_access_patterns: --text: out of host memory: 'sparse' has 1.00 GiB$"
rm sparse printed

printf 'the cat' >text
ln -s text link
code=0
"$sample" --text text --csv link dictionary 2>refusal || code=$?
test $code = 2
test "$(cat text)" = 'the cat'
grep 'name one file' refusal
rm refusal
test "$(echo *)" = 'link text'
