#!/bin/sh
# own_code.sh SAMPLE: read_only reads its own code by cuobjdump. Whatever that does, the sample ends soon, with exit
# code 0 and nothing on standard error, and leaves no process behind; nor does this script, if it is ended itself.
# own_code.sh SAMPLE hang: only runs the sample with a cuobjdump that hangs.
set -eu
sample=$1 folder=$PWD mode=${2-all}
export CUDA_VISIBLE_DEVICES=-1
rm -rf fake none gone copy out err pid*
mkdir fake none gone

# However this ends, what a fake cuobjdump left hanging ends too; where nobody is left to end it, after a minute.
end_what_hangs() {
  for file in "$folder"/pid*; do
    if [ -e "$file" ]; then kill -KILL "$(cat "$file")" 2>/dev/null || true; fi
  done
}
trap end_what_hangs EXIT
trap 'exit 1' INT TERM HUP

# cuobjdump LINES: from now on a shell script of these lines is the first cuobjdump of PATH.
cuobjdump() {
  rm -f pid pid_of_child  # of the script before
  printf '#!/bin/sh\n%s\n' "$1" >fake/cuobjdump
  chmod +x fake/cuobjdump
}
# expect WHAT COMMAND...: it ends well, says nothing on standard error, and finds code in the program or ("none") not.
expect() {
  what=$1
  shift
  code=0
  "$@" --quick read_only >"$folder/out" 2>"$folder/err" || code=$?
  found=none
  if grep -q 'ld[.]global' "$folder/out"; then found=some; fi
  if [ $code != 0 ] || [ -s "$folder/err" ] || { [ "$what" != any ] && [ "$what" != $found ]; }; then
    echo "$*: expected code 0, nothing on standard error, and $what of the program's code; got $code, $found, and"
    cat "$folder/err" "$folder/fake/cuobjdump"
    exit 1
  fi
}
# ended FILE: the process whose number is in it runs no longer (or is a zombie, without a command line).
ended() {
  for _ in 1 2 3 4 5 6 7 8 9 10; do
    if [ -z "$({ tr -d '\0' <"/proc/$(cat "$1")/cmdline"; } 2>/dev/null)" ]; then return; fi
    sleep 0.2
  done
  echo "process $(cat "$1") of $1 is still there:"
  cat fake/cuobjdump
  exit 1
}
hangs_with_a_child() {
  cuobjdump "sleep 60 & echo \$! >'$folder/pid_of_child'; echo \$\$ >'$folder/pid'; wait"
}
with_fake() { PATH=$folder/fake:$PATH "$@"; }
with_none() { PATH=$folder/none CUDA_PATH=$folder/none "$@"; }

if [ "$mode" = hang ]; then
  hangs_with_a_child
  with_fake "$sample" --quick read_only >out 2>err
  exit
fi

cuobjdump 'echo ".visible .entry _Z12read_only_cu5plain"; echo "ld.global.f32 %f1, [%rd1];"; echo "}"'
expect some with_fake "$sample"
cuobjdump 'echo complaint >&2; head -c 100000 /dev/urandom'
expect none with_fake "$sample"
cuobjdump 'yes ld.global'
expect none with_fake "$sample"
cuobjdump 'echo ".entry _Z12read_only_cu5plain"; echo "ld.global.f32 "; echo "}"; exit 3'
expect none with_fake "$sample"
expect none with_none "$sample"

# it hangs: with a child that holds the pipe, and with its output closed
start=$(date +%s)
hangs_with_a_child
expect none with_fake "$sample"
ended pid
ended pid_of_child
cuobjdump "echo \$\$ >'$folder/pid'; exec sleep 60 >&-"
expect none with_fake "$sample"
ended pid
if [ $(($(date +%s) - start)) -gt 60 ]; then
  echo "the sample waited too long"
  exit 1
fi

# it hangs, and the sample is interrupted
if command -v timeout >/dev/null; then
  rm pid
  cuobjdump "echo \$\$ >'$folder/pid'; exec sleep 60"
  code=0
  with_fake timeout --preserve-status -s INT 3 "$sample" --quick read_only >out 2>err || code=$?
  test $code = 130
  if [ -e pid ]; then ended pid; fi
fi

# it hangs, and the sample is killed, and this script ended as by ctest
rm -rf early
mkdir early
(cd early && exec sh "$0" "$sample" hang) &
script=$!
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
  if [ -s early/pid_of_child ] && [ -s early/pid ]; then break; fi
  sleep 0.2
done
kill -TERM $script
pkill -KILL -P $script || true
wait $script || true
ended early/pid
ended early/pid_of_child

# the working folder is deleted; the program itself is
cd gone
rmdir "$folder/gone"
expect any "$sample"
cd "$folder"
cp "$sample" copy
exec 3<copy
rm copy
expect any /proc/self/fd/3
