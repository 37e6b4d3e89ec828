#include "tests/zoo/reference_chain.h"

#include <algorithm>

namespace cellbatch::zoo {

LstmState operator+(const LstmState& a, const LstmState& b) { return {a.h + b.h, a.c + b.c}; }

LstmEquations::LstmEquations(const WeightSet& weights, const std::string& cell) {
  const Mat W = weights.M(cell + ".W"), U = weights.M(cell + ".U");
  const Vec b = weights.V(cell + ".b");
  OneGate* const gates[] = {&i_, &f_, &g_, &o_};
  for (size_t k = 0; k < 4; ++k) *gates[k] = {Gate(W, k, 4), Gate(U, k, 4), Gate(b, k, 4)};
}

LstmState LstmEquations::Step(const Vec& x, const LstmState& before) const {
  const auto& [h, c] = before;
  const Vec i = Sigmoid(i_(x, h)), f = Sigmoid(f_(x, h)), o = Sigmoid(o_(x, h));
  const Vec candidate = Tanh(g_(x, h));
  const Vec c_next = i * candidate + f * c;
  return {o * Tanh(c_next), c_next};
}

LstmState LstmEquations::Zero() const { return {Zeros(i_.b.size()), Zeros(i_.b.size())}; }

GruEquations::GruEquations(const WeightSet& weights, const std::string& cell) {
  const Mat W = weights.M(cell + ".W"), U = weights.M(cell + ".U");
  const Vec b = weights.V(cell + ".b");
  Wr_ = Gate(W, 0, 3), Wz_ = Gate(W, 1, 3), Wc_ = Gate(W, 2, 3);
  Ur_ = Gate(U, 0, 3), Uz_ = Gate(U, 1, 3), Uc_ = Gate(U, 2, 3);
  br_ = Gate(b, 0, 3), bz_ = Gate(b, 1, 3), bc_ = Gate(b, 2, 3);
}

Vec GruEquations::Step(const Vec& x, const Vec& h) const {
  const Vec r = Sigmoid(br_ + Wr_ * x + Ur_ * h);
  const Vec z = Sigmoid(bz_ + Wz_ * x + Uz_ * h);
  const Vec candidate = Tanh(bc_ + Wc_ * x + Uc_ * (r * h));
  return z * h + (1 - z) * candidate;
}

std::vector<Vec> Forward(const LstmEquations& cell, const std::vector<Vec>& x) {
  std::vector<Vec> h;
  LstmState state = cell.Zero();
  for (const Vec& step : x) {
    state = cell.Step(step, state);
    h.push_back(state.h);
  }
  return h;
}

std::vector<Vec> Backward(const LstmEquations& cell, const std::vector<Vec>& x) {
  std::vector<Vec> h = Forward(cell, {x.rbegin(), x.rend()});
  std::reverse(h.begin(), h.end());
  return h;
}

std::vector<Vec> TaggerReference(const WeightSet& weights, const std::vector<Vec>& x) {
  std::vector<Vec> below = x;
  for (const char* layer : {"0", "1"}) {
    const auto f = Forward(LstmEquations(weights, std::string("forward") + layer), below);
    const auto b = Backward(LstmEquations(weights, std::string("backward") + layer), below);
    for (size_t t = 0; t < x.size(); ++t) below[t] = Concat(f[t], b[t]);
  }
  const Mat W_h = weights.M("output.W_h"), W_o = weights.M("output.W_o");
  const Vec b_h = weights.V("output.b_h"), b_o = weights.V("output.b_o");
  std::vector<Vec> y;
  for (const Vec& fb : below) y.push_back(W_o * Tanh(W_h * fb + b_h) + b_o);
  return y;
}

Vec WordFromCharacters(const WeightSet& weights, const std::vector<Vec>& characters) {
  const auto f = Forward(LstmEquations(weights, "char_forward"), characters);
  const auto b = Backward(LstmEquations(weights, "char_backward"), characters);
  return Concat(f.back(), b.front());
}

}  // namespace cellbatch::zoo
