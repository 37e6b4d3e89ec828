// Pieces of sequences that are none, or not the server's or the caller's to go on with, against the real server (serving.md 4.4, S):
// what is refused changes no state; a new model, another token and a stop.
#include <chrono>
#include <csignal>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/token_entry.h"
#include "tests/fault/background_call.h"
#include "tests/fault/sequences_test.h"

namespace cellbatch {
namespace {

using grpc::StatusCode;
using inference::ModelInferRequest;
using testing::HasSubstr;

class SequencePiecesTest : public SequencesTest {};

TEST_F(SequencePiecesTest, APieceThatIsRefusedCostsNothingAndTheRightOneAfterItGoesOn) {
  ASSERT_NO_FATAL_FAILURE(Serve({}));
  Ask(Piece(7, {1, 2}, Mark::kStart));
  const Counts before = Count();
  for (const Mark mark : {Mark::kNone, Mark::kEnd}) {
    ExpectRefused(Piece(7, {3, 100, 4}, mark), StatusCode::INVALID_ARGUMENT, "TOKENS");
    ExpectRefused(Piece(7, Tokens(70000, 3), mark), StatusCode::INVALID_ARGUMENT, "longest");
  }
  EXPECT_EQ(WaitUntilEmpty(*server_).Steps("words"), 2);
  EXPECT_EQ(Count(), before);
  EXPECT_EQ(Ask(Piece(7, {3, 99, 4})), Whole({1, 2, 3, 99, 4}));
  ExpectRefused(Piece(8, {100}, Mark::kStart), StatusCode::INVALID_ARGUMENT, "TOKENS");
  ExpectNotThere(8, "8");
  EXPECT_EQ(Count().live, 1);
  EXPECT_EQ(MetricsPage(*server_).Ended("invalid"), 9);
}

// Triton's ids are 64 bits; its clients write those above 2^63 as they are in JSON, and in two's complement over gRPC.
TEST_F(SequencePiecesTest, AnIdOf64BitsIsTheSameHoweverItIsWritten) {
  ASSERT_NO_FATAL_FAILURE(Serve({}));
  ModelInferRequest start = Piece(7, {1, 2}, Mark::kStart);
  (*start.mutable_parameters())["sequence_id"].set_uint64_param(UINT64_MAX);
  EXPECT_EQ(Ask(start), Whole({1, 2}));
  EXPECT_EQ(Ask(Piece(-1, {3})), Whole({1, 2, 3}));
  ModelInferRequest end = Piece(7, {4}, Mark::kEnd);
  (*end.mutable_parameters())["sequence_id"].set_uint64_param(UINT64_MAX);
  EXPECT_EQ(Ask(end), Whole({1, 2, 3, 4}));
  ExpectRefused(end, StatusCode::INVALID_ARGUMENT, "sequence 18446744073709551615 has no state");
  (*start.mutable_parameters())["sequence_id"].set_uint64_param(0);
  ExpectRefused(start, StatusCode::INVALID_ARGUMENT, "without a sequence_id");
}

TEST_F(SequencePiecesTest, WhatIsNoPieceIsInvalidAndChangesNothing) {
  ASSERT_NO_FATAL_FAILURE(Serve({}));
  Ask(Piece(7, {1}, Mark::kStart));
  const auto refused = [this](const ModelInferRequest& request, const std::string& text) {
    ExpectRefused(request, StatusCode::INVALID_ARGUMENT, text);
  };
  ModelInferRequest lengths = Piece(7, {1, 2, 3});
  SetTensor<int32_t>(lengths, "LENGTHS", "INT32", {2}, {1, 2});
  refused(lengths, "with parameter sequence_id a message has one sequence");
  ModelInferRequest state = Piece(7, {1});
  for (const char* name : {"INITIAL_H", "INITIAL_C"}) {
    SetTensor(state, name, "FP32", {1, 24}, std::vector<float>(24, 0.5F));
  }
  refused(state, "the state of sequence 7 is here already");
  EXPECT_EQ(Ask(Piece(std::string(128, 'i'), {1}, Mark::kBoth)), Whole({1}));
  refused(Piece(std::string(129, 'i'), {1}, Mark::kStart), "has 129 bytes, the most are 128");
  ModelInferRequest number = Words({1}), flag = Piece(7, {1});
  (*number.mutable_parameters())["sequence_id"].set_double_param(7);
  refused(number, "parameter sequence_id has the wrong type");
  (*flag.mutable_parameters())["sequence_end"].set_int64_param(1);
  refused(flag, "parameter sequence_end has the wrong type");
  EXPECT_EQ(Ask(Piece(7, {2}, Mark::kEnd)), Whole({1, 2}));
  TearDown();
  ASSERT_NO_FATAL_FAILURE(Serve({"--max-sequences=0"}));
  refused(Piece(7, {1}, Mark::kStart), "this server keeps no states (--max-sequences=0)");
}

TEST_F(SequencePiecesTest, AStartMayBringTheStateAndEveryPieceMayAskForIt) {
  ASSERT_NO_FATAL_FAILURE(Serve({}));
  const auto ask_for = [](ModelInferRequest request, const std::vector<std::string>& outputs) {
    for (const std::string& output : outputs) request.add_outputs()->set_name(output);
    return request;
  };
  ModelInferRequest on = Piece(7, {4}, Mark::kStart);
  for (const std::string part : {"H", "C"}) {
    const auto left = Ask(ask_for(Words({1, 2, 3}), {"FINAL_" + part}));
    SetTensor(on, "INITIAL_" + part, "FP32", {1, 24}, left);
  }
  EXPECT_EQ(Ask(on), Whole({1, 2, 3, 4}));
  EXPECT_EQ(Ask(ask_for(Piece(7, {5}), {"FINAL_C"})),
            Ask(ask_for(Words({1, 2, 3, 4, 5}), {"FINAL_C"})));
  inference::ModelInferResponse answer;
  EXPECT_TRUE(caller_->Infer(Piece(7, {6}), answer).ok());
  EXPECT_EQ(answer.outputs_size(), 1) << "what is kept is not sent";
  EXPECT_EQ(FirstOutput(answer), Whole({1, 2, 3, 4, 5, 6}));
}

TEST_F(SequencePiecesTest, AnotherTokensSequenceOfThatIdIsAnotherOne) {
  const std::string file = *repository_ + "-tokens.textproto";
  std::ofstream tokens(file);
  for (const std::string name : {"a", "b"}) {
    tokens << "token { name: \"" << name << "\" sha256: \"" << HashInHex(name) << "\" }\n";
  }
  tokens.close();
  ASSERT_NO_FATAL_FAILURE(Serve({"--tokens=" + file}));
  const auto ask = [this](const std::string& token, const ModelInferRequest& request) {
    inference::ModelInferResponse answer;
    const grpc::Status status = caller_->Infer(request, answer, [&](grpc::ClientContext& context) {
      context.AddMetadata("authorization", "Bearer " + token);
    });
    return std::make_pair(status.error_code(), FirstOutput(answer));
  };
  EXPECT_EQ(ask("a", Piece(7, {1}, Mark::kStart)).first, StatusCode::OK);
  EXPECT_EQ(ask("b", Piece(7, {2})).first, StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(ask("b", Piece(7, {2}, Mark::kEnd)).first, StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(ask("b", Piece(7, {3}, Mark::kStart)).first, StatusCode::OK);
  EXPECT_EQ(Count(), (Counts{.live = 2, .bytes = 2 * kWordsState, .started = 2}));
  EXPECT_EQ(ask("a", Piece(7, {4})), ask("a", Words({1, 4})));
  EXPECT_EQ(ask("b", Piece(7, {4}, Mark::kEnd)), ask("b", Words({3, 4})));
  EXPECT_EQ(ask("a", Piece(7, {5})), ask("b", Words({1, 4, 5})));
  WaitUntilEmpty(*server_);
  End();
  server_.reset();
}

TEST_F(SequencePiecesTest, AModelThatIsLoadedAnewKnowsNoneAndItsLoadWaitsForPiecesThatWait) {
  ASSERT_NO_FATAL_FAILURE(Serve({"--model-control=explicit", "--load-model=*"}));
  Ask(Piece(7, {1}, Mark::kStart));
  WaitUntilEmpty(*server_);  // so that what runs below is what is held up
  // So that whoever waits for ever says where.
  const auto late = std::chrono::system_clock::now() + std::chrono::minutes(2);
  BackgroundCall held(
      *caller_, Piece(8, Words(Several(kHeldSteps, 0, kSlow.vocabulary), "slow"), Mark::kStart),
      late);
  WaitForHeld(1);
  BackgroundCall behind(*caller_, Piece(8, Words({2}, "slow")), late);
  WaitForHeld(2);
  for (const char* model : {"words", "slow"}) {
    grpc::ClientContext context;
    context.set_deadline(late);
    inference::RepositoryModelLoadRequest load;
    load.set_model_name(model);
    inference::RepositoryModelLoadResponse loaded;
    const grpc::Status status = caller_->stub().RepositoryModelLoad(&context, load, &loaded);
    EXPECT_TRUE(status.ok()) << status.error_message();
  }
  EXPECT_TRUE(held.Wait().ok()) << held.Wait().error_message();
  EXPECT_TRUE(behind.Wait().ok()) << behind.Wait().error_message();
  ExpectNotThere(7, "7");
  ExpectRefused(Piece(8, Words({2}, "slow")), StatusCode::INVALID_ARGUMENT, "sequence 8 has no");
  // The last who holds the old ones lets go.
  while (Count().live != 0 && std::chrono::system_clock::now() < late) std::this_thread::yield();
  EXPECT_EQ(Count(), (Counts{.started = 2}));
  EXPECT_EQ(Ask(Piece(7, {3}, Mark::kStart)), Whole({3}));
}

TEST_F(SequencePiecesTest, AStopWhilePiecesWaitAnswersAllThatWasAcceptedAndEndsWithZero) {
  ASSERT_NO_FATAL_FAILURE(Serve({"--drain-timeout=1h"}));
  {
    BackgroundCall held(*caller_, Piece(7, Words(Tokens(kHeldSteps, 1), "slow"), Mark::kStart));
    WaitForHeld(1);
    std::vector<std::unique_ptr<BackgroundCall>> behind;
    for (int i = 0; i < 3; ++i) {
      behind.push_back(std::make_unique<BackgroundCall>(*caller_, Piece(7, Words({2}, "slow"))));
      WaitForHeld(2 + i);
    }
    server_->Signal(SIGTERM);
    EXPECT_TRUE(held.Wait().ok()) << held.Wait().error_message();
    for (const auto& call : behind) {
      const grpc::Status& status = call->Wait();
      EXPECT_TRUE(status.ok()) << status.error_code() << ": " << status.error_message();
    }
  }
  caller_.reset();
  EXPECT_EQ(server_->Wait(), 0) << server_->Log();
  server_.reset();
}

}  // namespace
}  // namespace cellbatch
