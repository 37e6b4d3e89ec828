#include "cells/hoisted_model.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cells/check.h"
#include "cells/free_name.h"
#include "cells/hoist.h"
#include "cells/unfold/unfolder.h"

namespace cellbatch {
namespace {

size_t Index(int64_t i) { return static_cast<size_t>(i); }

// The eager part of one cell type.
struct EagerPart {
  CellTypeId type;
  std::vector<InputId> reads;  // by its input: the cell's
  InputId after_input;         // its last
  InputId sums_input;          // of the step
};

using EagerParts = std::vector<std::optional<EagerPart>>;  // by cell type

// Writes one sealed graph again: hoisted chains with their eager parts, cut after their first steps.
class Rewriter {
 public:
  Rewriter(const Model& model, const EagerParts& parts, CellGraph& cells, CellGraph& graph)
      : model_(model), parts_(parts), cells_(cells), graph_(graph) {}

  void Run() {
    for (const ReturnedTensor& t : cells_.tensors()) {
      graph_.AddTensor(t.name, t.type, t.dims, t.names);
    }
    const bool cut = MayCut();
    for (const Subgraph& s : cells_.subgraphs()) {
      pieces_.emplace_back();
      FindPieces(s, cut);
      for (size_t p = 0; p < pieces_.back().size(); ++p) AddPiece(s, p);
      Return(s);
    }
    for (const StopReport& r : cells_.stop_reports()) {
      graph_.ReturnStop(Pieces(r.chain).front().made, r.tensors);
    }
    graph_.KeepToo(std::move(cells_));
  }

 private:
  // Nodes [first, end) of a subgraph, which are one of the new graph. They follow each other.
  struct Piece {
    int32_t first = 0, end = 0;
    SubgraphId made = {};
  };

  const std::vector<Piece>& Pieces(SubgraphId s) const { return pieces_[Index(s.value())]; }
  absl::Span<const Link> LinksOf(const Subgraph& s) const {
    return cells_.links().subspan(Index(s.first_link), Index(s.num_links));
  }
  bool IsCarry(const Subgraph& s, const Link& link) const {
    return model_.type(s.type).definition->carry() == link.input;
  }
  static bool IsWalked(const Link& link) { return link.from != kZeroSource && link.stride != 0; }

  // A chain with a stop stays whole, and with it what it reads step by step.
  bool MayCut() const {
    return std::none_of(cells_.subgraphs().begin(), cells_.subgraphs().end(),
                        [this](const Subgraph& s) {
                          if (!s.type.valid() || !s.stop.column.valid()) return false;
                          const absl::Span<const Link> links = LinksOf(s);
                          return std::any_of(links.begin(), links.end(), IsWalked);
                        });
  }

  // Where a hoisted chain's first steps end, and wherever what is read step by step is cut.
  void FindPieces(const Subgraph& s, bool may_cut) {
    std::vector<int32_t> starts = {0};
    if (s.type.valid() && may_cut && !s.stop.column.valid()) {
      if (parts_[Index(s.type.value())].has_value()) {
        for (int32_t at = kFirstHoistedSteps; at < s.length; at += kHoistedSteps) {
          starts.push_back(at);
        }
      }
      for (const Link& link : LinksOf(s)) {
        if (!IsWalked(link) || IsCarry(s, link)) continue;
        for (const Piece& p : Pieces(link.from)) {
          // Forwards the piece's first node is met first, backwards the node before it ends what it is met in.
          starts.push_back(link.stride > 0 ? p.first - link.first : link.first - p.first + 1);
        }
      }
    }
    std::erase_if(starts, [&](int32_t at) { return at < 0 || at >= s.length; });
    std::sort(starts.begin(), starts.end());
    starts.erase(std::unique(starts.begin(), starts.end()), starts.end());
    for (size_t i = 0; i < starts.size(); ++i) {
      pieces_.back().push_back({starts[i], i + 1 < starts.size() ? starts[i + 1] : s.length});
    }
  }

