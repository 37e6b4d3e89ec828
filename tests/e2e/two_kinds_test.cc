// A server of a CPU and an (emulated) GPU, each model where its configuration says, beside servers of one kind: the log, the
// metrics and the page say where, answers have the bits of that kind, and what becomes of the GPU is nothing to the CPU's model.
#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "client/client.h"
#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cuda_emulator/driver/emulated_gpus.h"
#include "tests/e2e/server_process.h"
#include "tests/e2e/small_models.h"

namespace cellbatch {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;

constexpr int kVocabulary = 50, kSentences = 24;
constexpr const char* kFewLaunches = "delay=50:200";

// What each says beside its cells.
const std::map<std::string, std::string> kModels = {{"on_cpu", "devices: CPU"},
                                                    {"on_gpu", ""},
                                                    {"on_both", "bits: MAY_DIFFER"},
                                                    {"w8", "precision: PRECISION_W8"}};

class Served {
 public:
  // `plain`: none says where it lives.
  Served(const std::string& devices, const std::vector<std::string>& models, bool plain,
         const std::string& faults = kFewLaunches, const std::string& drain_delay = "0") {
    const std::string repository = NewRepository();
    for (const std::string& name : models) {
      AddModel(repository, {.name = name, .hidden = 48, .width = 24, .vocabulary = kVocabulary});
      std::ofstream config(repository + "/" + name + "/config.textproto", std::ios::app);
      if (!plain || name == "w8") config << kModels.at(name) << "\n";
    }
    server_ = std::make_unique<ServerProcess>(
        std::vector<std::string>{"--model-repository=" + repository, "--grpc-address=127.0.0.1:0",
                                 "--http-address=127.0.0.1:0", "--metrics-address=127.0.0.1:0",
                                 "--drain-delay=" + drain_delay, "--devices=" + devices,
                                 "--batch-limit=8", "--row-budget=4MiB", "--cuda-host-bytes=16MiB",
                                 "--cuda-fp32=fma",  // emulated, the faster one
                                 "--cuda-libraries=" + emulator::EmulatedDriverFolder()},
        std::vector<std::string>{"CELLBATCH_EMULATED_GPUS=1", "CELLBATCH_EMULATOR_CHECKS=0",
                                 "CELLBATCH_EMULATOR_FAULTS=" + faults});
    if (!server_->WaitUntilReady()) {
      ADD_FAILURE() << server_->Log();
      return;
    }
    auto client = Client::Connect({.url = server_->grpc()});
    EXPECT_TRUE(client.ok()) << client.status();
    client_ = *std::move(client);
  }

  ServerProcess& server() { return *server_; }
  Client& client() { return *client_; }
  bool ready() const { return client_ != nullptr; }

  // What requests of that model are told, one after the other, once its device fails.
  absl::Status Lose(const std::string& model) {
    absl::Status lost;
    for (int i = 0; i < 4000 && lost.ok(); ++i) lost = client_->Infer(Input(model, i)).status();
    return lost;
  }

  static InferInput Input(const std::string& model, int sentence) {
    std::mt19937 random(static_cast<unsigned>(sentence));
    std::vector<int32_t> tokens(1 + random() % 12);
    for (int32_t& token : tokens) token = static_cast<int32_t>(random() % kVocabulary);
    InferInput input = {.model = model};
    input.inputs.push_back(Int32Tensor("TOKENS", {static_cast<int64_t>(tokens.size())}, tokens));
    return input;
  }

  // The bytes of each sentence's answer; all of all models are under way at once.
  std::map<std::string, std::vector<std::string>> Answers(const std::vector<std::string>& models) {
    std::mutex mutex;
    std::condition_variable answered;
    size_t left = models.size() * kSentences;
    std::map<std::string, std::vector<std::string>> answers;
    for (const std::string& model : models) answers[model].resize(kSentences);
    for (int i = 0; i < kSentences; ++i) {
      for (const std::string& model : models) {
        client_->InferAsync(Input(model, i), {}, [&, i](absl::StatusOr<InferResult> result) {
          const std::lock_guard lock(mutex);
          EXPECT_TRUE(result.ok()) << result.status();
          if (result.ok()) answers[model][static_cast<size_t>(i)] = result->outputs[0].bytes;
          if (--left == 0) answered.notify_one();
        });
      }
    }
    std::unique_lock lock(mutex);
    answered.wait(lock, [&] { return left == 0; });
    return answers;
  }

  double Lives(const std::string& model, const std::string& device) const {
    return Metric(*server_,
                  fmt::format("cellbatch_model_device{{model=\"{}\",version=\"1\",device=\"{}\"}}",
                              model, device));
  }

