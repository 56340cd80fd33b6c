// The second table of `device`: how fast the memories are.
#pragma once

#include "../framework/common/experiment.hpp"

// device_rates.cu: what all multiprocessors together read in a second
void run_rates(const Run& run);
samples::Needs rates_needs(const Run& run);
std::vector<samples::Checked> rates_tasks(size_t n);
