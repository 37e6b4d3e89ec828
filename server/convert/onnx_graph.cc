#include "server/convert/onnx_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

namespace cellbatch {
namespace {

constexpr int kMaxInputRank = 8;

using Operator = OnnxResult (*)(OnnxScope&, const OnnxNode&);

// What is understood: an operator, who reads it, and the attributes that it reads.
struct Understood {
  std::string_view op;
  Operator run;
  std::vector<std::string_view> attributes;
};

// What an attribute holds, as the file numbers it. One of another kind has nothing in the field that would be read.
constexpr const char* kKinds[] = {"UNDEFINED", "FLOAT",  "INT",  "STRING", "TENSOR",
                                  "GRAPH",     "FLOATS", "INTS", "STRINGS"};
enum Kind { kFloat = 1, kInt = 2, kString = 3, kTensor = 4, kFloats = 6, kInts = 7, kStrings = 8 };
std::optional<Kind> KindOfAttribute(std::string_view name) {
  static const std::pair<Kind, std::vector<std::string_view>> kAll[] = {
      {kFloat, {"alpha", "beta", "clip", "ratio", "value_float"}},
      {kInt,
       {"allowzero", "axis", "end", "hidden_size", "input_forget", "layout", "linear_before_reset",
        "num_outputs", "saturate", "seed", "start", "to", "transA", "transB", "value_int"}},
      {kString, {"direction", "round_mode"}},
      {kTensor, {"value"}},
      {kFloats, {"activation_alpha", "activation_beta", "value_floats"}},
      {kInts, {"axes", "ends", "perm", "split", "starts", "value_ints"}},
      {kStrings, {"activations"}},
  };
  for (const auto& [kind, names] : kAll) {
    if (std::find(names.begin(), names.end(), name) != names.end()) return kind;
  }
  return std::nullopt;
}

// Files of before kinds were written down say none.
absl::Status CheckKind(const onnx::Attribute& a) {
  const std::optional<Kind> expected = KindOfAttribute(a.name());
  if (!expected || a.type() == 0 || a.type() == *expected) return absl::OkStatus();
  const bool named = a.type() > 0 && a.type() < static_cast<int>(std::size(kKinds));
  return OnnxWrong(fmt::format("attribute {} is of type {}, expected {}", a.name(),
                               named ? kKinds[a.type()] : std::to_string(a.type()),
                               kKinds[*expected]));
}

OnnxResult Same(OnnxScope&, const OnnxNode& node) {
  if (node.in(0) == nullptr) return OnnxWrong("has no operand");
  return OnnxValues{*node.in(0)};
}

// It does nothing, unless its third operand (since opset 12) says that the model is being trained.
OnnxResult Dropout(OnnxScope& scope, const OnnxNode& node) {
  const OnnxValue* training = node.in(2);
  if (training == nullptr) return Same(scope, node);
  const bool fill = training->kind == OnnxValue::Kind::kFill;
  const bool one = training->is_integers() && training->constant.size() == 1 &&
                   (*training->constant.integers)[0].known();
  if (!fill && !one) return OnnxWrong("training_mode is no constant");
  if (fill ? training->fill != 0 : (*training->constant.integers)[0].value != 0) {
    return OnnxWrong("training_mode is true: a model is served as it infers");
  }
  return Same(scope, node);
}

const std::vector<Understood>& Operators() {
  static const std::vector<Understood> kAll = {
      {"LSTM",
       ReadRecurrent,
       {"activation_alpha", "activation_beta", "activations", "clip", "direction", "hidden_size",
        "input_forget", "layout"}},
      {"GRU",
       ReadRecurrent,
       {"activation_alpha", "activation_beta", "activations", "clip", "direction", "hidden_size",
        "linear_before_reset", "layout"}},
      {"RNN",
       ReadRecurrent,
       {"activation_alpha", "activation_beta", "activations", "clip", "direction", "hidden_size",
        "layout"}},
      {"MatMul", ReadLinear, {}},
      {"Gemm", ReadLinear, {"alpha", "beta", "transA", "transB"}},
      {"Add", ReadAdd, {}},
      {"Sub", ReadAdd, {}},
      {"Mul", ReadAdd, {}},
      {"Softmax", ReadSoftmax, {"axis"}},
      {"Identity", Same, {}},
      {"Dropout", Dropout, {"ratio", "seed"}},
      {"Transpose", MoveDimensions, {"perm"}},
      {"Reshape", MoveDimensions, {"allowzero"}},
      {"Flatten", MoveDimensions, {"axis"}},
      {"Squeeze", MoveDimensions, {"axes"}},
      {"Unsqueeze", MoveDimensions, {"axes"}},
      {"Slice", MoveDimensions, {"starts", "ends", "axes"}},
      {"Gather", MoveDimensions, {"axis"}},
      {"Concat", MoveDimensions, {"axis"}},
      {"Split", MoveDimensions, {"axis", "split", "num_outputs"}},
      {"Shape", MoveDimensions, {"start", "end"}},
      {"Cast", MoveDimensions, {"to", "saturate", "round_mode"}},
      {"ConstantOfShape", MoveDimensions, {"value"}},
      {"Expand", MoveDimensions, {}},
  };
  return kAll;
}

class Walk {
 public:
  Walk(const OnnxFile& file, const std::vector<std::string>& zeros) : file_(file), zeros_(zeros) {
    walked_.scope.opset = file.opset();
  }

