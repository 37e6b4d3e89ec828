#include "scheduler/offline/world/recorded_world.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cells/check.h"
#include "scheduler/policy/make_rules.h"
#include "scheduler/record/graph_shape.h"
#include "scheduler/record/schedule_tape.h"
#include "scheduler/warm/calibration.h"

namespace cellbatch {
namespace {

constexpr size_t kEnoughTasks = 20;  // of a size, to know what they take
// Longer by that than tasks like it, and twice as long: something else had the core.
constexpr int64_t kStallNs = 1'000'000;
constexpr int64_t kWindowNs = 20'000'000;  // in which a machine is as fast all the time

size_t Index(int64_t i) { return static_cast<size_t>(i); }

struct RecordedTask {
  int worker, type;
  int32_t nodes;
  int64_t start_ns, end_ns;
  int64_t ns() const { return end_ns - start_ns; }
};

// Of one lane, in the order in which they were done.
std::vector<RecordedTask> TasksOf(const RecordedRun& run, const RecordedLane& lane) {
  struct Out {
    uint32_t serial;
    int type;
    int32_t nodes;
  };
  std::map<int, uint32_t> serial_at;   // by lane, whose it is by now: indices are used again
  std::map<int, std::deque<Out>> out;  // by worker
  std::vector<RecordedTask> tasks;
  const std::vector<uint64_t>& tape = run.tape;
  const auto types = static_cast<int>(lane.model->types.size());
  for (size_t i = 0; i < tape.size();) {
    const uint64_t word = tape[i];
    const int operands = TapeOperands(word);
    if (operands < 0 || i + Index(operands) >= tape.size()) break;
    const int worker = static_cast<int>(FieldOf(word, 8, 8));
    if (OpOf(word) == TapeOp::kControl) {
      const auto named = run.lanes.find(static_cast<uint32_t>(tape[i + 1]));
      if (named != run.lanes.end()) serial_at[named->second.index] = named->first;
    } else if (OpOf(word) == TapeOp::kSubmitted) {
      out[worker].push_back({serial_at[LaneOfTask(word)], static_cast<int>(FieldOf(word, 24, 16)),
                             static_cast<int32_t>(FieldOf(word, 40, 16))});
    } else if (OpOf(word) == TapeOp::kFinished && !out[worker].empty()) {
      const Out done = out[worker].front();
      out[worker].pop_front();
      const RecordedTask task = {worker, done.type, done.nodes, static_cast<int64_t>(tape[i + 1]),
                                 static_cast<int64_t>(tape[i + 2])};
      const bool its_own = done.serial == lane.serial && done.type < types;
      if (its_own && task.ns() > 0) tasks.push_back(task);
    }
    i += 1 + Index(operands);
  }
  return tasks;
}

// T(b) as the server's calibration has it: the least of each size, and none slower than a larger one.
absl::StatusOr<TypeCosts> Calibrated(const std::vector<RecordedTask>& tasks, const CellType& type,
                                     int64_t first_request_ns) {
  std::map<int32_t, int64_t> least;
  for (const RecordedTask& task : tasks) {
    if (task.type != type.id.value() || task.start_ns >= first_request_ns) continue;
    const auto [at, first] = least.emplace(task.nodes, task.ns());
    if (!first) at->second = std::min(at->second, task.ns());
  }
  TypeCosts costs;
  for (const auto& [nodes, ns] : least) costs.points.push_back({nodes, ns});
  if (costs.points.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the record has no warm-up of cell type \"", type.name, "\""));
  }
  for (size_t i = costs.points.size() - 1; i > 0; --i) {
    costs.points[i - 1].task_ns = std::min(costs.points[i - 1].task_ns, costs.points[i].task_ns);
  }
  const BatchSizes sizes = SizesInForce(type, costs.points, std::numeric_limits<int32_t>::max());
  costs.max_batch = sizes.max_batch;
  costs.peak_batch = sizes.peak_batch;
  return costs;
}

// When how many requests were out.
class Outstanding {
 public:
  explicit Outstanding(const RecordedRun& run) {
    for (const RecordedRequest& r : run.requests) {
      came_.push_back(r.submitted_ns);
      if (r.ended) left_.push_back(r.end.last_task_end_ns);
    }
    std::sort(came_.begin(), came_.end());
    std::sort(left_.begin(), left_.end());
  }
  bool AnyAt(int64_t ns) const { return Before(came_, ns) > Before(left_, ns); }
  // The first that came after then; none: `ns`.
  int64_t NextAfter(int64_t ns) const {
    const auto next = std::upper_bound(came_.begin(), came_.end(), ns);
    return next == came_.end() ? ns : *next;
  }

