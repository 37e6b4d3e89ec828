#include "cells/exploded_model.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cells/check.h"
#include "cells/explode.h"
#include "cells/unfold/unfolder.h"
#include "fmt/format.h"

namespace cellbatch {
namespace {

size_t Index(int64_t i) { return static_cast<size_t>(i); }

// One cell type as operators of the exploded model.
struct CellPlan {
  struct Node {
    CellTypeId type;
    bool sums = false;  // its one input takes any number of links
    std::vector<OperatorSource> sources;
  };
  std::vector<Node> nodes;
  std::vector<int32_t> outputs;  // by column
  // By input and column read: which column of the source's row.
  std::vector<std::vector<int32_t>> columns;
};

struct ExplodedPlan {
  std::shared_ptr<const Model> cells;
  std::vector<CellPlan> plans;  // by cell type
  // By table of `cells` and column: where what a request brings goes.
  std::vector<std::vector<TableId>> row_tables;
  // To answer with a number that no cell computes: its row, and what leaves it.
  TableId number_table;
  CellTypeId copy_number;
};

// A value in the graph of operators.
struct Source {
  SubgraphId from = kZeroSource;
  int32_t node = 0;
};

// Writes the operators of one sealed graph of cells.
class Rewriter {
 public:
  Rewriter(const ExplodedPlan& plan, CellGraph& cells, CellGraph& graph)
      : plan_(plan), model_(*plan.cells), cells_(cells), graph_(graph) {}

  absl::Status Run();

 private:
  absl::Status Check() const;
  void Reserve();
  void AddNodes(const Subgraph& s);
  void AddNode(const Subgraph& s, const CellPlan& plan, int32_t node);
  void AddLinks(const Subgraph& s, const CellPlan& plan, int32_t node, const OperatorSource& source,
                InputId input);
  Source Resolve(const Link& link, int32_t node, int32_t column) const;
  void Return(const Subgraph& s);
  void ReturnStop(const StopReport& report);
  int64_t ValuesOf(const Subgraph& s) const {
    return s.type.valid() ? int64_t{s.length} * plan_.plans[Index(s.type.value())].outputs.size()
                          : std::ssize(plan_.row_tables[Index(s.table.value())]);
  }

