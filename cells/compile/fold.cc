#include "cells/compile/fold.h"

#include <algorithm>
#include <utility>

#include "cells/compile/skeleton.h"

namespace cellbatch {
namespace {

// Time is counted in multiply-adds and in operators on one element: which of two folds saves more is all that is asked.

int64_t MultiplyAdds(const SegmentPlan& segment, int32_t units) {
  const auto groups = std::count_if(segment.weights.begin(), segment.weights.end(),
                                    [](const auto& w) { return w.has_value(); });
  return int64_t{segment.depth} * units * groups;
}

int64_t Work(const Step& step) {
  if (const auto* const product = std::get_if<ProductStep>(&step)) {
    int64_t work = int64_t{product->units} * static_cast<int64_t>(product->tail.ops.size());
    for (const SegmentPlan& s : product->segments) work += MultiplyAdds(s, product->units);
    return work;
  }
  const auto* const plain = std::get_if<PlainStep>(&step);
  // A copy stays a copy; indices and sums are as cheap.
  if (plain == nullptr || plain->kind == PlainKind::kCopy) return 0;
  int64_t work = plain->shape.size();
  if (plain->kind == PlainKind::kMatMulByRows || plain->kind == PlainKind::kMatMulByColumns) {
    return work * plain->shapes[0].cols;
  }
  for (const Shape& shape : plain->shapes) work += shape.size();
  return work;
}

struct Candidate {
  size_t program = 0;
  FoldOffer offer;
};

// `saved` by one node.
FoldOffer Offer(int step, int64_t saved, int64_t bytes) {
  return {step, bytes, kFoldBatch * static_cast<double>(saved) / static_cast<double>(bytes)};
}

void AddCandidates(const CellProgram& program, size_t number, const FoldedRowBytes& row_bytes,
                   std::vector<Candidate>& candidates) {
  int64_t work = 0;
  for (size_t s = 0; s < program.steps.size(); ++s) {
    work += Work(program.steps[s]);
    const auto* const step = std::get_if<ProductStep>(&program.steps[s]);
    if (step == nullptr || step->segments.empty()) continue;
    const SegmentPlan& first = step->segments[0];
    if (first.source.kind != PlaceKind::kTableRow) continue;
    const int64_t rows = program.lookups[static_cast<size_t>(first.source.index)].rows;
    candidates.push_back({number, Offer(static_cast<int>(s), MultiplyAdds(first, step->units),
                                        rows * row_bytes.sums(*step))});
  }
  const std::optional<int32_t> lookup = LookupOfWhole(program);
  if (!lookup.has_value() || work == 0) return;
  const int64_t rows = program.lookups[static_cast<size_t>(*lookup)].rows;
  const int64_t bytes = rows * row_bytes.node(static_cast<int>(number));
  candidates.push_back({number, Offer(FoldOffer::kWhole, work, bytes)});
}

// Takes it where it fits into what is left.
void Take(const FoldOffer& offer, CellFolds& folds, int64_t& left) {
  if (folds.whole) return;
  const bool whole = offer.step == FoldOffer::kWhole;
  const int64_t given_back = whole ? folds.bytes : 0;
  if (offer.bytes > left + given_back) {
    folds.refused.push_back(offer);
    return;
  }
  left += given_back - offer.bytes;
  if (whole) {
    folds = {{}, true, offer.bytes, {offer}};
  } else {
    folds.steps.push_back(offer.step);
    folds.bytes += offer.bytes;
    folds.taken.push_back(offer);
  }
}

}  // namespace

std::optional<int32_t> LookupOfWhole(const CellProgram& program) {
  std::optional<int32_t> widest;
  std::optional<Place> token;
  bool reads_more = false;
  for (const Step& step : program.steps) {
    if (std::holds_alternative<SumStep>(step)) return std::nullopt;
    const auto* const index = std::get_if<IndexStep>(&step);
    ForEachPlace(step, program.lookups, [&](const Place& place) {
      if (place.kind != PlaceKind::kInput) return;
      reads_more |= index == nullptr || (token.has_value() && *token != place);
      if (index == nullptr) return;
      token = place;
      const auto rows = [&](int32_t l) { return program.lookups[static_cast<size_t>(l)].rows; };
      if (!widest.has_value() || rows(index->lookup) > rows(*widest)) widest = index->lookup;
    });
  }
  return reads_more ? std::nullopt : widest;
}

std::vector<CellFolds> PlanFolds(absl::Span<const CellProgram> programs, int64_t budget_bytes,
                                 const FoldedRowBytes& row_bytes) {
  std::vector<Candidate> candidates;
  for (size_t p = 0; p < programs.size(); ++p) {
    AddCandidates(programs[p], p, row_bytes, candidates);
  }
  std::stable_sort(
      candidates.begin(), candidates.end(),
      [](const Candidate& a, const Candidate& b) { return a.offer.rate > b.offer.rate; });
  std::vector<CellFolds> folds(programs.size());
  for (const Candidate& c : candidates) Take(c.offer, folds[c.program], budget_bytes);
  return folds;
}

}  // namespace cellbatch
