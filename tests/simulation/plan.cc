#include "tests/simulation/plan.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "tests/simulation/sim_world.h"

namespace cellbatch::sim {
namespace {

size_t Index(int64_t i) { return static_cast<size_t>(i); }

// Of one row of an input, in 32-bit words; other columns, and cells: 0.
int64_t WordsOf(const PlannedSubgraph& s, const Model& model, size_t column) {
  return s.is_input && s.brought[column] ? model.table(s.table).columns[column].width : 0;
}
int64_t WordsOf(const PlannedSubgraph& s, const Model& model) {
  int64_t words = 0;
  for (size_t c = 0; s.is_input && c < model.table(s.table).columns.size(); ++c) {
    words += WordsOf(s, model, c);
  }
  return words;
}

class Evaluator {
 public:
  Evaluator(const Plan& plan, const Model& model, const std::vector<int32_t>& inputs,
            WordRule word_rule)
      : plan_(plan), model_(model), next_input_(inputs.data()), word_rule_(word_rule) {}

  Evaluation Run() {
    for (const PlannedSubgraph& s : plan_.subgraphs) {
      e_.first_node.push_back(static_cast<int32_t>(e_.left.size()));
      if (s.is_input) {
        Input(s);
      } else {
        Cells(s);
      }
    }
    e_.first_node.push_back(static_cast<int32_t>(e_.left.size()));
    for (const PlannedReturn& r : plan_.returns) e_.answer.push_back(Tensor(r));
    return std::move(e_);
  }

 private:
  // A row's columns, one after the other; all rows' first ones lie first.
  void Input(const PlannedSubgraph& s) {
    const size_t first = e_.left.size();
    for (size_t c = 0; c < model_.table(s.table).columns.size(); ++c) {
      const int64_t words = WordsOf(s, model_, c);
      if (words == 0) continue;
      for (int32_t r = 0; r < s.length; ++r, next_input_ += words) {
        const Fingerprint column = FingerprintOfInput(
            {reinterpret_cast<const std::byte*>(next_input_), Index(words) * sizeof(int32_t)});
        const size_t row = first + Index(r);
        if (row == e_.left.size()) {
          e_.left.push_back(column);
        } else {
          e_.left[row] = MixBits(e_.left[row], column);
        }
      }
    }
    e_.executed.push_back(s.length);
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
  const int32_t* next_input_;
  const WordRule word_rule_;
  Evaluation e_;
};

}  // namespace

SubgraphId Plan::AddTokens(int32_t rows) { return AddStates(kTokens, rows, ColumnSet(1)); }

SubgraphId Plan::AddStates(TableId table, int32_t rows, ColumnSet brought) {
  PlannedSubgraph& s = subgraphs.emplace_back();
  s.is_input = true;
  s.table = table;
  s.brought = brought;
  s.length = rows;
  return SubgraphId(static_cast<int64_t>(subgraphs.size()) - 1);
}

SubgraphId Plan::Add(CellTypeId type, int32_t length, std::vector<Link> links, Stop stop) {
  PlannedSubgraph& s = subgraphs.emplace_back();
  s.type = type;
  s.length = length;
  s.links = std::move(links);
  s.stop = stop;
  return SubgraphId(static_cast<int64_t>(subgraphs.size()) - 1);
}

namespace {

// An element of row number `row` of its table, such that all of them say whose it is, which, and of which column. Cells may
// compute with it.
int32_t Element(const Column& column, int64_t c, int32_t k, int32_t tag, int32_t row) {
  if (column.type == ElementType::kInt32) {
    return column.width == 1 ? row % kNumWords : k == 0 ? tag : row;
  }
  constexpr float kUnit = 1.0F / 256;
  const auto number = static_cast<float>(row * kMaxColumns + c + 1);
  return std::bit_cast<int32_t>(k % 2 == 0 ? kUnit * static_cast<float>(tag) : -kUnit * number);
}

}  // namespace

std::vector<int32_t> MakeInputs(const Plan& plan, const Model& model, int32_t tag) {
  std::vector<int32_t> inputs;
  std::vector<int32_t> rows(model.tables.size());  // so far
  for (const PlannedSubgraph& s : plan.subgraphs) {
    if (!s.is_input) continue;
    int32_t& row = rows[Index(s.table.value())];
    const std::vector<Column>& columns = model.table(s.table).columns;
    for (size_t c = 0; c < columns.size(); ++c) {
      if (!s.brought[c]) continue;
      for (int32_t i = 0; i < s.length * columns[c].width; ++i) {
        inputs.push_back(Element(columns[c], static_cast<int64_t>(c), i % columns[c].width, tag,
                                 row + i / columns[c].width));
      }
    }
    row += s.length;
  }
  return inputs;
}

Evaluation Evaluate(const Plan& plan, const Model& model, const std::vector<int32_t>& inputs,
                    WordRule word_rule) {
  return Evaluator(plan, model, inputs, word_rule).Run();
}

bool HasTwins(const Evaluation& evaluation) {
  std::vector<Fingerprint> sorted = evaluation.left;
  std::sort(sorted.begin(), sorted.end());
  return std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end();
}

namespace {

TableId TableOf(const Plan& plan, const Model& model, size_t s) {
  const PlannedSubgraph& subgraph = plan.subgraphs[s];
  return subgraph.is_input ? subgraph.table : model.type(subgraph.type).out;
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

void BuildPiece(const Plan& plan, const Model& model, const std::vector<int32_t>& inputs, int piece,
                CellGraph& graph) {
  const size_t begin = Index(plan.piece_begin(piece)), end = Index(plan.piece_end(piece));
  const int32_t* next_input = inputs.data();
  for (size_t i = 0; i < begin; ++i) {
    next_input += plan.subgraphs[i].length * WordsOf(plan.subgraphs[i], model);
  }
  for (size_t i = begin; i < end; ++i) {
    const PlannedSubgraph& s = plan.subgraphs[i];
    if (s.is_input) {
      graph.AddInput(s.table, s.length, reinterpret_cast<const std::byte*>(next_input), s.brought);
      next_input += s.length * WordsOf(s, model);
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

CellGraph Build(const Plan& plan, const Model& model, const std::vector<int32_t>& inputs) {
  CellGraph graph;
  if (!plan.cuts.empty()) graph.Grow(MostOf(plan, model));
  for (const PlannedReturn& r : plan.returns) {
    const TableId table = TableOf(plan, model, Index(r.from.value()));
    const Column& column = model.table(table).columns[Index(r.column.value())];
    const WireType wire = column.type == ElementType::kInt32 ? WireType::kInt32 : WireType::kFp32;
    graph.AddTensor(absl::StrCat("T", graph.tensors().size()), wire, {r.nodes.count, column.width});
  }
  BuildPiece(plan, model, inputs, 0, graph);
  return graph;
}

}  // namespace cellbatch::sim
