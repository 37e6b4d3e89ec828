// Learns in which order a model's cells are batched so that its users wait least: a table for the FSM that makes a stated
// mix of mean and tail latency small at a stated load, in the real scheduler on simulated devices that take what this
// machine's do. As LearnOrder otherwise: proved on other requests and arrivals, and only published where none of the
// policies that need no such learning was better; the file says what it was learned for, and how good.
//
//   requests --> trainer (fewest batches) --> its policy ---+
//   devices, or a file of costs --> costs ------------------+--> serving trainer --> policy.textproto
//
// Plain function; one thread beside the devices'. Some seconds to measure, then at most --seconds' worth of nodes.
#ifndef CELLBATCH_SERVER_LEARN_LEARN_SERVING_H_
#define CELLBATCH_SERVER_LEARN_LEARN_SERVING_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "server/learn/learn_order.h"

namespace cellbatch {

struct LearnServingOptions {
  LearnOrderOptions order;
  double load = 0.6;         // of what Algorithm 1 answers in a closed loop
  double tail_weight = 0.5;  // of the 99th percentile; the rest is the mean's
  std::string devices = "auto";
  std::string costs;        // a file to read; empty: they are measured
  std::string write_costs;  // a file to write; empty: none
  int64_t most_nodes = 60'000'000;
};

// As LearnOrder.
absl::StatusOr<LearnedOrder> LearnServing(const LearnServingOptions& options);

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_LEARN_LEARN_SERVING_H_