 private:
  std::unique_ptr<ServerProcess> server_;
  std::unique_ptr<Client> client_;
};

TEST(TwoKindsTest, EachModelLivesWhereItSaysAndAnswersAsThere) {
  Served both("cpu:0,cuda:0", {"on_cpu", "on_gpu", "on_both", "w8"}, /*plain=*/false);
  ASSERT_TRUE(both.ready());
  EXPECT_THAT(both.server().Log(), AllOf(HasSubstr("model on_cpu version 1 is warm on cpu:0;"),
                                         HasSubstr("model on_gpu version 1 is warm on cuda:0;"),
                                         HasSubstr("model on_both version 1 is warm on cuda:0, "
                                                   "cpu:0;"),
                                         HasSubstr("model w8 version 1 is warm on cpu:0;")));
  EXPECT_EQ(both.Lives("on_cpu", "cpu:0"), 1);
  EXPECT_EQ(both.Lives("on_cpu", "cuda:0"), -1);
  EXPECT_EQ(both.Lives("on_gpu", "cuda:0"), 1);
  EXPECT_EQ(both.Lives("on_gpu", "cpu:0"), -1);
  EXPECT_EQ(both.Lives("on_both", "cpu:0"), 1);
  EXPECT_EQ(both.Lives("on_both", "cuda:0"), 1);
  EXPECT_THAT(HttpGet(both.server().http(), "/"), HasSubstr("<dt>lives on</dt><dd>cuda:0, cpu:0"));
  EXPECT_THAT(HttpGet(both.server().http(), "/explain/on_cpu"), Not(HasSubstr("cuda")));
  auto answers = both.Answers({"on_cpu", "on_gpu", "on_both", "w8"});

  Served cpu("cpu:0", {"on_cpu", "on_both", "w8"}, /*plain=*/true);
  ASSERT_TRUE(cpu.ready());
  auto on_cpu = cpu.Answers({"on_cpu", "on_both", "w8"});
  Served gpu("cuda:0", {"on_gpu", "on_both"}, /*plain=*/true);
  ASSERT_TRUE(gpu.ready());
  auto on_gpu = gpu.Answers({"on_gpu", "on_both"});
  EXPECT_EQ(answers["on_cpu"], on_cpu["on_cpu"]);
  EXPECT_EQ(answers["w8"], on_cpu["w8"]);
  EXPECT_EQ(answers["on_gpu"], on_gpu["on_gpu"]);
  for (size_t i = 0; i < kSentences; ++i) {
    EXPECT_THAT(answers["on_both"][i], AnyOf(on_cpu["on_both"][i], on_gpu["on_both"][i]));
  }
  EXPECT_NE(on_cpu["on_both"], on_gpu["on_both"]) << "else equal bits would say little";
  both.server().Signal(SIGTERM);
  EXPECT_EQ(both.server().Wait(), 0) << both.server().Log();
}

TEST(TwoKindsTest, AGpuThatFailsTakesItsModelWithItAndNoOther) {
  Served both("cpu:0,cuda:0", {"on_cpu", "on_gpu"}, /*plain=*/false, "fail_launch=0:2000");
  ASSERT_TRUE(both.ready());
  const auto before = both.Answers({"on_cpu"});
  const absl::Status lost = both.Lose("on_gpu");
  EXPECT_EQ(lost.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(lost.message()), HasSubstr("a device failed: device cuda:0: "));
  EXPECT_EQ(both.client().Infer(Served::Input("on_gpu", 1)).status().code(),
            absl::StatusCode::kInternal);
  EXPECT_EQ(both.Answers({"on_cpu"}), before);
  EXPECT_EQ(both.client().ModelReady("on_gpu").value_or(true), false);
  EXPECT_EQ(both.client().ModelReady("on_cpu").value_or(false), true);
  EXPECT_EQ(both.Lives("on_gpu", "cuda:0"), 0);
  EXPECT_EQ(both.Lives("on_cpu", "cpu:0"), 1);
  const std::string said = "served on without what has failed: device cuda:0: ";
  while (both.server().Log().find(said) == std::string::npos) std::this_thread::yield();
  both.server().Signal(SIGTERM);
  EXPECT_EQ(both.server().Wait(), 0) << both.server().Log();
}

// Nobody need stop it, nor does it wait for load balancers: whoever starts it again sees that it failed.
TEST(TwoKindsTest, WhereNoDeviceIsLeftTheServerAnswersSaysWhyAndEndsAsFailed) {
  Served gpu("cuda:0", {"on_gpu"}, /*plain=*/true, "fail_launch=0:2000", /*drain_delay=*/"1h");
  ASSERT_TRUE(gpu.ready());
  const absl::Status lost = gpu.Lose("on_gpu");
  EXPECT_EQ(lost.code(), absl::StatusCode::kInternal) << lost;
  EXPECT_THAT(std::string(lost.message()), HasSubstr("a device failed: device cuda:0: "));
  EXPECT_EQ(gpu.server().Wait(), 1);
  EXPECT_THAT(gpu.server().Log(),
              AllOf(HasSubstr("error no device is left, the server ends: device cuda:0: "),
                    HasSubstr("serving on for 0 ms"), Not(HasSubstr("served on without"))));
}

}  // namespace
}  // namespace cellbatch
