#include "client/typed_messages.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "absl/status/status.h"

namespace cellbatch {
namespace {

template <typename T>
void Copy(const std::vector<T>& values, google::protobuf::RepeatedField<T>* list) {
  list->Add(values.begin(), values.end());
}

void Fill(const SequenceInput& input, v1::Sequence& message) {
  Copy(input.tokens, message.mutable_tokens());
  for (const std::string& word : input.words) {
    message.add_words(word);
  }
  Copy(input.vectors, message.mutable_vectors());
  message.set_width(input.width);
  Copy(input.character_ids, message.mutable_character_ids());
  Copy(input.character_counts, message.mutable_character_counts());
}

void Fill(const TreeInput& input, v1::Tree& message) {
  Copy(input.tokens, message.mutable_tokens());
  if (!input.left.empty() || !input.right.empty()) {
    Copy(input.left, message.mutable_binary()->mutable_left());
    Copy(input.right, message.mutable_binary()->mutable_right());
  }
  Copy(input.parents, message.mutable_parents());
  message.set_bracketed(input.bracketed);
  Copy(input.internal_types, message.mutable_internal_types());
}

void Fill(const LatticeInput& input, v1::Lattice& message) {
  Copy(input.characters, message.mutable_characters());
  for (const LatticeInput::Word& word : input.words) {
    message.mutable_words()->add_start(word.start);
    message.mutable_words()->add_end(word.end);
    message.mutable_words()->add_word(word.word);
  }
}

void Fill(const GraphInput& input, v1::Graph& message) {
  Copy(input.node_types, message.mutable_node_types());
  for (const GraphInput::Edge& edge : input.edges) {
    message.mutable_edges()->add_from(edge.from);
    message.mutable_edges()->add_to(edge.to);
    message.mutable_edges()->add_input(edge.input);
  }
  for (const GraphInput::Rows& rows : input.rows) {
    v1::NodeRows& out = *message.add_rows();
    out.set_name(rows.name);
    out.set_width(rows.width);
    Copy(rows.floats, out.mutable_floats());
    Copy(rows.integers, out.mutable_integers());
  }
}

void Fill(const std::vector<Tensor>& input, v1::RawTensors& message) {
  for (const Tensor& tensor : input) {
    v1::RawTensor& out = *message.add_tensors();
    out.set_name(tensor.name);
    out.set_datatype(tensor.datatype);
    Copy(tensor.shape, out.mutable_shape());
    out.set_contents(tensor.bytes);
  }
}

struct FillInput {
  v1::Input& message;
  void operator()(const SequenceInput& input) { Fill(input, *message.mutable_sequence()); }
  void operator()(const TreeInput& input) { Fill(input, *message.mutable_tree()); }
  void operator()(const LatticeInput& input) { Fill(input, *message.mutable_lattice()); }
  void operator()(const GraphInput& input) { Fill(input, *message.mutable_graph()); }
  void operator()(const std::vector<Tensor>& input) { Fill(input, *message.mutable_tensors()); }
};

absl::StatusOr<Tensor> TensorFrom(const v1::Output& output) {
  const std::vector<int64_t> shape(output.shape().begin(), output.shape().end());
  const auto count = ElementCount(shape);
  const bool floats = output.datatype() == "FP32", texts = output.datatype() == "BYTES";
  const int64_t values = floats  ? output.floats_size()
                         : texts ? output.texts_size()
                                 : output.integers_size();
  if (!count.ok() || *count != values) {
    return absl::InternalError(fmt::format("output {} of the answer has {} values, not its shape's",
                                           output.name(), values));
  }
  if (floats) {
    return FloatTensor(output.name(), shape, {output.floats().begin(), output.floats().end()});
  }
  if (texts) {
    return TextTensor(output.name(), shape, {output.texts().begin(), output.texts().end()});
  }
  return Int32Tensor(output.name(), shape, {output.integers().begin(), output.integers().end()});
}

}  // namespace

v1::InferRequest ToMessage(const InferManyInput& input) {
  v1::InferRequest request;
  request.set_model_name(input.model);
  request.set_model_version(input.version);
  request.set_id(input.id);
  for (const TypedInput& one : input.inputs) {
    std::visit(FillInput{*request.add_inputs()}, one);
  }
  for (const std::string& name : input.outputs) {
    request.add_outputs(name);
  }
  for (const auto& [key, value] : input.parameters) {
    (*request.mutable_parameters())[key] = value;
  }
  return request;
}

v1::DecodeRequest ToMessage(const DecodeInput& input) {
  v1::DecodeRequest request;
  request.set_model_name(input.model);
  request.set_model_version(input.version);
  Fill(input.source, *request.mutable_source());
  if (input.max_decode_steps) {
    request.set_max_decode_steps(*input.max_decode_steps);
  }
  if (input.decode_steps) {
    request.set_decode_steps(*input.decode_steps);
  }
  request.set_priority(input.priority);
  return request;
}

absl::StatusOr<InferManyResult> FromMessage(const v1::InferResponse& response) {
  InferManyResult result{response.model_name(), response.model_version(), response.id(), {}};
  for (const v1::Answer& answer : response.answers()) {
    if (answer.code() != 0) {
      result.answers.push_back(
          absl::Status(static_cast<absl::StatusCode>(answer.code()), answer.error()));
      continue;
    }
    std::vector<Tensor> tensors;
    for (const v1::Output& output : answer.outputs()) {
      auto tensor = TensorFrom(output);
      if (!tensor.ok()) {
        return tensor.status();
      }
      tensors.push_back(*std::move(tensor));
    }
    result.answers.push_back(std::move(tensors));
  }
  return result;
}

DecodedWord FromMessage(const v1::Word& word) { return {word.step(), word.id(), word.text()}; }

}  // namespace cellbatch
