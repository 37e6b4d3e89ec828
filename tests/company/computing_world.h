// The simulated world's model (tests/simulation/sim_world.h) with cells that compute: the same tables, types and inputs, so
// that its generator's requests of every shape run on real devices, and their answers are numbers that an interpreter knows.
// Words are below kWords, as the generator takes it. Pure; weights follow from the seed.
#ifndef CELLBATCH_TESTS_COMPANY_COMPUTING_WORLD_H_
#define CELLBATCH_TESTS_COMPANY_COMPUTING_WORLD_H_

#include <cstdint>
#include <memory>

#include "cells/model.h"
#include "tests/simulation/sim_world.h"

namespace cellbatch::company {

inline constexpr int32_t kUnits = 12, kNumWords = 16, kNumTokens = 64;

std::shared_ptr<const Model> MakeComputingModel(ModelId id, sim::Limits limits, uint64_t seed);

}  // namespace cellbatch::company

#endif  // CELLBATCH_TESTS_COMPANY_COMPUTING_WORLD_H_
