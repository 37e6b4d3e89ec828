// CellGraph::Seal: a few passes over flat arrays, O(links), no recursion. Everything that a request
// (through an unfolder) could get wrong is refused here, so that manager and devices check nothing.
//
// A later piece of a graph that grows goes through the same passes, over what it added.
//
//   AllocateAnswer   sizes of tensors, in piece 0     (cell_graph_answer.cc: what is returned, and where)
//   CheckSubgraph,   per subgraph, in order: types, ranges, tables; notes who reads a middle node
//   CheckLinks         (Subgraph::ring == length) and the depth
//   CheckReturn      per piece; SortReturns groups them by subgraph    (cell_graph_answer.cc)
//   LayRows          rings and relative rows, per table
//   FindConsumers    the links turned round, each reader once

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cells/cell_graph.h"
#include "cells/check.h"

namespace cellbatch {
namespace {

constexpr int64_t kMaxInt32 = std::numeric_limits<int32_t>::max();

size_t Index(int64_t i) { return static_cast<size_t>(i); }

bool IsChain(const Model& model, CellTypeId type) {
  return model.type(type).definition->carry().has_value();
}

std::string Named(const Model& model, const Subgraph& s, int32_t index) {
  if (!s.type.valid()) return absl::StrCat("subgraph ", index, " (request input)");
  return absl::StrCat("subgraph ", index, " (type \"", model.type(s.type).name, "\")");
}

// Whether nodes lo and hi (the ends of what is read, in any order) lie in [0, length).
bool InRange(int64_t a, int64_t b, int64_t length) {
  return std::min(a, b) >= 0 && std::max(a, b) < length;
}

}  // namespace

absl::Status CellGraph::Seal(const Model& model, int max_tasks_to_submit) {
  Check(!sealed_, "a graph is sealed once a piece");
  if (absl::Status s = pieces_ == 0 ? AllocateAnswer() : absl::OkStatus(); !s.ok()) return s;
  std::vector<Link> scratch;
  for (int32_t i = first_subgraph_; i < static_cast<int32_t>(subgraphs_.size()); ++i) {
    if (absl::Status s = CheckSubgraph(model, i); !s.ok()) return s;
    if (absl::Status s = CheckLinks(model, i); !s.ok()) return s;
    OrderLinks(i, scratch);
  }
  if (piece_nodes() == 0) return absl::InvalidArgumentError("the graph has no cells");
  if (absl::Status s = CheckGrowth(model); !s.ok()) return s;
  for (size_t i = Index(first_return_); i < returns_.size(); ++i) {
    if (absl::Status s = CheckReturn(model, returns_[i], return_owner_[i]); !s.ok()) return s;
  }
  for (const StopReport& report : stop_reports_) {
    if (absl::Status s = CheckStopReport(report); !s.ok()) return s;
  }
  SortReturns();
  if (absl::Status s = LayRows(model, max_tasks_to_submit); !s.ok()) return s;
  FindConsumers();
  sealed_ = true;
  if (++pieces_ == 1) first_nodes_ = num_nodes_;
  return absl::OkStatus();
}

// What Grow promises (piece 0), or whether it is kept.
absl::Status CellGraph::CheckGrowth(const Model& model) const {
  if (pieces_ > 0) {
    const int64_t nodes = num_nodes_ - first_nodes_;
    if (pieces_ <= growth_.pieces && nodes <= growth_.nodes) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("the graph grew by ", pieces_, " pieces of ",
                                                   nodes, " nodes; it said ", growth_.pieces,
                                                   " of ", growth_.nodes));
  }
  if (!grows_) return absl::OkStatus();
  if (growth_.pieces < 1 || growth_.pieces > kMaxPieces || growth_.nodes < 1 ||
      growth_.nodes > kMaxInt32 - num_nodes_) {
    return absl::InvalidArgumentError(
        absl::StrCat("the graph may grow by ", growth_.pieces, " pieces (1 to ", kMaxPieces,
                     ") of ", growth_.nodes, " nodes (1 to ", kMaxInt32 - num_nodes_, ")"));
  }
  if (growth_.rows.size() > model.tables.size()) {
    return absl::InvalidArgumentError(absl::StrCat("the graph may grow in ", growth_.rows.size(),
                                                   " tables; the model has ", model.tables.size()));
  }
  for (const int32_t rows : growth_.rows) {
    if (rows < 0) {
      return absl::InvalidArgumentError(absl::StrCat("the graph may grow by ", rows, " rows"));
    }
  }
  return absl::OkStatus();
}

