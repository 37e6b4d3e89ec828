// Policies on disk: policy.textproto of a version folder and `policy` in its configuration, to and from PolicySpec.
//
// A policy is learned for the cell types of one model. Its file names them, and carries a fingerprint of them: what was
// learned for another model, or for this one before its cells changed, is noticed. Plain functions; any thread.
#ifndef CELLBATCH_SERVER_POLICY_POLICY_CODEC_H_
#define CELLBATCH_SERVER_POLICY_POLICY_CODEC_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "cells/model.h"
#include "proto/policy.pb.h"
#include "scheduler/policy/policy_spec.h"

namespace cellbatch {

// Sixteen hex digits over the model's cell types, in order: names, definitions, what they read and leave. Weights and
// sizes do not enter: they change no order of batches.
std::string CellTypesFingerprint(const Model& model);

// The other way round for a learner: everything but `learned`. REQUIRES: of that model's types.
disk::PolicyFile ToPolicyFile(const PolicySpec& spec, const Model& model);
// As a file that people can read, a state a line.
std::string PolicyText(const disk::PolicyFile& file);

// `name`: what errors begin with. INVALID_ARGUMENT: a line for the first problem, with its line in the file where it has
// one, the field, and both values.
absl::StatusOr<PolicySpec> ParsePolicy(std::string_view text, const std::string& name,
                                       const Model& model);

// What `about` begins with where a configuration says else_cellular and policy.textproto cannot be used.
inline constexpr std::string_view kInPlaceOf = "in place of one that cannot be used";

// What a model version is served with: its configuration's choice (null: it has none; `place`: where it has), and
// policy.textproto of the version in `model_folder` where that is needed. INVALID_ARGUMENT as above.
absl::StatusOr<PolicySpec> ReadPolicy(const disk::PolicyChoice* choice, const std::string& place,
                                      const std::string& model_folder, const Model& model,
                                      int64_t max_bytes);

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_POLICY_POLICY_CODEC_H_
