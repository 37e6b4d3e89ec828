// The zoo, served: a real server process, our client, real data. Every answer is compared with an
// independent reference in double, and its bits alone with its bits in company.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <mutex>
#include <set>
#include <sstream>

#include "client/client.h"
#include "tests/e2e/server_process.h"
#include "tests/e2e/small_models.h"
#include "tests/golden/bound.h"
#include "tests/zoo/computes.h"
#include "tests/zoo/workload.h"

namespace cellbatch::zoo {
namespace {

constexpr size_t kItems = 32;  // requests of each workload, from the smallest item to the largest

constexpr char kExploded[] =
    "_operators";  // behind a workload's name: the same at operator granularity

std::vector<std::string> Served() {
  std::vector<std::string> names = {"childsum", "childsum_by_arity"};
  names.insert(names.begin(), WorkloadNames().begin(), WorkloadNames().end());
  return names;
}

// Those whose tests run (--gtest_filter), as they are and operator by operator: loading all takes a minute on emulated GPUs.
std::set<std::string> Wanted() {
  std::set<std::string> models;
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  for (int s = 0; s < all.total_test_suite_count(); ++s) {
    const testing::TestSuite& suite = *all.GetTestSuite(s);
    for (int t = 0; t < suite.total_test_count(); ++t) {
      const testing::TestInfo& test = *suite.GetTestInfo(t);
      const std::string name = test.name();
      if (!test.should_run()) continue;
      const size_t slash = name.find('/');
      const std::string workload = slash == name.npos ? "nmt" : name.substr(slash + 1);
      models.insert(workload);
      if (name.rfind("OperatorByOperator", 0) == 0) models.insert(workload + kExploded);
    }
  }
  return models;
}

InferInput Input(const Workload& workload, size_t request, const std::string& model) {
  const Asked& asked = workload.requests[request];
  InferInput input;
  input.model = model;
  input.inputs = asked.inputs;
  input.outputs = asked.outputs;
  for (const auto& [name, value] : asked.parameters) input.parameters[name] = value;
  return input;
}

using Bits = std::map<std::string, std::string>;  // bytes by the name of the tensor
using Results = std::vector<absl::StatusOr<InferResult>>;

Bits BitsOf(const InferResult& result) {
  Bits bits;
  for (const Tensor& tensor : result.outputs) bits[tensor.name] = tensor.bytes;
  return bits;
}

Answer Numbers(const InferResult& result) {
  Answer answer;
  for (const Tensor& tensor : result.outputs) {
    const auto values = tensor.AsDoubles();
    EXPECT_TRUE(values.ok()) << values.status();
    if (values.ok()) answer[tensor.name] = *values;
  }
  return answer;
}

// One server for all tests of this program, with the model of every workload that they ask.
class Zoo {
 public:
  static Zoo& Get() {
    static Zoo zoo;
    return zoo;
  }

  bool ready() const { return client_ != nullptr; }
  const std::string& server_log() const { return log_; }  // where it did not start, or was stopped
  const Workload& workload(const std::string& name) const { return workloads_.at(name); }

  // What the workload's requests get one after the other, while nobody else asks anything.
  Results Alone(const Workload& asked, const std::string& model) const {
    Results results;
    for (size_t i = 0; i < asked.requests.size(); ++i) {
      results.push_back(client_->Infer(Input(asked, i, model)));
    }
    return results;
  }

  // The server's exit code, asked to stop. Nobody asks it anything after that.
  int Stop() {
    server_->Signal(SIGTERM);
    const int code = server_->Wait();
    log_ = server_->Log();
    return code;
  }

  // Cells, and tasks they went in, of the whole server so far.
  std::pair<double, double> Computed() const;
  // What they get while all of them, and every request of every other workload, are under way at once.
  Results InCompany(const Workload& asked) const;

 private:
  Zoo() {
    const std::string repository = NewRepository();
    const std::set<std::string> wanted = Wanted();
    for (const std::string& name : Served()) {
      if (!wanted.contains(name)) continue;
      const Workload& made = workloads_[name] = MakeWorkload(name, Sizes{}, kItems);
      made.model.Write(repository, name);
      if (wanted.contains(name + kExploded)) {
        made.model.Write(repository, name + kExploded, "granularity: OPERATOR\n");
      }
      fmt::print("{:<20} {} requests from {}\n", name, made.requests.size(), made.source);
    }
    Computes computes = WhatComputes();
    std::vector<std::string> flags = {
        "--model-repository=" + repository, "--grpc-address=127.0.0.1:0",
        "--http-address=127.0.0.1:0", "--metrics-address=127.0.0.1:0", "--drain-delay=0",
        // Two dozen models: a gigabyte of rows each would cost a minute.
        "--row-budget=64MiB"};
    flags.insert(flags.end(), computes.flags.begin(), computes.flags.end());
    server_ = std::make_unique<ServerProcess>(std::move(flags), std::move(computes.environment));
    if (!server_->WaitUntilReady()) {
      log_ = server_->Log();
      return;
    }
    auto client = Client::Connect({.url = server_->grpc()});
    if (client.ok()) client_ = *std::move(client);
  }