  absl::StatusOr<OnnxWalked> Run() {
    const onnx::Graph& graph = file_.graph();
    for (const int parts :
         {graph.node_size(), graph.initializer_size(), graph.input_size(), graph.output_size()}) {
      if (parts <= kMaxOnnxParts) continue;
      return OnnxWrong(
          fmt::format("a graph of {} parts of a kind, the limit is {}", parts, kMaxOnnxParts));
    }
    if (absl::Status s = ReadGiven(graph); !s.ok()) return s;
    for (const std::string& name : zeros_) {
      if (values_.contains(name)) continue;
      return OnnxWrong(fmt::format("--zeros {}: the graph has no such input", name));
    }
    for (const onnx::Node& node : graph.node()) {
      if (absl::Status s = ReadNode(node); !s.ok()) return s;
    }
    for (const onnx::ValueInfo& output : graph.output()) {
      walked_.outputs.emplace_back(output.name(), Find(output.name()));
    }
    return std::move(walked_);
  }

 private:
  // What is there before any node runs. An input that an initializer is called like has that for its default.
  absl::Status ReadGiven(const onnx::Graph& graph) {
    for (const onnx::Tensor& t : graph.initializer()) {
      if (t.name().empty() || initializers_.emplace(t.name(), &t).second) continue;
      return OnnxWrong(fmt::format("initializer \"{}\" is there twice", t.name()));
    }
    std::set<std::string> inputs;
    for (const onnx::ValueInfo& input : graph.input()) {
      if (!inputs.insert(input.name()).second) {
        return OnnxWrong(fmt::format("the graph input \"{}\" is there twice", input.name()));
      }
      if (!initializers_.contains(input.name())) values_[input.name()] = ReadInput(input);
    }
    return absl::OkStatus();
  }

  OnnxValue ReadInput(const onnx::ValueInfo& input) {
    if (std::find(zeros_.begin(), zeros_.end(), input.name()) != zeros_.end()) {
      return OnnxValue::Fill(0);
    }
    const onnx::TensorType& type = input.type().tensor_type();
    const bool tokens = type.elem_type() == 6 || type.elem_type() == 7;
    const bool floats = type.elem_type() == 1 || type.elem_type() == 10 || type.elem_type() == 11;
    const std::string called = fmt::format("the graph input \"{}\"", input.name());
    if (!tokens && !floats) {
      return OnnxValue::Opaque(fmt::format("{} is of type {}: neither floats nor whole numbers",
                                           called, OnnxTypeText(type.elem_type())));
    }
    if (!type.has_shape() || type.shape().dim_size() > kMaxInputRank) {
      return OnnxValue::Opaque(called + " has no shape");
    }
    OnnxRows rows;
    rows.source = static_cast<int>(walked_.scope.inputs.size());
    for (const onnx::Dimension& d : type.shape().dim()) {
      const bool known = d.dim_value() > 0 && d.dim_value() <= kMaxOnnxElements;
      rows.axes.push_back(walked_.scope.NewAxis(AxisRole::kOpen, known ? d.dim_value() : -1));
    }
    walked_.scope.inputs.push_back({input.name(), tokens, rows.axes});
    return OnnxValue::Of(std::move(rows));
  }

  // Initializers are read when somebody needs them.
  const OnnxValue& Find(const std::string& name) {
    const auto found = values_.find(name);
    if (found != values_.end()) return found->second;
    const auto initializer = initializers_.find(name);
    if (initializer == initializers_.end()) {
      missed_.insert(name);
      return values_[name] =
                 OnnxValue::Opaque(fmt::format("\"{}\" is needed before any node makes it", name));
    }
    return values_[name] =
               ReadTensor(*initializer->second, fmt::format("initializer \"{}\"", name));
  }

