// Pieces of sequences whose state the server keeps, on their way through the service: who waits for whom, what they begin
// from, and that every one of them is answered and counted once. (What is computed: tests/fault/sequences_test.)
#include <gmock/gmock.h>

#include <cstring>
#include <map>
#include <mutex>
#include <random>
#include <thread>

#include "server/kserve/infer_call.h"
#include "tests/testing/service_test.h"

namespace cellbatch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// LastStateUnfolder's, with a state. The first number of what requests began from; 0 where none was there.
class KeepingUnfolder final : public Unfolder {
 public:
  explicit KeepingUnfolder(TableId tokens) : chain_(tokens) {}
  absl::Status Unfold(const RequestInput& input, CellGraph& graph) const override {
    absl::Status status = chain_.Unfold(input, graph);
    if (!status.ok()) return status;
    const InputTensor* const state = input.Find("INITIAL_H");
    float begins = 0;
    if (state != nullptr) std::memcpy(&begins, state->bytes.data(), sizeof(begins));
    {
      const std::lock_guard lock(mutex_);
      begins_.push_back(begins);
    }
    for (size_t i = 1; i < input.outputs.size(); ++i) {
      const int32_t left = graph.AddTensor(input.outputs[i], WireType::kFp32, {2});
      graph.Return(SubgraphId(1), ColumnId(0), {0, 1}, {.tensor = left});
    }
    return absl::OkStatus();
  }
  const std::vector<float>& begins() const { return begins_; }

 private:
  const LastStateUnfolder chain_;
  mutable std::mutex mutex_;
  mutable std::vector<float> begins_;
};

class SequenceCallTest : public ServiceTest {
 protected:
  explicit SequenceCallTest(const AdmissionLimits& limits = {})
      : ServiceTest(limits), service_(path_) {
    std::shared_ptr<Model> model = TinyModel();
    unfolder_ = std::make_shared<KeepingUnfolder>(testing::FindTable(*model, "token"));
    model->unfolder = unfolder_;
    model->signature.inputs.push_back({.name = "INITIAL_H",
                                       .type = WireType::kFp32,
                                       .dims = {2},
                                       .optional = true,
                                       .one_a_sequence = true});
    model->signature.outputs.push_back({.name = "FINAL_H", .type = WireType::kFp32, .dims = {2}});
    model->signature.state = {{"INITIAL_H", "FINAL_H", {2}}};
    model_ = model;
  }
  // A piece that leaves, by the fake scheduler, `token` as its state.
  FakeCall& Send(int32_t token, int64_t id, const char* flag = "",
                 int64_t deadline_ns = kNoDeadline) {
    inference::ModelInferRequest request = TokensRequest({token});
    (*request.mutable_parameters())["sequence_id"].set_int64_param(id);
    if (*flag != '\0') (*request.mutable_parameters())[flag].set_bool_param(true);
    return Start(service_, request.SerializeAsString(), deadline_ns);
  }
  void FinishOnes(const absl::Status& status = absl::OkStatus()) {
    scheduler_.FinishAll(status);
    StepResponder();
  }
  static int Outputs(FakeCall& call) {
    inference::ModelInferResponse answer;
    EXPECT_TRUE(call.Wait().status.ok()) << call.Wait().status;
    EXPECT_TRUE(answer.ParseFromString(call.Wait().body));
    return answer.outputs_size();
  }
  static absl::StatusCode Code(FakeCall& call) { return call.Wait().status.code(); }

  std::shared_ptr<KeepingUnfolder> unfolder_;
  InferService service_;
};

constexpr const char* kStart = "sequence_start";
constexpr const char* kEnd = "sequence_end";

