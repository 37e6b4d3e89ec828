// Which command reads which flags: one that would be left out in silence is an error.
#ifndef CELLBATCH_CLIENT_COMMAND_FLAGS_H_
#define CELLBATCH_CLIENT_COMMAND_FLAGS_H_

#include <set>
#include <string>
#include <string_view>

namespace cellbatch {

bool IsCommand(std::string_view name);

// What is wrong with the flags that are given to a command; empty where nothing is. Those that say where the server is, who calls
// it and how the answer is printed are everybody's.
std::string WhatIsNotRead(std::string_view command, const std::set<std::string>& given);

}  // namespace cellbatch

#endif  // CELLBATCH_CLIENT_COMMAND_FLAGS_H_
