// Whose turn it is in a closed loop, where each answer asks for the next request. Two pieces of one stream are never under
// way together, as nothing would keep their order: a piece whose turn comes meanwhile is sent when that one is answered.
//
//   order       a1 b1 a2 b2 a3 b3 ..       (streams a, b)
//   under way   a1 b1                      b1 is answered: a2 would be next, but a1 is under way, so a2 waits; b2 is sent
//               a1    b2                   a1 is answered: a2 is sent
//
// Any thread; a mutex, for as long as a look-up in a hash table.

#ifndef CELLBATCH_LOADGEN_TURNS_H_
#define CELLBATCH_LOADGEN_TURNS_H_

#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "loadgen/workload.h"

namespace cellbatch {

class Turns {
 public:
  // No more than `in_flight` turns are under way at a time, and that is no more than the workload's MostInFlight: so there is
  // always a stream that is free.
  Turns(const Workload& workload, int in_flight, uint64_t seed);

  // The number of a turn that may be sent now.
  uint64_t First();
  // Likewise, now that turn number `answered` is answered.
  uint64_t After(uint64_t answered);

  // Turns are numbered in the workload's order, which is walked round and round.
  Pick PickOf(uint64_t turn) const { return order_[turn % order_.size()]; }

 private:
  using Stream = std::pair<uint32_t, uint32_t>;  // the part's, and its number there
  std::optional<Stream> StreamOf(uint64_t turn) const;
  uint64_t Next();

  const Workload& workload_;
  const std::vector<Pick> order_;
  std::mutex mutex_;  // guards what follows
  uint64_t next_ = 0;
  absl::flat_hash_map<Stream, std::deque<uint64_t>> under_way_;  // and what waits behind it
};

}  // namespace cellbatch

#endif  // CELLBATCH_LOADGEN_TURNS_H_