TEST_F(SequenceCallTest, EachPieceBeginsFromWhatTheOneBeforeItLeftAndTheClientSeesNoneOfIt) {
  FakeCall& first = Send(5, 1, kStart);
  FakeCall& second = Send(6, 1);
  FakeCall& third = Send(7, 1, kEnd);
  EXPECT_EQ(scheduler_.submitted(), 1) << "one at a time";
  FinishOnes();
  EXPECT_EQ(Outputs(first), 1);
  EXPECT_EQ(second.answers(), 0);
  EXPECT_EQ(scheduler_.submitted(), 2);
  FinishOnes();
  FinishOnes();
  EXPECT_EQ(Outputs(second), 1);
  EXPECT_EQ(Outputs(third), 1);
  EXPECT_THAT(unfolder_->begins(), ElementsAre(0, 5, 6));
  EXPECT_EQ(sequences_.counts().live, 0);
  EXPECT_EQ(Count(RequestOutcome::kOk), 3);
  ExpectNothingInFlight();
  FakeCall& late = Send(8, 1);
  EXPECT_THAT(std::string(late.Wait().status.message()),
              HasSubstr("model \"tiny\": sequence 1 has no state here"));
  EXPECT_EQ(Count(RequestOutcome::kInvalid), 1);
  ExpectNothingInFlight();
}

TEST_F(SequenceCallTest, ItsClientMayAskForTheStateToo) {
  inference::ModelInferRequest request = TokensRequest({3});
  (*request.mutable_parameters())["sequence_id"].set_string_param("a");
  (*request.mutable_parameters())[kStart].set_bool_param(true);
  for (const char* output : {"OUTPUT", "FINAL_H"}) request.add_outputs()->set_name(output);
  FakeCall& call = Start(service_, request.SerializeAsString());
  FinishOnes();
  EXPECT_EQ(Outputs(call), 2);
}

TEST_F(SequenceCallTest, AWrongPieceIsRefusedAtOnceAndCostsTheSequenceNothing) {
  Send(5, 1, kStart);
  FakeCall& behind = Send(6, 1);
  EXPECT_EQ(Code(Send(100, 1)), absl::StatusCode::kInvalidArgument) << "no such word";
  EXPECT_EQ(behind.answers(), 0);
  FinishOnes();
  FinishOnes();
  EXPECT_EQ(Outputs(behind), 1);
  EXPECT_THAT(unfolder_->begins(), ElementsAre(0, 5));
  ExpectNothingInFlight();
}

TEST_F(SequenceCallTest, APieceThatFailsFailsThoseBehindItAndCanBeSentAgain) {
  Send(5, 1, kStart);
  FinishOnes();
  FakeCall& fails = Send(6, 1);
  std::vector<FakeCall*> behind;
  for (int i = 0; i < 1000; ++i) behind.push_back(&Send(7, 1));
  FinishOnes(absl::InternalError("a device is gone"));
  EXPECT_EQ(Code(fails), absl::StatusCode::kInternal);
  for (FakeCall* const call : behind) EXPECT_EQ(Code(*call), absl::StatusCode::kAborted);
  EXPECT_EQ(scheduler_.submitted(), 2);
  EXPECT_EQ(Count(RequestOutcome::kError), 1001);
  ExpectNothingInFlight();
  FakeCall& again = Send(6, 1);
  FinishOnes();
  EXPECT_EQ(Outputs(again), 1);
  EXPECT_THAT(unfolder_->begins(), ElementsAre(0, 5, 5));
}

