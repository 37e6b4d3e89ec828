#include "cells/deferred_model.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "cells/check.h"
#include "cells/defer.h"
#include "cells/free_name.h"
#include "cells/recurrent_columns.h"
#include "cells/unfold/unfolder.h"

namespace cellbatch {
namespace {

size_t Index(int64_t i) { return static_cast<size_t>(i); }

// Where the columns of a table that was taken apart lie now.
struct SplitTable {
  std::vector<ColumnPart> parts;
  std::vector<ColumnId> step, deferred;  // by column; invalid: not there
  std::vector<int64_t> bytes;            // by column: of one row

  bool IsDeferred(ColumnId column) const {
    return parts[Index(column.value())] == ColumnPart::kDeferred;
  }
};

// What a rewritten graph must know of the model.
struct Split {
  std::vector<std::optional<SplitTable>> tables;  // by table of the cells' model
  std::vector<CellTypeId> deferred;               // by type: its deferred part; invalid: none
  std::vector<std::vector<bool>> reads_deferred;  // by type, input
};

// Writes one sealed graph again, with deferred parts behind their steps.
class Rewriter {
 public:
  Rewriter(const Split& split, CellGraph& cells, CellGraph& graph)
      : split_(split), cells_(cells), graph_(graph), made_(cells.subgraphs().size()) {}

  void Run() {
    for (const ReturnedTensor& t : cells_.tensors()) {
      graph_.AddTensor(t.name, t.type, t.dims, t.names);
    }
    FindAsked();
    for (size_t s = 0; s < made_.size(); ++s) {
      Add(cells_.subgraphs()[s], made_[s]);
      Return(cells_.subgraphs()[s], SubgraphId(static_cast<int64_t>(s)));
    }
    for (const StopReport& r : cells_.stop_reports()) {
      graph_.ReturnStop(made_[Index(r.chain.value())].step, r.tensors);
    }
    graph_.KeepToo(std::move(cells_));
  }

 private:
  // What became of a subgraph; of its deferred part there are nodes [first, end) only.
  struct Made {
    SubgraphId step, deferred;
    int32_t first = 0, end = 0;

    void Ask(int32_t from, int32_t to) {  // nodes from .. to, in either order
      const int32_t low = std::min(from, to), high = std::max(from, to) + 1;
      first = end == 0 ? low : std::min(first, low);
      end = std::max(end, high);
    }
  };

  absl::Span<const Link> LinksOf(const Subgraph& s) const {
    return cells_.links().subspan(Index(s.first_link), Index(s.num_links));
  }
  absl::Span<const ReturnPiece> ReturnsOf(const Subgraph& s) const {
    return cells_.returns().subspan(Index(s.first_return), Index(s.num_returns));
  }
  const SplitTable* TableOf(const Subgraph& s) const {
    const std::optional<SplitTable>& table = split_.tables[Index(s.table.value())];
    return table.has_value() && s.type.valid() ? &*table : nullptr;
  }
  bool ReadsDeferred(const Subgraph& s, const Link& link) const {
    return link.from != kZeroSource &&
           split_.reads_deferred[Index(s.type.value())][Index(link.input.value())];
  }

  // Which nodes' deferred part somebody reads.
  void FindAsked() {
    for (size_t i = 0; i < made_.size(); ++i) {
      const Subgraph& s = cells_.subgraphs()[i];
      if (!s.type.valid()) continue;
      for (const Link& link : LinksOf(s)) {
        if (!ReadsDeferred(s, link)) continue;
        const int32_t last = cells_.subgraphs()[Index(link.from.value())].length - 1;
        const int32_t first = link.first == kLastNode ? last : link.first;
        made_[Index(link.from.value())].Ask(first, first + link.stride * (s.length - 1));
      }
      const SplitTable* const table = TableOf(s);
      if (table == nullptr) continue;
      for (const ReturnPiece& piece : ReturnsOf(s)) {
        if (!table->IsDeferred(piece.column)) continue;
        made_[i].Ask(piece.nodes.first, piece.nodes.first + piece.nodes.count - 1);
      }
    }
  }

