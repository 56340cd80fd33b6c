#!/bin/sh
# Installs what building and testing need beside a CUDA toolkit, on Debian and Ubuntu. Quiet and harmless where it is there.
set -eu

command -v nvcc >/dev/null 2>&1 || [ -x /usr/local/cuda/bin/nvcc ] || {
  echo "install_packages.sh: nvcc is missing: install the CUDA toolkit (12.0 or later) first, and put its bin folder on PATH" >&2
  exit 1
}

wanted=
cmake --version >/dev/null 2>&1 || wanted=" cmake"  # it may be there and not run
for pair in ninja:ninja-build g++:g++ git:git python3:python3; do
  command -v "${pair%%:*}" >/dev/null 2>&1 || wanted="$wanted ${pair##*:}"
done
[ -e /usr/include/doctest/doctest.h ] || wanted="$wanted doctest-dev"
[ -e /usr/include/cxxopts.hpp ] || wanted="$wanted libcxxopts-dev"

if [ -n "$wanted" ]; then
  command -v apt-get >/dev/null 2>&1 || {
    echo "install_packages.sh: no apt-get here; install:$wanted" >&2
    exit 1
  }
  root=
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null 2>&1 || {
      echo "install_packages.sh: neither root nor sudo here; ask an administrator for: apt-get install$wanted" >&2
      exit 1
    }
    root=sudo
  fi
  $root apt-get update -q
  # shellcheck disable=SC2086  # a list of words
  $root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $wanted
fi

version=$(cmake --version 2>/dev/null | sed -n 's/^cmake version //p')
[ -n "$version" ] || {
  echo "install_packages.sh: $(command -v cmake) does not run: repair or remove it" >&2
  exit 1
}
[ "$(printf '3.25\n%s\n' "$version" | sort -V | head -n 1)" = 3.25 ] || {
  echo "install_packages.sh: cmake $version is too old, 3.25 or later is needed: pip install cmake, or a newer package" >&2
  exit 1
}