TEST_F(SequenceCallTest, WhoIsGoneOrTooLateIsAnsweredWhileItWaitsAndTheStateIsAsBefore) {
  FakeCall& first = Send(5, 1, kStart);
  FakeCall& cancelled = Send(6, 1);
  FakeCall& behind = Send(7, 1);
  cancelled.CancelOn(service_);
  EXPECT_EQ(Code(cancelled), absl::StatusCode::kCancelled);
  FakeCall& too_late = Send(8, 1, "", clock_.now + 1000);
  FakeCall& in_time = Send(9, 1, "", clock_.now + 1001);
  EXPECT_EQ(Send(9, 1, "", clock_.now).Wait().status,
            absl::DeadlineExceededError("the deadline had passed when the request arrived"));
  clock_.now += 1000;
  EXPECT_EQ(
      too_late.Wait().status,
      absl::DeadlineExceededError("the deadline had passed before its turn in its sequence came"));
  EXPECT_EQ(admission_.InFlight().requests, 3) << "they have given back what they had";
  for (FakeCall* const waits : {&first, &behind, &in_time}) EXPECT_EQ(waits->answers(), 0);
  FinishOnes();
  EXPECT_EQ(Outputs(first), 1);
  EXPECT_EQ(Code(behind), absl::StatusCode::kAborted);
  EXPECT_EQ(Code(in_time), absl::StatusCode::kAborted);
  EXPECT_EQ(scheduler_.submitted(), 1);
  EXPECT_EQ(Count(RequestOutcome::kCancelled), 1);
  EXPECT_EQ(Count(RequestOutcome::kDeadline), 2);
  ExpectNothingInFlight();
  Send(6, 1);
  FinishOnes();
  EXPECT_THAT(unfolder_->begins(), ElementsAre(0, 5));
}

TEST_F(SequenceCallTest, TheTimeoutOfTheMessageCountsWhileItWaitsToo) {
  Send(5, 1, kStart);
  inference::ModelInferRequest request = TokensRequest({6});
  (*request.mutable_parameters())["sequence_id"].set_int64_param(1);
  (*request.mutable_parameters())["timeout"].set_int64_param(1);
  FakeCall& waits = Start(service_, request.SerializeAsString());
  clock_.now += 1000;
  EXPECT_EQ(Code(waits), absl::StatusCode::kDeadlineExceeded);
  FinishOnes();
  ExpectNothingInFlight();
}

TEST_F(SequenceCallTest, OneWhoseTurnHasComeIsCancelledAsAnyRequest) {
  Send(5, 1, kStart);
  FinishOnes();
  Send(6, 1);
  FakeCall& waits = Send(7, 1);
  FinishOnes();  // 7 is submitted on the responder's thread
  waits.CancelOn(service_);
  StepResponder();
  EXPECT_EQ(Code(waits), absl::StatusCode::kCancelled);
  ExpectNothingInFlight();
  Send(7, 1);
  FinishOnes();
  EXPECT_THAT(unfolder_->begins(), ElementsAre(0, 5, 6, 6));
}

TEST_F(SequenceCallTest, WhatIsRefusedWhenItsTurnComesPassesTheTurnOn) {
  FakeCall& first = Send(5, 1, kStart);
  FakeCall& second = Send(6, 1);
  FakeCall& anew = Send(7, 1, kStart);
  scheduler_.full = true;
  FinishOnes();
  EXPECT_EQ(Outputs(first), 1);
  EXPECT_EQ(Code(second), absl::StatusCode::kUnavailable) << "the scheduler takes nothing";
  EXPECT_EQ(Code(anew), absl::StatusCode::kUnavailable);
  EXPECT_EQ(sequences_.counts().live, 0) << "its start has failed";
  ExpectNothingInFlight();
}