 private:
  static int64_t Before(const std::vector<int64_t>& times, int64_t ns) {
    return std::upper_bound(times.begin(), times.end(), ns) - times.begin();
  }
  std::vector<int64_t> came_, left_;
};

// Served tasks, and what the scheduler took before each: where one device computes on the scheduler's thread.
struct Timed {
  RecordedTask task;
  int64_t before_ns = -1;  // -1: it waited for a request, or its device was fed ahead of time
  bool stalled = false;
};

double Mean(const std::vector<int64_t>& values) {
  double sum = 0;
  for (const int64_t v : values) sum += static_cast<double>(v);
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

// Gaps between tasks, told apart by whether anybody was there.
std::vector<Timed> TimedOf(const std::vector<RecordedTask>& served, const Outstanding& out,
                           bool alone, RecordedWorld& world) {
  std::vector<Timed> timed;
  std::vector<int64_t> overheads, wakes;
  for (size_t i = 0; i < served.size(); ++i) {
    Timed& t = timed.emplace_back(Timed{served[i]});
    if (!alone || i == 0) continue;
    const int64_t end_ns = served[i - 1].end_ns;
    const int64_t gap_ns = served[i].start_ns - end_ns;
    if (gap_ns < 0) continue;
    if (out.AnyAt(end_ns)) {
      if (gap_ns >= kStallNs) {
        world.options.stalls.push_back({end_ns, gap_ns});
        continue;
      }
      t.before_ns = gap_ns;
      overheads.push_back(gap_ns);
    } else if (const int64_t came_ns = out.NextAfter(end_ns);
               came_ns - end_ns > world.options.spin_ns) {
      wakes.push_back(std::max<int64_t>(served[i].start_ns - came_ns, 0));
    }
  }
  world.task_overhead_ns = std::llround(Mean(overheads));
  const int64_t wake_ns = QuantileOf(std::move(wakes), 0.5) - world.task_overhead_ns;
  world.options.wake_ns = std::max<int64_t>(wake_ns, 0);
  for (Timed& t : timed) {
    if (t.before_ns < 0) t.before_ns = world.task_overhead_ns;
  }
  return timed;
}

// What a task took in parts of what it took alone.
double TimesOf(const TaskCosts& alone, const RecordedTask& task) {
  return static_cast<double>(task.ns()) /
         static_cast<double>(alone.Ns(CellTypeId(task.type), task.nodes));
}

// Finds the stalled among them, and leaves their stalls in the world.
void FindStalls(const TaskCosts& alone, std::vector<Timed>& timed, RecordedWorld& world) {
  std::vector<std::vector<double>> times(alone.types().size());
  for (const Timed& t : timed) times[Index(t.task.type)].push_back(TimesOf(alone, t.task));
  std::vector<double> median(times.size(), 1);
  for (size_t type = 0; type < times.size(); ++type) {
    if (times[type].empty()) continue;
    const auto middle = times[type].begin() + static_cast<std::ptrdiff_t>(times[type].size() / 2);
    std::nth_element(times[type].begin(), middle, times[type].end());
    median[type] = *middle;
  }
  for (Timed& t : timed) {
    const auto alone_ns = static_cast<double>(alone.Ns(CellTypeId(t.task.type), t.task.nodes));
    const int64_t expected_ns = std::llround(alone_ns * median[Index(t.task.type)]);
    t.stalled = t.task.ns() - expected_ns >= kStallNs && t.task.ns() >= 2 * expected_ns;
    if (t.stalled) {
      world.options.stalls.push_back({t.task.start_ns, t.task.ns() - expected_ns});
    }
  }
  std::sort(world.options.stalls.begin(), world.options.stalls.end(),
            [](const WorldStall& a, const WorldStall& b) { return a.at_ns < b.at_ns; });
}

// What tasks of a type took served, in parts of what they took alone: by size where there are enough of one.
class ServedTimes {
 public:
  ServedTimes(const TaskCosts& alone, CellTypeId type, const std::vector<Timed>& timed) {
    for (const CalibrationPoint& point : alone.types()[Index(type.value())].points) {
      sizes_.push_back(point.batch);
    }
    by_size_.resize(sizes_.size());
    for (const Timed& t : timed) {
      if (t.task.type != type.value() || t.stalled) continue;
      const auto expected = static_cast<double>(alone.Ns(type, t.task.nodes));
      for (Sum* sum : {&all_, &by_size_[At(t.task.nodes)]}) {
        sum->took += static_cast<double>(t.task.ns());
        sum->expected += expected;
        ++sum->tasks;
      }
    }
  }
  double TimesOfSize(size_t size) const {
    const Sum& sum = by_size_[size].tasks >= kEnoughTasks ? by_size_[size] : all_;
    return sum.tasks == 0 ? 1 : sum.took / sum.expected;
  }
  // How much that says.
  double WeightOfSize(size_t size) const {
    const size_t tasks = by_size_[size].tasks;
    return tasks >= kEnoughTasks ? static_cast<double>(tasks) : 1;
  }

 private:
  struct Sum {
    double took = 0, expected = 0;
    size_t tasks = 0;
  };
  size_t At(int32_t nodes) const {
    const auto at = std::lower_bound(sizes_.begin(), sizes_.end(), nodes);
    return std::min(Index(at - sizes_.begin()), sizes_.size() - 1);
  }
  std::vector<int32_t> sizes_;
  std::vector<Sum> by_size_;
  Sum all_;
};

// The times nearest to those, by weight, of which none is less than one before it (pool adjacent violators). A few slow
// tasks of a small size are noise, and must not make all larger ones as slow.
std::vector<double> Ascending(const std::vector<double>& times,
                              const std::vector<double>& weights) {
  struct Pool {
    double sum, weight;
    size_t size;
    double mean() const { return sum / weight; }
  };
  std::vector<Pool> pools;
  for (size_t i = 0; i < times.size(); ++i) {
    pools.push_back({times[i] * weights[i], weights[i], 1});
    while (pools.size() > 1 && pools[pools.size() - 2].mean() > pools.back().mean()) {
      const Pool last = pools.back();
      pools.pop_back();
      pools.back().sum += last.sum;
      pools.back().weight += last.weight;
      pools.back().size += last.size;
    }
  }
  std::vector<double> ascending;
  for (const Pool& pool : pools) ascending.insert(ascending.end(), pool.size, pool.mean());
  return ascending;
}

absl::StatusOr<TaskCosts> Served(const TaskCosts& alone, const std::vector<Timed>& timed,
                                 int64_t overhead_ns) {
  std::vector<TypeCosts> types(alone.types().begin(), alone.types().end());
  for (size_t t = 0; t < types.size(); ++t) {
    const ServedTimes times(alone, CellTypeId(static_cast<int64_t>(t)), timed);
    std::vector<double> ns, weights;
    for (size_t i = 0; i < types[t].points.size(); ++i) {
      ns.push_back(static_cast<double>(types[t].points[i].task_ns) * times.TimesOfSize(i));
      weights.push_back(times.WeightOfSize(i));
    }
    const std::vector<double> ascending = Ascending(ns, weights);
    for (size_t i = 0; i < ascending.size(); ++i) {
      types[t].points[i].task_ns = std::max<int64_t>(std::llround(ascending[i]), 1) + overhead_ns;
    }
  }
  return TaskCosts::Of(std::move(types));
}

// What tasks took in parts of their costs, window by window: of each type where enough of it ran then, else of all. Sums
// by sums: of single tasks the slow ones would count for as long as they lasted. From `first_ns` on.
std::vector<std::vector<WorldPace>> PaceOf(const TaskCosts& costs, const std::vector<Timed>& timed,
                                           int64_t first_ns) {
  struct Sum {
    double took = 0, expected = 0;
    size_t tasks = 0;
  };
  const size_t types = costs.types().size();
  std::map<int64_t, std::vector<Sum>> windows;  // by their beginning: by type, and all
  for (const Timed& t : timed) {
    if (t.stalled) continue;
    const int64_t at_ns = std::max<int64_t>(t.task.start_ns - first_ns, 0);
    std::vector<Sum>& sums =
        windows.try_emplace(at_ns / kWindowNs * kWindowNs, types + 1).first->second;
    for (Sum* sum : {&sums[Index(t.task.type)], &sums[types]}) {
      sum->took += static_cast<double>(t.task.ns() + t.before_ns);
      sum->expected += static_cast<double>(costs.Ns(CellTypeId(t.task.type), t.task.nodes));
      ++sum->tasks;
    }
  }
  std::vector<std::vector<WorldPace>> pace(types);
  for (const auto& [at_ns, sums] : windows) {
    for (size_t type = 0; type < types; ++type) {
      const Sum& sum = sums[type].tasks >= kEnoughTasks ? sums[type] : sums[types];
      pace[type].push_back({at_ns, sum.took / sum.expected});
    }
  }
  return pace;
}

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
