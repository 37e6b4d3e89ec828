#include "tests/simulation/plan.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "tests/simulation/sim_world.h"

namespace cellbatch::sim {
namespace {

size_t Index(int64_t i) { return static_cast<size_t>(i); }

const std::byte* RowOf(const std::vector<int32_t>& tokens, int64_t row) {
  return reinterpret_cast<const std::byte*>(tokens.data() + row * kTokenWords);
}

class Evaluator {
 public:
  Evaluator(const Plan& plan, const Model& model, const std::vector<int32_t>& tokens,
            WordRule word_rule)
      : plan_(plan), model_(model), tokens_(tokens), word_rule_(word_rule) {}

  Evaluation Run() {
    for (const PlannedSubgraph& s : plan_.subgraphs) {
      e_.first_node.push_back(static_cast<int32_t>(e_.left.size()));
      if (s.is_input) {
        Tokens(s.length);
      } else {
        Cells(s);
      }
    }
    e_.first_node.push_back(static_cast<int32_t>(e_.left.size()));
    for (const PlannedReturn& r : plan_.returns) e_.answer.push_back(Tensor(r));
    return std::move(e_);
  }

 private:
  void Tokens(int32_t rows) {
    for (int32_t r = 0; r < rows; ++r) {
      e_.left.push_back(
          FingerprintOfInput({RowOf(tokens_, next_token_++), kTokenWords * sizeof(int32_t)}));
    }
    e_.executed.push_back(rows);
  }

  void Cells(const PlannedSubgraph& s) {
    const CellDefinition& cell = *model_.type(s.type).definition;
    int32_t executed = s.length;
    for (int32_t t = 0; t < s.length; ++t) {
      NodeFingerprint node(model_.id, s.type);
      for (size_t i = 0; i < cell.inputs().size(); ++i) {
        Read(s, t, InputId(static_cast<int64_t>(i)), cell, node);
      }
      e_.left.push_back(node.value());
      const bool stops = s.stop.column.valid() && executed == s.length &&
                         Word(node.value(), s.stop.column) == s.stop.value;
      if (stops) executed = t + 1;
    }
    e_.executed.push_back(executed);
  }

  void Read(const PlannedSubgraph& s, int32_t t, InputId input, const CellDefinition& cell,
            NodeFingerprint& node) {
    const bool carry = cell.carry() == input;
    if (carry && t > 0) {
      node.Read(input, e_.left.back());
      return;
    }
    bool linked = false;
    for (const Link& link : s.links) {
      if (link.input != input || link.from == kZeroSource) continue;
      linked = true;
      node.Read(input, Left(link, carry ? 0 : t));
    }
    const bool sum = cell.inputs()[Index(input.value())].arity == Arity::kSum;
    if (!linked && !sum) node.Read(input, kZeroFingerprint);
  }

  Fingerprint Left(const Link& link, int32_t t) const {
    const size_t from = Index(link.from.value());
    const int32_t node =
        link.first == kLastNode ? e_.executed[from] - 1 : link.first + t * link.stride;
    return e_.left[Index(e_.first_node[from] + node)];
  }

  int32_t Word(Fingerprint row, ColumnId column) const {
    return word_rule_(ElementOf(row, column, 0));
  }

  std::vector<std::byte> Tensor(const PlannedReturn& r) const {
    const size_t from = Index(r.from.value());
    const TableId table = model_.type(plan_.subgraphs[from].type).out;
    const Column& column = model_.table(table).columns[Index(r.column.value())];
    std::vector<std::byte> bytes(Index(int64_t{r.nodes.count} * column.width * 4));
    for (int32_t i = 0; i < r.nodes.count; ++i) {
      const int32_t node = r.nodes.first + i;
      if (node >= e_.executed[from]) continue;  // past the stop: zeros
      for (int32_t k = 0; k < column.width; ++k) {
        const Fingerprint row = e_.left[Index(e_.first_node[from] + node)];
        uint32_t bits = ElementOf(row, r.column, k);
        if (column.type == ElementType::kInt32) bits = static_cast<uint32_t>(word_rule_(bits));
        std::memcpy(bytes.data() + 4 * Index(int64_t{i} * column.width + k), &bits, 4);
      }
    }
    return bytes;
  }

