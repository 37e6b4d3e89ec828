#include <string>
#include <tuple>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/requests/model_ids.h"
#include "server/requests/request_stats.h"

namespace cellbatch {
namespace {

using testing::ElementsAre;

class StatsRegistryTest : public testing::Test {
 protected:
  std::shared_ptr<const Model> Load(const std::string& name, int64_t version) {
    auto model = std::make_shared<Model>();
    model->id = *ids_->Take();
    model->name = name;
    model->version = version;
    return ids_->Hold(std::move(model));
  }
  void Serve(const Model& model, int requests) {
    for (int i = 0; i < requests; ++i) {
      registry_.Of(model).RecordDone(0, {.request = 1000, .cells = 3}, /*unix_ms=*/1);
    }
  }
  static LaneStats Lane(ModelId model, uint64_t cells) {
    LaneStats lane;
    lane.model = model;
    lane.device_ns = static_cast<int64_t>(cells) * 10;
    lane.running_requests = 1;
    lane.types.emplace_back();
    lane.types[0].name = "lstm";
    lane.types[0].cells = cells;
    lane.types[0].tasks = cells / 2;
    lane.types[0].ready = 5;
    lane.decisions = {{"repeat", cells / 2}};
    return lane;
  }
  // "name/version done cells-of-ended-lanes", in the order of Read; "total" for what is none.
  std::vector<std::string> Lines() const {
    std::vector<std::string> lines;
    std::vector<int> places;
    for (const VersionCounts& version : registry_.Read({}, &places)) {
      std::string line = version.for_totals_alone ? "total" : version.name + "/" + version.version;
      line += " " + std::to_string(version.requests.done);
      if (version.lanes.has_value()) line += " " + std::to_string(version.lanes->types[0].cells);
      lines.push_back(line);
    }
    return lines;
  }

