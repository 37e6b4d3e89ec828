#include "client/infer_answers.h"

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/support/proto_buffer_reader.h>

#include <string>

namespace cellbatch {
namespace {

using google::protobuf::io::CodedInputStream;

constexpr uint32_t kAnswers = 4 << 3 | 2;  // InferResponse.answers
constexpr uint32_t kCode = 1 << 3 | 0;     // Answer.code
constexpr uint32_t kError = 2 << 3 | 2;    // Answer.error

bool SkipField(CodedInputStream& in, uint32_t tag) {
  uint64_t number = 0;
  uint32_t length = 0;
  if (tag >> 3 == 0) {
    return false;  // no field has that number
  }
  switch (tag & 7) {
    case 0:
      return in.ReadVarint64(&number);
    case 1:
      return in.Skip(8);
    case 2:
      return in.ReadVarint32(&length) && in.Skip(static_cast<int>(length));
    case 5:
      return in.Skip(4);
    default:
      return false;
  }
}

// False: malformed.
bool ReadAnswer(CodedInputStream& in, absl::Status& status) {
  uint32_t length = 0;
  if (!in.ReadVarint32(&length)) {
    return false;
  }
  const CodedInputStream::Limit limit = in.PushLimit(static_cast<int>(length));
  uint32_t code = 0;
  std::string error;
  while (const uint32_t tag = in.ReadTag()) {
    const bool read = tag == kCode    ? in.ReadVarint32(&code)
                      : tag == kError ? in.ReadVarint32(&length) &&
                                            in.ReadString(&error, static_cast<int>(length))
                                      : SkipField(in, tag);
    if (!read) {
      return false;
    }
  }
  // Else it is shorter than it claims, or ends in a tag of zero or one cut off.
  const bool whole = in.BytesUntilLimit() == 0 && in.ConsumedEntireMessage();
  in.PopLimit(limit);
  status = absl::Status(static_cast<absl::StatusCode>(code), error);
  return whole;
}

}  // namespace

absl::Status CheckAnswers(const grpc::ByteBuffer& response, uint32_t inputs) {
  // (It reads only; gRPC's reader wants a buffer that may be changed.)
  grpc::ProtoBufferReader bytes(const_cast<grpc::ByteBuffer*>(&response));
  CodedInputStream in(&bytes);
  absl::Status first;
  uint32_t answers = 0;
  while (const uint32_t tag = in.ReadTag()) {
    absl::Status status;
    if (tag != kAnswers ? !SkipField(in, tag) : !ReadAnswer(in, status)) {
      return absl::InternalError("the answer is no InferResponse");
    }
    answers += tag == kAnswers ? 1 : 0;
    // An input that was refused for want of room does not hide one that failed.
    if (first.ok() ||
        (absl::IsResourceExhausted(first) && !status.ok() && !absl::IsResourceExhausted(status))) {
      first = status;
    }
  }
  if (!in.ConsumedEntireMessage()) {  // a tag of zero, or one cut off
    return absl::InternalError("the answer is no InferResponse");
  }
  if (first.ok() && answers != inputs) {
    return absl::InternalError(fmt::format("{} inputs got {} answers", inputs, answers));
  }
  return first;
}

}  // namespace cellbatch
