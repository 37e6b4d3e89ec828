#include "server/typed/typed_service.h"

#include <random>
#include <thread>

#include "gmock/gmock.h"
#include "tests/testing/decoder_model.h"
#include "tests/testing/service_test.h"

namespace cellbatch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int32_t kEnd = kEndOfDecoder;

class TypedServiceTest : public ServiceTest {
 protected:
  explicit TypedServiceTest(const AdmissionLimits& limits = {})
      : ServiceTest(limits), infer_(path_, {.max_typed_inputs = 50}), decode_(path_) {}

  absl::StatusOr<std::shared_ptr<const Model>> Find(std::string_view name,
                                                    std::string_view version) override {
    if (name == "decoder") return decoder_;
    return ServiceTest::Find(name, version);
  }
  FakeCall& Infer(const std::vector<std::vector<int32_t>>& sequences,
                  int64_t deadline_ns = kNoDeadline) {
    return Start(infer_, Message(sequences).SerializeAsString(), deadline_ns);
  }
  static v1::InferRequest Message(const std::vector<std::vector<int32_t>>& sequences) {
    v1::InferRequest request;
    request.set_model_name("tiny");
    request.set_id("seven");
    for (const auto& tokens : sequences) {
      v1::Sequence& sequence = *request.add_inputs()->mutable_sequence();
      for (const int32_t token : tokens) sequence.add_tokens(token);
    }
    return request;
  }
  static v1::DecodeRequest Source(const std::vector<int32_t>& tokens) {
    v1::DecodeRequest request;
    request.set_model_name("decoder");
    for (const int32_t token : tokens) request.mutable_source()->add_tokens(token);
    return request;
  }
  FakeCall& Decode(const v1::DecodeRequest& request, int64_t deadline_ns = kNoDeadline) {
    return Start(decode_, request.SerializeAsString(), deadline_ns);
  }
  static v1::InferResponse Response(FakeCall& call) {
    v1::InferResponse response;
    EXPECT_TRUE(call.Wait().status.ok()) << call.Wait().status;
    EXPECT_TRUE(response.ParseFromString(call.Wait().body));
    return response;
  }
  // Words as they were sent, each at its step; -1 for the end.
  static std::vector<int32_t> Words(const FakeCall& call) {
    std::vector<int32_t> words;
    for (const std::string& message : call.messages()) {
      v1::DecodeResponse event;
      EXPECT_TRUE(event.ParseFromString(message));
      EXPECT_EQ(event.has_word() ? event.word().step() : event.end().length(),
                static_cast<int32_t>(words.size()));
      words.push_back(event.has_word() ? event.word().id() : -1);
    }
    return words;
  }
  // "The next good call is right", and nothing is left in flight.
  void ExpectGood() {
    FakeCall& call = Infer({{1, 2}, {3}});
    scheduler_.FinishAll();
    StepResponder();
    const v1::InferResponse response = Response(call);
    EXPECT_EQ(response.answers(0).outputs(0).floats(0), 3);
    EXPECT_EQ(response.answers(1).outputs(0).floats(0), 3);
    ExpectNothingInFlight();
  }

  std::shared_ptr<const Model> decoder_ = DecoderModel();
  TypedInferService infer_;
  DecodeService decode_;
};

TEST_F(TypedServiceTest, EveryInputIsARequestAndItsAnswerStandsInItsPlace) {
  FakeCall& call = Infer({{10, 20}, {1}, {5, 5, 5}});
  EXPECT_EQ(admission_.InFlight().requests, 3);
  EXPECT_EQ(admission_.InFlight().cells, 6);
  EXPECT_EQ(scheduler_.submitted(), 3);
  EXPECT_EQ(call.answers(), 0);
  scheduler_.FinishAll();
  StepResponder();
  const v1::InferResponse response = Response(call);
  EXPECT_EQ(response.id(), "seven");
  EXPECT_EQ(response.model_version(), "1");
  ASSERT_EQ(response.answers_size(), 3);
  const float expected[] = {30, 1, 15};
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(response.answers(i).code(), 0);
    EXPECT_EQ(response.answers(i).outputs(0).name(), "OUTPUT");
    EXPECT_THAT(response.answers(i).outputs(0).floats(), ElementsAre(expected[i], expected[i]));
  }
  EXPECT_EQ(stats_.Of(*model_).Read().done, 3);
  EXPECT_EQ(stats_.Of(*model_).Read().cells, 6);
  ExpectGood();
}

