#!/bin/sh
# Is ladder still compiled to the instructions from which its column "issued" was read? Exit code 77: nothing can be looked into.
#   instructions.sh OBJECT
counted=$(python3 "$(dirname "$0")/../tools/machine_code.py" "$1") || exit $?
stated='reduce: 66 instructions
reduce1: 52 instructions
reduce1_at: 63 instructions
reduce2: 48 instructions
reduce2_divided: 66 instructions
reduce_mask: 50 instructions
reduce_shuffle: 112 instructions
reduce_vector: 152 instructions'
names=$(echo "$stated" | sed 's/: .*//' | paste -s -d '|' -)
counted=$(echo "$counted" | sed 's/: .*; /: /' | grep -E "^($names): ")
wrong=$(echo "$counted" | grep -vxF "$stated"; echo "$stated" | grep -vxF "$counted")
[ ! "$wrong" ] || { echo "stated, and not so: $wrong"; exit 1; }
echo "as stated: $(echo "$stated" | wc -l) kernels"
