#include "cells/explode.h"

#include <algorithm>
#include <map>
#include <utility>

#include "cells/check.h"
#include "cells/kernels/reference/interpreter.h"
#include "fmt/format.h"

namespace cellbatch {
namespace {

size_t Index(int64_t i) { return static_cast<size_t>(i); }

std::string ToString(const Op& op) {
  std::string text = fmt::format("{} {} {} {} {}", Name(op.kind), Name(op.type),
                                 op.shape.ToString(), op.attr[0], op.attr[1]);
  for (const ValueId a : op.args) {
    if (a.valid()) text += fmt::format(" {}", a.value());
  }
  return text;
}

// Writes one operator as a definition: leaves, the operator (if there is one), its output.
class OperatorWriter {
 public:
  // A leaf that reads a row.
  ValueId Read(const OperatorSource& source, ElementType type, Shape shape,
               Arity arity = Arity::kOne) {
    node_.sources.push_back(source);
    const auto input = static_cast<int32_t>(inputs_.size());
    inputs_.push_back({.name = std::string(1, static_cast<char>('a' + input)),
                       .reads = {OperatorColumn(type, shape.size())},
                       .arity = arity});
    return Push({.kind = OpKind::kInput, .attr = {input, 0}, .shape = shape, .type = type});
  }
  // A leaf that is value `value` of the cell, which is the same for every node.
  ValueId Weight(ValueId value, Shape shape) {
    node_.weights.push_back(value);
    const auto parameter = static_cast<int32_t>(parameters_.size());
    parameters_.push_back({.name = fmt::format("w{}", parameter), .shape = shape});
    return Push({.kind = OpKind::kParameter, .attr = {parameter, 0}, .shape = shape});
  }
  ValueId Push(const Op& op) {
    ops_.push_back(op);
    return ValueId(static_cast<int64_t>(ops_.size()) - 1);
  }
  OperatorNode Finish(const std::string& name) {
    const ValueId last(static_cast<int64_t>(ops_.size()) - 1);
    for (const Op& op : ops_) node_.signature += ToString(op) + "\n";
    for (const Input& in : inputs_) node_.signature += in.arity == Arity::kSum ? "sum\n" : "";
    auto made = CellDefinition::Create(name, std::move(ops_), std::move(inputs_),
                                       std::move(parameters_), {{kOperatorColumn, last}}, {});
    Check(made.ok(), made.status().ToString());  // the cell has passed the same checks
    node_.definition = std::make_shared<const CellDefinition>(*std::move(made));
    return std::move(node_);
  }

 private:
  OperatorNode node_;
  std::vector<Op> ops_;
  std::vector<Input> inputs_;
  std::vector<Parameter> parameters_;
};

class Exploder {
 public:
  explicit Exploder(const CellDefinition& cell)
      : cell_(cell), is_weight_(cell.ops().size()), node_of_(cell.ops().size(), -1) {}

  ExplodedCell Run() {
    std::vector<bool> needed(cell_.ops().size());
    for (const Output& o : cell_.outputs()) needed[Index(o.value.value())] = true;
    for (size_t i = needed.size(); i-- > 0;) {
      for (const ValueId a : cell_.ops()[i].args) {
        if (needed[i] && a.valid()) needed[Index(a.value())] = true;
      }
    }
    for (size_t i = 0; i < needed.size(); ++i) {
      const Op& op = cell_.ops()[i];
      is_weight_[i] = IsWeight(op);
      const bool leaf = op.kind == OpKind::kInput && !IsSum(op);
      if (needed[i] && !is_weight_[i] && !leaf) node_of_[i] = AddOperator(op);
    }
    for (const Output& o : cell_.outputs()) exploded_.outputs.push_back(OutputNode(o.value));
    return std::move(exploded_);
  }

 private:
  bool IsSum(const Op& op) const { return cell_.inputs()[Index(op.attr[0])].arity == Arity::kSum; }

  // Weights are FP32, and nothing that a node brings decides them.
  bool IsWeight(const Op& op) const {
    if (op.kind == OpKind::kInput || op.type != ElementType::kFp32) return false;
    return std::all_of(op.args.begin(), op.args.end(),
                       [this](ValueId a) { return !a.valid() || is_weight_[Index(a.value())]; });
  }

  int32_t Add(OperatorNode node) {
    exploded_.nodes.push_back(std::move(node));
    return static_cast<int32_t>(exploded_.nodes.size()) - 1;
  }

