// All that a run may send: the requests of one model, or of several with weights.
//
//   parts    treelstm (3)            nmt (1)
//   order    t t n t  n t t t ..     whose turn it is: exact shares of any number of requests, shuffled
//            | |   |    | | |
//            whole permutations of the part's entries, each part its own
//
// Immutable after Create; any thread.

#ifndef CELLBATCH_LOADGEN_WORKLOAD_H_
#define CELLBATCH_LOADGEN_WORKLOAD_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/async_caller.h"
#include "client/client.h"
#include "loadgen/mix.h"
#include "loadgen/requests.h"

namespace cellbatch {

// One request of a schedule: which part's, which of its entries.
struct Pick {
  uint32_t part = 0;
  uint32_t entry = 0;
};

class Workload {
 public:
  struct Part {
    std::string name;  // the model's; told apart by the call where a model comes twice
    std::string model;
    double weight = 1;
    int64_t inputs = 1;  // of each request
    std::unique_ptr<RequestSet> requests;
  };

  // At least one part.
  explicit Workload(std::vector<Part> parts);

  const std::vector<Part>& parts() const { return parts_; }
  // Distinct requests, of all parts.
  size_t size() const;
  int32_t length(Pick pick) const { return parts_[pick.part].requests->length(pick.entry); }

  // Equal issue: who is sent when, the same for the same seed. Of one part, whole permutations of its
  // entries; of several, each in its own, shared out by weight.
  std::vector<Pick> Order(size_t count, uint64_t seed) const;

  // How many of `wanted` requests may be in flight for one who sends as answers come: no part's share of them is more than
  // that part's most_at_once. At least one.
  int MostInFlight(int wanted) const;

  // The pick's request with contents number `turn`. Allocates nothing.
  PreparedRequest Request(Pick pick, uint64_t turn) const {
    return parts_[pick.part].requests->Request(pick.entry, turn);
  }

  // "treelstm", "treelstm+nmt"
  std::string name() const;
  // For people: what is sent, a line for each part.
  std::string description() const;

 private:
  std::vector<Part> parts_;
};

// Asks the server what each model reads, and makes all bytes. The server's error where a model is not there; where a
// field and a model do not go together, an error that names both.
absl::StatusOr<std::unique_ptr<Workload>> MakeWorkload(Client& client,
                                                       const std::vector<MixEntry>& entries,
                                                       uint64_t seed);

}  // namespace cellbatch

#endif  // CELLBATCH_LOADGEN_WORKLOAD_H_