  void Add(const Subgraph& s, Made& made) {
    if (!s.type.valid()) {
      made.step = AddInput(s);
      return;
    }
    graph_.SetPhase(s.phase);
    std::vector<Link> links;
    for (const Link& link : LinksOf(s)) links.push_back(Now(s, link));
    const SplitTable* const table = TableOf(s);
    Stop stop = s.stop;
    if (table != nullptr && stop.column.valid())
      stop.column = table->step[Index(stop.column.value())];
    made.step = graph_.Add(s.type, s.length, links, stop);
    if (s.place >= 0) graph_.SetPlace(made.step, s.place);
    if (made.end == 0) return;
    // Of a chain that may stop only the last node is read, wherever that is.
    const bool last_only = s.stop.column.valid();
    const int32_t length = made.end - made.first;
    Check(!last_only || length == 1, "of a chain that stops the last node is read");
    const Link row = {made.step, InputId(0), last_only ? kLastNode : made.first,
                      length > 1 ? 1 : 0};
    made.deferred = graph_.Add(split_.deferred[Index(s.type.value())], length, {&row, 1});
  }

  // Of a state to begin from the step's columns, in the order that they have now. Nobody reads the others of a row that no
  // step left.
  SubgraphId AddInput(const Subgraph& s) {
    const std::optional<SplitTable>& table = split_.tables[Index(s.table.value())];
    if (!table.has_value()) return graph_.AddInput(s.table, s.length, s.data, s.brought);
    ColumnSet brought = 0;
    std::vector<int64_t> bytes(table->step.size(), 0);  // by column as they are now
    for (size_t c = 0; c < table->step.size(); ++c) {
      if (!s.brought[c] || !table->step[c].valid()) continue;
      bytes[Index(table->step[c].value())] = table->bytes[c] * s.length;
      brought.set(Index(table->step[c].value()));
    }
    std::byte* const kept = graph_.Keep(std::accumulate(bytes.begin(), bytes.end(), int64_t{0}));
    const std::byte* from = s.data;
    for (size_t c = 0; c < table->step.size(); ++c) {
      if (!s.brought[c]) continue;
      if (table->step[c].valid()) {
        const auto to = bytes.begin() + table->step[c].value();
        std::copy_n(from, *to, kept + std::accumulate(bytes.begin(), to, int64_t{0}));
      }
      from += table->bytes[c] * s.length;
    }
    return graph_.AddInput(s.table, s.length, kept, brought);
  }

  Link Now(const Subgraph& s, Link link) const {
    if (link.from == kZeroSource) return link;
    const Made& from = made_[Index(link.from.value())];
    const bool deferred = ReadsDeferred(s, link);
    link.from = deferred ? from.deferred : from.step;
    if (!deferred) return link;
    link.first = link.first == kLastNode ? from.end - from.first - 1 : link.first - from.first;
    return link;
  }

  void Return(const Subgraph& s, SubgraphId id) {
    const Made& made = made_[Index(id.value())];
    const SplitTable* const table = TableOf(s);
    for (ReturnPiece piece : ReturnsOf(s)) {
      if (IsWords(id, piece)) continue;  // ReturnStop says it again
      SubgraphId from = made.step;
      if (table != nullptr && table->IsDeferred(piece.column)) {
        from = made.deferred;
        piece.nodes.first -= made.first;
        piece.column = table->deferred[Index(piece.column.value())];
      } else if (table != nullptr) {
        piece.column = table->step[Index(piece.column.value())];
      }
      graph_.Return(from, piece.column, piece.nodes, piece.where);
    }
  }

  bool IsWords(SubgraphId id, const ReturnPiece& piece) const {
    const absl::Span<const StopReport> reports = cells_.stop_reports();
    return std::any_of(reports.begin(), reports.end(), [&](const StopReport& r) {
      return r.chain == id && r.tensors.words == piece.where.tensor;
    });
  }

