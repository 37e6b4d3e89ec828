// Random requests of every shape through the real scheduler with its threads, on devices that compute: first each alone, then
// all of them many times over in one another's company, with cancels and in pieces. What is answered OK must be, bit for bit,
// what it was alone, and that must be what the interpreter says, as near as fp32 comes.
//
//   Crowd crowd(std::move(devices), options);
//   crowd.AnswerAlone();        one request at a time, each of them a batch of its own
//   crowd.AnswerTogether(n);    n requests, the same ones again and again
//
// One thread at a time.
#ifndef CELLBATCH_TESTS_COMPANY_CROWD_H_
#define CELLBATCH_TESTS_COMPANY_CROWD_H_

#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "cells/device/device.h"
#include "scheduler/scheduler.h"
#include "tests/simulation/plan.h"

namespace cellbatch::company {

struct CrowdOptions {
  uint64_t seed = 1;
  int plans = 500;       // different requests
  int outstanding = 96;  // at once
  // Few, so that rows are used again at once, and requests wait for them.
  int64_t row_budget_bytes = 256 << 10;
};

struct Tally {
  int64_t ok = 0, cancelled = 0, lost = 0, pieces = 0;
  int64_t wrong = 0;    // not the bits that it left alone
  int64_t unasked = 0;  // ended otherwise, and nobody had asked for it
};

class Crowd {
 public:
  Crowd(DeviceSet devices, const CrowdOptions& options);
  ~Crowd();

  // Of the numbers that no word decides: the largest difference from the interpreter's.
  double AnswerAlone();
  Tally AnswerTogether(int64_t requests);
  // Of all requests that were answered alone, those of which every word is the interpreter's.
  int words_as_interpreted() const { return words_as_interpreted_; }
  const Scheduler& scheduler() const { return *scheduler_; }

 private:
  struct Planned {
    sim::Plan whole, in_pieces;
    std::vector<int32_t> inputs;
    std::vector<std::vector<std::byte>> alone;  // by tensor
  };
  struct Flight;

  void Prepare();
  bool Fits(const CellGraph& graph) const;
  std::unique_ptr<Request> Make(size_t planned, bool in_pieces) const;
  double Compare(size_t planned, const CellGraph& graph);
  void Extend(Request& request, Flight& flight);
  void Judge(const Request& request, Flight& flight) const;

  const CrowdOptions options_;
  const SteadyClock clock_;
  std::shared_ptr<const Model> model_;
  std::unique_ptr<Scheduler> scheduler_;
  std::vector<Planned> planned_;
  int words_as_interpreted_ = 0;
};

}  // namespace cellbatch::company

#endif  // CELLBATCH_TESTS_COMPANY_CROWD_H_
