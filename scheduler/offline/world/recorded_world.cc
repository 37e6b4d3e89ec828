#include "scheduler/offline/world/recorded_world.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cells/check.h"
#include "scheduler/offline/world/recorded_tasks.h"
#include "scheduler/policy/make_rules.h"
#include "scheduler/record/graph_shape.h"

namespace cellbatch {
namespace {

size_t Index(int64_t i) { return static_cast<size_t>(i); }

// A stop fell where it fell: what ran until then is all there was of the chain.
GraphShape Stopped(GraphShape shape, const std::vector<int32_t>& stopped_at) {
  size_t stops = 0;
  for (PieceShape& piece : shape.pieces) {
    size_t next_return = 0;
    for (SubgraphShape& s : piece.subgraphs) {
      const size_t first_return = next_return;
      next_return += Index(s.num_returns);
      if (s.stop_column < 0) continue;
      const int32_t at = stops < stopped_at.size() ? stopped_at[stops] : -1;
      ++stops;
      s.stop_column = -1;
      if (at < 0) continue;
      s.length = at + 1;
      for (size_t r = first_return; r < next_return; ++r) {
        ReturnShape& range = piece.returns[r];
        range.first = std::min(range.first, at);
        range.count = std::min(range.count, s.length - range.first);
      }
    }
  }
  return shape;
}

bool Within(const RecordedPart& part, const RecordedRequest& request) {
  return request.received_ns >= part.from_ns && request.received_ns < part.to_ns;
}

absl::StatusOr<const RecordedLane*> LaneOf(const RecordedRun& run, const RecordedPart& part) {
  const std::string& model = part.model;
  std::set<uint32_t> asked;
  for (const RecordedRequest& r : run.requests) {
    if (Within(part, r)) asked.insert(r.serial);
  }
  const RecordedLane* found = nullptr;
  for (const auto& [serial, lane] : run.lanes) {
    if (!model.empty() && lane.model->name != model) continue;
    if (model.empty() && found != nullptr && found->model->name != lane.model->name) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the record has \"", found->model->name, "\" and \"", lane.model->name, "\": say which"));
    }
    // The latest version that was asked anything: a model may be loaded again, for a policy, say, when all is over.
    if (found == nullptr || asked.contains(serial) || !asked.contains(found->serial)) found = &lane;
  }
  if (found == nullptr) {
    return absl::NotFoundError(absl::StrCat("the record has no model \"", model, "\""));
  }
  if (!found->policy.made || !found->join_made) {
    return absl::FailedPreconditionError(
        absl::StrCat("what decided for \"", found->model->name, "\" is in no record"));
  }
  return found;
}

// Arrivals, shapes and served latencies.
// `first_ns`: when the first of them came.
absl::Status ReadRequests(const RecordedRun& run, const RecordedLane& lane,
                          const RecordedPart& part, RecordedWorld& world, int64_t& first_ns) {
  auto shapes = std::make_shared<std::vector<GraphShape>>();
  std::vector<int64_t> inputs;
  std::vector<const RecordedRequest*> of_lane;
  for (const RecordedRequest& r : run.requests) {
    if (!Within(part, r)) continue;
    if (r.serial == lane.serial) {
      of_lane.push_back(&r);
    } else if (const auto other = run.lanes.find(r.serial);
               other != run.lanes.end() && other->second.model->name == world.model->name) {
      ++world.of_other_lanes;
    }
  }
  std::sort(of_lane.begin(), of_lane.end(),
            [](const auto* a, const auto* b) { return a->submitted_ns < b->submitted_ns; });
  for (const RecordedRequest* r : of_lane) {
    GraphShape shape = Stopped(r->shape, r->end.stopped_at);
    if (!r->ended || r->end.code != absl::StatusCode::kOk || shape.pieces.size() != 1 ||
        shape.pieces[0].grows ||
        !BuildGraph(shape, *world.model, run.setup.max_tasks_in_flight).ok()) {
      ++world.left_out;
      continue;
    }
    if (shapes->empty()) first_ns = r->submitted_ns;
    world.arrivals.push_back({.at_ns = r->submitted_ns - first_ns,
                              .shape = static_cast<int32_t>(shapes->size()),
                              .priority = r->priority});
    world.served_ns.push_back(r->end.last_task_end_ns - r->received_ns);
    inputs.push_back(r->submitted_ns - r->received_ns);
    shapes->push_back(std::move(shape));
  }
  if (shapes->empty()) {
    return absl::NotFoundError(
        absl::StrCat("the record has no answered request of \"", world.model->name, "\" there"));
  }
  world.input_ns = QuantileOf(std::move(inputs), 0.5);
  world.make = [shapes, model = world.model](int32_t shape, int max_tasks_in_flight) {
    absl::StatusOr<CellGraph> graph =
        BuildGraph((*shapes)[Index(shape)], *model, max_tasks_in_flight);
    Check(graph.ok(), "a shape that was built once is not built again");
    return *std::move(graph);
  };
  return absl::OkStatus();
}

