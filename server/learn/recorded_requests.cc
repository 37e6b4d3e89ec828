#include "server/learn/recorded_requests.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "cells/check.h"
#include "scheduler/offline/unfolded_graph.h"
#include "scheduler/record/graph_shape.h"
#include "server/policy/policy_codec.h"
#include "server/record/record_codec.h"

namespace cellbatch {
namespace {

constexpr int64_t kMostRecordBytes = int64_t{16} << 30;
constexpr int kAnyTasksInFlight = 2;  // of no matter to what waits for what

// All of its pieces as one, and chains with a stop as long as they ran.
GraphShape AsItRan(const RecordedRequest& request) {
  GraphShape shape;
  PieceShape& all = shape.pieces.emplace_back();
  for (const PieceShape& piece : request.shape.pieces) {
    all.subgraphs.insert(all.subgraphs.end(), piece.subgraphs.begin(), piece.subgraphs.end());
    all.links.insert(all.links.end(), piece.links.begin(), piece.links.end());
    all.returns.insert(all.returns.end(), piece.returns.begin(), piece.returns.end());
  }
  size_t chain = 0, returned = 0;
  for (SubgraphShape& s : all.subgraphs) {
    const size_t end = std::min(all.returns.size(), returned + static_cast<size_t>(s.num_returns));
    const bool said = s.stop_column >= 0 && chain < request.end.stopped_at.size();
    const int32_t stopped_at = said ? request.end.stopped_at[chain++] : -1;
    if (stopped_at >= 0 && stopped_at < s.length) {
      s.length = stopped_at + 1;
      for (size_t r = returned; r < end; ++r) {
        ReturnShape& range = all.returns[r];
        range.first = std::min(range.first, stopped_at);
        range.count = std::min(range.count, s.length - range.first);
      }
    }
    returned = end;
  }
  return shape;
}

// Of lanes of that model, with the cells that it has now.
std::set<uint32_t> LanesOf(const RecordedRun& run, const Model& model) {
  std::set<uint32_t> serials;
  for (const auto& [serial, lane] : run.lanes) {
    const bool same = lane.model->name == model.name &&
                      CellTypesFingerprint(*lane.model) == CellTypesFingerprint(model);
    if (same) serials.insert(serial);
  }
  return serials;
}

// So many of them, in order.
void Draw(std::vector<const RecordedRequest*>& requests, size_t most, uint64_t seed) {
  std::mt19937_64 random(seed);
  // Not std::sample, which differs from library to library.
  std::vector<size_t> order(requests.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  for (size_t i = 0; i + 1 < order.size(); ++i) {
    std::swap(order[i], order[i + random() % (order.size() - i)]);
  }
  order.resize(std::min(order.size(), most));
  std::sort(order.begin(), order.end());
  std::vector<const RecordedRequest*> drawn;
  for (const size_t i : order) drawn.push_back(requests[i]);
  requests = std::move(drawn);
}

}  // namespace

absl::StatusOr<LearnRequests> ReadRecordedRequests(const std::string& file, const Model& model,
                                                   size_t most, uint64_t seed) {
  const absl::StatusOr<RecordedRun> run = ReadRecord(file, kMostRecordBytes);
  if (!run.ok()) return run.status();
  const std::set<uint32_t> lanes = LanesOf(*run, model);
  std::vector<const RecordedRequest*> found;
  for (const RecordedRequest& request : run->requests) {
    const bool ok = request.ended && request.end.code == absl::StatusCode::kOk;
    if (ok && lanes.contains(request.serial)) found.push_back(&request);
  }
  if (found.size() < 2) {
    return absl::InvalidArgumentError(
        fmt::format("{} has {} requests of model \"{}\" with the cell types it has now that ended "
                    "well, of {} in "
                    "all; two are the fewest to learn from and prove on",
                    file, found.size(), model.name, run->requests.size()));
  }
  LearnRequests requests;
  requests.source = fmt::format("{} recorded in {}", found.size(),
                                std::filesystem::path(file).filename().string());
  Draw(found, most, seed);
  std::vector<GraphShape> shapes;
  for (const RecordedRequest* request : found) {
    shapes.push_back(AsItRan(*request));
    const absl::StatusOr<CellGraph> graph = BuildGraph(shapes.back(), model, kAnyTasksInFlight);
    if (!graph.ok()) return graph.status();
    AppendUnfolded(*graph, model,
                   requests.graphs.emplace_back(static_cast<int32_t>(model.types.size())));
  }
  requests.make = [shapes = std::move(shapes), &model](int32_t request, int max_tasks_in_flight) {
    absl::StatusOr<CellGraph> graph =
        BuildGraph(shapes[static_cast<size_t>(request)], model, max_tasks_in_flight);
    Check(graph.ok(), "a recorded request makes a graph once, and not again");
    return *std::move(graph);
  };
  return requests;
}

}  // namespace cellbatch
