// The main function of every exercise, and what runs before it.
#include "../common/your_turn.hpp"

namespace {

// 101 is the first priority that programs may use: no global variable's constructor runs earlier.
[[gnu::constructor(101)]] void before_all_constructors() {
  your_turn::watch_from_the_start(YOUR_TURN_NAME);
}

}  // namespace

int main(int argc, char** argv) { your_turn::run(argc, argv); }
