// Pieces of sequences whose state the server keeps, and a stream of them, written without waiting for answers: of calls on their
// own nobody knows in which order they come.
#ifndef CELLBATCH_TESTS_FAULT_SEQUENCE_PIECES_H_
#define CELLBATCH_TESTS_FAULT_SEQUENCE_PIECES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tests/fault/served_models.h"

namespace cellbatch {

enum class Mark : uint8_t { kNone, kStart, kEnd, kBoth };

// `id`: a number or a text.
template <typename Id>
inference::ModelInferRequest Piece(const Id& id, inference::ModelInferRequest request,
                                   Mark mark = Mark::kNone) {
  auto& parameters = *request.mutable_parameters();
  if constexpr (std::is_integral_v<Id>) {
    parameters["sequence_id"].set_int64_param(id);
  } else {
    parameters["sequence_id"].set_string_param(id);
  }
  if (mark == Mark::kStart || mark == Mark::kBoth) {
    parameters["sequence_start"].set_bool_param(true);
  }
  if (mark == Mark::kEnd || mark == Mark::kBoth) parameters["sequence_end"].set_bool_param(true);
  return request;
}
template <typename Id>
inference::ModelInferRequest Piece(const Id& id, const std::vector<int32_t>& words,
                                   Mark mark = Mark::kNone) {
  return Piece(id, Words(words), mark);
}

// One ModelStreamInfer. What is written is in the order in which it was; answers come in that order, too.
class PieceStream {
 public:
  explicit PieceStream(GrpcCaller& caller) : stream_(caller.stub().ModelStreamInfer(&context_)) {}
  ~PieceStream() {
    if (!ended_) Cancel();
  }
  void Write(const inference::ModelInferRequest& request) { stream_->Write(request); }
  // The next answer's first output; none: it was refused, and error() says why.
  std::vector<float> Read() {
    inference::ModelStreamInferResponse answer;
    error_ = stream_->Read(&answer) ? answer.error_message() : "the stream has ended";
    return error_.empty() ? FirstOutput(answer.infer_response()) : std::vector<float>();
  }
  const std::string& error() const { return error_; }
  // Nothing more is written; what was not read is lost.
  grpc::Status End() {
    stream_->WritesDone();
    return Finish();
  }
  grpc::Status Cancel() {
    context_.TryCancel();
    return Finish();
  }

 private:
  grpc::Status Finish() {
    ended_ = true;
    inference::ModelStreamInferResponse answer;
    while (stream_->Read(&answer)) {
    }
    return stream_->Finish();
  }

  grpc::ClientContext context_;
  std::unique_ptr<
      grpc::ClientReaderWriter<inference::ModelInferRequest, inference::ModelStreamInferResponse>>
      stream_;
  std::string error_;
  bool ended_ = false;
};

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_FAULT_SEQUENCE_PIECES_H_
