#include "loadgen/needs.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"

namespace cellbatch {
namespace {

struct InputFacts {
  std::string datatype;
  std::vector<int64_t> dims;
  int64_t ids = 0, max_rows = 0;
  bool listed = false;
};

using Inputs = std::map<std::string, InputFacts>;

std::string TextIn(const ModelConfiguration& config, const std::string& key) {
  const auto found = config.parameters.find(key);
  return found == config.parameters.end() ? std::string() : found->second;
}

int64_t NumberIn(const ModelConfiguration& config, const std::string& key, int64_t otherwise = 0) {
  int64_t number = 0;
  return absl::SimpleAtoi(TextIn(config, key), &number) ? number : otherwise;
}

// "0,1": numbers; those that are none are left out.
template <typename Number>
std::vector<Number> Numbers(const std::string& text) {
  std::vector<Number> numbers;
  std::istringstream stream(text);
  for (std::string word; std::getline(stream, word, ',');) {
    Number number = 0;
    if (absl::SimpleAtoi(word, &number)) {
      numbers.push_back(number);
    }
  }
  return numbers;
}

// Those that are listed, and those of which only the configuration speaks.
Inputs InputsOf(const ModelMetadata& metadata, const ModelConfiguration& config) {
  constexpr std::string_view kPrefix = "input.", kSuffix = ".datatype";
  Inputs inputs;
  for (const auto& [key, value] : config.parameters) {
    if (key.size() <= kPrefix.size() + kSuffix.size() || key.rfind(kPrefix, 0) != 0 ||
        key.compare(key.size() - kSuffix.size(), kSuffix.size(), kSuffix) != 0) {
      continue;
    }
    const std::string prefix = key.substr(0, key.size() - kSuffix.size() + 1);
    const std::string name = prefix.substr(kPrefix.size(), prefix.size() - kPrefix.size() - 1);
    inputs[name] = {value, Numbers<int64_t>(TextIn(config, prefix + "dims")),
                    NumberIn(config, prefix + "ids"), NumberIn(config, prefix + "max_rows")};
  }
  for (const TensorMetadata& input : metadata.inputs) {
    InputFacts& facts = inputs[input.name];
    facts.datatype = input.datatype;
    facts.dims = input.shape;
    facts.listed = true;
    // A server that tells no more than this of its one vocabulary.
    if (facts.ids == 0 && (input.name == "TOKENS" || input.name == "SOURCE")) {
      facts.ids = NumberIn(config, "vocabulary_size");
    }
  }
  return inputs;
}

bool HasIds(const Inputs& inputs, const char* name, int64_t least = 1) {
  const auto found = inputs.find(name);
  return found != inputs.end() && found->second.ids >= least &&
         (found->second.datatype == "INT32" || found->second.datatype == "INT64");
}

bool IsVectors(const Inputs& inputs) {
  const auto found = inputs.find("X");
  return found != inputs.end() && found->second.datatype == "FP32" &&
         found->second.dims.size() == 2 && found->second.dims[1] > 0;
}

// Whether every listed input is one of these.
bool ListsOnly(const Inputs& inputs, const std::set<std::string>& known) {
  return std::all_of(inputs.begin(), inputs.end(), [&](const auto& input) {
    return !input.second.listed || known.count(input.first) > 0;
  });
}

// Cells of two children, as far as is known: what comes by PARENT is wider.
bool TakesBinary(const Inputs& inputs) { return inputs.count("CHILDREN") > 0; }
bool TakesDependencies(const Inputs& inputs, int64_t most_children) {
  return inputs.count("PARENT") > 0 && (!TakesBinary(inputs) || most_children > 2);
}

RequestForm FormOf(const Inputs& inputs, int64_t most_children) {
  if (inputs.count("NODE_TYPES") > 0) {
    return RequestForm::kGraph;
  }
  if (HasIds(inputs, "CHARS") && ListsOnly(inputs, {"CHARS", "WORDS"})) {
    return RequestForm::kLattice;
  }
  if (HasIds(inputs, "SOURCE") && ListsOnly(inputs, {"SOURCE"})) {
    return RequestForm::kSource;
  }
  if (IsVectors(inputs) && ListsOnly(inputs, {"X"})) {
    return RequestForm::kVectors;
  }
  if (!HasIds(inputs, "TOKENS") || !ListsOnly(inputs, {"TOKENS", "CHILDREN", "PARENT"})) {
    return RequestForm::kOther;
  }
  if (TakesDependencies(inputs, most_children)) {
    return RequestForm::kDependencyTree;
  }
  if (TakesBinary(inputs)) {
    return RequestForm::kBinaryTree;
  }
  return HasIds(inputs, "CHAR_IDS", 2) ? RequestForm::kSpelledTokens : RequestForm::kTokens;
}

absl::Status Unclear(const std::string& model, const std::string& what) {
  return absl::FailedPreconditionError(fmt::format("model \"{}\": {}", model, what));
}

// "leaf.x=request", "node.left=0,1", "node.all=+0"
absl::StatusOr<GraphNodeType::Port> PortFrom(const std::string& text, const Inputs& inputs,
                                             const std::string& model) {
  const size_t equals = text.rfind('=');
  GraphNodeType::Port port;
  port.name = text.substr(0, equals);
  const std::string reads = equals == text.npos ? "" : text.substr(equals + 1);
  if (reads != "request") {
    port.sums = reads.rfind('+', 0) == 0;
    port.reads = Numbers<int32_t>(reads.substr(port.sums ? 1 : 0));
    return port;
  }
  port.brought = true;
  const auto facts = inputs.find(port.name);
  if (facts == inputs.end()) {
    return Unclear(model, fmt::format("its server does not say what {} looks like", port.name));
  }
  port.floats = facts->second.datatype == "FP32";
  port.width = facts->second.dims.size() == 2 ? facts->second.dims[1] : 1;
  port.ids = facts->second.ids;
  return port;
}

std::vector<StatePart> StatesOf(const Inputs& inputs) {
  constexpr std::string_view kInitial = "INITIAL_";
  std::vector<StatePart> states;
  for (const auto& [name, facts] : inputs) {
    if (name.rfind(kInitial, 0) != 0 || facts.datatype != "FP32") {
      continue;
    }
    states.push_back({name, "FINAL_" + name.substr(kInitial.size()), facts.dims});
  }
  return states;
}

absl::Status ReadGraph(const ModelConfiguration& config, const Inputs& inputs, ModelNeeds& needs) {
  needs.output_type = static_cast<int32_t>(NumberIn(config, "graph.output_type", -1));
  for (int t = 0; config.parameters.count(fmt::format("graph.{}", t)) > 0; ++t) {
    GraphNodeType& type = needs.node_types.emplace_back();
    type.name = TextIn(config, fmt::format("graph.{}", t));
    for (int i = 0; config.parameters.count(fmt::format("graph.{}.{}", t, i)) > 0; ++i) {
      const auto port =
          PortFrom(TextIn(config, fmt::format("graph.{}.{}", t, i)), inputs, needs.model);
      if (!port.ok()) {
        return port.status();
      }
      type.inputs.push_back(*port);
    }
  }
  const auto types = static_cast<int32_t>(needs.node_types.size());
  const bool known =
      std::all_of(needs.node_types.begin(), needs.node_types.end(), [&](const GraphNodeType& type) {
        return std::all_of(type.inputs.begin(), type.inputs.end(), [&](const auto& port) {
          return std::all_of(port.reads.begin(), port.reads.end(),
                             [&](int32_t from) { return from >= 0 && from < types; });
        });
      });
  if (types == 0 || !known || needs.output_type >= types) {
    return Unclear(needs.model, "it takes graphs, and its server does not say of which nodes");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ModelNeeds> NeedsOf(const ModelMetadata& metadata, const ModelConfiguration& config,
                                   const std::string& version) {
  Inputs inputs = InputsOf(metadata, config);
  ModelNeeds needs;
  needs.model = metadata.name;
  needs.version = version;
  needs.most_children = NumberIn(config, "max_children");
  needs.form = FormOf(inputs, needs.most_children);
  const bool tree =
      needs.form == RequestForm::kBinaryTree || needs.form == RequestForm::kDependencyTree;
  needs.binary_trees = tree && TakesBinary(inputs);
  needs.dependency_trees = tree && TakesDependencies(inputs, needs.most_children);
  for (const TensorMetadata& input : metadata.inputs) {
    needs.inputs += (needs.inputs.empty() ? "" : ", ") + input.name;
  }
  const char* tokens = needs.form == RequestForm::kSource    ? "SOURCE"
                       : needs.form == RequestForm::kLattice ? "WORDS"
                                                             : "TOKENS";
  needs.reads_words = inputs.count("WORDS") > 0;
  needs.token_datatype = inputs[tokens].datatype == "INT64" ? "INT64" : "INT32";
  needs.vocabulary = inputs[tokens].ids;
  needs.characters = inputs[needs.form == RequestForm::kLattice ? "CHARS" : "CHAR_IDS"].ids;
  needs.internal_types = std::max<int64_t>(1, inputs["INTERNAL_TYPES"].ids);
  needs.most_steps = std::max(NumberIn(config, "max_sequence_length"), inputs["CHARS"].max_rows);
  needs.most_nodes = NumberIn(config, "max_nodes");
  needs.most_decode_steps = NumberIn(config, "max_decode_steps");
  if (needs.form == RequestForm::kVectors) {
    needs.width = inputs["X"].dims[1];
  }
  needs.states = StatesOf(inputs);
  if (needs.form == RequestForm::kGraph) {
    if (absl::Status status = ReadGraph(config, inputs, needs); !status.ok()) {
      return status;
    }
  }
  if (needs.form == RequestForm::kLattice && needs.reads_words && needs.vocabulary == 0) {
    return Unclear(needs.model, "its server does not say how many words WORDS may name");
  }
  return needs;
}

const char* FormName(RequestForm form) {
  switch (form) {
    case RequestForm::kVectors:
      return "X, vectors";
    case RequestForm::kTokens:
      return "TOKENS, sentences";
    case RequestForm::kSpelledTokens:
      return "TOKENS and CHAR_IDS, sentences with words spelled out";
    case RequestForm::kSource:
      return "SOURCE, sentences to decode from";
    case RequestForm::kBinaryTree:
      return "TOKENS and CHILDREN, binary trees";
    case RequestForm::kDependencyTree:
      return "TOKENS and PARENT, dependency trees";
    case RequestForm::kLattice:
      return "CHARS and WORDS, lattices";
    case RequestForm::kGraph:
      return "NODE_TYPES and EDGES, graphs";
    case RequestForm::kOther:
      break;
  }
  return "inputs of its own";
}

}  // namespace cellbatch
