// Trees (cells/unfold/tree_unfolder.h).
#include <fmt/format.h>

#include "cells/unfold/chain_unfolder.h"
#include "cells/unfold/tree_unfolder.h"
#include "server/assemble/assembly.h"

namespace cellbatch {
namespace {

constexpr char kVocabularyFile[] = "vocabulary.txt";

// Leaves first, because sizes of internal cells may follow from what they leave. False: one is broken.
bool MakeTypes(Assembly& a, TreeSpec& spec) {
  const disk::TreeUnfolder& tree = a.config.tree();
  const auto left_by = [&](CellTypeId type) { return InputSource::Of(a.model.type(type).out); };
  InputSource token = InputSource::Request(kTokensInput, ElementType::kInt32);
  if (!tree.embedding().empty()) {
    spec.embedding =
        a.types.Add(tree.embedding(), {.what = "tree: embedding", .inputs = {}, .others = token});
    if (!spec.embedding.valid()) return false;
    token = left_by(spec.embedding);
  }
  InputSource node = InputSource::Own();
  if (!tree.leaf().empty()) {
    spec.leaf = a.types.Add(tree.leaf(), {.what = "tree: leaf", .inputs = {}, .others = token});
    if (!spec.leaf.valid()) return false;
    node = left_by(spec.leaf);
  }
  TypeRole internal = {
      .what = "tree: internal", .inputs = {{"x", token}, {"token", token}}, .others = std::nullopt};
  if (!tree.edge().empty()) {
    spec.edge =
        a.types.Add(tree.edge(), {.what = "tree: edge",
                                  .inputs = {{"x", token}, {"token", token}, {"child", node}},
                                  .others = std::nullopt});
    if (!spec.edge.valid()) return false;
    internal.inputs.emplace_back("edges", left_by(spec.edge));
  }
  internal.others = node;  // children, by whatever names: the unfolder knows which
  for (const std::string& name : tree.internal()) {
    spec.internal.push_back(a.types.Add(name, internal));
    if (!spec.internal.back().valid()) return false;
    internal.others = left_by(spec.internal[0]);
  }
  if (spec.internal.empty() || tree.output().empty()) return true;
  spec.output = a.types.Add(
      tree.output(), {.what = "tree: output", .inputs = {}, .others = left_by(spec.internal[0])});
  return spec.output.valid();
}

// Without leaves, an edge was made before the nodes whose rows it reads.
void ConnectEdge(const TreeSpec& spec, Model& model) {
  if (!spec.edge.valid() || spec.leaf.valid() || spec.internal.empty()) return;
  CellType& edge = model.types[static_cast<size_t>(spec.edge.value())];
  for (size_t i = 0; i < edge.in.size(); ++i) {
    if (edge.definition->inputs()[i].name == "child") edge.in[i] = model.type(spec.internal[0]).out;
  }
}

}  // namespace

void AssembleTree(Assembly& a) {
  if (a.config.max_sequence_length() != 0) {
    a.Problem("max_sequence_length",
              "max_sequence_length is for sequences; the size of trees is bounded by max_nodes");
  }
  TreeSpec spec;
  if (!a.Finish(MakeTypes(a, spec))) return;
  ConnectEdge(spec, a.model);
  spec.tokens = a.types.RequestTable(kTokensInput);
  if (!spec.tokens.valid()) {
    a.Problem("tree: no cell reads the request's TOKENS");
    return;
  }
  const std::optional<IdRange> words = a.KnownIds(a.config.vocabulary(), spec.tokens, "words");
  if (!words) return;
  spec.known_words = *words;
  spec.vocabulary = a.ReadNames(kVocabularyFile, words->size);
  spec.max_nodes = a.MaxNodes();
  auto unfolder = TreeUnfolder::Create(spec, a.model);
  if (!unfolder.ok()) {
    a.Problem(std::string(unfolder.status().message()));
    return;
  }
  a.model.signature = (*unfolder)->MakeSignature();
  a.model.unfolder = *std::move(unfolder);
  a.ApplyVocabulary(words->size);
  a.ListOutputs();
}

}  // namespace cellbatch
