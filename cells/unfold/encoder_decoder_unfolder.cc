#include "cells/unfold/encoder_decoder_unfolder.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace cellbatch {
namespace {

// A word that no decoder leaves: a chain that stops there runs to its cap, its words readable as they come.
constexpr int32_t kNoWord = -1;
constexpr int32_t kMostDecodeSteps = 1 << 20;  // of any model: rings and answers are that long

absl::Status WrongModel(std::string_view what) {
  return absl::InvalidArgumentError(fmt::format("encoder_decoder: {}", what));
}

absl::Status WrongInput(std::string_view what) {
  return absl::InvalidArgumentError(std::string(what));
}

absl::StatusOr<const CellType*> TypeOf(const Model& model, CellTypeId id, std::string_view role) {
  if (!id.valid() || static_cast<size_t>(id.value()) >= model.types.size()) {
    return WrongModel(
        fmt::format("the {} is cell type {} of {}", role, id.value(), model.types.size()));
  }
  return &model.type(id);
}

// What the decoder reads lies in the decoder's own table, as all that its carry reads.
absl::Status LeavesWhatTheDecoderCarries(const CellType& type, const CellType& decoder) {
  if (type.out == decoder.out) return absl::OkStatus();
  const auto columns = [](const CellType& of) {
    std::string text;
    for (const Column& c : of.definition->columns()) {
      text += fmt::format("{}{} {}[{}]", text.empty() ? "" : ", ", c.name, Name(c.type), c.width);
    }
    return text;
  };
  return WrongModel(
      fmt::format("cell type \"{}\" leaves {}; the decoder \"{}\" carries {}, in this order",
                  type.name, columns(type), decoder.name, columns(decoder)));
}

}  // namespace

std::string BridgeInputName(size_t layer, bool backward) {
  return fmt::format("layer{}{}", layer, backward ? "_backward" : "");
}

absl::StatusOr<std::unique_ptr<EncoderDecoderUnfolder>> EncoderDecoderUnfolder::Create(
    const EncoderDecoderSpec& spec, const Model& model) {
  std::unique_ptr<EncoderDecoderUnfolder> made(new EncoderDecoderUnfolder);
  if (spec.encoder.head.valid()) return WrongModel("the encoder has a head");
  absl::StatusOr<std::unique_ptr<ChainUnfolder>> encoder =
      ChainUnfolder::Create(spec.encoder, model);
  if (!encoder.ok()) return encoder.status();
  made->encoder_ = *std::move(encoder);
  if (spec.encoder.vocabulary_size < 1) return WrongModel("the encoder reads no tokens");
  if (spec.max_decode_steps < 1 || spec.max_decode_steps > kMostDecodeSteps) {
    return WrongModel(fmt::format("max_decode_steps is {}, allowed are 1 to {}",
                                  spec.max_decode_steps, kMostDecodeSteps));
  }
  if (spec.end_of_sequence < 0) {
    return WrongModel(fmt::format("end_of_sequence is {}, the least is 0", spec.end_of_sequence));
  }
  made->max_decode_steps_ = spec.max_decode_steps;
  made->end_of_sequence_ = spec.end_of_sequence;
  made->max_nodes_ = spec.max_nodes;
  if (absl::Status s = made->TakeDecoder(spec, model); !s.ok()) return s;
  if (absl::Status s = made->TakeBridge(spec, model); !s.ok()) return s;
  return made;
}

absl::Status EncoderDecoderUnfolder::TakeDecoder(const EncoderDecoderSpec& spec,
                                                 const Model& model) {
  const absl::StatusOr<const CellType*> found = TypeOf(model, spec.decoder, "decoder");
  if (!found.ok()) return found.status();
  const CellType& type = **found;
  const CellDefinition& cell = *type.definition;
  if (!cell.carry().has_value() || cell.inputs().size() != 1) {
    return WrongModel(fmt::format(
        "the decoder \"{}\" has {} inputs{}; it reads its carry and nothing else", type.name,
        cell.inputs().size(), cell.carry().has_value() ? "" : " and no carry"));
  }
  const absl::Span<const Column> columns = cell.columns();
  const auto word = std::find_if(columns.begin(), columns.end(), [](const Column& c) {
    return c.name == kWordColumn && c.type == ElementType::kInt32 && c.width == 1;
  });
  if (word == columns.end()) {
    return WrongModel(fmt::format("the decoder \"{}\" leaves no INT32 column \"{}\" of 1",
                                  type.name, kWordColumn));
  }
  decoder_ = spec.decoder;
  decoder_carry_ = *cell.carry();
  word_ = ColumnId(word - columns.begin());
  return absl::OkStatus();
}