  const ExplodedPlan& plan_;
  const Model& model_;
  CellGraph& cells_;
  CellGraph& graph_;
  // By subgraph: where its values start. A request input has one for each column, the subgraph that stands for it; others
  // one for each node and column.
  std::vector<int64_t> first_value_;
  std::vector<SubgraphId> values_;
  std::vector<SubgraphId> made_;  // by operator of the node being written
  std::vector<Link> links_;       // of the operator being written
  size_t at_ = 0;                 // the subgraph being written
};

absl::Status Rewriter::Check() const {
  int64_t operators = 0;
  for (const Subgraph& s : cells_.subgraphs()) {
    if (!s.type.valid()) continue;
    operators += s.length * static_cast<int64_t>(plan_.plans[Index(s.type.value())].nodes.size());
    if (!s.stop.column.valid() || s.stop.value < 0) continue;  // no operator leaves a negative word
    return absl::InvalidArgumentError(fmt::format(
        "cell type \"{}\": a chain that stops at word {} cannot be scheduled operator by operator; "
        "say how long it is (parameter decode_steps)",
        model_.type(s.type).name, s.stop.value));
  }
  if (operators <= kMaxOperatorNodes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("the graph has {} operators, the limit is {}", operators, kMaxOperatorNodes));
}

void Rewriter::Reserve() {
  int64_t values = 0, operators = 0, links = 0, returns = 0;
  for (const Subgraph& s : cells_.subgraphs()) {
    first_value_.push_back(values);
    values += ValuesOf(s);
    if (!s.type.valid()) continue;
    const CellPlan& plan = plan_.plans[Index(s.type.value())];
    operators += int64_t{s.length} * static_cast<int64_t>(plan.nodes.size());
    for (const CellPlan::Node& n : plan.nodes) {
      links += n.sums ? s.num_links : int64_t{s.length} * static_cast<int64_t>(n.sources.size());
    }
  }
  for (const ReturnPiece& piece : cells_.returns()) returns += piece.nodes.count;
  values_.assign(Index(values), kZeroSource);
  const auto bound = [](int64_t n) { return static_cast<int32_t>(std::min<int64_t>(n, 1 << 30)); };
  graph_.Reserve({.inputs = 2 + bound(static_cast<int64_t>(cells_.subgraphs().size()) - 1),
                  .subgraphs = bound(operators),
                  .links = bound(links),
                  .returns = bound(returns),
                  .tensors = bound(static_cast<int64_t>(cells_.tensors().size()))});
}

Source Rewriter::Resolve(const Link& link, int32_t node, int32_t column) const {
  if (link.from == kZeroSource) return {};
  const Subgraph& from = cells_.subgraphs()[Index(link.from.value())];
  const int32_t first = link.first == kLastNode ? from.length - 1 : link.first;
  const int32_t at = first + node * link.stride;
  const int64_t base = first_value_[Index(link.from.value())];
  if (!from.type.valid()) return {values_[Index(base + column)], at};
  const int64_t columns = ValuesOf(from) / from.length;
  return {values_[Index(base + at * columns + column)], 0};
}

void Rewriter::AddLinks(const Subgraph& s, const CellPlan& plan, int32_t node,
                        const OperatorSource& source, InputId input) {
  const auto add = [&](const Source& from) { links_.push_back({from.from, input, from.node, 0}); };
  if (source.node >= 0) return add({made_[Index(source.node)], 0});
  const int32_t column = plan.columns[Index(source.input.value())][Index(source.column)];
  const bool carried = model_.type(s.type).definition->carry() == source.input;
  if (carried && node > 0) {
    const int64_t before = first_value_[at_] + (node - 1) * (ValuesOf(s) / s.length);
    return add({values_[Index(before + column)], 0});
  }
  for (const Link& link : cells_.links().subspan(Index(s.first_link), Index(s.num_links))) {
    if (link.input == source.input) add(Resolve(link, node, column));
  }
}

void Rewriter::AddNode(const Subgraph& s, const CellPlan& plan, int32_t node) {
  made_.clear();
  for (const CellPlan::Node& n : plan.nodes) {
    links_.clear();
    for (size_t i = 0; i < n.sources.size(); ++i) {
      AddLinks(s, plan, node, n.sources[i], InputId(static_cast<int64_t>(i)));
    }
    made_.push_back(graph_.Add(n.type, 1, links_));
  }
  const int64_t first =
      first_value_[at_] + int64_t{node} * static_cast<int64_t>(plan.outputs.size());
  for (size_t c = 0; c < plan.outputs.size(); ++c) {
    values_[Index(first) + c] = made_[Index(plan.outputs[c])];
  }
}

void Rewriter::AddNodes(const Subgraph& s) {
  if (!s.type.valid()) {
    const std::byte* data = s.data;
    for (size_t c = 0; c < model_.table(s.table).columns.size(); ++c) {
      if (!s.brought[c]) continue;  // whoever reads it may read zeros
      const Column& column = model_.table(s.table).columns[c];
      values_[Index(first_value_[at_]) + c] =
          graph_.AddInput(plan_.row_tables[Index(s.table.value())][c], s.length, data);
      data += s.length * column.bytes();
    }
    return;
  }
  graph_.SetPhase(s.phase);
  const CellPlan& plan = plan_.plans[Index(s.type.value())];
  for (int32_t node = 0; node < s.length; ++node) AddNode(s, plan, node);
}

void Rewriter::Return(const Subgraph& s) {
  const absl::Span<const ReturnPiece> pieces =
      cells_.returns().subspan(Index(s.first_return), Index(s.num_returns));
  for (const ReturnPiece& piece : pieces) {
    for (int32_t i = 0; i < piece.nodes.count; ++i) {
      const int64_t node = piece.nodes.first + i;
      const int64_t value =
          first_value_[at_] + node * (ValuesOf(s) / s.length) + piece.column.value();
      Placement where = piece.where;
      where.offset_bytes += i * where.stride_bytes;
      where.stride_bytes = 0;
      graph_.Return(values_[Index(value)], ColumnId(0), {0, 1}, where);
    }
  }
}

// A chain that ran to its cap: so many words, and no stop.
void Rewriter::ReturnStop(const StopReport& report) {
  const int32_t length = cells_.subgraphs()[Index(report.chain.value())].length;
  for (const auto& [tensor, value] :
       {std::pair(report.tensors.length, length), std::pair(report.tensors.stopped, 0)}) {
    if (tensor < 0) continue;
    std::byte* const row = graph_.Keep(sizeof(value));
    std::memcpy(row, &value, sizeof(value));
    const Link link = {graph_.AddInput(plan_.number_table, 1, row), InputId(0), 0, 0};
    graph_.Return(graph_.Add(plan_.copy_number, 1, {&link, 1}), ColumnId(0), {0, 1},
                  {.tensor = tensor, .offset_bytes = 0, .stride_bytes = 0});
  }
}

absl::Status Rewriter::Run() {
  if (absl::Status s = Check(); !s.ok()) return s;
  Reserve();
  for (const ReturnedTensor& t : cells_.tensors()) {
    graph_.AddTensor(t.name, t.type, t.dims, t.names);
  }
  for (const Subgraph& s : cells_.subgraphs()) {
    AddNodes(s);
    Return(s);
    ++at_;
  }
  for (const StopReport& report : cells_.stop_reports()) ReturnStop(report);
  graph_.KeepToo(std::move(cells_));
  return absl::OkStatus();
}

class ExplodedUnfolder : public Unfolder {
 public:
  explicit ExplodedUnfolder(ExplodedPlan plan) : plan_(std::move(plan)) {}

