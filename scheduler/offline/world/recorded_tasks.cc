#include "scheduler/offline/world/recorded_tasks.h"

#include <cmath>
#include <deque>
#include <limits>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "scheduler/record/schedule_tape.h"
#include "scheduler/warm/calibration.h"

namespace cellbatch {
namespace {

constexpr size_t kEnoughTasks = 20;  // of a size, to know what they take
// Longer by that than tasks like it, and twice as long: something else had the core.
constexpr int64_t kStallNs = 1'000'000;
constexpr int64_t kWindowNs = 20'000'000;  // in which a machine is as fast all the time

size_t Index(int64_t i) { return static_cast<size_t>(i); }

// What a task took in parts of what it took alone.
double TimesOf(const TaskCosts& alone, const RecordedTask& task) {
  return static_cast<double>(task.ns()) /
         static_cast<double>(alone.Ns(CellTypeId(task.type), task.nodes));
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

}  // namespace

double Mean(const std::vector<int64_t>& values) {
  double sum = 0;
  for (const int64_t v : values) sum += static_cast<double>(v);
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

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

}  // namespace cellbatch
