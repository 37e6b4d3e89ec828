// Names that we give beside a user's own: a text may call its parts, and a configuration its types, as it likes.
#ifndef CELLBATCH_CELLS_FREE_NAME_H_
#define CELLBATCH_CELLS_FREE_NAME_H_

#include <algorithm>
#include <string>
#include <string_view>

#include "fmt/format.h"

namespace cellbatch {

// `name`, or the first of "`name` 2", "`name` 3".. that is not taken: `is_taken` says of a std::string whether something is
// called that already.
template <typename IsTaken>
std::string FreeName(std::string_view name, IsTaken is_taken) {
  std::string free(name);
  for (int n = 2; is_taken(free); ++n) free = fmt::format("{} {}", name, n);
  return free;
}

// Likewise, among `things`, which have names.
template <typename Things>
std::string FreeNameAmong(const Things& things, std::string_view name) {
  return FreeName(name, [&](const std::string& free) {
    return std::any_of(things.begin(), things.end(),
                       [&](const auto& thing) { return thing.name == free; });
  });
}

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_FREE_NAME_H_
