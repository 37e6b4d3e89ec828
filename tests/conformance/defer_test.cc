// What a model's `defer` says, from its folder to the bits of its answers.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "cells/unfold/unfolder.h"
#include "cells/weights/safetensors.h"
#include "scheduler/policy/make_rules.h"
#include "server/repository/model_loader.h"
#include "tests/golden/served.h"
#include "tests/testing/projected_cell.h"

namespace cellbatch {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A layer of the projected cell in both directions over vectors, and a cell over every step.
class DeferTest : public testing::Test {
 protected:
  DeferTest() {
    constexpr int64_t h = 5, n = 7;
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_ + "/1");
    std::ofstream(folder_ + "/projected.textproto") << kProjectedCell;
    for (const char* name : {"forward", "backward"}) {
      AddTensor(fmt::format("{}.W", name), h, kWidth);
      AddTensor(fmt::format("{}.U", name), h, h);
      AddTensor(fmt::format("{}.P", name), n, h);
      types_ += fmt::format("cell_types {{ name: \"{0}\" cell: \"projected\" ", name);
      for (const char* parameter : {"W", "U", "P"}) {
        types_ +=
            fmt::format("parameters {{ name: \"{1}\" tensors: \"{0}.{1}\" }} ", name, parameter);
      }
      types_ += "}\n";
    }
    AddTensor("label", 3, 2 * n);
    types_ +=
        "cell_types { name: \"label\" cell: \"linear\" reads { input: \"x\" through: \"pair\" } "
        "parameters { name: \"W\" tensors: \"label\" } }\n";
  }

  void AddTensor(const std::string& name, int64_t rows, int64_t columns) {
    std::vector<float> values(static_cast<size_t>(rows * columns));
    for (float& v : values) {
      state_ = state_ * 6364136223846793005u + 1442695040888963407u;
      v = static_cast<float>(state_ >> 40) * 0x1p-24f - 0.5f;
    }
    tensors_[name] = {{rows, columns}, std::move(values)};
  }
  absl::StatusOr<ModelVersion> Load(const std::string& more, int id = 1) {
    std::ofstream(folder_ + "/config.textproto")
        << types_
        << "chain { input: VECTORS layers { forward: \"forward\" backward: \"backward\" } "
           "token_head: \"label\" }\n"
        << more;
    std::vector<SafetensorsSource> sources;
    for (const auto& [name, tensor] : tensors_) {
      sources.push_back({name, tensor.first, tensor.second});
    }
    EXPECT_TRUE(WriteSafetensors(folder_ + "/1/weights.safetensors", sources).ok());
    return LoadVersion(folder_, "deferred", 1, ModelId(id), {});
  }
  std::vector<std::string> Types(const std::string& more) {
    const auto version = Load(more);
    EXPECT_TRUE(version.ok()) << version.status();
    std::vector<std::string> names;
    for (const CellType& type : version->model->types) names.push_back(type.name);
    return names;
  }
  std::vector<std::string> MayWait(const std::string& more) {
    const auto version = Load(more);
    EXPECT_TRUE(version.ok()) << version.status();
    std::vector<std::string> names;
    for (const CellTypeId type : version->policy.may_wait) {
      names.push_back(version->model->type(type).name);
    }
    return names;
  }
  std::string Error(const std::string& more) {
    const auto version = Load(more);
    return version.ok() ? "" : std::string(version.status().message());
  }

  // The answers' bytes to sequences of 1, 2, .. steps, all at once.
  std::vector<std::string> Answers(golden::Served& served, const ModelVersion& version) {
    const std::shared_ptr<const Model>& model = version.model;
    std::vector<std::vector<float>> rows;
    std::vector<CellGraph> graphs;
    for (int64_t steps = 1; steps <= 12; ++steps) {
      rows.emplace_back(tensors_["forward.U"].second);
      rows.back().resize(static_cast<size_t>(steps * kWidth), 0.25f);
      RequestInput input;
      input.tensors = {{"X",
                        WireType::kFp32,
                        {steps, kWidth},
                        absl::MakeSpan(reinterpret_cast<const std::byte*>(rows.back().data()),
                                       rows.back().size() * 4)}};
      input.outputs = {"OUTPUT", "ALL_HIDDEN"};
      CellGraph& graph = graphs.emplace_back();
      EXPECT_EQ(model->unfolder->Unfold(input, graph), absl::OkStatus());
      EXPECT_EQ(graph.Seal(*model, 2), absl::OkStatus());
    }
    auto rules = MakeRules(version.policy, version.join, model->types.size());
    EXPECT_TRUE(rules.ok()) << rules.status();
    EXPECT_EQ(served.scheduler().AddModel(model, *std::move(rules)), absl::OkStatus());
    std::vector<std::string> answers;
    for (const auto& request : served.Answer(model, std::move(graphs))) {
      EXPECT_EQ(request->status, absl::OkStatus());
      for (const ReturnedTensor& t : request->graph.tensors()) {
        answers.emplace_back(reinterpret_cast<const char*>(t.bytes.data()), t.bytes.size());
      }
    }
    return answers;
  }

  static constexpr int64_t kWidth = 6;
  const std::string folder_ = testing::TempDir() + "/deferred";
  std::string types_;
  std::map<std::string, std::pair<std::vector<int64_t>, std::vector<float>>> tensors_;
  uint64_t state_ = 1;
};

TEST_F(DeferTest, OnIsColumnsThatNoStepReadsAndHeadsThatWaitAndEveryBitOfTheAnswersIsAsWithout) {
  const auto on = Load("defer: ON", 1), off = Load("defer: OFF", 2),
             both = Load("defer: ON hoist: ON", 3);
  ASSERT_TRUE(on.ok() && off.ok() && both.ok()) << on.status() << off.status() << both.status();
  EXPECT_THAT(Types("defer: ON"),
              ElementsAre("forward", "backward", "label", "forward deferred", "backward deferred"));
  EXPECT_THAT(MayWait("defer: ON"), ElementsAre("label", "forward deferred", "backward deferred"));
  EXPECT_THAT(on->policy.about, HasSubstr("label, forward deferred, backward deferred wait"));
  auto served = golden::Served::Start(2);
  ASSERT_TRUE(served.ok()) << served.status();
  const std::vector<std::string> without = Answers(**served, *off);
  EXPECT_EQ(Answers(**served, *on), without);
  EXPECT_EQ(Answers(**served, *both), without) << "beside what is hoisted";
}

TEST_F(DeferTest, UnsaidCellsStayWholeAndNobodyWaits) {
  for (const char* more : {"", "defer: OFF"}) {
    EXPECT_THAT(Types(more), ElementsAre("forward", "backward", "label"));
    EXPECT_THAT(MayWait(more), ElementsAre());
  }
}

TEST_F(DeferTest, OnWhereItCannotBeIsRefusedWithTheReason) {
  EXPECT_THAT(Error("defer: ON granularity: OPERATOR"),
              HasSubstr("defer is ON: that is for cells"));
  EXPECT_THAT(Error("defer: ON join { whole_graphs { most: 4 } }"),
              HasSubstr("defer is ON: that is for cells"));
}

}  // namespace
}  // namespace cellbatch
