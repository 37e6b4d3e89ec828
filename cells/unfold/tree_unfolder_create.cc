// What a tree model's cells must look like, checked once; requests are then unfolded without asking.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string>

#include "cells/unfold/chain_unfolder.h"
#include "cells/unfold/tree_unfolder.h"
#include "cells/unfold/type_check.h"

namespace cellbatch {
namespace {

constexpr size_t kMaxInternalTypes = 64;
constexpr std::string_view kChild = "child";

absl::Status Wrong(std::string_view what) {
  return absl::InvalidArgumentError(fmt::format("tree: {}", what));
}

// A type of the model that makes no chains.
absl::StatusOr<const CellType*> NodeType(const Model& model, CellTypeId id) {
  absl::StatusOr<const CellType*> type = TypeOf(model, id);
  if (!type.ok()) return Wrong(std::string(type.status().message()));
  if (!(*type)->definition->carry().has_value()) return type;
  return Wrong(
      fmt::format("cell type \"{}\" carries state from step to step; in a tree state comes "
                  "from the children",
                  (*type)->name));
}

// Input `i` of `type` must read `table`, of one node, or of several.
absl::Status CheckReads(const Model& model, const CellType& type, size_t i, TableId table,
                        Arity arity) {
  const Input& input = type.definition->inputs()[i];
  if (input.arity != arity) {
    return Wrong(fmt::format("cell type \"{}\": input \"{}\" reads {}", type.name, input.name,
                             arity == Arity::kSum ? "one node; it must sum (arity: SUM)"
                                                  : "a sum; it must read one node"));
  }
  if (type.in[i] == table) return absl::OkStatus();
  return Wrong(fmt::format("cell type \"{}\": input \"{}\" reads of {}, what it is given is {}",
                           type.name, input.name, ColumnsText(model.table(type.in[i]).columns),
                           ColumnsText(model.table(table).columns)));
}

// The type's one input, which reads `table`.
absl::StatusOr<InputId> OnlyInput(const Model& model, const CellType& type, TableId table) {
  if (type.definition->inputs().size() != 1) {
    return Wrong(fmt::format("cell type \"{}\" has {} inputs, in its place it has 1", type.name,
                             type.definition->inputs().size()));
  }
  if (absl::Status s = CheckReads(model, type, 0, table, Arity::kOne); !s.ok()) return s;
  return InputId(0);
}

bool AnySums(const CellType& type) {
  const absl::Span<const Input> inputs = type.definition->inputs();
  return std::any_of(inputs.begin(), inputs.end(),
                     [](const Input& input) { return input.arity == Arity::kSum; });
}

// The node's word: "token" is what "x" is called behind "embed" (reads { input: "x" through: "embed" }).
bool IsToken(std::string_view name) { return name == "x" || name == "token"; }

// k of "childk"; -1: not such a name.
int32_t ChildNumber(std::string_view name) {
  if (name.substr(0, kChild.size()) != kChild) return -1;
  int32_t number = -1;
  const char* end = name.data() + name.size();
  const auto [at, error] = std::from_chars(name.data() + kChild.size(), end, number);
  return error == std::errc() && at == end && number >= 0 ? number : -1;
}

}  // namespace

absl::Status TreeUnfolder::ReadSource(const TreeSpec& spec, const Model& model) {
  if (!spec.tokens.valid() || static_cast<size_t>(spec.tokens.value()) >= model.tables.size()) {
    return Wrong(fmt::format("input table {} of {}", spec.tokens.value(), model.tables.size()));
  }
  const TableSpec& table = model.table(spec.tokens);
  if (table.columns.size() != 1 || table.columns[0].type != ElementType::kInt32 ||
      table.columns[0].width != 1) {
    return Wrong(fmt::format("input table \"{}\" is not one INT32 column of 1", table.name));
  }
  if (spec.known_words.size < 1) {
    return Wrong(fmt::format("a vocabulary of {}", spec.known_words.size));
  }
  if (spec.max_nodes < 1 || spec.max_nodes > kMaxTensorRows) {
    return Wrong(
        fmt::format("max_nodes is {}, allowed are 1 to {}", spec.max_nodes, kMaxTensorRows));
  }
  tokens_ = rows_ = spec.tokens;
  if (!spec.embedding.valid()) return absl::OkStatus();
  const absl::StatusOr<const CellType*> type = NodeType(model, spec.embedding);
  if (!type.ok()) return type.status();
  const absl::StatusOr<InputId> input = OnlyInput(model, **type, tokens_);
  if (!input.ok()) return input.status();
  embedding_ = spec.embedding;
  embedding_input_ = *input;
  rows_ = (*type)->out;
  return absl::OkStatus();
}

absl::StatusOr<TreeUnfolder::Cell> TreeUnfolder::MakeInternal(const Model& model, CellTypeId id,
                                                              CellTypeId edge) const {
  const absl::StatusOr<const CellType*> found = NodeType(model, id);
  if (!found.ok()) return found.status();
  const CellType& type = **found;
  Cell cell{.type = id, .name = type.name, .slots = {}, .sets = !AnySums(type)};
  int32_t children = 0, highest = -1;
  for (size_t i = 0; i < type.definition->inputs().size(); ++i) {
    const std::string& name = type.definition->inputs()[i].name;
    Slot slot{.reads = Slot::Reads::kToken, .input = InputId(static_cast<int64_t>(i))};
    TableId table = rows_;
    if (name == "children") {
      slot.reads = Slot::Reads::kChildren;
      table = node_;
    } else if (name == "edges") {
      slot.reads = Slot::Reads::kEdges;
      if (!edge.valid()) {
        return Wrong(fmt::format(
            "cell type \"{}\" reads \"edges\", the model has no edge: tree {{ edge: .. }} "
            "names the cell type of one child",
            type.name));
      }
      table = model.type(edge).out;
    } else if (slot.child = ChildNumber(name); slot.child >= 0) {
      slot.reads = Slot::Reads::kChild;
      table = node_;
      ++children;
      highest = std::max(highest, slot.child);
    } else if (!IsToken(name)) {
      return Wrong(
          fmt::format("cell type \"{}\" has an input \"{}\"; an internal cell reads \"x\", "
                      "\"child0\", \"child1\", .., \"children\" and \"edges\"",
                      type.name, name));
    }
    const bool sums = slot.reads == Slot::Reads::kChildren || slot.reads == Slot::Reads::kEdges;
    if (absl::Status s = CheckReads(model, type, i, table, sums ? Arity::kSum : Arity::kOne);
        !s.ok()) {
      return s;
    }
    cell.slots.push_back(slot);
  }
  if (children != highest + 1) {
    return Wrong(fmt::format("cell type \"{}\" reads \"child{}\", but {} children in all",
                             type.name, highest, children));
  }
  if (children == 0 && cell.sets) {
    return Wrong(fmt::format("cell type \"{}\" reads no children", type.name));
  }
  cell.max_children = children > 0 ? children : kMaxSumLinks;
  return cell;
}

absl::StatusOr<TreeUnfolder::Cell> TreeUnfolder::MakeEdge(const Model& model, CellTypeId id) const {
  const absl::StatusOr<const CellType*> found = NodeType(model, id);
  if (!found.ok()) return found.status();
  const CellType& type = **found;
  Cell cell{.type = id, .name = type.name, .slots = {}};
  for (size_t i = 0; i < type.definition->inputs().size(); ++i) {
    const std::string& name = type.definition->inputs()[i].name;
    if (!IsToken(name) && name != "child") {
      return Wrong(
          fmt::format("cell type \"{}\" has an input \"{}\"; an edge reads \"x\" and \"child\"",
                      type.name, name));
    }
    const bool child = name == "child";
    if (absl::Status s = CheckReads(model, type, i, child ? node_ : rows_, Arity::kOne); !s.ok()) {
      return s;
    }
    cell.slots.push_back({.reads = child ? Slot::Reads::kChild : Slot::Reads::kToken,
                          .input = InputId(static_cast<int64_t>(i))});
  }
  if (cell.Has(Slot::Reads::kChild)) return cell;
  return Wrong(fmt::format("cell type \"{}\" does not read its \"child\"", type.name));
}

absl::Status TreeUnfolder::MakeLeaf(const Model& model, CellTypeId id) {
  if (id.valid()) {
    const absl::StatusOr<const CellType*> type = NodeType(model, id);
    if (!type.ok()) return type.status();
    const absl::StatusOr<InputId> input = OnlyInput(model, **type, rows_);
    if (!input.ok()) return input.status();
    leaf_ = {.type = id, .name = (*type)->name, .slots = {}};
    leaf_.slots.push_back({.reads = Slot::Reads::kToken, .input = *input});
    return absl::OkStatus();
  }
  leaf_ = internal_[0];
  const auto token = std::find_if(leaf_.slots.begin(), leaf_.slots.end(), [](const Slot& slot) {
    return slot.reads == Slot::Reads::kToken;
  });
  if (token == leaf_.slots.end()) {
    return Wrong(fmt::format("no leaf, and cell type \"{}\" does not read words by \"x\" either",
                             leaf_.name));
  }
  leaf_.slots = {*token};
  return absl::OkStatus();
}

absl::Status TreeUnfolder::MakeCells(const TreeSpec& spec, const Model& model) {
  if (spec.internal.empty() || spec.internal.size() > kMaxInternalTypes) {
    return Wrong(fmt::format("{} internal cell types, allowed are 1 to {}", spec.internal.size(),
                             kMaxInternalTypes));
  }
  // What nodes leave is what the first internal type leaves; the others must agree.
  std::vector<CellTypeId> nodes = spec.internal;
  if (spec.leaf.valid()) nodes.push_back(spec.leaf);
  for (const CellTypeId id : nodes) {
    const absl::StatusOr<const CellType*> type = NodeType(model, id);
    if (!type.ok()) return type.status();
    if (!node_.valid()) node_ = (*type)->out;
    if ((*type)->out == node_) continue;
    return Wrong(
        fmt::format("cell type \"{}\" leaves {}, \"{}\" leaves {}; all nodes of a tree leave the "
                    "same columns, in one order",
                    (*type)->name, ColumnsText((*type)->definition->columns()),
                    model.type(nodes[0]).name, ColumnsText(model.table(node_).columns)));
  }
  if (spec.edge.valid()) {
    absl::StatusOr<Cell> edge = MakeEdge(model, spec.edge);
    if (!edge.ok()) return edge.status();
    edge_ = *std::move(edge);
  }
  for (const CellTypeId id : spec.internal) {
    absl::StatusOr<Cell> cell = MakeInternal(model, id, spec.edge);
    if (!cell.ok()) return cell.status();
    internal_.push_back(*std::move(cell));
  }
  const bool read = std::any_of(internal_.begin(), internal_.end(),
                                [](const Cell& cell) { return cell.Has(Slot::Reads::kEdges); });
  if (read == spec.edge.valid()) return MakeLeaf(model, spec.leaf);
  return Wrong(fmt::format("edge \"{}\", and no internal cell reads \"edges\"", edge_.name));
}

absl::Status TreeUnfolder::MakeOutput(const Model& model, CellTypeId id) {
  const auto find = [&](TableId table, std::string_view name) {
    const TableSpec& columns = model.table(table);
    const ColumnId column = columns.Find(name);
    if (!column.valid()) return Leaves{};
    const Column& found = columns.columns[static_cast<size_t>(column.value())];
    return found.type == ElementType::kFp32 ? Leaves{column, found.width} : Leaves{};
  };
  h_ = find(node_, "h");
  c_ = find(node_, "c");
  if (!id.valid()) {
    if (h_.column.valid()) return absl::OkStatus();
    return Wrong(fmt::format("no output, and cell type \"{}\" leaves no FP32 column \"h\"",
                             internal_[0].name));
  }
  const absl::StatusOr<const CellType*> type = NodeType(model, id);
  if (!type.ok()) return type.status();
  const absl::StatusOr<InputId> input = OnlyInput(model, **type, node_);
  if (!input.ok()) return input.status();
  output_ = id;
  output_input_ = *input;
  y_ = find((*type)->out, "y");
  if (y_.column.valid()) return absl::OkStatus();
  return Wrong(fmt::format("output \"{}\" leaves no FP32 column \"y\", but {}", (*type)->name,
                           ColumnsText((*type)->definition->columns())));
}

absl::StatusOr<std::unique_ptr<TreeUnfolder>> TreeUnfolder::Create(const TreeSpec& spec,
                                                                   const Model& model) {
  std::unique_ptr<TreeUnfolder> made(new TreeUnfolder);
  if (absl::Status s = made->ReadSource(spec, model); !s.ok()) return s;
  if (absl::Status s = made->MakeCells(spec, model); !s.ok()) return s;
  if (absl::Status s = made->MakeOutput(model, spec.output); !s.ok()) return s;
  // A row that is not there reads as zeros: no vector, but the first word of the vocabulary.
  const auto reads_word = [&](const Cell& cell) {
    return made->rows_ == made->tokens_ && cell.Has(Slot::Reads::kToken);
  };
  const bool node_words = std::any_of(made->internal_.begin(), made->internal_.end(), reads_word) ||
                          reads_word(made->edge_);
  made->rules_ = {.words = spec.known_words,
                  .vocabulary = spec.vocabulary,
                  .max_nodes = spec.max_nodes,
                  .num_types = static_cast<int32_t>(spec.internal.size()),
                  .leaf_tokens = !node_words};
  made->NameOutputs();
  return made;
}

void TreeUnfolder::NameOutputs() {
  outputs_ = {kOutput};
  if (output_.valid()) outputs_.push_back(kNodeOutputs);
  if (h_.column.valid()) outputs_.insert(outputs_.end(), {kAllHidden, kFinalH});
  if (c_.column.valid()) outputs_.push_back(kFinalC);
}

Signature TreeUnfolder::MakeSignature() const {
  Signature signature;
  const auto take = [&](const char* name, WireType type, std::vector<int64_t> dims, bool listed,
                        bool empty = false) {
    signature.inputs.push_back({.name = name,
                                .type = type,
                                .dims = std::move(dims),
                                .optional = true,
                                .on_request = false,
                                .listed = listed,
                                .may_be_empty = empty});
  };
  const bool text = rules_.leaf_tokens && rules_.vocabulary != nullptr;
  take(kTokensInput, WireType::kInt32, {-1}, true);
  signature.inputs[0].optional = text;
  if (rules_.leaf_tokens) take(kChildrenInput, WireType::kInt32, {-1, 2}, true, true);
  take(kParentInput, WireType::kInt32, {-1}, !rules_.leaf_tokens, true);
  if (text) take(kTreeInput, WireType::kBytes, {1}, false);
  take(kInternalTypesInput, WireType::kInt32, {-1}, false, true);
  take(kLengthsInput, WireType::kInt32, {-1}, false);
  for (const std::string_view name : outputs_) {
    const bool y = name == kNodeOutputs || (name == kOutput && output_.valid());
    std::vector<int64_t> dims = {y ? y_.width : name == kFinalC ? c_.width : h_.width};
    if (name == kNodeOutputs || name == kAllHidden) dims.insert(dims.begin(), -1);
    signature.outputs.push_back({.name = std::string(name),
                                 .type = WireType::kFp32,
                                 .dims = std::move(dims),
                                 .optional = false,
                                 .on_request = name != kOutput,
                                 .listed = name == kOutput});
  }
  signature.vocabulary_size = rules_.words.size;
  return signature;
}

RequestDescription TreeUnfolder::Describe() const {
  const auto fewest = std::min_element(
      internal_.begin(), internal_.end(),
      [](const Cell& a, const Cell& b) { return a.max_children < b.max_children; });
  return {.inputs = {{.name = kTokensInput, .num_ids = rules_.words.size},
                     {.name = kInternalTypesInput, .num_ids = rules_.num_types}},
          .max_nodes = rules_.max_nodes,
          .max_children = fewest->max_children};
}

}  // namespace cellbatch
