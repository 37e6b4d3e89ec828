#include <chrono>
#include <cmath>
#include <sstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/http/metrics_exporter.h"
#include "server/http/metrics_text.h"
#include "server/http/process_stats.h"
#include "tests/testing/fake_scheduler.h"
#include "tests/testing/test_model.h"

namespace cellbatch {
namespace {

bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::vector<std::string> LinesWith(const std::string& part, const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream all(text);
  for (std::string line; std::getline(all, line);) {
    if (Has(line, part)) lines.push_back(line);
  }
  return lines;
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

TEST(MetricsTextTest, ValuesAreReadBackAsTheyWere) {
  MetricsText text;
  text.Family("start", "gauge", "When.");
  text.Value({}, 1796097135.57);
  text.Value({}, 0.1);
  text.Value({}, 4.0);
  text.Histogram({}, {}, 1, 1234567.000000001);
  EXPECT_EQ(text.Take(),
            "# HELP start When.\n"
            "# TYPE start gauge\n"
            "start 1796097135.57\n"
            "start 0.1\n"
            "start 4\n"
            "start_bucket{le=\"+Inf\"} 1\n"
            "start_sum 1234567.000000001\n"
            "start_count 1\n");
}

TEST(ProcessStatsTest, TheStartIsOfWholeHundredthsWhenever) {
  const double start = ReadProcessStats().start_unix_seconds;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  EXPECT_LE(start, std::chrono::duration<double>(now).count() + 0.01);
  EXPECT_GT(start, 1'700'000'000) << "seconds since 1970";
  EXPECT_EQ(std::round(start * 100) / 100, start);
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

// The same version under the id that its next load has.
std::shared_ptr<const Model> LoadedAgain(const Model& model) {
  auto again = std::make_shared<Model>(model);
  again->id = ModelId(model.id.value() + 1);
  return again;
}

// Units, and which of two numbers that are nearly the same: of two lanes of one version, the second of which serves already.
TEST(MetricsExporterTest, GaugesOfLanesAreAddedAndTimesAreInTheUnitsOfTheirNames) {
  FakeScheduler scheduler;
  StatsRegistry stats(1);
  Admission admission({});
  Lifecycle lifecycle;
  const std::shared_ptr<const Model> first = TinyModel();
  const std::shared_ptr<const Model> again = LoadedAgain(*first);
  LaneStats lane;
  lane.model = first->id;
  lane.waiting_requests = 1;
  lane.waiting_cells = 20;
  lane.running_requests = 300;
  lane.rows_used = 4'000;
  lane.rows_total = 50'000;
  lane.device_ns = 1'500'000'000;
  lane.types.emplace_back();
  lane.types[0].name = "lstm";
  lane.types[0].ready = 7;
  lane.types[0].task_ns.count = 1;
  lane.types[0].task_ns.sum = 2'000'000;
  scheduler.fake_stats.lanes = {lane, lane};
  scheduler.fake_stats.lanes[1].model = again->id;
  const RequestDurations durations = {.request = 70'000,
                                      .input = 1'000,
                                      .queue = 21'000,
                                      .compute = 40'000,
                                      .output = 9'000,
                                      .cells = 3,
                                      .length = 2};
  stats.Of(*first).RecordDone(0, durations, 1);
  stats.Of(*again).RecordOther(0, RequestOutcome::kCancelled, 1);
  stats.Of(*again).RecordOther(0, RequestOutcome::kDeadline, 1);
  const MetricsExporter exporter(
      scheduler, stats, admission, lifecycle,
      [&] {
        return std::vector{first, again};
      },
      true);
  const std::string text = exporter.Text();
  const std::pair<const char*, const char*> expected[] = {
      {"cellbatch_queued_requests", "2"},
      {"cellbatch_queued_cells", "40"},
      {"cellbatch_running_requests", "600"},
      {"cellbatch_rows_used", "8000"},
      {"cellbatch_rows_total", "100000"},
      {"cellbatch_device_seconds_total", "3"},
      {"cellbatch_request_units_total", "2"},
      {"nv_inference_request_duration_us", "70"},
      {"nv_inference_queue_duration_us", "20"},
      {"nv_inference_compute_input_duration_us", "1"},
      {"nv_inference_compute_infer_duration_us", "40"},
      {"nv_inference_compute_output_duration_us", "9"},
      {"nv_inference_pending_request_count", "2"}};
  for (const auto& [name, value] : expected) {
    const std::string line = std::string(name) + R"({model="tiny",version="1"} )" + value + '\n';
    EXPECT_TRUE(Has(text, line)) << line;
  }
  EXPECT_TRUE(Has(text, R"(cellbatch_ready_cells{model="tiny",version="1",cell="lstm"} 14)"));
  EXPECT_TRUE(
      Has(text, R"(cellbatch_task_seconds_sum{model="tiny",version="1",cell="lstm"} 0.004)"));
  EXPECT_TRUE(
      Has(text, R"(nv_inference_request_failure{model="tiny",version="1",reason="CANCELED"} 2)"));
}

TEST(MetricsExporterTest, LimitsInForceAreShownByNameWithAllTheirDigits) {
  FakeScheduler scheduler;
  StatsRegistry stats(1);
  Admission admission({});
  Lifecycle lifecycle;
  MetricsExporter exporter(
      scheduler, stats, admission, lifecycle,
      [] { return std::vector<std::shared_ptr<const Model>>(); }, false);
  exporter.ShowLimits({{"cpu_quota", 0.5}, {"max-queued-bytes", 4294967297.0}});
  const std::string text = exporter.Text();
  EXPECT_TRUE(Has(text, "cellbatch_limit{name=\"cpu_quota\"} 0.5\n"));
  EXPECT_TRUE(Has(text, "cellbatch_limit{name=\"max-queued-bytes\"} 4294967297\n"));
}

TEST(MetricsExporterTest, AModelHasASampleForEachDeviceThatItLivesOn) {
  FakeScheduler scheduler;
  StatsRegistry stats(1);
  Admission admission({});
  Lifecycle lifecycle;
  const std::shared_ptr<Model> gpu = TinyModel("gpu", 1, 1), both = TinyModel("both", 2, 2);
  gpu->devices.cpu = false;
  scheduler.fake_stats.devices = {
      {.name = "cuda:0", .details = {}, .kind = DeviceKind::kGpu, .healthy = false},
      {.name = "cpu:0", .details = {}, .kind = DeviceKind::kCpu}};
  const MetricsExporter exporter(
      scheduler, stats, admission, lifecycle,
      [&] {
        return std::vector<std::shared_ptr<const Model>>{gpu, both};
      },
      false);
  const std::string text = exporter.Text();
  const size_t begin = text.find("cellbatch_model_device{");
  ASSERT_NE(begin, std::string::npos);
  EXPECT_EQ(text.substr(begin, text.find("# HELP", begin) - begin),
            "cellbatch_model_device{model=\"gpu\",version=\"1\",device=\"cuda:0\"} 0\n"
            "cellbatch_model_device{model=\"both\",version=\"2\",device=\"cuda:0\"} 0\n"
            "cellbatch_model_device{model=\"both\",version=\"2\",device=\"cpu:0\"} 1\n");
}

TEST(MetricsExporterTest, DecisionsAreCountedByModelVersionAndReason) {
  FakeScheduler scheduler;
  StatsRegistry stats(1);
  Admission admission({});
  Lifecycle lifecycle;
  const std::shared_ptr<const Model> tiny = TinyModel();
  Model second = *tiny;
  second.id = ModelId(tiny->id.value() + 1);
  second.name = "second";
  second.version = 7;
  const auto other = std::make_shared<const Model>(second);
  LaneStats lane;
  lane.model = tiny->id;
  lane.decisions = {{"overdue", 1}, {"full_batch", 1'000'000'007}, {"repeat", 0}};
  scheduler.fake_stats.lanes.push_back(lane);
  lane.model = other->id;
  lane.decisions = {{"tallest \"top\"", 12}};
  scheduler.fake_stats.lanes.push_back(lane);
  const MetricsExporter exporter(
      scheduler, stats, admission, lifecycle,
      [&] {
        return std::vector{tiny, other};
      },
      true);
  const std::string text = exporter.Text();
  const size_t begin = text.find("# HELP cellbatch_decisions_total");
  ASSERT_NE(begin, std::string::npos);
  EXPECT_EQ(text.substr(begin, text.find("# HELP", begin + 1) - begin),
            "# HELP cellbatch_decisions_total Batched tasks, by the reason for which their cell "
            "type was chosen.\n"
            "# TYPE cellbatch_decisions_total counter\n"
            "cellbatch_decisions_total{model=\"tiny\",version=\"1\",reason=\"overdue\"} 1\n"
            "cellbatch_decisions_total{model=\"tiny\",version=\"1\",reason=\"full_batch\"} "
            "1000000007\n"
            "cellbatch_decisions_total{model=\"tiny\",version=\"1\",reason=\"repeat\"} 0\n"
            "cellbatch_decisions_total{model=\"second\",version=\"7\",reason=\"tallest "
            "\\\"top\\\"\"} 12\n");
}

// Of a version that was loaded again and of one that is gone: a series each, which never falls. Beyond those that are kept it
// vanishes, and no other has it.
TEST(MetricsExporterTest, WhatEndedVersionsCountedStaysAndIsOneSeriesWithWhatTheNextOneCounts) {
  FakeScheduler scheduler;
  StatsRegistry stats(1, /*most_ended=*/1);
  Admission admission({});
  Lifecycle lifecycle;
  const std::shared_ptr<const Model> first = TinyModel();
  const std::shared_ptr<const Model> again = LoadedAgain(*first);
  std::vector<std::shared_ptr<const Model>> served = {first};
  const MetricsExporter exporter(
      scheduler, stats, admission, lifecycle, [&] { return served; }, true);
  LaneStats lane;
  lane.model = first->id;
  lane.running_requests = 1;
  lane.types.emplace_back();
  lane.types[0].name = "lstm";
  lane.types[0].cells = 100;
  scheduler.fake_stats.lanes = {lane};
  const std::string cells =
      R"(cellbatch_cells_executed_total{model="tiny",version="1",cell="lstm"} )";
  EXPECT_TRUE(Has(exporter.Text(), cells + "100\n"));
  served = {again};
  lane.model = again->id;
  lane.types[0].cells = 7;
  scheduler.fake_stats.lanes.push_back(lane);
  std::string text = exporter.Text();
  EXPECT_TRUE(Has(text, cells + "107\n")) << "the first one drains";
  EXPECT_TRUE(Has(text, R"(cellbatch_running_requests{model="tiny",version="1"} 2)"));
  stats.LaneEnded(scheduler.fake_stats.lanes[0]);
  EXPECT_TRUE(Has(exporter.Text(), cells + "107\n")) << "it has ended, and is still to be read";
  scheduler.fake_stats.lanes.erase(scheduler.fake_stats.lanes.begin());
  stats.Gone(first->id);
  text = exporter.Text();
  EXPECT_TRUE(Has(text, cells + "107\n"));
  EXPECT_TRUE(Has(text, R"(cellbatch_running_requests{model="tiny",version="1"} 1)"));
  stats.Of(*again).RecordDone(0, {.request = 1000, .cells = 7}, /*unix_ms=*/1);
  stats.LaneEnded(lane);
  scheduler.fake_stats.lanes.clear();
  stats.Gone(again->id);
  served.clear();
  text = exporter.Text();
  EXPECT_TRUE(Has(text, cells + "107\n"));
  EXPECT_TRUE(Has(text, R"(cellbatch_running_requests{model="tiny",version="1"} 0)"));
  Model other = *first;
  other.name = "other";
  other.id = ModelId(first->id.value() + 2);
  stats.Of(other);
  const std::vector<std::string> before = LinesWith("{model=", exporter.Text());
  stats.Gone(other.id);
  const std::vector<std::string> after = LinesWith("{model=", exporter.Text());
  EXPECT_FALSE(after.empty());
  for (const std::string& line : after) {
    EXPECT_EQ(line.find(R"(model="tiny")"), std::string::npos) << "one version is kept: " << line;
    EXPECT_THAT(before, ::testing::Contains(line)) << "what is shown moves for none that goes";
  }
}

}  // namespace
}  // namespace cellbatch
