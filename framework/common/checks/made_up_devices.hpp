// GPUs that are nowhere in this machine, for self-checks: what an experiment would take on them is
// computed without a GPU. Only self-checks include this.
#pragma once

#include "../experiment.hpp"

/// Seven GPUs, each with all of its memory free, with 4 GiB and with 2 GiB: 21 devices. Their names
/// say which. Numbers that NVIDIA publishes are theirs; made_up_devices.cpp says what is not.
std::vector<Device> made_up_devices();

/// Whether a made-up device has all of its memory free.
bool all_is_free(const Device& device);

using samples::Needs;

/// The body of a case "<experiment>: ... on made-up GPUs": for all of them, and for a quick, a
/// plain and a full run, what is allocated fits with a tenth to spare, and what is touched is
/// beyond the L2 where all memory is free. `needs_of(run)` is the experiment's own computation.
void check_on_made_up_devices(const Function<Needs(const Run&)>& needs_of);
