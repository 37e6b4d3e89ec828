// Sizes, then operators: CellText to CellDefinition.
#include "server/cells/cell_codec.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <utility>

#include "server/cells/cell_mistakes.h"
#include "server/cells/cell_sizes.h"
#include "server/names/nearest_name.h"

namespace cellbatch {
namespace {

// The text's kinds, by number; leaves are not written as operators.
constexpr std::pair<disk::OpKind, OpKind> kKinds[] = {
    {disk::CONSTANT, OpKind::kConstant}, {disk::LOOKUP, OpKind::kLookup},
    {disk::MATMUL, OpKind::kMatMul},     {disk::ADD, OpKind::kAdd},
    {disk::SUB, OpKind::kSub},           {disk::MUL, OpKind::kMul},
    {disk::DIV, OpKind::kDiv},           {disk::MAX, OpKind::kMax},
    {disk::SIGMOID, OpKind::kSigmoid},   {disk::TANH, OpKind::kTanh},
    {disk::RELU, OpKind::kRelu},         {disk::EXP, OpKind::kExp},
    {disk::LOG, OpKind::kLog},           {disk::SLICE, OpKind::kSlice},
    {disk::CONCAT, OpKind::kConcat},     {disk::TRANSPOSE, OpKind::kTranspose},
    {disk::REDUCE_SUM, OpKind::kSum},    {disk::MEAN, OpKind::kMean},
    {disk::SOFTMAX, OpKind::kSoftmax},   {disk::ARGMAX, OpKind::kArgMax},
};

std::optional<OpKind> KindOf(disk::OpKind kind) {
  for (const auto& [text, ours] : kKinds) {
    if (text == kind) return ours;
  }
  return std::nullopt;
}

using DimTexts = google::protobuf::RepeatedPtrField<std::string>;

// Builds one definition. Leaves (columns of inputs, parameters) become operators where first used.
class Builder {
 public:
  Builder(const CellText& text, Sizes sizes, absl::Span<const KnownShape> known)
      : text_(text), sizes_(text, std::move(sizes), known) {}

  absl::StatusOr<CellDefinition> Build() {
    if (text_.message.name().empty()) return Wrong(text_.file, "the cell has no name");
    absl::Status s = CheckCounts();
    if (s.ok()) s = sizes_.Solve(/*partly=*/false);
    if (s.ok()) s = AddInputs();
    if (s.ok()) s = AddParameters();
    if (s.ok()) s = AddOps();
    if (s.ok()) s = AddOutputs();
    if (!s.ok()) return s;
    auto cell = draft_.Create(text_.message.name());
    if (!cell.ok()) return LocateMistake(text_, draft_, cell.status());
    // Last, because what reads the wrong thing leaves the right one unused.
    if (s = CheckAllUsed(); !s.ok()) return s;
    return cell;
  }

  // Checks what is known so far; sizes that it leaves open are no problem.
  absl::Status CheckPartly() {
    absl::Status s = CheckCounts();
    return s.ok() ? sizes_.Solve(/*partly=*/true) : s;
  }

 private:
  struct Leaf {
    Op op;
    std::string place;
    ValueId value;  // invalid: not used yet
  };

  static absl::Status Wrong(std::string_view place, std::string_view what) {
    return absl::InvalidArgumentError(fmt::format("{}: {}", place, what));
  }

  absl::Status CheckCounts() const {
    const auto check = [this](const char* what, int count, int most) {
      if (count <= most) return absl::OkStatus();
      return Wrong(text_.file, fmt::format("{} {}, the limit is {}", count, what, most));
    };
    absl::Status s = check("operators", text_.message.ops_size(), kMaxOps);
    if (s.ok()) s = check("inputs", text_.message.inputs_size(), kMaxInputs);
    if (s.ok()) s = check("parameters", text_.message.parameters_size(), kMaxParameters);
    if (s.ok()) s = check("outputs", text_.message.outputs_size(), kMaxColumns);
    for (const disk::CellInput& in : text_.message.inputs()) {
      if (s.ok()) s = check("columns", in.columns_size(), kMaxColumns);
    }
    return s;
  }

  absl::StatusOr<Shape> ShapeOf(const DimTexts& dims, const std::string& place) const {
    constexpr int64_t kMost = int64_t{1} << 30;
    if (dims.size() > 2) return Wrong(place, fmt::format("{} dimensions, 2 fit", dims.size()));
    int32_t values[2] = {1, 1};
    for (int i = 0; i < dims.size(); ++i) {
      const absl::StatusOr<int64_t> value = sizes_.Value(dims.Get(i));
      if (!value.ok()) return Wrong(place, std::string(value.status().message()));
      if (*value < 1 || *value > kMost) {
        return Wrong(place, fmt::format("dimension \"{}\" is {}, allowed are 1 to {}", dims.Get(i),
                                        *value, kMost));
      }
      values[i] = static_cast<int32_t>(*value);
    }
    const Shape shape =
        dims.size() == 2 ? Shape::Matrix(values[0], values[1]) : Shape::Vector(values[0]);
    if (shape.size() <= kMost) return shape;
    return Wrong(place, fmt::format("{} has {} elements, the limit is {}", shape.ToString(),
                                    shape.size(), kMost));
  }

