// A tiny model of tokens for tests of the service: an LSTM of two units over 100 words, whose OUTPUT
// is its last state.
#ifndef CELLBATCH_TESTS_TESTING_TEST_MODEL_H_
#define CELLBATCH_TESTS_TESTING_TEST_MODEL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cells/model.h"
#include "cells/unfold/unfolder.h"
#include "cells/vocabulary.h"
#include "proto/grpc_service.pb.h"
#include "tests/testing/builders.h"

namespace cellbatch {

// TOKENS [T] -> a chain of T nodes; OUTPUT [2]: the last state.
class LastStateUnfolder final : public Unfolder {
 public:
  // `all`: OUTPUT [T, 2], every state.
  explicit LastStateUnfolder(TableId tokens, bool all = false) : tokens_(tokens), all_(all) {}
  absl::Status Unfold(const RequestInput& input, CellGraph& graph) const override {
    const InputTensor& tokens = *input.Find("TOKENS");
    const auto length = static_cast<int32_t>(tokens.dims[0]);
    if (length == 13) return absl::InvalidArgumentError("input TOKENS: 13 is unlucky");
    const SubgraphId words = graph.AddInput(tokens_, length, tokens.bytes.data());
    const Link read{.from = words, .input = InputId(0), .first = 0, .stride = 1};
    const SubgraphId chain = graph.Add(CellTypeId(0), length, {read});
    TensorDims dims = {2};
    if (all_) dims.insert(dims.begin(), length);
    const int32_t tensor = graph.AddTensor("OUTPUT", WireType::kFp32, std::move(dims));
    const NodeRange nodes = all_ ? NodeRange{0, length} : NodeRange{length - 1, 1};
    graph.Return(chain, ColumnId(0), nodes, {.tensor = tensor});
    return absl::OkStatus();
  }

 private:
  const TableId tokens_;
  const bool all_;
};

// The same, and LABELS [1]: a number of two names. What the fake scheduler leaves is one of them where all tokens are 0.
class NamingUnfolder final : public Unfolder {
 public:
  explicit NamingUnfolder(TableId tokens) : state_(tokens) {}
  absl::Status Unfold(const RequestInput& input, CellGraph& graph) const override {
    absl::Status status = state_.Unfold(input, graph);
    graph.AddTensor("LABELS", WireType::kInt32, {1}, names_.get());
    return status;
  }

 private:
  const LastStateUnfolder state_;
  const std::shared_ptr<const Vocabulary> names_ = *Vocabulary::Create("no\nyes\n");
};

inline std::shared_ptr<Model> TinyModel(const std::string& name = "tiny", int64_t version = 1,
                                        int32_t id = 0) {
  std::shared_ptr<Model> model = testing::OneCellModel(testing::TokenLstmCell(100, 3, 2));
  model->id = ModelId(id);
  model->name = name;
  model->version = version;
  model->signature.inputs = {{"TOKENS", WireType::kInt32, {-1}, false, false}};
  model->signature.outputs = {{"OUTPUT", WireType::kFp32, {2}, false, false}};
  model->signature.vocabulary_size = 100;
  model->signature.max_sequence_length = 330;
  model->unfolder = std::make_shared<LastStateUnfolder>(testing::FindTable(*model, "token"));
  return model;
}

inline std::shared_ptr<Model> NamingModel() {
  std::shared_ptr<Model> model = TinyModel();
  model->unfolder = std::make_shared<NamingUnfolder>(testing::FindTable(*model, "token"));
  return model;
}

inline inference::ModelInferRequest TokensRequest(const std::vector<int32_t>& tokens,
                                                  const std::string& model = "tiny") {
  inference::ModelInferRequest request;
  request.set_model_name(model);
  auto* input = request.add_inputs();
  input->set_name("TOKENS");
  input->set_datatype("INT32");
  input->add_shape(static_cast<int64_t>(tokens.size()));
  request.add_raw_input_contents(reinterpret_cast<const char*>(tokens.data()), tokens.size() * 4);
  return request;
}

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_TESTING_TEST_MODEL_H_
