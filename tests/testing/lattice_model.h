// A small LatticeLSTM for tests, its requests, and what it must answer: in double, straight from the
// equations (algorithms.md section 8), knowing nothing of cells, graphs or unfolders.
#ifndef CELLBATCH_TESTS_TESTING_LATTICE_MODEL_H_
#define CELLBATCH_TESTS_TESTING_LATTICE_MODEL_H_

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "cells/cell_graph.h"
#include "cells/model.h"
#include "cells/unfold/lattice_unfolder.h"

namespace cellbatch::testing {

struct LatticeRequest {
  std::vector<int32_t> chars;
  std::vector<int32_t> words;    // [m, 3]
  std::vector<int32_t> lengths;  // empty: one lattice

  // Borrows the vectors.
  RequestInput Input(std::vector<std::string_view> outputs = {}) const;
};

// Up to `most` characters, words like a dictionary's (mostly of two or three), in no order.
LatticeRequest RandomLattice(std::mt19937_64& random, int most);

// Lattices of `file` in the data folder, their ids folded to `characters` and `words`. Empty: the
// folder is not there.
std::vector<LatticeRequest> ReadLattices(const std::string& file, int32_t characters,
                                         int32_t words);

struct LatticeModelSpec {
  int32_t hidden = 4, embedding = 3;
  int32_t characters = 20, words = 30;  // vocabularies
  bool initial = true, output = true;
  bool chains = true;  // the character cell carries its state
  int64_t max_characters = 400, max_nodes = 4000;
};

class LatticeModel {
 public:
  explicit LatticeModel(const LatticeModelSpec& spec);

  std::shared_ptr<const Model> model() const { return model_; }
  const LatticeSpec& spec() const { return spec_; }
  const Unfolder& unfolder() const { return *model_->unfolder; }

  // Unfolded and sealed; ends the process where that fails.
  CellGraph Graph(const LatticeRequest& request, std::vector<std::string_view> outputs = {}) const;

  struct Answers {
    std::vector<double> h, c, y;  // of states 1 to n, end to end
  };
  Answers Reference(const LatticeRequest& request) const;

  // The same model as a folder of shipped cells, config.textproto and version 1. `extra` is added to the config. Ends
  // the process where it cannot be written.
  void Save(const std::string& folder, const std::string& extra = "") const;

 private:
  using Vector = std::vector<double>;
  struct State {
    Vector h, c;
  };
  State Arc(CellTypeId type, int32_t id, const State& before) const;

  LatticeModelSpec sizes_;
  std::shared_ptr<Model> model_;
  LatticeSpec spec_;
};

}  // namespace cellbatch::testing

#endif  // CELLBATCH_TESTS_TESTING_LATTICE_MODEL_H_
