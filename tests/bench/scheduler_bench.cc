// Scheduler: CPU of manager and worker per node, all in, with 10^5 requests in flight on a device that costs nothing.
//
//   scheduler [--json=FILE] [--seconds=S] [--only=FIGURE] [--policy=NAME] [--recorded]
//
//   scheduler.KIND_node_ns        from arrival popped to answer pushed, over real rings, with stamps, statistics and
//                                 deadlines, of which one in a hundred passes
//   scheduler.KIND_node_of_line   the same / one dependent random load from as much memory as the blocks of the
//                                 requests in flight take, probed before and after (line_probe.h): what carries over
//                                 between machines
//   scheduler.POLICY.KIND_...     the same under another policy than Algorithm 1
//   scheduler.recorded.KIND_...   the same while what the manager does goes onto a tape, as under cellbatch-server's --record;
//                                 who writes it to a file is another thread
//   scheduler.chain_step_ns       forming and retiring tasks of 512 chains, nothing else
//
// Submitting and taking back is not counted, and happens on another core (arrivals.h): what arrives comes out of that
// one's cache. Between two measured chunks of steps that thread may catch up, so that the line of those who wait
// never runs dry.
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "cells/check.h"
#include "cells/device/sim/sim_device.h"
#include "scheduler/policy/policy_spec.h"
#include "scheduler/record/recorder.h"
#include "scheduler/scheduler.h"
#include "tests/bench/arrivals.h"
#include "tests/bench/line_probe.h"
#include "tests/bench/probes.h"
#include "tests/bench/report.h"
#include "tests/bench/scheduler_bench_models.h"

namespace {

// The stepping thread's.
thread_local int64_t allocations = 0;

}  // namespace

// Counts what the steps allocate; design.md says nothing.
[[gnu::noinline]] void* operator new(size_t size) {
  ++allocations;
  if (void* p = std::malloc(size)) return p;
  std::abort();
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, size_t) noexcept { std::free(p); }

namespace cellbatch {
namespace {

constexpr int kInFlight = 100'000;
constexpr int kSteps = 256;  // of manager and worker between two looks at the clock
constexpr int kSpareSlots = 4'000;
constexpr int64_t kProbedLoads = 2'000'000;

struct Result {
  std::vector<double> node_ns;  // of each chunk
  double joined = 0;            // mean of requests that run
  double batch = 0;             // nodes a task
  double allocations_per_step = 0;
  double block_bytes = 0;  // of all requests in flight
};

// What recording costs the manager: the tape. Of the rest, which is other threads', nothing is kept.
class TapeAlone final : public Recorder {
 public:
  ScheduleTape& tape() override { return tape_; }
  void Began(const RecordedSetup&) override {}
  void LaneMade(const RecordedLane&) override {}
  void PolicyTaken(uint32_t, uint32_t, const RecordedPolicy&, const Model&) override {}
  void Submitted(RequestId, int, uint32_t, const Request&) override {}
  void Extended(RequestId, const Request&) override {}
  void Notified(RequestId, bool, int64_t) override {}
  void Answered(RequestId, const Request&) override {}

  // So that there is always room; a tape that is full costs nothing.
  void Empty() {
    words_.clear();
    tape_.Read(words_);
    Check(tape_.lost_steps() == 0, "the tape was full");
  }

 private:
  ScheduleTape tape_;
  std::vector<uint64_t> words_;
};

struct Deciding {
  PolicyKind policy = PolicyKind::kCellular;
  bool recorded = false;
  std::string prefix() const {
    return (recorded ? "recorded." : "") +
           (policy == PolicyKind::kCellular ? "" : std::string(Name(policy)) + ".");
  }
};

// Every state of so many types is known, as of a table that was learned from what is served.
void AddStates(std::vector<CellTypeId>& ready, int num_types, PolicySpec& spec) {
  for (int t = 0; t < num_types; ++t) {
    const CellTypeId type(t);
    if (std::find(ready.begin(), ready.end(), type) != ready.end()) continue;
    ready.push_back(type);
    spec.rules.push_back({*MakeState(spec.encoding, ready, 0), ready.front()});
    AddStates(ready, num_types, spec);
    ready.pop_back();
  }
}

LaneRules RulesOf(PolicyKind kind, const Model& model) {
  PolicySpec spec;
  spec.kind = kind;
  std::vector<CellTypeId> ready;
  if (kind == PolicyKind::kFsm) AddStates(ready, static_cast<int>(model.types.size()), spec);
  return LaneRules(*MakePolicy(spec, model.types.size()));
}

class Bench {
 public:
  Bench(int32_t max_batch, int64_t row_budget_bytes, const Deciding& deciding)
      : model_(BenchModel(max_batch)) {
    DeviceSet set;
    auto memory = std::make_unique<SimMemory>(SimMemoryOptions{.fingerprints = false});
    SimDeviceOptions device;
    device.zero_cost = true;
    set.devices.push_back(std::make_unique<SimDevice>(device, *memory, time_));
    set.memories.push_back(std::move(memory));
    SchedulerOptions options;
    options.threads = false;
    options.calibrate = false;
    options.row_budget_bytes = row_budget_bytes;
    options.max_requests = kInFlight + kSpareSlots;
    if (deciding.recorded) options.recorder = (tape_ = std::make_unique<TapeAlone>()).get();
    auto made = Scheduler::Create(options, std::move(set), clock_);
    Check(made.ok(), std::string(made.status().message()));
    scheduler_ = *std::move(made);
    Check(scheduler_->AddModel(model_, RulesOf(deciding.policy, *model_)).ok(),
          "the model does not load");
  }

