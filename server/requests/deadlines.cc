#include "server/requests/deadlines.h"

#include <chrono>
#include <utility>

#include "cells/check.h"

namespace cellbatch {

void DeadlineHeap::Put(size_t place, DeadlineEntry* entry) {
  heap_[place] = entry;
  entry->place = static_cast<int32_t>(place);
}

void DeadlineHeap::SiftUp(size_t place) {
  DeadlineEntry* entry = heap_[place];
  while (place > 0) {
    const size_t parent = (place - 1) / 2;
    if (heap_[parent]->deadline_ns <= entry->deadline_ns) break;
    Put(place, heap_[parent]);
    place = parent;
  }
  Put(place, entry);
}

void DeadlineHeap::SiftDown(size_t place) {
  DeadlineEntry* entry = heap_[place];
  for (size_t child; (child = 2 * place + 1) < heap_.size(); place = child) {
    if (child + 1 < heap_.size() && heap_[child + 1]->deadline_ns < heap_[child]->deadline_ns) {
      ++child;
    }
    if (entry->deadline_ns <= heap_[child]->deadline_ns) break;
    Put(place, heap_[child]);
  }
  Put(place, entry);
}

void DeadlineHeap::Add(DeadlineEntry& entry) {
  Check(entry.place < 0, "a deadline was added twice");
  heap_.push_back(&entry);
  SiftUp(heap_.size() - 1);
}

void DeadlineHeap::Remove(DeadlineEntry& entry) {
  if (entry.place < 0) return;
  const auto place = static_cast<size_t>(entry.place);
  Check(place < heap_.size() && heap_[place] == &entry, "a deadline is not where it says it is");
  entry.place = -1;
  DeadlineEntry* last = heap_.back();
  heap_.pop_back();
  if (last == &entry) return;
  Put(place, last);
  SiftUp(place);
  SiftDown(static_cast<size_t>(last->place));
}

DeadlineTimer::DeadlineTimer(const Clock& clock, std::function<void(TimedId)> expired)
    : clock_(clock), expired_(std::move(expired)), thread_([this] { Loop(); }) {}

DeadlineTimer::~DeadlineTimer() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void DeadlineTimer::Add(DeadlineEntry& entry) {
  bool sooner = false;
  {
    const std::lock_guard lock(mutex_);
    heap_.Add(entry);
    sooner = entry.place == 0;
  }
  if (sooner) wake_.notify_one();
}

void DeadlineTimer::Remove(DeadlineEntry& entry) {
  const std::lock_guard lock(mutex_);
  heap_.Remove(entry);
}

int DeadlineTimer::ExpireUntil(int64_t now_ns) {
  int count = 0;
  while (true) {
    TimedId whose;
    {
      const std::lock_guard lock(mutex_);
      DeadlineEntry* entry = heap_.earliest();
      if (entry == nullptr || entry->deadline_ns > now_ns) return count;
      whose = entry->whose;
      heap_.Remove(*entry);
    }
    expired_(whose);  // late news of one that is gone is harmless
    ++count;
  }
}

void DeadlineTimer::Loop() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    const DeadlineEntry* entry = heap_.earliest();
    if (entry == nullptr) {
      wake_.wait(lock);
      continue;
    }
    const int64_t left = entry->deadline_ns - clock_.NowNs();
    if (left > 0) {
      wake_.wait_for(lock, std::chrono::nanoseconds(left));
      continue;
    }
    lock.unlock();
    ExpireUntil(clock_.NowNs());
    lock.lock();
  }
}

}  // namespace cellbatch
