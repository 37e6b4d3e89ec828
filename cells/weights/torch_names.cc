#include "cells/weights/torch_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "cells/weights/torch_tensor_name.h"

namespace cellbatch {
namespace {

using Entry = SafetensorsEntry;

bool IsMatrix(const Entry& t) { return t.shape.size() == 2 && t.is_float(); }

class Importer {
 public:
  Importer(absl::Span<const Entry> tensors, const TorchHints& hints) : hints_(hints) {
    for (const Entry& t : tensors) {
      if (!Ignored(t.name)) by_name_[t.name] = &t;
    }
    for (const std::string& ignored : hints_.ignored) {
      const bool any = std::any_of(tensors.begin(), tensors.end(),
                                   [&](const Entry& t) { return Covers(ignored, t.name); });
      if (any) continue;
      Problem("--ignore {}: no tensor is called that, and none lies below it", ignored);
    }
  }

  absl::StatusOr<TorchModel> Import() {
    if (FindStack()) {
      FindCell();
      FindLayers();
      if (problems_.empty()) {
        FindHead(FindEmbedding());
        NameTheRest();
      }
    }
    if (problems_.empty()) return std::move(model_);
    return absl::InvalidArgumentError(fmt::format("{}", fmt::join(problems_, "\n")));
  }

 private:
  template <typename... Args>
  void Problem(fmt::format_string<Args...> text, Args&&... args) {
    problems_.push_back(fmt::format(text, std::forward<Args>(args)...));
  }

  static bool Covers(const std::string& prefix, const std::string& name) {
    return name == prefix || name.starts_with(prefix + ".");
  }
  bool Ignored(const std::string& name) const {
    return std::any_of(hints_.ignored.begin(), hints_.ignored.end(),
                       [&](const std::string& prefix) { return Covers(prefix, name); });
  }

  const Entry* Find(const std::string& name) const {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : found->second;
  }

  // Stacks of modules of one step, by what is before the layer's number: their modules, bottom to top.
  std::map<std::string, std::vector<std::string>> CellStacks() const {
    std::map<std::string, std::vector<std::string>> stacks;
    for (const auto& [name, entry] : by_name_) {
      const std::optional<std::string> cell = ParseCellName(name);
      if (!cell) continue;
      const auto element = ParseElement(*cell);
      std::vector<std::string>& stack = stacks[element ? element->first : *cell];
      const size_t layer = element ? static_cast<size_t>(element->second) : 0;
      if (stack.size() <= layer) stack.resize(layer + 1);
      stack[layer] = *cell;
    }
    for (auto& [base, stack] :
         stacks) {  // one that lacks all of its tensors is missed by name later
      for (size_t l = 0; l < stack.size(); ++l) {
        if (stack[l].empty() && stack.size() > 1) {
          stack[l] = fmt::format("{}{}{}", base, base.empty() ? "" : ".", l);
        }
      }
    }
    return stacks;
  }

  // Whether --rnn names one cell of a list, whatever the other elements are ("1" of an nn.Sequential).
  bool IsElement() const {
    return ParseElement(hints_.rnn_prefix) &&
           std::any_of(by_name_.begin(), by_name_.end(), [&](const auto& tensor) {
             return ParseCellName(tensor.first) == hints_.rnn_prefix;
           });
  }

  // The one prefix under which recurrent weights lie.
  bool FindStack() {
    std::set<std::string> prefixes;
    for (const auto& [name, entry] : by_name_) {
      if (const auto parsed = ParseRnnName(name)) prefixes.insert(parsed->prefix);
    }
    const std::map<std::string, std::vector<std::string>> stacks = CellStacks();
    if (const auto parts = SplitAtCommas(hints_.rnn_prefix); parts.size() > 1 || IsElement()) {
      cells_ = parts;
      model_.prefix = hints_.rnn_prefix;
      if (cells_.size() > kMaxLayers)
        Problem("--rnn names {} cells, the limit is {}", cells_.size(), kMaxLayers);
      return cells_.size() <= kMaxLayers;
    }
    for (const auto& [base, stack] : stacks) prefixes.insert(base);
    if (!hints_.rnn_prefix.empty()) {
      if (prefixes.contains(hints_.rnn_prefix))
        prefixes = {hints_.rnn_prefix};
      else
        prefixes.clear();
    }
    if (prefixes.size() == 1) {
      model_.prefix = *prefixes.begin();
      const auto found = stacks.find(model_.prefix);
      if (found != stacks.end()) cells_ = found->second;
      return true;
    }
    if (prefixes.empty()) {
      const std::string prefix = hints_.rnn_prefix.empty() ? "..." : hints_.rnn_prefix + ".";
      Problem("no recurrent weights: no tensor is named \"{}weight_ih_l0\" (nor \"{}weight_ih\")",
              prefix, prefix);
    } else {
      Problem("{} recurrent stacks (\"{}\"): --rnn says which one is served{}", prefixes.size(),
              fmt::join(prefixes, "\", \""),
              stacks.size() < 2 ? "" : ", or as --rnn A,B in which order cells lie on each other");
    }
    return false;
  }