  // The link of nodes from `node` on of whoever had `link`.
  Link From(const Link& link, int32_t node) const {
    if (link.from == kZeroSource) return link;
    const std::vector<Piece>& pieces = Pieces(link.from);
    Link made = link;
    if (link.first == kLastNode) {
      made.from = pieces.back().made;
      return made;
    }
    const int32_t at = link.first + node * link.stride;
    const auto behind =
        std::upper_bound(pieces.begin(), pieces.end(), at,
                         [](int32_t node, const Piece& p) { return node < p.first; });
    Check(behind != pieces.begin() && at < pieces.back().end, "a sealed graph's links name nodes");
    const auto piece = std::prev(behind);
    made.from = piece->made;
    made.first = at - piece->first;
    return made;
  }

  // `before`: the piece that goes first; null: none.
  SubgraphId AddEager(const Subgraph& s, const EagerPart& part, const Piece& piece,
                      const Piece* before) {
    std::vector<Link> links;
    if (before != nullptr) {
      links.push_back({before->made, part.after_input, before->end - before->first - 1, 0});
    }
    for (const Link& link : LinksOf(s)) {
      const auto read = std::find(part.reads.begin(), part.reads.end(), link.input);
      if (read == part.reads.end()) continue;
      links.push_back(From(link, piece.first));
      links.back().input = InputId(read - part.reads.begin());
    }
    return graph_.Add(part.type, piece.end - piece.first, links);
  }

  void AddPiece(const Subgraph& s, size_t number) {
    std::vector<Piece>& pieces = pieces_.back();
    Piece& piece = pieces[number];
    if (!s.type.valid()) {
      piece.made = graph_.AddInput(s.table, s.length, s.data, s.brought);
      return;
    }
    graph_.SetPhase(s.phase);
    std::vector<Link> links;
    const std::optional<EagerPart>& part = parts_[Index(s.type.value())];
    if (part.has_value()) {
      const Piece* const before = number == 0 ? nullptr : &pieces[number - 1];
      links.push_back({AddEager(s, *part, piece, before), part->sums_input, 0, 1});
    }
    for (const Link& link : LinksOf(s)) {
      if (number == 0 || !IsCarry(s, link)) links.push_back(From(link, piece.first));
    }
    const std::optional<InputId> carry = model_.type(s.type).definition->carry();
    if (number > 0 && carry.has_value()) {
      const Piece& before = pieces[number - 1];
      links.push_back({before.made, *carry, before.end - before.first - 1, 0});
    }
    piece.made = graph_.Add(s.type, piece.end - piece.first, links, s.stop);
    if (s.place >= 0) graph_.SetPlace(piece.made, s.place + piece.first);
  }

  void Return(const Subgraph& s) {
    const absl::Span<const StopReport> reports = cells_.stop_reports();
    const SubgraphId owner(static_cast<int64_t>(pieces_.size()) - 1);
    for (const ReturnPiece& returned :
         cells_.returns().subspan(Index(s.first_return), Index(s.num_returns))) {
      // What a stop returns, ReturnStop says again.
      const bool words = std::any_of(reports.begin(), reports.end(), [&](const StopReport& r) {
        return r.chain == owner && r.tensors.words == returned.where.tensor;
      });
      for (const Piece& piece : pieces_.back()) {
        const int32_t first = std::max(returned.nodes.first, piece.first);
        const int32_t end = std::min(returned.nodes.first + returned.nodes.count, piece.end);
        if (words || first >= end) continue;
        Placement where = returned.where;
        where.offset_bytes += (first - returned.nodes.first) * where.stride_bytes;
        graph_.Return(piece.made, returned.column, {first - piece.first, end - first}, where);
      }
    }
  }