  const Split& split_;
  CellGraph& cells_;
  CellGraph& graph_;
  std::vector<Made> made_;  // by subgraph
};

class DeferringUnfolder : public Unfolder {
 public:
  DeferringUnfolder(std::shared_ptr<const Model> cells, Split split)
      : cells_(std::move(cells)), split_(std::move(split)) {}

  absl::Status Unfold(const RequestInput& input, CellGraph& graph) const override {
    CellGraph cells;
    if (absl::Status s = cells_->unfolder->Unfold(input, cells); !s.ok()) return s;
    if (cells.grows()) return absl::UnimplementedError("a graph that grows has nothing deferred");
    if (absl::Status s = cells.Seal(*cells_, 1); !s.ok()) return s;
    Rewriter(split_, cells, graph).Run();
    return absl::OkStatus();
  }
  int32_t phases() const override { return cells_->unfolder->phases(); }
  RequestDescription Describe() const override { return cells_->unfolder->Describe(); }

 private:
  std::shared_ptr<const Model> cells_;
  Split split_;
};

// Takes a model apart, table by table.
class ModelSplitter {
 public:
  ModelSplitter(const Model& cells, const DeferRule& rule)
      : cells_(cells), rule_(rule), recurrent_(RecurrentColumns(cells, rule.stops)), made_(cells) {
    split_.tables.resize(cells.tables.size());
    split_.deferred.resize(cells.types.size());
    for (const CellType& type : cells.types) {
      split_.reads_deferred.emplace_back(type.in.size(), false);
    }
  }

  // Null: nothing was.
  std::shared_ptr<Model> Run() {
    bool any = false;
    for (size_t t = 0; t < cells_.tables.size(); ++t) {
      any = SplitOne(TableId(static_cast<int64_t>(t))) || any;
    }
    return any ? std::make_shared<Model>(std::move(made_)) : nullptr;
  }
  Split&& split() { return std::move(split_); }

 private:
  bool SplitOne(TableId table) {
    const std::vector<ColumnPart> parts = PartsOf(table);
    if (std::count(parts.begin(), parts.end(), ColumnPart::kDeferred) == 0 ||
        std::all_of(parts.begin(), parts.end(),
                    [](ColumnPart part) { return part == ColumnPart::kDeferred; })) {
      return false;
    }
    std::vector<const CellType*> writers;
    for (const CellType& type : cells_.types) {
      if (type.out == table) writers.push_back(&type);
    }
    std::vector<DeferredCell> cells;
    int64_t operations = 0;
    for (const CellType* type : writers) {
      std::optional<DeferredCell> cell =
          Defer(*type->definition, InOrderOf(*type, parts), rule_.limits);
      if (!cell.has_value()) return false;
      operations = std::max(operations, cell->deferred->flops());
      cells.push_back(*std::move(cell));
    }
    if (writers.empty() || operations < rule_.least_operations) return false;
    // Types that share a table leave the same columns: none has more for its deferred part.
    for (const DeferredCell& cell : cells) {
      if (!SameColumns(cell.step->columns(), cells[0].step->columns())) return false;
    }
    Take(table, parts, writers, cells);
    return true;
  }

  static bool SameColumns(absl::Span<const Column> a, absl::Span<const Column> b) {
    return std::is_permutation(a.begin(), a.end(), b.begin(), b.end());
  }

  // By column of the table.
  std::vector<ColumnPart> PartsOf(TableId table) const {
    std::vector<ColumnPart> parts;
    for (const bool recurrent : recurrent_[Index(table.value())]) {
      parts.push_back(recurrent ? ColumnPart::kStep : ColumnPart::kDeferred);
    }
    for (const CellType& type : cells_.types) {
      for (size_t i = 0; i < type.in.size(); ++i) {
        if (type.in[i] != table || !ReadsDeferred(type, i, parts)) continue;
        for (const Column& column : type.definition->inputs()[i].reads) {
          ColumnPart& part = parts[Index(cells_.table(table).Find(column.name).value())];
          if (part == ColumnPart::kStep) part = ColumnPart::kBoth;
        }
      }
    }
    return parts;
  }

