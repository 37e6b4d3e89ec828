// cellbatch-client behind its main function: words and flags in, text and an exit code out.

#ifndef CELLBATCH_CLIENT_COMMANDS_H_
#define CELLBATCH_CLIENT_COMMANDS_H_

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace cellbatch {

struct CommandResult {
  int exit_code = 0;      // 0: done; 1: the server refused or is not ready; 2: wrong words or flags
  std::string output;     // for stdout
  std::string complaint;  // for stderr
};

// `arguments` without the program's name. Blocks while it talks to the server. `live` is given what `decode`
// prints as it comes; without it, that is part of the output.
CommandResult RunCommand(const std::vector<std::string>& arguments,
                         const std::function<void(std::string_view)>& live = {});

}  // namespace cellbatch

#endif  // CELLBATCH_CLIENT_COMMANDS_H_
