#include "server/assemble/model_folder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "cells/weights/safetensors.h"

namespace cellbatch {

const char kPairCell[] = R"(name: "pair_node"
inputs { name: "child0" columns { name: "h" type: FP32 dims: "H" } }
inputs { name: "child1" columns { name: "h" type: FP32 dims: "H" } }
parameters { name: "U0" dims: "H" dims: "H" }
parameters { name: "U1" dims: "H" dims: "H" }
ops { name: "from0" kind: MATMUL args: "child0.h" args: "U0" }
ops { name: "from1" kind: MATMUL args: "child1.h" args: "U1" }
ops { name: "sum" kind: ADD args: "from0" args: "from1" }
ops { name: "h" kind: TANH args: "sum" }
outputs { column: "h" value: "h" }
)";
const char kLeafCell[] = R"(name: "word_leaf"
inputs { name: "x" columns { name: "x" type: FP32 dims: "D" } }
parameters { name: "W" dims: "H" dims: "D" }
ops { name: "product" kind: MATMUL args: "x.x" args: "W" }
ops { name: "h" kind: TANH args: "product" }
outputs { column: "h" value: "h" }
)";

ModelFolder::ModelFolder(const std::string& name,
                         const std::map<std::string, std::vector<int64_t>>& shapes)
    : path_(testing::TempDir() + "/" + name) {
  std::filesystem::remove_all(path_);
  std::filesystem::create_directories(path_ + "/1");
  Write("pair_node.textproto", kPairCell);
  Write("word_leaf.textproto", kLeafCell);
  const auto elements = [](const std::vector<int64_t>& shape) {
    int64_t n = 1;
    for (const int64_t d : shape) n *= d;
    return static_cast<size_t>(n);
  };
  size_t most = 0;
  for (const auto& [tensor, shape] : shapes) most = std::max(most, elements(shape));
  const std::vector<float> values(most, 0.5f);
  std::vector<SafetensorsSource> sources;
  for (const auto& [tensor, shape] : shapes) {
    sources.push_back({tensor, shape, absl::MakeConstSpan(values).first(elements(shape))});
  }
  EXPECT_TRUE(WriteSafetensors(path_ + "/1/weights.safetensors", sources).ok());
}

void ModelFolder::Write(const std::string& file, std::string_view text) const {
  std::ofstream(path_ + "/" + file) << text;
}

}  // namespace cellbatch
