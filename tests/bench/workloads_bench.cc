// Whole workloads by operator batches, naive, planned and planned across cells, and fused: bytes copied, requests a second
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cells/batched/batched_cell.h"
#include "cells/batched/plan_batched.h"
#include "cells/check.h"
#include "cells/compile/lower.h"
#include "cells/device/cpu/cell_run.h"
#include "cells/device/cpu/cpu_features.h"
#include "cells/device/cpu/cpu_limits.h"
#include "tests/bench/report.h"
#include "tests/bench/request_graphs.h"

namespace cellbatch {
namespace {

constexpr int kRounds = 9;
constexpr size_t kRequests = 64;
constexpr int64_t kHidden[] = {64, 256};
constexpr const char* kWorkloads[] = {"treelstm", "latticelstm", "nmt"};
// Of states after hundreds of steps, whose sums the executors order differently.
constexpr float kAgreement = 1e-2f;

double Seconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

// The rows of a mini-batch in memory, numbered one way, and its tasks as lists of them.
class Rows {
 public:
  Rows(const RequestGraphs& graphs, NumberedRows numbered)
      : graphs_(graphs), numbered_(std::move(numbered)) {
    MakeTables();
    for (const CellType& type : graphs.model->types) columns_.push_back(ColumnsOf(type));
    for (const std::vector<int32_t>& batch : numbered_.batches) AddTask(batch);
  }

  // run(type, columns, lists) of every task in turn.
  template <typename Run>
  void ForEachTask(const Run& run) const {
    for (const Task& task : tasks_) {
      InputRows inputs[kMaxInputs];
      for (size_t i = 0; i < task.rows.size(); ++i) {
        const bool sums = !task.offsets[i].empty();
        inputs[i] = {task.rows[i].data(), sums ? task.offsets[i].data() : nullptr};
      }
      const auto type = static_cast<size_t>(task.type.value());
      run(type, columns_[type],
          NodeLists{static_cast<int32_t>(task.out.size()), inputs, task.out.data()});
    }
  }

  // The most nodes that a task of the type has.
  int32_t MostNodes(size_t type) const {
    size_t most = 1;
    for (const Task& task : tasks_) {
      if (task.type.value() == static_cast<int32_t>(type)) most = std::max(most, task.out.size());
    }
    return static_cast<int32_t>(most);
  }
  int64_t tasks() const { return static_cast<int64_t>(tasks_.size()); }

  // The largest difference between floats that nodes left here and there.
  float Apart(const Rows& other) const;

 private:
  struct Task {
    CellTypeId type;
    std::vector<std::vector<Row>> rows;         // by input
    std::vector<std::vector<int32_t>> offsets;  // empty: of a kOne input
    std::vector<Row> out;
  };

  void MakeTables();
  CellColumns ColumnsOf(const CellType& type) const;
  void AddTask(const std::vector<int32_t>& batch);

  const RequestGraphs& graphs_;
  const NumberedRows numbered_;
  std::vector<kernels::PackedMemory> memory_;
  std::vector<std::vector<ColumnArray>> tables_;  // by table, column
  std::vector<CellColumns> columns_;              // by type
  std::vector<Task> tasks_;
};

void Rows::MakeTables() {
  for (size_t t = 0; t < graphs_.model->tables.size(); ++t) {
    tables_.emplace_back();
    for (const Column& column : graphs_.model->tables[t].columns) {
      const int64_t stride = ColumnStride(column);
      memory_.emplace_back(stride * numbered_.rows[t]);
      tables_.back().push_back({memory_.back().data(), stride, column.width, column.type});
    }
  }
  for (size_t v = 0; v < graphs_.values.size(); ++v) {
    const RequestRow& value = graphs_.values[v];
    if (value.data == nullptr) continue;
    const ColumnArray& column = tables_[static_cast<size_t>(value.table.value())][0];
    std::memcpy(column.At(numbered_.row[v]), value.data,
                static_cast<size_t>(column.width) * sizeof(float));
  }
}

CellColumns Rows::ColumnsOf(const CellType& type) const {
  CellColumns columns;
  for (size_t i = 0; i < type.in.size(); ++i) {
    const auto table = static_cast<size_t>(type.in[i].value());
    columns.inputs.emplace_back();
    for (const Column& read : type.definition->inputs()[i].reads) {
      const ColumnId id = graphs_.model->tables[table].Find(read.name);
      columns.inputs.back().push_back(tables_[table][static_cast<size_t>(id.value())]);
    }
  }
  columns.outputs = tables_[static_cast<size_t>(type.out.value())];
  return columns;
}

void Rows::AddTask(const std::vector<int32_t>& batch) {
  Task task;
  task.type = graphs_.nodes[static_cast<size_t>(batch[0])].type;
  const absl::Span<const Input> inputs = graphs_.model->type(task.type).definition->inputs();
  task.rows.resize(inputs.size());
  task.offsets.resize(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].arity == Arity::kSum) task.offsets[i].push_back(0);
  }
  for (const int32_t n : batch) {
    const RequestNode& node = graphs_.nodes[static_cast<size_t>(n)];
    task.out.push_back(numbered_.row[static_cast<size_t>(node.value)]);
    for (size_t i = 0; i < inputs.size(); ++i) {
      for (const int32_t v : node.reads[i]) {
        task.rows[i].push_back(v == kZeros ? kZeroRow : numbered_.row[static_cast<size_t>(v)]);
      }
      if (inputs[i].arity == Arity::kSum) {
        task.offsets[i].push_back(static_cast<int32_t>(task.rows[i].size()));
      }
    }
  }
  tasks_.push_back(std::move(task));
}

