// Makes a model folder of a PyTorch state_dict saved as safetensors: says in config.textproto how its
// tensors fill our cells, and copies them under their own names.
//
// Plain functions; any thread; seconds and memory for the weights.
#ifndef CELLBATCH_SERVER_CONVERT_IMPORT_TORCH_H_
#define CELLBATCH_SERVER_CONVERT_IMPORT_TORCH_H_

#include "absl/status/statusor.h"
#include "cells/weights/torch_names.h"
#include "server/convert/import_options.h"
#include "server/convert/write_model.h"

namespace cellbatch {

// The same model in our words: which tensors fill which cells.
StackModel StackOf(const TorchModel& model);

// INVALID_ARGUMENT: what is wrong or ambiguous, a line a problem, with the flag that settles it.
// ALREADY_EXISTS: that version is there.
absl::StatusOr<Imported> ImportTorch(const ImportOptions& options);

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_CONVERT_IMPORT_TORCH_H_
