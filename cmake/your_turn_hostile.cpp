// An exercise of no topic, which hands nothing in, and a global variable's constructor that goes
// wrong before main() begins: HOSTILE says how.
#include <csignal>
#include <cstdlib>
#include <string>

namespace {

struct Hostile {
  Hostile() {
    const char* typed = std::getenv("HOSTILE");
    const std::string how = typed ? typed : "";
    volatile bool loops = how == "loops";
    while (loops) continue;
    if (how == "exits") std::exit(0);
    if (how == "crashes") std::raise(SIGSEGV);
  }
};
const Hostile hostile;

}  // namespace