  bool ReadsDeferred(const CellType& type, size_t input,
                     const std::vector<ColumnPart>& parts) const {
    const std::vector<Column>& reads = type.definition->inputs()[input].reads;
    return std::any_of(reads.begin(), reads.end(), [&](const Column& column) {
      const ColumnId at = cells_.table(type.in[input]).Find(column.name);
      return parts[Index(at.value())] == ColumnPart::kDeferred;
    });
  }

  // As the type leaves them.
  std::vector<ColumnPart> InOrderOf(const CellType& type,
                                    const std::vector<ColumnPart>& parts) const {
    std::vector<ColumnPart> ordered;
    for (const Column& column : type.definition->columns()) {
      ordered.push_back(parts[Index(cells_.table(type.out).Find(column.name).value())]);
    }
    return ordered;
  }

  void Take(TableId table, const std::vector<ColumnPart>& parts,
            absl::Span<const CellType* const> writers, absl::Span<const DeferredCell> cells) {
    const TableId later(static_cast<int64_t>(made_.tables.size()));
    const auto spec = [](std::string name, absl::Span<const Column> columns) {
      return TableSpec{.name = std::move(name), .columns = {columns.begin(), columns.end()}};
    };
    const TableSpec whole = cells_.table(table);
    made_.tables[Index(table.value())] = spec(whole.name, cells[0].step->columns());
    made_.tables.push_back(
        spec(FreeNameAmong(made_.tables, whole.name + " deferred"), cells[0].deferred->columns()));
    SplitTable& split = split_.tables[Index(table.value())].emplace();
    split.parts = parts;
    for (const Column& column : whole.columns) {
      split.step.push_back(made_.table(table).Find(column.name));
      split.deferred.push_back(made_.table(later).Find(column.name));
      split.bytes.push_back(column.bytes());
    }
    for (const CellType& type : cells_.types) {
      for (size_t i = 0; i < type.in.size(); ++i) {
        if (type.in[i] != table || !ReadsDeferred(type, i, parts)) continue;
        made_.types[Index(type.id.value())].in[i] = later;
        split_.reads_deferred[Index(type.id.value())][i] = true;
      }
    }
    for (size_t w = 0; w < writers.size(); ++w) AddDeferred(writers[w]->id, cells[w], table, later);
  }

  void AddDeferred(CellTypeId id, const DeferredCell& cell, TableId row, TableId out) {
    CellType& step = made_.types[Index(id.value())];
    step.definition = cell.step;
    CellType deferred;
    deferred.id = CellTypeId(static_cast<int64_t>(made_.types.size()));
    deferred.name = FreeNameAmong(made_.types, step.name + " deferred");
    deferred.definition = cell.deferred;
    deferred.weights = step.weights;
    deferred.in = {row};
    deferred.out = out;
    deferred.priority = step.priority;
    // As an eager part's: in smaller tasks every one of them reads its weights from afar again, for the steps between have
    // sent them out of the caches.
    deferred.least_max_batch = kDeferredNodes;
    deferred.precision = step.precision;
    split_.deferred[Index(id.value())] = deferred.id;
    made_.types.push_back(std::move(deferred));
  }

  const Model& cells_;
  const DeferRule& rule_;
  const std::vector<std::vector<bool>> recurrent_;
  Model made_;
  Split split_;
};

}  // namespace

std::shared_ptr<Model> DeferModel(std::shared_ptr<const Model> cells, const DeferRule& rule) {
  Check(cells->unfolder != nullptr, "a model that is deferred has an unfolder");
  ModelSplitter splitter(*cells, rule);
  std::shared_ptr<Model> model = splitter.Run();
  if (model == nullptr) return nullptr;
  model->unfolder = std::make_shared<DeferringUnfolder>(std::move(cells), splitter.split());
  return model;
}

}  // namespace cellbatch