  absl::Status Unfold(const RequestInput& input, CellGraph& graph) const override {
    CellGraph cells;
    absl::Status s = plan_.cells->unfolder->Unfold(input, cells);
    if (s.ok() && cells.grows()) {
      s = absl::UnimplementedError("a graph that grows has no operator granularity");
    }
    if (s.ok()) s = cells.Seal(*plan_.cells, 1);
    return s.ok() ? Rewriter(plan_, cells, graph).Run() : s;
  }
  int32_t phases() const override { return plan_.cells->unfolder->phases(); }
  RequestDescription Describe() const override { return plan_.cells->unfolder->Describe(); }

 private:
  ExplodedPlan plan_;
};

// Makes types and tables, each once.
class Maker {
 public:
  explicit Maker(std::shared_ptr<const Model> cells) : cells_(std::move(cells)) {}

  std::shared_ptr<Model> Run() {
    model_ = std::make_shared<Model>(*cells_);
    model_->types.clear();
    model_->tables.clear();
    ExplodedPlan plan;
    plan.cells = cells_;
    for (const CellType& type : cells_->types) plan.plans.push_back(PlanOf(type));
    for (const TableSpec& table : cells_->tables) {
      std::vector<TableId>& columns = plan.row_tables.emplace_back();
      for (const Column& column : table.columns) {
        columns.push_back(TableOf(column.type, column.width));
      }
    }
    plan.number_table = TableOf(ElementType::kInt32, 1);
    plan.copy_number = TypeOf(CopyOperator(ElementType::kInt32, 1, {}), nullptr, {});
    model_->unfolder = std::make_shared<ExplodedUnfolder>(std::move(plan));
    return std::move(model_);
  }

 private:
  TableId TableOf(ElementType type, int32_t width) {
    const auto [at, is_new] =
        tables_.emplace(std::pair(type, width), TableId(static_cast<int64_t>(tables_.size())));
    if (is_new) {
      model_->tables.push_back({.name = fmt::format("{}[{}]", Name(type), width),
                                .columns = {OperatorColumn(type, width)}});
    }
    return at->second;
  }

