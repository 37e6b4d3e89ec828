// The model and the requests that the scheduler's benchmark schedules: sizes and shapes like real
// ones, contents of no account.
#ifndef CELLBATCH_TESTS_BENCH_SCHEDULER_BENCH_MODELS_H_
#define CELLBATCH_TESTS_BENCH_SCHEDULER_BENCH_MODELS_H_

#include <cstdint>
#include <memory>
#include <random>

#include "cells/model.h"
#include "scheduler/request.h"

namespace cellbatch {

// An LSTM with a head, a tree's leaf and inner cell, a lattice's word and merge cells; h = 1024.
std::shared_ptr<const Model> BenchModel(int32_t max_batch);

// A sentence of Europarl-like length (mean 24, p99 about 100, at most 330): chain and head.
std::unique_ptr<Request> Sentence(std::shared_ptr<const Model> model, std::mt19937& random);
// A binary tree over a sentence of 2 to 50 words (mean 19): a set of leaves, single inner nodes, head.
std::unique_ptr<Request> Tree(std::shared_ptr<const Model> model, std::mt19937& random);
// A lattice over 20 characters with words: single nodes, each merging what ends there.
std::unique_ptr<Request> Lattice(std::shared_ptr<const Model> model, std::mt19937& random);
// A chain that outlives the benchmark.
std::unique_ptr<Request> EndlessChain(std::shared_ptr<const Model> model);

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_BENCH_SCHEDULER_BENCH_MODELS_H_
