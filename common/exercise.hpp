// What an exercise's checks include. The program is then an exercise: without an argument it says
// "done" or "not yet".
#pragma once

#include "sample.hpp"

[[maybe_unused]] static const bool is_an_exercise = register_exercise();

/// A case of a solution's program: a wrong answer that somebody might give. A check must fail for it;
/// what it says is printed as an error, and counts as passed.
#define WRONG_ANSWER(what) TEST_CASE(("wrong: " what) * doctest::should_fail())