absl::Status EncoderDecoderUnfolder::TakeBridge(const EncoderDecoderSpec& spec,
                                                const Model& model) {
  const CellType& decoder = model.type(spec.decoder);
  if (!spec.bridge.valid()) {
    const ChainLayerSpec& layer = spec.encoder.layers[0];
    if (spec.encoder.layers.size() != 1 || layer.backward.valid()) {
      return WrongModel(fmt::format(
          "{} layers{} need a bridge; only the end of one layer forwards needs none",
          spec.encoder.layers.size(), layer.backward.valid() ? " with a backward direction" : ""));
    }
    return LeavesWhatTheDecoderCarries(model.type(layer.forward), decoder);
  }
  const absl::StatusOr<const CellType*> found = TypeOf(model, spec.bridge, "bridge");
  if (!found.ok()) return found.status();
  const CellType& bridge = **found;
  if (bridge.definition->carry().has_value()) {
    return WrongModel(fmt::format("the bridge \"{}\" is a chain", bridge.name));
  }
  const absl::Span<const Input> inputs = bridge.definition->inputs();
  for (size_t i = 0; i < inputs.size(); ++i) {
    BridgeRead read{.input = InputId(static_cast<int64_t>(i))};
    CellTypeId source;
    for (size_t l = 0; l < spec.encoder.layers.size() && !source.valid(); ++l) {
      const ChainLayerSpec& layer = spec.encoder.layers[l];
      for (const bool backward : {false, true}) {
        if (inputs[i].name != BridgeInputName(l, backward)) continue;
        source = backward ? layer.backward : layer.forward;
        read.layer = l;
        read.direction = backward ? 1 : 0;
      }
    }
    if (!source.valid()) {
      return WrongModel(
          fmt::format("the bridge \"{}\" has an input \"{}\", which is the end of "
                      "none of the {} layers (\"layer0\", \"layer0_backward\", ..)",
                      bridge.name, inputs[i].name, spec.encoder.layers.size()));
    }
    if (bridge.in[i] != model.type(source).out) {
      return WrongModel(
          fmt::format("the bridge \"{}\": input \"{}\" reads table {}, \"{}\" is in table {}",
                      bridge.name, inputs[i].name, bridge.in[i].value(), model.type(source).name,
                      model.type(source).out.value()));
    }
    bridge_reads_.push_back(read);
  }
  bridge_ = spec.bridge;
  return LeavesWhatTheDecoderCarries(bridge, decoder);
}

Signature EncoderDecoderUnfolder::MakeSignature() const {
  Signature signature = encoder_->MakeSignature();
  signature.inputs = {
      {.name = kSourceInput, .type = WireType::kInt32, .dims = {-1}, .words = true}};
  signature.outputs = {
      {.name = kOutput, .type = WireType::kInt32, .dims = {-1}},
      {.name = kLengthOutput, .type = WireType::kInt32, .dims = {1}, .on_request = true},
      {.name = kStoppedOutput, .type = WireType::kInt32, .dims = {1}, .on_request = true}};
  signature.parameters = {kMaxDecodeSteps, kDecodeSteps};
  signature.state.clear();  // an encoder's, which no request brings and no answer leaves
  return signature;
}

absl::StatusOr<const InputTensor*> EncoderDecoderUnfolder::CheckInput(
    const RequestInput& input) const {
  for (const InputTensor& t : input.tensors) {
    if (t.name == kSourceInput) continue;
    return WrongInput(
        fmt::format("input {}: the model has no such input, it takes {}", t.name, kSourceInput));
  }
  const InputTensor* source = input.Find(kSourceInput);
  if (source == nullptr) return WrongInput(fmt::format("input {}: missing", kSourceInput));
  if (absl::Status s = encoder_->CheckSequence(*source); !s.ok()) return s;
  return source;
}

