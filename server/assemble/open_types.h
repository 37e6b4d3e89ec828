// Cell types of unfolders that take graphs from outside (requests, users' libraries): nobody says which
// stands above which, so inputs find what they read by the names of columns.
#ifndef CELLBATCH_SERVER_ASSEMBLE_OPEN_TYPES_H_
#define CELLBATCH_SERVER_ASSEMBLE_OPEN_TYPES_H_

#include <optional>
#include <string>
#include <vector>

#include "cells/unfold/node_type.h"
#include "server/assemble/assembly.h"

namespace cellbatch {

struct OpenTypes {
  std::vector<CellTypeId> types;     // in the config's order
  std::vector<BroughtInput> inputs;  // those that the request brings
  std::vector<int32_t> phases;       // by type
};

// What a config says of them; model.proto has the rules.
struct OpenTypesConfig {
  using Names = google::protobuf::RepeatedPtrField<std::string>;
  using NameMap = google::protobuf::Map<std::string, std::string>;
  std::string unfolder;  // for problems: "dag"
  const Names& types;
  const Names& from_request;
  const NameMap& rows_of;
  const google::protobuf::Map<std::string, int32_t>& phases;
};

// Makes the types, one after the other. None: problems were noted.
std::optional<OpenTypes> MakeOpenTypes(Assembly& assembly, const OpenTypesConfig& config);

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_ASSEMBLE_OPEN_TYPES_H_
