#include "cells/compile/skeleton.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "cells/compile/expr_placement.h"
#include "cells/compile/fuse_arg_max.h"
#include "cells/compile/lane_graph.h"
#include "cells/compile/step_builder.h"
#include "fmt/format.h"

namespace cellbatch {
namespace {

// One attempt at a skeleton with a given set of cuts.
class Attempt {
 public:
  Attempt(const LaneGraph& graph, const std::vector<bool>& cut, const ProgramLimits& limits)
      : graph_(graph), cut_(cut), limits_(limits), placement_(graph, cut, limits.scalars) {}

  // True: skeleton() is done. False: to_cut() names what must be stored by itself; none: it cannot be done.
  bool Run();
  CellSkeleton& skeleton() { return skeleton_; }
  const std::vector<ExprId>& to_cut() const { return to_cut_; }

 private:
  using Roots = std::vector<ExprId>;

  bool IsComputedByTail(ExprId e) const;
  void AddGathers(int level);
  bool AddProducts(int level);
  bool AddProductsOfWidth(const Roots& roots);
  void AddPlain(int level);
  void AddPlainStep(ExprId e, const PlainExpr& plain);
  void AddCopies(ExprId e, size_t from);
  std::vector<Roots> Components(const Roots& roots) const;
  std::set<ExprId> Inlined(ExprId e) const;
  void Inlined(ExprId e, std::set<ExprId>& found) const;
  std::set<ExprId> Accumulators(ExprId e) const;
  void ChooseCut(const Roots& component);

