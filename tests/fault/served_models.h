// What the fault tests attack: one real server with a token LSTM ("words"), the same with unknown
// words mapped ("unk"), a vector GRU ("vectors") and a model that cannot be loaded ("broken").
#ifndef CELLBATCH_TESTS_FAULT_SERVED_MODELS_H_
#define CELLBATCH_TESTS_FAULT_SERVED_MODELS_H_

#include <cstdint>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/e2e/server_process.h"
#include "tests/e2e/small_models.h"
#include "tests/fault/grpc_caller.h"

namespace cellbatch {

inline const SmallModel kWords = {.name = "words", .hidden = 24, .width = 8, .vocabulary = 100};
inline const SmallModel kUnknown = {.name = "unk", .hidden = 8, .width = 4, .vocabulary = 100};
inline const SmallModel kVectors = {.name = "vectors", .hidden = 8, .width = 4, .gru = true};
// One whose every step reads nine megabytes of weights: a request of kSlowSteps takes seconds on any machine, so that
// things can happen in its middle. Not of FaultRepository.
inline const SmallModel kSlow = {.name = "slow", .hidden = 768, .width = 4, .vocabulary = 10};
inline constexpr int32_t kSlowSteps = 60'000;

template <typename T>
void SetTensor(inference::ModelInferRequest& request, const std::string& name,
               const std::string& datatype, const std::vector<int64_t>& shape,
               const std::vector<T>& values) {
  auto* input = request.add_inputs();
  input->set_name(name);
  input->set_datatype(datatype);
  for (const int64_t dim : shape) input->add_shape(dim);
  request.add_raw_input_contents(reinterpret_cast<const char*>(values.data()),
                                 values.size() * sizeof(T));
}

inline inference::ModelInferRequest Words(const std::vector<int32_t>& tokens,
                                          const std::string& model = "words") {
  inference::ModelInferRequest request;
  request.set_model_name(model);
  SetTensor(request, "TOKENS", "INT32", {static_cast<int64_t>(tokens.size())}, tokens);
  return request;
}

// `sequences` of kSlowSteps each, side by side. A byte a step on the wire.
inline inference::ModelInferRequest SlowRequest(int sequences = 1) {
  inference::ModelInferRequest request;
  request.set_model_name(kSlow.name);
  auto* tokens = request.add_inputs();
  tokens->set_name("TOKENS");
  tokens->set_datatype("INT32");
  tokens->add_shape(int64_t{sequences} * kSlowSteps);
  for (int i = 0; i < sequences * kSlowSteps; ++i) tokens->mutable_contents()->add_int_contents(1);
  auto* lengths = request.add_inputs();
  lengths->set_name("LENGTHS");
  lengths->set_datatype("INT32");
  lengths->add_shape(sequences);
  for (int i = 0; i < sequences; ++i) lengths->mutable_contents()->add_int_contents(kSlowSteps);
  return request;
}

inline inference::ModelInferRequest Vectors(const std::vector<float>& values) {
  inference::ModelInferRequest request;
  request.set_model_name("vectors");
  SetTensor(request, "X", "FP32", {static_cast<int64_t>(values.size() / 4), 4}, values);
  return request;
}

inline std::vector<float> FirstOutput(const inference::ModelInferResponse& answer) {
  if (answer.raw_output_contents_size() == 0) return {};
  const std::string& raw = answer.raw_output_contents(0);
  std::vector<float> values(raw.size() / 4);
  std::memcpy(values.data(), raw.data(), raw.size());
  return values;
}

inline std::string FaultRepository() {
  const std::string repository = NewRepository();
  for (const SmallModel& model : {kWords, kUnknown, kVectors}) AddModel(repository, model);
  // The tool's own configuration, with another answer to unknown words.
  const std::string config = repository + "/unk/config.textproto";
  std::ofstream(config, std::ios::app)
      << "vocabulary { out_of_vocabulary: UNKNOWN_WORD unknown_id: 7 }\n";
  return repository;
}

// "The next good request is right": against LSTM in double, and in bits against the first time.
inline void ExpectGood(GrpcCaller& caller) {
  static const std::vector<int32_t> kTokens = {5, 99, 0, 42, 17};
  static std::vector<float> first;
  inference::ModelInferResponse answer;
  const grpc::Status status = caller.Infer(Words(kTokens), answer);
  ASSERT_TRUE(status.ok()) << status.error_code() << ": " << status.error_message();
  const std::vector<float> values = FirstOutput(answer);
  const std::vector<double> expected = LstmReference(kWords, kTokens);
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], expected[i], 1e-5) << i;
  if (first.empty()) first = values;
  EXPECT_EQ(values, first);
}

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_FAULT_SERVED_MODELS_H_
