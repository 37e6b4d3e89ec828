#include "cells/op_inference.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "cells/check.h"
#include "fmt/format.h"

namespace cellbatch {
namespace {

// Every error names the cell, the op and what disagrees.
class Inference {
 public:
  Inference(std::string_view cell, const std::vector<Input>& inputs,
            const std::vector<Parameter>& parameters, absl::Span<const std::string> names,
            std::vector<Op>& ops)
      : cell_(cell), ops_(ops), inputs_(inputs), parameters_(parameters), names_(names) {}

  absl::Status InferAll();

 private:
  template <typename... Args>
  absl::Status Wrong(fmt::format_string<Args...> text, Args&&... args) const {
    return absl::InvalidArgumentError(
        fmt::format("cell \"{}\": {}", cell_, fmt::format(text, std::forward<Args>(args)...)));
  }
  template <typename... Args>
  absl::Status WrongOp(fmt::format_string<Args...> text, Args&&... args) const {
    const std::string op = at_ < names_.size() ? fmt::format("operator \"{}\"", names_[at_])
                                               : fmt::format("op {}", at_);
    return Wrong("{} ({}): {}", op, Name(ops_[at_].kind),
                 fmt::format(text, std::forward<Args>(args)...));
  }
  // A value as whoever wrote the cell calls it.
  std::string Called(ValueId value) const;
  std::string Argument(int i) const { return Called(ops_[at_].args[static_cast<size_t>(i)]); }
  absl::Status CheckArguments() const;
  absl::Status Infer();
  absl::Status InferKind();
  absl::Status InferLeaf();
  absl::Status InferUnary();
  absl::Status InferBinary();
  absl::Status InferMatMul();
  absl::Status InferLookup();
  absl::Status InferSlice();
  absl::Status InferConcat();
  absl::Status InferTranspose();
  absl::Status InferReduction(ElementType type, Shape shape);
  absl::Status RequireFloat(int argument) const;

  Op& op() { return ops_[at_]; }
  const Op& arg(int i) const {
    return ops_[static_cast<size_t>(ops_[at_].args[static_cast<size_t>(i)].value())];
  }

