// The devices that a server takes if it is told nothing.
#include "tests/zoo/zoo_server.h"

namespace cellbatch::zoo {

std::vector<std::string> ServerFlags() { return {}; }
std::vector<std::string> ServerEnvironment() { return {}; }

}  // namespace cellbatch::zoo
