#include "server/http/status/history.h"

#include <algorithm>
#include <limits>

namespace cellbatch {

namespace {

constexpr float kNone = std::numeric_limits<float>::quiet_NaN();

}  // namespace

void History::Add(const std::vector<std::pair<std::string, float>>& points) {
  const std::lock_guard lock(mutex_);
  const auto slot = static_cast<size_t>(next_ % kPoints);
  for (auto& [name, line] : lines_) line->points[slot] = kNone;
  Forget();
  for (const auto& [name, value] : points) {
    auto found = lines_.find(name);
    if (found == lines_.end()) {
      if (lines_.size() >= most_lines_) continue;
      found = lines_.emplace(name, std::make_unique<Line>()).first;
      found->second->points.fill(kNone);
    }
    found->second->points[slot] = value;
    found->second->last = next_;
  }
  ++next_;
}

// Those whose last point has just been written over.
void History::Forget() {
  std::erase_if(lines_, [this](const auto& line) { return line.second->last <= next_ - kPoints; });
}

std::vector<float> History::Of(const std::string& line) const {
  const std::lock_guard lock(mutex_);
  const int64_t count = std::min<int64_t>(next_, kPoints);
  std::vector<float> points(static_cast<size_t>(count), kNone);
  const auto found = lines_.find(line);
  if (found == lines_.end()) return points;
  for (int64_t i = 0; i < count; ++i) {
    points[static_cast<size_t>(i)] =
        found->second->points[static_cast<size_t>((next_ - count + i) % kPoints)];
  }
  return points;
}

size_t History::lines() const {
  const std::lock_guard lock(mutex_);
  return lines_.size();
}

int64_t History::seconds() const {
  const std::lock_guard lock(mutex_);
  return std::min<int64_t>(next_, kPoints);
}

}  // namespace cellbatch
