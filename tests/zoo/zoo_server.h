// On which devices zoo_test's server computes: one source for each choice, of which BUILD takes one.
#ifndef CELLBATCH_TESTS_ZOO_ZOO_SERVER_H_
#define CELLBATCH_TESTS_ZOO_ZOO_SERVER_H_

#include <string>
#include <vector>

namespace cellbatch::zoo {

// Behind those that the test itself gives it.
std::vector<std::string> ServerFlags();
// "NAME=VALUE" lines to add to its environment.
std::vector<std::string> ServerEnvironment();

}  // namespace cellbatch::zoo

#endif  // CELLBATCH_TESTS_ZOO_ZOO_SERVER_H_
