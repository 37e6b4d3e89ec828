#include "cells/weights/torch_tensor_name.h"

#include <charconv>

namespace cellbatch {

std::optional<RnnName> ParseRnnName(std::string_view name) {
  for (const std::string_view part :
       {"weight_ih", "weight_hh", "weight_hr", "bias_ih", "bias_hh"}) {
    const size_t at = name.rfind(part);
    if (at == std::string_view::npos || (at > 0 && name[at - 1] != '.')) continue;
    std::string_view rest = name.substr(at + part.size());
    if (!rest.starts_with("_l")) continue;
    rest.remove_prefix(2);
    RnnName found{.prefix = std::string(name.substr(0, at > 0 ? at - 1 : 0)),
                  .part = std::string(part)};
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), found.layer);
    if (error != std::errc() || found.layer < 0 || static_cast<size_t>(found.layer) >= kMaxLayers)
      continue;
    rest.remove_prefix(static_cast<size_t>(end - rest.data()));
    found.reverse = rest == "_reverse";
    if (rest.empty() || found.reverse) return found;
  }
  return std::nullopt;
}

std::optional<std::string> ParseCellName(const std::string& name) {
  for (const std::string_view part : {"weight_ih", "weight_hh", "bias_ih", "bias_hh"}) {
    if (name == part) return "";
    if (name.ends_with(part) && name[name.size() - part.size() - 1] == '.') {
      return name.substr(0, name.size() - part.size() - 1);
    }
  }
  return std::nullopt;
}

std::optional<std::pair<std::string, int>> ParseElement(const std::string& prefix) {
  const size_t dot = prefix.rfind('.');
  const char* begin = prefix.data() + (dot == std::string::npos ? 0 : dot + 1);
  const char* last = prefix.data() + prefix.size();
  int number = 0;
  const auto [end, error] = std::from_chars(begin, last, number);
  if (error != std::errc() || end != last || number < 0 ||
      static_cast<size_t>(number) >= kMaxLayers) {
    return std::nullopt;
  }
  return std::pair(prefix.substr(0, dot == std::string::npos ? 0 : dot), number);
}

}  // namespace cellbatch
