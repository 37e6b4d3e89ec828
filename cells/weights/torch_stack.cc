// The recurrent layers of a state_dict: which modules they are of, in which order they lie, and that their shapes agree.
#include <algorithm>
#include <vector>

#include "absl/strings/str_split.h"
#include "cells/weights/torch_reading.h"
#include "cells/weights/torch_tensor_name.h"

namespace cellbatch {
namespace {

using Entry = SafetensorsEntry;

constexpr int64_t kMaxUnits = 1 << 24;  // of a layer: what they are multiplied with stays countable

// Of one layer: the module that has it, and how that calls it ("_l0"; a module of one step does not say).
struct Place {
  std::string module, end;
};

std::string Below(const std::string& prefix, const std::string& name) {
  return prefix.empty() ? name : prefix + "." + name;
}

class StackReader {
 public:
  explicit StackReader(TorchReading& reading) : reading_(reading), model_(reading.model) {}

  void Read() {
    if (!FindModules()) return;
    FindCell();
    if (reading_.problems.empty()) FindLayers();
  }

 private:
  const Entry* Find(const std::string& name) const { return reading_.Find(name); }

  // Stacks of modules of one step, by what is before the layer's number: their modules, bottom to top.
  std::map<std::string, std::vector<std::string>> CellStacks() const {
    std::map<std::string, std::vector<std::string>> stacks;
    for (const auto& [name, entry] : reading_.by_name) {
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
        if (stack[l].empty() && stack.size() > 1) stack[l] = Below(base, std::to_string(l));
      }
    }
    return stacks;
  }

  // Whether --rnn names one cell of a list, whatever the other elements are ("1" of an nn.Sequential).
  bool IsElement() const {
    const std::string& prefix = reading_.hints.rnn_prefix;
    return ParseElement(prefix) &&
           std::any_of(reading_.by_name.begin(), reading_.by_name.end(),
                       [&](const auto& tensor) { return ParseCellName(tensor.first) == prefix; });
  }

  // The layers that a module of many has; of another, which may be of one step, its only one.
  void AddPlaces(const std::string& module) {
    int layers = 0;
    for (const auto& [name, entry] : reading_.by_name) {
      const auto parsed = ParseRnnName(name);
      if (parsed && parsed->prefix == module) layers = std::max(layers, parsed->layer + 1);
    }
    for (int l = 0; l < layers; ++l) places_.push_back({module, fmt::format("_l{}", l)});
    if (layers == 0) places_.push_back({module, ""});
  }

  // The modules that are the stack: those that --rnn names, or all that there are under one prefix.
  bool FindModules() {
    std::set<std::string> prefixes;
    for (const auto& [name, entry] : reading_.by_name) {
      if (const auto parsed = ParseRnnName(name)) prefixes.insert(parsed->prefix);
    }
    const std::string& hint = reading_.hints.rnn_prefix;
    const std::vector<std::string> parts = absl::StrSplit(hint, ',');
    if (parts.size() > 1 || IsElement()) {
      model_.prefix = hint;
      for (const std::string& module : parts) AddPlaces(module);
      if (places_.size() <= kMaxLayers) return true;
      reading_.Problem("--rnn names {} layers, the limit is {}", places_.size(), kMaxLayers);
      return false;
    }
    const std::map<std::string, std::vector<std::string>> stacks = CellStacks();
    for (const auto& [base, stack] : stacks) prefixes.insert(base);
    if (!hint.empty()) {
      const bool there = prefixes.contains(hint);
      prefixes.clear();
      if (there) prefixes.insert(hint);
    }
    if (prefixes.size() != 1) {
      NamePrefixes(prefixes);
      return false;
    }
    model_.prefix = *prefixes.begin();
    const auto found = stacks.find(model_.prefix);
    if (found == stacks.end()) {
      AddPlaces(model_.prefix);
    } else {
      for (const std::string& cell : found->second) places_.push_back({cell, ""});
      return !MayLieSideBySide(found->second);
    }
    return true;
  }

  // Cells that all read as much as they leave fit on each other, and the same input as well (by hand, two directions).
  bool MayLieSideBySide(const std::vector<std::string>& cells) {
    if (cells.size() < 2) return false;
    for (const std::string& cell : cells) {
      const Entry* ih = Find(Below(cell, "weight_ih"));
      const Entry* hh = Find(Below(cell, "weight_hh"));
      const Entry* first = Find(Below(cells[0], "weight_hh"));
      if (ih == nullptr || hh == nullptr || !IsMatrix(*ih) || !IsMatrix(*hh)) return false;
      if (ih->shape[1] != hh->shape[1] || first->shape[1] != hh->shape[1]) return false;
    }
    const int64_t width = Find(Below(cells[0], "weight_hh"))->shape[1];
    reading_.Problem(
        "\"{}\" each read {} numbers and leave {}: they may lie on each other or side by side; "
        "--rnn "
        "{} serves them on each other",
        fmt::join(cells, "\" and \""), width, width, fmt::join(cells, ","));
    return true;
  }

