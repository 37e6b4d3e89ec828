#include "server/http/status/status_sampler.h"

#include <cmath>
#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "server/http/status/status_page.h"
#include "tests/testing/fake_scheduler.h"
#include "tests/testing/test_model.h"

namespace cellbatch {
namespace {

class HandClock final : public Clock {
 public:
  int64_t NowNs() const override { return now_ns; }
  int64_t now_ns = 1'000'000'000'000;
};

class StatusSamplerTest : public ::testing::Test {
 protected:
  StatusSamplerTest() {
    LaneStats lane;
    lane.model = model_->id;
    lane.types.emplace_back().name = "lstm";
    scheduler_.fake_stats.lanes = {lane};
    scheduler_.fake_stats.devices.emplace_back().name = "cpu:0";
  }

  CellTypeStats& type() { return scheduler_.fake_stats.lanes[0].types[0]; }
  void Answer(int requests) {
    for (int i = 0; i < requests; ++i) {
      stats_.Of(*model_).RecordDone(0,
                                    {.request = 2'000'000,
                                     .input = 0,
                                     .queue = 0,
                                     .compute = 0,
                                     .output = 0,
                                     .cells = 1,
                                     .length = 1},
                                    1);
    }
  }
  void Second(int64_t ns = 1'000'000'000) {
    clock_.now_ns += ns;
    sampler_.Sample();
  }
  float Last(const std::string& line) const { return sampler_.history().Of(line).back(); }
  float LastOfModel(const char* what) const { return Last(ModelLine("tiny", "1", what)); }
  float LastOfCell(const char* what) const { return Last(CellLine("tiny", "1", "lstm", what)); }

