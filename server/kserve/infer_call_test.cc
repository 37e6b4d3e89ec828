#include "server/kserve/infer_call.h"

#include <gmock/gmock.h>

#include <cstring>
#include <random>
#include <thread>

#include "cells/vocabulary.h"
#include "tests/testing/service_test.h"

namespace cellbatch {
namespace {

class InferTest : public ServiceTest {
 protected:
  explicit InferTest(const AdmissionLimits& limits = {}, int64_t max_answer_bytes = 8)
      : ServiceTest(limits, max_answer_bytes), service_(path_) {}  // OUTPUT has 8 bytes

  absl::StatusOr<std::shared_ptr<const Model>> Find(std::string_view name,
                                                    std::string_view version) override {
    if (name == "loading") return absl::UnavailableError("model \"loading\" is loading");
    return ServiceTest::Find(name, version);
  }
  FakeCall& Start(const inference::ModelInferRequest& request, int64_t deadline_ns = kNoDeadline) {
    return StartBytes(request.SerializeAsString(), deadline_ns);
  }
  FakeCall& StartBytes(std::string bytes, int64_t deadline_ns = kNoDeadline) {
    return ServiceTest::Start(service_, std::move(bytes), deadline_ns);
  }
  static float Value(const CallResult& result) {
    inference::ModelInferResponse answer;
    EXPECT_TRUE(result.status.ok()) << result.status;
    EXPECT_TRUE(answer.ParseFromString(result.body));
    float value = -1;
    if (answer.raw_output_contents_size() == 1) {
      std::memcpy(&value, answer.raw_output_contents(0).data(), 4);
    }
    return value;
  }
  // "The next good request is right", and nothing is left in flight.
  void ExpectGood() {
    FakeCall& call = Start(TokensRequest({1, 2, 3}));
    scheduler_.FinishAll();
    StepResponder();
    EXPECT_EQ(Value(call.Wait()), 6);
    ExpectNothingInFlight();
  }

