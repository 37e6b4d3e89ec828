// What a model's `hoist` says, from its folder to the bits of its answers.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>

#include "cells/unfold/unfolder.h"
#include "cells/weights/safetensors.h"
#include "server/repository/model_loader.h"
#include "tests/golden/served.h"

namespace cellbatch {
namespace {

using testing::HasSubstr;

// Two layers in both directions over vectors, a cell over every step.
class HoistTest : public testing::Test {
 protected:
  explicit HoistTest(int64_t d = 6, int64_t h = 5) : d_(d) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_ + "/1");
    const std::string both = "reads { input: \"x\" through: \"pair\" }";
    for (const char* end : {"", "_reverse"}) {
      AddLstm(std::string("below") + end, d, h, "");
      AddLstm(std::string("above") + end, 2 * h, h, both);
    }
    AddTensor("W", 3, 2 * h);
    types_ += fmt::format(
        "cell_types {{ name: \"label\" cell: \"linear\" {} parameters {{ name: \"W\" tensors: "
        "\"W\" }} }}\n",
        both);
  }

  void AddTensor(const std::string& name, int64_t rows, int64_t columns) {
    std::vector<float> values(static_cast<size_t>(rows * columns));
    for (float& v : values) {
      state_ = state_ * 6364136223846793005u + 1442695040888963407u;
      v = static_cast<float>(state_ >> 40) * 0x1p-24f - 0.5f;
    }
    tensors_[name] = {{rows, columns}, std::move(values)};
  }
  void AddLstm(const std::string& name, int64_t d, int64_t h, const std::string& more) {
    AddTensor(name + ".W", 4 * h, d);
    AddTensor(name + ".U", 4 * h, h);
    types_ += fmt::format(
        "cell_types {{ name: \"{0}\" cell: \"lstm\" {1} parameters {{ name: \"W\" tensors: "
        "\"{0}.W\" }} parameters {{ name: \"U\" tensors: \"{0}.U\" }} }}\n",
        name, more);
  }
  absl::StatusOr<std::shared_ptr<const Model>> Load(const std::string& more, int id = 1,
                                                    const std::string& input = "VECTORS") {
    std::ofstream(folder_ + "/config.textproto")
        << types_ << "chain { input: " << input
        << " layers { forward: \"below\" backward: \"below_reverse\" } layers { forward: \"above\" "
           "backward: \"above_reverse\" } token_head: \"label\" }\n"
        << more;
    std::vector<SafetensorsSource> sources;
    for (const auto& [name, tensor] : tensors_) {
      sources.push_back({name, tensor.first, tensor.second});
    }
    EXPECT_TRUE(WriteSafetensors(folder_ + "/1/weights.safetensors", sources).ok());
    return LoadModel(folder_, "hoisted", 1, ModelId(id), {});
  }
  std::string Error(const std::string& more) {
    const auto model = Load(more);
    return model.ok() ? "" : std::string(model.status().message());
  }

  // The answers' bytes to sequences of 1, 2, .. steps, all at once.
  std::vector<std::string> Answers(golden::Served& served, std::shared_ptr<const Model> model) {
    std::vector<std::vector<float>> rows;
    std::vector<CellGraph> graphs;
    for (int64_t steps = 1; steps <= 12; ++steps) {
      rows.emplace_back(tensors_["below.W"].second.begin(), tensors_["below.W"].second.end());
      rows.back().resize(static_cast<size_t>(steps * d_), 0.25f);
      RequestInput input;
      input.tensors = {{"X",
                        WireType::kFp32,
                        {steps, d_},
                        absl::MakeSpan(reinterpret_cast<const std::byte*>(rows.back().data()),
                                       rows.back().size() * 4)}};
      input.outputs = {"OUTPUT", "ALL_HIDDEN"};
      CellGraph& graph = graphs.emplace_back();
      EXPECT_EQ(model->unfolder->Unfold(input, graph), absl::OkStatus());
      EXPECT_EQ(graph.Seal(*model, 2), absl::OkStatus());
    }
    EXPECT_EQ(served.Add(model), absl::OkStatus());
    std::vector<std::string> answers;
    for (const auto& request : served.Answer(model, std::move(graphs))) {
      EXPECT_EQ(request->status, absl::OkStatus());
      for (const ReturnedTensor& t : request->graph.tensors()) {
        answers.emplace_back(reinterpret_cast<const char*>(t.bytes.data()), t.bytes.size());
      }
    }
    return answers;
  }

  const int64_t d_;
  const std::string folder_ = testing::TempDir() + "/hoisted";
  std::string types_;
  std::map<std::string, std::pair<std::vector<int64_t>, std::vector<float>>> tensors_;
  uint64_t state_ = 1;
};

class WideHoistTest : public HoistTest {
 protected:
  WideHoistTest() : HoistTest(4096, 256) {}
};

TEST_F(HoistTest, OnIsTheLayersThatReadXAndEveryBitOfTheAnswersIsAsWithout) {
  const auto on = Load("hoist: ON", 1), off = Load("hoist: OFF", 2);
  ASSERT_TRUE(on.ok() && off.ok()) << on.status() << off.status();
  ASSERT_EQ((*on)->types.size(), (*off)->types.size() + 2);
  EXPECT_EQ((*on)->types[(*off)->types.size()].name, "below hoisted");
  EXPECT_EQ((*on)->types.back().name, "below_reverse hoisted");
  auto served = golden::Served::Start(2);
  ASSERT_TRUE(served.ok()) << served.status();
  EXPECT_EQ(Answers(**served, *on), Answers(**served, *off));
}

TEST_F(HoistTest, UnsaidNarrowLayersStayWhole) {
  const auto unsaid = Load(""), off = Load("hoist: OFF");
  ASSERT_TRUE(unsaid.ok() && off.ok());
  EXPECT_EQ((*unsaid)->types.size(), (*off)->types.size());
}

TEST_F(WideHoistTest, UnsaidWideLayersAreHoistedUnlessRequestsRunTogetherOrCellsAreTakenApart) {
  const auto types = [&](const std::string& more) { return (*Load(more))->types.size(); };
  const size_t whole = types("hoist: OFF");
  EXPECT_EQ(types(""), whole + 2);
  EXPECT_EQ(types("join { whole_graphs { most: 4 } }"), whole);
  EXPECT_EQ(types("granularity: OPERATOR hoist: OFF"), types("granularity: OPERATOR"));
}

TEST_F(HoistTest, OnWhereItCannotBeIsRefusedWithTheReason) {
  EXPECT_THAT(Error("hoist: ON granularity: OPERATOR"),
              HasSubstr("hoist is ON: that is for cells"));
  const auto tokens = Load("hoist: ON", 1, "TOKENS");
  EXPECT_FALSE(tokens.ok());
}

}  // namespace
}  // namespace cellbatch
