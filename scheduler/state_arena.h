// Row numbers of one model in one memory: a request's rows of every table, all or nothing.
//
// Two-level segregated fit with immediate coalescing, over numbers only (the rows themselves are the
// LoadedModel's). Sizes are binned 16 to a power of two; a run is taken from a bin whose every run
// is large enough, so Reserve and Release cost O(1) per table. When everything is free, every run of
// at most MaxRun() = 15/16 of the table fits: a request within it can always finish alone.
//
// Before that stands a small stack of runs for each bin, given back and not coalesced (counts above 32
// are rounded up to the least size of their bin, by a sixteenth at most): what comes next is mostly of a
// size that left just now, and touches one tag instead of six scattered ones (10 of 24 ns a chain node
// went there). Size classes alone dead-lock when the mix of lengths changes; so before Reserve says no,
// it coalesces all of them and looks again.
//
//   rows  | 0 |  used by 7  |   free   | used by 3 |  free ... | end
//   tags    u   h         t   h      t   h       t   h       t   u      h, t: size, < 0 if free
//
// Row 0 (zeros) is never handed out. The manager's thread alone; nothing allocates after
// construction. Returning what the caller does not own is a Check.
#ifndef CELLBATCH_SCHEDULER_STATE_ARENA_H_
#define CELLBATCH_SCHEDULER_STATE_ARENA_H_

#include <array>
#include <bit>
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
  // Before Reserve: where the runs of that size are; then, a while later, the one that comes next.
  [[gnu::always_inline]] void PrefetchStack(int32_t count) const {
    if (count <= kLargestStacked) __builtin_prefetch(&StackFor(count));
  }
  [[gnu::always_inline]] void PrefetchTop(int32_t count) const {
    if (count > kLargestStacked) return;
    if (const Row top = StackFor(count).top; top >= 0) Prefetch(top);
  }

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
  static int Log2(int32_t n) { return 31 - std::countl_zero(static_cast<uint32_t>(n)); }
  // The bin that a free run of this size is in.
  static Bin BinOf(int32_t size) {
    if (size < kBins) return {0, size};
    const int log = Log2(size);
    return {log - kBinBits + 1, (size >> (log - kBinBits)) & (kBins - 1)};
  }
  // The first bin whose every run is at least this large.
  static Bin FittingBin(int32_t size) {
    if (size < kBins) return {0, size};
    return BinOf(size + (1 << (Log2(size) - kBinBits)) - 1);
  }

  // Runs of one size that nobody owns, the newest on top; for the rest of the pool they are in use.
  // Linked through the tags (`prev` is the one below): what is taken is loaded by the link anyway.
  // A whole batch of requests may leave at once, most of them with the same few rows (a ring of
  // two, one of logits): the smallest sizes have room for that.
  static constexpr int32_t kLargestStacked = 1024;
  static constexpr size_t kNumStacks = 7 * kBins + 1;  // the last one's is that of 1024 rows
  static constexpr int32_t DepthOf(int32_t size) { return size <= 4 ? 1024 : 96; }
  struct Stack {
    int32_t count = 0;
    Row top = -1;
  };
  static int32_t LeastOf(Bin b) { return b.level == 0 ? b.bin : (kBins + b.bin) << (b.level - 1); }
  // What is reserved for `count`: the least size of its bin, so that every run in its stack fits it. No
  // other runs are found for that than would be for the count itself.
  static int32_t SizeFor(int32_t count) {
    return count <= kLargestStacked ? LeastOf(FittingBin(count)) : count;
  }
  Stack& StackFor(int32_t count) const {
    const Bin b = FittingBin(count);
    return stacks_[static_cast<size_t>(b.level * kBins + b.bin)];
  }
  static constexpr int32_t kNobody = -1;

  Row Pop(Stack& stack);
  std::optional<Row> ReserveFitting(int32_t count);
  void Coalesce(Row first, int32_t count);
  bool CoalesceStacks();
  void SetRun(Row first, int32_t size, bool free);
  void Link(Row first, int32_t size);
  void Unlink(Row first, int32_t size);

  // Together what every Reserve and Release needs; the lists of the segregated fit follow.
  std::unique_ptr<Tag[]> tags_;      // num_rows_ + 1: a used run closes each end
  std::unique_ptr<Stack[]> stacks_;  // by bin, up to that of kLargestStacked
  int32_t num_rows_;
  int32_t used_ = 0;
  int32_t stacked_rows_ = 0;
  uint32_t levels_ = 0;  // bit l: some bin of level l holds a run
  std::array<uint32_t, kLevels> bins_ = {};
  std::array<std::array<int32_t, kBins>, kLevels> lists_;  // -1: empty
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

  // Before Reserve, in this order. The tables' misses are waited for together; in Reserve, one by one.
  [[gnu::always_inline]] void PrefetchStacks(absl::Span<const int32_t> counts) const {
    for (size_t t = 0; t < counts.size(); ++t) {
      if (counts[t] > 0) pools_[t].PrefetchStack(counts[t]);
    }
  }
  [[gnu::always_inline]] void PrefetchTops(absl::Span<const int32_t> counts) const {
    for (size_t t = 0; t < counts.size(); ++t) {
      if (counts[t] > 0) pools_[t].PrefetchTop(counts[t]);
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
