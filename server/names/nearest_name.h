// What somebody may have meant who wrote a name that does not exist: for error texts.
//
// Plain functions; any thread; O(names x letters²), letters beyond 64 are not compared.
#ifndef CELLBATCH_SERVER_NAMES_NEAREST_NAME_H_
#define CELLBATCH_SERVER_NAMES_NEAREST_NAME_H_

#include <string>
#include <string_view>
#include <vector>

namespace cellbatch {

// The first of the nearest among `names`; empty: none is near (a third of the letters differ, case is nothing).
std::string NearestName(std::string_view name, const std::vector<std::string>& names);

// "; did you mean "before"?", or, where none is near, what there is: " (there are "x", "before")", up to some 20 of
// them. Empty where there are no names.
std::string MeantOrThere(std::string_view name, const std::vector<std::string>& names);

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_NAMES_NEAREST_NAME_H_
