#include "cells/kernels/reference/interpreter.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <numeric>

#include "cells/check.h"

namespace cellbatch {
namespace {

// Runs one cell for one node; values are row-major.
class NodeRun {
 public:
  NodeRun(const CellDefinition& cell, const Weights& weights, absl::Span<const RowValues> inputs)
      : cell_(cell), weights_(weights), inputs_(inputs), values_(cell.ops().size()) {}

  RowValues Run() {
    for (size_t i = 0; i < values_.size(); ++i) values_[i] = Compute(cell_.ops()[i]);
    RowValues row;
    for (const Output& output : cell_.outputs()) row.push_back(Value(output.value));
    return row;
  }

 private:
  const ColumnValues& Value(ValueId v);
  // Large weights are read where they lie; null: not a parameter.
  const float* ParameterData(ValueId v) const {
    const Op& op = cell_.op(v);
    return op.kind == OpKind::kParameter ? weights_[static_cast<size_t>(op.attr[0])].data.get()
                                         : nullptr;
  }
  ColumnValues Compute(const Op& op);
  ColumnValues Constant(const Op& op);
  ColumnValues Input(const Op& op);
  ColumnValues Lookup(const Op& op);
  ColumnValues MatMul(const Op& op);
  template <typename W>
  ColumnValues Product(const Op& op, const W* w);
  template <typename F>
  ColumnValues Map(const Op& op, F f);
  template <typename F>
  ColumnValues Zip(const Op& op, F f);
  ColumnValues Slice(const Op& op);
  ColumnValues Concat(const Op& op);
  ColumnValues Transpose(const Op& op);
  double Total(const Op& op);
  ColumnValues Softmax(const Op& op);
  ColumnValues ArgMax(const Op& op);

  const CellDefinition& cell_;
  const Weights& weights_;
  absl::Span<const RowValues> inputs_;
  std::vector<ColumnValues> values_;
};

const ColumnValues& NodeRun::Value(ValueId v) {
  ColumnValues& value = values_[static_cast<size_t>(v.value())];
  const float* const data = ParameterData(v);
  if (data != nullptr && value.empty()) value.assign(data, data + cell_.op(v).shape.size());
  return value;
}

ColumnValues NodeRun::Constant(const Op& op) {
  const double value =
      op.type == ElementType::kInt32
          ? static_cast<double>(op.attr[0])  // an int beside a float would be rounded to one
          : static_cast<double>(std::bit_cast<float>(op.attr[0]));
  return ColumnValues(static_cast<size_t>(op.shape.size()), value);
}

ColumnValues NodeRun::Input(const Op& op) {
  const ColumnValues& column =
      inputs_[static_cast<size_t>(op.attr[0])][static_cast<size_t>(op.attr[1])];
  Check(static_cast<int64_t>(column.size()) == op.shape.size(),
        "an input column has the width its cell declares");
  return column;
}

ColumnValues NodeRun::Lookup(const Op& op) {
  const Shape table = cell_.op(op.args[0]).shape;
  const double wanted = Value(op.args[1])[0];
  const auto row =
      static_cast<int64_t>(std::clamp(wanted, 0.0, static_cast<double>(table.rows - 1)));
  if (const float* const data = ParameterData(op.args[0]); data != nullptr) {
    return ColumnValues(data + row * table.cols, data + (row + 1) * table.cols);
  }
  const auto begin = Value(op.args[0]).begin() + row * table.cols;
  return ColumnValues(begin, begin + table.cols);
}

template <typename W>
ColumnValues NodeRun::Product(const Op& op, const W* w) {
  const ColumnValues& x = Value(op.args[0]);
  const int64_t depth = cell_.op(op.args[0]).shape.cols, cols = op.shape.cols;
  ColumnValues y(static_cast<size_t>(op.shape.size()));
  for (int64_t r = 0; r < op.shape.rows; ++r) {
    for (int64_t n = 0; n < cols; ++n) {
      y[static_cast<size_t>(r * cols + n)] = std::inner_product(
          x.begin() + r * depth, x.begin() + (r + 1) * depth, w + n * depth, 0.0);
    }
  }
  return y;
}

ColumnValues NodeRun::MatMul(const Op& op) {
  const float* const data = ParameterData(op.args[1]);
  return data != nullptr ? Product(op, data) : Product(op, Value(op.args[1]).data());
}

template <typename F>
ColumnValues NodeRun::Map(const Op& op, F f) {
  ColumnValues y = Value(op.args[0]);
  for (double& v : y) v = f(v);
  return y;
}

template <typename F>
ColumnValues NodeRun::Zip(const Op& op, F f) {
  const ColumnValues& a = Value(op.args[0]);
  const ColumnValues& b = Value(op.args[1]);
  ColumnValues y(static_cast<size_t>(op.shape.size()));
  for (size_t i = 0; i < y.size(); ++i) {
    y[i] = f(a[a.size() == 1 ? 0 : i], b[b.size() == 1 ? 0 : i]);
  }
  return y;
}

ColumnValues NodeRun::Slice(const Op& op) {
  const ColumnValues& a = Value(op.args[0]);
  const Shape from = cell_.op(op.args[0]).shape;
  ColumnValues y;
  for (int64_t r = 0; r < from.rows; ++r) {
    const auto row = a.begin() + r * from.cols;
    y.insert(y.end(), row + op.attr[0], row + op.attr[1]);
  }
  return y;
}

ColumnValues NodeRun::Concat(const Op& op) {
  ColumnValues y;
  for (ValueId v : op.args) {
    if (v.valid()) y.insert(y.end(), Value(v).begin(), Value(v).end());
  }
  return y;
}

ColumnValues NodeRun::Transpose(const Op& op) {
  const ColumnValues& a = Value(op.args[0]);
  const int64_t rows = op.shape.rows, cols = op.shape.cols;
  ColumnValues y(a.size());
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) {
      y[static_cast<size_t>(r * cols + c)] = a[static_cast<size_t>(c * rows + r)];
    }
  }
  return y;
}

