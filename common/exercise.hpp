// What an exercise's checks include. The program is then an exercise: without an argument it says
// "done" or "not yet".
#pragma once

#include "sample.hpp"

[[maybe_unused]] static const bool is_an_exercise = register_exercise();