int64_t FirstRequestNs(const RecordedRun& run, uint32_t serial) {
  int64_t first = std::numeric_limits<int64_t>::max();
  for (const RecordedRequest& r : run.requests) {
    if (r.serial == serial) first = std::min(first, r.submitted_ns);
  }
  return first;
}

}  // namespace

absl::StatusOr<RecordedWorld> WorldOfRecord(const RecordedRun& run, const RecordedPart& part) {
  const auto lane = LaneOf(run, part);
  if (!lane.ok()) return lane.status();
  RecordedWorld world;
  world.model = (*lane)->model;
  world.policy = (*lane)->policy.spec;
  world.policies_taken = (*lane)->taken.size();
  world.join = (*lane)->join;
  int64_t first_ns = 0;
  if (absl::Status s = ReadRequests(run, **lane, part, world, first_ns); !s.ok()) return s;
  const int64_t first_request_ns = FirstRequestNs(run, (*lane)->serial);
  const std::vector<RecordedTask> tasks = TasksOf(run, **lane);
  std::vector<TypeCosts> types;
  for (const CellType& type : world.model->types) {
    absl::StatusOr<TypeCosts> costs = Calibrated(tasks, type, first_request_ns);
    if (!costs.ok()) return costs.status();
    types.push_back(*std::move(costs));
  }
  const absl::StatusOr<TaskCosts> alone = TaskCosts::Of(std::move(types));
  if (!alone.ok()) return alone.status();
  std::vector<RecordedTask> served;
  for (const RecordedTask& task : tasks) {
    if (task.start_ns >= std::max(part.from_ns, first_request_ns) && task.start_ns < part.to_ns) {
      served.push_back(task);
    }
  }
  world.options.devices =
      static_cast<int>(std::count_if(run.setup.memory_of.begin(), run.setup.memory_of.end(),
                                     [&](int memory) { return (*lane)->LivesIn(memory); }));
  if (world.options.devices == 0) {
    return absl::InvalidArgumentError(absl::StrCat("the record's lane ", (*lane)->serial,
                                                   " lives on none of its ",
                                                   run.setup.memory_of.size(), " devices"));
  }
  const bool alone_there = world.options.devices == 1 && run.setup.max_tasks_in_flight == 1;
  world.options.runs_by_itself = world.options.devices > 1 || !alone_there;
  world.options.max_tasks_in_flight = run.setup.max_tasks_in_flight;
  world.options.few_tasks_in_flight = run.setup.few_tasks_in_flight;
  world.options.max_wait_tasks = run.setup.max_wait_tasks;
  world.options.chain_turn = run.setup.chain_turn;
  world.options.priority_ageing = run.setup.priority_ageing;
  std::vector<Timed> timed = TimedOf(served, Outstanding(run), alone_there, world);
  FindStalls(*alone, timed, world);
  for (WorldStall& stall : world.options.stalls) stall.at_ns -= first_ns;
  absl::StatusOr<TaskCosts> costs = Served(*alone, timed, world.task_overhead_ns);
  if (!costs.ok()) return costs.status();
  world.costs = *std::move(costs);
  world.options.pace = PaceOf(world.costs, timed, first_ns);
  return world;
}

WorldReport WhatIf(const RecordedWorld& recorded, const PolicySpec& policy, double times,
                   int devices) {
  auto rules = MakeRules(policy, recorded.join, recorded.model->types.size());
  Check(rules.ok(), rules.status().ToString());
  WorldOptions options = recorded.options;
  if (devices != options.devices) {
    options.devices = devices;
    options.max_tasks_in_flight = options.few_tasks_in_flight = 0;  // as the server chooses it
    options.runs_by_itself = devices > 1;
  }
  std::vector<WorldLane> lanes;
  lanes.push_back({recorded.model, recorded.costs, recorded.make, *std::move(rules)});
  ServingWorld world(options, std::move(lanes));
  WorldReport report = world.Run(AtAnotherRate(recorded.arrivals, times));
  std::vector<int64_t> latencies;
  for (WorldAnswer& answer : report.answers) {
    answer.queue_ns += recorded.input_ns;
    if (answer.ok) latencies.push_back(answer.latency_ns());
  }
  report.mean_ns = Mean(latencies);
  report.p50_ns = QuantileOf(latencies, 0.50);
  report.p99_ns = QuantileOf(std::move(latencies), 0.99);
  return report;
}

}  // namespace cellbatch
