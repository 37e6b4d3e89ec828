// Puts a Model together out of a parsed config, definitions and weights: what holds for every model, and the way to
// the assembler of its unfolder (assembly.h). The loader's; one thread.
#ifndef CELLBATCH_SERVER_ASSEMBLE_MODEL_ASSEMBLER_H_
#define CELLBATCH_SERVER_ASSEMBLE_MODEL_ASSEMBLER_H_

#include <string>
#include <vector>

#include "cells/model.h"
#include "cells/weights/weight_store.h"
#include "proto/model.pb.h"
#include "server/assemble/config_places.h"
#include "server/assemble/loader_limits.h"
#include "server/assemble/type_maker.h"

namespace cellbatch {

struct ModelParts {
  const disk::ModelDescription& config;
  const ConfigPlaces& places;
  FindCellText find_cell;
  WeightStore* weights;  // null: the file cannot be read, and the rest is checked without it
  std::string model_folder;
};

// Fills types, tables, signature and unfolder. What is wrong is answered, all of it that can be told; then the model
// is good for nothing.
std::vector<std::string> AssembleModel(const ModelParts& parts, const LoaderLimits& limits,
                                       Model& model);

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_ASSEMBLE_MODEL_ASSEMBLER_H_
