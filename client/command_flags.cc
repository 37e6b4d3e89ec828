#include "client/command_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace cellbatch {
namespace {

struct Command {
  std::string_view name;
  std::vector<std::string_view> reads;
};

const std::vector<Command>& Commands() {
  static const auto* const commands = new std::vector<Command>{
      {"health", {"model", "version"}},
      {"metadata", {"model", "version"}},
      {"config", {"model", "version"}},
      {"repository", {}},
      {"infer",
       {"model", "version", "tokens",   "random",           "seed",         "input",   "outputs",
        "id",    "values",  "sequence", "sequence-start",   "sequence-end", "text",    "source",
        "tree",  "chars",   "spans",    "max-decode-steps", "decode-steps", "priority"}},
      {"decode",
       {"model", "version", "text", "source", "max-decode-steps", "decode-steps", "priority"}},
      {"tag", {"model", "version", "input"}},
      {"stats", {"model", "version"}},
      {"latency", {"model", "version", "window"}},
      {"token", {"name"}}};
  return *commands;
}

bool Reads(const Command& command, std::string_view flag) {
  return std::find(command.reads.begin(), command.reads.end(), flag) != command.reads.end();
}

// What only says more of another flag.
std::string WhatStandsAlone(std::string_view command, const std::set<std::string>& given) {
  if (given.contains("version") && !given.contains("model") && command != "tag") {
    return "--version is of a --model, which is not given";
  }
  if (given.contains("seed") && !given.contains("random")) {
    return "--seed is for --random, which is not given";
  }
  return "";
}

}  // namespace

bool IsCommand(std::string_view name) {
  return std::any_of(Commands().begin(), Commands().end(),
                     [&](const Command& command) { return command.name == name; });
}

std::string WhatIsNotRead(std::string_view command, const std::set<std::string>& given) {
  for (const std::string& flag : given) {
    std::vector<std::string_view> readers;
    for (const Command& each : Commands()) {
      if (Reads(each, flag)) readers.push_back(each.name);
    }
    if (readers.empty() || std::find(readers.begin(), readers.end(), command) != readers.end()) {
      continue;
    }
    return fmt::format("{} does not read --{}: {} {}", command, flag, fmt::join(readers, ", "),
                       readers.size() > 1 ? "do" : "does");
  }
  return WhatStandsAlone(command, given);
}

}  // namespace cellbatch
