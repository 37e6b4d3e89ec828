// What learners of any objective share: the model they learn for, where its policy lies, and writing there.
#ifndef CELLBATCH_SERVER_LEARN_LEARN_FOLDER_H_
#define CELLBATCH_SERVER_LEARN_LEARN_FOLDER_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cells/model.h"
#include "server/learn/learn_order.h"

namespace cellbatch {

struct LearnFolder {
  std::shared_ptr<const Model> model;
  std::string path;
  std::string version;  // its folder
};

// Errors as LearnOrder's.
absl::StatusOr<LearnFolder> OpenLearnFolder(const LearnOrderOptions& options);

// That a server takes what was learned, once it is written, and goes by it.
absl::Status CheckServes(const LearnFolder& folder, const LearnedOrder& learned);

// That requests name; views of the options or the model.
std::vector<std::string_view> LearnOutputs(const LearnOrderOptions& options, const Model& model);

// Whole or not at all: a server may be reading. INVALID_ARGUMENT: it cannot be.
absl::Status WriteWhole(const std::string& path, const std::string& text);

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_LEARN_LEARN_FOLDER_H_
