// Operators that compute beside recurrent ones: embeddings and heads, put down as what they are.
#include <fmt/format.h>

#include "server/convert/onnx_scope.h"

namespace cellbatch {
namespace {

// A head that reads `rows`, whose last dimension is all there is to a step.
OnnxResult AddHead(OnnxScope& scope, const OnnxRows& rows, OnnxConstant weight,
                   std::optional<OnnxConstant> bias) {
  if (rows.stage != RowsStage::kHidden && rows.stage != RowsStage::kFinal) {
    return OnnxWrong(rows.stage == RowsStage::kHead
                         ? "a second linear layer is not served"
                         : "a linear layer before the recurrent ones is not served");
  }
  int64_t width = 1;
  for (const int axis : rows.axes) {
    if (scope.axis(axis).role == AxisRole::kInner) width *= scope.axis(axis).size;
  }
  const int last = rows.axes.empty() ? -1 : rows.axes.back();
  if (last >= 0 && scope.axis(last).role == AxisRole::kTime) {
    return OnnxWrong("reads along the steps, of which there is another number in every request");
  }
  const int64_t reads = last < 0                                    ? 0
                        : scope.axis(last).role == AxisRole::kInner ? scope.axis(last).size
                                                                    : 1;
  if (reads != width || weight.dims[1] != width) {
    return OnnxWrong(fmt::format("reads {} numbers of a state of {}, its weight takes {}", reads,
                                 width, weight.dims[1]));
  }
  OnnxRows made;
  made.stage = RowsStage::kHead;
  made.source = static_cast<int>(scope.heads.size());
  made.axes = rows.axes;
  made.axes.back() = scope.NewAxis(AxisRole::kInner, weight.dims[0]);
  scope.heads.push_back({.node = {},
                         .reads = rows,
                         .weight = std::move(weight),
                         .bias = std::move(bias),
                         .softmax = false});
  return OnnxValues{OnnxValue::Of(std::move(made))};
}

// [C] out of any shape that is ones before it.
absl::StatusOr<OnnxConstant> BiasOf(const OnnxValue& value, int64_t classes) {
  if (!value.is_floats()) return OnnxWrong("the bias is no constant");
  if (value.constant.size() != classes || value.constant.dims.empty() ||
      value.constant.dims.back() != classes) {
    return OnnxWrong(
        fmt::format("the bias is {}, expected [{}]", DimsText(value.constant.dims), classes));
  }
  OnnxConstant bias = value.constant;
  bias.dims = {classes};
  return bias;
}

// Whether the last dimension of what a linear layer left is its classes, all of them.
bool EndsInClasses(const OnnxScope& scope, const OnnxRows& rows, int64_t classes) {
  if (rows.axes.empty()) return false;
  const OnnxAxis& last = scope.axis(rows.axes.back());
  return last.role == AxisRole::kInner && last.size == classes;
}

}  // namespace

OnnxResult ReadEmbedding(OnnxScope& scope, const OnnxValue& table, const OnnxRows& tokens) {
  if (tokens.stage != RowsStage::kInput ||
      !scope.inputs[static_cast<size_t>(tokens.source)].tokens) {
    return OnnxWrong("by what are no words of the input");
  }
  if (table.constant.dims.size() != 2 || table.constant.dims[0] < 1 || table.constant.dims[1] < 1) {
    return OnnxWrong(
        fmt::format("the table is {}, expected [V, E]", DimsText(table.constant.dims)));
  }
  OnnxRows rows = tokens;
  rows.stage = RowsStage::kEmbedded;
  rows.table = fmt::format("table {}", scope.tables.size());
  rows.axes.push_back(scope.NewAxis(AxisRole::kInner, table.constant.dims[1]));
  scope.tables[rows.table] = table.constant;
  return OnnxValues{OnnxValue::Of(std::move(rows))};
}

OnnxResult ReadLinear(OnnxScope& scope, const OnnxNode& node) {
  if (node.in(0) == nullptr || node.in(1) == nullptr || !node.in(0)->is_rows() ||
      !node.in(1)->is_floats() || node.in(1)->constant.dims.size() != 2) {
    return OnnxWrong("served is a product of a state with a constant matrix, in this order");
  }
  if (node.Int("transA", 0) != 0) return OnnxWrong("attribute transA is 1");
  for (const char* name : {"alpha", "beta"}) {
    const onnx::Attribute* a = node.Find(name);
    if (a != nullptr && a->f() != 1)
      return OnnxWrong(fmt::format("attribute {} is {}, served is 1", name, a->f()));
  }
  OnnxConstant weight = node.in(1)->constant;
  if (node.Int("transB", 0) == 0) {
    auto turned = scope.folder.Transpose(weight, {1, 0});
    if (!turned.ok()) return turned.status();
    weight = *std::move(turned);
  }
  std::optional<OnnxConstant> bias;
  if (node.op() == "Gemm" && !IsAbsentOrZero(node.in(2))) {
    auto read = BiasOf(*node.in(2), weight.dims[0]);
    if (!read.ok()) return read.status();
    bias = *std::move(read);
  }
  return AddHead(scope, node.in(0)->rows, std::move(weight), std::move(bias));
}

OnnxResult ReadAdd(OnnxScope& scope, const OnnxNode& node) {
  const OnnxValue *a = node.in(0), *b = node.in(1);
  if (a == nullptr || b == nullptr) return OnnxWrong("an operand is missing");
  if (a->is_integers() && b->is_integers()) {  // sizes
    if (a->constant.size() != 1 || b->constant.size() != 1) return OnnxWrong("of several sizes");
    const OnnxDim x = (*a->constant.integers)[0], y = (*b->constant.integers)[0];
    OnnxDim made{.value = 0, .axis = OnnxDim::kUnknown};
    int64_t number = 0;
    const bool overflow = node.op() == "Mul"   ? __builtin_mul_overflow(x.value, y.value, &number)
                          : node.op() == "Sub" ? __builtin_sub_overflow(x.value, y.value, &number)
                                               : __builtin_add_overflow(x.value, y.value, &number);
    if (x.known() && y.known() && !overflow) made = {.value = number};
    if (node.op() == "Mul" && x.known() && x.value == 1) made = y;
    if (node.op() == "Mul" && y.known() && y.value == 1) made = x;
    OnnxConstant one =
        a->constant.dims.size() >= b->constant.dims.size() ? a->constant : b->constant;
    one.integers = std::make_shared<const std::vector<OnnxDim>>(1, made);
    return OnnxValues{OnnxValue::Of(std::move(one))};
  }
  if (b->is_rows()) std::swap(a, b);
  const bool bias =
      node.op() == "Add" && a->is_rows() && b->is_floats() && a->rows.stage == RowsStage::kHead;
  if (!bias) return OnnxWrong("served is the sum of a linear layer with its bias");
  const OnnxHead& head = scope.heads[static_cast<size_t>(a->rows.source)];
  if (head.bias || head.softmax) return OnnxWrong("a second bias");
  const int64_t classes = head.weight.dims[0];
  auto read = BiasOf(*b, classes);
  if (!read.ok()) return read.status();
  if (classes > 1 && !EndsInClasses(scope, a->rows, classes)) {
    return OnnxWrong("adds along another dimension than the linear layer's");
  }
  OnnxHead with = head;
  with.bias = *std::move(read);
  OnnxRows rows = a->rows;
  rows.source = static_cast<int>(scope.heads.size());
  scope.heads.push_back(std::move(with));
  return OnnxValues{OnnxValue::Of(std::move(rows))};
}

OnnxResult ReadSoftmax(OnnxScope& scope, const OnnxNode& node) {
  if (node.in(0) == nullptr || !node.in(0)->is_rows() ||
      node.in(0)->rows.stage != RowsStage::kHead) {
    return OnnxWrong("served is the softmax of a linear layer");
  }
  OnnxRows rows = node.in(0)->rows;
  constexpr int64_t kOpsetOfLastAxis = 13;
  const int64_t axis = node.Int("axis", scope.opset >= kOpsetOfLastAxis ? -1 : 1);
  if (NormalAxis(axis, rows.axes.size()) != static_cast<int64_t>(rows.axes.size()) - 1) {
    return OnnxWrong(fmt::format("attribute axis is {} of {} dimensions, served is the last", axis,
                                 rows.axes.size()));
  }
  OnnxHead with = scope.heads[static_cast<size_t>(rows.source)];
  if (with.softmax) return OnnxWrong("a second softmax");
  if (!EndsInClasses(scope, rows, with.weight.dims[0])) {
    return OnnxWrong(
        fmt::format("is taken along another dimension than the {} that the linear layer leaves of "
                    "a step, which are served",
                    with.weight.dims[0]));
  }
  with.softmax = true;
  rows.source = static_cast<int>(scope.heads.size());
  scope.heads.push_back(std::move(with));
  return OnnxValues{OnnxValue::Of(std::move(rows))};
}

}  // namespace cellbatch
