#include <string>

#include "gtest/gtest.h"
#include "server/http/metrics_exporter.h"
#include "server/http/metrics_text.h"
#include "server/http/status_page.h"
#include "tests/testing/fake_scheduler.h"
#include "tests/testing/test_model.h"

namespace cellbatch {
namespace {

bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(MetricsTextTest, LabelsAreEscapedAndHistogramsAreCumulative) {
  MetricsText text;
  text.Family("things", "histogram", "What they are.");
  text.Histogram({{"model", "a\"b\\c\nd"}}, {{0.5, 1}, {1, 3}}, 4, 7.25);
  EXPECT_EQ(text.Take(),
            "# HELP things What they are.\n"
            "# TYPE things histogram\n"
            "things_bucket{model=\"a\\\"b\\\\c\\nd\",le=\"0.5\"} 1\n"
            "things_bucket{model=\"a\\\"b\\\\c\\nd\",le=\"1\"} 3\n"
            "things_bucket{model=\"a\\\"b\\\\c\\nd\",le=\"+Inf\"} 4\n"
            "things_sum{model=\"a\\\"b\\\\c\\nd\"} 7.25\n"
            "things_count{model=\"a\\\"b\\\\c\\nd\"} 4\n");
}

TEST(MetricsExporterTest, CountsOfThreadsAreAddedUpAndEdgesAreInclusive) {
  FakeScheduler scheduler;
  StatsRegistry stats(2);
  Admission admission({});
  Lifecycle lifecycle;
  const std::shared_ptr<const Model> model = TinyModel();
  LaneStats lane;
  lane.model = model->id;
  lane.types.resize(1);
  lane.types[0].name = "lstm";
  lane.types[0].batch_size.buckets[static_cast<size_t>(BucketOf(8))] = 5;
  lane.types[0].batch_size.count = 5;
  lane.types[0].batch_size.sum = 40;
  scheduler.fake_stats.lanes = {lane};
  stats.Of(*model).RecordDone(0,
                              {.request = 50'000,
                               .input = 0,
                               .queue = 0,
                               .compute = 0,
                               .output = 0,
                               .cells = 1,
                               .length = 1},
                              1);
  stats.Of(*model).RecordDone(1,
                              {.request = 50'001,
                               .input = 0,
                               .queue = 0,
                               .compute = 0,
                               .output = 0,
                               .cells = 1,
                               .length = 1},
                              1);
  stats.Of(*model).RecordOther(0, RequestOutcome::kInvalid, 1000);
  const MetricsExporter exporter(
      scheduler, stats, admission, lifecycle, [&] { return std::vector{model}; }, true);
  const std::string text = exporter.Text();
  EXPECT_TRUE(Has(text, R"(cellbatch_requests_total{model="tiny",version="1",outcome="ok"} 2)"));
  EXPECT_TRUE(
      Has(text, R"(cellbatch_requests_total{model="tiny",version="1",outcome="invalid"} 1)"));
  EXPECT_TRUE(Has(
      text, R"(cellbatch_request_duration_seconds_bucket{model="tiny",version="1",le="5e-05"} 1)"));
  EXPECT_TRUE(
      Has(text,
          R"(cellbatch_request_duration_seconds_bucket{model="tiny",version="1",le="7.5e-05"} 2)"));
  EXPECT_TRUE(Has(
      text, R"(cellbatch_task_batch_size_bucket{model="tiny",version="1",cell="lstm",le="4"} 0)"));
  EXPECT_TRUE(Has(
      text, R"(cellbatch_task_batch_size_bucket{model="tiny",version="1",cell="lstm",le="8"} 5)"));
  EXPECT_TRUE(Has(text, "cellbatch_ready 0\n"));
  EXPECT_TRUE(Has(text, R"(nv_inference_request_success{model="tiny",version="1"} 2)"));
  EXPECT_TRUE(Has(text, "process_resident_memory_bytes "));
}

TEST(StatusPageTest, ShowsWhatIsThereAndEscapesWhatOthersNamed) {
  StatusView view;
  view.ready = true;
  view.window_seconds = 30;
  StatusView::ModelView model;
  model.name = "<script>alert(1)</script>";
  model.version = "3";
  model.state = "READY";
  model.times.request = {.count = 5,
                         .mean = 1'500'000,
                         .p50 = 1'000'000,
                         .p90 = 2,
                         .p99 = 3,
                         .p999 = 4,
                         .max = 2'000'000'000};
  StatusView::CellTypeView cell;
  cell.name = "lstm_l0";
  cell.max_batch = 64;
  cell.points = {{1, 100'000}, {64, 200'000}, {512, 1'500'000}};
  model.types.push_back(cell);
  view.models.push_back(model);
  model.name = "cold";
  model.state = "UNAVAILABLE";
  model.reason = "weights & words disagree";
  view.models.push_back(model);
  const std::string html = RenderStatus(view);
  EXPECT_FALSE(Has(html, "<script>alert"));
  EXPECT_TRUE(Has(html, "&lt;script&gt;alert(1)"));
  EXPECT_TRUE(Has(html, "weights &amp; words disagree"));
  EXPECT_TRUE(Has(html, "1.5 ms"));
  EXPECT_TRUE(Has(html, "T(512) 1.5 ms"));
  EXPECT_TRUE(Has(html, "<polyline"));
}

}  // namespace
}  // namespace cellbatch
