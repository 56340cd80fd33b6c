// Self-checks of ladder.cu, compiled in its place where BUILD_TESTING is on.
#include "../ladder.cu"

#include "../../common/checks/standard.hpp"

EXPERIMENT_CHECKS(ladder)
