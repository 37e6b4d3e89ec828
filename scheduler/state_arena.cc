#include "scheduler/state_arena.h"

#include <bit>

#include "cells/check.h"

namespace cellbatch {

RowPool::RowPool(int32_t num_rows)
    : tags_(new Tag[static_cast<size_t>(num_rows) + 1]),
      stacks_(new Stack[kNumStacks]),
      num_rows_(num_rows) {
  Check(num_rows >= 2 && num_rows < (1 << 30), "a table has 2 to 2^30 rows");
  for (auto& level : lists_) level.fill(-1);
  SetRun(0, 1, false);
  SetRun(num_rows, 1, false);
  SetRun(1, num_rows - 1, true);
  Link(1, num_rows - 1);
}

void RowPool::SetRun(Row first, int32_t size, bool free) {
  const int32_t tag = free ? -size : size;
  tags_[first].head = tag;
  tags_[first + size - 1].tail = tag;
}

void RowPool::Link(Row first, int32_t size) {
  const Bin b = BinOf(size);
  int32_t& list = lists_[static_cast<size_t>(b.level)][static_cast<size_t>(b.bin)];
  tags_[first].prev = -1;
  tags_[first].next = list;
  if (list >= 0) tags_[list].prev = first;
  list = first;
  bins_[static_cast<size_t>(b.level)] |= 1u << b.bin;
  levels_ |= 1u << b.level;
}

void RowPool::Unlink(Row first, int32_t size) {
  const Tag& tag = tags_[first];
  if (tag.next >= 0) tags_[tag.next].prev = tag.prev;
  if (tag.prev >= 0) {
    tags_[tag.prev].next = tag.next;
    return;
  }
  const Bin b = BinOf(size);
  const size_t level = static_cast<size_t>(b.level);
  lists_[level][static_cast<size_t>(b.bin)] = tag.next;
  if (tag.next >= 0) return;
  bins_[level] &= ~(1u << b.bin);
  if (bins_[level] == 0) levels_ &= ~(1u << b.level);
}

inline Row RowPool::Pop(Stack& stack) {
  const Row first = stack.top;
  --stack.count;
  stack.top = tags_[first].prev;
  if (stack.top >= 0) __builtin_prefetch(&tags_[stack.top], 1);
  return first;
}

std::optional<Row> RowPool::Reserve(uint32_t owner, int32_t count) {
  Check(count >= 1, "an empty run of rows is asked for");
  std::optional<Row> first;
  const int32_t size = SizeFor(count);
  if (count <= kLargestStacked && StackFor(count).count > 0) {
    first = Pop(StackFor(count));
    stacked_rows_ -= size;
  } else {
    first = ReserveFitting(size);
    if (!first && CoalesceStacks()) first = ReserveFitting(size);
    if (!first) return std::nullopt;
  }
  tags_[*first].next = static_cast<int32_t>(owner);
  used_ += size;
  return first;
}

std::optional<Row> RowPool::ReserveFitting(int32_t count) {
  if (count >= num_rows_) return std::nullopt;
  const Bin b = FittingBin(count);
  size_t level = static_cast<size_t>(b.level);
  uint32_t bins = bins_[level] & (~0u << b.bin);
  if (bins == 0) {
    const uint32_t levels = levels_ & (~0u << (b.level + 1));
    if (levels == 0) return std::nullopt;
    level = static_cast<size_t>(std::countr_zero(levels));
    bins = bins_[level];
  }
  const Row first = lists_[level][static_cast<size_t>(std::countr_zero(bins))];
  const int32_t size = -tags_[first].head;
  Unlink(first, size);
  SetRun(first, count, false);
  if (size > count) {
    SetRun(first + count, size - count, true);
    Link(first + count, size - count);
  }
  return first;
}

void RowPool::Release(uint32_t owner, Row first, int32_t count) {
  Check(first >= 1 && first + count <= num_rows_, "rows beyond the table are returned");
  const int32_t size = SizeFor(count);
  Tag& tag = tags_[first];
  Check(tag.head == size && tag.next == static_cast<int32_t>(owner),
        "rows are returned by someone who does not own them");
  used_ -= size;
  tag.next = kNobody;  // returning it twice is noticed
  if (count <= kLargestStacked && StackFor(count).count < DepthOf(size)) {
    Stack& stack = StackFor(count);
    ++stack.count;
    tag.prev = stack.top;
    stack.top = first;
    stacked_rows_ += size;
    return;
  }
  Coalesce(first, size);
}

void RowPool::Coalesce(Row first, int32_t count) {
  Row begin = first;
  int32_t size = count;
  if (const int32_t after = tags_[first + count].head; after < 0) {
    Unlink(first + count, -after);
    size += -after;
  }
  if (const int32_t before = tags_[first - 1].tail; before < 0) {
    begin = first + before;
    Unlink(begin, -before);
    size += -before;
  }
  tags_[first].head = 0;  // inside a free run now
  SetRun(begin, size, true);
  Link(begin, size);
}

// True if there was anything to coalesce.
bool RowPool::CoalesceStacks() {
  if (stacked_rows_ == 0) return false;
  for (size_t i = 0; i < kNumStacks; ++i) {
    while (stacks_[i].count > 0) {
      const Row first = Pop(stacks_[i]);
      Coalesce(first, tags_[first].head);
    }
  }
  stacked_rows_ = 0;
  return true;
}

std::optional<uint32_t> RowPool::OwnerAt(Row first) const {
  for (Row row = 1; row < num_rows_;) {
    const int32_t tag = tags_[row].head;
    if (row == first && tag > 0 && tags_[row].next != kNobody) {
      return static_cast<uint32_t>(tags_[row].next);
    }
    row += tag < 0 ? -tag : tag;
  }
  return std::nullopt;
}

bool RowPool::Consistent() const {
  int32_t used = 0;
  int64_t free_runs = 0;
  bool was_free = false;
  for (Row row = 1; row < num_rows_;) {
    const int32_t tag = tags_[row].head;
    const int32_t size = tag < 0 ? -tag : tag;
    if (size == 0 || row + size > num_rows_ || tags_[row + size - 1].tail != tag) return false;
    if (tag < 0 && was_free) return false;
    was_free = tag < 0;
    if (was_free) ++free_runs;
    if (!was_free) used += size;
    row += size;
  }
  int32_t stacked = 0;
  for (size_t i = 0; i < kNumStacks; ++i) {
    const int32_t size = LeastOf({static_cast<int>(i) / kBins, static_cast<int>(i) % kBins});
    int32_t left = stacks_[i].count;
    for (Row row = stacks_[i].top; row >= 0; row = tags_[row].prev) {
      if (tags_[row].head != size || tags_[row].next != kNobody || left-- == 0) return false;
      stacked += size;
    }
    if (left != 0) return false;
  }
  if (stacked != stacked_rows_ || used != used_ + stacked) return false;
  for (size_t level = 0; level < lists_.size(); ++level) {
    for (size_t bin = 0; bin < lists_[level].size(); ++bin) {
      const bool listed = (bins_[level] >> bin & 1) != 0;
      if (listed != (lists_[level][bin] >= 0)) return false;
      for (int32_t row = lists_[level][bin]; row >= 0; row = tags_[row].next) {
        const Bin b = BinOf(-tags_[row].head);
        if (tags_[row].head >= 0 || static_cast<size_t>(b.level) != level ||
            static_cast<size_t>(b.bin) != bin) {
          return false;
        }
        --free_runs;
      }
    }
  }
  return free_runs == 0;
}

StateArena::StateArena(absl::Span<const int32_t> rows_per_table) {
  pools_.reserve(rows_per_table.size());
  for (int32_t rows : rows_per_table) {
    pools_.emplace_back(rows);
    rows_total_ += rows - 1;
  }
}

bool StateArena::Reserve(uint32_t owner, absl::Span<const int32_t> counts, absl::Span<Row> bases) {
  for (size_t t = 0; t < counts.size(); ++t) {
    if (counts[t] == 0) continue;
    const std::optional<Row> base = pools_[t].Reserve(owner, counts[t]);
    if (!base) {
      for (size_t back = 0; back < t; ++back) {
        if (counts[back] > 0) pools_[back].Release(owner, bases[back], counts[back]);
      }
      return false;
    }
    bases[t] = *base;
  }
  for (int32_t count : counts) rows_used_ += count;
  return true;
}

void StateArena::Release(uint32_t owner, absl::Span<const int32_t> counts,
                         absl::Span<const Row> bases) {
  for (size_t t = 0; t < counts.size(); ++t) {
    if (counts[t] == 0) continue;
    pools_[t].Release(owner, bases[t], counts[t]);
    rows_used_ -= counts[t];
  }
}

}  // namespace cellbatch