  std::shared_ptr<const Model> model() const { return model_; }
  Scheduler& scheduler() { return *scheduler_; }

  SteadyClock& clock() { return clock_; }

  // For that long, with what `arrivals` (or, if null, someone before) submitted.
  Result Run(double seconds, Arrivals* arrivals) {
    Result result;
    int64_t total_ns = 0, steps = 0, in_steps = 0, joined = 0, chunks = 0;
    const CellTypeStats before = Totals();
    bool warm = false;
    while (static_cast<double>(total_ns) < seconds * 1e9 || result.node_ns.size() < 5) {
      const int64_t nodes_before = Nodes();
      const int64_t allocated = allocations;
      const int64_t begin = ThreadCpuNs();
      for (int i = 0; i < kSteps; ++i) {
        scheduler_->StepManager();
        scheduler_->StepWorker(0);
      }
      const int64_t ns = ThreadCpuNs() - begin;
      if (tape_ != nullptr) tape_->Empty();
      in_steps += warm ? allocations - allocated : 0;
      const int64_t nodes = Nodes() - nodes_before;
      steps += warm ? kSteps : 0;
      pending_ns_ += ns;
      pending_nodes_ += nodes;
      if (arrivals != nullptr) arrivals->CatchUp();
      if (pending_nodes_ < 100'000) continue;
      if (warm)
        result.node_ns.push_back(static_cast<double>(pending_ns_) /
                                 static_cast<double>(pending_nodes_));
      if (warm) total_ns += pending_ns_;
      pending_ns_ = pending_nodes_ = 0;
      joined += scheduler_->stats().Lanes()[0].running_requests;
      ++chunks;
      warm = chunks >= 3;
    }
    const CellTypeStats after = Totals();
    result.joined = static_cast<double>(joined) / static_cast<double>(chunks);
    result.batch = static_cast<double>(after.cells - before.cells) /
                   static_cast<double>(after.tasks - before.tasks);
    result.allocations_per_step = static_cast<double>(in_steps) / static_cast<double>(steps);
    if (arrivals != nullptr) {
      Check(arrivals->expired() > 0, "no deadline passed");
      result.block_bytes = kInFlight * arrivals->bytes_per_request();
    }
    return result;
  }

  void Drain() {
    while (scheduler_->StepManager() | scheduler_->StepWorker(0)) {
    }
  }

 private:
  CellTypeStats Totals() const {
    CellTypeStats sum;
    const auto lanes = scheduler_->stats().Lanes();
    for (const CellTypeStats& type : lanes[0].types) {
      sum.tasks += type.tasks;
      sum.cells += type.cells;
    }
    return sum;
  }
  int64_t Nodes() const { return static_cast<int64_t>(Totals().cells); }

  SteadyClock clock_;
  SimTime time_;
  std::shared_ptr<const Model> model_;
  std::unique_ptr<TapeAlone> tape_;
  std::unique_ptr<Scheduler> scheduler_;
  int64_t pending_ns_ = 0, pending_nodes_ = 0;
};

Result Measure(int32_t max_batch, double seconds, MakeRequest make, const Deciding& deciding) {
  Bench bench(max_batch, int64_t{1} << 30, deciding);
  Result result;
  {
    Arrivals arrivals(bench.scheduler(), bench.clock(), bench.model(), kInFlight, make);
    result = bench.Run(seconds, &arrivals);
    arrivals.Stop();
    arrivals.CatchUp();
  }
  bench.scheduler().Stop();
  bench.Drain();
  return result;
}

// Nobody joins and nobody leaves: what forming and retiring a task of 512 chains costs.
Result MeasureSteps(double seconds, const Deciding& deciding) {
  Bench bench(512, int64_t{1} << 33, deciding);
  for (int i = 0; i < 512; ++i) {
    std::unique_ptr<Request> request = EndlessChain(bench.model());
    Check(bench.scheduler().Submit(request).has_value(), "the scheduler is full");
  }
  const Result result = bench.Run(seconds, nullptr);
  bench.scheduler().Stop();
  bench.Drain();
  return result;
}

void Show(Report& report, Table& table, const std::string& name, const Result& r, bool figure) {
  const Quartiles q = QuartilesOf(r.node_ns);
  table.Add({name, Number(q, 1), Number(r.batch, 0), Number(r.joined, 0),
             Number(r.allocations_per_step, 4)});
  if (figure) report.Figure("scheduler." + name, q.median, "ns", &q);
}

// `first` is divided by a load probed right after it, then the same again with the probe first.
void OfLine(Report& report, const std::string& name, const Result& first, double seconds,
            MakeRequest make, const Deciding& deciding) {
  LineProbe probe(static_cast<int64_t>(first.block_bytes));
  std::vector<double> lines, ratios;
  const auto divide = [&](const Result& r) {
    lines.push_back(probe.NsPerLoad(kProbedLoads));
    ratios.push_back(QuartilesOf(r.node_ns).median / lines.back());
  };
  divide(first);
  for (int round = 0; round < 2; ++round) divide(Measure(512, seconds, make, deciding));
  const Quartiles line = QuartilesOf(lines), ratio = QuartilesOf(ratios);
  report.Fact(name + ": a line of " + Number(first.block_bytes / (1 << 20), 0) + " MiB",
              Number(line, 1) + " ns");
  report.Figure("scheduler." + name + "_of_line", ratio.median, "x", &ratio);
}

int Main(const std::string& json, double seconds, const std::string& only,
         const Deciding& deciding) {
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  const std::string prefix = deciding.prefix();
  Report report("scheduler");
  Table table({"figure", "ns a node (quartiles)", "nodes a task", "joined", "allocations a step"});
  double allocated = 0;
  if (only.empty() || only == "chain_step_ns") {
    const Result steps = MeasureSteps(seconds, deciding);
    Show(report, table, prefix + "chain_step_ns", steps, true);
    allocated = steps.allocations_per_step;
  }
  const struct {
    const char* name;
    MakeRequest make;
  } kinds[] = {{"chain_node", Sentence}, {"dag_node", Tree}, {"lattice_node", Lattice}};
  for (const auto& kind : kinds) {
    const std::string name = std::string(kind.name) + "_ns";
    if (!only.empty() && only != name) continue;
    Result full = Measure(512, seconds, kind.make, deciding);
    Show(report, table, prefix + name, full, true);
    OfLine(report, prefix + kind.name, full, seconds, kind.make, deciding);
    allocated = std::max(allocated, full.allocations_per_step);
    if (!only.empty()) continue;
    Show(report, table, prefix + name + " (b_max 16)", Measure(16, seconds, kind.make, deciding),
         false);
  }
  report.Text(table.ToString());
  report.Figure("scheduler." + prefix + "allocations_per_step", allocated, "allocations");
  return report.Finish(json) ? 0 : 1;
}

}  // namespace
}  // namespace cellbatch

int main(int argc, char** argv) {
  std::string json;
  std::string only;
  double seconds = 1.0;
  std::string policy = "cellular";
  bool recorded = false;
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], "--json=", 7) == 0) {
      json = argv[i] + 7;
    } else if (std::strncmp(argv[i], "--only=", 7) == 0) {
      only = argv[i] + 7;
    } else if (std::strncmp(argv[i], "--seconds=", 10) == 0) {
      seconds = std::atof(argv[i] + 10);
    } else if (std::strncmp(argv[i], "--policy=", 9) == 0) {
      policy = argv[i] + 9;
    } else if (std::strcmp(argv[i], "--recorded") == 0) {
      recorded = true;
    } else {
      policy.clear();
    }
  }
  const std::optional<cellbatch::PolicyKind> kind = cellbatch::PolicyKindOf(policy);
  if (!kind.has_value() || *kind == cellbatch::PolicyKind::kSufficient) {
    std::fprintf(
        stderr,
        "scheduler [--json=FILE] [--seconds=S] [--only=FIGURE] [--policy=NAME] [--recorded]\n"
        "NAME: cellular, fsm (every state known) or another of the family but sufficient\n");
    return 2;
  }
  return cellbatch::Main(json, seconds, only, {*kind, recorded});
}
