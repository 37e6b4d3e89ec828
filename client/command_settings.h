// What a command line of cellbatch-client says.
#ifndef CELLBATCH_CLIENT_COMMAND_SETTINGS_H_
#define CELLBATCH_CLIENT_COMMAND_SETTINGS_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "client/flags.h"
#include "client/security.h"
#include "client/typed_commands.h"

namespace cellbatch {

struct CommandSettings {
  std::string url = "localhost:8001";
  bool json = false;
  std::string model;
  std::string version;
  double timeout = 10;
  std::string tokens;
  int64_t random = 0;
  int64_t seed = 1;
  std::string input;
  std::string outputs;
  std::string id;
  int64_t values = 8;
  double window = 60;
  std::string sequence;
  bool sequence_start = false;
  bool sequence_end = false;
  TypedFlags typed;
  SecurityFlags security;
  std::string name;
};

// Into `settings`, which outlives them.
Flags CommandFlags(CommandSettings& settings);

// What is wrong with `words`, those after the program's name that are no flags, and with the flags that are `given`; empty where
// nothing is.
std::string WhatIsWrong(const std::vector<std::string>& words, const std::set<std::string>& given,
                        const CommandSettings& settings);

}  // namespace cellbatch

#endif  // CELLBATCH_CLIENT_COMMAND_SETTINGS_H_