  std::string TensorName(const char* part, int layer, bool reverse) const {
    if (!cells_.empty()) {
      const std::string& cell = cells_[static_cast<size_t>(layer)];
      return fmt::format("{}{}{}", cell, cell.empty() ? "" : ".", part);
    }
    return fmt::format("{}{}{}_l{}{}", model_.prefix, model_.prefix.empty() ? "" : ".", part, layer,
                       reverse ? "_reverse" : "");
  }

  // Gates are counted in the recurrent matrix: it is [g*H, H].
  void FindCell() {
    const std::string name = TensorName("weight_hh", 0, false);
    const Entry* hh = Find(name);
    const Entry* ih = Find(TensorName("weight_ih", 0, false));
    if (hh == nullptr || ih == nullptr || !IsMatrix(*hh) || !IsMatrix(*ih)) {
      Problem("\"{}\" and \"{}\" must be there, as matrices of floats", name,
              TensorName("weight_ih", 0, false));
      return;
    }
    model_.hidden = hh->shape[1];
    model_.input = ih->shape[1];
    const Entry* hr = cells_.empty() ? Find(TensorName("weight_hr", 0, false)) : nullptr;
    if (hr != nullptr && IsMatrix(*hr)) {
      model_.projection = hr->shape[0];
      model_.hidden = hr->shape[1];
    }
    const int64_t gates =
        model_.hidden > 0 && hh->shape[0] % model_.hidden == 0 ? hh->shape[0] / model_.hidden : 0;
    gates_ = gates;
    if (gates == 4) {
      model_.cell = TorchCell::kLstm;
    } else if (gates == 3) {
      model_.cell = TorchCell::kGru;
    } else if (gates == 1) {
      model_.cell = hints_.nonlinearity == "relu" ? TorchCell::kRnnRelu : TorchCell::kRnnTanh;
      if (hints_.nonlinearity.empty()) {
        Problem(
            "\"{}\" is {}: an nn.RNN, and no file says with which nonlinearity: "
            "--nonlinearity tanh or relu",
            name, ShapeText(hh->shape));
      }
    } else {
      Problem("\"{}\" is {}: neither [4*H, H] (LSTM) nor [3*H, H] (GRU) nor [H, H] (RNN)", name,
              ShapeText(hh->shape));
    }
    if (hr != nullptr && (gates != 4 || !IsMatrix(*hr))) {
      Problem("\"{}\" is {} {}: a projection is [P, H] and belongs to an LSTM, \"{}\" is {}",
              hr->name, hr->dtype, ShapeText(hr->shape), name, ShapeText(hh->shape));
    }
    if (gates != 1 && !hints_.nonlinearity.empty()) {
      Problem("--nonlinearity {} is for an nn.RNN, \"{}\" is {}", hints_.nonlinearity, name,
              ShapeText(hh->shape));
    }
  }

  // Checks one tensor's shape and counts it as understood.
  std::string Take(const char* part, int layer, bool reverse, std::vector<int64_t> shape,
                   bool optional) {
    const std::string name = TensorName(part, layer, reverse);
    const Entry* t = Find(name);
    if (t == nullptr) {
      if (!optional) Problem("\"{}\" is missing", name);
      return "";
    }
    used_.insert(name);
    if (!t->is_float()) Problem("\"{}\" is {}, which are no floats", name, t->dtype);
    if (t->shape != shape) {
      Problem("\"{}\" is {}, expected {}", name, ShapeText(t->shape), ShapeText(shape));
    }
    return name;
  }

  // H of a layer: one for all, but each cell module has its own.
  int64_t HiddenOf(int layer) const {
    if (cells_.empty()) return model_.hidden;
    const Entry* hh = Find(TensorName("weight_hh", layer, false));
    return hh != nullptr && IsMatrix(*hh) ? hh->shape[1] : model_.hidden;
  }

