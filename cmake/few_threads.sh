#!/bin/sh
# few_threads.sh SAMPLE CXX EXPERIMENT: where the system refuses the third thread of eight, EXPERIMENT ends, with exit
# code 1, one line that names the thread, and no file. (No limit holds for root: a library of our own stands before the
# system's, with eight cores and two threads to give.)
set -eu
sample=$1 cxx=$2 experiment=$3
rm -f out.csv
cat >few_threads.cpp <<'END'
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>

#include <atomic>

extern "C" int get_nprocs() { return 8; }

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
                              void* argument) {
  static std::atomic<int> left = 2;
  if (--left < 0) return EAGAIN;
  static const auto create = reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
  return create(thread, attributes, start, argument);
}
END
"$cxx" -std=c++17 -shared -fPIC -o few_threads.so few_threads.cpp -ldl

code=0
export CUDA_VISIBLE_DEVICES=-1
LD_PRELOAD=./few_threads.so "$sample" --quick --csv out.csv "$experiment" >out 2>err || code=$?
cat err
test $code = 1
test "$(wc -l <err)" = 1
test ! -e out.csv
# a driver that is there may have taken a thread itself
grep -Eq "^$(basename "$sample"): cannot start thread [1-3] of 8 on the host: Resource temporarily unavailable\$" err
