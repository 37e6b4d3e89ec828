#include "cells/compile/fuse_arg_max.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace cellbatch {
namespace {

// Calls visit(place, elements) for each place that a step reads or writes.
template <typename Visit>
struct EveryPlace {
  Visit visit;

  void operator()(SumStep& s) const { visit(s.to, s.width); }
  void operator()(IndexStep&) const {}  // its token: LookupSpec
  void operator()(ProductStep& s) const {
    for (SegmentPlan& segment : s.segments) visit(segment.source, segment.depth);
    for (Place& column : s.columns) visit(column, s.units);
    if (s.arg_max.has_value()) visit(*s.arg_max, 1);
  }
  void operator()(PlainStep& s) const {
    for (size_t a = 0; a < s.args.size(); ++a) visit(s.args[a], ArgumentElements(s, a));
    visit(s.to, s.shape.size());
  }

  // From the first to the last that are read, rows that lie apart included.
  static int64_t ArgumentElements(const PlainStep& s, size_t a) {
    const int64_t packed = s.shapes[a].size();
    return a < s.strides.size() ? std::max(packed, s.strides[a] * s.shapes[a].rows) : packed;
  }
};

template <typename Visit>
void VisitPlaces(CellProgram& program, const Visit& visit) {
  for (Step& step : program.steps) std::visit(EveryPlace<Visit>{visit}, step);
  for (LookupSpec& lookup : program.lookups) visit(lookup.token, 1);
}

// What scratch was given out for so many elements.
int64_t Given(int64_t elements, const ProgramLimits& limits) {
  return (elements + limits.scratch_alignment - 1) / limits.scratch_alignment *
         limits.scratch_alignment;
}

// Scratch places that share elements with [place, place + elements).
int Sharers(CellProgram& program, const Place& place, int64_t elements) {
  int sharers = 0;
  VisitPlaces(program, [&](const Place& p, int64_t n) {
    if (p.kind != PlaceKind::kScratch) return;
    if (p.offset < place.offset + elements && place.offset < p.offset + n) ++sharers;
  });
  return sharers;
}

// Takes `elements` of scratch, which nobody uses any more, out of every row.
void CloseGap(CellProgram& program, int64_t offset, int64_t elements) {
  VisitPlaces(program, [&](Place& p, int64_t) {
    if (p.kind == PlaceKind::kScratch && p.offset > offset) p.offset -= elements;
  });
  program.scratch_width -= elements;
}

// The product that stores nothing but what `arg_max` reads, if there is one.
ProductStep* OnlySource(CellProgram& program, const PlainStep& arg_max,
                        const ProgramLimits& limits) {
  const Place& from = arg_max.args[0];
  if (from.kind != PlaceKind::kScratch) return nullptr;
  const int64_t elements = arg_max.shapes[0].size();
  if (Sharers(program, from, Given(elements, limits)) != 2) return nullptr;  // its writer and this
  for (Step& step : program.steps) {
    auto* const product = std::get_if<ProductStep>(&step);
    if (product == nullptr || product->groups() == 0 || product->arg_max.has_value()) continue;
    if (product->columns.size() != 1 || product->columns[0] != from) continue;
    if (product->units == elements) return product;
  }
  return nullptr;
}

}  // namespace

void FuseArgMax(CellProgram& program, const ProgramLimits& limits) {
  if (!limits.arg_max_of_product) return;
  for (size_t s = 0; s < program.steps.size();) {
    auto* const plain = std::get_if<PlainStep>(&program.steps[s]);
    const bool arg_max = plain != nullptr && plain->kind == PlainKind::kArgMax;
    ProductStep* const product = arg_max ? OnlySource(program, *plain, limits) : nullptr;
    if (product == nullptr) {
      ++s;
      continue;
    }
    const int64_t offset = product->columns[0].offset;
    product->columns.clear();
    product->arg_max = plain->to;
    program.steps.erase(program.steps.begin() + static_cast<ptrdiff_t>(s));
    CloseGap(program, offset, Given(product->units, limits));
  }
}

}  // namespace cellbatch
