// Clients that take no byte of their answers until they are told to: what they have asked for is in flight for as long as a
// test likes. A library would read.
#ifndef CELLBATCH_TESTS_FAULT_UNREAD_ANSWERS_H_
#define CELLBATCH_TESTS_FAULT_UNREAD_ANSWERS_H_

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "tests/e2e/tcp_connection.h"
#include "tests/fault/http2_by_hand.h"
#include "tests/fault/served_models.h"

namespace cellbatch {

// A short message, a long answer: a byte a step on the wire, and every step's hidden state back.
inline constexpr int kLargeSteps = 10'000;
inline constexpr double kLargeBytes = 4.0 * kLargeSteps * 24;

inline inference::ModelInferRequest LargeAnswer() {
  inference::ModelInferRequest request;
  request.set_model_name(kWords.name);
  auto* tokens = request.add_inputs();
  tokens->set_name("TOKENS");
  tokens->set_datatype("INT32");
  tokens->add_shape(kLargeSteps);
  for (int i = 0; i < kLargeSteps; ++i) tokens->mutable_contents()->add_int_contents(i % 100);
  request.add_outputs()->set_name("ALL_HIDDEN");
  return request;
}

// Over gRPC, `calls` for a LargeAnswer on one connection, whose windows stay shut.
class UnreadCalls {
 public:
  UnreadCalls(const std::string& grpc_address, int calls)
      : calls_(calls), connection_(grpc_address) {
    const std::string body = LargeAnswer().SerializeAsString();
    std::string all = http2::kPreface + http2::Setting(http2::kInitialWindowSize, 0);
    for (int i = 0; i < calls; ++i) all += http2::Infer(1 + 2 * static_cast<uint32_t>(i), body);
    EXPECT_TRUE(connection_.Send(all));
  }

  // The message that each call was answered with, as many as were answered at all.
  std::vector<std::string> Read() {
    constexpr uint32_t kRoom = 1 << 28;
    connection_.Send(
        http2::Setting(http2::kInitialWindowSize, kRoom) +
        http2::Frame(http2::kWindowUpdate, http2::kNone, 0, http2::BigEndian(kRoom, 4)));
    std::map<uint32_t, std::string> answers;
    http2::FrameReader frames(connection_);
    for (int ended = 0; ended < calls_;) {
      const auto frame = frames.Next();
      if (!frame.has_value()) break;
      if (frame->type == http2::kData) answers[frame->stream] += frame->body;
      if (frame->type == http2::kHeaders && (frame->flags & http2::kEndStream) != 0) ++ended;
    }
    std::vector<std::string> messages;
    constexpr size_t kPrefix = 5;  // whether it is compressed, and its length
    for (const auto& [stream, answer] : answers) {
      messages.push_back(answer.substr(std::min(answer.size(), kPrefix)));
    }
    return messages;
  }

 private:
  const int calls_;
  TcpConnection connection_;
};

// Over HTTP, an answer that no socket's buffers hold: of several sequences.
class UnreadReply {
 public:
  static constexpr int kSequences = 5, kSteps = 60'000;
  // Of its tensor; its JSON comes on top.
  static constexpr size_t kBytes = size_t{4} * kSequences * kSteps * 24;

  // When it returns the reply is on its way.
  explicit UnreadReply(const std::string& http_address) : connection_(http_address) {
    const std::vector<int> tokens(kSequences * kSteps, 1), lengths(kSequences, kSteps);
    const std::string body = fmt::format(
        R"({{"inputs":[{{"name":"TOKENS","shape":[{}],"datatype":"INT32","data":[{}]}},)"
        R"({{"name":"LENGTHS","shape":[{}],"datatype":"INT32","data":[{}]}}],)"
        R"("outputs":[{{"name":"ALL_HIDDEN","parameters":{{"binary_data":true}}}}]}})",
        tokens.size(), fmt::join(tokens, ","), lengths.size(), fmt::join(lengths, ","));
    EXPECT_TRUE(connection_.Send(
        fmt::format("POST /v2/models/{}/infer HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{}",
                    kWords.name, body.size(), body)));
    reply_ = connection_.ReceiveUntil(kHeadEnd);
  }

  // All of it, until the server hangs up; true: it is whole.
  bool Read() {
    for (std::string more; !(more = connection_.Receive()).empty();) reply_ += more;
    const std::string_view end(kHeadEnd);
    const size_t head = reply_.find(end);
    return reply_.starts_with("HTTP/1.1 200 ") && head != reply_.npos &&
           reply_.size() - head - end.size() > kBytes;
  }
  std::string Head() const { return reply_.substr(0, reply_.find(kHeadEnd)); }

 private:
  static constexpr const char* kHeadEnd = "\r\n\r\n";
  TcpConnection connection_;
  std::string reply_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_FAULT_UNREAD_ANSWERS_H_
