// What each flag of cellbatch-server is called, which option it sets, within which bounds, and its line of --help.
// A table and nothing else; options.h reads it.
#ifndef CELLBATCH_SERVER_OPTION_FLAGS_H_
#define CELLBATCH_SERVER_OPTION_FLAGS_H_

#include <chrono>
#include <cstdint>
#include <limits>
#include <string>
#include <variant>
#include <vector>

#include "absl/types/span.h"
#include "server/options.h"

namespace cellbatch {

// Of numbers as they are, of times in milliseconds.
struct FlagBounds {
  int64_t least = 0;
  int64_t most = std::numeric_limits<int64_t>::max();
};

struct OptionFlag {
  const char* name;
  std::variant<std::string ServerOptions::*, bool ServerOptions::*, int64_t ServerOptions::*,
               std::chrono::milliseconds ServerOptions::*,
               std::vector<std::string> ServerOptions::*>
      field;  // a list: one more each time that the flag is given
  const char* help;
  FlagBounds bounds = {};
};

inline constexpr int64_t kLeastRowBudget = 1 << 16;

// In the order of --help.
absl::Span<const OptionFlag> OptionFlags();

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_OPTION_FLAGS_H_
