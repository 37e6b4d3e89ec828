// Bits do not depend on who shares the batch, nor on how many devices there are (design.md, Numbers).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "tests/golden/served.h"
#include "tests/golden/torch_case.h"

namespace cellbatch::golden {
namespace {

constexpr uint32_t kSeed = 33;
constexpr int kOthers = 500;
const std::vector<std::string>& Outputs() {
  static const std::vector<std::string> outputs = {"OUTPUT", "ALL_HIDDEN", "FINAL_H"};
  return outputs;
}

// A request's answer, bit for bit.
using Bits = std::vector<std::vector<std::byte>>;
Bits BitsOf(const Request& request) {
  EXPECT_TRUE(request.status.ok()) << request.status;
  Bits bits;
  for (const ReturnedTensor& t : request.graph.tensors()) {
    bits.emplace_back(t.bytes.begin(), t.bytes.end());
  }
  return bits;
}

class CompanyTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const auto cases = ReadTorchCases("tests/golden/golden.json");
    ASSERT_TRUE(cases.ok()) << cases.status();
    for (const TorchCase& c : *cases) {
      if (c.name == GetParam()) case_ = c;
    }
    const auto model = ConvertTorchCase(case_, testing::TempDir() + "/company", ModelId(0));
    ASSERT_TRUE(model.ok()) << model.status();
    model_ = *model;
    std::mt19937 random(kSeed);
    for (int i = 0; i < kOthers; ++i) lengths_.push_back(1 + static_cast<int64_t>(random() % 330));
    lengths_[0] = 330;
    lengths_[1] = 1;
    for (const int64_t length : lengths_) {
      inputs_.push_back(std::make_unique<TorchInput>(case_, length));
    }
  }

  CellGraph Graph(size_t i) const {
    auto graph = Unfolded(*model_, inputs_[i]->Request(Outputs()));
    EXPECT_TRUE(graph.ok()) << graph.status();
    return *std::move(graph);
  }

  // What each of `which` gets when they are submitted together.
  std::vector<Bits> Together(int devices, const std::vector<size_t>& which) const {
    const auto served = Served::Start(devices);
    EXPECT_TRUE(served.ok()) << served.status();
    EXPECT_TRUE((*served)->Add(model_).ok());
    std::vector<CellGraph> graphs;
    for (const size_t i : which) graphs.push_back(Graph(i));
    std::vector<Bits> bits;
    for (const auto& answer : (*served)->Answer(model_, std::move(graphs))) {
      bits.push_back(BitsOf(*answer));
    }
    return bits;
  }

  TorchCase case_;
  std::shared_ptr<const Model> model_;
  std::vector<int64_t> lengths_;
  std::vector<std::unique_ptr<TorchInput>> inputs_;
};

TEST_P(CompanyTest, ARequestGetsTheSameBitsAloneAmongFiveHundredAndOnTwoDevices) {
  std::vector<size_t> all(inputs_.size());
  for (size_t i = 0; i < all.size(); ++i) all[i] = i;
  const std::vector<Bits> among = Together(1, all);
  const std::vector<Bits> on_two = Together(2, all);
  for (size_t i = 0; i < 8; ++i) {
    SCOPED_TRACE(fmt::format("{} steps, seed {}", lengths_[i], kSeed));
    const Bits alone = Together(1, {i})[0];
    EXPECT_FALSE(alone[0].empty());
    EXPECT_EQ(alone, among[i]) << "alone and among " << kOthers << " others";
  }
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(among[i], on_two[i]) << lengths_[i] << " steps, on one device and on two";
  }
  EXPECT_NE(among[0][0], among[1][0]) << "other inputs, other bits";
}

TEST_P(CompanyTest, SequencesInOneMessageGetTheBitsOfTheirOwnRequests) {
  constexpr size_t kTogether = 12;
  std::vector<size_t> all(kTogether);
  std::vector<const TorchInput*> inputs;
  for (size_t i = 0; i < kTogether; ++i) {
    all[i] = i;
    inputs.push_back(inputs_[i].get());
  }
  const std::vector<Bits> apart = Together(1, all);
  const TorchInput joined(inputs);
  auto graph = Unfolded(*model_, joined.Request(Outputs()));
  ASSERT_TRUE(graph.ok()) << graph.status();
  const auto served = Served::Start(1);
  ASSERT_TRUE(served.ok()) << served.status();
  ASSERT_TRUE((*served)->Add(model_).ok());
  std::vector<CellGraph> graphs;
  graphs.push_back(*std::move(graph));
  const Bits together = BitsOf(*(*served)->Answer(model_, std::move(graphs))[0]);
  // Each output holds the sequences' own, end to end.
  for (size_t output = 0; output < Outputs().size(); ++output) {
    std::vector<std::byte> expected;
    for (const Bits& bits : apart) {
      expected.insert(expected.end(), bits[output].begin(), bits[output].end());
    }
    EXPECT_EQ(together[output], expected) << Outputs()[output];
  }
}

INSTANTIATE_TEST_SUITE_P(Modules, CompanyTest,
                         testing::Values("lstm_tokens_both_head", "lstm_67",
                                         "gru_2_layers_both_head", "gru_71", "rnn_relu"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace cellbatch::golden
