// Claims about records on disk: what a scheduler did is read again, as much of it as there is.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "scheduler/clock.h"
#include "scheduler/policy/make_rules.h"
#include "scheduler/record/schedule_replay.h"
#include "scheduler/scheduler_test_world.h"
#include "server/record/record_codec.h"
#include "server/record/record_writer.h"

namespace cellbatch {
namespace {

using namespace scheduler_testing;

constexpr int kRequests = 60;

std::string Bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

class RecordFileTest : public ::testing::Test {
 protected:
  // Sentences and trees on two devices, measured as they load, some of them cancelled. Two more, of the kind that the model
  // does not live on, may stand beside.
  void Record(int64_t limit, bool two_kinds = false) {
    auto writer = RecordWriter::Open(path_, limit);
    ASSERT_TRUE(writer.ok()) << writer.status();
    WorldOptions options;
    options.devices = two_kinds ? 4 : 2;
    if (two_kinds) options.kinds = {DeviceKind::kCpu, DeviceKind::kGpu};
    options.calibrate = calibrate_;
    options.scheduler.recorder = writer->get();
    options.scheduler.batch_limit = 16;
    {
      World world(options);
      const auto model = MakeModel(ModelId(7), {0, 4, 4, 4, 4});
      if (two_kinds) model->devices.cpu = false;
      PolicySpec policy;
      policy.kind = PolicyKind::kLbGreedy;
      policy.taller_first = true;
      auto rules = MakeRules(policy, {}, model->types.size());
      ASSERT_TRUE(rules.ok()) << rules.status();
      world.Add(model, *std::move(rules));
      for (int i = 0; i < kRequests; ++i) {
        auto request = i % 2 == 0 ? world.Sentence(model, 1 + i % 9) : world.Tree(model, 2 + i % 7);
        shapes_.push_back(ShapeOf(request->graph));
        const RequestId id = world.Submit(std::move(request), static_cast<uint64_t>(i));
        if (i % 10 == 3) world.scheduler().Notify(id, News::kCancelled);
        if (i % 3 == 0) world.Step();
        ends_ += world.Finished().size();
      }
      world.Run();
      ends_ += world.Finished().size();
    }
    (*writer)->Close();
    state_ = (*writer)->state();
    bytes_ = Bytes(path_);
    ASSERT_EQ(static_cast<int64_t>(bytes_.size()), state_.bytes);
  }

  ScheduleReport Replay(const RecordedRun& run) {
    const SteadyClock clock;
    ReplayOptions options;
    options.check_invariants = true;
    absl::StatusOr<ScheduleReport> report = ReplaySchedule(run, options, clock);
    EXPECT_TRUE(report.ok()) << report.status();
    return report.ok() ? *std::move(report) : ScheduleReport();
  }