  TorchChain TakeChain(int layer, bool reverse, int64_t input, bool biased) {
    const int64_t hidden = HiddenOf(layer);
    const int64_t rows = gates_ * hidden;
    TorchChain chain;
    chain.weight_ih = Take("weight_ih", layer, reverse, {rows, input}, false);
    const int64_t left = model_.projection > 0 ? model_.projection : hidden;
    chain.weight_hh = Take("weight_hh", layer, reverse, {rows, left}, false);
    if (model_.projection > 0) {
      chain.weight_hr = Take("weight_hr", layer, reverse, {left, hidden}, false);
    }
    chain.bias_ih = Take("bias_ih", layer, reverse, {rows}, !biased);
    chain.bias_hh = Take("bias_hh", layer, reverse, {rows}, !biased);
    return chain;
  }

  void FindLayers() {
    if (!problems_.empty()) return;
    int layers = static_cast<int>(cells_.size());
    bool reverse = false;
    for (const auto& [name, entry] : by_name_) {
      if (!cells_.empty()) break;
      const auto parsed = ParseRnnName(name);
      if (!parsed || parsed->prefix != model_.prefix) continue;
      layers = std::max(layers, parsed->layer + 1);
      reverse = reverse || parsed->reverse;
    }
    const bool biased = Find(TensorName("bias_ih", 0, false)) != nullptr ||
                        Find(TensorName("bias_hh", 0, false)) != nullptr;
    int64_t input = model_.input;
    for (int l = 0; l < layers; ++l) {
      TorchLayer layer{.input = input,
                       .hidden = HiddenOf(l),
                       .forward = TakeChain(l, false, input, biased),
                       .reverse = {}};
      if (reverse) layer.reverse = TakeChain(l, true, input, biased);
      input = model_.width(layer) * (reverse ? 2 : 1);
      model_.layers.push_back(std::move(layer));
    }
  }

  int64_t TopWidth() const {
    return model_.width(model_.layers.back()) * (model_.bidirectional() ? 2 : 1);
  }

  static std::string BiasOf(const std::string& weight) {
    constexpr std::string_view kWeight = "weight";
    if (!weight.ends_with(kWeight)) return "";
    return weight.substr(0, weight.size() - kWeight.size()) + "bias";
  }

  bool FitsEmbedding(const Entry& t) const {
    return IsMatrix(t) && t.shape[1] == model_.input && Find(BiasOf(t.name)) == nullptr;
  }
  bool FitsHead(const Entry& t) const {
    const Entry* bias = Find(BiasOf(t.name));
    return IsMatrix(t) && t.shape[1] == TopWidth() &&
           (bias == nullptr || bias->shape == std::vector<int64_t>{t.shape[0]});
  }

  // Modules call theirs so. A parameter of the model itself (a learned first state, the query of an attention) may have the
  // shape of a head, and be none.
  static bool IsModulesWeight(const std::string& name) {
    return name == "weight" || name.ends_with(".weight");
  }

  // Matrices outside the stack that could be the one or the other.
  std::vector<const Entry*> Candidates(bool (Importer::*fits)(const Entry&) const) const {
    std::vector<const Entry*> found;
    for (const auto& [name, t] : by_name_) {
      if (!used_.contains(name) && IsModulesWeight(name) && (this->*fits)(*t)) found.push_back(t);
    }
    return found;
  }

  // The tensor that a flag names, checked.
  const Entry* Flagged(const std::string& name, const char* flag,
                       bool (Importer::*fits)(const Entry&) const, int64_t width) {
    const Entry* t = Find(name);
    if (t == nullptr) {
      Problem("{} {}: no such tensor", flag, name);
    } else if (!(this->*fits)(*t)) {
      Problem("{} {}: it is {} {}, expected floats [any, {}]", flag, name, t->dtype,
              ShapeText(t->shape), width);
      return nullptr;
    }
    return t;
  }

  // Returns what might be a head as well and was not decided to be one.
  const Entry* FindEmbedding() {
    const Entry* chosen = nullptr;
    if (hints_.embedding == "none") return nullptr;
    if (!hints_.embedding.empty()) {
      chosen = Flagged(hints_.embedding, "--embedding", &Importer::FitsEmbedding, model_.input);
    } else {
      std::vector<const Entry*> all = Candidates(&Importer::FitsEmbedding);
      std::erase_if(all, [&](const Entry* t) {
        return t->name == hints_.head || (hints_.head != "none" && FitsHead(*t) &&
                                          !SaysEmbedding(t->name) && SaysHead(t->name));
      });
      if (all.size() > 1) {
        const auto named = std::count_if(all.begin(), all.end(),
                                         [](const Entry* t) { return SaysEmbedding(t->name); });
        if (named == 1) std::erase_if(all, [](const Entry* t) { return !SaysEmbedding(t->name); });
      }
      if (all.size() > 1) {
        std::vector<std::string> names;
        for (const Entry* t : all) names.push_back(t->name);
        Problem("\"{}\" could each be the embedding [any, {}]: --embedding NAME or none",
                fmt::join(names, "\" and \""), model_.input);
        return nullptr;
      }
      if (!all.empty()) chosen = all[0];
      if (chosen != nullptr && hints_.head.empty() && FitsHead(*chosen) &&
          !SaysEmbedding(chosen->name)) {
        Problem("\"{}\" {} could be an embedding or a head: --embedding {} or --head {}",
                chosen->name, ShapeText(chosen->shape), chosen->name, chosen->name);
        return chosen;
      }
    }
    if (chosen == nullptr) return nullptr;
    used_.insert(chosen->name);
    model_.embedding = chosen->name;
    model_.vocabulary = chosen->shape[0];
    return nullptr;
  }

