// The one way to say "this cannot happen": a broken promise of our own code ends the process, with the place and
// the promise on stderr. Never for what a request, a file or a flag may get wrong: those are an absl::Status.
//
//   Check(row.value() < num_rows, "a task names a row beyond its table");
//
// Any thread. Costs one predicted branch; it stays in release builds.

#ifndef CELLBATCH_CELLS_CHECK_H_
#define CELLBATCH_CELLS_CHECK_H_

#include <cstdio>
#include <cstdlib>
#include <source_location>
#include <string_view>

namespace cellbatch {

[[noreturn]] [[gnu::cold]] [[gnu::noinline]] inline void CheckFailed(std::string_view what,
                                                                     std::source_location where) {
  std::fprintf(stderr, "%s:%u: %s: check failed: %.*s\n", where.file_name(),
               static_cast<unsigned>(where.line()), where.function_name(),
               static_cast<int>(what.size()), what.data());
  std::abort();
}

inline void Check(bool holds, std::string_view what,
                  std::source_location where = std::source_location::current()) {
  if (!holds) [[unlikely]] {
    CheckFailed(what, where);
  }
}

// Behind a switch that names every enumerator, and so has no default: only a value that is none of them comes here.
[[noreturn]] inline void NoSuchEnumerator(
    std::source_location where = std::source_location::current()) {
  CheckFailed("an enumerator that does not exist", where);
}

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_CHECK_H_
