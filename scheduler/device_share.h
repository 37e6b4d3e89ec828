// One lane's share of device time, so that lanes take turns: least virtual time first. A task is charged by what its
// like took last in the same memory (of a size not seen yet: the next smaller one), and corrected when its own time
// is known. Warm-up tasks are charged as all others.
//
// A lane that wakes is not owed the time it slept, nor does it owe the time it was alone: it is lifted to where the
// lanes are that ran last (Wake). The manager's alone.
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

  // Whether it had use for devices when Wake was last called; now it has, or has not.
  bool was_awake() const { return was_awake_; }
  void Wake(bool awake, double virtual_now_ns);

 private:
  // Of the smallest tasks of a type; those twice as large follow.
  int64_t* Expected(int memory, int type);

  const int num_types_;
  const double weight_;
  double virtual_ns_ = 0;
  bool was_awake_ = false;
  std::vector<int64_t> expected_ns_;  // by memory, type, log2 of nodes: what such a task took last
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_DEVICE_SHARE_H_