  void FindHead(const Entry* undecided) {
    const Entry* chosen = nullptr;
    if (hints_.head == "none") return;
    if (!hints_.head.empty()) {
      chosen = Flagged(hints_.head, "--head", &Importer::FitsHead, TopWidth());
    } else {
      std::vector<const Entry*> all = Candidates(&Importer::FitsHead);
      std::erase(all, undecided);
      if (all.size() > 1) {
        std::vector<std::string> names;
        for (const Entry* t : all) names.push_back(t->name);
        Problem("\"{}\" could each be the head [any, {}]: --head NAME or none",
                fmt::join(names, "\" and \""), TopWidth());
        return;
      }
      if (!all.empty()) chosen = all[0];
    }
    if (chosen == nullptr) return;
    used_.insert(chosen->name);
    model_.head = chosen->name;
    model_.classes = chosen->shape[0];
    if (Find(BiasOf(chosen->name)) == nullptr) return;
    model_.head_bias = BiasOf(chosen->name);
    used_.insert(model_.head_bias);
  }

  // Notes a matrix that is no module's weight and would fit a place that is free.
  bool NameParameter(const Entry& t) {
    if (IsModulesWeight(t.name) || ParseRnnName(t.name) || ParseCellName(t.name)) return false;
    std::vector<std::string> places, flags;
    if (model_.embedding.empty() && hints_.embedding.empty() && FitsEmbedding(t)) {
      places.push_back("an embedding");
      flags.push_back("--embedding " + t.name);
    }
    if (model_.head.empty() && hints_.head.empty() && FitsHead(t)) {
      places.push_back("a head");
      flags.push_back("--head " + t.name);
    }
    if (places.empty()) return false;
    Problem("\"{}\" {} {} could be {}, but for its name: {} takes it, --ignore {} leaves it out",
            t.name, t.dtype, ShapeText(t.shape), fmt::join(places, " or "),
            fmt::join(flags, " or "), t.name);
    return true;
  }

  static std::string PlaceText(const char* place, const std::string& hint, int64_t width) {
    if (hint == "none") return fmt::format("there is to be no {} (--{} none)", place, place);
    return fmt::format("the {} is [any, {}]", place, width);
  }

  // Whatever is left over would be left out of the model, and its answers be wrong.
  void NameTheRest() {
    if (!problems_.empty()) return;
    for (const auto& [name, t] : by_name_) {
      if (problems_.size() >= 20) return;
      if (used_.contains(name) || NameParameter(*t)) continue;
      Problem("\"{}\" {} {} fits no place: {}, {} (--ignore {} leaves it out)", name, t->dtype,
              ShapeText(t->shape), PlaceText("embedding", hints_.embedding, model_.input),
              PlaceText("head", hints_.head, TopWidth()), name);
    }
  }

  const TorchHints& hints_;
  std::map<std::string, const Entry*> by_name_;
  std::set<std::string> used_;
  std::vector<std::string> problems_;
  std::vector<std::string>
      cells_;  // modules of one step, one a layer; empty: one module has all layers
  int64_t gates_ = 0;
  TorchModel model_;
};

}  // namespace

const char* Name(TorchCell cell) {
  switch (cell) {
    case TorchCell::kLstm:
      return "LSTM";
    case TorchCell::kGru:
      return "GRU";
    case TorchCell::kRnnTanh:
      return "RNN (tanh)";
    case TorchCell::kRnnRelu:
      return "RNN (relu)";
  }
  return "?";
}

absl::StatusOr<TorchModel> ReadTorchNames(absl::Span<const SafetensorsEntry> tensors,
                                          const TorchHints& hints) {
  if (!hints.nonlinearity.empty() && hints.nonlinearity != "tanh" && hints.nonlinearity != "relu") {
    return absl::InvalidArgumentError(
        fmt::format("--nonlinearity is \"{}\", it is tanh or relu", hints.nonlinearity));
  }
  return Importer(tensors, hints).Import();
}

}  // namespace cellbatch
