#include "server/http/connection_table.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace cellbatch {

namespace {

constexpr int64_t kReservedShare = 16;

}  // namespace

const char* Name(HttpCut reason) {
  constexpr const char* kNames[kNumHttpCuts] = {"head",        "body",  "unread",     "idle",
                                                "connections", "bytes", "descriptors"};
  return kNames[static_cast<size_t>(reason)];
}

ConnectionTable::ConnectionTable(int64_t max_connections, int64_t max_held_bytes,
                                 HttpCounts& counts)
    : max_connections_(max_connections),
      max_held_bytes_(max_held_bytes),
      reserved_(std::max<int64_t>(1, max_connections / kReservedShare)),
      counts_(counts) {}

ConnectionTable::Line& ConnectionTable::LineOf(HttpStage stage) {
  if (stage == HttpStage::kIdle) return idle_;
  return stage == HttpStage::kAnswer ? answering_ : unfinished_;
}

bool ConnectionTable::Add(std::shared_ptr<Entry> entry) {
  if (size() >= max_connections_ && !CutOne(HttpCut::kConnections)) return false;
  Entry& added = *entry;
  added.stage_ = HttpStage::kHead;
  added.place_ = unfinished_.insert(unfinished_.end(), std::move(entry));
  ++stages_[static_cast<size_t>(added.stage_)];
  ++counts_.connections;
  return true;
}

void ConnectionTable::Remove(Entry& entry) {
  AddHeld(entry, -entry.held_);
  --stages_[static_cast<size_t>(entry.stage_)];
  --counts_.connections;
  LineOf(entry.stage_).erase(entry.place_);  // which may have been the last to hold it
}

void ConnectionTable::Move(Entry& entry, HttpStage stage) {
  Line& from = LineOf(entry.stage_);
  Line& to = LineOf(stage);
  if (&from != &to) to.splice(to.end(), from, entry.place_);
  --stages_[static_cast<size_t>(entry.stage_)];
  ++stages_[static_cast<size_t>(stage)];
  entry.stage_ = stage;
}

void ConnectionTable::AddHeld(Entry& entry, int64_t bytes) {
  entry.held_ += bytes;
  counts_.held_bytes.fetch_add(bytes, std::memory_order_relaxed);
}

void ConnectionTable::Hold(Entry& entry, int64_t bytes) {
  const auto more = [&] { return bytes - entry.held_; };
  // First room, then the bytes, so that whoever reads the count never sees more than the bound.
  while (counts_.held_bytes.load(std::memory_order_relaxed) + more() > max_held_bytes_) {
    const auto victim = std::ranges::find_if(unfinished_, [&](const std::shared_ptr<Entry>& e) {
      return e.get() == &entry ? entry.stage_ == HttpStage::kBody : e->held_ > 0;
    });
    if (victim == unfinished_.end()) break;
    const bool itself = victim->get() == &entry;
    Cut(**victim, HttpCut::kBytes);
    if (itself) return;
  }
  AddHeld(entry, more());
}

void ConnectionTable::Cut(Entry& entry, HttpCut reason) {
  const std::shared_ptr<Entry> kept = *entry.place_;  // until it has ended
  ++counts_.cut[static_cast<size_t>(reason)];
  kept->Cut(reason);
}

bool ConnectionTable::CutOne(HttpCut reason, const Entry* spared) {
  for (Line* line : {&idle_, &unfinished_}) {
    const auto victim = std::ranges::find_if(
        *line, [&](const std::shared_ptr<Entry>& e) { return e.get() != spared; });
    if (victim == line->end()) continue;
    Cut(**victim, reason);
    return true;
  }
  return false;
}

void ConnectionTable::ForEach(const std::function<void(Entry&)>& call) const {
  std::vector<std::shared_ptr<Entry>> all;
  for (const Line* line : {&idle_, &unfinished_, &answering_}) {
    all.insert(all.end(), line->begin(), line->end());
  }
  for (const std::shared_ptr<Entry>& entry : all) call(*entry);
}

}  // namespace cellbatch
