// What the zoo's server computes on: link one of on_cpus, on_emulated_gpus, on_gpus.
#ifndef CELLBATCH_TESTS_ZOO_COMPUTES_H_
#define CELLBATCH_TESTS_ZOO_COMPUTES_H_

#include <string>
#include <vector>

namespace cellbatch::zoo {

struct Computes {
  std::vector<std::string> flags;        // of the server
  std::vector<std::string> environment;  // beside ours
};

Computes WhatComputes();

}  // namespace cellbatch::zoo

#endif  // CELLBATCH_TESTS_ZOO_COMPUTES_H_
