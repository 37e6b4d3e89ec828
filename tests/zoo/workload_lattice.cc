// latticelstm, latticegru
#include "tests/zoo/reference_lattice.h"
#include "tests/zoo/workload_parts.h"

namespace cellbatch::zoo {
namespace {

std::vector<Lattice> Folded(std::vector<Lattice> lattices, const Sizes& sizes) {
  for (Lattice& lattice : lattices) {
    lattice = corpus::Folded(std::move(lattice), sizes.characters, sizes.vocabulary);
  }
  return lattices;
}

struct Cells {
  std::string arc, merge, start;
  int64_t gates;
  std::vector<std::string> learned;  // the start's parameters
};

using Reference = std::vector<Vec> (*)(const WeightSet&, const Lattice&);

Workload MakeLattice(const Sizes& sizes, size_t items, const Cells& cells, Reference reference) {
  Workload made;
  const int64_t h = sizes.hidden;
  WeightSet& weights = made.model.weights;
  for (const std::string cell : {"character", "word"}) {
    weights.AddTable(cell + ".table", cell == "word" ? sizes.vocabulary : sizes.characters,
                     sizes.embedding);
    AddRecurrent(weights, cell, cells.gates, sizes.embedding, h);
    made.model.config += CellType(cell, cells.arc, {{"x", "embed"}},
                                  {"W", "U", "b", "embed/table=" + cell + ".table"});
  }
  for (const std::string& learned : cells.learned) weights.AddBias("start." + learned, h);
  AddLinear(weights, "output", h, sizes.classes);
  made.model.config += CellType("merge", cells.merge, {}, {}) +
                       CellType("start", cells.start, {}, cells.learned) + OutputType() + R"(
lattice {
  character: "character"
  word: "word"
  merge: "merge"
  initial: "start"
  output: "output"
}
)";
  const Data<Lattice> data = WeiboLattices();
  made.source = data.source;
  const std::vector<Lattice> lattices =
      Folded(Some(data.items, items, [](const Lattice& l) { return l.characters.size(); }), sizes);
  for (const Lattice& lattice : lattices) {
    made.requests.push_back({LatticeTensors(lattice), {"OUTPUT", "NODE_OUTPUTS"}, {}});
  }
  made.paper_outputs = {"NODE_OUTPUTS"};
  made.reference = [weights, lattices, reference](size_t i, const Answer&) -> Answer {
    const std::vector<Vec> y = reference(weights, lattices[i]);
    return {{"OUTPUT", y.back()}, {"NODE_OUTPUTS", Joined(y)}};
  };
  return made;
}

}  // namespace

Workload LatticeLstm(const Sizes& sizes, size_t items) {
  return MakeLattice(sizes, items, {"lstm", "merge_lstm", "start_lstm", 4, {"h0", "c0"}},
                     LatticeLstmReference);
}

Workload LatticeGru(const Sizes& sizes, size_t items) {
  return MakeLattice(sizes, items, {"gru_v1", "merge_gru", "start_gru", 3, {"h0"}},
                     LatticeGruReference);
}

}  // namespace cellbatch::zoo
