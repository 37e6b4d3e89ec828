#include "loadgen/requests.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <random>
#include <utility>

#include "absl/status/status.h"
#include "client/typed_tensors.h"
#include "loadgen/corpus/shapes.h"
#include "loadgen/lengths.h"

namespace cellbatch {
namespace {

absl::Status Cannot(std::string text) { return absl::FailedPreconditionError(std::move(text)); }

std::string Describe(const ModelNeeds& needs, const MixEntry& entry, const ContentsList& list) {
  std::vector<int32_t> sizes;
  for (const RequestContents& contents : list.requests) {
    sizes.push_back(contents.size);
  }
  const corpus::Statistics size = corpus::StatisticsOf(std::move(sizes));
  const std::string call =
      entry.call == LoadCall::kInfer ? "" : fmt::format(", call={}", Name(entry.call));
  const std::string many = entry.many == 1 ? "" : fmt::format(", {} inputs a message", entry.many);
  const std::string streams =
      entry.streams == 0 ? "" : fmt::format(", {} sequences at a time", entry.streams);
  return fmt::format("{} from {}; size: mean {:.1f}, p50 {}, p99 {}, max {}{}{}{}",
                     FormName(needs.form), list.source, size.mean, size.p50, size.p99, size.max,
                     call, many, streams);
}

const std::vector<std::string>& OutputsOf(const MixEntry& entry, const RequestContents& contents) {
  return contents.outputs.empty() ? entry.outputs : contents.outputs;
}

absl::StatusOr<std::string> AsInfer(const ModelNeeds& needs, const MixEntry& entry,
                                    const RequestContents& contents) {
  InferInput input{.model = needs.model,
                   .version = needs.version,
                   .inputs = contents.inputs,
                   .outputs = OutputsOf(entry, contents),
                   .parameters = contents.parameters};
  input.parameters.merge(KServeParameters(entry));
  return PreparedMessage(input);
}

// Adds an input to a message. Parameters and outputs are said once a message: those of its inputs must be the same.
absl::Status AddInput(const MixEntry& entry, const RequestContents& contents,
                      InferManyInput& message) {
  std::map<std::string, int64_t> parameters;
  for (const auto& [name, value] : contents.parameters) {
    const int64_t* number = std::get_if<int64_t>(&value);
    if (number == nullptr) {
      return Cannot(fmt::format("call=typed: parameter {} of a request is no whole number", name));
    }
    parameters[name] = *number;
  }
  if (!message.inputs.empty() && parameters != message.parameters) {
    return Cannot(
        "many: inputs of one message decode to different lengths, and a message says steps once; "
        "steps=model, or many=1");
  }
  const std::vector<std::string>& outputs = OutputsOf(entry, contents);
  if (!message.inputs.empty() && outputs != message.outputs) {
    return Cannot("many: inputs of one message name other outputs, and a message names them once");
  }
  message.parameters = std::move(parameters);
  message.outputs = outputs;
  auto typed = TypedFromTensors(contents.inputs);
  if (!typed.ok()) {
    return typed.status();
  }
  message.inputs.push_back(*std::move(typed));
  return absl::OkStatus();
}

absl::StatusOr<std::string> AsTyped(const ModelNeeds& needs, const MixEntry& entry,
                                    const std::vector<const RequestContents*>& inputs) {
  InferManyInput message{.model = needs.model, .version = needs.version};
  for (const RequestContents* contents : inputs) {
    if (absl::Status added = AddInput(entry, *contents, message); !added.ok()) {
      return added;
    }
  }
  for (const auto& [name, value] : KServeParameters(entry)) {
    message.parameters[name] = std::get<int64_t>(value);
  }
  return PreparedMessage(message);
}

absl::StatusOr<std::string> AsDecode(const ModelNeeds& needs, const MixEntry& entry,
                                     const RequestContents& contents) {
  auto typed = TypedFromTensors(contents.inputs);
  if (!typed.ok()) {
    return typed.status();
  }
  SequenceInput* source = std::get_if<SequenceInput>(&*typed);
  if (source == nullptr) {
    return Cannot("call=decode: a request is no sequence");
  }
  if (!contents.outputs.empty()) {
    return Cannot(fmt::format("call=decode answers in words: a request names output {}",
                              contents.outputs[0]));
  }
  DecodeInput input{.model = needs.model,
                    .version = needs.version,
                    .source = std::move(*source),
                    .priority = entry.priority.value_or(0)};
  for (const auto& [name, value] : contents.parameters) {
    const int64_t* number = std::get_if<int64_t>(&value);
    if (number == nullptr || (name != "decode_steps" && name != "max_decode_steps")) {
      return Cannot(fmt::format("call=decode: it has no parameter {}", name));
    }
    (name == "decode_steps" ? input.decode_steps : input.max_decode_steps) = *number;
  }
  return PreparedMessage(input);
}

bool IsPlainSequence(RequestForm form) {
  return form == RequestForm::kTokens || form == RequestForm::kVectors;
}

// Who sends the next piece wants the state that this one leaves.
MixEntry AskForStates(MixEntry entry, const ModelNeeds& needs) {
  if (entry.outputs.empty()) {
    entry.outputs.push_back("OUTPUT");
  }
  for (const StatePart& part : needs.states) {
    if (std::find(entry.outputs.begin(), entry.outputs.end(), part.final) == entry.outputs.end()) {
      entry.outputs.push_back(part.final);
    }
  }
  return entry;
}

absl::Status CheckFits(const ModelNeeds& needs, const MixEntry& entry) {
  const auto wrong = [&](const std::string& field, const char* wants) {
    return Cannot(fmt::format("{}: model \"{}\" reads {}; {}", field, needs.model,
                              FormName(needs.form), wants));
  };
  const bool decoder = needs.form == RequestForm::kSource;
  if (entry.call == LoadCall::kDecode && !decoder) {
    return wrong("call=decode", "only a decoder answers in words");
  }
  if (entry.free_decode && !decoder) {
    return wrong("steps=model", "only a decoder has steps of its own");
  }
  const bool streams = IsPlainSequence(needs.form) || needs.form == RequestForm::kSpelledTokens;
  if (entry.piece > 0 && (needs.states.empty() || !streams)) {
    return wrong(fmt::format("piece={}", entry.piece), "it begins from no state of a request's");
  }
  if (entry.spelled.has_value() && needs.form != RequestForm::kSpelledTokens) {
    return wrong(fmt::format("spelled={}", *entry.spelled), "it reads no characters");
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<uint32_t> RequestSet::Order(size_t count, uint64_t seed) const {
  return EqualIssueOrder(size(), count, seed);
}

std::map<std::string, Parameter> KServeParameters(const MixEntry& entry) {
  std::map<std::string, Parameter> parameters;
  if (entry.priority.has_value()) {
    parameters["priority"] = *entry.priority;
  }
  if (entry.timeout_us > 0) {
    parameters["timeout"] = entry.timeout_us;
  }
  return parameters;
}

absl::StatusOr<std::unique_ptr<RequestSet>> MessageRequests::Create(const ModelNeeds& needs,
                                                                    const MixEntry& entry,
                                                                    const ContentsList& list,
                                                                    uint64_t seed) {
  auto made = std::unique_ptr<MessageRequests>(new MessageRequests());
  made->description_ = Describe(needs, entry, list);
  made->call_ = entry.call == LoadCall::kInfer   ? PreparedCall::kModelInfer
                : entry.call == LoadCall::kTyped ? PreparedCall::kInfer
                                                 : PreparedCall::kDecode;
  made->inputs_ = static_cast<uint32_t>(entry.many);
  // Whole messages of the items in a random order; the list begins again to fill the last one.
  const auto many = static_cast<size_t>(entry.many);
  const size_t messages = (list.requests.size() + many - 1) / many;
  const auto order =
      EqualIssueOrder(static_cast<uint32_t>(list.requests.size()), messages * many, seed);
  for (size_t m = 0; m < messages; ++m) {
    std::vector<const RequestContents*> inputs;
    int32_t size = 0;
    for (size_t i = m * many; i < (m + 1) * many; ++i) {
      inputs.push_back(&list.requests[order[i]]);
      size += inputs.back()->size;
    }
    auto message = entry.call == LoadCall::kInfer   ? AsInfer(needs, entry, *inputs[0])
                   : entry.call == LoadCall::kTyped ? AsTyped(needs, entry, inputs)
                                                    : AsDecode(needs, entry, *inputs[0]);
    if (!message.ok()) {
      return message.status();
    }
    made->messages_.push_back(*std::move(message));
    made->lengths_.push_back(size);
  }
  return made;
}

PreparedRequest MessageRequests::Request(uint32_t entry, uint64_t) const {
  return {messages_[entry], {}, call_, inputs_};
}

absl::StatusOr<std::unique_ptr<RequestSet>> StreamRequests::Create(const ModelNeeds& needs,
                                                                   const MixEntry& entry,
                                                                   const ContentsList& list,
                                                                   const std::string& name) {
  auto made = std::unique_ptr<StreamRequests>(new StreamRequests());
  made->description_ = Describe(needs, entry, list);
  made->lanes_ = static_cast<uint32_t>(entry.streams);
  if (2 * uint64_t{made->lanes_} * list.requests.size() > std::numeric_limits<uint32_t>::max()) {
    return Cannot(fmt::format("streams={}: with {} pieces too many to number; take longer pieces",
                              entry.streams, list.requests.size()));
  }
  for (const RequestContents& piece : list.requests) {
    auto message = AsInfer(needs, entry, piece);
    if (!message.ok()) {
      return message.status();
    }
    if (!piece.goes_on) {
      made->firsts_.push_back(static_cast<uint32_t>(made->messages_.size()));
    }
    made->messages_.push_back(*std::move(message));
    made->lengths_.push_back(piece.size);
    made->goes_on_.push_back(piece.goes_on);
  }
  for (uint32_t lane = 0; lane < made->lanes_; ++lane) {
    for (const bool starts : {false, true}) {
      for (const bool ends : {false, true}) {
        InferInput part{.parameters = {{"sequence_id", fmt::format("{}-{}", name, lane)}}};
        if (starts) part.parameters["sequence_start"] = true;
        if (ends) part.parameters["sequence_end"] = true;
        made->headers_.push_back(PreparedMessage(part));
      }
    }
  }
  return made;
}

std::vector<uint32_t> StreamRequests::Order(size_t count, uint64_t seed) const {
  constexpr uint32_t kEnded = std::numeric_limits<uint32_t>::max();
  std::mt19937_64 random(seed);
  std::vector<uint32_t> sequences;  // a whole permutation, taken from its end
  const auto next_sequence = [&] {
    if (sequences.empty()) {
      sequences = EqualIssueOrder(static_cast<uint32_t>(firsts_.size()), firsts_.size(), random());
    }
    const uint32_t sequence = sequences.back();
    sequences.pop_back();
    return sequence;
  };
  std::vector<uint32_t> piece_of(lanes_, kEnded);  // by lane: the next piece
  std::vector<uint32_t> order;
  order.reserve(count);
  for (size_t turn = 0; turn < count; ++turn) {
    const auto lane = static_cast<uint32_t>(turn % lanes_);
    uint32_t& piece = piece_of[lane];
    const bool begins_here = turn < lanes_;
    if (piece == kEnded) {
      const uint32_t sequence = next_sequence();
      const uint32_t first = firsts_[sequence];
      const uint32_t end = sequence + 1 < firsts_.size() ? firsts_[sequence + 1] : size();
      piece = first + (begins_here ? static_cast<uint32_t>(random() % (end - first)) : 0);
    }
    order.push_back((2 * lane + (begins_here ? 1 : 0)) * size() + piece);
    piece = IsLast(piece) ? kEnded : piece + 1;
  }
  return order;
}

PreparedRequest StreamRequests::Request(uint32_t entry, uint64_t) const {
  const uint32_t piece = entry % size();
  const bool starts = entry / size() % 2 == 1 || IsFirst(piece);
  return {headers_[4 * LaneOf(entry) + (starts ? 2 : 0) + (IsLast(piece) ? 1 : 0)],
          messages_[piece]};
}

absl::StatusOr<std::unique_ptr<RequestSet>> MakeRequests(const ModelMetadata& metadata,
                                                         const ModelConfiguration& config,
                                                         const MixEntry& entry, uint64_t seed) {
  const auto needs = NeedsOf(metadata, config, entry.version);
  if (!needs.ok()) {
    return needs.status();
  }
  if (absl::Status fits = CheckFits(*needs, entry); !fits.ok()) {
    return fits;
  }
  const auto corpus = CorpusOf(entry, *needs);
  if (!corpus.ok()) {
    return corpus.status();
  }
  const auto* lengths = std::get_if<std::vector<corpus::Lengths>>(&corpus->items);
  if (IsPlainSequence(needs->form) && lengths != nullptr && entry.call == LoadCall::kInfer &&
      entry.piece == 0) {
    std::vector<int32_t> steps;
    for (const corpus::Lengths& length : *lengths) {
      steps.push_back(length.source);
    }
    return StripRequests::Create(*needs, entry, std::move(steps), seed);
  }
  const auto contents = ContentsOf(*corpus, *needs, entry, seed);
  if (!contents.ok()) {
    return contents.status();
  }
  if (entry.streams > 0) {
    return StreamRequests::Create(*needs, entry, *contents,
                                  fmt::format("loadgen-{:08x}", std::random_device{}()));
  }
  return MessageRequests::Create(*needs, entry.piece > 0 ? AskForStates(entry, *needs) : entry,
                                 *contents, seed);
}

}  // namespace cellbatch
