// Which operations of a GPU's streams are ordered, for AccessChecker: those of one stream, and those of which one was enqueued when the
// other had begun already (the host may have seen to it: by waiting, or by a signal).
//
//   enqueued   A (stream 1)      B (stream 2)                        C (stream 2)
//   begun                                       A = 4        B = 5                C = 6
//                                   B is enqueued before A begins: whatever the host knew, it did not know of A,
//                                   and a GPU could run them in any order, or at once. C may know of A.
//
// So what is found unordered is: nothing is told of a host that waited. Operations are numbered as they begin; one runs at a
// time. What copies, fills and writes of the stream touch is kept here as ranges, the last kMostRanges.
//
// One thread at a time.
#ifndef CELLBATCH_TESTS_CUDA_EMULATOR_STREAM_ORDER_H_
#define CELLBATCH_TESTS_CUDA_EMULATOR_STREAM_ORDER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace cellbatch::emulator {

// As it comes to run.
struct StreamPlace {
  uint64_t stream = 0;        // counted from 1
  uint32_t operation = 0;     // which this is of all that begin, counted from 1: more with each
  uint32_t begun_before = 0;  // the one that had begun last when it was enqueued
  bool others_wait = false;   // operations of other streams are enqueued
};

class StreamOrder {
 public:
  struct Range {
    uint32_t operation = 0;
    uintptr_t from = 0, to = 0;
    bool writes = false;
  };

  void Begins(const StreamPlace& place);
  uint32_t now() const { return place_.operation; }
  uint64_t stream() const { return place_.stream; }

  // Whether anything that it touches can concern, or be of concern to, another stream. Mostly not.
  bool watched() const { return place_.others_wait || met_; }
  // Whether there were operations that are not ordered with this one.
  bool met_others() const { return met_; }
  // Whether that operation (0: none) is one of them.
  bool Unordered(uint32_t operation) const {
    return operation > place_.begun_before && operation != now() && Of(operation) != place_.stream;
  }
  bool SameStream(uint32_t operation) const { return Of(operation) == place_.stream; }

  // A range that this operation reads or writes.
  void Touches(uintptr_t from, uintptr_t to, bool writes);
  // One of an unordered operation that meets [from, to), one of them writing; null: none.
  const Range* Meets(uintptr_t from, uintptr_t to, bool writes) const;

  static constexpr size_t kMostRanges = 256;

 private:
  static constexpr uint32_t kRemembered = 1u << 12;  // operations
  struct Begun {
    uint32_t operation = 0;
    uint64_t stream = 0;
  };
  uint64_t Of(uint32_t operation) const {
    const Begun& begun = begun_[operation % kRemembered];
    return begun.operation == operation ? begun.stream : place_.stream;
  }

  StreamPlace place_;
  bool met_ = false;
  std::vector<Begun> begun_ = std::vector<Begun>(kRemembered);
  std::deque<Range> ranges_;
  std::vector<Range> unordered_;  // those of them, for the operation that runs
};

}  // namespace cellbatch::emulator

#endif  // CELLBATCH_TESTS_CUDA_EMULATOR_STREAM_ORDER_H_
