#include "cells/compile/scratch_space.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace cellbatch {
namespace {

// From the first to the last step that touches something; none: first is behind last.
struct Life {
  int first = std::numeric_limits<int>::max();
  int last = -1;

  bool none() const { return last < first; }
  bool Meets(const Life& other) const { return first <= other.last && other.first <= last; }
  void Add(const Life& other) {
    first = std::min(first, other.first);
    last = std::max(last, other.last);
  }
};

struct PlacedRun {
  const ScratchRun* values = nullptr;
  Life life = {};
  int64_t width = 0;
  int64_t offset = 0;
};

std::vector<Life> LivesOf(const CellSkeleton& skeleton) {
  std::vector<Life> lives(skeleton.scratch.size());
  for (size_t s = 0; s < skeleton.steps.size(); ++s) {
    const auto step = static_cast<int>(s);
    ForEachPlace(skeleton.steps[s], skeleton.lookups, [&](const Place& place) {
      if (place.kind != PlaceKind::kScratch) return;
      lives[static_cast<size_t>(place.index)].Add({step, step});
    });
  }
  return lives;
}

// The lowest place that nobody has while `run` lives. `placed` is sorted by offset.
int64_t FirstFit(const std::vector<PlacedRun>& placed, const PlacedRun& run) {
  int64_t offset = 0;
  for (const PlacedRun& other : placed) {
    if (!run.life.Meets(other.life)) continue;
    if (offset + run.width <= other.offset) break;
    offset = std::max(offset, other.offset + other.width);
  }
  return offset;
}

// Gives each run its place, one after the other.
std::vector<PlacedRun> PlaceAll(std::vector<PlacedRun> waiting) {
  std::vector<PlacedRun> placed;
  for (PlacedRun& run : waiting) {
    run.offset = FirstFit(placed, run);
    const auto behind = std::upper_bound(
        placed.begin(), placed.end(), run,
        [](const PlacedRun& a, const PlacedRun& b) { return a.offset < b.offset; });
    placed.insert(behind, run);
  }
  return placed;
}

int64_t WidthOf(const std::vector<PlacedRun>& placed) {
  int64_t width = 0;
  for (const PlacedRun& run : placed) width = std::max(width, run.offset + run.width);
  return width;
}

}  // namespace

ScratchSpace PlaceScratch(const CellSkeleton& skeleton, const std::vector<ScratchRun>& runs,
                          int alignment) {
  const std::vector<Life> lives = LivesOf(skeleton);
  const auto used = [&](int32_t value) { return !lives[static_cast<size_t>(value)].none(); };
  const auto given = [&](int32_t value) {
    const int64_t elements = skeleton.scratch[static_cast<size_t>(value)];
    return (elements + alignment - 1) / alignment * alignment;
  };
  std::vector<PlacedRun> waiting;
  for (const ScratchRun& values : runs) {
    PlacedRun run = {.values = &values};
    for (const int32_t value : values) {
      if (!used(value)) continue;
      run.life.Add(lives[static_cast<size_t>(value)]);
      run.width += given(value);
    }
    if (!run.life.none()) waiting.push_back(run);
  }
  std::vector<PlacedRun> placed = PlaceAll(waiting);
  std::stable_sort(waiting.begin(), waiting.end(), [](const PlacedRun& a, const PlacedRun& b) {
    return a.life.first < b.life.first;
  });
  std::vector<PlacedRun> as_made = PlaceAll(std::move(waiting));
  if (WidthOf(as_made) < WidthOf(placed)) placed = std::move(as_made);
  ScratchSpace space = {std::vector<int64_t>(skeleton.scratch.size()), WidthOf(placed)};
  for (const PlacedRun& run : placed) {
    int64_t at = run.offset;
    for (const int32_t value : *run.values) {
      if (used(value))
        space.offset[static_cast<size_t>(value)] = std::exchange(at, at + given(value));
    }
  }
  return space;
}

}  // namespace cellbatch