  const std::shared_ptr<const Model> model_ = TinyModel();
  FakeScheduler scheduler_;
  StatsRegistry stats_{2};
  Admission admission_{{}};
  HandClock clock_;
  std::vector<std::shared_ptr<const Model>> served_ = {model_};
  LastErrors errors_;
  RequestPath path_{{.last_errors = &errors_},
                    [this](std::string_view, std::string_view) {
                      return absl::StatusOr<std::shared_ptr<const Model>>(model_);
                    },
                    scheduler_,
                    admission_,
                    stats_,
                    clock_};
  StatusSampler sampler_{scheduler_, path_, stats_, admission_, [this] { return served_; }, clock_};
};

TEST_F(StatusSamplerTest, PointsAreWhatCountersBecameInASecond) {
  Answer(50);  // before the first look: of no second
  Second();
  EXPECT_TRUE(std::isnan(LastOfModel("requests")));
  Answer(30);
  stats_.Of(*model_).RecordOther(0, RequestOutcome::kInvalid, 1);
  stats_.Of(*model_).RecordRejected(0, Rejection::kCells);
  stats_.Of(*model_).RecordRejected(1, Rejection::kCells);
  type().tasks = 10;
  type().cells = 400;
  scheduler_.fake_stats.devices[0].busy_ns = 500'000'000;
  Second(2'000'000'000);
  EXPECT_EQ(LastOfModel("requests"), 15);
  EXPECT_EQ(LastOfModel("failed"), 0.5F);
  EXPECT_EQ(LastOfCell("cells"), 200);
  EXPECT_EQ(LastOfCell("batch"), 40);
  EXPECT_EQ(Last(DeviceLine("cpu:0")), 0.25F);
  EXPECT_EQ(Last(WholeLine("requests")), 15);
  EXPECT_EQ(Last(WholeLine("rejected")), 1);
  EXPECT_EQ(Last(RejectedLine(Rejection::kCells)), 1);
  EXPECT_TRUE(std::isnan(Last(RejectedLine(Rejection::kRows)))) << "turned nobody away yet";
  Second();
  EXPECT_EQ(LastOfModel("requests"), 0);
  EXPECT_EQ(LastOfCell("cells"), 0);
  EXPECT_TRUE(std::isnan(LastOfCell("batch"))) << "no task, no batch";
  EXPECT_TRUE(std::isnan(LastOfModel("p99"))) << "no request, no time";
}

TEST_F(StatusSamplerTest, AVersionThatIsLoadedAgainBeginsAnewAndNothingIsNegative) {
  type().tasks = 10;
  type().cells = 400;
  Second();
  type().tasks = 20;
  type().cells = 500;
  Second();
  EXPECT_EQ(LastOfCell("cells"), 100);
  Model again = *model_;
  again.id = ModelId(model_->id.value() + 1);
  served_ = {std::make_shared<const Model>(again)};
  scheduler_.fake_stats.lanes[0].model = again.id;
  type().tasks = 1;
  type().cells = 3;
  Second();
  EXPECT_TRUE(std::isnan(LastOfCell("cells")));
  type().cells = 10;
  Second();
  EXPECT_EQ(LastOfCell("cells"), 7);
  served_.clear();
  Second();
  EXPECT_TRUE(std::isnan(LastOfModel("requests")));
}

// The way of every request that fails: to the page.
TEST_F(StatusSamplerTest, RefusedRequestsAreAmongTheLastErrorsOfThePage) {
  const Lifecycle lifecycle;
  const auto index = [] { return std::vector<IndexEntry>{{"tiny", "1", "READY", ""}}; };
  const FindModel find = [this](std::string_view, std::string_view) {
    return absl::StatusOr<std::shared_ptr<const Model>>(model_);
  };
  StatusPage page(scheduler_, path_, stats_, admission_, lifecycle, index, find, clock_);
  page.Watch(sampler_.history(), errors_);
  path_.Refused(stats_.Of(*model_), 0, clock_.NowNs(), absl::InvalidArgumentError("<b> is wrong"))
      .IgnoreError();
  Answer(1);
  Second();
  Answer(5);
  Second();
  const StatusView view = page.Look();
  ASSERT_EQ(view.errors.size(), 1u);
  EXPECT_EQ(view.errors[0].error.model, "tiny");
  EXPECT_EQ(view.errors[0].age_seconds, 2);
  ASSERT_EQ(view.models.size(), 1u);
  EXPECT_EQ(view.models[0].requests_line.back(), 5);
  EXPECT_EQ(view.history_seconds, 2);
  EXPECT_NE(RenderStatus(view).find("&lt;b&gt; is wrong"), std::string::npos);
}

struct NeverDelivered final : ServedRequest {
  using ServedRequest::ServedRequest;
  void OnDone(int, std::unique_ptr<Request>) override {}
};

TEST_F(StatusSamplerTest, TimesAreThoseOfTheRequestsThatWereAnsweredInThatSecond) {
  constexpr int64_t kMs = 1'000'000;
  const auto end = [&](int64_t ms, const absl::Status& status) {
    NeverDelivered served(clock_.now_ns - ms * kMs, 0);
    served.model = model_;
    served.stats = &stats_.Of(*model_);
    Request request;
    request.status = status;
    request.times.first_task_start = served.received_ns + ms * kMs / 10;
    path_.RecordEnd(0, served, request);
  };
  for (int64_t ms = 1; ms <= 100; ++ms) end(ms, absl::OkStatus());
  end(10'000, absl::InternalError("fails"));
  Second();
  EXPECT_EQ(LastOfModel("p50"), 50);
  EXPECT_EQ(LastOfModel("p99"), 99);
  EXPECT_FLOAT_EQ(LastOfModel("queue"), 9.9F);
  clock_.now_ns += 1000 * kMs;
  for (const int64_t ms : {7, 8, 9}) end(ms, absl::OkStatus());
  sampler_.Sample();
  EXPECT_TRUE(std::isnan(LastOfModel("p50"))) << "those that end now are of the next second";
  Second();
  EXPECT_EQ(LastOfModel("p50"), 8);
  EXPECT_EQ(LastOfModel("p99"), 9);
  scheduler_.fake_stats.devices[0].busy_ns += 5000 * kMs;
  Second();
  EXPECT_EQ(Last(DeviceLine("cpu:0")), 1) << "a task that took seconds is counted at its end";
}

// Rates of the page are of the time since the look before the last one.
TEST_F(StatusSamplerTest, CellsASecondAndBusyDevicesAreOfTheTimeSinceAnEarlierLook) {
  const FindModel find = [this](std::string_view, std::string_view) {
    return absl::StatusOr<std::shared_ptr<const Model>>(model_);
  };
  const Lifecycle lifecycle;
  const auto index = [] { return std::vector<IndexEntry>{{"tiny", "1", "READY", ""}}; };
  const StatusPage page(scheduler_, path_, stats_, admission_, lifecycle, index, find, clock_);
  int64_t& busy_ns = scheduler_.fake_stats.devices[0].busy_ns;
  clock_.now_ns += 10'000'000'000;
  type().cells = 100;
  busy_ns = 2'000'000'000;
  EXPECT_EQ(page.Look().models.at(0).types.at(0).cells_per_second, 10) << "since the start";
  EXPECT_EQ(page.Look().devices.at(0).busy_share, 0.2);
  clock_.now_ns += 3'000'000'000;
  page.Look();
  clock_.now_ns += 3'000'000'000;
  type().cells = 700;
  busy_ns += 1'500'000'000;
  const StatusView view = page.Look();
  EXPECT_EQ(view.models.at(0).types.at(0).cells_per_second, 200);
  EXPECT_EQ(view.devices.at(0).busy_share, 0.5);
}

// Of the 30 s that are shown a responder may remember less, and another one, with little to do, more.
TEST_F(StatusSamplerTest, RequestsASecondAreThoseOfTheTimeThatIsRemembered) {
  const FindModel find = [this](std::string_view, std::string_view) {
    return absl::StatusOr<std::shared_ptr<const Model>>(model_);
  };
  StatsRegistry stats(RequestPath::Shards(1, 2));
  RequestPath path({.responders = 2, .latency_samples = 64}, find, scheduler_, admission_, stats,
                   clock_);
  const Lifecycle lifecycle;
  const auto index = [] { return std::vector<IndexEntry>{{"tiny", "1", "READY", ""}}; };
  const StatusPage page(scheduler_, path, stats, admission_, lifecycle, index, find, clock_);
  NeverDelivered served(clock_.NowNs(), 0);
  served.model = model_;
  served.stats = &stats.Of(*model_);
  const Request request;
  for (int second = 1; second <= 20; ++second) {
    for (int i = 0; i < 10; ++i) {
      clock_.now_ns += 100'000'000;
      path.RecordEnd(0, served, request);
    }
    path.RecordEnd(1, served, request);
  }
  EXPECT_NEAR(page.Look().models.at(0).requests_per_second, 11, 0.3);
}

TEST_F(StatusSamplerTest, ItsThreadEndsWhenItGoes) {
  StatusSampler other(
      scheduler_, path_, stats_, admission_, [this] { return served_; }, clock_);
  other.Start();
}

}  // namespace
}  // namespace cellbatch