  StatsRegistry registry_{1, /*most_ended=*/2};
  const std::shared_ptr<ModelIds> ids_ = ModelIds::Make([this](ModelId id) { registry_.Gone(id); });
};

TEST_F(StatsRegistryTest, AVersionThatIsLoadedAgainCountsOnAsOneSeries) {
  auto first = Load("a", 1);
  Serve(*first, 2);
  const auto again = Load("a", 1);  // it warms while the first one serves
  EXPECT_NE(first->id, again->id);
  Serve(*again, 3);
  Serve(*first, 1);
  registry_.LaneEnded(Lane(first->id, 100));
  first.reset();
  Serve(*again, 1);
  EXPECT_THAT(Lines(), ElementsAre("a/1 7 100", "/ 0"));
  ASSERT_EQ(registry_.EndedTypes(again->id).size(), 1u);
  EXPECT_EQ(registry_.EndedTypes(again->id)[0].tasks, 50u);
}

TEST_F(StatsRegistryTest, VersionsThatEndedStayAndBeyondTheBoundTheirRequestsCountForTotalsAlone) {
  for (int version = 1; version <= 4; ++version) {
    const auto model = Load("a", version);
    Serve(*model, version);
    registry_.LaneEnded(Lane(model->id, 10 * static_cast<uint64_t>(version)));
  }
  EXPECT_THAT(Lines(), ElementsAre("a/3 3 30", "a/4 4 40", "total 3", "/ 0"));
  const auto back = Load("a", 3);
  Serve(*back, 5);
  EXPECT_THAT(Lines(), ElementsAre("a/3 8 30", "a/4 4 40", "total 3", "/ 0"));
  Load("b", 1);
  for (int i = 0; i < 2; ++i) Serve(*Load("c", i), 1);
  EXPECT_THAT(Lines(), ElementsAre("a/3 8 30", "c/0 1", "c/1 1", "total 7", "/ 0"))
      << "who serves is none that ended, and who was never asked for is none at all";
}

// A version's shards are added up, and what ended versions counted is: nothing of it is left out either time.
TEST(RequestCountsTest, ASumHasAllThatEitherCounted) {
  ModelStats one("a", "1", /*shards=*/2), other("b", "1", /*shards=*/1);
  const RequestDurations durations = {.request = 70'000,
                                      .input = 100,
                                      .queue = 20'000,
                                      .compute = 49'000,
                                      .output = 900,
                                      .cells = 3,
                                      .length = 2};
  one.RecordDone(0, durations, /*unix_ms=*/9);
  one.RecordDone(1, durations, /*unix_ms=*/5);
  one.RecordOther(1, RequestOutcome::kDeadline, 40);
  one.RecordRejected(1, Rejection::kRows);
  other.RecordDone(0, durations, /*unix_ms=*/7);
  other.RecordOther(0, RequestOutcome::kDeadline, 2);
  other.RecordRejected(0, Rejection::kRows);
  RequestCounts sum = other.Read();
  EXPECT_EQ(sum.last_done_unix_ms, 7);
  sum += one.Read();
  EXPECT_EQ(sum.done, 3);
  EXPECT_EQ(sum.outcomes[static_cast<size_t>(RequestOutcome::kOk)], 3);
  EXPECT_EQ(sum.outcomes[static_cast<size_t>(RequestOutcome::kDeadline)], 2);
  EXPECT_EQ(sum.rejections[static_cast<size_t>(Rejection::kRows)], 2);
  EXPECT_EQ(sum.request_ns, 3 * 70'000);
  EXPECT_EQ(sum.input_ns, 3 * 100);
  EXPECT_EQ(sum.queue_ns, 3 * 20'000);
  EXPECT_EQ(sum.compute_ns, 3 * 49'000);
  EXPECT_EQ(sum.output_ns, 3 * 900);
  EXPECT_EQ(sum.failed_ns, 42);
  EXPECT_EQ(sum.cells, 9);
  EXPECT_EQ(sum.units, 6);
  EXPECT_EQ(sum.last_done_unix_ms, 9);
  // Buckets end at 50 us, 75 us, ..
  for (const auto& [times, bucket, ns] :
       {std::tuple(&sum.request, 1, 70'000), {&sum.queue, 0, 20'000}, {&sum.compute, 0, 49'000}}) {
    EXPECT_EQ(times->count, 3);
    EXPECT_EQ(times->buckets[static_cast<size_t>(bucket)], 3);
    EXPECT_EQ(times->sum_ns, 3 * ns);
  }
}

TEST_F(StatsRegistryTest, ALaneIsCountedOnceWheneverItIsRead) {
  auto serving = Load("a", 1);
  const auto warming = Load("a", 2);
  Serve(*serving, 1);
  const std::vector<LaneStats> lanes = {Lane(serving->id, 10), Lane(warming->id, 20)};
  std::vector<int> places;
  registry_.Read(lanes, &places);
  EXPECT_THAT(places, ElementsAre(0, -1)) << "of the one that warms nobody has asked";
  registry_.LaneEnded(lanes[0]);
  places.clear();
  registry_.Read(lanes, &places);
  EXPECT_THAT(places, ElementsAre(-1, -1)) << "read before it ended, and counted since";
  serving.reset();
  places.clear();
  registry_.Read(lanes, &places);
  EXPECT_THAT(places, ElementsAre(-1, -1)) << "and gone";
  EXPECT_THAT(Lines(), ElementsAre("a/1 1 10", "/ 0"));
}

TEST_F(StatsRegistryTest, SumsHaveCountersAndNoGauges) {
  LaneStats first = Lane(ModelId(0), 10), second = Lane(ModelId(1), 6), sum;
  first.policies_taken = 2;
  second.policies_taken = 1;
  int64_t times = 1;
  for (LaneStats* const lane : {&first, &second}) {
    CellTypeStats& type = lane->types[0];
    type.padding = static_cast<uint64_t>(1 * times);
    type.discarded = static_cast<uint64_t>(2 * times);
    type.stop_steps = static_cast<uint64_t>(3 * times);
    type.overrun = static_cast<uint64_t>(4 * times);
    type.batch_size.buckets[5] = type.batch_size.count = static_cast<uint64_t>(5 * times);
    type.task_ns.sum = 6 * times;
    type.batch_ns[7] = 7 * times;
    times = 10;
  }
  AddCounters(first, sum);
  AddCounters(second, sum);
  EXPECT_EQ(sum.policies_taken, 3);
  EXPECT_EQ(sum.device_ns, 160);
  EXPECT_EQ(sum.running_requests, 0);
  ASSERT_EQ(sum.types.size(), 1u);
  EXPECT_EQ(sum.types[0].cells, 16u);
  EXPECT_EQ(sum.types[0].tasks, 8u);
  EXPECT_EQ(sum.types[0].padding, 11u);
  EXPECT_EQ(sum.types[0].discarded, 22u);
  EXPECT_EQ(sum.types[0].stop_steps, 33u);
  EXPECT_EQ(sum.types[0].overrun, 44u);
  EXPECT_EQ(sum.types[0].batch_size.buckets[5], 55u);
  EXPECT_EQ(sum.types[0].batch_size.count, 55u);
  EXPECT_EQ(sum.types[0].task_ns.sum, 66);
  EXPECT_EQ(sum.types[0].batch_ns[7], 77);
  EXPECT_EQ(sum.types[0].ready, 0);
  ASSERT_EQ(sum.decisions.size(), 1u);
  EXPECT_EQ(sum.decisions[0].tasks, 8u);
}

}  // namespace
}  // namespace cellbatch