  OnnxValue ReadTensor(const onnx::Tensor& tensor, const std::string& called) {
    absl::StatusOr<OnnxConstant> constant = file_.Tensor(tensor);
    if (!constant.ok()) {
      return OnnxValue::Opaque(called + ": " + std::string(constant.status().message()));
    }
    return OnnxValue::Of(*std::move(constant));
  }

  OnnxResult ReadConstant(const onnx::Node& node) {
    for (const onnx::Attribute& a : node.attribute()) {
      if (absl::Status s = CheckKind(a); !s.ok()) return s;
      if (a.name() == "value") return OnnxValues{ReadTensor(a.t(), NodeText(node))};
      if (a.name() == "value_int") {
        OnnxValue made = OnnxValue::Integers({{.value = a.i()}});
        made.constant.dims.clear();
        return OnnxValues{std::move(made)};
      }
      if (a.name() == "value_ints") {
        std::vector<OnnxDim> all;
        for (const int64_t i : a.ints()) all.push_back({.value = i});
        return OnnxValues{OnnxValue::Integers(std::move(all))};
      }
      if (a.name() != "value_float" && a.name() != "value_floats") continue;
      OnnxConstant made;
      std::vector<float> all(a.floats().begin(), a.floats().end());
      if (a.name() == "value_float") all = {a.f()};
      if (a.name() == "value_floats") made.dims = {static_cast<int64_t>(all.size())};
      made.floats = std::make_shared<const std::vector<float>>(std::move(all));
      return OnnxValues{OnnxValue::Of(std::move(made))};
    }
    return OnnxWrong("has no value that is understood");
  }

  OnnxResult Evaluate(const onnx::Node& node, const std::vector<const OnnxValue*>& inputs) {
    if (!node.domain().empty() && node.domain() != "ai.onnx") {
      return OnnxWrong(fmt::format("operators of \"{}\" are not understood", node.domain()));
    }
    if (node.op_type() == "Constant") return ReadConstant(node);
    for (const Understood& known : Operators()) {
      if (known.op != node.op_type()) continue;
      std::set<std::string_view> there;
      for (const onnx::Attribute& a : node.attribute()) {
        const auto& names = known.attributes;
        if (!a.ref_attr_name().empty() ||
            std::find(names.begin(), names.end(), a.name()) == names.end()) {
          return OnnxWrong(fmt::format("attribute {} is not understood", a.name()));
        }
        if (!there.insert(a.name()).second) {
          return OnnxWrong(fmt::format("attribute {} is there twice", a.name()));
        }
        if (absl::Status s = CheckKind(a); !s.ok()) return s;
      }
      return known.run(walked_.scope, OnnxNode(node, inputs));
    }
    return OnnxWrong("this operator is not understood");
  }

  // Why what a node makes of an operand that is not understood is not, either: for the operand's own reason. Of a state that
  // a recurrent node begins from that would be a detail of its making, where any making is one too many.
  static std::shared_ptr<const std::string> WhyOf(const onnx::Node& node,
                                                  const std::vector<const OnnxValue*>& inputs,
                                                  const OnnxValue& opaque) {
    constexpr std::pair<size_t, const char*> kStates[] = {{5, "initial_h"}, {6, "initial_c"}};
    const std::string& op = node.op_type();
    if (op != "LSTM" && op != "GRU" && op != "RNN") return opaque.why;
    for (const auto& [place, name] : kStates) {
      if (place >= inputs.size() || inputs[place] != &opaque) continue;
      return std::make_shared<const std::string>(
          fmt::format("{}: {} is not understood (sequences start from zeros): {}", NodeText(node),
                      name, *opaque.why));
    }
    return opaque.why;
  }