absl::Status CellGraph::CheckSubgraph(const Model& model, int32_t index) {
  Subgraph& s = subgraphs_[Index(index)];
  const auto fail = [&](auto... what) {
    return absl::InvalidArgumentError(absl::StrCat("subgraph ", index, " ", what...));
  };
  if (s.length < 1) return fail("has ", s.length, " nodes; at least 1 is needed");
  if (!s.type.valid()) {
    if (!s.table.valid() || Index(s.table.value()) >= model.tables.size()) {
      return fail("(request input) is of table ", s.table.value(), "; the model has ",
                  model.tables.size());
    }
    if (s.data == nullptr) return fail("(request input) has no data");
    return absl::OkStatus();
  }
  if (Index(s.type.value()) >= model.types.size()) {
    return fail("is of type ", s.type.value(), "; the model has ", model.types.size());
  }
  const CellType& type = model.type(s.type);
  const CellDefinition& cell = *type.definition;
  s.table = type.out;
  num_nodes_ += s.length;
  if (num_nodes_ > kMaxInt32)
    return fail("brings the graph to ", num_nodes_, " nodes; 2^31 - 1 fit");
  if (s.length > 1) {
    for (const Input& input : cell.inputs()) {
      if (input.arity == Arity::kSum) {
        return fail("(type \"", type.name, "\") has ", s.length,
                    " nodes; a type that sums (input \"", input.name, "\") makes subgraphs of 1");
      }
    }
  }
  if (!s.stop.column.valid()) return absl::OkStatus();
  if (!cell.carry()) return fail("(type \"", type.name, "\") has a stop and is no chain");
  const absl::Span<const Column> columns = cell.columns();
  if (Index(s.stop.column.value()) >= columns.size()) {
    return fail("(type \"", type.name, "\") stops by column ", s.stop.column.value(), " of ",
                columns.size());
  }
  const Column& column = columns[Index(s.stop.column.value())];
  if (column.type != ElementType::kInt32 || column.width != 1) {
    return fail("(type \"", type.name, "\") stops by column \"", column.name, "\", ",
                Name(column.type), " of ", column.width, "; it must be INT32 of 1");
  }
  return absl::OkStatus();
}

