// Row numbers of one model in one memory: a request's rows of every table, all or nothing.
//
// Two-level segregated fit with immediate coalescing, over numbers only (the rows themselves are the
// LoadedModel's). Sizes are binned 16 to a power of two; a run is taken from a bin whose every run
// is large enough, so Reserve and Release cost O(1) per table. When everything is free, every run of
// at most MaxRun() = 15/16 of the table fits: a request within it can always finish alone.
//
// Before that stands a small stack of runs for each small size, given back and not coalesced: what
// comes next is mostly of a size that left just now, and touches one tag instead of six scattered
// ones (10 of 24 ns a chain node went there). Size classes alone dead-lock when the mix of lengths
// changes; so before Reserve says no, it coalesces all of them and looks again.
//
//   rows  | 0 |  used by 7  |   free   | used by 3 |  free ... | end
//   tags    u   h         t   h      t   h       t   h       t   u      h, t: size, < 0 if free
//
// Row 0 (zeros) is never handed out. The manager's thread alone; nothing allocates after
// construction. Returning what the caller does not own is a Check.
#ifndef CELLBATCH_SCHEDULER_STATE_ARENA_H_
#define CELLBATCH_SCHEDULER_STATE_ARENA_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "cells/ids.h"

namespace cellbatch {

// One table.
class RowPool {
 public:
  // Rows 1 .. num_rows - 1 can be had.
  explicit RowPool(int32_t num_rows);

  // The first of `count` >= 1 consecutive rows, or none. `owner` is remembered.
  std::optional<Row> Reserve(uint32_t owner, int32_t count);
  void Release(uint32_t owner, Row first, int32_t count);

  // Before Release. Inlined always: GCC drops calls of functions that only prefetch.
  [[gnu::always_inline]] void Prefetch(Row first) const { __builtin_prefetch(&tags_[first], 1); }

  int32_t num_rows() const { return num_rows_; }
  int32_t used() const { return used_; }
  int32_t MaxRun() const { return static_cast<int32_t>(int64_t{num_rows_ - 1} * 15 / 16); }
  // Who holds the run that starts at `first`; none if no run in use starts there. Tests.
  std::optional<uint32_t> OwnerAt(Row first) const;
  // Walks all runs: tags agree, no two free neighbours, lists hold exactly the free runs. O(rows).
  bool Consistent() const;

 private:
  static constexpr int kBinBits = 4;
  static constexpr int kBins = 1 << kBinBits;
  static constexpr int kLevels = 28;
  struct Tag {
    int32_t head;  // at the first row of a run: its size, negative if free
    int32_t tail;  // at its last row: the same
    int32_t next;  // at the first row of a free run: neighbours in its list; of a used one: owner
    int32_t prev;
  };
  struct Bin {
    int level, bin;
  };
  static Bin BinOf(int32_t size);       // the bin that a free run of this size is in
  static Bin FittingBin(int32_t size);  // the first bin whose every run is at least this large

  // Runs of one size that nobody owns, newest last; for the rest of the pool they are in use.
  // A whole batch of requests may leave at once, most of them with the same few rows (a ring of
  // two, one of logits): the smallest sizes have room for that.
  static constexpr int32_t kStackSizes = 64;
  static constexpr int32_t DepthOf(int32_t size) { return size <= 4 ? 1024 : 96; }
  struct Stack {
    int32_t count = 0;
    std::unique_ptr<Row[]> rows;
  };
  static constexpr int32_t kNobody = -1;

  std::optional<Row> ReserveFitting(int32_t count);
  void Coalesce(Row first, int32_t count);
  bool CoalesceStacks();
  void SetRun(Row first, int32_t size, bool free);
  void Link(Row first, int32_t size);
  void Unlink(Row first, int32_t size);

  int32_t num_rows_;
  int32_t used_ = 0;
  std::unique_ptr<Tag[]> tags_;  // num_rows_ + 1: a used run closes each end
  uint32_t levels_ = 0;          // bit l: some bin of level l holds a run
  std::array<uint32_t, kLevels> bins_ = {};
  std::array<std::array<int32_t, kBins>, kLevels> lists_;  // -1: empty
  std::unique_ptr<Stack[]> stacks_;                        // by size, up to kStackSizes
  int32_t stacked_rows_ = 0;
};

class StateArena {
 public:
  explicit StateArena(absl::Span<const int32_t> rows_per_table);

  // counts and bases by table; a count of zero takes nothing and leaves its base alone.
  bool Reserve(uint32_t owner, absl::Span<const int32_t> counts, absl::Span<Row> bases);
  void Release(uint32_t owner, absl::Span<const int32_t> counts, absl::Span<const Row> bases);

  [[gnu::always_inline]] void Prefetch(absl::Span<const int32_t> counts,
                                       absl::Span<const Row> bases) const {
    for (size_t t = 0; t < counts.size(); ++t) {
      if (counts[t] > 0) pools_[t].Prefetch(bases[t]);
    }
  }

  const RowPool& pool(TableId table) const { return pools_[static_cast<size_t>(table.value())]; }
  int64_t rows_used() const { return rows_used_; }
  int64_t rows_total() const { return rows_total_; }

 private:
  std::vector<RowPool> pools_;
  int64_t rows_used_ = 0;
  int64_t rows_total_ = 0;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_STATE_ARENA_H_
