#!/usr/bin/env bash
# contract.sh PROGRAM: the command line of a topic's program, on machines with and without a GPU.
set -u
[ $# = 1 ] || { echo "usage: contract.sh PROGRAM" >&2; exit 2; }
program=$(realpath "$1")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0

# expect CODE ARGUMENTS...: the exit code; and of an error one line on standard error
expect() {
  local code=$1
  shift
  "$program" "$@" >"$folder/out" 2>"$folder/err"
  local got=$? lines
  lines=$(wc -l <"$folder/err")
  if [ $got != "$code" ] || [ "$lines" != $((code == 1 || code == 2)) ]; then
    echo "$* ended with $got, not $code; $lines lines on standard error:"
    cat "$folder/err"
    failed=1
  fi
}

"$program" --list >"$folder/list" || failed=1
experiment=$(awk 'NR == 1 { print $1 }' "$folder/list")
[ -n "$experiment" ] || { echo "--list prints nothing"; exit 1; }

expect 0 --list
expect 0 --help
expect 2 no_such_experiment
expect 2 --no-such-option
expect 2 --csv
expect 2 --device
expect 2 --device one
expect 2 --self-check --test-case=no_such_case
expect 2 --self-check --tset-case=x
expect 2 --self-check --test-case=,,
expect 2 $'no\nsuch\e[2J experiment'
expect 2 "$(printf 'x%.0s' {1..100000})"
expect 1 --csv ""
expect 0 --quick "$experiment"
grep -q "^nothing is measured" "$folder/out"
without_gpu=$?
if [ $without_gpu = 0 ]; then  # what was recorded is found from anywhere
  (cd / && "$program" --quick "$experiment") | cmp -s - "$folder/out" || { echo "started in /, it shows something else"; failed=1; }
fi
expect $((without_gpu == 0 ? 1 : 2)) --device 99  # without a GPU nothing can be measured; with one it is not there
expect 1 --quick --csv "$folder/missing/x.csv" "$experiment"
expect 1 --quick --csv /dev/full "$experiment"
"$program" --list >/dev/full 2>"$folder/err"
[ $? = 1 ] || { echo "a full disk is no error"; failed=1; }

# a made-up driver: CUDA VERSION, and what its first call returns
made_up() {
  VERSION=$1 RETURNS=$2 LD_LIBRARY_PATH="$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" \
    "$program" --quick "$experiment" >"$folder/out" 2>"$folder/err" || { echo "with a driver of $1 it ends with $?"; failed=1; }
  grep -q "$3" "$folder/out" || { echo "a driver of $1 that returns $2 is shown as: $(head -n 1 "$folder/out")"; failed=1; }
}
cat >"$folder/driver.c" <<'END'
#include <dlfcn.h>
#include <stdlib.h>
int cuInit(unsigned flags) { return atoi(getenv("RETURNS")); }
int cuDriverGetVersion(int *version) { return *version = atoi(getenv("VERSION")), 0; }
static int other(void) { return atoi(getenv("RETURNS")); }
int cuGetProcAddress_v2(const char *name, void **function, int version, unsigned long long flags, int *found) {
  void *self = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  *function = self ? dlsym(self, name) : 0;
  if (!*function) *function = (void *)other;
  if (found) *found = 0;
  return 0;
}
int cuGetProcAddress(const char *name, void **function, int version, unsigned long long flags) {
  return cuGetProcAddress_v2(name, function, version, flags, 0);
}
END
if cc -shared -fPIC -o "$folder/libcuda.so.1" "$folder/driver.c" -ldl 2>"$folder/err"; then
  made_up 11040 100 "the driver is too old: it knows CUDA 11.4, and this program is of CUDA 1[2-9]"
  made_up 19000 100 "cudaErrorNoDevice, no CUDA-capable device"
  made_up 19000 999 "cudaErrorUnknown, unknown error"
fi
rm -f "$folder"/{driver.c,libcuda.so.1}
if [ $without_gpu != 0 ]; then
  expect 0 --quick --csv "$folder/saved" "$experiment"
  head -n 1 "$folder/saved" | grep -q "^# .* on .*, compute capability .*, quick$" || { echo "the CSV has no heading"; failed=1; }
  echo mine >"$folder/kept.part"
  ln -s kept "$folder/link"
  expect 0 --quick --csv "$folder/link" "$experiment"
  { [ -L "$folder/link" ] && [ -s "$folder/kept" ] && [ "$(cat "$folder/kept.part")" = mine ]; } || { echo "--csv through a link"; failed=1; }
  rm -f "$folder"/{saved,link,kept,kept.part}
fi
rm -f "$folder"/{out,err,list}
[ -z "$(ls -A "$folder")" ] || { echo "left behind: $(ls -A "$folder")"; failed=1; }
exit $failed
