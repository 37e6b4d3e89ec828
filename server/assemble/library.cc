// A user's own unfolder (cells/unfold/library_unfolder.h).
#include <fmt/format.h>

#include "cells/unfold/library_unfolder.h"
#include "server/assemble/assembly.h"
#include "server/assemble/open_types.h"
#include "server/assemble/unfolder_library.h"

namespace cellbatch {

void AssembleLibrary(Assembly& a) {
  const disk::LibraryUnfolder& library = a.config.library();
  const std::optional<OpenTypes> types = MakeOpenTypes(a, {.unfolder = "library",
                                                           .types = library.types(),
                                                           .from_request = library.from_request(),
                                                           .rows_of = library.rows_of(),
                                                           .phases = library.phases()});
  if (!a.limits.unfolder_libraries) {
    a.Problem(
        "library: code of a model's own runs only where it is asked for (--unfolder-libraries)");
    return;
  }
  if (library.max_pieces() < 0 || library.max_pieces() > kMaxPieces) {
    a.Problem(fmt::format("library: max_pieces is {}, graphs grow by 0 to {}", library.max_pieces(),
                          kMaxPieces));
    return;
  }
  // Its code runs only where everything else is right.
  if (!types) return;
  const absl::StatusOr<UnfolderLibrary> opened =
      OpenUnfolderLibrary(a.model_folder, library.file(), a.limits.max_library_bytes);
  if (!opened.ok()) {
    a.Problem(std::string(opened.status().message()));
    return;
  }
  LibrarySpec spec{.name = library.file(),
                   .table = opened->table,
                   .library = opened->library,
                   .config = library.config(),
                   .types = types->types,
                   .inputs = types->inputs,
                   .phases = types->phases,
                   .limits = {.max_nodes = a.MaxNodes(), .max_pieces = library.max_pieces()}};
  auto unfolder = LibraryUnfolder::Create(spec, a.model);
  if (!unfolder.ok()) {
    a.Problem(std::string(unfolder.status().message()));
    return;
  }
  a.model.signature = (*unfolder)->signature();
  a.model.unfolder = *std::move(unfolder);
  a.ListOutputs();
}

}  // namespace cellbatch
