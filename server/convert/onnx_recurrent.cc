// Recurrent operators (LSTM, GRU, RNN), put down as the layers that they are.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "server/convert/onnx_scope.h"

namespace cellbatch {
namespace {

constexpr size_t kMaxLayers = 64;
constexpr int64_t kMaxWidth = 1 << 20;  // of a state or an input

// What tells the three recurrent operators apart.
struct Recurrent {
  const char* op;
  int64_t gates;
  std::vector<int64_t> order;  // our gate i is theirs order[i]
  std::vector<const char*> activations;
};
const Recurrent& KindOf(const std::string& op) {
  static const Recurrent kLstm{"LSTM", 4, {0, 2, 3, 1}, {"sigmoid", "tanh", "tanh"}};  // i o f c
  static const Recurrent kGru{"GRU", 3, {1, 0, 2}, {"sigmoid", "tanh"}};               // z r h
  static const Recurrent kRnn{"RNN", 1, {0}, {"tanh"}};
  return op == "LSTM" ? kLstm : op == "GRU" ? kGru : kRnn;
}

std::string Lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

// The shape of one recurrent node, checked.
struct Sizes {
  int64_t directions = 1, hidden = 0, input = 0;
  bool backward = false;  // the only direction is
  bool batch_first = false;
};

absl::Status CheckActivations(const OnnxNode& node, const Recurrent& kind, int64_t directions,
                              bool& relu) {
  for (const char* name : {"activation_alpha", "activation_beta"}) {
    const onnx::Attribute* a = node.Find(name);
    if (a != nullptr && a->floats_size() > 0) {
      return OnnxWrong(
          fmt::format("attribute {} is given; Sigmoid, Tanh and Relu have none", name));
    }
  }
  const onnx::Attribute* given = node.Find("activations");
  if (given == nullptr || given->strings_size() == 0) return absl::OkStatus();
  const size_t per = kind.activations.size();
  if (static_cast<size_t>(given->strings_size()) != per * static_cast<size_t>(directions)) {
    return OnnxWrong(fmt::format("attribute activations has {} names, {} directions take {}",
                                 given->strings_size(), directions,
                                 per * static_cast<size_t>(directions)));
  }
  relu = kind.gates == 1 && Lower(given->strings(0)) == "relu";
  for (int i = 0; i < given->strings_size(); ++i) {
    const std::string name = Lower(given->strings(i));
    const char* expected = relu ? "relu" : kind.activations[static_cast<size_t>(i) % per];
    if (name == expected) continue;
    return OnnxWrong(fmt::format("attribute activations[{}] is \"{}\", served is \"{}\"", i,
                                 given->strings(i), expected));
  }
  return absl::OkStatus();
}

absl::Status CheckAttributes(const OnnxNode& node) {
  if (const onnx::Attribute* clip = node.Find("clip"); clip != nullptr && clip->f() != 0) {
    return OnnxWrong(fmt::format("attribute clip is {}: cells do not clip", clip->f()));
  }
  if (node.Int("input_forget", 0) != 0) {
    return OnnxWrong("attribute input_forget is 1: coupled gates are not served");
  }
  const int64_t layout = node.Int("layout", 0);
  if (layout != 0 && layout != 1) return OnnxWrong(fmt::format("attribute layout is {}", layout));
  return absl::OkStatus();
}

absl::StatusOr<Sizes> ReadSizes(const OnnxNode& node, const Recurrent& kind) {
  Sizes sizes;
  const std::string direction = node.Text("direction", "forward");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional") {
    return OnnxWrong(fmt::format("attribute direction is \"{}\"", direction));
  }
  sizes.backward = direction == "reverse";
  sizes.directions = direction == "bidirectional" ? 2 : 1;
  sizes.batch_first = node.Int("layout", 0) == 1;
  for (const size_t i : {1, 2}) {
    if (node.in(i) == nullptr || !node.in(i)->is_floats()) {
      return OnnxWrong(fmt::format("{} is no constant", i == 1 ? "W" : "R"));
    }
  }
  const std::vector<int64_t>& w = node.in(1)->constant.dims;
  const std::vector<int64_t>& r = node.in(2)->constant.dims;
  if (w.size() == 3 && r.size() == 3) {
    sizes.hidden = r[2];
    sizes.input = w[2];
  }
  const bool sane = sizes.hidden >= 1 && sizes.input >= 1 && sizes.hidden <= kMaxWidth &&
                    sizes.input <= kMaxWidth;
  const int64_t rows = kind.gates * sizes.hidden;
  if (!sane || w != std::vector<int64_t>{sizes.directions, rows, sizes.input} ||
      r != std::vector<int64_t>{sizes.directions, rows, sizes.hidden}) {
    return OnnxWrong(fmt::format(
        "W is {}, R is {}; {} directions take [{}, {}*H, I] and [{}, {}*H, H]", DimsText(w),
        DimsText(r), sizes.directions, sizes.directions, kind.gates, sizes.directions, kind.gates));
  }
  const int64_t said = node.Int("hidden_size", sizes.hidden);
  if (said != sizes.hidden) {
    return OnnxWrong(fmt::format("attribute hidden_size is {}, R is {}", said, DimsText(r)));
  }
  if (node.in(3) != nullptr &&
      !(node.in(3)->kind == OnnxValue::Kind::kFill && node.in(3)->fill == 0)) {
    if (!node.in(3)->is_floats()) return OnnxWrong("B is no constant");
    const std::vector<int64_t> b = {sizes.directions, 2 * rows};
    if (node.in(3)->constant.dims != b) {
      return OnnxWrong(
          fmt::format("B is {}, expected {}", DimsText(node.in(3)->constant.dims), DimsText(b)));
    }
  }
  return sizes;
}

// Zeros of another shape are no state of this node: the file does not mean what it says (PyTorch 2.9 exports nn.LSTM
// with proj_size so).
absl::Status CheckStateShape(const OnnxValue* zeros, const char* what, const Sizes& sizes) {
  if (zeros == nullptr) return absl::OkStatus();
  const bool constant = zeros->is_constant();
  const std::vector<int64_t>& dims = zeros->constant.dims;
  const int64_t last = !constant ? zeros->fill_last : dims.empty() ? 0 : dims.back();
  const size_t place = sizes.batch_first ? 1 : 0;
  const bool fits = !constant || (dims.size() == 3 && dims[place] == sizes.directions);
  if (fits && (last == sizes.hidden || last < 0)) return absl::OkStatus();
  return OnnxWrong(fmt::format("{} is {}, expected {} directions of {}", what,
                               constant ? DimsText(dims) : fmt::format("[.., {}]", last),
                               sizes.directions, sizes.hidden));
}

// Operands that a chain has no place for: they must say what goes without saying.
absl::Status CheckOthers(OnnxScope& scope, const OnnxNode& node, const Sizes& sizes) {
  if (const OnnxValue* lengths = node.in(4)) {
    const bool input = lengths->is_rows() && lengths->rows.stage == RowsStage::kInput &&
                       scope.inputs[static_cast<size_t>(lengths->rows.source)].tokens;
    if (!input) {
      return OnnxWrong(
          "sequence_lens is neither absent nor a graph input: a request is one sequence "
          "with its own length");
    }
    const std::string& name = scope.inputs[static_cast<size_t>(lengths->rows.source)].name;
    const std::string note = fmt::format(
        "\"{}\" (sequence_lens) is not asked for: every sequence has its "
        "own length (LENGTHS)",
        name);
    if (std::find(scope.notes.begin(), scope.notes.end(), note) == scope.notes.end()) {
      scope.notes.push_back(note);
    }
  }
  for (const size_t i : {5, 6}) {
    const OnnxValue* state = node.in(i);
    const char* what = i == 5 ? "initial_h" : "initial_c";
    if (IsAbsentOrZero(state)) {
      if (absl::Status s = CheckStateShape(state, what, sizes); !s.ok()) return s;
      continue;
    }
    if (state->is_rows() && state->rows.stage == RowsStage::kInput) {
      const std::string& name = scope.inputs[static_cast<size_t>(state->rows.source)].name;
      return OnnxWrong(
          fmt::format("{} is the graph input \"{}\"; sequences start from zeros (--zeros {}), or "
                      "from {} of a request",
                      what, name, name, i == 5 ? "INITIAL_H" : "INITIAL_C"));
    }
    return OnnxWrong(fmt::format("{} is not zeros: sequences start from zeros", what));
  }
  if (!IsAbsentOrZero(node.in(7))) return OnnxWrong("P: peepholes are not served");
  return absl::OkStatus();
}

// The sequence that a recurrent node reads: [steps, one, numbers], or [one, steps, numbers].
absl::Status BindSequence(OnnxScope& scope, const OnnxRows& x, const Sizes& sizes) {
  if (x.axes.size() != 3) {
    return OnnxWrong(fmt::format("X has {} dimensions, expected 3", x.axes.size()));
  }
  if (x.stage != RowsStage::kInput && x.stage != RowsStage::kEmbedded &&
      x.stage != RowsStage::kHidden) {
    return OnnxWrong("X is no sequence of the input, an embedding or a layer");
  }
  const OnnxInput& input = scope.inputs[static_cast<size_t>(x.source)];
  if (x.stage == RowsStage::kInput && input.tokens) {
    return OnnxWrong(fmt::format("X is the whole numbers of \"{}\", expected floats", input.name));
  }
  const size_t time = sizes.batch_first ? 1 : 0;
  absl::Status s = scope.Bind(x.axes[time], AxisRole::kTime, "the steps");
  if (s.ok()) s = scope.Bind(x.axes[1 - time], AxisRole::kBatch, "a batch");
  if (!s.ok()) return s;
  OnnxAxis& last = scope.axis(x.axes[2]);
  if (last.role == AxisRole::kOpen) {
    if (last.size >= 0 && last.size != sizes.input) {
      return OnnxWrong(fmt::format("X is {} wide, W takes {}", last.size, sizes.input));
    }
    last = {AxisRole::kInner, sizes.input};
  }
  const int64_t width = last.role == AxisRole::kInner   ? last.size
                        : last.role == AxisRole::kBatch ? 1
                                                        : -1;
  if (width == sizes.input) return absl::OkStatus();
  return OnnxWrong(fmt::format("X is {} wide, W takes {}", width, sizes.input));
}

// Gates of one direction of W, R or B ([D, g*H, K]; part: of B's two halves), in our order.
absl::StatusOr<OnnxConstant> Gates(OnnxScope& scope, const OnnxConstant& from,
                                   const Recurrent& kind, int64_t direction, int64_t hidden,
                                   int64_t part) {
  std::vector<int64_t> rows;
  for (const int64_t gate : kind.order) {
    for (int64_t i = 0; i < hidden; ++i) rows.push_back((part * kind.gates + gate) * hidden + i);
  }
  const int64_t one[] = {direction};
  auto alone = scope.folder.Gather(from, 0, one, true);
  if (!alone.ok()) return alone.status();
  return scope.folder.Gather(*alone, 0, rows, false);
}

absl::Status ReadWeights(OnnxScope& scope, const OnnxNode& node, const Recurrent& kind,
                         const Sizes& sizes, OnnxLayer& layer) {
  for (int64_t d = 0; d < sizes.directions; ++d) {
    OnnxDirection& direction = layer.directions.emplace_back();
    direction.backward = d == 1 || sizes.backward;
    auto w = Gates(scope, node.in(1)->constant, kind, d, sizes.hidden, 0);
    auto r = Gates(scope, node.in(2)->constant, kind, d, sizes.hidden, 0);
    if (!w.ok()) return w.status();
    if (!r.ok()) return r.status();
    direction.w = *std::move(w);
    direction.r = *std::move(r);
    if (node.in(3) == nullptr || !node.in(3)->is_floats()) continue;
    for (const int64_t part : {0, 1}) {
      auto b = Gates(scope, node.in(3)->constant, kind, d, sizes.hidden, part);
      if (!b.ok()) return b.status();
      (part == 0 ? direction.b_w : direction.b_r) = *std::move(b);
    }
  }
  return absl::OkStatus();
}

// Y, Y_h and Y_c.
OnnxValues Outputs(OnnxScope& scope, const OnnxNode& node, const Sizes& sizes,
                   const OnnxLayer& layer, int number) {
  OnnxValues made;
  for (int i = 0; i < std::min(node.outputs(), layer.has_c ? 3 : 2); ++i) {
    OnnxRows rows;
    rows.stage = i == 0 ? RowsStage::kHidden : RowsStage::kFinal;
    for (const OnnxDirection& d : layer.directions) {
      rows.blocks.push_back({number, d.backward, i == 2, sizes.hidden});
    }
    const int directions = scope.NewAxis(AxisRole::kInner, sizes.directions);
    const int units = scope.NewAxis(AxisRole::kInner, sizes.hidden);
    const int time = layer.reads.axes[sizes.batch_first ? 1 : 0];
    const int batch = layer.reads.axes[sizes.batch_first ? 0 : 1];
    if (i == 0) {
      rows.axes = sizes.batch_first ? std::vector<int>{batch, time, directions, units}
                                    : std::vector<int>{time, directions, batch, units};
    } else {
      rows.axes = sizes.batch_first ? std::vector<int>{batch, directions, units}
                                    : std::vector<int>{directions, batch, units};
    }
    made.push_back(OnnxValue::Of(std::move(rows)));
  }
  return made;
}

}  // namespace