  absl::Status AddLeaf(const std::string& name, Op op, const std::string& place) {
    const auto [there, added] = leaves_.emplace(name, Leaf{op, place, {}});
    return added ? absl::OkStatus() : Twice(name, place, there->second.place);
  }

  static absl::Status Twice(const std::string& name, const std::string& place,
                            const std::string& first) {
    return Wrong(place, fmt::format("the name \"{}\" is there twice: {} has it", name, first));
  }

  absl::Status AddInputs() {
    for (int i = 0; i < text_.message.inputs_size(); ++i) {
      const disk::CellInput& in = text_.message.inputs(i);
      const std::string& place = text_.inputs[static_cast<size_t>(i)];
      Input input{.name = in.name(),
                  .reads = {},
                  .arity = in.arity() == disk::SUM ? Arity::kSum : Arity::kOne};
      for (const disk::CellColumn& c : in.columns()) {
        if (c.type() == disk::BF16)
          return Wrong(place, "BF16 columns are not offered yet, FP32 and INT32 are");
        const absl::StatusOr<Shape> shape = ShapeOf(c.dims(), place);
        if (!shape.ok()) return shape.status();
        const Op leaf{.kind = OpKind::kInput,
                      .attr = {i, static_cast<int32_t>(input.reads.size())},
                      .shape = *shape};
        input.reads.push_back({c.name(),
                               c.type() == disk::INT32 ? ElementType::kInt32 : ElementType::kFp32,
                               static_cast<int32_t>(shape->size())});
        if (absl::Status s = AddLeaf(in.name() + "." + c.name(), leaf, place); !s.ok()) return s;
      }
      if (in.name() == text_.message.carry()) draft_.carry = InputId(i);
      draft_.inputs.push_back(std::move(input));
    }
    if (text_.message.carry().empty() || draft_.carry.has_value()) return absl::OkStatus();
    std::vector<std::string> names;
    for (const Input& input : draft_.inputs) names.push_back(input.name);
    return Wrong(text_.carry, fmt::format("the carry \"{}\" is no input{}", text_.message.carry(),
                                          MeantOrThere(text_.message.carry(), names)));
  }

  absl::Status AddParameters() {
    for (int i = 0; i < text_.message.parameters_size(); ++i) {
      const disk::CellParameter& p = text_.message.parameters(i);
      const std::string& place = text_.parameters[static_cast<size_t>(i)];
      const absl::StatusOr<Shape> shape = ShapeOf(p.dims(), place);
      if (!shape.ok()) return shape.status();
      draft_.parameters.push_back({.name = p.name(), .shape = *shape});
      const Op leaf{.kind = OpKind::kParameter, .attr = {i, 0}, .shape = *shape};
      if (absl::Status s = AddLeaf(p.name(), leaf, place); !s.ok()) return s;
    }
    return absl::OkStatus();
  }

  ValueId Push(const Op& op, const std::string& name, const std::string& place) {
    draft_.ops.push_back(op);
    draft_.op_names.push_back(name);
    draft_.op_places.push_back(place);
    return ValueId(static_cast<int64_t>(draft_.ops.size()) - 1);
  }

  // The value that `name` stands for at `place`.
  absl::StatusOr<ValueId> Value(const std::string& name, const std::string& place) {
    if (const auto made = made_.find(name); made != made_.end()) return made->second;
    const auto leaf = leaves_.find(name);
    if (leaf == leaves_.end()) {
      return Wrong(place, fmt::format("there is no earlier operator, parameter or input column "
                                      "\"{}\"{}",
                                      name, WhyNothing(text_, name)));
    }
    if (!leaf->second.value.valid()) {
      leaf->second.value = Push(leaf->second.op, name, leaf->second.place);
    }
    return leaf->second.value;
  }

