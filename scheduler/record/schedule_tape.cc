#include "scheduler/record/schedule_tape.h"

#include <cstring>

#include "cells/check.h"

namespace cellbatch {
namespace {

constexpr int kStopsInWord = 64;

constexpr uint64_t Word(TapeOp op) { return static_cast<uint64_t>(op); }

uint64_t Mixed(uint64_t hash, uint64_t word) {
  const uint64_t x = (hash ^ word) * 0x9fb21c651e98df25;
  return x ^ x >> 32;
}

// Four lanes side by side: a multiplication takes several times as long as it keeps the core from the next one.
uint64_t HashOfRows(absl::Span<const Row> rows) {
  uint64_t lanes[4] = {1, 2, 3, 4};
  size_t i = 0;
  for (; i + 8 <= rows.size(); i += 8) {
    uint64_t pairs[4];
    std::memcpy(pairs, rows.data() + i, sizeof(pairs));
    for (size_t l = 0; l < 4; ++l) lanes[l] = Mixed(lanes[l], pairs[l]);
  }
  for (; i < rows.size(); ++i) {
    lanes[i % 4] = Mixed(lanes[i % 4], static_cast<uint32_t>(rows[i]));
  }
  return Mixed(Mixed(Mixed(lanes[0], lanes[1]), lanes[2]), lanes[3]);
}

}  // namespace

int TapeOperands(uint64_t word) {
  switch (OpOf(word)) {
    case TapeOp::kStep:
    case TapeOp::kFailed:
      return 0;
    case TapeOp::kFinished:
      return 2;
    case TapeOp::kStops:
      return static_cast<int>((FieldOf(word, 8, 30) + kStopsInWord - 1) / kStopsInWord);
    case TapeOp::kControl:
    case TapeOp::kArrived:
    case TapeOp::kNews:
    case TapeOp::kContinued:
    case TapeOp::kSubmitted:
      return 1;
  }
  return -1;
}

ScheduleTape::ScheduleTape(size_t words) : mask_(words - 1), words_(new uint64_t[words]()) {
  Check((words & mask_) == 0 && words > 1, "a tape's length is a power of two");
}

void ScheduleTape::Put(uint64_t word) {
  if (next_ - last_read_ > mask_) [[unlikely]] {
    last_read_ = read_.load(std::memory_order_acquire);
    if (next_ - last_read_ > mask_) overflown_ = true;
  }
  if (overflown_) [[unlikely]]
    return;
  words_[next_++ & mask_] = word;
}

void ScheduleTape::Begin() {
  if (begun_) return;
  begun_ = true;
  Put(Word(TapeOp::kStep) | idle_ << 8);
  idle_ = 0;
}

void ScheduleTape::Mix(uint64_t word) { hash_ = Mixed(hash_, word); }

void ScheduleTape::Controlled(int kind, uint32_t serial, bool cut, bool when_idle, uint32_t turn) {
  Begin();
  Put(Word(TapeOp::kControl) | static_cast<uint64_t>(kind) << 8 | uint64_t{cut} << 16 |
      uint64_t{when_idle} << 24 | uint64_t{turn} << 32);
  Put(serial);
}

void ScheduleTape::Failed(int worker) {
  Begin();
  Put(Word(TapeOp::kFailed) | static_cast<uint64_t>(worker) << 8);
}

void ScheduleTape::Finished(int worker, const BatchedTask& task) {
  Begin();
  Put(Word(TapeOp::kFinished) | static_cast<uint64_t>(worker) << 8);
  Put(static_cast<uint64_t>(task.start_ns));
  Put(static_cast<uint64_t>(task.end_ns));
}

void ScheduleTape::BeginStops(size_t count) {
  Put(Word(TapeOp::kStops) | uint64_t{count} << 8);
  stops_left_ = count;
  stops_ = stop_bit_ = 0;
}

void ScheduleTape::AddStop(bool stops) {
  stops_ |= uint64_t{stops} << stop_bit_++;
  if (--stops_left_ > 0 && stop_bit_ < kStopsInWord) return;
  Put(stops_);
  stops_ = stop_bit_ = 0;
}

void ScheduleTape::Arrived(uint64_t request, bool bad_graph) {
  Begin();
  Put(Word(TapeOp::kArrived) | uint64_t{bad_graph} << 8);
  Put(request);
}

void ScheduleTape::News(uint32_t slot, uint64_t word) {
  Begin();
  Put(Word(TapeOp::kNews) | uint64_t{slot} << 8);
  Put(word);
}

void ScheduleTape::Continued(uint64_t request, bool failed, bool piece) {
  Begin();
  Put(Word(TapeOp::kContinued) | uint64_t{failed} << 8 | uint64_t{piece} << 16);
  Put(request);
}

void ScheduleTape::Joined(uint64_t request, int worker, absl::Span<const int32_t> bases) {
  Begin();
  Mix(request);
  Mix(static_cast<uint64_t>(worker));
  for (const int32_t base : bases) Mix(static_cast<uint32_t>(base));
}

void ScheduleTape::Submitted(int worker, int lane, const BatchedTask& task) {
  Begin();
  const uint64_t word =
      Word(TapeOp::kSubmitted) | static_cast<uint64_t>(worker) << 8 |
      static_cast<uint64_t>(lane & 0xff) << 16 | static_cast<uint64_t>(task.cell.value()) << 24 |
      static_cast<uint64_t>(task.num_nodes) << 40 | static_cast<uint64_t>(lane >> 8) << 56;
  Mix(word);
  Mix(HashOfRows({task.output_rows, static_cast<size_t>(task.num_nodes)}));
  Put(word);
  Put(hash_);
}

void ScheduleTape::StepEnds(bool worked) {
  if (worked) Begin();
  if (!begun_) {
    ++idle_;
    return;
  }
  begun_ = false;
  if (overflown_) [[unlikely]] {
    lost_steps_.store(lost_steps_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    return;
  }
  written_.store(next_, std::memory_order_release);
}

void ScheduleTape::Read(std::vector<uint64_t>& words) {
  const uint64_t written = written_.load(std::memory_order_acquire);
  uint64_t at = read_.load(std::memory_order_relaxed);
  words.reserve(words.size() + written - at);
  for (; at != written; ++at) words.push_back(words_[at & mask_]);
  read_.store(at, std::memory_order_release);
}

}  // namespace cellbatch
