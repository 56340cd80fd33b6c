// The main function of every program of exercises.
#include "../common/your_turn.hpp"

int main(int argc, char** argv) { return your_turn::run(argc, argv); }