TEST_F(SequenceCallTest, OneTooManyIsRefusedWithAHintAndCounted) {
  for (int id = 1; id <= 3; ++id) Send(5, id, kStart);
  FinishOnes();
  const CallResult& full = Send(5, 4, kStart).Wait();
  EXPECT_THAT(std::string(full.status.message()), HasSubstr("3 sequences are live"));
  EXPECT_EQ(full.status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_GT(full.pushback_ms.value_or(-1), 0);
  EXPECT_EQ(Count(RequestOutcome::kRejected), 1);
  EXPECT_EQ(stats_.Of(*model_).Read().rejections[static_cast<size_t>(Rejection::kSequences)], 1);
  clock_.now += 1'000'000'001;
  Send(5, 4, kStart);
  FinishOnes();
  EXPECT_EQ(Count(RequestOutcome::kOk), 4);
  ExpectNothingInFlight();
}

class NarrowSequenceCallTest : public SequenceCallTest {
 protected:
  NarrowSequenceCallTest() : SequenceCallTest({.max_cells = 4}) {}
};

TEST_F(NarrowSequenceCallTest, OneThatFindsNoRoomWhenItsTurnComesIsRefusedAndGoesOnLater) {
  Send(5, 1, kStart);
  FakeCall& second = Send(6, 1);
  for (int i = 0; i < 3; ++i) Start(service_, TokensRequest({1}).SerializeAsString());
  EXPECT_EQ(admission_.InFlight().cells, 4);
  // Its place is back before the second's turn; another one takes it first.
  FinishOnes();
  EXPECT_EQ(scheduler_.submitted(), 5);
  Start(service_, TokensRequest({1, 2, 3}).SerializeAsString());
  FakeCall& third = Send(7, 1);
  FakeCall& other = Send(8, 2, kStart);
  EXPECT_EQ(Code(other), absl::StatusCode::kResourceExhausted);
  FinishOnes();
  EXPECT_EQ(Outputs(second), 1);
  FinishOnes();
  EXPECT_EQ(Outputs(third), 1);
  EXPECT_EQ(sequences_.counts().live, 1) << "the one that was refused has not started";
  ExpectNothingInFlight();
}

// Submitters, cancels, deadlines, failures and answers at once: for the thread sanitizer.
TEST_F(SequenceCallTest, EveryPieceIsAnsweredExactlyOnceWhateverComesAtTheSameTime) {
  const absl::Status fails = absl::InternalError("a device");
  Responder responder(scheduler_, path_);
  std::atomic<bool> stop = false;
  std::thread device([&] {
    for (int i = 0; !stop; ++i) scheduler_.FinishAll(i % 7 == 0 ? fails : absl::OkStatus());
  });
  constexpr int kCalls = 500;
  auto calls = CallFromThreads(kCalls, [&](std::mt19937& random, int t, ThreadsCalls& of_thread) {
    inference::ModelInferRequest request = TokensRequest({1, 2});
    auto& parameters = *request.mutable_parameters();
    parameters["sequence_id"].set_int64_param(1 + static_cast<int64_t>(random() % 4));
    parameters[kStart].set_bool_param(random() % 3 == 0);
    parameters[kEnd].set_bool_param(random() % 5 == 0);
    const int64_t deadline = random() % 4 == 0 ? clock_.now + 1'000'000 : kNoDeadline;
    FakeCall& call = of_thread.emplace_back(request.SerializeAsString(), clock_.now, deadline, t);
    call.StartOn(service_);
    if (random() % 4 == 0) call.CancelOn(service_);
  });
  std::map<absl::StatusCode, int> ends;
  for (auto& of_thread : calls) {
    for (FakeCall& call : of_thread) ++ends[Code(call)];
  }
  stop = true;
  device.join();
  responder.Stop();
  for (auto& of_thread : calls) {
    for (FakeCall& call : of_thread) EXPECT_EQ(call.answers(), 1);
  }
  EXPECT_GT(ends[absl::StatusCode::kOk], 0);
  int64_t total = 0;
  for (const int64_t count : stats_.Of(*model_).Read().outcomes) total += count;
  EXPECT_EQ(total, 2 * kCalls);
  ExpectNothingInFlight();
  clock_.now += 2'000'000'000;
  Send(1, 4, kEnd);  // whoever asks drops two that are idle
  Send(1, 4, kEnd);
  EXPECT_EQ(sequences_.counts().live, 0);
}

TEST_F(SequenceCallTest, AServerThatKeepsNoneSaysHowElse) {
  RequestPath keeps_none(
      {.transport_threads = 2, .responders = 1, .latency_samples = 16},
      [this](std::string_view, std::string_view) { return model_; }, scheduler_, admission_, stats_,
      clock_);
  InferService service(keeps_none);
  inference::ModelInferRequest request = TokensRequest({3});
  (*request.mutable_parameters())["sequence_id"].set_int64_param(1);
  FakeCall& call = Start(service, request.SerializeAsString());
  EXPECT_THAT(std::string(call.Wait().status.message()), HasSubstr("(--max-sequences=0)"));
  ExpectNothingInFlight();
}

}  // namespace
}  // namespace cellbatch
