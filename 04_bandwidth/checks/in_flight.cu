// Self-checks of in_flight.cu, compiled in its place where BUILD_TESTING is on.
#include "../in_flight.cu"

#include "../../common/checks/standard.hpp"

EXPERIMENT_CHECKS(in_flight)
