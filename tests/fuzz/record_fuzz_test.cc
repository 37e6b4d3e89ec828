// Damaged records: each is refused in words, or what is read of it makes graphs that seal or are refused. Damage reaches
// behind the checks of single entries: those are made anew.
#include <gtest/gtest.h>

#include <iostream>
#include <string>
#include <vector>

#include "cells/any_cell.h"
#include "google/protobuf/stubs/logging.h"
#include "server/record/record_codec.h"
#include "tests/fuzz/fuzz_budget.h"
#include "tests/fuzz/mutator.h"

namespace cellbatch {
namespace {

constexpr uint64_t kSeed = 20261123;

std::shared_ptr<const Model> Chains() {
  const Column h{"h", ElementType::kFp32, 4}, word{"word", ElementType::kInt32, 1};
  auto model = std::make_shared<Model>();
  model->name = "chains";
  model->tables = {{"tokens", {word}}, {"words", {h, word}}};
  CellType type;
  type.id = CellTypeId(0);
  type.name = "decoder";
  type.definition =
      testing::AnyCell("decoder", {{"x", {word}}, {"before", {h, word}}}, {h, word}, InputId(1));
  type.in = {TableId(0), TableId(1)};
  type.out = TableId(1);
  model->types.push_back(std::move(type));
  return model;
}

// A chain over its words that stops, and another one behind it in a second piece.
GraphShape Growing() {
  GraphShape shape;
  shape.most_pieces = 1;
  shape.most_nodes = 3;
  shape.most_rows = {0, 3};
  shape.pieces.resize(2);
  shape.pieces[0].subgraphs = {{.table = 0, .length = 5},
                               {.type = 0,
                                .length = 5,
                                .num_links = 1,
                                .num_returns = 1,
                                .stop_column = 1,
                                .stop_value = 3}};
  shape.pieces[0].links = {{.from = 0, .stride = 1}};
  shape.pieces[0].returns = {{.column = 1, .count = 5}};
  shape.pieces[0].grows = true;
  shape.pieces[1].subgraphs = {{.type = 0, .length = 3, .num_links = 1, .num_returns = 1}};
  shape.pieces[1].links = {{.from = 1, .input = 1, .first = kLastNode}};
  shape.pieces[1].returns = {{.column = 0, .first = 1, .count = 2}};
  return shape;
}

std::vector<std::string> Entries() {
  RecordedSetup setup;
  setup.max_tasks_in_flight = 2;
  setup.memory_of = {0};
  RecordedLane lane;
  lane.serial = 1;
  lane.model = Chains();
  lane.rows = {100, 100};
  lane.policy.made = true;
  RecordedRequest request;
  request.id = 77;
  request.serial = 1;
  request.shape = Growing();
  disk::RecordEntry steps;
  steps.mutable_steps()->add_words(1);
  std::vector<std::string> entries;
  for (const disk::RecordEntry& entry :
       {EntryOf(setup), EntryOf(lane), EntryOf(request),
        NextPieceEntry(77, request.shape.pieces[1]), NewsEntry(77, true, 5),
        EndEntry(77, RecordedEnd{.stopped_at = {2}}), steps}) {
    entries.push_back(entry.SerializeAsString());
  }
  return entries;
}

std::string Framed(const std::vector<std::string>& entries) {
  std::string bytes;
  for (const std::string& entry : entries) AppendMessage(entry, bytes);
  return bytes;
}

TEST(RecordFuzzTest, DamagedRecordsAreRefusedOrMakeGraphsThatAreChecked) {
  std::cout << "seed " << kSeed << "\n";
  google::protobuf::SetLogHandler(nullptr);  // which says each time what it refuses
  const std::vector<std::string> good = Entries();
  const auto whole = ParseRecord(Framed(good), "record");
  ASSERT_TRUE(whole.ok()) << whole.status();
  ASSERT_TRUE(BuildGraph(whole->requests[0].shape, *whole->lanes.at(1).model, 2).ok());
  Mutator mutator(kSeed, {"\xff\xff\xff\xff\x07", "\x80", std::string(1, '\0'), "\x7f", "\x0a"});
  int64_t refused = 0, sealed = 0, unsealed = 0;
  FuzzBudget budget(2000);
  while (budget.Next() && !HasFailure()) {
    std::vector<std::string> entries = good;
    // Mostly one byte of a request: another length, type or link.
    const size_t which =
        mutator.Below(2) == 0 ? 2 + mutator.Below(2) : mutator.Below(entries.size());
    std::string& entry = entries[which];
    if (mutator.Below(3) == 0) {
      entry = mutator.Mutate(entry);
    } else {
      entry[mutator.Below(entry.size())] = static_cast<char>(mutator.Below(32));
    }
    std::string bytes = Framed(entries);
    if (mutator.Below(8) == 0) bytes = mutator.Mutate(bytes);
    const auto run = ParseRecord(bytes, "record");
    if (!run.ok()) {
      ++refused;
      EXPECT_EQ(run.status().message().find("record"), 0u) << run.status();
      continue;
    }
    for (const RecordedRequest& request : run->requests) {
      const auto lane = run->lanes.find(request.serial);
      if (lane == run->lanes.end()) continue;
      ++(BuildGraph(request.shape, *lane->second.model, 2).ok() ? sealed : unsealed);
    }
  }
  std::cout << refused << " refused, " << sealed << " graphs sealed, " << unsealed << " not\n";
  EXPECT_GT(refused, budget.cases() / 10);
  EXPECT_GT(sealed, budget.cases() / 20);
  EXPECT_GT(unsealed, budget.cases() / 200);
}

}  // namespace
}  // namespace cellbatch
