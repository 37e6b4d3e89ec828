// What a lane has loaded in the devices' memories, who owns its rows there, and how many rows a table gets.
// Made on the control thread; rows are the manager's while the lane is open; sizes are anyone's.
#ifndef CELLBATCH_SCHEDULER_LANE_MEMORIES_H_
#define CELLBATCH_SCHEDULER_LANE_MEMORIES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "cells/device/memory.h"
#include "cells/model.h"
#include "scheduler/state_arena.h"

namespace cellbatch {

// Where the model does not live, both are null; where its memory went while it was loaded, the model.
struct LoadedInMemory {
  std::unique_ptr<LoadedModel> model;
  std::unique_ptr<StateArena> arena;
};

// Memories by index, as bits.
using MemorySet = uint32_t;
inline constexpr int kMostMemories = 32;
inline bool InSet(MemorySet set, int memory) { return (set >> memory & 1) != 0; }

class LaneMemories {
 public:
  // REQUIRES: it lives in one of them.
  explicit LaneMemories(std::vector<LoadedInMemory> loaded);

  int size() const { return static_cast<int>(loaded_.size()); }
  LoadedInMemory& operator[](int memory) { return loaded_[static_cast<size_t>(memory)]; }
  const LoadedInMemory& operator[](int memory) const {
    return loaded_[static_cast<size_t>(memory)];
  }
  // Those that it lives in: nothing of it is, or runs, in any other. What follows is of these.
  MemorySet lives_in() const { return lives_in_; }
  // The first of them.
  const LoadedInMemory& first() const { return loaded_[static_cast<size_t>(first_)]; }
  // Whether some memory has that many rows of each table, were it empty.
  bool Fit(absl::Span<const int32_t> counts) const;
  // By table: the longest run of rows that every memory has, were it empty.
  std::vector<int32_t> MaxRuns(size_t num_tables) const;
  int64_t rows_used() const;
  int64_t rows_total() const;
  // LoadedModel::folded of the first memory that has the model; stays.
  const std::string& folded() const { return folded_; }
  // Output rows that the warm-up tasks of each of `num_workers` may write, at most `batch_limit`.
  int32_t WarmRows(TableId out, int num_workers, int32_t batch_limit) const;
  // Gives back what the memories hold; sizes stay.
  void Unload();

 private:
  template <typename Visit>
  void ForEachArena(Visit visit) const {
    for (const LoadedInMemory& loaded : loaded_) {
      if (loaded.arena != nullptr) visit(*loaded.arena);
    }
  }

  std::vector<LoadedInMemory> loaded_;
  MemorySet lives_in_ = 0;
  int first_ = 0;
  std::string folded_;
};

// Rows per table for a budget of bytes: as many of each, more of the tables with small rows.
RowBudget DivideRows(const Model& model, int64_t bytes);
// RESOURCE_EXHAUSTED, naming the table, where one of them has fewer than `least`.
absl::Status CheckRows(const Model& model, const RowBudget& divided, int64_t bytes, int32_t least);

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_LANE_MEMORIES_H_
