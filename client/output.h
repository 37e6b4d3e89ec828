// What cellbatch-client prints: text for people, JSON for programs. Pure functions.

#ifndef CELLBATCH_CLIENT_OUTPUT_H_
#define CELLBATCH_CLIENT_OUTPUT_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/client.h"

namespace cellbatch {

// Text ends with a newline. `most_values`: how many values of each tensor are printed.
std::string ToText(const InferResult& result, int64_t most_values);
std::string ToText(const ServerHealth& health);
std::string ToText(const ServerMetadata& server, const std::vector<IndexedModel>& models);
std::string ToText(const ModelMetadata& metadata);
std::string ToText(const ModelConfiguration& config);
std::string ToText(const std::vector<ModelCounts>& counts);
std::string ToText(const std::vector<IndexedModel>& models);
std::string ToText(const std::vector<ModelTimes>& times);
std::string ToText(const absl::Status& error);  // "NOT_FOUND: no model …"

nlohmann::json ToJson(const InferResult& result);  // every value
nlohmann::json ToJson(const ServerHealth& health);
nlohmann::json ToJson(const ServerMetadata& server);
nlohmann::json ToJson(const ModelMetadata& metadata);
nlohmann::json ToJson(const ModelConfiguration& config);
nlohmann::json ToJson(const std::vector<ModelCounts>& counts);
nlohmann::json ToJson(const std::vector<IndexedModel>& models);
nlohmann::json ToJson(const std::vector<ModelTimes>& times);
nlohmann::json ToJson(const absl::Status& error);

}  // namespace cellbatch

#endif  // CELLBATCH_CLIENT_OUTPUT_H_