absl::Status CellGraph::CheckLinks(const Model& model, int32_t index) {
  Subgraph& s = subgraphs_[Index(index)];
  if (!s.type.valid()) return absl::OkStatus();
  const CellType& type = model.type(s.type);
  const absl::Span<const Input> inputs = type.definition->inputs();
  std::array<int32_t, kMaxInputs> seen = {};
  for (int32_t l = 0; l < s.num_links; ++l) {
    Link& link = links_[Index(s.first_link + l)];
    const auto fail = [&](auto... what) {
      return absl::InvalidArgumentError(
          absl::StrCat(Named(model, s, index), ": link ", l, ": ", what...));
    };
    if (!link.input.valid() || Index(link.input.value()) >= inputs.size()) {
      return fail("input ", link.input.value(), "; the cell has ", inputs.size());
    }
    const Input& input = inputs[Index(link.input.value())];
    const int32_t times = ++seen[Index(link.input.value())];
    const int32_t most = input.arity == Arity::kSum ? kMaxSumLinks : 1;
    if (times > most)
      return fail("input \"", input.name, "\" has ", times, " links; ", most, " fit");
    if (link.from == kZeroSource) {
      link.first = link.stride = 0;
      continue;
    }
    if (link.from.value() < 0 || link.from.value() >= index) {
      return fail("input \"", input.name, "\" reads subgraph ", link.from.value(),
                  "; only earlier ones can be read");
    }
    Subgraph& from = subgraphs_[Index(link.from.value())];
    const TableId table = type.in[Index(link.input.value())];
    if (from.table != table) {
      return fail("input \"", input.name, "\" reads subgraph ", link.from.value(), " in table \"",
                  model.table(from.table).name, "\"; it reads table \"", model.table(table).name,
                  "\"");
    }
    const bool once = type.definition->carry() == link.input || s.length == 1;
    if (link.stride < -1 || link.stride > 1) return fail("stride ", link.stride, "; -1, 0 or 1");
    if (once) link.stride = 0;
    const bool stops = from.stop.column.valid();
    if ((stops || link.first == kLastNode) && (link.first != kLastNode || link.stride != 0)) {
      return fail("input \"", input.name, "\" reads node ", link.first, " with stride ",
                  link.stride, " of subgraph ", link.from.value(),
                  "; of a stopping chain, or its last node, exactly that is read");
    }
    if (!stops && link.first == kLastNode) link.first = from.length - 1;
    const int64_t last = int64_t{link.first} + int64_t{link.stride} * (s.length - 1);
    if (!stops && !InRange(link.first, last, from.length)) {
      return fail("input \"", input.name, "\" reads nodes ", link.first, " to ", last,
                  " of subgraph ", link.from.value(), ", which has ", from.length);
    }
    if (!stops && (link.first != from.length - 1 || last != link.first)) {
      if (link.from.value() < first_subgraph_ && from.ring < from.length) {
        return fail("input \"", input.name, "\" reads nodes ", link.first, " to ", last,
                    " of subgraph ", link.from.value(), ", an earlier piece's, which kept ",
                    "its last one (KeepRows)");
      }
      from.ring = from.length;
    }
    if (from.type.valid()) {
      const int32_t path = IsChain(model, from.type) ? from.length : 1;
      s.depth = std::max(s.depth, from.depth + path);
      s.phase = std::max(s.phase, from.phase);
    }
  }
  return absl::OkStatus();
}

// Groups a subgraph's links by input (what the batch former walks), keeping the order given within
// one input (the order of sums). Most unfolders write them so; then nothing moves.
void CellGraph::OrderLinks(int32_t index, std::vector<Link>& scratch) {
  const Subgraph& s = subgraphs_[Index(index)];
  const absl::Span<Link> links =
      absl::MakeSpan(links_).subspan(Index(s.first_link), Index(s.num_links));
  const auto before = [](const Link& a, const Link& b) { return a.input < b.input; };
  if (std::is_sorted(links.begin(), links.end(), before)) return;
  std::array<int32_t, kMaxInputs + 1> start = {};
  for (const Link& link : links) ++start[Index(link.input.value() + 1)];
  for (size_t i = 1; i < start.size(); ++i) start[i] += start[i - 1];
  scratch.assign(links.begin(), links.end());
  for (const Link& link : scratch) links[Index(start[Index(link.input.value())]++)] = link;
}

// Rows of a table are given out as subgraphs are numbered; by level (Model::unfold), the deepest first, so that the
// nodes of one level and type have neighbouring rows, and the leaves the last ones.
absl::Status CellGraph::LayRows(const Model& model, int max_tasks_to_submit) {
  next_row_.resize(model.tables.size(), 0);
  const absl::Span<Subgraph> added = absl::MakeSpan(subgraphs_).subspan(Index(first_subgraph_));
  if (!model.unfold.level_rows) {
    for (Subgraph& s : added) {
      if (absl::Status laid = LayRowsOf(model, max_tasks_to_submit, s); !laid.ok()) return laid;
    }
  } else {
    std::vector<Subgraph*> order;
    order.reserve(added.size());
    for (Subgraph& s : added) order.push_back(&s);
    std::stable_sort(order.begin(), order.end(), [](const Subgraph* a, const Subgraph* b) {
      return a->depth != b->depth ? a->depth > b->depth : a->type < b->type;
    });
    for (Subgraph* s : order) {
      if (absl::Status laid = LayRowsOf(model, max_tasks_to_submit, *s); !laid.ok()) return laid;
    }
  }
  return pieces_ == 0 ? CountRows(model) : absl::OkStatus();
}