  void NamePrefixes(const std::set<std::string>& prefixes) {
    if (prefixes.empty()) {
      const std::string& hint = reading_.hints.rnn_prefix;
      const std::string prefix = hint.empty() ? "..." : hint + ".";
      reading_.Problem(
          "no recurrent weights: no tensor is named \"{}weight_ih_l0\" (nor \"{}weight_ih\")",
          prefix, prefix);
      return;
    }
    reading_.Problem(
        "{} recurrent stacks (\"{}\"): --rnn says which one is served, or as --rnn A,B in which "
        "order they lie on each other{}",
        prefixes.size(), fmt::join(prefixes, "\", \""), ListText(prefixes));
  }

  // What a module of many layers reads, or leaves in all directions; 0: its tensors do not say.
  int64_t WidthOf(const std::string& module, bool reads) const {
    int top = 0;
    for (const auto& [name, entry] : reading_.by_name) {
      const auto parsed = ParseRnnName(name);
      if (parsed && parsed->prefix == module) top = std::max(top, parsed->layer);
    }
    const std::string end = fmt::format("_l{}", reads ? 0 : top);
    const Entry* t = Find(Below(module, (reads ? "weight_ih" : "weight_hh") + end));
    if (t == nullptr || !IsMatrix(*t) || t->shape[1] > kMaxUnits) return 0;
    const bool both = Find(Below(module, "weight_hh" + end + "_reverse")) != nullptr;
    return t->shape[1] * (!reads && both ? 2 : 1);
  }

  // Of modules in a list (an nn.ModuleList of nn.LSTM): whether they would fit on each other, in its order. They may as
  // well lie side by side, or have sums in between, of which names and shapes say nothing.
  std::string ListText(const std::set<std::string>& prefixes) const {
    std::map<int, std::string> list;
    std::set<std::string> bases;
    for (const std::string& prefix : prefixes) {
      const auto element = ParseElement(prefix);
      if (!element) return "";
      bases.insert(element->first);
      list[element->second] = prefix;
    }
    if (bases.size() != 1) return "";
    std::vector<std::string> order;
    for (const auto& [number, module] : list) {
      if (!order.empty()) {
        const int64_t left = WidthOf(order.back(), false), read = WidthOf(module, true);
        if (left == 0 || read == 0) return "";
        if (left != read) {
          return fmt::format(" (\"{}\" reads {} numbers, \"{}\" leaves {})", module, read,
                             order.back(), left);
        }
      }
      order.push_back(module);
    }
    return fmt::format(
        ": each reads what the one before leaves in --rnn {} (where nothing is added or put in "
        "between)",
        fmt::join(order, ","));
  }

  std::string TensorName(const char* part, const Place& place, bool reverse) const {
    return Below(place.module, fmt::format("{}{}{}", part, place.end, reverse ? "_reverse" : ""));
  }

  // Gates are counted in the recurrent matrix: it is [g*H, H].
  void FindCell() {
    const std::string name = TensorName("weight_hh", places_[0], false);
    const Entry* hh = Find(name);
    const Entry* ih = Find(TensorName("weight_ih", places_[0], false));
    if (hh == nullptr || ih == nullptr || !IsMatrix(*hh) || !IsMatrix(*ih)) {
      reading_.Problem("\"{}\" and \"{}\" must be there, as matrices of floats", name,
                       TensorName("weight_ih", places_[0], false));
      return;
    }
    model_.hidden = hh->shape[1];
    model_.input = ih->shape[1];
    if (model_.input < 1) {
      reading_.Problem("\"{}\" is {}: it reads nothing", ih->name, ShapeText(ih->shape));
    }
    const Entry* hr =
        places_[0].end.empty() ? nullptr : Find(TensorName("weight_hr", places_[0], false));
    if (hr != nullptr && IsMatrix(*hr)) {
      model_.projection = hr->shape[0];
      model_.hidden = hr->shape[1];
    }
    gates_ =
        model_.hidden > 0 && hh->shape[0] % model_.hidden == 0 ? hh->shape[0] / model_.hidden : 0;
    FindKind(*hh);
    if (hr != nullptr && (gates_ != 4 || !IsMatrix(*hr))) {
      reading_.Problem(
          "\"{}\" is {} {}: a projection is [P, H] and belongs to an LSTM, \"{}\" is {}", hr->name,
          hr->dtype, ShapeText(hr->shape), name, ShapeText(hh->shape));
    }
  }

