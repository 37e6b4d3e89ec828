// From a folder to a Model: config.textproto, the cell definitions it names, and the weights of one
// version. Everything is checked, bounds have names, and every problem is reported at once.
//
// Plain functions; any thread (the one that loads). Seconds, and memory for the weights.
#ifndef CELLBATCH_SERVER_MODEL_LOADER_H_
#define CELLBATCH_SERVER_MODEL_LOADER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cells/model.h"

namespace cellbatch {

// What a model may ask of a server. Beyond: the model is refused, and the text names the bound.
struct LoaderLimits {
  int64_t max_weight_bytes = int64_t{16} << 30;  // of one weights.safetensors
  int64_t max_config_bytes = 4 << 20;            // of one text file
  int64_t max_sequence_length = 65536;  // what a model may set; also what it gets that sets none
  int32_t max_cell_types = 256;         // of one model
};

// The versions in a model folder: its folders named 1, 2, ...; ascending.
absl::StatusOr<std::vector<int64_t>> ModelVersions(const std::string& model_folder);

// `name`: the folder's; a config that names another one is refused. INVALID_ARGUMENT: one line a
// problem, each starting with the file (and line, where it has one).
absl::StatusOr<std::shared_ptr<const Model>> LoadModel(const std::string& model_folder,
                                                       const std::string& name, int64_t version,
                                                       ModelId id, const LoaderLimits& limits);

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_MODEL_LOADER_H_
