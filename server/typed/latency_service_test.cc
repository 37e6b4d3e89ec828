#include "server/typed/latency_service.h"

#include <cmath>
#include <limits>

#include "server/kserve/infer_call.h"
#include "tests/testing/service_test.h"

namespace cellbatch {
namespace {

class LatencyServiceTest : public ServiceTest {
 protected:
  // A request that took `ns`, ending now.
  void Serve(int64_t ns, bool ok = true) {
    FakeCall call(TokensRequest({1, 2}).SerializeAsString(), clock_.now - ns);
    call.StartOn(service_);
    scheduler_.FinishAll(ok ? absl::OkStatus() : absl::InternalError("broken"));
    StepResponder();
    call.Wait();
  }
  absl::StatusOr<v1::LatencyResponse> Ask(const std::string& model, double window) {
    v1::LatencyRequest request;
    request.set_model_name(model);
    request.set_window_seconds(window);
    return latency_.Latency(request);
  }

  InferService service_{path_};
  LatencyService latency_{
      path_,
      [this] {
        return std::vector<TimedModel>{{path_.StatsOf(*model_).times_id(), "tiny", "1"}};
      },
      clock_};
};

TEST_F(LatencyServiceTest, PercentilesAreTimesThatRequestsReallyTookInTheWindow) {
  Serve(999'000);  // two seconds before the window
  clock_.now += 2'000'000'000;
  for (int64_t us = 1; us <= 100; ++us) {
    clock_.now += 1000;
    Serve(us * 1000);
  }
  Serve(5'000'000, false);
  const auto answer = Ask("tiny", 1);
  ASSERT_TRUE(answer.ok()) << answer.status();
  ASSERT_EQ(answer->models_size(), 1);
  const v1::ModelLatency& model = answer->models(0);
  EXPECT_EQ(model.failed(), 1u);
  ASSERT_EQ(model.phases_size(), 3);
  const v1::PhaseLatency& request = model.phases(0);
  EXPECT_EQ(request.phase(), v1::PHASE_REQUEST);
  EXPECT_EQ(request.count(), 100u);
  EXPECT_EQ(request.p50_ns(), 50'000u);
  EXPECT_EQ(request.p90_ns(), 90'000u);
  EXPECT_EQ(request.p99_ns(), 99'000u);
  EXPECT_EQ(request.p999_ns(), 100'000u);
  EXPECT_EQ(request.max_ns(), 100'000u);
  EXPECT_EQ(request.mean_ns(), 50'500u);
  EXPECT_EQ(model.phases(1).phase(), v1::PHASE_QUEUE);
  EXPECT_EQ(model.phases(1).p50_ns(), 50'010u);
  EXPECT_EQ(model.phases(2).phase(), v1::PHASE_COMPUTE);
  EXPECT_EQ(model.phases(2).p50_ns(), 20u);

  const auto all = Ask("", 0);
  ASSERT_TRUE(all.ok());
  EXPECT_EQ(all->models(0).phases(0).count(), 101u);
  EXPECT_EQ(all->models(0).phases(0).max_ns(), 999'000u);
}

// A new policy may want the model loaded again: its users' times are no others for it.
TEST_F(LatencyServiceTest, AVersionThatIsLoadedAgainKeepsTheTimesOfBefore) {
  Serve(1000);
  const std::shared_ptr<const Model> before = model_;
  model_ = TinyModel("tiny", 1, 1);
  Serve(3000);
  const auto answer = Ask("tiny", 1);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->models(0).phases(0).count(), 2u);
  EXPECT_EQ(answer->models(0).phases(0).mean_ns(), 2000u);

  model_ = TinyModel("tiny", 2, 2);
  const auto other = Ask("tiny", 1);
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_EQ(other->models(0).phases(0).count(), 0u) << "another version has its own";
}

TEST_F(LatencyServiceTest, HowFarTheTimesReachIsSaid) {
  Serve(1000);
  clock_.now += 4'000'000'000;
  Serve(2000);
  clock_.now += 500'000'000;
  EXPECT_DOUBLE_EQ(Ask("tiny", 1)->models(0).covered_seconds(), 1);
  EXPECT_EQ(Ask("tiny", 1)->models(0).phases(0).count(), 1u);
  EXPECT_DOUBLE_EQ(Ask("tiny", 0)->models(0).covered_seconds(), 4.5);
  // 1,024 are remembered: the last one ends now, the first of them 1,023 ms ago.
  for (int i = 0; i < 1500; ++i) {
    clock_.now += 1'000'000;
    Serve(3000);
  }
  for (const double window : {0.0, 30.0}) {
    const auto answer = Ask("tiny", window);
    EXPECT_DOUBLE_EQ(answer->models(0).covered_seconds(), 1.023) << window;
    EXPECT_EQ(answer->models(0).phases(0).count(), 1024u) << window;
  }
  EXPECT_DOUBLE_EQ(Ask("tiny", 0.5)->models(0).covered_seconds(), 0.5);
}

TEST_F(LatencyServiceTest, BadWindowsAndUnknownModelsAreErrors) {
  EXPECT_EQ(Ask("nobody", 1).status(), absl::NotFoundError("model \"nobody\" is not being served"));
  for (const double window : {-1.0, std::nan(""), std::numeric_limits<double>::infinity(), 1e300}) {
    EXPECT_EQ(Ask("tiny", window).status().code(), absl::StatusCode::kInvalidArgument);
  }
  v1::LatencyRequest version;
  version.set_model_name("tiny");
  version.set_model_version("2");
  EXPECT_EQ(latency_.Latency(version).status(),
            absl::NotFoundError("model \"tiny\" version \"2\" is not being served"));
  const auto empty = Ask("tiny", 5);
  ASSERT_TRUE(empty.ok());
  EXPECT_EQ(empty->models(0).phases(0).count(), 0u);
}

}  // namespace
}  // namespace cellbatch
