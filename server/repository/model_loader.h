// From a folder to a Model: config.textproto, the cell definitions it names, and the weights of one
// version; and to the policy that it is served with. Everything is checked, bounds have names, and every problem is reported at once.
//
// Plain functions; any thread (the one that loads). Seconds, and memory for the weights.
#ifndef CELLBATCH_SERVER_REPOSITORY_MODEL_LOADER_H_
#define CELLBATCH_SERVER_REPOSITORY_MODEL_LOADER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cells/model.h"
#include "scheduler/policy/join_spec.h"
#include "scheduler/policy/policy_spec.h"
#include "server/assemble/loader_limits.h"

namespace cellbatch {

// The versions in a model folder: its folders named 1, 2, ...; ascending.
absl::StatusOr<std::vector<int64_t>> ModelVersions(const std::string& model_folder);

// Those of them that its config.textproto asks for (version_policy; the highest, where it asks for none); ascending, at
// least one. INVALID_ARGUMENT: there is none, or not one of those that are named. A config that cannot be read asks for
// none: LoadVersion says what is wrong with it.
absl::StatusOr<std::vector<int64_t>> VersionsToServe(const std::string& model_folder,
                                                     const LoaderLimits& limits);

struct ModelVersion {
  std::shared_ptr<const Model> model;
  PolicySpec policy;  // can be made
  JoinSpec join;
};

// `name`: the folder's; a config that names another one is refused. INVALID_ARGUMENT: one line a
// problem, each starting with the file (and line, where it has one).
absl::StatusOr<ModelVersion> LoadVersion(const std::string& model_folder, const std::string& name,
                                         int64_t version, ModelId id, const LoaderLimits& limits);
// Of a model that is served: the policy that its files say now. As LoadVersion, but that a policy file is not made up for
// (else_cellular): what serves is better than that. Nor is one given that the configuration's `join` cannot run.
absl::StatusOr<PolicySpec> LoadPolicy(const std::string& model_folder, const Model& model,
                                      const LoaderLimits& limits);
// That a policy.textproto of that kind, once it is there, decides how the model is served. FAILED_PRECONDITION: its
// config.textproto asks for another policy (which reads no file), for FSM where this is none, or for a join that it cannot run.
absl::Status CheckPolicyFileDecides(const std::string& model_folder, PolicyKind kind,
                                    const LoaderLimits& limits);
// When policy.textproto of that version was written, and how large it is; empty: there is none. Changes when it does.
std::string PolicyStamp(const std::string& model_folder, int64_t version);
// Of that, the model.
absl::StatusOr<std::shared_ptr<const Model>> LoadModel(const std::string& model_folder,
                                                       const std::string& name, int64_t version,
                                                       ModelId id, const LoaderLimits& limits);

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_REPOSITORY_MODEL_LOADER_H_
