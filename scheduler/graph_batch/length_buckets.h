// The requests of one lane that wait to join, sorted into buckets of lengths: beside the lane's line, which has all of
// them oldest first, where its rule of joining asks for buckets (GraphBatching::bucket_width).
//
//   bucket  0: lengths 1 .. 10      [ ]
//           1: 11 .. 20             [ 17  12  20 ]      oldest first
//           2: 21 .. 30             [ 30 ]  <- whose turn it is; the next batch is of 1
//
// Buckets take turns, round robin, empty ones passed over: so nobody waits for more batches than there are buckets and
// full batches before him in his own. A request's length is that of its longest subgraph (of a growing graph, of its first piece).
// The manager's alone; O(1), but for Push, which looks at the request's records. Nothing allocates after construction.
#ifndef CELLBATCH_SCHEDULER_GRAPH_BATCH_LENGTH_BUCKETS_H_
#define CELLBATCH_SCHEDULER_GRAPH_BATCH_LENGTH_BUCKETS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "scheduler/request_block.h"

namespace cellbatch {

class LengthBuckets {
 public:
  // width: >= 1.
  LengthBuckets(int32_t width, int max_requests);

  void Push(RequestBlock& block);    // REQUIRES: it is not here
  void Remove(RequestBlock& block);  // REQUIRES: it is here
  // The oldest of the bucket whose turn it is; null: nobody waits in that one. `begins`: the turn passes to the next one
  // that anybody waits in, first.
  RequestBlock* Next(bool begins);

  int64_t size() const { return size_; }
  bool Has(const RequestBlock& block) const;
  static int32_t LengthOf(const RequestBlock& block);

 private:
  // What is longer stands in the last one; where sequences are padded to buckets, they are to their own edges still.
  static constexpr int32_t kBuckets = 1024;
  static constexpr int32_t kNone = -1;
  struct Place {  // of a slot
    RequestBlock* block = nullptr;
    int32_t prev = kNone, next = kNone, bucket = kNone;
  };
  struct Bucket {
    int32_t first = kNone, last = kNone;  // slots
  };
  Place& At(int32_t slot) { return places_[static_cast<size_t>(slot)]; }

  const int32_t width_;
  int32_t turn_ = kBuckets - 1;
  int64_t size_ = 0;
  std::vector<Place> places_;  // by slot
  std::vector<Bucket> buckets_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_GRAPH_BATCH_LENGTH_BUCKETS_H_