  std::string_view cell_;
  std::vector<Op>& ops_;
  const std::vector<Input>& inputs_;
  const std::vector<Parameter>& parameters_;
  const absl::Span<const std::string> names_;  // of ops; none: they have numbers only
  size_t at_ = 0;                              // the op looked at
};

std::string Inference::Called(ValueId value) const {
  const auto index = static_cast<size_t>(value.value());
  const Op& op = ops_[index];
  const auto which = static_cast<size_t>(op.attr[0]);
  if (op.kind == OpKind::kParameter) return fmt::format("\"{}\"", parameters_[which].name);
  if (op.kind == OpKind::kInput) {
    const Input& input = inputs_[which];
    return fmt::format("\"{}.{}\"", input.name, input.reads[static_cast<size_t>(op.attr[1])].name);
  }
  return index < names_.size() ? fmt::format("\"{}\"", names_[index]) : fmt::format("op {}", index);
}

absl::Status Inference::CheckArguments() const {
  const Op& op = ops_[at_];
  int given = 0;
  while (given < 3 && op.args[static_cast<size_t>(given)].valid()) ++given;
  for (int i = given; i < 3; ++i) {
    if (op.args[static_cast<size_t>(i)].valid()) {
      return WrongOp("argument {} is given, argument {} is not", i, given);
    }
  }
  const std::optional<OpFacts> facts = FactsOf(op.kind);
  if (!facts.has_value())
    return Wrong("op {}: kind {} does not exist", at_, static_cast<int>(op.kind));
  const int least = facts->least_arguments, most = facts->most_arguments;
  if (given < least || given > most) {
    std::string which;  // those that are values before this one
    for (int i = 0; i < given; ++i) {
      const ValueId value = op.args[static_cast<size_t>(i)];
      if (static_cast<size_t>(value.value()) >= at_) break;
      which += fmt::format("{}{}", i == 0 ? " (" : ", ", Called(value));
    }
    return WrongOp("{} argument{}{}{}, it takes {}", given, given == 1 ? "" : "s", which,
                   which.empty() ? "" : ")",
                   least == most ? fmt::format("{}", least) : fmt::format("{} or {}", least, most));
  }
  for (int i = 0; i < given; ++i) {
    const int32_t v = op.args[static_cast<size_t>(i)].value();
    if (static_cast<size_t>(v) >= at_) {
      return WrongOp("argument {} is value {}, only values before {} exist", i, v, at_);
    }
  }
  return absl::OkStatus();
}

absl::Status Inference::RequireFloat(int argument) const {
  if (arg(argument).type != ElementType::kInt32) return absl::OkStatus();
  return WrongOp("{} is INT32, it computes on FP32", Argument(argument));
}

absl::Status Inference::InferLeaf() {
  Op& o = op();
  const int32_t which = o.attr[0];
  if (o.kind == OpKind::kConstant) {
    if (o.type == ElementType::kBf16) return WrongOp("BF16, constants are FP32 or INT32");
    if (o.shape.rows >= 1 && o.shape.cols >= 1) return absl::OkStatus();
    return WrongOp("shape {}", o.shape.ToString());
  }
  Shape natural;
  if (o.kind == OpKind::kParameter) {
    if (which < 0 || static_cast<size_t>(which) >= parameters_.size()) {
      return WrongOp("parameter {} of {}", which, parameters_.size());
    }
    natural = parameters_[static_cast<size_t>(which)].shape;
    o.type = parameters_[static_cast<size_t>(which)].type;
  } else {
    if (which < 0 || static_cast<size_t>(which) >= inputs_.size()) {
      return WrongOp("input {} of {}", which, inputs_.size());
    }
    const Input& input = inputs_[static_cast<size_t>(which)];
    if (o.attr[1] < 0 || static_cast<size_t>(o.attr[1]) >= input.reads.size()) {
      return WrongOp("column {} of input \"{}\", which reads {}", o.attr[1], input.name,
                     input.reads.size());
    }
    natural = Shape::Vector(input.reads[static_cast<size_t>(o.attr[1])].width);
    o.type = input.reads[static_cast<size_t>(o.attr[1])].type;
  }
  if (o.shape == Shape{}) o.shape = natural;  // not given: as it is
  const bool reshaped = o.kind == OpKind::kInput && o.shape.rows >= 1 && o.shape.cols >= 1 &&
                        o.shape.size() == natural.size();
  if (o.shape == natural || reshaped) return absl::OkStatus();
  return WrongOp("shape {} is given, {} is there", o.shape.ToString(), natural.ToString());
}

absl::Status Inference::InferUnary() {
  op().shape = arg(0).shape;
  op().type = ElementType::kFp32;
  return RequireFloat(0);
}

absl::Status Inference::InferBinary() {
  Op& o = op();
  o.shape = arg(0).shape;
  o.type = ElementType::kFp32;
  if (absl::Status s = RequireFloat(0); !s.ok()) return s;
  if (absl::Status s = RequireFloat(1); !s.ok()) return s;
  const Shape a = arg(0).shape, b = arg(1).shape, one;
  if (a == one) o.shape = b;
  if (a == b || a == one || b == one) return absl::OkStatus();
  // MATMUL of a matrix and a vector makes a column, which nobody means.
  const auto column = [](Shape s) { return s.cols == 1 && s.rows > 1; };
  const bool turned =
      (column(a) && b == Shape::Vector(a.rows)) || (column(b) && a == Shape::Vector(b.rows));
  return WrongOp(
      "{} is {}, {} is {}: they differ and neither is [1]{}", Argument(0), a.ToString(),
      Argument(1), b.ToString(),
      turned ? "; of a MatMul the vector is the first argument, the matrix the second" : "");
}

absl::Status Inference::InferMatMul() {
  const Shape x = arg(0).shape, w = arg(1).shape;
  if (absl::Status s = RequireFloat(0); !s.ok()) return s;
  if (absl::Status s = RequireFloat(1); !s.ok()) return s;
  if (x.cols != w.cols) {
    const std::string_view remedy =
        w.rows != x.cols ? ""
        : arg(1).kind == OpKind::kParameter
            ? "; a matrix is written [rows out, columns in]: exchange its dims"
            : "; a matrix is [rows out, columns in]: a TRANSPOSE exchanges them";
    return WrongOp("{} is {}, {} is {}: their last dimensions are {} and {}, and must agree{}",
                   Argument(0), x.ToString(), Argument(1), w.ToString(), x.cols, w.cols, remedy);
  }
  op().shape = Shape::Matrix(x.rows, w.rows);
  op().type = ElementType::kFp32;
  return absl::OkStatus();
}

absl::Status Inference::InferLookup() {
  if (arg(0).type == ElementType::kInt32) {
    return WrongOp("{} is INT32; the table is the first argument, the index the second",
                   Argument(0));
  }
  if (arg(1).type != ElementType::kInt32 || arg(1).shape != Shape{}) {
    return WrongOp("the index {} is {} {}, it must be INT32 [1]", Argument(1),
                   cellbatch::Name(arg(1).type), arg(1).shape.ToString());
  }
  op().shape = Shape::Vector(arg(0).shape.cols);
  op().type = ElementType::kFp32;
  return absl::OkStatus();
}

absl::Status Inference::InferSlice() {
  Op& o = op();
  const Shape from = arg(0).shape;
  if (o.attr[0] < 0 || o.attr[0] >= o.attr[1] || o.attr[1] > from.cols) {
    return WrongOp("elements {} <= i < {} of {}, which is {}: begin and end are within 0 to {}",
                   o.attr[0], o.attr[1], Argument(0), from.ToString(), from.cols);
  }
  o.shape = {from.rows, o.attr[1] - o.attr[0]};
  o.type = arg(0).type;
  return absl::OkStatus();
}

absl::Status Inference::InferConcat() {
  Op& o = op();
  const Shape first = arg(0).shape;
  int64_t elements = 0;
  for (int i = 0; i < 3 && o.args[static_cast<size_t>(i)].valid(); ++i) {
    const Shape shape = arg(i).shape;
    if (first.is_vector() && !shape.is_vector()) {
      return WrongOp("{} is {}, it joins vectors", Argument(i), shape.ToString());
    }
    if (!first.is_vector() && (shape.is_vector() || shape.cols != first.cols)) {
      return WrongOp("{} is {}, {} is {}: it joins matrices of one width", Argument(i),
                     shape.ToString(), Argument(0), first.ToString());
    }
    if (arg(i).type != arg(0).type) {
      return WrongOp("{} is {}, {} is {}", Argument(i), cellbatch::Name(arg(i).type), Argument(0),
                     cellbatch::Name(arg(0).type));
    }
    elements += shape.size();
  }
  if (elements > kMaxValueElements)
    return WrongOp("{} elements, the most is {}", elements, kMaxValueElements);
  const int64_t rows = first.is_vector() ? 1 : elements / first.cols;
  o.shape = Shape::Matrix(static_cast<int32_t>(rows), static_cast<int32_t>(elements / rows));
  o.type = arg(0).type;
  return absl::OkStatus();
}

absl::Status Inference::InferTranspose() {
  op().shape = {arg(0).shape.cols, arg(0).shape.rows};
  op().type = arg(0).type;
  return absl::OkStatus();
}

absl::Status Inference::InferReduction(ElementType type, Shape shape) {
  op().type = type;
  op().shape = shape;
  return RequireFloat(0);
}

absl::Status Inference::InferKind() {
  switch (op().kind) {
    case OpKind::kInput:
    case OpKind::kParameter:
    case OpKind::kConstant:
      return InferLeaf();
    case OpKind::kLookup:
      return InferLookup();
    case OpKind::kMatMul:
      return InferMatMul();
    case OpKind::kAdd:
    case OpKind::kSub:
    case OpKind::kMul:
    case OpKind::kDiv:
    case OpKind::kMax:
      return InferBinary();
    case OpKind::kSigmoid:
    case OpKind::kTanh:
    case OpKind::kRelu:
    case OpKind::kExp:
    case OpKind::kLog:
      return InferUnary();
    case OpKind::kSlice:
      return InferSlice();
    case OpKind::kConcat:
      return InferConcat();
    case OpKind::kTranspose:
      return InferTranspose();
    case OpKind::kSum:
    case OpKind::kMean:
      return InferReduction(ElementType::kFp32, Shape{});
    case OpKind::kSoftmax:
      return InferReduction(ElementType::kFp32, arg(0).shape);
    case OpKind::kArgMax:
      return InferReduction(ElementType::kInt32, Shape{});
  }
  NoSuchEnumerator();
}

absl::Status Inference::Infer() {
  if (absl::Status s = CheckArguments(); !s.ok()) return s;
  return InferKind();
}

absl::Status Inference::InferAll() {
  if (ops_.empty()) return Wrong("no operators");
  const auto leaves = std::count_if(ops_.begin(), ops_.end(), [](const Op& op) {
    return op.kind == OpKind::kInput || op.kind == OpKind::kParameter;
  });
  if (leaves > kMaxLeaves) return Wrong("{} leaves, the most is {}", leaves, kMaxLeaves);
  if (ops_.size() - static_cast<size_t>(leaves) > kMaxOps) {
    return Wrong("{} operators, the most is {}", ops_.size() - static_cast<size_t>(leaves),
                 kMaxOps);
  }
  for (at_ = 0; at_ < ops_.size(); ++at_) {
    if (absl::Status s = Infer(); !s.ok()) return s;
    const Op& o = ops_[at_];
    if (o.kind != OpKind::kParameter && o.shape.size() > kMaxValueElements) {
      return WrongOp("its value {} has {} elements, the most is {}", o.shape.ToString(),
                     o.shape.size(), kMaxValueElements);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status InferOps(std::string_view cell, const std::vector<Input>& inputs,
                      const std::vector<Parameter>& parameters, absl::Span<const std::string> names,
                      std::vector<Op>& ops) {
  return Inference(cell, inputs, parameters, names, ops).InferAll();
}

}  // namespace cellbatch
