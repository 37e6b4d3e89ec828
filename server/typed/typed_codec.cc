#include "server/typed/typed_codec.h"

#include <cstring>
#include <utility>

#include "cells/check.h"
#include "cells/vocabulary.h"
#include "fmt/format.h"
#include "server/requests/client_text.h"
#include "server/wire/wire_fields.h"

namespace cellbatch {

namespace {

constexpr uint8_t kAnswerTag = 4 << 3 | 2;  // InferResponse.answers, length-delimited

absl::Status Invalid(std::string text) { return absl::InvalidArgumentError(std::move(text)); }

const TensorSpec* Find(const Signature& signature, std::string_view input) {
  for (const TensorSpec& spec : signature.inputs) {
    if (spec.name == input) return &spec;
  }
  return nullptr;
}

bool Has(const Signature& signature, std::string_view input) {
  return Find(signature, input) != nullptr;
}

// Where one typed input's tensors go, and what is made for them.
struct Spelling {
  MadeContents& made;
  PlainRequest& request;
};

PlainTensor& Add(std::string_view name, const char* datatype, std::initializer_list<int64_t> shape,
                 const Spelling& to) {
  PlainTensor& tensor = to.request.inputs.emplace_back();
  tensor.name = name;
  tensor.datatype = datatype;
  tensor.shape = shape;
  return tensor;
}

using Int32s = google::protobuf::RepeatedField<int32_t>;

void AddInt32s(std::string_view name, const Int32s& values, const Spelling& to) {
  Add(name, "INT32", {values.size()}, to).contents = BytesOf(values);
}

// Lists side by side as the rows of one tensor.
absl::Status AddRows(const char* name, const char* what,
                     std::initializer_list<std::pair<const char*, const Int32s*>> columns,
                     const Spelling& to) {
  const auto& [first_name, first] = *columns.begin();
  for (const auto& [column_name, column] : columns) {
    if (column->size() == first->size()) continue;
    return Invalid(fmt::format("{}: `{}` has {} entries, `{}` has {}", what, first_name,
                               first->size(), column_name, column->size()));
  }
  if (first->empty()) return absl::OkStatus();
  const size_t width = columns.size();
  std::string rows(static_cast<size_t>(first->size()) * width * sizeof(int32_t), '\0');
  char* at = rows.data();
  for (int i = 0; i < first->size(); ++i) {
    for (const auto& [column_name, column] : columns) {
      std::memcpy(at, &column->Get(i), sizeof(int32_t));
      at += sizeof(int32_t);
    }
  }
  Add(name, "INT32", {first->size(), static_cast<int64_t>(width)}, to).contents =
      to.made.Keep(std::move(rows));
  return absl::OkStatus();
}

absl::Status AddFloats(std::string_view name, std::string_view what,
                       const google::protobuf::RepeatedField<float>& values, int32_t width,
                       const Spelling& to) {
  if (width < 1 || values.size() % width != 0) {
    return Invalid(
        fmt::format("{}: {} numbers are no rows of width {}", what, values.size(), width));
  }
  Add(name, "FP32", {values.size() / width, width}, to).contents = BytesOf(values);
  return absl::OkStatus();
}

absl::Status TreeToTensors(const v1::Tree& tree, const Spelling& to) {
  const bool text = !tree.bracketed().empty();
  const bool parents = !tree.parents().empty();
  if (static_cast<int>(text) + static_cast<int>(parents) + static_cast<int>(tree.has_binary()) >
      1) {
    return Invalid("tree: of `binary`, `parents` and `bracketed`, one says what it is");
  }
  if (text && !tree.tokens().empty()) return Invalid("tree: `tokens` beside `bracketed`");
  if (text) {
    std::string framed;
    wire::AppendFramed(tree.bracketed(), framed);
    Add("TREE", "BYTES", {1}, to).contents = to.made.Keep(std::move(framed));
  } else {
    AddInt32s("TOKENS", tree.tokens(), to);
  }
  if (parents) AddInt32s("PARENT", tree.parents(), to);
  if (!tree.internal_types().empty()) AddInt32s("INTERNAL_TYPES", tree.internal_types(), to);
  return AddRows("CHILDREN", "tree: binary",
                 {{"left", &tree.binary().left()}, {"right", &tree.binary().right()}}, to);
}

absl::Status RowsToTensor(const v1::NodeRows& rows, const Signature& signature,
                          const Spelling& to) {
  const std::string what = "graph: rows of " + Quoted(rows.name());
  const int32_t width = rows.width() == 0 ? 1 : rows.width();
  const Int32s& integers = rows.integers();
  if (!rows.floats().empty() && !integers.empty()) {
    return Invalid(what + ": both `floats` and `integers`");
  }
  // No rows do not tell what they would be of.
  const TensorSpec* spec = Find(signature, rows.name());
  const bool are_integers = !integers.empty() || (rows.floats().empty() && spec != nullptr &&
                                                  spec->type == WireType::kInt32);
  if (!are_integers) return AddFloats(rows.name(), what, rows.floats(), width, to);
  if (width < 1 || integers.size() % width != 0) {
    return Invalid(
        fmt::format("{}: {} integers are no rows of width {}", what, integers.size(), width));
  }
  if (width == 1) {
    AddInt32s(rows.name(), integers, to);
  } else {
    Add(rows.name(), "INT32", {integers.size() / width, width}, to).contents = BytesOf(integers);
  }
  return absl::OkStatus();
}

absl::Status GraphToTensors(const v1::Graph& graph, const Signature& signature,
                            const Spelling& to) {
  AddInt32s("NODE_TYPES", graph.node_types(), to);
  for (const v1::NodeRows& rows : graph.rows()) {
    if (absl::Status s = RowsToTensor(rows, signature, to); !s.ok()) return s;
  }
  const v1::Edges& edges = graph.edges();
  return AddRows("EDGES", "graph: edges",
                 {{"from", &edges.from()}, {"to", &edges.to()}, {"input", &edges.input()}}, to);
}

absl::Status LatticeToTensors(const v1::Lattice& lattice, const Spelling& to) {
  AddInt32s("CHARS", lattice.characters(), to);
  const v1::LatticeWords& words = lattice.words();
  return AddRows("WORDS", "lattice: words",
                 {{"start", &words.start()}, {"end", &words.end()}, {"word", &words.word()}}, to);
}

absl::Status RawToTensors(const v1::RawTensors& raw, const Spelling& to) {
  for (const v1::RawTensor& tensor : raw.tensors()) {
    PlainTensor& plain = to.request.inputs.emplace_back();
    plain.name = tensor.name();
    plain.datatype = tensor.datatype();
    plain.shape.assign(tensor.shape().begin(), tensor.shape().end());
    plain.contents = BytesOf(tensor.contents());
  }
  return absl::OkStatus();
}

void EncodeTensor(const ReturnedTensor& tensor, v1::Output& output) {
  output.set_name(tensor.name);
  output.set_datatype(Name(tensor.names == nullptr ? tensor.type : WireType::kBytes));
  for (const int64_t dim : tensor.dims) output.add_shape(dim);
  const size_t count = tensor.bytes.size() / 4;
  if (tensor.type == WireType::kFp32) {
    output.mutable_floats()->Resize(static_cast<int>(count), 0);
    if (count > 0) {
      std::memcpy(output.mutable_floats()->mutable_data(), tensor.bytes.data(), count * 4);
    }
    return;
  }
  Check(tensor.type == WireType::kInt32, "cells leave FP32 and INT32");
  for (size_t i = 0; i < count; ++i) {
    int32_t value = 0;
    std::memcpy(&value, tensor.bytes.data() + i * 4, 4);
    if (tensor.names == nullptr) {
      output.add_integers(value);
      continue;
    }
    const std::string_view name = tensor.names->word(value);
    output.add_texts(name.data(), name.size());
  }
}

}  // namespace

MessageScanner TypedInferScanner(const WireLimits& limits, RefusalCounts* counts) {
  return MessageScanner(
      *v1::InferRequest::descriptor(), limits,
      {{"cellbatch.v1.InferRequest.outputs", limits.max_outputs, "requested outputs"},
       {"cellbatch.v1.InferRequest.parameters", limits.max_parameters, "parameters"},
       {"cellbatch.v1.RawTensors.tensors", limits.max_inputs, "raw tensors of one input"},
       {"cellbatch.v1.RawTensor.shape", limits.max_dims, "dimensions in raw tensor {}"}},
      counts);
}

MessageScanner DecodeScanner(const WireLimits& limits, RefusalCounts* counts) {
  return MessageScanner(*v1::DecodeRequest::descriptor(), limits, {}, counts);
}

absl::Status ToTensors(const v1::Sequence& sequence, const Signature& signature, MadeContents& made,
                       PlainRequest& request) {
  const Spelling to = {made, request};
  const int kinds = static_cast<int>(!sequence.tokens().empty()) +
                    static_cast<int>(!sequence.words().empty()) +
                    static_cast<int>(!sequence.vectors().empty());
  if (kinds != 1) {
    return Invalid(fmt::format("sequence: {} of `tokens`, `words` and `vectors`",
                               kinds == 0 ? "none" : "more than one"));
  }
  if (!sequence.vectors().empty()) {
    return AddFloats("X", "sequence: vectors", sequence.vectors(), sequence.width(), to);
  }
  if (!sequence.words().empty()) {
    std::string framed;
    for (const std::string& word : sequence.words()) wire::AppendFramed(word, framed);
    Add("WORDS_TEXT", "BYTES", {sequence.words_size()}, to).contents = made.Keep(std::move(framed));
  } else {
    const bool source = Has(signature, "SOURCE") && !Has(signature, "TOKENS");
    AddInt32s(source ? "SOURCE" : "TOKENS", sequence.tokens(), to);
  }
  if (!sequence.character_ids().empty()) AddInt32s("CHAR_IDS", sequence.character_ids(), to);
  if (!sequence.character_counts().empty()) {
    AddInt32s("CHAR_LENGTHS", sequence.character_counts(), to);
  }
  return absl::OkStatus();
}

absl::Status ToTensors(const v1::Input& input, const Signature& signature, MadeContents& made,
                       PlainRequest& request) {
  const Spelling to = {made, request};
  switch (input.kind_case()) {
    case v1::Input::kSequence:
      return ToTensors(input.sequence(), signature, made, request);
    case v1::Input::kTree:
      return TreeToTensors(input.tree(), to);
    case v1::Input::kLattice:
      return LatticeToTensors(input.lattice(), to);
    case v1::Input::kGraph:
      return GraphToTensors(input.graph(), signature, to);
    case v1::Input::kTensors:
      return RawToTensors(input.tensors(), to);
    case v1::Input::KIND_NOT_SET:
      break;
  }
  return Invalid("an input is none of sequence, tree, lattice, graph, tensors");
}

std::string EncodeAnswer(absl::Span<const ReturnedTensor> tensors) {
  v1::Answer answer;
  for (const ReturnedTensor& tensor : tensors) EncodeTensor(tensor, *answer.add_outputs());
  return answer.SerializeAsString();
}

std::string EncodeAnswer(const absl::Status& status) {
  v1::Answer answer;
  answer.set_code(static_cast<int32_t>(status.code()));
  // Texts of proto3 are UTF-8; what a client sent is quoted in errors as ASCII.
  answer.set_error(std::string(status.message()));
  return answer.SerializeAsString();
}

std::string EncodeTypedResponse(const Model& model, std::string_view id,
                                absl::Span<const std::string> answers) {
  v1::InferResponse head;
  head.set_model_name(model.name);
  head.set_model_version(std::to_string(model.version));
  head.set_id(id.data(), id.size());
  size_t payload = 0;
  for (const std::string& answer : answers) payload += answer.size() + 11;
  std::string out;
  out.reserve(head.ByteSizeLong() + payload);
  head.AppendToString(&out);
  for (const std::string& answer : answers) {
    out.push_back(static_cast<char>(kAnswerTag));
    wire::AppendVarint(answer.size(), out);
    out.append(answer);
  }
  return out;
}

std::string EncodeWord(int32_t step, int32_t word, const Vocabulary* names) {
  v1::DecodeResponse event;
  event.mutable_word()->set_step(step);
  event.mutable_word()->set_id(word);
  if (names != nullptr && word >= 0 && word < names->size()) {
    event.mutable_word()->set_text(std::string(names->word(word)));
  }
  return event.SerializeAsString();
}

std::string EncodeEnd(int32_t length, bool stopped) {
  v1::DecodeResponse event;
  event.mutable_end()->set_length(length);
  event.mutable_end()->set_stopped(stopped);
  return event.SerializeAsString();
}

}  // namespace cellbatch
