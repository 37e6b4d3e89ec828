// One model served several times by one cellbatch-server, once for each way of deciding, and loaded through gRPC: what the
// benchmarks `policies` and `graph_batching` share.
//
//   Rival      how it is served: a policy, a rule of joining
//   ServedPolicies the folder with all of them, and the server; both go with it
//   Rounds         what was seen of a rival at a load: each rival once in a round, so that what the machine does
//                  meanwhile is nobody's alone; what counts is the median of the rounds
//
// Requests are the load generator's built-in ones, the same at the same moments for each. The load generator shares the
// machine with the server. Everything ends the process with a message when it fails. One thread.
#ifndef CELLBATCH_TESTS_BENCH_SERVED_POLICIES_H_
#define CELLBATCH_TESTS_BENCH_SERVED_POLICIES_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/client.h"
#include "loadgen/run.h"
#include "loadgen/workload.h"
#include "tests/bench/report.h"
#include "tests/e2e/server_process.h"
#include "tests/zoo/workload.h"

namespace cellbatch {

struct Rival {
  std::string name;
  std::string config = {};      // behind the model's configuration
  std::string learn_with = {};  // more flags of cellbatch-learn
  bool learns = false;
};

// Algorithm 1, its name cellular.
Rival CellularRival();
// What cellbatch-learn publishes, as people run it: fewest batches (fsm), or latency (fsm_latency; none, and the report
// says so, of a cellbatch-learn that knows no such objective).
Rival FsmRival();
std::optional<Rival> LatencyFsmRival(Report& report);
// Graph batching of up to `most` requests, as systems do it that compute a batch as one graph: answered together. `kind`:
// packed, padded, bucketed (of width 10, padded to the bucket), whole_graphs_depth, whole_graphs_agenda; and packed_early, whose
// answers leave one by one. The name is kind_most.
Rival GraphRival(const std::string& kind, int most);

class ServedPolicies {
 public:
  // workload: the zoo's, of h units.
  ServedPolicies(const std::string& workload, int h, const std::vector<Rival>& rivals,
                 const std::string& devices, uint64_t seed, Report& report);
  ~ServedPolicies();

  // What the papers' programs compute, of built-in items; or of sequences of that length alone.
  std::unique_ptr<Workload> Load(const std::string& rival, int32_t length = 0) const;
  // Answers/s in a closed loop.
  double PerSecond(const Workload& load, int in_flight, double seconds) const;
  // Which of them answers most there, by the medians of kSweeps closed loops each, in turns; 0, unmeasured, of one.
  static constexpr int kSweeps = 3;
  size_t BestOf(const std::vector<Rival>& rivals, int in_flight, double seconds,
                Report& report) const;
  // Nodes/s of the best batches without a gap, of a model of one cell type: 1 / min T(b)/b, as `cellbatch-server --explain`
  // measures T(b) on these devices; the median of three. What `saturation` calls the ideal.
  double IdealNodesPerSecond(const std::string& rival) const;
  // Poisson arrivals, after a quarter of the time to warm up; each call has that long from when it is sent.
  RunResult RunAt(const Workload& load, double rate, double seconds,
                  std::chrono::nanoseconds timeout = std::chrono::minutes(1)) const;
  // The most memory that the server has had so far.
  int64_t PeakResidentBytes() const { return server_->PeakResidentBytes(); }

 private:
  void Learn(const Rival& rival, Report& report) const;

  const zoo::Workload model_;
  const std::string devices_;
  const uint64_t seed_;
  std::string folder_;
  std::unique_ptr<ServerProcess> server_;
  std::unique_ptr<Client> client_;
};

// Of one rival at one load.
class Rounds {
 public:
  void Add(const RunResult& run);
  // ms; none: fewer than half of the rounds were VALID. Of which tail: an index into kTails.
  std::optional<double> Median(size_t tail) const;
  // The same of any other number, ms or not.
  static std::optional<double> MedianOf(const std::vector<std::optional<double>>& rounds);
  // Of each round: none where it was not VALID.
  std::vector<std::optional<double>> Ms(size_t tail) const;
  // For a table: "4.3", with ! where it is no figure, + where most rounds fell behind.
  std::string Told(size_t tail) const;
  // What was wrong with rounds that were not VALID.
  const std::vector<std::string>& findings() const { return findings_; }

 private:
  struct Round {
    std::optional<double> ms[kTails.size()];
    bool valid, behind;
  };
  std::vector<Round> rounds_;
  std::vector<std::string> findings_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_BENCH_SERVED_POLICIES_H_
