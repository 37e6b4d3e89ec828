// What a recorder is told, and what a record holds once it is read: a server's set-up, its lanes, the shapes of its
// requests with when they came and how they ended, and the tape of its schedule. No payload: neither weights nor what
// requests brought or got. Plain values.
#ifndef CELLBATCH_SCHEDULER_RECORD_RECORDED_RUN_H_
#define CELLBATCH_SCHEDULER_RECORD_RECORDED_RUN_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "cells/model.h"
#include "scheduler/policy/join_spec.h"
#include "scheduler/policy/policy_spec.h"
#include "scheduler/record/graph_shape.h"

namespace cellbatch {

// Of a scheduler, whatever of it decides.
struct RecordedSetup {
  int max_tasks_in_flight = 0;  // in force
  int few_tasks_in_flight = 0;  // likewise; 0, of records without it: as many
  int max_requests = 0;
  int max_wait_tasks = 0;
  int chain_turn = 0;
  int64_t priority_ageing = 1000;  // of records that do not say it
  int32_t batch_limit = 0;
  bool calibrate = true;
  int stealing = 0;            // Stealing
  std::vector<int> memory_of;  // by device: which of the memories it computes on
};

// A policy by name, as a lane has it or takes it over. `made` false: by code that no record can hold.
struct RecordedPolicy {
  bool made = false;
  PolicySpec spec;
};

struct RecordedLane {
  int index = 0;
  uint32_t serial = 0;
  std::shared_ptr<const Model>
      model;                  // read from a record: without weights, and cells that compute nothing
  uint32_t lives_in = ~0u;    // memories, as bits
  std::vector<int32_t> rows;  // by table, in each of them
  RecordedPolicy policy;
  std::map<uint32_t, RecordedPolicy> taken;  // over while it served, by number from 1 on
  bool join_made = true;                     // false: as RecordedPolicy::made
  JoinSpec join;
  bool LivesIn(int memory) const {
    return memory >= 0 && memory < 32 && (lives_in >> memory & 1) != 0;
  }
};

struct RecordedEnd {
  absl::StatusCode code = absl::StatusCode::kUnknown;
  int64_t first_task_start_ns = 0, last_task_end_ns = 0;
  int64_t nodes_executed = 0;
  // Of its chains with a stop, in order: the node where it fell; -1: nowhere that was seen.
  std::vector<int32_t> stopped_at;
};

struct RecordedRequest {
  uint64_t id = 0;                                             // ScheduleTape::RequestWord
  int lane = 0;                                                // index
  uint32_t serial = 0;                                         // of the lane
  int64_t received_ns = 0, submitted_ns = 0, deadline_ns = 0;  // steady clock; deadline 0: none
  bool stream = false;
  int32_t priority = 0;  // as Request has it
  GraphShape shape;
  // Of news for it: when it was told; 0: never.
  int64_t cancelled_ns = 0, expired_ns = 0;
  bool ended = false;
  RecordedEnd end;
};

// How a record came to its end.
enum class RecordEnd : uint8_t {
  kTruncated,  // the process or its machine ended first; all that was written is there
  kClosed,
  kFull,  // --record-limit
};

struct RecordedRun {
  RecordedSetup setup;
  std::map<uint32_t, RecordedLane> lanes;  // by serial
  std::vector<RecordedRequest> requests;   // as they came
  std::unordered_map<uint64_t, size_t> request_at;
  std::vector<uint64_t> tape;  // schedule_tape.h
  RecordEnd end = RecordEnd::kTruncated;
  // What did not find room on its way to the file: steps of the schedule (its tape ends before them), requests' shapes.
  uint64_t lost_steps = 0, lost_requests = 0;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_RECORD_RECORDED_RUN_H_
