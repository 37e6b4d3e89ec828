// What the scheduler says, as entries.
#include "server/policy/join_codec.h"
#include "server/policy/policy_codec.h"
#include "server/record/piece_codec.h"
#include "server/record/record_codec.h"
#include "server/record/recorded_model.h"

namespace cellbatch {

disk::RecordEntry EntryOf(const RecordedSetup& setup) {
  disk::RecordEntry entry;
  disk::RecordHeader& header = *entry.mutable_header();
  header.set_magic(kRecordMagic);
  header.set_version(kRecordVersion);
  header.set_max_tasks_in_flight(setup.max_tasks_in_flight);
  header.set_few_tasks_in_flight(setup.few_tasks_in_flight);
  header.set_max_requests(setup.max_requests);
  header.set_max_wait_tasks(setup.max_wait_tasks);
  header.set_chain_turn(setup.chain_turn);
  header.set_priority_ageing(setup.priority_ageing);
  header.set_batch_limit(setup.batch_limit);
  header.set_calibrate(setup.calibrate);
  header.set_stealing(setup.stealing);
  for (const int memory : setup.memory_of) header.add_memory_of(memory);
  return entry;
}

disk::RecordEntry EntryOf(const RecordedLane& lane) {
  disk::RecordEntry entry;
  disk::RecordedLane& to = *entry.mutable_lane();
  to.set_index(lane.index);
  to.set_serial(lane.serial);
  DescribeModel(*lane.model, to);
  to.set_lives_in(lane.lives_in);
  for (const int32_t rows : lane.rows) to.add_rows(rows);
  if (lane.policy.made) to.set_policy(PolicyText(ToPolicyFile(lane.policy.spec, *lane.model)));
  to.set_policy_seed(lane.policy.spec.seed);
  to.set_join_by_code(!lane.join_made);
  *to.mutable_join() = ToJoinChoice(lane.join);
  return entry;
}

disk::RecordEntry TakeoverEntry(uint32_t serial, uint32_t number, const RecordedPolicy& policy,
                                const Model& model) {
  disk::RecordEntry entry;
  disk::RecordedTakeover& to = *entry.mutable_takeover();
  to.set_serial(serial);
  to.set_number(number);
  if (policy.made) to.set_policy(PolicyText(ToPolicyFile(policy.spec, model)));
  to.set_policy_seed(policy.spec.seed);
  return entry;
}

disk::RecordEntry EntryOf(const RecordedRequest& request) {
  disk::RecordEntry entry;
  disk::RecordedRequest& to = *entry.mutable_request();
  to.set_id(request.id);
  to.set_lane(request.lane);
  to.set_serial(request.serial);
  to.set_received_ns(request.received_ns);
  to.set_submitted_ns(request.submitted_ns);
  to.set_deadline_ns(request.deadline_ns);
  to.set_stream(request.stream);
  to.set_priority(request.priority);
  Describe(request.shape.pieces.front(), *to.mutable_piece());
  to.set_most_pieces(request.shape.most_pieces);
  to.set_most_nodes(request.shape.most_nodes);
  for (const int32_t rows : request.shape.most_rows) to.add_most_rows(rows);
  return entry;
}

disk::RecordEntry NextPieceEntry(uint64_t request, const PieceShape& piece) {
  disk::RecordEntry entry;
  entry.mutable_next_piece()->set_id(request);
  Describe(piece, *entry.mutable_next_piece()->mutable_piece());
  return entry;
}

disk::RecordEntry NewsEntry(uint64_t request, bool expired, int64_t at_ns) {
  disk::RecordEntry entry;
  entry.mutable_news()->set_id(request);
  entry.mutable_news()->set_expired(expired);
  entry.mutable_news()->set_at_ns(at_ns);
  return entry;
}

disk::RecordEntry EndEntry(uint64_t request, const RecordedEnd& end) {
  disk::RecordEntry entry;
  disk::RecordedEnd& to = *entry.mutable_end();
  to.set_id(request);
  to.set_status(static_cast<int>(end.code));
  to.set_first_task_start_ns(end.first_task_start_ns);
  to.set_last_task_end_ns(end.last_task_end_ns);
  to.set_nodes_executed(end.nodes_executed);
  for (const int32_t node : end.stopped_at) to.add_stopped_at(node);
  return entry;
}

}  // namespace cellbatch