  absl::Status SetAttributes(const disk::CellOp& from, const std::string& place, Op& op) const {
    if (!from.integer().empty() && (op.kind != OpKind::kConstant || from.value() != 0)) {
      return Wrong(place, "integer belongs to constants, instead of value");
    }
    if (op.kind == OpKind::kConstant && !from.integer().empty()) {
      const absl::StatusOr<int64_t> integer = sizes_.Value(from.integer());
      if (!integer.ok()) return Wrong(place, "integer: " + std::string(integer.status().message()));
      if (from.dims_size() > 0) return Wrong(place, "integer makes an INT32 [1], without dims");
      op.type = ElementType::kInt32;
      op.attr = {static_cast<int32_t>(*integer), 0};
    } else if (op.kind == OpKind::kConstant) {
      if (!std::isfinite(from.value())) return Wrong(place, "the value is not finite");
      const absl::StatusOr<Shape> shape = ShapeOf(from.dims(), place);
      if (!shape.ok()) return shape.status();
      op.shape = *shape;
      op.attr = {std::bit_cast<int32_t>(from.value()), 0};
    } else if (op.kind == OpKind::kSlice) {
      if (from.begin().empty() || from.end().empty()) {
        return Wrong(place,
                     fmt::format("operator \"{}\" (Slice) has no {}: it takes begin and end, "
                                 "the elements begin <= i < end",
                                 from.name(), from.begin().empty() ? "begin" : "end"));
      }
      const absl::StatusOr<int64_t> begin = sizes_.Value(from.begin());
      const absl::StatusOr<int64_t> end = sizes_.Value(from.end());
      if (!begin.ok()) return Wrong(place, "begin: " + std::string(begin.status().message()));
      if (!end.ok()) return Wrong(place, "end: " + std::string(end.status().message()));
      op.attr = {static_cast<int32_t>(*begin), static_cast<int32_t>(*end)};
    } else if (!from.begin().empty() || !from.end().empty() || from.dims_size() > 0) {
      return Wrong(place, fmt::format("begin, end and dims belong to other kinds of operators than "
                                      "{}: begin and end to SLICE, dims to CONSTANT",
                                      disk::OpKind_Name(from.kind())));
    }
    return absl::OkStatus();
  }

  absl::Status AddOp(const disk::CellOp& from, const std::string& place) {
    if (from.name().empty()) return Wrong(place, "an operator without a name");
    const std::optional<OpKind> kind = KindOf(from.kind());
    if (!kind.has_value()) {
      return Wrong(place,
                   fmt::format("operator \"{}\" has no kind, such as kind: TANH", from.name()));
    }
    Op op{.kind = *kind};
    if (from.args_size() > static_cast<int>(op.args.size())) {
      return Wrong(place, fmt::format("operator \"{}\" has {} arguments, {} takes {} at most",
                                      from.name(), from.args_size(), disk::OpKind_Name(from.kind()),
                                      FactsOf(*kind)->most_arguments));
    }
    if (absl::Status s = SetAttributes(from, place, op); !s.ok()) return s;
    for (int i = 0; i < from.args_size(); ++i) {
      const absl::StatusOr<ValueId> value = Value(from.args(i), place);
      if (!value.ok()) return value.status();
      op.args[static_cast<size_t>(i)] = *value;
    }
    if (const auto leaf = leaves_.find(from.name()); leaf != leaves_.end()) {
      return Twice(from.name(), place, leaf->second.place);
    }
    if (const auto made = made_.find(from.name()); made != made_.end()) {
      return Twice(from.name(), place, draft_.op_places[static_cast<size_t>(made->second.value())]);
    }
    made_[from.name()] = Push(op, from.name(), place);
    return absl::OkStatus();
  }

  absl::Status AddOps() {
    for (int i = 0; i < text_.message.ops_size(); ++i) {
      absl::Status s = AddOp(text_.message.ops(i), text_.ops[static_cast<size_t>(i)]);
      if (!s.ok()) return s;
    }
    return absl::OkStatus();
  }

  absl::Status AddOutputs() {
    for (int i = 0; i < text_.message.outputs_size(); ++i) {
      const disk::CellOutput& o = text_.message.outputs(i);
      const absl::StatusOr<ValueId> value = Value(o.value(), text_.outputs[static_cast<size_t>(i)]);
      if (!value.ok()) return value.status();
      draft_.outputs.push_back({o.column(), *value});
    }
    return absl::OkStatus();
  }

  // A weight that changes nothing is a mistake in the text.
  absl::Status CheckAllUsed() const {
    for (const auto& [name, leaf] : leaves_) {
      if (leaf.value.valid() || leaf.op.kind != OpKind::kParameter) continue;
      return Wrong(leaf.place,
                   fmt::format("parameter \"{}\" is never used: no operator has it among its "
                               "args",
                               name));
    }
    return absl::OkStatus();
  }

  const CellText& text_;
  CellSizes sizes_;
  std::map<std::string, Leaf> leaves_;
  std::map<std::string, ValueId> made_;
  CellDraft draft_;
};

}  // namespace

absl::Status CheckShapes(const CellText& text, const Sizes& sizes,
                         absl::Span<const KnownShape> known) {
  return Builder(text, sizes, known).CheckPartly();
}

absl::StatusOr<CellDefinition> BuildCell(const CellText& text, Sizes sizes,
                                         absl::Span<const KnownShape> known) {
  return Builder(text, std::move(sizes), known).Build();
}

}  // namespace cellbatch