TEST_F(TypedServiceTest, ThePriorityOfACallIsThatOfEachOfItsRequests) {
  v1::InferRequest request = Message({{1}, {2}});
  (*request.mutable_parameters())["priority"] = 1;
  FakeCall& call = ServiceTest::Start(infer_, request.SerializeAsString());
  v1::DecodeRequest source = Source({1});
  source.set_priority(1);
  FakeCall& stream = Decode(source);
  EXPECT_THAT(scheduler_.priorities(), ElementsAre(1, 1, 1));
  scheduler_.FinishAll();
  StepResponder();
  EXPECT_TRUE(call.Wait().status.ok()) << call.Wait().status;
  EXPECT_TRUE(stream.Wait().status.ok()) << stream.Wait().status;
  ExpectGood();
}

TEST_F(TypedServiceTest, WhatIsWrongWithOneInputIsItsOwnAnswer) {
  v1::InferRequest request = Message({{1}, {100}, std::vector<int32_t>(13, 1), {7}});
  request.add_inputs()->mutable_tree()->add_tokens(3);
  request.add_inputs();
  FakeCall& call = Start(infer_, request.SerializeAsString());
  EXPECT_EQ(scheduler_.submitted(), 3) << "a tree of one token looks like a sequence to this model";
  scheduler_.FinishAll();
  StepResponder();
  const v1::InferResponse response = Response(call);
  EXPECT_EQ(response.answers(0).outputs(0).floats(0), 1);
  EXPECT_EQ(response.answers(1).code(), 3);
  EXPECT_EQ(response.answers(1).error(),
            "input TOKENS of model \"tiny\": token 0 is 100, the vocabulary ends at 99");
  EXPECT_EQ(response.answers(2).error(), "model \"tiny\": input TOKENS: 13 is unlucky");
  EXPECT_EQ(response.answers(3).outputs(0).floats(0), 7);
  EXPECT_EQ(response.answers(4).code(), 0);
  EXPECT_THAT(response.answers(5).error(), HasSubstr("none of sequence, tree"));
  EXPECT_EQ(Count(RequestOutcome::kInvalid, *model_), 3);
  EXPECT_EQ(Count(RequestOutcome::kOk, *model_), 3);

  FakeCall& all_bad = Infer({{100}, {101}});
  EXPECT_EQ(Response(all_bad).answers(1).code(), 3) << "nothing to wait for, and still answers";
  ExpectGood();
}

