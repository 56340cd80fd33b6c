// Self-checks of what is measured: each row lies where its model predicts it.
#pragma once

#include "../report.hpp"

/// The body of a case of the suite "plausible": runs the experiment quickly on the current device,
/// silently, and holds each predicted row to the factor of its model.
void check_plausible(const Function<void(const Run&)>& experiment);
