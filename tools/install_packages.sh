#!/bin/sh
# Installs what building and testing need beside a CUDA toolkit, on Debian and Ubuntu. Quiet and harmless where it is there.
# What CMake can fetch by itself (doctest, cxxopts), and what only draws (matplotlib), ends it well if it cannot be had here.
set -eu

command -v nvcc >/dev/null 2>&1 || [ -x /usr/local/cuda/bin/nvcc ] || {
  echo "install_packages.sh: nvcc is missing: install the CUDA toolkit (12.0 or later) first, and put its bin folder on PATH" >&2
  exit 1
}

# header NAME: where a compiler finds it first
header() {
  for folder in ${CPATH:+$(echo "$CPATH" | tr : ' ')} ${CONDA_PREFIX:+"$CONDA_PREFIX/include"} /usr/local/include /usr/include; do
    [ ! -e "$folder/$1" ] || { echo "$folder/$1"; return; }
  done
}
# at_least LEAST VERSION
at_least() { [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]; }
# version HEADER MACRO...: "2.4.9", of the numbers that these macros have; nothing if there is no such file
version() {
  [ -n "$1" ] || return 0
  file=$1
  shift
  for macro in "$@"; do sed -n "s/^#define $macro  *\([0-9][0-9]*\).*/\1/p" "$file" | head -n 1; done | paste -s -d .
}
doctest() { version "$(header doctest/doctest.h)" DOCTEST_VERSION_MAJOR DOCTEST_VERSION_MINOR DOCTEST_VERSION_PATCH; }
cxxopts() { version "$(header cxxopts.hpp)" CXXOPTS__VERSION_MAJOR CXXOPTS__VERSION_MINOR CXXOPTS__VERSION_PATCH; }

wanted=
cmake --version >/dev/null 2>&1 || wanted=" cmake"  # it may be there and not run
for pair in ninja:ninja-build g++:g++ git:git python3:python3; do
  command -v "${pair%%:*}" >/dev/null 2>&1 || wanted="$wanted ${pair##*:}"
done
optional=
[ -n "$(doctest)" ] || optional="$optional doctest-dev"
[ -n "$(cxxopts)" ] || optional="$optional libcxxopts-dev"
python3 -c "import matplotlib" >/dev/null 2>&1 || /usr/bin/python3 -c "import matplotlib" >/dev/null 2>&1 || optional="$optional python3-matplotlib"

# apt PACKAGE...: 1 if it cannot be done here
apt() {
  command -v apt-get >/dev/null 2>&1 || return 1
  root=
  if [ "$(id -u)" != 0 ]; then
    sudo -n true >/dev/null 2>&1 || { [ -t 0 ] && command -v sudo >/dev/null 2>&1; } || return 1
    root=sudo
  fi
  $root apt-get update -q && $root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@"
}
# shellcheck disable=SC2086  # lists of words
if [ -n "$wanted" ]; then
  apt $wanted || { echo "install_packages.sh: no apt-get here, or neither root nor sudo; install:$wanted" >&2; exit 1; }
fi
# shellcheck disable=SC2086
if [ -n "$optional" ]; then
  apt $optional || echo "install_packages.sh: not installed:$optional. CMake fetches doctest and cxxopts; figures need matplotlib"
fi
for pair in "doctest 2.4.9 $(doctest)" "cxxopts 3.1 $(cxxopts)"; do
  # shellcheck disable=SC2086
  set -- $pair
  [ $# = 2 ] || at_least "$2" "$3" || echo "install_packages.sh: $1 $3 is here; CMake fetches a newer one, and nvcc by hand needs $2 or later"
done

cmake=$(cmake --version 2>/dev/null | sed -n 's/^cmake version //p')
[ -n "$cmake" ] || {
  echo "install_packages.sh: $(command -v cmake) does not run: repair or remove it" >&2
  exit 1
}
at_least 3.25 "$cmake" || {
  echo "install_packages.sh: cmake $cmake is too old, 3.25 or later is needed: pip install cmake, or a newer package" >&2
  exit 1
}