float Rows::Apart(const Rows& other) const {
  float most = 0.0f;
  for (const RequestNode& node : graphs_.nodes) {
    const auto v = static_cast<size_t>(node.value);
    const auto table = static_cast<size_t>(graphs_.values[v].table.value());
    for (size_t c = 0; c < tables_[table].size(); ++c) {
      const ColumnArray &mine = tables_[table][c], &theirs = other.tables_[table][c];
      const float *const x = mine.At(numbered_.row[v]), *const y =
                                                            theirs.At(other.numbered_.row[v]);
      for (int32_t u = 0; u < mine.width && mine.type == ElementType::kFp32; ++u) {
        most = std::max(most, std::abs(x[u] - y[u]));
      }
    }
  }
  return most;
}

// Bytes copied: in all, and of those between tables' rows and the places where a cell reads or leaves them.
struct Copied {
  int64_t all = 0, rows = 0;
};

// All tasks of a mini-batch, one after the other.
using RunAll = std::function<Copied()>;

// `blas` none: products by our kernels.
RunAll Batched(const RequestGraphs& graphs, const Rows& rows, BatchedLayout layout,
               const std::optional<kernels::OpenBlas>& blas) {
  struct Cells {
    std::vector<std::unique_ptr<BatchedCell>> cells;
    std::vector<std::unique_ptr<BatchedScratch>> scratch;
  };
  const auto all = std::make_shared<Cells>();
  for (size_t t = 0; t < graphs.model->types.size(); ++t) {
    const CellType& type = graphs.model->types[t];
    const int32_t most = rows.MostNodes(t);
    absl::StatusOr<BatchedPlan> plan = PlanBatched(*type.definition, layout, most);
    Check(plan.ok(), plan.status().ToString());
    all->cells.push_back(std::make_unique<BatchedCell>(
        type, std::move(plan->program), kernels::BestKernels(DetectCpuFeatures()), blas));
    all->scratch.push_back(std::make_unique<BatchedScratch>(all->cells[t]->program(), most));
  }
  return [all, &rows] {
    Copied copied;
    rows.ForEachTask([&](size_t type, const CellColumns& columns, const NodeLists& nodes) {
      const BatchedCounts c = RunBatched(*all->cells[type], columns, nodes, *all->scratch[type]);
      copied.all += c.gather_bytes + c.scatter_bytes + c.input_bytes + c.row_bytes;
      copied.rows += c.row_bytes;
    });
    return copied;
  };
}

RunAll Fused(const RequestGraphs& graphs, const Rows& rows) {
  struct Cells {
    CoreTeam team{1, {}, {}};
    std::vector<kernels::ProductScratch> product_scratch{1};
    std::vector<std::unique_ptr<PackedCell>> cells;
    std::unique_ptr<CellScratch> scratch;
  };
  const auto all = std::make_shared<Cells>();
  std::vector<const CellProgram*> programs;
  for (const CellType& type : graphs.model->types) {
    absl::StatusOr<CellProgram> program = Lower(*type.definition, kCpuLimits);
    Check(program.ok(), program.status().ToString());
    all->cells.push_back(std::make_unique<PackedCell>(type, *std::move(program), CellFolds(),
                                                      kernels::BestKernels(DetectCpuFeatures())));
    programs.push_back(&all->cells.back()->program());
  }
  all->scratch = std::make_unique<CellScratch>(programs);
  return [all, &rows] {
    rows.ForEachTask([&](size_t type, const CellColumns& columns, const NodeLists& nodes) {
      RunCell(*all->cells[type], columns, nodes, *all->scratch,
              {&all->team, &all->product_scratch});
    });
    return Copied();  // rows are gathered while they are loaded
  };
}

