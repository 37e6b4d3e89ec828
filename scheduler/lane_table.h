// Which lanes there are, and which of them take requests.
//
//   control thread   Find a place -> Put -> (the lane warms) -> Open     ...     Close -> (it drains) -> Remove
//   Submit                                                      OpenAt: index and serial, no lock
//   readers                          Find, All: the lane itself, shared: it lives until the last lets go
//
// An index is used again, a serial never: a request that names both cannot reach a lane that came after its
// own. What devices' memories hold of a lane is the control thread's to give back (Lane::Unload), so that a
// reader that lets go last frees nothing but host memory.
//
// Threads: Free, Put, Open, Close and Remove by one control thread at a time; the rest by any. The mutex is
// held for kMaxLanes pointers, never while anything is read through them.
#ifndef CELLBATCH_SCHEDULER_LANE_TABLE_H_
#define CELLBATCH_SCHEDULER_LANE_TABLE_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "cells/model.h"
#include "scheduler/lane.h"

namespace cellbatch {

inline constexpr int kMaxLanes = kMostModels + 1;

class LaneTable {
 public:
  struct Place {
    int index;
    uint32_t serial;
    bool node_facts = false;  // of an open lane: its policy asks for NodeFacts
  };

  // Where a lane of that model may be put. ALREADY_EXISTS; RESOURCE_EXHAUSTED: every index is in use.
  absl::StatusOr<Place> FindPlace(const Model& model);
  void Put(std::shared_ptr<Lane> lane);
  // From here on, until Close, Submit finds it.
  void Open(const Lane& lane);
  void Close(const Lane& lane);
  void CloseAll();
  void Remove(const Lane& lane);

  // The open lane of that model; none: Submit takes nothing for it.
  std::optional<Place> OpenAt(ModelId model) const;
  // The lane of that model, warming or closing ones too; null: none.
  std::shared_ptr<Lane> Find(ModelId model) const;
  // The same, if it is open: what it measured holds still.
  std::shared_ptr<const Lane> FindOpen(ModelId model) const;
  std::vector<std::shared_ptr<const Lane>> All() const;

 private:
  // Serial and model; 0: nothing there is open.
  static uint64_t OpenWord(uint32_t serial, ModelId model) {
    return uint64_t{serial} << 32 | static_cast<uint32_t>(model.value());
  }

  mutable std::mutex mutex_;  // guards lanes_
  std::array<std::shared_ptr<Lane>, kMaxLanes> lanes_;
  uint32_t next_serial_ = 1;
  std::array<std::atomic<uint64_t>, kMaxLanes> open_ = {};
  std::array<std::atomic<bool>, kMaxLanes> node_facts_ = {};  // of those; before `open_` says so
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_LANE_TABLE_H_
