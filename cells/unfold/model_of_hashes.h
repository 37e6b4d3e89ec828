// Models of stacked, bidirectional chains for tests of their graphs: of any shape, without equations.
#ifndef CELLBATCH_CELLS_UNFOLD_MODEL_OF_HASHES_H_
#define CELLBATCH_CELLS_UNFOLD_MODEL_OF_HASHES_H_

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cells/unfold/chain_unfolder.h"

namespace cellbatch {

inline constexpr int64_t kVocabulary = 50;
inline constexpr int64_t kCharacters = 20;
inline constexpr int64_t kMaxLength = 12;

// Over the end of the top layer, or over every step of it.
inline constexpr int kBackwardAlone = -1;  // of a number of directions
enum class Head { kNone, kEnd, kEveryStep };

// A cell whose operators do not matter (all columns are a sum of what it reads), one float a column.
class ModelOfHashes {
 public:
  ModelOfHashes(bool tokens, int layers, int directions, Head head, bool embedding,
                bool characters = false) {
    TableId source = Table({{"in", tokens ? ElementType::kInt32 : ElementType::kFp32, 1}});
    spec_.input = source;
    spec_.vocabulary_size = kVocabulary;
    spec_.max_sequence_length = kMaxLength;
    if (embedding) {
      const TableId made = Table({{"x", ElementType::kFp32, 1}});
      spec_.embedding = Type("embedding", {{"token", source}}, made, {"x"}, false);
      source = made;
    }
    if (characters) AddCharacters(source);
    std::vector<TableId> below = {source};
    for (int l = 0; l < layers; ++l) {
      std::vector<TableId> leaves;
      CellTypeId types[2];
      for (int d = directions == kBackwardAlone ? 1 : 0; d < (directions == 1 ? 1 : 2); ++d) {
        const TableId out = Table({{"h", ElementType::kFp32, 1}, {"c", ElementType::kFp32, 1}});
        types[d] = Type(fmt::format("l{}d{}", l, d), Inputs(below), out, {"h", "c"}, true);
        leaves.push_back(out);
      }
      spec_.layers.push_back({types[0], types[1]});
      below = leaves;
    }
    if (head == Head::kNone) return;
    const TableId out = Table({{"y", ElementType::kFp32, 1}});
    (head == Head::kEnd ? spec_.head : spec_.token_head) =
        Type("head", Inputs(below), out, {"y"}, false);
  }
  // One direction of vectors; what each layer leaves, and carries.
  explicit ModelOfHashes(const std::vector<std::vector<Column>>& layers) {
    TableId below = Table({{"in", ElementType::kFp32, 1}});
    spec_.input = below;
    spec_.max_sequence_length = kMaxLength;
    for (const std::vector<Column>& columns : layers) {
      const TableId out = Table(columns);
      std::vector<std::string> names;
      for (const Column& column : columns) names.push_back(column.name);
      const std::string name = fmt::format("l{}", spec_.layers.size());
      spec_.layers.push_back({Type(name, {{"x", below}}, out, names, true), CellTypeId()});
      below = out;
    }
  }

  const Model& model() const { return model_; }
  const ChainSpec& spec() const { return spec_; }

 private:
  using NamedTables = std::vector<std::pair<std::string, TableId>>;

  static NamedTables Inputs(const std::vector<TableId>& below) {
    if (below.size() == 1) return {{"x", below[0]}};
    return {{"forward", below[0]}, {"backward", below[1]}};
  }

  void AddCharacters(TableId words) {
    CharacterSpec& c = spec_.characters;
    c.input = Table({{"in", ElementType::kInt32, 1}});
    c.vocabulary_size = kCharacters;
    std::vector<TableId> ends;
    for (CellTypeId* direction : {&c.forward, &c.backward}) {
      const TableId out = Table({{"h", ElementType::kFp32, 1}, {"c", ElementType::kFp32, 1}});
      *direction =
          Type(fmt::format("spell{}", ends.size()), {{"x", c.input}}, out, {"h", "c"}, true);
      ends.push_back(out);
    }
    c.word = Type("word", Inputs(ends), words, {"x"}, false);
  }

  TableId Table(std::vector<Column> columns) {
    model_.tables.push_back({fmt::format("table{}", model_.tables.size()), std::move(columns)});
    return TableId(static_cast<int64_t>(model_.tables.size()) - 1);
  }

  CellTypeId Type(const std::string& name, NamedTables reads, TableId out,
                  std::vector<std::string> columns, bool chain) {
    if (chain) reads.insert(reads.begin(), {"before", out});
    std::vector<Input> inputs;
    std::vector<Op> ops = {{.kind = OpKind::kConstant}};
    CellType type;
    for (const auto& [input, table] : reads) {
      inputs.push_back({input, model_.table(table).columns, Arity::kOne});
      type.in.push_back(table);
    }
    std::vector<Output> outputs;
    for (const std::string& column : columns) outputs.push_back({column, ValueId(0)});
    auto definition = CellDefinition::Create(name, ops, inputs, {}, outputs,
                                             chain ? std::optional(InputId(0)) : std::nullopt);
    EXPECT_TRUE(definition.ok()) << definition.status();
    type.id = CellTypeId(static_cast<int64_t>(model_.types.size()));
    type.name = name;
    type.definition = std::make_shared<CellDefinition>(*std::move(definition));
    type.out = out;
    model_.types.push_back(std::move(type));
    return model_.types.back().id;
  }

  Model model_;
  ChainSpec spec_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_UNFOLD_MODEL_OF_HASHES_H_