struct Contender {
  std::string name;
  const Rows* rows;
  RunAll run;
  Copied copied = {};
  std::vector<double> requests_per_second = {};
};

void Measure(std::vector<Contender>& contenders) {
  for (Contender& c : contenders) {
    c.copied = c.run();
    Check(c.rows->Apart(*contenders[0].rows) <= kAgreement, "executors agree: " + c.name);
  }
  for (int round = 0; round < kRounds; ++round) {
    for (Contender& c : contenders) {
      const double start = Seconds();
      c.run();
      c.requests_per_second.push_back(static_cast<double>(kRequests) / (Seconds() - start));
    }
  }
}

void WorkloadFigures(const std::string& workload, int64_t hidden, const kernels::OpenBlas& blas,
                     Table& table, Report& report) {
  const RequestGraphs graphs = UnfoldRequests(workload, hidden, kRequests);
  Check(graphs.requests.size() == kRequests, "as many requests as the workload was asked for");
  const double start = Seconds();
  NumberedRows numbered = AcrossCells(graphs);
  const double across_ns = (Seconds() - start) * 1e9 / static_cast<double>(graphs.nodes.size());
  // Rows of their own for each, so that nobody finds another's answers.
  const Rows naive(graphs, ByRequest(graphs)), planned(graphs, ByRequest(graphs)),
      planned_own(graphs, ByRequest(graphs)), across_own(graphs, numbered),
      across(graphs, numbered), fused(graphs, ByRequest(graphs)), fused_across(graphs, numbered);
  std::vector<Contender> contenders = {
      {"fused", &fused, Fused(graphs, fused)},
      {"fused_across", &fused_across, Fused(graphs, fused_across)},
      {"naive", &naive, Batched(graphs, naive, BatchedLayout::kNaive, blas)},
      {"planned", &planned, Batched(graphs, planned, BatchedLayout::kPlanned, blas)},
      {"across", &across, Batched(graphs, across, BatchedLayout::kPlanned, blas)},
      {"planned_own", &planned_own, Batched(graphs, planned_own, BatchedLayout::kPlanned, {})},
      {"across_own", &across_own, Batched(graphs, across_own, BatchedLayout::kPlanned, {})}};
  Measure(contenders);
  const std::string name = "workloads." + workload + ".h" + std::to_string(hidden);
  for (Contender& c : contenders) {
    const double all = static_cast<double>(c.copied.all) / 1024.0 / kRequests;
    const double of_rows = static_cast<double>(c.copied.rows) / 1024.0 / kRequests;
    const Quartiles rate = QuartilesOf(std::move(c.requests_per_second));
    table.Add({workload, std::to_string(hidden), c.name, std::to_string(c.rows->tasks()),
               Number(all, 1), Number(of_rows, 1), Number(rate, 1)});
    report.Figure(name + "." + c.name + ".copied", all, "kB");
    report.Figure(name + "." + c.name + ".copied_rows", of_rows, "kB");
    report.Figure(name + "." + c.name + ".rps", rate.median, "requests/s", &rate);
  }
  report.Figure(name + ".across_ns", across_ns, "ns a node");
}

int Main(int argc, char** argv) {
  const std::string json = JsonArgument("workloads", argc, argv);
  Report report("workloads");
  const absl::StatusOr<kernels::OpenBlas> blas = kernels::OpenBlas::Load();
  if (!blas.ok()) {
    std::cerr << "workloads: " << blas.status() << "\n";
    return 1;
  }
  report.Fact("products of the batched executor", blas->name());
  report.Text(
      "64 requests at once, one core, batches of LB-greedy, the same for all; computing alone. kB "
      "copied a request, weights of the\nnaive layout included. across: rows numbered in the order "
      "of the batches that leave and read them. fused copies nothing:\nrows are gathered while "
      "kernels load them. own: products by our kernels instead of the library's.\n");
  Table table({"workload", "h", "executor", "tasks", "kB a request", "of them rows", "requests/s"});
  for (const int64_t hidden : kHidden) {
    for (const char* workload : kWorkloads) {
      WorkloadFigures(workload, hidden, *blas, table, report);
    }
  }
  report.Text(table.ToString());
  return report.Finish(json) ? 0 : 1;
}

}  // namespace
}  // namespace cellbatch

int main(int argc, char** argv) { return cellbatch::Main(argc, argv); }