  const Model& model_;  // as the cells' graph has it
  const EagerParts& parts_;
  CellGraph& cells_;
  CellGraph& graph_;
  std::vector<std::vector<Piece>> pieces_;  // by subgraph, so far
};

class HoistingUnfolder : public Unfolder {
 public:
  HoistingUnfolder(std::shared_ptr<const Model> cells, EagerParts parts)
      : cells_(std::move(cells)), parts_(std::move(parts)) {}

  absl::Status Unfold(const RequestInput& input, CellGraph& graph) const override {
    CellGraph cells;
    if (absl::Status s = cells_->unfolder->Unfold(input, cells); !s.ok()) return s;
    if (cells.grows()) return absl::UnimplementedError("a graph that grows has nothing hoisted");
    if (absl::Status s = cells.Seal(*cells_, 1); !s.ok()) return s;
    Rewriter(*cells_, parts_, cells, graph).Run();
    return absl::OkStatus();
  }
  int32_t phases() const override { return cells_->unfolder->phases(); }
  RequestDescription Describe() const override { return cells_->unfolder->Describe(); }

 private:
  std::shared_ptr<const Model> cells_;
  EagerParts parts_;
};

// By input of a type: rows of tables that no cell type writes.
std::vector<bool> BroughtInputs(const Model& model, const CellType& type) {
  std::vector<bool> brought;
  for (const TableId table : type.in) {
    brought.push_back(std::none_of(model.types.begin(), model.types.end(),
                                   [table](const CellType& t) { return t.out == table; }));
  }
  return brought;
}

// Adds the eager part of type `id` to `model`, and makes of the type the step that goes on from it.
EagerPart AddEagerPart(const HoistedCell& hoisted, CellTypeId id, Model& model) {
  CellType& step = model.types[Index(id.value())];
  CellType eager;
  eager.id = CellTypeId(static_cast<int64_t>(model.types.size()));
  eager.name = FreeNameAmong(model.types, step.name + " hoisted");
  eager.definition = hoisted.eager;
  eager.weights = step.weights;
  eager.precision = step.precision;
  for (const InputId input : hoisted.reads) eager.in.push_back(step.in[Index(input.value())]);
  eager.in.push_back(step.out);
  eager.out = TableId(static_cast<int64_t>(model.tables.size()));
  // A piece of one chain is one task, which reads the weights once: in smaller ones every task but the first reads them from
  // afar again, for the steps between have sent them out of the caches. More, where more are as fast: where multiplying is so
  // fast that 48 nodes wait for weights all the same.
  eager.least_max_batch = kHoistedSteps;
  eager.priority = step.priority + 1;  // first, so that whoever waits for it steps with the others
  const absl::Span<const Column> sums = hoisted.eager->columns();
  model.tables.push_back({.name = eager.name, .columns = {sums.begin(), sums.end()}});
  step.definition = hoisted.step;
  step.in.push_back(eager.out);
  step.hoisted = hoisted.sums;
  model.types.push_back(std::move(eager));
  return {model.types.back().id, hoisted.reads, hoisted.after_input, hoisted.sums_input};
}

}  // namespace

std::shared_ptr<Model> HoistModel(std::shared_ptr<const Model> cells, const HoistRule& rule) {
  Check(cells->unfolder != nullptr, "a model that is hoisted has an unfolder");
  auto model = std::make_shared<Model>(*cells);
  EagerParts parts(cells->types.size());
  bool any = false;
  for (const CellType& type : cells->types) {
    const std::optional<HoistedCell> hoisted =
        Hoist(*type.definition, BroughtInputs(*cells, type), rule.limits);
    if (!hoisted.has_value() || hoisted->multiply_adds() < rule.least_multiply_adds) continue;
    parts[Index(type.id.value())] = AddEagerPart(*hoisted, type.id, *model);
    any = true;
  }
  if (!any) return nullptr;
  model->unfolder = std::make_shared<HoistingUnfolder>(std::move(cells), std::move(parts));
  return model;
}

}  // namespace cellbatch