  absl::Status ReadNode(const onnx::Node& node) {
    if (node.input_size() > kMaxOnnxParts || node.output_size() > kMaxOnnxParts) {
      return OnnxWrong(fmt::format("{} has {} operands", NodeText(node), node.input_size()));
    }
    std::vector<const OnnxValue*> inputs;
    const OnnxValue* opaque = nullptr;
    for (const std::string& name : node.input()) {
      inputs.push_back(name.empty() ? nullptr : &Find(name));
      const bool lost = !name.empty() && inputs.back()->kind == OnnxValue::Kind::kOpaque;
      if (opaque == nullptr && lost) opaque = inputs.back();
    }
    OnnxValues made(static_cast<size_t>(node.output_size()));
    if (opaque != nullptr) {
      const auto why = WhyOf(node, inputs, *opaque);
      for (OnnxValue& value : made) value.why = why;
    } else {
      OnnxResult result = Evaluate(node, inputs);
      const std::string called = NodeText(node);
      const OnnxValue wrong =
          OnnxValue::Opaque(result.ok() ? called + ": this output is not served"
                                        : called + ": " + std::string(result.status().message()));
      for (size_t i = 0; i < made.size(); ++i) {
        made[i] = result.ok() && i < result->size() ? std::move((*result)[i]) : wrong;
      }
      NameHeads(called);
    }
    for (int i = 0; i < node.output_size(); ++i) {
      const std::string& name = node.output(i);
      if (name.empty()) continue;
      OnnxValue& value = made[static_cast<size_t>(i)];
      const bool free = !initializers_.contains(name);
      if (free && values_.emplace(name, std::move(value)).second) continue;
      return OnnxWrong(fmt::format("{} makes \"{}\", which {}", NodeText(node), name,
                                   missed_.contains(name)
                                       ? "a node before it reads: the file's nodes are not in the "
                                         "order in which they run, or lead in a circle"
                                       : "is there already"));
    }
    return absl::OkStatus();
  }

  void NameHeads(const std::string& called) {
    for (auto* heads = &walked_.scope.heads; named_heads_ < heads->size(); ++named_heads_) {
      (*heads)[named_heads_].node = called;
    }
    for (auto* layers = &walked_.scope.layers; named_layers_ < layers->size(); ++named_layers_) {
      (*layers)[named_layers_].node = called;
    }
  }

  const OnnxFile& file_;
  const std::vector<std::string>& zeros_;
  std::map<std::string, const onnx::Tensor*> initializers_;
  std::map<std::string, OnnxValue> values_;  // by name; never moved
  std::set<std::string> missed_;             // read, and not made by then
  OnnxWalked walked_;
  size_t named_heads_ = 0, named_layers_ = 0;
};

}  // namespace

absl::Status OnnxWrong(std::string text) { return absl::InvalidArgumentError(std::move(text)); }

std::string NodeText(const onnx::Node& node) {
  if (!node.name().empty()) return fmt::format("node \"{}\" ({})", node.name(), node.op_type());
  // An output that nobody reads has no name (Y, where Y_h alone is).
  const auto named = std::find_if(node.output().begin(), node.output().end(),
                                  [](const std::string& name) { return !name.empty(); });
  return fmt::format("the node that makes \"{}\" ({})", named == node.output().end() ? "" : *named,
                     node.op_type());
}

absl::Status OnnxScope::Bind(int number, AxisRole role, const char* what) {
  OnnxAxis& here = axis(number);
  if (here.role == AxisRole::kOpen) here.role = role;
  if (here.role == role) return absl::OkStatus();
  return OnnxWrong(fmt::format("reads {} along a dimension that is something else before", what));
}

const onnx::Attribute* OnnxNode::Find(std::string_view name) const {
  for (const onnx::Attribute& a : node_.attribute()) {
    if (a.name() == name) return &a;
  }
  return nullptr;
}

int64_t OnnxNode::Int(std::string_view name, int64_t otherwise) const {
  const onnx::Attribute* a = Find(name);
  return a == nullptr ? otherwise : a->i();
}

std::string OnnxNode::Text(std::string_view name, const char* otherwise) const {
  const onnx::Attribute* a = Find(name);
  return a == nullptr ? otherwise : a->s();
}

std::vector<int64_t> OnnxNode::Ints(std::string_view name) const {
  const onnx::Attribute* a = Find(name);
  return a == nullptr ? std::vector<int64_t>()
                      : std::vector<int64_t>(a->ints().begin(), a->ints().end());
}

absl::StatusOr<std::optional<std::vector<int64_t>>> OnnxNode::IntsOf(std::string_view attribute,
                                                                     size_t input) const {
  if (Find(attribute) != nullptr) return std::optional(Ints(attribute));
  if (in(input) == nullptr) return std::optional<std::vector<int64_t>>();
  if (!in(input)->is_integers()) return OnnxWrong(fmt::format("{} are no constants", attribute));
  std::vector<int64_t> numbers;
  for (const OnnxDim& d : *in(input)->constant.integers) {
    if (!d.known())
      return OnnxWrong(fmt::format("{} are not known before it is served", attribute));
    numbers.push_back(d.value);
  }
  return std::optional(std::move(numbers));
}

absl::StatusOr<OnnxWalked> WalkOnnx(const OnnxFile& file, const std::vector<std::string>& zeros) {
  return Walk(file, zeros).Run();
}

}  // namespace cellbatch
