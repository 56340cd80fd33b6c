// What scan.cu hands in, and who checks it.
#pragma once

#include "../../framework/common/your_turn.hpp"

/// What a thread does in a step: word[to] = word[left] + word[right] if it adds, word[left] if it
/// copies instead, else nothing.
struct Sum {
  bool adds, copies;
  unsigned to, left, right;
};

struct Scan {
  Sum (*sum)(unsigned step, unsigned tid, unsigned n);
  unsigned (*result)(unsigned n);
};

void check_scan(const Scan& yours, const Scan& solution);