  InferService service_;
};

TEST_F(InferTest, AnAnswerCarriesItsValuesIdAndVersionAndIsCounted) {
  inference::ModelInferRequest request = TokensRequest({10, 20, 30});
  request.set_id("seven");
  FakeCall& call = Start(request);
  EXPECT_EQ(call.answers(), 0);
  EXPECT_EQ(admission_.InFlight().cells, 3);
  scheduler_.FinishAll();
  StepResponder();
  inference::ModelInferResponse answer;
  ASSERT_TRUE(answer.ParseFromString(call.Wait().body));
  EXPECT_EQ(answer.id(), "seven");
  EXPECT_EQ(answer.model_version(), "1");
  EXPECT_EQ(Value(call.Wait()), 60);

  const RequestCounts counts = stats_.Of(*model_).Read();
  EXPECT_EQ(counts.done, 1);
  EXPECT_EQ(counts.cells, 3);
  EXPECT_EQ(counts.units, 3);
  EXPECT_EQ(counts.compute_ns, 20);
  EXPECT_EQ(counts.request.count, 1);
  std::vector<LatencySample> samples;
  path_.latencies(0).CopySince(0, samples);
  ASSERT_EQ(samples.size(), 1u);
  EXPECT_EQ(samples[0].compute_ns, 20);
  EXPECT_TRUE(samples[0].ok);
}

TEST_F(InferTest, WhatIsWrongIsAnsweredAtOnceAndCountedOnce) {
  EXPECT_EQ(StartBytes("\x01garbage").Wait().status,
            absl::InvalidArgumentError("malformed ModelInferRequest"));
  EXPECT_EQ(Start(TokensRequest({1}, "nobody")).Wait().status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Start(TokensRequest({1}, "../x")).Wait().status.code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Start(TokensRequest({1}, "")).Wait().status,
            absl::InvalidArgumentError("model_name is empty"));
  EXPECT_EQ(Count(RequestOutcome::kInvalid, stats_.unknown()), 4);
  EXPECT_EQ(Start(TokensRequest({1}, "loading")).Wait().status.code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(Count(RequestOutcome::kRejected, stats_.unknown()), 1);
  EXPECT_EQ(stats_.unknown().Read().rejections[static_cast<size_t>(Rejection::kLoading)], 1)
      << "what is rejected has a reason";

  EXPECT_EQ(std::string(Start(TokensRequest({100})).Wait().status.message()),
            "input TOKENS of model \"tiny\": token 0 is 100, the vocabulary ends at 99");
  EXPECT_EQ(std::string(Start(TokensRequest(std::vector<int32_t>(13, 1))).Wait().status.message()),
            "model \"tiny\": input TOKENS: 13 is unlucky");
  EXPECT_EQ(Count(RequestOutcome::kInvalid), 2);
  EXPECT_EQ(scheduler_.submitted(), 0);
  ExpectGood();
}

// T8
TEST_F(InferTest, WhatCannotBeInTimeIsRefusedBeforeItIsDecodedOrSubmitted) {
  scheduler_.calibration = {
      {.memory = 0, .type = CellTypeId(0), .max_batch = 1, .points = {{1, 1'000'000}}}};
  for (int i = 0; i < 10; ++i) Start(TokensRequest(std::vector<int32_t>(40, 1)));  // 400 ms of work
  EXPECT_EQ(scheduler_.submitted(), 10);
  // 380 ms of it are left, then its own 40, and three eighths more.
  const auto in_ms = [&](int64_t ms) { return clock_.now + ms * 1'000'000; };
  const inference::ModelInferRequest request = TokensRequest(std::vector<int32_t>(40, 1));
  const CallResult& late = Start(request, in_ms(577)).Wait();
  EXPECT_EQ(late.status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(std::string(late.status.message()),
            "model \"tiny\": no answer could come before the deadline: 577 ms are left, it would "
            "take about 420 ms with what came before it, or up to 3/8 more (--deadline-admission)");
  EXPECT_GT(late.pushback_ms.value_or(0), 0);
  // Malformed tensors are not looked at where even a single cell would be late.
  inference::ModelInferRequest wrong = TokensRequest({100});
  EXPECT_EQ(Start(wrong, in_ms(522)).Wait().status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Start(wrong, in_ms(523)).Wait().status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(stats_.Of(*model_).Read().rejections[static_cast<size_t>(Rejection::kDeadline)], 2);
  EXPECT_EQ(Count(RequestOutcome::kRejected), 2);
  EXPECT_EQ(scheduler_.submitted(), 10);
  EXPECT_EQ(Start(request, in_ms(578)).answers(), 0);
  EXPECT_EQ(Start(request).answers(), 0);
  EXPECT_EQ(scheduler_.submitted(), 12);
  ExpectGood();
  EXPECT_EQ(Start(request, in_ms(50)).answers(), 0) << "nothing is left before it";
  ExpectGood();
}

TEST_F(InferTest, OnlyTheDevicesOfAModelsOwnKindHelpItToBeInTime) {
  const auto model = std::make_shared<Model>(*model_);
  model->devices.gpu = false;
  model_ = model;
  scheduler_.fake_stats.devices = {{.name = "cpu:0", .details = {}},
                                   {.name = "cuda:0", .details = {}, .kind = DeviceKind::kGpu}};
  scheduler_.calibration = {
      {.memory = 1, .type = CellTypeId(0), .max_batch = 1, .points = {{1, 1'000'000}}}};
  const inference::ModelInferRequest request = TokensRequest(std::vector<int32_t>(40, 1));
  for (int i = 0; i < 10; ++i) Start(request);
  const CallResult& late = Start(request, clock_.now + 577 * 1'000'000).Wait();
  EXPECT_THAT(std::string(late.status.message()), ::testing::HasSubstr("about 420 ms"));
  ExpectGood();
}

// Whoever fails has a line, written before the client knows, with the id that the client is told.
TEST_F(InferTest, EveryRequestThatFailsHasALineWithItsIdAndNoneThatIsAnswered) {
  std::vector<std::string> lines;
  auto log = std::make_unique<FailureLog>(
      1'000, LogFormat::kText, [&](const std::string& line) { lines.push_back(line); }, clock_);
  path_.LogFailures(*log);
  inference::ModelInferRequest wrong = TokensRequest({100});
  wrong.set_id("wrong one");
  EXPECT_EQ(Start(wrong).Wait().request_id, "wrong one");
  const std::string malformed = StartBytes("\x01garbage").Wait().request_id;
  EXPECT_EQ(malformed.size(), 16u);
  EXPECT_FALSE(Start(TokensRequest({1}, "nobody")).Wait().request_id.empty());
  EXPECT_FALSE(Start(TokensRequest({1}), clock_.now).Wait().request_id.empty());
  FakeCall& cancelled = Start(TokensRequest({1}));
  cancelled.CancelOn(service_);
  StepResponder();
  EXPECT_FALSE(cancelled.Wait().request_id.empty());
  FakeCall& broken = Start(TokensRequest({1}));
  scheduler_.FinishAll(absl::InternalError("device cpu:0 is lost"));
  StepResponder();
  EXPECT_FALSE(broken.Wait().request_id.empty());
  scheduler_.full = true;
  EXPECT_FALSE(Start(TokensRequest({1})).Wait().request_id.empty());
  scheduler_.full = false;
  admission_.Close();
  EXPECT_FALSE(Start(TokensRequest({1})).Wait().request_id.empty());
  log.reset();
  ASSERT_EQ(lines.size(), 8u);
  const char* const wanted[][4] = {
      {"id=\"wrong one\"", "outcome=invalid code=INVALID_ARGUMENT", "model=\"tiny\" version=\"1\"",
       "error=\"input TOKENS of model \\\"tiny\\\": token # is #, the vocabulary ends at #\""},
      {malformed.c_str(), "outcome=invalid", "wire=grpc", "error=\"malformed ModelInferRequest\""},
      {"model=\"nobody\"", "code=NOT_FOUND", "queue_ms=0.001 compute_ms=0.000 nodes=0", ""},
      {"outcome=deadline code=DEADLINE_EXCEEDED", "", "", ""},
      {"outcome=cancelled code=CANCELLED", "", "", ""},
      {"outcome=error code=INTERNAL", "device cpu:0 is lost", "", ""},
      {"outcome=rejected code=UNAVAILABLE", "takes no requests now", "", ""},
      {"outcome=rejected code=UNAVAILABLE", "wire=grpc", "", ""}};
  for (size_t i = 0; i < lines.size(); ++i) {
    for (const char* part : wanted[i]) EXPECT_THAT(lines[i], ::testing::HasSubstr(part));
  }
}

TEST_F(InferTest, AnAnswerHasNoIdOfAFailureAndNoLine) {
  int lines = 0;
  auto log = std::make_unique<FailureLog>(
      1'000, LogFormat::kText, [&](const std::string&) { ++lines; }, clock_);
  path_.LogFailures(*log);
  FakeCall& call = Start(TokensRequest({1, 2, 3}));
  scheduler_.FinishAll();
  StepResponder();
  EXPECT_EQ(Value(call.Wait()), 6);
  EXPECT_EQ(call.Wait().request_id, "");
  log.reset();
  EXPECT_EQ(lines, 0);
}

// P13
TEST_F(InferTest, AnAnswerIsInFlightUntilItsClientHasIt) {
  FakeCall& call = Start(TokensRequest({10, 20, 30}));
  call.LeaveAnswer();
  scheduler_.FinishAll();
  StepResponder();
  EXPECT_EQ(Value(call.Wait()), 60);
  EXPECT_EQ(admission_.InFlight().requests, 1);
  EXPECT_EQ(admission_.InFlight().cells, 0);
  EXPECT_EQ(admission_.InFlight().bytes, static_cast<int64_t>(call.Wait().body.size()));
  FakeCall& wrong = StartBytes("\x01garbage");
  EXPECT_EQ(wrong.answers(), 1);
  EXPECT_EQ(admission_.InFlight().requests, 1) << "an error has no answer to take";
  call.TakeAnswer();
  ExpectNothingInFlight();
  ExpectGood();
}

// T1
TEST_F(InferTest, APassedDeadlineIsAnsweredWithoutASingleCell) {
  EXPECT_EQ(Start(TokensRequest({1}), clock_.now).Wait().status.code(),
            absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(scheduler_.submitted(), 0);
  EXPECT_EQ(Count(RequestOutcome::kDeadline), 1);
  ExpectGood();
}

// T4: the parameter, though the call has no deadline of its own.
TEST_F(InferTest, TheTimeoutParameterIsADeadline) {
  inference::ModelInferRequest request = TokensRequest({1});
  (*request.mutable_parameters())["timeout"].set_int64_param(
      1);  // a microsecond, and it has passed
  EXPECT_EQ(Start(request).Wait().status.code(), absl::StatusCode::kDeadlineExceeded);
  ExpectGood();
}

// T2, T3
TEST_F(InferTest, ADeadlineThatPassesWhileItRunsIsNewsToTheScheduler) {
  FakeCall& call = Start(TokensRequest({1, 2}), clock_.now + 5'000'000);
  clock_.now += 10'000'000;  // the timer's thread looks at this clock when it wakes
  while (scheduler_.news().empty()) std::this_thread::yield();
  EXPECT_EQ(scheduler_.news()[0].second, News::kExpired);
  StepResponder();
  EXPECT_EQ(call.Wait().status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(Count(RequestOutcome::kDeadline), 1);
  ExpectGood();
}

// A client whose deadline passes hangs up, and its clock says so before ours does: what it has left comes to us rounded up.
TEST_F(InferTest, WhoHangsUpAtItsDeadlineIsLateAndWhoDoesBeforeIsCancelled) {
  constexpr int64_t kMs = 1'000'000;
  const int64_t began = clock_.now;
  const auto hang_up_at = [&](int64_t ms) {
    clock_.now = began;
    FakeCall& call = Start(TokensRequest({1}), began + 2'000 * kMs);
    clock_.now = began + ms * kMs;
    call.CancelOn(service_);
    StepResponder();
    return call.Wait().status.code();
  };
  EXPECT_EQ(hang_up_at(1'000), absl::StatusCode::kCancelled);
  EXPECT_EQ(hang_up_at(1'950), absl::StatusCode::kCancelled);
  EXPECT_EQ(hang_up_at(1'990), absl::StatusCode::kDeadlineExceeded) << "as 1.99 s are said";
  EXPECT_EQ(hang_up_at(1'999), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(Count(RequestOutcome::kCancelled), 2);
  EXPECT_EQ(Count(RequestOutcome::kDeadline), 2);
  ExpectGood();
}

// T5: while it runs; between the last cell and the answer; after the answer.
TEST_F(InferTest, ACancelIsHeardInEveryStateAndEachCallHasOneAnswer) {
  FakeCall& running = Start(TokensRequest({1}));
  running.CancelOn(service_);
  StepResponder();
  EXPECT_EQ(running.Wait().status.code(), absl::StatusCode::kCancelled);

  FakeCall& computed = Start(TokensRequest({2}));
  scheduler_.FinishAll();
  computed.CancelOn(service_);
  StepResponder();
  EXPECT_EQ(Value(computed.Wait()), 2);

  FakeCall& answered = Start(TokensRequest({3}));
  scheduler_.FinishAll();
  StepResponder();
  EXPECT_EQ(Value(answered.Wait()), 3);
  answered.CancelOn(service_);
  for (const FakeCall& call : calls_) EXPECT_EQ(call.answers(), 1);
  EXPECT_EQ(Count(RequestOutcome::kCancelled), 1);
  EXPECT_EQ(Count(RequestOutcome::kOk), 2);
  ExpectGood();
}

TEST_F(InferTest, AFailedDeviceIsAnInternalErrorOfThatRequest) {
  FakeCall& call = Start(TokensRequest({1}));
  scheduler_.FinishAll(absl::InternalError("device cpu:0 failed"));
  StepResponder();
  EXPECT_EQ(call.Wait().status, absl::InternalError("model \"tiny\": device cpu:0 failed"));
  EXPECT_EQ(Count(RequestOutcome::kError), 1);
  ExpectGood();
}

TEST_F(InferTest, ASchedulerThatTakesNothingMeansUnavailable) {
  scheduler_.full = true;
  EXPECT_EQ(Start(TokensRequest({1})).Wait().status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(stats_.Of(*model_).Read().rejections[static_cast<size_t>(Rejection::kScheduler)], 1);
  scheduler_.full = false;
  ExpectGood();
}

// What it did not take is not before anybody: else the server would refuse deadlines for work that there never was.
TEST_F(InferTest, WhatASchedulerDidNotTakeIsNoWorkAhead) {
  scheduler_.calibration = {
      {.memory = 0, .type = CellTypeId(0), .max_batch = 1, .points = {{1, 1'000'000}}}};
  const inference::ModelInferRequest request = TokensRequest(std::vector<int32_t>(40, 1));
  scheduler_.full = true;
  for (int i = 0; i < 10; ++i) Start(request).Wait();
  scheduler_.full = false;
  EXPECT_EQ(Start(request, clock_.now + 50'000'000).answers(), 0);
  scheduler_.FinishAll();
  StepResponder();
}

// gRPC cancels a call at its deadline.
TEST_F(InferTest, ACancelAtTheDeadlineIsTheDeadlines) {
  constexpr int64_t kHour = 3'600'000'000'000;  // the timer sleeps meanwhile
  FakeCall& call = Start(TokensRequest({1}), clock_.now + kHour);
  clock_.now += kHour;
  call.CancelOn(service_);
  StepResponder();
  EXPECT_EQ(call.Wait().status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(Count(RequestOutcome::kDeadline), 1);
}

TEST_F(InferTest, AsManyRowsAsOneRequestMayHaveAreTaken) {
  scheduler_.max_rows = {5, 5};
  EXPECT_EQ(Start(TokensRequest(std::vector<int32_t>(5, 1))).answers(), 0);
  scheduler_.FinishAll();
  StepResponder();
  EXPECT_EQ(Count(RequestOutcome::kOk), 1);
}

TEST_F(InferTest, MoreRowsThanOneRequestMayHaveIsToldNotToRetry) {
  scheduler_.max_rows = {5, 5};
  const CallResult& result = Start(TokensRequest(std::vector<int32_t>(6, 1))).Wait();
  EXPECT_EQ(result.status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(result.pushback_ms, -1);
  EXPECT_NE(
      std::string(result.status.message()).find("6 rows of table token, one request may have 5"),
      std::string::npos)
      << result.status;
  ExpectGood();
}

// L1's last step: closed doors.
TEST_F(InferTest, DrainingAnswersUnavailableAndStillAnswersWhatWasAccepted) {
  FakeCall& accepted = Start(TokensRequest({4}));
  admission_.Close();
  EXPECT_EQ(Start(TokensRequest({1})).Wait().status,
            absl::UnavailableError("the server is shutting down"));
  scheduler_.FinishAll();
  StepResponder();
  EXPECT_EQ(Value(accepted.Wait()), 4);
}

// A cell a piece: the chain over TOKENS, one token at a time. Thirteen pieces are unlucky.
class StepwiseUnfolder : public Unfolder {
 public:
  explicit StepwiseUnfolder(TableId tokens) : tokens_(tokens) {}
  absl::Status Unfold(const RequestInput& input, CellGraph& graph) const override {
    const auto steps = static_cast<int32_t>(input.Find("TOKENS")->dims[0]);
    Growth most;
    most.pieces = steps;
    most.nodes = steps;
    most.rows.assign(2, steps);
    most.progress = std::make_unique<Steps>();
    graph.Grow(std::move(most));
    graph.AddTensor("OUTPUT", WireType::kFp32, {2});
    graph.AddInput(tokens_, steps, input.Find("TOKENS")->bytes.data());
    return Step(steps, graph);
  }
  absl::Status Extend(const RequestInput& input, CellGraph& graph) const override {
    const auto steps = static_cast<int32_t>(input.Find("TOKENS")->dims[0]);
    const int32_t made = static_cast<Steps&>(*graph.progress()).made;
    if (made == 12) return absl::InvalidArgumentError("thirteen steps are unlucky");
    return made < steps ? Step(steps, graph) : absl::OkStatus();
  }

 private:
  struct Steps final : Progress {
    int32_t made = 0;
  };
  static absl::Status Step(int32_t steps, CellGraph& graph) {
    int32_t& made = static_cast<Steps&>(*graph.progress()).made;
    const SubgraphId before(made);  // the request's tokens are number 0
    const Link x{.from = SubgraphId(0), .input = InputId(0), .first = made};
    const Link carry{.from = before, .input = InputId(1)};
    const SubgraphId step =
        graph.Add(CellTypeId(0), 1, made == 0 ? std::vector<Link>{x} : std::vector<Link>{x, carry});
    if (++made == steps) graph.Return(step, ColumnId(0), {}, {.tensor = 0});
    return absl::OkStatus();
  }
  const TableId tokens_;
};

class GrowthTest : public InferTest {
 protected:
  GrowthTest() { UnfoldBy<StepwiseUnfolder>(); }
  template <typename T>
  void UnfoldBy() {
    std::shared_ptr<Model> model = TinyModel();
    model->unfolder = std::make_shared<T>(testing::FindTable(*model, "token"));
    model_ = std::move(model);
  }
  void RunPiece() {
    EXPECT_EQ(scheduler_.FinishAll(), 1);
    StepResponder();
  }
};

TEST_F(GrowthTest, AGraphIsExtendedAsLongAsItsUnfolderAddsToItAndAdmittedAsAWhole) {
  FakeCall& call = Start(TokensRequest({3, 4, 5}));
  EXPECT_EQ(admission_.InFlight().cells, 1 + 3) << "what may come is admitted, too";
  for (int piece = 0; piece < 3; ++piece) {
    EXPECT_EQ(call.answers(), 0);
    RunPiece();
  }
  EXPECT_EQ(Value(call.Wait()), 12);
  EXPECT_EQ(scheduler_.submitted(), 1);
  EXPECT_EQ(stats_.Of(*model_).Read().cells, 3);
  EXPECT_EQ(admission_.InFlight().cells, 0);
}

TEST_F(GrowthTest, AnErrorOfExtendIsTheAnswer) {
  FakeCall& call = Start(TokensRequest(std::vector<int32_t>(14, 1)));
  for (int piece = 0; piece < 12; ++piece) RunPiece();
  EXPECT_EQ(call.Wait().status,
            absl::InvalidArgumentError("model \"tiny\": thirteen steps are unlucky"));
  EXPECT_EQ(Count(RequestOutcome::kInvalid), 1);
  EXPECT_EQ(admission_.InFlight().cells, 0);
}

TEST_F(GrowthTest, ACancelBetweenPiecesIsAnsweredOnce) {
  FakeCall& call = Start(TokensRequest({3, 4, 5}));
  RunPiece();
  scheduler_.FinishAll();  // the second piece is done, and lies in the outbox
  call.CancelOn(service_);
  StepResponder();
  EXPECT_EQ(call.Wait().status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(call.answers(), 1);
  EXPECT_EQ(admission_.InFlight().requests, 0);
}

// It says that its graphs grow, and not how.
class HalfUnfolder final : public StepwiseUnfolder {
 public:
  using StepwiseUnfolder::StepwiseUnfolder;
  absl::Status Extend(const RequestInput& input, CellGraph& graph) const override {
    return Unfolder::Extend(input, graph);
  }
};

TEST_F(GrowthTest, AnUnfolderThatDoesNotExtendIsAnErrorOfItsRequests) {
  UnfoldBy<HalfUnfolder>();
  FakeCall& call = Start(TokensRequest({3}));
  RunPiece();
  EXPECT_EQ(call.Wait().status,
            absl::InternalError("model \"tiny\": the graph may grow, and its unfolder does not say "
                                "how (Extend)"));
}

// It adds more than it said.
class GreedyUnfolder final : public StepwiseUnfolder {
 public:
  using StepwiseUnfolder::StepwiseUnfolder;
  absl::Status Extend(const RequestInput&, CellGraph& graph) const override {
    const Link x{.from = SubgraphId(0), .input = InputId(0)};
    for (int i = 0; i < 5; ++i) graph.Add(CellTypeId(0), 1, {&x, 1});
    return absl::OkStatus();
  }
};

TEST_F(GrowthTest, AGraphThatGrowsBeyondWhatItSaidIsNotItsSendersFault) {
  UnfoldBy<GreedyUnfolder>();
  FakeCall& call = Start(TokensRequest({3}));
  RunPiece();
  const absl::Status status = call.Wait().status;
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_NE(std::string(status.message()).find("the graph grew by 1 pieces of 5 nodes; it said 1"),
            std::string::npos)
      << status;
  EXPECT_EQ(admission_.InFlight().cells, 0);
}

class SmallAnswerTest : public InferTest {
 protected:
  SmallAnswerTest() : InferTest({}, /*max_answer_bytes=*/7) {}
};

TEST_F(SmallAnswerTest, AnAnswerThatWouldBeLargerThanOneMayBeIsToldNotToRetry) {
  const CallResult& large = Start(TokensRequest({1})).Wait();
  EXPECT_EQ(large.status, absl::ResourceExhaustedError(
                              "model \"tiny\": the answer would have 8 bytes, one answer "
                              "may have 7 (--max-answer-bytes)"));
  EXPECT_EQ(large.pushback_ms, -1);
  EXPECT_EQ(scheduler_.submitted(), 0);
  EXPECT_EQ(Count(RequestOutcome::kRejected), 1);
  ExpectNothingInFlight();
}

// Labels of the words: numbers that the client reads as text.
class LabellingUnfolder final : public Unfolder {
 public:
  absl::Status Unfold(const RequestInput&, CellGraph& graph) const override {
    graph.AddTensor("LABELS", WireType::kInt32, {2}, labels_.get());
    return absl::OkStatus();
  }

 private:
  const std::shared_ptr<const Vocabulary> labels_ =
      *Vocabulary::Create("no\n" + std::string(60, 'y'));
};

TEST_F(SmallAnswerTest, TextIsTakenForTheLongestThatItMayBe) {
  std::shared_ptr<Model> model = TinyModel();
  model->unfolder = std::make_shared<LabellingUnfolder>();
  model_ = std::move(model);
  EXPECT_EQ(
      Start(TokensRequest({1, 2})).Wait().status,
      absl::ResourceExhaustedError("model \"tiny\": the answer would have 136 bytes, one answer "
                                   "may have 7 (--max-answer-bytes)"));
}

class NamesTest : public InferTest {
 protected:
  NamesTest() : InferTest({}, /*max_answer_bytes=*/1000) { model_ = NamingModel(); }
};

TEST_F(NamesTest, ANumberThatHasNoNameIsAnInternalErrorOfThatRequest) {
  FakeCall &wrong = Start(TokensRequest({1})), &right = Start(TokensRequest({0}));
  scheduler_.FinishAll();
  StepResponder();
  EXPECT_EQ(wrong.Wait().status,
            absl::InternalError("model \"tiny\": output LABELS: a cell left number 1065353216, "
                                "there are 2 names"));
  inference::ModelInferResponse answer;
  ASSERT_TRUE(answer.ParseFromString(right.Wait().body)) << right.Wait().status;
  ASSERT_EQ(answer.raw_output_contents_size(), 2);
  EXPECT_EQ(answer.raw_output_contents(1), std::string("\2\0\0\0no", 6));
  EXPECT_EQ(Count(RequestOutcome::kError), 1);
  EXPECT_EQ(Count(RequestOutcome::kOk), 1);
  ExpectNothingInFlight();
}

class FullTest : public InferTest {
 protected:
  FullTest() : InferTest({.max_requests = 3, .max_cells = 20, .max_bytes = 100000}) {}
};

// T7
TEST_F(FullTest, FullIsResourceExhaustedWithAHintAtOnce) {
  std::vector<FakeCall*> held;
  for (int i = 0; i < 3; ++i) held.push_back(&Start(TokensRequest({1})));
  const CallResult& by_count = Start(TokensRequest({1})).Wait();
  EXPECT_EQ(by_count.status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_GT(by_count.pushback_ms.value_or(0), 0);
  scheduler_.FinishAll();
  StepResponder();

  Start(TokensRequest(std::vector<int32_t>(15, 1)));
  const CallResult& by_cells = Start(TokensRequest(std::vector<int32_t>(6, 1))).Wait();
  EXPECT_EQ(std::string(by_cells.status.message()),
            "the server is full: 15 cells in flight, 6 asked for, --max-queued-cells is 20");
  EXPECT_GT(by_cells.pushback_ms.value_or(0), 0);
  const CallResult& never = Start(TokensRequest(std::vector<int32_t>(21, 1))).Wait();
  EXPECT_EQ(never.pushback_ms, -1);

  const CallResult& by_bytes = StartBytes(std::string(100001, 'x')).Wait();
  EXPECT_EQ(by_bytes.status.code(), absl::StatusCode::kResourceExhausted);
  scheduler_.FinishAll();
  StepResponder();
  for (FakeCall* call : held) EXPECT_EQ(Value(call->Wait()), 1);
  ExpectGood();
}

// Submitters, cancels, deadlines and answers at once: for the thread sanitizer.
TEST_F(InferTest, EveryCallIsAnsweredExactlyOnceWhateverComesAtTheSameTime) {
  scheduler_.at_once = false;
  Responder responder(scheduler_, path_);
  std::atomic<bool> stop = false;
  std::thread device([&] {
    while (!stop) scheduler_.FinishAll();
  });
  constexpr int kCalls = 500;
  auto calls = CallFromThreads(kCalls, [&](std::mt19937& random, int t, ThreadsCalls& of_thread) {
    const auto length = static_cast<size_t>(1 + random() % 12);
    const int64_t deadline = random() % 3 == 0 ? clock_.now + 1'000'000 : kNoDeadline;
    FakeCall& call =
        of_thread.emplace_back(TokensRequest(std::vector<int32_t>(length, 1)).SerializeAsString(),
                               clock_.now, deadline, t);
    call.StartOn(service_);
    if (random() % 3 == 0) call.CancelOn(service_);
  });
  for (auto& of_thread : calls) {
    for (FakeCall& call : of_thread) call.Wait();
  }
  stop = true;
  device.join();
  responder.Stop();
  int64_t total = 0;
  for (const int64_t count : stats_.Of(*model_).Read().outcomes) total += count;
  EXPECT_EQ(total, 2 * kCalls);
  for (auto& of_thread : calls) {
    for (FakeCall& call : of_thread) EXPECT_EQ(call.answers(), 1);
  }
  EXPECT_EQ(admission_.InFlight().requests, 0);
}

// Counts how many of some calls were answered while it was held.
class WatchedOutlet final : public AnswerOutlet {
 public:
  explicit WatchedOutlet(std::deque<FakeCall>& calls) : calls_(calls) {}
  void Hold() override {
    ++holds;
    answered_while_held -= Answered();
  }
  void Flow() override { answered_while_held += Answered(); }
  int holds = 0, answered_while_held = 0;

 private:
  int Answered() const {
    int answered = 0;
    for (const FakeCall& call : calls_) answered += call.outlet() == this ? call.answers() : 0;
    return answered;
  }
  std::deque<FakeCall>& calls_;
};

TEST_F(InferTest, AnswersThatAreTakenAtOnceLeaveAConnectionInOnePieceAndOneAloneWaitsForNobody) {
  const auto many = std::make_shared<WatchedOutlet>(calls_);
  const auto one = std::make_shared<WatchedOutlet>(calls_);
  for (const auto& through : {many, one, many, many}) {
    Start(TokensRequest({1, 2})).SendThrough(through);
  }
  scheduler_.FinishAll();
  StepResponder();
  for (FakeCall& call : calls_) EXPECT_EQ(Value(call.Wait()), 3);
  EXPECT_EQ(many->holds, 1);
  EXPECT_EQ(many->answered_while_held, 3);
  EXPECT_EQ(one->holds, 0);
}

class LongAnswerTest : public InferTest {
 protected:
  LongAnswerTest() : InferTest({}, /*max_answer_bytes=*/1 << 20) {
    const std::shared_ptr<Model> model = TinyModel();
    model->signature.outputs[0].dims = {-1, 2};
    model->signature.max_sequence_length = 10000;
    model->unfolder =
        std::make_shared<LastStateUnfolder>(testing::FindTable(*model, "token"), /*all=*/true);
    model_ = model;
  }
};

TEST_F(LongAnswerTest, NobodyWaitsForOneThatTakesLong) {
  const auto outlet = std::make_shared<WatchedOutlet>(calls_);
  for (const int32_t length : {3, 9999, 3, 9999}) {
    Start(TokensRequest(std::vector<int32_t>(static_cast<size_t>(length), 1))).SendThrough(outlet);
  }
  scheduler_.FinishAll();
  StepResponder();
  for (FakeCall& call : calls_) EXPECT_TRUE(call.Wait().status.ok()) << call.Wait().status;
  EXPECT_EQ(outlet->holds, 1);
  EXPECT_EQ(outlet->answered_while_held, 2);
}

}  // namespace
}  // namespace cellbatch