  // The leaf of an operator that stands for value `v` of the cell.
  ValueId Operand(ValueId v, OperatorWriter& writer) const {
    const Op& op = cell_.op(v);
    if (op.kind == OpKind::kConstant && op.type == ElementType::kFp32) return writer.Push(op);
    if (is_weight_[Index(v.value())]) return writer.Weight(v, op.shape);
    const int32_t node = node_of_[Index(v.value())];
    if (node >= 0) return writer.Read({.node = node}, op.type, op.shape);
    return writer.Read({.input = InputId(op.attr[0]), .column = op.attr[1]}, op.type, op.shape);
  }

  int32_t AddOperator(const Op& op) {
    OperatorWriter writer;
    if (op.kind == OpKind::kInput) {  // a sum of rows, whichever shapes it is read in
      const auto [at, is_new] = sums_.emplace(std::pair(op.attr[0], op.attr[1]), -1);
      if (!is_new) return at->second;
      writer.Read({.input = InputId(op.attr[0]), .column = op.attr[1]}, op.type,
                  Shape::Vector(static_cast<int32_t>(op.shape.size())), Arity::kSum);
      return at->second = Add(writer.Finish("SumOfRows"));
    }
    Op made = op;
    for (ValueId& a : made.args) {
      if (a.valid()) a = Operand(a, writer);
    }
    writer.Push(made);
    return Add(writer.Finish(Name(op.kind)));
  }

  // Outputs that no operator makes: an input's column or a weight, as it is.
  int32_t OutputNode(ValueId v) {
    int32_t& node = node_of_[Index(v.value())];
    if (node >= 0) return node;
    OperatorWriter writer;
    Operand(v, writer);
    const Op& op = cell_.op(v);
    return node = Add(writer.Finish(op.kind == OpKind::kInput ? "Copy" : "Weight"));
  }

  const CellDefinition& cell_;
  std::vector<bool> is_weight_;   // by value
  std::vector<int32_t> node_of_;  // by value; -1: none
  std::map<std::pair<int32_t, int32_t>, int32_t> sums_;
  ExplodedCell exploded_;
};

}  // namespace

ExplodedCell Explode(const CellDefinition& cell) { return Exploder(cell).Run(); }

Column OperatorColumn(ElementType type, int64_t width) {
  return {kOperatorColumn, type, static_cast<int32_t>(width)};
}

OperatorNode CopyOperator(ElementType type, int64_t width, const OperatorSource& source) {
  OperatorWriter writer;
  writer.Read(source, type, Shape::Vector(static_cast<int32_t>(width)));
  return writer.Finish("Copy");
}

Weight EvaluateWeight(const CellDefinition& cell, const Weights& weights, ValueId value) {
  const Op& wanted = cell.op(value);
  if (wanted.kind == OpKind::kParameter) return weights[Index(wanted.attr[0])];
  // The operators that it takes, in their order, as a cell without inputs.
  std::vector<bool> needed(Index(value.value()) + 1);
  needed.back() = true;
  for (size_t i = needed.size(); i-- > 0;) {
    for (const ValueId a : cell.ops()[i].args) {
      if (needed[i] && a.valid()) needed[Index(a.value())] = true;
    }
  }
  std::vector<Op> ops;
  std::vector<ValueId> renumbered(needed.size());
  for (size_t i = 0; i < needed.size(); ++i) {
    if (!needed[i]) continue;
    Op op = cell.ops()[i];
    for (ValueId& a : op.args) {
      if (a.valid()) a = renumbered[Index(a.value())];
    }
    renumbered[i] = ValueId(static_cast<int64_t>(ops.size()));
    ops.push_back(op);
  }
  const absl::Span<const Parameter> parameters = cell.parameters();
  const auto alone =
      CellDefinition::Create("weight", std::move(ops), {}, {parameters.begin(), parameters.end()},
                             {{kOperatorColumn, renumbered.back()}}, {});
  Check(alone.ok(), alone.status().ToString());
  const ColumnValues values = InterpretNode(*alone, weights, {})[0];
  const std::shared_ptr<float[]> data(new float[values.size()]);
  std::transform(values.begin(), values.end(), data.get(),
                 [](double v) { return static_cast<float>(v); });
  return {data, wanted.shape};
}

}  // namespace cellbatch
