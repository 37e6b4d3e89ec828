// Opens the shared library of a model's own unfolder (cells/unfold/cellbatch_unfolder.h).
//
// The file is copied into memory first and opened there: replacing it in the model's folder, even in
// place, changes neither a library in use nor what the next load gets (the loader of shared libraries
// knows files by their inode, and would hand out the old one). So $ORIGIN means nothing to the library:
// what it needs beside the system's libraries it must hold itself.
//
// Running its code is the point: opening it already does. Loader's thread; milliseconds.
#ifndef CELLBATCH_SERVER_ASSEMBLE_UNFOLDER_LIBRARY_H_
#define CELLBATCH_SERVER_ASSEMBLE_UNFOLDER_LIBRARY_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "cells/unfold/cellbatch_unfolder.h"

namespace cellbatch {

struct UnfolderLibrary {
  std::shared_ptr<void> library;             // closes it with the last copy
  const CellbatchUnfolder* table = nullptr;  // what cellbatch_unfolder() answered; perhaps null
};

// `file`: a name in `model_folder`; links that lead outside of it are refused. INVALID_ARGUMENT names
// the file and what is wrong.
absl::StatusOr<UnfolderLibrary> OpenUnfolderLibrary(const std::string& model_folder,
                                                    const std::string& file, int64_t max_bytes);

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_ASSEMBLE_UNFOLDER_LIBRARY_H_