  const Plan& plan_;
  const Model& model_;
  const std::vector<int32_t>& tokens_;
  const WordRule word_rule_;
  int64_t next_token_ = 0;
  Evaluation e_;
};

}  // namespace

std::vector<int32_t> MakeTokens(const Plan& plan, int32_t tag) {
  std::vector<int32_t> tokens;
  for (const PlannedSubgraph& s : plan.subgraphs) {
    for (int32_t r = 0; s.is_input && r < s.length; ++r) {
      tokens.push_back(tag);
      tokens.push_back(static_cast<int32_t>(tokens.size() / kTokenWords));
    }
  }
  return tokens;
}

Evaluation Evaluate(const Plan& plan, const Model& model, const std::vector<int32_t>& tokens,
                    WordRule word_rule) {
  return Evaluator(plan, model, tokens, word_rule).Run();
}

bool HasTwins(const Evaluation& evaluation) {
  std::vector<Fingerprint> sorted = evaluation.left;
  std::sort(sorted.begin(), sorted.end());
  return std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end();
}

namespace {

TableId TableOf(const Plan& plan, const Model& model, size_t s) {
  return plan.subgraphs[s].is_input ? kTokens : model.type(plan.subgraphs[s].type).out;
}

// Whether a later piece reads a node of `s` that is not its last.
bool ReadLaterInTheMiddle(const Plan& plan, size_t s, int32_t piece_end) {
  const int32_t last = plan.subgraphs[s].length - 1;
  for (size_t r = Index(piece_end); r < plan.subgraphs.size(); ++r) {
    for (const Link& link : plan.subgraphs[r].links) {
      if (link.from != SubgraphId(static_cast<int64_t>(s)) || link.first == kLastNode) continue;
      if (link.first != last || link.stride != 0) return true;
    }
  }
  return false;
}

Growth MostOf(const Plan& plan, const Model& model) {
  Growth most;
  most.pieces = static_cast<int32_t>(plan.cuts.size());
  most.rows.assign(model.tables.size(), 0);
  for (size_t s = Index(plan.cuts[0]); s < plan.subgraphs.size(); ++s) {
    const int32_t length = plan.subgraphs[s].length;
    most.nodes += plan.subgraphs[s].is_input ? 0 : length;
    most.rows[Index(TableOf(plan, model, s).value())] += length;
  }
  return most;
}

}  // namespace

void BuildPiece(const Plan& plan, const Model& model, const std::vector<int32_t>& tokens, int piece,
                CellGraph& graph) {
  const size_t begin = Index(plan.piece_begin(piece)), end = Index(plan.piece_end(piece));
  int64_t next_token = 0;
  for (size_t i = 0; i < begin; ++i) {
    next_token += plan.subgraphs[i].is_input ? plan.subgraphs[i].length : 0;
  }
  for (size_t i = begin; i < end; ++i) {
    const PlannedSubgraph& s = plan.subgraphs[i];
    if (s.is_input) {
      graph.AddInput(kTokens, s.length, RowOf(tokens, next_token));
      next_token += s.length;
      continue;
    }
    graph.SetPhase(PhaseOf(s.type));
    const SubgraphId id = graph.Add(s.type, s.length, s.links, s.stop);
    if (i % 4 == 0) graph.SetPlace(id, static_cast<int32_t>(i));  // anywhere: it moves no answer
    if (ReadLaterInTheMiddle(plan, i, plan.piece_end(piece))) graph.KeepRows(id);
  }
  for (size_t t = 0; t < plan.returns.size(); ++t) {
    const PlannedReturn& r = plan.returns[t];
    const size_t from = Index(r.from.value());
    if (from < begin || from >= end) continue;
    const Column& column = model.table(TableOf(plan, model, from)).columns[Index(r.column.value())];
    graph.Return(r.from, r.column, r.nodes,
                 {static_cast<int32_t>(t), 0, 4 * int64_t{column.width}});
  }
  if (plan.closes && piece > 0 && piece + 1 == plan.num_pieces()) graph.CloseGrowth();
}

CellGraph Build(const Plan& plan, const Model& model, const std::vector<int32_t>& tokens) {
  CellGraph graph;
  if (!plan.cuts.empty()) graph.Grow(MostOf(plan, model));
  for (const PlannedReturn& r : plan.returns) {
    const TableId table = TableOf(plan, model, Index(r.from.value()));
    const Column& column = model.table(table).columns[Index(r.column.value())];
    const WireType wire = column.type == ElementType::kInt32 ? WireType::kInt32 : WireType::kFp32;
    graph.AddTensor(absl::StrCat("T", graph.tensors().size()), wire, {r.nodes.count, column.width});
  }
  BuildPiece(plan, model, tokens, 0, graph);
  return graph;
}

}  // namespace cellbatch::sim
