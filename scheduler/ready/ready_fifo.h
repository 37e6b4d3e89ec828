// Ready subgraphs of one worker and cell type, oldest first.
//
//   head_ -> | chain | - | set of 19 | node | ... <- tail_      '-': cancelled or stolen, skipped at the head
//
// An entry knows its place (NodeRecord::position), so taking one out costs O(1). The ring is no longer than it
// was needed since it was last empty: one that walked through all of its memory would find every entry cold.
// Nothing allocates after construction unless ready subgraphs outnumber the capacity given. The manager's alone.
#ifndef CELLBATCH_SCHEDULER_READY_READY_FIFO_H_
#define CELLBATCH_SCHEDULER_READY_READY_FIFO_H_

#include <cstdint>
#include <cstdlib>
#include <memory>

#include "scheduler/ready/ready_entry.h"
#include "scheduler/ready/type_shape.h"

namespace cellbatch {

class ReadyFifo {
 public:
  ReadyFifo(const TypeShape& shape, int32_t capacity);

  // Nodes that could go into a task now; a chain counts as one.
  int32_t nodes() const { return nodes_; }
  // Of them, chains that ran already and gave way.
  int32_t given_way() const { return given_way_; }

  void Push(NodeRecord& record, RequestBlock& block) {
    if (tail_ - head_ > mask_) [[unlikely]]
      Grow();
    if (nodes_ == 0) Restart();
    record.position = static_cast<int32_t>(tail_ & mask_);
    entries_[tail_++ & mask_] = {&record, &block};
    nodes_ += NodesIn(record);
    given_way_ += GaveWay(record);
  }
  // Skips holes; a null record: empty.
  ReadyEntry Head() {
    for (; head_ != tail_; ++head_) {
      const ReadyEntry e = entries_[head_ & mask_];
      if (e.record != nullptr) return e;
    }
    return {};
  }
  void PopHead() {  // REQUIRES: Head() was just seen
    ReadyEntry& e = entries_[head_ & mask_];
    nodes_ -= NodesIn(*e.record);
    given_way_ -= GaveWay(*e.record);
    e.record = nullptr;
    ++head_;
  }
  // What an entry counts.
  int32_t NodesIn(const NodeRecord& r) const { return is_chain_ ? 1 : r.length - r.next; }
  // `count` more nodes of an entry (where all is in order: the head) were submitted, and it stays.
  void TakeFromHead(int32_t count) { nodes_ -= count; }
  // Takes out what was pushed, wherever it is. REQUIRES: it is here.
  void Remove(NodeRecord& record);

  // Where a lane has priority levels (urgent_first.h): who waits elsewhere is counted here, and lies here only while a
  // task is formed.
  void CountIn(const NodeRecord& record) {
    nodes_ += NodesIn(record);
    given_way_ += GaveWay(record);
  }
  void CountOut(const NodeRecord& record) {
    nodes_ -= NodesIn(record);
    given_way_ -= GaveWay(record);
  }
  void Place(NodeRecord& record, RequestBlock& block);  // one that is counted
  bool Holds(const NodeRecord& record) const {
    return entries_[static_cast<uint32_t>(record.position) & mask_].record == &record;
  }
  void Displace(const NodeRecord& record) { entries_[static_cast<uint32_t>(record.position)] = {}; }
  void Restart() {
    head_ = tail_ = 0;  // it holds holes at most
    mask_ = kFirstEntries - 1;
  }

  // Loads what the head and the entries behind it need, ahead of time: their records, then what those name.
  // PrefetchFirst before the first one (the last task has pushed all of it out of the caches), then
  // PrefetchNext at each head.
  void PrefetchFirst() const;
  [[gnu::always_inline]] void PrefetchNext() const {
    PrefetchRecord(kRecordAhead);
    PrefetchNamed(kNamedAhead);
  }

  // Oldest first. For failures and checks.
  template <typename Visit>
  void ForEach(Visit visit) const {
    for (uint32_t i = head_; i != tail_; ++i) {
      if (entries_[i & mask_].record != nullptr) visit(entries_[i & mask_]);
    }
  }

 private:
  int32_t GaveWay(const NodeRecord& r) const { return is_chain_ && r.next > 0 ? 1 : 0; }
  void Grow();
  static constexpr uint32_t kFirstEntries = 1024;
  // In entries, at 10 ns an entry and more: about a miss to memory from one to the other, and to the head.
  static constexpr uint32_t kRecordAhead = 24, kNamedAhead = 12;
  [[gnu::always_inline]] void PrefetchRecord(uint32_t ahead) const {
    if (tail_ - head_ <= ahead) return;
    const ReadyEntry& e = entries_[(head_ + ahead) & mask_];
    if (e.record == nullptr) return;
    __builtin_prefetch(e.record, 1);
    __builtin_prefetch(e.block->last_sequence, 1);
    if (far_bases_) __builtin_prefetch(e.block->bases() + RequestBlock::kNearBases);
  }
  [[gnu::always_inline]] void PrefetchNamed(uint32_t ahead) const {
    if (tail_ - head_ <= ahead) return;
    const ReadyEntry& e = entries_[(head_ + ahead) & mask_];
    if (e.record != nullptr) cellbatch::PrefetchNamed(e);
  }

  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  using Entries = std::unique_ptr<ReadyEntry[], Free>;
  static Entries NewEntries(uint32_t capacity);  // pages that are not used yet cost nothing

  const bool is_chain_;
  const bool far_bases_;
  uint32_t capacity_;  // that there is memory for
  uint32_t mask_ = kFirstEntries - 1;
  uint32_t head_ = 0, tail_ = 0;
  int32_t nodes_ = 0;
  int32_t given_way_ = 0;
  Entries entries_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_READY_READY_FIFO_H_