OnnxResult ReadRecurrent(OnnxScope& scope, const OnnxNode& node) {
  const Recurrent& kind = KindOf(node.op());
  if (scope.layers.size() >= kMaxLayers)
    return OnnxWrong(fmt::format("the limit is {} layers", kMaxLayers));
  if (node.in(0) == nullptr || !node.in(0)->is_rows()) return OnnxWrong("X is no sequence");
  absl::Status s = CheckAttributes(node);
  if (!s.ok()) return s;
  const absl::StatusOr<Sizes> sizes = ReadSizes(node, kind);
  if (!sizes.ok()) return sizes.status();
  OnnxLayer layer;
  bool relu = false;
  s = CheckActivations(node, kind, sizes->directions, relu);
  if (s.ok()) s = CheckOthers(scope, node, *sizes);
  if (s.ok()) s = BindSequence(scope, node.in(0)->rows, *sizes);
  if (s.ok()) s = ReadWeights(scope, node, kind, *sizes, layer);
  if (!s.ok()) return s;
  const bool after = node.Int("linear_before_reset", 0) != 0;
  layer.has_c = kind.gates == 4;
  layer.cell = kind.gates == 4   ? "lstm"
               : kind.gates == 1 ? (relu ? "elman_relu" : "elman")
               : after           ? "gru"
                                 : "gru_v1";
  layer.kind = kind.gates == 4   ? "LSTM"
               : kind.gates == 1 ? (relu ? "RNN (relu)" : "RNN (tanh)")
               : after           ? "GRU"
                                 : "GRU (reset before the product)";
  layer.input = sizes->input;
  layer.hidden = sizes->hidden;
  layer.reads = node.in(0)->rows;
  OnnxValues outputs = Outputs(scope, node, *sizes, layer, static_cast<int>(scope.layers.size()));
  scope.layers.push_back(std::move(layer));
  return outputs;
}

}  // namespace cellbatch