TEST_F(TypedServiceTest, WhatIsWrongWithTheCallIsItsStatus) {
  EXPECT_EQ(Start(infer_, "\x01garbage").Wait().status,
            absl::InvalidArgumentError("malformed InferRequest"));
  v1::InferRequest request = Message({{1}});
  request.set_model_name("nobody");
  EXPECT_EQ(Start(infer_, request.SerializeAsString()).Wait().status.code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(Infer({}).Wait().status,
            absl::InvalidArgumentError("the request has 0 inputs, allowed are 1 to 50"));
  EXPECT_EQ(std::string(Infer(std::vector<std::vector<int32_t>>(51, {1})).Wait().status.message()),
            "the request has 51 inputs, allowed are 1 to 50");
  EXPECT_EQ(Infer({{1}, {2}}, clock_.now).Wait().status.code(),
            absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(Count(RequestOutcome::kDeadline, *model_), 2);
  EXPECT_EQ(scheduler_.submitted(), 0);
  ExpectGood();
}

TEST_F(TypedServiceTest, ACancelReachesEveryInputAndEndsTheCallOnce) {
  FakeCall& call = Infer({{1}, {2}, {3}});
  call.CancelOn(infer_);
  EXPECT_EQ(scheduler_.news().size(), 3u);
  StepResponder();
  EXPECT_EQ(call.Wait().status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(call.answers(), 1);
  EXPECT_EQ(Count(RequestOutcome::kCancelled, *model_), 3);
  ExpectGood();
}

TEST_F(TypedServiceTest, AFailedDeviceIsTheAnswerOfWhatItHeld) {
  FakeCall& call = Infer({{1}, {2}});
  scheduler_.FinishAll(absl::InternalError("device cpu:0 failed"));
  StepResponder();
  const v1::InferResponse response = Response(call);
  EXPECT_EQ(response.answers(0).code(), 13);
  EXPECT_EQ(response.answers(1).error(), "model \"tiny\": device cpu:0 failed");
  ExpectGood();
}

TEST_F(TypedServiceTest, ANumberThatHasNoNameIsTheAnswerOfItsInputAlone) {
  model_ = NamingModel();
  FakeCall& call = Infer({{0}, {1}});
  scheduler_.FinishAll();
  StepResponder();
  const v1::InferResponse response = Response(call);
  ASSERT_EQ(response.answers_size(), 2);
  EXPECT_THAT(response.answers(0).outputs(1).texts(), ElementsAre("no"));
  EXPECT_EQ(response.answers(1).code(), 13);
  EXPECT_EQ(response.answers(1).error(),
            "model \"tiny\": output LABELS: a cell left number 1065353216, there are 2 names");
  ExpectNothingInFlight();
}

TEST_F(TypedServiceTest, ASchedulerThatTakesNothingEndsTheCall) {
  scheduler_.full = true;
  EXPECT_EQ(Infer({{1}, {2}}).Wait().status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Decode(Source({1})).Wait().status.code(), absl::StatusCode::kUnavailable);
  scheduler_.full = false;
  ExpectGood();
}

TEST_F(TypedServiceTest, WordsAreWrittenAsTheyComeAndTheEndIsTheLastMessage) {
  FakeCall& call = Decode(Source({5, 6}));
  EXPECT_THAT(Words(call), IsEmpty());
  scheduler_.TellWords({11});
  StepResponder();
  EXPECT_THAT(Words(call), ElementsAre(11));
  scheduler_.TellWords({11, 12, 13});
  StepResponder();
  EXPECT_THAT(Words(call), ElementsAre(11, 12, 13));
  scheduler_.TellWords({11, 12, 13, 14, kEnd});
  StepResponder();
  EXPECT_THAT(Words(call), ElementsAre(11, 12, 13, 14)) << "the end of the sequence is no word";
  EXPECT_EQ(call.answers(), 0);
  scheduler_.FinishAll();
  StepResponder();
  EXPECT_THAT(Words(call), ElementsAre(11, 12, 13, 14, -1));
  EXPECT_TRUE(call.Wait().status.ok()) << call.Wait().status;
  v1::DecodeResponse last;
  ASSERT_TRUE(last.ParseFromString(call.messages().back()));
  EXPECT_TRUE(last.end().stopped());
  EXPECT_EQ(Count(RequestOutcome::kOk, *decoder_), 1);
  ExpectGood();
}

TEST_F(TypedServiceTest, WordsThatWereNeverToldOfComeWithTheEnd) {
  v1::DecodeRequest request = Source({5});
  request.set_decode_steps(3);
  FakeCall& call = Decode(request);
  scheduler_.TellWords({kEnd, 9, 8});
  scheduler_.FinishAll();
  StepResponder();
  EXPECT_THAT(Words(call), ElementsAre(kEnd, 9, 8, -1))
      << "asked for three words, whatever they are";
  v1::DecodeResponse last;
  ASSERT_TRUE(last.ParseFromString(call.messages().back()));
  EXPECT_FALSE(last.end().stopped());
}

// V14, over our own service.
TEST_F(TypedServiceTest, BadDecodesAreRefusedWithBothValues) {
  const auto error = [&](auto change) {
    v1::DecodeRequest request = Source({1});
    change(request);
    const CallResult& result = Decode(request).Wait();
    EXPECT_EQ(result.status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(result.status.message());
  };
  for (const int64_t steps : {int64_t{0}, int64_t{-1}, int64_t{41}, INT64_MAX}) {
    EXPECT_EQ(error([&](auto& r) { r.set_max_decode_steps(steps); }),
              "model \"decoder\": parameter max_decode_steps is " + std::to_string(steps) +
                  ", allowed are 1 to 40");
  }
  EXPECT_THAT(error([](auto& r) {
                r.set_max_decode_steps(3);
                r.set_decode_steps(4);
              }),
              HasSubstr("exclude each other"));
  EXPECT_EQ(error([](auto& r) { r.set_priority(2); }),
            "parameter priority is 2, allowed are 0 (default) to 1");
  EXPECT_EQ(error([](auto& r) { r.set_priority(-1); }), "parameter priority is -1, the least is 0");
  EXPECT_EQ(error([](auto& r) { r.set_model_name("tiny"); }),
            "model \"tiny\" decodes nothing: Infer answers it");
  EXPECT_THAT(error([](auto& r) { r.clear_source(); }), HasSubstr("none of `tokens`"));
  EXPECT_THAT(error([](auto& r) { r.mutable_source()->set_tokens(0, 100); }),
              HasSubstr("token 0 is 100, the vocabulary ends at 99"));
  ExpectGood();
}

TEST_F(TypedServiceTest, ACancelledStreamEndsWithItsWordsSoFar) {
  FakeCall& call = Decode(Source({5}));
  scheduler_.TellWords({7, 8});
  StepResponder();
  call.CancelOn(decode_);
  StepResponder();
  EXPECT_EQ(call.Wait().status.code(), absl::StatusCode::kCancelled);
  EXPECT_THAT(Words(call), ElementsAre(7, 8)) << "no end was reached";
  ExpectGood();
}

// P13
TEST_F(TypedServiceTest, AClientThatDoesNotReadIsCutOffAndNothingPilesUp) {
  FakeCall& slow = Decode(Source({5}));
  FakeCall& other = Decode(Source({6}));
  slow.StopReadingAfter(2);
  scheduler_.TellWords({1, 2, 3, 4});
  StepResponder();
  ASSERT_EQ(scheduler_.news().size(), 1u) << "the decoder of the one is stopped";
  StepResponder();
  const CallResult& result = slow.Wait();
  EXPECT_EQ(result.status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(result.status.message()), HasSubstr("the client does not read"));
  EXPECT_EQ(slow.messages().size(), 2u);
  scheduler_.FinishAll();
  StepResponder();
  EXPECT_TRUE(other.Wait().status.ok());
  EXPECT_THAT(Words(other), ElementsAre(1, 2, 3, 4, -1));
  ExpectGood();
}

class FullTypedServiceTest : public TypedServiceTest {
 protected:
  FullTypedServiceTest()
      : TypedServiceTest({.max_requests = 4, .max_cells = 20, .max_bytes = 1 << 20}) {}
};

TEST_F(FullTypedServiceTest, AllInputsOfACallAreAdmittedOrNone) {
  FakeCall& three = Infer({{1}, {2}, {3}});
  const CallResult& by_count = Infer({{1}, {2}}).Wait();
  EXPECT_EQ(by_count.status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_GT(by_count.pushback_ms.value_or(0), 0);
  EXPECT_EQ(scheduler_.submitted(), 3);
  EXPECT_EQ(admission_.InFlight().requests, 3);
  scheduler_.FinishAll();
  StepResponder();
  EXPECT_EQ(Response(three).answers_size(), 3);
  const CallResult& by_cells =
      Infer({std::vector<int32_t>(11, 1), std::vector<int32_t>(10, 1)}).Wait();
  EXPECT_THAT(std::string(by_cells.status.message()),
              HasSubstr("needs 21 cells, and --max-queued-cells"));
  EXPECT_EQ(by_cells.pushback_ms, -1);
  ExpectGood();
}

// Its client would come back for ever.
TEST_F(FullTypedServiceTest, ACallOfMoreInputsThanThereMayEverBeIsNotToldToComeBack) {
  const CallResult& result = Infer({{1}, {2}, {3}, {4}, {5}}).Wait();
  EXPECT_EQ(result.status,
            absl::ResourceExhaustedError("the request needs 5 requests, and --max-queued-requests "
                                         "limits all requests together to 4"));
  EXPECT_EQ(result.pushback_ms, -1);
  EXPECT_EQ(scheduler_.submitted(), 0);
  ExpectNothingInFlight();
  EXPECT_TRUE(Infer({{1}}).answers() == 0) << "and there is room for others";
  scheduler_.FinishAll();
  StepResponder();
  ExpectGood();
}

// Submitters, cancels, deadlines, words and answers at once: for the thread sanitizer.
TEST_F(TypedServiceTest, EveryCallEndsOnceWhateverComesAtTheSameTime) {
  Responder responder(scheduler_, path_);
  std::atomic<bool> stop = false;
  std::thread device([&] {
    for (int round = 0; !stop; ++round) {
      scheduler_.TellWords({1, 2, 3});
      scheduler_.TellWords({1, 2, 3, 4, 5});
      if (round % 3 == 0) scheduler_.FinishAll();
    }
    scheduler_.FinishAll();
  });
  auto calls = CallFromThreads(300, [&](std::mt19937& random, int t, ThreadsCalls& of_thread) {
    const bool stream = random() % 2 == 0;
    CallSink& sink = stream ? static_cast<CallSink&>(decode_) : infer_;
    const std::vector<std::vector<int32_t>> sequences(1 + random() % 5, {1, 2});
    const int64_t deadline = random() % 3 == 0 ? clock_.now + 1'000'000 : kNoDeadline;
    FakeCall& call = of_thread.emplace_back(
        stream ? Source({4}).SerializeAsString() : Message(sequences).SerializeAsString(),
        clock_.now, deadline, t);
    if (random() % 4 == 0) call.StopReadingAfter(random() % 6);
    call.StartOn(sink);
    if (random() % 3 == 0) call.CancelOn(sink);
  });
  for (auto& of_thread : calls) {
    for (FakeCall& call : of_thread) {
      const CallResult& result = call.Wait();
      const std::vector<int32_t> words = Words(call);
      const std::vector<int32_t> all = {1, 2, 3, 4, 5, -1};
      ASSERT_LE(words.size(), all.size());
      if (!words.empty() && words.back() != -1) {
        EXPECT_TRUE(std::equal(words.begin(), words.end(), all.begin()));
        EXPECT_FALSE(result.status.ok()) << "a stream without an end is no success";
      }
    }
  }
  stop = true;
  device.join();
  responder.Stop();
  for (auto& of_thread : calls) {
    for (const FakeCall& call : of_thread) EXPECT_EQ(call.answers(), 1);
  }
  EXPECT_EQ(admission_.InFlight().requests, 0);
}

TEST_F(TypedServiceTest, APieceOfASequenceIsAMessageOfItsOwn) {
  auto model = std::make_shared<Model>(*model_);
  model->signature.state = {{"INITIAL_H", "FINAL_H", {2}}};
  model_ = model;
  v1::InferRequest request = Message({{1}, {2}});
  (*request.mutable_parameters())["sequence_id"] = 5;
  v1::InferResponse answer;
  ASSERT_TRUE(answer.ParseFromString(Start(infer_, request.SerializeAsString()).Wait().body));
  ASSERT_EQ(answer.answers_size(), 2);
  for (const v1::Answer& one : answer.answers()) {
    EXPECT_EQ(one.error(),
              "parameter sequence_id: the message has 2 requests, a piece of a sequence is one");
  }
}

}  // namespace
}  // namespace cellbatch