double NodeRun::Total(const Op& op) {
  const ColumnValues& a = Value(op.args[0]);
  return std::accumulate(a.begin(), a.end(), 0.0);
}

ColumnValues NodeRun::Softmax(const Op& op) {
  const ColumnValues& a = Value(op.args[0]);
  const double most = *std::max_element(a.begin(), a.end());
  ColumnValues y;
  for (double v : a) y.push_back(std::exp(v - most));
  const double sum = std::accumulate(y.begin(), y.end(), 0.0);
  for (double& v : y) v /= sum;
  return y;
}

ColumnValues NodeRun::ArgMax(const Op& op) {
  const ColumnValues& a = Value(op.args[0]);
  auto best = a.end();  // the first of equals, and never NaN
  for (auto v = a.begin(); v != a.end(); ++v) {
    if (!std::isnan(*v) && (best == a.end() || *v > *best)) best = v;
  }
  return {best == a.end() ? 0.0 : static_cast<double>(best - a.begin())};
}

ColumnValues NodeRun::Compute(const Op& op) {
  switch (op.kind) {
    case OpKind::kInput:
      return Input(op);
    case OpKind::kParameter:
      return {};  // Value fetches it if anybody asks
    case OpKind::kConstant:
      return Constant(op);
    case OpKind::kLookup:
      return Lookup(op);
    case OpKind::kMatMul:
      return MatMul(op);
    case OpKind::kAdd:
      return Zip(op, [](double a, double b) { return a + b; });
    case OpKind::kSub:
      return Zip(op, [](double a, double b) { return a - b; });
    case OpKind::kMul:
      return Zip(op, [](double a, double b) { return a * b; });
    case OpKind::kDiv:
      return Zip(op, [](double a, double b) { return a / b; });
    case OpKind::kMax:
      return Zip(op, [](double a, double b) { return std::max(a, b); });
    case OpKind::kSigmoid:
      return Map(op, [](double a) { return 1.0 / (1.0 + std::exp(-a)); });
    case OpKind::kTanh:
      return Map(op, [](double a) { return std::tanh(a); });
    case OpKind::kRelu:
      return Map(op, [](double a) { return std::max(a, 0.0); });
    case OpKind::kExp:
      return Map(op, [](double a) { return std::exp(a); });
    case OpKind::kLog:
      return Map(op, [](double a) { return std::log(a); });
    case OpKind::kSlice:
      return Slice(op);
    case OpKind::kConcat:
      return Concat(op);
    case OpKind::kTranspose:
      return Transpose(op);
    case OpKind::kSum:
      return {Total(op)};
    case OpKind::kMean:
      return {Total(op) / static_cast<double>(Value(op.args[0]).size())};
    case OpKind::kSoftmax:
      return Softmax(op);
    case OpKind::kArgMax:
      return ArgMax(op);
  }
  NoSuchEnumerator();
}

}  // namespace

RowValues InterpretNode(const CellDefinition& cell, const Weights& weights,
                        absl::Span<const RowValues> inputs) {
  Check(inputs.size() == cell.inputs().size(), "a node has a row for each input of its cell");
  Check(weights.size() == cell.parameters().size(), "a cell has weights for each parameter");
  return NodeRun(cell, weights, inputs).Run();
}

RowValues ZeroRow(const Input& input) {
  RowValues row;
  for (const Column& c : input.reads) row.emplace_back(static_cast<size_t>(c.width), 0.0);
  return row;
}

}  // namespace cellbatch
