#include "server/learn/learn_requests.h"

#include <fmt/format.h>

#include <filesystem>
#include <random>
#include <sstream>
#include <utility>

#include "cells/check.h"
#include "cells/unfold/unfolder.h"
#include "scheduler/offline/learn/lessons.h"
#include "scheduler/offline/unfolded_graph.h"
#include "server/learn/built_in_shapes.h"
#include "server/learn/recorded_requests.h"
#include "server/learn/request_shape.h"
#include "server/record/record_codec.h"
#include "server/repository/text_file.h"

namespace cellbatch {
namespace {

constexpr int64_t kMostBytes = int64_t{64} << 20;
constexpr size_t kMostRequests = 2 * kMostLearnedFrom;

using Outputs = std::vector<std::string_view>;

// A tree's nodes may have words of their own, which its tensors do not say: then it takes heads.
absl::StatusOr<ShapeKind> KindThatUnfolds(const Model& model, const Outputs& outputs) {
  const ShapeKind kind = ShapeKindOf(model);
  if (kind != ShapeKind::kTree) return kind;
  RequestShape pair;
  pair.length = 2;
  pair.children = {{0, 1}};
  const absl::StatusOr<CellGraph> tree = UnfoldShape(pair, ShapeKind::kTree, model, outputs);
  if (tree.ok()) return ShapeKind::kTree;
  pair.parents = {-1, 0};
  const absl::StatusOr<CellGraph> heads = UnfoldShape(pair, ShapeKind::kHeads, model, outputs);
  if (heads.ok()) return ShapeKind::kHeads;
  return tree.status();
}

// Of inner nodes; the model says it by what it refuses.
int32_t InnerTypes(const Model& model, const Outputs& outputs) {
  constexpr int32_t kMost = 64;
  RequestShape pair;
  pair.length = 2;
  pair.children = {{0, 1}};
  int32_t types = 1;
  for (; types < kMost; ++types) {
    pair.inner_types = {types};
    if (!UnfoldShape(pair, ShapeKind::kTree, model, outputs).ok()) break;
  }
  return types;
}

absl::Status Unfold(const RequestShape& shape, ShapeKind kind, const Model& model,
                    const Outputs& outputs, std::vector<TypedGraph>& graphs) {
  const absl::StatusOr<CellGraph> graph = UnfoldShape(shape, kind, model, outputs);
  if (!graph.ok()) return graph.status();
  AppendUnfolded(*graph, model, graphs.emplace_back(static_cast<int32_t>(model.types.size())));
  return absl::OkStatus();
}

// One that the model takes, where it takes any: what is too large for it (steps, words to write, cells) gives way to one that
// is half as long at most.
RequestShape MadeUpShape(ShapeKind kind, const Model& model, const Outputs& outputs,
                         std::mt19937_64& random) {
  const RequestDescription described = model.unfolder->Describe();
  ShapeBounds most;
  if (described.max_children > 0) most.children = described.max_children;
  for (;;) {
    RequestShape shape = kind == ShapeKind::kGraph ? RandomGraphShape(described, most, random)
                                                   : RandomShape(kind, most, random);
    if (shape.length == 1 || UnfoldShape(shape, kind, model, outputs).ok()) return shape;
    most.length = shape.length / 2;
  }
}

absl::StatusOr<std::vector<RequestShape>> ReadShapes(const std::string& file, ShapeKind kind) {
  const absl::StatusOr<std::string> text = ReadTextFile(file, kMostBytes);
  if (!text.ok()) return text.status();
  std::vector<RequestShape> shapes;
  std::istringstream lines(*text);
  int64_t number = 0;
  for (std::string line; shapes.size() < kMostRequests && std::getline(lines, line);) {
    ++number;
    if (line.empty() || line[0] == '#') continue;
    absl::StatusOr<RequestShape> shape = ParseShape(kind, line);
    if (!shape.ok()) {
      return absl::InvalidArgumentError(
          fmt::format("{}:{}: {}", file, number, std::string(shape.status().message())));
    }
    shapes.push_back(*std::move(shape));
  }
  if (shapes.size() < 2) {
    return absl::InvalidArgumentError(fmt::format(
        "{} has {} requests; two are the fewest to learn from and prove on", file, shapes.size()));
  }
  return shapes;
}

}  // namespace

absl::StatusOr<LearnRequests> ReadLearnRequests(const std::string& file, const Model& model,
                                                const std::vector<std::string_view>& outputs,
                                                uint64_t seed) {
  if (!file.empty() && LooksLikeRecord(file)) {
    return ReadRecordedRequests(file, model, kMostRequests, seed);
  }
  const absl::StatusOr<ShapeKind> kind = KindThatUnfolds(model, outputs);
  if (!kind.ok()) return kind.status();
  std::mt19937_64 random(seed);
  std::vector<RequestShape> shapes;
  LearnRequests requests;
  if (file.empty()) {
    requests.source = fmt::format("{} made-up requests ({})", kMostRequests, Name(*kind));
    if (*kind == ShapeKind::kTensors) {
      return absl::UnimplementedError(fmt::format(
          "{}: requests of a model's own unfolder are not made up (--requests)", model.name));
    }
    for (size_t i = 0; i < kMostRequests; ++i) {
      shapes.push_back(MadeUpShape(*kind, model, outputs, random));
    }
  } else {
    requests.source = std::filesystem::path(file).filename().string();
    absl::StatusOr<std::vector<RequestShape>> read = ReadShapes(file, *kind);
    if (!read.ok()) return read.status();
    shapes = *std::move(read);
  }
  const int32_t inner_types = *kind == ShapeKind::kTree ? InnerTypes(model, outputs) : 1;
  for (size_t i = 0; i < shapes.size(); ++i) {
    for (size_t k = 0; inner_types > 1 && k < shapes[i].children.size(); ++k) {
      shapes[i].inner_types.push_back(
          static_cast<int32_t>(random() % static_cast<uint64_t>(inner_types)));
    }
    if (absl::Status s = Unfold(shapes[i], *kind, model, outputs, requests.graphs); !s.ok()) {
      return absl::InvalidArgumentError(
          fmt::format("{}, request {}: {}", requests.source, i + 1, std::string(s.message())));
    }
  }
  requests.make = [shapes = std::move(shapes), kind = *kind, &model,
                   names = std::vector<std::string>(outputs.begin(), outputs.end())](
                      int32_t request, int max_tasks_in_flight) {
    const Outputs named(names.begin(), names.end());
    absl::StatusOr<CellGraph> graph =
        UnfoldShape(shapes[static_cast<size_t>(request)], kind, model, named, max_tasks_in_flight);
    Check(graph.ok(), "a request unfolds once, and not again");
    return *std::move(graph);
  };
  return requests;
}

}  // namespace cellbatch