  const LaneGraph& graph_;
  const std::vector<bool>& cut_;
  const ProgramLimits& limits_;
  ExprPlacement placement_;
  CellSkeleton skeleton_;
  std::vector<ExprId> to_cut_;
};

bool Attempt::IsComputedByTail(ExprId e) const {
  const Expr& expr = graph_.at(e);
  return IsFoldable(expr) || expr.Is<ParameterExpr>() || expr.Is<ConstantExpr>();
}

bool Attempt::Run() {
  skeleton_.lookups = graph_.lookups();
  skeleton_.scratch = placement_.scratch();
  int last = 0;
  for (const ExprId e : placement_.roots()) last = std::max(last, placement_.Level(e));
  for (int level = 0; level <= last; ++level) {
    AddGathers(level);
    if (!AddProducts(level)) return false;
    AddPlain(level);
  }
  return true;
}

// Sums, looked-up indices and plain copies of what lies somewhere.
void Attempt::AddGathers(int level) {
  if (level == 0) {
    for (const SumStep& s : placement_.sums()) skeleton_.steps.push_back(s);
  }
  for (const ExprId e : placement_.used_lookups()) {
    if (placement_.Level(e) != level) continue;
    const int32_t lookup = graph_.at(e).As<TableRowExpr>()->lookup;
    LookupSpec& spec = skeleton_.lookups[static_cast<size_t>(lookup)];
    spec.token = placement_.PlaceOf(graph_.lookup_tokens()[static_cast<size_t>(lookup)]);
    skeleton_.steps.push_back(IndexStep{lookup});
  }
  for (const ExprId e : placement_.roots()) {
    const bool copied = IsTrivial(graph_.at(e)) && !IsComputedByTail(e);
    if (copied && placement_.Level(e) == level) AddCopies(e, 0);
  }
}

// Copies `e` to its destinations from number `from` on.
void Attempt::AddCopies(ExprId e, size_t from) {
  const Expr& expr = graph_.at(e);
  const std::vector<Place>& to = placement_.Destinations(e);
  for (size_t i = from; i < to.size(); ++i) {
    if (to[i] == placement_.PlaceOf(e)) continue;  // a sum is made where it belongs
    skeleton_.steps.push_back(PlainStep{.kind = PlainKind::kCopy,
                                        .type = expr.type,
                                        .args = {placement_.PlaceOf(e)},
                                        .shapes = {Shape::Vector(expr.width)},
                                        .shape = Shape::Vector(expr.width),
                                        .to = to[i]});
  }
}

void Attempt::AddPlainStep(ExprId e, const PlainExpr& plain) {
  PlainStep step = {.kind = plain.kind,
                    .type = graph_.at(e).type,
                    .args = {},
                    .shapes = plain.arg_shapes,
                    .strides = plain.strides,
                    .begin = plain.begin,
                    .shape = plain.shape,
                    .to = placement_.Destinations(e).front()};
  for (const ExprId a : plain.args) step.args.push_back(placement_.PlaceOf(a));
  skeleton_.steps.push_back(std::move(step));
  AddCopies(e, 1);
}

void Attempt::AddPlain(int level) {
  std::vector<ExprId> roots = placement_.roots();
  std::sort(roots.begin(), roots.end());  // inner concatenations before outer ones
  for (const ExprId e : roots) {
    const auto* const plain = graph_.at(e).As<PlainExpr>();
    if (plain != nullptr && placement_.Level(e) == level) AddPlainStep(e, *plain);
  }
  for (const ExprId e : roots) {
    if (graph_.at(e).Is<ConcatExpr>() && placement_.Level(e) == level) AddCopies(e, 1);
  }
}

bool Attempt::AddProducts(int level) {
  std::map<int32_t, Roots> by_width;
  for (const ExprId e : placement_.roots()) {
    if (!IsComputedByTail(e) || placement_.Level(e) != level) continue;
    by_width[graph_.at(e).width].push_back(e);
  }
  for (const auto& [width, roots] : by_width) {
    if (!AddProductsOfWidth(roots)) return false;
  }
  return true;
}

// `e` and everything its tail recomputes.
std::set<ExprId> Attempt::Inlined(ExprId e) const {
  std::set<ExprId> found;
  Inlined(e, found);
  return found;
}

void Attempt::Inlined(ExprId e, std::set<ExprId>& found) const {
  if (!found.insert(e).second) return;
  const auto* const op = graph_.at(e).As<OpExpr>();
  if (op == nullptr) return;
  for (const ExprId a : op->args) {
    if (placement_.IsInline(e, a)) Inlined(a, found);
  }
}

std::set<ExprId> Attempt::Accumulators(ExprId e) const {
  std::set<ExprId> found = Inlined(e);
  std::erase_if(found, [this](ExprId a) { return !graph_.at(a).Is<AccumulatorExpr>(); });
  return found;
}

// Roots that share accumulators must be stored by one step, or the product would be computed twice.
std::vector<Attempt::Roots> Attempt::Components(const Roots& roots) const {
  std::vector<std::pair<std::set<ExprId>, Roots>> components;
  for (const ExprId e : roots) {
    std::pair<std::set<ExprId>, Roots> merged = {Accumulators(e), {e}};
    for (auto c = components.begin(); c != components.end();) {
      const bool shares = std::any_of(c->first.begin(), c->first.end(),
                                      [&](ExprId a) { return merged.first.contains(a); });
      if (!shares) {
        ++c;
        continue;
      }
      merged.first.insert(c->first.begin(), c->first.end());
      merged.second.insert(merged.second.begin(), c->second.begin(), c->second.end());
      c = components.erase(c);
    }
    components.push_back(std::move(merged));
  }
  std::vector<Roots> result;
  for (auto& [accumulators, members] : components) result.push_back(std::move(members));
  return result;
}

// As few steps as fit, components whole.
bool Attempt::AddProductsOfWidth(const Roots& roots) {
  StepBuilder builder(graph_, placement_, limits_);
  Roots together;
  std::optional<ProductStep> step;
  for (const Roots& component : Components(roots)) {
    Roots more = together;
    more.insert(more.end(), component.begin(), component.end());
    std::optional<ProductStep> with = builder.Build(more);
    if (!with.has_value()) {
      if (step.has_value()) skeleton_.steps.push_back(*std::move(step));
      more = component;
      with = builder.Build(more);
    }
    if (!with.has_value()) {
      ChooseCut(component);
      return false;
    }
    together = std::move(more);
    step = std::move(with);
  }
  if (step.has_value()) skeleton_.steps.push_back(*std::move(step));
  return true;
}

// Accumulators first: a tail that only loads may be split anywhere. Then the expression nearest to
// half the work.
void Attempt::ChooseCut(const Roots& component) {
  for (const ExprId e : component) {
    for (const ExprId a : Accumulators(e)) {
      if (!cut_[static_cast<size_t>(a)]) to_cut_.push_back(a);
    }
  }
  if (!to_cut_.empty()) return;
  const std::set<ExprId> all = Inlined(component[0]);
  const auto from_half = [&](ExprId e) {
    return std::abs(2 * static_cast<int>(Inlined(e).size()) - static_cast<int>(all.size()));
  };
  ExprId best = kNoExpr;
  for (const ExprId e : all) {
    if (e == component[0]) continue;
    if (best == kNoExpr || from_half(e) < from_half(best)) best = e;
  }
  if (best != kNoExpr) to_cut_.push_back(best);
}

absl::StatusOr<CellSkeleton> SkeletonOf(const LaneGraph& graph, const ProgramLimits& limits) {
  std::vector<bool> cut(graph.exprs().size(), false);
  for (size_t attempts = 0; attempts <= cut.size(); ++attempts) {
    Attempt attempt(graph, cut, limits);
    if (attempt.Run()) {
      FuseArgMax(attempt.skeleton(), limits);
      return std::move(attempt.skeleton());
    }
    if (attempt.to_cut().empty()) break;
    for (const ExprId e : attempt.to_cut()) cut[static_cast<size_t>(e)] = true;
  }
  return absl::UnimplementedError(
      fmt::format("cell \"{}\": a value needs more columns than a step has ({})",
                  graph.cell().name(), limits.tail_columns));
}

}  // namespace

bool ContinuesBehind(const SegmentPlan& a, const SegmentPlan& b) {
  for (size_t g = 0; g < a.weights.size(); ++g) {
    if (a.weights[g].has_value() != b.weights[g].has_value()) return false;
    if (!a.weights[g].has_value()) continue;
    ParameterView behind = *a.weights[g];
    behind.offset += a.depth * behind.depth_stride;
    if (*b.weights[g] != behind) return false;
  }
  return true;
}

absl::StatusOr<CellSkeleton> MakeSkeleton(const CellDefinition& cell, const ProgramLimits& limits) {
  const absl::StatusOr<LaneGraph> graph = LaneGraph::Build(cell, limits);
  if (!graph.ok()) return graph.status();
  absl::StatusOr<CellSkeleton> skeleton = SkeletonOf(*graph, limits);
  if (!skeleton.ok() || graph->prepared().empty()) return skeleton;
  absl::StatusOr<CellSkeleton> at_load = SkeletonOf(graph->AtLoad(), limits);
  if (!at_load.ok()) return at_load.status();
  skeleton->prepared = graph->prepared();
  skeleton->at_load = std::make_shared<const CellSkeleton>(*std::move(at_load));
  return skeleton;
}

}  // namespace cellbatch
