#include "scheduler/record/graph_shape.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace cellbatch {
namespace {

constexpr std::array<std::byte, 64> kNothing =
    {};  // what every request brings: devices never see it

size_t Index(int64_t i) { return static_cast<size_t>(i); }

// Where all that is returned goes, one node on top of the other: a tensor of each kind, as wide as its widest column.
constexpr int32_t kFp32Answer = 0, kInt32Answer = 1;

void AddAnswer(const Model& model, CellGraph& graph) {
  int64_t fp32 = 1, int32 = 1;
  for (const TableSpec& table : model.tables) {
    for (const Column& column : table.columns) {
      int64_t& most = column.type == ElementType::kInt32 ? int32 : fp32;
      most = std::max<int64_t>(most, column.width);
    }
  }
  graph.AddTensor("", WireType::kFp32, {fp32});
  graph.AddTensor("", WireType::kInt32, {int32});
}

absl::Status Wrong(const PieceShape& piece, const char* what, int64_t has) {
  return absl::InvalidArgumentError(absl::StrCat("a recorded piece of ", piece.subgraphs.size(),
                                                 " subgraphs names ", what, ", and has ", has));
}

void AddSubgraph(const SubgraphShape& s, absl::Span<const LinkShape> links, CellGraph& graph,
                 SubgraphId& id) {
  if (s.type < 0) {
    id = graph.AddInput(TableId(s.table), s.length, kNothing.data());
    return;
  }
  std::vector<Link> made;
  made.reserve(links.size());
  for (const LinkShape& link : links) {
    made.push_back({.from = link.from < 0 ? kZeroSource : SubgraphId(link.from),
                    .input = InputId(link.input),
                    .first = link.first,
                    .stride = link.stride});
  }
  Stop stop;
  if (s.stop_column >= 0) stop = {ColumnId(s.stop_column), s.stop_value};
  graph.SetPhase(std::clamp(s.phase, 0, kMostPhases - 1));
  id = graph.Add(CellTypeId(s.type), s.length, made, stop);
  graph.SetPlace(id, s.place);
  if (s.keeps_rows) graph.KeepRows(id);
}

absl::Status AddReturn(const SubgraphShape& s, const ReturnShape& r, SubgraphId id,
                       const Model& model, CellGraph& graph) {
  const bool known = s.type >= 0 && Index(s.type) < model.types.size();
  const auto columns =
      known ? model.types[Index(s.type)].definition->columns() : absl::Span<const Column>();
  if (r.column < 0 || Index(r.column) >= columns.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a recorded subgraph of type ", s.type, " returns column ", r.column));
  }
  const bool words = columns[Index(r.column)].type == ElementType::kInt32;
  graph.Return(id, ColumnId(r.column), {r.first, r.count},
               {.tensor = words ? kInt32Answer : kFp32Answer});
  return absl::OkStatus();
}

absl::Status Add(const PieceShape& piece, const Model& model, CellGraph& graph) {
  size_t link = 0, returned = 0;
  for (const SubgraphShape& s : piece.subgraphs) {
    if (s.num_links < 0 || Index(s.num_links) > piece.links.size() - link) {
      return Wrong(piece, "more links than there are", static_cast<int64_t>(piece.links.size()));
    }
    if (s.num_returns < 0 || Index(s.num_returns) > piece.returns.size() - returned) {
      return Wrong(piece, "more returns than there are",
                   static_cast<int64_t>(piece.returns.size()));
    }
    SubgraphId id;
    AddSubgraph(s, absl::MakeConstSpan(piece.links).subspan(link, Index(s.num_links)), graph, id);
    link += Index(s.num_links);
    for (int32_t i = 0; i < s.num_returns; ++i) {
      absl::Status status = AddReturn(s, piece.returns[returned++], id, model, graph);
      if (!status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

}  // namespace

PieceShape ShapeOfPiece(const CellGraph& graph) {
  PieceShape shape;
  shape.grows = graph.grows();
  shape.subgraphs.reserve(graph.piece().size());
  for (const Subgraph& s : graph.piece()) {
    SubgraphShape& to = shape.subgraphs.emplace_back();
    to.length = s.length;
    if (!s.type.valid()) {
      to.table = s.table.value();
      continue;
    }
    to.type = s.type.value();
    to.num_links = s.num_links;
    to.num_returns = s.num_returns;
    to.keeps_rows = s.ring == s.length;
    to.phase = s.phase;
    to.place = s.place;
    if (s.stop.column.valid()) {
      to.stop_column = s.stop.column.value();
      to.stop_value = s.stop.value;
    }
    for (const Link& l : graph.links().subspan(Index(s.first_link), Index(s.num_links))) {
      const bool zero = l.from == kZeroSource;
      shape.links.push_back({zero ? -1 : l.from.value(), l.input.value(), l.first, l.stride});
    }
    for (const ReturnPiece& r :
         graph.returns().subspan(Index(s.first_return), Index(s.num_returns))) {
      shape.returns.push_back({r.column.value(), r.nodes.first, r.nodes.count});
    }
  }
  return shape;
}

GraphShape ShapeOf(const CellGraph& graph) {
  GraphShape shape;
  shape.pieces.push_back(ShapeOfPiece(graph));
  if (graph.grows()) {
    shape.most_pieces = graph.growth().pieces;
    shape.most_nodes = graph.growth().nodes;
    shape.most_rows = graph.growth().rows;
  }
  return shape;
}

absl::Status AddPiece(const GraphShape& shape, const Model& model, int max_tasks_in_flight,
                      CellGraph& graph) {
  const auto number = Index(graph.pieces());
  if (number >= shape.pieces.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a recorded graph has ", shape.pieces.size(), " pieces, not ", number + 1));
  }
  const PieceShape& piece = shape.pieces[number];
  if (number == 0) {
    AddAnswer(model, graph);
    if (piece.grows) graph.Grow({shape.most_pieces, shape.most_nodes, shape.most_rows, nullptr});
  } else if (!graph.grows()) {
    return absl::InvalidArgumentError("a recorded graph goes on that does not grow");
  }
  if (absl::Status s = Add(piece, model, graph); !s.ok()) return s;
  if (number > 0 && !piece.grows) graph.CloseGrowth();
  return graph.Seal(model, max_tasks_in_flight);
}

absl::StatusOr<CellGraph> BuildGraph(const GraphShape& shape, const Model& model,
                                     int max_tasks_in_flight) {
  CellGraph graph;
  do {
    absl::Status added = AddPiece(shape, model, max_tasks_in_flight, graph);
    if (!added.ok()) return added;
  } while (Index(graph.pieces()) < shape.pieces.size());
  return graph;
}

}  // namespace cellbatch
