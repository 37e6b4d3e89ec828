// The load generator's flags.

#ifndef CELLBATCH_LOADGEN_OPTIONS_H_
#define CELLBATCH_LOADGEN_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/security.h"
#include "loadgen/arrivals.h"
#include "loadgen/mix.h"
#include "loadgen/sweep.h"

namespace cellbatch {

struct Options {
  std::string url = "localhost:8001";
  Security security;
  std::vector<MixEntry> entries;  // what is sent: one of --model, or those of --mix
  double duration = 20;
  double warmup = 5;
  int64_t seed = 1;
  std::string json;
  std::string csv;
  std::string records;
  double timeout = 10;
  int64_t connections = 4;
  int64_t most_outstanding = 65536;
  int64_t min_answers = 459;
  int64_t in_flight = 256;
  double capacity_warmup = 2;
  double capacity_duration = 5;
  double cooldown = 1;
  double null_target_ms = -1;  // negative: a real server

  // From text, checked.
  ArrivalProcess process = ArrivalProcess::kPoisson;
  bool measure_capacity = false;
  bool sweep = false;
  std::vector<Rate> rates;  // one, or the points of the sweep; none where only capacity is wanted

  bool needs_capacity() const;
  // One of the files is "-": a program reads stdout, and nothing else may be written there.
  bool stdout_is_a_file() const;
};

// None, and the help text in `help`, where --help was given. INVALID_ARGUMENT names what is wrong.
absl::StatusOr<std::optional<Options>> ParseOptions(const std::vector<std::string>& arguments,
                                                    std::string& help);

}  // namespace cellbatch

#endif  // CELLBATCH_LOADGEN_OPTIONS_H_
