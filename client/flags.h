// Command-line flags: each has a name, a default and one line of help. For main functions; one
// thread.
//
//   std::string url = "localhost:8001";
//   Flags flags("cellbatch-client COMMAND", "Talks to a server.");
//   flags.Add("url", &url, "HOST:PORT", "Where the server listens.");
//   auto words = flags.Parse({argv + 1, argv + argc});   // what is no flag, in order
//
// Accepted: --name=value, --name value, --flag, --flag=false. "--" ends the flags.

#ifndef CELLBATCH_CLIENT_FLAGS_H_
#define CELLBATCH_CLIENT_FLAGS_H_

#include <cstdint>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"

namespace cellbatch {

class Flags {
 public:
  // Where a flag's value goes. What stands there when the flag is added is its default.
  using Target = std::variant<std::string*, double*, int64_t*, bool*>;

  Flags(std::string usage, std::string purpose);

  // The target is borrowed until Parse has returned. `value_word` stands for the value in the help.
  void Add(std::string name, Target target, std::string value_word, std::string help);

  // Everything that is no flag. INVALID_ARGUMENT names the flag that is unknown, lacks its value (what follows it is
  // a flag itself, say), or has one that cannot be read: no number is NaN or infinite. --help is always known.
  absl::StatusOr<std::vector<std::string>> Parse(const std::vector<std::string>& arguments);

  // Names of what Parse found, whatever the value.
  const std::set<std::string>& given() const { return given_; }
  bool help_wanted() const { return help_wanted_; }
  std::string Help() const;

 private:
  struct Flag {
    std::string name;
    Target target;
    std::string value_word;
    std::string help;
    std::string standard;
  };
  const Flag* Find(const std::string& name) const;

  std::string usage_;
  std::string purpose_;
  std::vector<Flag> flags_;
  std::set<std::string> given_;
  bool help_wanted_ = false;
};

}  // namespace cellbatch

#endif  // CELLBATCH_CLIENT_FLAGS_H_
