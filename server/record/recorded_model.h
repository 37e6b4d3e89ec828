// A model as a record has it: tables, cell types and what they read of each other, without weights and without what the
// cells compute. Enough to build graphs for and to schedule; to serve it one needs the model itself.
//
// Plain functions; any thread. What is read may be anybody's bytes.
#ifndef CELLBATCH_SERVER_RECORD_RECORDED_MODEL_H_
#define CELLBATCH_SERVER_RECORD_RECORDED_MODEL_H_

#include <memory>

#include "absl/status/statusor.h"
#include "cells/model.h"
#include "proto/record.pb.h"

namespace cellbatch {

// Into the fields of `lane` that say what the model is.
void DescribeModel(const Model& model, disk::RecordedLane& lane);
// INVALID_ARGUMENT: no model has these tables and types.
absl::StatusOr<std::shared_ptr<const Model>> ModelOf(const disk::RecordedLane& lane, ModelId id);

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_RECORD_RECORDED_MODEL_H_