  void FindKind(const Entry& hh) {
    const std::string& nonlinearity = reading_.hints.nonlinearity;
    if (gates_ == 4) {
      model_.cell = TorchCell::kLstm;
    } else if (gates_ == 3) {
      model_.cell = TorchCell::kGru;
    } else if (gates_ == 1) {
      model_.cell = nonlinearity == "relu" ? TorchCell::kRnnRelu : TorchCell::kRnnTanh;
      if (nonlinearity.empty()) {
        reading_.Problem(
            "\"{}\" is {}: an nn.RNN, and no file says with which nonlinearity: "
            "--nonlinearity tanh or relu",
            hh.name, ShapeText(hh.shape));
      }
    } else {
      reading_.Problem("\"{}\" is {}: neither [4*H, H] (LSTM) nor [3*H, H] (GRU) nor [H, H] (RNN)",
                       hh.name, ShapeText(hh.shape));
    }
    if (gates_ != 1 && !nonlinearity.empty()) {
      reading_.Problem("--nonlinearity {} is for an nn.RNN, \"{}\" is {}", nonlinearity, hh.name,
                       ShapeText(hh.shape));
    }
  }

  // Checks one tensor's shape and counts it as understood.
  std::string Take(const char* part, const Place& place, bool reverse, std::vector<int64_t> shape,
                   bool optional) {
    const std::string name = TensorName(part, place, reverse);
    const Entry* t = Find(name);
    if (t == nullptr) {
      if (!optional) reading_.Problem("\"{}\" is missing", name);
      return "";
    }
    reading_.used.insert(name);
    if (!t->is_float()) reading_.Problem("\"{}\" is {}, which are no floats", name, t->dtype);
    if (t->shape != shape) {
      reading_.Problem("\"{}\" is {}, expected {}", name, ShapeText(t->shape), ShapeText(shape));
    }
    return name;
  }

  // H of a layer: one for all of a module, but each module has its own.
  int64_t HiddenOf(const Place& place) const {
    const Place first = {place.module, place.end.empty() ? "" : "_l0"};
    const bool projected = model_.projection > 0;
    const Entry* t = Find(TensorName(projected ? "weight_hr" : "weight_hh", first, false));
    const bool sane = t != nullptr && IsMatrix(*t) && t->shape[1] <= kMaxUnits;
    return sane ? t->shape[1] : model_.hidden;
  }

  TorchChain TakeChain(const Place& place, bool reverse, int64_t input, bool biased) {
    const int64_t hidden = HiddenOf(place);
    const int64_t rows = gates_ * hidden;
    TorchChain chain;
    chain.weight_ih = Take("weight_ih", place, reverse, {rows, input}, false);
    const int64_t left = model_.projection > 0 ? model_.projection : hidden;
    chain.weight_hh = Take("weight_hh", place, reverse, {rows, left}, false);
    if (model_.projection > 0) {
      chain.weight_hr = Take("weight_hr", place, reverse, {left, hidden}, false);
    }
    chain.bias_ih = Take("bias_ih", place, reverse, {rows}, !biased);
    chain.bias_hh = Take("bias_hh", place, reverse, {rows}, !biased);
    return chain;
  }

  bool HasReverse(const std::string& module) const {
    return std::any_of(reading_.by_name.begin(), reading_.by_name.end(), [&](const auto& tensor) {
      const auto parsed = ParseRnnName(tensor.first);
      return parsed && parsed->prefix == module && parsed->reverse;
    });
  }

  // A module has biases in all of its layers or in none.
  bool IsBiased(const Place& place) const {
    const Place first = {place.module, place.end.empty() ? "" : "_l0"};
    return Find(TensorName("bias_ih", first, false)) != nullptr ||
           Find(TensorName("bias_hh", first, false)) != nullptr;
  }

  void FindLayers() {
    int64_t input = model_.input;
    for (const Place& place : places_) {
      const bool reverse = !place.end.empty() && HasReverse(place.module);
      const bool biased = IsBiased(place);
      TorchLayer layer{.input = input,
                       .hidden = HiddenOf(place),
                       .forward = TakeChain(place, false, input, biased),
                       .reverse = {}};
      if (reverse) layer.reverse = TakeChain(place, true, input, biased);
      input = model_.width(layer) * (reverse ? 2 : 1);
      model_.layers.push_back(std::move(layer));
    }
  }

  TorchReading& reading_;
  TorchModel& model_;
  std::vector<Place> places_;  // bottom to top
  int64_t gates_ = 0;
};

}  // namespace

void FindStack(TorchReading& reading) { StackReader(reading).Read(); }

}  // namespace cellbatch
