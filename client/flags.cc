#include "client/flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"

namespace cellbatch {
namespace {

std::string Shown(const Flags::Target& target) {
  if (const auto* text = std::get_if<std::string*>(&target)) {
    return **text;
  }
  if (const auto* real = std::get_if<double*>(&target)) {
    return fmt::format("{:g}", **real);
  }
  if (const auto* number = std::get_if<int64_t*>(&target)) {
    return fmt::format("{}", **number);
  }
  return *std::get<bool*>(target) ? "true" : "false";
}

bool Assign(const std::string& value, const Flags::Target& target) {
  if (const auto* text = std::get_if<std::string*>(&target)) {
    **text = value;
    return true;
  }
  if (const auto* real = std::get_if<double*>(&target)) {
    return absl::SimpleAtod(value, *real) && std::isfinite(**real);
  }
  if (const auto* number = std::get_if<int64_t*>(&target)) {
    return absl::SimpleAtoi(value, *number);
  }
  *std::get<bool*>(target) = value == "true";
  return value == "true" || value == "false";
}

// What a value has to be.
const char* Wanted(const Flags::Target& target) {
  if (std::holds_alternative<double*>(target)) return "a finite number";
  return std::holds_alternative<int64_t*>(target) ? "a whole number of 64 bits" : "true or false";
}

}  // namespace

Flags::Flags(std::string usage, std::string purpose)
    : usage_(std::move(usage)), purpose_(std::move(purpose)) {}

void Flags::Add(std::string name, Target target, std::string value_word, std::string help) {
  std::string standard = Shown(target);
  flags_.push_back(
      {std::move(name), target, std::move(value_word), std::move(help), std::move(standard)});
}

const Flags::Flag* Flags::Find(const std::string& name) const {
  const auto found = std::find_if(flags_.begin(), flags_.end(),
                                  [&](const Flag& flag) { return flag.name == name; });
  return found == flags_.end() ? nullptr : &*found;
}

absl::StatusOr<std::vector<std::string>> Flags::Parse(const std::vector<std::string>& arguments) {
  std::vector<std::string> words;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument == "--") {
      words.insert(words.end(), arguments.begin() + i + 1, arguments.end());
      break;
    }
    if (argument.size() < 2 || argument.compare(0, 2, "--") != 0) {
      words.push_back(argument);
      continue;
    }
    const size_t equals = argument.find('=');
    const std::string name = argument.substr(2, equals == std::string::npos ? equals : equals - 2);
    if (name == "help") {
      help_wanted_ = true;
      continue;
    }
    const Flag* flag = Find(name);
    if (flag == nullptr) {
      return absl::InvalidArgumentError(fmt::format("no flag --{}; --help lists them", name));
    }
    std::optional<std::string> value;
    if (equals != std::string::npos) {
      value = argument.substr(equals + 1);
    } else if (std::holds_alternative<bool*>(flag->target)) {
      value = "true";
    } else if (i + 1 < arguments.size()) {
      value = arguments[++i];
      const size_t end = value->find('=');
      if (value->starts_with("--") && Find(value->substr(2, end == value->npos ? end : end - 2))) {
        return absl::InvalidArgumentError(
            fmt::format("--{} lacks its {}: {} is a flag (--{}={} if it is meant)", name,
                        flag->value_word, *value, name, *value));
      }
    }
    if (!value.has_value()) {
      return absl::InvalidArgumentError(fmt::format("--{} lacks its {}", name, flag->value_word));
    }
    if (!Assign(*value, flag->target)) {
      return absl::InvalidArgumentError(
          fmt::format("--{}={}: wants {}", name, *value, Wanted(flag->target)));
    }
    given_.insert(name);
  }
  return words;
}

std::string Flags::Help() const {
  std::string text = fmt::format("{}\n\nusage: {} [flags]\n\n", purpose_, usage_);
  size_t width = 0;
  std::vector<std::string> heads;
  for (const Flag& flag : flags_) {
    heads.push_back(flag.value_word.empty() ? fmt::format("--{}", flag.name)
                                            : fmt::format("--{}={}", flag.name, flag.value_word));
    width = std::max(width, heads.back().size());
  }
  for (size_t i = 0; i < flags_.size(); ++i) {
    text += fmt::format("  {:<{}}  {}", heads[i], width, flags_[i].help);
    text += flags_[i].standard.empty() ? "\n" : fmt::format(" (default: {})\n", flags_[i].standard);
  }
  return text;
}

}  // namespace cellbatch
