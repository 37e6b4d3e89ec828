// What cellbatch-convert is told, and what it made. Values.
#ifndef CELLBATCH_SERVER_CONVERT_IMPORT_OPTIONS_H_
#define CELLBATCH_SERVER_CONVERT_IMPORT_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cells/weights/torch_names.h"
#include "server/convert/stack_model.h"

namespace cellbatch {

struct ImportOptions {
  std::string from;        // a .safetensors or .onnx file
  std::string repository;  // made if it is not there
  std::string name;        // of the model
  int64_t version = 1;
  std::string precision = "FP32";
  int64_t max_sequence_length = 0;      // 0: the server's limit
  bool overwrite = false;               // replace a version that is there
  TorchHints hints;                     // `ignored` names outputs of an ONNX graph, too
  std::vector<std::string> zeros = {};  // inputs of an ONNX graph that are always zeros
  std::string head_reads = {};  // of a state_dict: "every" step, or (also empty) the "final" states
};

struct Imported {
  StackModel model;
  std::string folder;
  int64_t parameters = 0;          // numbers
  std::vector<std::string> notes;  // what a person should know about the conversion, a line each
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_CONVERT_IMPORT_OPTIONS_H_
