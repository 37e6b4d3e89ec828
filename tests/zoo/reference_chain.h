// Recurrent networks over sequences, in double, straight from their equations
// (reference/algorithms.md section 8; PyTorch's gate order in the stacked matrices):
//
//   LSTM          i, f, o = σ(b + W x + U h)   c~ = tanh(b + W x + U h)
//                 c' = i⊙c~ + f⊙c              h' = o⊙tanh(c')
//   GRU           r, z = σ(b + W x + U h)      c~ = tanh(b + W x + U (r⊙h))
//                 h' = z⊙h + (1 - z)⊙c~
//
// Nothing of the product is used: neither its cells nor its graphs. Plain values; one thread.
#ifndef CELLBATCH_TESTS_ZOO_REFERENCE_CHAIN_H_
#define CELLBATCH_TESTS_ZOO_REFERENCE_CHAIN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tests/zoo/reference_math.h"
#include "tests/zoo/weights.h"

namespace cellbatch::zoo {

struct LstmState {
  Vec h, c;
};
LstmState operator+(const LstmState& a, const LstmState& b);  // h and c apart

// W and U hold gates i, f, g (c~), o, one above the other.
class LstmEquations {
 public:
  LstmEquations(const WeightSet& weights, const std::string& cell);  // CELL.W, CELL.U, CELL.b
  LstmState Step(const Vec& x, const LstmState& before) const;
  LstmState Zero() const;

 private:
  struct OneGate {
    Mat W, U;
    Vec b;
    Vec operator()(const Vec& x, const Vec& h) const { return b + W * x + U * h; }
  };
  OneGate i_, f_, g_, o_;
};

// The papers' GRU: the reset gate comes before the product. Gates r, z, c~.
class GruEquations {
 public:
  GruEquations(const WeightSet& weights, const std::string& cell);
  Vec Step(const Vec& x, const Vec& before) const;

 private:
  Mat Wr_, Wz_, Wc_, Ur_, Uz_, Uc_;
  Vec br_, bz_, bc_;
};

// h of every step, first to last.
std::vector<Vec> Forward(const LstmEquations& cell, const std::vector<Vec>& x);
// The same from the end to the start; element t is still step t's.
std::vector<Vec> Backward(const LstmEquations& cell, const std::vector<Vec>& x);

// Two bidirectional layers, then y = W_o tanh(W_h [f; b] + b_h) + b_o at every step. Cells are called
// forward0, backward0, forward1, backward1 and output.
std::vector<Vec> TaggerReference(const WeightSet& weights, const std::vector<Vec>& x);

// A word from its characters: [f_last; b_last] of cells char_forward and char_backward.
Vec WordFromCharacters(const WeightSet& weights, const std::vector<Vec>& characters);

}  // namespace cellbatch::zoo

#endif  // CELLBATCH_TESTS_ZOO_REFERENCE_CHAIN_H_