  const std::string path_ = ::testing::TempDir() + "/server.record";
  bool calibrate_ = true;
  std::vector<GraphShape> shapes_;
  size_t ends_ = 0;
  RecordWriter::State state_;
  std::string bytes_;
};

TEST_F(RecordFileTest, WhatWasWrittenIsReadAndTakenAgainToTheSameHash) {
  Record(1 << 20);
  const auto run = ReadRecord(path_, 1 << 20);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->end, RecordEnd::kClosed);
  ASSERT_EQ(run->requests.size(), shapes_.size());
  EXPECT_EQ(ends_, shapes_.size());
  int64_t cancelled = 0;
  for (size_t i = 0; i < shapes_.size(); ++i) {
    EXPECT_EQ(run->requests[i].shape, shapes_[i]) << i;
    EXPECT_TRUE(run->requests[i].ended);
    if (run->requests[i].end.code == absl::StatusCode::kCancelled) {
      ++cancelled;
      EXPECT_GT(run->requests[i].cancelled_ns, 0);
    }
  }
  EXPECT_GT(cancelled, 0);
  const ScheduleReport report = Replay(*run);
  EXPECT_EQ(report.difference, "");
  EXPECT_EQ(report.ends_early, "");
  EXPECT_EQ(report.recorded_hash, report.replayed_hash);
  EXPECT_EQ(report.answers.size(), shapes_.size());
  EXPECT_GT(report.tasks, kRequests / 4);
}

TEST_F(RecordFileTest, WhereAModelLivedIsReadAndItsScheduleTakenAgainThere) {
  Record(1 << 20, /*two_kinds=*/true);
  auto run = ReadRecord(path_, 1 << 20);
  ASSERT_TRUE(run.ok()) << run.status();
  RecordedLane& lane = run->lanes.begin()->second;
  EXPECT_FALSE(lane.LivesIn(0));
  EXPECT_TRUE(lane.LivesIn(1));
  const ScheduleReport report = Replay(*run);
  EXPECT_EQ(report.difference, "");
  EXPECT_EQ(report.recorded_hash, report.replayed_hash);
  EXPECT_EQ(report.answers.size(), shapes_.size());
  const SteadyClock clock;
  lane.lives_in = 4;
  EXPECT_EQ(ReplaySchedule(*run, {}, clock).status().message(),
            "the record's lane 1 lives in none of its 2 memories");
}

TEST_F(RecordFileTest, NoByteOfAPayloadIsInIt) {
  Record(1 << 20);
  RecordedRun run = *ReadRecord(path_, 1 << 20);
  for (const CellType& type : run.lanes.begin()->second.model->types) {
    EXPECT_TRUE(type.weights.empty());
  }
  // Words are numbered from 1 on: as 32-bit numbers side by side they would be found.
  const int32_t words[] = {1, 2, 3};
  EXPECT_EQ(bytes_.find(std::string(reinterpret_cast<const char*>(words), sizeof(words))),
            std::string::npos);
}

TEST_F(RecordFileTest, AFileThatEndsAnywhereIsReadAndTakenAgainUpToItsLastWholeEntry) {
  Record(1 << 20);
  size_t most_tasks = 0;
  for (size_t length = bytes_.size() - 1; length > 400; length -= length / 7) {
    const auto run = ParseRecord(std::string_view(bytes_).substr(0, length), "cut");
    ASSERT_TRUE(run.ok()) << run.status() << " at " << length;
    EXPECT_EQ(run->end, RecordEnd::kTruncated);
    const ScheduleReport report = Replay(*run);
    EXPECT_EQ(report.difference, "");
    EXPECT_EQ(report.recorded_hash, report.replayed_hash);
    most_tasks = std::max(most_tasks, static_cast<size_t>(report.tasks));
  }
  EXPECT_GT(most_tasks, 0u);
}

TEST_F(RecordFileTest, ADamagedByteIsNotTakenForATruncatedTailAndItsPlaceIsSaid) {
  Record(1 << 20);
  for (const size_t at : {size_t{40}, bytes_.size() / 3, bytes_.size() / 2}) {
    std::string damaged = bytes_;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    const auto run = ParseRecord(damaged, "server.record");
    if (run.ok()) {  // a length that now points beyond the end
      EXPECT_EQ(run->end, RecordEnd::kTruncated) << at;
      continue;
    }
    EXPECT_EQ(run.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(run.status().message().find("server.record: the entry at byte "), std::string::npos)
        << run.status();
  }
}

TEST_F(RecordFileTest, WhatOneServerRecordsToNoOtherEmpties) {
  {
    auto first = RecordWriter::Open(path_, 1 << 20);
    ASSERT_TRUE(first.ok()) << first.status();
    (*first)->Began({});
    const auto empties = RecordWriter::Open(path_, 1 << 20);
    EXPECT_EQ(empties.status(),
              absl::FailedPreconditionError("--record " + path_ +
                                            ": another server that runs records to it"));
    (*first)->Close();
    const std::string written = Bytes(path_);
    EXPECT_GT(static_cast<int64_t>(written.size()), 0);
    EXPECT_EQ(static_cast<int64_t>(written.size()), (*first)->state().bytes);
    // Nor while the first one runs on without: it is full, say.
    EXPECT_FALSE(RecordWriter::Open(path_, 1 << 20).ok());
    EXPECT_EQ(Bytes(path_), written);
  }
  EXPECT_TRUE(RecordWriter::Open(path_, 1 << 20).ok());
  EXPECT_TRUE(RecordWriter::Open("/dev/null", 1 << 20).ok());
}

TEST_F(RecordFileTest, APipeThatNobodyReadsIsNotWaitedFor) {
  std::remove(path_.c_str());
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_EQ(RecordWriter::Open(path_, 1 << 20).status(),
            absl::FailedPreconditionError("--record " + path_ + ": a pipe that nobody reads"));
  std::remove(path_.c_str());
}

TEST_F(RecordFileTest, WhatIsNoRecordIsRefusedInWords) {
  for (const char* text : {"", "# a sentence of 3 words\n3\n", "\x05hello"}) {
    const auto run = ParseRecord(text, "words.txt");
    ASSERT_FALSE(run.ok());
    EXPECT_EQ(run.status().message().find("words.txt: "), 0u) << run.status();
  }
  disk::RecordEntry entry = EntryOf(RecordedSetup{});
  entry.mutable_header()->set_version(9);
  std::string bytes;
  AppendEntry(entry, bytes);
  EXPECT_NE(ParseRecord(bytes, "x").status().message().find("of version 9, 1 is read"),
            std::string::npos);
}

TEST_F(RecordFileTest, AFolderIsNoFileRatherThanOneOfExabytes) {
  EXPECT_EQ(std::string(ReadRecord("/proc/self", 1 << 20).status().message()),
            "/proc/self: it is no file");
}

TEST_F(RecordFileTest, OneThatIsLargerThanIsReadIsNotRead) {
  Record(1 << 20);
  const std::string size = std::to_string(bytes_.size()), less = std::to_string(bytes_.size() - 1);
  EXPECT_TRUE(ReadRecord(path_, static_cast<int64_t>(bytes_.size())).ok());
  EXPECT_EQ(
      std::string(ReadRecord(path_, static_cast<int64_t>(bytes_.size()) - 1).status().message()),
      path_ + ": it has " + size + " bytes, " + less + " are read");
}

// Nothing is said of what could not be written but that it could not.
TEST_F(RecordFileTest, ADiskThatIsFullIsSaidAndNobodyWaitsForIt) {
  for (const int pieces : {1, 20'000}) {  // less than a buffer, and more
    auto writer = RecordWriter::Open("/dev/full", 1 << 20);
    ASSERT_TRUE(writer.ok()) << writer.status();
    for (int i = 0; i < pieces; ++i) (*writer)->Began({.memory_of = {0, 0, 0, 0}});
    (*writer)->Close();
    EXPECT_TRUE((*writer)->state().failed) << pieces;
    EXPECT_FALSE((*writer)->state().full);
  }
}

// The queue empties as it is written: what was in it before does not count.
TEST_F(RecordFileTest, WhatFindsNoRoomOnItsWayIsCountedAndTheRestIsWritten) {
  constexpr int64_t kMost = int64_t{1} << 30;
  RecordedLane lane;
  auto model = std::make_shared<Model>();
  model->name = std::string(33 << 20, 'm');
  lane.model = model;
  auto writer = RecordWriter::Open(path_, kMost);
  ASSERT_TRUE(writer.ok()) << writer.status();
  (*writer)->Began({});
  for (lane.serial = 0; lane.serial < 2; ++lane.serial) {
    (*writer)->LaneMade(lane);
    const int64_t before = (*writer)->state().bytes;
    for (int i = 0; i < 10'000 && (*writer)->state().bytes == before; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  EXPECT_EQ((*writer)->state().lost_requests, 0u);
  model->name = std::string(65 << 20, 'm');
  (*writer)->LaneMade(lane);
  (*writer)->Close();
  EXPECT_EQ((*writer)->state().lost_requests, 1u);
  const auto run = ReadRecord(path_, kMost);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->lanes.size(), 2u);
  EXPECT_EQ(run->lost_requests, 1u);
  std::remove(path_.c_str());
}

// Each field has a value that no other has and that is not what it is where nobody says it.
TEST(RecordCodecTest, WhatASetupSaysIsReadAsItWasWritten) {
  const RecordedSetup setup = {.max_tasks_in_flight = 3,
                               .few_tasks_in_flight = 2,
                               .max_requests = 1001,
                               .max_wait_tasks = 17,
                               .chain_turn = 33,
                               .priority_ageing = 1234,
                               .batch_limit = 77,
                               .calibrate = false,
                               .stealing = 1,
                               .memory_of = {0, 1, 0}};
  std::string bytes;
  AppendEntry(EntryOf(setup), bytes);
  const auto run = ParseRecord(bytes, "record");
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->setup.max_tasks_in_flight, 3);
  EXPECT_EQ(run->setup.few_tasks_in_flight, 2);
  EXPECT_EQ(run->setup.max_requests, 1001);
  EXPECT_EQ(run->setup.max_wait_tasks, 17);
  EXPECT_EQ(run->setup.chain_turn, 33);
  EXPECT_EQ(run->setup.priority_ageing, 1234);
  EXPECT_EQ(run->setup.batch_limit, 77);
  EXPECT_FALSE(run->setup.calibrate);
  EXPECT_EQ(run->setup.stealing, 1);
  EXPECT_EQ(run->setup.memory_of, setup.memory_of);
}

TEST(RecordCodecTest, WhatLanesSayIsReadAsItWasWritten) {
  const auto model = MakeModel(ModelId(0), {5, 6, 7, 8, 9});
  model->version = 12;
  model->weight = 2.5;
  model->priority_levels = 4;
  model->default_priority_level = 3;
  model->unfold = {.phases = 2, .ghosts = true, .level_rows = true};
  model->types[1].min_batch = 2;
  model->types[2].least_max_batch = 4;
  RecordedLane lane;
  lane.index = 1;
  lane.serial = 6;
  lane.model = model;
  lane.lives_in = 2;
  lane.rows = {10, 20};
  lane.policy.made = true;
  lane.policy.spec.kind = PolicyKind::kRandom;
  lane.policy.spec.seed = 9;
  lane.join = {.whole_graphs = 5, .batching = {.bucket_width = 3, .leave_together = true}};
  RecordedPolicy later = lane.policy;
  later.spec.seed = 11;
  RecordedLane by_code;
  by_code.serial = 8;
  by_code.model = model;
  by_code.join_made = false;
  std::string bytes;
  AppendEntry(EntryOf(RecordedSetup{}), bytes);
  AppendEntry(EntryOf(lane), bytes);
  AppendEntry(TakeoverEntry(lane.serial, 2, later, *model), bytes);
  AppendEntry(EntryOf(by_code), bytes);
  const auto run = ParseRecord(bytes, "record");
  ASSERT_TRUE(run.ok()) << run.status();
  const RecordedLane& read = run->lanes.at(6);
  EXPECT_EQ(read.index, 1);
  EXPECT_EQ(read.lives_in, 2u);
  EXPECT_EQ(read.rows, lane.rows);
  EXPECT_EQ(read.policy.spec.seed, 9u);
  EXPECT_EQ(read.taken.at(2).spec.seed, 11u);
  EXPECT_EQ(Name(read.join), "whole_graphs of 5, buckets of 3, left together");
  EXPECT_TRUE(read.join_made);
  EXPECT_FALSE(run->lanes.at(8).join_made);
  EXPECT_FALSE(run->lanes.at(8).policy.made);
  EXPECT_EQ(run->lanes.at(8).lives_in, ~0u);
  const Model& same = *read.model;
  EXPECT_EQ(same.name, model->name);
  EXPECT_EQ(same.version, 12);
  EXPECT_EQ(same.weight, 2.5);
  EXPECT_EQ(same.priority_levels, 4);
  EXPECT_EQ(same.default_priority_level, 3);
  EXPECT_EQ(same.unfold.phases, 2);
  EXPECT_TRUE(same.unfold.ghosts);
  EXPECT_TRUE(same.unfold.level_rows);
  ASSERT_EQ(same.types.size(), model->types.size());
  for (size_t t = 0; t < same.types.size(); ++t) {
    EXPECT_EQ(same.types[t].name, model->types[t].name);
    EXPECT_EQ(same.types[t].in, model->types[t].in);
    EXPECT_EQ(same.types[t].out, model->types[t].out);
    EXPECT_EQ(same.types[t].definition->carry(), model->types[t].definition->carry());
    EXPECT_EQ(same.types[t].min_batch, model->types[t].min_batch);
    EXPECT_EQ(same.types[t].max_batch, model->types[t].max_batch);
    EXPECT_EQ(same.types[t].least_max_batch, model->types[t].least_max_batch);
    EXPECT_EQ(same.types[t].priority, model->types[t].priority);
  }
}

TEST(RecordCodecTest, WhatRequestsSayIsReadAsItWasWritten) {
  RecordedRequest request;
  request.id = 40;
  request.lane = 1;
  request.serial = 6;
  request.received_ns = 100;
  request.submitted_ns = 110;
  request.deadline_ns = 120;
  request.stream = true;
  request.priority = 3;
  PieceShape piece;
  piece.subgraphs = {{.table = 1, .length = 2},
                     {.type = 2,
                      .length = 7,
                      .num_links = 1,
                      .num_returns = 1,
                      .keeps_rows = true,
                      .stop_column = 1,
                      .stop_value = 5,
                      .phase = 1,
                      .place = 8}};
  piece.links = {{.from = 0, .input = 1, .first = 2, .stride = 3}};
  piece.returns = {{.column = 1, .first = 2, .count = 4}};
  piece.grows = true;
  PieceShape second = piece;
  second.grows = false;
  second.subgraphs[1].stop_column = -1;
  second.subgraphs[1].stop_value = 0;
  request.shape = {.pieces = {piece}, .most_pieces = 2, .most_nodes = 30, .most_rows = {4, 5}};
  const RecordedEnd end = {.code = absl::StatusCode::kDeadlineExceeded,
                           .first_task_start_ns = 111,
                           .last_task_end_ns = 119,
                           .nodes_executed = 6,
                           .stopped_at = {-1, 4}};
  std::string bytes;
  AppendEntry(EntryOf(RecordedSetup{}), bytes);
  AppendEntry(EntryOf(request), bytes);
  AppendEntry(NextPieceEntry(40, second), bytes);
  AppendEntry(NewsEntry(40, /*expired=*/true, 118), bytes);
  AppendEntry(NewsEntry(40, /*expired=*/false, 117), bytes);
  AppendEntry(EndEntry(40, end), bytes);
  disk::RecordEntry closed;
  closed.mutable_closed()->set_lost_steps(21);
  closed.mutable_closed()->set_lost_requests(22);
  AppendEntry(closed, bytes);
  const auto run = ParseRecord(bytes, "record");
  ASSERT_TRUE(run.ok()) << run.status();
  const RecordedRequest& read = run->requests.at(0);
  EXPECT_EQ(read.id, 40u);
  EXPECT_EQ(read.lane, 1);
  EXPECT_EQ(read.serial, 6u);
  EXPECT_EQ(read.received_ns, 100);
  EXPECT_EQ(read.submitted_ns, 110);
  EXPECT_EQ(read.deadline_ns, 120);
  EXPECT_TRUE(read.stream);
  EXPECT_EQ(read.priority, 3);
  request.shape.pieces.push_back(second);
  EXPECT_EQ(read.shape, request.shape);
  EXPECT_EQ(read.expired_ns, 118);
  EXPECT_EQ(read.cancelled_ns, 117);
  EXPECT_TRUE(read.ended);
  EXPECT_EQ(read.end.code, end.code);
  EXPECT_EQ(read.end.first_task_start_ns, 111);
  EXPECT_EQ(read.end.last_task_end_ns, 119);
  EXPECT_EQ(read.end.nodes_executed, 6);
  EXPECT_EQ(read.end.stopped_at, end.stopped_at);
  EXPECT_EQ(run->end, RecordEnd::kClosed);
  EXPECT_EQ(run->lost_steps, 21u);
  EXPECT_EQ(run->lost_requests, 22u);
}

// A record of these entries behind a header, or what is wrong with it.
std::string Refused(const std::vector<disk::RecordEntry>& entries) {
  std::string bytes;
  AppendEntry(EntryOf(RecordedSetup{}), bytes);
  for (const disk::RecordEntry& entry : entries) AppendEntry(entry, bytes);
  const auto run = ParseRecord(bytes, "r");
  return run.ok() ? "taken" : std::string(run.status().message());
}

RecordedLane LaneOfTests() {
  RecordedLane lane;
  lane.serial = 6;
  lane.model = MakeModel(ModelId(0));
  return lane;
}

TEST(RecordCodecTest, WhatContradictsItselfIsRefusedByItsNumber) {
  RecordedRequest request;
  request.id = 40;
  request.shape.pieces.push_back({.subgraphs = {{.table = 0}, {.type = 1, .num_links = 1}},
                                  .links = {{.from = 0}},
                                  .returns = {}});
  const disk::RecordEntry lane = EntryOf(LaneOfTests()), one = EntryOf(request);
  EXPECT_EQ(Refused({lane, one}), "taken");
  EXPECT_EQ(Refused({lane, lane}), "r: lane 6 is there twice");
  EXPECT_EQ(Refused({lane, one, one}), "r: request 40 is there twice");
  EXPECT_EQ(Refused({EntryOf(RecordedSetup{})}), "r: it has two headers");
  EXPECT_EQ(Refused({TakeoverEntry(7, 1, {}, *LaneOfTests().model)}),
            "r: lane 7 takes over a policy, and is not there");
  disk::RecordEntry of_others = EntryOf(RecordedSetup{});
  of_others.mutable_header()->set_magic("cellbatch-recorf");
  std::string bytes;
  AppendEntry(of_others, bytes);
  EXPECT_EQ(std::string(ParseRecord(bytes, "r").status().message()),
            "r: its header is no record's");
  bytes.clear();
  AppendEntry(one, bytes);
  EXPECT_EQ(std::string(ParseRecord(bytes, "r").status().message()),
            "r: its first entry is no header");
}

TEST(RecordCodecTest, AShapeWhoseListsAreNotAsLongAsEachOtherIsNone) {
  RecordedRequest request;
  request.id = 40;
  request.shape.pieces.push_back({.subgraphs = {{.table = 0},
                                                {.type = 1,
                                                 .num_links = 1,
                                                 .num_returns = 1,
                                                 .stop_column = 1,
                                                 .phase = 1,
                                                 .place = 2}},
                                  .links = {{.from = 0}},
                                  .returns = {{}}});
  const disk::RecordEntry good = EntryOf(request);
  EXPECT_EQ(Refused({good}), "taken");
  const auto with = [&](auto change) {
    disk::RecordEntry entry = good;
    change(*entry.mutable_request()->mutable_piece());
    return Refused({entry});
  };
  const std::string none = "r: request 40 is of no shape";
  EXPECT_EQ(with([](auto& p) { p.mutable_table()->RemoveLast(); }), none);
  EXPECT_EQ(with([](auto& p) { p.mutable_length()->RemoveLast(); }), none);
  EXPECT_EQ(with([](auto& p) { p.mutable_links()->RemoveLast(); }), none);
  EXPECT_EQ(with([](auto& p) { p.mutable_returns()->RemoveLast(); }), none);
  EXPECT_EQ(with([](auto& p) { p.mutable_keeps_rows()->RemoveLast(); }), none);
  EXPECT_EQ(with([](auto& p) {
              p.mutable_stop_column()->RemoveLast();
              p.mutable_stop_value()->RemoveLast();
            }),
            none);
  EXPECT_EQ(with([](auto& p) { p.mutable_stop_value()->RemoveLast(); }), none);
  EXPECT_EQ(with([](auto& p) { p.mutable_phase()->RemoveLast(); }), none);
  EXPECT_EQ(with([](auto& p) { p.mutable_place()->RemoveLast(); }), none);
  EXPECT_EQ(with([](auto& p) { p.mutable_link_input()->RemoveLast(); }), none);
  EXPECT_EQ(with([](auto& p) { p.mutable_link_first()->RemoveLast(); }), none);
  EXPECT_EQ(with([](auto& p) { p.mutable_link_stride()->RemoveLast(); }), none);
  EXPECT_EQ(with([](auto& p) { p.mutable_return_column()->RemoveLast(); }), none);
  EXPECT_EQ(with([](auto& p) { p.mutable_return_count()->RemoveLast(); }), none);
  disk::RecordEntry piece = NextPieceEntry(40, request.shape.pieces[0]);
  piece.mutable_next_piece()->mutable_piece()->mutable_table()->RemoveLast();
  EXPECT_EQ(Refused({good, piece}), "r: a piece of request 40 is of no shape");
}

TEST(RecordCodecTest, AModelThatCannotBeIsRefusedByItsName) {
  const auto with = [](auto change) {
    disk::RecordEntry entry = EntryOf(LaneOfTests());
    change(*entry.mutable_lane());
    return Refused({entry});
  };
  EXPECT_EQ(with([](auto&) {}), "taken");
  EXPECT_EQ(with([](auto& lane) { lane.set_weight(0); }),
            "r: recorded model \"model0\": its weight is none");
  EXPECT_EQ(with([](auto& lane) { lane.set_default_priority_level(2); }),
            "r: recorded model \"model0\": its priority levels are none");
  EXPECT_EQ(with([](auto& lane) { lane.mutable_types(0)->set_carry(3); }),
            "r: recorded model \"model0\": type \"chain\" carries no input");
  EXPECT_EQ(with([](auto& lane) { lane.mutable_types(1)->mutable_inputs(0)->set_columns(0, 1); }),
            "r: recorded model \"model0\": type \"leaf\" reads no columns by \"x\"");
  EXPECT_EQ(with([](auto& lane) { lane.mutable_types(1)->set_leaves(0, -1); }),
            "r: recorded model \"model0\": type \"leaf\" leaves no columns");
}

// Records of servers that did not know of a field yet.
TEST(RecordCodecTest, WhatAnOlderRecordDoesNotSayIsAsItWasThen) {
  disk::RecordEntry header = EntryOf(RecordedSetup{}), lane = EntryOf(LaneOfTests());
  header.mutable_header()->clear_priority_ageing();
  lane.mutable_lane()->clear_lives_in();
  std::string bytes;
  AppendEntry(header, bytes);
  AppendEntry(lane, bytes);
  const auto run = ParseRecord(bytes, "r");
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->setup.priority_ageing, RecordedSetup().priority_ageing);
  EXPECT_EQ(run->lanes.at(6).lives_in, ~0u) << "everywhere";
}

// Five bytes of 7 bits, and no more than a message may have.
TEST(RecordCodecTest, ALengthThatIsNoneIsDamageAndNotAnEnd) {
  std::string header;
  AppendEntry(EntryOf(RecordedSetup{}), header);
  const std::string at = std::to_string(header.size());
  for (const std::string length :
       {"\xff\xff\xff\xff\x0f", "\x80\x80\x80\x80\x80\x01", "\xff\xff\xff\xff\xff\xff"}) {
    EXPECT_EQ(std::string(ParseRecord(header + length, "r").status().message()),
              "r: the entry at byte " + at + " of " +
                  std::to_string(header.size() + length.size()) + " has no length");
  }
  EXPECT_TRUE(ParseRecord(header + "\x80\x80", "r").ok()) << "the writer ended here";
  EXPECT_TRUE(ParseRecord(header.substr(0) + std::string("\x03"
                                                         "abc"
                                                         "\0\0",
                                                         6),
                          "r")
                  .ok())
      << "in the middle of a check";
}

TEST_F(RecordFileTest, AtItsLimitItIsClosedSaysSoAndIsStillARecord) {
  // What is measured takes 7 KB: where the writer comes by in front of the first request, the file would be full of that.
  calibrate_ = false;
  Record(4 << 10);
  EXPECT_TRUE(state_.full);
  EXPECT_LE(state_.bytes, 4 << 10);
  EXPECT_EQ(ends_, shapes_.size()) << "who is recorded does not wait for the record";
  const auto run = ParseRecord(bytes_, "full");
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->end, RecordEnd::kFull);
  EXPECT_GT(run->requests.size(), 0u);
  EXPECT_LT(run->requests.size(), shapes_.size());
  const ScheduleReport report = Replay(*run);
  EXPECT_EQ(report.difference, "");
  EXPECT_EQ(report.recorded_hash, report.replayed_hash);
}

}  // namespace
}  // namespace cellbatch