absl::Status CellGraph::LayRowsOf(const Model& model, int max_tasks_to_submit, Subgraph& s) {
  const bool chain = s.type.valid() && IsChain(model, s.type);
  if (s.ring == 0) {
    const int32_t ring = s.stop.column.valid() ? std::max(2, max_tasks_to_submit) : 2;
    s.ring = chain ? std::min(s.length, ring) : s.length;
  }
  int32_t& count = next_row_[Index(s.table.value())];
  const int64_t most = pieces_ == 0 ? kMaxInt32 : row_counts_[Index(s.table.value())];
  if (int64_t{count} + s.ring > most) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the graph needs ", int64_t{count} + s.ring, " rows of table \"", model.table(s.table).name,
        "\"; ", pieces_ == 0 ? std::string("2^31 - 1 fit") : absl::StrCat("it grows to ", most)));
  }
  s.first_row = count;
  count += s.ring;
  return absl::OkStatus();
}

// What is to come counts, too.
absl::Status CellGraph::CountRows(const Model& model) {
  row_counts_ = next_row_;
  for (size_t t = 0; grows_ && t < growth_.rows.size(); ++t) {
    const int64_t rows = int64_t{row_counts_[t]} + growth_.rows[t];
    if (rows > kMaxInt32) {
      return absl::InvalidArgumentError(absl::StrCat("the graph may grow to ", rows,
                                                     " rows of table \"", model.tables[t].name,
                                                     "\"; 2^31 - 1 fit"));
    }
    row_counts_[t] = static_cast<int32_t>(rows);
  }
  for (size_t t = 0; t < row_counts_.size(); ++t) {
    device_bytes_ += model.tables[t].row_bytes() * row_counts_[t];
  }
  return absl::OkStatus();
}

// Readers are visited in order, so "the last reader I noted" is enough to list each once.
void CellGraph::FindConsumers() {
  const int32_t n = static_cast<int32_t>(subgraphs_.size());
  absl::InlinedVector<int32_t, 16> last_reader(piece().size(), -1);  // by place in the piece
  const auto for_each_edge = [&](auto visit) {
    std::fill(last_reader.begin(), last_reader.end(), -1);
    for (int32_t i = first_subgraph_; i < n; ++i) {
      const Subgraph& s = subgraphs_[Index(i)];
      for (int32_t l = s.first_link; l < s.first_link + s.num_links; ++l) {
        const SubgraphId from = links_[Index(l)].from;
        if (from.value() < first_subgraph_) continue;  // zeros, or done
        int32_t& last = last_reader[Index(from.value() - first_subgraph_)];
        if (std::exchange(last, i) == i) continue;
        visit(subgraphs_[Index(from.value())], i);
      }
    }
  };
  for_each_edge([&](Subgraph& from, int32_t reader) {
    ++from.num_consumers;
    if (from.type.valid()) ++subgraphs_[Index(reader)].num_predecessors;
  });
  int32_t next = static_cast<int32_t>(consumers_.size());
  for (Subgraph& s : absl::MakeSpan(subgraphs_).subspan(Index(first_subgraph_))) {
    s.first_consumer = next;
    next += s.num_consumers;
    s.num_consumers = 0;
  }
  consumers_.resize(Index(next));
  for_each_edge([&](Subgraph& from, int32_t reader) {
    consumers_[Index(from.first_consumer + from.num_consumers++)] = SubgraphId(reader);
  });
}

}  // namespace cellbatch
