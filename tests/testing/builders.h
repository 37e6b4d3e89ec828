// Cells, weights and small models for tests, made in a line each.
//
// Sizes: D input width, H units, V vocabulary, E embedding width. Gate order is PyTorch's (LSTM: i
// f g o; GRU: r z n). Column and input names: tables "x" {x FP32[D]} and "token" {token INT32[1]};
// recurrent cells read input "x" and carry "before"; they leave {h, c} or {h}.
#ifndef CELLBATCH_TESTS_TESTING_BUILDERS_H_
#define CELLBATCH_TESTS_TESTING_BUILDERS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cells/cell_definition.h"
#include "cells/cell_type.h"
#include "cells/model.h"
#include "tests/testing/cell_builder.h"

namespace cellbatch::testing {

// Stacked weights W [4H, D], U [4H, H], biases b_in and b_rec: as PyTorch's nn.LSTM. `x` names the
// column that input "x" reads ("h" for a second layer).
CellDefinition LstmCell(int32_t d, int32_t h, const std::string& x = "x");
// The same function written with a matrix and one bias for each gate.
CellDefinition LstmCellByGate(int32_t d, int32_t h);
// One product over the concatenation (x, h), one bias.
CellDefinition LstmCellConcat(int32_t d, int32_t h);
// Reads a token and looks its vector up: x = E[token].
CellDefinition TokenLstmCell(int32_t v, int32_t e, int32_t h);
// Two inputs x (of d1) and y (of d2), joined: layer 2 of a bidirectional stack.
CellDefinition TwoInputLstmCell(int32_t d1, int32_t d2, int32_t h);
CellDefinition GruCell(int32_t d, int32_t h,
                       const std::string& x = "x");  // reset after the product (PyTorch)
CellDefinition GruV1Cell(int32_t d, int32_t h);      // reset before the product (the papers)
// GRUs that read one x, with states and weights of their own, of h units or (unlike) of h, h + 1, ..: in each the order of one
// matrix contradicts the other's. Leaves each state, or, where they are more than columns, their sum. 27 that are alike, or
// 25 that are not, are nearly all the operators that a cell can have.
CellDefinition GrusSideBySide(int32_t h, int count, bool alike = true);
CellDefinition ElmanCell(int32_t d, int32_t h, OpKind activation = OpKind::kTanh);
CellDefinition LinearCell(int32_t d, int32_t n, const std::string& x = "x");  // y = W x + b
CellDefinition EmbeddingCell(int32_t v, int32_t e);  // x = E[token]; leaves x
// Child-sum: h = tanh(W x + U sum(h) + b); input "children" is a sum of any number of nodes.
CellDefinition ChildSumCell(int32_t d, int32_t h);
// Logits, softmax and the best word of a state: leaves {word, p}.
CellDefinition DecodeCell(int32_t h, int32_t v);
// Operators drawn at random over vectors of a few odd widths: products, slices, concatenations,
// reductions. The result has at least one product and a carry. Values stay of order one, and no
// operator is near a singularity.
CellDefinition RandomCell(uint64_t seed);
// The same with operators over parameters alone wherever a parameter may stand: as operands, addends, outputs, weights.
CellDefinition RandomCellOfParameters(uint64_t seed);

// Uniform in [-scale, scale] · 1/sqrt(fan in), from the seed alone (the same on every machine).
Weights RandomWeights(const CellDefinition& cell, uint64_t seed, float scale = 1.0f);
std::vector<float> RandomFloats(int64_t n, uint64_t seed, float scale = 1.0f);

// A model, one cell type after the other. Types that leave the same columns share a table; a carry
// reads it. Other inputs read a request's table with their one column (made if it is not there),
// unless Connect says otherwise.
class ModelBuilder {
 public:
  explicit ModelBuilder(std::string name = "model");
  CellTypeId Add(CellDefinition cell, uint64_t weight_seed);
  // Input `input` of type `to` reads what type `from` leaves.
  void Connect(CellTypeId to, const std::string& input, CellTypeId from);
  // Validates, or ends the process.
  std::shared_ptr<Model> Build();

 private:
  TableId TableWith(const std::string& name, std::vector<Column> columns);

  std::shared_ptr<Model> model_;
};

// The common case: one cell, its inputs from the request.
std::shared_ptr<Model> OneCellModel(CellDefinition cell, uint64_t weight_seed = 1);

// The table named `name`; ends the process if there is none.
TableId FindTable(const Model& model, const std::string& name);

}  // namespace cellbatch::testing

#endif  // CELLBATCH_TESTS_TESTING_BUILDERS_H_
