// AsyncCaller over our own typed service: what comes back from a server in this process.

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "client/async_caller.h"
#include "client/infer_answers.h"
#include "proto/cellbatch.grpc.pb.h"

namespace cellbatch {
namespace {

int64_t NowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Set once, waited for by any thread.
class Gate {
 public:
  void Open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    opened_.notify_all();
  }
  void Wait() {
    std::unique_lock lock(mutex_);
    opened_.wait(lock, [this] { return open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable opened_;
  bool open_ = false;
};

v1::DecodeResponse WordMessage(int step) {
  v1::DecodeResponse message;
  message.mutable_word()->set_step(step);  // of step 0, an empty word: no byte but the tag
  return message;
}

// Infer: an answer for each input; one whose model is named "wrong" fails. Decode: as many words as are asked for,
// the rest of them once `rest` is open; without an end where the model is named "cut".
class TypedServer final : public v1::Cellbatch::Service {
 public:
  TypedServer() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~TypedServer() override {
    rest.Open();
    server_->Shutdown(std::chrono::system_clock::now());
  }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

  Gate first_word_written, rest;

  grpc::Status Infer(grpc::ServerContext*, const v1::InferRequest* request,
                     v1::InferResponse* response) override {
    if (request->model_name() == "after") {
      first_word_written.Wait();
    }
    if (request->model_name() == "full") {
      return {grpc::StatusCode::RESOURCE_EXHAUSTED, "full"};
    }
    for (int i = 0; i < request->inputs_size(); ++i) {
      v1::Answer& answer = *response->add_answers();
      if (request->model_name() == "wrong" && i == 1) {
        answer.set_code(3);
        answer.set_error("input TOKENS: no");
      } else {
        answer.add_outputs()->add_floats(1.5f);
      }
    }
    if (request->model_name() == "short") {
      response->mutable_answers()->RemoveLast();
    }
    return grpc::Status::OK;
  }

  grpc::Status Decode(grpc::ServerContext*, const v1::DecodeRequest* request,
                      grpc::ServerWriter<v1::DecodeResponse>* writer) override {
    for (int step = 0; step < request->decode_steps(); ++step) {
      writer->Write(WordMessage(step));
      if (step == 0) {
        first_word_written.Open();
        rest.Wait();
      }
    }
    if (request->model_name() != "cut") {
      v1::DecodeResponse end;
      end.mutable_end()->set_length(static_cast<int32_t>(request->decode_steps()));
      writer->Write(end);
    }
    return grpc::Status::OK;
  }

 private:
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

struct Result {
  absl::StatusCode code = absl::StatusCode::kUnknown;
  std::string text;
  int64_t at_ns = 0, first_word_ns = 0, words = 0;
};

class TypedCallerTest : public testing::Test {
 protected:
  TypedCallerTest() {
    caller_ = *AsyncCaller::Create(
        {.url = server_.address(), .connections = 1}, [this](const AsyncCaller::Done& done) {
          const std::lock_guard lock(mutex_);
          results_[done.tag] = {done.code, done.text, done.at_ns, done.first_word_ns, done.words};
          done_[done.tag] = true;
        });
  }
  // As request `tag` (0 or 1).
  void SendInfer(const std::string& model, uint32_t inputs, uint64_t tag) {
    InferManyInput input{.model = model};
    input.inputs.assign(inputs, SequenceInput{.tokens = {1, 2}});
    messages_.push_back(std::make_unique<std::string>(PreparedMessage(input)));
    ASSERT_TRUE(caller_->Send({*messages_.back(), {}, PreparedCall::kInfer, inputs}, tag));
  }
  void SendDecode(const std::string& model, int64_t steps, uint64_t tag) {
    const DecodeInput input{.model = model, .source = {.tokens = {1}}, .decode_steps = steps};
    messages_.push_back(std::make_unique<std::string>(PreparedMessage(input)));
    ASSERT_TRUE(caller_->Send({*messages_.back(), {}, PreparedCall::kDecode}, tag));
  }
  Result WaitFor(uint64_t tag) {
    while (!done_[tag]) {
      std::this_thread::yield();
    }
    const std::lock_guard lock(mutex_);
    return results_[tag];
  }

  TypedServer server_;
  std::vector<std::unique_ptr<std::string>> messages_;
  std::mutex mutex_;
  Result results_[2];
  std::atomic<bool> done_[2] = {false, false};
  std::unique_ptr<AsyncCaller> caller_;
};

TEST_F(TypedCallerTest, TheFirstWordIsTimedWhenItComesNotWhenTheLastDoes) {
  const int64_t before = NowNs();
  SendDecode("words", 5, 0);
  SendInfer("after", 1, 1);  // on the same connection: its answer comes behind the first word
  EXPECT_EQ(WaitFor(1).code, absl::StatusCode::kOk);
  const int64_t between = NowNs();
  server_.rest.Open();
  const Result result = WaitFor(0);
  EXPECT_EQ(result.code, absl::StatusCode::kOk) << result.text;
  EXPECT_EQ(result.words, 5);
  EXPECT_GE(result.first_word_ns, before);
  EXPECT_LE(result.first_word_ns, between);
  EXPECT_GE(result.at_ns, between);
}

TEST_F(TypedCallerTest, AStreamWithoutWordsHasNoFirstWord) {
  SendDecode("none", 0, 0);
  const Result result = WaitFor(0);
  EXPECT_EQ(result.code, absl::StatusCode::kOk) << result.text;
  EXPECT_EQ(result.words, 0);
  EXPECT_EQ(result.first_word_ns, -1);
}

TEST_F(TypedCallerTest, AStreamWithoutItsLastMessageIsAnError) {
  server_.rest.Open();
  SendDecode("cut", 2, 0);
  EXPECT_EQ(WaitFor(0).code, absl::StatusCode::kInternal);
}

TEST_F(TypedCallerTest, ASlotOfAStreamIsUsedAgainWithoutATrace) {
  server_.rest.Open();
  for (int64_t steps : {3, 0, 2}) {
    done_[0] = false;
    SendDecode("words", steps, 0);
    EXPECT_EQ(WaitFor(0).words, steps);
    EXPECT_EQ(WaitFor(0).first_word_ns < 0, steps == 0);
  }
}

TEST_F(TypedCallerTest, ACancelledStreamEnds) {
  SendDecode("words", 5, 0);
  server_.first_word_written.Wait();
  caller_->CancelAll();
  EXPECT_EQ(WaitFor(0).code, absl::StatusCode::kCancelled);
  server_.rest.Open();
}

TEST_F(TypedCallerTest, AMessageIsRightWhenEveryInputIs) {
  SendInfer("right", 3, 0);
  EXPECT_EQ(WaitFor(0).code, absl::StatusCode::kOk);
  SendInfer("wrong", 3, 1);
  EXPECT_EQ(WaitFor(1).code, absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(WaitFor(1).text, "input TOKENS: no");
}

TEST_F(TypedCallerTest, AnAnswerTooFewIsAnError) {
  SendInfer("short", 3, 0);
  EXPECT_EQ(WaitFor(0).code, absl::StatusCode::kInternal);
  EXPECT_EQ(WaitFor(0).text, "3 inputs got 2 answers");
}

TEST_F(TypedCallerTest, AFullServerIsTheCallsOwnStatus) {
  SendInfer("full", 2, 0);
  EXPECT_EQ(WaitFor(0).code, absl::StatusCode::kResourceExhausted);
}

// A load generator calls what had no room rejected, and anything else failed.
TEST(InferAnswersTest, AnInputThatHadNoRoomHidesNoneThatFailed) {
  const auto of = [](std::vector<absl::StatusCode> codes) {
    v1::InferResponse response;
    for (size_t i = 0; i < codes.size(); ++i) {
      v1::Answer& answer = *response.add_answers();
      answer.set_code(static_cast<int>(codes[i]));
      answer.set_error(std::to_string(i));
    }
    const grpc::Slice slice(response.SerializeAsString());
    const absl::Status status =
        CheckAnswers(grpc::ByteBuffer(&slice, 1), static_cast<uint32_t>(codes.size()));
    return status.ok() ? "" : std::string(status.message());
  };
  constexpr auto kOk = absl::StatusCode::kOk, kFull = absl::StatusCode::kResourceExhausted,
                 kWrong = absl::StatusCode::kInvalidArgument,
                 kLate = absl::StatusCode::kDeadlineExceeded;
  EXPECT_EQ(of({kOk, kOk}), "");
  EXPECT_EQ(of({kOk, kFull, kFull}), "1");
  EXPECT_EQ(of({kFull, kOk, kWrong, kLate}), "2");
  EXPECT_EQ(of({kWrong, kFull, kLate}), "0");
}

TEST(InferAnswersTest, AnswersAreReadWhereverTheBytesAreParted) {
  v1::InferResponse response;
  response.set_model_name("m");
  for (int i = 0; i < 3; ++i) {
    response.add_answers()->add_outputs()->mutable_floats()->Resize(50, 0.5f);
  }
  response.mutable_answers(1)->set_code(9);
  response.mutable_answers(1)->set_error("not now");
  const std::string bytes = response.SerializeAsString();
  for (size_t at = 0; at <= bytes.size(); ++at) {
    const grpc::Slice parts[] = {grpc::Slice(bytes.substr(0, at)), grpc::Slice(bytes.substr(at))};
    const absl::Status status = CheckAnswers(grpc::ByteBuffer(parts, 2), 3);
    ASSERT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << "parted at " << at;
    ASSERT_EQ(status.message(), "not now");
  }
  for (size_t cut = 1; cut < 40; ++cut) {
    const grpc::Slice slice(bytes.substr(0, bytes.size() - cut));
    EXPECT_EQ(CheckAnswers(grpc::ByteBuffer(&slice, 1), 3).code(), absl::StatusCode::kInternal);
  }
  response.mutable_answers(1)->clear_code();
  for (const std::string& behind : {std::string("\0rest", 5), std::string("\x80")}) {
    const grpc::Slice slice(response.SerializeAsString() + behind);
    EXPECT_EQ(CheckAnswers(grpc::ByteBuffer(&slice, 1), 3).code(), absl::StatusCode::kInternal);
  }
}

}  // namespace
}  // namespace cellbatch
