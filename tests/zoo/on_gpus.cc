// On this machine's first GPU, for the program that tests/gpu/check brings there; no test of tests/run.
#include <cstdlib>
#include <sstream>

#include "cells/check.h"
#include "tests/conformance/real_cuda.h"
#include "tests/zoo/computes.h"

namespace cellbatch::zoo {
namespace {

std::string Environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

// On two queues of it. CELLBATCH_ZOO_FLAGS: more of the server's flags, spaces between.
Computes WhatComputes() {
  const auto& api = conformance::LoadedCuda();
  Check(api.ok(), api.status().ToString());
  Computes computes = {
      {"--devices=cuda:0,cuda:0", "--cuda-libraries=" + Environment("CELLBATCH_CUDA_LIBRARIES")},
      {}};
  std::istringstream more(Environment("CELLBATCH_ZOO_FLAGS"));
  for (std::string flag; more >> flag;) computes.flags.push_back(flag);
  return computes;
}

}  // namespace cellbatch::zoo
