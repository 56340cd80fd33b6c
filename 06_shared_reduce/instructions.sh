#!/bin/sh
# Is ladder compiled to as many instructions as it states? Exit code 77: nothing can be looked into.
#   instructions.sh OBJECT PROGRAM
counted=$(python3 "$(dirname "$0")/../tools/machine_code.py" "$1") || exit $?
stated=$("$2" --self-check '--test-case=ladder: instructions*' | sed -n 's/^counted: //p')
[ "$stated" ] || { echo "'$2' states nothing"; exit 1; }
names=$(echo "$stated" | sed 's/: .*//' | sort -u | paste -s -d '|' -)
counted=$(echo "$counted" | sed 's/: .*; /: /' | grep -E "^($names): ")  # two kernels may have one name
wrong=$(echo "$counted" | grep -vxF "$stated"; echo "$stated" | grep -vxF "$counted")
[ ! "$wrong" ] || { echo "stated, and not so: $wrong"; exit 1; }
echo "as stated: $(echo "$stated" | sort -u | wc -l) kernels"
