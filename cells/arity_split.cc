#include "cells/arity_split.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "cells/check.h"
#include "cells/free_name.h"
#include "cells/unfold/unfolder.h"
#include "fmt/format.h"

namespace cellbatch {
namespace {

size_t Index(int64_t i) { return static_cast<size_t>(i); }

bool Sums(const CellType& type, InputId input) {
  return type.definition->inputs()[Index(input.value())].arity == Arity::kSum;
}

bool Sums(const CellType& type) {
  const absl::Span<const Input> inputs = type.definition->inputs();
  return std::any_of(inputs.begin(), inputs.end(),
                     [](const Input& in) { return in.arity == Arity::kSum; });
}

// Writes a sealed graph again, with other types where rows are summed.
class ArityUnfolder : public Unfolder {
 public:
  // first_variant: by type, the type for no rows (the others follow it); invalid where it sums none.
  ArityUnfolder(std::shared_ptr<const Model> cells, std::vector<CellTypeId> first_variant,
                int32_t most_arity)
      : cells_(std::move(cells)),
        first_variant_(std::move(first_variant)),
        most_arity_(most_arity) {}

  absl::Status Unfold(const RequestInput& input, CellGraph& graph) const override {
    CellGraph cells;
    if (absl::Status s = cells_->unfolder->Unfold(input, cells); !s.ok()) return s;
    if (cells.grows()) return absl::UnimplementedError("a graph that grows is not split by arity");
    if (absl::Status s = cells.Seal(*cells_, 1); !s.ok()) return s;
    for (const ReturnedTensor& t : cells.tensors())
      graph.AddTensor(t.name, t.type, t.dims, t.names);
    for (const Subgraph& s : cells.subgraphs()) Add(s, cells, graph);
    for (const StopReport& r : cells.stop_reports()) graph.ReturnStop(r.chain, r.tensors);
    graph.KeepToo(std::move(cells));
    return absl::OkStatus();
  }
  int32_t phases() const override { return cells_->unfolder->phases(); }
  RequestDescription Describe() const override { return cells_->unfolder->Describe(); }

 private:
  CellTypeId TypeOf(const Subgraph& s, absl::Span<const Link> links) const {
    const CellTypeId first = first_variant_[Index(s.type.value())];
    if (!first.valid()) return s.type;
    const CellType& type = cells_->type(s.type);
    const auto arity = std::count_if(links.begin(), links.end(),
                                     [&](const Link& l) { return Sums(type, l.input); });
    return arity < most_arity_ ? CellTypeId(first.value() + arity) : s.type;
  }

  void Add(const Subgraph& s, const CellGraph& cells, CellGraph& graph) const {
    if (!s.type.valid()) {
      graph.AddInput(s.table, s.length, s.data, s.brought);
      return;
    }
    const absl::Span<const Link> links =
        cells.links().subspan(Index(s.first_link), Index(s.num_links));
    graph.SetPhase(s.phase);
    const SubgraphId made = graph.Add(TypeOf(s, links), s.length, links, s.stop);
    graph.SetPlace(made, s.place);
    const absl::Span<const StopReport> reports = cells.stop_reports();
    for (const ReturnPiece& piece :
         cells.returns().subspan(Index(s.first_return), Index(s.num_returns))) {
      // What a stop returns, ReturnStop says again.
      const bool words = std::any_of(reports.begin(), reports.end(), [&](const StopReport& r) {
        return r.chain == made && r.tensors.words == piece.where.tensor;
      });
      if (!words) graph.Return(made, piece.column, piece.nodes, piece.where);
    }
  }

  std::shared_ptr<const Model> cells_;
  std::vector<CellTypeId> first_variant_;
  int32_t most_arity_;
};

}  // namespace

std::shared_ptr<Model> SplitByArity(std::shared_ptr<const Model> cells, int32_t most_arity) {
  Check(cells->unfolder != nullptr, "a model that is split has an unfolder");
  auto model = std::make_shared<Model>(*cells);
  std::vector<CellTypeId> first_variant;
  for (const CellType& type : cells->types) {
    first_variant.emplace_back();
    if (!Sums(type)) continue;
    first_variant.back() = CellTypeId(static_cast<int64_t>(model->types.size()));
    for (int32_t arity = 0; arity < most_arity; ++arity) {
      CellType variant = type;
      variant.id = CellTypeId(static_cast<int64_t>(model->types.size()));
      variant.name = FreeNameAmong(model->types, fmt::format("{} of {}", type.name, arity));
      model->types.push_back(std::move(variant));
    }
  }
  model->unfolder =
      std::make_shared<ArityUnfolder>(std::move(cells), std::move(first_variant), most_arity);
  return model;
}

}  // namespace cellbatch
