// What unroll.cu and unroll_replies.cu have in common.
#pragma once

#include "../framework/common/experiment.hpp"

// in unroll_replies.cu: what else the replies expect of more words per thread
void unroll_replies(const Run& run);
std::vector<samples::Comparison> reply_pairs();
samples::Needs reply_needs(const Run& run);
std::vector<samples::Checked> reply_tasks(size_t n);
