// One client floods, nine behave (serving.md 4.4, T10), and the same of models, against the real server: whoever has
// taken all that it can get has not taken what the others need.
#include <memory>

#include "gtest/gtest.h"
#include "tests/fault/background_call.h"
#include "tests/fault/own_server_test.h"

namespace cellbatch {
namespace {

constexpr int kCalls = 40;  // of which twenty could be admitted

class SharesTest : public OwnServerTest {
 protected:
  // Of requests there is a bound; of all else there is enough.
  void SetUp() override {
    Serve({"--max-queued-requests=20", "--max-queued-cells=10000000", "--max-queued-bytes=64GiB",
           "--batch-limit=4", "--row-budget=80MiB"});
  }
  void TearDown() override {
    flood_.clear();
    WaitUntilEmpty(*server_);
    ExpectGood(*caller_);
    End();
  }
  // Calls of a model that run for long; those that are refused end at once.
  void Flood(const std::function<std::string(int)>& tenant) {
    for (int i = 0; i < kCalls; ++i) {
      flood_.push_back(std::make_unique<BackgroundCall>(*caller_, SlowRequest(),
                                                        BackgroundCall::Time::max(), tenant(i)));
    }
  }
  // All have come, and so many of them were refused. (One that is looked at right now counts as admitted for a moment.)
  void WaitForFlood(int refused, const std::string& reason) const {
    WaitForPage(*server_, [&](const MetricsPage& p) {
      return p.Admitted() == kCalls - refused && p.Sum("cellbatch_rejected_total") == refused &&
             p.Sum("cellbatch_rejected_total", {"reason=\"" + reason + "\""}) == refused;
    });
  }
  grpc::Status Ask(const std::string& tenant) const {
    inference::ModelInferResponse answer;
    return caller_->Infer(Words({5, 99, 0}), answer, [&](grpc::ClientContext& context) {
      context.AddMetadata("x-cellbatch-tenant", tenant);
    });
  }

  std::vector<std::unique_ptr<BackgroundCall>> flood_;
};

TEST_F(SharesTest, T10OneClientFloodsAndNineThatBehaveAreAnswered) {
  Flood([](int) { return "flood"; });
  WaitForFlood(24, "client_share");
  for (int i = 0; i < 9; ++i) {
    const grpc::Status status = Ask("honest " + std::to_string(i));
    EXPECT_TRUE(status.ok()) << i << ": " << status.error_message();
  }
  // The flood has its share, and asks in vain for more; another client of the very model is admitted.
  const grpc::Status more = Ask("flood");
  EXPECT_EQ(more.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_NE(more.error_message().find("--client-share-percent"), std::string::npos)
      << more.error_message();
  const BackgroundCall patient(*caller_, SlowRequest(), BackgroundCall::Time::max(), "patient");
  WaitForPage(*server_, [](const MetricsPage& p) { return p.Admitted() == 17; });
}

TEST_F(SharesTest, TheBoundsInForceAreOnThePagesForPeopleAndMachines) {
  const MetricsPage page(*server_);
  const auto limit = [&](const std::string& name) {
    return page.Sum("cellbatch_limit", {"name=\"" + name + "\""});
  };
  EXPECT_EQ(limit("max-queued-requests"), 20);
  EXPECT_EQ(limit("row-budget"), 80 << 20);
  EXPECT_GE(limit("cpus_used"), 1);
  EXPECT_GE(limit("memory_available_bytes"), limit("fold-budget"));
  EXPECT_GE(limit("grpc-threads"), 1) << "what 0 became";
  EXPECT_NE(HttpGet(server_->http(), "/").find("max-queued-requests"), std::string::npos);
}

TEST_F(SharesTest, AFloodOfManyClientsOnOneModelLeavesRoomForAnother) {
  Flood([](int i) { return std::to_string(i); });
  WaitForFlood(22, "model_share");
  for (int i = 0; i < 9; ++i) {
    const grpc::Status status = Ask("honest " + std::to_string(i));
    EXPECT_TRUE(status.ok()) << i << ": " << status.error_message();
  }
}

}  // namespace
}  // namespace cellbatch
