// One lane's share of device time, so that lanes take turns: least virtual time first. A task is charged by what its
// like took last in the same memory (of a size not seen yet: the next smaller one), and corrected when its own time
// is known. Warm-up tasks are charged as all others.
//
// A lane sleeps when a worker has room and it has nothing to submit anywhere: no requests, or all that they can run is
// in flight, or (a lane that warms beside others) it pauses. One that wakes is not owed the time it slept, nor does it
// owe the time it was alone: it is lifted to where the lane was that was served last. So whoever cannot use its share
// does not save it up, to keep the devices from others later. The manager's alone.
#ifndef CELLBATCH_SCHEDULER_DEVICE_SHARE_H_
#define CELLBATCH_SCHEDULER_DEVICE_SHARE_H_

#include <cstdint>
#include <vector>

namespace cellbatch {

class DeviceShare {
 public:
  // weight: a lane of weight 2 is charged half for the same time.
  DeviceShare(int num_memories, int num_types, double weight);

  double virtual_ns() const { return virtual_ns_; }
  // What a task of so many nodes is charged in advance.
  int64_t Charge(int memory, int type, int32_t nodes);
  void Correct(int memory, int type, int32_t nodes, int64_t charged_ns, int64_t actual_ns);

  // Whether it had work that could have been submitted, when a worker had room last.
  bool awake() const { return awake_; }
  void Wake(double virtual_now_ns);
  void Sleep() { awake_ = false; }

 private:
  // Of the smallest tasks of a type; those twice as large follow.
  int64_t* Expected(int memory, int type);

  const int num_types_;
  const double weight_;
  double virtual_ns_ = 0;
  bool awake_ = false;
  std::vector<int64_t> expected_ns_;  // by memory, type, log2 of nodes: what such a task took last
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_DEVICE_SHARE_H_
