// What config.textproto says of who joins (`join`), as the scheduler's rule. Plain functions; any thread.
#ifndef CELLBATCH_SERVER_POLICY_JOIN_CODEC_H_
#define CELLBATCH_SERVER_POLICY_JOIN_CODEC_H_

#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/model.pb.h"
#include "scheduler/policy/join_spec.h"
#include "scheduler/policy/policy_spec.h"

namespace cellbatch {

// INVALID_ARGUMENT, with the place in front, for numbers that are out of bounds, and for padding and buckets where
// requests are no sequences. place: "config.textproto:38".
absl::StatusOr<JoinSpec> ReadJoin(const disk::ModelDescription& config, std::string_view place);

// What a JoinChoice says by itself: ReadJoin without the model.
absl::StatusOr<JoinSpec> ParseJoin(const disk::JoinChoice& join, std::string_view place);
disk::JoinChoice ToJoinChoice(const JoinSpec& join);

// Whether both go together: padded sequences are run by Algorithm 1 alone.
absl::Status CheckJoin(const JoinSpec& join, PolicyKind policy, std::string_view place);

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_POLICY_JOIN_CODEC_H_
