// From what a graph computes to the stack that we serve: which layers lie on which, what the outputs are.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "server/convert/onnx_graph.h"

namespace cellbatch {
namespace {

// A row a step: whether the steps come first, or the numbers of each.
bool NumbersBeforeSteps(const OnnxScope& scope, const std::vector<int>& axes) {
  bool numbers = false;
  for (const int number : axes) {
    const OnnxAxis& axis = scope.axis(number);
    if (axis.role == AxisRole::kTime) return numbers;
    numbers = numbers || (axis.role == AxisRole::kInner && axis.size > 1);
  }
  return false;
}

// As the file has them: "[B, 3, T]".
std::string AxesText(const OnnxScope& scope, const std::vector<int>& axes) {
  std::vector<std::string> texts;
  for (const int number : axes) {
    const OnnxAxis& axis = scope.axis(number);
    const char* open = axis.role == AxisRole::kTime ? "T" : "B";
    texts.push_back(axis.size < 0 ? open : std::to_string(axis.size));
  }
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

// What a row of these is wide.
int64_t WidthOf(const OnnxScope& scope, const std::vector<int>& axes) {
  int64_t width = 1;
  for (const int number : axes) {
    if (scope.axis(number).role == AxisRole::kInner) width *= scope.axis(number).size;
  }
  return width;
}

class Finder {
 public:
  Finder(const OnnxWalked& walked, const std::vector<std::string>& ignored)
      : scope_(walked.scope), walked_(walked), ignored_(ignored) {
    found_.notes = scope_.notes;
  }

  absl::StatusOr<OnnxStack> Find() {
    CheckIgnored();
    FindTop();
    if (problems_.empty()) FindChain();
    if (problems_.empty()) MakeLayers();
    if (problems_.empty()) NameOutputs();
    if (problems_.empty() && head_ >= 0) MakeHead();
    if (problems_.empty()) return std::move(found_);
    return OnnxWrong(fmt::format("{}", fmt::join(problems_, "\n")));
  }

 private:
  const OnnxLayer& layer(int number) const { return scope_.layers[static_cast<size_t>(number)]; }
  // What is not understood is often so for many outputs: said once.
  void Problem(const std::string& text) {
    if (std::find(problems_.begin(), problems_.end(), text) == problems_.end()) {
      problems_.push_back(text);
    }
  }
  bool Ignored(const std::string& name) const {
    return std::find(ignored_.begin(), ignored_.end(), name) != ignored_.end();
  }

  void CheckIgnored() {
    std::vector<std::string> names;
    for (const auto& [name, value] : walked_.outputs) names.push_back(name);
    for (const std::string& name : ignored_) {
      if (std::find(names.begin(), names.end(), name) != names.end()) continue;
      Problem(fmt::format("--ignore {}: the graph has no such output, it has \"{}\"", name,
                          fmt::join(names, "\", \"")));
    }
  }

  const std::vector<OnnxBlock>& BlocksOf(const OnnxRows& rows) const {
    if (rows.stage != RowsStage::kHead) return rows.blocks;
    return scope_.heads[static_cast<size_t>(rows.source)].reads.blocks;
  }

  void FindTop() {
    bool any = false;
    for (const auto& [name, value] : walked_.outputs) {
      if (Ignored(name)) continue;
      any = true;
      if (value.kind == OnnxValue::Kind::kOpaque) {
        Problem(fmt::format("output \"{}\": {}", name, *value.why));
      } else if (!value.is_rows() || BlocksOf(value.rows).empty()) {
        Problem(
            fmt::format("output \"{}\": no recurrent layer computes it (--ignore {} leaves it out)",
                        name, name));
      } else {
        for (const OnnxBlock& block : BlocksOf(value.rows)) top_ = std::max(top_, block.layer);
      }
    }
    if (!any) Problem("there is no output to serve");
  }

  // The layers from the top one down.
  void FindChain() {
    for (int at = top_; at >= 0;) {
      chain_.insert(chain_.begin(), at);
      const OnnxRows& reads = layer(at).reads;
      if (reads.stage != RowsStage::kHidden) break;
      const int below = reads.blocks[0].layer;
      for (const OnnxBlock& block : reads.blocks) {
        if (block.layer == below) continue;
        Problem(fmt::format("{} reads {} and {} at once; a layer reads the one below it",
                            layer(at).node, layer(below).node, layer(block.layer).node));
        return;
      }
      at = below;  // made before: the walk ends
    }
  }

  // Blocks of all directions of a layer.
  std::vector<OnnxBlock> All(int number, bool cell) const {
    std::vector<OnnxBlock> blocks;
    for (const OnnxDirection& d : layer(number).directions) {
      blocks.push_back({number, d.backward, cell, layer(number).hidden});
    }
    return blocks;
  }

  // `weight` reads the numbers of `reads` [R, sum of widths]: the matrix that reads all of layer `below`.
  OnnxConstant Over(const OnnxConstant& weight, const std::vector<OnnxBlock>& reads,
                    int below) const {
    const std::vector<OnnxBlock> all = All(below, false);
    if (reads == all) return weight;
    const int64_t from = weight.dims[1], hidden = layer(below).hidden;
    const int64_t to = hidden * static_cast<int64_t>(all.size());
    auto made = std::make_shared<std::vector<float>>(static_cast<size_t>(weight.dims[0] * to));
    for (int64_t row = 0; row < weight.dims[0]; ++row) {
      int64_t column = 0;
      for (const OnnxBlock& block : reads) {
        const auto place = std::find(all.begin(), all.end(), block) - all.begin();
        for (int64_t i = 0; i < hidden; ++i, ++column) {
          (*made)[static_cast<size_t>(row * to + place * hidden + i)] +=
              (*weight.floats)[static_cast<size_t>(row * from + column)];
        }
      }
    }
    return {.dims = {weight.dims[0], to}, .floats = std::move(made), .integers = nullptr};
  }

  std::string Tensor(std::string name, const std::optional<OnnxConstant>& constant) {
    if (!constant) return "";
    found_.tensors[name] = *constant;
    return name;
  }

  StackChain MakeChain(size_t place, const OnnxDirection& direction) {
    const OnnxLayer& from = layer(chain_[place]);
    const OnnxConstant w =
        place == 0 ? direction.w : Over(direction.w, from.reads.blocks, chain_[place - 1]);
    const std::string name =
        fmt::format("layer{}.{}.", place, direction.backward ? "backward" : "forward");
    StackChain made{.cell = from.cell, .parameters = {}};
    made.parameters.push_back({"W", {Tensor(name + "W", w)}});
    made.parameters.push_back({"U", {Tensor(name + "R", direction.r)}});
    const std::string b_w = Tensor(name + "Wb", direction.b_w),
                      b_r = Tensor(name + "Rb", direction.b_r);
    if (from.cell == "gru") {
      made.parameters.push_back({"b_in", {b_w}});
      made.parameters.push_back({"b_rec", {b_r}});
    } else {
      made.parameters.push_back({"b", {b_w, b_r}});
    }
    return made;
  }

  void MakeLayers() {
    std::set<std::string> kinds;
    for (size_t place = 0; place < chain_.size(); ++place) {
      const OnnxLayer& from = layer(chain_[place]);
      kinds.insert(from.kind);
      StackLayer& to = found_.model.layers.emplace_back();
      to.hidden = to.width = from.hidden;
      to.state = from.has_c ? from.hidden : 0;
      to.input = place == 0 ? from.input
                            : found_.model.layers[place - 1].width *
                                  found_.model.layers[place - 1].directions();
      for (const OnnxDirection& direction : from.directions) {
        (direction.backward ? to.backward : to.forward) = MakeChain(place, direction);
      }
    }
    found_.model.kind = fmt::format("{}", fmt::join(kinds, " and "));
    const OnnxRows& reads = layer(chain_[0]).reads;
    const OnnxInput& input = scope_.inputs[static_cast<size_t>(reads.source)];
    if (NumbersBeforeSteps(scope_, input.axes)) {
      Problem(
          fmt::format("the graph input \"{}\" is {}; X is a row a step, [T, {}]: export the model "
                      "without the Transpose at its beginning",
                      input.name, AxesText(scope_, input.axes), WidthOf(scope_, input.axes)));
    }
    found_.notes.insert(found_.notes.begin(),
                        fmt::format("\"{}\" is {}", input.name, input.tokens ? "TOKENS" : "X"));
    if (reads.stage != RowsStage::kEmbedded) return;
    const OnnxConstant& table = scope_.tables.at(reads.table);
    found_.model.embedding = Tensor("embedding.weight", table);
    found_.model.vocabulary = table.dims[0];
  }

  // A layer of these rows that is none of the stack's; -1: there is none.
  int Beside(const OnnxRows& rows) const {
    for (const OnnxBlock& block : rows.blocks) {
      if (std::find(chain_.begin(), chain_.end(), block.layer) == chain_.end()) return block.layer;
    }
    return -1;
  }

  // What we call an output; empty: a problem was noted.
  std::string Called(const std::string& name, const OnnxRows& rows) {
    if (rows.stage == RowsStage::kHead) {
      if (head_ >= 0 && head_ != rows.source) {
        Problem(
            fmt::format("output \"{}\": {} is a second head beside {} (--ignore leaves one out)",
                        name, scope_.heads[static_cast<size_t>(rows.source)].node,
                        scope_.heads[static_cast<size_t>(head_)].node));
      }
      head_ = rows.source;
      return "OUTPUT";
    }
    if (const int beside = Beside(rows); beside >= 0) {
      Problem(fmt::format(
          "output \"{}\": {} is none of the layers below {}; both directions of a layer are served "
          "of one node (bidirectional; --ignore {} leaves the output out)",
          name, layer(beside).node, layer(top_).node, name));
      return "";
    }
    std::vector<OnnxBlock> h, c;
    for (const int number : chain_) {
      for (const OnnxBlock& block : All(number, false)) h.push_back(block);
      for (const OnnxBlock& block : All(number, true)) c.push_back(block);
    }
    const std::vector<OnnxBlock> top = All(top_, false);
    if (rows.stage == RowsStage::kHidden && rows.blocks == top) return "ALL_HIDDEN, on request";
    if (rows.stage == RowsStage::kFinal && rows.blocks == top && !head_used_) return "OUTPUT";
    const bool even = std::all_of(
        h.begin(), h.end(), [&](const OnnxBlock& block) { return block.width == h[0].width; });
    if (rows.stage == RowsStage::kFinal && rows.blocks == h && even) return "FINAL_H, on request";
    if (rows.stage == RowsStage::kFinal && rows.blocks == c && even) return "FINAL_C, on request";
    Problem(fmt::format(
        "output \"{}\": served are the top layer at every step or at its end, the ends of all "
        "layers, or a head (--ignore {} leaves it out)",
        name, name));
    return "";
  }

  // Its numbers would be right and lie in other places than the graph's.
  bool CheckOrder(const std::string& name, const OnnxRows& rows) {
    if (!NumbersBeforeSteps(scope_, rows.axes)) return true;
    Problem(fmt::format(
        "output \"{}\" is {}; served is a row a step, [T, {}]: export the model without "
        "the Transpose at its end (--ignore {} leaves it out)",
        name, AxesText(scope_, rows.axes), WidthOf(scope_, rows.axes), name));
    return false;
  }

  void NameOutputs() {
    for (const auto& [name, value] : walked_.outputs) {
      head_used_ = head_used_ || (!Ignored(name) && value.rows.stage == RowsStage::kHead);
    }
    for (const auto& [name, value] : walked_.outputs) {
      if (Ignored(name) || !CheckOrder(name, value.rows)) continue;
      found_.notes.push_back(fmt::format("\"{}\" is {}", name, Called(name, value.rows)));
    }
  }

  void MakeHead() {
    const OnnxHead& from = scope_.heads[static_cast<size_t>(head_)];
    for (const OnnxBlock& block : from.reads.blocks) {
      if (block.layer == top_ && !block.cell) continue;
      Problem(fmt::format("{} reads {} of {}; a head reads h of the top layer, {}", from.node,
                          block.cell ? "c" : "h", layer(block.layer).node, layer(top_).node));
      return;
    }
    found_.model.head = {
        .cell = from.softmax ? "linear_softmax" : "linear",
        .weight = Tensor("head.weight", Over(from.weight, from.reads.blocks, top_)),
        .bias = Tensor("head.bias", from.bias),
        .classes = from.weight.dims[0],
        .every_step = from.reads.stage == RowsStage::kHidden};
  }

  const OnnxScope& scope_;
  const OnnxWalked& walked_;
  const std::vector<std::string>& ignored_;
  std::vector<std::string> problems_;
  std::vector<int> chain_;  // bottom to top
  int top_ = -1, head_ = -1;
  bool head_used_ = false;
  OnnxStack found_;
};

}  // namespace

absl::StatusOr<OnnxStack> FindStack(const OnnxWalked& walked,
                                    const std::vector<std::string>& ignored) {
  return Finder(walked, ignored).Find();
}

}  // namespace cellbatch
