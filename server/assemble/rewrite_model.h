// A model as it is scheduled: its cells as they are written, operator by operator (`granularity`), or with products of what
// requests bring (`hoist`) and what nothing recurrent reads (`defer`) taken out of their steps, as its configuration says.
// Load time; any thread.
#ifndef CELLBATCH_SERVER_ASSEMBLE_REWRITE_MODEL_H_
#define CELLBATCH_SERVER_ASSEMBLE_REWRITE_MODEL_H_

#include <memory>

#include "absl/status/statusor.h"
#include "cells/model.h"
#include "proto/model.pb.h"
#include "server/assemble/config_places.h"

namespace cellbatch {

// REQUIRES: `model` is what `config` says, valid. INVALID_ARGUMENT starts with the place in the file.
absl::StatusOr<std::shared_ptr<const Model>> RewriteModel(std::shared_ptr<const Model> model,
                                                          const disk::ModelDescription& config,
                                                          const ConfigPlaces& places);

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_ASSEMBLE_REWRITE_MODEL_H_
