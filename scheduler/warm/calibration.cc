#include "scheduler/warm/calibration.h"

#include <algorithm>
#include <utility>

#include "cells/check.h"

namespace cellbatch {

std::vector<int32_t> CalibrationSizes(int32_t limit) {
  std::vector<int32_t> sizes;
  for (int32_t b = 1; b <= limit; b *= 2) {
    sizes.push_back(b);
    if (b >= 2 && b + b / 2 <= limit) sizes.push_back(b + b / 2);
  }
  if (!sizes.empty() && sizes.back() != limit) sizes.push_back(limit);
  return sizes;
}

namespace {

double Rate(const CalibrationPoint& p) {
  return static_cast<double>(p.batch) / static_cast<double>(std::max<int64_t>(p.task_ns, 1));
}

double BestRate(absl::Span<const CalibrationPoint> points) {
  double best = 0;
  for (const CalibrationPoint& p : points) best = std::max(best, Rate(p));
  return best;
}

size_t KneeAt(absl::Span<const CalibrationPoint> points) {
  const int32_t knee = Knee(points);
  const auto at = std::find_if(points.begin(), points.end(),
                               [=](const CalibrationPoint& p) { return p.batch == knee; });
  return static_cast<size_t>(at - points.begin());
}

// Sizes of known times that say where the knee is: a smaller one will not do, this one does, and the best is no better.
std::vector<size_t> SizesToConfirm(absl::Span<const CalibrationPoint> known) {
  const auto slower = [](const CalibrationPoint& a, const CalibrationPoint& b) {
    return Rate(a) < Rate(b);
  };
  const auto best = std::max_element(known.begin(), known.end(), slower);
  const size_t knee = KneeAt(known);
  std::vector<size_t> sizes = {0, knee == 0 ? 0 : knee - 1, knee,
                               static_cast<size_t>(best - known.begin()), known.size() - 1};
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

// Whether the knee is clearly elsewhere now that the least of known and seen times is looked at.
bool KneeMoved(absl::Span<const CalibrationPoint> known, absl::Span<const CalibrationPoint> least) {
  const double best = BestRate(least);
  const size_t knee = KneeAt(known);
  if (Rate(least[knee]) < (kKneeShare - kKneeMargin) * best) return true;
  if (knee == 0 || least[knee - 1].task_ns < kLeastFullTaskNs) return false;
  return Rate(least[knee - 1]) >= (kKneeShare + kKneeMargin) * best;
}

// Of the sizes that both have.
void TakeLeast(absl::Span<const CalibrationPoint> from, std::vector<CalibrationPoint>& points) {
  for (size_t i = 0; i < std::min(from.size(), points.size()); ++i) {
    points[i].task_ns = std::min(points[i].task_ns, from[i].task_ns);
  }
}

// Whether times for these sizes may be what a calibration left.
bool CanBe(absl::Span<const CalibrationPoint> points, absl::Span<const int32_t> sizes) {
  if (points.empty() || points.size() > sizes.size()) return false;
  for (size_t i = 0; i < points.size(); ++i) {
    if (points[i].batch != sizes[i] || points[i].task_ns <= 0) return false;
    if (i > 0 && points[i].task_ns < points[i - 1].task_ns) return false;
  }
  return true;
}

}  // namespace

int32_t Knee(absl::Span<const CalibrationPoint> points) {
  const double best = BestRate(points);
  int32_t knee = 1;
  for (const CalibrationPoint& p : points) {
    if (Rate(p) < kKneeShare * best) continue;
    knee = p.batch;
    if (p.task_ns >= kLeastFullTaskNs) break;
  }
  return knee;
}

int32_t Peak(absl::Span<const CalibrationPoint> points) {
  const auto rate = [](const CalibrationPoint& p) {
    return static_cast<double>(p.batch) / static_cast<double>(p.task_ns + kBesideTaskNs);
  };
  const int32_t knee = Knee(points);
  double best = 0;
  for (const CalibrationPoint& p : points) best = std::max(best, rate(p));
  for (const CalibrationPoint& p : points) {
    if (p.batch >= knee && rate(p) >= kPeakShare * best) return p.batch;
  }
  return knee;
}

BatchSizes SizesInForce(const CellType& type, absl::Span<const CalibrationPoint> points,
                        int32_t batch_limit) {
  if (type.max_batch > 0) {
    const int32_t max_batch = std::min(type.max_batch, batch_limit);
    return {max_batch, std::max(max_batch, std::min(type.peak_batch, batch_limit))};
  }
  if (points.empty()) return {batch_limit, batch_limit};
  const int32_t least = std::min(type.least_max_batch, batch_limit);
  const int32_t max_batch = std::max(least, Knee(points));
  return {max_batch, std::max(max_batch, Peak(points))};
}

Calibration::Calibration(const Model& model, std::vector<int32_t> most_rows, int32_t batch_limit,
                         absl::Span<const int> memory_of, bool measure)
    : model_(model), batch_limit_(batch_limit), measure_(measure), workers_(memory_of.size()) {
  for (size_t t = 0; t < model.types.size(); ++t) {
    const int32_t configured = model.types[t].max_batch;
    const int32_t limit = std::max(
        1,
        std::min(configured > 0 ? std::min(configured, batch_limit) : batch_limit, most_rows[t]));
    sizes_.push_back(measure ? CalibrationSizes(limit) : std::vector<int32_t>{1});
  }
  for (size_t w = 0; w < workers_.size(); ++w) {
    const auto memory = static_cast<size_t>(memory_of[w]);
    if (memory >= memories_.size()) memories_.resize(memory + 1);
    MemoryProgress& m = memories_[memory];
    if (m.measurer < 0) m.measurer = static_cast<int>(w);
    workers_[w].memory = memory_of[w];
    StartType(workers_[w], 0);
  }
  for (MemoryProgress& m : memories_) {
    m.known.resize(sizes_.size());
    m.beaten.resize(sizes_.size());
    m.unreached.resize(sizes_.size());
  }
}

void Calibration::Know(int memory, CellTypeId type, std::vector<CalibrationPoint> points) {
  if (!measure_ || !CanBe(points, sizes(type))) return;
  memories_[static_cast<size_t>(memory)].known[static_cast<size_t>(type.value())] =
      std::move(points);
}

bool Calibration::Measures(const Progress& p) const {
  const MemoryProgress& m = memories_[static_cast<size_t>(p.memory)];
  return measure_ && &workers_[static_cast<size_t>(m.measurer)] == &p &&
         static_cast<size_t>(p.type) == m.points.size();
}

const Calibration::Points* Calibration::Known(const Progress& p) const {
  if (!Measures(p)) return nullptr;
  const Points& known = memories_[static_cast<size_t>(p.memory)].known[static_cast<size_t>(p.type)];
  return known.empty() ? nullptr : &known;
}

void Calibration::StartType(Progress& p, int type) {
  p.type = type;
  p.done = static_cast<size_t>(type) == sizes_.size();
  p.round = 0;
  p.first = p.size = 0;
  p.end = p.done ? 0 : sizes_[static_cast<size_t>(type)].size();
  p.points.clear();
  p.confirmed.clear();
}

std::optional<Calibration::Step> Calibration::Next(int worker) const {
  const Progress& p = workers_[static_cast<size_t>(worker)];
  if (p.failed || p.done || p.out) return std::nullopt;
  return Step{p.type, sizes_[static_cast<size_t>(p.type)][SizeOf(p)]};
}

void Calibration::Finished(int worker, int64_t task_ns) {
  Progress& p = workers_[static_cast<size_t>(worker)];
  Check(p.out, "a calibration task finished that was not started");
  p.out = false;
  if (p.again) {
    p.again = false;
    StartType(p, static_cast<int>(memories_[static_cast<size_t>(p.memory)].points.size()));
    return;
  }
  Record(p, task_ns);
  if (++p.size == p.end) EndRound(p);
}

// Round 0 warms and is not counted, except where nothing else is measured. It finds how far sizes grow.
void Calibration::Record(Progress& p, int64_t task_ns) {
  if (p.round == 0) {
    p.points.push_back({sizes_[static_cast<size_t>(p.type)][p.size], task_ns});
    const Points* const known = Known(p);
    if (known != nullptr ? p.points.size() >= known->size() : MayEndAt(p)) p.end = p.size + 1;
  } else if (p.round == 1 || task_ns < p.points[p.size].task_ns) {
    p.points[p.size].task_ns = task_ns;
  }
}

// Whether the sizes seen so far are enough to know the knee, or too long to go on.
bool Calibration::MayEndAt(const Progress& p) const {
  const Points& points = p.points;
  const CalibrationPoint& last = points.back();
  if (last.task_ns < kLongBesideOthersNs) return false;
  const bool too_long = points.size() > 1 && last.task_ns >= kLongTaskNs &&
                        points[points.size() - 2].task_ns >= kLongTaskNs;
  const CellType& type = model_.types[static_cast<size_t>(p.type)];
  const int32_t most = std::max(2 * Knee(points), type.least_max_batch);
  return too_long || (type.max_batch == 0 && last.batch >= most);
}

void Calibration::EndRound(Progress& p) {
  p.size = p.first;
  const Points* const known = p.round == 0 ? Known(p) : nullptr;
  if (++p.round <= (Measures(p) ? kCalibrationRounds : 0)) {
    if (known != nullptr) BeginToConfirm(p, *known);
    return;
  }
  if (!p.confirmed.empty()) {
    if (p.round <= kMostConfirmingRounds && !AllReached(p)) return;
    return EndConfirming(p);
  }
  for (size_t i = p.points.size() - 1; i > 0; --i) {
    p.points[i - 1].task_ns = std::min(p.points[i - 1].task_ns, p.points[i].task_ns);
  }
  const size_t all = sizes_[static_cast<size_t>(p.type)].size();
  if (p.end < all && Measures(p) && !MayEndAt(p)) {
    p.round = 0;
    p.first = p.size = p.end;
    p.end = all;
    return;
  }
  EndType(p);
}

void Calibration::BeginToConfirm(Progress& p, const Points& known) {
  p.confirmed = SizesToConfirm(known);
  p.end = p.confirmed.size();
  p.points.resize(p.end);
}

bool Calibration::AllReached(const Progress& p) const {
  const Points& known = *Known(p);
  for (size_t i = 0; i < p.confirmed.size(); ++i) {
    const auto most = kMostOfKept * static_cast<double>(known[p.confirmed[i]].task_ns);
    if (static_cast<double>(p.points[i].task_ns - kKeptSlackNs) > most) return false;
  }
  return true;
}

void Calibration::EndConfirming(Progress& p) {
  MemoryProgress& m = memories_[static_cast<size_t>(p.memory)];
  const auto type = static_cast<size_t>(p.type);
  Points& known = m.known[type];
  Points least = known;
  const bool slower = !AllReached(p);
  bool faster = false;
  for (size_t i = 0; i < p.confirmed.size(); ++i) {
    const int64_t seen_ns = p.points[i].task_ns;
    int64_t& least_ns = least[p.confirmed[i]].task_ns;
    const auto kept = static_cast<double>(least_ns);
    faster |= static_cast<double>(seen_ns + kKeptSlackNs) < kLeastOfKept * kept;
    least_ns = std::min(least_ns, seen_ns);
  }
  faster |= KneeMoved(known, least);
  if (!slower && !faster) {
    p.points = known;
    return EndType(p);
  }
  (slower ? m.unreached : m.beaten)[type] = std::move(known);
  known.clear();
  StartType(p, p.type);
}

void Calibration::EndType(Progress& p) {
  if (Measures(p)) {
    MemoryProgress& m = memories_[static_cast<size_t>(p.memory)];
    TakeLeast(m.beaten[static_cast<size_t>(p.type)], p.points);
    m.kept.push_back(!p.confirmed.empty());
    m.points.push_back(p.points);
  }
  StartType(p, p.type + 1);
}

void Calibration::WorkerFailed(int worker) {
  Progress& failed = workers_[static_cast<size_t>(worker)];
  failed.failed = true;
  failed.out = false;
  MemoryProgress& m = memories_[static_cast<size_t>(failed.memory)];
  if (m.measurer != worker) return;
  const auto heir = std::find_if(workers_.begin(), workers_.end(), [&](const Progress& p) {
    return !p.failed && p.memory == failed.memory;
  });
  m.measurer = heir == workers_.end() ? -1 : static_cast<int>(heir - workers_.begin());
  if (m.measurer < 0 || !measure_) return;
  const int next = static_cast<int>(m.points.size());
  if (heir->type <= next || next == static_cast<int>(sizes_.size())) return;  // it comes to that
  heir->again = heir->out;
  if (!heir->again) StartType(*heir, next);
}

bool Calibration::done() const {
  return std::all_of(workers_.begin(), workers_.end(),
                     [](const Progress& p) { return p.failed || (p.done && !p.out); });
}

bool Calibration::any_worker_left() const {
  return std::any_of(workers_.begin(), workers_.end(), [](const Progress& p) { return !p.failed; });
}

std::vector<CalibrationPoint> Calibration::LeastKnown(int memory, CellTypeId type) const {
  const MemoryProgress& m = memories_[static_cast<size_t>(memory)];
  const Points& measured = m.points[static_cast<size_t>(type.value())];
  Points least = m.unreached[static_cast<size_t>(type.value())];
  if (least.empty()) return measured;
  // No further than it went: what was not reached would be beside what was disturbed.
  TakeLeast(measured, least);
  return least;
}

std::vector<CellTypeCalibration> Calibration::Results() const {
  std::vector<CellTypeCalibration> results;
  for (size_t m = 0; m < memories_.size(); ++m) {
    if (memories_[m].measurer < 0) continue;
    for (size_t t = 0; t < model_.types.size(); ++t) {
      CellTypeCalibration& c = results.emplace_back();
      c.memory = static_cast<int>(m);
      c.type = model_.types[t].id;
      if (measure_) {
        c.points = memories_[m].points[t];
        c.kept = memories_[m].kept[t];
      }
      const BatchSizes sizes = SizesInForce(model_.types[t], c.points, batch_limit_);
      c.max_batch = sizes.max_batch;
      c.peak_batch = sizes.peak_batch;
    }
  }
  return results;
}

}  // namespace cellbatch
