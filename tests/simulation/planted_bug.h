// What a planted bug's text says of itself (mutants/NAME.txt); mutate.py writes the source of this.
#ifndef CELLBATCH_TESTS_SIMULATION_PLANTED_BUG_H_
#define CELLBATCH_TESTS_SIMULATION_PLANTED_BUG_H_

#include <string_view>
#include <vector>

namespace cellbatch::sim {

// The first thing that the simulation sees wrong has one of these texts in it. None: nothing is wrong.
std::vector<std::string_view> WhatMustNotice();

}  // namespace cellbatch::sim

#endif  // CELLBATCH_TESTS_SIMULATION_PLANTED_BUG_H_
