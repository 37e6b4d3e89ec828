// The lattices of the data folder (Weibo, and ED-Batch's own workload) through unfolder, scheduler and
// CPU devices, against the equations in double; and the bits, however characters are cut and whoever
// is there too.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <random>

#include "tests/golden/served.h"
#include "tests/testing/lattice_model.h"

namespace cellbatch {
namespace {

using testing::LatticeModel;
using testing::LatticeModelSpec;
using testing::LatticeRequest;

constexpr int32_t kCharacters = 256, kWords = 256;  // as ED-Batch folds them
constexpr size_t kMost = 200;                       // of each file
const std::vector<std::string_view> kOutputs = {"ALL_HIDDEN", "FINAL_C", "NODE_OUTPUTS", "OUTPUT"};

LatticeModelSpec Sizes(bool chains) {
  return {.hidden = 32,
          .embedding = 32,
          .characters = kCharacters,
          .words = kWords,
          .chains = chains,
          .max_characters = 1000,
          .max_nodes = 10000};
}

// `synthetic` where the data is not there: then the test says so.
std::vector<LatticeRequest> Lattices(const std::string& file) {
  std::vector<LatticeRequest> lattices = testing::ReadLattices(file, kCharacters, kWords);
  if (lattices.empty()) {
    std::cout << file << " is not in the data folder: random lattices instead\n";
    std::mt19937_64 random(1);
    for (size_t i = 0; i < kMost; ++i) lattices.push_back(testing::RandomLattice(random, 100));
  }
  lattices.resize(std::min(lattices.size(), kMost));
  return lattices;
}

std::vector<std::vector<float>> Answers(const Request& request) {
  EXPECT_TRUE(request.status.ok()) << request.status;
  std::vector<std::vector<float>> answers;
  for (const ReturnedTensor& t : request.graph.tensors()) {
    answers.emplace_back(t.bytes.size() / sizeof(float));
    std::memcpy(answers.back().data(), t.bytes.data(), t.bytes.size());
  }
  return answers;
}

std::vector<std::vector<std::vector<float>>> Serve(const LatticeModel& lattices,
                                                   const std::vector<LatticeRequest>& requests,
                                                   int devices) {
  const auto served = golden::Served::Start(devices);
  EXPECT_TRUE(served.ok()) << served.status();
  EXPECT_EQ((*served)->Add(lattices.model()), absl::OkStatus());
  std::vector<CellGraph> graphs;
  for (const LatticeRequest& request : requests)
    graphs.push_back(lattices.Graph(request, kOutputs));
  std::vector<std::vector<std::vector<float>>> answers;
  for (const auto& request : (*served)->Answer(lattices.model(), std::move(graphs))) {
    answers.push_back(Answers(*request));
  }
  return answers;
}

// design.md, Numbers.
void ExpectWithinTheBound(const std::vector<float>& actual, const std::vector<double>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  double square = 0, off_square = 0, largest = 0, off = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    const double difference = actual[i] - expected[i];
    square += expected[i] * expected[i];
    off_square += difference * difference;
    largest = std::max(largest, std::abs(expected[i]));
    off = std::max(off, std::abs(difference));
  }
  EXPECT_LE(std::sqrt(off_square), 1e-5 * std::sqrt(square));
  EXPECT_LE(off, 1e-5 * std::max(1.0, largest));
}

class LatticeDataTest : public ::testing::TestWithParam<std::string> {};

TEST_P(LatticeDataTest, AnswersAreWhatTheEquationsSayAndBitsDoNotDependOnHowTheyAreBatched) {
  const std::vector<LatticeRequest> requests = Lattices(GetParam());
  const LatticeModel chains(Sizes(true)), singles(Sizes(false));
  const auto answers = Serve(chains, requests, 1);
  for (size_t i = 0; i < requests.size(); ++i) {
    SCOPED_TRACE(fmt::format("line {}", i + 1));
    const LatticeModel::Answers expected = chains.Reference(requests[i]);
    const size_t h = 32;
    ExpectWithinTheBound(answers[i][0], expected.h);
    ExpectWithinTheBound(answers[i][1], {expected.c.end() - h, expected.c.end()});
    ExpectWithinTheBound(answers[i][2], expected.y);
    EXPECT_EQ(answers[i][3], std::vector<float>(answers[i][2].end() - 2, answers[i][2].end()));
  }
  EXPECT_EQ(Serve(chains, requests, 2), answers) << "on two devices";
  EXPECT_EQ(Serve(singles, requests, 1), answers) << "a node for each character";
  for (size_t i = 0; i < requests.size(); i += 17) {
    EXPECT_EQ(Serve(chains, {requests[i]}, 1)[0], answers[i]) << "line " << i + 1 << ", alone";
  }
}

INSTANTIATE_TEST_SUITE_P(Files, LatticeDataTest,
                         ::testing::Values("weibo_lattices.jsonl", "edbatch_lattices_train.jsonl",
                                           "edbatch_lattices_dev.jsonl",
                                           "edbatch_lattices_test.jsonl"),
                         [](const auto& info) {
                           std::string name = info.param.substr(0, info.param.find('.'));
                           return name;
                         });

}  // namespace
}  // namespace cellbatch