absl::StatusOr<EncoderDecoderUnfolder::Steps> EncoderDecoderUnfolder::StepsOf(
    const RequestInput& input) const {
  const std::optional<int64_t> most = input.FindParameter(kMaxDecodeSteps);
  const std::optional<int64_t> exactly = input.FindParameter(kDecodeSteps);
  if (most && exactly) {
    return WrongInput(fmt::format("parameters {} ({}) and {} ({}) exclude each other",
                                  kMaxDecodeSteps, *most, kDecodeSteps, *exactly));
  }
  const int64_t steps = exactly ? *exactly : most.value_or(max_decode_steps_);
  if (steps < 1 || steps > max_decode_steps_) {
    return WrongInput(fmt::format("parameter {} is {}, allowed are 1 to {}",
                                  exactly ? kDecodeSteps : kMaxDecodeSteps, steps,
                                  max_decode_steps_));
  }
  return Steps{.most = static_cast<int32_t>(steps), .exactly = exactly.has_value()};
}

absl::Status EncoderDecoderUnfolder::CheckSize(int64_t source_words, int64_t steps) const {
  const int64_t nodes = encoder_->SequenceNodes(source_words) + (bridge_.valid() ? 1 : 0) + steps;
  if (max_nodes_ == 0 || nodes <= max_nodes_) return absl::OkStatus();
  return WrongInput(fmt::format(
      "input {}: {} words and at most {} decoder steps make {} nodes, the model takes {}",
      kSourceInput, source_words, steps, nodes, max_nodes_));
}

absl::StatusOr<StopTensors> EncoderDecoderUnfolder::AddTensors(const RequestInput& input,
                                                               Steps steps,
                                                               CellGraph& graph) const {
  StopTensors tensors;
  const auto add = [&](std::string_view name) {
    int32_t* number = name == kOutput          ? &tensors.words
                      : name == kLengthOutput  ? &tensors.length
                      : name == kStoppedOutput ? &tensors.stopped
                                               : nullptr;
    if (number == nullptr) {
      return WrongInput(fmt::format("output {}: the model has no such output", name));
    }
    if (*number >= 0) return WrongInput(fmt::format("output {}: asked for twice", name));
    *number = graph.AddTensor(name, WireType::kInt32, {name == kOutput ? steps.most : 1});
    return absl::OkStatus();
  };
  absl::Status s = input.outputs.empty() ? add(kOutput) : absl::OkStatus();
  for (const std::string_view name : input.outputs) {
    if (s.ok()) s = add(name);
  }
  if (!s.ok()) return s;
  return tensors;
}

absl::Status EncoderDecoderUnfolder::Unfold(const RequestInput& input, CellGraph& graph) const {
  const absl::StatusOr<const InputTensor*> source = CheckInput(input);
  if (!source.ok()) return source.status();
  const absl::StatusOr<Steps> steps = StepsOf(input);
  if (!steps.ok()) return steps.status();
  if (absl::Status s = CheckSize((*source)->dims[0], steps->most); !s.ok()) return s;
  const auto chains = static_cast<int32_t>(encoder_->num_chains());
  graph.Reserve(
      {.inputs = 1, .subgraphs = chains + 3, .links = 3 * chains + 3, .returns = 1, .tensors = 4});
  const absl::StatusOr<StopTensors> tensors = AddTensors(input, *steps, graph);
  if (!tensors.ok()) return tensors.status();

  const std::vector<ChainUnfolder::Below> layers = encoder_->AddSequence(**source, graph);
  SubgraphId start = layers[0][0];
  graph.SetPhase(encoder_->next_phase());
  if (bridge_.valid()) {
    std::vector<Link> links;
    links.reserve(bridge_reads_.size());
    for (const BridgeRead& read : bridge_reads_) {
      links.push_back(
          {.from = layers[read.layer][read.direction], .input = read.input, .first = kLastNode});
    }
    start = graph.Add(bridge_, 1, links);
  }
  graph.SetPhase(std::min(encoder_->next_phase() + 1, kMostPhases - 1));
  const SubgraphId words = graph.Add(decoder_, steps->most,
                                     {{.from = start, .input = decoder_carry_, .first = kLastNode}},
                                     Stop{word_, steps->exactly ? kNoWord : end_of_sequence_});
  graph.ReturnStop(words, *tensors);
  return absl::OkStatus();
}

RequestDescription EncoderDecoderUnfolder::Describe() const {
  const RequestDescription source = encoder_->Describe();
  return {.inputs = {{.name = kSourceInput, .num_ids = source.inputs[0].num_ids}},
          .max_nodes = max_nodes_,
          .max_decode_steps = max_decode_steps_};
}

}  // namespace cellbatch