  std::map<std::string, Workload> workloads_;
  std::string log_;
  std::unique_ptr<ServerProcess> server_;
  std::unique_ptr<Client> client_;
};

std::pair<double, double> Zoo::Computed() const {
  double cells = 0, tasks = 0;
  std::istringstream page(HttpGet(server_->metrics(), "/metrics"));
  for (std::string line; std::getline(page, line);) {
    const double value = std::atof(line.substr(line.rfind(' ') + 1).c_str());
    if (line.rfind("cellbatch_task_batch_size_sum", 0) == 0) cells += value;
    if (line.rfind("cellbatch_task_batch_size_count", 0) == 0) tasks += value;
  }
  return {cells, tasks};
}

Results Zoo::InCompany(const Workload& asked) const {
  std::mutex mutex;
  std::condition_variable answered;
  size_t left = 0;
  Results results(asked.requests.size(), absl::UnknownError("not answered"));
  for (const auto& [name, workload] : workloads_) left += workload.requests.size();
  for (size_t i = 0; i < kItems; ++i) {
    for (const auto& [name, workload] : workloads_) {
      if (i >= workload.requests.size()) continue;
      const bool ours = name == asked.name;
      client_->InferAsync(Input(workload, i, name), {},
                          [&, i, ours](absl::StatusOr<InferResult> result) {
                            std::lock_guard<std::mutex> lock(mutex);
                            EXPECT_TRUE(result.ok()) << result.status();
                            if (ours) results[i] = std::move(result);
                            if (--left == 0) answered.notify_one();
                          });
    }
  }
  std::unique_lock<std::mutex> lock(mutex);
  answered.wait(lock, [&] { return left == 0; });
  return results;
}

class ZooTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    ASSERT_TRUE(Zoo::Get().ready()) << Zoo::Get().server_log();
    ASSERT_EQ(workload().requests.size(), kItems);
  }
  const Workload& workload() const { return Zoo::Get().workload(GetParam()); }

  // Every answer against the reference, within the bound; prints the worst.
  void CompareWithReference(const std::string& model) const {
    const Results results = Zoo::Get().Alone(workload(), model);
    double worst = 0;
    for (size_t i = 0; i < results.size(); ++i) {
      ASSERT_TRUE(results[i].ok()) << "request " << i << ": " << results[i].status();
      const Answer got = Numbers(*results[i]), right = workload().reference(i, got);
      ASSERT_EQ(right.size(), workload().requests[i].outputs.size());
      for (const auto& [output, values] : right) {
        const auto found = got.find(output);
        ASSERT_NE(found, got.end()) << "request " << i << " has no " << output;
        const double part = golden::PartOfBound(values, found->second);
        EXPECT_LE(part, 1) << output << " of request " << i << ": " << values.size()
                           << " values are right, " << found->second.size() << " came";
        worst = std::max(worst, part);
      }
    }
    fmt::print("{:<30} worst {:.4f} of the bound\n", model, worst);
  }
};

TEST_P(ZooTest, AnswersAreWhatTheEquationsSay) { CompareWithReference(GetParam()); }

TEST_P(ZooTest, OperatorByOperatorTheyAreToo) { CompareWithReference(GetParam() + kExploded); }

TEST_P(ZooTest, ARequestGetsTheSameBitsAloneAndInCompany) {
  const Results alone = Zoo::Get().Alone(workload(), GetParam());
  const auto [cells, tasks] = Zoo::Get().Computed();
  const Results together = Zoo::Get().InCompany(workload());
  const auto [cells_after, tasks_after] = Zoo::Get().Computed();
  fmt::print("{:<30} in company, {:.1f} cells a task\n", GetParam(),
             (cells_after - cells) / (tasks_after - tasks));
  ASSERT_EQ(alone.size(), together.size());
  for (size_t i = 0; i < alone.size(); ++i) {
    ASSERT_TRUE(alone[i].ok()) << alone[i].status();
    ASSERT_TRUE(together[i].ok()) << together[i].status();
    EXPECT_EQ(BitsOf(*alone[i]), BitsOf(*together[i])) << "request " << i;
  }
  EXPECT_NE(BitsOf(*alone.front()), BitsOf(*alone.back())) << "other requests, other bits";
}

// Else equal words would prove little.
TEST(TranslationTest, ADecoderOfRandomWeightsHasMuchToSay) {
  const Workload& nmt = Zoo::Get().workload("nmt");
  std::set<double> words;
  for (const auto& result : Zoo::Get().Alone(nmt, "nmt")) {
    ASSERT_TRUE(result.ok()) << result.status();
    Answer said = Numbers(*result);  // outlives the loop over one of its tensors
    for (const double word : said["OUTPUT"]) words.insert(word);
  }
  fmt::print("{} different words of {}\n", words.size(), Sizes{}.vocabulary);
  EXPECT_GE(words.size(), 20u);  // seen: 69 with the data, 67 without
}

// Last of all: what the devices noticed is in how the server ends.
class LastOfAll : public testing::Environment {
 public:
  void TearDown() override {
    if (!Zoo::Get().ready()) return;
    EXPECT_EQ(Zoo::Get().Stop(), 0) << Zoo::Get().server_log();
  }
};

const testing::Environment* const kLastOfAll = testing::AddGlobalTestEnvironment(new LastOfAll);

INSTANTIATE_TEST_SUITE_P(Workloads, ZooTest, testing::ValuesIn(Served()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace cellbatch::zoo
