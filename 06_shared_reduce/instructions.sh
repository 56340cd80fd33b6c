#!/bin/sh
# Is ladder compiled to as many instructions as it states? Exit code 77: nothing can be looked into.
#   instructions.sh OBJECT PROGRAM
counted=$(python3 "$(dirname "$0")/../tools/machine_code.py" "$1") || exit $?
stated=$("$2" --self-check '--test-case=ladder: instructions*' | sed -n 's/^counted: //p')
[ "$stated" ] || { echo "'$2' states nothing"; exit 1; }
wrong=$(echo "$stated" | grep -vxF "$(echo "$counted" | sed 's/: .*; /: /')")
[ ! "$wrong" ] || { echo "stated, and not so: $wrong"; exit 1; }
echo "as stated: $(echo "$stated" | sort -u | wc -l) kernels"
