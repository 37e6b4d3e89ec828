// Parameters that a state_dict does not hold itself, but what a module makes them of in every call: weight_norm,
// spectral_norm, pruning. We would have to do the same; the one who saves the model can have it done once.
#include <optional>
#include <string_view>

#include "cells/weights/torch_reading.h"

namespace cellbatch {
namespace {

// "net.fc.weight" -> "model.net.fc", "weight": as one writes them in Python.
std::pair<std::string, std::string> ModuleOf(const std::string& parameter) {
  const size_t dot = parameter.rfind('.');
  if (dot == std::string::npos) return {"model", parameter};
  return {"model." + parameter.substr(0, dot), parameter.substr(dot + 1)};
}

struct Pair {
  const char *one, *other;  // ends of the names of the two tensors
  const char* maker;
  const char* cure;
};
constexpr Pair kPairs[] = {
    {"_g", "_v", "weight_norm", "torch.nn.utils.remove_weight_norm"},
    {"_orig", "_mask", "pruning", "torch.nn.utils.prune.remove"},
    {"_orig", "_u", "spectral_norm", "torch.nn.utils.remove_spectral_norm"},
};

// "rnn.weight_hh_l0", of a name that ends so; nothing: it does not, or leads to no weight or bias.
std::optional<std::string> Without(const std::string& name, std::string_view end) {
  if (!name.ends_with(end)) return std::nullopt;
  const std::string parameter = name.substr(0, name.size() - end.size());
  const std::string last = ModuleOf(parameter).second;
  if (!last.starts_with("weight") && !last.starts_with("bias")) return std::nullopt;
  return parameter;
}

// "rnn.parametrizations.weight_hh_l0.original1" -> "rnn.weight_hh_l0".
std::optional<std::string> Parametrized(const std::string& name) {
  constexpr std::string_view kWord = "parametrizations.";
  const size_t at = name.find(kWord);
  if (at == std::string::npos || (at > 0 && name[at - 1] != '.')) return std::nullopt;
  const size_t begin = at + kWord.size(), end = name.find('.', begin);
  if (end == std::string::npos) return std::nullopt;
  return name.substr(0, at) + name.substr(begin, end - begin);
}

bool NamePair(TorchReading& reading, const SafetensorsEntry& t) {
  for (const Pair& pair : kPairs) {
    const std::optional<std::string> parameter = Without(t.name, pair.one);
    const SafetensorsEntry* other = parameter ? reading.Find(*parameter + pair.other) : nullptr;
    if (other == nullptr) continue;
    const auto [module, name] = ModuleOf(*parameter);
    reading.Problem(
        "\"{}\" {} {} and \"{}\" {} {} are what {} makes \"{}\" of: save the model after "
        "{}({}, \"{}\")",
        t.name, t.dtype, ShapeText(t.shape), other->name, other->dtype, ShapeText(other->shape),
        pair.maker, *parameter, pair.cure, module, name);
    return true;
  }
  return false;
}

}  // namespace

void FindWrapped(TorchReading& reading) {
  std::set<std::string> told;
  for (const auto& [name, t] : reading.by_name) {
    if (reading.problems.size() >= kMaxTorchProblems) return;
    if (NamePair(reading, *t)) continue;
    if (const auto parameter = Parametrized(name); parameter && told.insert(*parameter).second) {
      const auto [module, last] = ModuleOf(*parameter);
      reading.Problem(
          "\"{}\" {} {} is of a parametrization that makes \"{}\": save the model after "
          "torch.nn.utils.parametrize.remove_parametrizations({}, \"{}\")",
          name, t->dtype, ShapeText(t->shape), *parameter, module, last);
    }
    if (const auto parameter = Without(name, "_raw")) {
      reading.Problem(
          "\"{}\" {} {} is what a wrapper that drops weights makes \"{}\" of: save the module that "
          "it wraps, with this for its \"{}\"",
          name, t->dtype, ShapeText(t->shape), ModuleOf(*parameter).second,
          ModuleOf(*parameter).second);
    }
  }
}

}  // namespace cellbatch
