// Sizes, then operators: CellText to CellDefinition.
#include "server/cell_codec.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <utility>

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
      : text_(text), sizes_(std::move(sizes)), known_(known) {}

  absl::StatusOr<CellDefinition> Build() {
    if (text_.message.name().empty()) return Wrong(text_.file, "the cell has no name");
    absl::Status s = CheckCounts();
    if (s.ok()) s = SolveSizes();
    if (s.ok()) s = AddInputs();
    if (s.ok()) s = AddParameters();
    if (s.ok()) s = AddOps();
    if (s.ok()) s = AddOutputs();
    if (s.ok()) s = CheckAllUsed();
    if (!s.ok()) return s;
    auto cell =
        CellDefinition::Create(text_.message.name(), ops_, inputs_, parameters_, outputs_, carry_);
    return cell.ok() ? std::move(cell) : Located(cell.status());
  }

  // Checks what is known so far; sizes that it leaves open are no problem.
  absl::Status CheckPartly() {
    partly_ = true;
    absl::Status s = CheckCounts();
    return s.ok() ? SolveSizes() : s;
  }

 private:
  struct Leaf {
    Op op;
    std::string place;
    ValueId value;  // invalid: not used yet
  };

  // Each shape is an equation a dimension; those with one unknown give it, until nothing is new.
  absl::Status SolveSizes() {
    for (bool news = true; news;) {
      news = false;
      for (const KnownShape& k : known_) {
        const DimTexts* dims = DimsOf(k.name);
        if (dims == nullptr || static_cast<size_t>(dims->size()) != k.dims.size()) continue;
        for (int i = 0; i < dims->size(); ++i) {
          auto found = SolveDimension(dims->Get(i), k.dims[static_cast<size_t>(i)], sizes_);
          if (found.has_value() && found->second > 0) news |= sizes_.insert(*found).second;
        }
      }
    }
    std::string wrong;
    for (const KnownShape& k : known_) {
      absl::Status s = CheckKnown(k);
      if (!s.ok()) wrong += (wrong.empty() ? "" : "\n") + std::string(s.message());
    }
    return wrong.empty() ? absl::OkStatus() : absl::InvalidArgumentError(wrong);
  }

  static absl::Status Wrong(std::string_view place, std::string_view what) {
    return absl::InvalidArgumentError(fmt::format("{}: {}", place, what));
  }

  const DimTexts* DimsOf(const std::string& name) const {
    for (const disk::CellParameter& p : text_.message.parameters()) {
      if (p.name() == name) return &p.dims();
    }
    for (const disk::CellInput& in : text_.message.inputs()) {
      for (const disk::CellColumn& c : in.columns()) {
        if (name == in.name() + "." + c.name()) return &c.dims();
      }
    }
    return nullptr;
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

  absl::Status CheckKnown(const KnownShape& known) const {
    const DimTexts* dims = DimsOf(known.name);
    if (dims == nullptr) {
      return Wrong(text_.file, fmt::format("cell \"{}\" has no parameter or input \"{}\"",
                                           text_.message.name(), known.name));
    }
    std::string wanted;
    bool same = static_cast<size_t>(dims->size()) == known.dims.size();
    for (int i = 0; i < dims->size(); ++i) {
      const absl::StatusOr<int64_t> value = EvaluateDimension(dims->Get(i), sizes_);
      const bool open = partly_ && !value.ok();
      same = same && (open || (value.ok() && *value == known.dims[static_cast<size_t>(i)]));
      const std::string shown = value.ok() && std::to_string(*value) != dims->Get(i)
                                    ? fmt::format("{} = {}", dims->Get(i), *value)
                                    : dims->Get(i);
      wanted += (i == 0 ? "" : ", ") + shown;
    }
    if (same) return absl::OkStatus();
    return Wrong(text_.file,
                 fmt::format("cell \"{}\": \"{}\" is [{}], {} is [{}]", text_.message.name(),
                             known.name, wanted, known.from, fmt::join(known.dims, ", ")));
  }

  absl::StatusOr<Shape> ShapeOf(const DimTexts& dims, const std::string& place) const {
    constexpr int64_t kMost = int64_t{1} << 30;
    if (dims.size() > 2) return Wrong(place, fmt::format("{} dimensions, 2 fit", dims.size()));
    int32_t values[2] = {1, 1};
    for (int i = 0; i < dims.size(); ++i) {
      const absl::StatusOr<int64_t> value = EvaluateDimension(dims.Get(i), sizes_);
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
    if (leaves_.emplace(name, Leaf{op, place, {}}).second) return absl::OkStatus();
    return Wrong(place, fmt::format("the name \"{}\" is there twice", name));
  }

  absl::Status AddInputs() {
    for (int i = 0; i < text_.message.inputs_size(); ++i) {
      const disk::CellInput& in = text_.message.inputs(i);
      const std::string& place = text_.inputs[static_cast<size_t>(i)];
      Input input{.name = in.name(),
                  .reads = {},
                  .arity = in.arity() == disk::SUM ? Arity::kSum : Arity::kOne};
      for (const disk::CellColumn& c : in.columns()) {
        if (c.type() == disk::BF16) return Wrong(place, "BF16 columns are not offered yet");
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
      if (in.name() == text_.message.carry()) carry_ = InputId(i);
      inputs_.push_back(std::move(input));
    }
    if (text_.message.carry().empty() || carry_.has_value()) return absl::OkStatus();
    return Wrong(text_.file, fmt::format("the carry \"{}\" is no input", text_.message.carry()));
  }

  absl::Status AddParameters() {
    for (int i = 0; i < text_.message.parameters_size(); ++i) {
      const disk::CellParameter& p = text_.message.parameters(i);
      const std::string& place = text_.parameters[static_cast<size_t>(i)];
      const absl::StatusOr<Shape> shape = ShapeOf(p.dims(), place);
      if (!shape.ok()) return shape.status();
      parameters_.push_back({.name = p.name(), .shape = *shape});
      const Op leaf{.kind = OpKind::kParameter, .attr = {i, 0}, .shape = *shape};
      if (absl::Status s = AddLeaf(p.name(), leaf, place); !s.ok()) return s;
    }
    return absl::OkStatus();
  }

  ValueId Push(const Op& op, const std::string& place) {
    ops_.push_back(op);
    op_places_.push_back(place);
    return ValueId(static_cast<int64_t>(ops_.size()) - 1);
  }

  // The value that `name` stands for at `place`.
  absl::StatusOr<ValueId> Value(const std::string& name, const std::string& place) {
    if (const auto made = made_.find(name); made != made_.end()) return made->second;
    const auto leaf = leaves_.find(name);
    if (leaf == leaves_.end()) {
      return Wrong(place, fmt::format("there is no earlier operator, parameter or input column "
                                      "\"{}\"",
                                      name));
    }
    if (!leaf->second.value.valid()) {
      leaf->second.value = Push(leaf->second.op, leaf->second.place);
    }
    return leaf->second.value;
  }

  absl::Status SetAttributes(const disk::CellOp& from, const std::string& place, Op& op) const {
    if (!from.integer().empty() && (op.kind != OpKind::kConstant || from.value() != 0)) {
      return Wrong(place, "integer belongs to constants, instead of value");
    }
    if (op.kind == OpKind::kConstant && !from.integer().empty()) {
      const absl::StatusOr<int64_t> integer = EvaluateDimension(from.integer(), sizes_);
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
      const absl::StatusOr<int64_t> begin = EvaluateDimension(from.begin(), sizes_);
      const absl::StatusOr<int64_t> end = EvaluateDimension(from.end(), sizes_);
      if (!begin.ok()) return Wrong(place, "begin: " + std::string(begin.status().message()));
      if (!end.ok()) return Wrong(place, "end: " + std::string(end.status().message()));
      op.attr = {static_cast<int32_t>(*begin), static_cast<int32_t>(*end)};
    } else if (!from.begin().empty() || !from.end().empty() || from.dims_size() > 0) {
      return Wrong(place, "begin, end and dims belong to other kinds of operators");
    }
    return absl::OkStatus();
  }

  absl::Status AddOp(const disk::CellOp& from, const std::string& place) {
    if (from.name().empty()) return Wrong(place, "an operator without a name");
    const std::optional<OpKind> kind = KindOf(from.kind());
    if (!kind.has_value()) {
      return Wrong(place, fmt::format("operator \"{}\" has no kind", from.name()));
    }
    Op op{.kind = *kind};
    if (from.args_size() > static_cast<int>(op.args.size())) {
      return Wrong(place, fmt::format("operator \"{}\" has {} arguments, {} fit", from.name(),
                                      from.args_size(), op.args.size()));
    }
    if (absl::Status s = SetAttributes(from, place, op); !s.ok()) return s;
    for (int i = 0; i < from.args_size(); ++i) {
      const absl::StatusOr<ValueId> value = Value(from.args(i), place);
      if (!value.ok()) return value.status();
      op.args[static_cast<size_t>(i)] = *value;
    }
    if (leaves_.contains(from.name()) || made_.contains(from.name())) {
      return Wrong(place, fmt::format("the name \"{}\" is there twice", from.name()));
    }
    made_[from.name()] = Push(op, fmt::format("{}: operator \"{}\"", place, from.name()));
    return absl::OkStatus();
  }

  absl::Status AddOps() {
    if (text_.message.ops_size() > kMaxOps) {
      return Wrong(text_.file,
                   fmt::format("{} operators, the limit is {}", text_.message.ops_size(), kMaxOps));
    }
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
      outputs_.push_back({o.column(), *value});
    }
    return absl::OkStatus();
  }

  // A weight that changes nothing is a mistake in the text.
  absl::Status CheckAllUsed() const {
    for (const auto& [name, leaf] : leaves_) {
      if (leaf.value.valid() || leaf.op.kind != OpKind::kParameter) continue;
      return Wrong(leaf.place, fmt::format("parameter \"{}\" is never used", name));
    }
    return absl::OkStatus();
  }

  // The operator that CellDefinition::Create refused is the last of the shortest list it refuses.
  absl::Status Located(const absl::Status& refused) const {
    const auto accepts = [this](size_t n) {
      const std::vector<Op> some(ops_.begin(), ops_.begin() + static_cast<ptrdiff_t>(n));
      return n == 0 || CellDefinition::Create("part", some, inputs_, parameters_,
                                              {{"last", ValueId(static_cast<int64_t>(n) - 1)}}, {})
                           .ok();
    };
    size_t good = 0, bad = ops_.size();
    const std::string message(refused.message());
    if (ops_.empty() || accepts(bad)) return Wrong(text_.file, message);
    while (bad - good > 1) {
      const size_t middle = (good + bad) / 2;
      (accepts(middle) ? good : bad) = middle;
    }
    return Wrong(op_places_[bad - 1], message);
  }

  const CellText& text_;
  Sizes sizes_;
  absl::Span<const KnownShape> known_;
  bool partly_ = false;  // sizes may stay open
  std::map<std::string, Leaf> leaves_;
  std::map<std::string, ValueId> made_;
  std::vector<Op> ops_;
  std::vector<std::string> op_places_;
  std::vector<Input> inputs_;
  std::vector<Parameter> parameters_;
  std::vector<Output> outputs_;
  std::optional<InputId> carry_;
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
