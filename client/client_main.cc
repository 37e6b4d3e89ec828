// The command-line client.

#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "client/commands.h"

int main(int argc, char** argv) {
  const cellbatch::CommandResult result =
      cellbatch::RunCommand(std::vector<std::string>(argv + 1, argv + argc),
                            [](std::string_view piece) { std::cout << piece << std::flush; });
  std::cout << result.output << std::flush;
  std::cerr << result.complaint;
  if (std::cout) return result.exit_code;
  // A full disk: an answer that is lost is no success.
  std::cerr << "cellbatch-client: stdout cannot be written\n";
  return result.exit_code != 0 ? result.exit_code : 1;
}