  // Equal values from equal weights have equal numbers. Recursion: as deep as a cell has operators at most.
  int WeightNumber(const CellType& type, ValueId value, std::vector<int>& known) {
    int& number = known[Index(value.value())];
    if (number >= 0) return number;
    const Op& op = type.definition->op(value);
    std::string key = fmt::format("{} {} {} {}", static_cast<int>(op.kind), op.shape.ToString(),
                                  op.attr[0], op.attr[1]);
    if (op.kind == OpKind::kParameter) {
      const void* const data = type.weights[Index(op.attr[0])].data.get();
      key = fmt::format("{} {}", data, op.shape.ToString());
    }
    for (const ValueId a : op.args) {
      if (a.valid()) key += fmt::format(" {}", WeightNumber(type, a, known));
    }
    const auto [at, is_new] = weights_.emplace(std::move(key), static_cast<int>(values_.size()));
    if (is_new) values_.push_back({});
    return known[Index(value.value())] = at->second;
  }

  CellTypeId TypeOf(const OperatorNode& node, const CellType* from,
                    const std::vector<int>& weights) {
    std::string key = node.signature;
    for (const int w : weights) key += fmt::format("weight {}\n", w);
    const auto [at, is_new] =
        types_.emplace(std::move(key), CellTypeId(static_cast<int64_t>(model_->types.size())));
    const int32_t priority = from == nullptr ? 0 : from->priority;
    if (!is_new) {
      CellType& there = model_->types[Index(at->second.value())];
      there.priority = std::max(there.priority, priority);
      return at->second;
    }
    CellType type;
    type.id = at->second;
    type.name = fmt::format("{} {}", node.definition->name(), type.id.value());
    type.definition = node.definition;
    for (size_t i = 0; i < weights.size(); ++i) {
      Weight& value = values_[Index(weights[i])];
      if (value.data == nullptr) {
        value = EvaluateWeight(*from->definition, from->weights, node.weights[i]);
      }
      type.weights.push_back(value);
    }
    for (const Input& in : node.definition->inputs()) {
      type.in.push_back(TableOf(in.reads[0].type, in.reads[0].width));
    }
    const Column& left = node.definition->columns()[0];
    type.out = TableOf(left.type, left.width);
    type.priority = priority;
    type.precision = model_->precision;
    model_->types.push_back(std::move(type));
    return at->second;
  }

  CellPlan PlanOf(const CellType& type) {
    const ExplodedCell exploded = Explode(*type.definition);
    CellPlan plan;
    plan.outputs = exploded.outputs;
    std::vector<int> known(type.definition->ops().size(), -1);
    for (const OperatorNode& node : exploded.nodes) {
      std::vector<int> weights;
      for (const ValueId w : node.weights) weights.push_back(WeightNumber(type, w, known));
      const absl::Span<const Input> inputs = node.definition->inputs();
      plan.nodes.push_back({TypeOf(node, &type, weights),
                            !inputs.empty() && inputs[0].arity == Arity::kSum, node.sources});
    }
    for (size_t i = 0; i < type.in.size(); ++i) {
      plan.columns.emplace_back();
      for (const Column& c : type.definition->inputs()[i].reads) {
        plan.columns.back().push_back(cells_->table(type.in[i]).Find(c.name).value());
      }
    }
    return plan;
  }

  std::shared_ptr<const Model> cells_;
  std::shared_ptr<Model> model_;
  std::map<std::pair<ElementType, int32_t>, TableId> tables_;
  std::map<std::string, CellTypeId> types_;  // by signature and weights
  std::map<std::string, int> weights_;       // numbers of values, by what makes them
  std::vector<Weight> values_;               // by number
};

}  // namespace

std::shared_ptr<Model> ExplodeModel(std::shared_ptr<const Model> cells) {
  Check(cells->unfolder != nullptr, "a model that is exploded has an unfolder");
  return Maker(std::move(cells)).Run();
}

}  // namespace cellbatch
