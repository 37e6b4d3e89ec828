// Operators that compute nothing: they move dimensions about, pick parts, and reckon with sizes.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "server/convert/onnx_scope.h"

namespace cellbatch {
namespace {

constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();

OnnxResult One(OnnxValue value) { return OnnxValues{std::move(value)}; }
OnnxResult One(absl::StatusOr<OnnxConstant> constant) {
  if (!constant.ok()) return constant.status();
  return One(OnnxValue::Of(*std::move(constant)));
}
OnnxResult One(absl::StatusOr<OnnxRows> rows) {
  if (!rows.ok()) return rows.status();
  return One(OnnxValue::Of(*std::move(rows)));
}

absl::StatusOr<std::vector<int64_t>> Known(const OnnxValue& value) {
  std::vector<int64_t> numbers;
  if (!value.is_integers()) return OnnxWrong("by what are no constant whole numbers");
  for (const OnnxDim& d : *value.constant.integers) {
    if (!d.known()) return OnnxWrong("by a size that is not known before it is served");
    numbers.push_back(d.value);
  }
  return numbers;
}

OnnxResult Transpose(OnnxScope& scope, const OnnxNode& node) {
  const OnnxValue& x = *node.in(0);
  if (x.is_rows()) return One(TransposeRows(scope, x.rows, node.Ints("perm")));
  return One(scope.folder.Transpose(x.constant, node.Ints("perm")));
}

OnnxResult Reshape(OnnxScope& scope, const OnnxNode& node) {
  const OnnxValue& x = *node.in(0);
  if (node.in(1) == nullptr || !node.in(1)->is_integers()) {
    return OnnxWrong("to a shape that is no constant");
  }
  const bool zero_copies = node.Int("allowzero", 0) == 0;
  const std::vector<OnnxDim>& to = *node.in(1)->constant.integers;
  if (x.is_rows()) return One(ReshapeRows(scope, x.rows, to, zero_copies));
  return One(scope.folder.Reshape(x.constant, to, zero_copies));
}

// Everything from dimension `axis` on becomes one.
OnnxResult Flatten(OnnxScope& scope, const OnnxNode& node) {
  const OnnxValue& x = *node.in(0);
  if (!x.is_rows()) return OnnxWrong("of a constant");
  const int64_t axis = node.Int("axis", 1);
  if (axis != 1) return OnnxWrong(fmt::format("attribute axis is {}, 1 is understood", axis));
  return One(ReshapeRows(scope, x.rows, {{.value = 0}, {.value = -1}}, true));
}

OnnxResult Squeeze(OnnxScope& scope, const OnnxNode& node) {
  const OnnxValue& x = *node.in(0);
  const auto axes = node.IntsOf("axes", 1);
  if (!axes.ok()) return axes.status();
  if (x.is_rows()) return One(SqueezeRows(scope, x.rows, *axes));
  std::vector<OnnxDim> dims;
  const size_t rank = x.constant.dims.size();
  for (const int64_t axis : axes->value_or(std::vector<int64_t>())) {
    if (NormalAxis(axis, rank) < 0) return OnnxWrong(fmt::format("axis {} of {}", axis, rank));
  }
  for (size_t i = 0; i < rank; ++i) {
    const int64_t size = x.constant.dims[i];
    const bool named = *axes && std::any_of((*axes)->begin(), (*axes)->end(), [&](int64_t axis) {
      return NormalAxis(axis, rank) == static_cast<int64_t>(i);
    });
    if (*axes ? !named : size != 1) dims.push_back({.value = size});
  }
  return One(scope.folder.Reshape(x.constant, dims, false));
}

OnnxResult Unsqueeze(OnnxScope& scope, const OnnxNode& node) {
  const OnnxValue& x = *node.in(0);
  const auto axes = node.IntsOf("axes", 1);
  if (!axes.ok()) return axes.status();
  if (!*axes) return OnnxWrong("axes are missing");
  if (x.is_rows()) return One(UnsqueezeRows(scope, x.rows, **axes));
  std::vector<OnnxDim> dims;
  const size_t rank = x.constant.dims.size() + (*axes)->size();
  if (rank > 16) return OnnxWrong(fmt::format("to {} dimensions", rank));
  size_t from = 0;
  for (size_t i = 0; i < rank; ++i) {
    const bool made = std::any_of((*axes)->begin(), (*axes)->end(), [&](int64_t axis) {
      return NormalAxis(axis, rank) == static_cast<int64_t>(i);
    });
    if (!made && from == x.constant.dims.size()) return OnnxWrong("an axis that cannot be");
    dims.push_back({.value = made ? 1 : x.constant.dims[from++]});
  }
  return One(scope.folder.Reshape(x.constant, dims, false));
}

// One dimension of a Slice.
struct Range {
  int64_t axis = 0;
  OnnxDim begin, end;
  int64_t step = 1;
};

absl::StatusOr<std::vector<Range>> Ranges(const OnnxNode& node) {
  std::vector<OnnxDim> begins, ends;
  std::vector<int64_t> axes, steps;
  if (node.Find("starts") != nullptr) {  // before opset 10
    for (const int64_t i : node.Ints("starts")) begins.push_back({.value = i});
    for (const int64_t i : node.Ints("ends")) ends.push_back({.value = i});
    axes = node.Ints("axes");
  } else {
    for (const size_t i : {1, 2}) {
      if (node.in(i) == nullptr || !node.in(i)->is_integers()) {
        return OnnxWrong("from or to what is no constant");
      }
      (i == 1 ? begins : ends) = *node.in(i)->constant.integers;
    }
    for (const size_t i : {3, 4}) {
      if (node.in(i) == nullptr) continue;
      const auto known = Known(*node.in(i));
      if (!known.ok()) return known.status();
      (i == 3 ? axes : steps) = *known;
    }
  }
  std::vector<Range> ranges;
  const size_t count = begins.size();
  if (ends.size() != count || (!axes.empty() && axes.size() != count) ||
      (!steps.empty() && steps.size() != count)) {
    return OnnxWrong("starts, ends, axes and steps are not equally many");
  }
  for (size_t i = 0; i < count; ++i) {
    ranges.push_back({axes.empty() ? static_cast<int64_t>(i) : axes[i], begins[i], ends[i],
                      steps.empty() ? 1 : steps[i]});
  }
  return ranges;
}

absl::StatusOr<OnnxConstant> SliceConstant(OnnxScope& scope, const OnnxConstant& from,
                                           const Range& range) {
  const int64_t axis = NormalAxis(range.axis, from.dims.size());
  if (axis < 0) return OnnxWrong(fmt::format("axis {} of {}", range.axis, from.dims.size()));
  const int64_t size = from.dims[static_cast<size_t>(axis)];
  const auto place = [&](OnnxDim d, int64_t least, int64_t most) {
    const int64_t at = d.value < 0 ? d.value + size : d.value;  // cannot overflow: size >= 0
    return std::clamp(at, least, most);
  };
  if (!range.begin.known() || !range.end.known() || range.step == 0 ||
      range.step == std::numeric_limits<int64_t>::min()) {
    return OnnxWrong("by sizes that are not known before it is served");
  }
  const bool back = range.step < 0;
  const int64_t begin = place(range.begin, 0, back ? size - 1 : size);
  const int64_t end = place(range.end, back ? -1 : 0, size);
  const int64_t span = back ? begin - end : end - begin;
  const int64_t stride = back ? -range.step : range.step;
  const int64_t count = span <= 0 ? 0 : (span - 1) / stride + 1;
  return scope.folder.Slice(from, axis, begin, range.step, count);
}

OnnxResult Slice(OnnxScope& scope, const OnnxNode& node) {
  const auto ranges = Ranges(node);
  if (!ranges.ok()) return ranges.status();
  OnnxValue x = *node.in(0);
  for (const Range& range : *ranges) {
    if (x.is_rows()) {
      if (range.step != 1) {
        return OnnxWrong(
            fmt::format("step {}: a model that turns its sequence around itself is not "
                        "served",
                        range.step));
      }
      auto rows = SliceRows(scope, x.rows, range.axis, range.begin, range.end, false);
      if (!rows.ok()) return rows.status();
      x.rows = *std::move(rows);
    } else {
      auto constant = SliceConstant(scope, x.constant, range);
      if (!constant.ok()) return constant.status();
      x = OnnxValue::Of(*std::move(constant));
    }
  }
  return One(std::move(x));
}

OnnxResult Gather(OnnxScope& scope, const OnnxNode& node) {
  const OnnxValue& x = *node.in(0);
  const OnnxValue* index = node.in(1);
  if (index == nullptr) return OnnxWrong("indices are missing");
  const int64_t axis = node.Int("axis", 0);
  if (index->is_rows() && x.is_floats() && axis == 0) return ReadEmbedding(scope, x, index->rows);
  const auto known = Known(*index);
  if (!known.ok()) return known.status();
  const bool scalar = index->constant.dims.empty();
  if (!scalar && index->constant.dims.size() != 1) return OnnxWrong("by a matrix of indices");
  if (!x.is_rows()) {
    const int64_t place = NormalAxis(axis, x.constant.dims.size());
    if (place < 0) return OnnxWrong(fmt::format("axis {} of {}", axis, x.constant.dims.size()));
    return One(scope.folder.Gather(x.constant, place, *known, scalar));
  }
  if (known->size() != 1)
    return OnnxWrong(fmt::format("by {} indices, one is understood", known->size()));
  const int64_t at = (*known)[0];
  const int64_t place = NormalAxis(axis, x.rows.axes.size());
  const int64_t size = place < 0 ? -1 : scope.axis(x.rows.axes[static_cast<size_t>(place)]).size;
  if (size >= 0 && (at < -size || at >= size)) {
    return OnnxWrong(fmt::format("index {} of {}", at, size));
  }
  if (at == kEnd) return OnnxWrong(fmt::format("index {}", at));
  const OnnxDim end = {.value = at == -1 ? kEnd : at + 1};
  return One(SliceRows(scope, x.rows, axis, {.value = at}, end, scalar));
}

OnnxResult Concat(OnnxScope& scope, const OnnxNode& node) {
  std::vector<const OnnxConstant*> constants;
  std::vector<const OnnxRows*> rows;
  for (size_t i = 0; i < node.num_inputs(); ++i) {
    if (node.in(i)->is_rows()) rows.push_back(&node.in(i)->rows);
    if (node.in(i)->is_constant()) constants.push_back(&node.in(i)->constant);
  }
  const int64_t axis = node.Int("axis", 0);
  if (rows.size() == node.num_inputs()) return One(ConcatRows(scope, rows, axis));
  if (constants.size() != node.num_inputs()) {
    return OnnxWrong("of constants with what is computed");
  }
  const int64_t place = NormalAxis(axis, constants[0]->dims.size());
  if (place < 0) return OnnxWrong(fmt::format("axis {} of {}", axis, constants[0]->dims.size()));
  return One(scope.folder.Concat(constants, place));
}

// Consecutive parts of one dimension: those given, or equal ones.
OnnxResult SplitParts(OnnxScope& scope, const OnnxNode& node) {
  const OnnxValue& x = *node.in(0);
  const int64_t axis = node.Int("axis", 0);
  const size_t rank = x.is_rows() ? x.rows.axes.size() : x.constant.dims.size();
  const int64_t place = NormalAxis(axis, rank);
  if (place < 0) return OnnxWrong(fmt::format("axis {} of {}", axis, rank));
  const size_t at = static_cast<size_t>(place);
  const int64_t size = x.is_rows() ? scope.axis(x.rows.axes[at]).size : x.constant.dims[at];
  auto sizes = node.IntsOf("split", 1);
  if (!sizes.ok()) return sizes.status();
  const int64_t parts = node.outputs();
  if (size < 0)
    return OnnxWrong(fmt::format("of dimension {}, whose size the file leaves open", axis));
  if (*sizes) {
    int64_t all = 0;
    for (const int64_t part : **sizes) {
      if (part < 0 || part > size) return OnnxWrong(fmt::format("a part of {} of {}", part, size));
      all += part;
    }
    if (all != size) return OnnxWrong(fmt::format("parts of {} in all, of {}", all, size));
  } else {
    const int64_t part = parts > 0 ? (size + parts - 1) / parts : 0;
    *sizes = std::vector<int64_t>(static_cast<size_t>(parts), part);
  }
  OnnxValues made;
  int64_t begin = 0;
  for (const int64_t part : **sizes) {
    const Range range{place, {.value = begin}, {.value = std::min(begin + part, size)}, 1};
    if (x.is_rows()) {
      auto rows = SliceRows(scope, x.rows, place, range.begin, range.end, false);
      if (!rows.ok()) return rows.status();
      made.push_back(OnnxValue::Of(*std::move(rows)));
    } else {
      auto constant = SliceConstant(scope, x.constant, range);
      if (!constant.ok()) return constant.status();
      made.push_back(OnnxValue::Of(*std::move(constant)));
    }
    begin += std::min(part, size - begin);
  }
  return made;
}

OnnxResult Shape(OnnxScope& scope, const OnnxNode& node) {
  const OnnxValue& x = *node.in(0);
  std::vector<OnnxDim> sizes;
  if (x.is_rows()) {
    for (const int number : x.rows.axes) {
      const OnnxAxis& axis = scope.axis(number);
      const bool inner = axis.role == AxisRole::kInner;
      sizes.push_back(inner ? OnnxDim{.value = axis.size} : OnnxDim{.value = 0, .axis = number});
    }
  } else {
    for (const int64_t d : x.constant.dims) sizes.push_back({.value = d});
  }
  const int64_t rank = static_cast<int64_t>(sizes.size());
  const auto place = [rank](int64_t at) {
    return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank);
  };
  const int64_t begin = place(node.Int("start", 0)), end = place(node.Int("end", rank));
  if (begin >= end) return One(OnnxValue::Integers({}));
  return One(OnnxValue::Integers({sizes.begin() + begin, sizes.begin() + end}));
}

OnnxResult Cast(OnnxScope& scope, const OnnxNode& node) {
  const OnnxValue& x = *node.in(0);
  const int64_t to = node.Int("to", 0);
  const bool whole = to == 6 || to == 7, real = to == 1 || to == 10 || to == 11 || to == 16;
  const bool tokens = x.is_rows() && x.rows.stage == RowsStage::kInput &&
                      scope.inputs[static_cast<size_t>(x.rows.source)].tokens;
  const bool is_whole = x.is_integers() || tokens;
  if ((is_whole && whole) || (!is_whole && real)) return One(x);
  return OnnxWrong(fmt::format("attribute to is {}: between numbers of one kind only", to));
}

// A number everywhere is a fill (below): only zeros matter, as initial states.
OnnxResult ConstantOfShape(OnnxScope&, const OnnxNode&) {
  return OnnxWrong("attribute value is not one float");
}

OnnxResult Expand(OnnxScope&, const OnnxNode&) {
  return OnnxWrong("of what is not one float everywhere");
}

using Operator = OnnxResult (*)(OnnxScope&, const OnnxNode&);
constexpr std::pair<std::string_view, Operator> kOperators[] = {
    {"Transpose", Transpose}, {"Reshape", Reshape},     {"Flatten", Flatten},
    {"Squeeze", Squeeze},     {"Unsqueeze", Unsqueeze}, {"Slice", Slice},
    {"Gather", Gather},       {"Concat", Concat},       {"Split", SplitParts},
    {"Shape", Shape},         {"Cast", Cast},           {"ConstantOfShape", ConstantOfShape},
    {"Expand", Expand},
};

// The number that all elements of a value are, if they are.
std::optional<float> Uniform(const OnnxValue& value) {
  if (value.kind == OnnxValue::Kind::kFill) return value.fill;
  if (!value.is_floats() || value.constant.size() == 0) return std::nullopt;
  const std::vector<float>& all = *value.constant.floats;
  const bool same = std::all_of(all.begin(), all.end(), [&](float v) { return v == all[0]; });
  return same ? std::optional<float>(all[0]) : std::nullopt;
}

// The number that a ConstantOfShape makes; none: it is no float.
std::optional<float> FilledWith(const OnnxNode& node) {
  const onnx::Attribute* value = node.Find("value");
  return value == nullptr ? 0.0f : OneFloat(value->t());
}

// The last of a shape, where it is known; else -1.
int64_t LastOf(const OnnxValue* shape) {
  if (shape == nullptr || !shape->is_integers() || shape->constant.size() == 0) return -1;
  const OnnxDim& last = shape->constant.integers->back();
  return last.known() ? last.value : -1;
}

// The last dimension of what an Expand makes: a one of either shape gives way to the other's.
int64_t LastOfExpanded(const OnnxNode& node) {
  const OnnxValue& x = *node.in(0);
  const int64_t to = LastOf(node.in(1));
  if (!x.is_constant()) return x.fill_last > 1 || to == 1 ? x.fill_last : to;
  const int64_t own = x.constant.dims.empty() ? 1 : x.constant.dims.back();
  return own > 1 ? own : to;
}

// Whether an operator on a fill leaves its last dimension alone.
bool LeavesLast(const OnnxNode& node) {
  if (node.op() == "Gather" || node.op() == "Concat" || node.op() == "Split") {
    return node.Int("axis", 0) == 0;
  }
  if (node.op() != "Slice") return node.op() == "Cast";
  const auto axes = node.IntsOf("axes", 3);
  return axes.ok() && *axes && **axes == std::vector<int64_t>{0};
}

// Whatever is done to a fill, it stays one: of its shape only the last dimension is ever asked for.
std::optional<OnnxResult> OfFill(const OnnxNode& node) {
  const bool expand = node.op() == "Expand";
  if (expand || node.op() == "ConstantOfShape") {
    const std::optional<float> number = expand ? Uniform(*node.in(0)) : FilledWith(node);
    if (!number) return std::nullopt;
    OnnxValue made = OnnxValue::Fill(*number);
    made.fill_last = expand ? LastOfExpanded(node) : LastOf(node.in(0));
    return OnnxResult(OnnxValues{std::move(made)});
  }
  std::optional<float> number;
  const size_t operands = node.op() == "Concat" ? node.num_inputs() : 1;
  bool fill = false;
  for (size_t i = 0; i < operands; ++i) {
    fill = fill || node.in(i)->kind == OnnxValue::Kind::kFill;
    const std::optional<float> one = Uniform(*node.in(i));
    if (!one || (number && *number != *one)) return std::nullopt;
    number = one;
  }
  if (!fill) return std::nullopt;
  if (node.op() == "Shape") return OnnxResult(OnnxWrong("of what has no known shape"));
  OnnxValue made = OnnxValue::Fill(*number);
  if (LeavesLast(node)) made.fill_last = node.in(0)->fill_last;
  return OnnxResult(OnnxValues(static_cast<size_t>(std::max(1, node.outputs())), made));
}

}  // namespace

bool MovesDimensions(const std::string& op) {
  return std::any_of(std::begin(kOperators), std::end(kOperators),
                     [&](const auto& known) { return known.first == op; });
}

OnnxResult MoveDimensions(OnnxScope& scope, const OnnxNode& node) {
  for (size_t i = 0; i < node.num_inputs(); ++i) {
    if (node.in(i) == nullptr && (i == 0 || node.op() == "Concat")) {
      return OnnxWrong(fmt::format("operand {} is missing", i));
    }
  }
  if (node.num_inputs() == 0) return OnnxWrong("has no operands");
  if (std::optional<OnnxResult> fill = OfFill(node)) return *std::move(fill);
  const bool fill = node.in(0)->kind == OnnxValue::Kind::kFill;
  for (const auto& [name, run] : kOperators) {
    if (name == node.op() && !fill) return run(scope, node);
  }
  return OnnxWrong("of what has no known shape");
}

}  // namespace cellbatch
