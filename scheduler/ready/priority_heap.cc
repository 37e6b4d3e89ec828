#include "scheduler/ready/priority_heap.h"

#include <algorithm>

#include "cells/check.h"

namespace cellbatch {

PriorityHeap::PriorityHeap(size_t capacity) {
  heap_.reserve(capacity);  // pages that are not used yet cost nothing
  entries_.reserve(capacity);
  free_.reserve(capacity);
}

int32_t PriorityHeap::PutBack(const Item& item) {
  int32_t handle = static_cast<int32_t>(entries_.size());
  if (free_.empty()) {
    entries_.emplace_back();
  } else {
    handle = free_.back();
    free_.pop_back();
  }
  entries_[Index(handle)].entry = item.entry;
  heap_.emplace_back();
  Up(heap_.size() - 1, {item.key, item.order, handle});
  return handle;
}

PriorityHeap::Item PriorityHeap::Remove(int32_t handle) {
  Check(Has(handle), "who waits is not where it says");
  Held& held = entries_[Index(handle)];
  const size_t at = Index(held.place);
  const Item item = {heap_[at].key, heap_[at].order, held.entry};
  held = {};
  free_.push_back(handle);
  const Node last = heap_.back();
  heap_.pop_back();
  if (at == heap_.size()) return item;
  if (at > 0 && last.Before(heap_[(at - 1) / 2])) {
    Up(at, last);
  } else {
    Down(at, last);
  }
  return item;
}

std::vector<PriorityHeap::Standing> PriorityHeap::InOrder() const {
  std::vector<Node> nodes = heap_;
  std::sort(nodes.begin(), nodes.end(), [](const Node& a, const Node& b) { return a.Before(b); });
  std::vector<Standing> all;
  for (const Node& n : nodes) all.push_back({{n.key, n.order, at(n.handle)}, n.handle});
  return all;
}

void PriorityHeap::Place(size_t at, const Node& node) {
  heap_[at] = node;
  entries_[Index(node.handle)].place = static_cast<int32_t>(at);
}

void PriorityHeap::Up(size_t at, const Node& node) {
  while (at > 0 && node.Before(heap_[(at - 1) / 2])) {
    Place(at, heap_[(at - 1) / 2]);
    at = (at - 1) / 2;
  }
  Place(at, node);
}

void PriorityHeap::Down(size_t at, const Node& node) {
  for (;;) {
    size_t child = 2 * at + 1;
    if (child >= heap_.size()) break;
    if (child + 1 < heap_.size() && heap_[child + 1].Before(heap_[child])) ++child;
    if (!heap_[child].Before(node)) break;
    Place(at, heap_[child]);
    at = child;
  }
  Place(at, node);
}

}  // namespace cellbatch
