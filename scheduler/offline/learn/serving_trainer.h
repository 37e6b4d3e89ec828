// Learns for latency what the trainer learns for batches, and cannot publish a bad table either: tables are searched in
// several encodings and from several starts (serving_search.h), the best of them on arrivals of their own is chosen, and
// that one is proved on requests and arrivals that none has seen, beside Algorithm 1, LB-greedy, agenda and what the caller
// brings (the table that takes the fewest batches). It is published only if its objective is no greater than the least of
// theirs there; else that one is.
//
//   every second request --> lessons --> tables --> choice --+
//   the others ----------> proofs  <--------------------------+-- the others
//
// Work is counted in nodes run, not in seconds, so the same input and seed publish the same everywhere. One thread; some
// 100 to 200 ns a node.
#ifndef CELLBATCH_SCHEDULER_OFFLINE_LEARN_SERVING_TRAINER_H_
#define CELLBATCH_SCHEDULER_OFFLINE_LEARN_SERVING_TRAINER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "scheduler/offline/learn/serving_search.h"
#include "scheduler/policy/policy_spec.h"

namespace cellbatch {

struct NamedPolicy {
  std::string name;
  PolicySpec spec;
  // By type, in place of the model's; empty: those. A policy with other priorities is shown, and never published: they are
  // the configuration's.
  std::vector<int32_t> priorities = {};
};

struct ServingCandidate {
  std::string name;  // "cellular", "fsm base+fill2, from cellular"
  PolicySpec spec;
  std::vector<int32_t> priorities = {};  // as NamedPolicy's
  bool is_table = false;                 // searched here
  int64_t trials = 0;
  std::vector<std::pair<int64_t, double>>
      curve;             // by trials: in parts of Algorithm 1's objective there
  double choice_ns = 0;  // the objective where the best table was chosen
  // Where it was proved: all but the tables that were not chosen.
  std::vector<double> proofs_ns;  // the objective on each list
  double objective_ns = 0, mean_ns = 0, p99_ns = 0, mean_fill = 0;
};

struct ServingTrainingOptions {
  double load = 0.6;  // of what Algorithm 1 answers in a closed loop; below 1
  double tail_weight = 0.5;
  uint64_t seed = 1;
  int64_t most_nodes = 60'000'000;  // run in all; choice and proofs go beyond
  size_t lesson_requests = 600, proof_requests = 2'000;
  std::function<void(const ServingCandidate&)> progress = nullptr;  // after each; null: nobody asks
};

struct ServingTrainingResult {
  ServingCandidate published;
  bool table_is_best = false;                // else `published` is one of the others
  std::vector<ServingCandidate> candidates;  // all, the others first
  size_t others = 0;                         // of them
  double capacity_per_s = 0, requests_per_s = 0;
  // On the proofs, by how much the best of the others is worse than the chosen table, and the standard error of that over
  // the lists.
  double gain_ns = 0, gain_error_ns = 0;
  int64_t nodes = 0;
};

// What Algorithm 1 answers in a closed loop of 256, requests/s.
double CapacityOf(const ServedModel& served, uint64_t seed);

// REQUIRES: two shapes, two cell types, no more than a state has room for.
ServingTrainingResult TrainServing(const ServedModel& served, absl::Span<const NamedPolicy> others,
                                   const ServingTrainingOptions& options);

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_OFFLINE_LEARN_SERVING_TRAINER_H_
