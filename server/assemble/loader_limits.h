// What a model may ask of a server. Beyond: the model is refused, and the text names the bound.
#ifndef CELLBATCH_SERVER_ASSEMBLE_LOADER_LIMITS_H_
#define CELLBATCH_SERVER_ASSEMBLE_LOADER_LIMITS_H_

#include <cstdint>
#include <optional>

#include "cells/device_kind.h"

namespace cellbatch {

struct LoaderLimits {
  int64_t max_weight_bytes = int64_t{16} << 30;  // of one weights.safetensors
  int64_t max_config_bytes = 4 << 20;            // of one text file
  int64_t max_names_bytes = 256 << 20;           // of one vocabulary.txt, chars.txt or labels.txt
  int64_t max_sequence_length = 65536;   // what a model may set; also what it gets that sets none
  int64_t max_nodes = int64_t{1} << 20;  // cells of one request: likewise
  bool unfolder_libraries = false;       // whether models may bring code of their own
  int64_t max_library_bytes = int64_t{64} << 20;  // of one
  int32_t max_cell_types = 256;                   // of one model
  // Kinds that this server computes on. None: not known, as for a tool that computes nothing.
  std::optional<DeviceKinds> devices = {};
  bool splits_fp32 = false;  // whether its CPUs compute FP32_SPLIT faster than FP32 (OpenedDevices)
  bool policies =
      true;  // whether a version's policy is read; without, it is Algorithm 1 (for who learns one anew)
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_ASSEMBLE_LOADER_LIMITS_H_
