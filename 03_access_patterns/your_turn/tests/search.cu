// Answers to search that are wrong or dear, and what the check has to say of them.
#include "search.hpp"

namespace {

// answer search_memory: not yet: limit: a word in the last 10 MB is found: all of the text is there
namespace memory {

constexpr Search answer = {22, Limit::device_memory, Line::malloc_text};

YOUR_TURN_TEST(search, memory, Search, (answer));

}  // namespace memory

// answer search_launch: not yet: line: it only starts the kernel, and that went well; it returns
// long before the kernel ends
namespace launch {

constexpr Search answer = {22, Limit::run_time, Line::launch};

YOUR_TURN_TEST(search, launch, Search, (answer));

}  // namespace launch

// answer search_one_load: not yet: seconds: found 11.1; loads times cycles over cycles a second are
// more
namespace one_load {

constexpr Search answer = {11.1, Limit::run_time, Line::copy_found};

YOUR_TURN_TEST(search, one_load, Search, (answer));

}  // namespace one_load

}  // namespace
