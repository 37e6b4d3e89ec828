#include "cells/compile/fuse_arg_max.h"

#include <cstddef>

namespace cellbatch {
namespace {

// Places that name this value of scratch.
int Users(const CellSkeleton& skeleton, int32_t value) {
  int users = 0;
  for (const Step& step : skeleton.steps) {
    ForEachPlace(step, skeleton.lookups, [&](const Place& p) {
      if (p.kind == PlaceKind::kScratch && p.index == value) ++users;
    });
  }
  return users;
}

// The product that stores nothing but what `arg_max` reads, if there is one.
ProductStep* OnlySource(CellSkeleton& skeleton, const PlainStep& arg_max) {
  const Place& from = arg_max.args[0];
  if (from.kind != PlaceKind::kScratch) return nullptr;
  if (Users(skeleton, from.index) != 2) return nullptr;  // its writer and this
  for (Step& step : skeleton.steps) {
    auto* const product = std::get_if<ProductStep>(&step);
    if (product == nullptr || product->groups() == 0 || product->arg_max.has_value()) continue;
    if (product->columns.size() != 1 || product->columns[0] != from) continue;
    if (product->units == arg_max.shapes[0].size()) return product;
  }
  return nullptr;
}

}  // namespace

void FuseArgMax(CellSkeleton& skeleton, const ProgramLimits& limits) {
  if (!limits.arg_max_of_product) return;
  for (size_t s = 0; s < skeleton.steps.size();) {
    auto* const plain = std::get_if<PlainStep>(&skeleton.steps[s]);
    const bool arg_max = plain != nullptr && plain->kind == PlainKind::kArgMax;
    ProductStep* const product = arg_max ? OnlySource(skeleton, *plain) : nullptr;
    if (product == nullptr) {
      ++s;
      continue;
    }
    product->columns.clear();
    product->arg_max = plain->to;
    skeleton.steps.erase(skeleton.steps.begin() + static_cast<ptrdiff_t>(s));
  }
}

}  // namespace cellbatch
