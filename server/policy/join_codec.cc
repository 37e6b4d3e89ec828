#include "server/policy/join_codec.h"

#include <fmt/format.h>

#include <string>

namespace cellbatch {
namespace {

constexpr int32_t kMostWholeGraphs = 4096;  // as many may join at once (SchedulerOptions)
constexpr int32_t kWidestBucket = 4096;

absl::Status Refused(std::string_view place, const std::string& what) {
  return absl::InvalidArgumentError(fmt::format("{}: join.whole_graphs.{}", place, what));
}

std::string UnfolderName(const disk::ModelDescription& config) {
  const auto* const field =
      disk::ModelDescription::descriptor()->FindFieldByNumber(config.unfolder_case());
  return field == nullptr ? "nothing" : field->name();
}

absl::Status CheckSequences(const disk::ModelDescription& config, std::string_view place) {
  const disk::WholeGraphs& join = config.join().whole_graphs();
  const auto unfolder = config.unfolder_case();
  const bool chain = unfolder == disk::ModelDescription::kChain;
  const std::string padding = disk::Padding_Name(join.padding());
  if (join.padding() != disk::PADDING_UNSPECIFIED && !chain) {
    return Refused(place, fmt::format("padding is {}: only a chain's requests are sequences of one "
                                      "length, and the model has a {}",
                                      padding, UnfolderName(config)));
  }
  if (join.padding() != disk::PADDING_UNSPECIFIED && config.granularity() == disk::OPERATOR) {
    return Refused(place,
                   fmt::format("padding is {}: with granularity OPERATOR there are no chains of "
                               "cells to pad",
                               padding));
  }
  if (join.bucket_width() > 0 && !chain && unfolder != disk::ModelDescription::kEncoderDecoder) {
    return Refused(place, fmt::format("bucket_width is {}: only sequences are sorted by length, "
                                      "and the model has a {}",
                                      join.bucket_width(), UnfolderName(config)));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<JoinSpec> ReadJoin(const disk::ModelDescription& config, std::string_view place) {
  absl::StatusOr<JoinSpec> spec = ParseJoin(config.join(), place);
  if (!spec.ok()) return spec;
  if (absl::Status s = CheckSequences(config, place); !s.ok()) return s;
  return spec;
}

absl::StatusOr<JoinSpec> ParseJoin(const disk::JoinChoice& choice, std::string_view place) {
  if (!choice.has_whole_graphs()) return JoinSpec{};
  const disk::WholeGraphs& join = choice.whole_graphs();
  if (join.most() < 1 || join.most() > kMostWholeGraphs) {
    return Refused(place,
                   fmt::format("most is {}, allowed are 1 to {}", join.most(), kMostWholeGraphs));
  }
  if (join.bucket_width() < 0 || join.bucket_width() > kWidestBucket) {
    return Refused(place, fmt::format("bucket_width is {}, allowed are 0 to {}",
                                      join.bucket_width(), kWidestBucket));
  }
  if (!disk::Padding_IsValid(join.padding())) {
    return Refused(place, fmt::format("padding is {}, which is none", join.padding()));
  }
  if (join.padding() == disk::TO_THE_BUCKET && join.bucket_width() == 0) {
    return Refused(place, "padding is TO_THE_BUCKET, and there is no bucket_width");
  }
  JoinSpec spec{.whole_graphs = join.most()};
  spec.batching = {
      .padding = join.padding() == disk::TO_THE_LONGEST  ? GraphBatching::Padding::kLongest
                 : join.padding() == disk::TO_THE_BUCKET ? GraphBatching::Padding::kBucket
                                                         : GraphBatching::Padding::kNone,
      .bucket_width = join.bucket_width(),
      .leave_together = join.leave_together()};
  return spec;
}

disk::JoinChoice ToJoinChoice(const JoinSpec& join) {
  disk::JoinChoice choice;
  if (join.whole_graphs == 0) return choice;
  disk::WholeGraphs& to = *choice.mutable_whole_graphs();
  to.set_most(static_cast<int32_t>(join.whole_graphs));
  to.set_bucket_width(join.batching.bucket_width);
  switch (join.batching.padding) {
    case GraphBatching::Padding::kNone:
      break;
    case GraphBatching::Padding::kLongest:
      to.set_padding(disk::TO_THE_LONGEST);
      break;
    case GraphBatching::Padding::kBucket:
      to.set_padding(disk::TO_THE_BUCKET);
      break;
  }
  to.set_leave_together(join.batching.leave_together);
  return choice;
}

absl::Status CheckJoin(const JoinSpec& join, PolicyKind policy, std::string_view place) {
  const bool pads = join.batching.padding != GraphBatching::Padding::kNone;
  if (!pads || policy == PolicyKind::kCellular) return absl::OkStatus();
  return Refused(place,
                 fmt::format("padding: the model's policy is {}, and padded sequences are run "
                             "by CELLULAR alone (policy {{ kind: CELLULAR }})",
                             Name(policy)));
}

}  // namespace cellbatch
