// The main function of every exercise.
#include "../common/your_turn.hpp"

const char* const your_turn::exercise_name = YOUR_TURN_NAME;

int main(int argc, char** argv) { your_turn::run(argc, argv); }
