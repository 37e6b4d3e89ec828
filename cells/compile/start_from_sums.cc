#include "cells/compile/start_from_sums.h"

#include <algorithm>

namespace cellbatch {
namespace {

bool SameGroups(const SegmentPlan& a, const SegmentPlan& b) {
  return std::equal(a.weights.begin(), a.weights.end(), b.weights.begin(),
                    [](const auto& x, const auto& y) { return x.has_value() == y.has_value(); });
}

// How many segments read what is brought, up to the first that does not.
size_t BroughtSegments(const ProductStep& step, const std::vector<bool>& brought) {
  size_t n = 0;
  for (; n < step.segments.size(); ++n) {
    const SegmentPlan& segment = step.segments[n];
    if (segment.source.kind != PlaceKind::kInput) break;
    if (!brought[static_cast<size_t>(segment.source.index)]) break;
    if (!SameGroups(segment, step.segments[0])) break;
  }
  return n;
}

// The first `most` terms of a group's chain.
std::vector<HoistedTerm> Terms(const ProductStep& step, size_t group, size_t most) {
  std::vector<HoistedTerm> terms;
  for (const SegmentPlan& s : step.segments) {
    if (terms.size() == most) break;
    if (s.weights[group].has_value()) terms.push_back({s.source, s.depth, *s.weights[group]});
  }
  return terms;
}

void StartGroup(const HoistedSum& sum, size_t group, ProductStep& step) {
  step.starts.resize(step.bias.size());
  step.starts[group] = sum.at;
  step.bias[group].clear();
  size_t left = sum.terms.size();
  for (SegmentPlan& s : step.segments) {
    if (left == 0) break;
    if (!s.weights[group].has_value()) continue;
    s.weights[group].reset();
    --left;
  }
}

}  // namespace

std::vector<HoistedSum> BegunSums(const CellProgram& program, const std::vector<bool>& brought) {
  std::vector<HoistedSum> sums;
  for (const Step& step : program.steps) {
    const auto* const product = std::get_if<ProductStep>(&step);
    if (product == nullptr) continue;
    const size_t segments = BroughtSegments(*product, brought);
    for (size_t g = 0; segments > 0 && g < product->bias.size(); ++g) {
      if (!product->segments[0].weights[g].has_value()) continue;
      sums.push_back({product->units, product->bias[g], Terms(*product, g, segments), {}});
    }
  }
  return sums;
}

void StartFromSums(absl::Span<const HoistedSum> sums, CellProgram& program) {
  for (Step& step : program.steps) {
    auto* const product = std::get_if<ProductStep>(&step);
    if (product == nullptr) continue;
    for (size_t g = 0; g < product->bias.size(); ++g) {
      const auto begun = std::find_if(sums.begin(), sums.end(), [&](const HoistedSum& sum) {
        return sum.units == product->units && sum.bias == product->bias[g] &&
               sum.terms == Terms(*product, g, sum.terms.size());
      });
      if (begun != sums.end()) StartGroup(*begun, g, *product);
    }
    std::erase_if(product->segments, [](const SegmentPlan& s) {
      return std::none_of(s.weights.begin(), s.weights.end(),
                          [](const auto& w) { return w.has_value(); });
    });
  }
}

}  // namespace cellbatch
