#include "cells/cell_definition.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "cells/check.h"
#include "cells/op_inference.h"
#include "fmt/format.h"

namespace cellbatch {
namespace {

// What a definition says of itself beside its operators; every error names the cell and what disagrees.
class Checker {
 public:
  explicit Checker(std::string_view cell) : cell_(cell) {}

  absl::Status CheckInputs(const std::vector<Input>& inputs) const;
  absl::Status CheckParameters(const std::vector<Parameter>& parameters) const;
  absl::Status CheckOutputs(const std::vector<Output>& outputs, size_t num_ops) const;

 private:
  template <typename... Args>
  absl::Status Wrong(fmt::format_string<Args...> text, Args&&... args) const {
    return absl::InvalidArgumentError(
        fmt::format("cell \"{}\": {}", cell_, fmt::format(text, std::forward<Args>(args)...)));
  }
  absl::Status CheckColumn(const Input& input, size_t which) const;

  std::string_view cell_;
};

absl::Status Checker::CheckColumn(const Input& input, size_t which) const {
  const Column& column = input.reads[which];
  if (column.name.empty()) return Wrong("input \"{}\": column {} has no name", input.name, which);
  if (column.width < 1 || column.width > kMaxValueElements) {
    return Wrong("input \"{}\": column \"{}\" has {} elements, allowed are 1 to {}", input.name,
                 column.name, column.width, kMaxValueElements);
  }
  for (size_t i = 0; i < which; ++i) {
    if (input.reads[i].name == column.name) {
      return Wrong("input \"{}\" reads column \"{}\" twice", input.name, column.name);
    }
  }
  if (input.arity == Arity::kSum && column.type != ElementType::kFp32) {
    return Wrong("input \"{}\": only FP32 columns can be summed, \"{}\" is {}", input.name,
                 column.name, cellbatch::Name(column.type));
  }
  return absl::OkStatus();
}

absl::Status Checker::CheckInputs(const std::vector<Input>& inputs) const {
  if (inputs.size() > kMaxInputs) {
    return Wrong("{} inputs, the most is {}", inputs.size(), kMaxInputs);
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Input& input = inputs[i];
    if (input.name.empty()) return Wrong("input {} has no name", i);
    for (size_t j = 0; j < i; ++j) {
      if (inputs[j].name == input.name) return Wrong("two inputs are named \"{}\"", input.name);
    }
    if (input.reads.empty()) return Wrong("input \"{}\" reads no column", input.name);
    if (input.reads.size() > kMaxColumns) {
      return Wrong("input \"{}\" reads {} columns, the most is {}", input.name, input.reads.size(),
                   kMaxColumns);
    }
    for (size_t c = 0; c < input.reads.size(); ++c) {
      if (absl::Status s = CheckColumn(input, c); !s.ok()) return s;
    }
  }
  return absl::OkStatus();
}

absl::Status Checker::CheckParameters(const std::vector<Parameter>& parameters) const {
  if (parameters.size() > kMaxParameters) {
    return Wrong("{} parameters, the most is {}", parameters.size(), kMaxParameters);
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Parameter& p = parameters[i];
    if (p.name.empty()) return Wrong("parameter {} has no name", i);
    for (size_t j = 0; j < i; ++j) {
      if (parameters[j].name == p.name) return Wrong("two parameters are named \"{}\"", p.name);
    }
    if (p.shape.rows < 1 || p.shape.cols < 1) {
      return Wrong("parameter \"{}\" has shape {}", p.name, p.shape.ToString());
    }
    if (p.type != ElementType::kFp32) {
      return Wrong("parameter \"{}\" is {}, parameters are FP32", p.name, cellbatch::Name(p.type));
    }
  }
  return absl::OkStatus();
}

absl::Status Checker::CheckOutputs(const std::vector<Output>& outputs, size_t num_ops) const {
  if (outputs.empty()) return Wrong("no outputs, and a cell leaves one column at least");
  if (outputs.size() > kMaxColumns) {
    return Wrong("{} outputs, the most is {}", outputs.size(), kMaxColumns);
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Output& output = outputs[i];
    if (output.column.empty()) return Wrong("output {} has no name", i);
    for (size_t j = 0; j < i; ++j) {
      if (outputs[j].column == output.column) {
        return Wrong("two outputs are named \"{}\"", output.column);
      }
    }
    const int32_t v = output.value.value();
    if (v < 0 || static_cast<size_t>(v) >= num_ops) {
      return Wrong("output \"{}\" is value {}, there are {}", output.column, v, num_ops);
    }
  }
  return absl::OkStatus();
}

absl::Status CheckCarry(std::string_view cell, const std::vector<Input>& inputs,
                        const std::vector<Column>& columns, InputId carry) {
  const auto wrong = [&](std::string text) {
    return absl::InvalidArgumentError(fmt::format("cell \"{}\": {}", cell, text));
  };
  if (!carry.valid() || static_cast<size_t>(carry.value()) >= inputs.size()) {
    return wrong(fmt::format("carry is input {}, there are {}", carry.value(), inputs.size()));
  }
  const Input& input = inputs[static_cast<size_t>(carry.value())];
  if (input.arity != Arity::kOne) {
    return wrong(fmt::format("carry \"{}\" is a sum, a chain carries one node's row", input.name));
  }
  for (const Column& read : input.reads) {
    const auto left = std::find_if(columns.begin(), columns.end(),
                                   [&](const Column& c) { return c.name == read.name; });
    if (left == columns.end()) {
      return wrong(
          fmt::format("carry \"{}\" reads column \"{}\", which the cell does not leave; a "
                      "chain's node reads what the one before it left",
                      input.name, read.name));
    }
    if (*left != read) {
      return wrong(fmt::format(
          "carry \"{}\" reads column \"{}\" as {} [{}], the cell leaves {} [{}]; a chain's node "
          "reads what the one before it left, so write the same type and dims",
          input.name, read.name, Name(read.type), read.width, Name(left->type), left->width));
    }
  }
  return absl::OkStatus();
}

int64_t FlopsOf(const Op& op, const std::vector<Op>& ops) {
  const auto arg = [&] { return ops[static_cast<size_t>(op.args[0].value())].shape; };
  switch (Family(op.kind)) {
    case OpFamily::kLeaf:
    case OpFamily::kLookup:
    case OpFamily::kRearranging:
      return 0;
    case OpFamily::kProduct:
      return 2 * op.shape.size() * arg().cols;
    case OpFamily::kUnary:
    case OpFamily::kBinary:
      return op.shape.size();
    case OpFamily::kReduction:
      return arg().size();
  }
  NoSuchEnumerator();
}

}  // namespace

std::string ColumnsText(absl::Span<const Column> columns) {
  std::string text;
  for (const Column& c : columns) {
    text += fmt::format("{}{} {}[{}]", text.empty() ? "" : ", ", c.name, Name(c.type), c.width);
  }
  return "{" + text + "}";
}

absl::StatusOr<CellDefinition> CellDefinition::Create(std::string name, std::vector<Op> ops,
                                                      std::vector<Input> inputs,
                                                      std::vector<Parameter> parameters,
                                                      std::vector<Output> outputs,
                                                      std::optional<InputId> carry,
                                                      absl::Span<const std::string> op_names) {
  if (name.empty()) return absl::InvalidArgumentError("a cell has no name");
  const Checker checker(name);
  if (absl::Status s = checker.CheckInputs(inputs); !s.ok()) return s;
  if (absl::Status s = checker.CheckParameters(parameters); !s.ok()) return s;
  if (absl::Status s = InferOps(name, inputs, parameters, op_names, ops); !s.ok()) return s;
  if (absl::Status s = checker.CheckOutputs(outputs, ops.size()); !s.ok()) return s;
  CellDefinition d;
  for (const Output& output : outputs) {
    const Op& made = ops[static_cast<size_t>(output.value.value())];
    d.columns_.push_back({output.column, made.type, static_cast<int32_t>(made.shape.size())});
    if (made.shape.size() > kMaxValueElements) {
      return absl::InvalidArgumentError(
          fmt::format("cell \"{}\": output \"{}\" has {} elements, the most is {}", name,
                      output.column, made.shape.size(), kMaxValueElements));
    }
  }
  if (carry.has_value()) {
    if (absl::Status s = CheckCarry(name, inputs, d.columns_, *carry); !s.ok()) return s;
  }
  for (const Op& op : ops) d.flops_ += FlopsOf(op, ops);
  d.name_ = std::move(name);
  d.ops_ = std::move(ops);
  if (op_names.size() == d.ops_.size()) d.op_names_.assign(op_names.begin(), op_names.end());
  d.inputs_ = std::move(inputs);
  d.parameters_ = std::move(parameters);
  d.outputs_ = std::move(outputs);
  d.carry_ = carry;
  return d;
}

}  // namespace cellbatch
