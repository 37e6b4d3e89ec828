// Requests that are messages but wrong (serving.md 4.4, V), each with its code and text, against the
// real server. wire_codec_test has more of each kind; here they cross gRPC and meet a real model.
#include <atomic>
#include <cmath>
#include <csignal>
#include <limits>
#include <sstream>
#include <thread>

#include "gtest/gtest.h"
#include "tests/fault/fault_test.h"
#include "tests/fault/metrics_page.h"

namespace cellbatch {
namespace {

using grpc::StatusCode;
using inference::ModelInferRequest;

class ValidationTest : public FaultTest {
 protected:
  static void SetUpTestSuite() {
    const std::string repository = FaultRepository();
    AddModel(repository, {.name = "broken", .vocabulary = 10});
    std::ofstream(repository + "/broken/config.textproto") << "name: \"another\"\n";
    Serve(repository, {"--strict-readiness=false", "--devices=cpu:0"});
  }
  static void Expect(StatusCode code, const std::string& text, const ModelInferRequest& request) {
    inference::ModelInferResponse answer;
    const grpc::Status status = caller_->Infer(request, answer);
    EXPECT_EQ(status.error_code(), code) << status.error_message();
    EXPECT_NE(status.error_message().find(text), std::string::npos)
        << status.error_message() << "\nexpected: " << text;
  }
  template <typename Change>
  static void ExpectInvalid(const std::string& text, Change change) {
    ModelInferRequest request = Words({1, 2, 3});
    change(request);
    Expect(StatusCode::INVALID_ARGUMENT, text, request);
  }
  static ModelInferRequest Named(const std::string& model, const std::string& version = "") {
    ModelInferRequest request = Words({1, 2, 3}, model);
    request.set_model_version(version);
    return request;
  }
};

TEST_F(ValidationTest, V1NamesAndVersions) {
  Expect(StatusCode::INVALID_ARGUMENT, "model_name is empty", Named(""));
  Expect(StatusCode::NOT_FOUND, "\"nobody\"", Named("nobody"));
  Expect(StatusCode::NOT_FOUND, "\"words\"", Named("words", "2"));
  for (const char* version : {"abc", "-1", "007"}) {
    Expect(StatusCode::INVALID_ARGUMENT, version, Named("words", version));
  }
  Expect(StatusCode::INVALID_ARGUMENT, "is no name of a model", Named("../x"));
  Expect(StatusCode::INVALID_ARGUMENT, "model_name has 1048576 bytes, the most is 256",
         Named(std::string(1 << 20, 'x')));
}

// As with Triton, so that a client may wait for a model that is still to come.
TEST_F(ValidationTest, V1AModelOrVersionThatIsNotThereIsNotReady) {
  const auto ask = [](const std::string& model, const std::string& version) {
    grpc::ClientContext context;
    inference::ModelReadyRequest request;
    request.set_name(model);
    request.set_version(version);
    inference::ModelReadyResponse answer;
    const grpc::Status status = caller_->stub().ModelReady(&context, request, &answer);
    return std::pair(status.error_code(), answer.ready());
  };
  EXPECT_EQ(ask("words", "1"), std::pair(StatusCode::OK, true));
  EXPECT_EQ(ask("nobody", ""), std::pair(StatusCode::OK, false));
  EXPECT_EQ(ask("words", "2"), std::pair(StatusCode::OK, false));
  EXPECT_EQ(ask("words", "x"), std::pair(StatusCode::INVALID_ARGUMENT, false));
  EXPECT_EQ(HttpGet(server_->http(), "/v2/models/nobody/ready").substr(0, 3), "404");
}

TEST_F(ValidationTest, V2AModelThatFailedToLoadIsUnavailable) {
  Expect(StatusCode::UNAVAILABLE, "broken", Named("broken"));
  EXPECT_EQ(HttpGet(server_->http(), "/v2/models/broken/ready").substr(0, 3), "503");
}

TEST_F(ValidationTest, V3Inputs) {
  ModelInferRequest none;
  none.set_model_name("words");
  Expect(StatusCode::INVALID_ARGUMENT, "input TOKENS of model \"words\" is missing", none);
  ExpectInvalid("input \"tokens\" is none of model \"words\"'s inputs",
                [](auto& r) { r.mutable_inputs(0)->set_name("tokens"); });
  ExpectInvalid("input TOKENS of model \"words\" is given twice",
                [](auto& r) { SetTensor<int32_t>(r, "TOKENS", "INT32", {1}, {1}); });
  ExpectInvalid("the request has 65 inputs or more, the most is 64", [](auto& r) {
    for (int i = 0; i < 100000; ++i) r.add_inputs();
  });
}

TEST_F(ValidationTest, V4Datatypes) {
  for (const char* datatype : {"FP32", "UINT32", "BYTES"}) {
    ExpectInvalid(std::string("datatype is ") + datatype + ", expected INT32",
                  [&](auto& r) { r.mutable_inputs(0)->set_datatype(datatype); });
  }
  ExpectInvalid("datatype \"int32\" does not exist",
                [](auto& r) { r.mutable_inputs(0)->set_datatype("int32"); });
  ExpectInvalid("datatype \"INT33\" does not exist",
                [](auto& r) { r.mutable_inputs(0)->set_datatype("INT33"); });
}

TEST_F(ValidationTest, V5Dimensions) {
  ExpectInvalid("shape has 2 dimensions, expected 1",
                [](auto& r) { r.mutable_inputs(0)->add_shape(1); });
  ExpectInvalid("dimension 0 is -3, the least is 1",
                [](auto& r) { r.mutable_inputs(0)->set_shape(0, -3); });
  ExpectInvalid("dimension 0 is 0, the least is 1",
                [](auto& r) { r.mutable_inputs(0)->set_shape(0, 0); });
  Expect(StatusCode::INVALID_ARGUMENT, "the longest sequence is 65536",
         Words(std::vector<int32_t>(65537, 1)));
  ModelInferRequest wide;
  wide.set_model_name("vectors");
  SetTensor<float>(wide, "X", "FP32", {2, 5}, std::vector<float>(10));
  Expect(StatusCode::INVALID_ARGUMENT, "dimension 1 is 5, expected 4", wide);
}

TEST_F(ValidationTest, V6ProductsThatOverflow) {
  ModelInferRequest huge;
  huge.set_model_name("vectors");
  SetTensor<float>(huge, "X", "FP32", {int64_t{1} << 62, 4}, std::vector<float>(4));
  Expect(StatusCode::INVALID_ARGUMENT, "the product of its dimensions does not fit into 60 bits",
         huge);
  ExpectInvalid("the request has 100001 dimensions in input 0 or more, the most is 8", [](auto& r) {
    for (int i = 0; i < 100000; ++i) r.mutable_inputs(0)->add_shape(1);
  });
}

TEST_F(ValidationTest, V7RawBytes) {
  for (const size_t size : {size_t{0}, size_t{11}, size_t{13}, size_t{10}}) {
    ExpectInvalid("raw contents have " + std::to_string(size) +
                      " bytes, its shape and datatype INT32 need 12",
                  [&](auto& r) { r.set_raw_input_contents(0, std::string(size, '\0')); });
  }
}

TEST_F(ValidationTest, V8RawAndTypedContents) {
  ExpectInvalid("the request has 1 inputs, but 2 raw_input_contents",
                [](auto& r) { r.add_raw_input_contents("abcd"); });
  ExpectInvalid("has typed contents, but the request has raw_input_contents",
                [](auto& r) { r.mutable_inputs(0)->mutable_contents()->add_int_contents(1); });
  ExpectInvalid("datatype INT32 goes into int_contents, not into uint_contents", [](auto& r) {
    r.clear_raw_input_contents();
    r.mutable_inputs(0)->mutable_contents()->add_uint_contents(1);
  });
  ExpectInvalid("int_contents has 2 values, its shape needs 3", [](auto& r) {
    r.clear_raw_input_contents();
    r.mutable_inputs(0)->mutable_contents()->add_int_contents(1);
    r.mutable_inputs(0)->mutable_contents()->add_int_contents(300);
  });
}

TEST_F(ValidationTest, V9BytesWhereNoneAreTaken) {
  // No model here reads BYTES (their framing is wire_codec_test's): whatever is inside, it is refused.
  ExpectInvalid("datatype is BYTES, expected INT32", [](auto& r) {
    r.mutable_inputs(0)->set_datatype("BYTES");
    r.set_raw_input_contents(0, "\xff\xff\xff\xff");
  });
}

TEST_F(ValidationTest, V10WordsBeyondTheVocabulary) {
  Expect(StatusCode::INVALID_ARGUMENT,
         "input TOKENS of model \"words\": token 1 is -1, the vocabulary ends at 99",
         Words({1, -1}));
  Expect(StatusCode::INVALID_ARGUMENT, "token 0 is 100, the vocabulary ends at 99", Words({100}));
  Expect(StatusCode::INVALID_ARGUMENT, "token 2 is -2147483648",
         Words({1, 2, std::numeric_limits<int32_t>::min()}));
  inference::ModelInferResponse unknown, known;
  ASSERT_TRUE(caller_->Infer(Words({3, 100, -5}, "unk"), unknown).ok());
  ASSERT_TRUE(caller_->Infer(Words({3, 7, 7}, "unk"), known).ok());
  EXPECT_EQ(FirstOutput(unknown), FirstOutput(known));
}

// Several sequences of one message are ready together: they are in one batch at every step.
TEST_F(ValidationTest, V11NanInfinityAndDenormalsStayInTheirOwnSequenceOfABatch) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kTiny = std::numeric_limits<float>::denorm_min();
  static constexpr int kSteps = 50;
  const auto sequence = [](float value) { return std::vector<float>(4 * kSteps, value); };
  const auto infer = [](const std::vector<std::vector<float>>& sequences) {
    std::vector<float> values;
    for (const auto& s : sequences) values.insert(values.end(), s.begin(), s.end());
    ModelInferRequest request = Vectors(values);
    const std::vector<int32_t> lengths(sequences.size(), kSteps);
    SetTensor(request, "LENGTHS", "INT32", {static_cast<int64_t>(lengths.size())}, lengths);
    inference::ModelInferResponse answer;
    const grpc::Status status = caller_->Infer(request, answer);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return FirstOutput(answer);
  };
  const auto part = [](const std::vector<float>& values, size_t number) {
    constexpr size_t kHidden = 8;
    EXPECT_GE(values.size(), (number + 1) * kHidden);
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(number * kHidden);
    return std::vector<float>(begin, begin + kHidden);
  };
  const std::vector<float> one = infer({sequence(1)}), zero = infer({sequence(0)});
  for (const float poison : {kNan, kInfinity, -kInfinity, kTiny, -kTiny}) {
    SCOPED_TRACE(poison);
    const MetricsPage before(*server_);
    const std::vector<float> answers =
        infer({sequence(1), sequence(poison), sequence(0), sequence(1)});
    const MetricsPage after(*server_);
    const auto tasks = [](const MetricsPage& page) {
      return page.Sum("cellbatch_tasks_total", {R"(model="vectors")", R"(cell="gru_l0")"});
    };
    EXPECT_EQ(after.Cells("vectors") - before.Cells("vectors"), 4 * kSteps);
    EXPECT_EQ(tasks(after) - tasks(before), kSteps) << "a task of four cells a step";
    EXPECT_EQ(part(answers, 0), one);
    EXPECT_EQ(part(answers, 2), zero);
    EXPECT_EQ(part(answers, 3), one);
    // And its own answer is what arithmetic makes of it.
    const std::vector<float> own = part(answers, 1);
    for (size_t i = 0; i < own.size(); ++i) {
      if (std::isnan(poison)) {
        EXPECT_TRUE(std::isnan(own[i])) << own[i];
      } else if (std::fpclassify(poison) == FP_SUBNORMAL) {
        EXPECT_NEAR(own[i], zero[i], 1e-6);
      }
    }
    if (std::isinf(poison)) {
      EXPECT_NE(own, zero) << "infinity was taken for nothing";
    }
  }
}

// Whoever else is in the batch: requests that come and go beside a long one of NaN.
TEST_F(ValidationTest, V11NanStaysInItsOwnRequest) {
  const std::vector<float> plain = {1, 2, 3, 4, 5, 6, 7, 8};
  inference::ModelInferResponse alone;
  ASSERT_TRUE(caller_->Infer(Vectors(plain), alone).ok());
  const std::vector<float> poison(4 * 50'000, std::numeric_limits<float>::quiet_NaN());
  const auto shared = [] {  // tasks of more than one cell
    const MetricsPage page(*server_);
    const std::vector<std::string> labels = {R"(model="vectors")", R"(cell="gru_l0")"};
    return page.Sum("cellbatch_cells_executed_total", labels) -
           page.Sum("cellbatch_tasks_total", labels);
  };
  GrpcCaller other(server_->grpc());
  for (const double before = shared(); shared() < before + 20;) {
    std::atomic<bool> done = false;
    std::thread poisoner([&] {
      inference::ModelInferResponse answer;
      EXPECT_TRUE(other.Infer(Vectors(poison), answer).ok());
      const std::vector<float> own = FirstOutput(answer);
      EXPECT_EQ(own.size(), 8u);
      for (const float value : own) EXPECT_TRUE(std::isnan(value)) << value;
      done = true;
    });
    while (!done) {
      inference::ModelInferResponse answer;
      EXPECT_TRUE(caller_->Infer(Vectors(plain), answer).ok());
      EXPECT_EQ(FirstOutput(answer), FirstOutput(alone));
    }
    poisoner.join();
  }
}

TEST_F(ValidationTest, V15RequestedOutputs) {
  ExpectInvalid("output \"FINAL_X\" is none of model \"words\"'s outputs",
                [](auto& r) { r.add_outputs()->set_name("FINAL_X"); });
  ExpectInvalid("output \"OUTPUT\" is requested twice", [](auto& r) {
    r.add_outputs()->set_name("OUTPUT");
    r.add_outputs()->set_name("OUTPUT");
  });
  ExpectInvalid("the request has 65 requested outputs or more, the most is 64", [](auto& r) {
    for (int i = 0; i < 1000000; ++i) r.add_outputs();
  });
}

TEST_F(ValidationTest, V16Parameters) {
  const auto with = [](const std::string& text, const char* key, auto set) {
    ExpectInvalid(text, [&](auto& r) { set((*r.mutable_parameters())[key]); });
  };
  with("parameter timeout has the wrong type: expected int64_param", "timeout",
       [](auto& p) { p.set_bool_param(true); });
  with("parameter \"triton_unknown\" is reserved and unknown", "triton_unknown",
       [](auto& p) { p.set_bool_param(true); });
  with("parameter sequence_start is set without a sequence_id", "sequence_start",
       [](auto& p) { p.set_bool_param(true); });
  ExpectInvalid("the request has 65 parameters or more, the most is 64", [](auto& r) {
    for (int i = 0; i < 100000; ++i)
      (*r.mutable_parameters())[std::to_string(i)].set_bool_param(true);
  });
  ModelInferRequest triton = Words({1});
  (*triton.mutable_parameters())["triton_enable_empty_final_response"].set_bool_param(true);
  inference::ModelInferResponse answer;
  EXPECT_TRUE(caller_->Infer(triton, answer).ok());
}

// Everything a client can name, in requests that succeed and that fail, with the log at its most talkative.
TEST(ClientTextTest, V17RequestIdsAreEchoedUnchangedAndNothingOfAClientsReachesTheLogRaw) {
  const std::string repository = FaultRepository();
  const auto server = ServerProcess::Serving(repository, {"--devices=cpu:0", "--log-level=debug"});
  ASSERT_NE(server, nullptr);
  GrpcCaller caller(server->grpc());
  std::string evil = "%n%s%1000000d{}{0}\x1b[31mEVIL\x1b]0;t\x07\r\n2026-01-01 error EVIL\b\x7f";
  for (char c = 1; c < ' '; ++c) evil += c;
  for (const size_t size : {evil.size(), size_t{1} << 20}) {
    std::string id = evil;
    id.resize(size, 'x');
    ModelInferRequest request = Words({1, 2});
    request.set_id(id);
    inference::ModelInferResponse answer;
    ASSERT_TRUE(caller.Infer(request, answer).ok());
    EXPECT_EQ(answer.id(), id);
  }
  const auto fails = [&](auto change) {
    ModelInferRequest request = Words({1, 2, 3});
    request.set_id(evil);
    change(request);
    inference::ModelInferResponse answer;
    const grpc::Status status = caller.Infer(request, answer);
    EXPECT_FALSE(status.ok());
    EXPECT_EQ(status.error_message().find('\x1b'), std::string::npos) << status.error_message();
  };
  fails([](auto& r) { r.mutable_inputs(0)->set_datatype("FP32"); });
  fails([&](auto& r) { r.set_model_name(evil); });
  fails([&](auto& r) { r.set_model_version(evil); });
  fails([&](auto& r) { r.mutable_inputs(0)->set_name(evil); });
  fails([&](auto& r) { r.mutable_inputs(0)->set_datatype(evil); });
  fails([&](auto& r) { r.add_outputs()->set_name(evil); });
  fails([&](auto& r) { (*r.mutable_parameters())["triton_" + evil].set_bool_param(true); });
  fails([](auto& r) {
    (*r.mutable_parameters())["timeout"].set_int64_param(1);
    r.mutable_inputs(0)->set_shape(0, 60000);
    r.set_raw_input_contents(0, std::string(240000, '\0'));
  });
  std::string not_utf8 = Words({1}).SerializeAsString();
  not_utf8.replace(not_utf8.find("words"), 5, "\x1b\xc3(\r\n");
  EXPECT_EQ(caller.RawInfer(not_utf8).status.error_code(), StatusCode::INVALID_ARGUMENT);
  server->Signal(SIGTERM);
  EXPECT_EQ(server->Wait(), 0);
  const std::string log = server->Log();
  EXPECT_FALSE(log.empty());
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_EQ(line.substr(0, 2), "20") << "a line of its own making: " << line;
    std::istringstream words(line);
    std::string date, time, level;
    words >> date >> time >> level;
    EXPECT_NE(level, "error") << line;
    for (const char c : line) {
      ASSERT_TRUE(static_cast<unsigned char>(c) >= ' ' && c != '\x7f') << line;
    }
  }
}

}  // namespace
}  // namespace cellbatch
