// Makes a model folder of a PyTorch state_dict saved as safetensors: says in config.textproto how its
// tensors fill our cells, and copies them under their own names.
//
//   <repository>/<name>/config.textproto
//   <repository>/<name>/<version>/weights.safetensors
//
// Plain functions; any thread; seconds and memory for the weights.
#ifndef CELLBATCH_SERVER_IMPORT_TORCH_H_
#define CELLBATCH_SERVER_IMPORT_TORCH_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "cells/weights/torch_names.h"
#include "proto/model.pb.h"

namespace cellbatch {

struct ImportOptions {
  std::string from;        // a .safetensors file
  std::string repository;  // made if it is not there
  std::string name;        // of the model
  int64_t version = 1;
  std::string precision = "FP32";
  int64_t max_sequence_length = 0;  // 0: the server's limit
  bool overwrite = false;           // replace a version that is there
  TorchHints hints;
};

struct Imported {
  TorchModel model;
  std::string folder;
  int64_t parameters = 0;  // numbers
};

// The description of such a model: which tensors fill which cells.
disk::ModelDescription DescribeTorchModel(const TorchModel& model, const std::string& name);

// INVALID_ARGUMENT: what is wrong or ambiguous, a line a problem, with the flag that settles it.
// ALREADY_EXISTS: that version is there.
absl::StatusOr<Imported> ImportTorch(const ImportOptions& options);

// What was made, in a few lines for a person.
std::string Summary(const Imported& imported, const ImportOptions& options);

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_IMPORT_TORCH_H_
